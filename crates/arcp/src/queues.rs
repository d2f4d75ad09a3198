//! Queues of agents: an operator or an agent's owner pauses one (it accepts jobs and gives out none) or drains it (it accepts
//! none and finishes those that it has). Table `job_queues`; an agent without a row is open.
//!
//! Claims read the table themselves (`jobs/writes.rs`), and submissions with the agent's versions (`inventory.rs`), so a change
//! holds on every server from its commit on.

use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::limits::TEXT_BYTES;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Caller, IntentTx, Outcome, not_found};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;

use crate::Ctx;
use crate::inventory::{self, Known};

/// Jobs of a queue that are counted at most, of each status and version.
pub const COUNTED: i64 = 10_000;

/// State of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = QueueState)]
pub enum State {
    /// It accepts jobs and gives them to workers.
    Open,
    /// It accepts jobs and gives out none. Jobs that run go on.
    Paused,
    /// It accepts no jobs, except children that its own jobs delegate, and gives out those that it has.
    Draining,
}

impl State {
    /// Its wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paused => "paused",
            Self::Draining => "draining",
        }
    }

    /// Whether jobs are given out, and whether they are accepted.
    fn flags(self) -> (bool, bool) {
        match self {
            Self::Open => (true, true),
            Self::Paused => (false, true),
            Self::Draining => (true, false),
        }
    }

    fn of(gives: bool, accepts: bool) -> Self {
        match (gives, accepts) {
            (true, true) => Self::Open,
            (false, _) => Self::Paused,
            (true, false) => Self::Draining,
        }
    }
}

/// The queue of an agent, or of one of its versions.
#[derive(Debug, Clone)]
pub struct Queue {
    /// The agent: `name` for all of its versions, or `name@version`.
    pub agent: String,
    /// Its state.
    pub state: State,
    /// Why, as stated with the change.
    pub reason: Option<String>,
    /// Principal that changed it last; `None` if nobody did since it was opened.
    pub changed_by: Option<String>,
    /// When it was changed last.
    pub changed_at: Option<Timestamp>,
    /// Number of its jobs that wait for a worker, or for their time; at most [`COUNTED`] of each, and of each version.
    pub pending: i64,
    /// Number of its jobs that run; at most [`COUNTED`].
    pub running: i64,
}

/// A stored queue, which is not open.
/// A queue with the numbers of its jobs; an open one has no row of its own.
struct Row {
    agent: String,
    gives: Option<bool>,
    accepts: Option<bool>,
    reason: Option<String>,
    changed_by: Option<String>,
    changed_at: Option<Timestamp>,
    pending: i64,
    running: i64,
}

impl From<Row> for Queue {
    fn from(row: Row) -> Self {
        Self {
            agent: row.agent,
            state: State::of(row.gives.unwrap_or(true), row.accepts.unwrap_or(true)),
            reason: row.reason,
            changed_by: row.changed_by,
            changed_at: row.changed_at,
            pending: row.pending,
            running: row.running,
        }
    }
}

/// Returns the queue of an agent, or of one of its versions.
///
/// # Errors
/// There is no such agent; it belongs to another principal.
pub async fn show(ctx: &Ctx, caller: &Caller, agent: &str) -> Outcome<Queue> {
    require(caller)?;
    let mut conn = ctx.pool.acquire().await?;
    let named = named(&mut conn, caller, agent).await?;
    read(&mut conn, &named).await
}

/// Returns the queues that the caller may change: of each agent, and of each version that is stopped apart; at most `limit`
/// agents. Returns also the number of further agents.
///
/// # Errors
/// A database error.
pub async fn list(ctx: &Ctx, caller: &Caller, limit: usize) -> Outcome<(Vec<Queue>, usize)> {
    if require(caller).is_err() {
        return Ok((Vec::new(), 0));
    }
    let mut agents = inventory::list(ctx, caller).await?;
    agents.retain(|_, known| caller.has(Scope::Admin) || known.owner == caller.agent);
    let others = agents.len().saturating_sub(limit);
    let mut conn = ctx.pool.acquire().await?;
    let stopped = sqlx::query_scalar!("-- job_queues::stopped\n SELECT agent FROM job_queues")
        .fetch_all(&mut *conn)
        .await?;
    let mut named = Vec::new();
    for (name, known) in agents.into_iter().take(limit) {
        let versions: Vec<String> =
            known.versions.registered.iter().map(|version| format!("{name}@{version}")).collect();
        let apart = versions.iter().filter(|version| stopped.contains(version));
        named.extend(apart.map(|one| Named { text: one.clone(), versions: vec![one.clone()] }));
        named.push(Named { text: name, versions });
    }
    Ok((load(&mut conn, &named).await?, others))
}

/// Opens, pauses or drains the queue of an agent, or of one of its versions. The system log says who did it.
///
/// # Errors
/// As [`show`]; the reason is too long.
pub async fn change(
    ctx: &Ctx,
    caller: &Caller,
    agent: &str,
    state: State,
    reason: Option<String>,
) -> Outcome<Queue> {
    require(caller)?;
    if reason.as_ref().is_some_and(|reason| reason.len() > TEXT_BYTES) {
        let message = "`reason` has more than 16 KiB.";
        return Err(Refusal::field(Code::InvalidRequest, "reason", "too_long", message).into());
    }
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let named = named(work.conn(), caller, agent).await?;
    let before = read(work.conn(), &named).await?;
    if before.state == state && (before.reason == reason || state == State::Open) {
        return Ok(before);
    }
    let now = work.now();
    save(work.conn(), &named.text, state, reason.as_deref(), &caller.agent, now).await?;
    let payload = json!({ "agent": named.text, "state": state, "before": before.state, "reason": reason });
    work.record(Draft::of(Kind::QueueChanged, &caller.agent, payload));
    let after = read(work.conn(), &named).await?;
    work.commit().await?;
    if state.flags().0 {
        named.versions.into_iter().for_each(|agent| ctx.feed.wake(WakeKey::Work(agent)));
    }
    Ok(after)
}

fn require(caller: &Caller) -> Result<(), Refusal> {
    if caller.has(Scope::Admin) { Ok(()) } else { caller.require(Scope::JobsWork) }
}

/// An agent of the inventory, or one of its versions.
struct Named {
    text: String,
    /// Its versions, as `name@version`.
    versions: Vec<String>,
}

async fn named(conn: &mut PgConnection, caller: &Caller, text: &str) -> Outcome<Named> {
    let agent = AgentRef::parse(text).ok_or_else(|| not_found("agent"))?;
    let known: Known = inventory::known(conn, &[&agent.name])
        .await?
        .remove(&agent.name)
        .ok_or_else(|| not_found("agent"))?;
    inventory::require_owner(caller, &agent.name, &known)?;
    let registered = known.versions.registered.iter();
    let wanted = registered.filter(|one| agent.version.as_ref().is_none_or(|version| version == *one));
    let versions: Vec<String> = wanted.map(|version| format!("{}@{version}", agent.name)).collect();
    if versions.is_empty() {
        return Err(not_found("agent"));
    }
    Ok(Named { text: agent.to_string(), versions })
}

async fn read(conn: &mut PgConnection, named: &Named) -> Outcome<Queue> {
    load(conn, std::slice::from_ref(named)).await?.pop().ok_or_else(|| not_found("agent"))
}

/// Reads queues with the numbers of their jobs, by name.
async fn load(conn: &mut PgConnection, named: &[Named]) -> Outcome<Vec<Queue>> {
    let pairs = named.iter().flat_map(|one| one.versions.iter().map(move |version| (&one.text, version)));
    let (queues, versions): (Vec<String>, Vec<String>) =
        pairs.map(|(queue, version)| (queue.clone(), version.clone())).unzip();
    let rows = sqlx::query_as!(
        Row,
        r#"-- job_queues::read
         WITH running AS (
             SELECT c.agent, count(*) AS count FROM (
                 SELECT agent FROM job_clock WHERE due_at IS NOT NULL AND status = 'running' AND agent = ANY($2)
                 LIMIT $4) c GROUP BY c.agent),
         delayed AS (
             SELECT d.agent, count(*) AS count FROM (
                 SELECT j.agent FROM job_clock c JOIN jobs j ON j.id = c.job_id
                 WHERE c.not_before IS NOT NULL AND j.agent = ANY($2) LIMIT $4) d GROUP BY d.agent)
         SELECT a.agent AS "agent!", q.gives AS "gives?", q.accepts AS "accepts?", q.reason, q.changed_by AS "changed_by?",
                q.changed_at AS "changed_at?", sum(w.count + coalesce(d.count, 0))::bigint AS "pending!",
                sum(coalesce(r.count, 0))::bigint AS "running!"
         FROM UNNEST($1::text[], $2::text[]) AS a (agent, version)
         CROSS JOIN LATERAL (
             SELECT count(*) AS count FROM (
                 (SELECT 1 FROM job_clock c WHERE c.agent = a.version AND c.status = 'pending' AND NOT c.parked LIMIT $3)
                 UNION ALL
                 (SELECT 1 FROM job_clock c WHERE c.agent = a.version AND c.status = 'pending' AND c.parked LIMIT $3)) p) w
         LEFT JOIN running r ON r.agent = a.version
         LEFT JOIN delayed d ON d.agent = a.version
         LEFT JOIN job_queues q ON q.agent = a.agent
         GROUP BY a.agent, q.agent ORDER BY a.agent"#,
        &queues,
        &versions,
        COUNTED,
        COUNTED.saturating_mul(i64::try_from(named.len()).unwrap_or(i64::MAX))
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Queue::from).collect())
}

async fn save(
    conn: &mut PgConnection,
    agent: &str,
    state: State,
    reason: Option<&str>,
    by: &str,
    now: Timestamp,
) -> Outcome<()> {
    let (gives, accepts) = state.flags();
    if state == State::Open {
        sqlx::query!("-- job_queues::open\n DELETE FROM job_queues WHERE agent = $1", agent)
            .execute(conn)
            .await?;
        return Ok(());
    }
    sqlx::query!(
        "-- job_queues::save
         INSERT INTO job_queues (agent, gives, accepts, reason, changed_by, changed_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (agent) DO UPDATE SET gives = $2, accepts = $3, reason = $4, changed_by = $5, changed_at = $6",
        agent,
        gives,
        accepts,
        reason,
        by,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}
