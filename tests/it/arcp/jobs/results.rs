//! Streamed results (ARCP §8.4): in order, once, and reassembled.

use super::{Hand, events, id, kinds};
use entente_harness::{Client, Value, World, http, json};

struct Running {
    world: World,
    client: Client,
    hand: Hand,
    job: Value,
}

async fn running() -> Running {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let job = hand.one().await;
    Running { world, client, hand, job }
}

fn chunk(result: &Value, seq: u32, data: &str, encoding: &str, more: bool) -> Value {
    let body =
        json!({ "result_id": result, "chunk_seq": seq, "data": data, "encoding": encoding, "more": more });
    json!({ "kind": "result_chunk", "body": body })
}

#[tokio::test]
async fn a_streamed_result_is_put_together() {
    let run = running().await;
    let result = &run.job["result_id"];
    let all: Vec<Value> = (0..30).map(|n| chunk(result, n, &format!("line {n}\n"), "utf8", n < 29)).collect();
    run.hand.events(&run.job, json!(all[..20])).await.ok();
    run.client.get(&format!("/jobs/{}/result", id(&run.job))).await.refused(409, "NO_RESULT");
    run.hand.events(&run.job, json!(all[20..])).await.ok();
    let end = json!({ "result_id": result, "summary": "30 lines" });
    run.hand.tell(&run.job, "result", end).await.ok();
    let reply = run.client.get(&format!("/jobs/{}/result", id(&run.job))).await;
    let expected = (0..30).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(reply.text, expected);
    assert_eq!(reply.header("content-length"), expected.len().to_string());
    let job = run.client.get(&format!("/jobs/{}", id(&run.job))).await.ok();
    assert_eq!(job["terminal"]["result_size"], expected.len());
    assert!(job["terminal"].get("result").is_none(), "never both");
    run.world.end().await;
}

#[tokio::test]
async fn bytes_come_back_as_they_were() {
    let run = running().await;
    let result = &run.job["result_id"];
    let both =
        json!([chunk(result, 0, "AAEC/w==", "base64", true), chunk(result, 1, "/w==", "base64", false)]);
    run.hand.events(&run.job, both).await.ok();
    run.hand.tell(&run.job, "result", json!({ "result_id": result, "result_size": 5 })).await.ok();
    let url = format!("{}/jobs/{}/result", run.client.base, id(&run.job));
    let reply = http().get(url).header("x-api-key", "key-of-agent.client").send().await.unwrap();
    assert_eq!(reply.headers()["content-type"], "application/octet-stream");
    assert_eq!(reply.bytes().await.unwrap().as_ref(), [0, 1, 2, 255, 255]);
    run.world.end().await;
}

#[tokio::test]
async fn an_empty_last_chunk_takes_the_encoding_of_its_stream() {
    let run = running().await;
    let result = &run.job["result_id"];
    run.hand.events(&run.job, json!([chunk(result, 0, "AAEC/w==", "base64", true)])).await.ok();
    // Neither data in another encoding, nor an empty chunk that is not the last.
    for wrong in [chunk(result, 1, "x", "utf8", false), chunk(result, 1, "", "utf8", true)] {
        run.hand.events(&run.job, json!([wrong])).await.refused(422, "INVALID_REQUEST");
    }
    // The Python SDK closes every stream so.
    let mut closing = chunk(result, 1, "", "utf8", false);
    closing["event_key"] = json!("close");
    closing["body"]["x-note"] = json!("kept");
    for _ in 0..2 {
        run.hand.events(&run.job, json!([closing])).await.ok();
    }
    run.hand.tell(&run.job, "result", json!({ "result_id": result, "result_size": 4 })).await.ok();
    let stored = events(&run.client, id(&run.job)).await;
    assert_eq!(stored.len(), 3, "a retry doubles nothing: {stored:?}");
    let (_, last) = &stored[1];
    assert_eq!(
        (&last["encoding"], &last["data"], &last["more"]),
        (&json!("base64"), &json!(""), &json!(false))
    );
    assert_eq!(last["x-note"], "kept");
    let url = format!("{}/jobs/{}/result", run.client.base, id(&run.job));
    let reply = http().get(url).header("x-api-key", "key-of-agent.client").send().await.unwrap();
    assert_eq!(reply.headers()["content-type"], "application/octet-stream");
    assert_eq!(reply.bytes().await.unwrap().as_ref(), [0, 1, 2, 255]);
    run.world.end().await;
}

#[tokio::test]
async fn an_empty_last_chunk_of_a_text_may_say_base64() {
    let run = running().await;
    let result = &run.job["result_id"];
    let both = json!([chunk(result, 0, "text", "utf8", true), chunk(result, 1, "", "base64", false)]);
    run.hand.events(&run.job, both).await.ok();
    run.hand.tell(&run.job, "result", json!({ "result_id": result })).await.ok();
    let (_, last) = &events(&run.client, id(&run.job)).await[1];
    assert_eq!(last["encoding"], "utf8");
    assert_eq!(run.client.get(&format!("/jobs/{}/result", id(&run.job))).await.text, "text");
    run.world.end().await;
}

#[tokio::test]
async fn chunks_that_do_not_fit_are_refused_and_leave_nothing() {
    let run = running().await;
    let result = &run.job["result_id"];
    let whole = chunk(result, 0, "x", "utf8", true);
    for member in ["result_id", "chunk_seq", "data", "encoding", "more"] {
        let mut without = whole.clone();
        without["body"].as_object_mut().unwrap().remove(member);
        let body = run.hand.events(&run.job, json!([without])).await.refused(422, "INVALID_REQUEST");
        assert!(body["message"].as_str().unwrap().contains(member), "{body}");
    }
    run.hand
        .events(&run.job, json!([chunk(result, 5, "x", "utf8", true)]))
        .await
        .refused(422, "INVALID_REQUEST");
    run.hand
        .events(&run.job, json!([chunk(result, 0, "!", "base64", true)]))
        .await
        .refused(422, "INVALID_REQUEST");
    run.hand.events(&run.job, json!([whole])).await.ok();
    for wrong in [
        chunk(result, 0, "x", "utf8", true),
        chunk(result, 2, "x", "utf8", true),
        chunk(result, 1, "eA==", "base64", true),
        chunk(&json!("res_other"), 0, "x", "utf8", true),
    ] {
        // The valid log event is rejected together with the chunk: a request is stored as a whole or not at all.
        let both = json!([{ "kind": "log", "body": {} }, wrong]);
        run.hand.events(&run.job, both).await.refused(422, "INVALID_REQUEST");
    }
    for wrong in [
        json!({ "result": 1 }),
        json!({}),
        json!({ "result_id": result }),
        json!({ "result_id": "res_other" }),
        json!({ "result": 1, "result_id": result }),
    ] {
        run.hand.tell(&run.job, "result", wrong).await.refused(422, "INVALID_REQUEST");
    }
    run.hand.events(&run.job, json!([chunk(result, 1, "y", "utf8", false)])).await.ok();
    let after = json!([chunk(result, 2, "z", "utf8", false)]);
    run.hand.events(&run.job, after).await.refused(422, "INVALID_REQUEST");
    let wrong_size = json!({ "result_id": result, "result_size": 3 });
    run.hand.tell(&run.job, "result", wrong_size).await.refused(422, "INVALID_REQUEST");
    assert_eq!(kinds(&run.client, id(&run.job)).await, ["result_chunk", "result_chunk"]);
    run.hand.tell(&run.job, "result", json!({ "result_id": result })).await.ok();
    run.world.end().await;
}

#[tokio::test]
async fn what_is_too_large_is_an_internal_error_and_the_job_lives_on() {
    let run = running().await;
    let large = "x".repeat(800 * 1024);
    let body =
        run.hand.events(&run.job, json!([chunk(&run.job["result_id"], 0, &large, "utf8", true)])).await;
    assert_eq!(body.refused(413, "INTERNAL_ERROR")["retryable"], true);
    run.hand.tell(&run.job, "result", json!({ "result": large })).await.refused(413, "INVALID_REQUEST");
    let log = json!([{ "kind": "log", "body": { "message": "x".repeat(300 * 1024) } }]);
    run.hand.events(&run.job, log).await.refused(413, "INVALID_REQUEST");
    run.hand.tell(&run.job, "result", json!({ "result": "x".repeat(600 * 1024) })).await.ok();
    run.world.end().await;
}

#[tokio::test]
async fn a_new_attempt_streams_anew() {
    let run = running().await;
    let old = run.job["result_id"].clone();
    run.hand.events(&run.job, json!([chunk(&old, 0, "half of", "utf8", true)])).await.ok();
    run.world.pass(60).await;
    let again = run.hand.one().await;
    let new = again["result_id"].clone();
    assert_ne!(new, old);
    let reused = json!([chunk(&old, 1, " it", "utf8", false)]);
    run.hand.events(&again, reused).await.refused(422, "INVALID_REQUEST");
    run.hand.events(&again, json!([chunk(&new, 0, "all of it", "utf8", false)])).await.ok();
    run.hand.tell(&again, "result", json!({ "result_id": new })).await.ok();
    assert_eq!(run.client.get(&format!("/jobs/{}/result", id(&run.job))).await.text, "all of it");
    run.world.end().await;
}

#[tokio::test]
async fn events_that_are_none_are_refused_whole() {
    let run = running().await;
    for wrong in [
        json!({ "kind": "nonsense", "body": {} }),
        json!({ "kind": "x-vendor.acme", "body": {} }),
        json!({ "kind": "log", "body": "text" }),
        json!({ "kind": "log" }),
        json!({ "kind": "progress", "body": { "current": -1 } }),
        json!({ "kind": "progress", "body": { "total": 1 } }),
        json!({ "kind": "progress", "body": { "current": "1" } }),
        json!({ "kind": "tool_call", "body": { "args": {} } }),
        json!({ "kind": "metric", "body": { "value": 1 } }),
        json!({ "kind": "log", "body": {}, "ts": "yesterday" }),
        json!({ "kind": "log", "body": {}, "event_key": "" }),
    ] {
        let both = json!([{ "kind": "log", "body": {} }, wrong]);
        run.hand.events(&run.job, both).await.refused(422, "INVALID_REQUEST");
    }
    let many: Vec<Value> = (0..1001).map(|_| json!({ "kind": "log", "body": {} })).collect();
    run.hand.events(&run.job, json!(many)).await.refused(422, "INVALID_REQUEST");
    assert!(kinds(&run.client, id(&run.job)).await.is_empty());
    run.world.end().await;
}
