//! Forms of webhook bodies: that of Standard Webhooks, and `CloudEvents` 1.0 in its structured mode.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ids::IntentId;

/// Form of the bodies that a receiver gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BodyFormat {
    /// `{"type", "timestamp", "data"}`, as in Standard Webhooks.
    #[default]
    Standard,
    /// An event of `CloudEvents` 1.0, in the JSON format's structured mode.
    CloudEvents,
}

/// A body as it is stored.
#[derive(Deserialize)]
struct Stored<'a> {
    r#type: String,
    timestamp: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// An event of `CloudEvents`.
#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: String,
    r#type: &'a str,
    time: &'a str,
    datacontenttype: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    data: &'a RawValue,
}

impl BodyFormat {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::CloudEvents => "cloudevents",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Standard, Self::CloudEvents].into_iter().find(|format| format.as_str() == text)
    }

    /// Returns the media type of the bodies.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Standard => "application/json",
            Self::CloudEvents => "application/cloudevents+json; charset=utf-8",
        }
    }

    /// Returns the `source` of an event: the intent whose log has the record, or the server.
    #[must_use]
    pub fn source(origin: &str, intent: Option<IntentId>) -> String {
        match intent {
            Some(intent) => format!("{origin}/api/v1/intents/{intent}"),
            None => format!("{origin}/api/v1"),
        }
    }

    /// Returns a stored body in this form. `id` is the `webhook-id`; `origin` is the server's public URL, or empty; the intent is
    /// the one whose log has the record, if any.
    ///
    /// `source` and `id` together are unique, and the same for each attempt and on each server (`CloudEvents` 1.0, "id"). A body
    /// that is not in the standard form, which no server stores, stays as it is.
    #[must_use]
    pub fn write(
        self,
        body: String,
        id: &str,
        origin: &str,
        intent: Option<IntentId>,
        traceparent: Option<&str>,
    ) -> String {
        if self == Self::Standard {
            return body;
        }
        let Ok(stored) = serde_json::from_str::<Stored<'_>>(&body) else { return body };
        let written = serde_json::to_string(&CloudEvent {
            specversion: "1.0",
            id,
            source: Self::source(origin, intent),
            r#type: &stored.r#type,
            time: &stored.timestamp,
            datacontenttype: "application/json",
            traceparent,
            data: stored.data,
        });
        written.unwrap_or(body)
    }
}
