//! Budgets (ARCP §9.6): what a job may spend, one counter per currency. What it may touch is `capabilities.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::amounts::Amount;
use crate::capabilities::Authority;
use crate::refusal::{Code, Refusal};

/// The namespace of budgets in an authority.
pub const BUDGET: &str = "cost.budget";

/// Letters of a currency.
const CURRENCY_BYTES: usize = 32;

/// Amounts by currency: what was allowed, or what is left.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Budget(pub BTreeMap<String, Amount>);

impl Budget {
    /// Reads the budget of an authority: `"USD:5.00"`, one per currency. Empty when it has none: then nothing is counted.
    ///
    /// # Errors
    /// An amount that is none; a currency that stands there twice.
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

    /// Whether nothing is counted.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.0.is_empty()
    }

    /// The first currency that has nothing left: then no operation is allowed any more (§9.6), in whatever currency it is.
    #[must_use]
    pub fn spent(&self) -> Option<&str> {
        self.0.iter().find(|(_, left)| left.is_spent()).map(|(currency, _)| currency.as_str())
    }

    /// Takes a cost off its counter; what is left of it. `None` when the currency is not counted. It may go below zero:
    /// the money is gone whether or not it was allowed.
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

    /// Sets amounts aside before they are spent, all of them or none (an extension to §9.6: fails closed).
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

    /// Whether a child may have this budget when its parent has `remaining` (§9.4): no currency above what is left, and none
    /// that a parent with a budget is silent about. What the child is silent about stays bounded, because its costs are its
    /// parent's too.
    ///
    /// # Errors
    /// The currency that goes beyond.
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
