//! Reads the logs of intents: the records of one intent, or of all, after a position. Messages, events and receipts
//! are three tables and one log; this file merges them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, IntentId, MessageId};
use entente_domain::log::events::Event;
use entente_domain::log::receipts::Receipt;
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::Message;
use sqlx::PgConnection;

use crate::audit::events;
use crate::channels;
use crate::log::{GlobalPosition, Record};
use crate::messages;
use crate::messages::receipts;
use crate::{Ctx, Outcome};

/// Rows of each table read at once when a follower catches up.
const STEP: i64 = 256;

/// A page of the log: the records in order, and the position up to which nothing else exists.
pub struct LogPage<P> {
    /// The records with their positions.
    pub records: Vec<(P, Record)>,
    /// All records up to this position are included.
    pub reached: P,
}

/// Reads an intent's log after `position`.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn line(ctx: &Ctx, intent: IntentId, position: i64) -> Outcome<LogPage<i64>> {
    let mut conn = ctx.pool.acquire().await?;
    let tails = crate::log::writer::tails(&mut conn, &[intent]).await?;
    // Everything up to this number is committed, so the three reads that follow agree with each other.
    let end = tails.first().map_or(0, |(_, tail)| tail.seq);
    if end <= position {
        return Ok(LogPage { records: Vec::new(), reached: position });
    }
    let rows = Rows {
        messages: messages::of_line(&mut conn, intent, position, end, STEP).await?,
        events: events::of_line(&mut conn, intent, position, end, STEP).await?,
        receipts: receipts::of_line(&mut conn, intent, position, end, STEP).await?,
    };
    rows.gather(ctx, &mut conn, end, StoredRecord::Shown, |place| place.seq).await
}

/// Reads the records of all intents after `place`.
///
/// Only records older than every running transaction are read, so nothing can appear before them any more. The
/// position reached is always that of a written record, never the horizon: if PostgreSQL crashes, the ids of
/// transactions that had written nothing are assigned again.
pub(crate) async fn global(ctx: &Ctx, place: GlobalPosition) -> Outcome<LogPage<GlobalPosition>> {
    Ok(everywhere(ctx, place, StoredRecord::Shown).await?.0)
}

/// Like [`global`], with messages that exceed their channel's limit and are not deleted yet, because a webhook
/// receiver gets them even if it is slow.
pub(crate) async fn outbox(ctx: &Ctx, place: GlobalPosition) -> Outcome<LogPage<GlobalPosition>> {
    Ok(everywhere(ctx, place, StoredRecord::Stored).await?.0)
}

/// Like [`global`]; also returns whether everything written before the transaction `until` has been read.
pub(crate) async fn past(
    ctx: &Ctx,
    place: GlobalPosition,
    until: i64,
) -> Outcome<(LogPage<GlobalPosition>, bool)> {
    let (stretch, horizon) = everywhere(ctx, place, StoredRecord::Shown).await?;
    let over = stretch.records.is_empty() && stretch.reached == place && horizon > until;
    Ok((stretch, over))
}

/// Reads the events of all intents after a position, as [`global`] does, without messages and receipts; returns them
/// with the position reached.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn logged(
    conn: &mut PgConnection,
    place: GlobalPosition,
) -> Outcome<(Vec<(GlobalPosition, Event)>, GlobalPosition)> {
    let horizon = horizon(conn).await?;
    if horizon <= place.xid {
        return Ok((Vec::new(), place));
    }
    let found = events::of_system(conn, place, horizon, STEP).await?;
    let reached = found.last().map_or(place, |(last, _)| *last);
    Ok((found, reached))
}

/// Selection of messages to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredRecord {
    /// Messages that can still be read on their channel.
    Shown,
    /// All messages that are stored.
    Stored,
}

async fn everywhere(
    ctx: &Ctx,
    place: GlobalPosition,
    kept: StoredRecord,
) -> Outcome<(LogPage<GlobalPosition>, i64)> {
    let mut conn = ctx.pool.acquire().await?;
    let horizon = horizon(&mut conn).await?;
    if horizon <= place.xid {
        return Ok((LogPage { records: Vec::new(), reached: place }, horizon));
    }
    let rows = Rows {
        messages: messages::of_system(&mut conn, place, horizon, STEP).await?,
        events: events::of_system(&mut conn, place, horizon, STEP).await?,
        receipts: receipts::of_system(&mut conn, place, horizon, STEP).await?,
    };
    let end = rows.last().unwrap_or(place);
    Ok((rows.gather(ctx, &mut conn, end, kept, |place| place).await?, horizon))
}

/// Returns the records at these positions, as far as they still exist.
pub(crate) async fn at(ctx: &Ctx, places: &[(IntentId, i64)]) -> Outcome<HashMap<(IntentId, i64), Record>> {
    if places.is_empty() {
        return Ok(HashMap::new());
    }
    let mut conn = ctx.pool.acquire().await?;
    let rows = Rows {
        messages: messages::at(&mut conn, places).await?,
        events: events::at(&mut conn, places).await?,
        receipts: receipts::at(&mut conn, places).await?,
    };
    // They come in no order, and all of them count: callers ask for fewer than `STEP`.
    let end = GlobalPosition { xid: i64::MAX, intent_id: IntentId::SYSTEM, seq: i64::MAX };
    let stretch = rows.gather(ctx, &mut conn, end, StoredRecord::Stored, |place| place).await?;
    Ok(stretch.records.into_iter().map(|(place, record)| ((place.intent_id, place.seq), record)).collect())
}

/// Returns the position at which a new follower of all intents starts: after the last record written below the
/// horizon.
///
/// Also returns the transactions above the horizon that are committed already. One long transaction holds the horizon
/// back for everybody, and a follower that starts meanwhile must not receive older records again.
pub(crate) async fn now(ctx: &Ctx) -> Outcome<(GlobalPosition, HashSet<i64>)> {
    let row = sqlx::query!(
        r#"-- reader::now
         WITH horizon AS MATERIALIZED (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xid)
         SELECT greatest((SELECT max(m.xid) FROM messages m WHERE m.xid < h.xid),
                         (SELECT max(e.xid) FROM events e WHERE e.xid < h.xid),
                         (SELECT max(r.xid) FROM receipts r WHERE r.xid < h.xid)) AS last,
                ARRAY(SELECT m.xid FROM messages m WHERE m.xid >= h.xid
                      UNION SELECT e.xid FROM events e WHERE e.xid >= h.xid
                      UNION SELECT r.xid FROM receipts r WHERE r.xid >= h.xid) AS "past!"
         FROM horizon h"#
    )
    .fetch_one(&ctx.pool)
    .await?;
    let next = row.last.unwrap_or(0) + 1;
    Ok((GlobalPosition { xid: next, intent_id: IntentId::SYSTEM, seq: 0 }, row.past.into_iter().collect()))
}

/// Returns the oldest running transaction: every older one has committed or never will.
async fn horizon(conn: &mut PgConnection) -> Outcome<i64> {
    let horizon = sqlx::query_scalar!(
        r#"-- reader::horizon
         SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS "horizon!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(horizon)
}

/// The rows of the three tables, before they are merged.
struct Rows {
    messages: Vec<(GlobalPosition, messages::Row)>,
    events: Vec<(GlobalPosition, Event)>,
    receipts: Vec<(GlobalPosition, Receipt)>,
}

impl Rows {
    /// Returns the last position among all rows.
    fn last(&self) -> Option<GlobalPosition> {
        let messages = self.messages.last().map(|(place, _)| *place);
        let events = self.events.last().map(|(place, _)| *place);
        let receipts = self.receipts.last().map(|(place, _)| *place);
        [messages, events, receipts].into_iter().flatten().max()
    }

    async fn gather<P: Copy + Ord>(
        self,
        ctx: &Ctx,
        conn: &mut PgConnection,
        end: P,
        kept: StoredRecord,
        place: impl Fn(GlobalPosition) -> P,
    ) -> Outcome<LogPage<P>> {
        // A table that was not read to its end limits how much of the others counts.
        let full = usize::try_from(STEP).unwrap_or(usize::MAX);
        let cut = |len: usize, last: Option<GlobalPosition>| last.filter(|_| len >= full).map(&place);
        let cuts = [
            cut(self.messages.len(), self.messages.last().map(|(place, _)| *place)),
            cut(self.events.len(), self.events.last().map(|(place, _)| *place)),
            cut(self.receipts.len(), self.receipts.last().map(|(place, _)| *place)),
        ];
        let reached = cuts.into_iter().flatten().min().unwrap_or(end);
        let now = ctx.now();
        let mut records = Vec::new();
        let references = References::load(conn, &self, kept, now).await?;
        for (at, row) in self.messages {
            let at = place(at);
            if at <= reached {
                records.extend(references.message(row.message(now)?).map(|record| (at, record)));
            }
        }
        for (at, event) in self.events {
            let at = place(at);
            if at <= reached {
                let change = ctx.state_changes.of(conn, &event).await?;
                records.push((at, Record::Event { event, change }));
            }
        }
        for (at, receipt) in self.receipts {
            let at = place(at);
            if at <= reached {
                records.extend(references.receipt(receipt).map(|record| (at, record)));
            }
        }
        records.sort_by_key(|(place, _)| *place);
        Ok(LogPage { records, reached })
    }
}

/// The channels and messages that a page of the log refers to; deleted or evicted ones are no longer shown.
struct References {
    kept: StoredRecord,
    channels: HashMap<ChannelId, Arc<Channel>>,
    messages: HashMap<(ChannelId, MessageId), Arc<Message>>,
}

impl References {
    async fn load(conn: &mut PgConnection, rows: &Rows, kept: StoredRecord, now: Timestamp) -> Outcome<Self> {
        let receipted: Vec<(ChannelId, MessageId)> =
            rows.receipts.iter().map(|(_, receipt)| (receipt.channel_id, receipt.message_id)).collect();
        let mut ids: Vec<ChannelId> = rows.messages.iter().map(|(_, row)| row.channel_id.into()).collect();
        ids.extend(receipted.iter().map(|(channel, _)| *channel));
        ids.sort_unstable();
        ids.dedup();
        let channels = if ids.is_empty() { Vec::new() } else { channels::load_all(conn, &ids).await? };
        let messages =
            if receipted.is_empty() { Vec::new() } else { messages::load_all(conn, &receipted, now).await? };
        Ok(Self {
            kept,
            channels: channels.into_iter().map(|channel| (channel.id, Arc::new(channel))).collect(),
            messages: messages.into_iter().map(|m| ((m.channel_id, m.id), Arc::new(m))).collect(),
        })
    }

    fn message(&self, message: Message) -> Option<Record> {
        let channel = self.channels.get(&message.channel_id)?;
        if self.kept == StoredRecord::Shown && i64::from(message.number) <= channel.floor() {
            return None;
        }
        Some(Record::Message { message: Arc::new(message), channel: Arc::clone(channel) })
    }

    fn receipt(&self, receipt: Receipt) -> Option<Record> {
        let channel = self.channels.get(&receipt.channel_id)?;
        let message = self.messages.get(&(receipt.channel_id, receipt.message_id))?;
        Some(Record::Receipt { message: Arc::clone(message), channel: Arc::clone(channel), receipt })
    }
}
