//! Several servers on one PostgreSQL (`docs/adr/0002-one-order-per-intent.md`): a change on one is visible on all at
//! once, in one order. Each test runs on both buses.

mod affinity;
mod bus;
mod interest;

use std::time::{Duration, Instant};

use entente_domain::ids::MessageId;
use futures_util::future::join_all;

use entente_harness::process::{KEY, Launch, Place};
use entente_harness::{Cluster, Sse, TestBus, Value, World, json, send_number, talk};

/// Declares each of these tests once per bus.
macro_rules! on_both_buses {
    ($($name:ident),+ $(,)?) => {
        mod on_postgres {
            use entente_harness::TestBus;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name(TestBus::Postgres).await;
                }
            )+
        }
        mod on_nats {
            use entente_harness::TestBus;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name(TestBus::nats()).await;
                }
            )+
        }
    };
}

on_both_buses!(
    what_is_sent_on_one_server_is_heard_on_the_other_at_once,
    who_waits_on_one_server_is_woken_by_another,
    a_lost_wake_up_costs_a_moment_and_no_message,
    what_is_taken_away_on_one_server_is_gone_on_the_other,
    two_servers_that_write_to_one_intent_make_one_line,
    a_stream_goes_on_at_another_server,
    when_a_server_is_killed_the_other_goes_on,
);

async fn end(a: World, b: World) {
    b.server.stop().await;
    a.end().await;
}

fn number(message: &Value) -> u32 {
    message["id"].as_str().unwrap().parse::<MessageId>().unwrap().number()
}

fn quantiles(times: &mut [Duration]) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() * 3 / 4])
}

/// Upper bound for a notification to reach the other server.
const SOON: Duration = Duration::from_secs(1);

async fn what_is_sent_on_one_server_is_heard_on_the_other_at_once(bus: TestBus) {
    let (a, b) = World::two_on(&bus).await;
    let ada = a.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let bob = b.any();
    let mut of_intent = Sse::open(&bob, &format!("/subscribe/intents/{intent}")).await;
    let mut of_channel = Sse::open(&bob, &format!("/channels/{channel}/subscribe")).await;
    let mut of_all = Sse::open(&bob, "/subscribe").await;
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for n in 0..200 {
        let began = Instant::now();
        send_number(&ada, &channel, n).await;
        for stream in [&mut of_intent, &mut of_channel] {
            assert_eq!(stream.next().await.data["payload"]["n"], n);
            one.push(began.elapsed());
        }
        assert_eq!(of_all.next().await.data["payload"]["n"], n);
        many.push(began.elapsed());
        // Pauses in between, so that no other activity wakes the other server.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // An unnotified server polls every 400 ms: then a quarter of its messages would be at least 300 ms old.
    let (p50, p75) = quantiles(&mut one);
    println!("from a send on one server to a stream of another: p50 {p50:?}, p75 {p75:?}");
    assert!(p75 < Duration::from_millis(250), "p50 {p50:?}, p75 {p75:?}");
    // A stream over many intents also waits for every older transaction of the cluster, here for those of other
    // tests.
    let (p50, p75) = quantiles(&mut many);
    println!("from a send on one server to a stream of everything of another: p50 {p50:?}, p75 {p75:?}");
    assert!(p50 < Duration::from_millis(250), "p50 {p50:?}, p75 {p75:?}");
    drop((of_intent, of_channel, of_all));
    end(a, b).await;
}

async fn who_waits_on_one_server_is_woken_by_another(bus: TestBus) {
    let (a, b) = World::two_on(&bus).await;
    let ada = a.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let (client, path) = (b.any(), format!("/channels/{channel}/messages?since=cur_0&wait=30"));
            tokio::spawn(async move { client.get(&path).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let sent = send_number(&ada, &channel, 1).await;
    let began = Instant::now();
    for reply in join_all(waiting).await {
        assert_eq!(reply.unwrap().ok(), json!([sent]));
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // A question asked on one server and answered on the other.
    let (asker, path) = (b.any(), format!("/channels/{channel}/ask"));
    let asked =
        tokio::spawn(async move { asker.post(&path, json!({ "to": "agent.ada", "timeout": 30 })).await });
    let found = ada.get(&format!("/channels/{channel}/messages?since=cur_1&wait=30")).await.ok();
    let request = found[0]["id"].as_str().unwrap();
    let reply = json!({ "sender": "agent.ada", "payload": { "answer": 42 } });
    ada.post(&format!("/channels/{channel}/messages/{request}/reply"), reply).await.is(201);
    let began = Instant::now();
    assert_eq!(asked.await.unwrap().ok()["response"]["payload"]["answer"], 42);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    end(a, b).await;
}

async fn a_lost_wake_up_costs_a_moment_and_no_message(bus: TestBus) {
    // A server without background tasks sends no notifications.
    let mute = World::start().await;
    let b = World::on(bus.setup(), mute.database.clone()).await;
    let ada = mute.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut of_intent = Sse::open(&b.any(), &format!("/subscribe/intents/{intent}")).await;
    let mut of_all = Sse::open(&b.any(), "/subscribe").await;
    let (_, quiet) = talk(&ada, json!({})).await;
    let (poller, path) = (b.any(), format!("/channels/{quiet}/messages?since=cur_0&wait=30"));
    // An intent followed only by a long poll. Only a look-around answers it before its wait is over.
    let polled = tokio::spawn(async move { poller.get(&path).await });
    tokio::time::sleep(Duration::from_millis(900)).await;
    let began = Instant::now();
    send_number(&ada, &channel, 1).await;
    send_number(&ada, &quiet, 2).await;
    assert_eq!(of_intent.next().await.data["payload"]["n"], 1);
    assert_eq!(of_all.next_named("channel_message").await.data["payload"]["n"], 1);
    assert_eq!(polled.await.unwrap().ok()[0]["payload"]["n"], 2);
    // How long a look-around takes beside other tests is not the question.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    drop((of_intent, of_all));
    b.server.stop().await;
    mute.end().await;
}

async fn what_is_taken_away_on_one_server_is_gone_on_the_other(bus: TestBus) {
    let (a, b) = World::two_on(&bus).await;
    let (ada, admin) = (a.agent("agent.ada").await, a.admin().await);
    let (intent, channel) = talk(&ada, json!({})).await;
    // A key is revoked.
    admin.post("/principals", json!({ "id": "agent.bob", "kind": "agent" })).await.is(201);
    let made = admin.post("/principals/agent.bob/keys", json!({})).await.is(201);
    let bob = b.client(made["key"].as_str().unwrap());
    let mut stream = Sse::open(&bob, &format!("/subscribe/intents/{intent}")).await;
    admin.delete(&format!("/keys/{}", made["record"]["id"].as_str().unwrap())).await.ok();
    let began = Instant::now();
    while bob.get(&format!("/intents/{intent}")).await.status != 401 {
        assert!(began.elapsed() < SOON, "a revoked key opens the other server's door");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("a key revoked on one server is refused on another after {:?}", began.elapsed());
    stream.breaks().await;
    assert!(began.elapsed() < SOON, "its stream broke only after {:?}", began.elapsed());
    // Access is withdrawn.
    let cy = {
        a.agent("agent.cy").await;
        b.client("key-of-agent.cy")
    };
    let mut streams = [
        Sse::open(&cy, &format!("/subscribe/intents/{intent}")).await,
        Sse::open(&cy, &format!("/channels/{channel}/subscribe")).await,
    ];
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let began = Instant::now();
    for stream in &mut streams {
        stream.breaks().await;
    }
    println!("access revoked on one server breaks streams of another after {:?}", began.elapsed());
    assert!(began.elapsed() < SOON);
    cy.post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.cy" }))
        .await
        .refused(404, "not_found");
    // A channel is deleted.
    let (_, channel) = talk(&ada, json!({})).await;
    let mut stream = Sse::open(&cy, &format!("/channels/{channel}/subscribe")).await;
    ada.delete(&format!("/channels/{channel}")).await.ok();
    let began = Instant::now();
    stream.breaks().await;
    assert!(began.elapsed() < SOON);
    end(a, b).await;
}

async fn two_servers_that_write_to_one_intent_make_one_line(bus: TestBus) {
    let (a, b) = World::two_on(&bus).await;
    let any = a.any();
    let (intent, channel) = talk(&any, json!({ "options": { "audit": true } })).await;
    let mut streams = vec![];
    for world in [&a, &b] {
        streams.push(Sse::open(&world.any(), &format!("/subscribe/intents/{intent}")).await);
        streams.push(Sse::open(&world.any(), "/subscribe").await);
    }
    let began = Instant::now();
    let talkers = (0..16).map(async |who: u64| {
        let client = if who.is_multiple_of(2) { a.any() } else { b.any() };
        let mut sent = Vec::new();
        for n in 0..20 {
            // The same idempotency key on both servers at once, as from a client that retries elsewhere.
            let once = client.once(&format!("{}-{n}", who / 2));
            let body =
                json!({ "sender": format!("agent.{}", who / 2), "payload": { "who": who / 2, "n": n } });
            sent.push(once.post(&format!("/channels/{channel}/messages"), body).await.is(201));
        }
        sent
    });
    let sent: Vec<Vec<Value>> = join_all(talkers).await;
    println!("two servers, one intent, {} sends in {:?}", 16 * 20, began.elapsed());
    for pair in sent.chunks(2) {
        assert_eq!(pair[0], pair[1], "both servers say the same of one request");
    }
    let listed = any.get(&format!("/channels/{channel}/messages")).await.ok();
    assert_eq!(b.any().get(&format!("/channels/{channel}/messages")).await.ok(), listed);
    let listed = listed.as_array().unwrap();
    assert!(listed.iter().map(number).eq(1..=160), "lost, doubled or out of order");
    for who in 0..8 {
        let own =
            listed.iter().filter(|m| m["payload"]["who"] == who).map(|m| m["payload"]["n"].as_u64().unwrap());
        assert!(own.eq(0..20), "a client's own order");
    }
    for stream in &mut streams {
        let said = stream.next_few(160).await;
        assert!(said.iter().map(|event| &event.data["id"]).eq(listed.iter().map(|m| &m["id"])));
    }
    // Patches of the same version on both servers: one succeeds.
    let patches = (0..16).map(async |n| {
        let client = if n % 2 == 0 { a.any() } else { b.any() };
        client.seen(&json!(1)).post(&format!("/intents/{intent}/state"), json!({ "state": { "n": n } })).await
    });
    let won = join_all(patches).await.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(won, 1);
    drop(streams);
    end(a, b).await;
}

async fn a_stream_goes_on_at_another_server(bus: TestBus) {
    let (a, b) = World::two_on(&bus).await;
    let any = a.any();
    let (intent, channel) = talk(&any, json!({})).await;
    for path in [
        format!("/subscribe/intents/{intent}"),
        "/subscribe".to_owned(),
        format!("/channels/{channel}/subscribe"),
    ] {
        let mut stream = Sse::open(&any, &path).await;
        for n in 0..30 {
            send_number(&any, &channel, n).await;
            if (n + 6).is_multiple_of(10) {
                // Frames in flight when the client disconnects arrive from the next server.
                let next = if n == 14 { &a } else { &b };
                stream = Sse::resume(&next.any(), &path, stream.last_id.as_deref()).await;
            }
            if n % 3 == 2 {
                let said = stream.next_few(3).await;
                assert!(
                    said.iter().map(|event| event.data["payload"]["n"].as_u64().unwrap()).eq(n - 2..=n),
                    "{path}"
                );
            }
        }
    }
    end(a, b).await;
}

async fn when_a_server_is_killed_the_other_goes_on(bus: TestBus) {
    let database = Cluster::get().fresh_database().await;
    let url = Cluster::get().url(&database);
    let places = [Place::new("node"), Place::new("node")];
    let (mut a, _) = Launch::shared(&places[0], &url).with("ENTENTE_BUS", &bus.setting()).start().await;
    let (b, _) = Launch::shared(&places[1], &url).with("ENTENTE_BUS", &bus.setting()).start().await;
    let (intent, channel) = talk(&b.client(KEY), json!({ "options": { "max_messages": 100_000 } })).await;
    let mut stream = Sse::open(&b.client(KEY), &format!("/subscribe/intents/{intent}")).await;
    let killed = a.client(KEY);
    let busy = (0..6).map(async |who: u64| {
        let client = killed.clone();
        let mut acknowledged = Vec::new();
        for n in 0.. {
            let body = json!({ "sender": "agent.ada", "payload": { "who": who, "n": n } }).to_string();
            match client.try_send("POST", &format!("/channels/{channel}/messages"), Some(body)).await {
                Some(reply) => acknowledged.push(reply.is(201)["id"].clone()),
                None => break,
            }
        }
        acknowledged
    });
    let killing = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        a.kill();
    };
    let (acknowledged, ()) = tokio::join!(join_all(busy), killing);
    // The other server writes to the same intent at once, and its log stays one sequence.
    let began = Instant::now();
    send_number(&b.client(KEY), &channel, 1_000_000).await;
    println!("the other server sends {:?} after the kill", began.elapsed());
    assert!(began.elapsed() < SOON);
    let mut heard = Vec::new();
    loop {
        let event = stream.next().await;
        heard.push(event.data["id"].clone());
        if event.data["payload"]["n"] == 1_000_000 {
            break;
        }
    }
    let acknowledged: Vec<Value> = acknowledged.into_iter().flatten().collect();
    assert!(!acknowledged.is_empty());
    assert!(acknowledged.iter().all(|id| heard.contains(id)), "an acknowledged message is lost");
    let (mut listed, mut since) = (Vec::new(), "cur_0".to_owned());
    while listed.len() < heard.len() {
        let page = b.client(KEY).get(&format!("/channels/{channel}/messages?since={since}")).await;
        page.header("entente-next-cursor").clone_into(&mut since);
        let messages = page.ok().as_array().unwrap().clone();
        assert!(!messages.is_empty(), "the list ends at {since}");
        listed.extend(messages);
    }
    assert!(listed.iter().map(number).eq(1..=u32::try_from(heard.len()).unwrap()));
    assert_eq!(listed.iter().map(|m| &m["id"]).collect::<Vec<_>>(), heard.iter().collect::<Vec<_>>());
}
