//! Mailbox webhooks (AEE §5): each envelope in a mailbox is sent unchanged and in order to those who may read it.

use entente_harness::envelopes::trap;
use entente_harness::envelopes::{mail, task_envelope, two, with};
use entente_harness::keys::key;
use entente_harness::{Act, Client, Receiver, Value, World, json, subscribe};

/// Subscribes to a mailbox.
async fn watch(client: &Client, entity: &str, receiver: &Receiver) -> Value {
    subscribe(client, &receiver.url(), json!({ "mailbox": entity })).await
}

async fn event(world: &World, client: &Client, id: &str, link: (&str, &str)) {
    let envelope = with(task_envelope(world, id, link), json!({ "type": "event" }));
    client.post("/aee/envelopes", envelope).await.is(202);
}

/// Returns the number of deliveries, in any state.
async fn queued(world: &World) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM webhook_deliveries").fetch_one(&world.ctx().pool).await.unwrap()
}

#[tokio::test]
async fn what_lies_in_a_mailbox_is_sent_signed_and_in_its_order() {
    let (world, ada, bob) = two().await;
    event(&world, &ada, "envelope-0", ("agent.ada", "agent.bob")).await;
    let receiver = Receiver::start().await;
    let made = watch(&bob, "agent.bob", &receiver).await;
    assert_eq!((made["kind"].as_str(), made["mailbox"].as_str()), (Some("mailbox"), Some("agent.bob")));
    let secret = made["secret"].as_str().unwrap();
    let batch: Vec<Value> = (1..=5)
        .map(|n| task_envelope(&world, &format!("envelope-{n}"), ("agent.ada", "agent.bob")))
        .collect();
    ada.post("/aee/envelopes/batch", json!(batch)).await.is(202);
    // Blanks and unusual member order: the webhook's body equals the envelope byte for byte.
    let text = batch[0].to_string().replace("envelope-1", "envelope-6").replace(':', " : ");
    let text = text.replace("08 : 00 : 00", "08:00:00");
    ada.send("POST", "/aee/envelopes", Some(text.clone())).await.is(202);
    event(&world, &bob, "envelope-7", ("agent.bob", "agent.ada")).await;
    world.hooks().await;
    let got = receiver.got();
    let seqs: Vec<i64> = got.iter().map(|one| one.body()["data"]["seq"].as_i64().unwrap()).collect();
    assert_eq!(seqs, [2, 3, 4, 5, 6, 7], "from the subscription on, and nobody else's");
    let mut page = bob.get("/aee/mailboxes/agent.bob?after=1").await.ok();
    for (one, item) in got.iter().zip(page["items"].as_array_mut().unwrap()) {
        assert!(one.signed_by(secret) && one.id().starts_with("item_"), "{one:?}");
        let body = one.body();
        assert_eq!((&body["type"], &body["timestamp"]), (&json!("aee.envelope"), &item["received_at"]));
        item.as_object_mut().unwrap().insert("entity".to_owned(), json!("agent.bob"));
        assert_eq!(&body["data"], &*item);
    }
    assert!(got[5].text.contains(&text), "not to the byte: {}", got[5].text);
    world.hooks().await;
    assert_eq!(receiver.count(), 6, "nothing comes twice");
    world.end().await;
}

#[tokio::test]
async fn what_failed_comes_again_under_its_id() {
    let (world, ada, bob) = two().await;
    let receiver = Receiver::start().await;
    watch(&bob, "agent.bob", &receiver).await;
    receiver.does([Act::Say(500, "broken"), Act::Say(200, "")]);
    event(&world, &ada, "envelope-1", ("agent.ada", "agent.bob")).await;
    world.hooks().await;
    event(&world, &ada, "envelope-2", ("agent.ada", "agent.bob")).await;
    world.hooks().await;
    world.clock.advance(60);
    world.hooks().await;
    let got = receiver.ids();
    assert_eq!(got.len(), 3);
    assert_eq!(got.iter().filter(|id| **id == got[0]).count(), 2, "{got:?}");
    world.end().await;
}

#[tokio::test]
async fn what_goes_to_a_channel_is_sent_to_each_who_listens() {
    let (world, ada, bob) = two().await;
    let eve = world.agent("agent.eve").await;
    let receivers = [Receiver::start().await, Receiver::start().await, Receiver::start().await];
    let all = [(&ada, "agent.ada"), (&bob, "agent.bob"), (&eve, "agent.eve")];
    for ((client, who), receiver) in all.into_iter().zip(&receivers) {
        client.put(&format!("/aee/buses/bus.ops/subscriptions/{who}"), json!({})).await.ok();
        watch(client, who, receiver).await;
    }
    event(&world, &ada, "envelope-1", ("agent.ada", "bus.ops")).await;
    event(&world, &ada, "envelope-2", ("agent.ada", "bus.ops")).await;
    world.hooks().await;
    let counts: Vec<usize> = receivers.iter().map(Receiver::count).collect();
    assert_eq!(counts, [0, 2, 2], "not to who sent it");
    assert_eq!(receivers[1].got()[0].body()["data"]["entity"], "agent.bob");
    assert_ne!(receivers[1].ids()[0], receivers[2].ids()[0]);
    world.end().await;
}

#[tokio::test]
async fn what_was_rolled_back_is_not_sent() {
    let (world, ada, bob) = two().await;
    let receiver = Receiver::start().await;
    watch(&bob, "agent.bob", &receiver).await;
    trap(&world).await;
    let sent = |id: &str| task_envelope(&world, id, ("agent.ada", "agent.bob"));
    let poison = ada.post("/aee/envelopes", sent("envelope-poison")).await;
    assert!(poison.status >= 500, "{poison:?}");
    assert_eq!(queued(&world).await, 0);
    let batch = json!([sent("envelope-1"), sent("envelope-poison"), sent("envelope-2")]);
    let reply = ada.post("/aee/envelopes/batch", batch).await.is(207);
    assert_eq!(reply["accepted"], 2);
    world.hooks().await;
    let ids: Vec<Value> =
        receiver.got().iter().map(|one| one.body()["data"]["envelope"]["id"].clone()).collect();
    assert_eq!(ids, ["envelope-1", "envelope-2"]);
    assert_eq!(mail(&bob, "agent.bob").await.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_subscription_to_a_mailbox_is_its_owners() {
    let (world, ada, bob) = two().await;
    let receiver = Receiver::start().await;
    let ask = |more: Value| with(json!({ "webhook_url": receiver.url(), "mailbox": "agent.bob" }), more);
    ada.post("/subscriptions", ask(json!({}))).await.refused(404, "not_found");
    bob.post("/subscriptions", ask(json!({ "mailbox": "bus.ops" }))).await.refused(404, "not_found");
    let narrowed = ask(json!({ "event_types": ["aee.*"] }));
    bob.post("/subscriptions", narrowed).await.refused(422, "unprocessable");
    let path = |made: &Value| format!("/subscriptions/{}", made["id"].as_str().unwrap());
    let made = watch(&bob, "agent.bob", &receiver).await;
    ada.get(&path(&made)).await.refused(404, "not_found");
    let listed = bob.get("/subscriptions?kind=mailbox").await.ok();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &made["id"]));
    assert_eq!(bob.get("/subscriptions").await.ok(), listed);
    bob.post(&format!("{}/replay", path(&made)), json!({ "since": "2026-11-21T00:00:00Z" }))
        .await
        .refused(422, "unprocessable");
    // While it is disabled nothing is queued for it, and nothing is sent after its deletion.
    bob.patch(&path(&made), json!({ "active": false })).await.ok();
    event(&world, &ada, "envelope-1", ("agent.ada", "agent.bob")).await;
    bob.patch(&path(&made), json!({ "active": true })).await.ok();
    event(&world, &ada, "envelope-2", ("agent.ada", "agent.bob")).await;
    world.hooks().await;
    assert_eq!(receiver.take().iter().map(|one| one.body()["data"]["seq"].clone()).collect::<Vec<_>>(), [2]);
    bob.delete(&path(&made)).await.is(204);
    event(&world, &ada, "envelope-3", ("agent.ada", "agent.bob")).await;
    world.hooks().await;
    assert_eq!(receiver.count(), 0);
    world.end().await;
}

#[tokio::test]
async fn nothing_is_sent_by_the_powers_of_a_key_that_ended() {
    let (world, ada, bob) = two().await;
    let receiver = Receiver::start().await;
    let admin = world.admin().await;
    let weak = key(&world, &admin, "agent.bob", json!({ "scopes": ["mail:read"] })).await;
    // Read access to mailboxes is enough; other events need other scopes.
    let made = watch(&weak.client, "agent.bob", &receiver).await;
    weak.client
        .post("/subscriptions", json!({ "webhook_url": receiver.url() }))
        .await
        .refused(403, "scope_missing");
    assert_eq!(weak.client.get("/subscriptions").await.ok().as_array().unwrap().len(), 1);
    event(&world, &ada, "envelope-1", ("agent.ada", "agent.bob")).await;
    world.hooks().await;
    assert_eq!(receiver.count(), 1);
    // Deliveries queued before the key ended are not sent afterwards.
    event(&world, &ada, "envelope-2", ("agent.ada", "agent.bob")).await;
    admin.delete(&format!("/keys/{}", weak.record["id"].as_str().unwrap())).await.ok();
    event(&world, &ada, "envelope-3", ("agent.ada", "agent.bob")).await;
    world.hooks().await;
    assert_eq!(receiver.count(), 1);
    let log = bob.get(&format!("/subscriptions/{}/deliveries", made["id"].as_str().unwrap())).await.ok();
    let statuses: Vec<&str> =
        log.as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["dropped", "dropped", "delivered"]);
    world.end().await;
}
