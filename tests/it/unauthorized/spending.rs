//! Bodies for the operations on budgets, teams, stops and reservations.

use crate::harness::{Value, json};

/// Returns the body of an operation.
pub fn body(path: &str) -> Option<Value> {
    Some(match path {
        "/api/v1/budgets" => json!({ "scope": "system", "unit": "USD", "limit": 1 }),
        "/api/v1/budgets/{budget_id}" => json!({ "limit": 1 }),
        "/api/v1/budgets/{budget_id}/raise" => json!({ "amount": 1 }),
        "/api/v1/teams/{name}" => json!({ "members": [] }),
        "/api/v1/stops" => json!({ "scope": "system", "reason": "theirs" }),
        "/api/v1/spend/reservations" => json!({ "reserve": {} }),
        "/api/v1/spend/reservations/{reservation_id}/settle" => json!({ "cost": {} }),
        _ => return None,
    })
}
