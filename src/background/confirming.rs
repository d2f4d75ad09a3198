//! Watches whether a synchronous standby confirms commits, if one has to: a small commit twice per second. While confirmations
//! are missing, the server's pools give no connection (`entente_store::confirmations`); this task has one of its own.

use std::time::{Duration, Instant};

use entente_bridges::Ctx;
use entente_domain::ids::NodeId;
use entente_kernel::nodes;
use entente_runtime::tasks::Tasks;
use entente_store::confirmations::{Confirmations, awaits_standby};
use tokio_util::sync::CancellationToken;

use super::{every, keep, note, tick, timely};

/// Interval of the commits.
const PULSE: Duration = Duration::from_millis(500);

/// Number of these intervals between two looks whether a standby has to confirm commits.
const LOOK: u32 = 4;

/// Time limit of such a look.
const ANSWER: Duration = Duration::from_secs(2);

/// Starts the watch; `ctx` has a pool that does not wait for confirmations.
pub fn start(ctx: &Ctx, node: NodeId, confirmations: &Confirmations, tasks: &Tasks) {
    let confirmations = confirmations.clone();
    keep(ctx, tasks, "confirmations", move |ctx, stopping| {
        watch(ctx, node, Watched(confirmations.clone()), stopping)
    });
}

/// Ends the watch when it is dropped: nobody would open the pools any more.
struct Watched(Confirmations);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn watch(ctx: Ctx, node: NodeId, watched: Watched, stopping: CancellationToken) {
    let confirmations = &watched.0;
    let (mut ticks, mut pulses, mut were_missing) = (every(PULSE), 0_u32, false);
    while tick(&mut ticks, &stopping).await.is_some() {
        if pulses.is_multiple_of(LOOK) {
            look(&ctx, confirmations).await;
        }
        pulses = pulses.wrapping_add(1);
        let began = Instant::now();
        if confirmations.are_watched() {
            match nodes::probe(&ctx, node).await {
                Ok(()) => confirmations.confirmed(began),
                Err(failure) => note("confirmations", &failure),
            }
        }
        let are_missing = confirmations.are_missing();
        if are_missing && !were_missing {
            tracing::error!("no standby confirms commits; requests get 503 until one does");
        }
        were_missing = are_missing;
    }
}

/// Begins or ends the watch. While the database is away, it stays as it is.
async fn look(ctx: &Ctx, confirmations: &Confirmations) {
    let asked = timely(ANSWER, async { Ok(awaits_standby(&ctx.pool).await?) }).await;
    match asked {
        Ok(true) if !confirmations.are_watched() => confirmations.confirmed(Instant::now()),
        Ok(true) => {}
        Ok(false) => confirmations.end(),
        Err(failure) => note("confirmations", &failure),
    }
}
