//! Triggers (RFC-0017): creating, reading, changing and firing them. The rows are in `triggers/rows.rs`, the work of
//! a firing in `triggers/tx.rs`, schedules in `triggers/time.rs`, matching of events in `triggers/hearing.rs`, and
//! incoming webhooks in `triggers/receiving.rs`, jobs in `triggers/jobs.rs`.

mod firings;
mod hearing;
mod jobs;
mod listeners;
mod made;
mod rates;
mod receiving;
mod rows;
mod time;
mod tx;

use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::Author;
use entente_domain::ids::{FiringId, IntentId, TriggerId};
use entente_domain::limits::TRIGGERS;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::triggers::hooks;
use entente_domain::openintent::triggers::hooks::Verify;
use entente_domain::openintent::triggers::{Cause, SkipReason, Trigger, TriggerAsk, TriggerKind};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::webhooks::signing::Secret;
use entente_kernel::identity::caller::like;
use entente_kernel::{Caller, IntentTx, Outcome, idempotency, not_found};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use crate::Ctx;
pub use firings::{Firing, FiringStatus};
pub use hearing::hear;
pub use jobs::{DueJob, due_jobs, job_refused, job_submitted};
pub(crate) use made::end_of_intent;
pub use receiving::{Received, Taken, receive};
use rows::Stored;
pub use time::{expire_due, tidy};
use tx::FiringTx;

/// A trigger for its owner.
#[derive(Debug)]
pub struct TriggerView {
    /// The trigger.
    pub trigger: Trigger,
    /// Secret that verifies its webhooks, if it was just created.
    pub secret: Option<Secret>,
}

/// Returns the verification method of webhooks to a trigger.
#[must_use]
pub fn verify_of(trigger: &Trigger) -> Verify {
    trigger.condition.as_ref().and_then(|condition| condition.verify).unwrap_or_default()
}

/// Creates a trigger, which creates intents as the acting agent, with the rights of the key that created it.
///
/// # Errors
/// Fails if the scope is missing, if the request is invalid, or if the principal has the maximum number of triggers.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    kind: TriggerKind,
    ask: TriggerAsk,
    secret: Option<String>,
    once: Option<&Idempotency>,
) -> Outcome<TriggerView> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(trigger) = work.repeated::<Trigger>()? {
        return Ok(TriggerView { trigger, secret: None });
    }
    let now = work.now();
    if rows::count(work.conn(), caller.principal()).await? >= i64::try_from(TRIGGERS).unwrap_or(i64::MAX) {
        let message = format!("You have {TRIGGERS} triggers, as many as a principal may. Delete some first.");
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let id = TriggerId::mint(now, &*ctx.chance);
    let owner = Author { agent: agent_id, principal: caller.principal() };
    let trigger = Trigger::create(kind, ask, id, owner, now)?;
    if trigger.job.is_some() {
        caller.require(Scope::JobsWrite)?;
    }
    let secret = match (kind, secret) {
        (TriggerKind::Webhook, Some(given)) => Some(hooks::given(&given, verify_of(&trigger))?),
        (TriggerKind::Webhook, None) => Some(hooks::fresh(verify_of(&trigger), &*ctx.chance)),
        _ => None,
    };
    let stored = Stored { trigger, key_id: caller.grant.key.id, secret };
    rows::insert(work.conn(), &stored).await?;
    work.record(event_draft(Kind::TriggerCreated, &stored.trigger, agent_id, json!({})));
    let trigger = work.finish(stored.trigger).await?;
    Ok(TriggerView { trigger, secret: stored.secret })
}

/// Filter for triggers.
#[derive(Debug, Clone, Default)]
pub struct TriggerFilter {
    /// Only triggers of this namespace.
    pub namespace: Option<String>,
    /// Only triggers of this type.
    pub kind: Option<TriggerKind>,
    /// Only enabled triggers, or only disabled ones.
    pub enabled: Option<bool>,
    /// Only triggers younger than this one: the cursor.
    pub after: Option<TriggerId>,
    /// Maximum number of results.
    pub limit: u32,
}

/// Lists the principal's triggers that the key may see, oldest first; with the scope `admin`, all triggers.
///
/// # Errors
/// Fails if the scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &TriggerFilter) -> Outcome<Vec<Trigger>> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let whose = (!caller.has(Scope::Admin)).then(|| caller.principal());
    let names = whose.map(|_own| covered(caller));
    let found = rows::list(&mut conn, whose, names.as_deref(), filter).await?;
    let found = found.into_iter().map(|stored| stored.trigger);
    Ok(found.filter(|trigger| may_see(caller, trigger)).collect())
}

/// Returns one trigger.
///
/// # Errors
/// Fails if the caller can see no such trigger.
pub async fn get(ctx: &Ctx, caller: &Caller, id: TriggerId) -> Outcome<Trigger> {
    let mut conn = ctx.pool.acquire().await?;
    Ok(reachable(&mut conn, caller, id).await?.trigger)
}

/// Changes a trigger, if `seen` is its current version.
///
/// From then on it creates intents with the rights of the key that changed it: a weak key cannot borrow the rights of
/// a strong one by changing the template. With the scope `admin`, triggers of others can be enabled and disabled, but
/// not changed.
///
/// # Errors
/// Fails if the caller can see no such trigger, if the version is stale, or if the change is invalid.
pub async fn change(
    ctx: &Ctx,
    caller: &Caller,
    id: TriggerId,
    seen: i64,
    ask: TriggerAsk,
    secret: Option<String>,
) -> Outcome<TriggerView> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let mut stored = reachable(work.conn(), caller, id).await?;
    let own = is_own(caller, &stored.trigger);
    if !own && (!ask.only_switches() || secret.is_some()) {
        let message = "Only its owner changes what a trigger does; you may switch it on and off (`enabled`).";
        return Err(Refusal::new(Code::Forbidden, message).into());
    }
    if stored.trigger.version != seen {
        return Err(Refusal::version_conflict(stored.trigger.version).into());
    }
    let now = work.now();
    let begins = ask.enabled == Some(true) || ask.condition.is_some();
    let before = verify_of(&stored.trigger);
    stored.trigger = stored.trigger.changed(ask, now)?;
    if own {
        require_job_scope(caller, &stored.trigger)?;
    }
    let verify = verify_of(&stored.trigger);
    let renewed = match secret.filter(|_| stored.trigger.kind == TriggerKind::Webhook) {
        Some(given) => Some(hooks::given(&given, verify)?),
        // Each verification method has a secret of its own: one that was part of a URL must not sign.
        None if verify != before => Some(hooks::fresh(verify, &*ctx.chance)),
        None => None,
    };
    if let Some(secret) = &renewed {
        stored.secret = Some(secret.clone());
    }
    if own {
        stored.key_id = caller.grant.key.id;
    }
    rows::save(work.conn(), &stored, begins).await?;
    if !stored.trigger.enabled {
        firings::call_off(work.conn(), id, SkipReason::Disabled.as_str(), now).await?;
    }
    let about = json!({ "version": stored.trigger.version, "secret_changed": renewed.is_some() });
    work.record(event_draft(Kind::TriggerChanged, &stored.trigger, &caller.agent, about));
    work.commit().await?;
    Ok(TriggerView { trigger: stored.trigger, secret: renewed })
}

/// Replaces the secret of a webhook trigger, and thereby its URL if the URL contains the secret.
///
/// # Errors
/// Fails if the caller has no such trigger, or if it is not a webhook trigger.
pub async fn rotate(ctx: &Ctx, caller: &Caller, id: TriggerId) -> Outcome<TriggerView> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let mut stored = reachable(work.conn(), caller, id).await?;
    require_own(caller, &stored.trigger)?;
    if stored.trigger.kind != TriggerKind::Webhook {
        let message = "Only a trigger of the type `webhook` has a secret.";
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let secret = hooks::fresh(verify_of(&stored.trigger), &*ctx.chance);
    stored.secret = Some(secret.clone());
    stored.trigger.version += 1;
    stored.trigger.updated_at = work.now();
    rows::save(work.conn(), &stored, false).await?;
    let about = json!({ "version": stored.trigger.version, "secret_changed": true });
    work.record(event_draft(Kind::TriggerChanged, &stored.trigger, &caller.agent, about));
    work.commit().await?;
    Ok(TriggerView { trigger: stored.trigger, secret: Some(secret) })
}

/// Deletes a trigger; its intents stay, and its history is kept until its own retention ends.
///
/// # Errors
/// Fails if the caller has no such trigger.
pub async fn remove(ctx: &Ctx, caller: &Caller, id: TriggerId) -> Outcome<()> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let stored = reachable(work.conn(), caller, id).await?;
    require_own(caller, &stored.trigger)?;
    let now = work.now();
    rows::remove(work.conn(), id, now).await?;
    firings::call_off(work.conn(), id, SkipReason::Disabled.as_str(), now).await?;
    work.record(event_draft(Kind::TriggerRemoved, &stored.trigger, &caller.agent, json!({})));
    work.commit().await
}

/// Lists a trigger's firings, newest first.
///
/// # Errors
/// Fails if the caller can see no such trigger.
pub async fn history(
    ctx: &Ctx,
    caller: &Caller,
    id: TriggerId,
    before: Option<FiringId>,
    limit: u32,
) -> Outcome<Vec<Firing>> {
    let mut conn = ctx.pool.acquire().await?;
    reachable(&mut conn, caller, id).await?;
    firings::list(&mut conn, id, before, limit).await
}

/// Requires the scope for jobs of a caller that changes or fires a trigger that submits one: from then on, it does so with the rights of
/// this key.
fn require_job_scope(caller: &Caller, trigger: &Trigger) -> Result<(), Refusal> {
    if trigger.job.is_some() { caller.require(Scope::JobsWrite) } else { Ok(()) }
}

/// Fires a trigger by hand (RFC-0017 §8.3), as if its cause had occurred.
///
/// `brought` must contain the values that its template uses. Returns the firing, and the number of intents created so
/// far.
///
/// # Errors
/// Fails if the caller has no such trigger, if it is disabled, or if no intent could be created, which its history
/// records too.
pub async fn fire(
    ctx: &Ctx,
    caller: &Caller,
    id: TriggerId,
    brought: Map<String, Value>,
    once: Option<&Idempotency>,
) -> Outcome<(Firing, i64)> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = FiringTx::begin_once(ctx, caller, once).await?;
    let mut stored = reachable(&mut work.tx, caller, id).await?;
    require_own(caller, &stored.trigger)?;
    require_job_scope(caller, &stored.trigger)?;
    if let Some(done) = idempotency::find(&mut work.tx, caller, once).await? {
        return Ok(done);
    }
    if !stored.trigger.enabled {
        let message = "This trigger is switched off. Switch it on first (`enabled`).";
        return Err(Refusal::new(Code::InvalidTransition, message).into());
    }
    let firing_id = FiringId::mint(work.system_log.now(), &*ctx.chance);
    let mut firing = Firing::new(firing_id, id, Cause::Hand, firing_id.to_string(), work.system_log.now());
    firing.fired_by = Some(caller.agent.clone());
    let firing = work.pull(ctx, &mut stored, firing, &brought).await?;
    let done = (firing, stored.trigger.fire_count);
    if done.0.status != FiringStatus::Failed {
        let now = work.system_log.now();
        idempotency::keep(&mut work.tx, caller, once, &done, now).await?;
    }
    work.conclude(ctx).await?;
    if done.0.status == FiringStatus::Failed {
        return Err(refused(&done.0).into());
    }
    Ok(done)
}

/// Builds the refusal of a firing that created no intent, for the trigger's owner.
fn refused(firing: &Firing) -> Refusal {
    let why = firing.detail.as_deref().or(firing.reason.as_deref()).unwrap_or("It could not.");
    Refusal::new(Code::Unprocessable, format!("The trigger made nothing. {why} Its history has this firing."))
}

/// Builds the event of a change to a trigger; it never contains the secret or the template.
fn event_draft(kind: Kind, trigger: &Trigger, actor: &str, about: Value) -> Draft {
    let mut payload = json!({
        "trigger_id": trigger.id, "name": trigger.name, "type": trigger.kind, "agent_id": trigger.agent_id,
        "principal_id": trigger.principal_id, "namespace": trigger.namespace, "enabled": trigger.enabled,
    });
    if let (Some(members), Value::Object(about)) = (payload.as_object_mut(), about) {
        members.extend(about);
    }
    Draft::of(kind, actor, payload)
}

/// Returns whether a trigger belongs to the caller: to its principal, and to an agent that the key may act as.
fn is_own(caller: &Caller, trigger: &Trigger) -> bool {
    trigger.principal_id == caller.principal() && caller.grant.key.may_act_as(&trigger.agent_id)
}

/// Returns the agent names that pass [`is_own`], as patterns of SQL's `LIKE`.
fn covered(caller: &Caller) -> Vec<String> {
    let key = &caller.grant.key;
    let globs = key.act_as.iter().map(|glob| like(glob).replace('*', "%"));
    std::iter::once(like(&key.principal_id)).chain(globs).collect()
}

fn may_see(caller: &Caller, trigger: &Trigger) -> bool {
    is_own(caller, trigger) || caller.has(Scope::Admin)
}

fn require_own(caller: &Caller, trigger: &Trigger) -> Result<(), Refusal> {
    if is_own(caller, trigger) {
        return Ok(());
    }
    Err(Refusal::new(Code::Forbidden, "Only its owner does that with a trigger."))
}

/// Loads a trigger that the caller may see.
async fn reachable(conn: &mut PgConnection, caller: &Caller, id: TriggerId) -> Outcome<Stored> {
    caller.require(Scope::IntentsRead)?;
    let found = rows::find(conn, id).await?.filter(|stored| may_see(caller, &stored.trigger));
    found.ok_or_else(|| not_found("trigger"))
}
