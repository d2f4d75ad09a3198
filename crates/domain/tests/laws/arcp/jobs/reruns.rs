//! Jobs that are run again: the same work with new times, once under a key.

use chrono::TimeDelta;
use entente_domain::arcp::jobs::JobStatus;
use entente_domain::arcp::jobs::labels::Labels;
use entente_domain::arcp::jobs::reruns::{Asked, Version, again, job_key};
use entente_domain::clock::Timestamp;
use entente_domain::ids::JobId;
use proptest::prelude::*;
use serde_json::json;

use super::ask::{self, job};
use crate::any::{Dice, at};

proptest! {
    #[test]
    fn a_job_run_again_has_the_same_authority_and_as_much_time(
        late in 0_i64..100_000_000_000, delay in 0_i64..1_000, expires in 1_i64..1_000, runtime in 1_i64..1_000,
        status in 0_usize..6,
    ) {
        let start = at(0) + TimeDelta::seconds(delay);
        let text = |at: Timestamp| at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let ask = ask::asked(&json!({
            "agent": "echo", "lease_request": { "cost.budget": ["USD:1.50"], "tool.call": ["a.*"] },
            "lease_constraints": { "expires_at": text(start + TimeDelta::seconds(expires)) },
            "max_runtime_sec": runtime, "start_at": text(start),
        }));
        let asked = Asked { start_at: ask.start.not_before(at(0)), ..Asked::default() };
        let mut old = job(&ask);
        old.status = JobStatus::ALL[status];
        let build = |version, when| again(&old, asked.clone(), Labels::new(), version, Some("k".into()), at(when));
        let made = build(Version::Same, late);
        prop_assert_eq!(made.is_ok(), old.status.is_terminal());
        let Ok(made) = made else { return Ok(()) };
        prop_assert_eq!(&made.lease, &old.lease);
        prop_assert_eq!(made.expires_at, Some(at(late) + TimeDelta::seconds(expires)));
        prop_assert_eq!(made.deadline(at(late), None), Some(at(late) + TimeDelta::seconds(runtime)));
        prop_assert!(made.check_time(at(late)).is_ok());
        prop_assert_eq!(made.agent.to_string(), "echo@1");
        // The same request later is the same; with another version it is not.
        prop_assert_eq!(build(Version::Same, late + 1).unwrap().fingerprint, made.fingerprint);
        let newest = build(Version::Default, late).unwrap();
        prop_assert_eq!(newest.agent.to_string(), "echo");
        prop_assert_ne!(newest.fingerprint, made.fingerprint);
        let mut child = old.clone();
        child.parent_id = Some(JobId::mint(at(0), &Dice(9)));
        prop_assert!(again(&child, Asked::default(), Labels::new(), Version::Same, None, at(late)).is_err());
    }

    #[test]
    fn no_key_of_a_client_is_the_key_of_a_job_run_again(key in "\\PC{1,40}") {
        let old = job(&ask::asked(&json!({ "agent": "echo" })));
        prop_assert_ne!(job_key(&old, "agent.a", &key), key.clone());
        prop_assert!(job_key(&old, "agent.a", &key).chars().any(char::is_control), "clients' keys have none");
        prop_assert_ne!(job_key(&old, "agent.a", &key), job_key(&old, "agent.b", &key));
    }
}
