//! The look-around: one statement finds the work that time or another server has made due, and wakes the background
//! tasks that have some (`crates/bridges/src/due.rs`). So an idle server costs the database a few statements per
//! second.
//!
//! A hint, not the truth: each task also runs every [`UNSEEN`] without one. If the look fails or takes long, for example
//! because one table is locked, all tasks are woken, and each asks for itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use entente_bridges::{Ctx, due};
use entente_runtime::tasks::Tasks;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::sweeps::Sweep;
use super::{FEED_TURN, every, keep, note, tick, timely};

/// Interval of the look.
const INTERVAL: Duration = Duration::from_millis(250);

/// Time after which a look counts as failed: a hundred times its usual duration.
const LATE: Duration = Duration::from_millis(500);

/// Longest time between two runs of a task, whatever the look says.
pub const UNSEEN: Duration = Duration::from_secs(30);

/// Fans events out to webhooks.
pub const FAN_OUT: &str = "fan-out";
/// Writes entries of agents' inboxes.
pub const INBOXES: &str = "inboxes";
/// Sends webhook deliveries.
pub const DELIVERIES: &str = "deliveries";
/// Sends notifications of people.
pub const NOTIFICATIONS: &str = "notifications";
/// Sends push notifications of A2A tasks.
pub const TASK_PUSHES: &str = "task_pushes";
/// Revokes credentials at their upstreams.
pub const REVOCATIONS: &str = "revocations";
/// Transfers between protocols.
pub const BRIDGES: &str = "bridges";
/// Sends federation messages.
pub const LETTERS: &str = "letters";
/// Drops changed keys from the cache.
pub const KEYS: &str = "keys";

/// Renews the copy of the agents whose writes have to name their epoch.
pub const STRICT: &str = "strict";

/// Indexes words for the search.
pub const SEARCH: &str = "search";

/// Reads agents' talk for loops and storms.
pub const LOOPS: &str = "loops";

/// Renews the copy of the agents in loops and storms.
pub const LOOP_HOLDS: &str = "loop_holds";

/// Renews the copy of the stops in force.
pub const STOPS: &str = "stops";

/// Renews the copy of the quotas.
pub const QUOTAS: &str = "quotas";

/// The words of the look that are no sweep's name.
const OTHERS: [&str; 15] = [
    FAN_OUT,
    INBOXES,
    DELIVERIES,
    NOTIFICATIONS,
    TASK_PUSHES,
    REVOCATIONS,
    BRIDGES,
    LETTERS,
    KEYS,
    STRICT,
    STOPS,
    QUOTAS,
    SEARCH,
    LOOPS,
    LOOP_HOLDS,
];

/// Findings of the last look, by its words.
#[derive(Debug)]
pub struct Lookout(HashMap<&'static str, Notify>);

impl Default for Lookout {
    fn default() -> Self {
        let sweeps = Sweep::ALL.iter().copied().filter(|sweep| sweep.is_announced()).map(Sweep::name);
        Self(sweeps.chain(OTHERS).map(|word| (word, Notify::new())).collect())
    }
}

impl Lookout {
    /// Resolves when a look found this work since the last call, or after [`UNSEEN`].
    pub async fn found(&self, word: &str) {
        match self.0.get(word) {
            Some(due) => tokio::select! {
                () = due.notified() => {}
                () = sleep(UNSEEN) => {}
            },
            None => sleep(UNSEEN).await,
        }
    }

    /// Returns all words, for the test that compares them with the query's.
    #[must_use]
    pub fn words(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }

    fn wake(&self, word: &str) {
        if let Some(due) = self.0.get(word) {
            due.notify_one();
        }
    }

    fn wake_all(&self) {
        self.0.values().for_each(Notify::notify_one);
    }
}

/// Starts the look-around.
pub fn start(ctx: &Ctx, lookout: &Arc<Lookout>, tasks: &Tasks) {
    let lookout = Arc::clone(lookout);
    keep(ctx, tasks, "look-around", move |ctx, stopping| drive(ctx, Arc::clone(&lookout), stopping));
}

async fn drive(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    let mut ticks = every(INTERVAL);
    while tick(&mut ticks, &stopping).await.is_some() {
        if stopping.run_until_cancelled(look(&ctx, &lookout)).await.is_none() {
            return;
        }
    }
}

async fn look(ctx: &Ctx, lookout: &Lookout) {
    let mut look = Box::pin(timely(FEED_TURN, due::look(ctx)));
    let found = loop {
        tokio::select! {
            found = &mut look => break found,
            () = sleep(LATE) => lookout.wake_all(),
        }
    };
    match found {
        Ok(found) => found.iter().filter(|(_, due)| *due).for_each(|(word, _)| lookout.wake(word)),
        Err(failure) => {
            note("look-around", &failure);
            lookout.wake_all();
        }
    }
}
