//! Reads the sources of bridges: the items of a mailbox, and the envelopes sent to a bus. `rows.rs` records
//! the carried ones.

use entente_kernel::Outcome;
use sqlx::PgConnection;

use super::Place;

/// An envelope in a bridge's source; `taken` means that it was acknowledged.
pub(super) struct Found {
    pub place: Place,
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
    let found = rows.into_iter().map(|row| Found {
        place: Place { number: row.seq, id: String::new() },
        envelope_id: row.envelope_id,
        taken: row.taken,
    });
    Ok(found.collect())
}

/// Loads the envelopes sent to a bus after a position, up to the oldest transaction in progress.
pub(super) async fn sent(
    conn: &mut PgConnection,
    bus: &str,
    after: &Place,
    limit: i64,
) -> Outcome<Vec<Found>> {
    let rows = sqlx::query!(
        "-- aee_bridges::sent
         SELECT xid, id FROM aee_envelopes
         WHERE recipient = $1 AND recipient LIKE 'bus.%' AND (status = 'accepted' OR agreed) AND (xid, id) > ($2, $3)
           AND xid < (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
         ORDER BY xid, id LIMIT $4",
        bus,
        after.number,
        after.id,
        limit
    )
    .fetch_all(conn)
    .await?;
    let found = rows.into_iter().map(|row| Found {
        place: Place { number: row.xid, id: row.id.clone() },
        envelope_id: row.id,
        taken: false,
    });
    Ok(found.collect())
}
