//! The ledger of sessions: copies of one agent write on two servers, which SIGSTOP pauses at random, for longer than
//! PostgreSQL lets a transaction idle too. Each copy takes over from the others whenever it was refused, and counts what
//! the sessions before its own have written: after it was told its epoch, that grows no more.
//!
//! `ENTENTE_EPOCHS=100000` makes it that many sessions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::pause;
use crate::harness::process::{Launch, Place, Process, key_of};
use crate::harness::{Client, Cluster, Reply, Setup, Value, World, json};
use crate::openintent::governance::governed;

/// Default number of sessions.
const SESSIONS: i64 = 150;
/// Copies of the agent.
const COPIES: usize = 5;
/// Time after which a copy asks the other server: a paused one answers nothing.
const PATIENCE: Duration = Duration::from_millis(900);
/// Each pause of this number is longer than PostgreSQL lets a transaction idle (4 s).
const LONG: u32 = 12;

/// What all copies did.
#[derive(Default)]
struct Ledger {
    latest: AtomicI64,
    written: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    over: AtomicBool,
    /// Each opened epoch, with the number of writes of earlier ones just after.
    before: Mutex<Vec<(i64, i64)>>,
}

/// Number of the writes of sessions before one.
const WRITES_BEFORE: &str = "
    SELECT (SELECT count(*) FROM messages WHERE (payload::jsonb->>'epoch')::bigint < $1)
         + (SELECT count(*) FROM events WHERE event_type = 'task.created'
            AND substring(payload::jsonb->>'name' FROM 'e([0-9]+)-')::bigint < $1)";

async fn writes_before(world: &World, epoch: i64) -> i64 {
    sqlx::query_scalar(WRITES_BEFORE).bind(epoch).fetch_one(&world.ctx().pool).await.unwrap()
}

/// An intent of its own with a channel, so that no copy waits for a lock of another: the paths to write to.
async fn place(client: &Client) -> [String; 2] {
    let intent = governed(client, json!({})).await;
    let ask = json!({ "name": "main", "options": { "max_messages": 10_000 } });
    let channel = client.post(&format!("/intents/{intent}/channels"), ask).await.is(201);
    let channel = channel["id"].as_str().unwrap();
    [format!("/channels/{channel}/messages"), format!("/intents/{intent}/tasks")]
}

/// Posts to one server; `None` if it does not answer in time, or not now.
async fn post(ledger: &Ledger, client: &Client, path: &str, body: &Value) -> Option<Reply> {
    let reply = timeout(PATIENCE, client.try_send("POST", path, Some(body.to_string()))).await.ok().flatten();
    let reply = reply.filter(|reply| reply.status != 503);
    if reply.is_none() {
        ledger.unanswered.fetch_add(1, Ordering::Relaxed);
    }
    reply
}

/// Opens sessions and writes in them, each until it is refused.
async fn copy(ledger: &Ledger, world: &World, clients: &[Client; 2], name: usize, sessions: i64) {
    let (mut turn, paths) = (name, place(&clients[name % 2].patient()).await);
    while ledger.latest.load(Ordering::Relaxed) < sessions {
        turn += 1;
        let opened = post(ledger, &clients[turn % 2], "/agents/agent.ada/sessions", &json!({})).await;
        let Some(epoch) = opened.and_then(|reply| reply.is(201)["epoch"].as_i64()) else { continue };
        let before = writes_before(world, epoch).await;
        ledger.before.lock().unwrap().push((epoch, before));
        ledger.latest.fetch_max(epoch, Ordering::Relaxed);
        for n in 0.. {
            turn += usize::from(n % 3 == 0);
            let client = clients[turn % 2].with("entente-epoch", &epoch.to_string());
            let message = json!({ "sender": "agent.ada", "payload": { "epoch": epoch } });
            let task = json!({ "name": format!("e{epoch}-{n}") });
            let (sent, made) = tokio::join!(
                post(ledger, &client, &paths[0], &message),
                post(ledger, &client, &paths[1], &task)
            );
            let replies = [sent, made].into_iter().flatten().collect::<Vec<_>>();
            for reply in &replies {
                assert!(reply.status < 300 || reply.json()["code"] == "stale_epoch", "{}", reply.text);
            }
            let stale = replies.iter().filter(|reply| reply.status == 409).count();
            ledger.refused.fetch_add(stale as u64, Ordering::Relaxed);
            ledger.written.fetch_add((replies.len() - stale) as u64, Ordering::Relaxed);
            if stale > 0 || ledger.latest.load(Ordering::Relaxed) >= sessions {
                break;
            }
        }
        sleep(Duration::from_millis(20 + 13 * name as u64)).await;
    }
}

/// Pauses the servers in turn until the copies are done; returns how often.
async fn pause_in_turn(ledger: &Ledger, servers: &[Process; 2]) -> u32 {
    let mut chance = u64::from(std::process::id()) ^ 0x2545_F491_4F6C_DD1D;
    println!("the seed of this run's pauses is {chance}");
    for count in 0.. {
        sleep(pause(&mut chance)).await;
        if ledger.over.load(Ordering::Acquire) {
            return count;
        }
        let server = &servers[count as usize % 2];
        server.freeze();
        sleep(if count % LONG == LONG - 1 { Duration::from_secs(5) } else { pause(&mut chance) }).await;
        server.thaw();
    }
    unreachable!("the loop has no end")
}

#[expect(clippy::disallowed_methods, reason = "how many sessions there are is the test's own setting")]
fn sessions() -> i64 {
    std::env::var("ENTENTE_EPOCHS").ok().and_then(|text| text.parse().ok()).unwrap_or(SESSIONS)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_writes_after_a_later_one_whichever_server_is_paused() {
    let (began, sessions) = (Instant::now(), sessions());
    let world = World::with(Setup::live()).await;
    let url = Cluster::get().url(&world.database);
    let places = [Place::new("epochs"), Place::new("epochs")];
    let launches = places.each_ref().map(|place| Launch::shared(place, &url));
    let servers = [launches[0].start().await.0, launches[1].start().await.0];
    let clients = servers.each_ref().map(|server| server.client(&key_of("agent.ada")));
    let ledger = Ledger::default();
    let load = async {
        join_all((0..COPIES).map(|name| copy(&ledger, &world, &clients, name, sessions))).await;
        ledger.over.store(true, Ordering::Release);
    };
    let ((), pauses) = tokio::join!(load, pause_in_turn(&ledger, &servers));
    // What was on its way to a paused server has arrived or failed.
    sleep(Duration::from_secs(1)).await;
    let before = ledger.before.lock().unwrap().clone();
    for (epoch, count) in before {
        let now = writes_before(&world, epoch).await;
        assert_eq!(now, count, "writes of sessions before {epoch}, now and when it was opened");
    }
    let stored = u64::try_from(writes_before(&world, i64::MAX).await).unwrap();
    let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
    assert!(stored >= count(&ledger.written), "{stored} stored, {} acknowledged", count(&ledger.written));
    assert!(
        pauses > 3 && count(&ledger.refused) > 20,
        "{pauses} pauses, {} refusals",
        count(&ledger.refused)
    );
    println!(
        "{} sessions, {stored} writes, {} refused, {} unanswered, {pauses} pauses, 0 stale, {:?}",
        ledger.latest.load(Ordering::Relaxed),
        count(&ledger.refused),
        count(&ledger.unanswered),
        began.elapsed()
    );
    drop(servers);
    world.end().await;
}
