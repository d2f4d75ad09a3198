//! Numbers and sizes of what a session is delivered (ARCP §8.3, contract 2). On a socket an event has the number under which
//! it is stored. On stdio, where lines must be short, a chunk of a result that is too long is cut into several, each with a
//! number of its own, and what follows moves on by as many. Cutting depends on nothing but the events in their order, so a
//! session that is resumed comes to the same numbers by counting again from its first event.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::dialects::Dialect;
use super::{Delivery, LINE_BYTES, SENT_BYTES, What};
use crate::chunks::Encoding;

/// Bytes of an envelope around a body, at the most.
const AROUND: usize = 1_000;

/// How a session numbers what it is delivered.
#[derive(Debug)]
pub struct Numbering {
    /// Bytes of a frame at the most.
    most: usize,
    /// By how much the numbers have moved on, and from which delivered number.
    moves: Vec<(i64, i64)>,
    /// What the client has already, counted anew but not sent.
    skip: i64,
    /// The next chunk of each result, where the chunks were cut.
    chunks: HashMap<String, u32>,
}

#[derive(Deserialize, Serialize)]
struct Chunk {
    result_id: String,
    chunk_seq: u32,
    data: String,
    encoding: Encoding,
    more: bool,
}

impl Numbering {
    /// On a socket.
    #[must_use]
    pub fn plain() -> Self {
        Self { most: SENT_BYTES, moves: Vec::new(), skip: 0, chunks: HashMap::new() }
    }

    /// On stdio, where the client has everything up to `skip`.
    #[must_use]
    pub fn lines(skip: i64) -> Self {
        Self { most: LINE_BYTES, skip, ..Self::plain() }
    }

    /// Bytes of a frame at the most.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    fn moved(&self) -> i64 {
        self.moves.last().map_or(0, |(_, by)| *by)
    }

    /// The number under which is stored what was delivered under this one.
    #[must_use]
    pub fn stored(&self, delivered: i64) -> i64 {
        let by = self.moves.iter().rev().find(|(from, _)| *from <= delivered).map_or(0, |(_, by)| *by);
        delivered - by
    }

    /// Gives a stored event its numbers: one, or several if it is cut. None when the client has it already. One
    /// that would be too long in the client's own shapes is replaced, under the same number.
    pub fn number(&mut self, event: Delivery, dialect: Dialect) -> Vec<(i64, Delivery)> {
        let first = event.event_seq + self.moved();
        let pieces = self.pieces(event, dialect);
        let more = i64::try_from(pieces.len()).unwrap_or(1) - 1;
        if more > 0 {
            self.moves.push((first + more, self.moved() + more));
        }
        let numbered = (first..).zip(pieces);
        numbered.filter(|(seq, _)| *seq > self.skip).collect()
    }

    fn pieces(&mut self, event: Delivery, dialect: Dialect) -> Vec<Delivery> {
        let chunk = match &event.what {
            What::Event(kind) if kind == "result_chunk" => serde_json::from_str::<Chunk>(&event.body).ok(),
            _ => None,
        };
        if let Some(chunk) = chunk {
            // A result of which nothing was cut keeps its numbers, and its text.
            if self.chunks.contains_key(&chunk.result_id) && chunk.chunk_seq > 0
                || event.body.len() + AROUND > self.most
            {
                return self.cut(&event, &chunk);
            }
            self.chunks.remove(&chunk.result_id);
            return vec![event];
        }
        let fits = dialect.written(&event.what, &event.body) + AROUND <= self.most;
        if fits { vec![event] } else { vec![too_long(event)] }
    }

    fn cut(&mut self, event: &Delivery, chunk: &Chunk) -> Vec<Delivery> {
        let next = self.chunks.entry(chunk.result_id.clone()).or_insert(chunk.chunk_seq);
        if chunk.chunk_seq == 0 {
            *next = 0;
        }
        let parts = parts(&chunk.data, chunk.encoding, self.most - AROUND);
        let last = parts.len().saturating_sub(1);
        let mut pieces = Vec::with_capacity(parts.len());
        for (index, data) in parts.into_iter().enumerate() {
            let piece = Chunk {
                result_id: chunk.result_id.clone(),
                chunk_seq: *next,
                data: data.to_owned(),
                encoding: chunk.encoding,
                more: chunk.more || index < last,
            };
            *next += 1;
            let body = serde_json::to_string(&piece).unwrap_or_else(|_never| event.body.clone());
            pieces.push(Delivery { body, ..event.clone() });
        }
        pieces
    }
}

/// Cuts data so that each part, written as a JSON text, has at most so many bytes: between characters, and base64 between
/// its groups of four.
fn parts(data: &str, encoding: Encoding, most: usize) -> Vec<&str> {
    // The other members of a chunk.
    let most = most.saturating_sub(600).max(64);
    let mut parts = Vec::new();
    let mut rest = data;
    loop {
        let mut written = 0;
        let mut at = rest.len();
        for (index, character) in rest.char_indices() {
            written += written_bytes(character);
            if written > most {
                at = index;
                break;
            }
        }
        if encoding == Encoding::Base64 && at < rest.len() {
            at -= at % 4;
        }
        let (part, left) = rest.split_at(at);
        parts.push(part);
        if left.is_empty() {
            return parts;
        }
        rest = left;
    }
}

/// Bytes of a character in a JSON text.
fn written_bytes(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        c if (c as u32) < 0x20 => 6,
        c => c.len_utf8(),
    }
}

/// What stands for an event that does not fit: that it happened, and where to read it.
fn too_long(event: Delivery) -> Delivery {
    let bytes = event.body.len();
    let message = format!(
        "This has {bytes} bytes, more than a frame of this session may have. Read it over REST: /api/v1/jobs/{}.",
        event.job_id
    );
    match event.what {
        What::Event(_) => {
            let body = json!({ "phase": "event_too_large", "message": message }).to_string();
            Delivery { what: What::Event("status".to_owned()), body, ..event }
        }
        What::Result => {
            let said: serde_json::Value = serde_json::from_str(&event.body).unwrap_or_default();
            let body = json!({
                "final_status": "success", "result_id": format!("res_{}", bare(&event)), "result_size": bytes,
                "summary": message, "completed_at": said.get("completed_at"),
            });
            Delivery { body: body.to_string(), ..event }
        }
        What::Error => {
            let mut said: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&event.body).unwrap_or_default();
            said.remove("details");
            let short = |text: &str| text.chars().take(2_000).collect::<String>();
            let text = said.get("message").and_then(serde_json::Value::as_str).map(short);
            said.insert("message".to_owned(), text.unwrap_or(message).into());
            Delivery { body: serde_json::Value::Object(said).to_string(), ..event }
        }
    }
}

/// The letters of a job's id, which name its result where that has no name of its own.
fn bare(event: &Delivery) -> String {
    event.job_id.to_string().trim_start_matches("job_").to_owned()
}
