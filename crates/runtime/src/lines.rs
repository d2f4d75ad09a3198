//! Lines of a pipe, each within a limit: ARCP over stdio has one envelope per line (ARCP-W-2.5).

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line that is not blank, without its end.
    Text(String),
    /// A line with more bytes than the limit; its rest was skipped.
    TooLong,
    /// A line that is not UTF-8.
    NotText,
    /// The end of the input. Bytes after the last line break are no line.
    End,
}

/// Reader of lines; a partial line is kept, so that reading is cancel safe.
#[derive(Debug)]
pub struct Lines<R> {
    from: R,
    /// Maximum size of a line in bytes.
    most: usize,
    begun: Vec<u8>,
    /// Whether the line exceeds the limit, so that its rest is skipped.
    skips: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Creates a reader of lines with at most `most` bytes.
    pub fn new(from: R, most: usize) -> Self {
        Self { from, most, begun: Vec::new(), skips: false }
    }

    /// Reads the next line that is not blank; a failed read counts as the end.
    pub async fn next(&mut self) -> Line {
        loop {
            let Ok(bytes) = self.from.fill_buf().await else { return Line::End };
            if bytes.is_empty() {
                return Line::End;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = end.map_or(bytes, |end| bytes.get(..end).unwrap_or_default());
            let taken = part.len() + usize::from(end.is_some());
            if self.begun.len() + part.len() > self.most {
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
                return Line::TooLong;
            }
            match String::from_utf8(std::mem::take(&mut self.begun)) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => return Line::Text(line),
                Err(_no_text) => return Line::NotText,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_bounded_and_a_bad_one_harms_no_other() {
        let input: &[u8] = b"one\n\n  \r\n123456789\n12345678\n\xff\ntwo\nno end";
        let mut lines = Lines::new(input, 8);
        let text = |line: &str| Line::Text(line.to_owned());
        let expected =
            [text("one"), Line::TooLong, text("12345678"), Line::NotText, text("two"), Line::End, Line::End];
        for line in expected {
            assert_eq!(lines.next().await, line);
        }
    }
}
