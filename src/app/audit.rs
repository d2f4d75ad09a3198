//! The house's own log: what happened to principals, keys and agents. Table `events`, the line of no intent.

use entente_core::events::{Break, Event, Sealed, verify};
use entente_core::ids::IntentId;
use entente_core::keys::Scope;

use super::events::{self, Filter, Verification};
use super::{Caller, Ctx, Outcome};

/// The house's events, the newest first.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &Filter) -> Outcome<Vec<Event>> {
    caller.require(Scope::Admin)?;
    let mut connection = ctx.pool.acquire().await?;
    events::page(&mut connection, IntentId::HOUSE, filter).await
}

/// Verifies the house's whole chain.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn verify_chain(ctx: &Ctx, caller: &Caller) -> Outcome<Verification> {
    caller.require(Scope::Admin)?;
    let mut connection = ctx.pool.acquire().await?;
    let events: Vec<Sealed> =
        events::all(&mut connection, IntentId::HOUSE).await?.iter().map(Sealed::from).collect();
    let breaks: Vec<Break> = verify(&events, 1, None);
    Ok(Verification { events, breaks })
}
