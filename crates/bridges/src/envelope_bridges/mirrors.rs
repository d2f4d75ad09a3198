//! Mirrors envelopes on a channel of an intent: each as one verbatim message, sent by the agent that set the
//! bridge up. The message's metadata names the envelope, its sender and its thread.
//!
//! A message is sent under an idempotency key derived from the envelope. If the server dies before it records
//! the message, the next attempt sends it again and gets the same message.
//!
//! The mirror of an entity also shows the answer that ends each task that it has shown: a result or an error, of the
//! entity itself or of a job. Of an answer that its recipient does not get whole, only the metadata is shown.

use entente_aee::envelopes;
use entente_aee::envelopes::StoredEnvelope;
use entente_domain::aee::envelopes::EnvelopeType;
use entente_domain::aee::envelopes::receipt::ReceiptStatus;
use entente_domain::bridges::{self as domain, Mirror};
use entente_domain::idempotency::Idempotency;
use entente_domain::limits::{METADATA_BYTES, PAYLOAD_BYTES};
use entente_domain::openintent::messages::{Draft, MessageType};
use entente_domain::payload::{Payload, scan};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership;
use entente_kernel::channels::access::home;
use entente_kernel::{AppError, Outcome};
use entente_openintent::messages::writer::Command;
use serde_json::{Value, json};

use super::BridgeRecord as Bridge;
use super::answers::trace_id;
use super::finds::{self, Found};
use super::rows::{self, Carried, Over, Source};
use super::run::{BridgeRun, STRETCH};

/// Maximum number of mirrored tasks whose answers a bridge waits for: each poll of every server looks at all of them, and
/// many tasks are never answered.
const AWAITED: i64 = 1_000;

/// Mirrors the next page of envelopes, and the answers that came meanwhile.
pub(super) async fn show(run: &BridgeRun<'_>, mirror: &Mirror) -> Outcome<u64> {
    let mut conn = run.ctx.pool.acquire().await?;
    let (from, most) = (run.kept.place, i64::from(STRETCH));
    let found = match (&mirror.entity, &mirror.bus) {
        (Some(entity), _) => finds::items(&mut conn, entity, from, most).await?,
        (None, Some(bus)) => finds::sent(&mut conn, bus, from, most).await?,
        (None, None) => Vec::new(),
    };
    let ids: Vec<&str> = found.iter().map(|one| one.envelope_id.as_str()).collect();
    let envelopes = envelopes::load_all(&mut conn, &ids).await?;
    let said = rows::of_messages(&mut conn, &envelopes).await?;
    drop(conn);
    for one in &found {
        let envelope = envelopes.get(&one.envelope_id).filter(|envelope| !said.contains(&envelope.id));
        match envelope {
            Some(envelope) => show_one(run, mirror, one, envelope).await?,
            None => rows::advance(&mut *run.ctx.pool.acquire().await?, run.kept, one.place).await?,
        }
    }
    Ok(found.len() as u64 + show_answers(run, mirror).await?)
}

async fn show_one(
    run: &BridgeRun<'_>,
    mirror: &Mirror,
    at: &Found,
    envelope: &StoredEnvelope,
) -> Outcome<()> {
    let ctx = run.ctx;
    let target = post(run, mirror, envelope, Content::Whole).await?;
    let mut tx = ctx.pool.begin().await?;
    let (bridge, source, at_time) = (&run.kept.name, Source::Envelope(&envelope.id), ctx.now());
    rows::carried(&mut tx, &Carried { bridge, source, target: &target, at: at_time, job: None }).await?;
    // The answers to a task of a bus go to its sender alone.
    if mirror.entity.is_some() && envelope.kind == EnvelopeType::Task {
        rows::expect_answer(&mut tx, bridge, &envelope.id).await?;
        rows::expect_no_more(&mut tx, bridge, AWAITED).await?;
    }
    rows::advance(&mut tx, run.kept, at.place).await?;
    tx.commit().await?;
    Ok(())
}

/// Shows the answers to mirrored tasks that are over.
async fn show_answers(run: &BridgeRun<'_>, mirror: &Mirror) -> Outcome<u64> {
    let Some(entity) = &mirror.entity else { return Ok(0) };
    let mut conn = run.ctx.pool.acquire().await?;
    let over = rows::over(&mut conn, &run.kept.name, entity, i64::from(STRETCH)).await?;
    let ids: Vec<&str> = over.iter().filter_map(|one| one.answer.as_deref()).collect();
    let answers = envelopes::load_all(&mut conn, &ids).await?;
    let said = rows::of_messages(&mut conn, &answers).await?;
    drop(conn);
    for one in &over {
        let answer = one.answer.as_ref().and_then(|id| answers.get(id));
        show_answer(run, mirror, one, answer.filter(|answer| !said.contains(&answer.id))).await?;
    }
    Ok(over.len() as u64)
}

async fn show_answer(
    run: &BridgeRun<'_>,
    mirror: &Mirror,
    over: &Over,
    answer: Option<&StoredEnvelope>,
) -> Outcome<()> {
    let (ctx, bridge) = (run.ctx, &run.kept.name);
    let target = match answer {
        Some(answer) => Some((answer, post(run, mirror, answer, Content::of(answer)).await?)),
        None => None,
    };
    let mut tx = ctx.pool.begin().await?;
    if let Some((answer, target)) = &target {
        let source = Source::Envelope(&answer.id);
        rows::carried(&mut tx, &Carried { bridge, source, target, at: ctx.now(), job: None }).await?;
    }
    rows::tell(&mut tx, bridge, &over.task, 0, false).await?;
    tx.commit().await?;
    Ok(())
}

/// The shown part of an envelope.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// All of it.
    Whole,
    /// Only its metadata, because its recipient does not get all of it (AEE §11.5).
    Withheld,
}

impl Content {
    /// Returns the part of an answer that is shown: an answer that was redacted, or given to the gateway to be handed
    /// on, was not delivered as it is.
    fn of(answer: &StoredEnvelope) -> Self {
        if answer.receipt.status == ReceiptStatus::Accepted { Self::Whole } else { Self::Withheld }
    }
}

/// Posts an envelope on the channel; returns the message's id, or the reason why there is none.
async fn post(
    run: &BridgeRun<'_>,
    mirror: &Mirror,
    envelope: &StoredEnvelope,
    content: Content,
) -> Outcome<String> {
    let (ctx, bridge) = (run.ctx, run.kept);
    let mut conn = ctx.pool.acquire().await?;
    if rows::shown_on(&mut conn, &bridge.name, &envelope.id, mirror.channel_id).await? {
        return Ok(rows::ELSEWHERE.to_owned());
    }
    let job = rows::job_of(&mut conn, &envelope.id).await?;
    let home_id = home(ctx, mirror.channel_id).await?;
    let sender = membership::find(&mut conn, &envelope.sender, home_id, ctx.now()).await?;
    drop(conn);
    if sender.is_some_and(|sender| sender.is_strict()) {
        // The bridge shows it in its own name, and so it is no way around the epoch of who sent it.
        return Ok(format!("refused: {}", Code::EpochRequired.wire()));
    }
    let key = domain::key(&bridge.name, &envelope.id);
    let once = Idempotency::new(&key, "mirror", envelope.id.as_bytes())?;
    let (intent_id, draft) = (home_id, draft(bridge, envelope, content, job.as_deref())?);
    // A bridge in a loop rests, as with any other refusal.
    let objection = ctx
        .stops
        .objection(&run.caller, &draft.sender, Some(intent_id))
        .or_else(|| ctx.loops.objection(&draft.sender, intent_id, &*ctx.clock));
    let command = Command {
        channel_id: mirror.channel_id,
        intent_id,
        draft,
        principal: run.caller.principal().to_owned(),
        once: Some(once),
        objection,
        trace: None,
        handover: None,
    };
    match run.message_writer.send(command).await {
        Ok(message) => Ok(message.id.to_string()),
        Err(AppError::Refused(refusal)) if of_the_letter(&refusal) => {
            tracing::info!(bridge = bridge.name, error = %refusal, "an envelope was not shown");
            Ok(format!("refused: {}", refusal.code.wire()))
        }
        Err(failure) => Err(failure),
    }
}

/// Whether the refusal concerns this envelope alone, and not the whole channel.
fn of_the_letter(refusal: &Refusal) -> bool {
    matches!(
        refusal.code,
        Code::Unprocessable
            | Code::TooLarge
            | Code::TooDeep
            | Code::InvalidRequest
            | Code::InvalidMoment
            | Code::EpochRequired
    )
}

fn draft(bridge: &Bridge, envelope: &StoredEnvelope, content: Content, job: Option<&str>) -> Outcome<Draft> {
    let payload = match content {
        Content::Whole => {
            let whole = domain::mirrored(&envelope.body)?;
            let fits = whole.as_str().len() <= PAYLOAD_BYTES && scan(whole.as_str().as_bytes()).is_ok();
            if fits {
                whole
            } else {
                Payload::stored(domain::omitted("envelope_id", &envelope.id).to_string())?
            }
        }
        Content::Withheld => Payload::stored(domain::withheld(&envelope.id).to_string())?,
    };
    Ok(Draft {
        sender: bridge.agent.clone(),
        to: None,
        message_type: MessageType::Notify,
        correlation_id: None,
        payload,
        metadata: Some(Payload::stored(metadata(bridge, envelope, job))?),
        expires_at: None,
    })
}

/// Describes the mirrored envelope; the trace is that of the thread's jobs and events.
fn metadata(bridge: &Bridge, envelope: &StoredEnvelope, job: Option<&str>) -> String {
    let mut about = json!({
        "id": envelope.id, "from": envelope.sender, "to": envelope.recipient, "intent": envelope.purpose,
        "type": envelope.kind, "corr": envelope.corr, "reply_to": envelope.reply_to,
        "verified": envelope.receipt.verified,
    });
    if let Some(job) = job {
        about["job_id"] = Value::from(job);
    }
    if let Some(original) = &envelope.original_id {
        about["original_id"] = Value::from(original.as_str());
    }
    let whole = json!({
        "bridge": bridge.name, "envelope_id": envelope.id, "trace_id": trace_id(envelope), "envelope": about,
    });
    let whole = whole.to_string();
    debug_assert!(whole.len() <= METADATA_BYTES, "names and ids, all of which are limited");
    whole
}
