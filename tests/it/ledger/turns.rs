//! The ledger of turns: agents finish a job, send a message and an envelope, append an event, complete a task, create the next and
//! claim the next job in each turn, on two servers, which are killed with SIGKILL in turn. Whatever answer is lost, the agent
//! repeats the turn at the other server. At every moment a snapshot has all of a turn, or nothing; afterwards each happened once.
//!
//! `ENTENTE_TURN_KILLS=1000` makes it a thousand kills.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use entente_domain::clock::rfc3339;
use entente_store::Pool;
use futures_util::future::join_all;

use super::insist;
use super::pair::{LOOK, Pair};
use entente_harness::jobs::Hand;
use entente_harness::{Client, Value, json, talk};

/// Default number of kills.
const KILLS: u32 = 10;

/// Number of agents; each has its own channel and worker.
const AGENTS: usize = 4;

/// What all agents did.
#[derive(Default)]
struct Ledger {
    turns: AtomicU64,
    repeated: AtomicU64,
    snapshots: AtomicU64,
    over: AtomicBool,
}

/// An agent's place of work.
struct Seat {
    name: String,
    servers: [Client; 2],
    intent: String,
    channel: String,
    worker: String,
}

impl Seat {
    async fn of(pair: &Pair, number: usize) -> Self {
        let name = format!("agent.turner{number}");
        let servers = pair.agent(&name).await;
        let client = pair.world.agent(&name).await;
        let (intent, channel) = talk(&client, json!({})).await;
        let hand = Hand::of(&client, &format!("turner{number}@1")).await;
        Self { name, servers, intent, channel, worker: hand.id }
    }
}

/// Takes turns until all kills are done; returns how many.
async fn take_turns(ledger: &Ledger, seat: &Seat, number: usize) -> u64 {
    let (mut held, mut open): (Vec<Value>, Option<String>) = (Vec::new(), None);
    for n in 0_u64.. {
        let is_last = ledger.over.load(Ordering::Acquire);
        let first = number + usize::try_from(n).unwrap();
        let job = json!({ "agent": format!("turner{number}"), "idempotency_key": format!("job-{n}") });
        let submitted = insist(&ledger.repeated, &seat.servers, first, "/jobs", &job).await;
        assert!(submitted.status < 300, "{}", submitted.text);
        let finish = held.iter().map(|job| {
            json!({ "job_id": job["job_id"], "claim_token": job["claim_token"], "result": { "turn": n } })
        });
        let steps = open.iter().flat_map(|task| {
            ["claim", "start", "complete"].map(|verb| json!({ "verb": verb, "task_id": task }))
        });
        let next =
            json!({ "verb": "create", "task": { "intent_id": seat.intent, "name": format!("task {n}") } });
        let mut turn = json!({
            "messages": [{ "channel_id": seat.channel, "payload": { "n": n } }],
            "events": [{ "intent_id": seat.intent, "event_type": "note", "payload": { "n": n } }],
            "tasks": steps.chain([next]).collect::<Vec<_>>(),
            "mail": [letter(seat, number, n)],
            "finish": finish.collect::<Vec<_>>(), "idempotency_key": format!("turn-{n}"),
        });
        if !is_last {
            turn["claim"] = json!({ "worker_id": seat.worker });
        }
        let taken = insist(&ledger.repeated, &seat.servers, first, "/turn", &turn).await.is(200);
        ledger.turns.fetch_add(1, Ordering::Relaxed);
        assert_eq!(taken["done"]["messages"][0]["payload"]["n"], n, "{}", seat.name);
        if is_last {
            return n + 1;
        }
        open = taken["done"]["tasks"].as_array().unwrap().last().unwrap()["id"].as_str().map(str::to_owned);
        held.clone_from(taken["jobs"].as_array().unwrap());
        assert_eq!(held.len(), 1, "turn {n} of {} claimed nothing", seat.name);
    }
    unreachable!("the loop has no end")
}

/// An envelope to the next agent.
fn letter(seat: &Seat, number: usize, n: u64) -> Value {
    let to = format!("agent.turner{}", (number + 1) % AGENTS);
    json!({
        "v": "1", "id": format!("turn-{number}-{n}"), "ts": rfc3339(chrono::Utc::now()), "type": "task", "from": seat.name, "to": to,
        "intent": "ledger.entry.keep", "corr": format!("ledger-{number}"), "priority": "normal", "payload": { "n": n },
    })
}

/// Counts the turns of a seat by each of their parts, in one snapshot.
const COUNTS: &str = "
    SELECT (SELECT coalesce(max(number), 0)::bigint FROM messages WHERE channel_id = $1),
           (SELECT count(*) FROM events WHERE intent_id = $3 AND event_type = 'note'),
           (SELECT count(*) FROM tasks WHERE intent_id = $3),
           (SELECT count(*) FROM aee_envelopes WHERE id LIKE $4),
           (SELECT count(*) FROM job_clock WHERE agent = $2 AND status = 'success'),
           (SELECT count(*) FROM tasks WHERE intent_id = $3 AND status = 'completed')";

/// Counts the turns of a seat; each but the first also ends a job and a task.
async fn counted(pool: &Pool, seat: &Seat, number: usize) -> i64 {
    let channel = seat.channel.parse::<entente_domain::ids::ChannelId>().unwrap().uuid();
    let intent = seat.intent.parse::<entente_domain::ids::IntentId>().unwrap().uuid();
    let counted = sqlx::query_as(COUNTS).bind(channel).bind(format!("turner{number}@1"));
    let counted = counted.bind(intent).bind(format!("turn-{number}-%")).fetch_one(pool);
    let counts: (i64, i64, i64, i64, i64, i64) = counted.await.unwrap();
    let (turns, ends) = (counts.0, (counts.0 - 1).max(0));
    assert_eq!(counts, (turns, turns, turns, turns, ends, ends), "parts of the turns of {}", seat.name);
    turns
}

/// Looks at snapshots until all kills are done.
async fn look(ledger: &Ledger, pool: &Pool, seats: &[Seat]) {
    while !ledger.over.load(Ordering::Acquire) {
        for (number, seat) in seats.iter().enumerate() {
            counted(pool, seat, number).await;
            ledger.snapshots.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "how often to kill is the test's own setting")]
fn kills() -> u32 {
    std::env::var("ENTENTE_TURN_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_happens_whole_or_not_whichever_server_is_killed() {
    let _permit = super::may_begin().await;
    let (began, kills) = (Instant::now(), kills());
    let pair = Pair::start("turns").await;
    let looking = pair.world.ctx().pool.clone();
    let seats = join_all((0..AGENTS).map(|number| Seat::of(&pair, number))).await;
    let ledger = Ledger::default();
    let turns = join_all(seats.iter().enumerate().map(|(number, seat)| take_turns(&ledger, seat, number)));
    let (turns, pair, ()) =
        tokio::join!(turns, pair.kill_in_turn(kills, &ledger.over), look(&ledger, &looking, &seats));
    for (number, (seat, turns)) in seats.iter().zip(&turns).enumerate() {
        assert_eq!(counted(&looking, seat, number).await, i64::try_from(*turns).unwrap());
    }
    let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
    assert!(count(&ledger.repeated) > 0, "no answer was lost: the test proves nothing");
    println!(
        "{} turns, {kills} kills, {} requests repeated, {} snapshots, {:?}",
        count(&ledger.turns),
        count(&ledger.repeated),
        count(&ledger.snapshots),
        began.elapsed()
    );
    pair.end().await;
}
