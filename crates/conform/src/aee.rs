//! Checks of AEE 1 (draft-cowles-aee-00) over HTTP.
//!
//! The draft has no transport. The kit posts an envelope as JSON to a path: a success means that it is accepted, a
//! status 4xx that it is rejected. The answer to a task is an envelope in that response, or in the sender's mailbox.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, failed, same, skipped, text};
use crate::site::{Answer, Site, Who, in_seconds};

checks! {
    "AEE §3", Must, task_is_accepted, "A well-formed task with all 14 members is accepted.";
    "AEE §6.1", Must, ten_members_suffice, "The ten required members suffice.";
    "AEE §6.1", Must, each_member_is_needed, "An envelope without one of the ten is rejected.";
    "AEE §6.2", Must, type_is_an_enum, "`type` is one of five, and nothing else.";
    "AEE §6.3", Must, result_needs_its_task, "A result without `reply_to` is rejected.";
    "AEE §6.3", Must, error_needs_its_task, "An error without `reply_to` is rejected.";
    "AEE §6.3", Must, reply_to_has_eight_characters, "A `reply_to` of a result has at least eight characters.";
    "AEE §6.4", Must, payload_is_an_object, "A payload is an object.";
    "AEE §6.5", Must, version_is_one, "`v` is the text `1`.";
    "AEE §6.6", Must, priority_is_an_enum, "`priority` is one of four, and nothing else.";
    "AEE §6.7", Must, unknown_members_are_ignored, "Unknown members are ignored.";
    "AEE §6.10", Must, unknown_requirements_are_ignored, "Unknown keys of `requires` are ignored.";
    "AEE §3 id", Must, id_has_eight_characters, "`id` and `corr` have at least eight characters.";
    "AEE §3 intent", Must, intent_has_three_characters, "`intent` has at least three characters.";
    "AEE §3 from", Must, names_are_not_empty, "`from` and `to` are not empty.";
    "AEE §4", Must, event_needs_no_task, "An event without `reply_to` is accepted.";
    "AEE §5", Must, people_and_services_take_part, "Names of people and services are names like any other.";
    "AEE §7.2", Should, log_line_is_no_envelope, "An envelope of five members (MVE-5) is not delivered.";
    "AEE §11.1", Should, id_is_accepted_once, "An `id` is accepted once: another envelope with it is rejected.";
    "AEE §11.2", Must, wrong_signature_is_rejected, "An envelope whose signature does not verify is rejected.";
    "AEE §11.5", Should, sender_is_oneself, "Nobody sends in the name of another agent.";
    "AEE §9.2", Should, ping_is_answered, "`aee.status.ping` is answered with `pong: true`.";
    "AEE §9.2", May, answer_refers_to_its_task, "An answer has the `corr` of its task, and the task's `id` as `reply_to`.";
    "AEE §9.2", May, health_is_a_word, "`aee.status.health` is answered with `healthy`, `degraded` or `unhealthy`.";
    "AEE §9.2", May, version_is_told, "`aee.spec.query` is answered with `aee_version`.";
    "AEE §9.2", May, capabilities_are_listed, "`aee.capability.list` is answered with the intents.";
    "AEE §7.1", May, answers_are_schema_valid, "The server's own envelopes have the ten required members.";
}

/// Returns the path that takes envelopes.
fn path(site: &Site) -> &str {
    site.options.path.as_deref().unwrap_or("/api/v1/aee/envelopes")
}

/// Returns the entity that answers the protocol's own intents.
fn peer(site: &Site) -> &str {
    site.options.peer.as_deref().unwrap_or("service.entente")
}

/// Returns a well-formed envelope of the first agent to itself: every server that delivers has that recipient.
fn envelope(site: &Site, kind: &str) -> Value {
    json!({
        "v": "1", "id": site.ulid(), "ts": in_seconds(0), "type": kind, "from": site.first_id(),
        "to": site.first_id(), "intent": "ops.backup.status.check", "corr": site.ulid(), "reply_to": null,
        "trace": null, "priority": "normal", "requires": null, "payload": { "cluster": "node.lan" }, "sig": null,
    })
}

/// Posts an envelope.
async fn post(site: &Site, envelope: &Value) -> Result<Answer, Finding> {
    site.post(path(site), envelope).send().await
}

/// Opens the first agent's mailbox, where a server needs that; then posts a well-formed task.
async fn try_task(site: &Site) -> Result<Answer, Finding> {
    if let Some(mailbox) = mailbox(site) {
        let _opened = site.request(reqwest::Method::PUT, &mailbox).json(&json!({})).send().await?;
    }
    post(site, &envelope(site, "task")).await
}

/// Skips the check unless a well-formed task is accepted: without that, nothing that is rejected says anything.
async fn ready(site: &Site) -> Result<(), Finding> {
    let answer = try_task(site).await?;
    if answer.is_ok() {
        return Ok(());
    }
    Err(skipped(format!("the server takes no well-formed task here: {}", answer.said())))
}

/// Returns the path of the first agent's mailbox.
fn mailbox(site: &Site) -> Option<String> {
    let base = path(site).strip_suffix("/envelopes")?;
    Some(format!("{base}/mailboxes/{}", site.first_id()))
}

/// Posts an envelope with these members, which is accepted.
async fn accepted(site: &Site, kind: &str, change: impl FnOnce(&mut Value)) -> Outcome {
    ready(site).await?;
    let mut envelope = envelope(site, kind);
    change(&mut envelope);
    post(site, &envelope).await?.ok().map(drop)
}

/// Posts an envelope with these members, which is rejected.
async fn rejected(site: &Site, kind: &str, change: impl FnOnce(&mut Value)) -> Outcome {
    rejected_or(site, kind, &[], change).await
}

/// Posts an envelope with these members, which is rejected, for which these statuses may stand as well.
async fn rejected_or(site: &Site, kind: &str, statuses: &[u16], change: impl FnOnce(&mut Value)) -> Outcome {
    ready(site).await?;
    let mut envelope = envelope(site, kind);
    change(&mut envelope);
    post(site, &envelope).await?.refused_or(statuses)
}

/// Removes a member.
fn without(envelope: &mut Value, name: &str) {
    if let Some(members) = envelope.as_object_mut() {
        members.remove(name);
    }
}

async fn task_is_accepted(site: &Site) -> Outcome {
    try_task(site).await?.ok().map(drop)
}

async fn ten_members_suffice(site: &Site) -> Outcome {
    let optional = ["reply_to", "trace", "requires", "sig"];
    accepted(site, "task", |envelope| optional.iter().for_each(|name| without(envelope, name))).await
}

async fn each_member_is_needed(site: &Site) -> Outcome {
    ready(site).await?;
    for name in ["v", "id", "ts", "type", "from", "to", "intent", "corr", "priority", "payload"] {
        let mut envelope = envelope(site, "task");
        without(&mut envelope, name);
        post(site, &envelope).await?.refused().map_err(|finding| match finding {
            Finding::Failed { expected, came } => failed(format!("{expected} without `{name}`"), came),
            skipped @ Finding::Skipped(_) => skipped,
        })?;
    }
    Ok(())
}

async fn type_is_an_enum(site: &Site) -> Outcome {
    rejected(site, "request", |_| {}).await
}

async fn result_needs_its_task(site: &Site) -> Outcome {
    rejected(site, "result", |_| {}).await
}

async fn error_needs_its_task(site: &Site) -> Outcome {
    rejected(site, "error", |envelope| without(envelope, "reply_to")).await
}

async fn reply_to_has_eight_characters(site: &Site) -> Outcome {
    rejected(site, "result", |envelope| envelope["reply_to"] = json!("seven77")).await
}

async fn payload_is_an_object(site: &Site) -> Outcome {
    rejected(site, "task", |envelope| envelope["payload"] = json!(["a", "list"])).await
}

async fn version_is_one(site: &Site) -> Outcome {
    rejected(site, "task", |envelope| envelope["v"] = json!("2")).await?;
    rejected(site, "task", |envelope| envelope["v"] = json!(1)).await
}

async fn priority_is_an_enum(site: &Site) -> Outcome {
    rejected(site, "task", |envelope| envelope["priority"] = json!("immediate")).await
}

async fn unknown_members_are_ignored(site: &Site) -> Outcome {
    accepted(site, "task", |envelope| envelope["x_later"] = json!({ "version": 2 })).await
}

async fn unknown_requirements_are_ignored(site: &Site) -> Outcome {
    accepted(site, "task", |envelope| envelope["requires"] = json!({ "x_later": true })).await
}

async fn id_has_eight_characters(site: &Site) -> Outcome {
    rejected(site, "task", |envelope| envelope["id"] = json!("seven77")).await?;
    rejected(site, "task", |envelope| envelope["corr"] = json!("seven77")).await
}

async fn intent_has_three_characters(site: &Site) -> Outcome {
    rejected(site, "task", |envelope| envelope["intent"] = json!("ab")).await
}

async fn names_are_not_empty(site: &Site) -> Outcome {
    // Nobody has that name, so the server may say that the recipient is not there.
    rejected_or(site, "task", &[404], |envelope| envelope["to"] = json!("")).await?;
    rejected(site, "task", |envelope| envelope["from"] = json!("")).await
}

async fn event_needs_no_task(site: &Site) -> Outcome {
    accepted(site, "event", |_| {}).await
}

async fn people_and_services_take_part(site: &Site) -> Outcome {
    ready(site).await?;
    for name in ["human.conform", "service.conform", "just-a-name"] {
        let mut envelope = envelope(site, "event");
        envelope["to"] = json!(name);
        let answer = post(site, &envelope).await?;
        // A server need not know the name, but its form is right.
        let is_taken = answer.is_ok() || answer.status == 404;
        ensure(is_taken, format!("a success, or 404 for an unknown recipient, for `{name}`"), answer.said())?;
    }
    Ok(())
}

async fn log_line_is_no_envelope(site: &Site) -> Outcome {
    ready(site).await?;
    let line = json!({
        "v": "1", "id": site.ulid(), "type": "event", "from": site.first_id(), "intent": "ops.log.line",
    });
    post(site, &line).await?.refused()
}

async fn id_is_accepted_once(site: &Site) -> Outcome {
    ready(site).await?;
    let mut envelope = envelope(site, "event");
    post(site, &envelope).await?.ok()?;
    envelope["payload"] = json!({ "cluster": "another" });
    post(site, &envelope).await?.refused()
}

async fn wrong_signature_is_rejected(site: &Site) -> Outcome {
    let value = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==";
    // The same key has just sent another envelope: 401 is about the signature.
    rejected_or(site, "task", &[401], |envelope| {
        envelope["sig"] = json!({ "alg": "ed25519", "kid": "conform-knows-no-such-key", "value": value });
    })
    .await
}

async fn sender_is_oneself(site: &Site) -> Outcome {
    let second = site.second_id()?;
    ready(site).await?;
    let by_second = |envelope: &Value| site.post(path(site), envelope).by(Who::Second);
    let mut own = envelope(site, "task");
    own["from"] = json!(second);
    by_second(&own).send().await?.twin()?;
    by_second(&envelope(site, "task")).send().await?.refused()
}

/// Returns the envelope within a value that answers the task.
fn answer_in<'a>(value: &'a Value, task: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) if members.get("reply_to").and_then(Value::as_str) == Some(task) => {
            Some(value)
        }
        Value::Object(members) => members.values().find_map(|one| answer_in(one, task)),
        Value::Array(items) => items.iter().find_map(|one| answer_in(one, task)),
        _ => None,
    }
}

/// Sends a task to the entity that answers the protocol's own intents; returns the task and its answer.
async fn asked(site: &Site, intent: &str) -> Result<(Value, Value), Finding> {
    ready(site).await?;
    let mut task = envelope(site, "task");
    task["to"] = json!(peer(site));
    task["intent"] = json!(intent);
    task["payload"] = json!({});
    let id = text(&task, "/id")?;
    let posted = post(site, &task).await?;
    if posted.status == 404 {
        return Err(skipped(format!("{} is not there, which answers: --peer", peer(site))));
    }
    let posted = posted.ok()?;
    if let Some(answer) = answer_in(&posted, &id) {
        return Ok((task, answer.clone()));
    }
    let Some(mailbox) = mailbox(site) else {
        return Err(skipped("the answer is not in the response, and there is no mailbox beside this path"));
    };
    let mut after = String::new();
    for _ in 0..20 {
        let page = site.get(&format!("{mailbox}{after}")).send().await?.ok()?;
        if let Some(answer) = answer_in(&page, &id) {
            return Ok((task, answer.clone()));
        }
        match page["next"].as_u64().or(page["cursor"].as_u64()).or(page["next_after"].as_u64()) {
            Some(next) if !after.ends_with(&format!("={next}")) => after = format!("?after={next}"),
            _ => sleep(Duration::from_millis(250)).await,
        }
    }
    Err(failed(format!("an answer with `reply_to` {id}"), "none in time"))
}

async fn ping_is_answered(site: &Site) -> Outcome {
    let (_, answer) = asked(site, "aee.status.ping").await?;
    same(&answer, "/type", "result")?;
    same(&answer, "/payload/pong", true)
}

async fn answer_refers_to_its_task(site: &Site) -> Outcome {
    let (task, answer) = asked(site, "aee.status.ping").await?;
    same(&answer, "/corr", task["corr"].clone())?;
    same(&answer, "/reply_to", task["id"].clone())?;
    same(&answer, "/to", site.first_id())
}

async fn health_is_a_word(site: &Site) -> Outcome {
    let (_, answer) = asked(site, "aee.status.health").await?;
    let status = text(&answer, "/payload/status")?;
    ensure(["healthy", "degraded", "unhealthy"].contains(&status.as_str()), "one of three words", status)
}

async fn version_is_told(site: &Site) -> Outcome {
    let (_, answer) = asked(site, "aee.spec.query").await?;
    ensure(answer["payload"].get("aee_version").is_some(), "`aee_version`", answer)
}

async fn capabilities_are_listed(site: &Site) -> Outcome {
    let (_, answer) = asked(site, "aee.capability.list").await?;
    let intents = answer["payload"]["intents"].as_array().cloned().unwrap_or_default();
    ensure(!intents.is_empty() && intents.iter().all(Value::is_string), "`intents` as texts", answer)
}

async fn answers_are_schema_valid(site: &Site) -> Outcome {
    let (_, answer) = asked(site, "aee.status.ping").await?;
    let names = ["v", "id", "ts", "type", "from", "to", "intent", "corr", "priority", "payload"];
    crate::finding::members(&answer, &names)?;
    same(&answer, "/v", "1")
}
