//! Scenes of envelopes: accepting signed envelopes beside plain messages, and one event to a channel with a
//! thousand listeners.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use entente_domain::aee::envelopes::signing::{SigningKey, sign};
use entente_domain::clock::rfc3339;
use entente_domain::identity::signatures::Signer;
use serde_json::{Map, Value, json};

use super::client::{Load, closed, request};
use super::report::{Report, median};
use super::scale::{rounds, scaled, spell};
use super::scenes::{channels, send};
use super::stage::{KEY, LISTENER_KEYS, Stage};

/// Returns the envelopes signed before each load, so that the clients' signing is not measured.
fn signed_ahead() -> usize {
    scaled(60_000, 3_000)
}

/// Returns the mailboxes that receive them.
fn mailboxes() -> usize {
    scaled(100, 10)
}

/// Returns the subscribers of the channel.
fn listeners() -> usize {
    scaled(1_000, 20)
}

fn key() -> SigningKey {
    SigningKey::Ed25519(Box::new(Signer::from_seed(&[7; 32])))
}

/// Builds an envelope of about 1 KB.
fn envelope(id: &str, kind: &str, to: &str) -> Map<String, Value> {
    let ts = rfc3339(chrono::Utc::now());
    let body = json!({
        "v": "1", "id": id, "ts": ts, "type": kind, "from": "agent.bench", "to": to, "intent": "bench.load.run",
        "corr": "bench-thread", "reply_to": null, "trace": null, "priority": "normal", "requires": null,
        "payload": { "text": "x".repeat(600) }, "sig": null,
    });
    match body {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Accepted signed envelopes per second, beside plain messages over as many intents.
pub async fn signed(stage: &Stage, report: &mut Report) {
    let public = Signer::from_seed(&[7; 32]).public_key().to_string();
    let ask =
        json!({ "entity": "agent.bench", "kid": "bench", "algorithm": "ed25519", "public_key": public });
    stage.post("/aee/keys", &ask).await;
    let mailboxes = mailboxes();
    for mailbox in 0..mailboxes {
        stage.put(&format!("/aee/mailboxes/agent.box-{mailbox}"), &json!({})).await;
    }
    let plain = channels(stage, mailboxes, false).await;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for round in 0..rounds() {
        theirs.push(send(stage, &plain, 32, false).await.rate());
        ours.push(accept(stage, round).await.rate());
    }
    let (theirs, ours) = (median(theirs), median(ours));
    let detail = format!(
        "{ours:.0} signed envelopes/s of 1 KB to {mailboxes} mailboxes, {theirs:.0} plain messages/s, 32 clients"
    );
    report.add(
        "R14 signed envelopes",
        format!("{:.2}", ours / theirs),
        "≥ 0.6",
        ours >= 0.6 * theirs,
        detail,
    );
}

async fn accept(stage: &Stage, round: usize) -> Load {
    let (run, key) = (std::process::id(), key());
    let (ahead, mailboxes) = (signed_ahead(), mailboxes());
    let requests: Vec<Vec<u8>> = (0..ahead)
        .map(|n| {
            let id = format!("bench-{run}-{round}-{n}");
            let mut members = envelope(&id, "event", &format!("agent.box-{}", n % mailboxes));
            sign(&mut members, "bench", &key).unwrap();
            let body = serde_json::to_string(&members).unwrap();
            request("POST", "/api/v1/aee/envelopes", KEY, "content-type: application/json\r\n", &body)
        })
        .collect();
    let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
    let load = closed(stage.server.address, 32, spell(), move |_client, _n| {
        let index = next.fetch_add(1, Ordering::Relaxed);
        assert!(index < ahead, "more than {ahead} envelopes in one load: sign more");
        (index % mailboxes, requests[index].clone())
    })
    .await;
    assert_eq!(load.failures, 0, "envelopes were refused");
    load
}

/// One event to a channel with a thousand listeners: time from its submission until it is in every mailbox.
pub async fn fan_out(stage: &Stage, report: &mut Report) {
    let (listeners, events) = (listeners(), scaled(50, 5));
    for listener in 0..listeners {
        let key = LISTENER_KEYS[listener % LISTENER_KEYS.len()];
        let path = format!("/aee/buses/bus.bench/subscriptions/agent.listener-{listener}");
        stage.put_as(key, &path, &json!({})).await;
    }
    let mut millis = Vec::new();
    for n in 0..events {
        let event =
            Value::Object(envelope(&format!("bench-bus-{}-{n}", std::process::id()), "event", "bus.bench"));
        let begun = Instant::now();
        let receipt = stage.post("/aee/envelopes", &event).await;
        millis.push(begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(receipt["delivered"], listeners);
    }
    millis.sort_by(f64::total_cmp);
    let (p50, p99) = (millis[events / 2], millis[events - 1]);
    let detail =
        format!("one event into {listeners} mailboxes, committed; the slowest of {events} {p99:.1} ms");
    report.add("Bus of 1,000", format!("p50 {p50:.1} ms"), "< 50 ms", p50 < 50.0, detail);
}
