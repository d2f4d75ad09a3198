//! Rows of imported bundles: tables `bundles` and `bundle_lines`.

use entente_domain::canonical::{Digest, hex};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{BundleId, IntentId};
use entente_kernel::log::writer::digest;
use entente_kernel::{AppError, Outcome};
use sqlx::PgConnection;
use uuid::Uuid;

use super::BYTES;
use super::imports::VerifiedLines;
use super::records::{BundleLine, BundleRecord, LineFilter};

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

/// Returns the bundle with this id or this digest.
async fn one(
    conn: &mut PgConnection,
    id: Option<Uuid>,
    digest: Option<&[u8]>,
) -> Outcome<Option<BundleRecord>> {
    let row = sqlx::query_as!(
        BundleRow,
        r#"-- bundles::one
         SELECT id, intent_id AS "intent_id!", title AS "title!", digest AS "digest!", signed_by AS "signed_by!",
                exported_at AS "exported_at!", exported_by AS "exported_by!", bytes AS "bytes!", lines AS "lines!",
                imported_by, imported_at
         FROM bundles WHERE gone_at IS NULL AND (id = $1 OR digest = $2)"#,
        id,
        digest
    )
    .fetch_optional(conn)
    .await?;
    row.map(BundleRecord::try_from).transpose()
}

pub(super) async fn with_id(conn: &mut PgConnection, id: BundleId) -> Outcome<Option<BundleRecord>> {
    one(conn, Some(id.uuid()), None).await
}

pub(super) async fn with_digest(conn: &mut PgConnection, digest: &Digest) -> Outcome<Option<BundleRecord>> {
    one(conn, None, Some(digest)).await
}

/// Adds a bundle that begins to arrive, and may be swept after `gone_at`.
pub(super) async fn begin(
    conn: &mut PgConnection,
    id: BundleId,
    by: &str,
    now: Timestamp,
    gone_at: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- bundles::begin
         INSERT INTO bundles (id, imported_by, imported_at, gone_at) VALUES ($1, $2, $3, $4)",
        id.uuid(),
        by,
        now,
        gone_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds lines of a bundle that is arriving.
pub(super) async fn store(conn: &mut PgConnection, id: BundleId, page: &VerifiedLines) -> Outcome<()> {
    sqlx::query!(
        "-- bundle_lines::store
         INSERT INTO bundle_lines (bundle_id, number, kind, line)
         SELECT $1, number, kind, line FROM UNNEST($2::integer[], $3::text[], $4::text[]) AS l (number, kind, line)",
        id.uuid(),
        &page.numbers,
        &page.kinds,
        &page.lines
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Keeps a bundle that is whole; returns whether it was not swept meanwhile.
pub(super) async fn keep(conn: &mut PgConnection, whole: &BundleRecord, now: Timestamp) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- bundles::keep
         UPDATE bundles SET gone_at = NULL, digest = decode($2, 'hex'), intent_id = $3, exported_at = $4,
                exported_by = $5, title = $6, signed_by = $7, bytes = $8, lines = $9
         WHERE id = $1 AND gone_at > $10",
        whole.id.uuid(),
        whole.sha256,
        whole.intent_id.uuid(),
        whole.exported_at,
        whole.exported_by,
        whole.title,
        whole.signed_by,
        whole.bytes,
        whole.lines,
        now
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Gives up a bundle that is not whole.
pub(super) async fn abandon(conn: &mut PgConnection, id: BundleId, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- bundles::abandon
         UPDATE bundles SET gone_at = $2 WHERE id = $1 AND gone_at IS NOT NULL",
        id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes a bundle; its lines are swept.
pub(super) async fn remove(conn: &mut PgConnection, id: BundleId, now: Timestamp) -> Outcome<()> {
    sqlx::query!("-- bundles::remove\n UPDATE bundles SET gone_at = $2 WHERE id = $1", id.uuid(), now)
        .execute(conn)
        .await?;
    Ok(())
}

/// Lists bundles, newest first.
pub(super) async fn list(
    conn: &mut PgConnection,
    intent_id: Option<IntentId>,
    before: Option<BundleId>,
    limit: u32,
) -> Outcome<Vec<BundleRecord>> {
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
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(BundleRecord::try_from).collect()
}

/// Reads lines in their order, up to the filter's limit and little more than [`BYTES`].
pub(super) async fn page(
    conn: &mut PgConnection,
    id: BundleId,
    filter: &LineFilter<'_>,
) -> Outcome<Vec<BundleLine>> {
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
    .fetch_all(conn)
    .await?;
    Ok(found)
}

/// Returns the bundle of an intent that was written last.
pub(super) async fn latest(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Option<BundleId>> {
    let found = sqlx::query_scalar!(
        "-- bundles::latest
         SELECT id FROM bundles WHERE gone_at IS NULL AND intent_id = $1 ORDER BY exported_at DESC, id DESC LIMIT 1",
        intent_id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(found.map(BundleId::from))
}

/// Deletes lines of one bundle that is gone, and at last itself; returns the number of deleted rows.
pub(super) async fn forget(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<u64> {
    let gone = sqlx::query_scalar!(
        "-- bundles::gone
         SELECT id FROM bundles WHERE gone_at <= $1 ORDER BY gone_at LIMIT 1",
        now
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(id) = gone else { return Ok(0) };
    let lines = sqlx::query!(
        "-- bundle_lines::forget
         DELETE FROM bundle_lines
         WHERE bundle_id = $1 AND number <= (SELECT min(number) FROM bundle_lines WHERE bundle_id = $1) + $2::bigint",
        id,
        limit
    )
    .execute(&mut *conn)
    .await?;
    if lines.rows_affected() > 0 {
        return Ok(lines.rows_affected());
    }
    let row = sqlx::query!("-- bundles::forget\n DELETE FROM bundles WHERE id = $1", id);
    Ok(row.execute(conn).await?.rows_affected())
}
