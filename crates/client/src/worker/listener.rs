//! What a job's command says: read from its output piece by piece, and put into the queue for the server. What a line means is
//! `lines.rs`; the command itself is `child.rs`.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use entente_domain::chunks::CHUNK_BYTES;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::lines::{self, Failed, Said};
use super::reports::{End, Event, Item, log};
use super::{Claimed, moment};

/// Bytes of one line of a command's output: a result larger than this is streamed by the command itself.
const LINE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of one line of the log; a longer one becomes several.
const LOG_BYTES: usize = 64 * 1024;
/// Bytes of an event's body that are worth sending: a server takes no larger one.
const BODY_BYTES: usize = CHUNK_BYTES + 1024;
/// How long output may still come after the command has ended, from processes that it left behind.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// What the command has said that counts at its end.
#[derive(Default)]
pub(super) struct Seen {
    /// Its last JSON that is nothing else.
    pub(super) value: RefCell<Option<Box<RawValue>>>,
    /// The result that it streams itself.
    pub(super) streamed: RefCell<Option<String>>,
    /// The last line of its complaints.
    pub(super) complaint: RefCell<String>,
    /// Events so far, for their keys.
    events: Cell<u64>,
    /// Whether it has said how the job ends.
    pub(super) ended: Cell<bool>,
}

/// Reads what the command says.
pub(super) struct Listener<'a> {
    pub(super) job: &'a Claimed,
    pub(super) seen: &'a Seen,
    /// The command itself has ended.
    pub(super) exited: &'a CancellationToken,
    pub(super) items: &'a Sender<Item>,
}

impl Listener<'_> {
    /// Reads standard output to its end; whether it was cut off, because somebody who was left behind keeps it open.
    pub(super) async fn output(&self, stdout: Option<impl AsyncRead + Unpin>) -> bool {
        let Some(stdout) = stdout else { return false };
        let mut pieces = Pieces::new(stdout, LINE_BYTES);
        while let Some(piece) = self.next(&mut pieces).await {
            let Some(line) = piece else { return true };
            if !self.seen.ended.get() {
                self.hear(line.trim()).await;
            }
        }
        false
    }

    /// Reads standard error to its end: each line is an error in the log.
    pub(super) async fn complaints(&self, stderr: Option<impl AsyncRead + Unpin>) -> bool {
        let Some(stderr) = stderr else { return false };
        let mut pieces = Pieces::new(stderr, LOG_BYTES);
        while let Some(piece) = self.next(&mut pieces).await {
            let Some(line) = piece else { return true };
            if !line.trim().is_empty() {
                line.trim().clone_into(&mut self.seen.complaint.borrow_mut());
            }
            self.note("error", line.trim_end()).await;
        }
        false
    }

    /// The next line; `None` at the end, `Some(None)` when it is not waited for any longer.
    async fn next<R: AsyncRead + Unpin>(&self, pieces: &mut Pieces<R>) -> Option<Option<String>> {
        tokio::select! {
            biased;
            piece = pieces.next() => piece.map(Some),
            () = async { self.exited.cancelled().await; sleep(LEFTOVERS).await } => Some(None),
        }
    }

    async fn hear(&self, line: &str) {
        if line.is_empty() {
            return;
        }
        if line.len() >= LINE_BYTES {
            let message =
                format!("a line of the command's output has more than {LINE_BYTES} bytes: stream the result");
            return self.end(End::Error(Failed::with("INTERNAL_ERROR", message))).await;
        }
        match lines::read(line) {
            Said::Event { kind, .. } if line.len() > BODY_BYTES => {
                self.note(
                    "error",
                    &format!("a `{kind}` event with more than {BODY_BYTES} bytes was not sent"),
                )
                .await;
            }
            Said::Event { kind, ts, body } => {
                if kind == "result_chunk" {
                    *self.seen.streamed.borrow_mut() = result_id(&body);
                }
                self.event(kind, ts, body).await;
            }
            Said::Result { result, summary } => {
                let end = match self.seen.streamed.take() {
                    Some(result_id) => End::Streamed { result_id, summary },
                    None => End::Result { result, summary },
                };
                self.end(end).await;
            }
            Said::Error(failed) => self.end(End::Error(failed)).await,
            Said::Authorize(question) => self.send(Item::Authorize(question)).await,
            Said::Value(value) => {
                // Only the last one is the result: those before it are not lost.
                let before = self.seen.value.replace(Some(value));
                if let Some(before) = before {
                    self.note("info", before.get()).await;
                }
            }
            Said::Text => self.note("info", line).await,
        }
    }

    async fn note(&self, level: &str, text: &str) {
        for piece in lines::pieces(text, LOG_BYTES) {
            self.event("log".to_owned(), None, log(level, piece)).await;
        }
    }

    async fn event(&self, kind: String, ts: Option<String>, body: Box<RawValue>) {
        let number = self.seen.events.get();
        self.seen.events.set(number + 1);
        let event_key = format!("{}-{number}", self.job.attempt);
        self.send(Item::Event(Event { kind, ts: ts.unwrap_or_else(moment), body, event_key })).await;
    }

    async fn end(&self, end: End) {
        self.seen.ended.set(true);
        self.send(Item::End(end)).await;
    }

    async fn send(&self, item: Item) {
        // When the job is over nobody listens, and the rest of the output is nobody's.
        let _unheard = self.items.send(item).await;
    }
}

/// Which result a chunk is of.
fn result_id(body: &RawValue) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body.get()).ok()?;
    Some(body["result_id"].as_str()?.to_owned())
}

/// Lines, or parts of them where one is longer than `most` bytes.
struct Pieces<R> {
    from: BufReader<R>,
    most: usize,
    piece: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Pieces<R> {
    fn new(from: R, most: usize) -> Self {
        Self { from: BufReader::new(from), most, piece: Vec::new() }
    }

    /// The next one; `None` at the end. What was read of it is kept when this is dropped half-way.
    async fn next(&mut self) -> Option<String> {
        loop {
            // A pipe that cannot be read is at its end.
            let ready = self.from.fill_buf().await.unwrap_or_default();
            if ready.is_empty() {
                return (!self.piece.is_empty()).then(|| self.take());
            }
            let room = ready.len().min(self.most - self.piece.len());
            let end = ready[..room].iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(room, |end| end + 1);
            self.piece.extend_from_slice(&ready[..taken]);
            self.from.consume(taken);
            if end.is_some() || self.piece.len() >= self.most {
                return Some(self.take());
            }
        }
    }

    fn take(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.piece).into_owned();
        self.piece.clear();
        text
    }
}
