//! Checks the names of environment variables: a misspelt setting has no effect, and with
//! `ENTENTE_AEE_REQUIRE_SIGNATURES` (plural) no signature would be required.
//!
//! A name within two letters of a setting's is an error and stops the start. Other unknown names cause only a
//! warning: they may be settings of a newer release that was just rolled back, and the older server must
//! start. `entente doctor` reports both as faults. Variables that Kubernetes sets for a service named
//! `entente` are ignored.

use std::collections::BTreeSet;

use entente_domain::refusal::spelling::{SLIP, nearest};

/// Prefix of the settings' names.
const PREFIX: &str = "ENTENTE_";

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
        let own = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
        match nearest(name.strip_prefix(PREFIX).unwrap_or(&name), own) {
            Some((distance, near)) => {
                let told = format!("{name} is not a setting; did you mean {PREFIX}{near}?");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str) -> Judged {
        let known = ["ENTENTE_WEBHOOK_ALLOW", "ENTENTE_SIGNING_KEY", "ENTENTE_BIND", "DATABASE_URL"];
        judge([name.to_owned()].into_iter(), &known.iter().map(|name| (*name).to_owned()).collect())
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
