//! Rows of sessions. Table `sessions`; every write to it is in this file. `session_rows/counters.rs` numbers events for
//! the writers of jobs and of frames, `sessions.rs` opens and resumes sessions.

pub(crate) mod counters;

use entente_domain::arcp::sessions::dialects::Dialect;
use entente_domain::arcp::sessions::features::Features;
use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::ids::SessionId;
use entente_kernel::log::writer::digest;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

/// A stored session.
#[derive(Debug)]
pub(crate) struct Session {
    pub id: SessionId,
    pub principal: String,
    pub features: Features,
    pub dialect: Dialect,
    pub token: Digest,
    /// The previous token, until the client is known to have the current one.
    pub prior: Option<Digest>,
    pub last_seq: i64,
    pub acked_seq: i64,
    pub connection: i64,
    pub attached: bool,
    pub client: String,
    pub expires_at: Timestamp,
    pub lines: bool,
    pub opened_by: String,
}

struct Row {
    id: Uuid,
    principal: String,
    features: Vec<String>,
    dialect: String,
    token: Vec<u8>,
    prior_token: Option<Vec<u8>>,
    last_seq: i64,
    acked_seq: i64,
    connection: i64,
    attached: bool,
    client: String,
    expires_at: Timestamp,
    lines: bool,
    opened_by: String,
}

impl TryFrom<Row> for Session {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            principal: row.principal,
            features: Features::parse(&row.features),
            dialect: Dialect::parse(&row.dialect).ok_or_else(|| unknown("dialect", &row.dialect))?,
            token: digest(row.token)?,
            prior: row.prior_token.map(digest).transpose()?,
            last_seq: row.last_seq,
            acked_seq: row.acked_seq,
            connection: row.connection,
            attached: row.attached,
            client: row.client,
            expires_at: row.expires_at,
            lines: row.lines,
            opened_by: row.opened_by,
        })
    }
}

fn words(features: Features) -> Vec<String> {
    features.names().into_iter().map(str::to_owned).collect()
}

/// Locks and loads a session.
pub(crate) async fn lock(conn: &mut PgConnection, id: SessionId) -> Outcome<Option<Session>> {
    let row = sqlx::query_as!(
        Row,
        "-- sessions::lock_one
         SELECT id, principal, features, dialect, token, prior_token, last_seq, acked_seq, connection, attached, client,
                expires_at, lines, opened_by
         FROM sessions WHERE id = $1 FOR UPDATE",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(Session::try_from).transpose()
}

/// Counts a principal's connected sessions; those of a dead server count only until they expire.
pub(crate) async fn attached(conn: &mut PgConnection, principal: &str, now: Timestamp) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- sessions::attached
         SELECT count(*) AS "count!" FROM sessions WHERE principal = $1 AND attached AND expires_at > $2"#,
        principal,
        now
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Inserts a session that is connected.
pub(crate) async fn insert(conn: &mut PgConnection, session: &Session, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- sessions::insert
         INSERT INTO sessions (id, principal, features, dialect, token, last_seq, acked_seq, connection, attached, client,
                               created_at, expires_at, lines, opened_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, true, $9, $10, $11, $12, $13)",
        session.id.uuid(),
        session.principal,
        &words(session.features),
        session.dialect.as_str(),
        session.token.as_slice(),
        session.last_seq,
        session.acked_seq,
        session.connection,
        session.client,
        now,
        session.expires_at,
        session.lines,
        session.opened_by
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Updates a session that was resumed.
pub(crate) async fn take_up(conn: &mut PgConnection, session: &Session) -> Outcome<()> {
    sqlx::query!(
        "-- sessions::take_up
         UPDATE sessions SET features = $2, dialect = $3, token = $4, connection = $5, attached = true, expires_at = $6,
                             opened_by = $7, prior_token = $8
         WHERE id = $1",
        session.id.uuid(),
        &words(session.features),
        session.dialect.as_str(),
        session.token.as_slice(),
        session.connection,
        session.expires_at,
        session.opened_by,
        session.prior.as_ref().map(<[u8; 32]>::as_slice)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Extends the time until which a session can be resumed; returns false if the connection is no longer the current
/// one.
///
/// If its client was heard on this connection (`heard`), it has the current token, and the previous one becomes
/// invalid.
pub(crate) async fn move_on(
    conn: &mut PgConnection,
    id: SessionId,
    connection: i64,
    attached: bool,
    heard: bool,
    expires_at: Timestamp,
) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- sessions::move_on
         UPDATE sessions SET attached = $3, expires_at = $4, prior_token = CASE WHEN $5 THEN NULL ELSE prior_token END
         WHERE id = $1 AND connection = $2",
        id.uuid(),
        connection,
        attached,
        expires_at,
        heard
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Records the client's acknowledgement, at most up to the last number and never backwards; returns the stored value.
pub(crate) async fn ack(
    conn: &mut PgConnection,
    id: SessionId,
    connection: i64,
    seq: i64,
) -> Outcome<Option<i64>> {
    let acked = sqlx::query_scalar!(
        "-- sessions::ack
         UPDATE sessions SET acked_seq = greatest(acked_seq, least($3, last_seq)) WHERE id = $1 AND connection = $2
         RETURNING acked_seq",
        id.uuid(),
        connection,
        seq
    )
    .fetch_optional(conn)
    .await?;
    Ok(acked)
}

/// Deletes sessions with no open job at the end of their resume window, oldest first.
///
/// After the death of its server a session counts as connected for a while longer, so that a clock that jumps does
/// not end connected sessions.
pub(crate) async fn delete(
    conn: &mut PgConnection,
    now: Timestamp,
    long_ago: Timestamp,
    limit: i64,
) -> Outcome<Vec<Uuid>> {
    let ids = sqlx::query_scalar!(
        "-- sessions::delete
         DELETE FROM sessions WHERE id IN (
             SELECT s.id FROM sessions s
             WHERE s.expires_at <= $1 AND (NOT s.attached OR s.expires_at <= $2) AND NOT EXISTS (
                 SELECT 1 FROM jobs j JOIN job_clock c ON c.job_id = j.id
                 WHERE j.session_id = s.id AND j.counted AND c.ended_at IS NULL)
             ORDER BY s.expires_at LIMIT $3 FOR UPDATE SKIP LOCKED)
         RETURNING id",
        now,
        long_ago,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(ids)
}

/// Returns whether a session has an open job.
pub(crate) async fn has_open_job(conn: &mut PgConnection, id: SessionId) -> Outcome<bool> {
    let found = sqlx::query_scalar!(
        r#"-- sessions::has_open_job
         SELECT EXISTS (SELECT 1 FROM jobs j JOIN job_clock c ON c.job_id = j.id
                        WHERE j.session_id = $1 AND j.counted AND c.ended_at IS NULL) AS "found!""#,
        id.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(found)
}

/// Writes the last numbers of these sessions.
async fn count(conn: &mut PgConnection, counters: &[(SessionId, i64)]) -> Outcome<()> {
    let (ids, seqs): (Vec<Uuid>, Vec<i64>) = counters.iter().map(|(id, seq)| (id.uuid(), *seq)).unzip();
    sqlx::query!(
        "-- sessions::save_counters
         UPDATE sessions s SET last_seq = c.seq FROM UNNEST($1::uuid[], $2::bigint[]) AS c (id, seq) WHERE s.id = c.id",
        &ids,
        &seqs
    )
    .execute(conn)
    .await?;
    Ok(())
}
