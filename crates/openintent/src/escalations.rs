//! Escalations (RFC-0013): agents put an intent before people, who resolve the escalation. Table
//! `escalations`; `entente_domain::openintent::escalations` defines the right to resolve one.

use entente_domain::access::{AccessLevel, Level};
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::{PrincipalKind, check_name};
use entente_domain::ids::{EscalationId, IntentId};
use entente_domain::limits::ESCALATIONS_WAITING;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::escalations as domain;
use entente_domain::openintent::escalations::{
    Answerer, Escalation, EscalationAsk, EscalationStatus, Weight,
};
use entente_kernel::access::governance;
use entente_kernel::access::membership;
use entente_kernel::identity::principals;
use entente_kernel::{AppError, Caller, IntentTx, Outcome, not_found, unknown};
use serde_json::json;
use sqlx::PgConnection;

use crate::Ctx;
use crate::tasks;

/// Puts an intent before a person: the one named, else the policy's, else anybody who may resolve it.
///
/// Any agent with write access may escalate, even if the policy allows it nothing else.
///
/// # Errors
/// The intent does not exist, is not writable or is resolved; the assignee is no person; the request is
/// invalid; too many escalations wait.
pub async fn escalate(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    mut ask: EscalationAsk,
    once: Option<&Idempotency>,
) -> Outcome<Escalation> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership = work.require(Level::Write)?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    tasks::require_unresolved(&membership)?;
    if let Some(person) = &ask.assigned_to {
        require_person(work.conn(), "assigned_to", person).await?;
    } else if let Some(person) =
        governance::of_or_none(work.conn(), intent_id, &membership).await?.escalate_to
        // A policy from before policies were enforced may name a principal that is no person.
        && is_person(work.conn(), &person).await?
    {
        ask.assigned_to = Some(person);
    }
    let now = work.now();
    let waiting = waiting(work.conn(), intent_id).await?;
    let id = EscalationId::mint(now, &*ctx.chance);
    let made = domain::escalate(ask, intent_id, caller.author(), id, waiting, now)?;
    insert(work.conn(), &made).await?;
    let payload = json!({
        "about": "escalation", "escalation_id": made.id, "reason": made.reason, "priority": made.priority,
        "urgency": made.urgency, "escalated_by": made.escalated_by, "assigned_to": made.assigned_to,
    });
    work.record(Draft::of(Kind::ArbitrationRequested, &caller.agent, payload));
    work.finish(made).await
}

/// Requires that a name belongs to a person.
pub(crate) async fn require_person(conn: &mut PgConnection, member: &str, name: &str) -> Outcome<()> {
    check_name(member, name)?;
    if is_person(conn, name).await? { Ok(()) } else { Err(domain::no_person(member).into()) }
}

/// Whether a name belongs to a person.
pub(crate) async fn is_person(conn: &mut PgConnection, name: &str) -> Outcome<bool> {
    let found = principals::find(conn, name).await?;
    Ok(found.is_some_and(|principal| principal.kind == PrincipalKind::Human))
}

/// Filters for listing escalations.
#[derive(Debug, Clone, Default)]
pub struct EscalationFilter {
    /// Only escalations of this intent.
    pub intent_id: Option<IntentId>,
    /// Only escalations in this status, in its wire form.
    pub status: Option<String>,
    /// Only escalations assigned to this person.
    pub assigned_to: Option<String>,
    /// Only escalations older than this one: the cursor.
    pub before: Option<EscalationId>,
    /// Maximum number of escalations.
    pub limit: u32,
}

/// Lists the escalations that are on readable intents or assigned to the caller, newest first.
///
/// # Errors
/// The intent named by the filter does not exist or is not readable.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &EscalationFilter) -> Outcome<Vec<Escalation>> {
    caller.require(Scope::IntentsRead)?;
    let now = ctx.now();
    let mut connection = ctx.pool.acquire().await?;
    if let Some(intent_id) = filter.intent_id {
        membership::require(&mut connection, &caller.agent, intent_id, Level::Read, now).await?;
        return of_intent(&mut connection, intent_id, filter).await;
    }
    let person =
        (caller.grant.kind == PrincipalKind::Human && caller.is_itself()).then_some(caller.principal());
    visible(&mut connection, &caller.agent, person, filter, now).await
}

/// Resolves an escalation; repeating the same answer changes nothing.
///
/// # Errors
/// It does not exist or is not visible; the caller may not resolve it; it is answered already; the intent has
/// ended.
pub async fn resolve(
    ctx: &Ctx,
    caller: &Caller,
    id: EscalationId,
    resolution: &str,
    notes: Option<String>,
    once: Option<&Idempotency>,
) -> Outcome<Escalation> {
    caller.require(Scope::IntentsWrite)?;
    let mut connection = ctx.pool.acquire().await?;
    let found = load(&mut connection, id).await?.ok_or_else(|| not_found("escalation"))?;
    drop(connection);
    let intent_id = found.intent_id;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership = membership::find(work.conn(), &caller.agent, intent_id, ctx.now()).await?;
    let nowhere = AccessLevel { level: None, granted: false, until: None };
    let by = Answerer {
        agent: &caller.agent,
        principal: caller.principal(),
        kind: caller.grant.kind,
        authority: caller.authority(),
        access: membership.map_or(nowhere, |membership| membership.access),
    };
    let found = load(work.conn(), id).await?.filter(|found| by.sees(found));
    let before = found.ok_or_else(|| not_found("escalation"))?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let resolved = before.clone().resolve(by, resolution, notes, work.now())?;
    if resolved != before {
        save(work.conn(), &resolved).await?;
        let payload = json!({
            "escalation_id": id, "resolution": resolved.resolution, "resolved_by": resolved.resolved_by,
            "escalated_by": resolved.escalated_by, "notes": resolved.resolution_notes,
            "authority": caller.authority(),
        });
        work.record(Draft::of(Kind::EscalationResolved, &caller.agent, payload));
    }
    work.finish(resolved).await
}

/// Expires the escalations of a resolved intent; the event of the status change implies it.
pub(crate) async fn end_of_intent(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<()> {
    sqlx::query!(
        "-- escalations::end_of_intent
         UPDATE escalations SET status = 'expired' WHERE intent_id = $1 AND status = 'pending'",
        intent_id.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads escalations: takes the query's name and the text after its `FROM escalations x`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT x.id, x.intent_id, x.escalated_by, x.escalated_by_principal, x.assigned_to, x.reason, x.priority, x.urgency, x.context,
                    x.status, x.resolved_by, x.resolved_at, x.resolution, x.resolution_notes, x.created_at
             FROM escalations x " + $rest
            $(, $argument)*
        )
    };
}

struct Row {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    escalated_by: String,
    escalated_by_principal: Option<String>,
    assigned_to: Option<String>,
    reason: String,
    priority: String,
    urgency: String,
    context: String,
    status: String,
    resolved_by: Option<String>,
    resolved_at: Option<Timestamp>,
    resolution: Option<String>,
    resolution_notes: Option<String>,
    created_at: Timestamp,
}

impl TryFrom<Row> for Escalation {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let weight = |word: &str| Weight::parse(word).ok_or_else(|| unknown("weight of an escalation", word));
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            escalated_by: row.escalated_by,
            escalated_by_principal: row.escalated_by_principal,
            assigned_to: row.assigned_to,
            reason: row.reason,
            priority: weight(&row.priority)?,
            urgency: weight(&row.urgency)?,
            context: serde_json::from_str(&row.context)?,
            status: EscalationStatus::parse(&row.status)
                .ok_or_else(|| unknown("escalation status", &row.status))?,
            resolved_by: row.resolved_by,
            resolved_at: row.resolved_at,
            resolution: row.resolution,
            resolution_notes: row.resolution_notes,
            created_at: row.created_at,
        })
    }
}

async fn load(conn: &mut PgConnection, id: EscalationId) -> Outcome<Option<Escalation>> {
    let row = select!("escalations::load", "WHERE x.id = $1", id.uuid()).fetch_optional(conn).await?;
    row.map(Escalation::try_from).transpose()
}

async fn of_intent(
    conn: &mut PgConnection,
    intent_id: IntentId,
    filter: &EscalationFilter,
) -> Outcome<Vec<Escalation>> {
    let rows = select!(
        "escalations::of_intent",
        "WHERE x.intent_id = $1 AND ($2::text IS NULL OR x.status = $2) AND ($3::text IS NULL OR x.assigned_to = $3)
           AND ($4::uuid IS NULL OR x.id < $4)
         ORDER BY x.id DESC LIMIT $5",
        intent_id.uuid(),
        filter.status,
        filter.assigned_to,
        filter.before.map(EscalationId::uuid),
        i64::from(filter.limit)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Escalation::try_from).collect()
}

async fn visible(
    conn: &mut PgConnection,
    agent: &str,
    person: Option<&str>,
    filter: &EscalationFilter,
    now: Timestamp,
) -> Outcome<Vec<Escalation>> {
    let rows = select!(
        "escalations::visible",
        "JOIN intents i ON i.id = x.intent_id
         LEFT JOIN acls a ON a.intent_id = x.intent_id
         WHERE ($1::text IS NULL OR x.status = $1)
           AND ($2::text IS NULL OR x.assigned_to = $2)
           AND ($3::uuid IS NULL OR x.id < $3)
           AND (a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $4 OR x.assigned_to = $5 OR EXISTS (
                SELECT 1 FROM acl_entries e WHERE e.intent_id = x.intent_id AND e.principal_id = $4
                AND (e.expires_at IS NULL OR e.expires_at > $6)))
         ORDER BY x.id DESC LIMIT $7",
        filter.status,
        filter.assigned_to,
        filter.before.map(EscalationId::uuid),
        agent,
        person,
        now,
        i64::from(filter.limit)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Escalation::try_from).collect()
}

/// Counts the pending escalations of an intent, up to the limit.
async fn waiting(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<usize> {
    let count = sqlx::query_scalar!(
        r#"-- escalations::waiting
         SELECT count(*) AS "count!" FROM (
             SELECT 1 FROM escalations WHERE intent_id = $1 AND status = 'pending' LIMIT $2) waiting"#,
        intent_id.uuid(),
        i64::try_from(ESCALATIONS_WAITING).unwrap_or(i64::MAX)
    )
    .fetch_one(conn)
    .await?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

async fn insert(conn: &mut PgConnection, made: &Escalation) -> Outcome<()> {
    sqlx::query!(
        "-- escalations::insert
         INSERT INTO escalations (id, intent_id, escalated_by, assigned_to, reason, priority, urgency, context, status,
                                  created_at, escalated_by_principal)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        made.id.uuid(),
        made.intent_id.uuid(),
        made.escalated_by,
        made.assigned_to,
        made.reason,
        made.priority.as_str(),
        made.urgency.as_str(),
        serde_json::to_string(&made.context)?,
        made.status.as_str(),
        made.created_at,
        made.escalated_by_principal
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn save(conn: &mut PgConnection, resolved: &Escalation) -> Outcome<()> {
    sqlx::query!(
        "-- escalations::save
         UPDATE escalations SET status = $2, resolved_by = $3, resolved_at = $4, resolution = $5, resolution_notes = $6
         WHERE id = $1",
        resolved.id.uuid(),
        resolved.status.as_str(),
        resolved.resolved_by,
        resolved.resolved_at,
        resolved.resolution,
        resolved.resolution_notes
    )
    .execute(conn)
    .await?;
    Ok(())
}
