//! The state that the hooks of one session of a host share: a small file, locked while a hook works.
//!
//! The file has the place up to which entries were shown and not confirmed yet. A hook confirms them (marks them seen
//! on the server) when the host runs the session's next hook, because then the host has gone on with them. So a crash
//! repeats, and never loses.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use entente_domain::canonical::{hex, sha256};
use entente_domain::inbox::check_reader;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::hosts::{Event, Host, Point};
use crate::Failure;
use crate::remote::{Api, variable};

/// Pause between two attempts to get the lock.
const PAUSE: Duration = Duration::from_millis(20);
/// Time after which the file of a session is deleted: the server keeps the position of a silent reader as long.
const KEPT: Duration = Duration::from_hours(30 * 24);

/// State of a session.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    /// The reader of the inbox, whose position the server keeps.
    pub reader: String,
    /// Place up to which entries were shown and not confirmed yet.
    pub shown: Option<i64>,
    /// The host's turn.
    turn: Option<String>,
    /// Times that the turn was kept from ending.
    pub stops: u32,
    /// Process of the hook that waits in the background; the latest one.
    pub waiter: Option<u32>,
}

/// A session of a host, locked.
#[derive(Debug)]
pub(super) struct Session {
    file: File,
    /// Its state; [`Session::save`] stores it.
    pub state: State,
}

impl Session {
    /// Locks a session; waits while another of its hooks works.
    pub(super) async fn lock(api: &Api, agent: &str, host: Host, id: &str) -> Result<Self, Failure> {
        let folder = folder()?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let name = hex(&sha256(format!("{}\n{agent}\n{host}\n{id}", api.base())))[..32].to_owned();
        let path = folder.join(&name);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => sleep(PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // A file that a crash left unreadable confirms nothing.
        let mut state: State = serde_json::from_slice(&text).unwrap_or_default();
        if state.reader.is_empty() {
            let reader = format!("{host}:{id}");
            state.reader = check_reader(&reader).map_or_else(|_unfit| format!("{host}:{name}"), |()| reader);
        }
        Ok(Self { file, state })
    }

    /// Takes note of the host's event.
    pub(super) fn begin(&mut self, event: &Event, point: Point) {
        let state = &mut self.state;
        match point {
            // The process before has ended, and nobody knows which of the shown entries reached the model.
            Point::Start if event.is_new() => (state.shown, state.waiter) = (None, None),
            // Within a turn, its steps and its end show new entries.
            Point::Prompt => state.waiter = None,
            Point::Stop if event.stop_hook_active && state.turn.as_deref() == event.turn() => {
                state.stops += 1;
            }
            Point::Stop => (state.stops, state.turn) = (0, event.turn().map(str::to_owned)),
            Point::Start | Point::Step | Point::Idle => {}
        }
    }

    /// Stores the state.
    pub(super) fn save(&mut self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.state)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.set_len(0)?;
        self.file.write_all(&text)?;
        self.file.flush()
    }
}

/// Returns the folder of the sessions' files.
fn folder() -> Result<PathBuf, Failure> {
    let state = variable("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
    let state = state.ok_or("neither XDG_STATE_HOME nor HOME names a folder for the session's state")?;
    Ok(state.join("entente/attach"))
}

/// Deletes the files of sessions that have been silent for long; a failure is left to the next time.
pub(super) fn tidy() {
    let files = folder().ok().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    for file in files {
        let age = file.metadata().and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > KEPT) {
            let _left = fs::remove_file(file.path());
        }
    }
}
