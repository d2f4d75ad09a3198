//! The tool for an agent's inbox: it marks entries seen, and reads the newer ones, or waits for them.

use std::time::Duration;

use entente_domain::identity::keys::Dialect;
use entente_domain::inbox::Attention;
use entente_domain::refusal::{Code, Refusal};
use entente_http::kernel::inbox::{MOST, PageBody};
use entente_kernel::inbox::reading::{self, ReadAsk};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::mcp::shapes::{flag, free, gives, list, may, must, nullable, takes, text, whole};
use crate::mcp::{Answer, Call, Hints, Tool, ToolResult, WAIT_SECONDS, within};

/// Default number of entries.
const STEP: u32 = 20;

/// Returns the tool of this file.
pub fn tools() -> [Tool; 1] {
    [Tool {
        name: "inbox",
        title: "Read your inbox",
        about: "Returns what reached you: messages, mail, ended jobs, decisions, tasks. Repeat with `seen` once you have dealt with \
                the entries; until then they come again.",
        takes: takes(vec![
            may("seen", whole("`next_place` of the answer that you have dealt with.", 0, i64::MAX)),
            may("wait_s", whole("Seconds to wait for an entry.", 0, i64::from(WAIT_SECONDS))),
            may("attention", text("Some of `wake,next,digest`.")),
            may("reader", text("Your session's name; each reader has its own place.")),
            may("expand", flag("List the digest's entries.")),
            may("limit", whole("Maximum number of entries; defaults to 20.", 1, i64::from(MOST))),
        ]),
        example: json!({ "seen": 42, "wait_s": 20 }),
        gives: gives(vec![
            must("entries", list(entry(), "The entries.")),
            must("digest", nullable(free("Counts and newest entries."))),
            must("next_place", json!({ "type": "integer" })),
            must("has_more", json!({ "type": "boolean" })),
            must("missed", json!({ "type": "integer" })),
        ]),
        hints: Hints::marks(),
        names: &[],
        run: |call| Box::pin(inbox(call)),
    }]
}

fn entry() -> Value {
    gives(vec![
        must("place", json!({ "type": "integer" })),
        must("attention", text("Its level.")),
        must("kind", text("Kind of the object.")),
        must("what", text("What happened.")),
        may("reference", text("Id of the object.")),
        may("message", free("The message.")),
    ])
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    seen: Option<i64>,
    wait_s: Option<u32>,
    attention: Option<String>,
    reader: Option<String>,
    #[serde(default)]
    expand: bool,
    limit: Option<u32>,
}

fn levels(said: Option<&str>) -> Result<Option<Vec<Attention>>, Refusal> {
    let Some(said) = said else { return Ok(None) };
    let levels = Attention::parse_list(said);
    levels.map(Some).ok_or_else(|| {
        let message = format!("`{said}` are no levels; say some of `wake,next,digest`.");
        Refusal::field(Code::InvalidRequest, "attention", "value", message)
    })
}

async fn inbox(call: Call) -> ToolResult {
    let said: Args = call.read()?;
    let patience = within("wait_s", said.wait_s, 0, 0, WAIT_SECONDS)?;
    let ask = ReadAsk {
        reader: said.reader,
        since: None,
        levels: levels(said.attention.as_deref())?,
        expand: said.expand,
        limit: within("limit", said.limit, STEP, 1, MOST)?,
    };
    let (ctx, caller) = (call.ctx(), &call.caller);
    let agent = &caller.agent;
    if let Some(place) = said.seen {
        reading::mark_seen(ctx, caller, agent, ask.reader.as_deref(), place).await?;
    }
    let page = if patience == 0 {
        reading::read_now(ctx, caller, agent, &ask).await?
    } else {
        let _place = call.waits()?;
        let waited = reading::wait(ctx, caller, agent, &ask, Duration::from_secs(patience.into()));
        match call.unless_stopping(waited).await {
            Some(page) => page?,
            None => reading::read_now(ctx, caller, agent, &ask).await?,
        }
    };
    let body = PageBody::new(agent, &page, ctx.settings.strict, Dialect::Standard);
    Answer::new(format!("{}.", body.summary()), &body)
}
