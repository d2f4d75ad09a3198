//! Imported bundles: what they are, their lines, and their removal (BN-5). `imports.rs` writes them. They are for admins:
//! what another server let its exporter read is not what an agent of this server may.

use entente_domain::canonical::{Digest, hex};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{BundleId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use entente_kernel::log::intent_tx::IntentTx;
use entente_kernel::log::writer::digest;
use entente_kernel::{AppError, Caller, Outcome, not_found};
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{BYTES, ROWS};
use crate::Ctx;

/// An imported bundle.
#[derive(Debug, Clone)]
pub struct BundleRecord {
    /// Its id on this server.
    pub id: BundleId,
    /// The intent, on the server that wrote it.
    pub intent_id: IntentId,
    /// Title of the intent.
    pub title: String,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// The key of the server that sealed it, as a `did:key`.
    pub signed_by: String,
    /// When it was written.
    pub exported_at: Timestamp,
    /// Who wrote it: it has what this agent might read there.
    pub exported_by: String,
    /// Size of the file.
    pub bytes: i64,
    /// Lines of the file.
    pub lines: i32,
    /// Agent that imported it.
    pub imported_by: String,
    /// When.
    pub imported_at: Timestamp,
}

/// A line of an imported bundle.
#[derive(Debug, Clone)]
pub struct BundleLine {
    /// Its place in the file, from 1.
    pub number: i32,
    /// Its kind (BN-1.3), or `seal`.
    pub kind: String,
    /// Its text, without the line feed at its end.
    pub line: String,
}

/// Which lines to read.
#[derive(Debug, Clone, Copy)]
pub struct LineFilter<'a> {
    /// Only this kind.
    pub kind: Option<&'a str>,
    /// Only lines after this one.
    pub after: i32,
    /// Maximum number of lines.
    pub limit: u32,
}

/// Columns of a row.
struct BundleRow {
    id: Uuid,
    intent_id: Uuid,
    title: String,
    digest: Vec<u8>,
    signed_by: String,
    exported_at: Timestamp,
    exported_by: String,
    bytes: i64,
    lines: i32,
    imported_by: String,
    imported_at: Timestamp,
}

impl TryFrom<BundleRow> for BundleRecord {
    type Error = AppError;

    fn try_from(row: BundleRow) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            title: row.title,
            sha256: hex(&digest(row.digest)?),
            signed_by: row.signed_by,
            exported_at: row.exported_at,
            exported_by: row.exported_by,
            bytes: row.bytes,
            lines: row.lines,
            imported_by: row.imported_by,
            imported_at: row.imported_at,
        })
    }
}

/// Which bundles to find; what is absent does not matter.
#[derive(Debug, Clone, Copy, Default)]
struct Wanted<'a> {
    id: Option<Uuid>,
    digest: Option<&'a [u8]>,
}

async fn one(conn: &mut PgConnection, wanted: Wanted<'_>) -> Outcome<Option<BundleRecord>> {
    let row = sqlx::query_as!(
        BundleRow,
        r#"-- bundles::one
         SELECT id, intent_id AS "intent_id!", title AS "title!", digest AS "digest!", signed_by AS "signed_by!",
                exported_at AS "exported_at!", exported_by AS "exported_by!", bytes AS "bytes!", lines AS "lines!",
                imported_by, imported_at
         FROM bundles WHERE gone_at IS NULL AND (id = $1 OR digest = $2)"#,
        wanted.id,
        wanted.digest
    )
    .fetch_optional(conn)
    .await?;
    row.map(BundleRecord::try_from).transpose()
}

pub(super) async fn with_id(conn: &mut PgConnection, id: BundleId) -> Outcome<Option<BundleRecord>> {
    one(conn, Wanted { id: Some(id.uuid()), ..Wanted::default() }).await
}

pub(super) async fn with_digest(conn: &mut PgConnection, digest: &Digest) -> Outcome<Option<BundleRecord>> {
    one(conn, Wanted { digest: Some(digest), ..Wanted::default() }).await
}

/// Returns an imported bundle.
///
/// # Errors
/// The scope `admin` is missing; there is no such bundle.
pub async fn get(ctx: &Ctx, caller: &Caller, id: BundleId) -> Outcome<BundleRecord> {
    caller.require(Scope::Admin)?;
    with_id(&mut *ctx.pool.acquire().await?, id).await?.ok_or_else(|| not_found("bundle"))
}

/// Lists imported bundles, newest first, up to `limit` before `before`; only those of one intent, if one is named.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: Option<IntentId>,
    before: Option<BundleId>,
    limit: u32,
) -> Outcome<Vec<BundleRecord>> {
    caller.require(Scope::Admin)?;
    let rows = sqlx::query_as!(
        BundleRow,
        r#"-- bundles::list
         SELECT id, intent_id AS "intent_id!", title AS "title!", digest AS "digest!", signed_by AS "signed_by!",
                exported_at AS "exported_at!", exported_by AS "exported_by!", bytes AS "bytes!", lines AS "lines!",
                imported_by, imported_at
         FROM bundles
         WHERE gone_at IS NULL AND ($1::uuid IS NULL OR intent_id = $1) AND ($2::uuid IS NULL OR id < $2)
         ORDER BY id DESC LIMIT $3"#,
        intent_id.map(IntentId::uuid),
        before.map(BundleId::uuid),
        i64::from(limit)
    )
    .fetch_all(&ctx.pool)
    .await?;
    rows.into_iter().map(BundleRecord::try_from).collect()
}

/// Reads lines of an imported bundle, in the order of the file: up to the filter's limit, and little more than a MiB. None are
/// left if there are none.
///
/// # Errors
/// As [`get`].
pub async fn lines(
    ctx: &Ctx,
    caller: &Caller,
    id: BundleId,
    filter: &LineFilter<'_>,
) -> Outcome<Vec<BundleLine>> {
    get(ctx, caller, id).await?;
    page(ctx, id, filter).await
}

async fn page(ctx: &Ctx, id: BundleId, filter: &LineFilter<'_>) -> Outcome<Vec<BundleLine>> {
    let found = sqlx::query_as!(
        BundleLine,
        r#"-- bundle_lines::page
         SELECT number AS "number!", kind AS "kind!", line AS "line!"
         FROM (SELECT p.*, sum(octet_length(p.line)) OVER (ORDER BY p.number) - octet_length(p.line) AS before
               FROM (SELECT number, kind, line FROM bundle_lines
                     WHERE bundle_id = $1 AND number > $2 AND ($3::text IS NULL OR kind = $3)
                     ORDER BY number LIMIT $4) p) l
         WHERE l.before < $5 ORDER BY number"#,
        id.uuid(),
        filter.after,
        filter.kind,
        i64::from(filter.limit),
        BYTES
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(found)
}

/// The file of an imported bundle, as it is read.
pub struct BundleFile {
    ctx: Ctx,
    record: BundleRecord,
    /// Number of the last line that was read.
    at: i32,
}

impl BundleFile {
    /// Returns the next lines; `None` after the last.
    ///
    /// # Errors
    /// A database error; the bundle was removed meanwhile.
    pub async fn next(&mut self) -> Outcome<Option<String>> {
        if self.at == self.record.lines {
            return Ok(None);
        }
        let filter = LineFilter { kind: None, after: self.at, limit: ROWS };
        let page = page(&self.ctx, self.record.id, &filter).await?;
        let mut text = String::new();
        for line in page {
            self.at += 1;
            if line.number != self.at {
                break;
            }
            text.push_str(&line.line);
            text.push('\n');
        }
        if text.is_empty() {
            return Err(AppError::Unavailable("the bundle was removed meanwhile".to_owned()));
        }
        Ok(Some(text))
    }
}

/// Begins to read the file of an imported bundle.
///
/// # Errors
/// As [`get`].
pub async fn file(ctx: &Ctx, caller: &Caller, id: BundleId) -> Outcome<BundleFile> {
    let record = get(ctx, caller, id).await?;
    Ok(BundleFile { ctx: ctx.clone(), record, at: 0 })
}

/// Returns the bundle of an intent that was written last, for an admin; `None` if none was imported.
///
/// # Errors
/// A database error.
pub(super) async fn latest(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Option<BundleId>> {
    if !caller.has(Scope::Admin) {
        return Ok(None);
    }
    let found = sqlx::query_scalar!(
        "-- bundles::latest
         SELECT id FROM bundles WHERE gone_at IS NULL AND intent_id = $1 ORDER BY exported_at DESC, id DESC LIMIT 1",
        intent_id.uuid()
    )
    .fetch_optional(&ctx.pool)
    .await?;
    Ok(found.map(BundleId::from))
}

/// Removes an imported bundle. Its lines are swept.
///
/// # Errors
/// As [`get`].
pub async fn remove(ctx: &Ctx, caller: &Caller, id: BundleId) -> Outcome<()> {
    caller.require(Scope::Admin)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let record = with_id(work.reading(), id).await?.ok_or_else(|| not_found("bundle"))?;
    let payload = json!({ "bundle_id": id, "intent_id": record.intent_id });
    work.record(Draft::of(Kind::BundleRemoved, caller.principal(), payload));
    let now = work.now();
    sqlx::query!("-- bundles::remove\n UPDATE bundles SET gone_at = $2 WHERE id = $1", id.uuid(), now)
        .execute(work.conn())
        .await?;
    work.commit().await
}

/// Deletes lines of bundles that were removed, or never became whole; returns their number.
///
/// # Errors
/// A database error.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let gone = sqlx::query_scalar!(
        "-- bundles::gone
         SELECT id FROM bundles WHERE gone_at <= $1 ORDER BY gone_at LIMIT 1",
        ctx.now()
    )
    .fetch_optional(&ctx.pool)
    .await?;
    let Some(id) = gone else { return Ok(0) };
    let lines = sqlx::query!(
        "-- bundle_lines::forget
         DELETE FROM bundle_lines
         WHERE bundle_id = $1 AND number <= (SELECT min(number) FROM bundle_lines WHERE bundle_id = $1) + $2::bigint",
        id,
        limit
    )
    .execute(&ctx.pool)
    .await?;
    if lines.rows_affected() > 0 {
        return Ok(lines.rows_affected());
    }
    let row = sqlx::query!("-- bundles::forget\n DELETE FROM bundles WHERE id = $1", id);
    Ok(row.execute(&ctx.pool).await?.rows_affected())
}
