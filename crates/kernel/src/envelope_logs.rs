//! Log lines of envelopes (AEE §7.2): kept for whoever sent them, delivered to nobody. Table `aee_logs`. A line is no event
//! of the house and moves no line of an intent. What a line is, is `entente_domain::envelopes::logs`.

use chrono::TimeDelta;
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::envelopes::logs::LogLine;
use entente_domain::idempotency::Idempotency;
use entente_domain::keys::Scope;
use entente_domain::limits::PAGE_BYTES;
use serde_json::value::RawValue;

use super::{Caller, Ctx, Outcome, idempotency};

/// A line that was kept.
#[derive(Debug)]
pub struct Kept {
    /// Its number; later ones are higher.
    pub seq: i64,
    /// When it came.
    pub received_at: Timestamp,
    /// The line, letter by letter.
    pub body: Box<RawValue>,
}

/// Keeps lines of the caller's principal: all of them or none.
///
/// # Errors
/// The scope is missing; the idempotency key was used for something else.
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
    // Under one lock, so that who reads on from a number has missed nothing before it.
    let mut locks = vec![lock_key(principal)];
    locks.extend(once.map(|once| idempotency::lock_key(principal, &once.key)));
    let mut tx = ctx.begin_locked(locks).await?;
    if idempotency::find::<bool>(&mut tx, caller, once).await?.is_some() {
        return Ok(());
    }
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

/// The lines of the caller's principal after a number, the oldest first, all or those of a thread. A page that has become
/// too large ends early; only an empty one is the last.
///
/// # Errors
/// The scope is missing.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    corr: Option<&str>,
    after: i64,
    limit: u32,
) -> Outcome<Vec<Kept>> {
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
        Ok(Kept { seq: row.seq, received_at: row.received_at, body: RawValue::from_string(row.body)? })
    };
    rows.into_iter().map(kept).collect()
}

/// Takes away up to `limit` lines that were kept for as long as envelopes are; answers with how many.
///
/// # Errors
/// The database.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let kept = TimeDelta::from_std(ctx.settings.post.retention).unwrap_or(TimeDelta::MAX);
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

/// The advisory lock of a principal's log.
fn lock_key(principal: &str) -> i64 {
    let digest = sha256(format!("envelope_logs\0{principal}"));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}
