//! Assignments: the agents that work on an intent (RFC-0001). Owns the table `assignments`.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::{SYSTEM, check_name};
use entente_domain::ids::{AssignmentId, FailureId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::access::governance;
use crate::access::governance::Attempt;
use crate::access::membership;
use crate::log::writer::IntentLog;
use crate::log::{FormerPosition, GlobalPosition};
use crate::{Caller, Ctx, IntentTx, Outcome, not_found};

/// Role of an agent that a retry or a hand-over assigns anew.
const USUAL_ROLE: &str = "worker";

/// An agent's assignment to an intent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Assignment {
    /// The assignment's id.
    pub id: AssignmentId,
    /// The intent.
    pub intent_id: IntentId,
    /// The agent.
    pub agent_id: String,
    /// The role: `worker`, `coordinator`, or a word defined by the client.
    pub role: String,
    /// When the agent was assigned.
    pub assigned_at: Timestamp,
    /// The agent that handed the intent on to it; `None` if it was assigned in any other way (OI-11.5.2).
    pub delegated_by: Option<String>,
}

/// The agent that assigns another one.
#[derive(Debug, Clone, Copy)]
pub struct Assigner<'a> {
    /// The agent, which is the actor of the event.
    pub agent: &'a str,
    /// Whether the agent is assigned to the intent itself.
    pub assigned: bool,
}

impl<'a> Assigner<'a> {
    /// Returns the agent if this assignment is a delegation: only an agent that has the intent itself can hand it
    /// on, and not to itself. The creator of an intent who is not assigned to it, an operator and a trigger assign
    /// without delegating (OI-11.5.2).
    fn delegates_to(self, agent_id: &str) -> Option<&'a str> {
        Some(self.agent).filter(|agent| self.assigned && *agent != agent_id)
    }
}

/// Lists the agents assigned to an intent, in the order of their assignment.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn list(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Vec<Assignment>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    load(&mut connection, intent_id).await
}

/// Assigns an agent to an intent, or changes its role.
///
/// Only a manager of the intent can assign a coordinator, because coordinators see and manage all of its
/// channels.
///
/// # Errors
/// The intent does not exist or is not writable; a name is invalid.
pub async fn assign(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    agent_id: &str,
    role: &str,
    once: Option<&Idempotency>,
) -> Outcome<Assignment> {
    caller.require(Scope::IntentsWrite)?;
    check_name("agent_id", agent_id)?;
    check_name("role", role)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership = work.require(Level::Write)?;
    if role == "coordinator" {
        membership.access.require_manager()?;
    }
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let attempt =
        Attempt { intent_id, membership: &membership, agent: &caller.agent, operation: "assign_agent" };
    let mut work = governance::admit_assignment(caller, work, attempt, agent_id, false).await?;
    let (conn, log) = work.parts();
    let by = Assigner { agent: &caller.agent, assigned: membership.assigned };
    let assignment = put(conn, ctx, log, by, agent_id, role).await?;
    work.finish(assignment).await
}

/// Assigns an agent within an operation; the operation has checked the names and the permission.
///
/// # Errors
/// A database error.
pub async fn put(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    by: Assigner<'_>,
    agent_id: &str,
    role: &str,
) -> Outcome<Assignment> {
    let assignment = Assignment {
        id: AssignmentId::mint(log.now(), &*ctx.chance),
        intent_id: log.intent_id,
        agent_id: agent_id.to_owned(),
        role: role.to_owned(),
        assigned_at: log.now(),
        delegated_by: by.delegates_to(agent_id).map(str::to_owned),
    };
    let assignment = save(conn, assignment, by.agent, log.next_seq()).await?;
    log.record(ctx, event_draft(&assignment, by.agent, json!({})));
    Ok(assignment)
}

/// Removes an agent's assignment to an intent.
///
/// # Errors
/// The intent does not exist or is not writable; the agent is not assigned to it.
pub async fn unassign(ctx: &Ctx, caller: &Caller, intent_id: IntentId, agent_id: &str) -> Outcome<()> {
    caller.require(Scope::IntentsWrite)?;
    let work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    let membership = work.require(Level::Write)?;
    let attempt =
        Attempt { intent_id, membership: &membership, agent: &caller.agent, operation: "unassign_agent" };
    let mut work = governance::admit_assignment(caller, work, attempt, agent_id, true).await?;
    if !delete(work.conn(), intent_id, agent_id).await? {
        return Err(not_found("assignment"));
    }
    work.record(Draft::of(Kind::AgentUnassigned, &caller.agent, json!({ "agent_id": agent_id })));
    work.commit().await
}

/// Passes an agent's assignment on, within the operation that hands its work over: the other agent gets its role. An agent that is
/// not assigned passes on nothing but the intent itself.
///
/// # Errors
/// A database error.
pub async fn hand_over(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    by: &str,
    from: &str,
    to: &str,
) -> Outcome<Assignment> {
    let role = role_of(conn, log.intent_id, from).await?;
    let is_assigned = role.is_some();
    if is_assigned {
        delete(conn, log.intent_id, from).await?;
        log.record(ctx, Draft::of(Kind::AgentUnassigned, by, json!({ "agent_id": from })));
    }
    let assigner = Assigner { agent: from, assigned: is_assigned };
    put(conn, ctx, log, assigner, to, role.as_deref().unwrap_or(USUAL_ROLE)).await
}

/// Returns an agent's role on an intent, if it is assigned to it.
///
/// # Errors
/// A database error.
pub async fn role(conn: &mut PgConnection, intent_id: IntentId, agent_id: &str) -> Outcome<Option<String>> {
    role_of(conn, intent_id, agent_id).await
}

/// Another attempt at an intent, announced to an agent (RFC-0010, OI-11.5.2).
#[derive(Debug)]
pub struct Retry<'a> {
    /// The agent.
    pub agent_id: &'a str,
    /// The agent that it takes over from, if that agent is assigned to the intent; `None` keeps the value
    /// of its assignment.
    pub delegated_by: Option<&'a str>,
    /// Number of the retry, starting at 1.
    pub attempt: u32,
    /// The error of the failed attempt.
    pub last_error: Option<&'a str>,
    /// The failure that caused the retry.
    pub failure_id: FailureId,
}

/// Assigns each agent once to the log's intent for another attempt and records it, on behalf of the server;
/// agents that are assigned already keep their role.
///
/// # Errors
/// A database error.
pub async fn retry(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    retries: &[Retry<'_>],
) -> Outcome<()> {
    let now = log.now();
    // The events are recorded below, in this order.
    let seqs: Vec<i64> = (log.next_seq()..).take(retries.len()).collect();
    let saved = sqlx::query!(
        "-- assignments::retry
         INSERT INTO assignments (id, intent_id, agent_id, role, assigned_by, assigned_at, delegated_by, seq)
         SELECT k.id, $1, k.agent_id, $2, $3, $4, k.delegated_by, k.seq
         FROM UNNEST($5::uuid[], $6::text[], $7::text[], $8::bigint[]) AS k (id, agent_id, delegated_by, seq)
         ON CONFLICT ON CONSTRAINT assignments_once
         DO UPDATE SET assigned_by = excluded.assigned_by, assigned_at = excluded.assigned_at,
             delegated_by = coalesce(excluded.delegated_by, assignments.delegated_by), seq = excluded.seq,
             xid = excluded.xid
         RETURNING id, agent_id, role, delegated_by",
        log.intent_id.uuid(),
        USUAL_ROLE,
        SYSTEM,
        now,
        &retries.iter().map(|_| AssignmentId::mint(now, &*ctx.chance).uuid()).collect::<Vec<_>>(),
        &retries.iter().map(|retry| retry.agent_id).collect::<Vec<_>>() as &[&str],
        &retries.iter().map(|retry| retry.delegated_by).collect::<Vec<_>>() as &[Option<&str>],
        &seqs
    )
    .fetch_all(conn)
    .await?;
    for retry in retries {
        let Some(row) = saved.iter().find(|row| row.agent_id == retry.agent_id) else { continue };
        let payload = json!({
            "id": AssignmentId::from(row.id), "agent_id": row.agent_id, "role": row.role,
            "assigned_at": entente_domain::clock::rfc3339(now), "delegated_by": row.delegated_by,
            "retry_attempt": retry.attempt, "last_error": retry.last_error, "failure_id": retry.failure_id,
        });
        log.record(ctx, Draft::of(Kind::AgentAssigned, SYSTEM, payload));
    }
    Ok(())
}

/// Assigns an agent in the role it was appointed to (RFC-0013), within that operation; returns its previous
/// role.
///
/// # Errors
/// A database error.
pub async fn take_up(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    agent_id: &str,
    role: &str,
    by: Assigner<'_>,
    more: Value,
) -> Outcome<Option<String>> {
    let now = log.now();
    let before = role_of(conn, log.intent_id, agent_id).await?;
    let assignment = Assignment {
        id: AssignmentId::mint(now, &*ctx.chance),
        intent_id: log.intent_id,
        agent_id: agent_id.to_owned(),
        role: role.to_owned(),
        assigned_at: now,
        delegated_by: by.delegates_to(agent_id).map(str::to_owned),
    };
    let assignment = save(conn, assignment, by.agent, log.next_seq()).await?;
    log.record(ctx, event_draft(&assignment, by.agent, more));
    Ok(before)
}

/// An appointment that ends (RFC-0013): the agent, its role, and the role of its assignment before.
#[derive(Debug, Clone, Copy)]
pub struct Appointment<'a> {
    /// The agent.
    pub agent_id: &'a str,
    /// The role that the agent was appointed to.
    pub role: &'a str,
    /// The agent's role before; `None` if it was not assigned.
    pub role_before: Option<&'a str>,
}

/// Undoes such an assignment within the operation that ends the appointment: restores the previous role,
/// unless it was changed since.
///
/// # Errors
/// A database error.
pub async fn lay_down(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    over: Appointment<'_>,
    by: &str,
    more: Value,
) -> Outcome<()> {
    let Appointment { agent_id, role, role_before: before } = over;
    let now = role_of(conn, log.intent_id, agent_id).await?;
    if now.as_deref() != Some(role) || before == Some(role) {
        return Ok(());
    }
    let Some(before) = before else {
        delete(conn, log.intent_id, agent_id).await?;
        let mut payload = json!({ "agent_id": agent_id });
        extend(&mut payload, more);
        log.record(ctx, Draft::of(Kind::AgentUnassigned, by, payload));
        return Ok(());
    };
    let assignment = Assignment {
        id: AssignmentId::mint(log.now(), &*ctx.chance),
        intent_id: log.intent_id,
        agent_id: agent_id.to_owned(),
        role: before.to_owned(),
        assigned_at: log.now(),
        // The agent gets its former role back; nobody hands the intent on to it.
        delegated_by: None,
    };
    let assignment = save(conn, assignment, by, log.next_seq()).await?;
    log.record(ctx, event_draft(&assignment, by, more));
    Ok(())
}

fn extend(payload: &mut Value, more: Value) {
    if let (Value::Object(payload), Value::Object(more)) = (payload, more) {
        payload.extend(more);
    }
}

/// Builds the event of an assignment; by `delegated_by` the SDK's agents choose between `on_handoff` and
/// `on_assignment` (OI-11.5.2).
fn event_draft(assignment: &Assignment, by: &str, more: Value) -> Draft {
    let mut payload = json!({
        "id": assignment.id, "agent_id": assignment.agent_id, "role": assignment.role,
        "assigned_at": entente_domain::clock::rfc3339(assignment.assigned_at),
        "delegated_by": assignment.delegated_by,
    });
    extend(&mut payload, more);
    Draft::of(Kind::AgentAssigned, by, payload)
}

async fn role_of(conn: &mut PgConnection, intent_id: IntentId, agent_id: &str) -> Outcome<Option<String>> {
    let role = sqlx::query_scalar!(
        "-- assignments::role_of
         SELECT role FROM assignments WHERE intent_id = $1 AND agent_id = $2",
        intent_id.uuid(),
        agent_id
    )
    .fetch_optional(conn)
    .await?;
    Ok(role)
}

/// Deletes an assignment; returns whether there was one.
async fn delete(conn: &mut PgConnection, intent_id: IntentId, agent_id: &str) -> Outcome<bool> {
    let gone = sqlx::query!(
        "-- assignments::delete
         DELETE FROM assignments WHERE intent_id = $1 AND agent_id = $2",
        intent_id.uuid(),
        agent_id
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected() > 0)
}

async fn load(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<Assignment>> {
    let rows = sqlx::query_as!(
        Assignment,
        "-- assignments::load
         SELECT id, intent_id, agent_id, role, assigned_at, delegated_by FROM assignments
         WHERE intent_id = $1 ORDER BY id",
        intent_id.uuid()
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// The event that announced an assignment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Announced {
    /// The intent.
    pub intent_id: IntentId,
    /// Number of the event in the intent's log.
    pub seq: i64,
    /// Time of the assignment.
    pub assigned_at: Timestamp,
    /// Whether the beginning of the stream tells it: the intent is neither completed nor abandoned, and the event does
    /// not come with the log.
    pub is_told: bool,
}

impl Announced {
    /// The order of an agent's assignments: oldest first.
    pub fn key(&self) -> (Timestamp, IntentId) {
        (self.assigned_at, self.intent_id)
    }
}

/// Returns the events that announced an agent's assignments: up to `limit` after the last one `shown` by a stream that
/// continues with the log at `start`, the oldest first.
///
/// Those that it does not tell are included, and say how far the agent's assignments were read: an agent has ever more of
/// them, and one statement that skipped them all would take ever longer.
///
/// # Errors
/// A database error.
pub(crate) async fn announced(
    conn: &mut PgConnection,
    agent: &str,
    shown: (Timestamp, IntentId),
    start: GlobalPosition,
    limit: i64,
) -> Outcome<Vec<Announced>> {
    let (at, intent) = shown;
    let rows = sqlx::query!(
        r#"-- assignments::announced
         SELECT s.intent_id, s.seq, s.assigned_at, i.status NOT IN ('completed', 'abandoned') AS "is_open!",
                (SELECT o.global FROM log_order o WHERE o.intent_id = s.intent_id AND o.to_seq >= s.seq
                 ORDER BY o.to_seq LIMIT 1) AS global
         FROM (SELECT intent_id, seq, assigned_at FROM assignments
               WHERE agent_id = $1 AND (assigned_at, intent_id) > ($2, $3)
               ORDER BY assigned_at, intent_id LIMIT $4) s JOIN intents i ON i.id = s.intent_id
         ORDER BY s.assigned_at, s.intent_id"#,
        agent,
        at,
        intent.uuid(),
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let place = GlobalPosition::stored(row.global, Some(row.seq));
            Announced {
                intent_id: row.intent_id.into(),
                seq: row.seq,
                assigned_at: row.assigned_at,
                is_told: row.is_open && place.is_some_and(|place| place <= start),
            }
        })
        .collect())
}

/// Translates the last assignment that was shown from the form before, in which assignments came in the order of
/// transactions: none that comes later in that order is left out.
///
/// # Errors
/// A database error.
pub(crate) async fn translate(
    conn: &mut PgConnection,
    agent: &str,
    shown: FormerPosition,
) -> Outcome<(Timestamp, IntentId)> {
    let row = sqlx::query!(
        "-- assignments::translate
         SELECT a.assigned_at, a.intent_id FROM assignments a
         LEFT JOIN (SELECT assigned_at, intent_id FROM assignments
                    WHERE agent_id = $1 AND (xid, intent_id, seq) > ($2, $3, $4)
                    ORDER BY assigned_at, intent_id LIMIT 1) n ON true
         WHERE a.agent_id = $1 AND (n.intent_id IS NULL OR (a.assigned_at, a.intent_id) < (n.assigned_at, n.intent_id))
         ORDER BY a.assigned_at DESC, a.intent_id DESC LIMIT 1",
        agent,
        shown.xid,
        shown.intent_id.uuid(),
        shown.seq
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map_or((Timestamp::UNIX_EPOCH, IntentId::SYSTEM), |row| (row.assigned_at, row.intent_id.into())))
}

/// Inserts an assignment, or updates the agent's existing one, which keeps its id. `seq` is the number of the event
/// that the caller records next: streams show that event to an agent that opens its stream later.
///
/// # Errors
/// A database error.
pub async fn save(
    conn: &mut PgConnection,
    assignment: Assignment,
    by: &str,
    seq: i64,
) -> Outcome<Assignment> {
    let saved = sqlx::query_as!(
        Assignment,
        "-- assignments::save
         INSERT INTO assignments (id, intent_id, agent_id, role, assigned_by, assigned_at, delegated_by, seq)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT ON CONSTRAINT assignments_once
         DO UPDATE SET role = excluded.role, assigned_by = excluded.assigned_by, assigned_at = excluded.assigned_at,
             delegated_by = excluded.delegated_by, seq = excluded.seq, xid = excluded.xid
         RETURNING id, intent_id, agent_id, role, assigned_at, delegated_by",
        assignment.id.uuid(),
        assignment.intent_id.uuid(),
        assignment.agent_id,
        assignment.role,
        by,
        assignment.assigned_at,
        assignment.delegated_by,
        seq
    )
    .fetch_one(conn)
    .await?;
    Ok(saved)
}
