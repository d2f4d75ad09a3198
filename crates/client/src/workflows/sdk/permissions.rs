//! Reads the permissions of a phase (RFC-0011) as an access list.

use std::collections::BTreeMap;

use entente_domain::clock::parse;
use serde_json::{Value, json};

use super::super::tree::{Content, Node};
use super::reader::Reader;
use super::types::{Access, Level, Phase, Treatment};

/// Returns the access list of a phase, and keeps its permissions in the state in the SDK's form.
///
/// An agent without an entry has no access to a restricted phase, unless the file says `default: read`.
pub(super) fn read(reader: &mut Reader, phase_node: &Node, path: &str, phase: &mut Phase) -> Option<Access> {
    let older =
        ["access", "delegation", "context"].into_iter().find_map(|key| Some((key, phase_node.get(key)?)));
    let Some(node) = phase_node.get("permissions") else {
        if let Some((key, node)) = older {
            let message = "this is the older form. Write `permissions:` with `policy`, `default`, `allow`, `delegate` and `context`";
            reader.fault(node.place, &format!("{path}.{key}"), message);
        }
        return None;
    };
    if let Some((key, node)) = older {
        let why = "the phase has `permissions`, and they count";
        reader.note(node, &format!("{path}.{key}"), Treatment::Ignored, why);
    }
    let path = format!("{path}.permissions");
    let listed = entries(reader, node, &path);
    let policy = match &node.content {
        Content::List(_) => "restricted".to_owned(),
        Content::Table(_) => {
            let policy = node.get("policy").and_then(|node| reader.text(node, &format!("{path}.policy")));
            policy.unwrap_or_else(|| "open".to_owned())
        }
        Content::Scalar(_) => node.text().unwrap_or_default().to_owned(),
    };
    let default = node.get("default").map(|node| level(reader, node, &format!("{path}.default")));
    kept(reader, node, &path);
    phase.state.insert("permissions".to_owned(), in_state(&policy, default, &listed, node));
    let closed = match (policy.as_str(), default) {
        ("private", _) | ("restricted", None) => "closed",
        ("restricted", Some(Level::Read)) => "open",
        ("open", _) | ("restricted", Some(_)) => {
            if !listed.is_empty() {
                let why = "everybody may work on an open intent, and an entry would shut the others out; say `policy: restricted`";
                reader.note(node, &format!("{path}.allow"), Treatment::Ignored, why);
            }
            return None;
        }
        _ => {
            reader.fault(node.place, &path, "the policy must be `open`, `restricted` or `private`");
            return None;
        }
    };
    let mut access = Access { policy: closed, entries: listed };
    let own = access.entries.entry(phase.assign.clone()).or_insert((Level::Write, None));
    own.0 = own.0.max(Level::Write);
    Some(access)
}

/// Reads the agents that a list or `allow` names.
fn entries(reader: &mut Reader, node: &Node, path: &str) -> BTreeMap<String, (Level, Option<String>)> {
    if matches!(node.content, Content::List(_)) {
        let agents = reader.texts(node, path);
        return agents.into_iter().map(|agent| (agent, (Level::Write, None))).collect();
    }
    let mut listed = BTreeMap::new();
    let Some(allow) = node.get("allow") else { return listed };
    let path = format!("{path}.allow");
    let Content::List(items) = &allow.content else {
        reader.fault(allow.place, &path, "this must be a list of `{ agent: …, level: read|write|admin }`");
        return listed;
    };
    for item in items {
        reader.unknown(item, &path, &["agent", "level", "expires"]);
        let Some(agent) = item.get("agent").and_then(|node| reader.text(node, &path)) else {
            reader.fault(item.place, &path, "an entry names no agent. Write `agent: agent-id`");
            continue;
        };
        let given = item.get("level").map_or(Level::Read, |node| level(reader, node, &path));
        let expires = item.get("expires").and_then(|node| {
            let end = node.text().filter(|text| parse(text).is_some());
            if end.is_none() {
                reader.fault(node.place, &format!("{path}.expires"), "this must be a time as in RFC 3339");
            }
            end.map(str::to_owned)
        });
        listed.insert(agent, (given, expires));
    }
    listed
}

fn level(reader: &mut Reader, node: &Node, path: &str) -> Level {
    node.text().and_then(Level::parse).unwrap_or_else(|| {
        reader.fault(node.place, path, "a level must be `read`, `write` or `admin`");
        Level::Read
    })
}

/// Notes the parts of permissions that concern the agents' programs only.
fn kept(reader: &mut Reader, node: &Node, path: &str) {
    if let Some(delegate) = node.get("delegate") {
        let why = "an agent delegates while it works, as far as its own access goes; grant the others access under `allow`";
        reader.note(delegate, &format!("{path}.delegate"), Treatment::Kept, why);
    }
    if let Some(context) = node.get("context") {
        let why = "the SDK's agents choose their context by it";
        reader.note(context, &format!("{path}.context"), Treatment::Kept, why);
    }
    reader.unknown(node, path, &["policy", "default", "allow", "delegate", "context"]);
}

/// Returns the permissions as the SDK stores them in the state.
fn in_state(
    policy: &str,
    default: Option<Level>,
    listed: &BTreeMap<String, (Level, Option<String>)>,
    node: &Node,
) -> Value {
    let mut state = json!({ "policy": policy, "default": default.unwrap_or(Level::Read).as_str() });
    if !listed.is_empty() {
        let allow =
            listed.iter().map(|(agent, (level, _))| json!({ "agent": agent, "level": level.as_str() }));
        state["allow"] = allow.collect();
    }
    if let Some(delegate) = node.get("delegate") {
        let level = delegate.get("level").and_then(Node::text).unwrap_or("read");
        let to = delegate.get("to").map_or_else(|| json!([]), Node::value);
        state["delegate"] = json!({ "to": to, "level": level });
    }
    if let Some(context) = node.get("context").filter(|context| context.text() != Some("auto")) {
        state["context"] = context.value();
    }
    state
}
