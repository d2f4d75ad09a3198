//! Warnings about accepted envelopes that violate SHOULDs of AEE.

macro_rules! warnings {
    ($($(#[doc = $doc:literal])+ $name:ident = $wire:tt;)+) => {
        /// A stable code for each violation, found in the receipt and beside the envelope in the mailbox,
        /// never in it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        pub enum Warning { $($(#[doc = $doc])+ #[serde(rename = $wire)] $name,)+ }

        impl Warning {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the warning's wire form.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }

            /// Returns the meaning, for the documentation.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// Parses a warning's wire form; `None` if it is unknown.
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
    /// `ts` is not a valid time (RFC 3339), so its age was not checked and its id is remembered permanently
    /// (AEE §3, §11.1).
    TsUnparseable = "ts_unparseable";
    /// `reply_to` should be null on a task, an event or a stream (AEE §3).
    ReplyToShouldBeNull = "reply_to_should_be_null";
    /// A known member of `requires` has the wrong type and was ignored (AEE §3).
    RequiresType = "requires_type";
    /// Its signature covers only the ten members of AEE §8, and it has a relevant `priority` or `requires`:
    /// no priority above `normal` and no timeout is accepted; a required human approval still applies.
    PartlySigned = "partly_signed";
    /// Its signature is of a form that the gateway cannot verify, and is passed on unverified, by the operator's
    /// leave; the envelope counts as unsigned (AEE §8).
    SigUnverified = "sig_unverified";
    /// `requires` has more than 2 KiB (AEE §6.10).
    RequiresLarge = "requires_large";
    /// `requires` contains a likely secret (AEE §11.4).
    PossibleSecretInRequires = "possible_secret_in_requires";
    /// An error's payload should have `code`, `message` and `retryable` (AEE §4).
    ErrorPayloadIncomplete = "error_payload_incomplete";
    /// The payload seems to contain an envelope, which is not delivered; refer to it instead (AEE §10.2).
    LooksLikeNestedEnvelope = "looks_like_nested_envelope";
    /// No task with the id in `reply_to` is known here (AEE §6.3).
    UnmatchedReply = "unmatched_reply";
    /// The task that it belongs to is over (AEE §4).
    StreamAfterTerminal = "stream_after_terminal";
    /// Its sender has sent too many of this priority lately, or a rule limits the priority; it is delivered
    /// with a lower one (AEE §11.6).
    PriorityLowered = "priority_lowered";
    /// No entity subscribes to this channel.
    NoSubscribers = "no_subscribers";
    /// The payload does not match the schema of its intent and type (AEE §6.4).
    PayloadInvalid = "payload_invalid";
    /// A reference's hash is not that of the envelope (AEE §10.2).
    ReferenceHashMismatch = "reference_hash_mismatch";
    /// The requested timeout is longer than the server allows, and was shortened (AEE §11.6).
    TimeoutCapped = "timeout_capped";
}
