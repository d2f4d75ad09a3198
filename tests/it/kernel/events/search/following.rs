//! The follower: complete and without repetition through crashes and on two servers, up to any content; and documents leave
//! with their sources.

use std::time::Duration;

use entente::background::sweeps::Sweep;
use entente_kernel::audit::search::{ENTRIES, step};
use futures_util::future::join_all;
use sqlx::{query, query_scalar, raw_sql};
use tokio::time::timeout;

use super::{count, documents, found, index, search};
use entente_harness::jobs::{Hand, id};
use entente_harness::{Setup, Value, World, json, send, talk};

async fn run(world: &World, sql: &'static str) {
    raw_sql(sql).execute(&world.ctx().pool).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// Returns how many messages, events and jobs have no document, and how many documents have no source.
async fn differences(world: &World) -> (i64, i64) {
    let missing = "SELECT (SELECT count(*) FROM (SELECT intent_id, seq FROM messages UNION ALL SELECT intent_id, seq FROM events) s
                           WHERE NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.source_id = s.intent_id AND d.seq = s.seq))
                        + (SELECT count(*) FROM jobs j
                           WHERE NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.source_id = j.id AND d.seq = 0))";
    let orphans = "SELECT count(*) FROM search_documents d
                   WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.intent_id = d.source_id AND m.seq = d.seq)
                     AND NOT EXISTS (SELECT 1 FROM events e WHERE e.intent_id = d.source_id AND e.seq = d.seq)
                     AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = d.source_id AND d.seq = 0)";
    let pool = &world.ctx().pool;
    (
        query_scalar(missing).fetch_one(pool).await.unwrap(),
        query_scalar(orphans).fetch_one(pool).await.unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_that_die_and_two_servers_leave_no_gap() {
    let one = World::start().await;
    let two = World::on(Setup::default(), one.database.clone()).await;
    let ada = one.agent("agent.ada").await;
    let (_, first) = talk(&ada, json!({})).await;
    let (_, second) = talk(&two.agent("agent.ada").await, json!({})).await;
    let writing = async |world: &World, channel: &str| {
        let ada = world.agent("agent.ada").await;
        for n in 0..150 {
            send(&ada, channel, json!({ "sender": "agent.ada", "payload": { "note": format!("word {n}") } }))
                .await;
        }
    };
    // Steps are dropped wherever they are: in PostgreSQL that is a crash of their server.
    let following = async |world: &World| {
        for n in 0..60_u64 {
            let _died = timeout(Duration::from_millis(n % 7), step(world.ctx(), ENTRIES)).await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    };
    tokio::join!(writing(&one, &first), writing(&two, &second), following(&one), following(&two));
    index(&two).await;
    assert_eq!(differences(&one).await, (0, 0));
    assert_eq!(found(&ada, "word 149").await.len(), 2);
    let answer = search(&ada, "q=word&limit=1").await.ok();
    assert_eq!(
        answer["indexed"]["log_until"].as_str().unwrap()[..19],
        answer["results"][0]["at"].as_str().unwrap()[..19]
    );
    two.server.stop().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_running_server_indexes_by_itself() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "note": "needle" } })).await;
    Hand::of(&ada, "echo@1.0.0").await;
    ada.post("/jobs", json!({ "agent": "echo", "input": "needle" })).await.is(201);
    let began = std::time::Instant::now();
    while count(&ada, "needle").await < 2 {
        assert!(began.elapsed() < Duration::from_secs(20), "it is never indexed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.server.stop().await;
}

#[tokio::test]
async fn a_job_that_is_committed_late_is_found_too() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    Hand::of(&ada, "echo@1.0.0").await;
    let late =
        id(&ada.post("/jobs", json!({ "agent": "echo", "input": "needle late" })).await.is(201)).to_owned();
    world.clock.advance(1);
    ada.post("/jobs", json!({ "agent": "echo", "input": "needle young" })).await.is(201);
    index(&world).await;
    // As if the older job had been committed after the younger one was read.
    query(
        "DELETE FROM search_documents WHERE seq = 0 AND source_id = (SELECT min(id::text)::uuid FROM jobs)",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    index(&world).await;
    assert_eq!(count(&ada, "needle").await, 1);
    let until = search(&ada, "q=needle").await.ok()["indexed"]["jobs_until"].clone();
    assert!(until.is_null() || until.as_str().unwrap() < "2026-11-21T08:00:00", "{until} claims too much");
    world.clock.advance(120);
    index(&world).await;
    assert_eq!(found(&ada, "late").await[0]["job_id"], json!(late));
    assert!(search(&ada, "q=needle").await.ok()["indexed"]["jobs_until"].is_string());
    assert_eq!(differences(&world).await, (0, 0));
    world.end().await;
}

#[tokio::test]
async fn documents_leave_with_their_sources_whoever_deletes_them() {
    let settings = vec![
        ("ENTENTE_MESSAGE_RETENTION_DAYS", "1"),
        ("ENTENTE_JOB_RETENTION_DAYS", "1"),
        ("ENTENTE_IDEMPOTENCY_HOURS", "1"),
    ];
    let world = World::with(Setup { settings, live: false }).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let (_, other) = talk(&ada, json!({})).await;
    for channel in [&channel, &other] {
        send(&ada, channel, json!({ "sender": "agent.ada", "payload": { "note": "needle" } })).await;
    }
    let hand = Hand::of(&ada, "echo@1.0.0").await;
    for _ in 0..2 {
        ada.post("/jobs", json!({ "agent": "echo", "input": "needle" })).await.is(201);
        let held = hand.one().await;
        hand.tell(&held, "result", json!({ "result": {} })).await.ok();
        world.clock.advance(1);
    }
    index(&world).await;
    assert_eq!(count(&ada, "needle").await, 4);
    ada.seen(&json!(1))
        .post(&format!("/intents/{intent}/status"), json!({ "status": "abandoned" }))
        .await
        .ok();
    world.clock.advance(24 * 3_600 + 1);
    world.sweep().await;
    assert_eq!(Sweep::EndedJobs.run(world.ctx()).await.unwrap(), 0, "the sweep has done it");
    index(&world).await;
    // The job with the last number in the order of jobs stays.
    assert_eq!(count(&ada, "needle").await, 2);
    assert_eq!(differences(&world).await, (0, 0));
    // The release before deletes messages and events, and knows nothing of documents.
    let before = documents(&world).await;
    run(&world, "DELETE FROM messages").await;
    run(&world, "DELETE FROM events WHERE intent_id = '00000000-0000-0000-0000-000000000000' AND seq = 1")
        .await;
    assert_eq!(documents(&world).await, before - 2);
    assert_eq!(differences(&world).await, (0, 0));
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_beside_a_step_leaves_no_document() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "note": "needle" } })).await;
    // The deletion has the lock and is not committed: the follower does not read what is about to go.
    let mut deletion = world.hold().await;
    query("DELETE FROM messages").execute(&mut *deletion).await.unwrap();
    let done = step(world.ctx(), ENTRIES).await.unwrap();
    assert!(!done.has_more);
    assert_eq!(documents(&world).await, 0, "it waits for the deletion");
    deletion.commit().await.unwrap();
    index(&world).await;
    assert_eq!((count(&ada, "needle").await, differences(&world).await), (0, (0, 0)));
    world.end().await;
}

#[tokio::test]
async fn no_content_stops_the_follower() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let say = async |payload: Value| {
        send(&ada, &channel, json!({ "sender": "agent.ada", "payload": payload })).await
    };
    say(json!({ "note": "before\u{1}after \u{2}needle\u{7f}" })).await;
    // The input of a job may have a NUL.
    Hand::of(&ada, "echo@1.0.0").await;
    let body = r#"{"agent":"echo","input":"zero\u0000width \ud83d\ude00 needle"}"#.to_owned();
    ada.send("POST", "/jobs", Some(body)).await;
    let many: Vec<String> = (0..30_000).map(|n| format!("w{n}")).collect();
    say(json!({ "first": "needle", "many": many.join(" ") })).await;
    say(json!({ "blob": "x".repeat(50_000), "next": "needle" })).await;
    say(json!({ "dots": "a.b-c/".repeat(30_000), "at": "u@h.".repeat(10_000) })).await;
    say(json!({ "same": "needle ".repeat(30_000) })).await;
    let deep = (0..60).fold(json!("needle deep"), |inner, _| json!([inner]));
    say(json!({ "deep": deep })).await;
    index(&world).await;
    assert_eq!(count(&ada, "needle").await, 5 + found(&ada, "zero").await.len());
    assert_eq!(
        (count(&ada, "before after").await, count(&ada, "w100").await, count(&ada, "w29999").await),
        (1, 1, 0)
    );
    assert_eq!(differences(&world).await, (0, 0));
    let metrics = world.anon().get("//metrics").await.text;
    assert!(metrics.contains("entente_search_sources_total{outcome=\"cut\"}"), "{metrics}");
    // What PostgreSQL itself refuses is left out alone.
    run(&world, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     IF NEW.words @@ 'poison'::tsquery THEN RAISE EXCEPTION 'string is too long for tsvector'; END IF;
                     RETURN NEW; END $$;
                 CREATE TRIGGER refuse BEFORE INSERT ON search_documents FOR EACH ROW EXECUTE FUNCTION refuse()").await;
    for text in ["needle nine", "needle poison", "needle ten"] {
        say(json!({ "note": text })).await;
    }
    index(&world).await;
    assert_eq!((count(&ada, "\"needle nine\" or \"needle ten\"").await, count(&ada, "poison").await), (2, 0));
    assert_eq!(differences(&world).await, (1, 0));
    let metrics = world.anon().get("//metrics").await.text;
    assert!(metrics.contains("entente_search_sources_total{outcome=\"skipped\"} 1"), "{metrics}");
    world.end().await;
}

#[tokio::test]
async fn a_search_says_how_far_it_knows() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    index(&world).await;
    let until =
        async || search(&ada, "q=needle").await.ok()["indexed"]["log_until"].as_str().unwrap().to_owned();
    let first = until().await;
    world.clock.advance(30);
    assert!(until().await > first, "nothing was written in between");
    let known = until().await;
    world.clock.advance(30);
    let message =
        send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "note": "needle" } })).await;
    assert!(until().await <= known, "the message is not indexed yet");
    assert_eq!(count(&ada, "needle").await, 0);
    let jobs = join_all((0..3).map(|_| until())).await;
    assert!(jobs.iter().all(|until| until.as_str() < message["created_at"].as_str().unwrap()));
    index(&world).await;
    assert!(until().await.as_str() >= message["created_at"].as_str().unwrap());
    world.end().await;
}
