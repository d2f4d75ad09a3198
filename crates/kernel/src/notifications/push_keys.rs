//! The key pair by which push services know this installation (RFC 8292). Table `push_keys`: one key for all servers, created
//! by the first. A browser's subscription is bound to its public half.

use std::sync::Arc;

use entente_domain::clock::Clock;
use entente_runtime::push::PushKey;

use crate::{AppError, Outcome, Pool};

/// Loads the key, and creates it if there is none.
///
/// # Errors
/// A database error; the stored key is none; no key can be made.
pub async fn open(pool: &Pool, clock: &Arc<dyn Clock>) -> Outcome<PushKey> {
    let faulty = |fault| AppError::Inconsistent(format!("the key for push messages: {fault}"));
    let mut conn = pool.acquire().await?;
    let stored = async |conn: &mut sqlx::PgConnection| {
        sqlx::query_scalar!("-- push_keys::load\n SELECT pkcs8 FROM push_keys").fetch_optional(conn).await
    };
    if let Some(pkcs8) = stored(&mut conn).await? {
        return PushKey::from_pkcs8(&pkcs8).map_err(faulty);
    }
    let made = PushKey::generate().map_err(faulty)?;
    sqlx::query!(
        "-- push_keys::insert
         INSERT INTO push_keys (pkcs8, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        made,
        clock.now()
    )
    .execute(&mut *conn)
    .await?;
    // Another server may have created one first: all servers use that one.
    let pkcs8 = stored(&mut conn).await?.ok_or_else(|| faulty("it was not stored"))?;
    PushKey::from_pkcs8(&pkcs8).map_err(faulty)
}
