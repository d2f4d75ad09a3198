//! Deduplication (RFC-0017 §6): an open intent is not created twice, or the second one waits.

use super::{did, intents, path, trigger};
use entente_harness::{Value, World, json};

#[tokio::test]
async fn an_open_intent_is_not_made_twice() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let skip = |namespace: Value| json!({ "deduplication": "skip", "intent_template": { "type": "review" }, "namespace": namespace });
    let one = trigger(&ada, "schedule", skip(json!("eu"))).await;
    let two = trigger(&ada, "schedule", skip(json!("us"))).await;
    let all = trigger(&ada, "schedule", skip(Value::Null)).await;
    let fire = async |made: &Value| ada.send("POST", &format!("{}/fire", path(made)), None).await.is(200);
    let first = fire(&one).await;
    let again = fire(&one).await;
    assert_eq!((&again["status"], &again["reason"]), (&json!("skipped"), &json!("deduplicated")));
    assert_eq!((&again["intent_id"], &again["fire_count"]), (&Value::Null, &json!(1)));
    // Each namespace is separate; a trigger without one looks in all (RFC-0017 §6.1).
    assert_eq!(fire(&all).await["status"], "skipped");
    let second = fire(&two).await;
    assert_eq!(second["status"], "fired");
    // Other principals' intents neither block a trigger nor become visible through it.
    let eve = world.agent("agent.eve").await;
    let hers = trigger(&eve, "schedule", skip(Value::Null)).await;
    assert_eq!(eve.send("POST", &format!("{}/fire", path(&hers)), None).await.is(200)["status"], "fired");
    for made in [&first, &second] {
        let done = format!("/intents/{}/status", made["intent_id"].as_str().unwrap());
        ada.seen(&json!(1)).post(&done, json!({ "status": "completed" })).await.ok();
    }
    assert_eq!(fire(&all).await["status"], "fired");
    world.end().await;
}

#[tokio::test]
async fn what_waits_goes_on_when_the_other_is_over() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let more = json!({ "deduplication": "queue", "intent_template": { "type": "review", "title": "{{ payload }}" } });
    let made = trigger(&ada, "schedule", more).await;
    let fire =
        async |n: &str| ada.post(&format!("{}/fire", path(&made)), json!({ "payload": n })).await.is(200);
    let first = fire("one").await;
    assert_eq!(fire("two").await["status"], "waiting");
    let full = fire("three").await;
    assert_eq!((&full["status"], &full["reason"]), (&json!("skipped"), &json!("queue_full")));
    world.sweep().await;
    assert_eq!(intents(&ada).await.len(), 1);
    let done = format!("/intents/{}/status", first["intent_id"].as_str().unwrap());
    ada.seen(&json!(1)).post(&done, json!({ "status": "abandoned" })).await.ok();
    world.sweep().await;
    let found = intents(&ada).await;
    let mut titles: Vec<&str> = found.iter().map(|one| one["title"].as_str().unwrap()).collect();
    titles.sort_unstable();
    assert_eq!(titles, ["one", "two"]);
    // A waiting firing of a disabled trigger is dropped.
    assert_eq!(fire("four").await["status"], "waiting");
    ada.seen(&json!(1)).patch(&path(&made), json!({ "enabled": false })).await.ok();
    let last = did(&ada, &made).await.pop().unwrap();
    assert_eq!((last.1.as_str(), &last.2), ("skipped", &json!("disabled")));
    world.end().await;
}
