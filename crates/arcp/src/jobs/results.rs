//! Results of jobs (ARCP §8.4), inline or streamed. A streamed result is read in pieces, so that its size
//! costs no memory.

use entente_domain::arcp::chunks::Encoding;
use entente_domain::arcp::jobs::JobStatus;
use entente_domain::ids::JobId;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, Caller, Outcome};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::log;
use super::reading::visible;
use crate::Ctx;

/// Events read at once while a streamed result is reassembled.
const STEP: i64 = 8;

/// Result of a job.
#[derive(Debug)]
pub enum Result {
    /// JSON.
    Inline(String),
    /// Bytes, read with [`pieces`].
    Streamed {
        /// Id of the streamed result.
        result_id: String,
        /// Size in bytes.
        size: u64,
        /// Whether the bytes are text.
        text: bool,
    },
}

#[derive(Deserialize)]
struct Ended {
    result: Option<Box<RawValue>>,
    result_id: Option<String>,
    result_size: Option<u64>,
}

#[derive(Deserialize)]
struct ChunkBody {
    result_id: String,
    data: String,
    encoding: Encoding,
}

/// Returns a job's result.
///
/// # Errors
/// There is no such job; it has no result, or none yet.
pub async fn result(ctx: &Ctx, caller: &Caller, id: JobId) -> Outcome<Result> {
    let mut conn = ctx.pool.acquire().await?;
    let job = visible(ctx, &mut conn, caller, id).await?;
    if job.status != JobStatus::Success {
        let message = if job.status.is_terminal() {
            format!("The job ended as {} and has no result. Its job.error says why.", job.status.as_str())
        } else {
            format!("The job is {}; it has no result yet. Follow its events.", job.status.as_str())
        };
        return Err(Refusal::new(Code::NoResult, message).into());
    }
    let end = log::ends(&mut conn, &[id]).await?.pop();
    let end = end.ok_or_else(|| AppError::Inconsistent(format!("{id} is over and has no end")))?;
    let ended: Ended = serde_json::from_str(&end.body)?;
    let text = job.streamed.as_ref().is_some_and(|streamed| streamed.encoding == Encoding::Utf8);
    Ok(match (ended.result_id, ended.result) {
        (Some(result_id), _) => {
            Result::Streamed { result_id, size: ended.result_size.unwrap_or_default(), text }
        }
        (None, result) => {
            Result::Inline(result.map_or_else(|| "null".to_owned(), |raw| raw.get().to_owned()))
        }
    })
}

/// A part of a streamed result.
#[derive(Debug)]
pub struct Piece {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Event number to continue after; `None` after the last piece.
    pub next: Option<i64>,
}

/// Returns the bytes of a streamed result in the events after a number.
///
/// # Errors
/// The database query fails; a stored chunk is invalid.
pub async fn pieces(ctx: &Ctx, id: JobId, result_id: &str, after: i64) -> Outcome<Piece> {
    let mut conn = ctx.pool.acquire().await?;
    let events = log::after(&mut conn, id, after, STEP, log::BYTES).await?;
    let mut bytes = Vec::new();
    for event in events.iter().filter(|event| event.kind.as_deref() == Some("result_chunk")) {
        if let Some(part) = chunk_bytes(id, &event.body, result_id)? {
            bytes.extend(part);
        }
    }
    let over = events.last().is_none_or(super::Stored::is_terminal);
    Ok(Piece { bytes, next: events.last().filter(|_| !over).map(|event| event.job_seq) })
}

/// Returns the bytes of a stored chunk; `None` if it belongs to another result.
pub(crate) fn chunk_bytes(job: JobId, body: &str, result_id: &str) -> Outcome<Option<Vec<u8>>> {
    let chunk: ChunkBody = serde_json::from_str(body)?;
    if chunk.result_id != result_id {
        return Ok(None);
    }
    let decoded = chunk.encoding.decode(&chunk.data);
    decoded.map(Some).ok_or_else(|| AppError::Inconsistent(format!("a chunk of {job} cannot be read")))
}
