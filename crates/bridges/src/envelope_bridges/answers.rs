//! Results of jobs that were created from tasks: their events are sent as `stream`, their ends as `result` or
//! `error`, from the entity that was asked. Each is written in the transaction that records it.

use entente_aee::envelopes::{PreparedEnvelope, StoredEnvelope};
use entente_aee::mailboxes::Known;
use entente_aee::policy::snapshot;
use entente_aee::policy::snapshot::PolicySnapshot;
use entente_aee::{acceptance, envelopes, ingest};
use entente_arcp::jobs;
use entente_arcp::jobs::Stored;
use entente_domain::aee::envelopes::drafts::EnvelopeDraft;
use entente_domain::aee::envelopes::receipt::{Verified, Voucher};
use entente_domain::aee::envelopes::{Envelope, EnvelopeType, read};
use entente_domain::bridges::{self as domain, Jobs};
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::refusal::Refusal;
use entente_domain::traces::Trace;
use entente_kernel::{AppError, Outcome};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::rows::{self, Carried, Open, Source};
use super::run::{BridgeRun, STRETCH};

/// Maximum number of events of one job reported at once.
const EVENTS: i64 = 64;

/// Reports new job events to the senders of the tasks.
pub(super) async fn bring(run: &BridgeRun<'_>, bridge: &Jobs) -> Outcome<u64> {
    let mut conn = run.ctx.pool.acquire().await?;
    let news = rows::news(&mut conn, &run.kept.name, i64::from(STRETCH)).await?;
    drop(conn);
    for source in &news {
        tell(run, bridge, source).await?;
    }
    Ok(news.len() as u64)
}

/// Reports the next events of one job.
async fn tell(run: &BridgeRun<'_>, bridge: &Jobs, source: &str) -> Outcome<()> {
    let (ctx, name) = (run.ctx, &run.kept.name);
    let mut tx = ctx.pool.begin().await?;
    let Some(open) = rows::lock(&mut tx, name, source).await? else { return Ok(()) };
    let events = jobs::log::after(&mut tx, open.job_id, open.told, EVENTS, jobs::log::BYTES).await?;
    let Some(last) = events.last() else { return Ok(()) };
    let goes_on = !last.is_terminal();
    let now = ctx.now();
    let book = snapshot::latest(&ctx.aee).await?;
    let mut prepared_envelopes = Vec::new();
    // A task that is no longer stored has no sender to report to.
    if let Some(task) = envelopes::load(&mut tx, source).await? {
        for event in &events {
            let Some((source, prepared)) = prepare_event(run, bridge, &task, &open, event)? else { continue };
            prepared_envelopes.extend(admitted(run, &book, Source::Event(&source), prepared, &mut tx).await?);
        }
    }
    let put = ingest::put(&ctx.aee, &mut tx, &mut Known::default(), &prepared_envelopes, now).await?;
    for refused in put.answers.iter().filter_map(|answer| answer.as_ref().err()) {
        // The task has already ended, or there is no mailbox for the report.
        tracing::debug!(bridge = name, error = %refused, "what became of a job was told to nobody");
    }
    rows::tell(&mut tx, name, source, last.job_seq, goes_on).await?;
    tx.commit().await?;
    put.announce(&ctx.aee);
    Ok(())
}

/// Builds the envelope for an event, if it has one, with the name of its source.
fn prepare_event(
    run: &BridgeRun<'_>,
    bridge: &Jobs,
    task: &StoredEnvelope,
    open: &Open,
    event: &Stored,
) -> Outcome<Option<(String, PreparedEnvelope)>> {
    let job = open.job_id.to_string();
    let Some(said) = domain::answer(&job, &event.type_, event.kind.as_deref(), &event.body)? else {
        return Ok(None);
    };
    let source = format!("{job}/{}", event.job_seq);
    let (kind, payload) = said;
    let answer = Answer { kind, payload, source: &source, at: event.ts, job: Some(&job) };
    let prepared = prepared(run, bridge, task, answer)?;
    Ok(Some((source, prepared)))
}

/// Admits an envelope by this server's rules, once; `None` if it was sent before or is refused.
pub(super) async fn admitted(
    run: &BridgeRun<'_>,
    book: &PolicySnapshot,
    source: Source<'_>,
    prepared: PreparedEnvelope,
    conn: &mut PgConnection,
) -> Outcome<Option<PreparedEnvelope>> {
    let (ctx, bridge) = (run.ctx, run.kept.name.as_str());
    let target = prepared.envelope.id.clone();
    if !rows::carried(conn, &Carried { bridge, source, target: &target, at: ctx.now(), job: None }).await? {
        return Ok(None);
    }
    let prepared = match acceptance::judged(&ctx.aee, conn, book, prepared).await {
        Ok(prepared) => prepared,
        Err(AppError::Refused(refusal)) => {
            tracing::info!(bridge, error = %refusal, "what was to be carried may not pass");
            return Ok(None);
        }
        Err(failure) => return Err(failure),
    };
    // The gateway's replacement counts as the bridge's output too, so that no other bridge carries it.
    if let Some(made) = &prepared.made {
        let (source, target) = (Source::Made(&prepared.envelope.id), made.envelope.id.as_str());
        rows::carried(conn, &Carried { bridge, source, target, at: ctx.now(), job: None }).await?;
    }
    Ok(Some(prepared))
}

/// An answer to a task, before it is an envelope.
pub(super) struct Answer<'a> {
    pub kind: EnvelopeType,
    pub payload: Value,
    /// Name of its source, from which the envelope's id is derived.
    pub source: &'a str,
    /// When its source came about.
    pub at: Timestamp,
    /// The task's job, if there is one.
    pub job: Option<&'a str>,
}

/// Builds an envelope from the entity that was asked to the sender, with an id derived from the answer's source.
///
/// It is sent with the permissions of the bridge's key, and judged like any other answer.
pub(super) fn prepared(
    run: &BridgeRun<'_>,
    bridge: &Jobs,
    task: &StoredEnvelope,
    answer: Answer<'_>,
) -> Outcome<PreparedEnvelope> {
    let Answer { kind, payload, source, at, job } = answer;
    let id = domain::envelope_id(&run.kept.salt, source, at);
    let gateway = task.sender == run.ctx.aee.state.settings.entity;
    let draft = EnvelopeDraft {
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
    let of = json!({ "bridge": run.kept.name, "job_id": job });
    let instead = domain::omitted("job_id", job.unwrap_or_default());
    let written = written(&draft, &id, at, &of, instead)?;
    let principal = Some(run.kept.created_by.clone());
    Ok(PreparedEnvelope { principal, verified: Verified::by(Voucher::Token), ..written })
}

/// Writes an envelope that a server as strict as this one accepts; `instead` replaces a payload that is too
/// large, too deep or invalid.
///
/// The source is stored in a member of this server's own, which others ignore (AEE §6.7).
pub(super) fn written(
    draft: &EnvelopeDraft<'_>,
    id: &str,
    at: Timestamp,
    of: &Value,
    instead: Value,
) -> Outcome<PreparedEnvelope> {
    let write = |draft: EnvelopeDraft<'_>| -> Result<Envelope, Refusal> {
        let mut envelope = draft.write_as(id.to_owned(), at)?;
        envelope.members.insert("entente".to_owned(), of.clone());
        Ok(envelope)
    };
    if let Ok(envelope) = write(draft.clone()) {
        let whole = PreparedEnvelope::own(envelope)?;
        if read(whole.body.as_bytes()).is_ok() {
            return Ok(whole);
        }
    }
    PreparedEnvelope::own(write(EnvelopeDraft { payload: instead, ..draft.clone() })?)
}

/// Returns the trace id of an envelope's thread.
pub(super) fn trace_id(envelope: &StoredEnvelope) -> String {
    let noted = read(envelope.body.as_bytes()).ok().and_then(|envelope| envelope.trace);
    domain::trace_id(noted.and_then(|noted| noted.trace_id).as_deref(), &envelope.corr)
}

/// Returns the task's trace with a span derived from the answer's id, so that writing the answer again gives
/// the same trace.
fn trace(task: &StoredEnvelope, id: &str) -> Option<Trace> {
    let noted = read(task.body.as_bytes()).ok()?.trace?.trace_id?;
    let trace_id = u128::from_str_radix(&noted, 16).ok().filter(|_| noted.len() == 32)?;
    let span = sha256(id).first_chunk().map_or(1, |bytes| u64::from_be_bytes(*bytes));
    Trace::new(trace_id, span.max(1), true)
}
