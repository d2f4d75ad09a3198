//! Creates moments (binding moment §3, §7.4): a question to one person, or a deliberation that the agent opens
//! because it cannot commit yet (§6.1). Whether a refused question prevents asking is decided in `veto.rs`.

use super::resolution::check_text;
use super::{Brief, Escalation, Hatches, Moment, MomentAsk, MomentState};
use crate::arcp::jobs::JobStatus;
use crate::clock::{Timestamp, plus_seconds};
use crate::identity::principals::{PrincipalKind, check_name};
use crate::ids::MomentId;
use crate::limits::{MOMENT_LEAST_SECONDS, MOMENT_MOST_SECONDS, MOMENT_SECONDS, MOMENTS_WAITING, NAME_BYTES};
use crate::openintent::intents::IntentStatus;
use crate::refusal::{Code, Refusal};

impl MomentAsk {
    /// Returns the principal, job and intent of a deliberation, as input for the idempotency hash; contains none of its text.
    #[must_use]
    pub fn begins(&self) -> String {
        format!("{:?}", (&self.principal_id, self.job_id, self.intent_id))
    }
}

impl Moment {
    /// Asks a question.
    ///
    /// `addressee` and `second` are the kinds of the principal asked and of the one to escalate to. Whether a refused
    /// question prevents asking is decided by [`super::judge`].
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] and [`Code::Unprocessable`] at the invalid member.
    pub fn ask(
        ask: MomentAsk,
        brief: Brief,
        addressee: PrincipalKind,
        second: Option<PrincipalKind>,
        id: MomentId,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        check_addressee(&ask, addressee)?;
        check_texts(&ask)?;
        let hatches = brief.question.hatches;
        let closed = hatches != Hatches::OPEN;
        if closed && ask.hatch_justification.is_none() {
            return Err(wrong(
                "hatch_justification",
                "missing",
                "A hatch is closed, which takes a veto from your principal (binding moment §5.8). Open it, or say in \
                 `hatch_justification` why it cannot apply.",
            ));
        }
        let seconds = ask.expires_in.unwrap_or(MOMENT_SECONDS);
        if !(MOMENT_LEAST_SECONDS..=MOMENT_MOST_SECONDS).contains(&seconds) {
            return Err(wrong(
                "expires_in",
                "out_of_range",
                format!(
                    "`expires_in` is in seconds, from {MOMENT_LEAST_SECONDS} to {MOMENT_MOST_SECONDS} (thirty days)."
                ),
            ));
        }
        check_circumstances(&ask)?;
        let escalation = escalation(&ask, second, seconds, now)?;
        let justification = ask.hatch_justification.clone().filter(|_| closed);
        Ok(Self {
            escalation,
            digest: Some(brief.digest()),
            decision_class: brief.decision_class().map(str::to_owned),
            hatches,
            hatch_justification: justification,
            has_calibration_note: brief.calibration_note().is_some(),
            brief: Some(brief),
            expires_at: Some(plus_seconds(now, seconds)),
            ..Self::blank(ask, id, now)
        })
    }

    /// Opens a deliberation in place of a question the agent is not ready for (binding moment §6.1).
    ///
    /// It neither expires nor escalates: its principal closes it, or the agent withdraws it.
    ///
    /// # Errors
    /// As [`Moment::ask`]; members that only apply to questions are refused.
    pub fn deliberate(
        ask: MomentAsk,
        addressee: PrincipalKind,
        id: MomentId,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        check_addressee(&ask, addressee)?;
        check_texts(&ask)?;
        let only = [
            ("hatch_justification", ask.hatch_justification.is_some()),
            ("supersedes", ask.supersedes.is_some()),
            ("objection_response", ask.objection_response.is_some()),
            ("expires_in", ask.expires_in.is_some()),
            ("escalate_to", ask.escalate_to.is_some()),
            ("escalate_after", ask.escalate_after.is_some()),
            ("valid_while", ask.valid_while != super::ValidWhile::default()),
        ];
        if let Some((member, _)) = only.into_iter().find(|(_, given)| *given) {
            return Err(wrong(
                member,
                "unexpected",
                format!(
                    "`{member}` belongs to a question, and this is a deliberation without one. Leave it out."
                ),
            ));
        }
        let moment = Self::blank(ask, id, now);
        Ok(Self {
            state: MomentState::Deliberating,
            deliberated_at: Some(now),
            quiet_since: Some(now),
            ..moment
        })
    }

    fn blank(ask: MomentAsk, id: MomentId, now: Timestamp) -> Self {
        Self {
            id,
            agent_id: ask.agent_id,
            principal_id: ask.principal_id,
            escalation: None,
            brief: None,
            digest: None,
            decision_class: None,
            hatches: Hatches::OPEN,
            hatch_justification: None,
            has_calibration_note: false,
            valid_while: ask.valid_while,
            job_id: ask.job_id,
            intent_id: ask.intent_id,
            corr: ask.corr,
            fallback_text: ask.fallback_text,
            supersedes: ask.supersedes,
            superseded_by: None,
            objection_response: ask.objection_response,
            state: MomentState::Open,
            created_at: now,
            expires_at: None,
            first_viewed_at: None,
            detail_asked_at: None,
            deliberated_at: None,
            quiet_since: None,
            resolution: None,
            ended_at: None,
            end_reason: None,
            veto_settled_at: None,
            acknowledged_at: None,
            scrubbed_at: None,
            version: 1,
        }
    }
}

/// Requires that an agent may put one more question or deliberation before a person, given how many already wait.
///
/// A moment to be superseded does not count, because it ends.
///
/// # Errors
/// [`Code::TooLarge`].
pub fn check_room(waiting: usize, member: &str, person: &str) -> Result<(), Refusal> {
    if waiting < MOMENTS_WAITING {
        return Ok(());
    }
    let message = format!(
        "{MOMENTS_WAITING} questions and deliberations of yours wait for `{person}`, as many as may. Wait for answers, withdraw \
         what is no longer needed, or put several into one question."
    );
    Err(Refusal::field(Code::TooLarge, member, "too_many", message))
}

fn wrong(member: &str, kind: &str, message: impl Into<String>) -> Refusal {
    Refusal::field(Code::InvalidRequest, member, kind, message)
}

/// Requires that the addressee is one person, and not the asking agent itself (binding moment §7.4, §11.4).
fn check_addressee(ask: &MomentAsk, addressee: PrincipalKind) -> Result<(), Refusal> {
    check_name("principal_id", &ask.principal_id)?;
    if ask.principal_id == ask.agent_id {
        return Err(Refusal::field(
            Code::Unprocessable,
            "principal_id",
            "same_as_agent",
            "Who asks cannot be who decides. Name the person on whose behalf you act.",
        ));
    }
    require_human("principal_id", addressee)
}

fn require_human(member: &str, kind: PrincipalKind) -> Result<(), Refusal> {
    if kind == PrincipalKind::Human {
        return Ok(());
    }
    Err(Refusal::field(
        Code::Unprocessable,
        member,
        "not_a_person",
        format!(
            "`{member}` is no person, but of the kind {}. A decision is one person's: name a principal of the kind human.",
            kind.as_str()
        ),
    ))
}

fn check_texts(ask: &MomentAsk) -> Result<(), Refusal> {
    let texts = [
        ("hatch_justification", &ask.hatch_justification),
        ("objection_response", &ask.objection_response),
        ("fallback_text", &ask.fallback_text),
    ];
    for (member, text) in texts {
        text.as_deref().map_or(Ok(()), |text| check_text(member, text))?;
    }
    if ask.objection_response.is_some() && ask.supersedes.is_none() {
        return Err(wrong(
            "objection_response",
            "unexpected",
            "`objection_response` answers the objection to an earlier question: name that one in `supersedes`.",
        ));
    }
    let odd = |corr: &str| corr.is_empty() || corr.len() > NAME_BYTES || corr.chars().any(char::is_control);
    if ask.corr.as_deref().is_some_and(odd) {
        let message = format!("`corr` has 1 to {NAME_BYTES} bytes and no control characters.");
        return Err(wrong("corr", "invalid", message));
    }
    Ok(())
}

/// Requires that each condition names an existing status, and that the moment names the job or intent it concerns.
fn check_circumstances(ask: &MomentAsk) -> Result<(), Refusal> {
    let known = |member: &str, is_named: bool, status: bool| {
        if is_named && status {
            return Ok(());
        }
        let what =
            if is_named { "is no status that there is" } else { "needs the job or intent that it is about" };
        Err(wrong("valid_while", "invalid", format!("`{member}` {what}.")))
    };
    let valid = &ask.valid_while;
    if let Some(status) = &valid.job_status {
        known("job_status", ask.job_id.is_some(), JobStatus::ALL.iter().any(|one| one.as_str() == status))?;
    }
    if let Some(status) = &valid.intent_status {
        known("intent_status", ask.intent_id.is_some(), IntentStatus::parse(status).is_some())?;
    }
    Ok(())
}

fn escalation(
    ask: &MomentAsk,
    second: Option<PrincipalKind>,
    expires_in: u32,
    now: Timestamp,
) -> Result<Option<Escalation>, Refusal> {
    let (to, after) = match (&ask.escalate_to, ask.escalate_after) {
        (None, None) => return Ok(None),
        (Some(to), Some(after)) => (to, after),
        (to, _) => {
            let missing = if to.is_some() { "escalate_after" } else { "escalate_to" };
            let message =
                "`escalate_to` and `escalate_after` go together: to whom, and after how many seconds.";
            return Err(wrong(missing, "missing", message));
        }
    };
    check_name("escalate_to", to)?;
    if *to == ask.principal_id || *to == ask.agent_id {
        let message = "`escalate_to` is a second person: neither who is asked nor who asks.";
        return Err(Refusal::field(Code::Unprocessable, "escalate_to", "not_another", message));
    }
    require_human("escalate_to", second.unwrap_or(PrincipalKind::Agent))?;
    if after < MOMENT_LEAST_SECONDS || after >= expires_in {
        let message = format!(
            "`escalate_after` is in seconds, at least {MOMENT_LEAST_SECONDS} and before the question lapses."
        );
        return Err(wrong("escalate_after", "out_of_range", message));
    }
    Ok(Some(Escalation { to: to.clone(), at: plus_seconds(now, after), told_at: None }))
}
