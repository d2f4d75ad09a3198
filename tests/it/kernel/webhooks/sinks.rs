//! Sinks: events at a real NATS with `JetStream`, each once and in the order of its intent, whatever is killed, frozen or cut off.

mod kafka;
mod searches;

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use entente_domain::webhooks::signing::Secret;

use entente_harness::process::{Launch, Place, Process, key_of};
use entente_harness::{
    Cable, Client, Cluster, MAX_PAYLOAD, Nats, Setup, Stream, Streamed, Value, World, json, send,
    send_number, talk,
};

const URL: &str = "https://entente.example.com";

/// A topic by intent.
const TOPIC: &str = "events.{intent_id}.{type}";

/// Name of the stream.
const STREAM: &str = "ENTENTE";

/// The shortest window in which a stream recognises repetitions by their names; after it only places protect.
const WINDOW: Duration = Duration::from_millis(100);

fn window() -> Value {
    json!({ "duplicate_window": WINDOW.as_nanos() })
}

/// Writes the file of a sink `events` at this URL, and returns its path.
pub(super) fn file(place: &Place, name: &str, url: &str) -> String {
    let path = place.0.join(format!("{name}.json"));
    let sink = json!({ "name": "events", "url": url, "stream": STREAM, "prefix": "events." });
    fs::write(&path, json!({ "sinks": [sink] }).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the setup of a server with that sink.
fn setup(path: String) -> Setup {
    // As long as the process: there are few of them.
    let path: &'static str = path.leak();
    Setup { settings: vec![("ENTENTE_SINKS_FILE", path), ("ENTENTE_PUBLIC_URL", URL)], live: false }
}

/// Subscribes what agent.ada sees to the sink.
async fn publish(admin: &Client, more: Value) -> Value {
    let mut ask = json!({
        "subscriber_id": "agent.ada", "sink": "events", "topic": TOPIC, "event_types": ["channel_message"],
    });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    admin.post("/subscriptions", ask).await.is(201)
}

/// A broker, and a server that publishes to it.
struct Site {
    place: Place,
    nats: Nats,
    stream: Stream,
    world: World,
    admin: Client,
    ada: Client,
}

impl Site {
    async fn start(more: Value) -> Self {
        let (place, nats) = (Place::new("sinks"), Nats::streaming());
        let stream = nats.stream(STREAM, "events.>", more).await;
        let world = World::with(setup(file(&place, "sinks", &nats.url()))).await;
        let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
        Self { place, nats, stream, world, admin, ada }
    }
}

/// Returns the numbers of the messages that a stream has, by subject.
async fn numbers(stream: &Stream) -> BTreeMap<String, Vec<u64>> {
    let mut numbers = BTreeMap::<String, Vec<u64>>::new();
    for message in stream.messages().await {
        let n = message.body()["data"]["payload"]["n"].as_u64().unwrap();
        numbers.entry(message.subject).or_default().push(n);
    }
    numbers
}

fn path(made: &Value) -> String {
    format!("/subscriptions/{}", made["id"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_gets_cloud_events_with_their_headers_in_the_order_of_each_intent() {
    let Site { stream, world, admin, ada, nats: _nats, place: _place } = Site::start(json!({})).await;
    let (one, first) = talk(&ada, json!({})).await;
    let (other, second) = talk(&ada, json!({})).await;
    let made = publish(&admin, json!({})).await;
    assert_eq!(
        (&made["sink"], &made["topic"], &made["format"]),
        (&json!("events"), &json!(TOPIC), &json!("cloudevents"))
    );
    assert_eq!((&made["webhook_url"], &made["subscriber_id"]), (&Value::Null, &json!("agent.ada")));
    let said = send(&ada, &first, json!({ "sender": "agent.ada", "payload": { "n": 0, "a": "é" } })).await;
    for n in 1..50 {
        send_number(&ada, if n % 2 == 0 { &first } else { &second }, n).await;
    }
    world.hooks().await;
    let found = numbers(&stream).await;
    let subject = |intent: &str| format!("events.{intent}.channel_message");
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[&subject(&one)], (0..50).step_by(2).collect::<Vec<u64>>());
    assert_eq!(found[&subject(&other)], (1..50).step_by(2).collect::<Vec<u64>>());

    let message: Streamed = stream.messages().await.remove(0);
    let event = message.body();
    assert_eq!(
        (&event["specversion"], &event["id"], &event["type"]),
        (&json!("1.0"), &said["id"], &json!("channel_message"))
    );
    assert_eq!(event["data"]["payload"]["a"], "é");
    assert_eq!(message.header("content-type"), "application/cloudevents+json; charset=utf-8");
    for (header, attribute) in
        [("ce-id", "id"), ("ce-source", "source"), ("ce-type", "type"), ("ce-specversion", "specversion")]
    {
        assert_eq!(message.header(header), event[attribute].as_str().unwrap(), "{header}");
    }
    assert_eq!(event["source"], format!("{URL}/api/v1/intents/{one}"));
    // Signed as a webhook is: others may write to the stream.
    let secret = Secret::parse(made["secret"].as_str().unwrap()).unwrap();
    let (id, at) = (message.header("webhook-id"), message.header("webhook-timestamp").parse().unwrap());
    assert_eq!(message.header("webhook-signature"), secret.sign(id, at, message.text.as_bytes()));

    // A ping is of no intent, and a replay writes what it is asked for again.
    admin.post(&format!("{}/ping", path(&made)), json!({})).await;
    world.hooks().await;
    assert_eq!(stream.messages().await.pop().unwrap().subject, "events.server.ping");
    let deliveries = admin.get(&format!("{}/deliveries?status=delivered", path(&made))).await.ok();
    assert_eq!(deliveries.as_array().unwrap().len(), 51);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_operator_publishes_and_only_where_the_settings_allow_it() {
    let Site { world, admin, ada, nats: _nats, place: _place, .. } = Site::start(json!({})).await;
    let ask = |more: Value| {
        let mut ask = json!({ "subscriber_id": "agent.ada", "sink": "events", "topic": TOPIC });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    assert_eq!(ada.post("/subscriptions", ask(json!({}))).await.status, 403);
    for (wrong, member) in [
        (json!({ "sink": "other" }), "sink"),
        (json!({ "topic": "other.{type}" }), "topic"),
        (json!({ "topic": "events.>" }), "topic"),
        (json!({ "topic": "events.*" }), "topic"),
        (json!({ "topic": "events..{type}" }), "topic"),
        (json!({ "topic": "events.{secret}" }), "topic"),
        (json!({ "topic": "events.a b" }), "topic"),
        (json!({ "topic": format!("events.{}", "x".repeat(200)) }), "topic"),
        (json!({ "topic": null }), "topic"),
        (json!({ "sink": null }), "topic"),
        (json!({ "webhook_url": "https://hooks.example/" }), "sink"),
        (json!({ "format": "standard" }), "format"),
    ] {
        let refused = admin.post("/subscriptions", ask(wrong.clone())).await;
        assert_eq!(refused.status, 422, "{wrong}: {}", refused.text);
        assert!(
            refused.text.contains(&format!("`{member}`")) || refused.text.contains(&format!("\"{member}\"")),
            "{}",
            refused.text
        );
    }
    // No URL is taken for a sink.
    let disguised = json!({ "webhook_url": format!("sink://events/{TOPIC}") });
    let refused = ada.post("/subscriptions", disguised.clone()).await;
    assert!((400..500).contains(&refused.status), "{}", refused.text);
    let hook = ada.post("/subscriptions", json!({ "webhook_url": "https://hooks.example/" })).await.is(201);
    let refused = ada.patch(&path(&hook), disguised).await;
    assert!((400..500).contains(&refused.status), "{}", refused.text);

    let made = publish(&admin, json!({})).await;
    let moved = json!({ "webhook_url": "https://hooks.example/" });
    assert_eq!(admin.patch(&path(&made), moved).await.status, 422, "its topic stays");
    assert_eq!(admin.patch(&path(&made), json!({ "active": false })).await.ok()["active"], false);
    assert_eq!(ada.get(&path(&made)).await.status, 404);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_on_its_way_when_the_network_failed_is_written_once() {
    let (place, nats) = (Place::new("sinks"), Nats::streaming());
    let stream = nats.stream(STREAM, "events.>", window()).await;
    let cable = Cable::to(nats.address()).await;
    let near = World::with(setup(file(&place, "cable", &Nats::url_at(cable.address)))).await;
    let direct = World::on(setup(file(&place, "direct", &nats.url())), near.database.clone()).await;
    let (admin, ada) = (near.admin().await, near.agent("agent.ada").await);
    let (_, channel) = talk(&ada, json!({})).await;
    publish(&admin, json!({ "topic": "events.all" })).await;
    let mut sent = 0;
    for round in 0..4 {
        for _ in 0..60 {
            send_number(&ada, &channel, sent).await;
            sent += 1;
        }
        near.hand_out().await;
        let enough = sent - 60 + 10 + round;
        let unplugging = async {
            while stream.count().await < enough {}
            cable.unplug();
        };
        // One is cut off with its question or its acknowledgement in the cable, and nothing overtakes it.
        tokio::join!(near.deliver(), unplugging);
        assert!(stream.count().await < sent, "the cable was unplugged too late");
        tokio::time::sleep(WINDOW * 2).await;
        near.clock.advance(400);
        direct.clock.advance(400);
        if round % 2 == 0 {
            // Another server goes on, and the first one's question arrives after that.
            direct.deliver().await;
            assert_eq!(stream.count().await, sent);
            cable.plug_in();
            tokio::time::sleep(Duration::from_millis(300)).await;
        } else {
            cable.plug_in();
            near.deliver().await;
        }
        let expected: Vec<u64> = (0..sent).collect();
        assert_eq!(numbers(&stream).await["events.all"], expected, "round {round}");
    }
    direct.server.stop().await;
    near.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_is_waited_for_and_its_absence_is_told() {
    let Site { mut nats, stream, world, admin, ada, place: _place } = Site::start(window()).await;
    let (_, channel) = talk(&ada, json!({})).await;
    let made = publish(&admin, json!({ "topic": "events.all" })).await;
    for n in 0..3 {
        send_number(&ada, &channel, n).await;
    }
    world.hooks().await;
    nats.kill();
    for n in 3..40 {
        send_number(&ada, &channel, n).await;
    }
    // Longer than the schedule of a webhook would go on.
    for _ in 0..12 {
        world.hooks().await;
        world.clock.advance(400);
    }
    let told = admin.get(&path(&made)).await.ok();
    assert_eq!((&told["active"], &told["failures"]), (&json!(true), &json!(12)), "{told}");
    assert!(told["last_error"].as_str().unwrap().starts_with("not connected"), "{told}");
    let waiting = admin.get(&format!("{}/deliveries?status=waiting", path(&made))).await.ok();
    assert_eq!(waiting.as_array().unwrap().len(), 37);
    // A server of the release before would go on by the schedule, and drop what it has used up.
    let text = "SELECT max(attempts) FROM webhook_deliveries WHERE status = 'waiting'";
    let counted: i32 = sqlx::query_scalar(text).fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(counted, 0);
    nats.restart();
    while stream.count().await < 40 {
        world.clock.advance(400);
        world.deliver().await;
    }
    assert_eq!(numbers(&stream).await["events.all"], (0..40).collect::<Vec<u64>>());
    assert_eq!(admin.get(&path(&made)).await.ok()["failures"], 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_never_takes_fails_alone() {
    let Site { stream, world, admin, ada, nats: _nats, place: _place } =
        Site::start(json!({ "max_msg_size": 50_000 })).await;
    let (_, channel) = talk(&ada, json!({})).await;
    let made = publish(&admin, json!({ "topic": "events.all" })).await;
    // More than the stream takes, and more than NATS does.
    for (n, bytes) in [(0, 1), (1, 60_000), (2, 1), (3, 200_000), (4, 1)] {
        let payload = json!({ "n": n, "text": "x".repeat(bytes) });
        send(&ada, &channel, json!({ "sender": "agent.ada", "payload": payload })).await;
    }
    world.hooks().await;
    assert_eq!(numbers(&stream).await["events.all"], [0, 2, 4]);
    let failed = admin.get(&format!("{}/deliveries?status=failed", path(&made))).await.ok();
    let errors: Vec<&str> =
        failed.as_array().unwrap().iter().map(|one| one["attempts"][0]["error"].as_str().unwrap()).collect();
    assert_eq!(errors.len(), 2, "{failed}");
    assert!(
        errors[0].starts_with(&format!("it has more than the {MAX_PAYLOAD} bytes"))
            && errors[1].starts_with("the stream does not take it"),
        "{errors:?}"
    );
    assert_eq!(admin.get(&path(&made)).await.ok()["active"], true);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_a_missing_stream_are_told_and_lose_nothing() {
    let Site { nats, stream, world, admin, ada, place } = Site::start(json!({})).await;
    let (_, channel) = talk(&ada, json!({})).await;
    let made = publish(&admin, json!({ "topic": "events.all" })).await;
    let wrong = nats.url().replace("se%2Fcret", "wrong");
    let stranger = World::on(setup(file(&place, "wrong", &wrong)), world.database.clone()).await;
    let without = World::on(Setup::default(), world.database.clone()).await;
    stream.delete().await;
    send_number(&ada, &channel, 0).await;
    for (server, error) in [
        (&stranger, "authorization violation"),
        (&without, "has no sink `events`"),
        (&world, "stream not found"),
    ] {
        for one in [&stranger, &without, &world] {
            one.clock.advance(400);
        }
        server.hooks().await;
        let told = admin.get(&path(&made)).await.ok();
        assert!(told["last_error"].as_str().unwrap().contains(error), "{told}");
    }
    let stream = nats.stream(STREAM, "events.>", json!({})).await;
    world.clock.advance(400);
    world.hooks().await;
    assert_eq!(numbers(&stream).await["events.all"], [0]);
    stranger.server.stop().await;
    without.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_write_to_one_subject_and_each_subscription_has_its_own() {
    let Site { stream, world, admin, ada, nats: _nats, place: _place } = Site::start(window()).await;
    let (_, channel) = talk(&ada, json!({})).await;
    let made = [
        publish(&admin, json!({ "topic": "events.all" })).await,
        publish(&admin, json!({ "topic": "events.all" })).await,
    ];
    for n in 0..40 {
        send_number(&ada, &channel, n).await;
    }
    world.hand_out().await;
    let strangers = async {
        for _ in 0..100 {
            stream.write("events.all", "{}").await;
        }
    };
    tokio::join!(world.deliver(), strangers);
    while stream.count().await < 180 {
        world.clock.advance(400);
        world.deliver().await;
    }
    let messages = stream.messages().await;
    for one in &made {
        let name = format!(".{}", one["id"].as_str().unwrap());
        let own = messages.iter().filter(|message| message.header("nats-msg-id").ends_with(&name));
        let numbers: Vec<u64> =
            own.map(|message| message.body()["data"]["payload"]["n"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..40).collect::<Vec<u64>>());
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_writes_again_what_the_window_has_forgotten() {
    let Site { stream, world, admin, ada, nats: _nats, place: _place } = Site::start(window()).await;
    let (_, channel) = talk(&ada, json!({})).await;
    let made = publish(&admin, json!({ "topic": "events.all" })).await;
    let since = send_number(&ada, &channel, 0).await["created_at"].clone();
    world.hooks().await;
    tokio::time::sleep(WINDOW * 3).await;
    admin.post(&format!("{}/replay", path(&made)), json!({ "since": since })).await;
    world.hooks().await;
    assert_eq!(numbers(&stream).await["events.all"], [0, 0]);
    world.end().await;
}

/// Messages on some channels, through two servers.
struct Feed {
    clients: [Client; 2],
    channels: Vec<String>,
    /// Number of messages in each channel.
    sent: AtomicU64,
    is_paused: AtomicBool,
    /// Whether messages go through the first server.
    through_first: AtomicBool,
    is_done: AtomicBool,
}

impl Feed {
    fn new(clients: [Client; 2], channels: Vec<String>) -> Self {
        let [is_paused, through_first, is_done] = [const { AtomicBool::new(false) }; 3];
        Self { clients, channels, sent: AtomicU64::new(0), is_paused, through_first, is_done }
    }

    async fn run(&self) {
        while !self.is_done.load(Ordering::Relaxed) {
            if !self.is_paused.load(Ordering::Relaxed) {
                let client = &self.clients[usize::from(!self.through_first.load(Ordering::Relaxed))];
                let n = self.sent.load(Ordering::Relaxed);
                let all = self.channels.iter().map(|channel| send_number(client, channel, n));
                futures_util::future::join_all(all).await;
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn total(&self) -> u64 {
        self.sent.load(Ordering::Relaxed) * u64::try_from(self.channels.len()).unwrap()
    }

    /// Freezes the first server while it publishes; false if the other one does.
    async fn freeze(&self, first: &Process, count: &impl AsyncFn() -> u64) -> bool {
        // A server publishes until nothing waits; then the next to take messages does.
        self.is_paused.store(true, Ordering::Relaxed);
        until("everything arrives", async || count().await >= self.total()).await;
        self.through_first.store(true, Ordering::Relaxed);
        self.is_paused.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.through_first.store(false, Ordering::Relaxed);
        let before = self.sent.load(Ordering::Relaxed);
        // Then nobody waits for its answer.
        until("the round ends", async || self.sent.load(Ordering::Relaxed) > before).await;
        first.freeze();
        let before = count().await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        let publishes = count().await == before;
        if !publishes {
            first.thaw();
        }
        publishes
    }
}

/// Makes the key of an operator, by a server that then ends.
async fn operator(settings: String, database: String) -> String {
    let world = World::on(Setup { live: true, ..setup(settings) }, database).await;
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "service.ops", "kind": "service" })).await.is(201);
    let key = json!({ "scopes": ["admin", "intents:read", "channels:read"], "act_as": ["*"] });
    let key = admin.post("/principals/service.ops/keys", key).await.is(201);
    world.server.stop().await;
    key["key"].as_str().unwrap().to_owned()
}

/// Has two servers publish the messages of three channels, freezes and kills one of them meanwhile, and returns how many there
/// are in each once all have arrived. `settings` writes the file of the sink, `count` counts what is at the broker.
async fn broken(settings: &impl Fn(&Place) -> String, topic: &str, count: impl AsyncFn() -> u64) -> u64 {
    let database = Cluster::get().fresh_database().await;
    let (url, places) = (Cluster::get().url(&database), [Place::new("sinks"), Place::new("sinks")]);
    // The lease of a dead server ends soon.
    let launch = |place: &Place| {
        Launch::shared(place, &url)
            .with("ENTENTE_SINKS_FILE", &settings(place))
            .with("ENTENTE_WEBHOOK_TIMEOUT_SECONDS", "1")
    };
    let (mut a, _) = launch(&places[0]).start().await;
    let (b, _) = launch(&places[1]).start().await;
    let key = operator(settings(&places[0]), database).await;
    let clients = [&a, &b].map(|server| server.client(&key_of("agent.ada")));
    let mut channels = Vec::new();
    for _ in 0..3 {
        channels.push(talk(&clients[1], json!({ "options": { "max_messages": 100_000 } })).await.1);
    }
    publish(&b.client(&key), json!({ "topic": topic })).await;

    let feed = Feed::new(clients, channels);
    let grows = async || {
        let before = count().await;
        until("events flow", async || count().await > before).await;
    };
    let breaking = async {
        until("the first server is frozen while it publishes", async || feed.freeze(&a, &count).await).await;
        // The other one takes over when the lease has ended, and the first one goes on with what it had begun.
        grows().await;
        a.thaw();
        grows().await;
        a.kill();
        grows().await;
        (a, _) = launch(&places[0]).start().await;
        grows().await;
        feed.is_done.store(true, Ordering::Relaxed);
    };
    tokio::join!(feed.run(), breaking);
    until("everything arrives", async || count().await >= feed.total()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    a.terminate();
    b.terminate();
    feed.sent.into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_frozen_and_killed_lose_nothing_and_write_nothing_twice() {
    let nats = Nats::streaming();
    let stream = nats.stream(STREAM, "events.>", window()).await;
    let settings = |place: &Place| file(place, "sinks", &nats.url());
    let sent = broken(&settings, TOPIC, async || stream.count().await).await;
    let found = numbers(&stream).await;
    assert_eq!(found.len(), 3);
    for (subject, numbers) in found {
        assert_eq!(numbers, (0..sent).collect::<Vec<u64>>(), "{subject}");
    }
}

async fn until(what: &str, reached: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !reached().await {
        assert!(began.elapsed() < Duration::from_mins(1), "{what}: never");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
