//! Published schemas of payloads (AEE §9.3). Table `aee_schemas`; `domain/src/aee/envelopes/schemas.rs` defines valid
//! schemas.
//!
//! The first principal to publish an intent's schema owns it and may change it; an admin may change any, and owns it
//! from then on. Only an admin may enforce a schema, or publish for the protocol's own intents: a stranger's schema
//! must not block the envelopes of others.

use entente_domain::aee::envelopes::purposes;
use entente_domain::aee::envelopes::schemas::{PROTOCOL, SCHEMAS, SCHEMAS_EACH, Schema, Strictness, Subject};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::Code;
use entente_kernel::{AppError, Caller, IntentTx, Outcome, not_found, refuse, run_blocking, unknown};
use serde_json::json;
use sqlx::PgConnection;

use crate::Ctx;
use crate::policy::version;

/// A published schema, or one of the protocol's own.
#[derive(Debug, Clone)]
pub struct Published {
    /// Intent and type that the schema applies to.
    pub subject: Subject,
    /// Text of the schema, unchanged; empty in a list.
    pub text: String,
    /// Handling of invalid payloads.
    pub strictness: Strictness,
    /// Principal and time of the last publication; `None` for the protocol's own.
    pub updated: Option<(String, Timestamp)>,
}

/// Lists all schemas, in the order of their intents.
///
/// # Errors
/// Fails if the scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<Published>> {
    caller.require(Scope::MailRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let mut all = every(&mut connection).await?;
    let missing = own().filter(|own| !all.iter().any(|one| one.subject == own.subject));
    all.extend(missing.collect::<Vec<_>>());
    all.sort_unstable_by(|a, b| a.subject.cmp(&b.subject));
    Ok(all)
}

/// Returns one schema.
///
/// # Errors
/// Fails if the scope is missing, or if there is no such schema.
pub async fn get(ctx: &Ctx, caller: &Caller, subject: &Subject) -> Outcome<Published> {
    caller.require(Scope::MailRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let found = find(&mut connection, subject).await?;
    found.or_else(|| own().find(|own| own.subject == *subject)).ok_or_else(|| not_found("schema"))
}

/// Publishes a schema, replacing the existing one; the strictness defaults to the existing one's.
///
/// # Errors
/// Fails if the scope is missing, if the schema belongs to another principal, if it is not a valid schema, or if the
/// maximum number is reached.
pub async fn publish(
    ctx: &Ctx,
    caller: &Caller,
    subject: Subject,
    text: String,
    strictness: Option<Strictness>,
) -> Outcome<Published> {
    caller.require(Scope::MailWrite)?;
    let admin = caller.has(Scope::Admin);
    if !admin {
        if strictness == Some(Strictness::Enforce) {
            let message = "Only an admin has a schema enforced, because that stops others' envelopes. Publish it with \
                           `policy=warn`.";
            return Err(refuse(Code::Forbidden, message));
        }
        purposes::admit(&subject.purpose, &[])?;
        if purposes::in_space(&subject.purpose, "aee") {
            return Err(refuse(
                Code::Forbidden,
                "Only an admin publishes schemas for the protocol's own intents.",
            ));
        }
    }
    let (read, text) = run_blocking(move || (Schema::read(text.as_bytes()), text)).await?;
    read?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let before = find(work.conn(), &subject).await?;
    match &before {
        Some(before) => require_owner(caller, before)?,
        None => require_room(work.conn(), caller).await?,
    }
    let strictness = strictness.or(before.as_ref().map(|before| before.strictness)).unwrap_or_default();
    if let Some(before) = before.filter(|before| before.text == text && before.strictness == strictness) {
        return Ok(before);
    }
    let now = work.now();
    let updated = Some((caller.principal().to_owned(), now));
    let published = Published { subject, text, strictness, updated };
    let version = version::bump(work.conn()).await?;
    save(work.conn(), &published, caller.principal(), now, version).await?;
    work.record(Draft::of(Kind::EnvelopeSchemaPublished, caller.principal(), event_payload(&published)));
    work.commit().await?;
    Ok(published)
}

/// Withdraws a schema.
///
/// # Errors
/// Fails if the scope is missing, if there is no such schema, or if it belongs to another principal.
pub async fn withdraw(ctx: &Ctx, caller: &Caller, subject: &Subject) -> Outcome<()> {
    caller.require(Scope::MailWrite)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let before = find(work.conn(), subject).await?.ok_or_else(|| not_found("schema"))?;
    require_owner(caller, &before)?;
    delete(work.conn(), subject).await?;
    version::bump(work.conn()).await?;
    work.record(Draft::of(Kind::EnvelopeSchemaWithdrawn, caller.principal(), event_payload(&before)));
    work.commit().await
}

fn event_payload(published: &Published) -> serde_json::Value {
    let Subject { purpose, kind } = &published.subject;
    json!({ "intent": purpose, "type": kind, "policy": published.strictness })
}

fn require_owner(caller: &Caller, published: &Published) -> Outcome<()> {
    if caller.has(Scope::Admin) {
        return Ok(());
    }
    if published.strictness == Strictness::Enforce {
        let message =
            "An admin has this schema enforced: what changes it decides which envelopes pass. Ask an admin.";
        return Err(refuse(Code::Forbidden, message));
    }
    let owner = published.updated.as_ref().map(|(owner, _)| owner.as_str());
    if owner == Some(caller.principal()) {
        return Ok(());
    }
    let message = "Another principal published the schema of this intent. Ask it, or an admin, to change it; or give \
                   your intent a name of its own.";
    Err(refuse(Code::Forbidden, message))
}

async fn require_room(conn: &mut PgConnection, caller: &Caller) -> Outcome<()> {
    let counted = sqlx::query!(
        r#"-- schemas::count
         SELECT count(*) AS "all!", count(*) FILTER (WHERE updated_by = $1) AS "own!" FROM aee_schemas"#,
        caller.principal()
    )
    .fetch_one(conn)
    .await?;
    let over = |count: i64, most: usize| usize::try_from(count).unwrap_or(usize::MAX) >= most;
    if over(counted.all, SCHEMAS) || (over(counted.own, SCHEMAS_EACH) && !caller.has(Scope::Admin)) {
        let message = format!(
            "There are as many schemas as there may be: {SCHEMAS}, and {SCHEMAS_EACH} by one principal that is no \
             admin. Take some back."
        );
        return Err(refuse(Code::Unprocessable, message));
    }
    Ok(())
}

/// Returns the schemas of the protocol's own intents.
fn own() -> impl Iterator<Item = Published> {
    PROTOCOL.iter().map(|(purpose, kind, text)| Published {
        subject: Subject { purpose: (*purpose).to_owned(), kind: *kind },
        text: (*text).to_owned(),
        strictness: Strictness::Warn,
        updated: None,
    })
}

struct Row {
    purpose: String,
    kind: String,
    schema: String,
    policy: String,
    updated_by: String,
    updated_at: Timestamp,
}

impl TryFrom<Row> for Published {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let kind = Subject::kind(&row.kind).ok_or_else(|| unknown("type of a schema", &row.kind))?;
        Ok(Self {
            subject: Subject { purpose: row.purpose, kind },
            text: row.schema,
            strictness: Strictness::parse(&row.policy)
                .ok_or_else(|| unknown("policy of a schema", &row.policy))?,
            updated: Some((row.updated_by, row.updated_at)),
        })
    }
}

/// A schema for the policy snapshot; its text is present if it has changed.
pub(crate) type Change = (Subject, Strictness, Option<String>);

/// Loads all published schemas for the policy snapshot, with the texts changed since this version.
pub(crate) async fn load(conn: &mut PgConnection, since: i64) -> Outcome<Vec<Change>> {
    let rows = sqlx::query!(
        "-- schemas::load
         SELECT purpose, type AS kind, policy, CASE WHEN version > $1 THEN schema END AS schema FROM aee_schemas
         ORDER BY purpose, type",
        since
    )
    .fetch_all(conn)
    .await?;
    let change = |purpose: String, kind: &str, policy: &str, schema| {
        let kind = Subject::kind(kind).ok_or_else(|| unknown("type of a schema", kind))?;
        let strictness = Strictness::parse(policy).ok_or_else(|| unknown("policy of a schema", policy))?;
        Ok((Subject { purpose, kind }, strictness, schema))
    };
    rows.into_iter().map(|row| change(row.purpose, &row.kind, &row.policy, row.schema)).collect()
}

/// Loads all schemas without their texts, each of which may have up to 64 KiB.
async fn every(conn: &mut PgConnection) -> Outcome<Vec<Published>> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- schemas::every
         SELECT purpose, type AS kind, '' AS "schema!", policy, updated_by, updated_at FROM aee_schemas
         ORDER BY purpose, type"#
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Published::try_from).collect()
}

async fn find(conn: &mut PgConnection, subject: &Subject) -> Outcome<Option<Published>> {
    let row = sqlx::query_as!(
        Row,
        "-- schemas::find
         SELECT purpose, type AS kind, schema, policy, updated_by, updated_at FROM aee_schemas
         WHERE purpose = $1 AND type = $2",
        subject.purpose,
        subject.kind.as_str()
    )
    .fetch_optional(conn)
    .await?;
    row.map(Published::try_from).transpose()
}

async fn save(
    conn: &mut PgConnection,
    published: &Published,
    by: &str,
    at: Timestamp,
    version: i64,
) -> Outcome<()> {
    sqlx::query!(
        "-- schemas::save
         INSERT INTO aee_schemas (purpose, type, schema, policy, updated_by, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (purpose, type) DO UPDATE
         SET schema = $3, policy = $4, updated_by = $5, updated_at = $6, version = $7",
        published.subject.purpose,
        published.subject.kind.as_str(),
        published.text,
        published.strictness.as_str(),
        by,
        at,
        version
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn delete(conn: &mut PgConnection, subject: &Subject) -> Outcome<()> {
    sqlx::query!(
        "-- schemas::delete
         DELETE FROM aee_schemas WHERE purpose = $1 AND type = $2",
        subject.purpose,
        subject.kind.as_str()
    )
    .execute(conn)
    .await?;
    Ok(())
}
