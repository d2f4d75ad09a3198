//! The session's machine (ARCP §6, §7): what a client may say when, what it is answered, when it is pinged, and when it
//! is over. It does nothing itself: it says what to send, what to ask of the deeds, and when to close. Every request is
//! answered once, by a frame that names it; `session.error` is only ever such an answer (contract 4.2).
//!
//! Here is time and what is delivered; `machine/hearing.rs` is what the client says, `machine/answering.rs` what it is told.

mod answering;
mod hearing;

use std::collections::BTreeSet;
use std::time::Duration;

use super::dialogue::{Ask, Closing, Do, Request, Terms};
use super::features::{Feature, Features};
use super::lines::Numbering;
use super::wire::Pen;
use super::{Delivery, LAG, Moment};
use crate::faults::Fault;
use crate::ids::{JobId, MessageId, SessionId};

/// How long a client has to answer the ping behind a `job.subscribed`: by then it has read that in another turn than what
/// follows, answer or not (contract 4.5).
const FENCE: Duration = Duration::from_millis(250);
/// The same where no pings were agreed on.
const PAUSE: Duration = Duration::from_millis(25);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was said.
    New,
    /// The deeds decide whether the client gets in.
    Entering,
    /// It is in.
    Open,
    /// The client goes: what it has asked is still answered.
    Leaving,
    /// It is over.
    Over,
}

#[derive(Debug)]
struct Fence {
    nonce: String,
    until: Duration,
}

/// One client's conversation.
#[derive(Debug)]
pub struct Machine {
    terms: Terms,
    pen: Pen,
    features: Features,
    stage: Stage,
    numbers: Numbering,
    heard_at: Duration,
    sent_at: Duration,
    pinged_at: Duration,
    fences: Vec<Fence>,
    /// Requests whose answers events must not overtake.
    waiting: BTreeSet<u64>,
    tickets: u64,
    nonces: u32,
    /// The last number that was sent and the last that was acknowledged, as the client counts.
    sent_seq: i64,
    acked_seq: i64,
    pressed: bool,
    /// The request that asked to close, and is answered last.
    closing: Option<String>,
}

type Doing = Vec<Do>;

impl Machine {
    /// A conversation that begins. The id is that of the session if it becomes one.
    #[must_use]
    pub fn new(terms: Terms, session_id: SessionId, at: Duration) -> Self {
        let dialect = terms.dialect.unwrap_or_default();
        let numbers = if terms.lines { Numbering::lines(0) } else { Numbering::plain() };
        Self {
            terms,
            pen: Pen::new(session_id, dialect),
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

    /// The session, which is there once it is open.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.pen.session_id
    }

    /// What both sides can.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// Whether the client is in.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether the client's frames should be read: not while it is decided whether it gets in.
    #[must_use]
    pub fn listens(&self) -> bool {
        matches!(self.stage, Stage::New | Stage::Open)
    }

    /// The last number that was sent, as the client counts.
    #[must_use]
    pub fn sent_seq(&self) -> i64 {
        self.sent_seq
    }

    /// Bytes of a frame at the most.
    #[must_use]
    pub fn most(&self) -> usize {
        self.numbers.most()
    }

    /// A mark for events that are read from now on: see [`Self::may_deliver`].
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.tickets
    }

    /// Whether events that were read at a mark may be delivered: when everything that was asked before they were read is
    /// answered, so that no event comes before its job's `job.accepted`, and no fence stands.
    #[must_use]
    pub fn may_deliver(&self, mark: u64) -> bool {
        self.is_open() && self.fences.is_empty() && self.waiting.first().is_none_or(|first| *first > mark)
    }

    /// When [`Self::tick`] is due, if nothing else happens before.
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

    /// Whether the client has been silent for too long: the next [`Self::tick`] closes.
    #[must_use]
    pub fn is_silent(&self, at: Duration) -> bool {
        self.beats() && at >= self.heard_at + self.terms.heartbeat * 2
    }

    /// The client was not listened to until now: that it was not heard says nothing.
    pub fn excuse(&mut self, at: Duration) {
        self.heard_at = at;
    }

    fn beats(&self) -> bool {
        self.is_open() && self.features.has(Feature::Heartbeat)
    }

    /// How long nothing is said before a ping: a little less than the interval, because within it something has to be.
    fn pause(&self) -> Duration {
        self.terms.heartbeat * 4 / 5
    }

    /// Time passes.
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

    /// What a client that goes has asked is answered: so is its `session.close`, and it is over.
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

    /// An event or an end of a job, in the order of the session's numbers.
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

    /// A request whose answer events must not overtake.
    fn awaited(&mut self, id: String) -> Request {
        let request = self.request(id);
        self.waiting.insert(request.ticket);
        request
    }
}
