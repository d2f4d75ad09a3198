//! The use of a budget in one of its windows, and its consequences.

use super::amounts::Amount;
use super::{Degrade, SpendingBudget, Threshold};
use crate::clock::{Timestamp, rfc3339};
use crate::refusal::{Code, Refusal};

/// Per cent of the limit at which nothing is left.
const ALL: u32 = 100;

/// Use of a budget in one window.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// The budget.
    pub budget: SpendingBudget,
    /// Begin of the window; 1970 for a budget that never begins anew.
    pub starts_at: Timestamp,
    /// End of the window; `None` if it never ends.
    pub ends_at: Option<Timestamp>,
    /// Amount by which the limit was raised in this window.
    pub raised: Amount,
    /// Costs charged.
    pub spent: Amount,
    /// Amounts reserved and not settled yet.
    pub reserved: Amount,
}

impl Usage {
    /// Limit of the window.
    #[must_use]
    pub fn limit(&self) -> Amount {
        self.budget.limit + self.raised
    }

    /// Amount that can still be reserved; below zero when costs exceed the limit.
    #[must_use]
    pub fn left(&self) -> Amount {
        self.limit() - self.spent - self.reserved
    }

    /// Requires that the limit has room for the costs and all reserved amounts, of which `asked` is one.
    ///
    /// # Errors
    /// [`Code::BudgetExhausted`].
    pub fn require_room(&self, asked: Amount) -> Result<(), Refusal> {
        if self.left().is_negative() { Err(self.exhausted(self.left() + asked, asked)) } else { Ok(()) }
    }

    /// Requires that something is left.
    ///
    /// # Errors
    /// [`Code::BudgetExhausted`].
    pub fn require_left(&self) -> Result<(), Refusal> {
        if self.left().is_spent() { Err(self.exhausted(self.left(), Amount::ZERO)) } else { Ok(()) }
    }

    /// Requires that not everything is spent. Reservations do not count: they may be for the very call that is judged.
    ///
    /// # Errors
    /// [`Code::BudgetExhausted`].
    pub fn require_unspent(&self) -> Result<(), Refusal> {
        let left = self.limit() - self.spent;
        if left.is_spent() { Err(self.exhausted(left, Amount::ZERO)) } else { Ok(()) }
    }

    fn exhausted(&self, left: Amount, asked: Amount) -> Refusal {
        let budget = &self.budget;
        let (unit, limit) = (&budget.unit, self.limit());
        let until = self.ends_at.map(|end| format!(" until {}", rfc3339(end))).unwrap_or_default();
        let wanted =
            if asked == Amount::ZERO { String::new() } else { format!(", and {asked} were asked for") };
        let message = format!(
            "The budget \"{}\" of {} has {left} {unit} of {limit} left{until}{wanted}. Go on with what costs nothing, or have \
             it raised: PATCH /api/v1/budgets/{}.",
            budget.name, budget.scope, budget.id
        );
        Refusal::new(Code::BudgetExhausted, message)
    }

    /// Whether a share of the limit is spent.
    #[must_use]
    pub fn has_spent(&self, percent: u32) -> bool {
        self.spent.is_share_of(self.limit(), percent)
    }

    /// Returns the thresholds reached by the costs; with `refused`, which says that a reservation was refused,
    /// also those up to 100 per cent.
    pub fn reached(&self, refused: bool) -> impl Iterator<Item = &Threshold> {
        let thresholds = self.budget.thresholds.iter();
        thresholds.filter(move |threshold| {
            self.has_spent(threshold.percent) || (refused && threshold.percent <= ALL)
        })
    }

    /// Requires that the thresholds reached still allow this use of a capability's target.
    ///
    /// # Errors
    /// [`Code::PermissionDenied`].
    pub fn require_allowed(&self, capability: &str, target: &str) -> Result<(), Refusal> {
        let forbids = |degrade: &&Degrade| !degrade.allows(capability, target);
        let reached: Vec<&Threshold> = self.reached(false).collect();
        let Some(threshold) =
            reached.iter().rev().find(|one| one.degrade.as_ref().is_some_and(|d| forbids(&d)))
        else {
            return Ok(());
        };
        let degrade = threshold.degrade.as_ref();
        let allowed = degrade
            .and_then(|d| if capability == "model.use" { d.models.as_ref() } else { d.tools.as_ref() });
        let allowed = allowed.map(|list| list.join(", ")).filter(|list| !list.is_empty());
        let message = format!(
            "{} % of the budget \"{}\" are spent; until it has more, `{capability}` is restricted to: {}.",
            threshold.percent,
            self.budget.name,
            allowed.as_deref().unwrap_or("nothing"),
        );
        Err(Refusal::new(Code::PermissionDenied, message))
    }
}
