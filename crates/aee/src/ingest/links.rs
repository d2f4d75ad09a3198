//! Delivery to the subscribers of a bus (AEE §11.5).
//!
//! A rule applies to a link, and an envelope sent to a bus crosses one link to each subscriber: a barred subscriber
//! is left out, and one that may not see everything gets a redacted envelope from the gateway. The rules for the bus
//! itself are checked earlier (`acceptance.rs`) and refuse the sender.

use std::collections::HashMap;

use entente_domain::aee::envelopes::policy;
use entente_domain::aee::envelopes::policy::Passage;
use entente_domain::aee::envelopes::redaction::RedactedEnvelope;
use entente_domain::aee::envelopes::{Priority, read};
use entente_domain::refusal::Refusal;
use entente_kernel::{AppError, Outcome};
use sqlx::PgConnection;

use super::Signatures;
use crate::Ctx;
use crate::envelopes::{Disposition, PreparedEnvelope};
use crate::policy::snapshot;
use crate::policy::snapshot::PolicySnapshot;
use crate::redactions;

/// The delivery of an envelope to one subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// The envelope itself, with this priority.
    Whole(Priority),
    /// The redacted envelope that the gateway derived from it.
    Instead,
    /// Nothing.
    Barred,
}

/// Subscribers of one envelope's bus with a special delivery; all others get the envelope unchanged.
#[derive(Default)]
pub(super) struct Links {
    known: HashMap<String, Link>,
    /// The envelopes that the gateway derived for some of them.
    pub made: Vec<PreparedEnvelope>,
    /// The reason a derived envelope cannot be built: then nothing is delivered, and the sender gets this refusal.
    pub fault: Option<Refusal>,
}

impl Links {
    /// Returns a subscriber's delivery; `None` if it is not special.
    pub fn of(&self, listener: &str) -> Option<Link> {
        self.known.get(listener).copied()
    }

    fn judge(
        &mut self,
        ctx: &Ctx,
        book: &PolicySnapshot,
        prepared: &PreparedEnvelope,
        listener: &str,
    ) -> Outcome<()> {
        let (envelope, speaker, signed) = (&prepared.envelope, prepared.speaker(), prepared.is_signed());
        if listener == speaker {
            return Ok(());
        }
        let link = match passage(ctx, book, speaker, listener, &envelope.purpose, signed) {
            Err(_barred) => Link::Barred,
            Ok(passage) => {
                let gone = match &prepared.made {
                    Some(_) => policy::judge(&book.rules, envelope, signed).unwrap_or_default().redact,
                    None => Vec::new(),
                };
                let more = passage.more_than(&gone);
                let effective = passage.believed(prepared.effective);
                // A held envelope is checked again when it is handed out (`approvals.rs`).
                if more.is_empty() || prepared.disposition == Disposition::Hold {
                    Link::Whole(effective)
                } else {
                    let without = [gone, more].concat();
                    self.made.push(made(ctx, prepared, listener, &without, effective)?);
                    Link::Instead
                }
            }
        };
        self.known.insert(listener.to_owned(), link);
        Ok(())
    }
}

/// Applies the rules to all subscribers of these envelopes; one result for each envelope.
pub(super) async fn ask(
    ctx: &Ctx,
    conn: &mut PgConnection,
    prepared_envelopes: &[&PreparedEnvelope],
    listeners: &HashMap<String, Vec<String>>,
) -> Outcome<Vec<Links>> {
    let mut all: Vec<Links> = prepared_envelopes.iter().map(|_| Links::default()).collect();
    if listeners.is_empty() {
        return Ok(all);
    }
    let book = snapshot::within(ctx, conn).await?;
    if book.rules.is_empty() {
        return Ok(all);
    }
    for (prepared, links) in prepared_envelopes
        .iter()
        .zip(&mut all)
        .filter(|(prepared, _)| prepared.disposition != Disposition::Keep)
    {
        for listener in listeners.get(&prepared.envelope.recipient).into_iter().flatten() {
            match links.judge(ctx, &book, prepared, listener) {
                // The fault concerns this envelope alone; the rest of the batch continues.
                Err(AppError::Refused(fault)) => {
                    links.made.clear();
                    links.fault = Some(fault);
                    break;
                }
                judged => judged?,
            }
        }
    }
    Ok(all)
}

/// Applies the rules to an envelope from one entity to another.
///
/// # Errors
/// Fails if it may not pass.
pub(crate) fn passage(
    ctx: &Ctx,
    book: &PolicySnapshot,
    from: &str,
    to: &str,
    purpose: &str,
    signed: bool,
) -> Result<Passage, Refusal> {
    let found = policy::judge_link(&book.rules, from, to, purpose, signed)?;
    if ctx.state.settings.signatures == Signatures::Boundary && found.boundary && !signed {
        return Err(policy::unsigned());
    }
    Ok(found)
}

/// Builds the redacted envelope for one subscriber, sent by the gateway, which also receives the answer.
fn made(
    ctx: &Ctx,
    prepared: &PreparedEnvelope,
    recipient: &str,
    without: &[String],
    effective: Priority,
) -> Outcome<PreparedEnvelope> {
    // Parsed from the text again, because a queued envelope no longer has its JSON tree.
    let envelope = &read(prepared.body.as_bytes())?;
    let redacted = RedactedEnvelope {
        original: envelope,
        sender: &ctx.state.settings.entity,
        recipient,
        reply_to: envelope.reply_to.as_deref(),
        without,
    };
    let made = redactions::handed_on(ctx, redacted, effective, ctx.now())?;
    Ok(PreparedEnvelope {
        deadline: prepared.deadline,
        original: prepared.original.clone().or(made.original),
        ..made
    })
}
