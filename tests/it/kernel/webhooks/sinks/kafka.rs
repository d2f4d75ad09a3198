//! Sinks: events at a broker that speaks Kafka's protocol, each once and in the order of its intent.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use entente_domain::webhooks::signing::Secret;

use super::{URL, broken, path, setup};
use entente_harness::process::Place;
use entente_harness::{Client, KafkaBroker, Recorded, World, json, send, send_number, talk};

const TOPIC: &str = "events.all";

/// Number of its partitions.
const PARTITIONS: i32 = 3;

fn file(place: &Place, name: &str, url: &str) -> String {
    let path = place.0.join(format!("{name}.json"));
    let sink = json!({ "name": "events", "url": url, "prefix": "events" });
    fs::write(&path, json!({ "sinks": [sink] }).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A broker, and a server that publishes to it.
struct Site {
    _place: Place,
    broker: KafkaBroker,
    world: World,
    admin: Client,
    ada: Client,
}

impl Site {
    async fn start() -> Self {
        let (place, broker) = (Place::new("sinks"), KafkaBroker::start());
        broker.topic(TOPIC, PARTITIONS).await;
        let world = World::with(setup(file(&place, "sinks", &broker.url()))).await;
        let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
        Self { _place: place, broker, world, admin, ada }
    }
}

fn number(record: &Recorded) -> u64 {
    record.body()["data"]["payload"]["n"].as_u64().unwrap()
}

/// Returns the numbers of the messages at a broker, by intent; those of one are in one partition.
async fn numbers(broker: &KafkaBroker) -> BTreeMap<String, Vec<u64>> {
    let (mut numbers, mut partitions) = (BTreeMap::<String, Vec<u64>>::new(), BTreeMap::new());
    for record in broker.records(TOPIC, PARTITIONS).await {
        assert_eq!(*partitions.entry(record.key.clone()).or_insert(record.partition), record.partition);
        numbers.entry(record.key.clone()).or_default().push(number(&record));
    }
    numbers
}

async fn count(broker: &KafkaBroker) -> u64 {
    broker.count(TOPIC, PARTITIONS).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_gets_cloud_events_with_the_intent_as_their_key() {
    let Site { broker, world, admin, ada, _place } = Site::start().await;
    let (one, first) = talk(&ada, json!({})).await;
    let (other, second) = talk(&ada, json!({})).await;
    let refused = json!({ "subscriber_id": "agent.ada", "sink": "events", "topic": "events.{intent_id}" });
    let refused = admin.post("/subscriptions", refused).await;
    assert!(refused.status == 422 && refused.text.contains("too many"), "{}", refused.text);
    let made = super::publish(&admin, json!({ "topic": TOPIC })).await;
    let said = send(&ada, &first, json!({ "sender": "agent.ada", "payload": { "n": 0, "a": "é" } })).await;
    for n in 1..80 {
        send_number(&ada, if n % 2 == 0 { &first } else { &second }, n).await;
    }
    world.hooks().await;
    let found = numbers(&broker).await;
    assert_eq!(found.len(), 2, "{found:?}: {}", admin.get(&path(&made)).await.text);
    assert_eq!(found[&one], (0..80).step_by(2).collect::<Vec<u64>>());
    assert_eq!(found[&other], (1..80).step_by(2).collect::<Vec<u64>>());

    let records = broker.records(TOPIC, PARTITIONS).await;
    let record = records.iter().find(|record| number(record) == 0).unwrap();
    let event = record.body();
    assert_eq!(
        (&event["specversion"], &event["id"], &event["type"]),
        (&json!("1.0"), &said["id"], &json!("channel_message"))
    );
    assert_eq!(event["data"]["payload"]["a"], "é");
    assert_eq!(event["source"], format!("{URL}/api/v1/intents/{one}"));
    assert_eq!(record.header("content-type"), "application/cloudevents+json; charset=utf-8");
    for attribute in ["id", "source", "type", "specversion"] {
        assert_eq!(record.header(&format!("ce_{attribute}")), event[attribute].as_str().unwrap());
    }
    let secret = Secret::parse(made["secret"].as_str().unwrap()).unwrap();
    let (id, at) = (record.header("webhook-id"), record.header("webhook-timestamp").parse().unwrap());
    assert_eq!(record.header("webhook-signature"), secret.sign(id, at, record.text.as_bytes()));

    // A replay writes what it is asked for again.
    let since = said["created_at"].clone();
    admin.post(&format!("{}/replay", path(&made)), json!({ "since": since })).await;
    world.hooks().await;
    let mut twice: Vec<u64> = numbers(&broker).await.into_values().flatten().collect();
    twice.sort_unstable();
    assert_eq!(twice, (0..160).map(|n| n / 2).collect::<Vec<u64>>());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_clients_invent_share_a_topic() {
    let Site { broker, world, admin, ada, _place } = Site::start().await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let (said, posted) = ("events.channel_message", "events.posted");
    for topic in [said, posted] {
        broker.topic(topic, PARTITIONS).await;
    }
    let wanted = json!({ "topic": "events.{type}", "event_types": ["channel_message", "deploy.*"] });
    super::publish(&admin, wanted).await;
    for kind in ["deploy.done", "deploy.channel_message", "deploy......"] {
        ada.post(&format!("/intents/{intent}/events"), json!({ "event_type": kind })).await.ok();
    }
    send_number(&ada, &channel, 0).await;
    world.hooks().await;
    assert_eq!((broker.count(said, PARTITIONS).await, broker.count(posted, PARTITIONS).await), (1, 3));
    let long = json!({
        "subscriber_id": "agent.ada", "sink": "events", "topic": format!("events.{}", "{type}".repeat(20)),
    });
    assert!(admin.post("/subscriptions", long).await.is(422).to_string().contains("249"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_subscriptions_write_to_one_topic_and_each_has_its_own() {
    let Site { broker, world, admin, ada, _place } = Site::start().await;
    let (_, channel) = talk(&ada, json!({})).await;
    for _ in 0..2 {
        super::publish(&admin, json!({ "topic": TOPIC })).await;
    }
    for n in 0..70 {
        send_number(&ada, &channel, n).await;
    }
    world.hooks().await;
    let found: Vec<Vec<u64>> = numbers(&broker).await.into_values().collect();
    assert_eq!(found.len(), 1);
    let mut both = found[0].clone();
    both.sort_unstable();
    assert_eq!(both, (0..140).map(|n| n / 2).collect::<Vec<u64>>());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_arrived_is_not_written_again() {
    let Site { broker, world, admin, ada, _place } = Site::start().await;
    let (_, channel) = talk(&ada, json!({})).await;
    super::publish(&admin, json!({ "topic": TOPIC })).await;
    let mut sent = 0;
    for forgotten in ["nothing", "the number", "the place"] {
        for _ in 0..20 {
            send_number(&ada, &channel, sent).await;
            sent += 1;
        }
        world.hooks().await;
        // As after a crash between the publication and its commit: the last ones, and more than a leader remembers.
        let undo = match forgotten {
            "nothing" => {
                "UPDATE webhook_deliveries SET status = 'waiting', finished_at = NULL WHERE id > (SELECT max(id) - 12 FROM webhook_deliveries)"
            }
            "the number" => {
                "UPDATE webhook_deliveries SET status = 'waiting', finished_at = NULL, producer_id = NULL WHERE id > (SELECT max(id) - 12 FROM webhook_deliveries)"
            }
            _ => {
                "UPDATE webhook_deliveries SET status = 'waiting', finished_at = NULL, position = 0 WHERE id > (SELECT max(id) - 12 FROM webhook_deliveries)"
            }
        };
        sqlx::query(undo).execute(&world.ctx().pool).await.unwrap();
        for _ in 0..2 {
            send_number(&ada, &channel, sent).await;
            sent += 1;
        }
        world.clock.advance(400);
        world.hooks().await;
        let found: Vec<Vec<u64>> = numbers(&broker).await.into_values().collect();
        assert_eq!(found, [(0..sent).collect::<Vec<u64>>()], "{forgotten}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_the_broker_refuses_becomes_another_one() {
    let Site { broker, world, admin, ada, _place } = Site::start().await;
    let (_, channel) = talk(&ada, json!({})).await;
    let made = super::publish(&admin, json!({ "topic": TOPIC })).await;
    for n in 0..10 {
        send_number(&ada, &channel, n).await;
    }
    world.hooks().await;
    for n in 10..60 {
        send_number(&ada, &channel, n).await;
    }
    world.hand_out().await;
    // As if the ones between had been given up: the broker waits for their numbers.
    let gap = "UPDATE webhook_deliveries d SET position = 0, producer_id = k.producer_id, producer_sequence = k.producer_sequence + 7
               FROM (SELECT max(producer_id) AS producer_id, max(producer_sequence) AS producer_sequence FROM webhook_deliveries) k
               WHERE d.id IN (SELECT id FROM webhook_deliveries WHERE status = 'waiting' ORDER BY id LIMIT 5)";
    sqlx::query(gap).execute(&world.ctx().pool).await.unwrap();
    world.hooks().await;
    let found: Vec<Vec<u64>> = numbers(&broker).await.into_values().collect();
    assert_eq!(found, [(0..60).collect::<Vec<u64>>()]);
    assert_eq!(admin.get(&path(&made)).await.ok()["failures"], 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_is_waited_for_and_its_absence_is_told() {
    let Site { mut broker, world, admin, ada, _place } = Site::start().await;
    let (_, channel) = talk(&ada, json!({})).await;
    let made = super::publish(&admin, json!({ "topic": TOPIC })).await;
    send_number(&ada, &channel, 0).await;
    world.hooks().await;
    // The broker writes what it acknowledged within a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    broker.kill();
    for n in 1..40 {
        send_number(&ada, &channel, n).await;
    }
    for _ in 0..12 {
        world.hooks().await;
        world.clock.advance(400);
    }
    let told = admin.get(&path(&made)).await.ok();
    assert_eq!((&told["active"], &told["failures"]), (&json!(true), &json!(12)), "{told}");
    assert!(told["last_error"].as_str().unwrap().contains("refused"), "{told}");
    broker.restart();
    for _ in 0..20 {
        world.clock.advance(400);
        world.hooks().await;
    }
    let found: Vec<Vec<u64>> = numbers(&broker).await.into_values().collect();
    assert_eq!(found, [(0..40).collect::<Vec<u64>>()]);
    assert_eq!(admin.get(&path(&made)).await.ok()["failures"], 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_frozen_and_killed_lose_nothing_and_write_nothing_twice() {
    let broker = KafkaBroker::start();
    broker.topic(TOPIC, PARTITIONS).await;
    let settings = |place: &Place| file(place, "sinks", &broker.url());
    let sent = broken(&settings, TOPIC, async || count(&broker).await).await;
    let found = numbers(&broker).await;
    assert_eq!(found.len(), 3);
    for (intent, numbers) in found {
        assert_eq!(numbers, (0..sent).collect::<Vec<u64>>(), "{intent}");
    }
}
