//! A mixed load on one intent. Afterwards its log has no gaps and verifies, and its events explain its state.

use std::collections::HashMap;

use futures_util::future::join_all;

use super::{clients, id, live};
use entente_harness::{Client, Sse, Value, World, json, talk};

const ROUNDS: usize = 12;

async fn sends(client: &Client, channel: &str) {
    for n in 0..ROUNDS {
        let body =
            json!({ "sender": "agent.s", "message_type": "request", "to": "agent.r", "payload": { "n": n } });
        client.post(&format!("/channels/{channel}/messages"), body).await.is(201);
    }
}

async fn batches(client: &Client, channel: &str) {
    for n in 0..ROUNDS {
        let messages: Vec<Value> =
            (0..5).map(|m| json!({ "sender": "agent.b", "payload": { "n": n, "m": m } })).collect();
        client
            .post(&format!("/channels/{channel}/messages/batch"), json!({ "messages": messages }))
            .await
            .is(201);
    }
}

async fn notes(client: &Client, intent: &str) {
    for n in 0..ROUNDS {
        let note = json!({ "event_type": "note", "payload": { "n": n } });
        client.post(&format!("/intents/{intent}/events"), note).await.ok();
    }
}

/// Marks requests as read and answers them.
async fn receipts(client: &Client, channel: &str) {
    let client = client.acting_as("agent.r");
    let messages = format!("/channels/{channel}/messages");
    for _ in 0..ROUNDS {
        let found = client.get(&format!("{messages}?to=agent.r&limit=3")).await.ok();
        for message in found.as_array().unwrap().iter().filter(|m| m["message_type"] == "request") {
            client.patch(&format!("{messages}/{}", id(message)), json!({ "status": "read" })).await.ok();
            let body = json!({ "sender": "agent.r", "payload": {} });
            client.post(&format!("{messages}/{}/reply", id(message)), body).await.is(201);
        }
    }
}

async fn updates(client: &Client, intent: &str, channel: &str) {
    for n in 0..ROUNDS {
        let options = json!({ "options": { "audit": n % 2 == 0, "max_messages": 5_000 + n } });
        client.patch(&format!("/channels/{channel}"), options).await.ok();
        let other = client
            .post(&format!("/intents/{intent}/channels"), json!({ "name": format!("n{n}") }))
            .await
            .is(201);
        client
            .post(
                &format!("/channels/{}/messages", id(&other)),
                json!({ "sender": "agent.u", "payload": {} }),
            )
            .await
            .is(201);
        client.patch(&format!("/channels/{}", id(&other)), json!({ "status": "closed" })).await.ok();
    }
}

/// Patches the state until it has won often enough.
async fn patches(client: &Client, intent: &str, who: &str) {
    let path = format!("/intents/{intent}");
    let mut won = 0;
    while won < ROUNDS {
        let version = client.get(&path).await.ok()["version"].clone();
        let patch = json!({ "op": "append", "path": who, "value": won });
        let reply = client.seen(&version).post(&format!("{path}/state"), json!({ "patches": [patch] })).await;
        if reply.status == 200 {
            won += 1;
        } else {
            reply.refused(409, "version_conflict");
        }
    }
}

async fn assignments(client: &Client, intent: &str) {
    for n in 0..ROUNDS {
        let agent = format!("agent.t{n}");
        client.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": agent })).await.ok();
        client.delete(&format!("/intents/{intent}/agents/{agent}")).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_load_leaves_one_dense_line_and_a_log_that_verifies() {
    let world = live().await;
    let any = world.any();
    let (intent, channel) = talk(&any, json!({ "options": { "audit": true } })).await;
    let mut stream = Sse::open(&any, &format!("/subscribe/intents/{intent}")).await;
    let c = clients(&world, 12);
    let talk = join_all([sends(&c[0], &channel), sends(&c[1], &channel)]);
    let many = join_all([batches(&c[2], &channel), batches(&c[3], &channel)]);
    let read = join_all([receipts(&c[4], &channel), receipts(&c[5], &channel)]);
    let write = join_all([patches(&c[6], &intent, "a"), patches(&c[7], &intent, "b")]);
    tokio::join!(
        talk,
        many,
        read,
        write,
        notes(&c[8], &intent),
        notes(&c[9], &intent),
        updates(&any, &intent, &channel),
        assignments(&c[11], &intent)
    );
    let verified = any.get(&format!("/intents/{intent}/events/verify")).await.ok();
    assert_eq!((&verified["chain_valid"], &verified["breaks"]), (&json!(true), &json!([])));
    let line = check_line(&world, &intent).await;
    let state = any.get(&format!("/intents/{intent}")).await.ok();
    let numbers: Vec<usize> = (0..ROUNDS).collect();
    assert_eq!(state["state"], json!({ "a": numbers, "b": numbers }));
    assert_eq!(state["version"], 2 * ROUNDS + 1);
    // The stream delivered every entry that has a frame, once and in this order.
    let framed: Vec<i64> =
        line.into_iter().filter(|(_, what)| what != "channel.message").map(|(seq, _)| seq).collect();
    let said = stream.next_few(framed.len() - 2).await;
    let said: Vec<i64> = said.iter().map(|event| event.id.parse().unwrap()).collect();
    assert_eq!(said, framed[2..], "all but what was there before the stream");
    world.end().await;
}

/// An entry of an intent's log: its position, kind, channel, number there and time.
type Entry = (i64, String, Option<String>, i64, chrono::DateTime<chrono::Utc>);

/// Asserts that an intent's log has every number once, that its times never decrease and that its messages are
/// numbered in this order. Returns the kind at each number.
pub async fn check_line(world: &World, intent: &str) -> Vec<(i64, String)> {
    let uuid = intent.parse::<entente_domain::ids::IntentId>().unwrap().uuid();
    let rows: Vec<Entry> = sqlx::query_as(
        "SELECT seq, 'message', channel_id::text, number, created_at FROM messages WHERE intent_id = $1
         UNION ALL SELECT seq, 'receipt', NULL, 0, at FROM receipts WHERE intent_id = $1
         UNION ALL SELECT seq, event_type, NULL, sequence, created_at FROM events WHERE intent_id = $1 ORDER BY 1",
    )
    .bind(uuid)
    .fetch_all(&world.ctx().pool)
    .await
    .unwrap();
    assert!(
        rows.iter().map(|row| row.0).eq(1..=i64::try_from(rows.len()).unwrap()),
        "the line has gaps or doubles"
    );
    assert!(rows.is_sorted_by_key(|row| row.4), "time goes back along the line");
    let mut last: HashMap<Option<&String>, i64> = HashMap::new();
    for row in rows.iter().filter(|row| row.1 != "receipt") {
        // Messages are numbered per channel, events per intent.
        let before = last.insert(row.2.as_ref(), row.3).unwrap_or(0);
        assert_eq!(row.3, before + 1, "{row:?}");
    }
    rows.into_iter().map(|row| (row.0, row.1)).collect()
}
