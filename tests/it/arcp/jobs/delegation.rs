//! Delegation only narrows (ARCP §9.4, §10).

use super::{Hand, events, id, kinds, status};
use entente_harness::{Client, Value, World, json};

struct Family {
    world: World,
    client: Client,
    hand: Hand,
    helper: Hand,
    parent: Value,
}

impl Family {
    /// Starts a server with a running parent that has this lease.
    async fn of(lease: Value, constraints: Value) -> Self {
        let world = World::start().await;
        let client = world.agent("agent.client").await;
        let hand = Hand::of(&world.any(), "boss@1").await;
        let helper = Hand::of(&world.any(), "helper@2").await;
        let ask = json!({ "agent": "boss", "lease_request": lease, "lease_constraints": constraints });
        client.post("/jobs", ask).await.is(201);
        let parent = hand.one().await;
        Self { world, client, hand, helper, parent }
    }

    async fn delegate(&self, name: &str, lease: Value, constraints: Value) -> entente_harness::Reply {
        let body = json!({
            "delegate_id": name, "agent": "helper", "input": { "part": name }, "lease_request": lease,
            "lease_constraints": constraints,
        });
        self.hand.tell(&self.parent, "delegate", body).await
    }
}

#[tokio::test]
async fn a_child_is_a_job_of_the_same_session_and_trace() {
    let lease = json!({ "agent.delegate": ["helper"], "fs.read": ["/w/**"] });
    let family = Family::of(lease, json!({})).await;
    let child = family.delegate("d1", json!({ "fs.read": ["/w/a/*"] }), json!({})).await.is(201);
    assert_eq!((&child["parent_job_id"], &child["delegate_id"]), (&family.parent["job_id"], &json!("d1")));
    assert_eq!((&child["agent"], &child["trace_id"]), (&json!("helper@2"), &family.parent["trace_id"]));
    let again = family.delegate("d1", json!({}), json!({})).await.is(201);
    assert_eq!(again["job_id"], child["job_id"], "a retry is the same child");
    let (kind, body) = events(&family.client, id(&family.parent)).await.pop().unwrap();
    assert_eq!((kind.as_str(), &body["child_job_id"]), ("delegate", &child["job_id"]));
    let claimed = family.helper.one().await;
    assert_eq!(
        (&claimed["input"], &claimed["parent_job_id"]),
        (&json!({ "part": "d1" }), &family.parent["job_id"])
    );
    assert_eq!(claimed["principal"], "agent.client", "it is the submitter's job, not the worker's");
    let listed = family.client.get("/jobs?agent=helper").await.ok();
    assert_eq!(listed["jobs"][0]["parent_job_id"], family.parent["job_id"]);
    family.world.end().await;
}

#[tokio::test]
async fn an_event_that_delegates_makes_its_child_in_its_place() {
    let lease = json!({ "agent.delegate": ["helper"], "fs.read": ["/w/**"], "tool.call": ["x"] });
    let family = Family::of(lease, json!({})).await;
    let log =
        |key: &str| json!({ "kind": "log", "body": { "level": "info", "message": key }, "event_key": key });
    let order = json!({ "kind": "delegate", "event_key": "o", "body": {
        "delegate_id": "d1", "agent": "helper", "input": { "part": 1e2 }, "lease_request": { "fs.read": ["/w/a"] } } });
    let call = json!({ "kind": "tool_call", "event_key": "c", "body": { "tool": "y", "call_id": "c1" } });
    let batch = json!([log("before"), order, call, log("after")]);
    let told = family.hand.events(&family.parent, batch.clone()).await.ok();
    let claimed = family.helper.one().await;
    assert_eq!(
        told["children"],
        json!([{ "index": 1, "delegate_id": "d1", "job_id": claimed["job_id"] }]),
        "{told}"
    );
    assert_eq!((&told["denied"][0]["index"], &told["denied"][0]["call_id"]), (&json!(2), &json!("c1")));
    assert_eq!(
        (&claimed["input"], &claimed["lease"]),
        (&json!({ "part": 1e2 }), &json!({ "fs.read": ["/w/a"] }))
    );
    assert_eq!(
        (&claimed["parent_job_id"], &claimed["delegate_id"]),
        (&family.parent["job_id"], &json!("d1"))
    );
    let kinds_of = async || kinds(&family.client, id(&family.parent)).await;
    let expected = ["log", "delegate", "tool_call", "tool_result", "log"];
    assert_eq!(kinds_of().await, expected);
    assert_eq!(told["last_event_seq"], expected.len());
    let (_, body) = events(&family.client, id(&family.parent)).await.remove(1);
    assert_eq!((&body["delegate_id"], &body["child_job_id"]), (&json!("d1"), &claimed["job_id"]));
    // Sent again, after a lost answer: the same child, and no event twice.
    let again = family.hand.events(&family.parent, batch).await.ok();
    assert_eq!(again["children"], told["children"]);
    assert_eq!(kinds_of().await, expected);
    assert!(family.helper.claim(10).await.is_empty());
    family.world.end().await;
}

#[tokio::test]
async fn an_event_that_delegates_too_much_is_kept_and_refused_once() {
    let lease = json!({ "agent.delegate": ["helper"], "fs.read": ["/w/*"] });
    let family = Family::of(lease, json!({})).await;
    let order = |name: &str, agent: &str, lease: Value| {
        json!({ "kind": "delegate", "event_key": name, "body": {
            "delegate_id": name, "agent": agent, "lease_request": lease } })
    };
    let on = json!({ "kind": "log", "event_key": "on", "body": { "level": "info", "message": "on" } });
    let batch = json!([
        order("wide", "helper", json!({ "fs.read": ["/**"] })),
        order("other", "boss", json!({})),
        on
    ]);
    for denials in [2, 0] {
        let told = family.hand.events(&family.parent, batch.clone()).await.ok();
        let denied: Vec<(&Value, &Value)> =
            told["denied"].as_array().unwrap().iter().map(|one| (&one["call_id"], &one["code"])).collect();
        let expected = [
            (&json!("wide"), &json!("LEASE_SUBSET_VIOLATION")),
            (&json!("other"), &json!("PERMISSION_DENIED")),
        ];
        assert_eq!(denied, expected[..denials], "a retry is not judged again");
        assert_eq!(told["children"], json!([]));
        let all = kinds(&family.client, id(&family.parent)).await;
        assert_eq!(all, ["delegate", "tool_result", "delegate", "tool_result", "log"]);
    }
    assert!(family.helper.claim(10).await.is_empty());
    assert_eq!(status(&family.client, id(&family.parent)).await, "running");
    family.world.end().await;
}

#[tokio::test]
async fn an_invalid_delegation_leaves_nothing_of_its_request() {
    let family = Family::of(json!({ "agent.delegate": ["*"] }), json!({})).await;
    let log = json!({ "kind": "log", "body": { "level": "info", "message": "m" } });
    for body in [
        json!({ "delegate_id": "d1", "agent": "helper", "lease_request": { "fs.read": "/w" } }),
        json!({ "delegate_id": "d1", "agent": "helper", "lease_request": { "fs": ["/w"] } }),
        json!({ "delegate_id": "d1", "agent": "Helper!" }),
        json!({ "delegate_id": "", "agent": "helper" }),
        json!({ "delegate_id": 1, "agent": "helper" }),
        json!({ "delegate_id": "d1" }),
        json!({ "delegate_id": "d1", "agent": "helper", "max_runtime_sec": 0 }),
    ] {
        let order = json!({ "kind": "delegate", "body": body });
        family.hand.events(&family.parent, json!([log, order])).await.refused(422, "INVALID_REQUEST");
    }
    // Children that exist already, and events without a name for one, are only passed on.
    let told = [
        json!({ "child_job_id": "job_x", "agent": "helper", "delegate_id": "d1" }),
        json!({ "agent": "helper" }),
    ];
    for body in told {
        let told =
            family.hand.events(&family.parent, json!([{ "kind": "delegate", "body": body }])).await.ok();
        assert_eq!((&told["children"], &told["denied"]), (&json!([]), &json!([])));
    }
    assert_eq!(kinds(&family.client, id(&family.parent)).await, ["delegate", "delegate"]);
    assert!(family.helper.claim(10).await.is_empty());
    // A stranger to the claim creates nothing.
    let order = json!([{ "kind": "delegate", "body": { "delegate_id": "d1", "agent": "helper" } }]);
    let body = json!({ "claim_token": "ct_0", "events": order });
    let path = format!("/jobs/{}/events", id(&family.parent));
    family.world.any().post(&path, body).await.refused(409, "CLAIM_LOST");
    assert!(family.helper.claim(10).await.is_empty());
    family.world.end().await;
}

#[tokio::test]
async fn a_child_never_has_more_than_its_parent() {
    let lease = json!({
        "agent.delegate": ["helper"], "fs.read": ["/w/*"], "model.use": ["fast/*"], "cost.budget": ["USD:5.00"],
    });
    let family = Family::of(lease, json!({ "expires_at": "2026-11-21T09:00:00Z" })).await;
    let cost = json!([{ "kind": "metric", "body": { "name": "cost.x", "value": 3, "unit": "USD" } }]);
    family.hand.events(&family.parent, cost).await.ok();
    let beyond = [
        json!({ "fs.read": ["/w/**"] }),
        json!({ "fs.read": ["/**"] }),
        json!({ "fs.read": ["/w/a", "/x"] }),
        json!({ "fs.write": ["/w/a"] }),
        json!({ "model.use": ["*/*"] }),
        json!({ "model.use": ["slow/a"] }),
        json!({ "cost.budget": ["USD:2.01"] }),
        json!({ "cost.budget": ["EUR:1"] }),
    ];
    for (index, lease) in beyond.iter().enumerate() {
        let name = format!("no{index}");
        family.delegate(&name, lease.clone(), json!({})).await.refused(422, "LEASE_SUBSET_VIOLATION");
        let (kind, body) = events(&family.client, id(&family.parent)).await.pop().unwrap();
        assert_eq!((kind.as_str(), &body["call_id"]), ("tool_result", &json!(name)), "{lease}");
        assert_eq!(body["error"]["code"], "LEASE_SUBSET_VIOLATION");
    }
    let later = json!({ "expires_at": "2026-11-21T09:00:01Z" });
    family.delegate("late", json!({}), later).await.refused(422, "LEASE_SUBSET_VIOLATION");
    // An equal lease is allowed (ARCP-W-9.3); omitted capabilities are inherited.
    let same = json!({ "fs.read": ["/w/*"], "model.use": ["fast/*"], "cost.budget": ["USD:2.00"] });
    let child = family.delegate("same", same, json!({})).await.is(201);
    assert_eq!(child["lease_constraints"]["expires_at"], "2026-11-21T09:00:00.000000Z");
    let sooner = json!({ "expires_at": "2026-11-21T08:30:00Z" });
    let child = family.delegate("sooner", json!({}), sooner).await.is(201);
    assert_eq!(child["lease_constraints"]["expires_at"], "2026-11-21T08:30:00.000000Z");
    // The same rule applies over REST and sockets, with `parent_job_id` (ARCP-W-9.7).
    let ask = |lease: Value| {
        let body =
            json!({ "agent": "helper", "parent_job_id": family.parent["job_id"], "lease_request": lease });
        family.client.post("/jobs", body)
    };
    ask(json!({ "fs.read": ["/x"] })).await.refused(422, "LEASE_SUBSET_VIOLATION");
    let child = ask(json!({ "fs.read": ["/w/b"] })).await.is(201);
    assert_eq!(child["parent_job_id"], family.parent["job_id"]);
    family.world.end().await;
}

#[tokio::test]
async fn a_child_that_names_no_model_gets_none_of_a_parent_that_names_some() {
    let family =
        Family::of(json!({ "agent.delegate": ["helper"], "model.use": ["fast/*"] }), json!({})).await;
    family.delegate("d1", json!({}), json!({})).await.is(201);
    let child = family.helper.one().await;
    let call = json!({ "capability": "model.use", "target": "slow/x" });
    family.helper.tell(&child, "authorize", call).await.refused(403, "PERMISSION_DENIED");
    family.world.end().await;
}

#[tokio::test]
async fn an_agent_delegates_only_to_whom_it_may() {
    let family = Family::of(json!({ "agent.delegate": ["other"] }), json!({})).await;
    family.delegate("d1", json!({}), json!({})).await.refused(403, "PERMISSION_DENIED");
    let none = json!({ "delegate_id": "d2", "agent": "other" });
    family.hand.tell(&family.parent, "delegate", none).await.refused(422, "AGENT_NOT_AVAILABLE");
    let nameless = json!({ "agent": "other" });
    family.hand.tell(&family.parent, "delegate", nameless).await.refused(422, "INVALID_REQUEST");
    let told: Vec<String> = events(&family.client, id(&family.parent))
        .await
        .into_iter()
        .map(|(_, body)| format!("{} {}", body["call_id"], body["error"]["code"]))
        .collect();
    assert_eq!(told, [r#""d1" "PERMISSION_DENIED""#, r#""d2" "AGENT_NOT_AVAILABLE""#]);
    family.world.end().await;
}

#[tokio::test]
async fn a_childs_costs_are_its_parents_too() {
    let lease = json!({ "agent.delegate": ["helper"], "tool.call": ["*"], "cost.budget": ["USD:5"] });
    let family = Family::of(lease, json!({})).await;
    let lease = json!({ "cost.budget": ["USD:4"], "tool.call": ["*"] });
    family.delegate("a", lease, json!({})).await.is(201);
    family.delegate("b", json!({ "tool.call": ["*"] }), json!({})).await.is(201);
    let (a, b) = {
        let mut claimed = family.helper.claim(2).await;
        let b = claimed.pop().unwrap();
        (claimed.pop().unwrap(), b)
    };
    let cost = |value: i64| json!([{ "kind": "metric", "body": { "name": "cost.x", "value": value, "unit": "USD" } }]);
    assert_eq!(family.helper.events(&a, cost(3)).await.ok()["budget"], json!({ "USD": 1 }));
    let parent = family.client.get(&format!("/jobs/{}", id(&family.parent))).await.ok();
    assert_eq!(parent["budget"], json!({ "USD": 2 }));
    // A child without a budget spends its parent's; money that one of the family has spent is gone for all.
    family.helper.events(&b, cost(2)).await.ok();
    let call = json!({ "capability": "tool.call", "target": "x" });
    for (hand, job) in [(&family.helper, &a), (&family.helper, &b), (&family.hand, &family.parent)] {
        hand.tell(job, "authorize", call.clone()).await.refused(403, "BUDGET_EXHAUSTED");
    }
    let more = json!({ "cost.budget": ["USD:0.01"] });
    family.delegate("c", more, json!({})).await.refused(403, "BUDGET_EXHAUSTED");
    family.world.end().await;
}

#[tokio::test]
async fn children_end_with_a_parent_that_failed() {
    let family = Family::of(json!({ "agent.delegate": ["helper"] }), json!({})).await;
    let first = family.delegate("a", json!({}), json!({})).await.is(201);
    let second = family.delegate("b", json!({}), json!({})).await.is(201);
    let running = family.helper.claim(1).await.pop().unwrap();
    assert_eq!(running["job_id"], first["job_id"]);
    family.hand.tell(&family.parent, "error", json!({ "message": "gave up" })).await.ok();
    family.world.sweep().await;
    for child in [&first, &second] {
        let (_, end) = events(&family.client, id(child)).await.pop().unwrap();
        assert_eq!((&end["code"], &end["final_status"]), (&json!("CANCELLED"), &json!("cancelled")));
    }
    assert_eq!(family.helper.beat(&[&running]).await["lost"], json!([running["job_id"]]));
    // A stopped job cannot delegate any more.
    let late = json!({ "agent": "helper", "parent_job_id": family.parent["job_id"] });
    family.client.post("/jobs", late).await.refused(422, "INVALID_REQUEST");
    family.world.end().await;
}

#[tokio::test]
async fn children_of_a_parent_that_succeeded_go_on() {
    let family = Family::of(json!({ "agent.delegate": ["helper"] }), json!({})).await;
    let child = family.delegate("a", json!({}), json!({})).await.is(201);
    family.hand.tell(&family.parent, "result", json!({ "result": 1 })).await.ok();
    family.world.sweep().await;
    let claimed = family.helper.one().await;
    family.helper.tell(&claimed, "result", json!({ "result": 2 })).await.ok();
    assert_eq!(status(&family.client, id(&child)).await, "success");
    assert_eq!(kinds(&family.client, id(&family.parent)).await, ["delegate", "job.result"]);
    family.world.end().await;
}

#[tokio::test]
async fn a_job_that_is_over_takes_no_child_however_it_ended() {
    for (how, told) in [
        ("result", json!({ "result": 1 })),
        ("error", json!({ "message": "gave up" })),
        ("error", json!({ "code": "CANCELLED", "message": "stopped" })),
        ("error", json!({ "code": "TIMEOUT", "message": "too long" })),
    ] {
        let family = Family::of(json!({ "agent.delegate": ["helper"] }), json!({})).await;
        let ask =
            json!({ "agent": "helper", "parent_job_id": family.parent["job_id"], "idempotency_key": "k" });
        let child = family.client.post("/jobs", ask.clone()).await.is(201);
        family.hand.tell(&family.parent, how, told).await.ok();
        let late = json!({ "agent": "helper", "parent_job_id": family.parent["job_id"] });
        let refused = family.client.post("/jobs", late).await.refused(422, "INVALID_REQUEST");
        assert!(refused["message"].as_str().unwrap().contains("parent_job_id"), "{refused}");
        family.delegate("d1", json!({}), json!({})).await.refused(409, "CLAIM_LOST");
        // A retry of what was accepted in time is no new child.
        let again = family.client.post("/jobs", ask).await.ok();
        assert_eq!(again["job_id"], child["job_id"]);
        let listed = family.client.get("/jobs?agent=helper").await.ok();
        assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
        family.world.end().await;
    }
}
