//! Scenario of envelopes: a signed task, its result, and a refused copy.

use entente_domain::aee::envelopes::drafts::EnvelopeDraft;
use entente_domain::aee::envelopes::signing::{SigningKey, sign};
use entente_domain::aee::envelopes::{EnvelopeType, Priority};
use entente_domain::clock::Clock as _;
use entente_domain::identity::signatures::Signer;
use entente_domain::ids::{Chance as _, envelope_id};
use entente_runtime::environment::{OsChance, SystemClock};
use serde_json::{Map, Value, json};

use super::{Stage, hold, refused, say, text};
use crate::cli::{Done, Failure};

/// AEE intent of the exchanged envelopes.
const PURPOSE: &str = "data.rows.count";

/// Builds an unsigned envelope.
fn written(
    kind: EnvelopeType,
    sender: &str,
    recipient: &str,
    corr: &str,
    reply_to: Option<&str>,
    payload: Value,
) -> Result<Map<String, Value>, Failure> {
    let priority = Priority::Normal;
    let one = EnvelopeDraft {
        kind,
        sender,
        recipient,
        purpose: PURPOSE,
        corr,
        reply_to,
        priority,
        payload,
        trace: None,
    };
    Ok(one.write(SystemClock.now(), &OsChance::default())?.members)
}

impl Stage {
    /// A task is signed, verified and answered; replayed and forged copies are refused.
    pub(super) async fn post(&self) -> Done {
        say("\n13. agent.researcher sends agent.data a signed task by post; any AEE client could")?;
        let chance = OsChance::default();
        let mut seed = [0; 32];
        seed.chunks_mut(16).for_each(|half| half.copy_from_slice(&chance.bits().to_le_bytes()));
        let signer = Signer::from_seed(&seed);
        let key =
            json!({ "kid": "demo", "algorithm": "ed25519", "public_key": signer.public_key().to_string() });
        self.researcher.post("/aee/keys", &key).await?;
        let corr = envelope_id(SystemClock.now(), &chance);
        let (researcher, data) = ("agent.researcher", "agent.data");
        let mut task =
            written(EnvelopeType::Task, researcher, data, &corr, None, json!({ "table": "visits" }))?;
        sign(&mut task, "demo", &SigningKey::Ed25519(Box::new(signer)))?;
        let task = Value::Object(task);
        let receipt = self.researcher.post("/aee/envelopes", &task).await?;
        say(&format!(
            "  taken in as number {} of agent.data's mailbox, vouched for by {}",
            receipt["seq"], receipt["verified"]
        ))?;
        hold(receipt["verified"]["by"] == "sig", "the signature vouches for nothing")?;
        let page = self.data.get("/aee/mailboxes/agent.data", &[]).await?;
        let item = &page["items"][0];
        hold(item["envelope"] == task, "what lies in the mailbox is not what was sent")?;
        say(&format!("  agent.data takes out {} and answers", text(&item["envelope"], "id")?))?;
        let asked = Some(text(&task, "id")?);
        let answer =
            written(EnvelopeType::Result, data, researcher, &corr, asked, json!({ "rows": 48_211 }))?;
        let answer = Value::Object(answer);
        self.data.post("/aee/envelopes", &answer).await?;
        self.data.post("/aee/mailboxes/agent.data/ack", &json!({ "up_to": item["seq"] })).await?;
        let thread = self.researcher.get(&format!("/aee/threads/{corr}"), &[]).await?;
        let pair = &thread["envelopes"][0]["pairs"][0];
        hold(pair["status"] == "closed", "the task is not over")?;
        say(&format!(
            "  the thread: a task, below it its result {}; the pair is {}",
            thread["envelopes"][1]["envelope"]["payload"], pair["status"]
        ))?;
        say("  somebody sends a copy of the task once more")?;
        refused(self.researcher.post("/aee/envelopes", &task).await, "duplicate_id")?;
        say("  somebody changes it on the way")?;
        let mut forged = task;
        forged["id"] = json!(envelope_id(SystemClock.now(), &chance));
        refused(self.researcher.post("/aee/envelopes", &forged).await, "bad_signature")
    }
}
