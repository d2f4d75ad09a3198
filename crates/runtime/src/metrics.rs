//! Metrics of one server (`/metrics`, `OpenMetrics` text).

mod labels;
mod levels;
mod pools;
mod process;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use self::levels::LastLevels;
use self::pools::Pools;
use self::process::Process;

pub use self::labels::*;
pub use self::levels::Levels;
pub use self::pools::PoolUsage;

/// Constructor of histograms of seconds: from a quarter of a millisecond to 65 seconds, in steps of four, because each route
/// has one.
#[derive(Debug, Clone, Copy)]
pub struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.000_25, 4.0, 10))
    }
}

/// Metrics of one server. Cheap to clone; clones share their counts.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    pools: Arc<Pools>,
    levels: Arc<LastLevels>,
    /// Requests answered.
    pub requests: Family<RequestLabels, Counter>,
    /// Seconds from a request's first byte to its answer's head, without those that waited for an event.
    pub request_seconds: Family<RouteLabels, Histogram, Seconds>,
    /// The same of requests that waited for an event: long polls, and calls that wait for an answer.
    pub wait_seconds: Family<RouteLabels, Histogram, Seconds>,
    /// Messages accepted.
    pub messages: Counter,
    /// Commands per group commit.
    pub commit_batch: Histogram,
    /// Seconds per group commit.
    pub commit_seconds: Histogram,
    /// Commands waiting for a writer.
    pub commit_waiting: Gauge,
    /// Open streams.
    pub streams: Family<StreamLabels, Gauge>,
    /// Frames handed to streams.
    pub frames: Counter,
    /// Times that a stream fell behind and was caught up from the database.
    pub catch_ups: Counter,
    /// Seconds from a record's time to its hand-over to a stream that was not behind.
    pub stream_lag: Histogram,
    /// Jobs that ended.
    pub jobs_ended: Family<JobLabels, Counter>,
    /// Seconds from the submission of jobs to their ends.
    pub job_seconds: Family<JobLabels, Histogram, Seconds>,
    /// Rows processed by sweeps.
    pub swept: Family<SweepLabels, Counter>,
    /// Seconds of sweeps' steps.
    pub sweep_seconds: Family<SweepLabels, Histogram, Seconds>,
    /// Sweeps that failed.
    pub sweep_failures: Family<SweepLabels, Counter>,
    /// Background tasks that panicked or ended early.
    pub task_failures: Family<TaskLabels, Counter>,
    /// Presented keys by outcome.
    pub auth: Family<AuthLabels, Counter>,
    /// Requests, bodies and writes refused by a quota.
    pub quota_refusals: Family<QuotaLabels, Counter>,
    /// Commands handed to the servers that own their intents.
    pub forwards: Family<ForwardLabels, Counter>,
    /// End of the listener's certificate, in seconds since 1970; nothing without a certificate.
    pub certificate_end: Family<NoLabels, Gauge>,
    /// 1 while the database answers.
    pub database_up: Gauge,
    /// Deliveries to webhook receivers.
    pub webhooks: Family<WebhookLabels, Counter>,
    /// Updates of tasks to their receivers.
    pub task_pushes: Family<WebhookLabels, Counter>,
    /// Messages to people.
    pub notifications: Family<NotificationLabels, Counter>,
    /// Endpoints with a delivery in progress.
    pub webhook_leases: Gauge,
    /// Seconds from an event to its place in the delivery queue.
    pub webhook_lag: Gauge<f64, AtomicU64>,
    /// Pending deliveries, counted up to a limit.
    pub webhook_waiting: Gauge,
    /// Messages, events and jobs that the search took in.
    pub searchable: Family<SearchLabels, Counter>,
    /// Credentials minted and revoked for jobs.
    pub credentials: Family<CredentialLabels, Counter>,
    /// Events of binding moments.
    pub moments: Family<MomentLabels, Counter>,
    /// Questions that carry a calibration note (binding moment §5.9).
    pub calibration_notes: Counter,
    /// Lookups in caches (`cache.rs`).
    pub(crate) cache_lookups: Family<CacheLookupLabels, Counter>,
    /// Entries that full caches dropped.
    pub(crate) cache_evictions: Family<CacheLabels, Counter>,
    /// Entries in caches; those of several caches with one name are added up.
    pub(crate) cache_entries: Family<CacheLabels, Gauge>,
}

/// Creates a registry that names the build.
fn registry(commit: &'static str) -> Registry {
    let mut registry = Registry::with_prefix("entente");
    let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION")), ("commit", commit)]);
    registry.register("build", "The program that runs", build);
    registry
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates metrics, all zero, of a build without a commit.
    #[must_use]
    pub fn new() -> Self {
        Self::of_build("unknown")
    }

    /// Creates metrics, all zero, of the build from this commit.
    #[must_use]
    pub fn of_build(commit: &'static str) -> Self {
        let mut registry = registry(commit);
        let metrics = Self {
            registry: Arc::default(),
            pools: Arc::default(),
            levels: Arc::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(Seconds),
            wait_seconds: Family::new_with_constructor(Seconds),
            messages: Counter::default(),
            commit_batch: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            commit_seconds: Seconds.new_metric(),
            commit_waiting: Gauge::default(),
            streams: Family::default(),
            frames: Counter::default(),
            catch_ups: Counter::default(),
            stream_lag: Seconds.new_metric(),
            jobs_ended: Family::default(),
            job_seconds: Family::new_with_constructor(Seconds),
            swept: Family::default(),
            sweep_seconds: Family::new_with_constructor(Seconds),
            sweep_failures: Family::default(),
            task_failures: Family::default(),
            auth: Family::default(),
            quota_refusals: Family::default(),
            forwards: Family::default(),
            certificate_end: Family::default(),
            database_up: Gauge::default(),
            webhooks: Family::default(),
            task_pushes: Family::default(),
            notifications: Family::default(),
            webhook_leases: Gauge::default(),
            webhook_lag: Gauge::default(),
            webhook_waiting: Gauge::default(),
            searchable: Family::default(),
            credentials: Family::default(),
            moments: Family::default(),
            calibration_notes: Counter::default(),
            cache_lookups: Family::default(),
            cache_evictions: Family::default(),
            cache_entries: Family::default(),
        };
        metrics.register_requests(&mut registry);
        metrics.register_messages(&mut registry);
        registry.register("keys_judged", "Presented keys by outcome", metrics.auth.clone());
        registry.register("forwards", "Commands handed to other servers", metrics.forwards.clone());
        registry.register_with_unit(
            "certificate_end_timestamp",
            "End of the listener's certificate, in seconds since 1970",
            Unit::Seconds,
            metrics.certificate_end.clone(),
        );
        registry.register("database_up", "1 while the database answers", metrics.database_up.clone());
        registry.register_collector(Box::new(Arc::clone(&metrics.pools)));
        metrics.register_jobs(&mut registry);
        metrics.register_background(&mut registry);
        metrics.register_moments(&mut registry);
        metrics.register_caches(&mut registry);
        Self { registry: Arc::new(registry), ..metrics }
    }

    fn register_requests(&self, registry: &mut Registry) {
        registry.register("http_requests", "Requests answered", self.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time to answer a request that does not wait for an event",
            Unit::Seconds,
            self.request_seconds.clone(),
        );
        registry.register_with_unit(
            "http_wait_duration",
            "Time to answer a request that waits for an event, such as a long poll",
            Unit::Seconds,
            self.wait_seconds.clone(),
        );
        registry.register("quota_refusals", "Requests that a quota refused", self.quota_refusals.clone());
    }

    fn register_messages(&self, registry: &mut Registry) {
        registry.register("messages", "Messages accepted", self.messages.clone());
        registry.register("commit_batch", "Commands per group commit", self.commit_batch.clone());
        registry.register_with_unit(
            "commit_duration",
            "Time of a group commit",
            Unit::Seconds,
            self.commit_seconds.clone(),
        );
        registry.register("commit_waiting", "Commands waiting for a writer", self.commit_waiting.clone());
        registry.register("streams", "Open streams", self.streams.clone());
        registry.register("stream_frames", "Frames handed to streams", self.frames.clone());
        registry.register("stream_catch_ups", "Streams caught up from the database", self.catch_ups.clone());
        registry.register_with_unit(
            "stream_lag",
            "Time from a record to its hand-over to a stream that was not behind",
            Unit::Seconds,
            self.stream_lag.clone(),
        );
    }

    fn register_jobs(&self, registry: &mut Registry) {
        registry.register("jobs_ended", "Jobs that ended", self.jobs_ended.clone());
        registry.register_with_unit(
            "job_duration",
            "Time from a job's submission to its end",
            Unit::Seconds,
            self.job_seconds.clone(),
        );
        registry.register_collector(Box::new(Arc::clone(&self.levels)));
    }

    fn register_background(&self, registry: &mut Registry) {
        registry.register("swept_rows", "Rows dealt with by sweeps", self.swept.clone());
        registry.register_with_unit(
            "sweep_duration",
            "Time of a step of a sweep",
            Unit::Seconds,
            self.sweep_seconds.clone(),
        );
        registry.register("sweep_failures", "Sweeps that failed", self.sweep_failures.clone());
        registry.register(
            "task_failures",
            "Background tasks that panicked or ended unasked",
            self.task_failures.clone(),
        );
        registry.register("search_sources", "Sources by outcome of their indexing", self.searchable.clone());
        registry.register("credentials", "Credentials by outcome", self.credentials.clone());
        registry.register(
            "task_pushes",
            "Push notifications of A2A tasks by outcome",
            self.task_pushes.clone(),
        );
        registry.register("webhook_deliveries", "Deliveries by outcome", self.webhooks.clone());
        registry.register(
            "notifications",
            "Messages to people by kind of contact point and outcome",
            self.notifications.clone(),
        );
        registry.register("webhook_leases", "Endpoints that are sent to", self.webhook_leases.clone());
        registry.register_with_unit(
            "webhook_lag",
            "Time from the log to the queue",
            Unit::Seconds,
            self.webhook_lag.clone(),
        );
        registry.register("webhook_waiting", "Deliveries that wait", self.webhook_waiting.clone());
    }

    fn register_moments(&self, registry: &mut Registry) {
        registry.register("moments", "What became of binding moments", self.moments.clone());
        registry.register(
            "moment_calibration_notes",
            "Questions that came with a calibration note",
            self.calibration_notes.clone(),
        );
    }

    fn register_caches(&self, registry: &mut Registry) {
        registry.register("cache_lookups", "Lookups in caches by result", self.cache_lookups.clone());
        registry.register("cache_evictions", "Entries dropped by full caches", self.cache_evictions.clone());
        registry.register("cache_entries", "Entries in caches", self.cache_entries.clone());
    }

    /// Adds a pool of database connections, whose use is read at each scrape.
    pub fn watch_pool(&self, name: &'static str, read: impl Fn() -> PoolUsage + Send + Sync + 'static) {
        self.pools.add(name, Box::new(read));
    }

    /// Counts an answered request, and its time.
    pub fn answered(&self, labels: &RequestLabels, waited: bool, seconds: f64) {
        self.requests.get_or_create(labels).inc();
        let times = if waited { &self.wait_seconds } else { &self.request_seconds };
        let route = RouteLabels { method: labels.method, route: Arc::clone(&labels.route) };
        times.get_or_create(&route).observe(seconds);
    }

    /// Counts a request, a body or a write that a quota refused.
    pub fn quota_refused(&self, quota: &'static str) {
        self.quota_refusals.get_or_create(&QuotaLabels { quota }).inc();
    }

    /// Counts a job that ended, and the seconds since its submission.
    pub fn job_ended(&self, status: &'static str, seconds: f64) {
        let labels = JobLabels { status };
        self.jobs_ended.get_or_create(&labels).inc();
        self.job_seconds.get_or_create(&labels).observe(seconds.max(0.0));
    }

    /// Sets the levels of the whole system; `None` if they could not be read.
    pub fn set_levels(&self, levels: Option<Levels>) {
        self.levels.set(levels);
    }

    /// Counts deliveries by outcome.
    pub fn webhook_outcome(&self, outcome: &'static str, count: usize) {
        self.webhooks.get_or_create(&WebhookLabels { outcome }).inc_by(count as u64);
    }

    /// Counts push notifications of tasks by outcome.
    pub fn task_push(&self, outcome: &'static str) {
        self.task_pushes.get_or_create(&WebhookLabels { outcome }).inc();
    }

    /// Counts a notification of a person by the kind of contact point and its outcome.
    pub fn notification(&self, kind: &'static str, outcome: &'static str) {
        self.notifications.get_or_create(&NotificationLabels { kind, outcome }).inc();
    }

    /// Counts sources of the search by outcome.
    pub fn search_outcome(&self, outcome: &'static str, count: usize) {
        self.searchable.get_or_create(&SearchLabels { outcome }).inc_by(count as u64);
    }

    /// Counts credentials by outcome.
    pub fn credential_outcome(&self, outcome: &'static str, count: usize) {
        self.credentials.get_or_create(&CredentialLabels { outcome }).inc_by(count as u64);
    }

    /// Returns the metrics as `OpenMetrics` text.
    #[must_use]
    pub fn text(&self) -> String {
        // Their names are everybody's, without the prefix.
        let mut process = Registry::default();
        process.register_collector(Box::new(Process));
        let mut text = String::new();
        // Writing into a `String` cannot fail.
        let _written = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &process))
            .and_then(|()| encode_eof(&mut text));
        text
    }
}
