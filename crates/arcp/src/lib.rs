//! ARCP 1.1: jobs, the workers that run them, client sessions and provisioned credentials.

mod columns;
pub mod credentials;
pub mod hooks;
pub mod inventory;
pub mod jobs;
pub mod limits;
pub mod queues;
mod session_rows;
pub mod sessions;
pub mod workers;

use entente_kernel::ProtocolCtx;

use crate::credentials::Provisioners;
use crate::jobs::{JobSettings, Turns};
use crate::sessions::SessionSettings;

/// State of ARCP.
pub struct State {
    /// Job settings.
    pub jobs: JobSettings,
    /// Whose turn it is in the queues of jobs.
    pub turns: Turns,
    /// Session settings.
    pub sessions: SessionSettings,
    /// Provisioners of job credentials.
    pub provisioners: Provisioners,
}

/// Context of the operations.
pub type Ctx = ProtocolCtx<State>;
