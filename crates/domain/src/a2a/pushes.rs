//! Push notifications: receivers that a client names for a task, and the updates that they are sent (A2A §4.3).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::errors::{Failure, Fault};
use crate::canonical::{hex, sha256};
use crate::egress::{Allowed, judge, judge_secret};

/// Most receivers of one principal at one task.
pub const RECEIVERS_MOST: usize = 10;

/// Most receivers of one principal at tasks that are not over.
pub const RECEIVERS_OF_PRINCIPAL_MOST: i64 = 5_000;

/// Most bytes of an id.
const ID_BYTES: usize = 200;
/// Most bytes of a URL.
const URL_BYTES: usize = 2_048;
/// Most bytes of a token, and of credentials: they become headers.
const SECRET_BYTES: usize = 4_096;

/// Headers with the client's token. A2A §4.3.3 names none: its SDKs for Python, JavaScript and Java read the first one, that
/// for Go the second.
pub const TOKEN_HEADERS: [&str; 2] = ["x-a2a-notification-token", "a2a-notification-token"];

/// How the receiver knows the sender (A2A §4.3.2).
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authentication {
    /// Scheme of HTTP authentication, such as `Bearer`.
    #[serde(default)]
    pub scheme: String,
    /// Its credentials. They are not shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

/// A receiver of a task's updates (A2A §4.3.1).
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushConfig {
    /// Id within the task; without one always the same for one principal, so a repeated request makes no second receiver.
    #[serde(default)]
    pub id: String,
    /// The task.
    #[serde(default, alias = "task_id")]
    pub task_id: String,
    /// URL that updates are sent to.
    #[serde(default)]
    pub url: String,
    /// Text that each update carries in the headers [`TOKEN_HEADERS`]. It is not shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Authentication of the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// A request for one receiver, or to delete it (A2A §3.1.8, §3.1.10).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushQuery {
    /// The task.
    #[serde(alias = "task_id")]
    pub task_id: String,
    /// The receiver's id.
    pub id: String,
}

/// A request for the receivers of a task (A2A §3.1.9).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushListQuery {
    /// The task.
    #[serde(alias = "task_id")]
    pub task_id: String,
}

/// Receivers of a task.
#[derive(Debug, Serialize)]
pub struct PushList {
    /// They, oldest first. All are on one page, whatever page the client asks for: there are few.
    pub configs: Vec<PushConfig>,
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl fmt::Debug for PushConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, task_id, url: _, token: _, authentication } = self;
        f.debug_struct("PushConfig")
            .field("id", id)
            .field("task_id", task_id)
            .field("authentication", authentication)
            .finish_non_exhaustive()
    }
}

impl PushConfig {
    /// Returns the receiver if it can be sent to.
    ///
    /// # Errors
    /// The URL is none that may be sent to, or a member cannot be a header.
    pub fn check(self, allowed: &Allowed, https_only: bool) -> Result<Self, Failure> {
        let wrong = |told: String| Failure::new(Fault::InvalidParams, told);
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        if self.id.len() > ID_BYTES || !self.id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/') {
            return Err(wrong(format!(
                "`id` has to be up to {ID_BYTES} visible ASCII characters without a slash; it is part of a path."
            )));
        }
        if self.url.is_empty() || self.url.len() > URL_BYTES {
            return Err(wrong(format!(
                "`url` is missing or longer than {URL_BYTES} bytes. Name the URL to send to."
            )));
        }
        let token = said(self.token);
        let authentication = self
            .authentication
            .map(|auth| Authentication { credentials: said(auth.credentials), ..auth })
            .filter(|auth| !auth.scheme.is_empty() || auth.credentials.is_some());
        if let Some(token) = &token {
            header("token", token)?;
        }
        if let Some(Authentication { scheme, credentials }) = &authentication {
            if !is_token(scheme) {
                return Err(wrong(
                    "`authentication.scheme` has to be a scheme of HTTP, such as `Bearer`.".to_owned(),
                ));
            }
            credentials.as_deref().map_or(Ok(()), |text| header("authentication.credentials", text))?;
        }
        let has_secret =
            token.is_some() || authentication.as_ref().is_some_and(|auth| auth.credentials.is_some());
        let judged =
            if has_secret { judge_secret(&self.url, allowed) } else { judge(&self.url, allowed, https_only) };
        judged.map_err(|fault| wrong(format!("`url` cannot be used: {fault}.")))?;
        Ok(Self { token, authentication, ..self })
    }

    /// Returns the id by default of a principal's receiver, if another one's has the task's.
    #[must_use]
    pub fn id_of(task: &str, principal: &str) -> String {
        format!("{task}.{}", hex(&sha256(principal)[..8]))
    }

    /// Returns the receiver as one of this task, with an id by default.
    #[must_use]
    pub fn of_task(self, task: &str, default: &str) -> Self {
        let id = if self.id.is_empty() { default.to_owned() } else { self.id };
        Self { id, task_id: task.to_owned(), ..self }
    }

    /// Returns it without its secrets: others than its client may read it.
    #[must_use]
    pub fn shown(mut self) -> Self {
        self.token = None;
        if let Some(auth) = &mut self.authentication {
            auth.credentials = None;
        }
        self
    }

    /// Returns the header `Authorization`, if the sender has to show one.
    #[must_use]
    pub fn authorization(&self) -> Option<String> {
        let Authentication { scheme, credentials } = self.authentication.as_ref()?;
        Some(format!("{scheme} {}", credentials.as_deref()?))
    }
}

/// Requires that a text can be the value of a header.
fn header(member: &str, text: &str) -> Result<(), Failure> {
    if text.len() <= SECRET_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        return Ok(());
    }
    let told = format!(
        "`{member}` has to be up to {SECRET_BYTES} visible ASCII characters; it is sent as a header."
    );
    Err(Failure::new(Fault::InvalidParams, told))
}

/// A token of HTTP (RFC 9110 §5.6.2).
fn is_token(text: &str) -> bool {
    let extra = b"!#$%&'*+-.^_`|~";
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || extra.contains(&byte);
    !text.is_empty() && text.len() <= ID_BYTES && text.bytes().all(is_char)
}
