//! Stops: from one call on, a subject starts nothing any more, on every server within a second; what is under way may
//! end.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use entente_harness::envelopes::task_envelope;
use entente_harness::jobs::{Hand, id, status};
use entente_harness::triggers::{did, intents, now, path, trigger};
use entente_harness::{Client, Setup, Value, World, json, send, talk};

use super::{budget, reserving, running};

async fn stop(admin: &Client, scope: &str) -> String {
    let made = admin.post("/stops", json!({ "scope": scope, "reason": "it spends too much" })).await.is(201);
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_of_the_system_is_one_call() {
    let world = World::start().await;
    let (admin, client, any) = (world.admin().await, world.agent("agent.client").await, world.any());
    let hand = Hand::of(&any, "echo@1").await;
    let (intent, channel) = talk(&client, json!({})).await;
    let task = client.post(&format!("/intents/{intent}/tasks"), json!({ "name": "t" })).await.ok();
    let job = running(&client, &hand, json!({})).await;
    hand.tell(&job, "authorize", reserving("0")).await;
    let waiting = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let made = stop(&admin, "system").await;
    // Every way to start something.
    client.post("/jobs", json!({ "agent": "echo" })).await.refused(403, "PERMISSION_DENIED");
    let claim = json!({ "worker_id": hand.id, "max": 1 });
    any.post("/jobs/claim", claim.clone()).await.refused(403, "PERMISSION_DENIED");
    let call = json!({ "capability": "tool.call", "target": "x" });
    hand.tell(&job, "authorize", call.clone()).await.refused(403, "PERMISSION_DENIED");
    let message = json!({ "sender": "agent.client", "payload": {} });
    client.post(&format!("/channels/{channel}/messages"), message.clone()).await.refused(403, "stopped");
    let batch = json!({ "messages": [message] });
    let sent = client.post(&format!("/channels/{channel}/messages/batch"), batch).await;
    assert!(sent.text.contains("stopped"), "{}", sent.text);
    client
        .post(&format!("/intents/{intent}/channels/other/messages"), message.clone())
        .await
        .refused(403, "stopped");
    client.post("/intents", json!({ "title": "more" })).await.refused(403, "stopped");
    let event = json!({ "event_type": "comment", "payload": {} });
    client.post(&format!("/intents/{intent}/events"), event).await.refused(403, "stopped");
    client
        .post(&format!("/tasks/{}/claim", task["id"].as_str().unwrap()), json!({}))
        .await
        .refused(403, "stopped");
    any.post("/spend/reservations", json!({ "reserve": {} })).await.refused(403, "stopped");
    let refused = client.post(&format!("/channels/{channel}/messages"), message.clone()).await;
    assert!(refused.text.contains("it spends too much"), "{}", refused.text);
    // The running job is told, and what it did can be reported and settled.
    world.sweep().await;
    let told = hand.events(&job, json!([])).await.ok();
    assert_eq!(told["cancel_requested"], true, "{told}");
    hand.tell(&job, "error", json!({ "code": "CANCELLED", "message": "stopped" })).await.ok();
    assert_eq!(status(&admin, id(&job)).await, "cancelled");
    assert_eq!(status(&admin, waiting["job_id"].as_str().unwrap()).await, "pending", "it waits");
    // Lifted, by whom is on the record; everything goes on.
    for _ in 0..2 {
        assert_eq!(admin.delete(&format!("/stops/{made}")).await.ok()["in_force"], false);
    }
    client.post(&format!("/channels/{channel}/messages"), message).await.is(201);
    world.sweep().await;
    assert_eq!(hand.one().await["job_id"], waiting["job_id"]);
    let all = admin.get("/stops?lifted=true").await.ok();
    assert_eq!(all["stops"][0]["lifted_by"], admin.get("/principals/me").await.ok()["principal_id"]);
    assert_eq!(admin.get("/stops").await.ok()["stops"], json!([]));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_does_not_end_is_ended_after_its_grace() {
    let world = World::start().await;
    let (admin, client) = (world.admin().await, world.agent("agent.client").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = running(&client, &hand, json!({})).await;
    stop(&admin, "agent:echo").await;
    world.sweep().await;
    assert_eq!(status(&admin, id(&job)).await, "running");
    hand.beat(&[&job]).await;
    world.pass(31).await;
    assert_eq!(status(&admin, id(&job)).await, "cancelled");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_scope_is_stopped() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let hand = Hand::of(&any, "echo@1").await;
    admin.put("/teams/research", json!({ "members": ["agent.ada"] })).await.is(200);
    let key = ada.get("/principals/me").await.ok()["key"]["id"].as_str().unwrap().to_owned();
    let (intent, channel) = talk(&ada, json!({ "default_policy": "write" })).await;
    for scope in ["team:research", "principal:agent.ada", "agent:agent.ada", &format!("key:{key}")] {
        let job = running(&ada, &hand, json!({})).await;
        let waiting = ada.post("/jobs", json!({ "agent": "echo" })).await.is(201);
        let made = stop(&admin, scope).await;
        ada.post("/jobs", json!({ "agent": "echo" })).await.refused(403, "PERMISSION_DENIED");
        let message = json!({ "sender": "agent.ada", "payload": {} });
        ada.post(&format!("/channels/{channel}/messages"), message).await.refused(403, "stopped");
        hand.tell(&job, "authorize", json!({ "capability": "tool.call", "target": "x" }))
            .await
            .refused(403, "PERMISSION_DENIED");
        assert_eq!(ada.get("/stops").await.ok()["stops"][0]["id"], json!(made), "{scope}: it learns why");
        // Others go on, and no worker gets the stopped principal's pending job, also before the sweep has seen it.
        if !scope.starts_with("key:") {
            assert!(hand.claim(5).await.is_empty(), "{scope}");
        }
        world.sweep().await;
        let other = running(&bob, &hand, json!({})).await;
        assert_ne!(other["job_id"], waiting["job_id"], "{scope}");
        hand.tell(&other, "result", json!({ "result": 1 })).await.ok();
        assert!(hand.claim(5).await.is_empty(), "{scope}");
        world.sweep().await;
        assert_eq!(hand.events(&job, json!([])).await.ok()["cancel_requested"], true, "{scope}");
        hand.tell(&job, "error", json!({ "code": "CANCELLED", "message": "" })).await.ok();
        admin.delete(&format!("/stops/{made}")).await.ok();
        world.sweep().await;
        let next = hand.one().await;
        assert_eq!(next["job_id"], waiting["job_id"], "{scope}");
        hand.tell(&next, "result", json!({ "result": 1 })).await.ok();
    }
    let made = stop(&admin, &format!("intent:{intent}")).await;
    let message = json!({ "sender": "agent.ada", "payload": {} });
    ada.post(&format!("/channels/{channel}/messages"), message.clone()).await.refused(403, "stopped");
    let (_, elsewhere) = talk(&ada, json!({})).await;
    send(&ada, &elsewhere, message).await;
    admin.delete(&format!("/stops/{made}")).await.ok();
    for (wrong, code) in [
        (json!({ "scope": "system", "reason": " " }), "invalid_request"),
        (json!({ "scope": "intent:x", "reason": "x" }), "invalid_request"),
        (json!({ "scope": "team:nobody", "reason": "x" }), "unprocessable"),
    ] {
        admin.post("/stops", wrong).await.refused(422, code);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_server_stops_within_a_second() {
    let one = World::with(Setup::live()).await;
    let other = World::on(Setup::live(), one.database.clone()).await;
    let admin = one.admin().await;
    let there = other.agent("agent.there").await;
    let hand = Hand::of(&other.any(), "echo@1").await;
    let (_, channel) = talk(&there, json!({})).await;
    let jobs: Vec<Value> = {
        let mut jobs = Vec::new();
        for _ in 0..20 {
            jobs.push(running(&there, &hand, json!({})).await);
        }
        jobs
    };
    let mut slowest = Duration::ZERO;
    for _ in 0..5 {
        let began = Instant::now();
        let made = stop(&admin, "system").await;
        let message = json!({ "sender": "agent.there", "payload": {} });
        while there.post(&format!("/channels/{channel}/messages"), message.clone()).await.status != 403 {
            sleep(Duration::from_millis(5)).await;
        }
        slowest = slowest.max(began.elapsed());
        // All running jobs are told as well.
        while hand.beat(&jobs.iter().collect::<Vec<_>>()).await["cancel"].as_array().unwrap().len()
            < jobs.len()
        {
            assert!(began.elapsed() < Duration::from_secs(10), "they are told");
            sleep(Duration::from_millis(20)).await;
        }
        admin.delete(&format!("/stops/{made}")).await.ok();
        while there.post(&format!("/channels/{channel}/messages"), message.clone()).await.status == 403 {
            sleep(Duration::from_millis(5)).await;
        }
    }
    println!("a stop reaches the other server after {slowest:?} at most");
    assert!(slowest < Duration::from_secs(5), "far beyond the second that is promised: {slowest:?}");
    other.end().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_acts_as_others_does_not_act_as_a_stopped_one() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    world.agent("agent.ada").await;
    world.agent("agent.bob").await;
    Hand::of(&any, "echo@1").await;
    let (intent, channel) = talk(&any, json!({ "default_policy": "write" })).await;
    let made = stop(&admin, "agent:agent.ada").await;
    let said = |who: &str| json!({ "sender": who, "payload": {} });
    let event = |who: &str| json!({ "event_type": "comment", "actor": who, "payload": {} });
    let new = |who: &str| json!({ "title": "more", "created_by": who });
    let messages = format!("/channels/{channel}/messages");
    let (named, opening) = (
        format!("/intents/{intent}/channels/main/messages"),
        format!("/intents/{intent}/channels/new/messages"),
    );
    any.post(&messages, said("agent.ada")).await.refused(403, "stopped");
    any.post(&named, said("agent.ada")).await.refused(403, "stopped");
    any.post(&opening, said("agent.ada")).await.refused(403, "stopped");
    any.post(&format!("/channels/{channel}/ask"), said("agent.ada")).await.refused(403, "stopped");
    any.post(&format!("/intents/{intent}/events"), event("agent.ada")).await.refused(403, "stopped");
    any.post("/intents", new("agent.ada")).await.refused(403, "stopped");
    let call = json!({ "tool_name": "search", "agent_id": "agent.ada" });
    any.post("/tools/invoke", call).await.refused(403, "stopped");
    let envelope = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    any.post("/aee/envelopes", envelope.clone()).await.refused(403, "stopped");
    any.acting_as("agent.ada")
        .post("/jobs", json!({ "agent": "echo" }))
        .await
        .refused(403, "PERMISSION_DENIED");
    // Of a batch, the messages of others are sent.
    let batch = json!({ "messages": [said("agent.ada"), said("agent.bob")] });
    let sent = any.post(&format!("{messages}/batch"), batch).await.is(207);
    assert_eq!(sent["results"][0]["error"]["code"], "stopped", "{sent}");
    assert_eq!(sent["results"][1]["message"]["sender"], "agent.bob", "{sent}");
    for (path, body) in [(&messages, said("agent.bob")), (&opening, said("agent.bob"))] {
        any.post(path, body).await.is(201);
    }
    any.post("/intents", new("agent.bob")).await.ok();
    admin.delete(&format!("/stops/{made}")).await.ok();
    any.post("/aee/envelopes", envelope).await.is(202);
    any.post(&messages, said("agent.ada")).await.is(201);
    world.end().await;
}

#[tokio::test]
async fn a_trigger_of_who_is_stopped_fires_nothing_and_goes_on_later() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let schedule = trigger(&ada, "schedule", json!({ "condition": { "every_seconds": 600 } })).await;
    let hook = trigger(&ada, "event", json!({ "condition": { "event": "intent.created" } })).await;
    for scope in ["agent:agent.ada", "system"] {
        let made = stop(&admin, scope).await;
        world.pass(600).await;
        let fired = ada.send("POST", &format!("{}/fire", path(&schedule)), None).await;
        assert!(!fired.text.contains("\"fired\""), "{}", fired.text);
        admin.delete(&format!("/stops/{made}")).await.ok();
    }
    assert_eq!(intents(&ada).await.len(), 0);
    let words: Vec<Value> = did(&ada, &schedule).await.into_iter().map(|(_, _, reason)| reason).collect();
    assert_eq!(words, vec![json!("stopped"); 4]);
    world.pass(600).await;
    assert!(!intents(&ada).await.is_empty());
    let enabled = now(&ada, &hook).await["enabled"].clone();
    assert_eq!(enabled, true, "a stop disables no trigger");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_stopped_does_nothing_for_others_either() {
    let world = World::start().await;
    let (admin, any, client) = (world.admin().await, world.any(), world.agent("agent.client").await);
    let hand = Hand::of(&any, "echo@1").await;
    let whom = any.get("/principals/me").await.ok()["principal_id"].as_str().unwrap().to_owned();
    let done = running(&client, &hand, json!({})).await;
    hand.tell(&done, "error", json!({ "code": "INTERNAL_ERROR", "message": "no" })).await.ok();
    let job = running(&client, &hand, json!({})).await;
    // The worker's principal is stopped: the job that it runs is told to end.
    let made = stop(&admin, &format!("principal:{whom}")).await;
    for ask in [json!({ "capability": "tool.call", "target": "x" }), reserving("0")] {
        hand.tell(&job, "authorize", ask).await.refused(403, "PERMISSION_DENIED");
    }
    hand.tell(&job, "delegate", json!({ "agent": "echo", "delegate_id": "d" }))
        .await
        .refused(403, "PERMISSION_DENIED");
    let call = json!({ "principal_id": "agent.client", "reserve": { "USD": 1 } });
    any.post("/spend/reservations", call.clone()).await.refused(403, "stopped");
    world.sweep().await;
    assert_eq!(hand.events(&job, json!([])).await.ok()["cancel_requested"], true);
    hand.tell(&job, "error", json!({ "code": "CANCELLED", "message": "stopped" })).await.ok();
    admin.delete(&format!("/stops/{made}")).await.ok();
    any.post("/spend/reservations", call).await.is(201);
    // The submitter is: it runs nothing again, and its job hears nothing more from it.
    let job = running(&client, &hand, json!({})).await;
    let made = stop(&admin, "principal:agent.client").await;
    let signal = json!({ "name": "input", "payload": { "n": 1 } });
    let path = format!("/jobs/{}/signals", id(&job));
    client.post(&path, signal.clone()).await.refused(403, "PERMISSION_DENIED");
    let rerun = format!("/jobs/{}/rerun", id(&done));
    client.post(&rerun, json!({ "idempotency_key": "k" })).await.refused(403, "PERMISSION_DENIED");
    admin.delete(&format!("/stops/{made}")).await.ok();
    client.post(&path, signal).await.is(201);
    hand.tell(&job, "result", json!({ "result": 1 })).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_not_lifted_by_whom_it_stops() {
    let world = World::start().await;
    let admin = world.admin().await;
    let whom = admin.get("/principals/me").await.ok()["principal_id"].as_str().unwrap().to_owned();
    admin.post("/principals", json!({ "id": "agent.ops", "kind": "agent" })).await.is(201);
    let other = admin.post("/principals/agent.ops/keys", json!({ "scopes": ["admin"] })).await.is(201);
    let other = world.client(other["key"].as_str().unwrap());
    let made = stop(&other, &format!("principal:{whom}")).await;
    admin.delete(&format!("/stops/{made}")).await.refused(403, "stopped");
    other.delete(&format!("/stops/{made}")).await.ok();
    // Whoever made it finds a way out, and nobody is locked out of a system that is stopped.
    let own = stop(&admin, &format!("principal:{whom}")).await;
    admin.delete(&format!("/stops/{own}")).await.ok();
    let all = stop(&other, "system").await;
    admin.delete(&format!("/stops/{all}")).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reported_tool_call_is_judged_by_stops_and_shared_budgets() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = running(&ada, &hand, json!({})).await;
    let calling = |tool: &str, call: &str| json!([{ "kind": "tool_call", "body": { "tool": tool, "call_id": call, "args": {} } }]);
    assert_eq!(hand.events(&job, calling("search.web", "c0")).await.ok()["denied"], json!([]));
    // Half of the team's money is spent: only some tools are left.
    admin.put("/teams/research", json!({ "members": ["agent.ada"] })).await.is(200);
    let degrade = json!([{ "percent": 50, "degrade": { "tools": ["search.*"] } }]);
    budget(&admin, "team:research", json!(10), json!({ "thresholds": degrade })).await;
    let spent = json!([{ "kind": "metric", "body": { "name": "cost.call", "value": 6, "unit": "USD" } }]);
    hand.events(&job, spent.clone()).await.ok();
    assert_eq!(hand.events(&job, calling("search.web", "c1")).await.ok()["denied"], json!([]));
    let denied = hand.events(&job, calling("shell.run", "c2")).await.ok()["denied"].clone();
    assert_eq!((&denied[0]["call_id"], &denied[0]["code"]), (&json!("c2"), &json!("PERMISSION_DENIED")));
    // All of it: none.
    hand.events(&job, spent).await.ok();
    let denied = hand.events(&job, calling("search.web", "c3")).await.ok()["denied"].clone();
    assert_eq!(denied[0]["code"], "BUDGET_EXHAUSTED", "{denied}");
    stop(&admin, "team:research").await;
    let denied = hand.events(&job, calling("search.web", "c4")).await.ok()["denied"].clone();
    assert_eq!(denied[0]["code"], "PERMISSION_DENIED", "{denied}");
    assert!(denied[0]["message"].as_str().unwrap().contains("it spends too much"), "{denied}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_grace_shields_from_no_stop_and_no_orphan_keeps_a_sweep_busy() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = running(&ada, &hand, json!({})).await;
    let session = ada.get(&format!("/jobs/{}", id(&job))).await.ok()["session_id"].clone();
    let cancel = json!({ "grace_sec": 3600, "session_id": session });
    ada.post(&format!("/jobs/{}/cancel", id(&job)), cancel).await.is(202);
    stop(&admin, "agent:echo").await;
    world.sweep().await;
    hand.beat(&[&job]).await;
    world.pass(31).await;
    assert_eq!(status(&admin, id(&job)).await, "cancelled");
    let orphan = "INSERT INTO stopped_jobs (job_id) VALUES (gen_random_uuid())";
    sqlx::query(orphan).execute(&world.ctx().pool).await.unwrap();
    world.sweep().await;
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM stopped_jobs").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(left, 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_worker_reports_no_further_tool_calls() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let maker = world.agent("agent.maker").await;
    let hand = Hand::of(&maker, "echo@1").await;
    let job = running(&ada, &hand, json!({})).await;
    stop(&admin, "principal:agent.maker").await;
    let called = json!([{ "kind": "tool_call", "body": { "tool": "x", "call_id": "c", "args": {} } }]);
    let denied = hand.events(&job, called).await.ok()["denied"].clone();
    assert_eq!((&denied[0]["call_id"], &denied[0]["code"]), (&json!("c"), &json!("PERMISSION_DENIED")));
    world.end().await;
}
