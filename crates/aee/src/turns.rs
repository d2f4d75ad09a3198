//! Envelopes that a turn sends (`crates/bridges/src/turns.rs`): evaluated before its transaction, and delivered within it, all or
//! none.

use entente_domain::aee::envelopes::receipt::Receipt;
use entente_domain::identity::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, Caller, Outcome};
use sqlx::PgConnection;

use crate::Ctx;
use crate::acceptance::{Accepted, Prepared, prepare};
use crate::envelopes::{PreparedEnvelope, note_refusal};
use crate::ingest::{IngestResult, fit, put};
use crate::mailboxes::Known;
use crate::policy::snapshot;

/// Envelopes that may be sent, each with others that share its fate, and the server's own answers to them.
#[derive(Default)]
pub struct Mail {
    bundles: Vec<Vec<PreparedEnvelope>>,
    replies: Vec<Option<String>>,
}

/// Envelopes that a transaction has delivered.
pub struct Delivered {
    /// The results, in order.
    pub accepted: Vec<Accepted>,
    result: IngestResult,
}

/// Evaluates envelopes by the rules in force.
///
/// # Errors
/// The key lacks the scope; the first envelope that is refused, by its place in the list `mail`.
pub async fn prepare_mail(ctx: &Ctx, caller: &Caller, all: &[impl AsRef<[u8]>]) -> Outcome<Mail> {
    let mut mail = Mail::default();
    if all.is_empty() {
        return Ok(mail);
    }
    caller.require(Scope::MailWrite)?;
    let book = snapshot::latest(ctx).await?;
    for (index, bytes) in all.iter().enumerate() {
        let bytes = bytes.as_ref();
        let prepared = prepare(ctx, caller, &book, bytes).await.map_err(|failure| match failure {
            AppError::Refused(refusal) => {
                note_refusal(bytes, &refusal);
                refusal.of_item("mail", index).into()
            }
            failure => failure,
        })?;
        let Prepared { prepared_envelopes, reply } = prepared;
        mail.bundles.push(prepared_envelopes);
        mail.replies.push(reply);
    }
    if !fit(ctx, &mail.bundles).await? {
        let message = "`mail` reaches more mailboxes than one transaction may lock. Take several turns.";
        return Err(Refusal::field(Code::InvalidRequest, "mail", "too_long", message).into());
    }
    Ok(mail)
}

/// Delivers envelopes; the caller commits. It takes the locks of exchanges and mailboxes, and last that of the rules, so
/// nothing that waits for another lock may follow.
///
/// # Errors
/// The first envelope that is refused, by its place in the list `mail`; [`AppError::Overtaken`] if the rules have changed, or another
/// transaction has just used one of the ids: then they are prepared again.
pub async fn send_within(ctx: &Ctx, conn: &mut PgConnection, mail: Mail) -> Outcome<Delivered> {
    let envelopes: Vec<&PreparedEnvelope> = mail.bundles.iter().flatten().collect();
    let put = put(ctx, conn, &mut Known::default(), &envelopes, ctx.now()).await;
    let mut result = put.map_err(|failure| match failure {
        AppError::Database(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            AppError::Overtaken
        }
        failure => failure,
    })?;
    let mut answers = std::mem::take(&mut result.answers).into_iter();
    let mut accepted = Vec::with_capacity(mail.bundles.len());
    for (index, (bundle, reply)) in mail.bundles.iter().zip(mail.replies).enumerate() {
        let own: Vec<Outcome<Receipt>> = answers.by_ref().take(bundle.len()).collect();
        match own.into_iter().next() {
            Some(Ok(receipt)) => accepted.push(Accepted { receipt, reply }),
            Some(Err(AppError::Refused(refusal))) => return Err(refusal.of_item("mail", index).into()),
            Some(Err(failure)) => return Err(failure),
            None => return Err(AppError::Inconsistent("an envelope got no answer".to_owned())),
        }
    }
    Ok(Delivered { accepted, result })
}

impl Delivered {
    /// Wakes the readers of the mailboxes, after the commit.
    pub fn announce(&self, ctx: &Ctx) {
        self.result.announce(ctx);
    }
}
