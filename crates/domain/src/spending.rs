//! Spending: budgets that many jobs and agents share, in windows of time, with thresholds. The counters of a single
//! job are in `arcp/budgets.rs`.
//!
//! A cost is charged to every budget that concerns it. An amount reserved before it is spent is taken from all of them
//! or from none, so only costs that nobody reserved, or a lowered limit, can leave a budget beyond its limit.

pub mod amounts;
pub mod stops;
pub mod subjects;
mod thresholds;
mod usage;

use std::fmt;

use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use self::amounts::Amount;
use self::subjects::Subject;
pub use self::thresholds::{Asked, Degrade, Threshold};
pub use self::usage::Usage;
use crate::clock::Timestamp;
use crate::ids::BudgetId;
use crate::limits::{NAME_BYTES, TITLE_BYTES};
use crate::refusal::{Code, Refusal};

/// The window of a budget: how often it begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = BudgetWindow)]
pub enum Window {
    /// Never.
    #[default]
    Total,
    /// Every hour.
    Hour,
    /// At midnight.
    Day,
    /// On Mondays at midnight.
    Week,
    /// On the first of the month at midnight.
    Month,
}

impl Window {
    const ALL: [Self; 5] = [Self::Total, Self::Hour, Self::Day, Self::Week, Self::Month];

    /// Returns its name, as on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Parses a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|window| window.as_str() == name)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A limit on the spending of a subject in one unit within a window of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpendingBudget {
    /// Its id.
    pub id: BudgetId,
    /// Its name, for people.
    pub name: String,
    /// Whose spending it limits.
    pub scope: Subject,
    /// The unit: a currency, `tokens` ….
    pub unit: String,
    /// Its window.
    pub window: Window,
    /// IANA time zone in which the window begins.
    pub time_zone: String,
    /// The limit in each window.
    pub limit: Amount,
    /// Shares of the limit, with the actions taken once they are spent, in ascending order.
    pub thresholds: Vec<Threshold>,
    /// Principal that created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was closed; a closed budget limits nothing.
    pub closed_at: Option<Timestamp>,
}

/// Input for a new budget.
#[derive(Debug, Clone)]
pub struct BudgetAsk {
    /// Its name; defaults to a description.
    pub name: Option<String>,
    /// Whose spending it limits.
    pub scope: Subject,
    /// The unit.
    pub unit: String,
    /// Its window.
    pub window: Window,
    /// Time zone; defaults to UTC.
    pub time_zone: Option<String>,
    /// The limit.
    pub limit: Amount,
    /// The thresholds.
    pub thresholds: Vec<Threshold>,
}

/// Input for a change of a budget; absent members stay.
#[derive(Debug, Clone, Default)]
pub struct BudgetChange {
    /// Its name.
    pub name: Option<String>,
    /// The limit, from the present window on.
    pub limit: Option<Amount>,
    /// The thresholds.
    pub thresholds: Option<Vec<Threshold>>,
}

/// Creates a budget.
///
/// # Errors
/// The unit, the time zone, the name, the limit or a threshold is invalid.
pub fn create(ask: BudgetAsk, by: &str, id: BudgetId, now: Timestamp) -> Result<SpendingBudget, Refusal> {
    check_unit(&ask.unit)?;
    let time_zone = ask.time_zone.unwrap_or_else(|| "UTC".to_owned());
    check_time_zone(&time_zone)?;
    let name = ask.name.unwrap_or_else(|| format!("{} per {} of {}", ask.unit, ask.window, ask.scope));
    let budget = SpendingBudget {
        id,
        name,
        scope: ask.scope,
        unit: ask.unit,
        window: ask.window,
        time_zone,
        limit: ask.limit,
        thresholds: thresholds::sorted(ask.thresholds)?,
        created_by: by.to_owned(),
        created_at: now,
        closed_at: None,
    };
    budget.check()?;
    Ok(budget)
}

impl SpendingBudget {
    /// Returns the budget after a change.
    ///
    /// # Errors
    /// The budget is closed; the name, the limit or a threshold is invalid.
    pub fn changed(&self, change: BudgetChange) -> Result<Self, Refusal> {
        self.require_open()?;
        let changed = Self {
            name: change.name.unwrap_or_else(|| self.name.clone()),
            limit: change.limit.unwrap_or(self.limit),
            thresholds: match change.thresholds {
                Some(given) => thresholds::sorted(given)?,
                None => self.thresholds.clone(),
            },
            ..self.clone()
        };
        changed.check()?;
        Ok(changed)
    }

    /// Returns the budget after it was closed.
    ///
    /// # Errors
    /// It is closed already.
    pub fn closed(&self, now: Timestamp) -> Result<Self, Refusal> {
        self.require_open()?;
        Ok(Self { closed_at: Some(now), ..self.clone() })
    }

    /// Requires that the budget is not closed.
    ///
    /// # Errors
    /// [`Code::Unprocessable`].
    pub fn require_open(&self) -> Result<(), Refusal> {
        if self.closed_at.is_none() {
            return Ok(());
        }
        Err(Refusal::new(Code::Unprocessable, "This budget is closed and limits nothing. Create a new one."))
    }

    fn check(&self) -> Result<(), Refusal> {
        let refused = |member: &str, what: &str| {
            Err(Refusal::field(Code::InvalidRequest, member, "value", format!("`{member}` {what}.")))
        };
        if self.name.trim().is_empty() || self.name.len() > TITLE_BYTES {
            return refused("name", "must have 1 to 500 bytes");
        }
        if self.limit.is_negative() {
            return refused("limit", "is below zero");
        }
        Ok(())
    }
}

/// Checks the name of a time zone.
///
/// # Errors
/// It is no IANA time zone.
pub fn check_time_zone(name: &str) -> Result<(), Refusal> {
    if name.parse::<Tz>().is_ok() {
        return Ok(());
    }
    let message = format!("`{name}` is no time zone. Use an IANA name such as Europe/Berlin.");
    Err(Refusal::field(Code::InvalidRequest, "time_zone", "time_zone", message))
}

/// Treatment of the amounts of a reservation that nobody settles in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unsettled {
    /// They are released, as if the call had not been made.
    #[default]
    Release,
    /// They are charged, as if the call had cost as much.
    Charge,
}

/// Checks the name of a unit.
///
/// # Errors
/// It is empty, too long or has blanks.
pub fn check_unit(unit: &str) -> Result<(), Refusal> {
    let fits = (1..=NAME_BYTES).contains(&unit.len())
        && !unit.chars().any(|letter| letter.is_control() || letter.is_whitespace());
    if fits {
        return Ok(());
    }
    let message = "`unit` must be 1 to 200 bytes without blanks: a currency such as USD, or `tokens`.";
    Err(Refusal::field(Code::InvalidRequest, "unit", "unit", message))
}
