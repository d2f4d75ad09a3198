//! Budgets (ARCP §9.6): counters never gain, and children never have more than the remainder.

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::capabilities::Authority;
use proptest::prelude::*;

fn budget(texts: &[&str]) -> Budget {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    Budget::of(&Authority::check(BTreeMap::from([("cost.budget".to_owned(), texts)])).unwrap()).unwrap()
}

fn refused(text: &str) -> bool {
    let asked = BTreeMap::from([("cost.budget".to_owned(), vec![text.to_owned()])]);
    Budget::of(&Authority::check(asked).unwrap()).is_err()
}

fn cents(n: u32) -> Amount {
    format!("{}.{:02}", n / 100, n % 100).parse().unwrap()
}

proptest! {
    #[test]
    fn what_is_charged_is_gone(limit in 0_u32..100_000, costs in proptest::collection::vec(0_u32..10_000, 0..30)) {
        let mut left = budget(&[&format!("USD:{}", cents(limit)), "credits:10"]);
        for cost in &costs {
            prop_assert!(left.charge("USD", cents(*cost)).unwrap().is_some());
        }
        let total: u32 = costs.iter().sum();
        prop_assert_eq!(left.0["USD"], cents(limit) - cents(total));
        prop_assert_eq!(left.spent(), (total >= limit).then_some("USD"), "spent at exactly nothing");
        prop_assert_eq!(left.0["credits"], cents(1000), "each counter for itself");
    }

    #[test]
    fn a_reservation_fits_or_changes_nothing(limit in 0_u32..1_000, asked in 0_u32..1_500) {
        let mut left = budget(&[&format!("USD:{}", cents(limit)), "credits:10"]);
        let before = left.clone();
        let all = budget(&[&format!("USD:{}", cents(asked)), "credits:10"]);
        match left.reserve(&all) {
            Ok(()) => {
                prop_assert!(asked <= limit);
                prop_assert_eq!(left.0["USD"], cents(limit) - cents(asked));
                prop_assert!(left.0["credits"].is_spent());
            }
            Err(currency) => {
                prop_assert!(asked > limit && currency == "USD");
                prop_assert_eq!(left, before);
            }
        }
    }

    #[test]
    fn a_child_has_at_most_what_is_left(parent in 0_u32..1_000, child in 0_u32..1_000) {
        let (left, asked) = (budget(&[&format!("USD:{}", cents(parent))]), budget(&[&format!("USD:{}", cents(child))]));
        prop_assert_eq!(asked.within(&left).is_ok(), child <= parent);
    }
}

#[test]
fn a_child_is_bounded_in_every_currency() {
    let left = budget(&["USD:2.00", "credits:5"]);
    assert_eq!(budget(&["USD:2.00", "credits:5"]).within(&left), Ok(()));
    assert_eq!(budget(&["USD:2.01", "credits:5"]).within(&left), Err("USD".to_owned()));
    assert_eq!(budget(&["USD:1"]).within(&left), Ok(()), "what it is silent about its parent counts");
    assert_eq!(budget(&["USD:1", "credits:1", "EUR:1"]).within(&left), Err("EUR".to_owned()));
    assert_eq!(Budget::default().within(&left), Ok(()));
    assert_eq!(
        budget(&["USD:1"]).within(&Budget::default()),
        Ok(()),
        "a parent without a budget bounds nobody"
    );
}

#[test]
fn nobody_gives_money_back() {
    let mut left = budget(&["USD:1"]);
    assert!(left.charge("USD", Amount::try_from("-0.01".to_owned()).unwrap()).is_err());
    assert_eq!(left, budget(&["USD:1"]));
    assert_eq!(left.charge("EUR", cents(5)).unwrap(), None, "what is not counted is not held against it");
    assert_eq!(budget(&["USD:0"]).spent(), Some("USD"), "none is exhausted at once");
}

#[test]
fn what_is_no_budget_is_refused() {
    for text in ["USD", "USD:", ":5", "USD:-5", "USD:1e3", "US D:5", "USD:5.00:1"] {
        assert!(refused(text), "{text}");
    }
    let twice = BTreeMap::from([("cost.budget".to_owned(), vec!["USD:1".to_owned(), "USD:2".to_owned()])]);
    assert!(Budget::of(&Authority::check(twice).unwrap()).is_err());
}
