//! Signals to a job that is not over: input for the agent that runs it (beyond ARCP). They are kept in order and given to each
//! attempt until a worker acknowledges them.

use serde_json::value::RawValue;

use crate::limits::{IDEMPOTENCY_KEY_BYTES, NAME_BYTES};
use crate::refusal::{Code, Refusal};

/// Maximum bytes of a signal's payload.
pub const SIGNAL_BYTES: usize = 64 * 1024;
/// Maximum number of signals of a job that no worker has acknowledged.
pub const UNACKNOWLEDGED: i64 = 1_000;
/// Maximum number of signals of a job in one answer.
pub const AT_ONCE: i64 = 100;
/// About the maximum bytes of the signals in one answer.
pub const BYTES_AT_ONCE: usize = 256 * 1024;

/// A signal to send.
#[derive(Debug, Clone)]
pub struct SignalAsk {
    /// Its name, for the agent: `input`, `pause`.
    pub name: String,
    /// Its payload: any JSON.
    pub payload: Option<Box<RawValue>>,
    /// Idempotency key: a signal sent twice is stored once.
    pub key: Option<String>,
}

impl SignalAsk {
    /// Checks the parts.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`], [`Code::TooLarge`].
    pub fn check(&self) -> Result<(), Refusal> {
        let is_text =
            |text: &str, most| !text.is_empty() && text.len() <= most && !text.chars().any(char::is_control);
        if !is_text(&self.name, NAME_BYTES) {
            let message = format!("`name` must have 1 to {NAME_BYTES} bytes, such as `input`.");
            return Err(Refusal::field(Code::InvalidRequest, "name", "length", message));
        }
        if self.payload.as_ref().is_some_and(|payload| payload.get().len() > SIGNAL_BYTES) {
            let message =
                format!("`payload` has more than {SIGNAL_BYTES} bytes. Pass a reference to what is large.");
            return Err(Refusal::field(Code::TooLarge, "payload", "too_long", message));
        }
        if self.key.as_ref().is_some_and(|key| !is_text(key, IDEMPOTENCY_KEY_BYTES)) {
            let message = format!("`key` must have 1 to {IDEMPOTENCY_KEY_BYTES} bytes.");
            return Err(Refusal::field(Code::InvalidRequest, "key", "length", message));
        }
        Ok(())
    }
}
