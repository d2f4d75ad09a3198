//! Rows of leases: table `leases`; reads the queue, `lease_waits`, with them.

use std::collections::HashMap;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, LeaseId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::leases::queue::LeaseWait;
use entente_domain::openintent::leases::{Lease, LeaseStatus};
use entente_kernel::Pool;
use entente_kernel::log::deferred::Deferred;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;

struct Row {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    agent_id: String,
    scope: String,
    path: String,
    fencing_token: i64,
    status: String,
    acquired_at: Timestamp,
    expires_at: Timestamp,
    ended_at: Option<Timestamp>,
}

impl TryFrom<Row> for Lease {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            agent_id: row.agent_id,
            scope: row.scope,
            path: row.path,
            fencing_token: row.fencing_token,
            status: LeaseStatus::parse(&row.status).ok_or_else(|| unknown("lease status", &row.status))?,
            acquired_at: row.acquired_at,
            expires_at: row.expires_at,
            ended_at: row.ended_at,
        })
    }
}

/// Selects leases: the query's name, and the text after `FROM leases`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT id, intent_id, agent_id, scope, path, fencing_token, status, acquired_at, expires_at, ended_at
             FROM leases " + $rest
            $(, $argument)*
        )
    };
}

/// The leases on an intent without a recorded end.
pub(super) async fn active(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<Lease>> {
    let found = select!(
        "leases::active",
        "WHERE intent_id = $1 AND status = 'active' ORDER BY path",
        intent_id.uuid()
    );
    found.fetch_all(conn).await?.into_iter().map(Lease::try_from).collect()
}

/// The leases on an intent without a recorded end, and the requests that wait for one, in their order.
#[derive(Clone, Default)]
pub(super) struct LeasesOfIntent {
    /// The leases, of which some may have expired.
    pub leases: Vec<Lease>,
    /// The requests.
    pub waits: Vec<LeaseWait>,
}

/// Loads the leases and waiting requests of an intent.
pub(super) async fn active_and_waiting(
    conn: &mut PgConnection,
    intent_id: IntentId,
    now: Timestamp,
) -> Outcome<LeasesOfIntent> {
    Ok(active_and_waiting_on(conn, &[intent_id], now).await?.remove(&intent_id).unwrap_or_default())
}

/// As [`active_and_waiting`], for several intents at once; one without any is left out.
pub(super) async fn active_and_waiting_on(
    conn: &mut PgConnection,
    intents: &[IntentId],
    now: Timestamp,
) -> Outcome<HashMap<IntentId, LeasesOfIntent>> {
    let rows = sqlx::query!(
        r#"-- leases::active_and_waiting
         SELECT id AS "id?", intent_id AS "intent_id!", agent_id AS "agent_id!", scope AS "scope!", path AS "path!",
                fencing_token AS "number!", acquired_at AS "since!", expires_at AS "until!"
         FROM leases WHERE intent_id = ANY($1) AND status = 'active'
         UNION ALL
         SELECT NULL, intent_id, agent_id, scope, path, number, since, until
         FROM lease_waits WHERE intent_id = ANY($1) AND until > $2
         ORDER BY "number!""#,
        &intents.iter().map(|id| id.uuid()).collect::<Vec<_>>(),
        now
    )
    .fetch_all(conn)
    .await?;
    let mut found: HashMap<IntentId, LeasesOfIntent> = HashMap::new();
    for row in rows {
        let intent_id = IntentId::from(row.intent_id);
        let (agent_id, scope, path, number) = (row.agent_id, row.scope, row.path, row.number);
        let (since, until) = (row.since, row.until);
        let on = found.entry(intent_id).or_default();
        match row.id {
            Some(id) => on.leases.push(Lease {
                id: id.into(),
                intent_id,
                agent_id,
                scope,
                path,
                fencing_token: number,
                status: LeaseStatus::Active,
                acquired_at: since,
                expires_at: until,
                ended_at: None,
            }),
            None => on.waits.push(LeaseWait { agent_id, scope, path, number, since, until }),
        }
    }
    Ok(found)
}

/// The last [`PAGE`] leases on an intent, oldest first, by current status or all.
pub(super) async fn list(
    conn: &mut PgConnection,
    intent_id: IntentId,
    status: Option<LeaseStatus>,
    now: Timestamp,
) -> Outcome<Vec<Lease>> {
    let rows = select!(
        "leases::list",
        "WHERE intent_id = $1 AND ($2::text IS NULL OR $2 =
             CASE WHEN status = 'active' AND expires_at <= $3 THEN 'expired' ELSE status END)
         ORDER BY fencing_token DESC LIMIT $4",
        intent_id.uuid(),
        status.map(LeaseStatus::as_str),
        now,
        i64::from(PAGE)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().rev().map(Lease::try_from).collect()
}

/// Intents of up to `limit` expired leases.
pub(super) async fn due(pool: &Pool, now: Timestamp, limit: i64) -> Outcome<Vec<IntentId>> {
    let ids = sqlx::query_scalar!(
        "-- leases::due
         SELECT DISTINCT intent_id FROM (
             SELECT intent_id FROM leases WHERE status = 'active' AND expires_at <= $1
             ORDER BY expires_at LIMIT $2) due",
        now,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(IntentId::from).collect())
}

/// Loads a lease of the intent.
pub(super) async fn load(
    conn: &mut PgConnection,
    intent_id: IntentId,
    id: LeaseId,
) -> Outcome<Option<Lease>> {
    let row = select!("leases::load", "WHERE id = $1 AND intent_id = $2", id.uuid(), intent_id.uuid())
        .fetch_optional(conn)
        .await?;
    row.map(Lease::try_from).transpose()
}

/// Intents on which an agent holds leases.
pub(crate) async fn intents_of_holder(conn: &mut PgConnection, agent_id: &str) -> Outcome<Vec<IntentId>> {
    let ids = sqlx::query_scalar!(
        "-- leases::intents_of_holder
         SELECT DISTINCT intent_id FROM leases WHERE agent_id = $1 AND status = 'active'",
        agent_id
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(IntentId::from).collect())
}

/// A new lease, with the expired ones that it ends.
pub(super) struct AcquiredLease {
    /// The new one.
    pub lease: Lease,
    /// Those that have ended.
    pub ended: Vec<Lease>,
}

impl Deferred for AcquiredLease {
    /// Writes the ends first: the index allows one lease in force for a scope.
    async fn write(conn: &mut PgConnection, rows: Vec<Self>) -> Outcome<()> {
        let (leases, ended): (Vec<Lease>, Vec<Vec<Lease>>) =
            rows.into_iter().map(|row| (row.lease, row.ended)).unzip();
        let ended = ended.concat();
        if !ended.is_empty() {
            update(conn, &ended).await?;
        }
        insert(conn, &leases).await
    }
}

pub(super) async fn insert(conn: &mut PgConnection, leases: &[Lease]) -> Outcome<()> {
    sqlx::query!(
        "-- leases::insert
         INSERT INTO leases (id, intent_id, agent_id, scope, path, fencing_token, status, acquired_at, expires_at)
         SELECT * FROM UNNEST($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[],
                              $8::timestamptz[], $9::timestamptz[])",
        &leases.iter().map(|lease| lease.id.uuid()).collect::<Vec<_>>(),
        &leases.iter().map(|lease| lease.intent_id.uuid()).collect::<Vec<_>>(),
        &leases.iter().map(|lease| lease.agent_id.as_str()).collect::<Vec<_>>() as &[&str],
        &leases.iter().map(|lease| lease.scope.as_str()).collect::<Vec<_>>() as &[&str],
        &leases.iter().map(|lease| lease.path.as_str()).collect::<Vec<_>>() as &[&str],
        &leases.iter().map(|lease| lease.fencing_token).collect::<Vec<_>>(),
        &leases.iter().map(|lease| lease.status.as_str()).collect::<Vec<_>>() as &[&str],
        &leases.iter().map(|lease| lease.acquired_at).collect::<Vec<_>>(),
        &leases.iter().map(|lease| lease.expires_at).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes the mutable columns of leases: expiry, status and end.
pub(super) async fn update(conn: &mut PgConnection, leases: &[Lease]) -> Outcome<()> {
    sqlx::query!(
        "-- leases::update
         UPDATE leases l SET status = k.status, expires_at = k.expires_at, ended_at = k.ended_at
         FROM UNNEST($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[])
             AS k (id, status, expires_at, ended_at)
         WHERE l.id = k.id",
        &leases.iter().map(|lease| lease.id.uuid()).collect::<Vec<_>>(),
        &leases.iter().map(|lease| lease.status.as_str()).collect::<Vec<_>>() as &[&str],
        &leases.iter().map(|lease| lease.expires_at).collect::<Vec<_>>(),
        &leases.iter().map(|lease| lease.ended_at).collect::<Vec<_>>() as &[Option<Timestamp>]
    )
    .execute(conn)
    .await?;
    Ok(())
}
