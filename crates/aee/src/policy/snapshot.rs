//! The policy snapshot: a cache of rules (`rules.rs`) and schemas (`schemas.rs`), so that deciding about an envelope
//! needs no query.
//!
//! Every change of either raises the version (`version.rs`). Decisions use the cached snapshot; the commit compares its
//! version and has the envelope decided again if it differs. A change therefore applies to every envelope that is not yet
//! committed, on every server.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use entente_domain::aee::envelopes::policy::Checked;
use entente_domain::aee::envelopes::schemas::{PROTOCOL, Schema, Strictness, Subject};
use entente_domain::aee::envelopes::{Envelope, EnvelopeType, Warning};
use entente_domain::refusal::{Code, FieldError, Refusal};
use entente_kernel::{AppError, Outcome, run_blocking};
use serde_json::Value;
use sqlx::PgConnection;
use tokio::sync::{Mutex, Semaphore};
use tracing::error;

use crate::Ctx;
use crate::policy::{rules, schemas, version};

/// The published schema for one type of an intent.
#[derive(Debug, Clone)]
struct Entry {
    kind: EnvelopeType,
    strictness: Strictness,
    text: Arc<str>,
    /// `None` if this version of the server cannot read it any more: then every payload is invalid.
    schema: Option<Arc<Schema>>,
}

/// Rules and schemas at one version.
#[derive(Debug, Default)]
pub struct PolicySnapshot {
    /// The version.
    pub version: i64,
    /// The rules, in the order of their names.
    pub rules: Vec<Checked>,
    /// The schemas, by intent.
    schemas: HashMap<String, Vec<Entry>>,
}

/// Maximum number of concurrent checks of large payloads, which must not occupy all cores.
const CHECKS: usize = 2;

/// Cost up to which a payload is checked on the request's thread; a larger one would delay the thread's other
/// clients.
const SHORT: u64 = 2_000;

/// Cache of the policy snapshot.
#[derive(Debug)]
pub struct PolicyCache {
    book: RwLock<Option<Arc<PolicySnapshot>>>,
    /// Lock for reloading: one task reloads for all that find the snapshot outdated.
    reading: Mutex<()>,
    /// Permits for checks of large payloads.
    checks: Semaphore,
}

impl Default for PolicyCache {
    fn default() -> Self {
        Self { book: RwLock::default(), reading: Mutex::default(), checks: Semaphore::new(CHECKS) }
    }
}

impl PolicyCache {
    /// Returns the cached snapshot; it may be outdated.
    #[must_use]
    pub fn book(&self) -> Option<Arc<PolicySnapshot>> {
        self.book.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Caches a snapshot, unless a later one is cached.
    fn put(&self, book: &Arc<PolicySnapshot>) {
        let mut kept = self.book.write().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.version <= book.version) {
            *kept = Some(Arc::clone(book));
        }
    }
}

impl PolicySnapshot {
    fn entry(&self, purpose: &str, kind: EnvelopeType) -> Option<&Entry> {
        self.schemas.get(purpose)?.iter().find(|entry| entry.kind == kind)
    }

    /// Returns the faults of a payload by its schema; `None` if there is no schema.
    ///
    /// # Errors
    /// Fails if the server is stopping.
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

    /// Validates an envelope's payload against the schema of its intent and type, if there is one (AEE §6.4).
    ///
    /// # Errors
    /// [`Code::PayloadInvalid`] if the payload is invalid and the schema is enforced.
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

/// Checks a payload: a small one at once, a large one on another thread after waiting for a permit.
///
/// # Errors
/// Fails if the server is stopping.
pub(crate) async fn check<T: Send + 'static>(
    ctx: &Ctx,
    schema: &Arc<Schema>,
    payload: &Value,
    how: fn(&Schema, &Value) -> T,
) -> Outcome<T> {
    if schema.looks(payload) <= SHORT {
        return Ok(how(schema, payload));
    }
    let _turn =
        ctx.state.policies.checks.acquire().await.map_err(|e| AppError::Unavailable(e.to_string()))?;
    let (schema, payload) = (Arc::clone(schema), payload.clone());
    run_blocking(move || how(&schema, &payload)).await
}

/// Returns the cached snapshot, and loads it if there is none.
///
/// It may be outdated; the commit of a decision compares its version (`ingest/batch.rs`).
///
/// # Errors
/// Returns database errors.
pub(crate) async fn at_hand(ctx: &Ctx) -> Outcome<Arc<PolicySnapshot>> {
    match ctx.state.policies.book() {
        Some(book) => Ok(book),
        None => refresh(ctx).await,
    }
}

/// Returns the current snapshot, including changes by other servers.
///
/// # Errors
/// Returns database errors.
pub async fn latest(ctx: &Ctx) -> Outcome<Arc<PolicySnapshot>> {
    if let Some(book) = ctx.state.policies.book() {
        let mut connection = ctx.pool.acquire().await?;
        if version::current(&mut connection).await? == book.version {
            return Ok(book);
        }
    }
    refresh(ctx).await
}

/// Like [`latest`], on the caller's connection, because a task that has a connection must not wait for another one.
///
/// Reads the changes since the cached snapshot and caches the result.
///
/// # Errors
/// Returns database errors.
pub(crate) async fn within(ctx: &Ctx, conn: &mut PgConnection) -> Outcome<Arc<PolicySnapshot>> {
    let before = ctx.state.policies.book();
    // The version is read first: a change in between makes the snapshot newer than its version, and is noticed later.
    let version = version::current(conn).await?;
    if let Some(book) = before.as_ref().filter(|book| book.version == version) {
        return Ok(Arc::clone(book));
    }
    // They were checked when they were set. If one cannot be read any more, nothing passes, because its effect is
    // unknown.
    let rules: Result<Vec<Checked>, Refusal> =
        rules::load(conn).await?.into_iter().map(|named| named.rule.check()).collect();
    let rules =
        rules.map_err(|refusal| AppError::Inconsistent(format!("a rule for envelopes: {refusal}")))?;
    // Schemas up to the cached version are in the cached snapshot.
    let since = before.as_ref().map_or(-1, |book| book.version);
    let published = schemas::load(conn, since).await?;
    let read = move || PolicySnapshot { version, rules, schemas: compile(published, before.as_deref()) };
    let book = Arc::new(run_blocking(read).await?);
    ctx.state.policies.put(&book);
    Ok(book)
}

/// Like [`within`], one task at a time: a task that waited for another finds the result cached.
///
/// # Errors
/// Returns database errors.
async fn refresh(ctx: &Ctx) -> Outcome<Arc<PolicySnapshot>> {
    let _turn = ctx.state.policies.reading.lock().await;
    let mut connection = ctx.pool.acquire().await?;
    within(ctx, &mut connection).await
}

/// Combines the published schemas with the protocol's own unpublished ones; reuses compiled schemas that are
/// unchanged.
fn compile(published: Vec<schemas::Change>, before: Option<&PolicySnapshot>) -> HashMap<String, Vec<Entry>> {
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
