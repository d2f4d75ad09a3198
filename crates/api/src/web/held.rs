//! Tasks of envelopes that wait for a person's approval (`requires.human_approval`, AEE §3), in the inbox of
//! the possible approvers: their content and the two decisions. `aee/src/approvals.rs` determines the
//! approvers; nobody else sees the tasks.

use actix_web::web;
use entente_aee::approvals;
use entente_aee::approvals::Waiting;
use entente_bridges::Ctx;
use entente_domain::aee::envelopes::approvals::Decision;
use entente_domain::aee::envelopes::receipt::{SigCheck, Verified};
use entente_domain::aee::envelopes::signing::Scope;
use entente_domain::clock::Timestamp;
use entente_kernel::{Caller, Outcome};
use serde::Deserialize;
use serde_json::Value;

use super::guard::{Form, PageResult};
use super::see;
use super::words::When;
use crate::ApiState;

/// Maximum number of tasks listed: one of each sender comes first, and others follow as these are decided.
pub const SHOWN: u32 = 20;

/// Seconds before a deadline from which it is highlighted.
const CLOSE: i64 = 3_600;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/inbox/held", web::post().to(decide));
}

/// A task that waits for approval.
pub struct Task {
    pub id: String,
    pub sender: String,
    pub respondents: String,
    pub purpose: String,
    pub priority: &'static str,
    /// Warning if the signature covers less than one would expect.
    pub note: Option<&'static str>,
    pub asked: When,
    pub deadline: Option<When>,
    pub close: bool,
    /// Payload, as text.
    pub payload: String,
}

/// Returns the tasks that wait for the visitor's approval.
pub async fn tasks(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<Task>> {
    let waiting = approvals::offered(&ctx.aee, caller, SHOWN).await?;
    let now = ctx.now();
    waiting.into_iter().map(|one| task(one, now)).collect()
}

fn task(waiting: Waiting, now: Timestamp) -> Outcome<Task> {
    let Waiting { task, respondents } = waiting;
    let envelope: Value = serde_json::from_str(&task.body)?;
    let receipt = task.receipt;
    let note = match &receipt.verified {
        Verified { scope: Some(Scope::Core), .. } => Some("only its core is signed"),
        Verified { sig: Some(SigCheck::Unverified), .. } => Some("its signature is not verified"),
        _ => None,
    };
    Ok(Task {
        id: task.id,
        sender: task.sender,
        respondents: respondents.join(", "),
        purpose: task.purpose,
        priority: receipt.effective_priority.as_str(),
        note,
        asked: When::new(receipt.received_at, now),
        close: receipt.deadline.is_some_and(|end| (end - now).num_seconds() < CLOSE),
        deadline: receipt.deadline.map(|end| When::new(end, now)),
        payload: serde_json::to_string_pretty(&envelope["payload"])?,
    })
}

#[derive(Deserialize)]
struct DecisionForm {
    id: String,
    decision: Decision,
    reason: Option<String>,
}

async fn decide(api: web::Data<ApiState>, form: Form<DecisionForm>) -> PageResult {
    let Form { visitor, fields } = form;
    let reason = fields.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    approvals::decide(&api.ctx.aee, &visitor.caller, &fields.id, fields.decision, reason).await?;
    Ok(see("/inbox").finish())
}
