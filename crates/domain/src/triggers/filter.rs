//! What an event trigger listens to (RFC-0017 §3): which types of events, and what their members have to be.

use serde_json::{Map, Value, json};

use crate::clock::rfc3339;
use crate::events::{Event, Kind};
use crate::globs::Glob;
use crate::refusal::{Code, Refusal};

/// Members of a filter, nested ones included: each is compared with each event of the type.
const MEMBERS: usize = 50;

/// A name, the type that is meant, and a member that its payload has to have with its value.
type Name = (&'static str, &'static str, Option<(&'static str, &'static str)>);

/// The RFC's and the vendor's names of events (RFC-0017 §3.2), the type that is recorded for them here, and what its
/// payload has to have besides.
const NAMES: [Name; 14] = [
    ("intent.created", "intent_created", None),
    ("intent.state_changed", "status_changed", None),
    ("intent.resolved", "status_changed", Some(("status", "completed"))),
    ("intent_completed", "status_changed", Some(("status", "completed"))),
    ("intent.failed", "status_changed", Some(("status", "abandoned"))),
    ("intent_abandoned", "status_changed", Some(("status", "abandoned"))),
    ("agent_status_changed", "agent.status_changed", None),
    ("lease.claimed", "lease_acquired", None),
    ("lease.expired", "lease_released", Some(("reason", "expired"))),
    ("task_created", "task.created", None),
    ("task_completed", "task.completed", None),
    ("task_failed", "task.failed", None),
    ("channel_message", "channel.message", None),
    ("agent_dead", "agent.dead", None),
];

/// The type of event that a trigger listens to under this name: what is recorded, as an exact word or with stars.
#[must_use]
pub fn recorded(name: &str) -> &str {
    NAMES.iter().find(|(known, _, _)| *known == name).map_or(name, |(_, kind, _)| kind)
}

/// Checks a name and a filter that a client gives.
///
/// # Errors
/// A pattern that is none; a filter that has too many members.
pub fn check(name: Option<&str>, filter: Option<&Map<String, Value>>) -> Result<(), Refusal> {
    let fault =
        |kind: &str, message: String| Err(Refusal::field(Code::Unprocessable, "condition", kind, message));
    if let Some(name) = name
        && let Err(why) = Glob::parse(name)
    {
        return fault("event", format!("`condition.event` {why}."));
    }
    let Some(filter) = filter else { return Ok(()) };
    let mut left = MEMBERS;
    let whole = Value::Object(filter.clone());
    if let Err(why) = check_member(&whole, &mut left) {
        return fault("filter", format!("`condition.filter` {why}."));
    }
    Ok(())
}

fn check_member(wanted: &Value, left: &mut usize) -> Result<(), String> {
    *left = left.checked_sub(1).ok_or_else(|| format!("has more than {MEMBERS} members"))?;
    match wanted {
        Value::String(text) if text.contains('*') => {
            Glob::parse(text).map(|_glob| ()).map_err(|why| format!("has a pattern that {why}"))
        }
        Value::Array(items) => items.iter().try_for_each(|item| check_member(item, left)),
        Value::Object(members) => members.values().try_for_each(|member| check_member(member, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// What of an event filters and templates speak of: the members of its payload, and over them its own.
#[must_use]
pub fn members(event: &Event) -> Map<String, Value> {
    let mut members = event.payload.clone();
    if event.event_type == Kind::StatusChanged.wire() {
        for (name, known) in [("from_state", "old_status"), ("to_state", "new_status")] {
            if let Some(status) = event.payload.get(known) {
                members.insert(name.to_owned(), status.clone());
            }
        }
    }
    // Of the house's log no intent is meant, unless the payload names one.
    let intent = (event.intent_id != crate::ids::IntentId::HOUSE).then_some(event.intent_id);
    if let Some(intent) = intent {
        members.insert("intent_id".to_owned(), json!(intent));
    }
    for (name, value) in [
        ("id", json!(event.id)),
        ("event_type", json!(event.event_type)),
        ("type", json!(event.event_type)),
        ("actor", json!(event.actor)),
        ("created_at", json!(rfc3339(event.created_at))),
        ("timestamp", json!(rfc3339(event.created_at))),
        ("posted", json!(event.posted)),
        ("payload", Value::Object(event.payload.clone())),
    ] {
        members.insert(name.to_owned(), value);
    }
    members
}

/// Whether a trigger that listens to `name` with this filter hears an event with these [`members`].
#[must_use]
pub fn hears(name: &str, filter: Option<&Map<String, Value>>, event: &Map<String, Value>) -> bool {
    let kind = event.get("event_type").and_then(Value::as_str).unwrap_or_default();
    let known = NAMES.iter().find(|(known, _, _)| *known == name);
    let (wanted, more) = known.map_or((name, None), |(_, wanted, more)| (*wanted, *more));
    if !likes(wanted, kind) {
        return false;
    }
    // What the RFC's name says is the server's word: an event that a client posted under that type is not it.
    let posted = event.get("posted") == Some(&Value::Bool(true));
    if known.is_some() && posted || more.is_some_and(|(member, word)| event.get(member) != Some(&json!(word)))
    {
        return false;
    }
    filter.is_none_or(|filter| filter.iter().all(|(path, wanted)| fits(wanted, at(event, path))))
}

/// What is at a path of names between points; a member of that very name goes first.
fn at<'a>(members: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(found) = members.get(path) {
        return Some(found);
    }
    let (first, rest) = path.split_once('.')?;
    at(members.get(first)?.as_object()?, rest)
}

fn fits(wanted: &Value, found: Option<&Value>) -> bool {
    match (wanted, found) {
        (Value::Null, None) => true,
        (_, None) => false,
        // One of these.
        (Value::Array(any), Some(found)) => {
            found == wanted || any.iter().any(|wanted| fits(wanted, Some(found)))
        }
        (Value::Object(all), Some(Value::Object(found))) => {
            all.iter().all(|(path, wanted)| fits(wanted, at(found, path)))
        }
        (Value::String(pattern), Some(Value::String(text))) => likes(pattern, text),
        (Value::Number(wanted), Some(Value::Number(found))) => wanted.as_f64() == found.as_f64(),
        (wanted, Some(found)) => wanted == found,
    }
}

fn likes(pattern: &str, text: &str) -> bool {
    pattern == text || pattern.contains('*') && Glob::parse(pattern).is_ok_and(|glob| glob.matches(text))
}
