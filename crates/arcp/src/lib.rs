//! ARCP 1.1: jobs, the workers that run them, client sessions and provisioned credentials.

mod columns;
pub mod credentials;
pub mod hooks;
pub mod inventory;
pub mod jobs;
mod session_rows;
pub mod sessions;
pub mod workers;

use std::ops::Deref;
use std::sync::Arc;

use crate::credentials::Provisioners;
use crate::jobs::JobSettings;
use crate::sessions::SessionSettings;

/// State of ARCP.
pub struct State {
    /// Job settings.
    pub jobs: JobSettings,
    /// Session settings.
    pub sessions: SessionSettings,
    /// Provisioners of job credentials.
    pub provisioners: Provisioners,
}

/// Context of the operations: the kernel's, and the state of this protocol; cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    /// The kernel's context.
    pub kernel: Arc<entente_kernel::Ctx>,
    /// The state of this protocol.
    pub state: Arc<State>,
}

impl Deref for Ctx {
    type Target = entente_kernel::Ctx;

    fn deref(&self) -> &Self::Target {
        &self.kernel
    }
}
