//! Rows of dispatches to peers and of deliveries from them. `outbox.rs` has the outbox.

use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{DispatchId, IntentId};
use entente_domain::openintent::federation::dispatches::{Origin, State};
use entente_kernel::log::writer;
use entente_kernel::{Outcome, unknown};
use sqlx::PgConnection;

use super::{Counts, Dispatch};

/// Counts everything stored.
pub async fn counts(conn: &mut PgConnection) -> Outcome<Counts> {
    let row = sqlx::query!(
        r#"-- federation::counts
         SELECT (SELECT count(*) FROM federation_dispatches WHERE ended_at IS NULL) AS "active!",
                (SELECT count(*) FROM federation_dispatches) AS "dispatches!",
                (SELECT count(*) FROM federation_deliveries WHERE local_intent_id IS NOT NULL) AS "received!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(Counts { active: row.active, dispatches: row.dispatches, received: row.received })
}

/// Counts a peer's accepted deliveries.
pub async fn counts_of_peer(conn: &mut PgConnection, peer: &str) -> Outcome<Counts> {
    let received = sqlx::query_scalar!(
        r#"-- federation::counts_of_peer
         SELECT count(*) AS "received!" FROM federation_deliveries WHERE peer = $1 AND local_intent_id IS NOT NULL"#,
        peer
    )
    .fetch_one(conn)
    .await?;
    Ok(Counts { received, ..Counts::default() })
}

/// Counts an agent's dispatches, and the accepted deliveries for it.
pub async fn counts_of_agent(conn: &mut PgConnection, agent: &str) -> Outcome<Counts> {
    let row = sqlx::query!(
        r#"-- federation::counts_of_agent
         SELECT count(*) FILTER (WHERE ended_at IS NULL) AS "active!", count(*) AS "dispatches!",
                (SELECT count(*) FROM federation_deliveries WHERE agent_id = $1 AND local_intent_id IS NOT NULL) AS "received!"
         FROM federation_dispatches WHERE requested_by = $1"#,
        agent
    )
    .fetch_one(conn)
    .await?;
    Ok(Counts { active: row.active, dispatches: row.dispatches, received: row.received })
}

/// Counts a peer's dispatches in progress.
pub async fn open(conn: &mut PgConnection, peer: &str) -> Outcome<i64> {
    let open = sqlx::query_scalar!(
        r#"-- federation::open
         SELECT count(*) AS "open!" FROM federation_dispatches WHERE peer = $1 AND ended_at IS NULL"#,
        peer
    );
    Ok(open.fetch_one(conn).await?)
}

/// Counts a peer's deliveries that are in progress or were rejected after `after`.
pub async fn pressing(conn: &mut PgConnection, peer: &str, after: Timestamp) -> Outcome<i64> {
    let pressing = sqlx::query_scalar!(
        r#"-- federation::pressing
         SELECT count(*) AS "pressing!" FROM federation_deliveries
         WHERE peer = $1 AND (ended_at IS NULL OR (local_intent_id IS NULL AND ended_at > $2))"#,
        peer,
        after
    );
    Ok(pressing.fetch_one(conn).await?)
}

struct DispatchRow {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    peer: String,
    target_server: String,
    agent_id: Option<String>,
    requested_by: String,
    state: String,
    remote_intent_id: Option<String>,
    message: String,
    callbacks: i32,
    created_at: Timestamp,
    heard_at: Timestamp,
    ended_at: Option<Timestamp>,
}

impl TryFrom<DispatchRow> for Dispatch {
    type Error = entente_kernel::AppError;

    fn try_from(row: DispatchRow) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            peer: row.peer,
            target_server: row.target_server,
            agent_id: row.agent_id,
            requested_by: row.requested_by,
            state: State::parse(&row.state).ok_or_else(|| unknown("dispatch state", &row.state))?,
            remote_intent_id: row.remote_intent_id,
            message: row.message,
            callbacks: row.callbacks,
            created_at: row.created_at,
            heard_at: row.heard_at,
            ended_at: row.ended_at,
        })
    }
}

/// Selects whole dispatches: the query's name, and the text after `FROM federation_dispatches`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            DispatchRow,
            "-- " + $name + "
             SELECT id, intent_id, peer, target_server, agent_id, requested_by, state, remote_intent_id, message, callbacks,
                    created_at, heard_at, ended_at
             FROM federation_dispatches " + $rest
            $(, $argument)*
        )
    };
}

/// Loads a dispatch by id.
pub async fn dispatch(conn: &mut PgConnection, id: DispatchId) -> Outcome<Option<Dispatch>> {
    let row = select!("federation::dispatch", "WHERE id = $1", id.uuid()).fetch_optional(conn).await?;
    row.map(Dispatch::try_from).transpose()
}

/// Inserts a new dispatch, or updates its state.
pub async fn save_dispatch(conn: &mut PgConnection, one: &Dispatch) -> Outcome<()> {
    sqlx::query!(
        "-- federation::save_dispatch
         INSERT INTO federation_dispatches (id, intent_id, peer, target_server, agent_id, requested_by, state, remote_intent_id,
                                            message, callbacks, created_at, heard_at, ended_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (id) DO UPDATE SET state = excluded.state, remote_intent_id = excluded.remote_intent_id,
             message = excluded.message, callbacks = excluded.callbacks, heard_at = excluded.heard_at,
             ended_at = excluded.ended_at",
        one.id.uuid(),
        one.intent_id.uuid(),
        one.peer,
        one.target_server,
        one.agent_id,
        one.requested_by,
        one.state.as_str(),
        one.remote_intent_id,
        one.message,
        one.callbacks,
        one.created_at,
        one.heard_at,
        one.ended_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads the dispatches of an intent that no peer has answered yet.
pub async fn on_their_way(conn: &mut PgConnection, intent: IntentId) -> Outcome<Vec<Dispatch>> {
    let rows = select!(
        "federation::on_their_way",
        "WHERE intent_id = $1 AND state = 'pending' ORDER BY id",
        intent.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Dispatch::try_from).collect()
}

/// Records a callback; returns whether it is the first with its key.
pub async fn note_callback(conn: &mut PgConnection, id: DispatchId, key: &str) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- federation::note_callback
         INSERT INTO federation_callbacks (dispatch_id, key) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        id.uuid(),
        key
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A new delivery.
pub struct NewDelivery<'a> {
    pub peer: &'a str,
    pub dispatch_id: &'a str,
    pub fingerprint: Digest,
    pub local_intent_id: Option<IntentId>,
    pub message: &'a str,
    pub agent_id: Option<&'a str>,
    pub callback_url: Option<&'a str>,
    pub delegation_scope: Option<String>,
    pub federation_policy: Option<String>,
    pub trace_id: Option<String>,
    pub reported_seq: i64,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// Inserts a delivery.
pub async fn insert_delivery(conn: &mut PgConnection, one: &NewDelivery<'_>) -> Outcome<()> {
    sqlx::query!(
        "-- federation::insert_delivery
         INSERT INTO federation_deliveries (peer, dispatch_id, fingerprint, local_intent_id, message, agent_id, callback_url,
             delegation_scope, federation_policy, trace_id, reported_seq, callbacks, created_at, told_at, ended_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, $12, $13)",
        one.peer,
        one.dispatch_id,
        one.fingerprint.as_slice(),
        one.local_intent_id.map(IntentId::uuid),
        one.message,
        one.agent_id,
        one.callback_url,
        one.delegation_scope,
        one.federation_policy,
        one.trace_id,
        one.reported_seq,
        one.created_at,
        one.ended_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads a delivery's fingerprint, its intent here, and the answer.
pub async fn delivery(
    conn: &mut PgConnection,
    peer: &str,
    dispatch_id: &str,
) -> Outcome<Option<(Digest, Option<IntentId>, String)>> {
    let row = sqlx::query!(
        "-- federation::delivery
         SELECT fingerprint, local_intent_id, message FROM federation_deliveries WHERE peer = $1 AND dispatch_id = $2",
        peer,
        dispatch_id
    )
    .fetch_optional(conn)
    .await?;
    let read = |(fingerprint, intent, message): (Vec<u8>, Option<uuid::Uuid>, String)| {
        Ok((writer::digest(fingerprint)?, intent.map(IntentId::from), message))
    };
    row.map(|row| read((row.fingerprint, row.local_intent_id, row.message))).transpose()
}

/// Loads the limits that came with a peer's intent; `None` for our own.
pub async fn origin(conn: &mut PgConnection, intent: IntentId) -> Outcome<Option<Origin>> {
    let row = sqlx::query!(
        "-- federation::origin
         SELECT delegation_scope, federation_policy FROM federation_deliveries WHERE local_intent_id = $1",
        intent.uuid()
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Origin {
        scope: row.delegation_scope.as_deref().map(serde_json::from_str).transpose()?,
        policy: row.federation_policy.as_deref().map(serde_json::from_str).transpose()?,
    }))
}

/// A peer's intent that may have news for the peer.
pub struct Telling {
    pub peer: String,
    pub dispatch_id: String,
    pub intent_id: IntentId,
}

/// Returns peers' intents with unreported log entries and without queued callbacks, oldest delivery first.
pub async fn to_tell(conn: &mut PgConnection, limit: i64) -> Outcome<Vec<Telling>> {
    let rows = sqlx::query!(
        r#"-- federation::to_tell
         SELECT d.peer, d.dispatch_id, d.local_intent_id AS "intent!" FROM federation_deliveries d
         CROSS JOIN LATERAL (SELECT * FROM intent_clock e WHERE e.intent_id = d.local_intent_id ORDER BY e.block DESC LIMIT 1) c
         WHERE d.ended_at IS NULL AND c.last_seq > d.reported_seq AND NOT EXISTS (
             SELECT 1 FROM federation_letters l
             WHERE l.peer = d.peer AND l.kind = 'callback' AND l.dispatch_id = d.dispatch_id)
         ORDER BY d.created_at LIMIT $1"#,
        limit
    )
    .fetch_all(conn)
    .await?;
    let read = rows.into_iter();
    Ok(read
        .map(|row| Telling { peer: row.peer, dispatch_id: row.dispatch_id, intent_id: row.intent.into() })
        .collect())
}

/// The reporting state of a peer's intent, locked; `None` if another server has it locked, a callback is
/// queued, or reporting has ended.
pub struct Told {
    pub reported_seq: i64,
    pub callbacks: i32,
    pub callback_url: Option<String>,
    pub delegation_scope: Option<String>,
    pub trace_id: Option<String>,
}

/// See [`Told`].
pub async fn hold_delivery(conn: &mut PgConnection, one: &Telling) -> Outcome<Option<Told>> {
    let row = sqlx::query_as!(
        Told,
        "-- federation::hold_delivery
         SELECT reported_seq, callbacks, callback_url, delegation_scope, trace_id FROM federation_deliveries
         WHERE peer = $1 AND dispatch_id = $2 AND ended_at IS NULL AND NOT EXISTS (
             SELECT 1 FROM federation_letters l WHERE l.peer = $1 AND l.kind = 'callback' AND l.dispatch_id = $2)
         FOR UPDATE SKIP LOCKED",
        one.peer,
        one.dispatch_id
    );
    Ok(row.fetch_optional(conn).await?)
}

/// Stores the last reported position and the number of callbacks, and whether reporting has ended.
pub async fn told(
    conn: &mut PgConnection,
    one: &Telling,
    reported_seq: i64,
    callbacks: i32,
    all: bool,
    now: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- federation::told
         UPDATE federation_deliveries SET reported_seq = $3, callbacks = $4, told_at = $6,
             ended_at = CASE WHEN $5 THEN $6::timestamptz END
         WHERE peer = $1 AND dispatch_id = $2",
        one.peer,
        one.dispatch_id,
        reported_seq,
        callbacks,
        all,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns dispatches without news since `before`, longest silent first.
pub async fn silent(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<Vec<Dispatch>> {
    let rows = select!(
        "federation::silent",
        "WHERE ended_at IS NULL AND heard_at <= $1 ORDER BY heard_at LIMIT $2",
        before,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Dispatch::try_from).collect()
}

/// Ends the reporting on intents without activity since `before`.
pub async fn stop_telling(
    conn: &mut PgConnection,
    before: Timestamp,
    now: Timestamp,
    limit: i64,
) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- federation::stop_telling
         UPDATE federation_deliveries SET ended_at = $2 WHERE (peer, dispatch_id) IN (
             SELECT peer, dispatch_id FROM federation_deliveries WHERE ended_at IS NULL AND told_at <= $1
             ORDER BY told_at LIMIT $3 FOR UPDATE SKIP LOCKED)",
        before,
        now,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Deletes dispatches and rejected deliveries that ended before a time; accepted deliveries stay with their
/// intent, which may be worked on and dispatched again within its delegation scope.
pub async fn forget(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let dispatches = sqlx::query!(
        "-- federation::forget_dispatches
         DELETE FROM federation_dispatches WHERE id IN (
             SELECT id FROM federation_dispatches WHERE ended_at <= $1 ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(&mut *conn)
    .await?;
    let deliveries = sqlx::query!(
        "-- federation::forget_deliveries
         DELETE FROM federation_deliveries WHERE (peer, dispatch_id) IN (
             SELECT peer, dispatch_id FROM federation_deliveries WHERE local_intent_id IS NULL AND ended_at <= $1
             ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(dispatches.rows_affected() + deliveries.rows_affected())
}
