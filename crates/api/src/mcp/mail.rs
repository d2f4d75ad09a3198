//! Tools for envelopes (AEE): sending one, and reading a mailbox.
//!
//! An envelope is passed on as MCP's parser delivers it: its numbers and the order of its members are JSON's,
//! not the sender's bytes. Signatures cover the canonical form and stay valid. An unsigned envelope is completed: a model
//! knows neither the time nor ids.

use std::time::Duration;

use entente_aee::mailboxes::{Ack, MailboxItem};
use entente_aee::{acceptance, mailboxes, parties};
use entente_aee_api::envelopes::AcceptedBody;
use entente_aee_api::mailboxes::ItemBody;
use entente_domain::aee::envelopes::drafts::EnvelopeDraft;
use entente_domain::aee::envelopes::{EnvelopeType, Priority, VERSION};
use entente_domain::canonical::{inexact, numbers, sha256};
use entente_domain::clock::rfc3339;
use entente_domain::idempotency::derived_id;
use entente_domain::identity::keys::Dialect;
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::envelope_id;
use entente_domain::limits::PAGE;
use entente_http::error::Problem;
use entente_http::presence::Presence;
use entente_kernel::{AppError, Outcome};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::cursors::Place;
use super::shapes::{cursor, flag, free, gives, list, may, must, nullable, takes, text, whole};
use super::{Answer, Call, Hints, Tool, ToolResult, WAIT_SECONDS, within};

/// Purpose of a ping, which asks whether an entity is reachable.
const PING: &str = "aee.status.ping";

/// Minimum length of `corr`.
const CORR_BYTES: usize = 8;

/// Default page size.
const STEP: u32 = 20;

/// Returns the tools of this file.
pub fn tools() -> [Tool; 2] {
    [
        Tool {
            name: "send_envelope",
            title: "Send an envelope",
            about: "Sends an AEE envelope to an entity or a bus. Absent `v`, `id`, `ts`, `corr`, `priority` and `from` are filled in, unless it \
                    is signed. The same `id` again is refused with `duplicate_id`: for a safe retry, send an `id` or an \
                    idempotency_key.",
            takes: takes(vec![
                must(
                    "envelope",
                    free(
                        "Type, to, intent, payload; optional: v, id, ts, from, corr, reply_to, trace, priority, requires, sig.",
                    ),
                ),
                may("idempotency_key", text("Makes the `id` of an envelope that has none.")),
            ]),
            example: json!({
                "envelope": { "type": "task", "to": "agent.bob", "intent": "ops.backup.check", "payload": { "host": "db1" } },
            }),
            gives: gives(vec![
                must("id", text("The envelope's id.")),
                must("received_at", text("When the envelope was accepted.")),
                may("reply", free("The server's response, if the server itself was the recipient.")),
            ]),
            hints: Hints::adds(),
            names: &[("*", "envelope")],
            run: |call| Box::pin(send_envelope(call)),
        },
        Tool {
            name: "read_mailbox",
            title: "Read a mailbox",
            about: "Returns the envelopes in a mailbox, in order of arrival: those not yet acknowledged, or those after a \
                    number.",
            takes: takes(vec![
                may("entity", text("Owner of the mailbox; defaults to you.")),
                may("after", whole("`next_after` of the last answer.", 0, i64::MAX)),
                may("cursor", cursor()),
                may("limit", whole("Maximum number of envelopes; defaults to 20.", 1, i64::from(PAGE))),
                may(
                    "wait_s",
                    whole(
                        "Seconds to wait if there are no envelopes; defaults to 0.",
                        0,
                        i64::from(WAIT_SECONDS),
                    ),
                ),
                may("ack", flag("Acknowledge the returned envelopes.")),
            ]),
            example: json!({ "cursor": "c1", "wait_s": 20 }),
            gives: gives(vec![
                must("entity", text("Entity that owns the mailbox.")),
                must("items", list(item(), "The envelopes.")),
                must("next_after", json!({ "type": "integer" })),
                may("cursor", nullable(text("`cursor` of the next call."))),
                must("acked_seq", json!({ "type": "integer" })),
            ]),
            hints: Hints::marks(),
            names: &[],
            run: |call| Box::pin(read_mailbox(call)),
        },
    ]
}

fn item() -> Value {
    gives(vec![
        must("seq", json!({ "type": "integer" })),
        must("received_at", text("When the envelope was accepted.")),
        must("envelope", free("The envelope.")),
    ])
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendArgs {
    envelope: Box<RawValue>,
    idempotency_key: Option<String>,
}

/// Fills in the members that an envelope lacks: version, id, time, thread, priority and sender. A signed envelope stays as it is,
/// because its signature covers them.
async fn completed(call: &Call, said: SendArgs) -> Result<Vec<u8>, Problem> {
    let text = said.envelope.get();
    let Ok(Value::Object(mut envelope)) = serde_json::from_str::<Value>(text) else {
        // The gateway explains the fault.
        return Ok(text.as_bytes().to_vec());
    };
    let has =
        |envelope: &Map<String, Value>, name: &str| envelope.get(name).is_some_and(|value| !value.is_null());
    if has(&envelope, "sig") {
        return Ok(text.as_bytes().to_vec());
    }
    // The completed envelope would have another number.
    if let Some(number) = numbers::rounded(text.as_bytes()) {
        return Err(inexact(number).into());
    }
    let (now, from) = (call.ctx().now(), sender(call));
    if !has(&envelope, "id") {
        let id = match said.idempotency_key.as_deref() {
            Some(key) => hidden_id(call, "key", &[&call.caller.agent, key])?,
            None => envelope_id(now, &*call.ctx().chance),
        };
        envelope.insert("id".to_owned(), Value::String(id));
    }
    if !has(&envelope, "corr") {
        let id = envelope["id"].as_str().filter(|id| id.len() >= CORR_BYTES).map(str::to_owned);
        let corr = thread(call, &envelope).await?.or(id);
        let corr = corr.unwrap_or_else(|| envelope_id(now, &*call.ctx().chance));
        envelope.insert("corr".to_owned(), Value::String(corr));
    }
    let (v, ts, priority) = (VERSION.to_owned(), rfc3339(now), Priority::Normal.as_str().to_owned());
    let rest = [("v", Some(v)), ("ts", Some(ts)), ("priority", Some(priority)), ("from", from)];
    for (name, value) in rest {
        if let Some(value) = value.filter(|_| !has(&envelope, name)) {
            envelope.insert(name.to_owned(), Value::String(value));
        }
    }
    Ok(Value::Object(envelope).to_string().into_bytes())
}

/// Returns an envelope id derived from these parts: the same on every server, also after a restart. It is keyed by a
/// secret that is derived from the servers' shared key: ids are unique among all senders, so an id that others could
/// compute from a guessed key could be taken before its sender uses it.
fn hidden_id(call: &Call, prefix: &str, parts: &[&str]) -> Outcome<String> {
    let secret = sha256(call.ctx().server_keys.signer.sign("entente: envelope ids of MCP").to_bytes());
    let id = derived_id(&secret, prefix, parts);
    id.ok_or_else(|| AppError::Inconsistent("an envelope id cannot be derived".to_owned()))
}

/// Returns the sender of an envelope that names none: the acting agent. A service that may act as others must name one.
fn sender(call: &Call) -> Option<String> {
    let caller = &call.caller;
    let many = caller.grant.kind == PrincipalKind::Service && !caller.grant.key.act_as.is_empty();
    (!many || !caller.is_itself()).then(|| caller.agent.clone())
}

/// Returns the thread of the envelope that this one answers, if the caller can read it.
async fn thread(call: &Call, envelope: &Map<String, Value>) -> Result<Option<String>, Problem> {
    let Some(asked) = envelope.get("reply_to").and_then(Value::as_str) else { return Ok(None) };
    match parties::get(&call.ctx().aee, &call.caller, asked).await {
        Ok(asked) => Ok(Some(asked.corr)),
        Err(AppError::Refused(_)) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

async fn send_envelope(call: Call) -> ToolResult {
    let said: SendArgs = call.read()?;
    let bytes = completed(&call, said).await?;
    call.require_private(&bytes)?;
    let accepted = acceptance::accept(&call.ctx().aee, &call.caller, &call.api.aee.ingest, &bytes).await?;
    let answered = accepted.reply.is_some();
    let body = AcceptedBody::new(accepted)?;
    let what = if answered {
        "The server answered it."
    } else {
        "It was taken in and lies in its recipient's mailbox."
    };
    Answer::new(what, &body)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArgs {
    entity: Option<String>,
    after: Option<i64>,
    cursor: Option<String>,
    limit: Option<u32>,
    wait_s: Option<u32>,
    #[serde(default)]
    ack: bool,
}

async fn read_mailbox(call: Call) -> ToolResult {
    let said: ReadArgs = call.read()?;
    let entity = said.entity.unwrap_or_else(|| call.caller.agent.clone());
    let limit = within("limit", said.limit, STEP, 1, PAGE)?;
    let patience = within("wait_s", said.wait_s, 0, 0, WAIT_SECONDS)?;
    let said_after = said.after.map(|seq| seq.to_string());
    let subject = format!("mailbox {entity}");
    let mut place = Place::open(&call, subject, said.cursor.as_deref(), said_after.as_deref()).await?;
    let after = Place::from(place.as_ref(), said_after.as_deref()).and_then(|seq| seq.parse().ok());
    let now = || mailboxes::read(&call.ctx().aee, &call.caller, &entity, after, limit);
    let (mailbox, items) = if patience == 0 {
        now().await?
    } else {
        let _place = call.waits()?;
        let time = Duration::from_secs(u64::from(patience));
        let waited = mailboxes::wait(&call.ctx().aee, &call.caller, &entity, after, limit, time);
        match call.unless_stopping(waited).await {
            Some(found) => found?,
            None => now().await?,
        }
    };
    if said.ack && call.presence.is_gone().await {
        // Acknowledged envelopes are delivered once, so they must not go to a client that has disconnected.
        return Err(Presence::refusal());
    }
    for item in &items {
        pong(&call, &entity, item).await?;
    }
    let seqs: Vec<i64> = items.iter().map(|item| item.seq).collect();
    let items = items
        .into_iter()
        .map(|item| ItemBody::new(item, Dialect::Standard))
        .collect::<Result<Vec<_>, _>>()?;
    let next = seqs.last().copied().unwrap_or(after.unwrap_or(mailbox.acked_seq));
    Place::begins(&mut place, || Some(mailbox.acked_seq.to_string()));
    let cursor = Place::keep(place, &call, &next.to_string()).await?;
    let mut acked = mailbox.acked_seq;
    if said.ack && !seqs.is_empty() {
        acked = mailboxes::ack(&call.ctx().aee, &call.caller, &entity, &Ack::These(seqs.clone()))
            .await?
            .acked_seq;
    }
    let body = json!({
        "entity": entity, "items": items, "next_after": next, "acked_seq": acked, "cursor": cursor,
    });
    Answer::new(format!("{} envelope(s) in the mailbox of {entity}.", seqs.len()), &body)
}

/// Answers a ping on behalf of an agent that has only tools: reading proves that it is reachable (AEE §9.2).
///
/// The id of the response derives from the ping's id, so that reading again sends no second response; it is a digest,
/// because the ping's id may already have the maximum length. If the response is refused, the gateway reports the ping's
/// timeout.
pub(super) async fn pong(call: &Call, entity: &str, item: &MailboxItem) -> Outcome<()> {
    let asked = &item.envelope;
    if (asked.kind, asked.purpose.as_str(), asked.recipient.as_str()) != (EnvelopeType::Task, PING, entity) {
        return Ok(());
    }
    let answer = EnvelopeDraft {
        kind: EnvelopeType::Result,
        sender: entity,
        recipient: &asked.sender,
        purpose: PING,
        corr: &asked.corr,
        reply_to: Some(&asked.id),
        priority: Priority::Normal,
        payload: json!({ "pong": true }),
        trace: None,
    };
    let answered = async {
        let answer = answer.write_as(hidden_id(call, "pong", &[&asked.id])?, call.ctx().now())?;
        let text = Value::Object(answer.members).to_string();
        call.require_private(text.as_bytes())?;
        acceptance::accept(&call.ctx().aee, &call.caller, &call.api.aee.ingest, text.as_bytes()).await
    };
    match answered.await {
        Ok(_) | Err(AppError::Refused(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}
