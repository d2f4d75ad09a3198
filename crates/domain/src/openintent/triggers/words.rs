//! Closed enumerations that describe triggers.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($(#[$each:meta])* $variant:ident = $word:tt),+ $(,)?) => {
        $(#[$doc])*
        pub enum $name { $($(#[$each])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the wire name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Parses the wire name; `None` if it is unknown.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }
    };
}

words! {
    /// Kind of trigger; without a matching condition it only fires manually.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerType)]
    TriggerKind:
    /// Fires at scheduled times.
    Schedule = "schedule",
    /// Fires for recorded events.
    Event = "event",
    /// Fires for incoming webhooks.
    Webhook = "webhook",
}

words! {
    /// Behaviour while an intent of the same type is still open (RFC-0017 §6).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerDeduplication)]
    Deduplication:
    /// Create another one.
    #[default]
    Allow = "allow",
    /// Create none.
    Skip = "skip",
    /// Create one when the open one is over; at most one firing waits.
    Queue = "queue",
}

words! {
    /// Reason why the server disabled a trigger.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerDisabledReason)]
    DisabledReason:
    /// Its only due time has passed.
    Done = "done",
    /// It has reached its maximum number of intents.
    MaxFires = "max_fires",
    /// It failed too many times in a row.
    Failing = "failing",
    /// Its principal has no active key left that permits its operations.
    Powers = "powers",
}

words! {
    /// Reason why a due trigger created no intent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerSkipReason)]
    SkipReason:
    /// An intent of the type is still open, and duplicates are skipped.
    Deduplicated = "deduplicated",
    /// Another firing already waits.
    QueueFull = "queue_full",
    /// It fired too recently.
    Cooldown = "cooldown",
    /// It was due too often within a minute.
    Rate = "rate",
    /// The causal chain has too many triggers.
    CascadeLimit = "cascade_limit",
    /// Its owner may not, or may no longer, read the event.
    NotVisible = "not_visible",
    /// The due time was missed.
    Missed = "missed",
    /// It was disabled before it could fire.
    Disabled = "disabled",
    /// Its owner, or the whole system, is stopped.
    Stopped = "stopped",
}

words! {
    /// Cause of a firing.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
    #[schema(as = TriggerCause)]
    Cause:
    /// A scheduled time.
    Due = "due",
    /// An event.
    Event = "event",
    /// A webhook delivery.
    Webhook = "webhook",
    /// A manual request.
    Hand = "hand",
}
