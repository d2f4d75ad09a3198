//! Streamed results (ARCP §8.4): chunks of one result come in order, end once, and exclude an inline result.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Maximum bytes of one chunk's `data`; with its envelope it stays below the 1 MiB that clients accept per
/// frame (ARCP-W-2.4).
pub const CHUNK_BYTES: usize = 700 * 1024;
/// Maximum bytes of a whole streamed result.
pub const RESULT_BYTES: u64 = 1024 * 1024 * 1024;

/// The encoding of a chunk's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Plain text.
    Utf8,
    /// Base64, for binary data.
    Base64,
}

impl Encoding {
    /// Returns the encoding's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Utf8 => "utf8",
            Self::Base64 => "base64",
        }
    }

    /// Decodes a chunk's data; `None` if it is not in this encoding.
    #[must_use]
    pub fn decode(self, data: &str) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 => Some(data.as_bytes().to_vec()),
            Self::Base64 => STANDARD.decode(data).ok(),
        }
    }
}

/// The progress of a streamed result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streamed {
    /// The result's id.
    pub result_id: String,
    /// The encoding, the same for all chunks (a client refuses a mixture, ARCP-W-5.3).
    pub encoding: Encoding,
    /// The number of the next chunk, from 0.
    pub next: u32,
    /// Decoded bytes so far.
    pub bytes: u64,
    /// Whether the last chunk has arrived.
    pub complete: bool,
}

/// A chunk submitted by a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The result it belongs to.
    pub result_id: &'a str,
    /// Its number.
    pub chunk_seq: u32,
    /// The encoding of its data.
    pub encoding: Encoding,
    /// Bytes of its data as encoded.
    pub written: usize,
    /// Bytes of its data, decoded.
    pub decoded: usize,
    /// Whether its data is the empty text.
    pub empty: bool,
    /// Whether other chunks follow.
    pub more: bool,
}

/// Why a chunk, or the end of a job, is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkFault {
    /// It is not the next chunk.
    #[error("chunk {expected} of the result is next, this is {got}")]
    OutOfOrder {
        /// The number of the next chunk.
        expected: u32,
        /// The number received.
        got: u32,
    },
    /// Another result was begun already.
    #[error("the job streams the result {0} already; a job has one")]
    OtherResult(String),
    /// The chunks before it have another encoding.
    #[error("all chunks of a result are written alike")]
    OtherEncoding,
    /// The last chunk has arrived already.
    #[error("the last chunk of the result has come already")]
    Complete,
    /// The chunk or the result is too large; an `INTERNAL_ERROR`, as §14 requires.
    #[error("a chunk has at most {CHUNK_BYTES} bytes, a result {RESULT_BYTES}")]
    TooLarge,
    /// The job ends before the last chunk has arrived.
    #[error("the last chunk, with `more: false`, has not come yet")]
    Incomplete,
    /// Both an inline result and chunks were given.
    #[error("a result is streamed or stands in the message, not both")]
    Mixed,
    /// The declared size differs from the size received.
    #[error("the chunks have {got} bytes, `result_size` says {said}")]
    OtherSize {
        /// The size declared at the end.
        said: u64,
        /// The size received.
        got: u64,
    },
}

/// Adds a chunk to a streamed result.
///
/// A last chunk without data is in the stream's encoding, whatever it says: SDKs close every stream with one in their
/// default encoding, and nothing in it can be decoded wrongly (§8.4).
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
    let closes = !chunk.more && chunk.empty;
    if streamed.encoding != chunk.encoding && !closes {
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

/// Checks that a job may end with such a result.
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
