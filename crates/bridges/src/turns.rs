//! Turns: everything that an agent does between two calls of its model, in one transaction. It marks what it has read, sends
//! messages, reports on its jobs, keeps its claims and takes new jobs; all of it happens or nothing.
//!
//! The transaction begins with the locks of all intents and then locks the jobs in the order of their ids, like any other
//! (ARCHITECTURE.md, "One order"). Messages come before the ends of jobs, which close the jobs' channels. The claim comes last and waits for
//! nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use entente_arcp::jobs::{
    Beat, BeatAsk, ClaimAsk, Claimed, Claims, JobReport, ReportFailure, Reported, Reports, beat_within,
    claim_within, claimed_before, concealed, intents_of, lock_within, report_within,
};
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, IntentId, JobId, MessageId};
use entente_domain::openintent::messages::{Draft, Message};
use entente_kernel::audit::proofs;
use entente_kernel::channels::access::home;
use entente_kernel::inbox::{self, Reader, reading};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{AppError, Caller, Outcome, Tx, idempotency};
use entente_openintent::messages::mark_read_within;
use entente_openintent::messages::writer::{Command, within};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Ctx;

/// What an agent does in a turn; any part may be empty.
#[derive(Debug, Clone, Default)]
pub struct AgentTurn {
    /// Entries of the agent's inbox that a reader has seen.
    pub seen: Option<Seen>,
    /// Messages to mark as read.
    pub read: Vec<(ChannelId, MessageId)>,
    /// Messages to send, in order.
    pub messages: Vec<(ChannelId, Draft)>,
    /// Reports on claimed jobs, in order.
    pub reports: Vec<ListedReport>,
    /// Heartbeat of the agent's worker.
    pub beat: Option<BeatAsk>,
    /// Jobs to claim; without waiting.
    pub claim: Option<ClaimAsk>,
}

/// Entries of an inbox that a reader has seen.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The reader; the usual one if there is none.
    pub reader: Option<String>,
    /// Place of the last entry.
    pub place: i64,
}

/// A report, and where the request has it.
#[derive(Debug, Clone)]
pub struct ListedReport {
    /// List of the request.
    pub list: &'static str,
    /// Index in that list.
    pub index: usize,
    /// The report.
    pub report: JobReport,
}

/// What a turn did.
#[derive(Debug)]
pub struct Done {
    /// The reader of the inbox, at its new position.
    pub reader: Option<Reader>,
    /// The sent messages, in order.
    pub messages: Vec<Arc<Message>>,
    /// Responses to the reports, in order.
    pub reported: Vec<Reported>,
    /// Response to the heartbeat.
    pub beat: Option<Beat>,
}

/// What is to be announced after the commit.
#[derive(Default)]
struct Announcement {
    logs: Vec<IntentLog>,
    messages: Option<within::Written>,
    reports: Option<Reports>,
    claims: Claims,
}

impl Announcement {
    async fn announce(&self, ctx: &Ctx) {
        self.logs.iter().for_each(|log| ctx.feed.publish_log(log));
        if let Some(messages) = &self.messages {
            messages.publish(&ctx.openintent);
        }
        if let Some(reports) = &self.reports {
            reports.announce(&ctx.arcp).await;
        }
        self.claims.announce(&ctx.arcp);
    }
}

/// Takes a turn; returns its response, which `respond` makes, and the claimed jobs.
///
/// The response is stored under the request's idempotency key. A repeated turn does nothing: it returns the stored response,
/// and the jobs of its claim that the worker still holds.
///
/// # Errors
/// The first part that is refused, by its place in the request; nothing took effect. After [`AppError::Unavailable`] the outcome
/// is unknown: the turn may be repeated with its key.
pub async fn take<T: Serialize + DeserializeOwned>(
    ctx: &Ctx,
    caller: &Caller,
    turn: &AgentTurn,
    once: Option<&Idempotency>,
    respond: impl FnOnce(Done) -> Outcome<T>,
) -> Outcome<(T, Vec<Claimed>)> {
    let prepared = prepare(ctx, caller, turn).await?;
    let mut tx = ctx.begin_once(&prepared.intents(), caller, once).await?;
    if let Some(response) = idempotency::find::<T>(&mut tx, caller, once).await? {
        tx.rollback().await?;
        let claimed = match &turn.claim {
            Some(ask) => claimed_before(&ctx.arcp, caller, ask).await?,
            None => Vec::new(),
        };
        return Ok((response, claimed));
    }
    match work(ctx, &mut tx, caller, turn, once, prepared, respond).await {
        Ok((response, mut announcement)) => {
            tx.commit().await?;
            announcement.announce(ctx).await;
            Ok((response, std::mem::take(&mut announcement.claims.claimed)))
        }
        Err(Failed { report, failure }) => {
            // A dropped transaction ends some time after the answer, and the next request would meet its locks.
            tx.rollback().await?;
            Err(told(ctx, caller, turn, report, failure).await)
        }
    }
}

/// Why a turn failed.
struct Failed {
    /// Index of the report that was refused, if it was one.
    report: Option<usize>,
    failure: AppError,
}

impl<E: Into<AppError>> From<E> for Failed {
    fn from(failure: E) -> Self {
        Self { report: None, failure: failure.into() }
    }
}

/// Returns a turn's failure as the caller may know it.
async fn told(
    ctx: &Ctx,
    caller: &Caller,
    turn: &AgentTurn,
    report: Option<usize>,
    failure: AppError,
) -> AppError {
    let Some(listed) = report.and_then(|index| turn.reports.get(index)) else { return failure };
    match concealed(&ctx.arcp, caller, listed.report.job_id(), failure).await {
        AppError::Refused(refusal) => refusal.of_item(listed.list, listed.index).into(),
        failure => failure,
    }
}

/// What a turn needs to know before it begins.
struct Prepared {
    commands: Vec<Command>,
    /// Intents of the messages to mark as read.
    read: Vec<IntentId>,
    /// Intents of the reported jobs.
    of_jobs: Vec<IntentId>,
}

impl Prepared {
    fn intents(&self) -> Vec<IntentId> {
        let sent = self.commands.iter().map(|command| command.intent_id);
        sent.chain(self.read.iter().copied()).chain(self.of_jobs.iter().copied()).collect()
    }
}

async fn prepare(ctx: &Ctx, caller: &Caller, turn: &AgentTurn) -> Outcome<Prepared> {
    if turn.seen.is_some() {
        inbox::ensure_open(ctx, caller, &caller.agent).await?;
    }
    let mut commands = Vec::with_capacity(turn.messages.len());
    if !turn.messages.is_empty() {
        caller.require(Scope::ChannelsWrite)?;
    }
    for (index, (channel_id, draft)) in turn.messages.iter().enumerate() {
        let intent_id = placed(home(ctx, *channel_id).await, "messages", index)?;
        let objection = proofs::objection(ctx, *channel_id, draft).await?;
        commands.push(Command {
            channel_id: *channel_id,
            intent_id,
            draft: draft.clone(),
            principal: caller.principal().to_owned(),
            once: None,
            objection: objection.or_else(|| ctx.objection_to_message(caller, &draft.sender, intent_id)),
            trace: caller.trace,
            handover: None,
        });
    }
    let mut read = Vec::with_capacity(turn.read.len());
    for (index, (channel_id, _)) in turn.read.iter().enumerate() {
        read.push(placed(home(ctx, *channel_id).await, "read", index)?);
    }
    let jobs: Vec<JobId> = turn.reports.iter().map(|listed| listed.report.job_id()).collect();
    let of_jobs = intents_of(&mut *ctx.pool.acquire().await?, &jobs).await?;
    Ok(Prepared { commands, read, of_jobs })
}

/// Names the item of the request that was refused.
fn placed<T>(done: Outcome<T>, list: &str, index: usize) -> Outcome<T> {
    done.map_err(|failure| match failure {
        AppError::Refused(refusal) => refusal.of_item(list, index).into(),
        failure => failure,
    })
}

/// Writes everything, and stores the response.
async fn work<T: Serialize>(
    ctx: &Ctx,
    tx: &mut Tx,
    caller: &Caller,
    turn: &AgentTurn,
    once: Option<&Idempotency>,
    prepared: Prepared,
    respond: impl FnOnce(Done) -> Outcome<T>,
) -> Result<(T, Announcement), Failed> {
    let (done, mut after) = write(ctx, tx, caller, turn, prepared).await?;
    let response = respond(done)?;
    if let Some(ask) = &turn.claim {
        after.claims = claim_within(&ctx.arcp, tx, caller, ask).await?;
    }
    idempotency::keep(tx, caller, once, &response, ctx.now()).await?;
    Ok((response, after))
}

/// Writes everything but the claim.
async fn write(
    ctx: &Ctx,
    tx: &mut Tx,
    caller: &Caller,
    turn: &AgentTurn,
    prepared: Prepared,
) -> Result<(Done, Announcement), Failed> {
    let Prepared { commands, read, of_jobs } = prepared;
    let mut after = Announcement::default();
    let mut done = Done { reader: None, messages: Vec::new(), reported: Vec::new(), beat: None };
    for (index, (intent_id, (channel_id, message_id))) in read.into_iter().zip(&turn.read).enumerate() {
        let marked = mark_read_within(&ctx.openintent, tx, caller, intent_id, *channel_id, *message_id).await;
        after.logs.push(placed(marked, "read", index)?);
    }
    if !commands.is_empty() {
        let written = within::send(&ctx.openintent, tx, commands).await?;
        done.messages.clone_from(&written.messages);
        after.messages = Some(written);
    }
    let reports: Vec<JobReport> = turn.reports.iter().map(|listed| listed.report.clone()).collect();
    if let Some(beat) = turn.beat.as_ref().filter(|_| !reports.is_empty()) {
        let held = beat.held.iter().map(|held| held.job_id);
        let all: BTreeSet<JobId> = held.chain(reports.iter().map(JobReport::job_id)).collect();
        lock_within(tx, &all.into_iter().collect::<Vec<_>>()).await?;
    }
    if !reports.is_empty() {
        let stored = report_within(&ctx.arcp, tx, caller, &of_jobs, &reports).await;
        let mut stored =
            stored.map_err(|ReportFailure { index, failure }| Failed { report: index, failure })?;
        done.reported = std::mem::take(&mut stored.reported);
        after.reports = Some(stored);
    }
    if let Some(ask) = &turn.beat {
        let mut beat = beat_within(&ctx.arcp, tx, caller, ask).await?;
        // A report on a lost job would have been refused: this one has just ended.
        beat.lost.retain(|id| reports.iter().all(|report| report.job_id() != *id));
        done.beat = Some(beat);
    }
    if let Some(Seen { reader, place }) = &turn.seen {
        let seen = reading::seen(tx, ctx, caller, &caller.agent, reader.as_deref(), *place).await?;
        done.reader = Some(seen);
    }
    Ok((done, after))
}
