//! Runs the bridges: reads the new items of a source, one page at a time. Every server polls, but only one at
//! a time runs a given bridge; if it dies, the next one that polls continues.

use std::sync::Arc;

use entente_arcp::jobs::JobWriter;
use entente_domain::bridges::Bridge;
use entente_domain::canonical::sha256;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::webhooks::endpoints;
use entente_kernel::{AppError, Caller, Outcome, due, try_locks};
use entente_openintent::messages::writer::MessageWriter;

use super::run::BridgeRun;
use super::{BridgeRecord, answers, exports, jobs, may, mirrors, rows};
use crate::Ctx;

/// Runs each due bridge for one page; returns the number of items carried.
///
/// # Errors
/// A database error.
pub async fn step(ctx: &Ctx, job_writer: &JobWriter, message_writer: &MessageWriter) -> Outcome<u64> {
    let due = rows::due(&mut *ctx.pool.acquire().await?, ctx.now()).await?;
    due::run_each(due.into_iter().map(|name| one(ctx, job_writer, message_writer, name))).await
}

/// Runs one bridge, unless another server is running it.
async fn one(
    ctx: &Ctx,
    job_writer: &JobWriter,
    message_writer: &MessageWriter,
    name: String,
) -> Outcome<u64> {
    let lock = lock_of(&format!("bridge\0{name}"));
    // An advisory lock that is only tried: the other servers run other bridges meanwhile.
    let mut guard = ctx.begin_guard().await?;
    if try_locks(&mut guard, &[lock]).await?.is_empty() {
        return Ok(0);
    }
    let Some(kept) = rows::find(&mut guard, &name).await? else { return Ok(0) };
    // One mirror of a channel at a time, so that two of them never show the same envelope.
    if let Bridge::Mirror(mirror) = &kept.bridge {
        let lock = lock_of(&format!("mirror\0{}", mirror.channel_id));
        if try_locks(&mut guard, &[lock]).await?.is_empty() {
            return Ok(0);
        }
    }
    let done = match carry(ctx, job_writer, message_writer, &kept).await {
        Err(AppError::Refused(refusal)) if refusal.code != Code::Unavailable => {
            rest(ctx, &kept, Some(&refusal)).await?;
            Ok(0)
        }
        Err(AppError::Refused(refusal)) => Err(AppError::Unavailable(refusal.message)),
        Ok(count) => {
            rest(ctx, &kept, None).await?;
            Ok(count)
        }
        failed => failed,
    };
    guard.rollback().await?;
    done
}

fn lock_of(name: &str) -> i64 {
    sha256(name).first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

async fn carry(
    ctx: &Ctx,
    job_writer: &JobWriter,
    message_writer: &MessageWriter,
    kept: &BridgeRecord,
) -> Outcome<u64> {
    let caller = powers(ctx, kept).await?;
    let run = BridgeRun { ctx, job_writer, message_writer, kept, caller };
    let mut conn = ctx.pool.acquire().await?;
    may(ctx, &mut conn, &run.caller, &kept.bridge, ctx.now()).await?;
    drop(conn);
    match &kept.bridge {
        Bridge::Jobs(bridge) => {
            let begun = jobs::begin(&run, bridge).await?;
            Ok(begun + answers::bring(&run, bridge).await? + jobs::call_off(&run, bridge).await?)
        }
        Bridge::Mirror(bridge) => mirrors::show(&run, bridge).await,
        Bridge::Export(bridge) => exports::send(&run, bridge).await,
    }
}

/// Returns the caller with the bridge's key, or with the key it was rotated to.
async fn powers(ctx: &Ctx, kept: &BridgeRecord) -> Outcome<Caller> {
    let now = ctx.now();
    let mut grants = endpoints::grants(&mut *ctx.pool.acquire().await?, &[kept.key_id], now).await?;
    let Some(grant) = grants.remove(&kept.key_id) else {
        let message = "The key that set this bridge up is no longer in force. Set it up again.";
        return Err(Refusal::new(Code::Unauthenticated, message).into());
    };
    Ok(Caller::new(Arc::clone(&grant), Some(&kept.agent), now)?)
}

/// Stores why a bridge is paused, or that it is not; a paused bridge is retried and resumes by itself.
async fn rest(ctx: &Ctx, kept: &BridgeRecord, why: Option<&Refusal>) -> Outcome<()> {
    let said = why.map(|refusal| refusal.message.as_str());
    if kept.problem.as_deref() == said {
        return Ok(());
    }
    if let Some(refusal) = why {
        tracing::warn!(bridge = kept.name, code = refusal.code.wire(), "a bridge rests: {}", refusal.message);
    }
    rows::say(&mut *ctx.pool.acquire().await?, &kept.name, said).await
}

/// Deletes records of carried items that are older than the retention of envelopes; returns how many, up to
/// `limit`.
///
/// # Errors
/// A database error.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let Some(before) = ctx.now().checked_sub_signed(ctx.aee.state.settings.memory()) else { return Ok(0) };
    rows::forget(&mut *ctx.pool.acquire().await?, before, limit).await
}
