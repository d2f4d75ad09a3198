//! `entente waits`: who waits for whom, and deadlocks.

use clap::Args;
use serde_json::Value;

use crate::Done;
use crate::remote::Remote;

/// List who waits for whom, and the deadlocks among them
#[derive(Debug, Args)]
pub(crate) struct Waits {
    #[command(flatten)]
    remote: Remote,
    /// Only deadlocks
    #[arg(long)]
    deadlocks: bool,
}

impl Waits {
    pub(crate) async fn run(self) -> Done {
        let found = self.remote.api()?.get("/waits", &[]).await?;
        if self.deadlocks {
            return self.remote.show(&found["deadlocks"], &["id", "agents", "found_at"]);
        }
        if self.remote.json {
            return self.remote.show(&found, &[]);
        }
        let stuck = |wait: &Value| {
            let deadlocks = found["deadlocks"].as_array();
            let mut waits =
                deadlocks.into_iter().flatten().filter_map(|one| one["waits"].as_array()).flatten();
            waits.any(|other| other == wait)
        };
        let mut waits = found["waits"].clone();
        for wait in waits.as_array_mut().into_iter().flatten() {
            wait["deadlock"] = stuck(wait).into();
        }
        self.remote.show(&waits, &["from", "to", "kind", "ref", "since", "deadlock"])
    }
}
