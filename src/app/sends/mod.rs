//! Sending messages (RFC-0021 §2 to §4): the hot path, as one group commit.
//!
//! A writer judges a batch by what it remembers of its intents (`desks.rs`), and writes it with one guarded statement
//! (`write.rs`) that only takes effect where what is remembered is still true. What it refuses, or fails to write, is
//! tried again by what is read afresh, and at last under the intents' locks; so a refusal is never out of date, and two
//! servers that write to the same intent only cost each other time. After the commit the feed is told, then each caller.

mod batch;
mod desks;
mod write;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use entente_core::access::Level;
use entente_core::channels::{ChannelAsk, ChannelStatus};
use entente_core::clock::Timestamp;
use entente_core::events::Event;
use entente_core::idempotency::Idempotency;
use entente_core::ids::{ChannelId, IntentId, MessageId};
use entente_core::messages::{Case, Draft, Message, judge};
use entente_core::refusal::Refusal;
use entente_core::traces::Trace;
use sqlx::PgConnection;

pub(crate) use self::batch::say;
use self::batch::{Batch, Judged};
use self::desks::Desks;
pub(crate) use self::write::{Advance, Writing};
use super::idempotency::Kept;
use super::lines::Line;
use super::{AppError, Caller, Ctx, Outcome, channels, idempotency, lock_key, messages, seats};
use crate::db::commit::{Deed, GroupCommit};
use crate::feed::Record;
use crate::shutdown::Tasks;

/// A message to be sent.
#[derive(Debug, Clone)]
pub struct Command {
    /// The channel.
    pub channel_id: ChannelId,
    /// The channel's intent.
    pub intent_id: IntentId,
    /// The message.
    pub draft: Draft,
    /// Whose key it is sent with; idempotency keys are its own.
    pub principal: String,
    /// The client's claim that this is the same as any other command with this key.
    pub once: Option<Idempotency>,
    /// What the door has found wrong with it, if anything: said when the same was not done before, and the channel is
    /// there for the sender.
    pub objection: Option<Refusal>,
    /// The trace of the request, for the log of an audited channel (RFC-0020).
    pub trace: Option<Trace>,
}

/// How far a writer trusts its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// By what it remembers.
    Remembered,
    /// By what it has just read.
    Reloaded,
    /// By what it reads under the intents' locks: then nothing can have changed.
    Locked,
}

/// The deed of the group commit.
struct Sending {
    ctx: Ctx,
}

/// A caller's answer.
type Answer = Outcome<Arc<Message>>;

fn lost() -> AppError {
    AppError::Inconsistent("a command got no answer".to_owned())
}

impl Deed for Sending {
    type Command = Command;
    type Answer = Answer;
    type Memory = Desks;

    async fn apply(&self, desks: &mut Desks, commands: Vec<Command>) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = commands.iter().map(|_| None).collect();
        let mut trial = Trial::Remembered;
        loop {
            let left: Vec<usize> = (0..commands.len()).filter(|index| answers[*index].is_none()).collect();
            if left.is_empty() {
                break;
            }
            let tried = self.round(desks, &commands, &left, trial, &mut answers).await;
            if tried.is_err() {
                left.iter().for_each(|index| desks.forget(commands[*index].intent_id));
            }
            trial = match (tried, trial) {
                (Ok(()), Trial::Remembered) => Trial::Reloaded,
                (Ok(()), Trial::Locked) => break,
                (Err(AppError::Unavailable(why)), _) => {
                    left.iter()
                        .for_each(|index| answers[*index] = Some(Err(AppError::Unavailable(why.clone()))));
                    break;
                }
                // An idempotency key that was used before, most likely: under the locks it is looked up.
                (Ok(()), Trial::Reloaded) | (Err(_), Trial::Remembered | Trial::Reloaded) => Trial::Locked,
                (Err(failure), Trial::Locked) => {
                    self.singly(desks, &commands, &left, &mut answers, &failure).await;
                    break;
                }
            };
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(lost()))).collect()
    }
}

impl Sending {
    /// Tries the commands that are left, and answers those that are certain.
    async fn round(
        &self,
        desks: &mut Desks,
        commands: &[Command],
        left: &[usize],
        trial: Trial,
        answers: &mut [Option<Answer>],
    ) -> Outcome<()> {
        let tried: Vec<&Command> = left.iter().map(|index| &commands[*index]).collect();
        if trial != Trial::Remembered {
            tried.iter().for_each(|command| desks.forget(command.intent_id));
        }
        let ctx = &self.ctx;
        let now = ctx.now();
        if trial == Trial::Locked {
            let mut tx = ctx.begin_locked(locks(&tried)).await?;
            let done = done_before(&mut tx, &tried).await?;
            let settled = settle(ctx, &mut tx, desks, &tried, done, now).await?;
            tx.commit().await?;
            settled.conclude(ctx, desks, commands, left, trial, answers);
        } else {
            let mut conn = ctx.pool.acquire().await?;
            let settled = settle(ctx, &mut conn, desks, &tried, Vec::new(), now).await?;
            settled.conclude(ctx, desks, commands, left, trial, answers);
        }
        Ok(())
    }

    /// Something in the batch is more than the law foresaw. Each command alone: the guilty one fails, the others do not.
    async fn singly(
        &self,
        desks: &mut Desks,
        commands: &[Command],
        left: &[usize],
        answers: &mut [Option<Answer>],
        failure: &AppError,
    ) {
        tracing::error!(error = %failure, batch = left.len(), "a batch failed; its commands are tried one by one");
        for index in left {
            if let Err(alone) = self.round(desks, commands, &[*index], Trial::Locked, answers).await {
                desks.forget(commands[*index].intent_id);
                answers[*index] = Some(Err(alone));
            }
        }
    }
}

fn locks(commands: &[&Command]) -> Vec<i64> {
    let intents = commands.iter().map(|command| lock_key(command.intent_id));
    let keys = commands
        .iter()
        .filter_map(|c| c.once.as_ref().map(|once| idempotency::lock_key(&c.principal, &once.key)));
    intents.chain(keys).collect()
}

async fn done_before(conn: &mut PgConnection, commands: &[&Command]) -> Outcome<Vec<Kept>> {
    let claims =
        commands.iter().filter_map(|c| c.once.as_ref().map(|once| (c.principal.as_str(), once.key.as_str())));
    let (principals, keys): (Vec<&str>, Vec<&str>) = claims.unzip();
    if keys.is_empty() { Ok(Vec::new()) } else { idempotency::find_all(conn, &principals, &keys).await }
}

/// What a round came to.
struct Settled {
    judged: Vec<(IntentId, Judged)>,
    /// The intents that were written to.
    passed: HashSet<IntentId>,
    /// The intents of which this very round has read.
    fresh: HashSet<IntentId>,
    /// The intents that should have been written to.
    intents: Vec<IntentId>,
    messages: Vec<Arc<Message>>,
    events: Vec<Event>,
}

async fn settle(
    ctx: &Ctx,
    conn: &mut PgConnection,
    desks: &mut Desks,
    commands: &[&Command],
    done: Vec<Kept>,
    now: Timestamp,
) -> Outcome<Settled> {
    let round = desks.prepare(conn, commands, now).await?;
    let answered: Vec<(ChannelId, MessageId)> = commands
        .iter()
        .filter_map(|command| Some((command.channel_id, command.draft.correlation_id?)))
        .collect();
    let originals =
        if answered.is_empty() { Vec::new() } else { messages::load_all(conn, &answered, now).await? };
    let mut batch = Batch::new(ctx, desks, &round, originals, done);
    let judged = commands.iter().map(|command| (command.intent_id, batch.take(command, now))).collect();
    let intents = batch.intents();
    let passed = if intents.is_empty() { HashSet::new() } else { batch.writing().write(conn, now).await? };
    let (messages, events) = batch.written();
    Ok(Settled { judged, passed, fresh: round.fresh, intents, messages, events })
}

impl Settled {
    /// Tells the feed what is committed, and answers what is certain.
    fn conclude(
        self,
        ctx: &Ctx,
        desks: &mut Desks,
        commands: &[Command],
        left: &[usize],
        trial: Trial,
        answers: &mut [Option<Answer>],
    ) {
        let Self { judged, passed, fresh, intents, messages, events } = self;
        for intent in intents.iter().filter(|intent| !passed.contains(intent)) {
            // The line has gone on without this writer.
            desks.forget(*intent);
        }
        publish(ctx, desks, &passed, &messages, &events);
        let sent = messages.iter().filter(|message| passed.contains(&message.intent_id)).count();
        ctx.metrics.messages.inc_by(sent as u64);
        for (index, (intent, judged)) in left.iter().zip(judged) {
            answers[*index] = match judged {
                Judged::Done(message) => Some(Ok(message)),
                Judged::Sent(message) => passed.contains(&intent).then_some(Ok(message)),
                // What is remembered may be out of date; what was just read is not. Whether the same was done before is
                // known only under the locks.
                Judged::Refused(failure) => {
                    let sure = match trial {
                        Trial::Locked => true,
                        Trial::Reloaded => commands[*index].once.is_none(),
                        Trial::Remembered => commands[*index].once.is_none() && fresh.contains(&intent),
                    };
                    sure.then_some(Err(failure))
                }
            };
        }
    }
}

fn publish(
    ctx: &Ctx,
    desks: &Desks,
    passed: &HashSet<IntentId>,
    messages: &[Arc<Message>],
    events: &[Event],
) {
    for intent in passed {
        ctx.feed.publish(*intent, || {
            let mut channels: HashMap<ChannelId, Arc<entente_core::channels::Channel>> = HashMap::new();
            let mut records: Vec<Record> = Vec::new();
            for message in messages.iter().filter(|message| message.intent_id == *intent) {
                let known = desks.get(*intent).and_then(|desk| desk.channels.get(&message.channel_id));
                let Some(known) = known else { continue };
                let channel = channels.entry(known.id).or_insert_with(|| Arc::new(known.clone()));
                records.push(Record::Message { message: Arc::clone(message), channel: Arc::clone(channel) });
            }
            let logged = events.iter().filter(|event| event.intent_id == *intent);
            records.extend(logged.map(|event| Record::Event { event: event.clone(), turn: None }));
            records.sort_by_key(Record::seq);
            records
        });
    }
}

/// Where messages are handed in to be sent.
pub struct Sends(GroupCommit<Sending>);

impl Sends {
    /// Starts the writers, which work with this context.
    #[must_use]
    pub fn start(ctx: &Ctx, writers: usize, tasks: &Tasks) -> Self {
        Self(GroupCommit::start(Sending { ctx: ctx.clone() }, writers, tasks, &ctx.metrics))
    }

    /// Sends a message; resolves after it is committed.
    ///
    /// # Errors
    /// The law refuses it, see [`judge`]; the channel is not there or not visible to the sender.
    pub async fn send(&self, command: Command) -> Answer {
        self.send_all(command.intent_id, vec![command]).await.pop().unwrap_or_else(|| Err(lost()))
    }

    /// Sends messages on one intent in their order; each is answered for itself.
    pub async fn send_all(&self, intent: IntentId, commands: Vec<Command>) -> Vec<Answer> {
        let answers = self.0.submit(lock_key(intent).unsigned_abs(), commands).await;
        let stopped = |stopped: crate::db::commit::Stopped| AppError::Unavailable(stopped.to_string());
        answers.into_iter().map(|answer| answer.map_err(stopped)?).collect()
    }

    /// Sends a message to the channel of an intent that has this name; if no open one has, opens one that is open to all
    /// (RFC-0021 §1.4), with the message as its first.
    ///
    /// # Errors
    /// As [`Self::send`]; when the message is refused, no channel is opened.
    pub async fn send_by_name(
        &self,
        ctx: &Ctx,
        caller: &Caller,
        intent_id: IntentId,
        name: &str,
        draft: Draft,
        once: Option<Idempotency>,
    ) -> Answer {
        let mut conn = ctx.pool.acquire().await?;
        let now = ctx.now();
        seats::require(&mut conn, &draft.sender, intent_id, Level::Read, now).await?;
        let found = channels::find_open(&mut conn, intent_id, name).await?;
        drop(conn);
        match found.filter(|channel| channel.status_at(now) == ChannelStatus::Open) {
            Some(channel) => {
                let principal = caller.principal().to_owned();
                self.send(Command {
                    channel_id: channel.id,
                    intent_id,
                    draft,
                    principal,
                    once,
                    objection: None,
                    trace: caller.trace,
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
) -> Answer {
    let mut tx = ctx.begin_once(&[intent_id], caller, once).await?;
    let seat = seats::require(&mut tx, &draft.sender, intent_id, Level::Write, ctx.now()).await?;
    if let Some(done) = idempotency::find::<Message>(&mut tx, caller, once).await? {
        return Ok(Arc::new(done));
    }
    let mut line = Line::open(&mut tx, intent_id, caller.trace, ctx.now()).await?;
    let now = line.now();
    let channel = channels::find_open(&mut tx, intent_id, name).await?;
    let mut channel = match channel.filter(|channel| channel.status_at(now) == ChannelStatus::Open) {
        // Somebody else has just opened it.
        Some(channel) => channel,
        None => {
            channels::open(&mut tx, ctx, &mut line, &seat, &draft.sender, ChannelAsk::implicit(name)).await?
        }
    };
    let case = Case {
        channel: &channel,
        standing: seat.standing,
        holders: &holders(&mut tx, &draft, intent_id, now).await?,
        original: None,
        strict: ctx.settings.strict,
    };
    let ruling = judge(&draft, case, now)?;
    let message = say(ctx, &mut line, &mut channel, draft, ruling)?;
    line.save_with(&mut tx, &[&message], &[&channel]).await?;
    idempotency::keep(&mut tx, caller, once, &message, now).await?;
    tx.commit().await?;
    ctx.metrics.messages.inc();
    ctx.feed.news(intent_id);
    Ok(Arc::new(message))
}

/// Those who hold the role that a draft addresses and can read the intent.
async fn holders(
    conn: &mut PgConnection,
    draft: &Draft,
    intent: IntentId,
    now: Timestamp,
) -> Outcome<Vec<String>> {
    let Some(role) = draft.to.as_deref().and_then(|to| to.strip_prefix("role:")) else {
        return Ok(Vec::new());
    };
    let agents = super::agents::holding(conn, &[role]).await?;
    let at_work = agents.iter().filter(|agent| agent.status_at(now).takes_work());
    let asked: Vec<(IntentId, &str)> = at_work.map(|agent| (intent, agent.agent_id.as_str())).collect();
    let seats = seats::seats(conn, &asked, now).await?;
    let readers = seats.into_iter().filter(|(_, seat)| seat.standing.reaches(Level::Read));
    Ok(readers.map(|((_, agent), _)| agent).collect())
}
