//! Triggers (RFC-0017): standing declarations that create intents when a condition is met. This file has their data,
//! creation and changes; the schedule is in `triggers/schedule.rs`, event filters in `triggers/filter.rs`, incoming
//! webhooks in `triggers/hooks.rs`, intent creation in `triggers/making.rs`, jobs in `triggers/jobs.rs`, state transitions in
//! `triggers/course.rs`.

pub mod course;
pub mod cron;
pub mod filter;
pub mod hooks;
mod jobs;
pub mod lineage;
pub mod making;
pub mod schedule;
pub mod template;
mod words;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::identity::principals::{Author, check_name};
use crate::ids::TriggerId;
use crate::limits::{DURATION_SECONDS, METADATA_BYTES, TITLE_BYTES, TRIGGER_DEPTH, TRIGGER_MAX_FIRES};
use crate::openintent::tasks::check_size;
use crate::openintent::triggers::hooks::Verify;
use crate::openintent::triggers::making::IntentTemplate;
use crate::openintent::triggers::schedule::{Missed, Schedule};
use crate::refusal::{Code, Refusal};

pub use course::{Circumstances, Verdict};
pub use lineage::{Lineage, source};
pub use words::{Cause, Deduplication, DisabledReason, SkipReason, TriggerKind};

/// Condition of a trigger; only the members of its kind have an effect, the others are stored as given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// A cron expression of five fields.
    pub cron: Option<String>,
    /// IANA time zone of the expression; defaults to UTC.
    pub timezone: Option<String>,
    /// Interval in seconds, as an alternative to an expression.
    pub every_seconds: Option<u32>,
    /// A single time, as an alternative to both.
    pub at: Option<Timestamp>,
    /// Start of the active period.
    pub starts_at: Option<Timestamp>,
    /// End of the active period.
    pub ends_at: Option<Timestamp>,
    /// Handling of missed due times.
    pub missed: Option<Missed>,
    /// Event type, or a pattern of types.
    pub event: Option<String>,
    /// Required values of the event's members.
    pub filter: Option<Map<String, Value>>,
    /// Client-defined name of the webhook's source.
    pub path: Option<String>,
    /// HTTP method of the webhook: always POST.
    pub method: Option<String>,
    /// Verification of the webhook's sender.
    pub verify: Option<Verify>,
    /// Values copied from the webhook into the intent's context.
    pub transform: Option<Map<String, Value>>,
}

impl Condition {
    /// Returns whether an event with these [`filter::members`] meets the condition.
    #[must_use]
    pub fn hears(&self, event: &Map<String, Value>) -> bool {
        self.event.as_deref().is_some_and(|name| filter::hears(name, self.filter.as_ref(), event))
    }
}

/// A trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// Identifier.
    pub id: TriggerId,
    /// Principal that owns it.
    pub principal_id: String,
    /// Agent that creates the intents.
    pub agent_id: String,
    /// Name for people.
    pub name: String,
    /// Kind of trigger.
    pub kind: TriggerKind,
    /// Whether it fires.
    pub enabled: bool,
    /// Reason why the server disabled it.
    pub disabled_reason: Option<DisabledReason>,
    /// Condition.
    pub condition: Option<Condition>,
    /// Template of the intent.
    pub template: Option<IntentTemplate>,
    /// Template of the request for a job, which it submits in place of creating an intent.
    #[serde(default)]
    pub job: Option<Map<String, Value>>,
    /// Behaviour while one of its intents is open.
    pub deduplication: Deduplication,
    /// Namespace: deduplication compares with intents of triggers in it.
    pub namespace: Option<String>,
    /// Minimum pause between firings, in seconds.
    pub cooldown_seconds: Option<u32>,
    /// Maximum number of intents in total.
    pub max_fires: Option<i64>,
    /// Maximum length of the causal chain of triggers behind an intent, including this one.
    pub max_depth: u32,
    /// Number of intents created.
    pub fire_count: i64,
    /// Number of failures since the last intent.
    pub failures: u32,
    /// Version; guards writes (`If-Match`).
    pub version: i64,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time when it last created an intent.
    pub last_fired_at: Option<Timestamp>,
    /// Next due time.
    pub next_due: Option<Timestamp>,
}

/// A client's values for a new or changed trigger; `None` means unspecified, an inner `None` means none.
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
    /// See [`Trigger::job`].
    pub job: Option<Option<Map<String, Value>>>,
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
    /// Returns whether it only enables or disables a trigger: all that an admin may do with the triggers of others.
    #[must_use]
    pub fn only_switches(&self) -> bool {
        self.name.is_none()
            && self.condition.is_none()
            && self.template.is_none()
            && self.job.is_none()
            && self.deduplication.is_none()
            && self.namespace.is_none()
            && self.cooldown_seconds.is_none()
            && self.max_fires.is_none()
            && self.max_depth.is_none()
    }
}

impl Trigger {
    /// Creates a trigger.
    ///
    /// # Errors
    /// An invalid or excessive member, or a schedule that is never due.
    pub fn create(
        kind: TriggerKind,
        ask: TriggerAsk,
        id: TriggerId,
        owner: Author<'_>,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        let blank = Self {
            id,
            principal_id: owner.principal.to_owned(),
            agent_id: owner.agent.to_owned(),
            name: String::new(),
            kind,
            enabled: true,
            disabled_reason: None,
            condition: None,
            template: None,
            job: None,
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

    /// Returns the trigger after a change; its schedule restarts, and earlier due times are not made up for.
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
            job: ask.job.unwrap_or_else(|| self.job.clone()),
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
        self.template.as_ref().map_or(Ok(()), IntentTemplate::check)?;
        self.check_job()
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

    /// Returns its schedule, if it has one.
    ///
    /// # Errors
    /// The condition is invalid.
    pub fn schedule(&self) -> Result<Option<Schedule>, Refusal> {
        match (&self.condition, self.kind) {
            (Some(condition), TriggerKind::Schedule) => Schedule::of(condition, self.created_at),
            _ => Ok(None),
        }
    }

    /// Returns the event type that it listens to, if it is an event trigger.
    #[must_use]
    pub fn listens_to(&self) -> Option<&str> {
        let event = self.condition.as_ref().and_then(|condition| condition.event.as_deref());
        event.filter(|_| self.kind == TriggerKind::Event)
    }

    /// Returns whether an event with these [`filter::members`] fires it.
    #[must_use]
    pub fn hears(&self, event: &Map<String, Value>) -> bool {
        self.kind == TriggerKind::Event && self.condition.as_ref().is_some_and(|one| one.hears(event))
    }

    /// Returns the type of the intents it creates: its template's type, or else its own id.
    #[must_use]
    pub fn makes(&self) -> String {
        let word = self.template.as_ref().map(|template| template.r#type.as_str());
        word.filter(|word| !word.is_empty()).map_or_else(|| self.id.to_string(), str::to_owned)
    }
}
