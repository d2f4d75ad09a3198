//! Jobs that work for an intent spend its money (RFC-0009, RFC-0013): each reported cost is recorded on the intent
//! once, and its `max_cost` stops them like an exhausted budget (ARCP §9.6).

use super::{Hand, id};
use entente_harness::governance::{governed, told};
use entente_harness::{Client, Value, World, json};

fn spent(amount: f64, unit: &str) -> Value {
    json!({ "kind": "metric", "body": { "name": "cost.inference", "value": amount, "unit": unit } })
}

async fn may(hand: &Hand, job: &Value, more: Value) -> entente_harness::Reply {
    let mut body = json!({ "capability": "tool.call", "target": "x" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    hand.tell(job, "authorize", body).await
}

async fn settle(hand: &Hand, job: &Value, held: &Value, cost: &str) {
    let path = format!("reservations/{}/settle", held["reservation_id"].as_str().unwrap());
    hand.tell(job, &path, json!({ "cost": { "USD": cost } })).await.ok();
}

async fn costs(client: &Client, intent: &str) -> Vec<(Value, Value)> {
    let page = client.get(&format!("/intents/{intent}/costs")).await.ok();
    let all = page["costs"].as_array().unwrap().iter();
    all.map(|cost| (cost["amount"].clone(), cost["unit"].clone())).collect()
}

/// Submits and claims a job that works for an intent.
async fn job(client: &Client, hand: &Hand, intent: &str, lease: Value) -> Value {
    let asked = json!({ "agent": "echo", "intent_id": intent, "lease_request": lease });
    let made = client.post("/jobs", asked).await.is(201);
    let mut claimed = hand.claim(10).await;
    claimed.retain(|one| one["job_id"] == made["job_id"]);
    claimed.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_reports_is_a_cost_of_its_intent_once() {
    let world = World::start().await;
    let (ada, hand) = (world.agent("agent.ada").await, Hand::of(&world.any(), "echo@1.0.0").await);
    let intent = governed(&ada, json!({ "my_own": 1 })).await;
    let lease = json!({ "tool.call": ["*"], "cost.budget": ["USD:5"] });
    let one = job(&ada, &hand, &intent, lease).await;
    let keyed = {
        let mut event = spent(0.25, "USD");
        event["event_key"] = json!("k1");
        event
    };
    hand.events(&one, json!([keyed, spent(0.5, "USD"), spent(3.0, "tokens")])).await.ok();
    assert_eq!(hand.events(&one, json!([keyed])).await.ok()["budget"], json!({ "USD": 4.25 }), "a retry");
    assert_eq!(costs(&ada, &intent).await, [(json!(0.75), json!("USD")), (json!(3), json!("tokens"))]);
    let page = ada.get(&format!("/intents/{intent}/costs")).await.ok();
    let cost = &page["costs"][0];
    assert_eq!(
        (&cost["agent_id"], &cost["metadata"]),
        (&json!("echo@1.0.0"), &json!({ "job_id": id(&one) }))
    );
    // A refused report records nothing, and neither does a job without an intent.
    let odd = json!([spent(1.0, "USD"), { "kind": "metric", "body": { "name": "cost.x", "value": -1, "unit": "USD" } }]);
    assert_eq!(hand.events(&one, odd).await.status, 422);
    // Nor does a report that fails only when it is applied.
    let mut unknown = spent(1.0, "USD");
    unknown["body"]["reservation_id"] = json!("rsv_01J9ZK4T6Q8R2V5X7Y9B1C3D5F");
    hand.events(&one, json!([spent(1.0, "USD"), unknown])).await.refused(422, "INVALID_REQUEST");
    hand.events(&one, json!([{ "kind": "log", "body": { "level": "info", "message": "at work" } }]))
        .await
        .ok();
    assert_eq!(costs(&ada, &intent).await.len(), 2);
    ada.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let free = hand.one().await;
    hand.events(&free, json!([spent(1.0, "USD")])).await.ok();
    // A reservation is no cost until it is settled, and then it counts with its final amount.
    let held = may(&hand, &one, json!({ "reserve": { "USD": "2" } })).await.ok();
    assert_eq!(costs(&ada, &intent).await.len(), 2);
    settle(&hand, &one, &held, "1.5").await;
    settle(&hand, &one, &held, "1.5").await;
    let all = costs(&ada, &intent).await;
    assert_eq!((all.len(), &all[2]), (3, &(json!(1.5), json!("USD"))));
    let logged = told(&ada, &intent, "comment").await;
    assert_eq!(logged.iter().filter(|event| event["payload"]["about"] == "cost").count(), 3);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ceiling_of_the_intent_stops_its_jobs() {
    let world = World::start().await;
    let (ada, hand) = (world.agent("agent.ada").await, Hand::of(&world.any(), "echo@1.0.0").await);
    let intent = governed(&ada, json!({ "max_cost": 10 })).await;
    let path = format!("/intents/{intent}/costs");
    let recorded = |amount: i32| json!({ "cost_type": "compute", "amount": amount, "unit": "USD" });
    // One job has a larger budget of its own, the other has none.
    let rich = job(&ada, &hand, &intent, json!({ "tool.call": ["*"], "cost.budget": ["USD:100"] })).await;
    let bare = job(&ada, &hand, &intent, json!({ "tool.call": ["*"] })).await;
    ada.post(&path, recorded(4)).await.ok();
    for one in [&rich, &bare] {
        may(&hand, one, json!({})).await.ok();
        may(&hand, one, json!({ "reserve": { "USD": "6.01" } })).await.refused(403, "BUDGET_EXHAUSTED");
    }
    // Both reserve from the same limit.
    let held = may(&hand, &rich, json!({ "reserve": { "USD": "4" } })).await.ok();
    may(&hand, &bare, json!({ "reserve": { "USD": "2.01" } })).await.refused(403, "BUDGET_EXHAUSTED");
    let other = may(&hand, &bare, json!({ "reserve": { "USD": "2" } })).await.ok();
    settle(&hand, &bare, &other, "1").await;
    settle(&hand, &rich, &held, "4").await;
    may(&hand, &rich, json!({})).await.ok();
    // Every report is recorded, even above the limit: the money is spent (§9.6).
    let told = hand.events(&rich, json!([spent(3.0, "USD")])).await.ok();
    assert_eq!(told["budget"], json!({ "USD": 93 }));
    assert_eq!(ada.get(&path).await.ok()["costs"].as_array().unwrap().len(), 4);
    for one in [&rich, &bare] {
        may(&hand, one, json!({})).await.refused(403, "BUDGET_EXHAUSTED");
        may(&hand, one, json!({ "call_id": "c1" })).await.refused(403, "BUDGET_EXHAUSTED");
        may(&hand, one, json!({ "capability": "cost.budget", "target": "USD" }))
            .await
            .refused(403, "BUDGET_EXHAUSTED");
        let call = json!([{ "kind": "tool_call", "body": { "tool": "x", "call_id": "c2", "args": {} } }]);
        let denied = hand.events(one, call).await.ok()["denied"].clone();
        assert_eq!(denied[0]["code"], "BUDGET_EXHAUSTED", "{denied}");
    }
    may(&hand, &bare, json!({ "capability": "cost.budget", "target": "EUR" })).await.ok();
    ada.post(&path, recorded(1)).await.refused(403, "governance_violation");
    // An agent that manages the intent may raise the limit.
    let version = ada.get(&format!("/intents/{intent}")).await.ok()["version"].clone();
    let more = json!({ "max_cost": 20 });
    ada.seen(&version).put(&format!("/intents/{intent}/governance"), more).await.ok();
    may(&hand, &bare, json!({})).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_spends_what_its_parent_works_for() {
    let world = World::start().await;
    let (ada, hand) = (world.agent("agent.ada").await, Hand::of(&world.any(), "echo@1.0.0").await);
    let intent = governed(&ada, json!({ "max_cost": 1 })).await;
    let parent = job(&ada, &hand, &intent, json!({ "tool.call": ["*"] })).await;
    // It names no intent of its own, as clients of sessions submit them.
    let asked =
        json!({ "agent": "echo", "parent_job_id": id(&parent), "lease_request": { "tool.call": ["*"] } });
    ada.post("/jobs", asked).await.is(201);
    let child = hand.one().await;
    hand.events(&child, json!([spent(1.0, "USD")])).await.ok();
    assert_eq!(costs(&ada, &intent).await, [(json!(1), json!("USD"))]);
    for one in [&parent, &child] {
        may(&hand, one, json!({})).await.refused(403, "BUDGET_EXHAUSTED");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_no_more_is_set_aside_than_there_is() {
    let world = World::start().await;
    let (ada, hand) = (world.agent("agent.ada").await, Hand::of(&world.any(), "echo@1.0.0").await);
    let intent = governed(&ada, json!({ "max_cost": 3 })).await;
    let one = job(&ada, &hand, &intent, json!({ "tool.call": ["*"] })).await;
    let two = job(&ada, &hand, &intent, json!({ "tool.call": ["*"], "cost.budget": ["USD:100"] })).await;
    let tries: Vec<_> = (0..10)
        .map(|n| {
            let (client, job) = (hand.client.clone(), if n % 2 == 0 { one.clone() } else { two.clone() });
            tokio::spawn(async move {
                let body = json!({
                    "claim_token": job["claim_token"], "capability": "tool.call", "target": "x", "reserve": { "USD": "1" },
                });
                client.post(&format!("/jobs/{}/authorize", id(&job)), body).await.status
            })
        })
        .collect();
    let mut said = Vec::new();
    for one in tries {
        said.push(one.await.unwrap());
    }
    said.sort_unstable();
    assert_eq!(said, [[200; 3].as_slice(), &[403; 7]].concat());
    world.end().await;
}
