//! Exports an intent with its whole log and its evidence, for `entente verify` (RFC-0019). Only reads.

use std::sync::Arc;

use entente_domain::access::Level;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::openintent::intents::export::Export;

use crate::access::membership;
use crate::audit::{chains, checkpoints, events, floors};
use crate::identity::identities;
use crate::intents;
use crate::{AppError, Caller, Ctx, Outcome, not_found, run_blocking};

/// Returns an intent with its whole log, its checkpoints and the keys for its proofs, signed by the server.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn of_intent(ctx: &Ctx, caller: &Caller, id: IntentId) -> Outcome<Export> {
    caller.require(Scope::IntentsRead)?;
    let turn = chains::turn().await?;
    let mut tx = ctx.snapshot().await?;
    membership::require(&mut tx, &caller.agent, id, Level::Read, ctx.now()).await?;
    let intent = intents::load(&mut tx, id).await?.ok_or_else(|| not_found("intent"))?;
    let log = events::all(&mut tx, id).await?;
    let deleted = chains::deleted(&mut tx, id).await?;
    let begun = floors::load(&mut tx, id).await?.and_then(|floor| floor.intent);
    let end = crate::log::writer::tails(&mut tx, &[id]).await?.pop();
    let stored = checkpoints::of_log(&mut tx, id).await?.into_iter();
    let taken = stored
        .map(|one| one.map_err(|fault| AppError::Inconsistent(fault.reason)))
        .collect::<Outcome<Vec<_>>>()?;
    let export = Export::new(intent, &log, ctx.now()).after(&deleted, begun);
    let known = identities::all(&mut tx, &chains::signers(&export.events)).await?;
    tx.commit().await?;
    let export = export.vouched_for(taken, known);
    let export = match end {
        Some((_, tail)) => export.ending_at(&tail),
        None => export,
    };
    let keys = Arc::clone(&ctx.server_keys);
    run_blocking(move || {
        let _turn = turn;
        export.sealed(&keys.signer)
    })
    .await
}
