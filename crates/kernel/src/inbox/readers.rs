//! Readers of inboxes: positions under names. Table `inbox_readers`.

use entente_domain::clock::Timestamp;
use entente_domain::inbox::Attention;
use sqlx::PgConnection;

use super::rows::words;
use crate::{Outcome, unknown};

/// A reader of an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// Its name.
    pub name: String,
    /// Place of the last entry that it has marked seen.
    pub place: i64,
    /// Levels that it reads.
    pub levels: Vec<Attention>,
    /// When it last read or marked.
    pub used_at: Timestamp,
}

/// Returns the readers of an inbox.
pub(super) async fn of_inbox(conn: &mut PgConnection, agent: &str) -> Outcome<Vec<Reader>> {
    let rows = sqlx::query!(
        "-- inbox_readers::of_inbox
         SELECT name, place, levels, used_at FROM inbox_readers WHERE agent_id = $1 ORDER BY name",
        agent
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let level =
                |word: &String| Attention::parse(word).ok_or_else(|| unknown("attention level", word));
            let levels = row.levels.iter().map(level).collect::<Outcome<_>>()?;
            Ok(Reader { name: row.name, place: row.place, levels, used_at: row.used_at })
        })
        .collect()
}

/// Stores a reader; one that is there keeps its place, unless the new one is higher.
pub(super) async fn save(conn: &mut PgConnection, agent: &str, reader: &Reader) -> Outcome<i64> {
    let place = sqlx::query_scalar!(
        "-- inbox_readers::save
         INSERT INTO inbox_readers AS r (agent_id, name, place, levels, used_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (agent_id, name)
         DO UPDATE SET place = greatest(r.place, excluded.place), levels = excluded.levels, used_at = excluded.used_at
         RETURNING place",
        agent,
        reader.name,
        reader.place,
        &words(&reader.levels) as &[&str],
        reader.used_at
    )
    .fetch_one(conn)
    .await?;
    Ok(place)
}

/// Deletes up to `limit` readers that were not used since a time; returns their number.
pub(super) async fn forget(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- inbox_readers::forget
         DELETE FROM inbox_readers WHERE (agent_id, name) IN (
             SELECT agent_id, name FROM inbox_readers WHERE used_at < $1 ORDER BY used_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Deletes the readers of an inbox that is closed.
pub(super) async fn close(conn: &mut PgConnection, agent: &str) -> Outcome<()> {
    sqlx::query!("-- inbox_readers::close\n DELETE FROM inbox_readers WHERE agent_id = $1", agent)
        .execute(conn)
        .await?;
    Ok(())
}
