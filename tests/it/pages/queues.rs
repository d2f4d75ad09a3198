//! The page of queues: what waits and runs, the limits, and the buttons that pause, drain and open a queue.

use crate::arcp::jobs::Hand;
use crate::harness::{World, json};
use crate::kernel::people::logged_in;

#[tokio::test]
async fn an_operator_pauses_drains_and_opens_a_queue() {
    let world = World::start().await;
    let (admin, client) = (world.admin().await, world.agent("agent.client").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let limit = json!({ "max_running": 3, "max_starts": 1, "per_sec": 60 });
    admin.put("/arcp/limits/agents/echo", limit).await.ok();
    admin.put("/arcp/limits/principals/agent.client", json!({ "max_running": 2 })).await.ok();
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/queues").await.text;
    for text in [
        "1 waiting, 0 running",
        "at most 3 at once, 1 started within 60 s",
        "principal agent.client",
        "at most 2 at once",
    ] {
        assert!(page.contains(text), "no {text} in {page}");
    }
    let pausing = [("agent", "echo"), ("state", "paused"), ("reason", "<b>broken</b>")];
    assert_eq!(eve.act("/queues", "/queues", &pausing).await.status, 303);
    assert!(hand.claim(1).await.is_empty(), "a paused queue gives out nothing");
    let page = eve.get("/queues").await.text;
    assert!(
        page.contains("by human.eve") && page.contains("broken") && !page.contains("<b>broken"),
        "{page}"
    );
    // A version that is stopped apart has a line of its own, also when its agent is open.
    admin.put("/arcp/agents/echo@1/queue", json!({ "state": "paused" })).await.ok();
    let page = eve.get("/queues").await.text;
    assert!(page.contains("Open echo@1") && page.contains("Open echo<"), "{page}");
    assert_eq!(eve.act("/queues", "/queues", &[("agent", "echo@1"), ("state", "open")]).await.status, 303);
    let draining = [("agent", "echo"), ("state", "draining")];
    assert_eq!(eve.act("/queues", "/queues", &draining).await.status, 303);
    client.post("/jobs", json!({ "agent": "echo" })).await.refused(422, "AGENT_NOT_AVAILABLE");
    assert_eq!(eve.act("/queues", "/queues", &[("agent", "echo"), ("state", "open")]).await.status, 303);
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    for (fields, status) in
        [([("agent", "echo"), ("state", "shut")], 422), ([("agent", "none"), ("state", "open")], 404)]
    {
        let wrong = eve.act("/queues", "/queues", &fields).await;
        assert!(
            wrong.status == status && wrong.text.contains("role=\"alert\""),
            "{} {}",
            wrong.status,
            wrong.text
        );
    }
    world.end().await;
}

#[tokio::test]
async fn who_owns_no_agent_sees_no_queue_and_changes_none() {
    let world = World::start().await;
    Hand::of(&world.any(), "echo@1").await;
    let mut bob = logged_in(&world, "human.bob", false).await;
    let page = bob.get("/queues").await;
    assert!(page.status == 200 && !page.text.contains("echo"), "{}", page.text);
    let refused = bob.act("/queues", "/queues", &[("agent", "echo"), ("state", "paused")]).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    let admin = world.admin().await;
    assert_eq!(admin.get("/arcp/agents/echo/queue").await.ok()["state"], "open");
    world.end().await;
}
