//! Hourly limits of tool calls. Table `tool_grant_uses` holds one counter per minute of a limited grant, in
//! the database so that all servers count together; it is read and written under the vault's lock.

use chrono::{DurationRound as _, TimeDelta};
use entente_domain::clock::Timestamp;
use entente_domain::ids::ToolGrantId;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::Outcome;
use sqlx::PgConnection;
use uuid::Uuid;

/// Minutes that a call counts: an hour plus the rest of the minute in which it was made.
///
/// So no hour exceeds the limit, though slightly fewer calls may be allowed.
const COUNTED_MINUTES: i64 = 61;

fn minute(now: Timestamp) -> Timestamp {
    now.duration_trunc(TimeDelta::minutes(1)).unwrap_or(now)
}

/// Requires that each of these grants has room for one more call in this hour.
///
/// # Errors
/// [`Code::RateLimited`], with the time to wait.
pub(super) async fn require(
    conn: &mut PgConnection,
    limits: &[(ToolGrantId, u32)],
    now: Timestamp,
) -> Outcome<()> {
    if limits.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = limits.iter().map(|(id, _)| id.uuid()).collect();
    let since = minute(now) - TimeDelta::minutes(COUNTED_MINUTES - 1);
    let rows = sqlx::query!(
        r#"-- tool_grant_uses::count
         SELECT grant_id, sum(uses) AS "uses!", min(minute) AS "oldest!" FROM tool_grant_uses
         WHERE grant_id = ANY($1) AND minute >= $2 GROUP BY grant_id"#,
        &ids,
        since
    )
    .fetch_all(conn)
    .await?;
    for (id, most) in limits {
        let used = rows.iter().find(|row| row.grant_id == id.uuid());
        let uses = used.map_or(0, |row| row.uses);
        if uses >= i64::from(*most) {
            let free = used.map_or(now, |row| row.oldest) + TimeDelta::minutes(COUNTED_MINUTES);
            let seconds = u32::try_from((free - now).num_seconds() + 1).unwrap_or(1);
            let message = format!(
                "The grant allows {most} calls in an hour, and they were made. Wait as long as Retry-After says."
            );
            return Err(Refusal {
                retry_after_seconds: Some(seconds),
                ..Refusal::new(Code::RateLimited, message)
            }
            .into());
        }
    }
    Ok(())
}

/// Counts one more call of each of these grants.
pub(super) async fn add(
    conn: &mut PgConnection,
    limits: &[(ToolGrantId, u32)],
    now: Timestamp,
) -> Outcome<()> {
    if limits.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = limits.iter().map(|(id, _)| id.uuid()).collect();
    sqlx::query!(
        "-- tool_grant_uses::add
         INSERT INTO tool_grant_uses (grant_id, minute, uses) SELECT id, $2, 1 FROM unnest($1::uuid[]) AS id
         ON CONFLICT (grant_id, minute) DO UPDATE SET uses = tool_grant_uses.uses + 1",
        &ids,
        minute(now)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes counters outside the window and returns their number.
pub(super) async fn forget(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- tool_grant_uses::forget
         DELETE FROM tool_grant_uses WHERE (grant_id, minute) IN (
             SELECT grant_id, minute FROM tool_grant_uses WHERE minute < $1 ORDER BY minute LIMIT $2 FOR UPDATE SKIP LOCKED)",
        minute(now) - TimeDelta::minutes(COUNTED_MINUTES),
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
