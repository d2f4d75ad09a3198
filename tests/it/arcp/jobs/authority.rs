//! Authority is enforced (ARCP §9.1 to §9.5, §9.7): before an operation, and when an event reports one.

use super::{Hand, events, id, kinds, status};
use entente_harness::{Reply, Value, World, json};

/// Starts a server with one running job that has this lease.
async fn running(lease: Value, constraints: Value) -> (World, Hand, Value) {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let ask = json!({ "agent": "echo", "lease_request": lease, "lease_constraints": constraints });
    client.post("/jobs", ask).await.is(201);
    let job = hand.one().await;
    (world, hand, job)
}

async fn ask(hand: &Hand, job: &Value, capability: &str, target: &str) -> Reply {
    hand.tell(job, "authorize", json!({ "capability": capability, "target": target })).await
}

#[tokio::test]
async fn an_operation_is_judged_by_its_canonical_target() {
    let lease = json!({
        "fs.read": ["/w/*", "/deep/**"],
        "fs.write": ["/w/[ab]"],
        "net.fetch": ["https://api.example.com/v1/**"],
        "tool.call": ["search.*"],
        "agent.delegate": ["helper"],
        "x-vendor.acme.print": ["a?"],
    });
    let (world, hand, job) = running(lease, json!({})).await;
    let allowed = [
        ("fs.read", "/w/a"),
        ("fs.read", "/w//a"),
        ("fs.read", "/w/./a"),
        ("fs.read", "/deep"),
        ("fs.read", "/deep/a/b/c"),
        ("fs.write", "/w/[ab]"),
        ("net.fetch", "https://api.example.com/v1/x"),
        ("net.fetch", "HTTPS://API.Example.com:443/v1/x?q=1#f"),
        ("tool.call", "search.web"),
        ("agent.delegate", "helper"),
        ("x-vendor.acme.print", "a?"),
    ];
    for (capability, target) in allowed {
        assert_eq!(
            ask(&hand, &job, capability, target).await.ok()["decision"],
            "allow",
            "{capability} {target}"
        );
    }
    let denied = [
        ("fs.read", "/w/a/b"),
        ("fs.read", "/w"),
        ("fs.read", "/w/../etc/passwd"),
        ("fs.read", "/w/%2e%2e/etc/passwd"),
        ("fs.read", "/w/..%2fetc"),
        ("fs.read", "/w/a\\..\\b"),
        ("fs.read", "/x/w/a"),
        ("fs.read", "w/a"),
        ("fs.read", ""),
        ("fs.write", "/w/a"),
        ("fs.write", "/w/b"),
        ("net.fetch", "https://api.example.com.evil.org/v1/x"),
        ("net.fetch", "https://api.example.com@evil.org/v1/x"),
        ("net.fetch", "http://api.example.com/v1/x"),
        ("net.fetch", "https://api.example.com/v2/x"),
        ("net.fetch", "https://api.example.com/v1/../v2"),
        ("tool.call", "searchxweb"),
        ("tool.call", "Search.web"),
        ("agent.delegate", "helper2"),
        ("x-vendor.acme.print", "ab"),
        ("x-vendor.acme.scan", "a?"),
    ];
    for (capability, target) in denied {
        let body = ask(&hand, &job, capability, target).await.refused(403, "PERMISSION_DENIED");
        assert_eq!(body["retryable"], false, "{capability} {target}");
    }
    ask(&hand, &job, "fs.execute", "/w/a").await.refused(422, "INVALID_REQUEST");
    // No call was named, so none of these is an event.
    assert!(kinds(&world.admin().await, id(&job)).await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_refusal_with_a_call_is_an_event_and_the_job_lives_on() {
    let (world, hand, job) = running(json!({ "tool.call": ["search.*"] }), json!({})).await;
    let admin = world.admin().await;
    let call = json!({ "capability": "tool.call", "target": "shell", "call_id": "c1" });
    hand.tell(&job, "authorize", call).await.refused(403, "PERMISSION_DENIED");
    let told = hand
        .events(
            &job,
            json!([
                { "kind": "tool_call", "body": { "tool": "search.web", "args": {}, "call_id": "c2" } },
                { "kind": "tool_call", "body": { "name": "shell", "arguments": {}, "tool_call_id": "c3" } },
                { "kind": "delegate", "body": { "agent": "helper", "delegate_id": "d1" } },
                { "kind": "log", "body": { "level": "info", "message": "on" } },
            ]),
        )
        .await
        .ok();
    let denied: Vec<(&Value, &Value)> =
        told["denied"].as_array().unwrap().iter().map(|one| (&one["index"], &one["call_id"])).collect();
    assert_eq!(denied, [(&json!(1), &json!("c3")), (&json!(2), &json!("d1"))]);
    assert_eq!(told["denied"][0]["code"], "PERMISSION_DENIED");
    let all = events(&admin, id(&job)).await;
    let kinds: Vec<&str> = all.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["tool_result", "tool_call", "tool_call", "tool_result", "delegate", "tool_result", "log"]
    );
    let error =
        json!({ "code": "PERMISSION_DENIED", "retryable": false, "message": all[0].1["error"]["message"] });
    assert_eq!((&all[0].1["call_id"], &all[0].1["error"]), (&json!("c1"), &error));
    assert_eq!((&all[3].1["call_id"], &all[3].1["tool_call_id"]), (&json!("c3"), &json!("c3")));
    assert_eq!(status(&admin, id(&job)).await, "running");
    world.end().await;
}

#[tokio::test]
async fn a_tool_that_is_an_operation_is_judged_as_that_operation() {
    let reads = json!({ "fs.read": ["/w/**"], "net.fetch": ["https://example.org/**"], "tool.call": ["*"] });
    let (world, hand, job) = running(reads, json!({})).await;
    let call =
        |tool: &str, args: Value| json!({ "kind": "tool_call", "body": { "tool": tool, "args": args } });
    let calls = json!([
        call("fs.read", json!({ "path": "/w/a" })),
        call("fs.read", json!({ "path": "/etc/passwd" })),
        call("fs.read", json!({ "path": "/w/../etc/passwd" })),
        call("net.fetch", json!({ "url": "https://EXAMPLE.org/a" })),
        call("net.fetch", json!({ "url": "https://example.com/a" })),
        { "kind": "tool_call", "body": { "name": "fs.read", "arguments": { "path": "/x" }, "tool_call_id": "t" } },
        // Without a target, with another type of target, and without the capability: a tool like any other.
        call("fs.read", json!({})),
        call("fs.read", json!({ "path": 1 })),
        call("fs.read", json!("/etc/passwd")),
        call("fs.write", json!({ "path": "/etc/passwd" })),
        call("shell", json!({ "path": "/etc/passwd" })),
    ]);
    let told = hand.events(&job, calls).await.ok();
    let denied: Vec<u64> =
        told["denied"].as_array().unwrap().iter().map(|one| one["index"].as_u64().unwrap()).collect();
    assert_eq!(denied, [1, 2, 4, 5], "{told}");
    assert!(told["denied"][0]["message"].as_str().unwrap().contains("`fs.read` of `/etc/passwd`"), "{told}");
    world.end().await;
}

#[tokio::test]
async fn a_lease_ends_to_the_instant() {
    let end = json!({ "expires_at": "2026-11-21T08:01:00Z" });
    let (world, hand, job) = running(json!({ "tool.call": ["*"] }), end).await;
    let admin = world.admin().await;
    world.clock.advance(59);
    hand.beat(&[&job]).await;
    ask(&hand, &job, "tool.call", "x").await.ok();
    world.clock.advance(1);
    let call = json!({ "capability": "tool.call", "target": "x", "call_id": "c1" });
    let body = hand.tell(&job, "authorize", call).await.refused(403, "LEASE_EXPIRED");
    assert_eq!(body["retryable"], false);
    // The late operation has ended the job: a result of the call and then the end (ARCP-W-1.4).
    let all = events(&admin, id(&job)).await;
    let kinds: Vec<&str> = all.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["tool_result", "job.error"]);
    let last = &all[1].1;
    assert_eq!((&last["code"], &last["final_status"]), (&json!("LEASE_EXPIRED"), &json!("error")));
    assert_eq!((&all[0].1["error"]["code"], &last["retryable"]), (&json!("LEASE_EXPIRED"), &json!(false)));
    hand.tell(&job, "result", json!({ "result": 1 })).await.refused(409, "CLAIM_LOST");
    world.pass(1).await;
    noted_once(&world, &job).await;
    world.end().await;
}

#[tokio::test]
async fn an_event_after_the_end_of_the_lease_ends_the_job() {
    let end = json!({ "expires_at": "2026-11-21T08:00:10Z" });
    let (world, hand, job) = running(json!({ "tool.call": ["*"] }), end).await;
    world.clock.advance(10);
    let told = hand
        .events(
            &job,
            json!([
                { "kind": "log", "body": { "message": "kept" } },
                { "kind": "tool_call", "body": { "tool": "x", "call_id": "c1" } },
                { "kind": "log", "body": { "message": "after the end" } },
            ]),
        )
        .await
        .ok();
    assert_eq!(told["lease_expired"], true);
    let kinds = kinds(&world.admin().await, id(&job)).await;
    assert_eq!(kinds, ["log", "tool_call", "tool_result", "job.error"]);
    world.end().await;
}

/// Asserts that the end of a lease is in the audit log once (ARCP §14).
async fn noted_once(world: &World, job: &Value) {
    let log = world.admin().await.get("/audit").await.ok();
    let noted = log["events"].as_array().or(log.as_array()).unwrap();
    let noted: Vec<&Value> =
        noted.iter().filter(|event| event["event_type"] == "job.lease_expired").collect();
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(noted[0]["payload"]["job_id"], job["job_id"]);
}

#[tokio::test]
async fn a_lease_that_ran_out_ends_its_job_by_itself_after_a_grace() {
    let end = json!({ "expires_at": "2026-11-21T08:00:30Z" });
    let (world, hand, job) = running(json!({}), end.clone()).await;
    let client = world.client("key-of-agent.client");
    let waiting = client.post("/jobs", json!({ "agent": "echo", "lease_constraints": end })).await.is(201);
    world.pass(30).await;
    assert_eq!(status(&client, id(&job)).await, "running", "what it has in hand may still be handed in");
    let late = hand.one().await;
    hand.tell(&late, "result", json!({ "result": "in time" })).await.ok();
    world.pass(1).await;
    let (kind, last) = events(&client, id(&job)).await.pop().unwrap();
    assert_eq!((kind.as_str(), &last["code"]), ("job.error", &json!("LEASE_EXPIRED")));
    assert_eq!(status(&client, id(&waiting)).await, "success");
    noted_once(&world, &job).await;
    world.end().await;
}

#[tokio::test]
async fn models_are_named_or_free_as_the_version_says() {
    let world = World::start().await;
    let (client, any) = (world.agent("agent.client").await, world.any());
    let hand = Hand::of(&any, "echo@1").await;
    any.put("/arcp/agents/strict/versions/1", json!({ "requires_model_use": true })).await.ok();
    let strict = Hand::again(&any, "strict").await;
    let lease = json!({ "model.use": ["tier-fast/*", "anthropic/claude-3-haiku-*"] });
    client.post("/jobs", json!({ "agent": "echo", "lease_request": lease })).await.is(201);
    let named = hand.one().await;
    ask(&hand, &named, "model.use", "tier-fast/x").await.ok();
    ask(&hand, &named, "model.use", "anthropic/claude-3-haiku-7").await.ok();
    for other in ["tier-slow/x", "tier-fast", "tier-fast/x/y", "openai/gpt"] {
        ask(&hand, &named, "model.use", other).await.refused(403, "PERMISSION_DENIED");
    }
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let free = hand.one().await;
    ask(&hand, &free, "model.use", "any/model").await.ok();
    client.post("/jobs", json!({ "agent": "strict" })).await.is(201);
    let forbidden = strict.one().await;
    ask(&strict, &forbidden, "model.use", "any/model").await.refused(403, "PERMISSION_DENIED");
    world.end().await;
}
