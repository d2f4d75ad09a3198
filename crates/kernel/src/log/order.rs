//! The order over the logs of all intents, and its kin over the events of jobs and the envelopes of buses: numbers that are
//! dense and durable, given after the commit. Tables `log_order` and `log_unsequenced`.
//!
//! A write leaves a mark in its transaction (triggers of the schema do it, so that nobody forgets). The function
//! `log_sequence` (`migrations/20261126070000_sequence_by_range.sql`) gives numbers to the marked parts; whoever reads everything
//! calls it first, and the servers call it from time to time while nobody reads (`src/background/feeding.rs`). Numbers whose
//! entries are all deleted are deleted too.

use std::collections::HashMap;
use std::time::Duration;

use entente_domain::ids::IntentId;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::log::{FormerPosition, GlobalPosition};
use crate::{Ctx, Outcome};

/// Parts of logs that one read takes: each has at least one entry.
const PARTS: i64 = 256;

/// Calls in a row until a backlog counts as done: its rest waits for the next call.
const CALLS: usize = 64;

/// The ends of the orders.
#[derive(Debug, Clone, Copy)]
pub struct OrderEnds {
    /// End of the order over all logs.
    pub logs: GlobalPosition,
    /// End of the order over the events of all jobs: the number, and the event in its job.
    pub jobs: (i64, i64),
    /// Number of the last envelope to a bus.
    pub buses: i64,
    /// The last mark that any server has given.
    pub last_mark: i64,
}

/// Gives numbers to everything that was committed before this call. The connection has no open transaction: a number must
/// not be seen before it is committed.
///
/// # Errors
/// A database error.
pub async fn advance(conn: &mut PgConnection) -> Outcome<OrderEnds> {
    advance_after(conn, None).await
}

/// Like [`advance`], and searches all marks after one, instead of the recent ones.
///
/// # Errors
/// A database error.
pub async fn advance_after(conn: &mut PgConnection, low: Option<i64>) -> Outcome<OrderEnds> {
    let mut calls = 0;
    loop {
        let row = sqlx::query!(
            r#"-- log_order::advance
             SELECT log_end AS "log_end!", log_seq AS "log_seq!", job_end AS "job_end!", job_seq AS "job_seq!",
                    bus_end AS "bus_end!", last_mark AS "last_mark!", is_more AS "is_more!" FROM log_sequence($1)"#,
            low
        )
        .fetch_one(&mut *conn)
        .await?;
        calls += 1;
        if !row.is_more || calls >= CALLS {
            return Ok(OrderEnds {
                logs: GlobalPosition { global: row.log_end, seq: row.log_seq },
                jobs: (row.job_end, row.job_seq),
                buses: row.bus_end,
                last_mark: row.last_mark,
            });
        }
    }
}

/// Parts of logs that follow each other in the order.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Numbers, intents, and the first and last entries, as parallel columns.
    pub globals: Vec<i64>,
    pub intents: Vec<Uuid>,
    pub from: Vec<i64>,
    pub to: Vec<i64>,
    /// The position after the last entry; where the read began, if there is none.
    pub reached: GlobalPosition,
    /// Parts of each intent: last entry and number, ascending.
    of_intents: HashMap<Uuid, Vec<(i64, i64)>>,
}

impl Parts {
    /// Reads the parts after a position, up to `entries` entries.
    pub async fn after(conn: &mut PgConnection, place: GlobalPosition, entries: i64) -> Outcome<Self> {
        let rows = sqlx::query!(
            r#"-- log_order::after
             SELECT global, intent_id, greatest(from_seq, CASE WHEN global = $1 THEN $2::bigint + 1 ELSE 0 END) AS "from_seq!", to_seq
             FROM log_order WHERE global >= $1 AND (global > $1 OR to_seq > $2) ORDER BY global LIMIT $3"#,
            place.global,
            place.seq,
            PARTS
        )
        .fetch_all(conn)
        .await?;
        let mut parts = Self {
            globals: Vec::with_capacity(rows.len()),
            intents: Vec::with_capacity(rows.len()),
            from: Vec::with_capacity(rows.len()),
            to: Vec::with_capacity(rows.len()),
            reached: place,
            of_intents: HashMap::new(),
        };
        let mut left = entries;
        for row in rows {
            if left <= 0 {
                break;
            }
            let to = row.to_seq.min(row.from_seq.saturating_add(left - 1));
            left -= to - row.from_seq + 1;
            parts.globals.push(row.global);
            parts.intents.push(row.intent_id);
            parts.from.push(row.from_seq);
            parts.to.push(to);
            parts.of_intents.entry(row.intent_id).or_default().push((to, row.global));
            parts.reached = GlobalPosition { global: row.global, seq: to };
        }
        Ok(parts)
    }

    /// Whether there is nothing after the position.
    pub fn is_empty(&self) -> bool {
        self.globals.is_empty()
    }

    /// Returns the position of an entry of these parts.
    pub fn place(&self, intent: IntentId, seq: i64) -> GlobalPosition {
        let parts = self.of_intents.get(&intent.uuid()).map_or(&[][..], Vec::as_slice);
        let at = parts.partition_point(|(to, _)| *to < seq);
        // Entries are read by these parts, so each is in one of them.
        let global = parts.get(at).map_or(self.reached.global, |(_, global)| *global);
        GlobalPosition { global, seq }
    }
}

/// Returns the positions of these entries, in their order; `None` for those without a number yet.
///
/// # Errors
/// A database error.
pub async fn places(
    conn: &mut PgConnection,
    entries: &[(IntentId, i64)],
) -> Outcome<Vec<Option<GlobalPosition>>> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"-- log_order::places
         SELECT k.seq AS "seq!", (SELECT o.global FROM log_order o WHERE o.intent_id = k.intent_id AND o.to_seq >= k.seq
                                  ORDER BY o.to_seq LIMIT 1) AS global
         FROM UNNEST($1::uuid[], $2::bigint[]) WITH ORDINALITY AS k (intent_id, seq, number) ORDER BY k.number"#,
        &entries.iter().map(|(intent, _)| intent.uuid()).collect::<Vec<_>>(),
        &entries.iter().map(|(_, seq)| *seq).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| GlobalPosition::stored(row.global, Some(row.seq))).collect())
}

/// Returns the positions of these events of the system log, where receivers, triggers and replays begin or end.
///
/// # Errors
/// A database error.
pub async fn places_in_system(
    conn: &mut PgConnection,
    seqs: &[i64],
) -> Outcome<HashMap<i64, GlobalPosition>> {
    let mut seqs = seqs.to_vec();
    seqs.sort_unstable();
    seqs.dedup();
    let entries: Vec<(IntentId, i64)> = seqs.iter().map(|seq| (IntentId::SYSTEM, *seq)).collect();
    let found = places(conn, &entries).await?;
    Ok(seqs.into_iter().zip(found).filter_map(|(seq, place)| Some((seq, place?))).collect())
}

/// Translates a position of the form before.
///
/// # Errors
/// A database error.
pub async fn translate(conn: &mut PgConnection, former: FormerPosition) -> Outcome<GlobalPosition> {
    let row = sqlx::query!(
        r#"-- log_order::translate
         SELECT global AS "global!", seq AS "seq!" FROM log_place($1, $2, $3)"#,
        former.xid,
        former.intent_id.uuid(),
        former.seq
    )
    .fetch_one(conn)
    .await?;
    Ok(GlobalPosition { global: row.global, seq: row.seq })
}

/// Time between two searches for numbers to delete: each reads the whole order.
const SEARCH_PAUSE: Duration = Duration::from_hours(24);

/// Age of numbers that may be deleted: readers that keep up are far beyond them.
pub const FORGOTTEN_AFTER: Duration = Duration::from_hours(24);

/// Deletes numbers whose entries are all deleted, in a search that examines up to `limit` numbers; returns the number of
/// examined ones while the search goes on, and of deleted ones at its end.
///
/// The last number of each log stays, because the next part of the log begins after it; with it the last of all stays.
/// So do numbers by which receivers, triggers and replays know where they begin or end. A reader whose number is gone
/// continues with the next one: nothing was left in between.
///
/// # Errors
/// A database error.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let mut tx = ctx.pool.begin().await?;
    let search = sqlx::query_scalar!(
        "-- log_order_search::take
         SELECT global FROM log_order_search WHERE global > 0 OR ended_at IS NULL OR ended_at <= $1
         FOR UPDATE SKIP LOCKED",
        now - SEARCH_PAUSE
    );
    let Some(after) = search.fetch_optional(&mut *tx).await? else {
        tx.rollback().await?;
        return Ok(0);
    };
    let done = sqlx::query!(
        r#"-- log_order::forget
         WITH page AS MATERIALIZED (SELECT global, at FROM log_order WHERE global > $1 ORDER BY global LIMIT $3),
         gone AS (DELETE FROM log_order WHERE global = ANY (ARRAY(
                      SELECT v.global FROM page p JOIN log_order_empty v ON v.global = p.global WHERE p.at < $2))
                  RETURNING global)
         SELECT (SELECT count(*) FROM gone) AS "gone!", (SELECT count(*) FROM page) AS "examined!",
                (SELECT max(global) FROM page WHERE at < $2) AS reached,
                EXISTS (SELECT 1 FROM page WHERE at >= $2) AS "is_young!""#,
        after,
        now - FORGOTTEN_AFTER,
        limit
    )
    .fetch_one(&mut *tx)
    .await?;
    let over = done.is_young || done.examined < limit;
    sqlx::query!(
        "-- log_order_search::save
         UPDATE log_order_search SET global = $1, ended_at = coalesce($2, ended_at)",
        if over { 0 } else { done.reached.unwrap_or(0) },
        over.then_some(now)
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(u64::try_from(if over { done.gone } else { done.examined }).unwrap_or(0))
}

/// Makes the next search for numbers to delete due at once.
///
/// # Errors
/// A database error.
pub async fn search_again(ctx: &Ctx) -> Outcome<()> {
    sqlx::query!("-- log_order_search::again\n UPDATE log_order_search SET global = 0, ended_at = NULL")
        .execute(&ctx.pool)
        .await?;
    Ok(())
}

/// Counts the numbers that [`forget`] deletes.
///
/// # Errors
/// A database error.
pub async fn count_forgotten(ctx: &Ctx) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- log_order::count_forgotten
         SELECT count(*) AS "count!" FROM log_order_empty WHERE at < $1"#,
        ctx.now() - FORGOTTEN_AFTER
    )
    .fetch_one(&ctx.pool)
    .await?;
    Ok(count)
}
