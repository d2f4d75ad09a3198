//! Limits of the jobs of agents and principals (beyond ARCP). Table `job_limits`. Claims count in `jobs/claims/gates.rs`;
//! the limits of concurrency keys come with the jobs.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use entente_domain::arcp::jobs::limits::{Gate, Limits};
use entente_domain::arcp::jobs::order::Priority;
use entente_domain::arcp::versions::is_name;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::limits::NAME_BYTES;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Caller, IntentTx, Outcome, not_found};
use serde_json::json;
use sqlx::{PgConnection, PgExecutor};

use crate::Ctx;
use crate::inventory;

/// How long after a limit was set claims from before it may still be under way.
const UNDER_WAY_SECONDS: i64 = 30;

/// Jobs that a limit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// Those of an agent, of all its versions.
    Agent,
    /// Those that a principal submitted.
    Principal,
}

impl LimitScope {
    /// Returns the stored form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Principal => "principal",
        }
    }

    fn gate(self, name: &str) -> Gate {
        match self {
            Self::Agent => Gate::Agent(name.to_owned()),
            Self::Principal => Gate::Principal(name.to_owned()),
        }
    }
}

/// A limit that is set.
#[derive(Debug, Clone)]
pub struct JobLimit {
    /// `agent` or `principal`.
    pub scope: String,
    /// The agent or principal.
    pub name: String,
    /// The limits.
    pub limits: Limits,
    /// Number of jobs that run now and are counted.
    pub running: i64,
    /// Who set it.
    pub set_by: String,
    /// When.
    pub set_at: Timestamp,
}

/// Requires the scope to set a limit.
fn require_scope(caller: &Caller, scope: LimitScope) -> Result<(), Refusal> {
    match scope {
        LimitScope::Agent if !caller.has(Scope::Admin) => caller.require(Scope::JobsWork),
        LimitScope::Agent => Ok(()),
        LimitScope::Principal => caller.require(Scope::Admin),
    }
}

/// Requires that the agent is the caller's, or that the caller is an operator.
async fn require(conn: &mut PgConnection, caller: &Caller, scope: LimitScope, name: &str) -> Outcome<()> {
    match scope {
        LimitScope::Agent => {
            let known = inventory::known(conn, &[name]).await?;
            let agent = known.get(name).ok_or_else(|| not_found("agent"))?;
            Ok(inventory::require_owner(caller, name, agent)?)
        }
        LimitScope::Principal => Ok(()),
    }
}

fn check_name(scope: LimitScope, name: &str) -> Result<(), Refusal> {
    let lawful = match scope {
        LimitScope::Agent => is_name(name),
        LimitScope::Principal => {
            !name.is_empty() && name.len() <= NAME_BYTES && !name.chars().any(char::is_control)
        }
    };
    if lawful {
        return Ok(());
    }
    let message = "This is no name of an agent that runs jobs, without a version, or of a principal.";
    Err(Refusal::field(Code::InvalidRequest, "name", "pattern", message))
}

/// Sets the limits of an agent's or a principal's jobs, in place of earlier ones. Jobs that run count, and go on.
///
/// # Errors
/// The caller may not; the limits are out of their bounds; there is no such agent.
pub async fn set(ctx: &Ctx, caller: &Caller, scope: LimitScope, name: &str, limits: Limits) -> Outcome<()> {
    require_scope(caller, scope)?;
    check_name(scope, name)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    require(work.conn(), caller, scope, name).await?;
    limits.check("")?;
    if scope == LimitScope::Agent && limits.max_priority.is_some() {
        let message =
            "`max_priority` limits what a principal may ask for. Set it at /arcp/limits/principals/{name}.";
        return Err(Refusal::field(Code::InvalidRequest, "max_priority", "unknown", message).into());
    }
    let now = work.now();
    let column = |said: Option<i64>| said.and_then(|said| i32::try_from(said).ok());
    sqlx::query!(
        "-- job_limits::set
         INSERT INTO job_limits (scope, name, max_running, max_starts, per_sec, max_priority, set_by, set_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (scope, name) DO UPDATE SET max_running = excluded.max_running, max_starts = excluded.max_starts,
             per_sec = excluded.per_sec, max_priority = excluded.max_priority, set_by = excluded.set_by,
             set_at = excluded.set_at, counted_at = NULL",
        scope.as_str(),
        name,
        column(limits.max_running),
        column(limits.max_starts),
        column(limits.per_sec),
        limits.max_priority.and_then(|said| i16::try_from(said).ok()),
        caller.agent,
        now
    )
    .execute(work.conn())
    .await?;
    let payload = json!({ "scope": scope.as_str(), "name": name, "limits": limits });
    work.record(Draft::of(Kind::JobLimitsSet, &caller.agent, payload));
    work.commit().await?;
    wake(ctx, scope, name).await
}

/// Removes the limits of an agent's or a principal's jobs.
///
/// # Errors
/// The caller may not; there are none.
pub async fn remove(ctx: &Ctx, caller: &Caller, scope: LimitScope, name: &str) -> Outcome<()> {
    require_scope(caller, scope)?;
    check_name(scope, name)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    require(work.conn(), caller, scope, name).await?;
    let done = sqlx::query!(
        "-- job_limits::remove\n DELETE FROM job_limits WHERE scope = $1 AND name = $2",
        scope.as_str(),
        name
    )
    .execute(work.conn())
    .await?;
    if done.rows_affected() == 0 {
        return Err(not_found("limit"));
    }
    let payload = json!({ "scope": scope.as_str(), "name": name, "limits": null });
    work.record(Draft::of(Kind::JobLimitsSet, &caller.agent, payload));
    work.commit().await?;
    wake(ctx, scope, name).await
}

/// Wakes workers that may claim more now. Those that a principal's limit held back look by themselves soon.
async fn wake(ctx: &Ctx, scope: LimitScope, name: &str) -> Outcome<()> {
    if scope == LimitScope::Agent {
        let known = inventory::known(&mut *ctx.pool.acquire().await?, &[name]).await?;
        for version in known.get(name).into_iter().flat_map(|agent| &agent.versions.registered) {
            ctx.feed.wake(WakeKey::Work(format!("{name}@{version}")));
        }
    }
    Ok(())
}

/// Lists limits: with the scope `admin` all; otherwise those of the caller's agents, and its own.
///
/// # Errors
/// The caller may neither submit nor run jobs.
pub async fn list(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<JobLimit>> {
    let all = caller.has(Scope::Admin);
    if !all && !caller.has(Scope::JobsWork) {
        caller.require(Scope::JobsRead)?;
    }
    let rows = sqlx::query!(
        r#"-- job_limits::list
         SELECT l.scope, l.name, l.max_running, l.max_starts, l.per_sec, l.max_priority, l.set_by, l.set_at,
             (SELECT count(DISTINCT s.job_id) FROM job_slots s JOIN job_clock c ON c.job_id = s.job_id
              WHERE s.gate = l.scope || E'\n' || l.name AND c.status = 'running') AS "running!"
         FROM job_limits l
         WHERE $1 OR l.scope = 'principal' AND l.name = $2
            OR l.scope = 'agent' AND EXISTS (SELECT 1 FROM agent_versions v WHERE v.name = l.name AND v.owner = $2)
         ORDER BY l.scope, l.name"#,
        all,
        caller.agent
    )
    .fetch_all(&ctx.pool)
    .await?;
    let found = rows.into_iter().map(|row| JobLimit {
        scope: row.scope,
        name: row.name,
        limits: Limits {
            max_priority: row.max_priority.map(i64::from),
            ..limits(row.max_running, row.max_starts, row.per_sec)
        },
        running: row.running,
        set_by: row.set_by,
        set_at: row.set_at,
    });
    Ok(found.collect())
}

fn limits(max_running: Option<i32>, max_starts: Option<i32>, per_sec: Option<i32>) -> Limits {
    Limits {
        max_running: max_running.map(i64::from),
        max_starts: max_starts.map(i64::from),
        per_sec: per_sec.map(i64::from),
        max_priority: None,
    }
}

/// Returns the highest priority that a job may have which this agent submits for the principal of a key, if one of them is
/// limited: a key that acts as others asks for no more than its own principal may.
///
/// Anybody may have normal priority or less, so a `wanted` one costs no query then. `None` is one that is not known yet.
pub(crate) async fn max_priority(
    conn: impl PgExecutor<'_>,
    wanted: Option<Priority>,
    agent: &str,
    principal: Option<&str>,
) -> Outcome<Option<Priority>> {
    if wanted.is_some_and(|wanted| wanted <= Priority::default()) {
        return Ok(None);
    }
    let names = [agent, principal.unwrap_or(agent)];
    let found = sqlx::query_scalar!(
        "-- job_limits::max_priority
         SELECT min(max_priority) FROM job_limits WHERE scope = 'principal' AND name = ANY($1)",
        &names as &[&str]
    )
    .fetch_one(conn)
    .await?;
    Ok(found.map(|most| Priority::check(i64::from(most))).transpose()?)
}

/// Limits of gates.
#[derive(Default)]
pub(crate) struct GateLimits {
    pub limits: BTreeMap<Gate, Limits>,
    /// Gates whose running jobs are to be counted, because the limit is new.
    pub uncounted: Vec<Gate>,
}

/// Returns the limits of those of these gates that have some.
pub(crate) async fn of_gates(
    conn: &mut PgConnection,
    gates: &BTreeSet<Gate>,
    now: Timestamp,
) -> Outcome<GateLimits> {
    let named: Vec<(&str, &str)> = gates
        .iter()
        .filter_map(|gate| match gate {
            Gate::Agent(name) => Some((LimitScope::Agent.as_str(), name.as_str())),
            Gate::Principal(name) => Some((LimitScope::Principal.as_str(), name.as_str())),
            Gate::Key(..) => None,
        })
        .collect();
    let mut found = GateLimits::default();
    if named.is_empty() {
        return Ok(found);
    }
    let (scopes, names): (Vec<&str>, Vec<&str>) = named.into_iter().unzip();
    let rows = sqlx::query!(
        "-- job_limits::of_gates
         SELECT l.scope, l.name, l.max_running, l.max_starts, l.per_sec, l.set_at, l.counted_at
         FROM UNNEST($1::text[], $2::text[]) AS g (scope, name) JOIN job_limits l ON l.scope = g.scope AND l.name = g.name
         WHERE l.max_running IS NOT NULL OR l.max_starts IS NOT NULL",
        &scopes as &[&str],
        &names as &[&str]
    )
    .fetch_all(conn)
    .await?;
    for row in rows {
        let scope = if row.scope == "agent" { LimitScope::Agent } else { LimitScope::Principal };
        let gate = scope.gate(&row.name);
        let settled = row.set_at + TimeDelta::seconds(UNDER_WAY_SECONDS);
        if row.counted_at.is_none_or(|at| at < settled && now > at) {
            found.uncounted.push(gate.clone());
        }
        found.limits.insert(gate, limits(row.max_running, row.max_starts, row.per_sec));
    }
    Ok(found)
}

/// Notes that the running jobs of gates were counted.
pub(crate) async fn counted(conn: &mut PgConnection, gates: &[Gate], now: Timestamp) -> Outcome<()> {
    let names = |wanted: LimitScope| {
        let named = gates.iter().filter_map(move |gate| match (gate, wanted) {
            (Gate::Agent(name), LimitScope::Agent) | (Gate::Principal(name), LimitScope::Principal) => {
                Some(name.clone())
            }
            _ => None,
        });
        named.collect::<Vec<String>>()
    };
    if gates.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- job_limits::counted
         UPDATE job_limits SET counted_at = $3
         WHERE scope = 'agent' AND name = ANY($1) OR scope = 'principal' AND name = ANY($2)",
        &names(LimitScope::Agent),
        &names(LimitScope::Principal),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}
