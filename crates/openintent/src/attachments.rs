//! Attachments (RFC-0005): files of an intent, by reference. Owns the table `attachments`.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{AttachmentId, IntentId};
use entente_domain::limits::ATTACHMENTS;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::attachments as domain;
use entente_domain::openintent::attachments::{Attachment, AttachmentAsk};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::governance;
use entente_kernel::access::governance::Attempt;
use entente_kernel::access::membership;
use entente_kernel::{AppError, Caller, IntentTx, Outcome, not_found, unknown};
use serde_json::json;
use sqlx::PgConnection;

use crate::Ctx;

/// Adds a file to an intent.
///
/// # Errors
/// The intent does not exist or is not writable; the attachment is invalid; the intent has the maximum number
/// of files.
pub async fn add(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: AttachmentAsk,
    once: Option<&Idempotency>,
) -> Outcome<Attachment> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership = work.require(Level::Write)?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let attempt =
        Attempt { intent_id, membership: &membership, agent: &caller.agent, operation: "add_attachment" };
    let mut work = governance::admit(caller, work, attempt).await?;
    let now = work.now();
    let there = count(work.conn(), intent_id).await?;
    let id = AttachmentId::mint(now, &*ctx.chance);
    let made = domain::add(ask, there, intent_id, &caller.agent, id, now)?;
    work.record(Draft::of(Kind::AttachmentAdded, &caller.agent, event_payload(&made)));
    let (conn, log) = work.parts();
    insert(conn, &made, log.tail.seq).await?;
    work.finish(made).await
}

/// Builds the event payload of a file, without its URL, because such URLs often give access to anybody.
fn event_payload(made: &Attachment) -> serde_json::Value {
    json!({
        "attachment_id": made.id, "filename": made.filename, "mime_type": made.mime_type, "size": made.size,
        "content_hash": made.content_hash, "uploaded_by": made.uploaded_by,
    })
}

struct Row {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    filename: String,
    mime_type: String,
    size: i64,
    storage_url: String,
    content_hash: Option<String>,
    metadata: String,
    uploaded_by: String,
    created_at: Timestamp,
}

impl TryFrom<Row> for Attachment {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            filename: row.filename,
            mime_type: row.mime_type,
            size: u64::try_from(row.size).map_err(|_negative| unknown("size", &row.size.to_string()))?,
            storage_url: row.storage_url,
            content_hash: row.content_hash,
            metadata: serde_json::from_str(&row.metadata)?,
            uploaded_by: row.uploaded_by,
            created_at: row.created_at,
        })
    }
}

/// Selects files: the query's name, and the text after `FROM attachments`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT id, intent_id, filename, mime_type, size, storage_url, content_hash, metadata, uploaded_by, created_at
             FROM attachments " + $rest
            $(, $argument)*
        )
    };
}

/// Lists all files of an intent in the order of their addition; the limit per intent makes one page enough.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn list(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Vec<Attachment>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    let rows = select!("attachments::list", "WHERE intent_id = $1 ORDER BY seq", intent_id.uuid())
        .fetch_all(&mut *connection)
        .await?;
    rows.into_iter().map(Attachment::try_from).collect()
}

/// Removes a file from an intent, but not the file itself; its uploader and the intent's admins may do so.
///
/// # Errors
/// The intent does not exist or is not writable; it has no such file; another agent added the file.
pub async fn remove(ctx: &Ctx, caller: &Caller, intent_id: IntentId, id: AttachmentId) -> Outcome<()> {
    caller.require(Scope::IntentsWrite)?;
    let work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    let membership = work.require(Level::Write)?;
    let attempt =
        Attempt { intent_id, membership: &membership, agent: &caller.agent, operation: "remove_attachment" };
    let mut work = governance::admit(caller, work, attempt).await?;
    let found = load(work.conn(), intent_id, id).await?.ok_or_else(|| not_found("attachment"))?;
    if found.uploaded_by != caller.agent && !membership.access.reaches(Level::Admin) {
        let message = "An attachment is taken off by whoever added it, and by the intent's admins.";
        return Err(Refusal::new(Code::Forbidden, message).into());
    }
    delete(work.conn(), id).await?;
    // The SDK has one event type for attachments, so removals are published under it as well.
    let payload = json!({ "attachment_id": id, "filename": found.filename, "removed": true });
    work.record(Draft::of(Kind::AttachmentAdded, &caller.agent, payload));
    work.commit().await
}

/// Counts the files of an intent, up to the limit.
async fn count(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<usize> {
    let count = sqlx::query_scalar!(
        r#"-- attachments::count
         SELECT count(*) AS "count!" FROM (SELECT 1 FROM attachments WHERE intent_id = $1 LIMIT $2) AS there"#,
        intent_id.uuid(),
        i64::try_from(ATTACHMENTS).unwrap_or(i64::MAX)
    )
    .fetch_one(conn)
    .await?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

async fn load(conn: &mut PgConnection, intent_id: IntentId, id: AttachmentId) -> Outcome<Option<Attachment>> {
    let row = select!("attachments::load", "WHERE id = $1 AND intent_id = $2", id.uuid(), intent_id.uuid())
        .fetch_optional(conn)
        .await?;
    row.map(Attachment::try_from).transpose()
}

async fn insert(conn: &mut PgConnection, made: &Attachment, seq: i64) -> Outcome<()> {
    sqlx::query!(
        "-- attachments::insert
         INSERT INTO attachments (id, intent_id, seq, filename, mime_type, size, storage_url, content_hash, metadata,
                                  uploaded_by, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        made.id.uuid(),
        made.intent_id.uuid(),
        seq,
        made.filename,
        made.mime_type,
        i64::try_from(made.size).unwrap_or(i64::MAX),
        made.storage_url,
        made.content_hash,
        serde_json::to_string(&made.metadata)?,
        made.uploaded_by,
        made.created_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn delete(conn: &mut PgConnection, id: AttachmentId) -> Outcome<()> {
    sqlx::query!(
        "-- attachments::delete
         DELETE FROM attachments WHERE id = $1",
        id.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}
