//! A workflow as it is written: the YAML form of RFC-0021, and what can be said of it without a server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};

/// The version of the form that this reads.
const VERSION: &str = "1.0";

/// A workflow. Keys that it does not have are refused, so that no word is overlooked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    /// The form's version.
    version: Spanned<String>,
    /// What the workflow is known by when it is applied again; the intent's title when nothing is said.
    name: Option<Spanned<String>>,
    /// The intent that everything belongs to.
    pub intent: IntentForm,
    /// Where its agents talk.
    #[serde(default)]
    pub channels: BTreeMap<String, Option<ChannelForm>>,
    /// Who works on it.
    #[serde(default)]
    pub agents: BTreeMap<String, Option<AgentForm>>,
    /// What is to be done.
    #[serde(default)]
    pub tasks: BTreeMap<String, Option<TaskForm>>,
    /// How it is tried again after a failure (RFC-0010).
    pub retry: Option<RetryForm>,
}

/// The intent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IntentForm {
    /// What is to be done, in a line.
    pub title: Spanned<String>,
    /// The same at length.
    pub description: Option<String>,
    /// What must hold on the way.
    #[serde(default)]
    pub constraints: Map<String, Value>,
    /// What is known at the beginning; later it is the agents'.
    #[serde(default)]
    pub state: Map<String, Value>,
}

/// A channel.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChannelForm {
    /// Who takes part.
    pub members: Option<Vec<String>>,
    /// Who takes part at all.
    pub member_policy: Option<Policy>,
    /// Whether its messages are in the log.
    pub audit: Option<bool>,
    /// Seconds after which it closes.
    pub ttl_seconds: Option<u32>,
    /// Messages that are kept.
    pub max_messages: Option<u32>,
    /// The task that it is about, and ends with.
    pub task: Option<Spanned<String>>,
}

/// Who takes part in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Policy {
    /// Its members.
    Explicit,
    /// Everybody with access to the intent.
    Intent,
}

/// An agent.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentForm {
    /// What it is to the intent; `worker` when nothing is said.
    pub role: Option<String>,
    /// A name for people. With this or one of the next two, the agent is registered.
    pub name: Option<String>,
    /// The role to be addressed by.
    pub role_id: Option<String>,
    /// What it can do.
    pub capabilities: Option<Vec<String>>,
    /// Which of its handlers hear which channel: for the agent's own program.
    #[serde(default)]
    on_message: Vec<HandlerForm>,
}

/// A handler of an agent's program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HandlerForm {
    channel: Spanned<String>,
    #[expect(dead_code, reason = "it is the agent's program that has it; here it is only a known key")]
    handler: String,
}

/// A task.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskForm {
    /// What is to be done, at length.
    pub description: Option<String>,
    /// How much it matters.
    pub priority: Option<String>,
    /// Which agent it is kept for.
    pub assign: Option<Spanned<String>>,
    /// The tasks that must be completed before it.
    #[serde(default)]
    pub depends_on: Vec<Spanned<String>>,
    /// What an agent must be able to do to claim it.
    pub capabilities: Option<Vec<String>>,
    /// What it is done with.
    pub input: Option<Map<String, Value>>,
    /// Seconds that one attempt may take.
    pub timeout_seconds: Option<u32>,
    /// Attempts at the most.
    pub max_attempts: Option<u32>,
    /// How long it rests between two attempts.
    pub retry_policy: Option<String>,
}

/// The intent's retry policy.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_delay_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_delay_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_threshold: Option<u32>,
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    place: Option<(u64, u64)>,
    message: String,
}

impl Fault {
    fn at(location: Location, message: String) -> Self {
        let known = location != Location::UNKNOWN;
        Self { place: known.then(|| (location.line(), location.column())), message }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{line}:{column}: {}", self.message),
            None => write!(f, " {}", self.message),
        }
    }
}

impl Form {
    /// Reads a workflow.
    ///
    /// # Errors
    /// Everything that is wrong with it, as far as it can be read.
    pub(super) fn read(text: &str) -> Result<Self, Vec<Fault>> {
        let options = serde_saphyr::options! { with_snippet: false };
        let form = serde_saphyr::from_str_with_options::<Self>(text, options).map_err(|error| {
            let mut message = told(&error);
            if text.lines().any(|line| line.starts_with("openintent:")) {
                message.push_str(
                    ". This looks like the form of the Python SDK (`openintent:`, `workflow:`), which its WorkflowSpec runs; \
                     here the form of RFC-0021 is read",
                );
            }
            vec![Fault::at(error.location().unwrap_or(Location::UNKNOWN), message)]
        })?;
        let faults = form.faults();
        if faults.is_empty() { Ok(form) } else { Err(faults) }
    }

    /// What the workflow is known by.
    pub(super) fn name(&self) -> &str {
        &self.name.as_ref().unwrap_or(&self.intent.title).value
    }

    /// What is wrong with it although it could be read.
    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut fault =
            |place: &Spanned<String>, message: String| faults.push(Fault::at(place.referenced, message));
        if self.version.value != VERSION && self.version.value != "1" {
            fault(
                &self.version,
                format!("version `{}` is not known; this reads \"{VERSION}\"", self.version.value),
            );
        }
        for text in self.name.iter().chain([&self.intent.title]).filter(|text| text.value.trim().is_empty()) {
            fault(text, "it is empty".to_owned());
        }
        for handler in self.agents.values().flatten().flat_map(|agent| &agent.on_message) {
            if !self.channels.contains_key(&handler.channel.value) {
                let message = format!("there is no channel `{}` under `channels`", handler.channel.value);
                fault(&handler.channel, message);
            }
        }
        let no_task = |name: &str| format!("there is no task `{name}` under `tasks`");
        for task in self.channels.values().flatten().filter_map(|channel| channel.task.as_ref()) {
            if !self.tasks.contains_key(&task.value) {
                fault(task, no_task(&task.value));
            }
        }
        for task in self.tasks.values().flatten() {
            for name in task.depends_on.iter().filter(|name| !self.tasks.contains_key(&name.value)) {
                fault(name, no_task(&name.value));
            }
            if let Some(agent) = task.assign.as_ref().filter(|agent| !self.agents.contains_key(&agent.value))
            {
                fault(agent, format!("there is no agent `{}` under `agents`", agent.value));
            }
        }
        if faults.is_empty()
            && let Err(stuck) = self.order()
        {
            let place = stuck.iter().find_map(|name| self.task(name)?.depends_on.first());
            let message = format!("these tasks wait for each other: {}", stuck.join(", "));
            faults.push(Fault::at(place.map_or(Location::UNKNOWN, |place| place.referenced), message));
        }
        faults
    }

    /// A task, if more than its name is said of it.
    pub(super) fn task(&self, name: &str) -> Option<&TaskForm> {
        self.tasks.get(name)?.as_ref()
    }

    /// The tasks, each after those that it waits for.
    ///
    /// # Errors
    /// Those that wait for each other.
    pub(super) fn order(&self) -> Result<Vec<&str>, Vec<&str>> {
        let mut done: BTreeSet<&str> = BTreeSet::new();
        let mut order = Vec::new();
        let mut left: Vec<&str> = self.tasks.keys().map(String::as_str).collect();
        while !left.is_empty() {
            let waits = |name: &&str| {
                let task = self.task(name);
                task.is_some_and(|task| {
                    task.depends_on.iter().any(|before| !done.contains(before.value.as_str()))
                })
            };
            let (later, now): (Vec<&str>, Vec<&str>) = left.iter().partition(|name| waits(name));
            if now.is_empty() {
                return Err(later);
            }
            done.extend(&now);
            order.extend(now);
            left = later;
        }
        Ok(order)
    }
}

/// What the reader says, in one line and without its place.
fn told(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let text = text.lines().next().unwrap_or_default();
    let place = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
    let text = place.and_then(|place| text.strip_suffix(place.as_str())).unwrap_or(text);
    // Advice to whoever writes a program that reads YAML, and nobody who writes YAML.
    text.split(", set DuplicateKeyPolicy").next().unwrap_or(text).to_owned()
}
