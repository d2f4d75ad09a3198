//! Names in the environment that are no settings: a misspelt setting is silently not set, and with `ENTENTE_AEE_REQUIRE_SIGNATURES`
//! nothing is signed.
//!
//! A name that is a letter or two away from a setting's is a mistake, and stops the start. Any other is only warned of: it may be
//! a setting of a newer release, whose server has just been taken back, and that must start. `entente doctor` finds fault with both.
//! What Kubernetes puts into the environment for a service that is called `entente` is neither.

use std::collections::BTreeSet;

/// What the settings' names begin with.
const PREFIX: &str = "ENTENTE_";

/// Letters by which a name may differ from a setting's and still be meant for it, so that the server does not start.
const SLIP: usize = 2;

/// What the clients read, and what `entente worker` tells the commands that it runs: a server may be started by one.
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

/// What was found out about the names that are set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// Those that are meant for a setting, and what to say of them.
    pub misspelt: Vec<String>,
    /// The others.
    pub unknown: Vec<String>,
}

/// Judges the names that are set, by those that the settings have. Values are not looked at: one may be a secret in the wrong place.
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

/// Whether Kubernetes, or Docker's links, set this for a service whose name begins with `entente`.
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

/// The setting that a name is most like, and by how many letters it differs; none when it is like no other.
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

/// Letters to be added, left out, changed or swapped with their neighbour, to make one text of the other (optimal string
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
