//! Access and channels (RFC-0021 §5): every agent with read access takes part, and an agent that is asked may
//! answer.

use super::grant;
use entente_harness::{Value, World, json, talk};

#[tokio::test(flavor = "multi_thread")]
async fn one_grant_silences_nobody() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let eve = world.agent("agent.eve").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
    let walled =
        json!({ "name": "walled", "member_policy": "explicit", "members": ["agent.ada", "agent.bob"] });
    let walled = ada.post(&format!("/intents/{intent}/channels"), walled).await.is(201);
    let messages = format!("/channels/{channel}/messages");
    let walled = format!("/channels/{}/messages", walled["id"].as_str().unwrap());
    let note = json!({ "sender": "agent.bob", "payload": { "n": 1 } });
    // The server's cached access levels date from before the grant.
    bob.post(&messages, note.clone()).await.is(201);
    grant(&ada, &intent, "agent.cy", "write").await;
    // Every agent with read access takes part (RFC-0021 §5.2): by id, by name, in batches, and with an ask.
    bob.post(&messages, note.clone()).await.is(201);
    bob.post(&format!("/intents/{intent}/channels/talk/messages"), note.clone()).await.is(201);
    bob.post(&format!("{messages}/batch"), json!({ "messages": [note, note] })).await.is(201);
    let ask = json!({ "sender": "agent.bob", "to": "agent.ada", "payload": {}, "timeout": 1 });
    assert_eq!(bob.post(&format!("/channels/{channel}/ask"), ask).await.status, 200);
    // The log of an audited channel contains their messages.
    let logged = ada.get(&format!("/intents/{intent}/events?event_type=channel.message")).await.ok();
    let said = |event: &&Value| event["actor"] == "agent.bob";
    assert_eq!(logged.as_array().unwrap().iter().filter(said).count(), 6);
    // A members-only channel stays one, and its members stay members.
    bob.post(&walled, note.clone()).await.is(201);
    let eves = json!({ "sender": "agent.eve", "payload": {} });
    eve.post(&walled, eves.clone()).await.refused(403, "not_a_member");
    eve.get(&walled).await.refused(403, "not_a_member");
    eve.post(&messages, eves).await.is(201);
    // Changes to the intent still require `write`.
    bob.post(&format!("/intents/{intent}/channels"), json!({ "name": "x" })).await.refused(403, "forbidden");
    let fresh = format!("/intents/{intent}/channels/fresh/messages");
    bob.post(&fresh, note.clone()).await.refused(403, "forbidden");
    bob.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" }))
        .await
        .refused(403, "forbidden");
    let patch = json!({ "patches": [{ "op": "set", "path": "a", "value": 1 }] });
    bob.seen(&json!(1)).post(&format!("/intents/{intent}/state"), patch).await.refused(403, "forbidden");
    // An agent without read access neither receives nor sends anything (§5.1), member or not.
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    for path in [&messages, &walled] {
        bob.post(path, note.clone()).await.refused(404, "not_found");
        bob.get(path).await.refused(404, "not_found");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_asked_may_answer() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    grant(&ada, &intent, "agent.bob", "read").await;
    let messages = format!("/channels/{channel}/messages");
    let question =
        json!({ "sender": "agent.ada", "to": "agent.bob", "message_type": "request", "payload": {} });
    let answer = json!({ "sender": "agent.bob", "payload": { "a": 1 } });
    let mut asked = Vec::new();
    for _ in 0..2 {
        let made = ada.post(&messages, question.clone()).await.is(201);
        asked.push(made["id"].as_str().unwrap().to_owned());
    }
    let given = bob.post(&format!("{messages}/{}/reply", asked[0]), answer.clone()).await.is(201);
    assert_eq!((given["to"].as_str(), &given["correlation_id"]), (Some("agent.ada"), &json!(asked[0])));
    let response = json!({ "sender": "agent.bob", "message_type": "response", "correlation_id": asked[1], "payload": {} });
    bob.post(&messages, response).await.is(201);
    // Even if its grant was reduced after the request.
    grant(&ada, &intent, "agent.cy", "write").await;
    let cy = world.agent("agent.cy").await;
    let to_cy = json!({ "sender": "agent.ada", "to": "agent.cy", "message_type": "request", "payload": {} });
    let to_cy = ada.post(&messages, to_cy).await.is(201);
    ada.put(
        &format!("/intents/{intent}/acl"),
        json!({ "default_policy": "closed", "entries": [{ "principal_id": "agent.cy", "permission": "read" }] }),
    )
    .await
    .ok();
    let cys = json!({ "sender": "agent.cy", "payload": {} });
    cy.post(&format!("{messages}/{}/reply", to_cy["id"].as_str().unwrap()), cys).await.is(201);
    // An agent that has lost read access gets the usual 404.
    bob.post(&format!("{messages}/{}/reply", asked[0]), answer).await.refused(404, "not_found");
    world.end().await;
}
