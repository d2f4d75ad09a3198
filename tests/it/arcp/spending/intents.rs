//! Calls of a gateway for an intent: its `max_cost` (RFC-0013) is a budget for them as for its jobs, and their costs are
//! costs of the intent (RFC-0009), once.

use futures_util::future::join_all;

use entente_harness::governance::governed;
use entente_harness::jobs::Hand;
use entente_harness::{World, json};

use super::reserving;

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_limit_of_an_intent_is_a_budget_for_jobs_and_calls() {
    let world = World::start().await;
    let (ada, any) = (world.agent("agent.ada").await, world.any());
    let hand = Hand::of(&any, "echo@1").await;
    let intent = governed(&ada, json!({ "max_cost": 2 })).await;
    let call = |amount: &str| json!({ "intent_id": intent, "model": "gpt", "reserve": { "USD": amount } });
    let held = ada.post("/spend/reservations", call("1.5")).await.is(201);
    ada.post("/spend/reservations", call("0.6")).await.refused(403, "BUDGET_EXHAUSTED");
    // A job of the intent has no more left than that.
    let job = json!({ "agent": "echo", "intent_id": intent, "lease_request": { "model.use": ["*"] } });
    ada.post("/jobs", job).await.is(201);
    let job = hand.one().await;
    hand.tell(&job, "authorize", reserving("0.6")).await.refused(403, "BUDGET_EXHAUSTED");
    let of_job = hand.tell(&job, "authorize", reserving("0.5")).await.ok();
    // A settled call is a cost of the intent, however often it is settled.
    let settle = format!("/spend/reservations/{}/settle", held["reservation_id"].as_str().unwrap());
    for _ in 0..2 {
        ada.post(&settle, json!({ "cost": { "USD": "1.2", "tokens": 40 } })).await.ok();
    }
    let page = ada.get(&format!("/intents/{intent}/costs")).await.ok();
    let costs = page["costs"].as_array().unwrap();
    assert_eq!(costs.len(), 2, "{page}");
    let cost = costs.iter().find(|cost| cost["unit"] == "USD").unwrap();
    assert_eq!(
        (&cost["amount"], &cost["cost_type"], &cost["model"], &cost["agent_id"]),
        (&json!(1.2), &json!("call"), &json!("gpt"), &json!("agent.ada"))
    );
    assert_eq!(cost["metadata"]["reservation_id"], held["reservation_id"]);
    // 1.2 are spent and 0.5 reserved by the job.
    ada.post("/spend/reservations", call("0.4")).await.refused(403, "BUDGET_EXHAUSTED");
    let held = ada.post("/spend/reservations", call("0.3")).await.is(201);
    // What is released or given up is there again.
    ada.delete(&format!("/spend/reservations/{}", held["reservation_id"].as_str().unwrap())).await.ok();
    let path = format!("reservations/{}/settle", of_job["reservation_id"].as_str().unwrap());
    hand.tell(&job, &path, json!({ "cost": {} })).await.ok();
    ada.post("/spend/reservations", call("0.8")).await.is(201);
    world.pass(601).await;
    ada.post("/spend/reservations", call("0.8")).await.is(201);
    // A cost beyond the limit is recorded all the same, and nothing more is allowed.
    let report = ada.get("/spend").await.ok();
    assert_eq!(report["lines"].as_array().unwrap().len(), 2, "{report}");
    world.pass(601).await;
    let held = ada.post("/spend/reservations", call("0.8")).await.is(201);
    let settle = format!("/spend/reservations/{}/settle", held["reservation_id"].as_str().unwrap());
    ada.post(&settle, json!({ "cost": { "USD": "3" } })).await.ok();
    let ask = json!({ "intent_id": intent, "model": "gpt", "reserve": {} });
    ada.post("/spend/reservations", ask).await.refused(403, "BUDGET_EXHAUSTED");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_on_two_servers_stay_within_an_intents_limit() {
    let (one, other) = World::two().await;
    let ada = one.agent("agent.ada").await;
    let there = other.agent("agent.ada").await;
    let intent = governed(&ada, json!({ "max_cost": 1 })).await;
    let calls = (0..30).map(async |n| {
        let call = json!({ "intent_id": intent, "reserve": { "USD": "0.1" }, "call_id": format!("c{n}") });
        let client = if n % 2 == 0 { &ada } else { &there };
        let made = client.post("/spend/reservations", call.clone()).await;
        if made.status == 201 {
            // The same call again gets the same reservation, though nothing is left.
            let again = ada.post("/spend/reservations", call).await;
            assert_eq!(again.json()["reservation_id"], made.json()["reservation_id"]);
            return 1;
        }
        made.refused(403, "BUDGET_EXHAUSTED");
        0
    });
    assert_eq!(join_all(calls).await.into_iter().sum::<u32>(), 10);
    other.end().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_limit_of_an_intent_is_listed_with_the_budgets_of_its_scope() {
    let world = World::start().await;
    let (ada, any) = (world.agent("agent.ada").await, world.any());
    let hand = Hand::of(&any, "echo@1").await;
    let intent = governed(&ada, json!({ "max_cost": 2 })).await;
    let path = format!("/budgets?scope=intent:{intent}");
    let unused = ada.get(&path).await.ok();
    assert_eq!(unused["cost_limit"], json!({ "intent_id": intent, "limit": 2, "usage": [] }));
    ada.post("/jobs", json!({ "agent": "echo", "intent_id": intent })).await.is(201);
    let job = hand.one().await;
    hand.tell(&job, "authorize", reserving("0.5")).await.ok();
    let cost = json!({ "cost_type": "tokens", "amount": 1.2, "unit": "USD", "agent_id": "agent.ada" });
    ada.post(&format!("/intents/{intent}/costs"), cost).await.ok();
    let usage = json!([{ "unit": "USD", "spent": 1.2, "reserved": 0.5, "left": 0.3 }]);
    let admin = world.admin().await;
    for reader in [&ada, &any, &admin] {
        assert_eq!(reader.get(&path).await.ok()["cost_limit"]["usage"], usage);
    }
    // A cost beyond the limit leaves zero; a closed list of access hides the limit as it hides the intent.
    hand.tell(&job, "result", json!({ "result": 1 })).await.ok();
    let closed = json!({ "default_policy": "closed", "entries": [] });
    ada.put(&format!("/intents/{intent}/acl"), closed).await.ok();
    let stranger = world.agent("agent.stranger").await;
    assert_eq!(stranger.get(&path).await.ok(), json!({ "budgets": [] }));
    assert!(ada.get(&path).await.ok()["cost_limit"]["usage"][0]["reserved"] == json!(0));
    // Neither an intent without a limit nor another scope has one.
    let free = governed(&ada, json!({})).await;
    assert_eq!(ada.get(&format!("/budgets?scope=intent:{free}")).await.ok(), json!({ "budgets": [] }));
    assert!(any.get("/budgets").await.ok().get("cost_limit").is_none());
    world.end().await;
}
