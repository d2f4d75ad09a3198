//! Clients of A2A 0.3, which name no version: other methods and members, the same tasks.

use super::{ECHO, call, done, echo, failed, state};
use entente_harness::{Value, World, json};

/// Returns the parameters of a message of 0.3, after which the call does not wait.
fn message(id: &str, parts: &Value) -> Value {
    json!({
        "message": { "kind": "message", "messageId": id, "role": "user", "parts": parts },
        "configuration": { "blocking": false },
    })
}

#[tokio::test]
async fn clients_of_0_3_have_the_same_tasks() {
    let world = World::start().await;
    let (client, hand) = (world.agent("agent.client").await, echo(&world).await);
    let parts = json!([
        { "kind": "text", "text": "hello" },
        { "kind": "file", "file": { "name": "a.txt", "mimeType": "text/plain", "bytes": "aGk=" } },
        { "kind": "data", "data": { "n": 1 } },
    ]);
    let task = done(&client, "message/send", message("m-1", &parts)).await;
    assert_eq!((&task["kind"], &task["status"]["state"]), (&json!("task"), &json!("submitted")), "{task}");
    assert_eq!(done(&client, "message/send", message("m-1", &parts)).await["id"], task["id"]);
    let job = hand.one().await;
    assert_eq!(job["input"]["text"], "hello");
    assert_eq!(job["input"]["message"]["parts"][1]["raw"], "aGk=", "the worker gets 1.0");
    let ask = json!([{ "kind": "status", "body": { "phase": "input_required", "message": "Which?" } }]);
    hand.events(&job, ask).await.ok();
    let asked = done(&client, "tasks/get", json!({ "id": task["id"], "historyLength": 0 })).await;
    assert_eq!(asked["status"]["state"], "input-required");
    let words = &asked["status"]["message"];
    assert_eq!((&words["role"], &words["parts"][0]["kind"]), (&json!("agent"), &json!("text")));
    assert_eq!(asked["history"][0]["parts"], parts, "0 is no limit");
    // A client of 1.0 sees the same task.
    let current = done(&client.with("a2a-version", "1.0"), "GetTask", json!({ "id": task["id"] })).await;
    assert_eq!((state(&current), &current["contextId"]), ("INPUT_REQUIRED", &task["contextId"]));
    hand.tell(&job, "result", json!({ "result": [1, 2] })).await.ok();
    let over = done(&client.with("a2a-version", "0.3"), "tasks/get", json!({ "id": task["id"] })).await;
    assert_eq!(over["status"]["state"], "completed");
    assert_eq!(over["artifacts"][0]["parts"][0]["data"], json!({ "value": [1, 2] }), "data are objects");
    for (method, params, code) in [
        ("tasks/get", json!({ "id": "job_1" }), -32_001),
        ("tasks/cancel", json!({ "id": task["id"] }), -32_002),
        ("tasks/resubscribe", json!({ "id": task["id"] }), -32_004),
        ("tasks/pushNotificationConfig/set", json!({}), -32_003),
        ("message/send", json!({}), -32_602),
        ("message/send", message("m", &json!([{ "kind": "text" }])), -32_602),
        ("GetTask", json!({ "id": task["id"] }), -32_009),
        ("nothing", json!({}), -32_009),
    ] {
        assert_eq!(failed(&client, method, params).await.0, code, "{method}");
    }
    world.end().await;
}

#[tokio::test]
async fn clients_of_0_3_have_a_card_and_streams() {
    let world = World::start().await;
    let (client, hand) = (world.agent("agent.client").await, echo(&world).await);
    let card = client.get(&format!("{ECHO}/v0.3/.well-known/agent-card.json")).await.is(200);
    let url = format!("http://{}/a2a/echo", world.address);
    assert_eq!((&card["protocolVersion"], &card["url"]), (&json!("0.3.0"), &json!(url)));
    assert_eq!(card["securitySchemes"]["bearer"], json!({ "type": "http", "scheme": "bearer" }));
    assert!(card.get("supportedInterfaces").is_none());
    let extended = done(&client, "agent/getAuthenticatedExtendedCard", json!({})).await;
    assert_eq!(extended["preferredTransport"], "JSONRPC");
    world.anon().get(&format!("{ECHO}/v0.3/.well-known/agent-card.json")).await.is(401);

    let ask = json!([{ "kind": "status", "body": { "phase": "input_required", "message": "Which?" } }]);
    let parts = json!([{ "kind": "text", "text": "go" }]);
    let task = done(&client, "message/send", message("m-1", &parts)).await;
    let job = hand.one().await;
    hand.events(&job, ask).await.ok();
    // The repeated message streams the task, which waits for its client, and so ends.
    let streamed = call(&client, "message/stream", message("m-1", &parts)).await;
    let frames: Vec<Value> = streamed
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str::<Value>(data).unwrap()["result"].clone())
        .collect();
    assert_eq!((frames.len(), &frames[0]["kind"], &frames[0]["id"]), (1, &json!("task"), &task["id"]));
    hand.tell(&job, "result", json!({ "result": "done" })).await.ok();
    let behind = client.with("last-event-id", "0");
    let text = call(&behind, "tasks/resubscribe", json!({ "id": task["id"] })).await.text;
    let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let last = &serde_json::from_str::<Value>(last).unwrap()["result"];
    assert_eq!((&last["kind"], &last["final"]), (&json!("status-update"), &json!(true)), "{text}");
    assert_eq!(last["status"]["state"], "completed");
    assert!(text.contains(r#""kind":"artifact-update""#), "{text}");
    world.end().await;
}
