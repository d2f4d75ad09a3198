//! Chooses the ways to the database: one for work that needs a connection to itself, and one for transactions that need
//! none, which a pooler in transaction mode may serve.

use std::time::{Duration, Instant};

use entente_store::confirmations::Confirmations;
use entente_store::limits::pooler_settings;
use entente_store::named;
use entente_store::pooling::{Pooling, Route, Shared, examine, meet, refuses_option};
use sqlx::postgres::PgConnectOptions;
use tokio::time::timeout;
use tracing::warn;

use super::StartError;
use super::database::{DATABASE_WAIT, is_passing, rest};

/// Time that the database may take to answer each of the few questions about the way to it.
const ANSWER: Duration = Duration::from_secs(10);

/// The ways of a server to its database.
#[derive(Debug)]
pub struct Routes {
    /// For work that needs a connection to itself: migrations with their lock, notifications between servers, and
    /// writers with their own time limits.
    pub session: Route,
    /// For transactions of requests, sweeps, webhooks and tool calls, which bring along all that they need.
    pub transactions: Route,
    /// Whether a synchronous standby confirms commits; the pools of both ways wait for that.
    pub confirmations: Confirmations,
}

impl Routes {
    /// Examines the ways to the database, as soon as it is available.
    ///
    /// # Errors
    /// The database stays unavailable; nothing leads to a connection for a session; the two lead to different databases.
    pub async fn find(
        database: PgConnectOptions,
        direct: Option<PgConnectOptions>,
    ) -> Result<Self, StartError> {
        let (session, transactions) = ways(database, direct).await?;
        let confirmations = Confirmations::default();
        let [session, transactions] = [session, transactions].map(|way| way.awaiting(&confirmations));
        Ok(Self { session, transactions, confirmations })
    }
}

/// Returns the ways of sessions and of transactions.
async fn ways(
    database: PgConnectOptions,
    direct: Option<PgConnectOptions>,
) -> Result<(Route, Route), StartError> {
    let pooling = look(&database).await?;
    let Some(direct) = direct else {
        if let Some(refused) = no_session(pooling, &database) {
            return Err(refused);
        }
        let route = Route::through(database, pooling);
        return Ok((route.clone(), route));
    };
    let beside = look(&direct).await?;
    if no_session(beside, &direct).is_some() {
        return Err(StartError::Indirect(named(&direct)));
    }
    let (pooled, name) = (Route::through(database.clone(), pooling), named(&database));
    let session = Route::through(direct.clone(), beside);
    if !answered(async || meet(&session, &pooled).await, &database).await? {
        return Err(StartError::Elsewhere { direct: named(&direct), database: name });
    }
    let Some(reason) = unfit(pooling) else { return Ok((session, pooled)) };
    warn!(
        database = name,
        "nothing goes through the pooler of DATABASE_URL, and all connections go to ENTENTE_DIRECT_DATABASE_URL: {reason}"
    );
    Ok((session.clone(), session))
}

/// Returns the refusal of a way on which no session keeps its connection.
pub fn no_session(pooling: Pooling, database: &PgConnectOptions) -> Option<StartError> {
    let mode = match pooling {
        Pooling::Direct | Pooling::Session => return None,
        Pooling::Transaction(_) => "transaction",
        Pooling::Statement => "statement",
    };
    Some(StartError::Pooled { mode, database: named(database) })
}

/// Returns why no transaction can go through this pooler, and the remedy; `None` if all can.
pub fn unfit(pooling: Pooling) -> Option<String> {
    match pooling {
        Pooling::Direct | Pooling::Session | Pooling::Transaction(Shared { keeps_statements: true, is_limited: true }) => {
            None
        }
        Pooling::Statement => Some("it has no transactions. Set pool_mode to transaction or session".to_owned()),
        Pooling::Transaction(Shared { keeps_statements: false, .. }) => Some(
            "it carries no prepared statements from one connection to the next. PgBouncer 1.21 and newer does, with \
             max_prepared_statements above 0 (200, say); otherwise set pool_mode to session"
                .to_owned(),
        ),
        Pooling::Transaction(Shared { is_limited: false, .. }) => Some(format!(
            "its connections have no time limits, which this server cannot set there. Add to the database's line in \
             pgbouncer.ini: connect_query='{}'",
            pooler_settings()
        )),
    }
}

/// Finds out which pooler is between this server and the database, if any, as soon as the database is available.
async fn look(database: &PgConnectOptions) -> Result<Pooling, StartError> {
    answered(async || examine(database).await, database).await
}

/// Repeats a question while the database may still come up.
async fn answered<T>(
    mut ask: impl AsyncFnMut() -> Result<T, sqlx::Error>,
    database: &PgConnectOptions,
) -> Result<T, StartError> {
    let deadline = Instant::now() + DATABASE_WAIT;
    loop {
        let late = |_late| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
        match timeout(ANSWER, ask()).await.unwrap_or_else(late) {
            Err(e) if is_passing(&e) && Instant::now() < deadline => rest(&e, database).await,
            Err(e) if refuses_option(&e) => return Err(StartError::Options(named(database), e)),
            done => return done.map_err(|e| StartError::Database(named(database), e)),
        }
    }
}
