//! Time as an argument: the one timestamp type, how it is read and how it is written.
//!
//! A timestamp has microsecond precision because that is what PostgreSQL keeps; anything finer would change when
//! it is stored and read back, and with it every hash over it. The real clock lives in the server
//! (`src/startup.rs`), the hand-turned one in the tests.

use std::time::Duration;

use chrono::{DateTime, Datelike as _, NaiveDateTime, SecondsFormat, TimeDelta, Utc};

/// A moment in UTC, cut to microseconds.
pub type Timestamp = DateTime<Utc>;

/// The last moment that RFC 3339 can write down, in microseconds since 1970: the end of the year 9999.
const LAST_MICROS: i64 = 253_402_300_799_999_999;

/// Where the time comes from. The server passes the system's clock, a test one that it turns by hand.
pub trait Clock: Send + Sync {
    /// The time now, in UTC and cut to microseconds (see [`micros`]).
    fn now(&self) -> Timestamp;

    /// Hears what time it is by the clock that all servers share, as of now; it took so long to be told, and the time may be
    /// off by half of that. A clock that nobody sets does not mind.
    fn set_by(&self, _theirs: Timestamp, _took: Duration) {}
}

/// Cuts a moment to microseconds, the precision that is stored and hashed. A leap second, which is not kept either,
/// becomes the second after it.
#[must_use]
pub fn micros(at: Timestamp) -> Timestamp {
    DateTime::from_timestamp_micros(at.timestamp_micros()).unwrap_or(at)
}

/// RFC 3339 with `Z` and six fractional digits: the form on the wire, in exports and in hashes.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// The same moment without an offset, as the OpenIntent Python SDK compares it (contract 3.6).
#[must_use]
pub fn naive(at: Timestamp) -> String {
    at.format("%Y-%m-%dT%H:%M:%S%.6f").to_string()
}

/// The same moment with `+00:00` instead of `Z`, which Python 3.10 can read (contract 3.6).
#[must_use]
pub fn offset(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, false)
}

/// Reads RFC 3339 (with `Z` or an offset) and, for clients that send none, a naive time taken as UTC.
/// A blank stands for a `+` that a query string has decoded.
///
/// Returns `None` when the text is no time, or lies in a year that not every client could read back: RFC 3339 ends with
/// the year 9999, and Python's `datetime` begins with the year 1 (contract 3.6).
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

/// `at` plus whole seconds, held at the last moment that can be written down instead of overflowing.
#[must_use]
pub fn plus_seconds(at: Timestamp, seconds: u32) -> Timestamp {
    let last = DateTime::from_timestamp_micros(LAST_MICROS).unwrap_or(Timestamp::MAX_UTC);
    at.checked_add_signed(TimeDelta::seconds(i64::from(seconds))).map_or(last, |sum| sum.min(last))
}
