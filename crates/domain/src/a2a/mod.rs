//! A2A 1.0 over ARCP: messages become jobs and signals, jobs become tasks, results become artifacts.
//!
//! Objects have the JSON form of the protocol's definition (`specification/a2a.proto`): members in camel case, which may
//! also be written with underscores, unset members left out. This module decides the facts of a task that need its
//! job's log; `crates/a2a-api` loads the log and speaks the bindings.

pub mod artifacts;
pub mod cards;
pub mod errors;
pub mod messages;
pub mod progress;
pub mod pushes;
pub mod requests;
pub mod submissions;
pub mod tasks;

/// Version of the protocol, without the patch level that negotiation ignores (A2A §3.6).
pub const VERSION: &str = "1.0";

/// Header by which a client names the version that it speaks, and clients before 1.0 do not.
pub const VERSION_HEADER: &str = "a2a-version";

/// Returns whether a client's version is spoken here. None, or an empty one, means 0.3 (A2A §3.6.2).
#[must_use]
pub fn speaks(version: Option<&str>) -> bool {
    let mut numbers = version.unwrap_or_default().trim().split('.');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.next() == Some("1")
        && numbers.next() == Some("0")
        && numbers.next().is_none_or(is_number)
        && numbers.next().is_none()
}
