//! Triggers (RFC-0017): creation, lookup, changes, manual firing and permissions. `triggers/schedules.rs` covers
//! schedules, `triggers/deduplicating.rs` deduplication, `triggers/hearing.rs` events, `triggers/hooks.rs` incoming
//! webhooks.

mod deduplicating;
mod hearing;
mod hooks;
mod schedules;

use entente::background::sweeps::Sweep;

use entente_harness::keys::key;
use entente_harness::triggers::{did, intents, now, path, trigger};
use entente_harness::{Client, Setup, Value, World, json};

/// Returns the system log's events about triggers, oldest first.
pub async fn told(world: &World) -> Vec<(String, Value)> {
    let log = world.admin().await.get("/audit?limit=1000").await.ok();
    let events = log.as_array().unwrap().iter().rev();
    let of_triggers = events.filter(|event| event["event_type"].as_str().unwrap().starts_with("trigger."));
    of_triggers
        .map(|event| (event["event_type"].as_str().unwrap().to_owned(), event["payload"].clone()))
        .collect()
}

/// Creates `many` due rows for this sweep: due triggers or old firings.
pub async fn lapsed(world: &World, sweep: Sweep, many: u64) {
    let ada = world.agent("agent.ada").await;
    let due = sweep == Sweep::Triggers;
    for _ in 0..many {
        let condition = if due { json!({ "every_seconds": 60 }) } else { Value::Null };
        let made = trigger(&ada, "schedule", json!({ "condition": condition })).await;
        if !due {
            ada.send("POST", &format!("{}/fire", path(&made)), None).await.is(200);
        }
    }
    world.clock.advance(if due { 60 } else { 31 * 24 * 3_600 });
}

#[tokio::test]
async fn fired_by_hand_it_makes_its_intent() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let parent = ada.post("/intents", json!({ "title": "above" })).await.ok();
    let template = json!({
        "type": "compliance.review", "title": "Review {{ payload.what }}", "description": "by {{ trigger.name }}",
        "assignee": "agent.bob", "context": { "scope": "all", "n": "{{ payload.n }}" }, "tags": ["auto"],
        "constraints": { "rules": ["quiet"] }, "parent_intent_id": parent["id"], "status": "active",
        "assignments": [{ "agent_id": "agent.boss", "role": "coordinator" }],
    });
    let made = trigger(&ada, "schedule", json!({ "intent_template": template })).await;
    assert_eq!(
        (&made["enabled"], &made["version"], &made["fire_count"]),
        (&json!(true), &json!(1), &json!(0))
    );
    assert_eq!(
        (&made["deduplication"], &made["namespace"], &made["created_by"]),
        (&json!("allow"), &Value::Null, &json!("agent.ada"))
    );
    assert!(made["trigger_id"].as_str().unwrap().starts_with("trg_") && made.get("secret").is_none());
    let fired = ada
        .post(&format!("{}/fire", path(&made)), json!({ "payload": { "what": "it", "n": 5 } }))
        .await
        .is(200);
    assert_eq!((&fired["status"], &fired["fire_count"]), (&json!("fired"), &json!(1)));
    let id = fired["intent_id"].as_str().unwrap();
    let intent = ada.get(&format!("/intents/{id}")).await.ok();
    assert_eq!((&intent["title"], &intent["description"]), (&json!("Review it"), &json!("by review")));
    assert_eq!((&intent["created_by"], &intent["status"]), (&json!("agent.ada"), &json!("active")));
    assert_eq!((&intent["parent_id"], &intent["constraints"]["rules"]), (&parent["id"], &json!(["quiet"])));
    assert_eq!((&intent["state"]["scope"], &intent["state"]["n"]), (&json!("all"), &json!(5)));
    let mark = &intent["state"]["trigger"];
    assert_eq!((&mark["trigger_id"], &mark["tags"]), (&made["trigger_id"], &json!(["auto"])));
    let agents = ada.get(&format!("/intents/{id}/agents")).await.ok();
    let mut agents: Vec<(&str, &str)> = agents
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["agent_id"].as_str().unwrap(), one["role"].as_str().unwrap()))
        .collect();
    agents.sort_unstable();
    assert_eq!(agents, [("agent.bob", "worker"), ("agent.boss", "coordinator")]);
    // The log keeps the lineage permanently (RFC-0017 §5.2).
    let log = ada.get(&format!("/intents/{id}/events?event_type=intent_created")).await.ok();
    let lineage = &log[0]["payload"]["lineage"];
    assert_eq!((&lineage["created_by"], &lineage["trigger_depth"]), (&json!("trigger"), &json!(1)));
    assert_eq!(lineage["trigger_chain"], json!([made["trigger_id"]]));
    ada.get(&format!("/intents/{id}/events/verify")).await.ok();
    assert_eq!(did(&ada, &made).await, [("hand".to_owned(), "fired".to_owned(), Value::Null)]);
    let after = now(&ada, &made).await;
    // A firing does not change the trigger's version, so a version read before still allows a change.
    assert_eq!((&after["fire_count"], &after["version"]), (&json!(1), &json!(1)));
    assert!(after["last_fired_at"].is_string());
    let events = told(&world).await;
    assert_eq!(
        events.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(),
        ["trigger.created", "trigger.fired"]
    );
    assert_eq!(events[1].1["intent_id"], fired["intent_id"]);
    world.end().await;
}

#[tokio::test]
async fn a_retry_is_done_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let ask = json!({ "name": "in", "type": "webhook" });
    let one = ada.once("k1").post("/triggers", ask.clone()).await.is(200);
    let again = ada.once("k1").post("/triggers", ask).await.is(200);
    assert_eq!(again["trigger_id"], one["trigger_id"]);
    // Only the first response contains the secret.
    assert!(one["secret"].is_string() && again.get("secret").is_none());
    let fire = format!("{}/fire", path(&one));
    let first = ada.once("k2").send("POST", &fire, None).await.is(200);
    assert_eq!(ada.once("k2").send("POST", &fire, None).await.is(200), first);
    assert_eq!(now(&ada, &one).await["fire_count"], 1);
    assert_eq!(ada.send("POST", &fire, None).await.is(200)["fire_count"], 2);
    assert_eq!(intents(&ada).await.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_change_needs_the_version_that_is_current() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let condition =
        json!({ "cron": "0 9 * * *", "timezone": "Europe/Berlin", "starts_at": "2026-12-01T00:00:00Z" });
    let more = json!({ "condition": condition, "namespace": "eu", "cooldown_seconds": 5 });
    let made = trigger(&ada, "schedule", more).await;
    assert_eq!(made["next_due_at"], "2026-12-01T08:00:00.000000Z");
    assert_eq!(
        (&made["condition"]["cron"], &made["condition"]["timezone"]),
        (&json!("0 9 * * *"), &json!("Europe/Berlin"))
    );
    ada.patch(&path(&made), json!({ "enabled": false })).await.refused(428, "precondition_required");
    let changed = ada.seen(&json!(1)).patch(&path(&made), json!({ "enabled": false })).await.ok();
    assert_eq!(
        (&changed["version"], &changed["enabled"], &changed["next_due_at"]),
        (&json!(2), &json!(false), &Value::Null)
    );
    assert_eq!((&changed["namespace"], &changed["cooldown_seconds"]), (&json!("eu"), &json!(5)));
    let stale = ada.seen(&json!(1)).patch(&path(&made), json!({ "enabled": true })).await;
    assert_eq!(stale.refused(409, "version_conflict")["current_version"], 2);
    // Null removes a member, and an absent one is unchanged.
    let ask = json!({ "namespace": null, "condition": null, "enabled": true, "name": "other" });
    let changed = ada.with("if-match", "\"2\"").patch(&path(&made), ask).await.ok();
    assert_eq!(
        (&changed["namespace"], &changed["condition"], &changed["name"]),
        (&Value::Null, &Value::Null, &json!("other"))
    );
    assert_eq!(changed["cooldown_seconds"], 5);
    let other = ada.seen(&json!(3)).patch(&path(&made), json!({ "type": "event" })).await;
    other.refused(422, "unprocessable");
    for (ask, code) in [
        (json!({ "condition": { "cron": "x" } }), "unprocessable"),
        (json!({ "condition": { "cron": "* * * * *", "timezone": "Mars" } }), "unprocessable"),
        (json!({ "condition": { "at": "2020-01-01T00:00:00Z" } }), "unprocessable"),
        (json!({ "intent_template": { "title": "{{ nobody }}" } }), "unprocessable"),
        (json!({ "max_depth": 99 }), "invalid_request"),
        (json!({ "deduplication": "never" }), "invalid_request"),
    ] {
        ada.seen(&json!(3)).patch(&path(&made), ask).await.refused(422, code);
    }
    assert_eq!(now(&ada, &made).await["version"], 3);
    world.end().await;
}

#[tokio::test]
async fn only_ones_own_are_there() {
    let world = World::start().await;
    let (ada, eve) = (world.agent("agent.ada").await, world.agent("agent.eve").await);
    let admin = world.admin().await;
    let made = trigger(&ada, "event", json!({ "condition": { "event": "note" }, "namespace": "eu" })).await;
    trigger(&ada, "schedule", json!({})).await;
    let one = path(&made);
    eve.get(&one).await.refused(404, "not_found");
    eve.seen(&json!(1)).patch(&one, json!({ "enabled": false })).await.refused(404, "not_found");
    eve.send("POST", &format!("{one}/fire"), None).await.refused(404, "not_found");
    eve.send("POST", &format!("{one}/secret"), None).await.refused(404, "not_found");
    eve.get(&format!("{one}/history")).await.refused(404, "not_found");
    eve.delete(&one).await.refused(404, "not_found");
    assert_eq!(eve.get("/triggers").await.ok(), json!([]));
    let count = async |client: &Client, query: &str| {
        client.get(&format!("/triggers{query}")).await.ok().as_array().unwrap().len()
    };
    for (query, found) in [
        ("", 2),
        ("?namespace=eu", 1),
        ("?type=event", 1),
        ("?type=webhook", 0),
        ("?enabled=false", 0),
        ("?limit=1", 1),
    ] {
        assert_eq!(count(&ada, query).await, found, "{query}");
    }
    assert_eq!(count(&ada, &format!("?after={}", made["trigger_id"].as_str().unwrap())).await, 1);
    // An admin sees all triggers and may disable or enable them; only the owner may change or fire them.
    assert_eq!(count(&admin, "").await, 2);
    admin.seen(&json!(1)).patch(&one, json!({ "name": "mine" })).await.refused(403, "forbidden");
    admin.send("POST", &format!("{one}/fire"), None).await.refused(403, "forbidden");
    let off = admin.seen(&json!(1)).patch(&one, json!({ "enabled": false })).await.ok();
    assert_eq!((&off["enabled"], &off["created_by"]), (&json!(false), &json!("agent.ada")));
    ada.send("POST", &format!("{one}/fire"), None).await.refused(409, "invalid_transition");
    admin.delete(&one).await.refused(403, "forbidden");
    let gone = ada.delete(&one).await.ok();
    assert_eq!((&gone["status"], &gone["trigger_id"]), (&json!("deleted"), &made["trigger_id"]));
    ada.get(&one).await.refused(404, "not_found");
    ada.delete(&one).await.refused(404, "not_found");
    let kinds: Vec<String> = told(&world).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["trigger.created", "trigger.created", "trigger.changed", "trigger.removed"]);
    world.end().await;
}

#[tokio::test]
async fn it_has_its_owners_rights_at_the_time() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = key(&world, &admin, "agent.ada", json!({})).await;
    let made = trigger(&ada.client, "schedule", json!({ "condition": { "every_seconds": 60 } })).await;
    world.pass(60).await;
    assert_eq!(now(&ada.client, &made).await["fire_count"], 1);
    // Its key is rotated, and the next one works as well.
    let next =
        ada.client.post(&format!("{}/rotate", ada.path()), json!({ "overlap_seconds": 0 })).await.is(201);
    let next = world.client(next["key"].as_str().unwrap());
    world.pass(60).await;
    assert_eq!(now(&next, &made).await["fire_count"], 2);
    // No key is in force any more: the trigger creates nothing, reports it and is disabled.
    let keys = admin.get("/principals/agent.ada/keys").await.ok();
    for one in keys.as_array().unwrap() {
        admin.delete(&format!("/keys/{}", one["id"].as_str().unwrap())).await.is(200);
    }
    world.pass(60).await;
    let after = now(&admin, &made).await;
    assert_eq!((&after["enabled"], &after["disabled_reason"]), (&json!(false), &json!("powers")));
    assert_eq!(after["fire_count"], 2);
    let events = told(&world).await;
    let last: Vec<&str> = events.iter().rev().take(2).map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(last, ["trigger.disabled", "trigger.failed"]);
    assert_eq!(intents(&world.any()).await.len(), 2);
    world.pass(600).await;
    world.end().await;
}

#[tokio::test]
async fn what_it_may_not_do_fails_and_ends() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let closed = bob.post("/intents", json!({ "title": "private" })).await.ok();
    let closed = closed["id"].as_str().unwrap();
    bob.put(&format!("/intents/{closed}/acl"), json!({ "default_policy": "closed", "entries": [] }))
        .await
        .ok();
    let more =
        json!({ "condition": { "every_seconds": 60 }, "intent_template": { "parent_intent_id": closed } });
    let made = trigger(&ada, "schedule", more).await;
    let other = trigger(&ada, "schedule", json!({ "condition": { "every_seconds": 60 } })).await;
    let refused = ada.send("POST", &format!("{}/fire", path(&made)), None).await;
    assert!(!refused.refused(422, "unprocessable")["message"].as_str().unwrap().contains("private"));
    for _ in 0..9 {
        world.pass(60).await;
    }
    // The manual attempt does not count as a failure, and the trigger blocks no other.
    assert_eq!(
        (&now(&ada, &made).await["failures"], &now(&ada, &made).await["enabled"]),
        (&json!(9), &json!(true))
    );
    world.pass(60).await;
    let after = now(&ada, &made).await;
    assert_eq!(
        (&after["enabled"], &after["disabled_reason"], &after["fire_count"]),
        (&json!(false), &json!("failing"), &json!(0))
    );
    assert_eq!(now(&ada, &other).await["fire_count"], 10);
    let history = did(&ada, &made).await;
    assert_eq!(history.len(), 11);
    assert!(history.iter().all(|(_, status, reason)| status == "failed" && reason == "refused"));
    // The failed firings leave nothing behind.
    assert_eq!(intents(&ada).await.len(), 10);
    assert_eq!(told(&world).await.iter().filter(|(kind, _)| kind == "trigger.disabled").count(), 1);
    world.end().await;
}

#[tokio::test]
async fn so_many_and_no_more() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let made =
        trigger(&ada, "schedule", json!({ "condition": { "every_seconds": 60 }, "max_fires": 2 })).await;
    for _ in 0..5 {
        world.pass(60).await;
    }
    let after = now(&ada, &made).await;
    assert_eq!((&after["fire_count"], &after["disabled_reason"]), (&json!(2), &json!("max_fires")));
    let resting =
        trigger(&ada, "schedule", json!({ "condition": { "every_seconds": 60 }, "cooldown_seconds": 100 }))
            .await;
    for _ in 0..4 {
        world.pass(60).await;
    }
    let history: Vec<String> = did(&ada, &resting).await.into_iter().map(|(_, status, _)| status).collect();
    assert_eq!(history, ["fired", "skipped", "fired", "skipped"]);
    world.end().await;
}

#[tokio::test]
async fn a_principal_has_so_many() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for _ in 0..entente_domain::limits::TRIGGERS {
        trigger(&ada, "schedule", json!({})).await;
    }
    let refused = ada.post("/triggers", json!({ "name": "n", "type": "schedule" })).await;
    refused.refused(422, "unprocessable");
    world.end().await;
}

#[tokio::test]
async fn strict_mode_wants_to_know_who() {
    let world =
        World::with(Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], ..Setup::default() }).await;
    let ask = json!({ "name": "n", "type": "schedule" });
    world.any().post("/triggers", ask.clone()).await.refused(422, "invalid_request");
    let made = world.any().acting_as("agent.ada").post("/triggers", ask).await.is(200);
    assert_eq!(made["created_by"], "agent.ada");
    world.end().await;
}
