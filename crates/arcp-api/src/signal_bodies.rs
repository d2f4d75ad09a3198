//! Signals as claims, heartbeats and the endpoints of signals have them.

use entente_arcp::jobs::Signal;
use entente_domain::clock::rfc3339;
use entente_http::error::Problem;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A signal to a job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobSignal)]
pub struct SignalBody {
    /// Number of the signal in the job, from 1.
    seq: i64,
    /// Its name.
    name: String,
    /// Its payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    /// Agent that sent it.
    sender: String,
    /// When it was sent.
    sent_at: String,
    /// When a worker acknowledged it.
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged_at: Option<String>,
    /// The attempt in which it was acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<i32>,
}

impl TryFrom<Signal> for SignalBody {
    type Error = Problem;

    fn try_from(signal: Signal) -> Result<Self, Problem> {
        let raw = |text: String| {
            RawValue::from_string(text).map_err(|e| Problem::internal(&format!("a stored JSON is none: {e}")))
        };
        Ok(Self {
            seq: signal.seq,
            name: signal.name,
            payload: signal.payload.map(raw).transpose()?,
            sender: signal.sender,
            sent_at: rfc3339(signal.sent_at),
            acknowledged_at: signal.acked_at.map(rfc3339),
            attempt: signal.acked_in,
        })
    }
}

impl SignalBody {
    /// Builds the bodies of signals.
    ///
    /// # Errors
    /// A stored payload is invalid.
    pub fn all(signals: Vec<Signal>) -> Result<Vec<Self>, Problem> {
        signals.into_iter().map(Self::try_from).collect()
    }
}
