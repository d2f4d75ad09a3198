//! The crash ledger: clients send messages and envelopes and post events, streams follow, pollers poll and webhooks
//! are received while the server and its PostgreSQL are repeatedly killed with SIGKILL. Afterwards everything that was
//! acknowledged is stored once and in order, every reader has received all of it, and webhook receivers have
//! received it at least once.
//!
//! `make soak` runs it with 200 kills: `ENTENTE_KILLS=200`.

mod events;
mod hooks;
mod jobs;
mod post;
mod readers;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use entente_domain::ids::MessageId;
use futures_util::future::join_all;

use self::readers::{Heard, follow, poll};
use crate::harness::process::{KEY, Launch, Place, Process};
use crate::harness::{Client, Reply, Sse, Value, json, talk};

/// Default number of kills.
const KILLS: u32 = 20;
/// Of this many kills, one hits PostgreSQL alone and one hits both at once.
const OF_POSTGRES: u32 = 4;
/// Number of sending clients.
const CLIENTS: u64 = 8;
/// How long a client retries one message, and how long a reader waits for the last one.
const PATIENCE: Duration = Duration::from_mins(1);

/// State shared by all tasks of the test.
#[derive(Default)]
pub struct Run {
    /// Whether all kills are done.
    pub done: AtomicBool,
    /// Number of retries.
    pub retries: AtomicU64,
    /// Whether a worker died during its job.
    pub died: AtomicBool,
}

impl Run {
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Posts until the answer has one of these statuses; while things die, nothing but 503 may be answered instead.
    async fn acknowledged(&self, client: &Client, path: &str, body: &Value, statuses: &[u16]) -> Reply {
        let began = Instant::now();
        loop {
            match client.try_send("POST", path, Some(body.to_string())).await {
                Some(reply) if statuses.contains(&reply.status) => return reply,
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

/// A ledger entry: one acknowledged message.
struct Entry {
    who: u64,
    n: u64,
    id: String,
}

/// Sends messages until all kills are done. Retries each with the same idempotency key until it is acknowledged.
async fn send(run: Arc<Run>, client: Client, channel: String, who: u64) -> Vec<Entry> {
    let path = format!("/channels/{channel}/messages");
    let mut ledger = Vec::new();
    for n in 0.. {
        if run.is_done() {
            break;
        }
        let body = json!({ "sender": format!("agent.{who}"), "payload": { "who": who, "n": n } });
        let once = client.once(&format!("{who}-{n}"));
        let sent = run.acknowledged(&once, &path, &body, &[201]).await.json();
        ledger.push(Entry { who, n, id: sent["id"].as_str().unwrap().to_owned() });
    }
    ledger
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
    let began = Instant::now();
    let place = Place::new("ledger");
    let launch = Launch::private(&place).with("ENTENTE_WEBHOOK_TIMEOUT_SECONDS", "1");
    let (server, took) = launch.start().await;
    println!("first start: {took:?}");
    let any = server.client(KEY);
    let options = json!({ "options": { "audit": true, "max_messages": 1_000_000 } });
    let (intent, channel) = talk(&any, options).await;
    let hooks = hooks::open(&any, &intent).await;
    let run = Arc::new(Run::default());
    let paths = [
        format!("/subscribe/intents/{intent}"),
        format!("/channels/{channel}/subscribe"),
        "/subscribe".to_owned(),
    ];
    let mut readers = Vec::new();
    for path in paths {
        // Opened before the first message, because they must receive all of them.
        let stream = Sse::open(&any, &path).await;
        readers.push(tokio::spawn(follow(Arc::clone(&run), server.client(KEY), path, stream)));
    }
    readers.push(tokio::spawn(poll(Arc::clone(&run), server.client(KEY), channel.clone())));
    let senders: Vec<_> = (0..CLIENTS)
        .map(|who| tokio::spawn(send(Arc::clone(&run), server.client(KEY), channel.clone(), who)))
        .collect();
    let noted: Vec<_> = (0..events::POSTERS)
        .map(|who| tokio::spawn(events::post(Arc::clone(&run), server.client(KEY), intent.clone(), who)))
        .collect();
    let posted: Vec<_> = (0..post::SENDERS)
        .map(|who| tokio::spawn(post::send(Arc::clone(&run), server.client(KEY), who)))
        .collect();
    let taken = tokio::spawn(post::read(Arc::clone(&run), server.client(KEY)));
    let _server = kill_repeatedly(&place, &launch, server, kills()).await;
    run.done.store(true, Ordering::Release);
    let ledger: Vec<Entry> = join_all(senders).await.into_iter().flat_map(Result::unwrap).collect();
    let listed = check_channel(&any, &channel, &ledger).await;
    for reader in readers {
        let heard =
            tokio::time::timeout(PATIENCE, reader).await.expect("a reader never heard the end").unwrap();
        check_reader(&heard, &listed);
    }
    let noted: Vec<Vec<String>> = join_all(noted).await.into_iter().map(Result::unwrap).collect();
    let notes = events::check(&any, &intent, &noted).await;
    check_log(&any, &intent, listed.len() + notes).await;
    hooks::check(hooks, &listed).await;
    let posted: Vec<Vec<i64>> = join_all(posted).await.into_iter().map(Result::unwrap).collect();
    post::check(&any, &posted, &taken.await.unwrap()).await;
    println!(
        "{} messages acknowledged, {} attempts repeated, {:?}",
        ledger.len(),
        run.retries.load(Ordering::Relaxed),
        began.elapsed()
    );
}

/// Asserts that the channel contains exactly the ledger's messages, each once, numbered without gaps and in each
/// client's order. Returns their ids in order.
async fn check_channel(client: &Client, channel: &str, ledger: &[Entry]) -> Vec<String> {
    let (mut cursor, mut listed): (String, Vec<Value>) = ("cur_0".to_owned(), Vec::new());
    loop {
        let page = client.get(&format!("/channels/{channel}/messages?since={cursor}")).await;
        page.header("entente-next-cursor").clone_into(&mut cursor);
        let page = page.ok();
        if page == json!([]) {
            break;
        }
        listed.extend(page.as_array().unwrap().iter().cloned());
    }
    let number = |m: &Value| m["id"].as_str().unwrap().parse::<MessageId>().unwrap().number();
    assert!(
        listed.iter().map(number).eq(1..=u32::try_from(listed.len()).unwrap()),
        "the numbers have gaps or doubles"
    );
    let mut next: HashMap<u64, u64> = HashMap::new();
    for message in &listed {
        let (who, n) =
            (message["payload"]["who"].as_u64().unwrap(), message["payload"]["n"].as_u64().unwrap());
        let expected = next.entry(who).or_default();
        assert_eq!(n, *expected, "client {who}: doubled, lost or out of order");
        *expected += 1;
    }
    let of: HashMap<(u64, u64), &str> = listed
        .iter()
        .map(|m| {
            (
                (m["payload"]["who"].as_u64().unwrap(), m["payload"]["n"].as_u64().unwrap()),
                m["id"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        listed.len(),
        ledger.len(),
        "every message was acknowledged in the end, and no other is there"
    );
    for entry in ledger {
        assert_eq!(of.get(&(entry.who, entry.n)), Some(&entry.id.as_str()), "acknowledged and not there");
    }
    listed.iter().map(|m| m["id"].as_str().unwrap().to_owned()).collect()
}

fn check_reader(heard: &Heard, listed: &[String]) {
    println!("{}: {} messages, broken off {} times", heard.who, heard.ids.len(), heard.breaks);
    if let Some(index) = heard.ids.iter().zip(listed).position(|(heard_id, listed_id)| heard_id != listed_id)
    {
        let around = &heard.ids[index.saturating_sub(3)..heard.ids.len().min(index + 4)];
        let places: Vec<_> = around.iter().map(|id| listed.iter().position(|known| known == id)).collect();
        panic!("{}: at {index} of {} it heard what is at {places:?}", heard.who, listed.len());
    }
    assert_eq!(heard.ids.len(), listed.len(), "{}: not each message once", heard.who);
    assert!(heard.breaks > 0, "{}: it was never broken off: the test proves nothing", heard.who);
}

/// Asserts that the hash chain verifies and contains every posted event and every message of the audited channel.
async fn check_log(client: &Client, intent: &str, entries: usize) {
    let verified = client.get(&format!("/intents/{intent}/events/verify")).await.ok();
    assert_eq!((&verified["chain_valid"], &verified["breaks"]), (&json!(true), &json!([])));
    // Plus the creation of the intent and of the channel.
    assert_eq!(verified["event_count"], entries + 2);
}
