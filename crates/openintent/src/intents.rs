//! Intents (RFC-0001): creating, reading, listing and changing them. Table `intents`.

use entente_domain::access::{Level, Policy};
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::graphs::check_depth;
use entente_domain::openintent::intents as domain;
use entente_domain::openintent::intents::{
    Intent, IntentAsk, IntentStatus, created_payload, moved_payload, patched_payload,
};
use entente_domain::openintent::patch::Change;
use entente_domain::openintent::suspensions::{check_left_alone, waits};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::governance::{Attempt, admit};
use entente_kernel::access::membership;
use entente_kernel::hooks::{AfterCommit, IntentChange};
use entente_kernel::intents::{IntentFilter, NewIntent, insert, load, load_as, page, update};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::operations::Operation;
use entente_kernel::pages::{Measure, Page};
use entente_kernel::{Caller, IntentTx, Outcome, access, not_found};
use serde_json::Value;
use sqlx::PgConnection;

use crate::Ctx;
use crate::{approvals, governance, graphs, leases, suspensions};

/// Creates an intent.
///
/// # Errors
/// The request breaks a domain rule; the parent or a dependency does not exist, or the parent does not let
/// the caller add children (OI-7.2).
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    created_by: &str,
    ask: IntentAsk,
    once: Option<&Idempotency>,
) -> Outcome<Intent> {
    caller.require(Scope::IntentsWrite)?;
    ctx.stops.objection(caller, created_by, None).map_or(Ok(()), Err)?;
    let id = IntentId::mint(ctx.now(), &*ctx.chance);
    let new = Create { ctx: ctx.clone(), created_by: created_by.to_owned(), ask };
    ctx.operate(caller, id, new, once).await
}

/// An intent to create.
struct Create {
    ctx: Ctx,
    created_by: String,
    ask: IntentAsk,
}

impl Operation for Create {
    type Answer = Intent;
    type Rows = ();

    const NAME: &'static str = "create_intent";

    async fn apply(&self, _caller: &Caller, work: &mut IntentTx<'_>, (): ()) -> Outcome<Intent> {
        if let Some(done) = work.repeated()? {
            return Ok(done);
        }
        let has_more_rows =
            !self.ask.depends_on.is_empty() || self.ctx.settings.default_access != Policy::Open;
        let (conn, log) = work.undecided_parts();
        if has_more_rows {
            return make(conn, &self.ctx, log, &self.created_by, self.ask.clone(), None, &[]).await;
        }
        let intent = prepare(conn, log, &self.created_by, self.ask.clone()).await?;
        work.defer(NewIntent(intent.clone()));
        work.record(Draft::of(Kind::IntentCreated, &self.created_by, created_payload(&intent)));
        Ok(intent)
    }
}

/// Checks the references of a new intent, and returns the intent.
async fn prepare(
    conn: &mut PgConnection,
    log: &IntentLog,
    created_by: &str,
    ask: IntentAsk,
) -> Outcome<Intent> {
    domain::check_dependencies(&ask.depends_on)?;
    check_relations(conn, &ask, created_by, log.now()).await?;
    governance::check_new(conn, ask.governance_policy.as_ref()).await?;
    Ok(domain::create(ask, created_by, log.intent_id, log.now())?)
}

/// Creates, within an operation, the intent of a fresh log; a refusal writes nothing.
///
/// `lineage` records the triggers that caused it when no request did (RFC-0017 §5.2); the log keeps it with
/// the intent's initial content. `assigned` are the agents assigned to it at once.
pub(crate) async fn make(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    created_by: &str,
    ask: IntentAsk,
    lineage: Option<Value>,
    assigned: &[&str],
) -> Outcome<Intent> {
    let intent = prepare(conn, log, created_by, ask).await?;
    insert(conn, std::slice::from_ref(&intent)).await?;
    graphs::add_all(conn, log.intent_id, &intent.depends_on).await?;
    let mut payload = created_payload(&intent);
    if let Some(lineage) = lineage {
        payload["lineage"] = lineage;
    }
    log.record(ctx, Draft::of(Kind::IntentCreated, created_by, payload));
    access::of_new(conn, ctx, log, created_by, assigned, Level::Write).await?;
    Ok(intent)
}

/// Checks the parent and the dependencies of a new intent.
///
/// Needs no lock on them: only the agent's access to them matters, and a concurrent revocation takes effect
/// before or after. No cycle can arise, because nothing depends on the new intent yet.
async fn check_relations(
    conn: &mut PgConnection,
    ask: &IntentAsk,
    agent: &str,
    now: Timestamp,
) -> Outcome<()> {
    if let Some(parent) = ask.parent_id {
        let membership = membership::find(conn, agent, parent, now).await?;
        let membership = membership.ok_or_else(|| unknown_relation("parent_intent_id", parent))?;
        membership.access.require(Level::Admin)?;
        check_depth(graphs::levels(conn, parent).await?)?;
    }
    let asked: Vec<(IntentId, &str)> = ask.depends_on.iter().map(|id| (*id, agent)).collect();
    let found = if asked.is_empty() { Vec::new() } else { membership::find_all(conn, &asked, now).await? };
    let readable = |id: IntentId| {
        found.iter().any(|((known, _), membership)| *known == id && membership.access.reaches(Level::Read))
    };
    match ask.depends_on.iter().find(|id| !readable(**id)) {
        Some(hidden) => Err(unknown_relation("depends_on", *hidden).into()),
        None => Ok(()),
    }
}

fn unknown_relation(member: &str, id: IntentId) -> Refusal {
    Refusal::field(
        Code::Unprocessable,
        member,
        "unknown",
        format!("`{member}` names {id}, which does not exist or is not visible to you."),
    )
}

/// Returns one intent.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn get(ctx: &Ctx, caller: &Caller, id: IntentId) -> Outcome<Intent> {
    caller.require(Scope::IntentsRead)?;
    let read = |asked: Vec<(IntentId, String)>| {
        Box::pin(async move {
            let mut connection = ctx.pool.acquire().await?;
            load_as(&mut connection, &asked, ctx.now()).await
        })
    };
    let key = (id, caller.agent.clone());
    let found = match ctx.state.intents.load(key.clone(), read).await? {
        Some(found) => Some(found),
        // A query for several leaves large ones out.
        None => read(vec![key]).await?.pop().map(|(_, alone)| alone),
    };
    let (intent, access) = found.ok_or_else(|| not_found("intent"))??;
    access.require(Level::Read)?;
    if !waits(&intent.state) {
        return Ok(intent);
    }
    let mut connection = ctx.pool.acquire().await?;
    suspensions::seen(&mut connection, ctx, vec![intent]).await?.pop().ok_or_else(|| not_found("intent"))
}

/// Lists the intents that the caller may read, newest first.
///
/// # Errors
/// The caller lacks the scope.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &IntentFilter) -> Outcome<Page<Intent>> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let mut measure = Measure::of(caller);
    let found = page(&mut conn, &caller.agent, filter, ctx.now(), &mut measure).await?;
    let mut found = suspensions::seen(&mut conn, ctx, found).await?;
    found.retain(|intent| filter.status.is_none_or(|status| intent.status == status));
    Ok(measure.page(found))
}

/// Changes an intent's state.
///
/// The caller must have seen the current version, and no other agent may hold a lease on the changed part
/// (RFC-0003). With a fencing token, the caller must still hold the lease of that token.
///
/// # Errors
/// The intent does not exist or is not writable; its policy forbids the change; the version is stale; the
/// change breaks a domain rule; a lease conflicts, or the caller's own has ended.
pub async fn patch_state(
    ctx: &Ctx,
    caller: &Caller,
    id: IntentId,
    seen: i64,
    change: Change,
    fencing_token: Option<i64>,
) -> Outcome<Intent> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, id, None).await?;
    let membership = membership::require(work.conn(), &caller.agent, id, Level::Write, ctx.now()).await?;
    let attempt =
        Attempt { intent_id: id, membership: &membership, agent: &caller.agent, operation: "patch_state" };
    let mut work = admit(caller, work, attempt).await?;
    let (conn, log) = work.parts();
    let intent = load(conn, id).await?.ok_or_else(|| not_found("intent"))?;
    let intent = suspensions::settle(conn, ctx, log, intent).await?;
    intent.require_version(seen)?;
    let next = intent.patched(&change, log.now())?;
    check_left_alone(&intent.state, &next.state)?;
    leases::guard(conn, log, &caller.agent, &change, fencing_token).await?;
    update(conn, &next).await?;
    log.record(ctx, Draft::of(Kind::StatePatched, &caller.agent, patched_payload(&change, &next)));
    work.finish(next).await
}

/// Changes an intent's status, if the caller has seen its current version.
///
/// A terminal status ends what works on the intent in the same transaction (RFC-0021 §7.1): the protocols'
/// hooks do ([`crate::hooks`], `moments/src/hooks.rs`). Its jobs go on; no clause ends them.
///
/// # Errors
/// The intent does not exist or the caller is no admin of it; the version is stale; the transition is invalid
/// or forbidden by its policy (RFC-0013); it waits for a person's answer, and the caller is neither the asker
/// nor a person.
pub async fn set_status(
    ctx: &Ctx,
    caller: &Caller,
    id: IntentId,
    seen: i64,
    status: IntentStatus,
    reason: Option<&str>,
) -> Outcome<Intent> {
    caller.require(Scope::IntentsWrite)?;
    entente_domain::access::check_reason(reason)?;
    let mut work = IntentTx::begin(ctx, caller, id, None).await?;
    let membership = membership::require(work.conn(), &caller.agent, id, Level::Admin, ctx.now()).await?;
    let attempt =
        Attempt { intent_id: id, membership: &membership, agent: &caller.agent, operation: "set_status" };
    let (mut work, used) = governance::admit_status(caller, work, attempt, status, reason).await?;
    let (conn, log) = work.parts();
    let intent = load(conn, id).await?.ok_or_else(|| not_found("intent"))?;
    let intent = suspensions::settle(conn, ctx, log, intent).await?;
    intent.require_version(seen)?;
    let mut after = AfterCommit::default();
    let intent = suspensions::call_off(conn, ctx, log, intent, status, caller, &mut after).await?;
    let next = intent.moved(status, ctx.settings.strict, log.now())?;
    approvals::use_up(conn, ctx, log, &caller.agent, &used).await?;
    update(conn, &next).await?;
    log.record(ctx, Draft::of(Kind::StatusChanged, &caller.agent, moved_payload(&intent, &next, reason)));
    if status.is_terminal() {
        let mut change = IntentChange { ctx, conn, log, actor: &caller.agent };
        ctx.hooks.intent_closed(&mut change, status, &mut after).await?;
    }
    let next = work.finish(next).await?;
    after.notify(ctx);
    Ok(next)
}
