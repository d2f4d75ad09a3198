//! Sending messages (RFC-0021 §2 to §4) and appending events (RFC-0001): the hot path, as one group commit.
//!
//! A writer decides a batch by its cache of the intents (`cache.rs`), and writes it with one guarded statement
//! (`crates/kernel/src/log/guarded_write.rs`) that takes effect only where the cache is still true. Commands that are
//! refused or not written are tried again with fresh reads, and at last under the intents' locks. So a refusal is
//! never out of date, and two servers that write to the same intent only slow each other down. Locks held elsewhere
//! are waited for beside the batches (`crates/store/src/commit/lanes.rs`), so one locked intent does not delay the
//! others. After the commit the feed is notified first, then each caller.

mod append;
mod batch;
mod cache;
pub mod forwarding;
mod handler;
pub mod within;

use std::sync::Arc;
use std::time::Duration;

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, IntentId, NodeId};
use entente_domain::log::events::{Draft as EventDraft, Event, check_posted};
use entente_domain::openintent::channels::{ChannelAsk, ChannelStatus};
use entente_domain::openintent::messages::{Case, Draft, Message, judge};
use entente_domain::refusal::Refusal;
use entente_domain::traces::Trace;
use entente_kernel::access::membership;
use entente_kernel::audit::{events, proofs};
use entente_kernel::channels;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{AppError, Caller, Outcome, idempotency, lock_key};
use entente_runtime::fences;
use entente_runtime::tasks::Tasks;
use entente_store::commit::GroupCommit;
use sqlx::PgConnection;

use crate::Ctx;
pub use crate::messages::writer::append::EventCommand;
use crate::messages::writer::append::{Addition, Answer, Append, Appended};
pub(crate) use crate::messages::writer::batch::say;
use crate::messages::writer::forwarding::{ChannelEnds, Contention, Forwarder, Handover};
use crate::messages::writer::handler::MessageHandler;

impl EventCommand {
    /// Checks a client's event, and its proof.
    ///
    /// # Errors
    /// The key lacks the scope; the event is invalid.
    pub async fn checked(
        ctx: &Ctx,
        caller: &Caller,
        intent_id: IntentId,
        mut draft: EventDraft,
        once: Option<Idempotency>,
    ) -> Outcome<Self> {
        caller.require(Scope::IntentsWrite)?;
        check_posted(&draft)?;
        let objection = proofs::of_event(ctx, intent_id, &mut draft).await?;
        let objection = objection.or_else(|| ctx.objection(caller, &draft.actor, Some(intent_id)));
        let (principal, trace) = (caller.principal().to_owned(), caller.trace);
        Ok(Self { intent_id, draft, principal, once, objection, trace })
    }
}

/// A message to be sent.
#[derive(Debug, Clone)]
pub struct Command {
    /// The channel.
    pub channel_id: ChannelId,
    /// The channel's intent.
    pub intent_id: IntentId,
    /// The message.
    pub draft: Draft,
    /// Principal of the key, which scopes idempotency keys.
    pub principal: String,
    /// Idempotency key with the fingerprint of the request.
    pub once: Option<Idempotency>,
    /// Refusal found by the request handler; returned unless the same was done before or the sender cannot see the
    /// channel.
    pub objection: Option<Refusal>,
    /// The trace of the request, for the log of an audited channel (RFC-0020).
    pub trace: Option<Trace>,
    /// Identity of a message that another server may write as well.
    pub handover: Option<Handover>,
}

/// Answer of a sent message.
type Sent = Outcome<Arc<Message>>;

fn lost() -> AppError {
    AppError::Inconsistent("a command got no answer".to_owned())
}

/// The group commit for messages.
pub struct MessageWriter {
    commit: GroupCommit<MessageHandler>,
    ctx: Ctx,
    ends: ChannelEnds,
    contention: Arc<Contention>,
    /// Hands messages to the servers that own their intents.
    forwarder: Option<Arc<dyn Forwarder>>,
}

impl MessageWriter {
    /// Starts the writers with this context.
    #[must_use]
    pub fn start(ctx: &Ctx, node: NodeId, writers: usize, tasks: &Tasks) -> Self {
        let contention = Arc::new(Contention::new(&ctx.metrics));
        let handler = MessageHandler::new(ctx, node, Arc::clone(&contention));
        Self {
            commit: GroupCommit::start(handler, writers, tasks, &ctx.metrics),
            ctx: ctx.clone(),
            ends: ChannelEnds::new(&ctx.metrics),
            contention,
            forwarder: None,
        }
    }

    /// Hands messages on intents that other servers own to these servers.
    #[must_use]
    pub fn with_forwarder(self, forwarder: Arc<dyn Forwarder>) -> Self {
        Self { forwarder: Some(forwarder), ..self }
    }

    /// Has every writer commit a probe write within `limit`.
    ///
    /// # Errors
    /// Returns a description of the failure.
    pub async fn probe(&self, limit: Duration) -> Result<(), String> {
        self.commit.probe(limit).await
    }

    /// Sends a message; resolves after it is committed.
    ///
    /// # Errors
    /// Fails if the domain rules refuse it, see [`judge`], or if the channel does not exist or is not visible to the
    /// sender.
    pub async fn send(&self, command: Command) -> Sent {
        self.send_all(command.intent_id, vec![command]).await.pop().unwrap_or_else(|| Err(lost()))
    }

    /// Sends messages on one intent in order; returns an answer for each.
    ///
    /// If another server owns the intent, it writes them; those that it does not write in time are written here.
    pub async fn send_all(&self, intent: IntentId, mut commands: Vec<Command>) -> Vec<Sent> {
        let elsewhere = self
            .forwarder
            .as_ref()
            .filter(|forwarder| self.contention.is_on(intent) && forwarder.is_elsewhere(intent));
        // Only the transaction that writes can check the fences of the request.
        let is_plain = |one: &Command| one.objection.is_none();
        let elsewhere = elsewhere.filter(|_| commands.iter().all(is_plain) && fences::current().is_empty());
        let Some(forwarder) = elsewhere else {
            return self.send_here(intent, commands).await;
        };
        if self.ends.identify(&self.ctx, &mut commands).await.is_err() {
            return self.send_here(intent, commands).await;
        }
        let written = forwarder.forward(intent, &commands).await;
        written.iter().flatten().for_each(|message| self.ends.saw(message));
        // In their order: none of those that follow is written before one that was left here.
        let left: Vec<Command> = commands
            .into_iter()
            .zip(&written)
            .filter_map(|(one, done)| done.is_none().then_some(one))
            .collect();
        let mut here =
            if left.is_empty() { Vec::new() } else { self.send_here(intent, left).await }.into_iter();
        let answer = |done: Option<Arc<Message>>| match done {
            Some(message) => Ok(message),
            None => here.next().unwrap_or_else(|| Err(lost())),
        };
        written.into_iter().map(answer).collect()
    }

    /// Like [`Self::send_all`], without asking who owns the intent.
    pub async fn send_here(&self, intent: IntentId, commands: Vec<Command>) -> Vec<Sent> {
        let commands = commands.into_iter().map(|command| Append::new(Addition::Message(command))).collect();
        let answers = self.submit(intent, commands).await.into_iter();
        let message = |appended| match appended {
            Appended::Message(message) => Ok(message),
            Appended::Event(_) => Err(lost()),
        };
        answers.map(|answer| answer.and_then(message)).collect()
    }

    async fn submit(&self, intent: IntentId, commands: Vec<Append>) -> Vec<Answer> {
        let answers = self.commit.submit(lock_key(intent).unsigned_abs(), commands).await;
        answers.into_iter().map(|answer| answer?).collect()
    }

    /// Appends a client's event to an intent's log; resolves after it is committed.
    ///
    /// # Errors
    /// The intent does not exist or is not writable; the event is invalid.
    pub async fn append_event(
        &self,
        ctx: &Ctx,
        caller: &Caller,
        intent_id: IntentId,
        draft: EventDraft,
        once: Option<Idempotency>,
    ) -> Outcome<Arc<Event>> {
        let command = EventCommand::checked(ctx, caller, intent_id, draft, once.clone()).await?;
        let draft = command.draft.clone();
        let command = Append::new(Addition::Event(command));
        match self.submit(intent_id, vec![command]).await.pop() {
            Some(Ok(Appended::Event(event))) => Ok(event),
            // The violation is recorded in a transaction of its own, which judges the event once more.
            Some(Err(AppError::Refused(refusal))) if refusal.violation.is_some() => {
                events::append(ctx, caller, intent_id, draft, once.as_ref()).await.map(Arc::new)
            }
            Some(Err(failure)) => Err(failure),
            Some(Ok(Appended::Message(_))) | None => Err(lost()),
        }
    }

    /// Sends a message to an intent's channel by name; if no such channel is open, opens a public one (RFC-0021 §1.4)
    /// with it.
    ///
    /// # Errors
    /// As [`Self::send`]; if the message is refused, no channel is opened.
    pub async fn send_by_name(
        &self,
        ctx: &Ctx,
        caller: &Caller,
        intent_id: IntentId,
        name: &str,
        draft: Draft,
        once: Option<Idempotency>,
    ) -> Sent {
        let mut conn = ctx.pool.acquire().await?;
        let now = ctx.now();
        membership::require(&mut conn, &draft.sender, intent_id, Level::Read, now).await?;
        let found = channels::find_open(&mut conn, intent_id, name).await?;
        drop(conn);
        match found.filter(|channel| channel.status_at(now) == ChannelStatus::Open) {
            Some(channel) => {
                let principal = caller.principal().to_owned();
                let objection = ctx.objection_to_message(caller, &draft.sender, intent_id);
                self.send(Command {
                    channel_id: channel.id,
                    intent_id,
                    draft,
                    principal,
                    once,
                    objection,
                    trace: caller.trace,
                    handover: None,
                })
                .await
            }
            None => open_with(ctx, caller, intent_id, name, draft, once.as_ref()).await,
        }
    }
}

/// Opens a channel with its first message.
async fn open_with(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    name: &str,
    draft: Draft,
    once: Option<&Idempotency>,
) -> Sent {
    let mut tx = ctx.begin_once(&[intent_id], caller, once).await?;
    let membership = membership::require(&mut tx, &draft.sender, intent_id, Level::Write, ctx.now()).await?;
    if let Some(done) = idempotency::find::<Message>(&mut tx, caller, once).await? {
        return Ok(Arc::new(done));
    }
    ctx.objection_to_message(caller, &draft.sender, intent_id).map_or(Ok(()), Err)?;
    let mut log = IntentLog::open(&mut tx, intent_id, caller.trace, ctx.now()).await?;
    let now = log.now();
    let channel = channels::find_open(&mut tx, intent_id, name).await?;
    let mut channel = match channel.filter(|channel| channel.status_at(now) == ChannelStatus::Open) {
        // Another request has opened it meanwhile.
        Some(channel) => channel,
        None => {
            channels::open(&mut tx, ctx, &mut log, &membership, &draft.sender, ChannelAsk::implicit(name))
                .await?
        }
    };
    let case = Case {
        channel: &channel,
        access: membership.access,
        holders: &holders(&mut tx, &draft, intent_id, now).await?,
        original: None,
        strict: ctx.settings.strict,
    };
    let ruling = judge(&draft, case, now)?;
    let message = say(ctx, &mut log, &mut channel, draft, ruling)?;
    log.save_with(&mut tx, &[&message], &[&channel]).await?;
    idempotency::keep(&mut tx, caller, once, &message, now).await?;
    tx.commit().await?;
    ctx.metrics.messages.inc();
    ctx.feed.notify_committed(intent_id);
    Ok(Arc::new(message))
}

/// Returns the agents that hold the role addressed by a draft and can read the intent.
async fn holders(
    conn: &mut PgConnection,
    draft: &Draft,
    intent: IntentId,
    now: Timestamp,
) -> Outcome<Vec<String>> {
    let Some(role) = draft.to.as_deref().and_then(|to| to.strip_prefix("role:")) else {
        return Ok(Vec::new());
    };
    let agents = entente_kernel::identity::agents::holding(conn, &[role]).await?;
    let at_work = agents.iter().filter(|agent| agent.status_at(now).takes_work());
    let asked: Vec<(IntentId, &str)> = at_work.map(|agent| (intent, agent.agent_id.as_str())).collect();
    let memberships = membership::find_all(conn, &asked, now).await?;
    let readers = memberships.into_iter().filter(|(_, membership)| membership.access.reaches(Level::Read));
    Ok(readers.map(|((_, agent), _)| agent).collect())
}
