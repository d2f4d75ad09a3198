//! Lists of jobs, and subscriptions from other sessions (ARCP §6.6, §7.6 and §14).

use serde_json::{Value, json};

use super::{Session, is_of, job_id};
use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, failed, list, members, same, text};
use crate::site::{Site, Who};

checks! {
    "ARCP §6.6", Must, jobs_are_listed, "`session.jobs` has the request's id and the jobs with status, agent and lease.";
    "ARCP §6.6", Must, jobs_are_filtered, "The filter's `status` leaves other jobs out.";
    "ARCP §6.6", Should, lists_have_pages, "`limit` bounds a list, and `next_cursor` continues it.";
    "ARCP §6.6", Must, strangers_jobs_are_hidden, "Another principal's jobs are not listed.";
    "ARCP §7.6", Must, subscription_is_answered, "`job.subscribed` has the job's status, agent and lease.";
    "ARCP §7.6", Must, history_is_replayed, "With `history` a subscriber gets what happened before.";
    "ARCP §7.6", Must, subscriber_sees_the_end, "A subscriber in another session sees the end of the job live.";
    "ARCP §7.6", Must, unknown_job_is_told, "A subscription to a job that is not there is JOB_NOT_FOUND.";
    "ARCP §7.6", Must, strangers_do_not_subscribe, "Another principal's subscription is refused.";
    "ARCP §7.6", Must, subscribers_do_not_cancel, "A subscriber cannot cancel the job.";
}

/// Lists jobs.
async fn listed(session: &mut Session<'_>, payload: &Value) -> Result<Value, Finding> {
    session.needs("list_jobs")?;
    session.ask("session.list_jobs", payload, "session.jobs").await
}

/// Returns the ids of listed jobs.
fn ids(jobs: &Value) -> Result<Vec<&str>, Finding> {
    Ok(list(&jobs["payload"]["jobs"])?.iter().filter_map(|job| job["job_id"].as_str()).collect())
}

async fn jobs_are_listed(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("list_jobs")?;
    let job = session.echo().await?;
    session.end(&job).await?;
    let request = session.send("session.list_jobs", &json!({ "limit": 100 })).await?;
    let jobs = session.answer(&request, "session.jobs").await?;
    same(&jobs, "/payload/request_id", request)?;
    let found = list(&jobs["payload"]["jobs"])?.iter().find(|one| one["job_id"] == json!(job));
    let found = found.ok_or_else(|| failed(format!("{job} in the list"), &jobs))?;
    members(found, &["job_id", "agent", "status", "lease", "parent_job_id", "created_at", "last_event_seq"])?;
    same(found, "/status", "success")
}

async fn jobs_are_filtered(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let job = session.echo().await?;
    session.end(&job).await?;
    let filter = json!({ "filter": { "status": ["pending", "running"] }, "limit": 100 });
    let jobs = listed(&mut session, &filter).await?;
    ensure(!ids(&jobs)?.contains(&job.as_str()), format!("no {job}, which is over"), &jobs)
}

async fn lists_have_pages(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.echo().await?;
    session.echo().await?;
    let first = listed(&mut session, &json!({ "limit": 1 })).await?;
    let found = ids(&first)?;
    ensure(found.len() == 1, "one job", &first)?;
    let cursor = text(&first, "/payload/next_cursor")?;
    let next = listed(&mut session, &json!({ "limit": 1, "cursor": cursor })).await?;
    ensure(ids(&next)?.len() == 1 && ids(&next)? != found, "another job", &next)
}

async fn strangers_jobs_are_hidden(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let mut stranger = Session::open(site, Who::Second).await?;
    let job = session.echo().await?;
    let jobs = listed(&mut stranger, &json!({ "limit": 100 })).await?;
    ensure(!ids(&jobs)?.contains(&job.as_str()), format!("no {job}"), &jobs)
}

async fn subscription_is_answered(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("subscribe")?;
    let job = session.echo().await?;
    session.end(&job).await?;
    let mut other = Session::open(site, Who::First).await?;
    let subscribed = other.ask("job.subscribe", &json!({ "job_id": job }), "job.subscribed").await?;
    members(
        &subscribed["payload"],
        &["job_id", "current_status", "agent", "lease", "subscribed_from", "replayed"],
    )?;
    same(&subscribed, "/payload/job_id", job)
}

async fn history_is_replayed(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("subscribe")?;
    let job = session.echo().await?;
    session.end(&job).await?;
    let count = session.events.iter().filter(|frame| is_of(frame, &job)).count();
    let mut other = Session::open(site, Who::First).await?;
    let subscribe = json!({ "job_id": job, "history": true, "from_event_seq": 0 });
    other.ask("job.subscribe", &subscribe, "job.subscribed").await?;
    other.end(&job).await?;
    let again = other.events.iter().filter(|frame| is_of(frame, &job)).count();
    ensure(again == count, format!("{count} events"), again)
}

async fn subscriber_sees_the_end(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("subscribe")?;
    let slow = session.slow()?;
    let job = job_id(&session.submit(&slow, &json!({})).await?)?;
    let mut other = Session::open(site, Who::First).await?;
    other.ask("job.subscribe", &json!({ "job_id": job, "history": true }), "job.subscribed").await?;
    cancel(&mut session, &job).await?;
    other.end(&job).await.map(drop)
}

/// Cancels a job.
async fn cancel(session: &mut Session<'_>, job: &str) -> Result<(), Finding> {
    let payload = json!({ "job_id": job, "reason": "conform" });
    session.send_with("job.cancel", &payload, &json!({ "job_id": job })).await.map(drop)
}

async fn unknown_job_is_told(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("subscribe")?;
    let job = format!("job_{}", site.ulid());
    session.refused("job.subscribe", &json!({ "job_id": job }), &["JOB_NOT_FOUND"]).await.map(drop)
}

async fn strangers_do_not_subscribe(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let mut stranger = Session::open(site, Who::Second).await?;
    stranger.needs("subscribe")?;
    let job = session.echo().await?;
    let codes = ["PERMISSION_DENIED", "JOB_NOT_FOUND"];
    stranger.refused("job.subscribe", &json!({ "job_id": job }), &codes).await.map(drop)
}

async fn subscribers_do_not_cancel(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("subscribe")?;
    let slow = session.slow()?;
    let job = job_id(&session.submit(&slow, &json!({})).await?)?;
    let mut other = Session::open(site, Who::First).await?;
    other.ask("job.subscribe", &json!({ "job_id": job }), "job.subscribed").await?;
    cancel(&mut other, &job).await?;
    let refused = other.refusal(&["PERMISSION_DENIED", "JOB_NOT_FOUND"]).await;
    // The job is not needed any more.
    cancel(&mut session, &job).await?;
    refused.map(drop)
}
