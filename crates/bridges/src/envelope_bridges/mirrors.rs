//! Mirrors envelopes on a channel of an intent: each as one verbatim message, sent by the agent that set the
//! bridge up.
//!
//! A message is sent under an idempotency key derived from the envelope. If the server dies before it records
//! the message, the next attempt sends it again and gets the same message.

use entente_aee::envelopes;
use entente_aee::envelopes::StoredEnvelope;
use entente_domain::bridges::{self as domain, Mirror};
use entente_domain::idempotency::Idempotency;
use entente_domain::limits::{METADATA_BYTES, PAYLOAD_BYTES};
use entente_domain::openintent::messages::{Draft, MessageType};
use entente_domain::payload::{Payload, scan};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::channels::access::home;
use entente_kernel::{AppError, Outcome};
use entente_openintent::messages::writer::Command;
use serde_json::json;

use super::BridgeRecord as Bridge;
use super::finds::{self, Found};
use super::rows::{self, Carried, Source};
use super::run::{BridgeRun, STRETCH};

/// Mirrors the next page of envelopes.
pub(super) async fn show(run: &BridgeRun<'_>, mirror: &Mirror) -> Outcome<u64> {
    let mut conn = run.ctx.pool.acquire().await?;
    let (from, most) = (&run.kept.place, i64::from(STRETCH));
    let found = match (&mirror.entity, &mirror.bus) {
        (Some(entity), _) => finds::items(&mut conn, entity, from.number, most).await?,
        (None, Some(bus)) => finds::sent(&mut conn, bus, from, most).await?,
        (None, None) => Vec::new(),
    };
    let ids: Vec<&str> = found.iter().map(|one| one.envelope_id.as_str()).collect();
    let envelopes = envelopes::load_all(&mut conn, &ids).await?;
    let made = rows::of_bridges(&mut conn, &envelopes).await?;
    drop(conn);
    for one in &found {
        let envelope = envelopes.get(&one.envelope_id).filter(|envelope| !made.contains(&envelope.id));
        match envelope {
            Some(envelope) => show_one(run, mirror, one, envelope).await?,
            None => rows::advance(&mut *run.ctx.pool.acquire().await?, run.kept, &one.place).await?,
        }
    }
    Ok(found.len() as u64)
}

async fn show_one(
    run: &BridgeRun<'_>,
    mirror: &Mirror,
    at: &Found,
    envelope: &StoredEnvelope,
) -> Outcome<()> {
    let ctx = run.ctx;
    let key = domain::key(&run.kept.name, &envelope.id);
    let once = Idempotency::new(&key, "mirror", envelope.id.as_bytes())?;
    let command = Command {
        channel_id: mirror.channel_id,
        intent_id: home(ctx, mirror.channel_id).await?,
        draft: draft(run.kept, envelope)?,
        principal: run.caller.principal().to_owned(),
        once: Some(once),
        objection: None,
        trace: None,
    };
    let target = match run.message_writer.send(command).await {
        Ok(message) => message.id.to_string(),
        Err(AppError::Refused(refusal)) if of_the_letter(&refusal) => {
            tracing::info!(bridge = run.kept.name, error = %refusal, "an envelope was not shown");
            format!("refused: {}", refusal.code.wire())
        }
        Err(failure) => return Err(failure),
    };
    let mut tx = ctx.pool.begin().await?;
    let (bridge, source, at_time) = (&run.kept.name, Source::Envelope(&envelope.id), ctx.now());
    rows::carried(&mut tx, &Carried { bridge, source, target: &target, at: at_time, job: None }).await?;
    rows::advance(&mut tx, run.kept, &at.place).await?;
    tx.commit().await?;
    Ok(())
}

/// Whether the refusal concerns this envelope alone, and not the whole channel.
fn of_the_letter(refusal: &Refusal) -> bool {
    matches!(
        refusal.code,
        Code::Unprocessable | Code::TooLarge | Code::TooDeep | Code::InvalidRequest | Code::InvalidMoment
    )
}

fn draft(bridge: &Bridge, envelope: &StoredEnvelope) -> Outcome<Draft> {
    let whole = domain::mirrored(&envelope.body)?;
    let fits = whole.as_str().len() <= PAYLOAD_BYTES && scan(whole.as_str().as_bytes()).is_ok();
    let payload =
        if fits { whole } else { Payload::stored(domain::omitted("envelope_id", &envelope.id).to_string())? };
    let metadata = json!({ "bridge": bridge.name, "envelope_id": envelope.id }).to_string();
    debug_assert!(metadata.len() <= METADATA_BYTES, "a name and an id");
    Ok(Draft {
        sender: bridge.agent.clone(),
        to: None,
        message_type: MessageType::Notify,
        correlation_id: None,
        payload,
        metadata: Some(Payload::stored(metadata)?),
        expires_at: None,
    })
}
