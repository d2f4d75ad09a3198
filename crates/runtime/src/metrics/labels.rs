//! Labels of the metrics. Each has few values: never an id, a name or a path of a client.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;

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

/// Labels of the time of requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RouteLabels {
    /// HTTP method.
    pub method: &'static str,
    /// Route pattern.
    pub route: Arc<str>,
}

/// Labels of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StreamLabels {
    /// `intent`, `channel`, `agent`, `all` or `wait`.
    pub kind: &'static str,
}

/// Labels of a job that ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct JobLabels {
    /// Its last status: `success`, `error`, `cancelled` or `timed_out`.
    pub status: &'static str,
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

/// Labels of a message to a person.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NotificationLabels {
    /// Kind of the contact point.
    pub kind: &'static str,
    /// `sent`, `retried` or `failed`.
    pub outcome: &'static str,
}

/// Labels of a refusal by a quota.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QuotaLabels {
    /// `open_requests`, `bytes` or `storage`.
    pub quota: &'static str,
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

/// Labels of a metric that has no value at times, unlike a metric without a family.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NoLabels {}
