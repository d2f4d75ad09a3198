//! Rows of messages, read through the view `message_states`.

use std::ops::Range;

use entente_domain::clock::Timestamp;
use entente_domain::cursors::Since;
use entente_domain::ids::{ChannelId, IntentId, MessageId};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::{Message, MessageStatus, MessageType, Viewer};
use entente_domain::payload::Payload;
use sqlx::PgConnection;

use super::MessageFilter;
use crate::log::GlobalPosition;
use crate::log::order::Parts;
use crate::pages::Measure;
use crate::{Outcome, unknown};

/// Selects whole messages: the query's name, and the text after `FROM message_states m`, or after `of`
/// another source `m`.
macro_rules! select {
    ($name:literal, of $from:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + r#"
             SELECT m.id AS "id!", m.number AS "number!", m.seq AS "seq!", m.channel_id AS "channel_id!",
                    m.intent_id AS "intent_id!", m.sender AS "sender!", m.recipient, m.recipients,
                    m.message_type AS "message_type!", m.correlation_id, m.payload AS "payload!", m.metadata,
                    m.created_at AS "created_at!", m.expires_at, m.read_at, m.expired AS "expired!", m.waits AS "waits!"
             FROM "# + $from
            $(, $argument)*
        )
    };
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + r#"
             SELECT m.id AS "id!", m.number AS "number!", m.seq AS "seq!", m.channel_id AS "channel_id!",
                    m.intent_id AS "intent_id!", m.sender AS "sender!", m.recipient, m.recipients,
                    m.message_type AS "message_type!", m.correlation_id, m.payload AS "payload!", m.metadata,
                    m.created_at AS "created_at!", m.expires_at, m.read_at, m.expired AS "expired!", m.waits AS "waits!"
             FROM message_states m "# + $rest
            $(, $argument)*
        )
    };
}

/// A message with its position.
pub(crate) struct Row {
    pub id: uuid::Uuid,
    pub number: i64,
    pub seq: i64,
    pub channel_id: uuid::Uuid,
    pub intent_id: uuid::Uuid,
    pub sender: String,
    pub recipient: Option<String>,
    pub recipients: Option<Vec<String>>,
    pub message_type: String,
    pub correlation_id: Option<uuid::Uuid>,
    pub payload: String,
    pub metadata: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub read_at: Option<Timestamp>,
    pub expired: bool,
    pub waits: bool,
}

impl Row {
    /// The message with its current status.
    pub fn message(self, now: Timestamp) -> Outcome<Message> {
        let row = self;
        let due = row.waits && row.expires_at.is_some_and(|end| end <= now);
        let status = match (row.expired || due, row.read_at) {
            (true, _) => MessageStatus::Expired,
            (false, Some(_)) => MessageStatus::Read,
            (false, None) => MessageStatus::Delivered,
        };
        Ok(Message {
            id: row.id.into(),
            number: u32::try_from(row.number)
                .map_err(|_too_large| unknown("message number", &row.number.to_string()))?,
            seq: row.seq,
            channel_id: row.channel_id.into(),
            intent_id: row.intent_id.into(),
            sender: row.sender,
            to: row.recipient,
            recipients: row.recipients,
            message_type: MessageType::parse(&row.message_type)
                .ok_or_else(|| unknown("message type", &row.message_type))?,
            correlation_id: row.correlation_id.map(MessageId::from),
            payload: Payload::stored(row.payload)?,
            metadata: row.metadata.map(Payload::stored).transpose()?,
            created_at: row.created_at,
            expires_at: row.expires_at,
            status,
            read_at: row.read_at,
        })
    }
}

/// A page of the viewer's messages: after a position, or the newest, oldest first in both cases.
///
/// Leaves out messages beyond the channel's limit, swept or not, and returns little more bytes than `measure`
/// allows.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn page(
    conn: &mut PgConnection,
    channel: &Channel,
    viewer: &Viewer<'_>,
    filter: &MessageFilter,
    now: Timestamp,
    measure: &mut Measure,
) -> Outcome<Vec<Message>> {
    let rows = loop {
        let bytes = measure.bytes();
        let rows = match filter.since {
            Some(since) => after(conn, channel, viewer, filter, since, now, bytes).await?,
            None => newest(conn, channel, viewer, filter, now, bytes).await?,
        };
        let weight = |row: &Row| row.payload.len() + row.metadata.as_ref().map_or(0, String::len);
        if !measure.again(rows.iter().map(weight).sum()) {
            break rows;
        }
    };
    rows.into_iter().map(|row| row.message(now)).collect()
}

/// Counts the messages to the viewer with numbers after the range's start up to its end that have expired and are not shown, up to 1,000.
///
/// # Errors
/// A database error.
pub async fn expired_between(
    conn: &mut PgConnection,
    channel: &Channel,
    viewer: &Viewer<'_>,
    numbers: Range<i64>,
    now: Timestamp,
) -> Outcome<i64> {
    // Who manages the channel sees them.
    if viewer.manages {
        return Ok(0);
    }
    let count = sqlx::query_scalar!(
        r#"-- messages::expired_between
         SELECT count(*) AS "count!" FROM (
             SELECT FROM message_states WHERE channel_id = $1 AND number > $2 AND number <= $3 AND sender <> $4
               AND (recipients IS NULL OR $5 OR $4 = ANY (recipients)) AND (expired OR waits AND expires_at <= $6)
             LIMIT 1000) m"#,
        channel.id.uuid(),
        numbers.start,
        numbers.end,
        viewer.agent,
        viewer.sees_all,
        now
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// The last message of a channel up to a position of its intent's log, and the oldest one that is left in the channel.
pub(crate) struct Around {
    /// Number of the last message up to the position.
    pub number: Option<i64>,
    /// Position of the oldest message that was not evicted.
    pub oldest_seq: Option<i64>,
}

/// Returns a channel's last message up to a position, and its oldest one that is left: messages up to the number
/// `floor` are evicted.
///
/// # Errors
/// A database error.
pub(crate) async fn around(
    conn: &mut PgConnection,
    channel: ChannelId,
    position: i64,
    floor: i64,
) -> Outcome<Around> {
    let around = sqlx::query_as!(
        Around,
        "-- messages::around
         SELECT (SELECT number FROM messages WHERE channel_id = $1 AND seq <= $2 ORDER BY number DESC LIMIT 1) AS number,
                (SELECT seq FROM messages WHERE channel_id = $1 AND number > $3 ORDER BY number LIMIT 1) AS oldest_seq",
        channel.uuid(),
        position,
        floor
    )
    .fetch_one(conn)
    .await?;
    Ok(around)
}

/// Returns the position of the log at which a channel's stream goes on after the message with this number: that of the message, or
/// the one before the next that is stored; `None` if there is neither.
///
/// # Errors
/// A database error.
pub(crate) async fn place_after(
    conn: &mut PgConnection,
    channel: ChannelId,
    number: u32,
) -> Outcome<Option<i64>> {
    let place = sqlx::query_scalar!(
        "-- messages::place_after
         SELECT CASE WHEN number = $2 THEN seq ELSE seq - 1 END FROM messages
         WHERE channel_id = $1 AND number >= $2 ORDER BY number LIMIT 1",
        channel.uuid(),
        i64::from(number)
    )
    .fetch_optional(conn)
    .await?;
    Ok(place.flatten())
}

async fn after(
    conn: &mut PgConnection,
    channel: &Channel,
    viewer: &Viewer<'_>,
    filter: &MessageFilter,
    since: Since,
    now: Timestamp,
    bytes: i64,
) -> Outcome<Vec<Row>> {
    let (number, moment) = match since {
        Since::Number(number) => (i64::from(number), None),
        Since::Moment(moment) => (0, Some(moment)),
    };
    let rows = select!(
        "messages::after",
        of "(SELECT p.*, sum(octet_length(p.payload) + coalesce(octet_length(p.metadata), 0)) OVER (ORDER BY p.number)
               - octet_length(p.payload) - coalesce(octet_length(p.metadata), 0) AS before
         FROM (SELECT * FROM message_states
         WHERE channel_id = $1
           AND number > greatest($2, (
               SELECT e.number FROM messages e
               WHERE $9::timestamptz IS NOT NULL AND e.channel_id = $1 AND e.created_at <= $9
               ORDER BY e.number DESC LIMIT 1))
           AND ($3 OR sender = $4 OR recipients IS NULL OR $5 OR $4 = ANY (recipients))
           AND ($3 OR sender = $4 OR NOT (expired OR waits AND expires_at <= $6))
           AND ($7::text IS NULL OR recipient = $7 OR recipients IS NULL OR $7 = ANY (recipients))
         ORDER BY number LIMIT $8) p) m WHERE m.before < $10 ORDER BY m.number",
        channel.id.uuid(),
        number.max(channel.floor()),
        viewer.manages,
        viewer.agent,
        viewer.sees_all,
        now,
        filter.to.as_deref(),
        i64::from(filter.limit),
        moment,
        bytes
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

async fn newest(
    conn: &mut PgConnection,
    channel: &Channel,
    viewer: &Viewer<'_>,
    filter: &MessageFilter,
    now: Timestamp,
    bytes: i64,
) -> Outcome<Vec<Row>> {
    let mut rows = select!(
        "messages::newest",
        of "(SELECT p.*, sum(octet_length(p.payload) + coalesce(octet_length(p.metadata), 0)) OVER (ORDER BY p.number DESC)
               - octet_length(p.payload) - coalesce(octet_length(p.metadata), 0) AS before
         FROM (SELECT * FROM message_states
         WHERE channel_id = $1 AND number > $2
           AND ($3 OR sender = $4 OR recipients IS NULL OR $5 OR $4 = ANY (recipients))
           AND ($3 OR sender = $4 OR NOT (expired OR waits AND expires_at <= $6))
           AND ($7::text IS NULL OR recipient = $7 OR recipients IS NULL OR $7 = ANY (recipients))
         ORDER BY number DESC LIMIT $8) p) m WHERE m.before < $9 ORDER BY m.number DESC",
        channel.id.uuid(),
        channel.floor(),
        viewer.manages,
        viewer.agent,
        viewer.sees_all,
        now,
        filter.to.as_deref(),
        i64::from(filter.limit),
        bytes
    )
    .fetch_all(conn)
    .await?;
    rows.reverse();
    Ok(rows)
}

/// A message of a channel, unless it was evicted; its id contains the number to look up.
///
/// # Errors
/// As [`load_all`].
pub async fn find(
    conn: &mut PgConnection,
    channel: &Channel,
    id: MessageId,
    now: Timestamp,
) -> Outcome<Option<Message>> {
    if i64::from(id.number()) <= channel.floor() {
        return Ok(None);
    }
    let found = load_all(conn, &[(channel.id, id)], now).await?;
    Ok(found.into_iter().next())
}

/// Those of these messages that exist, with their current status.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn load_all(
    conn: &mut PgConnection,
    ids: &[(ChannelId, MessageId)],
    now: Timestamp,
) -> Outcome<Vec<Message>> {
    let rows = select!(
        "messages::load_all",
        "JOIN UNNEST($1::uuid[], $2::bigint[], $3::uuid[]) AS k (channel_id, number, id)
         ON m.channel_id = k.channel_id AND m.number = k.number AND m.id = k.id",
        &ids.iter().map(|(channel, _)| channel.uuid()).collect::<Vec<_>>(),
        &ids.iter().map(|(_, id)| i64::from(id.number())).collect::<Vec<_>>(),
        &ids.iter().map(|(_, id)| id.uuid()).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| row.message(now)).collect()
}

/// Messages in an intent's log after one position, up to another.
pub(crate) async fn of_line(
    conn: &mut PgConnection,
    intent: IntentId,
    after: i64,
    end: i64,
    limit: i64,
) -> Outcome<Vec<Row>> {
    let rows = select!(
        "messages::of_line",
        "WHERE intent_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4",
        intent.uuid(),
        after,
        end,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Messages of these parts of logs.
///
/// `OFFSET 0` keeps PostgreSQL from joining the whole table with the parts: it knows neither how many there are nor how
/// short they are.
pub(crate) async fn of_parts(conn: &mut PgConnection, parts: &Parts) -> Outcome<Vec<Row>> {
    let rows = select!(
        "messages::of_parts",
        of "UNNEST($1::uuid[], $2::bigint[], $3::bigint[]) AS p (intent_id, from_seq, to_seq)
         CROSS JOIN LATERAL (SELECT s.* FROM message_states s
                             WHERE s.intent_id = p.intent_id AND s.seq BETWEEN p.from_seq AND p.to_seq OFFSET 0) m",
        &parts.intents,
        &parts.from,
        &parts.to
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Messages at these positions.
pub(crate) async fn at(conn: &mut PgConnection, places: &[(IntentId, i64)]) -> Outcome<Vec<Row>> {
    let rows = select!(
        "messages::at",
        "JOIN UNNEST($1::uuid[], $2::bigint[]) AS k (intent_id, seq)
         ON m.intent_id = k.intent_id AND m.seq = k.seq",
        &places.iter().map(|(intent, _)| intent.uuid()).collect::<Vec<_>>(),
        &places.iter().map(|(_, seq)| *seq).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Like [`at`], without payloads and metadata, which may be large: for decisions about many messages.
pub(crate) async fn bare(conn: &mut PgConnection, places: &[(IntentId, i64)]) -> Outcome<Vec<Row>> {
    let rows = select!(
        "messages::bare",
        of "(SELECT s.id, s.number, s.seq, s.channel_id, s.intent_id, s.sender, s.recipient, s.recipients, s.message_type,
                s.correlation_id, '{}'::text AS payload, NULL::text AS metadata, s.created_at, s.expires_at, s.read_at,
                s.expired, s.waits
         FROM message_states s JOIN UNNEST($1::uuid[], $2::bigint[]) AS k (intent_id, seq)
         ON s.intent_id = k.intent_id AND s.seq = k.seq) m",
        &places.iter().map(|(intent, _)| intent.uuid()).collect::<Vec<_>>(),
        &places.iter().map(|(_, seq)| *seq).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Responses to a message, in order.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn responses(
    conn: &mut PgConnection,
    channel_id: ChannelId,
    request: MessageId,
    now: Timestamp,
) -> Outcome<Vec<Message>> {
    let rows = select!(
        "messages::responses",
        "WHERE channel_id = $1 AND correlation_id = $2 AND message_type = 'response' ORDER BY number",
        channel_id.uuid(),
        request.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| row.message(now)).collect()
}

/// Whether `agent` has marked a message as read.
///
/// # Errors
/// A database error.
pub async fn has_read(
    conn: &mut PgConnection,
    channel_id: ChannelId,
    id: MessageId,
    agent: &str,
) -> Outcome<bool> {
    let found = sqlx::query_scalar!(
        "-- messages::has_read
         SELECT EXISTS (SELECT 1 FROM receipts
                        WHERE channel_id = $1 AND number = $2 AND kind = 'read' AND agent_id = $3)",
        channel_id.uuid(),
        i64::from(id.number()),
        agent
    )
    .fetch_one(conn)
    .await?;
    Ok(found == Some(true))
}

/// Deletes up to `limit` messages of a channel with numbers up to `up_to`, and positions up to `told` if
/// given; returns their number.
///
/// # Errors
/// A database error.
pub async fn forget(
    conn: &mut PgConnection,
    channel: uuid::Uuid,
    up_to: i64,
    limit: i64,
    told: Option<GlobalPosition>,
) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- messages::forget
         DELETE FROM messages WHERE channel_id = $1 AND number <= LEAST($2::bigint, $3::bigint - 1 + (
             SELECT coalesce(min(number), 0) FROM messages WHERE channel_id = $1))
           AND ($4::bigint IS NULL OR seq <= coalesce((
             SELECT CASE WHEN o.global = $4 THEN LEAST(o.to_seq, $5::bigint) ELSE o.to_seq END FROM log_order o
             WHERE o.intent_id = (SELECT c.intent_id FROM channels c WHERE c.id = $1) AND o.global <= $4
             ORDER BY o.to_seq DESC LIMIT 1), 0))",
        channel,
        up_to,
        limit,
        told.map(|place| place.global),
        told.map(|place| place.seq)
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Whether a channel has a message with a number up to `up_to`.
///
/// # Errors
/// A database error.
pub async fn has_any(conn: &mut PgConnection, channel: uuid::Uuid, up_to: i64) -> Outcome<bool> {
    let found = sqlx::query_scalar!(
        "-- messages::has_any
         SELECT EXISTS (SELECT 1 FROM messages WHERE channel_id = $1 AND number <= $2)",
        channel,
        up_to
    )
    .fetch_one(conn)
    .await?;
    Ok(found == Some(true))
}
