//! Envelopes (AEE): their rows in the table `aee_envelopes`, and the prepared envelopes that are written to it.
//!
//! `acceptance.rs` decides whether an envelope may be sent, `ingest.rs` writes batches, `mailboxes.rs` holds envelopes
//! for recipients, and `parties.rs` checks access. The received text is stored and delivered unchanged; the gateway's
//! additions are stored beside it.

mod noting;
mod prepared;
mod references;
mod rows;
mod untimed;

use entente_domain::clock::Timestamp;
use entente_kernel::Outcome;
use sqlx::PgConnection;

pub(crate) use crate::envelopes::noting::note;
pub use crate::envelopes::noting::note_refusal;
pub use crate::envelopes::prepared::{Disposition, Original, PreparedEnvelope};
pub(crate) use crate::envelopes::references::{Referred, referred};
pub use crate::envelopes::rows::StoredEnvelope;
pub use crate::envelopes::rows::load;
pub use crate::envelopes::rows::load_all;
pub(crate) use crate::envelopes::rows::{Stub, agreed, insert, stubs};
pub(crate) use crate::envelopes::untimed::remembered;

/// Deletes up to `limit` envelopes received before a moment; returns their ids.
///
/// Remembers the ids of those without a valid `ts`, so that none of them is accepted again (AEE §11.1).
pub(crate) async fn delete(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<Vec<String>> {
    let (gone, untimed) = rows::delete(conn, before, limit).await?;
    untimed::remember(conn, &untimed).await?;
    Ok(gone)
}
