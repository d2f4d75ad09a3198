//! `CloudEvents` instead of the body of Standard Webhooks: each kind of delivery, its signature, and its sameness over attempts.

use entente_harness::{Act, Got, Receiver, Setup, Value, World, json, send, subscribe, talk};

const URL: &str = "https://entente.example.com";

/// A trace that a message names.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn public() -> World {
    World::with(Setup { settings: vec![("ENTENTE_PUBLIC_URL", URL)], live: false }).await
}

/// The attributes of an event, without its data.
fn attributes(event: &Value) -> Vec<&str> {
    event.as_object().unwrap().keys().map(String::as_str).filter(|name| *name != "data").collect()
}

#[tokio::test]
async fn a_receiver_gets_cloud_events_signed_and_the_same_at_each_attempt() {
    let world = public().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let (receiver, plain) = (Receiver::start().await, Receiver::start().await);
    let types = json!(["channel_message", "comment"]);
    let asked = json!({ "event_types": types, "format": "cloudevents" });
    let made = subscribe(&ada, &receiver.url(), asked).await;
    let other = subscribe(&ada, &plain.url(), json!({ "event_types": types })).await;
    assert_eq!((&made["format"], &other["format"]), (&json!("cloudevents"), &json!("standard")));
    receiver.does([Act::Say(500, ""), Act::Say(204, "")]);

    let said = json!({ "sender": "agent.ada", "payload": { "a": "é" }, "metadata": { "trace_id": TRACE } });
    let said = send(&ada, &channel, said).await;
    let comment = json!({ "event_type": "comment", "payload": { "note": "ä" } });
    ada.post(&format!("/intents/{intent}/events"), comment).await.ok();
    world.hooks().await;
    world.clock.advance(3_600);
    world.hooks().await;

    let got = receiver.got();
    assert_eq!(got.len(), 3, "{got:?}");
    for one in &got {
        assert_eq!(one.headers["content-type"], "application/cloudevents+json; charset=utf-8");
        assert!(one.signed_by(made["secret"].as_str().unwrap()));
        let event = one.body();
        assert_eq!((&event["specversion"], &event["id"]), (&json!("1.0"), &json!(one.id())));
        assert_eq!(event["source"], format!("{URL}/api/v1/intents/{intent}"));
        assert_eq!(event["datacontenttype"], "application/json");
    }
    // What failed comes again after the other one.
    let after = |kind: &str| got[1..].iter().map(Got::body).find(|event| event["type"] == kind).unwrap();
    let (first, message, event) = (got[0].body(), after("channel_message"), after("comment"));
    assert_eq!(
        (&first["id"], &first["data"]),
        (&message["id"], &message["data"]),
        "the second attempt is the same"
    );
    assert_eq!((&message["type"], &message["id"]), (&json!("channel_message"), &said["id"]));
    assert!(message["traceparent"].as_str().unwrap().starts_with(&format!("00-{TRACE}-")));
    assert_eq!((&event["type"], &event["data"]["payload"]["note"]), (&json!("comment"), &json!("ä")));
    assert_eq!(attributes(&event), ["datacontenttype", "id", "source", "specversion", "time", "type"]);

    // The other receiver got the same data in the standard form.
    let standard = plain.got().remove(0);
    assert_eq!(standard.headers["content-type"], "application/json");
    let expected = json!({ "type": message["type"], "timestamp": message["time"], "data": message["data"] });
    assert_eq!(standard.body(), expected);
    world.end().await;
}

#[tokio::test]
async fn what_is_of_no_intent_has_the_server_as_its_source_and_no_other_form_exists() {
    let world = public().await;
    let ada = world.agent("agent.ada").await;
    let receiver = Receiver::start().await;
    let made = subscribe(&ada, &receiver.url(), json!({ "format": "cloudevents" })).await;
    let path = format!("/subscriptions/{}", made["id"].as_str().unwrap());
    ada.post(&format!("{path}/ping"), json!({})).await;
    world.hooks().await;
    let ping = receiver.got().pop().unwrap().body();
    assert_eq!((&ping["type"], &ping["source"]), (&json!("ping"), &json!(format!("{URL}/api/v1"))));
    assert_eq!(ada.get(&path).await.ok()["format"], "cloudevents");
    let wrong = json!({ "webhook_url": receiver.url(), "format": "xml" });
    let wrong = ada.post("/subscriptions", wrong).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text);
    world.end().await;
}

#[tokio::test]
async fn a_server_without_a_public_url_has_relative_sources() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let receiver = Receiver::start().await;
    let asked = json!({ "format": "cloudevents", "event_types": ["intent_created"] });
    subscribe(&ada, &receiver.url(), asked).await;
    let made = ada.post("/intents", json!({ "title": "something" })).await.ok();
    world.hooks().await;
    let event = receiver.got().remove(0).body();
    assert_eq!(event["source"], format!("/api/v1/intents/{}", made["id"].as_str().unwrap()));
    world.end().await;
}
