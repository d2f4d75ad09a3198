//! Agents (RFC-0016): registration, records, lists and statuses. `heartbeats.rs` covers heartbeats, `departures.rs`
//! departures, `agents/sessions.rs` sessions and their epochs, `agents/fences.rs` leases and claims that writes name,
//! `agents/strict.rs` intents on which writes have to name epochs.

mod fences;
mod handovers;
mod sessions;
mod strict;

use entente_harness::agents::registered;
use entente_harness::{Value, World, json};

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|agent| agent["agent_id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_registers_and_renews_its_record() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let ask = json!({
        "agent_id": "agent.ada", "role_id": "researcher", "name": "Ada", "capabilities": ["search", "sum"],
        "capacity": { "max": 5 }, "endpoint": "https://ada.example/inbox",
        "heartbeat_config": { "interval_seconds": 10 }, "metadata": { "team": "x" }, "drain_timeout_seconds": 60
    });
    let record = ada.post("/agents/register", ask.clone()).await.is(200);
    let expected = json!({
        "agent_id": "agent.ada", "status": "active", "role_id": "researcher", "name": "Ada",
        "capabilities": ["search", "sum"], "capacity": { "max": 5 }, "endpoint": "https://ada.example/inbox",
        "heartbeat_config": { "interval_seconds": 10, "unhealthy_after_seconds": 90, "dead_after_seconds": 300 },
        "metadata": { "team": "x" }, "agent_metadata": { "team": "x" },
        "registered_at": "2026-11-21T08:00:00.000000Z", "last_heartbeat_at": null, "current_load": 0,
        "tasks_in_progress": [], "drain_timeout_seconds": 60, "principal_id": "agent.ada", "version": 1
    });
    assert_eq!(record, expected);
    // Both paths to read it (OI-4.7.1), for every agent.
    let bob = world.agent("agent.bob").await;
    assert_eq!(bob.get("/agents/agent.ada").await.ok(), expected);
    assert_eq!(bob.get("/agents/agent.ada/record").await.ok(), expected);
    bob.get("/agents/agent.nobody").await.refused(404, "not_found");
    bob.get("/agents/agent.nobody/record").await.refused(404, "not_found");
    // The RFC's path answers 201. The same principal may renew the record at any time (OI-9.2); omitted members
    // are removed.
    world.clock.advance(5);
    let renewed =
        ada.post("/agents", json!({ "agent_id": "agent.ada", "capabilities": ["sum"] })).await.is(201);
    let mut expected = expected;
    for (member, value) in [
        ("role_id", json!(null)),
        ("name", json!(null)),
        ("capabilities", json!(["sum"])),
        ("capacity", json!(null)),
        ("endpoint", json!(null)),
        ("heartbeat_config", json!(null)),
        ("metadata", json!({})),
        ("agent_metadata", json!({})),
        ("registered_at", json!("2026-11-21T08:00:05.000000Z")),
        ("drain_timeout_seconds", json!(null)),
        ("version", json!(2)),
    ] {
        expected[member] = value;
    }
    assert_eq!(renewed, expected);
    let events = world.admin().await.get("/audit?event_type=agent.registered").await.ok();
    let renewals: Vec<&Value> = events.as_array().unwrap().iter().map(|e| &e["payload"]["renewed"]).collect();
    assert_eq!(renewals, [&json!(true), &json!(false)]);
    assert_eq!(events[0]["actor"], "agent.ada");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_registration_is_done_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let ask = json!({ "agent_id": "agent.ada" });
    let first = ada.once("k").post("/agents/register", ask.clone()).await.is(200);
    assert_eq!(ada.once("k").post("/agents/register", ask.clone()).await.is(200), first);
    assert_eq!(first["version"], 1);
    let other = json!({ "agent_id": "agent.ada", "role_id": "x" });
    ada.once("k").post("/agents/register", other).await.refused(409, "idempotency_mismatch");
    assert_eq!(ada.post("/agents/register", ask).await.is(200)["version"], 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_belongs_to_the_principal_that_registered_it() {
    let world = World::start().await;
    let ada = registered(&world, "agent.ada", json!({ "role_id": "mine" })).await;
    // A key that may act as the agent still belongs to another principal.
    world
        .any()
        .post("/agents/register", json!({ "agent_id": "agent.ada" }))
        .await
        .refused(409, "already_registered");
    world.any().post("/agents", json!({ "agent_id": "agent.ada" })).await.refused(409, "already_registered");
    let kept = world.any().post("/agents/register", json!({ "agent_id": "agent.x" })).await.is(200);
    assert_eq!(kept["principal_id"], "service.any");
    world
        .agent("agent.x")
        .await
        .post("/agents", json!({ "agent_id": "agent.x" }))
        .await
        .refused(409, "already_registered");
    // Also after it has left.
    ada.delete("/agents/agent.ada").await.ok();
    world
        .any()
        .post("/agents/register", json!({ "agent_id": "agent.ada" }))
        .await
        .refused(409, "already_registered");
    assert_eq!(world.any().get("/agents/agent.ada").await.ok()["role_id"], "mine");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_registrations_are_refused() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let with = |member: &str, value: Value| json!({ "agent_id": "agent.ada", member: value });
    for bad in [
        json!({}),
        json!({ "agent_id": 5 }),
        json!({ "agent_id": "" }),
        json!({ "agent_id": "*" }),
        with("role_id", json!("")),
        with("role_id", json!("role:x")),
        with("name", json!("a\tb")),
        with("capabilities", json!("search")),
        with("capabilities", json!([""])),
        with("capacity", json!([])),
        with("metadata", json!("x")),
        with("endpoint", json!("https://a\nb")),
        with("endpoint", json!(format!("https://{}", "x".repeat(20_000)))),
        with("drain_timeout_seconds", json!(315_360_001)),
        with("drain_timeout_seconds", json!(-1)),
        with("heartbeat_config", json!({ "interval_seconds": "x" })),
    ] {
        ada.post("/agents/register", bad.clone()).await.refused(422, "invalid_request");
        ada.post("/agents", bad).await.refused(422, "invalid_request");
    }
    for order in [
        json!({ "interval_seconds": 0 }),
        json!({ "interval_seconds": 91 }),
        json!({ "unhealthy_after_seconds": 301 }),
        json!({ "dead_after_seconds": 315_360_001 }),
    ] {
        ada.post("/agents", with("heartbeat_config", order)).await.refused(422, "unprocessable");
    }
    for large in [
        with("metadata", json!({ "x": "y".repeat(20_000) })),
        with("capacity", json!({ "x": "y".repeat(20_000) })),
        with("capabilities", json!(vec!["c"; 201])),
    ] {
        ada.post("/agents", large).await.refused(413, "too_large");
    }
    ada.get("/agents/agent.ada").await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_paged() {
    let world = World::start().await;
    let beat = json!({ "interval_seconds": 1, "unhealthy_after_seconds": 10, "dead_after_seconds": 20 });
    for (id, role) in
        [("agent.e", "x"), ("agent.a", "x"), ("agent.c", "y"), ("agent.b", "x"), ("agent.d", "x")]
    {
        let config = if id == "agent.c" || id == "agent.b" { beat.clone() } else { json!(null) };
        registered(&world, id, json!({ "role_id": role, "heartbeat_config": config })).await;
    }
    let any = world.any();
    let list = async |query: &str| any.get(&format!("/agents{query}")).await.ok();
    assert_eq!(ids(&list("").await), ["agent.a", "agent.b", "agent.c", "agent.d", "agent.e"]);
    assert_eq!(ids(&list("?role_id=x").await), ["agent.a", "agent.b", "agent.d", "agent.e"]);
    assert_eq!(ids(&list("?role_id=x&limit=2").await), ["agent.a", "agent.b"]);
    assert_eq!(ids(&list("?role_id=x&limit=2&after=agent.b").await), ["agent.d", "agent.e"]);
    assert_eq!(list("?role_id=z").await, json!([]));
    world.agent("agent.e").await.post("/agents/agent.e/drain", json!({})).await.ok();
    assert_eq!(ids(&list("?status=draining").await), ["agent.e"]);
    // A status change by time takes effect at once, before a sweep has run; a page is full although other agents
    // lie between.
    world.clock.advance(10);
    for _ in 0..2 {
        assert_eq!(ids(&list("?status=unhealthy").await), ["agent.b", "agent.c"]);
        assert_eq!(ids(&list("?status=active").await), ["agent.a", "agent.d"]);
        assert_eq!(ids(&list("?status=active&limit=1&after=agent.a").await), ["agent.d"]);
        assert_eq!(ids(&list("?status=unhealthy&role_id=y").await), ["agent.c"]);
        world.sweep().await;
    }
    for wrong in ["?status=banana", "?limit=0", "?limit=1001", "?limit=x"] {
        any.get(&format!("/agents{wrong}")).await.refused(422, "invalid_parameter");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_keeper_changes_its_status() {
    let world = World::start().await;
    let ada = registered(&world, "agent.ada", json!({})).await;
    let eve = world.agent("agent.eve").await;
    let path = "/agents/agent.ada/status";
    for status in ["draining", "active", "unhealthy", "registering", "active"] {
        let record = ada.patch(path, json!({ "status": status })).await.is(200);
        assert_eq!(record["status"], status);
        assert_eq!(ada.get("/agents/agent.ada").await.ok()["status"], status);
    }
    for wrong in [json!({ "status": "banana" }), json!({ "status": 5 }), json!({})] {
        ada.patch(path, wrong).await.refused(422, "invalid_request");
    }
    eve.patch(path, json!({ "status": "dead" })).await.refused(403, "may_not_act_as");
    eve.patch("/agents/agent.eve/status", json!({ "status": "active" })).await.refused(404, "not_found");
    let admin = world.admin().await;
    assert_eq!(admin.patch(path, json!({ "status": "draining" })).await.ok()["status"], "draining");
    let events = admin.get("/audit?event_type=agent.status_changed").await.ok();
    let newest = json!({ "agent_id": "agent.ada", "old_status": "active", "new_status": "draining" });
    assert_eq!(events[0]["payload"], newest);
    assert_eq!(
        (&events[0]["actor"], &events[1]["actor"]),
        (&json!("service.bootstrap"), &json!("agent.ada"))
    );
    // A patch without changes logs no event.
    let before = events.as_array().unwrap().len();
    let version = ada.get("/agents/agent.ada").await.ok()["version"].clone();
    assert_eq!(ada.patch(path, json!({ "status": "draining" })).await.ok()["version"], version);
    let events = admin.get("/audit?event_type=agent.status_changed").await.ok();
    assert_eq!(events.as_array().unwrap().len(), before);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_has_left_comes_back_only_by_registering() {
    let world = World::start().await;
    for (id, end) in [("agent.a", "dead"), ("agent.b", "deregistered")] {
        let agent = registered(&world, id, json!({ "role_id": "r" })).await;
        let path = format!("/agents/{id}/status");
        assert_eq!(agent.patch(&path, json!({ "status": end })).await.ok()["status"], end);
        for status in ["active", "draining", "unhealthy", "registering"] {
            agent.patch(&path, json!({ "status": status })).await.refused(410, "gone");
        }
        agent.post(&format!("/agents/{id}/drain"), json!({})).await.refused(410, "gone");
        agent.post(&format!("/agents/{id}/heartbeat"), json!({})).await.refused(410, "gone");
        agent.patch(&path, json!({ "status": end })).await.ok();
        let back = agent.post("/agents/register", json!({ "agent_id": id })).await.is(200);
        assert_eq!((&back["status"], &back["current_load"]), (&json!("active"), &json!(0)));
        agent.post(&format!("/agents/{id}/heartbeat"), json!({})).await.ok();
    }
    world.end().await;
}
