//! Reads an intent's log with its evidence for a bundle, step by step in one snapshot (RFC-0019). Only reads.

use entente_domain::identity::identities::Identity;
use entente_domain::ids::IntentId;
use entente_domain::log::checkpoints::Checkpoint;
use entente_domain::log::deleted::DeletedEvents;
use entente_domain::log::events::{Event, Tail};
use entente_domain::openintent::intents::Intent;
use sqlx::PgConnection;

use crate::audit::{chains, checkpoints, events, floors};
use crate::identity::identities;
use crate::{AppError, Outcome, intents};

/// An intent with the end of its log and the evidence for the log (hashes, identities, checkpoints), for a bundle. The
/// events themselves come from [`events_after`].
#[derive(Debug)]
pub struct LogFrame {
    /// The intent.
    pub intent: Intent,
    /// The end of the log; `None` if nothing was ever recorded.
    pub end: Option<Tail>,
    /// The hashes of the oldest events, which retention has deleted.
    pub deleted: DeletedEvents,
    /// The intent as the deleted events made it.
    pub begun: Option<Intent>,
    /// The identities of the actors whose proofs the server has verified.
    pub identities: Vec<Identity>,
    /// The checkpoints of the log.
    pub checkpoints: Vec<Checkpoint>,
}

/// Loads all of a [`LogFrame`]; `None` if there is no such intent.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn frame(conn: &mut PgConnection, id: IntentId) -> Outcome<Option<LogFrame>> {
    let Some(intent) = intents::load(conn, id).await? else { return Ok(None) };
    let deleted = chains::deleted(conn, id).await?;
    let begun = floors::load(conn, id).await?.and_then(|floor| floor.intent);
    let end = crate::log::writer::tails(conn, &[id]).await?.pop().map(|(_, tail)| tail);
    let signers = events::signers(conn, id).await?;
    let signers: Vec<&str> = signers.iter().map(String::as_str).collect();
    let identities = identities::all(conn, &signers).await?;
    let stored = checkpoints::of_log(conn, id).await?.into_iter();
    let checkpoints = stored
        .map(|one| one.map_err(|fault| AppError::Inconsistent(fault.reason)))
        .collect::<Outcome<Vec<_>>>()?;
    Ok(Some(LogFrame { intent, end, deleted, begun, identities, checkpoints }))
}

/// Loads the next events of a log after a position, oldest first: up to `limit`, and little more than `bytes` bytes.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn events_after(
    conn: &mut PgConnection,
    id: IntentId,
    after: i64,
    limit: i64,
    bytes: i64,
) -> Outcome<Vec<Event>> {
    events::after(conn, id, after, limit, bytes).await
}
