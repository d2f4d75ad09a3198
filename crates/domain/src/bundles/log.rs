//! Verifies the log of a bundle event by event (RFC-0019): the chain and its end, that it produces the intent, its
//! checkpoints and proofs. Keeps the hash and the id of each event, because checkpoints cover all of them.

use std::collections::HashMap;

use super::Header;
use crate::canonical::{self, Digest};
use crate::identity::identities::Identity;
use crate::identity::signatures::PublicKey;
use crate::ids::EventId;
use crate::log::chains::{self, Break, verify_end};
use crate::log::checkpoints::{self, Checkpoint};
use crate::log::events::Sealed;
use crate::log::proofs;
use crate::openintent::intents::export::{Report, differences, opened};
use crate::openintent::intents::{Intent, replay};

/// Faults that are told; the rest of a damaged file says the same.
pub(super) const TOLD: usize = 100;

/// The log of a bundle as read so far.
#[derive(Debug)]
pub(super) struct LogVerifier {
    header: Header,
    /// Hashes of the deleted events.
    deleted: Vec<Digest>,
    /// Hashes and ids of the events up to the first whose hash is unreadable.
    leaves: Vec<Digest>,
    ids: Vec<EventId>,
    /// By their agents.
    identities: HashMap<String, Vec<Identity>>,
    checkpoints: Vec<Checkpoint>,
    breaks: Vec<Break>,
    /// The intent that the events make.
    made: Result<Option<Intent>, String>,
    last: Option<Sealed>,
    count: usize,
}

impl LogVerifier {
    pub(super) fn new(header: Header) -> Self {
        let begun = header.deleted.as_ref().map(|deleted| deleted.intent.clone());
        Self {
            header,
            deleted: Vec::new(),
            leaves: Vec::new(),
            ids: Vec::new(),
            identities: HashMap::new(),
            checkpoints: Vec::new(),
            breaks: Vec::new(),
            made: Ok(begun),
            last: None,
            count: 0,
        }
    }

    /// Returns the first line of the bundle.
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the id of the intent.
    pub(super) fn intent_id(&self) -> String {
        self.header.intent.id.to_string()
    }

    /// Takes hashes of deleted events.
    pub(super) fn deleted(&mut self, hashes: &[String]) -> Result<(), String> {
        for hash in hashes {
            self.deleted.push(canonical::read(hash).ok_or("a hash of a deleted event is none")?);
        }
        Ok(())
    }

    pub(super) fn identity(&mut self, identity: Identity) {
        self.identities.entry(identity.agent_id.clone()).or_default().push(identity);
    }

    pub(super) fn checkpoint(&mut self, checkpoint: Checkpoint) {
        self.checkpoints.push(checkpoint);
    }

    /// Takes the next event.
    pub(super) fn event(&mut self, event: Sealed) {
        let (first, previous) = if let Some(last) = &self.last {
            (last.sequence.saturating_add(1), last.event_hash.clone())
        } else {
            let first = i64::try_from(self.deleted.len()).unwrap_or(i64::MAX).saturating_add(1);
            (first, self.deleted.last().map(canonical::show))
        };
        let one = std::slice::from_ref(&event);
        let mut faults = chains::verify(one, first, previous.as_deref());
        let own = self.identities.get(&event.actor).map_or(&[][..], Vec::as_slice);
        faults.extend(proofs::verify(one, own));
        if event.intent_id != self.header.intent.id {
            faults.push(Break::of(&event, "it is of another log"));
        }
        let room = TOLD.saturating_sub(self.breaks.len());
        self.breaks.extend(faults.into_iter().take(room));
        if self.leaves.len() == self.count
            && let Some(leaf) = event.event_hash.as_deref().and_then(canonical::read)
        {
            self.leaves.push(leaf);
        }
        self.ids.push(event.id);
        self.made =
            std::mem::replace(&mut self.made, Ok(None)).and_then(|intent| replay(intent, &opened(&event)?));
        self.count += 1;
        self.last = Some(event);
    }

    /// Judges the whole log; `trusted` are the acceptable keys of checkpoints, any if empty.
    pub(super) fn finish(self, trusted: &[PublicKey]) -> Report {
        let mut contradictions = match &self.made {
            Ok(Some(made)) => differences(&self.header.intent, made),
            Ok(None) => vec!["the log does not begin with the intent's creation".to_owned()],
            Err(fault) => vec![fault.clone()],
        };
        let claimed = self.header.deleted.as_ref().map_or(0, |deleted| deleted.event_count);
        if claimed != self.deleted.len() {
            contradictions.push(format!(
                "the first line says that {claimed} events were deleted, the file has the hashes of {}",
                self.deleted.len()
            ));
        }
        let (mut breaks, ids, deleted) = (self.breaks, self.ids, self.deleted.len());
        let last = self.last.as_slice();
        breaks.extend(verify_end(last, self.header.event_count, self.header.head.as_deref()));
        let id_of = |sequence: i64| {
            let place = usize::try_from(sequence).ok()?.checked_sub(deleted + 1)?;
            ids.get(place).copied()
        };
        let leaves = [self.deleted, self.leaves].concat();
        let log = self.header.intent.id;
        breaks.extend(checkpoints::verify_leaves(log, deleted, leaves, id_of, &self.checkpoints, trusted));
        Report {
            intent_id: log.to_string(),
            event_count: self.count,
            deleted_count: deleted,
            head: self.last.and_then(|event| event.event_hash),
            checkpoint_count: self.checkpoints.len(),
            signed_by: None,
            breaks,
            contradictions,
            unsigned: Vec::new(),
        }
    }
}
