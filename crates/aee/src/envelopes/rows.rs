//! Rows of the table `aee_envelopes`. Access to them is checked in `parties.rs`.

use std::collections::HashMap;

use entente_domain::aee::envelopes::receipt::{Receipt, ReceiptStatus, SigCheck, Verified, Voucher};
use entente_domain::aee::envelopes::signing::Scope;
use entente_domain::aee::envelopes::{EnvelopeType, Priority, Warning};
use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, Outcome};
use sqlx::PgConnection;

use super::prepared::PreparedEnvelope;

/// The facts about an accepted envelope that detect duplicates.
#[derive(Debug, Clone)]
pub(crate) struct Stub {
    pub kind: EnvelopeType,
    principal: Option<String>,
    digest: Digest,
    receipt: Receipt,
}

impl Stub {
    /// Returns the stub of an envelope that is being accepted.
    pub fn of(prepared: &PreparedEnvelope, receipt: &Receipt) -> Self {
        Self {
            kind: prepared.envelope.kind,
            principal: prepared.principal.clone(),
            digest: prepared.digest,
            receipt: receipt.clone(),
        }
    }

    /// The refusal of another envelope with the same id: with the first receipt if it is the same envelope
    /// from the same principal, so that a retry is safe.
    pub fn repeated(&self, prepared: &PreparedEnvelope) -> Refusal {
        if self.digest == prepared.digest && self.principal == prepared.principal {
            let message =
                "This envelope was taken in before; `receipt` is its first one. Nothing was done again.";
            let receipt = Some(self.receipt.json());
            return Refusal { receipt, ..Refusal::new(Code::DuplicateId, message) };
        }
        Self::spent()
    }

    /// The refusal of an envelope whose id was used for another one.
    pub fn spent() -> Refusal {
        let message =
            "An envelope with this `id` was taken in before (AEE §11.1). Give each envelope a new id.";
        Refusal::field(Code::DuplicateId, "id", "duplicate_id", message)
    }
}

/// A stored envelope.
#[derive(Debug, Clone)]
pub struct StoredEnvelope {
    /// Its id.
    pub id: String,
    /// Its type.
    pub kind: EnvelopeType,
    /// The sender.
    pub sender: String,
    /// The recipient.
    pub recipient: String,
    /// The AEE intent.
    pub purpose: String,
    /// The thread.
    pub corr: String,
    /// The envelope that it answers.
    pub reply_to: Option<String>,
    /// Its receipt.
    pub receipt: Receipt,
    /// The envelope that the gateway derived it from.
    pub original_id: Option<String>,
    /// The text as received.
    pub body: String,
}

impl StoredEnvelope {
    /// Whether it was delivered to its recipient: neither held for approval nor replaced by a redacted copy.
    pub(crate) fn is_handed_out(&self) -> bool {
        !matches!(self.receipt.status, ReceiptStatus::Held | ReceiptStatus::Redacted)
    }

    /// Returns the stored form of an envelope that is being accepted.
    pub(crate) fn of(prepared: &PreparedEnvelope, receipt: &Receipt) -> Self {
        let envelope = &prepared.envelope;
        Self {
            id: envelope.id.clone(),
            kind: envelope.kind,
            sender: envelope.sender.clone(),
            recipient: envelope.recipient.clone(),
            purpose: envelope.purpose.clone(),
            corr: envelope.corr.clone(),
            reply_to: envelope.reply_to.clone(),
            receipt: receipt.clone(),
            original_id: prepared.original.as_ref().map(|original| original.id.clone()),
            body: prepared.body.clone(),
        }
    }
}

/// A row, as selected by every query of envelopes.
pub(super) struct Row {
    pub id: String,
    pub r#type: String,
    pub sender: String,
    pub recipient: String,
    pub purpose: String,
    pub corr: String,
    pub reply_to: Option<String>,
    pub received_at: Timestamp,
    pub verified_by: String,
    pub kid: Option<String>,
    pub sig_scope: Option<String>,
    pub status: String,
    pub effective_priority: String,
    pub deadline: Option<Timestamp>,
    pub warnings: Vec<String>,
    pub seq: Option<i64>,
    pub delivered: i32,
    pub original_id: Option<String>,
    pub body: String,
}

fn odd(what: &str) -> AppError {
    AppError::Inconsistent(format!("an envelope's {what} is none"))
}

struct ReceiptRow {
    id: String,
    status: String,
    received_at: Timestamp,
    seq: Option<i64>,
    delivered: i32,
    effective_priority: String,
    deadline: Option<Timestamp>,
    verified_by: String,
    kid: Option<String>,
    sig_scope: Option<String>,
    warnings: Vec<String>,
}

impl ReceiptRow {
    fn receipt(self) -> Outcome<Receipt> {
        let warnings: Vec<Warning> = self.warnings.iter().filter_map(|word| Warning::parse(word)).collect();
        Ok(Receipt {
            id: self.id,
            status: match self.status.as_str() {
                "accepted" => ReceiptStatus::Accepted,
                "held" => ReceiptStatus::Held,
                "answered" => ReceiptStatus::Answered,
                "redacted" => ReceiptStatus::Redacted,
                _ => return Err(odd("status")),
            },
            received_at: self.received_at,
            seq: self.seq,
            delivered: self.delivered,
            effective_priority: Priority::parse(&self.effective_priority).ok_or_else(|| odd("priority"))?,
            deadline: self.deadline,
            verified: Verified {
                by: Voucher::parse(&self.verified_by).ok_or_else(|| odd("voucher"))?,
                kid: self.kid,
                scope: match self.sig_scope {
                    None => None,
                    Some(scope) => Some(Scope::parse(&scope).ok_or_else(|| odd("scope"))?),
                },
                // Stored as the warning that every such envelope has.
                sig: warnings.contains(&Warning::SigUnverified).then_some(SigCheck::Unverified),
            },
            warnings,
        })
    }
}

impl Row {
    pub(super) fn kept(self) -> Outcome<StoredEnvelope> {
        let receipt = ReceiptRow {
            id: self.id.clone(),
            status: self.status,
            received_at: self.received_at,
            seq: self.seq,
            delivered: self.delivered,
            effective_priority: self.effective_priority,
            deadline: self.deadline,
            verified_by: self.verified_by,
            kid: self.kid,
            sig_scope: self.sig_scope,
            warnings: self.warnings,
        };
        Ok(StoredEnvelope {
            id: self.id,
            kind: EnvelopeType::parse(&self.r#type).ok_or_else(|| odd("type"))?,
            sender: self.sender,
            recipient: self.recipient,
            purpose: self.purpose,
            corr: self.corr,
            reply_to: self.reply_to,
            receipt: receipt.receipt()?,
            original_id: self.original_id,
            body: self.body,
        })
    }
}

fn status(status: ReceiptStatus) -> &'static str {
    match status {
        ReceiptStatus::Accepted => "accepted",
        ReceiptStatus::Held => "held",
        ReceiptStatus::Answered => "answered",
        ReceiptStatus::Redacted => "redacted",
    }
}

/// Loads the stubs of these ids.
pub(crate) async fn stubs(conn: &mut PgConnection, ids: &[&str]) -> Outcome<HashMap<String, Stub>> {
    let rows = sqlx::query!(
        "-- aee_envelopes::stubs
         SELECT id, type, principal_id, digest, status, received_at, seq, delivered, effective_priority, deadline,
                verified_by, kid, sig_scope, warnings
         FROM aee_envelopes WHERE id = ANY($1)",
        ids as &[&str]
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let receipt = ReceiptRow {
                id: row.id.clone(),
                status: row.status,
                received_at: row.received_at,
                seq: row.seq,
                delivered: row.delivered,
                effective_priority: row.effective_priority,
                deadline: row.deadline,
                verified_by: row.verified_by,
                kid: row.kid,
                sig_scope: row.sig_scope,
                warnings: row.warnings,
            };
            let stub = Stub {
                kind: EnvelopeType::parse(&row.r#type).ok_or_else(|| odd("type"))?,
                principal: row.principal_id,
                digest: entente_kernel::log::writer::digest(row.digest)?,
                receipt: receipt.receipt()?,
            };
            Ok((row.id, stub))
        })
        .collect()
}

/// Loads an envelope.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn load(conn: &mut PgConnection, id: &str) -> Outcome<Option<StoredEnvelope>> {
    Ok(load_all(conn, &[id]).await?.remove(id))
}

/// Inserts envelopes with their receipts.
pub(crate) async fn insert(conn: &mut PgConnection, all: &[(&PreparedEnvelope, &Receipt)]) -> Outcome<()> {
    if all.is_empty() {
        return Ok(());
    }
    // Always sorted by id, so that two batches with the same ids cannot deadlock.
    let mut all = all.to_vec();
    all.sort_unstable_by(|(_, one), (_, other)| one.id.cmp(&other.id));
    let text = |of: &dyn Fn(&PreparedEnvelope, &Receipt) -> String| -> Vec<String> {
        all.iter().map(|(prepared, receipt)| of(prepared, receipt)).collect()
    };
    let maybe = |of: &dyn Fn(&PreparedEnvelope) -> Option<String>| -> Vec<Option<String>> {
        all.iter().map(|(prepared, _)| of(prepared)).collect()
    };
    let sent: Vec<Option<Timestamp>> = all.iter().map(|(prepared, _)| prepared.envelope.sent_at).collect();
    let received: Vec<Timestamp> = all.iter().map(|(_, receipt)| receipt.received_at).collect();
    let deadlines: Vec<Option<Timestamp>> = all.iter().map(|(_, receipt)| receipt.deadline).collect();
    let seqs: Vec<Option<i64>> = all.iter().map(|(_, receipt)| receipt.seq).collect();
    let delivered: Vec<i32> = all.iter().map(|(_, receipt)| receipt.delivered).collect();
    let digests: Vec<Vec<u8>> = all.iter().map(|(prepared, _)| prepared.digest.to_vec()).collect();
    let warnings = text(&|_, receipt| {
        receipt.warnings.iter().map(|warning| warning.as_str()).collect::<Vec<_>>().join(",")
    });
    sqlx::query!(
        "-- aee_envelopes::insert
         INSERT INTO aee_envelopes (id, type, sender, recipient, purpose, corr, reply_to, priority, sent_at, received_at,
             principal_id, verified_by, kid, sig_scope, status, effective_priority, deadline, warnings, seq, delivered,
             original_id, body, digest, hash)
         SELECT id, type, sender, recipient, purpose, corr, reply_to, priority, sent_at, received_at, principal_id,
                verified_by, kid, sig_scope, status, effective_priority, deadline, string_to_array(warnings, ','), seq, delivered,
                original_id, body, digest, hash
         FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                     $9::timestamptz[], $10::timestamptz[], $11::text[], $12::text[], $13::text[], $14::text[],
                     $15::text[], $16::timestamptz[], $17::text[], $18::bigint[], $19::integer[], $20::text[],
                     $21::text[], $22::bytea[], $23::text[], $24::text[])
              AS e (id, type, sender, recipient, purpose, corr, reply_to, priority, sent_at, received_at, principal_id,
                    verified_by, kid, status, effective_priority, deadline, warnings, seq, delivered, original_id, body,
                    digest, hash, sig_scope)",
        &text(&|_, receipt| receipt.id.clone()),
        &text(&|prepared, _| prepared.envelope.kind.as_str().to_owned()),
        &text(&|prepared, _| prepared.envelope.sender.clone()),
        &text(&|prepared, _| prepared.envelope.recipient.clone()),
        &text(&|prepared, _| prepared.envelope.purpose.clone()),
        &text(&|prepared, _| prepared.envelope.corr.clone()),
        &maybe(&|prepared| prepared.envelope.reply_to.clone()) as &[Option<String>],
        &text(&|prepared, _| prepared.envelope.priority.as_str().to_owned()),
        &sent as &[Option<Timestamp>],
        &received,
        &maybe(&|prepared| prepared.principal.clone()) as &[Option<String>],
        &text(&|prepared, _| prepared.verified.by.as_str().to_owned()),
        &maybe(&|prepared| prepared.verified.kid.clone()) as &[Option<String>],
        &text(&|_, receipt| status(receipt.status).to_owned()),
        &text(&|_, receipt| receipt.effective_priority.as_str().to_owned()),
        &deadlines as &[Option<Timestamp>],
        &warnings,
        &seqs as &[Option<i64>],
        &delivered,
        &maybe(&|prepared| prepared.original.as_ref().map(|original| original.id.clone())) as &[Option<String>],
        &text(&|prepared, _| prepared.body.clone()),
        &digests,
        &text(&|prepared, _| prepared.hash.clone()),
        &maybe(&|prepared| prepared.verified.scope.map(|scope| scope.as_str().to_owned())) as &[Option<String>]
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads those of these envelopes that are stored, by id.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn load_all(conn: &mut PgConnection, ids: &[&str]) -> Outcome<HashMap<String, StoredEnvelope>> {
    let rows = sqlx::query_as!(
        Row,
        "-- aee_envelopes::load_all
         SELECT id, type, sender, recipient, purpose, corr, reply_to, received_at, verified_by, kid, sig_scope, status,
                effective_priority, deadline, warnings, seq, delivered, original_id, body
         FROM aee_envelopes WHERE id = ANY($1)",
        ids as &[&str]
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| row.kept().map(|kept| (kept.id.clone(), kept))).collect()
}

/// Makes an approved task count as sent to its bus now: a trigger of the schema marks it.
pub(crate) async fn agreed(conn: &mut PgConnection, id: &str) -> Outcome<()> {
    let agreed = sqlx::query!(
        "-- aee_envelopes::agreed
         UPDATE aee_envelopes SET agreed = true WHERE id = $1",
        id
    );
    agreed.execute(conn).await?;
    Ok(())
}

/// Deletes up to `limit` envelopes received before a moment; returns their ids, and the ids of those without
/// a valid `ts`.
///
/// The last number of the order over buses stays, because the next one follows it; without its envelope's id, which may
/// be used again.
pub(super) async fn delete(
    conn: &mut PgConnection,
    before: Timestamp,
    limit: i64,
) -> Outcome<(Vec<String>, Vec<String>)> {
    let deleted = sqlx::query!(
        "-- aee_envelopes::delete
         WITH old AS (
             SELECT id FROM aee_envelopes WHERE received_at < $1 ORDER BY received_at LIMIT $2
             FOR UPDATE SKIP LOCKED),
         last AS (SELECT max(number) AS number FROM aee_bus_order),
         ordered AS (DELETE FROM aee_bus_order
                     WHERE envelope_id = ANY (ARRAY(SELECT id FROM old) || ''::text)
                       AND number < (SELECT number FROM last)),
         blank AS (UPDATE aee_bus_order SET envelope_id = ''
                   WHERE envelope_id = ANY (ARRAY(SELECT id FROM old)) AND number = (SELECT number FROM last))
         DELETE FROM aee_envelopes e USING old WHERE e.id = old.id RETURNING e.id, e.sent_at",
        before,
        limit
    );
    let deleted = deleted.fetch_all(conn).await?;
    let untimed = deleted.iter().filter(|row| row.sent_at.is_none()).map(|row| row.id.clone()).collect();
    Ok((deleted.into_iter().map(|row| row.id).collect(), untimed))
}
