//! Triggers (RFC-0017): standing declarations that make intents when a condition is met. What a trigger is, how it begins
//! and changes. When it is due is `triggers/schedule.rs`; what it listens to `triggers/filter.rs`; what it is sent
//! `triggers/hooks.rs`; what it makes `triggers/making.rs`; how it goes on `triggers/course.rs`.

pub mod course;
pub mod cron;
pub mod filter;
pub mod hooks;
pub mod lineage;
pub mod making;
pub mod schedule;
pub mod template;
mod words;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::hooks::Verify;
use self::making::IntentTemplate;
use self::schedule::{Missed, Schedule};
use crate::clock::Timestamp;
use crate::ids::TriggerId;
use crate::limits::{DURATION_SECONDS, METADATA_BYTES, TITLE_BYTES, TRIGGER_DEPTH, TRIGGER_MAX_FIRES};
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};
use crate::tasks::check_size;

pub use course::{Circumstances, Verdict};
pub use lineage::{Lineage, source};
pub use words::{Cause, Deduplication, DisabledReason, SkipReason, TriggerKind};

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

impl Condition {
    /// Whether an event with these [`filter::members`] is what it speaks of.
    #[must_use]
    pub fn hears(&self, event: &Map<String, Value>) -> bool {
        self.event.as_deref().is_some_and(|name| filter::hears(name, self.filter.as_ref(), event))
    }
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
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
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
            Self::check_condition(condition)?;
        }
        self.template.as_ref().map_or(Ok(()), IntentTemplate::check)
    }

    fn check_condition(condition: &Condition) -> Result<(), Refusal> {
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
        self.kind == TriggerKind::Event && self.condition.as_ref().is_some_and(|one| one.hears(event))
    }

    /// What kind of intent it makes: its template's type, or else its own.
    #[must_use]
    pub fn makes(&self) -> String {
        let word = self.template.as_ref().map(|template| template.r#type.as_str());
        word.filter(|word| !word.is_empty()).map_or_else(|| self.id.to_string(), str::to_owned)
    }
}
