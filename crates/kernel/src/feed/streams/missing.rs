//! Messages that a stream's reader has missed, because they were evicted or expired before the stream reached them.
//!
//! The numbers of a channel have no gaps, so a gap between two messages of a stream means evicted ones (RFC-0021 §1.2,
//! `max_messages`). A stream of one channel knows the number at which it begins, as long as a message from before is stored.

use entente_domain::clock::Timestamp;
use entente_domain::ids::ChannelId;
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::{Message, MessageStatus, Viewer};
use entente_runtime::cache::OwnedCache;
use sqlx::PgConnection;

use crate::Outcome;
use crate::messages::rows;

/// Channels whose last number a stream knows. Of one that is forgotten, the next gap is unknown.
const CHANNELS: usize = 256;

/// Messages of a channel that a reader has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissedMessages {
    /// The channel.
    pub channel_id: ChannelId,
    /// Number of messages that the channel has evicted, whoever they were to, and of messages to the reader that have expired.
    pub count: i64,
    /// Whether `count` is only the most that it can be: nothing is stored any more from before the reader's position.
    pub is_truncated: bool,
    /// Number of the oldest message that the channel still has.
    pub oldest: i64,
    /// Number of the newest message.
    pub newest: i64,
}

/// Where a stream of one channel begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    /// Position in the intent's log.
    pub position: i64,
    /// Number of the last message that the reader has, if it says so.
    pub number: Option<u32>,
    /// Whether the reader was there before.
    pub resumes: bool,
}

/// A stream's progress on a channel.
#[derive(Debug)]
struct Progress {
    /// Number of the last message that was passed.
    last: i64,
    /// Expired messages that the reader was told of when the stream opened.
    told: i64,
    /// Missed since the reader was told.
    missed: i64,
    is_truncated: bool,
    oldest: i64,
    newest: i64,
}

/// Counts the messages that the reader of a stream has missed.
#[derive(Debug)]
pub(super) struct Missing {
    channels: OwnedCache<ChannelId, Progress>,
    /// Messages missed before the stream was opened, if it resumes on one channel.
    before: Option<MissedMessages>,
    told: Vec<MissedMessages>,
}

impl Default for Missing {
    fn default() -> Self {
        Self { channels: OwnedCache::uncounted(CHANNELS), before: None, told: Vec::new() }
    }
}

impl Missing {
    /// Begins on one channel.
    pub(super) async fn on(
        conn: &mut PgConnection,
        channel: &Channel,
        viewer: &Viewer<'_>,
        since: Since,
        now: Timestamp,
    ) -> Outcome<Self> {
        let Since { position, number, resumes } = since;
        let mut missing = Self::default();
        let (floor, newest) = (channel.floor(), channel.message_count);
        let around = rows::around(conn, channel.id, position, floor).await?;
        let known = number.map(i64::from).or(around.number);
        // Every message after the position has a place of the log between it and the oldest one that is left.
        let most = around.oldest_seq.map_or(floor, |seq| floor.min(seq - position - 1));
        let last = known.unwrap_or(floor - most);
        let evicted = (floor - last).max(0);
        let expired = if resumes {
            rows::expired_between(conn, channel, viewer, last.max(floor)..newest, now).await?
        } else {
            0
        };
        let count = evicted + expired;
        let is_truncated = known.is_none() && evicted > 0;
        let missed =
            MissedMessages { channel_id: channel.id, count, is_truncated, oldest: floor + 1, newest };
        missing.before = Some(missed).filter(|_| resumes && count > 0);
        let (oldest, told) = (floor + 1, expired);
        let last = last.max(floor);
        missing
            .channels
            .put(channel.id, Progress { last, told, missed: 0, is_truncated: false, oldest, newest });
        Ok(missing)
    }

    /// Returns the messages missed before the stream was opened, if it resumes on one channel.
    pub(super) fn before(&self) -> Option<MissedMessages> {
        self.before
    }

    /// Passes a message of the log, and counts those evicted before it. `is_shown` says whether the reader gets it,
    /// `has_expired` whether it would have before it expired.
    pub(super) fn pass(&mut self, message: &Message, channel: &Channel, is_shown: bool, has_expired: bool) {
        let number = i64::from(message.number);
        let (oldest, newest) = (channel.floor() + 1, channel.message_count.max(number));
        if self.channels.peek(&channel.id).is_none() {
            // It is the oldest one that is left, so others may have been before it. Of a channel that keeps a single one, each is.
            let is_truncated = number == oldest && number > 1 && channel.options.max_messages > 1;
            let missed = if is_truncated { number - 1 } else { 0 };
            let last = number;
            let progress = Progress { last, told: 0, missed, is_truncated, oldest, newest };
            self.channels.put(channel.id, progress);
        }
        let Some(progress) = self.channels.peek_mut(&channel.id) else { return };
        progress.missed += (number - progress.last - 1).max(0);
        progress.last = progress.last.max(number);
        (progress.oldest, progress.newest) = (progress.oldest.max(oldest), progress.newest.max(newest));
        if has_expired && progress.told > 0 {
            progress.told -= 1;
        } else if has_expired {
            progress.missed += 1;
        }
        // Whoever sees nothing of the channel learns nothing of it.
        if (is_shown || has_expired) && progress.missed > 0 {
            self.told.push(MissedMessages {
                channel_id: channel.id,
                count: std::mem::take(&mut progress.missed),
                is_truncated: std::mem::take(&mut progress.is_truncated),
                oldest: progress.oldest,
                newest: progress.newest,
            });
        }
    }

    /// Takes the messages missed since the last call, one entry for each channel.
    pub(super) fn take(&mut self) -> Vec<MissedMessages> {
        let mut all: Vec<MissedMessages> = Vec::new();
        for missed in std::mem::take(&mut self.told) {
            match all.iter_mut().find(|known| known.channel_id == missed.channel_id) {
                Some(known) => {
                    known.count += missed.count;
                    known.is_truncated |= missed.is_truncated;
                    (known.oldest, known.newest) = (missed.oldest, missed.newest);
                }
                None => all.push(missed),
            }
        }
        all
    }
}

/// Returns an expired message as it was before; `None` for any other.
pub(super) fn before_expiry(message: &Message, now: Timestamp) -> Option<Message> {
    let is_late =
        message.status == MessageStatus::Delivered && message.expires_at.is_some_and(|end| end <= now);
    (is_late || message.status == MessageStatus::Expired).then(|| Message {
        status: MessageStatus::Delivered,
        expires_at: None,
        ..message.clone()
    })
}
