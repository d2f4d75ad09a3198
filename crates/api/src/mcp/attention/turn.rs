//! The tool for a whole turn, with the arguments of `POST /turn`.

use entente_domain::identity::keys::Dialect;
use serde_json::{Value, json};

use crate::bridges::turns::{TurnBody, taken};
use crate::mcp::shapes::{any, flag, free, gives, list, may, must, nullable, retry_key, takes, text, whole};
use crate::mcp::{Answer, Call, Hints, Tool, ToolResult, WAIT_SECONDS};

/// Members of a task's step, in words: a schema would be long, and the list of all tools has at most 60,000 bytes.
const TASKS: &str = "Steps of tasks: `verb` (create, claim, start, complete, fail, block, unblock, release), `task_id`, `claim_token`, `output`, \
                     `error`; with `create` a `task`.";

/// Returns the tool of this file.
pub fn tools() -> [Tool; 1] {
    [Tool {
        name: "turn",
        title: "Take a whole turn",
        about: "Does everything between two thoughts in one call, all or nothing: marks what you have read, sends messages and mail, works on \
                tasks, reports on jobs and ends them, takes new jobs, and returns your inbox.",
        takes: takes(vec![
            may(
                "seen",
                object(
                    "Your inbox's entries up to `place` are dealt with.",
                    json!({
                        "place": whole("`next_place` of the inbox.", 0, i64::MAX), "reader": text("Your session's name."),
                    }),
                    &["place"],
                ),
            ),
            may("read", list(message_ids(), "Messages to mark as read.")),
            may("messages", list(message(), "Messages to send, in order.")),
            may("events", list(free("An event."), "Events to append: `intent_id`, `event_type`, `payload`.")),
            may("tasks", list(free("A step."), TASKS)),
            may("mail", list(free("An envelope."), "Envelopes to send.")),
            may("settle", list(settlement(), "Costs of reservations.")),
            may("report", list(report(), "Events and progress of jobs.")),
            may("finish", list(finish(), "Jobs that end, with a result or an error.")),
            may(
                "heartbeat",
                object(
                    "Keeps the claims of your worker.",
                    json!({
                        "worker_id": text("Your worker."), "jobs": list(held(), "The jobs that it holds."),
                    }),
                    &["worker_id"],
                ),
            ),
            may(
                "claim",
                object(
                    "Takes jobs that are pending.",
                    json!({
                        "worker_id": text("Your worker."), "max": whole("How many; defaults to 1.", 1, 100),
                        "agents": list(text("An agent."), "Agents to take jobs for; defaults to all of the worker's."),
                    }),
                    &["worker_id"],
                ),
            ),
            may("inbox", reading()),
            may("idempotency_key", retry_key("")),
        ]),
        example: json!({
            "seen": { "place": 42 },
            "messages": [{ "channel_id": "chn_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "to": "agent.writer", "payload": { "text": "done" } }],
        }),
        gives: gives(vec![
            must("done", free("What the turn did.")),
            must("jobs", list(free("A job."), "The claimed jobs.")),
            must("inbox", nullable(free("Your inbox."))),
        ]),
        hints: Hints::changes(),
        names: &[],
        run: |call| Box::pin(turn(call)),
    }]
}

fn reading() -> Value {
    let members = json!({
        "reader": text("Your session's name."), "attention": text("Some of `wake,next,digest`."),
        "expand": flag("List the digest's entries."), "limit": whole("Maximum number of entries.", 1, 200),
        "wait": whole("Seconds to wait for an entry.", 0, i64::from(WAIT_SECONDS)),
    });
    object("What to read afterwards.", members, &[])
}

fn object(about: &str, members: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "description": about, "required": required, "additionalProperties": false });
    schema["properties"] = members;
    schema
}

fn message_ids() -> Value {
    let members = json!({ "channel_id": text("The channel."), "message_id": text("The message.") });
    object("A message.", members, &["channel_id", "message_id"])
}

fn message() -> Value {
    let members = json!({
        "channel_id": text("The channel."), "to": text("An agent, `role:…` or `*`."),
        "message_type": text("`request`, `response`, `notify` or `broadcast`; defaults to `notify`."),
        "correlation_id": text("For a response: the request's id."), "payload": free("Content."),
        "metadata": free("Hints."), "expires_at": text("When it expires."), "sender": text("Defaults to you."),
    });
    object("A message.", members, &["channel_id", "payload"])
}

/// Members that name a claimed job, and others.
fn of_job(about: &str, mut members: Value) -> Value {
    members["job_id"] = text("The job.");
    members["claim_token"] = text("Token of the claim.");
    object(about, members, &["job_id", "claim_token"])
}

fn settlement() -> Value {
    let members = json!({ "reservation_id": text("The reservation."), "cost": free("Amounts by currency.") });
    of_job("A settlement.", members)
}

fn report() -> Value {
    let event = json!({ "kind": text("Kind of the event."), "body": free("Its body."), "event_key": text("Key against repetition.") });
    let events = list(object("An event.", event, &["kind", "body"]), "Events, in order.");
    of_job("A report.", json!({ "events": events, "checkpoint": any("Progress to continue from.") }))
}

fn finish() -> Value {
    let error = json!({ "code": text("Defaults to INTERNAL_ERROR."), "message": text("For people."), "retryable": flag("Try again?") });
    of_job(
        "An end.",
        json!({
            "result": any("The result."), "summary": text("One sentence."), "error": object("The error.", error, &[]),
        }),
    )
}

fn held() -> Value {
    of_job("A job.", json!({ "stopping": flag("Whether you know that it has to stop.") }))
}

async fn turn(call: Call) -> ToolResult {
    let said: TurnBody = call.read()?;
    let once = call.once(said.idempotency_key.as_deref(), "turn")?;
    let (caller, strict) = (&call.caller, call.ctx().settings.strict);
    let asked = said.ask(caller, strict, once.as_ref())?;
    let _place = if asked.wait.is_zero() { None } else { Some(call.waits()?) };
    let mut taken = taken(&call.api, caller, asked, once.as_ref(), Dialect::Standard, &call.presence).await?;
    let body = taken.body(&caller.agent, strict, Dialect::Standard)?;
    Answer::new(body.summary(), &body)
}
