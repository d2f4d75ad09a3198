//! Results of jobs that were created from tasks: their events are sent as `stream`, their ends as `result` or
//! `error`, from the entity that was asked. Each is written in the transaction that records it.

use entente_domain::aee::envelopes::letters::Letter;
use entente_domain::aee::envelopes::receipt::{Verified, Voucher};
use entente_domain::aee::envelopes::{Envelope, EnvelopeType, read};
use entente_domain::bridges::{self as law, Jobs};
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::refusal::Refusal;
use entente_domain::traces::Trace;
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::carrying::{Carrier, STRETCH};
use super::rows::{self, Carried, Open, Source};
use crate::aee::envelopes;
use crate::aee::envelopes::Kept;
use crate::aee::post;
use crate::aee::post::Parcel;
use crate::aee::rulebook;
use crate::aee::rulebook::Rulebook;
use crate::arcp::jobs;
use crate::arcp::jobs::Stored;
use crate::{AppError, Outcome};

/// Maximum number of events of one job reported at once.
const EVENTS: i64 = 64;

/// Reports new job events to the senders of the tasks.
pub(super) async fn bring(carrier: &Carrier<'_>, bridge: &Jobs) -> Outcome<u64> {
    let mut conn = carrier.ctx.pool.acquire().await?;
    let news = rows::news(&mut conn, &carrier.kept.name, i64::from(STRETCH)).await?;
    drop(conn);
    for source in &news {
        tell(carrier, bridge, source).await?;
    }
    Ok(news.len() as u64)
}

/// Reports the next events of one job.
async fn tell(carrier: &Carrier<'_>, bridge: &Jobs, source: &str) -> Outcome<()> {
    let (ctx, name) = (carrier.ctx, &carrier.kept.name);
    let mut tx = ctx.pool.begin().await?;
    let Some(open) = rows::lock(&mut tx, name, source).await? else { return Ok(()) };
    let events = jobs::log::after(&mut tx, open.job_id, open.told, (EVENTS, jobs::log::BYTES)).await?;
    let Some(last) = events.last() else { return Ok(()) };
    let goes_on = !last.is_terminal();
    let now = ctx.now();
    let book = rulebook::latest(ctx).await?;
    let mut parcels = Vec::new();
    // A task that is no longer stored has no sender to report to.
    if let Some(task) = envelopes::load(&mut tx, source).await? {
        for event in &events {
            let Some((source, parcel)) = letter(carrier, bridge, &task, &open, event)? else { continue };
            parcels.extend(admitted(carrier, &book, Source::Event(&source), parcel, &mut tx).await?);
        }
    }
    let put = post::put(ctx, &mut tx, &mut post::Known::new(), &parcels, now).await?;
    for refused in put.answers.iter().filter_map(|answer| answer.as_ref().err()) {
        // The task has already ended, or there is no mailbox for the report.
        tracing::debug!(bridge = name, error = %refused, "what became of a job was told to nobody");
    }
    rows::tell(&mut tx, name, source, last.job_seq, goes_on).await?;
    tx.commit().await?;
    put.announce(ctx);
    Ok(())
}

/// Builds the envelope for an event, if it has one, with the name of its source.
fn letter(
    carrier: &Carrier<'_>,
    bridge: &Jobs,
    task: &Kept,
    open: &Open,
    event: &Stored,
) -> Outcome<Option<(String, Parcel)>> {
    let job = open.job_id.to_string();
    let Some(said) = law::answer(&job, &event.type_, event.kind.as_deref(), &event.body)? else {
        return Ok(None);
    };
    let source = format!("{job}/{}", event.job_seq);
    let parcel = parcel(carrier, bridge, task, said, (&source, event.ts), Some(&job))?;
    Ok(Some((source, parcel)))
}

/// Admits an envelope by this server's rules, once; `None` if it was sent before or is refused.
pub(super) async fn admitted(
    carrier: &Carrier<'_>,
    book: &Rulebook,
    source: Source<'_>,
    parcel: Parcel,
    conn: &mut PgConnection,
) -> Outcome<Option<Parcel>> {
    let (ctx, bridge) = (carrier.ctx, carrier.kept.name.as_str());
    let target = parcel.envelope.id.clone();
    if !rows::carried(conn, &Carried { bridge, source, target: &target, at: ctx.now(), job: None }).await? {
        return Ok(None);
    }
    let parcel = match envelopes::judged(ctx, conn, book, parcel).await {
        Ok(parcel) => parcel,
        Err(AppError::Refused(refusal)) => {
            tracing::info!(bridge, error = %refusal, "what was to be carried may not pass");
            return Ok(None);
        }
        Err(failure) => return Err(failure),
    };
    // The gateway's replacement counts as the bridge's output too, so that no other bridge carries it.
    if let Some(made) = &parcel.made {
        let (source, target) = (Source::Made(&parcel.envelope.id), made.envelope.id.as_str());
        rows::carried(conn, &Carried { bridge, source, target, at: ctx.now(), job: None }).await?;
    }
    Ok(Some(parcel))
}

/// Builds an envelope from the entity that was asked to the sender, with an id derived from the event.
///
/// It is sent with the permissions of the bridge's key, and judged like any other answer.
pub(super) fn parcel(
    carrier: &Carrier<'_>,
    bridge: &Jobs,
    task: &Kept,
    (kind, payload): (EnvelopeType, Value),
    (source, at): (&str, Timestamp),
    job: Option<&str>,
) -> Outcome<Parcel> {
    let id = law::envelope_id(&carrier.kept.salt, source, at);
    let gateway = task.sender == carrier.ctx.settings.post.entity;
    let letter = Letter {
        kind,
        sender: &bridge.entity,
        recipient: &task.sender,
        purpose: &task.purpose,
        corr: &task.corr,
        // Only a terminal envelope names the task (AEE §3), except to the gateway, which forwards it to the
        // sender.
        reply_to: (kind.is_terminal() || gateway).then_some(task.id.as_str()),
        priority: task.receipt.effective_priority,
        payload,
        trace: trace(task, &id),
    };
    let of = json!({ "bridge": carrier.kept.name, "job_id": job });
    let instead = law::omitted("job_id", job.unwrap_or_default());
    let written = written(&letter, (&id, at), &of, instead)?;
    let principal = Some(carrier.kept.created_by.clone());
    Ok(Parcel { principal, verified: Verified::by(Voucher::Token), ..written })
}

/// Writes an envelope that a server as strict as this one accepts; `instead` replaces a payload that is too
/// large, too deep or invalid.
///
/// The source is stored in a member of this server's own, which others ignore (AEE §6.7).
pub(super) fn written(
    letter: &Letter<'_>,
    (id, at): (&str, Timestamp),
    of: &Value,
    instead: Value,
) -> Outcome<Parcel> {
    let write = |letter: Letter<'_>| -> Result<Envelope, Refusal> {
        let mut envelope = letter.write_as(id.to_owned(), at)?;
        envelope.members.insert("entente".to_owned(), of.clone());
        Ok(envelope)
    };
    if let Ok(envelope) = write(letter.clone()) {
        let whole = Parcel::own(envelope)?;
        if read(whole.body.as_bytes()).is_ok() {
            return Ok(whole);
        }
    }
    Parcel::own(write(Letter { payload: instead, ..letter.clone() })?)
}

/// Returns the task's trace with a span derived from the answer's id, so that writing the answer again gives
/// the same trace.
fn trace(task: &Kept, id: &str) -> Option<Trace> {
    let noted = read(task.body.as_bytes()).ok()?.trace?.trace_id?;
    let trace_id = u128::from_str_radix(&noted, 16).ok().filter(|_| noted.len() == 32)?;
    let span = sha256(id).first_chunk().map_or(1, |bytes| u64::from_be_bytes(*bytes));
    Trace::new(trace_id, span.max(1), true)
}
