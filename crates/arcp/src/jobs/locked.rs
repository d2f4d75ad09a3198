//! Jobs locked by a transaction, with all changes to be written with them. Every change of a single job goes
//! through here, so that each event gets its numbers, each cost reaches its counters, each end has its
//! consequences, and the intent's log is kept. Claims and heartbeats change many at once (`writes.rs`).
//!
//! Lock order: intents, jobs by id, sessions by id, counters by job.

pub(super) mod cost_limits;
mod ends;
mod spending;

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::arcp::budgets::{BUDGET, Budget};
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::wire::refused_call;
use entente_domain::arcp::jobs::{Job, JobStatus, events, may};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId, ReservationId, SessionId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::budgets::{self, Reservation};
use super::log::{self, EVENT, Stored};
use super::{rows, writes};
use crate::Ctx;
use crate::jobs::locked::cost_limits::{Bills, CostLimit};
use crate::session_rows::counters;
use crate::session_rows::counters::Counter;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Outcome, Tx};

/// The locked jobs of a transaction.
pub(super) struct LockedJobs {
    now: Timestamp,
    jobs: BTreeMap<JobId, Job>,
    counters: BTreeMap<SessionId, Counter>,
    budgets: BTreeMap<JobId, Budget>,
    reserved: Vec<Reservation>,
    /// Spending limits of those intents that have one.
    purses: BTreeMap<IntentId, CostLimit>,
    /// Costs to record on the intents.
    bills: Bills,
    pub logs: BTreeMap<IntentId, IntentLog>,
    touched: BTreeSet<JobId>,
    spent: BTreeSet<JobId>,
    counted: BTreeSet<SessionId>,
    made: Vec<Reservation>,
    gone: Vec<ReservationId>,
    ended: Vec<JobId>,
    events: Vec<Stored>,
}

/// Snapshot of a job, restored if the domain rules refuse a change.
pub(super) struct Before {
    job: Job,
    counter: Option<Counter>,
    budgets: BTreeMap<JobId, Budget>,
    reserved: Vec<Reservation>,
    purse: Option<CostLimit>,
    bills: Bills,
    events: usize,
    made: usize,
    gone: usize,
    ended: usize,
}

impl LockedJobs {
    /// Locks one job, in a transaction that first locks the job's intent.
    pub async fn begin(ctx: &Ctx, id: JobId) -> Outcome<(Tx, Self)> {
        let mut conn = ctx.pool.acquire().await?;
        let intents = rows::intents(&mut conn, &[id]).await?;
        drop(conn);
        let mut tx = ctx.begin(&intents).await?;
        let locked = Self::take(&mut tx, &[id], &intents, ctx.now()).await?;
        Ok((tx, locked))
    }

    /// Locks jobs within a transaction that holds the locks of `intents`, which are all the jobs' intents.
    pub async fn take(
        conn: &mut PgConnection,
        ids: &[JobId],
        intents: &[IntentId],
        now: Timestamp,
    ) -> Outcome<Self> {
        let jobs = if ids.is_empty() { BTreeMap::new() } else { rows::lock(conn, ids).await? };
        let mut logs = BTreeMap::new();
        for intent in intents {
            logs.insert(*intent, IntentLog::open(conn, *intent, None, now).await?);
        }
        let mut sessions: Vec<SessionId> =
            jobs.values().filter(|job| job.counted).map(|job| job.session_id).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let counters = counters::lock(conn, &sessions).await?;
        let mut payers: Vec<JobId> = jobs.values().flat_map(|job| job.payers.iter().copied()).collect();
        payers.sort_unstable();
        payers.dedup();
        let budgets = budgets::lock(conn, &payers).await?;
        let purses = cost_limits::load(conn, intents).await?;
        let counts = |job: &&Job| {
            !job.payers.is_empty() || job.intent_id.is_some_and(|intent| purses.contains_key(&intent))
        };
        let spending: Vec<JobId> = jobs.values().filter(counts).map(|job| job.id).collect();
        let reserved = budgets::reserved(conn, &spending).await?;
        Ok(Self {
            now,
            jobs,
            counters,
            budgets,
            reserved,
            purses,
            bills: Bills::new(),
            logs,
            touched: BTreeSet::new(),
            spent: BTreeSet::new(),
            counted: BTreeSet::new(),
            made: Vec::new(),
            gone: Vec::new(),
            ended: Vec::new(),
            events: Vec::new(),
        })
    }

    /// Intents of the locked jobs that are not locked themselves.
    pub fn intents_missing(&self) -> Vec<IntentId> {
        let mut missing: Vec<IntentId> = self
            .jobs
            .values()
            .filter_map(|job| job.intent_id)
            .filter(|intent| !self.logs.contains_key(intent))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// The locked jobs that have an intent, with it.
    pub fn works_for(&self) -> impl Iterator<Item = (JobId, IntentId)> {
        self.jobs.values().filter_map(|job| Some((job.id, job.intent_id?)))
    }

    /// Time of all changes in this transaction.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns a locked job.
    pub fn job(&self, id: JobId) -> Result<&Job, Refusal> {
        self.jobs.get(&id).ok_or_else(no_job)
    }

    /// Returns a locked job for a change.
    pub fn change(&mut self, id: JobId) -> Result<&mut Job, Refusal> {
        self.touched.insert(id);
        self.jobs.get_mut(&id).ok_or_else(no_job)
    }

    /// Remaining budget of the job itself.
    pub fn remaining(&self, id: JobId) -> Budget {
        self.budgets.get(&id).cloned().unwrap_or_default()
    }

    /// Takes a snapshot of the job before a change.
    pub fn before(&self, id: JobId) -> Result<Before, Refusal> {
        let job = self.job(id)?.clone();
        Ok(Before {
            counter: self.counters.get(&job.session_id).cloned(),
            budgets: job
                .payers
                .iter()
                .filter_map(|payer| Some((*payer, self.budgets.get(payer)?.clone())))
                .collect(),
            job,
            purse: self.purse(id).cloned(),
            bills: self.bills.clone(),
            reserved: self.reserved.clone(),
            events: self.events.len(),
            made: self.made.len(),
            gone: self.gone.len(),
            ended: self.ended.len(),
        })
    }

    /// Restores a snapshot.
    pub fn restore(&mut self, before: Before) {
        if let Some(counter) = before.counter {
            self.counters.insert(before.job.session_id, counter);
        }
        self.budgets.extend(before.budgets);
        if let Some((intent, purse)) = before.job.intent_id.zip(before.purse) {
            self.purses.insert(intent, purse);
        }
        self.bills = before.bills;
        self.reserved = before.reserved;
        self.events.truncate(before.events);
        self.made.truncate(before.made);
        self.gone.truncate(before.gone);
        self.ended.truncate(before.ended);
        self.jobs.insert(before.job.id, before.job);
    }

    /// Appends an event and assigns its numbers.
    pub fn append(&mut self, id: JobId, kind: &str, ts: Timestamp, body: String, key: Option<String>) {
        let feature = events::Kind::parse(kind).and_then(events::Kind::feature);
        self.push(id, EVENT, Some(kind), feature, ts, body, key);
    }

    #[expect(clippy::too_many_arguments, reason = "they are the columns of one row")]
    fn push(
        &mut self,
        id: JobId,
        type_: &str,
        kind: Option<&str>,
        feature: Option<&str>,
        ts: Timestamp,
        body: String,
        event_key: Option<String>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        self.touched.insert(id);
        job.last_seq += 1;
        let counter = self.counters.get_mut(&job.session_id).filter(|_| job.counted);
        let mut session_id = None;
        match counter {
            // The session has one number space; an event not sent to it repeats the last number
            // (ARCP-W-9.1).
            Some(counter) => {
                let sent =
                    feature.is_none_or(|feature| counter.features.iter().any(|known| known == feature));
                if sent {
                    counter.last_seq += 1;
                    job.origin_seq = counter.last_seq;
                    session_id = Some(job.session_id);
                    self.counted.insert(job.session_id);
                }
            }
            None if job.counted => job.origin_seq += 1,
            None => job.origin_seq = job.last_seq,
        }
        self.events.push(Stored {
            job_id: id,
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
    pub fn say(&mut self, id: JobId, kind: &str, body: &Value) {
        self.append(id, kind, self.now, body.to_string(), None);
    }

    /// Judges an operation of the job (ARCP §9.3).
    pub fn may(&self, id: JobId, capability: &str, target: &str) -> Result<(), Refusal> {
        may::operate(self.job(id)?, &self.payers(id), capability, target, self.now)?;
        // A check of one counter concerns only that counter (ARCP-W-10.3).
        self.purse(id).map_or(Ok(()), |purse| purse.require_left((capability == BUDGET).then_some(target)))
    }

    /// Records a refused operation as an event; if the lease has ended, the job ends as well (§9.5).
    pub fn refuse(&mut self, id: JobId, call_id: Option<&str>, refusal: &Refusal) -> Outcome<()> {
        if let Some(call) = call_id {
            self.say(id, "tool_result", &refused_call(call, refusal.code.into(), &refusal.message));
        }
        if refusal.code == Code::LeaseExpired {
            self.fail(id, Fault::LeaseExpired, &refusal.message, None, None)?;
        }
        Ok(())
    }

    /// Returns the job to the queue.
    pub fn requeue(&mut self, id: JobId) -> Result<(), Refusal> {
        self.put_back_all(id);
        self.change(id)?.give_back();
        Ok(())
    }

    /// Records a change of the job in its intent's log.
    pub fn record(&mut self, ctx: &Ctx, id: JobId, kind: Kind, actor: &str) -> Outcome<()> {
        let job = self.job(id)?;
        let Some(intent) = job.intent_id else { return Ok(()) };
        let payload = json!({
            "job_id": id, "agent": job.agent, "principal": job.principal, "status": job.status, "attempt": job.attempt,
        });
        let draft = Draft { trace_id: Some(job.trace_id.clone()), ..Draft::of(kind, actor, payload) };
        let log = self.logs.get_mut(&intent).ok_or_else(|| {
            AppError::Inconsistent(format!("{intent} is not locked by whoever changes {id}"))
        })?;
        log.record(ctx, draft);
        Ok(())
    }

    /// Writes all changes; the caller commits.
    pub async fn save(&mut self, ctx: &Ctx, conn: &mut PgConnection) -> Outcome<()> {
        log::insert(conn, &self.events).await?;
        let changed: Vec<&Job> = self.touched.iter().filter_map(|id| self.jobs.get(id)).collect();
        writes::update(conn, &changed).await?;
        let counted: Vec<(SessionId, i64)> =
            self.counted.iter().filter_map(|id| Some((*id, self.counters.get(id)?.last_seq))).collect();
        counters::save(conn, &counted).await?;
        let spent: Vec<(JobId, &Budget)> =
            self.spent.iter().filter_map(|id| Some((*id, self.budgets.get(id)?))).collect();
        budgets::update(conn, &spent).await?;
        let kept: Vec<Reservation> =
            self.made.iter().filter(|made| !self.gone.contains(&made.id)).cloned().collect();
        budgets::reserve(conn, &kept, self.now).await?;
        budgets::forget(conn, &self.gone).await?;
        self.save_bills(ctx, conn).await?;
        self.save_ends(ctx, conn).await?;
        for log in self.logs.values() {
            if log.has_advanced() {
                log.save(conn).await?;
            }
        }
        Ok(())
    }

    /// Writes all changes, commits and wakes waiters.
    pub async fn conclude(&mut self, ctx: &Ctx, mut tx: Tx) -> Outcome<()> {
        self.save(ctx, &mut tx).await?;
        tx.commit().await?;
        self.announce(ctx);
        Ok(())
    }

    /// Wakes the waiters of all committed changes.
    pub fn announce(&self, ctx: &Ctx) {
        for id in &self.touched {
            let Some(job) = self.jobs.get(id) else { continue };
            ctx.feed.wake(WakeKey::Job(*id));
            if job.counted {
                ctx.feed.wake(WakeKey::Session(job.session_id));
            }
            if job.cancel.is_some() || job.status != JobStatus::Running {
                ctx.feed.wake(WakeKey::Stop(*id));
            }
            if job.status == JobStatus::Pending {
                ctx.feed.wake(WakeKey::Work(job.agent.clone()));
            }
        }
        for (intent, log) in &self.logs {
            if log.has_advanced() {
                ctx.feed.notify_committed(*intent);
            }
        }
        if !self.ended.is_empty() {
            ctx.state.provisioners.ring();
        }
        let expired = self.ended.iter().filter(|id| {
            self.jobs.get(id).is_some_and(|job| {
                job.expires_at.is_some_and(|end| end <= self.now) && job.status == JobStatus::Error
            })
        });
        expired.for_each(|id| tracing::info!(job = %id, "a job's lease has run out"));
    }
}

/// Refusal for a job that is over.
pub(super) fn over() -> Refusal {
    Refusal::new(Code::JobEnded, "The job is over; nothing can happen to it any more.")
}
