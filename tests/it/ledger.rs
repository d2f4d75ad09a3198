//! The crash ledger: clients send messages and envelopes and post events, streams follow, pollers poll and webhooks
//! are received while the server and its PostgreSQL are repeatedly killed with SIGKILL. Afterwards everything that was
//! acknowledged is stored once and in order, every reader has received all of it, and webhook receivers have
//! received it at least once.
//!
//! `make soak` runs it with 200 kills: `ENTENTE_KILLS=200`.

mod epochs;
mod events;
mod failover;
mod handovers;
mod hooks;
mod jobs;
mod load;
mod pair;
mod post;
mod readers;
mod spending;
mod turns;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::load::Load;
use entente_harness::process::{KEY, Launch, Place, Process};
use entente_harness::{Client, Reply, Value};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Ledgers that are kept at once. Each keeps the processor busy with servers that start again and again, and dozens of clients: with
/// four of them on two cores a start takes half a minute, and what other tests measure in seconds fails.
static LEDGERS: Semaphore = Semaphore::const_new(2);

/// Default number of kills.
const KILLS: u32 = 20;
/// Of this many kills, one hits PostgreSQL alone and one hits both at once.
const OF_POSTGRES: u32 = 4;
/// How long a client retries one message, and how long a reader waits for the last one.
const PATIENCE: Duration = Duration::from_mins(1);

/// State shared by all tasks of the test.
#[derive(Default)]
pub struct Run {
    /// Whether all kills are done.
    pub done: AtomicBool,
    /// Number of messages on the channel, and when it was known: once all of them are acknowledged.
    pub listed: OnceLock<(usize, Instant)>,
    /// Whether all envelopes are acknowledged.
    pub posted: AtomicBool,
    /// Number of retries.
    pub retries: AtomicU64,
    /// Number of acknowledgements.
    pub acknowledged: AtomicU64,
    /// Pause of a client after each acknowledgement.
    pub pause: Duration,
    /// Whether a worker died during its job.
    pub died: AtomicBool,
}

/// Waits for the permit to keep a ledger; dropping it gives it back.
async fn may_begin() -> SemaphorePermit<'static> {
    LEDGERS.acquire().await.unwrap()
}

impl Run {
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Whether a reader that has received so many messages waits for no more: it has all, or has waited long enough.
    fn is_heard(&self, count: usize) -> bool {
        self.listed.get().is_some_and(|(all, at)| count >= *all || at.elapsed() > PATIENCE)
    }

    /// Posts until the answer has one of these statuses; while things die, nothing but 503 may be answered instead.
    ///
    /// The time limit begins when nothing dies any more: on a slow machine a restart takes seconds, and the next kill comes half a
    /// second after it.
    async fn acknowledged(&self, client: &Client, path: &str, body: &Value, statuses: &[u16]) -> Reply {
        let mut began = Instant::now();
        loop {
            if !self.is_done() {
                began = Instant::now();
            }
            match client.try_send("POST", path, Some(body.to_string())).await {
                Some(reply) if statuses.contains(&reply.status) => {
                    self.acknowledged.fetch_add(1, Ordering::AcqRel);
                    if !self.pause.is_zero() {
                        tokio::time::sleep(self.pause).await;
                    }
                    return reply;
                }
                Some(reply) => {
                    assert_eq!(reply.status, 503, "only 503 may answer while things die: {}", reply.text);
                }
                None => {}
            }
            assert!(began.elapsed() < PATIENCE, "never acknowledged");
            self.retries.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Posts to one server after the other until one of them processes the request.
async fn insist(retries: &AtomicU64, servers: &[Client], first: usize, path: &str, body: &Value) -> Reply {
    let began = Instant::now();
    for turn in first.. {
        if let Some(reply) =
            servers[turn % servers.len()].try_send("POST", path, Some(body.to_string())).await
            && reply.status != 503
        {
            return reply;
        }
        assert!(began.elapsed() < PATIENCE, "{path}: never answered");
        retries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    unreachable!("the loop has no end")
}

/// Returns a random pause: kills must hit the server in every state, and at different times in each run.
fn pause(chance: &mut u64) -> Duration {
    *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    Duration::from_millis(50 + (*chance >> 33) % 400)
}

/// Kills repeatedly; PostgreSQL is restarted by the server, the server by this function.
async fn kill_repeatedly(place: &Place, launch: &Launch, mut server: Process, kills: u32) -> Process {
    let mut chance = u64::from(std::process::id()) ^ 0x5DEE_CE66_D1CE_4E5B;
    println!("the seed of this run's pauses is {chance}");
    let (mut slowest, mut killed) = (Duration::ZERO, [0, 0, 0]);
    for kill in 0..kills {
        tokio::time::sleep(pause(&mut chance)).await;
        if kill % OF_POSTGRES == 1 {
            // The server keeps running and restarts PostgreSQL.
            assert!(place.kill_postgres());
            killed[1] += 1;
            // Usually long enough for the server to notice, but not always.
            tokio::time::sleep(pause(&mut chance)).await;
            continue;
        }
        if kill % OF_POSTGRES == 3 {
            place.kill_postgres();
            killed[2] += 1;
        } else {
            killed[0] += 1;
        }
        server.kill();
        let (next, took) = launch.start().await;
        slowest = slowest.max(took);
        server = next;
    }
    println!(
        "killed {} times the server, {} times PostgreSQL, {} times both; ready again within {slowest:?}",
        killed[0], killed[1], killed[2]
    );
    server
}

#[expect(clippy::disallowed_methods, reason = "how often to kill is the test's own setting")]
fn kills() -> u32 {
    std::env::var("ENTENTE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_and_nothing_is_done_twice() {
    let _permit = may_begin().await;
    let place = Place::new("ledger");
    let launch = Launch::private(&place).with("ENTENTE_WEBHOOK_TIMEOUT_SECONDS", "1");
    let (server, took) = launch.start().await;
    println!("first start: {took:?}");
    let load = Load::start(Run::default(), vec![server.client(KEY)]).await;
    let _server = kill_repeatedly(&place, &launch, server, kills()).await;
    for heard in load.end().await {
        assert!(heard.breaks > 0, "{}: it was never broken off: the test proves nothing", heard.who);
    }
}
