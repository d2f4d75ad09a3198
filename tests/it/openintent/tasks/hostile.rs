//! Hostile input: invalid names and oversized members, through every endpoint.

use super::{act, intent, now, task};
use entente_harness::{World, json};

/// Returns texts that are no agent names; the last one is too long for an index.
fn no_names() -> Vec<String> {
    let noise =
        (0..9_000_u64).map(|n| char::from(b'!' + (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57) as u8 % 90));
    vec![
        String::new(),
        " ".to_owned(),
        "a\nb".to_owned(),
        "*".to_owned(),
        "role:any".to_owned(),
        noise.collect(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_given_to_no_text_that_is_no_name() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let id = task(&ada, &home, json!({})).await;
    let before = now(&ada, &id).await;
    for name in no_names() {
        for verb in ["delegate", "escalate"] {
            let given = ada.post(&format!("/tasks/{id}/{verb}"), json!({ "to": name })).await;
            given.refused(422, "invalid_request");
        }
        for body in
            [json!({ "assigned_agent": name }), json!({ "assigned_agent": name, "status": "claimed" })]
        {
            let given = ada.seen(&json!(1)).patch(&format!("/tasks/{id}"), body).await;
            given.refused(422, "invalid_request");
        }
    }
    assert_eq!(now(&ada, &id).await, before);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_of_a_task_has_the_same_limits_on_every_way() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let id = task(&ada, &home, json!({})).await;
    let claimed = act(&ada, &id, "claim", json!({})).await;
    let long = "x".repeat(300 * 1024);
    let many: Vec<String> = (0..201).map(|n| n.to_string()).collect();
    for body in
        [json!({ "output": { "text": long } }), json!({ "artifacts": [long] }), json!({ "artifacts": many })]
    {
        ada.post(&format!("/tasks/{id}/complete"), body.clone()).await.refused(413, "too_large");
        ada.seen(&claimed["version"]).patch(&format!("/tasks/{id}"), body).await.refused(413, "too_large");
    }
    assert_eq!(now(&ada, &id).await, claimed);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_cannot_be_stored_finds_nothing_and_breaks_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let found = ada.get(&format!("/intents/{home}/tasks?assigned_agent=a%00b")).await;
    found.refused(422, "invalid_parameter");
    world.end().await;
}
