//! Keys that sign envelopes (AEE §8, §11.2): registration, revocation, and verification of signatures. Table
//! `aee_keys`; changes are recorded in the system log. These are neither API keys
//! (`crates/kernel/src/identity/keys.rs`) nor agents' identities (`crates/kernel/src/identity/identities.rs`): an
//! entity may have several, each with its own name.

use std::collections::HashSet;
use std::sync::Arc;

use entente_domain::aee::envelope_keys as domain;
use entente_domain::aee::envelope_keys::{Ask, EnvelopeKey, Registered, Shared};
use entente_domain::aee::envelopes::Envelope;
use entente_domain::aee::envelopes::signing::{Algorithm, Sig, VerifyingKey};
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::check_name;
use entente_domain::identity::signatures::PublicKey;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_kernel::identity::entities::speaks_for;
use entente_kernel::{AppError, Caller, IntentTx, Outcome, not_found, unknown};
use entente_runtime::cache::Cache;
use entente_runtime::metrics::Metrics;
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::Ctx;
use crate::policy::version;

/// The result of a registration.
#[derive(Debug)]
pub struct Registration {
    /// The key.
    pub key: EnvelopeKey,
    /// The secret that was generated for it; a repeated request does not return it again.
    pub secret: Option<Shared>,
    /// Whether this request created it.
    pub new: bool,
}

/// Registers a key of an entity that the caller may act as, or as an admin of any entity; the entity defaults
/// to the acting agent, and repeating it changes nothing.
///
/// # Errors
/// The scope is missing, the entity is not the caller's, or the domain rules refuse the key.
pub async fn register(
    ctx: &Ctx,
    caller: &Caller,
    entity: Option<&str>,
    ask: &Ask,
    once: Option<&Idempotency>,
) -> Outcome<Registration> {
    caller.require(Scope::MailWrite)?;
    let entity = own(ctx, caller, entity, "entity").await?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some((entity, kid)) = work.repeated::<(String, String)>()? {
        let key = find(work.conn(), &entity, &kid).await?.ok_or_else(|| not_found("key"))?;
        return Ok(Registration { key, secret: None, new: true });
    }
    let known = all(work.conn(), &entity).await?;
    let registered = domain::register(&entity, &known, ask, caller.principal(), work.now(), &*ctx.chance)?;
    let (key, secret) = match registered {
        Registered::Same(key) => return Ok(Registration { key, secret: None, new: false }),
        Registered::New(key, secret) => (key, secret),
    };
    insert(work.conn(), &key).await?;
    work.record(Draft::of(Kind::EnvelopeKeyRegistered, &caller.agent, event_payload(&key)));
    work.finish((&key.entity, &key.kid)).await?;
    Ok(Registration { key, secret, new: true })
}

/// Revokes a key on every server, for all envelopes not yet committed; repeating it changes nothing.
///
/// # Errors
/// The scope is missing; no entity of the caller's has such a key.
pub async fn revoke(ctx: &Ctx, caller: &Caller, entity: Option<&str>, kid: &str) -> Outcome<EnvelopeKey> {
    caller.require(Scope::MailWrite)?;
    let entity = own(ctx, caller, entity, "key").await?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let known = find(work.conn(), &entity, kid).await?.ok_or_else(|| not_found("key"))?;
    let Some(revoked) = domain::revoke(&known, work.now()) else { return Ok(known) };
    // Waits for commits of envelopes that it signed; later ones find it revoked.
    version::change(work.conn()).await?;
    end(work.conn(), &revoked).await?;
    work.record(Draft::of(Kind::EnvelopeKeyRevoked, &caller.agent, event_payload(&revoked)));
    work.commit().await?;
    ctx.state.keys.forget(&entity, kid);
    Ok(revoked)
}

/// Lists all keys that an entity ever had, oldest first.
///
/// # Errors
/// The scope is missing; the entity is not the caller's.
pub async fn list(ctx: &Ctx, caller: &Caller, entity: Option<&str>) -> Outcome<Vec<EnvelopeKey>> {
    caller.require(Scope::MailRead)?;
    let entity = own(ctx, caller, entity, "entity").await?;
    let mut connection = ctx.pool.acquire().await?;
    all(&mut connection, &entity).await
}

/// Maximum number of cached keys; the least recently used one is dropped.
const REMEMBERED: usize = 10_000;

/// Cache of recently used keys, by entity and `kid`.
///
/// A key's data never changes; [`still_in_force`] checks in the committing transaction that it was not
/// revoked.
#[derive(Debug)]
pub struct KeyCache(Cache<(String, String), Arc<EnvelopeKey>>);

impl KeyCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self(Cache::new("envelope_keys", REMEMBERED, metrics))
    }

    fn recall(&self, entity: &str, kid: &str) -> Option<Arc<EnvelopeKey>> {
        self.0.get(&(entity.to_owned(), kid.to_owned()))
    }

    fn remember(&self, key: EnvelopeKey) {
        self.0.put((key.entity.clone(), key.kid.clone()), Arc::new(key));
    }

    fn forget(&self, entity: &str, kid: &str) {
        self.0.remove(&(entity.to_owned(), kid.to_owned()));
    }
}

/// Verifies an envelope's signature with the sender's key that the signature names.
///
/// # Errors
/// [`entente_domain::refusal::Code::BadSignature`], for any fault of the key; the domain rules' refusal of an
/// envelope that a signature cannot bind.
pub async fn verify(ctx: &Ctx, envelope: &Envelope, sig: &Sig) -> Outcome<()> {
    if let Some(known) = ctx.state.keys.recall(&envelope.sender, &sig.kid) {
        return Ok(domain::verify(Some(&known), envelope, sig, ctx.now())?);
    }
    let mut connection = ctx.pool.acquire().await?;
    let known = find(&mut connection, &envelope.sender, &sig.kid).await?;
    drop(connection);
    domain::verify(known.as_ref(), envelope, sig, ctx.now())?;
    // Cached only after a successful verification, so that forged envelopes cannot fill the cache.
    known.into_iter().for_each(|key| ctx.state.keys.remember(key));
    Ok(())
}

/// Returns those of these keys, by entity and `kid`, that are in force now: a signature verified before the
/// transaction counts only if its key is still in force within it.
///
/// # Errors
/// A database error.
pub async fn still_in_force(
    conn: &mut PgConnection,
    keys: &[(String, String)],
    now: Timestamp,
) -> Outcome<HashSet<(String, String)>> {
    if keys.is_empty() {
        return Ok(HashSet::new());
    }
    let (entities, kids): (Vec<&str>, Vec<&str>) =
        keys.iter().map(|(entity, kid)| (entity.as_str(), kid.as_str())).unzip();
    let rows = sqlx::query!(
        "-- envelope_keys::still_in_force
         SELECT a.entity, a.kid FROM UNNEST($1::text[], $2::text[]) AS k (entity, kid)
         JOIN aee_keys a ON a.entity = k.entity AND a.kid = k.kid
         WHERE a.revoked_at IS NULL AND a.not_before <= $3 AND (a.not_after IS NULL OR a.not_after > $3)",
        &entities as &[&str],
        &kids as &[&str],
        now
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.entity, row.kid)).collect())
}

/// Resolves an entity of the caller's, which its key may act as and which is no other person, or any for an
/// admin; others count as not found.
async fn own(ctx: &Ctx, caller: &Caller, entity: Option<&str>, noun: &str) -> Outcome<String> {
    let entity = entity.unwrap_or(&caller.agent);
    check_name("entity", entity)?;
    if caller.has(Scope::Admin) || speaks_for(&mut *ctx.pool.acquire().await?, caller, entity).await? {
        return Ok(entity.to_owned());
    }
    Err(not_found(noun))
}

/// Builds the event payload of a key, without any secret.
fn event_payload(key: &EnvelopeKey) -> Value {
    json!({
        "entity": key.entity, "kid": key.kid, "algorithm": key.algorithm(), "public_key": key.public_key(),
        "not_before": key.not_before, "not_after": key.not_after,
    })
}

struct Row {
    entity: String,
    kid: String,
    algorithm: String,
    material: Vec<u8>,
    not_before: Timestamp,
    not_after: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    created_by: String,
    created_at: Timestamp,
}

impl TryFrom<Row> for EnvelopeKey {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let inconsistent = || AppError::Inconsistent("a stored key of an entity is no key".to_owned());
        let algorithm =
            Algorithm::parse(&row.algorithm).ok_or_else(|| unknown("algorithm", &row.algorithm))?;
        let key = match algorithm {
            Algorithm::Ed25519 => {
                let bytes: [u8; 32] = row.material.try_into().map_err(|_other_length| inconsistent())?;
                VerifyingKey::Ed25519(PublicKey::from_bytes(&bytes).map_err(|_no_key| inconsistent())?)
            }
            Algorithm::Hs256 => VerifyingKey::Hs256(row.material),
        };
        Ok(Self {
            entity: row.entity,
            kid: row.kid,
            key,
            not_before: row.not_before,
            not_after: row.not_after,
            revoked_at: row.revoked_at,
            created_by: row.created_by,
            created_at: row.created_at,
        })
    }
}

/// Selects keys: the query's name, and the text after `FROM aee_keys`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT entity, kid, algorithm, material, not_before, not_after, revoked_at, created_by, created_at
             FROM aee_keys " + $rest
            $(, $argument)*
        )
    };
}

async fn find(conn: &mut PgConnection, entity: &str, kid: &str) -> Outcome<Option<EnvelopeKey>> {
    let row = select!("envelope_keys::find", "WHERE entity = $1 AND kid = $2", entity, kid)
        .fetch_optional(conn)
        .await?;
    row.map(EnvelopeKey::try_from).transpose()
}

async fn all(conn: &mut PgConnection, entity: &str) -> Outcome<Vec<EnvelopeKey>> {
    let rows = select!("envelope_keys::all", "WHERE entity = $1 ORDER BY created_at, kid", entity)
        .fetch_all(conn)
        .await?;
    rows.into_iter().map(EnvelopeKey::try_from).collect()
}

async fn insert(conn: &mut PgConnection, key: &EnvelopeKey) -> Outcome<()> {
    let material = match &key.key {
        VerifyingKey::Ed25519(key) => key.as_bytes().as_slice(),
        VerifyingKey::Hs256(secret) => secret.as_slice(),
    };
    sqlx::query!(
        "-- envelope_keys::insert
         INSERT INTO aee_keys (entity, kid, algorithm, material, not_before, not_after, revoked_at, created_by, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        key.entity,
        key.kid,
        key.algorithm().as_str(),
        material,
        key.not_before,
        key.not_after,
        key.revoked_at,
        key.created_by,
        key.created_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn end(conn: &mut PgConnection, key: &EnvelopeKey) -> Outcome<()> {
    sqlx::query!(
        "-- envelope_keys::end
         UPDATE aee_keys SET revoked_at = $3 WHERE entity = $1 AND kid = $2",
        key.entity,
        key.kid,
        key.revoked_at
    )
    .execute(conn)
    .await?;
    Ok(())
}
