//! Push notifications of A2A tasks (A2A §4.3.3): sends the updates of a job to the receivers that clients named for it,
//! and records how far each was sent to (`arcp/src/jobs/control/pushes.rs`).
//!
//! At least once: an update that was sent and not recorded, because the server died, is sent again. A receiver that hangs
//! delays only its own updates.

use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_arcp::Ctx;
use entente_arcp::jobs::{self, Pending, Place, PushFailure, PushLease};
use entente_domain::a2a::progress::{Happened, Progress, Update};
use entente_domain::a2a::pushes::{PushConfig, TOKEN_HEADERS};
use entente_domain::ids::NodeId;
use entente_domain::limits::SMALL_PAGE_BYTES;
use entente_domain::webhooks::retries::Failed;
use entente_kernel::Outcome;
use entente_runtime::tasks::Tasks;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use super::egress::{Egress, judged};
use super::lookout::{Lookout, TASK_PUSHES};
use super::permits::Busy;
use super::{TURN, note, timely};

/// Events read at once.
const STEP: u32 = 50;

/// Duration of a lease before other receivers get a turn.
const SHIFT: Duration = Duration::from_secs(5);

/// Time that a running request gets when the server stops.
const GRACE: Duration = Duration::from_secs(3);

/// Media type of the updates (A2A §11.1).
const MEDIA_TYPE: &str = "application/a2a+json";

/// Sender of push notifications.
pub struct Pusher {
    ctx: Ctx,
    egress: Egress,
    node: NodeId,
    concurrency: usize,
    draining: CancellationToken,
    /// Signalled when a lease ends.
    freed: Arc<Notify>,
}

impl Pusher {
    /// Creates a sender to up to `concurrency` receivers at a time.
    #[must_use]
    pub fn new(
        ctx: Ctx,
        egress: Egress,
        node: NodeId,
        concurrency: usize,
        draining: CancellationToken,
    ) -> Self {
        Self { ctx, egress, node, concurrency, draining, freed: Arc::default() }
    }

    /// Sends until the server drains.
    pub async fn drive(self: Arc<Self>, lookout: Arc<Lookout>, tasks: Tasks) {
        let permits = Arc::new(Semaphore::new(self.concurrency));
        loop {
            tokio::select! {
                () = self.draining.cancelled() => return,
                () = self.freed.notified() => {}
                () = lookout.found(TASK_PUSHES) => {}
            }
            let free = permits.available_permits();
            if free == 0 {
                continue;
            }
            let claimed =
                match timely(TURN, jobs::claim_pushes(&self.ctx, self.node, free, self.concurrency)).await {
                    Ok(claimed) => claimed,
                    Err(failure) => {
                        note("push notifications", &failure);
                        continue;
                    }
                };
            for lease in claimed {
                let (pusher, busy) = (Arc::clone(&self), Busy::new(&permits, &self.freed));
                tasks.spawn("push notifications", async move {
                    pusher.serve(&lease).await;
                    drop(busy);
                });
            }
        }
    }

    /// Sends until nothing is due, for tests.
    ///
    /// # Errors
    /// The database fails.
    pub async fn step(&self) -> Outcome<u64> {
        let mut taken = 0;
        loop {
            let claimed =
                jobs::claim_pushes(&self.ctx, self.node, self.concurrency, self.concurrency).await?;
            if claimed.is_empty() {
                return Ok(taken);
            }
            taken += claimed.len() as u64;
            for lease in claimed {
                self.serve(&lease).await;
            }
        }
    }

    async fn serve(&self, lease: &PushLease) {
        if let Err(failure) = self.send_due(lease).await {
            note("push notifications", &failure);
        }
        if let Err(failure) = timely(TURN, jobs::end_push(&self.ctx, lease)).await {
            note("push notifications", &failure);
        }
    }

    async fn send_due(&self, lease: &PushLease) -> Outcome<()> {
        let began = Instant::now();
        while began.elapsed() < SHIFT && !self.draining.is_cancelled() {
            let loading = jobs::load_push(&self.ctx, lease, STEP, SMALL_PAGE_BYTES);
            let Some(pending) = timely(TURN, loading).await? else { return Ok(()) };
            if pending.events.is_empty() {
                return Ok(());
            }
            let (reached, failure) = self.send_events(&pending, began).await?;
            let stuck = failure.is_none() && !reached.is_beyond(pending.place);
            let recording = jobs::record_push(&self.ctx, lease, &pending, reached, failure);
            if !timely(TURN, recording).await? || stuck {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends the updates that events are; returns the place that was reached, and the failure that stopped it.
    async fn send_events(&self, pending: &Pending, began: Instant) -> Outcome<(Place, Option<PushFailure>)> {
        let task = pending.job.id.to_string();
        let mut progress = Progress::new(task, pending.context.clone(), pending.place.told);
        let mut reached = pending.place;
        for event in &pending.events {
            let kind = event.kind.as_deref();
            let happened = Happened { seq: event.job_seq, kind, at: event.ts, body: &event.body };
            let updates = progress.updates(&happened);
            let end = Place::after(event.job_seq, progress.told);
            let known = reached.sent;
            for (at, update) in updates.iter().enumerate().skip(known) {
                // The lease ends not long after.
                if began.elapsed() >= SHIFT {
                    return Ok((reached, None));
                }
                let beyond = if at + 1 < updates.len() { Place { sent: at + 1, ..reached } } else { end };
                match self.send(&pending.config, update).await? {
                    Sent::Taken => {
                        self.ctx.metrics.task_push("delivered");
                        reached = beyond;
                    }
                    Sent::Stopped => return Ok((reached, None)),
                    Sent::Failed(how) => {
                        let beyond = (!update.is_end()).then_some(beyond);
                        return Ok((reached, Some(PushFailure { how, beyond })));
                    }
                }
            }
            reached = end;
        }
        Ok((reached, None))
    }

    async fn send(&self, config: &PushConfig, update: &Update) -> Outcome<Sent> {
        let body = serde_json::to_vec(update)?;
        let mut headers = vec![("content-type", MEDIA_TYPE.to_owned())];
        if let Some(token) = &config.token {
            headers.extend(TOKEN_HEADERS.map(|name| (name, token.clone())));
        }
        headers.extend(config.authorization().map(|value| ("authorization", value)));
        let given_up = async {
            self.draining.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        let answer = tokio::select! {
            answer = self.egress.send(&config.url, &headers, body, self.ctx.now()) => answer,
            () = given_up => return Ok(Sent::Stopped),
        };
        Ok(judged(&answer).map_or_else(Sent::Failed, |()| Sent::Taken))
    }
}

/// Outcome of a request.
enum Sent {
    /// The receiver has it.
    Taken,
    /// The server stops.
    Stopped,
    /// It failed.
    Failed(Failed),
}
