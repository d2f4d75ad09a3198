//! Refuses connections to a standby. A server must work on the primary alone: a standby refuses writes, but answers reads,
//! and one that was the primary a moment ago may show commits that no other standby has, which were never acknowledged and are
//! about to vanish. A load balancer sends clients there until it has noticed the change of roles.

use std::io;

use sqlx::postgres::PgConnection;
use sqlx::{Executor as _, Row as _};

/// The reason in errors and logs.
const STANDBY: &str = "this PostgreSQL is a standby at the moment; a server needs the primary";

/// Checks that a new connection leads to a primary. A standby that becomes one keeps its connections, and a primary that
/// becomes a standby restarts, so once is enough.
///
/// # Errors
/// It leads to a standby, as if nobody listened there: soon somebody may; or the connection fails.
pub(crate) async fn refuse_standby(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let is_standby: bool = connection.fetch_one("SELECT pg_is_in_recovery()").await?.try_get(0)?;
    if is_standby {
        return Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::NotConnected, STANDBY)));
    }
    Ok(())
}
