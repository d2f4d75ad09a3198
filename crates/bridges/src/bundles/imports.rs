//! Imports bundles of other servers (BN-5). Tables `bundles` and `bundle_lines`; `records.rs` reads imported bundles.
//!
//! A file is verified line by line as it arrives, and its lines are stored in short transactions, so that a slow sender
//! holds no connection. A bundle is there once its last line was verified; the lines of a file that never became whole
//! are swept.

use std::time::Duration;

use entente_domain::bundles::{LINE_BYTES, Reader, Report, Section};
use entente_domain::canonical::{self, Digest};
use entente_domain::clock::{self, Timestamp};
use entente_domain::identity::keys::Scope;
use entente_domain::identity::signatures::PublicKey;
use entente_domain::ids::{BundleId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::log::intent_tx::IntentTx;
use entente_kernel::{AppError, Caller, Outcome};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::records::BundleRecord;
use super::rows;
use super::turns::BundleTurn;
use crate::Ctx;

/// Maximum number of bundles that a server takes at once; further ones wait.
static TURNS: Semaphore = Semaphore::const_new(4);

/// Time within which a bundle has to arrive.
pub const TIME: Duration = Duration::from_mins(10);

/// Bytes of the largest bundle that is imported.
const FILE_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Lines that are stored at once.
const ROWS: usize = 500;

/// Bytes that are stored at once; the last line may exceed it.
const BYTES: usize = 1024 * 1024;

/// A bundle that is arriving.
pub struct Import {
    ctx: Ctx,
    caller: Caller,
    id: BundleId,
    began: Timestamp,
    trusted: Vec<PublicKey>,
    reader: Reader,
    file: Sha256,
    bytes: u64,
    /// The beginning of the next line.
    rest: Vec<u8>,
    page: VerifiedLines,
    _turn: BundleTurn,
}

/// Verified lines that are not stored yet.
#[derive(Default)]
pub(super) struct VerifiedLines {
    pub(super) numbers: Vec<i32>,
    pub(super) kinds: Vec<String>,
    pub(super) lines: Vec<String>,
    /// Number of the last line.
    last: i32,
    bytes: usize,
}

/// Begins to import a bundle. Besides the keys of this server, `trusted` may have signed it.
///
/// # Errors
/// The scope `admin` is missing; a database error.
pub async fn begin(ctx: &Ctx, caller: &Caller, trusted: Vec<PublicKey>) -> Outcome<Import> {
    caller.require(Scope::Admin)?;
    let turn = BundleTurn::take(&TURNS, ctx, caller).await?;
    let now = ctx.now();
    let id = BundleId::mint(now, &*ctx.chance);
    let own = ctx.server_keys.known.iter().map(|key| key.public_key);
    let trusted: Vec<PublicKey> = own.chain([ctx.server_keys.signer.public_key()]).chain(trusted).collect();
    rows::begin(&mut *ctx.pool.acquire().await?, id, &caller.agent, now, now + 2 * TIME).await?;
    Ok(Import {
        ctx: ctx.clone(),
        caller: caller.clone(),
        id,
        began: now,
        reader: Reader::new(&trusted),
        trusted,
        file: Sha256::new(),
        bytes: 0,
        rest: Vec::new(),
        page: VerifiedLines::default(),
        _turn: turn,
    })
}

impl Import {
    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// They are no part of a bundle, or too many; the key is no longer in force; a database error.
    pub async fn take(&mut self, piece: &[u8]) -> Outcome<()> {
        self.caller.require_key(self.ctx.now())?;
        self.file.update(piece);
        self.bytes += piece.len() as u64;
        if self.bytes > FILE_BYTES {
            let message = format!("The file is larger than the {FILE_BYTES} bytes that this server imports.");
            return Err(Refusal::new(Code::TooLarge, message).into());
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            if self.rest.len() > LINE_BYTES {
                return Err(no_bundle(&format!("a line is longer than {LINE_BYTES} bytes")).into());
            }
            if part.ends_with(b"\n") {
                self.line()?;
            }
            if self.page.numbers.len() >= ROWS || self.page.bytes >= BYTES {
                self.store().await?;
            }
        }
        Ok(())
    }

    /// Verifies the line that has arrived.
    fn line(&mut self) -> Result<(), Refusal> {
        let line = std::mem::take(&mut self.rest);
        self.reader.push(&line).map_err(|fault| no_bundle(&fault))?;
        let mut text = String::from_utf8(line).map_err(|fault| no_bundle(&fault.to_string()))?;
        text.truncate(text.trim_end_matches('\n').len());
        let page = &mut self.page;
        page.last += 1;
        page.bytes += text.len();
        page.numbers.push(page.last);
        page.kinds.push(self.reader.section().map_or("seal", Section::as_str).to_owned());
        page.lines.push(text);
        Ok(())
    }

    /// Stores the verified lines.
    async fn store(&mut self) -> Outcome<()> {
        let page = std::mem::take(&mut self.page);
        self.page.last = page.last;
        rows::store(&mut *self.ctx.pool.acquire().await?, self.id, &page).await
    }

    /// Ends the import of a file that has arrived. Returns the bundle, and whether it is new: the same file is imported
    /// once.
    ///
    /// # Errors
    /// The file is no whole bundle, or not signed by a trusted key; the key of the caller is no longer in force; a database error.
    pub async fn finish(mut self) -> Outcome<(BundleRecord, bool)> {
        let done = self.conclude().await;
        if !matches!(done, Ok((_, true))) {
            self.abandon().await?;
        }
        done
    }

    /// Gives up a file that is no bundle, so that its lines are swept.
    ///
    /// # Errors
    /// A database error.
    pub async fn abandon(self) -> Outcome<()> {
        rows::abandon(&mut *self.ctx.pool.acquire().await?, self.id, self.ctx.now()).await
    }

    async fn conclude(&mut self) -> Outcome<(BundleRecord, bool)> {
        if !self.rest.is_empty() {
            return Err(no_bundle("the file ends in the middle of a line").into());
        }
        self.store().await?;
        let Some(header) = self.reader.header().cloned() else {
            return Err(no_bundle("the file is empty").into());
        };
        let report = std::mem::replace(&mut self.reader, Reader::new(&[])).finish();
        let report = report.map_err(|fault| no_bundle(&fault))?;
        let signed_by = report.log.signed_by.clone().unwrap_or_default();
        if let Some(fault) = first_fault(&report) {
            // A file of another server has more faults, all for one reason.
            let is_trusted = self.trusted.iter().any(|key| key.did() == signed_by);
            return Err(if is_trusted { no_bundle(&fault) } else { untrusted(&signed_by) }.into());
        }
        let read = clock::parse(&header.exported_at);
        let exported_at = read.ok_or_else(|| no_bundle("`exported_at` is no time"))?;
        self.caller.require_key(self.ctx.now())?;
        let digest: Digest = self.file.clone().finalize().into();
        let mut work = IntentTx::begin(&self.ctx, &self.caller, IntentId::SYSTEM, None).await?;
        if let Some(same) = rows::with_digest(work.reading(), &digest).await? {
            return Ok((same, false));
        }
        let payload = json!({
            "bundle_id": self.id, "intent_id": header.intent.id, "digest": canonical::show(&digest),
            "signed_by": signed_by,
        });
        work.record(Draft::of(Kind::BundleImported, self.caller.principal(), payload));
        let whole = BundleRecord {
            id: self.id,
            intent_id: header.intent.id,
            title: header.intent.title,
            sha256: canonical::hex(&digest),
            signed_by,
            exported_at,
            exported_by: header.exported_by,
            bytes: i64::try_from(self.bytes).unwrap_or(i64::MAX),
            lines: self.page.last,
            imported_by: self.caller.agent.clone(),
            imported_at: self.began,
        };
        let now = work.now();
        if !rows::keep(work.conn(), &whole, now).await? {
            return Err(AppError::Unavailable("the bundle did not arrive in time".to_owned()));
        }
        work.commit().await?;
        Ok((whole, true))
    }
}

fn no_bundle(fault: &str) -> Refusal {
    let message = format!(
        "The file is no whole bundle: {fault}. Nothing was imported. `entente verify` lists all faults of a file; \
         `entente intent export` writes a whole one."
    );
    Refusal::new(Code::InvalidRequest, message)
}

fn untrusted(signer: &str) -> Refusal {
    let message = format!(
        "The bundle is signed by {signer}, which is no key of this server. Nothing was imported. Compare it with \
         `GET /api/v1/server/keys` of the server that wrote the file, and name the keys there as `server_key`."
    );
    Refusal::new(Code::BadSignature, message)
}

/// Returns the first fault in the log of a file that has all its lines in place.
fn first_fault(report: &Report) -> Option<String> {
    let broken = report.log.breaks.first().map(|fault| format!("event {}: {}", fault.sequence, fault.reason));
    let others = [&report.damaged, &report.log.contradictions, &report.log.unsigned];
    others.into_iter().find_map(|faults| faults.first().cloned()).or(broken)
}
