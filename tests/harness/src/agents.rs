//! Agents with a record.

use crate::{Client, Value, World, json};

/// Registers an agent under its own key and returns its client.
pub async fn registered(world: &World, id: &str, more: Value) -> Client {
    let client = world.agent(id).await;
    let mut ask = json!({ "agent_id": id });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/agents/register", ask).await.is(200);
    client
}
