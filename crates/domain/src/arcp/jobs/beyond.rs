//! Members of `job.submit` that ARCP does not have. REST has them beside ARCP's own; a client of a session may send them as
//! one member `x-entente`, which other servers ignore.

use serde::{Deserialize, Serialize};

use super::ask::Submit;
use super::labels::Labels;
use super::limits::Concurrency;
use super::retries::RetryPolicy;

/// The members of `job.submit` beyond ARCP, for clients that send them apart from ARCP's own.
#[derive(Debug, Clone, Default, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = JobSubmitBeyond)]
pub struct Beyond {
    /// Same as the member `priority` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Same as the member `retry` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Same as the member `start_at` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_at: Option<String>,
    /// Same as the member `queue_timeout_sec` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_timeout_sec: Option<i64>,
    /// Same as the member `labels` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub labels: Option<Labels>,
    /// Same as the member `concurrency` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
}

impl Submit {
    /// Returns the requested priority; the member of the request goes before the same one of its `x-entente`.
    #[must_use]
    pub fn asked_priority(&self) -> Option<i64> {
        self.priority.or(self.x_entente.as_ref().and_then(|beyond| beyond.priority))
    }

    /// Returns the requested labels; the member of the request goes before the same one of its `x-entente`.
    #[must_use]
    pub fn asked_labels(&self) -> Labels {
        let apart = || self.x_entente.as_ref().and_then(|beyond| beyond.labels.as_ref());
        self.labels.as_ref().or_else(apart).cloned().unwrap_or_default()
    }

    /// Returns the requested concurrency key, likewise.
    #[must_use]
    pub fn asked_concurrency(&self) -> Option<Concurrency> {
        self.concurrency.clone().or_else(|| self.x_entente.as_ref()?.concurrency.clone())
    }
}
