//! Amounts of money or credits: exact decimals, never binary fractions (ARCP §9.6).
//!
//! An amount has at most 12 decimals and 18 digits before them, so that sums never overflow; longer numbers
//! are refused, not rounded.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Decimals of an amount: a millionth of a millionth, finer than any price per token.
const DECIMALS: u32 = 12;
/// Digits before the decimal point.
const WHOLE_DIGITS: usize = 18;
/// The internal representation of 1.
const ONE: i128 = 10_i128.pow(DECIMALS);

/// An exact decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Amount(i128);

/// Error: the text is not an amount, that is digits, a point and digits, within the length limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a decimal number with at most 18 digits before and 12 after the point")]
pub struct NotAnAmount;

impl Amount {
    /// The zero amount.
    pub const ZERO: Self = Self(0);

    /// Converts a JSON number, which may have a sign and an exponent.
    ///
    /// # Errors
    /// The number has more digits than an amount can have.
    pub fn of_json(number: &serde_json::Number) -> Result<Self, NotAnAmount> {
        Self::written(&number.to_string())
    }

    /// Parses a number from its JSON text, exact to the last digit.
    ///
    /// Accepts a number in quotes too, as written by clients that keep money out of binary fractions.
    ///
    /// # Errors
    /// The text is not a number, or has more digits than an amount can have.
    pub fn written(json: &str) -> Result<Self, NotAnAmount> {
        let text = json.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(json);
        let (negative, shifted) = plain(text)?;
        let amount: Self = shifted.parse()?;
        Ok(if negative { Self(-amount.0) } else { amount })
    }

    /// Parses like [`Self::written`], but rounds digits beyond the last decimal, half away from zero.
    ///
    /// For numbers that may come from binary fractions, such as money that another program adds up in
    /// doubles.
    ///
    /// # Errors
    /// The text is not a number, or has more digits before its point than an amount can have.
    pub fn rounded(json: &str) -> Result<Self, NotAnAmount> {
        let (negative, text) = plain(json)?;
        let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
        let Some((kept, tail)) = part.split_at_checked(DECIMALS as usize) else { return Self::written(json) };
        let cut: Self = format!("{whole}.{kept}").parse()?;
        let amount = cut + Self(i128::from(tail.as_bytes().first().is_some_and(|next| *next >= b'5')));
        Ok(if negative { Self(-amount.0) } else { amount })
    }

    /// Whether nothing is left, that is the amount is zero or below.
    #[must_use]
    pub fn is_spent(self) -> bool {
        self.0 <= 0
    }

    /// Whether this amount is at least `percent` per cent of a limit; nothing is a share of a limit below zero.
    #[must_use]
    pub fn is_share_of(self, limit: Self, percent: u32) -> bool {
        self.0.saturating_mul(100) >= limit.0.saturating_mul(i128::from(percent))
    }

    /// Returns the amount after `whole`, if `part` of that time led to this one; `None` beyond the range of amounts.
    #[must_use]
    pub fn extrapolated(self, part: i64, whole: i64) -> Option<Self> {
        let (whole, part) = (i128::from(whole), i128::from(part));
        // Divided first, so that no product is too large; the remainder's share is cut to the last decimal.
        let (times, rest) = (self.0.checked_div(part)?, self.0.checked_rem(part)?);
        Some(Self(times.checked_mul(whole)?.checked_add(rest.checked_mul(whole)? / part)?))
    }

    /// Whether the amount is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }
}

/// Returns a JSON number without its exponent and sign, and whether it is negative.
fn plain(json: &str) -> Result<(bool, String), NotAnAmount> {
    let (mantissa, exponent) = match json.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_e| NotAnAmount)?),
        None => (json, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, mantissa),
    };
    let lawful = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !lawful || !digits.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(NotAnAmount);
    }
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    Ok((negative, shift(whole, part, exponent).ok_or(NotAnAmount)?))
}

/// Moves the point of a number by `exponent` places, without needless zeros at its ends.
fn shift(whole: &str, part: &str, exponent: i32) -> Option<String> {
    // No amount can have such an exponent; the bound also keeps the padded text short.
    if exponent.unsigned_abs() > 64 {
        return None;
    }
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let digits = format!("{whole}{part}");
    let padded = match usize::try_from(point) {
        Ok(point) if point <= digits.len() => format!("{}.{}", &digits[..point], &digits[point..]),
        Ok(point) => format!("{digits}{}.", "0".repeat(point - digits.len())),
        Err(_below_zero) => format!(".{}{digits}", "0".repeat(usize::try_from(-point).ok()?)),
    };
    let (whole, part) = padded.split_once('.')?;
    let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") })
}

impl FromStr for Amount {
    type Err = NotAnAmount;

    /// Parses `digits [ "." digits ]` (ARCP §9.6).
    fn from_str(text: &str) -> Result<Self, NotAnAmount> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let significant = part.trim_end_matches('0');
        let fits =
            whole.trim_start_matches('0').len() <= WHOLE_DIGITS && significant.len() <= DECIMALS as usize;
        if !digits(whole) || !digits(part) || !fits {
            return Err(NotAnAmount);
        }
        let number = |text: &str| text.parse::<i128>().map_err(|_e| NotAnAmount);
        let padded = format!("{significant:0<width$}", width = DECIMALS as usize);
        Ok(Self(number(whole)? * ONE + number(&padded)?))
    }
}

impl fmt::Display for Amount {
    /// Writes the amount without needless zeros: `5`, `0.0234`, `-1.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, part) =
            (self.0.unsigned_abs() / ONE.unsigned_abs(), self.0.unsigned_abs() % ONE.unsigned_abs());
        let part = format!("{part:0>width$}", width = DECIMALS as usize);
        match part.trim_end_matches('0') {
            "" => write!(f, "{sign}{whole}"),
            part => write!(f, "{sign}{whole}.{part}"),
        }
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.to_string()
    }
}

impl TryFrom<String> for Amount {
    type Error = NotAnAmount;

    fn try_from(text: String) -> Result<Self, NotAnAmount> {
        match text.strip_prefix('-') {
            Some(positive) => Ok(Self(-positive.parse::<Self>()?.0)),
            None => text.parse(),
        }
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}
