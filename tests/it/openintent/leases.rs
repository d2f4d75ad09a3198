//! Leases (RFC-0003, OI-6): acquisition, renewal, release, lists. `leases/guarding.rs` covers their
//! protection, `leases/ending.rs` their ends, `leases/racing.rs` races, and `leases/walking.rs` random sequences of
//! all of these, `leases/waiting.rs` the queue.

mod ending;
mod guarding;
mod racing;
mod waiting;
mod walking;

use entente_harness::{Client, Value, World, json, talk};

/// Creates an intent of `client` and returns its id.
async fn goal(client: &Client) -> String {
    talk(client, json!({})).await.0
}

/// Requests a lease.
async fn ask(client: &Client, intent: &str, scope: &str) -> entente_harness::Reply {
    client.post(&format!("/intents/{intent}/leases"), json!({ "scope": scope })).await
}

/// Acquires a lease and returns it.
async fn acquire(client: &Client, intent: &str, scope: &str) -> Value {
    ask(client, intent, scope).await.is(200)
}

/// Returns the path of a lease.
fn one(lease: &Value) -> String {
    format!("/intents/{}/leases/{}", lease["intent_id"].as_str().unwrap(), lease["id"].as_str().unwrap())
}

/// Returns the leases on an intent with a status.
async fn listed(client: &Client, intent: &str, status: &str) -> Vec<Value> {
    let list = client.get(&format!("/intents/{intent}/leases?status={status}")).await.is(200);
    list["leases"].as_array().unwrap().clone()
}

/// Returns the payloads of an intent's events of a type, oldest first, each with its actor.
async fn told(client: &Client, intent: &str, event_type: &str) -> Vec<Value> {
    let events = client.get(&format!("/intents/{intent}/events?event_type={event_type}")).await.ok();
    let mut told: Vec<Value> = events.as_array().unwrap().clone();
    told.reverse();
    for event in &mut told {
        let actor = event["actor"].clone();
        let mut payload = event["payload"].take();
        payload["actor"] = actor;
        *event = payload;
    }
    told
}

/// Returns the ends of the leases on an intent: (scope, reason, actor).
async fn ends(client: &Client, intent: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let told = told(client, intent, "lease_released").await;
    told.iter().map(|end| (text(&end["scope"]), text(&end["reason"]), text(&end["actor"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_what_the_contract_says() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = goal(&ada).await;
    let path = format!("/intents/{intent}/leases");
    let lease = ada.post(&path, json!({ "scope": "research", "duration_seconds": 60 })).await.is(200);
    let expected = json!({
        "id": lease["id"], "intent_id": intent, "agent_id": "agent.ada", "scope": "research", "status": "active",
        "fencing_token": lease["fencing_token"], "acquired_at": "2026-11-21T08:00:00.000000Z",
        "created_at": "2026-11-21T08:00:00.000000Z", "expires_at": "2026-11-21T08:01:00.000000Z",
        "released_at": null,
    });
    assert_eq!(lease, expected);
    assert!(lease["id"].as_str().unwrap().starts_with("lease_"));
    assert_eq!(ada.get(&path).await.is(200), json!({ "leases": [lease] }));
    assert_eq!(ada.get(&format!("{path}?format=array")).await.is(200), json!([lease]));
    let event = &told(&ada, &intent, "lease_acquired").await[0];
    assert_eq!((&event["lease_id"], &event["scope"]), (&lease["id"], &json!("research")));
    assert_eq!(event["actor"], "agent.ada");
    // The SDK reads times without an offset, in refusals too (OI-3.6.3).
    let sdk = world.any().acting_as("agent.bob").with("user-agent", "python-httpx/0.28.1");
    let held = ask(&sdk, &intent, "research").await.refused(409, "lease_held");
    assert_eq!(held["existing_lease"]["expires_at"], "2026-11-21T08:01:00.000000");
    // The duration defaults to five minutes.
    let other = acquire(&ada, &intent, "other").await;
    assert_eq!(other["expires_at"], "2026-11-21T08:05:00.000000Z");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_has_one_holder() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let lease = acquire(&ada, &intent, "research").await;
    // For every notation of the scope and every caller, including the holder (OI-6.3).
    for (client, scope) in [
        (&bob, "research"),
        (&bob, "/research/"),
        (&bob, "state/research"),
        (&bob, "research/sources"),
        (&bob, "*"),
        (&ada, "research"),
        (&ada, "research/*"),
    ] {
        let refused = ask(client, &intent, scope).await.refused(409, "lease_held");
        assert_eq!(refused["existing_lease"], lease, "{scope}");
    }
    // The holder may acquire a part, others a scope that does not overlap.
    acquire(&ada, &intent, "research/sources").await;
    acquire(&bob, &intent, "researchers").await;
    ask(&ada, &intent, "*").await.refused(409, "lease_held");
    assert_eq!(listed(&ada, &intent, "active").await.len(), 3);
    // Another intent is independent.
    acquire(&bob, &goal(&bob).await, "research").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_asks_are_refused_and_leave_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = goal(&ada).await;
    let path = format!("/intents/{intent}/leases");
    for (bad, code) in [
        (json!({ "scope": "a", "duration_seconds": 0 }), "unprocessable"),
        (json!({ "scope": "a", "duration_seconds": -5 }), "unprocessable"),
        (json!({ "scope": "a", "duration_seconds": 604_801 }), "unprocessable"),
        (json!({ "scope": "a", "duration_seconds": 1.5 }), "invalid_request"),
        (json!({ "scope": "" }), "invalid_request"),
        (json!({ "scope": "//" }), "invalid_request"),
        (json!({ "scope": 7 }), "invalid_request"),
        (json!({ "duration_seconds": 60 }), "invalid_request"),
    ] {
        ada.post(&path, bad).await.refused(422, code);
    }
    ada.post(&path, json!({ "scope": "a", "agent_id": "agent.bob" })).await.refused(403, "may_not_act_as");
    ada.get(&format!("{path}?status=held")).await.refused(422, "invalid_parameter");
    ada.get(&format!("{path}?format=table")).await.refused(422, "invalid_parameter");
    assert_eq!(listed(&ada, &intent, "all").await, [] as [Value; 0]);
    let lease = acquire(&ada, &intent, "a").await;
    for seconds in [0, -1, 604_801] {
        ada.patch(&one(&lease), json!({ "duration_seconds": seconds })).await.refused(422, "unprocessable");
    }
    assert_eq!(listed(&ada, &intent, "all").await, [lease]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_renewed_while_it_is_held() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let lease = acquire(&ada, &intent, "a").await;
    world.clock.advance(299);
    let renewed = ada.patch(&one(&lease), json!({ "duration_seconds": 60 })).await.is(200);
    let mut expected = lease.clone();
    expected["expires_at"] = json!("2026-11-21T08:05:59.000000Z");
    assert_eq!(renewed, expected, "from now on, and nothing else");
    // Logged under a type that clients can parse (OI-15.4).
    let log = told(&ada, &intent, "lease_acquired").await;
    assert_eq!((log.len(), &log[0]["renewed"], &log[1]["renewed"]), (2, &json!(null), &json!(true)));
    bob.patch(&one(&lease), json!({})).await.refused(404, "not_found");
    // It has ended as soon as it is due, before a sweep, even if its scope is still free.
    world.clock.advance(60);
    ada.patch(&one(&lease), json!({})).await.refused(409, "lease_ended");
    assert_eq!(listed(&ada, &intent, "active").await, [] as [Value; 0]);
    assert_eq!(listed(&ada, &intent, "expired").await[0]["released_at"], json!(null));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_given_back() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let lease = acquire(&bob, &intent, "a").await;
    let elsewhere = format!("/intents/{}/leases/{}", goal(&bob).await, lease["id"].as_str().unwrap());
    let eve = world.agent("agent.eve").await;
    for reply in [
        eve.delete(&one(&lease)).await,
        bob.delete(&elsewhere).await,
        bob.delete(&format!("/intents/{intent}/leases/lease_01J9ZK4T6Q8R2V5X7Y9B1C3D5F")).await,
    ] {
        let refused = reply.refused(404, "not_found");
        assert!(refused["message"].as_str().unwrap().starts_with("Lease not found or not owned by you"));
    }
    let gone = bob.delete(&one(&lease)).await.is(200);
    assert_eq!(gone["message"], "Lease released");
    assert_eq!(
        (&gone["lease"]["status"], &gone["lease"]["released_at"]),
        (&json!("released"), &lease["acquired_at"])
    );
    // A repeated release is neither an error nor an event (OI-6.5).
    assert_eq!(bob.delete(&one(&lease)).await.is(200), gone);
    let said = ("a".to_owned(), "released".to_owned(), "agent.bob".to_owned());
    assert_eq!(ends(&ada, &intent).await, [said]);
    let next = acquire(&eve, &intent, "a").await;
    assert!(next["fencing_token"].as_i64() > lease["fencing_token"].as_i64());
    bob.patch(&one(&lease), json!({})).await.refused(409, "lease_ended");
    assert_eq!(listed(&ada, &intent, "all").await, [gone["lease"].clone(), next]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_done_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = goal(&ada).await;
    let lease = acquire(&ada.once("k1"), &intent, "a").await;
    assert_eq!(acquire(&ada.once("k1"), &intent, "a").await, lease);
    ask(&ada.once("k2"), &intent, "a").await.refused(409, "lease_held");
    ask(&ada.once("k1"), &intent, "b").await.refused(409, "idempotency_mismatch");
    assert_eq!(told(&ada, &intent, "lease_acquired").await.len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_write_holds_anything() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let entry = json!({ "principal_id": "agent.bob", "permission": "read" });
    ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok();
    ask(&bob, &intent, "a").await.refused(403, "forbidden");
    let lease = acquire(&ada, &intent, "a").await;
    assert_eq!(listed(&bob, &intent, "active").await, [lease]);
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    bob.get(&format!("/intents/{intent}/leases")).await.refused(403, "access_closed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_is_listed_by_its_age() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = goal(&ada).await;
    let scopes = ["d", "b", "c", "a"];
    for scope in scopes {
        acquire(&ada, &intent, scope).await;
    }
    let shown = async |status: &str| {
        let held = listed(&ada, &intent, status).await;
        held.iter().map(|lease| lease["scope"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown("active").await, scopes);
    assert_eq!(shown("all").await, scopes);
    // A renewal does not change its age.
    ada.patch(&one(&listed(&ada, &intent, "active").await[0]), json!({})).await.is(200);
    assert_eq!(shown("active").await, scopes);
    world.end().await;
}
