//! Operations on intents in batches: many in one transaction, with one query for all their facts, one statement for
//! all their logs and responses, and one commit (`store/src/commit.rs`).
//!
//! An [`Operation`] decides and writes by an [`IntentTx`], as it would alone, and neither begins nor commits. It runs in
//! the order of arrival with the others of its intent. One that is refused before it wrote anything leaves the batch as
//! it was; if one fails later, nothing of the batch is done, and each is done alone. So an operation may run more than
//! once before it is answered. It changes no access, membership or policy, because those of a batch are read at its
//! beginning.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

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
use crate::facts::{self, Earlier, Question};
use crate::idempotency::{self, StoredResponse};
use crate::log::guarded_write;
use crate::log::writer::IntentLog;
use crate::many::{self, Many, Together};
use crate::{AppError, Caller, Ctx, IntentTx, Outcome, Tx, charges as shared, lock_key, nodes, try_locks};

/// Writers per writer of messages: an operation waits for the database several times, and meanwhile others go on.
const WRITERS: usize = 4;

/// Maximum number of operations in one transaction: it holds the locks of all their intents, for which messages wait.
const TOGETHER: usize = 32;

/// An operation on one intent.
pub trait Operation: Send + Sync + 'static {
    /// The response, which is stored under the request's idempotency key.
    type Answer: Serialize + Send + 'static;

    /// Name in the log, if the intent's policy refuses it.
    const NAME: &'static str;

    /// Decides, and writes; without committing.
    fn apply(
        &self,
        caller: &Caller,
        work: &mut IntentTx<'_>,
    ) -> impl Future<Output = Outcome<Self::Answer>> + Send;
}

/// An answer, and what is to be stored of it.
struct Done {
    answer: Box<dyn Any + Send>,
    kept: Option<StoredResponse>,
}

type Answer = Outcome<Box<dyn Any + Send>>;

/// An operation whose response has any type.
trait AnyOperation: Send + Sync {
    fn apply<'a>(
        &'a self,
        caller: &'a Caller,
        once: Option<&'a Idempotency>,
        work: &'a mut IntentTx<'_>,
    ) -> BoxFuture<'a, Outcome<Done>>;
}

impl<O: Operation> AnyOperation for O {
    fn apply<'a>(
        &'a self,
        caller: &'a Caller,
        once: Option<&'a Idempotency>,
        work: &'a mut IntentTx<'_>,
    ) -> BoxFuture<'a, Outcome<Done>> {
        Box::pin(async move {
            let answer = Operation::apply(self, caller, work).await?;
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

    /// Applies the operation: what it asks is judged by its own fences, not by those of the batch.
    async fn apply(&self, work: &mut IntentTx<'_>) -> Outcome<Done> {
        work.require_fenced()?;
        let applied = self.operation.apply(&self.caller, self.once.as_ref(), work);
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
            GroupCommit::start(handler, writers * WRITERS, tasks, &ctx.metrics)
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
    let mut work = IntentTx::shared(ctx, conn, log, caller, None, facts);
    work.require_fenced()?;
    let answer = operation.apply(caller, &mut work).await?;
    let left = work.leave();
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
        run(self.ctx, tx, commands).await.map(Together::Done)
    }

    /// Nobody can tell whose row lock it was: each is tried alone.
    async fn locked(&mut self, _commands: &[&Command]) -> Outcome<Vec<usize>> {
        Ok(Vec::new())
    }
}

/// Runs the operations in a transaction that holds their locks, and commits.
async fn run(ctx: &Ctx, mut tx: Tx, commands: &[&Command]) -> Outcome<Vec<Answer>> {
    let now = ctx.now();
    let questions: Vec<Question<'_>> = commands
        .iter()
        .map(|command| Question {
            intent_id: command.intent_id,
            agent: &command.caller.agent,
            once: command.once(),
            lacks_epoch: fences::lack_epoch_of(&command.fences, &command.caller.agent),
        })
        .collect();
    let facts = facts::load(&mut tx, &questions, now).await?;
    let mut logs: HashMap<IntentId, IntentLog> = HashMap::new();
    let mut kept: Vec<StoredResponse> = Vec::new();
    let mut charges = Vec::new();
    let mut answers = Vec::with_capacity(commands.len());
    for (command, mut facts) in commands.iter().zip(facts) {
        // The batch may contain the same request twice.
        let twin = |kept: &&StoredResponse| {
            command.once().is_some_and(|(by, once)| kept.principal_id == by && kept.key == once.key)
        };
        if let Some(twin) = kept.iter().find(twin) {
            let (fingerprint, outcome) = (twin.fingerprint.clone(), twin.outcome.clone());
            facts.earlier = Some(Earlier { fingerprint, outcome });
        }
        let log = match logs.remove(&command.intent_id) {
            Some(log) => log,
            None => IntentLog::of(command.intent_id, facts.tail.as_ref(), None, now)?,
        };
        let mark = log.mark();
        let mut work = IntentTx::shared(ctx, &mut tx, log, &command.caller, command.once.as_ref(), facts);
        let done = command.apply(&mut work).await;
        let mut left = work.leave();
        match done {
            Ok(done) => {
                kept.extend(done.kept.filter(|_| !left.has_repeated));
                charges.append(&mut left.charges);
                answers.push(Ok(done.answer));
            }
            Err(failure @ AppError::Refused(_)) if !left.has_written => {
                left.log.reset(mark);
                answers.push(Err(failure));
            }
            Err(failure) if commands.len() == 1 => {
                tx.rollback().await?;
                return if failure.is_passing() { Err(failure) } else { Ok(vec![Err(failure)]) };
            }
            Err(failure) => return Err(failure),
        }
        logs.insert(command.intent_id, left.log);
    }
    let logs: Vec<IntentLog> = logs.into_values().filter(IntentLog::has_advanced).collect();
    if !logs.is_empty() || !kept.is_empty() {
        guarded_write::save(&mut tx, &logs.iter().collect::<Vec<_>>(), &kept, now).await?;
    }
    shared::apply(ctx, &mut tx, &charges, &[], now).await?;
    tx.commit().await?;
    logs.iter().for_each(|log| ctx.feed.publish_log(log));
    Ok(answers)
}
