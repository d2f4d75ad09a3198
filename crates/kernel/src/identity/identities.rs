//! Agents' signing keys (RFC-0018): registration, rotation, revocation and signature checks. Tables
//! `identity_keys` and `identity_challenges`. Every change of a key is recorded in the system log.

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::agent_keys::{AgentKey, End};
use entente_domain::identity::identities as domain;
use entente_domain::identity::identities::{Challenge, Identity, KeyAsk};
use entente_domain::identity::keys::Scope;
use entente_domain::identity::signatures::PublicKey;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::Refusal;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use crate::identity::agents;
use crate::identity::principals;
use crate::{AppError, Caller, Ctx, IntentTx, Outcome, not_found, unknown};

/// Begins the registration of a key and returns the challenge that the agent has to sign.
///
/// # Errors
/// The caller may not act as the agent, the agent is unknown, or the domain rules refuse the key.
pub async fn begin(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    ask: KeyAsk,
    once: Option<&Idempotency>,
) -> Outcome<Challenge> {
    require_self(ctx, caller, agent_id)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let now = work.now();
    let known = load(work.conn(), agent_id).await?;
    if known.is_none() {
        require_known(work.conn(), agent_id).await?;
    }
    let challenge = domain::challenge(agent_id, known.as_ref(), &ask, now, &*ctx.chance)?;
    save_challenge(work.conn(), &challenge).await?;
    let payload = json!({
        "agent_id": agent_id, "public_key": challenge.public_key, "did": challenge.public_key.did(),
        "expires_at": challenge.expires_at,
    });
    work.record(Draft::of(Kind::IdentityChallengeIssued, agent_id, payload));
    work.finish(challenge).await
}

/// Completes a registration with the signed challenge, which is valid once.
///
/// # Errors
/// The caller may not act as the agent; the domain rules refuse the signature.
pub async fn complete(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    challenge: &str,
    signature: &str,
    once: Option<&Idempotency>,
) -> Outcome<Identity> {
    require_self(ctx, caller, agent_id)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let now = work.now();
    let known = load(work.conn(), agent_id).await?;
    let open = open_challenge(work.conn(), agent_id).await?;
    if known.is_none() && open.is_none() {
        require_known(work.conn(), agent_id).await?;
    }
    let identity = domain::complete(known.as_ref(), open.as_ref(), challenge, signature, now)?;
    delete_challenge(work.conn(), agent_id).await?;
    save(work.conn(), &identity).await?;
    let payload = identity.last().map(|key| {
        json!({ "agent_id": agent_id, "public_key": key.public_key, "did": key.public_key.did(), "key_expires_at": key.expires_at })
    });
    work.record(Draft::of(Kind::IdentityRegistered, agent_id, payload.unwrap_or_default()));
    work.finish(identity).await
}

/// Returns an agent's identity, for verification by any caller that may read the directory of agents.
///
/// # Errors
/// The agent has no identity.
pub async fn get(ctx: &Ctx, caller: &Caller, agent_id: &str) -> Outcome<Identity> {
    caller.require(Scope::AgentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    load(&mut connection, agent_id).await?.ok_or_else(|| not_found("identity"))
}

/// Result of a signature check.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Latest key of the agent.
    pub public_key: PublicKey,
    /// Reason why the signature is invalid, if it is.
    pub fault: Option<&'static str>,
    /// Time of the check.
    pub at: Timestamp,
}

/// Checks whether a key in force of the agent has signed a payload.
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
    let fault = domain::check(&known, payload, signature, known.present(at)).err();
    let last = known.last().ok_or_else(|| AppError::Inconsistent(format!("`{agent_id}` has no key")))?;
    Ok(Verdict { public_key: last.public_key, fault, at })
}

/// Replaces an agent's key, authorised by a signature of the current one.
///
/// # Errors
/// The caller may not act as the agent; it has no identity; the domain rules refuse the rotation.
pub async fn rotate(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    body: Map<String, Value>,
    once: Option<&Idempotency>,
) -> Outcome<Identity> {
    require_self(ctx, caller, agent_id)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let now = work.now();
    let known = load(work.conn(), agent_id).await?.ok_or_else(|| not_found("identity"))?;
    let signature = body.get("signature").cloned();
    let rotation = domain::rotate(&known, &body, now)?;
    save(work.conn(), &rotation.identity).await?;
    // The event includes the signature: the log itself proves which key authorised the change.
    let payload = json!({
        "agent_id": agent_id, "statement": rotation.statement, "signature": signature,
        "did": rotation.identity.last().map(|key| key.public_key.did()), "new_key_proved": rotation.new_key_proved,
    });
    work.record(Draft::of(Kind::IdentityRotated, agent_id, payload));
    work.finish(rotation.identity).await
}

/// Revokes an agent's key; revoking it again changes nothing.
///
/// Needs no signature, because a stolen key must not be required to revoke it: the caller may act as the
/// agent or is an admin.
///
/// # Errors
/// The caller is neither; the agent has no identity.
pub async fn revoke(ctx: &Ctx, caller: &Caller, agent_id: &str, reason: Option<&str>) -> Outcome<Identity> {
    agents::require_keeper(ctx, caller, agent_id)?;
    entente_domain::access::check_reason(reason)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let known = load(work.conn(), agent_id).await?.ok_or_else(|| not_found("identity"))?;
    let Some(next) = domain::revoke(&known, work.now()) else { return Ok(known) };
    save(work.conn(), &next).await?;
    let payload = json!({
        "agent_id": agent_id, "public_key": next.last().map(|key| key.public_key), "reason": reason,
    });
    work.record(Draft::of(Kind::IdentityRevoked, &caller.agent, payload));
    work.finish(next).await
}

/// Requires that the caller may act as the agent, as registration and rotation do.
fn require_self(ctx: &Ctx, caller: &Caller, agent_id: &str) -> Result<(), Refusal> {
    caller.require(Scope::AgentsWrite)?;
    caller.speaker("agent_id", Some(agent_id), ctx.settings.strict).map(drop)
}

/// Requires that the agent is known: it has a record or is a principal.
///
/// A service that may act as any agent must not create identities for unused names.
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

/// Parses a stored key.
fn stored_key(bytes: Vec<u8>) -> Outcome<PublicKey> {
    let bytes: [u8; 32] = bytes
        .try_into()
        .map_err(|_other_length| AppError::Inconsistent("a stored key has not 32 bytes".to_owned()))?;
    PublicKey::from_bytes(&bytes).map_err(|e| AppError::Inconsistent(format!("a stored key: {e}")))
}

/// Loads the identity of an agent, if it has one.
pub(crate) async fn load(conn: &mut PgConnection, agent_id: &str) -> Outcome<Option<Identity>> {
    Ok(all(conn, &[agent_id]).await?.pop())
}

/// Loads the identities of these agents; agents without one are left out.
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

/// Writes an identity's last two keys: the one that may have ended and the one that may be new.
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
        bytes: crate::log::writer::digest(row.challenge)?,
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
