//! Budgets that many share, teams, reservations of gateways, thresholds with their consequences, and reports.
//! `spending/races.rs` covers concurrent reservations over two servers, `spending/stops.rs` the stops.

mod calls;
mod intents;
mod races;
mod stops;
mod thresholds;

use entente_harness::jobs::{Hand, id};
use entente_harness::mcp::{Era, Mcp};
use entente_harness::spending::{budget, usage};
use entente_harness::{Client, Value, World, json};

/// Submits a job that may do everything and has no budget of its own, and claims it.
pub(super) async fn running(client: &Client, hand: &Hand, more: Value) -> Value {
    let mut body = json!({ "agent": "echo", "lease_request": { "tool.call": ["*"], "model.use": ["*"] } });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/jobs", body).await.is(201);
    hand.one().await
}

/// Reserves USD for a call of a model by a job.
pub(super) fn reserving(amount: &str) -> Value {
    json!({ "capability": "model.use", "target": "gpt-large", "reserve": { "USD": amount } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_taken_from_every_payer_or_from_none() {
    let world = World::start().await;
    let (admin, client) = (world.admin().await, world.agent("agent.client").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    admin.put("/teams/research", json!({ "members": ["agent.client"] })).await.is(200);
    let intent = client.post("/intents", json!({ "title": "costly" })).await.ok()["id"].clone();
    let key = client.get("/principals/me").await.ok()["key"]["id"].as_str().unwrap().to_owned();
    let mut all = Vec::new();
    for (scope, limit) in [
        ("system".to_owned(), 10),
        ("team:research".to_owned(), 5),
        ("principal:agent.client".to_owned(), 4),
        ("agent:echo".to_owned(), 3),
        (format!("intent:{}", intent.as_str().unwrap()), 2),
        (format!("key:{key}"), 1),
    ] {
        all.push(budget(&admin, &scope, json!(limit), json!({ "window": "day" })).await);
    }
    let elsewhere = budget(&admin, "agent:other", json!(1), json!({})).await;
    let tokens =
        admin.post("/budgets", json!({ "scope": "system", "unit": "tokens", "limit": 9 })).await.is(201);
    let job = running(&client, &hand, json!({ "intent_id": intent })).await;
    let held = hand.tell(&job, "authorize", reserving("0.75")).await.ok();
    for budget in &all {
        let [limit, spent, reserved, left] = usage(&admin, budget).await;
        assert_eq!((spent, reserved), (json!(0), json!(0.75)), "{budget}");
        assert!((left.as_f64().unwrap() - limit.as_f64().unwrap() + 0.75).abs() < 1e-9, "{budget}");
    }
    assert_eq!(usage(&admin, &elsewhere).await[2], json!(0), "another agent's");
    assert_eq!(usage(&admin, &tokens).await[2], json!(0), "another unit");
    // The key has 0.25 left: nothing is taken from the others either.
    let refused = hand.tell(&job, "authorize", reserving("0.26")).await.refused(403, "BUDGET_EXHAUSTED");
    assert!(refused["message"].as_str().unwrap().contains("key:key_"), "{refused}");
    for budget in &all {
        assert_eq!(usage(&admin, budget).await[2], json!(0.75));
    }
    // Settled with less than was reserved; once, however often.
    let path = format!("reservations/{}/settle", held["reservation_id"].as_str().unwrap());
    for _ in 0..2 {
        hand.tell(&job, &path, json!({ "cost": { "USD": "0.5" } })).await.ok();
    }
    for budget in &all {
        let [_, spent, reserved, _] = usage(&admin, budget).await;
        assert_eq!((spent, reserved), (json!(0.5), json!(0)), "{budget}");
    }
    // The end of the job releases what it still holds.
    hand.tell(&job, "authorize", reserving("0.5")).await.ok();
    assert_eq!(usage(&admin, &all[0]).await[2], json!(0.5));
    hand.tell(&job, "result", json!({ "result": 1 })).await.ok();
    for budget in &all {
        let [_, spent, reserved, _] = usage(&admin, budget).await;
        assert_eq!((spent, reserved), (json!(0.5), json!(0)), "{budget}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_worker_gives_back_what_it_held() {
    let world = World::start().await;
    let (admin, client) = (world.admin().await, world.agent("agent.client").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let all = budget(&admin, "system", json!(1), json!({})).await;
    let job = running(&client, &hand, json!({})).await;
    hand.tell(&job, "authorize", reserving("1")).await.ok();
    world.pass(120).await;
    assert_eq!(usage(&admin, &all).await[2], json!(0), "its claim ran out");
    let again = hand.one().await;
    assert_eq!(id(&again), id(&job));
    hand.tell(&again, "authorize", reserving("1")).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cost_counts_once_whichever_way_it_is_reported() {
    let world = World::start().await;
    let (admin, client) = (world.admin().await, world.agent("agent.client").await);
    let any = world.any();
    let hand = Hand::of(&any, "echo@1").await;
    let all = budget(&admin, "system", json!(100), json!({})).await;
    let intent = client.post("/intents", json!({ "title": "costly" })).await.ok()["id"].clone();
    // On an intent (RFC-0009).
    let path = format!("/intents/{}/costs", intent.as_str().unwrap());
    let cost = json!({ "cost_type": "tokens", "amount": 1, "unit": "USD", "model": "m1", "provider": "p" });
    for _ in 0..2 {
        client.once("cost-1").post(&path, cost.clone()).await.ok();
    }
    assert_eq!(usage(&admin, &all).await[1], json!(1), "a retry is no second cost");
    // By a job with a budget of its own, that works for the intent: one cost, seen by all three.
    let lease = json!({ "cost.budget": ["USD:50"], "model.use": ["*"] });
    let job = running(&client, &hand, json!({ "lease_request": lease, "intent_id": intent })).await;
    let metric = json!({ "kind": "metric", "event_key": "k", "body": { "name": "cost.x", "value": 2, "unit": "USD" } });
    for _ in 0..2 {
        hand.events(&job, json!([metric])).await.ok();
    }
    let held = hand.tell(&job, "authorize", reserving("10")).await.ok();
    let settle = format!("reservations/{}/settle", held["reservation_id"].as_str().unwrap());
    hand.tell(&job, &settle, json!({ "cost": { "USD": 4 } })).await.ok();
    // By a gateway.
    let call = json!({ "agent_id": "agent.g", "model": "m2", "reserve": { "USD": 20 }, "call_id": "c1" });
    let made = any.post("/spend/reservations", call).await.is(201);
    let path = format!("/spend/reservations/{}/settle", made["reservation_id"].as_str().unwrap());
    any.post(&path, json!({ "cost": { "USD": 8 } })).await.ok();
    let [_, spent, reserved, _] = usage(&admin, &all).await;
    assert_eq!((spent, reserved), (json!(15), json!(0)));
    let report = admin.get("/spend?by=agent,model,day").await.ok();
    let lines: Vec<Value> = report["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| json!([line["agent_id"], line["model"], line["amount"], line["count"], line["day"]]))
        .collect();
    let day = json!("2026-11-21");
    assert_eq!(
        lines,
        [
            json!(["agent.g", "m2", 8, 1, day]),
            json!(["echo", "gpt-large", 4, 1, day]),
            json!(["echo", null, 2, 1, day]),
            json!(["agent.client", "m1", 1, 1, day]),
        ]
    );
    let own = client.get("/spend?by=principal").await.ok();
    assert_eq!(own["lines"][0]["amount"], json!(7), "only its own: {own}");
    assert_eq!(own["lines"].as_array().unwrap().len(), 1);
    let scoped = admin.get(&format!("/spend?scope=intent:{}", intent.as_str().unwrap())).await.ok();
    assert_eq!(scoped["lines"][0]["amount"], json!(7));
    admin.get("/spend?by=colour").await.refused(422, "invalid_parameter");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_begins_anew_in_its_time_zone_and_forecasts() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    // It is 08:00 UTC, 17:00 in Tokyo: the day there ends in seven hours.
    let day =
        budget(&admin, "system", json!(10), json!({ "window": "day", "time_zone": "Asia/Tokyo" })).await;
    assert_eq!(day["usage"]["ends_at"], "2026-11-21T15:00:00.000000Z");
    let call = |n: u32| json!({ "reserve": { "USD": 6 }, "call_id": format!("c{n}"), "expires_in": 86_400 });
    let made = any.post("/spend/reservations", call(1)).await.is(201);
    any.post("/spend/reservations", call(2)).await.refused(403, "BUDGET_EXHAUSTED");
    let path = format!("/spend/reservations/{}/settle", made["reservation_id"].as_str().unwrap());
    any.post(&path, json!({ "cost": { "USD": "5.1" } })).await.ok();
    let found = admin.get(&format!("/budgets/{}", day["id"].as_str().unwrap())).await.ok();
    assert_eq!(found["usage"]["forecast"], json!(7.2), "17 of 24 hours: {found}");
    world.clock.advance(7 * 3_600);
    assert_eq!(usage(&admin, &day).await[1], json!(0), "a new day");
    let late = any.post("/spend/reservations", call(3)).await.is(201);
    // Raised for today alone.
    let raise = format!("/budgets/{}/raise", day["id"].as_str().unwrap());
    for _ in 0..2 {
        admin.with("Idempotency-Key", "raise-1").post(&raise, json!({ "amount": 5 })).await.ok();
    }
    assert_eq!(usage(&admin, &day).await[0], json!(15));
    any.post("/spend/reservations", call(4)).await.is(201);
    world.clock.advance(24 * 3_600);
    assert_eq!(usage(&admin, &day).await[0], json!(10));
    // Settled in the next window: the old one pays, which it was reserved in.
    let path = format!("/spend/reservations/{}/settle", late["reservation_id"].as_str().unwrap());
    any.post(&path, json!({ "cost": { "USD": 1 } })).await.ok();
    assert_eq!(usage(&admin, &day).await[1], json!(0));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateways_reservation_is_one_per_call_and_ends_once() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let all = budget(&admin, "system", json!(10), json!({})).await;
    let call = json!({ "agent_id": "agent.g", "model": "m", "reserve": { "USD": "2.5" }, "call_id": "one" });
    let first = any.post("/spend/reservations", call.clone()).await.is(201);
    assert_eq!(first["budgets"][0]["usage"]["left"], json!(7.5));
    let again = any.post("/spend/reservations", call).await.is(201);
    assert_eq!(first["reservation_id"], again["reservation_id"]);
    assert_eq!(usage(&admin, &all).await[2], json!(2.5));
    let other = json!({ "agent_id": "agent.g", "reserve": { "USD": 3 }, "call_id": "one" });
    any.post("/spend/reservations", other).await.refused(409, "idempotency_mismatch");
    // Nobody settles it: it comes back, and a late cost is charged all the same, once.
    world.pass(601).await;
    assert_eq!(usage(&admin, &all).await[2], json!(0));
    let path = format!("/spend/reservations/{}", first["reservation_id"].as_str().unwrap());
    for _ in 0..2 {
        any.post(&format!("{path}/settle"), json!({ "cost": { "USD": 1, "tokens": 300 } })).await.ok();
    }
    assert_eq!(usage(&admin, &all).await, [json!(10), json!(1), json!(0), json!(9)]);
    // Released.
    let made = any.post("/spend/reservations", json!({ "reserve": { "USD": 9 } })).await.is(201);
    let path = format!("/spend/reservations/{}", made["reservation_id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(any.delete(&path).await.ok()["ended_as"], "released");
    }
    assert_eq!(usage(&admin, &all).await[2], json!(0));
    // Who may not act for the agent neither reserves nor settles.
    let stranger = world.agent("agent.stranger").await;
    let foreign = json!({ "agent_id": "agent.g", "reserve": { "USD": 1 } });
    stranger.post("/spend/reservations", foreign).await.refused(403, "may_not_act_as");
    stranger.post(&format!("{path}/settle"), json!({ "cost": {} })).await.refused(404, "not_found");
    for wrong in [
        json!({ "reserve": { "USD": -1 } }),
        json!({ "reserve": { "U S": 1 } }),
        json!({ "expires_in": 0, "reserve": {} }),
    ] {
        any.post("/spend/reservations", wrong).await.refused(422, "invalid_request");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_asks_with_headers_alone() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let all = budget(&admin, "agent:agent.g", json!(1), json!({})).await;
    let asked = any.acting_as("agent.g").with("x-entente-reserve", "USD=0.6").with("x-entente-model", "m");
    let passed =
        asked.with("x-entente-call-id", "c1").post("/ext-authz/v1/chat/completions", json!({})).await;
    assert_eq!(passed.status, 200);
    let held = passed.header("x-entente-reservation").to_owned();
    assert_eq!(usage(&admin, &all).await[2], json!(0.6));
    let refused = asked.with("x-entente-call-id", "c2").get("/ext-authz/v1/models").await;
    assert_eq!(refused.status, 403);
    any.post(&format!("/spend/reservations/{held}/settle"), json!({ "cost": { "USD": 1 } })).await.ok();
    assert_eq!(any.acting_as("agent.g").get("/ext-authz").await.status, 403, "nothing is left");
    assert_eq!(any.get("/ext-authz").await.status, 200, "others may");
    asked.with("x-entente-reserve", "lots").get("/ext-authz").await.refused(422, "invalid_parameter");
    assert_eq!(world.anon().get("/ext-authz").await.status, 401);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_admins_make_budgets_and_others_see_their_own() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    for (method, path) in [("POST", "/budgets"), ("POST", "/stops"), ("PUT", "/teams/x")] {
        let body = json!({ "scope": "system", "unit": "USD", "limit": 1, "reason": "x", "members": [] });
        ada.send(method, path, Some(body.to_string())).await.refused(403, "scope_missing");
    }
    let own = budget(&admin, "agent:agent.ada", json!(1), json!({})).await;
    world.clock.advance(1);
    let foreign = budget(&admin, "agent:agent.bob", json!(1), json!({})).await;
    let all = ada.get("/budgets").await.ok();
    assert_eq!(all["budgets"].as_array().unwrap().len(), 1);
    assert_eq!(all["budgets"][0]["id"], own["id"]);
    ada.get(&format!("/budgets/{}", foreign["id"].as_str().unwrap())).await.refused(404, "not_found");
    let limits = Mcp::new(&ada, Era::Stateless).ok("whoami", json!({})).await["limits"].clone();
    assert_eq!((&limits["budgets"][0]["left"], &limits["stopped"]), (&json!("1"), &Value::Null));
    assert_eq!(admin.get("/budgets?limit=1").await.ok()["budgets"][0]["id"], own["id"]);
    let next = admin.get(&format!("/budgets?after={}", own["id"].as_str().unwrap())).await.ok();
    assert_eq!(next["budgets"][0]["id"], foreign["id"]);
    for (wrong, code) in [
        (json!({ "scope": "everybody", "unit": "USD", "limit": 1 }), "invalid_request"),
        (json!({ "scope": "system", "unit": "USD", "limit": -1 }), "invalid_request"),
        (json!({ "scope": "system", "unit": "", "limit": 1 }), "invalid_request"),
        (json!({ "scope": "team:nobody", "unit": "USD", "limit": 1 }), "unprocessable"),
        (json!({ "scope": "system", "unit": "USD", "limit": 1, "time_zone": "Mars" }), "invalid_request"),
        (
            json!({ "scope": "system", "unit": "USD", "limit": 1, "thresholds": [{ "percent": 0 }] }),
            "invalid_request",
        ),
    ] {
        admin.post("/budgets", wrong).await.refused(422, code);
    }
    // Closed: it limits nothing, and cannot be changed.
    let path = format!("/budgets/{}", own["id"].as_str().unwrap());
    admin.delete(&path).await.ok();
    admin.patch(&path, json!({ "limit": 5 })).await.refused(422, "unprocessable");
    assert_eq!(ada.get("/budgets").await.ok()["budgets"], json!([]));
    // A team in use stays.
    admin.put("/teams/t", json!({ "members": ["agent.ada"] })).await.ok();
    let team = budget(&admin, "team:t", json!(1), json!({})).await;
    admin.delete("/teams/t").await.refused(422, "unprocessable");
    admin.put("/teams/t", json!({ "members": ["agent.nobody"] })).await.refused(422, "unprocessable");
    assert_eq!(ada.get("/teams/t").await.ok()["members"], json!(["agent.ada"]));
    admin.delete(&format!("/budgets/{}", team["id"].as_str().unwrap())).await.ok();
    assert_eq!(admin.delete("/teams/t").await.status, 204);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn costs_and_windows_are_kept_as_long_as_was_said() {
    let setup = entente_harness::Setup {
        settings: vec![("ENTENTE_SPEND_RETENTION_DAYS", "2")],
        ..entente_harness::Setup::default()
    };
    let world = World::with(setup).await;
    let (admin, any) = (world.admin().await, world.any());
    budget(&admin, "system", json!(10), json!({ "window": "hour" })).await;
    let made = any.post("/spend/reservations", json!({ "reserve": { "USD": 1 } })).await.is(201);
    let path = format!("/spend/reservations/{}/settle", made["reservation_id"].as_str().unwrap());
    any.post(&path, json!({ "cost": { "USD": 1 } })).await.ok();
    let rows = async || {
        let count = "SELECT (SELECT count(*) FROM spend) + (SELECT count(*) FROM budget_windows)
                         + (SELECT count(*) FROM spend_reservations)";
        sqlx::query_scalar::<_, i64>(count).fetch_one(&world.ctx().pool).await.unwrap()
    };
    world.pass(24 * 3_600 - 60).await;
    assert_eq!(rows().await, 3);
    world.pass(24 * 3_600).await;
    assert_eq!(rows().await, 2, "the reservation is gone");
    world.pass(24 * 3_600).await;
    assert_eq!(rows().await, 0);
    world.end().await;
}
