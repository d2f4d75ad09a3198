//! Sends the messages of a channel as envelopes: a request as a task, its response as the result, everything
//! else as an event. Only messages that the bridge's caller may read are sent.
//!
//! The gateway vouches for these envelopes: it accepted the messages, so it knows their senders.

use entente_domain::aee::envelopes::letters::Letter;
use entente_domain::aee::envelopes::pairing::PairStatus;
use entente_domain::aee::envelopes::{EnvelopeType, Priority};
use entente_domain::bridges::{self as law, Export};
use entente_domain::cursors::Since;
use entente_domain::openintent::messages::{Message, MessageType};
use entente_domain::refusal::Code;
use serde_json::{Value, from_str, json};
use sqlx::PgConnection;

use super::answers::{admitted, written};
use super::carrying::{Carrier, STRETCH};
use super::rows::{self, Source};
use super::{Bridge, Place};
use crate::aee::pairs;
use crate::aee::post;
use crate::aee::post::Parcel;
use crate::aee::rulebook;
use crate::aee::rulebook::Rulebook;
use crate::openintent::messages;
use crate::openintent::messages::Filter;
use crate::{AppError, Outcome};

/// Sends the next page of messages.
pub(super) async fn send(carrier: &Carrier<'_>, export: &Export) -> Outcome<u64> {
    let from = u32::try_from(carrier.kept.place.number).unwrap_or(u32::MAX);
    let filter = Filter { since: Some(Since::Number(from)), to: None, limit: STRETCH };
    let page = messages::list(carrier.ctx, &carrier.caller, export.channel_id, &filter).await?;
    let book = rulebook::latest(carrier.ctx).await?;
    for message in &page.messages {
        send_one(carrier, export, &book, message).await?;
    }
    let Since::Number(reached) = Since::parse(&page.next)? else { return Ok(0) };
    if reached <= from {
        return Ok(0);
    }
    let place = Place::number(i64::from(reached));
    rows::advance(&mut *carrier.ctx.pool.acquire().await?, carrier.kept, &place).await?;
    Ok(u64::from(reached - from))
}

async fn send_one(carrier: &Carrier<'_>, export: &Export, book: &Rulebook, message: &Message) -> Outcome<()> {
    let ctx = carrier.ctx;
    let mut tx = ctx.pool.begin().await?;
    let place = Place::number(i64::from(message.number));
    if shown(carrier, &mut tx, message).await? {
        rows::advance(&mut tx, carrier.kept, &place).await?;
        tx.commit().await?;
        return Ok(());
    }
    let task = match message.correlation_id {
        Some(request) => rows::target(&mut tx, &carrier.kept.name, &request.to_string()).await?,
        None => None,
    };
    let waiting = match &task {
        Some(task) => open_pairs(&mut tx, task).await?,
        None => Vec::new(),
    };
    let parcel = parcel(carrier, export, message, task.as_deref())?;
    let (now, id, source) = (ctx.now(), parcel.envelope.id.clone(), message.id.to_string());
    let parcel = admitted(carrier, book, Source::Message(&source), parcel, &mut tx).await?;
    let put = post::put(ctx, &mut tx, &mut post::Known::new(), parcel.as_slice(), now).await?;
    for refusal in put.answers.iter().filter_map(|answer| match answer {
        Err(AppError::Refused(refusal)) => Some(refusal),
        _ => None,
    }) {
        // The recipient is unknown or a bus without listeners: the bridge pauses until that changes. Any
        // other refusal concerns this message alone and does not hold back the rest.
        if matches!(refusal.code, Code::UnknownRecipient | Code::NoRecipient) {
            return Err(AppError::Refused(refusal.clone()));
        }
        tracing::info!(bridge = carrier.kept.name, error = %refusal, "a message was not sent on");
    }
    let sent = put.answers.first().is_some_and(Result::is_ok);
    let ended: Vec<_> =
        waiting.into_iter().filter(|_| sent).map(|(task, who)| (task, who, id.clone())).collect();
    pairs::close(&mut tx, &ended).await?;
    rows::advance(&mut tx, carrier.kept, &place).await?;
    tx.commit().await?;
    put.announce(ctx);
    Ok(())
}

/// Whether a bridge posted the message: this is recorded, or the bridge named in the message is about to
/// record it.
async fn shown(carrier: &Carrier<'_>, conn: &mut PgConnection, message: &Message) -> Outcome<bool> {
    if !rows::made(conn, &[&message.id.to_string()]).await?.is_empty() {
        return Ok(true);
    }
    let named = message.metadata.as_ref().and_then(|metadata| law::made_by(metadata.as_str()));
    let Some(named) = named else { return Ok(false) };
    let bridge = rows::find(conn, &named).await?.filter(|bridge| bridge.agent == message.sender);
    let channel = message.channel_id;
    Ok(bridge.is_some_and(|one| {
        one.name != carrier.kept.name
            && matches!(&one.bridge, Bridge::Mirror(mirror) if mirror.channel_id == channel)
    }))
}

/// Returns the open exchanges of a task and locks them, so that only one answer ends each.
async fn open_pairs(conn: &mut PgConnection, task: &str) -> Outcome<Vec<(String, String)>> {
    let of = pairs::of(conn, &[task]).await?;
    let named: Vec<(&str, &str)> = of.iter().map(|pair| (task, pair.respondent.as_str())).collect();
    let locked = pairs::lock(conn, &named).await?;
    let open = locked.into_iter().filter(|(_, pair)| pair.status == PairStatus::Open);
    Ok(open.map(|(named, _)| named).collect())
}

/// Builds the envelope of a message, with an id derived from the message's.
fn parcel(
    carrier: &Carrier<'_>,
    export: &Export,
    message: &Message,
    answers: Option<&str>,
) -> Outcome<Parcel> {
    let kind = Export::kind(message.message_type, answers.is_some());
    let id = law::envelope_id(&carrier.kept.salt, &message.id.to_string(), message.created_at);
    let asked = match message.message_type {
        MessageType::Request => Some(message.id),
        MessageType::Response => message.correlation_id,
        MessageType::Notify | MessageType::Broadcast => None,
    };
    // A request and its responses form one thread; other messages belong to the channel's thread.
    let thread = asked.map_or_else(|| message.channel_id.to_string(), |request| request.to_string());
    let payload: Value = from_str(message.payload.as_str())?;
    let letter = Letter {
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
    let instead = law::omitted("message_id", &message.id.to_string());
    let of =
        json!({ "bridge": carrier.kept.name, "channel_id": message.channel_id, "message_id": message.id });
    let parcel = written(&letter, (&id, message.created_at), &of, instead)?;
    let deadline = message.expires_at.filter(|_| kind == EnvelopeType::Task);
    Ok(Parcel { deadline, ..parcel })
}
