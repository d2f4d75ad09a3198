//! Exports: a file shows by itself whether its intent matches its log (RFC-0019).

use entente_domain::canonical::text;
use entente_domain::identity::agent_keys::{AgentKey, End};
use entente_domain::identity::identities::Identity;
use entente_domain::identity::signatures::{Signer, statement};
use entente_domain::ids::{CheckpointId, EventId};
use entente_domain::log::checkpoints;
use entente_domain::log::checkpoints::{Anchor, Checkpoint};
use entente_domain::log::deleted::DeletedEvents;
use entente_domain::log::events::{Draft, Event, Kind, Tail, seal};
use entente_domain::log::merkle::Tree;
use entente_domain::log::proofs::{PROOF_TYPE, of_event};
use entente_domain::openintent::intents::export::{Export, FORMAT, FORMAT_1, FORMAT_3};
use entente_domain::openintent::intents::{Intent, created_payload, replay};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Step, live, steps};
use crate::any::{self, at};
use crate::log::events::edit;

fn taken(state: Map<String, Value>, steps: &[Step]) -> Export {
    let (intent, events) = live(state, steps);
    Export::new(intent, &events, at(1_000)).sealed(&signer())
}

/// Returns the server's key.
fn signer() -> Signer {
    Signer::from_seed(&[7; 32])
}

fn file(export: &Export) -> Value {
    serde_json::to_value(export).unwrap()
}

/// Returns whether a verifier finds a file clean; `None` if it cannot be parsed.
fn clean(file: Value) -> Option<bool> {
    serde_json::from_value::<Export>(file).ok().map(|export| export.verify().is_clean())
}

#[test]
fn a_file_of_another_form_is_not_vouched_for() {
    let export = Export { format: "entente-export/4".to_owned(), ..taken(Map::new(), &[]) };
    assert_eq!(export.verify().contradictions.len(), 1);
    assert_eq!(FORMAT, "entente-export/2");
}

#[test]
fn a_file_without_a_log_vouches_for_nothing() {
    let export = Export { events: Vec::new(), ..taken(Map::new(), &[]) };
    let report = export.verify();
    assert!(!report.is_clean());
    assert_eq!((report.event_count, report.head), (0, None));
}

/// Exports a log without its first `count` events, which a checkpoint of the server covers.
fn rest(state: Map<String, Value>, steps: &[Step], count: impl FnOnce(usize) -> usize) -> Export {
    let (intent, events) = live(state, steps);
    let count = count(events.len());
    let deleted = DeletedEvents(events[..count].iter().map(|event| event.event_hash).collect());
    let tree = Tree::new(events.iter().map(|event| event.event_hash).collect());
    let id = CheckpointId::from(Uuid::from_u128(1));
    let checkpoint = Checkpoint::take(intent.id, &tree, id, at(900), &signer()).unwrap();
    let begun = events[..count].iter().try_fold(None, replay).unwrap();
    let export = Export::new(intent, &events[count..], at(1_000)).after(&deleted, begun);
    export.vouched_for(vec![checkpoint], Vec::new()).sealed(&signer())
}

proptest! {
    #[test]
    fn an_export_that_begins_late_is_clean(state in any::object(), steps in steps(), place: Index) {
        let mut count = 0;
        let export = rest(state, &steps, |length| {
            count = place.index(length);
            count
        });
        let bytes = serde_json::to_vec(&export).unwrap();
        let report = Export::verify_file(&bytes, &[signer().public_key()]).unwrap();
        prop_assert!(report.is_clean(), "{:?}", report);
        prop_assert_eq!((report.deleted_count, report.event_count), (count, export.events.len()));
        prop_assert_eq!(export.format == FORMAT_3, count > 0);
    }

    /// Even if whoever forged it signs the whole file anew with the server's key.
    #[test]
    fn a_forged_export_that_begins_late_is_found(state in any::object(), steps in steps(), which: Index) {
        let export = rest(state, &steps, |length| length - 1);
        prop_assume!(export.deleted.is_some());
        let clean = |export: Export| export.sealed(&signer()).verify().is_clean();
        prop_assert!(clean(export.clone()));
        let mut forged = export.clone();
        let hashes = &mut forged.deleted.as_mut().unwrap().event_hashes;
        let at = which.index(hashes.len());
        hashes[at] = entente_domain::canonical::show(&[9; 32]);
        prop_assert!(!clean(forged));
        let mut forged = export.clone();
        forged.deleted.as_mut().unwrap().intent.title.push('x');
        prop_assert!(!clean(forged));
        let mut forged = export.clone();
        forged.events[0].actor.push('x');
        prop_assert!(!clean(forged));
        let bare = Export { checkpoints: Some(Vec::new()), ..export.clone() };
        let whole = Export { deleted: None, ..export.clone() };
        let other = Export { format: FORMAT.to_owned(), ..export };
        for forged in [bare, whole, other] {
            prop_assert!(!clean(forged));
        }
    }

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

    /// The server stores an intent as it was written and its log in canonical form: 1.0 here is 1 there.
    #[test]
    fn an_honest_export_of_what_was_stored_is_clean(state in any::object(), steps in steps()) {
        let (intent, events) = live(state, &steps);
        let kept = |state: &Map<String, Value>| serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap();
        let logged = |payload: &Map<String, Value>| serde_json::from_str(&text(payload).unwrap()).unwrap();
        let intent = Intent { state: kept(&intent.state), constraints: kept(&intent.constraints), ..intent };
        let events: Vec<Event> =
            events.into_iter().map(|event| Event { payload: logged(&event.payload), ..event }).collect();
        let report = Export::new(intent, &events, at(1_000)).sealed(&signer()).verify();
        prop_assert!(report.is_clean(), "{:?}", report);
    }

    #[test]
    fn an_intent_that_says_something_else_is_found(state in any::object(), steps in steps(), dice in vec(0_usize..1_000, 24)) {
        let mut file = file(&taken(state, &steps));
        let before = file["intent"].clone();
        edit(file["intent"].as_object_mut().unwrap(), &mut dice.into_iter());
        // An omitted null, or another notation of a time, means the same.
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

/// Returns an export with everything in it: proofs, checkpoints, an anchor, and an agent that had two keys.
fn full() -> Export {
    let (ada, next) = (Signer::from_seed(&[1; 32]), Signer::from_seed(&[2; 32]));
    let intent =
        Intent { updated_at: at(0), ..live(Map::from_iter([("n".to_owned(), json!([1, 0.5]))]), &[]).0 };
    let mut tail = Tail::empty(at(0));
    let created = Draft::of(Kind::IntentCreated, "ada", created_payload(&intent));
    let mut events = vec![seal(created, &mut tail, intent.id, EventId::from(Uuid::from_u128(1)), at(0))];
    for n in 2..5 {
        let mut proof = json!({ "type": PROOF_TYPE, "created": "1970-01-01T00:00:00Z" });
        let payload = json!({ "text": format!("note “{n}”\n"), "n": n });
        let form = of_event(intent.id, "note", "agent.ada", payload.as_object().unwrap(), &proof);
        proof["signature"] = json!(ada.sign(statement(&form)).show());
        let draft = Draft {
            event_type: "note".to_owned(),
            posted: true,
            proof: Some(proof),
            proof_verified: true,
            trace_id: Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
            ..Draft::of(Kind::IntentCreated, "agent.ada", payload)
        };
        events.push(seal(
            draft,
            &mut tail,
            intent.id,
            EventId::from(Uuid::from_u128(n)),
            at(n.try_into().unwrap()),
        ));
    }
    let export = Export::new(intent, &events, at(1_000));
    let take = |count: usize| {
        let tree = Tree::new(checkpoints::leaves(&export.events[..count]));
        let id = CheckpointId::from(Uuid::from_u128(count as u128));
        Checkpoint::take(export.intent.id, &tree, id, at(9), &signer()).unwrap()
    };
    let anchor = Anchor {
        kind: "external-timestamp".to_owned(),
        provider: "witness".to_owned(),
        reference: "r/1".to_owned(),
        timestamp_proof: String::new(),
        anchored_at: "1970-01-01T00:00:00.000000Z".to_owned(),
    };
    let checkpoints = vec![take(2), take(4).anchored(anchor, &signer()).unwrap()];
    let key = |signer: &Signer, from, end| AgentKey {
        public_key: signer.public_key(),
        registered_at: at(0),
        valid_from: at(from),
        expires_at: None,
        ended_at: end,
        ended_by: end.map(|_| End::Rotated),
    };
    let identity = Identity {
        agent_id: "agent.ada".to_owned(),
        keys: vec![key(&ada, 0, Some(at(8))), key(&next, 8, None)],
    };
    export.vouched_for(checkpoints, vec![identity]).sealed(&signer())
}

/// Replaces every byte of a file: either parsing fails with a position, or the change is named, or the file still
/// means the same.
#[test]
fn each_byte_of_a_file_counts() {
    let export = full();
    let bytes = serde_json::to_vec(&export).unwrap();
    let trusted = [signer().public_key()];
    assert!(Export::verify_file(&bytes, &trusted).unwrap().is_clean());
    let says = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok().map(|value| text(&value).unwrap());
    let before = says(&bytes).unwrap();
    let (mut same, mut named, mut unread) = (0, 0, 0);
    for at in 0..bytes.len() {
        // A neighbour, the other case, a blank, a quote, a digit: each causes another kind of fault.
        let others = [bytes[at] ^ 1, bytes[at] ^ 0x20, b' ', b'"', b'0', b'9', b'e'];
        for other in [others[at % others.len()]].into_iter().filter(|other| *other != bytes[at]) {
            let mut forged = bytes.clone();
            forged[at] = other;
            match Export::verify_file(&forged, &trusted) {
                Err(why) => {
                    unread += 1;
                    assert!(why.contains("line 1 column") || why.contains('`'), "byte {at}: {why}");
                }
                Ok(report) if report.is_clean() => {
                    same += 1;
                    assert_eq!(
                        says(&forged).as_ref(),
                        Some(&before),
                        "byte {at} was {}",
                        char::from(bytes[at])
                    );
                }
                Ok(report) => {
                    named += 1;
                    assert!(!report.unsigned.is_empty(), "byte {at}: {report:?}");
                }
            }
        }
    }
    assert!(named > bytes.len() / 3, "{named} were named, {unread} unreadable, {same} said the same");
    assert!(same < 10, "{same} said the same");
}

/// A forger can recompute everything that a changed file contains, but lacks the server's key.
#[test]
fn a_file_that_was_sealed_anew_is_not_the_servers() {
    let mut forged = full();
    forged.exported_at = "2030-01-01T00:00:00.000000Z".to_owned();
    let eve = Signer::from_seed(&[3; 32]);
    let forged = serde_json::to_vec(&forged.sealed(&eve)).unwrap();
    assert!(Export::verify_file(&forged, &[]).unwrap().is_clean(), "nobody said whose word counts");
    let report = Export::verify_file(&forged, &[signer().public_key()]).unwrap();
    assert_eq!(report.signed_by, Some(eve.public_key().did()));
    assert_eq!(report.unsigned.len(), 1, "{report:?}");
}

#[test]
fn what_was_changed_is_named() {
    let honest = serde_json::to_value(full()).unwrap();
    let report = |change: &dyn Fn(&mut Value)| {
        let mut file = honest.clone();
        change(&mut file);
        Export::verify_file(&serde_json::to_vec(&file).unwrap(), &[])
    };
    let of_event = report(&|file| file["events"][2]["payload"]["n"] = json!(7)).unwrap();
    assert_eq!(
        of_event.breaks.iter().map(|fault| fault.sequence).collect::<Vec<_>>(),
        [3, 3],
        "its hash, its proof"
    );
    let of_checkpoint = report(&|file| file["checkpoints"][1]["event_count"] = json!(3)).unwrap();
    assert_eq!(
        of_checkpoint.breaks[0].checkpoint_id.as_deref(),
        honest["checkpoints"][1]["checkpoint_id"].as_str()
    );
    let of_key = report(&|file| {
        file["identities"][0]["keys"][0]["public_key"] =
            file["identities"][0]["keys"][1]["public_key"].clone();
    });
    let of_key = of_key.unwrap();
    assert_eq!(of_key.breaks.iter().map(|fault| fault.sequence).collect::<Vec<_>>(), [2, 3, 4]);
    for member in ["exported_at", "identities", "seal"] {
        let found = report(&|file| match member {
            "seal" => file["seal"]["signature"] = file["checkpoints"][0]["signature"].clone(),
            "identities" => file["identities"][0]["keys"][1]["valid_from"] = json!("1970-01-01T00:00:01Z"),
            _ => file[member] = json!("2030-01-01T00:00:00.000000Z"),
        });
        assert!(found.unwrap().unsigned.iter().any(|word| word.contains(&format!("`{member}`"))), "{member}");
    }
    let unread = report(&|file| file["events"][2]["sequense"] = json!(1)).unwrap_err();
    assert!(unread.contains("events[2]") && unread.contains("sequense"), "{unread}");
    let file = serde_json::to_string(&honest).unwrap();
    let twice = file.replacen("\"title\":", "\"title\":\"evil\",\"title\":", 1);
    assert!(Export::verify_file(twice.as_bytes(), &[]).unwrap_err().contains("`title` is there twice"));
}

/// Files of the previous format are still verified; removing the seal and the checkpoints does not turn a file into
/// one of them.
#[test]
fn files_of_the_first_form_are_still_read() {
    let old =
        Export { format: FORMAT_1.to_owned(), checkpoints: None, identities: None, seal: None, ..full() };
    let file = serde_json::to_vec(&taken(Map::new(), &[])).unwrap();
    let taken: Export = serde_json::from_slice(&file).unwrap();
    let first =
        Export { format: FORMAT_1.to_owned(), checkpoints: None, identities: None, seal: None, ..taken };
    let file = serde_json::to_vec(&first).unwrap();
    let report = Export::verify_file(&file, &[]).unwrap();
    assert!(report.is_clean() && report.signed_by.is_none(), "{report:?}");
    assert!(!Export::verify_file(&file, &[signer().public_key()]).unwrap().is_clean(), "nobody signed it");
    for half in [Export { seal: None, ..full() }, Export { format: FORMAT_1.to_owned(), ..full() }] {
        assert!(half.verify().contradictions.iter().any(|word| word.contains("other members")), "{half:?}");
    }
    assert!(!old.verify().is_clean(), "proofs need the keys that they were made with");
}
