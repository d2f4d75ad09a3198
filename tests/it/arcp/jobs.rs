//! Jobs (ARCP §7 to §9) over REST: submission, work, end.

mod asking_again;
mod authority;
mod budgets;
mod checkpoints;
mod delegation;
mod ending;
mod gone;
mod holding;
mod limits;
mod money;
mod order;
mod queues;
mod reruns;
mod results;
mod retention;
mod retries;
mod searching;
mod signals;
mod starts;
mod trees;
mod versions;
mod watching;

use entente_harness::jobs::{Hand, events, id, kinds, status};
use entente_harness::{Value, World, json};

#[tokio::test]
async fn a_job_goes_from_its_submission_to_its_result() {
    let world = World::start().await;
    let (client, hand) = (world.agent("agent.client").await, Hand::of(&world.any(), "echo@1.0.0").await);
    let accepted = client.post("/jobs", json!({ "agent": "echo", "input": { "x": 1 } })).await.is(201);
    assert_eq!(accepted["agent"], "echo@1.0.0");
    assert_eq!(accepted["lease"], json!({}));
    assert!(accepted.get("budget").is_none() && accepted.get("credentials").is_none());
    let trace = accepted["trace_id"].as_str().unwrap();
    assert!(trace.len() == 32 && trace.bytes().all(|b| b.is_ascii_hexdigit()), "{trace}");
    let job = id(&accepted).to_owned();
    assert_eq!(status(&client, &job).await, "pending");

    let claimed = hand.one().await;
    assert_eq!((id(&claimed), &claimed["input"]), (job.as_str(), &json!({ "x": 1 })));
    assert_eq!((&claimed["attempt"], &claimed["trace_id"]), (&json!(1), &accepted["trace_id"]));
    assert_eq!(claimed["principal"], "agent.client");
    assert_eq!(status(&client, &job).await, "running");
    assert!(hand.claim(10).await.is_empty(), "it is claimed once");

    let told = hand
        .events(
            &claimed,
            json!([
                { "kind": "log", "body": { "level": "info", "message": "begun" } },
                { "kind": "progress", "body": { "current": 0.5, "total": 2 }, "ts": "2026-11-21T07:00:00Z" },
                { "kind": "x-vendor.acme.note", "body": { "n": 1e2 } },
            ]),
        )
        .await
        .ok();
    assert_eq!((&told["last_event_seq"], &told["cancel_requested"]), (&json!(3), &json!(false)));
    let told =
        hand.tell(&claimed, "result", json!({ "result": { "y": [1, null] }, "summary": "done" })).await.ok();
    assert_eq!(told["last_event_seq"], 4);

    let found = client.get(&format!("/jobs/{job}")).await.ok();
    assert_eq!((&found["current_status"], &found["last_event_seq"]), (&json!("success"), &json!(4)));
    assert_eq!(found["terminal"]["result"], json!({ "y": [1, null] }));
    assert_eq!(client.get(&format!("/jobs/{job}/result")).await.text, r#"{"y":[1,null]}"#);
    let events = events(&client, &job).await;
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["log", "progress", "x-vendor.acme.note", "job.result"]);
    assert_eq!(events[3].1["final_status"], "success");
    assert!(events[3].1["completed_at"].as_str().unwrap().ends_with('Z'));
    world.end().await;
}

#[tokio::test]
async fn an_agent_has_versions_and_a_default() {
    let world = World::start().await;
    let (client, any) = (world.agent("agent.client").await, world.any());
    client.post("/jobs", json!({ "agent": "echo" })).await.refused(422, "AGENT_NOT_AVAILABLE");
    for (version, body) in
        [("1.0.0", json!({})), ("2.0.0", json!({ "default": true })), ("1.0.0+b1", json!({}))]
    {
        any.put(&format!("/arcp/agents/7zip/versions/{version}"), body).await.ok();
        world.clock.advance(1);
    }
    let listed = client.get("/arcp/agents").await.ok();
    assert_eq!(
        listed["agents"],
        json!([{ "name": "7zip", "versions": ["1.0.0", "2.0.0", "1.0.0+b1"], "default": "2.0.0" }])
    );
    let agent =
        async |said: &str| client.post("/jobs", json!({ "agent": said })).await.is(201)["agent"].clone();
    assert_eq!(agent("7zip").await, "7zip@2.0.0");
    assert_eq!(agent("7zip@1.0.0+b1").await, "7zip@1.0.0+b1");
    client.post("/jobs", json!({ "agent": "7zip@3" })).await.refused(422, "AGENT_VERSION_NOT_AVAILABLE");
    for wrong in ["", "Echo", "echo@", "echo@1 0", "@1", "ec ho", "-echo"] {
        client.post("/jobs", json!({ "agent": wrong })).await.refused(422, "INVALID_REQUEST");
    }
    // A job's version is fixed, even if the default changes (§7.5).
    let hand = Hand::again(&any, "7zip").await;
    any.put("/arcp/agents/7zip/versions/1.0.0", json!({ "default": true })).await.ok();
    let claimed = hand.claim(10).await;
    let versions: Vec<&str> = claimed.iter().map(|job| job["agent"].as_str().unwrap()).collect();
    assert_eq!(versions, ["7zip@2.0.0", "7zip@1.0.0+b1"]);
    assert_eq!(agent("7zip").await, "7zip@1.0.0");
    // The name belongs to the principal that registered it first.
    let other = world.agent("agent.other").await;
    other.put("/arcp/agents/7zip/versions/9", json!({})).await.refused(403, "PERMISSION_DENIED");
    other
        .post("/workers", json!({ "name": "w", "agents": ["7zip"] }))
        .await
        .refused(403, "PERMISSION_DENIED");
    world.end().await;
}

#[tokio::test]
async fn the_same_key_is_the_same_job() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let _hand = Hand::of(&world.any(), "echo@1.0.0").await;
    let ask = |text: &str| client.send("POST", "/jobs", Some(text.to_owned()));
    let body = r#"{"agent":"echo","input":{"a":1,"b":[2]},"lease_request":{},"idempotency_key":"k-1"}"#;
    let first = ask(body).await;
    let accepted = first.is(201);
    let again = ask(r#"{"idempotency_key":"k-1","input":{"b":[2],"a":1.0},"agent":"echo"}"#).await;
    assert_eq!(again.is(200), accepted, "order, spelling and an empty member say nothing");
    ask(r#"{"agent":"echo","input":{"a":2},"idempotency_key":"k-1"}"#).await.refused(409, "DUPLICATE_KEY");
    let by_header =
        client.once("k-1").post("/jobs", json!({ "agent": "echo", "input": { "a": 1, "b": [2] } })).await;
    assert_eq!(by_header.is(200)["job_id"], accepted["job_id"]);
    let other = world.agent("agent.other").await;
    let theirs = other.send("POST", "/jobs", Some(body.to_owned())).await.is(201);
    assert_ne!(theirs["job_id"], accepted["job_id"], "a key is its principal's");
    // Twenty concurrent requests create one job.
    let raced = (0..20).map(|_| client.post("/jobs", json!({ "agent": "echo", "idempotency_key": "k-2" })));
    let raced = futures_util::future::join_all(raced).await;
    assert_eq!(raced.iter().filter(|reply| reply.status == 201).count(), 1);
    assert!(raced.iter().all(|reply| reply.ok()["job_id"] == raced[0].ok()["job_id"]));
    // After the window the key is forgotten.
    world.pass(25 * 3600).await;
    assert_ne!(ask(body).await.is(201)["job_id"], accepted["job_id"]);
    world.end().await;
}

#[tokio::test]
async fn jobs_are_listed_filtered_and_paged_under_inserts() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    Hand::of(&world.any(), "other@2.0.0").await;
    let mut ids = Vec::new();
    for n in 0..6 {
        world.clock.advance(1);
        let agent = if n % 3 == 0 { "other" } else { "echo" };
        ids.push(id(&client.post("/jobs", json!({ "agent": agent })).await.is(201)).to_owned());
    }
    ids.reverse();
    let read = async |query: &str| {
        let page = client.get(&format!("/jobs?{query}")).await.ok();
        let jobs = page["jobs"].as_array().unwrap().iter().map(|job| id(job).to_owned()).collect::<Vec<_>>();
        (jobs, page["next_cursor"].clone())
    };
    assert_eq!(read("").await, (ids.clone(), Value::Null));
    let (first, cursor) = read("limit=4").await;
    assert_eq!(first, ids[..4]);
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let (rest, end) = read(&format!("limit=4&cursor={}", cursor.as_str().unwrap())).await;
    assert_eq!((rest, end), (ids[4..].to_vec(), Value::Null), "a new job moves nothing");
    assert_eq!(read("agent=other").await.0.len(), 2);
    assert_eq!(read("agent=other@2.0.0").await.0.len(), 2);
    assert_eq!(read("agent=other@1").await.0.len(), 0);
    hand.claim(2).await;
    assert_eq!(read("status=running").await.0.len(), 2);
    assert_eq!(read("status=running,pending").await.0.len(), 7);
    assert_eq!(read("created_after=2026-11-21T08:00:04Z").await.0.len(), 3);
    assert_eq!(read("created_before=2026-11-21T08:00:02Z").await.0.len(), 1);
    for wrong in ["status=done", "agent=A", "created_after=x", "limit=0", "limit=x", "cursor=x"] {
        client.get(&format!("/jobs?{wrong}")).await.refused(422, "INVALID_REQUEST");
    }
    let job = &client.get("/jobs?limit=1").await.ok()["jobs"][0];
    for member in ["lease", "parent_job_id", "created_at", "submitted_at", "trace_id", "last_event_seq"] {
        assert!(job.get(member).is_some(), "no `{member}` in {job}");
    }
    world.end().await;
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_and_leaves_nothing() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    Hand::of(&world.any(), "echo@1.0.0").await;
    let cases = [
        json!({}),
        json!({ "agent": 7 }),
        json!({ "agent": "echo", "lease_request": { "fs.execute": ["/x"] } }),
        json!({ "agent": "echo", "lease_request": { "x-vendor.acme": ["x"] } }),
        json!({ "agent": "echo", "lease_request": { "fs.read": ["/a**"] } }),
        json!({ "agent": "echo", "lease_request": { "fs.read": "x" } }),
        json!({ "agent": "echo", "lease_request": { "cost.budget": ["USD"] } }),
        json!({ "agent": "echo", "lease_request": { "cost.budget": ["USD:-1"] } }),
        json!({ "agent": "echo", "lease_request": { "cost.budget": ["USD:1", "USD:2"] } }),
        json!({ "agent": "echo", "lease_constraints": { "expires_at": "2036-05-13T23:42:00+00:00" } }),
        json!({ "agent": "echo", "lease_constraints": { "expires_at": "2036-05-13T23:42:00+02:00" } }),
        json!({ "agent": "echo", "lease_constraints": { "expires_at": "2026-11-21T08:00:00Z" } }),
        json!({ "agent": "echo", "lease_constraints": { "expires_at": "soon" } }),
        json!({ "agent": "echo", "max_runtime_sec": 0 }),
        json!({ "agent": "echo", "max_runtime_sec": -1 }),
        json!({ "agent": "echo", "idempotency_key": "" }),
        json!({ "agent": "echo", "idempotency_key": "k".repeat(300) }),
    ];
    for case in cases {
        let body = client.post("/jobs", case.clone()).await.refused(422, "INVALID_REQUEST");
        assert_eq!(body["retryable"], false, "{case}");
    }
    client.send("POST", "/jobs", Some("{".to_owned())).await.refused(400, "INVALID_REQUEST");
    let large = json!({ "agent": "echo", "input": "x".repeat(800 * 1024) });
    client.post("/jobs", large).await.refused(413, "INVALID_REQUEST");
    client
        .post("/jobs", json!({ "agent": "echo", "parent_job_id": "x" }))
        .await
        .refused(404, "JOB_NOT_FOUND");
    assert_eq!(client.get("/jobs").await.ok()["jobs"], json!([]));
    world.end().await;
}

#[tokio::test]
async fn others_jobs_are_as_none() {
    let world = World::start().await;
    let (client, other) = (world.agent("agent.client").await, world.agent("agent.other").await);
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    let accepted = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let theirs = id(&accepted);
    let unknown = theirs.replace(&theirs[10..20], "0000000000");
    for job in [theirs, unknown.as_str(), "job_x"] {
        for path in ["", "/events", "/result"] {
            let body = other.get(&format!("/jobs/{job}{path}")).await.refused(404, "JOB_NOT_FOUND");
            assert!(body["message"].as_str().unwrap().starts_with("No such job"));
        }
        let cancel = json!({ "session_id": accepted["session_id"] });
        other.post(&format!("/jobs/{job}/cancel"), cancel).await.refused(404, "JOB_NOT_FOUND");
        other
            .post("/jobs", json!({ "agent": "echo", "parent_job_id": job }))
            .await
            .refused(404, "JOB_NOT_FOUND");
    }
    assert_eq!(other.get("/jobs").await.ok()["jobs"], json!([]));
    let claimed = hand.one().await;
    // A token is valid for its own job only, and no request succeeds without it.
    let mut stolen = claimed.clone();
    stolen["claim_token"] = json!("ct_wrong");
    hand.events(&stolen, json!([])).await.refused(409, "CLAIM_LOST");
    stolen["job_id"] = json!(unknown);
    hand.events(&stolen, json!([])).await.refused(404, "JOB_NOT_FOUND");
    world.end().await;
}
