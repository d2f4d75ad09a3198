//! Checks the names of environment variables: a misspelt setting has no effect, and with
//! `ENTENTE_AEE_REQUIRE_SIGNATURES` (plural) no signature would be required.
//!
//! A name within two letters of a setting's is an error and stops the start. Other unknown names cause only a
//! warning: they may be settings of a newer release that was just rolled back, and the older server must
//! start. `entente doctor` reports both as faults. Variables that Kubernetes sets for a service named
//! `entente` are ignored.

use std::collections::BTreeSet;

/// Prefix of the settings' names.
const PREFIX: &str = "ENTENTE_";

/// Distance up to which an unknown name counts as a misspelt setting, so that the server does not start.
const SLIP: usize = 2;

/// Variables of the clients, and of the commands that `entente worker` runs: such a command may start a
/// server.
const OTHERS: [&str; 12] = [
    "ENTENTE_URL",
    "ENTENTE_API_KEY",
    "ENTENTE_AGENT",
    "ENTENTE_ATTEMPT",
    "ENTENTE_BUDGET",
    "ENTENTE_CREDENTIALS",
    "ENTENTE_DEADLINE",
    "ENTENTE_JOB_ID",
    "ENTENTE_LEASE",
    "ENTENTE_LEASE_CONSTRAINTS",
    "ENTENTE_RESULT_ID",
    "ENTENTE_TRACE_ID",
];

/// Result of checking the names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// Messages about misspelt settings.
    pub misspelt: Vec<String>,
    /// Messages about other unknown names.
    pub unknown: Vec<String>,
}

/// Checks the names that are set against the settings' names.
///
/// Values are not read: one may be a secret in the wrong place.
pub(super) fn judge(given: impl Iterator<Item = String>, known: &BTreeSet<String>) -> Judged {
    let strangers: BTreeSet<String> = given
        .filter(|name| name.starts_with(PREFIX) && !known.contains(name))
        .filter(|name| !OTHERS.contains(&name.as_str()) && !is_of_kubernetes(name))
        .collect();
    let mut judged = Judged::default();
    for name in strangers {
        match nearest(&name, known) {
            Some((distance, near)) => {
                let told = format!("{name} is not a setting; did you mean {near}?");
                if distance <= SLIP { judged.misspelt.push(told) } else { judged.unknown.push(told) }
            }
            None => judged
                .unknown
                .push(format!("{name} is not a setting; .env.example documents those that there are")),
        }
    }
    judged
}

/// Returns whether Kubernetes, or Docker's links, set this variable for a service whose name begins with
/// `entente`.
fn is_of_kubernetes(name: &str) -> bool {
    let port = |rest: &str| {
        let mut parts = rest.split('_');
        let number =
            parts.next().is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        number && parts.next().is_some_and(|part| ["TCP", "UDP", "SCTP"].contains(&part))
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || name.ends_with("_PORT")
        || name.split_once("_PORT_").is_some_and(|(_, rest)| port(rest))
}

/// Returns the most similar setting and its distance; `None` if no setting is similar.
fn nearest<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<(usize, &'a str)> {
    let own = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let asked = own(name);
    let most = (asked.len() / 3).max(SLIP);
    let measured = known
        .iter()
        .filter(|known| known.starts_with(PREFIX))
        .map(|known| (distance(asked.as_bytes(), own(known).as_bytes()), known.as_str()));
    measured.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= most)
}

/// Returns the number of letters to insert, delete, replace or swap with a neighbour (optimal string
/// alignment).
fn distance(one: &[u8], other: &[u8]) -> usize {
    let width = other.len() + 1;
    let mut before_last: Vec<usize> = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    for (row, byte) in one.iter().enumerate() {
        let mut now = vec![row + 1; width];
        for (column, theirs) in other.iter().enumerate() {
            let changed = last[column] + usize::from(byte != theirs);
            let mut least = changed.min(last[column + 1] + 1).min(now[column] + 1);
            let swapped = row > 0 && column > 0 && one[row - 1] == *theirs && other[column - 1] == *byte;
            if swapped && byte != theirs {
                least = least.min(before_last[column - 1] + 1);
            }
            now[column + 1] = least;
        }
        before_last = std::mem::replace(&mut last, now);
    }
    last[width - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str) -> Judged {
        let known = ["ENTENTE_WEBHOOK_ALLOW", "ENTENTE_SIGNING_KEY", "ENTENTE_BIND", "DATABASE_URL"];
        judge([name.to_owned()].into_iter(), &known.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn letters_are_counted() {
        for (one, other, apart) in [
            ("", "", 0),
            ("a", "", 1),
            ("ab", "ba", 1),
            ("kitten", "sitting", 3),
            ("ab", "ab", 0),
            ("abc", "ca", 3),
        ] {
            assert_eq!(distance(one.as_bytes(), other.as_bytes()), apart, "{one} {other}");
            assert_eq!(distance(other.as_bytes(), one.as_bytes()), apart, "{other} {one}");
        }
    }

    #[test]
    fn a_slip_is_told_from_a_stranger() {
        for (name, near) in [
            ("ENTENTE_WEBHOK_ALLOW", "ENTENTE_WEBHOOK_ALLOW"),
            ("ENTENTE_WEBHOOKS_ALLOW", "ENTENTE_WEBHOOK_ALLOW"),
            ("ENTENTE_SIGNINGKEY", "ENTENTE_SIGNING_KEY"),
            ("ENTENTE_BIDN", "ENTENTE_BIND"),
        ] {
            let told = format!("{name} is not a setting; did you mean {near}?");
            assert_eq!(judged(name), Judged { misspelt: vec![told], unknown: Vec::new() });
        }
        let farther = judged("ENTENTE_WEBHOOK_ALLOWED");
        assert_eq!((farther.misspelt.len(), farther.unknown.len()), (1, 0));
        let farther = judged("ENTENTE_WEBHOOK_DENYALL");
        assert_eq!((farther.misspelt.len(), farther.unknown.len()), (0, 1), "{farther:?}");
        let stranger = judged("ENTENTE_OF_TOMORROW");
        assert!(stranger.unknown[0].contains(".env.example"), "{stranger:?}");
        for known in
            ["ENTENTE_URL", "PATH", "ENTENTE_PORT", "ENTENTE_PORT_80_TCP", "ENTENTE_WEB_SERVICE_PORT_HTTP"]
        {
            assert_eq!(judged(known), Judged::default(), "{known}");
        }
    }
}
