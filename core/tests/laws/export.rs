//! Exports: a file tells by itself whether its intent is what its log made of it (RFC-0019).

use entente_core::canonical::text;
use entente_core::events::Event;
use entente_core::export::{Export, FORMAT};
use entente_core::intents::Intent;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use crate::any::{self, at};
use crate::events::edit;
use crate::intents::{Step, live, steps};

fn taken(state: Map<String, Value>, steps: &[Step]) -> Export {
    let (intent, events) = live(state, steps);
    Export::new(intent, &events, at(1_000))
}

fn file(export: &Export) -> Value {
    serde_json::to_value(export).unwrap()
}

/// What a verifier says of a file: whether it is clean; `None` when it cannot be read at all.
fn clean(file: Value) -> Option<bool> {
    serde_json::from_value::<Export>(file).ok().map(|export| export.verify().is_clean())
}

#[test]
fn a_file_of_another_form_is_not_vouched_for() {
    let export = Export { format: "entente-export/2".to_owned(), ..taken(Map::new(), &[]) };
    assert_eq!(export.verify().contradictions.len(), 1);
    assert_eq!(FORMAT, "entente-export/1");
}

#[test]
fn a_file_without_a_log_vouches_for_nothing() {
    let export = Export { events: Vec::new(), ..taken(Map::new(), &[]) };
    let report = export.verify();
    assert!(!report.is_clean());
    assert_eq!((report.event_count, report.head), (0, None));
}

proptest! {
    #[test]
    fn an_honest_export_is_clean_also_after_its_file(state in any::object(), steps in steps()) {
        let export = taken(state, &steps);
        let report = export.verify();
        prop_assert!(report.is_clean(), "{:?}", report);
        prop_assert_eq!(report.event_count, export.events.len());
        prop_assert_eq!(&report.head, &export.events.last().unwrap().event_hash);
        prop_assert_eq!(&report.intent_id, &export.intent.id.to_string());
        prop_assert_eq!(clean(file(&export)), Some(true));
    }

    /// The server keeps an intent as it was written and its log in canonical form: 1.0 here is 1 there.
    #[test]
    fn an_honest_export_of_what_was_stored_is_clean(state in any::object(), steps in steps()) {
        let (intent, events) = live(state, &steps);
        let kept = |state: &Map<String, Value>| serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap();
        let logged = |payload: &Map<String, Value>| serde_json::from_str(&text(payload).unwrap()).unwrap();
        let intent = Intent { state: kept(&intent.state), constraints: kept(&intent.constraints), ..intent };
        let events: Vec<Event> =
            events.into_iter().map(|event| Event { payload: logged(&event.payload), ..event }).collect();
        let report = Export::new(intent, &events, at(1_000)).verify();
        prop_assert!(report.is_clean(), "{:?}", report);
    }

    #[test]
    fn an_intent_that_says_something_else_is_found(state in any::object(), steps in steps(), dice in vec(0_usize..1_000, 24)) {
        let mut file = file(&taken(state, &steps));
        let before = file["intent"].clone();
        edit(file["intent"].as_object_mut().unwrap(), &mut dice.into_iter());
        // A null left out, or a time written in another way, says the same.
        let says = |intent: &Value| serde_json::from_value::<Intent>(intent.clone()).ok();
        prop_assume!(says(&file["intent"]) != says(&before));
        prop_assert_ne!(clean(file.clone()), Some(true), "{} is taken for {}", file["intent"], before);
    }

    #[test]
    fn a_log_that_says_something_else_is_found(
        state in any::object(), steps in steps(), place: Index, dice in vec(0_usize..1_000, 24),
    ) {
        let mut file = file(&taken(state, &steps));
        let lines = file["events"].as_array_mut().unwrap();
        let at = place.index(lines.len());
        edit(lines[at].as_object_mut().unwrap(), &mut dice.into_iter());
        let line = lines[at].clone();
        prop_assert_ne!(clean(file), Some(true), "{}", line);
    }

    #[test]
    fn a_word_more_in_the_file_is_not_vouched_for(state in any::object(), steps in steps(), place: Index) {
        let whole = file(&taken(state, &steps));
        let at = place.index(whole["events"].as_array().unwrap().len());
        for spot in [json!(null), json!("intent"), json!("events")] {
            let mut file = whole.clone();
            let object = match spot.as_str() {
                None => file.as_object_mut(),
                Some("events") => file["events"][at].as_object_mut(),
                Some(member) => file[member].as_object_mut(),
            };
            object.unwrap().insert("note".to_owned(), json!("approved by the board"));
            prop_assert_eq!(clean(file), None, "{}", spot);
        }
    }

    #[test]
    fn a_later_intent_with_an_older_log_is_found(state in any::object(), steps in steps()) {
        let export = taken(state, &steps);
        let mut cut = export.clone();
        let changed = cut.events.iter().rposition(|e| !e.posted && ["state_patched", "status_changed"].contains(&&*e.event_type));
        if let Some(last) = changed {
            cut.events.truncate(last);
            prop_assert!(!cut.verify().is_clean());
        }
    }
}
