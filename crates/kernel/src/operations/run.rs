//! How the operations of a batch run, one after another, in one transaction that holds their locks.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};

use entente_domain::clock::Timestamp;
use entente_domain::ids::IntentId;
use entente_runtime::fences;
use sqlx::PgConnection;

use super::{Answer, AnyRows, Command, Done};
use crate::charges::Charge;
use crate::facts::{self, Earlier, Facts, Question};
use crate::idempotency::StoredResponse;
use crate::log::deferred::DeferredRows;
use crate::log::guarded_write;
use crate::log::writer::IntentLog;
use crate::{AppError, Ctx, IntentTx, Outcome, Tx, charges as shared};

/// The logs, responses, charges and rows that the operations so far have left to write at the end.
#[derive(Default)]
struct Written {
    logs: HashMap<IntentId, IntentLog>,
    kept: Vec<StoredResponse>,
    charges: Vec<Charge>,
    deferred: DeferredRows,
    /// Intents that an operation has changed: rows that were read before no longer hold.
    changed: HashSet<IntentId>,
}

/// Runs the operations, and commits.
pub(super) async fn run(ctx: &Ctx, mut tx: Tx, commands: &[&Command]) -> Outcome<Vec<Answer>> {
    let now = ctx.now();
    let facts = facts::load(&mut tx, &questions(commands), now).await?;
    let mut rows = read(&mut tx, commands, now).await?;
    let mut written = Written::default();
    let mut answers = Vec::with_capacity(commands.len());
    for ((command, facts), rows) in commands.iter().zip(facts).zip(&mut rows) {
        if written.changed.contains(&command.intent_id) && command.operation.reads() {
            written.deferred.write(&mut tx).await?;
            *rows = read(&mut tx, &[command], now).await?.pop().flatten();
        }
        let rows = rows.take().ok_or_else(super::lost)?;
        match written.apply(ctx, &mut tx, command, facts, rows, now).await {
            Ok(answer) => answers.push(answer),
            Err(failure) if commands.len() == 1 => {
                tx.rollback().await?;
                return if failure.is_passing() { Err(failure) } else { Ok(vec![Err(failure)]) };
            }
            Err(failure) => return Err(failure),
        }
    }
    let logs = written.finish(ctx, &mut tx, now).await?;
    tx.commit().await?;
    logs.iter().for_each(|log| ctx.feed.publish_log(log));
    Ok(answers)
}

fn questions<'a>(commands: &'a [&Command]) -> Vec<Question<'a>> {
    let question = |command: &&'a Command| Question {
        intent_id: command.intent_id,
        agent: &command.caller.agent,
        once: command.once(),
        lacks_epoch: fences::lack_epoch_of(&command.fences, &command.caller.agent),
    };
    commands.iter().map(question).collect()
}

/// Reads the rows that the commands decide by, in their order: those of all operations of one type at once.
async fn read(
    conn: &mut PgConnection,
    commands: &[&Command],
    now: Timestamp,
) -> Outcome<Vec<Option<AnyRows>>> {
    let mut types: Vec<(TypeId, Vec<usize>)> = Vec::new();
    for (index, command) in commands.iter().enumerate() {
        let kind = command.operation.as_any().type_id();
        match types.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, indices)) => indices.push(index),
            None => types.push((kind, vec![index])),
        }
    }
    let mut all: Vec<Option<AnyRows>> = commands.iter().map(|_| None).collect();
    for (_, indices) in types {
        let same: Vec<&Command> = indices.iter().map(|index| commands[*index]).collect();
        let Some(first) = same.first() else { continue };
        let rows = first.operation.read(conn, &same, now).await?;
        for (index, rows) in indices.into_iter().zip(rows) {
            all[index] = Some(rows);
        }
    }
    Ok(all)
}

impl Written {
    /// Applies one operation. The inner error is a refusal that leaves the batch as it was.
    async fn apply(
        &mut self,
        ctx: &Ctx,
        conn: &mut PgConnection,
        command: &Command,
        mut facts: Facts,
        rows: AnyRows,
        now: Timestamp,
    ) -> Outcome<Answer> {
        if let Some(twin) = self.twin(command) {
            facts.earlier = Some(twin);
        }
        let log = match self.logs.remove(&command.intent_id) {
            Some(log) => log,
            None => IntentLog::of(command.intent_id, facts.tail.as_ref(), None, now)?,
        };
        let mark = log.mark();
        let mut work = IntentTx::shared(ctx, conn, log, &command.caller, command.once.as_ref(), facts);
        let done = command.apply(&mut work, rows).await;
        let mut left = work.leave();
        let answer = match done {
            Ok(Done { answer, kept }) => {
                self.kept.extend(kept.filter(|_| !left.has_repeated));
                self.charges.append(&mut left.charges);
                if left.has_written || !left.deferred.is_empty() || left.log.has_advanced() {
                    self.changed.insert(command.intent_id);
                }
                self.deferred.append(left.deferred);
                Ok(answer)
            }
            Err(failure @ AppError::Refused(_)) if !left.has_written => {
                left.log.reset(mark);
                Err(failure)
            }
            Err(failure) => return Err(failure),
        };
        self.logs.insert(command.intent_id, left.log);
        Ok(answer)
    }

    /// Returns the response of the same request, if the batch contains it twice.
    fn twin(&self, command: &Command) -> Option<Earlier> {
        let (by, once) = command.once()?;
        let twin = self.kept.iter().find(|kept| kept.principal_id == by && kept.key == once.key)?;
        Some(Earlier { fingerprint: twin.fingerprint.clone(), outcome: twin.outcome.clone() })
    }

    /// Writes the rest, and returns the logs that have advanced.
    async fn finish(mut self, ctx: &Ctx, conn: &mut PgConnection, now: Timestamp) -> Outcome<Vec<IntentLog>> {
        self.deferred.write(conn).await?;
        let logs: Vec<IntentLog> = self.logs.into_values().filter(IntentLog::has_advanced).collect();
        if !logs.is_empty() || !self.kept.is_empty() {
            guarded_write::save(conn, &logs.iter().collect::<Vec<_>>(), &self.kept, now).await?;
        }
        shared::apply(ctx, conn, &self.charges, &[], now).await?;
        Ok(logs)
    }
}
