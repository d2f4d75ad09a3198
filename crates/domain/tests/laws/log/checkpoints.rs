//! Checkpoints (RFC-0019): an honest log satisfies all of them forever; a rewritten one contradicts its earlier
//! checkpoints, even if it was rewritten completely.

use entente_domain::canonical::show;
use entente_domain::identity::signatures::Signer;
use entente_domain::ids::{CheckpointId, IntentId};
use entente_domain::log::checkpoints::{
    Anchor, Checkpoint, CheckpointScope, Told, leaves, told, told_again, verify,
};
use entente_domain::log::events::{Event, Sealed};
use entente_domain::log::merkle::Tree;
use entente_domain::refusal::Code;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use uuid::Uuid;

use super::events::{chain, history, sealed};
use crate::any::at;

/// The intent of the chains that `events` generates.
fn log() -> IntentId {
    IntentId::from(Uuid::from_u128(9))
}

fn server() -> Signer {
    Signer::from_seed(&[7; 32])
}

fn taken(events: &[Sealed], id: u128) -> Checkpoint {
    let tree = Tree::new(leaves(events));
    Checkpoint::take(log(), &tree, CheckpointId::from(Uuid::from_u128(id)), at(5), &server()).unwrap()
}

fn anchor() -> Anchor {
    Anchor {
        kind: "external-timestamp".to_owned(),
        provider: "witness".to_owned(),
        reference: "https://witness.example/1".to_owned(),
        timestamp_proof: String::new(),
        anchored_at: "2026-11-21T08:00:00.000000Z".to_owned(),
    }
}

#[test]
fn an_empty_log_has_nothing_to_vouch_for() {
    let made =
        Checkpoint::take(log(), &Tree::new(Vec::new()), CheckpointId::from(Uuid::nil()), at(0), &server());
    assert_eq!(made.unwrap_err().code, Code::Unprocessable);
}

#[test]
fn the_houses_log_belongs_to_no_intent() {
    let tree = Tree::new(vec![[1; 32]]);
    let made =
        Checkpoint::take(IntentId::SYSTEM, &tree, CheckpointId::from(Uuid::nil()), at(0), &server()).unwrap();
    assert_eq!(
        (made.intent_id, made.scope, made.log()),
        (None, CheckpointScope::Server, Some(IntentId::SYSTEM))
    );
    let file = serde_json::to_value(&made).unwrap();
    assert_eq!(
        (&file["intent_id"], &file["scope"], &file["anchor"]),
        (&json!(null), &json!("server"), &json!(null))
    );
    assert_eq!(CheckpointScope::parse("server"), Some(CheckpointScope::Server));
    assert_eq!(CheckpointScope::parse("all"), None);
}

#[test]
fn an_anchor_names_who_saw_it_and_where() {
    assert!(anchor().check().is_ok());
    let bad = [
        Anchor { provider: String::new(), ..anchor() },
        Anchor { reference: String::new(), ..anchor() },
        Anchor { reference: "x".repeat(3_000), ..anchor() },
        Anchor { timestamp_proof: "x".repeat(70_000), ..anchor() },
    ];
    for anchor in bad {
        assert!(anchor.clone().check().is_err(), "{anchor:?}");
    }
}

#[test]
fn the_house_tells_of_a_checkpoint() {
    let id = CheckpointId::from(Uuid::from_u128(3));
    let payload = json!({
        "checkpoint_id": id, "merkle_root": "sha256:x", "intent_id": log(), "signature": "s", "more": 1,
    });
    let what = Told { log: log(), merkle_root: "sha256:x", signature: "s" };
    assert_eq!(told(payload.as_object().unwrap()), Some((id, what)));
    let house =
        json!({ "checkpoint_id": id, "merkle_root": "sha256:x", "intent_id": null, "signature": "s" });
    assert_eq!(told(house.as_object().unwrap()), Some((id, Told { log: IntentId::SYSTEM, ..what })));
    assert_eq!(told(json!({ "checkpoint_id": id }).as_object().unwrap()), None);
    let anchored = json!({ "checkpoint_id": id, "anchor": {}, "signature": "t" });
    assert_eq!(told_again(anchored.as_object().unwrap()), Some((id, "t")));
    assert_eq!(told_again(json!({ "checkpoint_id": id }).as_object().unwrap()), None);
}

proptest! {
    #[test]
    fn an_honest_log_keeps_its_checkpoints(history in history(), places in proptest::collection::vec(any::<Index>(), 1..5)) {
        let lines = sealed(&chain(&history));
        let checkpoints: Vec<Checkpoint> = (0..).zip(&places).map(|(id, place)| taken(&lines[..=place.index(lines.len())], id)).collect();
        prop_assert_eq!(verify(log(), &lines, &checkpoints, &[]), []);
        prop_assert_eq!(verify(log(), &lines, &checkpoints, &[server().public_key()]), []);
        let stranger = Signer::from_seed(&[8; 32]);
        prop_assert_eq!(verify(log(), &lines, &checkpoints, &[stranger.public_key()]).len(), checkpoints.len());
        prop_assert!(checkpoints[0].clone().anchored(anchor(), &stranger).is_err(), "another's word is not signed again");
        prop_assert_eq!(verify(IntentId::SYSTEM, &lines, &checkpoints, &[]).len(), checkpoints.len());
        let anchored = checkpoints[0].clone().anchored(anchor(), &server()).unwrap();
        prop_assert_eq!(&anchored.merkle_root, &checkpoints[0].merkle_root);
        prop_assert_eq!(verify(log(), &lines, &[anchored], &[server().public_key()]), []);
    }

    /// A log whose hashes and links were rewritten from some event on contradicts the first checkpoint that covers
    /// that event, and all later ones.
    #[test]
    fn a_log_that_was_rewritten_as_a_whole_is_found(history in history(), place: Index) {
        let lines = sealed(&chain(&history));
        let at = place.index(lines.len());
        let checkpoints: Vec<Checkpoint> = (1..=lines.len()).map(|count| taken(&lines[..count], count as u128)).collect();
        let mut other = history;
        other[at].0.actor.push('x');
        let rewritten: Vec<Event> = chain(&other);
        let faults = verify(log(), &sealed(&rewritten), &checkpoints, &[]);
        let expected: Vec<String> = checkpoints[at..].iter().map(|one| one.checkpoint_id.to_string()).collect();
        let named: Vec<String> = faults.iter().filter_map(|fault| fault.checkpoint_id.clone()).collect();
        prop_assert_eq!(named, expected);
        prop_assert_eq!(faults[0].event_id, rewritten[at].id);
        // A truncated log does too.
        let cut = verify(log(), &lines[..at], &checkpoints, &[]);
        prop_assert_eq!(cut.len(), lines.len() - at);
    }

    #[test]
    fn each_member_of_a_checkpoint_is_signed(history in history(), which in 0_usize..11) {
        let lines = sealed(&chain(&history));
        let honest = taken(&lines, 1).anchored(anchor(), &server()).unwrap();
        let mut file = serde_json::to_value(&honest).unwrap();
        let name = file.as_object().unwrap().keys().nth(which).unwrap().clone();
        let value = &mut file[&name];
        *value = match (&name[..], &*value) {
            ("checkpoint_id", _) => json!(CheckpointId::from(Uuid::from_u128(2))),
            ("intent_id", _) => json!(IntentId::from(Uuid::from_u128(2))),
            ("scope", _) => json!("server"),
            ("merkle_root", _) => json!(show(&[3; 32])),
            ("signed_by", _) => json!(Signer::from_seed(&[8; 32]).public_key().did()),
            ("signature", _) => json!(server().sign("other").show()),
            ("anchor", _) => json!(null),
            (_, Value::Number(n)) => json!(n.as_i64().unwrap() + 1),
            (_, Value::String(_)) => json!("2026-11-22T08:00:00.000000Z"),
            (other, _) => panic!("{other} is not tried"),
        };
        let forged: Checkpoint = serde_json::from_value(file).unwrap();
        prop_assert_ne!(&forged, &honest);
        let faults = verify(log(), &lines, std::slice::from_ref(&forged), &[]);
        prop_assert_eq!(faults.len(), 1, "{}", name);
        prop_assert_eq!(faults[0].checkpoint_id.clone(), Some(forged.checkpoint_id.to_string()));
        // A checkpoint that does not match its signature is not signed again.
        prop_assert!(forged.anchored(anchor(), &server()).is_err());
    }
}
