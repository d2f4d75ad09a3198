//! What may cross a boundary (AEE §11.5): which intents, whether signed, with what left out.
//!
//! A rule is for a link: the entities that match its patterns for `from` and `to`. Every rule that matches has its say: one
//! that denies is enough, and where a rule lists what is allowed, everything else is not.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::purposes::Pattern;
use super::{Envelope, Priority};
use crate::limits::LIST_ITEMS;
use crate::refusal::{Code, Refusal};

/// Rules of one server: every envelope is compared with all of them.
pub const RULES: usize = 200;

/// A rule for a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "to": "partner.**", "deny": ["ops.**"], "require_signature": true }))]
pub struct Rule {
    /// Senders it is for: a pattern over dotted names, `**` for all.
    #[serde(default = "all")]
    #[schema(example = "agent.**")]
    pub from: String,
    /// Recipients it is for.
    #[serde(default = "all")]
    #[schema(example = "partner.**")]
    pub to: String,
    /// Intents that may pass, when there is any; then no other may.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Intents that may not.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Whether only signed envelopes pass.
    #[serde(default)]
    pub require_signature: bool,
    /// JSON Pointers into the payload of what is left out: the gateway hands on an envelope of its own that refers to the
    /// original, never the original.
    #[serde(default)]
    pub redact: Vec<String>,
    /// The highest priority that is believed.
    #[serde(default)]
    pub max_priority: Option<Priority>,
}

fn all() -> String {
    "**".to_owned()
}

/// What the rules say of one envelope that may pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passage {
    /// What is left out for this recipient.
    pub redact: Vec<String>,
    /// The highest priority that is believed.
    pub max_priority: Option<Priority>,
    /// Whether any rule is for the link: there is a boundary.
    pub boundary: bool,
}

impl Passage {
    /// What is left out besides what is gone already: with a part goes all that is in it.
    #[must_use]
    pub fn more_than(&self, gone: &[String]) -> Vec<String> {
        let covered = |pointer: &str| {
            gone.iter().any(|one| {
                pointer
                    .strip_prefix(one.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        self.redact.iter().filter(|pointer| !covered(pointer)).cloned().collect()
    }

    /// What is believed of a priority.
    #[must_use]
    pub fn believed(&self, priority: Priority) -> Priority {
        self.max_priority.map_or(priority, |most| priority.min(most))
    }
}

/// A rule that was understood.
#[derive(Debug, Clone)]
pub struct Checked {
    from: Pattern,
    to: Pattern,
    allow: Vec<Pattern>,
    deny: Vec<Pattern>,
    /// As it was written.
    pub rule: Rule,
}

impl Rule {
    /// Reads the rule's patterns.
    ///
    /// # Errors
    /// [`Code::Unprocessable`] at what cannot be read.
    pub fn check(self) -> Result<Checked, Refusal> {
        let read = |member: &str, text: &str| {
            Pattern::parse(text).map_err(|fault| {
                let message = format!(
                    "`{text}` is no pattern: {fault}. Use names with dots, `*` for one part, `**` for any."
                );
                Refusal::field(Code::Unprocessable, member, "pattern", message)
            })
        };
        let list = |member: &str, texts: &[String]| -> Result<Vec<Pattern>, Refusal> {
            if texts.len() > LIST_ITEMS {
                let message = format!("`{member}` may have at most {LIST_ITEMS} entries.");
                return Err(Refusal::field(Code::Unprocessable, member, "too_long", message));
            }
            texts.iter().map(|text| read(member, text)).collect()
        };
        if let Some(wrong) = self.redact.iter().find(|pointer| !is_pointer(pointer)) {
            let message =
                format!("`{wrong}` is no JSON Pointer into the payload, such as `/customer/email`.");
            return Err(Refusal::field(Code::Unprocessable, "redact", "pointer", message));
        }
        if self.redact.len() > LIST_ITEMS {
            let message = format!("`redact` may have at most {LIST_ITEMS} entries.");
            return Err(Refusal::field(Code::Unprocessable, "redact", "too_long", message));
        }
        Ok(Checked {
            from: read("from", &self.from)?,
            to: read("to", &self.to)?,
            allow: list("allow", &self.allow)?,
            deny: list("deny", &self.deny)?,
            rule: self,
        })
    }
}

/// Whether a text is a JSON Pointer to a part of something (RFC 6901). One with a `~` that escapes nothing would find
/// nothing, and what it was meant to hide would be seen.
fn is_pointer(text: &str) -> bool {
    text.starts_with('/') && text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

/// Judges an envelope by all rules; `signed`: its signature was verified.
///
/// # Errors
/// [`Code::IntentNotAllowed`], [`Code::SignatureRequired`].
pub fn judge(rules: &[Checked], envelope: &Envelope, signed: bool) -> Result<Passage, Refusal> {
    judge_link(rules, (&envelope.sender, &envelope.recipient), &envelope.purpose, signed)
}

/// Judges what is said by one to another: of what is sent to a channel, by its sender to each who listens.
///
/// # Errors
/// As [`judge`].
pub fn judge_link(
    rules: &[Checked],
    (from, to): (&str, &str),
    purpose: &str,
    signed: bool,
) -> Result<Passage, Refusal> {
    let mut passage = Passage::default();
    for one in rules.iter().filter(|one| one.from.matches(from) && one.to.matches(to)) {
        passage.boundary = true;
        let denied = one.deny.iter().any(|pattern| pattern.matches(purpose));
        let unlisted = !one.allow.is_empty() && !one.allow.iter().any(|pattern| pattern.matches(purpose));
        if denied || unlisted {
            let message = format!(
                "The policy of this server lets no envelope on `{purpose}` pass from `{from}` to `{to}` (AEE §11.5). Ask \
                 its operator."
            );
            return Err(Refusal::new(Code::IntentNotAllowed, message));
        }
        if one.rule.require_signature && !signed {
            return Err(unsigned());
        }
        passage.redact.extend(one.rule.redact.iter().cloned());
        passage.max_priority = match (passage.max_priority, one.rule.max_priority) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    passage.redact.sort_unstable();
    passage.redact.dedup();
    Ok(passage)
}

/// An envelope must be signed here.
#[must_use]
pub fn unsigned() -> Refusal {
    Refusal::field(
        Code::SignatureRequired,
        "sig",
        "missing",
        "Here envelopes must be signed (AEE §11.2). Register a key at `/api/v1/aee/keys` and sign by aee-jcs-1.",
    )
}

/// A payload without what is left out. What a pointer does not find is not there anyway.
#[must_use]
pub fn redacted(payload: &Map<String, Value>, pointers: &[String]) -> Map<String, Value> {
    let mut whole = Value::Object(payload.clone());
    for pointer in pointers {
        let Some((parent, last)) = pointer.rsplit_once('/') else { continue };
        let last = last.replace("~1", "/").replace("~0", "~");
        match whole.pointer_mut(parent) {
            Some(Value::Object(members)) => drop(members.remove(&last)),
            // An item that went away would move the others.
            Some(Value::Array(items)) => {
                if let Some(item) = last.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                    *item = Value::Null;
                }
            }
            _ => {}
        }
    }
    match whole {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
