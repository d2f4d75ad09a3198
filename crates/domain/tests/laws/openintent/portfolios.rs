//! Portfolios: validity, aggregates of their intents, and the stored rule.

use entente_domain::ids::PortfolioId;
use entente_domain::limits::{METADATA_BYTES, PORTFOLIO_INTENTS, TEXT_BYTES, TITLE_BYTES};
use entente_domain::openintent::intents::IntentStatus;
use entente_domain::openintent::portfolios::{
    Aggregate, MembershipRole, Portfolio, PortfolioAsk, PortfolioStatus, check_room, create,
};
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::any::{EXACT, at};

fn ask() -> PortfolioAsk {
    PortfolioAsk {
        name: "Q1".to_owned(),
        description: None,
        governance_policy: Map::new(),
        metadata: Map::new(),
    }
}

fn made(ask: PortfolioAsk) -> Result<Portfolio, Code> {
    create(ask, "ada", PortfolioId::from(Uuid::from_u128(7)), at(0)).map_err(|refusal| refusal.code)
}

fn object(value: Value) -> Map<String, Value> {
    Map::from_iter([("a".to_owned(), value)])
}

#[test]
fn words_are_read_as_they_are_written() {
    for status in PortfolioStatus::ALL {
        assert_eq!(PortfolioStatus::parse(status.as_str()), Some(status));
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
    }
    for role in MembershipRole::ALL {
        assert_eq!(MembershipRole::parse(role.as_str()), Some(role));
        assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
    }
    assert_eq!((PortfolioStatus::parse("banana"), MembershipRole::parse("banana")), (None, None));
}

#[test]
fn a_portfolio_has_its_limits() {
    let long = |bytes: usize| "x".repeat(bytes);
    let whole = PortfolioAsk {
        name: long(TITLE_BYTES),
        description: Some(long(TEXT_BYTES)),
        governance_policy: object(json!(long(METADATA_BYTES - 8))),
        metadata: object(json!(long(METADATA_BYTES - 8))),
    };
    assert!(made(whole).is_ok());
    let wrong = [
        (PortfolioAsk { name: " ".to_owned(), ..ask() }, Code::InvalidRequest),
        (PortfolioAsk { name: long(TITLE_BYTES + 1), ..ask() }, Code::InvalidRequest),
        (PortfolioAsk { description: Some(long(TEXT_BYTES + 1)), ..ask() }, Code::InvalidRequest),
        (PortfolioAsk { metadata: object(json!(long(METADATA_BYTES))), ..ask() }, Code::TooLarge),
        (PortfolioAsk { governance_policy: object(json!(long(METADATA_BYTES))), ..ask() }, Code::TooLarge),
        (PortfolioAsk { metadata: object(json!([EXACT + 2])), ..ask() }, Code::Unprocessable),
    ];
    for (wrong, code) in wrong {
        assert_eq!(made(wrong).err(), Some(code));
    }
    assert!(check_room(PORTFOLIO_INTENTS - 1).is_ok());
    assert_eq!(check_room(PORTFOLIO_INTENTS).unwrap_err().code, Code::Unprocessable);
}

proptest! {
    #[test]
    fn sums_are_of_all_and_a_hundred_means_all(statuses in vec(select(&IntentStatus::ALL[..]), 0..300)) {
        let sums: Aggregate = statuses.iter().copied().collect();
        prop_assert_eq!(sums.total, statuses.len() as u64);
        prop_assert_eq!(sums.by_status.values().sum::<u64>(), sums.total);
        prop_assert!(sums.by_status.values().all(|count| *count > 0));
        for status in IntentStatus::ALL {
            let count = statuses.iter().filter(|one| **one == status).count() as u64;
            prop_assert_eq!(sums.by_status.get(status.as_str()).copied().unwrap_or(0), count);
        }
        let all = !statuses.is_empty() && statuses.iter().all(|status| *status == IntentStatus::Completed);
        prop_assert_eq!(sums.completion_percentage() == 100, all);
        prop_assert!(sums.completion_percentage() <= 100);
    }

    #[test]
    fn with_its_rule_a_portfolio_is_completed_last(
        statuses in vec(select(&IntentStatus::ALL[..]), 0..4),
        rule in select(vec![json!(true), json!(false), json!("yes"), Value::Null]),
        next in select(&PortfolioStatus::ALL[..]),
    ) {
        let policy = Map::from_iter([("require_all_completed".to_owned(), rule.clone())]);
        let portfolio = made(PortfolioAsk { governance_policy: policy, ..ask() }).unwrap();
        let sums: Aggregate = statuses.iter().copied().collect();
        let open = statuses.iter().any(|status| *status != IntentStatus::Completed);
        let moved = portfolio.moved(next, &sums, at(1)).map_err(|refusal| refusal.code);
        if rule == json!(true) && open && next == PortfolioStatus::Completed {
            prop_assert_eq!(moved.err(), Some(Code::InvalidTransition));
        } else {
            prop_assert_eq!(moved.map(|one| (one.status, one.updated_at)), Ok((next, at(1))));
        }
    }
}
