//! What a job's command says, on its way to the server: in order, in batches, and once, whatever becomes of the connection.
//! An event carries a key of its own, so that a batch whose answer got lost is sent again and kept once. The server being
//! away is not the command's affair: what it says waits here, and behind a full queue the command itself does.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, UnboundedSender};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Claimed;
use super::lines::Failed;
use crate::remote::{Api, Failure, segment};

/// Items that wait for the server before the command is made to wait: enough for a server's restart, and not much memory.
pub(super) const QUEUE: usize = 10_000;
/// Events of one request.
const BATCH: usize = 500;
/// Bytes of one request's bodies, below what a server takes by default even with one more event of the largest size.
const BATCH_BYTES: usize = 512 * 1024;
/// How long an event waits for others: less than anybody notices.
const LINGER: Duration = Duration::from_millis(5);
/// Bytes of a result that stands in the message itself; a larger one is streamed (ARCP §8.4).
const INLINE_BYTES: usize = 512 * 1024;
/// Bytes of a chunk before it is written as JSON, which makes up to six of one; the most is `chunks::CHUNK_BYTES`.
const CHUNK: usize = 96 * 1024;
/// How long an answer may take that nothing is waited for.
pub(super) const CALL: Duration = Duration::from_secs(15);
/// The first pause before something is tried again, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An event on its way.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) ts: String,
    pub(super) body: Box<RawValue>,
    pub(super) event_key: String,
}

/// How a job ends, as far as its worker is concerned.
#[derive(Debug)]
pub(super) enum End {
    /// It is done.
    Result { result: Box<RawValue>, summary: Option<String> },
    /// It streamed its result itself.
    Streamed { result_id: String, summary: Option<String> },
    /// It failed.
    Error(Failed),
    /// Somebody else is to do it.
    Release { reason: &'static str },
}

/// Something to be told or asked, in the order in which the command said it.
#[derive(Debug)]
pub(super) enum Item {
    Event(Event),
    Authorize(Value),
    End(End),
}

/// What became of a job here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was handed in.
    Done,
    /// It failed.
    Failed,
    /// It was called off.
    Cancelled,
    /// It was given back.
    Released,
    /// It is somebody else's, or over: nothing more is said of it.
    Lost,
}

/// The pauses between attempts: each twice as long, up to the longest.
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

/// Whether a failure may pass: nobody answered, or who answered is in trouble.
pub(super) fn passes(failure: &Failure) -> bool {
    match failure {
        Failure::Away { .. } => true,
        Failure::Refused { status, .. } | Failure::Stranger { status, .. } => {
            *status >= 500 || [408, 425, 429].contains(status)
        }
        Failure::Setup(_) => false,
    }
}

/// Asks until there is an answer, yes or no.
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

/// Speaks to the server of one job.
pub(super) struct Reporter<'a> {
    pub(super) api: &'a Api,
    pub(super) job: &'a Claimed,
    /// Called when the server says that the job is to stop.
    pub(super) on_cancel: &'a dyn Fn(),
}

/// The job is no longer this worker's.
struct Gone;

#[derive(serde::Deserialize, Default)]
struct Kept {
    #[serde(default)]
    cancel_requested: bool,
}

impl Reporter<'_> {
    /// Tells what comes, until the job has ended or the queue has.
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
                Item::Authorize(question) => self.authorize(question).await.map(|answer| {
                    // A command that is gone needs no answer.
                    let _gone = answers.send(answer.to_string());
                }),
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

    /// Tells of events. When one of them is refused nothing of the request was kept: then each is sent by itself, and the
    /// one at fault becomes a line of the log, because the job lives on (ARCP §9.6).
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
        let body = Reported { claim_token: &self.job.claim_token, events: batch };
        Ok(self.post::<Kept>("events", &body).await?.map(|kept| {
            if kept.cancel_requested {
                (self.on_cancel)();
            }
        }))
    }

    /// Asks for authority (contract 11.2). The answer is the server's, with the call that it is about.
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

    /// Streams a result that is too large for one message: a text as it is, anything else as its JSON.
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
                event_key: format!("{}-result-{index}", self.job.attempt),
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

/// Whether an answer says that the job is not this worker's any more.
fn lost(failure: &Failure) -> bool {
    matches!(
        failure.code(),
        Some("CLAIM_LOST" | "JOB_ENDED" | "JOB_NOT_FOUND" | "NOT_FOUND" | "UNAUTHENTICATED")
    )
}

/// Events that belong together: what comes within a moment, up to what a request takes; and what came after them.
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

/// A value as JSON text.
pub(super) fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_never| RawValue::NULL.to_owned())
}

/// The body of a line of the log.
pub(super) fn log(level: &str, message: &str) -> Box<RawValue> {
    raw(&json!({ "level": level, "message": message }))
}
