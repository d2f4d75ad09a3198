//! After the end: dead letters, and running jobs again.

use super::searching::{fail, found};
use super::{Hand, id, status};
use entente_harness::{Value, World, json};

#[tokio::test]
async fn a_failed_job_is_a_dead_letter_until_somebody_resolves_it() {
    let world = World::start().await;
    let (client, admin) = (world.agent("agent.client").await, world.admin().await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    for body in [json!({}), json!({}), json!({ "max_runtime_sec": 5 })] {
        let mut body = body;
        body["agent"] = json!("echo");
        world.clock.advance(1);
        client.post("/jobs", body).await.is(201);
    }
    let claimed = hand.claim(3).await;
    fail(&hand, &claimed[0], "INTERNAL_ERROR").await;
    hand.tell(&claimed[1], "result", json!({ "result": 1 })).await.ok();
    world.pass(10).await;
    let [failed, _done, late] = [0, 1, 2].map(|at| id(&claimed[at]).to_owned());
    assert_eq!(status(&client, &late).await, "timed_out");
    assert_eq!(found(&client, "dead_letter=open").await, [late.clone(), failed.clone()]);
    assert_eq!(found(&admin, "dead_letter=open").await, [late.clone(), failed.clone()]);
    assert_eq!(found(&admin, "dead_letter=resolved").await, [""; 0]);

    let path = format!("/jobs/{failed}/resolve");
    let resolved = client.post(&path, json!({ "note": "told them" })).await.ok();
    assert_eq!(
        (&resolved["is_dead_letter"], &resolved["resolved_by"], &resolved["note"]),
        (&json!(false), &json!("agent.client"), &json!("told them"))
    );
    assert_eq!(admin.post(&path, json!({ "note": "again" })).await.ok(), resolved, "the first one stands");
    admin.post(&format!("/jobs/{late}/resolve"), json!({ "note": "by the operator" })).await.ok();
    let audit = admin.get("/audit?event_type=job.resolved").await.ok().to_string();
    assert!(
        audit.contains(&late) && !audit.contains(&failed),
        "only the operator's is on the system log: {audit}"
    );
    assert_eq!(found(&client, "dead_letter=open").await, [""; 0]);
    assert_eq!(found(&client, "dead_letter=resolved").await, [late, failed]);
    let done = id(&claimed[1]);
    client.post(&format!("/jobs/{done}/resolve"), json!({})).await.refused(422, "INVALID_REQUEST");
    world.end().await;
}

#[tokio::test]
async fn a_job_is_run_again_once_under_a_key() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let body = json!({
        "agent": "echo", "input": { "x": 1 }, "labels": { "team": "red" }, "max_runtime_sec": 60,
        "lease_request": { "cost.budget": ["USD:1.00"], "tool.call": ["search.*"] },
        "lease_constraints": { "expires_at": "2026-11-21T08:01:00Z" },
    });
    let job = client.post("/jobs", body).await.is(201);
    let path = format!("/jobs/{}/rerun", id(&job));
    client.post(&path, json!({})).await.refused(422, "INVALID_REQUEST");
    fail(&hand, &hand.one().await, "INTERNAL_ERROR").await;
    // Long after the end of the old job's lease.
    world.pass(3600).await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let again = client.once("k").post(&path, json!({})).await.is(201);
    assert_eq!(client.once("k").post(&path, json!({})).await.is(200)["job_id"], again["job_id"]);
    client.once("k").post(&path, json!({ "default_version": true })).await.refused(409, "DUPLICATE_KEY");
    client.once("k").post(&path, json!({ "idempotency_key": "other" })).await.refused(422, "INVALID_REQUEST");
    let claimed = hand.one().await;
    assert_eq!((&claimed["job_id"], &claimed["input"]), (&again["job_id"], &json!({ "x": 1 })));
    assert_eq!(claimed["lease"], json!({ "cost.budget": ["USD:1.00"], "tool.call": ["search.*"] }));
    assert_eq!(claimed["lease_constraints"]["expires_at"], "2026-11-21T09:01:00.000000Z");
    assert_eq!(claimed["deadline"], "2026-11-21T09:01:00.000000Z");
    let (old, new) = (
        client.get(&format!("/jobs/{}", id(&job))).await.ok(),
        client.get(&format!("/jobs/{}", id(&again))).await.ok(),
    );
    assert_eq!((&new["rerun_of"], &new["labels"]), (&job["job_id"], &json!({ "team": "red" })));
    assert_eq!(old["reruns"], json!([again["job_id"]]));
    assert_eq!(old["failure"]["is_dead_letter"], false, "running it again resolves it");
    // The new job fails and is run again in its turn; without a key each request is another job.
    fail(&hand, &claimed, "INTERNAL_ERROR").await;
    assert_eq!(found(&client, "dead_letter=open").await, [id(&again)]);
    let path = format!("/jobs/{}/rerun", id(&again));
    let third = client.post(&path, json!({})).await.is(201);
    assert_ne!(client.post(&path, json!({})).await.is(201)["job_id"], third["job_id"]);
    assert_eq!(found(&client, "label=team=red").await.len(), 4);
    world.end().await;
}

#[tokio::test]
async fn a_corrected_version_runs_it_and_a_delegated_job_is_its_parents() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let lease = json!({ "agent.delegate": ["echo"], "cost.budget": ["USD:1"] });
    let job = client.post("/jobs", json!({ "agent": "echo", "lease_request": lease })).await.is(201);
    let parent = hand.one().await;
    let child = hand.tell(&parent, "delegate", json!({ "delegate_id": "d", "agent": "echo" })).await.is(201);
    fail(&hand, &hand.one().await, "INTERNAL_ERROR").await;
    fail(&hand, &parent, "INTERNAL_ERROR").await;
    let refused = client.post(&format!("/jobs/{}/rerun", id(&child)), json!({})).await;
    assert!(refused.refused(422, "INVALID_REQUEST").to_string().contains(id(&job)), "{}", refused.text);
    world.any().put("/arcp/agents/echo/versions/2", json!({ "default": true })).await.ok();
    let path = format!("/jobs/{}/rerun", id(&job));
    assert_eq!(client.post(&path, json!({})).await.is(201)["agent"], "echo@1");
    assert_eq!(client.post(&path, json!({ "default_version": true })).await.is(201)["agent"], "echo@2");
    world.end().await;
}

#[tokio::test]
async fn all_jobs_of_a_search_are_run_again_in_pages_and_none_twice() {
    let world = World::start().await;
    let (client, admin) = (world.agent("agent.client").await, world.admin().await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    for n in 0..5 {
        let body = json!({ "agent": "echo", "input": n, "labels": { "team": "red" } });
        client.post("/jobs", body).await.is(201);
    }
    for job in hand.claim(5).await {
        let code = if job["input"] == 4 { "PERMISSION_DENIED" } else { "INTERNAL_ERROR" };
        fail(&hand, &job, code).await;
    }
    let ask = |more: Value| {
        let mut body = json!({ "labels": { "team": "red" }, "error_code": "INTERNAL_ERROR", "limit": 3 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    client.post("/jobs/rerun", ask(json!({}))).await.refused(422, "INVALID_REQUEST");
    client
        .post("/jobs/rerun", ask(json!({ "limit": 201, "dry_run": true })))
        .await
        .refused(422, "INVALID_REQUEST");
    let open = ask(json!({ "status": ["pending"], "dry_run": true }));
    client.post("/jobs/rerun", open).await.refused(422, "INVALID_REQUEST");
    let dry = client.post("/jobs/rerun", ask(json!({ "dry_run": true }))).await.ok();
    assert_eq!((&dry["found"], &dry["complete"], &dry["reruns"]), (&json!(4), &json!(true), &json!([])));
    assert_eq!(dry["selected"].as_array().unwrap().len(), 3);
    assert!(hand.claim(10).await.is_empty(), "a dry run makes no job");

    let key = json!({ "idempotency_key": "all" });
    let first = admin.post("/jobs/rerun", ask(key.clone())).await.ok();
    assert_eq!(first["reruns"].as_array().unwrap().len(), 3, "{first}");
    // The answer was lost: the same page again is the same jobs.
    let retry = admin.post("/jobs/rerun", ask(key)).await.ok();
    let jobs = |page: &Value| -> Vec<Value> {
        page["reruns"].as_array().unwrap().iter().map(|one| one["job_id"].clone()).collect()
    };
    assert_eq!((jobs(&retry), &retry["reruns"][0]["repeated"]), (jobs(&first), &json!(true)));
    let next = json!({ "idempotency_key": "all", "cursor": first["next_cursor"] });
    let last = admin.post("/jobs/rerun", ask(next)).await.ok();
    assert_eq!((jobs(&last).len(), &last["next_cursor"]), (1, &Value::Null));
    // Another request leaves out what was run again already.
    let other = client.post("/jobs/rerun", ask(json!({ "idempotency_key": "mine", "limit": 50 }))).await.ok();
    assert_eq!((&other["reruns"], other["skipped"].as_array().unwrap().len()), (&json!([]), 4));
    assert_eq!(hand.claim(10).await.len(), 4);
    assert_eq!(found(&client, "dead_letter=open").await.len(), 1, "only the other error is left");
    let stranger = world.agent("agent.stranger").await;
    let theirs = stranger.post("/jobs/rerun", json!({ "idempotency_key": "x" })).await.ok();
    assert_eq!((&theirs["found"], &theirs["reruns"]), (&json!(0), &json!([])));
    world.end().await;
}

#[tokio::test]
async fn dead_letters_are_run_again_once_by_a_repeated_request() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    for _ in 0..5 {
        world.clock.advance(1);
        client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    }
    for job in hand.claim(5).await {
        fail(&hand, &job, "INTERNAL_ERROR").await;
    }
    let ask = |cursor: &Value| {
        let mut body = json!({ "dead_letter": "open", "limit": 2, "idempotency_key": "k" });
        if !cursor.is_null() {
            body["cursor"] = cursor.clone();
        }
        body
    };
    let (mut cursor, mut made) = (Value::Null, Vec::new());
    for expected in [2, 2, 1] {
        let page = client.post("/jobs/rerun", ask(&cursor)).await.ok();
        // The answer was lost.
        let again = client.post("/jobs/rerun", ask(&cursor)).await.ok();
        let jobs = |page: &Value| -> Vec<Value> {
            page["reruns"].as_array().unwrap().iter().map(|one| one["job_id"].clone()).collect()
        };
        assert_eq!((jobs(&page).len(), jobs(&page)), (expected, jobs(&again)), "{page} {again}");
        made.extend(jobs(&page));
        cursor = page["next_cursor"].clone();
    }
    assert_eq!((made.len(), &cursor), (5, &Value::Null));
    assert_eq!(hand.claim(20).await.len(), 5);
    world.end().await;
}

#[tokio::test]
async fn a_key_runs_a_job_again_once_however_late_it_is_repeated() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let claimed = hand.one().await;
    fail(&hand, &claimed, "INTERNAL_ERROR").await;
    let nightly = json!({ "dead_letter": "open", "idempotency_key": "nightly" });
    let first = client.post("/jobs/rerun", nightly.clone()).await.ok()["reruns"].clone();
    let hand = Hand::again(&world.any(), "echo@1").await;
    hand.tell(&hand.one().await, "result", json!({ "result": 1 })).await.ok();
    // Two days later the idempotency key is forgotten.
    world.pass(2 * 24 * 3_600).await;
    let again = client.post("/jobs/rerun", nightly).await.ok()["reruns"].clone();
    assert_eq!((&again[0]["job_id"], &again[0]["repeated"]), (&first[0]["job_id"], &json!(true)));
    assert_eq!(client.get("/jobs").await.ok()["jobs"].as_array().unwrap().len(), 2);
    world.end().await;
}
