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

/// What a queue does.
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
    /// What it does.
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
struct Row {
    gives: bool,
    accepts: bool,
    reason: Option<String>,
    changed_by: String,
    changed_at: Timestamp,
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
    let row = sqlx::query_as!(
        Row,
        "-- job_queues::read
         SELECT gives, accepts, reason, changed_by, changed_at FROM job_queues WHERE agent = $1",
        named.text
    )
    .fetch_optional(&mut *conn)
    .await?;
    let counts = sqlx::query!(
        r#"-- job_queues::count
         SELECT (SELECT count(*) FROM UNNEST($1::text[]) AS a (agent) CROSS JOIN LATERAL (
                     SELECT 1 FROM job_clock c
                     WHERE c.agent = a.agent AND c.status = 'pending' AND NOT c.parked LIMIT $2) p)
              + (SELECT count(*) FROM (SELECT 1 FROM job_clock c JOIN jobs j ON j.id = c.job_id
                     WHERE c.not_before IS NOT NULL AND j.agent = ANY($1) LIMIT $2) d) AS "pending!",
                (SELECT count(*) FROM (SELECT 1 FROM job_clock c
                     WHERE c.due_at IS NOT NULL AND c.status = 'running' AND c.agent = ANY($1) LIMIT $2) r) AS "running!""#,
        &named.versions,
        COUNTED
    )
    .fetch_one(conn)
    .await?;
    let (pending, running) = (counts.pending, counts.running);
    let agent = named.text.clone();
    Ok(match row {
        None => Queue {
            agent,
            state: State::Open,
            reason: None,
            changed_by: None,
            changed_at: None,
            pending,
            running,
        },
        Some(row) => Queue {
            agent,
            state: State::of(row.gives, row.accepts),
            reason: row.reason,
            changed_by: Some(row.changed_by),
            changed_at: Some(row.changed_at),
            pending,
            running,
        },
    })
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
