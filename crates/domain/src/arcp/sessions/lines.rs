//! Numbering and size limits of session deliveries (ARCP §8.3, ARCP-W-2.5). On a socket an event is delivered under
//! its stored number. On stdio, where lines must be short, a result chunk that is too long is split into several with
//! their own numbers, and later numbers shift accordingly. Splitting depends only on the sequence of events, so a
//! resumed session computes the same numbers by counting again from its first event.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::dialects::Dialect;
use super::{Delivery, LINE_BYTES, SENT_BYTES, What};
use crate::arcp::chunks::Encoding;
use crate::ids::JobId;

/// Maximum size of an envelope without its body, in bytes.
const AROUND: usize = 1_000;
/// Number of ended jobs for which the splits of their results are remembered.
const OVER: usize = 32;

/// Delivery numbers of a session.
#[derive(Debug)]
pub struct Numbering {
    /// Maximum size of a frame, in bytes.
    most: usize,
    /// Shifts: the delivered number from which each applies, and the total shift.
    moves: Vec<(i64, i64)>,
    /// Last number the client already has: up to it, events are renumbered but not sent.
    skip: i64,
    /// Splits of chunked results: the number of extra pieces by chunk position.
    ///
    /// A chunk may be delivered more than once, when history is mixed with new events, and has the same pieces each time.
    cuts: HashMap<(JobId, String), BTreeMap<u32, u32>>,
    /// Ended jobs among them, oldest first: their history may still be delivered after the end.
    over: VecDeque<JobId>,
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
    /// Numbering for a socket.
    #[must_use]
    pub fn plain() -> Self {
        Self { most: SENT_BYTES, moves: Vec::new(), skip: 0, cuts: HashMap::new(), over: VecDeque::new() }
    }

    /// Numbering for stdio, where the client has everything up to `skip`.
    #[must_use]
    pub fn lines(skip: i64) -> Self {
        Self { most: LINE_BYTES, skip, ..Self::plain() }
    }

    /// Returns the maximum size of a frame, in bytes.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    fn moved(&self) -> i64 {
        self.moves.last().map_or(0, |(_, by)| *by)
    }

    /// Returns the stored number of a delivered number.
    #[must_use]
    pub fn stored(&self, delivered: i64) -> i64 {
        let by = self.moves.iter().rev().find(|(from, _)| *from <= delivered).map_or(0, |(_, by)| *by);
        delivered - by
    }

    /// Returns the delivered number of a stored number, as far as the events up to it were delivered: each of the others
    /// that is split raises it.
    #[must_use]
    pub fn delivered(&self, stored: i64) -> i64 {
        let by = self.moves.iter().rev().find(|(from, by)| *from <= stored + by).map_or(0, |(_, by)| *by);
        stored + by
    }

    /// Numbers a stored event: one delivery, or several if it is split; none if the client already has it.
    ///
    /// An event that would be too long in the client's dialect is replaced under the same number.
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
            return self.cut(event, chunk);
        }
        if !matches!(event.what, What::Event(_)) {
            self.end(event.job_id);
        }
        let fits = dialect.written(&event.what, &event.body) + AROUND <= self.most;
        if fits { vec![event] } else { vec![too_long(event)] }
    }

    /// Splits a chunk into as many pieces as needed.
    ///
    /// It stays verbatim if it fits and no earlier chunk of the result was split.
    fn cut(&mut self, event: Delivery, chunk: Chunk) -> Vec<Delivery> {
        let result = (event.job_id, chunk.result_id);
        let before = self
            .cuts
            .get(&result)
            .map_or(0, |cuts| cuts.range(..chunk.chunk_seq).map(|(_, more)| more).sum());
        let fits = event.body.len() + AROUND <= self.most;
        if fits && before == 0 {
            return vec![event];
        }
        let parts = if fits {
            vec![chunk.data.as_str()]
        } else {
            parts(&chunk.data, chunk.encoding, self.most - AROUND)
        };
        let last = u32::try_from(parts.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let mut pieces = Vec::with_capacity(parts.len());
        for (index, data) in (0..).zip(parts) {
            let piece = Chunk {
                result_id: result.1.clone(),
                chunk_seq: chunk.chunk_seq.saturating_add(before).saturating_add(index),
                data: data.to_owned(),
                encoding: chunk.encoding,
                more: chunk.more || index < last,
            };
            let body = serde_json::to_string(&piece).unwrap_or_else(|_never| event.body.clone());
            pieces.push(Delivery { body, ..event.clone() });
        }
        if last > 0 {
            self.cuts.entry(result).or_default().insert(chunk.chunk_seq, last);
        }
        pieces
    }

    /// Forgets the splits of results of jobs that ended long enough ago.
    fn end(&mut self, job: JobId) {
        if self.cuts.keys().all(|(of, _)| *of != job) {
            return;
        }
        self.over.retain(|known| *known != job);
        self.over.push_back(job);
        if self.over.len() > OVER {
            let gone = self.over.pop_front();
            self.cuts.retain(|(of, _), _| Some(*of) != gone);
        }
    }
}

/// Splits data into parts of at most `most` bytes as JSON text, between characters, and base64 at multiples of four.
fn parts(data: &str, encoding: Encoding, most: usize) -> Vec<&str> {
    // Reserves room for the other members of a chunk.
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

/// Returns the size of a character in JSON text, in bytes.
fn written_bytes(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        c if (c as u32) < 0x20 => 6,
        c => c.len_utf8(),
    }
}

/// Returns the replacement for an event that does not fit: it names the event and where to read it.
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

/// Returns the job id without prefix, which names the job's result if that has no id of its own.
fn bare(event: &Delivery) -> String {
    event.job_id.to_string().trim_start_matches("job_").to_owned()
}
