//! Poolers between this server and PostgreSQL, such as PgBouncer: recognises them, and routes connections around
//! their limits.
//!
//! A pooler passes no startup options. In session mode a client has a connection of PostgreSQL to itself, whose
//! settings it can set by statement. In transaction mode each transaction may get another one: a setting, a `LISTEN`
//! or a lock of the session would stay behind on a connection that the next client gets. There only transactions
//! that bring everything along can run, and prepared statements only if the pooler carries them from one connection
//! to the next (PgBouncer 1.21 and newer, `max_prepared_statements`).

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _, SqlSafeStr as _};

use crate::confirmations::Confirmations;
use crate::standby::refuse_standby;

/// Startup option that no server knows: PostgreSQL keeps it for the session, and a pooler refuses or ignores it.
const MARK: &str = "entente.route";

/// Attempts to find two clients on one connection of PostgreSQL, where a pooler takes its connections in turns.
const ROUNDS: u32 = 8;

/// Statement that is prepared to see where it stays; its text tells it from those of other clients.
const PREPARED: &str = "SELECT 'entente::pooling'::text";

/// Kind of pooler between this server and PostgreSQL, if there is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// No pooler that holds back startup options: they reach PostgreSQL.
    Direct,
    /// A pooler in session mode.
    Session,
    /// A pooler in transaction mode.
    Transaction(Shared),
    /// A pooler in statement mode, which has no transactions.
    Statement,
}

/// Abilities of a pooler in transaction mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared {
    /// Whether prepared statements work on each of its connections.
    pub keeps_statements: bool,
    /// Whether its connections limit statements, waits for locks, and idle transactions.
    pub is_limited: bool,
}

/// How the connections of a pool get their settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// As startup options.
    AtStart,
    /// By a statement after connecting.
    Afterwards,
    /// By the pooler, for all of its clients.
    ByPooler,
}

/// A way to the database: the connection options, and how its connections get their settings.
#[derive(Debug, Clone)]
pub struct Route {
    pub(crate) options: PgConnectOptions,
    pub(crate) given: Given,
    /// Without a watch none is ever missing.
    pub(crate) confirmations: Confirmations,
}

impl From<PgConnectOptions> for Route {
    /// Returns the route to PostgreSQL itself.
    fn from(options: PgConnectOptions) -> Self {
        Self { options, given: Given::AtStart, confirmations: Confirmations::default() }
    }
}

impl Route {
    /// Returns the route through the pooler that was found, if any.
    #[must_use]
    pub fn through(options: PgConnectOptions, pooling: Pooling) -> Self {
        let given = match pooling {
            Pooling::Direct => Given::AtStart,
            Pooling::Session => Given::Afterwards,
            Pooling::Transaction(_) | Pooling::Statement => Given::ByPooler,
        };
        // Poolers refuse the driver's own option; PostgreSQL 12 and newer print floats exactly without it.
        let options = if given == Given::AtStart { options } else { options.extra_float_digits(None) };
        Self { options, given, confirmations: Confirmations::default() }
    }

    /// Returns the route with pools that give no connection while these are missing.
    #[must_use]
    pub fn awaiting(self, confirmations: &Confirmations) -> Self {
        Self { confirmations: confirmations.clone(), ..self }
    }

    /// Returns the connection options, for a single connection without the settings of a pool.
    #[must_use]
    pub fn options(&self) -> &PgConnectOptions {
        &self.options
    }
}

/// Finds out whether a pooler is between this server and PostgreSQL, and of which kind. Changes nothing in the
/// database.
///
/// # Errors
/// The database cannot be reached, or is a standby; the pooler refuses an option of the URL.
pub async fn examine(options: &PgConnectOptions) -> Result<Pooling, sqlx::Error> {
    if passes_options(options).await? {
        return Ok(Pooling::Direct);
    }
    let plain = options.clone().extra_float_digits(None);
    let (mut one, mut other) = (plain.connect().await?, plain.connect().await?);
    refuse_standby(&mut one).await?;
    let found = mode(&mut one, &mut other).await?;
    one.close().await?;
    other.close().await?;
    Ok(found)
}

/// Returns whether an error is a pooler's refusal of a startup option.
#[must_use]
pub fn refuses_option(error: &sqlx::Error) -> bool {
    let told = error.as_database_error().map(|error| error.message().to_lowercase());
    told.is_some_and(|told| told.contains("startup parameter"))
}

/// Returns whether two ways lead to one database: the second sees a connection made on the first.
///
/// # Errors
/// A database fails.
pub async fn meet(one: &Route, other: &Route) -> Result<bool, sqlx::Error> {
    let (mut seen, mut seer) = (one.options.connect().await?, other.options.connect().await?);
    let pid = pid(&mut seen).await?;
    // The process ids of two containers may be the same; their servers did not start in the same microsecond.
    let started = "SELECT extract(epoch FROM pg_postmaster_start_time())::text";
    let started: String = seen.fetch_one(started).await?.try_get(0)?;
    let question = format!(
        "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND datname = current_database()) \
         AND extract(epoch FROM pg_postmaster_start_time())::text = '{started}'"
    );
    let met = seer.fetch_one(AssertSqlSafe(question)).await?.try_get(0)?;
    seen.close().await?;
    seer.close().await?;
    Ok(met)
}

async fn passes_options(options: &PgConnectOptions) -> Result<bool, sqlx::Error> {
    let marked = options.clone().extra_float_digits(None).options([(MARK, "on")]);
    let mut connection = match marked.connect().await {
        Ok(connection) => connection,
        Err(e) if refuses_option(&e) => return Ok(false),
        Err(e) => return Err(e),
    };
    refuse_standby(&mut connection).await?;
    let passed =
        told(&mut connection, "SELECT coalesce(current_setting('entente.route', true), '') = 'on'").await?;
    connection.close().await?;
    Ok(passed)
}

/// Returns the mode of the pooler that these two clients are connected to.
///
/// In transaction mode a connection that the first has just used is given to the second, or the first gets another one
/// while the second holds it. In session mode each keeps its own.
async fn mode(one: &mut PgConnection, other: &mut PgConnection) -> Result<Pooling, sqlx::Error> {
    for _ in 0..ROUNDS {
        let before = pid(one).await?;
        match other.execute("BEGIN").await {
            Err(e) if refuses_transactions(&e) => return Ok(Pooling::Statement),
            begun => begun.map(drop)?,
        }
        // Asked only if it has a connection of its own: otherwise this one may be the only one, and taken.
        let is_shared = pid(other).await? == before || pid(one).await? != before;
        other.execute("ROLLBACK").await?;
        if is_shared {
            return Ok(Pooling::Transaction(abilities(one).await?));
        }
    }
    Ok(Pooling::Session)
}

fn refuses_transactions(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.message().contains("statement pooling"))
}

async fn abilities(connection: &mut PgConnection) -> Result<Shared, sqlx::Error> {
    let limited = "SELECT count(*) = 3 FROM pg_settings WHERE setting <> '0'
         AND name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout')";
    let is_limited = told(connection, limited).await?;
    connection.execute("BEGIN").await?;
    let keeps_statements = keeps_statements(connection).await?;
    connection.execute("ROLLBACK").await?;
    Ok(Shared { keeps_statements, is_limited })
}

/// Returns whether the pooler carries prepared statements along: then it gives them names of its own.
///
/// Within a transaction, so that all of it happens on one connection. A pooler that does not know of the statement would
/// leave it there for others, so it is removed.
async fn keeps_statements(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    match connection.prepare(PREPARED.into_sql_str()).await {
        Ok(_statement) => {}
        // One of this name is there already, left behind by another client.
        Err(sqlx::Error::Database(_)) => return Ok(false),
        Err(e) => return Err(e),
    }
    let question =
        "SELECT name FROM pg_prepared_statements WHERE statement = 'SELECT ''entente::pooling''::text'";
    let Some(row) = connection.fetch_optional(question).await? else { return Ok(false) };
    let name: String = row.try_get(0)?;
    if !name.starts_with("sqlx") {
        return Ok(true);
    }
    connection.execute(AssertSqlSafe(format!("DEALLOCATE \"{name}\""))).await?;
    Ok(false)
}

async fn pid(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    connection.fetch_one("SELECT pg_backend_pid()").await?.try_get(0)
}

async fn told(connection: &mut PgConnection, question: &'static str) -> Result<bool, sqlx::Error> {
    connection.fetch_one(question).await?.try_get(0)
}
