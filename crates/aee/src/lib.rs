//! AEE 1: accepting envelopes, mailboxes, buses, policies, schemas and approvals.

pub mod acceptance;
pub mod answers;
pub mod approvals;
pub mod buses;
pub mod envelope_keys;
pub mod envelope_logs;
pub mod envelopes;
pub mod exchanges;
pub mod hooks;
pub mod ingest;
pub mod mailboxes;
mod notifying;
pub mod parties;
pub mod policy;
pub mod quotas;
pub(crate) mod redactions;
pub mod refutations;
pub mod retention;
pub mod threads;
pub mod timeouts;
pub mod turns;

use entente_kernel::webhooks::Post;
use entente_kernel::{Outcome, ProtocolCtx};

use crate::envelope_keys::KeyCache;
use crate::ingest::IngestSettings;
use crate::mailboxes::MailboxItem;
use crate::policy::snapshot::PolicyCache;
use crate::quotas::Quotas;

/// Encoder of envelopes in an entity's mailbox for webhooks, provided by the API.
pub type EncodeItem = fn(&str, MailboxItem) -> Outcome<Post>;

/// State of AEE.
pub struct State {
    /// Envelope settings.
    pub settings: IngestSettings,
    /// Use of each sender's priority quotas.
    pub quotas: Quotas,
    /// Cache of rules and schemas.
    pub policies: PolicyCache,
    /// Cache of the keys that signed envelopes recently.
    pub keys: KeyCache,
    /// Encoder of envelopes in mailboxes.
    pub encode_item: EncodeItem,
}

/// Context of the operations.
pub type Ctx = ProtocolCtx<State>;
