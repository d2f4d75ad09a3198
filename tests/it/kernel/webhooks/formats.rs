//! CloudEvents instead of the body of Standard Webhooks: each kind of delivery, its signature, and its sameness over attempts.

use crate::harness::{Act, Receiver, Setup, Value, World, json, send, subscribe, talk};

/// The attributes of an event without its data.
fn attributes(event: &Value) -> Vec<&str> {
    event.as_object().unwrap().keys().map(String::as_str).filter(|name| *name != "data").collect()
}

#[tokio::test]
async fn a_receiver_gets_cloud_events_signed_and_the_same_at_each_attempt() {
    let settings = vec![("ENTENTE_PUBLIC_URL", "https://entente.example.com")];
    let world = World::with(Setup { settings, live: false }).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let (receiver, plain) = (Receiver::start().await, Receiver::start().await);
    let types = json!({ "event_types": ["channel_message", "comment"] });
    let mut asked = types.clone();
    asked["format"] = json!("cloudevents");
    let made = subscribe(&ada, &receiver.url(), asked).await;
    assert_eq!(made["format"], "cloudevents");
    let other = subscribe(&ada, &plain.url(), types).await;
    assert_eq!(other["format"], "standard");
    receiver.does([Act::Say(500, ""), Act::Say(204, "")]);

    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let said = json!({ "sender": "agent.ada", "payload": { "n": 1.50 }, "metadata": { "trace_id": trace } });
    let said = send(&ada, &channel, said).await;
    ada.post(
        &format!("/intents/{intent}/events"),
        json!({ "event_type": "comment", "payload": { "note": "ä" } }),
    )
    .await
    .is(201);
    world.hooks().await;
    world.clock.advance(3_600);
    world.hooks().await;

    let got = receiver.got();
    assert_eq!(got.len(), 3, "{got:?}");
    let secret = made["secret"].as_str().unwrap();
    for one in &got {
        assert_eq!(one.headers["content-type"], "application/cloudevents+json; charset=utf-8");
        assert!(one.signed_by(secret));
        let event = one.body();
        assert_eq!((&event["specversion"], &event["id"]), (&json!("1.0"), &json!(one.id())));
        assert_eq!(event["source"], format!("https://entente.example.com/api/v1/intents/{intent}"));
        assert_eq!(event["datacontenttype"], "application/json");
    }
    let message = got[1].body();
    assert_eq!(
        (got[0].id(), &got[0].body()["data"]),
        (got[1].id(), &message["data"]),
        "the second attempt is the same"
    );
    assert_eq!(
        attributes(&message),
        ["datacontenttype", "id", "source", "specversion", "time", "traceparent", "type"]
    );
    assert_eq!((&message["type"], &message["id"]), (&json!("channel_message"), &said["id"]));
    assert!(message["traceparent"].as_str().unwrap().starts_with(&format!("00-{trace}-")));
    assert!(got[1].text.contains("\"n\":1.50"), "the sender's own text: {}", got[1].text);
    let event = got[2].body();
    assert_eq!((&event["type"], &event["data"]["payload"]["note"]), (&json!("comment"), &json!("ä")));
    assert_eq!(attributes(&event), ["datacontenttype", "id", "source", "specversion", "time", "type"]);

    // The other receiver got the same data in the standard form.
    let got = plain.got();
    assert_eq!(got[0].headers["content-type"], "application/json");
    assert_eq!(
        got[0].body(),
        json!({ "type": message["type"], "timestamp": message["time"], "data": message["data"] })
    );

    // What is of no intent has the server as its source.
    let path = format!("/subscriptions/{}", made["id"].as_str().unwrap());
    ada.post(&format!("{path}/ping"), json!({})).await;
    world.hooks().await;
    let ping = receiver.got().pop().unwrap().body();
    assert_eq!(
        (&ping["type"], &ping["source"]),
        (&json!("ping"), &json!("https://entente.example.com/api/v1"))
    );
    assert_eq!(ada.get(&path).await.ok()["format"], "cloudevents");
    let wrong = ada.post("/subscriptions", json!({ "webhook_url": receiver.url(), "format": "xml" })).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text);
    world.end().await;
}

#[tokio::test]
async fn a_server_without_a_public_url_has_relative_sources() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let receiver = Receiver::start().await;
    subscribe(&ada, &receiver.url(), json!({ "format": "cloudevents", "event_types": ["intent_created"] }))
        .await;
    let made = ada.post("/intents", json!({ "title": "something" })).await.ok();
    world.hooks().await;
    let event = receiver.got().remove(0).body();
    assert_eq!(event["source"], format!("/api/v1/intents/{}", made["id"].as_str().unwrap()));
    world.end().await;
}
