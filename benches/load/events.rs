//! Scene of events posted to an intent, beside messages of the same size (R11).

use serde_json::json;

use super::client::{Load, closed, request};
use super::report::{Report, median};
use super::scale::{rounds, scaled, spell};
use super::scenes::send;
use super::stage::{KEY, Stage};

/// Bytes of an event's text: a message's.
const PAYLOAD: usize = 270;

/// Posts events to `intents` from 32 clients, and checks that each acknowledged one is there.
async fn post(stage: &Stage, intents: &[String]) -> Load {
    let (to, count) = (intents.to_vec(), intents.len());
    let body = json!({ "event_type": "note", "payload": { "text": "x".repeat(PAYLOAD) } }).to_string();
    let load = closed(stage.server.address, 32, spell(), move |client, n| {
        let intent = (client * 7_919 + n * 31) % count;
        (intent, request("POST", &format!("/api/v1/intents/{}/events", to[intent]), KEY, "", &body))
    })
    .await;
    assert_eq!(load.failures, 0, "events were refused");
    load
}

/// R11: events beside messages, into one intent and over 100.
pub async fn posted(stage: &Stage, report: &mut Report) {
    let options = json!({ "max_messages": 1_000_000 });
    for (name, count) in [("R11 events, one intent", 1), ("R11 events, 100 intents", scaled(100, 10))] {
        let (intents, channels): (Vec<_>, Vec<_>) = stage.talks(count, &options).await.into_iter().unzip();
        let (mut events, mut sends, mut acked) = (Vec::new(), Vec::new(), 0);
        for _ in 0..rounds() {
            let load = post(stage, &intents).await;
            acked += load.acked.len();
            events.push(load.rate());
            sends.push(send(stage, &channels, 32, false).await.rate());
        }
        let mut stored = 0;
        for intent in &intents {
            let path = format!("/intents/{intent}/events/verify");
            let verified = stage.get(&path).await;
            assert_eq!(verified["chain_valid"], true);
            stored += verified["event_count"].as_u64().unwrap() as usize;
        }
        // Plus the creation of each intent and of its channel.
        assert_eq!(stored, acked + 2 * intents.len(), "events were lost or doubled");
        let (events, sends) = (median(events), median(sends));
        let detail = format!("{events:.0} events/s, {sends:.0} sends/s of the same size, 32 clients");
        report.add(name, format!("{:.2}", events / sends), "≥ 0.8", events >= 0.8 * sends, detail);
    }
}
