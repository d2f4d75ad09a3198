//! Triggers on the wire.

use entente_domain::ids::TriggerId;
use entente_domain::keys::Dialect;
use entente_domain::triggers::hooks::{self, Verify};
use entente_domain::triggers::making::IntentTemplate;
use entente_domain::triggers::schedule::Missed;
use entente_domain::triggers::{Condition, Deduplication, DisabledReason, TriggerAsk, TriggerKind};
use entente_kernel::triggers::{Shown, verify_of};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::templates::TemplateBody;
use crate::http::wire::{GivenTime, WireTime};

/// What a trigger waits for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TriggerCondition)]
struct ConditionBody {
    /// A cron expression of five fields: minute, hour, day of the month, month, day of the week.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "0 9 * * MON-FRI")]
    cron: Option<String>,
    /// The IANA time zone that it goes by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin")]
    timezone: Option<String>,
    /// Instead of an expression: an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    every_seconds: Option<u32>,
    /// Instead of both: one moment. The trigger is switched off when it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<WireTime>,
    /// It is due from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    starts_at: Option<WireTime>,
    /// It is due up to then.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_at: Option<WireTime>,
    /// What becomes of times that passed while no server looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<Missed>,
    /// The type of event that it listens to; `*` stands for any letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "intent.resolved")]
    event: Option<String>,
    /// What its members have to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    filter: Option<Map<String, Value>>,
    /// Your own word for where webhooks come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The method that they come by.
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    /// How who sends them shows that it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<Verify>,
    /// What is taken out of them, into the intent's state.
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

/// As [`ConditionBody`], as a client says it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewTriggerCondition)]
struct GivenCondition {
    /// A cron expression of five fields: minute, hour, day of the month, month, day of the week.
    #[schema(example = "0 9 * * MON-FRI")]
    cron: Option<String>,
    /// The IANA time zone that it goes by; UTC when nothing is said.
    timezone: Option<String>,
    /// Instead of an expression: an interval, of 10 seconds at the least.
    every_seconds: Option<u32>,
    /// Instead of both: one moment.
    at: Option<GivenTime>,
    /// It is due from then on.
    starts_at: Option<GivenTime>,
    /// It is due up to then.
    ends_at: Option<GivenTime>,
    /// What becomes of times that passed while no server looked; `latest` when nothing is said.
    missed: Option<Missed>,
    /// The type of event that it listens to; `*` stands for any letters.
    event: Option<String>,
    /// What its members have to be: exactly so, like a pattern with `*`, or one of a list. Points lead into members.
    #[schema(value_type = Option<Object>)]
    filter: Option<Map<String, Value>>,
    /// Your own word for where webhooks come from; they all come to `webhook_url`.
    path: Option<String>,
    /// POST, whatever is said.
    method: Option<String>,
    /// How who sends them shows that it may; `signature` when nothing is said.
    verify: Option<Verify>,
    /// What it shows it by, if you choose it: `whsec_…`, or 24 to 64 bytes of your own. It is never shown again.
    secret: Option<String>,
    /// What is taken out of webhooks into the intent's state, such as `{"amount": "{{ body.amount }}"}`.
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
    /// Its id.
    trigger_id: TriggerId,
    /// What people call it.
    #[schema(example = "Daily compliance review")]
    name: String,
    /// What it waits for.
    r#type: TriggerKind,
    /// Whether it fires.
    enabled: bool,
    /// Why the server switched it off.
    disabled_reason: Option<DisabledReason>,
    /// What exactly it waits for; without, it is only fired by hand.
    condition: Option<ConditionBody>,
    /// The intent that it makes.
    intent_template: Option<TemplateBody>,
    /// What it does while an intent of the same type is open.
    deduplication: Deduplication,
    /// Where it belongs.
    namespace: Option<String>,
    /// Seconds that it rests after it fired.
    cooldown_seconds: Option<u32>,
    /// Intents after which it is switched off.
    max_fires: Option<i64>,
    /// Triggers in a row whose doing an intent of it may be.
    max_depth: u32,
    /// Intents that it has made.
    fire_count: i64,
    /// Failures since it last made one.
    failures: u32,
    /// Guards writes: send it in `If-Match`.
    version: i64,
    /// As whom it makes intents.
    created_by: String,
    /// When it was set up.
    created_at: WireTime,
    /// When it was last changed.
    updated_at: WireTime,
    /// When it last made an intent.
    last_fired_at: Option<WireTime>,
    /// When it is due.
    next_due_at: Option<WireTime>,
    /// Where webhooks are sent to, under the server's address. What nobody can guess is left out, but for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook_url: Option<String>,
    /// What webhooks are signed with; shown when it was just made, and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl TriggerBody {
    pub fn new(shown: Shown, dialect: Dialect) -> Self {
        let Shown { trigger, secret } = shown;
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

/// Tells a member that is null from one that is missing.
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(member: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(member).map(Some)
}

/// What a client says of a trigger. Of a change: what is missing stays, null takes away.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewTrigger)]
#[schema(example = json!({
    "name": "Daily compliance review", "type": "schedule",
    "condition": { "cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin" },
    "intent_template": { "type": "compliance.review", "title": "Daily compliance review" }, "deduplication": "skip",
}))]
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
pub struct AskBody {
    /// What people call it.
    name: Option<String>,
    /// What it waits for; cannot be changed.
    pub r#type: Option<TriggerKind>,
    /// Whether it fires; true when nothing is said.
    enabled: Option<bool>,
    /// What exactly it waits for; without, it is only fired by hand.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<GivenCondition>)]
    condition: Option<Option<GivenCondition>>,
    /// The intent that it makes.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<TemplateBody>)]
    intent_template: Option<Option<TemplateBody>>,
    /// What it does while an intent of the same type is open; `allow` when nothing is said.
    deduplication: Option<Deduplication>,
    /// Where it belongs.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<String>)]
    namespace: Option<Option<String>>,
    /// Seconds that it rests after it fired.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<u32>)]
    cooldown_seconds: Option<Option<u32>>,
    /// Intents after which it is switched off.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<i64>)]
    max_fires: Option<Option<i64>>,
    /// Triggers in a row whose doing an intent of it may be, 1 to 10; 10 when nothing is said.
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
            deduplication: self.deduplication,
            namespace: self.namespace,
            cooldown_seconds: self.cooldown_seconds,
            max_fires: self.max_fires,
            max_depth: self.max_depth,
        };
        (ask, secret)
    }
}
