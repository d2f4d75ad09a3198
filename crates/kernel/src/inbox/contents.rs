//! The objects that entries refer to, as far as the agent may still read them. Content is never stored in an inbox.

use std::collections::HashMap;
use std::str::FromStr as _;

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, IntentId, MessageId};
use entente_domain::inbox::EntryKind;
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::{Message, Viewer};
use sqlx::PgConnection;

use super::rows::Entry;
use crate::access::membership;
use crate::access::membership::Membership;
use crate::channels;
use crate::messages;
use crate::{Caller, Outcome};

/// The object of an entry, at the moment of reading.
#[derive(Debug, Clone)]
pub enum Content {
    /// A message.
    Message(Box<Message>),
    /// Another object, which is read by its id.
    Reference,
    /// The object was deleted.
    Gone,
    /// The agent or its key may not read it any more.
    Withheld,
}

/// Returns the scope that reading an object takes.
fn scope(kind: EntryKind) -> Scope {
    match kind {
        EntryKind::Message => Scope::ChannelsRead,
        EntryKind::Mail => Scope::MailRead,
        EntryKind::Job => Scope::JobsRead,
        EntryKind::Decision => Scope::MomentsRead,
        EntryKind::Task => Scope::IntentsRead,
    }
}

/// Loads the objects of these entries of an agent's inbox, in their order.
pub(super) async fn load(
    conn: &mut PgConnection,
    caller: &Caller,
    agent: &str,
    entries: &[Entry],
    now: Timestamp,
) -> Outcome<Vec<Content>> {
    let sources = Sources::load(conn, agent, entries, now).await?;
    Ok(entries.iter().map(|entry| sources.content(caller, agent, entry)).collect())
}

/// The objects that a page of entries refers to.
struct Sources {
    memberships: HashMap<IntentId, Membership>,
    channels: HashMap<ChannelId, Channel>,
    messages: HashMap<(ChannelId, MessageId), Message>,
}

impl Sources {
    async fn load(conn: &mut PgConnection, agent: &str, entries: &[Entry], now: Timestamp) -> Outcome<Self> {
        let mut intents: Vec<IntentId> = entries.iter().filter_map(|entry| entry.intent_id).collect();
        intents.sort_unstable();
        intents.dedup();
        let pairs: Vec<(IntentId, &str)> = intents.iter().map(|intent| (*intent, agent)).collect();
        let found =
            if pairs.is_empty() { Vec::new() } else { membership::find_all(conn, &pairs, now).await? };
        let ids: Vec<(ChannelId, MessageId)> = entries.iter().filter_map(message_of).collect();
        let mut rooms: Vec<ChannelId> = ids.iter().map(|(channel, _)| *channel).collect();
        rooms.sort_unstable();
        rooms.dedup();
        let channels = if rooms.is_empty() { Vec::new() } else { channels::load_all(conn, &rooms).await? };
        let messages = if ids.is_empty() { Vec::new() } else { messages::load_all(conn, &ids, now).await? };
        Ok(Self {
            memberships: found.into_iter().map(|((intent, _), membership)| (intent, membership)).collect(),
            channels: channels.into_iter().map(|channel| (channel.id, channel)).collect(),
            messages: messages.into_iter().map(|m| ((m.channel_id, m.id), m)).collect(),
        })
    }

    fn content(&self, caller: &Caller, agent: &str, entry: &Entry) -> Content {
        if !caller.has(scope(entry.kind)) {
            return Content::Withheld;
        }
        let reads = |intent: IntentId| {
            self.memberships.get(&intent).is_some_and(|membership| membership.access.reaches(Level::Read))
        };
        match entry.kind {
            EntryKind::Message => self.message(agent, entry, reads),
            EntryKind::Task if entry.intent_id.is_some_and(|intent| !reads(intent)) => Content::Withheld,
            // The agent is a party to its mail, its jobs and its questions, whatever it may read besides.
            EntryKind::Mail | EntryKind::Job | EntryKind::Decision | EntryKind::Task => Content::Reference,
        }
    }

    fn message(&self, agent: &str, entry: &Entry, reads: impl Fn(IntentId) -> bool) -> Content {
        let Some((channel, id)) = message_of(entry) else { return Content::Gone };
        if !entry.intent_id.is_some_and(reads) {
            return Content::Withheld;
        }
        let Some(channel) = self.channels.get(&channel) else { return Content::Gone };
        if !channel.admits(agent) {
            return Content::Withheld;
        }
        let viewer = Viewer { agent, admitted: true, manages: false, sees_all: false };
        match self.messages.get(&(channel.id, id)) {
            Some(message) if i64::from(message.number) <= channel.floor() => Content::Gone,
            Some(message) if message.delivered_to(&viewer) => Content::Message(Box::new(message.clone())),
            Some(_) | None => Content::Gone,
        }
    }
}

fn message_of(entry: &Entry) -> Option<(ChannelId, MessageId)> {
    let id = MessageId::from_str(&entry.reference).ok()?;
    entry.channel_id.filter(|_| entry.kind == EntryKind::Message).map(|channel| (channel, id))
}
