//! Rows of mailboxes: tables `aee_mailboxes` and `aee_items`. `mailboxes.rs` checks ownership.

use std::collections::{HashMap, HashSet};

use chrono::TimeDelta;
use entente_domain::aee::envelopes::Priority;
use entente_domain::clock::Timestamp;
use entente_domain::limits::PAGE_BYTES;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Caller, Outcome};
use sqlx::PgConnection;

use super::{Ack, Known, Mailbox, MailboxItem};
use crate::envelopes::{StoredEnvelope, load_all};

/// Byte limit of the envelopes in one response; at least one is returned.
const BYTES: i64 = PAGE_BYTES;

/// An envelope to put into a mailbox.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub entity: String,
    seq: i64,
    envelope_id: String,
    effective: Priority,
    received_at: Timestamp,
}

impl Item {
    pub fn new(
        entity: &str,
        seq: i64,
        envelope_id: &str,
        effective: Priority,
        received_at: Timestamp,
    ) -> Self {
        let (entity, envelope_id) = (entity.to_owned(), envelope_id.to_owned());
        Self { entity, seq, envelope_id, effective, received_at }
    }

    /// Id of its envelope.
    pub fn envelope_id(&self) -> &str {
        &self.envelope_id
    }

    /// The item as shown to readers of the mailbox.
    pub fn with_envelope(&self, envelope: StoredEnvelope) -> MailboxItem {
        MailboxItem { seq: self.seq, received_at: self.received_at, held_until: None, envelope }
    }

    /// Time that orders the item for picking: its receipt, minus the lead of its priority.
    fn rank(&self) -> Timestamp {
        let lead = TimeDelta::seconds(i64::from(self.effective.lead_seconds()));
        self.received_at.checked_sub_signed(lead).unwrap_or(self.received_at)
    }
}

/// Items after a number, oldest first; `all` includes acknowledged ones.
pub(super) async fn after(
    conn: &mut PgConnection,
    entity: &str,
    after: i64,
    limit: u32,
    all: bool,
) -> Outcome<Vec<MailboxItem>> {
    let rows = sqlx::query_as!(
        Place,
        r#"-- aee_items::read
         SELECT seq AS "seq!", envelope_id AS "envelope_id!", received_at AS "received_at!", held_until
         FROM (
             SELECT i.seq, i.envelope_id, i.received_at, i.held_until,
                    sum(octet_length(e.body)) OVER (ORDER BY i.seq) - octet_length(e.body) AS before
             FROM aee_items i JOIN aee_envelopes e ON e.id = i.envelope_id
             WHERE i.entity = $1 AND i.seq > $2 AND ($5 OR i.acked_at IS NULL) ORDER BY i.seq LIMIT $3) AS page
         WHERE before < $4 ORDER BY seq"#,
        entity,
        after,
        i64::from(limit),
        BYTES,
        all
    )
    .fetch_all(&mut *conn)
    .await?;
    with_envelopes(conn, rows).await
}

/// Picks the most urgent free items and holds them until a time.
pub(super) async fn next(
    conn: &mut PgConnection,
    entity: &str,
    max: u32,
    now: Timestamp,
    until: Timestamp,
) -> Outcome<Vec<MailboxItem>> {
    let mut rows = sqlx::query!(
        "-- aee_items::pick
         WITH picked AS (
             SELECT seq FROM aee_items
             WHERE entity = $1 AND acked_at IS NULL AND (held_until IS NULL OR held_until <= $2)
             ORDER BY rank, seq LIMIT $3 FOR UPDATE SKIP LOCKED)
         UPDATE aee_items i SET held_until = $4 FROM picked p WHERE i.entity = $1 AND i.seq = p.seq
         RETURNING i.seq, i.envelope_id, i.received_at, i.held_until, i.rank",
        entity,
        now,
        i64::from(max),
        until
    )
    .fetch_all(&mut *conn)
    .await?;
    // `RETURNING` has no defined order.
    rows.sort_by_key(|row| (row.rank, row.seq));
    let rows = rows.into_iter().map(|row| Place {
        seq: row.seq,
        envelope_id: row.envelope_id,
        received_at: row.received_at,
        held_until: row.held_until,
    });
    let rows = rows.collect();
    with_envelopes(conn, rows).await
}

/// Releases items held until exactly this time.
pub(super) async fn free(
    conn: &mut PgConnection,
    entity: &str,
    seqs: &[i64],
    until: Timestamp,
) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- aee_items::free
         UPDATE aee_items SET held_until = NULL
         WHERE entity = $1 AND seq = ANY($2) AND held_until = $3 AND acked_at IS NULL",
        entity,
        seqs,
        until
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Marks items as acknowledged and advances the mailbox.
pub(super) async fn mark(conn: &mut PgConnection, entity: &str, ack: &Ack, now: Timestamp) -> Outcome<()> {
    // Two statements, each with its index: one acknowledgement in a full mailbox must not scan all waiting
    // items.
    let marked = match ack {
        Ack::UpTo(seq) => {
            let up_to = sqlx::query!(
                "-- aee_items::ack_up_to
                 UPDATE aee_items SET acked_at = $3, held_until = NULL
                 WHERE entity = $1 AND acked_at IS NULL AND seq <= $2",
                entity,
                seq,
                now
            );
            up_to.execute(&mut *conn).await
        }
        Ack::These(seqs) => {
            let these = sqlx::query!(
                "-- aee_items::ack_these
                 UPDATE aee_items SET acked_at = $3, held_until = NULL
                 WHERE entity = $1 AND seq = ANY($2) AND acked_at IS NULL",
                entity,
                seqs,
                now
            );
            these.execute(&mut *conn).await
        }
    };
    marked?;
    // Everything before the first waiting item is acknowledged.
    sqlx::query!(
        "-- aee_mailboxes::acked
         UPDATE aee_mailboxes m SET acked_seq = greatest(m.acked_seq, coalesce(
             (SELECT min(i.seq) - 1 FROM aee_items i
              WHERE i.entity = m.entity AND i.acked_at IS NULL AND i.seq > m.acked_seq), m.last_seq))
         WHERE m.entity = $1",
        entity
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Acknowledges one item that this server itself has processed.
///
/// # Errors
/// A database error.
pub async fn take_out(conn: &mut PgConnection, entity: &str, seq: i64, now: Timestamp) -> Outcome<()> {
    lock_rows(conn, &[entity]).await?;
    mark(conn, entity, &Ack::These(vec![seq]), now).await
}

struct Place {
    seq: i64,
    envelope_id: String,
    received_at: Timestamp,
    held_until: Option<Timestamp>,
}

async fn with_envelopes(conn: &mut PgConnection, places: Vec<Place>) -> Outcome<Vec<MailboxItem>> {
    let ids: Vec<&str> = places.iter().map(|place| place.envelope_id.as_str()).collect();
    let envelopes = load_all(conn, &ids).await?;
    let items = places.into_iter().filter_map(|place| {
        let envelope = envelopes.get(&place.envelope_id)?.clone();
        Some(MailboxItem {
            seq: place.seq,
            received_at: place.received_at,
            held_until: place.held_until,
            envelope,
        })
    });
    Ok(items.collect())
}

/// Loads an entity's mailbox, if it has one.
///
/// # Errors
/// The database query fails.
pub async fn find(conn: &mut PgConnection, entity: &str) -> Outcome<Option<Mailbox>> {
    let found = sqlx::query_as!(
        Mailbox,
        "-- aee_mailboxes::find\n SELECT entity, last_seq, acked_seq FROM aee_mailboxes WHERE entity = $1",
        entity
    );
    Ok(found.fetch_optional(conn).await?)
}

/// Opens a mailbox unless it exists.
pub(crate) async fn open_row(conn: &mut PgConnection, entity: &str, by: &str, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- aee_mailboxes::open
         INSERT INTO aee_mailboxes (entity, opened_by, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        entity,
        by,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Locks the mailboxes of these entities in the order of their names and returns their last numbers.
///
/// Creates those of known principals and agents; unknown entities without a mailbox are left out.
pub(crate) async fn lock(
    conn: &mut PgConnection,
    known: &mut Known,
    entities: &[&str],
    now: Timestamp,
) -> Outcome<HashMap<String, i64>> {
    let new: Vec<&str> = entities.iter().copied().filter(|entity| !known.contains(entity)).collect();
    if !new.is_empty() {
        sqlx::query!(
            "-- aee_mailboxes::known
             INSERT INTO aee_mailboxes (entity, created_at)
             SELECT e, $2 FROM UNNEST($1::text[]) AS e
             WHERE NOT EXISTS (SELECT 1 FROM aee_mailboxes m WHERE m.entity = e)
               AND (EXISTS (SELECT 1 FROM principals p WHERE p.id = e) OR EXISTS (SELECT 1 FROM agents a WHERE a.agent_id = e))
             ORDER BY e ON CONFLICT DO NOTHING",
            &new as &[&str],
            now
        )
        .execute(&mut *conn)
        .await?;
    }
    if entities.is_empty() {
        return Ok(HashMap::new());
    }
    let ends = lock_rows(conn, entities).await?;
    new.into_iter().filter(|entity| ends.contains_key(*entity)).for_each(|entity| known.add(entity));
    Ok(ends)
}

pub(super) async fn lock_rows(conn: &mut PgConnection, entities: &[&str]) -> Outcome<HashMap<String, i64>> {
    let rows = sqlx::query!(
        "-- aee_mailboxes::lock
         SELECT entity, last_seq FROM aee_mailboxes WHERE entity = ANY($1) ORDER BY entity FOR UPDATE",
        entities as &[&str]
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.entity, row.last_seq)).collect())
}

/// Returns those of these mailboxes that another transaction has locked.
pub(crate) async fn locked(conn: &mut PgConnection, entities: &[&str]) -> Outcome<HashSet<String>> {
    let locked = sqlx::query_scalar!(
        r#"-- aee_mailboxes::locked
         WITH free AS (SELECT entity FROM aee_mailboxes WHERE entity = ANY($1) FOR UPDATE SKIP LOCKED)
         SELECT entity AS "entity!" FROM aee_mailboxes
         WHERE entity = ANY($1) AND entity NOT IN (SELECT entity FROM free)"#,
        entities as &[&str]
    )
    .fetch_all(conn)
    .await?;
    Ok(locked.into_iter().collect())
}

/// Puts envelopes into locked mailboxes.
pub(crate) async fn put(conn: &mut PgConnection, items: &[Item]) -> Outcome<()> {
    if items.is_empty() {
        return Ok(());
    }
    let entities: Vec<&str> = items.iter().map(|item| item.entity.as_str()).collect();
    let seqs: Vec<i64> = items.iter().map(|item| item.seq).collect();
    let ids: Vec<&str> = items.iter().map(|item| item.envelope_id.as_str()).collect();
    let at: Vec<Timestamp> = items.iter().map(|item| item.received_at).collect();
    let priorities: Vec<&str> = items.iter().map(|item| item.effective.as_str()).collect();
    let ranks: Vec<Timestamp> = items.iter().map(Item::rank).collect();
    sqlx::query!(
        "-- aee_items::put
         WITH put AS (
             INSERT INTO aee_items (entity, seq, envelope_id, received_at, effective_priority, rank)
             SELECT * FROM UNNEST($1::text[], $2::bigint[], $3::text[], $4::timestamptz[], $5::text[], $6::timestamptz[])
             RETURNING entity, seq)
         UPDATE aee_mailboxes m SET last_seq = p.last FROM (SELECT entity, max(seq) AS last FROM put GROUP BY entity) p
         WHERE m.entity = p.entity",
        &entities as &[&str],
        &seqs,
        &ids as &[&str],
        &at,
        &priorities as &[&str],
        &ranks
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Entities that have an envelope in their mailboxes.
pub(crate) async fn holders(conn: &mut PgConnection, envelope_id: &str) -> Outcome<Vec<String>> {
    let holders = sqlx::query_scalar!(
        "-- aee_items::holders\n SELECT entity FROM aee_items WHERE envelope_id = $1 ORDER BY entity",
        envelope_id
    );
    Ok(holders.fetch_all(conn).await?)
}

/// Returns those of these envelopes that are in a mailbox of the caller: its own, or one of a non-human
/// entity that matches the caller's names (`LIKE`).
pub(crate) async fn held_by(
    conn: &mut PgConnection,
    envelopes: &[&str],
    caller: &Caller,
) -> Outcome<HashSet<String>> {
    if envelopes.is_empty() {
        return Ok(HashSet::new());
    }
    let held = sqlx::query_scalar!(
        r#"-- aee_items::held_by
         SELECT e.id AS "id!" FROM UNNEST($1::text[]) AS e (id)
         WHERE EXISTS (
             SELECT 1 FROM aee_items i
             WHERE i.envelope_id = e.id AND i.entity LIKE ANY($2::text[])
               AND (i.entity = $3
                    OR coalesce((SELECT p.kind <> 'human' FROM principals p WHERE p.id = i.entity),
                                i.entity NOT LIKE 'human.%')))"#,
        envelopes as &[&str],
        &caller.names(),
        caller.principal()
    );
    Ok(held.fetch_all(conn).await?.into_iter().collect())
}

/// Last numbers of those of these mailboxes that have waiters.
///
/// # Errors
/// The database query fails.
pub(crate) async fn versions(
    ctx: &entente_kernel::Ctx,
    listened: &[WakeKey],
) -> Outcome<Vec<(WakeKey, i64)>> {
    let entities: Vec<&str> = listened
        .iter()
        .filter_map(|touch| match touch {
            WakeKey::Mailbox(entity) => Some(entity.as_str()),
            _ => None,
        })
        .collect();
    if entities.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        "-- aee_mailboxes::moved\n SELECT entity, last_seq FROM aee_mailboxes WHERE entity = ANY($1)",
        &entities as &[&str]
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(rows.into_iter().map(|row| (WakeKey::Mailbox(row.entity), row.last_seq)).collect())
}

/// Deletes the items of deleted envelopes.
pub(crate) async fn forget(conn: &mut PgConnection, envelopes: &[String]) -> Outcome<()> {
    sqlx::query!("-- aee_items::forget\n DELETE FROM aee_items WHERE envelope_id = ANY($1)", envelopes)
        .execute(conn)
        .await?;
    Ok(())
}
