//! A transaction in which moments change: which locks it takes, what it writes down, and whom it tells.
//!
//! Order of locks: lines, pairs and idempotency keys together, jobs, and last the clock of changes, whose row every write of a
//! moment takes. All but the clock are taken at the beginning, for everything that a change may reach ([`Reach`]), and the
//! moment is read anew below them.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::events::{Draft, Kind};
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{IntentId, JobId, MomentId};
use entente_domain::moments::{self as law, Moment, MomentState};
use entente_domain::principals::HOUSE;
use entente_domain::traces::Trace;
use entente_runtime::metrics::MomentLabels;
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::rows::{self, Kept};
use super::{Shown, described, due_at, kind_of_end, line_of, passed, role, words};
use crate::feed::Touch;
use crate::lines::Line;
use crate::{AppError, Caller, Ctx, Outcome, Tx, idempotency, jobs, lock_key, not_found, suspensions};

/// The advisory lock of an agent and a person: what is asked and refused between them is judged one after the other, so that
/// of two questions at once the second one knows of the first, and a question of a refusal.
fn pair_lock(agent: &str, principal: &str) -> i64 {
    let digest = sha256(format!("moments\0{agent}\0{principal}"));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Everything that a change of moments may reach: what is locked.
#[derive(Default)]
pub(crate) struct Reach {
    moments: BTreeSet<MomentId>,
    lines: BTreeSet<IntentId>,
    jobs: BTreeSet<JobId>,
    locks: Vec<i64>,
}

impl Reach {
    /// What a moment that is there reaches: itself, the refused questions before it, and what took its place, whose end brings
    /// it back.
    pub async fn of(conn: &mut PgConnection, kept: &Kept) -> Outcome<Self> {
        let mut reach = Self::default();
        reach.include(conn, kept).await?;
        Ok(reach)
    }

    /// That of one more.
    pub async fn include(&mut self, conn: &mut PgConnection, kept: &Kept) -> Outcome<()> {
        self.add(&kept.moment);
        let next = match followed(&kept.moment) {
            Some(next) => rows::load(conn, next).await?,
            None => None,
        };
        next.iter().for_each(|next| self.add(&next.moment));
        let last = next.as_ref().map_or(&kept.moment, |next| &next.moment);
        if last.supersedes.is_some() {
            let before = rows::before(conn, last.id).await?;
            self.lines.extend(before.iter().map(|kept| line_of(&kept.moment)));
        }
        Ok(())
    }

    fn add(&mut self, moment: &Moment) {
        self.moments.insert(moment.id);
        self.about(moment.intent_id, moment.job_id);
        let second = moment.escalation.as_ref().map(|one| one.to.as_str());
        self.between(&moment.agent_id, [Some(moment.principal_id.as_str()), second]);
    }

    /// What something about this intent and this job reaches.
    pub fn about(&mut self, intent: Option<IntentId>, job: Option<JobId>) {
        self.lines.insert(intent.unwrap_or(IntentId::HOUSE));
        self.jobs.extend(job);
    }

    /// What an agent asks these people.
    pub fn between(&mut self, agent: &str, people: [Option<&str>; 2]) {
        self.locks.extend(people.into_iter().flatten().map(|principal| pair_lock(agent, principal)));
    }

    /// That this is done once.
    pub fn once(&mut self, caller: &Caller, once: Option<&Idempotency>) {
        self.locks.extend(once.map(|once| idempotency::lock_key(caller.principal(), &once.key)));
    }
}

/// What took the place of a refused question whose objection is not settled.
fn followed(moment: &Moment) -> Option<MomentId> {
    moment.superseded_by.filter(|_| moment.is_unsettled_veto())
}

/// A transaction in which moments change.
pub(crate) struct Turn {
    pub tx: Tx,
    pub now: Timestamp,
    reached: BTreeSet<MomentId>,
    lines: BTreeMap<IntentId, Line>,
    pub jobs: jobs::Waiting,
    /// Jobs for which a question has ended, and the last such question.
    answered: BTreeMap<JobId, MomentId>,
    touches: BTreeSet<String>,
    rings: Vec<Touch>,
    /// The answer as it was given, where that says more than the moment's words (RFC-0025).
    pub given: Option<suspensions::Given>,
}

impl Turn {
    /// Begins with the locks of all that is reached.
    pub async fn begin(ctx: &Ctx, trace: Option<Trace>, reach: Reach) -> Outcome<Self> {
        let Reach { moments: reached, lines, jobs, mut locks } = reach;
        locks.extend(lines.iter().copied().map(lock_key));
        let mut tx = ctx.begin_locked(locks).await?;
        let mut now = ctx.now();
        let mut open = BTreeMap::new();
        for id in lines {
            let line = Line::open(&mut tx, id, trace, now).await?;
            now = now.max(line.now());
            open.insert(id, line);
        }
        let jobs: Vec<JobId> = jobs.into_iter().collect();
        let jobs = jobs::Waiting::take(&mut tx, &jobs, now).await?;
        let (answered, touches) = (BTreeMap::new(), BTreeSet::new());
        Ok(Self { tx, now, reached, lines: open, jobs, answered, touches, rings: Vec::new(), given: None })
    }

    /// Takes one moment in hand. What time has done to it is written down with whatever is done now.
    pub async fn take(
        ctx: &Ctx,
        caller: &Caller,
        id: MomentId,
        once: Option<&Idempotency>,
    ) -> Outcome<(Self, Kept)> {
        let mut conn = ctx.pool.acquire().await?;
        let found = rows::load(&mut conn, id).await?.ok_or_else(|| not_found("moment"))?;
        role(caller, &found.moment, ctx.now()).ok_or_else(|| not_found("moment"))?;
        let mut reach = Reach::of(&mut conn, &found).await?;
        drop(conn);
        reach.once(caller, once);
        let mut turn = Self::begin(ctx, caller.trace, reach).await?;
        let kept = turn.current(ctx, id).await?.ok_or_else(|| not_found("moment"))?;
        Ok((turn, kept))
    }

    /// Whether everything is locked that a change of this moment reaches.
    pub fn reaches(&self, moment: &Moment) -> bool {
        self.reached.contains(&moment.id)
    }

    /// A moment as it is by now: what time has done to it, and to what took its place, is written down.
    pub async fn current(&mut self, ctx: &Ctx, id: MomentId) -> Outcome<Option<Kept>> {
        let Some(kept) = rows::load(&mut self.tx, id).await? else { return Ok(None) };
        let next = followed(&kept.moment).filter(|next| self.reached.contains(next));
        let Some(next) = next else { return Ok(Some(self.pass(ctx, kept).await?)) };
        if let Some(next) = rows::load(&mut self.tx, next).await? {
            let next = self.pass(ctx, next).await?;
            if matches!(next.moment.state, MomentState::Withdrawn | MomentState::Expired) {
                // The end of an intent holds no other line than its own, and has left this to whoever comes.
                self.follow_up(ctx, &next.moment, HOUSE, None).await?;
            }
        }
        rows::load(&mut self.tx, id).await
    }

    /// Writes down what time, or the end of its job, has done to a moment in hand: that a second person is asked too, also
    /// where an answer comes before the sweep.
    async fn pass(&mut self, ctx: &Ctx, mut kept: Kept) -> Outcome<Kept> {
        let Some(moment) = passed(&kept, self.now) else {
            if let Some(moment) = kept.moment.escalate(self.now) {
                kept.moment = moment;
                self.record(ctx, Kind::MomentEscalated, HOUSE, &kept.moment, &json!({}))?;
                self.save(ctx, &mut kept).await?;
            }
            return Ok(kept);
        };
        kept.moment = moment;
        let reason = json!({ "reason": kept.moment.end_reason });
        let kind = kind_of_end(&kept.moment);
        self.end(ctx, &mut kept, kind, HOUSE, &reason, None).await?;
        Ok(kept)
    }

    /// Writes down that a moment waits for its answer no longer: what comes of that for its job and for the refused questions
    /// before it. `by`: who answered or closed it.
    pub async fn end(
        &mut self,
        ctx: &Ctx,
        kept: &mut Kept,
        kind: Kind,
        actor: &str,
        more: &Value,
        by: Option<&str>,
    ) -> Outcome<()> {
        self.record(ctx, kind, actor, &kept.moment, more)?;
        // For what was refused, or never was a question, no job has waited.
        let waited = kept.moment.digest.is_some() && kept.moment.state != MomentState::Closed;
        let job = kept.moment.job_id.filter(|_| waited);
        self.answered.extend(job.map(|job| (job, kept.moment.id)));
        self.save(ctx, kept).await?;
        if kept.moment.intent_id.is_some() {
            // What an intent waits with goes on with it, or without it.
            let given = self.given.take();
            let (tx, line) = self.parts(line_of(&kept.moment))?;
            suspensions::moment_ended(tx, ctx, line, &kept.moment, actor, given).await?;
        }
        self.follow_up(ctx, &kept.moment, actor, by).await
    }

    /// The transaction, and one of the lines whose lock it holds.
    pub fn parts(&mut self, id: IntentId) -> Outcome<(&mut PgConnection, &mut Line)> {
        let line = self.lines.get_mut(&id);
        let line = line.ok_or_else(|| AppError::Inconsistent(format!("the line of {id} is not locked")))?;
        Ok((&mut self.tx, line))
    }

    /// The objections to what a moment took the place of are settled by its end, or stand again.
    async fn follow_up(&mut self, ctx: &Ctx, ended: &Moment, actor: &str, by: Option<&str>) -> Outcome<()> {
        if ended.supersedes.is_none() {
            return Ok(());
        }
        let before = rows::before(&mut self.tx, ended.id).await?;
        let after = law::after_end(ended, before.iter().map(|kept| &kept.moment), by, self.now);
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

    /// Records what became of a moment on its line: who and what, never the words.
    pub fn record(
        &mut self,
        ctx: &Ctx,
        kind: Kind,
        actor: &str,
        moment: &Moment,
        more: &Value,
    ) -> Outcome<()> {
        let line = self.lines.get_mut(&line_of(moment)).ok_or_else(|| {
            AppError::Inconsistent(format!("the line of {} is not locked by whoever changes it", moment.id))
        })?;
        line.record(ctx, Draft::of(kind, actor, described(moment, more)));
        let labels = MomentLabels { event: kind.wire() };
        ctx.metrics.moments.get_or_create(&labels).inc();
        Ok(())
    }

    /// Writes a moment that has changed.
    pub async fn save(&mut self, ctx: &Ctx, kept: &mut Kept) -> Outcome<()> {
        rows::update(&mut self.tx, kept, due_at(&kept.moment, &ctx.settings.moments)).await?;
        self.touch(&kept.moment);
        Ok(())
    }

    /// Whether anything was written.
    pub fn has_changed(&self) -> bool {
        !self.rings.is_empty()
    }

    /// Those who are to hear of a moment hear of it when this is committed.
    pub fn touch(&mut self, moment: &Moment) {
        self.rings.push(Touch::Moment(moment.id));
        self.touches.insert(moment.agent_id.clone());
        self.touches.insert(moment.principal_id.clone());
        self.touches.extend(moment.escalation.as_ref().map(|one| one.to.clone()));
    }

    /// Writes the lines, commits, and tells.
    pub async fn conclude(mut self, ctx: &Ctx) -> Outcome<()> {
        resume(&mut self.tx, &mut self.jobs, &self.answered).await?;
        self.jobs.save(ctx, &mut self.tx).await?;
        for line in self.lines.values().filter(|line| !line.recorded.is_empty()) {
            line.save(&mut self.tx).await?;
        }
        self.tx.commit().await?;
        for (id, line) in &self.lines {
            if !line.recorded.is_empty() {
                ctx.feed.news(*id);
            }
        }
        self.jobs.announce(ctx);
        self.rings.into_iter().for_each(|touch| ctx.feed.ring(touch));
        self.touches.into_iter().for_each(|party| ctx.feed.ring(Touch::Inbox(party)));
        Ok(())
    }

    /// As [`Self::conclude`]; the moment as the caller now finds it.
    pub async fn shown(mut self, ctx: &Ctx, caller: &Caller, kept: Kept) -> Outcome<Shown> {
        let now = self.now;
        let words = words::load(&mut self.tx, &[kept.moment.id]).await?;
        self.conclude(ctx).await?;
        let words = words.into_iter().map(|(_, word)| word).collect();
        Shown::new(kept, words, caller, now).ok_or_else(|| not_found("moment"))
    }
}

/// Has jobs go on for which no question is open any more. They are locked, and what has ended is written.
pub(super) async fn resume(
    conn: &mut PgConnection,
    jobs: &mut jobs::Waiting,
    answered: &BTreeMap<JobId, MomentId>,
) -> Outcome<()> {
    for (job, moment) in answered {
        if !is_awaited(conn, *job).await? {
            jobs.resumes(*job, *moment);
        }
    }
    Ok(())
}

/// Whether somebody is asked for a job. What has lapsed counts until that is written: then the job hears that it goes on.
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
