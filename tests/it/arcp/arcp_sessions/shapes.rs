//! Shapes for each client library (ARCP-W-6): selected by the address or by the first frame, over the same data.

use super::world;
use entente_harness::jobs::Hand;
use entente_harness::socket::{FEATURES, Socket, hello};
use entente_harness::{Value, json};

/// Returns the ends of three jobs: a completed one with a budget, a cancelled one and one that timed out.
async fn shapes(socket: &mut Socket, hand: &Hand) -> (Value, Value, Value) {
    let said = json!({ "agent": "echo", "lease_request": { "cost.budget": ["USD:5.00"] } });
    let accepted = socket.submit(said).await;
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": { "x": 1 } })).await.ok();
    let done = socket.numbered(1).await.remove(0)["payload"].clone();
    let job = socket.submit(json!({ "agent": "echo" })).await;
    socket.ask("job.cancel", json!({ "job_id": job["job_id"], "reason": "r" })).await;
    let cancelled = socket.numbered(1).await.remove(0)["payload"].clone();
    (accepted["budget"]["USD"].clone(), done, cancelled)
}

#[tokio::test]
async fn each_library_gets_what_it_can_read() {
    let (world, hand, key) = world().await;
    let cases = [
        ("/arcp", "strict", json!(5), "cancelled"),
        ("/arcp?dialect=ts", "ts", json!(5), "cancelled"),
        ("/arcp?dialect=go", "go", json!(5), "cancelled"),
        ("/arcp?dialect=python", "python", json!("USD:5"), "error"),
    ];
    for (path, dialect, budget, status) in cases {
        let mut socket = Socket::open_with(&world, path, hello(key, &FEATURES)).await;
        let (got, done, cancelled) = shapes(&mut socket, &hand).await;
        assert_eq!(got, budget, "{dialect}");
        assert_eq!((&done["final_status"], &done["result"]), (&json!("success"), &json!({ "x": 1 })));
        assert_eq!(done.get("output").is_some(), dialect == "go", "{dialect}: {done}");
        assert!(done["completed_at"].as_str().unwrap().ends_with('Z'));
        assert_eq!((&cancelled["code"], &cancelled["final_status"]), (&json!("CANCELLED"), &json!(status)));
        // The stored data is the same for all.
        drop(socket);
    }
    world.anon().get("//arcp?dialect=cobol").await.refused(422, "invalid_parameter");
    world.end().await;
}

#[tokio::test]
async fn a_library_is_known_by_its_first_frame() {
    let (world, hand, key) = world().await;
    let mut python = hello(key, &FEATURES);
    python["capabilities"]["agents"] = json!([]);
    let mut socket = Socket::open_with(&world, "/arcp", python).await;
    assert_eq!(shapes(&mut socket, &hand).await.0, "USD:5");
    let mut go = Socket::connect(world.address, "/arcp").await;
    let said = json!({ "arcp": "1.1", "id": "01932c07-5b3a-7c3e-8f5d-1b2a3c4d5e6f", "type": "session.hello", "payload": hello(key, &FEATURES) });
    go.raw(&said.to_string()).await;
    go.of("session.welcome").await;
    assert_eq!(shapes(&mut go, &hand).await.1["output"], json!({ "x": 1 }));
    drop((socket, go));
    world.end().await;
}

#[tokio::test]
async fn the_older_protocol_gets_its_own_words_and_no_others() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::connect(world.address, "/arcp").await;
    let open = json!({ "auth": { "scheme": "bearer", "token": key }, "client": { "kind": "probe", "version": "0" }, "capabilities": {} });
    let id = socket.say("session.open", open).await;
    let told = socket.next().await.unwrap();
    assert_eq!((&told["type"], &told["correlation_id"]), (&json!("session.accepted"), &json!(id)));
    assert!(told["timestamp"].is_string() && told["payload"]["runtime"]["kind"].is_string());
    let id = socket.say("tool.invoke", json!({ "tool": "echo", "arguments": { "a": 1 } })).await;
    let told = socket.next().await.unwrap();
    assert_eq!((&told["type"], &told["correlation_id"]), (&json!("job.accepted"), &json!(id)));
    let claimed = hand.one().await;
    hand.events(&claimed, json!([{ "kind": "log", "body": { "level": "info", "message": "m" } }])).await.ok();
    hand.tell(&claimed, "result", json!({ "result": claimed["input"] })).await.ok();
    let told = socket.next().await.unwrap();
    assert_eq!((&told["type"], &told["correlation_id"]), (&json!("job.completed"), &json!(id)));
    assert_eq!(told["payload"]["value"], json!({ "a": 1 }));
    let id = socket.say("tool.invoke", json!({ "tool": "nope" })).await;
    let told = socket.next().await.unwrap();
    assert_eq!((&told["type"], &told["payload"]["code"]), (&json!("nack"), &json!("NOT_FOUND")));
    assert_eq!(told["correlation_id"], json!(id));
    let id = socket.say("tool.invoke", json!({ "tool": "echo" })).await;
    let job = socket.next().await.unwrap()["payload"]["job_id"].clone();
    socket.say("cancel", json!({ "target": "job", "target_id": job })).await;
    assert_eq!(socket.next().await.unwrap()["type"], "cancel.accepted");
    let told = socket.next().await.unwrap();
    assert_eq!((&told["type"], &told["correlation_id"]), (&json!("job.cancelled"), &json!(id)));
    drop(socket);
    world.end().await;
}
