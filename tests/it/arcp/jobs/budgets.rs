//! Budgets (ARCP §9.6): exact, checked before every operation, with optional reservations.

use super::{Hand, events, id, status};
use entente_harness::{Value, World, json};

/// Starts a server with one running job that has this budget.
async fn running(budget: Value) -> (World, Hand, Value) {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let lease = json!({ "cost.budget": budget, "tool.call": ["*"], "model.use": ["*"] });
    let accepted = client.post("/jobs", json!({ "agent": "echo", "lease_request": lease })).await.is(201);
    assert!(accepted["budget"].is_object());
    let job = hand.one().await;
    assert_eq!(job["budget"], accepted["budget"]);
    (world, hand, job)
}

fn cost(value: &Value, unit: &str) -> Value {
    json!({ "kind": "metric", "body": { "name": "cost.inference", "value": value, "unit": unit } })
}

#[tokio::test]
async fn costs_are_counted_to_the_last_digit_in_each_currency() {
    let (world, hand, job) = running(json!(["USD:1.00", "credits:10"])).await;
    let told = hand.events(&job, json!([cost(&json!(0.42), "USD"), cost(&json!(3), "credits")])).await.ok();
    assert_eq!(told["budget"], json!({ "USD": 0.58, "credits": 7 }));
    let told = hand.events(&job, json!([cost(&json!("0.7"), "USD")])).await.ok();
    assert_eq!(told["budget"]["USD"], json!(-0.12), "the money is gone, allowed or not");
    let told = hand.events(&job, json!([cost(&json!(5), "EUR"), cost(&json!(1e-3), "credits")])).await.ok();
    assert_eq!(told["budget"], json!({ "USD": -0.12, "credits": 6.999 }), "EUR is not counted");
    let own = json!([{ "kind": "metric", "body": { "name": "cost.budget.remaining", "value": 1, "unit": "credits" } },
                     { "kind": "metric", "body": { "name": "latency", "value": 1, "unit": "credits" } }]);
    assert_eq!(hand.events(&job, own).await.ok()["budget"]["credits"], json!(6.999), "these are no costs");
    let left: Vec<Value> = events(&world.admin().await, id(&job))
        .await
        .into_iter()
        .filter(|(_, body)| body["name"] == "cost.budget.remaining" && body["unit"] == "USD")
        .map(|(_, body)| body["value"].clone())
        .collect();
    assert_eq!(left, [json!(0.58), json!(-0.12)], "it is told after each, and falls");
    world.end().await;
}

#[tokio::test]
async fn a_cost_below_zero_is_refused_whole() {
    let (world, hand, job) = running(json!(["USD:1"])).await;
    for wrong in [json!(-0.01), json!("x"), json!([1]), json!(null), json!(1e40)] {
        let both = json!([cost(&json!(0.5), "USD"), cost(&wrong, "USD")]);
        hand.events(&job, both).await.refused(422, "INVALID_REQUEST");
    }
    let admin = world.admin().await;
    assert!(events(&admin, id(&job)).await.is_empty(), "nothing of a refused request is kept");
    assert_eq!(admin.get(&format!("/jobs/{}", id(&job))).await.ok()["budget"], json!({ "USD": 1 }));
    assert_eq!(status(&admin, id(&job)).await, "running");
    world.end().await;
}

#[tokio::test]
async fn nothing_is_allowed_once_any_counter_is_spent() {
    let (world, hand, job) = running(json!(["USD:1", "credits:5"])).await;
    let ask = async |capability: &str, target: &str| {
        hand.tell(&job, "authorize", json!({ "capability": capability, "target": target })).await
    };
    ask("tool.call", "x").await.ok();
    ask("cost.budget", "credits").await.ok();
    hand.events(&job, json!([cost(&json!(5), "credits")])).await.ok();
    for capability in ["tool.call", "model.use"] {
        let body = ask(capability, "x").await.refused(403, "BUDGET_EXHAUSTED");
        assert_eq!(body["retryable"], false);
    }
    ask("cost.budget", "credits").await.refused(403, "BUDGET_EXHAUSTED");
    ask("cost.budget", "USD").await.ok();
    // A missing permission is reported first.
    ask("fs.read", "/x").await.refused(403, "PERMISSION_DENIED");
    let call = json!([{ "kind": "tool_call", "body": { "tool": "x", "call_id": "c" } }]);
    assert_eq!(hand.events(&job, call).await.ok()["denied"][0]["code"], "BUDGET_EXHAUSTED");
    let (kind, last) = events(&world.admin().await, id(&job)).await.pop().unwrap();
    assert_eq!((kind.as_str(), &last["error"]["code"]), ("tool_result", &json!("BUDGET_EXHAUSTED")));
    hand.tell(&job, "result", json!({ "result": "with what there is" })).await.ok();
    world.end().await;
}

#[tokio::test]
async fn a_budget_of_nothing_is_spent_at_once() {
    let (world, hand, job) = running(json!(["USD:0"])).await;
    let call = json!({ "capability": "tool.call", "target": "x" });
    hand.tell(&job, "authorize", call).await.refused(403, "BUDGET_EXHAUSTED");
    // An agent may report it as its end, but `retryable` follows from the code.
    let end = json!({ "code": "BUDGET_EXHAUSTED", "message": "out", "retryable": true });
    hand.tell(&job, "error", end).await.ok();
    let (_, last) = events(&world.admin().await, id(&job)).await.pop().unwrap();
    assert_eq!((&last["final_status"], &last["retryable"]), (&json!("error"), &json!(false)));
    world.end().await;
}

#[tokio::test]
async fn what_is_set_aside_cannot_be_spent_twice() {
    let (world, hand, job) = running(json!(["USD:1.00"])).await;
    let reserve = |amount: &str| {
        let body = json!({ "capability": "tool.call", "target": "x", "reserve": { "USD": amount } });
        hand.tell(&job, "authorize", body)
    };
    let settle = async |name: &Value, cost: Value| {
        let path = format!("reservations/{}/settle", name.as_str().unwrap());
        hand.tell(&job, &path, json!({ "cost": cost })).await
    };
    let first = reserve("0.40").await.ok();
    assert_eq!(first["budget"], json!({ "USD": 0.6 }));
    let second = reserve("0.60").await.ok();
    assert_eq!(second["budget"], json!({ "USD": 0 }));
    reserve("0.01").await.refused(403, "BUDGET_EXHAUSTED");
    assert_eq!(
        settle(&first["reservation_id"], json!({ "USD": "0.25" })).await.ok()["budget"],
        json!({ "USD": 0.15 })
    );
    // The response may have been lost: a repeated settlement returns the same and has no further effect.
    assert_eq!(
        settle(&first["reservation_id"], json!({ "USD": "0.25" })).await.ok()["budget"],
        json!({ "USD": 0.15 })
    );
    settle(&json!("rsv_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"), json!({})).await.refused(422, "INVALID_REQUEST");
    let path = format!("reservations/{}/release", second["reservation_id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(hand.tell(&job, &path, json!({})).await.ok()["budget"], json!({ "USD": 0.75 }));
    }
    // A cost that names its reservation settles it.
    let third = reserve("0.5").await.ok();
    let body =
        json!({ "name": "cost.x", "value": 0.1, "unit": "USD", "reservation_id": third["reservation_id"] });
    let told = hand.events(&job, json!([{ "kind": "metric", "body": body }])).await.ok();
    assert_eq!(told["budget"], json!({ "USD": 0.65 }));
    // A currency without a counter cannot be reserved, and a refused request reserves nothing.
    let both = json!({ "capability": "tool.call", "target": "x", "reserve": { "USD": "0.1", "EUR": "1" } });
    hand.tell(&job, "authorize", both).await.refused(403, "BUDGET_EXHAUSTED");
    for wrong in ["-1", "x", "1e99"] {
        reserve(wrong).await.refused(422, "INVALID_REQUEST");
    }
    let left = world.admin().await.get(&format!("/jobs/{}", id(&job))).await.ok();
    assert_eq!(left["budget"], json!({ "USD": 0.65 }));
    // A retry for the same call gets the same reservation.
    let body =
        json!({ "capability": "tool.call", "target": "x", "call_id": "c9", "reserve": { "USD": "0.4" } });
    let one = hand.tell(&job, "authorize", body.clone()).await.ok();
    assert_eq!(hand.tell(&job, "authorize", body).await.ok(), one);
    assert_eq!(one["budget"], json!({ "USD": 0.25 }));
    world.end().await;
}

#[tokio::test]
async fn what_a_dead_worker_had_set_aside_comes_back() {
    let (world, hand, job) = running(json!(["USD:1"])).await;
    let body = json!({ "capability": "tool.call", "target": "x", "reserve": { "USD": "0.9" } });
    hand.tell(&job, "authorize", body).await.ok();
    world.pass(61).await;
    let again = hand.one().await;
    assert_eq!((&again["attempt"], &again["budget"]), (&json!(2), &json!({ "USD": 1 })));
    let body = json!({ "capability": "tool.call", "target": "x", "reserve": { "USD": "1" } });
    hand.tell(&again, "authorize", body).await.ok();
    hand.tell(&again, "result", json!({})).await.ok();
    let admin = world.admin().await;
    assert_eq!(admin.get(&format!("/jobs/{}", id(&job))).await.ok()["budget"], json!({ "USD": 1 }));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_at_once_are_counted_exactly() {
    let (world, hand, job) = running(json!(["USD:10.00", "credits:64"])).await;
    let post = (0..64).map(|n| {
        let events = json!([cost(&json!(0.07), "USD"), { "kind": "log", "body": { "n": n } }]);
        hand.events(&job, events)
    });
    let (hand, job) = (&hand, &job);
    let reserve = (0..64).map(|_| async move {
        let body = json!({ "capability": "tool.call", "target": "x", "reserve": { "credits": "3" } });
        hand.tell(job, "authorize", body).await.status
    });
    let (posted, reserved) = futures_util::future::join(
        futures_util::future::join_all(post),
        futures_util::future::join_all(reserve),
    )
    .await;
    posted.iter().for_each(|reply| {
        reply.ok();
    });
    assert_eq!(reserved.iter().filter(|status| **status == 200).count(), 21, "64 hold 21 times 3");
    let left = world.admin().await.get(&format!("/jobs/{}", id(job))).await.ok();
    assert_eq!(left["budget"], json!({ "USD": 5.52, "credits": 1 }));
    assert_eq!(left["last_event_seq"], 64 * 3);
    world.end().await;
}
