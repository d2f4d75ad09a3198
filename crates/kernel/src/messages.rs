//! Messages (RFC-0021 §2) in the log: the rows of the tables `messages`, `receipts` and `pending`. Operations on them
//! are OpenIntent's.

pub mod pending;
pub mod receipts;
pub mod rows;

use entente_domain::cursors::Since;

pub use rows::forget;
pub use rows::has_any;
pub use rows::load_all;
pub use rows::responses;
pub(crate) use rows::{Row, at, bare, of_line, of_parts};

/// Filter of a channel's messages.
#[derive(Debug, Clone, Default)]
pub struct MessageFilter {
    /// Only messages after this position; `None` for the newest.
    pub since: Option<Since>,
    /// Only messages for this address: an agent, including those for its roles and for all; `role:…`; `*`.
    pub to: Option<String>,
    /// Maximum number of messages.
    pub limit: u32,
}
