//! Wire format of triggers.

use entente_domain::identity::keys::Dialect;
use entente_domain::ids::TriggerId;
use entente_domain::openintent::triggers::hooks::Verify;
use entente_domain::openintent::triggers::making::IntentTemplate;
use entente_domain::openintent::triggers::schedule::Missed;
use entente_domain::openintent::triggers::{
    Condition, Deduplication, DisabledReason, TriggerAsk, TriggerKind, hooks,
};
use entente_http::wire::{GivenTime, WireTime};
use entente_openintent::triggers::{TriggerView, verify_of};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::templates::TemplateBody;

/// The condition that fires a trigger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TriggerCondition)]
struct ConditionBody {
    /// A cron expression of five fields: minute, hour, day of the month, month, day of the week.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "0 9 * * MON-FRI")]
    cron: Option<String>,
    /// IANA time zone of the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin")]
    timezone: Option<String>,
    /// Interval in seconds, instead of an expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    every_seconds: Option<u32>,
    /// A single time, instead of both; the trigger is switched off once it has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<WireTime>,
    /// Start of the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    starts_at: Option<WireTime>,
    /// End of the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_at: Option<WireTime>,
    /// Treatment of times that passed while no server was running.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<Missed>,
    /// Type of the event to wait for; `*` matches any characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "intent.resolved")]
    event: Option<String>,
    /// Conditions on the event's members.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    filter: Option<Map<String, Value>>,
    /// Free-form label for the source of the webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// HTTP method of the webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    /// How the sender of a webhook authenticates.
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<Verify>,
    /// Values to copy from the webhook into the intent's state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    transform: Option<Map<String, Value>>,
}

impl ConditionBody {
    fn new(condition: Condition, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            timezone: condition.timezone.or_else(|| condition.cron.as_ref().map(|_| "UTC".to_owned())),
            cron: condition.cron,
            every_seconds: condition.every_seconds,
            at: condition.at.map(time),
            starts_at: condition.starts_at.map(time),
            ends_at: condition.ends_at.map(time),
            missed: condition.missed,
            event: condition.event,
            filter: condition.filter,
            path: condition.path,
            method: condition.method,
            verify: condition.verify,
            transform: condition.transform,
        }
    }
}

/// The condition that fires a trigger, in a request.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewTriggerCondition)]
struct GivenCondition {
    /// A cron expression of five fields: minute, hour, day of the month, month, day of the week.
    #[schema(example = "0 9 * * MON-FRI")]
    cron: Option<String>,
    /// IANA time zone of the schedule; defaults to UTC.
    timezone: Option<String>,
    /// Interval in seconds, at least 10, instead of an expression.
    every_seconds: Option<u32>,
    /// A single time, instead of both.
    at: Option<GivenTime>,
    /// Start of the schedule.
    starts_at: Option<GivenTime>,
    /// End of the schedule.
    ends_at: Option<GivenTime>,
    /// Treatment of times that passed while no server was running; defaults to `latest`.
    missed: Option<Missed>,
    /// Type of the event to wait for; `*` matches any characters.
    event: Option<String>,
    /// Conditions on the event's members: an exact value, a pattern with `*`, or a list of alternatives; dots
    /// address nested members.
    #[schema(value_type = Option<Object>)]
    filter: Option<Map<String, Value>>,
    /// Free-form label for the source of the webhooks; all of them are received at `webhook_url`.
    path: Option<String>,
    /// HTTP method of the webhooks; only POST is accepted.
    method: Option<String>,
    /// How the sender of a webhook authenticates; defaults to `signature`.
    verify: Option<Verify>,
    /// Secret of the sender, if the client chooses it: `whsec_…`, or 24 to 64 bytes; it is never shown again.
    secret: Option<String>,
    /// Values to copy from the webhook into the intent's state, such as `{"amount": "{{ body.amount }}"}`.
    #[schema(value_type = Option<Object>)]
    transform: Option<Map<String, Value>>,
}

impl GivenCondition {
    fn split(self) -> (Condition, Option<String>) {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let condition = Condition {
            cron: given(self.cron),
            timezone: given(self.timezone),
            every_seconds: self.every_seconds,
            at: self.at.map(|at| at.0),
            starts_at: self.starts_at.map(|at| at.0),
            ends_at: self.ends_at.map(|at| at.0),
            missed: self.missed,
            event: given(self.event),
            filter: self.filter,
            path: self.path,
            method: self.method,
            verify: self.verify,
            transform: self.transform,
        };
        (condition, self.secret)
    }
}

/// A trigger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Trigger)]
pub struct TriggerBody {
    /// Trigger id.
    trigger_id: TriggerId,
    /// Name of the trigger, for people.
    #[schema(example = "Daily compliance review")]
    name: String,
    /// Type of the trigger.
    r#type: TriggerKind,
    /// Whether the trigger is enabled.
    enabled: bool,
    /// Why the server switched the trigger off.
    disabled_reason: Option<DisabledReason>,
    /// The condition that fires the trigger; without one, it is fired only manually.
    condition: Option<ConditionBody>,
    /// The intent to create.
    intent_template: Option<TemplateBody>,
    /// The request for a job to submit in place of creating an intent, as in `POST /jobs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    job: Option<Map<String, Value>>,
    /// Behaviour while an intent of the same type, or the last job, is open.
    deduplication: Deduplication,
    /// Namespace of the trigger.
    namespace: Option<String>,
    /// Seconds of rest after each firing.
    cooldown_seconds: Option<u32>,
    /// Number of intents after which the trigger is switched off.
    max_fires: Option<i64>,
    /// Maximum length of the chain of triggers behind an intent that this trigger creates.
    max_depth: u32,
    /// Number of intents created.
    fire_count: i64,
    /// Number of failures since the last created intent.
    failures: u32,
    /// Version that guards writes: send it in `If-Match`.
    version: i64,
    /// Agent as which the trigger creates intents.
    created_by: String,
    /// When the trigger was created.
    created_at: WireTime,
    /// When the trigger was last changed.
    updated_at: WireTime,
    /// When the trigger last created an intent.
    last_fired_at: Option<WireTime>,
    /// When the schedule is next due.
    next_due_at: Option<WireTime>,
    /// Path at which webhooks are received, on the server's address; a token at its end is included only when
    /// newly created.
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook_url: Option<String>,
    /// Secret that signs webhooks, shown only when newly created.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl TriggerBody {
    pub fn new(shown: TriggerView, dialect: Dialect) -> Self {
        let TriggerView { trigger, secret } = shown;
        let time = |at| WireTime::new(at, dialect);
        let verify = verify_of(&trigger);
        let token = secret.as_ref().filter(|_| verify == Verify::Token).map(hooks::token);
        let webhook = (trigger.kind == TriggerKind::Webhook).then(|| format!("/api/v1/hooks/{}", trigger.id));
        Self {
            trigger_id: trigger.id,
            webhook_url: webhook.map(|url| token.iter().fold(url, |url, token| format!("{url}/{token}"))),
            secret: secret.filter(|_| verify != Verify::Token).map(|secret| hooks::told(verify, &secret)),
            name: trigger.name,
            r#type: trigger.kind,
            enabled: trigger.enabled,
            disabled_reason: trigger.disabled_reason,
            condition: trigger.condition.map(|condition| ConditionBody::new(condition, dialect)),
            intent_template: trigger.template.map(TemplateBody::from),
            job: trigger.job,
            deduplication: trigger.deduplication,
            namespace: trigger.namespace,
            cooldown_seconds: trigger.cooldown_seconds,
            max_fires: trigger.max_fires,
            max_depth: trigger.max_depth,
            fire_count: trigger.fire_count,
            failures: trigger.failures,
            version: trigger.version,
            created_by: trigger.agent_id,
            created_at: time(trigger.created_at),
            updated_at: time(trigger.updated_at),
            last_fired_at: trigger.last_fired_at.map(time),
            next_due_at: trigger.next_due.map(time),
        }
    }
}

/// Distinguishes null from a missing field.
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(member: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(member).map(Some)
}

/// A new trigger or a change of one; in a change, missing fields stay unchanged and null clears a field.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewTrigger)]
#[schema(example = json!({
    "name": "Daily compliance review", "type": "schedule",
    "condition": { "cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin" },
    "intent_template": { "type": "compliance.review", "title": "Daily compliance review" }, "deduplication": "skip",
}))]
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
pub struct AskBody {
    /// Name of the trigger, for people.
    name: Option<String>,
    /// Type of the trigger; cannot be changed.
    pub r#type: Option<TriggerKind>,
    /// Whether the trigger is enabled; defaults to true.
    enabled: Option<bool>,
    /// The condition that fires the trigger; without one, it is fired only manually.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<GivenCondition>)]
    condition: Option<Option<GivenCondition>>,
    /// The intent to create.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<TemplateBody>)]
    intent_template: Option<Option<TemplateBody>>,
    /// The request for a job to submit in place of creating an intent, as in `POST /jobs` (beyond RFC-0017), for the types
    /// `schedule` and `webhook`; its texts may contain placeholders. A job is submitted once per due time, as the agent of
    /// the trigger, whose key needs `jobs:write`.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<Object>, example = json!({ "agent": "report", "input": { "day": "{{ today }}" } }))]
    job: Option<Option<Map<String, Value>>>,
    /// Behaviour while an intent of the same type is open; defaults to `allow`.
    deduplication: Option<Deduplication>,
    /// Namespace of the trigger.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<String>)]
    namespace: Option<Option<String>>,
    /// Seconds of rest after each firing.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<u32>)]
    cooldown_seconds: Option<Option<u32>>,
    /// Number of intents after which the trigger is switched off.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<i64>)]
    max_fires: Option<Option<i64>>,
    /// Maximum length of the chain of triggers behind an intent that this trigger creates, 1 to 10; defaults
    /// to 10.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<u32>)]
    max_depth: Option<Option<u32>>,
}

impl AskBody {
    pub fn split(self) -> (TriggerAsk, Option<String>) {
        let mut secret = None;
        let condition = self.condition.map(|given| {
            given.map(|given| {
                let (condition, given) = given.split();
                secret = given;
                condition
            })
        });
        let ask = TriggerAsk {
            name: self.name,
            enabled: self.enabled,
            condition,
            template: self.intent_template.map(|given| given.map(IntentTemplate::from)),
            job: self.job,
            deduplication: self.deduplication,
            namespace: self.namespace,
            cooldown_seconds: self.cooldown_seconds,
            max_fires: self.max_fires,
            max_depth: self.max_depth,
        };
        (ask, secret)
    }
}
