//! Accepting jobs (ARCP §7.1, §7.2): at once, as pending, whether or not a worker is there.

use std::collections::BTreeMap;

use entente_domain::access::Level;
use entente_domain::channels::ChannelAsk;
use entente_domain::clock::Timestamp;
use entente_domain::events::{Draft, Kind};
use entente_domain::faults::Fault;
use entente_domain::ids::{JobId, SessionId};
use entente_domain::jobs::ask::{JobAsk, Submit, no_job};
use entente_domain::jobs::wire::{Accepted, Credential};
use entente_domain::jobs::{Job, JobStatus};
use entente_domain::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::traces::Trace;
use entente_domain::versions::resolve;
use serde_json::json;
use sqlx::PgConnection;

use super::hold::Hold;
use super::preparing;
use super::works::Works;
use super::writes::Fresh;
use crate::inventory::{Known, Terms};
use crate::{Caller, Ctx, Outcome, channels, credentials, governance, seats};

/// Where a job comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Over REST: it gets a session of its own, whose numbers are the job's.
    Rest,
    /// From a session on a socket or stdio, which counts its events.
    Session(SessionId),
    /// From its parent's worker (§10): it belongs to the parent's session.
    Parent,
}

/// A job that was accepted.
#[derive(Debug)]
pub struct Submitted {
    /// What its submitter is told.
    pub accepted: Accepted,
    /// The job.
    pub job: Job,
    /// Whether the same was accepted before.
    pub repeated: bool,
    /// Whether it still waits for its credentials.
    pub(super) preparing: bool,
}

impl Submitted {
    pub(super) fn new(job: Job, repeated: bool) -> Self {
        Self { accepted: Accepted::new(&job, Vec::new()), job, repeated, preparing: false }
    }

    /// With the credentials that its submitter is told of.
    pub(super) fn with(self, credentials: Vec<Credential>) -> Self {
        Self { accepted: Accepted { credentials, ..self.accepted }, preparing: false, ..self }
    }
}

/// A job that is handed in.
#[derive(Debug, Clone)]
pub(super) struct Submission {
    pub ask: JobAsk,
    /// Whose job it will be.
    pub principal: String,
    /// The trace of the request.
    pub trace: Option<Trace>,
    pub origin: Origin,
}

impl Submission {
    /// Under which key, and whose.
    pub fn key(&self) -> Option<(&str, &str)> {
        Some((self.principal.as_str(), self.ask.idempotency_key.as_deref()?))
    }
}

impl Works {
    /// Accepts a job. The same key with the same parameters is the same job.
    ///
    /// # Errors
    /// The ask is not lawful; there is no such agent or version; the parent does not cover it; the key was used for another.
    pub async fn submit(&self, caller: &Caller, said: Submit, origin: Origin) -> Outcome<Submitted> {
        caller.require(Scope::JobsWrite)?;
        let ask = JobAsk::check(said)?;
        let submission = Submission { ask, principal: caller.agent.clone(), trace: caller.trace, origin };
        preparing::submit(self, submission).await
    }
}

/// Makes a job of what was asked, within a batch.
pub(super) async fn accept(
    ctx: &Ctx,
    conn: &mut PgConnection,
    hold: &mut Hold,
    known: &BTreeMap<String, Known>,
    submission: &Submission,
) -> Outcome<Fresh> {
    let now = hold.now();
    let mut ask = submission.ask.clone();
    ask.check_time(now)?;
    let (version, terms) = version(&ask, known)?;
    let parent = match ask.parent_id {
        None => None,
        Some(id) => Some(parent(hold, id, &submission.principal)?),
    };
    if let Some(parent) = &parent {
        ask.narrow(parent, &hold.available(parent.id))?;
        ask.check_time(now)?;
    }
    let id = JobId::mint(now, &*ctx.chance);
    let mut payers = parent.as_ref().map(|parent| parent.payers.clone()).unwrap_or_default();
    if !ask.budget.is_unlimited() {
        payers.push(id);
    }
    let (session_id, counted) = session(ctx, submission.origin, parent.as_ref(), now);
    let trace = submission.trace.map(|trace| trace.id());
    let job = Job {
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
        payers,
        trace_id: parent
            .as_ref()
            .map(|parent| parent.trace_id.clone())
            .or(trace)
            .unwrap_or_else(|| fresh_trace(ctx)),
        // It works for what its parent works for, unless it says otherwise: so its costs are that intent's too.
        intent_id: ask.intent_id.or(parent.as_ref().and_then(|parent| parent.intent_id)),
        // Who delegates cannot give what it may not use itself (§9.4).
        needs_model: terms.needs_model
            || parent.as_ref().is_some_and(|parent| parent.needs_model || parent.lease.names("model.use")),
        on_lost: terms.on_lost,
        max_attempts: terms.max_attempts,
        created_at: now,
        status: JobStatus::Pending,
        last_seq: 0,
        origin_seq: 0,
        attempt: 0,
        claim: None,
        cancel: None,
        streamed: None,
        abandoned: Vec::new(),
        ended_at: None,
    };
    let preparing = credentials::needed(ctx, &job);
    begin(ctx, conn, hold, &job, preparing).await?;
    Ok(Fresh { job, input: ask.input.map(|input| input.get().to_owned()), preparing })
}

/// Which session a job belongs to, and whether that one counts its events.
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

/// Which version the job gets, and on what terms.
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

/// A job's parent: one of the same principal. Another's is as none (contract 13.9).
fn parent(hold: &Hold, id: JobId, principal: &str) -> Result<Job, Refusal> {
    let parent = hold.job(id).ok().filter(|parent| parent.principal == principal).ok_or_else(no_job)?;
    let stopped = parent.status.is_terminal() && parent.status != JobStatus::Success;
    if stopped || parent.cancel.is_some() {
        let message =
            "The parent was stopped, or is to stop: it has no authority left to give. Submit without it.";
        return Err(Refusal::field(Code::InvalidRequest, "parent_job_id", "ended", message));
    }
    Ok(parent.clone())
}

/// Gives a job its place; one that still waits for its credentials gets it with them, but that it may have it is certain
/// before anybody is asked for those.
async fn begin(
    ctx: &Ctx,
    conn: &mut PgConnection,
    hold: &mut Hold,
    job: &Job,
    preparing: bool,
) -> Outcome<()> {
    match job.intent_id.filter(|_| preparing) {
        Some(intent) => {
            let seat = seats::require(conn, &job.principal, intent, Level::Write, hold.now()).await?;
            Ok(governance::may_work(conn, intent, &seat, &job.principal).await??)
        }
        None if preparing => Ok(()),
        None => take_place(ctx, conn, hold, job).await,
    }
}

/// Gives a job its place on the intent that it works for: an entry in the log, and a channel that ends with it.
pub(super) async fn take_place(
    ctx: &Ctx,
    conn: &mut PgConnection,
    hold: &mut Hold,
    job: &Job,
) -> Outcome<()> {
    let Some(intent) = job.intent_id else { return Ok(()) };
    let agent = &job.principal;
    let seat = seats::require(conn, agent, intent, Level::Write, hold.now()).await?;
    governance::may_work(conn, intent, &seat, agent).await??;
    let Some(line) = hold.lines.get_mut(&intent) else { return Ok(()) };
    let named = format!("job-{}", job.id.to_string().trim_start_matches("job_").to_lowercase());
    let ask = ChannelAsk { task_id: Some(job.id.to_string()), ..ChannelAsk::implicit(&named) };
    let channel = channels::open(conn, ctx, line, &seat, agent, ask).await?;
    let payload = json!({
        "job_id": job.id, "agent": job.agent, "principal": job.principal, "status": job.status, "channel_id": channel.id,
    });
    let draft =
        Draft { trace_id: Some(job.trace_id.clone()), ..Draft::of(Kind::JobAccepted, agent, payload) };
    line.record(ctx, draft);
    Ok(())
}

/// A trace for a job that came without one (ARCP §11): 32 hexadecimal digits, never all zero.
fn fresh_trace(ctx: &Ctx) -> String {
    format!("{:032x}", ctx.chance.bits() | 1)
}
