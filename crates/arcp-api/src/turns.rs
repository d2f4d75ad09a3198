//! Parts of a turn that concern jobs: reports, the heartbeat and the claim, as `POST /turn` and the tool `turn` take them.

use std::collections::BTreeMap;
use std::time::Duration;

use entente_arcp::jobs::{BeatAsk, ClaimAsk, ClaimKey, EventAsk, JobReport};
use entente_arcp::workers::Directive;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::ends::End;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{JobId, WorkerId};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::id_of_item;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::authority::amounts;
use crate::reports::{EventBody, internal_error};
use crate::workers::{HeldBody, held, shortened};

fn job_id(text: &str) -> Result<JobId, Refusal> {
    text.parse().map_err(|_no_id| no_job())
}

/// The cost of a reservation.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnSettlement)]
pub struct SettlementBody {
    /// The job.
    job_id: String,
    /// Token of the claim.
    claim_token: String,
    /// The reservation.
    reservation_id: String,
    /// The cost by currency, deducted in place of the reserved amounts; none releases the reservation.
    #[serde(default)]
    #[schema(value_type = Object)]
    cost: BTreeMap<String, Box<RawValue>>,
}

impl SettlementBody {
    /// Checks the settlement.
    ///
    /// # Errors
    /// The job's id is none; a cost is no amount.
    pub fn report(self) -> Result<JobReport, Refusal> {
        let cost = amounts("cost", self.cost)?;
        JobReport::of_settlement(job_id(&self.job_id)?, &self.claim_token, self.reservation_id, cost)
    }
}

/// Events and progress of a job.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnReport)]
pub struct ReportBody {
    /// The job.
    job_id: String,
    /// Token of the claim.
    claim_token: String,
    /// Up to 1,000 events, in order; none that asks for a child job.
    #[serde(default)]
    events: Vec<EventBody>,
    /// Progress to continue from, any JSON of up to 100 KiB.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    checkpoint: Option<Box<RawValue>>,
}

impl ReportBody {
    /// Checks the events.
    ///
    /// # Errors
    /// The job's id is none; an event is invalid, or asks for a child job.
    pub fn report(self) -> Result<JobReport, Refusal> {
        let events = self.events.into_iter().map(EventAsk::from).collect();
        JobReport::of_events(job_id(&self.job_id)?, &self.claim_token, events, self.checkpoint.as_deref())
    }
}

/// The error with which a job failed.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnFailure)]
struct FailureBody {
    /// A code of ARCP §12; defaults to `INTERNAL_ERROR`.
    code: Option<String>,
    /// Message for people.
    #[serde(default)]
    message: String,
    /// Whether the same job may be tried again; for most codes this decides over a retry.
    retryable: Option<bool>,
    /// Further details.
    #[schema(value_type = Option<Object>)]
    details: Option<Map<String, Value>>,
}

/// The end of a job: a result or an error.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnFinish)]
pub struct FinishBody {
    /// The job.
    job_id: String,
    /// Token of the claim.
    claim_token: String,
    /// Inline result, up to 700 KiB; alternatively set `result_id`.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    result: Option<Box<RawValue>>,
    /// Id of a streamed result.
    result_id: Option<String>,
    /// Size of the streamed result in decoded bytes; verified if present.
    result_size: Option<u64>,
    /// One-sentence summary.
    summary: Option<String>,
    /// The error, if the job failed.
    error: Option<FailureBody>,
}

impl FinishBody {
    /// Checks the end.
    ///
    /// # Errors
    /// The job's id is none; there is both a result and an error; the error's code is unknown.
    pub fn report(self) -> Result<JobReport, Refusal> {
        let Self { result, result_id, result_size, summary, error, .. } = self;
        let end = match error {
            None => End::Result { result, result_id, result_size, summary },
            Some(_) if result.is_some() || result_id.is_some() => {
                let message = "A job ends with a result or with an error. Send one of them.";
                return Err(Refusal::field(Code::InvalidRequest, "error", "value", message));
            }
            Some(FailureBody { code, message, retryable, details }) => {
                End::Error { code: code.unwrap_or_else(internal_error), message, retryable, details }
            }
        };
        JobReport::of_end(job_id(&self.job_id)?, &self.claim_token, end)
    }
}

/// A heartbeat of the agent's worker.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnHeartbeat)]
pub struct HeartbeatBody {
    /// The worker.
    worker_id: String,
    /// State of the worker, as it reports it.
    state: Option<String>,
    /// The jobs that the worker holds; their claims are extended.
    #[serde(default)]
    jobs: Vec<HeldBody>,
}

impl HeartbeatBody {
    /// Checks the heartbeat; returns the named jobs that are none, too.
    ///
    /// # Errors
    /// The worker's id is none.
    pub fn ask(self) -> Result<(BeatAsk, Vec<String>), Refusal> {
        let worker: WorkerId = id_of_item("worker", &self.worker_id)?;
        let (held, lost) = held(self.jobs);
        let state = self.state.as_deref().map(shortened);
        Ok((BeatAsk { worker, state, held, obeyed: Directive::Run, wait: Duration::ZERO }, lost))
    }
}

/// A claim of jobs that are pending now.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnClaim)]
pub struct TurnClaimBody {
    /// The worker.
    worker_id: String,
    /// The agents to take jobs for; defaults to all of the worker's agents.
    agents: Option<Vec<String>>,
    /// Maximum number of jobs; defaults to 1.
    max: Option<i64>,
}

impl TurnClaimBody {
    /// Checks the claim, which has the key of its turn.
    ///
    /// # Errors
    /// The worker's id is none.
    pub fn ask(self, principal: &str, once: Option<&Idempotency>) -> Result<ClaimAsk, Refusal> {
        Ok(ClaimAsk {
            worker_id: id_of_item::<WorkerId>("worker", &self.worker_id)?,
            agents: self.agents,
            max: self.max.unwrap_or(1),
            wait: Duration::ZERO,
            key: once.map(|once| ClaimKey::of_turn(principal, &once.key)),
        })
    }
}
