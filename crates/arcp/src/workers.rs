//! Workers: the processes that run jobs (ARCP-W-11.2.2). Table `workers`. Claims are in `jobs/claims.rs`.

use std::collections::BTreeMap;

use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::WorkerId;
use entente_domain::limits::{LIST_ITEMS, METADATA_BYTES, NAME_BYTES};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller, Outcome, not_found, unknown};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Ctx;
use crate::inventory;

/// Maximum number of jobs that one worker may hold at once.
pub(crate) const SLOTS: i64 = 10_000;

/// Seconds of silence after which a worker is deleted; its jobs were lost long before.
const FORGOTTEN_AFTER_SECONDS: f64 = 24.0 * 3600.0;

/// Directive for a worker, returned with its heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Directive {
    /// Continue.
    Run,
    /// Claim no more jobs.
    Quiet,
    /// Stop: finish or release the held jobs.
    Terminate,
}

impl Directive {
    fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Quiet => "quiet",
            Self::Terminate => "terminate",
        }
    }

    pub(crate) fn parse(word: &str) -> Outcome<Self> {
        let all = [Self::Run, Self::Quiet, Self::Terminate];
        all.into_iter().find(|known| known.as_str() == word).ok_or_else(|| unknown("directive", word))
    }
}

/// A registered worker.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Its id.
    pub id: WorkerId,
    /// Its name, for people.
    pub name: String,
    /// Principal that registered it.
    pub principal: String,
    /// Agents that it runs jobs of, as `name@version`.
    pub agents: Vec<String>,
    /// Maximum number of jobs that it holds at once.
    pub slots: u32,
    /// Labels for people: a JSON object.
    pub labels: String,
    /// Its current directive.
    pub directive: Directive,
    /// The state that it last reported.
    pub state: String,
    /// Time of its registration.
    pub registered_at: Timestamp,
    /// Time of its last request.
    pub last_seen_at: Timestamp,
}

/// Request to register a worker.
#[derive(Debug, Clone)]
pub struct WorkerAsk {
    /// Its name.
    pub name: String,
    /// Agents that it runs jobs of: `name@version`, or `name` for all registered versions.
    pub agents: Vec<String>,
    /// Maximum number of jobs that it holds at once.
    pub slots: i64,
    /// Labels for people: a JSON object.
    pub labels: String,
}

struct Row {
    id: Uuid,
    name: String,
    principal: String,
    agents: Vec<String>,
    slots: i32,
    labels: String,
    directive: String,
    state: String,
    registered_at: Timestamp,
    last_seen_at: Timestamp,
}

impl TryFrom<Row> for Worker {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            name: row.name,
            principal: row.principal,
            agents: row.agents,
            slots: u32::try_from(row.slots).unwrap_or_default(),
            labels: row.labels,
            directive: Directive::parse(&row.directive)?,
            state: row.state,
            registered_at: row.registered_at,
            last_seen_at: row.last_seen_at,
        })
    }
}

/// Registers a worker.
///
/// # Errors
/// Fails if the request is malformed, or if it names an agent that is not registered or belongs to another
/// principal.
pub async fn register(ctx: &Ctx, caller: &Caller, ask: WorkerAsk) -> Outcome<Worker> {
    caller.require(Scope::JobsWork)?;
    let wrong = |member: &str, what: &str| {
        Refusal::field(Code::InvalidRequest, member, "value", format!("`{member}` {what}."))
    };
    if ask.name.is_empty() || ask.name.len() > NAME_BYTES || ask.name.chars().any(char::is_control) {
        return Err(wrong("name", "must have 1 to 200 bytes").into());
    }
    if ask.agents.is_empty() || ask.agents.len() > LIST_ITEMS {
        return Err(wrong("agents", "must name 1 to 200 agents").into());
    }
    if !(1..=SLOTS).contains(&ask.slots) {
        return Err(wrong("slots", &format!("must be a number from 1 to {SLOTS}")).into());
    }
    if ask.labels.len() > METADATA_BYTES {
        return Err(wrong("labels", "has more than 16 KiB").into());
    }
    let mut conn = ctx.pool.writing().await?;
    let agents = taken(&mut conn, caller, &ask.agents).await?;
    let now = ctx.now();
    let worker = Worker {
        id: WorkerId::mint(now, &*ctx.chance),
        name: ask.name,
        principal: caller.agent.clone(),
        agents,
        slots: u32::try_from(ask.slots).unwrap_or(1),
        labels: ask.labels,
        directive: Directive::Run,
        state: "running".to_owned(),
        registered_at: now,
        last_seen_at: now,
    };
    sqlx::query!(
        "-- workers::register
         INSERT INTO workers (id, name, principal, agents, slots, labels, directive, state, registered_at, last_seen_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)",
        worker.id.uuid(),
        worker.name,
        worker.principal,
        &worker.agents,
        i32::try_from(worker.slots).unwrap_or(i32::MAX),
        worker.labels,
        worker.directive.as_str(),
        worker.state,
        now
    )
    .execute(&mut *conn)
    .await?;
    conn.done().await?;
    Ok(worker)
}

/// Resolves the agents of a worker to versions, all of which the caller may run.
async fn taken(conn: &mut PgConnection, caller: &Caller, said: &[String]) -> Outcome<Vec<String>> {
    let named = said.iter().map(|text| {
        AgentRef::parse(text).ok_or_else(|| {
            let message =
                format!("`{text}` is no agent: use `name@version`, or `name` for all of its versions.");
            Refusal::field(Code::InvalidRequest, "agents", "pattern", message)
        })
    });
    let named: Vec<AgentRef> = named.collect::<Result<_, _>>()?;
    let names: Vec<&str> = named.iter().map(|agent| agent.name.as_str()).collect();
    let known = inventory::known(conn, &names).await?;
    let mut agents = Vec::new();
    for asked in &named {
        let missing = |code| {
            let message = format!(
                "`{asked}` is not registered. Register it first: PUT /api/v1/arcp/agents/{}/versions/…",
                asked.name
            );
            Refusal::new(code, message)
        };
        let agent = known.get(&asked.name).ok_or_else(|| missing(Code::AgentNotAvailable))?;
        inventory::require_owner(caller, &asked.name, agent)?;
        match &asked.version {
            Some(version) if agent.versions.registered.contains(version) => agents.push(asked.to_string()),
            Some(_) => return Err(missing(Code::AgentVersionNotAvailable).into()),
            None => {
                agents.extend(
                    agent.versions.registered.iter().map(|version| format!("{}@{version}", asked.name)),
                );
            }
        }
    }
    agents.sort_unstable();
    agents.dedup();
    Ok(agents)
}

/// Loads a worker of the caller.
///
/// # Errors
/// Fails if the worker does not exist or belongs to another principal.
pub(crate) async fn mine(conn: &mut PgConnection, caller: &Caller, id: WorkerId) -> Outcome<Worker> {
    caller.require(Scope::JobsWork)?;
    let row = sqlx::query_as!(
        Row,
        "-- workers::mine
         SELECT id, name, principal, agents, slots, labels, directive, state, registered_at, last_seen_at
         FROM workers WHERE id = $1",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    let worker = row.map(Worker::try_from).transpose()?;
    worker.filter(|worker| worker.principal == caller.agent).ok_or_else(|| not_found("worker"))
}

/// A worker, as the observers of its job see it.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    /// Its name.
    pub name: String,
    /// Principal that registered it.
    pub principal: String,
    /// Time of its last sign of life.
    pub last_seen_at: Timestamp,
}

/// Returns those of these workers that exist, as observers see them.
pub(crate) async fn named(conn: &mut PgConnection, ids: &[WorkerId]) -> Outcome<BTreeMap<WorkerId, Named>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        "-- workers::named
         SELECT id, name, principal, last_seen_at FROM workers WHERE id = ANY($1)",
        &ids
    )
    .fetch_all(conn)
    .await?;
    let named = rows.into_iter().map(|row| {
        let (name, principal, last_seen_at) = (row.name, row.principal, row.last_seen_at);
        (row.id.into(), Named { name, principal, last_seen_at })
    });
    Ok(named.collect())
}

/// Lists the caller's workers, or with the scope `admin` all workers; most recently seen first.
///
/// # Errors
/// Fails if the scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, limit: u32) -> Outcome<Vec<Worker>> {
    let all = caller.has(Scope::Admin);
    if !all {
        caller.require(Scope::JobsWork)?;
    }
    let rows = sqlx::query_as!(
        Row,
        "-- workers::list
         SELECT id, name, principal, agents, slots, labels, directive, state, registered_at, last_seen_at
         FROM workers WHERE $1 OR principal = $2 ORDER BY last_seen_at DESC LIMIT $3",
        all,
        caller.agent,
        i64::from(limit)
    )
    .fetch_all(&ctx.pool)
    .await?;
    rows.into_iter().map(Worker::try_from).collect()
}

/// Sets a worker's directive, which its next heartbeat returns.
///
/// # Errors
/// Fails if the worker does not exist, or if it belongs to another principal and the scope `admin` is
/// missing.
pub async fn direct(ctx: &Ctx, caller: &Caller, id: WorkerId, directive: Directive) -> Outcome<Worker> {
    let all = caller.has(Scope::Admin);
    if !all {
        caller.require(Scope::JobsWork)?;
    }
    let row = sqlx::query_as!(
        Row,
        "-- workers::direct
         UPDATE workers SET directive = $4 WHERE id = $1 AND ($2 OR principal = $3)
         RETURNING id, name, principal, agents, slots, labels, directive, state, registered_at, last_seen_at",
        id.uuid(),
        all,
        caller.agent,
        directive.as_str()
    )
    .fetch_optional(&ctx.pool)
    .await?;
    let worker = row.map(Worker::try_from).transpose()?.ok_or_else(|| not_found("worker"))?;
    ctx.feed.wake(WakeKey::Worker(id));
    Ok(worker)
}

/// Records a sign of life of a worker, with its reported state; returns its directive.
pub(crate) async fn seen(
    conn: &mut PgConnection,
    caller: &Caller,
    id: WorkerId,
    state: Option<&str>,
    now: Timestamp,
) -> Outcome<Directive> {
    let word = sqlx::query_scalar!(
        "-- workers::seen
         UPDATE workers SET last_seen_at = $4, state = coalesce($3, state) WHERE id = $1 AND principal = $2 RETURNING directive",
        id.uuid(),
        caller.agent,
        state,
        now
    )
    .fetch_optional(conn)
    .await?;
    Directive::parse(&word.ok_or_else(|| not_found("worker"))?)
}

/// Deletes a worker that leaves.
pub(crate) async fn forget(conn: &mut PgConnection, id: WorkerId) -> Outcome<()> {
    sqlx::query!("-- workers::forget\n DELETE FROM workers WHERE id = $1", id.uuid()).execute(conn).await?;
    Ok(())
}

/// Deletes workers that have been silent for a day.
///
/// # Errors
/// Returns database errors.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- workers::tidy
         DELETE FROM workers WHERE id IN (
             SELECT id FROM workers WHERE last_seen_at < $1::timestamptz - make_interval(secs => $3::double precision)
             ORDER BY last_seen_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        ctx.now(),
        limit,
        FORGOTTEN_AFTER_SECONDS
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}
