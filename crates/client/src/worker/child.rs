//! Runs one job's command: in its own process group, fed with the input, read line by line, and stopped when
//! the job is. `listener.rs` interprets its output, `reports.rs` sends that to the server, and `watchdog.rs` stops
//! it if the worker is killed; `host.rs` manages the jobs.

use std::cell::Cell;
use std::convert::Infallible;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use entente_domain::canonical::{hex, sha256};
use entente_domain::clock::Clock as _;
use entente_runtime::environment::SystemClock;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::lines::Failed;
use super::listener::{Listener, Seen};
use super::reports::{End, Fate, Item, QUEUE, Reporter};
use super::watchdog::{Watchdog, Watched};
use super::{Claimed, Stop};
use crate::output::note;
use crate::remote::Api;

/// Starts the command after a line on its standard input: by then the watchdog knows its process group. Without the line,
/// because the worker was killed in between, there is nothing to end. The command keeps the process and the rest of the
/// input.
const GATE: &str = r#"IFS= read -r go && exec sh -c "$1""#;

/// Silence of a running command after which the worker's operator gets a hint.
const SILENCE: Duration = Duration::from_secs(8);

/// Time for the report of a command that was killed, before the server ends its job.
const REPORT: Duration = Duration::from_secs(2);

/// Most time that a cancellation gives (`grace_sec`), whatever the clocks say.
const LONGEST_GRACE: Duration = Duration::from_hours(1);

/// Settings for running commands.
#[derive(Debug)]
pub(super) struct CommandSettings {
    /// The command, for `sh -c`.
    pub(super) exec: String,
    /// Whether standard input closes after the input, for commands that read it to the end.
    pub(super) filter: bool,
    /// Whether the command takes signals as lines of its standard input.
    pub(super) signals: bool,
    /// Time between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    /// Whether the command of a cancelled job has until shortly before the server ends the job, if that is longer.
    pub(super) keeps_cancel_grace: bool,
    /// The process that ends the commands if the worker is killed.
    pub(super) watchdog: Watchdog,
    /// Whether the hint about a silent command was given: once is enough.
    pub(super) hinted: Cell<bool>,
}

/// Runs a job's command to its end, and reports to the server.
pub(super) async fn run(
    api: &Api,
    settings: &CommandSettings,
    job: &Claimed,
    stop: &watch::Sender<Option<Stop>>,
) -> Fate {
    let (items, queue) = channel(QUEUE);
    let (answers, asked) = unbounded_channel();
    let on_cancel = |due| super::stop(stop, Stop::Cancelled { due });
    let reporter = Reporter { api, job, on_cancel: &on_cancel };
    let told = CancellationToken::new();
    let started = spawn(settings, job)
        .and_then(|child| Running::new(child, job, settings, told.clone(), stop.subscribe()));
    // Dropped after the guard below, which ends the command's remaining processes.
    let mut running = match started {
        Ok(running) => running,
        Err(e) => {
            let message = format!("the command could not be started: {e}");
            let end = End::Error(Failed::with("INTERNAL_ERROR", message));
            // The queue is empty, so there is room.
            let _sent = items.send(Item::End(end)).await;
            return reporter.tell(queue, answers).await;
        }
    };
    let mut stopped = stop.subscribe();
    let lost = async {
        // The sender outlives this, so the wait ends only with a stop request.
        let _lost = stopped.wait_for(|stop| *stop == Some(Stop::Lost)).await;
    };
    let _guard = Guard { group: running.group, exited: running.exited.clone() };
    let all = async {
        let tells = async {
            // Both senders go with the end of the job: then nothing more is written to the command.
            let lines = answers;
            let fate = tokio::select! {
                fate = reporter.tell(queue, lines.clone()) => fate,
                never = pass_signals(&reporter, settings.signals, lines.clone()) => match never {},
            };
            drop(lines);
            if fate == Fate::Lost {
                super::stop(stop, Stop::Lost);
            }
            told.cancel();
            fate
        };
        tokio::join!(running.live(items, asked), tells).1
    };
    tokio::select! {
        fate = all => fate,
        () = lost => Fate::Lost,
    }
}

/// Passes signals on to a command that takes them.
async fn pass_signals(
    reporter: &Reporter<'_>,
    takes_signals: bool,
    lines: UnboundedSender<String>,
) -> Infallible {
    if takes_signals {
        reporter.signals(lines).await;
    }
    std::future::pending().await
}

/// Kills the remaining processes of a command when dropped.
struct Guard {
    group: Option<Pid>,
    exited: CancellationToken,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // After the command's exit its process id may be reused.
        if !self.exited.is_cancelled() {
            signal(self.group, Signal::KILL);
        }
    }
}

/// Starts the command outside of the terminal's process group, so that Ctrl-C does not reach it, and with the
/// job's data in its environment.
fn spawn(settings: &CommandSettings, job: &Claimed) -> std::io::Result<Child> {
    let text = |raw: &Option<Box<RawValue>>| raw.as_ref().map_or("null", |raw| raw.get()).to_owned();
    let mut command = Command::new("sh");
    command.args(["-c", GATE, "sh", &settings.exec]).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The worker's API key must not reach the command: it could claim and end jobs.
    command.env_remove("ENTENTE_API_KEY");
    command
        .env("ENTENTE_JOB_ID", &job.job_id)
        .env("ENTENTE_AGENT", &job.agent)
        .env("ENTENTE_ATTEMPT", job.attempt.to_string())
        .env("ENTENTE_RESULT_ID", &job.result_id)
        .env("ENTENTE_TRACE_ID", &job.trace_id)
        .env("TRACEPARENT", traceparent(job))
        .env("ENTENTE_CHECKPOINT", text(&job.checkpoint))
        .env("ENTENTE_LEASE", text(&job.lease))
        .env("ENTENTE_LEASE_CONSTRAINTS", text(&job.lease_constraints))
        .env("ENTENTE_BUDGET", text(&job.budget))
        .env("ENTENTE_CREDENTIALS", text(&job.credentials))
        .env("ENTENTE_DEADLINE", job.deadline.as_deref().unwrap_or_default());
    command.spawn()
}

/// Returns a trace context with a span for this attempt (ARCP §11).
fn traceparent(job: &Claimed) -> String {
    let span = sha256(format!("{} {}", job.job_id, job.attempt).as_bytes());
    format!("00-{}-{}-01", job.trace_id, hex(&span[..8]))
}

/// Signals a command and all of its descendants. Succeeds if they no longer exist.
fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _gone = kill_process_group(group, signal);
    }
}

/// A running command.
struct Running<'a> {
    child: Child,
    group: Option<Pid>,
    /// The group, as long as the watchdog knows it.
    watched: Option<Watched<'a>>,
    job: &'a Claimed,
    settings: &'a CommandSettings,
    seen: Seen,
    /// Cancelled when the server knows the outcome of the job.
    told: CancellationToken,
    /// Cancelled when the command itself has exited.
    exited: CancellationToken,
    stop: watch::Receiver<Option<Stop>>,
}

impl<'a> Running<'a> {
    fn new(
        child: Child,
        job: &'a Claimed,
        settings: &'a CommandSettings,
        told: CancellationToken,
        stop: watch::Receiver<Option<Stop>>,
    ) -> std::io::Result<Self> {
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let watched = group.map(|group| settings.watchdog.watch(group)).transpose()?;
        let exited = CancellationToken::new();
        Ok(Self { child, group, watched, job, settings, seen: Seen::default(), told, exited, stop })
    }

    /// Feeds the command, reads its output, waits for it, and reports its end.
    async fn live(&mut self, items: Sender<Item>, answers: UnboundedReceiver<String>) {
        let (stdin, stdout, stderr) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let listener = Listener {
            job: self.job,
            seen: &self.seen,
            exited: &self.exited,
            items: &items,
            takes_signals: self.settings.signals,
        };
        let feeds = feed(stdin, self.job, self.settings.filter, answers, &self.exited);
        let waits =
            wait(&mut self.child, self.group, self.settings, &self.told, &mut self.stop, &self.exited);
        let hints = hint(self.job, self.settings, &self.seen, &self.exited);
        let (status, (), out, err, ()) =
            tokio::join!(waits, feeds, listener.output(stdout), listener.complaints(stderr), hints);
        if out || err {
            signal(self.group, Signal::KILL);
        }
        // The report may take long, and the process id may be another's by then.
        self.watched = None;
        if !self.seen.ended.get() {
            // The server may have ended the job meanwhile; then the receiver is closed.
            let _sent = items.send(Item::End(self.end(status.ok()))).await;
        }
    }

    /// Returns the end of a job whose command did not report one.
    fn end(&self, status: Option<ExitStatus>) -> End {
        let seen = &self.seen;
        match *self.stop.borrow() {
            Some(Stop::Cancelled { .. }) => {
                let message = "the job was called off, and its command has stopped".to_owned();
                return End::Error(Failed::with("CANCELLED", message));
            }
            // A command that has said its result before it exits has done the work.
            Some(Stop::Drained) if status.is_some_and(|status| status.success()) && seen.has_result() => {}
            Some(Stop::Drained | Stop::Lost) => return End::Release { reason: "the worker stops" },
            None => {}
        }
        if status.is_some_and(|status| status.success()) {
            if let Some(result_id) = seen.streamed.take() {
                return End::Streamed { result_id, summary: None };
            }
            let result = seen.value.take().unwrap_or_else(|| RawValue::NULL.to_owned());
            return End::Result { result, summary: None };
        }
        let how = status.map_or_else(|| "in a way that is not known".to_owned(), |status| status.to_string());
        let complaint = seen.complaint.take();
        let message = match complaint.trim() {
            "" => format!("the command ended with {how}"),
            said => format!("the command ended with {how}: {said}"),
        };
        let details = status.map(|status| json!({ "exit_code": status.code() }));
        End::Error(Failed { details, ..Failed::with("INTERNAL_ERROR", message) })
    }
}

/// Time in which the command of a cancelled job may stop by itself: until shortly before the server ends the job.
fn time_left(stop: Stop) -> Option<Duration> {
    let Stop::Cancelled { due: Some(due) } = stop else { return None };
    let left = (due - SystemClock.now()).to_std().unwrap_or_default();
    Some(left.saturating_sub(REPORT).min(LONGEST_GRACE))
}

/// Waits for the command's exit.
///
/// Sends SIGTERM and later SIGKILL when the job is to stop, or when the command keeps running after its job
/// has ended.
async fn wait(
    child: &mut Child,
    group: Option<Pid>,
    settings: &CommandSettings,
    told: &CancellationToken,
    stop: &mut watch::Receiver<Option<Stop>>,
    exited: &CancellationToken,
) -> std::io::Result<ExitStatus> {
    let grace = settings.grace;
    let asks = async {
        tokio::select! {
            // After reporting its end, the command has some time to exit by itself.
            () = async { told.cancelled().await; sleep(grace).await } => {}
            _ = stop.wait_for(Option::is_some) => {}
        }
        signal(group, Signal::TERM);
        let least = Instant::now() + grace;
        loop {
            let why = (*stop.borrow_and_update()).filter(|_| settings.keeps_cancel_grace);
            let end = why.and_then(time_left).map_or(least, |left| least.max(Instant::now() + left));
            tokio::select! {
                () = sleep_until(end) => break,
                // There may be less time by now.
                Ok(()) = stop.changed() => {}
            }
        }
        signal(group, Signal::KILL);
        std::future::pending::<Infallible>().await
    };
    let status = tokio::select! {
        status = child.wait() => status,
        never = asks => match never {},
    };
    exited.cancel();
    status
}

/// Tells the worker's operator once about a command that runs and writes nothing: it may wait for the end of an input that
/// stays open.
async fn hint(job: &Claimed, settings: &CommandSettings, seen: &Seen, exited: &CancellationToken) {
    if settings.filter || settings.hinted.get() {
        return;
    }
    let began = Instant::now();
    let silent = async {
        loop {
            let left = SILENCE.saturating_sub(seen.wrote_at.get().unwrap_or(began).elapsed());
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    };
    tokio::select! {
        () = silent => {}
        () = exited.cancelled() => return,
    }
    if !seen.ended.get() && !settings.hinted.replace(true) {
        note(&format!(
            "{}: the command still runs and has written nothing for {} s. It got the job as one line on its standard input, which \
             stays open for answers. A command that reads its input to the end (cat, jq, an interpreter) waits for ever: start \
             the worker with --filter for it. Any other command is done when it writes its result as a line of JSON and exits. \
             This is said once.",
            job.job_id,
            SILENCE.as_secs()
        ));
    }
}

/// Writes the input, and then the answers to the command's questions.
async fn feed(
    stdin: Option<ChildStdin>,
    job: &Claimed,
    filter: bool,
    mut answers: UnboundedReceiver<String>,
    exited: &CancellationToken,
) {
    let Some(mut stdin) = stdin else { return };
    let input = job.input.as_ref().map_or("null", |input| input.get());
    let writes = async {
        // The line that starts the command.
        stdin.write_all(b"\n").await?;
        stdin.write_all(input.as_bytes()).await?;
        stdin.write_all(b"\n").await?;
        stdin.flush().await?;
        if filter {
            return Ok(());
        }
        while let Some(answer) = answers.recv().await {
            stdin.write_all(answer.as_bytes()).await?;
            stdin.write_all(b"\n").await?;
            stdin.flush().await?;
        }
        std::io::Result::Ok(())
    };
    tokio::select! {
        // A command need not read its input.
        _unread = writes => {}
        () = exited.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::GATE;

    /// Runs a command behind the gate with this input; returns its output and its exit status.
    fn run(command: &str, input: &str) -> (String, Option<i32>) {
        let mut shell = Command::new("sh");
        shell.args(["-c", GATE, "sh", command]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    }

    #[test]
    fn a_command_starts_once_it_is_told_and_keeps_the_rest_of_its_input() {
        let odd = "printf '%s|' \"$0\" \"it's\"; cat; exit 7";
        assert_eq!(run(odd, "\n{\"a\": 1}\nmore"), ("sh|it's|{\"a\": 1}\nmore".to_owned(), Some(7)));
        let (said, status) = run("echo it runs", "");
        assert!(said.is_empty() && status != Some(0), "without its worker it does not start");
    }
}
