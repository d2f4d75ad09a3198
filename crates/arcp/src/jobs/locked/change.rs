//! A change of one locked job: a copy of the job and of the state that it shares with others, on which a command is
//! judged. [`LockedJobs::apply`](super::LockedJobs::apply) takes it over; a change that is dropped has no effect.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::arcp::budgets::{BUDGET, Budget};
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::retries::Failed;
use entente_domain::arcp::jobs::wire::refused_call;
use entente_domain::arcp::jobs::{Job, may};
use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, ReservationId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::Outcome;
use entente_kernel::charges::Charge;
use entente_kernel::cost_limits::CostLimit;
use serde_json::Value;

use crate::jobs::attempts::{Attempt, AttemptChange};
use crate::jobs::budgets::Reservation;
use crate::jobs::log::{EVENT, Stored};
use crate::session_rows::counters::Counter;

/// A change of a locked job, not applied yet. Only one is open at a time for jobs that share a payer, a session or an
/// intent.
#[must_use]
pub(in crate::jobs) struct JobChange {
    pub(super) now: Timestamp,
    pub(super) job: Job,
    /// Counter of the job's session, if that counts the job's events.
    pub(super) counter: Option<Counter>,
    /// Counters of the job's payers.
    pub(super) budgets: BTreeMap<JobId, Budget>,
    /// Open reservations of the job.
    pub(super) reserved: Vec<Reservation>,
    /// Spending of the job's intent, if that has a limit.
    pub(super) cost_limit: Option<CostLimit>,
    /// Costs to record on the intent.
    pub(super) bills: Budget,
    /// Costs to record on the job.
    pub(super) costs: Budget,
    /// Whether the job's row is written.
    pub(super) touched: bool,
    /// Whether the session's counter moved.
    pub(super) numbered: bool,
    /// Whether the job ends.
    pub(super) ended: bool,
    /// Payers whose counters moved.
    pub(super) spent: BTreeSet<JobId>,
    /// Costs for the budgets that the job shares with others.
    pub(super) charges: Vec<Charge>,
    /// Model of the reservation that was put back last: the costs that follow are its costs.
    pub(super) model: Option<String>,
    /// That reservation, while its costs are charged.
    pub(in crate::jobs) settles: Option<ReservationId>,
    /// Reservations that ended with the claim or the job, and the token of the claim.
    pub(super) lapsed: Vec<(Reservation, Digest)>,
    pub(super) made: Vec<Reservation>,
    pub(super) gone: Vec<ReservationId>,
    pub(super) events: Vec<Stored>,
    pub(super) attempts: AttemptChange,
}

impl JobChange {
    /// Time of the change.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the job as changed so far.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the job to change it.
    pub fn job_mut(&mut self) -> &mut Job {
        self.touch();
        &mut self.job
    }

    /// Has the job's row written, even if nothing else changes.
    pub fn touch(&mut self) {
        self.touched = true;
    }

    /// Remaining budget of the job itself.
    pub fn remaining(&self) -> Budget {
        self.budgets.get(&self.job.id).cloned().unwrap_or_default()
    }

    /// Counters that the job's costs are charged to.
    pub(super) fn payers(&self) -> Vec<&Budget> {
        self.job.payers.iter().filter_map(|payer| self.budgets.get(payer)).collect()
    }

    /// Appends an event and assigns its numbers.
    pub fn append(&mut self, kind: &str, ts: Timestamp, body: String, key: Option<String>) {
        self.push(EVENT, Some(kind), ts, body, key);
    }

    /// Appends an event of any type.
    pub(super) fn push(
        &mut self,
        type_: &str,
        kind: Option<&str>,
        ts: Timestamp,
        body: String,
        event_key: Option<String>,
    ) {
        self.touch();
        let job = &mut self.job;
        job.last_seq += 1;
        let mut session_id = None;
        match self.counter.as_mut() {
            // The session has one number space; an event not sent to it repeats the last number
            // (ARCP-W-9.1).
            Some(counter) => {
                if kind.is_none_or(|kind| counter.features.admit(kind)) {
                    counter.last_seq += 1;
                    job.origin_seq = counter.last_seq;
                    session_id = Some(job.session_id);
                    self.numbered = true;
                }
            }
            None if job.counted => job.origin_seq += 1,
            None => job.origin_seq = job.last_seq,
        }
        self.events.push(Stored {
            job_id: job.id,
            job_seq: job.last_seq,
            origin_seq: job.origin_seq,
            session_id,
            type_: type_.to_owned(),
            kind: kind.map(str::to_owned),
            ts,
            body,
            event_key,
        });
    }

    /// Appends an event of the runtime itself.
    pub fn say(&mut self, kind: &str, body: &Value) {
        self.append(kind, self.now, body.to_string(), None);
    }

    /// Judges an operation of the job (ARCP §9.3).
    pub fn may(&self, capability: &str, target: &str) -> Result<(), Refusal> {
        may::operate(&self.job, &self.payers(), capability, target, self.now)?;
        // A check of one counter concerns only that counter (ARCP-W-10.3).
        let unit = (capability == BUDGET).then_some(target);
        self.cost_limit.as_ref().map_or(Ok(()), |cost_limit| cost_limit.require_left(unit))
    }

    /// Records a refused operation as an event; if the lease has ended, the job ends as well (§9.5).
    pub fn refuse(&mut self, call_id: Option<&str>, refusal: &Refusal) -> Outcome<()> {
        if let Some(call) = call_id {
            self.say("tool_result", &refused_call(call, refusal.code.into(), &refusal.message));
        }
        if refusal.code == Code::LeaseExpired {
            self.fail(Fault::LeaseExpired, &refusal.message, None, None)?;
        }
        Ok(())
    }

    /// Stores the progress of the attempt, in place of the previous checkpoint.
    pub fn checkpoint(&mut self, checkpoint: String) {
        self.attempts.checkpoint = Some(checkpoint);
    }

    /// Returns the job to the queue, from where it may be claimed now or from a time on.
    fn requeue(&mut self, not_before: Option<Timestamp>) {
        self.put_back_all();
        let now = self.now;
        let job = self.job_mut();
        job.give_back();
        job.enqueue(now, not_before);
        self.attempts.put_off |= self.job.not_before.is_some() || self.job.queue_due_at.is_some();
    }

    /// Returns the job to the queue after the loss of its worker.
    pub fn lose(&mut self) {
        self.attempts.ended.extend(Attempt::of(&self.job, self.now, None));
        self.requeue(None);
    }

    /// Returns the job to the queue after a failure that its worker reported, if the job's policy says so; returns
    /// whether it did.
    pub fn retry(
        &mut self,
        fault: Fault,
        message: &str,
        retryable: Option<bool>,
        report: &Digest,
        chance: u64,
    ) -> bool {
        let Some(next_at) = self.job.next_attempt(fault, retryable, self.now, chance) else { return false };
        let failed = Failed { fault, message: message.to_owned(), next_at };
        let told = failed.event(self.job.attempt);
        self.attempts.ended.extend(Attempt::of(&self.job, self.now, Some((failed, *report))));
        self.job_mut().failures += 1;
        self.requeue(Some(next_at));
        self.attempts.put_off = true;
        self.say("status", &told);
        true
    }

    /// Returns the job to the queue; the attempt does not count, because no worker was lost.
    pub fn hand_back(&mut self) {
        self.requeue(None);
        let job = self.job_mut();
        job.attempt = job.attempt.saturating_sub(1);
    }
}
