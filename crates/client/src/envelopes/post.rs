//! `entente envelope send`, `fetch` and `held`: sending envelopes, reading mailboxes, and listing tasks that
//! need approval.

use std::io::{self, Write as _};

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::failures::Placed;
use super::super::output::{cell, print_json};
use super::super::remote::{Api, Remote, segment};
use super::super::{Done, Failure};
use super::Given;

#[derive(Debug, Args)]
pub(super) struct Send {
    #[command(flatten)]
    given: Given,
}

impl Send {
    pub(super) async fn run(self, remote: &Remote) -> Done {
        let api = remote.api()?;
        let mut receipts = Vec::new();
        for found in self.given.read()? {
            let place = found.place;
            let sent = api.post_text("/aee/envelopes", found.bytes).await;
            let receipt = sent.map_err(|failure| Placed { place, failure })?;
            if !remote.json {
                remote.show(&receipt, &[])?;
            }
            receipts.push(receipt);
        }
        match (remote.json, receipts.as_slice()) {
            (_, []) => Err("there is no envelope".into()),
            (true, [one]) => print_json(one),
            (true, _) => print_json(&Value::from(receipts)),
            (false, _) => Ok(()),
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Fetch {
    /// The id of one envelope [default: all in the mailbox]
    #[arg(conflicts_with_all = ["entity", "after", "limit", "wait", "ack"])]
    id: Option<String>,
    /// The mailbox's owner [default: yourself]
    #[arg(long)]
    entity: Option<String>,
    /// Only envelopes after this number [default: those not yet acknowledged]
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Maximum number of envelopes
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Seconds to wait if the mailbox is empty
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u32>,
    /// Acknowledge them, which removes them from the mailbox
    #[arg(long)]
    ack: bool,
    /// Print the envelopes alone, one per line, as their senders wrote them
    #[arg(long)]
    bare: bool,
}

/// An envelope in a mailbox, with its original text.
#[derive(Debug, Deserialize)]
struct Item {
    seq: u64,
    envelope: Box<RawValue>,
}

/// An envelope fetched by its id, which has no sequence number.
#[derive(Debug, Deserialize)]
struct Stored {
    envelope: Box<RawValue>,
}

/// The used part of a page.
#[derive(Debug, Deserialize)]
struct StoredPage {
    items: Vec<Item>,
}

impl Fetch {
    pub(super) async fn run(self, remote: &Remote) -> Done {
        let api = remote.api()?;
        if let Some(id) = &self.id {
            let text = text(&api, &format!("/aee/envelopes/{}", segment(id))).await?;
            return if self.bare {
                bare([&serde_json::from_slice::<Stored>(&text)?.envelope])
            } else {
                remote.show(&serde_json::from_slice(&text)?, &[])
            };
        }
        let entity = match &self.entity {
            Some(entity) => entity.clone(),
            None => api.speaker().await?,
        };
        let mailbox = format!("/aee/mailboxes/{}", segment(&entity));
        let numbers =
            [("limit", Some(self.limit.into())), ("after", self.after), ("wait", self.wait.map(u64::from))];
        let query: Vec<String> =
            numbers.iter().filter_map(|(name, number)| Some(format!("{name}={}", (*number)?))).collect();
        let path = format!("{mailbox}?{}", query.join("&"));
        let text = text(&api, &path).await?;
        let page: StoredPage = serde_json::from_slice(&text)?;
        if self.bare {
            bare(page.items.iter().map(|item| &item.envelope))?;
        } else {
            let all: Value = serde_json::from_slice(&text)?;
            if remote.json { print_json(&all)? } else { print(&all["items"])? }
        }
        // Envelopes that could not be printed stay in the mailbox.
        if self.ack && !page.items.is_empty() {
            let seqs: Vec<u64> = page.items.iter().map(|item| item.seq).collect();
            api.post(&format!("{mailbox}/ack"), &json!({ "seqs": seqs })).await?;
        }
        Ok(())
    }
}

async fn text(api: &Api, path: &str) -> Result<Vec<u8>, Failure> {
    Ok(api.open(path).await?.bytes().await?.to_vec())
}

fn bare<'a>(envelopes: impl IntoIterator<Item = &'a Box<RawValue>>) -> Done {
    let mut out = io::stdout().lock();
    for envelope in envelopes {
        // Outside of strings, JSON has line feeds only between tokens, where a space is equivalent.
        writeln!(out, "{}", envelope.get().replace(['\n', '\r'], " "))?;
    }
    out.flush()?;
    Ok(())
}

fn print(items: &Value) -> Done {
    let mut out = io::stdout().lock();
    for item in items.as_array().into_iter().flatten() {
        let envelope = &item["envelope"];
        writeln!(
            out,
            "{:>5}  {}  {:<6}  {} → {}  {}  {}  {}{}",
            cell(&item["seq"]),
            cell(&item["received_at"]),
            cell(&envelope["type"]),
            cell(&envelope["from"]),
            cell(&envelope["to"]),
            cell(&envelope["intent"]),
            envelope["payload"],
            cell(&envelope["id"]),
            unverified(item),
        )?;
    }
    out.flush()?;
    Ok(())
}

/// Marks an envelope with a signature that nobody has checked.
fn unverified(item: &Value) -> &'static str {
    if item["verified"]["sig"] == "unverified" { "  (signature not verified)" } else { "" }
}

#[derive(Debug, Args)]
pub(super) struct Held {
    /// Maximum number of tasks
    #[arg(long, default_value_t = 20)]
    limit: u32,
}

impl Held {
    pub(super) async fn run(self, remote: &Remote) -> Done {
        let waiting = remote.api()?.get("/aee/approvals", &[("limit", self.limit.to_string())]).await?;
        if remote.json {
            return print_json(&waiting);
        }
        let mut out = io::stdout().lock();
        for task in waiting.as_array().into_iter().flatten() {
            let envelope = &task["envelope"];
            writeln!(
                out,
                "{}  {} → {}  {}  {}  {}{}",
                cell(&task["received_at"]),
                cell(&envelope["from"]),
                cell(&envelope["to"]),
                cell(&envelope["intent"]),
                envelope["payload"],
                cell(&task["id"]),
                unverified(task),
            )?;
        }
        out.flush()?;
        Ok(())
    }
}
