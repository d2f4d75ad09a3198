//! A transaction in which moments change: its locks, writes and notifications.
//!
//! Lock order: logs, pairs and idempotency keys together, then jobs, and last the clock of changes, whose row
//! every write of a moment takes. All but the clock are taken at the beginning for the whole lock set
//! ([`LockSet`]); then the moment is read again.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, JobId, MomentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::moments::{self as domain, Moment, MomentState};
use entente_domain::traces::Trace;
use entente_kernel::hooks::{Given, IntentChange};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller, Outcome, Tx, idempotency, lock_key, not_found};
use entente_runtime::metrics::MomentLabels;
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::rows::{self, StoredMoment};
use super::{MomentView, due_at, event_payload, kind_of_end, line_of, notifying, passed, role, words};
use crate::Ctx;
use crate::jobs::WaitingJobs;

/// Advisory lock of an agent and a person: it serialises questions and refusals between them, so that each
/// sees the ones before it.
fn pair_lock(agent: &str, principal: &str) -> i64 {
    let digest = sha256(format!("moments\0{agent}\0{principal}"));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Lock set of a change of moments.
#[derive(Default)]
pub struct LockSet {
    moments: BTreeSet<MomentId>,
    logs: BTreeSet<IntentId>,
    jobs: BTreeSet<JobId>,
    locks: Vec<i64>,
}

impl LockSet {
    /// Lock set of an existing moment: itself, the refused questions that it superseded, and its successor,
    /// whose end restores it.
    ///
    /// # Errors
    /// A database error; a stored value is invalid.
    pub async fn of(conn: &mut PgConnection, kept: &StoredMoment) -> Outcome<Self> {
        let mut locks_needed = Self::default();
        locks_needed.include(conn, kept).await?;
        Ok(locks_needed)
    }

    /// Adds the lock set of another moment.
    ///
    /// # Errors
    /// A database error; a stored value is invalid.
    pub async fn include(&mut self, conn: &mut PgConnection, kept: &StoredMoment) -> Outcome<()> {
        self.add(&kept.moment);
        let next = match followed(&kept.moment) {
            Some(next) => rows::load(conn, next).await?,
            None => None,
        };
        next.iter().for_each(|next| self.add(&next.moment));
        let last = next.as_ref().map_or(&kept.moment, |next| &next.moment);
        if last.supersedes.is_some() {
            let before = rows::before(conn, last.id).await?;
            self.logs.extend(before.iter().map(|kept| line_of(&kept.moment)));
        }
        Ok(())
    }

    fn add(&mut self, moment: &Moment) {
        self.moments.insert(moment.id);
        self.about(moment.intent_id, moment.job_id);
        let second = moment.escalation.as_ref().map(|one| one.to.as_str());
        self.between(&moment.agent_id, [Some(moment.principal_id.as_str()), second]);
    }

    /// Adds an intent's log and a job.
    pub fn about(&mut self, intent: Option<IntentId>, job: Option<JobId>) {
        self.logs.insert(intent.unwrap_or(IntentId::SYSTEM));
        self.jobs.extend(job);
    }

    /// Adds the pair locks of an agent and these people.
    pub fn between(&mut self, agent: &str, people: [Option<&str>; 2]) {
        self.locks.extend(people.into_iter().flatten().map(|principal| pair_lock(agent, principal)));
    }

    /// Adds the lock of the idempotency key.
    pub fn once(&mut self, caller: &Caller, once: Option<&Idempotency>) {
        self.locks.extend(once.map(|once| idempotency::lock_key(caller.principal(), &once.key)));
    }
}

/// Successor of a refused question with an unsettled objection.
fn followed(moment: &Moment) -> Option<MomentId> {
    moment.superseded_by.filter(|_| moment.is_unsettled_veto())
}

/// A transaction in which moments change.
pub struct MomentTx {
    /// The database transaction.
    pub tx: Tx,
    /// The time of the change: at least the time of the last event in each locked log.
    pub now: Timestamp,
    reached: BTreeSet<MomentId>,
    logs: BTreeMap<IntentId, IntentLog>,
    /// The locked jobs, which wait for decisions.
    pub(crate) jobs: Box<dyn WaitingJobs>,
    /// Jobs with an ended question, and the last such question.
    answered: BTreeMap<JobId, MomentId>,
    touches: BTreeSet<String>,
    rings: Vec<WakeKey>,
    /// Whether notifications of people were queued.
    is_told: bool,
    /// The answer as given, if it has more than the moment's words (RFC-0025).
    pub given: Option<Given>,
}

impl MomentTx {
    /// Begins a transaction with these locks.
    ///
    /// # Errors
    /// A database error; a lock is not granted in time.
    pub async fn begin(ctx: &Ctx, trace: Option<Trace>, locks_needed: LockSet) -> Outcome<Self> {
        let LockSet { moments: reached, logs, jobs, mut locks } = locks_needed;
        locks.extend(logs.iter().copied().map(lock_key));
        let mut tx = ctx.begin_locked(locks).await?;
        let mut now = ctx.now();
        let mut open = BTreeMap::new();
        for id in logs {
            let log = IntentLog::open(&mut tx, id, trace, now).await?;
            now = now.max(log.now());
            open.insert(id, log);
        }
        let jobs: Vec<JobId> = jobs.into_iter().collect();
        let jobs = ctx.state.jobs.lock(&mut tx, &jobs, now).await?;
        let (answered, touches) = (BTreeMap::new(), BTreeSet::new());
        let (rings, is_told, given) = (Vec::new(), false, None);
        Ok(Self { tx, now, reached, logs: open, jobs, answered, touches, rings, is_told, given })
    }

    /// Locks one moment; due effects of time are written with the change.
    pub(crate) async fn take(
        ctx: &Ctx,
        caller: &Caller,
        id: MomentId,
        once: Option<&Idempotency>,
    ) -> Outcome<(Self, StoredMoment)> {
        let mut conn = ctx.pool.acquire().await?;
        let found = rows::load(&mut conn, id).await?.ok_or_else(|| not_found("moment"))?;
        role(caller, &found.moment, ctx.now()).ok_or_else(|| not_found("moment"))?;
        let mut locks_needed = LockSet::of(&mut conn, &found).await?;
        drop(conn);
        locks_needed.once(caller, once);
        let mut work = Self::begin(ctx, caller.trace, locks_needed).await?;
        let kept = work.current(ctx, id).await?.ok_or_else(|| not_found("moment"))?;
        Ok((work, kept))
    }

    /// Whether the whole lock set of this moment is held.
    pub(crate) fn reaches(&self, moment: &Moment) -> bool {
        self.reached.contains(&moment.id)
    }

    /// Loads the current moment, after writing due effects of time on it and on its successor.
    ///
    /// # Errors
    /// A database error; a log to be written is not locked.
    pub async fn current(&mut self, ctx: &Ctx, id: MomentId) -> Outcome<Option<StoredMoment>> {
        let Some(kept) = rows::load(&mut self.tx, id).await? else { return Ok(None) };
        let next = followed(&kept.moment).filter(|next| self.reached.contains(next));
        let Some(next) = next else { return Ok(Some(self.pass(ctx, kept).await?)) };
        if let Some(next) = rows::load(&mut self.tx, next).await? {
            let next = self.pass(ctx, next).await?;
            if matches!(next.moment.state, MomentState::Withdrawn | MomentState::Expired) {
                // The end of an intent locks only its own log and leaves this to later transactions.
                self.follow_up(ctx, &next.moment, SYSTEM, None).await?;
            }
        }
        rows::load(&mut self.tx, id).await
    }

    /// Writes the due effect of time or of the job's end on a locked moment, including an escalation if the
    /// answer comes before the sweep.
    async fn pass(&mut self, ctx: &Ctx, mut kept: StoredMoment) -> Outcome<StoredMoment> {
        let Some(moment) = passed(&kept, self.now) else {
            if let Some(moment) = kept.moment.escalate(self.now) {
                kept.moment = moment;
                self.record(ctx, Kind::MomentEscalated, SYSTEM, &kept.moment, &json!({}))?;
                self.save(ctx, &mut kept).await?;
                self.tell(&kept.moment, None).await?;
            }
            return Ok(kept);
        };
        kept.moment = moment;
        let reason = json!({ "reason": kept.moment.end_reason });
        let kind = kind_of_end(&kept.moment);
        self.end(ctx, &mut kept, kind, SYSTEM, &reason, None).await?;
        Ok(kept)
    }

    /// Writes the end of a moment's wait, with the consequences for its job and earlier refused questions.
    ///
    /// `by` is the person that answered or closed it.
    pub(crate) async fn end(
        &mut self,
        ctx: &Ctx,
        kept: &mut StoredMoment,
        kind: Kind,
        actor: &str,
        more: &Value,
        by: Option<&str>,
    ) -> Outcome<()> {
        self.record(ctx, kind, actor, &kept.moment, more)?;
        // A refused question, or a deliberation from the start, held up no job.
        let waited = kept.moment.digest.is_some() && kept.moment.state != MomentState::Closed;
        let job = kept.moment.job_id.filter(|_| waited);
        self.answered.extend(job.map(|job| (job, kept.moment.id)));
        self.save(ctx, kept).await?;
        if kept.moment.intent_id.is_some() {
            // The suspended intent resumes with the answer, or without one.
            let given = self.given.take();
            let (conn, log) = self.parts(line_of(&kept.moment))?;
            let change = &mut IntentChange { ctx, conn, log, actor };
            ctx.hooks.moment_ended(change, &kept.moment, given.as_ref()).await?;
        }
        self.follow_up(ctx, &kept.moment, actor, by).await
    }

    /// The transaction, and one of its locked logs.
    ///
    /// # Errors
    /// The log is not locked.
    pub fn parts(&mut self, id: IntentId) -> Outcome<(&mut PgConnection, &mut IntentLog)> {
        let log = self.logs.get_mut(&id);
        let log = log.ok_or_else(|| AppError::Inconsistent(format!("the log of {id} is not locked")))?;
        Ok((&mut self.tx, log))
    }

    /// Settles or restores the objections to the superseded moments, depending on the end.
    async fn follow_up(&mut self, ctx: &Ctx, ended: &Moment, actor: &str, by: Option<&str>) -> Outcome<()> {
        if ended.supersedes.is_none() {
            return Ok(());
        }
        let before = rows::before(&mut self.tx, ended.id).await?;
        let after = domain::after_end(ended, before.iter().map(|kept| &kept.moment), by, self.now);
        for (mut kept, moment) in before.into_iter().zip(after) {
            let Some(moment) = moment else { continue };
            kept.moment = moment;
            let settled = kept.moment.veto_settled_at.is_some();
            let kind = if settled { Kind::MomentVetoSettled } else { Kind::MomentVetoRestored };
            let which = if settled { "settled_by" } else { "ended" };
            self.record(ctx, kind, actor, &kept.moment, &json!({ which: ended.id }))?;
            self.save(ctx, &mut kept).await?;
        }
        Ok(())
    }

    /// Records a change of a moment in its log: parties and state, never any text.
    pub(crate) fn record(
        &mut self,
        ctx: &Ctx,
        kind: Kind,
        actor: &str,
        moment: &Moment,
        more: &Value,
    ) -> Outcome<()> {
        let (_, log) = self.parts(line_of(moment))?;
        log.record(ctx, Draft::of(kind, actor, event_payload(moment, more)));
        let labels = MomentLabels { event: kind.wire() };
        ctx.metrics.moments.get_or_create(&labels).inc();
        Ok(())
    }

    /// Writes a changed moment.
    pub(crate) async fn save(&mut self, ctx: &Ctx, kept: &mut StoredMoment) -> Outcome<()> {
        rows::update(&mut self.tx, kept, due_at(&kept.moment, &ctx.state.settings)).await?;
        self.touch(&kept.moment);
        Ok(())
    }

    /// Tells people that the moment waits for them (`notifying.rs`): those asked, or after an escalation the second person alone;
    /// `word` is the position of the agent's contribution that they have not read.
    pub(crate) async fn tell(&mut self, moment: &Moment, word: Option<i32>) -> Outcome<()> {
        self.is_told |= notifying::tell(&mut self.tx, moment, word, self.now).await?;
        Ok(())
    }

    /// Whether anything was written.
    pub(crate) fn has_changed(&self) -> bool {
        !self.rings.is_empty()
    }

    /// Queues the notifications of a moment's followers for the commit.
    pub(crate) fn touch(&mut self, moment: &Moment) {
        self.rings.push(WakeKey::Moment(moment.id));
        self.touches.insert(moment.agent_id.clone());
        self.touches.insert(moment.principal_id.clone());
        self.touches.extend(moment.escalation.as_ref().map(|one| one.to.clone()));
    }

    /// Writes the logs, commits and sends the notifications.
    ///
    /// # Errors
    /// A database error.
    pub async fn conclude(mut self, ctx: &Ctx) -> Outcome<()> {
        resume(&mut self.tx, &mut *self.jobs, &self.answered).await?;
        self.jobs.save(ctx, &mut self.tx).await?;
        for log in self.logs.values().filter(|log| log.has_advanced()) {
            log.save(&mut self.tx).await?;
        }
        self.tx.commit().await?;
        for (id, log) in &self.logs {
            if log.has_advanced() {
                ctx.feed.notify_committed(*id);
            }
        }
        self.jobs.announce(ctx);
        if self.is_told {
            ctx.notifications.wake();
        }
        self.rings.into_iter().for_each(|touch| ctx.feed.wake(touch));
        self.touches.into_iter().for_each(|party| ctx.feed.wake(WakeKey::Inbox(party)));
        Ok(())
    }

    /// Like [`Self::conclude`]; returns the moment as shown to the caller.
    pub(crate) async fn shown(
        mut self,
        ctx: &Ctx,
        caller: &Caller,
        kept: StoredMoment,
    ) -> Outcome<MomentView> {
        let now = self.now;
        let words = words::load(&mut self.tx, &[kept.moment.id]).await?;
        self.conclude(ctx).await?;
        let words = words.into_iter().map(|(_, word)| word).collect();
        MomentView::new(kept, words, caller, now).ok_or_else(|| not_found("moment"))
    }
}

/// Resumes those of these locked jobs that have no open question left, after the ends are written.
pub(super) async fn resume(
    conn: &mut PgConnection,
    jobs: &mut dyn WaitingJobs,
    answered: &BTreeMap<JobId, MomentId>,
) -> Outcome<()> {
    for (job, moment) in answered {
        if !is_awaited(conn, *job).await? {
            jobs.resumes(*job, *moment);
        }
    }
    Ok(())
}

/// Whether a question for a job is open; an expired one counts until its end is written, which then resumes
/// the job.
async fn is_awaited(conn: &mut PgConnection, job: JobId) -> Outcome<bool> {
    let is = sqlx::query_scalar!(
        r#"-- moments::is_awaited
         SELECT EXISTS (SELECT 1 FROM moments
             WHERE job_id = $1 AND state IN ('open', 'deliberating') AND state = 'open') AS "is!""#,
        job.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(is)
}
