//! Approvals: tasks that wait for a person to agree (`requires.human_approval`, AEE §3). Which tasks need one
//! and who may decide is in `entente_domain::aee::envelopes::approvals`; the held exchanges are in `exchanges.rs`.
//!
//! A waiting task is in no mailbox, and only its sender and the approvers can read it. The decision is stored
//! in its exchanges.

use chrono::TimeDelta;
use entente_domain::aee::envelopes::approvals as domain;
use entente_domain::aee::envelopes::approvals::Decision;
use entente_domain::aee::envelopes::pairing::{Pair, PairStatus};
use entente_domain::aee::envelopes::receipt::{ReceiptStatus, Voucher};
use entente_domain::aee::envelopes::{EnvelopeType, drafts, is_bus, read, signing};
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::identity::authority;
use entente_domain::identity::keys::Scope;
use entente_domain::limits::TEXT_BYTES;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::identity::principals;
use entente_kernel::{AppError, Caller, Outcome, not_found};
use sqlx::PgConnection;

use crate::Ctx;
use crate::envelopes;
use crate::envelopes::{Disposition, PreparedEnvelope, StoredEnvelope};
use crate::ingest;
use crate::ingest::IngestResult;
use crate::mailboxes;
use crate::mailboxes::{Item, Known};
use crate::policy::snapshot::PolicySnapshot;
use crate::policy::{snapshot, version};
use crate::{envelope_keys, exchanges, redactions};

/// A task that waits for approval.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// The task.
    pub task: StoredEnvelope,
    /// The entities that are to do it.
    pub respondents: Vec<String>,
}

/// A decision on a task.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The task's id.
    pub id: String,
    /// The decision.
    pub decision: Decision,
    /// The principal that decided.
    pub by: String,
    /// When it was decided.
    pub at: Timestamp,
    /// Number of mailboxes the task was delivered to.
    pub delivered: usize,
}

/// Holds back a task that needs a person's approval; tasks addressed to the server itself are answered at
/// once and never come here.
pub(crate) async fn park(ctx: &Ctx, prepared: &mut PreparedEnvelope) -> Outcome<()> {
    // Most tasks need no approval, so the recipient is only looked up for those that ask for it.
    if !prepared.envelope.requires.human_approval {
        return Ok(());
    }
    let recipient = &prepared.envelope.recipient;
    let known = if is_bus(recipient) {
        None
    } else {
        principals::find(&mut *ctx.pool.acquire().await?, recipient).await?
    };
    if domain::needed(&prepared.envelope, known.map(|principal| principal.kind)) {
        prepared.disposition = Disposition::Hold;
        // A task that nobody decides about expires too (AEE §11.6).
        let most = TimeDelta::from_std(ctx.state.settings.max_timeout).unwrap_or(TimeDelta::MAX);
        prepared.deadline = prepared.deadline.or_else(|| ctx.now().checked_add_signed(most));
    }
    Ok(())
}

fn require_person(ctx: &Ctx, caller: &Caller) -> Result<(), Refusal> {
    domain::require_person(caller.principal(), caller.grant.kind, ctx.state.settings.approver.as_deref())
}

/// Lists the tasks that the caller may decide about, excluding its own.
///
/// The oldest task of each principal comes first, then the second oldest of each, and so on, so that no
/// principal can hide the tasks of others by sending many. `after` is a task from an earlier page; the list
/// continues behind it.
///
/// # Errors
/// The scope is missing; the caller may not approve tasks.
pub async fn waiting(ctx: &Ctx, caller: &Caller, after: Option<&str>, limit: u32) -> Outcome<Vec<Waiting>> {
    caller.require(Scope::MailRead)?;
    require_person(ctx, caller)?;
    let mut conn = ctx.pool.acquire().await?;
    let ids = ids(&mut conn, caller, ctx.now(), after, limit).await?;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut tasks = envelopes::load_all(&mut conn, &ids).await?;
    let pairs = exchanges::of(&mut conn, &ids).await?;
    let found = ids.into_iter().filter_map(|id| {
        let respondents = pairs.iter().filter(|pair| pair.task_id == id).map(|pair| pair.respondent.clone());
        Some(Waiting { task: tasks.remove(id)?, respondents: respondents.collect() })
    });
    Ok(found.collect())
}

/// As [`waiting`], for a page that shows it beside other lists; empty for callers that may not approve tasks.
///
/// # Errors
/// A database error.
pub async fn offered(ctx: &Ctx, caller: &Caller, limit: u32) -> Outcome<Vec<Waiting>> {
    if !may_be_asked(ctx, caller) {
        return Ok(Vec::new());
    }
    waiting(ctx, caller, None, limit).await
}

/// Returns a digest of the tasks [`offered`], which changes when they do.
///
/// # Errors
/// A database error.
pub async fn fingerprint(ctx: &Ctx, caller: &Caller, limit: u32) -> Outcome<i64> {
    if !may_be_asked(ctx, caller) {
        return Ok(0);
    }
    let mut conn = ctx.pool.acquire().await?;
    let ids = ids(&mut conn, caller, ctx.now(), None, limit).await?;
    let digest = sha256(ids.join("\n"));
    Ok(digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes)))
}

fn may_be_asked(ctx: &Ctx, caller: &Caller) -> bool {
    caller.has(Scope::MailRead) && require_person(ctx, caller).is_ok()
}

/// Returns the ids of the tasks that wait for the caller, in the order of [`waiting`].
async fn ids(
    conn: &mut PgConnection,
    caller: &Caller,
    now: Timestamp,
    after: Option<&str>,
    limit: u32,
) -> Outcome<Vec<String>> {
    let ids = sqlx::query_scalar!(
        "-- approvals::waiting
         WITH waiting AS (
             SELECT DISTINCT p.task_id, p.created_at, coalesce(e.principal_id, e.sender) AS who
             FROM aee_pairs p JOIN aee_envelopes e ON e.id = p.task_id
             WHERE p.status = 'held' AND (p.deadline IS NULL OR p.deadline > $1)
               AND e.sender <> $2 AND e.principal_id IS DISTINCT FROM $2),
         turns AS (
             SELECT task_id, created_at, row_number() OVER (PARTITION BY who ORDER BY created_at, task_id) AS turn
             FROM waiting),
         place AS (
             SELECT a.id AS task_id, a.received_at AS created_at, (
                 SELECT count(*) + 1 FROM waiting w WHERE w.who = coalesce(a.principal_id, a.sender)
                   AND (w.created_at, w.task_id) < (a.received_at, a.id)) AS turn
             FROM aee_envelopes a WHERE a.id = $3)
         SELECT t.task_id FROM turns t LEFT JOIN place p ON true
         WHERE p.task_id IS NULL OR (t.turn, t.created_at, t.task_id) > (p.turn, p.created_at, p.task_id)
         ORDER BY t.turn, t.created_at, t.task_id LIMIT $4",
        now,
        caller.principal(),
        after,
        i64::from(limit)
    )
    .fetch_all(conn)
    .await?;
    Ok(ids)
}

/// Decides about a task, once: delivers it, or sends an error to its sender.
///
/// # Errors
/// The caller may not decide; no task with this id waited; it was decided already; it expired.
pub async fn decide(
    ctx: &Ctx,
    caller: &Caller,
    id: &str,
    decision: Decision,
    reason: Option<&str>,
) -> Outcome<Decided> {
    caller.require(Scope::MailWrite)?;
    require_person(ctx, caller)?;
    // A key that somebody else issued for a person may read, but not decide.
    authority::require(caller.authority())?;
    if reason.is_some_and(|reason| reason.len() > TEXT_BYTES) {
        let message = format!("`reason` may have at most {TEXT_BYTES} bytes.");
        return Err(Refusal::field(Code::InvalidRequest, "reason", "too_long", message).into());
    }
    let book = snapshot::latest(ctx).await?;
    let mut tx = ctx.pool.begin().await?;
    // Same lock order as ingest: exchanges, then mailboxes.
    let pairs = exchanges::lock_task(&mut tx, id).await?;
    let task = envelopes::load(&mut tx, id).await?;
    let task = task.filter(|kept| kept.receipt.status == ReceiptStatus::Held);
    let task = task.ok_or_else(|| not_found("task that waits for a person"))?;
    domain::require_other(caller.principal(), &task.sender, handed_in_by(&mut tx, id).await?.as_deref())?;
    let now = ctx.now();
    domain::require_waiting(&pairs, now)?;
    let held: Vec<Pair> = pairs
        .into_iter()
        .map(|(pair, _)| pair)
        .filter(|pair| pair.status_at(now) == PairStatus::Held)
        .collect();
    let by = caller.principal();
    let put = match decision {
        Decision::Approve => {
            exchanges::agree(&mut tx, id, by, now, reason).await?;
            hand_out(ctx, &mut tx, &book, &task, &held, now).await?
        }
        Decision::Decline => {
            let prepared = declined(ctx, &task, reason, now)?;
            exchanges::decline(&mut tx, id, &prepared.envelope.id, by, now, reason).await?;
            ingest::put(ctx, &mut tx, &mut Known::default(), &[prepared], now).await?
        }
    };
    tx.commit().await?;
    put.announce(ctx);
    let delivered = if decision == Decision::Approve { put.touched.len() } else { 0 };
    tracing::info!(target: "entente::aee", id = ?id, decided_by = by, authority = ?caller.authority(), ?decision, "a task was decided about");
    Ok(Decided { id: id.to_owned(), decision, by: by.to_owned(), at: now, delivered })
}

/// Delivers a held task, or the redacted copies that the rules require; the rules and the signing key are
/// checked as of now.
async fn hand_out(
    ctx: &Ctx,
    conn: &mut PgConnection,
    book: &PolicySnapshot,
    task: &StoredEnvelope,
    held: &[Pair],
    now: Timestamp,
) -> Outcome<IngestResult> {
    let envelope = read(task.body.as_bytes())?;
    version::hold(conn).await?;
    if version::current(conn).await? != book.version {
        return Err(AppError::Overtaken);
    }
    if let Some(kid) = task.receipt.verified.kid.clone() {
        let key = (task.sender.clone(), kid);
        if !envelope_keys::still_in_force(conn, std::slice::from_ref(&key), now).await?.contains(&key) {
            return Err(signing::wrong().into());
        }
    }
    let signed = task.receipt.verified.by == Voucher::Sig;
    let passage = ingest::passage(ctx, book, &task.sender, &task.recipient, &task.purpose, signed)?;
    let receipt = &task.receipt;
    if !passage.redact.is_empty() {
        let made = redactions::stand_in(ctx, &envelope, receipt, &task.recipient, &passage.redact, now)?;
        let mut put = ingest::put(ctx, conn, &mut Known::default(), &[made], now).await?;
        return match put.answers.pop() {
            Some(Err(refused)) => Err(refused),
            _ => Ok(put),
        };
    }
    let respondents: Vec<&str> = held.iter().map(|pair| pair.respondent.as_str()).collect();
    let ends = mailboxes::lock(conn, &mut Known::default(), &respondents, now).await?;
    let (mut items, mut made) = (Vec::new(), Vec::new());
    for entity in respondents {
        // Rules are checked per listener of a bus. The exchange of a barred listener waits until its
        // deadline.
        let passage = ingest::passage(ctx, book, &task.sender, entity, &task.purpose, signed);
        let Ok(passage) = passage else { continue };
        if passage.redact.is_empty() {
            let end = ends.get(entity).copied().unwrap_or_default();
            let effective = passage.believed(task.receipt.effective_priority);
            items.push(Item::new(entity, end + 1, &task.id, effective, now));
        } else {
            made.push(redactions::stand_in(ctx, &envelope, receipt, entity, &passage.redact, now)?);
        }
    }
    mailboxes::put(conn, &items).await?;
    let pushed = ingest::push(ctx, conn, &items, |_| Some(task.clone()), now).await?;
    let put = ingest::put(ctx, conn, &mut Known::default(), &made, now).await?;
    if envelope.is_broadcast() {
        envelopes::agreed(conn, &task.id).await?;
    }
    let own = items.into_iter().map(|item| item.entity);
    let mut noted = put.noted;
    noted.push(("handed out", envelope));
    let touched = own.chain(put.touched).collect();
    Ok(IngestResult {
        answers: Vec::new(),
        touched,
        pushed: pushed || put.pushed,
        is_told: put.is_told,
        noted,
    })
}

/// Builds the gateway's error to the sender of a declined task.
fn declined(
    ctx: &Ctx,
    task: &StoredEnvelope,
    reason: Option<&str>,
    now: Timestamp,
) -> Outcome<PreparedEnvelope> {
    let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let message = format!("A person did not agree to this task{why}");
    let draft = drafts::EnvelopeDraft {
        kind: EnvelopeType::Error,
        sender: &ctx.state.settings.entity,
        recipient: &task.sender,
        purpose: &task.purpose,
        corr: &task.corr,
        reply_to: Some(&task.id),
        priority: task.receipt.effective_priority,
        payload: drafts::failure("E_DECLINED", &message, false),
        trace: None,
    };
    PreparedEnvelope::own(draft.write(now, &*ctx.chance)?)
}

async fn handed_in_by(conn: &mut PgConnection, id: &str) -> Outcome<Option<String>> {
    let who = sqlx::query_scalar!(
        "-- approvals::handed_in_by\n SELECT principal_id FROM aee_envelopes WHERE id = $1",
        id
    );
    Ok(who.fetch_optional(conn).await?.flatten())
}
