//! Imported bundles: their descriptions, lines and removal (BN-5). `imports.rs` writes them. They are for admins: the
//! exporter's rights on the other server give an agent of this server none.

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{BundleId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use entente_kernel::log::intent_tx::IntentTx;
use entente_kernel::{AppError, Caller, Outcome, not_found};
use serde_json::json;

use super::{ROWS, rows};
use crate::Ctx;

/// An imported bundle.
#[derive(Debug, Clone)]
pub struct BundleRecord {
    /// Its id on this server.
    pub id: BundleId,
    /// The intent, on the server that wrote it.
    pub intent_id: IntentId,
    /// Title of the intent.
    pub title: String,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// The key of the server that sealed it, as a `did:key`.
    pub signed_by: String,
    /// When it was written.
    pub exported_at: Timestamp,
    /// Agent that wrote it: the bundle has the parts that this agent might read there.
    pub exported_by: String,
    /// Size of the file.
    pub bytes: i64,
    /// Lines of the file.
    pub lines: i32,
    /// Agent that imported it.
    pub imported_by: String,
    /// When.
    pub imported_at: Timestamp,
}

/// A line of an imported bundle.
#[derive(Debug, Clone)]
pub struct BundleLine {
    /// Its place in the file, from 1.
    pub number: i32,
    /// Its kind (BN-1.3), or `seal`.
    pub kind: String,
    /// Its text, without the line feed at its end.
    pub line: String,
}

/// Which lines to read.
#[derive(Debug, Clone, Copy)]
pub struct LineFilter<'a> {
    /// Only this kind.
    pub kind: Option<&'a str>,
    /// Only lines after this one.
    pub after: i32,
    /// Maximum number of lines.
    pub limit: u32,
}

/// Returns an imported bundle.
///
/// # Errors
/// The scope `admin` is missing; there is no such bundle.
pub async fn get(ctx: &Ctx, caller: &Caller, id: BundleId) -> Outcome<BundleRecord> {
    caller.require(Scope::Admin)?;
    rows::with_id(&mut *ctx.pool.acquire().await?, id).await?.ok_or_else(|| not_found("bundle"))
}

/// Lists imported bundles, newest first, up to `limit` before `before`; only those of one intent, if one is named.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: Option<IntentId>,
    before: Option<BundleId>,
    limit: u32,
) -> Outcome<Vec<BundleRecord>> {
    caller.require(Scope::Admin)?;
    rows::list(&mut *ctx.pool.acquire().await?, intent_id, before, limit).await
}

/// Reads lines of an imported bundle, in the order of the file: up to the filter's limit, and little more than a MiB. None are
/// left if there are none.
///
/// # Errors
/// As [`get`].
pub async fn lines(
    ctx: &Ctx,
    caller: &Caller,
    id: BundleId,
    filter: &LineFilter<'_>,
) -> Outcome<Vec<BundleLine>> {
    get(ctx, caller, id).await?;
    rows::page(&mut *ctx.pool.acquire().await?, id, filter).await
}

/// The file of an imported bundle, as it is read.
pub struct BundleFile {
    ctx: Ctx,
    caller: Caller,
    record: BundleRecord,
    /// Number of the last line that was read.
    at: i32,
}

impl BundleFile {
    /// Returns the next lines; `None` after the last.
    ///
    /// # Errors
    /// A database error; the bundle was removed meanwhile, or the key is no longer in force.
    pub async fn next(&mut self) -> Outcome<Option<String>> {
        if self.at == self.record.lines {
            return Ok(None);
        }
        self.caller.require_key(self.ctx.now())?;
        let filter = LineFilter { kind: None, after: self.at, limit: ROWS };
        let page = rows::page(&mut *self.ctx.pool.acquire().await?, self.record.id, &filter).await?;
        let mut text = String::new();
        for line in page {
            self.at += 1;
            if line.number != self.at {
                break;
            }
            text.push_str(&line.line);
            text.push('\n');
        }
        if text.is_empty() {
            return Err(AppError::Unavailable("the bundle was removed meanwhile".to_owned()));
        }
        Ok(Some(text))
    }
}

/// Begins to read the file of an imported bundle.
///
/// # Errors
/// As [`get`].
pub async fn file(ctx: &Ctx, caller: &Caller, id: BundleId) -> Outcome<BundleFile> {
    let record = get(ctx, caller, id).await?;
    Ok(BundleFile { ctx: ctx.clone(), caller: caller.clone(), record, at: 0 })
}

/// Returns the bundle of an intent that was written last, for an admin; `None` if none was imported.
///
/// # Errors
/// A database error.
pub(super) async fn latest(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Option<BundleId>> {
    if !caller.has(Scope::Admin) {
        return Ok(None);
    }
    rows::latest(&mut *ctx.pool.acquire().await?, intent_id).await
}

/// Removes an imported bundle. Its lines are swept.
///
/// # Errors
/// As [`get`].
pub async fn remove(ctx: &Ctx, caller: &Caller, id: BundleId) -> Outcome<()> {
    caller.require(Scope::Admin)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let record = rows::with_id(work.reading(), id).await?.ok_or_else(|| not_found("bundle"))?;
    let payload = json!({ "bundle_id": id, "intent_id": record.intent_id });
    work.record(Draft::of(Kind::BundleRemoved, caller.principal(), payload));
    let now = work.now();
    rows::remove(work.conn(), id, now).await?;
    work.commit().await
}

/// Deletes lines of bundles that were removed, or never became whole; returns their number.
///
/// # Errors
/// A database error.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    rows::forget(&mut *ctx.pool.acquire().await?, ctx.now(), limit).await
}
