//! Tools for binding moments, for agents: asking a person, checking for the answer, deliberating,
//! withdrawing. There are no tools for the person's side, because tools are called with an agent's key.
//!
//! Asking is in `asking.rs`.

use std::time::Duration;

use entente_domain::clock::rfc3339;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{IntentId, JobId, MomentId};
use entente_domain::limits::MOMENT_PAGE;
use entente_domain::moments::{Moment, MomentAsk, MomentState};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{id, one};
use entente_http::error::Problem;
use entente_kernel::StreamPermit;
use entente_moments as moments;
use entente_moments::{MomentFilter, MomentView};
use serde::Deserialize;
use serde_json::{Value, json};

use super::shapes::{any, flag, free, gives, list, may, must, nullable, retry_key, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, WAIT_SECONDS, asking, within};

/// Default page size of lists.
const STEP: u32 = 20;

/// The states of a decision.
pub(super) const STATES: [&str; 7] =
    ["open", "deliberating", "resolved", "withdrawn", "expired", "superseded", "closed"];

/// Returns the tools of this file.
pub fn tools() -> [Tool; 5] {
    [asking::tool(), check_tool(), list_tool(), deliberate_tool(), withdraw_tool()]
}

fn check_tool() -> Tool {
    Tool {
        name: "check_decision",
        title: "Check a human's decision",
        about: "Returns the state of a question to a human, and the answer: an option, their own words, or a refusal of the \
                question. After a refusal, answer the objection with post_deliberation before you ask again with `supersedes`. \
                With `wait_s`, it waits while the question is open; with `seen` as well, also for news of a deliberation.",
        takes: takes(vec![
            must("moment_id", text("The question, `bm_…`.")),
            may("wait_s", whole("Seconds to wait for news; defaults to 0.", 0, i64::from(WAIT_SECONDS))),
            may("seen", whole("Waits until `version` is another.", 0, i64::MAX)),
            may("ack", flag("Confirm receipt of the answer.")),
        ]),
        example: json!({ "moment_id": "bm_…", "wait_s": 25 }),
        gives: decision(),
        hints: Hints::marks(),
        names: &[],
        run: |call| Box::pin(check_decision(call)),
    }
}

fn list_tool() -> Tool {
    let found = gives(vec![
        must("moment_id", text("The question.")),
        must("principal", text("The human that is asked.")),
        must("state", word("State of the question.", &STATES)),
        must("stem", json!({ "type": ["string", "null"] })),
        must("resolution", nullable(free("The answer."))),
    ]);
    Tool {
        name: "list_decisions",
        title: "List decisions",
        about: "Lists your questions to humans, newest first, with the answers.",
        takes: takes(vec![
            may("state", word("Only questions in this state.", &STATES)),
            may("principal", text("Only questions to this human.")),
            may("job_id", text("Only questions of this job.")),
            may("intent_id", text("Only questions of this intent.")),
            may("limit", whole("At most; defaults to 20.", 1, i64::from(MOMENT_PAGE))),
            may("cursor", text("`next_cursor` of the last answer.")),
        ]),
        example: json!({ "state": "open" }),
        gives: gives(vec![
            must("decisions", list(found, "The questions.")),
            must("next_cursor", json!({ "type": ["string", "null"] })),
        ]),
        hints: Hints::reads(),
        names: &[],
        run: |call| Box::pin(list_decisions(call)),
    }
}

fn deliberate_tool() -> Tool {
    Tool {
        name: "post_deliberation",
        title: "Talk with a human before a decision",
        about: "Adds a message to a question (`moment_id`): answers an objection, or a request for detail. Or begins a \
                deliberation with a human (`principal`) when you have no recommendation yet. It asks for no decision.",
        takes: takes(vec![
            must("text", text("Text of the message.")),
            may("moment_id", text("The question, or else `principal`.")),
            may("principal", text("The human to begin a deliberation with.")),
            may("job_id", text("The job that waits for the deliberation.")),
            may("intent_id", text("The intent that the deliberation concerns.")),
            may("idempotency_key", retry_key("")),
        ]),
        example: json!({ "moment_id": "bm_…", "text": "You are right: the line was never decided." }),
        gives: changed(),
        hints: Hints::adds(),
        names: &[("principal_id", "principal")],
        run: |call| Box::pin(post_deliberation(call)),
    }
}

fn withdraw_tool() -> Tool {
    Tool {
        name: "withdraw_decision",
        title: "Withdraw a question",
        about: "Withdraws a question that the human has neither answered nor refused.",
        takes: takes(vec![
            must("moment_id", text("The question, `bm_…`.")),
            may("reason", text("Reason for the withdrawal.")),
        ]),
        example: json!({ "moment_id": "bm_…", "reason": "The release was cancelled." }),
        gives: changed(),
        hints: Hints::ends(),
        names: &[],
        run: |call| Box::pin(withdraw_decision(call)),
    }
}

fn resolution() -> Value {
    gives(vec![
        must("kind", word("Kind of answer.", &["option", "free_text", "dialogue"])),
        must("by", text("The human that answered.")),
        may("option_idx", json!({ "type": "integer" })),
        may("label", text("Label of the chosen option.")),
        may("answer", text("The answer in the human's own words.")),
        may("objection", text("Objection to the question.")),
    ])
}

/// Returns the schema of a question that its agent has changed.
fn changed() -> Value {
    gives(vec![
        must("moment_id", text("The question.")),
        must("state", word("State of the question.", &STATES)),
        must("words", list(any("A message."), "The messages, oldest first.")),
        must("version", json!({ "type": "integer" })),
    ])
}

fn decision() -> Value {
    gives(vec![
        must("moment_id", text("The question.")),
        must("principal", text("The human that is asked.")),
        must("state", word("State of the question.", &STATES)),
        must("resolution", nullable(resolution())),
        must("words", list(any("A message."), "The messages, oldest first.")),
        must(
            "version",
            json!({ "type": "integer", "description": "Increases with each change; pass it as `seen` to check_decision." }),
        ),
    ])
}

/// Returns a moment without its slots: the agent knows them, and a host could take them for a new question.
pub(super) fn shown(shown: &MomentView) -> Value {
    let moment = &shown.moment;
    let words: Vec<Value> = shown
        .words
        .iter()
        .map(|word| json!({ "author": word.author, "kind": word.kind, "text": word.text, "at": rfc3339(word.said_at) }))
        .collect();
    json!({
        "moment_id": moment.id, "agent": moment.agent_id, "principal": moment.principal_id, "state": moment.state,
        "resolution": settled(moment), "words": words, "expires_at": moment.expires_at.map(rfc3339),
        "ended_at": moment.ended_at.map(rfc3339), "end_reason": moment.end_reason,
        "superseded_by": moment.superseded_by, "version": moment.version,
    })
}

pub(super) fn settled(moment: &Moment) -> Value {
    let Some(settled) = &moment.resolution else { return Value::Null };
    let mut told = json!({
        "kind": settled.kind, "by": settled.by, "at": rfc3339(settled.at), "via": settled.via,
    });
    let options = moment.brief.as_ref().map(|brief| &brief.question.options);
    if let Some(index) = settled.option_idx {
        told["option_idx"] = json!(index);
        if let Some(option) = options.and_then(|options| options.get(index)) {
            told["label"] = json!(option.label);
        }
    }
    for (name, words) in [("answer", &settled.answer), ("objection", &settled.objection)] {
        if let Some(words) = words {
            told[name] = json!(words);
        }
    }
    told
}

/// Describes the state of a question in one sentence.
pub(super) fn told(moment: &Moment) -> String {
    let answer = settled(moment);
    let words = |name: &str| answer[name].as_str().unwrap_or("").to_owned();
    let (id, who) = (moment.id, moment.resolution.as_ref().map_or("", |settled| settled.by.as_str()));
    match (moment.state, answer["kind"].as_str()) {
        (_, Some("option")) => {
            format!(
                "{who} chose option {} of {id}: {}.",
                answer["option_idx"].as_u64().unwrap_or(0) + 1,
                words("label")
            )
        }
        (_, Some("free_text")) => format!("{who} answered {id} in their own words: {}", words("answer")),
        (MomentState::Deliberating, Some(_)) => format!(
            "{who} refused the question {id}: {} Answer with post_deliberation before you ask anew.",
            words("objection")
        ),
        (MomentState::Open, _) => format!("{id} waits for {}.", moment.principal_id),
        (MomentState::Expired, _) => format!("{id} has lapsed unanswered. Nothing is approved by that."),
        (state, _) => format!("{id} is {}.", state.as_str()),
    }
}

fn told_of(found: &MomentView) -> ToolResult {
    Answer::new(told(&found.moment), &shown(found))
}

/// Waits for a change of a question, or of its version `seen`, under the given permit; without a permit,
/// returns immediately.
pub(super) async fn hear(
    call: &Call,
    id: MomentId,
    seen: Option<i64>,
    patience: u32,
    place: Option<StreamPermit>,
) -> Result<MomentView, Problem> {
    let (ctx, caller) = (call.ctx(), &call.caller);
    let Some(_place) = place else { return Ok(moments::get(&ctx.moments, caller, id).await?) };
    let time = Duration::from_secs(u64::from(patience));
    match call.unless_stopping(moments::wait(&ctx.moments, caller, id, seen, time)).await {
        Some(found) => Ok(found?),
        None => Ok(moments::get(&ctx.moments, caller, id).await?),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckArgs {
    moment_id: String,
    wait_s: Option<u32>,
    seen: Option<i64>,
    #[serde(default)]
    ack: bool,
}

async fn check_decision(call: Call) -> ToolResult {
    let said: CheckArgs = call.read()?;
    let about = id("moment", &said.moment_id)?;
    let patience = within("wait_s", said.wait_s, 0, 0, WAIT_SECONDS)?;
    let found = hear(&call, about, said.seen, patience, call.waits_for(patience)?).await?;
    if said.ack && found.moment.state.is_terminal() {
        // The decision was read before, because acknowledging may scrub its text.
        moments::acknowledge(&call.ctx().moments, &call.caller, about).await?;
    }
    told_of(&found)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    state: Option<MomentState>,
    principal: Option<String>,
    job_id: Option<String>,
    intent_id: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

async fn list_decisions(call: Call) -> ToolResult {
    let said: ListArgs = call.read()?;
    let before = said.cursor.map(|text| {
        let message = "`cursor` is none of this list's. Begin without one.";
        let refused = || Refusal::field(Code::InvalidRequest, "cursor", "value", message);
        text.parse::<MomentId>().map_err(|_no_id| refused())
    });
    let filter = MomentFilter {
        state: said.state,
        principal: said.principal,
        agent: Some(call.caller.agent.clone()),
        class: None,
        job: said.job_id.as_deref().map(|text| id::<JobId>("job", text)).transpose()?,
        intent: said.intent_id.as_deref().map(|text| id::<IntentId>("intent", text)).transpose()?,
        limit: within("limit", said.limit, STEP, 1, MOMENT_PAGE)?,
        before: before.transpose()?,
    };
    let (found, next) = moments::list(&call.ctx().moments, &call.caller, &filter).await?;
    let decisions: Vec<Value> = found.iter().map(listed).collect();
    let body = json!({ "decisions": decisions, "next_cursor": next });
    Answer::new(format!("{} decision(s).", decisions.len()), &body)
}

/// Returns a question of a list: without its messages, which lists do not read, and with its stem.
fn listed(found: &MomentView) -> Value {
    let mut body = shown(found);
    if let Some(members) = body.as_object_mut() {
        members.remove("words");
    }
    body["stem"] = json!(found.moment.brief.as_ref().map(|brief| brief.question.stem.as_str()));
    body
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeliberateArgs {
    text: String,
    moment_id: Option<String>,
    principal: Option<String>,
    job_id: Option<String>,
    intent_id: Option<String>,
    idempotency_key: Option<String>,
}

async fn post_deliberation(call: Call) -> ToolResult {
    let said: DeliberateArgs = call.read()?;
    // Neither the text nor its hash is stored under the idempotency key, because a short text could be
    // guessed; its subject is.
    let key = said.idempotency_key.as_deref();
    let once = |about: String| {
        key.map(|key| Idempotency::new(key, &format!("MCP post_deliberation {about}"), &[])).transpose()
    };
    let caller = call.caller.acting_as(call.speaker()?);
    let found = match (said.moment_id, said.principal) {
        (Some(moment), None) => {
            let moment: MomentId = id("moment", &moment)?;
            let once = once(moment.to_string())?;
            moments::word(&call.ctx().moments, &caller, moment, &said.text, once.as_ref()).await?
        }
        (None, Some(principal_id)) => {
            let ask = MomentAsk {
                principal_id,
                job_id: one::<JobId>("job_id", said.job_id)?,
                intent_id: one::<IntentId>("intent_id", said.intent_id)?,
                ..MomentAsk::default()
            };
            let once = once(ask.begins())?;
            moments::deliberate(&call.ctx().moments, &caller, ask, &said.text, once.as_ref()).await?.shown
        }
        _ => {
            let message =
                "Say `moment_id`, the question that this is about, or `principal`, with whom to begin.";
            return Err(Refusal::field(Code::InvalidRequest, "moment_id", "missing", message).into());
        }
    };
    told_of(&found)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithdrawArgs {
    moment_id: String,
    reason: Option<String>,
}

async fn withdraw_decision(call: Call) -> ToolResult {
    let said: WithdrawArgs = call.read()?;
    let about = id("moment", &said.moment_id)?;
    told_of(&moments::withdraw(&call.ctx().moments, &call.caller, about, said.reason).await?)
}
