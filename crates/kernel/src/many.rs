//! Batches of commands in one transaction, for the writers of jobs and envelopes. Commands that need a locked
//! row are put aside and the others done without them; a failing command does not harm the others.

use std::collections::HashSet;

use entente_domain::identity::fences::Fence;
use entente_runtime::deadlines::{self, within};
use entente_runtime::fences;
use entente_store::limits;

use super::{AppError, Outcome};

/// Maximum number of single retries that may hit a lock before the rest of the batch is put aside: each
/// delays all others.
const TRIES: usize = 3;

/// Result of several commands in one transaction.
pub enum Together<A> {
    /// All are done, each with its answer.
    Done(Vec<A>),
    /// Nothing was done, because these commands need locked rows.
    Locked(Vec<usize>),
}

/// A handler of such commands.
pub trait Many: Send {
    /// A command.
    type Command: Send + Sync;
    /// Its answer.
    type Answer: Send;

    /// Lane that keeps a command in order (`store/src/commit.rs`).
    fn lane(command: &Self::Command) -> u64;

    /// The conditions for the command to take effect.
    fn fences(command: &Self::Command) -> impl Iterator<Item = &Fence>;

    /// Executes the commands in one transaction.
    fn together(
        &mut self,
        commands: &[&Self::Command],
    ) -> impl Future<Output = Outcome<Together<Outcome<Self::Answer>>>> + Send;

    /// Indices of commands that need rows locked by others, as far as can be seen.
    fn locked(&mut self, commands: &[&Self::Command]) -> impl Future<Output = Outcome<Vec<usize>>> + Send;
}

/// A batch in progress.
struct Batch<'a, M: Many> {
    commands: &'a [M::Command],
    answers: Vec<Option<Outcome<M::Answer>>>,
    /// Lanes with a waiting command.
    waits: &'a mut HashSet<u64>,
}

/// Executes the commands, except those of lanes in `waits`.
///
/// Commands without an answer wait for a lock, each with all later ones of its lane.
#[expect(clippy::implicit_hasher, reason = "all callers use the default hasher")]
pub async fn all<M: Many>(
    many: &mut M,
    commands: &[M::Command],
    waits: &mut HashSet<u64>,
) -> Vec<Option<Outcome<M::Answer>>> {
    let answers = commands.iter().map(|_| None).collect();
    let mut batch: Batch<'_, M> = Batch { commands, answers, waits };
    loop {
        let left = batch.left();
        if left.is_empty() {
            return batch.answers;
        }
        let tried: Vec<&M::Command> = left.iter().map(|index| &commands[*index]).collect();
        let locked = match timely(fenced(many, &tried)).await {
            Ok(Together::Done(answers)) => {
                for (index, answer) in left.iter().zip(answers) {
                    batch.answers[*index] = Some(answer);
                }
                return batch.answers;
            }
            Ok(Together::Locked(locked)) => locked,
            // The outcome is unknown, or nothing can be done: a retry of each would report done commands as
            // repetitions.
            Err(failure @ AppError::Unavailable(_)) => {
                for index in left {
                    batch.answers[index] = Some(Err(failure.repeated()));
                }
                return batch.answers;
            }
            Err(failure) if failure.is_contended() => {
                if left.len() == 1 {
                    vec![0]
                } else {
                    timely(many.locked(&tried)).await.unwrap_or_default()
                }
            }
            // An unforeseen failure, a key that another server has just used, or a fence that is broken.
            Err(failure) => {
                tracing::debug!(error = %failure, batch = left.len(), "a batch is done one by one");
                Vec::new()
            }
        };
        if locked.is_empty() {
            batch.singly(many, &left).await;
            return batch.answers;
        }
        batch.put_aside(locked.into_iter().filter_map(|at| left.get(at).copied()));
    }
}

/// Executes the commands in one transaction that waits for locks; each gets an answer.
pub async fn waiting<M: Many>(many: &mut M, commands: &[M::Command]) -> Vec<Outcome<M::Answer>> {
    let tried: Vec<&M::Command> = commands.iter().collect();
    match patiently(fenced(many, &tried)).await {
        Ok(Together::Done(answers)) => answers,
        Ok(Together::Locked(_)) => commands.iter().map(|_| Err(locked())).collect(),
        Err(failure @ (AppError::Unavailable(_) | AppError::RolledBack { .. })) => {
            commands.iter().map(|_| Err(failure.repeated())).collect()
        }
        Err(failure) if tried.len() == 1 => vec![Err(failure)],
        Err(failure) => {
            tracing::debug!(error = %failure, batch = tried.len(), "commands that waited are done one by one");
            let mut answers = Vec::with_capacity(tried.len());
            for command in tried {
                answers.push(match patiently(fenced(many, &[command])).await {
                    Ok(Together::Done(mut alone)) => alone.pop().unwrap_or_else(|| Err(locked())),
                    Ok(Together::Locked(_)) => Err(locked()),
                    Err(failure) => Err(failure),
                });
            }
            answers
        }
    }
}

/// Executes commands in one transaction, under the fences of all of them.
async fn fenced<M: Many>(many: &mut M, commands: &[&M::Command]) -> Outcome<Together<Outcome<M::Answer>>> {
    let fences = commands.iter().flat_map(|command| M::fences(command)).cloned().collect();
    fences::within(fences, many.together(commands)).await
}

fn locked() -> AppError {
    AppError::Unavailable("somebody else has locked what this is about".to_owned())
}

async fn patiently<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    within(deadlines::BATCH + limits::LOCK, Box::pin(work)).await?
}

async fn timely<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    within(deadlines::BATCH, Box::pin(work)).await?
}

impl<M: Many> Batch<'_, M> {
    /// Indices of commands that are neither answered nor waiting.
    fn left(&self) -> Vec<usize> {
        let open = |index: &usize| {
            self.answers[*index].is_none() && !self.waits.contains(&M::lane(&self.commands[*index]))
        };
        (0..self.commands.len()).filter(open).collect()
    }

    fn put_aside(&mut self, indices: impl Iterator<Item = usize>) {
        self.waits.extend(indices.map(|index| M::lane(&self.commands[index])));
    }

    /// Executes each command alone: the failing one fails or waits, the others succeed.
    async fn singly(&mut self, many: &mut M, left: &[usize]) {
        let mut tries = TRIES;
        for index in left.iter().copied() {
            let command = &self.commands[index];
            if self.waits.contains(&M::lane(command)) {
                continue;
            }
            if tries == 0 {
                self.put_aside(std::iter::once(index));
                continue;
            }
            self.answers[index] = match timely(fenced(many, &[command])).await {
                Ok(Together::Done(mut answers)) => answers.pop(),
                Ok(Together::Locked(_)) => None,
                Err(failure) if failure.is_contended() => {
                    tries -= 1;
                    None
                }
                Err(failure) => Some(Err(failure)),
            };
            if self.answers[index].is_none() {
                self.put_aside(std::iter::once(index));
            }
        }
    }
}
