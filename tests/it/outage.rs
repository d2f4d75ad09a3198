//! Outages of PostgreSQL and restarts of servers: clear errors meanwhile, and automatic recovery afterwards.

mod engine;
mod frozen;
mod locked;
mod moving;
mod paused;
mod pooled;
mod stalled;
mod standby;
mod starting;
mod stopping;
mod translating;
mod unconfirmed;
mod upgrading;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use entente::config::Config;
use entente::startup::{Parts, Server};
use entente_store::private::Private;
use futures_util::future::join_all;
use sqlx::ConnectOptions as _;

use entente_harness::process::{KEY, Place, key_of};
use entente_harness::{Client, Cluster, Setup, Sse, Value, World, json, send_number, talk};

/// Starts an in-process server on a PostgreSQL that the test stops and starts. It is not the shared one, which
/// other tests need.
async fn on_own_postgres(place: &Place) -> (Server, Private) {
    let private = Private::start(&place.0, None, &[]).await.unwrap();
    let config = Config::read(&|name| match name {
        "ENTENTE_BIND" => Some("127.0.0.1:0".to_owned()),
        "ENTENTE_WORKERS" | "ENTENTE_PING_SECONDS" => Some("1".to_owned()),
        "ENTENTE_REFUSED_SUBSCRIBE_SECONDS" | "ENTENTE_RATE_PER_SECOND" => Some("0".to_owned()),
        _ => None,
    });
    let parts = Parts { seeded_keys: true, ..Parts::real(config.unwrap(), private.options()) };
    let server = Box::pin(Server::start(parts)).await.unwrap();
    for (kind, id) in [("service", "service.any"), ("agent", "agent.ada"), ("agent", "agent.bob")] {
        let kind = entente_domain::identity::principals::PrincipalKind::parse(kind).unwrap();
        let key = if id == "service.any" { KEY.to_owned() } else { key_of(id) };
        entente_kernel::identity::seeds::seed(&server.ctx, kind, id, &key).await.unwrap();
    }
    (server, private)
}

/// Waits until `/readyz` has this status; returns its body and the time that this took.
async fn until_ready_is(client: &Client, status: u16, within: Duration) -> (Value, Duration) {
    let began = Instant::now();
    loop {
        let ready = client.get("//readyz").await;
        if ready.status == status {
            return (ready.json(), began.elapsed());
        }
        assert!(began.elapsed() < within, "/readyz still says {}: {}", ready.status, ready.text);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends one request of every kind; all of them need the database.
async fn ask_everything(
    ada: &Client,
    intent: &str,
    channel: &str,
) -> Vec<(&'static str, Instant, u16, String)> {
    let message = json!({ "sender": "agent.ada", "payload": {} });
    let stranger = ada.with("x-api-key", "a-key-that-nobody-has-seen");
    let asks = [
        ("GET", format!("/intents/{intent}"), None),
        ("GET", "/intents".to_owned(), None),
        ("POST", "/intents".to_owned(), Some(json!({ "title": "t" }))),
        ("POST", format!("/intents/{intent}/events"), Some(json!({ "event_type": "note" }))),
        ("POST", format!("/intents/{intent}/channels"), Some(json!({ "name": "n" }))),
        ("POST", format!("/channels/{channel}/messages"), Some(message.clone())),
        ("POST", format!("/intents/{intent}/channels/talk/messages"), Some(message.clone())),
        ("GET", format!("/channels/{channel}/messages?since=cur_9&wait=5"), None),
        ("POST", format!("/channels/{channel}/ask"), Some(json!({ "to": "agent.bob" }))),
        ("PATCH", format!("/channels/{channel}"), Some(json!({ "members": [] }))),
        ("GET", format!("/subscribe/intents/{intent}"), None),
        ("GET", format!("/channels/{channel}/subscribe"), None),
        ("GET", "/subscribe".to_owned(), None),
        ("GET", "/agents".to_owned(), None),
    ];
    let began = Instant::now();
    let mut answers = join_all(asks.iter().map(async |(method, path, body)| {
        (*method, ada.send(method, path, body.as_ref().map(Value::to_string)).await)
    }))
    .await;
    answers.push(("GET", stranger.get("/intents").await));
    answers
        .into_iter()
        .map(|(method, reply)| {
            // A key that is not cached cannot be checked, so the answer is 503 and not 401.
            reply.refused(503, "unavailable");
            let after: u64 = reply.header("retry-after").parse().unwrap();
            assert!((1..=5).contains(&after));
            (method, began, reply.status, reply.asked.clone())
        })
        .collect()
}

/// Waits until the metrics contain this line: the health probe runs on its own, within its period and its timeout.
async fn until_metrics_say(client: &Client, line: &str) {
    let began = Instant::now();
    while !client.get("//metrics").await.text.contains(line) {
        assert!(began.elapsed() < Duration::from_secs(4), "the metrics do not say `{line}`");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_postgres_is_away_answers_are_clear_and_afterwards_all_is_well() {
    let place = Place::new("outage");
    let (server, private) = on_own_postgres(&place).await;
    let ada = Client::new(server.address, Some(&key_of("agent.ada")));
    let (intent, channel) = talk(&ada, json!({})).await;
    send_number(&ada, &channel, 0).await;
    let paths = [
        format!("/subscribe/intents/{intent}"),
        format!("/channels/{channel}/subscribe"),
        "/subscribe".to_owned(),
    ];
    let mut streams = join_all(paths.iter().map(|path| Sse::open(&ada, path))).await;
    send_number(&ada, &channel, 1).await;
    for stream in &mut streams {
        assert_eq!(stream.next().await.data["payload"]["n"], 1);
    }
    // Now the streams are idle: none is still about to read the database for the messages it has just sent.
    for stream in &mut streams {
        stream.idle(Duration::from_millis(1_200)).await;
    }
    let (waiting, path) = (ada.clone(), format!("/channels/{channel}/messages?since=cur_2&wait=60"));
    let waiting = tokio::spawn(async move { waiting.get(&path).await });

    private.stop().await.unwrap();
    let began = Instant::now();
    ask_everything(&ada, &intent, &channel).await;
    println!("every kind of request is answered 503 within {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(8));
    let (ready, _) = until_ready_is(&ada, 503, Duration::from_secs(4)).await;
    assert_eq!(ready["status"], "database_unreachable");
    assert_eq!(ada.get("//healthz").await.is(200)["status"], "ok");
    // Idle streams stay open.
    for stream in &mut streams {
        stream.other.clear();
        stream.idle(Duration::from_millis(1_200)).await;
        assert!(stream.other.contains(&": ping".to_owned()));
    }
    until_metrics_say(&ada, "entente_database_up 0").await;

    let private = Private::start(&place.0, None, &[]).await.unwrap();
    let (_, healed) = until_ready_is(&ada, 200, Duration::from_secs(5)).await;
    println!("ready again {healed:?} after PostgreSQL is");
    for n in 2..5 {
        send_number(&ada, &channel, n).await;
    }
    // The long poll is answered; if it had to read the database meanwhile, it gets 503.
    let answer = waiting.await.unwrap();
    match answer.status {
        200 => assert_eq!(answer.json()[0]["payload"]["n"], 2),
        _ => drop(answer.refused(503, "unavailable")),
    }
    for (path, mut stream) in paths.iter().zip(streams) {
        // A stream that had to read the database meanwhile may have broken; then the client resumes it.
        for n in 2..5 {
            let event = if let Some(event) = stream.try_next().await {
                event
            } else {
                assert!(!stream.ended_cleanly());
                stream = Sse::resume(&ada, path, stream.last_id.as_deref()).await;
                stream.next().await
            };
            assert_eq!(event.data["payload"]["n"], n, "{path}");
        }
    }
    let listed = ada.get(&format!("/channels/{channel}/messages")).await.ok();
    assert_eq!(listed.as_array().unwrap().len(), 5, "nothing was done that was answered 503");
    server.stop().await;
    private.stop().await.unwrap();
}

/// Sends messages until `over` is set and retries each until it is acknowledged. Returns the number of messages and
/// of 503 responses.
async fn talk_on(client: Client, channel: &str, who: u64, over: &AtomicBool) -> (u64, u64) {
    let (mut sent, mut refused) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        let body = json!({ "sender": "agent.ada", "payload": { "who": who, "n": sent } });
        let once = client.once(&format!("{who}-{sent}"));
        loop {
            let reply = once.post(&format!("/channels/{channel}/messages"), body.clone()).await;
            if reply.status == 201 {
                break;
            }
            reply.refused(503, "unavailable");
            refused += 1;
        }
        sent += 1;
    }
    (sent, refused)
}

/// Repeatedly terminates all connections to the database; returns how many.
async fn cut_connections(world: &World) -> i64 {
    let options = Cluster::get().options(&world.database);
    let mut cutter = options.connect().await.unwrap();
    let mut cut = 0;
    for _ in 0..25 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        cut += sqlx::query_scalar::<_, i64>(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .fetch_one(&mut cutter)
        .await
        .unwrap();
    }
    cut
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_again_and_again_lose_and_double_nothing() {
    let world = World::with(Setup::live()).await;
    let any = world.any();
    let options = json!({ "options": { "audit": true, "max_messages": 100_000 } });
    let (intent, channel) = talk(&any, options).await;
    let path = format!("/subscribe/intents/{intent}");
    let mut stream = Sse::open(&any, &path).await;
    let over = AtomicBool::new(false);
    let talkers = join_all((0..8).map(|who| talk_on(any.clone(), &channel, who, &over)));
    let cutting = async {
        let cut = cut_connections(&world).await;
        over.store(true, Ordering::Relaxed);
        cut
    };
    let (sent, cut) = tokio::join!(talkers, cutting);
    let (total, refused) = sent.iter().fold((0, 0), |(a, b), (sent, refused)| (a + sent, b + refused));
    println!("{cut} connections cut, {total} messages acknowledged, {refused} requests answered 503");
    let mut heard = [0; 8];
    while heard.iter().sum::<u64>() < total {
        let Some(event) = stream.try_next().await else {
            assert!(!stream.ended_cleanly());
            stream = Sse::resume(&any, &path, stream.last_id.as_deref()).await;
            continue;
        };
        let who = usize::try_from(event.data["payload"]["who"].as_u64().unwrap()).unwrap();
        assert_eq!(event.data["payload"]["n"], heard[who], "client {who}: lost, doubled or out of order");
        heard[who] += 1;
    }
    assert!(sent.iter().map(|(sent, _)| *sent).eq(heard));
    stream.silent(Duration::from_millis(100)).await;
    // The pool tests connections that were idle for half a second before it uses them, so no request meets a dead
    // one any more.
    tokio::time::sleep(Duration::from_millis(600)).await;
    join_all((0..20).map(async |_| any.get(&format!("/intents/{intent}")).await.ok())).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_postgres_that_turns_its_count_of_transactions_back_loses_no_frame() {
    let place = Place::new("count");
    let (server, private) = on_own_postgres(&place).await;
    let ada = Client::new(server.address, Some(&key_of("agent.ada")));
    let (_, channel) = talk(&ada, json!({})).await;
    let mut early = Sse::open(&ada, "/subscribe").await;
    send_number(&ada, &channel, 0).await;
    assert_eq!(early.next().await.data["payload"]["n"], 0);
    // Transactions that take a transaction id and write nothing: they leave no trace after a crash.
    for _ in 0..300 {
        sqlx::query("SELECT pg_current_xact_id()").execute(&server.ctx.pool).await.unwrap();
    }
    let mut late = Sse::open(&ada, "/subscribe").await;
    // Both streams have polled since, and nothing was written that would make the transaction count durable.
    tokio::time::sleep(Duration::from_millis(280)).await;
    assert!(place.kill_postgres());
    drop(private);
    let private = Private::start(&place.0, None, &[]).await.unwrap();
    until_ready_is(&ada, 200, Duration::from_secs(10)).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    for n in 1..4 {
        send_number(&ada, &channel, n).await;
    }
    for stream in [&mut early, &mut late] {
        for n in 1..4 {
            assert_eq!(stream.next().await.data["payload"]["n"], n);
        }
    }
    server.stop().await;
    private.stop().await.unwrap();
}
