//! Ids of envelopes whose `ts` is no valid time (AEE §11.1). The time window cannot reject a replay of such
//! an envelope once it is deleted, so its id is remembered. Table `aee_untimed`, with digests only.

use std::collections::HashSet;

use entente_domain::canonical::sha256;
use entente_kernel::Outcome;
use sqlx::PgConnection;

/// Stores ids for good.
pub(super) async fn remember(conn: &mut PgConnection, ids: &[String]) -> Outcome<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let digests: Vec<Vec<u8>> = ids.iter().map(|id| sha256(id).to_vec()).collect();
    sqlx::query!(
        "-- aee_untimed::remember
         INSERT INTO aee_untimed (digest) SELECT UNNEST($1::bytea[]) ON CONFLICT DO NOTHING",
        &digests
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns those of these ids that are stored.
pub(crate) async fn remembered(conn: &mut PgConnection, ids: &[&str]) -> Outcome<HashSet<String>> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let digests: Vec<Vec<u8>> = ids.iter().map(|id| sha256(id).to_vec()).collect();
    let known = sqlx::query_scalar!(
        "-- aee_untimed::remembered\n SELECT digest FROM aee_untimed WHERE digest = ANY($1)",
        &digests
    );
    let known: HashSet<Vec<u8>> = known.fetch_all(conn).await?.into_iter().collect();
    let found = ids.iter().zip(digests).filter(|(_, digest)| known.contains(digest));
    Ok(found.map(|(id, _)| (*id).to_owned()).collect())
}
