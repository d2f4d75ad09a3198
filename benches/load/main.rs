//! quick
mod client;
use serde_json::{Value, json};
use std::time::Duration;
fn main() {
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let addr: std::net::SocketAddr = std::env::args().nth(1).unwrap().parse().unwrap();
    rt.block_on(async move {
        let key = "bench-key";
        let mut c = client::Connection::open(addr).await.unwrap();
        let spread: usize = std::env::args().nth(2).unwrap().parse().unwrap();
        let mut cids = vec![];
        for k in 0..spread {
            let (_, b) = c
                .exchange(&client::request(
                    "POST",
                    "/api/v1/intents",
                    key,
                    "",
                    &json!({"title":"b"}).to_string(),
                ))
                .await
                .unwrap();
            let intent: Value = serde_json::from_slice(&b).unwrap();
            let id = intent["id"].as_str().unwrap().to_owned();
            let (_, b) = c
                .exchange(&client::request(
                    "POST",
                    &format!("/api/v1/intents/{id}/channels"),
                    key,
                    "",
                    &json!({"name":format!("c{k}"),"options":{"max_messages":1000000}}).to_string(),
                ))
                .await
                .unwrap();
            let ch: Value = serde_json::from_slice(&b).unwrap();
            cids.push(ch["id"].as_str().unwrap().to_owned());
        }
        let payload = "x".repeat(270);
        for clients in [1, 8, 32, 64] {
            let (cids, payload) = (cids.clone(), payload.clone());
            let mut l = client::closed(addr, clients, Duration::from_secs(5), move |c, n| {
                (
                    0,
                    client::request(
                        "POST",
                        &format!("/api/v1/channels/{}/messages", cids[(c * 7919 + n * 31) % cids.len()]),
                        key,
                        "",
                        &json!({"sender": format!("agent-{c}"), "payload": {"text": payload}}).to_string(),
                    ),
                )
            })
            .await;
            println!(
                "{clients}: {:.0}/s p50 {} p99 {} fail {}",
                l.rate(),
                l.quantile(0.5),
                l.quantile(0.99),
                l.failures
            );
        }
    });
}
