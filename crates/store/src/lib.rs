//! PostgreSQL: how to reach it, bring its schema up to date and keep a private one; and the group commit.
//! The SQL itself is in `crates/kernel`, next to the operations that need it.

pub mod binaries;
pub mod commit;
pub mod limits;
pub mod migrate;
pub mod private;

use std::str::FromStr as _;
use std::time::Duration;

use entente_runtime::deadlines::doubtful;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{Connection as _, PgPool};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::limits::{Work, limit_transactions};

/// How long a request waits for a connection before it is answered "unavailable". Short: a client that is told to
/// come back is better off than one that hangs.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long what happens in the background waits for one.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection that lay idle for longer is tested before it is used, so that a restart of PostgreSQL costs no
/// request; one in steady use is not, so that the hot path pays no extra round trip.
const TEST_AFTER_IDLE: Duration = Duration::from_millis(500);

/// How long a connection may take to say that it is still there. It has nothing else to do.
const SIGN_OF_LIFE: Duration = Duration::from_millis(700);

/// Prepared statements kept per connection: more than the server has, so that none is prepared twice.
const STATEMENT_CACHE: usize = 400;

/// Reads a `DATABASE_URL`; `None` when it is no PostgreSQL URL. Why is not said: the text may hold a password.
#[must_use]
pub fn options(url: &str) -> Option<PgConnectOptions> {
    let known = url.starts_with("postgres://") || url.starts_with("postgresql://");
    known.then(|| PgConnectOptions::from_str(url).ok()).flatten()
}

/// What a connection goes to, for people: never its password.
#[must_use]
pub fn named(options: &PgConnectOptions) -> String {
    let place = match options.get_socket() {
        Some(socket) => format!("the socket in {}", socket.display()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    format!("{place}, database `{database}`, as `{}`", options.get_username())
}

/// The states (SQLSTATE) in which PostgreSQL says that it has given up what was asked, that nothing of it was done, and that the same
/// may go well when it is asked again: two transactions in each other's way (40001, 40P01), a lock that was not to be had in
/// time (55P03), and the limits on statements, idle transactions and whole ones (57014, 25P03, 25P04).
const ROLLED_BACK: [&str; 6] = ["40001", "40P01", "55P03", "57014", "25P03", "25P04"];

/// The state of an error that says so.
#[must_use]
pub fn rolled_back(error: &sqlx::Error) -> Option<&'static str> {
    let code = error.as_database_error()?.code()?;
    ROLLED_BACK.into_iter().find(|state| *state == code)
}

/// Whether an error says so.
#[must_use]
pub fn is_rolled_back(error: &sqlx::Error) -> bool {
    rolled_back(error).is_some()
}

/// A pool of connections for requests; it connects when it is first used. When `leaving` is cancelled the threads that serve
/// requests end, and with them whatever connection one of them opened: from then on each is tested before it is used.
#[must_use]
pub fn pool(options: PgConnectOptions, connections: u32, leaving: &CancellationToken) -> PgPool {
    waiting(Work::Requests, options.options(LED), connections, ACQUIRE_TIMEOUT, leaving)
}

/// The pool of what happens in the background.
#[must_use]
pub fn house_pool(options: PgConnectOptions, connections: u32, leaving: &CancellationToken) -> PgPool {
    waiting(Work::Background, options.options(LED), connections, ACQUIRE_TIMEOUT, leaving)
}

/// The pool of those who write messages. Their one statement joins what it is given by hash, which is faster over many
/// intents; it was measured so.
#[must_use]
pub fn writers_pool(options: PgConnectOptions, connections: u32, leaving: &CancellationToken) -> PgPool {
    waiting(Work::Writers, options, connections, ACQUIRE_TIMEOUT, leaving)
}

/// A pool whose users wait for a connection as long as it takes: nobody waits for them, and what they have done is to be
/// written down.
#[must_use]
pub fn patient_pool(options: PgConnectOptions, connections: u32, leaving: &CancellationToken) -> PgPool {
    waiting(Work::Background, options.options(LED), connections, PATIENT_TIMEOUT, leaving)
}

/// Has every statement led by an index. The one plan of a statement is made when a server begins, with tables that are still
/// empty: left to itself PostgreSQL would read the whole of them, and keep to it while they grow.
const LED: [(&str, &str); 3] =
    [("enable_seqscan", "off"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off")];

fn waiting(
    work: Work,
    options: PgConnectOptions,
    connections: u32,
    timeout: Duration,
    leaving: &CancellationToken,
) -> PgPool {
    // Every statement is written for one plan, whatever its parameters are. Without this PostgreSQL plans statements with
    // array parameters anew each time, which costs more than running them.
    let options = work
        .limit(options)
        .application_name("entente")
        .statement_cache_capacity(STATEMENT_CACHE)
        .options([("plan_cache_mode", "force_generic_plan"), ("jit", "off")]);
    let leaving = leaving.clone();
    let connected = options.clone();
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(timeout)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let options = connected.clone();
            Box::pin(async move { limit_transactions(connection, &options).await })
        })
        .before_acquire(move |connection, meta| {
            let unsure = meta.idle_for > TEST_AFTER_IDLE || leaving.is_cancelled();
            Box::pin(async move { Ok(!unsure || lives(connection).await.is_ok()) })
        })
        .after_release(|connection, _| {
            // The pool itself asks whether it is still there, and would wait for the answer for ever; with what was rolled
            // back unsaid, or given up somewhere, there may be none.
            let unsure = connection.should_flush() || doubtful();
            Box::pin(async move { if unsure { lives(connection).await.map(|()| true) } else { Ok(true) } })
        })
        .connect_lazy_with(options)
}

/// Whether a connection answers.
async fn lives(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    timeout(SIGN_OF_LIFE, connection.ping()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
