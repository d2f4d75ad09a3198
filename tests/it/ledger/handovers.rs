//! The ledger of hand-overs: two agents pass an intent to and fro, with a task, a lease and a note each time, on two servers,
//! which are killed with SIGKILL in turn. Whatever answer is lost, the agent repeats the hand-over at the other server. At
//! every moment a snapshot has the assignment, the lease and the tasks at one agent; each hand-over happens once; and what
//! the former agent still writes is refused.
//!
//! `ENTENTE_HANDOVER_KILLS=1000` makes it a thousand kills.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use entente_store::Pool;
use futures_util::future::join_all;

use super::insist;
use super::pair::{LOOK, Pair};
use entente_harness::{Client, Reply, Value, json, talk};

/// Default number of kills.
const KILLS: u32 = 10;

/// Number of intents that are passed to and fro.
const LANES: usize = 6;

/// What all agents did.
#[derive(Default)]
struct Ledger {
    handed: AtomicU64,
    repeated: AtomicU64,
    refused: AtomicU64,
    snapshots: AtomicU64,
    over: AtomicBool,
}

/// An agent, at the servers that are killed and at one that is not.
struct Hand {
    name: String,
    servers: [Client; 2],
    steady: Client,
}

impl Hand {
    async fn of(pair: &Pair, name: String) -> Self {
        let servers = pair.agent(&name).await;
        let steady = pair.world.agent(&name).await.patient();
        Self { name, servers, steady }
    }

    /// Posts until one of the servers answers.
    async fn post(&self, ledger: &Ledger, first: usize, path: &str, body: &Value) -> Reply {
        insist(&ledger.repeated, &self.servers, first, path, body).await
    }

    /// Posts with an idempotency key until one of the servers answers.
    async fn once(&self, ledger: &Ledger, first: usize, key: &str, path: &str, body: &Value) -> Value {
        let servers = self.servers.each_ref().map(|server| server.once(key));
        insist(&ledger.repeated, &servers, first, path, body).await.is(200)
    }
}

/// An intent that two agents pass to and fro.
struct Lane {
    intent: String,
    hands: [Hand; 2],
    /// Fencing token of the first lease.
    token: Value,
}

impl Lane {
    async fn of(pair: &Pair, number: usize) -> Self {
        let owner = pair.world.agent(&format!("agent.owner{number}")).await;
        let (intent, _) = talk(&owner, json!({})).await;
        let hands = [
            Hand::of(pair, format!("agent.left{number}")).await,
            Hand::of(pair, format!("agent.right{number}")).await,
        ];
        let assigned = json!({ "agent_id": hands[0].name, "role": "writer" });
        owner.post(&format!("/intents/{intent}/agents"), assigned).await.ok();
        let ask = json!({ "scope": "draft", "duration_seconds": 24 * 3600 });
        let lease = hands[0].steady.post(&format!("/intents/{intent}/leases"), ask).await.ok();
        Self { intent, hands, token: lease["fencing_token"].clone() }
    }

    /// Returns the agent that has the intent after so many hand-overs.
    fn holder(&self, handed: i64) -> &Hand {
        &self.hands[usize::try_from(handed % 2).unwrap()]
    }

    /// Tries to write under a fencing token; returns the status.
    async fn write(&self, ledger: &Ledger, hand: &Hand, first: usize, token: &Value, n: u64) -> u16 {
        let intent = hand.steady.get(&format!("/intents/{}", self.intent)).await.ok();
        let servers = hand.servers.each_ref().map(|server| server.seen(&intent["version"]));
        let change = json!({ "state": { "draft": n }, "fencing_token": token });
        let path = format!("/intents/{}/state", self.intent);
        insist(&ledger.repeated, &servers, first, &path, &change).await.status
    }

    /// Creates a task and claims it; returns its id and its claim.
    async fn claimed(&self, ledger: &Ledger, hand: &Hand, first: usize, n: u64) -> (String, Value) {
        let ask = json!({ "intent_id": self.intent, "name": format!("task {n}") });
        let task = hand.once(ledger, first, &format!("task-{n}"), "/tasks", &ask).await;
        let path = format!("/tasks/{}", task["id"].as_str().unwrap());
        // A claim whose answer was lost is refused when it is repeated.
        hand.post(ledger, first, &format!("{path}/claim"), &json!({})).await;
        let task = hand.steady.get(&path).await.ok();
        assert_eq!(task["assigned_agent"], json!(hand.name));
        (path, task["claim_token"].clone())
    }
}

/// Passes the intent to and fro until all kills are done; returns how often.
async fn pass(ledger: &Ledger, pool: &Pool, lane: &Lane, number: usize) -> i64 {
    let mut old = lane.token.clone();
    for n in 0_u64.. {
        if ledger.over.load(Ordering::Acquire) {
            return i64::try_from(n).unwrap();
        }
        let first = number + usize::try_from(n).unwrap();
        let [from, to] = [0, 1].map(|more| lane.holder(i64::try_from(n + more).unwrap()));
        let (task, claim) = lane.claimed(ledger, from, first, n).await;
        let ask = json!({ "to": to.name, "note": format!("round {n}"), "state": { "n": n } });
        let (path, key) = (format!("/intents/{}/handover", lane.intent), format!("hand-{n}"));
        let (made, ()) = tokio::join!(
            from.once(ledger, first, &key, &path, &ask),
            write_until_refused(ledger, from, first + 1, &task, &claim)
        );
        ledger.handed.fetch_add(1, Ordering::Relaxed);
        for first in 0..2 {
            assert_eq!(from.once(ledger, first, &key, &path, &ask).await, made, "a repetition");
        }
        // Nothing of the former agent came after its hand-over.
        let (tasks, leases) = (made["tasks"].as_array().unwrap(), made["leases"].as_array().unwrap());
        assert_eq!((tasks.len(), leases.len()), (1, 1), "{made}");
        assert_eq!((&leases[0]["agent_id"], tasks[0]["claim_token"] == claim), (&json!(to.name), false));
        let new = &leases[0]["fencing_token"];
        assert!(new.as_i64() > old.as_i64());
        assert_eq!(lane.write(ledger, from, first, &old, n).await, 409);
        assert_eq!(later(pool, lane, &from.name, &made["seq"]).await, 0, "{} still writes", from.name);
        // The other one goes on. Of a step whose answer was lost the repetition is refused.
        let token = json!({ "claim_token": tasks[0]["claim_token"] });
        for verb in ["start", "complete"] {
            to.post(ledger, first, &format!("{task}/{verb}"), &token).await;
        }
        lane.write(ledger, to, first, new, n).await;
        assert_eq!(to.steady.get(&task).await.ok()["status"], "completed");
        let state = to.steady.get(&format!("/intents/{}", lane.intent)).await.ok();
        assert_eq!(state["state"]["draft"], n);
        old = new.clone();
    }
    unreachable!("the loop has no end")
}

/// Reports progress under a claim until that is refused.
async fn write_until_refused(ledger: &Ledger, hand: &Hand, first: usize, task: &str, claim: &Value) {
    let progress = json!({ "percent": 1, "claim_token": claim });
    loop {
        let reply = hand.post(ledger, first, &format!("{task}/progress"), &progress).await;
        if reply.status == 409 {
            reply.refused(409, "claim_conflict");
            ledger.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
}

fn id_of(lane: &Lane) -> uuid::Uuid {
    lane.intent.parse::<entente_domain::ids::IntentId>().unwrap().uuid()
}

/// Counts what an agent has written to the intent after a place of its log.
async fn later(pool: &Pool, lane: &Lane, agent: &str, seq: &Value) -> i64 {
    let count = "SELECT count(*) FROM events WHERE intent_id = $1 AND actor = $2 AND seq > $3";
    let counted = sqlx::query_scalar(count).bind(id_of(lane)).bind(agent).bind(seq.as_i64());
    counted.fetch_one(pool).await.unwrap()
}

/// The agents that have the assignment, the lease and the open tasks; and the notes of the hand-overs: one snapshot.
const SNAPSHOT: &str = "
    SELECT (SELECT array_agg(agent_id) FROM assignments WHERE intent_id = $1),
           (SELECT array_agg(agent_id) FROM leases WHERE intent_id = $1 AND status = 'active'),
           (SELECT coalesce(array_agg(assigned_agent), '{}') FROM tasks
            WHERE intent_id = $1 AND status <> 'completed' AND assigned_agent IS NOT NULL),
           (SELECT coalesce(array_agg(payload::jsonb->>'note' ORDER BY seq), '{}') FROM events
            WHERE intent_id = $1 AND event_type = 'handover.made')";

/// Looks at a snapshot of a lane: everything is at one agent, and each hand-over was once. Returns how many there were.
async fn seen(pool: &Pool, lane: &Lane) -> i64 {
    type Found = (Vec<String>, Vec<String>, Vec<String>, Vec<String>);
    let found = sqlx::query_as(SNAPSHOT).bind(id_of(lane)).fetch_one(pool);
    let (assigned, leases, tasks, notes): Found = found.await.unwrap();
    let rounds: Vec<String> = (0..notes.len()).map(|n| format!("round {n}")).collect();
    assert_eq!(notes, rounds);
    let handed = i64::try_from(notes.len()).unwrap();
    let holder = vec![lane.holder(handed).name.clone()];
    assert_eq!((&assigned, &leases), (&holder, &holder), "after {handed} hand-overs");
    assert!(tasks.is_empty() || tasks == holder, "{tasks:?} after {handed} hand-overs");
    handed
}

#[expect(clippy::disallowed_methods, reason = "how often to kill is the test's own setting")]
fn kills() -> u32 {
    std::env::var("ENTENTE_HANDOVER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_happens_whole_and_once_whichever_server_is_killed() {
    let _permit = super::may_begin().await;
    let (began, kills) = (Instant::now(), kills());
    let pair = Pair::start("handovers").await;
    let pool = pair.world.ctx().pool.clone();
    let lanes = join_all((0..LANES).map(|number| Lane::of(&pair, number))).await;
    let ledger = Ledger::default();
    let passing = lanes.iter().enumerate().map(|(number, lane)| pass(&ledger, &pool, lane, number));
    let look = async {
        while !ledger.over.load(Ordering::Acquire) {
            for lane in &lanes {
                seen(&pool, lane).await;
                ledger.snapshots.fetch_add(1, Ordering::Relaxed);
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let (handed, pair, ()) = tokio::join!(join_all(passing), pair.kill_in_turn(kills, &ledger.over), look);
    for (lane, handed) in lanes.iter().zip(handed) {
        assert_eq!(seen(&pool, lane).await, handed);
    }
    let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
    assert!(count(&ledger.repeated) > 0, "no answer was lost: the test proves nothing");
    println!(
        "{} hand-overs, {kills} kills, {} requests repeated, {} writers refused, {} snapshots, {:?}",
        count(&ledger.handed),
        count(&ledger.repeated),
        count(&ledger.refused),
        count(&ledger.snapshots),
        began.elapsed()
    );
    pair.end().await;
}
