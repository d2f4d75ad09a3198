//! Receivers of webhooks: subscriptions (RFC-0006) and agents' endpoints (RFC-0016). Table `webhook_endpoints`;
//! `endpoints/audience.rs` selects the receivers of a record, `deliveries.rs` queues the deliveries.

mod audience;
mod retiring;
mod rows;

use entente_domain::access::Level;
use entente_domain::aee::envelopes::is_bus;
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::egress;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{EndpointId, IntentId, PortfolioId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::webhooks::signing::{Secret, Secrets};
use entente_domain::webhooks::{DisabledReason, Endpoint, EndpointAsk, EndpointChange, EndpointKind, RING};
use serde_json::json;
use sqlx::PgConnection;

use crate::access::membership;
use crate::access::portfolios;
use crate::channels::access::visit;
use crate::identity::entities::speaks_for;
use crate::log::writer::IntentLog;
use crate::webhooks::deliveries;
use crate::webhooks::deliveries::Health;
use crate::{Caller, Ctx, IntentTx, Outcome, not_found};

pub use audience::grants;
pub(crate) use audience::{Audience, powers};
pub(crate) use retiring::retire;
pub(super) use rows::of_inboxes;
pub use rows::of_mailboxes;
pub(crate) use rows::{Stored, find, sweep_removed};

/// Default number of seconds that a replaced secret continues to sign beside the new one.
pub const ROTATION_OVERLAP_SECONDS: u32 = 24 * 3_600;

/// An endpoint as its owner sees it.
#[derive(Debug)]
pub struct EndpointView {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The health of its receiver.
    pub health: Health,
    /// The secret, if it was just made or is requested by the agent that it belongs to.
    pub secret: Option<Secret>,
}

/// Creates a subscription (RFC-0006).
///
/// # Errors
/// The subscribed resource is missing or not readable; the URL or sink is not allowed; too many subscriptions.
pub async fn subscribe(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    ask: EndpointAsk,
    secret: Option<Secret>,
    once: Option<&Idempotency>,
) -> Outcome<EndpointView> {
    if ask.mailbox {
        caller.require(Scope::MailRead)?;
        // A bus has no mailbox, and any other mailbox counts as missing.
        let mut conn = ctx.pool.acquire().await?;
        if is_bus(agent_id) || !speaks_for(&mut conn, caller, agent_id).await? {
            return Err(not_found("mailbox"));
        }
    } else {
        caller.require(Scope::IntentsRead)?;
    }
    let who = caller.acting_as(agent_id.to_owned());
    check_target(ctx, caller, &ask)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(endpoint) = work.repeated::<Endpoint>()? {
        return Ok(EndpointView { endpoint, health: Health::default(), secret: None });
    }
    let now = work.now();
    let ask = scoped(ctx, work.conn(), &who, ask, now).await?;
    require_inbox(work.conn(), caller, agent_id, &ask.event_types).await?;
    let most = ctx.settings.webhooks.per_principal;
    if rows::count(work.conn(), caller.principal(), now).await? >= i64::from(most) {
        let message =
            format!("You have {most} subscriptions, as many as a principal may. Delete some first.");
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let secret = secret.unwrap_or_else(|| Secret::mint(ask.signature, &*ctx.chance));
    let id = EndpointId::mint(now, &*ctx.chance);
    let mut endpoint = Endpoint::subscribe(ask, id, caller.principal(), agent_id, now)?;
    endpoint.public_key = secret.public();
    // It receives the records after its own creation.
    let created = work.log().next_seq();
    rows::insert(work.conn(), &endpoint, caller.grant.key.id, &secret, created).await?;
    if endpoint.kind == EndpointKind::Mailbox {
        ctx.hooks.mailbox_subscribed(work.conn(), agent_id, caller.principal(), now).await?;
    }
    work.record(event_draft(Kind::EndpointCreated, &endpoint, agent_id));
    let endpoint = work.finish(endpoint).await?;
    Ok(EndpointView { endpoint, health: Health::default(), secret: Some(secret) })
}

/// Requires that the caller may read the agent's inbox, if these types have its rings.
async fn require_inbox(
    conn: &mut PgConnection,
    caller: &Caller,
    agent: &str,
    types: &[String],
) -> Outcome<()> {
    if types.iter().all(|name| name != RING) {
        return Ok(());
    }
    caller.require(Scope::AgentsRead)?;
    if speaks_for(conn, caller, agent).await? { Ok(()) } else { Err(not_found("inbox")) }
}

/// Requires that the subscriber may read the subscribed resource; a channel also determines the intent.
async fn scoped(
    ctx: &Ctx,
    conn: &mut PgConnection,
    who: &Caller,
    mut ask: EndpointAsk,
    now: Timestamp,
) -> Outcome<EndpointAsk> {
    if let Some(intent) = ask.intent_id {
        membership::require(conn, &who.agent, intent, Level::Read, now).await?;
    }
    if let Some(portfolio) = ask.portfolio_id {
        portfolios::require(conn, who, portfolio).await?;
    }
    if let Some(channel) = ask.channel_id {
        who.require(Scope::ChannelsRead)?;
        let visit = visit(conn, who, channel, now).await?;
        visit.viewer(who, ctx.settings.strict).require(&visit.channel)?;
        if ask.intent_id.is_some_and(|intent| intent != visit.channel.intent_id) {
            return Err(not_found("channel"));
        }
        ask.intent_id = Some(visit.channel.intent_id);
    }
    Ok(ask)
}

/// Requires that the server may send to the URL, or that the caller may publish to the sink.
///
/// Sinks are for operators: a broker is in the operator's own network, and others read the events published there.
fn check_target(ctx: &Ctx, caller: &Caller, ask: &EndpointAsk) -> Result<(), Refusal> {
    let Some(sink) = &ask.sink else { return check_url(ctx, ask.url.as_deref()) };
    caller.require(Scope::Admin)?;
    let Some(rule) = ctx.settings.webhooks.sinks.get(&sink.name) else {
        let message = format!("The operator has configured no sink `{}`.", sink.name);
        return Err(Refusal::field(Code::Unprocessable, "sink", "unknown", message));
    };
    sink.check(rule)
}

fn check_url(ctx: &Ctx, url: Option<&str>) -> Result<(), Refusal> {
    let settings = &ctx.settings.webhooks;
    match url {
        Some(url) => egress::check("webhook_url", url, &settings.allowed, settings.https_only),
        None if ctx.settings.strict => Err(Refusal::field(
            Code::InvalidRequest,
            "webhook_url",
            "missing",
            "A subscription needs a `webhook_url`. To be told without one, follow a stream.",
        )),
        None => Ok(()),
    }
}

/// Filters for listing subscriptions.
#[derive(Debug, Clone, Default)]
pub struct EndpointFilter {
    /// Only subscriptions to this intent.
    pub intent_id: Option<IntentId>,
    /// Only subscriptions to this portfolio.
    pub portfolio_id: Option<PortfolioId>,
    /// This kind of endpoint; defaults to subscriptions.
    pub kind: Option<EndpointKind>,
    /// Only endpoints after this one.
    pub after: Option<EndpointId>,
    /// Maximum number of endpoints.
    pub limit: u32,
}

/// Lists the subscriptions of the caller's principal that the key may manage, oldest first.
///
/// # Errors
/// The scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &EndpointFilter) -> Outcome<Vec<EndpointView>> {
    require_any(caller)?;
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::list(&mut conn, caller.principal(), filter).await?;
    let mine: Vec<Endpoint> =
        found.into_iter().map(|stored| stored.endpoint).filter(|one| may_manage(caller, one)).collect();
    let ids: Vec<EndpointId> = mine.iter().map(|one| one.id).collect();
    let mut health = deliveries::health(&mut conn, &ids).await?;
    let shown = |endpoint: Endpoint| {
        let health = health.remove(&endpoint.id).unwrap_or_default();
        EndpointView { endpoint, health, secret: None }
    };
    Ok(mine.into_iter().map(shown).collect())
}

/// Returns a subscription or an agent's endpoint.
///
/// # Errors
/// The caller has no such endpoint.
pub async fn get(ctx: &Ctx, caller: &Caller, id: EndpointId) -> Outcome<EndpointView> {
    let mut conn = ctx.pool.acquire().await?;
    let endpoint = reachable(&mut conn, caller, id).await?.endpoint;
    let health = deliveries::health(&mut conn, &[id]).await?.remove(&id).unwrap_or_default();
    Ok(EndpointView { endpoint, health, secret: None })
}

/// Returns an agent's registered endpoint with its secret, to callers that may act as the agent.
///
/// # Errors
/// The caller may not act as the agent; the agent has no endpoint.
pub async fn of_agent(ctx: &Ctx, caller: &Caller, agent_id: &str) -> Outcome<EndpointView> {
    caller.require(Scope::AgentsWrite)?;
    caller.speaker("agent_id", Some(agent_id), ctx.settings.strict)?;
    let mut conn = ctx.pool.acquire().await?;
    let stored = rows::of_agent(&mut conn, agent_id).await?.ok_or_else(|| not_found("endpoint"))?;
    let id = stored.endpoint.id;
    let health = deliveries::health(&mut conn, &[id]).await?.remove(&id).unwrap_or_default();
    Ok(EndpointView { endpoint: stored.endpoint, health, secret: Some(stored.secrets.current) })
}

/// Changes a subscription; reactivating it after failures makes it due again.
///
/// From then on the permissions of the key that changed it limit its deliveries, so a weak key cannot gain a
/// strong one's view by redirecting them.
///
/// # Errors
/// The caller has no such subscription; the change is invalid. Admins may only switch others' on and off.
pub async fn change(
    ctx: &Ctx,
    caller: &Caller,
    id: EndpointId,
    ask: EndpointChange,
) -> Outcome<EndpointView> {
    if ask.url.is_some() {
        check_url(ctx, ask.url.as_deref())?;
    }
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let stored = changeable(work.conn(), caller, id).await?;
    let before = &stored.endpoint;
    let own = before.principal_id == caller.principal();
    if !own && (ask.url.is_some() || ask.event_types.is_some() || ask.expires_at.is_some()) {
        let message =
            "Only its owner changes what a subscription is; an admin may set `active` and delete it.";
        return Err(Refusal::new(Code::Forbidden, message).into());
    }
    let now = work.now();
    require_inbox(work.conn(), caller, &before.agent_id, ask.event_types.as_deref().unwrap_or_default())
        .await?;
    let after = before.changed(ask, now)?;
    let key = own.then_some(caller.grant.key.id);
    let begins = after.live(now) && !hearing(work.conn(), &stored, now).await?;
    let from = begins.then(|| work.log().next_seq());
    rows::save(work.conn(), &after, key, from).await?;
    if begins || after.url != before.url {
        deliveries::begin_again(work.conn(), id, now).await?;
    } else if !after.live(now) {
        deliveries::hold(work.conn(), id).await?;
    }
    work.record(event_draft(Kind::EndpointChanged, &after, &caller.agent));
    let health = deliveries::health(work.conn(), &[id]).await?.remove(&id).unwrap_or_default();
    work.commit().await?;
    ctx.webhooks.wake();
    Ok(EndpointView { endpoint: after, health, secret: None })
}

/// Gives an endpoint a new secret; the old one continues to sign beside it for `overlap_seconds`.
///
/// # Errors
/// The caller has no such endpoint.
pub async fn rotate(
    ctx: &Ctx,
    caller: &Caller,
    id: EndpointId,
    overlap_seconds: u32,
) -> Outcome<EndpointView> {
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let stored = changeable(work.conn(), caller, id).await?;
    let mut endpoint = stored.endpoint;
    if endpoint.principal_id != caller.principal() {
        let message = "Only its owner gives an endpoint another secret.";
        return Err(Refusal::new(Code::Forbidden, message).into());
    }
    let secret = Secret::mint(endpoint.signature, &*ctx.chance);
    let until = plus_seconds(work.now(), overlap_seconds);
    let before = (overlap_seconds > 0).then_some((stored.secrets.current, until));
    rows::save_secrets(work.conn(), id, &Secrets { current: secret.clone(), before }).await?;
    endpoint.public_key = secret.public();
    let payload = json!({ "endpoint_id": id, "agent_id": endpoint.agent_id, "rotated": true, "old_secret_ends_at": until });
    work.record(Draft::of(Kind::EndpointChanged, &caller.agent, payload));
    let health = deliveries::health(work.conn(), &[id]).await?.remove(&id).unwrap_or_default();
    work.commit().await?;
    Ok(EndpointView { endpoint, health, secret: Some(secret) })
}

/// Removes a subscription, or an agent's webhook until the agent registers again.
///
/// # Errors
/// The caller has no such endpoint.
pub async fn remove(ctx: &Ctx, caller: &Caller, id: EndpointId) -> Outcome<()> {
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let endpoint = changeable(work.conn(), caller, id).await?.endpoint;
    let (conn, log) = work.parts();
    take_away(conn, ctx, log, &endpoint, &caller.agent).await?;
    work.commit().await
}

/// Whether an endpoint receives records: it is live, and its key is in force; a resumed one gets new records only.
async fn hearing(conn: &mut PgConnection, stored: &Stored, now: Timestamp) -> Outcome<bool> {
    Ok(stored.endpoint.live(now) && powers(conn, stored, now).await?.is_some())
}

async fn take_away(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    endpoint: &Endpoint,
    actor: &str,
) -> Outcome<()> {
    rows::remove(conn, endpoint.id, log.now()).await?;
    deliveries::hold(conn, endpoint.id).await?;
    log.record(ctx, event_draft(Kind::EndpointRemoved, endpoint, actor));
    Ok(())
}

/// Disables an endpoint that cannot be reached at this URL, and records it; returns false if it was not live
/// any more, or if its owner changed the URL meanwhile.
///
/// # Errors
/// A database error.
pub async fn disable(ctx: &Ctx, id: EndpointId, url: &str, reason: DisabledReason) -> Outcome<bool> {
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    let now = work.now();
    let Some(stored) = find(work.conn(), id).await? else { return Ok(false) };
    if !stored.endpoint.live(now) || stored.endpoint.url.as_deref() != Some(url) {
        return Ok(false);
    }
    let after = Endpoint { disabled: Some((now, reason)), ..stored.endpoint };
    rows::save(work.conn(), &after, None, None).await?;
    deliveries::hold(work.conn(), id).await?;
    work.record(event_draft(Kind::EndpointDisabled, &after, SYSTEM));
    work.commit().await?;
    tracing::warn!(endpoint.id = %id, reason = reason.as_str(), "a receiver of webhooks is no longer tried");
    Ok(true)
}

/// Updates an agent's endpoint to the http or https address it registered with, within that operation.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn follow_agent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    caller: &Caller,
    agent: &entente_domain::openintent::agents::Agent,
) -> Outcome<()> {
    let url =
        agent.endpoint.as_deref().filter(|url| url.starts_with("http://") || url.starts_with("https://"));
    let existing = rows::of_agent(conn, &agent.agent_id).await?;
    let key = caller.grant.key.id;
    match (existing, url) {
        (None, None) => {}
        (Some(stored), None) => take_away(conn, ctx, log, &stored.endpoint, &agent.agent_id).await?,
        (None, Some(url)) => {
            let id = EndpointId::mint(log.now(), &*ctx.chance);
            let endpoint = Endpoint::of_agent(id, &agent.principal_id, &agent.agent_id, url, log.now());
            let secret = Secret::mint(endpoint.signature, &*ctx.chance);
            rows::insert(conn, &endpoint, key, &secret, log.next_seq()).await?;
            log.record(ctx, event_draft(Kind::EndpointCreated, &endpoint, &agent.agent_id));
        }
        (Some(stored), Some(url)) => {
            // Registering again re-enables a disabled endpoint.
            let after = Endpoint { url: Some(url.to_owned()), disabled: None, ..stored.endpoint.clone() };
            let changes = after != stored.endpoint;
            // The next event is that of the change, if there is one.
            let from = if changes { log.next_seq() } else { log.tail.seq };
            let begins = !hearing(conn, &stored, log.now()).await?;
            rows::save(conn, &after, Some(key), begins.then_some(from)).await?;
            if changes {
                deliveries::begin_again(conn, after.id, log.now()).await?;
                log.record(ctx, event_draft(Kind::EndpointChanged, &after, &agent.agent_id));
            }
        }
    }
    Ok(())
}

/// Removes an agent's endpoint within the operation by which the agent leaves.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn leave_with_agent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    agent_id: &str,
) -> Outcome<()> {
    match rows::of_agent(conn, agent_id).await? {
        Some(stored) => take_away(conn, ctx, log, &stored.endpoint, agent_id).await,
        None => Ok(()),
    }
}

/// Builds the event of a change to an endpoint; it omits the secret, and the URL, which may hold one.
fn event_draft(kind: Kind, endpoint: &Endpoint, actor: &str) -> Draft {
    let reason = endpoint.disabled.map(|(_, reason)| reason);
    let payload = json!({
        "endpoint_id": endpoint.id, "kind": endpoint.kind, "agent_id": endpoint.agent_id,
        "principal_id": endpoint.principal_id, "intent_id": endpoint.intent_id, "channel_id": endpoint.channel_id,
        "event_types": endpoint.event_types, "disabled": reason,
    });
    Draft::of(kind, actor, payload)
}

/// Whether the caller may manage an endpoint: it belongs to the caller's principal and an agent that the key
/// may act as, or the caller has the scope `admin`; and the key may read the endpoint's deliveries.
fn may_manage(caller: &Caller, endpoint: &Endpoint) -> bool {
    let own = endpoint.principal_id == caller.principal() && caller.grant.key.may_act_as(&endpoint.agent_id);
    let mail = endpoint.kind == EndpointKind::Mailbox;
    let reads = caller.has(if mail { Scope::MailRead } else { Scope::IntentsRead });
    reads && (own || caller.has(Scope::Admin))
}

/// Requires that the key may read at least one kind of delivery.
fn require_any(caller: &Caller) -> Outcome<()> {
    if caller.has(Scope::MailRead) { Ok(()) } else { Ok(caller.require(Scope::IntentsRead)?) }
}

/// Loads an endpoint that the caller may manage.
pub(crate) async fn reachable(conn: &mut PgConnection, caller: &Caller, id: EndpointId) -> Outcome<Stored> {
    require_any(caller)?;
    let found = find(conn, id).await?.filter(|stored| may_manage(caller, &stored.endpoint));
    found.ok_or_else(|| not_found("subscription"))
}

/// Loads an endpoint for an operation that changes it, or by which something is sent to it: an operator decides
/// on deliveries to a sink.
pub(crate) async fn changeable(conn: &mut PgConnection, caller: &Caller, id: EndpointId) -> Outcome<Stored> {
    let stored = reachable(conn, caller, id).await?;
    if stored.endpoint.sink().is_some() {
        caller.require(Scope::Admin)?;
    }
    Ok(stored)
}

/// Requires that deliveries to the endpoint are sent at this moment.
pub(crate) fn require_live(endpoint: &Endpoint, now: Timestamp) -> Result<(), Refusal> {
    if endpoint.live(now) {
        return Ok(());
    }
    let message =
        "Nothing is sent to this endpoint: it has no URL, has ended or is disabled. PATCH it first.";
    Err(Refusal::new(Code::Unprocessable, message))
}
