//! Verifies stored logs (RFC-0019): all events are in place, linked and unchanged up to the log's end; all
//! checkpoints still match; all proofs checked earlier are still by their actors. Reads one snapshot and
//! blocks nobody.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::access::Level;
use entente_domain::canonical::show;
use entente_domain::identity::identities::Identity;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::signatures::PublicKey;
use entente_domain::ids::{CheckpointId, EventId, IntentId};
use entente_domain::log::chains::{Break, verify_end};
use entente_domain::log::checkpoints as domain;
use entente_domain::log::checkpoints::{Checkpoint, Told};
use entente_domain::log::deleted::DeletedEvents;
use entente_domain::log::events::{Kind, Sealed};
use entente_domain::log::proofs;
use sqlx::PgConnection;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::access::membership;
use crate::audit::{checkpoints, events, floors};
use crate::identity::{identities, server_keys};
use crate::{AppError, Caller, Ctx, Outcome, run_blocking};

/// The result of verifying a stored log (OI-13.1).
#[derive(Debug, Clone)]
pub struct Verification {
    /// The hashes of the oldest events, which retention has deleted.
    pub deleted: DeletedEvents,
    /// The events as stored, oldest first.
    pub events: Vec<Sealed>,
    /// Number of checkpoints compared.
    pub checkpoint_count: usize,
    /// The faults found.
    pub breaks: Vec<Break>,
}

/// Verifies an intent's whole chain.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn of_intent(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Verification> {
    caller.require(Scope::IntentsRead)?;
    let turn = turn().await?;
    let mut tx = ctx.snapshot().await?;
    membership::require(&mut tx, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    let stored = read(ctx, &mut tx, intent_id).await?;
    tx.commit().await?;
    stored.judge(intent_id, turn).await
}

/// Verifies the system log's whole chain, and that every checkpoint recorded in it still exists.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn of_system(ctx: &Ctx, caller: &Caller) -> Outcome<Verification> {
    caller.require(Scope::Admin)?;
    let turn = turn().await?;
    let mut tx = ctx.snapshot().await?;
    let stored = read(ctx, &mut tx, IntentId::SYSTEM).await?;
    let missing = missing(&mut tx, &stored.events).await?;
    tx.commit().await?;
    let mut found = stored.judge(IntentId::SYSTEM, turn).await?;
    found.breaks.extend(missing);
    Ok(found)
}

/// Verifies a log on behalf of the server, without an access check.
pub(crate) async fn of_log(ctx: &Ctx, log: IntentId) -> Outcome<Verification> {
    let turn = turn().await?;
    let mut tx = ctx.snapshot().await?;
    let stored = read(ctx, &mut tx, log).await?;
    tx.commit().await?;
    stored.judge(log, turn).await
}

/// Maximum number of whole logs in memory; further verifications wait.
static TURNS: Semaphore = Semaphore::const_new(4);

/// Waits for a permit to read a whole log.
pub(crate) async fn turn() -> Outcome<SemaphorePermit<'static>> {
    TURNS.acquire().await.map_err(|e| AppError::Unavailable(e.to_string()))
}

/// A log and the data to compare it with, from one snapshot.
struct Stored {
    deleted: DeletedEvents,
    events: Vec<Sealed>,
    /// The log's end: the last event's sequence and hash; `None` if it is unreadable, which is a fault.
    end: Option<(i64, Option<String>)>,
    checkpoints: Vec<Checkpoint>,
    trusted: Vec<PublicKey>,
    identities: Vec<Identity>,
    /// Unreadable events, or an unreadable end of the log.
    unread: Vec<Break>,
    /// Unreadable checkpoints.
    unread_checkpoints: Vec<Break>,
}

impl Stored {
    /// Verifies the log; it holds the permit until it is done, even if the request is gone.
    async fn judge(self, log: IntentId, turn: SemaphorePermit<'static>) -> Outcome<Verification> {
        run_blocking(move || {
            let _turn = turn;
            self.judged(log)
        })
        .await
    }

    fn judged(self, log: IntentId) -> Verification {
        let mut breaks = self.unread;
        breaks.extend(self.deleted.verify_rest(&self.events));
        if let Some((sequence, head)) = &self.end {
            breaks.extend(verify_end(&self.events, *sequence, head.as_deref()));
        }
        let checkpoint_count = self.checkpoints.len() + self.unread_checkpoints.len();
        breaks.extend(self.unread_checkpoints);
        breaks.extend(domain::verify_rest(
            log,
            &self.deleted,
            &self.events,
            &self.checkpoints,
            &self.trusted,
        ));
        breaks.extend(proofs::verify(&self.events, &self.identities));
        Verification { deleted: self.deleted, events: self.events, checkpoint_count, breaks }
    }
}

/// Loads the hashes of the events of a log that retention has deleted, in a snapshot.
pub(crate) async fn deleted(conn: &mut PgConnection, log: IntentId) -> Outcome<DeletedEvents> {
    let leaves = floors::leaves(conn, log, i64::MAX).await?;
    Ok(DeletedEvents(leaves.into_iter().map(|(_, hash)| hash).collect()))
}

async fn read(ctx: &Ctx, conn: &mut PgConnection, log: IntentId) -> Outcome<Stored> {
    let mut unread = Vec::new();
    let end = match crate::log::writer::tails(conn, &[log]).await {
        Ok(mut found) => Some(found.pop().map_or((0, None), |(_, tail)| (tail.sequence, tail.head))),
        Err(AppError::Inconsistent(why)) => {
            let reason = format!("where the log ends cannot be read: {why}");
            unread.push(Break {
                sequence: 0,
                event_id: EventId::from(uuid::Uuid::nil()),
                checkpoint_id: None,
                reason,
            });
            None
        }
        Err(failure) => return Err(failure),
    };
    let deleted = match deleted(conn, log).await {
        Err(AppError::Inconsistent(why)) => {
            let reason = format!("the hashes of the deleted events cannot be read: {why}");
            unread.push(Break {
                sequence: 0,
                event_id: EventId::from(uuid::Uuid::nil()),
                checkpoint_id: None,
                reason,
            });
            DeletedEvents::default()
        }
        read => read?,
    };
    let (mut events, mut checkpoints, mut unread_checkpoints) = (Vec::new(), Vec::new(), Vec::new());
    for stored in events::stored(conn, log).await? {
        match stored {
            Ok(event) => events.push(Sealed::from(&event)),
            Err(fault) => unread.push(fault),
        }
    }
    for stored in checkpoints::of_log(conn, log).await? {
        match stored {
            Ok(checkpoint) => checkpoints.push(checkpoint),
            Err(fault) => unread_checkpoints.push(fault),
        }
    }
    let trusted = server_keys::trusted(conn, &ctx.server_keys).await?;
    let signers = signers(&events);
    let identities = if signers.is_empty() { Vec::new() } else { identities::all(conn, &signers).await? };
    let end = end.map(|(sequence, head)| (sequence, head.as_ref().map(show)));
    Ok(Stored { deleted, events, end, checkpoints, trusted, identities, unread, unread_checkpoints })
}

/// Returns the actors whose proofs the server has checked.
pub(crate) fn signers(events: &[Sealed]) -> Vec<&str> {
    let signed = events.iter().filter(|event| event.proof_verified);
    signed.map(|event| event.actor.as_str()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Finds checkpoints recorded in the system log that are gone, belong to another log, have another root, or
/// lack their last recorded signature, for instance after a change of witness.
async fn missing(conn: &mut PgConnection, system_log: &[Sealed]) -> Outcome<Vec<Break>> {
    let mut told: BTreeMap<CheckpointId, (&Sealed, Told<'_>)> = BTreeMap::new();
    for event in system_log.iter().filter(|event| !event.posted) {
        if event.event_type == Kind::CheckpointCreated.wire() {
            told.extend(domain::told(&event.payload).map(|(id, what)| (id, (event, what))));
        } else if event.event_type == Kind::CheckpointAnchored.wire()
            && let Some((id, signature)) = domain::told_again(&event.payload)
            && let Some((teller, what)) = told.get_mut(&id)
        {
            (*teller, what.signature) = (event, signature);
        }
    }
    let ids: Vec<CheckpointId> = told.keys().copied().collect();
    let stored = checkpoints::bare(conn, &ids).await?;
    let breaks = told.into_iter().filter_map(|(id, (event, what))| {
        let same = stored.get(&id).is_some_and(|(log, root, signature)| {
            *log == what.log
                && root.as_slice().try_into().is_ok_and(|digest| show(&digest) == what.merkle_root)
                && signature == what.signature
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
