//! Callbacks to a peer about its intent, and how repeated callbacks are recognised.

use entente_domain::ids::EventId;
use entente_domain::log::events::{Draft, Event, Kind, Tail, seal};
use entente_domain::openintent::federation::callbacks::{Callback, News, is_last, news};
use entente_domain::openintent::federation::dispatches::State;
use entente_domain::openintent::intents::{Intent, IntentStatus, moved_payload, patched_payload};
use entente_domain::openintent::patch::{Change, Op, Patch};
use serde_json::{Map, Value, json};

use super::{intent, members};
use crate::any::{Dice, at};

/// Returns an intent's events: patches of members, and statuses.
fn log(steps: &[&str]) -> (Vec<Event>, Intent) {
    let (mut now, mut tail, mut events) = (intent(json!({ "gone": 1 })), Tail::empty(at(0)), Vec::new());
    for (n, step) in steps.iter().enumerate() {
        let draft = if let Some(status) = IntentStatus::parse(step) {
            let next = now.moved(status, false, at(0)).unwrap();
            let draft = Draft::of(Kind::StatusChanged, "agent.x", moved_payload(&now, &next, None));
            now = next;
            draft
        } else {
            let op = if *step == "gone" { Op::Remove } else { Op::Set };
            let patches = vec![Patch { op, path: format!("/{step}/deep"), value: json!(n) }];
            let patches = if *step == "gone" {
                vec![Patch { path: "gone".to_owned(), ..patches[0].clone() }]
            } else {
                patches
            };
            let change = Change::Patches { patches };
            let next = now.patched(&change, at(0)).unwrap();
            now = next.clone();
            Draft::of(Kind::StatePatched, "agent.x", patched_payload(&change, &next))
        };
        events.push(seal(draft, &mut tail, now.id, EventId::mint(at(0), &Dice(n as u128)), at(0)));
    }
    (events, now)
}

#[test]
fn a_peer_is_told_of_changes_together_and_of_the_end_once() {
    let (events, now) = log(&["a", "blocked", "b", "gone", "active", "completed", "abandoned", "a"]);
    let told = news("d-1", &events, &now, true);
    let words: Vec<&str> = told.iter().map(|one| one["event_type"].as_str().unwrap()).collect();
    assert_eq!(words, ["state_delta", "status_changed", "status_changed", "completed"]);
    assert_eq!(told[0]["state_delta"], json!({ "a": now.state["a"], "b": { "deep": 2 }, "gone": null }));
    assert_eq!(told[3]["state_delta"], json!({ "status": "completed" }));
    assert_eq!(told.iter().map(is_last).collect::<Vec<_>>(), [false, false, false, true]);
    let keys: std::collections::BTreeSet<&str> =
        told.iter().map(|one| one["idempotency_key"].as_str().unwrap()).collect();
    assert_eq!(keys.len(), told.len());
    let shy = news("d-1", &events, &now, false);
    assert_eq!(shy, told[1..], "of the state nothing is told to whom it is not shared with");
    assert_eq!(news("d-1", &[], &now, true), Vec::<Map<String, Value>>::new());
}

#[test]
fn of_what_people_here_are_asked_nothing_is_told() {
    let (events, now) = log(&["_suspension"]);
    assert_eq!(news("d-1", &events, &now, true), Vec::<Map<String, Value>>::new());
    let (events, now) = log(&["_suspension", "a"]);
    assert_eq!(news("d-1", &events, &now, true)[0]["state_delta"], json!({ "a": { "deep": 1 } }));
}

#[test]
fn what_is_too_large_to_be_told_is_counted() {
    let (events, mut now) = log(&["a", "b"]);
    now.state.insert("a".to_owned(), json!("x".repeat(100_000)));
    let told = news("d-1", &events, &now, true);
    assert_eq!((&told[0]["state_delta"], &told[0]["omitted"]), (&json!({ "b": { "deep": 1 } }), &json!(1)));
}

#[test]
fn a_callback_is_known_by_its_key_or_by_what_it_says() {
    let read = |body: Value| -> (Callback, Map<String, Value>) {
        (serde_json::from_value(body.clone()).unwrap(), members(body))
    };
    let key = |body: Value| {
        let (callback, body) = read(body);
        callback.check().unwrap();
        callback.key(&body)
    };
    let plain = json!({ "dispatch_id": "d", "event_type": "state_delta", "state_delta": { "a": 1 } });
    let with = |name: &str, value: Value| {
        let mut body = plain.clone();
        body[name] = value;
        body
    };
    assert_eq!(key(plain.clone()), key(with("timestamp", json!("2026-11-21T08:00:00Z"))));
    assert_eq!(key(plain.clone()), key(with("signature", json!("x"))));
    assert_ne!(key(plain.clone()), key(with("event_type", json!("completed"))));
    assert_eq!(key(with("idempotency_key", json!("k"))), "k");
    for bad in [
        with("idempotency_key", json!("")),
        with("state_delta", json!({ "n": 9_007_199_254_740_993_u64 })),
        with("omitted", json!(u64::MAX)),
    ] {
        assert!(read(bad).0.check().is_err());
    }
    assert_eq!(News::Completed.state(), State::Completed);
    assert_eq!(News::Attestation.kind(), Kind::FederationCallback);
}
