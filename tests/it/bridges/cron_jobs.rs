//! Triggers that submit jobs: cron schedules of jobs, once per due time.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use entente_harness::jobs::{Hand, id, status};
use entente_harness::keys::key;
use entente_harness::triggers::{did, intents, now, path, trigger};
use entente_harness::{Client, Setup, Value, World, json};

/// Returns a schedule with a job.
fn nightly(job: &Value, more: &Value) -> Value {
    let cron = json!({ "cron": "30 9 * * *", "timezone": "Europe/Berlin" });
    let mut ask = json!({ "condition": cron, "job": job });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask
}

/// Returns all jobs, oldest first.
async fn jobs(client: &Client) -> Vec<Value> {
    let mut found = client.get("/jobs?limit=1000").await.ok()["jobs"].as_array().unwrap().clone();
    found.reverse();
    found
}

async fn history(client: &Client, trigger: &Value) -> Vec<Value> {
    let found = client.get(&format!("{}/history", path(trigger))).await.ok();
    found.as_array().unwrap().iter().rev().cloned().collect()
}

#[tokio::test]
async fn a_job_is_submitted_at_its_time_in_its_zone() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = json!({ "agent": "echo", "input": { "day": "{{ today }}", "n": "{{ trigger.fire_count }}" },
        "lease_request": { "cost.budget": ["USD:1.00"] }, "queue_timeout_sec": 600, "retry": { "max_attempts": 2 } });
    let made = trigger(&ada, "schedule", nightly(&job, &json!({}))).await;
    assert_eq!((&made["job"], &made["next_due_at"]), (&job, &json!("2026-11-21T08:30:00.000000Z")));
    world.pass(30 * 60 - 1).await;
    world.carry().await;
    assert_eq!(jobs(&ada).await.len(), 0);
    world.pass(1).await;
    world.carry().await;
    let claimed = hand.one().await;
    assert_eq!(claimed["input"], json!({ "day": "2026-11-21", "n": 1 }));
    assert_eq!((&claimed["principal"], &claimed["budget"]), (&json!("agent.ada"), &json!({ "USD": 1 })));
    let done = history(&ada, &made).await;
    assert_eq!((&done[0]["job_id"], &done[0]["intent_id"]), (&claimed["job_id"], &Value::Null));
    let shown = ada.get(&format!("/jobs/{}", id(&claimed))).await.ok();
    assert_eq!(shown["retry"]["max_attempts"], 2);
    assert_eq!(intents(&ada).await.len(), 0, "a trigger with a job creates no intent");
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    // By hand, and on the next day.
    ada.post(&format!("{}/fire", path(&made)), json!({})).await.ok();
    world.carry().await;
    world.pass(24 * 3_600).await;
    world.carry().await;
    assert_eq!((jobs(&ada).await.len(), now(&ada, &made).await["fire_count"].clone()), (3, json!(3)));
    world.end().await;
}

#[tokio::test]
async fn missed_times_are_made_up_for_as_the_schedule_says() {
    let before = World::start().await;
    let ada = before.agent("agent.ada").await;
    Hand::of(&before.any(), "echo@1").await;
    let mut made = Vec::new();
    for missed in ["skip", "latest", "all"] {
        let ask = json!({ "condition": { "every_seconds": 600, "missed": missed },
            "job": { "agent": "echo", "input": "{{ trigger.scheduled_at }}" } });
        made.push(trigger(&ada, "schedule", ask).await);
    }
    let database = before.database.clone();
    before.server.stop().await;
    let world = World::on(Setup::default(), database).await;
    let ada = world.agent("agent.ada").await;
    world.pass(65 * 60).await;
    world.carry().await;
    let mut counts = Vec::new();
    for one in &made {
        counts.push(now(&ada, one).await["fire_count"].as_u64().unwrap());
    }
    assert_eq!((counts.as_slice(), jobs(&ada).await.len()), (&[0, 1, 6][..], 7));
    world.end().await;
}

#[tokio::test]
async fn the_last_job_is_awaited_and_a_refused_one_is_a_failure() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let every =
        |job: Value| json!({ "condition": { "every_seconds": 60 }, "job": job, "deduplication": "skip" });
    let made = trigger(&ada, "schedule", every(json!({ "agent": "echo" }))).await;
    world.pass(60).await;
    world.pass(60).await;
    world.carry().await;
    world.pass(60).await;
    world.carry().await;
    assert_eq!(
        jobs(&ada).await.len(),
        1,
        "it is skipped before the last job was submitted, and while it is open"
    );
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    world.pass(60).await;
    world.carry().await;
    assert_eq!(jobs(&ada).await.len(), 2);
    ada.delete(&path(&made)).await.ok();
    // An agent that nobody runs: each firing fails, until the trigger is switched off.
    let lost = trigger(&ada, "schedule", every(json!({ "agent": "nobody" }))).await;
    for _ in 0..30 {
        world.pass(60).await;
        world.carry().await;
    }
    let after = now(&ada, &lost).await;
    assert_eq!((&after["enabled"], &after["disabled_reason"]), (&json!(false), &json!("failing")));
    let last = history(&ada, &lost).await.remove(0);
    assert_eq!((&last["status"], &last["reason"]), (&json!("failed"), &json!("refused")));
    assert!(last["detail"].as_str().unwrap().contains("`nobody` is not registered"), "{last}");
    world.end().await;
}

#[tokio::test]
async fn a_job_that_makes_no_sense_is_refused_at_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let ask = |kind: &str, more: Value| {
        let mut ask = json!({ "name": "n", "type": kind, "job": { "agent": "echo" } });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    let cron = json!({ "cron": "0 0 * * *" });
    let nightly = |more: Value| {
        let mut ask = ask("schedule", json!({ "condition": cron }));
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    for wrong in [
        ask("event", json!({ "condition": { "event": "intent.created" } })),
        nightly(json!({ "intent_template": { "title": "x" } })),
        nightly(json!({ "deduplication": "queue" })),
        nightly(json!({ "job": {} })),
        nightly(json!({ "job": { "agent": "echo", "input": "{{ nothing.here }}" } })),
        nightly(json!({ "job": { "agent": "echo", "idempotency_key": "k" } })),
        nightly(json!({ "job": { "agent": "echo", "max_runtime_sec": "x" } })),
        nightly(json!({ "job": { "agent": "Echo" } })),
        nightly(json!({ "job": { "agent": "echo", "retry": { "factor": 0 } } })),
    ] {
        let told = ada.post("/triggers", wrong.clone()).await.refused(422, "unprocessable");
        assert!(told.to_string().contains("job"), "{wrong}: {told}");
    }
    // Who may create intents may not therefore submit jobs.
    let admin = world.admin().await;
    let weak = key(&world, &admin, "agent.ada", json!({ "scopes": ["intents:read", "intents:write"] })).await;
    weak.client.post("/triggers", nightly(json!({}))).await.refused(403, "scope_missing");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_submit_one_job_for_each_time() {
    let (a, b) = World::two().await;
    let ada = a.agent("agent.ada").await;
    Hand::of(&a.any(), "echo@1").await;
    let mut made = Vec::new();
    for _ in 0..10 {
        let at = (chrono::Utc::now() + chrono::TimeDelta::seconds(1)).to_rfc3339();
        made.push(
            trigger(&ada, "schedule", json!({ "condition": { "at": at }, "job": { "agent": "echo" } })).await,
        );
    }
    let began = Instant::now();
    while jobs(&ada).await.len() < made.len() {
        assert!(began.elapsed() < Duration::from_secs(15), "{} jobs", jobs(&ada).await.len());
        sleep(Duration::from_millis(50)).await;
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(jobs(&ada).await.len(), made.len());
    for one in &made {
        assert_eq!(did(&ada, one).await.len(), 1);
        let job = history(&ada, one).await[0]["job_id"].as_str().unwrap().to_owned();
        assert_eq!(status(&ada, &job).await, "pending");
    }
    b.server.stop().await;
    a.server.stop().await;
}

/// A server dies after the job was accepted and before that was recorded.
#[tokio::test]
async fn a_job_whose_record_was_lost_is_submitted_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    Hand::of(&world.any(), "echo@1").await;
    let made = trigger(&ada, "schedule", nightly(&json!({ "agent": "echo" }), &json!({}))).await;
    world.pass(30 * 60).await;
    let pool = &world.ctx().pool;
    let kept: String = sqlx::query_scalar("SELECT job FROM trigger_firings WHERE job IS NOT NULL")
        .fetch_one(pool)
        .await
        .unwrap();
    world.carry().await;
    sqlx::query("UPDATE trigger_firings SET job = $1, job_id = NULL")
        .bind(&kept)
        .execute(pool)
        .await
        .unwrap();
    world.carry().await;
    assert_eq!(jobs(&ada).await.len(), 1);
    let job = jobs(&ada).await.remove(0);
    assert_eq!(history(&ada, &made).await[0]["job_id"], job["job_id"]);
    // So late that the key may be forgotten it is given up.
    sqlx::query("UPDATE trigger_firings SET job = $1, job_id = NULL")
        .bind(&kept)
        .execute(pool)
        .await
        .unwrap();
    world.clock.advance(13 * 3_600);
    world.carry().await;
    assert_eq!(
        (jobs(&ada).await.len(), history(&ada, &made).await[0]["status"].clone()),
        (1, json!("failed"))
    );
    world.end().await;
}

#[tokio::test]
async fn a_job_is_awaited_however_many_due_times_it_skips() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    Hand::of(&world.any(), "echo@1").await;
    let every =
        json!({ "condition": { "every_seconds": 60 }, "job": { "agent": "echo" }, "deduplication": "skip" });
    let made = trigger(&ada, "schedule", every).await;
    for _ in 0..105 {
        world.pass(60).await;
    }
    world.carry().await;
    assert_eq!(jobs(&ada).await.len(), 1);
    // Its owner learns the session that nobody was told, and cancels the job; others do not.
    let [listed, shown] = [jobs(&ada).await[0].clone(), {
        let job = jobs(&ada).await[0]["job_id"].as_str().unwrap().to_owned();
        ada.get(&format!("/jobs/{job}")).await.ok()
    }];
    assert_eq!(listed["session_id"], shown["session_id"]);
    let job = listed["job_id"].as_str().unwrap().to_owned();
    let cancel = format!("/jobs/{job}/cancel");
    let operators = world.admin().await.get(&format!("/jobs/{job}")).await.ok();
    assert_eq!(operators["session_id"], Value::Null);
    world.agent("agent.bob").await.post(&cancel, json!({})).await.refused(404, "JOB_NOT_FOUND");
    ada.post(&cancel, json!({})).await.refused(403, "PERMISSION_DENIED");
    ada.post(&cancel, json!({ "session_id": listed["session_id"] })).await.is(202);
    assert_eq!(status(&ada, &job).await, "cancelled");
    ada.delete(&path(&made)).await.ok();
    world.end().await;
}

#[tokio::test]
async fn a_drained_queue_keeps_schedules_waiting_and_failures_are_told() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let every = json!({ "condition": { "every_seconds": 60 }, "job": { "agent": "echo" } });
    let made = trigger(&ada, "schedule", every).await;
    admin.put("/arcp/agents/echo/queue", json!({ "state": "draining" })).await.ok();
    for _ in 0..12 {
        world.pass(60).await;
        world.carry().await;
    }
    let after = now(&ada, &made).await;
    assert_eq!((&after["enabled"], &after["failures"]), (&json!(true), &json!(0)));
    assert_eq!(jobs(&ada).await.len(), 0);
    admin.put("/arcp/agents/echo/queue", json!({ "state": "open" })).await.ok();
    world.pass(11).await;
    world.carry().await;
    assert!(!jobs(&ada).await.is_empty());
    drop(hand);
    ada.delete(&path(&made)).await.ok();
    // Fired by hand, a refused job counts for nothing; at its times it does, and the log says when it was too often.
    let lost = json!({ "condition": { "cron": "0 0 1 1 *" }, "job": { "agent": "nobody" } });
    let lost = trigger(&ada, "schedule", lost).await;
    for _ in 0..12 {
        ada.post(&format!("{}/fire", path(&lost)), json!({})).await.ok();
        world.carry().await;
    }
    assert_eq!(now(&ada, &lost).await["failures"], 0);
    let often = trigger(
        &ada,
        "schedule",
        json!({ "condition": { "every_seconds": 60 }, "job": { "agent": "nobody" } }),
    );
    let often = often.await;
    for _ in 0..12 {
        world.pass(60).await;
        world.carry().await;
    }
    let told = admin.get("/audit?event_type=trigger.disabled").await.ok().to_string();
    assert!(told.contains(often["trigger_id"].as_str().unwrap()), "{told}");
    world.end().await;
}

#[tokio::test]
async fn a_key_without_the_scope_for_jobs_neither_changes_nor_fires_a_schedule() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let made = trigger(&ada, "schedule", nightly(&json!({ "agent": "echo" }), &json!({}))).await;
    let weak = key(&world, &admin, "agent.ada", json!({ "scopes": ["intents:read", "intents:write"] })).await;
    let version = made["version"].to_string();
    let change = weak.client.with("If-Match", &version).patch(&path(&made), json!({ "name": "other" })).await;
    change.refused(403, "scope_missing");
    weak.client.post(&format!("{}/fire", path(&made)), json!({})).await.refused(403, "scope_missing");
    world.end().await;
}
