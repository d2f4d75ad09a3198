//! Jobs (ARCP §7 to §10), from acceptance to their single end. `entente_domain::arcp::jobs` defines the valid
//! transitions; this module checks callers and records the results.
//!
//! `writer.rs` commits submissions and reports in groups. `submit.rs` takes submissions, `acceptance.rs` creates jobs,
//! `preparing.rs` provides their credentials, `claims.rs` gives them to workers in the order of `claims/queue.rs`,
//! `beats.rs` extends claims, `reports.rs` judges reports, `attempts/` has attempts and checkpoints,
//! `turn.rs` does reports and claims as parts of a turn,
//! `authority.rs` authorises operations, `delegation.rs` creates children, `cancel.rs` and `time.rs`
//! end jobs, `retention.rs` deletes them, `reading.rs` reads them, `holding.rs` their claims, `results.rs` reassembles
//! streamed results. Changes of single jobs go through `locked.rs`. Tables: `jobs` and `job_clock`, read in `rows.rs` and
//! written in `writes.rs`; `job_events` in `log.rs`;
//! `job_budgets` and `job_reservations` in `budgets.rs`; `job_claims` in `claims/keys.rs`; `job_slots` in `claims/gates.rs`.

mod acceptance;
mod all_jobs;
mod attempts;
mod authority;
mod awaiting;
mod beats;
mod budgets;
mod cancel;
mod claims;
mod control;
mod delegation;
mod holding;
mod locked;
pub mod log;
mod preparing;
mod reading;
mod records;
mod reports;
mod results;
mod retention;
mod rotation;
mod rows;
mod stopping;
mod submit;
mod time;
mod turn;
mod writer;
mod writes;

use std::time::Duration;

pub use acceptance::{Origin, Submitted};
pub(crate) use all_jobs::versions;
pub use all_jobs::{everything, poll_pending, resume_everything, start_of_everything};
pub use attempts::checkpoints::Checkpoint;
pub use attempts::{AttemptOutcome, History, Tried, history};
pub use authority::{Allowed, OperationAsk, authorize, settle};
pub use awaiting::Waiting;
pub use awaiting::worked_on;
pub use beats::{Beat, BeatAsk, Held, beat, beat_within};
pub use cancel::{Canceller, cancel};
pub use claims::gates::tidy_slots;
pub use claims::keys::{ClaimKey, tidy_claims};
use claims::tokens as claim_tokens;
pub use claims::turns::Turns;
pub use claims::{ClaimAsk, Claimed, claim, leave, release, return_unheard};
pub use control::{
    Again, Conversation, Counts, Delivered, JobSearch, Node, Pending, Position, PushFailure, Rerun, RerunAsk,
    Tree, acknowledge, add_receiver, beside, chunks, claim_pushes, conversation, count, end_push, load_push,
    positions, receivers, record_push, remove_receiver, require_receiver, rerun, rerun_found, resolve,
    search, send, sent, tree, wait,
};
pub use delegation::delegate;
pub(crate) use delegation::delegated;
pub use holding::{HeldJob, Holding, held, holdings};
pub use log::{JobEventPosition, JobEventToken, Stored};
pub use preparing::tidy_credentials;
pub use reading::{Description, IntentJob, JobFilter, describe, events, list, of_intent};
pub use records::Beside;
pub use records::failures::Failure;
pub use records::pushes::{Place, PushLease};
pub use records::reruns::Links;
pub use records::signals::{Marks, Signal};
pub use reports::{Child, Denied, EventAsk, Reported};
pub(crate) use results::chunk_bytes;
pub use results::{Piece, Result, pieces, result};
pub use retention::forget;
pub use rotation::{Rotated, rotate};
pub use stopping::apply_stops;
pub use time::{expire_due, forget_keys, forget_lapsed};
pub use turn::{
    Claims, JobReport, ReportFailure, Reports, claim_within, claimed_before, concealed, intents_of,
    lock_within, report_within,
};
pub use writer::JobWriter;

/// Visibility of other principals' jobs (ARCP-W-10.9); defaults to one's own jobs only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Only one's own jobs are visible.
    #[default]
    Own,
    /// All jobs are listed.
    List,
    /// All jobs are listed and can be followed.
    Subscribe,
}

impl Policy {
    /// Whether other principals' jobs are listed.
    #[must_use]
    pub fn lists(self) -> bool {
        self != Self::Own
    }

    /// Whether other principals' jobs can be followed.
    #[must_use]
    pub fn subscribes(self) -> bool {
        self == Self::Subscribe
    }
}

/// Job settings.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// How long a claim lasts without a heartbeat of its worker.
    pub claim: Duration,
    /// How long a worker may take to stop a cancelled job.
    pub cancel_grace: Duration,
    /// Visibility of other principals' jobs.
    pub policy: Policy,
    /// How long a job is kept after its end; `None` for ever.
    pub retention: Option<Duration>,
}
