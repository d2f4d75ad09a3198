//! `entente trace`: what one trace has left in the logs, across intents.

use clap::Args;

use super::Done;
use super::remote::Remote;

/// Show what belongs to a trace, on every intent that you can read
#[derive(Debug, Args)]
pub(super) struct Trace {
    #[command(flatten)]
    remote: Remote,
    /// The trace's id: 32 hexadecimal digits
    trace_id: String,
}

impl Trace {
    pub(super) async fn run(self) -> Done {
        let query = [("trace_id", self.trace_id), ("limit", "1000".to_owned())];
        let events = self.remote.api()?.get("/events", &query).await?;
        self.remote.show(
            &events,
            &["created_at", "intent_id", "sequence", "event_type", "actor", "id", "parent_event_id"],
        )
    }
}
