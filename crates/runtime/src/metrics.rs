//! Metrics of one server (`/metrics`, `OpenMetrics` text).

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// Labels of an answered request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// HTTP method.
    pub method: &'static str,
    /// Route pattern, never the path: ids would create unbounded series.
    pub route: Arc<str>,
    /// HTTP status.
    pub status: u16,
}

/// Labels of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StreamLabels {
    /// `intent`, `channel`, `agent`, `all` or `wait`.
    pub kind: &'static str,
}

/// Labels of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SweepLabels {
    /// Name of the sweep.
    pub sweep: &'static str,
}

/// Labels of a command that was handed to another server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ForwardLabels {
    /// `written` there; written here because it was `refused`, `late`, or the other was `busy` or `away`.
    pub outcome: &'static str,
}

/// Labels of a background task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TaskLabels {
    /// Name of the task.
    pub task: &'static str,
}

/// Labels of an authentication.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AuthLabels {
    /// `remembered`, `verified` or `refused`.
    pub outcome: &'static str,
}

/// Labels of a webhook delivery.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WebhookLabels {
    /// `delivered`, `retried`, `failed` or `dropped`.
    pub outcome: &'static str,
}

/// Labels of a source of the search.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SearchLabels {
    /// `indexed`, `cut` (indexed without its last words) or `skipped` (not indexed).
    pub outcome: &'static str,
}

/// Labels of a credential operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CredentialLabels {
    /// `minted`, `mint_failed`, `revoked`, `revocation_failed` or `stuck`.
    pub outcome: &'static str,
}

/// Labels of a binding moment's event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MomentLabels {
    /// Event type, such as `moment.resolved`.
    pub event: &'static str,
}

/// Labels of a cache.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CacheLabels {
    /// Name of the cache.
    pub cache: &'static str,
}

/// Labels of a lookup in a cache.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CacheLookupLabels {
    /// Name of the cache.
    pub cache: &'static str,
    /// `hit` or `miss`.
    pub result: &'static str,
}

/// Metrics of one server. Cheap to clone; clones share their counts.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// Requests answered.
    pub requests: Family<RequestLabels, Counter>,
    /// Seconds from a request's first byte to its answer's head.
    pub request_seconds: Histogram,
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
    /// Rows processed by sweeps.
    pub swept: Family<SweepLabels, Counter>,
    /// Sweeps that failed.
    pub sweep_failures: Family<SweepLabels, Counter>,
    /// Background tasks that panicked or ended early.
    pub task_failures: Family<TaskLabels, Counter>,
    /// Presented keys by outcome.
    pub auth: Family<AuthLabels, Counter>,
    /// Commands handed to the servers that own their intents.
    pub forwards: Family<ForwardLabels, Counter>,
    /// 1 while the database answers.
    pub database_up: Gauge,
    /// Deliveries to webhook receivers.
    pub webhooks: Family<WebhookLabels, Counter>,
    /// Endpoints with a delivery in progress.
    pub webhook_leases: Gauge,
    /// Milliseconds from an event to its place in the delivery queue.
    pub webhook_lag: Gauge,
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
        let seconds = || Histogram::new(exponential_buckets(0.000_25, 2.0, 16));
        let metrics = Self {
            registry: Arc::default(),
            requests: Family::default(),
            request_seconds: seconds(),
            messages: Counter::default(),
            commit_batch: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            commit_seconds: seconds(),
            commit_waiting: Gauge::default(),
            streams: Family::default(),
            frames: Counter::default(),
            catch_ups: Counter::default(),
            swept: Family::default(),
            sweep_failures: Family::default(),
            task_failures: Family::default(),
            auth: Family::default(),
            forwards: Family::default(),
            database_up: Gauge::default(),
            webhooks: Family::default(),
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
        registry.register("http_requests", "Requests answered", metrics.requests.clone());
        registry.register_with_unit(
            "http_request",
            "Time to answer",
            Unit::Seconds,
            metrics.request_seconds.clone(),
        );
        registry.register("messages", "Messages accepted", metrics.messages.clone());
        registry.register("commit_batch", "Commands per group commit", metrics.commit_batch.clone());
        registry.register_with_unit(
            "commit",
            "Time of a group commit",
            Unit::Seconds,
            metrics.commit_seconds.clone(),
        );
        registry.register("commit_waiting", "Commands waiting for a writer", metrics.commit_waiting.clone());
        registry.register("streams", "Open streams", metrics.streams.clone());
        registry.register("stream_frames", "Frames handed to streams", metrics.frames.clone());
        registry.register(
            "stream_catch_ups",
            "Streams caught up from the database",
            metrics.catch_ups.clone(),
        );
        registry.register("swept_rows", "Rows dealt with by sweeps", metrics.swept.clone());
        registry.register("sweep_failures", "Sweeps that failed", metrics.sweep_failures.clone());
        registry.register(
            "task_failures",
            "Background tasks that panicked or ended unasked",
            metrics.task_failures.clone(),
        );
        registry.register("keys_judged", "Presented keys by outcome", metrics.auth.clone());
        registry.register("forwards", "Commands handed to other servers", metrics.forwards.clone());
        registry.register("database_up", "1 while the database answers", metrics.database_up.clone());
        metrics.register_background(&mut registry);
        metrics.register_moments(&mut registry);
        metrics.register_caches(&mut registry);
        Self { registry: Arc::new(registry), ..metrics }
    }

    fn register_background(&self, registry: &mut Registry) {
        registry.register("search_sources", "Sources by outcome of their indexing", self.searchable.clone());
        registry.register("credentials", "Credentials by outcome", self.credentials.clone());
        registry.register("webhook_deliveries", "Deliveries by outcome", self.webhooks.clone());
        registry.register("webhook_leases", "Endpoints that are sent to", self.webhook_leases.clone());
        registry.register("webhook_lag_ms", "From the log to the queue", self.webhook_lag.clone());
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

    /// Counts deliveries by outcome.
    pub fn webhook_outcome(&self, outcome: &'static str, count: usize) {
        self.webhooks.get_or_create(&WebhookLabels { outcome }).inc_by(count as u64);
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
        let mut text = String::new();
        // Writing into a `String` cannot fail.
        let _written = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
