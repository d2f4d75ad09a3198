//! What a server remembers of rules (`rules.rs`) and schemas (`schemas.rs`), so that judging an envelope asks the database
//! for nothing. Table `aee_version`.
//!
//! Every change of either raises the version in its own transaction. Whoever judges goes by what is remembered; the commit
//! compares the version and has it judged anew when it differs. So a change counts for every envelope that is not yet
//! committed, on every server.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use entente_domain::envelopes::policy::Checked;
use entente_domain::envelopes::schemas::{PROTOCOL, Schema, Strictness, Subject};
use entente_domain::envelopes::{Envelope, EnvelopeType, Warning};
use entente_domain::refusal::{Code, FieldError, Refusal};
use serde_json::Value;
use sqlx::PgConnection;
use tokio::sync::{Mutex, Semaphore};
use tracing::error;

use super::{AppError, Ctx, Outcome, aside, rules, schemas};

/// What was published for one type of an intent.
#[derive(Debug, Clone)]
struct Entry {
    kind: EnvelopeType,
    strictness: Strictness,
    text: Arc<str>,
    /// `None` when this version of the server does not understand it any more: then nothing fits.
    schema: Option<Arc<Schema>>,
}

/// Rules and schemas as they were at a version.
#[derive(Debug, Default)]
pub struct Rulebook {
    /// The version.
    pub version: i64,
    /// The rules, in the order of their names.
    pub rules: Vec<Checked>,
    /// By intent.
    schemas: HashMap<String, Vec<Entry>>,
}

/// Checks of some size that go on at once: they must not take all cores from those who send little.
const CHECKS: usize = 2;

/// Looks up to which a payload is checked where it came in; more would hold up everybody whom that thread serves.
const SHORT: u64 = 2_000;

/// Where the book is kept.
#[derive(Debug)]
pub struct Shelf {
    book: RwLock<Option<Arc<Rulebook>>>,
    /// Whose turn it is to read it anew: one reads for all who find it old.
    reading: Mutex<()>,
    /// Whose turn it is to have something large checked.
    checks: Semaphore,
}

impl Default for Shelf {
    fn default() -> Self {
        Self { book: RwLock::default(), reading: Mutex::default(), checks: Semaphore::new(CHECKS) }
    }
}

impl Shelf {
    /// The book that is remembered; it may be old.
    #[must_use]
    pub fn book(&self) -> Option<Arc<Rulebook>> {
        self.book.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a book there, unless a later one is.
    fn put(&self, book: &Arc<Rulebook>) {
        let mut kept = self.book.write().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.version <= book.version) {
            *kept = Some(Arc::clone(book));
        }
    }
}

impl Rulebook {
    fn entry(&self, purpose: &str, kind: EnvelopeType) -> Option<&Entry> {
        self.schemas.get(purpose)?.iter().find(|entry| entry.kind == kind)
    }

    /// What of a payload does not fit its schema; `None` when there is no schema.
    ///
    /// # Errors
    /// The server is stopping.
    pub async fn faults(
        &self,
        ctx: &Ctx,
        purpose: &str,
        kind: EnvelopeType,
        payload: &Value,
    ) -> Outcome<Option<Vec<FieldError>>> {
        match self.entry(purpose, kind) {
            Some(entry) => entry.faults(ctx, payload).await.map(Some),
            None => Ok(None),
        }
    }

    /// Judges the payload of an envelope by the schema of its intent and type, if there is one (AEE §6.4).
    ///
    /// # Errors
    /// [`Code::PayloadInvalid`] where that is enforced.
    pub async fn fits(&self, ctx: &Ctx, envelope: &Envelope) -> Outcome<Option<Warning>> {
        let Some(entry) = self.entry(&envelope.purpose, envelope.kind) else { return Ok(None) };
        let payload = envelope.payload();
        match entry.strictness {
            Strictness::Off => return Ok(None),
            Strictness::Warn => {
                let fits = match &entry.schema {
                    Some(schema) => {
                        check(ctx, schema, payload, |schema, payload| schema.fault(payload).is_none()).await?
                    }
                    None => false,
                };
                return Ok((!fits).then_some(Warning::PayloadInvalid));
            }
            Strictness::Enforce => {}
        }
        let faults = entry.faults(ctx, payload).await?;
        if faults.is_empty() {
            return Ok(None);
        }
        let message = format!(
            "The payload is not what the schema of this intent says; `errors` says where. Read it at \
             `GET /api/v1/aee/schemas/intents/{{intent}}.{}.schema.json`.",
            envelope.kind.as_str()
        );
        Err(Refusal { errors: faults, ..Refusal::new(Code::PayloadInvalid, message) }.into())
    }
}

impl Entry {
    async fn faults(&self, ctx: &Ctx, payload: &Value) -> Outcome<Vec<FieldError>> {
        match &self.schema {
            Some(schema) => check(ctx, schema, payload, Schema::faults).await,
            None => Ok(vec![FieldError {
                kind: "schema".to_owned(),
                loc: vec!["body".to_owned(), "payload".to_owned()],
                msg: "its schema can no longer be read; ask an admin to publish it anew".to_owned(),
            }]),
        }
    }
}

/// Checks a payload: at once when it is small, else when it is its turn, and not on the thread of a request.
///
/// # Errors
/// The server is stopping.
pub(super) async fn check<T: Send + 'static>(
    ctx: &Ctx,
    schema: &Arc<Schema>,
    payload: &Value,
    how: fn(&Schema, &Value) -> T,
) -> Outcome<T> {
    if schema.looks(payload) <= SHORT {
        return Ok(how(schema, payload));
    }
    let _turn = ctx.rulebook.checks.acquire().await.map_err(|e| AppError::Unavailable(e.to_string()))?;
    let (schema, payload) = (Arc::clone(schema), payload.clone());
    aside(move || how(&schema, &payload)).await
}

/// The book that is remembered, read if there is none. It may be old: whoever judges by it has its version compared in the
/// commit (`post/batch.rs`).
///
/// # Errors
/// The database.
pub async fn at_hand(ctx: &Ctx) -> Outcome<Arc<Rulebook>> {
    match ctx.rulebook.book() {
        Some(book) => Ok(book),
        None => refresh(ctx).await,
    }
}

/// The book as it is now, also when another server changed it.
///
/// # Errors
/// The database.
pub async fn latest(ctx: &Ctx) -> Outcome<Arc<Rulebook>> {
    if let Some(book) = ctx.rulebook.book() {
        let mut connection = ctx.pool.acquire().await?;
        if version(&mut connection).await? == book.version {
            return Ok(book);
        }
    }
    refresh(ctx).await
}

/// As [`latest`], in the caller's transaction: whoever has a connection must not wait for another one. Reads anew what was
/// changed since the book that is remembered, and remembers that.
///
/// # Errors
/// The database.
pub(crate) async fn within(ctx: &Ctx, conn: &mut PgConnection) -> Outcome<Arc<Rulebook>> {
    let before = ctx.rulebook.book();
    // The version first: what is changed in between makes the book newer than it says, and is noticed.
    let version = version(conn).await?;
    if let Some(book) = before.as_ref().filter(|book| book.version == version) {
        return Ok(Arc::clone(book));
    }
    // They were checked when they were set. Where one cannot be read any more nothing passes, because nobody knows what may.
    let rules: Result<Vec<Checked>, Refusal> =
        rules::load(conn).await?.into_iter().map(|named| named.rule.check()).collect();
    let rules =
        rules.map_err(|refusal| AppError::Inconsistent(format!("a rule for envelopes: {refusal}")))?;
    // Whatever has the version of the book that is remembered, or an earlier one, stands in it.
    let since = before.as_ref().map_or(-1, |book| book.version);
    let published = schemas::load(conn, since).await?;
    let read = move || Rulebook { version, rules, schemas: compile(published, before.as_deref()) };
    let book = Arc::new(aside(read).await?);
    ctx.rulebook.put(&book);
    Ok(book)
}

/// As [`within`], one at a time: who waited for another to read it finds it read.
///
/// # Errors
/// The database.
pub async fn refresh(ctx: &Ctx) -> Outcome<Arc<Rulebook>> {
    let _turn = ctx.rulebook.reading.lock().await;
    let mut connection = ctx.pool.acquire().await?;
    within(ctx, &mut connection).await
}

/// Everything that was published, and what of the protocol's own was not. What is known already is not read again.
fn compile(published: Vec<schemas::Change>, before: Option<&Rulebook>) -> HashMap<String, Vec<Entry>> {
    let mut book: HashMap<String, Vec<Entry>> = HashMap::new();
    let own = PROTOCOL.iter().map(|(purpose, kind, text)| {
        let subject = Subject { purpose: (*purpose).to_owned(), kind: *kind };
        (subject, Strictness::Warn, Some((*text).to_owned()))
    });
    for (subject, strictness, text) in published.into_iter().chain(own) {
        let Subject { purpose, kind } = subject;
        let entries = book.entry(purpose.clone()).or_default();
        if entries.iter().any(|entry| entry.kind == kind) {
            continue;
        }
        let known = before.and_then(|book| book.entry(&purpose, kind));
        let same = |entry: &&Entry| text.as_ref().is_none_or(|text| *entry.text == **text);
        if let Some(known) = known.filter(same) {
            entries.push(Entry { strictness, ..known.clone() });
            continue;
        }
        let text = text.unwrap_or_default();
        let schema = Schema::read(text.as_bytes());
        if let Err(refusal) = &schema {
            error!(%refusal, kind = kind.as_str(), "a schema of payloads cannot be read any more: nothing fits it");
        }
        entries.push(Entry { kind, strictness, text: text.into(), schema: schema.ok().map(Arc::new) });
    }
    book
}

/// The version now.
///
/// # Errors
/// The database.
pub async fn version(conn: &mut PgConnection) -> Outcome<i64> {
    let version = sqlx::query_scalar!(
        "-- rulebook::version
         SELECT version FROM aee_version"
    )
    .fetch_one(conn)
    .await?;
    Ok(version)
}

/// What keeps rules, schemas and keys as they are, until the transaction ends: whoever takes in envelopes holds it with others
/// like it, whoever changes them alone.
const HOLD: i64 = 0x0a33_0a33;

/// Has rules, schemas and keys stay as they are until the transaction ends. A statement sees what is committed when it
/// begins, so what they are is asked after this.
pub(super) async fn hold(conn: &mut PgConnection) -> Outcome<()> {
    sqlx::query!("-- rulebook::hold\n SELECT pg_advisory_xact_lock_shared($1)", HOLD).execute(conn).await?;
    Ok(())
}

/// Waits until nobody takes in envelopes by what is about to change, and lets nobody begin until it has.
pub(super) async fn change(conn: &mut PgConnection) -> Outcome<()> {
    sqlx::query!("-- rulebook::change\n SELECT pg_advisory_xact_lock($1)", HOLD).execute(conn).await?;
    Ok(())
}

/// Raises the version, with whatever else the transaction changes; the version that it makes.
pub(super) async fn bump(conn: &mut PgConnection) -> Outcome<i64> {
    change(conn).await?;
    let version = sqlx::query_scalar!(
        "-- rulebook::bump
         UPDATE aee_version SET version = version + 1 RETURNING version"
    );
    Ok(version.fetch_one(conn).await?)
}
