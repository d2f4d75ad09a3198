//! A batch of commands: the decisions of the domain rules, and the rows to write.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use entente_domain::access::Level;
use entente_domain::canonical::{self, Digest};
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{Chance, ChannelId, EventId, IntentId, MessageId};
use entente_domain::log::events::{Draft as EventDraft, Event, Tail, check_trace_id, seal};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::{Case, Draft, Message, MessageStatus, Ruling, judge};
use entente_domain::payload::Payload;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::traces::Trace;
use entente_kernel::idempotency::StoredResponse;
use entente_kernel::log::guarded_write::{Advance, Writing};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{AppError, Outcome, not_found};
use serde_json::{Map, Value, json};

use super::append::{Addition, Append, Appended, EventCommand};
use super::cache::{BatchContext, IntentCache};
use super::{Command, lost};
use crate::Ctx;

/// Decision about a command, before anything is written.
pub(crate) enum Judged {
    /// It became a message or an event that is to be written.
    Decided(Appended),
    /// The same command was done before.
    Done(Appended),
    /// It is refused.
    Refused(AppError),
}

/// State of a batch while it is decided.
pub(crate) struct Batch<'a> {
    ctx: &'a Ctx,
    cache: &'a mut IntentCache,
    context: &'a BatchContext,
    /// The requests that responses of this batch answer, with their current status.
    originals: HashMap<(ChannelId, MessageId), Message>,
    /// Stored responses to the batch's idempotency keys.
    done: HashMap<(String, String), StoredResponse>,
    /// Messages that another server has written already, by their tokens.
    written: HashMap<u64, Arc<Message>>,
    /// Messages and events of this batch by idempotency key, because it may contain the same command twice.
    doing: HashMap<(String, String), (Digest, Appended)>,
    expected: HashMap<IntentId, i64>,
    messages: Vec<Arc<Message>>,
    /// Of each message, the principal of its key, unless that is the sender.
    owners: Vec<Option<String>>,
    events: Vec<Arc<Event>>,
    answered: Vec<(ChannelId, MessageId, IntentId)>,
    kept: Vec<(StoredResponse, IntentId)>,
}

impl<'a> Batch<'a> {
    pub fn new(
        ctx: &'a Ctx,
        cache: &'a mut IntentCache,
        context: &'a BatchContext,
        originals: Vec<Message>,
        done: Vec<StoredResponse>,
    ) -> Self {
        Self {
            ctx,
            cache,
            context,
            originals: originals
                .into_iter()
                .map(|message| ((message.channel_id, message.id), message))
                .collect(),
            done: done
                .into_iter()
                .map(|kept| ((kept.principal_id.clone(), kept.key.clone()), kept))
                .collect(),
            written: HashMap::new(),
            doing: HashMap::new(),
            expected: HashMap::new(),
            messages: Vec::new(),
            owners: Vec::new(),
            events: Vec::new(),
            answered: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Adds the messages among handed-over commands that are written already.
    pub fn knowing(self, written: HashMap<u64, Message>) -> Self {
        let written = written.into_iter().map(|(token, message)| (token, Arc::new(message))).collect();
        Self { written, ..self }
    }

    /// Decides one command; if it is allowed, adds it to the rows to write.
    pub fn take(&mut self, command: &Append, now: Timestamp) -> Judged {
        let judged = match &command.addition {
            Addition::Message(message) => self.take_message(command, message, now),
            Addition::Event(event) => self.take_event(command, event, now),
        };
        judged.unwrap_or_else(Judged::Refused)
    }

    fn take_message(&mut self, command: &Append, message: &Command, now: Timestamp) -> Outcome<Judged> {
        if let Some(written) = message.handover.and_then(|handover| self.written.get(&handover.token)) {
            return Ok(Judged::Done(Appended::Message(Arc::clone(written))));
        }
        if let Some(replayed) = self.replay(command)? {
            return Ok(replayed);
        }
        let sent = Appended::Message(self.send(command, message, now)?);
        self.keep(command, &sent)?;
        Ok(Judged::Decided(sent))
    }

    /// As [`take_message`](Self::take_message), in the order of checks of `entente_kernel::audit::events::append`.
    fn take_event(&mut self, command: &Append, event: &EventCommand, now: Timestamp) -> Outcome<Judged> {
        let (intent, actor) = (event.intent_id, &event.draft.actor);
        let intent_state = self.cache.get(intent).ok_or_else(|| not_found("intent"))?;
        self.cache.access(intent, actor).require(Level::Write)?;
        self.cache.require_fenced(command)?;
        if let Some(replayed) = self.replay(command)? {
            return Ok(replayed);
        }
        if let Some(policy) = &intent_state.policy {
            policy.judge_write(actor, self.cache.is_assigned(intent, actor))?;
        }
        if let Some(objection) = &event.objection {
            return Err(objection.clone().into());
        }
        let mut draft = event.draft.clone();
        draft.trace_id = draft.trace_id.or_else(|| event.trace.map(|trace| trace.id()));
        let intent_state = self.cache.get_mut(intent).ok_or_else(lost)?;
        self.expected.entry(intent).or_insert(intent_state.tail.seq);
        let id = EventId::mint(intent_state.tail.at.max(now), &*self.ctx.chance);
        let event = Arc::new(seal(draft, &mut intent_state.tail, intent, id, now));
        let appended = Appended::Event(Arc::clone(&event));
        self.keep(command, &appended)?;
        self.events.push(event);
        Ok(Judged::Decided(appended))
    }

    fn send(&mut self, append: &Append, command: &Command, now: Timestamp) -> Outcome<Arc<Message>> {
        let intent = command.intent_id;
        let access = self.cache.access(intent, &command.draft.sender);
        let channel =
            self.cache.get(intent).and_then(|intent_state| intent_state.channels.get(&command.channel_id));
        let channel = channel.filter(|_| access.reaches(Level::Read)).ok_or_else(|| not_found("channel"))?;
        self.cache.require_fenced(append)?;
        if let Some(objection) = &command.objection {
            return Err(objection.clone().into());
        }
        let original =
            command.draft.correlation_id.and_then(|id| self.originals.get(&(command.channel_id, id)));
        let holders = self.cache.holders(self.context, intent, command.draft.to.as_deref(), now);
        let case = Case { channel, access, holders: &holders, original, strict: self.ctx.settings.strict };
        let ruling = judge(&command.draft, case, now)?;
        let audit = channel
            .options
            .audit
            .then(|| audited(self.ctx, channel, &command.draft, &ruling, command.trace))
            .transpose()?;
        let answers = original.map(|original| (original.channel_id, original.id, intent));

        let intent_state = self.cache.get_mut(intent).ok_or_else(lost)?;
        self.expected.entry(intent).or_insert(intent_state.tail.seq);
        let channel = intent_state.channels.get_mut(&command.channel_id).ok_or_else(lost)?;
        let chance: &dyn Chance = match &command.handover {
            Some(handover) => handover,
            None => &*self.ctx.chance,
        };
        let message =
            Arc::new(compose(chance, &mut intent_state.tail, channel, command.draft.clone(), ruling, now)?);
        if let Some(mut draft) = audit {
            draft.payload.insert("message_id".to_owned(), Value::from(message.id.to_string()));
            let id = EventId::mint(now, &*self.ctx.chance);
            self.events.push(Arc::new(seal(draft, &mut intent_state.tail, intent, id, now)));
        }
        self.answered.extend(answers);
        self.messages.push(Arc::clone(&message));
        self.owners.push((command.principal != message.sender).then(|| command.principal.clone()));
        Ok(message)
    }

    /// Returns the message or event written under the same idempotency key, earlier or by this batch.
    fn replay(&self, command: &Append) -> Outcome<Option<Judged>> {
        let Some((principal, once)) = command.once() else { return Ok(None) };
        let name = (principal.to_owned(), once.key.clone());
        if let Some((fingerprint, appended)) = self.doing.get(&name) {
            let same = *fingerprint == once.fingerprint;
            return if same {
                Ok(Some(Judged::Decided(appended.clone())))
            } else {
                Err(Idempotency::mismatch().into())
            };
        }
        let Some(done) = self.done.get(&name) else { return Ok(None) };
        if done.fingerprint != once.fingerprint {
            return Err(Idempotency::mismatch().into());
        }
        let done = match &command.addition {
            Addition::Message(_) => Appended::Message(serde_json::from_str(&done.outcome).map(Arc::new)?),
            Addition::Event(_) => Appended::Event(serde_json::from_str(&done.outcome).map(Arc::new)?),
        };
        Ok(Some(Judged::Done(done)))
    }

    fn keep(&mut self, command: &Append, appended: &Appended) -> Outcome<()> {
        let Some((principal, once)) = command.once() else { return Ok(()) };
        let outcome = match appended {
            Appended::Message(message) => serde_json::to_string(&**message)?,
            Appended::Event(event) => serde_json::to_string(&**event)?,
        };
        let kept = StoredResponse {
            principal_id: principal.to_owned(),
            key: once.key.clone(),
            fingerprint: once.fingerprint.to_vec(),
            outcome,
        };
        let name = (principal.to_owned(), once.key.clone());
        self.doing.insert(name, (once.fingerprint, appended.clone()));
        self.kept.push((kept, command.intent_id()));
        Ok(())
    }

    /// Returns the rows to write.
    pub fn writing(&self) -> Writing<'_> {
        let advance = |(intent, expected): (&IntentId, &i64)| {
            let tail = self.cache.get(*intent)?.tail.clone();
            Some(Advance { intent_id: *intent, expected: *expected, tail })
        };
        let on: HashSet<(IntentId, ChannelId)> =
            self.messages.iter().map(|m| (m.intent_id, m.channel_id)).collect();
        Writing {
            advances: self.expected.iter().filter_map(advance).collect(),
            messages: self.messages.iter().map(Arc::as_ref).collect(),
            owners: self.owners.iter().map(Option::as_deref).collect(),
            channels: on.iter().filter_map(|(i, c)| self.cache.get(*i)?.channels.get(c)).collect(),
            events: self.events.iter().map(Arc::as_ref).collect(),
            answered: self.answered.clone(),
            kept: self.kept.iter().map(|(kept, intent)| (kept, *intent)).collect(),
        }
    }

    /// Returns the intents that are written to.
    pub fn intents(&self) -> Vec<IntentId> {
        self.expected.keys().copied().collect()
    }

    /// Returns the written messages and events, for the feed.
    pub fn written(self) -> (Vec<Arc<Message>>, Vec<Arc<Event>>) {
        (self.messages, self.events)
    }
}

/// Builds an allowed message: assigns its number in the channel, its position in the log, and its id.
fn compose(
    chance: &dyn Chance,
    tail: &mut Tail,
    channel: &mut Channel,
    draft: Draft,
    ruling: Ruling,
    now: Timestamp,
) -> Outcome<Message> {
    let (seq, at) = tail.advance(now);
    channel.message_count += 1;
    channel.last_message_at = Some(at);
    let number = u32::try_from(channel.message_count).map_err(|_too_many| {
        let message = format!("The channel has {} messages, the maximum. Open another one.", u32::MAX);
        Refusal::new(Code::Unprocessable, message)
    })?;
    Ok(Message {
        id: MessageId::mint(at, number, chance),
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

/// Like [`compose`], on a log under its lock; on an audited channel it also records the event.
pub(crate) fn say(
    ctx: &Ctx,
    log: &mut IntentLog,
    channel: &mut Channel,
    draft: Draft,
    ruling: Ruling,
) -> Outcome<Message> {
    let now = log.now();
    let audit =
        channel.options.audit.then(|| audited(ctx, channel, &draft, &ruling, log.trace)).transpose()?;
    let message = compose(&*ctx.chance, &mut log.tail, channel, draft, ruling, now)?;
    if let Some(mut logged) = audit {
        logged.payload.insert("message_id".to_owned(), Value::from(message.id.to_string()));
        log.record(ctx, logged);
    }
    Ok(message)
}

/// Builds the event of an audited message (RFC-0021 §6), without the message's id.
///
/// It is built before the message gets a number, so that a payload that cannot be hashed is refused as a whole.
fn audited(
    ctx: &Ctx,
    channel: &Channel,
    draft: &Draft,
    ruling: &Ruling,
    trace: Option<Trace>,
) -> Outcome<EventDraft> {
    let said: Value = serde_json::from_str(draft.payload.as_str()).map_err(|e| {
        let message = format!("The channel is audited, and the payload cannot be hashed: {e}.");
        Refusal::field(Code::Unprocessable, "payload", "number", message)
    })?;
    canonical::exact_text(draft.payload.as_str())?;
    let payload = json!({
        "channel_id": channel.id, "channel_name": channel.name, "message_type": draft.message_type, "to": ruling.to,
        "payload": said,
    });
    let Value::Object(mut payload) = payload else {
        return Err(AppError::Inconsistent("the payload of a message's event is not an object".to_owned()));
    };
    let hints: Map<String, Value> = match &draft.metadata {
        Some(metadata) => serde_json::from_str(Payload::as_str(metadata)).unwrap_or_default(),
        None => Map::new(),
    };
    // With the sender's proof and the other signed members, the log alone proves the author of the message
    // (RFC-0018).
    if let Some(proof) = hints.get("proof").filter(|proof| canonical::exact(proof).is_ok()) {
        payload.insert("proof".to_owned(), proof.clone());
        payload.extend(draft.correlation_id.map(|id| ("correlation_id".to_owned(), json!(id))));
    }
    let hint = |name: &str| {
        let text = hints.get(name)?.as_str()?;
        (text.len() <= entente_domain::limits::NAME_BYTES).then(|| text.to_owned())
    };
    Ok(EventDraft {
        event_type: ctx.settings.audit_event_type.clone(),
        actor: draft.sender.clone(),
        payload,
        posted: false,
        trace_id: hint("trace_id")
            .filter(|trace| check_trace_id(trace).is_ok())
            .or_else(|| trace.map(|trace| trace.id())),
        parent_event_id: hint("parent_event_id"),
        proof: None,
        proof_verified: false,
    })
}
