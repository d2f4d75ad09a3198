//! Rows of `spend_reservations`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId, KeyId, ReservationId};
use entente_domain::spending::Unsettled;
use entente_domain::subjects::Act;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{CHARGED, CallAsk, Reservation};
use crate::{Outcome, unknown};

/// Returns reservations that are charged because nobody settled them in time, with their intents. A server of the previous release
/// releases them as expired; they are charged after that.
pub(super) async fn to_charge(
    conn: &mut PgConnection,
    now: Timestamp,
    limit: i64,
) -> Outcome<Vec<(ReservationId, Option<IntentId>)>> {
    let due = sqlx::query!(
        "-- spend_reservations::to_charge
         SELECT id, intent_id FROM spend_reservations
         WHERE charge_unsettled AND (ended_at IS NULL OR ended_as = 'expired') AND expires_at <= $1
         ORDER BY expires_at LIMIT $2",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(due.into_iter().map(|row| (row.id.into(), row.intent_id.map(IntentId::from))).collect())
}

/// Locks reservations that are released because nobody settled them in time.
pub(super) async fn to_release(
    conn: &mut PgConnection,
    now: Timestamp,
    limit: i64,
) -> Outcome<Vec<ReservationId>> {
    let due = sqlx::query_scalar!(
        "-- spend_reservations::due
         SELECT id FROM spend_reservations WHERE ended_at IS NULL AND expires_at <= $1 AND NOT charge_unsettled
         ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(due.into_iter().map(ReservationId::from).collect())
}

/// Ends reservations as expired.
pub(super) async fn expire(conn: &mut PgConnection, ids: &[ReservationId], now: Timestamp) -> Outcome<()> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    sqlx::query!(
        "-- spend_reservations::expire
         UPDATE spend_reservations SET ended_at = $2, ended_as = 'expired' WHERE id = ANY($1)",
        &ids,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes up to `limit` reservations that ended before a time; returns how many.
///
/// # Errors
/// A database error.
pub(in crate::spending) async fn forget(
    conn: &mut PgConnection,
    before: Timestamp,
    limit: i64,
) -> Outcome<u64> {
    let gone = sqlx::query!(
        "-- spend_reservations::forget
         DELETE FROM spend_reservations WHERE id IN (
             SELECT id FROM spend_reservations WHERE ended_at < $1 LIMIT $2)",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}

/// Inserts a reservation; returns whether no other has its call's id.
pub(super) async fn insert(
    conn: &mut PgConnection,
    made: &Reservation,
    key: KeyId,
    ask: &CallAsk,
    now: Timestamp,
) -> Outcome<bool> {
    let inserted = sqlx::query!(
        "-- spend_reservations::insert
         INSERT INTO spend_reservations (id, principal_id, agent, intent_id, key_id, provider, model, amounts, call_id,
                                         created_at, expires_at, job_id, agents, charge_unsettled)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         ON CONFLICT (principal_id, call_id) WHERE call_id IS NOT NULL DO NOTHING",
        made.id.uuid(),
        made.act.principal,
        made.act.agent(),
        made.act.intent.map(IntentId::uuid),
        made.act.key.unwrap_or(key).uuid(),
        made.provider,
        made.model,
        serde_json::to_string(&made.amounts)?,
        ask.call_id,
        now,
        made.expires_at,
        made.job_id.map(JobId::uuid),
        &made.act.agents,
        ask.unsettled == Unsettled::Charge
    )
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

/// The intent of a reservation, which never changes.
pub(super) async fn intent_of(conn: &mut PgConnection, id: ReservationId) -> Outcome<Option<IntentId>> {
    let found = sqlx::query_scalar!(
        "-- spend_reservations::intent\n SELECT intent_id FROM spend_reservations WHERE id = $1",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(found.flatten().map(IntentId::from))
}

/// Deletes a reservation that was refused after its insertion.
pub(super) async fn remove(conn: &mut PgConnection, id: ReservationId) -> Outcome<()> {
    sqlx::query!("-- spend_reservations::remove\n DELETE FROM spend_reservations WHERE id = $1", id.uuid())
        .execute(conn)
        .await?;
    Ok(())
}

/// Ends a reservation. One that is charged is stored as settled, with the time: a server of the previous release charges a
/// settled one no further.
pub(super) async fn end(
    conn: &mut PgConnection,
    id: ReservationId,
    ended_as: &str,
    now: Timestamp,
) -> Outcome<()> {
    let charged_at = (ended_as == CHARGED).then_some(now);
    sqlx::query!(
        "-- spend_reservations::end
         UPDATE spend_reservations SET ended_at = $2, ended_as = $3, charged_at = $4 WHERE id = $1",
        id.uuid(),
        now,
        if ended_as == CHARGED { "settled" } else { ended_as },
        charged_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

struct Row {
    id: Uuid,
    principal_id: String,
    agent: String,
    agents: Option<Vec<String>>,
    intent_id: Option<Uuid>,
    job_id: Option<Uuid>,
    key_id: Uuid,
    provider: Option<String>,
    model: Option<String>,
    amounts: String,
    expires_at: Timestamp,
    ended_as: Option<String>,
    charge_unsettled: bool,
    charged_at: Option<Timestamp>,
}

impl TryFrom<Row> for Reservation {
    type Error = crate::AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            act: Act {
                principal: row.principal_id,
                agents: row.agents.unwrap_or_else(|| vec![row.agent]),
                intent: row.intent_id.map(IntentId::from),
                key: Some(row.key_id.into()),
            },
            job_id: row.job_id.map(JobId::from),
            provider: row.provider,
            model: row.model,
            amounts: serde_json::from_str(&row.amounts).map_err(|_e| unknown("amounts", &row.amounts))?,
            expires_at: row.expires_at,
            unsettled: if row.charge_unsettled { Unsettled::Charge } else { Unsettled::Release },
            ended_as: row.charged_at.map(|_| CHARGED.to_owned()).or(row.ended_as),
        })
    }
}

/// Loads the reservation of a call.
pub(super) async fn of_call(
    conn: &mut PgConnection,
    principal: &str,
    call_id: &str,
) -> Outcome<Option<Reservation>> {
    let row = sqlx::query_as!(
        Row,
        "-- spend_reservations::of_call
         SELECT id, principal_id, agent, agents, intent_id, job_id, key_id, provider, model, amounts, expires_at, ended_as,
                charge_unsettled, charged_at
         FROM spend_reservations WHERE principal_id = $1 AND call_id = $2",
        principal,
        call_id
    )
    .fetch_optional(conn)
    .await?;
    row.map(Reservation::try_from).transpose()
}

/// Loads a reservation and locks it.
pub(super) async fn lock(conn: &mut PgConnection, id: ReservationId) -> Outcome<Option<Reservation>> {
    let row = sqlx::query_as!(
        Row,
        "-- spend_reservations::lock
         SELECT id, principal_id, agent, agents, intent_id, job_id, key_id, provider, model, amounts, expires_at, ended_as,
                charge_unsettled, charged_at
         FROM spend_reservations WHERE id = $1 FOR UPDATE",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(Reservation::try_from).transpose()
}
