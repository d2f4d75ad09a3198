//! Subjects: whom a budget or a stop concerns, written `system`, `team:NAME`, `principal:NAME`, `agent:NAME`,
//! `intent:ID` or `key:ID`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::identity::principals::check_name;
use crate::ids::{IntentId, KeyId};
use crate::refusal::{Code, Refusal};

/// Kind of subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SubjectKind {
    /// Everybody.
    System,
    /// A named group of principals.
    Team,
    /// A principal.
    Principal,
    /// An agent, whichever principal it works for: the agent of a job without its version, or the acting agent.
    Agent,
    /// An intent.
    Intent,
    /// An API key.
    Key,
}

impl SubjectKind {
    const ALL: [Self; 6] = [Self::System, Self::Team, Self::Principal, Self::Agent, Self::Intent, Self::Key];

    /// Returns its name, as on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Team => "team",
            Self::Principal => "principal",
            Self::Agent => "agent",
            Self::Intent => "intent",
            Self::Key => "key",
        }
    }

    /// Parses a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Whom a budget or a stop concerns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Subject {
    /// Its kind.
    pub kind: SubjectKind,
    /// Its name or id; empty for the system.
    pub name: String,
}

/// Error: the text names no subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be `system`, `team:NAME`, `principal:NAME`, `agent:NAME`, `intent:ID` or `key:ID`")]
pub struct NotASubject;

impl Subject {
    /// The whole system.
    #[must_use]
    pub fn system() -> Self {
        Self { kind: SubjectKind::System, name: String::new() }
    }

    /// A subject of a kind.
    #[must_use]
    pub fn of(kind: SubjectKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }

    /// Returns the intent that it names.
    #[must_use]
    pub fn intent(&self) -> Option<IntentId> {
        if self.kind == SubjectKind::Intent { self.name.parse().ok() } else { None }
    }

    /// Parses the member `member` of a request.
    ///
    /// # Errors
    /// The text names no subject.
    pub fn read(member: &str, text: &str) -> Result<Self, Refusal> {
        text.parse().map_err(|fault: NotASubject| {
            Refusal::field(Code::InvalidRequest, member, "subject", format!("`{member}` {fault}."))
        })
    }
}

impl FromStr for Subject {
    type Err = NotASubject;

    fn from_str(text: &str) -> Result<Self, NotASubject> {
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let kind = SubjectKind::parse(kind).ok_or(NotASubject)?;
        let fits = match kind {
            SubjectKind::System => text == "system",
            SubjectKind::Intent => name.parse::<IntentId>().is_ok(),
            SubjectKind::Key => name.parse::<KeyId>().is_ok(),
            SubjectKind::Team | SubjectKind::Principal | SubjectKind::Agent => {
                check_name("scope", name).is_ok()
            }
        };
        if fits { Ok(Self { kind, name: name.to_owned() }) } else { Err(NotASubject) }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SubjectKind::System => f.write_str("system"),
            kind => write!(f, "{}:{}", kind.as_str(), self.name),
        }
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.to_string()
    }
}

impl TryFrom<String> for Subject {
    type Error = NotASubject;

    fn try_from(text: String) -> Result<Self, NotASubject> {
        text.parse()
    }
}

/// Parties and purpose of an operation, by which budgets and stops are looked up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Act {
    /// Principal that is responsible: that of the key.
    pub principal: String,
    /// Agents that do it, without versions: the one that acts, and the one that has it done.
    pub agents: Vec<String>,
    /// Intent that it is for.
    pub intent: Option<IntentId>,
    /// Key that is responsible.
    pub key: Option<KeyId>,
}

impl Act {
    /// Creates the act of a job: its agent acts for the agent that submitted it, under the principal of the key
    /// (`owner`), if it is known.
    #[must_use]
    pub fn of_job(
        owner: Option<String>,
        submitter: &str,
        agent: &str,
        intent: Option<IntentId>,
        key: Option<KeyId>,
    ) -> Self {
        Self {
            principal: owner.unwrap_or_else(|| submitter.to_owned()),
            agents: vec![unversioned(agent).to_owned(), submitter.to_owned()],
            intent,
            key,
        }
    }

    /// The agent that acts.
    #[must_use]
    pub fn agent(&self) -> &str {
        self.agents.first().unwrap_or(&self.principal)
    }

    /// Returns the subjects that the act concerns, apart from the teams of its principal.
    #[must_use]
    pub fn subjects(&self) -> Vec<Subject> {
        let mut subjects = vec![
            Subject::system(),
            Subject::of(SubjectKind::Principal, &self.principal),
            Subject::of(SubjectKind::Agent, &self.principal),
        ];
        for agent in &self.agents {
            let agent = Subject::of(SubjectKind::Agent, agent);
            if !subjects.contains(&agent) {
                subjects.push(agent);
            }
        }
        subjects.extend(self.intent.map(|id| Subject::of(SubjectKind::Intent, id)));
        subjects.extend(self.key.map(|id| Subject::of(SubjectKind::Key, id)));
        subjects
    }
}

/// Returns the name of an agent without its version (`name@version`, ARCP §7.5).
#[must_use]
pub fn unversioned(agent: &str) -> &str {
    agent.split_once('@').map_or(agent, |(name, _)| name)
}
