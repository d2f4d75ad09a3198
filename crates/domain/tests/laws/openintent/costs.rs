//! Costs: sums are exact in any order, and never of two units.

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::ids::{CostId, IntentId};
use entente_domain::openintent::costs::{Axis, CostAsk, Sum, Summary, amount, record};
use proptest::prelude::*;
use serde_json::json;

use crate::any::at;

/// Adds costs up as the database does: each into the sums that it belongs to.
fn added(costs: &[(u32, &'static str, &'static str, Option<&'static str>)]) -> Vec<Sum> {
    let mut sums: BTreeMap<(String, Axis, String), (Amount, i64)> = BTreeMap::new();
    for (cents, unit, kind, model) in costs {
        let ask = CostAsk {
            cost_type: (*kind).to_owned(),
            amount: amount(&format!("{}.{:02}", cents / 100, cents % 100)).unwrap(),
            unit: (*unit).to_owned(),
            model: model.map(str::to_owned),
            ..CostAsk::default()
        };
        let (intent, id) = (IntentId::from(uuid::Uuid::nil()), CostId::from(uuid::Uuid::nil()));
        let cost = record(ask, intent, "agent.ada", id, at(0)).unwrap();
        for (axis, key) in cost.sums() {
            let sum = sums.entry((cost.unit.clone(), axis, key.to_owned())).or_default();
            *sum = (sum.0 + cost.amount, sum.1 + 1);
        }
    }
    sums.into_iter()
        .map(|((unit, axis, key), (amount, count))| Sum { unit, axis, key, amount, count })
        .collect()
}

proptest! {
    #[test]
    fn sums_are_exact_and_of_one_unit(costs in proptest::collection::vec((
        0_u32..1_000_000, prop_oneof![Just("USD"), Just("EUR")], prop_oneof![Just("api"), Just("gpu")],
        prop_oneof![Just(None), Just(Some("gpt"))]), 0..40))
    {
        let summary = Summary::of(added(&costs));
        for unit in ["USD", "EUR"] {
            let cents: u64 = costs.iter().filter(|cost| cost.1 == unit).map(|cost| u64::from(cost.0)).sum();
            let found = summary.0.get(unit).cloned().unwrap_or_default();
            prop_assert_eq!(found.total, amount(&format!("{}.{:02}", cents / 100, cents % 100)).unwrap());
            let types = found.by_type.values().fold(Amount::ZERO, |sum, part| sum + *part);
            prop_assert_eq!(types, found.total);
        }
        let units = costs.iter().map(|cost| cost.1).collect::<std::collections::BTreeSet<_>>();
        prop_assert_eq!(summary.only().is_some(), units.len() == 1);
        for (kind, sum) in summary.by(|unit| &unit.by_type) {
            let units = costs.iter().filter(|cost| cost.2 == kind).map(|cost| cost.1);
            let units = units.collect::<std::collections::BTreeSet<_>>();
            prop_assert_eq!(sum.is_some(), units.len() == 1);
        }
    }

    #[test]
    fn a_double_comes_back_as_close_as_an_amount_can_be(number in 0.0_f64..1e6) {
        let read = amount(&serde_json::to_string(&number).unwrap()).unwrap().to_string();
        prop_assert!((read.parse::<f64>().unwrap() - number).abs() <= 1e-9, "{} became {}", number, read);
    }

    #[test]
    fn what_has_few_decimals_is_read_exactly(whole in 0_u32.., part in 0_u32..1_000_000) {
        let text = format!("{whole}.{part:06}");
        prop_assert_eq!(amount(&text).unwrap(), text.parse::<Amount>().unwrap());
        prop_assert_eq!(amount(&format!("\"{text}\"")).unwrap(), text.parse::<Amount>().unwrap());
    }
}

#[test]
fn noise_is_rounded_and_texts_are_not() {
    for (json, kept) in [
        ("0.30000000000000004", "0.3"),
        ("0.0000000000005", "0.000000000001"),
        ("0.00000000000049", "0"),
        ("0.9999999999999", "1"),
        ("1.23456789012345e2", "123.456789012345"),
        ("1E2", "100"),
    ] {
        assert_eq!(amount(json).map(|a| a.to_string()).ok().as_deref(), Some(kept), "{json}");
    }
    for bad in ["\"0.30000000000000004\"", "-0.1", "1e40", "x", "", "1e999999", "\"\""] {
        assert!(amount(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_model_is_that_of_the_metadata_when_none_is_named() {
    let ask = |model: Option<&str>| CostAsk {
        cost_type: "tokens".to_owned(),
        unit: "tokens".to_owned(),
        model: model.map(str::to_owned),
        metadata: serde_json::from_value(json!({ "model": "gpt" })).unwrap(),
        ..CostAsk::default()
    };
    let (intent, id) = (IntentId::from(uuid::Uuid::nil()), CostId::from(uuid::Uuid::nil()));
    assert_eq!(record(ask(None), intent, "a", id, at(0)).unwrap().model.as_deref(), Some("gpt"));
    assert_eq!(record(ask(Some("own")), intent, "a", id, at(0)).unwrap().model.as_deref(), Some("own"));
}
