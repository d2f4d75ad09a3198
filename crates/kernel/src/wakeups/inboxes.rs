//! Wake-ups of the follower that writes agents' inboxes (`inbox/follower.rs`): after a commit that may concern one, and for
//! which mailboxes. Nothing is collected while no inbox is open.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// Mailboxes remembered at most: beyond that all of them are looked at.
const MAILBOXES: usize = 1_000;

/// The mailboxes that may have something new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mailboxes {
    /// These.
    These(Vec<String>),
    /// Any.
    All,
}

/// The signals that wake the follower.
#[derive(Debug, Default)]
pub struct InboxSignals {
    enabled: AtomicBool,
    stir: Notify,
    mailboxes: Mutex<HashSet<String>>,
}

impl InboxSignals {
    /// Notes that an inbox is open.
    pub fn enable(&self) {
        self.set_enabled(true);
    }

    /// Sets whether any inbox is open.
    pub fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    /// Wakes the follower after a commit.
    pub(crate) fn stir(&self) {
        if self.enabled.load(Ordering::Relaxed) {
            self.stir.notify_one();
        }
    }

    /// Wakes the follower because a mailbox may have something new.
    pub(crate) fn mail(&self, entity: &str) {
        if self.enabled.load(Ordering::Relaxed) {
            let mut mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
            // One more than is remembered stands for all.
            if mailboxes.len() <= MAILBOXES {
                mailboxes.insert(entity.to_owned());
            }
            drop(mailboxes);
            self.stir.notify_one();
        }
    }

    /// Resolves at the next commit while an inbox is open.
    pub async fn stirred(&self) {
        self.stir.notified().await;
    }

    /// Takes the mailboxes that may have something new.
    pub fn take_mailboxes(&self) -> Mailboxes {
        let taken = std::mem::take(&mut *self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner));
        if taken.len() > MAILBOXES { Mailboxes::All } else { Mailboxes::These(taken.into_iter().collect()) }
    }
}
