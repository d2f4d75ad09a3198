//! Answers to the client: the server's answers, each naming its request.

use super::super::Moment;
use super::super::dialogue::{Answer, Closing, Do, Opened, Request};
use super::super::features::Feature;
use super::super::lines::Numbering;
use super::super::wire::Welcome;
use super::{Doing, FENCE, Fence, Machine, PAUSE, Stage};
use crate::arcp::faults::Fault;

impl Machine {
    /// Handles the server's answer to a request.
    pub fn answer(&mut self, moment: Moment<'_>, request: &Request, answer: Answer) -> Doing {
        if self.is_over() {
            return Vec::new();
        }
        self.waiting.remove(&request.ticket);
        let id = request.id.as_str();
        let frame = match answer {
            Answer::Opened(opened) => return self.welcome(moment, id, *opened),
            Answer::Refused(refusal, job_id) => {
                let mut doing = self.refuse(moment, Some(id), job_id, refusal.code.into(), &refusal.message);
                if self.stage == Stage::Entering {
                    doing.extend(self.close(Closing::Refused));
                }
                return doing;
            }
            _ if !matches!(self.stage, Stage::Open | Stage::Leaving) => {
                return self.refuse(moment, Some(id), None, Fault::InternalError, "");
            }
            Answer::Accepted(accepted) => self.pen.accepted(moment, id, &accepted, self.features),
            Answer::Cancelled { job_id, trace_id, reason } => {
                self.pen.cancelled(moment, id, job_id, &trace_id, reason.as_deref())
            }
            Answer::Jobs(jobs, next) => self.pen.jobs(moment, id, &jobs, next.as_deref()),
            Answer::Subscribed { job, from, replayed } => {
                let from = self.numbers.delivered(from);
                let frame = self.pen.subscribed(moment, id, &job, from, replayed);
                let mut doing = vec![self.send(moment, frame)];
                doing.extend(self.fence(moment));
                return doing;
            }
        };
        vec![self.send(moment, frame)]
    }

    fn welcome(&mut self, moment: Moment<'_>, request: &str, opened: Opened) -> Doing {
        let Opened { session_id, dialect, features, resume_token, agents, last_seq, acked, lines } = opened;
        self.stage = Stage::Open;
        self.pen.session_id = session_id;
        self.pen.dialect = dialect;
        self.features = features;
        self.terms.lines = lines;
        self.numbers = if lines { Numbering::lines(last_seq) } else { Numbering::plain() };
        self.sent_seq = last_seq;
        self.acked_seq = acked.min(last_seq);
        let said = Welcome {
            version: self.terms.version,
            resume_token,
            resume_window: self.terms.resume_window,
            heartbeat: features.has(Feature::Heartbeat).then_some(self.terms.heartbeat),
            features,
            agents,
        };
        let most = self.numbers.most();
        let frame = self.pen.welcome(moment, request, said, most);
        vec![self.send(moment, frame)]
    }

    /// Delays frames after a `job.subscribed` until the client has certainly read it in a separate turn: one SDK
    /// drops frames that it reads together with it (ARCP-W-4.5.2).
    fn fence(&mut self, moment: Moment<'_>) -> Option<Do> {
        let nonce = self.nonce(moment);
        let pings = self.features.has(Feature::Heartbeat);
        let until = moment.at + if pings { FENCE } else { PAUSE };
        self.fences.push(Fence { nonce: nonce.clone(), until });
        pings.then(|| self.ping(moment, &nonce))
    }
}
