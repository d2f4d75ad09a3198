//! The group commit in isolation: one answer per command in order, even around a panic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use entente_runtime::metrics::Metrics;
use entente_runtime::tasks::Tasks;
use entente_store::commit::{BatchHandler, GroupCommit, Unanswered};
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::timeout;

/// Adds up its commands per writer and panics on [`FATAL`].
struct Adding {
    batches: AtomicU64,
}

/// The command that makes its batch panic.
const FATAL: u64 = 666;

impl BatchHandler for Adding {
    type Command = u64;
    type Answer = u64;
    type Memory = u64;

    fn memory(&self) -> u64 {
        0
    }

    fn lane(_command: &u64) -> u64 {
        0
    }

    async fn apply(&self, sum: &mut u64, commands: Vec<u64>) -> Vec<Result<u64, u64>> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(!commands.contains(&FATAL), "this one is meant to fail");
        commands
            .into_iter()
            .map(|command| {
                *sum += command;
                Ok(*sum)
            })
            .collect()
    }

    async fn wait(&self, _commands: Vec<u64>) -> Vec<u64> {
        unreachable!("nothing is locked here")
    }

    async fn probe(&self) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_panics_costs_its_own_callers_and_nobody_else() {
    let tasks = Tasks::new(&Metrics::new());
    let commits = GroupCommit::start(Adding { batches: AtomicU64::new(0) }, 2, &tasks, &Metrics::new());
    assert_eq!(commits.submit(0, vec![1, 2, 3]).await, [Ok(1), Ok(3), Ok(6)]);
    assert!(commits.submit(0, vec![FATAL]).await[0].is_err());
    // The writer continues with fresh memory.
    assert_eq!(commits.submit(0, vec![5]).await, [Ok(5)]);
    assert_eq!(commits.submit(1, vec![7]).await, [Ok(7)]);
    // Concurrent calls: each gets its answers in its own order.
    let answers = join_all((0..50).map(|_| commits.submit(0, vec![1, 1]))).await;
    for pair in &answers {
        let [Ok(first), Ok(second)] = pair[..] else { panic!("{pair:?}") };
        assert!(first < second);
    }
    // Commands that wait when the server stops are done; later ones are refused.
    let (late, ()) = tokio::join!(commits.submit(0, vec![1; 20]), async {
        tasks.stop(Duration::from_secs(5)).await;
    });
    assert!(late.iter().all(Result::is_ok), "{late:?}");
    assert!(commits.submit(0, vec![1]).await[0].is_err());
}

/// Records its commands in order; the lane is the command divided by 100. The test can lock lane 1.
struct Noting {
    locked: watch::Receiver<bool>,
    noted: Arc<Mutex<Vec<u64>>>,
    /// How long waiting commands take once the lock is free.
    slow: Duration,
}

impl BatchHandler for Noting {
    type Command = u64;
    type Answer = u64;
    type Memory = ();

    fn memory(&self) {}

    fn lane(command: &u64) -> u64 {
        command / 100
    }

    async fn apply(&self, _memory: &mut (), commands: Vec<u64>) -> Vec<Result<u64, u64>> {
        let note = |command: u64| {
            if Self::lane(&command) == 1 && *self.locked.borrow() {
                return Err(command);
            }
            self.noted.lock().unwrap().push(command);
            Ok(command)
        };
        commands.into_iter().map(note).collect()
    }

    async fn wait(&self, commands: Vec<u64>) -> Vec<u64> {
        self.locked.clone().wait_for(|locked| !*locked).await.unwrap();
        tokio::time::sleep(self.slow).await;
        self.noted.lock().unwrap().extend(&commands);
        commands
    }

    async fn probe(&self) -> Result<(), String> {
        Err("it does not write".to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_waits_keeps_its_own_lane_and_nobody_else() {
    let metrics = Metrics::new();
    let (tasks, noted) = (Tasks::new(&metrics), Arc::new(Mutex::new(Vec::new())));
    let (lock, locked) = watch::channel(true);
    let handler = Noting { locked, noted: Arc::clone(&noted), slow: Duration::ZERO };
    let commits = GroupCommit::start(handler, 1, &tasks, &metrics);
    let commits = Arc::new(commits);
    let mut waiting = Vec::new();
    for n in 100..120 {
        let commits = Arc::clone(&commits);
        waiting.push(tokio::spawn(async move { commits.submit(0, vec![n, n + 100]).await }));
        // The other lane of the same call is done, so this command was looked at and now waits.
        while !noted.lock().unwrap().contains(&(n + 100)) {
            tokio::task::yield_now().await;
        }
    }
    assert!(noted.lock().unwrap().iter().all(|n| *n >= 200), "nothing of the locked lane is done");
    assert_eq!(commits.submit(0, vec![300]).await, [Ok(300)]);
    // The lane has a maximum queue; further commands are refused at once and not executed.
    let crowd = join_all((0..1_100).map(|_| commits.submit(0, vec![199])));
    let freed = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        lock.send(false).unwrap();
    };
    let (crowd, ()) = tokio::join!(crowd, freed);
    let refused = crowd.iter().filter(|answer| answer[0] == Err(Unanswered::Busy)).count();
    assert!((50..200).contains(&refused), "{refused} were told that too many wait");
    for (n, answer) in (100..120).zip(waiting) {
        assert_eq!(answer.await.unwrap(), [Ok(n), Ok(n + 100)]);
    }
    let order = noted.lock().unwrap().clone();
    let own: Vec<u64> = order.iter().copied().filter(|n| n / 100 == 1).collect();
    assert!(own.iter().copied().take(20).eq(100..120), "out of order: {own:?}");
    assert_eq!(own.iter().filter(|n| **n == 199).count(), 1_100 - refused, "each once");
    assert_eq!(commits.submit(0, vec![101]).await, [Ok(101)], "the lane is free again");
    assert_eq!(commits.probe(Duration::from_secs(1)).await, Err("it does not write".to_owned()));
    tasks.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_when_the_lock_is_just_free_does_not_overtake_what_waited_for_it() {
    let metrics = Metrics::new();
    let (tasks, noted) = (Tasks::new(&metrics), Arc::new(Mutex::new(Vec::new())));
    let (lock, locked) = watch::channel(true);
    let handler = Noting { locked, noted: Arc::clone(&noted), slow: Duration::from_millis(100) };
    let commits = Arc::new(GroupCommit::start(handler, 1, &tasks, &metrics));
    let waiting = {
        let commits = Arc::clone(&commits);
        tokio::spawn(async move { commits.submit(0, vec![100, 200]).await })
    };
    while !noted.lock().unwrap().contains(&200) {
        tokio::task::yield_now().await;
    }
    lock.send(false).unwrap();
    assert_eq!(commits.submit(0, vec![101]).await, [Ok(101)]);
    assert_eq!(waiting.await.unwrap(), [Ok(100), Ok(200)]);
    assert_eq!(*noted.lock().unwrap(), [200, 100, 101]);
    tasks.stop(Duration::from_secs(5)).await;
}

/// Finishes no batch until the test opens the gate.
struct Gated(watch::Receiver<bool>);

impl BatchHandler for Gated {
    type Command = u64;
    type Answer = u64;
    type Memory = ();

    fn memory(&self) {}

    fn lane(_command: &u64) -> u64 {
        0
    }

    async fn apply(&self, _memory: &mut (), commands: Vec<u64>) -> Vec<Result<u64, u64>> {
        self.0.clone().wait_for(|open| *open).await.unwrap();
        commands.into_iter().map(Ok).collect()
    }

    async fn wait(&self, _commands: Vec<u64>) -> Vec<u64> {
        unreachable!("nothing is locked here")
    }

    async fn probe(&self) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_before_the_queue_has_room_is_not_counted_for_ever() {
    let metrics = Metrics::new();
    let tasks = Tasks::new(&metrics);
    let (gate, open) = watch::channel(false);
    let commits = GroupCommit::start(Gated(open), 1, &tasks, &metrics);
    let mut crowd = Box::pin(join_all((0..3_000).map(|n| commits.submit(0, vec![n]))));
    while metrics.commit_waiting.get() == 0 {
        assert!(timeout(Duration::from_millis(10), &mut crowd).await.is_err(), "the gate is closed");
    }
    drop(crowd);
    assert_eq!(metrics.commit_waiting.get(), 0);
    gate.send(true).unwrap();
    assert_eq!(commits.submit(0, vec![7]).await, [Ok(7)]);
}
