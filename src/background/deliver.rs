//! Webhook delivery: signs and sends queued deliveries, and records the outcomes
//! (`kernel/src/webhooks/deliveries.rs`). No transaction is open during a request, and a receiver that hangs delays
//! only its own deliveries. Those of a sink are published to a broker instead (`deliver/sinks.rs`).

pub mod broker;
mod jetstream;
mod kafka;
mod sinks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_bridges::Ctx;
use entente_domain::clock::Timestamp;
use entente_domain::ids::NodeId;
use entente_domain::traces::Trace;
use entente_domain::webhooks::formats::BodyFormat;
use entente_domain::webhooks::retries::Failed;
use entente_domain::webhooks::signing::Secrets;
use entente_domain::webhooks::sinks::Sink;
use entente_kernel::Outcome;
use entente_kernel::webhooks::deliveries;
use entente_kernel::webhooks::deliveries::{Attempted, Batch, Due, EndpointLease, Next};
use entente_kernel::webhooks::endpoints;
use entente_runtime::tasks::Tasks;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use self::broker::Sinks;
use super::egress::{Answer, Egress, RequestFailure, judged};
use super::lookout::{DELIVERIES, Lookout};
use super::permits::Busy;
use super::standstill::Standstill;
use super::{TURN, note, timely};

/// Duration of an endpoint's lease before other endpoints get a turn.
const SHIFT: Duration = Duration::from_secs(5);

/// Deliveries recorded together, and the longest delay before that: they are sent again if the server dies
/// before it records them.
const TOGETHER: usize = 16;
const UNWRITTEN: Duration = Duration::from_millis(500);

/// Time that a running attempt gets when the server stops.
const GRACE: Duration = Duration::from_secs(3);

/// Webhook sender.
pub struct WebhookSender {
    /// Context for the operations.
    pub ctx: Ctx,
    egress: Egress,
    sinks: Sinks,
    /// The server's public URL, which `CloudEvents` name as their source; empty without one.
    origin: String,
    node: NodeId,
    concurrency: usize,
    draining: CancellationToken,
    /// Signalled when an endpoint lease ends.
    freed: Arc<Notify>,
    /// Detects suspensions of this process.
    pub standstill: Arc<Standstill>,
}

/// An endpoint lease in progress, which is counted until its end in any case.
struct Serving {
    webhook_sender: Arc<WebhookSender>,
    _busy: Busy,
}

impl Serving {
    fn new(webhook_sender: Arc<WebhookSender>, busy: Busy) -> Self {
        webhook_sender.ctx.metrics.webhook_leases.inc();
        Self { webhook_sender, _busy: busy }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.webhook_sender.ctx.metrics.webhook_leases.dec();
    }
}

impl WebhookSender {
    /// Creates a sender with `concurrency` permits.
    #[must_use]
    pub fn new(
        ctx: Ctx,
        egress: Egress,
        sinks: Sinks,
        origin: String,
        node: NodeId,
        concurrency: usize,
        draining: CancellationToken,
    ) -> Self {
        let (freed, standstill) = (Arc::default(), Arc::default());
        Self { ctx, egress, sinks, origin, node, concurrency, draining, freed, standstill }
    }

    /// Delivers until the server drains.
    ///
    /// Each endpoint lease has its own task, so that one that waits for a database connection does not delay
    /// the others.
    pub async fn drive(self: Arc<Self>, lookout: Arc<Lookout>, tasks: Tasks) {
        let permits = Arc::new(Semaphore::new(self.concurrency));
        loop {
            tokio::select! {
                () = self.draining.cancelled() => return,
                () = self.ctx.webhooks.queued() => {}
                () = self.freed.notified() => {}
                () = lookout.found(DELIVERIES) => {}
            }
            let free = permits.available_permits();
            if free == 0 {
                continue;
            }
            match timely(TURN, deliveries::claim(&self.ctx, self.node, free)).await {
                Ok(claimed) => {
                    for lease in claimed {
                        let serving = Serving::new(Arc::clone(&self), Busy::new(&permits, &self.freed));
                        tasks.spawn("webhook lease", async move {
                            serving.webhook_sender.serve(lease).await;
                            drop(serving);
                        });
                    }
                }
                Err(failure) => note("webhook claims", &failure),
            }
        }
    }

    /// Delivers until nothing is due, for tests; returns the number of endpoint leases.
    ///
    /// # Errors
    /// The database fails.
    pub async fn step(&self) -> Outcome<u64> {
        let mut taken = 0;
        loop {
            let claimed = deliveries::claim(&self.ctx, self.node, self.concurrency).await?;
            if claimed.is_empty() {
                return Ok(taken);
            }
            taken += claimed.len() as u64;
            let mut leases: FuturesUnordered<_> =
                claimed.into_iter().map(|lease| self.serve(lease)).collect();
            while leases.next().await.is_some() {}
        }
    }

    /// Runs through one endpoint lease.
    async fn serve(&self, lease: EndpointLease) {
        let done = self.send_due(&lease).await;
        if let Err(failure) = &done {
            note("webhook deliveries", failure);
        }
        if let Err(failure) = timely(TURN, deliveries::end(&self.ctx, &lease, done.is_err())).await {
            note("webhook shifts", &failure);
        }
    }

    async fn send_due(&self, lease: &EndpointLease) -> Outcome<()> {
        let began = Instant::now();
        while began.elapsed() < SHIFT && !self.draining.is_cancelled() {
            let loaded = timely(TURN, deliveries::load(&self.ctx, lease)).await?;
            let Some(batch) = loaded else { return Ok(()) };
            let url = batch.url.clone();
            let sent = match Sink::parse(&url) {
                Some(sink) => self.publish(lease, batch, &sink).await?,
                None => self.send(lease, batch).await?,
            };
            match sent {
                Next::Continue => {}
                Next::Pause | Next::Lost => return Ok(()),
                Next::Disable(reason) => {
                    endpoints::disable(&self.ctx, lease.endpoint_id, &url, reason).await?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Sends a batch in sequence. Successes are recorded a few at a time, failures at once.
    async fn send(&self, lease: &EndpointLease, batch: Batch) -> Outcome<Next> {
        let Batch { url, format, secrets, due } = batch;
        let mut made = Vec::new();
        let mut since = Instant::now();
        for mut one in due {
            let at = self.ctx.now();
            let headers = self.prepare(&mut one, format, &secrets, at);
            let Some(attempted) = self.attempt(&url, one, &headers, at).await else { break };
            let failed = attempted.failure.is_some();
            made.push(attempted);
            if failed || made.len() >= TOGETHER || since.elapsed() > UNWRITTEN {
                let next =
                    timely(TURN, deliveries::record(&self.ctx, lease, &std::mem::take(&mut made))).await?;
                if next != Next::Continue {
                    return Ok(next);
                }
                since = Instant::now();
            }
        }
        if made.is_empty() {
            Ok(Next::Continue)
        } else {
            timely(TURN, deliveries::record(&self.ctx, lease, &made)).await
        }
    }

    /// Brings the body into its form, and returns the headers, which sign it.
    fn prepare(
        &self,
        one: &mut Due,
        format: BodyFormat,
        secrets: &Secrets,
        at: Timestamp,
    ) -> Vec<(&'static str, String)> {
        let trace = one.trace_id.as_deref().and_then(|id| Trace::of_id(id, &*self.ctx.chance));
        let trace = trace.map(|trace| trace.to_string());
        let (body, id) = (std::mem::take(&mut one.body), &one.webhook_id);
        one.body = format.write(body, id, &self.origin, one.intent_id, trace.as_deref());
        let mut headers = vec![
            ("content-type", format.content_type().to_owned()),
            ("webhook-id", id.clone()),
            ("webhook-timestamp", at.timestamp().to_string()),
            ("webhook-signature", secrets.header(id, at, one.body.as_bytes())),
        ];
        headers.extend(trace.map(|trace| ("traceparent", trace)));
        headers
    }

    /// Returns whether a receiver used up its timeout, without the time that this server was suspended.
    fn was_silent(&self, took: Duration, lost: Duration, answer: &Result<Answer, RequestFailure>) -> bool {
        let timeout = self.ctx.settings.webhooks.timeout;
        matches!(answer, Err(RequestFailure::TimedOut)) && took.saturating_sub(lost) >= timeout
    }

    /// Makes one attempt.
    ///
    /// `None` when the server stops, or when the attempt failed while the server itself was suspended: it is
    /// then repeated and not counted.
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
            answer = self.egress.send(url, headers, one.body.into_bytes(), at) => answer,
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
        if let Err(Failed { failure, error, retry_after }) = judged(&answer) {
            (attempted.failure, attempted.error, attempted.retry_after) =
                (Some(failure), Some(error), retry_after);
        }
        if let Ok(answer) = answer {
            attempted.status = Some(answer.status);
            attempted.response = Some(answer.body).filter(|body| !body.is_empty());
        }
        Some(attempted)
    }
}
