//! How sessions count the events of their own jobs (ARCP §8.3): in the transaction that writes the event, under the lock of
//! the session's row. So the numbers have no gap, and go on while nobody is connected (contract 9, decision 1).

use std::collections::BTreeMap;

use entente_domain::ids::SessionId;
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows;
use crate::Outcome;

/// Where a session counts, while its row is locked.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    /// The last number that it gave.
    pub last_seq: i64,
    /// What it may be sent.
    pub features: Vec<String>,
}

/// Locks these sessions; those that are no more are left out.
pub(crate) async fn lock(
    conn: &mut PgConnection,
    sessions: &[SessionId],
) -> Outcome<BTreeMap<SessionId, Counter>> {
    if sessions.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<Uuid> = sessions.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        "-- sessions::lock
         SELECT id, last_seq, features FROM sessions WHERE id = ANY($1) ORDER BY id FOR UPDATE",
        &ids
    )
    .fetch_all(conn)
    .await?;
    let counter = |last_seq, features| Counter { last_seq, features };
    Ok(rows.into_iter().map(|row| (row.id.into(), counter(row.last_seq, row.features))).collect())
}

/// Writes how far these sessions have counted.
pub(crate) async fn save(conn: &mut PgConnection, counters: &[(SessionId, i64)]) -> Outcome<()> {
    if counters.is_empty() {
        return Ok(());
    }
    rows::count(conn, counters).await
}
