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
use entente_kernel::{AppError, Outcome};
use sqlx::PgConnection;

use super::IngestResult;
use super::context::IngestContext;
use super::links::{self, Link, Links};
use super::push::push;
use crate::Ctx;
use crate::envelopes;
use crate::envelopes::{Disposition, PreparedEnvelope, StoredEnvelope, Stub};
use crate::mailboxes;
use crate::mailboxes::{Item, Known};
use crate::{exchanges, notifying, refutations};

/// Decides prepared envelopes and writes the accepted ones, in the caller's transaction.
///
/// # Errors
/// Returns database errors, also if another transaction has inserted one of the ids meanwhile.
pub async fn put(
    ctx: &Ctx,
    conn: &mut PgConnection,
    known: &mut Known,
    prepared_envelopes: &[impl Borrow<PreparedEnvelope>],
    now: Timestamp,
) -> Outcome<IngestResult> {
    put_beside(ctx, conn, known, prepared_envelopes, &[], now).await
}

/// Like [`put`], for a caller that works with the mailboxes `beside` in the same transaction.
///
/// They are locked with the others, because two transactions that lock mailboxes in several steps may deadlock.
///
/// # Errors
/// As [`put`].
pub async fn put_beside(
    ctx: &Ctx,
    conn: &mut PgConnection,
    known: &mut Known,
    prepared_envelopes: &[impl Borrow<PreparedEnvelope>],
    beside: &[&str],
    now: Timestamp,
) -> Outcome<IngestResult> {
    let handed: Vec<&PreparedEnvelope> = prepared_envelopes.iter().map(Borrow::borrow).collect();
    let said: Vec<&PreparedEnvelope> = handed.iter().copied().flat_map(with_made).collect();
    let mut context = IngestContext::prepare(conn, known, &said, beside, now).await?;
    // Decided by the rules of the locked policy, which cannot change before the commit.
    let (links, none) = (links::ask(ctx, conn, &handed, &context.listeners).await?, Links::default());
    let (mut all, mut each) = (Vec::new(), Vec::new());
    for (prepared, links) in handed.iter().copied().zip(&links) {
        // A derived envelope comes right after its original and shares its fate.
        for one in with_made(prepared) {
            all.push(one);
            each.push(links);
        }
        all.extend(&links.made);
        each.extend(links.made.iter().map(|_| &none));
    }
    let (strict, strict_references) = (ctx.settings.strict, ctx.state.settings.strict_references);
    let mut receipts: Vec<Outcome<Receipt>> = Vec::with_capacity(all.len());
    for (index, (prepared, links)) in all.iter().zip(each).enumerate() {
        let judged = if prepared.judged.is_some_and(|version| version != context.version) {
            Err(AppError::Overtaken)
        } else if let Some(fault) = &links.fault {
            Err(AppError::Refused(fault.clone()))
        } else {
            context.judge(prepared, links, strict, strict_references, now).map_err(AppError::Refused)
        };
        if let Ok(receipt) = &judged {
            context.stubs.insert(receipt.id.clone(), Stub::of(prepared, receipt));
            context.accepted.push(index);
            context.taken.insert(receipt.id.clone());
        } else {
            // Envelopes derived from this one fall with it, even if another one with its id was accepted before.
            context.taken.remove(&prepared.envelope.id);
        }
        receipts.push(judged);
    }
    let rows: Vec<(&PreparedEnvelope, &Receipt)> = context
        .accepted
        .iter()
        .filter_map(|index| Some((*all.get(*index)?, receipts.get(*index)?.as_ref().ok()?)))
        .collect();
    envelopes::insert(conn, &rows).await?;
    mailboxes::put(conn, &context.items).await?;
    let places: HashMap<&str, usize> =
        rows.iter().enumerate().map(|(at, (_, receipt))| (receipt.id.as_str(), at)).collect();
    let kept = |id: &str| {
        let (prepared, said) = rows.get(*places.get(id)?)?;
        Some(StoredEnvelope::of(prepared, said))
    };
    let pushed = push(ctx, conn, &context.items, kept, now).await?;
    exchanges::insert(conn, &context.fresh, now).await?;
    exchanges::close(conn, &context.closed).await?;
    let refuted = rows.iter().filter_map(|(prepared, _)| prepared.refutation.as_ref());
    refutations::keep(conn, &refuted.collect::<Vec<_>>()).await?;
    let is_told = notifying::tell(ctx, conn, &rows, now).await?;
    let touched: BTreeSet<String> = context.items.iter().map(|item| item.entity.clone()).collect();
    let noted = rows.iter().map(|(prepared, _)| ("taken in", prepared.envelope.clone())).collect();
    let touched = touched.into_iter().collect();
    Ok(IngestResult { answers: answers(&handed, &links, receipts), touched, pushed, is_told, noted })
}

/// Iterates over a prepared envelope and the one that the gateway derived from it.
fn with_made(prepared: &PreparedEnvelope) -> impl Iterator<Item = &PreparedEnvelope> {
    std::iter::once(prepared).chain(prepared.made.as_deref())
}

/// Selects the answers to the envelopes of the callers; refusals of derived ones are only logged.
fn answers(
    prepared_envelopes: &[&PreparedEnvelope],
    links: &[Links],
    receipts: Vec<Outcome<Receipt>>,
) -> Vec<Outcome<Receipt>> {
    let mut receipts = receipts.into_iter();
    let answer = |(prepared, links): (&&PreparedEnvelope, &Links)| {
        let own = receipts.next();
        let made = receipts.by_ref().take(usize::from(prepared.made.is_some()) + links.made.len());
        for refused in made.filter_map(Result::err).filter(|_| matches!(own, Some(Ok(_)))) {
            tracing::warn!(target: "entente::aee", error = %refused, "what was made from an envelope was refused");
        }
        own.unwrap_or_else(|| Err(super::handler::lost()))
    };
    prepared_envelopes.iter().zip(links).map(answer).collect()
}

impl IngestContext {
    /// Decides one envelope and records the consequences for the next one of the batch.
    fn judge(
        &mut self,
        prepared: &PreparedEnvelope,
        links: &Links,
        strict: bool,
        strict_references: bool,
        now: Timestamp,
    ) -> Result<Receipt, Refusal> {
        let envelope = &prepared.envelope;
        if let Some(stub) = self.stubs.get(&envelope.id) {
            return Err(stub.repeated(prepared));
        }
        if envelope.sent_at.is_none() && self.spent.contains(&envelope.id) {
            return Err(Stub::spent());
        }
        if self.voided(prepared) {
            return Err(signing::wrong());
        }
        let mut warnings = prepared.warnings.clone();
        if envelope.references.iter().any(|one| one.hash.is_some() && !self.fits(prepared, one)) {
            if strict_references {
                return Err(wrong_hash());
            }
            warnings.push(Warning::ReferenceHashMismatch);
        }
        self.passes_on(prepared, now)?;
        let verdict = if prepared.verified.by == Voucher::Gateway {
            self.own(prepared, now)?
        } else {
            pairing::judge(envelope, &self.answered(prepared), strict, now)?
        };
        if let Verdict::Odd(warning) = verdict {
            warnings.push(warning);
        }
        let recipients = self.recipients(prepared, links)?;
        if recipients.is_empty() && prepared.disposition != Disposition::Keep {
            warnings.push(Warning::NoSubscribers);
        }
        if verdict == Verdict::Closes
            && let Some(task) = envelope.reply_to.clone()
        {
            let speaker = prepared.speaker().to_owned();
            let pair = (task.clone(), speaker.clone());
            self.pairs.entry(pair).and_modify(|pair| pair.status = PairStatus::Closed);
            self.closed.push((task, speaker, envelope.id.clone()));
        }
        if envelope.kind == EnvelopeType::Task && prepared.disposition != Disposition::Keep {
            self.pair(prepared, links, &recipients);
        }
        let (seq, delivered) = self.deliver(prepared, links, &recipients, now);
        warnings.sort_unstable();
        warnings.dedup();
        Ok(Receipt {
            id: envelope.id.clone(),
            status: match prepared.disposition {
                Disposition::Deliver => ReceiptStatus::Accepted,
                Disposition::Hold => ReceiptStatus::Held,
                Disposition::Keep => ReceiptStatus::Answered,
                Disposition::Withhold => ReceiptStatus::Redacted,
            },
            received_at: now,
            seq,
            delivered,
            effective_priority: prepared.effective,
            deadline: prepared.deadline,
            verified: prepared.verified.clone(),
            warnings,
        })
    }

    /// Queues mailbox items if the envelope is to be delivered; returns its number, unless there are several, and
    /// their count.
    fn deliver(
        &mut self,
        prepared: &PreparedEnvelope,
        links: &Links,
        recipients: &[String],
        now: Timestamp,
    ) -> (Option<i64>, i32) {
        if prepared.disposition != Disposition::Deliver {
            return (None, 0);
        }
        let envelope = &prepared.envelope;
        let mut seq = None;
        for entity in recipients {
            let effective = match links.of(entity) {
                Some(Link::Whole(believed)) => believed,
                Some(Link::Instead) => continue,
                Some(Link::Barred) | None => prepared.effective,
            };
            let end = self.ends.entry(entity.clone()).or_default();
            *end += 1;
            seq = (!envelope.is_broadcast()).then_some(*end);
            self.items.push(Item::new(entity, *end, &envelope.id, effective, now));
        }
        (seq, i32::try_from(recipients.len()).unwrap_or(i32::MAX))
    }

    /// Returns whether the key that verified the signature is no longer in force.
    fn voided(&self, prepared: &PreparedEnvelope) -> bool {
        let kid = prepared.verified.kid.as_ref().filter(|_| prepared.verified.by == Voucher::Sig);
        kid.is_some_and(|kid| !self.keys.contains(&(prepared.envelope.sender.clone(), kid.clone())))
    }

    /// Decides an envelope of the gateway's own.
    ///
    /// An immediate answer is accepted only with the envelope that it answers, and a derived one only with its
    /// original. A derived answer closes the exchange of the task that it is forwarded for; the original answer has
    /// closed the gateway's own exchange. The gateway's other envelopes close exchanges by other means.
    fn own(&self, prepared: &PreparedEnvelope, now: Timestamp) -> Result<Verdict, Refusal> {
        if let Some(original) = &prepared.original {
            if !original.kept && !self.taken.contains(&original.id) {
                return Err(Refusal::new(Code::ReplyMismatch, "What this was made from was not taken in."));
            }
            let task = prepared.envelope.reply_to.clone().filter(|_| prepared.envelope.kind.is_terminal());
            let pair = task.and_then(|task| self.pairs.get(&(task, original.sender.clone())));
            let waits = pair.is_some_and(|pair| pair.status_at(now) == PairStatus::Open);
            return Ok(if waits { Verdict::Closes } else { Verdict::Plain });
        }
        let asked = prepared.envelope.reply_to.as_ref();
        if prepared.disposition == Disposition::Keep && !asked.is_some_and(|asked| self.taken.contains(asked))
        {
            return Err(Refusal::new(Code::ReplyMismatch, "What this answers was not taken in."));
        }
        Ok(Verdict::Plain)
    }

    /// Refuses an answer to the gateway's own task if the task behind it is over already, because a task has one end.
    ///
    /// This happens if the respondent has answered that task directly, past the gateway.
    fn passes_on(&self, prepared: &PreparedEnvelope, now: Timestamp) -> Result<(), Refusal> {
        let made = prepared.made.as_deref().map(|made| (made, made.envelope.reply_to.as_ref()));
        let Some((made, Some(task))) = made.filter(|(made, _)| made.envelope.kind.is_terminal()) else {
            return Ok(());
        };
        let pair = self.pairs.get(&(task.clone(), made.speaker().to_owned()));
        match pair.map(|pair| pair.status_at(now)) {
            Some(PairStatus::Closed) if prepared.envelope.reply_to.as_ref() != Some(task) => {
                Err(pairing::over("whom it was asked for has its result or error already"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a reference's hash is that of its envelope.
    ///
    /// An envelope that is unknown, or that does not involve the sender, is not compared: the result would disclose
    /// its existence.
    fn fits(&self, prepared: &PreparedEnvelope, reference: &Reference) -> bool {
        let Some(known) = self.referred.get(&reference.id) else { return true };
        !known.is_party(prepared.speaker()) || reference.hash.as_ref() == Some(&known.hash)
    }

    /// Returns the known facts about the envelope that this one answers.
    fn answered(&self, prepared: &PreparedEnvelope) -> pairing::Known {
        let envelope = &prepared.envelope;
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
    fn recipients(&self, prepared: &PreparedEnvelope, links: &Links) -> Result<Vec<String>, Refusal> {
        let envelope = &prepared.envelope;
        if prepared.disposition == Disposition::Keep {
            return Ok(Vec::new());
        }
        if !envelope.is_broadcast() {
            if !self.ends.contains_key(&envelope.recipient) {
                return Err(unknown(&envelope.recipient));
            }
            return Ok(vec![envelope.recipient.clone()]);
        }
        let listeners = self.listeners.get(&envelope.recipient).map_or(&[][..], Vec::as_slice);
        let sender = prepared.speaker();
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
    fn pair(&mut self, prepared: &PreparedEnvelope, links: &Links, respondents: &[String]) {
        let envelope = &prepared.envelope;
        let instead = |one: &str| links.of(one) == Some(Link::Instead);
        // A recipient of a further redacted envelope has its exchanges from that one and from the original.
        let asked: Vec<&String> =
            respondents.iter().filter(|one| prepared.original.is_none() || !instead(one)).collect();
        for respondent in asked {
            let pair = Pair {
                task_id: envelope.id.clone(),
                respondent: respondent.clone(),
                asker: envelope.sender.clone(),
                corr: envelope.corr.clone(),
                status: if prepared.disposition == Disposition::Hold {
                    PairStatus::Held
                } else {
                    PairStatus::Open
                },
                deadline: prepared.deadline,
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
