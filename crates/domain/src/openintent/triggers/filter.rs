//! Event filters of triggers (RFC-0017 §3): event types, and required member values.

use serde_json::{Map, Value, json};

use crate::clock::rfc3339;
use crate::globs::Glob;
use crate::log::events::{Event, Kind};
use crate::log::kinds::names;
use crate::refusal::{Code, Refusal};

/// Maximum number of members in a filter, including nested ones: each is compared with each event of the type.
const MEMBERS: usize = 50;

/// An alias, the recorded type, and a member that the payload must have with its value.
type Name = (&'static str, &'static str, Option<(&'static str, &'static str)>);

/// Event names of the RFC and of the vendor (RFC-0017 §3.2), with the type recorded here and a required payload member.
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

/// Returns the recorded event type for this name, as an exact name or a pattern.
#[must_use]
pub fn recorded(name: &str) -> &str {
    NAMES.iter().find(|(known, _, _)| *known == name).map_or(name, |(_, kind, _)| kind)
}

/// Checks a client's event name and filter.
///
/// # Errors
/// An invalid pattern, or a filter with too many members.
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

/// Returns the members of an event for filters and templates: those of its payload, overridden by its own.
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
    // An event of the system log concerns no intent, unless its payload names one.
    let intent = (event.intent_id != crate::ids::IntentId::SYSTEM).then_some(event.intent_id);
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

/// Returns whether a trigger on `name` with this filter fires for an event with these [`members`].
#[must_use]
pub fn hears(name: &str, filter: Option<&Map<String, Value>>, event: &Map<String, Value>) -> bool {
    let kind = event.get("event_type").and_then(Value::as_str).unwrap_or_default();
    let known = NAMES.iter().find(|(known, _, _)| *known == name);
    let (wanted, more) = known.map_or((name, None), |(_, wanted, more)| (*wanted, *more));
    if !names(kind).any(|kind| likes(wanted, kind)) {
        return false;
    }
    // The RFC's names stand for events of the server: events that a client posted under that type do not match.
    let posted = event.get("posted") == Some(&Value::Bool(true));
    if known.is_some() && posted || more.is_some_and(|(member, word)| event.get(member) != Some(&json!(word)))
    {
        return false;
    }
    filter.is_none_or(|filter| filter.iter().all(|(path, wanted)| holds(path, wanted, event)))
}

/// Returns whether the member at a path has a wanted value; an event type has it under either of its names.
fn holds(path: &str, wanted: &Value, event: &Map<String, Value>) -> bool {
    let found = at(event, path);
    match found {
        Some(Value::String(kind)) if matches!(path, "event_type" | "type") => {
            names(kind).any(|name| fits(wanted, Some(&json!(name))))
        }
        found => fits(wanted, found),
    }
}

/// Returns the value at a dotted path; a member named exactly like the path takes precedence.
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
        // Any of these.
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
