//! What is handed on instead of an envelope that a rule leaves something out of (AEE §11.5), and how the answer to it comes
//! back. What it looks like is `entente_domain::envelopes::redaction`; which rules there are `rules.rs`.
//!
//! The original is kept for its sender alone. Its recipients have a task, a result, … of the gateway's, and answer the
//! gateway, which hands the answer on to who asked: with both ends of the link the gateway is the only one who saw all.

use entente_domain::clock::Timestamp;
use entente_domain::envelopes::receipt::{Receipt, Voucher};
use entente_domain::envelopes::redaction::Instead;
use entente_domain::envelopes::{Envelope, EnvelopeType, Priority, policy};
use sqlx::PgConnection;

use super::post::{Original, Parcel, Way};
use super::rulebook::Rulebook;
use super::{Ctx, Outcome, envelopes, pairs};

/// An envelope, and what is handed on instead if something is left out. What waits for a person is handed on later
/// (`approvals.rs`).
pub(crate) fn instead(ctx: &Ctx, mut parcel: Parcel, without: &[String]) -> Outcome<Parcel> {
    if without.is_empty() || parcel.way == Way::Hold {
        return Ok(parcel);
    }
    let envelope = &parcel.envelope;
    let letter = Instead {
        original: envelope,
        sender: &ctx.settings.post.entity,
        recipient: &envelope.recipient,
        reply_to: envelope.reply_to.as_deref(),
        without,
    };
    let made = Parcel { deadline: parcel.deadline, ..handed_on(ctx, letter, parcel.effective, ctx.now())? };
    parcel.way = Way::Withhold;
    parcel.made = Some(Box::new(made));
    Ok(parcel)
}

/// What is handed on to somebody instead of a task that was taken in before.
pub(crate) fn stand_in(
    ctx: &Ctx,
    (task, receipt): (&Envelope, &Receipt),
    recipient: &str,
    without: &[String],
    now: Timestamp,
) -> Outcome<Parcel> {
    let sender = &ctx.settings.post.entity;
    let letter = Instead { original: task, sender, recipient, reply_to: task.reply_to.as_deref(), without };
    let original = Some(Original { kept: true, ..Original::of(task) });
    let made = handed_on(ctx, letter, receipt.effective_priority, now)?;
    Ok(Parcel { deadline: receipt.deadline, original, ..made })
}

/// What the gateway hands on of an envelope that is taken in with it.
pub(crate) fn handed_on(
    ctx: &Ctx,
    letter: Instead<'_>,
    effective: Priority,
    now: Timestamp,
) -> Outcome<Parcel> {
    let original = Some(Original::of(letter.original));
    Ok(Parcel { effective, original, ..Parcel::repeating(letter.write(now, &*ctx.chance)?)? })
}

/// What was sent to the gateway, and what is handed on of it when it answers what the gateway asked for somebody else: by the
/// rules for the one who answers and the one who asked.
pub(crate) async fn passed_back(
    ctx: &Ctx,
    conn: &mut PgConnection,
    book: &Rulebook,
    answer: Parcel,
) -> Outcome<Parcel> {
    let envelope = &answer.envelope;
    let Some(asked) = envelope.reply_to.as_deref().filter(|_| envelope.kind != EnvelopeType::Event) else {
        return Ok(answer);
    };
    let entity = &ctx.settings.post.entity;
    let own = envelopes::load(conn, asked).await?;
    let own = own.filter(|kept| kept.sender == *entity && kept.kind == EnvelopeType::Task);
    let Some(original) = own.and_then(|kept| kept.original_id) else { return Ok(answer) };
    // Only from who was asked: the law of answers lets everybody else's pass, as what answers nothing.
    let asked_of = pairs::of(conn, &[asked]).await?;
    let original = envelopes::load(conn, &original).await?;
    let Some(original) = original.filter(|_| asked_of.iter().any(|pair| pair.respondent == envelope.sender))
    else {
        return Ok(answer);
    };
    let link = Envelope { recipient: original.sender.clone(), ..envelope.clone() };
    let passage = policy::judge(&book.rules, &link, answer.verified.by == Voucher::Sig)?;
    let letter = Instead {
        original: envelope,
        sender: entity,
        recipient: &original.sender,
        reply_to: Some(&original.id),
        without: &passage.redact,
    };
    let made = handed_on(ctx, letter, passage.believed(answer.effective), ctx.now())?;
    Ok(Parcel { made: Some(Box::new(made)), ..answer })
}
