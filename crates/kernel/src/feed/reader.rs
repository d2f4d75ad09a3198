//! Reads the logs of intents: the records of one intent, or of all, after a position. Messages, events and receipts
//! are three tables and one log; this file merges them.

use std::collections::HashMap;
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
use crate::log::order::{self, Parts};
use crate::log::{GlobalPosition, Record};
use crate::messages;
use crate::messages::receipts;
use crate::{Ctx, Outcome};

/// Entries read at once when a follower catches up.
const STEP: i64 = 256;

/// Entries passed at once by a follower that reads events only, most of which may be messages.
const EVENTS_AMONG: i64 = 8_192;

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
    let mut rows = Rows {
        messages: messages::of_line(&mut conn, intent, position, end, STEP).await?,
        events: events::of_line(&mut conn, intent, position, end, STEP).await?,
        receipts: receipts::of_line(&mut conn, intent, position, end, STEP).await?,
    };
    let reached = rows.cut().unwrap_or(end);
    let records = rows.gather(ctx, &mut conn, StoredRecord::Shown, |_, seq| seq).await?;
    Ok(LogPage { records, reached })
}

/// Reads the records of all intents after `place`, everything that is committed included.
pub(crate) async fn global(ctx: &Ctx, place: GlobalPosition) -> Outcome<LogPage<GlobalPosition>> {
    everywhere(ctx, place, StoredRecord::Shown).await
}

/// Like [`global`], with messages that exceed their channel's limit and are not deleted yet, because a webhook
/// receiver gets them even if it is slow.
pub(crate) async fn outbox(ctx: &Ctx, place: GlobalPosition) -> Outcome<LogPage<GlobalPosition>> {
    everywhere(ctx, place, StoredRecord::Stored).await
}

/// Reads the events of all intents after a position, as [`global`] does, without messages and receipts; returns them
/// with the position reached. It reads the entries that [`order::advance`] has numbered.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn logged(
    conn: &mut PgConnection,
    place: GlobalPosition,
) -> Outcome<(Vec<(GlobalPosition, Event)>, GlobalPosition)> {
    let parts = Parts::after(conn, place, EVENTS_AMONG).await?;
    if parts.is_empty() {
        return Ok((Vec::new(), place));
    }
    let found = events::of_parts(conn, &parts, STEP).await?;
    let full = i64::try_from(found.len()).is_ok_and(|count| count == STEP);
    let placed: Vec<(GlobalPosition, Event)> =
        found.into_iter().map(|event| (parts.place(event.intent_id, event.seq), event)).collect();
    let last = placed.last().filter(|_| full).map(|(place, _)| *place);
    Ok((placed, last.unwrap_or(parts.reached)))
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
) -> Outcome<LogPage<GlobalPosition>> {
    let mut conn = ctx.pool.acquire().await?;
    let end = order::advance(&mut conn).await?.logs;
    if end <= place {
        return Ok(LogPage { records: Vec::new(), reached: place });
    }
    // Parts have numbers only after their commit, so the reads that follow see all of their entries.
    let parts = Parts::after(&mut conn, place, STEP).await?;
    let rows = Rows {
        messages: messages::of_parts(&mut conn, &parts).await?,
        events: events::of_parts(&mut conn, &parts, STEP).await?,
        receipts: receipts::of_parts(&mut conn, &parts).await?,
    };
    let records = rows.gather(ctx, &mut conn, kept, |intent, seq| parts.place(intent, seq)).await?;
    Ok(LogPage { records, reached: parts.reached })
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
    let records = rows.gather(ctx, &mut conn, StoredRecord::Stored, |intent, seq| (intent, seq)).await?;
    Ok(records.into_iter().collect())
}

/// Returns the position at which a new follower of all intents starts: after everything that is committed.
pub(crate) async fn now(ctx: &Ctx) -> Outcome<GlobalPosition> {
    let mut conn = ctx.pool.acquire().await?;
    Ok(order::advance(&mut conn).await?.logs)
}

/// The rows of the three tables, before they are merged.
struct Rows {
    messages: Vec<messages::Row>,
    events: Vec<Event>,
    receipts: Vec<Receipt>,
}

impl Rows {
    /// Drops the entries of one log after the first of the ends of the tables that were not read to their end; returns
    /// that entry.
    fn cut(&mut self) -> Option<i64> {
        let full = usize::try_from(STEP).unwrap_or(usize::MAX);
        let ends = [
            self.messages.last().map(|row| row.seq).filter(|_| self.messages.len() >= full),
            self.events.last().map(|event| event.seq).filter(|_| self.events.len() >= full),
            self.receipts.last().map(|receipt| receipt.seq).filter(|_| self.receipts.len() >= full),
        ];
        let cut = ends.into_iter().flatten().min()?;
        self.messages.retain(|row| row.seq <= cut);
        self.events.retain(|event| event.seq <= cut);
        self.receipts.retain(|receipt| receipt.seq <= cut);
        Some(cut)
    }

    /// Merges the rows, by the position of each.
    async fn gather<P: Copy + Ord>(
        self,
        ctx: &Ctx,
        conn: &mut PgConnection,
        kept: StoredRecord,
        place: impl Fn(IntentId, i64) -> P,
    ) -> Outcome<Vec<(P, Record)>> {
        let now = ctx.now();
        let mut records = Vec::new();
        let references = References::load(conn, &self, kept, now).await?;
        for row in self.messages {
            let at = place(row.intent_id.into(), row.seq);
            records.extend(references.message(row.message(now)?).map(|record| (at, record)));
        }
        // Ascending in each log: the state before a change is that after the change before.
        for event in self.events {
            let at = place(event.intent_id, event.seq);
            let change = ctx.state_changes.of(conn, &event).await?;
            records.push((at, Record::Event { event, change }));
        }
        for receipt in self.receipts {
            let at = place(receipt.intent_id, receipt.seq);
            records.extend(references.receipt(receipt).map(|record| (at, record)));
        }
        records.sort_by_key(|(place, _)| *place);
        Ok(records)
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
            rows.receipts.iter().map(|receipt| (receipt.channel_id, receipt.message_id)).collect();
        let mut ids: Vec<ChannelId> = rows.messages.iter().map(|row| row.channel_id.into()).collect();
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
