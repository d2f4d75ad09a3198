//! Whether the stored logs are whole (RFC-0019): every event in its place, linked and unchanged, and the last one where the
//! line ends; every checkpoint still true; every proof that was checked still one of its actor's. Reads what others wrote.

use std::collections::BTreeSet;

use entente_core::access::Level;
use entente_core::canonical::show;
use entente_core::chains::{Break, verify, verify_end};
use entente_core::checkpoints::{self as law, Checkpoint};
use entente_core::events::{Kind, Sealed};
use entente_core::ids::{CheckpointId, IntentId};
use entente_core::keys::Scope;
use entente_core::proofs;
use sqlx::PgConnection;

use super::{Caller, Ctx, Outcome, checkpoints, events, identities, seats, server_keys};

/// What a verification of a stored log found (contract 13).
#[derive(Debug, Clone)]
pub struct Verification {
    /// The events as they are stored, oldest first.
    pub events: Vec<Sealed>,
    /// How many checkpoints it was compared with.
    pub checkpoint_count: usize,
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
    let found = verification(ctx, &mut tx, intent_id).await?;
    tx.commit().await?;
    Ok(found)
}

/// Verifies the house's whole chain, and that every checkpoint it tells of is still there.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn of_house(ctx: &Ctx, caller: &Caller) -> Outcome<Verification> {
    caller.require(Scope::Admin)?;
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    let mut found = verification(ctx, &mut tx, IntentId::HOUSE).await?;
    let missing = missing(&mut tx, &found.events).await?;
    found.breaks.extend(missing);
    tx.commit().await?;
    Ok(found)
}

/// Verifies a log that the transaction has locked.
async fn verification(ctx: &Ctx, conn: &mut PgConnection, log: IntentId) -> Outcome<Verification> {
    examine(ctx, conn, log, true).await
}

/// Verifies a log that goes on, up to where it ends now. Nobody is kept from writing to it, however long it is.
pub(crate) async fn of_beginning(ctx: &Ctx, conn: &mut PgConnection, log: IntentId) -> Outcome<Verification> {
    examine(ctx, conn, log, false).await
}

async fn examine(ctx: &Ctx, conn: &mut PgConnection, log: IntentId, locked: bool) -> Outcome<Verification> {
    // Where the line ends is read first: what is there is then at least that, and what came later is left out.
    let end = super::lines::tails(conn, &[log]).await?.pop();
    let (sequence, head) = end.map_or((0, None), |(_, tail)| (tail.sequence, tail.head));
    let later = |place: i64| !locked && place > sequence;
    let (mut sealed, mut breaks) = (Vec::new(), Vec::new());
    for stored in events::stored(conn, log).await? {
        match stored {
            Ok(event) if later(event.sequence) => {}
            Ok(event) => sealed.push(Sealed::from(&event)),
            Err(fault) => breaks.push(fault),
        }
    }
    breaks.extend(verify(&sealed, 1, None));
    breaks.extend(verify_end(&sealed, sequence, head.as_ref().map(show).as_deref()));
    let trusted = server_keys::trusted(conn, &ctx.server_keys).await?;
    let (mut taken, mut unread): (Vec<Checkpoint>, Vec<Break>) = (Vec::new(), Vec::new());
    for stored in checkpoints::of_log(conn, log).await? {
        match stored {
            Ok(checkpoint) if later(checkpoint.last_sequence) => {}
            Ok(checkpoint) => taken.push(checkpoint),
            Err(fault) => unread.push(fault),
        }
    }
    let checkpoint_count = taken.len() + unread.len();
    breaks.extend(unread);
    breaks.extend(law::verify(log, &sealed, &taken, &trusted));
    let signers = signers(&sealed);
    if !signers.is_empty() {
        breaks.extend(proofs::verify(&sealed, &identities::all(conn, &signers).await?));
    }
    Ok(Verification { events: sealed, checkpoint_count, breaks })
}

/// Those whose proofs the server has checked.
pub(crate) fn signers(events: &[Sealed]) -> Vec<&str> {
    let signed = events.iter().filter(|event| event.proof_verified);
    signed.map(|event| event.actor.as_str()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The checkpoints that the house's log tells of and that are gone, moved to another log, or have another root.
async fn missing(conn: &mut PgConnection, house: &[Sealed]) -> Outcome<Vec<Break>> {
    let told = house
        .iter()
        .filter(|event| event.event_type == Kind::CheckpointCreated.wire() && !event.posted)
        .filter_map(|event| Some((event, law::told(&event.payload)?)));
    let told: Vec<_> = told.collect();
    let ids: Vec<CheckpointId> = told.iter().map(|(_, (id, ..))| *id).collect();
    let stored = checkpoints::roots(conn, &ids).await?;
    let breaks = told.into_iter().filter_map(|(event, (id, root, log))| {
        let found = stored.iter().find(|(stored, ..)| *stored == id);
        let same = found.is_some_and(|(_, stored, bytes)| {
            *stored == log && bytes.as_slice().try_into().is_ok_and(|digest| show(&digest) == root)
        });
        (!same).then(|| Break {
            checkpoint_id: Some(id.to_string()),
            ..Break::of(
                event,
                &format!("checkpoint {id}, which this event tells of, is gone or is another one"),
            )
        })
    });
    Ok(breaks.collect())
}
