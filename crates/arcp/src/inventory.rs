//! Inventory of agent versions that run jobs (ARCP §7.5). Table `agent_versions`. Workers are in
//! `workers.rs`, the directory of agents (RFC-0016) in `crates/openintent/src/agents.rs`; an agent may be in both.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::arcp::jobs::OnLost;
use entente_domain::arcp::jobs::ask::RUNTIME_SECONDS;
use entente_domain::arcp::jobs::retries::RetryPolicy;
use entente_domain::arcp::versions::{Versions, is_name, is_version};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, IntentTx, Outcome};
use serde_json::json;
use sqlx::PgConnection;

use crate::Ctx;
use crate::columns::{column, number, on_lost};

/// Default limit of lost workers per job.
const ATTEMPTS: u32 = 5;
/// Largest accepted limit of lost workers per job.
const ATTEMPTS_MOST: u32 = 100;

/// Terms under which a version runs jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Whether a job without `model.use` is denied all models.
    pub needs_model: bool,
    /// Maximum run time of a job in seconds.
    pub max_runtime: Option<u32>,
    /// Handling of a job that has lost its worker.
    pub on_lost: OnLost,
    /// Maximum number of workers lost over one job.
    pub max_attempts: u32,
    /// Retries after failures that workers report, unless the job has its own.
    pub retry: Option<RetryPolicy>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            needs_model: false,
            max_runtime: None,
            on_lost: OnLost::Requeue,
            max_attempts: ATTEMPTS,
            retry: None,
        }
    }
}

/// An agent of the inventory.
#[derive(Debug, Clone)]
pub struct Known {
    /// Agent that owns the name.
    pub owner: String,
    /// Registered versions.
    pub versions: Versions,
    /// Terms by version.
    pub terms: BTreeMap<String, Terms>,
    /// Versions whose queues accept no jobs (`queues.rs`).
    pub draining: BTreeSet<String>,
}

/// Registration of a version; absent members keep their current values.
#[derive(Debug, Clone, Default)]
pub struct VersionAsk {
    /// Whether a bare agent name means this version.
    pub default: Option<bool>,
    /// See [`Terms::needs_model`].
    pub requires_model_use: Option<bool>,
    /// See [`Terms::max_runtime`].
    pub max_runtime_sec: Option<i64>,
    /// See [`Terms::on_lost`].
    pub on_lost: Option<OnLost>,
    /// See [`Terms::max_attempts`].
    pub max_attempts: Option<i64>,
    /// See [`Terms::retry`].
    pub retry: Option<RetryPolicy>,
}

struct Row {
    name: String,
    version: String,
    owner: String,
    is_default: bool,
    needs_model: bool,
    max_runtime: Option<i32>,
    on_lost: String,
    max_attempts: i32,
    retry: Option<String>,
    drains: bool,
}

fn gather(rows: Vec<Row>) -> Outcome<BTreeMap<String, Known>> {
    let mut agents: BTreeMap<String, Known> = BTreeMap::new();
    for row in rows {
        let agent = agents.entry(row.name).or_insert_with(|| Known {
            owner: row.owner,
            versions: Versions { registered: Vec::new(), default: None },
            terms: BTreeMap::new(),
            draining: BTreeSet::new(),
        });
        if row.is_default {
            agent.versions.default = Some(row.version.clone());
        }
        let terms = Terms {
            needs_model: row.needs_model,
            max_runtime: row.max_runtime.map(number).transpose()?,
            on_lost: on_lost(&row.on_lost)?,
            max_attempts: number(row.max_attempts)?,
            retry: row.retry.as_deref().map(serde_json::from_str).transpose()?,
        };
        if row.drains {
            agent.draining.insert(row.version.clone());
        }
        agent.terms.insert(row.version.clone(), terms);
        agent.versions.registered.push(row.version);
    }
    Ok(agents)
}

/// Loads these agents; unknown names are left out.
pub(crate) async fn known(conn: &mut PgConnection, names: &[&str]) -> Outcome<BTreeMap<String, Known>> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- inventory::known
         SELECT name, version, owner, is_default, needs_model, max_runtime, on_lost, max_attempts, retry,
                EXISTS (SELECT 1 FROM job_queues q
                        WHERE q.agent IN (v.name, v.name || '@' || v.version) AND NOT q.accepts) AS "drains!"
         FROM agent_versions v WHERE name = ANY($1) ORDER BY name, registered_at, version"#,
        names as &[&str]
    )
    .fetch_all(conn)
    .await?;
    gather(rows)
}

/// Lists every agent, for callers that may submit or run jobs.
///
/// # Errors
/// The caller lacks the scope; the database query fails.
pub async fn list(ctx: &Ctx, caller: &Caller) -> Outcome<BTreeMap<String, Known>> {
    if !caller.has(Scope::JobsWork) {
        caller.require(Scope::JobsRead)?;
    }
    let rows = sqlx::query_as!(
        Row,
        "-- inventory::list
         SELECT name, version, owner, is_default, needs_model, max_runtime, on_lost, max_attempts, retry, false AS \"drains!\"
         FROM agent_versions ORDER BY name, registered_at, version"
    )
    .fetch_all(&ctx.pool)
    .await?;
    gather(rows)
}

/// Returns an agent; `None` if none of its versions is registered.
///
/// # Errors
/// The database query fails.
pub async fn find(ctx: &Ctx, name: &str) -> Outcome<Option<Known>> {
    Ok(known(&mut *ctx.pool.acquire().await?, &[name]).await?.remove(name))
}

/// Requires that the caller owns an agent's name or may act as its owner.
///
/// # Errors
/// [`Code::PermissionDenied`].
pub(crate) fn require_owner(caller: &Caller, name: &str, agent: &Known) -> Result<(), Refusal> {
    let key = &caller.grant.key;
    if agent.owner == caller.agent || key.may_act_as(&agent.owner) || caller.has(Scope::Admin) {
        return Ok(());
    }
    let message =
        format!("The agent `{name}` is another principal's. Use a key that may act as it, or another name.");
    Err(Refusal::new(Code::PermissionDenied, message))
}

/// Registers a version or changes its terms; absent members keep their values.
///
/// The first version of a name makes the caller its owner, and is the default until another becomes it.
///
/// # Errors
/// The name belongs to another principal; the name, version or terms are invalid.
pub async fn register(
    ctx: &Ctx,
    caller: &Caller,
    name: &str,
    version: &str,
    ask: VersionAsk,
) -> Outcome<Known> {
    caller.require(Scope::JobsWork)?;
    check(name, version)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let before = known(work.conn(), &[name]).await?.remove(name);
    if let Some(agent) = &before {
        require_owner(caller, name, agent)?;
    }
    let old = before.as_ref().and_then(|agent| agent.terms.get(version));
    let terms = terms(&ask, old)?;
    let default = before.as_ref().and_then(|agent| agent.versions.default.as_deref());
    let is_default = ask.default.unwrap_or(default.is_none_or(|known| known == version));
    if old == Some(&terms) && is_default == (default == Some(version)) {
        return before.ok_or_else(|| entente_kernel::not_found("agent"));
    }
    let owner = before.as_ref().map_or(caller.agent.as_str(), |agent| agent.owner.as_str());
    let now = work.now();
    if is_default {
        undo_default(work.conn(), name).await?;
    }
    save(work.conn(), name, version, owner, is_default, &terms, now).await?;
    let payload = json!({
        "agent": format!("{name}@{version}"), "owner": owner, "default": is_default, "on_lost": terms.on_lost,
        "max_attempts": terms.max_attempts, "max_runtime_sec": terms.max_runtime, "requires_model_use": terms.needs_model,
        "retry": terms.retry,
    });
    work.record(Draft::of(Kind::VersionRegistered, &caller.agent, payload));
    let after = known(work.conn(), &[name]).await?.remove(name);
    work.commit().await?;
    after.ok_or_else(|| entente_kernel::not_found("agent"))
}

fn check(name: &str, version: &str) -> Result<(), Refusal> {
    if !is_name(name) {
        let message = "An agent's name is small letters, digits, `.`, `_` and `-`, and begins with a letter or a digit.";
        return Err(Refusal::field(Code::InvalidRequest, "name", "pattern", message));
    }
    if !is_version(version) {
        let message = "A version is letters, digits, `.`, `+`, `_` and `-`.";
        return Err(Refusal::field(Code::InvalidRequest, "version", "pattern", message));
    }
    Ok(())
}

fn terms(ask: &VersionAsk, old: Option<&Terms>) -> Result<Terms, Refusal> {
    let old = old.cloned().unwrap_or_default();
    let within = |member: &str, said: i64, most: u32| {
        let lawful = u32::try_from(said).ok().filter(|said| (1..=most).contains(said));
        let message = format!("`{member}` must be a number from 1 to {most}.");
        lawful.ok_or_else(|| Refusal::field(Code::InvalidRequest, member, "range", message))
    };
    let runtime =
        ask.max_runtime_sec.map(|said| within("max_runtime_sec", said, RUNTIME_SECONDS)).transpose()?;
    let attempts = ask.max_attempts.map(|said| within("max_attempts", said, ATTEMPTS_MOST)).transpose()?;
    ask.retry.as_ref().map_or(Ok(()), RetryPolicy::check)?;
    Ok(Terms {
        needs_model: ask.requires_model_use.unwrap_or(old.needs_model),
        max_runtime: runtime.or(old.max_runtime),
        on_lost: ask.on_lost.unwrap_or(old.on_lost),
        max_attempts: attempts.unwrap_or(old.max_attempts),
        retry: ask.retry.clone().or(old.retry),
    })
}

async fn undo_default(conn: &mut PgConnection, name: &str) -> Outcome<()> {
    sqlx::query!(
        "-- inventory::undo_default\n UPDATE agent_versions SET is_default = false WHERE name = $1",
        name
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn save(
    conn: &mut PgConnection,
    name: &str,
    version: &str,
    owner: &str,
    is_default: bool,
    terms: &Terms,
    now: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- inventory::save
         INSERT INTO agent_versions (name, version, owner, is_default, needs_model, max_runtime, on_lost, max_attempts,
             registered_at, retry)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (name, version) DO UPDATE SET is_default = excluded.is_default, needs_model = excluded.needs_model,
             max_runtime = excluded.max_runtime, on_lost = excluded.on_lost, max_attempts = excluded.max_attempts,
             retry = excluded.retry",
        name,
        version,
        owner,
        is_default,
        terms.needs_model,
        terms.max_runtime.map(column),
        terms.on_lost.as_str(),
        column(terms.max_attempts),
        now,
        terms.retry.as_ref().map(serde_json::to_string).transpose()?
    )
    .execute(conn)
    .await?;
    Ok(())
}
