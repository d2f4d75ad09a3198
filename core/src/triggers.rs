//! Triggers (RFC-0017): standing declarations that make intents when a condition is met. What a trigger is, how it begins
//! and changes, and whether it makes an intent when it is due. When that is, is `triggers/schedule.rs`; what it listens to
//! `triggers/filter.rs`; what it is sent `triggers/hooks.rs`; what it makes `triggers/making.rs`.

pub mod cron;
pub mod filter;
pub mod hooks;
pub mod making;
pub mod schedule;
pub mod template;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::hooks::Verify;
use self::making::IntentTemplate;
use self::schedule::{Missed, Schedule};
use crate::clock::Timestamp;
use crate::ids::{IntentId, TriggerId};
use crate::limits::{
    DURATION_SECONDS, METADATA_BYTES, TITLE_BYTES, TRIGGER_DEPTH, TRIGGER_FAILURES,
    TRIGGER_FIRINGS_PER_MINUTE, TRIGGER_MAX_FIRES,
};
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};
use crate::tasks::check_size;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($(#[$each:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        pub enum $name { $($(#[$each])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that it is written as.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Reads one; `None` when there is no such word.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }
    };
}

words! {
    /// What a trigger waits for. One that says nothing of it in its condition is only fired by hand.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerType)]
    TriggerKind:
    /// A time.
    Schedule = "schedule",
    /// Something that is recorded.
    Event = "event",
    /// A request from outside.
    Webhook = "webhook",
}

words! {
    /// What it does while an intent of the same type is still open (RFC-0017 §6).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerDeduplication)]
    Deduplication:
    /// It makes another one.
    #[default]
    Allow = "allow",
    /// It makes none.
    Skip = "skip",
    /// It makes one when the other is over; one firing waits at the most.
    Queue = "queue",
}

words! {
    /// Why the server switched a trigger off.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerDisabledReason)]
    DisabledReason:
    /// Its one time has come.
    Done = "done",
    /// It has made as many intents as it was to.
    MaxFires = "max_fires",
    /// It failed too many times in a row.
    Failing = "failing",
    /// No key by which it acts is in force any more, or may do what it takes.
    Powers = "powers",
}

words! {
    /// Why a trigger was due and made no intent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerSkipReason)]
    SkipReason:
    /// An intent of the type is still open, and it is not to make a second one.
    Deduplicated = "deduplicated",
    /// One firing waits already.
    QueueFull = "queue_full",
    /// It fired too short a while ago.
    Cooldown = "cooldown",
    /// It was due too often within a minute.
    Rate = "rate",
    /// What it was due for is the doing of too many triggers in a row.
    CascadeLimit = "cascade_limit",
    /// Its owner may not read what it was due for (any more).
    NotVisible = "not_visible",
    /// Nobody looked when it was due.
    Missed = "missed",
    /// It was switched off before it could fire.
    Disabled = "disabled",
}

words! {
    /// What a trigger was fired by.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerCause)]
    Cause:
    /// A time that had come.
    Due = "due",
    /// An event.
    Event = "event",
    /// A delivery.
    Webhook = "webhook",
    /// Somebody.
    Hand = "hand",
}

/// What a trigger waits for. Only what belongs to its kind means anything; the rest is kept as given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// A cron expression of five fields.
    pub cron: Option<String>,
    /// The IANA time zone that it goes by; UTC when nothing is said.
    pub timezone: Option<String>,
    /// Instead of an expression: an interval.
    pub every_seconds: Option<u32>,
    /// Instead of both: one moment.
    pub at: Option<Timestamp>,
    /// It is due from then on.
    pub starts_at: Option<Timestamp>,
    /// It is due up to then.
    pub ends_at: Option<Timestamp>,
    /// What becomes of times that passed while no server looked.
    pub missed: Option<Missed>,
    /// The type of event, or a pattern of types.
    pub event: Option<String>,
    /// What its members have to be.
    pub filter: Option<Map<String, Value>>,
    /// The client's own word for where webhooks come from.
    pub path: Option<String>,
    /// The method that they come by: always POST.
    pub method: Option<String>,
    /// How who sends them shows that it may.
    pub verify: Option<Verify>,
    /// What is taken out of them, into the intent's context.
    pub transform: Option<Map<String, Value>>,
}

/// A trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// Its id.
    pub id: TriggerId,
    /// Whose it is.
    pub principal_id: String,
    /// As whom it makes intents.
    pub agent_id: String,
    /// What people call it.
    pub name: String,
    /// What it waits for.
    pub kind: TriggerKind,
    /// Whether it fires.
    pub enabled: bool,
    /// Why the server switched it off.
    pub disabled_reason: Option<DisabledReason>,
    /// What exactly it waits for.
    pub condition: Option<Condition>,
    /// What it makes.
    pub template: Option<IntentTemplate>,
    /// What it does while one of these is open.
    pub deduplication: Deduplication,
    /// Where it belongs: it compares with intents of triggers there.
    pub namespace: Option<String>,
    /// Seconds that it rests after it fired.
    pub cooldown_seconds: Option<u32>,
    /// Intents that it makes in all.
    pub max_fires: Option<i64>,
    /// Triggers in a row whose doing an intent of it may be, itself included.
    pub max_depth: u32,
    /// Intents that it has made.
    pub fire_count: i64,
    /// Failures since it last made one.
    pub failures: u32,
    /// Guards writes (`If-Match`).
    pub version: i64,
    /// When it was set up.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// When it last made an intent.
    pub last_fired_at: Option<Timestamp>,
    /// When it is due.
    pub next_due: Option<Timestamp>,
}

/// What a client says of a trigger, new or changed. `None`: nothing is said. An inner `None`: there is to be none.
#[derive(Debug, Clone, Default)]
pub struct TriggerAsk {
    /// See [`Trigger::name`].
    pub name: Option<String>,
    /// See [`Trigger::enabled`].
    pub enabled: Option<bool>,
    /// See [`Trigger::condition`].
    pub condition: Option<Option<Condition>>,
    /// See [`Trigger::template`].
    pub template: Option<Option<IntentTemplate>>,
    /// See [`Trigger::deduplication`].
    pub deduplication: Option<Deduplication>,
    /// See [`Trigger::namespace`].
    pub namespace: Option<Option<String>>,
    /// See [`Trigger::cooldown_seconds`].
    pub cooldown_seconds: Option<Option<u32>>,
    /// See [`Trigger::max_fires`].
    pub max_fires: Option<Option<i64>>,
    /// See [`Trigger::max_depth`].
    pub max_depth: Option<Option<u32>>,
}

impl TriggerAsk {
    /// Whether it only switches a trigger on or off: what an admin may do with another's.
    #[must_use]
    pub fn only_switches(&self) -> bool {
        self.name.is_none()
            && self.condition.is_none()
            && self.template.is_none()
            && self.deduplication.is_none()
            && self.namespace.is_none()
            && self.cooldown_seconds.is_none()
            && self.max_fires.is_none()
            && self.max_depth.is_none()
    }
}

/// What a trigger's firing is judged by, besides the trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// The time.
    pub now: Timestamp,
    /// An intent of the same type is open.
    pub open: bool,
    /// Another firing of it waits for that.
    pub waiting: bool,
    /// How many triggers' doing the intent would be.
    pub depth: u32,
}

/// What becomes of a firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// An intent is made.
    Fire,
    /// None is made.
    Skip(SkipReason),
    /// It waits until the open one is over.
    Wait,
}

impl Trigger {
    /// Sets a trigger up.
    ///
    /// # Errors
    /// Something that is none or too much; a schedule that is never due.
    pub fn create(
        kind: TriggerKind,
        ask: TriggerAsk,
        id: TriggerId,
        (principal_id, agent_id): (&str, &str),
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        let blank = Self {
            id,
            principal_id: principal_id.to_owned(),
            agent_id: agent_id.to_owned(),
            name: String::new(),
            kind,
            enabled: true,
            disabled_reason: None,
            condition: None,
            template: None,
            deduplication: Deduplication::Allow,
            namespace: None,
            cooldown_seconds: None,
            max_fires: None,
            max_depth: TRIGGER_DEPTH,
            fire_count: 0,
            failures: 0,
            version: 0,
            created_at: now,
            updated_at: now,
            last_fired_at: None,
            next_due: None,
        };
        let enabled = Some(ask.enabled.unwrap_or(true));
        blank.changed(TriggerAsk { enabled, ..ask }, now)
    }

    /// The trigger after a change. Its times begin anew: what it was due for meanwhile is not made up for.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn changed(&self, ask: TriggerAsk, now: Timestamp) -> Result<Self, Refusal> {
        let moved = ask.condition.is_some() || ask.enabled == Some(true);
        let mut next = Self {
            name: ask.name.unwrap_or_else(|| self.name.clone()),
            enabled: ask.enabled.unwrap_or(self.enabled),
            condition: ask.condition.unwrap_or_else(|| self.condition.clone()),
            template: ask.template.unwrap_or_else(|| self.template.clone()),
            deduplication: ask.deduplication.unwrap_or(self.deduplication),
            namespace: ask.namespace.unwrap_or_else(|| self.namespace.clone()),
            cooldown_seconds: ask.cooldown_seconds.unwrap_or(self.cooldown_seconds),
            max_fires: ask.max_fires.unwrap_or(self.max_fires),
            max_depth: ask.max_depth.map_or(self.max_depth, |depth| depth.unwrap_or(TRIGGER_DEPTH)),
            version: self.version + 1,
            updated_at: now,
            ..self.clone()
        };
        if ask.enabled.is_some() {
            next.disabled_reason = None;
            next.failures = 0;
        }
        next.check()?;
        let schedule = next.schedule()?;
        let due = schedule.as_ref().and_then(|schedule| schedule.next_after(now));
        if moved && next.enabled && due.is_none() && schedule.is_some() {
            let message = "`condition` is never due: all of its times are in the past.";
            return Err(Refusal::field(Code::Unprocessable, "condition", "past", message));
        }
        if moved {
            next.next_due = due;
        }
        if !next.enabled {
            next.next_due = None;
        }
        Ok(next)
    }

    fn check(&self) -> Result<(), Refusal> {
        let range = |member: &str, fine: bool, what: String| {
            let message = format!("`{member}` must be {what}.");
            if fine { Ok(()) } else { Err(Refusal::field(Code::InvalidRequest, member, "range", message)) }
        };
        let name = self.name.trim();
        let fine = !name.is_empty() && self.name.len() <= TITLE_BYTES && !name.chars().any(char::is_control);
        range("name", fine, format!("a line of 1 to {TITLE_BYTES} bytes"))?;
        let seconds = 1..=DURATION_SECONDS;
        let fine = self.cooldown_seconds.is_none_or(|cooldown| seconds.contains(&cooldown));
        range("cooldown_seconds", fine, format!("a number from 1 to {DURATION_SECONDS}"))?;
        let fine = self.max_fires.is_none_or(|most| (1..=TRIGGER_MAX_FIRES).contains(&most));
        range("max_fires", fine, format!("a number from 1 to {TRIGGER_MAX_FIRES}"))?;
        let fine = (1..=TRIGGER_DEPTH).contains(&self.max_depth);
        range("max_depth", fine, format!("a number from 1 to {TRIGGER_DEPTH}"))?;
        if let Some(namespace) = &self.namespace {
            check_name("namespace", namespace)?;
        }
        if let Some(condition) = &self.condition {
            self.check_condition(condition)?;
        }
        self.template.as_ref().map_or(Ok(()), IntentTemplate::check)
    }

    fn check_condition(&self, condition: &Condition) -> Result<(), Refusal> {
        check_size("condition", condition, METADATA_BYTES)?;
        filter::check(condition.event.as_deref(), condition.filter.as_ref())?;
        if let Some(transform) = &condition.transform {
            template::check("condition.transform", &Value::Object(transform.clone()))?;
        }
        if condition.method.as_deref().is_some_and(|method| !method.eq_ignore_ascii_case("POST")) {
            let message = "`condition.method` can only be POST: nothing else may change anything.";
            return Err(Refusal::field(Code::Unprocessable, "condition", "method", message));
        }
        Ok(())
    }

    /// When it is due, if that is what it waits for.
    ///
    /// # Errors
    /// Its condition is none.
    pub fn schedule(&self) -> Result<Option<Schedule>, Refusal> {
        match (&self.condition, self.kind) {
            (Some(condition), TriggerKind::Schedule) => Schedule::of(condition, self.created_at),
            _ => Ok(None),
        }
    }

    /// What it listens to, if that is what it waits for.
    #[must_use]
    pub fn listens_to(&self) -> Option<&str> {
        let event = self.condition.as_ref().and_then(|condition| condition.event.as_deref());
        event.filter(|_| self.kind == TriggerKind::Event)
    }

    /// Whether it hears an event with these [`filter::members`].
    #[must_use]
    pub fn hears(&self, event: &Map<String, Value>) -> bool {
        let filter = self.condition.as_ref().and_then(|condition| condition.filter.as_ref());
        self.listens_to().is_some_and(|name| filter::hears(name, filter, event))
    }

    /// What kind of intent it makes: its template's type, or else its own.
    #[must_use]
    pub fn makes(&self) -> String {
        let word = self.template.as_ref().map(|template| template.r#type.as_str());
        word.filter(|word| !word.is_empty()).map_or_else(|| self.id.to_string(), str::to_owned)
    }

    /// Whether it makes an intent now. By hand it is not asked to rest (RFC-0017 §8.3).
    #[must_use]
    pub fn judge(&self, cause: Cause, c: Circumstances) -> Verdict {
        if c.depth > self.max_depth {
            return Verdict::Skip(SkipReason::CascadeLimit);
        }
        let rests = |seconds: u32, last: Timestamp| c.now < crate::clock::plus_seconds(last, seconds);
        let resting = self.cooldown_seconds.zip(self.last_fired_at).is_some_and(|(s, last)| rests(s, last));
        if cause != Cause::Hand && resting {
            return Verdict::Skip(SkipReason::Cooldown);
        }
        match self.deduplication {
            Deduplication::Skip if c.open => Verdict::Skip(SkipReason::Deduplicated),
            Deduplication::Queue if c.open && c.waiting => Verdict::Skip(SkipReason::QueueFull),
            Deduplication::Queue if c.open => Verdict::Wait,
            _ => Verdict::Fire,
        }
    }

    /// The trigger after it made an intent.
    #[must_use]
    pub fn fired(&self, now: Timestamp) -> Self {
        let mut next =
            Self { fire_count: self.fire_count + 1, failures: 0, last_fired_at: Some(now), ..self.clone() };
        if self.max_fires.is_some_and(|most| next.fire_count >= most) {
            next = next.disabled(DisabledReason::MaxFires, now);
        }
        next
    }

    /// The trigger after it could make none. What somebody did by hand does not count against it.
    #[must_use]
    pub fn failed(&self, cause: Cause, now: Timestamp) -> Self {
        if cause == Cause::Hand {
            return self.clone();
        }
        let next = Self { failures: self.failures + 1, ..self.clone() };
        if next.failures >= TRIGGER_FAILURES { next.disabled(DisabledReason::Failing, now) } else { next }
    }

    /// The trigger, switched off.
    #[must_use]
    pub fn disabled(&self, reason: DisabledReason, now: Timestamp) -> Self {
        Self {
            enabled: false,
            disabled_reason: Some(reason),
            next_due: None,
            version: self.version + 1,
            updated_at: now,
            ..self.clone()
        }
    }

    /// How many of `heard` events it may still fire for, when it was due `recent` times within the last minute.
    #[must_use]
    pub fn room(recent: i64) -> usize {
        usize::try_from(i64::from(TRIGGER_FIRINGS_PER_MINUTE) - recent).unwrap_or(0)
    }
}

/// Whose doing an intent is: the triggers in a row that led to it, the last one its own (RFC-0017 §5.2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The triggers.
    pub chain: Vec<TriggerId>,
}

impl Lineage {
    /// The lineage of what a trigger makes because of something with this one.
    #[must_use]
    pub fn with(&self, trigger: TriggerId) -> Self {
        let mut chain = self.chain.clone();
        chain.push(trigger);
        Self { chain }
    }

    /// How many triggers that is.
    #[must_use]
    pub fn depth(&self) -> u32 {
        u32::try_from(self.chain.len()).unwrap_or(u32::MAX)
    }

    /// As it stands in the log and in the intent's state.
    #[must_use]
    pub fn shown(&self, trigger: &Trigger) -> Map<String, Value> {
        let lineage = serde_json::json!({
            "created_by": "trigger", "trigger_id": trigger.id, "trigger_type": trigger.kind,
            "trigger_depth": self.depth(), "trigger_chain": self.chain,
        });
        match lineage {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

/// The intent that an event is to be traced back by: of a firing, the intent that was made.
#[must_use]
pub fn source(event: &crate::events::Event) -> Option<IntentId> {
    let fired = !event.posted && event.event_type == crate::events::Kind::TriggerFired.wire();
    if fired {
        return event.payload.get("intent_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    }
    (event.intent_id != IntentId::HOUSE).then_some(event.intent_id)
}
