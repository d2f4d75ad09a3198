//! Steps of tasks as a part of a larger transaction: a turn (`crates/bridges/src/turns.rs`), which holds the locks of their
//! intents.

use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, TaskId};
use entente_domain::openintent::tasks::TaskAsk;
use entente_domain::openintent::tasks::change::Verb;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::operations::{Operation as _, apply_within};
use entente_kernel::{Caller, Outcome};
use sqlx::PgConnection;

use super::{Act, Create, TaskView, home};
use crate::Ctx;

/// A step of a task.
#[derive(Debug, Clone)]
pub enum TaskStep {
    /// Creates a task of an intent.
    Create {
        /// The intent.
        intent_id: IntentId,
        /// The task.
        ask: Box<TaskAsk>,
    },
    /// Applies a verb.
    Act {
        /// The task.
        id: TaskId,
        /// Token of the caller's claim.
        token: Option<i64>,
        /// The verb; it concerns no other agent, because two records of agents that are locked in different orders could deadlock.
        verb: Verb,
    },
}

impl TaskStep {
    /// Name of the operation in the log, if the intent's policy refuses it.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        match self {
            Self::Create { .. } => Create::NAME,
            Self::Act { .. } => Act::NAME,
        }
    }
}

/// Returns the intent of a task, whose lock the transaction has to hold.
///
/// # Errors
/// The key lacks the scope; the task does not exist; work on its intent is stopped.
pub async fn intent_of(ctx: &Ctx, caller: &Caller, step: &TaskStep) -> Outcome<IntentId> {
    match step {
        TaskStep::Create { intent_id, .. } => {
            caller.require(Scope::IntentsWrite)?;
            Ok(*intent_id)
        }
        TaskStep::Act { id, verb, .. } => {
            let intent_id = home(ctx, caller, *id).await?;
            if matches!(verb, Verb::Claim | Verb::Start) {
                ctx.stops.objection(caller, &caller.agent, Some(intent_id)).map_or(Ok(()), Err)?;
            }
            Ok(intent_id)
        }
    }
}

/// Takes a step in a transaction that holds the lock of the task's intent; the caller commits it, and then publishes the returned
/// log.
///
/// # Errors
/// As [`super::create`] and [`super::act`].
pub async fn step_within(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    intent_id: IntentId,
    step: &TaskStep,
) -> Outcome<(TaskView, IntentLog)> {
    match step {
        TaskStep::Create { ask, .. } => {
            let create = Create(ask.as_ref().clone());
            let (task, log) = apply_within(ctx, conn, caller, intent_id, &create).await?;
            Ok((TaskView { task, blocks: Vec::new() }, log))
        }
        TaskStep::Act { id, token, verb } => {
            let act = Act { id: *id, seen: None, token: *token, verb: verb.clone() };
            apply_within(ctx, conn, caller, intent_id, &act).await
        }
    }
}
