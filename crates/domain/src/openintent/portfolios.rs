//! Portfolios (RFC-0004, RFC-0007): groups of intents that an agent monitors together, with totals.
//!
//! A portfolio gives nobody access to its intents and changes none of them: it is a list with totals. It belongs to
//! the agent that created it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::exact;
use crate::clock::Timestamp;
use crate::ids::{IntentId, MembershipId, PortfolioId};
use crate::limits::{METADATA_BYTES, PORTFOLIO_INTENTS, TEXT_BYTES, TITLE_BYTES};
use crate::openintent::intents::IntentStatus;
use crate::refusal::{Code, Refusal};

/// Status of a portfolio; independent of the statuses of its intents, except under the rule
/// `require_all_completed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PortfolioStatus {
    /// In use.
    Active,
    /// Its goal is reached.
    Completed,
    /// Given up.
    Abandoned,
}

impl PortfolioStatus {
    /// All statuses.
    pub const ALL: [Self; 3] = [Self::Active, Self::Completed, Self::Abandoned];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Abandoned => "abandoned",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Role of an intent in a portfolio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MembershipRole {
    /// Subject of the portfolio.
    Primary,
    /// One of its intents.
    Member,
    /// Prerequisite of other intents of the portfolio.
    Dependency,
}

impl MembershipRole {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Member, Self::Dependency];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Member => "member",
            Self::Dependency => "dependency",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// A portfolio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Portfolio {
    /// Identifier.
    pub id: PortfolioId,
    /// Name.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Agent that created and owns the portfolio.
    pub created_by: String,
    /// Status.
    pub status: PortfolioStatus,
    /// Client-defined rules; the server only enforces `require_all_completed`.
    pub governance_policy: Map<String, Value>,
    /// Client-defined object.
    pub metadata: Map<String, Value>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change of its status or its intents.
    pub updated_at: Timestamp,
}

/// Request to create a portfolio.
#[derive(Debug, Clone)]
pub struct PortfolioAsk {
    /// Name.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Client-defined rules.
    pub governance_policy: Map<String, Value>,
    /// Client-defined object.
    pub metadata: Map<String, Value>,
}

/// Creates a portfolio.
///
/// # Errors
/// A missing or too long name, or a description or object over its limit.
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
    /// Returns the portfolio with another status.
    ///
    /// All transitions are allowed, except that the rule `require_all_completed` prevents completion until all
    /// intents visible to the caller are completed.
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

/// Membership of an intent in a portfolio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Identifier.
    pub id: MembershipId,
    /// Portfolio.
    pub portfolio_id: PortfolioId,
    /// Intent.
    pub intent_id: IntentId,
    /// Role of the intent.
    pub role: MembershipRole,
    /// Sort priority; higher values are listed first.
    pub priority: i32,
    /// Time when the intent was added.
    pub added_at: Timestamp,
}

/// Checks that a portfolio with this many intents may have one more.
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

/// Totals of a set of intents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Number of intents.
    pub total: u64,
    /// Number of intents in each status that occurs.
    pub by_status: BTreeMap<&'static str, u64>,
}

impl Aggregate {
    /// Adds `more` intents in a status.
    pub fn count(&mut self, status: IntentStatus, more: u64) {
        if more > 0 {
            self.total += more;
            *self.by_status.entry(status.as_str()).or_default() += more;
        }
    }

    /// Returns the number of completed intents.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.by_status.get(IntentStatus::Completed.as_str()).copied().unwrap_or(0)
    }

    /// Returns the percentage of completed intents, rounded down, so that 100 means all; 0 for an empty set.
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
