//! Input from a person at a terminal: lines, longer texts, confirmations, and secrets without echo.
//! `decide.rs` asks the questions.

use std::io::{self, BufRead as _, Write as _};
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use crate::output::note;
use crate::{Done, Failure};

/// Bytes of the longest line that a terminal passes on whole; it silently truncates longer ones.
const LINE_BYTES: usize = 4_095;

/// Terminal that delivers lines one by one while other work goes on.
pub(super) struct Terminal {
    lines: mpsc::UnboundedReceiver<Vec<u8>>,
}

/// Prints a line.
pub(super) fn say(line: &str) -> Done {
    writeln!(io::stdout().lock(), "{line}")?;
    Ok(())
}

/// Guard that disables echo until it is dropped.
struct EchoOff(Termios);

impl EchoOff {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        if let Err(e) = tcsetattr(io::stdin(), OptionalActions::Now, &self.0) {
            note(&format!("entente: the terminal still hides what you type ({e}); enter `stty echo`"));
        }
    }
}

impl Terminal {
    /// Starts the reader thread.
    ///
    /// The thread ends with the program, because a blocking read from a terminal cannot be cancelled.
    pub(super) fn open() -> Self {
        let (heard, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            let mut stdin = io::stdin().lock();
            loop {
                let mut line = Vec::new();
                // The terminal is closed.
                let Ok(1..) = stdin.read_until(b'\n', &mut line) else { return };
                if heard.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// Writes the prompt.
    #[expect(clippy::unused_self, reason = "whoever prompts reads")]
    pub(super) fn prompt(&self, text: &str) -> Done {
        let mut out = io::stdout().lock();
        write!(out, "{text}")?;
        out.flush()?;
        Ok(())
    }

    /// Discards input typed ahead: it does not answer the next question.
    pub(super) fn forget(&mut self) -> Done {
        tcflush(io::stdin(), QueueSelector::IFlush)?;
        while self.lines.try_recv().is_ok() {}
        Ok(())
    }

    /// Returns the next line, or `None` at the end of input (Ctrl-D).
    pub(super) async fn line(&mut self) -> Result<Option<String>, Failure> {
        while let Some(bytes) = self.lines.recv().await {
            match read(bytes) {
                Ok(line) => return Ok(Some(line)),
                Err(why) => say(&format!("This line is left out: {why}. Enter it again."))?,
            }
        }
        Ok(None)
    }

    /// Reads a line without echo; `None` when it is empty.
    pub(super) async fn secret(&mut self, prompt: &str) -> Result<Option<String>, Failure> {
        self.forget()?;
        let unseen = EchoOff::begin()?;
        self.prompt(prompt)?;
        let line = self.line().await?;
        drop(unseen);
        Ok(line.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()))
    }

    /// Asks for a confirmation.
    pub(super) async fn confirm(&mut self, what: &str) -> Result<bool, Failure> {
        self.forget()?;
        loop {
            self.prompt(&format!("{what}. Sure? y/n: "))?;
            match self.line().await?.as_deref().map(str::trim) {
                Some("y" | "yes") => return Ok(true),
                Some("n" | "no") | None => return Ok(false),
                Some(_) => {}
            }
        }
    }

    /// Reads a text of several lines; `None` when it is empty.
    pub(super) async fn text(&mut self, what: &str) -> Result<Option<String>, Failure> {
        say(&format!("{what}; a line with a full stop alone ends it, and at once calls it off:"))?;
        let mut all = Vec::new();
        loop {
            match self.line().await? {
                Some(line) if line.trim() == "." => break,
                Some(line) => all.push(line),
                // An interrupted text is discarded.
                None => {
                    all.clear();
                    break;
                }
            }
        }
        let text = all.join("\n").trim().to_owned();
        if text.is_empty() {
            say("Nothing was said.")?;
        }
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// Decodes a line as it was typed, or returns the reason that it cannot be trusted.
fn read(mut bytes: Vec<u8>) -> Result<String, &'static str> {
    if bytes.len() >= LINE_BYTES {
        return Err("it is too long for a terminal, which cuts it; break it into several");
    }
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    let line = String::from_utf8(bytes).map_err(|_other| "it is no UTF-8")?;
    if line.chars().any(|one| one.is_control() && one != '\t') {
        return Err("it has control characters, as arrow keys make them");
    }
    Ok(line)
}
