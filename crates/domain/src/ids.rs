//! Identifiers: `<prefix>_<ULID>` on the wire, one Rust type each, a `uuid` in the database.
//!
//! A ULID starts with its creation time, so that ids sort by age. A [`MessageId`] also carries the message's
//! number in its channel: a cursor made from it keeps its position after the message itself was evicted
//! (RFC-0021 §2.4, OI-10.4.1). Ids locate things; they never grant access.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulid::Ulid;
use uuid::Uuid;

use crate::clock::Timestamp;

/// A source of unpredictable bits: the operating system in the server, a seeded sequence in tests.
pub trait Chance: Send + Sync {
    /// Returns 128 fresh bits.
    fn bits(&self) -> u128;
}

/// Error: the text is not an id of the requested kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier of this kind")]
pub struct NotAnId;

/// Returns the milliseconds since 1970 for a ULID; an earlier time counts as 1970.
fn millis(at: Timestamp) -> u64 {
    u64::try_from(at.timestamp_millis()).unwrap_or(0)
}

/// Parses a ULID from its only valid text form; an id with two forms would be two ids to clients that compare
/// them.
///
/// The library also accepts lower case, and truncates numbers of more than 128 bits.
fn ulid(written: &str) -> Result<Uuid, NotAnId> {
    let ulid = Ulid::from_string(written).map_err(|_e| NotAnId)?;
    let mut buffer = [0; ulid::ULID_LEN];
    if ulid.array_to_str(&mut buffer) == written {
        Ok(Uuid::from_bytes(ulid.to_bytes()))
    } else {
        Err(NotAnId)
    }
}

macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(Uuid);

        impl $name {
            /// The prefix of the id on the wire, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Returns the id as stored in the database.
            #[must_use]
            pub fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = NotAnId;

            fn try_from(text: String) -> Result<Self, NotAnId> {
                text.parse()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut buffer = [0; ulid::ULID_LEN];
                f.write_str(concat!($prefix, "_"))?;
                f.write_str(Ulid::from_bytes(self.0.into_bytes()).array_to_str(&mut buffer))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                let written = text.strip_prefix(concat!($prefix, "_")).ok_or(NotAnId)?;
                ulid(written).map(Self)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some(concat!("`", $prefix, "_` and a ULID")))
                    .examples([concat!($prefix, "_01J9ZK4T6Q8R2V5X7Y9B1C3D5F")])
                    .build()
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    )+};
}

id_types! {
    /// An intent, RFC-0001.
    IntentId = "intent";
    /// A channel, RFC-0021 §1.
    ChannelId = "chan";
    /// A message, RFC-0021 §2. See [`MessageId::mint`].
    MessageId = "msg";
    /// An event of an intent's log, RFC-0001 and RFC-0019.
    EventId = "evt";
    /// An agent's assignment to an intent, RFC-0001.
    AssignmentId = "asg";
    /// An entry of an access control list, RFC-0011.
    EntryId = "acl";
    /// A request for access, RFC-0011.
    AccessRequestId = "areq";
    /// An API key's record (not the key itself).
    KeyId = "key";
    /// A server process of this database.
    NodeId = "node";
    /// A deadlock of agents.
    DeadlockId = "deadlock";
    /// A lineage of messages: the id of its first message, in another form.
    LineageId = "lin";
    /// A lease on a scope of an intent, RFC-0003.
    LeaseId = "lease";
    /// A request for arbitration, RFC-0003.
    ArbitrationId = "arb";
    /// A decision on a request for arbitration, RFC-0003.
    DecisionId = "dec";
    /// A task, RFC-0012.
    TaskId = "task";
    /// A plan, RFC-0012.
    PlanId = "plan";
    /// A checkpoint of a log, RFC-0019.
    CheckpointId = "chk";
    /// A webhook endpoint: a subscription (RFC-0006) or an agent's endpoint (RFC-0016).
    EndpointId = "sub";
    /// One attempt at a delivery to an endpoint.
    AttemptId = "att";
    /// A job, ARCP §7.
    JobId = "job";
    /// A session, ARCP §6: over a socket, over stdio, or that of one job submitted over REST.
    SessionId = "sess";
    /// A streamed result, ARCP §8.4.
    ResultId = "res";
    /// A provisioned credential, ARCP §9.8.
    CredentialId = "cred";
    /// A process that runs jobs.
    WorkerId = "wrk";
    /// An amount that is reserved before it is spent.
    ReservationId = "rsv";
    /// An imported bundle.
    BundleId = "bdl";
    /// A binding moment: a question to a person, or a deliberation with one.
    MomentId = "bm";
    /// A budget that limits the spending of a subject.
    BudgetId = "bgt";
    /// A stop of a subject.
    StopId = "stop";
    /// A contact point of a person: where they receive notifications.
    ContactId = "cp";
    /// A portfolio of intents, RFC-0004.
    PortfolioId = "folio";
    /// The membership of an intent in a portfolio, RFC-0004.
    MembershipId = "mem";
    /// A file attached to an intent, RFC-0005.
    AttachmentId = "file";
    /// A resource used by work on an intent, RFC-0009.
    CostId = "cost";
    /// The retry policy of an intent, RFC-0010.
    RetryPolicyId = "retry";
    /// A failed attempt at an intent, RFC-0010.
    FailureId = "fail";
    /// An entry of an agent's memory, RFC-0015.
    MemoryId = "mem";
    /// A vault, RFC-0014.
    VaultId = "vault";
    /// A credential in a vault, RFC-0014.
    ToolCredentialId = "tcred";
    /// A grant to use a credential, RFC-0014.
    ToolGrantId = "grant";
    /// A use of a tool, RFC-0014.
    InvocationId = "inv";
    /// A request for approval (a permit), RFC-0013.
    ApprovalId = "apr";
    /// An escalation to a person, RFC-0013.
    EscalationId = "esc";
    /// A trigger, RFC-0017.
    TriggerId = "trg";
    /// One firing of a trigger.
    FiringId = "fire";
    /// An intent of this server dispatched to a peer, RFC-0022.
    DispatchId = "disp";
    /// An agent's appointment as an intent's coordinator, RFC-0013.
    CoordinatorId = "coord";
    /// A decision of a coordinator, RFC-0013.
    DecisionRecordId = "drec";
    /// A question that suspends an intent, RFC-0025; clients that ask through its state choose an id of their
    /// own.
    SuspensionId = "susp";
}

/// Returns the id of an envelope written by this server: a ULID without a prefix, as is usual (AEE §3,
/// §11.1).
#[must_use]
pub fn envelope_id(at: Timestamp, chance: &dyn Chance) -> String {
    Ulid::from_bytes(mint(at, chance).into_bytes()).to_string()
}

/// Returns the id of an envelope derived from something else, given the SHA-256 of its source: the same for the same
/// source, sorted by age.
#[must_use]
pub fn derived(at: Timestamp, digest: &[u8; 32]) -> String {
    let tail = digest.iter().take(10).fold(0, |tail, byte| (tail << 8) | u128::from(*byte));
    Ulid::from_parts(millis(at), tail).to_string()
}

/// Random bits of an id; the first 10 of a ULID's 80 carry the microseconds that its milliseconds leave out,
/// because lists are sorted by id, and a client may create two things within a millisecond.
const CHANCE_BITS: u32 = 70;

/// Creates a ULID: the time to the microsecond, and 70 random bits.
fn mint(at: Timestamp, chance: &dyn Chance) -> Uuid {
    // A time before 1970 counts as 1970, to the microsecond.
    let micros = if at.timestamp() < 0 { 0 } else { u128::from(at.timestamp_subsec_micros() % 1_000) };
    let tail = (micros << CHANCE_BITS) | (chance.bits() & ((1 << CHANCE_BITS) - 1));
    Uuid::from_bytes(Ulid::from_parts(millis(at), tail).to_bytes())
}

/// Returns the lowest possible id for the millisecond of `at`: the start of a list by age.
#[must_use]
pub fn floor(at: Timestamp) -> Uuid {
    Uuid::from_bytes(Ulid::from_parts(millis(at), 0).to_bytes())
}

macro_rules! minted {
    ($($name:ident),+) => {$(
        impl $name {
            /// Creates an id: the time to the microsecond, and 70 random bits.
            #[must_use]
            pub fn mint(at: Timestamp, chance: &dyn Chance) -> Self {
                Self(mint(at, chance))
            }
        }
    )+};
}

minted!(IntentId, ChannelId, EventId, AssignmentId, EntryId, AccessRequestId, KeyId, NodeId);
minted!(LeaseId, ArbitrationId, DecisionId, TaskId, PlanId, CheckpointId, EndpointId, AttemptId);
minted!(PortfolioId, MembershipId, ContactId);
minted!(VaultId, ToolCredentialId, ToolGrantId, InvocationId);
minted!(JobId, SessionId, ResultId, CredentialId, WorkerId, ReservationId, MomentId);
minted!(AttachmentId, CostId, RetryPolicyId, FailureId);
minted!(MemoryId, BudgetId, BundleId, StopId, DeadlockId);
minted!(ApprovalId, EscalationId);
minted!(TriggerId, FiringId);
minted!(DispatchId);
minted!(CoordinatorId, DecisionRecordId, SuspensionId);

impl IntentId {
    /// The system log, which records changes of principals, keys and agents that belong to no intent.
    pub const SYSTEM: Self = Self(Uuid::nil());
}

impl MessageId {
    /// Number of random bits in a message id; the other 32 of a ULID's 80 carry the number in the channel.
    const CHANCE_BITS: u32 = 48;

    /// Creates the id of the `number`th message of a channel: time, number (unique within the channel), 48
    /// random bits.
    #[must_use]
    pub fn mint(at: Timestamp, number: u32, chance: &dyn Chance) -> Self {
        let low = chance.bits() & ((1 << Self::CHANCE_BITS) - 1);
        let tail = (u128::from(number) << Self::CHANCE_BITS) | low;
        Self(Uuid::from_bytes(Ulid::from_parts(millis(at), tail).to_bytes()))
    }

    /// Returns the message's number in its channel, from 1.
    #[must_use]
    pub fn number(self) -> u32 {
        let tail = Ulid::from_bytes(self.0.into_bytes()).random() >> Self::CHANCE_BITS;
        u32::try_from(tail & u128::from(u32::MAX)).unwrap_or(u32::MAX)
    }
}
