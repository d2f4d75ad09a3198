//! Jobs locked by a transaction, with all changes to be written with them. Every change of a single job goes
//! through here, so that each event gets its numbers, each cost reaches its counters, each end has its
//! consequences, and the intent's log is kept. Claims and heartbeats change many at once (`writes.rs`).
//!
//! A command is judged on a [`JobChange`], a copy of its job; [`LockedJobs::apply`] takes the change over, so a refused
//! command leaves nothing behind.
//!
//! Lock order: intents, jobs by id, sessions by id, counters by job, budgets by id.

mod bills;
mod change;
mod ends;
mod spending;

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId, ReservationId, SessionId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::charges;
use entente_kernel::charges::Charge;
use entente_kernel::cost_limits;
use entente_kernel::cost_limits::CostLimit;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Outcome, Tx};
use sqlx::PgConnection;

pub(super) use self::change::JobChange;
pub(super) use self::spending::Call;
use super::attempts::{self, Attempt, AttemptChange, checkpoints};
use super::budgets::{self, Reservation};
use super::claims::gates;
use super::log::{self, Stored};
use super::records::{costs, lapsed};
use super::{rows, writes};
use crate::Ctx;
use crate::jobs::locked::bills::Bills;
use crate::session_rows::counters;
use crate::session_rows::counters::Counter;

/// The locked jobs of a transaction, with the changes applied to them.
pub(super) struct LockedJobs {
    now: Timestamp,
    jobs: BTreeMap<JobId, Job>,
    counters: BTreeMap<SessionId, Counter>,
    budgets: BTreeMap<JobId, Budget>,
    /// Open reservations by job.
    reserved: BTreeMap<JobId, Vec<Reservation>>,
    /// Spending limits of those intents that have one.
    cost_limits: BTreeMap<IntentId, CostLimit>,
    /// Costs to record on the intents.
    bills: Bills,
    /// Costs to record on the jobs.
    costs: BTreeMap<JobId, Budget>,
    pub logs: BTreeMap<IntentId, IntentLog>,
    touched: BTreeSet<JobId>,
    spent: BTreeSet<JobId>,
    /// Costs for the budgets that jobs share.
    charges: Vec<Charge>,
    counted: BTreeSet<SessionId>,
    made: Vec<Reservation>,
    gone: Vec<ReservationId>,
    lapsed: Vec<(Reservation, Digest)>,
    ended: Vec<JobId>,
    events: Vec<Stored>,
    /// Attempts that ended without ending their jobs.
    attempts: Vec<Attempt>,
    /// Jobs whose time in the queue changed.
    put_off: BTreeSet<JobId>,
    /// Checkpoints to store, with their attempts.
    checkpoints: BTreeMap<JobId, (u32, String)>,
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
        let mut jobs = if ids.is_empty() { BTreeMap::new() } else { rows::lock(conn, ids).await? };
        attempts::recall(conn, &mut jobs).await?;
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
        let cost_limits = cost_limits::load(conn, intents).await?;
        let counts = |job: &&Job| {
            job.reserves
                || !job.payers.is_empty()
                || job.intent_id.is_some_and(|intent| cost_limits.contains_key(&intent))
        };
        let spending: Vec<JobId> = jobs.values().filter(counts).map(|job| job.id).collect();
        let mut reserved: BTreeMap<JobId, Vec<Reservation>> = BTreeMap::new();
        for one in budgets::reserved(conn, &spending).await? {
            reserved.entry(one.job_id).or_default().push(one);
        }
        Ok(Self {
            now,
            jobs,
            counters,
            budgets,
            reserved,
            cost_limits,
            bills: Bills::new(),
            costs: BTreeMap::new(),
            logs,
            touched: BTreeSet::new(),
            spent: BTreeSet::new(),
            charges: Vec::new(),
            counted: BTreeSet::new(),
            made: Vec::new(),
            gone: Vec::new(),
            lapsed: Vec::new(),
            ended: Vec::new(),
            events: Vec::new(),
            attempts: Vec::new(),
            put_off: BTreeSet::new(),
            checkpoints: BTreeMap::new(),
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

    /// Begins a change of a locked job, which stays as it is until the change is applied.
    pub fn change(&self, id: JobId) -> Result<JobChange, Refusal> {
        let job = self.job(id)?.clone();
        let counted = |payer: &JobId| Some((*payer, self.budgets.get(payer)?.clone()));
        Ok(JobChange {
            now: self.now,
            counter: self.counters.get(&job.session_id).filter(|_| job.counted).copied(),
            budgets: job.payers.iter().filter_map(counted).collect(),
            reserved: self.reserved.get(&id).cloned().unwrap_or_default(),
            cost_limit: job.intent_id.and_then(|intent| self.cost_limits.get(&intent)).cloned(),
            bills: Budget::default(),
            costs: Budget::default(),
            touched: false,
            numbered: false,
            ended: false,
            spent: BTreeSet::new(),
            charges: Vec::new(),
            settles: None,
            lapsed: Vec::new(),
            model: None,
            made: Vec::new(),
            gone: Vec::new(),
            events: Vec::new(),
            attempts: AttemptChange::default(),
            job,
        })
    }

    /// Applies an accepted change.
    pub fn apply(&mut self, change: JobChange) {
        let job = change.job;
        let id = job.id;
        if change.touched {
            self.touched.insert(id);
        }
        if change.numbered {
            self.counted.insert(job.session_id);
        }
        if change.ended {
            self.ended.push(id);
        }
        if change.attempts.put_off {
            self.put_off.insert(id);
        }
        if let Some(checkpoint) = change.attempts.checkpoint {
            self.checkpoints.insert(id, (job.attempt, checkpoint));
        }
        self.attempts.extend(change.attempts.ended);
        if let Some(counter) = change.counter {
            self.counters.insert(job.session_id, counter);
        }
        if let Some((intent, cost_limit)) = job.intent_id.zip(change.cost_limit) {
            self.cost_limits.insert(intent, cost_limit);
        }
        self.add_bills(&job, change.bills);
        self.add_costs(id, change.costs);
        self.budgets.extend(change.budgets);
        self.spent.extend(change.spent);
        self.charges.extend(change.charges);
        self.reserved.insert(id, change.reserved);
        self.made.extend(change.made);
        self.gone.extend(change.gone);
        self.lapsed.extend(change.lapsed);
        self.events.extend(change.events);
        self.jobs.insert(id, job);
    }

    /// Writes all applied changes; the caller commits.
    pub async fn save(&mut self, ctx: &Ctx, conn: &mut PgConnection) -> Outcome<()> {
        log::insert(conn, &self.events).await?;
        let changed: Vec<&Job> = self.touched.iter().filter_map(|id| self.jobs.get(id)).collect();
        writes::update(conn, &changed).await?;
        self.save_attempts(conn).await?;
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
        lapsed::insert(conn, &self.lapsed, self.now).await?;
        costs::add(conn, &std::mem::take(&mut self.costs)).await?;
        self.save_bills(ctx, conn).await?;
        self.save_failures(conn).await?;
        self.save_ends(ctx, conn).await?;
        for log in self.logs.values() {
            if log.has_advanced() {
                log.save(conn).await?;
            }
        }
        // The last locks of a transaction: many jobs share these budgets.
        charges::apply(ctx, conn, &self.charges, &self.gone, self.now).await?;
        Ok(())
    }

    async fn save_attempts(&self, conn: &mut PgConnection) -> Outcome<()> {
        attempts::insert(conn, &self.attempts).await?;
        for job in self.put_off.iter().filter_map(|id| self.jobs.get(id)) {
            writes::put_off(conn, job).await?;
        }
        for (id, (attempt, checkpoint)) in &self.checkpoints {
            checkpoints::put(conn, *id, *attempt, checkpoint, self.now).await?;
        }
        Ok(())
    }

    /// Writes all applied changes, commits and wakes waiters.
    pub async fn conclude(&mut self, ctx: &Ctx, mut tx: Tx) -> Outcome<()> {
        self.save(ctx, &mut tx).await?;
        tx.commit().await?;
        self.announce(ctx);
        gates::after(ctx, self.changed()).await;
        Ok(())
    }

    /// The jobs that were changed.
    pub fn changed(&self) -> impl Iterator<Item = &Job> {
        self.touched.iter().filter_map(|id| self.jobs.get(id))
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
            // An end at a limit lets another job start.
            let waits = job.status == JobStatus::Pending && job.not_before.is_none();
            if waits || job.slotted && job.status.is_terminal() {
                ctx.feed.wake(WakeKey::Work(job.agent.clone()));
            }
        }
        self.logs.values().filter(|log| log.has_advanced()).for_each(|log| ctx.feed.publish_log(log));
        if !self.ended.is_empty() {
            ctx.state.provisioners.ring();
        }
        for job in self.ended.iter().filter_map(|id| self.jobs.get(id)) {
            let seconds = (job.ended_at.unwrap_or(self.now) - job.created_at).as_seconds_f64();
            ctx.metrics.job_ended(job.status.as_str(), seconds);
            if job.expires_at.is_some_and(|end| end <= self.now) && job.status == JobStatus::Error {
                tracing::info!(job = %job.id, "a job's lease has run out");
            }
        }
    }
}

/// Refusal for a job that is over.
pub(super) fn over() -> Refusal {
    Refusal::new(Code::JobEnded, "The job is over; nothing can happen to it any more.")
}
