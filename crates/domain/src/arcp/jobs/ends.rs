//! Ends of jobs as workers report them (ARCP §8.4), and the digest that tells a repeated report from another one.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::canonical::{self, Digest, sha256};

/// End of a job as reported by its worker.
#[derive(Debug, Clone)]
pub enum End {
    /// Success, with an inline result or the id of a streamed one.
    Result {
        /// Inline result.
        result: Option<Box<RawValue>>,
        /// Id of the streamed result.
        result_id: Option<String>,
        /// Size of the streamed result in bytes.
        result_size: Option<u64>,
        /// One-sentence summary.
        summary: Option<String>,
    },
    /// Failure.
    Error {
        /// Error code.
        code: String,
        /// Error message.
        message: String,
        /// Whether a retry can succeed.
        retryable: Option<bool>,
        /// Additional details.
        details: Option<Map<String, Value>>,
    },
}

impl End {
    /// Digest that tells a repeated report of an end from another one.
    ///
    /// Equal JSON counts as equal, however it is written; `result_size` is only a check of the chunks.
    ///
    /// # Errors
    /// The details have no canonical form.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        let said = match self {
            Self::Result { result, result_id, result_size: _, summary } => {
                let value = result.as_deref().and_then(exact);
                // Numbers that canonical JSON would round are compared as they are written.
                let written = result.as_deref().filter(|_| value.is_none()).map(RawValue::get);
                json!({ "result": value, "written": written, "result_id": result_id, "summary": summary })
            }
            Self::Error { code, message, retryable, details } => {
                json!({ "code": code, "message": message, "retryable": retryable, "details": details })
            }
        };
        canonical::text(&said).map(sha256)
    }
}

/// The value of a JSON text that has the same meaning in canonical form.
fn exact(text: &RawValue) -> Option<Value> {
    // The text, not the value: the parser has already rounded integers of more than 64 bits.
    canonical::exact_text(text.get()).ok()?;
    serde_json::from_str(text.get()).ok()
}
