//! Sessions over stdio (ARCP §4, ARCP-W-2): exactly one envelope per line, in a form that every client can
//! read. The session ends when its input does.

use std::sync::Arc;

use entente_domain::arcp::sessions::FRAME_BYTES;
use entente_domain::arcp::sessions::dialects::Dialect;
use entente_runtime::lines::{Line, Lines};
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _, BufReader, stdin, stdout};

use super::session::converse;
use super::{Connection, Ending, FrameSink, FrameSource, Incoming};
use crate::ApiState;

/// Runs a session over the process's own stdin and stdout.
pub async fn run(api: Arc<ApiState>, dialect: Option<Dialect>) {
    let line = Connection { dialect, lines: true, address: None };
    converse(api, line, Lines::new(BufReader::new(stdin()), FRAME_BYTES), LineSink(stdout())).await;
}

impl<R: AsyncBufRead + Unpin> FrameSource for Lines<R> {
    async fn hear(&mut self) -> Incoming {
        match self.next().await {
            Line::Text(line) => Incoming::Text(line),
            Line::TooLong => Incoming::Noise("The line is too long: a frame has at most 1 MiB."),
            Line::NotText => Incoming::Noise("The line is no UTF-8 text. Send one JSON object per line."),
            Line::End => Incoming::Gone,
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
