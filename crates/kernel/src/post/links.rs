//! Who of those who listen to a channel gets what (AEE §11.5). A rule is for a link, and what is sent to a channel goes over
//! one to each who listens: whom the rules bar is left out, and who may not see all of it gets what the gateway made from it.
//! What the rules say of the channel itself was asked before (`envelopes.rs`), and refuses the sender.

use std::collections::HashMap;

use entente_domain::envelopes::policy::{self, Passage};
use entente_domain::envelopes::redaction::Instead;
use entente_domain::envelopes::{Priority, read};
use entente_domain::refusal::Refusal;
use sqlx::PgConnection;

use super::{Parcel, Signatures, Way};
use crate::rulebook::{self, Rulebook};
use crate::{AppError, Ctx, Outcome, redactions};

/// What one who listens gets of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// The envelope, handed out by this priority.
    Whole(Priority),
    /// What the gateway made from it.
    Instead,
    /// Nothing.
    Barred,
}

/// What is special about those who listen to what one envelope is sent to; everybody else gets it as it is.
#[derive(Default)]
pub(super) struct Links {
    known: HashMap<String, Link>,
    /// What the gateway made for some of them.
    pub made: Vec<Parcel>,
    /// Why what they would get cannot be made: then nobody gets anything, and its sender hears why.
    pub fault: Option<Refusal>,
}

impl Links {
    /// What somebody gets; `None` when nothing is special.
    pub fn of(&self, listener: &str) -> Option<Link> {
        self.known.get(listener).copied()
    }

    fn judge(&mut self, ctx: &Ctx, book: &Rulebook, parcel: &Parcel, listener: &str) -> Outcome<()> {
        let (envelope, speaker, signed) = (&parcel.envelope, parcel.speaker(), parcel.is_signed());
        if listener == speaker {
            return Ok(());
        }
        let link = match passage(ctx, book, (speaker, listener), &envelope.purpose, signed) {
            Err(_barred) => Link::Barred,
            Ok(passage) => {
                let gone = match &parcel.made {
                    Some(_) => policy::judge(&book.rules, envelope, signed).unwrap_or_default().redact,
                    None => Vec::new(),
                };
                let more = passage.more_than(&gone);
                let effective = passage.believed(parcel.effective);
                // What waits for a person is asked about again when it is handed out (`approvals.rs`).
                if more.is_empty() || parcel.way == Way::Hold {
                    Link::Whole(effective)
                } else {
                    let without = [gone, more].concat();
                    self.made.push(made(ctx, parcel, (listener, &without), effective)?);
                    Link::Instead
                }
            }
        };
        self.known.insert(listener.to_owned(), link);
        Ok(())
    }
}

/// Asks the rules about everybody who listens to what these are sent to: an answer for each parcel.
pub(super) async fn ask(
    ctx: &Ctx,
    conn: &mut PgConnection,
    parcels: &[&Parcel],
    listeners: &HashMap<String, Vec<String>>,
) -> Outcome<Vec<Links>> {
    let mut all: Vec<Links> = parcels.iter().map(|_| Links::default()).collect();
    if listeners.is_empty() {
        return Ok(all);
    }
    let book = rulebook::within(ctx, conn).await?;
    if book.rules.is_empty() {
        return Ok(all);
    }
    for (parcel, links) in parcels.iter().zip(&mut all).filter(|(parcel, _)| parcel.way != Way::Keep) {
        for listener in listeners.get(&parcel.envelope.recipient).into_iter().flatten() {
            match links.judge(ctx, &book, parcel, listener) {
                // It is this envelope's alone: the others of the batch have nothing to do with it.
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

/// What the rules say of what one says to another.
///
/// # Errors
/// It may not pass.
pub(crate) fn passage(
    ctx: &Ctx,
    book: &Rulebook,
    link: (&str, &str),
    purpose: &str,
    signed: bool,
) -> Result<Passage, Refusal> {
    let found = policy::judge_link(&book.rules, link, purpose, signed)?;
    if ctx.settings.post.signatures == Signatures::Boundary && found.boundary && !signed {
        return Err(policy::unsigned());
    }
    Ok(found)
}

/// What one who listens gets instead: addressed to them alone, from the gateway, to whom they answer.
fn made(
    ctx: &Ctx,
    parcel: &Parcel,
    (recipient, without): (&str, &[String]),
    effective: Priority,
) -> Outcome<Parcel> {
    // From the text: what waits for a writer has no tree of its members any more.
    let envelope = &read(parcel.body.as_bytes())?;
    let letter = Instead {
        original: envelope,
        sender: &ctx.settings.post.entity,
        recipient,
        reply_to: envelope.reply_to.as_deref(),
        without,
    };
    let made = redactions::handed_on(ctx, letter, effective, ctx.now())?;
    Ok(Parcel { deadline: parcel.deadline, original: parcel.original.clone().or(made.original), ..made })
}
