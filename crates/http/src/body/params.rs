//! Headers and query parameters that many operations take, as the OpenAPI document describes them. The path parameters
//! are in `openapi/parameters.rs`.
#![expect(dead_code, reason = "only the OpenAPI document uses the fields")]

use utoipa::IntoParams;

/// The key of a write that may be retried.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IdempotencyKey {
    /// Idempotency key: a retry with the same key is executed once
    #[param(rename = "Idempotency-Key")]
    key: Option<String>,
}

/// The version that a write requires.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IfMatch {
    /// Version last read
    #[param(rename = "If-Match")]
    version: i64,
}

/// The version that a write requires, if the client sends one.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IfMatchMaybe {
    /// Version last read; defaults to any version
    #[param(rename = "If-Match")]
    version: Option<i64>,
}

/// The frame after which a stream resumes.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct LastEventId {
    /// Id of the last frame received; the stream resumes after it
    #[param(rename = "Last-Event-ID")]
    id: Option<String>,
}

/// The same, for clients that cannot set headers.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LastEventIdQuery {
    /// As `Last-Event-ID`, for clients that cannot set headers
    last_event_id: Option<String>,
}

/// Where a channel's stream begins, for readers of its list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SinceParam {
    /// Without `Last-Event-ID`: begin after this message id, or after the `Entente-Next-Cursor` of a page
    since: Option<String>,
}

/// The types of the records that a stream shows.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventTypesParam {
    /// Names of the events to receive, separated by commas or repeated: types of the log, `channel_message`,
    /// `message_read`, `message_expired`, the names of the SDK's agents (`AGENT_ASSIGNED` and so on), globs such as
    /// `task.*`, `posted` or `posted:TYPE` for events of clients, `*` for all. Defaults to all, except on
    /// `/agents/{agent_id}/subscribe`; an unknown name is 422
    #[param(example = "agent_assigned,channel_message")]
    event_types: Option<String>,
}

/// The size of a page, 100 by default.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Limit100 {
    /// Page size, 1 to 1,000; defaults to 100
    #[param(maximum = 1000)]
    limit: Option<u32>,
}

/// The size of a page, 1,000 by default.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Limit1000 {
    /// Page size, 1 to 1,000; defaults to 1,000
    #[param(maximum = 1000)]
    limit: Option<u32>,
}
