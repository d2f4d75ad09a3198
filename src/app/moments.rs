//! Binding moments: an agent asks a person, and that person answers, in its own name and with a key of its own. What may
//! happen is `entente_core::moments`; here is who asks for it and what is written down.
//!
//! `asking.rs` opens them, `answering.rs` is the person's side, `words.rs` what is said in between (table `moment_words`),
//! `ending.rs` the agent's and other ends, `time.rs` what time does; `reading.rs` and `lists.rs` show, `rating.rs` tells how well agents ask. The rows are `rows.rs` (tables
//! `moments`, `moment_clock`). All of them change moments through a [`Turn`].
//!
//! What was asked and answered stands in these tables alone: never in events, logs, metrics or kept outcomes, so that it is
//! gone when it is scrubbed (binding moment §12). Why a hatch was closed is neither, and is told (§11.3).

mod answering;
mod asking;
mod ending;
mod lists;
mod rating;
mod reading;
mod rows;
mod seen;
mod time;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::TimeDelta;
use entente_core::canonical::sha256;
use entente_core::clock::Timestamp;
use entente_core::events::{Draft, Kind};
use entente_core::idempotency::Idempotency;
use entente_core::ids::{IntentId, MomentId};
use entente_core::keys::Scope;
use entente_core::moments::{Decider, Level, Lint, Moment, MomentState, Via, WordKind};
use entente_core::principals::HOUSE;
use entente_core::traces::Trace;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::answering::{close, resolve, view};
pub use self::asking::{Emitted, Warning, deliberate, emit};
pub(crate) use self::ending::end_of_intent;
pub use self::ending::{acknowledge, withdraw};
pub use self::lists::{Filter, inbox, list, waiting};
pub use self::rating::{Rated, rates};
pub(crate) use self::reading::{awaited, moved};
pub use self::reading::{changes, get, last_change, wait};
pub use self::rows::Around;
use self::rows::Kept;
pub use self::time::pass_time;
pub use self::words::{Word, word};
use super::lines::Line;
use super::{Caller, Ctx, Outcome, Tx, idempotency, jobs, lock_key, not_found};
use crate::feed::Touch;
use crate::telemetry::MomentLabels;

/// The labels of keys that a login makes (people): through what a person answers.
const BROWSER: &str = "browser";
const TERMINAL: &str = "terminal";

/// What the operator says about moments.
#[derive(Debug, Clone)]
pub struct MomentSettings {
    /// How long contents are kept after the agent has said that it has the answer.
    pub retain: Duration,
    /// How long they are kept after the end of one of which it never says so.
    pub unread: Duration,
}

/// What was remarked about a question when it was asked: a lint, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = MomentLint)]
pub struct Remark {
    /// Which, a stable word.
    #[schema(example = "synopsis.hedge_phrase")]
    pub code: String,
    /// How much it weighs.
    // There is another `Level` in the document, that of access.
    #[schema(inline)]
    pub level: Level,
    /// Where, a JSON Pointer into the question.
    pub at: String,
    /// What it is, in words.
    pub note: String,
}

impl From<Lint> for Remark {
    fn from(lint: Lint) -> Self {
        Self { code: lint.code.to_owned(), level: lint.level, at: lint.at, note: lint.note }
    }
}

/// As what somebody sees a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It asked.
    Agent,
    /// It is asked.
    Principal,
    /// It looks after the server: it sees that there was an answer, not which words it has.
    Admin,
}

/// A moment as one of those finds it who may see it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The moment; what time has done to it has happened.
    pub moment: Moment,
    /// What was remarked about the question.
    pub lints: Vec<Remark>,
    /// What was said, the earliest first; not in lists.
    pub words: Vec<Word>,
    /// How much was said.
    pub said: usize,
    /// What its job and its intent are like.
    pub around: Around,
    /// As what it is seen.
    pub role: Role,
    /// Its place among all changes.
    pub changed_seq: i64,
    /// Why the stored question cannot be read, when it cannot: then it is not shown, and what stands in for it is.
    pub malformed: Option<String>,
}

/// As what the caller sees a moment; `None` when it does not. A person's words are read with a key of that person's own: another
/// key does not become the person by acting as it.
fn role(caller: &Caller, moment: &Moment, now: Timestamp) -> Option<Role> {
    if caller.agent == moment.agent_id {
        Some(Role::Agent)
    } else if caller.is_itself() && moment.is_addressed_to(&caller.agent, now) {
        Some(Role::Principal)
    } else {
        caller.has(Scope::Admin).then_some(Role::Admin)
    }
}

impl Shown {
    /// A moment for this caller; `None` when it is not the caller's to see.
    fn new(kept: Kept, words: Vec<Word>, caller: &Caller, now: Timestamp) -> Option<Self> {
        let role = role(caller, &kept.moment, now)?;
        let moment = passed(&kept, now).unwrap_or(kept.moment);
        let (lints, around, changed_seq, malformed) =
            (kept.lints, kept.around, kept.changed_seq, kept.malformed);
        let said = words.len();
        let shown = Self { moment, lints, words, said, around, role, changed_seq, malformed };
        Some(if role == Role::Admin { shown.without_answers() } else { shown })
    }

    /// Without what the person said.
    fn without_answers(mut self) -> Self {
        if let Some(settled) = &mut self.moment.resolution {
            (settled.answer, settled.objection) = (None, None);
        }
        if self.moment.state == MomentState::Closed {
            self.moment.end_reason = None;
        }
        let theirs = |word: &&mut Word| matches!(word.kind, WordKind::DetailAsked | WordKind::Reply);
        self.words.iter_mut().filter(theirs).for_each(|word| word.text = None);
        self
    }
}

/// Who wants to answer, and by what right: the key's own principal, whatever the request says.
fn decider(caller: &Caller) -> Decider<'_> {
    let key = &caller.grant.key;
    let via = match key.label.as_deref() {
        Some(BROWSER) => Via::Web,
        Some(TERMINAL) => Via::Cli,
        _ => Via::Api,
    };
    Decider {
        principal_id: &key.principal_id,
        kind: caller.grant.kind,
        as_itself: caller.is_itself(),
        key_id: key.id,
        via,
    }
}

/// What time, or the end of its job, has made of a moment and nobody has written down yet; `None`: nothing.
fn passed(kept: &Kept, now: Timestamp) -> Option<Moment> {
    let moment = &kept.moment;
    let end = kept.around.job_ended_at.filter(|_| moment.job_id.is_some());
    let first = |end: &Timestamp| moment.expires_at.is_none_or(|at| at > *end);
    match end.filter(first) {
        Some(end) => moment.lose_cause("job_ended", end).or_else(|| moment.expire(now)),
        None => moment.expire(now).or_else(|| moment.lose_cause("job_ended", end?)),
    }
}

/// The line on which it is told what becomes of a moment.
fn line_of(moment: &Moment) -> IntentId {
    moment.intent_id.unwrap_or(IntentId::HOUSE)
}

/// The advisory lock of an agent and a person: what is asked between them is judged one after the other, so that of two
/// questions at once the second one knows of the first.
fn pair_lock(agent: &str, principal: &str) -> i64 {
    let digest = sha256(format!("moments\0{agent}\0{principal}"));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// When time does something to a moment next.
fn due_at(moment: &Moment, settings: &MomentSettings) -> Option<Timestamp> {
    let long = |time: Duration| TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
    let after = |at: Timestamp, time: Duration| at.checked_add_signed(long(time)).unwrap_or(at);
    if moment.state == MomentState::Open {
        let second = moment.escalation.as_ref().filter(|one| one.told_at.is_none()).map(|one| one.at);
        return [moment.expires_at, second].into_iter().flatten().min();
    }
    if !moment.state.is_terminal() || moment.scrubbed_at.is_some() {
        return None;
    }
    let read = moment.acknowledged_at.map(|at| after(at, settings.retain));
    let unread = moment.ended_at.map(|at| after(at, settings.unread));
    [read, unread].into_iter().flatten().min()
}

/// What an end is that nobody asked for: time's, or that of what the question was for.
fn kind_of_end(moment: &Moment) -> Kind {
    if moment.state == MomentState::Expired { Kind::MomentExpired } else { Kind::MomentWithdrawn }
}

/// What an event tells of a moment: who and what, never the words.
fn described(moment: &Moment, more: &Value) -> Value {
    let second = moment.escalation.as_ref().filter(|one| one.told_at.is_some());
    let mut told = json!({
        "moment_id": moment.id, "agent_id": moment.agent_id, "principal_id": moment.principal_id,
        "escalated_to": second.map(|one| one.to.as_str()), "state": moment.state, "digest": moment.digest,
        "decision_class": moment.decision_class, "job_id": moment.job_id, "intent_id": moment.intent_id,
        "corr": moment.corr, "expires_at": moment.expires_at, "version": moment.version,
    });
    if let (Value::Object(told), Value::Object(more)) = (&mut told, more) {
        told.extend(more.clone());
    }
    told
}

/// A transaction in which moments change: it holds the locks of their lines.
///
/// Order of locks: lines, pairs and idempotency keys together, jobs, and last the clock of changes, whose row every write of a
/// moment takes. So the job of a moment is told before the moment is written.
struct Turn {
    tx: Tx,
    lines: BTreeMap<IntentId, Line>,
    now: Timestamp,
    told: Vec<jobs::Told>,
    touches: BTreeSet<String>,
    rings: Vec<Touch>,
}

impl Turn {
    /// Begins with the locks of these lines, and these.
    async fn begin(ctx: &Ctx, trace: Option<Trace>, lines: &[IntentId], locks: Vec<i64>) -> Outcome<Self> {
        let mut locks = locks;
        locks.extend(lines.iter().copied().map(lock_key));
        let mut tx = ctx.begin_locked(locks).await?;
        let mut now = ctx.now();
        let mut open = BTreeMap::new();
        for id in lines {
            let line = Line::open(&mut tx, *id, trace, now).await?;
            now = now.max(line.now());
            open.insert(*id, line);
        }
        Ok(Self { tx, lines: open, now, told: Vec::new(), touches: BTreeSet::new(), rings: Vec::new() })
    }

    /// Takes one moment in hand. What time has done to it is written down with whatever is done now.
    async fn take(
        ctx: &Ctx,
        caller: &Caller,
        id: MomentId,
        once: Option<&Idempotency>,
    ) -> Outcome<(Self, Kept)> {
        let mut conn = ctx.pool.acquire().await?;
        let found = rows::load(&mut conn, id).await?.ok_or_else(|| not_found("moment"))?;
        role(caller, &found.moment, ctx.now()).ok_or_else(|| not_found("moment"))?;
        let mut lines = vec![line_of(&found.moment)];
        if found.moment.supersedes.is_some() {
            // What it took the place of may be settled with it.
            let before = rows::before(&mut conn, id).await?;
            lines.extend(before.iter().map(|kept| line_of(&kept.moment)));
        }
        drop(conn);
        lines.sort_unstable();
        lines.dedup();
        let once = once.map(|once| idempotency::lock_key(caller.principal(), &once.key));
        let mut turn = Self::begin(ctx, caller.trace, &lines, once.into_iter().collect()).await?;
        let kept = rows::load(&mut turn.tx, id).await?.ok_or_else(|| not_found("moment"))?;
        let kept = turn.pass(ctx, kept).await?;
        Ok((turn, kept))
    }

    /// Writes down what time, or the end of its job, has done to a moment in hand.
    async fn pass(&mut self, ctx: &Ctx, mut kept: Kept) -> Outcome<Kept> {
        let Some(moment) = passed(&kept, self.now) else { return Ok(kept) };
        kept.moment = moment;
        let reason = json!({ "reason": kept.moment.end_reason });
        self.record(ctx, kind_of_end(&kept.moment), HOUSE, &kept.moment, &reason);
        self.tell_job(ctx, &kept.moment, false).await?;
        self.save(ctx, &mut kept).await?;
        Ok(kept)
    }

    /// Records what became of a moment on its line: who and what, never the words.
    fn record(&mut self, ctx: &Ctx, kind: Kind, actor: &str, moment: &Moment, more: &Value) {
        let labels = MomentLabels { event: kind.wire() };
        ctx.metrics.moments.get_or_create(&labels).inc();
        let Some(line) = self.lines.get_mut(&line_of(moment)) else { return };
        line.record(ctx, Draft::of(kind, actor, described(moment, more)));
    }

    /// Has the moment's job say that it waits for a person, or that it goes on.
    async fn tell_job(&mut self, ctx: &Ctx, moment: &Moment, waits: bool) -> Outcome<()> {
        let Some(job) = moment.job_id else { return Ok(()) };
        self.told.extend(jobs::say(ctx, &mut self.tx, job, moment.id, waits, self.now).await?);
        Ok(())
    }

    /// Writes a moment that has changed.
    async fn save(&mut self, ctx: &Ctx, kept: &mut Kept) -> Outcome<()> {
        rows::update(&mut self.tx, kept, due_at(&kept.moment, &ctx.settings.moments)).await?;
        self.touch(&kept.moment);
        Ok(())
    }

    /// Those who are to hear of a moment hear of it when this is committed.
    fn touch(&mut self, moment: &Moment) {
        self.rings.push(Touch::Moment(moment.id));
        self.touches.insert(moment.agent_id.clone());
        self.touches.insert(moment.principal_id.clone());
        self.touches.extend(moment.escalation.as_ref().map(|one| one.to.clone()));
    }

    /// Writes the lines, commits, and tells.
    async fn conclude(mut self, ctx: &Ctx) -> Outcome<()> {
        for line in self.lines.values().filter(|line| !line.recorded.is_empty()) {
            line.save(&mut self.tx).await?;
        }
        self.tx.commit().await?;
        for (id, line) in &self.lines {
            if !line.recorded.is_empty() {
                ctx.feed.news(*id);
            }
        }
        self.told.iter().for_each(|told| told.announce(ctx));
        self.rings.into_iter().for_each(|touch| ctx.feed.ring(touch));
        self.touches.into_iter().for_each(|party| ctx.feed.ring(Touch::Inbox(party)));
        Ok(())
    }

    /// As [`Self::conclude`]; the moment as the caller now finds it.
    async fn shown(mut self, ctx: &Ctx, caller: &Caller, kept: Kept) -> Outcome<Shown> {
        let now = self.now;
        let words = words::load(&mut self.tx, &[kept.moment.id]).await?;
        self.conclude(ctx).await?;
        let words = words.into_iter().map(|(_, word)| word).collect();
        Shown::new(kept, words, caller, now).ok_or_else(|| not_found("moment"))
    }
}
