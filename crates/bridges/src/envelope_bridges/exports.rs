//! Sends the messages of a channel as envelopes: a request as a task, its response as the result, everything
//! else as an event. Only messages that the bridge's caller may read are sent.
//!
//! The gateway vouches for these envelopes: it accepted the messages, so it knows their senders.

use entente_aee::envelopes::PreparedEnvelope;
use entente_aee::mailboxes::Known;
use entente_aee::policy::snapshot;
use entente_aee::policy::snapshot::PolicySnapshot;
use entente_aee::{exchanges, ingest};
use entente_domain::aee::envelopes::drafts::EnvelopeDraft;
use entente_domain::aee::envelopes::pairing::PairStatus;
use entente_domain::aee::envelopes::{EnvelopeType, Priority};
use entente_domain::bridges::{self as domain, Export};
use entente_domain::cursors::Since;
use entente_domain::openintent::messages::{Message, MessageType};
use entente_domain::refusal::Code;
use entente_kernel::messages::MessageFilter;
use entente_kernel::{AppError, Outcome};
use entente_openintent::messages;
use serde_json::{Value, from_str, json};
use sqlx::PgConnection;

use super::Bridge;
use super::answers::{admitted, written};
use super::rows::{self, Source};
use super::run::{BridgeRun, STRETCH};

/// Sends the next page of messages.
pub(super) async fn send(run: &BridgeRun<'_>, export: &Export) -> Outcome<u64> {
    let from = u32::try_from(run.kept.place).unwrap_or(u32::MAX);
    let filter = MessageFilter { since: Some(Since::Number(from)), to: None, limit: STRETCH };
    let page = messages::list(&run.ctx.openintent, &run.caller, export.channel_id, &filter).await?;
    let book = snapshot::latest(&run.ctx.aee).await?;
    for message in &page.messages {
        send_one(run, export, &book, message).await?;
    }
    let Since::Number(reached) = Since::parse(&page.next)? else { return Ok(0) };
    if reached <= from {
        return Ok(0);
    }
    let place = i64::from(reached);
    rows::advance(&mut *run.ctx.pool.acquire().await?, run.kept, place).await?;
    Ok(u64::from(reached - from))
}

async fn send_one(
    run: &BridgeRun<'_>,
    export: &Export,
    book: &PolicySnapshot,
    message: &Message,
) -> Outcome<()> {
    let ctx = run.ctx;
    let mut tx = ctx.pool.begin().await?;
    let place = i64::from(message.number);
    if shown(run, &mut tx, message).await? {
        rows::advance(&mut tx, run.kept, place).await?;
        tx.commit().await?;
        return Ok(());
    }
    let task = match message.correlation_id {
        Some(request) => rows::target(&mut tx, &run.kept.name, &request.to_string()).await?,
        None => None,
    };
    let waiting = match &task {
        Some(task) => open_pairs(&mut tx, task).await?,
        None => Vec::new(),
    };
    let prepared = prepared(run, export, message, task.as_deref())?;
    let (now, id, source) = (ctx.now(), prepared.envelope.id.clone(), message.id.to_string());
    let prepared = admitted(run, book, Source::Message(&source), prepared, &mut tx).await?;
    let put = ingest::put(&ctx.aee, &mut tx, &mut Known::default(), prepared.as_slice(), now).await?;
    for refusal in put.answers.iter().filter_map(|answer| match answer {
        Err(AppError::Refused(refusal)) => Some(refusal),
        _ => None,
    }) {
        // The recipient is unknown or a bus without listeners: the bridge pauses until that changes. Any
        // other refusal concerns this message alone and does not hold back the rest.
        if matches!(refusal.code, Code::UnknownRecipient | Code::NoRecipient) {
            return Err(AppError::Refused(refusal.clone()));
        }
        tracing::info!(bridge = run.kept.name, error = %refusal, "a message was not sent on");
    }
    let sent = put.answers.first().is_some_and(Result::is_ok);
    let ended: Vec<_> =
        waiting.into_iter().filter(|_| sent).map(|(task, who)| (task, who, id.clone())).collect();
    exchanges::close(&mut tx, &ended).await?;
    rows::advance(&mut tx, run.kept, place).await?;
    tx.commit().await?;
    put.announce(&ctx.aee);
    Ok(())
}

/// Whether a bridge posted the message: this is recorded, or the bridge named in the message is about to
/// record it.
async fn shown(run: &BridgeRun<'_>, conn: &mut PgConnection, message: &Message) -> Outcome<bool> {
    if !rows::made(conn, &[&message.id.to_string()]).await?.is_empty() {
        return Ok(true);
    }
    let named = message.metadata.as_ref().and_then(|metadata| domain::made_by(metadata.as_str()));
    let Some(named) = named else { return Ok(false) };
    let bridge = rows::find(conn, &named).await?.filter(|bridge| bridge.agent == message.sender);
    let channel = message.channel_id;
    Ok(bridge.is_some_and(|one| {
        one.name != run.kept.name
            && matches!(&one.bridge, Bridge::Mirror(mirror) if mirror.channel_id == channel)
    }))
}

/// Returns the open exchanges of a task and locks them, so that only one answer ends each.
async fn open_pairs(conn: &mut PgConnection, task: &str) -> Outcome<Vec<(String, String)>> {
    let of = exchanges::of(conn, &[task]).await?;
    let named: Vec<(&str, &str)> = of.iter().map(|pair| (task, pair.respondent.as_str())).collect();
    let locked = exchanges::lock(conn, &named).await?;
    let open = locked.into_iter().filter(|(_, pair)| pair.status == PairStatus::Open);
    Ok(open.map(|(named, _)| named).collect())
}

/// Builds the envelope of a message, with an id derived from the message's.
fn prepared(
    run: &BridgeRun<'_>,
    export: &Export,
    message: &Message,
    answers: Option<&str>,
) -> Outcome<PreparedEnvelope> {
    let kind = Export::kind(message.message_type, answers.is_some());
    let id = domain::envelope_id(&run.kept.salt, &message.id.to_string(), message.created_at);
    let asked = match message.message_type {
        MessageType::Request => Some(message.id),
        MessageType::Response => message.correlation_id,
        MessageType::Notify | MessageType::Broadcast => None,
    };
    // A request and its responses form one thread; other messages belong to the channel's thread.
    let thread = asked.map_or_else(|| message.channel_id.to_string(), |request| request.to_string());
    let payload: Value = from_str(message.payload.as_str())?;
    let draft = EnvelopeDraft {
        kind,
        sender: &message.sender,
        recipient: &export.to,
        purpose: &export.intent,
        corr: &thread,
        reply_to: answers.filter(|_| kind == EnvelopeType::Result),
        priority: Priority::Normal,
        payload,
        trace: None,
    };
    let instead = domain::omitted("message_id", &message.id.to_string());
    let of = json!({ "bridge": run.kept.name, "channel_id": message.channel_id, "message_id": message.id });
    let prepared = written(&draft, &id, message.created_at, &of, instead)?;
    let deadline = message.expires_at.filter(|_| kind == EnvelopeType::Task);
    Ok(PreparedEnvelope { deadline, ..prepared })
}
