//! Limits of running jobs: whatever is asked for in whichever order, no more pass than the limits allow.

use std::collections::BTreeMap;

use entente_domain::arcp::jobs::limits::{Concurrency, Count, Counts, Gate, Limits, Passage};
use entente_domain::arcp::jobs::order::{PRIORITY, Priority};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn gate() -> impl Strategy<Value = Gate> {
    let names = || select(vec!["a", "b"]).prop_map(str::to_owned);
    prop_oneof![
        names().prop_map(Gate::Agent),
        names().prop_map(Gate::Principal),
        (names(), names()).prop_map(|(principal, key)| Gate::Key(principal, key)),
    ]
}

/// Generates the gates of a job, each once.
fn passages() -> impl Strategy<Value = Vec<Passage>> {
    let limits = (proptest::option::of(1_i64..6), proptest::option::of((1_i64..6, 1_i64..4)));
    let limits = limits.prop_map(|(max_running, rate)| Limits {
        max_running,
        max_starts: rate.map(|(starts, _)| starts),
        per_sec: rate.map(|(_, seconds)| seconds),
        max_priority: None,
    });
    vec((gate(), limits), 0..4)
        .prop_map(|all| all.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
}

proptest! {
    #[test]
    fn no_more_pass_a_gate_than_each_of_them_allows(
        jobs in vec(passages(), 0..40), before in vec((gate(), 0_i64..4), 0..6),
    ) {
        let before: BTreeMap<Gate, i64> = before.into_iter().collect();
        let at = |gate: &Gate| before.get(gate).copied().unwrap_or_default();
        let mut counts = Counts::default();
        for (gate, limits) in jobs.iter().flatten() {
            counts.add(gate.clone(), limits.per_sec, Count { running: at(gate), started: at(gate) });
        }
        let mut passed: BTreeMap<Gate, i64> = BTreeMap::new();
        for job in &jobs {
            let count = |gate: &Gate| at(gate) + passed.get(gate).copied().unwrap_or_default();
            let open = |(gate, limits): &Passage| {
                limits.max_running.is_none_or(|most| count(gate) < most)
                    && limits.max_starts.is_none_or(|most| count(gate) < most)
            };
            prop_assert_eq!(counts.closed(job).is_none(), job.iter().all(open), "{:?}", job);
            if counts.closed(job).is_none() {
                counts.pass(job);
                job.iter().for_each(|(gate, _)| *passed.entry(gate.clone()).or_default() += 1);
            }
        }
    }

    #[test]
    fn a_principal_asks_for_what_it_may(most in proptest::option::of(0_i64..=100), asked in -100_i64..=100) {
        let limits = Limits { max_priority: most, ..Limits::default() };
        prop_assert_eq!(limits.check("").is_ok(), most.is_some());
        let priority = |said: i64| Priority::check(said).unwrap();
        let permitted = priority(asked).require_at_most(priority(most.unwrap_or(100))).is_ok();
        prop_assert_eq!(permitted, most.is_none_or(|most| asked <= most));
    }

    #[test]
    fn gates_are_told_apart(one in gate(), other in gate()) {
        prop_assert_eq!(one == other, one.to_string() == other.to_string());
    }

    #[test]
    fn a_key_has_a_limit(
        key in ".{0,300}", max_running in proptest::option::of(any::<i64>()), max_starts in proptest::option::of(any::<i64>()),
        per_sec in proptest::option::of(any::<i64>()),
    ) {
        if let Ok(known) = (Concurrency { key, max_running, max_starts, per_sec }).check() {
            prop_assert!(known.max_running.is_some() || known.max_starts.is_some());
            prop_assert!(known.limits().admit(Count::default()), "the first job starts");
            prop_assert!(!known.key.is_empty() && known.key.len() <= 200);
            prop_assert_eq!(known.clone().check().unwrap(), known, "checking changes nothing more");
        }
    }

    #[test]
    fn a_priority_is_in_its_bounds_and_comes_back(said in any::<i64>()) {
        match Priority::check(said) {
            Ok(priority) => {
                prop_assert_eq!(i64::from(priority.get()), said);
                prop_assert_eq!(Priority::of_precedence(priority.precedence()), priority);
            }
            Err(_) => prop_assert!(said.unsigned_abs() > u64::from(PRIORITY.unsigned_abs())),
        }
    }
}
