//! While a job runs: signals to its worker, its heartbeats, and a cancellation with a time to stop.

use std::time::{Duration, Instant};

use super::{Hand, id, status};
use entente_harness::{Client, Setup, Value, World, json};

async fn send(client: &Client, job: &Value, name: &str) -> Value {
    let path = format!("/jobs/{}/signals", id(job));
    client.post(&path, json!({ "name": name, "payload": { "said": name } })).await.is(201)
}

fn names(signals: &Value) -> Vec<&str> {
    signals.as_array().unwrap().iter().map(|signal| signal["name"].as_str().unwrap()).collect()
}

/// Sends a heartbeat of a worker that knows signals up to a number.
async fn beat(hand: &Hand, job: &Value, after: i64, wait: u32) -> Value {
    let held =
        json!([{ "job_id": job["job_id"], "claim_token": job["claim_token"], "signals_after": after }]);
    let body = json!({ "jobs": held, "wait_sec": wait });
    hand.client.post(&format!("/workers/{}/heartbeat", hand.id), body).await.ok()
}

#[tokio::test]
async fn signals_come_in_order_and_again_until_a_worker_acknowledges_them() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    send(&client, &job, "first").await;
    let claimed = hand.one().await;
    assert_eq!(names(&claimed["signals"]), ["first"], "sent while it waited");
    assert_eq!(claimed["signals"][0]["payload"], json!({ "said": "first" }));
    send(&client, &job, "second").await;
    let third = send(&world.admin().await, &job, "third").await;
    assert_eq!((&third["seq"], third["sender"].as_str().unwrap().is_empty()), (&json!(3), false));
    let news = beat(&hand, &claimed, 1, 0).await;
    assert_eq!(names(&news["signals"][id(&job)]), ["second", "third"]);
    assert!(beat(&hand, &claimed, 3, 0).await.get("signals").is_none(), "it knows them");
    assert!(hand.beat(&[&claimed]).await.get("signals").is_none(), "an older worker is told of none");
    let waited = hand.tell(&claimed, "signals/wait", json!({})).await.ok();
    assert_eq!(names(&waited["signals"]), ["first", "second", "third"]);
    assert_eq!(hand.tell(&claimed, "signals/ack", json!({ "seq": 2 })).await.ok()["acknowledged"], 2);
    assert_eq!(hand.tell(&claimed, "signals/ack", json!({ "seq": 1 })).await.ok()["acknowledged"], 2);
    hand.tell(&claimed, "signals/ack", json!({ "seq": 4 })).await.refused(422, "INVALID_REQUEST");

    // The worker is killed: the next attempt gets what was not acknowledged, and the old one nothing more.
    world.pass(120).await;
    let other = Hand::again(&world.any(), "echo").await;
    let again = other.one().await;
    assert_eq!((names(&again["signals"]), &again["attempt"]), (vec!["third"], &json!(2)));
    hand.tell(&claimed, "signals/wait", json!({})).await.refused(409, "CLAIM_LOST");
    hand.tell(&claimed, "signals/ack", json!({ "seq": 3 })).await.refused(409, "CLAIM_LOST");
    other.tell(&again, "signals/ack", json!({ "seq": 3 })).await.ok();
    let record = client.get(&format!("/jobs/{}", id(&job))).await.ok();
    assert_eq!(record["signals"], json!({ "sent": 3, "acknowledged": 3 }));
    let listed = client.get(&format!("/jobs/{}/signals?limit=2", id(&job))).await.ok();
    assert_eq!(
        (names(&listed["signals"]), &listed["signals"][0]["attempt"]),
        (vec!["first", "second"], &json!(1))
    );
    let rest = client.get(&format!("/jobs/{}/signals?after=2", id(&job))).await.ok();
    assert_eq!((names(&rest["signals"]), &rest["signals"][0]["attempt"]), (vec!["third"], &json!(2)));
    other.tell(&again, "result", json!({ "result": 1 })).await.ok();
    let path = format!("/jobs/{}/signals", id(&job));
    client.post(&path, json!({ "name": "late" })).await.refused(409, "JOB_ENDED");
    world.end().await;
}

#[tokio::test]
async fn a_waiting_worker_gets_a_signal_from_another_server_at_once() {
    let (here, there) = World::two().await;
    let client = here.agent("agent.client").await;
    let hand = Hand::of(&there.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let claimed = hand.one().await;
    for by_heartbeat in [false, true] {
        let waiting = async {
            if by_heartbeat {
                beat(&hand, &claimed, 1, 10).await["signals"][id(&job)].clone()
            } else {
                hand.tell(&claimed, "signals/wait", json!({ "wait_sec": 10 })).await.ok()["signals"].clone()
            }
        };
        let sending = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            send(&client, &job, "now").await;
            Instant::now()
        };
        let (got, sent) = tokio::join!(async { (waiting.await, Instant::now()) }, sending);
        assert_eq!(names(&got.0), ["now"]);
        assert!(got.1.saturating_duration_since(sent) < Duration::from_secs(1));
        let seq = if by_heartbeat { 2 } else { 1 };
        hand.tell(&claimed, "signals/ack", json!({ "seq": seq })).await.ok();
    }
    here.end().await;
    there.end().await;
}

#[tokio::test]
async fn a_signal_is_kept_once_under_its_key_and_within_limits() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let path = format!("/jobs/{}/signals", id(&job));
    let keyed = json!({ "name": "a", "payload": [1], "key": "k" });
    let first = client.post(&path, keyed.clone()).await.is(201);
    assert_eq!(client.post(&path, keyed).await.is(201), first);
    assert_eq!(client.once("k").post(&path, json!({ "name": "a", "payload": [1] })).await.is(201), first);
    client.post(&path, json!({ "name": "b", "key": "k" })).await.refused(409, "DUPLICATE_KEY");
    client.post(&path, json!({ "name": "" })).await.refused(422, "INVALID_REQUEST");
    // Syntax is a fault of its own: a number that no double holds is JSON, and a fault of shape is told with its place.
    for (body, status, code, said) in [
        (r#"{"name":5,"payload":1e400}"#, 422, "INVALID_REQUEST", "`name`"),
        (r#"{"name":5,"payload":1e}"#, 400, "INVALID_REQUEST", "not valid JSON"),
    ] {
        let refused = client.send("POST", &path, Some(body.to_owned())).await;
        assert!(refused.text.contains(said), "{}", refused.text);
        refused.refused(status, code);
    }
    let large = json!({ "name": "a", "payload": "x".repeat(65_536) });
    client.post(&path, large).await.refused(413, "INVALID_REQUEST");
    // The same key of an operator is another one.
    assert_eq!(world.admin().await.post(&path, json!({ "name": "o", "key": "k" })).await.is(201)["seq"], 2);
    let text = "INSERT INTO job_signals (job_id, seq, name, sender, sent_at)
                SELECT job_id, n, 'many', 'agent.client', now() FROM job_clock, generate_series(3, 1000) AS n";
    sqlx::query(text).execute(&world.ctx().pool).await.unwrap();
    sqlx::query("UPDATE job_clock SET signals_sent = 1000").execute(&world.ctx().pool).await.unwrap();
    let refused = client.post(&path, json!({ "name": "more" })).await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    let claimed = hand.one().await;
    assert_eq!(claimed["signals"].as_array().unwrap().len(), 100, "as many as one answer has");
    hand.tell(&claimed, "signals/ack", json!({ "seq": 100 })).await.ok();
    client.post(&path, json!({ "name": "more" })).await.is(201);
    world.end().await;
}

#[tokio::test]
async fn a_job_shows_the_heartbeat_of_its_worker() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let claimed = hand.one().await;
    world.clock.advance(7);
    let claim = client.get(&format!("/jobs/{}", id(&job))).await.ok()["claim"].clone();
    assert_eq!((&claim["heartbeat_age_sec"], &claim["worker"]), (&json!(7), &json!("hand")));
    hand.beat(&[&claimed]).await;
    let claim = client.get("/jobs").await.ok()["jobs"][0]["claim"].clone();
    assert_eq!(
        (&claim["heartbeat_age_sec"], &claim["last_heartbeat_at"]),
        (&json!(0), &json!("2026-11-21T08:00:07.000000Z"))
    );
    world.end().await;
}

#[tokio::test]
async fn a_canceller_says_how_long_the_worker_may_take() {
    let settings = vec![("ENTENTE_CANCEL_GRACE_SECONDS", "30")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let claimed = hand.one().await;
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let other = hand.one().await;
    let path = format!("/jobs/{}/cancel", id(&job));
    let ask = |grace: i64| json!({ "session_id": job["session_id"], "grace_sec": grace });
    for wrong in [-1, 3601] {
        client.post(&path, ask(wrong)).await.refused(422, "INVALID_REQUEST");
    }
    client.post(&path, ask(3600)).await.is(202);
    let due = |at: &Value| at["cancel_due_at"].as_str().unwrap().to_owned();
    let get = async || client.get(&format!("/jobs/{}", id(&job))).await.ok();
    assert_eq!(due(&get().await), "2026-11-21T09:00:00.000000Z");
    let beat = hand.beat(&[&claimed]).await;
    assert_eq!(beat["cancel"], json!([id(&job)]));
    assert_eq!(beat["cancel_due_at"], json!({ id(&job): due(&get().await) }));
    // A second request shortens the time, and does not lengthen it.
    client.post(&path, ask(20)).await.is(202);
    client.post(&path, ask(60)).await.is(202);
    client.post(&path, json!({ "session_id": job["session_id"] })).await.is(202);
    assert_eq!(due(&get().await), "2026-11-21T08:00:20.000000Z");
    // The worker learns the time from each answer that tells it to stop, and before from none.
    assert_eq!(hand.beat(&[&claimed]).await["cancel_due_at"][id(&job)], "2026-11-21T08:00:20.000000Z");
    assert_eq!(due(&hand.events(&claimed, json!([])).await.ok()), "2026-11-21T08:00:20.000000Z");
    assert_eq!(
        due(&hand.tell(&claimed, "signals/wait", json!({})).await.ok()),
        "2026-11-21T08:00:20.000000Z"
    );
    assert_eq!(hand.beat(&[&other]).await.get("cancel_due_at"), None);
    assert_eq!(hand.events(&other, json!([])).await.ok().get("cancel_due_at"), None);
    assert_eq!(hand.tell(&other, "signals/wait", json!({})).await.ok().get("cancel_due_at"), None);
    world.pass(19).await;
    assert_eq!(status(&client, id(&job)).await, "running");
    world.pass(2).await;
    assert_eq!(status(&client, id(&job)).await, "cancelled");
    world.end().await;
}
