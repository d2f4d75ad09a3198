//! Agent cards (A2A §4.4.1, §8): the description of an agent that a client reads before it calls.

use serde_json::{Value, json};

use super::VERSION;
use crate::arcp::versions::Versions;

/// Media types of messages: an agent's worker takes those that it can read, and refuses the rest itself.
pub const INPUT: [&str; 3] = ["text/plain", "application/json", "*/*"];
/// Media types of artifacts.
pub const OUTPUT: [&str; 3] = ["text/plain", "application/json", "*/*"];

/// Returns the card of an agent that is served below `base`, such as `https://entente.example.com/a2a/echo`.
///
/// An agent has a skill for its default version, and on the extended card one for each version.
#[must_use]
pub fn card(agent: &str, base: &str, versions: &Versions, is_extended: bool) -> Value {
    let version =
        versions.default.clone().or_else(|| versions.registered.last().cloned()).unwrap_or_default();
    let shown: Vec<&String> =
        versions.registered.iter().filter(|one| is_extended || **one == version).collect();
    let skills: Vec<Value> = shown
        .into_iter()
        .map(|one| {
            json!({
                "id": format!("{agent}@{one}"), "name": agent,
                "description": format!("A job of the agent `{agent}`, version {one}: a message is its input."),
                "tags": ["arcp", "job"],
            })
        })
        .collect();
    let interface =
        |binding: &str| json!({ "url": base, "protocolBinding": binding, "protocolVersion": VERSION });
    json!({
        "name": agent,
        "description": format!("The agent `{agent}` on Entente: durable tasks, run by its workers."),
        "supportedInterfaces": [interface("JSONRPC"), interface("HTTP+JSON")],
        "version": version,
        "capabilities": { "streaming": true, "pushNotifications": true, "extendedAgentCard": true },
        "securitySchemes": {
            "bearer": { "httpAuthSecurityScheme": { "scheme": "Bearer", "description": "An API key of Entente." } },
            "apiKey": {
                "apiKeySecurityScheme": { "location": "header", "name": "X-API-Key", "description": "The same key." },
            },
        },
        "securityRequirements": [
            { "schemes": { "bearer": { "list": [] } } },
            { "schemes": { "apiKey": { "list": [] } } },
        ],
        "defaultInputModes": INPUT,
        "defaultOutputModes": OUTPUT,
        "skills": skills,
    })
}
