//! Rows of the table `contact_points`: the contact points, the leases on them, and the health of their receivers.

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{ContactId, NodeId};
use entente_domain::notifications::{Address, ContactKind, ContactSettings, PushKeys};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::{AppError, Outcome, Pool, unknown};

/// A contact point.
#[derive(Debug, Clone)]
pub struct Contact {
    /// Its id.
    pub id: ContactId,
    /// Its person.
    pub person: String,
    /// Where it is reached.
    pub address: Address,
    /// Name that the person gave it.
    pub label: Option<String>,
    /// The topics and times of its notifications.
    pub settings: ContactSettings,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its address was confirmed, or was known to need no confirmation.
    pub confirmed_at: Option<Timestamp>,
    /// The code that confirms it, and how often a wrong one was tried.
    pub code: Option<String>,
    /// Wrong codes that were tried.
    pub code_tries: u32,
    /// When it was disabled, and why.
    pub disabled: Option<(Timestamp, String)>,
    /// Health of its receiver.
    pub health: ContactHealth,
}

/// Health of a contact point's receiver.
#[derive(Debug, Clone, Default)]
pub struct ContactHealth {
    /// Number of consecutive failures.
    pub failures: u32,
    /// When they began.
    pub failing_since: Option<Timestamp>,
    /// When the next message may be sent at the earliest.
    pub rests_until: Option<Timestamp>,
    /// The last error.
    pub last_error: Option<String>,
    /// When it occurred.
    pub last_error_at: Option<Timestamp>,
    /// When a message was last taken.
    pub last_sent_at: Option<Timestamp>,
}

impl Contact {
    /// Returns whether it is told of waiting items.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.confirmed_at.is_some() && self.disabled.is_none()
    }
}

struct Row {
    id: Uuid,
    principal_id: String,
    kind: String,
    address: String,
    push_keys: Option<String>,
    label: Option<String>,
    settings: String,
    created_at: Timestamp,
    code: Option<String>,
    code_tries: i32,
    confirmed_at: Option<Timestamp>,
    disabled_at: Option<Timestamp>,
    disabled_for: Option<String>,
    rests_until: Option<Timestamp>,
    failures: i32,
    failing_since: Option<Timestamp>,
    last_error: Option<String>,
    last_error_at: Option<Timestamp>,
    last_sent_at: Option<Timestamp>,
}

impl TryFrom<Row> for Contact {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let kind =
            ContactKind::parse(&row.kind).ok_or_else(|| unknown("kind of contact point", &row.kind))?;
        let push_keys = row.push_keys.as_deref().map(serde_json::from_str::<PushKeys>).transpose()?;
        Ok(Self {
            id: row.id.into(),
            person: row.principal_id,
            address: Address { kind, text: row.address, push_keys },
            label: row.label,
            settings: serde_json::from_str(&row.settings)?,
            created_at: row.created_at,
            confirmed_at: row.confirmed_at,
            code: row.code,
            code_tries: u32::try_from(row.code_tries).unwrap_or(u32::MAX),
            disabled: row.disabled_at.zip(row.disabled_for),
            health: ContactHealth {
                failures: u32::try_from(row.failures).unwrap_or(0),
                failing_since: row.failing_since,
                rests_until: row.rests_until,
                last_error: row.last_error,
                last_error_at: row.last_error_at,
                last_sent_at: row.last_sent_at,
            },
        })
    }
}

/// Loads whole contact points: takes the query's name and the text after `FROM contact_points`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT id, principal_id, kind, address, push_keys, label, settings, created_at, code, code_tries, confirmed_at,
                    disabled_at, disabled_for, rests_until, failures, failing_since, last_error, last_error_at, last_sent_at
             FROM contact_points " + $rest
            $(, $argument)*
        )
    };
}

/// Loads a contact point that was not removed.
pub(super) async fn find(conn: &mut PgConnection, id: ContactId) -> Outcome<Option<Contact>> {
    let row = select!("contact_points::find", "WHERE id = $1 AND removed_at IS NULL", id.uuid())
        .fetch_optional(conn)
        .await?;
    row.map(Contact::try_from).transpose()
}

/// Loads a person's contact points, oldest first.
pub(super) async fn of_person(conn: &mut PgConnection, person: &str) -> Outcome<Vec<Contact>> {
    let rows = select!(
        "contact_points::of_person",
        "WHERE principal_id = $1 AND removed_at IS NULL ORDER BY id",
        person
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Contact::try_from).collect()
}

/// Loads those contact points of these people that are told of waiting items.
pub(super) async fn told(conn: &mut PgConnection, people: &[&str]) -> Outcome<Vec<Contact>> {
    let rows = select!(
        "contact_points::told",
        "WHERE principal_id = ANY ($1) AND removed_at IS NULL AND confirmed_at IS NOT NULL AND disabled_at IS NULL ORDER BY id",
        people as &[&str]
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Contact::try_from).collect()
}

/// Loads all contact points that are told of waiting items.
pub(super) async fn told_all(conn: &mut PgConnection) -> Outcome<Vec<Contact>> {
    let rows = select!(
        "contact_points::told_all",
        "WHERE removed_at IS NULL AND confirmed_at IS NOT NULL AND disabled_at IS NULL ORDER BY id"
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Contact::try_from).collect()
}

/// Counts a person's contact points, with those removed since a time.
pub(super) async fn count(conn: &mut PgConnection, person: &str, since: Timestamp) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- contact_points::count
         SELECT count(*) AS "count!" FROM contact_points
         WHERE principal_id = $1 AND (removed_at IS NULL OR removed_at > $2)"#,
        person,
        since
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Inserts a contact point.
pub(super) async fn insert(conn: &mut PgConnection, contact: &Contact) -> Outcome<()> {
    let push_keys = contact.address.push_keys.as_ref().map(serde_json::to_string).transpose()?;
    sqlx::query!(
        "-- contact_points::insert
         INSERT INTO contact_points (id, principal_id, kind, address, push_keys, label, settings, created_at, code, confirmed_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        contact.id.uuid(),
        contact.person,
        contact.address.kind.as_str(),
        contact.address.text,
        push_keys,
        contact.label,
        serde_json::to_string(&contact.settings)?,
        contact.created_at,
        contact.code,
        contact.confirmed_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores the members that its person changes: label, settings, confirmation, whether it is disabled.
pub(super) async fn save(conn: &mut PgConnection, contact: &Contact) -> Outcome<()> {
    sqlx::query!(
        "-- contact_points::save
         UPDATE contact_points SET label = $2, settings = $3, code = $4, code_tries = $5, confirmed_at = $6, disabled_at = $7,
                disabled_for = $8
         WHERE id = $1",
        contact.id.uuid(),
        contact.label,
        serde_json::to_string(&contact.settings)?,
        contact.code,
        i32::try_from(contact.code_tries).unwrap_or(i32::MAX),
        contact.confirmed_at,
        contact.disabled.as_ref().map(|(at, _)| *at),
        contact.disabled.as_ref().map(|(_, reason)| reason.as_str())
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Marks a contact point as removed; nothing more is sent to it.
pub(super) async fn remove(conn: &mut PgConnection, id: ContactId, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- contact_points::remove
         UPDATE contact_points SET removed_at = $2, due_at = NULL, address = '', push_keys = NULL WHERE id = $1",
        id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns up to `limit` contact points that were removed before a time.
pub(super) async fn removed(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<Vec<Uuid>> {
    let ids = sqlx::query_scalar!(
        "-- contact_points::removed
         SELECT id FROM contact_points WHERE removed_at < $1 ORDER BY removed_at LIMIT $2 FOR UPDATE SKIP LOCKED",
        before,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(ids)
}

/// Deletes the rows of removed contact points that have no notifications left; returns their number.
pub(super) async fn forget(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- contact_points::forget
         DELETE FROM contact_points c WHERE c.id = ANY ($1)
           AND NOT EXISTS (SELECT 1 FROM notifications n WHERE n.contact_id = c.id)",
        ids
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Makes contact points due at these times, or after their rest, unless they are due earlier.
pub(super) async fn poke(conn: &mut PgConnection, due: &[(ContactId, Timestamp)]) -> Outcome<()> {
    sqlx::query!(
        "-- contact_points::poke
         WITH due AS (SELECT u.id, min(u.at) AS at FROM UNNEST($1::uuid[], $2::timestamptz[]) AS u (id, at) GROUP BY u.id),
         locked AS (SELECT c.id, due.at FROM contact_points c JOIN due USING (id) ORDER BY c.id FOR UPDATE OF c)
         UPDATE contact_points c SET due_at = least(c.due_at, greatest(l.at, c.rests_until)) FROM locked l WHERE c.id = l.id",
        &due.iter().map(|(id, _)| id.uuid()).collect::<Vec<_>>(),
        &due.iter().map(|(_, at)| *at).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A lease on a contact point.
#[derive(Debug, Clone, Copy)]
pub struct ContactLease {
    /// The contact point.
    pub id: ContactId,
    node: NodeId,
    fence: i64,
}

/// Claims leases on up to `limit` due contact points of these kinds, longest waiting first.
pub(super) async fn claim(
    pool: &Pool,
    node: NodeId,
    kinds: &[&str],
    now: Timestamp,
    lasting: TimeDelta,
    limit: i64,
) -> Outcome<Vec<ContactLease>> {
    let rows = sqlx::query!(
        "-- contact_points::claim
         UPDATE contact_points SET claimed_by = $1, claimed_until = $3, fence = fence + 1
         WHERE id IN (
             SELECT id FROM contact_points
             WHERE due_at <= $2 AND (claimed_until IS NULL OR claimed_until <= $2) AND kind = ANY ($4)
             ORDER BY due_at LIMIT $5 FOR UPDATE SKIP LOCKED)
         RETURNING id, fence",
        node.uuid(),
        now,
        now + lasting,
        kinds as &[&str],
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| ContactLease { id: row.id.into(), node, fence: row.fence }).collect())
}

/// Locks a leased contact point; `None` if another server holds it now, or it was removed.
pub(super) async fn lock(conn: &mut PgConnection, lease: &ContactLease) -> Outcome<Option<Contact>> {
    let row = select!(
        "contact_points::lock",
        "WHERE id = $1 AND fence = $2 AND claimed_by = $3 AND removed_at IS NULL FOR UPDATE",
        lease.id.uuid(),
        lease.fence,
        lease.node.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(Contact::try_from).transpose()
}

/// Stores the health of a receiver, and when the contact point was disabled.
pub(super) async fn save_health(conn: &mut PgConnection, contact: &Contact) -> Outcome<()> {
    let health = &contact.health;
    sqlx::query!(
        "-- contact_points::save_health
         UPDATE contact_points SET rests_until = $2, failures = $3, failing_since = $4, last_error = $5, last_error_at = $6,
                last_sent_at = $7, disabled_at = $8, disabled_for = $9
         WHERE id = $1",
        contact.id.uuid(),
        health.rests_until,
        i32::try_from(health.failures).unwrap_or(i32::MAX),
        health.failing_since,
        health.last_error,
        health.last_error_at,
        health.last_sent_at,
        contact.disabled.as_ref().map(|(at, _)| *at),
        contact.disabled.as_ref().map(|(_, reason)| reason.as_str())
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Releases a lease: the contact point is due with its next notification, after its rest, and no earlier than `from`.
pub(super) async fn give_back(conn: &mut PgConnection, lease: &ContactLease, from: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- contact_points::give_back
         UPDATE contact_points c SET claimed_by = NULL, claimed_until = NULL,
                due_at = CASE WHEN c.disabled_at IS NULL AND c.removed_at IS NULL THEN (
                    SELECT greatest(n.due_at, c.rests_until, $4) FROM notifications n
                    WHERE n.contact_id = $1 AND n.status = 'waiting' ORDER BY n.due_at LIMIT 1) END
         WHERE c.id = $1 AND c.fence = $2 AND c.claimed_by = $3",
        lease.id.uuid(),
        lease.fence,
        lease.node.uuid(),
        from
    )
    .execute(conn)
    .await?;
    Ok(())
}
