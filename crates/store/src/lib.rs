//! PostgreSQL access: connections, poolers, demands on the engine, schema migrations, a private server, and the group
//! commit. The SQL of the resources is in the kernel and in the crates of the protocols, next to the operations.

pub mod beginning;
pub mod binaries;
pub mod commit;
pub mod confirmations;
pub mod dumps;
pub mod engine;
pub mod limits;
pub mod migrate;
pub mod pool;
pub mod pooling;
pub mod private;
mod standby;

use std::str::FromStr as _;
use std::time::Duration;

use entente_domain::identity::fences::Fence;
use entente_runtime::deadlines::doubtful;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::limits::{Work, limit_transactions};
pub use self::pool::Pool;
use self::pool::TEST_AFTER_IDLE;
use self::pooling::{Given, Route};
use self::standby::refuse_standby;

/// Time that a request waits for a connection before the answer "unavailable".
///
/// Short, because a client that is asked to come back is better off than one that hangs.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time that background work waits for a connection.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that opening a connection may take besides the time that its user waits for it.
///
/// With 18 runnable threads on two cores it takes 1.5 to 2.7 s. Short, because an opening that an unreachable database never answers
/// takes the place of another connection.
const OPENING: Duration = Duration::from_secs(4);

/// Time that a connection may take to answer a ping. It has nothing else to do.
const SIGN_OF_LIFE: Duration = Duration::from_millis(700);

/// Prepared statements kept per connection: more than the server uses, so that none is prepared twice.
const STATEMENT_CACHE: usize = 400;

/// Parses a `DATABASE_URL`; `None` when it is not a PostgreSQL URL.
///
/// The reason is withheld, because the text may hold a password.
#[must_use]
pub fn options(url: &str) -> Option<PgConnectOptions> {
    let known = url.starts_with("postgres://") || url.starts_with("postgresql://");
    known.then(|| PgConnectOptions::from_str(url).ok()).flatten()
}

/// Describes the target of a connection for people, without its password.
#[must_use]
pub fn named(options: &PgConnectOptions) -> String {
    let place = match options.get_socket() {
        Some(socket) => format!("the socket in {}", socket.display()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    format!("{place}, database `{database}`, as `{}`", options.get_username())
}

/// SQLSTATEs by which PostgreSQL reports that it rolled back the work and that a retry may succeed: two
/// transactions in conflict (40001, 40P01), a lock not granted in time (55P03), and the limits on statements,
/// idle transactions and whole transactions (57014, 25P03, 25P04).
const ROLLED_BACK: [&str; 6] = ["40001", "40P01", "55P03", "57014", "25P03", "25P04"];

/// Returns the SQLSTATE of an error that reports a rollback after which a retry may succeed.
#[must_use]
pub fn rolled_back(error: &sqlx::Error) -> Option<&'static str> {
    let code = error.as_database_error()?.code()?;
    ROLLED_BACK.into_iter().find(|state| *state == code)
}

/// Returns whether an error reports that a fence is broken: the functions of PostgreSQL that require them say so.
#[must_use]
pub fn is_fenced(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code.starts_with("EN0"))
}

/// Returns whether an error reports that a fence of this sort is broken.
#[must_use]
pub fn is_broken(error: &sqlx::Error, fence: &Fence) -> bool {
    let state = match fence {
        Fence::Epoch(_) => "EN001",
        Fence::Lease { .. } => "EN002",
        Fence::Task { .. } => "EN003",
        Fence::Job { .. } => "EN004",
    };
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|code| code == state)
}

/// Returns whether an error ends its connection.
#[must_use]
pub fn is_disconnected(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            true
        }
        // Class 08: connection; 57P: the server or somebody ends it; 25P03, 25P04: it was idle in a transaction, or
        // too long in one.
        sqlx::Error::Database(e) => e.code().is_some_and(|code| {
            code.starts_with("08") || code.starts_with("57P") || code == "25P03" || code == "25P04"
        }),
        _ => false,
    }
}

/// Creates a pool of connections for requests; it connects on first use.
///
/// When `leaving` is cancelled, the runtimes of the threads that serve requests end soon, along with the connections that they
/// opened: from then on each runtime uses only connections that it opens itself.
#[must_use]
pub fn pool(route: impl Into<Route>, connections: u32, leaving: &CancellationToken) -> Pool {
    waiting(Work::Requests, route.into(), &LED, connections, ACQUIRE_TIMEOUT, leaving)
}

/// Creates the pool for background tasks.
#[must_use]
pub fn main_pool(route: impl Into<Route>, connections: u32, leaving: &CancellationToken) -> Pool {
    waiting(Work::Background, route.into(), &LED, connections, ACQUIRE_TIMEOUT, leaving)
}

/// Creates the pool for the message writers.
///
/// Their statement joins its input by hash, which measurements show to be faster over many intents; tables are led by an
/// index here too.
#[must_use]
pub fn writers_pool(route: impl Into<Route>, connections: u32, leaving: &CancellationToken) -> Pool {
    waiting(Work::Writers, route.into(), &LED[..1], connections, ACQUIRE_TIMEOUT, leaving)
}

/// Creates a pool whose users wait up to `PATIENT_TIMEOUT` for a connection: no client waits for them, and
/// their results must be recorded.
#[must_use]
pub fn patient_pool(route: impl Into<Route>, connections: u32, leaving: &CancellationToken) -> Pool {
    waiting(Work::Background, route.into(), &LED, connections, PATIENT_TIMEOUT, leaving)
}

/// Makes PostgreSQL lead every statement by an index; the first setting alone keeps joins of inputs free.
///
/// The one plan of a statement is made when a server starts, with tables that are still empty: by default
/// PostgreSQL would choose full scans and keep them while the tables grow.
const LED: [(&str, &str); 3] =
    [("enable_seqscan", "off"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off")];

/// Makes PostgreSQL plan each statement once.
///
/// Every statement is written for one plan, whatever its parameters are. Without this setting PostgreSQL plans
/// statements with array parameters anew each time, which costs more than running them.
const PLANNED: [(&str, &str); 3] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
    // A statement that reads a few rows does not wait for parallel workers to start.
    ("max_parallel_workers_per_gather", "0"),
];

/// Makes PostgreSQL compress large values with LZ4 if it can and nobody chose otherwise.
///
/// Its default, PGLZ, took 34 to 56 ms of one core for the hundred texts of 30 KB that one step of a follower writes.
const COMPRESSED: &str = "SELECT set_config(name, 'lz4', false) FROM pg_settings
    WHERE name = 'default_toast_compression' AND source = 'default' AND 'lz4' = ANY (enumvals)";

fn waiting(
    work: Work,
    route: Route,
    led: &[(&'static str, &'static str)],
    connections: u32,
    timeout: Duration,
    leaving: &CancellationToken,
) -> Pool {
    let Route { options, given, confirmations } = route;
    let options = options.application_name("entente").statement_cache_capacity(STATEMENT_CACHE);
    let plans = led.iter().chain(&PLANNED).copied();
    let (options, set) = match given {
        Given::AtStart => (work.limit(options).options(plans), None),
        Given::Afterwards => {
            let plans = plans.map(|(name, value)| (name, value.to_owned()));
            let all: Vec<_> = work.limits().into_iter().chain(plans).collect();
            (options, Some(limits::set(&all)))
        }
        // A setting of one client would reach the next.
        Given::ByPooler => (options, None),
    };
    let leaving = leaving.clone();
    let (connected, awaited) = (options.clone(), confirmations.clone());
    let (left, missing) = (leaving.clone(), confirmations.clone());
    let connections = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(timeout + OPENING)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let (options, set, confirmations) = (connected.clone(), set.clone(), awaited.clone());
            Box::pin(async move {
                refuse_standby(connection).await?;
                confirmations.wait().await;
                if given == Given::ByPooler {
                    return Ok(());
                }
                if let Some(set) = set {
                    connection.execute(AssertSqlSafe(set)).await?;
                }
                connection.execute(COMPRESSED).await?;
                limit_transactions(connection, &options).await
            })
        })
        .before_acquire(move |connection, meta| {
            let waits = confirmations.are_missing().then(|| confirmations.clone());
            let (unsure, leaving) =
                (meta.idle_for > TEST_AFTER_IDLE || waits.is_some(), leaving.is_cancelled());
            Box::pin(async move {
                if leaving {
                    return Ok(false);
                }
                if let Some(confirmations) = waits {
                    confirmations.wait().await;
                }
                Ok(!unsure || lives(connection).await.is_ok())
            })
        })
        .after_release(|connection, _| {
            // The pool itself pings the connection and would wait for the answer for ever; after an unsent
            // rollback or an abandoned statement there may be none.
            let unsure = connection.should_flush() || doubtful();
            Box::pin(async move { if unsure { lives(connection).await.map(|()| true) } else { Ok(true) } })
        })
        .connect_lazy_with(options);
    Pool::new(connections, timeout, &left, &missing)
}

/// Pings a connection, with a time limit.
async fn lives(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    timeout(SIGN_OF_LIFE, connection.ping()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
