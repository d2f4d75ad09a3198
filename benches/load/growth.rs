//! R8: sends and reads that have to be as fast in an old and large database as in a new one: while somebody holds a
//! snapshot, over many intents, and with millions of messages.

use serde_json::json;
use sqlx::Connection as _;

use super::client::{Load, closed, request};
use super::report::{Report, median};
use super::scale::{rounds, scaled, spell};
use super::scenes::{channels, send};
use super::stage::{KEY, PAYLOAD, Stage};

/// Clients of each load.
const CLIENTS: usize = 32;

/// Aim of every ratio.
const AIM: f64 = 0.95;

/// New messages that a read returns.
const NEW: usize = 10;

/// Adds a row with the ratio of two rates.
fn compare(report: &mut Report, name: &'static str, hard: f64, easy: f64, detail: String) {
    report.add(name, format!("{:.2}", hard / easy), "≥ 0.95", hard >= AIM * easy, detail);
}

/// Sends while a transaction in the same database holds its snapshot: until it ends, no dead version of a row can be
/// removed.
pub async fn snapshot(stage: &Stage, report: &mut Report) {
    for (name, count) in
        [("R8 held snapshot, one channel", 1), ("R8 held snapshot, 100 intents", scaled(100, 10))]
    {
        let to = channels(stage, count, false).await;
        let (mut clean, mut held) = (Vec::new(), Vec::new());
        for _ in 0..rounds() {
            clean.push(send(stage, &to, CLIENTS, false).await.rate());
            let mut holder = stage.connect().await;
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM intents";
            sqlx::raw_sql(begin).execute(&mut holder).await.unwrap();
            held.push(send(stage, &to, CLIENTS, false).await.rate());
            sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
            holder.close().await.unwrap();
        }
        let (clean, held) = (median(clean), median(held));
        let detail = format!(
            "{held:.0} sends/s during a foreign REPEATABLE READ transaction that has read, {clean:.0} without, {CLIENTS} \
             clients"
        );
        compare(report, name, held, clean, detail);
    }
}

/// Sends over 9,000 intents beside sends over 1,000 of them.
pub async fn intents(stage: &Stage, report: &mut Report) {
    let all = channels(stage, scaled(9_000, 90), false).await;
    let some = &all[..scaled(1_000, 10)];
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..rounds() {
        few.push(send(stage, some, CLIENTS, false).await.rate());
        many.push(send(stage, &all, CLIENTS, false).await.rate());
    }
    let (few, many) = (median(few), median(many));
    let detail = format!(
        "{many:.0} sends/s over {} intents, {few:.0} over {} of them, {CLIENTS} clients",
        all.len(),
        some.len()
    );
    compare(report, "R8 9,000 intents", many, few, detail);
}

/// Copies the last message of each channel as often as $1 says, with the numbers, times and ids that sends would have given,
/// and one part of the global order for each copy, as sends over many intents write them.
///
/// The clocks' trigger leaves marks, which the parts cover already.
const COPY: &str = "
WITH last AS MATERIALIZED (
    SELECT m.* FROM channels c CROSS JOIN LATERAL (
        SELECT * FROM messages WHERE channel_id = c.id ORDER BY number DESC LIMIT 1) m),
copies AS MATERIALIZED (
    SELECT l.channel_id, l.number + n AS number, l.intent_id, l.seq + n AS seq, now() - make_interval(secs => 0.001 * ($1 - n)) AS at,
           row_number() OVER () AS place
    FROM generate_series(1, $1) n CROSS JOIN last l),
sent AS (
    INSERT INTO messages (channel_id, number, id, intent_id, seq, sender, recipient, recipients, message_type, correlation_id,
                          payload, metadata, created_at, expires_at)
    SELECT c.channel_id, c.number,
           (lpad(to_hex((1000 * extract(epoch FROM c.at))::bigint), 12, '0') || lpad(to_hex(c.number), 8, '0')
               || lpad(to_hex((random() * (1::bigint << 47))::bigint), 12, '0'))::uuid,
           c.intent_id, c.seq, l.sender, l.recipient, l.recipients, l.message_type, l.correlation_id, l.payload, l.metadata,
           c.at, l.expires_at
    FROM copies c JOIN last l USING (channel_id)),
ordered AS (
    INSERT INTO log_order (global, intent_id, from_seq, to_seq, at, mark)
    SELECT e.global + c.place, c.intent_id, c.seq, c.seq, c.at, e.mark
    FROM copies c CROSS JOIN (SELECT max(global) AS global, max(mark) AS mark FROM log_order) e)
UPDATE intent_clock c SET last_seq = c.last_seq + $1, last_at = now() FROM last l WHERE c.intent_id = l.intent_id";

/// Fills the database with `count` messages in these channels.
async fn fill(stage: &Stage, channels: &[String], count: usize) {
    for channel in channels {
        let message = json!({ "sender": "agent-0", "payload": { "text": "x".repeat(PAYLOAD) } });
        stage.post(&format!("/channels/{channel}/messages"), &message).await;
    }
    let mut connection = stage.connect().await;
    for _ in 0..PARTS {
        // The order continues behind what has no number yet; a transaction of its own, as the function asks.
        sqlx::raw_sql("SELECT log_sequence(0)").execute(&mut connection).await.unwrap();
        let each = i64::try_from(count / channels.len() / PARTS).unwrap();
        sqlx::query(COPY).bind(each).execute(&mut connection).await.unwrap();
    }
    // What autovacuum and the checkpointer have done in a database that grew slowly.
    for done in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
        sqlx::raw_sql(done).execute(&mut connection).await.unwrap();
    }
    let stored: i64 =
        sqlx::query_scalar("SELECT count(*) FROM messages").fetch_one(&mut connection).await.unwrap();
    assert_eq!(stored as usize, count + channels.len(), "the database has another number of messages");
    connection.close().await.unwrap();
}

/// Transactions that fill a database.
const PARTS: usize = 10;

/// Reads the new messages of these channels, over and over.
async fn read(stage: &Stage, channels: &[String]) -> Load {
    let item = json!({ "sender": "agent-0", "payload": { "text": "x".repeat(PAYLOAD) } });
    let batch = json!({ "messages": vec![item; NEW + 1] });
    let mut requests = Vec::new();
    for channel in channels {
        let path = format!("/channels/{channel}/messages");
        let sent = stage.post(&format!("{path}/batch"), &batch).await;
        let since = sent["results"][0]["message"]["id"].as_str().unwrap();
        requests.push(request("GET", &format!("/api/v1{path}?since={since}"), KEY, "", ""));
        let found = stage.get(&format!("{path}?since={since}")).await;
        assert_eq!(
            found.as_array().map(Vec::len),
            Some(NEW),
            "a read returns other messages than the new ones"
        );
    }
    let load = closed(stage.server.address, CLIENTS, spell(), move |client, n| {
        let channel = (client * 7_919 + n * 31) % requests.len();
        (channel, requests[channel].clone())
    })
    .await;
    assert_eq!(load.failures, 0, "reads were refused");
    load
}

/// Sends and reads in a database with many messages, beside the same in an empty one.
pub async fn history(report: &mut Report) {
    let (mut full, mut empty) = (Stage::set().await, Stage::set().await);
    let (count, intents) = (scaled(10_000_000, 20_000), scaled(100, 10));
    let (old, new) = (channels(&full, intents, false).await, channels(&empty, intents, false).await);
    fill(&full, &old, count).await;
    // Neither server has anything in its memory.
    full.restart().await;
    empty.restart().await;
    let (mut sends, mut reads) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..rounds() {
        for (place, (stage, to)) in [(&full, &old), (&empty, &new)].into_iter().enumerate() {
            reads[place].push(read(stage, to).await.rate());
            sends[place].push(send(stage, to, CLIENTS, false).await.rate());
        }
    }
    let conditions = format!("{count} messages on {intents} intents, {CLIENTS} clients");
    let [hard, easy] = sends.map(median);
    let detail = format!("{hard:.0} sends/s into {conditions}, {easy:.0} into an empty database");
    compare(report, "R8 sends into a history", hard, easy, detail);
    let [hard, easy] = reads.map(median);
    let detail = format!(
        "{hard:.0} reads/s of the {NEW} newest (`?since=`) of {conditions}, {easy:.0} of an empty database"
    );
    compare(report, "R8 reads from a history", hard, easy, detail);
    full.strike().await;
    empty.strike().await;
}
