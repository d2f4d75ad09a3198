//! Many commands in one transaction that waits for nobody's lock: what jobs' and envelopes' writers do with a batch. Commands
//! that need what somebody else has locked are put aside, and the others are done together without them; what is wrong with
//! one does not harm the others.

use std::collections::HashSet;

use entente_runtime::deadlines::{self, within};
use entente_store::limits;

use super::{AppError, Outcome};

/// Commands tried one by one that may find locked what they need before the rest is put aside too: each costs the time that
/// the others wait.
const TRIES: usize = 3;

/// What came of several commands in one transaction.
pub(crate) enum Together<A> {
    /// They are done, each with its answer.
    Done(Vec<A>),
    /// Nothing was done, because these need what somebody else has locked.
    Locked(Vec<usize>),
}

/// Who does such commands.
pub(crate) trait Many: Send {
    /// What is asked.
    type Command: Send + Sync;
    /// What is answered.
    type Answer: Send;

    /// What a command keeps its place in (`store/src/commit.rs`).
    fn lane(command: &Self::Command) -> u64;

    /// Does them in one transaction, and waits for nobody.
    fn together(
        &mut self,
        commands: &[&Self::Command],
    ) -> impl Future<Output = Outcome<Together<Outcome<Self::Answer>>>> + Send;

    /// Those that need what somebody else has locked at this moment, as far as that can be seen.
    fn locked(&mut self, commands: &[&Self::Command]) -> impl Future<Output = Outcome<Vec<usize>>> + Send;
}

/// A batch while it is done.
struct Batch<'a, M: Many> {
    commands: &'a [M::Command],
    answers: Vec<Option<Outcome<M::Answer>>>,
    /// The lanes in which somebody waits.
    waits: &'a mut HashSet<u64>,
}

/// Does the commands, but for those of lanes in which somebody `waits`. Those without an answer wait for somebody's lock, each
/// with all of its lane that come after it.
pub(crate) async fn all<M: Many>(
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
        let locked = match timely(many.together(&tried)).await {
            Ok(Together::Done(answers)) => {
                for (index, answer) in left.iter().zip(answers) {
                    batch.answers[*index] = Some(answer);
                }
                return batch.answers;
            }
            Ok(Together::Locked(locked)) => locked,
            // Nobody knows what was done, or nothing can be: to try each again would tell those whose command was done that it
            // had been done before.
            Err(AppError::Unavailable(why)) => {
                for index in left {
                    batch.answers[index] = Some(Err(AppError::Unavailable(why.clone())));
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
            // More than the law foresaw, or a key that another server has just used.
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

/// Does the commands in one transaction that waits for what others have locked; each is answered.
pub(crate) async fn waiting<M: Many>(many: &mut M, commands: &[M::Command]) -> Vec<Outcome<M::Answer>> {
    let tried: Vec<&M::Command> = commands.iter().collect();
    match patiently(many.together(&tried)).await {
        Ok(Together::Done(answers)) => answers,
        Ok(Together::Locked(_)) => commands.iter().map(|_| Err(locked())).collect(),
        Err(AppError::Unavailable(why)) => {
            commands.iter().map(|_| Err(AppError::Unavailable(why.clone()))).collect()
        }
        Err(AppError::RolledBack { state, why }) => {
            commands.iter().map(|_| Err(AppError::RolledBack { state, why: why.clone() })).collect()
        }
        Err(failure) if tried.len() == 1 => vec![Err(failure)],
        Err(failure) => {
            tracing::debug!(error = %failure, batch = tried.len(), "commands that waited are done one by one");
            let mut answers = Vec::with_capacity(tried.len());
            for command in tried {
                answers.push(match patiently(many.together(&[command])).await {
                    Ok(Together::Done(mut alone)) => alone.pop().unwrap_or_else(|| Err(locked())),
                    Ok(Together::Locked(_)) => Err(locked()),
                    Err(failure) => Err(failure),
                });
            }
            answers
        }
    }
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
    /// Those that are neither answered nor wait.
    fn left(&self) -> Vec<usize> {
        let open = |index: &usize| {
            self.answers[*index].is_none() && !self.waits.contains(&M::lane(&self.commands[*index]))
        };
        (0..self.commands.len()).filter(open).collect()
    }

    fn put_aside(&mut self, indices: impl Iterator<Item = usize>) {
        self.waits.extend(indices.map(|index| M::lane(&self.commands[index])));
    }

    /// Each alone: the guilty one fails, or waits, the others do not.
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
            self.answers[index] = match timely(many.together(&[command])).await {
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
