//! Webhook deliveries: failures are retried, permanently failing endpoints are disabled, the past can be replayed,
//! and servers share the work. `tests/crowd` shows that a hanging receiver delays no other.

use std::time::Duration;

use entente_harness::{Act, Client, Receiver, Value, World, json, send, subscribe, talk};

/// A server with a channel, a subscription to its messages and the receiver.
struct Line {
    world: World,
    ada: Client,
    channel: String,
    receiver: Receiver,
    path: String,
}

impl Line {
    async fn open() -> Self {
        let world = World::start().await;
        let ada = world.agent("agent.ada").await;
        let (_, channel) = talk(&ada, json!({})).await;
        let receiver = Receiver::start().await;
        let made = subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
        let path = format!("/subscriptions/{}", made["id"].as_str().unwrap());
        Self { world, ada, channel, receiver, path }
    }

    /// Sends a message and returns its id.
    async fn say(&self, n: u64) -> String {
        let said =
            send(&self.ada, &self.channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await;
        said["id"].as_str().unwrap().to_owned()
    }

    async fn shown(&self) -> Value {
        self.ada.get(&self.path).await.ok()
    }

    async fn log(&self, query: &str) -> Vec<Value> {
        self.ada.get(&format!("{}/deliveries{query}", self.path)).await.ok().as_array().unwrap().clone()
    }
}

fn statuses(log: &[Value]) -> Vec<&str> {
    log.iter().map(|one| one["status"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_failed_is_tried_again_by_the_schedule_under_its_id() {
    let line = Line::open().await;
    line.receiver.does([Act::Say(500, "broken")]);
    let id = line.say(1).await;
    line.world.hooks().await;
    for (attempts, seconds) in (1..).zip([5, 300, 1_800, 7_200, 18_000, 36_000, 36_000]) {
        assert_eq!(line.receiver.got().len(), attempts);
        // A fifth less than the delay is too early, a fifth more is enough.
        line.world.clock.advance(seconds * 4 / 5 - 1);
        line.world.deliver().await;
        assert_eq!(line.receiver.got().len(), attempts, "too early after attempt {attempts}");
        line.world.clock.advance(seconds * 2 / 5 + 2);
        line.world.deliver().await;
    }
    assert_eq!(line.receiver.ids(), vec![id.clone(); 8]);
    line.world.clock.advance(1_000_000);
    line.world.deliver().await;
    assert_eq!(line.receiver.got().len(), 8, "given up");
    let log = line.log("").await;
    assert_eq!((&log[0]["webhook_id"], &log[0]["status"]), (&json!(id), &json!("failed")));
    let made = log[0]["attempts"].as_array().unwrap();
    assert_eq!(made.len(), 8);
    assert!(made.iter().all(|one| one["status"] == 500 && one["response"] == "broken"));
    assert_eq!(made[0]["error"], "it answered 500");
    line.world.end().await;
}

#[tokio::test]
async fn a_failure_holds_nothing_up_and_success_forgets_it() {
    let line = Line::open().await;
    // The receiver rejects only this one delivery.
    line.receiver.does([Act::Say(422, ""), Act::Say(204, "")]);
    let (first, second, third) = (line.say(1).await, line.say(2).await, line.say(3).await);
    line.world.hooks().await;
    assert_eq!(line.receiver.ids(), [first.clone(), second, third]);
    assert_eq!(statuses(&line.log("").await), ["delivered", "delivered", "waiting"]);
    assert_eq!(line.log("?status=waiting").await.len(), 1);
    let shown = line.shown().await;
    assert_eq!((&shown["failures"], &shown["last_error"]), (&json!(0), &json!("it answered 422")));
    line.world.clock.advance(7);
    line.world.deliver().await;
    assert_eq!(line.receiver.ids()[3], first);
    let page = line.log("?limit=2").await;
    let before = page[1]["webhook_id"].as_str().unwrap();
    assert_eq!(line.log(&format!("?limit=2&before={before}")).await[0]["webhook_id"], json!(first));
    line.world.end().await;
}

#[tokio::test]
async fn a_receiver_in_trouble_is_left_alone_for_a_while() {
    let line = Line::open().await;
    let later = || Act::Header(429, "retry-after", "90".to_owned());
    for (act, pause) in [(Act::Close, 1), (Act::Say(503, ""), 1), (Act::Hang, 60), (later(), 90)] {
        line.receiver.does([act.clone(), Act::Say(200, "")]);
        line.say(1).await;
        let second = line.say(2).await;
        line.world.hooks().await;
        assert_eq!(line.receiver.take().len(), 1, "{act:?}: the second waits");
        assert!(line.shown().await["last_error"].is_string());
        line.world.clock.advance(pause - 1);
        line.world.deliver().await;
        assert_eq!(line.receiver.take().len(), 0, "{act:?}: left alone");
        line.world.clock.advance(1);
        line.world.deliver().await;
        assert_eq!(line.receiver.ids().first(), Some(&second), "{act:?}: first attempts keep their order");
        line.world.clock.advance(120);
        line.world.deliver().await;
        assert_eq!(line.receiver.take().len(), 2, "{act:?}: both arrived");
    }
    line.world.end().await;
}

#[tokio::test]
async fn what_comes_due_in_another_order_is_all_sent() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let receiver = Receiver::start().await;
    subscribe(&ada, &receiver.url(), json!({ "event_types": ["comment"] })).await;
    receiver.does([Act::Hang, Act::Say(200, "")]);
    let mut said = Vec::new();
    for n in 0..4 {
        let (intent, _) = talk(&ada, json!({})).await;
        let event = json!({ "event_type": "comment", "payload": { "n": n } });
        let event = ada.post(&format!("/intents/{intent}/events"), event).await.ok();
        said.push(event["id"].as_str().unwrap().to_owned());
        world.hooks().await;
        world.clock.advance(10);
    }
    // The first one failed and is due again after the others were queued.
    world.clock.advance(60);
    world.deliver().await;
    let ids = receiver.ids();
    said.push(said[0].clone());
    assert_eq!(ids, said);
    world.end().await;
}

#[tokio::test]
async fn who_is_gone_is_disabled_at_once_and_who_only_fails_after_five_days() {
    let line = Line::open().await;
    line.receiver.does([Act::Say(410, "")]);
    line.say(1).await;
    line.world.hooks().await;
    assert_eq!(line.shown().await["disabled_reason"], "gone");
    line.say(2).await;
    line.world.hooks().await;
    assert_eq!(line.receiver.take().len(), 1);
    line.receiver.does([Act::Say(500, "")]);
    assert_eq!(line.ada.patch(&line.path, json!({ "active": true })).await.ok()["active"], true);
    let mut hours = 0;
    while line.shown().await["active"] == true {
        line.say(3).await;
        line.world.hooks().await;
        line.world.clock.advance(3_600);
        hours += 1;
        assert!(hours < 200, "never disabled");
    }
    assert_eq!((hours, &line.shown().await["disabled_reason"]), (121, &json!("failing")));
    let admin = line.world.admin().await;
    let told = admin.get("/audit?event_type=webhook.disabled").await.ok();
    assert_eq!(told.as_array().unwrap().len(), 2);
    assert_eq!(told[0]["payload"]["disabled"], "failing");
    // After reactivation, waiting deliveries and new events are sent.
    line.receiver.does([Act::Say(200, "")]);
    line.receiver.take();
    line.ada.patch(&line.path, json!({ "active": true })).await.ok();
    let new = line.say(4).await;
    line.world.clock.advance(100_000);
    line.world.hooks().await;
    assert!(line.receiver.ids().contains(&new));
    assert_eq!(line.shown().await["failing_since"], Value::Null);
    line.world.end().await;
}

#[tokio::test]
async fn a_ping_says_whether_a_receiver_works() {
    let line = Line::open().await;
    let ping = format!("{}/ping", line.path);
    let queued = line.ada.post(&ping, json!({})).await.is(202);
    assert_eq!((&queued["event_type"], &queued["status"]), (&json!("ping"), &json!("waiting")));
    line.world.deliver().await;
    let got = line.receiver.take();
    assert_eq!(
        (got[0].id(), &got[0].body()["type"]),
        (queued["webhook_id"].as_str().unwrap(), &json!("ping"))
    );
    let waiting = tokio::spawn({
        let (ada, ping) = (line.ada.clone(), format!("{ping}?wait=20"));
        async move { ada.post(&ping, json!({})).await }
    });
    while line.log("?status=waiting").await.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    line.world.deliver().await;
    assert_eq!(waiting.await.unwrap().is(200)["attempts"][0]["status"], 200);
    line.ada.patch(&line.path, json!({ "active": false })).await.ok();
    line.ada.post(&ping, json!({})).await.refused(422, "unprocessable");
    line.world.end().await;
}

#[tokio::test]
async fn the_past_is_sent_again_from_a_time_on() {
    let line = Line::open().await;
    line.world.clock.advance(3_600);
    let begin = line.world.ctx().now();
    line.world.clock.advance(3_600);
    let mut sent = Vec::new();
    for n in 0..600 {
        sent.push(line.say(n).await);
    }
    line.world.hooks().await;
    assert_eq!(line.receiver.ids(), sent);
    line.receiver.take();
    line.world.clock.advance(3_600);
    let since = |at| json!({ "since": entente_domain::clock::rfc3339(at) });
    let replay = format!("{}/replay", line.path);
    line.ada.post(&replay, since(begin)).await.is(202);
    line.world.hooks().await;
    let mut again = line.receiver.ids();
    assert_eq!(line.receiver.take().len(), 600);
    again.sort();
    let mut expected = sent.clone();
    expected.sort();
    assert_eq!(again, expected, "each under its id");
    // From after the last event: nothing.
    line.ada.post(&replay, since(line.world.ctx().now())).await.is(202);
    line.world.hooks().await;
    assert_eq!(line.receiver.take().len(), 0);
    // A new subscription gets past events.
    let late = Receiver::start().await;
    let made = subscribe(&line.ada, &late.url(), json!({ "event_types": ["channel_message"] })).await;
    let path = format!("/subscriptions/{}/replay", made["id"].as_str().unwrap());
    line.ada.post(&path, since(begin)).await.is(202);
    line.world.hooks().await;
    assert_eq!(late.ids(), sent, "in the order of the log");
    line.world.end().await;
}

#[tokio::test]
async fn a_message_that_is_evicted_before_it_is_told_is_told_all_the_same() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({ "options": { "max_messages": 2 } })).await;
    let receiver = Receiver::start().await;
    subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    world.hand_out().await;
    let mut sent = Vec::new();
    for n in 0..10 {
        let said = send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await;
        sent.push(said["id"].as_str().unwrap().to_owned());
    }
    world.sweep().await;
    world.hand_out().await;
    world.sweep().await;
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM messages").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(left, 2, "they are gone by now");
    world.deliver().await;
    assert_eq!(receiver.ids(), sent);
    // Messages of a deleted channel are not delivered any more.
    let said = send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {} })).await;
    world.hand_out().await;
    ada.delete(&format!("/channels/{channel}")).await.ok();
    world.hooks().await;
    assert!(!receiver.ids().contains(&said["id"].as_str().unwrap().to_owned()));
    world.end().await;
}

#[tokio::test]
async fn an_answer_is_read_so_far_and_no_redirect_is_followed() {
    let line = Line::open().await;
    let elsewhere = Receiver::start().await;
    line.receiver.does([Act::Flood]);
    line.say(1).await;
    line.world.hooks().await;
    let log = line.log("").await;
    assert_eq!(
        (&log[0]["status"], log[0]["attempts"][0]["response"].as_str().unwrap().len()),
        (&json!("delivered"), 2_048)
    );
    line.receiver.does([Act::Header(302, "location", elsewhere.url())]);
    line.say(2).await;
    line.world.hooks().await;
    assert_eq!(line.log("").await[0]["attempts"][0]["status"], 302);
    assert_eq!(elsewhere.connections(), 0);
    line.ada.delete(&line.path).await.ok();
    line.world.sweep().await;
    for table in ["webhook_endpoints", "webhook_deliveries", "webhook_attempts", "webhook_shifts"] {
        let text = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let left: i64 = sqlx::query_scalar(text).fetch_one(&line.world.ctx().pool).await.unwrap();
        assert_eq!(left, 0, "{table} keeps something of what was deleted");
    }
    line.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_deliver_each_once() {
    let (one, two) = World::two().await;
    let ada = one.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let mut all = Vec::new();
    for _ in 0..10 {
        let receiver = Receiver::start().await;
        subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
        all.push(receiver);
    }
    let mut sent = Vec::new();
    let here = [one.any(), two.any()];
    for n in 0..100 {
        let said =
            send(&here[n % 2], &channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await;
        sent.push(said["id"].as_str().unwrap().to_owned());
    }
    for receiver in &all {
        receiver.until(sent.len()).await;
    }
    tokio::time::sleep(Duration::from_millis(600)).await;
    for receiver in &all {
        assert_eq!(receiver.ids(), sent, "each once, in order");
    }
    two.server.stop().await;
    one.server.stop().await;
}
