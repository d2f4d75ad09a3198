//! Approvals (RFC-0013): requesting, approving, denying and using them. Table `permits`. The
//! rules are in `entente_domain::openintent::approvals`; `governance.rs` asks for the approvals that completions need.
//!
//! All operations run under the intent's lock: of two concurrent approvals the second sees the first, and an approval
//! is used only once.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ApprovalId, IntentId};
use entente_domain::limits::{PERMITS_OPEN, PERMITS_WAITING};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::approvals as domain;
use entente_domain::openintent::approvals::{Approval, ApprovalAsk, ApprovalStatus, Judge};
use entente_kernel::access::governance;
use entente_kernel::access::membership;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{AppError, Caller, IntentTx, Outcome, not_found, unknown};
use serde_json::json;
use sqlx::PgConnection;

use crate::Ctx;
use crate::{escalations, tasks};

/// Requests an approval; write access suffices, even if the policy allows nothing else.
///
/// # Errors
/// Fails if the intent does not exist, is not writable or is resolved, if the request is invalid, or if too many
/// wait.
pub async fn request(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: ApprovalAsk,
    once: Option<&Idempotency>,
) -> Outcome<Approval> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership = work.require(Level::Write)?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    tasks::require_unresolved(&membership)?;
    let now = work.now();
    let waiting = count_open(work.conn(), intent_id).await?;
    let id = ApprovalId::mint(now, &*ctx.chance);
    let approval = domain::request(ask, intent_id, caller.author(), id, waiting, now)?;
    insert(work.conn(), &approval).await?;
    let payload = json!({
        "about": "approval", "approval_id": approval.id, "action": approval.action, "reason": approval.reason,
        "requested_by": approval.requested_by,
    });
    work.record(Draft::of(Kind::ArbitrationRequested, &caller.agent, payload));
    work.finish(approval).await
}

/// Returns one approval.
///
/// # Errors
/// Fails if the intent does not exist or is not readable, or if it has no such approval.
pub async fn get(ctx: &Ctx, caller: &Caller, intent_id: IntentId, id: ApprovalId) -> Outcome<Approval> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    load(&mut connection, intent_id, id).await?.ok_or_else(|| not_found("approval"))
}

/// Filter for an intent's approvals.
#[derive(Debug, Clone, Default)]
pub struct ApprovalFilter {
    /// Only approvals in this status.
    pub status: Option<ApprovalStatus>,
    /// Only approvals older than this one: the cursor.
    pub before: Option<ApprovalId>,
    /// Maximum number of results.
    pub limit: u32,
}

/// Lists an intent's approvals, newest first.
///
/// # Errors
/// Fails if the intent does not exist or is not readable.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    filter: &ApprovalFilter,
) -> Outcome<Vec<Approval>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    page(&mut connection, intent_id, filter).await
}

/// Decision about an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Adds one approving vote.
    Approve,
    /// Refuses it.
    Deny,
}

/// Approves or denies a requested approval.
///
/// A quorum takes several approvers, each counted once; approving a second time changes nothing.
///
/// # Errors
/// Fails if the intent does not exist or is not readable, if it has no such approval, if the caller may not decide,
/// or if it is decided already.
pub async fn decide(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    id: ApprovalId,
    verdict: Verdict,
    notes: Option<String>,
    once: Option<&Idempotency>,
) -> Outcome<Approval> {
    caller.require(Scope::IntentsWrite)?;
    entente_domain::access::check_reason(notes.as_deref())?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership = work.require(Level::Read)?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    if escalations::is_person(work.conn(), &caller.agent).await? {
        // A question that is put before a person is decided by that person.
        caller.require_person()?;
    }
    let now = work.now();
    let before = load(work.conn(), intent_id, id).await?.ok_or_else(|| not_found("approval"))?;
    let policy = governance::of_or_none(work.conn(), intent_id, &membership).await?;
    let assigned = governance::assigned(work.conn(), intent_id).await?;
    let admin = membership.access.reaches(Level::Admin);
    let judge = Judge { agent: &caller.agent, admin, policy: &policy, assigned: &assigned };
    let (kind, approval) = match verdict {
        Verdict::Approve => {
            let others = open(work.conn(), intent_id, &before.action).await?;
            (Kind::ApprovalGranted, before.clone().approve(judge, &others, notes, now)?)
        }
        Verdict::Deny => (Kind::ApprovalDenied, before.clone().deny(judge, notes, now)?),
    };
    if approval != before {
        save(work.conn(), &approval).await?;
        let decision = if verdict == Verdict::Deny { "denied" } else { "approved" };
        let payload = json!({
            "approval_id": approval.id, "action": approval.action, "decision": decision, "status": approval.status,
            "requested_by": approval.requested_by, "decided_by": caller.agent, "approvals": approval.approved_by.len(),
            "notes": approval.decision_notes, "authority": caller.authority(),
        });
        work.record(Draft::of(kind, &caller.agent, payload));
    }
    work.finish(approval).await
}

/// Marks approvals as used, within the operation that they permit.
pub(crate) async fn use_up(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    agent: &str,
    used: &[ApprovalId],
) -> Outcome<()> {
    if used.is_empty() {
        return Ok(());
    }
    let approvers = sqlx::query_scalar!(
        r#"-- approvals::use_up
         UPDATE permits SET status = 'approved', used_by = $2, used_at = $3 WHERE id = ANY($1)
         RETURNING approved_by"#,
        &used.iter().map(|id| id.uuid()).collect::<Vec<_>>(),
        agent,
        log.now()
    )
    .fetch_all(conn)
    .await?;
    let mut approvers: Vec<String> = approvers.into_iter().flatten().collect();
    approvers.sort_unstable();
    approvers.dedup();
    let payload = json!({
        "action": domain::COMPLETE, "approval_id": used.first(), "approval_ids": used, "approved_by": approvers,
    });
    log.record(ctx, Draft::of(Kind::ApprovalEnforced, agent, payload));
    Ok(())
}

/// Expires the unused approvals of an intent that is resolved; the event of its status change announces this.
pub(crate) async fn end_of_intent(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<()> {
    sqlx::query!(
        "-- approvals::end_of_intent
         UPDATE permits SET status = 'expired'
         WHERE intent_id = $1 AND status IN ('pending', 'approved') AND used_at IS NULL",
        intent_id.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Selects approvals: the query's name, and the clauses after `FROM permits`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            ApprovalRow,
            "-- " + $name + "
             SELECT id, intent_id, requested_by, requested_by_principal, action, reason, context, status, approved_by, decided_by, decided_at,
                    decision_notes, used_by, used_at, created_at
             FROM permits " + $rest
            $(, $argument)*
        )
    };
}

struct ApprovalRow {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    requested_by: String,
    requested_by_principal: Option<String>,
    action: String,
    reason: String,
    context: String,
    status: String,
    approved_by: Vec<String>,
    decided_by: Option<String>,
    decided_at: Option<Timestamp>,
    decision_notes: Option<String>,
    used_by: Option<String>,
    used_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl TryFrom<ApprovalRow> for Approval {
    type Error = AppError;

    fn try_from(row: ApprovalRow) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            requested_by: row.requested_by,
            requested_by_principal: row.requested_by_principal,
            action: row.action,
            reason: row.reason,
            context: serde_json::from_str(&row.context)?,
            status: ApprovalStatus::parse(&row.status)
                .ok_or_else(|| unknown("approval status", &row.status))?,
            approved_by: row.approved_by,
            decided_by: row.decided_by,
            decided_at: row.decided_at,
            decision_notes: row.decision_notes,
            used_by: row.used_by,
            used_at: row.used_at,
            created_at: row.created_at,
        })
    }
}

async fn load(conn: &mut PgConnection, intent_id: IntentId, id: ApprovalId) -> Outcome<Option<Approval>> {
    let row = select!("approvals::load", "WHERE intent_id = $1 AND id = $2", intent_id.uuid(), id.uuid())
        .fetch_optional(conn)
        .await?;
    row.map(Approval::try_from).transpose()
}

async fn page(
    conn: &mut PgConnection,
    intent_id: IntentId,
    filter: &ApprovalFilter,
) -> Outcome<Vec<Approval>> {
    let rows = select!(
        "approvals::page",
        "WHERE intent_id = $1 AND ($2::text IS NULL OR status = $2) AND ($3::uuid IS NULL OR id < $3)
         ORDER BY id DESC LIMIT $4",
        intent_id.uuid(),
        filter.status.map(ApprovalStatus::as_str),
        filter.before.map(ApprovalId::uuid),
        i64::from(filter.limit)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Approval::try_from).collect()
}

/// Returns the approvals for an action that can still be used or decided, oldest first.
pub(crate) async fn open(
    conn: &mut PgConnection,
    intent_id: IntentId,
    action: &str,
) -> Outcome<Vec<Approval>> {
    let rows = select!(
        "approvals::open",
        "WHERE intent_id = $1 AND action = $2 AND status IN ('pending', 'approved') AND used_at IS NULL
         ORDER BY id LIMIT $3",
        intent_id.uuid(),
        action,
        i64::from(PERMITS_OPEN)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Approval::try_from).collect()
}

/// Counts the open approvals of an intent, up to the maximum that may be open.
async fn count_open(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<usize> {
    let count = sqlx::query_scalar!(
        r#"-- approvals::count_open
         SELECT count(*) AS "count!" FROM (
             SELECT 1 FROM permits WHERE intent_id = $1 AND status IN ('pending', 'approved') AND used_at IS NULL LIMIT $2) waiting"#,
        intent_id.uuid(),
        i64::try_from(PERMITS_WAITING).unwrap_or(i64::MAX)
    )
    .fetch_one(conn)
    .await?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

async fn insert(conn: &mut PgConnection, approval: &Approval) -> Outcome<()> {
    sqlx::query!(
        "-- approvals::insert
         INSERT INTO permits (id, intent_id, requested_by, action, reason, context, status, approved_by, created_at,
                              requested_by_principal)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        approval.id.uuid(),
        approval.intent_id.uuid(),
        approval.requested_by,
        approval.action,
        approval.reason,
        serde_json::to_string(&approval.context)?,
        approval.status.as_str(),
        &approval.approved_by,
        approval.created_at,
        approval.requested_by_principal
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn save(conn: &mut PgConnection, approval: &Approval) -> Outcome<()> {
    sqlx::query!(
        "-- approvals::save
         UPDATE permits SET status = $2, approved_by = $3, decided_by = $4, decided_at = $5, decision_notes = $6
         WHERE id = $1",
        approval.id.uuid(),
        approval.status.as_str(),
        &approval.approved_by,
        approval.decided_by,
        approval.decided_at,
        approval.decision_notes
    )
    .execute(conn)
    .await?;
    Ok(())
}
