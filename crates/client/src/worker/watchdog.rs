//! Watchdog of a worker's commands: a second process of the same program, which ends the commands of a worker that was
//! killed.
//!
//! The worker names the process group of each command in a pipe. The operating system closes the pipe however the worker
//! ends, also by SIGKILL; then the watchdog ends the groups that are still named in it. A command starts only after its
//! group was named (`child.rs`), so there is no moment in which it could be missed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use entente_runtime::lines::{Line, Lines};
use entente_runtime::signals::Signals;
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{BufReader, stdin};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

use crate::Done;
use crate::output::note;

/// Maximum size of a line in the pipe: a sign and a process id.
const LINE_BYTES: usize = 64;
/// Interval of looking whether the commands have ended.
const LOOK: Duration = Duration::from_millis(50);

/// The worker's end of the pipe.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// Time between SIGTERM and SIGKILL.
    grace: Duration,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    process: Child,
    /// Groups of running commands.
    groups: BTreeSet<i32>,
}

impl Watchdog {
    /// Starts the watchdog.
    ///
    /// # Errors
    /// The program cannot be started once more.
    pub(super) fn start(grace: Duration) -> std::io::Result<Self> {
        let process = spawn(grace)?;
        Ok(Self { grace, state: RefCell::new(State { process, groups: BTreeSet::new() }) })
    }

    /// Names a command's group to the watchdog until the returned value is dropped; a watchdog that was killed, or that
    /// reads no more, is replaced.
    ///
    /// # Errors
    /// There is no watchdog, and none can be started.
    pub(super) fn watch(&self, group: Pid) -> std::io::Result<Watched<'_>> {
        let state = &mut *self.state.borrow_mut();
        let group = group.as_raw_pid();
        state.groups.insert(group);
        if state.tell('+', group).is_err() {
            let told = state.replace(self.grace);
            if told.is_err() {
                state.groups.remove(&group);
            }
            told?;
        }
        Ok(Watched { watchdog: self, group })
    }
}

impl State {
    fn tell(&mut self, sign: char, group: i32) -> std::io::Result<()> {
        let pipe = self.process.stdin.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
        // Short enough for a pipe to take it at once, so it is written whole or not at all.
        pipe.write_all(format!("{sign}{group}\n").as_bytes())
    }

    /// Starts another watchdog in place of one that was killed, or that reads no more.
    fn replace(&mut self, grace: Duration) -> std::io::Result<()> {
        // One that only stands still must not find the end of its input later, and end commands that go on.
        let _gone = self.process.kill();
        let next = spawn(grace)?;
        let _ended = std::mem::replace(&mut self.process, next).try_wait();
        self.groups.clone().into_iter().try_for_each(|group| self.tell('+', group))
    }
}

/// A command's group, which the watchdog knows.
#[derive(Debug)]
pub(super) struct Watched<'a> {
    watchdog: &'a Watchdog,
    group: i32,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let state = &mut *self.watchdog.state.borrow_mut();
        state.groups.remove(&self.group);
        if state.tell('-', self.group).is_err() {
            // Otherwise the other commands would have none, or one that still knows a number that is free for others.
            let _none = state.replace(self.watchdog.grace);
        }
    }
}

/// Starts the process, outside of the terminal's process group, so that Ctrl-C does not reach it.
fn spawn(grace: Duration) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["worker", "watchdog", "--grace-seconds", &grace.as_secs().to_string()]).process_group(0);
    command.env_remove("ENTENTE_API_KEY").stdout(Stdio::null());
    piped(&mut command)
}

/// Starts a process with a pipe that never blocks this one: a watchdog that stands still must not stop the worker.
fn piped(command: &mut Command) -> std::io::Result<Child> {
    let process = command.stdin(Stdio::piped()).spawn()?;
    if let Some(pipe) = &process.stdin {
        ioctl_fionbio(pipe, true)?;
    }
    Ok(process)
}

/// Runs the watchdog until its input ends, and then ends the commands that are left.
pub(super) async fn run(grace: Duration) -> Done {
    // A signal to all processes of a service must not end the watchdog before the worker.
    let _ignored = (Signals::listen()?, signal(SignalKind::hangup())?);
    let mut lines = Lines::new(BufReader::new(stdin()), LINE_BYTES);
    let mut groups: BTreeSet<i32> = BTreeSet::new();
    loop {
        let text = match lines.next().await {
            Line::Text(text) => text,
            Line::TooLong | Line::NotText => continue,
            Line::End => break,
        };
        let Some((sign, Ok(group))) = text.split_at_checked(1).map(|(sign, id)| (sign, id.parse())) else {
            continue;
        };
        if sign == "+" {
            groups.insert(group);
        } else {
            groups.remove(&group);
        }
    }
    let left: Vec<Pid> = groups.into_iter().filter_map(Pid::from_raw).collect();
    if !left.is_empty() {
        // The reader of the worker's messages may be gone as well.
        note(&format!("the worker is gone: ending its {} running command(s)", left.len()));
        end(&left, grace).await;
    }
    Ok(())
}

/// Ends process groups: SIGTERM, and SIGKILL for those that go on.
async fn end(groups: &[Pid], grace: Duration) {
    let all = |signal| {
        for group in groups {
            let _gone = kill_process_group(*group, signal);
        }
    };
    all(Signal::TERM);
    let until = Instant::now() + grace;
    while groups.iter().any(|group| test_kill_process_group(*group).is_ok()) && Instant::now() < until {
        sleep(LOOK).await;
    }
    all(Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_that_reads_nothing_does_not_block_the_worker() {
        let process = piped(Command::new("sleep").arg("60")).unwrap();
        let mut state = State { process, groups: BTreeSet::new() };
        // A pipe holds some thousands of lines; the next one is refused instead of waited for.
        let refused = (0..1_000_000).find_map(|_| state.tell('+', 12_345).err());
        assert_eq!(refused.map(|e| e.kind()), Some(std::io::ErrorKind::WouldBlock));
        state.process.kill().unwrap();
        state.process.wait().unwrap();
    }
}
