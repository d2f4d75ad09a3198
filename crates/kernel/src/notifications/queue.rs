//! The queue: the notifications for each contact point. Table `notifications`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::ContactId;
use entente_domain::notifications::times::Occasion;
use entente_domain::notifications::{Reason, Topic};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows;
use crate::{AppError, Outcome, unknown};

/// Most notifications that one message is made of: more than ten are counted, not listed, so that a flood is few messages.
const BATCH: i64 = 1_000;

/// A notification to queue.
#[derive(Debug)]
pub(super) struct New {
    contact: ContactId,
    reason: Reason,
    subject: String,
    step: u32,
    agent: Option<String>,
    deadline: Option<Timestamp>,
    due_at: Timestamp,
}

impl New {
    /// A notification of something that waits; `step` is 0, or the number of the reminder.
    pub fn of_occasion(
        contact: ContactId,
        occasion: Occasion<'_>,
        subject: &str,
        step: u32,
        due_at: Timestamp,
    ) -> Self {
        Self {
            contact,
            reason: Reason::Topic(occasion.topic),
            subject: subject.to_owned(),
            step,
            agent: occasion.agent.map(str::to_owned),
            deadline: occasion.deadline,
            due_at,
        }
    }

    /// A notification about the contact point itself.
    pub fn of_contact(contact: ContactId, reason: Reason, subject: String, due_at: Timestamp) -> Self {
        Self { contact, reason, subject, step: 0, agent: None, deadline: None, due_at }
    }
}

/// Queues notifications, each once, and makes their contact points due.
pub(super) async fn insert(conn: &mut PgConnection, new: &[New], now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- notifications::insert
         INSERT INTO notifications (contact_id, reason, subject, step, agent, deadline, created_at, due_at)
         SELECT u.contact, u.reason, u.subject, u.step, u.agent, u.deadline, $8, u.due
         FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::timestamptz[], $7::timestamptz[])
             AS u (contact, reason, subject, step, agent, deadline, due)
         ON CONFLICT DO NOTHING",
        &new.iter().map(|one| one.contact.uuid()).collect::<Vec<_>>(),
        &new.iter().map(|one| one.reason.as_str()).collect::<Vec<_>>() as &[&str],
        &new.iter().map(|one| one.subject.as_str()).collect::<Vec<_>>() as &[&str],
        &new.iter().map(|one| i32::try_from(one.step).unwrap_or(i32::MAX)).collect::<Vec<_>>(),
        &new.iter().map(|one| one.agent.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &new.iter().map(|one| one.deadline).collect::<Vec<_>>() as &[Option<Timestamp>],
        &new.iter().map(|one| one.due_at).collect::<Vec<_>>(),
        now
    )
    .execute(&mut *conn)
    .await?;
    rows::poke(conn, &new.iter().map(|one| (one.contact, one.due_at)).collect::<Vec<_>>()).await
}

/// A notification that is due.
#[derive(Debug, Clone)]
pub(super) struct Due {
    pub id: i64,
    pub reason: Reason,
    pub subject: String,
    pub step: u32,
    pub agent: Option<String>,
    pub deadline: Option<Timestamp>,
    pub attempts: u32,
}

impl Due {
    /// Returns its occasion; `None` if it is about the contact point itself.
    pub fn occasion(&self) -> Option<Occasion<'_>> {
        let Reason::Topic(topic) = self.reason else { return None };
        Some(Occasion { topic, agent: self.agent.as_deref(), deadline: self.deadline })
    }

    /// Returns its topic; `None` if it is about the contact point itself.
    pub fn topic(&self) -> Option<Topic> {
        self.occasion().map(|occasion| occasion.topic)
    }
}

struct Row {
    id: i64,
    reason: String,
    subject: String,
    step: i32,
    agent: Option<String>,
    deadline: Option<Timestamp>,
    attempts: i32,
}

impl TryFrom<Row> for Due {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id,
            reason: Reason::parse(&row.reason)
                .ok_or_else(|| unknown("reason of a notification", &row.reason))?,
            subject: row.subject,
            step: u32::try_from(row.step).unwrap_or(0),
            agent: row.agent,
            deadline: row.deadline,
            attempts: u32::try_from(row.attempts).unwrap_or(0),
        })
    }
}

/// Loads the due notifications of a contact point, longest due first.
pub(super) async fn due(conn: &mut PgConnection, contact: ContactId, now: Timestamp) -> Outcome<Vec<Due>> {
    let rows = sqlx::query_as!(
        Row,
        "-- notifications::due
         SELECT id, reason, subject, step, agent, deadline, attempts FROM notifications
         WHERE contact_id = $1 AND status = 'waiting' AND due_at <= $2 ORDER BY due_at, id LIMIT $3",
        contact.uuid(),
        now,
        BATCH
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Due::try_from).collect()
}

/// How a notification goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub id: i64,
    pub attempts: u32,
    pub status: &'static str,
    /// When it is due again, if it still waits.
    pub again: Option<Timestamp>,
}

/// Stores how notifications go on.
pub(super) async fn change(conn: &mut PgConnection, changes: &[Change], now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- notifications::change
         UPDATE notifications n SET attempts = u.attempts, status = u.status, due_at = coalesce(u.again, n.due_at),
                finished_at = CASE WHEN u.status = 'waiting' THEN NULL ELSE $5::timestamptz END
         FROM UNNEST($1::bigint[], $2::integer[], $3::text[], $4::timestamptz[]) AS u (id, attempts, status, again)
         WHERE n.id = u.id AND n.status = 'waiting'",
        &changes.iter().map(|one| one.id).collect::<Vec<_>>(),
        &changes.iter().map(|one| i32::try_from(one.attempts).unwrap_or(i32::MAX)).collect::<Vec<_>>(),
        &changes.iter().map(|one| one.status).collect::<Vec<_>>() as &[&str],
        &changes.iter().map(|one| one.again).collect::<Vec<_>>() as &[Option<Timestamp>],
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes up to `limit` finished notifications older than a time; returns their number.
pub(super) async fn forget(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- notifications::forget
         DELETE FROM notifications WHERE id IN (
             SELECT id FROM notifications WHERE finished_at < $1 ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Deletes up to `limit` notifications of removed contact points.
pub(super) async fn forget_all(conn: &mut PgConnection, contacts: &[Uuid], limit: i64) -> Outcome<()> {
    sqlx::query!(
        "-- notifications::forget_all
         DELETE FROM notifications WHERE id IN (SELECT id FROM notifications WHERE contact_id = ANY ($1) LIMIT $2)",
        contacts,
        limit
    )
    .execute(conn)
    .await?;
    Ok(())
}
