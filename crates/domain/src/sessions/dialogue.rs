//! What goes in and out of the machine (`machine.rs`): what the server offers, what the deeds are asked and answer, and what
//! is to be done.

use std::time::Duration;

use super::dialects::Dialect;
use super::envelope::{Hello, List};
use super::features::Features;
use crate::ids::{JobId, SessionId};
use crate::jobs::ask::Submit;
use crate::jobs::wire::{Accepted, Described, Listed};
use crate::refusal::Refusal;

/// What the server offers.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Its version.
    pub version: &'static str,
    /// How often each side says something.
    pub heartbeat: Duration,
    /// How long a session can be resumed.
    pub resume_window: Duration,
    /// What it can.
    pub offered: Features,
    /// The dialect that was asked for, if any.
    pub dialect: Option<Dialect>,
    /// Whether frames are lines on stdio.
    pub lines: bool,
}

/// The name of a request: the id of its envelope, and its place among those that events wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The envelope's id.
    pub id: String,
    pub(super) ticket: u64,
}

/// What is asked of the deeds.
#[derive(Debug)]
pub enum Ask {
    /// To open a session, or to take one up again.
    Open {
        /// The request.
        request: Request,
        /// Who.
        hello: Box<Hello>,
        /// The dialect that was recognised.
        dialect: Dialect,
        /// What both sides can.
        features: Features,
    },
    /// To accept a job.
    Submit {
        /// The request.
        request: Request,
        /// What.
        submit: Box<Submit>,
        /// In which trace.
        trace_id: Option<String>,
    },
    /// To cancel a job.
    Cancel {
        /// The request.
        request: Request,
        /// Which.
        job_id: JobId,
        /// Why.
        reason: Option<String>,
    },
    /// To list jobs.
    List {
        /// The request.
        request: Request,
        /// Which.
        list: Box<List>,
    },
    /// To follow a job.
    Subscribe {
        /// The request.
        request: Request,
        /// Which.
        job_id: JobId,
        /// Whether what was before is wanted.
        history: bool,
        /// What of it the client has.
        from: i64,
    },
    /// To follow a job no more.
    Unsubscribe {
        /// Which.
        job_id: JobId,
    },
    /// To note that everything up to here was processed, in stored numbers.
    Acked(i64),
    /// To tell the client on this job that it lags behind by so many events.
    Press {
        /// The job of the last event.
        job_id: JobId,
        /// Events.
        lag: i64,
    },
}

/// What the deeds answer.
#[derive(Debug)]
pub enum Answer {
    /// The session is open.
    Opened(Box<Opened>),
    /// A job was accepted.
    Accepted(Box<Accepted>),
    /// A job will stop.
    Cancelled {
        /// Which.
        job_id: JobId,
        /// Its trace.
        trace_id: String,
        /// Why.
        reason: Option<String>,
    },
    /// Jobs.
    Jobs(Vec<Listed>, Option<String>),
    /// A job is followed.
    Subscribed {
        /// Which, and how it stands.
        job: Box<Described>,
        /// After which number of the submitting session.
        from: i64,
        /// Whether what was before follows.
        replayed: bool,
    },
    /// It is refused.
    Refused(Refusal, Option<JobId>),
}

/// A session that was opened.
#[derive(Debug)]
pub struct Opened {
    /// Which: a new one, or the one that is taken up again.
    pub session_id: SessionId,
    /// Its dialect.
    pub dialect: Dialect,
    /// What both sides can.
    pub features: Features,
    /// The next resume token.
    pub resume_token: String,
    /// The agents that run jobs.
    pub agents: Vec<serde_json::Value>,
    /// What the client has, as it counts.
    pub last_seq: i64,
    /// What it has said to have processed.
    pub acked: i64,
    /// Whether the session is one of stdio.
    pub lines: bool,
}

/// Why a conversation is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The client said so.
    Done,
    /// It was not let in.
    Refused,
    /// It has fallen silent (§6.4): the session goes on.
    Silent,
}

/// What is to be done.
#[derive(Debug)]
pub enum Do {
    /// Send this frame.
    Send(String),
    /// Ask this of the deeds.
    Ask(Ask),
    /// Hear nothing more, answer what is under way, and call `Machine::leave` when it is.
    Leave,
    /// Close. Nothing follows.
    Close(Closing),
}
