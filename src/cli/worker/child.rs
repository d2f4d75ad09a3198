//! One job's command: a process group of its own, fed with the input, listened to line by line, and stopped when the job
//! is. What its lines mean is `lines.rs`, how they get to the server `reports.rs`, which jobs there are `host.rs`.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use entente_core::canonical::{hex, sha256};
use entente_core::chunks::CHUNK_BYTES;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{Sender, UnboundedReceiver, channel, unbounded_channel};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::lines::{self, Failed, Said};
use super::reports::{End, Event, Fate, Item, QUEUE, Reporter, log};
use super::{Claimed, Stop, moment};
use crate::cli::remote::Api;

/// Bytes of one line of a command's output: a result larger than this is streamed by the command itself.
const LINE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of one line of the log; a longer one becomes several.
const LOG_BYTES: usize = 64 * 1024;
/// Bytes of an event's body that are worth sending: a server takes no larger one.
const BODY_BYTES: usize = CHUNK_BYTES + 1024;
/// How long output may still come after the command has ended, from processes that it left behind.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// How commands are run.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    /// What `sh -c` is given.
    pub(super) exec: String,
    /// Whether standard input ends after the input, for commands that read all of it.
    pub(super) filter: bool,
    /// How long a command that was told to stop may take.
    pub(super) grace: Duration,
}

/// Runs a job's command to its end, and tells the server of it.
pub(super) async fn run(
    api: &Api,
    manner: &Manner,
    job: &Claimed,
    stop: &watch::Sender<Option<Stop>>,
) -> Fate {
    let (items, queue) = channel(QUEUE);
    let (answers, asked) = unbounded_channel();
    let on_cancel = || super::stop(stop, Stop::Cancelled);
    let reporter = Reporter { api, job, on_cancel: &on_cancel };
    let told = CancellationToken::new();
    let mut running = match spawn(manner, job) {
        Ok(child) => Running::new(child, job, manner, told.clone(), stop.subscribe()),
        Err(e) => {
            let message = format!("the command could not be started: {e}");
            let end = End::Error(Failed::with("INTERNAL_ERROR", message));
            // The queue is empty: there is room.
            let _sent = items.send(Item::End(end)).await;
            return reporter.tell(queue, answers).await;
        }
    };
    let mut stopped = stop.subscribe();
    let lost = async {
        // The sender outlives this, so that the wait ends with the word only.
        let _lost = stopped.wait_for(|stop| *stop == Some(Stop::Lost)).await;
    };
    let _guard = Guard { group: running.group, exited: running.exited.clone() };
    let all = async {
        let tells = async {
            let fate = reporter.tell(queue, answers).await;
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

/// Leaves nothing of a command behind, however its job ends here.
struct Guard {
    group: Option<Pid>,
    exited: CancellationToken,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Once it has ended, its number may be somebody else's.
        if !self.exited.is_cancelled() {
            signal(self.group, Signal::KILL);
        }
    }
}

/// Starts the command, away from the terminal's Ctrl-C, with what it has to know in its environment.
fn spawn(manner: &Manner, job: &Claimed) -> std::io::Result<Child> {
    let text = |raw: &Option<Box<RawValue>>| raw.as_ref().map_or("null", |raw| raw.get()).to_owned();
    let mut command = Command::new("sh");
    command.arg("-c").arg(&manner.exec).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The worker's own key is the worker's own: it could claim and end jobs.
    command.env_remove("ENTENTE_API_KEY");
    command
        .env("ENTENTE_JOB_ID", &job.job_id)
        .env("ENTENTE_AGENT", &job.agent)
        .env("ENTENTE_ATTEMPT", job.attempt.to_string())
        .env("ENTENTE_RESULT_ID", &job.result_id)
        .env("ENTENTE_TRACE_ID", &job.trace_id)
        .env("TRACEPARENT", traceparent(job))
        .env("ENTENTE_LEASE", text(&job.lease))
        .env("ENTENTE_LEASE_CONSTRAINTS", text(&job.lease_constraints))
        .env("ENTENTE_BUDGET", text(&job.budget))
        .env("ENTENTE_CREDENTIALS", text(&job.credentials))
        .env("ENTENTE_DEADLINE", job.deadline.as_deref().unwrap_or_default());
    command.spawn()
}

/// The trace with a span of this attempt's (ARCP §11).
fn traceparent(job: &Claimed) -> String {
    let span = sha256(format!("{} {}", job.job_id, job.attempt).as_bytes());
    format!("00-{}-{}-01", job.trace_id, hex(&span[..8]))
}

/// A signal to a command and all that it started. That they are gone is as well.
fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _gone = kill_process_group(group, signal);
    }
}

/// What the command has said that counts at its end.
#[derive(Default)]
struct Seen {
    /// Its last JSON that is nothing else.
    value: RefCell<Option<Box<RawValue>>>,
    /// The result that it streams itself.
    streamed: RefCell<Option<String>>,
    /// The last line of its complaints.
    complaint: RefCell<String>,
    /// Events so far, for their keys.
    events: Cell<u64>,
    /// Whether it has said how the job ends.
    ended: Cell<bool>,
}

/// A command that runs.
struct Running<'a> {
    child: Child,
    group: Option<Pid>,
    job: &'a Claimed,
    manner: &'a Manner,
    seen: Seen,
    /// The server knows how the job ended.
    told: CancellationToken,
    /// The command itself has ended.
    exited: CancellationToken,
    stop: watch::Receiver<Option<Stop>>,
}

impl<'a> Running<'a> {
    fn new(
        child: Child,
        job: &'a Claimed,
        manner: &'a Manner,
        told: CancellationToken,
        stop: watch::Receiver<Option<Stop>>,
    ) -> Self {
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let exited = CancellationToken::new();
        Self { child, group, job, manner, seen: Seen::default(), told, exited, stop }
    }

    /// Feeds it, listens to it, waits for it, and says how it ended.
    async fn live(&mut self, items: Sender<Item>, answers: UnboundedReceiver<String>) {
        let (stdin, stdout, stderr) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let listener = Listener { job: self.job, seen: &self.seen, exited: &self.exited, items: &items };
        let feeds = feed(stdin, self.job, self.manner.filter, answers, &self.exited);
        let waits =
            wait(&mut self.child, self.group, self.manner.grace, &self.told, &mut self.stop, &self.exited);
        let (status, (), out, err) =
            tokio::join!(waits, feeds, listener.output(stdout), listener.complaints(stderr));
        if out || err {
            signal(self.group, Signal::KILL);
        }
        if !self.seen.ended.get() {
            // The server may have ended the job meanwhile; then nobody listens.
            let _sent = items.send(Item::End(self.end(status.ok()))).await;
        }
    }

    /// How a job ends whose command did not say it.
    fn end(&self, status: Option<ExitStatus>) -> End {
        let seen = &self.seen;
        match *self.stop.borrow() {
            Some(Stop::Cancelled) => {
                let message = "the job was called off, and its command has stopped".to_owned();
                return End::Error(Failed::with("CANCELLED", message));
            }
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

/// Waits for the command's end. It is asked to end, and then made to, when the job is to stop, or is over and it goes on.
async fn wait(
    child: &mut Child,
    group: Option<Pid>,
    grace: Duration,
    told: &CancellationToken,
    stop: &mut watch::Receiver<Option<Stop>>,
    exited: &CancellationToken,
) -> std::io::Result<ExitStatus> {
    let asks = async {
        tokio::select! {
            // Whoever has said how the job ends may take its time to end itself.
            () = async { told.cancelled().await; sleep(grace).await } => {}
            _ = stop.wait_for(Option::is_some) => {}
        }
        signal(group, Signal::TERM);
        sleep(grace).await;
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

/// Writes the input, and then the answers to what the command asks.
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
        // A command that does not read its input is free not to.
        _unread = writes => {}
        () = exited.cancelled() => {}
    }
}

/// Reads what the command says.
struct Listener<'a> {
    job: &'a Claimed,
    seen: &'a Seen,
    exited: &'a CancellationToken,
    items: &'a Sender<Item>,
}

impl Listener<'_> {
    /// Reads standard output to its end; whether it was cut off, because somebody who was left behind keeps it open.
    async fn output(&self, stdout: Option<impl AsyncRead + Unpin>) -> bool {
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

    /// Reads standard error to its end: each line is an error in the log.
    async fn complaints(&self, stderr: Option<impl AsyncRead + Unpin>) -> bool {
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

    /// The next line; `None` at the end, `Some(None)` when it is not waited for any longer.
    async fn next<R: AsyncRead + Unpin>(&self, pieces: &mut Pieces<R>) -> Option<Option<String>> {
        tokio::select! {
            biased;
            piece = pieces.next() => piece.map(Some),
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
        match lines::read(line) {
            Said::Event { kind, .. } if line.len() > BODY_BYTES => {
                self.note(
                    "error",
                    &format!("a `{kind}` event with more than {BODY_BYTES} bytes was not sent"),
                )
                .await;
            }
            Said::Event { kind, ts, body } => {
                if kind == "result_chunk" {
                    *self.seen.streamed.borrow_mut() = result_id(&body);
                }
                self.event(kind, ts, body).await;
            }
            Said::Result { result, summary } => {
                let end = match self.seen.streamed.take() {
                    Some(result_id) => End::Streamed { result_id, summary },
                    None => End::Result { result, summary },
                };
                self.end(end).await;
            }
            Said::Error(failed) => self.end(End::Error(failed)).await,
            Said::Authorize(question) => self.send(Item::Authorize(question)).await,
            Said::Value(value) => {
                // Only the last one is the result: those before it are not lost.
                let before = self.seen.value.replace(Some(value));
                if let Some(before) = before {
                    self.note("info", before.get()).await;
                }
            }
            Said::Text => self.note("info", line).await,
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
        let event_key = format!("{}-{number}", self.job.attempt);
        self.send(Item::Event(Event { kind, ts: ts.unwrap_or_else(moment), body, event_key })).await;
    }

    async fn end(&self, end: End) {
        self.seen.ended.set(true);
        self.send(Item::End(end)).await;
    }

    async fn send(&self, item: Item) {
        // When the job is over nobody listens, and the rest of the output is nobody's.
        let _unheard = self.items.send(item).await;
    }
}

/// Which result a chunk is of.
fn result_id(body: &RawValue) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body.get()).ok()?;
    Some(body["result_id"].as_str()?.to_owned())
}

/// Lines, or parts of them where one is longer than `most` bytes.
struct Pieces<R> {
    from: BufReader<R>,
    most: usize,
    piece: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Pieces<R> {
    fn new(from: R, most: usize) -> Self {
        Self { from: BufReader::new(from), most, piece: Vec::new() }
    }

    /// The next one; `None` at the end. What was read of it is kept when this is dropped half-way.
    async fn next(&mut self) -> Option<String> {
        loop {
            // A pipe that cannot be read is at its end.
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
