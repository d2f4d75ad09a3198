//! Turns: everything that an agent does between two calls of its model, in one transaction. It marks entries of its
//! inbox seen and messages read, sends messages, appends events, works on tasks, reports on its jobs, keeps its claims,
//! sends mail and takes new jobs; all of it happens or nothing.
//!
//! The transaction begins with the locks of all intents, then locks the agent's record for tasks that it claims, the jobs in
//! the order of their ids, and at last the mailboxes, like any other (ARCHITECTURE.md, "One order"). Messages come before the ends of
//! tasks and jobs, which close their channels. The claim comes last and waits for nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use entente_aee::acceptance::Accepted;
use entente_aee::turns::{Delivered, Mail, prepare_mail, send_within};
use entente_arcp::jobs::{
    Beat, BeatAsk, ClaimAsk, Claimed, Claims, JobReport, ReportFailure, Reported, Reports, beat_within,
    claim_within, claimed_before, concealed, intents_of, lock_within, report_within,
};
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, IntentId, JobId, MessageId};
use entente_domain::log::events::{Draft as EventDraft, Event};
use entente_domain::openintent::messages::{Draft, Message};
use entente_kernel::access::governance;
use entente_kernel::audit::proofs;
use entente_kernel::channels::access::home;
use entente_kernel::inbox::{self, Reader, reading};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{AppError, Caller, Outcome, Tx, idempotency};
use entente_openintent::messages::mark_read_within;
use entente_openintent::messages::writer::within::{self, AppendFailure};
use entente_openintent::messages::writer::{Command, EventCommand};
use entente_openintent::tasks::TaskView;
use entente_openintent::tasks::within::{TaskStep, intent_of, step_within};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Ctx;

/// How often a turn is tried whose envelopes were overtaken by new rules.
const ATTEMPTS: usize = 4;

/// Actions of an agent in a turn; any part may be empty.
#[derive(Debug, Clone, Default)]
pub struct AgentTurn {
    /// Entries of the agent's inbox that a reader has seen.
    pub seen: Option<Seen>,
    /// Messages to mark as read.
    pub read: Vec<(ChannelId, MessageId)>,
    /// Messages to send, in order.
    pub messages: Vec<(ChannelId, Draft)>,
    /// Events to append to intents, in order; after the messages.
    pub events: Vec<(IntentId, EventDraft)>,
    /// Steps of tasks, in order; after the messages and events.
    pub tasks: Vec<TaskStep>,
    /// Envelopes to send, in order.
    pub mail: Vec<Vec<u8>>,
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

/// Results of a turn.
#[derive(Debug, Default)]
pub struct Done {
    /// The reader of the inbox, at its new position.
    pub reader: Option<Reader>,
    /// The sent messages, in order.
    pub messages: Vec<Arc<Message>>,
    /// The appended events, in order.
    pub events: Vec<Arc<Event>>,
    /// The tasks after their steps, in order.
    pub tasks: Vec<TaskView>,
    /// The receipts of the envelopes, in order.
    pub mail: Vec<Accepted>,
    /// Responses to the reports, in order.
    pub reported: Vec<Reported>,
    /// Response to the heartbeat.
    pub beat: Option<Beat>,
}

/// Changes to announce after the commit.
#[derive(Default)]
struct Announcement {
    logs: Vec<IntentLog>,
    appended: Option<within::Written>,
    tasks: Vec<IntentLog>,
    reports: Option<Reports>,
    mail: Option<Delivered>,
    claims: Claims,
}

impl Announcement {
    async fn announce(&self, ctx: &Ctx) {
        self.logs.iter().for_each(|log| ctx.feed.publish_log(log));
        if let Some(appended) = &self.appended {
            appended.publish(&ctx.openintent);
        }
        self.tasks.iter().for_each(|log| ctx.feed.publish_log(log));
        if let Some(reports) = &self.reports {
            reports.announce(&ctx.arcp).await;
        }
        if let Some(mail) = &self.mail {
            mail.announce(&ctx.aee);
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
    respond: impl Fn(Done) -> Outcome<T>,
) -> Outcome<(T, Vec<Claimed>)> {
    for _ in 1..ATTEMPTS {
        match attempt(ctx, caller, turn, once, &respond).await {
            Err(AppError::Overtaken) => {}
            taken => return taken,
        }
    }
    attempt(ctx, caller, turn, once, &respond).await
}

async fn attempt<T: Serialize + DeserializeOwned>(
    ctx: &Ctx,
    caller: &Caller,
    turn: &AgentTurn,
    once: Option<&Idempotency>,
    respond: &impl Fn(Done) -> Outcome<T>,
) -> Outcome<(T, Vec<Claimed>)> {
    let (intents, prepared) = match prepare(ctx, caller, turn).await {
        Ok(prepared) => (prepared.intents(), Ok(prepared)),
        // A repetition is answered even if the turn would be refused by now.
        Err(refused @ AppError::Refused(_)) if once.is_some() => (Vec::new(), Err(refused)),
        Err(failure) => return Err(failure),
    };
    let mut tx = ctx.begin_once(&intents, caller, once).await?;
    if let Some(response) = idempotency::find::<T>(&mut tx, caller, once).await? {
        tx.rollback().await?;
        let claimed = match &turn.claim {
            Some(ask) => claimed_before(&ctx.arcp, caller, ask).await?,
            None => Vec::new(),
        };
        return Ok((response, claimed));
    }
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(refused) => {
            tx.rollback().await?;
            return Err(refused);
        }
    };
    match work(ctx, &mut tx, caller, turn, once, prepared, respond).await {
        Ok((response, mut announcement)) => {
            tx.commit().await?;
            announcement.announce(ctx).await;
            Ok((response, std::mem::take(&mut announcement.claims.claimed)))
        }
        Err(failed) => {
            // A dropped transaction ends some time after the answer, and the next request would meet its locks.
            tx.rollback().await?;
            Err(told(ctx, caller, turn, failed).await)
        }
    }
}

/// Why a turn failed.
struct Failed {
    /// Index of the report that was refused, if it was one.
    report: Option<usize>,
    /// Step of a task or event that an intent's policy forbids: the intent and the operation.
    forbidden: Option<(IntentId, &'static str)>,
    failure: AppError,
}

impl<E: Into<AppError>> From<E> for Failed {
    fn from(failure: E) -> Self {
        Self { report: None, forbidden: None, failure: failure.into() }
    }
}

/// Returns a turn's failure as the caller may know it, and records it if an intent's policy forbids a step (RFC-0013).
async fn told(ctx: &Ctx, caller: &Caller, turn: &AgentTurn, failed: Failed) -> AppError {
    let Failed { report, forbidden, failure } = failed;
    if let Some(listed) = report.and_then(|index| turn.reports.get(index)) {
        return match concealed(&ctx.arcp, caller, listed.report.job_id(), failure).await {
            AppError::Refused(refusal) => refusal.of_item(listed.list, listed.index).into(),
            failure => failure,
        };
    }
    match (failure, forbidden) {
        (AppError::Refused(refusal), Some((intent_id, operation))) if refusal.violation.is_some() => {
            let agent = &caller.agent;
            let recorded =
                governance::record_violation::<()>(ctx, caller, intent_id, agent, operation, refusal).await;
            recorded.err().unwrap_or_else(|| AppError::Inconsistent("a violation is no failure".to_owned()))
        }
        (failure, _) => failure,
    }
}

/// Data that a turn needs before it begins.
struct Prepared {
    logged: Logged,
    /// Intents of the tasks.
    of_tasks: Vec<IntentId>,
    mail: Mail,
    /// Intents of the reported jobs.
    of_jobs: Vec<IntentId>,
}

/// Entries that a turn itself writes to logs.
struct Logged {
    commands: Vec<Command>,
    events: Vec<EventCommand>,
    /// Intents of the messages to mark as read.
    read: Vec<IntentId>,
}

impl Prepared {
    fn intents(&self) -> Vec<IntentId> {
        let Logged { commands, events, read } = &self.logged;
        let sent = commands.iter().map(|command| command.intent_id);
        let events = events.iter().map(|command| command.intent_id);
        let known = [&self.of_tasks, read, &self.of_jobs].into_iter().flatten().copied();
        sent.chain(events).chain(known).collect()
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
    let mut events = Vec::with_capacity(turn.events.len());
    for (index, (intent_id, draft)) in turn.events.iter().enumerate() {
        let event = EventCommand::checked(&ctx.openintent, caller, *intent_id, draft.clone(), None).await;
        events.push(placed(event, "events", index)?);
    }
    let mut of_tasks = Vec::with_capacity(turn.tasks.len());
    for (index, step) in turn.tasks.iter().enumerate() {
        of_tasks.push(placed(intent_of(&ctx.openintent, caller, step).await, "tasks", index)?);
    }
    let mail = prepare_mail(&ctx.aee, caller, &turn.mail).await?;
    let mut read = Vec::with_capacity(turn.read.len());
    for (index, (channel_id, _)) in turn.read.iter().enumerate() {
        read.push(placed(home(ctx, *channel_id).await, "read", index)?);
    }
    let jobs: Vec<JobId> = turn.reports.iter().map(|listed| listed.report.job_id()).collect();
    let of_jobs = intents_of(&mut *ctx.pool.acquire().await?, &jobs).await?;
    Ok(Prepared { logged: Logged { commands, events, read }, of_tasks, mail, of_jobs })
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
    respond: &impl Fn(Done) -> Outcome<T>,
) -> Result<(T, Announcement), Failed> {
    let (mut done, mut after) = (Done::default(), Announcement::default());
    let Prepared { logged, of_tasks, mail, of_jobs } = prepared;
    append(ctx, tx, caller, turn, logged, &mut done, &mut after).await?;
    step(ctx, tx, caller, turn, &of_tasks, &mut done, &mut after).await?;
    report(ctx, tx, caller, turn, &of_jobs, &mut done, &mut after).await?;
    if !turn.mail.is_empty() {
        let mut delivered = send_within(&ctx.aee, tx, mail).await?;
        done.mail = std::mem::take(&mut delivered.accepted);
        after.mail = Some(delivered);
    }
    let response = respond(done)?;
    if let Some(ask) = &turn.claim {
        after.claims = claim_within(&ctx.arcp, tx, caller, ask).await?;
    }
    idempotency::keep(tx, caller, once, &response, ctx.now()).await?;
    Ok((response, after))
}

/// Marks messages as read, sends messages and appends events.
async fn append(
    ctx: &Ctx,
    tx: &mut Tx,
    caller: &Caller,
    turn: &AgentTurn,
    logged: Logged,
    done: &mut Done,
    after: &mut Announcement,
) -> Result<(), Failed> {
    let Logged { commands, events, read } = logged;
    for (index, (intent_id, (channel_id, message_id))) in read.into_iter().zip(&turn.read).enumerate() {
        let marked = mark_read_within(&ctx.openintent, tx, caller, intent_id, *channel_id, *message_id).await;
        after.logs.push(placed(marked, "read", index)?);
    }
    if commands.is_empty() && events.is_empty() {
        return Ok(());
    }
    let written = within::append(&ctx.openintent, tx, commands, events).await;
    let written = written.map_err(|AppendFailure { event, failure }| {
        let intent = event.and_then(|index| turn.events.get(index)).map(|(intent_id, _)| *intent_id);
        Failed { report: None, forbidden: intent.map(|intent_id| (intent_id, "log_event")), failure }
    })?;
    done.messages.clone_from(&written.messages);
    done.events.clone_from(&written.events);
    after.appended = Some(written);
    Ok(())
}

/// Takes the steps of tasks.
async fn step(
    ctx: &Ctx,
    tx: &mut Tx,
    caller: &Caller,
    turn: &AgentTurn,
    intents: &[IntentId],
    done: &mut Done,
    after: &mut Announcement,
) -> Result<(), Failed> {
    for (index, (intent_id, step)) in intents.iter().zip(&turn.tasks).enumerate() {
        let taken = step_within(&ctx.openintent, tx, caller, *intent_id, step).await;
        let (task, log) = placed(taken, "tasks", index).map_err(|failure| Failed {
            report: None,
            forbidden: Some((*intent_id, step.operation())),
            failure,
        })?;
        done.tasks.push(task);
        after.tasks.push(log);
    }
    Ok(())
}

/// Reports on jobs, keeps the claims of the worker, and marks entries of the inbox as seen.
async fn report(
    ctx: &Ctx,
    tx: &mut Tx,
    caller: &Caller,
    turn: &AgentTurn,
    of_jobs: &[IntentId],
    done: &mut Done,
    after: &mut Announcement,
) -> Result<(), Failed> {
    let reports: Vec<JobReport> = turn.reports.iter().map(|listed| listed.report.clone()).collect();
    if let Some(beat) = turn.beat.as_ref().filter(|_| !reports.is_empty()) {
        let held = beat.held.iter().map(|held| held.job_id);
        let all: BTreeSet<JobId> = held.chain(reports.iter().map(JobReport::job_id)).collect();
        lock_within(tx, &all.into_iter().collect::<Vec<_>>()).await?;
    }
    if !reports.is_empty() {
        let stored = report_within(&ctx.arcp, tx, caller, of_jobs, &reports).await;
        let mut stored = stored.map_err(|ReportFailure { index, failure }| Failed {
            report: index,
            forbidden: None,
            failure,
        })?;
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
    Ok(())
}
