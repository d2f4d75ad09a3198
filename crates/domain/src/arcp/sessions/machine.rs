//! Protocol state machine of a session (ARCP §6, §7): checks which messages are allowed when, answers them, sends
//! pings and detects the end. It performs no IO: it returns frames to send, requests to the server, and when to close.
//! Every request is answered once, by a frame that names it; `session.error` is always such an answer (ARCP-W-4.2.1).
//!
//! This file handles time and deliveries; `machine/hearing.rs` handles client frames, `machine/answering.rs` the
//! server's answers.

mod answering;
mod hearing;

use std::collections::BTreeSet;
use std::time::Duration;

use super::dialogue::{Ask, Closing, Do, Request, Terms};
use super::features::{Feature, Features};
use super::lines::Numbering;
use super::wire::FrameWriter;
use super::{Delivery, LAG, Moment};
use crate::arcp::faults::Fault;
use crate::ids::{JobId, MessageId, SessionId};

/// Time a client has to answer the ping after a `job.subscribed`: by then it has read that frame in another turn than
/// the following ones, answer or not (ARCP-W-4.5.2).
const FENCE: Duration = Duration::from_millis(250);
/// The same delay where pings were not negotiated.
const PAUSE: Duration = Duration::from_millis(25);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was received yet.
    New,
    /// The server decides whether to admit the client.
    Entering,
    /// The client is admitted.
    Open,
    /// The client is leaving; its pending requests are still answered.
    Leaving,
    /// The connection is over.
    Over,
}

#[derive(Debug)]
struct Fence {
    nonce: String,
    until: Duration,
}

/// Protocol state of one client connection.
#[derive(Debug)]
pub struct Machine {
    terms: Terms,
    pen: FrameWriter,
    features: Features,
    stage: Stage,
    numbers: Numbering,
    heard_at: Duration,
    sent_at: Duration,
    pinged_at: Duration,
    fences: Vec<Fence>,
    /// Requests that must be answered before later events are sent.
    waiting: BTreeSet<u64>,
    tickets: u64,
    nonces: u32,
    /// The last numbers sent and acknowledged, as the client counts.
    sent_seq: i64,
    acked_seq: i64,
    pressed: bool,
    /// The request to close, which is answered last.
    closing: Option<String>,
}

type Doing = Vec<Do>;

impl Machine {
    /// Starts a connection; the id becomes that of the session if one is created.
    #[must_use]
    pub fn new(terms: Terms, session_id: SessionId, at: Duration) -> Self {
        let dialect = terms.dialect.unwrap_or_default();
        let numbers = if terms.lines { Numbering::lines(0) } else { Numbering::plain() };
        Self {
            terms,
            pen: FrameWriter::new(session_id, dialect),
            features: Features::default(),
            stage: Stage::New,
            numbers,
            heard_at: at,
            sent_at: at,
            pinged_at: at,
            fences: Vec::new(),
            waiting: BTreeSet::new(),
            tickets: 0,
            nonces: 0,
            sent_seq: 0,
            acked_seq: 0,
            pressed: false,
            closing: None,
        }
    }

    /// Returns the session id, which is valid once the session is open.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.pen.session_id
    }

    /// Returns the features of both sides.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// Returns whether the client is admitted.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Returns whether the connection is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Returns whether to read the client's frames: not while its admission is being decided.
    #[must_use]
    pub fn listens(&self) -> bool {
        matches!(self.stage, Stage::New | Stage::Open)
    }

    /// Returns the last number sent, as the client counts.
    #[must_use]
    pub fn sent_seq(&self) -> i64 {
        self.sent_seq
    }

    /// Returns the maximum size of a frame, in bytes.
    #[must_use]
    pub fn most(&self) -> usize {
        self.numbers.most()
    }

    /// Returns a marker for events read from now on: see [`Self::may_deliver`].
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.tickets
    }

    /// Returns whether events read at a marker may be delivered.
    ///
    /// All requests made before the read must be answered, so that no event precedes its job's `job.accepted`, and no
    /// fence may be active.
    #[must_use]
    pub fn may_deliver(&self, mark: u64) -> bool {
        self.is_open() && self.fences.is_empty() && self.waiting.first().is_none_or(|first| *first > mark)
    }

    /// Returns when [`Self::tick`] is due if nothing happens before.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        let fence = self.fences.iter().map(|fence| fence.until).min();
        if !self.beats() {
            return fence;
        }
        let quiet = self.sent_at.min(self.heard_at.max(self.pinged_at));
        let beat = (quiet + self.pause()).min(self.heard_at + self.terms.heartbeat * 2);
        Some(fence.map_or(beat, |fence| fence.min(beat)))
    }

    /// Returns whether the client was silent for too long: the next [`Self::tick`] closes.
    #[must_use]
    pub fn is_silent(&self, at: Duration) -> bool {
        self.beats() && at >= self.heard_at + self.terms.heartbeat * 2
    }

    /// Resets the silence timer, because the server was not reading from the client until now.
    pub fn excuse(&mut self, at: Duration) {
        self.heard_at = at;
    }

    fn beats(&self) -> bool {
        self.is_open() && self.features.has(Feature::Heartbeat)
    }

    /// Silence before a ping: slightly less than the interval, because something must be sent within it.
    fn pause(&self) -> Duration {
        self.terms.heartbeat * 4 / 5
    }

    /// Handles the passing of time: drops expired fences, sends pings, closes silent connections.
    pub fn tick(&mut self, moment: Moment<'_>) -> Doing {
        self.fences.retain(|fence| fence.until > moment.at);
        if !self.beats() {
            return Vec::new();
        }
        if self.is_silent(moment.at) {
            return self.close(Closing::Silent);
        }
        let quiet = self.sent_at.min(self.heard_at.max(self.pinged_at));
        if moment.at < quiet + self.pause() {
            return Vec::new();
        }
        let nonce = self.nonce(moment);
        vec![self.ping(moment, &nonce)]
    }

    fn nonce(&mut self, moment: Moment<'_>) -> String {
        self.nonces = self.nonces.wrapping_add(1);
        MessageId::mint(moment.now, self.nonces, moment.chance).to_string().replace("msg_", "p_")
    }

    fn ping(&mut self, moment: Moment<'_>, nonce: &str) -> Do {
        self.pinged_at = moment.at;
        let frame = self.pen.ping(moment, nonce);
        self.send(moment, frame)
    }

    fn send(&mut self, moment: Moment<'_>, frame: String) -> Do {
        self.sent_at = moment.at;
        Do::Send(frame)
    }

    fn close(&mut self, why: Closing) -> Doing {
        self.stage = Stage::Over;
        self.waiting.clear();
        vec![Do::Close(why)]
    }

    /// Ends the connection of a leaving client once its requests are answered, and answers its `session.close`.
    pub fn leave(&mut self, moment: Moment<'_>) -> Doing {
        if self.stage != Stage::Leaving {
            return Vec::new();
        }
        let closed = self.closing.take().map(|id| self.pen.closed(moment, &id));
        let mut doing: Doing = closed.map(|frame| self.send(moment, frame)).into_iter().collect();
        doing.extend(self.close(Closing::Done));
        doing
    }

    fn refuse(
        &mut self,
        moment: Moment<'_>,
        request: Option<&str>,
        job_id: Option<JobId>,
        fault: Fault,
        message: &str,
    ) -> Doing {
        let frame = self.pen.error(moment, request, job_id, fault, message);
        vec![self.send(moment, frame)]
    }

    /// Delivers an event or the end of a job, in the order of the session's numbers.
    pub fn deliver(&mut self, moment: Moment<'_>, mut event: Delivery) -> Doing {
        if !self.is_open() {
            return Vec::new();
        }
        let job_id = event.job_id;
        let child = event.child.take();
        let mut doing = Vec::new();
        for (seq, piece) in self.numbers.number(event, self.pen.dialect) {
            self.sent_seq = self.sent_seq.max(seq);
            if let Some(frame) = self.pen.delivery(moment, &piece, seq) {
                doing.push(self.send(moment, frame));
            }
        }
        if let Some(frame) = child.and_then(|child| self.pen.delegated(moment, &child)) {
            doing.push(self.send(moment, frame));
        }
        let lag = self.sent_seq - self.acked_seq;
        if self.features.has(Feature::Ack) && lag >= LAG && !self.pressed {
            self.pressed = true;
            doing.push(Do::Ask(Ask::Press { job_id, lag }));
        }
        doing
    }

    fn request(&mut self, id: String) -> Request {
        self.tickets += 1;
        Request { id, ticket: self.tickets }
    }

    /// Registers a request that must be answered before later events are sent.
    fn awaited(&mut self, id: String) -> Request {
        let request = self.request(id);
        self.waiting.insert(request.ticket);
        request
    }
}
