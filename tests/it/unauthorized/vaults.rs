//! Another agent's vault and its contents, and valid bodies.

use super::places::Places;
use entente_harness::{Client, Value, json};

/// Creates a vault with a credential and a grant as the owner.
pub async fn make(owner: &Client) -> Vec<(&'static str, String)> {
    let id = |thing: &Value| thing["id"].as_str().unwrap().to_owned();
    let vault = id(&owner.post("/vaults", json!({ "name": "private" })).await.is(200));
    let put = json!({ "vault_id": vault, "service": "private", "label": "private", "secret": "private" });
    let credential = id(&owner.post("/credentials", put).await.is(200));
    let given = json!({ "credential_id": credential, "agent_id": "agent.owner", "scopes": ["private"] });
    let grant = id(&owner.post("/grants", given).await.is(200));
    vec![("vault_id", vault), ("tool_credential_id", credential), ("grant_id", grant)]
}

/// Returns the body of an operation; `{name}` stands for an id of the owner's objects.
pub fn body(path: &str) -> Option<Value> {
    let body = match path.strip_prefix("/api/v1")? {
        "/vaults" => json!({ "name": "theirs" }),
        "/credentials" => json!({ "vault_id": "{vault_id}", "service": "s", "label": "theirs" }),
        "/grants" => json!({ "credential_id": "{tool_credential_id}", "agent_id": "agent.stranger" }),
        "/grants/{grant_id}" => json!({ "status": "suspended" }),
        "/invocations" => json!({
            "grant_id": "{grant_id}", "service": "private", "tool": "t", "agent_id": "agent.stranger",
        }),
        "/tools/invoke" => json!({ "tool_name": "private", "grant_id": "{grant_id}" }),
        _ => return None,
    };
    Some(body)
}

/// Replaces the `{name}` placeholders of a body with ids.
pub fn fill(body: &mut Value, places: &Places) {
    for member in body.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        if let Some(place) = member.as_str().filter(|text| text.starts_with('{')) {
            *member = json!(places.fill(place));
        }
    }
}

/// Whether an operation uses ARCP's error codes: those on the provisioned credentials of jobs do.
pub fn of_jobs(method: &str, path: &str) -> bool {
    path.ends_with("/retry") || (method == "GET" && path.ends_with("/credentials"))
}
