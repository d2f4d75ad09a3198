//! Waiting for a task: until it is over, or its agent waits for its client (A2A §3.2.2).

use std::time::Duration;

use entente_arcp::jobs;
use entente_domain::a2a::submissions::SIGNAL;
use entente_domain::ids::JobId;
use entente_kernel::wakeups::WakeKey;
use entente_runtime::deadlines;
use tokio::time::{Instant, timeout_at};

use crate::replies::Failed;
use crate::visits::{Visit, standing};

/// Time that a request waits for its task at most; then the task is returned as it is.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
/// Interval after which a task is read although nothing woke the request: a notification may be lost.
const LOOK: Duration = Duration::from_secs(15);

/// Waits until a task is over, or until its worker has interrupted it by an event after `after`; at most for `patience`.
pub(crate) async fn settled(visit: &Visit, id: JobId, after: i64, patience: Duration) -> Result<(), Failed> {
    let api = &visit.api;
    deadlines::extend(patience);
    let until = Instant::now() + patience;
    let mut listener = api.ctx.feed.wakeups().listener();
    listener.add(WakeKey::Job(id));
    loop {
        let (job, _) = jobs::events(&api.ctx, &visit.caller, id, i64::MAX, 0, 0).await?;
        let position = jobs::positions(&api.ctx, std::slice::from_ref(&job), SIGNAL).await?.remove(&id);
        let (state, _, interrupted) = standing(&job, position.as_ref());
        if state.is_terminal() || interrupted.is_some_and(|seq| seq > after) || Instant::now() >= until {
            return Ok(());
        }
        tokio::select! {
            () = visit.presence.over().cancelled() => return Ok(()),
            _rung = timeout_at(until.min(Instant::now() + LOOK), listener.rung()) => {}
        }
        visit.caller.require_key(api.ctx.now())?;
    }
}
