//! Graceful shutdown: streams are told to reconnect, requests in flight finish, and no request fails.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use entente_harness::process::{KEY, Launch, Place};
use entente_harness::{Cluster, Sse, json, talk};

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
                    // Connection refused: the client retries without harm.
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

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_answered_when_the_server_stops() {
    let url = Cluster::get().url(&Cluster::get().fresh_database().await);
    let place = Place::new("drain");
    // Fewer connections to the database than requests on each thread.
    let launch =
        Launch::shared(&place, &url).with("ENTENTE_WORKERS", "2").with("ENTENTE_DATABASE_CONNECTIONS", "5");
    let (mut server, _) = launch.start().await;
    let any = server.client(KEY);
    let (_, channel) = talk(&any, json!({})).await;
    let poll = format!("/channels/{channel}/messages?since=cur_5&wait=60");
    let polls = (0..32).map(|_| {
        let (any, poll) = (any.clone(), poll.clone());
        tokio::spawn(async move { any.get(&poll).await })
    });
    let polls: Vec<_> = polls.collect();
    let (ask, asker) = (format!("/channels/{channel}/ask"), any.clone());
    let asked =
        tokio::spawn(async move { asker.post(&ask, json!({ "to": "agent.bob", "timeout": 60 })).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    server.terminate();
    for polled in join_all(polls).await {
        let polled = polled.unwrap();
        assert_eq!(polled.status, 200, "{polled:?}, and the server wrote:\n{}", place.log());
        assert_eq!(polled.ok(), json!([]));
    }
    assert_eq!(asked.await.unwrap().ok()["outcome"], "interrupted", "the request still waits");
    assert!(server.ended().await.success());
    assert!(began.elapsed() < Duration::from_secs(5), "stopping took {:?}", began.elapsed());
}

/// Sends a request on a keep-alive connection.
async fn ask(connection: &mut TcpStream, path: &str) {
    let request = format!("GET /api/v1{path} HTTP/1.1\r\nhost: entente\r\nx-api-key: {KEY}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
}

/// Reads until the peer closes the connection.
async fn rest(connection: &mut TcpStream) -> String {
    let mut text = Vec::new();
    connection.read_to_end(&mut text).await.expect("the connection is closed, not reset");
    String::from_utf8(text).unwrap()
}

/// Sends requests at once, each on a connection of its own, so that all threads of the server use connections to the database.
async fn burst(address: SocketAddr, path: &str) {
    let asks = (0..16).map(|_| async {
        let mut connection = TcpStream::connect(address).await.unwrap();
        ask(&mut connection, path).await;
        assert!(connection.read(&mut [0; 4096]).await.unwrap() > 0);
    });
    join_all(asks).await;
}

/// The threads of the HTTP server share the connections to the database, and each belongs to the thread that opened it.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_without_requests_ends_no_request_of_another() {
    let url = Cluster::get().url(&Cluster::get().fresh_database().await);
    let place = Place::new("drain");
    let (mut server, _) = Launch::shared(&place, &url).with("ENTENTE_WORKERS", "2").start().await;
    let (_, channel) = talk(&server.client(KEY), json!({})).await;
    let list = format!("/channels/{channel}/messages");
    burst(server.address, &list).await;
    // Two threads take connections in turn, so these requests are all on the same one.
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let others = TcpStream::connect(server.address).await.unwrap();
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        ask(&mut connection, &format!("{list}?since=cur_5&wait=60")).await;
        waiting.push(connection);
        drop(others);
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    burst(server.address, &list).await;
    let mut lock = PgConnection::connect(&url).await.unwrap();
    lock.execute("BEGIN; LOCK TABLE channels IN ACCESS EXCLUSIVE MODE").await.unwrap();
    // These have a connection of either thread already; those that wait take theirs after the server is told to stop.
    for _ in 0..3 {
        let others = TcpStream::connect(server.address).await.unwrap();
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        ask(&mut connection, &list).await;
        waiting.push(connection);
        drop(others);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    server.terminate();
    tokio::time::sleep(Duration::from_millis(700)).await;
    lock.execute("COMMIT").await.unwrap();
    for mut connection in waiting {
        let answer = rest(&mut connection).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}, and the server wrote:\n{}", place.log());
    }
    assert!(server.ended().await.success());
    assert!(began.elapsed() < Duration::from_secs(5), "stopping took {:?}", began.elapsed());
}

/// Connects, sends one request and disconnects, repeatedly until `over`. Returns the number of responses. A refused
/// connection is retried; an accepted one gets a response.
async fn come_and_go(address: SocketAddr, over: &AtomicBool) -> u64 {
    let mut answered = 0;
    while !over.load(Ordering::Relaxed) {
        // If the system drops the SYN, the retransmission would come only a second later.
        let connecting = tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address));
        let Ok(Ok(mut connection)) = connecting.await else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let request = b"GET /healthz HTTP/1.1\r\nhost: entente\r\nconnection: close\r\n\r\n";
        connection.write_all(request).await.expect("whoever is let in may ask");
        let answer = rest(&mut connection).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "after {answered} answers there was {answer:?}");
        answered += 1;
    }
    answered
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_let_in_while_the_server_stops_is_answered() {
    let url = Cluster::get().url(&Cluster::get().fresh_database().await);
    let place = Place::new("drain");
    let launch = Launch::shared(&place, &url);
    for _ in 0..6 {
        let (mut server, _) = launch.start().await;
        let (over, address) = (Arc::new(AtomicBool::new(false)), server.address);
        // Separate tasks on all threads, so that a connection arrives at every instant.
        let crowd = (0..16).map(|_| {
            let over = Arc::clone(&over);
            tokio::spawn(async move { come_and_go(address, &over).await })
        });
        let crowd: Vec<_> = crowd.collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.terminate();
        assert!(server.ended().await.success(), "{}", place.log());
        over.store(true, Ordering::Relaxed);
        let answered: u64 = join_all(crowd).await.into_iter().map(Result::unwrap).sum();
        assert!(answered > 0, "{}", place.log());
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
    // The client has just got a response and does not know that the server is stopping: its next request is
    // answered too.
    server.terminate();
    tokio::time::sleep(Duration::from_millis(250)).await;
    ask(&mut connection, "/principals/me").await;
    let answer = rest(&mut connection).await;
    assert!(answer.contains("HTTP/1.1 200"), "{answer:?}:\n{}", place.log());
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    assert!(server.ended().await.success());
}
