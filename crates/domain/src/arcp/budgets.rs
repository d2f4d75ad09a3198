//! Budgets (ARCP §9.6): the amounts a job may spend, one counter per currency. Permissions are in
//! `capabilities.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::amounts::Amount;
use crate::arcp::capabilities::Authority;
use crate::refusal::{Code, Refusal};

/// The namespace of budgets in an authority.
pub const BUDGET: &str = "cost.budget";

/// Maximum length of a currency's name.
const CURRENCY_BYTES: usize = 32;

/// Amounts by currency: either allowed or left.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Budget(pub BTreeMap<String, Amount>);

impl Budget {
    /// Parses the budget of an authority: `"USD:5.00"`, one per currency; empty (unlimited) if there is none.
    ///
    /// # Errors
    /// An invalid amount, or a currency that occurs twice.
    pub fn of(authority: &Authority) -> Result<Self, Refusal> {
        let mut amounts = BTreeMap::new();
        for text in authority.patterns(BUDGET) {
            let (currency, amount) =
                text.split_once(':').ok_or_else(|| refused(text, "must be CURRENCY:AMOUNT"))?;
            if !is_currency(currency) {
                return Err(refused(text, "must name a currency: letters, digits, `-`, `_` and `.`"));
            }
            let amount: Amount = amount.parse().map_err(|e| refused(text, &format!("the amount {e}")))?;
            if amounts.insert(currency.to_owned(), amount).is_some() {
                return Err(refused(text, "stands there twice for one currency"));
            }
        }
        Ok(Self(amounts))
    }

    /// Whether spending is not counted at all.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first currency with nothing left; then no operation is allowed, in any currency (§9.6).
    #[must_use]
    pub fn spent(&self) -> Option<&str> {
        self.0.iter().find(|(_, left)| left.is_spent()).map(|(currency, _)| currency.as_str())
    }

    /// Subtracts a cost from its counter and returns the remainder; `None` if the currency is not counted.
    ///
    /// The counter may go below zero: the money is gone whether or not spending it was allowed.
    ///
    /// # Errors
    /// The cost is negative: that would give authority back.
    pub fn charge(&mut self, currency: &str, cost: Amount) -> Result<Option<Amount>, Refusal> {
        if cost.is_negative() {
            return Err(refused(&cost.to_string(), "a cost cannot be below zero"));
        }
        let Some(left) = self.0.get_mut(currency) else { return Ok(None) };
        *left = *left - cost;
        Ok(Some(*left))
    }

    /// Reserves amounts before they are spent, all of them or none (an extension to §9.6: fails closed).
    ///
    /// # Errors
    /// The currency that has too little left, or is not counted.
    pub fn reserve(&mut self, amounts: &Self) -> Result<(), String> {
        for (currency, amount) in &amounts.0 {
            let fits = self.0.get(currency).is_some_and(|left| amount <= left && !amount.is_negative());
            if !fits {
                return Err(currency.clone());
            }
        }
        for (currency, amount) in &amounts.0 {
            if let Some(left) = self.0.get_mut(currency) {
                *left = *left - *amount;
            }
        }
        Ok(())
    }

    /// Checks that a child may have this budget when its parent has `remaining` (§9.4).
    ///
    /// No currency may exceed the remainder, and a parent's budget must count each of them. Currencies absent
    /// from the child's budget stay bounded, because the child's costs are charged to the parent too.
    ///
    /// # Errors
    /// The currency that exceeds the parent's budget.
    pub fn within(&self, remaining: &Self) -> Result<(), String> {
        if remaining.is_unlimited() {
            return Ok(());
        }
        let beyond = |(currency, amount): &(&String, &Amount)| {
            remaining.0.get(*currency).is_none_or(|left| *amount > left)
        };
        self.0.iter().find(beyond).map_or(Ok(()), |(currency, _)| Err(currency.clone()))
    }
}

fn is_currency(text: &str) -> bool {
    let lawful = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=CURRENCY_BYTES).contains(&text.len()) && text.bytes().all(lawful)
}

fn refused(text: &str, why: &str) -> Refusal {
    Refusal::field(Code::InvalidRequest, BUDGET, "amount", format!("`{text}` in `{BUDGET}`: {why}."))
}
