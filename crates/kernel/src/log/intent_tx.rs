//! The transaction of an operation on one intent, or on the system log: it holds the intent's lock and log, and ends
//! in one place that writes the log, stores the response, commits and notifies the feed.
//!
//! It begins in two round trips (the locks with `BEGIN`, and the facts under them) and ends in two (the log with the
//! response, and `COMMIT`).

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::IntentId;
use entente_domain::log::events::Draft;
use entente_domain::openintent::governance::GovernancePolicy;
use entente_runtime::fences;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;

use crate::charges::Charge;
use crate::facts::{self, Facts, Membership, Question};
use crate::idempotency::StoredResponse;
use crate::log::deferred::{Deferred, DeferredRows};
use crate::log::guarded_write;
use crate::log::writer::IntentLog;
use crate::{AppError, Caller, Ctx, Outcome, Tx, charges, not_found};

/// A transaction that holds the lock of one intent and its open log.
///
/// Dropping it rolls everything back. [`Self::finish`] and [`Self::commit`] are the only ways to keep the writes, so
/// no operation can forget to advance the log or to notify the feed. An operation of a batch
/// ([`crate::operations`]) has one as well; the batch ends it.
pub struct IntentTx<'a> {
    ctx: &'a Ctx,
    hold: Hold<'a>,
    log: IntentLog,
    caller: Option<&'a Caller>,
    /// The caller's idempotency key.
    once: Option<&'a Idempotency>,
    facts: Facts,
    /// Costs for the budgets that pay them.
    charges: Vec<Charge>,
    /// Rows to write at the end.
    deferred: DeferredRows,
    /// Whether the operation may have written rows.
    has_written: bool,
    /// Whether the operation returns the response of an earlier request.
    has_repeated: bool,
}

/// The transaction itself.
enum Hold<'a> {
    /// Of this operation alone.
    Own(Tx),
    /// Of a batch.
    Shared(&'a mut PgConnection),
}

/// The state that an operation of a batch leaves behind.
pub(crate) struct Left {
    /// The intent's log with the events that the operation recorded.
    pub log: IntentLog,
    /// Costs for the budgets that pay them.
    pub charges: Vec<Charge>,
    /// Rows to write at the end.
    pub deferred: DeferredRows,
    /// Whether it may have written rows.
    pub has_written: bool,
    /// Whether its response is that of an earlier request.
    pub has_repeated: bool,
}

impl<'a> IntentTx<'a> {
    /// Begins a caller's operation, and takes the lock of its idempotency key, if any.
    ///
    /// # Errors
    /// The database cannot be reached, or a lock is not free in time; the write has to name an epoch, and does not.
    pub async fn begin(
        ctx: &'a Ctx,
        caller: &'a Caller,
        intent_id: IntentId,
        once: Option<&'a Idempotency>,
    ) -> Outcome<Self> {
        let tx = ctx.begin_once(&[intent_id], caller, once).await?;
        let work = Self::open(ctx, tx, intent_id, Some(caller), once).await?;
        work.require_fenced()?;
        Ok(work)
    }

    /// Begins the server's own operation, such as a sweep.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn unattended(ctx: &'a Ctx, intent_id: IntentId) -> Outcome<Self> {
        let tx = ctx.begin(&[intent_id]).await?;
        Self::open(ctx, tx, intent_id, None, None).await
    }

    /// Reads the facts under the locks.
    async fn open(
        ctx: &'a Ctx,
        mut tx: Tx,
        intent_id: IntentId,
        caller: Option<&'a Caller>,
        once: Option<&'a Idempotency>,
    ) -> Outcome<Self> {
        let now = ctx.now();
        let question = Question {
            intent_id,
            agent: caller.map_or("", |caller| &caller.agent),
            once: caller.zip(once).map(|(caller, once)| (caller.principal(), once)),
            lacks_epoch: caller.is_some_and(|caller| fences::lack_epoch(&caller.agent)),
        };
        let facts = facts::load(&mut tx, &[question], now).await?.pop().unwrap_or_default();
        let log = IntentLog::of(intent_id, facts.tail.as_ref(), caller.and_then(|caller| caller.trace), now)?;
        let (has_written, has_repeated) = (false, false);
        let (hold, charges, deferred) = (Hold::Own(tx), Vec::new(), DeferredRows::default());
        Ok(Self { ctx, hold, log, caller, once, facts, charges, deferred, has_written, has_repeated })
    }

    /// Opens an operation of a batch, in the batch's transaction, which holds its locks.
    pub(crate) fn shared(
        ctx: &'a Ctx,
        conn: &'a mut PgConnection,
        mut log: IntentLog,
        caller: &'a Caller,
        once: Option<&'a Idempotency>,
        facts: Facts,
    ) -> Self {
        log.trace = caller.trace;
        let (has_written, has_repeated) = (false, false);
        let (caller, hold) = (Some(caller), Hold::Shared(conn));
        let (charges, deferred) = (Vec::new(), DeferredRows::default());
        Self { ctx, hold, log, caller, once, facts, charges, deferred, has_written, has_repeated }
    }

    /// Ends an operation of a batch.
    pub(crate) fn leave(self) -> Left {
        Left {
            log: self.log,
            charges: self.charges,
            deferred: self.deferred,
            has_written: self.has_written,
            has_repeated: self.has_repeated,
        }
    }

    /// The intent.
    #[must_use]
    pub fn intent_id(&self) -> IntentId {
        self.log.intent_id
    }

    /// The context of the operation.
    #[must_use]
    pub fn ctx(&self) -> &'a Ctx {
        self.ctx
    }

    /// Time of everything recorded now; it never goes back along the log.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.log.now()
    }

    /// The connection, for reads and writes under the lock.
    pub fn conn(&mut self) -> &mut PgConnection {
        self.has_written = true;
        self.hold.conn()
    }

    /// The connection, for reads alone: if the operation is refused after nothing else, the batch that it is part of
    /// goes on without it.
    pub fn reading(&mut self) -> &mut PgConnection {
        self.hold.conn()
    }

    /// The intent's log.
    pub fn log(&mut self) -> &mut IntentLog {
        &mut self.log
    }

    /// The connection and the log together, for functions that write rows and record events.
    pub fn parts(&mut self) -> (&mut PgConnection, &mut IntentLog) {
        self.has_written = true;
        (self.hold.conn(), &mut self.log)
    }

    /// As [`Self::parts`], for a function that writes nothing if it refuses.
    pub fn undecided_parts(&mut self) -> (&mut PgConnection, &mut IntentLog) {
        (self.hold.conn(), &mut self.log)
    }

    /// Requires that the caller's agent has a level of access to the intent.
    ///
    /// # Errors
    /// `NotFound`, `AccessClosed` or `Forbidden`.
    pub fn require(&self, need: Level) -> Outcome<Membership> {
        let membership = self.facts.membership.as_ref().ok_or_else(|| not_found("intent"))?;
        membership.access.require(need)?;
        Ok(membership.clone())
    }

    /// Returns the caller's membership, if it may read the intent; otherwise the `noun` on it is not found.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn visit(&self, noun: &str) -> Outcome<Membership> {
        let membership = self.facts.membership.as_ref();
        let membership = membership.filter(|membership| membership.access.reaches(Level::Read));
        membership.cloned().ok_or_else(|| not_found(noun))
    }

    /// Requires that the write names an epoch, where it has to.
    pub(crate) fn require_fenced(&self) -> Outcome<()> {
        Ok(self.facts.membership.as_ref().map_or(Ok(()), Membership::require_fenced)?)
    }

    /// Requires that the intent's policy lets the caller's agent work on it (RFC-0013). The caller of the operation
    /// records the violation.
    ///
    /// # Errors
    /// [`GovernanceViolation`](entente_domain::refusal::Code::GovernanceViolation).
    pub fn admit(&self) -> Outcome<()> {
        let Some((policy, caller)) = self.facts.policy.as_ref().zip(self.caller) else { return Ok(()) };
        let assigned = self.facts.membership.as_ref().is_some_and(|membership| membership.assigned);
        Ok(policy.judge_write(&caller.agent, assigned)?)
    }

    /// Returns the intent's policy, as it was when the transaction began.
    #[must_use]
    pub fn policy(&self) -> Option<&GovernancePolicy> {
        self.facts.policy.as_ref()
    }

    /// Returns the stored response of the same earlier request, if any.
    ///
    /// # Errors
    /// The key was used for a different request.
    pub fn repeated<T: DeserializeOwned>(&mut self) -> Outcome<Option<T>> {
        let Some((earlier, once)) = self.facts.earlier.as_ref().zip(self.once) else { return Ok(None) };
        if earlier.fingerprint != once.fingerprint {
            return Err(Idempotency::mismatch().into());
        }
        self.has_repeated = true;
        Ok(Some(serde_json::from_str(&earlier.outcome)?))
    }

    /// Charges a cost to the budgets that pay it, at the end of the transaction: it locks rows that many share.
    pub fn charge(&mut self, charge: Charge) {
        self.charges.push(charge);
    }

    /// Writes a row at the end of the transaction, with those of the other operations of the batch. Nothing that the
    /// operation still reads contains it.
    pub fn defer(&mut self, row: impl Deferred) {
        self.deferred.push(row);
    }

    /// Seals an event and appends it to the log.
    pub fn record(&mut self, draft: Draft) {
        self.log.record(self.ctx, draft);
    }

    /// Ends the operation: stores the response under the idempotency key, and [commits](Self::commit). Returns the
    /// response.
    ///
    /// # Errors
    /// A database error; nothing was written, unless it is [`AppError::Unavailable`],
    /// whose outcome is unknown.
    pub async fn finish<T: Serialize>(self, response: T) -> Outcome<T> {
        let kept = match self.caller.zip(self.once) {
            Some((caller, once)) => Some(StoredResponse::new(caller, once, &response)?),
            None => None,
        };
        self.end(kept).await?;
        Ok(response)
    }

    /// Ends an operation without a response to store: writes the log if it has advanced, commits, and notifies the
    /// feed.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub async fn commit(self) -> Outcome<()> {
        self.end(None).await
    }

    async fn end(self, kept: Option<StoredResponse>) -> Outcome<()> {
        let Self { ctx, hold, log, charges, mut deferred, .. } = self;
        let Hold::Own(mut tx) = hold else {
            return Err(AppError::Inconsistent("an operation of a batch has ended itself".to_owned()));
        };
        deferred.write(&mut tx).await?;
        if log.has_advanced() || kept.is_some() {
            guarded_write::save(&mut tx, &[&log], kept.as_slice(), log.now()).await?;
        }
        charges::apply(ctx, &mut tx, &charges, &[], log.now()).await?;
        tx.commit().await?;
        if log.has_advanced() {
            ctx.feed.publish_log(&log);
        }
        Ok(())
    }

    /// Rolls back, and begins anew without an idempotency key: to record why the operation was refused.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn restart(self, caller: &'a Caller) -> Outcome<Self> {
        let Self { ctx, hold, log, .. } = self;
        if let Hold::Own(tx) = hold {
            tx.rollback().await?;
        }
        Self::begin(ctx, caller, log.intent_id, None).await
    }
}

impl Hold<'_> {
    fn conn(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(tx) => tx,
            Self::Shared(conn) => conn,
        }
    }
}
