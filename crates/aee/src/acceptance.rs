//! Acceptance of envelopes (AEE): decides whether an envelope may be sent, and submits it to the group commit.
//!
//! The domain rules are `entente_domain::aee::envelopes`; `ingest.rs` writes the accepted envelopes in batches.

use chrono::TimeDelta;
use entente_domain::aee::envelopes::receipt::{Receipt, Verified, Voucher};
use entente_domain::aee::envelopes::signing::{self, Sig};
use entente_domain::aee::envelopes::{
    Envelope, EnvelopeType, Priority, Warning, drafts, hash, policy, purposes, read,
};
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::payload::questions::carries_question;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::identity::entities::speaks_for;
use entente_kernel::{AppError, Caller, Outcome};
use entente_runtime::fences;

use crate::Ctx;
use crate::envelopes;
use crate::envelopes::{Disposition, Original, PreparedEnvelope, note_refusal};
use crate::ingest;
use crate::ingest::{Ingest, Signatures};
use crate::policy::snapshot;
use crate::policy::snapshot::PolicySnapshot;
use crate::{answers, approvals, buses, envelope_keys, redactions};

/// Maximum number of envelopes accepted at once.
pub const BATCH: usize = 100;

/// Maximum number of evaluations of an envelope while rules and schemas change; then its sender must retry.
const JUDGED: usize = 4;

/// The result of accepting an envelope.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Its receipt.
    pub receipt: Receipt,
    /// The server's answer, if it was a task for the server.
    pub reply: Option<String>,
}

/// Accepts an envelope.
///
/// # Errors
/// The domain rules' refusals (`entente_domain::aee::envelopes`); [`Code::FromMismatch`],
/// [`Code::UnknownRecipient`], [`Code::DuplicateId`], with the first receipt if it was the same envelope.
pub async fn accept(ctx: &Ctx, caller: &Caller, ingest: &Ingest, bytes: &[u8]) -> Outcome<Accepted> {
    let mut taken = accept_all(ctx, caller, ingest, &[bytes]).await?;
    taken.pop().unwrap_or_else(|| Err(AppError::Inconsistent("an envelope got no answer".to_owned())))
}

/// Accepts several envelopes in order; each has its own result.
///
/// # Errors
/// The key lacks the scope.
pub async fn accept_all(
    ctx: &Ctx,
    caller: &Caller,
    ingest: &Ingest,
    all: &[&[u8]],
) -> Outcome<Vec<Outcome<Accepted>>> {
    caller.require(Scope::MailWrite)?;
    let mut answers = round(ctx, caller, ingest, all).await?;
    for _ in 1..JUDGED {
        let judged = all.iter().zip(&answers);
        let left = judged.filter(|(_, answer)| matches!(answer, Err(AppError::Overtaken)));
        let left: Vec<&[u8]> = left.map(|(bytes, _)| *bytes).collect();
        if left.is_empty() {
            break;
        }
        let again = round(ctx, caller, ingest, &left).await?;
        let overtaken = answers.iter_mut().filter(|answer| matches!(answer, Err(AppError::Overtaken)));
        overtaken.zip(again).for_each(|(answer, new)| *answer = new);
    }
    for (bytes, answer) in all.iter().zip(&answers) {
        if let Err(AppError::Refused(refusal)) = answer {
            note_refusal(bytes, refusal);
        }
    }
    Ok(answers)
}

/// Evaluates envelopes by the cached policy snapshot and submits those that pass; if the policy has changed,
/// their results are `Overtaken` and the snapshot is reloaded.
async fn round(
    ctx: &Ctx,
    caller: &Caller,
    ingest: &Ingest,
    all: &[&[u8]],
) -> Outcome<Vec<Outcome<Accepted>>> {
    let book = snapshot::at_hand(ctx).await?;
    let mut bundles = Vec::with_capacity(all.len());
    let mut judged = Vec::with_capacity(all.len());
    for bytes in all {
        judged.push(prepare(ctx, caller, &book, bytes).await.map(|prepared| {
            bundles.push(prepared.prepared_envelopes);
            prepared.reply
        }));
    }
    let mut receipts = ingest.hand_in(bundles).await.into_iter();
    let answer = |judged: Outcome<Option<String>>| {
        let reply = judged?;
        let receipt =
            receipts.next().unwrap_or_else(|| Err(AppError::Inconsistent("no receipt".to_owned())))?;
        Ok(Accepted { receipt, reply })
    };
    let mut answers: Vec<Outcome<Accepted>> = judged.into_iter().map(answer).collect();
    // An envelope refused before it reached a writer may have been refused by outdated rules.
    if answers.iter().any(|answer| matches!(answer, Err(AppError::Refused(_) | AppError::Overtaken)))
        && snapshot::latest(ctx).await?.version != book.version
    {
        for answer in answers.iter_mut().filter(|answer| matches!(answer, Err(AppError::Refused(_)))) {
            *answer = Err(AppError::Overtaken);
        }
    }
    Ok(answers)
}

/// An envelope that may be submitted.
pub(crate) struct Prepared {
    /// The envelope, and others that are committed with it.
    pub prepared_envelopes: Vec<PreparedEnvelope>,
    /// The server's own answer, if the envelope is for the server.
    pub reply: Option<String>,
}

impl From<PreparedEnvelope> for Prepared {
    fn from(prepared: PreparedEnvelope) -> Self {
        Self { prepared_envelopes: vec![prepared], reply: None }
    }
}

/// Refuses to broadcast a question to a person, anywhere in the envelope: it goes to that person alone
/// (binding moment §7.4).
fn refuse_broadcast(envelope: &Envelope, body: &str) -> Result<(), Refusal> {
    if !envelope.is_broadcast() || !carries_question(body) {
        return Ok(());
    }
    let message = "The envelope has a `binding_moment`, a question to one person, and goes to whoever listens. Ask that person: \
                   POST /api/v1/moments.";
    Err(Refusal::field(Code::InvalidMoment, "payload", "broadcast", message))
}

/// Evaluates an envelope without looking at others; returns the prepared envelope, and the server's own
/// answer if the envelope is for the server.
pub(crate) async fn prepare(
    ctx: &Ctx,
    caller: &Caller,
    book: &PolicySnapshot,
    bytes: &[u8],
) -> Outcome<Prepared> {
    let envelope = read(bytes)?;
    ctx.objection(caller, envelope.sender.as_str(), None).map_or(Ok(()), Err)?;
    require_room(ctx, caller, &envelope).await?;
    let now = ctx.now();
    let settings = &ctx.state.settings;
    // Before anything else is done with it (AEE §11.2).
    let verified = verify(ctx, &envelope, bytes).await?;
    vouch(ctx, caller, &envelope, &verified).await?;
    let body = String::from_utf8(bytes.to_vec()).map_err(|error| {
        AppError::Inconsistent(format!("an envelope that was parsed is not UTF-8: {error}"))
    })?;
    refuse_broadcast(&envelope, &body)?;
    purposes::admit(&envelope.purpose, &settings.tolerated)?;
    if let Some(sent_at) = envelope.sent_at {
        settings.window.admit(sent_at, now)?;
    } else if ctx.settings.strict {
        let message = "`ts` names no moment (RFC 3339). Write it like 2026-11-21T12:00:00Z.";
        return Err(Refusal::field(Code::InvalidEnvelope, "ts", "ts_unparseable", message).into());
    }
    let (passage, misfit) = pass(ctx, book, &envelope, &verified).await?;
    let (asked, requires) = envelope.believed();
    let effective = admitted(ctx, caller, &envelope, passage.believed(asked)).await?;
    let timeout = requires.timeout_ms.filter(|_| envelope.kind == EnvelopeType::Task);
    let (deadline, capped) = deadline(timeout, settings.max_timeout, now);
    let mut warnings = envelope.warnings.clone();
    let partly = (asked, requires) != (envelope.priority, envelope.requires);
    warnings.extend(partly.then_some(Warning::PartlySigned));
    warnings.extend(verified.sig.map(|_unverified| Warning::SigUnverified));
    warnings.extend(capped.then_some(Warning::TimeoutCapped));
    warnings.extend(misfit);
    warnings.extend((effective < envelope.priority).then_some(Warning::PriorityLowered));
    let mut prepared = PreparedEnvelope {
        judged: Some(book.version),
        digest: sha256(&body),
        hash: hash(&envelope.members),
        body,
        principal: Some(caller.principal().to_owned()),
        verified,
        effective,
        deadline,
        warnings,
        original: None,
        disposition: Disposition::Deliver,
        made: None,
        refutation: None,
        fences: fences::current(),
        envelope,
    };
    if prepared.envelope.recipient != settings.entity {
        approvals::park(ctx, &mut prepared).await?;
        return Ok(redactions::instead(ctx, prepared, &passage.redact)?.into());
    }
    prepared.disposition = Disposition::Keep;
    if prepared.envelope.kind != EnvelopeType::Task {
        let mut conn = ctx.pool.acquire().await?;
        return Ok(redactions::passed_back(ctx, &mut conn, book, prepared).await?.into());
    }
    answered(ctx, caller, prepared).await
}

/// Applies rules and schemas to an envelope, regardless of its sender.
async fn pass(
    ctx: &Ctx,
    book: &PolicySnapshot,
    envelope: &Envelope,
    verified: &Verified,
) -> Outcome<(policy::Passage, Option<Warning>)> {
    let signed = verified.by == Voucher::Sig;
    let passage =
        ingest::passage(ctx, book, &envelope.sender, &envelope.recipient, &envelope.purpose, signed)?;
    Ok((passage, book.fits(ctx, envelope).await?))
}

/// Applies rules and schemas to an envelope that the server sends on behalf of others (`crates/bridges`).
///
/// # Errors
/// The envelope broadcasts a question; a rule or a schema refuses it; a database error.
pub async fn judged(
    ctx: &Ctx,
    conn: &mut sqlx::PgConnection,
    book: &PolicySnapshot,
    prepared: PreparedEnvelope,
) -> Outcome<PreparedEnvelope> {
    let envelope = &prepared.envelope;
    refuse_broadcast(envelope, &prepared.body)?;
    let (passage, misfit) = pass(ctx, book, envelope, &prepared.verified).await?;
    let mut warnings = prepared.warnings.clone();
    warnings.extend(misfit);
    let effective = passage.believed(prepared.effective);
    warnings.extend((effective < envelope.priority).then_some(Warning::PriorityLowered));
    let prepared = PreparedEnvelope { effective, warnings, ..prepared };
    if prepared.envelope.recipient == ctx.state.settings.entity {
        return redactions::passed_back(
            ctx,
            conn,
            book,
            PreparedEnvelope { disposition: Disposition::Keep, ..prepared },
        )
        .await;
    }
    redactions::instead(ctx, prepared, &passage.redact)
}

/// Prepares a task for the server with its answer and the notices to others.
async fn answered(ctx: &Ctx, caller: &Caller, mut asked: PreparedEnvelope) -> Outcome<Prepared> {
    let entity = &ctx.state.settings.entity;
    let answer = answers::answer(ctx, caller, entity, &asked.envelope).await?;
    let mut draft = drafts::EnvelopeDraft::answering(&asked.envelope, entity, answer.kind, answer.payload);
    draft.trace = caller.trace.map(|trace| trace.step(&*ctx.chance));
    let write = |draft: drafts::EnvelopeDraft<'_>| draft.write(ctx.now(), &*ctx.chance);
    let reply = if answer.repeats {
        let short = drafts::EnvelopeDraft {
            payload: answers::without_envelope(draft.payload.clone()),
            ..draft.clone()
        };
        PreparedEnvelope::repeating(write(draft)?)
            .or_else(|_too_much| PreparedEnvelope::own(write(short)?))?
    } else {
        PreparedEnvelope::own(write(draft)?)?
    };
    let original = Original::of(&asked.envelope);
    asked.refutation = answer.refutation;
    let mut prepared = Prepared { prepared_envelopes: vec![asked], reply: Some(reply.body.clone()) };
    // An answer that only repeats a stored envelope is returned but not stored, so that asking is cheap.
    if !answer.repeats {
        prepared.prepared_envelopes.push(PreparedEnvelope { disposition: Disposition::Keep, ..reply });
    }
    for notice in answer.notices {
        prepared
            .prepared_envelopes
            .push(PreparedEnvelope { original: Some(original.clone()), ..PreparedEnvelope::own(notice)? });
    }
    Ok(prepared)
}

async fn verify(ctx: &Ctx, envelope: &Envelope, bytes: &[u8]) -> Outcome<Verified> {
    let settings = &ctx.state.settings;
    let always = settings.signatures == Signatures::Always;
    if settings.opaque_signatures && !always && signing::is_opaque(&envelope.members) {
        return Ok(Verified::unchecked());
    }
    let Some(sig) = Sig::read(&envelope.members)? else {
        return if always { Err(policy::unsigned().into()) } else { Ok(Verified::by(Voucher::Token)) };
    };
    signing::check_numbers(bytes, sig.scope)?;
    envelope_keys::verify(ctx, envelope, &sig).await?;
    Ok(Verified::signed(sig.kid, sig.scope))
}

/// Requires that the caller's principal is not over its quota of stored bytes; a repeated envelope gets its receipt all the same.
async fn require_room(ctx: &Ctx, caller: &Caller, envelope: &Envelope) -> Outcome<()> {
    let Some(full) = ctx.quotas.objection(caller) else { return Ok(()) };
    let stored = envelopes::load(&mut *ctx.pool.acquire().await?, &envelope.id).await?;
    if stored.is_some() { Ok(()) } else { Err(full.into()) }
}

/// Requires that `from` is the caller's (AEE §11.5), or that the envelope is signed and the caller is its
/// relay.
async fn vouch(ctx: &Ctx, caller: &Caller, envelope: &Envelope, verified: &Verified) -> Outcome<()> {
    let settings = &ctx.state.settings;
    let own = envelope.sender == caller.principal() && caller.is_itself();
    if envelope.sender != settings.entity
        && (own || speaks_for(&mut *ctx.pool.acquire().await?, caller, &envelope.sender).await?)
    {
        return Ok(());
    }
    let relayed = verified.by == Voucher::Sig
        && settings
            .relays
            .iter()
            .any(|relay| relay.principal == caller.principal() && relay.entities.matches(&envelope.sender));
    if relayed && envelope.sender != settings.entity {
        return Ok(());
    }
    let message = format!(
        "`from` is `{}`, for whom this key may not speak (AEE §11.5). Use that entity's own key, or one whose act_as covers it; \
         act_as never covers a person.",
        envelope.sender
    );
    Err(Refusal::field(Code::FromMismatch, "from", "from_mismatch", message).into())
}

/// Returns an envelope's effective priority by its sender's and its principal's recent use; an envelope to a
/// bus counts once per listener.
async fn admitted(ctx: &Ctx, caller: &Caller, envelope: &Envelope, asked: Priority) -> Outcome<Priority> {
    let (principal, sender) = (caller.principal(), envelope.sender.as_str());
    let quotas = &ctx.state.quotas;
    let since_start = quotas.since_start();
    let effective = quotas.admit(principal, sender, asked, since_start)?;
    if envelope.is_broadcast() && quotas.counts_all() {
        let bus = envelope.recipient.as_str();
        let sizes = buses::sizes(&mut *ctx.pool.acquire().await?, &[bus]).await?;
        let others = sizes.get(bus).map_or(0, |size| size.saturating_sub(1));
        quotas.charge(principal, sender, u32::try_from(others).unwrap_or(u32::MAX), since_start);
    }
    Ok(effective)
}

/// Returns the deadline for answers (AEE §11.6), and whether it is earlier than requested.
fn deadline(asked: Option<u64>, most: std::time::Duration, now: Timestamp) -> (Option<Timestamp>, bool) {
    let Some(asked) = asked else { return (None, false) };
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    let millis = i64::try_from(asked.min(most)).unwrap_or(i64::MAX);
    (now.checked_add_signed(TimeDelta::milliseconds(millis)), asked > most)
}
