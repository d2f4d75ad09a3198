//! The follower: writes entries of inboxes behind the logs, the ends of jobs and the mailboxes. Table `inbox_cursor`.
//!
//! One server at a time reads on from the position, adds entries, and moves the position in the same transaction. A
//! crash repeats a step or continues after it; each entry is added once either way.

use std::collections::HashMap;

use entente_domain::inbox::{Attention, Ring};
use sqlx::PgConnection;

use super::matching::{Item, Origin};
use super::rows::NewEntry;
use super::{mail, matching, rows};
use crate::log::GlobalPosition;
use crate::log::order::{self, OrderEnds, Parts};
use crate::wakeups::WakeKey;
use crate::{Ctx, Outcome, notifications, try_locks};

/// The advisory lock for moving the position: only tried, so that the other servers do not wait for it.
const LOCK: i64 = 0x656e_7465_6e74_6509;

/// Limit of entries added in one transaction, which only its last item may exceed, so that it is short.
const ROWS: usize = 2_000;

/// Entries of the logs that are read in one step: without their content.
const ENTRIES: i64 = 1_024;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There was nothing more to read.
    Idle,
    /// Another server is at it.
    Busy,
    /// There may be more.
    More,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    logs: GlobalPosition,
    jobs: (i64, i64),
}

/// Takes the follower's lock, for work on the same rows; returns whether it is free.
pub(super) async fn try_lock(conn: &mut PgConnection) -> Outcome<bool> {
    Ok(!try_locks(conn, &[LOCK]).await?.is_empty())
}

/// Makes the follower begin at these ends, unless it has begun. An inbox that is opened in the same transaction is seen by
/// every later step.
pub(super) async fn begin_at(conn: &mut PgConnection, ends: &OrderEnds) -> Outcome<()> {
    sqlx::query!(
        "-- inbox_cursor::begin
         UPDATE inbox_cursor SET global = coalesce(global, $1), global_seq = coalesce(global_seq, $2), job = coalesce(job, $3),
                                 job_seq = coalesce(job_seq, $4)",
        ends.logs.global,
        ends.logs.seq,
        ends.jobs.0,
        ends.jobs.1
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds the entries of the next page; `mailboxes` has those that may have something new, `None` all of them.
///
/// # Errors
/// A database error.
pub async fn step(ctx: &Ctx, mailboxes: Option<&[String]>) -> Outcome<Step> {
    let mut conn = ctx.pool.acquire().await?;
    if load(&mut conn).await?.is_none() {
        return Ok(Step::Idle);
    }
    order::advance(&mut conn).await?;
    drop(conn);
    let mut tx = ctx.pool.begin().await?;
    if !try_lock(&mut tx).await? {
        return Ok(Step::Busy);
    }
    let Some(cursor) = load(&mut tx).await? else { return Ok(Step::Idle) };
    if !rows::any(&mut tx).await? {
        stop(&mut tx).await?;
        tx.commit().await?;
        return Ok(Step::Idle);
    }
    // Parts have numbers only after their commit, so the reads that follow see all of their entries.
    let parts = Parts::after(&mut tx, cursor.logs, ENTRIES).await?;
    let (ends, jobs_reached, more_jobs) = mail::ends_of_jobs(&mut tx, cursor.jobs).await?;
    let new_mail = match mailboxes {
        Some([]) => mail::NewMail { items: Vec::new(), reached: Vec::new() },
        _ => mail::envelopes(&mut tx, mailboxes).await?,
    };
    let mut items = matching::items(ctx, &mut tx, &parts).await?;
    let mut logs_reached = parts.reached;
    if let Some(last) = over(&items) {
        logs_reached = last;
        items.retain(|item| matches!(item.origin, Origin::Log(place) if place <= last));
    }
    let more = logs_reached > cursor.logs || more_jobs || !new_mail.items.is_empty();
    items.extend(ends);
    items.extend(new_mail.items);
    let Entered { agents, is_queued, is_told } = enter(ctx, &mut tx, &items).await?;
    rows::move_mail(&mut tx, &new_mail.reached).await?;
    let reached = Cursor { logs: logs_reached, jobs: jobs_reached };
    if reached != cursor {
        save(&mut tx, reached).await?;
    }
    tx.commit().await?;
    agents.into_iter().for_each(|agent| ctx.feed.wake(WakeKey::AgentInbox(agent)));
    if is_queued {
        ctx.webhooks.wake();
    }
    if is_told {
        ctx.notifications.wake();
    }
    Ok(if more { Step::More } else { Step::Idle })
}

/// Returns the position of the item with which the limit of entries is reached, if it is.
fn over(items: &[Item]) -> Option<GlobalPosition> {
    let mut count = 0;
    items.iter().find_map(|item| {
        count += item.agents.len();
        match item.origin {
            Origin::Log(place) if count >= ROWS => Some(place),
            _ => None,
        }
    })
}

/// The result of [`enter`].
#[derive(Debug, Default)]
struct Entered {
    /// Agents that got entries.
    agents: Vec<String>,
    /// Whether rings were queued for webhooks.
    is_queued: bool,
    /// Whether people are told of rings.
    is_told: bool,
}

/// Adds the entries of these items, and queues the rings of those that wake for webhooks.
async fn enter(ctx: &Ctx, conn: &mut PgConnection, items: &[Item]) -> Outcome<Entered> {
    let mut agents: Vec<&str> =
        items.iter().flat_map(|item| item.agents.iter().map(String::as_str)).collect();
    agents.sort_unstable();
    agents.dedup();
    let mut inboxes = rows::lock(conn, &agents).await?;
    if inboxes.is_empty() {
        return Ok(Entered::default());
    }
    let now = ctx.now();
    let roles: HashMap<String, String> = matching::roles(conn, items, &inboxes).await?;
    let mut added: Vec<NewEntry> = Vec::new();
    for item in items {
        matching::enter(item, &mut inboxes, &roles, now, &mut added);
    }
    rows::add(conn, &added, &inboxes).await?;
    for (agent, inbox) in &mut inboxes {
        rows::evict(conn, agent, inbox).await?;
    }
    let rings: Vec<Ring> = added
        .iter()
        .filter_map(|one| {
            let inbox = inboxes.get(&one.agent)?;
            let entry = &one.entry;
            let level = entry.attention.at(inbox.settings.is_quiet(now), entry.breaks_through);
            (level == Attention::Wake).then(|| Ring {
                agent: one.agent.clone(),
                opened_at: inbox.opened_at,
                place: entry.place,
                kind: entry.kind,
                what: entry.what.clone(),
                rings: entry.rings,
                at: entry.at,
            })
        })
        .collect();
    let is_queued = ctx.webhooks.queue_rings(conn, &rings, now).await?;
    let is_told = notifications::rings::tell(conn, &rings, now).await?;
    let mut told: Vec<String> = added.into_iter().map(|one| one.agent).collect();
    told.sort_unstable();
    told.dedup();
    Ok(Entered { agents: told, is_queued, is_told })
}

/// Returns the position in the logs, after which no message may be deleted yet; `None` while no inbox is open.
///
/// # Errors
/// A database error.
pub async fn reached(conn: &mut PgConnection) -> Outcome<Option<GlobalPosition>> {
    Ok(load(conn).await?.map(|cursor| cursor.logs))
}

async fn load(conn: &mut PgConnection) -> Outcome<Option<Cursor>> {
    let row =
        sqlx::query!("-- inbox_cursor::load\n SELECT global, global_seq, job, job_seq FROM inbox_cursor")
            .fetch_one(conn)
            .await?;
    let logs = GlobalPosition::stored(row.global, row.global_seq);
    Ok(logs.map(|logs| Cursor { logs, jobs: (row.job.unwrap_or(0), row.job_seq.unwrap_or(0)) }))
}

async fn save(conn: &mut PgConnection, cursor: Cursor) -> Outcome<()> {
    sqlx::query!(
        "-- inbox_cursor::save
         UPDATE inbox_cursor SET global = $1, global_seq = $2, job = $3, job_seq = $4",
        cursor.logs.global,
        cursor.logs.seq,
        cursor.jobs.0,
        cursor.jobs.1
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Forgets the position, unless an inbox was opened meanwhile: its opening holds the same row.
async fn stop(conn: &mut PgConnection) -> Outcome<()> {
    sqlx::query!("-- inbox_cursor::lock\n SELECT one FROM inbox_cursor FOR UPDATE")
        .fetch_one(&mut *conn)
        .await?;
    if rows::any(&mut *conn).await? {
        return Ok(());
    }
    sqlx::query!(
        "-- inbox_cursor::stop
         UPDATE inbox_cursor SET global = NULL, global_seq = NULL, job = NULL, job_seq = NULL"
    )
    .execute(conn)
    .await?;
    Ok(())
}
