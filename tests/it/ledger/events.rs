//! Posted events while the server is killed: each acknowledged one is in the log once, and in its author's order.

use std::collections::HashMap;
use std::sync::Arc;

use super::Run;
use entente_harness::{Client, Value, json};

/// Number of clients that post events.
pub const POSTERS: u64 = 3;

/// Posts events until all kills are done. Retries each with the same idempotency key until it is acknowledged. Returns
/// their ids.
pub async fn post(run: Arc<Run>, client: Client, intent: String, who: u64) -> Vec<String> {
    let path = format!("/intents/{intent}/events");
    let mut ledger = Vec::new();
    for n in 0.. {
        if run.is_done() {
            break;
        }
        let body = json!({ "event_type": "note", "payload": { "who": who, "n": n } });
        let once = client.once(&format!("event-{who}-{n}"));
        let posted = run.acknowledged(&once, &path, &body, &[200]).await.json();
        ledger.push(posted["id"].as_str().unwrap().to_owned());
    }
    ledger
}

/// Asserts that the log has exactly the acknowledged events, each once and in its author's order. Returns their number.
pub async fn check(client: &Client, intent: &str, ledgers: &[Vec<String>]) -> usize {
    let mut listed: Vec<Value> = Vec::new();
    loop {
        let offset = listed.len();
        let path = format!("/intents/{intent}/events?event_type=note&limit=200&offset={offset}");
        let page = client.get(&path).await.ok();
        if page == json!([]) {
            break;
        }
        listed.extend(page.as_array().unwrap().iter().cloned());
    }
    let mut of: HashMap<usize, Vec<&str>> = HashMap::new();
    for event in listed.iter().rev() {
        let (who, n) = (event["payload"]["who"].as_u64().unwrap(), event["payload"]["n"].as_u64().unwrap());
        let own = of.entry(usize::try_from(who).unwrap()).or_default();
        assert_eq!(own.len() as u64, n, "author {who}: doubled, lost or out of order");
        own.push(event["id"].as_str().unwrap());
    }
    for (who, ledger) in ledgers.iter().enumerate() {
        assert!(!ledger.is_empty(), "author {who} never posted: the test proves nothing");
        assert_eq!(of.get(&who).map_or(&[] as &[&str], Vec::as_slice), ledger, "acknowledged and not there");
    }
    println!("{} events acknowledged", listed.len());
    listed.len()
}
