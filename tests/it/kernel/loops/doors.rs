//! Every way to send a message takes the same check, and what was done before still gets its answer.

use super::{circle, hasty, line, room};
use crate::harness::{World, json, send};
use crate::mcp::{Era, Mcp};

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_send_is_closed_to_a_stopped_loop() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    hasty(&ada, &intent, json!({})).await;
    let path = format!("/channels/{channel}/messages");
    // A request that an agent of the loop may answer, and a message with a key.
    let asked = json!({ "sender": "agent.b", "to": "agent.a", "message_type": "request", "payload": {} });
    let asked = send(&clients[1], &channel, asked).await;
    let first = clients[0].once("k1").post(&path, line("agent.a", "agent.b", "once only")).await.is(201);
    circle(&world, &clients, &channel).await;
    let (a, to_b) = (&clients[0], line("agent.a", "agent.b", "once more"));
    a.post(&path, to_b.clone()).await.refused(409, "loop_stopped");
    let batch = a.post(&format!("{path}/batch"), json!({ "messages": [to_b, to_b] })).await.is(207);
    for result in batch["results"].as_array().unwrap() {
        assert_eq!(result["error"]["code"], "loop_stopped", "{batch}");
    }
    let ask = json!({ "to": "agent.b", "payload": {}, "timeout": 5 });
    a.post(&format!("/channels/{channel}/ask"), ask).await.refused(409, "loop_stopped");
    for name in ["talk", "another"] {
        let by_name = format!("/intents/{intent}/channels/{name}/messages");
        a.post(&by_name, to_b.clone()).await.refused(409, "loop_stopped");
    }
    let everybody = json!({ "sender": "agent.a", "message_type": "broadcast", "payload": {} });
    a.post(&path, everybody).await.refused(409, "loop_stopped");
    let answer = json!({
        "sender": "agent.a", "message_type": "response", "correlation_id": asked["id"], "payload": {},
    });
    a.post(&path, answer).await.refused(409, "loop_stopped");
    // A key that may act as the agent is no way around it.
    world.any().acting_as("agent.a").post(&path, to_b.clone()).await.refused(409, "loop_stopped");
    let said = json!({ "channel": channel, "to": "agent.b", "payload": { "text": "by a tool" } });
    Mcp::new(a, Era::Stateless).refused("send_message", said, "loop_stopped").await;
    let turn = json!({ "messages": [{ "channel_id": channel, "to": "agent.b", "payload": {} }] });
    a.post("/turn", turn).await.refused(409, "loop_stopped");
    // What was done before is answered as before; the same key for something else is not.
    let again = a.once("k1").post(&path, line("agent.a", "agent.b", "once only")).await.is(201);
    assert_eq!(again, first);
    // Other work goes on: events, tasks, reading.
    a.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await.ok();
    a.get(&path).await.ok();
    world.end().await;
}
