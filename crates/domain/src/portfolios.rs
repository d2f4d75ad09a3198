//! Portfolios (RFC-0004, RFC-0007): intents that somebody keeps an eye on together, and what they come to.
//!
//! A portfolio gives nobody access to its intents and changes none of them: it is a list with sums. It belongs to the agent
//! that made it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::exact;
use crate::clock::Timestamp;
use crate::ids::{IntentId, MembershipId, PortfolioId};
use crate::intents::IntentStatus;
use crate::limits::{METADATA_BYTES, PORTFOLIO_INTENTS, TEXT_BYTES, TITLE_BYTES};
use crate::refusal::{Code, Refusal};

/// Where a portfolio is in its life; says nothing about its intents, but see [`Portfolio::moved`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PortfolioStatus {
    /// Being looked after.
    Active,
    /// What it was for is reached.
    Completed,
    /// Given up.
    Abandoned,
}

impl PortfolioStatus {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Active, Self::Completed, Self::Abandoned];

    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Abandoned => "abandoned",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// What an intent is in a portfolio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MembershipRole {
    /// What it is about.
    Primary,
    /// One of its intents.
    Member,
    /// What others of it wait for.
    Dependency,
}

impl MembershipRole {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Member, Self::Dependency];

    /// The role as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Member => "member",
            Self::Dependency => "dependency",
        }
    }

    /// Reads a role; `None` when there is no such role.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// A portfolio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Portfolio {
    /// Its id.
    pub id: PortfolioId,
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whose it is.
    pub created_by: String,
    /// Where it is in its life.
    pub status: PortfolioStatus,
    /// The client's rules; of them only `require_all_completed` is kept by the server.
    pub governance_policy: Map<String, Value>,
    /// The client's own object.
    pub metadata: Map<String, Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its status or its intents last changed.
    pub updated_at: Timestamp,
}

/// What is asked for in a new portfolio.
#[derive(Debug, Clone)]
pub struct PortfolioAsk {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The client's rules.
    pub governance_policy: Map<String, Value>,
    /// The client's own object.
    pub metadata: Map<String, Value>,
}

/// Makes a portfolio.
///
/// # Errors
/// A name that is missing or too long, a description or object over its limit.
pub fn create(
    ask: PortfolioAsk,
    created_by: &str,
    id: PortfolioId,
    now: Timestamp,
) -> Result<Portfolio, Refusal> {
    if ask.name.trim().is_empty() || ask.name.len() > TITLE_BYTES {
        let message = format!("`name` must have 1 to {TITLE_BYTES} bytes.");
        return Err(Refusal::field(Code::InvalidRequest, "name", "length", message));
    }
    if ask.description.as_ref().is_some_and(|text| text.len() > TEXT_BYTES) {
        let message = format!("`description` has at most {TEXT_BYTES} bytes.");
        return Err(Refusal::field(Code::InvalidRequest, "description", "too_long", message));
    }
    check_object("governance_policy", &ask.governance_policy)?;
    check_object("metadata", &ask.metadata)?;
    Ok(Portfolio {
        id,
        name: ask.name,
        description: ask.description,
        created_by: created_by.to_owned(),
        status: PortfolioStatus::Active,
        governance_policy: ask.governance_policy,
        metadata: ask.metadata,
        created_at: now,
        updated_at: now,
    })
}

fn check_object(member: &str, object: &Map<String, Value>) -> Result<(), Refusal> {
    object.values().try_for_each(exact)?;
    let bytes = serde_json::to_string(object).map_or(0, |text| text.len());
    if bytes <= METADATA_BYTES {
        return Ok(());
    }
    let message = format!("`{member}` has {bytes} bytes, at most {METADATA_BYTES} are allowed.");
    Err(Refusal::field(Code::TooLarge, member, "too_large", message))
}

impl Portfolio {
    /// The portfolio in another status. Any may follow any other; but with the rule `require_all_completed` it is
    /// completed only once all of its intents are, as far as the caller sees them.
    ///
    /// # Errors
    /// [`Code::InvalidTransition`].
    pub fn moved(&self, status: PortfolioStatus, sums: &Aggregate, now: Timestamp) -> Result<Self, Refusal> {
        let strict = self.governance_policy.get("require_all_completed") == Some(&Value::Bool(true));
        if strict && status == PortfolioStatus::Completed && sums.completed() < sums.total {
            let message = format!(
                "By its rule `require_all_completed` the portfolio is completed when all of its intents are; {} of {} are.",
                sums.completed(),
                sums.total
            );
            return Err(Refusal::new(Code::InvalidTransition, message));
        }
        Ok(Self { status, updated_at: now, ..self.clone() })
    }
}

/// An intent's place in a portfolio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Its id.
    pub id: MembershipId,
    /// The portfolio.
    pub portfolio_id: PortfolioId,
    /// The intent.
    pub intent_id: IntentId,
    /// As what.
    pub role: MembershipRole,
    /// The higher, the earlier it is listed.
    pub priority: i32,
    /// When it was put there.
    pub added_at: Timestamp,
}

/// Checks that a portfolio may have one intent more than this many.
///
/// # Errors
/// [`Code::Unprocessable`].
pub fn check_room(intents: usize) -> Result<(), Refusal> {
    if intents < PORTFOLIO_INTENTS {
        return Ok(());
    }
    let message =
        format!("A portfolio has at most {PORTFOLIO_INTENTS} intents. Take some out, or make another.");
    Err(Refusal::field(Code::Unprocessable, "intent_id", "too_many", message))
}

/// What intents come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// How many there are.
    pub total: u64,
    /// How many in each status that any of them has.
    pub by_status: BTreeMap<&'static str, u64>,
}

impl Aggregate {
    /// Counts so many more in a status.
    pub fn count(&mut self, status: IntentStatus, more: u64) {
        if more > 0 {
            self.total += more;
            *self.by_status.entry(status.as_str()).or_default() += more;
        }
    }

    /// How many are completed.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.by_status.get(IntentStatus::Completed.as_str()).copied().unwrap_or(0)
    }

    /// How many of a hundred are completed, rounded down, so that 100 means all; 0 of none.
    #[must_use]
    pub fn completion_percentage(&self) -> u64 {
        (self.completed() * 100).checked_div(self.total).unwrap_or(0)
    }
}

impl FromIterator<IntentStatus> for Aggregate {
    fn from_iter<T: IntoIterator<Item = IntentStatus>>(statuses: T) -> Self {
        let mut sums = Self::default();
        statuses.into_iter().for_each(|status| sums.count(status, 1));
        sums
    }
}
