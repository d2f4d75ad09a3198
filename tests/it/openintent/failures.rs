//! Failures and retry policies (RFC-0010): the decision on a failure, one timely retry notification to the agent,
//! and the hand-over to another agent after enough failures.

use entente_harness::{Client, Setup, Value, World, json, talk};

async fn policy(client: &Client, intent: &str, rules: Value) -> Value {
    client.put(&format!("/intents/{intent}/retry-policy"), rules).await.is(200)
}

async fn fail(client: &Client, intent: &str, more: Value) -> Value {
    client.post(&format!("/intents/{intent}/failures"), more).await.is(200)
}

async fn assign(client: &Client, intent: &str, agent: &str) {
    client
        .post(&format!("/intents/{intent}/agents"), json!({ "agent_id": agent, "role": "reader" }))
        .await
        .ok();
}

/// Returns the retry assignments of the log, newest first.
async fn retries(client: &Client, intent: &str) -> Vec<Value> {
    let events =
        client.get(&format!("/intents/{intent}/events?event_type=agent_assigned&limit=1000")).await.ok();
    let all = events.as_array().unwrap().iter().map(|event| event["payload"].clone());
    all.filter(|payload| payload.get("retry_attempt").is_some()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_set_read_and_set_anew() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    let path = format!("/intents/{intent}/retry-policy");
    ada.get(&path).await.refused(404, "not_found");
    let made = policy(&ada, &intent, json!({})).await;
    let expected = json!({
        "id": made["id"], "intent_id": intent, "strategy": "exponential", "max_retries": 3, "base_delay_ms": 1000,
        "max_delay_ms": 60_000, "jitter": true, "fallback_agent_id": null, "failure_threshold": 3, "set_by": "agent.ada",
        "created_at": "2026-11-21T08:00:00.000000Z", "updated_at": "2026-11-21T08:00:00.000000Z",
        "createdAt": "2026-11-21T08:00:00.000000Z", "updatedAt": "2026-11-21T08:00:00.000000Z",
    });
    assert_eq!(made, expected);
    world.clock.advance(1);
    // Setting the same policy again is no change.
    assert_eq!(policy(&ada, &intent, json!({ "max_retries": 3 })).await, made);
    let changed =
        policy(&ada, &intent, json!({ "strategy": "fixed", "max_retries": 1, "jitter": false })).await;
    assert_eq!((&changed["id"], &changed["created_at"]), (&made["id"], &made["created_at"]));
    assert_eq!(changed["updated_at"], "2026-11-21T08:00:01.000000Z");
    assert_eq!(ada.get(&path).await.ok(), changed);
    let log = ada.get(&format!("/intents/{intent}/events?event_type=comment")).await.ok();
    assert_eq!(log.as_array().unwrap().len(), 2);
    assert_eq!(
        (&log[0]["payload"]["about"], &log[0]["payload"]["strategy"]),
        (&json!("retry_policy"), &json!("fixed"))
    );
    for bad in [
        json!({ "strategy": "hope" }),
        json!({ "max_retries": 101 }),
        json!({ "max_retries": -1 }),
        json!({ "base_delay_ms": 86_400_001 }),
        json!({ "failure_threshold": 0 }),
        json!({ "fallback_agent_id": "role:x" }),
    ] {
        ada.put(&path, bad).await.refused(422, "invalid_request");
    }
    let entry = json!({ "principal_id": "agent.r", "permission": "read" });
    ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok();
    // The fallback agent must have write access.
    ada.put(&path, json!({ "fallback_agent_id": "agent.r" })).await.refused(422, "unprocessable");
    world.agent("agent.r").await.put(&path, json!({})).await.refused(403, "forbidden");
    assert_eq!(ada.get(&path).await.ok(), changed);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_told_to_try_again_when_its_pause_is_over() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = talk(&ada, json!({})).await.0;
    assign(&ada, &intent, "agent.bob").await;
    policy(&ada, &intent, json!({ "base_delay_ms": 10_000, "jitter": false })).await;
    let made = fail(
        &bob,
        &intent,
        json!({ "attempt_number": 1, "error_code": "timeout", "error_message": "no answer" }),
    )
    .await;
    let retry = json!({
        "decision": "again", "reason": null, "attempt": 1, "at": "2026-11-21T08:00:10.000000Z", "agent_id": "agent.bob",
        "announced_at": null,
    });
    let expected = json!({
        "id": made["id"], "intent_id": intent, "agent_id": "agent.bob", "attempt_number": 1, "error_code": "timeout",
        "error_type": "timeout", "error_message": "no answer", "recoverable": true,
        "retry_scheduled_at": "2026-11-21T08:00:10.000000Z", "retry": retry, "resolved_at": null, "metadata": {},
        "created_at": "2026-11-21T08:00:00.000000Z", "retryScheduledAt": "2026-11-21T08:00:10.000000Z",
        "resolvedAt": null, "createdAt": "2026-11-21T08:00:00.000000Z",
    });
    assert_eq!(made, expected);
    world.pass(9).await;
    assert!(retries(&ada, &intent).await.is_empty());
    world.pass(1).await;
    let told = retries(&ada, &intent).await;
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["agent_id"], &told[0]["role"]), (&json!("agent.bob"), &json!("reader")));
    assert_eq!((&told[0]["retry_attempt"], &told[0]["last_error"]), (&json!(1), &json!("no answer")));
    assert_eq!((&told[0]["failure_id"], &told[0]["delegated_by"]), (&made["id"], &json!(null)));
    let listed = ada.get(&format!("/intents/{intent}/failures")).await.ok();
    assert_eq!(listed[0]["retry"]["announced_at"], "2026-11-21T08:00:10.000000Z");
    // With the names of the SDK's asynchronous client; the delay has doubled.
    let second = fail(&bob, &intent, json!({ "error_type": "refused", "error_message": "still none" })).await;
    assert_eq!((&second["error_code"], &second["attempt_number"]), (&json!("refused"), &json!(2)));
    assert_eq!(second["retry"]["at"], "2026-11-21T08:00:30.000000Z");
    world.pass(20).await;
    assert_eq!(retries(&ada, &intent).await[0]["retry_attempt"], 2);
    for _ in 0..2 {
        fail(&bob, &intent, json!({ "error_type": "refused", "error_message": "still none" })).await;
        world.pass(60).await;
    }
    // At most three retries.
    let told = retries(&ada, &intent).await;
    assert_eq!(told.len(), 3);
    let listed = ada.get(&format!("/intents/{intent}/failures")).await.ok();
    assert_eq!(listed[3]["retry"]["reason"], "exhausted");
    // A changed policy restarts the count.
    policy(&ada, &intent, json!({ "strategy": "fixed", "jitter": false })).await;
    assert_eq!(fail(&bob, &intent, json!({})).await["retry"]["decision"], "again");
    world.pass(1).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_agent_has_its_turn_once() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let intent = talk(&ada, json!({})).await.0;
    assign(&ada, &intent, "agent.bob").await;
    let rules = json!({ "strategy": "fixed", "jitter": false, "failure_threshold": 2, "fallback_agent_id": "agent.eve" });
    policy(&ada, &intent, rules).await;
    assert_eq!(fail(&bob, &intent, json!({ "error_message": "one" })).await["retry"]["decision"], "again");
    let second = fail(&bob, &intent, json!({ "error_message": "two" })).await;
    assert_eq!(
        (&second["retry"]["decision"], &second["retry"]["agent_id"]),
        (&json!("handed_over"), &json!("agent.eve"))
    );
    let told = retries(&ada, &intent).await;
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["agent_id"], &told[0]["delegated_by"]), (&json!("agent.eve"), &json!("agent.bob")));
    assert_eq!((&told[0]["retry_attempt"], &told[0]["last_error"]), (&json!(2), &json!("two")));
    let agents = ada.get(&format!("/intents/{intent}/agents")).await.ok();
    let eves = agents.as_array().unwrap().iter().find(|one| one["agent_id"] == "agent.eve").unwrap();
    assert_eq!(eves["role"], "worker");
    // The second failure cancelled the first one's retry.
    world.pass(60).await;
    assert_eq!(retries(&ada, &intent).await.len(), 1);
    // The fallback's attempts are counted separately, and it has no fallback itself.
    for n in 1..=3 {
        let made = fail(&eve, &intent, json!({})).await;
        assert_eq!((&made["retry"]["decision"], &made["retry"]["attempt"]), (&json!("again"), &json!(n)));
    }
    assert_eq!(fail(&eve, &intent, json!({})).await["retry"]["reason"], "exhausted");
    // Nor is the work handed over a second time.
    assert_eq!(fail(&bob, &intent, json!({})).await["retry"]["decision"], "again");
    assert_eq!(
        fail(&bob, &intent, json!({ "recoverable": false })).await["retry"]["reason"],
        "not_recoverable"
    );
    world.pass(60).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_tried_again_without_a_reason_to() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = talk(&ada, json!({})).await.0;
    assign(&ada, &intent, "agent.bob").await;
    let reason = |made: Value| made["retry"]["reason"].clone();
    assert_eq!(reason(fail(&bob, &intent, json!({})).await), "no_policy");
    policy(&ada, &intent, json!({ "strategy": "none" })).await;
    assert_eq!(reason(fail(&bob, &intent, json!({})).await), "no_retries");
    policy(&ada, &intent, json!({ "jitter": false })).await;
    assert_eq!(reason(fail(&bob, &intent, json!({ "recoverable": false })).await), "not_recoverable");
    assert_eq!(reason(fail(&bob, &intent, json!({ "attempt_number": 4 })).await), "exhausted");
    // An agent that schedules its own retry is not notified.
    let own = fail(&bob, &intent, json!({ "retry_scheduled_at": "2026-11-21T08:00:05Z" })).await;
    assert_eq!(
        (&own["retry"]["decision"], &own["retry_scheduled_at"]),
        (&json!("own"), &json!("2026-11-21T08:00:05.000000Z"))
    );
    // An agent without an assignment gets the decision only in the response.
    let eve = world.agent("agent.eve").await;
    assert_eq!(fail(&eve, &intent, json!({})).await["retry"]["decision"], "again");
    world.pass(60).await;
    assert!(retries(&ada, &intent).await.is_empty());
    for bad in [
        json!({ "attempt_number": -1 }),
        json!({ "attempt_number": "x" }),
        json!({ "error_code": "a\nb" }),
        json!({ "retry_scheduled_at": "soon" }),
    ] {
        bob.post(&format!("/intents/{intent}/failures"), bad).await.refused(422, "invalid_request");
    }
    let long = json!({ "error_message": "x".repeat(17_000) });
    bob.post(&format!("/intents/{intent}/failures"), long).await.refused(413, "too_large");
    let theirs = json!({ "agent_id": "agent.ada" });
    bob.post(&format!("/intents/{intent}/failures"), theirs).await.refused(403, "may_not_act_as");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_left_or_lost_access_is_not_told() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let agents = ["agent.gone", "agent.shut", "agent.there"];
    let intent = talk(&ada, json!({})).await.0;
    let mut entries = Vec::new();
    for agent in agents {
        let entry = json!({ "principal_id": agent, "permission": "write" });
        entries.push(ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok()["id"].clone());
        assign(&ada, &intent, agent).await;
    }
    policy(&ada, &intent, json!({ "jitter": false })).await;
    for agent in agents {
        fail(&world.agent(agent).await, &intent, json!({ "error_message": "secret" })).await;
    }
    ada.delete(&format!("/intents/{intent}/agents/agent.gone")).await.ok();
    let entry = entries[1].as_str().unwrap();
    assert_eq!(ada.delete(&format!("/intents/{intent}/acl/entries/{entry}")).await.status, 204);
    world.pass(1).await;
    let told = retries(&ada, &intent).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["agent_id"], "agent.there");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_intent_is_the_end_of_its_retries() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for (status, settled) in [("completed", true), ("abandoned", false)] {
        let intent = talk(&ada, json!({})).await.0;
        assign(&ada, &intent, "agent.ada").await;
        policy(&ada, &intent, json!({})).await;
        fail(&ada, &intent, json!({})).await;
        let version = ada.get(&format!("/intents/{intent}")).await.ok()["version"].clone();
        ada.seen(&version).post(&format!("/intents/{intent}/status"), json!({ "status": status })).await.ok();
        world.pass(60).await;
        assert!(retries(&ada, &intent).await.is_empty());
        let listed = ada.get(&format!("/intents/{intent}/failures")).await.ok();
        assert_eq!(listed[0]["resolved_at"].is_string(), settled, "{listed}");
        assert_eq!(fail(&ada, &intent, json!({})).await["retry"]["reason"], "intent_resolved");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_without_retries_calls_off_those_that_wait() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for (rules, told) in [
        (json!({ "strategy": "none" }), 0),
        (json!({ "max_retries": 0 }), 0),
        (json!({ "max_retries": 1 }), 1),
    ] {
        let intent = talk(&ada, json!({})).await.0;
        assign(&ada, &intent, "agent.ada").await;
        policy(&ada, &intent, json!({ "jitter": false })).await;
        fail(&ada, &intent, json!({})).await;
        policy(&ada, &intent, rules).await;
        world.pass(60).await;
        assert_eq!(retries(&ada, &intent).await.len(), told);
        let listed = ada.get(&format!("/intents/{intent}/failures")).await.ok();
        assert_eq!(listed[0]["resolved_at"], json!(null), "nothing is settled by it");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_one_tells() {
    let world = World::start().await;
    let other = World::on(Setup::default(), world.database.clone()).await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    assign(&ada, &intent, "agent.ada").await;
    policy(&ada, &intent, json!({ "base_delay_ms": 0 })).await;
    fail(&ada, &intent, json!({})).await;
    let due = |ctx: entente_bridges::Ctx| async move {
        entente_openintent::failures::retry_due(&ctx.openintent, 10).await.unwrap()
    };
    let (one, two) = tokio::join!(due(world.ctx().clone()), due(other.ctx().clone()));
    assert_eq!(one + two, 1);
    assert_eq!(retries(&ada, &intent).await.len(), 1);
    other.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_come_in_pages_and_a_retry_of_the_request_is_done_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    let path = format!("/intents/{intent}/failures");
    let first = fail(&ada.once("k"), &intent, json!({ "error_code": "a" })).await;
    assert_eq!(fail(&ada.once("k"), &intent, json!({ "error_code": "a" })).await, first);
    let second = fail(&ada, &intent, json!({ "error_code": "b" })).await;
    assert_eq!(second["attempt_number"], 2);
    let page = ada.get(&format!("{path}?limit=1")).await;
    assert_eq!(page.ok(), json!([first]));
    let rest = ada.get(&format!("{path}?limit=1&after={}", page.header("entente-next-cursor"))).await;
    assert_eq!(rest.ok(), json!([second]));
    assert!(!rest.headers.contains_key("entente-next-cursor"));
    let log = ada.get(&format!("/intents/{intent}/events?event_type=failure_recorded")).await.ok();
    assert_eq!(log.as_array().unwrap().len(), 2);
    world.end().await;
}

/// Creates failures with a due retry, each on its own intent.
pub async fn failed(world: &World, count: u64) {
    let ada = world.agent("agent.ada").await;
    for _ in 0..count {
        let intent = talk(&ada, json!({})).await.0;
        assign(&ada, &intent, "agent.ada").await;
        policy(&ada, &intent, json!({})).await;
        fail(&ada, &intent, json!({})).await;
    }
    world.clock.advance(60);
}
