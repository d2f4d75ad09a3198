//! Labels of jobs: what a job can be labelled with can be searched for.

use entente_domain::arcp::jobs::labels::{Labels, check, parse};
use proptest::prelude::*;
use serde_json::json;

use super::ask::asked;

proptest! {
    #[test]
    fn a_label_that_is_accepted_is_found_and_no_other(key in "[a-z=./ -]{0,6}|[A-Z0-9_]{60,70}", value in "[a-z= \u{7}é]{0,6}|x{190,210}") {
        let labels = Labels::from([(key.clone(), value.clone())]);
        let found = parse(&format!("{key}={value}"));
        // A key has no `=`, so the first one divides.
        prop_assert_eq!(check(&labels).is_ok() , found == Some((key, value)));
    }
}

#[test]
fn the_same_labels_are_the_same_request_wherever_they_stand() {
    let plain = asked(&json!({ "agent": "echo" })).fingerprint;
    let top = asked(&json!({ "agent": "echo", "labels": { "b": "2", "a": "1" } })).fingerprint;
    let apart =
        asked(&json!({ "agent": "echo", "x-entente": { "labels": { "a": "1", "b": "2" } } })).fingerprint;
    assert_eq!(top, apart);
    assert_ne!(top, plain);
    assert_eq!(
        asked(&json!({ "agent": "echo", "labels": {} })).fingerprint,
        plain,
        "as before there were labels"
    );
}
