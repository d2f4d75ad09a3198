//! Inboxes of agents: settings, reads, and what a page of entries holds.

use entente::background::inboxes;

use crate::{Client, Value, World, json};

/// Writes all entries that are due on a server without background tasks.
pub async fn follow(world: &World) {
    inboxes::catch_up(world.ctx()).await.unwrap();
}

/// Opens an agent's inbox with these settings.
pub async fn open(agent: &Client, id: &str, settings: Value) -> Value {
    agent.put(&format!("/agents/{id}/inbox"), settings).await.ok()
}

/// Reads an agent's inbox.
pub async fn read(agent: &Client, id: &str, query: &str) -> Value {
    agent.get(&format!("/agents/{id}/inbox{query}")).await.ok()
}

/// Marks entries seen.
pub async fn seen(agent: &Client, id: &str, reader: &str, place: &Value) -> Value {
    agent.post(&format!("/agents/{id}/inbox/seen"), json!({ "reader": reader, "place": place })).await.ok()
}

/// Returns a member of each entry of a page.
pub fn each(page: &Value, member: &str) -> Vec<Value> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry[member].clone()).collect()
}

/// Returns the `n` of each message of a page.
pub fn numbers(page: &Value) -> Vec<u64> {
    let entries = page["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["message"]["payload"]["n"].as_u64().unwrap()).collect()
}

/// A message of agent.ada to agent.bob.
pub fn to_bob(kind: &str, n: u64) -> Value {
    json!({ "sender": "agent.ada", "to": "agent.bob", "message_type": kind, "payload": { "n": n } })
}
