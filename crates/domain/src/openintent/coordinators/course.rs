//! The course of an appointment: heartbeats, silence, pauses and its end.

use chrono::TimeDelta;

use super::words::OnExceed;
use super::{Bound, Coordinator, CoordinatorChange, CoordinatorStatus, check_guardrails};
use crate::access::check_reason;
use crate::clock::Timestamp;
use crate::limits::BEAT_LOGGED_SECONDS;
use crate::log::events::Kind;
use crate::refusal::{Code, Refusal};

/// Intervals of silence after which a coordinator is unresponsive (RFC-0013 §5.2).
const SILENT: i64 = 2;
/// Intervals of silence after which it is given up: three more (RFC-0013 §5.2).
const GIVEN_UP: i64 = 5;

impl Coordinator {
    pub(super) fn limit(&self, member: &str) -> Option<u64> {
        self.guardrails.as_ref()?.get(member)?.as_u64()
    }

    pub(super) fn on_exceed(&self) -> OnExceed {
        let said = self.guardrails.as_ref().and_then(|rails| rails.get("on_exceed")?.as_str());
        said.and_then(OnExceed::parse).unwrap_or(OnExceed::PauseAndEscalate)
    }

    fn silent_for(&self, intervals: i64) -> Timestamp {
        let time = TimeDelta::seconds(i64::from(self.heartbeat_seconds) * intervals);
        self.heard_at.checked_add_signed(time).unwrap_or(self.heard_at)
    }

    /// Whether heartbeats are expected.
    fn must_beat(&self) -> bool {
        !self.status.is_over() && self.status != CoordinatorStatus::Paused
    }

    /// Whether a long silence ends the appointment; also during a pause because of a stall, as the agent may
    /// have died.
    fn is_missed(&self) -> bool {
        self.must_beat() || (!self.status.is_over() && self.stalled_at.is_some())
    }

    /// When the appointment ends if the coordinator stays silent; `None` while it is paused and has no end.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        let silence = self.is_missed().then(|| self.silent_for(GIVEN_UP));
        [silence, self.until].into_iter().flatten().min()
    }

    /// Returns when the appointment will end by silence or by its own end, and with which status.
    fn end_due(&self) -> Option<(Timestamp, CoordinatorStatus)> {
        let silence = self.is_missed().then(|| (self.silent_for(GIVEN_UP), CoordinatorStatus::FailedOver));
        let own = self.until.map(|until| (until, CoordinatorStatus::Completed));
        [own, silence].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Returns the status at the given time; due changes count as made.
    #[must_use]
    pub fn status_at(&self, now: Timestamp) -> CoordinatorStatus {
        if self.status.is_over() {
            return self.status;
        }
        match self.end_due() {
            Some((at, status)) if at <= now => status,
            _ if self.must_beat() && self.silent_for(SILENT) <= now => CoordinatorStatus::Unresponsive,
            _ => self.status,
        }
    }

    /// When the coordinator counts as stalled, if it has such a guardrail.
    fn stalls_at(&self) -> Option<Timestamp> {
        let minutes = self.limit("require_progress_every_minutes").filter(|_| self.stalled_at.is_none())?;
        let time = TimeDelta::minutes(i64::try_from(minutes).ok()?);
        self.must_beat().then(|| self.progress_at.checked_add_signed(time))?
    }

    /// When time changes the appointment next.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        if self.status.is_over() {
            return None;
        }
        let silent = self.must_beat() && self.status != CoordinatorStatus::Unresponsive;
        let silent = silent.then(|| self.silent_for(SILENT));
        let end = self.end_due().map(|(at, _)| at);
        [silent, end, self.stalls_at()].into_iter().flatten().min()
    }

    pub(super) fn next(&self) -> Self {
        Self { version: self.version + 1, ..self.clone() }
    }

    pub(super) fn ended(&self, status: CoordinatorStatus, at: Timestamp) -> Self {
        Self { status, ended_at: Some(at), ..self.next() }
    }

    /// Applies the next due change by time and returns its event kind; `None` if none is due (callers repeat
    /// it).
    #[must_use]
    pub fn pass(&self, now: Timestamp) -> Option<(Self, Kind)> {
        if self.status.is_over() {
            return None;
        }
        if self.must_beat()
            && self.status != CoordinatorStatus::Unresponsive
            && self.silent_for(SILENT) <= now
            && self.until.is_none_or(|until| until > self.silent_for(SILENT))
        {
            let silent = Self { status: CoordinatorStatus::Unresponsive, ..self.next() };
            return Some((silent, Kind::CoordinatorUnresponsive));
        }
        if let Some((at, status)) = self.end_due().filter(|(at, _)| *at <= now) {
            let kind = if status == CoordinatorStatus::FailedOver {
                Kind::CoordinatorFailedOver
            } else {
                Kind::CoordinatorHandoff
            };
            return Some((self.ended(status, at), kind));
        }
        self.stalls_at().filter(|at| *at <= now)?;
        let rests = !matches!(self.on_exceed(), OnExceed::Escalate);
        let status = if rests { CoordinatorStatus::Paused } else { self.status };
        Some((Self { stalled_at: Some(now), status, ..self.next() }, Kind::CoordinatorStalled))
    }

    pub(super) fn over(&self, now: Timestamp) -> Refusal {
        let message = format!(
            "This appointment is over ({}). Have the intent's admins appoint a coordinator anew.",
            self.status_at(now).as_str()
        );
        Refusal::new(Code::InvalidTransition, message)
    }

    /// Records a heartbeat; returns the event to log, if any: the coordinator is back, or (occasionally)
    /// still alive.
    ///
    /// # Errors
    /// [`Code::InvalidTransition`] if the appointment is over.
    pub fn beat(&self, now: Timestamp) -> Result<(Self, Option<Kind>), Refusal> {
        let status = self.status_at(now);
        if status.is_over() {
            return Err(self.over(now));
        }
        let mut next = self.clone();
        // A paused coordinator sends heartbeats too; only its supervisor resumes it.
        (next.heard_at, next.last_heartbeat) = (now, Some(now));
        if status == CoordinatorStatus::Unresponsive {
            next = Self { status: CoordinatorStatus::Active, logged_at: Some(now), ..next.next() };
            return Ok((next, Some(Kind::CoordinatorResumed)));
        }
        let told = self.logged_at.is_some_and(|at| now - at < TimeDelta::seconds(BEAT_LOGGED_SECONDS));
        if told {
            return Ok((next, None));
        }
        next.logged_at = Some(now);
        Ok((next, Some(Kind::CoordinatorHeartbeat)))
    }

    /// Applies a change requested by the supervisor or an admin (`supervises`) or by the appointed agent.
    ///
    /// The former may pause, resume and change guardrails; the agent itself may only finish.
    ///
    /// # Errors
    /// [`Code::Forbidden`], [`Code::InvalidTransition`], or invalid guardrails or reason.
    pub fn changed(
        &self,
        change: &CoordinatorChange,
        supervises: bool,
        now: Timestamp,
    ) -> Result<(Self, Vec<Kind>), Refusal> {
        check_reason(change.reason.as_deref())?;
        if self.status_at(now).is_over() {
            return Err(self.over(now));
        }
        let mut next = self.next();
        let mut kinds = Vec::new();
        if change.guardrails != Bound::AsIs {
            if !supervises {
                return Err(not_yours("change what a coordinator is bound by"));
            }
            next.guardrails = match &change.guardrails {
                Bound::By(guardrails) => {
                    check_guardrails(guardrails)?;
                    Some(guardrails.clone())
                }
                Bound::AsIs | Bound::Free => None,
            };
            (next.progress_at, next.stalled_at) = (now, None);
            kinds.push(Kind::CoordinatorGuardrailsUpdated);
        }
        if let Some(status) = change.status.filter(|status| *status != self.status_at(now)) {
            kinds.push(next.moved(status, supervises, now)?);
        }
        Ok((next, kinds))
    }

    fn moved(
        &mut self,
        status: CoordinatorStatus,
        supervises: bool,
        now: Timestamp,
    ) -> Result<Kind, Refusal> {
        let kind = match status {
            CoordinatorStatus::Paused if supervises => Kind::CoordinatorPaused,
            CoordinatorStatus::Active if supervises => {
                (self.heard_at, self.progress_at, self.stalled_at) = (now, now, None);
                Kind::CoordinatorResumed
            }
            CoordinatorStatus::Paused | CoordinatorStatus::Active => {
                return Err(not_yours("have a coordinator rest, or go on"));
            }
            CoordinatorStatus::Completing if self.status == CoordinatorStatus::Active => {
                Kind::CoordinatorHandoff
            }
            CoordinatorStatus::Completed => {
                self.ended_at = Some(now);
                Kind::CoordinatorHandoff
            }
            other => {
                let message = format!(
                    "A coordinator that is {} cannot be made {}: it is paused, made active again, completing or completed.",
                    self.status.as_str(),
                    other.as_str()
                );
                return Err(Refusal::new(Code::InvalidTransition, message));
            }
        };
        self.status = status;
        Ok(kind)
    }

    /// Ends the appointment in favour of another one, which must name it (`named`) unless it is unresponsive.
    ///
    /// # Errors
    /// [`Code::AlreadyExists`].
    pub fn replaced(&self, named: bool, now: Timestamp) -> Result<Self, Refusal> {
        if named || self.status_at(now) == CoordinatorStatus::Unresponsive {
            return Ok(self.ended(CoordinatorStatus::FailedOver, now));
        }
        Err(Refusal::new(
            Code::AlreadyExists,
            "The intent has a coordinator in this role. Name it in `replaces` to appoint another in its place, or choose \
             another `role`.",
        ))
    }

    /// Ends the appointment with its intent.
    #[must_use]
    pub fn end_with_intent(&self, now: Timestamp) -> Self {
        self.ended(CoordinatorStatus::Completed, now)
    }
}

fn not_yours(what: &str) -> Refusal {
    Refusal::new(
        Code::Forbidden,
        format!(
            "Only its supervisor and the admins of the intent {what}. The coordinator itself may only finish."
        ),
    )
}
