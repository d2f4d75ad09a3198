//! Thresholds of budgets: actions when a share of the limit is spent.

use serde::{Deserialize, Serialize};

use crate::globs::{PATTERN_BYTES, glob_matches};
use crate::identity::principals::check_name;
use crate::refusal::{Code, Refusal};

/// Maximum number of thresholds of a budget.
const THRESHOLDS: usize = 20;
/// Maximum number of patterns in one list.
const PATTERNS: usize = 100;
/// Highest percentage: costs that nobody reserved can exceed the limit.
const PERCENT: u32 = 1_000;

/// A share of a budget's limit, and the actions taken once it is spent. An event is always recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BudgetThreshold)]
pub struct Threshold {
    /// The share in per cent of the limit, 1 to 1000. At 100 it also counts as reached when a reservation is refused.
    #[schema(example = 80, minimum = 1, maximum = 1000)]
    pub percent: u32,
    /// Restricts models or tools from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degrade: Option<Degrade>,
    /// Asks a person whether to raise the limit, to stop or to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Asked>,
    /// Stops the budget's scope, until somebody lifts the stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop: bool,
}

/// Models and tools that are still allowed; `*` in a pattern stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BudgetDegrade)]
pub struct Degrade {
    /// Patterns of the models that may be used; absent restricts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = json!(["*-mini"]))]
    pub models: Option<Vec<String>>,
    /// Patterns of the tools that may be called; absent restricts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}

/// The person to ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BudgetAsk)]
pub struct Asked {
    /// Name of the person's principal.
    #[schema(example = "alice")]
    pub person: String,
}

impl Degrade {
    /// Whether a use of a capability's target is allowed; other capabilities are.
    #[must_use]
    pub fn allows(&self, capability: &str, target: &str) -> bool {
        let allowed = match capability {
            "model.use" => &self.models,
            "tool.call" => &self.tools,
            _ => return true,
        };
        allowed.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob_matches(glob, target)))
    }
}

/// Checks thresholds and returns them in ascending order.
///
/// # Errors
/// There are too many, two have the same percentage, or one is invalid.
pub(super) fn sorted(mut thresholds: Vec<Threshold>) -> Result<Vec<Threshold>, Refusal> {
    let refused = |what: String| Refusal::field(Code::InvalidRequest, "thresholds", "value", what);
    if thresholds.len() > THRESHOLDS {
        return Err(refused(format!("A budget has at most {THRESHOLDS} thresholds.")));
    }
    thresholds.sort_by_key(|threshold| threshold.percent);
    if let Some(twice) = thresholds.windows(2).find(|two| two[0].percent == two[1].percent) {
        return Err(refused(format!(
            "{} % stands there twice. Put both into one threshold.",
            twice[0].percent
        )));
    }
    for threshold in &thresholds {
        if !(1..=PERCENT).contains(&threshold.percent) {
            return Err(refused(format!("`percent` must be 1 to {PERCENT}, not {}.", threshold.percent)));
        }
        let degrade = threshold.degrade.iter();
        for patterns in degrade.flat_map(|degrade| [&degrade.models, &degrade.tools]).flatten() {
            if patterns.len() > PATTERNS
                || patterns.iter().any(|one| one.is_empty() || one.len() > PATTERN_BYTES)
            {
                let message = format!(
                    "A list in `degrade` has at most {PATTERNS} patterns of 1 to {PATTERN_BYTES} bytes each."
                );
                return Err(refused(message));
            }
        }
        if let Some(asked) = &threshold.ask {
            check_name("person", &asked.person)?;
        }
    }
    Ok(thresholds)
}
