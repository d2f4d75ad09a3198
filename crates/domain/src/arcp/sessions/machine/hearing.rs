//! Handles the client's frames: opening a session, requests, and messages that are not allowed in the current state.

use super::super::dialects::Dialect;
use super::super::dialogue::{Ask, Closing, Do};
use super::super::envelope::{ClientMessage, Envelope, Hello, read};
use super::super::features::{Feature, Features};
use super::super::legacy::Legacy;
use super::super::{LAG, Moment};
use super::{Doing, Machine, Stage};
use crate::arcp::faults::Fault;
use crate::arcp::jobs::ask::{Submit, no_job};
use crate::ids::JobId;

impl Machine {
    /// Handles a frame of the client.
    pub fn hear(&mut self, moment: Moment<'_>, text: &str) -> Doing {
        if matches!(self.stage, Stage::Leaving | Stage::Over) {
            return Vec::new();
        }
        self.heard_at = moment.at;
        match read(text) {
            Ok(envelope) if self.stage == Stage::New => self.open(moment, envelope),
            Ok(envelope) if self.stage == Stage::Open => self.converse(moment, envelope),
            Ok(envelope) => {
                let message = "The session is being opened. Wait for the welcome.";
                self.refuse(moment, Some(&envelope.id), None, Fault::InvalidRequest, message)
            }
            Err(malformed) => {
                let request = malformed.request_id.as_deref();
                let mut doing = self.refuse(moment, request, None, Fault::InvalidRequest, &malformed.message);
                if self.stage == Stage::New {
                    doing.extend(self.close(Closing::Refused));
                }
                doing
            }
        }
    }

    /// Handles a frame that is not valid text.
    pub fn hear_noise(&mut self, moment: Moment<'_>, why: &str) -> Doing {
        if matches!(self.stage, Stage::Leaving | Stage::Over) {
            return Vec::new();
        }
        self.heard_at = moment.at;
        let mut doing = self.refuse(moment, None, None, Fault::InvalidRequest, why);
        if self.stage == Stage::New {
            doing.extend(self.close(Closing::Refused));
        }
        doing
    }

    fn open(&mut self, moment: Moment<'_>, envelope: Envelope) -> Doing {
        let dialect = self.terms.dialect.unwrap_or_else(|| Dialect::recognise(&envelope));
        self.pen.dialect = dialect;
        match envelope.content {
            ClientMessage::Hello(hello) => self.enter(moment, envelope.id, hello, dialect, true),
            // The specification's own form of a resume needs no token besides the resume token.
            ClientMessage::Resume(hello) => self.enter(moment, envelope.id, hello, dialect, false),
            ClientMessage::Legacy(Legacy::Open(hello)) => {
                self.pen.dialect = Dialect::Legacy;
                self.enter(moment, envelope.id, hello, Dialect::Legacy, true)
            }
            _ => {
                let message =
                    "No session is open. The first frame must be `session.hello` or `session.resume`.";
                let mut doing = self.refuse(moment, Some(&envelope.id), None, Fault::InvalidRequest, message);
                doing.extend(self.close(Closing::Refused));
                doing
            }
        }
    }

    fn enter(
        &mut self,
        moment: Moment<'_>,
        id: String,
        hello: Box<Hello>,
        dialect: Dialect,
        needs_token: bool,
    ) -> Doing {
        if needs_token && hello.token.is_empty() {
            let message = "`auth.token` is missing: present a key as {\"scheme\": \"bearer\", \"token\": …}.";
            let mut doing = self.refuse(moment, Some(&id), None, Fault::Unauthenticated, message);
            doing.extend(self.close(Closing::Refused));
            return doing;
        }
        self.stage = Stage::Entering;
        let features = Features::parse(&hello.features).both(self.terms.offered);
        let request = self.request(id);
        vec![Do::Ask(Ask::Open { request, hello, dialect, features })]
    }

    fn converse(&mut self, moment: Moment<'_>, envelope: Envelope) -> Doing {
        let Envelope { id, trace_id, content } = envelope;
        match content {
            ClientMessage::Hello(_) | ClientMessage::Resume(_) | ClientMessage::Legacy(Legacy::Open(_)) => {
                let message = "The session is open already. Open another connection for another session.";
                self.refuse(moment, Some(&id), None, Fault::InvalidRequest, message)
            }
            ClientMessage::Ping(nonce) => {
                let frame = self.pen.pong(moment, &nonce);
                vec![self.send(moment, frame)]
            }
            ClientMessage::Pong(nonce) => {
                self.fences.retain(|fence| fence.nonce != nonce);
                Vec::new()
            }
            ClientMessage::Ack(seq) => self.ack(seq),
            ClientMessage::List(list) => match self.lacks(moment, &id, Feature::ListJobs) {
                Some(refused) => refused,
                None => vec![Do::Ask(Ask::List { request: self.request(id), list })],
            },
            ClientMessage::Close => {
                self.closing = Some(id);
                self.go()
            }
            ClientMessage::Bye => self.go(),
            ClientMessage::Submit(submit) => self.submit(id, submit, trace_id),
            ClientMessage::Cancel { job_id, reason } => self.cancel(moment, id, &job_id, reason),
            ClientMessage::Subscribe { job_id, history, from } => {
                self.subscribe(moment, id, &job_id, history.then_some(from))
            }
            ClientMessage::Unsubscribe { job_id } => match self.lacks(moment, &id, Feature::Subscribe) {
                Some(refused) => refused,
                // Unsubscribing succeeds even without a subscription; there is no answer.
                None => {
                    job_id.parse().into_iter().map(|job_id| Do::Ask(Ask::Unsubscribe { job_id })).collect()
                }
            },
            ClientMessage::Legacy(legacy) if self.pen.dialect == Dialect::Legacy => {
                self.old(moment, id, legacy)
            }
            ClientMessage::Legacy(_) | ClientMessage::Unknown => Vec::new(),
        }
    }

    /// Handles messages of a client of the older protocol after its admission.
    fn old(&mut self, moment: Moment<'_>, id: String, legacy: Legacy) -> Doing {
        match legacy {
            Legacy::Invoke(submit) => self.submit(id, submit, None),
            Legacy::Cancel { job_id } => self.cancel(moment, id, &job_id, None),
            Legacy::Resume => {
                let message = "Nothing is kept for a resume in this protocol. Ask again.";
                self.refuse(moment, Some(&id), None, Fault::ResumeWindowExpired, message)
            }
            Legacy::Open(_) => Vec::new(),
        }
    }

    /// Stops reading from a leaving client.
    fn go(&mut self) -> Doing {
        self.stage = Stage::Leaving;
        vec![Do::Leave]
    }

    fn submit(&mut self, id: String, submit: Box<Submit>, trace_id: Option<String>) -> Doing {
        vec![Do::Ask(Ask::Submit { request: self.awaited(id), submit, trace_id })]
    }

    fn cancel(&mut self, moment: Moment<'_>, id: String, job: &str, reason: Option<String>) -> Doing {
        let Ok(job_id) = job.parse::<JobId>() else { return self.no_job(moment, &id) };
        vec![Do::Ask(Ask::Cancel { request: self.awaited(id), job_id, reason })]
    }

    fn subscribe(&mut self, moment: Moment<'_>, id: String, job: &str, history: Option<i64>) -> Doing {
        if let Some(refused) = self.lacks(moment, &id, Feature::Subscribe) {
            return refused;
        }
        let Ok(job_id) = job.parse::<JobId>() else { return self.no_job(moment, &id) };
        let (history, from) = (history.is_some(), history.unwrap_or(0));
        vec![Do::Ask(Ask::Subscribe { request: self.awaited(id), job_id, history, from })]
    }

    /// Refuses an invalid job id in the same way as an unknown one.
    fn no_job(&mut self, moment: Moment<'_>, id: &str) -> Doing {
        self.refuse(moment, Some(id), None, Fault::JobNotFound, &no_job().message)
    }

    /// Returns the refusal if a feature was not negotiated (§6.2).
    fn lacks(&mut self, moment: Moment<'_>, id: &str, feature: Feature) -> Option<Doing> {
        if self.features.has(feature) {
            return None;
        }
        let message = format!(
            "The feature `{}` was not agreed on. Name it in the hello's capabilities.features.",
            feature.wire()
        );
        Some(self.refuse(moment, Some(id), None, Fault::InvalidRequest, &message))
    }

    /// Records the client's acknowledgement (§6.5), limited to the last number sent.
    fn ack(&mut self, seq: i64) -> Doing {
        let seq = seq.min(self.sent_seq);
        if seq <= self.acked_seq {
            return Vec::new();
        }
        self.acked_seq = seq;
        if self.sent_seq - seq < LAG / 2 {
            self.pressed = false;
        }
        // A stdio session renumbers from its first event on resume, so none of its events may be released.
        if self.terms.lines { Vec::new() } else { vec![Do::Ask(Ask::Acked(self.numbers.stored(seq)))] }
    }
}
