//! Spelling: distances between names, and the nearest known name.

use entente_domain::refusal::spelling::{SLIP, distance, nearest};
use proptest::prelude::*;

/// The members of a lease's request.
const KNOWN: [&str; 4] = ["scope", "duration_seconds", "agent_id", "expires_at"];

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
fn a_misspelt_name_has_a_nearest_one_and_a_strange_one_has_none() {
    for (name, near) in [
        ("expires_att", Some("expires_at")),
        ("duratoin_seconds", Some("duration_seconds")),
        ("durationSeconds", Some("duration_seconds")),
        ("agentid", Some("agent_id")),
        ("colour_of_the_sky", None),
        ("", None),
    ] {
        assert_eq!(nearest(name, KNOWN).map(|(_, near)| near), near, "{name}");
    }
    // Two letters of two are another name, not a misspelt one.
    assert_eq!(nearest("to", ["id"]), None);
    assert_eq!(nearest("ot", ["id", "to"]), Some((1, "to")));
    assert_eq!(nearest(&"expires_at".repeat(10_000), KNOWN), None, "a long name is not compared");
}

proptest! {
    #[test]
    fn one_letter_more_less_or_other_is_found(which in 0..KNOWN.len(), at in 0_usize..5, letter in "[a-z]", kind in 0..3) {
        let known = KNOWN[which];
        let (before, after) = known.split_at(at);
        let name = match kind {
            0 => format!("{before}{letter}{after}"),
            1 => format!("{before}{letter}{}", &after[after.len().min(1)..]),
            _ => format!("{before}{}", &after[after.len().min(1)..]),
        };
        let (apart, near) = nearest(&name, KNOWN).unwrap();
        prop_assert_eq!(near, known);
        prop_assert!(apart <= 1, "less than a slip of {} letters", SLIP);
    }
}
