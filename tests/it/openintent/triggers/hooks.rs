//! Incoming webhooks: authentication, the resulting intents, and that a delivery counts once.

use entente_domain::clock::Clock as _;
use entente_domain::webhooks::signing::Secret;

use super::{did, intents, now, path, trigger};
use entente_harness::{Client, Reply, Value, World, json};

/// Returns a client that signs as webhook senders do.
fn signed(world: &World, made: &Value, id: &str, body: &str) -> Client {
    let secret = Secret::parse(made["secret"].as_str().unwrap()).unwrap();
    let at = world.clock.now().timestamp();
    let anon = world.anon().with("webhook-id", id).with("webhook-timestamp", &at.to_string());
    anon.with("webhook-signature", &secret.sign(id, at, body.as_bytes()))
}

fn hook(made: &Value) -> String {
    made["webhook_url"].as_str().unwrap().strip_prefix("/api/v1").unwrap().to_owned()
}

async fn deliver(world: &World, made: &Value, id: &str, body: &str) -> Reply {
    signed(world, made, id, body).send("POST", &hook(made), Some(body.to_owned())).await
}

fn paying() -> Value {
    json!({
        "condition": { "path": "/hooks/pay", "transform": { "amount": "{{ body.data.amount }}", "from": "{{ headers.webhook-id }}" } },
        "intent_template": { "type": "billing", "title": "Pay {{ body.data.who }}" },
    })
}

#[tokio::test]
async fn what_is_signed_makes_an_intent_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let made = trigger(&ada, "webhook", paying()).await;
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    assert!(now(&ada, &made).await.get("secret").is_none(), "it is shown once");
    let body = r#"{"data":{"amount":5000,"who":"Ada"}}"#;
    let taken = deliver(&world, &made, "d1", body).await.is(202);
    assert_eq!((&taken["trigger_id"], &taken["status"]), (&made["trigger_id"], &json!("fired")));
    let again = deliver(&world, &made, "d1", body).await.is(202);
    assert_eq!(again, taken, "the same delivery has the same answer");
    let found = intents(&ada).await;
    assert_eq!((found.len(), &found[0]["title"]), (1, &json!("Pay Ada")));
    assert_eq!((&found[0]["id"], &found[0]["created_by"]), (&taken["intent_id"], &json!("agent.ada")));
    assert_eq!((&found[0]["state"]["amount"], &found[0]["state"]["from"]), (&json!(5000), &json!("d1")));
    // An unusable payload is in the history, and its sender gets no details.
    let refused = deliver(&world, &made, "d2", r#"{"data":{}}"#).await.refused(422, "unprocessable");
    assert!(!refused["message"].as_str().unwrap().contains("who"));
    let last = did(&ada, &made).await.pop().unwrap();
    assert_eq!((last.1.as_str(), &last.2), ("failed", &json!("template")));
    deliver(&world, &made, "d2", r#"{"data":{}}"#).await.refused(422, "unprocessable");
    assert_eq!(did(&ada, &made).await.len(), 2);
    deliver(&world, &made, "d3", "{").await.refused(400, "invalid_json");
    let large = format!("\"{}\"", "x".repeat(300_000));
    deliver(&world, &made, "d4", &large).await.refused(413, "too_large");
    world.end().await;
}

#[tokio::test]
async fn nobody_else_gets_in() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let made = trigger(&ada, "webhook", paying()).await;
    let other = trigger(&ada, "webhook", json!({})).await;
    let schedule = trigger(&ada, "schedule", json!({})).await;
    let body = r#"{"data":{"amount":1,"who":"Eve"}}"#;
    let post = async |client: &Client, path: &str, body: &str| {
        client.send("POST", path, Some(body.to_owned())).await.refused(401, "unauthenticated")
    };
    let good = || signed(&world, &made, "d1", body);
    let said = post(&world.anon(), &hook(&made), body).await;
    // All of these get the same response.
    let of_schedule = format!("/hooks/{}", schedule["trigger_id"].as_str().unwrap());
    for (client, path, body) in [
        (ada.clone(), hook(&made), body),
        (good(), hook(&made), r#"{"data":{"amount":9,"who":"Eve"}}"#),
        (good(), hook(&other), body),
        (good(), of_schedule, body),
        (good(), "/hooks/trg_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".to_owned(), body),
        (good(), "/hooks/nothing".to_owned(), body),
        (world.anon(), format!("{}/{}", hook(&made), "0".repeat(64)), body),
        (good().with("webhook-id", "d2"), hook(&made), body),
        (good().with("webhook-signature", "v1,"), hook(&made), body),
    ] {
        assert_eq!(post(&client, &path, body).await["message"], said["message"], "{path}");
    }
    // A recorded request is useless six minutes later.
    let late = signed(&world, &made, "d7", body);
    world.clock.advance(301);
    post(&late, &hook(&made), body).await;
    world.end().await;
}

#[tokio::test]
async fn another_secret_shuts_the_old_one_out() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mut ask = paying();
    ask["condition"]["secret"] = json!("a secret that somebody chose");
    let made = trigger(&ada, "webhook", ask).await;
    let body = r#"{"data":{"amount":1,"who":"Ada"}}"#;
    deliver(&world, &made, "d1", body).await.is(202);
    let rotated = ada.send("POST", &format!("{}/secret", path(&made)), None).await.ok();
    assert_ne!(rotated["secret"], made["secret"]);
    assert_eq!(rotated["version"], 2);
    deliver(&world, &made, "d2", body).await.refused(401, "unauthenticated");
    deliver(&world, &rotated, "d2", body).await.is(202);
    // A change of other members keeps the secret; another way of verification has another one.
    let same = json!({ "condition": { "path": "/other" }, "intent_template": null });
    let same = ada.seen(&json!(2)).patch(&path(&made), same).await.ok();
    assert!(same.get("secret").is_none());
    deliver(&world, &rotated, "d3", body).await.is(202);
    let token = json!({ "condition": { "verify": "token" } });
    let token = ada.seen(&json!(3)).patch(&path(&made), token).await.ok();
    assert!(token.get("secret").is_none(), "it stands in the URL");
    deliver(&world, &rotated, "d4", body).await.refused(401, "unauthenticated");
    world.anon().send("POST", &hook(&token), Some("{}".to_owned())).await.is(202);
    // Without an id each request is a delivery of its own; with one it counts once.
    let once = world.anon().with("webhook-id", "t1");
    let first = once.send("POST", &hook(&token), Some("{}".to_owned())).await.is(202);
    assert_eq!(once.send("POST", &hook(&token), Some("{}".to_owned())).await.is(202), first);
    world.anon().send("POST", &hook(&token), None).await.is(202);
    assert_eq!(now(&ada, &made).await["fire_count"], 6);
    ada.send("POST", &format!("{}/secret", path(&trigger(&ada, "event", json!({})).await)), None)
        .await
        .refused(422, "unprocessable");
    for secret in ["short", "whsec_AAAA"] {
        let ask = json!({ "name": "n", "type": "webhook", "condition": { "secret": secret } });
        let refused = ada.post("/triggers", ask).await;
        refused.refused(422, "invalid_request");
        assert!(!refused.text.contains(secret));
    }
    world.end().await;
}

#[tokio::test]
async fn its_sender_is_told_what_the_rfc_says() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mut ask = paying();
    ask["deduplication"] = json!("skip");
    let made = trigger(&ada, "webhook", ask).await;
    let body = r#"{"data":{"amount":1,"who":"Ada"}}"#;
    deliver(&world, &made, "d1", body).await.is(202);
    let second = deliver(&world, &made, "d2", body).await.is(200);
    assert_eq!((&second["deduplicated"], &second["intent_id"]), (&json!(true), &Value::Null));
    ada.seen(&json!(1)).patch(&path(&made), json!({ "enabled": false })).await.ok();
    deliver(&world, &made, "d3", body).await.refused(409, "invalid_transition");
    // An accepted delivery gets its stored response.
    deliver(&world, &made, "d1", body).await.is(202);
    world.end().await;
}

#[tokio::test]
async fn a_flood_is_held_off() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let made = trigger(&ada, "webhook", json!({})).await;
    for n in 0..60 {
        deliver(&world, &made, &format!("d{n}"), "{}").await.is(202);
    }
    let refused = deliver(&world, &made, "d60", "{}").await;
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), "60");
    deliver(&world, &made, "d1", "{}").await.is(202);
    world.clock.advance(61);
    deliver(&world, &made, "d60", "{}").await.is(202);
    world.end().await;
}
