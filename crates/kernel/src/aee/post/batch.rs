//! A batch of envelopes in one transaction: decided one after the other, then written together.
//!
//! Exchanges are locked first, then mailboxes, each in the order of their names, so that two batches cannot deadlock.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};

use entente_domain::aee::envelopes::pairing;
use entente_domain::aee::envelopes::pairing::{Pair, PairStatus, Verdict};
use entente_domain::aee::envelopes::receipt::{Receipt, ReceiptStatus, Voucher};
use entente_domain::aee::envelopes::signing;
use entente_domain::aee::envelopes::{EnvelopeType, Reference, Warning};
use entente_domain::clock::Timestamp;
use entente_domain::refusal::{Code, Refusal};
use sqlx::PgConnection;

use super::desk::Desk;
use super::links::{self, Link, Links};
use super::push::push;
use super::{Known, Parcel, Put, Way};
use crate::aee::envelopes;
use crate::aee::envelopes::{Kept, Stub};
use crate::aee::mailboxes;
use crate::aee::mailboxes::Item;
use crate::aee::{pairs, refutations};
use crate::{AppError, Ctx, Outcome};

/// Decides prepared envelopes and writes the accepted ones, in the caller's transaction.
///
/// # Errors
/// Returns database errors, also if another transaction has inserted one of the ids meanwhile.
pub(crate) async fn put(
    ctx: &Ctx,
    conn: &mut PgConnection,
    known: &mut Known,
    parcels: &[impl Borrow<Parcel>],
    now: Timestamp,
) -> Outcome<Put> {
    put_beside(ctx, conn, known, (parcels, &[]), now).await
}

/// Like [`put`], for a caller that works with the mailboxes `beside` in the same transaction.
///
/// They are locked with the others, because two transactions that lock mailboxes in several steps may deadlock.
pub(crate) async fn put_beside(
    ctx: &Ctx,
    conn: &mut PgConnection,
    known: &mut Known,
    (parcels, beside): (&[impl Borrow<Parcel>], &[&str]),
    now: Timestamp,
) -> Outcome<Put> {
    let handed: Vec<&Parcel> = parcels.iter().map(Borrow::borrow).collect();
    let said: Vec<&Parcel> = handed.iter().copied().flat_map(with_made).collect();
    let mut desk = Desk::prepare(conn, known, (&said, beside), now).await?;
    // Decided by the rules of the locked policy, which cannot change before the commit.
    let (links, none) = (links::ask(ctx, conn, &handed, &desk.listeners).await?, Links::default());
    let (mut all, mut each) = (Vec::new(), Vec::new());
    for (parcel, links) in handed.iter().copied().zip(&links) {
        // A derived envelope comes right after its original and shares its fate.
        for one in with_made(parcel) {
            all.push(one);
            each.push(links);
        }
        all.extend(&links.made);
        each.extend(links.made.iter().map(|_| &none));
    }
    let strict = ctx.settings.post.strict_references;
    let mut receipts: Vec<Outcome<Receipt>> = Vec::with_capacity(all.len());
    for (index, (parcel, links)) in all.iter().zip(each).enumerate() {
        let judged = if parcel.judged.is_some_and(|version| version != desk.version) {
            Err(AppError::Overtaken)
        } else if let Some(fault) = &links.fault {
            Err(AppError::Refused(fault.clone()))
        } else {
            desk.judge(parcel, links, (ctx.settings.strict, strict), now).map_err(AppError::Refused)
        };
        if let Ok(receipt) = &judged {
            desk.stubs.insert(receipt.id.clone(), Stub::of(parcel, receipt));
            desk.accepted.push(index);
            desk.taken.insert(receipt.id.clone());
        } else {
            // Envelopes derived from this one fall with it, even if another one with its id was accepted before.
            desk.taken.remove(&parcel.envelope.id);
        }
        receipts.push(judged);
    }
    let rows: Vec<(&Parcel, &Receipt)> = desk
        .accepted
        .iter()
        .filter_map(|index| Some((*all.get(*index)?, receipts.get(*index)?.as_ref().ok()?)))
        .collect();
    envelopes::insert(conn, &rows).await?;
    mailboxes::put(conn, &desk.items).await?;
    let places: HashMap<&str, usize> =
        rows.iter().enumerate().map(|(at, (_, receipt))| (receipt.id.as_str(), at)).collect();
    let kept = |id: &str| {
        let (parcel, said) = rows.get(*places.get(id)?)?;
        Some(Kept::of(parcel, said))
    };
    let pushed = push(ctx, conn, &desk.items, kept, now).await?;
    pairs::insert(conn, &desk.fresh, now).await?;
    pairs::close(conn, &desk.closed).await?;
    let refuted = rows.iter().filter_map(|(parcel, _)| parcel.refutation.as_ref());
    refutations::keep(conn, &refuted.collect::<Vec<_>>()).await?;
    let touched: BTreeSet<String> = desk.items.iter().map(|item| item.entity.clone()).collect();
    let noted = rows.iter().map(|(parcel, _)| ("taken in", parcel.envelope.clone())).collect();
    let touched = touched.into_iter().collect();
    Ok(Put { answers: answers(&handed, &links, receipts), touched, pushed, noted })
}

/// Iterates over a prepared envelope and the one that the gateway derived from it.
fn with_made(parcel: &Parcel) -> impl Iterator<Item = &Parcel> {
    std::iter::once(parcel).chain(parcel.made.as_deref())
}

/// Selects the answers to the envelopes of the callers; refusals of derived ones are only logged.
fn answers(parcels: &[&Parcel], links: &[Links], receipts: Vec<Outcome<Receipt>>) -> Vec<Outcome<Receipt>> {
    let mut receipts = receipts.into_iter();
    let answer = |(parcel, links): (&&Parcel, &Links)| {
        let own = receipts.next();
        let made = receipts.by_ref().take(usize::from(parcel.made.is_some()) + links.made.len());
        for refused in made.filter_map(Result::err).filter(|_| matches!(own, Some(Ok(_)))) {
            tracing::warn!(target: "entente::aee", error = %refused, "what was made from an envelope was refused");
        }
        own.unwrap_or_else(|| Err(super::posting::lost()))
    };
    parcels.iter().zip(links).map(answer).collect()
}

impl Desk {
    /// Decides one envelope and records the consequences for the next one of the batch.
    fn judge(
        &mut self,
        parcel: &Parcel,
        links: &Links,
        (strict, hashes): (bool, bool),
        now: Timestamp,
    ) -> Result<Receipt, Refusal> {
        let envelope = &parcel.envelope;
        if let Some(stub) = self.stubs.get(&envelope.id) {
            return Err(stub.repeated(parcel));
        }
        if envelope.sent_at.is_none() && self.spent.contains(&envelope.id) {
            return Err(Stub::spent());
        }
        if self.voided(parcel) {
            return Err(signing::wrong());
        }
        let mut warnings = parcel.warnings.clone();
        if envelope.references.iter().any(|one| one.hash.is_some() && !self.fits(parcel, one)) {
            if hashes {
                return Err(wrong_hash());
            }
            warnings.push(Warning::ReferenceHashMismatch);
        }
        self.passes_on(parcel, now)?;
        let verdict = if parcel.verified.by == Voucher::Gateway {
            self.own(parcel, now)?
        } else {
            pairing::judge(envelope, &self.answered(parcel), strict, now)?
        };
        if let Verdict::Odd(warning) = verdict {
            warnings.push(warning);
        }
        let recipients = self.recipients(parcel, links)?;
        if recipients.is_empty() && parcel.way != Way::Keep {
            warnings.push(Warning::NoSubscribers);
        }
        if verdict == Verdict::Closes
            && let Some(task) = envelope.reply_to.clone()
        {
            let speaker = parcel.speaker().to_owned();
            let pair = (task.clone(), speaker.clone());
            self.pairs.entry(pair).and_modify(|pair| pair.status = PairStatus::Closed);
            self.closed.push((task, speaker, envelope.id.clone()));
        }
        if envelope.kind == EnvelopeType::Task && parcel.way != Way::Keep {
            self.pair(parcel, links, &recipients);
        }
        let (seq, delivered) = self.deliver(parcel, links, &recipients, now);
        warnings.sort_unstable();
        warnings.dedup();
        Ok(Receipt {
            id: envelope.id.clone(),
            status: match parcel.way {
                Way::Deliver => ReceiptStatus::Accepted,
                Way::Hold => ReceiptStatus::Held,
                Way::Keep => ReceiptStatus::Answered,
                Way::Withhold => ReceiptStatus::Redacted,
            },
            received_at: now,
            seq,
            delivered,
            effective_priority: parcel.effective,
            deadline: parcel.deadline,
            verified: parcel.verified.clone(),
            warnings,
        })
    }

    /// Queues mailbox items if the envelope is to be delivered; returns its number, unless there are several, and
    /// their count.
    fn deliver(
        &mut self,
        parcel: &Parcel,
        links: &Links,
        recipients: &[String],
        now: Timestamp,
    ) -> (Option<i64>, i32) {
        if parcel.way != Way::Deliver {
            return (None, 0);
        }
        let envelope = &parcel.envelope;
        let mut seq = None;
        for entity in recipients {
            let effective = match links.of(entity) {
                Some(Link::Whole(believed)) => believed,
                Some(Link::Instead) => continue,
                Some(Link::Barred) | None => parcel.effective,
            };
            let end = self.ends.entry(entity.clone()).or_default();
            *end += 1;
            seq = (!envelope.is_broadcast()).then_some(*end);
            self.items.push(Item::new(entity, *end, &envelope.id, effective, now));
        }
        (seq, i32::try_from(recipients.len()).unwrap_or(i32::MAX))
    }

    /// Returns whether the key that verified the signature is no longer in force.
    fn voided(&self, parcel: &Parcel) -> bool {
        let kid = parcel.verified.kid.as_ref().filter(|_| parcel.verified.by == Voucher::Sig);
        kid.is_some_and(|kid| !self.keys.contains(&(parcel.envelope.sender.clone(), kid.clone())))
    }

    /// Decides an envelope of the gateway's own.
    ///
    /// An immediate answer is accepted only with the envelope that it answers, and a derived one only with its
    /// original. A derived answer closes the exchange of the task that it is forwarded for; the original answer has
    /// closed the gateway's own exchange. The gateway's other envelopes close exchanges by other means.
    fn own(&self, parcel: &Parcel, now: Timestamp) -> Result<Verdict, Refusal> {
        if let Some(original) = &parcel.original {
            if !original.kept && !self.taken.contains(&original.id) {
                return Err(Refusal::new(Code::ReplyMismatch, "What this was made from was not taken in."));
            }
            let task = parcel.envelope.reply_to.clone().filter(|_| parcel.envelope.kind.is_terminal());
            let pair = task.and_then(|task| self.pairs.get(&(task, original.sender.clone())));
            let waits = pair.is_some_and(|pair| pair.status_at(now) == PairStatus::Open);
            return Ok(if waits { Verdict::Closes } else { Verdict::Plain });
        }
        let asked = parcel.envelope.reply_to.as_ref();
        if parcel.way == Way::Keep && !asked.is_some_and(|asked| self.taken.contains(asked)) {
            return Err(Refusal::new(Code::ReplyMismatch, "What this answers was not taken in."));
        }
        Ok(Verdict::Plain)
    }

    /// Refuses an answer to the gateway's own task if the task behind it is over already, because a task has one end.
    ///
    /// This happens if the respondent has answered that task directly, past the gateway.
    fn passes_on(&self, parcel: &Parcel, now: Timestamp) -> Result<(), Refusal> {
        let made = parcel.made.as_deref().map(|made| (made, made.envelope.reply_to.as_ref()));
        let Some((made, Some(task))) = made.filter(|(made, _)| made.envelope.kind.is_terminal()) else {
            return Ok(());
        };
        let pair = self.pairs.get(&(task.clone(), made.speaker().to_owned()));
        match pair.map(|pair| pair.status_at(now)) {
            Some(PairStatus::Closed) if parcel.envelope.reply_to.as_ref() != Some(task) => {
                Err(pairing::over("whom it was asked for has its result or error already"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a reference's hash is that of its envelope.
    ///
    /// An envelope that is unknown, or that does not involve the sender, is not compared: the result would disclose
    /// its existence.
    fn fits(&self, parcel: &Parcel, reference: &Reference) -> bool {
        let Some(known) = self.referred.get(&reference.id) else { return true };
        !known.is_party(parcel.speaker()) || reference.hash.as_ref() == Some(&known.hash)
    }

    /// Returns the known facts about the envelope that this one answers.
    fn answered(&self, parcel: &Parcel) -> pairing::Known {
        let envelope = &parcel.envelope;
        let Some(task) = envelope.reply_to.as_ref() else { return pairing::Known::Nothing };
        match self.stubs.get(task) {
            None => pairing::Known::Nothing,
            Some(stub) if stub.kind != EnvelopeType::Task => pairing::Known::Other,
            Some(_) => {
                pairing::Known::Task(self.pairs.get(&(task.clone(), envelope.sender.clone())).cloned())
            }
        }
    }

    /// Returns the entities whose mailboxes receive the envelope.
    fn recipients(&self, parcel: &Parcel, links: &Links) -> Result<Vec<String>, Refusal> {
        let envelope = &parcel.envelope;
        if parcel.way == Way::Keep {
            return Ok(Vec::new());
        }
        if !envelope.is_broadcast() {
            if !self.ends.contains_key(&envelope.recipient) {
                return Err(unknown(&envelope.recipient));
            }
            return Ok(vec![envelope.recipient.clone()]);
        }
        let listeners = self.listeners.get(&envelope.recipient).map_or(&[][..], Vec::as_slice);
        let sender = parcel.speaker();
        let barred = |one: &str| links.of(one) == Some(Link::Barred);
        let others = listeners.iter().filter(|one| one.as_str() != sender && !barred(one));
        let others: Vec<String> = others.cloned().collect();
        if others.is_empty() && envelope.kind == EnvelopeType::Task {
            let message = format!(
                "Nobody listens to `{}`, so nobody would do the task. Subscribe first, or send it to somebody.",
                envelope.recipient
            );
            return Err(Refusal::new(Code::NoRecipient, message));
        }
        Ok(others)
    }

    /// Opens an exchange with each recipient of a task, which is expected to answer (AEE §4).
    fn pair(&mut self, parcel: &Parcel, links: &Links, respondents: &[String]) {
        let envelope = &parcel.envelope;
        let instead = |one: &str| links.of(one) == Some(Link::Instead);
        // A recipient of a further redacted envelope has its exchanges from that one and from the original.
        let asked: Vec<&String> =
            respondents.iter().filter(|one| parcel.original.is_none() || !instead(one)).collect();
        for respondent in asked {
            let pair = Pair {
                task_id: envelope.id.clone(),
                respondent: respondent.clone(),
                asker: envelope.sender.clone(),
                corr: envelope.corr.clone(),
                status: if parcel.way == Way::Hold { PairStatus::Held } else { PairStatus::Open },
                deadline: parcel.deadline,
            };
            self.pairs.insert((pair.task_id.clone(), respondent.clone()), pair.clone());
            self.fresh.push(pair);
        }
    }
}

fn wrong_hash() -> Refusal {
    let message =
        "A reference's `hash` is not that of the envelope with its id (AEE §10.2). Read that envelope again.";
    Refusal::field(Code::ReferenceHashMismatch, "payload", "reference_hash_mismatch", message)
}

fn unknown(entity: &str) -> Refusal {
    let message = format!(
        "Nobody called `{entity}` is known here. Check `to`; whoever has that name can open a mailbox with \
         `PUT /api/v1/aee/mailboxes/{entity}`."
    );
    Refusal::field(Code::UnknownRecipient, "to", "unknown_recipient", message)
}
