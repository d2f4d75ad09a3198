//! The YAML format of RFC-0021 for workflows, and the checks that need no server.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};

use super::faults::Fault;

/// Version of the format that this reads.
const VERSION: &str = "1.0";

/// A workflow. Unknown keys are refused, so that no typo is overlooked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    /// Version of the format.
    version: Spanned<String>,
    /// Name that identifies the workflow when it is applied again; defaults to the intent's title.
    name: Option<Spanned<String>>,
    /// The intent that everything belongs to.
    pub intent: IntentForm,
    /// The intent's channels.
    #[serde(default)]
    pub channels: BTreeMap<String, Option<ChannelForm>>,
    /// The agents that work on the intent.
    #[serde(default)]
    pub agents: BTreeMap<String, Option<AgentForm>>,
    /// The intent's tasks.
    #[serde(default)]
    pub tasks: BTreeMap<String, Option<TaskForm>>,
    /// Retry policy after failures (RFC-0010).
    pub retry: Option<RetryForm>,
}

/// The intent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IntentForm {
    /// The goal, in one line.
    pub title: Spanned<String>,
    /// The goal in detail.
    pub description: Option<String>,
    /// Constraints on the work.
    #[serde(default)]
    pub constraints: Map<String, Value>,
    /// Initial state; agents change it later.
    #[serde(default)]
    pub state: Map<String, Value>,
}

/// A channel.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChannelForm {
    /// The members.
    pub members: Option<Vec<String>>,
    /// Membership policy.
    pub member_policy: Option<Policy>,
    /// Whether the intent's log records its messages.
    pub audit: Option<bool>,
    /// Seconds after which it closes.
    pub ttl_seconds: Option<u32>,
    /// Most messages to keep.
    pub max_messages: Option<u32>,
    /// The task that it belongs to, and closes with.
    pub task: Option<Spanned<String>>,
}

/// Membership policy of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Policy {
    /// Only the listed members.
    Explicit,
    /// All agents with access to the intent.
    Intent,
}

/// An agent.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentForm {
    /// Its role on the intent; defaults to `worker`.
    pub role: Option<String>,
    /// Display name. With this or one of the next two, the agent is registered.
    pub name: Option<String>,
    /// Role under which it can be addressed.
    pub role_id: Option<String>,
    /// Its capabilities.
    pub capabilities: Option<Vec<String>>,
    /// The channels that its handlers subscribe to; only the agent's own program uses this.
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
    /// Description of the work.
    pub description: Option<String>,
    /// Priority.
    pub priority: Option<String>,
    /// The agent that it is reserved for.
    pub assign: Option<Spanned<String>>,
    /// Tasks that must be completed first.
    #[serde(default)]
    pub depends_on: Vec<Spanned<String>>,
    /// Capabilities that an agent needs to claim it.
    pub capabilities: Option<Vec<String>>,
    /// Input of the task.
    pub input: Option<Map<String, Value>>,
    /// Seconds that one attempt may take.
    pub timeout_seconds: Option<u32>,
    /// Most attempts.
    pub max_attempts: Option<u32>,
    /// Policy for the pause between attempts.
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

impl Form {
    /// Parses a workflow.
    ///
    /// # Errors
    /// All errors in it, as far as it can be parsed.
    pub(super) fn read(text: &str) -> Result<Self, Vec<Fault>> {
        let options = serde_saphyr::options! { with_snippet: false };
        let form = serde_saphyr::from_str_with_options::<Self>(text, options)
            .map_err(|error| vec![Fault::at(error.location().unwrap_or(Location::UNKNOWN), told(&error))])?;
        let faults = form.faults();
        if faults.is_empty() { Ok(form) } else { Err(faults) }
    }

    /// Creates the form of an intent with channels, for a workflow that was read in another form.
    pub(super) fn of_intent(
        title: String,
        description: Option<String>,
        channels: BTreeMap<String, Option<ChannelForm>>,
    ) -> Self {
        let spanned = |text| Spanned::new(text, Location::UNKNOWN, Location::UNKNOWN);
        let (constraints, state) = (Map::new(), Map::new());
        Self {
            version: spanned(VERSION.to_owned()),
            name: None,
            intent: IntentForm { title: spanned(title), description, constraints, state },
            channels,
            agents: BTreeMap::new(),
            tasks: BTreeMap::new(),
            retry: None,
        }
    }

    /// Returns the name that identifies the workflow.
    pub(super) fn name(&self) -> &str {
        &self.name.as_ref().unwrap_or(&self.intent.title).value
    }

    /// Returns the semantic errors of a parsed workflow.
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

    /// Returns a task, if the file gives more than its name.
    pub(super) fn task(&self, name: &str) -> Option<&TaskForm> {
        self.tasks.get(name)?.as_ref()
    }

    /// Returns the tasks, each after its dependencies.
    ///
    /// # Errors
    /// The tasks that depend on each other.
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

/// Returns the parser's message, in one line and without its position.
pub(super) fn told(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let text = text.lines().next().unwrap_or_default();
    let place = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
    let text = place.and_then(|place| text.strip_suffix(place.as_str())).unwrap_or(text);
    // Removes advice that addresses programmers, not authors of YAML.
    text.split(", set DuplicateKeyPolicy").next().unwrap_or(text).to_owned()
}
