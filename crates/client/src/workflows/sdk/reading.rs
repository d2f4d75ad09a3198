//! Reads a workflow of the SDK: the members beside the phases, and the treatment of each.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::faults::Fault;
use super::super::form::{ChannelForm, Form, Policy};
use super::super::tree::Node;
use super::reader::Reader;
use super::types::{SdkForm, Treatment};
use super::{phase, wiring};

/// Members for the agents' own programs, with the reason why they are not applied.
const FOR_AGENTS: [(&str, &str); 2] = [
    ("llm", "models are called by the agents; configure them where the agents run"),
    ("mcp", "MCP servers are started by the agents; give tools that the server calls to a vault (RFC-0014)"),
];

/// Reads the workflow.
///
/// # Errors
/// All of its faults.
pub(super) fn read(tree: &Node) -> Result<SdkForm, Vec<Fault>> {
    let mut reader = Reader::default();
    version(&mut reader, tree);
    let (name, description) = info(&mut reader, tree);
    let governance = governance(&mut reader, tree);
    let agents = agents(&mut reader, tree);
    let channels = channels(&mut reader, tree);
    let types = tree.get("types").map(Node::value);
    if let Some(node) = tree.get("types") {
        let why = "the SDK's agents check results against them; the server does not";
        reader.note(node, "types", Treatment::Kept, why);
    }
    let mut phases = phase::read_all(&mut reader, tree, types.as_ref(), governance.most.as_ref());
    wiring::check(&mut reader, tree, &mut phases);
    others(&mut reader, tree);
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    reader.notes.sort_by_key(|note| note.place);
    let root = Form::of_intent(name, description, channels);
    Ok(SdkForm { root, policy: governance.policy, agents, phases, notes: reader.notes })
}

fn version(reader: &mut Reader, tree: &Node) {
    let given = tree.get("openintent");
    let known = given.and_then(|node| reader.text(node, "openintent"));
    if !matches!(known.as_deref(), Some("1.0" | "1")) {
        let place = given.or(Some(tree)).and_then(|node| node.place);
        reader.fault(place, "openintent", "this version is not known; write `openintent: \"1.0\"`");
    }
}

fn info(reader: &mut Reader, tree: &Node) -> (String, Option<String>) {
    let Some(info) = tree.get("info") else {
        let message = "the workflow has no name. Add `info:` with `name: \"…\"`";
        reader.fault(tree.place, "info.name", message);
        return (String::new(), None);
    };
    reader.table(info, "info");
    reader.unknown(info, "info", &["name", "version", "description"]);
    let name = info.get("name").and_then(|node| reader.text(node, "info.name")).unwrap_or_default();
    if name.trim().is_empty() {
        reader.fault(info.place, "info.name", "the workflow has no name. Add `name: \"…\"` under `info:`");
    }
    if let Some(version) = info.get("version") {
        let why = "it is the file's own version; a workflow is found again by its name";
        reader.note(version, "info.version", Treatment::Ignored, why);
    }
    let description = info.get("description").and_then(|node| reader.text(node, "info.description"));
    (name, description)
}

/// Result of reading `governance`.
struct Governance {
    /// Policy of the workflow's own intent.
    policy: Map<String, Value>,
    /// Most that a phase may cost.
    most: Option<Value>,
}

fn governance(reader: &mut Reader, tree: &Node) -> Governance {
    let mut read = Governance { policy: Map::new(), most: None };
    let Some(node) = tree.get("governance") else { return read };
    reader.table(node, "governance");
    let known = [
        "require_approval",
        "max_cost_usd",
        "timeout_hours",
        "escalation",
        "access_review",
        "audit_access_events",
    ];
    reader.unknown(node, "governance", &known);
    if let Some(gate) = node.get("require_approval") {
        read.policy = approval(reader, gate);
    }
    if let Some(most) = node.get("max_cost_usd") {
        read.most = reader.amount(most, "governance.max_cost_usd");
        let why = "the server limits the costs of one intent: no phase may cost more than this; their sum is not limited";
        reader.note(most, "governance.max_cost_usd", Treatment::Adapted, why);
    }
    let ignored = [
        (
            "timeout_hours",
            "an intent has no time limit; limit tasks (`timeout_seconds`) or jobs (`max_runtime_sec`)",
        ),
        (
            "escalation",
            "escalations go to a person with a login here; set `escalate_to` in the policy of an intent",
        ),
        ("access_review", "requests for access are decided by those who manage the intent"),
    ];
    for (key, why) in ignored {
        if let Some(member) = node.get(key) {
            reader.note(member, &format!("governance.{key}"), Treatment::Ignored, why);
        }
    }
    if let Some(audit) = node.get("audit_access_events").filter(|audit| audit.value() == json!(false)) {
        let why = "changes of access are always recorded";
        reader.note(audit, "governance.audit_access_events", Treatment::Ignored, why);
    }
    read
}

/// Returns the policy of an approval gate: the workflow's own intent is completed with an approval only.
fn approval(reader: &mut Reader, gate: &Node) -> Map<String, Value> {
    let path = "governance.require_approval";
    reader.table(gate, path);
    reader.unknown(gate, path, &["when", "approvers", "timeout_hours", "on_timeout"]);
    if let Some(when) = gate.get("when") {
        let why = "the server evaluates no conditions: completing the workflow always needs an approval";
        reader.note(when, &format!("{path}.when"), Treatment::Adapted, why);
    }
    for key in ["timeout_hours", "on_timeout"] {
        if let Some(member) = gate.get(key) {
            let why = "an approval waits until somebody decides; time approves nothing";
            reader.note(member, &format!("{path}.{key}"), Treatment::Ignored, why);
        }
    }
    let mut policy = Map::from_iter([("completion_mode".to_owned(), json!("require_approval"))]);
    let approvers = gate.get("approvers").map(|node| reader.texts(node, &format!("{path}.approvers")));
    policy.extend(approvers.map(|names| ("approvers".to_owned(), json!(names))));
    policy
}

fn agents(reader: &mut Reader, tree: &Node) -> BTreeMap<String, Vec<String>> {
    let Some(node) = tree.get("agents") else { return BTreeMap::new() };
    let mut agents = BTreeMap::new();
    for (id, agent) in reader.table(node, "agents") {
        let path = format!("agents.{id}");
        reader.table(agent, &path);
        if let Some(words) = agent.get("capabilities") {
            agents.insert(id.clone(), reader.texts(words, &format!("{path}.capabilities")));
        }
        let ignored = [
            ("description", "it is for readers of the file; the directory of agents has no descriptions"),
            ("tools", "the agent's own program uses them"),
            ("default_permission", "access is granted by phase, under `permissions`"),
            ("approval_required", "approvals are required by intent, under `governance`"),
        ];
        for (key, why) in ignored {
            if let Some(member) = agent.get(key) {
                reader.note(member, &format!("{path}.{key}"), Treatment::Ignored, why);
            }
        }
        let known: Vec<&str> = ignored.iter().map(|(key, _)| *key).chain(["capabilities"]).collect();
        reader.unknown(agent, &path, &known);
    }
    agents
}

/// Reads the channels, which the SDK ignores; they belong to the workflow's own intent.
fn channels(reader: &mut Reader, tree: &Node) -> BTreeMap<String, Option<ChannelForm>> {
    let Some(node) = tree.get("channels") else { return BTreeMap::new() };
    let mut channels = BTreeMap::new();
    for (name, channel) in reader.table(node, "channels") {
        let path = format!("channels.{name}");
        reader.table(channel, &path);
        let known = ["members", "member_policy", "audit", "ttl_seconds", "max_messages"];
        reader.unknown(channel, &path, &known);
        let at = |key: &str| format!("{path}.{key}");
        let form = ChannelForm {
            members: channel.get("members").map(|node| reader.texts(node, &at("members"))),
            member_policy: channel.get("member_policy").and_then(|node| {
                let policy = match node.text() {
                    Some("explicit") => Some(Policy::Explicit),
                    Some("intent") => Some(Policy::Intent),
                    Some(_) | None => None,
                };
                if policy.is_none() {
                    reader.fault(node.place, &at("member_policy"), "this must be `explicit` or `intent`");
                }
                policy
            }),
            audit: channel.get("audit").map(|node| node.value() == json!(true)),
            ttl_seconds: channel.get("ttl_seconds").and_then(|node| reader.count(node, &at("ttl_seconds"))),
            max_messages: channel
                .get("max_messages")
                .and_then(|node| reader.count(node, &at("max_messages"))),
            task: None,
        };
        channels.insert(name.clone(), Some(form));
    }
    channels
}

/// Notes the members that are for the agents' programs, and those that nobody knows.
fn others(reader: &mut Reader, tree: &Node) {
    for (key, why) in FOR_AGENTS {
        if let Some(node) = tree.get(key) {
            reader.note(node, key, Treatment::Ignored, why);
        }
    }
    if let Some(node) = tree.get("identity") {
        let why =
            "an agent makes its own key and registers it (RFC-0018); the server cannot do it for the agent";
        reader.note(node, "identity", Treatment::Ignored, why);
    }
    if let Some(node) = tree.get("verification") {
        let why = "every log here is a hash chain and proofs are always verified; checkpoints are a setting of the \
                   server (ENTENTE_CHECKPOINT_EVERY), and signatures cannot be required by intent";
        reader.note(node, "verification", Treatment::Ignored, why);
    }
    let known = [
        "openintent",
        "info",
        "governance",
        "agents",
        "channels",
        "workflow",
        "types",
        "llm",
        "mcp",
        "identity",
        "verification",
    ];
    reader.unknown(tree, "", &known);
}
