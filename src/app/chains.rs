//! Whether the stored logs are whole (RFC-0019): every event in its place, linked and unchanged, and the last one where the
//! line ends. Reads what `events.rs` wrote.

use entente_core::access::Level;
use entente_core::canonical::show;
use entente_core::events::{Break, Sealed, verify, verify_end};
use entente_core::ids::IntentId;
use entente_core::keys::Scope;
use sqlx::PgConnection;

use super::{Caller, Ctx, Outcome, events, seats};

/// What a verification of a stored log found (contract 13).
#[derive(Debug, Clone)]
pub struct Verification {
    /// The events as they are stored, oldest first.
    pub events: Vec<Sealed>,
    /// What is wrong with them.
    pub breaks: Vec<Break>,
}

/// Verifies an intent's whole chain.
///
/// # Errors
/// The intent is not there or not readable.
pub async fn of_intent(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Verification> {
    caller.require(Scope::IntentsRead)?;
    // Under the lock, so that the events and the line's end are of one moment.
    let mut tx = ctx.begin(&[intent_id]).await?;
    seats::require(&mut tx, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    let found = verification(&mut tx, intent_id).await?;
    tx.commit().await?;
    Ok(found)
}

/// Verifies the house's whole chain.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn of_house(ctx: &Ctx, caller: &Caller) -> Outcome<Verification> {
    caller.require(Scope::Admin)?;
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    let found = verification(&mut tx, IntentId::HOUSE).await?;
    tx.commit().await?;
    Ok(found)
}

async fn verification(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Verification> {
    let (mut log, mut breaks) = (Vec::new(), Vec::new());
    for stored in events::stored(conn, intent_id).await? {
        match stored {
            Ok(event) => log.push(Sealed::from(&event)),
            Err(fault) => breaks.push(fault),
        }
    }
    breaks.extend(verify(&log, 1, None));
    let end = super::lines::tails(conn, &[intent_id]).await?.pop();
    let (sequence, head) = end.map_or((0, None), |(_, tail)| (tail.sequence, tail.head));
    breaks.extend(verify_end(&log, sequence, head.as_ref().map(show).as_deref()));
    Ok(Verification { events: log, breaks })
}
