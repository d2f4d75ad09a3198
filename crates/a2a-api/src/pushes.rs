//! Operations on receivers of push notifications (A2A §3.1.7 to §3.1.10). `src/background/pushing.rs` sends.

use entente_arcp::jobs::{self, Place};
use entente_domain::a2a::errors::{Failure, Fault};
use entente_domain::a2a::pushes::{PushConfig, PushList, PushQuery};
use entente_domain::ids::JobId;

use crate::replies::Failed;
use crate::visits::Visit;

/// Failure of push notifications in A2A 0.3, whose card says that there are none.
pub(crate) fn no_legacy() -> Failure {
    let message = "Push notifications need A2A 1.0: send the header `A2A-Version: 1.0`. In 0.3 follow the task with tasks/resubscribe.";
    Failure::new(Fault::PushNotificationNotSupported, message)
}

/// Checks a receiver, before anything is done for it.
pub(crate) fn check(visit: &Visit, config: PushConfig) -> Result<PushConfig, Failed> {
    let settings = &visit.api.ctx.settings.webhooks;
    Ok(config.check(&settings.allowed, settings.https_only)?)
}

/// Requires that a receiver could be added to a task, or to one that is not there yet.
pub(crate) async fn require(visit: &Visit, task: Option<JobId>, config: &PushConfig) -> Result<(), Failed> {
    Ok(jobs::require_receiver(&visit.api.ctx, &visit.caller, task, config).await?)
}

/// Adds a receiver that was checked to a task, at a place in its events.
pub(crate) async fn add(
    visit: &Visit,
    job: JobId,
    config: PushConfig,
    context: &str,
    place: Place,
) -> Result<PushConfig, Failed> {
    let added = jobs::add_receiver(&visit.api.ctx, &visit.caller, job, &config, context, place).await;
    Ok(added.map_err(|error| Failed::from(error).about(&job.to_string()))?.shown())
}

/// Creates a receiver of the updates from now on, or changes the one with its id.
pub(crate) async fn create(visit: &Visit, config: PushConfig) -> Result<PushConfig, Failed> {
    let config = check(visit, config)?;
    let loaded = visit.load(&config.task_id).await?;
    let place = Place::after(loaded.conversation.job.last_seq, loaded.state);
    add(visit, loaded.job_id(), config, &loaded.context, place).await
}

/// Returns the caller's receivers of a task.
pub(crate) async fn list(visit: &Visit, task: &str) -> Result<PushList, Failed> {
    let job = visit.load(task).await?.job_id();
    let found = jobs::receivers(&visit.api.ctx, &visit.caller, job).await;
    let configs = found.map_err(|error| Failed::from(error).about(task))?;
    Ok(PushList { configs: configs.into_iter().map(PushConfig::shown).collect() })
}

/// Returns one of them.
pub(crate) async fn get(visit: &Visit, query: &PushQuery) -> Result<PushConfig, Failed> {
    let found = list(visit, &query.task_id).await?.configs.into_iter().find(|config| config.id == query.id);
    let message =
        "You have no receiver of push notifications with this id at the task. List them to see their ids.";
    found.ok_or_else(|| Failure::of_task(Fault::TaskNotFound, &query.task_id, message).into())
}

/// Deletes a receiver. One that is not there is as good as deleted (§3.1.10).
pub(crate) async fn delete(visit: &Visit, query: &PushQuery) -> Result<(), Failed> {
    let job = visit.load(&query.task_id).await?.job_id();
    let done = jobs::remove_receiver(&visit.api.ctx, &visit.caller, job, &query.id).await;
    done.map_err(|error| Failed::from(error).about(&query.task_id))?;
    Ok(())
}
