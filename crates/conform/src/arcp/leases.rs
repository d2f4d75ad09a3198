//! Leases: their form, expiry, and budgets (ARCP §9).

use serde_json::json;

use super::{Session, job_id};
use crate::check::checks;
use crate::finding::{Outcome, ensure, same};
use crate::site::{Site, Who, in_seconds};

checks! {
    "ARCP §7.1", Must, lease_is_echoed, "`job.accepted` has the lease that was requested, or less.";
    "ARCP §9.5", Must, expiry_is_echoed, "`job.accepted` has the `lease_constraints` of its submission.";
    "ARCP §9.5", Must, past_expiry_is_invalid, "An `expires_at` in the past is INVALID_REQUEST.";
    "ARCP §9.5", Must, local_expiry_is_invalid, "An `expires_at` with an offset instead of `Z` is INVALID_REQUEST.";
    "ARCP §9.5", Must, unreadable_expiry_is_invalid, "An `expires_at` that is no time is INVALID_REQUEST.";
    "ARCP §9.5", May, expired_lease_ends_the_job, "A job whose lease is over ends with LEASE_EXPIRED, which is not retryable.";
    "ARCP §9.6", Must, budget_has_counters, "`job.accepted` has a counter for each currency of `cost.budget`.";
    "ARCP §9.6", Must, amounts_have_a_form, "An amount that is not CURRENCY:DECIMAL is INVALID_REQUEST.";
}

async fn lease_is_echoed(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let worker = session.worker()?;
    let lease = json!({ "fs.read": ["/workspace/**"] });
    let accepted = session.submit(&worker, &json!({ "lease_request": lease })).await?;
    let granted = &accepted["payload"]["lease"];
    let is_less = granted.as_object().is_some_and(|granted| granted.keys().all(|name| name == "fs.read"));
    ensure(is_less, format!("the lease {lease}, or less"), accepted)
}

async fn expiry_is_echoed(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("lease_expires_at")?;
    let (worker, expires) = (session.worker()?, in_seconds(3600));
    let accepted =
        session.submit(&worker, &json!({ "lease_constraints": { "expires_at": expires } })).await?;
    let echoed = accepted["payload"]["lease_constraints"]["expires_at"].as_str().unwrap_or_default();
    // Another number of digits is the same time.
    ensure(echoed.starts_with(&expires[..19]) && echoed.ends_with('Z'), expires, accepted)
}

/// Submits a job with this `expires_at`, which is refused.
async fn refused(site: &Site, expires: &str) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("lease_expires_at")?;
    let submit =
        json!({ "agent": session.worker()?, "input": {}, "lease_constraints": { "expires_at": expires } });
    session.refused("job.submit", &submit, &["INVALID_REQUEST"]).await.map(drop)
}

async fn past_expiry_is_invalid(site: &Site) -> Outcome {
    refused(site, &in_seconds(-60)).await
}

async fn local_expiry_is_invalid(site: &Site) -> Outcome {
    refused(site, "2099-05-13T23:42:00+02:00").await
}

async fn unreadable_expiry_is_invalid(site: &Site) -> Outcome {
    refused(site, "next summer").await
}

async fn expired_lease_ends_the_job(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("lease_expires_at")?;
    let slow = session.slow()?;
    let constraints = json!({ "lease_constraints": { "expires_at": in_seconds(3) } });
    let job = job_id(&session.submit(&slow, &constraints).await?)?;
    let end = session.end(&job).await?;
    same(&end, "/payload/code", "LEASE_EXPIRED")?;
    same(&end, "/payload/final_status", "error")?;
    same(&end, "/payload/retryable", false)
}

async fn budget_has_counters(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("cost.budget")?;
    let worker = session.worker()?;
    let lease = json!({ "lease_request": { "cost.budget": ["USD:5.00", "credits:1000"] } });
    let accepted = session.submit(&worker, &lease).await?;
    let budget = &accepted["payload"]["budget"];
    let are_right = budget["USD"].as_f64() == Some(5.0) && budget["credits"].as_f64() == Some(1000.0);
    ensure(are_right, "a `budget` of 5 USD and 1000 credits, as numbers", &accepted["payload"])
}

async fn amounts_have_a_form(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("cost.budget")?;
    let submit = json!({ "agent": session.worker()?, "input": {}, "lease_request": { "cost.budget": ["five dollars"] } });
    session.refused("job.submit", &submit, &["INVALID_REQUEST"]).await.map(drop)
}
