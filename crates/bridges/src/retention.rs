//! Retention: jobs past it, which other protocols refer to; and a count of everything that is past its retention, for
//! `entente prune --dry-run`. The sweeps delete (`src/background/sweeps.rs`).

use std::time::Duration;

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::ids::JobId;
use entente_kernel::Outcome;
use entente_kernel::audit::retention as events;
use entente_kernel::log::order;

use crate::Ctx;

/// The rows that one setting keeps, and the number of those past their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// The rows, in plain words and in the plural.
    pub noun: &'static str,
    /// The setting that says how long they are kept.
    pub setting: &'static str,
    /// How long they are kept; `None` for ever.
    pub kept: Option<Duration>,
    /// Number of rows that can be deleted.
    pub count: i64,
}

/// Deletes jobs that ended longer ago than `ENTENTE_JOB_RETENTION_DAYS`, with their events; returns the number of deleted
/// jobs, and of events of jobs that have more.
///
/// # Errors
/// A database error.
pub async fn forget_jobs(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = past_jobs(ctx, limit).await?;
    entente_arcp::jobs::forget(&ctx.arcp, &due).await
}

/// Returns jobs past their retention, those that ended first.
///
/// A job stays as long as something still needs it: its parent, its children, which spend from its budget, an idempotency key
/// in its window, a session that has not acknowledged its events (ARCP §6.3), a credential that is not revoked, a question
/// to a person, or a bridge that reports it. A job whose events have no numbers yet in the order of all jobs stays, and so
/// does the one with the last number, because later numbers follow it.
async fn past_jobs(ctx: &Ctx, limit: i64) -> Outcome<Vec<JobId>> {
    let Some(before) = ctx.arcp.state.jobs.retention.and_then(|kept| ago(ctx, kept)) else {
        return Ok(Vec::new());
    };
    let mut conn = ctx.pool.acquire().await?;
    order::advance(&mut conn).await?;
    let ids = sqlx::query_scalar!(
        "-- retention::past_jobs
         SELECT c.job_id FROM job_clock c JOIN jobs j ON j.id = c.job_id
         WHERE c.ended_at < $1 AND c.due_at IS NULL
           AND (j.idempotency_key IS NULL OR j.created_at < $3)
           AND NOT EXISTS (SELECT 1 FROM job_clock p
                           WHERE p.job_id = j.parent_id AND (p.ended_at IS NULL OR p.ended_at >= $1))
           AND NOT EXISTS (SELECT 1 FROM jobs k WHERE k.parent_id = j.id)
           AND NOT EXISTS (SELECT 1 FROM sessions s
                           WHERE s.id = j.session_id AND j.counted AND s.acked_seq < c.origin_seq)
           AND NOT EXISTS (SELECT 1 FROM session_follows f WHERE f.job_id = j.id)
           AND NOT EXISTS (SELECT 1 FROM session_frames f WHERE f.job_id = j.id)
           AND NOT EXISTS (SELECT 1 FROM credentials k WHERE k.job_id = j.id AND k.state <> 'revoked')
           AND NOT EXISTS (SELECT 1 FROM moments m
                           WHERE m.job_id = j.id AND m.state IN ('open', 'deliberating'))
           AND NOT EXISTS (SELECT 1 FROM aee_bridged b WHERE b.open AND b.job_id = j.id)
           AND c.last_seq <= (SELECT max(o.to_seq) FROM job_order o WHERE o.job_id = j.id)
           AND j.id <> (SELECT o.job_id FROM job_order o ORDER BY o.global DESC LIMIT 1)
         ORDER BY c.ended_at LIMIT $2",
        before,
        limit,
        ago(ctx, ctx.settings.idempotency_window)
    )
    .fetch_all(&mut *conn)
    .await?;
    Ok(ids.into_iter().map(JobId::from).collect())
}

/// Counts the rows past their retention.
///
/// # Errors
/// A database error.
pub async fn expired(ctx: &Ctx) -> Outcome<Vec<Expired>> {
    let jobs = past_jobs(ctx, i64::MAX).await?.len();
    let (events, numbers) = (events::count(ctx).await?, order::count_forgotten(ctx).await?);
    let now = ctx.now();
    let envelopes = now.checked_sub_signed(ctx.aee.state.settings.memory());
    let row = sqlx::query!(
        r#"-- retention::expired
         SELECT (SELECT count(*) FROM messages m JOIN channels c ON c.id = m.channel_id WHERE c.purge_at <= $1)
                    AS "messages!",
                (SELECT count(*) FROM idempotency WHERE created_at < $2) AS "keys!",
                (SELECT count(*) FROM webhook_deliveries WHERE finished_at < $3) AS "deliveries!",
                (SELECT count(*) FROM aee_envelopes WHERE received_at < $4) AS "envelopes!",
                (SELECT count(*) FROM aee_logs WHERE received_at < $5) AS "lines!",
                (SELECT count(*) FROM tool_invocations WHERE status <> 'running' AND started_at < $6) AS "calls!",
                (SELECT count(*) FROM spend WHERE at < $7) AS "costs!""#,
        now,
        ago(ctx, ctx.settings.idempotency_window),
        ago(ctx, ctx.settings.webhooks.retention),
        envelopes,
        ago(ctx, ctx.aee.state.settings.retention),
        entente_openintent::tools::vaults::forgotten(&ctx.openintent),
        ctx.settings.spend_retention.and_then(|kept| ago(ctx, kept))
    )
    .fetch_one(&ctx.pool)
    .await?;
    let jobs = i64::try_from(jobs).unwrap_or(i64::MAX);
    let (settings, aee) = (&ctx.settings, ctx.aee.state.settings.retention);
    let tools = ctx.openintent.state.vaults.retention;
    let of = |noun, setting, kept, count| Expired { noun, setting, kept, count };
    Ok(vec![
        of(
            "messages of ended channels",
            "ENTENTE_MESSAGE_RETENTION_DAYS",
            settings.message_retention,
            row.messages,
        ),
        of("events under a checkpoint", "ENTENTE_EVENT_RETENTION_DAYS", settings.event_retention, events),
        of("numbers of deleted records", "no setting", Some(order::FORGOTTEN_AFTER), numbers),
        of("ended jobs", "ENTENTE_JOB_RETENTION_DAYS", ctx.arcp.state.jobs.retention, jobs),
        of("recorded costs", "ENTENTE_SPEND_RETENTION_DAYS", settings.spend_retention, row.costs),
        of("envelopes", "ENTENTE_AEE_RETENTION_DAYS", Some(aee), row.envelopes),
        of("lines of envelope logs", "ENTENTE_AEE_RETENTION_DAYS", Some(aee), row.lines),
        of(
            "finished webhook deliveries",
            "ENTENTE_WEBHOOK_RETENTION_DAYS",
            Some(settings.webhooks.retention),
            row.deliveries,
        ),
        of("finished tool calls", "ENTENTE_TOOL_RETENTION_DAYS", Some(tools), row.calls),
        of(
            "answers under idempotency keys",
            "ENTENTE_IDEMPOTENCY_HOURS",
            Some(settings.idempotency_window),
            row.keys,
        ),
    ])
}

/// Returns the time before which something that is kept this long has expired; `None` before the beginning of time.
fn ago(ctx: &Ctx, kept: Duration) -> Option<Timestamp> {
    ctx.now().checked_sub_signed(TimeDelta::from_std(kept).unwrap_or(TimeDelta::MAX))
}
