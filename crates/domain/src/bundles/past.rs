//! The past of an intent as envelopes (AEE): the messages, requests, reports and decisions of a bundle, as a reader of
//! envelopes would have seen them. Nobody signed these envelopes; the seal of the bundle vouches for their content.
//!
//! A request and its response, a job and its end, a question and its answer are each a task with its result. Whatever was
//! addressed to nobody goes to the bus [`BUS`]. Ids are those of the source without its prefix, so that the same bundle always
//! gives the same envelopes.

use serde_json::{Map, Value, json};

use super::{Line, Section};
use crate::aee::envelopes::drafts::EnvelopeDraft;
use crate::aee::envelopes::{Envelope, EnvelopeType, Priority};
use crate::canonical::sha256;
use crate::clock::parse;
use crate::ids::derived;
use crate::refusal::Refusal;

/// Where envelopes go that were addressed to nobody.
pub const BUS: &str = "bus.past";

/// Makes envelopes of the lines of one bundle, in their order.
#[derive(Debug, Default)]
pub struct Past {
    intent: String,
    /// The last job: its agent and its submitter.
    job: (String, String),
}

impl Past {
    /// Returns the envelopes of a line: none of a line that says nothing that was sent.
    ///
    /// # Errors
    /// It is no envelope, such as one from a sender whose name no entity may have.
    pub fn envelopes(&mut self, line: &Line) -> Result<Vec<Envelope>, Refusal> {
        let body = &line.body;
        let one = |envelope: Result<Envelope, Refusal>| envelope.map(|one| vec![one]);
        match line.section {
            Section::Bundle => {
                let id = body.get("intent").and_then(|intent| intent.get("id")).and_then(Value::as_str);
                id.unwrap_or_default().clone_into(&mut self.intent);
                Ok(Vec::new())
            }
            Section::Event => {
                let draft = self.draft(EnvelopeType::Event, word(body, "actor"), BUS, "intent.event");
                one(written(
                    &draft,
                    word(body, "id"),
                    word(body, "created_at"),
                    picked(body, &["event_type", "payload"]),
                ))
            }
            Section::Message => one(self.message(body)),
            Section::Job => {
                self.job = (word(body, "agent").to_owned(), word(body, "principal").to_owned());
                let draft = self.draft(EnvelopeType::Task, &self.job.1, &self.job.0, "intent.job");
                let payload = picked(body, &["job_id", "input", "input_text", "lease"]);
                one(written(&draft, word(body, "job_id"), word(body, "created_at"), payload))
            }
            Section::JobEvent => one(self.job_event(body)),
            Section::Decision => self.decision(body),
            _ => Ok(Vec::new()),
        }
    }

    fn draft<'a>(
        &'a self,
        kind: EnvelopeType,
        sender: &'a str,
        recipient: &'a str,
        purpose: &'a str,
    ) -> EnvelopeDraft<'a> {
        EnvelopeDraft {
            kind,
            sender,
            recipient,
            purpose,
            corr: &self.intent,
            reply_to: None,
            priority: Priority::Normal,
            payload: Value::Null,
            trace: None,
        }
    }

    fn message(&self, body: &Map<String, Value>) -> Result<Envelope, Refusal> {
        let answers = bare(word(body, "correlation_id"));
        let kind = match word(body, "message_type") {
            "request" => EnvelopeType::Task,
            "response" if !answers.is_empty() => EnvelopeType::Result,
            _ => EnvelopeType::Event,
        };
        let to = Some(word(body, "to")).filter(|to| !to.is_empty() && *to != "*" && !to.starts_with("role:"));
        let mut draft = self.draft(kind, word(body, "sender"), to.unwrap_or(BUS), "intent.message");
        draft.reply_to = Some(answers).filter(|_| kind == EnvelopeType::Result);
        let payload = picked(body, &["channel_id", "payload", "payload_text"]);
        written(&draft, word(body, "id"), word(body, "created_at"), payload)
    }

    fn job_event(&self, body: &Map<String, Value>) -> Result<Envelope, Refusal> {
        let kind = match word(body, "type") {
            "job.result" => EnvelopeType::Result,
            "job.error" => EnvelopeType::Error,
            _ => EnvelopeType::Stream,
        };
        let (job, at) = (word(body, "job_id"), word(body, "ts"));
        let mut draft = self.draft(kind, &self.job.0, &self.job.1, "intent.job");
        draft.reply_to = Some(bare(job));
        let mut payload = picked(body, &["job_id", "kind", "body", "body_text"]);
        if kind == EnvelopeType::Error {
            let told = body.get("body_text").and_then(Value::as_str);
            let told = told.and_then(|text| serde_json::from_str(text).ok());
            let said: Value = told.or_else(|| body.get("body").cloned()).unwrap_or_default();
            let text = |member: &str| said.get(member).and_then(Value::as_str).unwrap_or("unknown");
            payload["code"] = json!(text("code"));
            payload["message"] = json!(text("message"));
            payload["retryable"] = json!(said.get("retryable").and_then(Value::as_bool).unwrap_or(false));
        }
        let source = sha256(format!("{job}:{}", body.get("job_seq").unwrap_or(&Value::Null)));
        let id = parse(at).map(|at| derived(at, &source)).unwrap_or_default();
        written(&draft, &id, at, payload)
    }

    /// Returns the question and, if there is one, the answer.
    fn decision(&self, body: &Map<String, Value>) -> Result<Vec<Envelope>, Refusal> {
        let (id, agent, person) =
            (word(body, "moment_id"), word(body, "agent_id"), word(body, "principal_id"));
        let asked = self.draft(EnvelopeType::Task, agent, person, "intent.decision");
        let payload = picked(body, &["moment_id", "digest", "brief"]);
        let mut envelopes = vec![written(&asked, id, word(body, "created_at"), payload)?];
        if let Some(Value::Object(resolution)) = body.get("resolution") {
            let mut answer =
                self.draft(EnvelopeType::Result, word(resolution, "by"), agent, "intent.decision");
            answer.reply_to = Some(bare(id));
            let at = word(resolution, "at");
            let own = parse(at).map(|at| derived(at, &sha256(format!("{id}:answer")))).unwrap_or_default();
            let payload = picked(body, &["moment_id", "digest", "resolution", "receipt"]);
            envelopes.push(written(&answer, &own, at, payload)?);
        }
        Ok(envelopes)
    }
}

fn word<'a>(body: &'a Map<String, Value>, member: &str) -> &'a str {
    body.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// Returns an id without its prefix.
fn bare(id: &str) -> &str {
    id.rsplit_once('_').map_or(id, |(_, bare)| bare)
}

fn picked(body: &Map<String, Value>, members: &[&str]) -> Value {
    let picked = members.iter().filter_map(|name| Some(((*name).to_owned(), body.get(*name)?.clone())));
    Value::Object(picked.collect())
}

fn written(draft: &EnvelopeDraft<'_>, id: &str, at: &str, payload: Value) -> Result<Envelope, Refusal> {
    let at = parse(at).unwrap_or_default();
    EnvelopeDraft { payload, ..*draft }.write_as(bare(id).to_owned(), at)
}
