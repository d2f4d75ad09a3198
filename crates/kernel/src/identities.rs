//! Agents' keys (RFC-0018): registering, rotating, revoking, and what a signature is worth. Tables `identity_keys` and
//! `identity_challenges`. Everything that happens to a key is on the house's line.

use entente_domain::agent_keys::{AgentKey, End};
use entente_domain::clock::Timestamp;
use entente_domain::events::{Draft, Kind};
use entente_domain::idempotency::Idempotency;
use entente_domain::identities::{self as law, Challenge, Identity, KeyAsk};
use entente_domain::ids::IntentId;
use entente_domain::keys::Scope;
use entente_domain::refusal::Refusal;
use entente_domain::signatures::PublicKey;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use super::lines::Line;
use super::{AppError, Caller, Ctx, Outcome, agents, idempotency, not_found, principals, unknown};

/// Opens the registration of a key: answers with the challenge that the agent has to sign.
///
/// # Errors
/// The caller may not act as the agent, nobody has heard of it, or the law refuses the key.
pub async fn begin(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    ask: KeyAsk,
    once: Option<&Idempotency>,
) -> Outcome<Challenge> {
    require_self(ctx, caller, agent_id)?;
    let mut tx = ctx.begin_once(&[IntentId::HOUSE], caller, once).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    let mut line = Line::open(&mut tx, IntentId::HOUSE, caller.trace, ctx.now()).await?;
    let now = line.now();
    let known = load(&mut tx, agent_id).await?;
    if known.is_none() {
        require_known(&mut tx, agent_id).await?;
    }
    let challenge = law::challenge(agent_id, known.as_ref(), &ask, now, &*ctx.chance)?;
    save_challenge(&mut tx, &challenge).await?;
    let payload = json!({
        "agent_id": agent_id, "public_key": challenge.public_key, "did": challenge.public_key.did(),
        "expires_at": challenge.expires_at,
    });
    line.record(ctx, Draft::of(Kind::IdentityChallengeIssued, agent_id, payload));
    line.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &challenge, now).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(challenge)
}

/// Completes a registration with the signed challenge, which counts once.
///
/// # Errors
/// The caller may not act as the agent; the law refuses the signature.
pub async fn complete(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    challenge: &str,
    signature: &str,
    once: Option<&Idempotency>,
) -> Outcome<Identity> {
    require_self(ctx, caller, agent_id)?;
    let mut tx = ctx.begin_once(&[IntentId::HOUSE], caller, once).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    let mut line = Line::open(&mut tx, IntentId::HOUSE, caller.trace, ctx.now()).await?;
    let now = line.now();
    let known = load(&mut tx, agent_id).await?;
    let open = open_challenge(&mut tx, agent_id).await?;
    if known.is_none() && open.is_none() {
        require_known(&mut tx, agent_id).await?;
    }
    let identity = law::complete(known.as_ref(), open.as_ref(), challenge, signature, now)?;
    delete_challenge(&mut tx, agent_id).await?;
    save(&mut tx, &identity).await?;
    let payload = identity.last().map(|key| {
        json!({ "agent_id": agent_id, "public_key": key.public_key, "did": key.public_key.did(), "key_expires_at": key.expires_at })
    });
    line.record(ctx, Draft::of(Kind::IdentityRegistered, agent_id, payload.unwrap_or_default()));
    line.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &identity, now).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(identity)
}

/// An agent's identity. Whoever may read the directory of agents may read it: it is there to be checked with.
///
/// # Errors
/// It has none.
pub async fn get(ctx: &Ctx, caller: &Caller, agent_id: &str) -> Outcome<Identity> {
    caller.require(Scope::AgentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    load(&mut connection, agent_id).await?.ok_or_else(|| not_found("identity"))
}

/// What a signature is worth.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The agent's last key.
    pub public_key: PublicKey,
    /// Why the signature does not count, if it does not.
    pub fault: Option<&'static str>,
    /// When that was said.
    pub at: Timestamp,
}

/// Says whether an agent's key in force has signed a payload.
///
/// # Errors
/// The agent has no identity; the payload has a number that would not survive the canonical form.
pub async fn verify(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    payload: &Map<String, Value>,
    signature: &str,
) -> Outcome<Verdict> {
    caller.require(Scope::AgentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let known = load(&mut connection, agent_id).await?.ok_or_else(|| not_found("identity"))?;
    payload.values().try_for_each(entente_domain::canonical::exact)?;
    let at = ctx.now();
    let fault = law::check(&known, payload, signature, known.present(at)).err();
    let last = known.last().ok_or_else(|| AppError::Inconsistent(format!("`{agent_id}` has no key")))?;
    Ok(Verdict { public_key: last.public_key, fault, at })
}

/// Replaces an agent's key, on the word of the one that it has.
///
/// # Errors
/// The caller may not act as the agent; it has no identity; the law refuses the rotation.
pub async fn rotate(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    body: Map<String, Value>,
    once: Option<&Idempotency>,
) -> Outcome<Identity> {
    require_self(ctx, caller, agent_id)?;
    let mut tx = ctx.begin_once(&[IntentId::HOUSE], caller, once).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    let mut line = Line::open(&mut tx, IntentId::HOUSE, caller.trace, ctx.now()).await?;
    let now = line.now();
    let known = load(&mut tx, agent_id).await?.ok_or_else(|| not_found("identity"))?;
    let signature = body.get("signature").cloned();
    let rotation = law::rotate(&known, &body, now)?;
    save(&mut tx, &rotation.identity).await?;
    // With its signature: the log itself shows by whose word the key changed.
    let payload = json!({
        "agent_id": agent_id, "statement": rotation.statement, "signature": signature,
        "did": rotation.identity.last().map(|key| key.public_key.did()), "new_key_proved": rotation.new_key_proved,
    });
    line.record(ctx, Draft::of(Kind::IdentityRotated, agent_id, payload));
    line.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &rotation.identity, now).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(rotation.identity)
}

/// Revokes an agent's key, by whoever may act as the agent or as an admin: a key that was stolen must not be needed to
/// declare it so. Again, it changes nothing.
///
/// # Errors
/// The caller may not; the agent has no identity.
pub async fn revoke(ctx: &Ctx, caller: &Caller, agent_id: &str, reason: Option<&str>) -> Outcome<Identity> {
    agents::require_keeper(ctx, caller, agent_id)?;
    entente_domain::access::check_reason(reason)?;
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    let mut line = Line::open(&mut tx, IntentId::HOUSE, caller.trace, ctx.now()).await?;
    let known = load(&mut tx, agent_id).await?.ok_or_else(|| not_found("identity"))?;
    let Some(next) = law::revoke(&known, line.now()) else { return Ok(known) };
    save(&mut tx, &next).await?;
    let payload = json!({
        "agent_id": agent_id, "public_key": next.last().map(|key| key.public_key), "reason": reason,
    });
    line.record(ctx, Draft::of(Kind::IdentityRevoked, &caller.agent, payload));
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(next)
}

/// Requires that the caller may act as the agent: a key is registered and rotated by nobody else.
fn require_self(ctx: &Ctx, caller: &Caller, agent_id: &str) -> Result<(), Refusal> {
    caller.require(Scope::AgentsWrite)?;
    caller.speaker("agent_id", Some(agent_id), ctx.settings.strict).map(drop)
}

/// Requires that somebody has heard of the agent: it has a record, or it is a principal. A service that acts as anybody
/// must not give identities to names that nobody bears.
async fn require_known(conn: &mut PgConnection, agent_id: &str) -> Outcome<()> {
    if agents::find(conn, agent_id).await?.is_some() || principals::find(conn, agent_id).await?.is_some() {
        return Ok(());
    }
    Err(not_found("agent"))
}

struct Row {
    agent_id: String,
    public_key: Vec<u8>,
    registered_at: Timestamp,
    valid_from: Timestamp,
    expires_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    ended_by: Option<String>,
}

/// A key as it is stored.
fn stored_key(bytes: Vec<u8>) -> Outcome<PublicKey> {
    let bytes: [u8; 32] = bytes
        .try_into()
        .map_err(|_other_length| AppError::Inconsistent("a stored key has not 32 bytes".to_owned()))?;
    PublicKey::from_bytes(&bytes).map_err(|e| AppError::Inconsistent(format!("a stored key: {e}")))
}

/// The identity of an agent, if it has one.
pub(crate) async fn load(conn: &mut PgConnection, agent_id: &str) -> Outcome<Option<Identity>> {
    Ok(all(conn, &[agent_id]).await?.pop())
}

/// The identities of these agents; those without one are left out.
pub(crate) async fn all(conn: &mut PgConnection, agents: &[&str]) -> Outcome<Vec<Identity>> {
    let rows = sqlx::query_as!(
        Row,
        "-- identities::all
         SELECT agent_id, public_key, registered_at, valid_from, expires_at, ended_at, ended_by
         FROM identity_keys WHERE agent_id = ANY($1) ORDER BY agent_id, number",
        agents as &[&str]
    )
    .fetch_all(conn)
    .await?;
    let mut found: Vec<Identity> = Vec::new();
    for row in rows {
        let ended_by =
            row.ended_by.map(|word| End::parse(&word).ok_or_else(|| unknown("end of a key", &word)));
        let key = AgentKey {
            public_key: stored_key(row.public_key)?,
            registered_at: row.registered_at,
            valid_from: row.valid_from,
            expires_at: row.expires_at,
            ended_at: row.ended_at,
            ended_by: ended_by.transpose()?,
        };
        match found.last_mut().filter(|identity| identity.agent_id == row.agent_id) {
            Some(identity) => identity.keys.push(key),
            None => found.push(Identity { agent_id: row.agent_id, keys: vec![key] }),
        }
    }
    Ok(found)
}

/// Writes an identity's last two keys: the one that may have ended, and the one that may be new.
async fn save(conn: &mut PgConnection, identity: &Identity) -> Outcome<()> {
    for (index, key) in identity.keys.iter().enumerate().rev().take(2) {
        sqlx::query!(
            "-- identities::save
             INSERT INTO identity_keys (agent_id, number, public_key, registered_at, valid_from, expires_at, ended_at,
                                        ended_by)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (agent_id, number) DO UPDATE SET ended_at = excluded.ended_at, ended_by = excluded.ended_by",
            identity.agent_id,
            i32::try_from(index + 1).unwrap_or(i32::MAX),
            key.public_key.as_bytes().as_slice(),
            key.registered_at,
            key.valid_from,
            key.expires_at,
            key.ended_at,
            key.ended_by.map(End::as_str)
        )
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

async fn open_challenge(conn: &mut PgConnection, agent_id: &str) -> Outcome<Option<Challenge>> {
    let row = sqlx::query!(
        "-- identities::open_challenge
         SELECT agent_id, public_key, key_expires_at, challenge, expires_at FROM identity_challenges WHERE agent_id = $1",
        agent_id
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Challenge {
        agent_id: row.agent_id,
        public_key: stored_key(row.public_key)?,
        key_expires_at: row.key_expires_at,
        bytes: super::lines::digest(row.challenge)?,
        expires_at: row.expires_at,
    }))
}

async fn save_challenge(conn: &mut PgConnection, challenge: &Challenge) -> Outcome<()> {
    sqlx::query!(
        "-- identities::save_challenge
         INSERT INTO identity_challenges (agent_id, public_key, key_expires_at, challenge, expires_at)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (agent_id) DO UPDATE SET public_key = excluded.public_key,
             key_expires_at = excluded.key_expires_at, challenge = excluded.challenge,
             expires_at = excluded.expires_at",
        challenge.agent_id,
        challenge.public_key.as_bytes().as_slice(),
        challenge.key_expires_at,
        challenge.bytes.as_slice(),
        challenge.expires_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn delete_challenge(conn: &mut PgConnection, agent_id: &str) -> Outcome<()> {
    sqlx::query!(
        "-- identities::delete_challenge
         DELETE FROM identity_challenges WHERE agent_id = $1",
        agent_id
    )
    .execute(conn)
    .await?;
    Ok(())
}
