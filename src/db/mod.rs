//! The database: how to reach it, bring its schema up to date and keep a private one; and the group commit.
//! The SQL itself is in `src/app`, next to the deeds that need it.

pub mod binaries;
pub mod commit;
pub mod migrate;
pub mod private;

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgPool};
use tokio_util::sync::CancellationToken;

/// How long a request waits for a connection before it is answered "unavailable". Short: a client that is told to
/// come back is better off than one that hangs.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long what happens in the background waits for one.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection that lay idle for longer is tested before it is used, so that a restart of PostgreSQL costs no
/// request; one in steady use is not, so that the hot path pays no extra round trip.
const TEST_AFTER_IDLE: Duration = Duration::from_millis(500);

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

/// A pool of connections; it connects when it is first used. When `leaving` is cancelled the threads that serve requests end,
/// and with them whatever connection one of them opened: from then on each is tested before it is used.
#[must_use]
pub fn pool(options: PgConnectOptions, connections: u32, leaving: &CancellationToken) -> PgPool {
    waiting(options.options(LED), connections, ACQUIRE_TIMEOUT, leaving)
}

/// The pool of those who write messages. Their one statement joins what it is given by hash, which is faster over many
/// intents; it was measured so.
#[must_use]
pub fn writers_pool(options: PgConnectOptions, connections: u32, leaving: &CancellationToken) -> PgPool {
    waiting(options, connections, ACQUIRE_TIMEOUT, leaving)
}

/// A pool whose users wait for a connection as long as it takes: nobody waits for them, and what they have done is to be
/// written down.
#[must_use]
pub fn patient_pool(options: PgConnectOptions, connections: u32, leaving: &CancellationToken) -> PgPool {
    waiting(options.options(LED), connections, PATIENT_TIMEOUT, leaving)
}

/// Has every statement led by an index. The one plan of a statement is made when a server begins, with tables that are still
/// empty: left to itself PostgreSQL would read the whole of them, and keep to it while they grow.
const LED: [(&str, &str); 3] =
    [("enable_seqscan", "off"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off")];

fn waiting(
    options: PgConnectOptions,
    connections: u32,
    timeout: Duration,
    leaving: &CancellationToken,
) -> PgPool {
    // Every statement is written for one plan, whatever its parameters are. Without this PostgreSQL plans statements with
    // array parameters anew each time, which costs more than running them.
    let options = options
        .application_name("entente")
        .statement_cache_capacity(STATEMENT_CACHE)
        .options([("plan_cache_mode", "force_generic_plan"), ("jit", "off")]);
    let leaving = leaving.clone();
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(timeout)
        .test_before_acquire(false)
        .before_acquire(move |connection, meta| {
            let doubtful = meta.idle_for > TEST_AFTER_IDLE || leaving.is_cancelled();
            Box::pin(async move { Ok(!doubtful || connection.ping().await.is_ok()) })
        })
        .connect_lazy_with(options)
}
