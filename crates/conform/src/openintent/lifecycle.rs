//! How channels end, and the records that an audit keeps (RFC-0021 §1.3, §6 and §7).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{at, channel_of, hold_role, intent, intent_id, notify, read_channel, send, sending};
use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, failed, list, same, skipped, text};
use crate::site::{Answer, Site, Who};

checks! {
    "RFC-0021 §1.3", Must, channel_closes, "A channel is closed by its status, and `closed_at` says when.";
    "RFC-0021 §1.3", Must, closed_takes_nothing, "A closed channel takes no message.";
    "RFC-0021 §1.3 ttl_seconds", Must, channel_times_out, "A channel closes when its time to live is over.";
    "RFC-0021 §7.1", Must, intent_closes_channels, "A completed intent closes its channels.";
    "RFC-0021 §7.1", Must, intent_expires_requests, "A completed intent expires its pending requests.";
    "RFC-0021 §7.2", Must, departure_leaves_channels, "A deregistered agent leaves the members of all channels.";
    "RFC-0021 §7.3", Must, task_closes_channels, "A completed task closes the channels that belong to it.";
    "RFC-0021 §6", Must, audit_is_an_event, "Each message of an audited channel is an event `channel_message` of the intent.";
    "RFC-0021 §6", Must, audit_has_the_message, "That event has the channel, the message's id and type, and its payload.";
    "RFC-0021 §6", Must, audit_keeps_the_trace, "The `trace_id` of the message's metadata is that of its event.";
    "RFC-0021 §6", Must, no_audit_no_event, "A message of another channel is no event.";
}

async fn channel_closes(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let channel = channel_of(site, &intent, json!({})).await?;
    let path = at(site, &format!("/channels/{channel}"));
    let closed = site.patch(&path, &json!({ "status": "closed" })).send().await?.ok()?;
    same(&closed, "/status", "closed")?;
    text(&read_channel(site, &channel).await?, "/closed_at").map(drop)
}

async fn closed_takes_nothing(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let channel = channel_of(site, &intent, json!({})).await?;
    let sending = || sending(site, &channel, Who::First, json!({ "message_type": "notify" }));
    sending().send().await?.twin()?;
    let path = at(site, &format!("/channels/{channel}"));
    site.patch(&path, &json!({ "status": "closed" })).send().await?.ok()?;
    // The channel took messages, so these say that it is gone for them.
    sending().send().await?.refused_or(&[404, 410])
}

/// Waits until a channel is closed.
async fn closes(site: &Site, channel: &str, seconds: u64) -> Outcome {
    let mut read = Value::Null;
    for _ in 0..=seconds * 2 {
        read = read_channel(site, channel).await?;
        if read["status"] == json!("closed") {
            return Ok(());
        }
        sleep(Duration::from_millis(500)).await;
    }
    Err(failed(format!("a closed channel within {seconds} s"), read))
}

async fn channel_times_out(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let channel = channel_of(site, &intent, json!({ "options": { "ttl_seconds": 3 } })).await?;
    notify(site, &channel, 1).await?;
    closes(site, &channel, 8).await
}

/// Completes an intent, by way of `active`.
async fn complete(site: &Site, intent: &Value) -> Result<(), Finding> {
    let path = at(site, &format!("/intents/{}/status", text(intent, "/id")?));
    let mut version = intent["version"].clone();
    for status in ["active", "completed"] {
        let changed = site.post(&path, &json!({ "status": status })).header("if-match", &version.to_string());
        version = changed.send().await?.ok()?["version"].clone();
    }
    Ok(())
}

async fn intent_closes_channels(site: &Site) -> Outcome {
    let intent = intent(site).await?;
    let channel = channel_of(site, &text(&intent, "/id")?, json!({})).await?;
    complete(site, &intent).await?;
    closes(site, &channel, 2).await
}

async fn intent_expires_requests(site: &Site) -> Outcome {
    let intent = intent(site).await?;
    let channel = channel_of(site, &text(&intent, "/id")?, json!({})).await?;
    let body = json!({ "message_type": "request", "to": "agent.conform-other" });
    let id = text(&send(site, &channel, Who::First, body).await?, "/id")?;
    complete(site, &intent).await?;
    let path = at(site, &format!("/channels/{channel}/messages/{id}"));
    same(&site.get(&path).send().await?.ok()?, "/status", "expired")
}

async fn departure_leaves_channels(site: &Site) -> Outcome {
    let second = hold_role(site, Who::Second).await?;
    let intent = intent_id(site).await?;
    let body = json!({ "member_policy": "explicit", "members": [site.first_id(), second] });
    let channel = channel_of(site, &intent, body).await?;
    let path = at(site, &format!("/agents/{second}"));
    site.request(reqwest::Method::DELETE, &path).by(Who::Second).send().await?.ok()?;
    let read = read_channel(site, &channel).await?;
    ensure(!list(&read["members"])?.contains(&json!(second)), format!("members without {second}"), &read)
}

async fn task_closes_channels(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let task = site.post(&at(site, "/tasks"), &json!({ "intent_id": intent, "name": "read" })).send().await?;
    if !(200..300).contains(&task.status) {
        return Err(skipped(format!("the server has no tasks (RFC-0012): {}", task.said())));
    }
    let task = task.body;
    let id = text(&task, "/id")?;
    let channel = channel_of(site, &intent, json!({ "task_id": id })).await?;
    // Servers differ in which steps lead to the end; only the last one counts.
    let (mut version, mut last) = (task["version"].clone(), None);
    for status in ["claimed", "running", "completed"] {
        let body = json!({ "status": status, "assigned_agent": site.first_id() });
        let step =
            site.patch(&at(site, &format!("/tasks/{id}")), &body).header("if-match", &version.to_string());
        let step = step.send().await?;
        if let Some(next) = step.body.get("version") {
            version = next.clone();
        }
        last = Some(step);
    }
    last.map(Answer::ok).transpose()?;
    closes(site, &channel, 2).await
}

/// Returns the events of an intent.
async fn events(site: &Site, intent: &str) -> Result<Vec<Value>, Finding> {
    let found = site.get(&at(site, &format!("/intents/{intent}/events"))).send().await?.ok()?;
    list(found.get("events").unwrap_or(&found)).cloned()
}

/// Sends a message, and returns its id.
async fn traced(site: &Site, channel: &str) -> Result<String, Finding> {
    let body = json!({
        "message_type": "notify", "payload": { "n": 42 },
        "metadata": { "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736" },
    });
    text(&send(site, channel, Who::First, body).await?, "/id")
}

/// Sends a message to a channel with an audit, and returns the intent's event that names it.
async fn audited(site: &Site) -> Result<Value, Finding> {
    let intent = intent_id(site).await?;
    let channel = channel_of(site, &intent, json!({ "options": { "audit": true } })).await?;
    let id = traced(site, &channel).await?;
    let mut events = events(site, &intent).await?;
    events.retain(|event| event["payload"]["message_id"] == json!(id));
    events.into_iter().next().ok_or_else(|| failed(format!("an event of the message {id}"), "none"))
}

async fn audit_is_an_event(site: &Site) -> Outcome {
    let one = audited(site).await?;
    same(&one, "/event_type", "channel_message")?;
    same(&one, "/actor", site.first_id())
}

async fn audit_has_the_message(site: &Site) -> Outcome {
    let one = audited(site).await?;
    text(&one, "/payload/channel_id")?;
    text(&one, "/payload/channel_name")?;
    same(&one, "/payload/message_type", "notify")?;
    same(&one, "/payload/payload/n", 42)
}

async fn audit_keeps_the_trace(site: &Site) -> Outcome {
    same(&audited(site).await?, "/trace_id", "4bf92f3577b34da6a3ce929d0e0e4736")
}

async fn no_audit_no_event(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let channel = channel_of(site, &intent, json!({ "options": { "audit": false } })).await?;
    let before = events(site, &intent).await?;
    traced(site, &channel).await?;
    // Whatever form an event of the message has, it is one more.
    let after = events(site, &intent).await?;
    ensure(after.len() == before.len(), format!("the {} events of before", before.len()), Value::Array(after))
}
