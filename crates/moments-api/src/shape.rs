//! Response format of a moment. The kernel decides which contents the caller may see; nothing is filtered
//! here.

use entente_domain::identity::authority::Authority;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, JobId, KeyId, MomentId};
use entente_domain::moments::{
    Brief, Hatches, MomentState, PROFILE, ResolutionKind, Settled, ValidWhile, Via, WordKind,
};
use entente_http::wire::WireTime;
use entente_moments::{Emitted, MomentView, Remark, Warning, Word};
use serde::Serialize;
use utoipa::ToSchema;

/// A question to a person, or a deliberation with one, and its outcome.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Moment)]
pub struct MomentBody {
    /// Moment id.
    id: MomentId,
    /// Same as `id`.
    moment_id: MomentId,
    /// Agent that asks.
    agent_id: String,
    /// Person to whom the question is addressed.
    principal_id: String,
    /// The escalation to a second person.
    escalation: Option<EscalationBody>,
    /// State of the moment.
    state: MomentState,
    /// Revision of the specification that the slots follow.
    #[schema(example = "bm-00")]
    profile: &'static str,
    /// The eight slots; null for a deliberation, and once the contents have been scrubbed.
    binding_moment: Option<Brief>,
    /// Why the stored slots cannot be read, if so; they are then omitted, and the moment cannot be answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    malformed: Option<String>,
    /// SHA-256 over the canonical slots (RFC 8785), which an answer must name.
    envelope_digest: Option<String>,
    /// Same as `envelope_digest`.
    digest: Option<String>,
    /// Class of the decision.
    decision_class: Option<String>,
    /// Whether the person may answer in their own words, and refuse the question.
    hatches: Hatches,
    /// Justification for a closed hatch.
    hatch_justification: Option<String>,
    /// Remarks of the linter on the question; not part of it.
    lints: Vec<Remark>,
    /// How the objection to the replaced question was addressed.
    objection_response: Option<String>,
    /// The refused question that this one replaced.
    supersedes: Option<MomentId>,
    /// The question that replaced this one.
    superseded_by: Option<MomentId>,
    /// Text for clients that cannot display the slots.
    fallback_text: Option<String>,
    /// The job that waits for the answer.
    job_id: Option<JobId>,
    /// State of that job.
    job: Option<JobBody>,
    /// The intent that the moment concerns.
    intent_id: Option<IntentId>,
    /// Correlation id chosen by the agent.
    corr: Option<String>,
    /// State of the job or intent in which an answer is valid.
    valid_while: ValidWhile,
    /// When the moment was created.
    created_at: WireTime,
    /// When the moment expires; expiry approves nothing.
    expires_at: Option<WireTime>,
    /// When the person first viewed the moment.
    first_viewed_at: Option<WireTime>,
    /// The answer.
    resolution: Option<ResolutionBody>,
    /// The messages, oldest first; omitted in lists, unless there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<Vec<WordBody>>,
    /// Number of messages.
    words_count: usize,
    /// When the moment ended.
    ended_at: Option<WireTime>,
    /// Reason for the withdrawal or closing.
    end_reason: Option<String>,
    /// When the agent acknowledged the answer.
    acknowledged_at: Option<WireTime>,
    /// When the contents were scrubbed.
    scrubbed_at: Option<WireTime>,
    /// Version, which grows with every change.
    version: i64,
}

/// The escalation of a moment to a second person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MomentEscalation)]
struct EscalationBody {
    /// The second person.
    to: String,
    /// When the escalation takes effect.
    at: WireTime,
    /// When the escalation was announced.
    told_at: Option<WireTime>,
}

/// State of the job that waits for a moment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MomentJob)]
struct JobBody {
    /// Status of the job.
    status: Option<String>,
    /// When the job's lease ends; it cannot be renewed.
    lease_expires_at: Option<WireTime>,
    /// When the job times out.
    deadline: Option<WireTime>,
}

/// An answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MomentResolution)]
struct ResolutionBody {
    /// Kind of the answer.
    kind: ResolutionKind,
    /// Index of the chosen option, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    option_idx: Option<usize>,
    /// Answer in the person's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// The person's objection to the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    objection: Option<String>,
    /// The answering person.
    resolved_by: String,
    /// When the question was answered.
    resolved_at: WireTime,
    /// Interface through which the question was answered.
    resolved_via: Via,
    /// The key used for the answer.
    key_id: KeyId,
    /// Basis of that key's authority; null if it was not recorded.
    authority: Option<Authority>,
}

/// A message of a moment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MomentWord)]
struct WordBody {
    /// Position in the thread, from 1.
    n: i32,
    /// Author of the message.
    author: String,
    /// Kind of message.
    kind: WordKind,
    /// The text; null once the contents have been scrubbed.
    text: Option<String>,
    /// When the message was written.
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
    /// Shapes a moment in the client's dialect.
    pub fn new(shown: &MomentView, dialect: Dialect) -> Self {
        let moment = shown.moment.clone();
        let wire = |at| WireTime::new(at, dialect);
        let related = &shown.related;
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
                status: related.job_status.clone(),
                lease_expires_at: related.job_expires_at.map(wire),
                deadline: related.job_deadline.map(wire),
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

/// The response to a question that was asked.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EmittedMoment)]
pub struct EmittedBody {
    #[serde(flatten)]
    moment: MomentBody,
    /// Warnings to the agent about its question.
    warnings: Vec<Warning>,
}

impl EmittedBody {
    /// Shapes a new question in the client's dialect.
    pub fn new(emitted: &Emitted, dialect: Dialect) -> Self {
        Self { moment: MomentBody::new(&emitted.shown, dialect), warnings: emitted.warnings.clone() }
    }
}
