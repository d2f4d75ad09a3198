//! Rows of moments: tables `moments` and `moment_clock`. The clock's single row numbers all changes; its lock
//! admits one writer of moments at a time, so that changes become visible in the order of their numbers.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId, KeyId, MomentId};
use entente_domain::moments::{
    Brief, Escalation, Hatches, Malformed, Moment, MomentState, PROFILE, ResolutionKind, Settled, ValidWhile,
    Via,
};
use entente_kernel::identity::keys;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

use super::Remark;

/// State of a moment's job and intent.
#[derive(Debug, Clone, Default)]
pub struct RelatedState {
    /// Status of the job.
    pub job_status: Option<String>,
    /// End of the job.
    pub job_ended_at: Option<Timestamp>,
    /// Expiry of the job's lease, which nothing renews while the question waits.
    pub job_expires_at: Option<Timestamp>,
    /// Time at which the job times out.
    pub job_deadline: Option<Timestamp>,
    /// Status of the intent.
    pub intent_status: Option<String>,
}

/// A stored moment with related data.
#[derive(Debug, Clone)]
pub struct StoredMoment {
    /// The moment, without due effects that are not written yet.
    pub moment: Moment,
    /// Remarks about the question.
    pub(crate) lints: Vec<Remark>,
    /// Whether the question nearly repeats one that was refused.
    pub(crate) near_duplicate: bool,
    /// State of its job and intent.
    pub(crate) related: RelatedState,
    /// Number of its last change among all moments.
    pub(crate) changed_seq: i64,
    /// The stored version.
    pub(crate) stored: i64,
    /// Why the stored question cannot be read, if so.
    pub(crate) malformed: Option<String>,
    /// The unreadable question as stored: it is kept for readers that can parse it.
    unread: Option<String>,
    /// End, without an answer, of the moment that superseded it.
    pub(crate) next_over_at: Option<Timestamp>,
}

impl StoredMoment {
    /// A moment that is not stored yet.
    pub(crate) fn new(
        moment: Moment,
        lints: Vec<Remark>,
        near_duplicate: bool,
        related: RelatedState,
    ) -> Self {
        let (malformed, unread, next_over_at) = (None, None, None);
        Self {
            moment,
            lints,
            near_duplicate,
            related,
            changed_seq: 0,
            stored: 0,
            malformed,
            unread,
            next_over_at,
        }
    }

    /// The question to store; an unreadable one is kept as long as any other (`Moment::scrub`).
    fn brief(&self) -> Outcome<Option<String>> {
        let (moment, own) = (&self.moment, self.moment.brief.as_ref());
        let keeps = moment.scrubbed_at.is_none() || moment.is_unsettled_veto();
        let own = own.map(entente_domain::canonical::text).transpose()?;
        Ok(own.or_else(|| self.unread.clone().filter(|_| keeps)))
    }
}

/// Selects whole moments: the query's name, and the text after its `FROM`.
macro_rules! select {
    ($name:literal, $rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::rows::Row,
            "-- " + $name + r#"
             SELECT m.id, m.agent_id, m.principal_id, m.escalate_to, m.escalate_at, m.escalated_at, m.brief, m.digest,
                    m.fallback_text, m.decision_class, m.hatch_free_text, m.hatch_dialogue, m.hatch_justification,
                    m.has_calibration_note, m.near_duplicate, m.lints, m.job_id, m.intent_id, m.corr, m.valid_while,
                    m.supersedes, m.superseded_by, m.objection_response, m.state, m.created_at, m.expires_at,
                    m.first_viewed_at, m.detail_asked_at, m.deliberated_at, m.quiet_since, m.resolution_kind, m.option_idx, m.answer_text,
                    m.objection_text, m.resolved_at, m.resolved_by, m.resolver_key_id, m.resolved_via, m.resolver_basis,
                    m.resolver_let_in_by, m.end_reason,
                    m.ended_at, m.veto_settled_at, m.acked_at, m.scrubbed_at, m.version, m.changed_seq, c.status AS "job_status?",
                    c.ended_at AS "job_ended_at?", j.expires_at AS "job_expires_at?", j.deadline AS "job_deadline?",
                    i.status AS "intent_status?",
                    CASE WHEN n.state IN ('withdrawn', 'expired') THEN n.ended_at
                         WHEN n.state = 'open' THEN LEAST(n.expires_at, nc.ended_at) END AS "next_over_at?"
             FROM moments m LEFT JOIN jobs j ON j.id = m.job_id LEFT JOIN job_clock c ON c.job_id = m.job_id
                  LEFT JOIN intents i ON i.id = m.intent_id LEFT JOIN moments n ON n.id = m.superseded_by
                  LEFT JOIN job_clock nc ON nc.job_id = n.job_id "# + $rest $(+ $more)*
            $(, $argument)*
        )
    };
}
pub(super) use select;

#[expect(clippy::struct_excessive_bools, reason = "they are the columns of one row")]
pub(super) struct Row {
    pub id: Uuid,
    pub agent_id: String,
    pub principal_id: String,
    pub escalate_to: Option<String>,
    pub escalate_at: Option<Timestamp>,
    pub escalated_at: Option<Timestamp>,
    pub brief: Option<String>,
    pub digest: Option<String>,
    pub fallback_text: Option<String>,
    pub decision_class: Option<String>,
    pub hatch_free_text: bool,
    pub hatch_dialogue: bool,
    pub hatch_justification: Option<String>,
    pub has_calibration_note: bool,
    pub near_duplicate: bool,
    pub lints: String,
    pub job_id: Option<Uuid>,
    pub intent_id: Option<Uuid>,
    pub corr: Option<String>,
    pub valid_while: Option<String>,
    pub supersedes: Option<Uuid>,
    pub superseded_by: Option<Uuid>,
    pub objection_response: Option<String>,
    pub state: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub first_viewed_at: Option<Timestamp>,
    pub detail_asked_at: Option<Timestamp>,
    pub deliberated_at: Option<Timestamp>,
    pub quiet_since: Option<Timestamp>,
    pub resolution_kind: Option<String>,
    pub option_idx: Option<i32>,
    pub answer_text: Option<String>,
    pub objection_text: Option<String>,
    pub resolved_at: Option<Timestamp>,
    pub resolved_by: Option<String>,
    pub resolver_key_id: Option<Uuid>,
    pub resolved_via: Option<String>,
    pub resolver_basis: Option<String>,
    pub resolver_let_in_by: Option<String>,
    pub end_reason: Option<String>,
    pub ended_at: Option<Timestamp>,
    pub veto_settled_at: Option<Timestamp>,
    pub acked_at: Option<Timestamp>,
    pub scrubbed_at: Option<Timestamp>,
    pub version: i64,
    pub changed_seq: i64,
    pub job_status: Option<String>,
    pub job_ended_at: Option<Timestamp>,
    pub job_expires_at: Option<Timestamp>,
    pub job_deadline: Option<Timestamp>,
    pub intent_status: Option<String>,
    pub next_over_at: Option<Timestamp>,
}

impl Row {
    fn settled(&self) -> Outcome<Option<Settled>> {
        let (Some(kind), Some(at), Some(by), Some(key), Some(via)) = (
            &self.resolution_kind,
            self.resolved_at,
            &self.resolved_by,
            self.resolver_key_id,
            &self.resolved_via,
        ) else {
            return Ok(None);
        };
        let basis = self.resolver_basis.as_deref();
        let authority = basis.map(|basis| keys::authority(basis, self.resolver_let_in_by.clone()));
        Ok(Some(Settled {
            kind: ResolutionKind::parse(kind).ok_or_else(|| unknown("kind of answer", kind))?,
            option_idx: self.option_idx.and_then(|idx| usize::try_from(idx).ok()),
            answer: self.answer_text.clone(),
            objection: self.objection_text.clone(),
            by: by.clone(),
            key_id: KeyId::from(key),
            via: Via::parse(via).ok_or_else(|| unknown("way to answer", via))?,
            authority: authority.transpose()?,
            at,
        }))
    }
}

impl TryFrom<Row> for StoredMoment {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let resolution = row.settled()?;
        let escalation = match (row.escalate_to, row.escalate_at) {
            (Some(to), Some(at)) => Some(Escalation { to, at, told_at: row.escalated_at }),
            _ => None,
        };
        // An unreadable question is replaced by its fallback text, never shown in part (binding moment §4).
        let (brief, malformed) = match row.brief.as_deref().map(Brief::received_text) {
            Some(Err(Malformed(why))) => (None, Some(why)),
            found => (found.and_then(Result::ok), None),
        };
        let unread = row.brief.filter(|_| malformed.is_some());
        let valid_while: Option<ValidWhile> =
            row.valid_while.as_deref().map(serde_json::from_str).transpose()?;
        let moment = Moment {
            id: row.id.into(),
            agent_id: row.agent_id,
            principal_id: row.principal_id,
            escalation,
            brief,
            digest: row.digest,
            decision_class: row.decision_class,
            hatches: Hatches { free_text: row.hatch_free_text, dialogue: row.hatch_dialogue },
            hatch_justification: row.hatch_justification,
            has_calibration_note: row.has_calibration_note,
            valid_while: valid_while.unwrap_or_default(),
            job_id: row.job_id.map(JobId::from),
            intent_id: row.intent_id.map(IntentId::from),
            corr: row.corr,
            fallback_text: row.fallback_text,
            supersedes: row.supersedes.map(MomentId::from),
            superseded_by: row.superseded_by.map(MomentId::from),
            objection_response: row.objection_response,
            state: MomentState::parse(&row.state).ok_or_else(|| unknown("state of a moment", &row.state))?,
            created_at: row.created_at,
            expires_at: row.expires_at,
            first_viewed_at: row.first_viewed_at,
            detail_asked_at: row.detail_asked_at,
            deliberated_at: row.deliberated_at,
            quiet_since: row.quiet_since,
            resolution,
            ended_at: row.ended_at,
            end_reason: row.end_reason,
            veto_settled_at: row.veto_settled_at,
            acknowledged_at: row.acked_at,
            scrubbed_at: row.scrubbed_at,
            version: row.version,
        };
        let related = RelatedState {
            job_status: row.job_status,
            job_ended_at: row.job_ended_at,
            job_expires_at: row.job_expires_at,
            job_deadline: row.job_deadline,
            intent_status: row.intent_status,
        };
        let lints = serde_json::from_str(&row.lints)?;
        let (changed_seq, stored, next_over_at) = (row.changed_seq, row.version, row.next_over_at);
        let new = Self::new(moment, lints, row.near_duplicate, related);
        Ok(Self { changed_seq, stored, malformed, unread, next_over_at, ..new })
    }
}

/// Loads a moment by its id.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn load(conn: &mut PgConnection, id: MomentId) -> Outcome<Option<StoredMoment>> {
    let row = select!("moments::load", "WHERE m.id = $1", id.uuid()).fetch_optional(conn).await?;
    row.map(StoredMoment::try_from).transpose()
}

fn column(idx: usize) -> i32 {
    i32::try_from(idx).unwrap_or(i32::MAX)
}

/// Inserts a new moment and assigns its change number.
pub(super) async fn insert(
    conn: &mut PgConnection,
    kept: &mut StoredMoment,
    due_at: Option<Timestamp>,
) -> Outcome<()> {
    let moment = &kept.moment;
    let second = moment.escalation.as_ref();
    let valid_while =
        (moment.valid_while != ValidWhile::default()).then(|| serde_json::to_string(&moment.valid_while));
    kept.changed_seq = sqlx::query_scalar!(
        "-- moments::insert
         WITH turn AS (UPDATE moment_clock SET last_seq = last_seq + 1 RETURNING last_seq)
         INSERT INTO moments (id, agent_id, principal_id, escalate_to, escalate_at, profile, brief, digest, fallback_text,
             decision_class, hatch_free_text, hatch_dialogue, hatch_justification, has_calibration_note, near_duplicate, lints,
             job_id, intent_id, corr, valid_while, supersedes, objection_response, state, created_at, expires_at,
             deliberated_at, version, due_at, quiet_since, changed_seq)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
                $25, $26, $27, $28, $29, turn.last_seq FROM turn
         RETURNING changed_seq",
        moment.id.uuid(),
        moment.agent_id,
        moment.principal_id,
        second.map(|one| one.to.as_str()),
        second.map(|one| one.at),
        PROFILE,
        kept.brief()?,
        moment.digest,
        moment.fallback_text,
        moment.decision_class,
        moment.hatches.free_text,
        moment.hatches.dialogue,
        moment.hatch_justification,
        moment.has_calibration_note,
        kept.near_duplicate,
        serde_json::to_string(&kept.lints)?,
        moment.job_id.map(JobId::uuid),
        moment.intent_id.map(IntentId::uuid),
        moment.corr,
        valid_while.transpose()?,
        moment.supersedes.map(MomentId::uuid),
        moment.objection_response,
        moment.state.as_str(),
        moment.created_at,
        moment.expires_at,
        moment.deliberated_at,
        moment.version,
        due_at,
        moment.quiet_since
    )
    .fetch_one(conn)
    .await?;
    kept.stored = kept.moment.version;
    Ok(())
}

/// Writes the mutable columns of a moment and assigns a new change number.
pub(super) async fn update(
    conn: &mut PgConnection,
    kept: &mut StoredMoment,
    due_at: Option<Timestamp>,
) -> Outcome<()> {
    let moment = &kept.moment;
    let settled = moment.resolution.as_ref();
    let authority = settled.and_then(|one| one.authority.as_ref());
    let seq = sqlx::query_scalar!(
        "-- moments::update
         WITH turn AS (UPDATE moment_clock SET last_seq = last_seq + 1 RETURNING last_seq)
         UPDATE moments SET escalated_at = $3, brief = $4, fallback_text = $5, hatch_justification = $6,
             superseded_by = $7, objection_response = $8, state = $9, first_viewed_at = $10, detail_asked_at = $11,
             deliberated_at = $12, resolution_kind = $13, option_idx = $14, answer_text = $15, objection_text = $16,
             resolved_at = $17, resolved_by = $18, resolver_key_id = $19, resolved_via = $20, end_reason = $21,
             ended_at = $22, acked_at = $23, scrubbed_at = $24, version = $25, due_at = $26, lints = $27, veto_settled_at = $28,
             quiet_since = $29, resolver_basis = $30, resolver_let_in_by = $31,
             changed_seq = (SELECT last_seq FROM turn)
         WHERE id = $1 AND version = $2 RETURNING changed_seq",
        moment.id.uuid(),
        kept.stored,
        moment.escalation.as_ref().and_then(|one| one.told_at),
        kept.brief()?,
        moment.fallback_text,
        moment.hatch_justification,
        moment.superseded_by.map(MomentId::uuid),
        moment.objection_response,
        moment.state.as_str(),
        moment.first_viewed_at,
        moment.detail_asked_at,
        moment.deliberated_at,
        settled.map(|one| one.kind.as_str()),
        settled.and_then(|one| one.option_idx).map(column),
        settled.and_then(|one| one.answer.as_deref()),
        settled.and_then(|one| one.objection.as_deref()),
        settled.map(|one| one.at),
        settled.map(|one| one.by.as_str()),
        settled.map(|one| one.key_id.uuid()),
        settled.map(|one| one.via.as_str()),
        moment.end_reason,
        moment.ended_at,
        moment.acknowledged_at,
        moment.scrubbed_at,
        moment.version,
        due_at,
        serde_json::to_string(&kept.lints)?,
        moment.veto_settled_at,
        moment.quiet_since,
        authority.map(|one| one.basis.as_str()),
        authority.and_then(|one| one.let_in_by.as_deref())
    )
    .fetch_optional(conn)
    .await?;
    // The lock of its log was held since it was read.
    kept.changed_seq =
        seq.ok_or_else(|| AppError::Inconsistent(format!("{} changed under its lock", moment.id)))?;
    kept.stored = moment.version;
    Ok(())
}

/// The chain of moments superseded up to this one, latest first.
pub(super) async fn before(conn: &mut PgConnection, id: MomentId) -> Outcome<Vec<StoredMoment>> {
    let rows = select!(
        "moments::before",
        "JOIN (WITH RECURSIVE chain (id, depth) AS (
                 SELECT supersedes, 1 FROM moments WHERE id = $1
                 UNION ALL SELECT b.supersedes, depth + 1 FROM moments b JOIN chain ON b.id = chain.id)
               SELECT id, depth FROM chain WHERE id IS NOT NULL) c2 ON c2.id = m.id ORDER BY c2.depth",
        id.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(StoredMoment::try_from).collect()
}

/// Sets the time of a moment's next check.
pub(super) async fn put_off(conn: &mut PgConnection, id: MomentId, due_at: Option<Timestamp>) -> Outcome<()> {
    sqlx::query!("-- moments::put_off\n UPDATE moments SET due_at = $2 WHERE id = $1", id.uuid(), due_at)
        .execute(conn)
        .await?;
    Ok(())
}
