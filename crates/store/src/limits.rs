//! How long PostgreSQL waits for one of this server's connections, by what the connection is for. A server that is stopped or cut
//! off in the middle of a transaction says nothing more, and its locks must not be held for ever on its account: PostgreSQL
//! itself ends what takes too long, whoever has begun it.
//!
//! They are settings of the session, so that they hold from its first statement on. What an operator has set in
//! `DATABASE_URL` (`?options=-c%20lock_timeout%3D…`) stays as it was set.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Executor as _};

/// How long a transaction may be open while its server says nothing: a deed does not wait for anything else while it has one.
/// Long enough for a machine that is busy, short enough that others hardly notice.
const IDLE: Duration = Duration::from_secs(4);

/// How long a statement waits for a lock: longer than any deed takes that goes well, and shorter than [`IDLE`], so that those
/// who wait for a server that has stopped hear of it, and leave their connections to others.
pub const LOCK: Duration = Duration::from_secs(3);

/// How long the writer of a batch waits for one: not at all, if it could be said. It has others to write for.
pub const AT_ONCE: Duration = Duration::from_millis(50);

/// The same of a long read, which nobody waits for.
const LONG_IDLE: Duration = Duration::from_mins(1);

/// How long a statement of a long read may take: a log of a million events.
pub const LONG_READ: Duration = Duration::from_mins(5);

/// How long a transaction may be open while something is done elsewhere, on other connections, that only one may do.
const GUARD: Duration = Duration::from_secs(30);

/// How long a transaction may take that is none of a long read; PostgreSQL 17 and newer.
const TRANSACTION: Duration = Duration::from_mins(2);

/// Seconds without a sign of the other end after which PostgreSQL asks for one; between two such questions; and how many stay
/// without an answer. Then the connection is gone, and all that it held. Without effect on a Unix socket.
const KEEP_ALIVE: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")];

/// How long what PostgreSQL has sent may stay unconfirmed: who is cut off in the middle of an answer.
const UNCONFIRMED: Duration = Duration::from_secs(15);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Requests: somebody waits for the answer.
    Requests,
    /// The writers of messages: everybody waits for them.
    Writers,
    /// What happens in the background, and what others are sent: nobody waits, and it is done again.
    Background,
}

impl Work {
    /// How long one statement may take.
    const fn statement(self) -> Duration {
        match self {
            Self::Requests => Duration::from_secs(15),
            Self::Writers => Duration::from_secs(4),
            Self::Background => Duration::from_mins(1),
        }
    }

    /// How long one statement waits for a lock.
    const fn lock(self) -> Duration {
        match self {
            Self::Requests | Self::Background => LOCK,
            Self::Writers => AT_ONCE,
        }
    }

    /// Adds the limits to what is sent when a connection is made, but for those that the operator has set.
    pub(super) fn limit(self, options: PgConnectOptions) -> PgConnectOptions {
        let told = told(&options);
        let times = [
            ("statement_timeout", self.statement()),
            ("lock_timeout", self.lock()),
            ("idle_in_transaction_session_timeout", IDLE),
            ("tcp_user_timeout", UNCONFIRMED),
        ];
        let times = times.map(|(name, time)| (name, format!("{}ms", time.as_millis())));
        let all = times.into_iter().chain(KEEP_ALIVE.map(|(name, value)| (name, value.to_owned())));
        let ours: Vec<_> = all.filter(|(name, _)| !told.contains(&format!("{name}="))).collect();
        options.options(ours)
    }
}

/// What the operator has set, as `name=value`; PostgreSQL takes a dash for an underscore.
fn told(options: &PgConnectOptions) -> String {
    options.get_options().unwrap_or_default().replace('-', "_")
}

/// Limits the whole of a transaction, where PostgreSQL can: an older one does not know the setting, and would not let us in.
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

/// How a long read begins: it sees one moment of the database, holds nobody up, and takes its time.
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

/// How a transaction begins that only holds a lock while something is done beside it.
#[must_use]
pub fn begin_guard() -> String {
    format!("BEGIN; SET LOCAL idle_in_transaction_session_timeout = '{}ms'", GUARD.as_millis())
}

/// How a transaction begins that holds these advisory locks, each waited for as long as `patience` says, or as the connection
/// does.
///
/// One round trip for all. The locks are numbers; nothing a client wrote gets into this text. The rows of an array come in
/// its order, so the locks are taken in theirs. `BEGIN` comes last and takes what was before it into its transaction
/// (PostgreSQL, "Multiple Statements in a Simple Query"): when a lock is not to be had, no transaction is left open, and
/// the connection is as good as before.
#[must_use]
pub fn begin_with_locks(locks: &[i64], patience: Option<Duration>) -> String {
    let list: Vec<String> = locks.iter().map(i64::to_string).collect();
    let patience = patience.map(|time| format!("SET LOCAL lock_timeout = '{}ms'; ", time.as_millis()));
    format!(
        "{}SELECT count(pg_advisory_xact_lock(k)::text) FROM unnest('{{{}}}'::bigint[]) AS k; BEGIN",
        patience.unwrap_or_default(),
        list.join(",")
    )
}

/// How a transaction begins that waits for nobody's lock.
#[must_use]
pub fn begin_at_once() -> String {
    format!("BEGIN; SET LOCAL lock_timeout = '{}ms'", AT_ONCE.as_millis())
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
                // Whoever is cut off is found out, while nothing is said and in the middle of an answer.
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
