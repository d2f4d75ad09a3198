//! The server's connections to the database, in several pools: a connection is served by the thread that made it, and nobody waits
//! for one that is busy with something of another kind.

use entente_runtime::tasks::Tasks;
use entente_store::commit::PLACES;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use super::{StartError, database};
use crate::background::sweeps;
use crate::config::Config;

/// Connections of the writers' and background tasks' own pool, besides one per writer.
const HOUSE_CONNECTIONS: u32 = 7;

/// Connections of those who hand out and deliver webhooks, and carry letters to peers: theirs alone, so that many receivers take
/// none from writers and requests.
const WEBHOOK_CONNECTIONS: u32 = 6;

/// The pools that a server begins with.
pub(super) struct Pools {
    /// Of writers and background tasks.
    pub house: PgPool,
    /// Of those who send.
    pub webhooks: PgPool,
    /// Of sweeps.
    pub sweeping: PgPool,
    /// Of those who write messages.
    pub messages: PgPool,
    /// Of requests.
    pub doors: PgPool,
}

impl Pools {
    /// Connects, as soon as the database is there.
    ///
    /// # Errors
    /// It is not, or it is too old.
    pub(super) async fn open(
        config: &Config,
        database: &PgConnectOptions,
        tasks: &Tasks,
    ) -> Result<Self, StartError> {
        // Of messages, of jobs and of envelopes.
        let writers = u32::try_from(config.commit_writers * 3).unwrap_or(u32::MAX);
        let (options, leaving) = (|| database.clone(), tasks.draining());
        let pools = Self {
            // Jobs and envelopes that wait for somebody's lock, beside their writers; messages below.
            house: entente_store::house_pool(
                options(),
                writers.saturating_add(HOUSE_CONNECTIONS + 2 * PLACES),
                leaving,
            ),
            webhooks: entente_store::patient_pool(options(), WEBHOOK_CONNECTIONS, leaving),
            sweeping: entente_store::house_pool(options(), sweeps::turns::CONNECTIONS, leaving),
            messages: entente_store::writers_pool(options(), writers.saturating_add(PLACES), leaving),
            doors: entente_store::pool(options(), config.database_connections, leaving),
        };
        // One connection of each is there before the first request is.
        for pool in [&pools.house, &pools.messages, &pools.doors] {
            database::wait_for(pool).await?;
        }
        Ok(pools)
    }
}
