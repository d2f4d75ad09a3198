//! Delegation by an event (ARCP §10): an agent gives a part of its job to another agent by emitting `delegate`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::ask::{Constraints, Submit};
use super::beyond::Beyond;
use super::limits::Concurrency;
use crate::refusal::{Code, Refusal};

#[derive(Deserialize)]
struct Mentioned {
    delegate_id: Option<IgnoredAny>,
    child_job_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct DelegateBody {
    delegate_id: String,
    agent: String,
    #[serde(default)]
    input: Option<Box<RawValue>>,
    #[serde(default)]
    lease_request: Option<BTreeMap<String, Vec<String>>>,
    #[serde(default)]
    lease_constraints: Option<Constraints>,
    #[serde(default)]
    max_runtime_sec: Option<i64>,
    #[serde(default)]
    priority: Option<i64>,
    #[serde(default)]
    concurrency: Option<Concurrency>,
    #[serde(default, rename = "x-entente")]
    x_entente: Option<Beyond>,
}

/// Returns the child that the `index`th event of a request asks for, from the body of a `delegate` event.
///
/// `None` if it asks for none: it tells of a child that exists already (`child_job_id`, ARCP-W-5.6), or lacks a
/// `delegate_id`, under which a child is created once.
///
/// # Errors
/// [`Code::InvalidRequest`] for a body that asks for a child and cannot be read.
pub fn asked(index: usize, body: &RawValue) -> Result<Option<Submit>, Refusal> {
    let wrong = |e: serde_json::Error| {
        let why = e.to_string();
        let why = why.split(" at line ").next().unwrap_or("it has the wrong shape");
        let message =
            format!("`body` of the event at place {index} is wrong: {why}. Nothing of the request was kept.");
        Refusal::field(Code::InvalidRequest, "body", "value", message)
    };
    let mentioned: Mentioned = serde_json::from_str(body.get()).map_err(wrong)?;
    if mentioned.delegate_id.is_none() || mentioned.child_job_id.is_some() {
        return Ok(None);
    }
    let said: DelegateBody = serde_json::from_str(body.get()).map_err(wrong)?;
    Ok(Some(Submit {
        agent: said.agent,
        input: said.input,
        lease_request: said.lease_request,
        lease_constraints: said.lease_constraints,
        max_runtime_sec: said.max_runtime_sec,
        delegate_id: Some(said.delegate_id),
        priority: said.priority,
        concurrency: said.concurrency,
        x_entente: said.x_entente,
        ..Submit::default()
    }))
}
