//! Ended jobs after `ENTENTE_JOB_RETENTION_DAYS`: they are deleted whole, unless something still needs them.

use entente::background::sweeps::Sweep;
use sqlx::{query_scalar, raw_sql};

use super::{Hand, id};
use entente_harness::{Setup, World, json};

/// A second more than the retention in these tests.
const PAST: i64 = 24 * 3_600 + 1;

async fn keeps_for_a_day() -> World {
    let settings = vec![("ENTENTE_JOB_RETENTION_DAYS", "1"), ("ENTENTE_IDEMPOTENCY_HOURS", "25")];
    World::with(Setup { settings, live: false }).await
}

/// Submits, claims and completes a job.
async fn ended(world: &World, hand: &Hand) -> String {
    let job = id(&world.any().post("/jobs", json!({ "agent": "echo" })).await.is(201)).to_owned();
    let held = hand.one().await;
    let log = json!({ "kind": "log", "body": { "level": "info", "message": "at work" } });
    hand.events(&held, json!([log])).await.ok();
    hand.tell(&held, "result", json!({ "result": {} })).await.ok();
    job
}

async fn count(world: &World, sql: &'static str) -> i64 {
    query_scalar(sql).fetch_one(&world.ctx().pool).await.unwrap()
}

async fn prune(world: &World) -> u64 {
    Sweep::EndedJobs.run(world.ctx()).await.unwrap()
}

#[tokio::test]
async fn ended_jobs_are_deleted_with_everything_of_theirs() {
    let world = keeps_for_a_day().await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    let old = ended(&world, &hand).await;
    assert_eq!(prune(&world).await, 0, "it has just ended");
    world.clock.advance(PAST);
    // A worker's claims ended long ago, its registration too.
    let hand = Hand::again(&world.any(), "echo@1.0.0").await;
    let waiting = id(&world.any().post("/jobs", json!({ "agent": "echo" })).await.is(201)).to_owned();
    hand.one().await;
    let young = ended(&world, &hand).await;
    assert_eq!(prune(&world).await, 1);
    assert_eq!(prune(&world).await, 0, "nothing is left");
    for path in [format!("/jobs/{old}"), format!("/jobs/{old}/events"), format!("/jobs/{old}/result")] {
        world.any().get(&path).await.refused(404, "JOB_NOT_FOUND");
    }
    for job in [waiting, young] {
        world.any().get(&format!("/jobs/{job}")).await.ok();
    }
    for table in ["jobs", "job_clock", "job_events", "job_order"] {
        let sql =
            format!("SELECT count(DISTINCT {}) FROM {table}", if table == "jobs" { "id" } else { "job_id" });
        let left: i64 = query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&world.ctx().pool).await.unwrap();
        // A job that waits has no event.
        assert!((1..=2).contains(&left), "{left} in {table}");
    }
    world.end().await;
}

#[tokio::test]
async fn numbers_go_on_after_everything_was_deleted() {
    let world = keeps_for_a_day().await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    ended(&world, &hand).await;
    let last = ended(&world, &hand).await;
    assert_eq!(prune(&world).await, 0, "they have just ended");
    let before = count(&world, "SELECT max(global) FROM job_order").await;
    world.clock.advance(PAST);
    assert_eq!(prune(&world).await, 1, "the one with the last number stays");
    world.any().get(&format!("/jobs/{last}")).await.ok();
    let hand = Hand::again(&world.any(), "echo@1.0.0").await;
    ended(&world, &hand).await;
    assert_eq!(prune(&world).await, 1, "then it goes too");
    let after = count(&world, "SELECT min(global) FROM job_order").await;
    assert!(after > before, "{after} was given although somebody may have read up to {before}");
    world.end().await;
}

#[tokio::test]
async fn a_job_whose_deletion_has_begun_shows_no_part_as_the_whole() {
    let world = keeps_for_a_day().await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    let job = ended(&world, &hand).await;
    let other = ended(&world, &hand).await;
    let events = |job: &str, after: i64| format!("/jobs/{job}/events?from_event_seq={after}");
    let whole = world.any().get(&events(&job, 0)).await.ok()["events"].as_array().unwrap().len();
    assert!(whole >= 2, "{whole} events");
    let uuid = job.parse::<entente_domain::ids::JobId>().unwrap().uuid();
    for (deleted, after) in [(1, 0), (whole, 1)] {
        let sql = "DELETE FROM job_events WHERE job_id = $1 AND job_seq <= $2";
        let bound = i64::try_from(deleted).unwrap();
        sqlx::query(sql).bind(uuid).bind(bound).execute(&world.ctx().pool).await.unwrap();
        world.any().get(&events(&job, after)).await.refused(404, "JOB_NOT_FOUND");
        let resumed =
            world.any().with("accept", "text/event-stream").with("last-event-id", &after.to_string());
        resumed.get(&events(&job, 0)).await.refused(404, "JOB_NOT_FOUND");
        // A reader that has the deleted ones goes on.
        let rest = world.any().get(&events(&job, bound)).await.ok()["events"].as_array().unwrap().len();
        assert_eq!(rest, whole - deleted);
    }
    assert_eq!(world.any().get(&events(&other, 0)).await.ok()["events"].as_array().unwrap().len(), whole);
    world.end().await;
}

#[tokio::test]
async fn a_job_stays_while_something_needs_it() {
    let world = keeps_for_a_day().await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    let needed = ended(&world, &hand).await;
    let _last = ended(&world, &hand).await;
    world.clock.advance(PAST);
    let running = id(&world.any().post("/jobs", json!({ "agent": "echo" })).await.is(201)).to_owned();
    let of = |job: &str| format!("'{}'::uuid", job.parse::<entente_domain::ids::JobId>().unwrap().uuid());
    let (job, parent) = (of(&needed), of(&running));
    let session = "'00000000-0000-0000-0000-00000000000a'";
    let needs = [
        (
            format!("UPDATE jobs SET parent_id = {parent} WHERE id = {job}"),
            format!("UPDATE jobs SET parent_id = NULL WHERE id = {job}"),
        ),
        (
            format!("UPDATE jobs SET idempotency_key = 'k' WHERE id = {job}"),
            format!("UPDATE jobs SET idempotency_key = NULL WHERE id = {job}"),
        ),
        (
            format!("INSERT INTO session_follows (session_id, job_id, cursor_seq) VALUES ({session}, {job}, 0)"),
            "DELETE FROM session_follows".to_owned(),
        ),
        (
            format!("INSERT INTO session_frames (session_id, event_seq, job_id) VALUES ({session}, 1, {job})"),
            "DELETE FROM session_frames".to_owned(),
        ),
        (
            format!(
                "INSERT INTO credentials (id, generation, job_id, provisioner, state, given, asked_at, attempts)
                 VALUES ({session}, 1, {job}, 'llm', 'stuck', false, now(), 0)"
            ),
            "UPDATE credentials SET state = 'revoked'".to_owned(),
        ),
        (
            format!(
                "INSERT INTO aee_bridged (bridge, what, source, target, at, job_id, open)
                 VALUES ('b', 'letter', 's', 't', now(), {job}, true)"
            ),
            "UPDATE aee_bridged SET open = false".to_owned(),
        ),
        (
            format!(
                "UPDATE jobs SET session_id = {session}, counted = true WHERE id = {job};
                 UPDATE job_clock SET origin_seq = 3 WHERE job_id = {job};
                 INSERT INTO sessions (id, principal, features, dialect, token, last_seq, acked_seq, connection, attached, client,
                                       created_at, expires_at)
                 VALUES ({session}, 'p', '{{}}', 'arcp', '\\x00', 3, 2, 1, true, 'c', now(), now())"
            ),
            "UPDATE sessions SET acked_seq = 3".to_owned(),
        ),
    ];
    for (need, release) in needs {
        raw_sql(sqlx::AssertSqlSafe(need.clone())).execute(&world.ctx().pool).await.unwrap();
        assert_eq!(prune(&world).await, 0, "deleted in spite of {need}");
        raw_sql(sqlx::AssertSqlSafe(release)).execute(&world.ctx().pool).await.unwrap();
    }
    assert_eq!(prune(&world).await, 1, "nothing needs it any more");
    world.any().get(&format!("/jobs/{needed}")).await.refused(404, "JOB_NOT_FOUND");
    let kept = "SELECT count(*) FROM credentials";
    assert_eq!(count(&world, kept).await, 1, "no value serves a second job, so its record stays");
    world.end().await;
}

#[tokio::test]
async fn a_job_waits_for_the_answer_of_a_person() {
    let world = keeps_for_a_day().await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    let needed = ended(&world, &hand).await;
    let _last = ended(&world, &hand).await;
    world.clock.advance(PAST);
    entente_harness::moments::lapsed(&world, 1).await;
    let job = needed.parse::<entente_domain::ids::JobId>().unwrap().uuid();
    let sql = format!("UPDATE moments SET job_id = '{job}'");
    raw_sql(sqlx::AssertSqlSafe(sql)).execute(&world.ctx().pool).await.unwrap();
    assert_eq!(prune(&world).await, 0);
    raw_sql("UPDATE moments SET job_id = NULL").execute(&world.ctx().pool).await.unwrap();
    assert_eq!(prune(&world).await, 1);
    world.end().await;
}

#[tokio::test]
async fn a_job_with_many_events_is_deleted_in_steps() {
    let world = keeps_for_a_day().await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    let long = ended(&world, &hand).await;
    let job = long.parse::<entente_domain::ids::JobId>().unwrap().uuid();
    let sql = format!(
        "INSERT INTO job_events (job_id, job_seq, origin_seq, type, kind, ts, body)
         SELECT '{job}', 100 + n, 0, 'job.event', 'log', now(), '{{}}' FROM generate_series(1, 6000) n"
    );
    raw_sql(sqlx::AssertSqlSafe(sql)).execute(&world.ctx().pool).await.unwrap();
    let _last = ended(&world, &hand).await;
    world.clock.advance(PAST);
    assert_eq!(prune(&world).await, 5_000, "a full step");
    world.any().get(&format!("/jobs/{long}")).await.ok();
    assert_eq!(prune(&world).await, 1);
    world.any().get(&format!("/jobs/{long}")).await.refused(404, "JOB_NOT_FOUND");
    world.end().await;
}

#[tokio::test]
async fn without_a_retention_jobs_are_kept_for_ever() {
    let world = World::start().await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    ended(&world, &hand).await;
    ended(&world, &hand).await;
    world.clock.advance(3_650 * PAST);
    assert_eq!(prune(&world).await, 0);
    world.end().await;
}

#[tokio::test]
async fn a_job_stays_as_long_as_what_it_delegated() {
    let world = keeps_for_a_day().await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    let lease = json!({ "agent.delegate": ["echo"], "cost.budget": ["USD:1.00"] });
    let parent = world.any().post("/jobs", json!({ "agent": "echo", "lease_request": lease })).await.is(201);
    let held = hand.one().await;
    let late = json!({ "agent": "echo", "delegate_id": "d", "start_at": "2026-11-30T08:00:00Z" });
    hand.tell(&held, "delegate", late).await.is(201);
    hand.tell(&held, "result", json!({ "result": {} })).await.ok();
    world.clock.advance(PAST);
    assert_eq!(prune(&world).await, 0, "the child spends from its budget");
    let child = world.any().get("/jobs?status=pending").await.ok()["jobs"][0]["job_id"].clone();
    let cancel = format!("/jobs/{}/cancel", child.as_str().unwrap());
    world.admin().await.post(&cancel, json!({})).await.is(202);
    world.sweep().await;
    let hand = Hand::again(&world.any(), "echo@1.0.0").await;
    let _last = ended(&world, &hand).await;
    world.clock.advance(PAST);
    assert_eq!((prune(&world).await, prune(&world).await, prune(&world).await), (1, 1, 0), "children first");
    world.any().get(&format!("/jobs/{}", id(&parent))).await.refused(404, "JOB_NOT_FOUND");
    world.end().await;
}
