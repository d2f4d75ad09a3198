//! Amounts of money in JSON: numbers with all their digits, which never pass through an `f64`.

use entente_domain::amounts::Amount;
use entente_domain::refusal::{Code, Refusal};
use serde_json::value::RawValue;

use crate::error::Problem;

/// Writes an amount as a JSON number.
///
/// # Errors
/// The amount is no JSON number, which does not happen.
pub fn number(amount: Amount) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(amount.to_string()).map_err(|e| Problem::internal(&e.to_string()))
}

/// Parses an amount from a member of a request: a number, or a text with its digits.
///
/// # Errors
/// It is neither, is below zero, or has too many digits.
pub fn given(member: &str, json: &RawValue) -> Result<Amount, Refusal> {
    let refused =
        |why: &str| Refusal::field(Code::InvalidRequest, member, "amount", format!("`{member}` {why}."));
    let amount = Amount::written(json.get()).map_err(|fault| refused(&fault.to_string()))?;
    if amount.is_negative() { Err(refused("is below zero")) } else { Ok(amount) }
}
