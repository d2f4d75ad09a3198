//! What somebody rejects of what was said to them (`aee.context.refute`, AEE §9.2). Table `aee_refutations`. A refutation
//! changes nothing about the envelope: it is shown beside it, and its sender hears of it.

use entente_core::clock::Timestamp;
use sqlx::PgConnection;

use super::Outcome;

/// A refutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refutation {
    /// Of which envelope.
    pub envelope_id: String,
    /// Who rejects it.
    pub entity: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub at: Timestamp,
}

/// The refutations of these envelopes, the earliest first.
///
/// # Errors
/// The database.
pub async fn of(conn: &mut PgConnection, envelopes: &[&str]) -> Outcome<Vec<Refutation>> {
    let found = sqlx::query_as!(
        Refutation,
        "-- refutations::of
         SELECT envelope_id, entity, reason, at FROM aee_refutations WHERE envelope_id = ANY($1) ORDER BY at, entity",
        envelopes as &[&str]
    )
    .fetch_all(conn)
    .await?;
    Ok(found)
}

/// Keeps refutations; a later one by the same entity takes the place of the earlier.
pub(crate) async fn keep<'a>(
    conn: &mut PgConnection,
    refutations: impl Iterator<Item = &'a Refutation>,
) -> Outcome<()> {
    // Always in this order, so that two batches wait for each other in one direction; the last of one entity is the last.
    let mut all: Vec<&Refutation> = refutations.collect();
    all.sort_by(|one, other| (&one.envelope_id, &one.entity).cmp(&(&other.envelope_id, &other.entity)));
    for refutation in all {
        keep_one(conn, refutation).await?;
    }
    Ok(())
}

async fn keep_one(conn: &mut PgConnection, refutation: &Refutation) -> Outcome<()> {
    sqlx::query!(
        "-- refutations::keep
         INSERT INTO aee_refutations (envelope_id, entity, reason, at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (envelope_id, entity) DO UPDATE SET reason = $3, at = $4",
        refutation.envelope_id,
        refutation.entity,
        refutation.reason,
        refutation.at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Forgets the refutations of envelopes that are forgotten.
///
/// # Errors
/// The database.
pub async fn forget(conn: &mut PgConnection, envelopes: &[String]) -> Outcome<()> {
    sqlx::query!(
        "-- refutations::forget
         DELETE FROM aee_refutations WHERE envelope_id = ANY($1)",
        envelopes
    )
    .execute(conn)
    .await?;
    Ok(())
}
