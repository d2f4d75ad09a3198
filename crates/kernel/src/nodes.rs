//! Servers that share the database: presence, the wake-ups that they want, and the texts of the notifications by which
//! they wake each other. Table `nodes`.
//!
//! A woken server reads the changes from the database. A lost wake-up only costs a moment, because every
//! server also polls (`streams::poll_topics`, `keys::refresh`).

use std::collections::BTreeMap;
use std::time::Duration;

use entente_domain::clock::Timestamp;
use entente_domain::ids::NodeId;
use entente_runtime::deadlines::within;

use super::{Ctx, Outcome};
use crate::wakeups::WakeKey;
use crate::wakeups::interest::{Shards, shard};

/// PostgreSQL channel that all servers listen to; the shards have channels of their own.
pub const TOPIC: &str = "entente";

/// Seconds without a sign after which a server counts as gone.
const GONE_AFTER_SECONDS: f64 = 10.0;

/// Seconds after which the probe row of an inactive server is deleted.
const PROBES_KEPT_SECONDS: f64 = 3_600.0;

/// Time limit of a writer's probe.
const PROBE: Duration = Duration::from_millis(1_500);

/// Maximum bytes of a notification's text; PostgreSQL accepts fewer than 8,000.
const PAYLOAD_BYTES: usize = 7_900;

/// Another server of this database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The server.
    pub node: NodeId,
    /// The wake-ups that it wants; `None` for a server of an earlier release, which is woken for everything on
    /// [`TOPIC`].
    pub interest: Option<Shards>,
    /// Where it takes commands for intents that it owns, if it does.
    pub peer_url: Option<String>,
}

/// The result of [`sign`].
#[derive(Debug)]
pub struct Signed {
    /// Whether this is its first sign.
    pub is_new: bool,
    /// The other servers that are alive.
    pub peers: Vec<Peer>,
}

/// This server, as it signs.
#[derive(Debug, Clone)]
pub struct Sign {
    /// The server.
    pub node: NodeId,
    /// When it started.
    pub started_at: Timestamp,
    /// The wake-ups that it wants.
    pub interest: Shards,
    /// Where it takes commands for intents that it owns, if it does.
    pub peer_url: Option<String>,
}

/// Records that this server is alive, with the wake-ups that it wants; returns the others that are alive.
///
/// # Errors
/// The database query fails.
pub async fn sign(ctx: &Ctx, own: &Sign) -> Outcome<Signed> {
    let rows = sqlx::query!(
        r#"-- nodes::sign
         WITH signed AS (
             INSERT INTO nodes (id, started_at, seen_at, interest, peer_url) VALUES ($1, $2, $3, $5, $6)
             ON CONFLICT (id) DO UPDATE
             SET seen_at = excluded.seen_at, interest = excluded.interest, peer_url = excluded.peer_url
             RETURNING id, xmax = 0 AS fresh),
         swept AS (DELETE FROM nodes WHERE seen_at < $3 - make_interval(secs => $4::double precision * 60) AND id <> $1)
         SELECT s.fresh AS "fresh!", n.id AS "id?", n.interest, n.peer_url FROM signed s
         LEFT JOIN nodes n ON n.id <> s.id AND n.seen_at > $3 - make_interval(secs => $4::double precision)"#,
        own.node.uuid(),
        own.started_at,
        ctx.now(),
        GONE_AFTER_SECONDS,
        own.interest.stored(),
        own.peer_url
    )
    .fetch_all(&ctx.pool)
    .await?;
    let is_new = rows.iter().any(|row| row.fresh);
    let peer = |id: uuid::Uuid, interest: Option<i64>, peer_url| Peer {
        node: id.into(),
        interest: interest.map(Shards::from_stored),
        peer_url,
    };
    let peers = rows.into_iter().filter_map(|row| Some(peer(row.id?, row.interest, row.peer_url))).collect();
    Ok(Signed { is_new, peers })
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

/// Returns the PostgreSQL channel of a shard.
#[must_use]
pub fn channel(shard: u8) -> String {
    format!("{TOPIC}_{shard}")
}

/// Returns the notifications of these changes to the other servers: the shard and the text of each.
#[must_use]
pub fn notifications(node: NodeId, touched: impl IntoIterator<Item = WakeKey>) -> Vec<(u8, String)> {
    let mut payloads: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    for touch in touched {
        let word = format!(" {touch}");
        let of_shard = payloads.entry(shard(&touch)).or_default();
        match of_shard.last_mut() {
            Some(payload) if payload.len() + word.len() <= PAYLOAD_BYTES => payload.push_str(&word),
            _ => of_shard.push(format!("{node}{word}")),
        }
    }
    payloads
        .into_iter()
        .flat_map(|(shard, all)| all.into_iter().map(move |payload| (shard, payload)))
        .collect()
}

/// Notifies the servers that listen to these PostgreSQL channels.
///
/// Never call it inside an operation's transaction: a notification takes a lock shared by all committing
/// transactions.
///
/// # Errors
/// The database query fails.
pub async fn notify(ctx: &Ctx, channels: &[String], payloads: &[String]) -> Outcome<()> {
    sqlx::query!(
        "-- nodes::notify
         SELECT pg_notify(c, p) FROM UNNEST($1::text[], $2::text[]) AS n (c, p)",
        channels,
        payloads
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(())
}

/// Contents of a notification.
#[derive(Debug, PartialEq, Eq)]
pub struct Notification {
    /// The server that sent it.
    pub sender: NodeId,
    /// The changed keys.
    pub touched: Vec<WakeKey>,
    /// The wake-ups that the sender wants from now on, if it says so.
    pub interest: Option<Shards>,
}

/// Parses a notification; `None` if it is not ours. Words of a later release are passed over.
#[must_use]
pub fn read(payload: &str) -> Option<Notification> {
    let mut words = payload.split(' ');
    let sender = words.next()?.parse().ok()?;
    let (mut touched, mut interest) = (Vec::new(), None);
    for word in words {
        match Shards::announced(word) {
            Some(shards) => interest = Some(shards),
            None => touched.extend(word.parse::<WakeKey>()),
        }
    }
    Some(Notification { sender, touched, interest })
}
