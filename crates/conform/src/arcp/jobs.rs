//! Jobs: submission, versions, idempotency, ends and numbers of events (ARCP §7 and §8).

use std::time::Duration;

use serde_json::{Value, json};

use super::{Session, job_id};
use crate::check::checks;
use crate::finding::{Outcome, ensure, members, same, skipped, text};
use crate::site::{Site, Who};

checks! {
    "ARCP §7.1", Must, job_is_accepted, "`job.accepted` has the job's id, its effective lease and its time.";
    "ARCP §7.2", Must, key_gives_the_same_job, "The same submission under the same idempotency key is the same job.";
    "ARCP §7.2", Must, key_with_another_job_conflicts, "Another submission under that key is DUPLICATE_KEY.";
    "ARCP §7.3", Must, job_ends_with_its_result, "A job that succeeds ends with one `job.result` and `final_status: success`.";
    "ARCP §7.3", Must, job_times_out, "A job beyond `max_runtime_sec` ends with TIMEOUT and `timed_out`.";
    "ARCP §7.4", Must, cancel_is_acknowledged, "`job.cancel` is acknowledged by `job.cancelled`.";
    "ARCP §7.4", Must, cancel_ends_the_job, "A cancelled job ends with `job.error` CANCELLED and `final_status: cancelled`.";
    "ARCP §7.4", Must, unknown_job_is_not_found, "The cancellation of a job that is not there is JOB_NOT_FOUND.";
    "ARCP §7.5", Must, version_is_pinned, "`name@version` is that version, and `job.accepted` says so.";
    "ARCP §7.5", Must, name_is_the_default, "A bare name is the default version of the inventory.";
    "ARCP §7.5", Must, missing_version_is_told, "A version that is not there is AGENT_VERSION_NOT_AVAILABLE.";
    "ARCP §12", Must, missing_agent_is_told, "An agent that is not there is AGENT_NOT_AVAILABLE.";
    "ARCP §8.1", Must, event_has_its_members, "An event has its session, its job, a number, a kind and a body.";
    "ARCP §8.3", Must, numbers_have_no_gap, "Events of all jobs of a session are numbered without a gap.";
    "ARCP §11", Must, trace_is_kept, "A job has the `trace_id` of its submission.";
}

async fn job_is_accepted(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let worker = session.worker()?;
    let accepted = session.submit(&worker, &json!({})).await?;
    members(&accepted["payload"], &["job_id", "lease", "accepted_at"])?;
    ensure(accepted["payload"]["lease"].is_object(), "a `lease` that is an object", accepted)
}

async fn key_gives_the_same_job(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let (worker, more) = (session.worker()?, json!({ "idempotency_key": site.fresh("key") }));
    let one = job_id(&session.submit(&worker, &more).await?)?;
    let other = job_id(&session.submit(&worker, &more).await?)?;
    ensure(one == other, format!("the job {one}"), other)
}

async fn key_with_another_job_conflicts(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let (worker, key) = (session.worker()?, site.fresh("key"));
    session.submit(&worker, &json!({ "idempotency_key": key })).await?;
    let other = json!({ "agent": worker, "input": { "text": "another" }, "idempotency_key": key });
    session.refused("job.submit", &other, &["DUPLICATE_KEY"]).await.map(drop)
}

async fn job_ends_with_its_result(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let job = session.echo().await?;
    let end = session.end(&job).await?;
    same(&end, "/type", "job.result")?;
    same(&end, "/payload/final_status", "success")
}

async fn job_times_out(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let slow = session.slow()?;
    let job = job_id(&session.submit(&slow, &json!({ "max_runtime_sec": 1 })).await?)?;
    let end = session.end(&job).await?;
    same(&end, "/type", "job.error")?;
    same(&end, "/payload/code", "TIMEOUT")?;
    same(&end, "/payload/final_status", "timed_out")
}

async fn cancel_is_acknowledged(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let slow = session.slow()?;
    let job = job_id(&session.submit(&slow, &json!({})).await?)?;
    let cancel = json!({ "job_id": job, "reason": "conform" });
    session.send_with("job.cancel", &cancel, &json!({ "job_id": job })).await?;
    let is_it = |frame: &Value| frame["type"] == json!("job.cancelled");
    session.until("`job.cancelled`", is_it).await.map(drop)
}

async fn cancel_ends_the_job(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let slow = session.slow()?;
    let job = job_id(&session.submit(&slow, &json!({})).await?)?;
    let cancel = json!({ "job_id": job, "reason": "conform" });
    session.send_with("job.cancel", &cancel, &json!({ "job_id": job })).await?;
    let end = session.end(&job).await?;
    same(&end, "/type", "job.error")?;
    same(&end, "/payload/code", "CANCELLED")?;
    same(&end, "/payload/final_status", "cancelled")
}

async fn unknown_job_is_not_found(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let job = format!("job_{}", site.ulid());
    let cancel = json!({ "job_id": job, "reason": "conform" });
    session.send_with("job.cancel", &cancel, &json!({ "job_id": job })).await?;
    session.refusal(&["JOB_NOT_FOUND"]).await.map(drop)
}

/// Returns the name of the agent and the version that it has by default.
fn pinned(session: &Session<'_>) -> Result<(String, String), crate::finding::Finding> {
    session.needs("agent_versions")?;
    let worker = session.worker()?;
    let agents = session.agents();
    let default = agents.into_iter().find(|(name, _)| *name == worker).and_then(|(_, default)| default);
    let default =
        default.ok_or_else(|| skipped(format!("the inventory has no default version of {worker}")))?;
    Ok((worker, default))
}

async fn version_is_pinned(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let (worker, version) = pinned(&session)?;
    let name = format!("{worker}@{version}");
    let accepted = session.submit(&name, &json!({})).await?;
    same(&accepted, "/payload/agent", name)
}

async fn name_is_the_default(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let (worker, version) = pinned(&session)?;
    let accepted = session.submit(&worker, &json!({})).await?;
    same(&accepted, "/payload/agent", format!("{worker}@{version}"))
}

async fn missing_version_is_told(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("agent_versions")?;
    let submit = json!({ "agent": format!("{}@0.0.0-conform", session.worker()?), "input": {} });
    session.refused("job.submit", &submit, &["AGENT_VERSION_NOT_AVAILABLE"]).await.map(drop)
}

async fn missing_agent_is_told(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let submit = json!({ "agent": "conform-knows-no-such-agent", "input": {} });
    session.refused("job.submit", &submit, &["AGENT_NOT_AVAILABLE"]).await.map(drop)
}

async fn event_has_its_members(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let job = session.echo().await?;
    session.end(&job).await?;
    let Some(event) = session.events.iter().find(|frame| frame["type"] == json!("job.event")) else {
        return Err(skipped("the agent has no events before its result"));
    };
    same(event, "/session_id", session.id.clone())?;
    same(event, "/job_id", job)?;
    text(event, "/payload/kind")?;
    ensure(event["payload"]["body"].is_object(), "a `body` that is an object", event)
}

async fn numbers_have_no_gap(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let (one, other) = (session.echo().await?, session.echo().await?);
    session.end(&one).await?;
    session.end(&other).await?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let numbers: Vec<u64> = session.events.iter().filter_map(|frame| frame["event_seq"].as_u64()).collect();
    let are_dense = numbers.windows(2).all(|pair| matches!(pair, [one, next] if one + 1 == *next));
    ensure(are_dense && numbers.len() >= 2, "numbers without a gap", format!("{numbers:?}"))
}

async fn trace_is_kept(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let submit = json!({ "agent": session.worker()?, "input": {} });
    let id = session.send_with("job.submit", &submit, &json!({ "trace_id": trace })).await?;
    let accepted = session.answer(&id, "job.accepted").await?;
    let found = accepted["payload"]["trace_id"].as_str().or(accepted["trace_id"].as_str());
    ensure(found == Some(trace), format!("the trace {trace}"), accepted)
}
