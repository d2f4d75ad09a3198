//! Bodies for the operations on budgets, teams, stops and reservations.

use entente_harness::{Value, World, json};

/// Returns the body of an operation.
pub fn body(path: &str) -> Option<Value> {
    Some(match path {
        "/api/v1/budgets" => json!({ "scope": "system", "unit": "USD", "limit": 1 }),
        "/api/v1/budgets/{budget_id}" => json!({ "limit": 1 }),
        "/api/v1/budgets/{budget_id}/raise" => json!({ "amount": 1 }),
        "/api/v1/teams/{name}/quotas" | "/api/v1/principals/{principal_id}/quotas" => {
            json!({ "open_requests": 1 })
        }
        "/api/v1/teams/{name}" => json!({ "members": [] }),
        "/api/v1/stops" => json!({ "scope": "system", "reason": "theirs" }),
        "/api/v1/spend/reservations" => json!({ "reserve": {} }),
        "/api/v1/spend/reservations/{reservation_id}/settle" => json!({ "cost": {} }),
        _ => return None,
    })
}

/// Creates a budget and a lifted stop, and returns their ids.
pub async fn make(world: &World) -> Vec<(&'static str, String)> {
    let admin = world.admin().await;
    let budget =
        admin.post("/budgets", json!({ "scope": "agent:agent.owner", "unit": "USD", "limit": 1 })).await;
    let stop =
        admin.post("/stops", json!({ "scope": "agent:agent.other", "reason": "private" })).await.is(201);
    let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
    admin.delete(&format!("/stops/{}", id(&stop))).await.ok();
    vec![("budget_id", id(&budget.is(201))), ("stop_id", id(&stop)), ("path", "x".to_owned())]
}
