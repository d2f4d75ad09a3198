//! The servers' own signing key (RFC-0019). Table `server_keys`.
//!
//! A key from `ENTENTE_SIGNING_KEY` is never stored in the database. Without that setting the first server creates a
//! key in the database, where all servers find it: this needs no set-up, and protects against attackers that can
//! write to the database, but not against those that can read all of it. Every key that ever signed stays listed, so
//! that its signatures can be checked.

use std::sync::Arc;

use crate::Pool;
use entente_domain::clock::{Clock, Timestamp};
use entente_domain::identity::signatures::{PublicKey, Signer};
use entente_domain::ids::Chance;
use sqlx::PgConnection;

use crate::{AppError, Outcome};

/// A public key of the servers, current or former.
#[derive(Debug, Clone, Copy)]
pub struct ServerKey {
    /// The key.
    pub public_key: PublicKey,
    /// Time at which the servers first used it.
    pub created_at: Timestamp,
}

/// The key that this server signs with, and all keys known when it started.
#[derive(Debug)]
pub struct ServerKeys {
    /// The key that signs.
    pub signer: Signer,
    /// Every key, oldest first.
    pub known: Vec<ServerKey>,
}

/// Loads the configured key or the one in the database, and creates the latter if there is none.
///
/// # Errors
/// Returns database errors; fails if the stored key does not match its seed.
pub async fn open(
    pool: &Pool,
    clock: &Arc<dyn Clock>,
    chance: &Arc<dyn Chance>,
    configured: Option<&Signer>,
) -> Outcome<ServerKeys> {
    let mut connection = pool.acquire().await?;
    let now = clock.now();
    let signer = if let Some(signer) = configured {
        note(&mut connection, signer, None, now).await?;
        signer.clone()
    } else if let Some(signer) = kept(&mut connection).await? {
        signer
    } else {
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(&chance.bits().to_be_bytes());
        seed[16..].copy_from_slice(&chance.bits().to_be_bytes());
        note(&mut connection, &Signer::from_seed(&seed), Some(&seed), now).await?;
        // Another server may have created one first: all servers use that one.
        let made = kept(&mut connection).await?;
        made.ok_or_else(|| AppError::Inconsistent("the servers' key was not kept".to_owned()))?
    };
    Ok(ServerKeys { signer, known: all(&mut connection).await? })
}

/// Returns the keys with valid signatures: this server's own, and those in the database.
pub(crate) async fn trusted(conn: &mut PgConnection, own: &ServerKeys) -> Outcome<Vec<PublicKey>> {
    // Never empty, because an empty list means any key.
    let mut keys = vec![own.signer.public_key()];
    keys.extend(all(conn).await?.into_iter().map(|key| key.public_key));
    Ok(keys)
}

async fn all(conn: &mut PgConnection) -> Outcome<Vec<ServerKey>> {
    let rows = sqlx::query!(
        "-- server_keys::all
         SELECT did, created_at FROM server_keys ORDER BY created_at, did"
    )
    .fetch_all(conn)
    .await?;
    let read = |did: &str| {
        PublicKey::of_did(did).map_err(|e| AppError::Inconsistent(format!("server key `{did}`: {e}")))
    };
    rows.into_iter()
        .map(|row| Ok(ServerKey { public_key: read(&row.did)?, created_at: row.created_at }))
        .collect()
}

async fn kept(conn: &mut PgConnection) -> Outcome<Option<Signer>> {
    let row = sqlx::query!(
        r#"-- server_keys::kept
         SELECT did, seed AS "seed!" FROM server_keys WHERE seed IS NOT NULL"#
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let signer = Signer::from_seed(&crate::log::writer::digest(row.seed)?);
    if signer.public_key().did() == row.did {
        return Ok(Some(signer));
    }
    Err(AppError::Inconsistent(format!("the kept key {} is not the one of its seed", row.did)))
}

async fn note(
    conn: &mut PgConnection,
    signer: &Signer,
    seed: Option<&[u8; 32]>,
    now: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- server_keys::note
         INSERT INTO server_keys (did, seed, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        signer.public_key().did(),
        seed.map(<[u8; 32]>::as_slice),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}
