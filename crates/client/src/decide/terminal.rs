//! Reading from a person at a terminal: lines, longer texts, a yes, and a secret that is not shown while it is entered. What is
//! asked is `decide.rs`.

use std::io::{self, BufRead as _, Write as _};
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use crate::{Done, Failure};

/// Bytes of the longest line that a terminal hands over whole: what is longer it cuts without a word.
const LINE_BYTES: usize = 4_095;

/// A terminal whose lines come one by one, while other things go on.
pub(super) struct Terminal {
    lines: mpsc::UnboundedReceiver<Vec<u8>>,
}

/// Writes a line.
pub(super) fn say(line: &str) -> Done {
    writeln!(io::stdout().lock(), "{line}")?;
    Ok(())
}

/// Keeps what is typed off the screen until it is dropped.
struct Unseen(Termios);

impl Unseen {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        if let Err(e) = tcsetattr(io::stdin(), OptionalActions::Now, &self.0) {
            eprintln!("entente: the terminal still hides what you type ({e}); enter `stty echo`");
        }
    }
}

impl Terminal {
    /// Begins to read. The thread that does ends with the program: nothing can call it back from a terminal.
    pub(super) fn open() -> Self {
        let (heard, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            let mut stdin = io::stdin().lock();
            loop {
                let mut line = Vec::new();
                // A terminal that is gone has nothing more to say.
                let Ok(1..) = stdin.read_until(b'\n', &mut line) else { return };
                if heard.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// Writes what stands before the cursor.
    #[expect(clippy::unused_self, reason = "whoever prompts reads")]
    pub(super) fn prompt(&self, text: &str) -> Done {
        let mut out = io::stdout().lock();
        write!(out, "{text}")?;
        out.flush()?;
        Ok(())
    }

    /// Forgets what was typed ahead: it was not meant for what is asked next.
    pub(super) fn forget(&mut self) -> Done {
        tcflush(io::stdin(), QueueSelector::IFlush)?;
        while self.lines.try_recv().is_ok() {}
        Ok(())
    }

    /// The next line; `None` when the person is gone (Ctrl-D).
    pub(super) async fn line(&mut self) -> Result<Option<String>, Failure> {
        while let Some(bytes) = self.lines.recv().await {
            match read(bytes) {
                Ok(line) => return Ok(Some(line)),
                Err(why) => say(&format!("This line is left out: {why}. Enter it again."))?,
            }
        }
        Ok(None)
    }

    /// A line that is not shown; `None` when nothing is entered.
    pub(super) async fn secret(&mut self, prompt: &str) -> Result<Option<String>, Failure> {
        self.forget()?;
        let unseen = Unseen::begin()?;
        self.prompt(prompt)?;
        let line = self.line().await?;
        drop(unseen);
        Ok(line.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()))
    }

    /// Whether the person says yes.
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

    /// A text of several lines; `None` when it is empty.
    pub(super) async fn text(&mut self, what: &str) -> Result<Option<String>, Failure> {
        say(&format!("{what}; a line with a full stop alone ends it, and at once calls it off:"))?;
        let mut all = Vec::new();
        loop {
            match self.line().await? {
                Some(line) if line.trim() == "." => break,
                Some(line) => all.push(line),
                // Half a text is none.
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

/// A line as it was typed; or why it cannot be taken for what was meant.
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
