//! Envelopes (AEE): whether one may be sent, and what is kept of it. Table `aee_envelopes`.
//!
//! The law is `entente_domain::envelopes`; how a batch is written `post.rs`; where it lies for its recipients `mailboxes.rs`.
//! The text that came in is kept and handed on as it is; what the gateway adds stands beside it.

mod noting;
mod references;
mod rows;
mod threads;
mod untimed;

use chrono::TimeDelta;
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::envelopes::receipt::{Receipt, Verified, Voucher};
use entente_domain::envelopes::signing::Sig;
use entente_domain::envelopes::{
    Envelope, EnvelopeType, Priority, Warning, hash, letters, policy, purposes, read,
};
use entente_domain::keys::Scope;
use entente_domain::moments::carries_question;
use entente_domain::refusal::{Code, Refusal};

pub(crate) use self::noting::note;
pub use self::noting::note_refusal;
pub(crate) use self::references::{Referred, referred};
pub use self::rows::Kept;
pub(crate) use self::rows::{Stub, agreed, insert, load, load_all, stubs};
pub use self::threads::{Leaf, thread};
pub(crate) use self::untimed::remembered;
use super::post::{self, Original, Parcel, Post, Signatures, Way};
use super::rulebook::{self, Rulebook};
use super::voices::{Voices, speaks_for};
use super::{
    AppError, Caller, Ctx, Outcome, answers, approvals, buses, envelope_keys, mailboxes, not_found, pairs,
    redactions, refutations,
};

/// Envelopes that are taken in at once at the most.
pub const BATCH: usize = 100;

/// How often an envelope is judged before its sender has to come again, while rules and schemas keep changing.
const JUDGED: usize = 4;

/// What has become of an envelope.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Its receipt.
    pub receipt: Receipt,
    /// The server's answer, when it was a task for the server.
    pub reply: Option<String>,
}

/// Takes in an envelope.
///
/// # Errors
/// What the law finds (`entente_domain::envelopes`); [`Code::FromMismatch`], [`Code::UnknownRecipient`],
/// [`Code::DuplicateId`], with the first receipt when it was the same.
pub async fn accept(ctx: &Ctx, caller: &Caller, post: &Post, bytes: &[u8]) -> Outcome<Accepted> {
    let mut taken = accept_all(ctx, caller, post, &[bytes]).await?;
    taken.pop().unwrap_or_else(|| Err(AppError::Inconsistent("an envelope got no answer".to_owned())))
}

/// Takes in several, in their order; each is answered for itself.
///
/// # Errors
/// The key lacks the scope.
pub async fn accept_all(
    ctx: &Ctx,
    caller: &Caller,
    post: &Post,
    all: &[&[u8]],
) -> Outcome<Vec<Outcome<Accepted>>> {
    caller.require(Scope::MailWrite)?;
    let mut answers: Vec<Outcome<Accepted>> = all.iter().map(|_| Err(AppError::Overtaken)).collect();
    for _ in 0..JUDGED {
        let overtaken = |at: &usize| matches!(answers.get(*at), Some(Err(AppError::Overtaken)));
        let left: Vec<usize> = (0..all.len()).filter(overtaken).collect();
        if left.is_empty() {
            break;
        }
        let texts: Vec<&[u8]> = left.iter().filter_map(|at| all.get(*at).copied()).collect();
        for (at, answer) in left.into_iter().zip(round(ctx, caller, post, &texts).await?) {
            answers[at] = answer;
        }
    }
    for (bytes, answer) in all.iter().zip(&answers) {
        if let Err(AppError::Refused(refusal)) = answer {
            note_refusal(bytes, refusal);
        }
    }
    Ok(answers)
}

/// Judges envelopes by the rules and schemas that are remembered and hands in those that pass. If there are others by now,
/// whoever was judged is overtaken, and they are remembered instead.
async fn round(ctx: &Ctx, caller: &Caller, post: &Post, all: &[&[u8]]) -> Outcome<Vec<Outcome<Accepted>>> {
    let book = rulebook::at_hand(ctx).await?;
    let mut bundles = Vec::with_capacity(all.len());
    let mut judged = Vec::with_capacity(all.len());
    for bytes in all {
        judged.push(prepare(ctx, caller, &book, bytes).await.map(|prepared| {
            bundles.push(prepared.parcels);
            prepared.reply
        }));
    }
    let mut receipts = post.hand_in(bundles).await.into_iter();
    let answer = |judged: Outcome<Option<String>>| {
        let reply = judged?;
        let receipt =
            receipts.next().unwrap_or_else(|| Err(AppError::Inconsistent("no receipt".to_owned())))?;
        Ok(Accepted { receipt, reply })
    };
    let mut answers: Vec<Outcome<Accepted>> = judged.into_iter().map(answer).collect();
    // What was refused before it came to a writer may have been refused by rules that are no more.
    if answers.iter().any(|answer| matches!(answer, Err(AppError::Refused(_) | AppError::Overtaken)))
        && rulebook::latest(ctx).await?.version != book.version
    {
        for answer in answers.iter_mut().filter(|answer| matches!(answer, Err(AppError::Refused(_)))) {
            *answer = Err(AppError::Overtaken);
        }
    }
    Ok(answers)
}

/// An envelope that may be handed in.
struct Prepared {
    /// It, and what stands or falls with it.
    parcels: Vec<Parcel>,
    /// The server's own answer, when it is the server that was asked.
    reply: Option<String>,
}

impl From<Parcel> for Prepared {
    fn from(parcel: Parcel) -> Self {
        Self { parcels: vec![parcel], reply: None }
    }
}

/// A question to a person goes to that person alone, and is never broadcast, wherever in the envelope it is put (binding moment
/// §7.4).
fn refuse_broadcast(envelope: &Envelope, body: &str) -> Result<(), Refusal> {
    if !envelope.is_broadcast() || !carries_question(body) {
        return Ok(());
    }
    let message = "The envelope has a `binding_moment`, a question to one person, and goes to whoever listens. Ask that person: \
                   POST /api/v1/moments.";
    Err(Refusal::field(Code::InvalidMoment, "payload", "broadcast", message))
}

/// Judges an envelope by all that is known without looking at others: the parcel to hand in, and the server's own answer to
/// it, if it is the server that was asked.
async fn prepare(ctx: &Ctx, caller: &Caller, book: &Rulebook, bytes: &[u8]) -> Outcome<Prepared> {
    let envelope = read(bytes)?;
    let now = ctx.now();
    let settings = &ctx.settings.post;
    // Before anything else is done with it (AEE §11.2).
    let verified = verify(ctx, &envelope).await?;
    vouch(ctx, caller, &envelope, &verified).await?;
    let body = String::from_utf8(bytes.to_vec()).map_err(|_not_utf8| not_found("envelope"))?;
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
    warnings.extend(capped.then_some(Warning::TimeoutCapped));
    warnings.extend(misfit);
    warnings.extend((effective < envelope.priority).then_some(Warning::PriorityLowered));
    let mut parcel = Parcel {
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
        way: Way::Deliver,
        made: None,
        refutation: None,
        envelope,
    };
    if parcel.envelope.recipient != settings.entity {
        approvals::park(ctx, &mut parcel).await?;
        return Ok(redactions::instead(ctx, parcel, &passage.redact)?.into());
    }
    parcel.way = Way::Keep;
    if parcel.envelope.kind != EnvelopeType::Task {
        let mut conn = ctx.pool.acquire().await?;
        return Ok(redactions::passed_back(ctx, &mut conn, book, parcel).await?.into());
    }
    answered(ctx, caller, parcel).await
}

/// What the rules and schemas say of an envelope, whoever sends it.
async fn pass(
    ctx: &Ctx,
    book: &Rulebook,
    envelope: &Envelope,
    verified: &Verified,
) -> Outcome<(policy::Passage, Option<Warning>)> {
    let signed = verified.by == Voucher::Sig;
    let link = (envelope.sender.as_str(), envelope.recipient.as_str());
    let passage = post::passage(ctx, book, link, &envelope.purpose, signed)?;
    Ok((passage, book.fits(ctx, envelope).await?))
}

/// Judges by rules and schemas what the server sends for somebody (`bridges.rs`), as it judges everybody's.
pub(crate) async fn judged(
    ctx: &Ctx,
    conn: &mut sqlx::PgConnection,
    book: &Rulebook,
    parcel: Parcel,
) -> Outcome<Parcel> {
    let envelope = &parcel.envelope;
    refuse_broadcast(envelope, &parcel.body)?;
    let (passage, misfit) = pass(ctx, book, envelope, &parcel.verified).await?;
    let mut warnings = parcel.warnings.clone();
    warnings.extend(misfit);
    let effective = passage.believed(parcel.effective);
    warnings.extend((effective < envelope.priority).then_some(Warning::PriorityLowered));
    let parcel = Parcel { effective, warnings, ..parcel };
    if parcel.envelope.recipient == ctx.settings.post.entity {
        return redactions::passed_back(ctx, conn, book, Parcel { way: Way::Keep, ..parcel }).await;
    }
    redactions::instead(ctx, parcel, &passage.redact)
}

/// A task for the server with its answer, and with what others have to hear of it.
async fn answered(ctx: &Ctx, caller: &Caller, mut asked: Parcel) -> Outcome<Prepared> {
    let entity = &ctx.settings.post.entity;
    let answer = answers::answer(ctx, caller, entity, &asked.envelope).await?;
    let mut letter = letters::Letter::answering(&asked.envelope, entity, answer.kind, answer.payload);
    letter.trace = caller.trace.map(|trace| trace.step(&*ctx.chance));
    let write = |letter: letters::Letter<'_>| letter.write(ctx.now(), &*ctx.chance);
    let reply = if answer.repeats {
        let short =
            letters::Letter { payload: answers::without_envelope(letter.payload.clone()), ..letter.clone() };
        Parcel::repeating(write(letter)?).or_else(|_too_much| Parcel::own(write(short)?))?
    } else {
        Parcel::own(write(letter)?)?
    };
    let original = Original::of(&asked.envelope);
    asked.refutation = answer.refutation;
    let mut prepared = Prepared { parcels: vec![asked], reply: Some(reply.body.clone()) };
    // What only repeats an envelope that is kept is told and not kept: asking costs next to nothing.
    if !answer.repeats {
        prepared.parcels.push(Parcel { way: Way::Keep, ..reply });
    }
    for notice in answer.notices {
        prepared.parcels.push(Parcel { original: Some(original.clone()), ..Parcel::own(notice)? });
    }
    Ok(prepared)
}

async fn verify(ctx: &Ctx, envelope: &Envelope) -> Outcome<Verified> {
    let Some(sig) = Sig::read(&envelope.members)? else {
        if ctx.settings.post.signatures == Signatures::Always {
            return Err(policy::unsigned().into());
        }
        return Ok(Verified::by(Voucher::Token));
    };
    envelope_keys::verify(ctx, envelope, &sig).await?;
    Ok(Verified::signed(sig.kid, sig.scope))
}

/// `from` must be the caller's (AEE §11.5), or the envelope signed and the caller one who may pass on such.
async fn vouch(ctx: &Ctx, caller: &Caller, envelope: &Envelope, verified: &Verified) -> Outcome<()> {
    let settings = &ctx.settings.post;
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

/// The priority that an envelope goes with: by what its sender, and the principal who sent it, have sent lately. What is sent
/// to a channel counts for each who listens.
async fn admitted(ctx: &Ctx, caller: &Caller, envelope: &Envelope, asked: Priority) -> Outcome<Priority> {
    let (who, since_start) = ((caller.principal(), envelope.sender.as_str()), ctx.quotas.since_start());
    let effective = ctx.quotas.admit(who, asked, since_start)?;
    if envelope.is_broadcast() && ctx.quotas.counts_all() {
        let bus = envelope.recipient.as_str();
        let sizes = buses::sizes(&mut *ctx.pool.acquire().await?, &[bus]).await?;
        let others = sizes.get(bus).map_or(0, |size| size.saturating_sub(1));
        ctx.quotas.charge(who, u32::try_from(others).unwrap_or(u32::MAX), since_start);
    }
    Ok(effective)
}

/// Until when an answer counts (AEE §11.6), and whether that is sooner than was asked.
fn deadline(asked: Option<u64>, most: std::time::Duration, now: Timestamp) -> (Option<Timestamp>, bool) {
    let Some(asked) = asked else { return (None, false) };
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    let millis = i64::try_from(asked.min(most)).unwrap_or(i64::MAX);
    (now.checked_add_signed(TimeDelta::milliseconds(millis)), asked > most)
}

/// An envelope that the caller is a party to.
///
/// # Errors
/// There is none, or it is none of the caller's.
pub async fn get(ctx: &Ctx, caller: &Caller, id: &str) -> Outcome<Kept> {
    caller.require(Scope::MailRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let kept = load(&mut conn, id).await?.ok_or_else(|| not_found("envelope"))?;
    let holders = mailboxes::holders(&mut conn, id).await?;
    let named = [&kept.sender, &kept.recipient].into_iter().chain(&holders).map(String::as_str);
    let voices = Voices::among(&mut conn, caller, named).await?;
    let is_mine = |entity: &str| voices.speak_for(entity);
    let seen = between(is_mine, &kept) || holders.iter().any(|entity| is_mine(entity));
    if seen { Ok(kept) } else { Err(not_found("envelope")) }
}

/// Whether it is from or to an entity that is one of theirs. What waits for a person to agree, or is handed out only with
/// something left out, is its sender's alone: others are a party to what they find in their mailbox.
pub(super) fn between(is_theirs: impl Fn(&str) -> bool, kept: &Kept) -> bool {
    is_theirs(&kept.sender) || (kept.is_handed_out() && is_theirs(&kept.recipient))
}

/// An envelope if one of theirs is a party to it: it sent it, or found it in a mailbox.
pub(crate) async fn seen_by(
    conn: &mut sqlx::PgConnection,
    is_theirs: impl Fn(&str) -> bool,
    id: &str,
) -> Outcome<Option<Kept>> {
    let Some(kept) = load(conn, id).await? else { return Ok(None) };
    if between(&is_theirs, &kept) {
        return Ok(Some(kept));
    }
    let holders = mailboxes::holders(conn, id).await?;
    Ok(holders.iter().any(|entity| is_theirs(entity)).then_some(kept))
}

/// Forgets envelopes that are older than they are kept, with their items and pairs; never sooner than one with the same id
/// could be taken in (AEE §11.1): of those whose age nobody can judge, the id is remembered. Up to `limit`; answers with how
/// many.
///
/// # Errors
/// The database.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let Some(before) = ctx.now().checked_sub_signed(ctx.settings.post.memory()) else { return Ok(0) };
    let mut tx = ctx.pool.begin().await?;
    let (gone, untimed) = rows::delete(&mut tx, before, limit).await?;
    untimed::remember(&mut tx, &untimed).await?;
    mailboxes::forget(&mut tx, &gone).await?;
    pairs::forget(&mut tx, &gone).await?;
    refutations::forget(&mut tx, &gone).await?;
    tx.commit().await?;
    Ok(gone.len() as u64)
}
