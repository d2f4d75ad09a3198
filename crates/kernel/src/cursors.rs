//! Reading cursors: positions of agents in events, channels and mailboxes, kept by the server under short names
//! (MCP-W-6.3). Table `reading_cursors`.
//!
//! A cursor stores where its last answer began and where it ended. The next call begins at the end, which acknowledges the
//! answer; until then the answer can be read again from its beginning. The operations that read check the access.
//!
//! `since` cursors of channels are in `crates/domain/src/cursors.rs`, resume tokens of streams in `crates/http/src/frames.rs`.

use entente_domain::refusal::{Code, Refusal};

use crate::{Caller, Ctx, Outcome};

/// Maximum number of cursors of one agent: a model remembers a handful of names.
const CURSORS: i64 = 100;

/// Seconds without use after which a cursor is deleted: 30 days, longer than people are away.
const KEPT_SECONDS: f64 = 30.0 * 24.0 * 3600.0;

/// Name of a cursor: an agent may use the same name for different subjects.
#[derive(Debug, Clone, Copy)]
pub struct CursorName<'a> {
    /// The source that is read: `events`, `channel <id>` or `mailbox <entity>`.
    pub subject: &'a str,
    /// Name that the agent chose.
    pub name: &'a str,
}

/// A stored cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingCursor {
    /// Number of the last answer, from 1.
    pub answer: i64,
    /// Position where the last answer begins; `None` for the beginning.
    pub began: Option<String>,
    /// Position after the last answer.
    pub ended: String,
}

/// Returns a cursor of the caller, if there is one under this name.
///
/// # Errors
/// There is none, and the agent has as many as it may have; a database error.
pub async fn find(ctx: &Ctx, caller: &Caller, named: CursorName<'_>) -> Outcome<Option<ReadingCursor>> {
    let mut conn = ctx.pool.acquire().await?;
    let found = sqlx::query_as!(
        ReadingCursor,
        "-- cursors::find
         SELECT answer, began, ended FROM reading_cursors
         WHERE principal_id = $1 AND agent_id = $2 AND subject = $3 AND name = $4",
        caller.principal(),
        caller.agent,
        named.subject,
        named.name
    )
    .fetch_optional(&mut *conn)
    .await?;
    if found.is_some() {
        return Ok(found);
    }
    let count = sqlx::query_scalar!(
        r#"-- cursors::count
         SELECT count(*) AS "count!" FROM reading_cursors WHERE principal_id = $1 AND agent_id = $2"#,
        caller.principal(),
        caller.agent
    )
    .fetch_one(&mut *conn)
    .await?;
    if count >= CURSORS {
        let message = format!(
            "`{}` has {CURSORS} cursors, as many as an agent may have. Use one of their names; those that are unused for 30 \
             days are deleted.",
            caller.agent
        );
        return Err(Refusal::field(Code::Unprocessable, "cursor", "too_many", message).into());
    }
    Ok(None)
}

/// Stores a cursor after an answer, if `seen` is still the number of its last answer (0 for a new cursor).
///
/// Returns whether it was stored: another call may have moved the cursor meanwhile.
///
/// # Errors
/// A database error.
pub async fn keep(
    ctx: &Ctx,
    caller: &Caller,
    named: CursorName<'_>,
    seen: i64,
    next: &ReadingCursor,
) -> Outcome<bool> {
    let mut conn = ctx.pool.writing().await?;
    let done = sqlx::query!(
        "-- cursors::keep
         INSERT INTO reading_cursors AS c (principal_id, agent_id, subject, name, answer, began, ended, used_at)
         SELECT $1::text, $2::text, $3::text, $4::text, $5::bigint, $6::text, $7::text, $8::timestamptz
         WHERE $9::bigint > 0
            OR (SELECT count(*) FROM reading_cursors WHERE principal_id = $1 AND agent_id = $2) < $10::bigint
         ON CONFLICT (principal_id, agent_id, subject, name)
         DO UPDATE SET answer = excluded.answer, began = excluded.began, ended = excluded.ended, used_at = excluded.used_at
         WHERE c.answer = $9::bigint",
        caller.principal(),
        caller.agent,
        named.subject,
        named.name,
        next.answer,
        next.began,
        next.ended,
        ctx.now(),
        seen,
        CURSORS
    )
    .execute(&mut *conn)
    .await?;
    conn.done().await?;
    Ok(done.rows_affected() == 1)
}

/// Deletes up to `limit` cursors that nobody has used for long, and returns their number.
///
/// # Errors
/// A database error.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- cursors::tidy
         DELETE FROM reading_cursors WHERE (principal_id, agent_id, subject, name) IN (
             SELECT principal_id, agent_id, subject, name FROM reading_cursors
             WHERE used_at < $1::timestamptz - make_interval(secs => $3::double precision)
             ORDER BY used_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        ctx.now(),
        limit,
        KEPT_SECONDS
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}
