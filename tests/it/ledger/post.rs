//! Envelopes while the server is killed: each acknowledged one is in the mailbox once, numbered without gaps and in
//! its sender's order, and a reader with a cursor gets all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use entente_domain::clock::rfc3339;

use super::Run;
use entente_harness::{Client, Value, json};

/// Number of clients that send envelopes.
pub const SENDERS: u64 = 3;

/// Their recipient's mailbox.
const MAILBOX: &str = "/aee/mailboxes/agent.bob";

fn task(who: u64, n: u64) -> Value {
    json!({
        "v": "1", "id": format!("ledger-{who}-{n}"), "ts": rfc3339(chrono::Utc::now()), "type": "task", "from": "agent.ada",
        "to": "agent.bob", "intent": "ledger.entry.keep", "corr": format!("ledger-{who}"), "priority": "normal",
        "payload": { "who": who, "n": n },
    })
}

/// Sends envelopes until all kills are done and retries each until it has a receipt. Returns the sequence numbers
/// of the receipts.
pub async fn send(run: Arc<Run>, client: Client, who: u64) -> Vec<i64> {
    let mut ledger = Vec::new();
    for n in 0.. {
        if run.is_done() {
            break;
        }
        let reply = run.acknowledged(&client, "/aee/envelopes", &task(who, n), &[202, 409]).await;
        let receipt = reply.json();
        // 409: it was accepted, but the response was lost.
        let seq = if reply.status == 409 { &receipt["receipt"]["seq"] } else { &receipt["seq"] };
        ledger.push(seq.as_i64().unwrap());
    }
    ledger
}

/// Reads the mailbox with a cursor until all envelopes are acknowledged and nothing more arrives.
pub async fn read(run: Arc<Run>, client: Client) -> Vec<(i64, Value)> {
    let (mut after, mut read) = (0, Vec::new());
    loop {
        let last = run.posted.load(Ordering::Acquire);
        let reply = client.try_send("GET", &format!("{MAILBOX}?after={after}&wait=1"), None).await;
        let Some(page) = reply.filter(|reply| reply.status == 200).map(|reply| reply.json()) else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let items = page["items"].as_array().unwrap();
        read.extend(
            items.iter().map(|item| (item["seq"].as_i64().unwrap(), item["envelope"]["payload"].clone())),
        );
        after = page["next_after"].as_i64().unwrap();
        if last && items.is_empty() {
            return read;
        }
    }
}

/// Asserts that every acknowledged envelope was read once, without gaps and in its sender's order.
pub async fn check(client: &Client, ledgers: &[Vec<i64>], read: &[(i64, Value)]) {
    let rest = client.get(&format!("{MAILBOX}?after={}", read.last().map_or(0, |(seq, _)| *seq))).await.ok();
    assert_eq!(rest["items"], json!([]), "the reader stopped too early");
    assert!(read.iter().map(|(seq, _)| *seq).eq(1..=i64::try_from(read.len()).unwrap()), "gaps or doubles");
    let mut next: HashMap<u64, u64> = HashMap::new();
    for (_, payload) in read {
        let (who, n) = (payload["who"].as_u64().unwrap(), payload["n"].as_u64().unwrap());
        let expected = next.entry(who).or_default();
        assert_eq!(n, *expected, "sender {who}: doubled, lost or out of order");
        *expected += 1;
    }
    assert_eq!(ledgers.iter().map(Vec::len).sum::<usize>(), read.len(), "each was acknowledged in the end");
    for (who, ledger) in ledgers.iter().enumerate() {
        for (n, seq) in ledger.iter().enumerate() {
            let (_, payload) = &read[usize::try_from(*seq - 1).unwrap()];
            assert_eq!(
                (&payload["who"], &payload["n"]),
                (&json!(who), &json!(n)),
                "another one has its number"
            );
        }
    }
    println!("{} envelopes acknowledged and read", read.len());
}
