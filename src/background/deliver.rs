//! Delivering: what is queued is signed and sent, and what came of it is written down (`kernel/src/deliveries.rs`). No transaction
//! is open while a receiver is waited for; a receiver that hangs keeps nobody waiting but itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_domain::clock::Timestamp;
use entente_domain::ids::NodeId;
use entente_domain::retries::Failure;
use entente_domain::traces::Trace;
use entente_kernel::deliveries::{self, Attempted, Batch, Due, Next, Shift};
use entente_kernel::{Ctx, Outcome, endpoints};
use entente_runtime::tasks::Tasks;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::egress::{Answer, Egress, Silence};
use super::standstill::Standstill;
use super::{TURN, every, note, timely};

/// How often it is looked whether something has become due.
const BEAT: Duration = Duration::from_millis(250);

/// How long one endpoint is sent to before others get theirs.
const SHIFT: Duration = Duration::from_secs(5);

/// Deliveries that are written down together, and how long that may wait: when a server dies, these are sent again.
const TOGETHER: usize = 16;
const UNWRITTEN: Duration = Duration::from_millis(500);

/// How long an attempt under way may go on when the server stops.
const GRACE: Duration = Duration::from_secs(3);

/// Who delivers.
pub struct Courier {
    /// What deeds are handed.
    pub ctx: Ctx,
    egress: Egress,
    node: NodeId,
    concurrency: usize,
    draining: CancellationToken,
    /// A shift ended.
    freed: Notify,
    /// When this process itself stood still.
    pub standstill: Arc<Standstill>,
}

/// A hand that is busy: free again however its shift ends.
struct Busy<'a> {
    courier: &'a Courier,
    hand: Option<OwnedSemaphorePermit>,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.courier.ctx.metrics.webhook_shifts.dec();
        drop(self.hand.take());
        self.courier.freed.notify_one();
    }
}

impl Courier {
    /// A courier with so many hands.
    #[must_use]
    pub fn new(
        ctx: Ctx,
        egress: Egress,
        node: NodeId,
        concurrency: usize,
        draining: CancellationToken,
    ) -> Self {
        let (freed, standstill) = (Notify::new(), Arc::default());
        Self { ctx, egress, node, concurrency, draining, freed, standstill }
    }

    /// Delivers until the server drains. Each shift is a task of its own: one that waits for a connection must not keep
    /// those waiting that have one.
    pub async fn drive(self: Arc<Self>, tasks: Tasks) {
        let hands = Arc::new(Semaphore::new(self.concurrency));
        let mut beat = every(BEAT);
        loop {
            tokio::select! {
                () = self.draining.cancelled() => return,
                () = self.ctx.webhooks.queued() => {}
                () = self.freed.notified() => {}
                _ = beat.tick() => {}
            }
            let free = hands.available_permits();
            if free == 0 {
                continue;
            }
            match timely(TURN, deliveries::claim(&self.ctx, self.node, free)).await {
                Ok(claimed) => {
                    for shift in claimed {
                        let (courier, hand) = (Arc::clone(&self), Arc::clone(&hands).try_acquire_owned());
                        self.ctx.metrics.webhook_shifts.inc();
                        tasks.spawn("webhook shift", async move {
                            let busy = Busy { courier: &courier, hand: hand.ok() };
                            courier.shift(shift).await;
                            drop(busy);
                        });
                    }
                }
                Err(failure) => note("webhook claims", &failure),
            }
        }
    }

    /// Delivers what is due until nothing is, for tests; answers with how many shifts that took.
    ///
    /// # Errors
    /// The database.
    pub async fn step(&self) -> Outcome<u64> {
        let mut taken = 0;
        loop {
            let claimed = deliveries::claim(&self.ctx, self.node, self.concurrency).await?;
            if claimed.is_empty() {
                return Ok(taken);
            }
            taken += claimed.len() as u64;
            let mut shifts: FuturesUnordered<_> =
                claimed.into_iter().map(|shift| self.shift(shift)).collect();
            while shifts.next().await.is_some() {}
        }
    }

    /// Has one endpoint's shift.
    async fn shift(&self, shift: Shift) {
        let done = self.send_due(&shift).await;
        if let Err(failure) = &done {
            note("webhook deliveries", failure);
        }
        if let Err(failure) = timely(TURN, deliveries::end(&self.ctx, &shift, done.is_err())).await {
            note("webhook shifts", &failure);
        }
    }

    async fn send_due(&self, shift: &Shift) -> Outcome<()> {
        let began = Instant::now();
        while began.elapsed() < SHIFT && !self.draining.is_cancelled() {
            let loaded = timely(TURN, deliveries::load(&self.ctx, shift)).await?;
            let Some(batch) = loaded else { return Ok(()) };
            let url = batch.url.clone();
            match self.send(shift, batch).await? {
                Next::Continue => {}
                Next::Pause | Next::Lost => return Ok(()),
                Next::Disable(reason) => {
                    endpoints::disable(&self.ctx, shift.endpoint_id, &url, reason).await?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Sends a batch one after the other. What arrived is written down a few at a time, what did not at once.
    async fn send(&self, shift: &Shift, batch: Batch) -> Outcome<Next> {
        let Batch { url, secrets, due } = batch;
        let mut made = Vec::new();
        let mut since = Instant::now();
        for one in due {
            let at = self.ctx.now();
            let headers = self.headers(&one, secrets.header(&one.webhook_id, at, one.body.as_bytes()), at);
            let Some(attempted) = self.attempt(&url, one, &headers, at).await else { break };
            let failed = attempted.failure.is_some();
            made.push(attempted);
            if failed || made.len() >= TOGETHER || since.elapsed() > UNWRITTEN {
                let next =
                    timely(TURN, deliveries::record(&self.ctx, shift, &std::mem::take(&mut made))).await?;
                if next != Next::Continue {
                    return Ok(next);
                }
                since = Instant::now();
            }
        }
        if made.is_empty() {
            Ok(Next::Continue)
        } else {
            timely(TURN, deliveries::record(&self.ctx, shift, &made)).await
        }
    }

    /// Whether a receiver was silent for as long as it may be, without the time that this server has lost.
    fn was_silent(&self, took: Duration, lost: Duration, answer: &Result<Answer, Silence>) -> bool {
        let timeout = self.ctx.settings.webhooks.timeout;
        matches!(answer, Err(Silence::TimedOut)) && took.saturating_sub(lost) >= timeout
    }

    fn headers(&self, one: &Due, signature: String, at: Timestamp) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("webhook-id", one.webhook_id.clone()),
            ("webhook-timestamp", at.timestamp().to_string()),
            ("webhook-signature", signature),
        ];
        let trace = one.trace_id.as_deref().and_then(|id| Trace::of_id(id, &*self.ctx.chance));
        headers.extend(trace.map(|trace| ("traceparent", trace.to_string())));
        headers
    }

    /// One attempt; `None` when it was given up because the server stops, or failed while the server itself stood still: then it
    /// is made again, and counts as none.
    async fn attempt(
        &self,
        url: &str,
        one: Due,
        headers: &[(&'static str, String)],
        at: Timestamp,
    ) -> Option<Attempted> {
        let (began, lost_before) = (Instant::now(), self.standstill.lost());
        let given_up = async {
            self.draining.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        let answer = tokio::select! {
            answer = self.egress.post(url, headers, one.body, at) => answer,
            () = given_up => return None,
        };
        let lost = self.standstill.lost().saturating_sub(lost_before);
        if !lost.is_zero() && answer.is_err() && !self.was_silent(began.elapsed(), lost, &answer) {
            tracing::info!(
                lost.ms = lost.as_millis(),
                "a delivery failed while this server stood still; it is made again"
            );
            return None;
        }
        let mut attempted = Attempted {
            id: one.id,
            attempts: one.attempts + 1,
            at,
            status: None,
            error: None,
            millis: u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX),
            response: None,
            failure: None,
            retry_after: None,
        };
        match answer {
            Ok(answer) => {
                attempted.status = Some(answer.status);
                attempted.response = Some(answer.body).filter(|body| !body.is_empty());
                attempted.retry_after = answer.retry_after;
                if !(200..300).contains(&answer.status) {
                    attempted.failure = Some(Failure::Status(answer.status));
                    attempted.error = Some(format!("it answered {}", answer.status));
                }
            }
            Err(Silence::TimedOut) => {
                attempted.failure = Some(Failure::TimedOut);
                attempted.error = Some("it did not answer in time".to_owned());
            }
            Err(Silence::Unreachable(why)) => {
                attempted.failure = Some(Failure::Unreachable);
                attempted.error = Some(why);
            }
        }
        Some(attempted)
    }
}
