//! Messages and events appended as a part of a larger transaction: a turn (`crates/bridges/src/turns.rs`). They are judged and
//! written like a batch of the writer's under the locks of its intents.

use std::sync::Arc;

use entente_domain::log::events::Event;
use entente_domain::openintent::messages::Message;
use entente_kernel::AppError;
use sqlx::PgConnection;

use super::append::{Addition, Append, Appended};
use super::batch::Judged;
use super::cache::IntentCache;
use super::handler::{Settled, settle};
use super::{Command, EventCommand, lost};
use crate::Ctx;

/// Messages and events that a transaction has written.
pub struct Written {
    /// The messages, in the order of their commands.
    pub messages: Vec<Arc<Message>>,
    /// The events, in the order of their commands.
    pub events: Vec<Arc<Event>>,
    cache: IntentCache,
    settled: Settled,
}

/// Why nothing was appended.
pub struct AppendFailure {
    /// Index of the event that was refused, if it was one.
    pub event: Option<usize>,
    /// The failure.
    pub failure: AppError,
}

impl<E: Into<AppError>> From<E> for AppendFailure {
    fn from(failure: E) -> Self {
        Self { event: None, failure: failure.into() }
    }
}

/// Sends messages and then appends events, in order, within a transaction that holds the locks of their intents; the caller
/// commits it.
///
/// # Errors
/// The first that is refused, by its place in the list `messages` or `events`; a database error.
pub async fn append(
    ctx: &Ctx,
    conn: &mut PgConnection,
    messages: Vec<Command>,
    events: Vec<EventCommand>,
) -> Result<Written, AppendFailure> {
    let sent = messages.len();
    let additions =
        messages.into_iter().map(Addition::Message).chain(events.into_iter().map(Addition::Event));
    let commands: Vec<Append> = additions.map(Append::new).collect();
    let tried: Vec<&Append> = commands.iter().collect();
    let mut cache = IntentCache::default();
    let mut settled = settle(ctx, conn, &mut cache, &tried, Vec::new(), ctx.now()).await?;
    let (mut messages, mut events) = (Vec::with_capacity(sent), Vec::with_capacity(commands.len() - sent));
    for (index, (intent, judged)) in std::mem::take(&mut settled.judged).into_iter().enumerate() {
        match judged {
            Judged::Decided(Appended::Message(message)) if settled.passed.contains(&intent) => {
                messages.push(message);
            }
            Judged::Decided(Appended::Event(event)) if settled.passed.contains(&intent) => events.push(event),
            Judged::Refused(AppError::Refused(refusal)) => {
                let event = index.checked_sub(sent);
                let placed = match event {
                    Some(index) => refusal.of_item("events", index),
                    None => refusal.of_item("messages", index),
                };
                return Err(AppendFailure { event, failure: placed.into() });
            }
            Judged::Refused(failure) => return Err(failure.into()),
            Judged::Decided(_) | Judged::Done(_) => return Err(lost().into()),
        }
    }
    Ok(Written { messages, events, cache, settled })
}

impl Written {
    /// Publishes the messages and events to the feed, after the commit.
    pub fn publish(&self, ctx: &Ctx) {
        self.settled.publish(ctx, &self.cache);
    }
}
