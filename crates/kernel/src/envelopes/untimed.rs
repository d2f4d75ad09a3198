//! Envelopes whose `ts` names no moment (AEE §11.1): the window cannot keep a replay of one from being taken in once the
//! envelope is forgotten, so that its id is remembered. Table `aee_untimed`: digests, and nothing of what was said.

use std::collections::HashSet;

use entente_domain::canonical::sha256;
use sqlx::PgConnection;

use crate::Outcome;

/// Remembers ids for good.
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

/// Those of these ids that are remembered.
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
