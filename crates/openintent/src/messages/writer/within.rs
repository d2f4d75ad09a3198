//! Messages sent as a part of a larger transaction: a turn (`crates/bridges/src/turns.rs`). They are judged and written like a
//! batch of the writer's under the locks of its intents.

use std::sync::Arc;

use entente_domain::openintent::messages::Message;
use entente_kernel::{AppError, Outcome};
use sqlx::PgConnection;

use super::append::{Addition, Append, Appended};
use super::batch::Judged;
use super::cache::IntentCache;
use super::handler::{Settled, settle};
use super::{Command, lost};
use crate::Ctx;

/// Messages that a transaction has written.
pub struct Written {
    /// The messages, in the order of their commands.
    pub messages: Vec<Arc<Message>>,
    cache: IntentCache,
    settled: Settled,
}

/// Sends messages in order, within a transaction that holds the locks of their intents; the caller commits it.
///
/// # Errors
/// The first message that is refused, by its place in the list `messages`; a database error.
pub async fn send(ctx: &Ctx, conn: &mut PgConnection, commands: Vec<Command>) -> Outcome<Written> {
    let commands: Vec<Append> =
        commands.into_iter().map(|command| Append::new(Addition::Message(command))).collect();
    let tried: Vec<&Append> = commands.iter().collect();
    let mut cache = IntentCache::default();
    let mut settled = settle(ctx, conn, &mut cache, &tried, Vec::new(), ctx.now()).await?;
    let mut messages = Vec::with_capacity(commands.len());
    for (index, (intent, judged)) in std::mem::take(&mut settled.judged).into_iter().enumerate() {
        messages.push(match judged {
            Judged::Decided(Appended::Message(message)) if settled.passed.contains(&intent) => message,
            Judged::Refused(AppError::Refused(refusal)) => {
                return Err(refusal.of_item("messages", index).into());
            }
            Judged::Refused(failure) => return Err(failure),
            Judged::Decided(_) | Judged::Done(_) => return Err(lost()),
        });
    }
    Ok(Written { messages, cache, settled })
}

impl Written {
    /// Publishes the messages to the feed, after the commit.
    pub fn publish(&self, ctx: &Ctx) {
        self.settled.publish(ctx, &self.cache);
    }
}
