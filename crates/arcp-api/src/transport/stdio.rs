//! Sessions over stdio (ARCP §4, ARCP-W-2): exactly one envelope per line, in a form that every client can
//! read. The session ends when its input does.

use std::sync::Arc;

use entente_domain::arcp::sessions::FRAME_BYTES;
use entente_domain::arcp::sessions::dialects::Dialect;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, stdin, stdout,
};

use super::session::converse;
use super::{Connection, Ending, FrameSink, FrameSource, Incoming};
use crate::ApiState;

/// Runs a session over the process's own stdin and stdout.
pub async fn run(api: Arc<ApiState>, dialect: Option<Dialect>) {
    let line = Connection { dialect, lines: true, address: None };
    converse(api, line, Lines::new(BufReader::new(stdin())), LineSink(stdout())).await;
}

/// Received lines; a partial line is kept here, so that reading is cancel safe.
struct Lines<R> {
    from: R,
    begun: Vec<u8>,
    /// Whether the line exceeds the limit, so that its rest is skipped.
    skips: bool,
}

impl<R> Lines<R> {
    fn new(from: R) -> Self {
        Self { from, begun: Vec::new(), skips: false }
    }
}

impl<R: AsyncBufRead + Unpin> FrameSource for Lines<R> {
    async fn hear(&mut self) -> Incoming {
        loop {
            let Ok(bytes) = self.from.fill_buf().await else { return Incoming::Gone };
            if bytes.is_empty() {
                return Incoming::Gone;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = end.map_or(bytes, |end| bytes.get(..end).unwrap_or_default());
            let taken = part.len() + usize::from(end.is_some());
            if self.begun.len() + part.len() > FRAME_BYTES {
                self.skips = true;
                self.begun.clear();
            } else if !self.skips {
                self.begun.extend_from_slice(part);
            }
            self.from.consume(taken);
            if end.is_none() {
                continue;
            }
            if std::mem::take(&mut self.skips) {
                return Incoming::Noise("The line is too long: a frame has at most 1 MiB.");
            }
            let line = std::mem::take(&mut self.begun);
            match String::from_utf8(line) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => return Incoming::Text(line),
                Err(_no_text) => {
                    return Incoming::Noise("The line is no UTF-8 text. Send one JSON object per line.");
                }
            }
        }
    }
}

struct LineSink<W>(W);

impl<W: AsyncWrite + Unpin> FrameSink for LineSink<W> {
    async fn say(&mut self, mut frame: String) -> bool {
        frame.push('\n');
        self.0.write_all(frame.as_bytes()).await.is_ok() && self.0.flush().await.is_ok()
    }

    async fn ping(&mut self) -> bool {
        // Lines have no ping: the next incoming line is the sign of life.
        true
    }

    async fn pong(&mut self, _ping: &[u8]) -> bool {
        true
    }

    async fn end(mut self, _how: Ending) {
        let _closed = self.0.flush().await;
    }
}
