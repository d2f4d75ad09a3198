//! Heartbeats (RFC-0016): their effects, and the effects of silence.

use entente_harness::agents::registered;
use entente_harness::{Client, Value, World, json};

const SHORT: &str = r#"{"interval_seconds":10,"unhealthy_after_seconds":30,"dead_after_seconds":60}"#;

fn short() -> Value {
    json!({ "heartbeat_config": serde_json::from_str::<Value>(SHORT).unwrap() })
}

async fn status(client: &Client, id: &str) -> String {
    client.get(&format!("/agents/{id}")).await.ok()["status"].as_str().unwrap().to_owned()
}

/// Returns the status events of the system log, oldest first, as `old → new by actor`.
async fn told(admin: &Client) -> Vec<String> {
    let events = admin.get("/audit?limit=1000").await.ok();
    let about = events.as_array().unwrap().iter().rev().filter(|event| {
        let kind = event["event_type"].as_str().unwrap();
        kind == "agent.status_changed" || kind == "agent.dead"
    });
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    about
        .map(|event| {
            let (old, new) = (word(&event["payload"]["old_status"]), word(&event["payload"]["new_status"]));
            assert_eq!(
                new == "dead",
                event["event_type"] == "agent.dead",
                "the dead have an event of their own"
            );
            format!("{old} → {new} by {}", word(&event["actor"]))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_is_heard() {
    let world = World::start().await;
    let ada = registered(&world, "agent.ada", short()).await;
    world.clock.advance(7);
    let body = json!({ "status": "active", "current_load": 3, "tasks_in_progress": ["task-7", "task-8"] });
    let heard = ada.post("/agents/agent.ada/heartbeat", body).await.is(200);
    let expected = json!({
        "status": "ok", "acknowledged": true, "agent_status": "active", "pending_commands": [],
        "server_timestamp": "2026-11-21T08:00:07.000000Z", "next_heartbeat_at": "2026-11-21T08:00:17.000000Z"
    });
    assert_eq!(heard, expected);
    // Visible at once, and stored with the next sweep.
    for _ in 0..2 {
        let record = ada.get("/agents/agent.ada").await.ok();
        assert_eq!(record["last_heartbeat_at"], "2026-11-21T08:00:07.000000Z");
        assert_eq!(record["current_load"], 3);
        assert_eq!(record["tasks_in_progress"], json!(["task-7", "task-8"]));
        assert_eq!(record["version"], 1, "a beat is no change of the record");
        assert_eq!(ada.get("/agents").await.ok()[0], record);
        world.sweep().await;
    }
    let stored: i64 =
        sqlx::query_scalar("SELECT current_load FROM agents").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(stored, 3);
    // A heartbeat without a body is valid and reports no load. A renewed record keeps the last report.
    world.clock.advance(1);
    ada.post("/agents/agent.ada/heartbeat", json!({ "current_load": 4 })).await.ok();
    world.sweep().await;
    let renewed = ada.post("/agents", json!({ "agent_id": "agent.ada" })).await.is(201);
    assert_eq!(renewed["current_load"], 4);
    ada.send("POST", "/agents/agent.ada/heartbeat", None).await.is(200);
    assert_eq!(ada.get("/agents/agent.ada").await.ok()["current_load"], 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_beats_for_another() {
    let world = World::start().await;
    let ada = registered(&world, "agent.ada", short()).await;
    let eve = world.agent("agent.eve").await;
    eve.post("/agents/agent.ada/heartbeat", json!({})).await.refused(403, "may_not_act_as");
    eve.post("/agents/agent.eve/heartbeat", json!({})).await.refused(404, "not_found");
    for wrong in [
        json!({ "current_load": "much" }),
        json!({ "current_load": 1.5 }),
        json!({ "tasks_in_progress": "task-7" }),
        json!({ "tasks_in_progress": [""] }),
    ] {
        ada.post("/agents/agent.ada/heartbeat", wrong).await.refused(422, "invalid_request");
    }
    let many = json!({ "tasks_in_progress": vec!["t"; 201] });
    ada.post("/agents/agent.ada/heartbeat", many).await.refused(413, "too_large");
    assert_eq!(ada.get("/agents/agent.ada").await.ok()["last_heartbeat_at"], json!(null));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_makes_an_agent_unhealthy_and_then_dead() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = registered(&world, "agent.ada", short()).await;
    world.clock.advance(29);
    assert_eq!(status(&ada, "agent.ada").await, "active");
    ada.post("/agents/agent.ada/heartbeat", json!({})).await.ok();
    world.pass(29).await;
    assert_eq!(status(&ada, "agent.ada").await, "active", "the beat counts, not the registration");
    world.clock.advance(1);
    assert_eq!(status(&ada, "agent.ada").await, "unhealthy", "the instant it is due");
    assert_eq!(told(&admin).await, [""; 0], "and not yet written down");
    world.sweep().await;
    world.sweep().await;
    assert_eq!(told(&admin).await, ["active → unhealthy by entente"], "once");
    assert_eq!(status(&ada, "agent.ada").await, "unhealthy");
    world.clock.advance(30);
    assert_eq!(status(&ada, "agent.ada").await, "dead");
    ada.post("/agents/agent.ada/heartbeat", json!({})).await.refused(410, "gone");
    ada.patch("/agents/agent.ada/status", json!({ "status": "active" })).await.refused(410, "gone");
    world.sweep().await;
    ada.post("/agents/agent.ada/heartbeat", json!({})).await.refused(410, "gone");
    assert_eq!(told(&admin).await, ["active → unhealthy by entente", "unhealthy → dead by entente"]);
    // Registering revives the agent, with monitoring from now on.
    let back = ada.post("/agents/register", json!({ "agent_id": "agent.ada" })).await.is(200);
    assert_eq!((&back["status"], &back["last_heartbeat_at"]), (&json!("active"), &json!(null)));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_silence_is_noted_at_one_go() {
    let world = World::start().await;
    let admin = world.admin().await;
    registered(&world, "agent.ada", short()).await;
    world.pass(3600).await;
    assert_eq!(told(&admin).await, ["active → dead by entente"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_beat_heals_the_unhealthy() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = registered(&world, "agent.ada", short()).await;
    let load = json!({ "current_load": 5, "tasks_in_progress": ["task-1"] });
    // Before the silence was recorded, nothing has to be reverted.
    world.clock.advance(30);
    assert_eq!(ada.post("/agents/agent.ada/heartbeat", json!({})).await.ok()["agent_status"], "active");
    assert_eq!(status(&ada, "agent.ada").await, "active");
    world.sweep().await;
    assert_eq!(told(&admin).await, [""; 0]);
    // Afterwards the recovery is an event.
    world.pass(30).await;
    world.clock.advance(1);
    let heard = ada.post("/agents/agent.ada/heartbeat", load).await.ok();
    assert_eq!(heard["agent_status"], "active");
    for _ in 0..2 {
        let record = ada.get("/agents/agent.ada").await.ok();
        assert_eq!(record["status"], "active");
        assert_eq!(record["last_heartbeat_at"], "2026-11-21T08:01:01.000000Z");
        assert_eq!((&record["current_load"], &record["tasks_in_progress"]), (&json!(5), &json!(["task-1"])));
        world.sweep().await;
    }
    assert_eq!(told(&admin).await, ["active → unhealthy by entente", "unhealthy → active by agent.ada"]);
    // A registering agent becomes active with its first heartbeat.
    ada.patch("/agents/agent.ada/status", json!({ "status": "registering" })).await.ok();
    assert_eq!(ada.post("/agents/agent.ada/heartbeat", json!({})).await.ok()["agent_status"], "active");
    assert_eq!(status(&ada, "agent.ada").await, "active");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_silence_of_one_who_promised_nothing_says_nothing() {
    let world = World::start().await;
    let ada = registered(&world, "agent.ada", json!({})).await;
    world.pass(10 * 24 * 3600).await;
    assert_eq!(status(&ada, "agent.ada").await, "active");
    // Its first heartbeat starts the monitoring, with the default interval.
    let heard = ada.post("/agents/agent.ada/heartbeat", json!({})).await.ok();
    assert_eq!(heard["next_heartbeat_at"], "2026-12-01T08:00:30.000000Z");
    world.pass(89).await;
    assert_eq!(status(&ada, "agent.ada").await, "active");
    world.clock.advance(1);
    assert_eq!(status(&ada, "agent.ada").await, "unhealthy");
    world.pass(210).await;
    assert_eq!(status(&ada, "agent.ada").await, "dead");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_asked_for_is_the_one_that_is_shown() {
    let world = World::start().await;
    let ada = registered(&world, "agent.ada", short()).await;
    world.clock.advance(30);
    // Setting the status to active is no heartbeat and does not hide the silence.
    let answered = ada.patch("/agents/agent.ada/status", json!({ "status": "active" })).await.ok();
    assert_eq!(answered["status"], status(&ada, "agent.ada").await.as_str());
    world.end().await;
}
