//! The lines of a bundle as JSON. None of them has a secret: no key, no credential, no token of a claim; and none has a
//! person's words about a decision, which are removed some time after it (binding moment §12).

use entente_arcp::jobs::{IntentJob, Stored};
use entente_domain::bundles::put_json;
use entente_domain::canonical::show;
use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::identity::signatures::Signer;
use entente_domain::log::events::Tail;
use entente_domain::moments::receipts::{committed, receipt};
use entente_domain::moments::{Moment, PROFILE};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::intents::Intent;
use entente_domain::openintent::messages::Message;
use entente_domain::spending::Usage;
use entente_kernel::Outcome;
use serde_json::{Map, Value, json};

/// Returns the members that are there.
fn given(body: Value) -> Map<String, Value> {
    let Value::Object(mut members) = body else { return Map::new() };
    members.retain(|_, value| !value.is_null());
    members
}

fn at(time: Option<Timestamp>) -> Option<String> {
    time.map(rfc3339)
}

pub(super) fn channel(channel: &Channel) -> Map<String, Value> {
    given(json!({
        "id": channel.id, "name": channel.name, "created_by": channel.created_by, "task_id": channel.task_id,
        "members": channel.members, "member_policy": channel.member_policy, "options": channel.options.filled(),
        "status": channel.status, "created_at": rfc3339(channel.created_at), "closed_at": at(channel.closed_at),
        "message_count": channel.message_count,
    }))
}

pub(super) fn message(message: &Message) -> Map<String, Value> {
    let mut body = given(json!({
        "id": message.id, "number": message.number, "seq": message.seq, "channel_id": message.channel_id,
        "sender": message.sender, "to": message.to, "message_type": message.message_type,
        "correlation_id": message.correlation_id, "created_at": rfc3339(message.created_at),
        "expires_at": at(message.expires_at), "status": message.status, "read_at": at(message.read_at),
    }));
    put_json(&mut body, "payload", message.payload.as_str());
    if let Some(metadata) = &message.metadata {
        put_json(&mut body, "metadata", metadata.as_str());
    }
    body
}

pub(super) fn job(one: &IntentJob) -> Outcome<Map<String, Value>> {
    let (job, beside) = (&one.job, &one.beside);
    let mut body = given(json!({
        "job_id": job.id, "agent": job.agent, "principal": job.principal, "status": job.status,
        "parent_id": job.parent_id, "delegate_id": job.delegate_id, "attempt": job.attempt,
        "max_attempts": job.max_attempts, "trace_id": job.trace_id, "created_at": rfc3339(job.created_at),
        "ended_at": at(job.ended_at), "cancel_reason": job.cancel.as_ref().map(|cancel| &cancel.reason),
        "rerun_of": beside.links.rerun_of, "cost": beside.cost,
    }));
    if !beside.labels.is_empty() {
        body.insert("labels".to_owned(), serde_json::to_value(&beside.labels)?);
    }
    put_json(&mut body, "lease", &serde_json::to_string(&job.lease)?);
    if let Some(input) = &one.input {
        put_json(&mut body, "input", input);
    }
    Ok(body)
}

pub(super) fn job_event(event: &Stored) -> Map<String, Value> {
    let mut body = given(json!({
        "job_id": event.job_id, "job_seq": event.job_seq, "type": event.type_, "kind": event.kind,
        "ts": rfc3339(event.ts),
    }));
    put_json(&mut body, "body", &event.body);
    body
}

pub(super) fn budget(usage: &Usage) -> Map<String, Value> {
    let budget = &usage.budget;
    given(json!({
        "budget_id": budget.id, "name": budget.name, "scope": budget.scope.to_string(), "unit": budget.unit,
        "window": budget.window.as_str(), "time_zone": budget.time_zone, "amount": budget.limit,
        "created_by": budget.created_by, "created_at": rfc3339(budget.created_at),
        "closed_at": at(budget.closed_at), "starts_at": rfc3339(usage.starts_at), "ends_at": at(usage.ends_at),
        "raised": usage.raised, "spent": usage.spent, "reserved": usage.reserved,
    }))
}

pub(super) fn decision(moment: &Moment, signer: &Signer) -> Map<String, Value> {
    given(json!({
        "moment_id": moment.id, "agent_id": moment.agent_id, "principal_id": moment.principal_id,
        "profile": PROFILE, "job_id": moment.job_id, "corr": moment.corr, "state": moment.state,
        "decision_class": moment.decision_class, "supersedes": moment.supersedes,
        "superseded_by": moment.superseded_by, "created_at": rfc3339(moment.created_at),
        "expires_at": at(moment.expires_at), "first_viewed_at": at(moment.first_viewed_at),
        "ended_at": at(moment.ended_at), "digest": moment.digest, "brief": moment.brief,
        "resolution": committed(moment), "receipt": receipt(moment, signer),
    }))
}

pub(super) fn child(intent: &Intent, end: Option<&Tail>) -> Map<String, Value> {
    given(json!({
        "id": intent.id, "title": intent.title, "status": intent.status, "version": intent.version,
        "created_by": intent.created_by, "created_at": rfc3339(intent.created_at),
        "updated_at": rfc3339(intent.updated_at), "event_count": end.map_or(0, |end| end.sequence),
        "head": end.and_then(|end| end.head.as_ref()).map(show),
    }))
}
