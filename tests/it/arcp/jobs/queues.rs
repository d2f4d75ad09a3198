//! Queues of agents: paused, drained and opened again, on every server at once.

use std::time::{Duration, Instant};

use super::{Hand, id, status};
use entente_harness::{Client, Value, World, json};

async fn set(client: &Client, agent: &str, state: &str) -> Value {
    client
        .put(&format!("/arcp/agents/{agent}/queue"), json!({ "state": state, "reason": "because" }))
        .await
        .ok()
}

#[tokio::test]
async fn a_paused_queue_accepts_jobs_and_gives_out_none_on_any_server() {
    let (here, there) = World::two().await;
    let client = here.agent("agent.client").await;
    let hand = Hand::of(&here.any(), "echo@1").await;
    let other = Hand::again(&there.any(), "echo").await;
    Hand::of(&here.any(), "fine@1").await;
    let running = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let claimed = hand.one().await;
    let queue = set(&here.any(), "echo", "paused").await;
    assert_eq!(
        (&queue["state"], &queue["running"], &queue["changed_by"]),
        (&json!("paused"), &json!(1), &json!("service.any"))
    );
    let (intent, plain) = (
        client.post("/intents", json!({ "title": "work" })).await.ok()["id"].clone(),
        client.post("/jobs", json!({ "agent": "echo" })).await.is(201),
    );
    client.post("/jobs", json!({ "agent": "echo", "intent_id": intent })).await.is(201);
    assert!(hand.claim(10).await.is_empty() && other.claim(10).await.is_empty());
    // Jobs that run go on, and jobs of other agents are not held up.
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    assert_eq!(status(&client, id(&running)).await, "success");
    let both = there
        .any()
        .post("/workers", json!({ "name": "w", "agents": ["echo", "fine"], "slots": 4 }))
        .await
        .is(201);
    let both = Hand { client: there.any(), id: both["worker_id"].as_str().unwrap().to_owned() };
    let fine = client.post("/jobs", json!({ "agent": "fine", "intent_id": intent })).await.is(201);
    assert_eq!(both.one().await["job_id"], fine["job_id"]);
    assert_eq!(here.any().get("/arcp/agents/echo/queue").await.ok()["pending"], 2);

    // A worker that waits on the other server gets the jobs as soon as the queue is open.
    let waiting = tokio::spawn({
        let (client, body) = (there.any(), json!({ "worker_id": other.id, "max": 10, "wait_sec": 20 }));
        async move { client.post("/jobs/claim", body).await.ok() }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    assert_eq!(set(&here.any(), "echo", "open").await["state"], "open");
    let got = waiting.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(got["jobs"].as_array().unwrap().len(), 2, "{got}");
    assert!(got["jobs"].as_array().unwrap().iter().any(|job| job["job_id"] == plain["job_id"]));
    let audit = here.admin().await.get("/audit?event_type=agent.queue_changed").await.ok().to_string();
    assert!(
        audit.contains("paused") && audit.contains("service.any") && audit.contains("because"),
        "{audit}"
    );
    here.end().await;
    there.end().await;
}

#[tokio::test]
async fn a_draining_queue_accepts_nothing_and_finishes_what_it_has() {
    let world = World::start().await;
    let (client, any, admin) = (world.agent("agent.client").await, world.any(), world.admin().await);
    let hand = Hand::of(&any, "echo@1").await;
    let lease = json!({ "agent.delegate": ["echo", "next"] });
    let body = json!({ "agent": "echo", "lease_request": lease, "idempotency_key": "k" });
    let job = client.post("/jobs", body.clone()).await.is(201);
    let queue = set(&admin, "echo@1", "draining").await;
    assert_eq!((&queue["state"], &queue["pending"]), (&json!("draining"), &json!(1)));
    let refused = client.post("/jobs", json!({ "agent": "echo" })).await;
    let refused = refused.refused(422, "AGENT_NOT_AVAILABLE").to_string();
    assert!(refused.contains("drained"), "{refused}");
    // A repeated request is no new job.
    assert_eq!(client.post("/jobs", body).await.is(200)["job_id"], job["job_id"]);
    // Another version is open, and takes jobs under its own name.
    any.put("/arcp/agents/echo/versions/2", json!({})).await.ok();
    client.post("/jobs", json!({ "agent": "echo@2" })).await.is(201);
    // What is there is finished, with the children that it needs from the same agent.
    let parent = hand.one().await;
    hand.tell(&parent, "delegate", json!({ "delegate_id": "own", "agent": "echo@1" })).await.is(201);
    let child = hand.one().await;
    for job in [&child, &parent] {
        hand.tell(job, "result", json!({ "result": 1 })).await.ok();
    }
    let queue = any.get("/arcp/agents/echo@1/queue").await.ok();
    assert_eq!((&queue["pending"], &queue["running"]), (&json!(0), &json!(0)));
    // An agent that drains as a whole takes no children of others either.
    Hand::of(&any, "next@1").await;
    set(&any, "next", "draining").await;
    set(&any, "echo@1", "open").await;
    let lease = json!({ "agent.delegate": ["next"] });
    client.post("/jobs", json!({ "agent": "echo@1", "lease_request": lease })).await.is(201);
    let parent = hand.one().await;
    let refused = hand.tell(&parent, "delegate", json!({ "delegate_id": "d", "agent": "next" })).await;
    refused.refused(422, "AGENT_NOT_AVAILABLE");
    world.end().await;
}

#[tokio::test]
async fn only_the_owner_and_an_operator_stop_a_queue() {
    let world = World::start().await;
    let (owner, other) = (world.agent("agent.owner").await, world.agent("agent.other").await);
    owner.put("/arcp/agents/echo/versions/1", json!({})).await.ok();
    let body = json!({ "state": "paused" });
    other.put("/arcp/agents/echo/queue", body.clone()).await.refused(403, "PERMISSION_DENIED");
    other.get("/arcp/agents/echo/queue").await.refused(403, "PERMISSION_DENIED");
    owner.put("/arcp/agents/none/queue", body.clone()).await.refused(404, "NOT_FOUND");
    owner.put("/arcp/agents/echo@2/queue", body.clone()).await.refused(404, "NOT_FOUND");
    owner.put("/arcp/agents/echo/queue", json!({ "state": "shut" })).await.refused(422, "INVALID_REQUEST");
    assert_eq!(owner.put("/arcp/agents/echo/queue", body).await.ok()["state"], "paused");
    assert_eq!(set(&world.admin().await, "echo", "open").await["changed_by"], Value::Null);
    world.end().await;
}
