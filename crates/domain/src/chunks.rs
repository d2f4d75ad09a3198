//! Streamed results (ARCP §8.4): the chunks of one result come in order, end once, and are not mixed with an inline one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Bytes of one chunk's `data`: with its envelope it stays below the 1 MiB that clients take in a frame (contract 2).
pub const CHUNK_BYTES: usize = 700 * 1024;
/// Bytes of a whole streamed result.
pub const RESULT_BYTES: u64 = 1024 * 1024 * 1024;

/// How a chunk's data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As it is.
    Utf8,
    /// In base64, for what is no text.
    Base64,
}

impl Encoding {
    /// The bytes that a chunk's data stands for; `None` when it is not written so.
    #[must_use]
    pub fn decode(self, data: &str) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 => Some(data.as_bytes().to_vec()),
            Self::Base64 => STANDARD.decode(data).ok(),
        }
    }
}

/// A streamed result as far as it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streamed {
    /// Which result.
    pub result_id: String,
    /// How its chunks are written: all of them alike (a client refuses a mixture, contract 5).
    pub encoding: Encoding,
    /// The number of the next chunk, from 0.
    pub next: u32,
    /// Decoded bytes so far.
    pub bytes: u64,
    /// Whether the last chunk has come.
    pub complete: bool,
}

/// A chunk that a worker hands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Which result it is of.
    pub result_id: &'a str,
    /// Its number.
    pub chunk_seq: u32,
    /// How its data is written.
    pub encoding: Encoding,
    /// Bytes of its data as it is written.
    pub written: usize,
    /// Bytes of its data, decoded.
    pub decoded: usize,
    /// Whether others follow.
    pub more: bool,
}

/// Why a chunk or an end is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkFault {
    /// It is not the next one.
    #[error("chunk {expected} of the result is next, this is {got}")]
    OutOfOrder {
        /// The one that is next.
        expected: u32,
        /// The one that came.
        got: u32,
    },
    /// Another result was begun already.
    #[error("the job streams the result {0} already; a job has one")]
    OtherResult(String),
    /// The chunks before it were written otherwise.
    #[error("all chunks of a result are written alike")]
    OtherEncoding,
    /// The last one has come already.
    #[error("the last chunk of the result has come already")]
    Complete,
    /// It is too large. An `INTERNAL_ERROR`, as §14 asks.
    #[error("a chunk has at most {CHUNK_BYTES} bytes, a result {RESULT_BYTES}")]
    TooLarge,
    /// The job ends before its last chunk has come.
    #[error("the last chunk, with `more: false`, has not come yet")]
    Incomplete,
    /// A result in the message itself, after chunks of one; or the other way round.
    #[error("a result is streamed or stands in the message, not both")]
    Mixed,
    /// The size that is said is not the size that came.
    #[error("the chunks have {got} bytes, `result_size` says {said}")]
    OtherSize {
        /// What the end says.
        said: u64,
        /// What came.
        got: u64,
    },
}

/// Takes a chunk.
///
/// # Errors
/// See [`ChunkFault`].
pub fn take(so_far: Option<&Streamed>, chunk: Chunk<'_>) -> Result<Streamed, ChunkFault> {
    let fresh = || Streamed {
        result_id: chunk.result_id.to_owned(),
        encoding: chunk.encoding,
        next: 0,
        bytes: 0,
        complete: false,
    };
    let mut streamed = so_far.cloned().unwrap_or_else(fresh);
    if streamed.result_id != chunk.result_id {
        return Err(ChunkFault::OtherResult(streamed.result_id));
    }
    if streamed.complete {
        return Err(ChunkFault::Complete);
    }
    if streamed.encoding != chunk.encoding {
        return Err(ChunkFault::OtherEncoding);
    }
    if streamed.next != chunk.chunk_seq {
        return Err(ChunkFault::OutOfOrder { expected: streamed.next, got: chunk.chunk_seq });
    }
    streamed.bytes = streamed.bytes.saturating_add(chunk.decoded as u64);
    if chunk.written > CHUNK_BYTES || streamed.bytes > RESULT_BYTES || streamed.next == u32::MAX {
        return Err(ChunkFault::TooLarge);
    }
    streamed.next += 1;
    streamed.complete = !chunk.more;
    Ok(streamed)
}

/// Whether a job may end with a result like this.
///
/// # Errors
/// See [`ChunkFault`].
pub fn end(
    so_far: Option<&Streamed>,
    result_id: Option<&str>,
    result_size: Option<u64>,
) -> Result<(), ChunkFault> {
    match (so_far, result_id) {
        (None, None) => Ok(()),
        (None, Some(_)) | (Some(_), None) => Err(ChunkFault::Mixed),
        (Some(streamed), Some(result_id)) if streamed.result_id != result_id => {
            Err(ChunkFault::OtherResult(streamed.result_id.clone()))
        }
        (Some(streamed), Some(_)) if !streamed.complete => Err(ChunkFault::Incomplete),
        (Some(streamed), Some(_)) => match result_size {
            Some(said) if said != streamed.bytes => Err(ChunkFault::OtherSize { said, got: streamed.bytes }),
            _ => Ok(()),
        },
    }
}
