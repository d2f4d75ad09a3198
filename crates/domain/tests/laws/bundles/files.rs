//! Bundles: what is written is verified, every byte of it counts, and what a forger with another key seals anew
//! still has to agree with itself.

use entente_domain::aee::envelopes::read;
use entente_domain::bundles::past::Past;
use entente_domain::bundles::{FORMAT, Header, Line, Section, Writer, put_json, verify};
use entente_domain::canonical::{show, text};
use entente_domain::clock::rfc3339;
use entente_domain::identity::signatures::Signer;
use entente_domain::ids::CheckpointId;
use entente_domain::log::checkpoints::Checkpoint;
use entente_domain::log::events::{Event, Sealed};
use entente_domain::log::merkle::Tree;
use entente_domain::moments::receipts::{PREDICATE, committed, fault, receipt};
use entente_domain::moments::{PROFILE, Resolution};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::any;
use crate::any::at;
use crate::moments::{answered, asked};
use crate::openintent::intents::{Step, live, steps};

fn signer() -> Signer {
    Signer::from_seed(&[7; 32])
}

/// Returns the lines of a bundle of an intent with these events, and two messages and a decision.
fn lines(state: Map<String, Value>, done: &[Step]) -> (Header, Vec<(Section, Value)>) {
    let (intent, events) = live(state, done);
    let last: &Event = events.last().unwrap();
    let header = Header {
        format: FORMAT.to_owned(),
        exported_at: "1970-01-01T00:16:40.000000Z".to_owned(),
        exported_by: "agent.ada".to_owned(),
        event_count: last.sequence,
        head: Some(show(&last.event_hash)),
        deleted: None,
        left_out: Vec::new(),
        intent,
    };
    let mut lines: Vec<_> = events
        .iter()
        .map(|event| (Section::Event, serde_json::to_value(Sealed::from(event)).unwrap()))
        .collect();
    let tree = Tree::new(events.iter().map(|event| event.event_hash).collect());
    let id = CheckpointId::from(Uuid::from_u128(1));
    let checkpoint = Checkpoint::take(header.intent.id, &tree, id, at(900), &signer()).unwrap();
    lines.push((Section::Checkpoint, serde_json::to_value(checkpoint).unwrap()));
    lines.push((Section::Channel, json!({ "id": "ch_1", "name": "talk" })));
    for n in 1..3 {
        let mut body = json!({
            "id": format!("msg_01J9ZK4T6Q8R2V5X7Y9B1C3D5{n}"), "channel_id": "ch_1", "number": n, "sender": "agent.ada",
            "message_type": "notify", "created_at": "1970-01-01T00:00:01.000000Z",
        });
        put_json(body.as_object_mut().unwrap(), "payload", r#"{"é":"“\n”","n":0.1}"#);
        lines.push((Section::Message, body));
    }
    lines.push((Section::Decision, decision()));
    (header, lines)
}

fn decision() -> Value {
    let asked = answered(&asked(), Resolution::Option { option_idx: 1 }, 5);
    json!({
        "moment_id": asked.id, "agent_id": asked.agent_id, "principal_id": asked.principal_id,
        "created_at": rfc3339(asked.created_at), "profile": PROFILE, "brief": asked.brief,
        "digest": asked.digest, "resolution": committed(&asked), "receipt": receipt(&asked, &signer()),
    })
}

fn file(header: &Header, lines: &[(Section, Value)], signer: &Signer) -> String {
    let (mut writer, mut file) = Writer::begin(header).unwrap();
    for (section, body) in lines {
        file.push_str(&writer.line(*section, body).unwrap());
    }
    file + &writer.seal(signer).unwrap()
}

fn clean(file: &[u8]) -> bool {
    verify(file, &[signer().public_key()]).is_ok_and(|report| report.is_clean())
}

/// Returns whether a reader takes the file for whole who does not know the server's key.
fn consistent(file: &str) -> bool {
    verify(file.as_bytes(), &[]).is_ok_and(|report| report.is_clean())
}

proptest! {
    #[test]
    fn what_is_written_is_verified(state in any::object(), done in steps()) {
        let (header, lines) = lines(state, &done);
        let file = file(&header, &lines, &signer());
        let report = verify(file.as_bytes(), &[signer().public_key()]).unwrap();
        prop_assert!(report.is_clean(), "{:?}", report);
        prop_assert_eq!(report.counts.values().sum::<u64>(), 1 + lines.len() as u64);
        prop_assert_eq!(report.log.signed_by, Some(signer().public_key().did()));
        for line in file.lines() {
            prop_assert_eq!(&text(&serde_json::from_str::<Value>(line).unwrap()).unwrap(), line);
        }
    }

    #[test]
    fn lines_that_are_gone_added_or_moved_are_found(state in any::object(), done in steps(), which: Index, other: Index) {
        let (header, lines) = lines(state, &done);
        let file = file(&header, &lines, &signer());
        let lines: Vec<&str> = file.split_inclusive('\n').collect();
        let (which, other) = (which.index(lines.len()), other.index(lines.len()));
        let mut gone = lines.clone();
        gone.remove(which);
        prop_assert!(!clean(gone.concat().as_bytes()));
        prop_assert!(!clean(lines[..which].concat().as_bytes()));
        let mut twice = lines.clone();
        twice.insert(other, lines[which]);
        prop_assert!(!clean(twice.concat().as_bytes()));
        let mut moved = lines.clone();
        moved.swap(which, other);
        prop_assert_eq!(clean(moved.concat().as_bytes()), which == other);
    }

    #[test]
    fn a_forger_who_seals_anew_is_found_by_the_log(state in any::object(), done in steps(), which: Index) {
        let (header, lines) = lines(state, &done);
        let eve = Signer::from_seed(&[9; 32]);
        prop_assert!(consistent(&file(&header, &lines, &eve)));
        prop_assert!(!clean(file(&header, &lines, &eve).as_bytes()), "but not by the server's key");
        let events = lines.iter().filter(|line| line.0 == Section::Event).count();
        let mut forged = lines.clone();
        forged[which.index(events)].1["actor"] = json!("agent.eve");
        prop_assert!(!consistent(&file(&header, &forged, &eve)));
        let mut forged = lines.clone();
        forged.remove(which.index(events));
        prop_assert!(!consistent(&file(&header, &forged, &eve)));
        let mut other = header.clone();
        other.intent.title.push('x');
        prop_assert!(!consistent(&file(&other, &lines, &eve)));
        for (section, member) in [(Section::Message, "channel_id"), (Section::Decision, "digest"), (Section::Decision, "agent_id")] {
            let mut forged = lines.clone();
            forged.iter_mut().find(|line| line.0 == section).unwrap().1[member] = json!("x");
            prop_assert!(!consistent(&file(&header, &forged, &eve)), "{}", member);
        }
        let mut forged = lines.clone();
        forged.swap(0, events + 1);
        prop_assert!(!consistent(&file(&header, &forged, &eve)), "a channel before the log");
    }

    #[test]
    fn json_is_kept_as_a_value_or_as_its_text(value in any::json(), large in 0_u64..1_000) {
        let mut body = Map::new();
        let written = text(&value).unwrap();
        put_json(&mut body, "payload", &written);
        prop_assert_eq!(text(&body["payload"]).unwrap(), written);
        let large = format!("{{\"n\":{}}}", 9_007_199_254_740_993 + 2 * large);
        let mut body = Map::new();
        put_json(&mut body, "payload", &large);
        prop_assert_eq!(&body["payload_text"], &json!(large));
        let mut body = Map::new();
        put_json(&mut body, "payload", r#"{"a":1,"a":2}"#);
        prop_assert!(body.contains_key("payload_text") && !body.contains_key("payload"));
    }
}

/// Replaces every byte of a file by another; neighbours are replaced by bytes that cause other kinds of faults.
#[test]
fn each_byte_of_a_file_counts() {
    let (header, lines) = lines(Map::from_iter([("n".to_owned(), json!([1, 0.5, "é"]))]), &[]);
    let file = file(&header, &lines, &signer()).into_bytes();
    assert!(clean(&file));
    for at in 0..file.len() {
        let others = [file[at] ^ 1, file[at] ^ 0x20, b' ', b'"', b'0', b'9', b'e', b'\n', b'A', b'='];
        let other = others[at % others.len()];
        if other != file[at] {
            let mut forged = file.clone();
            forged[at] = other;
            assert!(!clean(&forged), "byte {at}, {} for {}", char::from(other), char::from(file[at]));
        }
    }
}

#[test]
fn a_damaged_line_is_named() {
    let (header, lines) = lines(Map::new(), &[]);
    let file = file(&header, &lines, &signer());
    let forged = file.replacen("\"number\":2", "\"number\":7", 1);
    let report = verify(forged.as_bytes(), &[]).unwrap();
    let line = 1 + file.lines().position(|line| line.contains("\"number\":2")).unwrap();
    assert!(report.damaged[0].starts_with(&format!("line {line}: it does not have its hash")), "{report:?}");
    assert_eq!(report.damaged.len(), 2, "the line and the seal: {report:?}");
    let cut = verify(&file.as_bytes()[..file.len() - 10], &[]).unwrap_err();
    assert!(cut.contains("ends in the middle"), "{cut}");
    let unsealed: String =
        file.split_inclusive('\n').filter(|line| Line::parse(line.as_bytes()).is_some()).collect();
    assert!(verify(unsealed.as_bytes(), &[]).unwrap_err().contains("without the server's seal"));
    assert!(verify(format!("{file}{file}").as_bytes(), &[]).unwrap_err().contains("follows the seal"));
}

#[test]
fn a_receipt_is_of_one_answer() {
    let honest = decision();
    let judge = |change: &dyn Fn(&mut Value)| {
        let mut forged = honest.clone();
        change(&mut forged);
        fault(forged.as_object().unwrap(), &[signer().public_key()])
    };
    assert_eq!(judge(&|_| ()), None);
    assert_eq!(PREDICATE, "urn:entente:decision:1");
    assert!(judge(&|one| one["resolution"]["option_idx"] = json!(0)).unwrap().contains("another decision"));
    assert!(judge(&|one| one["brief"]["offer"] = json!("Ask.")).unwrap().contains("digest"));
    assert!(
        judge(&|one| drop(one.as_object_mut().unwrap().remove("receipt"))).unwrap().contains("no receipt")
    );
    let eve = [Signer::from_seed(&[9; 32]).public_key()];
    assert!(fault(honest.as_object().unwrap(), &eve).unwrap().contains("not a key of the server"));
}

#[test]
fn the_past_of_an_intent_is_envelopes() {
    let (header, lines) = lines(Map::new(), &[]);
    let file = file(&header, &lines, &signer());
    let told = || {
        let mut past = Past::default();
        let lines = file.lines().filter_map(|line| Line::parse(line.as_bytes()));
        lines.flat_map(|line| past.envelopes(&line).unwrap()).collect::<Vec<_>>()
    };
    let envelopes = told();
    let kinds: Vec<&str> = envelopes.iter().map(|one| one.kind.as_str()).collect();
    let events = lines.iter().filter(|line| line.0 == Section::Event).count();
    assert_eq!(kinds[..events], vec!["event"; events]);
    assert_eq!(kinds[events..], ["event", "event", "task", "result"]);
    let [.., asked, answered] = envelopes.as_slice() else { panic!("{kinds:?}") };
    assert_eq!(answered.reply_to.as_ref(), Some(&asked.id));
    assert_eq!(answered.sender, asked.recipient);
    assert!(envelopes.iter().all(|one| one.corr == header.intent.id.to_string() && one.sent_at.is_some()));
    assert_eq!(
        told().iter().map(|one| &one.id).collect::<Vec<_>>(),
        envelopes.iter().map(|one| &one.id).collect::<Vec<_>>()
    );
    for envelope in &envelopes {
        let text = serde_json::to_vec(&envelope.members).unwrap();
        assert_eq!(&read(&text).unwrap().id, &envelope.id);
    }
}
