//! The choice of event types of a stream (OI-11.7): which records a follower is shown, by their names.
//!
//! A name is that of an event of the log, of a message or a receipt, or one of the names of the SDK's agents. Unknown
//! names are refused, because a stream that waits for a misspelt one would stay silent for ever. Types that clients
//! define are no known names: `posted` selects them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::globs::glob_matches;
use crate::limits::LIST_ITEMS;
use crate::log::kinds::{Kind, MESSAGE_EVENTS};
use crate::log::receipts::ReceiptKind;

/// The events that agents of the SDK act on, under the names of their streams (OI-11.5.1). They are the server's own
/// events: one that a client posts under the same type is no assignment.
const AGENT_NAMES: [(&str, Kind); 4] = [
    ("AGENT_ASSIGNED", Kind::AgentAssigned),
    ("STATE_CHANGED", Kind::StatePatched),
    ("STATUS_CHANGED", Kind::StatusChanged),
    ("LEASE_RELEASED", Kind::LeaseReleased),
];

/// The name of a message that was read.
const READ: &str = "message_read";
/// The name of a message that expired.
const EXPIRED: &str = "message_expired";

/// One chosen name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Choice {
    /// The server's own events of this kind.
    Own(Kind),
    /// Records with a name that matches this glob.
    Named(String),
    /// Events posted by clients whose type matches this glob.
    Posted(String),
}

/// The records that a stream shows; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTypes(Option<Arc<[Choice]>>);

/// The reason why names select no records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotEventTypes {
    /// There are too many names.
    #[error("it has {0} names, at most {LIST_ITEMS} are allowed")]
    TooMany(usize),
    /// A name is unknown.
    #[error("`{name}` is no event type. Known are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The known names that it may stand for.
        known: String,
    },
}

impl EventTypes {
    /// Selects all records.
    #[must_use]
    pub fn all() -> Self {
        Self(None)
    }

    /// Selects the events that agents of the SDK act on (OI-11.5.1).
    #[must_use]
    pub fn of_agents() -> Self {
        Self(Some(AGENT_NAMES.iter().map(|(_, kind)| Choice::Own(*kind)).collect()))
    }

    /// Selects records by names; `None` if there are no names. `*` selects all records, a glob such as `task.*` those
    /// with a matching name, and `posted` or `posted:GLOB` the events posted by clients, of any type. `clients` are
    /// further types that clients are known to post.
    ///
    /// # Errors
    /// A name is unknown, or there are too many.
    pub fn parse<'a>(
        names: impl IntoIterator<Item = &'a str>,
        clients: &[&str],
    ) -> Result<Option<Self>, NotEventTypes> {
        let names: BTreeSet<&str> = names.into_iter().collect();
        if names.len() > LIST_ITEMS {
            return Err(NotEventTypes::TooMany(names.len()));
        }
        let choices =
            names.iter().map(|name| choice(name, clients)).collect::<Result<Vec<Choice>, NotEventTypes>>()?;
        if names.contains("*") {
            return Ok(Some(Self::all()));
        }
        Ok((!choices.is_empty()).then(|| Self(Some(choices.into()))))
    }

    /// Returns whether an event is selected.
    #[must_use]
    pub fn has_event(&self, event_type: &str, posted: bool) -> bool {
        self.any(|choice| match choice {
            Choice::Own(kind) => !posted && kind.wire() == event_type,
            Choice::Named(glob) => glob_matches(glob, event_type),
            Choice::Posted(glob) => posted && glob_matches(glob, event_type),
        })
    }

    /// Returns whether messages are selected.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        self.any(|choice| choice.names(&MESSAGE_EVENTS))
    }

    /// Returns whether receipts of this kind are selected.
    #[must_use]
    pub fn has_receipts(&self, kind: ReceiptKind) -> bool {
        let name = match kind {
            ReceiptKind::Read => READ,
            ReceiptKind::Expired => EXPIRED,
        };
        self.any(|choice| choice.names(&[name]))
    }

    fn any(&self, has: impl Fn(&Choice) -> bool) -> bool {
        self.0.as_deref().is_none_or(|choices| choices.iter().any(has))
    }
}

impl Choice {
    fn names(&self, names: &[&str]) -> bool {
        matches!(self, Self::Named(glob) if names.iter().any(|name| glob_matches(glob, name)))
    }
}

fn choice(name: &str, clients: &[&str]) -> Result<Choice, NotEventTypes> {
    if let Some((_, kind)) = AGENT_NAMES.iter().find(|(known, _)| *known == name) {
        return Ok(Choice::Own(*kind));
    }
    if name == "posted" {
        return Ok(Choice::Posted("*".to_owned()));
    }
    if let Some(glob) = name.strip_prefix("posted:").filter(|glob| !glob.is_empty()) {
        return Ok(Choice::Posted(glob.to_owned()));
    }
    let known = known(clients);
    if known.iter().any(|known| glob_matches(name, known)) {
        return Ok(Choice::Named(name.to_owned()));
    }
    Err(NotEventTypes::Unknown { name: name.to_owned(), known: near(name, &known) })
}

/// Returns the names of all records, without those of the SDK's agents.
fn known<'a>(clients: &[&'a str]) -> BTreeSet<&'a str> {
    let mut known: BTreeSet<&'a str> = Kind::ALL.iter().map(|kind| kind.wire()).collect();
    known.extend(MESSAGE_EVENTS);
    known.extend([READ, EXPIRED]);
    known.extend(clients.iter().copied());
    known
}

/// Returns the part of a name before its first dot.
fn prefix(name: &str) -> Option<&str> {
    name.split_once('.').map(|(prefix, _)| prefix)
}

/// Lists the known names for an error: those with the same prefix, or else all, with `prefix.*` for many.
fn near(name: &str, known: &BTreeSet<&str>) -> String {
    let asked = prefix(name);
    let alike = |known: &&&str| asked.is_some() && prefix(known) == asked;
    let same: Vec<&str> = known.iter().filter(alike).copied().collect();
    if !same.is_empty() {
        return same.join(", ");
    }
    let globs: BTreeSet<&str> = known.iter().filter_map(|known| prefix(known)).collect();
    let globs: Vec<String> = globs.iter().map(|prefix| format!("{prefix}.*")).collect();
    let mut all = vec!["*", "posted", "posted:TYPE"];
    all.extend(AGENT_NAMES.iter().map(|(name, _)| *name));
    all.extend(known.iter().filter(|known| !known.contains('.')).copied());
    all.extend(globs.iter().map(String::as_str));
    all.join(", ")
}
