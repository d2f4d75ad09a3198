//! Server memory held by unread responses, measured on a separate process.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::unread;
use entente_harness::process::{KEY, Launch, Place};
use entente_harness::{json, talk};

/// Maximum memory of the server in bytes while clients do not read.
const MOST: u64 = 200 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_unread_pages_of_a_thousand_large_messages_are_held_by_little_memory_and_given_back() {
    let place = Place::new("unread");
    let launch = Launch::private(&place).with("ENTENTE_WRITE_SECONDS", "8");
    let (mut server, _) = launch.start().await;
    let any = server.client(KEY).acting_as("agent.ada");
    let (_, channel) = talk(&any, json!({})).await;
    let text = "x".repeat(64 * 1024);
    for _ in 0..50 {
        let one = json!({ "sender": "agent.ada", "payload": { "text": text } });
        let path = format!("/channels/{channel}/messages/batch");
        let batch = any.post(&path, json!({ "messages": vec![one; 20] })).await;
        assert!(batch.status < 300, "{}", batch.text.chars().take(300).collect::<String>());
    }
    // A fresh server that has not held the messages in memory.
    server.terminate();
    assert!(server.ended().await.success(), "{}", place.log());
    let (server, _) = launch.start().await;
    let any = server.client(KEY).acting_as("agent.ada");
    let path = format!("/channels/{channel}/messages?limit=1000");
    // Excludes the memory of a single page from the comparison.
    any.get(&path).await.ok();
    sleep(Duration::from_secs(1)).await;
    let before = server.resident();
    let mut held: Vec<TcpStream> = (0..16).map(|_| unread(server.address, KEY, &path)).collect();
    let (began, mut most) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(4) {
        most = most.max(server.resident());
        sleep(Duration::from_millis(20)).await;
    }
    let mib = |bytes: u64| bytes / 1024 / 1024;
    println!("before {} MiB, at most {} MiB", mib(before), mib(most));
    assert!(most < MOST, "{} MiB, and {} before", mib(most), mib(before));
    // The clients did not read: they are cut off, and their memory is released.
    let began = Instant::now();
    loop {
        let now = server.resident();
        if now < before + 24 * 1024 * 1024 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(40), "{} MiB are kept of {}", mib(now), mib(most));
        // An idle server does not trigger the clean-up.
        any.get("/intents").await.ok();
        sleep(Duration::from_millis(200)).await;
    }
    held.clear();
    assert!(any.get(&path).await.text.len() > 3_000_000);
}
