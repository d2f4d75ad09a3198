//! Reads the sources of bridges: the items of a mailbox, and the envelopes sent to a bus. `rows.rs` records
//! the carried ones.

use entente_kernel::Outcome;
use entente_kernel::log::order;
use sqlx::PgConnection;

/// An envelope in a bridge's source; `taken` means that it was acknowledged.
pub(super) struct Found {
    pub place: i64,
    pub envelope_id: String,
    pub taken: bool,
}

/// Loads the items of a mailbox after a position.
pub(super) async fn items(
    conn: &mut PgConnection,
    entity: &str,
    after: i64,
    limit: i64,
) -> Outcome<Vec<Found>> {
    let rows = sqlx::query!(
        r#"-- aee_bridges::items
         SELECT seq, envelope_id, acked_at IS NOT NULL AS "taken!" FROM aee_items
         WHERE entity = $1 AND seq > $2 ORDER BY seq LIMIT $3"#,
        entity,
        after,
        limit
    )
    .fetch_all(conn)
    .await?;
    let found =
        rows.into_iter().map(|row| Found { place: row.seq, envelope_id: row.envelope_id, taken: row.taken });
    Ok(found.collect())
}

/// Loads the envelopes sent to a bus after a position, in their order (`kernel::log::order`).
pub(super) async fn sent(conn: &mut PgConnection, bus: &str, after: i64, limit: i64) -> Outcome<Vec<Found>> {
    order::advance(&mut *conn).await?;
    let rows = sqlx::query!(
        "-- aee_bridges::sent
         SELECT number, envelope_id FROM aee_bus_order WHERE bus = $1 AND number > $2 ORDER BY number LIMIT $3",
        bus,
        after,
        limit
    )
    .fetch_all(conn)
    .await?;
    let found =
        rows.into_iter().map(|row| Found { place: row.number, envelope_id: row.envelope_id, taken: false });
    Ok(found.collect())
}
