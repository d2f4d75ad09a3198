//! Sending messages (RFC-0021 §2 to §4): the hot path, as one group commit.
//!
//! A batch takes the locks of its intents, reads what it needs to know of its channels in a few statements, has the law
//! judge each command, and writes all that was allowed at once. A command that is refused costs its neighbours nothing.
//! After the commit the feed is told, and then each caller.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use entente_core::access::Level;
use entente_core::canonical;
use entente_core::channels::{Channel, ChannelAsk, ChannelStatus};
use entente_core::clock::Timestamp;
use entente_core::events::{Draft as EventDraft, Event, Tail, check_trace_id, seal};
use entente_core::idempotency::Idempotency;
use entente_core::ids::{ChannelId, EventId, IntentId, MessageId};
use entente_core::messages::{Case, Draft, Message, MessageStatus, Ruling, judge};
use entente_core::payload::Payload;
use entente_core::refusal::Refusal;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use super::cases::Cases;
use super::events::Line;
use super::idempotency::Kept;
use super::{
    AppError, Caller, Ctx, Outcome, Tx, access, channels, events, idempotency, lock_key, messages, not_found, pending,
};
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
}

/// The deed of the group commit.
pub struct Sending {
    /// What it works with.
    pub ctx: Ctx,
}

impl Deed for Sending {
    type Command = Command;
    type Answer = Outcome<Arc<Message>>;

    async fn apply(&self, commands: Vec<Command>) -> Vec<Outcome<Arc<Message>>> {
        match commit(&self.ctx, &commands).await {
            Ok(answers) => answers,
            Err(AppError::Unavailable(why)) => {
                commands.iter().map(|_| Err(AppError::Unavailable(why.clone()))).collect()
            }
            Err(failure) if commands.len() == 1 => vec![Err(failure)],
            Err(failure) => {
                // Something in the batch is more than the law foresaw. Each command alone: the guilty one fails, the
                // others do not.
                tracing::error!(error = %failure, batch = commands.len(), "a batch failed; its commands are tried singly");
                let mut answers = Vec::with_capacity(commands.len());
                for command in &commands {
                    let alone = commit(&self.ctx, std::slice::from_ref(command)).await;
                    answers.push(alone.and_then(|mut one| one.pop().unwrap_or_else(|| Err(lost()))));
                }
                answers
            }
        }
    }
}

fn lost() -> AppError {
    AppError::Inconsistent("a command got no answer".to_owned())
}

async fn commit(ctx: &Ctx, commands: &[Command]) -> Outcome<Vec<Outcome<Arc<Message>>>> {
    let mut locks: Vec<i64> = commands.iter().map(|command| lock_key(command.intent_id)).collect();
    locks.extend(
        commands.iter().filter_map(|c| c.once.as_ref().map(|once| idempotency::lock_key(&c.principal, &once.key))),
    );
    let mut tx = ctx.begin_locked(locks).await?;
    let settled = settle(&mut tx, ctx, commands).await?;
    tx.commit().await?;
    ctx.metrics.messages.inc_by(settled.messages.len() as u64);
    settled.publish(ctx);
    Ok(settled.answers)
}

/// What became of a batch.
struct Settled {
    /// What each caller hears.
    answers: Vec<Outcome<Arc<Message>>>,
    /// What was sent, in the order of the lines.
    messages: Vec<Arc<Message>>,
    /// What was recorded of audited channels.
    audited: Vec<Event>,
    /// The channels.
    channels: HashMap<ChannelId, Arc<Channel>>,
}

impl Settled {
    /// Tells the feed what was committed.
    fn publish(&self, ctx: &Ctx) {
        let mut intents: Vec<IntentId> = self.messages.iter().map(|message| message.intent_id).collect();
        intents.sort_unstable();
        intents.dedup();
        for intent in intents {
            ctx.feed.publish(intent, || self.records(intent));
        }
    }

    fn records(&self, intent: IntentId) -> Vec<Record> {
        let messages = self.messages.iter().filter(|message| message.intent_id == intent).filter_map(|message| {
            let channel = Arc::clone(self.channels.get(&message.channel_id)?);
            Some(Record::Message { message: Arc::clone(message), channel })
        });
        let events = self.audited.iter().filter(|event| event.intent_id == intent);
        let mut records: Vec<Record> =
            messages.chain(events.map(|event| Record::Event { event: event.clone(), turn: None })).collect();
        records.sort_by_key(Record::seq);
        records
    }
}

/// The state of a batch while its commands are judged.
struct Batch<'a> {
    ctx: &'a Ctx,
    cases: Cases,
    /// What was done before under the batch's idempotency keys.
    done: HashMap<(String, String), Kept>,
    messages: Vec<Arc<Message>>,
    audited: Vec<Event>,
    answered: Vec<(ChannelId, MessageId)>,
    kept: Vec<Kept>,
}

async fn settle(tx: &mut Tx, ctx: &Ctx, commands: &[Command]) -> Outcome<Settled> {
    let now = ctx.now();
    let mut batch = Batch {
        ctx,
        cases: Cases::load(tx, commands, now).await?,
        done: done_before(tx, commands).await?,
        messages: Vec::with_capacity(commands.len()),
        audited: Vec::new(),
        answered: Vec::new(),
        kept: Vec::new(),
    };
    let answers: Vec<Outcome<Arc<Message>>> = commands.iter().map(|command| batch.send(command, now)).collect();
    batch.write(tx, now).await?;
    let channels = batch.cases.channels.into_values().map(|channel| (channel.id, Arc::new(channel))).collect();
    Ok(Settled { answers, messages: batch.messages, audited: batch.audited, channels })
}

async fn done_before(conn: &mut PgConnection, commands: &[Command]) -> Outcome<HashMap<(String, String), Kept>> {
    let claims = || commands.iter().filter_map(|c| c.once.as_ref().map(|once| (c.principal.as_str(), once.key.as_str())));
    let (principals, keys): (Vec<&str>, Vec<&str>) = claims().unzip();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let kept = idempotency::find_all(conn, &principals, &keys).await?;
    Ok(kept.into_iter().map(|kept| ((kept.principal_id.clone(), kept.key.clone()), kept)).collect())
}

impl Batch<'_> {
    /// Judges one command; if the law allows it, gives the message its numbers and notes what is to be written.
    fn send(&mut self, command: &Command, now: Timestamp) -> Outcome<Arc<Message>> {
        if let Some(done) = self.replay(command)? {
            return Ok(done);
        }
        let channel = self.cases.channels.get(&command.channel_id).ok_or_else(|| not_found("channel"))?;
        let standing = self.cases.standing(channel, &command.draft.sender);
        if !standing.reaches(Level::Read) {
            return Err(not_found("channel"));
        }
        let original = command.draft.correlation_id.and_then(|id| self.cases.originals.get(&(command.channel_id, id)));
        let holders = self.cases.holders(channel, command.draft.to.as_deref(), now);
        let case = Case { channel, standing, holders: &holders, original, strict: self.ctx.settings.strict };
        let ruling = judge(&command.draft, case, now)?;
        let audit = channel.options.audit.then(|| self.audit_draft(channel, command, &ruling)).transpose()?;
        let answers_request = original.map(|original| (original.channel_id, original.id));
        let message = Arc::new(self.number(command, ruling, now)?);
        if let Some((mut draft, payload)) = audit {
            draft.payload = with_ids(payload, &message);
            self.record(draft, message.intent_id, now);
        }
        self.answered.extend(answers_request);
        self.keep(command, &message)?;
        self.messages.push(Arc::clone(&message));
        Ok(message)
    }

    /// The message that was sent before under the same idempotency key.
    fn replay(&self, command: &Command) -> Outcome<Option<Arc<Message>>> {
        let Some(once) = &command.once else { return Ok(None) };
        let Some(done) = self.done.get(&(command.principal.clone(), once.key.clone())) else { return Ok(None) };
        if done.fingerprint != once.fingerprint {
            return Err(once.mismatch().into());
        }
        Ok(Some(Arc::new(serde_json::from_str(&done.outcome)?)))
    }

    fn keep(&mut self, command: &Command, message: &Message) -> Outcome<()> {
        let Some(once) = &command.once else { return Ok(()) };
        let kept = || -> Outcome<Kept> {
            Ok(Kept {
                principal_id: command.principal.clone(),
                key: once.key.clone(),
                fingerprint: once.fingerprint.to_vec(),
                outcome: serde_json::to_string(message)?,
            })
        };
        // The same command may stand in this very batch once more.
        self.done.insert((command.principal.clone(), once.key.clone()), kept()?);
        self.kept.push(kept()?);
        Ok(())
    }

    /// Makes the message: its number in the channel, its place in the intent's line, its id.
    fn number(&mut self, command: &Command, ruling: Ruling, now: Timestamp) -> Outcome<Message> {
        let channel = self.cases.channels.get_mut(&command.channel_id).ok_or_else(lost)?;
        let tail = self.cases.tails.entry(command.intent_id).or_insert_with(|| Tail::empty(now));
        compose(self.ctx, tail, channel, command.draft.clone(), ruling, now)
    }

    /// The event of an audited message (RFC-0021 §6), made before the message is numbered: what cannot be hashed is
    /// refused, not half sent.
    fn audit_draft(
        &self,
        channel: &Channel,
        command: &Command,
        ruling: &Ruling,
    ) -> Result<(EventDraft, Map<String, Value>), AppError> {
        let said: Value = serde_json::from_str(command.draft.payload.as_str()).map_err(|e| {
            Refusal::field(
                entente_core::refusal::Code::Unprocessable,
                "payload",
                "number",
                format!("The channel is audited, and the payload cannot be hashed: {e}."),
            )
        })?;
        canonical::exact(&said)?;
        let payload = json!({
            "channel_id": channel.id, "channel_name": channel.name, "message_type": command.draft.message_type,
            "to": ruling.to, "payload": said,
        });
        let Value::Object(payload) = payload else { return Err(lost()) };
        let hint = |name: &str| hint(command.draft.metadata.as_ref(), name);
        let draft = EventDraft {
            event_type: self.ctx.settings.audit_event_type.clone(),
            actor: command.draft.sender.clone(),
            payload: Map::new(),
            posted: false,
            trace_id: hint("trace_id").filter(|trace| check_trace_id(trace).is_ok()),
            parent_event_id: hint("parent_event_id"),
            proof: None,
        };
        Ok((draft, payload))
    }

    fn record(&mut self, draft: EventDraft, intent_id: IntentId, now: Timestamp) {
        let tail = self.cases.tails.entry(intent_id).or_insert_with(|| Tail::empty(now));
        let id = EventId::mint(now, &*self.ctx.chance);
        self.audited.push(seal(draft, tail, intent_id, id, now));
    }

    /// Writes everything that was allowed.
    async fn write(&self, conn: &mut PgConnection, now: Timestamp) -> Outcome<()> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let sent: Vec<&Message> = self.messages.iter().map(Arc::as_ref).collect();
        messages::insert(conn, &sent).await?;
        events::insert(conn, &self.audited).await?;
        pending::insert(conn, &sent).await?;
        pending::settle(conn, &self.answered).await?;
        if !self.kept.is_empty() {
            idempotency::keep_all(conn, &self.kept, now).await?;
        }
        let on: HashSet<ChannelId> = sent.iter().map(|message| message.channel_id).collect();
        let channels: Vec<&Channel> = on.iter().filter_map(|id| self.cases.channels.get(id)).collect();
        channels::save_counts(conn, &channels).await?;
        let of: HashSet<IntentId> = sent.iter().map(|message| message.intent_id).collect();
        let tails: Vec<(IntentId, &Tail)> =
            of.iter().filter_map(|id| Some((*id, self.cases.tails.get(id)?))).collect();
        events::save_tails(conn, &tails).await
    }
}

/// Makes a message that the law has allowed: gives it its number in the channel, its place in the line, and its id.
pub(crate) fn compose(
    ctx: &Ctx,
    tail: &mut Tail,
    channel: &mut Channel,
    draft: Draft,
    ruling: Ruling,
    now: Timestamp,
) -> Outcome<Message> {
    let (seq, at) = tail.advance(now);
    channel.message_count += 1;
    channel.last_message_at = Some(at);
    let number = u32::try_from(channel.message_count).map_err(|_| lost())?;
    Ok(Message {
        id: MessageId::mint(at, number, &*ctx.chance),
        number,
        seq,
        channel_id: channel.id,
        intent_id: channel.intent_id,
        sender: draft.sender,
        to: ruling.to,
        recipients: ruling.recipients,
        message_type: draft.message_type,
        correlation_id: draft.correlation_id,
        payload: draft.payload,
        metadata: draft.metadata,
        created_at: at,
        expires_at: draft.expires_at,
        status: MessageStatus::Delivered,
        read_at: None,
    })
}

fn with_ids(mut payload: Map<String, Value>, message: &Message) -> Map<String, Value> {
    payload.insert("message_id".to_owned(), Value::from(message.id.to_string()));
    payload
}

/// A hint of a message's metadata that is text (RFC-0020's ids among them).
fn hint(metadata: Option<&Payload>, name: &str) -> Option<String> {
    let members: Map<String, Value> = serde_json::from_str(metadata?.as_str()).ok()?;
    members.get(name)?.as_str().filter(|text| text.len() <= entente_core::limits::NAME_BYTES).map(str::to_owned)
}

/// Where messages are handed in to be sent.
pub struct Sends(GroupCommit<Sending>);

impl Sends {
    /// Starts the writers, which work with this context.
    pub fn start(ctx: &Ctx, writers: usize, tasks: &Tasks) -> Self {
        Self(GroupCommit::start(Sending { ctx: ctx.clone() }, writers, tasks, &ctx.metrics))
    }

    /// Sends a message; resolves after it is committed.
    ///
    /// # Errors
    /// The law refuses it, see [`judge`]; the channel is not there or not visible to the sender.
    pub async fn send(&self, command: Command) -> Outcome<Arc<Message>> {
        let shard = lock_key(command.intent_id).unsigned_abs();
        let answer = self.0.submit(shard, command).await;
        answer.map_err(|stopped| AppError::Unavailable(stopped.to_string()))?
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
    ) -> Outcome<Arc<Message>> {
        let command = |channel_id| Command {
            channel_id,
            intent_id,
            draft: draft.clone(),
            principal: caller.principal().to_owned(),
            once: once.clone(),
        };
        let mut tx = ctx.begin_once(&[intent_id], caller, once.as_ref()).await?;
        let seat = access::require(&mut tx, &draft.sender, intent_id, Level::Read, ctx.now()).await?;
        let found = channels::find_open(&mut tx, intent_id, name).await?;
        if let Some(channel) = found.filter(|channel| channel.status_at(ctx.now()) == ChannelStatus::Open) {
            // The usual way; the lock is only needed to open a channel.
            tx.rollback().await?;
            return self.send(command(channel.id)).await;
        }
        if let Some(done) = idempotency::find::<Message>(&mut tx, caller, once.as_ref()).await? {
            return Ok(Arc::new(done));
        }
        let mut line = Line::open(&mut tx, intent_id, ctx.now()).await?;
        let ask = ChannelAsk::implicit(name);
        let channel = channels::open(&mut tx, ctx, &mut line, &seat, &draft.sender, ask).await?;
        line.save(&mut tx).await?;
        let mut settled = settle(&mut tx, ctx, &[command(channel.id)]).await?;
        let message = settled.answers.pop().unwrap_or_else(|| Err(lost()))?;
        tx.commit().await?;
        ctx.metrics.messages.inc();
        // The channel's own event is not among what was settled: let followers read both from the database.
        ctx.feed.news(intent_id);
        Ok(message)
    }
}
