//! Hooks: reactions of one protocol to the changes of another, in the same transaction.
//!
//! The protocols know the kernel and not each other. Each registers one [`Hook`] at startup; the operation that makes
//! a change calls all of them, in the order of registration, and fails if one fails.

use std::fmt;

use entente_domain::clock::Timestamp;
use entente_domain::ids::MomentId;
use entente_domain::moments::Moment;
use entente_domain::notifications::Topic;
use entente_domain::notifications::forms::WaitingItem;
use entente_domain::openintent::intents::IntentStatus;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use sqlx::PgConnection;

use crate::log::writer::IntentLog;
use crate::wakeups::WakeKey;
use crate::{Ctx, Outcome};

/// Result of a hook.
pub type Reaction<'a, T = ()> = BoxFuture<'a, Outcome<T>>;

/// A change of an intent that is being made: its open transaction, which holds the intent's lock.
pub struct IntentChange<'a> {
    /// The kernel's context.
    pub ctx: &'a Ctx,
    /// The transaction.
    pub conn: &'a mut PgConnection,
    /// The intent's log.
    pub log: &'a mut IntentLog,
    /// The agent that makes the change.
    pub actor: &'a str,
}

/// A notification.
type Notify = Box<dyn FnOnce(&Ctx) + Send>;

/// Notifications to send once the transaction is committed.
#[derive(Default)]
pub struct AfterCommit(Vec<Notify>);

impl AfterCommit {
    /// Adds a notification.
    pub fn add(&mut self, notify: impl FnOnce(&Ctx) + Send + 'static) {
        self.0.push(Box::new(notify));
    }

    /// Sends the notifications; call after the commit.
    pub fn notify(self, ctx: &Ctx) {
        self.0.into_iter().for_each(|notify| notify(ctx));
    }
}

/// A person's answer as it was given, if it contains more than a moment's answer (RFC-0025).
#[derive(Debug, Clone)]
pub struct Given {
    /// The value itself.
    pub value: Value,
    /// Other data of its client.
    pub metadata: Option<Map<String, Value>>,
}

/// Reactions of a protocol; by default there are none.
pub trait Hook: Send + Sync {
    /// Agents may have lost write access to the intent (OI-7.4).
    fn access_narrowed<'a>(&'a self, _change: &'a mut IntentChange<'_>) -> Reaction<'a> {
        nothing(())
    }

    /// The intent has reached this terminal status (RFC-0021 §7.1).
    fn intent_closed<'a>(
        &'a self,
        _change: &'a mut IntentChange<'_>,
        _status: IntentStatus,
        _after: &'a mut AfterCommit,
    ) -> Reaction<'a> {
        nothing(())
    }

    /// The question that a suspended intent waited for has ended with a change of its status (RFC-0025).
    fn suspension_ended<'a>(
        &'a self,
        _change: &'a mut IntentChange<'_>,
        _moment: MomentId,
        _after: &'a mut AfterCommit,
    ) -> Reaction<'a> {
        nothing(())
    }

    /// A moment that concerns the intent has ended.
    fn moment_ended<'a>(
        &'a self,
        _change: &'a mut IntentChange<'_>,
        _moment: &'a Moment,
        _given: Option<&'a Given>,
    ) -> Reaction<'a> {
        nothing(())
    }

    /// A webhook was subscribed to the mailbox of an entity by this principal.
    fn mailbox_subscribed<'a>(
        &'a self,
        _conn: &'a mut PgConnection,
        _entity: &'a str,
        _by: &'a str,
        _now: Timestamp,
    ) -> Reaction<'a> {
        nothing(())
    }

    /// Returns those of these objects of the protocol's own topic that still wait for the person, as they are told, each with its
    /// id. It sees by the person: a notification belongs to no key.
    fn waiting<'a>(
        &'a self,
        _ctx: &'a Ctx,
        _person: &'a str,
        _topic: Topic,
        _subjects: &'a [String],
    ) -> Reaction<'a, Vec<(String, WaitingItem)>> {
        nothing(Vec::new())
    }

    /// Returns the current version numbers of those wake keys that are the protocol's own.
    fn versions<'a>(&'a self, _ctx: &'a Ctx, _keys: &'a [WakeKey]) -> Reaction<'a, Vec<(WakeKey, i64)>> {
        nothing(Vec::new())
    }
}

fn nothing<'a, T: Send + 'a>(value: T) -> Reaction<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

/// The hooks of all protocols.
#[derive(Default)]
pub struct Hooks(Vec<Box<dyn Hook>>);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooks").field(&self.0.len()).finish()
    }
}

impl Hooks {
    /// Registers the protocols' hooks, in the order in which they are called.
    #[must_use]
    pub fn new(hooks: Vec<Box<dyn Hook>>) -> Self {
        Self(hooks)
    }

    /// Calls [`Hook::access_narrowed`].
    ///
    /// # Errors
    /// A hook fails.
    pub async fn access_narrowed(&self, change: &mut IntentChange<'_>) -> Outcome<()> {
        for hook in &self.0 {
            hook.access_narrowed(change).await?;
        }
        Ok(())
    }

    /// Calls [`Hook::intent_closed`].
    ///
    /// # Errors
    /// A hook fails.
    pub async fn intent_closed(
        &self,
        change: &mut IntentChange<'_>,
        status: IntentStatus,
        after: &mut AfterCommit,
    ) -> Outcome<()> {
        for hook in &self.0 {
            hook.intent_closed(change, status, after).await?;
        }
        Ok(())
    }

    /// Calls [`Hook::suspension_ended`].
    ///
    /// # Errors
    /// A hook fails.
    pub async fn suspension_ended(
        &self,
        change: &mut IntentChange<'_>,
        moment: MomentId,
        after: &mut AfterCommit,
    ) -> Outcome<()> {
        for hook in &self.0 {
            hook.suspension_ended(change, moment, after).await?;
        }
        Ok(())
    }

    /// Calls [`Hook::moment_ended`].
    ///
    /// # Errors
    /// A hook fails.
    pub async fn moment_ended(
        &self,
        change: &mut IntentChange<'_>,
        moment: &Moment,
        given: Option<&Given>,
    ) -> Outcome<()> {
        for hook in &self.0 {
            hook.moment_ended(change, moment, given).await?;
        }
        Ok(())
    }

    /// Calls [`Hook::mailbox_subscribed`].
    ///
    /// # Errors
    /// A hook fails.
    pub async fn mailbox_subscribed(
        &self,
        conn: &mut PgConnection,
        entity: &str,
        by: &str,
        now: Timestamp,
    ) -> Outcome<()> {
        for hook in &self.0 {
            hook.mailbox_subscribed(conn, entity, by, now).await?;
        }
        Ok(())
    }

    /// Calls [`Hook::waiting`] and returns the waiting items of all protocols.
    ///
    /// # Errors
    /// A hook fails.
    pub async fn waiting(
        &self,
        ctx: &Ctx,
        person: &str,
        topic: Topic,
        subjects: &[String],
    ) -> Outcome<Vec<(String, WaitingItem)>> {
        let mut found = Vec::new();
        for hook in &self.0 {
            found.extend(hook.waiting(ctx, person, topic, subjects).await?);
        }
        Ok(found)
    }

    /// Calls [`Hook::versions`] and returns the versions of all protocols.
    ///
    /// # Errors
    /// A hook fails.
    pub async fn versions(&self, ctx: &Ctx, keys: &[WakeKey]) -> Outcome<Vec<(WakeKey, i64)>> {
        let mut found = Vec::new();
        for hook in &self.0 {
            found.extend(hook.versions(ctx, keys).await?);
        }
        Ok(found)
    }
}
