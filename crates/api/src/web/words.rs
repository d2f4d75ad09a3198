//! Formats times and numbers for people, and texts for URLs.

use chrono::SubsecRound as _;
use entente_domain::clock::{Timestamp, rfc3339};

/// A point in time on a page: for machines, for people, and relative to now.
#[derive(Debug, Clone)]
pub struct When {
    /// RFC 3339.
    pub exact: String,
    /// "21 Nov 08:00 UTC".
    pub day: String,
    /// "3 min ago", "in 2 h".
    pub near: String,
}

impl When {
    /// Formats a time, relative to `now`.
    pub fn new(at: Timestamp, now: Timestamp) -> Self {
        let past = at <= now;
        let span = if past { now - at } else { at - now };
        let near = match (past, span.num_seconds() < 5) {
            (true, true) => "just now".to_owned(),
            (true, false) => format!("{} ago", long(span.num_seconds())),
            (false, _) => format!("in {}", long(span.num_seconds().max(1))),
        };
        Self { exact: rfc3339(at.trunc_subsecs(0)), day: at.format("%-d %b %H:%M UTC").to_string(), near }
    }
}

/// Returns the beginning of a long text, of so many characters at most.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// Escapes a text for a part of a URL.
pub fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// Formats a duration in its most significant unit.
pub fn long(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Formats a count: "1 request", "2 requests".
pub fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// Returns a share as a percentage; zero if the whole is zero.
pub fn percent(part: f64, whole: f64) -> u32 {
    let share = if whole > 0.0 { (100.0 * part / whole).clamp(0.0, 100.0) } else { 0.0 };
    // Searched rather than cast, because the range is small.
    (0..=100).find(|n| f64::from(*n) >= share - 0.5).unwrap_or(100)
}
