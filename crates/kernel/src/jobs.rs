//! Jobs (ARCP §7 to §10): from their acceptance to their one end. What may happen is `entente_domain::jobs`; here is who asks
//! for it and what is written down.
//!
//! `works.rs` is the way in for what is hot: jobs and reports, many in one commit. `submit.rs` accepts, `claims.rs` gives to
//! workers, `beats.rs` hears that they are there, `reports.rs` takes what they say, `authority.rs` judges before they act, `delegation.rs`
//! makes children, `cancel.rs` and `time.rs` end, `reading.rs` shows, `results.rs` puts streamed results together. All of
//! them change jobs through `hold.rs`. Tables: `jobs` and `job_clock`, read in `rows.rs` and written in
//! `writes.rs`, `job_events` in
//! `log.rs`, `job_budgets` and `job_reservations` in `budgets.rs`.

mod authority;
mod awaiting;
mod beats;
mod budgets;
mod cancel;
mod claims;
mod delegation;
mod hold;
pub(crate) mod log;
mod preparing;
mod reading;
mod reports;
mod results;
mod rotation;
pub(crate) mod rows;
mod streaming;
mod submit;
mod time;
mod works;
mod writes;

use std::time::Duration;

pub use authority::{Allowed, OperationAsk, authorize, settle};
pub(crate) use awaiting::{Waiting, worked_on};
pub use beats::{Beat, BeatAsk, Held, beat};
pub use cancel::{Canceller, cancel};
pub use claims::{ClaimAsk, Claimed, claim, leave, release, return_unheard};
pub use delegation::delegate;
pub(crate) use delegation::delegated;
pub use log::Stored;
pub use reading::{Description, Filter, describe, events, list};
pub use reports::{Denied, End, EventAsk, Reported};
pub use results::{Piece, Result, pieces, result};
pub use rotation::{Rotated, rotate};
pub use streaming::{Spot, everything, look_around, start_of_everything};
pub use submit::{Origin, Submitted};
pub use time::{forget_keys, pass_time};
pub use works::Works;
pub(crate) use writes::drop_preparing;

/// Who may see whose jobs (contract 10). Without a word of the operator everybody sees its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// One's own.
    #[default]
    Own,
    /// Everybody's are listed.
    List,
    /// Everybody's are listed and can be followed.
    Subscribe,
}

impl Policy {
    /// Whether others' jobs are listed.
    #[must_use]
    pub fn lists(self) -> bool {
        self != Self::Own
    }

    /// Whether others' jobs can be followed.
    #[must_use]
    pub fn subscribes(self) -> bool {
        self == Self::Subscribe
    }
}

/// What the operator says about jobs.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// How long a claim lasts without its worker being heard of.
    pub claim: Duration,
    /// How long a worker may take to stop a job that was cancelled.
    pub cancel_grace: Duration,
    /// Who may see whose.
    pub policy: Policy,
}
