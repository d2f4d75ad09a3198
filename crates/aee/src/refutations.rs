//! Refutations of envelopes by their recipients (`aee.context.refute`, AEE §9.2). Table `aee_refutations`. A
//! refutation does not change the envelope: it is returned beside it, and the sender is notified.

use std::collections::BTreeMap;

use entente_domain::clock::Timestamp;
use entente_kernel::Outcome;
use sqlx::PgConnection;

/// A refutation of an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refutation {
    /// Id of the refuted envelope.
    pub envelope_id: String,
    /// Entity that refutes it.
    pub entity: String,
    /// Reason given.
    pub reason: String,
    /// Time of the refutation.
    pub at: Timestamp,
}

/// Returns the refutations of these envelopes, earliest first.
///
/// # Errors
/// Returns database errors.
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

/// Stores refutations; a later one by the same entity replaces an earlier one.
pub(crate) async fn keep(conn: &mut PgConnection, all: &[&Refutation]) -> Outcome<()> {
    if all.is_empty() {
        return Ok(());
    }
    // Each once, with its last value, and always in this order, so that two batches cannot deadlock.
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

/// Deletes the refutations of purged envelopes.
///
/// # Errors
/// Returns database errors.
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
