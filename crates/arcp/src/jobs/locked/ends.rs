//! Ends of locked jobs (ARCP §7.3): each job ends once, with the consequences for its intent, children and
//! reservations.

use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::wire::{ErrorPayload, ResultPayload};
use entente_domain::arcp::jobs::{Transition, ended_by, transition};
use entente_domain::clock::rfc3339;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::log::events::{Draft, Kind};
use entente_kernel::channels;
use entente_kernel::{AppError, Outcome};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use super::{JobChange, LockedJobs, over};
use crate::Ctx;
use crate::credentials;
use crate::jobs::records::failures;

/// Type of the event that ends a job without success.
const ERROR: &str = "job.error";

impl JobChange {
    /// Ends the job with a result.
    pub fn finish(&mut self, result: ResultPayload) -> Outcome<()> {
        let payload = ResultPayload { completed_at: rfc3339(self.now), ..result };
        self.end(Transition::Finished, "job.result", serde_json::to_string(&payload)?)
    }

    /// Ends the job with a fault.
    pub fn fail(
        &mut self,
        fault: Fault,
        message: &str,
        retryable: Option<bool>,
        details: Option<Map<String, Value>>,
    ) -> Outcome<()> {
        // A worker may not set `retryable` for these: clients drop contradicting payloads (ARCP-W-4.2.2).
        let fixed = matches!(fault, Fault::InternalError | Fault::LeaseExpired | Fault::BudgetExhausted);
        let said = retryable.filter(|_| !fixed);
        let payload = ErrorPayload {
            final_status: ended_by(fault),
            code: fault,
            message: if message.is_empty() { fault.wire().to_owned() } else { message.to_owned() },
            retryable: said.unwrap_or_else(|| fault.retryable()),
            details,
            completed_at: rfc3339(self.now),
        };
        self.end(Transition::Failed(fault), ERROR, serde_json::to_string(&payload)?)
    }

    fn end(&mut self, turn: Transition, type_: &str, payload: String) -> Outcome<()> {
        let now = self.now;
        self.put_back_all();
        // Nobody releases it any more.
        self.attempts.put_off |= self.job.not_before.is_some();
        let job = self.job_mut();
        job.not_before = None;
        job.status = transition(job.status, turn).ok_or_else(over)?;
        // The claim stays stored, so that a result sent twice is recognised.
        job.ended_at = Some(now);
        self.push(type_, None, now, payload, None);
        self.ended = true;
        Ok(())
    }
}

impl LockedJobs {
    /// Writes the failed ends, which are dead letters unless the job was cancelled.
    pub(super) async fn save_failures(&self, conn: &mut PgConnection) -> Outcome<()> {
        let failed = self.events.iter().filter(|event| event.type_ == ERROR);
        let ends = failed.filter_map(|event| Some((self.jobs.get(&event.job_id)?, event.body.as_str())));
        failures::insert(conn, &ends.collect::<Vec<_>>()).await
    }

    /// Writes the consequences: events in the intents' logs, closed channels, revoked credentials.
    pub(super) async fn save_ends(&mut self, ctx: &Ctx, conn: &mut PgConnection) -> Outcome<()> {
        for id in &self.ended {
            let Some(job) = self.jobs.get(id) else { continue };
            let Some(intent) = job.intent_id else { continue };
            let payload = json!({
                "job_id": id, "agent": job.agent, "principal": job.principal, "status": job.status,
                "attempt": job.attempt,
            });
            let trace_id = Some(job.trace_id.clone());
            let draft = Draft { trace_id, ..Draft::of(Kind::JobEnded, SYSTEM, payload) };
            let log = self.logs.get_mut(&intent).ok_or_else(|| {
                AppError::Inconsistent(format!("{intent} is not locked by whoever changes {id}"))
            })?;
            log.record(ctx, draft);
            channels::close_of_jobs(conn, ctx, log, &[*id], SYSTEM).await?;
        }
        credentials::end_of_jobs(conn, &self.ended, self.now).await?;
        Ok(())
    }
}
