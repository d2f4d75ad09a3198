//! Retries and batches: done once, each message independently.

use entente_harness::{Value, World, json, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_done_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let body = json!({ "sender": "agent.ada", "payload": { "n": 1 } });
    let first = ada.once("k").post(&messages, body.clone()).await.is(201);
    assert_eq!(ada.once("k").post(&messages, body.clone()).await.is(201), first);
    let other = json!({ "sender": "agent.ada", "payload": { "n": 2 } });
    ada.once("k").post(&messages, other).await.refused(409, "idempotency_mismatch");
    let bob = world.agent("agent.bob").await;
    let bobs = json!({ "sender": "agent.bob", "payload": {} });
    bob.once("k").post(&messages, bobs).await.is(201);
    ada.once("").post(&messages, body.clone()).await.refused(422, "invalid_parameter");
    ada.once(&"x".repeat(256)).post(&messages, body.clone()).await.refused(422, "invalid_parameter");
    assert_eq!(ada.get(&messages).await.ok().as_array().unwrap().len(), 2);
    // After the window the key is forgotten.
    world.pass(24 * 3600 + 1).await;
    assert_ne!(ada.once("k").post(&messages, body).await.is(201)["id"], first["id"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_sent_each_for_itself() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let path = format!("/channels/{channel}/messages/batch");
    let good = |n: u32| json!({ "sender": "agent.ada", "payload": { "n": n } });
    let all = ada.post(&path, json!({ "messages": [good(1), good(2)] })).await.is(201);
    assert_eq!(all["sent"], 2);
    let bad = [
        json!({ "sender": "agent.bob" }),
        json!({ "sender": "agent.ada", "payload": [] }),
        json!(7),
        json!({ "sender": "agent.ada", "to": "role:x" }),
    ];
    let mixed: Vec<Value> = bad.iter().cloned().chain([good(3)]).collect();
    let reply = ada.once("b").post(&path, json!({ "messages": mixed })).await.is(207);
    assert_eq!((reply["sent"].as_u64(), reply["refused"].as_u64()), (Some(1), Some(4)));
    let codes: Vec<&str> =
        reply["results"].as_array().unwrap().iter().filter_map(|r| r["error"]["code"].as_str()).collect();
    assert_eq!(codes, ["may_not_act_as", "invalid_request", "invalid_request", "no_recipient"]);
    assert_eq!(reply["results"][4]["message"]["payload"], json!({ "n": 3 }));
    // A retry sends nothing twice.
    let again = ada.once("b").post(&path, json!({ "messages": mixed })).await.is(207);
    assert_eq!(again["results"][4]["message"]["id"], reply["results"][4]["message"]["id"]);
    let numbers: Vec<Value> = (0..300).map(|n| good(n + 10)).collect();
    ada.post(&path, json!({ "messages": numbers })).await.is(201);
    let list = ada.get(&format!("/channels/{channel}/messages")).await.ok();
    let order: Vec<u64> =
        list.as_array().unwrap().iter().map(|m| m["payload"]["n"].as_u64().unwrap()).collect();
    assert_eq!(order, [1, 2, 3].into_iter().chain(10..310).collect::<Vec<_>>());
    ada.post(&path, json!({ "messages": [] })).await.refused(422, "invalid_request");
    ada.post(&path, json!({ "messages": vec![good(0); 1001] })).await.refused(422, "invalid_request");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_batch_on_another_channel_is_another_batch() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let body = json!({ "messages": [{ "sender": "agent.ada", "payload": { "n": 1 } }] });
    let (first, second) = (talk(&ada, json!({})).await.1, talk(&ada, json!({})).await.1);
    let one = ada.once("k").post(&format!("/channels/{first}/messages/batch"), body.clone()).await.is(201);
    let other = ada.once("k").post(&format!("/channels/{second}/messages/batch"), body).await.is(207);
    assert_eq!(one["sent"], 1);
    assert_eq!(other["results"][0]["error"]["code"], "idempotency_mismatch", "{other}");
    assert_eq!(
        ada.get(&format!("/channels/{second}/messages")).await.ok(),
        json!([]),
        "nothing was sent there"
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_what_was_sent_is_no_refusal() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let path = format!("/channels/{channel}/messages");
    let body = json!({ "sender": "agent.ada", "payload": { "n": 1 } });
    let sent = ada.once("k").post(&path, body.clone()).await.is(201);
    ada.patch(&format!("/channels/{channel}"), json!({ "status": "closed" })).await.ok();
    ada.post(&path, body.clone()).await.refused(409, "channel_closed");
    assert_eq!(ada.once("k").post(&path, body.clone()).await.is(201), sent);
    ada.once("other").post(&path, body).await.refused(409, "channel_closed");
    world.end().await;
}
