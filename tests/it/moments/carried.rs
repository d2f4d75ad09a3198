//! A question must not be part of a message to many (binding moment §7.4), and is not asked twice.

use super::{ask, at, question, with};
use entente_harness::envelopes::{mail, task_envelope};
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Value, World, json, talk};

/// Returns values that contain a question at various depths.
fn carrying() -> Vec<Value> {
    let moment = question("human.ada")["binding_moment"].clone();
    vec![
        json!({ "binding_moment": moment }),
        json!({ "result": { "structuredContent": [{ "binding_moment": moment }] } }),
        json!({ "binding_moment": null }),
    ]
}

async fn refused_on(client: &Client, channel: &str, more: Value) {
    let mut body = json!({ "sender": "agent.a", "payload": { "n": 1 } });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post(&format!("/channels/{channel}/messages"), body).await.refused(422, "invalid_moment");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_no_message_of_a_channel() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let (_, channel) = talk(&agent, json!({})).await;
    let mcp = Mcp::new(&agent, Era::Stateless);
    for payload in carrying() {
        for more in [
            json!({ "message_type": "broadcast", "payload": payload }),
            json!({ "message_type": "notify", "to": "human.ada", "payload": payload }),
            json!({ "message_type": "notify", "metadata": payload }),
        ] {
            refused_on(&agent, &channel, more).await;
        }
        let asked = json!({ "sender": "agent.a", "to": "agent.b", "payload": payload, "timeout_seconds": 1 });
        agent.post(&format!("/channels/{channel}/ask"), asked).await.refused(422, "invalid_moment");
        let one = json!({ "sender": "agent.a", "message_type": "broadcast", "payload": payload });
        let path = format!("/channels/{channel}/messages/batch");
        let batch = agent.post(&path, json!({ "messages": [one] })).await;
        assert!(batch.text.contains("invalid_moment"), "{}", batch.text);
        let say = json!({ "channel": channel, "payload": payload });
        mcp.refused("send_message", say, "invalid_moment").await;
    }
    let escaped =
        r#"{"sender":"agent.a","message_type":"broadcast","payload":{"a":{"binding\u005fmoment":{}},"a":1}}"#;
    let reply = agent.send("POST", &format!("/channels/{channel}/messages"), Some(escaped.to_owned())).await;
    assert_eq!(reply.status, 422, "{}", reply.text);
    // A message may name the question that it is about.
    let moment = ask(&agent, json!({})).await;
    let about = json!({
        "sender": "agent.a", "message_type": "broadcast", "payload": { "binding_moment_id": moment["id"] },
        "metadata": { "binding_moment_id": moment["id"] },
    });
    agent.post(&format!("/channels/{channel}/messages"), about).await.is(201);
    assert_eq!(ada.get("/moments/inbox").await.ok()["moments"].as_array().unwrap().len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_not_broadcast_wherever_it_is_put() {
    let world = World::start().await;
    let (agent, bob) = (world.agent("agent.a").await, world.agent("agent.b").await);
    bob.send("PUT", "/aee/buses/bus.ops/subscriptions/agent.b", None).await;
    let said = |id: &str, to: &str, more: Value| {
        let mut said = task_envelope(&world, id, ("agent.a", to));
        said["type"] = json!("event");
        said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        said
    };
    let mcp = Mcp::new(&agent, Era::Stateless);
    for (n, deep) in carrying().into_iter().enumerate() {
        for (where_, more) in [
            ("payload", json!({ "payload": deep })),
            ("x-member", json!({ "x-member": deep })),
            ("top", deep),
        ] {
            let id = format!("envelope-{n}-{where_}");
            let event = said(&id, "bus.ops", more.clone());
            agent.post("/aee/envelopes", event.clone()).await.refused(422, "invalid_moment");
            mcp.refused("send_envelope", json!({ "envelope": event }), "invalid_moment").await;
        }
    }
    // It may go to one recipient, and a bridge does not show it to many.
    let (_, channel) = talk(&world.admin().await, json!({})).await;
    let admin = world.admin().await;
    let mirror = json!({ "kind": "mirror", "entity": "agent.b", "channel_id": channel });
    admin.put("/aee/bridges/b", mirror).await.ok();
    let direct = said("envelope-direct", "agent.b", json!({ "payload": carrying()[0] }));
    agent.post("/aee/envelopes", direct).await.is(202);
    let plain = said("envelope-plain", "agent.b", json!({}));
    agent.post("/aee/envelopes", plain.clone()).await.is(202);
    world.carry().await;
    assert_eq!(mail(&bob, "agent.b").await.len(), 2);
    let shown = admin.get(&format!("/channels/{channel}/messages")).await.ok();
    let shown: Vec<&Value> =
        shown.as_array().unwrap().iter().map(|one| &one["payload"]["envelope"]["id"]).collect();
    assert_eq!(shown, [&plain["id"]], "what may not be shown keeps nothing else back");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_an_answer_is_not_asked_twice() {
    let world = World::start().await;
    let (agent, other) = (world.agent("agent.a").await, world.agent("agent.b").await);
    let (ada, _ben) = (world.human("human.ada").await, world.human("human.ben").await);
    let first = agent.once("k1").post("/moments", question("human.ada")).await.is(201);
    agent.once("k1").post("/moments", question("human.ada")).await.is(200);
    let refused = agent.post("/moments", question("human.ada")).await.refused(409, "same_question");
    assert!(refused["message"].as_str().unwrap().contains(first["id"].as_str().unwrap()), "{refused}");
    let mut louder = question("human.ada");
    louder["binding_moment"]["question"]["stem"] = json!("when should RELEASE 1.4 ship");
    louder["binding_moment"]["synopsis"] = json!("Ship it at once.");
    agent.once("k2").post("/moments", louder).await.refused(409, "same_question");
    let asked = question("human.ada")["binding_moment"].clone();
    let mut call = json!({ "principal": "human.ada" });
    call.as_object_mut().unwrap().extend(asked.as_object().unwrap().clone());
    Mcp::new(&agent, Era::Stateless).refused("ask_principal", call, "same_question").await;
    // To another person, by another agent or about another intent it is a different question.
    agent.post("/moments", question("human.ben")).await.is(201);
    other.post("/moments", question("human.ada")).await.is(201);
    let intent = agent.post("/intents", json!({ "title": "t" })).await.ok();
    let about = with(question("human.ada"), json!({ "intent_id": intent["id"] }));
    agent.post("/moments", about.clone()).await.is(201);
    agent.post("/moments", about).await.refused(409, "same_question");
    // A question that has ended blocks nothing.
    agent.post(&format!("{}/withdraw", at(&first)), json!({ "reason": "better put" })).await.ok();
    let again = with(question("human.ada"), json!({ "expires_in": 60 }));
    agent.post("/moments", again.clone()).await.is(201);
    world.clock.advance(60);
    agent.post("/moments", again).await.is(201);
    drop(ada);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once_ask_it_once() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    world.human("human.ada").await;
    let asking = (0..8).map(|_| {
        let agent = agent.clone();
        tokio::spawn(async move { agent.post("/moments", question("human.ada")).await.status })
    });
    let mut said = Vec::new();
    for one in asking.collect::<Vec<_>>() {
        said.push(one.await.unwrap());
    }
    said.sort_unstable();
    assert_eq!(said, [[201].as_slice(), &[409; 7]].concat());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_of_the_hatches_is_refused() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    world.human("human.ada").await;
    for half in [json!({ "free_text": true }), json!({ "dialogue": true }), json!({})] {
        let mut asked = question("human.ada");
        asked["binding_moment"]["question"]["hatches"] = half.clone();
        let refused = agent.post("/moments", asked.clone()).await.refused(422, "invalid_moment");
        assert_eq!(refused["errors"][0]["type"], "missing", "{refused}");
        let mut call = json!({ "principal": "human.ada" });
        call.as_object_mut().unwrap().extend(asked["binding_moment"].as_object().unwrap().clone());
        let result = Mcp::new(&agent, Era::Stateless).call("ask_principal", call).await;
        assert_eq!(result["isError"], true, "{result}");
    }
    world.end().await;
}
