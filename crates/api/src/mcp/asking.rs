//! The tool that asks a human (binding moment). The response contains the moment three times: as
//! self-contained text, in `structuredContent`, and at the top of the result, where `endpoint.rs` puts it. A
//! host that can open pages may be sent to the person's inbox (elicitation by URL); the answer is never taken
//! from the host.

use std::fmt::Write as _;

use entente_bridges::Ctx;
use entente_domain::canonical::{Digest, sha256};
use entente_domain::clock::{plus_seconds, rfc3339};
use entente_domain::ids::{IntentId, JobId, MomentId};
use entente_domain::moments::text::{QuestionContext, text as as_text};
use entente_domain::moments::{Moment, MomentAsk, MomentState};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::slips::Slip;
use entente_http::body::{id, one};
use entente_http::error::Problem;
use entente_moments as moments;
use entente_moments::{Emitted, MomentView};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::moments::{STATES, hear, settled, told};
use super::shapes::{
    Member, flag, free, gives, list, may, must, nullable, retry_key, takes, text, whole, word,
};
use super::{Answer, Call, Hints, PersonPage, Tool, ToolResult, WAIT_SECONDS, within};

/// Seconds within which a host must return from the person's inbox.
const PAGE_SECONDS: u32 = 3_600;

/// Returns the tool of this file.
pub(super) fn tool() -> Tool {
    Tool {
        name: "ask_principal",
        title: "Ask a human for a decision",
        about: "Asks one human for a decision that is theirs: state your findings, recommend one option, and give a reason for \
                each option. Do not ask when you have no recommendation (use post_deliberation), when you may decide yourself, \
                or for facts that you can look up. The human answers on a page of their own; never answer for them. An expired \
                question is not approved.",
        takes: takes(ask_members()),
        example: json!({
            "principal": "human.ada", "synopsis": "Ship 1.4 today.",
            "findings": ["CI is green.", "Two of three approved.", "No blocker is open."],
            "recommendations": ["Tag v1.4.", "Publish it."], "offer": "Ask for detail.",
            "question": {
                "stem": "When should 1.4 ship?", "recommended_idx": 0,
                "options": [{ "label": "Ship now", "reasoning": "All checks pass." },
                            { "label": "Wait a day", "reasoning": "The third reviewer is back." }],
            },
        }),
        gives: gives(vec![
            must("moment_id", text("The question, `bm_…`.")),
            must("state", word("State of the question.", &STATES)),
            must("digest", nullable(text("SHA-256 over the canonical slots."))),
            must("expires_at", nullable(text("When the question expires."))),
            must("inbox_url", text("URL of the page on which the human answers.")),
            must(
                "lints",
                list(
                    free("A weakness of the question."),
                    "Remarks: withdraw the question to ask a better one, or leave it.",
                ),
            ),
            must("warnings", list(free("A warning."), "Warnings.")),
            must("binding_moment", nullable(free("The eight slots."))),
            must("resolution", nullable(free("The answer."))),
        ]),
        hints: Hints { emits_moments: true, ..Hints::adds() },
        names: &[("binding_moment", ""), ("principal_id", "principal"), ("expires_in", "expires_in_s")],
        run: |call| Box::pin(ask_principal(call)),
    }
}

fn ask_members() -> Vec<Member> {
    let option = takes(vec![
        must("label", text("The action that the option stands for.")),
        must("reasoning", text("Reason to choose it.")),
    ]);
    let hatches = takes(vec![
        must("free_text", flag("Allows an answer in their own words.")),
        must("dialogue", flag("Whether the human may refuse the question.")),
    ]);
    let question = takes(vec![
        must("stem", text("The question, in neutral words.")),
        must("options", list(option, "2 to 4 options.")),
        must("recommended_idx", whole("The option that you recommend, from 0.", 0, 3)),
        may("hatches", hatches),
    ]);
    let meta = takes(vec![
        may("decision_class", text("Class of the decision, in your own terms.")),
        may("calibration_note", text("Correction of your earlier framing.")),
    ]);
    vec![
        must("principal", text("The human to ask, such as `human.ada`.")),
        must("synopsis", text("Your position, in one sentence.")),
        must("findings", list(text("A fact, one per entry."), "Findings that support the position, 3 to 6.")),
        must(
            "recommendations",
            list(text("An action, one per entry."), "Actions that you recommend, 2 to 4."),
        ),
        must("offer", text("Further detail that you can give on request.")),
        must("question", question),
        may("meta", meta),
        may("hatch_justification", text("Reason for a closed hatch.")),
        may("supersedes", text("The refused question that this one replaces.")),
        may("objection_response", text("How you addressed the objection.")),
        may("expires_in_s", whole("Seconds until the question expires; defaults to a day.", 60, 2_592_000)),
        may("job_id", text("The job that waits for the answer.")),
        may("intent_id", text("The intent that the question concerns.")),
        may("wait_s", whole("Seconds to wait.", 0, i64::from(WAIT_SECONDS))),
        may("idempotency_key", retry_key("")),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskArgs {
    principal: String,
    synopsis: Option<Value>,
    findings: Option<Value>,
    recommendations: Option<Value>,
    offer: Option<Value>,
    question: Option<Value>,
    meta: Option<Value>,
    hatch_justification: Option<String>,
    supersedes: Option<String>,
    objection_response: Option<String>,
    expires_in_s: Option<u32>,
    job_id: Option<String>,
    intent_id: Option<String>,
    wait_s: Option<u32>,
    idempotency_key: Option<String>,
}

impl AskArgs {
    /// Returns the given slots for the domain's validation, without filling in missing ones.
    fn slots(&mut self) -> Value {
        let slots = [
            ("synopsis", self.synopsis.take()),
            ("findings", self.findings.take()),
            ("recommendations", self.recommendations.take()),
            ("offer", self.offer.take()),
            ("question", self.question.take()),
            ("meta", self.meta.take()),
        ];
        let given = slots.into_iter().filter_map(|(name, slot)| Some((name.to_owned(), slot?)));
        Value::Object(given.collect::<Map<String, Value>>())
    }
}

async fn ask_principal(call: Call) -> ToolResult {
    let mut said: AskArgs = call.read()?;
    let patience = within("wait_s", said.wait_s, 0, 0, WAIT_SECONDS)?;
    // The host of a task waits for it instead.
    let patience = if call.as_task { 0 } else { patience };
    // Refuses the call before asking anybody if it cannot wait: otherwise the model would ask again.
    let place = call.waits_for(patience)?;
    if let Some(sealed) = &call.brought_back {
        // The person has visited the page. The server's own record determines whether they answered.
        let about = opened(&call, sealed)?;
        let found = hear(&call, about, None, patience, place).await?;
        return asked(&call, &found, &[]);
    }
    let once = call.once_besides(said.idempotency_key.as_deref(), "ask_principal", "wait_s")?;
    let slots = said.slots();
    let caller = call.caller.acting_as(call.speaker()?);
    let ask = MomentAsk {
        principal_id: said.principal,
        hatch_justification: said.hatch_justification,
        supersedes: one("supersedes", said.supersedes)?,
        objection_response: said.objection_response,
        expires_in: said.expires_in_s,
        job_id: one::<JobId>("job_id", said.job_id)?,
        intent_id: one::<IntentId>("intent_id", said.intent_id)?,
        ..MomentAsk::default()
    };
    let Emitted { shown, warnings, .. } =
        moments::emit(&call.ctx().moments, &caller, &slots, ask, once.as_ref()).await?;
    let warnings: Vec<Value> =
        warnings.iter().map(|one| json!({ "code": one.code, "note": one.note })).collect();
    let open = shown.moment.state == MomentState::Open && patience > 0;
    if open && call.opens_pages {
        return Ok(Answer { page: page(&call, &shown.moment), ..asked(&call, &shown, &warnings)? });
    }
    let found = if open { hear(&call, shown.moment.id, None, patience, place).await? } else { shown };
    asked(&call, &found, &warnings)
}

/// Returns the URL of the page on which the person answers.
pub(super) fn inbox(call: &Call, id: MomentId) -> String {
    format!("{}/inbox/{id}", call.base)
}

/// Builds the answer for a question, with everything as text too, for hosts that show nothing else.
pub(super) fn asked(call: &Call, found: &MomentView, warnings: &[Value]) -> ToolResult {
    let moment = &found.moment;
    let url = inbox(call, moment.id);
    let mut body = json!({
        "moment_id": moment.id, "state": moment.state, "digest": moment.digest,
        "expires_at": moment.expires_at.map(rfc3339), "inbox_url": url, "lints": found.lints,
        "warnings": warnings, "binding_moment": moment.brief, "resolution": settled(moment),
    });
    let Some(brief) = moment.brief.as_ref().filter(|_| moment.state == MomentState::Open) else {
        // It is no longer an open question and must not look like one.
        body["binding_moment"] = Value::Null;
        return Answer::new(told(moment), &body);
    };
    let shown = QuestionContext {
        id: Some(moment.id),
        agent_id: None,
        expires_at: moment.expires_at,
        now: call.ctx().now(),
        objection_response: moment.objection_response.as_deref(),
        inbox_url: Some(&url),
    };
    let mut text = as_text(brief, &shown);
    for lint in &found.lints {
        let _never_fails = writeln!(text, "Remark ({}) at {}: {}", lint.code, lint.at, lint.note);
    }
    for warning in warnings {
        let _never_fails = writeln!(text, "Warning: {}", warning["note"].as_str().unwrap_or_default());
    }
    Ok(Answer { text, body, page: None })
}

/// Returns the page to which a host sends its person, with the state that the host returns.
fn page(call: &Call, moment: &Moment) -> Option<PersonPage> {
    let until = plus_seconds(call.ctx().now(), PAGE_SECONDS);
    let slip = Slip { whose: call.caller.agent.clone(), about: moment.id.to_string(), until };
    let synopsis = moment.brief.as_ref().map_or("", |brief| brief.synopsis.as_str());
    let message = format!("{} is asked to decide: {synopsis}", moment.principal_id);
    Some(PersonPage { url: inbox(call, moment.id), message, brought_back: slip.seal(&secret(call.ctx()))? })
}

/// Returns the question to which a host's returned state refers.
fn opened(call: &Call, sealed: &str) -> Result<MomentId, Problem> {
    let slip = Slip::open(sealed, &secret(call.ctx()), &call.caller.agent, call.ctx().now());
    let Some(slip) = slip else {
        let message =
            "`requestState` is none that this server gave you, or is too old. Use check_decision instead.";
        return Err(Refusal::new(Code::InvalidRequest, message).into());
    };
    id("moment", &slip.about)
}

/// Returns the key that seals request states, derived from the servers' shared key: any server can open them,
/// and none is stored.
fn secret(ctx: &Ctx) -> Digest {
    sha256(ctx.server_keys.signer.sign("entente: request states of MCP").to_bytes())
}
