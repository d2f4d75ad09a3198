//! Arbitration (RFC-0003): valid requests and decisions.

use entente_domain::ids::{ArbitrationId, DecisionId, IntentId};
use entente_domain::limits::{LIST_ITEMS, METADATA_BYTES, TEXT_BYTES};
use entente_domain::openintent::arbitration::{
    ArbitrationAsk, ArbitrationStatus, DecisionAsk, decide, request,
};
use entente_domain::refusal::Code;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::any::{at, name, object};

fn intent() -> IntentId {
    IntentId::from(Uuid::nil())
}

fn requested(ask: ArbitrationAsk) -> Result<entente_domain::openintent::arbitration::Arbitration, Code> {
    request(ask, intent(), "ada", ArbitrationId::from(Uuid::nil()), at(0)).map_err(|refusal| refusal.code)
}

fn decided(ask: DecisionAsk) -> Result<entente_domain::openintent::arbitration::Decision, Code> {
    decide(ask, intent(), "ada", DecisionId::from(Uuid::nil()), at(0)).map_err(|refusal| refusal.code)
}

fn ask(reason: &str) -> ArbitrationAsk {
    ArbitrationAsk { reason: reason.to_owned(), ..ArbitrationAsk::default() }
}

fn decision(outcome: &str) -> DecisionAsk {
    let decision_type = "arbitration".to_owned();
    DecisionAsk { decision_type, outcome: outcome.to_owned(), ..DecisionAsk::default() }
}

/// An object above the limit, and one with a number that does not survive canonicalisation.
fn bad_things() -> [(Value, Code); 2] {
    [
        (json!({ "a": "x".repeat(METADATA_BYTES) }), Code::TooLarge),
        (json!({ "a": u64::MAX }), Code::Unprocessable),
    ]
}

#[test]
fn limits_are_kept() {
    let long = "x".repeat(TEXT_BYTES + 1);
    for (text, code) in [("", Code::InvalidRequest), (" \n", Code::InvalidRequest), (&long, Code::TooLarge)] {
        assert_eq!(requested(ask(text)).unwrap_err(), code);
        assert_eq!(decided(decision(text)).unwrap_err(), code);
    }
    let reasoned = DecisionAsk { reasoning: long, ..decision("go") };
    assert_eq!(decided(reasoned).unwrap_err(), Code::TooLarge);
    let nameless = DecisionAsk { decision_type: String::new(), ..decision("go") };
    assert_eq!(decided(nameless).unwrap_err(), Code::InvalidRequest);
    let many = vec![json!(1); LIST_ITEMS + 1];
    assert_eq!(
        requested(ArbitrationAsk { options: many.clone(), ..ask("why") }).unwrap_err(),
        Code::TooLarge
    );
    assert_eq!(decided(DecisionAsk { evidence: many, ..decision("go") }).unwrap_err(), Code::TooLarge);
    for (thing, code) in bad_things() {
        let Value::Object(context) = thing.clone() else { unreachable!() };
        assert_eq!(requested(ArbitrationAsk { context, ..ask("why") }).unwrap_err(), code);
        assert_eq!(
            requested(ArbitrationAsk { options: vec![thing.clone()], ..ask("why") }).unwrap_err(),
            code
        );
        assert_eq!(decided(DecisionAsk { evidence: vec![thing], ..decision("go") }).unwrap_err(), code);
    }
}

proptest! {
    #[test]
    fn a_request_says_what_was_asked_and_waits(reason in "[a-z ]{0,8}[a-z]", context in object()) {
        let context: Map<String, Value> = context;
        let made = requested(ArbitrationAsk { context: context.clone(), ..ask(&reason) }).unwrap();
        prop_assert_eq!((made.reason, made.context), (reason, context));
        prop_assert_eq!((made.status, made.decision_id, made.resolved_at), (ArbitrationStatus::Pending, None, None));
    }

    #[test]
    fn a_decision_says_what_was_decided(decision_type in name(), outcome in "[a-z ]{0,8}[a-z]", reasoning: String) {
        prop_assume!(reasoning.len() <= TEXT_BYTES);
        let ask = DecisionAsk { decision_type, reasoning, ..decision(&outcome) };
        let made = decided(ask.clone()).unwrap();
        prop_assert_eq!((made.decision_type, made.outcome, made.reasoning), (ask.decision_type, outcome, ask.reasoning));
        prop_assert_eq!(made.decision_maker_id, "ada");
    }
}
