//! Guarantees of the database's engine that the server relies on, each tried before anything depends on it
//! (`docs/engine.md`).
//!
//! Several engines speak PostgreSQL's protocol. An engine that refuses something fails loudly, at the first statement. This
//! examination is about features that an engine may accept and silently ignore: then everything seems to work, and two
//! servers write over each other.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::pooling::Route;

/// The advisory lock that is tried; nothing else takes it.
const LOCK: i64 = 0x656e_7465_6e74_65ff;

/// The notification channel that is tried.
const CHANNEL: &str = "entente_engine";

/// Time for a notification to arrive, and for a lock to become free that another server's examination holds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Pause before a lock is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// Time limit that is tried: a lock or a statement that exceeds it must fail.
const LIMIT: Duration = Duration::from_millis(10);

/// Something that the server relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reliance {
    /// An advisory lock of a transaction excludes others, and ends with it.
    AdvisoryLocks,
    /// `FOR UPDATE` locks a row, and `lock_timeout` ends a wait for it.
    RowLocks,
    /// `SKIP LOCKED` passes over a locked row.
    SkipLocked,
    /// `statement_timeout` ends a statement.
    TimeLimits,
    /// A unique index refuses a second row.
    UniqueIndexes,
    /// The parts of one statement take effect together, and see one state.
    OneStatement,
    /// `NOTIFY` reaches a connection that listens.
    Notifications,
}

impl Reliance {
    /// Returns the fault of an engine that lacks it, and the consequence.
    #[must_use]
    pub fn fault(self) -> &'static str {
        match self {
            Self::AdvisoryLocks => {
                "pg_try_advisory_xact_lock grants a lock that another transaction holds, or keeps one after its end: two \
                 servers would write to one intent at once"
            }
            Self::RowLocks => {
                "SELECT … FOR UPDATE does not lock the row, or lock_timeout (SQLSTATE 55P03) does not end the wait for it"
            }
            Self::SkipLocked => {
                "FOR UPDATE SKIP LOCKED returns a row that another transaction has locked, or no row that is free: a job \
                 would be done twice, or never"
            }
            Self::TimeLimits => {
                "statement_timeout does not end a statement with SQLSTATE 57014: one that hangs would hold its locks for ever"
            }
            Self::UniqueIndexes => {
                "a unique index accepts the same value twice, or fails without SQLSTATE 23505"
            }
            Self::OneStatement => {
                "the parts of WITH … UPDATE … RETURNING, INSERT … do not take effect together, as the message writers' one \
                 statement needs"
            }
            Self::Notifications => {
                "NOTIFY does not reach a connection that listens: several servers would find each other's changes only by \
                 polling. Set ENTENTE_BUS to a NATS server, or use an engine with NOTIFY"
            }
        }
    }
}

/// The examination's result.
#[derive(Debug)]
pub struct Examined {
    /// Guarantees that were tried and found.
    pub sound: Vec<Reliance>,
    /// Guarantees that were tried and are missing.
    pub missing: Vec<Reliance>,
}

/// Tries everything that the server relies on. Leaves nothing behind; needs the schema.
///
/// With `notifies`, wake-ups go by the engine's notifications, so these are tried as well.
///
/// # Errors
/// The database cannot be reached.
pub async fn examine(route: &Route, notifies: bool) -> Result<Examined, sqlx::Error> {
    let (mut one, mut other) = (route.options().connect().await?, route.options().connect().await?);
    let mut found = vec![
        (Reliance::AdvisoryLocks, advisory_locks(&mut one, &mut other).await?),
        (Reliance::RowLocks, row_locks(&mut one, &mut other).await?),
        (Reliance::SkipLocked, skip_locked(&mut one, &mut other).await?),
        (Reliance::TimeLimits, time_limits(&mut one).await?),
        (Reliance::UniqueIndexes, unique_indexes(&mut one).await?),
        (Reliance::OneStatement, one_statement(&mut one).await?),
    ];
    if notifies {
        found.push((Reliance::Notifications, notifications(route, &mut one).await?));
    }
    one.close().await?;
    other.close().await?;
    let (sound, missing): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, is_sound)| *is_sound);
    let named = |found: Vec<(Reliance, bool)>| found.into_iter().map(|(one, _)| one).collect();
    Ok(Examined { sound: named(sound), missing: named(missing) })
}

/// Runs a question that may return no row; returns whether it returned one that says true.
async fn says(conn: &mut PgConnection, question: &str) -> Result<bool, sqlx::Error> {
    let row = conn.fetch_optional(AssertSqlSafe(question.to_owned())).await?;
    row.map_or(Ok(false), |row| row.try_get(0))
}

/// Returns whether a statement fails with this SQLSTATE; other failures are errors.
async fn fails_with(conn: &mut PgConnection, statement: &str, code: &str) -> Result<bool, sqlx::Error> {
    match conn.execute(AssertSqlSafe(statement.to_owned())).await {
        Ok(_) => Ok(false),
        Err(sqlx::Error::Database(e)) => Ok(e.code().as_deref() == Some(code)),
        Err(failure) => Err(failure),
    }
}

/// Asks until the answer is yes, because another server's examination may hold the lock.
async fn becomes(conn: &mut PgConnection, question: &str) -> Result<bool, sqlx::Error> {
    let began = Instant::now();
    loop {
        conn.execute("BEGIN").await?;
        let yes = says(conn, question).await?;
        if yes {
            return Ok(true);
        }
        conn.execute("ROLLBACK").await?;
        if began.elapsed() > PATIENCE {
            return Ok(false);
        }
        sleep(AGAIN).await;
    }
}

async fn advisory_locks(one: &mut PgConnection, other: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let take = format!("SELECT pg_try_advisory_xact_lock({LOCK})");
    if !becomes(one, &take).await? {
        return Ok(false);
    }
    other.execute("BEGIN").await?;
    let granted_twice = says(other, &take).await?;
    other.execute("ROLLBACK").await?;
    one.execute("ROLLBACK").await?;
    let free_again = becomes(other, &take).await?;
    other.execute("ROLLBACK").await?;
    Ok(!granted_twice && free_again)
}

async fn row_locks(one: &mut PgConnection, other: &mut PgConnection) -> Result<bool, sqlx::Error> {
    one.execute("BEGIN").await?;
    one.execute("SELECT version FROM schema_floor FOR UPDATE").await?;
    let limit = LIMIT.as_millis();
    other.execute(AssertSqlSafe(format!("BEGIN; SET LOCAL lock_timeout = {limit}"))).await?;
    let waits = fails_with(other, "SELECT version FROM schema_floor FOR UPDATE", "55P03").await?;
    other.execute("ROLLBACK").await?;
    one.execute("ROLLBACK").await?;
    Ok(waits)
}

async fn skip_locked(one: &mut PgConnection, other: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let take = "SELECT true FROM schema_floor FOR UPDATE SKIP LOCKED";
    if !becomes(one, take).await? {
        return Ok(false);
    }
    other.execute("BEGIN").await?;
    let taken_twice = says(other, take).await?;
    other.execute("ROLLBACK").await?;
    one.execute("ROLLBACK").await?;
    Ok(!taken_twice)
}

async fn time_limits(one: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let limit = LIMIT.as_millis();
    one.execute(AssertSqlSafe(format!("BEGIN; SET LOCAL statement_timeout = {limit}"))).await?;
    let ends = fails_with(one, "SELECT pg_sleep(0.5)", "57014").await?;
    one.execute("ROLLBACK").await?;
    Ok(ends)
}

async fn unique_indexes(one: &mut PgConnection) -> Result<bool, sqlx::Error> {
    one.execute("BEGIN; CREATE TEMPORARY TABLE engine_probe (id bigint PRIMARY KEY) ON COMMIT DROP").await?;
    one.execute("INSERT INTO engine_probe VALUES (1)").await?;
    let refused = fails_with(one, "INSERT INTO engine_probe VALUES (1)", "23505").await?;
    one.execute("ROLLBACK").await?;
    Ok(refused)
}

async fn one_statement(one: &mut PgConnection) -> Result<bool, sqlx::Error> {
    one.execute(
        "BEGIN; CREATE TEMPORARY TABLE engine_probe (id bigint PRIMARY KEY, n bigint) ON COMMIT DROP",
    )
    .await?;
    one.execute("INSERT INTO engine_probe VALUES (1, 1), (2, 2)").await?;
    let guarded = "WITH clock AS (UPDATE engine_probe SET n = n + 10 WHERE id < 3 AND n = 1 RETURNING id, n),
                        sent AS (INSERT INTO engine_probe SELECT id + 10, n FROM clock)
                   SELECT (SELECT array_agg(id) FROM clock) = '{1}' AND (SELECT count(*) FROM engine_probe) = 2";
    let together = says(one, guarded).await?
        && says(one, "SELECT array_agg(n ORDER BY id) = '{11,2,11}' FROM engine_probe").await?;
    one.execute("ROLLBACK").await?;
    Ok(together)
}

async fn notifications(route: &Route, one: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let pool = crate::pool(route.clone(), 1, &CancellationToken::new());
    let mut listener = pool.listener().await?;
    listener.listen(CHANNEL).await?;
    one.execute(AssertSqlSafe(format!("SELECT pg_notify('{CHANNEL}', 'heard')"))).await?;
    let heard = timeout(PATIENCE, listener.recv()).await;
    drop(listener);
    pool.close().await;
    match heard {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(failure)) => Err(failure),
        Err(_late) => Ok(false),
    }
}
