//! A workflow of the SDK as it is applied, and the remarks on it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

use super::super::faults::Place;
use super::super::form::Form;

/// A workflow in the form of the SDK.
#[derive(Debug)]
pub(in super::super) struct SdkForm {
    /// The workflow's own intent, with its channels.
    pub root: Form,
    /// Governance policy of that intent.
    pub policy: Map<String, Value>,
    /// Capabilities of the agents that the file describes.
    pub agents: BTreeMap<String, Vec<String>>,
    /// The phases, each after those that it depends on.
    pub phases: Vec<Phase>,
    /// Remarks on the members that are not applied as they are.
    pub notes: Vec<Note>,
}

/// A phase: an intent with an agent.
#[derive(Debug, Default)]
pub(in super::super) struct Phase {
    /// Its key in the file.
    pub key: String,
    /// The goal in a line.
    pub title: String,
    /// The goal in full.
    pub description: String,
    /// The agent that it is assigned to.
    pub assign: String,
    /// Keys of the phases that must be completed first.
    pub depends_on: Vec<String>,
    /// Constraints on the work, among them the key as `phase`.
    pub constraints: Map<String, Value>,
    /// Initial state, with the members from which the SDK's agents read the phase's settings.
    pub state: Map<String, Value>,
    /// Governance policy.
    pub policy: Map<String, Value>,
    /// Access list; `None` leaves the intent open to everybody.
    pub access: Option<Access>,
    /// Retry policy (RFC-0010).
    pub retry: Option<Map<String, Value>>,
}

/// Access list of a phase (RFC-0011).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Access {
    /// The server's policy for agents without an entry: `open` lets them read, `closed` keeps them out.
    pub policy: &'static str,
    /// Level and expiry by agent.
    pub entries: BTreeMap<String, (Level, Option<String>)>,
}

/// Level of access, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Level {
    Read,
    Write,
    Admin,
}

impl Level {
    pub(in super::super) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Write, Self::Admin].into_iter().find(|level| level.as_str() == text)
    }
}

/// Treatment of a member of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Treatment {
    /// Applied in another way than the file says.
    Adapted,
    /// Stored for the SDK's agents; the server does not enforce it.
    Kept,
    /// Not applied.
    Ignored,
}

impl Treatment {
    fn words(self) -> &'static str {
        match self {
            Self::Adapted => "applied differently",
            Self::Kept => "kept, not enforced",
            Self::Ignored => "not applied",
        }
    }
}

/// A remark on a member of the file that is not applied as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Note {
    pub(super) place: Option<Place>,
    pub(super) path: String,
    pub(super) treatment: Treatment,
    pub(super) why: String,
}

impl Note {
    /// Returns the remark for programs.
    pub(in super::super) fn object(&self) -> Value {
        let (line, column) = self.place.unzip();
        json!({
            "line": line, "column": column, "path": self.path, "treatment": self.treatment.words(), "detail": self.why,
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "{line}:{column}: ")?;
        }
        write!(f, "{}: {}: {}", self.path, self.treatment.words(), self.why)
    }
}

impl SdkForm {
    /// Returns the numbers of things that are applied, by their names.
    pub(in super::super) fn applied(&self) -> [(&'static str, usize); 9] {
        let phases = &self.phases;
        [
            ("phases", phases.len()),
            ("dependencies", phases.iter().map(|phase| phase.depends_on.len()).sum()),
            ("assignments", phases.len()),
            ("agents", self.agents.len()),
            ("channels", self.root.channels.len()),
            ("cost limits", phases.iter().filter(|phase| phase.policy.contains_key("max_cost")).count()),
            ("retry policies", phases.iter().filter(|phase| phase.retry.is_some()).count()),
            ("access lists", phases.iter().filter(|phase| phase.access.is_some()).count()),
            ("approval gates", usize::from(!self.policy.is_empty())),
        ]
    }
}
