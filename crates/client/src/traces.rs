//! `entente trace`: the events of one trace, across intents.

use clap::Args;
use entente_domain::limits::PAGE;
use serde_json::Value;

use super::Done;
use super::remote::Remote;

/// Show the events of a trace, on every intent that you can read
#[derive(Debug, Args)]
pub(super) struct Trace {
    #[command(flatten)]
    remote: Remote,
    /// The trace's id: 32 hexadecimal digits
    trace_id: String,
}

impl Trace {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let mut events = Vec::new();
        loop {
            let page = [("limit", PAGE.to_string()), ("offset", events.len().to_string())];
            let query: Vec<_> = page.into_iter().chain([("trace_id", self.trace_id.clone())]).collect();
            let Value::Array(more) = api.get("/events", &query).await? else { break };
            // A page may be cut short because of its size: only an empty one is the last.
            if more.is_empty() {
                break;
            }
            events.extend(more);
        }
        self.remote.show(
            &Value::Array(events),
            &["created_at", "intent_id", "sequence", "event_type", "actor", "id", "parent_event_id"],
        )
    }
}
