//! Rings of inboxes as webhooks: signed, once each under an id that stays, not in quiet hours, and only for whoever may read the
//! inbox.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{follow, open, seen, to_bob};
use entente_harness::keys::key;
use entente_harness::process::{Launch, Place, key_of};
use entente_harness::{Act, Client, Cluster, Got, Receiver, Value, World, json, send, subscribe, talk};

async fn pair(world: &World) -> (Client, Client, String) {
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
    (ada, bob, channel)
}

/// Subscribes to the rings of the client's own inbox.
async fn watch(client: &Client, receiver: &Receiver) -> Value {
    subscribe(client, &receiver.url(), json!({ "event_types": ["inbox.ring"] })).await
}

/// Returns the place and the number of the ring of each request.
fn heard(got: &[Got]) -> Vec<(i64, i64)> {
    let number = |value: &Value| value.as_i64().unwrap();
    got.iter()
        .map(Got::body)
        .map(|body| (number(&body["data"]["place"]), number(&body["data"]["rings"])))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_wakes_rings_a_webhook_until_it_is_seen() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    open(&bob, "agent.bob", json!({ "rearm_seconds": 60 })).await;
    send(&ada, &channel, to_bob("request", 1)).await;
    follow(&world).await;
    let receiver = Receiver::start().await;
    let made = watch(&bob, &receiver).await;
    // It begins with what comes after it; a lower level rings nothing.
    send(&ada, &channel, to_bob("notify", 2)).await;
    let sent = send(&ada, &channel, to_bob("request", 3)).await;
    follow(&world).await;
    world.hooks().await;
    let got = receiver.take();
    assert_eq!(heard(&got), [(3, 0)]);
    assert!(got[0].signed_by(made["secret"].as_str().unwrap()) && got[0].id().starts_with("ring_"));
    let body = got[0].body();
    assert_eq!(
        (&body["type"], &body["data"]),
        (
            &json!("inbox.ring"),
            &json!({ "agent_id": "agent.bob", "place": 3, "kind": "message", "what": "request", "rings": 0,
                     "at": sent["created_at"] })
        ),
        "nothing of what it is about"
    );
    world.pass(60).await;
    world.hooks().await;
    let mut again = heard(&receiver.take());
    again.sort_unstable();
    assert_eq!(again, [(1, 1), (3, 1)]);
    // Whoever has seen one hears it no more, not even one that is on its way.
    receiver.does([Act::Say(500, "broken"), Act::Say(200, "")]);
    world.pass(60).await;
    world.hooks().await;
    assert!(receiver.count() >= 1);
    receiver.take();
    seen(&bob, "agent.bob", "default", &json!(3)).await;
    world.pass(600).await;
    world.hooks().await;
    assert_eq!(heard(&receiver.got()), []);
    // Nobody was told by the logs, and nothing waits.
    let log = bob.get(&format!("/subscriptions/{}/deliveries", made["id"].as_str().unwrap())).await.ok();
    assert!(
        log.as_array()
            .unwrap()
            .iter()
            .all(|one| one["event_type"] == "inbox.ring" && one["status"] != "waiting"),
        "{log}"
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_that_failed_comes_again_under_its_id() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    open(&bob, "agent.bob", json!({})).await;
    let receiver = Receiver::start().await;
    watch(&bob, &receiver).await;
    receiver.does([Act::Say(500, "broken"), Act::Say(200, "")]);
    send(&ada, &channel, to_bob("request", 1)).await;
    follow(&world).await;
    world.hooks().await;
    world.clock.advance(30);
    world.hooks().await;
    let ids = receiver.ids();
    assert!(ids.len() == 2 && ids[0] == ids[1], "{ids:?}");
    // An inbox that is opened again has other rings at the same places.
    bob.delete("/agents/agent.bob/inbox").await.is(204);
    world.clock.advance(1);
    open(&bob, "agent.bob", json!({})).await;
    send(&ada, &channel, to_bob("request", 2)).await;
    follow(&world).await;
    world.hooks().await;
    let ids = receiver.ids();
    assert!(ids.len() == 3 && ids[2] != ids[0], "{ids:?}");
    assert_eq!(heard(&receiver.got()), [(1, 0), (1, 0), (1, 0)]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_hours_are_quiet_for_webhooks_too() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    let eve = world.agent("agent.eve").await;
    // The clock stands at 08:00 UTC, which is 09:00 in Berlin.
    let hours =
        json!({ "from": "08:30", "to": "09:10", "time_zone": "Europe/Berlin", "except": ["agent.eve"] });
    open(&bob, "agent.bob", json!({ "quiet_hours": hours })).await;
    let receiver = Receiver::start().await;
    watch(&bob, &receiver).await;
    send(&ada, &channel, to_bob("request", 1)).await;
    let through =
        json!({ "sender": "agent.eve", "to": "agent.bob", "message_type": "request", "payload": {} });
    send(&eve, &channel, through).await;
    follow(&world).await;
    world.hooks().await;
    assert_eq!(heard(&receiver.take()), [(2, 0)], "only what breaks through");
    world.pass(599).await;
    world.hooks().await;
    assert!(heard(&receiver.take()).iter().all(|(place, _)| *place == 2));
    world.pass(1).await;
    world.hooks().await;
    assert_eq!(heard(&receiver.take()).iter().filter(|(place, _)| *place == 1).count(), 1, "at their end");
    // A ring that is late does not ring in quiet hours that began meanwhile; it rings at their end.
    seen(&bob, "agent.bob", "default", &json!(2)).await;
    receiver.does([Act::Say(500, "broken"), Act::Say(200, "")]);
    send(&ada, &channel, to_bob("request", 3)).await;
    follow(&world).await;
    world.hooks().await;
    assert_eq!(heard(&receiver.take()), [(3, 0)]);
    let soon = json!({ "from": "09:10", "to": "09:40", "time_zone": "Europe/Berlin" });
    open(&bob, "agent.bob", json!({ "quiet_hours": soon })).await;
    world.clock.advance(60);
    world.hooks().await;
    assert_eq!(heard(&receiver.take()), []);
    world.pass(1_740).await;
    world.hooks().await;
    assert!(heard(&receiver.take()).iter().any(|(place, _)| *place == 3));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_read_the_inbox_hears_it_ring() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    let (intent, _) = talk(&bob, json!({})).await;
    open(&bob, "agent.bob", json!({})).await;
    let receiver = Receiver::start().await;
    let ask = |more: Value| {
        let mut ask =
            json!({ "webhook_url": receiver.url(), "event_types": ["inbox.ring", "channel_message"] });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    // Neither another agent, nor a key without the scope, nor the rings of one intent, nor a forbidden address.
    ada.post("/subscriptions", ask(json!({ "subscriber_id": "agent.bob" })))
        .await
        .refused(403, "may_not_act_as");
    bob.post("/subscriptions", ask(json!({ "intent_id": intent }))).await.refused(422, "unprocessable");
    bob.post("/subscriptions", ask(json!({ "mailbox": "agent.bob" }))).await.refused(422, "unprocessable");
    let away = ask(json!({ "webhook_url": "http://10.0.0.1/hook" }));
    assert_eq!(bob.post("/subscriptions", away).await.status, 422);
    let admin = world.admin().await;
    let scopes = json!({ "scopes": ["intents:read", "channels:read"] });
    let weak = key(&world, &admin, "agent.bob", scopes).await.client;
    weak.post("/subscriptions", ask(json!({}))).await.refused(403, "scope_missing");
    // No more by a change than by a new one.
    let all = subscribe(&weak, &receiver.url(), json!({})).await;
    let path = format!("/subscriptions/{}", all["id"].as_str().unwrap());
    let rings = json!({ "event_types": ["inbox.ring"] });
    weak.send("PATCH", &path, Some(rings.to_string())).await.refused(403, "scope_missing");
    let narrow = subscribe(&bob, &receiver.url(), json!({ "intent_id": intent })).await;
    let narrow = format!("/subscriptions/{}", narrow["id"].as_str().unwrap());
    bob.send("PATCH", &narrow, Some(rings.to_string())).await.refused(422, "unprocessable");
    // All types are all types of records; and an event that somebody posts is no ring.
    let watched = Receiver::start().await;
    let made = watch(&bob, &watched).await;
    let forged = json!({ "event_type": "inbox.ring", "payload": { "place": 1 } });
    ada.post(&format!("/intents/{intent}/events"), forged).await;
    send(&ada, &channel, to_bob("request", 1)).await;
    follow(&world).await;
    world.hooks().await;
    assert!(receiver.got().iter().all(|one| !one.id().starts_with("ring_")), "{:?}", receiver.got());
    assert_eq!(heard(&watched.take()), [(1, 0)]);
    // A subscription by change, and by a key that is gone.
    bob.send("PATCH", &path, Some(rings.to_string())).await.ok();
    send(&ada, &channel, to_bob("request", 2)).await;
    follow(&world).await;
    world.hooks().await;
    assert_eq!(receiver.got().iter().filter(|one| one.id().starts_with("ring_")).count(), 1);
    assert_eq!(heard(&watched.take()), [(2, 0)]);
    bob.delete(&format!("/subscriptions/{}", made["id"].as_str().unwrap())).await;
    send(&ada, &channel, to_bob("request", 3)).await;
    follow(&world).await;
    world.hooks().await;
    assert_eq!(watched.count(), 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_ring_arrives_whichever_server_is_killed() {
    let database = Cluster::get().fresh_database().await;
    let url = Cluster::get().url(&database);
    let places = [Place::new("rings"), Place::new("rings")];
    let launches = places
        .each_ref()
        .map(|place| Launch::shared(place, &url).with("ENTENTE_WEBHOOK_TIMEOUT_SECONDS", "1"));
    let (mut a, _) = launches[0].start().await;
    let (b, _) = launches[1].start().await;
    let (ada, bob) = (b.client(&key_of("agent.ada")), b.client(&key_of("agent.bob")));
    let options = json!({ "members": ["agent.bob"], "options": { "max_messages": 100_000 } });
    let (_, channel) = talk(&ada, options).await;
    open(&bob, "agent.bob", json!({ "rearm_seconds": 86_400 })).await;
    let receiver = Receiver::start().await;
    watch(&bob, &receiver).await;
    let mut sent = 0;
    for _ in 0..3 {
        let sending = async {
            for _ in 0..30 {
                sent += 1;
                send(&ada, &channel, to_bob("request", sent)).await;
            }
        };
        let killing = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            a.kill();
        };
        tokio::join!(sending, killing);
        (a, _) = launches[0].start().await;
    }
    let began = std::time::Instant::now();
    let mut ids: BTreeMap<i64, String> = BTreeMap::new();
    while ids.len() < usize::try_from(sent).unwrap() {
        assert!(began.elapsed() < Duration::from_mins(3), "{} of {sent} rings arrived", ids.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
        let got = receiver.got();
        for (one, (place, rings)) in got.iter().zip(heard(&got)) {
            assert_eq!(rings, 0);
            let id = ids.entry(place).or_insert_with(|| one.id().to_owned());
            assert_eq!(id, one.id(), "the id of a ring stays");
        }
    }
    assert!(ids.keys().copied().eq(1..=i64::try_from(sent).unwrap()));
    let distinct: std::collections::BTreeSet<&String> = ids.values().collect();
    assert_eq!(distinct.len(), ids.len());
    println!("{} requests for {sent} rings", receiver.count());
    a.terminate();
    b.terminate();
}
