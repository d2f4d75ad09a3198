//! Reports of a job's command to the server: in order, in batches, and exactly once across broken
//! connections. Each event carries its own key, so a batch can be sent again after a lost answer without
//! duplicates. The command does not notice that the server is unavailable: reports wait in a queue here, and
//! only a full queue blocks the command.

use std::time::Duration;

use entente_domain::canonical::{hex, sha256};
use entente_domain::clock::{self, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, UnboundedSender};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Claimed;
use super::lines::Failed;
use crate::output::note;
use crate::remote::{Api, Failure, segment};

/// Queued items at which the command is blocked: enough for a server's restart, without using much memory.
pub(super) const QUEUE: usize = 10_000;
/// Most events per request.
const BATCH: usize = 500;
/// Most bytes of bodies per request, below the server's default limit even with one more event of the largest
/// size.
const BATCH_BYTES: usize = 512 * 1024;
/// Time that an event waits for others: too short to be noticeable.
const LINGER: Duration = Duration::from_millis(5);
/// Largest result in bytes that is sent inline; a larger one is streamed (ARCP §8.4).
const INLINE_BYTES: usize = 512 * 1024;
/// Bytes of a chunk before JSON escaping, which may expand a byte to six; the limit is `chunks::CHUNK_BYTES`.
const CHUNK: usize = 96 * 1024;
/// Time limit for a request that the server does not hold.
pub(super) const CALL: Duration = Duration::from_secs(15);
/// Seconds that the server may hold a request for signals: less than [`CALL`].
const SIGNAL_WAIT_SECONDS: u64 = 10;
/// First and longest pause between attempts.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An event to be sent.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) ts: String,
    pub(super) body: Box<RawValue>,
    pub(super) event_key: String,
}

/// End of a job, as its worker reports it.
#[derive(Debug)]
pub(super) enum End {
    /// The job is done.
    Result { result: Box<RawValue>, summary: Option<String> },
    /// The job is done, and the command streamed its result itself.
    Streamed { result_id: String, summary: Option<String> },
    /// The job failed.
    Error(Failed),
    /// Another worker is to do the job.
    Release { reason: &'static str },
}

/// A report or question, in the order of the command's output.
#[derive(Debug)]
pub(super) enum Item {
    Event(Event),
    Checkpoint(Box<RawValue>),
    Authorize(Value),
    /// The command has taken the signals up to this number.
    Acknowledge(i64),
    End(End),
}

/// Outcome of a job at this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The result was delivered.
    Done,
    /// The job failed.
    Failed,
    /// The job was cancelled.
    Cancelled,
    /// The job was given back.
    Released,
    /// The job has ended or belongs to another worker: no further reports.
    Lost,
}

/// Pauses between attempts: each is twice as long as the one before, up to the longest.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(PAUSE)
    }

    pub(super) async fn rest(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

/// Returns whether a failure is transient: no answer, or a server error.
pub(super) fn passes(failure: &Failure) -> bool {
    match failure {
        Failure::Away { .. } | Failure::Late { .. } => true,
        Failure::Refused { status, .. } | Failure::Stranger { status, .. } => {
            *status >= 500 || [408, 425, 429].contains(status)
        }
        Failure::Setup(_) => false,
    }
}

/// Repeats a request until the server accepts or refuses it.
pub(super) async fn insist<T: DeserializeOwned + Default>(
    api: &Api,
    path: &str,
    body: &(impl Serialize + Sync),
) -> Result<T, Failure> {
    let mut pauses = Pauses::new();
    loop {
        match timeout(CALL, api.ask(path, body)).await {
            Ok(Err(failure)) if passes(&failure) => {}
            Ok(answer) => return answer,
            Err(_silence) => {}
        }
        pauses.rest().await;
    }
}

/// Reporter of one job to the server.
pub(super) struct Reporter<'a> {
    pub(super) api: &'a Api,
    pub(super) job: &'a Claimed,
    /// Called when the server requests that the job stops, with the time at which the server ends it.
    pub(super) on_cancel: &'a dyn Fn(Option<Timestamp>),
}

/// The job no longer belongs to this worker.
struct Gone;

/// The signals of a job.
#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Taken {
    signals: Vec<Value>,
    cancel_requested: bool,
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct EventReport {
    cancel_requested: bool,
    cancel_due_at: Option<String>,
}

impl Reporter<'_> {
    /// Sends the queued items, until the job ends or the queue is closed.
    pub(super) async fn tell(&self, mut queue: Receiver<Item>, answers: UnboundedSender<String>) -> Fate {
        let mut next = None;
        loop {
            let item = match next.take() {
                Some(item) => item,
                None => match queue.recv().await {
                    Some(item) => item,
                    None => return Fate::Lost,
                },
            };
            let told = match item {
                Item::Event(first) => {
                    let (batch, other) = gather(first, &mut queue).await;
                    next = other;
                    self.events(&batch).await
                }
                Item::Checkpoint(checkpoint) => self.checkpoint(&checkpoint).await,
                Item::Authorize(question) => self.authorize(question).await.map(|answer| {
                    // A command that has exited needs no answer.
                    let _gone = answers.send(answer.to_string());
                }),
                Item::Acknowledge(seq) => self.acknowledge(seq).await,
                Item::End(end) => return self.end(end).await.unwrap_or(Fate::Lost),
            };
            if told.is_err() {
                return Fate::Lost;
            }
        }
    }

    fn path(&self, verb: &str) -> String {
        format!("/jobs/{}/{verb}", segment(&self.job.job_id))
    }

    async fn post<T: DeserializeOwned + Default>(
        &self,
        verb: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<Result<T, Failure>, Gone> {
        match insist(self.api, &self.path(verb), body).await {
            Err(failure) if lost(&failure) => Err(Gone),
            answer => Ok(answer),
        }
    }

    /// Sends events.
    ///
    /// A refused event discards its whole request: then each event is sent by itself, and the refused one
    /// becomes a log line, because the job lives on (ARCP §9.6).
    async fn events(&self, batch: &[Event]) -> Result<(), Gone> {
        let Err(refusal) = self.batch(batch).await? else { return Ok(()) };
        if let [event] = batch {
            let note = log("error", &format!("the server refused a `{}` event: {refusal}", event.kind));
            let note = Event { kind: "log".to_owned(), body: note, ..event.clone() };
            self.batch(&[note]).await?.unwrap_or_default();
            return Ok(());
        }
        for event in batch {
            Box::pin(self.events(std::slice::from_ref(event))).await?;
        }
        Ok(())
    }

    async fn batch(&self, batch: &[Event]) -> Result<Result<(), Failure>, Gone> {
        self.report(&Reported { claim_token: &self.job.claim_token, events: batch, checkpoint: None }).await
    }

    /// Stores progress; if the server refuses it, the job goes on with the progress stored before.
    async fn checkpoint(&self, checkpoint: &RawValue) -> Result<(), Gone> {
        let claim_token = &self.job.claim_token;
        let body = Reported { claim_token, events: &[], checkpoint: Some(checkpoint) };
        if let Err(refusal) = self.report(&body).await? {
            let note = log("error", &format!("the server refused a checkpoint: {refusal}"));
            let sum = sha256(checkpoint.get().as_bytes());
            let event_key = format!("{}-checkpoint-{}", self.job.result_id, hex(&sum[..8]));
            let note = Event { kind: "log".to_owned(), ts: super::moment(), body: note, event_key };
            self.batch(&[note]).await?.unwrap_or_default();
        }
        Ok(())
    }

    async fn report(&self, body: &Reported<'_>) -> Result<Result<(), Failure>, Gone> {
        Ok(self.post::<EventReport>("events", body).await?.map(|kept| {
            if kept.cancel_requested {
                (self.on_cancel)(kept.cancel_due_at.as_deref().and_then(clock::parse));
            }
        }))
    }

    /// Acknowledges signals; a wrong number is noted, because the job lives on.
    async fn acknowledge(&self, seq: i64) -> Result<(), Gone> {
        let body = json!({ "claim_token": self.job.claim_token, "seq": seq });
        if let Err(refusal) = self.post::<Value>("signals/ack", &body).await? {
            note(&format!("{}: {refusal}", self.job.job_id));
        }
        Ok(())
    }

    /// Passes the job's signals on as lines, each once in this attempt, until the receiver has gone or the job is lost.
    pub(super) async fn signals(&self, lines: UnboundedSender<String>) {
        let mut after = 0;
        loop {
            let body = json!({ "claim_token": self.job.claim_token, "after": after, "wait_sec": SIGNAL_WAIT_SECONDS });
            let Ok(Ok(taken)) = self.post::<Taken>("signals/wait", &body).await else { return };
            let count = taken.signals.len();
            for signal in taken.signals {
                after = signal["seq"].as_i64().unwrap_or(after);
                if lines.send(json!({ "signal": signal }).to_string()).is_err() {
                    return;
                }
            }
            // A job that is to stop has no more signals to wait for, and its answers come at once.
            if taken.cancel_requested && count == 0 {
                return;
            }
        }
    }

    /// Asks for authority (ARCP-W-11.2.6), and returns the server's answer with the call's id.
    async fn authorize(&self, mut question: Value) -> Result<Value, Gone> {
        let call = question["call_id"].clone();
        question["claim_token"] = json!(self.job.claim_token);
        let answer = self.post::<Value>("authorize", &question).await?;
        let mut answer = answer.unwrap_or_else(|failure| match failure {
            Failure::Refused { code, message, .. } => {
                json!({ "decision": "deny", "code": code, "message": message, "retryable": false })
            }
            other => json!({ "decision": "deny", "code": "INTERNAL_ERROR", "message": other.to_string() }),
        });
        if !call.is_null() && answer.is_object() {
            answer["call_id"] = call;
        }
        Ok(answer)
    }

    async fn end(&self, end: End) -> Result<Fate, Gone> {
        let claim_token = &self.job.claim_token;
        let told = match end {
            End::Result { result, summary } if result.get().len() > INLINE_BYTES => {
                return self.stream(&result, summary).await;
            }
            End::Result { result, summary } => {
                let body = Finished { claim_token, result: &result, summary };
                self.post::<Value>("result", &body).await?
            }
            End::Streamed { result_id, summary } => {
                let body = json!({ "claim_token": claim_token, "result_id": result_id, "summary": summary });
                self.post("result", &body).await?
            }
            End::Error(failed) => {
                let cancelled = failed.code.as_deref() == Some("CANCELLED");
                self.failed(failed).await?;
                return Ok(if cancelled { Fate::Cancelled } else { Fate::Failed });
            }
            End::Release { reason } => {
                let body = json!({ "claim_token": claim_token, "reason": reason });
                return Ok(self
                    .post::<Value>("release", &body)
                    .await?
                    .map_or(Fate::Lost, |_| Fate::Released));
            }
        };
        match told {
            Ok(_) => Ok(Fate::Done),
            Err(refusal) => {
                let message = format!("the server refused the result: {refusal}");
                self.failed(Failed { message, ..Failed::default() }).await?;
                Ok(Fate::Failed)
            }
        }
    }

    async fn failed(&self, mut failed: Failed) -> Result<(), Gone> {
        if failed.message.is_empty() {
            "the command failed and did not say why".clone_into(&mut failed.message);
        }
        let claim_token = &self.job.claim_token;
        let Err(refusal) = self.post::<Value>("error", &Failing { claim_token, failed: &failed }).await?
        else {
            return Ok(());
        };
        let code = failed.code.as_deref().unwrap_or("an error");
        let message = format!("the command failed with {code}, which the server did not take: {refusal}");
        let failed = Failed { message, ..Failed::default() };
        self.post::<Value>("error", &Failing { claim_token, failed: &failed })
            .await?
            .map_or(Err(Gone), |_| Ok(()))
    }

    /// Streams a result that is too large for one message: a string as its text, any other value as its JSON.
    async fn stream(&self, result: &RawValue, summary: Option<String>) -> Result<Fate, Gone> {
        let text =
            serde_json::from_str::<String>(result.get()).unwrap_or_else(|_other| result.get().to_owned());
        let parts = super::lines::pieces(&text, CHUNK);
        let last = parts.len().saturating_sub(1);
        for (index, part) in parts.iter().enumerate() {
            let body = json!({
                "result_id": self.job.result_id, "chunk_seq": index, "data": part, "encoding": "utf8",
                "more": index < last,
            });
            let event = Event {
                kind: "result_chunk".to_owned(),
                ts: super::moment(),
                body: raw(&body),
                event_key: format!("{}-result-{index}", self.job.result_id),
            };
            if let Err(refusal) = self.batch(&[event]).await? {
                let message = format!("the server refused a part of the result: {refusal}");
                self.failed(Failed { message, ..Failed::default() }).await?;
                return Ok(Fate::Failed);
            }
        }
        let result_id = self.job.result_id.clone();
        Box::pin(self.end(End::Streamed { result_id, summary })).await
    }
}

#[derive(Serialize)]
struct Reported<'a> {
    claim_token: &'a str,
    events: &'a [Event],
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Failing<'a> {
    claim_token: &'a str,
    #[serde(flatten)]
    failed: &'a Failed,
}

#[derive(Serialize)]
struct Finished<'a> {
    claim_token: &'a str,
    result: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
}

/// Returns whether a refusal means that the job no longer belongs to this worker.
fn lost(failure: &Failure) -> bool {
    matches!(
        failure.code(),
        Some("CLAIM_LOST" | "JOB_ENDED" | "JOB_NOT_FOUND" | "NOT_FOUND" | "UNAUTHENTICATED")
    )
}

/// Collects events that arrive within [`LINGER`], up to the limits of a request; also returns the other item
/// that ended the batch.
async fn gather(first: Event, queue: &mut Receiver<Item>) -> (Vec<Event>, Option<Item>) {
    let until = Instant::now() + LINGER;
    let mut bytes = first.body.get().len();
    let mut batch = vec![first];
    while batch.len() < BATCH && bytes < BATCH_BYTES {
        match timeout_at(until, queue.recv()).await {
            Ok(Some(Item::Event(event))) => {
                bytes += event.body.get().len();
                batch.push(event);
            }
            Ok(other) => return (batch, other),
            Err(_late) => break,
        }
    }
    (batch, None)
}

/// Serialises a value to JSON text.
pub(super) fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_never| RawValue::NULL.to_owned())
}

/// Builds the body of a log event.
pub(super) fn log(level: &str, message: &str) -> Box<RawValue> {
    raw(&json!({ "level": level, "message": message }))
}
