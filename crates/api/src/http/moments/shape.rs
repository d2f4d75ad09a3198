//! How a moment looks to clients. What is in it is the deed's: nothing is left out here.

use entente_domain::authority::Authority;
use entente_domain::ids::{IntentId, JobId, KeyId, MomentId};
use entente_domain::keys::Dialect;
use entente_domain::moments::{
    Brief, Hatches, MomentState, PROFILE, ResolutionKind, Settled, ValidWhile, Via, WordKind,
};
use entente_kernel::moments::{Emitted, Remark, Shown, Warning, Word};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::wire::WireTime;

/// A question to a person, or a deliberation with one, and what has become of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Moment)]
pub struct MomentBody {
    /// Its id.
    id: MomentId,
    /// The same.
    moment_id: MomentId,
    /// Who asks.
    agent_id: String,
    /// Who is asked.
    principal_id: String,
    /// Who is asked too, and since when.
    escalation: Option<EscalationBody>,
    /// Where it stands.
    state: MomentState,
    /// Which revision of the memo its slots are of.
    #[schema(example = "bm-00")]
    profile: &'static str,
    /// The eight slots; null for a deliberation, and once the contents are gone.
    binding_moment: Option<Brief>,
    /// Why the stored slots cannot be read and so are not shown, when that is so; it cannot be answered then.
    #[serde(skip_serializing_if = "Option::is_none")]
    malformed: Option<String>,
    /// SHA-256 over the canonical slots (RFC 8785): an answer names it.
    envelope_digest: Option<String>,
    /// The same.
    digest: Option<String>,
    /// What kind of decision it is.
    decision_class: Option<String>,
    /// Whether the person may answer in its own words, and refuse the question.
    hatches: Hatches,
    /// Why a hatch is closed.
    hatch_justification: Option<String>,
    /// What was remarked about the question; not a part of it.
    lints: Vec<Remark>,
    /// How the objection to the question before was answered.
    objection_response: Option<String>,
    /// The refused question whose place it took.
    supersedes: Option<MomentId>,
    /// The question that took its place.
    superseded_by: Option<MomentId>,
    /// What is shown where the slots cannot be.
    fallback_text: Option<String>,
    /// The job that waits.
    job_id: Option<JobId>,
    /// What that job is like.
    job: Option<JobBody>,
    /// The intent that it is about.
    intent_id: Option<IntentId>,
    /// The agent's thread.
    corr: Option<String>,
    /// In which state of the job or the intent an answer counts.
    valid_while: ValidWhile,
    /// When it was asked.
    created_at: WireTime,
    /// When it lapses; nothing is approved by that.
    expires_at: Option<WireTime>,
    /// When its person first had it before its eyes.
    first_viewed_at: Option<WireTime>,
    /// The answer.
    resolution: Option<ResolutionBody>,
    /// What was said, the earliest first; left out in lists when there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<Vec<WordBody>>,
    /// How much was said.
    words_count: usize,
    /// When it came to its end.
    ended_at: Option<WireTime>,
    /// Why it was withdrawn or closed.
    end_reason: Option<String>,
    /// When the agent said that it has the answer.
    acknowledged_at: Option<WireTime>,
    /// When the contents were taken out.
    scrubbed_at: Option<WireTime>,
    /// Grows with every change.
    version: i64,
}

/// Who is asked too.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MomentEscalation)]
struct EscalationBody {
    /// Who.
    to: String,
    /// From when on.
    at: WireTime,
    /// When that was told.
    told_at: Option<WireTime>,
}

/// What a moment's job is like.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MomentJob)]
struct JobBody {
    /// Where it stands.
    status: Option<String>,
    /// When its lease ends: nothing renews it.
    lease_expires_at: Option<WireTime>,
    /// When it is timed out.
    deadline: Option<WireTime>,
}

/// An answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MomentResolution)]
struct ResolutionBody {
    /// Which of the three.
    kind: ResolutionKind,
    /// The option, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    option_idx: Option<usize>,
    /// The person's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// What is wrong with the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    objection: Option<String>,
    /// Who answered.
    resolved_by: String,
    /// When.
    resolved_at: WireTime,
    /// Through what.
    resolved_via: Via,
    /// With which key.
    key_id: KeyId,
    /// On what that key rested; null where nobody has noted it.
    authority: Option<Authority>,
}

/// Something that was said.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MomentWord)]
struct WordBody {
    /// Its place in the thread, from 1.
    n: i32,
    /// Who said it.
    author: String,
    /// What it is.
    kind: WordKind,
    /// The text; null once the contents are gone.
    text: Option<String>,
    /// When.
    said_at: WireTime,
}

impl WordBody {
    fn new(word: &Word, dialect: Dialect) -> Self {
        Self {
            n: word.n,
            author: word.author.clone(),
            kind: word.kind,
            text: word.text.clone(),
            said_at: WireTime::new(word.said_at, dialect),
        }
    }
}

impl ResolutionBody {
    fn new(settled: &Settled, dialect: Dialect) -> Self {
        Self {
            kind: settled.kind,
            option_idx: settled.option_idx,
            answer: settled.answer.clone(),
            objection: settled.objection.clone(),
            resolved_by: settled.by.clone(),
            resolved_at: WireTime::new(settled.at, dialect),
            resolved_via: settled.via,
            key_id: settled.key_id,
            authority: settled.authority.clone(),
        }
    }
}

impl MomentBody {
    /// A moment for this client.
    pub fn new(shown: &Shown, dialect: Dialect) -> Self {
        let moment = shown.moment.clone();
        let wire = |at| WireTime::new(at, dialect);
        let around = &shown.around;
        Self {
            id: moment.id,
            moment_id: moment.id,
            agent_id: moment.agent_id,
            principal_id: moment.principal_id,
            escalation: moment.escalation.map(|one| EscalationBody {
                to: one.to,
                at: wire(one.at),
                told_at: one.told_at.map(wire),
            }),
            state: moment.state,
            profile: PROFILE,
            binding_moment: moment.brief,
            malformed: shown.malformed.clone(),
            envelope_digest: moment.digest.clone(),
            digest: moment.digest,
            decision_class: moment.decision_class,
            hatches: moment.hatches,
            hatch_justification: moment.hatch_justification,
            lints: shown.lints.clone(),
            objection_response: moment.objection_response,
            supersedes: moment.supersedes,
            superseded_by: moment.superseded_by,
            fallback_text: moment.fallback_text,
            job_id: moment.job_id,
            job: moment.job_id.map(|_| JobBody {
                status: around.job_status.clone(),
                lease_expires_at: around.job_expires_at.map(wire),
                deadline: around.job_deadline.map(wire),
            }),
            intent_id: moment.intent_id,
            corr: moment.corr,
            valid_while: moment.valid_while,
            created_at: wire(moment.created_at),
            expires_at: moment.expires_at.map(wire),
            first_viewed_at: moment.first_viewed_at.map(wire),
            resolution: moment.resolution.as_ref().map(|settled| ResolutionBody::new(settled, dialect)),
            words: (shown.words.len() == shown.said)
                .then(|| shown.words.iter().map(|word| WordBody::new(word, dialect)).collect()),
            words_count: shown.said,
            ended_at: moment.ended_at.map(wire),
            end_reason: moment.end_reason,
            acknowledged_at: moment.acknowledged_at.map(wire),
            scrubbed_at: moment.scrubbed_at.map(wire),
            version: moment.version,
        }
    }
}

/// A question that was asked.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EmittedMoment)]
pub struct EmittedBody {
    #[serde(flatten)]
    moment: MomentBody,
    /// What its agent should know of.
    warnings: Vec<Warning>,
}

impl EmittedBody {
    /// A new question for its agent.
    pub fn new(emitted: &Emitted, dialect: Dialect) -> Self {
        Self { moment: MomentBody::new(&emitted.shown, dialect), warnings: emitted.warnings.clone() }
    }
}
