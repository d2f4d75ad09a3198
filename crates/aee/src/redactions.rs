//! Redacted envelopes: forwarding an envelope when a rule removes parts of it (AEE §11.5), and returning its answer.
//!
//! The form is in `entente_domain::aee::envelopes::redaction`, the rules are in `policy/rules.rs`. Only the original's
//! sender can read the original. Its recipients get a task, a result, … from the gateway and answer the gateway, which
//! forwards the answer to the original sender. On both ends of the link, only the gateway has seen everything.

use entente_domain::aee::envelopes::receipt::{Receipt, Voucher};
use entente_domain::aee::envelopes::redaction::RedactedEnvelope;
use entente_domain::aee::envelopes::{Envelope, EnvelopeType, Priority, policy};
use entente_domain::clock::Timestamp;
use entente_kernel::Outcome;
use sqlx::PgConnection;

use crate::Ctx;
use crate::envelopes::{Disposition, Original, PreparedEnvelope};
use crate::policy::snapshot::PolicySnapshot;
use crate::{envelopes, exchanges};

/// Adds the redacted envelope to be forwarded, if anything is removed; a held envelope is forwarded later
/// (`approvals.rs`).
pub(crate) fn instead(
    ctx: &Ctx,
    mut prepared: PreparedEnvelope,
    without: &[String],
) -> Outcome<PreparedEnvelope> {
    if without.is_empty() || prepared.disposition == Disposition::Hold {
        return Ok(prepared);
    }
    let envelope = &prepared.envelope;
    let redacted = RedactedEnvelope {
        original: envelope,
        sender: &ctx.state.settings.entity,
        recipient: &envelope.recipient,
        reply_to: envelope.reply_to.as_deref(),
        without,
    };
    let made = PreparedEnvelope {
        deadline: prepared.deadline,
        ..handed_on(ctx, redacted, prepared.effective, ctx.now())?
    };
    prepared.disposition = Disposition::Withhold;
    prepared.made = Some(Box::new(made));
    Ok(prepared)
}

/// Builds the redacted form of a task that was accepted earlier, for one recipient.
pub(crate) fn stand_in(
    ctx: &Ctx,
    task: &Envelope,
    receipt: &Receipt,
    recipient: &str,
    without: &[String],
    now: Timestamp,
) -> Outcome<PreparedEnvelope> {
    let sender = &ctx.state.settings.entity;
    let redacted =
        RedactedEnvelope { original: task, sender, recipient, reply_to: task.reply_to.as_deref(), without };
    let original = Some(Original { kept: true, ..Original::of(task) });
    let made = handed_on(ctx, redacted, receipt.effective_priority, now)?;
    Ok(PreparedEnvelope { deadline: receipt.deadline, original, ..made })
}

/// Builds the redacted form of an envelope that is accepted together with it.
pub(crate) fn handed_on(
    ctx: &Ctx,
    redacted: RedactedEnvelope<'_>,
    effective: Priority,
    now: Timestamp,
) -> Outcome<PreparedEnvelope> {
    let original = Some(Original::of(redacted.original));
    Ok(PreparedEnvelope {
        effective,
        original,
        ..PreparedEnvelope::repeating(redacted.write(now, &*ctx.chance)?)?
    })
}

/// Adds the forwarded answer to an envelope that answers one of the gateway's derived tasks.
///
/// The rules of the link from the respondent to the original sender decide about its parts.
pub(crate) async fn passed_back(
    ctx: &Ctx,
    conn: &mut PgConnection,
    book: &PolicySnapshot,
    answer: PreparedEnvelope,
) -> Outcome<PreparedEnvelope> {
    let envelope = &answer.envelope;
    let Some(asked) = envelope.reply_to.as_deref().filter(|_| envelope.kind != EnvelopeType::Event) else {
        return Ok(answer);
    };
    let entity = &ctx.state.settings.entity;
    let own = envelopes::load(conn, asked).await?;
    let own = own.filter(|kept| kept.sender == *entity && kept.kind == EnvelopeType::Task);
    let Some(original) = own.and_then(|kept| kept.original_id) else { return Ok(answer) };
    // Only the respondents of the task count; answers of others are accepted but answer nothing.
    let asked_of = exchanges::of(conn, &[asked]).await?;
    let original = envelopes::load(conn, &original).await?;
    let Some(original) = original.filter(|_| asked_of.iter().any(|pair| pair.respondent == envelope.sender))
    else {
        return Ok(answer);
    };
    let link = Envelope { recipient: original.sender.clone(), ..envelope.clone() };
    let passage = policy::judge(&book.rules, &link, answer.verified.by == Voucher::Sig)?;
    let redacted = RedactedEnvelope {
        original: envelope,
        sender: entity,
        recipient: &original.sender,
        reply_to: Some(&original.id),
        without: &passage.redact,
    };
    let made = handed_on(ctx, redacted, passage.believed(answer.effective), ctx.now())?;
    Ok(PreparedEnvelope { made: Some(Box::new(made)), ..answer })
}
