//! Time as an argument: the timestamp type, its parsing and its formatting.
//!
//! A timestamp has microsecond precision because PostgreSQL stores no more; anything finer would change when
//! it is stored and read back, and with it every hash over it. The real clock is in
//! `crates/runtime/src/environment.rs`, the manual one in the tests.

use std::time::Duration;

use chrono::{DateTime, Datelike as _, NaiveDateTime, SecondsFormat, TimeDelta, Utc};

/// A moment in UTC, truncated to microseconds.
pub type Timestamp = DateTime<Utc>;

/// The last moment that RFC 3339 can represent, in microseconds since 1970: the end of the year 9999.
const LAST_MICROS: i64 = 253_402_300_799_999_999;

/// The source of time: the system's clock in the server, a manual one in tests.
pub trait Clock: Send + Sync {
    /// Returns the time now, in UTC and truncated to microseconds (see [`micros`]).
    fn now(&self) -> Timestamp;

    /// Synchronises with the time `theirs` of the clock that all servers share; as reading it took `took`, it
    /// may be off by half of that (clocks that cannot be set ignore it).
    fn set_by(&self, _theirs: Timestamp, _took: Duration) {}
}

/// Truncates a moment to microseconds, the precision that is stored and hashed.
///
/// A leap second, which is not stored either, becomes the second after it.
#[must_use]
pub fn micros(at: Timestamp) -> Timestamp {
    DateTime::from_timestamp_micros(at.timestamp_micros()).unwrap_or(at)
}

/// Formats as RFC 3339 with `Z` and six fractional digits: the form on the wire, in exports and in hashes.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// Formats the moment without an offset, as the OpenIntent Python SDK compares it (OI-3.6.3).
#[must_use]
pub fn naive(at: Timestamp) -> String {
    at.format("%Y-%m-%dT%H:%M:%S%.6f").to_string()
}

/// Formats the moment with `+00:00` instead of `Z`, which Python 3.10 can read (OI-3.6.4).
#[must_use]
pub fn offset(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, false)
}

/// Parses RFC 3339 (with `Z` or an offset) or, for clients that send no offset, a naive time taken as UTC.
///
/// A blank stands for a `+` that a query string has decoded. Returns `None` if the text is not a time, or
/// lies in a year that not every client could read back: RFC 3339 ends with the year 9999, and Python's
/// `datetime` begins with the year 1 (OI-3.6.5).
#[must_use]
pub fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let with_offset = DateTime::parse_from_rfc3339(text)
        .or_else(|_| DateTime::parse_from_rfc3339(&text.replacen(' ', "+", 1)))
        .map(|at| at.with_timezone(&Utc));
    let at = with_offset
        .or_else(|_| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").map(|at| at.and_utc()))
        .ok()?;
    Some(micros(at)).filter(|at| (1..=9999).contains(&at.year()))
}

/// Subtracts whole seconds from `at`, capped at the first moment that can be represented.
#[must_use]
pub fn earlier(at: Timestamp, seconds: u32) -> Timestamp {
    at.checked_sub_signed(TimeDelta::seconds(i64::from(seconds))).unwrap_or(Timestamp::MIN_UTC)
}

/// Adds whole seconds to `at`, capped at the last moment that can be represented.
#[must_use]
pub fn plus_seconds(at: Timestamp, seconds: u32) -> Timestamp {
    let last = DateTime::from_timestamp_micros(LAST_MICROS).unwrap_or(Timestamp::MAX_UTC);
    at.checked_add_signed(TimeDelta::seconds(i64::from(seconds))).map_or(last, |sum| sum.min(last))
}
