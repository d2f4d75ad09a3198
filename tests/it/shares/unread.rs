//! What answers that nobody reads cost a server in memory: a process of its own, whose memory the system counts.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::unread;
use crate::harness::process::{KEY, Launch, Place};
use crate::harness::{json, talk};

/// Bytes of memory that the server may have while nobody reads.
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
    // A server that has not had them in its hands.
    server.terminate();
    assert!(server.ended().await.success(), "{}", place.log());
    let (server, _) = launch.start().await;
    let any = server.client(KEY).acting_as("agent.ada");
    let path = format!("/channels/{channel}/messages?limit=1000");
    // What one page costs is there already, and does not count as what is given back.
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
    // Nobody has read: they are cut off, and what they held is given back.
    let began = Instant::now();
    loop {
        let now = server.resident();
        if now < before + 24 * 1024 * 1024 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(40), "{} MiB are kept of {}", mib(now), mib(most));
        // A server with nothing to do has no occasion to tidy up.
        any.get("/intents").await.ok();
        sleep(Duration::from_millis(200)).await;
    }
    held.clear();
    assert!(any.get(&path).await.text.len() > 3_000_000);
}
