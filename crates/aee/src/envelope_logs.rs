//! Log lines sent as envelopes (AEE §7.2): stored for their sender, delivered to nobody. Table `aee_logs`.
//! They are not events, and advance no intent's log. Their format is `entente_domain::aee::envelopes::logs`.

use chrono::TimeDelta;
use entente_domain::aee::envelopes::logs::LogLine;
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::limits::PAGE_BYTES;
use entente_kernel::{Caller, Outcome, idempotency};
use serde_json::value::RawValue;

use crate::Ctx;

/// A stored log line.
#[derive(Debug)]
pub struct StoredLine {
    /// Its sequence number; later lines have higher ones.
    pub seq: i64,
    /// When it arrived.
    pub received_at: Timestamp,
    /// The line, verbatim.
    pub body: Box<RawValue>,
}

/// Stores log lines of the caller's principal, all or none.
///
/// # Errors
/// The scope is missing; the idempotency key was used for another request.
pub async fn keep(
    ctx: &Ctx,
    caller: &Caller,
    lines: &[(LogLine, &str)],
    once: Option<&Idempotency>,
) -> Outcome<()> {
    caller.require(Scope::MailWrite)?;
    if lines.is_empty() {
        return Ok(());
    }
    let principal = caller.principal();
    // Serialised per principal, so that a reader who continues from a number misses no earlier line.
    let mut locks = vec![lock_key(principal)];
    locks.extend(once.map(|once| idempotency::lock_key(principal, &once.key)));
    let mut tx = ctx.begin_locked(locks).await?;
    if idempotency::find::<bool>(&mut tx, caller, once).await?.is_some() {
        return Ok(());
    }
    ctx.quotas.objection(caller).map_or(Ok(()), Err)?;
    let now = ctx.now();
    let column = |of: fn(&LogLine) -> &str| lines.iter().map(|(line, _)| of(line)).collect::<Vec<&str>>();
    let corrs: Vec<Option<&str>> = lines.iter().map(|(line, _)| line.corr.as_deref()).collect();
    let bodies: Vec<&str> = lines.iter().map(|(_, body)| *body).collect();
    sqlx::query!(
        "-- envelope_logs::insert
         INSERT INTO aee_logs (principal_id, id, type, sender, purpose, corr, received_at, body)
         SELECT $1, l.id, l.type, l.sender, l.purpose, l.corr, $2, l.body
         FROM UNNEST($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[]) WITH ORDINALITY
             AS l (id, type, sender, purpose, corr, body, place) ORDER BY l.place",
        principal,
        now,
        &column(|line| &line.id) as &[&str],
        &column(|line| line.kind.as_str()) as &[&str],
        &column(|line| &line.sender) as &[&str],
        &column(|line| &line.purpose) as &[&str],
        &corrs as &[Option<&str>],
        &bodies as &[&str]
    )
    .execute(&mut *tx)
    .await?;
    idempotency::keep(&mut tx, caller, once, &true, now).await?;
    tx.commit().await?;
    Ok(())
}

/// Lists the lines of the caller's principal after a number, oldest first, optionally of one thread.
///
/// A page that would become too large ends early; only an empty page is the last.
///
/// # Errors
/// The scope is missing.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    corr: Option<&str>,
    after: i64,
    limit: u32,
) -> Outcome<Vec<StoredLine>> {
    caller.require(Scope::MailRead)?;
    let (principal, limit) = (caller.principal(), i64::from(limit));
    let mut connection = ctx.pool.acquire().await?;
    let rows = match corr {
        None => {
            sqlx::query_as!(
                Row,
                r#"-- envelope_logs::list
         SELECT seq AS "seq!", received_at AS "received_at!", body AS "body!" FROM (
             SELECT seq, received_at, body, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before
             FROM (SELECT * FROM aee_logs WHERE principal_id = $1 AND seq > $2 ORDER BY seq LIMIT $3) AS l) AS page
         WHERE before < $4 ORDER BY seq"#,
                principal,
                after,
                limit,
                PAGE_BYTES
            )
            .fetch_all(&mut *connection)
            .await?
        }
        Some(corr) => {
            sqlx::query_as!(
                Row,
                r#"-- envelope_logs::thread
         SELECT seq AS "seq!", received_at AS "received_at!", body AS "body!" FROM (
             SELECT seq, received_at, body, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before
             FROM (SELECT * FROM aee_logs WHERE principal_id = $1 AND corr = $5 AND seq > $2 ORDER BY seq LIMIT $3) AS l)
             AS page
         WHERE before < $4 ORDER BY seq"#,
                principal,
                after,
                limit,
                PAGE_BYTES,
                corr
            )
            .fetch_all(&mut *connection)
            .await?
        }
    };
    let kept = |row: Row| {
        Ok(StoredLine { seq: row.seq, received_at: row.received_at, body: RawValue::from_string(row.body)? })
    };
    rows.into_iter().map(kept).collect()
}

/// Deletes up to `limit` lines past the retention of envelopes; returns their number.
///
/// # Errors
/// A database error.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let kept = TimeDelta::from_std(ctx.state.settings.retention).unwrap_or(TimeDelta::MAX);
    let Some(before) = ctx.now().checked_sub_signed(kept) else { return Ok(0) };
    let done = sqlx::query!(
        "-- envelope_logs::tidy
         DELETE FROM aee_logs WHERE seq IN (
             SELECT seq FROM aee_logs WHERE received_at < $1 ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}

struct Row {
    seq: i64,
    received_at: Timestamp,
    body: String,
}

/// Returns the advisory lock of a principal's log lines.
fn lock_key(principal: &str) -> i64 {
    let digest = sha256(format!("envelope_logs\0{principal}"));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}
