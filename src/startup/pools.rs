//! The server's database connections, in several pools: a connection is served by the thread that opened it,
//! and no work waits for connections that are busy with another kind of work. Behind a pooler in transaction mode, the
//! pools of writers and background tasks stay on connections of their own (`routes.rs`).

use entente_runtime::metrics::Metrics;
use entente_runtime::tasks::Tasks;
use entente_store::Pool;
use entente_store::commit::PLACES;
use entente_store::confirmations::Confirmations;

use super::routes::Routes;
use super::{StartError, database};
use crate::background::sweeps;
use crate::config::Config;

/// Connections of the pool for writers and background tasks, besides one per writer.
const MAIN_CONNECTIONS: u32 = 7;

/// Connections of the separate pool for webhook fan-out, webhook delivery and federation, so that many
/// receivers take none from writers and requests.
const WEBHOOK_CONNECTIONS: u32 = 6;

/// Pools of a server.
pub(super) struct Pools {
    /// Pool of writers and background tasks.
    pub main: Pool,
    /// Pool of webhook and federation delivery.
    pub webhooks: Pool,
    /// Pool of the sweeps.
    pub sweeping: Pool,
    /// Pool of the message writers.
    pub messages: Pool,
    /// Pool of requests.
    pub api: Pool,
    /// Pool of the watch over confirmations, which alone does not wait for them.
    pub watch: Pool,
}

impl Pools {
    /// Opens the pools, as soon as the database is available.
    ///
    /// # Errors
    /// The database stays unavailable, or is too old.
    pub(super) async fn open(config: &Config, routes: &Routes, tasks: &Tasks) -> Result<Self, StartError> {
        // Writers of messages, jobs and envelopes.
        let writers = u32::try_from(config.commit_writers * 3).unwrap_or(u32::MAX);
        let (session, shared) = (|| routes.session.clone(), || routes.transactions.clone());
        let leaving = tasks.leaving();
        let pools = Self {
            // Includes the lanes of jobs and envelopes that wait for locks; those of messages are added
            // below.
            main: entente_store::main_pool(
                session(),
                writers.saturating_add(MAIN_CONNECTIONS + 2 * PLACES),
                leaving,
            ),
            webhooks: entente_store::patient_pool(shared(), WEBHOOK_CONNECTIONS, leaving),
            sweeping: entente_store::main_pool(shared(), sweeps::turns::CONNECTIONS, leaving),
            messages: entente_store::writers_pool(session(), writers.saturating_add(PLACES), leaving),
            api: entente_store::pool(shared(), config.database_connections, leaving),
            watch: entente_store::main_pool(session().awaiting(&Confirmations::default()), 1, leaving),
        };
        // Opens one connection of each before the first request.
        for pool in [&pools.main, &pools.messages, &pools.api] {
            database::wait_for(pool).await?;
        }
        Ok(pools)
    }

    /// Shows the pools' use in the metrics.
    pub(super) fn watch(&self, metrics: &Metrics) {
        let named = [
            ("main", &self.main),
            ("webhooks", &self.webhooks),
            ("sweeping", &self.sweeping),
            ("messages", &self.messages),
            ("requests", &self.api),
        ];
        for (name, pool) in named {
            let pool = pool.clone();
            metrics.watch_pool(name, move || pool.usage());
        }
    }
}
