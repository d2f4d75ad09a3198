//! Budgets that many share, and their use.

use crate::{Client, Value, json};

/// Creates a budget of USD.
pub async fn budget(admin: &Client, scope: &str, limit: Value, more: Value) -> Value {
    let mut body = json!({ "scope": scope, "unit": "USD", "limit": limit });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    admin.post("/budgets", body).await.is(201)
}

/// Use of a budget: limit, spent, reserved and left.
pub async fn usage(admin: &Client, budget: &Value) -> [Value; 4] {
    let found = admin.get(&format!("/budgets/{}", budget["id"].as_str().unwrap())).await.ok();
    ["limit", "spent", "reserved", "left"].map(|member| found["usage"][member].clone())
}
