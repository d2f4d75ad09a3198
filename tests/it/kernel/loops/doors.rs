//! Every way to send a message takes the same check, and what was done before still gets its answer.

use std::time::{Duration, Instant};

use super::{TRIO, circle, hasty, line, lineages, room, say};
use entente_harness::envelopes::task_envelope;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, World, json, send};

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

/// A bridge sends as its owner: it shows envelopes, of whatever server, on a channel.
#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_in_a_stopped_loop_shows_nothing_until_it_is_let_go_on() {
    let (world, other) = World::two().await;
    let (ada, clients, intent, channel) = room(&world).await;
    let admin = world.admin().await;
    let mirror = json!({ "kind": "mirror", "entity": "agent.bob", "channel_id": channel });
    let _bob = world.agent("agent.bob").await;
    admin.put("/aee/bridges/bob", mirror).await.ok();
    hasty(&ada, &intent, json!({ "slow_seconds": 1 })).await;
    let envelope = async |id: &str| {
        let envelope = task_envelope(&world, id, ("agent.ada", "agent.bob"));
        ada.post("/aee/envelopes", envelope).await.is(202);
    };
    let shown = async || {
        let all = ada.get(&format!("/channels/{channel}/messages?limit=1000")).await.ok();
        let ids = all.as_array().unwrap().iter().map(|one| one["metadata"]["envelope_id"].clone());
        ids.filter(|id| !id.is_null()).collect::<Vec<_>>()
    };
    envelope("envelope-0").await;
    until(|| async { shown().await == [json!("envelope-0")] }).await;
    thank(&[&admin, &clients[0]], &["service.bootstrap", TRIO[0]], &channel).await;
    // Wherever the envelope arrives and whichever server carries it.
    envelope("envelope-1").await;
    let there = other.client("key-of-agent.ada");
    let second = task_envelope(&world, "envelope-2", ("agent.ada", "agent.bob"));
    there.post("/aee/envelopes", second).await.is(202);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shown().await, [json!("envelope-0")]);
    let id = lineages(&ada, &intent, "?state=stopped").await[0]["id"].as_str().unwrap().to_owned();
    ada.post(&format!("/intents/{intent}/lineages/{id}/release"), json!({})).await.ok();
    let all = [json!("envelope-0"), json!("envelope-1"), json!("envelope-2")];
    until(|| async { shown().await == all }).await;
    other.end().await;
    world.end().await;
}

/// Lets two thank each other until both are stopped.
async fn thank(clients: &[&Client; 2], names: &[&str; 2], channel: &str) {
    let began = Instant::now();
    let (mut sent, mut refused) = (0, 0);
    while refused < 2 {
        assert!(began.elapsed() < Duration::from_mins(1), "the two did not end after {sent} messages");
        let from = (sent + refused) % 2;
        let text = format!("Thank you very much, message {sent} is most welcome!");
        match say(clients[from], channel, line(names[from], names[1 - from], &text)).await {
            (201, _) => (sent, refused) = (sent + 1, 0),
            (409, _) => refused += 1,
            (status, body) => assert_eq!(status, 429, "{body}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until something is so.
async fn until<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
