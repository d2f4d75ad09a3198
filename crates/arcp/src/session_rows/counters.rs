//! Numbering of the events of a session's own jobs (ARCP §8.3): in the transaction that writes the event, under the
//! lock of the session's row. The numbers have no gap, and continue while no client is connected (ARCP-W-9.1).

use std::collections::BTreeMap;

use entente_domain::arcp::sessions::features::Features;
use entente_domain::ids::SessionId;
use entente_kernel::Outcome;
use sqlx::PgConnection;
use uuid::Uuid;

use super::count;

/// A session's counter, while its row is locked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    /// The last assigned number.
    pub last_seq: i64,
    /// The features that decide about its events.
    pub features: Features,
}

/// Locks these sessions; those that do not exist are left out.
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
    let counter =
        |last_seq, features: Vec<String>| Counter { last_seq, features: Features::parse(&features) };
    Ok(rows.into_iter().map(|row| (row.id.into(), counter(row.last_seq, row.features))).collect())
}

/// Writes the last numbers of these sessions.
pub(crate) async fn save(conn: &mut PgConnection, counters: &[(SessionId, i64)]) -> Outcome<()> {
    if counters.is_empty() {
        return Ok(());
    }
    count(conn, counters).await
}
