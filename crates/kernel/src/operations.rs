//! Operations on intents in batches: many in one transaction, with one query for all their facts, one statement for
//! all their logs and responses, and one commit (`store/src/commit.rs`).
//!
//! An [`Operation`] decides and writes by an [`IntentTx`], as it would alone, and neither begins nor commits. It runs in
//! the order of arrival with the others of its intent. One that is refused before it wrote anything leaves the batch as
//! it was; if one fails later, nothing of the batch is done, and each is done alone. So an operation may run more than
//! once before it is answered. It changes no access, membership or policy, because those of a batch are read at its
//! beginning.
//!
//! The rows that an operation reads beside these facts are read for all operations of its kind at once
//! ([`Operation::read`]), and the rows that it writes may wait for the end ([`IntentTx::defer`]). If an earlier
//! operation of the batch has changed the intent, the waiting rows are written and the rows read anew before the next
//! one (`operations/run.rs`).

mod run;

use std::any::Any;
use std::collections::HashSet;
use std::sync::OnceLock;

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::fences::Fence;
use entente_domain::ids::{IntentId, NodeId};
use entente_runtime::fences;
use entente_runtime::tasks::Tasks;
use entente_store::commit::{BatchHandler, GroupCommit};
use entente_store::limits;
use futures_util::future::BoxFuture;
use serde::Serialize;
use sqlx::PgConnection;

use crate::access::governance;
use crate::facts::{self, Question};
use crate::idempotency::{self, StoredResponse};
use crate::log::guarded_write;
use crate::log::writer::IntentLog;
use crate::many::{self, Many, Together};
use crate::{AppError, Caller, Ctx, IntentTx, Outcome, charges as shared, lock_key, nodes, try_locks};

/// Maximum number of operations in one transaction: it holds the locks of all their intents, for which messages wait.
const TOGETHER: usize = 32;

/// An operation on one intent.
pub trait Operation: Send + Sync + Sized + 'static {
    /// The response, which is stored under the request's idempotency key.
    type Answer: Serialize + Send + 'static;

    /// Rows that the operation decides by, beside the facts of its intent.
    type Rows: Default + Send + 'static;

    /// Name in the log, if the intent's policy refuses it.
    const NAME: &'static str;

    /// Whether the operation decides by rows of its intent. One that does not need not wait until the rows of an earlier
    /// one are written.
    fn reads(&self) -> bool {
        true
    }

    /// Reads the rows of several operations at once, in their order. The locks of their intents are held; nothing is
    /// judged yet, so it refuses nothing.
    fn read(
        conn: &mut PgConnection,
        asked: &[Asked<'_, Self>],
        now: Timestamp,
    ) -> impl Future<Output = Outcome<Vec<Self::Rows>>> + Send {
        let (_, _) = (conn, now);
        let none = asked.iter().map(|_| Self::Rows::default()).collect();
        async { Ok(none) }
    }

    /// Decides, and writes; without committing.
    fn apply(
        &self,
        caller: &Caller,
        work: &mut IntentTx<'_>,
        rows: Self::Rows,
    ) -> impl Future<Output = Outcome<Self::Answer>> + Send;
}

/// An operation whose rows are read.
pub struct Asked<'a, O> {
    /// The intent.
    pub intent_id: IntentId,
    /// Who asks.
    pub caller: &'a Caller,
    /// The operation.
    pub operation: &'a O,
}

/// An answer, with the response to store.
struct Done {
    answer: Box<dyn Any + Send>,
    kept: Option<StoredResponse>,
}

type Answer = Outcome<Box<dyn Any + Send>>;

/// Rows of an operation of any type.
type AnyRows = Box<dyn Any + Send>;

/// An operation whose response and rows have any type.
trait AnyOperation: Send + Sync {
    fn as_any(&self) -> &dyn Any;

    fn reads(&self) -> bool;

    /// Reads the rows of these commands, whose operations are all of this one's type.
    fn read<'a>(
        &'a self,
        conn: &'a mut PgConnection,
        commands: &'a [&'a Command],
        now: Timestamp,
    ) -> BoxFuture<'a, Outcome<Vec<AnyRows>>>;

    fn apply<'a>(
        &'a self,
        caller: &'a Caller,
        once: Option<&'a Idempotency>,
        work: &'a mut IntentTx<'_>,
        rows: AnyRows,
    ) -> BoxFuture<'a, Outcome<Done>>;
}

impl<O: Operation> AnyOperation for O {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn reads(&self) -> bool {
        Operation::reads(self)
    }

    fn read<'a>(
        &'a self,
        conn: &'a mut PgConnection,
        commands: &'a [&'a Command],
        now: Timestamp,
    ) -> BoxFuture<'a, Outcome<Vec<AnyRows>>> {
        Box::pin(async move {
            let asked: Vec<Asked<'_, O>> = commands.iter().filter_map(|command| command.asked()).collect();
            let rows = O::read(conn, &asked, now).await?;
            Ok(rows.into_iter().map(|rows| Box::new(rows) as AnyRows).collect())
        })
    }

    fn apply<'a>(
        &'a self,
        caller: &'a Caller,
        once: Option<&'a Idempotency>,
        work: &'a mut IntentTx<'_>,
        rows: AnyRows,
    ) -> BoxFuture<'a, Outcome<Done>> {
        Box::pin(async move {
            let rows = rows.downcast::<O::Rows>().map_err(|_other| lost())?;
            let answer = Operation::apply(self, caller, work, *rows).await?;
            let kept = once.map(|once| StoredResponse::new(caller, once, &answer)).transpose()?;
            Ok(Done { answer: Box::new(answer), kept })
        })
    }
}

/// A queued operation.
struct Command {
    caller: Caller,
    intent_id: IntentId,
    once: Option<Idempotency>,
    operation: Box<dyn AnyOperation>,
    fences: Vec<Fence>,
}

impl Command {
    /// Returns the principal and the idempotency key.
    fn once(&self) -> Option<(&str, &Idempotency)> {
        Some((self.caller.principal(), self.once.as_ref()?))
    }

    /// Returns the operation with its intent and its caller, if it is of this type.
    fn asked<O: Operation>(&self) -> Option<Asked<'_, O>> {
        let operation = self.operation.as_any().downcast_ref::<O>()?;
        Some(Asked { intent_id: self.intent_id, caller: &self.caller, operation })
    }

    /// Applies the operation under its own fences, not under those of the batch.
    async fn apply(&self, work: &mut IntentTx<'_>, rows: AnyRows) -> Outcome<Done> {
        work.require_fenced()?;
        let applied = self.operation.apply(&self.caller, self.once.as_ref(), work, rows);
        fences::within(self.fences.clone(), applied).await
    }

    fn locks(&self) -> impl Iterator<Item = i64> {
        let once = self.once().map(|(principal, once)| idempotency::lock_key(principal, &once.key));
        std::iter::once(lock_key(self.intent_id)).chain(once)
    }
}

/// The group commit of operations.
#[derive(Default)]
pub struct Operations(OnceLock<GroupCommit<Handler>>);

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Operations").field(&self.0.get().is_some()).finish()
    }
}

impl Operations {
    /// Starts the writers with this context. Before, each operation has a transaction of its own.
    pub fn start(&self, ctx: &Ctx, node: NodeId, writers: usize, tasks: &Tasks) {
        self.0.get_or_init(|| {
            let handler = Handler { ctx: ctx.clone(), node };
            GroupCommit::start(handler, writers, tasks, &ctx.metrics)
        });
    }
}

impl Ctx {
    /// Runs an operation on an intent; resolves after it is committed.
    ///
    /// # Errors
    /// The operation refuses; a violation of the intent's policy (RFC-0013) is recorded. Otherwise a database error.
    pub async fn operate<O: Operation>(
        &self,
        caller: &Caller,
        intent_id: IntentId,
        operation: O,
        once: Option<&Idempotency>,
    ) -> Outcome<O::Answer> {
        let (caller_of, once) = (caller.clone(), once.cloned());
        let (operation, fences) = (Box::new(operation), fences::current());
        let command = Command { caller: caller_of, intent_id, once, operation, fences };
        let answers: Vec<Answer> = match self.operations.0.get() {
            Some(writers) => {
                let answers = writers.submit(lock_key(intent_id).unsigned_abs(), vec![command]).await;
                answers.into_iter().map(|answer| answer?).collect()
            }
            None => many::waiting(&mut Batch { ctx: self, waits: true }, &[command]).await,
        };
        match answers.into_iter().next() {
            Some(Ok(answer)) => answer.downcast::<O::Answer>().map(|answer| *answer).map_err(|_other| lost()),
            Some(Err(AppError::Refused(refusal))) if refusal.violation.is_some() => {
                governance::record_violation(self, caller, intent_id, &caller.agent, O::NAME, refusal).await
            }
            Some(Err(failure)) => Err(failure),
            None => Err(lost()),
        }
    }
}

/// Applies an operation in a transaction that holds the lock of its intent; the caller commits it, and then publishes the
/// returned log.
///
/// # Errors
/// The operation refuses; a database error.
pub async fn apply_within<O: Operation>(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    intent_id: IntentId,
    operation: &O,
) -> Outcome<(O::Answer, IntentLog)> {
    let now = ctx.now();
    let lacks_epoch = fences::lack_epoch(&caller.agent);
    let question = Question { intent_id, agent: &caller.agent, once: None, lacks_epoch };
    let facts = facts::load(conn, &[question], now).await?.pop().unwrap_or_default();
    let log = IntentLog::of(intent_id, facts.tail.as_ref(), None, now)?;
    let asked = [Asked { intent_id, caller, operation }];
    let rows = Box::pin(O::read(conn, &asked, now)).await?.pop().unwrap_or_default();
    let mut work = IntentTx::shared(ctx, conn, log, caller, None, facts);
    work.require_fenced()?;
    // Boxed, so that it does not enlarge the future of a larger transaction.
    let answer = Box::pin(Operation::apply(operation, caller, &mut work, rows)).await?;
    let mut left = work.leave();
    left.deferred.write(conn).await?;
    if left.log.has_advanced() {
        guarded_write::save(conn, &[&left.log], &[], now).await?;
    }
    shared::apply(ctx, conn, &left.charges, &[], now).await?;
    Ok((answer, left.log))
}

fn lost() -> AppError {
    AppError::Inconsistent("an operation got no answer".to_owned())
}

/// Batch handler of the group commit.
struct Handler {
    ctx: Ctx,
    node: NodeId,
}

impl BatchHandler for Handler {
    type Command = Command;
    type Answer = Answer;
    type Memory = ();

    fn memory(&self) {}

    fn lane(command: &Command) -> u64 {
        Batch::lane(command)
    }

    #[expect(clippy::result_large_err, reason = "a command that waits is handed back whole")]
    async fn apply(&self, _memory: &mut (), commands: Vec<Command>) -> Vec<Result<Answer, Command>> {
        let mut batch = Batch { ctx: &self.ctx, waits: false };
        let (mut answers, mut waits) = (Vec::with_capacity(commands.len()), HashSet::new());
        for some in commands.chunks(TOGETHER) {
            answers.extend(many::all(&mut batch, some, &mut waits).await);
        }
        commands.into_iter().zip(answers).map(|(command, answer)| answer.ok_or(command)).collect()
    }

    async fn wait(&self, commands: Vec<Command>) -> Vec<Answer> {
        many::waiting(&mut Batch { ctx: &self.ctx, waits: true }, &commands).await
    }

    async fn probe(&self) -> Result<(), String> {
        nodes::probe(&self.ctx, self.node).await.map_err(|failure| failure.to_string())
    }
}

/// Operations of one transaction; `waits` says whether it waits for locks.
struct Batch<'a> {
    ctx: &'a Ctx,
    waits: bool,
}

impl Many for Batch<'_> {
    type Command = Command;
    type Answer = Box<dyn Any + Send>;

    fn lane(command: &Command) -> u64 {
        lock_key(command.intent_id).cast_unsigned()
    }

    fn fences(command: &Command) -> impl Iterator<Item = &Fence> {
        command.fences.iter()
    }

    async fn together(&mut self, commands: &[&Command]) -> Outcome<Together<Answer>> {
        let locks: Vec<i64> = commands.iter().flat_map(|command| command.locks()).collect();
        let tx = if self.waits {
            self.ctx.begin_waiting(locks, Some(limits::LOCK)).await?
        } else {
            let mut tx = self.ctx.begin_at_once().await?;
            let held = try_locks(&mut tx, &locks).await?;
            let waits = |index: &usize| !commands[*index].locks().all(|lock| held.contains(&lock));
            let locked: Vec<usize> = (0..commands.len()).filter(waits).collect();
            if !locked.is_empty() {
                tx.rollback().await?;
                return Ok(Together::Locked(locked));
            }
            tx
        };
        run::run(self.ctx, tx, commands).await.map(Together::Done)
    }

    /// Nobody can tell whose row lock it was: each is tried alone.
    async fn locked(&mut self, _commands: &[&Command]) -> Outcome<Vec<usize>> {
        Ok(Vec::new())
    }
}
