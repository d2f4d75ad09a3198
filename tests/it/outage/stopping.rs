//! A server that is told to stop: streams are told to reconnect, what is in flight finishes, nobody's request fails.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::process::{KEY, Launch, Place};
use crate::harness::{Cluster, Sse, json, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_under_load_fails_no_request() {
    let url = Cluster::get().url(&Cluster::get().fresh_database().await);
    let place = Place::new("drain");
    let launch = Launch::shared(&place, &url);
    let (mut server, _) = launch.start().await;
    let any = server.client(KEY);
    let (intent, channel) = talk(&any, json!({})).await;
    let mut stream = Sse::open(&any, &format!("/subscribe/intents/{intent}")).await;
    let (over, refused, log) = (AtomicBool::new(false), AtomicU64::new(0), &place);
    let talkers = join_all((0..8).map(|who: u64| {
        let (client, channel, over, refused) = (server.client(KEY), channel.clone(), &over, &refused);
        async move {
            let mut sent = 0_u64;
            while !over.load(Ordering::Relaxed) {
                let body = json!({ "sender": "agent.ada", "payload": { "who": who, "n": sent } }).to_string();
                match client.try_to("POST", &format!("/channels/{channel}/messages"), Some(body)).await {
                    Ok(reply) => {
                        assert_eq!(reply.status, 201, "{reply:?}, and the server wrote:\n{}", log.log());
                        sent += 1;
                    }
                    // Nobody is there: that is tried again, without harm.
                    Err(e) if e.is_connect() => {
                        refused.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    Err(e) => panic!("a request failed: {e:?}, and the server wrote:\n{}", log.log()),
                }
            }
            sent
        }
    }));
    let restarting = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            let began = Instant::now();
            server.terminate();
            let status = server.ended().await;
            assert!(status.success(), "{status}:\n{}", place.log());
            slowest = slowest.max(began.elapsed());
            (server, _) = launch.start().await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        over.store(true, Ordering::Relaxed);
        slowest
    };
    let (sent, slowest) = tokio::join!(talkers, restarting);
    let total: u64 = sent.iter().sum();
    println!(
        "3 restarts, {total} sends, 0 failed, {} connects refused; stopped within {slowest:?}",
        refused.load(Ordering::Relaxed)
    );
    assert!(slowest < Duration::from_secs(5));
    stream.breaks().await;
    assert!(stream.other.iter().any(|line| line.contains("reconnect")), "{:?}", stream.other);
    let shown = any.get(&format!("/channels/{channel}")).await.ok();
    assert_eq!(shown["message_count"], total, "each send once");
}

/// Asks on a connection of its own until nobody listens; whether each request that could be sent was answered.
async fn knock(address: SocketAddr) -> std::io::Result<u64> {
    let mut answered = 0;
    loop {
        let Ok(mut stream) = TcpStream::connect(address).await else { return Ok(answered) };
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await?;
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply:?}");
        answered += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gets_in_while_the_server_stops_is_answered() {
    let url = Cluster::get().url(&Cluster::get().fresh_database().await);
    let place = Place::new("gate");
    let launch = Launch::shared(&place, &url);
    let mut answered = 0;
    for round in 0..8 {
        let (mut server, _) = launch.start().await;
        let knocking: Vec<_> = (0..16).map(|_| tokio::spawn(knock(server.address))).collect();
        tokio::time::sleep(Duration::from_millis(100 + round)).await;
        server.terminate();
        for each in join_all(knocking).await {
            answered +=
                each.unwrap().unwrap_or_else(|e| panic!("round {round}: who had got in was sent away: {e}"));
        }
        assert!(server.ended().await.success());
    }
    assert!(answered > 100, "only {answered} requests were made");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_answered_when_the_server_stops() {
    let url = Cluster::get().url(&Cluster::get().fresh_database().await);
    let place = Place::new("drain");
    let (mut server, _) = Launch::shared(&place, &url).start().await;
    let any = server.client(KEY);
    let (_, channel) = talk(&any, json!({})).await;
    let poll = format!("/channels/{channel}/messages?since=cur_5&wait=60");
    let (polled, asked) = (any.clone(), any.clone());
    let polled = tokio::spawn(async move { polled.get(&poll).await });
    let ask = format!("/channels/{channel}/ask");
    let asked =
        tokio::spawn(async move { asked.post(&ask, json!({ "to": "agent.bob", "timeout": 60 })).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    server.terminate();
    assert_eq!(polled.await.unwrap().ok(), json!([]));
    assert_eq!(asked.await.unwrap().ok()["outcome"], "interrupted", "the request still waits");
    assert!(server.ended().await.success());
    assert!(began.elapsed() < Duration::from_secs(5), "stopping took {:?}", began.elapsed());
}

/// Sends a request on a connection that stays open.
async fn ask(connection: &mut TcpStream, path: &str) {
    let request = format!("GET /api/v1{path} HTTP/1.1\r\nhost: entente\r\nx-api-key: {KEY}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
}

/// All that comes until the other end closes.
async fn rest(connection: &mut TcpStream) -> String {
    let mut text = Vec::new();
    connection.read_to_end(&mut text).await.expect("the connection is closed, not reset");
    String::from_utf8(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_got_in_is_answered_though_the_server_stops() {
    let url = Cluster::get().url(&Cluster::get().fresh_database().await);
    let place = Place::new("drain");
    let launch = Launch::shared(&place, &url);
    for round in 0..3 {
        let (mut server, _) = launch.start().await;
        server.client(KEY).get("/intents").await.ok();
        // While it does not run the system connects them; each has sent its request, and nobody has accepted it.
        server.pause(true);
        let mut waiting = Vec::new();
        for _ in 0..200 {
            let mut connection = TcpStream::connect(server.address).await.unwrap();
            ask(&mut connection, "/principals/me").await;
            waiting.push(connection);
        }
        server.terminate();
        server.pause(false);
        for (number, connection) in waiting.iter_mut().enumerate() {
            let answer = rest(connection).await;
            assert!(
                answer.starts_with("HTTP/1.1 200"),
                "{number} in round {round} got {answer:?}:\n{}",
                place.log()
            );
        }
        assert!(server.ended().await.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_took_long_is_not_taken_for_silence() {
    let url = Cluster::get().url(&Cluster::get().fresh_database().await);
    let place = Place::new("drain");
    let (mut server, _) = Launch::shared(&place, &url).start().await;
    let (_, channel) = talk(&server.client(KEY), json!({})).await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    ask(&mut connection, &format!("/channels/{channel}/messages?since=cur_5&wait=1")).await;
    let mut head = [0; 4096];
    let read = connection.read(&mut head).await.unwrap();
    assert!(head[..read].starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&head[..read]));
    // It has just been answered, and does not know that the server stops: what it asks next is answered too.
    server.terminate();
    tokio::time::sleep(Duration::from_millis(250)).await;
    ask(&mut connection, "/principals/me").await;
    let answer = rest(&mut connection).await;
    assert!(answer.contains("HTTP/1.1 200"), "{answer:?}:\n{}", place.log());
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    assert!(server.ended().await.success());
}
