//! Input and output types of the session machine (`machine.rs`): the server's terms, requests to the server and their
//! answers, and actions to perform.

use std::time::Duration;

use super::dialects::Dialect;
use super::envelope::{Hello, List};
use super::features::Features;
use crate::arcp::jobs::ask::Submit;
use crate::arcp::jobs::wire::{Accepted, Described, Listed};
use crate::ids::{JobId, SessionId};
use crate::refusal::Refusal;

/// Terms offered by the server.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Version of the server.
    pub version: &'static str,
    /// Interval within which each side must send something.
    pub heartbeat: Duration,
    /// Time for which a session can be resumed.
    pub resume_window: Duration,
    /// Features of the server.
    pub offered: Features,
    /// Requested dialect, if any.
    pub dialect: Option<Dialect>,
    /// Whether frames are lines on stdio.
    pub lines: bool,
}

/// Identifies a request: the id of its envelope, and its position among the requests that delay events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Id of the envelope.
    pub id: String,
    pub(super) ticket: u64,
}

/// A request to the server.
#[derive(Debug)]
pub enum Ask {
    /// Open or resume a session.
    Open {
        /// Request identifier.
        request: Request,
        /// Introduction of the client.
        hello: Box<Hello>,
        /// Recognised dialect.
        dialect: Dialect,
        /// Features of both sides.
        features: Features,
    },
    /// Submit a job.
    Submit {
        /// Request identifier.
        request: Request,
        /// Job to submit.
        submit: Box<Submit>,
        /// Trace of the request.
        trace_id: Option<String>,
    },
    /// Cancel a job.
    Cancel {
        /// Request identifier.
        request: Request,
        /// Job.
        job_id: JobId,
        /// Reason.
        reason: Option<String>,
    },
    /// List jobs.
    List {
        /// Request identifier.
        request: Request,
        /// Filter and page.
        list: Box<List>,
    },
    /// Subscribe to a job.
    Subscribe {
        /// Request identifier.
        request: Request,
        /// Job.
        job_id: JobId,
        /// Whether past events are wanted.
        history: bool,
        /// Last number of the history that the client has.
        from: i64,
    },
    /// Unsubscribe from a job.
    Unsubscribe {
        /// Job.
        job_id: JobId,
    },
    /// Record that events up to this stored number were processed.
    Acked(i64),
    /// Warn the client, on this job, that it lags behind.
    Press {
        /// Job of the last event.
        job_id: JobId,
        /// Number of unacknowledged events.
        lag: i64,
    },
}

/// The server's answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// The session is open.
    Opened(Box<Opened>),
    /// The job was accepted.
    Accepted(Box<Accepted>),
    /// The job will stop.
    Cancelled {
        /// Job.
        job_id: JobId,
        /// Trace of the job.
        trace_id: String,
        /// Reason.
        reason: Option<String>,
    },
    /// A page of jobs, and the cursor of the next page.
    Jobs(Vec<Listed>, Option<String>),
    /// The subscription is active.
    Subscribed {
        /// Job with its state.
        job: Box<Described>,
        /// Last stored number of the following session: the events of the subscription get later ones.
        from: i64,
        /// Whether past events follow.
        replayed: bool,
    },
    /// The request is refused.
    Refused(Refusal, Option<JobId>),
}

/// A session that was opened.
#[derive(Debug)]
pub struct Opened {
    /// Identifier of the new or resumed session.
    pub session_id: SessionId,
    /// Dialect.
    pub dialect: Dialect,
    /// Features of both sides.
    pub features: Features,
    /// Next resume token.
    pub resume_token: String,
    /// Agents that run jobs.
    pub agents: Vec<serde_json::Value>,
    /// Last number that the client has, by its own count.
    pub last_seq: i64,
    /// Last number that the client has acknowledged.
    pub acked: i64,
    /// Whether the session uses stdio.
    pub lines: bool,
}

/// Reason for closing the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The client closed it.
    Done,
    /// The client was not admitted.
    Refused,
    /// The client was silent for too long (§6.4); the session stays resumable.
    Silent,
}

/// An action to perform.
#[derive(Debug)]
pub enum Do {
    /// Send this frame.
    Send(String),
    /// Send this request to the server.
    Ask(Ask),
    /// Read no further frames, answer pending requests, then call `Machine::leave`.
    Leave,
    /// Close the connection; nothing follows.
    Close(Closing),
}
