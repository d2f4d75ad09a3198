//! One-time links: their storage. Table `links`; opening them is in `people.rs`.

use entente_domain::canonical::Digest;
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::identity::people::Ticket;
use entente_domain::ids::KeyId;
use entente_domain::log::events::{Draft, Kind as EventKind};
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::PgConnection;

use super::LinkAsk;
use crate::log::writer::IntentLog;
use crate::{Ctx, Outcome, not_found};

/// Deletes expired links.
///
/// # Errors
/// Returns database errors.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- links::tidy
         DELETE FROM links WHERE digest IN (
             SELECT digest FROM links WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        ctx.now(),
        limit
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}

/// A stored link.
pub(super) struct Waiting {
    pub principal_id: String,
    pub admin: bool,
    pub leads_to: String,
    /// Principal that lets the person in with this link.
    pub let_in_by: Option<String>,
    used_at: Option<Timestamp>,
    expires_at: Timestamp,
    void: bool,
}

/// Loads a link that can still be opened.
pub(super) async fn waiting(conn: &mut PgConnection, digest: &Digest, now: Timestamp) -> Outcome<Waiting> {
    let found = sqlx::query_as!(
        Waiting,
        r#"-- links::waiting
         SELECT l.principal_id, l.admin, l.leads_to,
                coalesce(l.let_in_by, CASE WHEN l.made_by <> l.principal_id THEN l.made_by END) AS let_in_by, l.used_at, l.expires_at, k.revoked_at IS NOT NULL AS "void!"
         FROM links l LEFT JOIN keys k ON k.id = l.made_by_key WHERE l.digest = $1"#,
        digest.as_slice()
    );
    let link = found.fetch_optional(conn).await?.ok_or_else(|| not_found("link"))?;
    let over = match (&link.used_at, link.void || link.expires_at <= now) {
        (Some(_), _) => "This link was opened already; it works once.",
        (None, true) => "This link is over.",
        (None, false) => return Ok(link),
    };
    Err(Refusal::new(Code::Gone, format!("{over} Log in with your password, or ask for a new link.")).into())
}

pub(super) async fn use_up(conn: &mut PgConnection, digest: &Digest, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- links::use_up\n UPDATE links SET used_at = $2 WHERE digest = $1",
        digest.as_slice(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Invalidates a person's unopened links.
pub(super) async fn void(conn: &mut PgConnection, principal_id: &str, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- links::void\n UPDATE links SET used_at = $2 WHERE principal_id = $1 AND used_at IS NULL",
        principal_id,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The maker of a link, stored with it.
pub(super) struct Maker<'a> {
    /// The principal that makes the link.
    pub principal_id: &'a str,
    /// The key that makes the link; revoking it makes the link void.
    pub key: Option<KeyId>,
    /// Principal that lets the person in with this link.
    pub let_in_by: Option<&'a str>,
}

/// Stores a link and records it in the system log.
pub(super) async fn keep(
    ctx: &Ctx,
    conn: &mut PgConnection,
    log: &mut IntentLog,
    ticket: &Ticket,
    principal_id: &str,
    ask: &LinkAsk,
    maker: &Maker<'_>,
) -> Outcome<Timestamp> {
    let (now, expires_at) = (log.now(), plus_seconds(log.now(), ask.seconds));
    let payload = json!({
        "principal_id": principal_id, "admin": ask.admin, "expires_at": expires_at, "let_in_by": maker.let_in_by,
    });
    log.record(ctx, Draft::of(EventKind::LinkMade, maker.principal_id, payload));
    let digest = ticket.digest();
    sqlx::query!(
        "-- links::keep
         INSERT INTO links (digest, principal_id, admin, leads_to, made_by, made_by_key, made_at, expires_at, let_in_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        digest.as_slice(),
        principal_id,
        ask.admin,
        ask.leads_to,
        maker.principal_id,
        maker.key.map(KeyId::uuid),
        now,
        expires_at,
        maker.let_in_by
    )
    .execute(conn)
    .await?;
    Ok(expires_at)
}
