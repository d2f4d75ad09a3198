//! What somebody rejects of what was said to them (`aee.context.refute`, AEE §9.2). Table `aee_refutations`. A refutation
//! changes nothing about the envelope: it is shown beside it, and its sender hears of it.

use std::collections::BTreeMap;

use entente_domain::clock::Timestamp;
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

/// Keeps refutations; a later one by the same entity takes its place.
pub(super) async fn keep(conn: &mut PgConnection, all: &[&Refutation]) -> Outcome<()> {
    if all.is_empty() {
        return Ok(());
    }
    // Each once, the last one said, and always in this order: two batches wait for each other in one direction.
    let all: BTreeMap<(&str, &str), &Refutation> =
        all.iter().map(|one| ((one.envelope_id.as_str(), one.entity.as_str()), *one)).collect();
    let text = |of: fn(&Refutation) -> &str| -> Vec<&str> { all.values().map(|one| of(one)).collect() };
    let at: Vec<Timestamp> = all.values().map(|one| one.at).collect();
    sqlx::query!(
        "-- refutations::keep
         INSERT INTO aee_refutations (envelope_id, entity, reason, at)
         SELECT * FROM UNNEST($1::text[], $2::text[], $3::text[], $4::timestamptz[])
         ON CONFLICT (envelope_id, entity) DO UPDATE SET reason = excluded.reason, at = excluded.at",
        &text(|one| &one.envelope_id) as &[&str],
        &text(|one| &one.entity) as &[&str],
        &text(|one| &one.reason) as &[&str],
        &at
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
