//! Display for people: events in one line each, with local times, short ids and, on a terminal, colours; and
//! records whose members are times. Programs use `--json`.

use std::io::{self, IsTerminal as _, Write as _};

use chrono::Local;
use entente_domain::clock::{Clock as _, Timestamp, parse};
use entente_domain::moments::text::plain;
use entente_runtime::environment::SystemClock;
use serde_json::{Map, Value};

use super::cell;
use crate::Done;

/// Returns whether the user wants no colours (<https://no-color.org>).
#[expect(clippy::disallowed_methods, reason = "a setting of the terminal, which has no flag")]
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Most characters of an event's content; longer ones are cut.
const CONTENT: usize = 200;
/// Characters that remain of an id or a hash.
const KEPT: usize = 5;
/// Columns of the actor.
const ACTOR: usize = 18;
/// Member of a job's record that is shown member by member: the claim of the worker that runs it.
const NESTED: &str = "claim";

/// Whether and how output is coloured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    colour: bool,
}

/// Parts of a line that differ in colour; no information depends on it.
#[derive(Debug, Clone, Copy)]
enum Part {
    Dim,
    Actor,
    Event,
}

impl Style {
    /// Returns the style for standard output: colours on a terminal only, and not if `NO_COLOR` is set.
    pub(crate) fn of_stdout() -> Self {
        Self { colour: io::stdout().is_terminal() && !no_color() }
    }

    fn paint(self, part: Part, text: &str) -> String {
        let code = match part {
            Part::Dim => "2",
            Part::Actor => "36",
            Part::Event => "1",
        };
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Renders an event of a stream in one line: its local time, its actor, the event, and its place.
    pub(crate) fn event(self, name: &str, data: &Value) -> String {
        let time = ["updated_at", "created_at", "at"].iter().find_map(|member| data[*member].as_str());
        let time = time.and_then(parse).map(local).unwrap_or_default();
        let Told { actor, event, content, place } = Told::of(name, data);
        let parts = [
            self.paint(Part::Dim, &format!("{time:<19}")),
            self.paint(Part::Actor, &format!("{:<ACTOR$}", plain(&actor))),
            self.paint(Part::Event, &plain(&event)),
            cut(&plain(&short_ids(&content)), CONTENT),
            self.paint(Part::Dim, &plain(&short_ids(&place))),
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

/// The parts of an event that people read.
struct Told {
    actor: String,
    event: String,
    content: String,
    place: String,
}

impl Told {
    fn of(name: &str, data: &Value) -> Self {
        let text = |member: &str| data[member].as_str().unwrap_or_default().to_owned();
        let intent = text("intent_id");
        let channel = |intent: &str| format!("#{} on {intent}", text("channel_name"));
        match name {
            "channel_message" => {
                let to = data["to"].as_str().unwrap_or("*");
                Self {
                    actor: format!("{} → {to}", text("sender")),
                    event: text("message_type"),
                    content: content(&data["payload"]),
                    place: channel(&intent),
                }
            }
            "message_read" | "message_expired" => Self {
                actor: text("agent_id"),
                event: name.replace('_', " "),
                content: text("message_id"),
                place: channel(&intent),
            },
            // The whole intent after the change.
            _ if data["id"].as_str().is_some_and(|id| id.starts_with("intent_")) => Self {
                actor: String::new(),
                event: name.replace('_', " "),
                content: format!("{}, version {}", text("status"), data["version"]),
                place: format!("\"{}\" {}", text("title"), text("id")),
            },
            // An event, or the payload of one with its intent and actor.
            _ => Self {
                actor: text("actor"),
                event: name.replace('_', " "),
                content: match &data["payload"] {
                    Value::Null => content(data),
                    payload => content(payload),
                },
                place: intent,
            },
        }
    }
}

/// Renders a payload: its text if it is one, otherwise its members.
fn content(payload: &Value) -> String {
    let Value::Object(members) = payload else { return cell(payload).into_owned() };
    if let (1, Some(text)) = (members.len(), members.get("text").and_then(Value::as_str)) {
        return text.to_owned();
    }
    summary(members)
}

/// Renders members as `name=value`, without those that the line has elsewhere and without hashes.
fn summary(members: &Map<String, Value>) -> String {
    let elsewhere = |name: &str| matches!(name, "intent_id" | "actor") || name.ends_with("hash");
    let shown = members.iter().filter(|(name, value)| !value.is_null() && !elsewhere(name));
    shown.map(|(name, value)| format!("{name}={}", cell(value))).collect::<Vec<_>>().join(" ")
}

/// Formats a time in the zone of the user.
fn local(at: Timestamp) -> String {
    at.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// Returns the beginning of a text.
fn cut(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Shortens the ids and hashes in a text to their last characters; `--json` has them in full.
fn short_ids(text: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | ':');
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        shown.push_str(&rest[..start]);
        let word = &rest[start..];
        let end = word.find(|letter: char| !is_part(letter)).unwrap_or(word.len());
        shown.push_str(&short_id(&word[..end]));
        rest = &word[end..];
    }
    shown + rest
}

/// Shortens a word if it is an id or a hash: `intent_01J9…` with 26 characters, a UUID, or a digest.
fn short_id(word: &str) -> String {
    let tail = |text: &str| text[text.len() - KEPT..].to_owned();
    let is_ulid = |text: &str| {
        text.len() == 26 && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    };
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some((kind, id)) = word.rsplit_once('_').filter(|(_, id)| is_ulid(id)) {
        return format!("{kind}_…{}", tail(id));
    }
    if let Some(digest) = word.strip_prefix("sha256:").filter(|digest| digest.len() >= 32) {
        return format!("sha256:…{}", tail(digest));
    }
    let is_uuid = word.len() == 36 && word.split('-').count() == 5 && word.split('-').all(is_hex);
    if is_uuid || (word.len() >= 32 && is_hex(word)) { format!("…{}", tail(word)) } else { word.to_owned() }
}

/// Prints a record whose times are of interest now, such as a job's: in local time, with their distance. Its claim
/// is shown member by member.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print_live_record(record: &Value) -> Done {
    let mut out = io::stdout().lock();
    for line in live_record(record, SystemClock.now()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn live_record(record: &Value, now: Timestamp) -> Vec<String> {
    let mut rows = Vec::new();
    for (name, value) in record.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        match value {
            Value::Object(members) if name == NESTED => {
                let members = members.iter().filter(|(_, value)| !value.is_null());
                rows.extend(members.map(|(member, value)| (format!("{name}.{member}"), live(value, now))));
            }
            _ => rows.push((name.clone(), live(value, now))),
        }
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.into_iter().map(|(name, value)| format!("{name:<width$}  {value}")).collect()
}

/// Renders a value; a time in local time with its distance from now.
fn live(value: &Value, now: Timestamp) -> String {
    match value.as_str().and_then(parse) {
        Some(at) => format!("{} ({})", local(at), distance(at, now)),
        None => plain(&cell(value)),
    }
}

/// Renders the distance of a time from now, in its largest unit.
fn distance(at: Timestamp, now: Timestamp) -> String {
    let seconds = (at - now).num_seconds();
    let (number, unit) = match seconds.unsigned_abs() {
        least @ 0..120 => (least, "s"),
        some @ 120..7_200 => (some / 60, "min"),
        many @ 7_200..172_800 => (many / 3_600, "h"),
        most => (most / 86_400, "d"),
    };
    if seconds > 0 { format!("in {number} {unit}") } else { format!("{number} {unit} ago") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: Style = Style { colour: false };

    #[test]
    fn ids_and_hashes_are_short_and_words_are_not() {
        for (given, shown) in [
            ("intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "intent_…C3D5F"),
            ("a msg_01J9ZK4T6Q8R2V5X7Y9B1C3D5F, b", "a msg_…C3D5F, b"),
            ("0af7651916cd43dd8448eb211c80319c", "…0319c"),
            ("1b4e28ba-2fa1-11d2-883f-0016d3cca427", "…ca427"),
            ("sha256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", "sha256:…hSuFU"),
            ("agent.data-01 took 12_000 steps of data_set", "agent.data-01 took 12_000 steps of data_set"),
        ] {
            assert_eq!(short_ids(given), shown);
        }
    }

    #[test]
    fn an_event_is_one_line_that_cannot_move_the_cursor() {
        let data = json!({
            "sender": "agent.a", "to": null, "message_type": "notify", "payload": { "text": "a\u{1b}[2J\nb" },
            "channel_name": "talk", "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F",
        });
        let line = PLAIN.event("channel_message", &data);
        assert_eq!(line.trim_start(), "agent.a → *         notify  a\\u{1b}[2J\\nb  #talk on intent_…C3D5F");
        let event = json!({
            "actor": "agent.b", "event_hash": "x", "payload": { "scope": "a", "lease_hash": "y", "n": 1 },
            "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F",
        });
        let line = PLAIN.event("lease_acquired", &event);
        assert_eq!(line.trim_start(), "agent.b             lease acquired  n=1 scope=a  intent_…C3D5F");
        let long = json!({ "payload": { "text": "x".repeat(1_000) } });
        assert!(PLAIN.event("note", &long).chars().count() < 300);
    }

    #[test]
    fn colours_add_nothing_but_colour() {
        let data = json!({ "actor": "agent.b", "payload": { "n": 1 }, "created_at": "2026-07-01T10:00:00Z" });
        let coloured = Style { colour: true }.event("note", &data);
        assert!(coloured.contains("\x1b[36magent.b"), "{coloured}");
        let bare = ["\x1b[2m", "\x1b[36m", "\x1b[1m", "\x1b[0m"]
            .iter()
            .fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(bare, PLAIN.event("note", &data));
    }

    #[test]
    fn a_claim_is_shown_with_the_time_that_is_left() {
        let now = parse("2026-07-01T10:00:00Z").unwrap();
        let job = json!({
            "job_id": "job_1", "status": "running", "deadline": null,
            "claim": { "worker": "w1", "since": "2026-07-01T09:50:00Z", "expires_at": "2026-07-01T10:00:25Z" },
        });
        let lines = live_record(&job, now);
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(
            lines[1],
            "claim.since       ".to_owned()
                + &local(parse("2026-07-01T09:50:00Z").unwrap())
                + " (10 min ago)"
        );
        assert!(lines[0].starts_with("claim.expires_at  ") && lines[0].ends_with("(in 25 s)"), "{lines:?}");
        assert_eq!(
            (lines[2].as_str(), lines[4].as_str()),
            ("claim.worker      w1", "status            running")
        );
    }
}
