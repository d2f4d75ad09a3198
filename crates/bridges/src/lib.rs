//! Where two protocols meet: envelopes that become jobs and messages, suspended intents that ask a person, jobs that
//! wait for one, triggers that submit jobs, who waits for whom, and turns, which do all of an agent's work between two thoughts in one
//! transaction. No other crate below the API names two protocols.

pub mod budgets;
pub mod bundles;
pub mod due;
pub mod envelope_bridges;
mod jobs;
pub mod retention;
pub mod suspensions;
pub mod trigger_jobs;
pub mod turns;
pub mod waits;

use std::ops::Deref;
use std::sync::Arc;

use entente_kernel::Hooks;
use entente_kernel::Pool;

pub use jobs::ArcpJobs;

/// Context of all protocols; dereferences to the kernel's. Cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    /// Context of OpenIntent's operations.
    pub openintent: entente_openintent::Ctx,
    /// Context of ARCP's operations.
    pub arcp: entente_arcp::Ctx,
    /// Context of AEE's operations.
    pub aee: entente_aee::Ctx,
    /// Context of the operations of binding moments.
    pub moments: entente_moments::Ctx,
}

impl Deref for Ctx {
    type Target = entente_kernel::Ctx;

    fn deref(&self) -> &Self::Target {
        &self.openintent
    }
}

/// States of the four protocols.
#[derive(Clone)]
pub struct States {
    /// State of OpenIntent.
    pub openintent: Arc<entente_openintent::State>,
    /// State of ARCP.
    pub arcp: Arc<entente_arcp::State>,
    /// State of AEE.
    pub aee: Arc<entente_aee::State>,
    /// State of binding moments.
    pub moments: Arc<entente_moments::State>,
}

impl States {
    /// Returns the hooks of all protocols; on the end of an intent, OpenIntent's nouns end before its questions.
    #[must_use]
    pub fn hooks(&self) -> Hooks {
        Hooks::new(vec![
            Box::new(entente_openintent::hooks::OpenIntent),
            Box::new(entente_aee::hooks::Aee),
            Box::new(entente_moments::hooks::Moments(Arc::clone(&self.moments))),
            Box::new(entente_arcp::hooks::Arcp),
        ])
    }
}

impl Ctx {
    /// Joins the kernel's context with the states of the protocols.
    #[must_use]
    pub fn new(kernel: &entente_kernel::Ctx, states: States) -> Self {
        let kernel = Arc::new(kernel.clone());
        Self {
            openintent: entente_openintent::Ctx::new(Arc::clone(&kernel), states.openintent),
            arcp: entente_arcp::Ctx::new(Arc::clone(&kernel), states.arcp),
            aee: entente_aee::Ctx::new(Arc::clone(&kernel), states.aee),
            moments: entente_moments::Ctx::new(kernel, states.moments),
        }
    }

    /// Returns the states of the protocols.
    #[must_use]
    pub fn states(&self) -> States {
        States {
            openintent: Arc::clone(&self.openintent.state),
            arcp: Arc::clone(&self.arcp.state),
            aee: Arc::clone(&self.aee.state),
            moments: Arc::clone(&self.moments.state),
        }
    }

    /// Returns this context over other connections to the same database.
    #[must_use]
    pub fn with_pool(&self, pool: Pool) -> Self {
        Self::new(&entente_kernel::Ctx { pool, ..(**self).clone() }, self.states())
    }
}
