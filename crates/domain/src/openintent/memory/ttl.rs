//! Lifetime of a memory entry: a number of seconds or an ISO 8601 duration.

use crate::limits::DURATION_SECONDS;
use crate::refusal::{Code, Refusal};

/// Parses a lifetime: `3600`, `PT1H`, `P7D`, `P1W`, `P1DT12H`.
///
/// Months and years are refused because their length varies.
///
/// # Errors
/// [`Code::Unprocessable`] at `ttl` if it is not a duration, is zero, or is longer than ten years.
pub fn seconds(text: &str) -> Result<u32, Refusal> {
    let refuse = |kind, message: &str| Err(Refusal::field(Code::Unprocessable, "ttl", kind, message));
    let whole = if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { iso(text) };
    match whole.and_then(|seconds| u32::try_from(seconds).ok()) {
        None => refuse(
            "duration",
            "`ttl` is no duration. Give seconds (`3600`) or weeks, days, hours, minutes and seconds as ISO 8601 has them (`P7D`, `PT1H30M`).",
        ),
        Some(0) => refuse("too_short", "`ttl` is nothing at all. Leave it out for an entry that stays."),
        Some(seconds) if seconds > DURATION_SECONDS => {
            refuse("too_long", "`ttl` is longer than ten years. Leave it out for an entry that stays.")
        }
        Some(seconds) => Ok(seconds),
    }
}

/// Returns the seconds of an ISO 8601 duration of fixed length.
fn iso(text: &str) -> Option<u64> {
    let rest = text.strip_prefix('P')?;
    let (days, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((days, time)) => (days, time),
        None if rest.is_empty() => return None,
        None => (rest, ""),
    };
    let days = parts(days, &[('W', 7 * 86_400), ('D', 86_400)])?;
    days.checked_add(parts(time, &[('H', 3_600), ('M', 60), ('S', 1)])?)
}

/// Parses numbers with units; the units must come in this order, each at most once.
fn parts(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let (mut rest, mut sum) = (text, 0_u64);
    for (unit, seconds) in units {
        let Some((number, after)) = rest.split_once(*unit) else { continue };
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(*seconds)?)?;
        rest = after;
    }
    rest.is_empty().then_some(sum)
}
