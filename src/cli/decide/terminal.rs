//! Reading from a person at a terminal: lines, longer texts, a yes, and a secret that is not shown while it is entered. What is
//! asked is `decide.rs`.

use std::io::{self, BufRead as _, Write as _};
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use crate::cli::{Done, Failure};

/// A terminal whose lines come one by one, while other things go on.
pub(super) struct Terminal {
    lines: mpsc::UnboundedReceiver<String>,
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
                let line = String::from_utf8_lossy(&line);
                if heard.send(line.trim_end_matches(['\r', '\n']).to_owned()).is_err() {
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

    /// The next line; `None` when the person is gone (Ctrl-D).
    pub(super) async fn line(&mut self) -> Option<String> {
        self.lines.recv().await
    }

    /// A line that is not shown; `None` when nothing is entered.
    pub(super) async fn secret(&mut self, prompt: &str) -> Result<Option<String>, Failure> {
        let unseen = Unseen::begin()?;
        self.prompt(prompt)?;
        let line = self.line().await;
        drop(unseen);
        Ok(line.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()))
    }

    /// Whether the person says yes.
    pub(super) async fn confirm(&mut self, what: &str) -> Result<bool, Failure> {
        self.prompt(&format!("{what}. Sure? y/n: "))?;
        let line = self.line().await;
        Ok(line.is_some_and(|line| ["y", "yes"].contains(&line.trim())))
    }

    /// A text of several lines; `None` when it is empty.
    pub(super) async fn text(&mut self, what: &str) -> Result<Option<String>, Failure> {
        say(&format!("{what}; a line with a full stop alone ends it, and at once calls it off:"))?;
        let mut all = Vec::new();
        loop {
            match self.line().await {
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
