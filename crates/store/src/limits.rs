//! PostgreSQL's limits for this server's connections, by the purpose of the connection. A server that is
//! stopped or cut off in the middle of a transaction sends nothing more, and its locks must not be held for
//! ever: PostgreSQL itself ends anything that takes too long.
//!
//! The limits are session settings, so they apply from the first statement on. Settings that an operator
//! gives in `DATABASE_URL` (`?options=-c%20lock_timeout%3D…`) take precedence. Where a pooler is in front of PostgreSQL
//! (`pooling.rs`), a statement sets them, or the pooler itself ([`pooler_settings`]).

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Executor as _};

/// Time that a transaction may be open while its server sends nothing; an operation waits for nothing else
/// while it has one.
///
/// Long enough for a busy machine, short enough that others hardly notice.
const IDLE: Duration = Duration::from_secs(4);

/// Time that a statement waits for a lock: longer than any successful operation takes, and shorter than
/// [`IDLE`], so that operations waiting for a stopped server fail first and release their connections.
pub const LOCK: Duration = Duration::from_secs(3);

/// Time that a batch writer waits for a lock: as close to zero as PostgreSQL allows, because other commands
/// wait for the writer.
pub const AT_ONCE: Duration = Duration::from_millis(50);

/// As [`IDLE`], for a long read, whose transaction blocks no other work.
const LONG_IDLE: Duration = Duration::from_mins(1);

/// Time that a statement of a long read may take: a log of a million events.
pub const LONG_READ: Duration = Duration::from_mins(5);

/// Time that a transaction other than a long read may take; PostgreSQL 17 and newer.
const TRANSACTION: Duration = Duration::from_mins(2);

/// Seconds of silence after which PostgreSQL probes the other end; seconds between probes; and the number of
/// unanswered probes after which the connection is gone, with all its locks.
///
/// Without effect on a Unix socket.
const KEEP_ALIVE: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")];

/// Time that sent data may stay unacknowledged: detects a client that is cut off in the middle of an answer.
const UNCONFIRMED: Duration = Duration::from_secs(15);

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Requests: a client waits for the answer.
    Requests,
    /// Message writers: all clients wait for them.
    Writers,
    /// Background work and deliveries: no client waits, and failed work is repeated.
    Background,
}

impl Work {
    /// Returns the time limit of one statement.
    const fn statement(self) -> Duration {
        match self {
            Self::Requests => Duration::from_secs(15),
            Self::Writers => Duration::from_secs(4),
            Self::Background => Duration::from_mins(1),
        }
    }

    /// Returns the time that one statement waits for a lock.
    const fn lock(self) -> Duration {
        match self {
            Self::Requests | Self::Background => LOCK,
            Self::Writers => AT_ONCE,
        }
    }

    /// Returns the limits, as names and values of settings.
    pub(super) fn limits(self) -> Vec<(&'static str, String)> {
        let times = [
            ("statement_timeout", self.statement()),
            ("lock_timeout", self.lock()),
            ("idle_in_transaction_session_timeout", IDLE),
            ("tcp_user_timeout", UNCONFIRMED),
        ];
        let times = times.map(|(name, time)| (name, format!("{}ms", time.as_millis())));
        times.into_iter().chain(KEEP_ALIVE.map(|(name, value)| (name, value.to_owned()))).collect()
    }

    /// Adds the limits to the connection's startup options, except those that the operator has set.
    pub(super) fn limit(self, options: PgConnectOptions) -> PgConnectOptions {
        let told = told(&options);
        let ours = self.limits().into_iter().filter(|(name, _)| !told.contains(&format!("{name}=")));
        options.options(ours)
    }
}

/// Returns the SQL that sets these for the session.
pub(super) fn set(settings: &[(&'static str, String)]) -> String {
    let each: Vec<String> = settings.iter().map(|(name, value)| format!("SET {name} = '{value}'")).collect();
    each.join("; ")
}

/// Returns the SQL by which a pooler in transaction mode limits its connections: the limits of requests, for all of its
/// clients. Numbers count milliseconds, so that it needs no quotes in a configuration file.
#[must_use]
pub fn pooler_settings() -> String {
    let times = [
        ("statement_timeout", Work::Requests.statement()),
        ("lock_timeout", Work::Requests.lock()),
        ("idle_in_transaction_session_timeout", IDLE),
    ];
    times.map(|(name, time)| format!("SET {name} = {}", time.as_millis())).join("; ")
}

/// Returns the operator's settings as `name=value`; PostgreSQL treats a dash as an underscore.
fn told(options: &PgConnectOptions) -> String {
    options.get_options().unwrap_or_default().replace('-', "_")
}

/// Limits the duration of transactions where PostgreSQL can: an older version does not know the setting and
/// would reject the connection.
pub(super) async fn limit_transactions(
    connection: &mut PgConnection,
    options: &PgConnectOptions,
) -> Result<(), sqlx::Error> {
    let knows = connection.server_version_num().is_some_and(|version| version >= 170_000);
    if !knows || told(options).contains("transaction_timeout=") {
        return Ok(());
    }
    let set = format!("SET transaction_timeout = '{}ms'", TRANSACTION.as_millis());
    connection.execute(AssertSqlSafe(set)).await.map(drop)
}

/// Returns the SQL that begins a long read: it sees one snapshot, blocks no other work, and has generous
/// limits.
#[must_use]
pub fn begin_long_read() -> String {
    format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT set_config('statement_timeout', '{}ms', true),
         set_config('idle_in_transaction_session_timeout', '{}ms', true),
         CASE WHEN current_setting('server_version_num')::integer >= 170000
              THEN set_config('transaction_timeout', '0', true) END",
        LONG_READ.as_millis(),
        LONG_IDLE.as_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_work_has_all_of_its_limits() {
        for (work, statement, lock) in [
            (Work::Requests, "15000ms", "3000ms"),
            (Work::Writers, "4000ms", "50ms"),
            (Work::Background, "60000ms", "3000ms"),
        ] {
            let limited = work.limit(PgConnectOptions::new_without_pgpass());
            let limited = limited.get_options().unwrap();
            for (name, value) in [
                ("statement_timeout", statement),
                ("lock_timeout", lock),
                ("idle_in_transaction_session_timeout", "4000ms"),
                // A client that is cut off is detected, both while idle and in the middle of an answer.
                ("tcp_user_timeout", "15000ms"),
                ("tcp_keepalives_idle", "10"),
                ("tcp_keepalives_interval", "5"),
                ("tcp_keepalives_count", "3"),
            ] {
                let set = format!("-c {name}={value} ");
                assert!(format!("{limited} ").contains(&set), "{work:?} {set}: {limited}");
            }
        }
    }

    #[test]
    fn a_statement_sets_the_same_limits_as_startup_options() {
        for work in [Work::Requests, Work::Writers, Work::Background] {
            let limited = work.limit(PgConnectOptions::new_without_pgpass());
            let limited = limited.get_options().unwrap().replace("-c ", "");
            let set = set(&work.limits());
            let set: Vec<String> =
                set.split("; ").map(|one| one.replace("SET ", "").replace(['\'', ' '], "")).collect();
            assert_eq!(set.join(" "), limited, "{work:?}");
        }
        assert_eq!(
            pooler_settings(),
            "SET statement_timeout = 15000; SET lock_timeout = 3000; SET idle_in_transaction_session_timeout = 4000"
        );
    }

    #[test]
    fn what_the_operator_has_set_stays() {
        let plain = Work::Requests.limit(PgConnectOptions::new_without_pgpass());
        let plain = plain.get_options().unwrap();
        assert!(plain.contains("-c lock_timeout=3000ms"), "{plain}");
        assert!(plain.contains("-c idle_in_transaction_session_timeout=4000ms"), "{plain}");
        assert!(plain.contains("-c statement_timeout=15000ms"), "{plain}");
        let told = PgConnectOptions::new_without_pgpass().options([("lock-timeout", "7s")]);
        let told = Work::Requests.limit(told);
        let told = told.get_options().unwrap();
        assert!(told.contains("lock-timeout=7s") && !told.contains("lock_timeout"), "{told}");
        assert!(told.contains("idle_in_transaction_session_timeout"), "{told}");
    }
}
