//! The batch handler of the message writers: it tries the commands with cached facts, with fresh reads, and under the
//! locks of their intents, until each is answered or waits beside the batch for a lock held elsewhere.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, IntentId, MessageId, NodeId};
use entente_domain::log::events::Event;
use entente_domain::openintent::messages::Message;
use entente_kernel::feed::read_again;
use entente_kernel::idempotency::StoredResponse;
use entente_kernel::log::Record;
use entente_kernel::messages;
use entente_kernel::{AppError, Outcome, idempotency, lock_key, nodes, try_locks};
use entente_runtime::deadlines::{self, within};
use entente_runtime::fences;
use entente_store::commit::BatchHandler;
use entente_store::limits;
use sqlx::PgConnection;

use super::append::{Answer, Append};
use super::batch::{Batch, Judged};
use super::cache::IntentCache;
use super::forwarding::Contention;
use super::{Command, forwarding, lost};
use crate::Ctx;

/// Freshness of the facts that decide an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    /// Cached facts.
    Remembered,
    /// Facts that were just read.
    Reloaded,
    /// Facts read under the intents' locks, for intents whose locks are free: nothing can have changed.
    Locked,
    /// As `Locked`, after waiting for the locks, beside the batches of others.
    Waiting,
}

/// Batch handler of the group commit.
pub(super) struct MessageHandler {
    ctx: Ctx,
    contention: Arc<Contention>,
    node: NodeId,
}

/// Progress of a batch.
struct Progress<'a> {
    commands: &'a [Append],
    answers: Vec<Option<Answer>>,
    /// Intents with locks held elsewhere: this batch does nothing more for them.
    waits: HashSet<IntentId>,
}

impl<'a> Progress<'a> {
    fn new(commands: &'a [Append]) -> Self {
        Self { commands, answers: commands.iter().map(|_| None).collect(), waits: HashSet::new() }
    }

    /// Returns the commands that are neither answered nor waiting.
    fn left(&self) -> Vec<usize> {
        let open = |index: &usize| {
            self.answers[*index].is_none() && !self.waits.contains(&self.commands[*index].intent_id())
        };
        (0..self.commands.len()).filter(open).collect()
    }
}

impl BatchHandler for MessageHandler {
    type Command = Append;
    type Answer = Answer;
    type Memory = IntentCache;

    fn memory(&self) -> IntentCache {
        IntentCache::of_writer(&self.ctx.metrics)
    }

    fn lane(command: &Append) -> u64 {
        lock_key(command.intent_id()).cast_unsigned()
    }

    async fn apply(&self, cache: &mut IntentCache, commands: Vec<Append>) -> Vec<Result<Answer, Append>> {
        let mut progress = Progress::new(&commands);
        self.go(cache, &mut progress, Freshness::Remembered).await;
        let Progress { answers, waits, .. } = progress;
        let mut ends = Vec::with_capacity(commands.len());
        for (command, answer) in commands.into_iter().zip(answers) {
            ends.push(match answer {
                Some(answer) => Ok(answer),
                None if waits.contains(&command.intent_id()) => Err(command),
                None => Ok(Err(lost())),
            });
        }
        ends
    }

    async fn wait(&self, commands: Vec<Append>) -> Vec<Answer> {
        let mut progress = Progress::new(&commands);
        self.go(&mut IntentCache::default(), &mut progress, Freshness::Waiting).await;
        progress.answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(lost()))).collect()
    }

    async fn probe(&self) -> Result<(), String> {
        nodes::probe(&self.ctx, self.node).await.map_err(|failure| failure.to_string())
    }
}

impl MessageHandler {
    /// Creates the batch handler of this server's writers.
    pub fn new(ctx: &Ctx, node: NodeId, contention: Arc<Contention>) -> Self {
        Self { ctx: ctx.clone(), contention, node }
    }

    /// Tries the commands until each is answered or waits.
    async fn go(&self, cache: &mut IntentCache, progress: &mut Progress<'_>, mut freshness: Freshness) {
        loop {
            let left = progress.left();
            if left.is_empty() {
                return;
            }
            let tried = self.timely(cache, progress, &left, freshness).await;
            if tried.is_err() {
                left.iter().for_each(|index| cache.forget(progress.commands[*index].intent_id()));
            }
            freshness = match (tried, freshness) {
                (Ok(()), Freshness::Remembered) => Freshness::Reloaded,
                (Ok(()), Freshness::Locked | Freshness::Waiting) => return,
                // The outcome is unknown; or the locks are held for too long, or the database is too slow.
                (Err(failure @ AppError::Unavailable(_)), _)
                | (Err(failure @ AppError::RolledBack { .. }), Freshness::Waiting) => {
                    left.iter().for_each(|index| progress.answers[*index] = Some(Err(failure.repeated())));
                    return;
                }
                // Most likely a repeated idempotency key: under the locks it is looked up.
                (Ok(()), Freshness::Reloaded) | (Err(_), Freshness::Remembered | Freshness::Reloaded) => {
                    Freshness::Locked
                }
                (Err(failure), Freshness::Locked | Freshness::Waiting) => {
                    self.singly(cache, progress, &left, freshness, &failure).await;
                    return;
                }
            };
        }
    }

    /// Runs one attempt and gives up if the database does not answer in time.
    async fn timely(
        &self,
        cache: &mut IntentCache,
        progress: &mut Progress<'_>,
        left: &[usize],
        freshness: Freshness,
    ) -> Outcome<()> {
        let required = left.iter().flat_map(|index| &progress.commands[*index].fences).cloned().collect();
        let attempt = fences::within(required, self.attempt(cache, progress, left, freshness));
        within(deadlines::BATCH, Box::pin(attempt)).await?
    }

    /// Tries the remaining commands, and answers those with a certain result.
    async fn attempt(
        &self,
        cache: &mut IntentCache,
        progress: &mut Progress<'_>,
        left: &[usize],
        freshness: Freshness,
    ) -> Outcome<()> {
        let commands = progress.commands;
        if freshness != Freshness::Remembered {
            left.iter().for_each(|index| cache.forget(commands[*index].intent_id()));
        }
        let ctx = &self.ctx;
        let now = ctx.now();
        let tried: Vec<&Append> = left.iter().map(|index| &commands[*index]).collect();
        let unlocked = freshness == Freshness::Remembered || freshness == Freshness::Reloaded;
        if unlocked && fences::current().is_empty() {
            let mut conn = ctx.pool.acquire().await?;
            let settled = settle(ctx, &mut conn, cache, &tried, Vec::new(), now).await?;
            settled.missed().for_each(|intent| self.contention.met(intent));
            settled.conclude(ctx, cache, progress, left, freshness);
            return Ok(());
        }
        let (mut tx, ready) = if unlocked {
            // A transaction, because it has to check the fences of its commands.
            (ctx.pool.begin().await?, left.to_vec())
        } else if freshness == Freshness::Waiting {
            (ctx.begin_waiting(locks(&tried), Some(limits::LOCK)).await?, left.to_vec())
        } else {
            let mut tx = ctx.pool.begin().await?;
            let held = try_locks(&mut tx, &locks(&tried)).await?;
            (tx, free(progress, left, &held))
        };
        let tried: Vec<&Append> = ready.iter().map(|index| &commands[*index]).collect();
        if tried.is_empty() {
            return Ok(tx.rollback().await?);
        }
        let done = if unlocked { Vec::new() } else { done_before(&mut tx, &tried).await? };
        let settled = settle(ctx, &mut tx, cache, &tried, done, now).await?;
        tx.commit().await?;
        settled.missed().filter(|_| unlocked).for_each(|intent| self.contention.met(intent));
        settled.conclude(ctx, cache, progress, &ready, freshness);
        Ok(())
    }

    /// Tries each command alone after the batch failed unexpectedly or met a lock: only the faulty ones fail or wait.
    async fn singly(
        &self,
        cache: &mut IntentCache,
        progress: &mut Progress<'_>,
        left: &[usize],
        freshness: Freshness,
        failure: &AppError,
    ) {
        if !failure.is_passing() && !matches!(failure, AppError::Refused(_)) {
            tracing::error!(error = %failure, batch = left.len(), "a batch failed; its commands are tried one by one");
        }
        for index in left {
            let intent = progress.commands[*index].intent_id();
            if progress.waits.contains(&intent) {
                continue;
            }
            if let Err(alone) = self.timely(cache, progress, &[*index], freshness).await {
                cache.forget(intent);
                if alone.is_contended() && freshness == Freshness::Locked {
                    progress.waits.insert(intent);
                } else {
                    progress.answers[*index] = Some(Err(alone));
                }
            }
        }
    }
}

/// Returns the commands with all locks held; the others wait, with all commands of their intents, to keep the order.
fn free(progress: &mut Progress<'_>, left: &[usize], held: &HashSet<i64>) -> Vec<usize> {
    for index in left {
        let command = &progress.commands[*index];
        if !locks(&[command]).iter().all(|lock| held.contains(lock)) {
            progress.waits.insert(command.intent_id());
        }
    }
    left.iter()
        .copied()
        .filter(|index| !progress.waits.contains(&progress.commands[*index].intent_id()))
        .collect()
}

fn locks(commands: &[&Append]) -> Vec<i64> {
    let intents = commands.iter().map(|command| lock_key(command.intent_id()));
    let once = commands.iter().filter_map(|command| command.once());
    let keys = once.map(|(principal, once)| idempotency::lock_key(principal, &once.key));
    intents.chain(keys).collect()
}

async fn done_before(conn: &mut PgConnection, commands: &[&Append]) -> Outcome<Vec<StoredResponse>> {
    let once = commands.iter().filter_map(|command| command.once());
    let claims = once.map(|(principal, once)| (principal, once.key.as_str()));
    let (principals, keys): (Vec<&str>, Vec<&str>) = claims.unzip();
    if keys.is_empty() { Ok(Vec::new()) } else { idempotency::find_all(conn, &principals, &keys).await }
}

/// Result of one attempt.
pub(super) struct Settled {
    pub judged: Vec<(IntentId, Judged)>,
    /// The intents that were written to.
    pub passed: HashSet<IntentId>,
    /// The intents that this very attempt has read.
    fresh: HashSet<IntentId>,
    /// The intents that should have been written to.
    intents: Vec<IntentId>,
    messages: Vec<Arc<Message>>,
    events: Vec<Arc<Event>>,
}

pub(super) async fn settle(
    ctx: &Ctx,
    conn: &mut PgConnection,
    cache: &mut IntentCache,
    commands: &[&Append],
    done: Vec<StoredResponse>,
    now: Timestamp,
) -> Outcome<Settled> {
    let context = cache.prepare(conn, commands, now).await?;
    let sends: Vec<&Command> = commands.iter().filter_map(|command| command.message()).collect();
    let answered: Vec<(ChannelId, MessageId)> = sends
        .iter()
        .filter_map(|command| Some((command.channel_id, command.draft.correlation_id?)))
        .collect();
    let originals =
        if answered.is_empty() { Vec::new() } else { messages::load_all(conn, &answered, now).await? };
    // After the facts are known: a later write makes the guarded statement fail.
    let written = forwarding::written(conn, &sends, now).await?;
    let mut batch = Batch::new(ctx, cache, &context, originals, done).knowing(written);
    let judged = commands.iter().map(|command| (command.intent_id(), batch.take(command, now))).collect();
    let intents = batch.intents();
    let passed = if intents.is_empty() { HashSet::new() } else { batch.writing().write(conn, now).await? };
    let (messages, events) = batch.written();
    Ok(Settled { judged, passed, fresh: context.fresh, intents, messages, events })
}

impl Settled {
    /// Returns the intents whose logs another writer has advanced.
    fn missed(&self) -> impl Iterator<Item = IntentId> {
        self.intents.iter().copied().filter(|intent| !self.passed.contains(intent))
    }

    /// Publishes the committed records to the feed.
    pub fn publish(&self, ctx: &Ctx, cache: &IntentCache) {
        publish(ctx, cache, &self.passed, &self.messages, &self.events);
        let sent = self.messages.iter().filter(|message| self.passed.contains(&message.intent_id)).count();
        ctx.metrics.messages.inc_by(sent as u64);
    }

    /// Publishes the committed records to the feed, and answers the commands with a certain result.
    fn conclude(
        self,
        ctx: &Ctx,
        cache: &mut IntentCache,
        progress: &mut Progress<'_>,
        left: &[usize],
        freshness: Freshness,
    ) {
        let (commands, answers) = (progress.commands, &mut progress.answers);
        // Another writer has advanced these logs.
        self.missed().for_each(|intent| cache.forget(intent));
        self.publish(ctx, cache);
        let Self { judged, passed, fresh, .. } = self;
        for (index, (intent, judged)) in left.iter().zip(judged) {
            answers[*index] = match judged {
                Judged::Done(appended) => Some(Ok(appended)),
                Judged::Decided(appended) => passed.contains(&intent).then_some(Ok(appended)),
                // Cached facts may be out of date, fresh reads are not. A stored response to the same idempotency key
                // is only found under the locks.
                Judged::Refused(failure) => {
                    let sure = match freshness {
                        Freshness::Locked | Freshness::Waiting => true,
                        Freshness::Reloaded => commands[*index].once().is_none(),
                        Freshness::Remembered => commands[*index].once().is_none() && fresh.contains(&intent),
                    };
                    sure.then_some(Err(failure))
                }
            };
        }
    }
}

fn publish(
    ctx: &Ctx,
    cache: &IntentCache,
    passed: &HashSet<IntentId>,
    messages: &[Arc<Message>],
    events: &[Arc<Event>],
) {
    for intent in passed {
        ctx.feed.publish(*intent, || {
            let mut channels: HashMap<ChannelId, Arc<entente_domain::openintent::channels::Channel>> =
                HashMap::new();
            let mut records: Vec<Record> = Vec::new();
            for message in messages.iter().filter(|message| message.intent_id == *intent) {
                let known = cache
                    .get(*intent)
                    .and_then(|intent_state| intent_state.channels.get(&message.channel_id));
                let Some(known) = known else { continue };
                let channel = channels.entry(known.id).or_insert_with(|| Arc::new(known.clone()));
                records.push(Record::Message { message: Arc::clone(message), channel: Arc::clone(channel) });
            }
            let logged = events.iter().filter(|event| event.intent_id == *intent);
            // The server's own events have nothing that canonical JSON writes otherwise.
            let read_again = |event: &Arc<Event>| {
                let again = if event.posted { read_again(event) } else { None };
                Record::Event { event: again.unwrap_or_else(|| Event::clone(event)), change: None }
            };
            records.extend(logged.map(read_again));
            records.sort_by_key(Record::seq);
            records
        });
    }
}
