//! What is not as it should be with an envelope that was taken in all the same (AEE's SHOULDs).

macro_rules! warnings {
    ($($(#[doc = $doc:literal])+ $name:ident = $wire:tt;)+) => {
        /// A stable word for each thing that is not as it should be. It stands in the receipt and beside the envelope in the
        /// mailbox, never in it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        pub enum Warning { $($(#[doc = $doc])+ #[serde(rename = $wire)] $name,)+ }

        impl Warning {
            /// Every warning.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The warning as it is written.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }

            /// What it means, for the documentation.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// Reads a warning; `None` when there is no such warning.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }
    };
}

warnings! {
    /// `id` is neither a ULID nor a UUID (AEE §3).
    IdNotUlidOrUuid = "id_not_ulid_or_uuid";
    /// `ts` names no moment that can be read (RFC 3339), so its age was not checked and its id counts for good (AEE
    /// §3, §11.1).
    TsUnparseable = "ts_unparseable";
    /// `reply_to` should be null on a task, an event or a stream (AEE §3).
    ReplyToShouldBeNull = "reply_to_should_be_null";
    /// A known member of `requires` has another type than it should, and was passed over (AEE §3).
    RequiresType = "requires_type";
    /// Its signature binds the ten members of AEE §8 alone, and it has a `priority` or `requires` that would count: no
    /// priority above `normal` and no timeout is believed. That a person has to agree still is.
    PartlySigned = "partly_signed";
    /// `requires` has more than 2 KiB (AEE §6.10).
    RequiresLarge = "requires_large";
    /// `requires` has something that looks like a secret (AEE §11.4).
    PossibleSecretInRequires = "possible_secret_in_requires";
    /// An error's payload should have `code`, `message` and `retryable` (AEE §4).
    ErrorPayloadIncomplete = "error_payload_incomplete";
    /// The payload has what looks like an envelope; refer to it instead (AEE §10.2). It is not delivered.
    LooksLikeNestedEnvelope = "looks_like_nested_envelope";
    /// No task with the id in `reply_to` is known here (AEE §6.3).
    UnmatchedReply = "unmatched_reply";
    /// The task that it belongs to is over (AEE §4).
    StreamAfterTerminal = "stream_after_terminal";
    /// Its sender has sent too many of this priority lately, or a rule believes no such; it is handed out with a lower one
    /// (AEE §11.6).
    PriorityLowered = "priority_lowered";
    /// Nobody listens to this channel.
    NoSubscribers = "no_subscribers";
    /// The payload is not what the schema of its intent and type says (AEE §6.4).
    PayloadInvalid = "payload_invalid";
    /// A reference's hash is not that of the envelope (AEE §10.2).
    ReferenceHashMismatch = "reference_hash_mismatch";
    /// The timeout it asks for is longer than the server allows, and was shortened (AEE §11.6).
    TimeoutCapped = "timeout_capped";
}
