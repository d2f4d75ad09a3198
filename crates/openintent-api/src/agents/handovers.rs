//! Endpoint by which an agent hands its part of an intent over to another one, and the bodies that the tool `hand_over` shares
//! with it.

use actix_web::{HttpRequest, post, web};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, LeaseId, TaskId};
use entente_domain::openintent::agents::handovers::{HandedTask, HandoverAsk, STATE_BYTES};
use entente_domain::payload::Payload;
use entente_domain::refusal::Refusal;
use entente_http::body::{Body, IdempotencyKey, id, named};
use entente_http::caller::Asker;
use entente_http::error::{ProblemBody, Reply};
use entente_http::lease::LeaseBody;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_kernel::Caller;
use entente_openintent::agents::handovers::{self, Handover};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ApiState;

pub(super) fn routes(config: &mut Routes<'_>) {
    config.service(hand_over);
}

/// The work to hand over, and the agent that takes over.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewHandover, example = json!({ "to": "agent.writer", "note": "Two sources are left to check.", "references": ["https://example.com/draft"] }))]
pub struct NewHandoverBody {
    /// The agent that takes over.
    pub to: String,
    /// The agent that hands over; defaults to the acting one. Who manages the intent may pass on the work of others.
    pub from: Option<String>,
    /// Note for the other agent: up to 16 KiB.
    pub note: Option<String>,
    /// State of the work: an object of up to 64 KiB.
    #[schema(value_type = Option<Object>)]
    pub state: Option<Box<RawValue>>,
    /// Up to 100 ids or addresses that the work refers to.
    #[serde(default)]
    pub references: Vec<String>,
    /// The tasks to hand over; defaults to all that the agent has on the intent.
    pub tasks: Option<Vec<String>>,
    /// The leases to hand over; defaults to all that the agent holds on the intent.
    pub leases: Option<Vec<String>>,
}

impl NewHandoverBody {
    /// Parses the request.
    ///
    /// # Errors
    /// An id is none; the state is no object or too large.
    pub fn ask(self, caller: &Caller) -> Result<HandoverAsk, Refusal> {
        let tasks = self.tasks.as_deref().map(|tasks| named::<TaskId>("tasks", tasks));
        let leases = self.leases.as_deref().map(|leases| named::<LeaseId>("leases", leases));
        Ok(HandoverAsk {
            from: self.from.unwrap_or_else(|| caller.agent.clone()),
            to: self.to,
            note: self.note,
            state: self.state.map(|state| Payload::new("state", state, STATE_BYTES)).transpose()?,
            references: self.references,
            tasks: tasks.transpose()?,
            leases: leases.transpose()?,
        })
    }
}

/// A task that was handed over.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HandedTask)]
struct HandedTaskBody {
    /// The task.
    task_id: TaskId,
    /// The new claim; null for a task that is only kept for the agent.
    claim_token: Option<i64>,
}

impl From<HandedTask> for HandedTaskBody {
    fn from(task: HandedTask) -> Self {
        Self { task_id: task.task_id, claim_token: task.claim_token }
    }
}

/// The work that was handed over.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Handover)]
pub struct HandoverBody {
    /// The intent.
    intent_id: IntentId,
    /// The agent that handed over.
    from: String,
    /// The agent that took over.
    to: String,
    /// Its role on the intent.
    role: String,
    /// The tasks, with new claims: the old ones hold no longer.
    tasks: Vec<HandedTaskBody>,
    /// The leases, with new fencing tokens: the old ones hold no longer.
    leases: Vec<LeaseBody>,
    /// Number of the event `handover.made` in the intent's log.
    seq: i64,
}

impl HandoverBody {
    /// Shapes a hand-over in the client's dialect.
    #[must_use]
    pub fn new(made: Handover, now: Timestamp, dialect: Dialect) -> Self {
        Self {
            leases: made.leases.iter().map(|lease| LeaseBody::new(lease, now, dialect)).collect(),
            intent_id: made.intent_id,
            from: made.from,
            to: made.to,
            role: made.role,
            tasks: made.tasks.into_iter().map(HandedTaskBody::from).collect(),
            seq: made.seq,
        }
    }
}

/// Hand work over to another agent
///
/// Passes an agent's part of the intent on in one transaction: its assignment and role, its tasks and its leases, with a note, the
/// state of the work and references, which the event `handover.made` has. Claims and fencing tokens are renewed:
/// requests of the former agent under the old ones are refused. The other agent finds the hand-over in its inbox and on
/// its stream.
#[utoipa::path(operation_id = "hand_over", tag = "agents", request_body = NewHandoverBody, params(IdempotencyKey),
    responses((status = 200, description = "What was handed over", body = HandoverBody),
              (status = 403, description = "`forbidden`: the work is another agent's", body = ProblemBody),
              (status = 409, description = "`intent_resolved`, `idempotency_mismatch`", body = ProblemBody)))]
#[post("/intents/{intent_id}/handover")]
async fn hand_over(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<NewHandoverBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let ask = body.value.ask(&asker.caller)?;
    let made = handovers::hand_over(&api.ctx, &asker.caller, intent_id, &ask, once.as_ref()).await?;
    ok(&HandoverBody::new(made, api.ctx.now(), asker.dialect))
}
