//! Boundary rules (AEE §11.5): the intents allowed on a link, required signatures, and redactions.
//!
//! A rule applies to a link: entities that match its patterns for `from` and `to`. Every matching rule
//! applies: one denial is enough, and a rule with an `allow` list denies everything else.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::purposes::Pattern;
use super::{Envelope, Priority};
use crate::limits::LIST_ITEMS;
use crate::refusal::{Code, Refusal};

/// Maximum number of rules of one server; every envelope is compared with all of them.
pub const RULES: usize = 200;

/// A rule for a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "to": "partner.**", "deny": ["ops.**"], "require_signature": true }))]
pub struct Rule {
    /// Senders that the rule applies to: a pattern over dotted names, `**` for all.
    #[serde(default = "all")]
    #[schema(example = "agent.**")]
    pub from: String,
    /// Recipients that the rule applies to.
    #[serde(default = "all")]
    #[schema(example = "partner.**")]
    pub to: String,
    /// Intents that may pass; if not empty, no others may.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Intents that may not pass.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Whether only signed envelopes may pass.
    #[serde(default)]
    pub require_signature: bool,
    /// JSON Pointers to the parts of the payload to leave out: the gateway then delivers an envelope of its
    /// own that refers to the original, never the original.
    #[serde(default)]
    pub redact: Vec<String>,
    /// The highest priority that is accepted; higher ones are lowered to it.
    #[serde(default)]
    pub max_priority: Option<Priority>,
}

fn all() -> String {
    "**".to_owned()
}

/// The effect of the rules on an envelope that may pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passage {
    /// The parts left out for this recipient.
    pub redact: Vec<String>,
    /// The highest priority that is accepted.
    pub max_priority: Option<Priority>,
    /// Whether any rule applies to the link, that is whether there is a boundary.
    pub boundary: bool,
}

impl Passage {
    /// Returns the parts to leave out in addition to those already `gone` (leaving out a part includes all
    /// within it).
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

    /// Returns the effective priority.
    #[must_use]
    pub fn believed(&self, priority: Priority) -> Priority {
        self.max_priority.map_or(priority, |most| priority.min(most))
    }
}

/// A rule with its parsed patterns.
#[derive(Debug, Clone)]
pub struct Checked {
    from: Pattern,
    to: Pattern,
    allow: Vec<Pattern>,
    deny: Vec<Pattern>,
    /// The rule as written.
    pub rule: Rule,
}

impl Rule {
    /// Parses the rule's patterns.
    ///
    /// # Errors
    /// [`Code::Unprocessable`] at the invalid member.
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

/// Whether a text is a JSON Pointer to a part of a value (RFC 6901).
///
/// A pointer with a `~` that escapes nothing would match nothing, and the part that it should hide would be
/// visible.
fn is_pointer(text: &str) -> bool {
    text.starts_with('/') && text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

/// Checks an envelope against all rules; `signed` means that its signature was verified.
///
/// # Errors
/// [`Code::IntentNotAllowed`], [`Code::SignatureRequired`].
pub fn judge(rules: &[Checked], envelope: &Envelope, signed: bool) -> Result<Passage, Refusal> {
    judge_link(rules, &envelope.sender, &envelope.recipient, &envelope.purpose, signed)
}

/// Checks a link between two entities; for a channel, that is from the sender to each subscriber.
///
/// # Errors
/// As [`judge`].
pub fn judge_link(
    rules: &[Checked],
    from: &str,
    to: &str,
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

/// Returns the refusal of an unsigned envelope.
#[must_use]
pub fn unsigned() -> Refusal {
    Refusal::field(
        Code::SignatureRequired,
        "sig",
        "missing",
        "Here envelopes must be signed (AEE §11.2). Register a key at `/api/v1/aee/keys` and sign by aee-jcs-1.",
    )
}

/// Returns a payload without the given parts; pointers that match nothing have no effect.
#[must_use]
pub fn redacted(payload: &Map<String, Value>, pointers: &[String]) -> Map<String, Value> {
    let mut whole = Value::Object(payload.clone());
    for pointer in pointers {
        let Some((parent, last)) = pointer.rsplit_once('/') else { continue };
        let last = last.replace("~1", "/").replace("~0", "~");
        match whole.pointer_mut(parent) {
            Some(Value::Object(members)) => drop(members.remove(&last)),
            // Removing an item would move the others.
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
