//! Vaults, credentials, grants and calls of tools (RFC-0014).

use crate::{Client, Value, json};

/// A secret that occurs nowhere else.
pub const SECRET: &str = "sk-live-8Jq2hVnPz0aYt51";

/// Creates a vault of the client and returns its id.
pub async fn vault(owner: &Client) -> String {
    let made = owner.post("/vaults", json!({ "name": "services" })).await.is(200);
    made["id"].as_str().unwrap().to_owned()
}

/// Creates a credential in a vault, with these members added.
pub async fn credential(owner: &Client, vault: &str, more: Value) -> Value {
    let mut ask =
        json!({ "vault_id": vault, "service": "search", "label": "the team's key", "auth_type": "api_key" });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    owner.post("/credentials", ask).await.is(200)
}

/// Grants the use of a credential and returns the grant.
pub async fn grant(giver: &Client, credential: &Value, agent: &str, more: Value) -> Value {
    let mut ask = json!({ "credential_id": credential["id"], "agent_id": agent });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    giver.post("/grants", ask).await.is(200)
}

/// Calls a tool and returns the result.
pub async fn call(client: &Client, tool: &str, parameters: Value) -> Value {
    client.post("/tools/invoke", json!({ "tool_name": tool, "parameters": parameters })).await.is(200)
}
