//! Binding moments: an agent asks a person, who answers in their own name with a key of their own.
//! `entente_domain::moments` defines the valid transitions; this crate checks callers and records the
//! results.
//!
//! All operations change moments through a [`MomentTx`] (`tx.rs`); README.md lists the files.
//!
//! Questions and answers are stored only in the tables `moments` and `moment_words`, never in events, logs,
//! metrics or stored responses, so that scrubbing removes them (binding moment §12). The reason for suppressing
//! a hatch is neither, and is published (§11.3).

mod answering;
mod asking;
mod ending;
pub mod hooks;
pub mod jobs;
mod lists;
mod notifying;
mod rating;
mod reading;
mod repeats;
mod rows;
mod time;
mod tx;
mod visible;
mod words;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::people::{BROWSER, TERMINAL};
use entente_domain::ids::IntentId;
use entente_domain::log::events::Kind;
use entente_domain::moments::{Decider, Level, Lint, Moment, MomentState, Via, WordKind};
use entente_kernel::{Caller, ProtocolCtx};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::answering::answer;
pub use self::answering::{close, resolve, view};
pub use self::asking::put;
pub use self::asking::superseded;
pub use self::asking::{Emitted, Warning, deliberate, emit};
pub use self::ending::{acknowledge, withdraw};
pub use self::lists::{MomentFilter, inbox, list, waiting};
pub use self::rating::{Rated, rates};
pub use self::reading::{awaited, changes, get, last_change, of_intent, versions, wait};
pub use self::rows::RelatedState;
pub use self::rows::StoredMoment;
pub use self::rows::load;
pub use self::time::expire_due;
pub use self::tx::LockSet;
pub use self::tx::MomentTx;
pub use self::words::{Word, word};
use crate::jobs::Jobs;

/// State of binding moments.
pub struct State {
    /// The settings.
    pub settings: MomentSettings,
    /// The jobs that wait for decisions.
    pub jobs: Arc<dyn Jobs>,
}

/// Context of the operations.
pub type Ctx = ProtocolCtx<State>;

/// Binding-moment settings.
#[derive(Debug, Clone)]
pub struct MomentSettings {
    /// How long contents are kept after the agent has acknowledged the answer.
    pub retain: Duration,
    /// How long contents are kept after an unacknowledged end, and after the last word of a deliberation.
    pub unread: Duration,
    /// Person asked when an intent waits for a person and names none (RFC-0025).
    pub person: Option<String>,
}

/// A remark about a question, made when it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = MomentLint)]
pub struct Remark {
    /// Stable code of the remark.
    #[schema(example = "synopsis.hedge_phrase")]
    pub code: String,
    /// Severity.
    pub level: Level,
    /// JSON Pointer to the place in the question.
    pub at: String,
    /// Explanation in plain words.
    pub note: String,
}

impl From<Lint> for Remark {
    fn from(lint: Lint) -> Self {
        Self { code: lint.code.to_owned(), level: lint.level, at: lint.at, note: lint.note }
    }
}

/// Role in which a caller sees a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The agent that asked.
    Agent,
    /// The person asked.
    Principal,
    /// An admin of the server: sees that there was an answer, but not its words.
    Admin,
}

/// A moment as shown to a caller.
#[derive(Debug, Clone)]
pub struct MomentView {
    /// The moment, with all due effects of time applied.
    pub moment: Moment,
    /// Remarks about the question.
    pub lints: Vec<Remark>,
    /// Words of the conversation, oldest first; empty in lists.
    pub words: Vec<Word>,
    /// Number of words.
    pub said: usize,
    /// State of its job and intent.
    pub related: RelatedState,
    /// Role of the caller.
    pub role: Role,
    /// Number of its last change among all moments.
    pub changed_seq: i64,
    /// End, if known, of the moment that superseded it, when that one ends or ended without an answer.
    pub next_over_at: Option<Timestamp>,
    /// Why the stored question cannot be read, if so; its fallback text is shown instead.
    pub malformed: Option<String>,
}

/// Role in which the caller sees a moment; `None` if it may not see it.
///
/// A person's words require that person's own key: another key that acts as the person is not enough.
fn role(caller: &Caller, moment: &Moment, now: Timestamp) -> Option<Role> {
    if caller.agent == moment.agent_id {
        Some(Role::Agent)
    } else if caller.is_itself() && moment.is_addressed_to(&caller.agent, now) {
        Some(Role::Principal)
    } else {
        caller.has(Scope::Admin).then_some(Role::Admin)
    }
}

impl MomentView {
    /// A moment for this caller; `None` if the caller may not see it.
    fn new(kept: StoredMoment, words: Vec<Word>, caller: &Caller, now: Timestamp) -> Option<Self> {
        let role = role(caller, &kept.moment, now)?;
        let moment = seen(&kept, now).unwrap_or(kept.moment);
        let StoredMoment { lints, related, changed_seq, next_over_at, malformed, .. } = kept;
        let said = words.len();
        let shown = Self { moment, lints, words, said, related, role, changed_seq, next_over_at, malformed };
        Some(if role == Role::Admin { shown.without_answers() } else { shown })
    }

    /// Removes the person's text.
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

/// The deciding principal and its authority: that of the key, regardless of the acting agent.
#[must_use]
pub fn decider(caller: &Caller) -> Decider<'_> {
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

/// Current state for readers, if it differs from the stored one.
///
/// Applies due effects ([`passed`]); a refused question is restored as soon as its successor is over without
/// an answer.
fn seen(kept: &StoredMoment, now: Timestamp) -> Option<Moment> {
    let over = kept.next_over_at.filter(|at| *at <= now);
    over.and_then(|at| kept.moment.restore_veto(at)).or_else(|| passed(kept, now))
}

/// Effect of time or of the job's end that is not written yet; `None` if there is none.
fn passed(kept: &StoredMoment, now: Timestamp) -> Option<Moment> {
    let moment = &kept.moment;
    let end = kept.related.job_ended_at.filter(|_| moment.job_id.is_some());
    let first = |end: &Timestamp| moment.expires_at.is_none_or(|at| at > *end);
    match end.filter(first) {
        Some(end) => moment.lose_cause("job_ended", end).or_else(|| moment.expire(now)),
        None => moment.expire(now).or_else(|| moment.lose_cause("job_ended", end?)),
    }
}

/// Intent whose log records a moment.
fn line_of(moment: &Moment) -> IntentId {
    moment.intent_id.unwrap_or(IntentId::SYSTEM)
}

/// Time of the next due effect on a moment.
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

/// Event kind of an automatic end: by time, or with the question's job or intent.
fn kind_of_end(moment: &Moment) -> Kind {
    if moment.state == MomentState::Expired { Kind::MomentExpired } else { Kind::MomentWithdrawn }
}

/// Payload of a moment's event: parties and state, never any text.
fn event_payload(moment: &Moment, more: &Value) -> Value {
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
