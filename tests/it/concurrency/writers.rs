//! The group commit (design §4) by itself: one answer for each command in order, also around a defect.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use entente::db::commit::{Deed, GroupCommit};
use entente::shutdown::Tasks;
use entente::telemetry::Metrics;
use futures_util::future::join_all;

/// Adds up what it is told, per writer; what is told to fail does.
struct Adding {
    batches: AtomicU64,
}

/// The number that a batch with it does not survive.
const FATAL: u64 = 666;

impl Deed for Adding {
    type Command = u64;
    type Answer = u64;
    type Memory = u64;

    async fn apply(&self, sum: &mut u64, commands: Vec<u64>) -> Vec<u64> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(!commands.contains(&FATAL), "this one is meant to fail");
        commands
            .into_iter()
            .map(|command| {
                *sum += command;
                *sum
            })
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_panics_costs_its_own_callers_and_nobody_else() {
    let tasks = Tasks::new(&Metrics::new());
    let commits = GroupCommit::start(Adding { batches: AtomicU64::new(0) }, 2, &tasks, &Metrics::new());
    assert_eq!(commits.submit(0, vec![1, 2, 3]).await, [Ok(1), Ok(3), Ok(6)]);
    assert!(commits.submit(0, vec![FATAL]).await[0].is_err());
    // The writer goes on, without what it believed before.
    assert_eq!(commits.submit(0, vec![5]).await, [Ok(5)]);
    assert_eq!(commits.submit(1, vec![7]).await, [Ok(7)]);
    // Many at once: each is answered, in the order of its own.
    let answers = join_all((0..50).map(|_| commits.submit(0, vec![1, 1]))).await;
    for pair in &answers {
        let [Ok(first), Ok(second)] = pair[..] else { panic!("{pair:?}") };
        assert!(first < second);
    }
    // What waits when the server stops is done; what comes later is refused.
    let (late, ()) = tokio::join!(commits.submit(0, vec![1; 20]), async {
        tasks.stop(Duration::from_secs(5)).await;
    });
    assert!(late.iter().all(Result::is_ok), "{late:?}");
    assert!(commits.submit(0, vec![1]).await[0].is_err());
}
