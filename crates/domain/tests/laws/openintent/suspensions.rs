//! Suspensions (RFC-0025): valid questions, the value of an answer, and the resulting intent.

use entente_domain::identity::principals::Author;
use entente_domain::ids::{IntentId, KeyId};
use entente_domain::moments::suspensions::Answer;
use entente_domain::moments::{Brief, Resolution, Settled, Via};
use entente_domain::openintent::intents::{Intent, IntentAsk, IntentStatus, SUSPENSION, create};
use entente_domain::openintent::patch::{Change, Op, Patch};
use entente_domain::openintent::suspensions::{
    Asked, End, FallbackPolicy, Suspension, SuspensionState, check_left_alone, question_in, waits,
};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::any::at;

fn record(more: Value) -> Map<String, Value> {
    let mut record =
        Map::from_iter([("id".to_owned(), json!("q")), ("question".to_owned(), json!("Which?"))]);
    let Value::Object(more) = more else { unreachable!("{more} is no object") };
    record.extend(more);
    record
}

fn asked(more: Value) -> Asked {
    Asked::read(&record(more)).unwrap()
}

fn choices(count: usize) -> Value {
    (0..count).map(|n| json!({ "value": format!("v{n}"), "label": format!("Way {n}") })).collect()
}

fn settled(resolution: &Resolution) -> Settled {
    let option_idx = match resolution {
        Resolution::Option { option_idx } => Some(*option_idx),
        Resolution::FreeText { .. } | Resolution::Dialogue { .. } => None,
    };
    Settled {
        kind: resolution.kind(),
        option_idx,
        answer: resolution.text().map(str::to_owned),
        objection: None,
        by: "human.ada".to_owned(),
        key_id: KeyId::from(Uuid::nil()),
        via: Via::Web,
        authority: None,
        at: at(0),
    }
}

fn intent(question: Map<String, Value>) -> Intent {
    let ask = IntentAsk {
        title: "t".to_owned(),
        description: String::new(),
        parent_id: None,
        depends_on: Vec::new(),
        constraints: Map::new(),
        state: Map::new(),
        status: IntentStatus::SuspendedAwaitingInput,
        governance_policy: None,
    };
    let mut made = create(ask, "agent.a", IntentId::from(Uuid::nil()), at(0)).unwrap();
    // An intent cannot be created with a question.
    made.state.insert(SUSPENSION.to_owned(), Value::Object(question));
    made
}

fn kinds() -> impl Strategy<Value = &'static str> {
    select(&["choice", "confirm", "text", "form"][..])
}

proptest! {
    /// Every valid question becomes a valid binding moment, as long as its texts are short enough for a person.
    #[test]
    fn every_question_can_be_put_before_a_person(
        kind in kinds(), count in 0_usize..8, question in "[a-zA-Z ]{0,200}[a-z]", facts in prop::collection::btree_map("[a-z]{1,9}", ".{0,40}", 0..60),
        sure in prop::option::of(0.0_f64..1.0), policy in select(&["fail", "complete_with_fallback"][..]),
    ) {
        let facts: Map<String, Value> =
            facts.into_iter().map(|(name, value)| (name, json!(value.replace(char::is_control, " ")))).collect();
        let asked = asked(json!({
            "question": question, "response_type": kind, "choices": choices(count), "context": facts,
            "confidence_at_suspension": sure, "fallback_policy": policy,
        }));
        let (brief, closed) = asked.brief("agent.a", "An intent", Some(at(0)));
        let brief = Brief::emitted(&brief).unwrap();
        // Free text is closed exactly where it could not be an answer.
        prop_assert_eq!(closed.is_some(), !brief.question.hatches.free_text);
        prop_assert!(brief.question.hatches.dialogue, "a person can always refuse the question");
    }

    /// An accepted answer keeps its value on either path.
    #[test]
    fn an_answer_is_worth_itself(count in 1_usize..8, pick in 0_usize..8) {
        let asked = asked(json!({ "choices": choices(count) }));
        let value = json!(format!("v{pick}"));
        match asked.accept(&value) {
            Ok(resolution) => {
                prop_assert!(pick < count);
                prop_assert_eq!(asked.worth(&settled(&resolution)).unwrap(), Answer::Value(value.clone()));
                prop_assert_eq!(&asked.chosen(&value).unwrap().label, &format!("Way {pick}"));
            }
            Err(_) => prop_assert!(pick >= count),
        }
        let (brief, _) = asked.brief("agent.a", "t", None);
        let brief = Brief::emitted(&brief).unwrap();
        // Each option of the moment has a value, and each possible answer is an option.
        for (idx, option) in brief.question.options.iter().enumerate() {
            let worth = asked.worth(&settled(&Resolution::Option { option_idx: idx })).unwrap();
            let known = asked.choices.iter().find(|one| one.label == option.label);
            prop_assert_eq!(worth, known.map_or(Answer::CallOff, |one| Answer::Value(json!(one.value))));
        }
    }

    /// After any end the intent matches its future log, and the question no longer waits.
    #[test]
    fn the_end_is_written_where_it_is_looked_for(which in 0_usize..4, policy in select(&FallbackPolicy::ALL[..]), seconds in 1_u32..9_000) {
        let question = record(json!({
            "timeout_seconds": seconds, "fallback_policy": policy.as_str(), "fallback_value": "f",
        }));
        let asked = Asked::read(&question).unwrap();
        let before = intent(question);
        let by = Author { agent: "agent.a", principal: "service.s" };
        let one = Suspension::new(&asked, before.id, 1, by, at(0));
        let end = match which {
            0 => End::Responded { value: json!("v"), by: "human.ada".to_owned(), metadata: None, authority: None },
            1 => End::Expired,
            2 => End::Cancelled("refused"),
            _ => End::Overtaken,
        };
        let now = one.expires_at.unwrap();
        let after = one.after(&before, &end, false, now).unwrap();
        let record = &after.patched.state[SUSPENSION];
        prop_assert_eq!(&record["resolution"], end.state().as_str());
        prop_assert!(waits(&before.state) && !waits(&after.patched.state));
        prop_assert_eq!(after.patched.version, before.version + 1);
        let stays = which == 3 || which == 1 && policy == FallbackPolicy::Fail;
        prop_assert_eq!(after.resumed.is_none(), stays);
        let response = match which {
            0 => Some(&json!("v")).cloned(),
            1 if policy != FallbackPolicy::Fail => Some(json!("f")),
            _ => None,
        };
        prop_assert_eq!(record.get("response").cloned(), response);
        // A read at that time, before it is stored, gives the same.
        let seen = one.seen(&before, false, now);
        let expired = one.after(&before, &End::Expired, false, now).unwrap();
        prop_assert_eq!(seen.as_ref(), Some(expired.intent()));
        prop_assert!(one.seen(&before, false, at(0)).is_none());
        let over = one.ended(&end, now);
        prop_assert!(!over.is_due(now) && over.state != SuspensionState::Open && over.ended_at.is_some());
    }
}

#[test]
fn only_a_whole_question_asks() {
    let set = |path: &str, value: Value| Patch { op: Op::Set, path: path.to_owned(), value };
    let whole = || Value::Object(record(json!({})));
    let asks = |change: &Change| question_in(change).is_some();
    let patches = |patch: Patch| Change::Patches { patches: vec![patch] };
    assert!(asks(&patches(set(SUSPENSION, whole()))));
    assert!(asks(&patches(set("/_suspension/", whole()))));
    assert!(!asks(&patches(set("_suspension/x", whole()))));
    assert!(!asks(&patches(set("other", whole()))));
    assert!(!asks(&patches(Patch { op: Op::Remove, ..set(SUSPENSION, whole()) })));
    let mut answered = whole();
    answered["resolution"] = json!("responded");
    assert!(!asks(&patches(set(SUSPENSION, answered.clone()))));
    // And only a question may be written there, and no forged answer.
    let state = |value: Option<&Value>| -> Map<String, Value> {
        value.into_iter().map(|value| (SUSPENSION.to_owned(), value.clone())).collect()
    };
    let (none, open, over) = (state(None), state(Some(&whole())), state(Some(&answered)));
    for (before, after, lawful) in [
        (&none, &none, true),
        (&open, &open, true),
        (&over, &over, true),
        (&over, &none, true),
        (&open, &none, false),
        (&open, &over, false),
        (&none, &over, false),
        (&over, &open, false),
    ] {
        assert_eq!(check_left_alone(before, after).is_ok(), lawful, "{before:?} to {after:?}");
    }
}
