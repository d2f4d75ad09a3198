//! The entries that the writers append to logs: messages, and events that clients post.

use std::sync::Arc;

use entente_domain::idempotency::Idempotency;
use entente_domain::identity::fences::Fence;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Event};
use entente_domain::openintent::messages::Message;
use entente_domain::refusal::Refusal;
use entente_domain::traces::Trace;
use entente_kernel::Outcome;
use entente_runtime::fences;

use super::Command;

/// An event to be appended.
#[derive(Debug, Clone)]
pub struct EventCommand {
    /// The intent.
    pub intent_id: IntentId,
    /// The event.
    pub draft: Draft,
    /// Principal of the key, which scopes idempotency keys.
    pub principal: String,
    /// Idempotency key with the fingerprint of the request.
    pub once: Option<Idempotency>,
    /// Refusal of the event's proof; returned unless the same was done before or the actor may not append.
    pub objection: Option<Refusal>,
    /// The trace of the request (RFC-0020).
    pub trace: Option<Trace>,
}

/// The entry that a command appends to a log.
#[derive(Debug, Clone)]
pub(super) enum Addition {
    /// Sends a message.
    Message(Command),
    /// Appends an event.
    Event(EventCommand),
}

/// A command of the group commit.
#[derive(Debug, Clone)]
pub(super) struct Append {
    /// The entry that it appends.
    pub addition: Addition,
    /// Conditions without which it is refused, and appends nothing.
    pub fences: Vec<Fence>,
}

/// A committed command.
#[derive(Debug, Clone)]
pub(super) enum Appended {
    /// The message.
    Message(Arc<Message>),
    /// The event.
    Event(Arc<Event>),
}

/// Answer of a command.
pub(super) type Answer = Outcome<Appended>;

impl Append {
    /// Creates a command of the current request.
    pub fn new(addition: Addition) -> Self {
        Self { addition, fences: fences::current() }
    }

    /// Returns the intent whose log it is appended to.
    pub fn intent_id(&self) -> IntentId {
        match &self.addition {
            Addition::Message(command) => command.intent_id,
            Addition::Event(command) => command.intent_id,
        }
    }

    /// Returns the agent that sends or acts.
    pub fn actor(&self) -> &str {
        match &self.addition {
            Addition::Message(command) => &command.draft.sender,
            Addition::Event(command) => &command.draft.actor,
        }
    }

    /// Returns the idempotency key, if any, with the principal that scopes it.
    pub fn once(&self) -> Option<(&str, &Idempotency)> {
        let (principal, once) = match &self.addition {
            Addition::Message(command) => (&command.principal, &command.once),
            Addition::Event(command) => (&command.principal, &command.once),
        };
        Some((principal, once.as_ref()?))
    }

    /// Returns the message, if it is one.
    pub fn message(&self) -> Option<&Command> {
        match &self.addition {
            Addition::Message(command) => Some(command),
            Addition::Event(_) => None,
        }
    }

    /// Returns the event, if it is one.
    pub fn event(&self) -> Option<&EventCommand> {
        match &self.addition {
            Addition::Message(_) => None,
            Addition::Event(command) => Some(command),
        }
    }
}
