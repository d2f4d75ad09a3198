//! The foundations of channels: versions of an intent (RFC-0001) and leases (RFC-0003). Optional here: RFC-0021
//! requires those documents, and servers of channels alone need not have all of them.

use serde_json::{Value, json};

use super::{at, intent};
use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, same, skipped, text};
use crate::site::{Answer, Site, Who};

checks! {
    "RFC-0001 state", May, state_is_patched, "A patch of the state under the current version raises the version.";
    "RFC-0001 If-Match", May, stale_version_is_refused, "A patch under an older version is 409 or 412, and changes nothing.";
    "RFC-0001 If-Match", May, version_is_needed, "A patch without a version is refused.";
    "RFC-0001 events", May, change_is_an_event, "A change of the state is an event of the intent.";
    "RFC-0003 leases", May, scope_has_one_holder, "A scope that is leased is not leased to another agent: 409.";
    "RFC-0003 leases", May, lease_is_released, "A released scope can be leased again.";
}

async fn patch(site: &Site, intent: &Value, version: Option<&Value>) -> Result<Answer, Finding> {
    let path = at(site, &format!("/intents/{}/state", text(intent, "/id")?));
    let body = json!({ "patches": [{ "op": "set", "path": "progress", "value": 0.5 }] });
    let request = site.post(&path, &body);
    match version {
        Some(version) => request.header("if-match", &version.to_string()).send().await,
        None => request.send().await,
    }
}

async fn state_is_patched(site: &Site) -> Outcome {
    let intent = intent(site).await?;
    let patched = patch(site, &intent, Some(&intent["version"])).await?.ok()?;
    same(&patched, "/state/progress", 0.5)?;
    let raised = patched["version"].as_i64() > intent["version"].as_i64();
    ensure(raised, "a higher version", &patched)
}

async fn stale_version_is_refused(site: &Site) -> Outcome {
    let intent = intent(site).await?;
    let patched = patch(site, &intent, Some(&intent["version"])).await?.ok()?;
    patch(site, &intent, Some(&intent["version"])).await?.is(&[409, 412])?;
    let read = site.get(&at(site, &format!("/intents/{}", text(&intent, "/id")?))).send().await?.ok()?;
    same(&read, "/version", patched["version"].clone())
}

async fn version_is_needed(site: &Site) -> Outcome {
    let intent = intent(site).await?;
    // 428 is made for it.
    patch(site, &intent, None).await?.refused_or(&[428])?;
    // Afterwards: the version is another one then.
    patch(site, &intent, Some(&intent["version"])).await?.twin().map(drop)
}

async fn change_is_an_event(site: &Site) -> Outcome {
    let intent = intent(site).await?;
    patch(site, &intent, Some(&intent["version"])).await?.ok()?;
    let path = at(site, &format!("/intents/{}/events", text(&intent, "/id")?));
    let found = site.get(&path).send().await?.ok()?;
    ensure(found.to_string().contains("state_patched"), "an event `state_patched`", found)
}

/// Leases a scope of an intent to somebody.
async fn lease(site: &Site, intent: &Value, who: Who) -> Result<Answer, Finding> {
    let holder = site.agent(who).map_or(site.first_id(), |agent| &agent.id);
    let path = at(site, &format!("/intents/{}/leases", text(intent, "/id")?));
    let body = json!({ "scope": "section-1", "duration_seconds": 60, "agent_id": holder });
    let leased = site.post(&path, &body).by(who).send().await?;
    if leased.status == 404 || leased.status == 405 {
        return Err(skipped("the server has no leases (RFC-0003)"));
    }
    Ok(leased)
}

async fn scope_has_one_holder(site: &Site) -> Outcome {
    site.second_id()?;
    let intent = intent(site).await?;
    lease(site, &intent, Who::First).await?.ok()?;
    lease(site, &intent, Who::Second).await?.is(&[409]).map(drop)
}

async fn lease_is_released(site: &Site) -> Outcome {
    site.second_id()?;
    let intent = intent(site).await?;
    let lease_id = text(&lease(site, &intent, Who::First).await?.ok()?, "/id")?;
    let path = at(site, &format!("/intents/{}/leases/{lease_id}", text(&intent, "/id")?));
    site.request(reqwest::Method::DELETE, &path).send().await?.ok()?;
    lease(site, &intent, Who::Second).await?.ok().map(drop)
}
