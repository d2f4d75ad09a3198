//! Thresholds of budgets: events, degraded models, stops, and questions to a person.

use entente_harness::jobs::Hand;
use entente_harness::{Client, Value, World, json};

use super::{budget, reserving, running, usage};

async fn spend(any: &Client, amount: Value) {
    let made = any.post("/spend/reservations", json!({ "reserve": { "USD": amount } })).await.is(201);
    let path = format!("/spend/reservations/{}/settle", made["reservation_id"].as_str().unwrap());
    any.post(&path, json!({ "cost": { "USD": amount } })).await.ok();
}

async fn told(admin: &Client, kind: &str) -> Vec<Value> {
    let found = admin.get(&format!("/audit?event_type={kind}&limit=100")).await.ok();
    let mut all: Vec<Value> =
        found.as_array().unwrap().iter().map(|event| event["payload"].clone()).collect();
    all.reverse();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_threshold_is_told_once_in_each_window() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let more = json!({ "window": "day", "thresholds": [{ "percent": 100 }, { "percent": 50 }] });
    let all = budget(&admin, "system", json!(10), more).await;
    assert_eq!(all["thresholds"][0]["percent"], 50, "in order");
    spend(&any, json!(4)).await;
    world.sweep().await;
    assert!(told(&admin, "budget.threshold").await.is_empty());
    spend(&any, json!(1)).await;
    spend(&any, json!(1)).await;
    world.sweep().await;
    let events = told(&admin, "budget.threshold").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["percent"], &events[0]["spent"]), (&json!(50), &json!("5")));
    // Nothing more fits: that is 100 per cent too, although less is spent.
    any.post("/spend/reservations", json!({ "reserve": { "USD": 5 } }))
        .await
        .refused(403, "BUDGET_EXHAUSTED");
    world.sweep().await;
    assert_eq!(told(&admin, "budget.threshold").await[1]["percent"], 100);
    world.clock.advance(24 * 3_600);
    spend(&any, json!(6)).await;
    world.sweep().await;
    assert_eq!(told(&admin, "budget.threshold").await.len(), 3, "a new day");
    // A lower limit reaches thresholds as well.
    admin.patch(&format!("/budgets/{}", all["id"].as_str().unwrap()), json!({ "limit": 6 })).await.ok();
    world.sweep().await;
    assert_eq!(told(&admin, "budget.threshold").await.last().unwrap()["limit"], "6");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn models_and_tools_are_restricted_from_a_threshold_on() {
    let world = World::start().await;
    let (admin, client, any) = (world.admin().await, world.agent("agent.client").await, world.any());
    let hand = Hand::of(&any, "echo@1").await;
    let thresholds = json!([{ "percent": 80, "degrade": { "models": ["*-mini"], "tools": [] } }]);
    let all = budget(&admin, "system", json!(10), json!({ "thresholds": thresholds })).await;
    let job = running(&client, &hand, json!({})).await;
    let ask = async |capability: &str, target: &str| {
        hand.tell(&job, "authorize", json!({ "capability": capability, "target": target })).await
    };
    ask("model.use", "gpt-large").await.ok();
    spend(&any, json!(8)).await;
    let refused = ask("model.use", "gpt-large").await.refused(403, "PERMISSION_DENIED");
    assert!(refused["message"].as_str().unwrap().contains("*-mini"), "{refused}");
    hand.tell(&job, "authorize", reserving("0.1")).await.refused(403, "PERMISSION_DENIED");
    ask("model.use", "gpt-mini").await.ok();
    ask("tool.call", "search").await.refused(403, "PERMISSION_DENIED");
    let call = json!({ "model": "gpt-large", "reserve": { "USD": "0.1" } });
    any.post("/spend/reservations", call).await.refused(403, "PERMISSION_DENIED");
    assert_eq!(usage(&admin, &all).await[2], json!(0), "a refused call holds nothing");
    // A raised limit lifts it.
    admin
        .post(&format!("/budgets/{}/raise", all["id"].as_str().unwrap()), json!({ "amount": 10 }))
        .await
        .ok();
    ask("model.use", "gpt-large").await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_threshold_stops_its_scope() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let more = json!({ "thresholds": [{ "percent": 90, "stop": true }] });
    budget(&admin, "agent:agent.g", json!(10), more).await;
    let call = json!({ "agent_id": "agent.g", "reserve": { "USD": 9 } });
    let made = any.post("/spend/reservations", call.clone()).await.is(201);
    let path = format!("/spend/reservations/{}/settle", made["reservation_id"].as_str().unwrap());
    any.post(&path, json!({ "cost": { "USD": 9 } })).await.ok();
    world.sweep().await;
    let stop = admin.get("/stops").await.ok()["stops"][0].clone();
    assert_eq!((&stop["scope"], &stop["created_by"]), (&json!("agent:agent.g"), &json!("entente")));
    assert!(stop["budget_id"].as_str().unwrap().starts_with("bgt_"));
    any.post("/spend/reservations", json!({ "agent_id": "agent.g", "reserve": { "USD": 1 } }))
        .await
        .refused(403, "stopped");
    any.post("/spend/reservations", json!({ "agent_id": "agent.h", "reserve": { "USD": 1 } })).await.is(201);
    admin.delete(&format!("/stops/{}", stop["id"].as_str().unwrap())).await.ok();
    any.post("/spend/reservations", json!({ "agent_id": "agent.g", "reserve": { "USD": 1 } })).await.is(201);
    world.sweep().await;
    assert_eq!(admin.get("/stops").await.ok()["stops"], json!([]), "it is not made again");
    world.end().await;
}

/// Answers the only question in a person's inbox with an option.
async fn answer(person: &Client, option: usize) {
    let inbox = person.get("/moments/inbox").await.ok();
    let moment = &inbox["moments"][0];
    let body = json!({
        "resolution": { "kind": "option", "option_idx": option }, "envelope_digest": moment["envelope_digest"],
    });
    person.post(&format!("/moments/{}/resolution", moment["id"].as_str().unwrap()), body).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_asked_and_raises_stops_or_goes_on() {
    let world = World::start().await;
    let (admin, any, alice) = (world.admin().await, world.any(), world.human("alice").await);
    let more = |person: &str| json!({ "thresholds": [{ "percent": 50, "ask": { "person": person } }] });
    let first = budget(&admin, "system", json!(8), more("alice")).await;
    spend(&any, json!(4)).await;
    world.sweep().await;
    let inbox = alice.get("/moments/inbox").await.ok();
    assert_eq!(inbox["moments"].as_array().unwrap().len(), 1, "{inbox}");
    assert!(inbox.to_string().contains("budget.threshold"), "{inbox}");
    world.sweep().await;
    assert_eq!(alice.get("/moments/inbox").await.ok()["moments"].as_array().unwrap().len(), 1, "once");
    answer(&alice, 0).await;
    world.sweep().await;
    assert_eq!(usage(&admin, &first).await[0], json!(10), "raised by a quarter");
    world.sweep().await;
    assert_eq!(usage(&admin, &first).await[0], json!(10), "once");
    assert_eq!(told(&admin, "budget.changed").await[0]["raised_by"], "2");
    admin.delete(&format!("/budgets/{}", first["id"].as_str().unwrap())).await.ok();
    // Stop.
    budget(&admin, "agent:agent.g", json!(2), more("alice")).await;
    let made = any
        .post("/spend/reservations", json!({ "agent_id": "agent.g", "reserve": { "USD": 1 } }))
        .await
        .is(201);
    let path = format!("/spend/reservations/{}/settle", made["reservation_id"].as_str().unwrap());
    any.post(&path, json!({ "cost": { "USD": 1 } })).await.ok();
    world.sweep().await;
    answer(&alice, 2).await;
    world.sweep().await;
    let stop = admin.get("/stops").await.ok()["stops"][0].clone();
    assert_eq!((&stop["scope"], &stop["created_by"]), (&json!("agent:agent.g"), &json!("alice")));
    // Nobody can be asked: the event is told, and work goes on.
    let lonely = budget(&admin, "system", json!(8), more("nobody")).await;
    spend(&any, json!(4)).await;
    world.sweep().await;
    assert_eq!(told(&admin, "budget.threshold").await.last().unwrap()["budget_id"], lonely["id"]);
    spend(&any, json!(1)).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_means_what_was_asked() {
    let world = World::start().await;
    let (admin, any, alice) = (world.admin().await, world.any(), world.human("alice").await);
    let ask = json!({ "thresholds": [
        { "percent": 50, "ask": { "person": "alice" } }, { "percent": 80, "ask": { "person": "alice" } },
    ] });
    let first = budget(&admin, "system", json!(8), ask).await;
    spend(&any, json!(7)).await;
    world.sweep().await;
    let inbox = alice.get("/moments/inbox").await.ok();
    assert_eq!(inbox["moments"].as_array().unwrap().len(), 2, "each threshold has its question: {inbox}");
    // Nobody can be asked to talk with a server.
    let moment = &inbox["moments"][0];
    let talk = json!({
        "resolution": { "kind": "dialogue", "text": "why?" }, "envelope_digest": moment["envelope_digest"],
    });
    let path = format!("/moments/{}/resolution", moment["id"].as_str().unwrap());
    assert_eq!(alice.post(&path, talk).await.status, 422);
    // The limit and the thresholds change; the answer is about the limit that was shown.
    let path = format!("/budgets/{}", first["id"].as_str().unwrap());
    admin.patch(&path, json!({ "limit": 1000, "thresholds": [] })).await.ok();
    answer(&alice, 0).await;
    world.sweep().await;
    assert_eq!(usage(&admin, &first).await[0], json!(1002), "raised by a quarter of 8");
    answer(&alice, 3).await;
    world.sweep().await;
    let open: i64 = sqlx::query_scalar("SELECT count(*) FROM budget_reached WHERE handled_at IS NULL")
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    assert_eq!(open, 0);
    world.end().await;
}
