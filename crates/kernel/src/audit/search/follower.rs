//! The follower: adds committed entries and jobs to the search, and says how far it is. Table `search_position`.
//!
//! One server at a time, under a lock that is tried, reads on from the position and moves the position in the same
//! transaction: a crash repeats a step or continues after it, and a source has one document either way. Entries of logs are
//! followed by `log_order`. Jobs have no such order until they have events: their ids, which contain their time, are
//! followed, and examined again when no transaction of that time can be open any more. A job that fails gets the words of its
//! error, by `job_order`.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::ids::floor;
use entente_runtime::tasks::share_thread;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::documents::{self, Document};
use super::sources;
use crate::log::GlobalPosition;
use crate::log::order::{self, OrderEnds, Parts};
use crate::{Ctx, Outcome, try_locks};

/// The advisory lock of the follower; the triggers that delete documents share it.
const LOCK: i64 = 0x656e_7465_6e74_6505;

/// Entries of logs that one step reads, at most.
pub const ENTRIES: i64 = 256;

/// New jobs, and numbers of the order of jobs' events, that one step reads, at most: a job has two texts.
const JOBS: i64 = 128;

/// Bytes of words that a step stores before it leaves the rest to the next one: retention waits for its lock.
const STEP_BYTES: usize = 2 * 1024 * 1024;

/// Jobs that one step examines again.
const SETTLED_JOBS: i64 = 2_000;

/// Age at which a job was committed or never will be: longer than any request and its transaction takes.
const SETTLED: Duration = Duration::from_mins(1);

/// Shortest time between two examinations of settled jobs.
const SETTLE_PAUSE: Duration = Duration::from_secs(30);

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Whether there is more to do at once.
    pub has_more: bool,
    /// The end of the orders, by which the follower knows whether others are writing.
    pub ends: (i64, i64),
}

/// Position of the follower.
#[derive(Debug, Clone)]
pub(super) struct Position {
    pub logs: GlobalPosition,
    pub logs_until: Option<Timestamp>,
    /// Position in the order of jobs' events.
    pub jobs: (i64, i64),
    pub job_id: Uuid,
    pub settled_id: Uuid,
    pub jobs_until: Option<Timestamp>,
}

/// How documents are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Care {
    /// All at once.
    Together,
    /// One by one, without those that PostgreSQL refuses.
    Each,
}

/// Adds the next page of documents: of so many entries of logs and as many jobs, at most.
///
/// # Errors
/// A database error.
pub async fn step(ctx: &Ctx, entries: i64) -> Outcome<Step> {
    match attempt(ctx, entries, Care::Together).await {
        Err(failure) if !failure.is_passing() => {
            tracing::warn!(error = %failure, "the search takes a page in one by one");
            attempt(ctx, entries, Care::Each).await
        }
        done => done,
    }
}

async fn attempt(ctx: &Ctx, entries: i64, care: Care) -> Outcome<Step> {
    let now = ctx.now();
    // Numbers are given outside a transaction, so that none is seen before it is committed.
    let ends = order::advance(&mut *ctx.pool.acquire().await?).await?;
    let mut step = Step { has_more: false, ends: (ends.logs.global, ends.jobs.0) };
    let mut tx = ctx.pool.begin().await?;
    if try_locks(&mut tx, &[LOCK]).await?.is_empty() {
        return Ok(step);
    }
    let mut position = load(&mut tx).await?;
    let (mut found, is_log_done) = logs(&mut tx, &mut position, &ends, entries, now).await?;
    let ids = jobs(&mut tx, &mut position, entries.min(JOBS), now).await?;
    let texts = sources::jobs(&mut tx, &ids.jobs.into_iter().collect::<Vec<_>>()).await?;
    for (n, job) in texts.iter().enumerate() {
        share_thread(n).await;
        found.push(job.document());
    }
    let skipped = store(&mut tx, &found, care).await?;
    save(&mut tx, &position).await?;
    tx.commit().await?;
    let cut = found.iter().filter(|document| document.is_cut()).count();
    ctx.metrics.search_outcome("indexed", found.len() - skipped);
    ctx.metrics.search_outcome("cut", cut);
    ctx.metrics.search_outcome("skipped", skipped);
    step.has_more = !is_log_done || ids.has_more;
    Ok(step)
}

/// Reads the next entries of logs; returns their documents, and whether the end is reached.
async fn logs(
    conn: &mut PgConnection,
    position: &mut Position,
    ends: &OrderEnds,
    entries: i64,
    now: Timestamp,
) -> Outcome<(Vec<Document>, bool)> {
    let parts = Parts::after(conn, position.logs, entries).await?;
    let mut found = Vec::new();
    for (n, entry) in sources::of_parts(conn, &parts).await?.into_iter().enumerate() {
        share_thread(n).await;
        found.push((parts.place(entry.intent_id, entry.seq), entry.document()));
    }
    found.sort_by_key(|(place, _)| *place);
    let mut bytes = 0;
    let fits = found.iter().take_while(|(_, document)| {
        let fits = bytes < STEP_BYTES;
        bytes += document.bytes();
        fits
    });
    let count = fits.count();
    let last = found.get(count.saturating_sub(1)).map(|(place, document)| (*place, document.at));
    let reached = if count < found.len() { last.map(|(place, _)| place) } else { None };
    position.logs = reached.unwrap_or(parts.reached);
    let is_done = position.logs >= ends.logs;
    // Entries with later numbers were written after this one.
    let until = if is_done { Some(now) } else { last.map(|(_, at)| at) };
    position.logs_until = position.logs_until.max(until);
    found.truncate(count);
    Ok((found.into_iter().map(|(_, document)| document).collect(), is_done))
}

/// Jobs to index.
struct Jobs {
    jobs: BTreeSet<Uuid>,
    has_more: bool,
}

/// Finds jobs that are new, that failed, or that were committed late.
async fn jobs(conn: &mut PgConnection, position: &mut Position, most: i64, now: Timestamp) -> Outcome<Jobs> {
    let failed = sources::failed_jobs(conn, position.jobs, most).await?;
    position.jobs = failed.reached;
    let fresh = sources::jobs_after(conn, position.job_id, most).await?;
    let is_end = i64::try_from(fresh.len()).is_ok_and(|count| count < most);
    position.job_id = fresh.last().copied().unwrap_or(position.job_id);
    let mut jobs: BTreeSet<Uuid> = fresh.into_iter().chain(failed.jobs).collect();
    let mut has_more = failed.is_full || !is_end;
    let bound = now - TimeDelta::from_std(SETTLED).unwrap_or(TimeDelta::MAX);
    let pause = TimeDelta::from_std(SETTLE_PAUSE).unwrap_or(TimeDelta::MAX);
    if is_end && position.jobs_until.is_none_or(|until| until + pause <= bound) {
        if position.jobs_until.is_none() {
            // Everything older was committed when it was read just now.
            position.settled_id = floor(bound - pause);
        }
        let settled = sources::missing_jobs(conn, position.settled_id, floor(bound), SETTLED_JOBS).await?;
        jobs.extend(settled.missing);
        if settled.is_full {
            position.settled_id = settled.reached.unwrap_or(position.settled_id);
            position.jobs_until = position.jobs_until.or(Some(bound - pause));
            has_more = true;
        } else {
            position.settled_id = floor(bound);
            position.jobs_until = Some(bound);
        }
    }
    Ok(Jobs { jobs, has_more })
}

/// Stores documents; returns how many PostgreSQL refused.
async fn store(conn: &mut PgConnection, found: &[Document], care: Care) -> Outcome<usize> {
    if care == Care::Together {
        documents::store(conn, &found.iter().collect::<Vec<_>>()).await?;
        return Ok(0);
    }
    let mut skipped = 0;
    for document in found {
        let mut point = conn.begin().await?;
        match documents::store(&mut point, &[document]).await {
            Ok(()) => point.commit().await?,
            Err(failure) if failure.is_passing() => return Err(failure),
            Err(failure) => {
                point.rollback().await?;
                skipped += 1;
                let (kind, source, seq) = (document.kind.as_str(), document.source_id, document.seq);
                tracing::warn!(kind, %source, seq, error = %failure, "the search leaves a source out");
            }
        }
    }
    Ok(skipped)
}

/// Loads the position.
pub(super) async fn load(conn: &mut PgConnection) -> Outcome<Position> {
    let row = sqlx::query!(
        "-- search_position::load
         SELECT global, global_seq, logs_until, job_global, job_seq, job_id, settled_id, jobs_until FROM search_position"
    )
    .fetch_one(conn)
    .await?;
    Ok(Position {
        logs: GlobalPosition { global: row.global, seq: row.global_seq },
        logs_until: row.logs_until,
        jobs: (row.job_global, row.job_seq),
        job_id: row.job_id,
        settled_id: row.settled_id,
        jobs_until: row.jobs_until,
    })
}

async fn save(conn: &mut PgConnection, position: &Position) -> Outcome<()> {
    sqlx::query!(
        "-- search_position::save
         UPDATE search_position SET global = $1, global_seq = $2, logs_until = $3, job_global = $4, job_seq = $5, job_id = $6,
                settled_id = $7, jobs_until = $8",
        position.logs.global,
        position.logs.seq,
        position.logs_until,
        position.jobs.0,
        position.jobs.1,
        position.job_id,
        position.settled_id,
        position.jobs_until
    )
    .execute(conn)
    .await?;
    Ok(())
}
