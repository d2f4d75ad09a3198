//! The page of queues: what waits and runs, the limits, and the buttons that pause, drain and open a queue.

use entente_harness::jobs::Hand;
use entente_harness::people::logged_in;
use entente_harness::{World, json};

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

/// The fields of a form of limits.
fn of(
    scope: &'static str,
    name: &'static str,
    running: &'static str,
    verb: &'static str,
) -> [(&'static str, &'static str); 4] {
    [("scope", scope), ("name", name), ("max_running", running), ("verb", verb)]
}

#[tokio::test]
async fn limits_are_set_and_removed_here() {
    let world = World::start().await;
    Hand::of(&world.any(), "echo@1").await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let admin = world.admin().await;
    let limits = async || admin.get("/arcp/limits").await.ok()["limits"].clone();
    let done = eve.act("/queues/limits", "/queues", &of("agent", "echo", "3", "set")).await;
    assert_eq!((done.status, done.location.as_str()), (303, "/queues"), "{}", done.text);
    let rate = [
        ("scope", "principal"),
        ("name", "agent.client"),
        ("max_starts", "5"),
        ("per_sec", "60"),
        ("max_priority", "10"),
        ("verb", "set"),
    ];
    assert_eq!(eve.act("/queues/limits", "/queues", &rate).await.status, 303);
    let set = limits().await;
    assert_eq!(
        (&set[0]["name"], &set[0]["max_running"], &set[0]["set_by"]),
        (&json!("echo"), &json!(3), &json!("human.eve"))
    );
    assert_eq!(
        (&set[1]["max_starts"], &set[1]["per_sec"], &set[1]["max_priority"]),
        (&json!(5), &json!(60), &json!(10))
    );
    let page = eve.get("/queues").await.text;
    for text in [
        "at most 3 at once",
        "name=\"max_running\" value=\"3\"",
        "at most 5 started within 60 s, priority 10 or less",
        "Remove the limits of principal agent.client",
    ] {
        assert!(page.contains(text), "no {text} in {page}");
    }
    for fields in [of("agent", "echo", "", "remove"), of("principal", "agent.client", "", "remove")] {
        assert_eq!(eve.act("/queues/limits", "/queues", &fields).await.status, 303);
    }
    assert_eq!(limits().await, json!([]));
    world.end().await;
}

#[tokio::test]
async fn limits_that_are_refused_are_still_typed_in() {
    let world = World::start().await;
    Hand::of(&world.any(), "echo@1").await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let admin = world.admin().await;
    admin.put("/arcp/limits/agents/echo", json!({ "max_running": 3 })).await.ok();
    let limits = async || admin.get("/arcp/limits").await.ok()["limits"].clone();
    let set = limits().await;
    // What is refused changes nothing, and what was typed is still there.
    for (fields, why) in [
        (of("agent", "echo", "many", "set"), "whole number"),
        (of("agent", "echo", "0", "set"), "max_running"),
        (of("agent", "echo", "", "set"), "There is no limit"),
        (of("everything", "echo", "1", "set"), "of an agent or of a principal"),
        (of("agent", "echo", "1", "double"), "set or removed"),
    ] {
        let wrong = eve.act("/queues/limits", "/queues", &fields).await;
        assert!(
            wrong.status == 422 && wrong.between("role=\"alert\">", "</p>").contains(why),
            "{why}: {}",
            wrong.text
        );
        assert!(wrong.text.contains(&format!("value=\"{}\"", fields[2].1)), "{}", wrong.text);
    }
    let unknown = eve.act("/queues/limits", "/queues", &of("agent", "none", "7", "set")).await;
    assert!(
        unknown.status == 404
            && unknown.text.contains("value=\"none\"")
            && unknown.text.contains("value=\"7\"")
    );
    // A person without agents and without the scope `admin` limits neither.
    let mut bob = logged_in(&world, "human.bob", false).await;
    assert!(!bob.get("/queues").await.text.contains("/queues/limits"));
    for fields in [
        of("agent", "echo", "1", "set"),
        of("principal", "human.bob", "1", "set"),
        of("agent", "echo", "", "remove"),
    ] {
        let refused = bob.act("/queues/limits", "/queues", &fields).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
    }
    assert_eq!(limits().await, set);
    world.end().await;
}
