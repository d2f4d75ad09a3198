//! Servers that share the database: presence, detection of peers, and wake-up notifications. Table `nodes`.
//!
//! A woken server reads the changes from the database. A lost wake-up only costs a moment, because every
//! server also polls (`streams::poll_topics`, `keys::refresh`).

use std::time::Duration;

use entente_domain::clock::Timestamp;
use entente_domain::ids::NodeId;
use entente_runtime::deadlines::within;

use super::{Ctx, Outcome};
use crate::wakeups::WakeKey;

/// PostgreSQL channel on which servers wake each other.
pub const TOPIC: &str = "entente";

/// Seconds without a sign after which a server counts as gone.
const GONE_AFTER_SECONDS: f64 = 10.0;

/// Seconds after which the probe row of an inactive server is deleted.
const PROBES_KEPT_SECONDS: f64 = 3_600.0;

/// Time limit of a writer's probe.
const PROBE: Duration = Duration::from_millis(1_500);

/// Maximum bytes of a notification's text; PostgreSQL accepts fewer than 8,000.
const PAYLOAD_BYTES: usize = 7_900;

/// Records that this server is alive and returns whether others are.
///
/// A new server wakes the others, so that they know of it at once.
///
/// # Errors
/// The database query fails.
pub async fn sign(ctx: &Ctx, node: NodeId, started_at: Timestamp) -> Outcome<bool> {
    let now = ctx.now();
    let row = sqlx::query!(
        r#"-- nodes::sign
         WITH signed AS (
             INSERT INTO nodes (id, started_at, seen_at) VALUES ($1, $2, $3)
             ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
             RETURNING xmax = 0 AS fresh),
         swept AS (DELETE FROM nodes WHERE seen_at < $3 - make_interval(secs => $4::double precision * 60) AND id <> $1)
         SELECT (SELECT fresh FROM signed) AS "fresh!",
                EXISTS (SELECT 1 FROM nodes WHERE id <> $1 AND seen_at > $3 - make_interval(secs => $4::double precision)) AS "peers!""#,
        node.uuid(),
        started_at,
        now,
        GONE_AFTER_SECONDS
    )
    .fetch_one(&ctx.pool)
    .await?;
    if row.fresh && row.peers {
        wake(ctx, node, []).await?;
    }
    Ok(row.peers)
}

/// Performs a write without meaning, to check that this server can write.
///
/// It always updates the same row, which takes no more space, and deletes rows of long inactive servers.
///
/// # Errors
/// The write fails.
pub async fn probe(ctx: &Ctx, node: NodeId) -> Outcome<()> {
    let written = async {
        sqlx::query!(
            "-- nodes::probe
             WITH gone AS (
                 DELETE FROM node_probes
                 WHERE written_at < $2::timestamptz - make_interval(secs => $3::double precision) AND node_id <> $1)
             INSERT INTO node_probes (node_id, written_at) VALUES ($1, $2)
             ON CONFLICT (node_id) DO UPDATE SET count = node_probes.count + 1, written_at = excluded.written_at",
            node.uuid(),
            ctx.now(),
            PROBES_KEPT_SECONDS
        )
        .execute(&ctx.pool)
        .await
    };
    within(PROBE, written).await??;
    Ok(())
}

/// Performs a read, to check that this server can read.
///
/// # Errors
/// The read fails.
pub async fn look(ctx: &Ctx) -> Outcome<()> {
    sqlx::query_scalar!(
        r#"-- nodes::look
         SELECT EXISTS (SELECT 1 FROM intents) AS "any!""#
    )
    .fetch_one(&ctx.pool)
    .await?;
    Ok(())
}

/// Removes this server from the list.
///
/// # Errors
/// The database query fails.
pub async fn leave(ctx: &Ctx, node: NodeId) -> Outcome<()> {
    sqlx::query!("-- nodes::leave\n DELETE FROM nodes WHERE id = $1", node.uuid()).execute(&ctx.pool).await?;
    Ok(())
}

/// Wakes the other servers for these changes.
///
/// Never call it inside an operation's transaction: a notification takes a lock shared by all committing
/// transactions.
///
/// # Errors
/// The database query fails.
pub async fn wake(ctx: &Ctx, node: NodeId, touched: impl IntoIterator<Item = WakeKey>) -> Outcome<()> {
    let mut payloads = vec![node.to_string()];
    for touch in touched {
        let word = format!(" {touch}");
        match payloads.last_mut() {
            Some(payload) if payload.len() + word.len() <= PAYLOAD_BYTES => payload.push_str(&word),
            _ => payloads.push(format!("{node}{word}")),
        }
    }
    sqlx::query!("-- nodes::wake\n SELECT pg_notify($1, p) FROM UNNEST($2::text[]) AS p", TOPIC, &payloads)
        .fetch_all(&ctx.pool)
        .await?;
    Ok(())
}

/// Parses a notification into its sender and wake keys; `None` if it is not ours.
#[must_use]
pub fn read(payload: &str) -> Option<(NodeId, Vec<WakeKey>)> {
    let mut words = payload.split(' ');
    let node = words.next()?.parse().ok()?;
    Some((node, words.filter_map(|word| word.parse().ok()).collect()))
}
