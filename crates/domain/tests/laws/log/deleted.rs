//! Logs whose oldest events retention has deleted (RFC-0019): with the hashes of these events and a checkpoint over them,
//! the rest is verified as before; a forged hash or event is found.

use entente_domain::canonical::{Digest, show};
use entente_domain::identity::signatures::Signer;
use entente_domain::ids::{CheckpointId, IntentId};
use entente_domain::log::chains::{Break, verify_end};
use entente_domain::log::checkpoints::{Checkpoint, all_leaves, leaves, verify_rest};
use entente_domain::log::deleted::DeletedEvents;
use entente_domain::log::events::Sealed;
use entente_domain::log::merkle::{Tree, leads};
use proptest::prelude::*;
use proptest::sample::Index;
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

fn taken(events: &[Sealed]) -> Checkpoint {
    let (tree, id) = (Tree::new(leaves(events)), CheckpointId::from(Uuid::from_u128(events.len() as u128)));
    Checkpoint::take(log(), &tree, id, at(5), &server()).unwrap()
}

/// Deletes the first `count` events.
fn cut(lines: &[Sealed], count: usize) -> (DeletedEvents, Vec<Sealed>) {
    (DeletedEvents(leaves(&lines[..count])), lines[count..].to_vec())
}

/// Verifies what is left, with its end and its checkpoints, trusting the server's key only.
fn faults(deleted: &DeletedEvents, rest: &[Sealed], end: &Sealed, checkpoints: &[Checkpoint]) -> Vec<Break> {
    let mut found = deleted.verify_rest(rest);
    found.extend(verify_end(rest, end.sequence, end.event_hash.as_deref()));
    found.extend(verify_rest(log(), deleted, rest, checkpoints, &[server().public_key()]));
    found
}

#[test]
fn hashes_are_read_as_they_are_written() {
    let hashes: [Digest; 2] = [[1; 32], [2; 32]];
    let texts: Vec<String> = hashes.iter().map(show).collect();
    assert_eq!(DeletedEvents::read(&texts), Some(DeletedEvents(hashes.to_vec())));
    assert_eq!(DeletedEvents::read(&["sha256:x".to_owned()]), None);
    assert!(DeletedEvents::read(&[]).unwrap().is_empty());
}

proptest! {
    #[test]
    fn what_is_left_is_verified_as_before(history in history(), places: [Index; 2]) {
        let lines = sealed(&chain(&history));
        let end = lines.last().unwrap();
        let count = places[0].index(lines.len());
        let covered = count.max(1) + places[1].index(lines.len() - count.max(1) + 1);
        let checkpoints = [taken(&lines[..covered]), taken(&lines)];
        let (deleted, rest) = cut(&lines, count);
        prop_assert_eq!(faults(&deleted, &rest, end, &checkpoints), []);
        // Proofs of all events, the deleted ones included, lead to the root as before.
        let (whole, left) = (Tree::new(leaves(&lines)), Tree::new(all_leaves(&deleted, &rest)));
        for index in 0..covered {
            let path = left.path(covered, index).unwrap();
            prop_assert_eq!(&path, &whole.path(covered, index).unwrap());
            prop_assert!(leads(&leaves(&lines)[index], index, covered, &path, &whole.root(covered).unwrap()));
        }
    }

    #[test]
    fn a_forged_hash_of_a_deleted_event_is_found(history in history(), places: [Index; 3], bit in 0_u8..8) {
        let lines = sealed(&chain(&history));
        let end = lines.last().unwrap();
        let count = 1 + places[0].index(lines.len() - 1);
        let (deleted, rest) = cut(&lines, count);
        let checkpoints = [taken(&lines)];
        let which = places[1].index(count);
        let mut forged = deleted.clone();
        forged.0[which][places[2].index(32)] ^= 1 << bit;
        prop_assert_ne!(faults(&forged, &rest, end, &checkpoints), []);
        for other in [[&deleted.0[..which], &deleted.0[which + 1..]].concat(), [&deleted.0[..], &[[3; 32]]].concat()] {
            prop_assert_ne!(faults(&DeletedEvents(other), &rest, end, &checkpoints), []);
        }
    }

    /// A log that was written anew as a whole still hashes and links.
    #[test]
    fn a_forged_event_after_the_deleted_ones_is_found(history in history(), places: [Index; 2]) {
        let lines = sealed(&chain(&history));
        let at = 1 + places[0].index(lines.len() - 1);
        let count = 1 + places[1].index(at);
        let mut other = history;
        other[at].0.actor.push('x');
        let anew = sealed(&chain(&other));
        let (deleted, rest) = cut(&anew, count);
        let end = anew.last().unwrap();
        prop_assert_eq!(deleted.verify_rest(&rest), []);
        prop_assert_ne!(faults(&deleted, &rest, end, &[taken(&lines)]), []);
        // An event that alone was changed gives another hash.
        let (deleted, mut rest) = cut(&lines, count);
        rest[at - count].actor.push('x');
        prop_assert_ne!(deleted.verify_rest(&rest), []);
    }

    #[test]
    fn a_checkpoint_must_cover_what_was_deleted(history in history(), places: [Index; 2]) {
        let lines = sealed(&chain(&history));
        let end = lines.last().unwrap();
        let count = 1 + places[0].index(lines.len() - 1);
        let (deleted, rest) = cut(&lines, count);
        prop_assert_eq!(faults(&deleted, &rest, end, &[]).len(), 1);
        let short = places[1].index(count);
        if short > 0 {
            prop_assert_eq!(faults(&deleted, &rest, end, &[taken(&lines[..short])]).len(), 1);
        }
        // One that somebody else signed covers nothing.
        let tree = Tree::new(leaves(&lines));
        let id = CheckpointId::from(Uuid::from_u128(1));
        let forged = Checkpoint::take(log(), &tree, id, at(5), &Signer::from_seed(&[8; 32])).unwrap();
        prop_assert_eq!(faults(&deleted, &rest, end, &[forged]).len(), 2);
    }
}
