//! The record of calls: written before and after each call, once, whatever crashes in between; and calls that
//! agents report.

use std::time::Duration;

use crate::openintent::invocations::Stage;
use crate::openintent::vaults::tamper;
use entente_harness::vaults::SECRET;
use entente_harness::vaults::call;
use entente_harness::{Act, Setup, Value, World, ids, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_calls_nothing_twice() {
    let stage = Stage::plain().await;
    stage.receiver.does([Act::Say(200, r#"{"n":1}"#), Act::Say(200, r#"{"n":2}"#)]);
    let ask = json!({ "tool_name": "echo", "parameters": { "a": 1 } });
    let once = stage.ada.once("k");
    let done = once.post("/tools/invoke", ask.clone()).await.is(200);
    assert_eq!(once.post("/tools/invoke", ask.clone()).await.is(200), done);
    // The idempotency key may be in the body, as clients of the reference server send it.
    let mut beside = ask.clone();
    beside["idempotency_key"] = json!("k2");
    let second = stage.ada.post("/tools/invoke", beside.clone()).await.is(200);
    assert_eq!(stage.ada.post("/tools/invoke", beside).await.is(200), second);
    assert_eq!((&done["result"]["n"], &second["result"]["n"]), (&json!(1), &json!(2)));
    assert_eq!(stage.receiver.count(), 2);
    let other = json!({ "tool_name": "echo", "parameters": { "a": 2 } });
    once.post("/tools/invoke", other).await.refused(409, "idempotency_mismatch");
    // Also if its grant has been revoked since, and if the call failed.
    stage.receiver.does([Act::Say(503, "")]);
    let failing = stage.ada.once("k3");
    let failed = failing.post("/tools/invoke", ask.clone()).await.is(200);
    assert_eq!(failed["status"], "error");
    stage.ada.delete(&format!("/grants/{}", stage.grant["id"].as_str().unwrap())).await.is(200);
    assert_eq!(once.post("/tools/invoke", ask.clone()).await.is(200), done);
    assert_eq!(failing.post("/tools/invoke", ask).await.is(200), failed);
    assert_eq!(stage.receiver.count(), 3);
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_and_asks_again_hears_of_the_one_call() {
    let stage = Stage::plain().await;
    stage.receiver.does([Act::Hang]);
    let ask = json!({ "tool_name": "echo" });
    let once = stage.ada.once("k");
    let gone =
        tokio::time::timeout(Duration::from_millis(300), once.post("/tools/invoke", ask.clone())).await;
    assert!(gone.is_err());
    stage.receiver.until(1).await;
    let busy = once.post("/tools/invoke", ask.clone()).await;
    busy.refused(503, "unavailable");
    assert_eq!(busy.header("retry-after"), "1");
    let [running]: [Value; 1] = stage.uses().await.try_into().unwrap();
    assert_eq!(running["status"], "running");
    // The SDK does not know this status, so it sees only ended calls.
    let sdk = stage.ada.with("user-agent", "python-httpx/0.28").acting_as("agent.ada");
    let path = format!("/grants/{}/invocations", stage.grant["id"].as_str().unwrap());
    assert_eq!(sdk.get(&path).await.is(200), json!([]));
    assert_eq!(stage.receiver.count(), 1);
    stage.world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_server_died_is_not_lost() {
    let stage = Stage::plain().await;
    let done = stage.ada.once("k").post("/tools/invoke", json!({ "tool_name": "echo" })).await.is(200);
    // The state that a server leaves if it dies during a call.
    tamper(
        &stage.world,
        "UPDATE tool_invocations SET status = 'running', result = NULL, duration_ms = NULL, http_status = NULL",
    )
    .await;
    let once = stage.ada.once("k");
    let again = || once.post("/tools/invoke", json!({ "tool_name": "echo" }));
    again().await.refused(503, "unavailable");
    // It is over at its deadline, before and after a sweep; it is not called again.
    stage.world.clock.advance(600);
    for _ in 0..2 {
        let found = again().await.is(200);
        assert_eq!((&found["status"], &found["error_code"]), (&json!("error"), &json!("interrupted")));
        assert_eq!(found["invocation_id"], done["invocation_id"]);
        stage.world.sweep().await;
    }
    assert_eq!(stage.receiver.count(), 1);
    assert_eq!(stage.uses().await[0]["error"]["code"], "interrupted");
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_writes_down_what_came_of_its_calls() {
    let stage = Stage::plain().await;
    stage.receiver.does([Act::Hang]);
    let (ada, database) = (stage.ada.clone(), stage.world.database.clone());
    let asked = tokio::spawn(async move {
        ada.try_send("POST", "/tools/invoke", Some(json!({ "tool_name": "echo" }).to_string())).await
    });
    stage.receiver.until(1).await;
    let began = std::time::Instant::now();
    stage.world.server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(9), "it took {:?}", began.elapsed());
    let _cut_off = asked.await.unwrap();
    let next = World::on(Setup::default(), database).await;
    let ada = next.agent("agent.ada").await;
    let path = format!("/grants/{}/invocations", stage.grant["id"].as_str().unwrap());
    let uses = ada.get(&path).await.is(200);
    assert_eq!((&uses[0]["status"], &uses[0]["error"]["code"]), (&json!("error"), &json!("interrupted")));
    next.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_calls_are_kept_for_their_days() {
    let stage = Stage::plain().await;
    call(&stage.ada, "echo", json!({})).await;
    stage.world.pass(29 * 24 * 3_600).await;
    assert_eq!(stage.uses().await.len(), 1);
    stage.world.pass(2 * 24 * 3_600).await;
    assert_eq!(stage.uses().await.len(), 0);
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reports_what_it_has_called_by_itself() {
    let granted = json!({ "constraints": { "max_invocations_per_hour": 2 } });
    let stage = Stage::set("api_key", json!(SECRET), json!({}), granted).await;
    let bob = stage.world.agent("agent.bob").await;
    let report = json!({
        "grant_id": stage.grant["id"], "service": "search", "tool": "web_search", "agent_id": "agent.ada",
        "parameters": { "q": "x", "password": "p" }, "status": "error", "error": { "message": "no" },
        "cost": { "amount": 0.2 }, "duration_ms": 42, "idempotency_key": "r1", "context": { "trace": "t" },
    });
    let made = stage.ada.post("/invocations", report.clone()).await.is(200);
    let expected = json!({
        "id": made["id"], "invocation_id": made["id"], "grant_id": stage.grant["id"], "service": "search",
        "tool": "web_search", "agent_id": "agent.ada", "parameters": { "q": "x", "password": "[REDACTED]" },
        "status": "error", "result": null, "error": { "message": "no" }, "cost": { "amount": 0.2 }, "duration_ms": 42,
        "http_status": null, "request_bytes": null, "response_bytes": null, "idempotency_key": "r1",
        "context": { "trace": "t" }, "reported": true, "timestamp": "2026-11-21T08:00:00.000000Z",
    });
    assert_eq!(made, expected);
    assert_eq!(stage.ada.post("/invocations", report.clone()).await.is(200), made, "a retry is one report");
    bob.post("/invocations", report.clone()).await.refused(403, "may_not_act_as");
    for (member, value, status) in [
        ("agent_id", json!("agent.bob"), 404),
        ("grant_id", json!("grant_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"), 404),
        ("service", json!("other"), 422),
        ("status", json!("running"), 422),
        ("duration_ms", json!(-1), 422),
        ("result", json!({ "x": "y".repeat(300_000) }), 413),
    ] {
        let mut wrong = report.clone();
        wrong[member] = value;
        wrong["idempotency_key"] = Value::Null;
        let reply = if member == "agent_id" { &bob } else { &stage.ada }.post("/invocations", wrong).await;
        assert_eq!(reply.status, status, "{member}: {}", reply.text);
    }
    // A reported call counts towards the hourly limit too.
    call(&stage.ada, "echo", json!({})).await;
    stage.ada.post("/tools/invoke", json!({ "tool_name": "echo" })).await.refused(429, "rate_limited");
    // The owner of the grant sees the uses, page by page.
    let list = format!("/grants/{}/invocations", stage.grant["id"].as_str().unwrap());
    let all = ids(&stage.ada.get(&list).await.is(200));
    assert_eq!(all.len(), 2);
    assert_eq!(ids(&stage.ada.get(&format!("{list}?limit=1")).await.is(200)), all[..1]);
    assert_eq!(ids(&stage.ada.get(&format!("{list}?limit=1&before={}", all[0])).await.is(200)), all[1..]);
    stage.ada.get(&format!("{list}?limit=101")).await.refused(422, "invalid_parameter");
    bob.get(&list).await.refused(404, "not_found");
    stage.world.end().await;
}
