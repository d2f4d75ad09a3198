//! Reads one phase of a workflow of the SDK.

use serde_json::{Map, Value, json};

use super::super::tree::{Content, Node};
use super::permissions;
use super::reader::Reader;
use super::types::{Phase, Treatment};

/// Members that a phase may have.
const KNOWN: [&str; 18] = [
    "title",
    "description",
    "assign",
    "depends_on",
    "constraints",
    "initial_state",
    "retry",
    "leasing",
    "cost_tracking",
    "attachments",
    "permissions",
    "access",
    "delegation",
    "context",
    "inputs",
    "outputs",
    "skip_when",
    "timeout_seconds",
];

/// Reads the phases, in the order of the file.
pub(super) fn read_all(
    reader: &mut Reader,
    tree: &Node,
    types: Option<&Value>,
    most: Option<&Value>,
) -> Vec<Phase> {
    let found = tree.get("workflow").map(|node| reader.table(node, "workflow")).unwrap_or_default();
    if found.is_empty() {
        let place = tree
            .members()
            .iter()
            .find(|(key, _)| key == "workflow")
            .map_or(tree.place, |(_, node)| node.place);
        reader.fault(
            place,
            "workflow",
            "it has no phases. Add one: `name:` with `assign: agent-id` below it",
        );
    }
    found.iter().map(|(key, node)| read(reader, key, node, types, most)).collect()
}

fn read(reader: &mut Reader, key: &str, node: &Node, types: Option<&Value>, most: Option<&Value>) -> Phase {
    let path = format!("workflow.{key}");
    let at = |member: &str| format!("{path}.{member}");
    reader.table(node, &path);
    reader.unknown(node, &path, &KNOWN);
    let text =
        |reader: &mut Reader, member: &str| node.get(member).and_then(|node| reader.text(node, &at(member)));
    let assign = text(reader, "assign").unwrap_or_default();
    if assign.is_empty() {
        let message = "no agent is assigned. Add `assign: agent-id`";
        reader.fault(node.place, &at("assign"), message);
    }
    let mut phase = Phase {
        key: key.to_owned(),
        title: text(reader, "title").unwrap_or_else(|| title(key)),
        description: text(reader, "description").unwrap_or_default(),
        assign,
        depends_on: node
            .get("depends_on")
            .map(|node| reader.texts(node, &at("depends_on")))
            .unwrap_or_default(),
        constraints: constraints(reader, key, node),
        ..Phase::default()
    };
    if let Some(state) = node.get("initial_state") {
        reader.table(state, &at("initial_state"));
        phase.state = state.object();
    }
    phase.retry = node.get("retry").map(|node| retry(reader, node, &at("retry")));
    phase.policy = budget(reader, node, &path, most);
    phase.access = permissions::read(reader, node, &path, &mut phase);
    contracts(reader, node, &path, types, &mut phase);
    ignored(reader, node, &path);
    // The state has the settings under the names by which the SDK's agents read them.
    for (member, name) in
        [("retry", "retry_policy"), ("leasing", "leasing_config"), ("cost_tracking", "cost_tracking")]
    {
        phase.state.extend(node.get(member).map(|node| (name.to_owned(), node.value())));
    }
    phase
}

/// Returns the SDK's title of a phase without one: its key as words with capitals.
fn title(key: &str) -> String {
    let mut begins = true;
    let capital = |letter: char| {
        let shown: String =
            if begins { letter.to_uppercase().collect() } else { letter.to_lowercase().collect() };
        begins = !letter.is_alphabetic();
        shown
    };
    key.replace('_', " ").chars().map(capital).collect()
}

/// Returns the constraints: a list becomes `rules`, as on the wire; `phase` is the mark by which the intent is found again.
fn constraints(reader: &mut Reader, key: &str, node: &Node) -> Map<String, Value> {
    let mut constraints = Map::new();
    if let Some(given) = node.get("constraints") {
        match &given.content {
            Content::Table(_) => constraints = given.object(),
            Content::List(_) => drop(constraints.insert("rules".to_owned(), given.value())),
            Content::Scalar(_) => {
                let message = "this must be a list of rules, or a table";
                reader.fault(given.place, &format!("workflow.{key}.constraints"), message);
            }
        }
    }
    constraints.insert("phase".to_owned(), json!(key));
    constraints
}

fn retry(reader: &mut Reader, node: &Node, path: &str) -> Map<String, Value> {
    let mut policy = Map::new();
    reader.table(node, path);
    if let Some(backoff) = node.get("backoff") {
        let strategy = match backoff.text() {
            Some("constant" | "fixed") => "fixed",
            Some("linear") => "linear",
            Some("exponential") => "exponential",
            Some("none") => "none",
            Some(_) | None => {
                let message = "this must be `constant`, `linear`, `exponential` or `none`";
                reader.fault(backoff.place, &format!("{path}.backoff"), message);
                "none"
            }
        };
        policy.insert("strategy".to_owned(), json!(strategy));
    }
    let numbers = [
        ("max_attempts", "max_retries"),
        ("initial_delay_ms", "base_delay_ms"),
        ("max_delay_ms", "max_delay_ms"),
    ];
    for (member, name) in numbers {
        let number = node.get(member).and_then(|node| reader.count(node, &format!("{path}.{member}")));
        policy.extend(number.map(|number| (name.to_owned(), json!(number))));
    }
    let fallback = node.get("fallback_agent");
    let fallback = fallback.and_then(|node| reader.text(node, &format!("{path}.fallback_agent")));
    policy.extend(fallback.map(|agent| ("fallback_agent_id".to_owned(), json!(agent))));
    if let Some(errors) = node.get("retryable_errors") {
        let why = "the server counts failures of every kind; an agent reports one that is not to be retried as such";
        reader.note(errors, &format!("{path}.retryable_errors"), Treatment::Kept, why);
    }
    let known =
        ["backoff", "max_attempts", "initial_delay_ms", "max_delay_ms", "fallback_agent", "retryable_errors"];
    reader.unknown(node, path, &known);
    policy
}

/// Returns the governance policy of a phase: the lower of its own budget and the limit of the workflow's costs; empty
/// without either.
fn budget(reader: &mut Reader, phase: &Node, path: &str, most: Option<&Value>) -> Map<String, Value> {
    let mut limit = most.cloned();
    if let Some(node) = phase.get("cost_tracking") {
        let path = format!("{path}.cost_tracking");
        reader.table(node, &path);
        reader.unknown(node, &path, &["enabled", "budget_usd", "alert_at_percent"]);
        if let Some(alert) = node.get("alert_at_percent") {
            let why = "the server refuses costs above the limit and does not warn before";
            reader.note(alert, &format!("{path}.alert_at_percent"), Treatment::Kept, why);
        }
        let is_on = node.get("enabled").is_none_or(|node| node.value() == json!(true));
        let own = node.get("budget_usd").filter(|_| is_on);
        let own = own.and_then(|node| reader.amount(node, &format!("{path}.budget_usd")));
        limit = [own, limit].into_iter().flatten().min_by(|one, other| {
            let amount = |value: &Value| value.as_f64().unwrap_or(f64::MAX);
            amount(one).total_cmp(&amount(other))
        });
    }
    limit.map(|limit| ("max_cost".to_owned(), limit)).into_iter().collect()
}

/// Keeps the contracts of inputs and outputs (RFC-0024) where the SDK's agents read them.
fn contracts(reader: &mut Reader, node: &Node, path: &str, types: Option<&Value>, phase: &mut Phase) {
    let kept = |reader: &mut Reader, member: &str, node: &Node| {
        let why = "the SDK's agents check it (RFC-0024); the server does not";
        reader.note(node, &format!("{path}.{member}"), Treatment::Kept, why);
    };
    if let Some(inputs) = node.get("inputs") {
        kept(reader, "inputs", inputs);
        phase.state.insert("_io_inputs".to_owned(), inputs.value());
    }
    if let Some(outputs) = node.get("outputs") {
        kept(reader, "outputs", outputs);
        let declared = match &outputs.content {
            Content::List(_) => {
                let keys = reader.texts(outputs, &format!("{path}.outputs"));
                keys.into_iter().map(|key| (key, json!("any"))).collect()
            }
            Content::Table(_) | Content::Scalar(_) => outputs.object(),
        };
        phase.state.insert("_io_outputs".to_owned(), Value::Object(declared));
    }
    phase.state.extend(types.map(|types| ("_io_types".to_owned(), types.clone())));
}

fn ignored(reader: &mut Reader, node: &Node, path: &str) {
    let members = [
        (
            "leasing",
            Treatment::Kept,
            "agents acquire leases themselves (RFC-0003), when they change a part of the state",
        ),
        (
            "attachments",
            Treatment::Ignored,
            "they are the results of the phase; agents attach them by reference",
        ),
        (
            "skip_when",
            Treatment::Ignored,
            "nothing evaluates conditions, the SDK included: the phase is not skipped",
        ),
        (
            "timeout_seconds",
            Treatment::Ignored,
            "an intent has no time limit; limit the phase's tasks or jobs",
        ),
    ];
    for (member, treatment, why) in members {
        if let Some(found) = node.get(member) {
            reader.note(found, &format!("{path}.{member}"), treatment, why);
        }
    }
}
