//! Binding moments: an agent asks a person, and that person answers, in its own name and with a key of its own. What may
//! happen is `entente_domain::moments`; here is who asks for it and what is written down.
//!
//! `asking.rs` opens them, `answering.rs` is the person's side, `words.rs` what is said in between (table `moment_words`),
//! `ending.rs` the agent's and other ends, `repeats.rs` what keeps a question from being asked again, `time.rs` what time does;
//! `reading.rs` and `lists.rs` show, `rating.rs` tells how well agents ask. The rows are `rows.rs` (tables `moments`, `moment_clock`). All of them change moments through a [`Turn`]
//! (`turn.rs`).
//!
//! What was asked and answered stands in these tables alone: never in events, logs, metrics or kept outcomes, so that it is
//! gone when it is scrubbed (binding moment §12). Why a hatch was closed is neither, and is told (§11.3).

mod answering;
mod asking;
mod ending;
mod lists;
mod rating;
mod reading;
mod repeats;
mod rows;
mod time;
mod turn;
mod visible;
mod words;

use std::time::Duration;

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::events::Kind;
use entente_domain::ids::IntentId;
use entente_domain::keys::Scope;
use entente_domain::moments::{Decider, Level, Lint, Moment, MomentState, Via, WordKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use self::answering::answer;
pub use self::answering::{close, resolve, view};
pub use self::asking::{Emitted, Warning, deliberate, emit};
pub(crate) use self::asking::{put, superseded};
pub(crate) use self::ending::{Ended, end_of_intent, end_of_suspension};
pub use self::ending::{acknowledge, withdraw};
pub use self::lists::{Filter, inbox, list, waiting};
pub use self::rating::{Rated, rates};
pub(crate) use self::reading::awaited;
pub use self::reading::moved;
pub use self::reading::{changes, get, last_change, wait};
pub use self::rows::Around;
pub(crate) use self::rows::{Kept, load};
pub use self::time::pass_time;
pub(crate) use self::turn::{Reach, Turn};
pub use self::words::{Word, word};
use super::Caller;

/// The labels of keys that a login makes (people): through what a person answers.
const BROWSER: &str = "browser";
const TERMINAL: &str = "terminal";

/// What the operator says about moments.
#[derive(Debug, Clone)]
pub struct MomentSettings {
    /// How long contents are kept after the agent has said that it has the answer.
    pub retain: Duration,
    /// How long they are kept after the end of one of which it never says so, and after the last word of what is deliberated.
    pub unread: Duration,
    /// Who is asked when an intent waits for a person and names none (RFC-0025).
    pub person: Option<String>,
}

/// What was remarked about a question when it was asked: a lint, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = MomentLint)]
pub struct Remark {
    /// Which, a stable word.
    #[schema(example = "synopsis.hedge_phrase")]
    pub code: String,
    /// How much it weighs.
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
    /// When what took its place is, or was, over without an answer, as far as that is known.
    pub next_over_at: Option<Timestamp>,
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
        let moment = seen(&kept, now).unwrap_or(kept.moment);
        let Kept { lints, around, changed_seq, next_over_at, malformed, .. } = kept;
        let said = words.len();
        let shown = Self { moment, lints, words, said, around, role, changed_seq, next_over_at, malformed };
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
pub(crate) fn decider(caller: &Caller) -> Decider<'_> {
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
        authority: key.authority.as_ref(),
    }
}

/// As who reads finds a moment: what has [`passed`], and a refused question is deliberated again the instant that what took
/// its place is over without an answer; `None`: as it is stored.
fn seen(kept: &Kept, now: Timestamp) -> Option<Moment> {
    let over = kept.next_over_at.filter(|at| *at <= now);
    over.and_then(|at| kept.moment.restore_veto(at)).or_else(|| passed(kept, now))
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

/// When time does something to a moment next.
fn due_at(moment: &Moment, settings: &MomentSettings) -> Option<Timestamp> {
    let long = |time: Duration| TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
    let after = |at: Timestamp, time: Duration| at.checked_add_signed(long(time)).unwrap_or(at);
    if moment.state == MomentState::Open {
        let second = moment.escalation.as_ref().filter(|one| one.told_at.is_none()).map(|one| one.at);
        return [moment.expires_at, second].into_iter().flatten().min();
    }
    if moment.scrubbed_at.is_some() {
        return None;
    }
    if moment.state == MomentState::Deliberating {
        return moment.quiet_since.map(|at| after(at, settings.unread));
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
