//! Reads the output of a job's command piece by piece, and queues it for the server. `lines.rs` parses the
//! lines; `child.rs` runs the command.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use entente_domain::arcp::chunks::CHUNK_BYTES;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::lines::{self, Failed, Line};
use super::reports::{End, Event, Item, log};
use super::{Claimed, moment};

/// Most bytes in one line of a command's output: the command must stream a larger result itself.
const LINE_BYTES: usize = 16 * 1024 * 1024;
/// Most bytes in one log line; longer ones are split.
const LOG_BYTES: usize = 64 * 1024;
/// Most bytes in an event's body; a server refuses larger ones.
const BODY_BYTES: usize = CHUNK_BYTES + 1024;
/// Time to wait for output after the command's exit, from processes that it left behind.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// Data from the output that matters at the command's end.
#[derive(Default)]
pub(super) struct Seen {
    /// The last JSON value that is not of another kind.
    pub(super) value: RefCell<Option<Box<RawValue>>>,
    /// The id of a result that the command streams itself.
    pub(super) streamed: RefCell<Option<String>>,
    /// The last line of standard error.
    pub(super) complaint: RefCell<String>,
    /// Number of events so far, for their keys.
    events: Cell<u64>,
    /// Whether the command has reported the end of the job.
    pub(super) ended: Cell<bool>,
    /// Time of the last line of output.
    pub(super) wrote_at: Cell<Option<Instant>>,
}

impl Seen {
    /// Whether the command has said a result, or streams one.
    pub(super) fn has_result(&self) -> bool {
        self.value.borrow().is_some() || self.streamed.borrow().is_some()
    }
}

/// Reader of a command's output.
pub(super) struct Listener<'a> {
    pub(super) job: &'a Claimed,
    pub(super) seen: &'a Seen,
    /// Cancelled when the command itself has exited.
    pub(super) exited: &'a CancellationToken,
    pub(super) items: &'a Sender<Item>,
    /// Whether the command takes signals.
    pub(super) takes_signals: bool,
}

impl Listener<'_> {
    /// Reads standard output to its end.
    ///
    /// Returns whether reading was cut off because a leftover process keeps it open.
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

    /// Reads standard error to its end; each line is logged as an error.
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

    /// Returns the next line; `None` at the end, `Some(None)` when the wait for it is over.
    async fn next<R: AsyncRead + Unpin>(&self, pieces: &mut Pieces<R>) -> Option<Option<String>> {
        tokio::select! {
            biased;
            piece = pieces.next() => {
                self.seen.wrote_at.set(Some(Instant::now()));
                piece.map(Some)
            }
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
        match lines::read(line, self.takes_signals) {
            Line::Event { kind, .. } if line.len() > BODY_BYTES => {
                self.note(
                    "error",
                    &format!("a `{kind}` event with more than {BODY_BYTES} bytes was not sent"),
                )
                .await;
            }
            Line::Event { kind, ts, body } => {
                if kind == "result_chunk" {
                    *self.seen.streamed.borrow_mut() = result_id(&body);
                }
                self.event(kind, ts, body).await;
            }
            Line::Result { result, summary } => {
                let end = match self.seen.streamed.take() {
                    Some(result_id) => End::Streamed { result_id, summary },
                    None => End::Result { result, summary },
                };
                self.end(end).await;
            }
            Line::Error(failed) => self.end(End::Error(failed)).await,
            Line::Checkpoint(checkpoint) => self.send(Item::Checkpoint(checkpoint)).await,
            Line::Acknowledge(seq) => self.send(Item::Acknowledge(seq)).await,
            Line::Authorize(question) => self.send(Item::Authorize(question)).await,
            Line::Value(value) => {
                // Only the last one is the result; earlier ones go to the log.
                let before = self.seen.value.replace(Some(value));
                if let Some(before) = before {
                    self.note("info", before.get()).await;
                }
            }
            Line::Text => self.note("info", line).await,
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
        // Of this claim: an attempt that is handed back is made again under its number.
        let event_key = format!("{}-{number}", self.job.result_id);
        self.send(Item::Event(Event { kind, ts: ts.unwrap_or_else(moment), body, event_key })).await;
    }

    async fn end(&self, end: End) {
        self.seen.ended.set(true);
        self.send(Item::End(end)).await;
    }

    async fn send(&self, item: Item) {
        // After the job's end the receiver is closed, and the remaining output is dropped.
        let _unheard = self.items.send(item).await;
    }
}

/// Returns the id of the result that a chunk belongs to.
fn result_id(body: &RawValue) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body.get()).ok()?;
    Some(body["result_id"].as_str()?.to_owned())
}

/// Reader of lines, or of parts of them where a line is longer than `most` bytes.
struct Pieces<R> {
    from: BufReader<R>,
    most: usize,
    piece: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Pieces<R> {
    fn new(from: R, most: usize) -> Self {
        Self { from: BufReader::new(from), most, piece: Vec::new() }
    }

    /// Returns the next line or part, or `None` at the end.
    ///
    /// Cancel safe: a partial read is kept when this is dropped.
    async fn next(&mut self) -> Option<String> {
        loop {
            // A read error counts as the end.
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
