//! No key starves the others: pages are bounded, a key has few large responses under way, a client that does not
//! read is cut off, a body must arrive in time, and the number of concurrent requests per key is limited.
//! `shares/unread.rs` covers the server's memory, `shares/guesses.rs` logins,
//! `shares/quotas.rs` the quotas of principals and teams.

mod guesses;
mod quotas;
mod unread;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use socket2::{Domain, Socket, Type};
use tokio::time::sleep;

use entente_harness::{ANY, Client, Setup, Value, World, ids, json, talk};

/// Maximum bytes of a page, and of a page that is read while other large ones are under way; including a little for
/// the JSON around the items.
const PAGE: usize = 4 * 1024 * 1024 + 600 * 1024;
const SMALL_PAGE: usize = 560 * 1024;

async fn world(settings: &[(&'static str, &'static str)]) -> World {
    World::with(Setup { settings: settings.to_vec(), ..Setup::default() }).await
}

/// Sends `count` messages of 200 KiB and returns their ids.
async fn fill(client: &Client, channel: &str, count: usize) -> Vec<String> {
    let mut sent = Vec::new();
    for n in 0..count {
        let payload = json!({ "n": n, "text": "x".repeat(200 * 1024) });
        let body = json!({ "sender": "agent.ada", "payload": payload });
        let made = client.post(&format!("/channels/{channel}/messages"), body).await.is(201);
        sent.push(made["id"].as_str().unwrap().to_owned());
    }
    sent
}

/// Opens a connection, sends a request and reads nothing.
pub fn unread(address: SocketAddr, key: &str, path: &str) -> TcpStream {
    asked(address, &format!("GET /api/v1{path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\r\n"))
}

fn asked(address: SocketAddr, text: &str) -> TcpStream {
    // A small receive buffer, because data that the kernel buffers counts as read.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    socket.connect(&address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(text.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Opens a connection, waits for the head of a large response and does not read it. A previous response may hold
/// its slot for a moment after it was read; until then a small page comes, and the request is repeated.
async fn large(address: SocketAddr, key: &str, path: &str) -> TcpStream {
    for _ in 0..100 {
        let stream = unread(address, key, path);
        let mut head = [0; 1_024];
        let came = stream.peek(&mut head).unwrap();
        let head = String::from_utf8_lossy(&head[..came]).to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        if length.is_some_and(|length| length.parse::<usize>().unwrap() > 3_000_000) {
            return stream;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("no large answer came");
}

/// Polls until a condition holds.
async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !so().await {
        assert!(began.elapsed() < Duration::from_mins(1), "{what}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_messages_has_a_size_and_goes_on_behind_it() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let sent = fill(&ada, &channel, 50).await;
    let path = format!("/channels/{channel}/messages");
    let (mut cursor, mut read, mut pages) = ("cur_0".to_owned(), Vec::new(), 0);
    while read.len() < sent.len() {
        let page = ada.get(&format!("{path}?since={cursor}&limit=1000")).await;
        let found = ids(&page.ok());
        assert!(!found.is_empty() && page.text.len() <= PAGE, "{} bytes", page.text.len());
        read.extend(found);
        assert_eq!(page.headers.contains_key("entente-has-more"), read.len() < sent.len(), "page {pages}");
        page.header("entente-next-cursor").clone_into(&mut cursor);
        pages += 1;
    }
    assert_eq!(read, sent, "nothing is passed over and nothing is there twice");
    assert!((3..=4).contains(&pages), "large pages, as far as they may be: {pages}");
    // Readers without a cursor get the newest messages and continue after them.
    let newest = ada.get(&path).await;
    let found = ids(&newest.ok());
    assert!(newest.text.len() <= PAGE && sent.ends_with(&found) && found.len() > 10);
    assert_eq!(newest.header("entente-has-more"), "true");
    let next = newest.header("entente-next-cursor").to_owned();
    assert_eq!(ada.get(&format!("{path}?since={next}")).await.ok(), json!([]));
    // A complete page has no `Entente-Has-More` header.
    let few = ada.get(&format!("{path}?limit=5")).await;
    assert_eq!(ids(&few.ok()), sent[45..]);
    assert!(!few.headers.contains_key("entente-has-more"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_list_of_large_things_has_a_size() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let parent = ada.post("/intents", json!({ "title": "parent" })).await.ok();
    let parent = parent["id"].as_str().unwrap().to_owned();
    let mut made = Vec::new();
    for n in 0..12 {
        let state = json!({ "n": n, "text": "x".repeat(500 * 1024) });
        let ask = json!({ "title": format!("{n}"), "state": state, "parent_intent_id": parent });
        made.push(ada.post("/intents", ask).await.ok()["id"].as_str().unwrap().to_owned());
    }
    for n in 0..30 {
        let payload = json!({ "n": n, "text": "x".repeat(200 * 1024) });
        let event = json!({ "event_type": "note", "payload": payload });
        ada.with("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .post(&format!("/intents/{parent}/events"), event)
            .await
            .ok();
        let task = json!({ "name": format!("{n}"), "input": { "text": "x".repeat(200 * 1024) } });
        ada.post(&format!("/intents/{parent}/tasks"), task).await.ok();
    }
    // Paged by offset.
    let trace = "0af7651916cd43dd8448eb211c80319c";
    for (path, all) in [
        (format!("/intents/{parent}/events?event_type=note&limit=1000"), 30),
        (format!("/events?trace_id={trace}&limit=1000"), 30),
        (format!("/intents/{parent}/tasks?limit=1000"), 30),
    ] {
        let mut read: Vec<Value> = Vec::new();
        while read.len() < all {
            let page = ada.get(&format!("{path}&offset={}", read.len())).await;
            assert!(page.text.len() <= PAGE, "{path}: {} bytes", page.text.len());
            let found = page.ok();
            assert_ne!(found, json!([]), "{path}: no page is empty before the last");
            read.extend(found.as_array().unwrap().iter().cloned());
            assert_eq!(page.headers.contains_key("entente-has-more"), read.len() < all, "{path}");
        }
        assert_eq!(read.len(), all, "{path}");
    }
    // Paged by cursor.
    let (mut read, mut before) = (Vec::new(), String::new());
    while read.len() < 13 {
        let page = ada.get(&format!("/intents?limit=1000{before}")).await;
        assert!(page.text.len() <= PAGE, "{} bytes", page.text.len());
        read.extend(ids(&page.ok()["intents"]));
        assert_eq!(page.headers.contains_key("entente-has-more"), read.len() < 13);
        before = format!("&before={}", read.last().unwrap());
    }
    let (mut read, mut after) = (Vec::new(), String::new());
    while read.len() < 12 {
        let page = ada.get(&format!("/intents/{parent}/children?limit=1000{after}")).await;
        assert!(page.text.len() <= PAGE, "{} bytes", page.text.len());
        read.extend(ids(&page.ok()["children"]));
        assert_eq!(page.headers.contains_key("entente-next-cursor"), read.len() < 12);
        after = format!("&after={}", read.last().unwrap());
    }
    made.sort_unstable();
    assert_eq!(read, made);
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_answers_are_not_read_gets_small_ones() {
    let world = world(&[("ENTENTE_WRITE_SECONDS", "600")]).await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    fill(&ada, &channel, 30).await;
    let path = format!("/channels/{channel}/messages?since=cur_0&limit=1000");
    let size = async |client: &Client| client.get(&path).await.text.len();
    assert!(size(&ada).await > 3_000_000);
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(large(world.address, "key-of-agent.ada", &path).await);
    }
    until("a fifth large answer is given", async || size(&ada).await <= SMALL_PAGE).await;
    // The small page's cursor continues after it, to the end.
    let (mut cursor, mut read) = ("cur_0".to_owned(), 0);
    while read < 30 {
        let page = ada.get(&format!("/channels/{channel}/messages?since={cursor}&limit=1000")).await;
        read += ids(&page.ok()).len();
        page.header("entente-next-cursor").clone_into(&mut cursor);
    }
    assert!(size(&world.any()).await > 3_000_000, "another key has its own");
    held.clear();
    until("whoever goes away gives nothing back", async || size(&ada).await > 3_000_000).await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_read_is_cut_off() {
    let world = world(&[("ENTENTE_WRITE_SECONDS", "3")]).await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    fill(&ada, &channel, 30).await;
    let path = format!("/channels/{channel}/messages?since=cur_0&limit=1000");
    let mut shortest = usize::MAX;
    // On a busy machine the response may come late.
    for patience in [10, 20, 40] {
        let mut stream = unread(world.address, "key-of-agent.ada", &path);
        sleep(Duration::from_secs(patience)).await;
        // The data sent so far can be read, then the connection ends.
        let mut text = Vec::new();
        let _broken = stream.read_to_end(&mut text);
        shortest = shortest.min(text.len());
        if (1..4_000_000).contains(&shortest) {
            break;
        }
    }
    assert!((1..4_000_000).contains(&shortest), "{shortest} bytes came");
    until("its place is given back", async || ada.get(&path).await.text.len() > 3_000_000).await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_sent_body_ends_in_time_and_holds_nobody_up() {
    let world = world(&[("ENTENTE_BODY_SECONDS", "4"), ("ENTENTE_MAX_REQUESTS_PER_KEY", "5")]).await;
    let ada = world.agent("agent.ada").await;
    let half = |path: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: key-of-agent.ada\r\n");
        asked(world.address, &format!("{head}content-length: 200\r\n\r\n{{\"title\": \"ha"))
    };
    ada.get("/intents").await.ok();
    let mut held: Vec<TcpStream> = (0..5).map(|_| half("/api/v1/intents")).collect();
    sleep(Duration::from_millis(300)).await;
    let refused = ada.get("/intents").await;
    let said = refused.refused(429, "rate_limited");
    assert!(said["message"].as_str().unwrap().contains("5 requests under way"), "{said}");
    assert_eq!(refused.header("retry-after"), "1");
    world.client(ANY).get("/intents").await.ok();
    for stream in &mut held {
        let mut text = String::new();
        let _closed = stream.read_to_string(&mut text);
        assert!(text.starts_with("HTTP/1.1 408") && text.contains("request_timeout"), "{text}");
    }
    ada.get("/intents").await.ok();
    // The other endpoints with bodies: forms without a login, MCP, raw bytes.
    for path in ["/login", "/mcp", "/api/v1/aee/logs", "/v1/intents"] {
        let began = Instant::now();
        let mut text = String::new();
        let _closed = half(path).read_to_string(&mut text);
        assert!(
            began.elapsed() < Duration::from_secs(10) && text.starts_with("HTTP/1.1 4"),
            "{path}: {text}"
        );
    }
    assert_eq!(ada.get("/intents").await.ok(), json!({ "intents": [] }), "nothing was done");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_are_no_open_requests() {
    let world = world(&[("ENTENTE_MAX_REQUESTS_PER_KEY", "3")]).await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let path = format!("/channels/{channel}/messages?since=cur_0&wait=20");
    let waiting = async |_| ada.get(&path).await.ok();
    let meanwhile = async {
        sleep(Duration::from_millis(1_200)).await;
        for _ in 0..5 {
            ada.get("/intents").await.ok();
        }
        ada.post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.ada", "payload": {} }))
            .await
            .is(201)
    };
    // One after the other, so that only a few of them are running before they wait.
    let polls = (0..10_u64).map(|n| async move {
        sleep(Duration::from_millis(60 * n)).await;
        n
    });
    let polls = polls.map(|turn| async { waiting(turn.await).await });
    let (got, sent) = tokio::join!(join_all(polls), meanwhile);
    for page in got {
        assert_eq!(page[0]["id"], sent["id"]);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_principal_listens_to_so_many_channels_in_all() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    sqlx::query(
        "INSERT INTO aee_subscriptions (bus, entity, created_by, created_at)
         SELECT 'bus.n' || n, 'agent.ada.' || n / 900, 'agent.ada', now() FROM generate_series(1, 5000) AS n",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    let path = "/aee/buses/bus.one-more/subscriptions/agent.ada";
    let refused = ada.put(path, json!({})).await.refused(422, "unprocessable");
    assert!(refused["message"].as_str().unwrap().contains("5000 by one in all"), "{refused}");
    let bob = world.agent("agent.bob").await;
    bob.put("/aee/buses/bus.one-more/subscriptions/agent.bob", json!({})).await.ok();
    sqlx::query("DELETE FROM aee_subscriptions WHERE bus = 'bus.n17'")
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    // Of several concurrent requests, only one gets the last free slot.
    let many = (0..6).map(|n| {
        let path = format!("/aee/buses/bus.more-{n}/subscriptions/agent.ada");
        let ada = ada.clone();
        async move { ada.put(&path, json!({})).await.status }
    });
    let got = join_all(many).await;
    assert_eq!(got.iter().filter(|status| **status == 200).count(), 1, "{got:?}");
    world.end().await;
}
