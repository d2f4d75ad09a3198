//! The rows of channels.

use crate::Pool;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::openintent::channels::{Channel, ChannelStatus, CloseReason, MemberPolicy, Options};
use sqlx::PgConnection;

use crate::{AppError, Outcome, unknown};

/// A row of the view `channel_states`.
pub struct Row {
    /// The channel's id.
    pub id: uuid::Uuid,
    /// The intent of the channel.
    pub intent_id: uuid::Uuid,
    /// The task of the channel, if it belongs to one.
    pub task_id: Option<String>,
    /// The channel's name.
    pub name: String,
    /// The agent that opened the channel.
    pub created_by: String,
    /// The agents listed as members.
    pub members: Vec<String>,
    /// The word of the member policy.
    pub member_policy: String,
    /// The options as the client gave them, as JSON.
    pub given_options: Option<String>,
    /// Whether messages are also events of the intent's log.
    pub audit: bool,
    /// Seconds after the last message at which the channel closes.
    pub ttl_seconds: Option<i32>,
    /// Maximum number of messages that the channel keeps.
    pub max_messages: i32,
    /// The stored status: `open` or `closed`.
    pub status: String,
    /// Time at which the channel was opened.
    pub created_at: Timestamp,
    /// Time at which the channel was closed.
    pub closed_at: Option<Timestamp>,
    /// Number of messages sent on the channel.
    pub message_count: i64,
    /// Time of the last message.
    pub last_message_at: Option<Timestamp>,
}

impl TryFrom<Row> for Channel {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let number =
            |n: i32| u32::try_from(n).map_err(|_too_large| unknown("channel option", &n.to_string()));
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            task_id: row.task_id,
            name: row.name,
            created_by: row.created_by,
            members: row.members,
            member_policy: MemberPolicy::parse(&row.member_policy)
                .ok_or_else(|| unknown("member policy", &row.member_policy))?,
            given_options: row.given_options.as_deref().map(serde_json::from_str).transpose()?,
            options: Options {
                audit: row.audit,
                ttl_seconds: row.ttl_seconds.map(number).transpose()?,
                max_messages: number(row.max_messages)?,
            },
            status: if row.status == "open" { ChannelStatus::Open } else { ChannelStatus::Closed },
            created_at: row.created_at,
            closed_at: row.closed_at,
            message_count: row.message_count,
            last_message_at: row.last_message_at,
        })
    }
}

/// Selects channels: the query's name, and the text after `FROM channel_states`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + r#"
             SELECT id AS "id!", intent_id AS "intent_id!", task_id, name AS "name!", created_by AS "created_by!",
                    members AS "members!", member_policy AS "member_policy!", given_options, audit AS "audit!", ttl_seconds,
                    max_messages AS "max_messages!", status AS "status!", created_at AS "created_at!", closed_at,
                    message_count AS "message_count!", last_message_at
             FROM channel_states "# + $rest
            $(, $argument)*
        )
    };
}

/// Loads a channel that was not deleted.
///
/// # Errors
/// As [`load_all`].
pub async fn load(conn: &mut PgConnection, id: ChannelId) -> Outcome<Option<Channel>> {
    Ok(load_all(conn, &[id]).await?.pop())
}

/// Loads those of these channels that were not deleted.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn load_all(conn: &mut PgConnection, ids: &[ChannelId]) -> Outcome<Vec<Channel>> {
    let ids: Vec<uuid::Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows = select!("channels::load_all", "WHERE id = ANY($1) AND deleted_at IS NULL", &ids)
        .fetch_all(conn)
        .await?;
    rows.into_iter().map(Channel::try_from).collect()
}

/// Loads the channel of an intent with this name that is stored as open.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn find_open(conn: &mut PgConnection, intent_id: IntentId, name: &str) -> Outcome<Option<Channel>> {
    let row = select!(
        "channels::find_open",
        "WHERE intent_id = $1 AND name = $2 AND status = 'open'",
        intent_id.uuid(),
        name
    )
    .fetch_optional(conn)
    .await?;
    row.map(Channel::try_from).transpose()
}

/// Loads a page of an intent's channels that were not deleted, by stored status or all: open ones first, then closed
/// ones, each oldest first.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn list(
    conn: &mut PgConnection,
    intent_id: IntentId,
    status: Option<&str>,
    limit: u32,
    offset: u32,
) -> Outcome<Vec<Channel>> {
    let rows = select!(
        "channels::list",
        "WHERE intent_id = $1 AND deleted_at IS NULL AND ($2::text IS NULL OR status = $2)
         ORDER BY status DESC, id LIMIT $3 OFFSET $4",
        intent_id.uuid(),
        status,
        i64::from(limit),
        i64::from(offset)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Channel::try_from).collect()
}

/// Loads the next channels of an intent that were not deleted, by their ids.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn after(
    conn: &mut PgConnection,
    intent_id: IntentId,
    after: ChannelId,
    limit: i64,
) -> Outcome<Vec<Channel>> {
    let rows = select!(
        "channels::after",
        "WHERE intent_id = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3",
        intent_id.uuid(),
        after.uuid(),
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Channel::try_from).collect()
}

fn column(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub(crate) async fn insert(conn: &mut PgConnection, channel: &Channel) -> Outcome<()> {
    sqlx::query!(
        "-- channels::insert
         INSERT INTO channels (id, intent_id, task_id, name, created_by, members, member_policy, given_options, audit,
                               ttl_seconds, max_messages, status, created_at, ttl_check_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'open', $12, $13)",
        channel.id.uuid(),
        channel.intent_id.uuid(),
        channel.task_id,
        channel.name,
        channel.created_by,
        &channel.members,
        channel.member_policy.as_str(),
        channel.given_options.as_ref().map(serde_json::to_string).transpose()?,
        channel.options.audit,
        channel.options.ttl_seconds.map(column),
        column(channel.options.max_messages),
        channel.created_at,
        channel.ttl_ends_at()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes a channel's members and options.
///
/// # Errors
/// The database query fails.
pub async fn update(conn: &mut PgConnection, channel: &Channel) -> Outcome<()> {
    sqlx::query!(
        "-- channels::update
         UPDATE channels SET members = $2, member_policy = $3, given_options = $4, audit = $5, ttl_seconds = $6,
                max_messages = $7::integer, ttl_check_at = $8, over_limit = $9
         WHERE id = $1",
        channel.id.uuid(),
        &channel.members,
        channel.member_policy.as_str(),
        channel.given_options.as_ref().map(serde_json::to_string).transpose()?,
        channel.options.audit,
        channel.options.ttl_seconds.map(column),
        column(channel.options.max_messages),
        channel.ttl_ends_at(),
        channel.floor() > 0
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Marks a channel as deleted, and its messages as due for purging.
///
/// # Errors
/// The database query fails.
pub async fn mark_deleted(conn: &mut PgConnection, id: ChannelId, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- channels::mark_deleted
         UPDATE channels SET deleted_at = $2, purge_at = $2 WHERE id = $1",
        id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the intents with an open channel that lists this agent as a member.
///
/// # Errors
/// A database error.
pub async fn intents_with_member(conn: &mut PgConnection, agent: &str) -> Outcome<Vec<IntentId>> {
    let rows = sqlx::query_scalar!(
        "-- channels::intents_with_member
         SELECT DISTINCT intent_id FROM channels WHERE members @> ARRAY[$1] AND status = 'open'",
        agent
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(IntentId::from).collect())
}

/// Removes an agent from the members of an intent's open channels; returns the channels it was removed from.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn remove_member(conn: &mut PgConnection, intent: IntentId, agent: &str) -> Outcome<Vec<Channel>> {
    let ids = sqlx::query_scalar!(
        "-- channels::remove_member
         UPDATE channels SET members = array_remove(members, $2)
         WHERE intent_id = $1 AND members @> ARRAY[$2] AND status = 'open' RETURNING id",
        intent.uuid(),
        agent
    )
    .fetch_all(&mut *conn)
    .await?;
    load_all(conn, &ids.into_iter().map(ChannelId::from).collect::<Vec<_>>()).await
}

pub(crate) async fn close(
    conn: &mut PgConnection,
    id: ChannelId,
    reason: CloseReason,
    now: Timestamp,
    purge_at: Option<Timestamp>,
) -> Outcome<()> {
    sqlx::query!(
        "-- channels::close
         UPDATE channels SET status = 'closed', closed_at = $2, close_reason = $3, purge_at = $4 WHERE id = $1",
        id.uuid(),
        now,
        reason.as_str(),
        purge_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Closes all open channels of an intent; returns their ids and names.
pub(crate) async fn close_all(
    conn: &mut PgConnection,
    intent_id: IntentId,
    reason: CloseReason,
    now: Timestamp,
    purge_at: Option<Timestamp>,
) -> Outcome<Vec<(ChannelId, String)>> {
    let rows = sqlx::query!(
        "-- channels::close_all
         UPDATE channels SET status = 'closed', closed_at = $2, close_reason = $3, purge_at = $4
         WHERE intent_id = $1 AND status = 'open' RETURNING id, name",
        intent_id.uuid(),
        now,
        reason.as_str(),
        purge_at
    )
    .fetch_all(conn)
    .await?;
    let mut closed: Vec<(ChannelId, String)> =
        rows.into_iter().map(|row| (row.id.into(), row.name)).collect();
    closed.sort();
    Ok(closed)
}

/// Closes the open channels of an intent that are scoped to one of these tasks; returns their ids and names.
pub(crate) async fn close_scoped(
    conn: &mut PgConnection,
    intent_id: IntentId,
    tasks: &[String],
    reason: CloseReason,
    now: Timestamp,
    purge_at: Option<Timestamp>,
) -> Outcome<Vec<(ChannelId, String)>> {
    let rows = sqlx::query!(
        "-- channels::close_scoped
         UPDATE channels SET status = 'closed', closed_at = $3, close_reason = $4, purge_at = $5
         WHERE intent_id = $1 AND task_id = ANY($2) AND status = 'open' RETURNING id, name",
        intent_id.uuid(),
        tasks,
        now,
        reason.as_str(),
        purge_at
    )
    .fetch_all(conn)
    .await?;
    let mut closed: Vec<(ChannelId, String)> =
        rows.into_iter().map(|row| (row.id.into(), row.name)).collect();
    closed.sort();
    Ok(closed)
}

/// Returns open channels whose time to live is due for a check.
///
/// # Errors
/// A database error.
pub async fn idle(pool: &Pool, now: Timestamp, limit: i64) -> Outcome<Vec<(IntentId, ChannelId)>> {
    let rows = sqlx::query!(
        "-- channels::idle
         SELECT intent_id, id FROM channels WHERE status = 'open' AND ttl_check_at <= $1 ORDER BY ttl_check_at LIMIT $2",
        now,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.intent_id.into(), row.id.into())).collect())
}

/// Schedules the next check of a channel's time to live.
///
/// # Errors
/// A database error.
pub async fn look_again(conn: &mut PgConnection, id: ChannelId, at: Option<Timestamp>) -> Outcome<()> {
    sqlx::query!(
        "-- channels::look_again\n UPDATE channels SET ttl_check_at = $2 WHERE id = $1",
        id.uuid(),
        at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns channels with more messages than they may keep.
///
/// # Errors
/// A database error.
pub async fn over_limit(pool: &Pool, limit: i64) -> Outcome<Vec<uuid::Uuid>> {
    let ids = sqlx::query_scalar!(
        "-- channels::over_limit\n SELECT id FROM channels WHERE over_limit LIMIT $1",
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(ids)
}

/// Claims a channel for eviction; returns the number up to which its messages are evicted, or `None` if
/// another server has claimed it or it is no longer over its limit.
///
/// # Errors
/// A database error.
pub async fn claim_over_limit(conn: &mut PgConnection, id: uuid::Uuid) -> Outcome<Option<i64>> {
    let floor = sqlx::query_scalar!(
        r#"-- channels::claim_over_limit
         WITH claimed AS (SELECT id FROM channels WHERE id = $1 AND over_limit FOR UPDATE SKIP LOCKED)
         SELECT message_count - max_messages AS "floor!" FROM channel_states WHERE id = (SELECT id FROM claimed)"#,
        id
    )
    .fetch_optional(conn)
    .await?;
    Ok(floor)
}

/// Records that a channel is within its limit again.
///
/// # Errors
/// A database error.
pub async fn within_limit(conn: &mut PgConnection, id: uuid::Uuid) -> Outcome<()> {
    sqlx::query!("-- channels::within_limit\n UPDATE channels SET over_limit = false WHERE id = $1", id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Returns channels whose messages may be purged.
///
/// # Errors
/// A database error.
pub async fn to_purge(pool: &Pool, now: Timestamp, limit: i64) -> Outcome<Vec<uuid::Uuid>> {
    let ids = sqlx::query_scalar!(
        "-- channels::to_purge
         SELECT id FROM channels WHERE purge_at <= $1 ORDER BY purge_at LIMIT $2",
        now,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(ids)
}

/// Claims a channel for purging and stores its message count; returns false if another server has claimed it.
///
/// # Errors
/// A database error.
pub async fn claim_purge(conn: &mut PgConnection, id: uuid::Uuid) -> Outcome<bool> {
    let claimed = sqlx::query_scalar!(
        "-- channels::claim_purge
         WITH claimed AS (SELECT id FROM channels WHERE id = $1 AND purge_at IS NOT NULL FOR UPDATE SKIP LOCKED)
         UPDATE channels SET purged_count = s.message_count FROM channel_states s
         WHERE channels.id = (SELECT id FROM claimed) AND s.id = channels.id RETURNING channels.id",
        id
    )
    .fetch_optional(conn)
    .await?;
    Ok(claimed.is_some())
}

/// Records that a channel's messages are purged; a deleted channel is removed.
///
/// # Errors
/// A database error.
pub async fn purged(conn: &mut PgConnection, id: uuid::Uuid) -> Outcome<()> {
    let gone = sqlx::query!(
        "-- channels::delete\n DELETE FROM channels WHERE id = $1 AND deleted_at IS NOT NULL",
        id
    )
    .execute(&mut *conn)
    .await?;
    if gone.rows_affected() == 0 {
        sqlx::query!("-- channels::purged\n UPDATE channels SET purge_at = NULL WHERE id = $1", id)
            .execute(conn)
            .await?;
    }
    Ok(())
}
