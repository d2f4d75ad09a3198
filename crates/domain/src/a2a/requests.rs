//! Parameters of A2A's operations (§3.2). Numbers, booleans and times may be written as text, as in a query (§11.5); unknown
//! members have no effect, because later versions add some.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::errors::{Failure, Fault};
use super::messages::{Message, object_of};
use super::pushes::PushConfig;
use super::tasks::TaskState;
use crate::clock::{self, Timestamp};

/// Most tasks on a page, and how many there are by default (§3.1.4).
pub const PAGE_MOST: u32 = 100;
/// See [`PAGE_MOST`].
pub const PAGE_DEFAULT: u32 = 50;

fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Number(number) => {
            number.as_i64().map(Some).ok_or_else(|| D::Error::custom("it is no whole number"))
        }
        Value::String(text) => {
            text.parse().map(Some).map_err(|_no_number| D::Error::custom("it is no whole number"))
        }
        _ => Err(D::Error::custom("it is no whole number")),
    }
}

fn truth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Bool(is) => Ok(Some(is)),
        Value::String(text) if text == "true" => Ok(Some(true)),
        Value::String(text) if text == "false" => Ok(Some(false)),
        _ => Err(D::Error::custom("it is neither true nor false")),
    }
}

/// The settings of a request to send a message (§3.2.2).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Media types that the client takes.
    #[serde(default, alias = "accepted_output_modes")]
    pub accepted_output_modes: Option<Vec<String>>,
    /// Where to send updates to.
    #[serde(default, alias = "task_push_notification_config")]
    pub task_push_notification_config: Option<PushConfig>,
    /// See [`TaskQuery::history_length`].
    #[serde(default, alias = "history_length", deserialize_with = "whole")]
    pub history_length: Option<i64>,
    /// Whether to return while the task is in progress.
    #[serde(default, alias = "return_immediately", deserialize_with = "truth")]
    pub return_immediately: Option<bool>,
}

/// A request to send a message (§3.2.1).
#[derive(Debug, Clone, Deserialize)]
pub struct SendRequest {
    /// The message.
    #[serde(deserialize_with = "object_of")]
    pub message: Message,
    /// Its settings.
    #[serde(default)]
    pub configuration: Option<Configuration>,
    /// Metadata, an object.
    #[serde(default)]
    pub metadata: Option<Box<RawValue>>,
}

/// A request for a task (§3.1.3).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskQuery {
    /// The task.
    pub id: String,
    /// Most messages of its history to return, the latest; all if absent.
    #[serde(default, alias = "history_length", deserialize_with = "whole")]
    pub history_length: Option<i64>,
}

/// A request for tasks (§3.1.4).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListQuery {
    /// Only tasks of this context.
    #[serde(default, alias = "context_id")]
    pub context_id: Option<String>,
    /// Only tasks in this state.
    #[serde(default)]
    pub status: Option<String>,
    /// Most tasks on a page.
    #[serde(default, alias = "page_size", deserialize_with = "whole")]
    pub page_size: Option<i64>,
    /// `nextPageToken` of the page before.
    #[serde(default, alias = "page_token")]
    pub page_token: Option<String>,
    /// Most messages of each task's history; none if absent.
    #[serde(default, alias = "history_length", deserialize_with = "whole")]
    pub history_length: Option<i64>,
    /// Only tasks whose state is not older than this time.
    #[serde(default, alias = "status_timestamp_after")]
    pub status_timestamp_after: Option<String>,
    /// Whether to return the tasks' artifacts.
    #[serde(default, alias = "include_artifacts", deserialize_with = "truth")]
    pub include_artifacts: Option<bool>,
}

/// A valid request for tasks.
#[derive(Debug, Clone)]
pub struct ListAsk {
    /// See [`ListQuery::context_id`].
    pub context_id: Option<String>,
    /// See [`ListQuery::status`].
    pub state: Option<TaskState>,
    /// See [`ListQuery::page_size`].
    pub page_size: u32,
    /// The place behind which the page begins.
    pub after: Option<PageToken>,
    /// See [`ListQuery::history_length`].
    pub history_length: usize,
    /// See [`ListQuery::status_timestamp_after`].
    pub since: Option<Timestamp>,
    /// See [`ListQuery::include_artifacts`].
    pub artifacts: bool,
}

/// The last task of a page: its time in microseconds, and its id. Tasks are listed from the latest to the earliest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageToken(pub i64, pub String);

impl PageToken {
    /// Returns the form on the wire.
    #[must_use]
    pub fn show(&self) -> String {
        format!("{}.{}", self.0, self.1)
    }

    /// Parses the form on the wire; `None` if it is none.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (at, id) = text.split_once('.')?;
        (id.starts_with("job_") && id.len() < 60).then_some(())?;
        Some(Self(at.parse().ok()?, id.to_owned()))
    }
}

impl ListQuery {
    /// Checks the parameters.
    ///
    /// # Errors
    /// One is invalid.
    pub fn check(self) -> Result<ListAsk, Failure> {
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        let state = match said(self.status).as_deref() {
            None | Some("TASK_STATE_UNSPECIFIED") => None,
            Some(text) => Some(TaskState::parse(text).ok_or_else(|| {
                Failure::invalid("status", "is no state of a task, such as TASK_STATE_WORKING")
            })?),
        };
        let page_size = match self.page_size {
            None | Some(0) => PAGE_DEFAULT,
            Some(size) => u32::try_from(size).ok().filter(|size| *size <= PAGE_MOST).ok_or_else(|| {
                Failure::invalid("pageSize", &format!("has to be a number from 1 to {PAGE_MOST}"))
            })?,
        };
        let after = said(self.page_token)
            .map(|text| {
                PageToken::read(&text)
                    .ok_or_else(|| Failure::invalid("pageToken", "is none of this list's. Begin without one"))
            })
            .transpose()?;
        let since = said(self.status_timestamp_after)
            .map(|text| {
                clock::parse(&text).ok_or_else(|| {
                    Failure::invalid("statusTimestampAfter", "has to be a time such as 2036-05-13T23:42:00Z")
                })
            })
            .transpose()?;
        Ok(ListAsk {
            context_id: said(self.context_id),
            state,
            page_size,
            after,
            history_length: history(self.history_length)?.unwrap_or(0),
            since,
            artifacts: self.include_artifacts.unwrap_or(false),
        })
    }
}

/// Checks a number of messages of a history (§3.2.4).
///
/// # Errors
/// It is below zero.
pub fn history(length: Option<i64>) -> Result<Option<usize>, Failure> {
    let read = |length: i64| {
        usize::try_from(length)
            .map_err(|_negative| Failure::invalid("historyLength", "must not be below zero"))
    };
    length.map(read).transpose()
}

/// Parses the parameters of an operation; none are like an empty object.
///
/// # Errors
/// They are not an object of this form.
pub fn params<T: DeserializeOwned>(raw: Option<&RawValue>) -> Result<T, Failure> {
    let text = raw.map_or("{}", RawValue::get);
    if !text.starts_with('{') {
        return Err(Failure::new(Fault::InvalidParams, "`params` has to be an object."));
    }
    serde_json::from_str(text).map_err(|e| {
        let told = e.to_string();
        let told = told.rsplit_once(" at line ").map_or(told.as_str(), |(told, _)| told);
        Failure::new(Fault::InvalidParams, format!("The parameters are wrong: {told}."))
    })
}
