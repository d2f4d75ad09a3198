//! What a call costs, beyond one reservation that is settled in time: repeated calls, attempts, windows, lost claims, other
//! units, and whoever it is made for.

use super::{budget, reserving, running, usage};
use entente_harness::jobs::{Hand, id, status};
use entente_harness::{Client, Value, World, json};

async fn reserve(gateway: &Client, more: Value) -> Value {
    let mut body = json!({ "reserve": { "USD": 1 } });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    gateway.post("/spend/reservations", body).await.is(201)
}

async fn settle(gateway: &Client, reservation: &Value, cost: Value) -> Value {
    let path = format!("/spend/reservations/{}/settle", reservation["reservation_id"].as_str().unwrap());
    gateway.post(&path, json!({ "cost": cost })).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_over_pays_for_no_other_one() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let all = budget(&admin, "system", json!(10), json!({})).await;
    let call = json!({ "agent_id": "agent.g", "model": "m", "call_id": "one" });
    let made = reserve(&any, call.clone()).await;
    let mut again = call.clone();
    again["reserve"] = json!({ "USD": 1 });
    for (member, value) in [("model", json!("dearer")), ("provider", json!("p")), ("agent_id", json!("x"))] {
        let mut other = again.clone();
        other[member] = value;
        any.post("/spend/reservations", other).await.refused(409, "idempotency_mismatch");
    }
    settle(&any, &made, json!({ "USD": 1 })).await;
    let refused = any.post("/spend/reservations", again).await.refused(409, "idempotency_mismatch");
    assert!(refused["message"].as_str().unwrap().contains("settled"), "{refused}");
    // An attempt failed, and the next one of the same call cost something.
    let shaky = reserve(&any, json!({})).await;
    assert_eq!(settle(&any, &shaky, json!({})).await["ended_as"], "released");
    for _ in 0..2 {
        assert_eq!(settle(&any, &shaky, json!({ "USD": 2 })).await["ended_as"], "settled");
    }
    assert_eq!(usage(&admin, &all).await, [json!(10), json!(3), json!(0), json!(7)]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_is_judged_by_what_is_restricted_since() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let mini = json!({ "thresholds": [{ "percent": 50, "degrade": { "models": ["*-mini"] } }] });
    budget(&admin, "system", json!(10), mini).await;
    let call = json!({ "model": "gpt-large", "call_id": "one", "reserve": { "USD": 1 } });
    any.post("/spend/reservations", call.clone()).await.is(201);
    let other = reserve(&any, json!({ "reserve": { "USD": 5 } })).await;
    settle(&any, &other, json!({ "USD": 5 })).await;
    any.post("/spend/reservations", call).await.refused(403, "PERMISSION_DENIED");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_belongs_to_the_window_that_it_was_reserved_in() {
    let world = World::start().await;
    let (admin, any, client) = (world.admin().await, world.any(), world.agent("agent.client").await);
    let hand = Hand::of(&any, "echo@1").await;
    let hour = budget(&admin, "system", json!(10), json!({ "window": "hour" })).await;
    world.clock.advance(59 * 60);
    let job = running(&client, &hand, json!({})).await;
    let (early, held) = (
        reserve(&any, json!({ "reserve": { "USD": 6 } })).await,
        hand.tell(&job, "authorize", reserving("4")).await.ok(),
    );
    world.clock.advance(30);
    hand.beat(&[&job]).await;
    world.clock.advance(31);
    // The next window is whole, and stays so when the earlier calls are settled: of what they cost beyond, it pays.
    let late = reserve(&any, json!({ "reserve": { "USD": 9 } })).await;
    settle(&any, &early, json!({ "USD": 6 })).await;
    let path = format!("reservations/{}/settle", held["reservation_id"].as_str().unwrap());
    hand.tell(&job, &path, json!({ "cost": { "USD": 5 } })).await.ok();
    settle(&any, &late, json!({ "USD": 9 })).await;
    assert_eq!(usage(&admin, &hour).await, [json!(10), json!(10), json!(0), json!(0)]);
    let windows: Vec<(String, String)> = sqlx::query_as(
        "SELECT trim_scale(spent)::text, trim_scale(reserved)::text FROM budget_windows ORDER BY starts_at",
    )
    .fetch_all(&world.ctx().pool)
    .await
    .unwrap();
    let shown = |spent: &str| (spent.to_owned(), "0".to_owned());
    assert_eq!(windows, [shown("10"), shown("10")]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_in_other_units_judge_a_reservation() {
    let world = World::start().await;
    let (admin, any, client) = (world.admin().await, world.any(), world.agent("agent.client").await);
    let hand = Hand::of(&any, "echo@1").await;
    let degrade = json!({ "thresholds": [{ "percent": 50, "degrade": { "models": ["*-mini"] } }] });
    budget(&admin, "system", json!(10), degrade).await;
    admin.post("/budgets", json!({ "scope": "system", "unit": "tokens", "limit": 1000 })).await.is(201);
    let lease = json!({ "model.use": ["*"], "cost.budget": ["tokens:1000"] });
    let job = running(&client, &hand, json!({ "lease_request": lease })).await;
    let tokens =
        |model: &str| json!({ "capability": "model.use", "target": model, "reserve": { "tokens": 1 } });
    let call = |model: &str| json!({ "model": model, "reserve": { "tokens": 1 } });
    any.post("/spend/reservations", call("gpt-large")).await.is(201);
    hand.tell(&job, "authorize", tokens("gpt-large")).await.ok();
    let half = reserve(&any, json!({ "reserve": { "USD": 5 } })).await;
    settle(&any, &half, json!({ "USD": 5 })).await;
    any.post("/spend/reservations", call("gpt-large")).await.refused(403, "PERMISSION_DENIED");
    hand.tell(&job, "authorize", tokens("gpt-large")).await.refused(403, "PERMISSION_DENIED");
    any.post("/spend/reservations", call("gpt-mini")).await.is(201);
    hand.tell(&job, "authorize", tokens("gpt-mini")).await.ok();
    reserve(&any, json!({ "reserve": { "USD": 5 } })).await;
    any.post("/spend/reservations", call("gpt-mini")).await.refused(403, "BUDGET_EXHAUSTED");
    hand.tell(&job, "authorize", tokens("gpt-mini")).await.refused(403, "BUDGET_EXHAUSTED");
    let nothing = json!({ "reserve": { "USD": 0 } });
    any.post("/spend/reservations", nothing).await.refused(403, "BUDGET_EXHAUSTED");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_for_a_job_is_paid_by_who_submitted_it() {
    let world = World::start().await;
    let (admin, any, client) = (world.admin().await, world.any(), world.agent("agent.client").await);
    let hand = Hand::of(&any, "echo@1").await;
    admin.put("/teams/research", json!({ "members": ["agent.client"] })).await.is(200);
    let intent = client.post("/intents", json!({ "title": "costly" })).await.ok()["id"].clone();
    let mut all = Vec::new();
    let key = client.get("/principals/me").await.ok()["key"]["id"].as_str().unwrap().to_owned();
    let intent_scope = format!("intent:{}", intent.as_str().unwrap());
    for scope in ["team:research", "agent:echo", "agent:agent.client", &intent_scope, &format!("key:{key}")] {
        all.push(budget(&admin, scope, json!(10), json!({})).await);
    }
    let job = running(&client, &hand, json!({ "intent_id": intent })).await;
    let made = reserve(&any, json!({ "job_id": id(&job), "call_id": "one" })).await;
    for one in &all {
        assert_eq!(usage(&admin, one).await[2], json!(1), "{one}");
    }
    settle(&any, &made, json!({ "USD": 2 })).await;
    for one in &all {
        assert_eq!(usage(&admin, one).await[1..3], [json!(2), json!(0)], "{one}");
    }
    let stop = json!({ "scope": "team:research", "reason": "it spends too much" });
    admin.post("/stops", stop).await.is(201);
    let call = json!({ "job_id": id(&job), "reserve": {} });
    any.post("/spend/reservations", call.clone()).await.refused(403, "stopped");
    // Who may not act for the submitter learns nothing of the job.
    let stranger = world.agent("agent.stranger").await;
    stranger.post("/spend/reservations", call).await.refused(404, "not_found");
    let both = json!({ "job_id": id(&job), "agent_id": "agent.g", "reserve": {} });
    any.post("/spend/reservations", both).await.refused(422, "invalid_request");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_spent_under_a_lost_claim_is_still_charged() {
    let world = World::start().await;
    let (admin, any, client) = (world.admin().await, world.any(), world.agent("agent.client").await);
    let hand = Hand::of(&any, "echo@1").await;
    let all = budget(&admin, "system", json!(10), json!({})).await;
    let job =
        running(&client, &hand, json!({ "lease_request": { "model.use": ["*"], "cost.budget": ["USD:9"] } }))
            .await;
    let held = hand.tell(&job, "authorize", reserving("4")).await.ok();
    let path = format!("reservations/{}/settle", held["reservation_id"].as_str().unwrap());
    world.pass(120).await;
    assert_eq!(usage(&admin, &all).await[2], json!(0), "its claim ran out");
    let again = hand.one().await;
    let cost = json!({ "cost": { "USD": 3 } });
    hand.tell(&again, &path, cost.clone()).await.refused(422, "INVALID_REQUEST");
    for _ in 0..2 {
        let left = hand.tell(&job, &path, cost.clone()).await.ok();
        assert_eq!(left["budget"]["USD"], json!(6));
    }
    assert_eq!(usage(&admin, &all).await[1], json!(3));
    // A stop ends the job while a call is under way.
    let held = hand.tell(&again, "authorize", reserving("4")).await.ok();
    let path = format!("reservations/{}/settle", held["reservation_id"].as_str().unwrap());
    admin.post("/stops", json!({ "scope": "system", "reason": "enough" })).await.is(201);
    world.sweep().await;
    hand.beat(&[&again]).await;
    world.pass(31).await;
    assert_eq!(status(&admin, id(&job)).await, "cancelled");
    let mut stranger = again.clone();
    stranger["claim_token"] = json!("ct_somebody_elses");
    hand.tell(&stranger, &path, json!({ "cost": { "USD": 4 } })).await.refused(409, "CLAIM_LOST");
    for _ in 0..2 {
        hand.tell(&again, &path, json!({ "cost": { "USD": 4 } })).await.ok();
    }
    assert_eq!(usage(&admin, &all).await[1], json!(7));
    let found = admin.get(&format!("/jobs/{}", id(&job))).await.ok();
    assert_eq!(found["cost"]["USD"], json!(7), "{found}");
    // After a day nothing more is charged.
    let rows = async || {
        let count = "SELECT count(*) FROM lapsed_reservations";
        sqlx::query_scalar::<_, i64>(count).fetch_one(&world.ctx().pool).await.unwrap()
    };
    assert_eq!(rows().await, 2);
    world.pass(86_401).await;
    assert_eq!(rows().await, 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_end_nobody_reports_is_charged_if_its_gateway_says_so() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let intent = any.post("/intents", json!({ "title": "costly" })).await.ok()["id"].clone();
    let all = budget(&admin, "system", json!(10), json!({})).await;
    let charge = json!({ "unsettled": "charge", "expires_in": 60, "intent_id": intent });
    let made = reserve(&any, charge.clone()).await;
    let settled = reserve(&any, charge).await;
    settle(&any, &settled, json!({ "USD": "0.5" })).await;
    reserve(&any, json!({ "unsettled": "release", "expires_in": 60 })).await;
    // The same in headers; what is no such word is refused.
    let asked = any.with("x-entente-reserve", "USD=2").with("x-entente-expires-in", "60");
    assert_eq!(asked.with("x-entente-unsettled", "charge").get("/ext-authz").await.status, 200);
    asked.with("x-entente-unsettled", "never").get("/ext-authz").await.refused(422, "invalid_parameter");
    any.with("x-entente-expires-in", "soon").get("/ext-authz").await.refused(422, "invalid_parameter");
    world.pass(61).await;
    assert_eq!(usage(&admin, &all).await, [json!(10), json!(3.5), json!(0), json!(6.5)]);
    let costs = any.get(&format!("/intents/{}/costs", intent.as_str().unwrap())).await.ok();
    assert_eq!(costs["summary"]["total"], json!(1.5), "{costs}");
    world.pass(61).await;
    assert_eq!(usage(&admin, &all).await[1], json!(3.5), "once");
    // A late report charges what is above, once; less gives nothing back.
    assert_eq!(settle(&any, &made, json!({})).await["ended_as"], "charged");
    assert_eq!(settle(&any, &made, json!({ "USD": "0.25" })).await["ended_as"], "charged");
    for _ in 0..2 {
        assert_eq!(settle(&any, &made, json!({ "USD": 3 })).await["ended_as"], "settled");
    }
    assert_eq!(usage(&admin, &all).await[1], json!(5.5));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absurd_cost_keeps_back_no_other() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let full = budget(&admin, "agent:agent.g", json!(10), json!({})).await;
    let others = budget(&admin, "agent:agent.h", json!(10), json!({})).await;
    let charge = |agent: &str| json!({ "agent_id": agent, "unsettled": "charge", "expires_in": 60 });
    reserve(&any, charge("agent.g")).await;
    let huge = reserve(&any, json!({ "agent_id": "agent.g" })).await;
    settle(&any, &huge, json!({ "USD": "999999999999999999" })).await;
    let call = json!({ "agent_id": "agent.h", "call_id": "c", "unsettled": "charge", "expires_in": 61 });
    reserve(&any, call.clone()).await;
    // The same id with other terms is another call: the amounts would be released instead.
    let mut other = call;
    other["unsettled"] = json!("release");
    other["reserve"] = json!({ "USD": 1 });
    any.post("/spend/reservations", other).await.refused(409, "idempotency_mismatch");
    world.pass(62).await;
    assert_eq!(usage(&admin, &others).await[1], json!(1));
    // The sum has as many digits as an amount can have, and the budget is exhausted.
    let [_, spent, reserved, _] = usage(&admin, &full).await;
    assert_eq!((spent.to_string().starts_with("999999999999999999"), reserved), (true, json!(0)), "{spent}");
    any.post("/spend/reservations", json!({ "agent_id": "agent.g", "reserve": {} }))
        .await
        .refused(403, "BUDGET_EXHAUSTED");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_has_reserved_the_rest_is_made_and_reported() {
    let world = World::start().await;
    let (admin, client) = (world.admin().await, world.agent("agent.client").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let all = budget(&admin, "principal:agent.client", json!(1), json!({})).await;
    let job = running(&client, &hand, json!({})).await;
    let ask = json!({ "capability": "tool.call", "target": "x", "call_id": "c", "reserve": { "USD": 1 } });
    hand.tell(&job, "authorize", ask).await.ok();
    assert_eq!(usage(&admin, &all).await[3], json!(0), "nothing is left for others");
    let called = json!([{ "kind": "tool_call", "body": { "tool": "x", "call_id": "c", "args": {} } }]);
    assert_eq!(hand.events(&job, called).await.ok()["denied"], json!([]));
    world.end().await;
}
