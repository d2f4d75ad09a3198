//! Keys that the system creates itself: the first one of a new database, and those of `entente dev`.

use entente_domain::canonical::sha256;
use entente_domain::identity::authority::Authority;
use entente_domain::identity::keys as domain;
use entente_domain::identity::keys::{Key, KeyAsk, Presented, Scope};
use entente_domain::identity::principals::SYSTEM;
use entente_domain::identity::principals::{Principal, PrincipalKind};
use entente_domain::ids::{IntentId, KeyId};
use entente_domain::log::events::{Draft, Kind as EventKind};
use serde_json::json;

use crate::identity::authentication::{hash, seeded_id};
use crate::identity::keys::{NewKey, Secret, end_labelled, find_by_public_ids, insert};
use crate::identity::principals;
use crate::{Ctx, IntentTx, Outcome};

/// A principal with a literal key, for local use (`entente dev --seed`).
#[derive(Clone)]
pub struct Seed {
    /// Kind of principal.
    pub kind: PrincipalKind,
    /// Id of the principal.
    pub id: String,
    /// The literal key.
    pub secret: String,
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seed({} {})", self.kind.as_str(), self.id)
    }
}

/// Whether no key exists yet: then this is the first start on this database.
///
/// # Errors
/// Returns database errors.
pub async fn is_first_start(ctx: &Ctx) -> Outcome<bool> {
    let any =
        sqlx::query_scalar!("-- keys::any\n SELECT EXISTS (SELECT 1 FROM keys)").fetch_one(&ctx.pool).await?;
    Ok(any != Some(true))
}

/// Creates the first key, for a service with all scopes that may act as anybody; `None` if another server did so with the same
/// key meanwhile.
///
/// # Errors
/// Returns database errors.
pub async fn bootstrap(ctx: &Ctx, presented: &Presented) -> Outcome<Option<NewKey>> {
    let key = plant(
        ctx,
        PrincipalKind::Service,
        "service.bootstrap",
        &presented.public_id,
        presented.reveal(),
        "bootstrap",
    )
    .await?;
    Ok(key.map(|key| NewKey { key, secret: Some(Secret(presented.reveal())) }))
}

/// Creates the operator's key of `entente dev`, and ends its earlier ones; `None` if it exists already.
///
/// # Errors
/// Returns database errors.
pub async fn development(ctx: &Ctx, presented: &Presented) -> Outcome<Option<NewKey>> {
    developers(ctx, PrincipalKind::Service, "service.dev", presented).await
}

/// Creates the key of `entente dev` for agents, and ends its earlier ones; `None` if it exists already.
///
/// It may act as any `agent.…`, and has no admin scope.
///
/// # Errors
/// Returns database errors.
pub async fn development_agents(ctx: &Ctx, presented: &Presented) -> Outcome<Option<NewKey>> {
    developers(ctx, PrincipalKind::Agent, "agent.dev", presented).await
}

async fn developers(
    ctx: &Ctx,
    kind: PrincipalKind,
    id: &str,
    presented: &Presented,
) -> Outcome<Option<NewKey>> {
    let key = plant(ctx, kind, id, &presented.public_id, presented.reveal(), "dev").await?;
    Ok(key.map(|key| NewKey { key, secret: Some(Secret(presented.reveal())) }))
}

/// Creates a principal whose key is this literal text (`entente dev --seed`), without a rate limit.
///
/// A service may act as anybody, all others only as themselves.
///
/// # Errors
/// Returns database errors; fails if the id is malformed.
pub async fn seed(ctx: &Ctx, kind: PrincipalKind, id: &str, secret: &str) -> Outcome<()> {
    entente_domain::identity::principals::check_name("seed", id)?;
    let public_id = seeded_id(&sha256(secret));
    plant(ctx, kind, id, &public_id, secret.to_owned(), "seed").await.map(|_key| ())
}

/// Creates a key in the name of the system, without a caller; `None` if the key exists already.
async fn plant(
    ctx: &Ctx,
    kind: PrincipalKind,
    principal_id: &str,
    public_id: &str,
    secret: String,
    label: &str,
) -> Outcome<Option<Key>> {
    let hashed = hash(&secret)?;
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    let now = work.now();
    if !find_by_public_ids(work.conn(), &[public_id]).await?.is_empty() {
        return Ok(None);
    }
    let by = SYSTEM.to_owned();
    let principal = Principal {
        id: principal_id.to_owned(),
        kind,
        display_name: None,
        created_by: by.clone(),
        created_at: now,
    };
    principals::insert(work.conn(), &principal).await?;
    let seeded = label == "seed";
    let service = kind == PrincipalKind::Service;
    let ask = KeyAsk {
        label: Some(label.to_owned()),
        scopes: (!seeded && service).then(|| Scope::ALL.to_vec()),
        act_as: match (kind, seeded) {
            (PrincipalKind::Service, _) => vec!["*".to_owned()],
            (PrincipalKind::Agent, false) => vec!["agent.*".to_owned()],
            (PrincipalKind::Agent | PrincipalKind::Human, _) => Vec::new(),
        },
        rate_per_second: seeded.then_some(0),
        ..KeyAsk::default()
    };
    let id = KeyId::mint(now, &*ctx.chance);
    let mut key = domain::create(ask, public_id.to_owned(), principal_id, &by, id, now)?;
    // The operator chose this literal key for a person, on the machine itself; no caller can.
    key.authority = (kind == PrincipalKind::Human).then(Authority::seeded);
    let payload = json!({
        "key_id": key.id, "principal_id": key.principal_id, "scopes": key.scopes, "act_as": key.act_as,
        "authority": key.authority,
    });
    work.record(Draft::of(EventKind::KeyCreated, &by, payload));
    let (conn, log) = work.parts();
    if label == "dev" {
        // Resources of an earlier run's key, such as webhooks, continue with this one.
        key.rotated_from = end_labelled(conn, principal_id, label, now, log.tail.seq).await?;
    }
    insert(conn, &key, &hashed, log.tail.seq).await?;
    work.finish(Some(key)).await
}
