//! Other ends of leases than a release by their holder: by timeout, by an admin, with access, with an agent, with
//! the intent. Each has its event, and followers receive it (OI-11.5.1).

use std::time::Duration;

use entente_domain::clock::{Clock as _, plus_seconds, rfc3339};

use super::{acquire, ask, ends, goal, listed, one};
use entente_harness::{Setup, Sse, Value, World, json};

fn end(scope: &str, reason: &str, actor: &str) -> (String, String, String) {
    (scope.to_owned(), reason.to_owned(), actor.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_run_out_is_free_at_once() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let first = acquire(&ada, &intent, "a").await;
    acquire(&ada, &intent, "b").await;
    world.clock.advance(299);
    ask(&bob, &intent, "a").await.refused(409, "lease_held");
    world.clock.advance(1);
    // No sweep has run. The next holder's transaction records the expiry.
    let second = acquire(&bob, &intent, "a").await;
    assert!(second["fencing_token"].as_i64() > first["fencing_token"].as_i64());
    assert_eq!(ends(&ada, &intent).await, [end("a", "expired", "entente"), end("b", "expired", "entente")]);
    // An expired lease is never revived over the next one (OI-17.2.3).
    ada.patch(&one(&first), json!({})).await.refused(409, "lease_ended");
    assert_eq!(ada.delete(&one(&first)).await.is(200)["lease"]["status"], "expired");
    assert_eq!(listed(&ada, &intent, "active").await, [second]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_writes_down_what_has_run_out() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = goal(&ada).await;
    acquire(&ada, &intent, "a").await;
    world.pass(299).await;
    assert_eq!(ends(&ada, &intent).await, []);
    world.pass(1).await;
    world.pass(1).await;
    assert_eq!(ends(&ada, &intent).await, [end("a", "expired", "entente")]);
    let stored: String =
        sqlx::query_scalar("SELECT status FROM leases").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(stored, "expired");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_takes_a_lease_away() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let intent = goal(&ada).await;
    let lease = acquire(&bob, &intent, "a").await;
    // On an open intent everyone has admin access, but that does not include others' leases.
    eve.delete(&one(&lease)).await.refused(404, "not_found");
    let gone = ada.delete(&one(&lease)).await.is(200);
    assert_eq!(gone["lease"]["status"], "revoked");
    assert_eq!(ends(&ada, &intent).await, [end("a", "revoked", "agent.ada")]);
    bob.patch(&one(&lease), json!({})).await.refused(409, "lease_ended");
    assert_eq!(bob.delete(&one(&lease)).await.is(200), gone);
    world.end().await;
}

/// Bob and Eve hold leases on an intent of Ada's; Ada changes the intent. Returns the ends of the leases.
async fn when(name: &str, method: &str, path: &str, body: Value) -> Vec<(String, String, String)> {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let intent = goal(&ada).await;
    let entries = json!([{ "principal_id": "agent.bob", "permission": "write" }, { "principal_id": "agent.eve", "permission": "write" }]);
    let acl =
        json!({ "default_policy": "closed", "entries": if name == "open" { json!([]) } else { entries } });
    let acl = if name == "open" { json!({ "default_policy": "open", "entries": [] }) } else { acl };
    let acl = ada.put(&format!("/intents/{intent}/acl"), acl).await.ok();
    for (client, scope) in [(&bob, "bob"), (&eve, "eve"), (&ada, "ada")] {
        acquire(client, &intent, scope).await;
    }
    let entry = acl["entries"][0]["id"].as_str().unwrap_or_default();
    let path = format!("/intents/{intent}{path}").replace("{bob}", entry);
    let body = (method != "DELETE").then(|| body.to_string());
    ada.with("if-match", "1").send(method, &path, body).await.ok();
    let ends = ends(&ada, &intent).await;
    let held = listed(&ada, &intent, "active").await;
    assert_eq!(held.len() + ends.len(), 3, "{name}: what ended is not held any more");
    assert!(held.iter().all(|lease| ends.iter().all(|end| lease["scope"] != end.0.as_str())), "{name}");
    assert!(ends.iter().all(|end| end.2 == "agent.ada"), "{name}");
    world.end().await;
    ends
}

#[tokio::test(flavor = "multi_thread")]
async fn who_loses_access_loses_its_leases() {
    let revoked = when("revoke", "DELETE", "/acl/entries/{bob}", json!(null)).await;
    assert_eq!(revoked, [end("bob", "access_lost", "agent.ada")]);
    let entries = json!([{ "principal_id": "agent.bob", "permission": "read" }, { "principal_id": "agent.eve", "permission": "write" }]);
    let replaced = json!({ "default_policy": "open", "entries": entries });
    assert_eq!(when("replace", "PUT", "/acl", replaced).await, [end("bob", "access_lost", "agent.ada")]);
    // The first entry on an open intent takes more access than it gives.
    let first = json!({ "principal_id": "agent.bob", "permission": "write" });
    assert_eq!(when("open", "POST", "/acl/entries", first).await, [end("eve", "access_lost", "agent.ada")]);
    let more = json!({ "principal_id": "agent.bob", "permission": "read" });
    assert_eq!(when("grant", "POST", "/acl/entries", more).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_approved_takes_too() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let intent = goal(&ada).await;
    acquire(&bob, &intent, "bob").await;
    let requests = format!("/intents/{intent}/access-requests");
    let made = eve.post(&requests, json!({ "requested_permission": "write" })).await.ok();
    ada.post(&format!("{requests}/{}/approve", made["id"].as_str().unwrap()), json!({})).await.ok();
    assert_eq!(ends(&ada, &intent).await, [end("bob", "access_lost", "agent.ada")]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resolved_intent_is_held_by_nobody() {
    let all = ["ada", "bob", "eve"].map(|scope| end(scope, "intent_resolved", "agent.ada"));
    for status in ["completed", "abandoned"] {
        assert_eq!(when(status, "POST", "/status", json!({ "status": status })).await, all);
    }
    assert_eq!(when("active", "POST", "/status", json!({ "status": "active" })).await, []);
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = goal(&ada).await;
    ada.seen(&json!(1))
        .post(&format!("/intents/{intent}/status"), json!({ "status": "completed" }))
        .await
        .ok();
    ask(&ada, &intent, "a").await.refused(409, "intent_resolved");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_with_the_entry_it_rests_on() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let soon = rfc3339(plus_seconds(world.clock.now(), 60));
    let entry = json!({ "principal_id": "agent.bob", "permission": "write", "expires_at": soon });
    ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok();
    let lease = acquire(&bob, &intent, "a").await;
    assert_eq!(lease["expires_at"], soon.as_str());
    assert_eq!(bob.patch(&one(&lease), json!({})).await.ok()["expires_at"], soon.as_str());
    world.clock.advance(60);
    // Free at once, before a sweep has run.
    assert_eq!(listed(&ada, &intent, "active").await, [] as [Value; 0]);
    world.sweep().await;
    assert_eq!(ends(&ada, &intent).await, [end("a", "expired", "entente")]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_leaves_holds_nothing() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (here, there) = (goal(&ada).await, goal(&ada).await);
    bob.post("/agents/register", json!({ "agent_id": "agent.bob" })).await.ok();
    acquire(&bob, &here, "a").await;
    acquire(&bob, &there, "b").await;
    acquire(&ada, &there, "c").await;
    bob.delete("/agents/agent.bob").await.ok();
    assert_eq!(ends(&ada, &here).await, [end("a", "agent_departed", "agent.bob")]);
    assert_eq!(ends(&ada, &there).await, [end("b", "agent_departed", "agent.bob")]);
    assert_eq!(listed(&ada, &there, "active").await.len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_hears_that_a_scope_is_free() {
    let world = World::with(Setup::live()).await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let intent = goal(&ada).await;
    ada.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": "agent.bob" })).await.ok();
    let mut assigned = Sse::open(&bob, "/agents/agent.bob/subscribe").await;
    let mut other = Sse::open(&eve, "/agents/agent.eve/subscribe").await;
    let mut sdk = Sse::open(&ada, &format!("/intents/{intent}/subscribe")).await;
    let mut reference = Sse::open(&ada, &format!("/subscribe/intents/{intent}")).await;
    let path = format!("/intents/{intent}/leases");
    let lease = ada.post(&path, json!({ "scope": "a", "duration_seconds": 1 })).await.ok();
    // The server's own sweep expires it, and every stream concerned gets the event.
    for (stream, before) in [(&mut assigned, "AGENT_ASSIGNED"), (&mut sdk, "lease_acquired")] {
        assert_eq!(stream.next().await.name, before);
        let free = stream.next().await;
        assert_eq!(free.name, "LEASE_RELEASED");
        assert_eq!((&free.data["intent_id"], &free.data["scope"]), (&json!(intent), &json!("a")));
        assert_eq!((&free.data["lease_id"], &free.data["reason"]), (&lease["id"], &json!("expired")));
    }
    let said = reference.next_few(2).await;
    assert_eq!((said[0].name.as_str(), said[1].name.as_str()), ("lease_acquired", "lease_released"));
    assert_eq!(said[1].data["payload"]["scope"], "a");
    other.silent(Duration::from_millis(50)).await;
    world.end().await;
}
