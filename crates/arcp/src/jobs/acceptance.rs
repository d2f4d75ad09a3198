//! Acceptance of jobs (ARCP §7.1, §7.2): at once, as pending, even without a worker. `submit.rs` is the entry for
//! clients, `writer.rs` accepts the jobs of a batch, `delegation.rs` accepts children.

use std::collections::BTreeMap;

use entente_domain::access::Level;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ask::{JobAsk, no_job};
use entente_domain::arcp::jobs::order::Priority;
use entente_domain::arcp::jobs::wire::{Accepted, Credential};
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::arcp::versions::resolve;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, KeyId, SessionId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::channels::ChannelAsk;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::traces::Trace;
use entente_kernel::Outcome;
use entente_kernel::access::governance;
use entente_kernel::access::membership;
use entente_kernel::channels;
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::locked::LockedJobs;
use super::records::Extra;
use super::records::reruns::Rerun;
use super::writes::Fresh;
use crate::Ctx;
use crate::credentials;
use crate::inventory::{Known, Terms};

/// When to ask a drained queue again, in seconds.
const DRAIN_SECONDS: u32 = 10;

/// Origin of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// REST: the job gets a session of its own with the same event numbers.
    Rest,
    /// A session on a socket or stdio, which counts its events.
    Session(SessionId),
    /// The parent's worker (§10): the job belongs to the parent's session.
    Parent,
}

/// An accepted job.
#[derive(Debug)]
pub struct Submitted {
    /// Response to the submitter.
    pub accepted: Accepted,
    /// The job.
    pub job: Job,
    /// Whether the same request was accepted before.
    pub repeated: bool,
    /// Whether the job still waits for its credentials.
    pub(super) preparing: bool,
}

impl Submitted {
    pub(super) fn new(job: Job, repeated: bool) -> Self {
        Self { accepted: Accepted::new(&job, Vec::new()), job, repeated, preparing: false }
    }

    /// Adds the credentials shown to the submitter.
    pub(super) fn with(self, credentials: Vec<Credential>) -> Self {
        Self { accepted: Accepted { credentials, ..self.accepted }, preparing: false, ..self }
    }
}

/// A submitted job.
#[derive(Debug, Clone)]
pub(super) struct Submission {
    pub ask: JobAsk,
    /// Principal that will own the job.
    pub principal: String,
    /// Key that submits it, with its principal.
    pub key: Option<(KeyId, String)>,
    /// Trace of the request.
    pub trace: Option<Trace>,
    pub origin: Origin,
    /// The job that it runs again.
    pub rerun: Option<Rerun>,
    /// Why nothing more may be stored for its principal; returned unless the same job was accepted before.
    pub full: Option<Refusal>,
    /// The highest priority that its principal may ask for, if it is limited.
    pub max_priority: Option<Priority>,
}

impl Submission {
    /// Returns the requested job, unless its principal may not submit it.
    fn admitted(&self) -> Result<JobAsk, Refusal> {
        self.full.clone().map_or(Ok(()), Err)?;
        if let (Some(asked), Some(most)) = (self.ask.priority, self.max_priority) {
            asked.require_at_most(most)?;
        }
        Ok(self.ask.clone())
    }

    /// Returns the priority of the new job. An inherited one may be from a time when more was permitted.
    fn priority(&self, parent: Option<&Job>) -> Priority {
        let priority = Priority::of_new(self.ask.priority, parent);
        self.max_priority.map_or(priority, |most| priority.min(most))
    }

    /// Principal and idempotency key, if there is one.
    pub fn once(&self) -> Option<(&str, &str)> {
        Some((self.principal.as_str(), self.ask.idempotency_key.as_deref()?))
    }
}

/// Refusal while the same job is being accepted.
pub(super) fn being_prepared() -> Refusal {
    Refusal::new(
        Code::Unavailable,
        "The same job is just being accepted. Ask again shortly: then you get it.",
    )
}

/// Creates a job within a batch.
pub(super) async fn accept(
    ctx: &Ctx,
    conn: &mut PgConnection,
    locked: &mut LockedJobs,
    known: &BTreeMap<String, Known>,
    submission: &Submission,
) -> Outcome<Fresh> {
    let (now, mut ask) = (locked.now(), submission.admitted()?);
    ask.check_time(now)?;
    let (version, terms) = version(&ask, known)?;
    let parent = ask.parent_id.map(|id| parent(locked, id, &submission.principal)).transpose()?;
    let (key_id, owner) = submission.key.clone().unzip();
    require_accepting(&ask, known, &version, parent.as_ref())?;
    narrow(&mut ask, locked, parent.as_ref(), now)?;
    let id = JobId::mint(now, &*ctx.chance);
    let (session_id, counted) = session(ctx, submission.origin, parent.as_ref(), now);
    let mut job = Job {
        id,
        agent: format!("{}@{version}", ask.agent.name),
        principal: submission.principal.clone(),
        session_id,
        counted,
        deadline: ask.deadline(now, terms.max_runtime),
        lease: ask.lease,
        expires_at: ask.expires_at,
        idempotency_key: ask.idempotency_key,
        fingerprint: ask.fingerprint,
        parent_id: ask.parent_id,
        delegate_id: ask.delegate_id,
        generation: parent.as_ref().map_or(0, |parent| parent.generation + 1),
        payers: payers(id, &ask.budget, parent.as_ref()),
        trace_id: trace_id(ctx, submission, parent.as_ref()),
        // Defaults to the parent's intent, which then bears the job's costs as well.
        intent_id: ask.intent_id.or(parent.as_ref().and_then(|parent| parent.intent_id)),
        // A parent cannot pass on a model that it may not use itself (§9.4).
        needs_model: terms.needs_model
            || parent.as_ref().is_some_and(|parent| parent.needs_model || parent.lease.names("model.use")),
        on_lost: terms.on_lost,
        max_attempts: terms.max_attempts,
        priority: submission.priority(parent.as_ref()),
        retry: ask.start.retry.clone().or(terms.retry),
        queue_timeout: ask.start.queue_timeout,
        concurrency: ask.concurrency,
        slotted: false,
        created_at: now,
        key_id,
        owner,
        reserves: false,
        status: JobStatus::Pending,
        last_seq: 0,
        origin_seq: 0,
        attempt: 0,
        failures: 0,
        retried: Vec::new(),
        not_before: None,
        queue_due_at: None,
        claim: None,
        cancel: None,
        streamed: None,
        abandoned: Vec::new(),
        ended_at: None,
        ended_by: None,
    };
    ctx.stops.require_none(&job.act())?;
    job.enqueue(now, ask.start.at);
    let preparing = credentials::needed(ctx, &job);
    begin(ctx, conn, locked, &job, preparing).await?;
    let input = ask.input.map(|input| input.get().to_owned());
    Ok(Fresh { job, input, preparing, extra: Extra { labels: ask.labels, rerun: submission.rerun.clone() } })
}

/// Narrows a child's authority to its parent's (ARCP §9.4).
fn narrow(
    ask: &mut JobAsk,
    locked: &LockedJobs,
    parent: Option<&Job>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let Some(parent) = parent else { return Ok(()) };
    ask.narrow(parent, &locked.available(parent.id))?;
    ask.check_time(now)
}

/// Jobs whose budgets pay a job's costs: those of its parent, and itself if it has a budget.
fn payers(id: JobId, budget: &Budget, parent: Option<&Job>) -> Vec<JobId> {
    let above = parent.map(|parent| parent.payers.clone()).unwrap_or_default();
    above.into_iter().chain((!budget.is_unlimited()).then_some(id)).collect()
}

/// Trace of a job: its parent's, that of the request, or a new one.
fn trace_id(ctx: &Ctx, submission: &Submission, parent: Option<&Job>) -> String {
    let above = parent.map(|parent| parent.trace_id.clone());
    above.or(submission.trace.map(|trace| trace.id())).unwrap_or_else(|| fresh_trace(ctx))
}

/// Session of a job, and whether the session counts the job's events.
fn session(ctx: &Ctx, origin: Origin, parent: Option<&Job>, now: Timestamp) -> (SessionId, bool) {
    match origin {
        Origin::Rest => (SessionId::mint(now, &*ctx.chance), false),
        Origin::Session(session) => (session, true),
        Origin::Parent => match parent {
            Some(parent) => (parent.session_id, parent.counted),
            None => (SessionId::mint(now, &*ctx.chance), false),
        },
    }
}

/// Resolves the agent's version and its terms.
fn version(ask: &JobAsk, known: &BTreeMap<String, Known>) -> Result<(String, Terms), Refusal> {
    let agent = known.get(&ask.agent.name);
    let version = resolve(&ask.agent, agent.map(|agent| &agent.versions)).map_err(|fault| {
        let code = match fault {
            Fault::AgentVersionNotAvailable => Code::AgentVersionNotAvailable,
            _ => Code::AgentNotAvailable,
        };
        let message =
            format!("`{}` is not registered here. The agents that are: GET /api/v1/arcp/agents.", ask.agent);
        Refusal::new(code, message)
    })?;
    let terms = agent.and_then(|agent| agent.terms.get(&version)).cloned().unwrap_or_default();
    Ok((version, terms))
}

/// Requires that the agent's queue accepts jobs. A draining one finishes its jobs, and so takes the children that these give to
/// the same agent.
fn require_accepting(
    ask: &JobAsk,
    known: &BTreeMap<String, Known>,
    version: &str,
    parent: Option<&Job>,
) -> Result<(), Refusal> {
    let name = &ask.agent.name;
    let is_own = |parent: &Job| parent.agent.split('@').next() == Some(name);
    if parent.is_some_and(is_own) || !known.get(name).is_some_and(|agent| agent.draining.contains(version)) {
        return Ok(());
    }
    let message = format!(
        "`{name}@{version}` is being drained and accepts no new jobs. Submit to another agent or version, or again when its \
         queue is open: GET /api/v1/arcp/agents/{name}/queue."
    );
    Err(Refusal {
        retry_after_seconds: Some(DRAIN_SECONDS),
        ..Refusal::new(Code::AgentNotAvailable, message)
    })
}

/// Finds the parent, which must be of the same principal; another's counts as missing (ARCP-W-13.9).
fn parent(locked: &LockedJobs, id: JobId, principal: &str) -> Result<Job, Refusal> {
    let parent = locked.job(id).ok().filter(|parent| parent.principal == principal).ok_or_else(no_job)?;
    if parent.status.is_terminal() || parent.cancel.is_some() {
        return Err(childless());
    }
    Ok(parent.clone())
}

/// Refusal of a child whose parent has ended, or is to stop: the end of a job ends the authority and the credentials
/// that it gave (ARCP §9.8.2).
pub(super) fn childless() -> Refusal {
    let message = "The parent is over, or is to stop: it has no authority left to give. Submit the job without \
                   `parent_job_id`.";
    Refusal::field(Code::InvalidRequest, "parent_job_id", "ended", message)
}

/// Attaches a job to its intent, unless it still waits for its credentials: then this only checks that it may
/// be attached, before the provisioner is called.
async fn begin(
    ctx: &Ctx,
    conn: &mut PgConnection,
    locked: &mut LockedJobs,
    job: &Job,
    preparing: bool,
) -> Outcome<()> {
    match job.intent_id.filter(|_| preparing) {
        Some(intent) => {
            let membership =
                membership::require(conn, &job.principal, intent, Level::Write, locked.now()).await?;
            Ok(governance::may_work(conn, intent, &membership, &job.principal).await??)
        }
        None if preparing => Ok(()),
        None => take_place(ctx, conn, locked, job).await,
    }
}

/// Attaches a job to its intent: an event in the log, and a channel that closes with the job.
pub(super) async fn take_place(
    ctx: &Ctx,
    conn: &mut PgConnection,
    locked: &mut LockedJobs,
    job: &Job,
) -> Outcome<()> {
    let Some(intent) = job.intent_id else { return Ok(()) };
    let agent = &job.principal;
    let membership = membership::require(conn, agent, intent, Level::Write, locked.now()).await?;
    governance::may_work(conn, intent, &membership, agent).await??;
    let Some(log) = locked.logs.get_mut(&intent) else { return Ok(()) };
    let named = format!("job-{}", job.id.to_string().trim_start_matches("job_").to_lowercase());
    let ask = ChannelAsk { task_id: Some(job.id.to_string()), ..ChannelAsk::implicit(&named) };
    let channel = channels::open(conn, ctx, log, &membership, agent, ask).await?;
    let payload = json!({
        "job_id": job.id, "agent": job.agent, "principal": job.principal, "status": job.status, "channel_id": channel.id,
    });
    let draft =
        Draft { trace_id: Some(job.trace_id.clone()), ..Draft::of(Kind::JobAccepted, agent, payload) };
    log.record(ctx, draft);
    Ok(())
}

/// Body of the parent's `delegate` event on an accepted child.
pub(super) fn delegate_event(child: &Job) -> Value {
    json!({
        "delegate_id": child.delegate_id, "agent": child.agent, "child_job_id": child.id, "lease": child.lease,
    })
}

/// Trace id for a job without one (ARCP §11): 32 hexadecimal digits, never all zero.
fn fresh_trace(ctx: &Ctx) -> String {
    format!("{:032x}", ctx.chance.bits() | 1)
}
