//! Events and their hash chain (RFC-0019): an honest chain verifies, and any change of one line is found at its
//! place.

use entente_domain::canonical::{self, show};
use entente_domain::clock::{Timestamp, micros};
use entente_domain::ids::{EventId, IntentId};
use entente_domain::limits::PAYLOAD_BYTES;
use entente_domain::log::chains::{Break, verify};
use entente_domain::log::events::{
    Draft, Event, Kind, Sealed, Tail, check_posted, check_trace_id, hash, seal,
};
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::any::{self, Dice, EXACT, at};

fn draft(payload: Value) -> Draft {
    Draft::of(Kind::StatePatched, "agent.ada", payload)
}

prop_compose! {
    fn drafts()(
        event_type in any::name(), actor in any::name(), payload in any::object(), posted: bool,
        trace_id in proptest::option::of("[0-9a-f]{32}"), parent_event_id in proptest::option::of(any::name()),
        proof in proptest::option::of(any::object()), proof_verified: bool,
    ) -> Draft {
        Draft { event_type, actor, payload, posted, trace_id, parent_event_id, proof: proof.map(Value::Object), proof_verified }
    }
}

/// Generates drafts, each with the seconds by which the server's clock moved before; it may go back.
pub fn history() -> impl Strategy<Value = Vec<(Draft, i64)>> {
    vec((drafts(), -3_i64..10), 2..7)
}

pub fn chain(history: &[(Draft, i64)]) -> Vec<Event> {
    let mut tail = Tail::empty(at(0));
    let mut now = 100;
    (1_u128..)
        .zip(history)
        .map(|(n, (draft, moved))| {
            now += moved;
            let time = at(now * 1_000_000);
            let id = EventId::mint(time, &Dice(n));
            seal(draft.clone(), &mut tail, IntentId::from(Uuid::from_u128(9)), id, time)
        })
        .collect()
}

pub fn sealed(events: &[Event]) -> Vec<Sealed> {
    events.iter().map(Sealed::from).collect()
}

/// Edits one member of a JSON object; `dice` selects the place and the kind of edit.
pub fn edit(object: &mut Map<String, Value>, dice: &mut impl Iterator<Item = usize>) {
    let mut roll = |sides: usize| dice.next().unwrap_or(0) % sides.max(1);
    let (action, which) = (roll(8), roll(object.len()));
    let key = object.keys().nth(which).cloned();
    match (action, key) {
        (0, _) | (_, None) => {
            object.insert(format!("added{which}"), json!(which));
        }
        (1, Some(key)) => {
            object.remove(&key);
        }
        (2, Some(key)) => {
            let value = object.remove(&key).unwrap_or_default();
            object.insert(format!("{key}x"), value);
        }
        (_, Some(key)) => edit_value(object.get_mut(&key).unwrap(), dice),
    }
}

fn edit_value(value: &mut Value, dice: &mut impl Iterator<Item = usize>) {
    let mut roll = |sides: usize| dice.next().unwrap_or(0) % sides.max(1);
    match value {
        Value::Null => *value = json!("x"),
        Value::Bool(is) => *value = json!(!*is),
        Value::Number(n) => {
            // Well within a double's precision, adding one gives another number.
            let n = n.as_f64().unwrap();
            *value = if n.abs() < 1e15 { json!(n.trunc() + 1.0 - n.fract()) } else { json!(0) };
            if value.as_f64() == Some(n) {
                *value = json!(n - 0.5);
            }
        }
        Value::String(text) => {
            let place = roll(text.chars().count() + 1);
            let mut letters: Vec<char> = text.chars().collect();
            match (roll(3), letters.get(place)) {
                (0, Some(_)) => drop(letters.remove(place)),
                (1, Some(c)) => letters[place] = if *c == '7' { '8' } else { '7' },
                _ => letters.insert(place, '7'),
            }
            *value = letters.into_iter().collect::<String>().into();
        }
        Value::Array(items) if items.is_empty() => items.push(json!(1)),
        Value::Array(items) => {
            let which = roll(items.len());
            edit_value(&mut items[which], dice);
        }
        Value::Object(members) => edit(members, dice),
    }
}

#[test]
fn every_kind_has_a_word_of_its_own() {
    let mut words: Vec<&str> = Kind::ALL.iter().map(|kind| kind.wire()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), Kind::ALL.len());
}

/// OI-13.2, computed by hand: the hash is over the canonical form without the hash itself.
#[test]
fn a_hash_is_what_the_contract_says() {
    let mut tail = Tail::empty(at(0));
    let intent = IntentId::from(Uuid::from_u128(9));
    let now = at(1_794_000_000_000_000);
    let first = seal(
        draft(json!({ "b": 1.50, "a": "ä" })),
        &mut tail,
        intent,
        EventId::from(Uuid::from_u128(1)),
        now,
    );
    let form = format!(
        r#"{{"actor":"agent.ada","created_at":"2026-11-06T21:20:00.000000Z","event_type":"state_patched","id":"{}","intent_id":"{}","payload":{{"a":"ä","b":1.5}},"previous_event_hash":null,"sequence":1}}"#,
        first.id, first.intent_id
    );
    assert_eq!(first.event_hash, canonical::sha256(form));
    let mut posted = draft(json!({}));
    (posted.posted, posted.trace_id) = (true, Some("0".repeat(32)));
    let second = seal(posted, &mut tail, intent, EventId::from(Uuid::from_u128(2)), now);
    let form = format!(
        r#"{{"actor":"agent.ada","created_at":"2026-11-06T21:20:00.000000Z","event_type":"state_patched","id":"{}","intent_id":"{}","payload":{{}},"posted":true,"previous_event_hash":"{}","sequence":2,"trace_id":"{}"}}"#,
        second.id,
        second.intent_id,
        show(&first.event_hash),
        "0".repeat(32)
    );
    assert_eq!(second.event_hash, canonical::sha256(form));
}

#[test]
fn a_payload_that_is_no_object_is_wrapped() {
    assert_eq!(draft(json!([1])).payload, *json!({ "value": [1] }).as_object().unwrap());
    assert_eq!(draft(json!({ "a": 1 })).payload, *json!({ "a": 1 }).as_object().unwrap());
}

#[test]
fn a_trace_id_is_what_rfc_0020_says() {
    let good = "0123456789abcdefABCDEF0123456789";
    assert_eq!(check_trace_id(good), Ok(()));
    for none in ["", &good[1..], &format!("{good}0"), &good.replace('0', "g"), &good.replace("01", "ä")] {
        assert_eq!(check_trace_id(none).unwrap_err().code, Code::InvalidRequest, "{none}");
    }
}

#[test]
fn a_posted_event_has_its_limits() {
    let text = |bytes: usize| json!("x".repeat(bytes - 8));
    let posted = |draft: Draft| check_posted(&draft).map_err(|refusal| refusal.code);
    assert_eq!(posted(draft(json!({ "a": text(PAYLOAD_BYTES) }))), Ok(()));
    assert_eq!(posted(draft(json!({ "a": text(PAYLOAD_BYTES + 1) }))), Err(Code::TooLarge));
    assert_eq!(posted(draft(json!({ "a": [EXACT + 2] }))), Err(Code::Unprocessable));
    let with = |change: fn(&mut Draft)| {
        let mut draft = draft(json!({}));
        change(&mut draft);
        posted(draft)
    };
    assert_eq!(with(|d| d.event_type = "tool_invocation".to_owned()), Ok(()));
    assert_eq!(with(|d| d.event_type = String::new()), Err(Code::InvalidRequest));
    assert_eq!(with(|d| d.trace_id = Some("1".to_owned())), Err(Code::InvalidRequest));
    assert_eq!(with(|d| d.parent_event_id = Some(String::new())), Err(Code::InvalidRequest));
    // A proof is hashed and stored with the event (RFC-0018).
    assert_eq!(with(|d| d.proof = Some(json!({ "signature": "x" }))), Ok(()));
    assert_eq!(with(|d| d.proof = Some(json!({ "n": EXACT + 2 }))), Err(Code::Unprocessable));
    assert_eq!(with(|d| d.proof = Some(json!("x".repeat(PAYLOAD_BYTES)))), Err(Code::TooLarge));
}

/// A file may contain any sequence number.
#[test]
fn a_strange_sequence_breaks_nothing_but_the_chain() {
    for sequence in [i64::MAX, i64::MIN, 0, -1] {
        let mut lines = sealed(&chain(&[(draft(json!({})), 1), (draft(json!({})), 1)]));
        lines[0].sequence = sequence;
        assert!(!verify(&lines, 1, None).is_empty());
    }
}

proptest! {
    #[test]
    fn an_honest_chain_is_whole_and_so_is_each_part_of_it(history in history(), place: Index) {
        let events = chain(&history);
        let lines = sealed(&events);
        prop_assert_eq!(verify(&lines, 1, None), []);
        let cut = place.index(lines.len());
        let before = (cut > 0).then(|| show(&events[cut - 1].event_hash));
        prop_assert_eq!(verify(&lines[..cut], 1, None), []);
        prop_assert_eq!(verify(&lines[cut..], i64::try_from(cut).unwrap() + 1, before.as_deref()), []);
        prop_assert!(events.iter().all(|event| hash(event) == event.event_hash));
    }

    #[test]
    fn a_chain_survives_its_file(history in history()) {
        let lines = sealed(&chain(&history));
        let file = serde_json::to_string(&lines).unwrap();
        let read: Vec<Sealed> = serde_json::from_str(&file).unwrap();
        prop_assert_eq!(verify(&read, 1, None), []);
    }

    #[test]
    fn any_edit_of_any_line_is_found_where_it_was_made(
        history in history(), place: Index, dice in vec(0_usize..1_000, 24),
    ) {
        let lines = sealed(&chain(&history));
        let at = place.index(lines.len());
        let Value::Object(mut line) = serde_json::to_value(&lines[at]).unwrap() else { panic!("a line is an object") };
        edit(&mut line, &mut dice.into_iter());
        // A line that cannot be parsed is found without a verifier.
        let Ok(edited) = serde_json::from_value::<Sealed>(Value::Object(line.clone())) else { return Ok(()) };
        let form = |line: &Sealed| canonical::text(line).unwrap();
        prop_assert_ne!(form(&edited), form(&lines[at]), "the edit {:?} changed nothing that is verified", line);
        let mut file = lines.clone();
        file[at] = edited;
        let breaks = verify(&file, 1, None);
        let names = |b: &Break, line: &Sealed| b.event_id == line.id || b.sequence == line.sequence;
        prop_assert!(breaks.iter().any(|b| names(b, &lines[at])), "{:?} does not name the line", breaks);
        for (other, line) in lines.iter().enumerate().filter(|(other, _)| *other != at && *other != at + 1) {
            prop_assert!(!breaks.iter().any(|b| b.event_id == line.id), "{:?} accuses line {}", breaks, other);
        }
    }

    #[test]
    fn a_line_that_is_lost_doubled_or_moved_is_found(history in history(), a: Index, b: Index) {
        let lines = sealed(&chain(&history));
        let (a, b) = (a.index(lines.len()), b.index(lines.len()));
        if a + 1 < lines.len() {
            let mut lost = lines.clone();
            lost.remove(a);
            let breaks = verify(&lost, 1, None);
            prop_assert!(breaks.iter().any(|found| found.event_id == lines[a + 1].id), "the line after the gap is named");
        }
        let mut doubled = lines.clone();
        doubled.insert(b, lines[a].clone());
        prop_assert!(verify(&doubled, 1, None).iter().any(|found| found.event_id == lines[a].id));
        if a != b {
            let mut swapped = lines.clone();
            swapped.swap(a, b);
            let breaks = verify(&swapped, 1, None);
            for moved in [a, b] {
                prop_assert!(breaks.iter().any(|found| found.event_id == lines[moved].id));
            }
        }
    }

    /// A chain cannot show that its end was truncated; its head can (RFC-0019, checkpoints).
    #[test]
    fn a_lost_end_shows_in_the_head(history in history()) {
        let lines = sealed(&chain(&history));
        let (last, rest) = lines.split_last().unwrap();
        prop_assert_eq!(verify(rest, 1, None), []);
        prop_assert_ne!(&last.event_hash, &rest.last().unwrap().event_hash);
    }

    #[test]
    fn a_chain_does_not_go_on_from_another(one in history(), other in history()) {
        let (mut one, other) = (sealed(&chain(&one)), sealed(&chain(&other)));
        let at = one.len().min(other.len() - 1);
        prop_assume!(one[at - 1].event_hash != other[at - 1].event_hash);
        one.truncate(at);
        one.extend_from_slice(&other[at..]);
        prop_assert!(verify(&one, 1, None).iter().any(|found| found.event_id == other[at].id));
    }

    #[test]
    fn a_line_numbers_without_gaps_and_its_time_never_goes_back(
        moved in vec((-5_i64..5, any::<bool>()), 1..20),
    ) {
        let mut tail = Tail::empty(at(0));
        let (mut now, mut seq, mut sequence, mut last): (i64, i64, i64, Timestamp) = (0, 0, 0, at(0));
        for (seconds, is_event) in moved {
            now += seconds * 1_000_000;
            seq += 1;
            let (number, time) = if is_event {
                sequence += 1;
                let event = seal(draft(json!({})), &mut tail, IntentId::SYSTEM, EventId::from(Uuid::nil()), at(now));
                prop_assert_eq!((event.seq, event.sequence), (seq, sequence));
                prop_assert_eq!(tail.head, Some(event.event_hash));
                (event.seq, event.created_at)
            } else {
                tail.advance(at(now))
            };
            prop_assert_eq!(number, seq);
            prop_assert!(time >= last && time >= at(now) && micros(time) == time);
            last = time;
        }
        prop_assert_eq!((tail.seq, tail.sequence, tail.at), (seq, sequence, last));
    }
}
