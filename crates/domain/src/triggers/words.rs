//! The closed lists of words that triggers are described by.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($(#[$each:meta])* $variant:ident = $word:tt),+ $(,)?) => {
        $(#[$doc])*
        pub enum $name { $($(#[$each])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that it is written as.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Reads one; `None` when there is no such word.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }
    };
}

words! {
    /// What a trigger waits for. One that says nothing of it in its condition is only fired by hand.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerType)]
    TriggerKind:
    /// A time.
    Schedule = "schedule",
    /// Something that is recorded.
    Event = "event",
    /// A request from outside.
    Webhook = "webhook",
}

words! {
    /// What it does while an intent of the same type is still open (RFC-0017 §6).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerDeduplication)]
    Deduplication:
    /// It makes another one.
    #[default]
    Allow = "allow",
    /// It makes none.
    Skip = "skip",
    /// It makes one when the other is over; one firing waits at the most.
    Queue = "queue",
}

words! {
    /// Why the server switched a trigger off.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerDisabledReason)]
    DisabledReason:
    /// Its one time has come.
    Done = "done",
    /// It has made as many intents as it was to.
    MaxFires = "max_fires",
    /// It failed too many times in a row.
    Failing = "failing",
    /// No key by which it acts is in force any more, or may do what it takes.
    Powers = "powers",
}

words! {
    /// Why a trigger was due and made no intent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerSkipReason)]
    SkipReason:
    /// An intent of the type is still open, and it is not to make a second one.
    Deduplicated = "deduplicated",
    /// One firing waits already.
    QueueFull = "queue_full",
    /// It fired too short a while ago.
    Cooldown = "cooldown",
    /// It was due too often within a minute.
    Rate = "rate",
    /// What it was due for is the doing of too many triggers in a row.
    CascadeLimit = "cascade_limit",
    /// Its owner may not read what it was due for (any more).
    NotVisible = "not_visible",
    /// Nobody looked when it was due.
    Missed = "missed",
    /// It was switched off before it could fire.
    Disabled = "disabled",
}

words! {
    /// What a trigger was fired by.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerCause)]
    Cause:
    /// A time that had come.
    Due = "due",
    /// An event.
    Event = "event",
    /// A delivery.
    Webhook = "webhook",
    /// Somebody.
    Hand = "hand",
}
