//! Webhook receivers (RFC-0006, RFC-0016, RFC-0021 §2.4.3): subscriptions, event selection and visibility, secrets.

pub(crate) mod deliveries;
pub(crate) mod formats;
pub(crate) mod pushes;
pub(crate) mod replays;
pub(crate) mod shifts;
pub(crate) mod sinks;

use entente_domain::clock::{Clock as _, plus_seconds, rfc3339};
use entente_domain::ids::EndpointId;

use entente_harness::{Got, Receiver, Value, World, ids, json, send, subscribe, talk};

fn types(got: &[Got]) -> Vec<String> {
    let types = got.iter().map(|one| one.body()["type"].as_str().unwrap().to_owned());
    // As on its stream, an agent also gets the events of its own webhooks.
    types.filter(|kind| !kind.starts_with("webhook.")).collect()
}

fn note(n: u64) -> Value {
    json!({ "sender": "agent.ada", "payload": { "n": n } })
}

#[tokio::test]
async fn what_happens_is_delivered_signed_and_in_order() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    let made = subscribe(&ada, &receiver.url(), json!({ "intent_id": intent })).await;
    let secret = made["secret"].as_str().unwrap();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let traced = ada.with("traceparent", &format!("00-{trace}-b7ad6b7169203331-01"));
    let event = json!({ "event_type": "comment", "payload": { "note": "hello" } });
    let event = traced.post(&format!("/intents/{intent}/events"), event).await.ok();
    let message = send(&ada, &channel, note(1)).await;
    let bob = world.agent("agent.bob").await;
    let read = json!({ "status": "read" });
    bob.patch(&format!("/channels/{channel}/messages/{}", message["id"].as_str().unwrap()), read).await.ok();
    world.hooks().await;
    let got = receiver.got();
    assert_eq!(types(&got), ["comment", "channel_message", "message_read"]);
    for one in &got {
        assert!(one.signed_by(secret), "{one:?}");
        assert_eq!(one.headers["content-type"], "application/json");
        assert_eq!(one.headers["webhook-timestamp"], world.clock.now().timestamp().to_string());
        assert_eq!(one.path, "/hook");
        assert!(!one.id().contains('.'));
    }
    assert_eq!((got[0].id(), got[1].id()), (event["id"].as_str().unwrap(), message["id"].as_str().unwrap()));
    assert!(got[2].id().starts_with("rcpt_"));
    assert!(got[0].headers["traceparent"].starts_with(&format!("00-{trace}-")));
    assert_eq!(got[0].body()["data"]["payload"]["note"], "hello");
    assert_eq!(got[0].body()["timestamp"], event["created_at"]);
    let data = got[1].body()["data"].clone();
    assert_eq!((&data["channel_name"], &data["intent_id"]), (&json!("talk"), &json!(intent)));
    for (member, value) in message.as_object().unwrap() {
        // It was read since.
        if member != "status" && member != "read_at" {
            assert_eq!(&data[member], value, "{member}");
        }
    }
    // Nothing is delivered twice.
    world.hooks().await;
    assert_eq!(receiver.got().len(), 3);
    world.end().await;
}

#[tokio::test]
async fn a_subscription_hears_what_it_asked_for_from_its_beginning_on() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let (other, elsewhere) = talk(&ada, json!({})).await;
    send(&ada, &channel, note(0)).await;
    let places = [
        json!({ "intent_id": intent }),
        json!({ "channel_id": channel }),
        json!({}),
        json!({ "event_types": ["channel.*"] }),
        json!({ "intent_id": other, "event_types": ["state_patched"] }),
    ];
    let mut receivers = Vec::new();
    for more in places {
        let receiver = Receiver::start().await;
        subscribe(&ada, &receiver.url(), more).await;
        receivers.push(receiver);
    }
    let event = json!({ "event_type": "comment", "payload": {} });
    ada.post(&format!("/intents/{intent}/events"), event.clone()).await.ok();
    send(&ada, &channel, note(1)).await;
    ada.post(&format!("/intents/{other}/events"), event).await.ok();
    send(&ada, &elsewhere, note(2)).await;
    world.hooks().await;
    let heard: Vec<Vec<String>> = receivers.iter().map(|receiver| types(&receiver.got())).collect();
    let (comment, message) = ("comment", "channel_message");
    assert_eq!(heard[0], [comment, message]);
    assert_eq!(heard[1], [message]);
    assert_eq!(heard[2], [comment, message, comment, message]);
    assert_eq!(heard[3], [message, message]);
    assert_eq!(heard[4], [] as [&str; 0]);
    world.end().await;
}

#[tokio::test]
async fn a_subscription_is_shown_listed_changed_and_deleted() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    let end = rfc3339(plus_seconds(world.clock.now(), 3_600));
    let more = json!({ "intent_id": intent, "event_types": ["comment"], "expires_at": end });
    let made = subscribe(&ada, &receiver.url(), more).await;
    let id = made["id"].as_str().unwrap().to_owned();
    assert!(id.parse::<EndpointId>().is_ok());
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    let expected = [
        ("kind", json!("subscription")),
        ("subscriber_id", json!("agent.ada")),
        ("intent_id", json!(intent)),
        ("event_types", json!(["comment"])),
        ("webhook_url", json!(receiver.url())),
        ("active", json!(true)),
        ("signature", json!("v1")),
        ("expires_at", json!(end)),
        ("expiresAt", json!(end)),
        ("createdAt", made["created_at"].clone()),
        ("portfolio_id", Value::Null),
    ];
    for (member, value) in expected {
        assert_eq!(made[member], value, "{member}");
    }
    let path = format!("/subscriptions/{id}");
    let mut shown = made.clone();
    shown.as_object_mut().unwrap().remove("secret");
    assert_eq!(ada.get(&path).await.ok(), shown, "without the secret");
    assert_eq!(ada.get("/subscriptions").await.ok(), json!([shown]));
    assert_eq!(ada.get(&format!("/subscriptions?intent_id={intent}")).await.ok(), json!([shown]));
    assert_eq!(ada.get("/subscriptions?portfolio_id=p").await.ok(), json!([]));
    let changed = ada.patch(&path, json!({ "event_types": [] })).await.ok();
    assert_eq!(changed["event_types"], json!([]));
    send(&ada, &channel, note(1)).await;
    world.hooks().await;
    assert_eq!(types(&receiver.take()), ["channel_message"]);
    assert_eq!(ada.patch(&path, json!({ "active": false })).await.ok()["disabled_reason"], "asked");
    send(&ada, &channel, note(2)).await;
    world.hooks().await;
    assert_eq!(ada.patch(&path, json!({ "active": true })).await.ok()["active"], true);
    send(&ada, &channel, note(3)).await;
    world.hooks().await;
    let got = receiver.take();
    assert_eq!(got.len(), 1, "what happens while it is off is not queued");
    assert_eq!(got[0].body()["data"]["payload"]["n"], 3);
    world.clock.advance(3_600);
    send(&ada, &channel, note(4)).await;
    world.hooks().await;
    assert_eq!(ada.get(&path).await.ok()["active"], false, "ended the instant it is due");
    assert_eq!(receiver.take().len(), 0);
    let brief = rfc3339(plus_seconds(world.clock.now(), 60));
    let brief = subscribe(&ada, &receiver.url(), json!({ "expires_at": brief })).await;
    let brief = format!("/subscriptions/{}", brief["id"].as_str().unwrap());
    world.pass(60).await;
    assert_eq!(ada.get(&brief).await.ok()["active"], false, "its owner still finds it");
    assert_eq!(ada.delete(&path).await.status, 204);
    ada.get(&path).await.refused(404, "not_found");
    ada.delete(&path).await.refused(404, "not_found");
    world.pass(7 * 24 * 3_600 + 1).await;
    ada.get(&brief).await.refused(404, "not_found");
    assert_eq!(ada.get("/subscriptions").await.ok(), json!([]));
    world.end().await;
}

#[tokio::test]
async fn bad_subscriptions_are_refused_and_leave_nothing() {
    let world = World::with(entente_harness::Setup {
        settings: vec![("ENTENTE_WEBHOOKS_PER_PRINCIPAL", "2")],
        ..Default::default()
    })
    .await;
    let ada = world.agent("agent.ada").await;
    let with = |member: &str, value: Value| json!({ "webhook_url": "https://hooks.example/", member: value });
    for bad in [
        json!({ "webhook_url": "http://10.0.0.1/" }),
        json!({ "webhook_url": "http://169.254.169.254/latest/meta-data" }),
        json!({ "webhook_url": "http://[::1]:9000/" }),
        json!({ "webhook_url": "ftp://hooks.example/" }),
        json!({ "webhook_url": "https://me@hooks.example/" }),
        with("event_types", json!(["a\nb"])),
        with("signature", json!("v2")),
        with("secret", json!("hunter2")),
    ] {
        ada.post("/subscriptions", bad).await.refused(422, "invalid_request");
    }
    ada.post("/subscriptions", with("expires_at", json!("2020-01-01T00:00:00Z")))
        .await
        .refused(422, "already_expired");
    ada.post("/subscriptions", with("portfolio_id", json!("p"))).await.refused(404, "not_found");
    ada.post("/subscriptions", with("intent_id", json!("intent_x"))).await.refused(404, "not_found");
    ada.post("/subscriptions", with("subscriber_id", json!("agent.bob")))
        .await
        .refused(403, "may_not_act_as");
    let bob = world.agent("agent.bob").await;
    let closed = json!({ "default_policy": "closed", "entries": [] });
    let (intent, channel) =
        talk(&bob, json!({ "member_policy": "explicit", "members": ["agent.bob"] })).await;
    ada.post("/subscriptions", with("channel_id", json!(channel))).await.refused(403, "not_a_member");
    bob.put(&format!("/intents/{intent}/acl"), closed).await.ok();
    ada.post("/subscriptions", with("intent_id", json!(intent))).await.refused(403, "access_closed");
    assert_eq!(ada.get("/subscriptions").await.ok(), json!([]));
    // Without a URL nothing is sent; the SDK creates such subscriptions.
    let mute = ada.post("/subscriptions", json!({})).await.is(201);
    assert_eq!((&mute["webhook_url"], &mute["active"]), (&Value::Null, &json!(true)));
    ada.once("k").post("/subscriptions", with("event_types", json!([]))).await.is(201);
    let again = ada.once("k").post("/subscriptions", with("event_types", json!([]))).await.is(201);
    assert_eq!(again.get("secret"), None, "a secret is shown once");
    ada.post("/subscriptions", json!({})).await.refused(422, "unprocessable");
    assert_eq!(ada.get("/subscriptions").await.ok().as_array().unwrap().len(), 2);
    world.end().await;
}

#[tokio::test]
async fn nobody_is_told_what_its_owner_may_not_see() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let everything = Receiver::start().await;
    let narrow = Receiver::start().await;
    subscribe(&bob, &everything.url(), json!({})).await;
    subscribe(&bob, &narrow.url(), json!({ "intent_id": intent })).await;
    let to = |agent: &str| json!({ "sender": "agent.ada", "to": agent, "payload": {} });
    let mine = send(&ada, &channel, to("agent.bob")).await;
    send(&ada, &channel, to("agent.cleo")).await;
    let members =
        json!({ "name": "private", "member_policy": "explicit", "members": ["agent.ada", "agent.cleo"] });
    let private = ada.post(&format!("/intents/{intent}/channels"), members).await.is(201);
    send(&ada, private["id"].as_str().unwrap(), to("*")).await;
    world.hooks().await;
    for receiver in [&everything, &narrow] {
        let got = receiver.take();
        assert_eq!(types(&got), ["channel_message", "channel.created"]);
        let told: Vec<&str> = got.iter().map(Got::id).filter(|id| id.starts_with("msg_")).collect();
        assert_eq!(told, [mine["id"].as_str().unwrap()]);
    }
    // Queued while he had access, and not sent after he lost it.
    send(&ada, &channel, note(1)).await;
    world.hand_out().await;
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed", "entries": [] }))
        .await
        .ok();
    send(&ada, &channel, note(2)).await;
    world.hooks().await;
    assert_eq!((everything.take().len(), narrow.take().len()), (0, 0));
    // After a new grant he gets the events from then on.
    let entry = json!({ "principal_id": "agent.bob", "permission": "read" });
    ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok();
    let after = send(&ada, &channel, note(3)).await;
    world.hooks().await;
    for receiver in [&everything, &narrow] {
        assert!(receiver.ids().contains(&after["id"].as_str().unwrap().to_owned()));
    }
    world.end().await;
}

#[tokio::test]
async fn a_revoked_key_takes_its_subscriptions_along_and_a_rotated_one_keeps_them() {
    let world = World::start().await;
    let admin = world.admin().await;
    let receiver = Receiver::start().await;
    admin.post("/principals", json!({ "id": "agent.ada", "kind": "agent" })).await.is(201);
    let made = admin.post("/principals/agent.ada/keys", json!({})).await.is(201);
    let ada = world.client(made["key"].as_str().unwrap());
    let (_, channel) = talk(&ada, json!({})).await;
    subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    let path = format!("/keys/{}/rotate", made["record"]["id"].as_str().unwrap());
    let rotated = admin.post(&path, json!({ "overlap_seconds": 0 })).await.ok();
    let ada = world.client(rotated["key"].as_str().unwrap());
    send(&ada, &channel, note(1)).await;
    world.hooks().await;
    assert_eq!(receiver.take().len(), 1, "the new key has the old one's subscriptions");
    send(&ada, &channel, note(2)).await;
    world.hand_out().await;
    admin.delete(&format!("/keys/{}", rotated["record"]["id"].as_str().unwrap())).await.ok();
    let any = world.any();
    send(&any, &channel, note(3)).await;
    world.hooks().await;
    assert_eq!(receiver.take().len(), 0, "queued or not, a revoked key is sent nothing");
    world.end().await;
}

#[tokio::test]
async fn a_secret_is_replaced_without_a_gap() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    let own = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let made = subscribe(&ada, &receiver.url(), json!({ "secret": own })).await;
    assert_eq!(made["secret"], own);
    let path = format!("/subscriptions/{}", made["id"].as_str().unwrap());
    let rotated = ada.post(&format!("{path}/rotate"), json!({ "overlap_seconds": 60 })).await.ok();
    let new = rotated["secret"].as_str().unwrap();
    assert_ne!(new, own);
    send(&ada, &channel, note(1)).await;
    world.hooks().await;
    let got = receiver.take().pop().unwrap();
    assert!(got.signed_by(new) && got.signed_by(own));
    world.clock.advance(60);
    send(&ada, &channel, note(2)).await;
    world.hooks().await;
    let got = receiver.take().pop().unwrap();
    assert!(got.signed_by(new) && !got.signed_by(own));
    // A key pair: the receiver gets only the public half.
    let pair = subscribe(&ada, &receiver.url(), json!({ "signature": "v1a" })).await;
    assert_eq!(pair.get("secret"), None);
    assert!(pair["public_key"].as_str().unwrap().starts_with("whpk_"));
    send(&ada, &channel, note(3)).await;
    world.hooks().await;
    let got = receiver.take();
    assert!(got.iter().any(|one| one.headers["webhook-signature"].starts_with("v1a,")));
    let secrets: Vec<String> = sqlx::query_scalar("SELECT secret FROM webhook_endpoints")
        .fetch_all(&world.ctx().pool)
        .await
        .unwrap();
    let logged: String = sqlx::query_scalar("SELECT string_agg(payload, ' ') FROM events")
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    assert!(secrets.iter().all(|secret| !logged.contains(secret.as_str())), "a secret is in the log");
    world.end().await;
}

#[tokio::test]
async fn an_agents_endpoint_gets_what_concerns_the_agent() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    let register = |endpoint: Value| json!({ "agent_id": "agent.bob", "endpoint": endpoint });
    bob.post("/agents/register", register(json!("mcp://bob"))).await.ok();
    bob.get("/agents/agent.bob/endpoint").await.refused(404, "not_found");
    bob.post("/agents/register", register(json!(receiver.url()))).await.ok();
    let endpoint = bob.get("/agents/agent.bob/endpoint").await.ok();
    assert_eq!((&endpoint["kind"], &endpoint["webhook_url"]), (&json!("agent"), &json!(receiver.url())));
    ada.get("/agents/agent.bob/endpoint").await.refused(403, "may_not_act_as");
    assert_eq!(bob.get("/subscriptions").await.ok(), json!([]));
    assert_eq!(ids(&bob.get("/subscriptions?kind=agent").await.ok()), [endpoint["id"].as_str().unwrap()]);
    let to = |agent: &str| json!({ "sender": "agent.ada", "to": agent, "payload": {} });
    let sent = send(&ada, &channel, to("agent.bob")).await;
    send(&ada, &channel, to("agent.cleo")).await;
    ada.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": "agent.bob" })).await.ok();
    ada.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": "agent.cleo" })).await.ok();
    world.hooks().await;
    let got = receiver.take();
    let told = got.iter().filter(|one| one.body()["type"] == "channel_message").collect::<Vec<_>>();
    assert_eq!((told.len(), told[0].id()), (1, sent["id"].as_str().unwrap()));
    assert_eq!(types(&got).iter().filter(|kind| *kind == "agent_assigned").count(), 1);
    assert!(got.iter().all(|one| one.signed_by(endpoint["secret"].as_str().unwrap())));
    // Registering again keeps the secret and moves the endpoint.
    let moved = Receiver::start().await;
    bob.post("/agents/register", register(json!(moved.url()))).await.ok();
    let after = bob.get("/agents/agent.bob/endpoint").await.ok();
    assert_eq!((&after["id"], &after["secret"]), (&endpoint["id"], &endpoint["secret"]));
    let other = json!({ "webhook_url": "https://other.example/" });
    let path = format!("/subscriptions/{}", after["id"].as_str().unwrap());
    bob.patch(&path, other).await.refused(422, "unprocessable");
    send(&ada, &channel, to("agent.bob")).await;
    world.hooks().await;
    let heard = moved.take();
    assert!(types(&heard).contains(&"channel_message".to_owned()) && receiver.take().is_empty());
    // An agent that has left gets nothing more.
    bob.delete("/agents/agent.bob").await.ok();
    bob.get("/agents/agent.bob/endpoint").await.refused(404, "not_found");
    send(&ada, &channel, to("agent.bob")).await;
    world.hooks().await;
    assert_eq!(moved.take().len(), 0);
    world.end().await;
}

#[tokio::test]
async fn the_next_run_of_a_development_server_goes_on_with_the_subscriptions_of_the_last() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let last = world.operator().await;
    let (_, channel) = talk(&last, json!({})).await;
    subscribe(&last, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    // Each run creates a new key and revokes the previous one.
    let next = world.operator().await;
    entente_kernel::identity::keys::refresh(world.ctx()).await.unwrap();
    last.get("/principals/me").await.refused(401, "unauthenticated");
    let said = json!({ "sender": "service.dev", "payload": { "n": 1 } });
    next.post(&format!("/channels/{channel}/messages"), said).await.is(201);
    world.hooks().await;
    assert_eq!(receiver.take().len(), 1);
    world.end().await;
}
