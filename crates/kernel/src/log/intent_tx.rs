//! The transaction of an operation on one intent, or on the system log: it holds the intent's lock and log, and ends
//! in one place that writes the log, stores the response, commits and notifies the feed.

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::IntentId;
use entente_domain::log::events::Draft;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;

use crate::log::writer::IntentLog;
use crate::{Caller, Ctx, Outcome, Tx, idempotency};

/// A transaction that holds the lock of one intent and its open log.
///
/// Dropping it rolls everything back. [`Self::finish`] and [`Self::commit`] are the only ways to keep the writes, so
/// no operation can forget to advance the log or to notify the feed.
pub struct IntentTx<'a> {
    ctx: &'a Ctx,
    tx: Tx,
    log: IntentLog,
    /// The caller's idempotency key.
    once: Option<(&'a Caller, &'a Idempotency)>,
}

impl<'a> IntentTx<'a> {
    /// Begins a caller's operation, and takes the lock of its idempotency key, if any.
    ///
    /// # Errors
    /// The database cannot be reached, or a lock is not free in time.
    pub async fn begin(
        ctx: &'a Ctx,
        caller: &'a Caller,
        intent_id: IntentId,
        once: Option<&'a Idempotency>,
    ) -> Outcome<Self> {
        let mut tx = ctx.begin_once(&[intent_id], caller, once).await?;
        let log = IntentLog::open(&mut tx, intent_id, caller.trace, ctx.now()).await?;
        Ok(Self { ctx, tx, log, once: once.map(|once| (caller, once)) })
    }

    /// Begins the server's own operation, such as a sweep.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn unattended(ctx: &'a Ctx, intent_id: IntentId) -> Outcome<Self> {
        let mut tx = ctx.begin(&[intent_id]).await?;
        let log = IntentLog::open(&mut tx, intent_id, None, ctx.now()).await?;
        Ok(Self { ctx, tx, log, once: None })
    }

    /// Time of everything recorded now; it never goes back along the log.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.log.now()
    }

    /// The connection, for reads and writes under the lock.
    pub fn conn(&mut self) -> &mut PgConnection {
        &mut self.tx
    }

    /// The intent's log.
    pub fn log(&mut self) -> &mut IntentLog {
        &mut self.log
    }

    /// The connection and the log together, for functions that write rows and record events.
    pub fn parts(&mut self) -> (&mut PgConnection, &mut IntentLog) {
        (&mut self.tx, &mut self.log)
    }

    /// Returns the stored response of the same earlier request, if any.
    ///
    /// # Errors
    /// The key was used for a different request.
    pub async fn repeated<T: DeserializeOwned>(&mut self) -> Outcome<Option<T>> {
        match self.once {
            Some((caller, once)) => idempotency::find(&mut self.tx, caller, Some(once)).await,
            None => Ok(None),
        }
    }

    /// Seals an event and appends it to the log.
    pub fn record(&mut self, draft: Draft) {
        self.log.record(self.ctx, draft);
    }

    /// Ends the operation: stores the response under the idempotency key, and [commits](Self::commit). Returns the
    /// response.
    ///
    /// # Errors
    /// A database error; nothing was written, unless it is [`AppError::Unavailable`](crate::AppError::Unavailable),
    /// whose outcome is unknown.
    pub async fn finish<T: Serialize>(mut self, response: T) -> Outcome<T> {
        if let Some((caller, once)) = self.once {
            let now = self.log.now();
            idempotency::keep(&mut self.tx, caller, Some(once), &response, now).await?;
        }
        self.commit().await?;
        Ok(response)
    }

    /// Ends an operation without a response to store: writes the log if it has advanced, commits, and notifies the
    /// feed.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub async fn commit(self) -> Outcome<()> {
        let Self { ctx, mut tx, log, .. } = self;
        if !log.has_advanced() {
            tx.commit().await?;
            return Ok(());
        }
        log.save(&mut tx).await?;
        tx.commit().await?;
        ctx.feed.publish_log(&log);
        Ok(())
    }

    /// Rolls back, and begins anew without an idempotency key: to record why the operation was refused.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn restart(self, caller: &'a Caller) -> Outcome<Self> {
        let Self { ctx, tx, log, .. } = self;
        tx.rollback().await?;
        Self::begin(ctx, caller, log.intent_id, None).await
    }
}
