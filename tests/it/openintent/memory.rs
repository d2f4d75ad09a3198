//! Agents' memory (RFC-0015): entries with versions, ownership and visibility. `memory/ends.rs` covers expiry and
//! eviction, `memory/search.rs` searches.

mod ends;
mod search;

use entente_harness::{Client, Setup, Value, World, ids, json};

/// Creates an entry of the client's own and returns it.
pub async fn keep(client: &Client, key: &str, more: Value) -> Value {
    client.post("/memory", ask(key, more)).await.is(200)
}

fn ask(key: &str, more: Value) -> Value {
    let mut ask =
        json!({ "namespace": "findings", "key": key, "value": { "n": 1 }, "memory_type": "episodic" });
    let Value::Object(more) = more else { panic!("{more} has no members") };
    ask.as_object_mut().unwrap().extend(more);
    ask
}

/// Creates `due` expired entries of several agents and intents.
pub async fn lapsed(world: &World, due: u64) {
    for n in 0..due {
        let agent = world.agent(&format!("agent.{}", n % 3)).await;
        let scope = if n % 2 == 0 { json!({ "intent_id": intent(&agent, None).await }) } else { json!(null) };
        keep(&agent, &n.to_string(), json!({ "ttl": 60, "scope": scope })).await;
    }
    world.clock.advance(60);
}

/// Returns the path of an entry.
pub fn at(entry: &Value) -> String {
    format!("/memory/{}", entry["id"].as_str().unwrap())
}

async fn intent(client: &Client, acl: Option<Value>) -> String {
    let made = client.post("/intents", json!({ "title": "work" })).await.ok();
    let id = made["id"].as_str().unwrap().to_owned();
    if let Some(acl) = acl {
        client.put(&format!("/intents/{id}/acl"), acl).await.ok();
    }
    id
}

fn closed_but_for(agent: &str, permission: &str) -> Value {
    let entry = json!({ "principal_id": agent, "principal_type": "agent", "permission": permission });
    json!({ "default_policy": "closed", "entries": [entry] })
}

/// Returns an intent's events about memory, oldest first: type and payload.
async fn told(client: &Client, intent: &str) -> Vec<(String, Value)> {
    let events = client.get(&format!("/intents/{intent}/events?limit=1000")).await.ok();
    let each = events.as_array().unwrap().iter().rev();
    each.map(|event| (event["event_type"].as_str().unwrap().to_owned(), event["payload"].clone()))
        .filter(|(kind, _)| kind.starts_with("memory."))
        .collect()
}

/// Returns the changes of an agent's memory: the kind of each, and its key.
async fn changes(client: &Client, agent: &str) -> Vec<(String, String)> {
    let list = client.get(&format!("/agents/{agent}/memory/changes?limit=1000")).await.is(200);
    let word = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|change| (word(change, "what"), word(change, "key"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_has_all_its_members_and_changes_under_its_version() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let ask = json!({
        "agent_id": "agent.ada", "namespace": "findings", "key": "market/size", "value": { "billions": 4.2 },
        "memory_type": "semantic", "tags": ["market", "eu", "market"], "ttl": "P7D", "pinned": true, "priority": "high",
        "sensitivity": "internal",
    });
    let made = ada.post("/memory", ask).await;
    assert_eq!(made.header("etag"), "\"1\"");
    let made = made.is(200);
    let mut expected = json!({
        "id": made["id"], "agent_id": "agent.ada", "namespace": "findings", "key": "market/size",
        "value": { "billions": 4.2 }, "memory_type": "semantic", "version": 1, "scope": null, "tags": ["market", "eu"],
        "ttl": "P7D", "pinned": true, "priority": "high", "sensitivity": "internal", "curated_by": "agent.ada",
        "created_at": "2026-11-21T08:00:00.000000Z", "updated_at": "2026-11-21T08:00:00.000000Z",
        "updated_by": "agent.ada", "expires_at": "2026-11-28T08:00:00.000000Z", "archived_at": null, "evicted": [],
    });
    assert_eq!(made, expected);
    expected.as_object_mut().unwrap().remove("evicted");
    assert_eq!(ada.get(&at(&made)).await.is(200), expected);
    assert_eq!(ada.get("/agents/agent.ada/memory").await.is(200), json!([expected]));
    // Changes.
    ada.patch(&at(&made), json!({ "pinned": false })).await.refused(428, "precondition_required");
    world.clock.advance(60);
    let change = json!({ "value": { "billions": 5 }, "ttl": null, "sensitivity": null, "tags": null });
    let changed = ada.with("if-match", "\"1\"").patch(&at(&made), change).await;
    assert_eq!(changed.header("etag"), "\"2\"");
    let changed = changed.is(200);
    assert_eq!((&changed["value"], &changed["version"]), (&json!({ "billions": 5 }), &json!(2)));
    assert_eq!(
        (&changed["ttl"], &changed["expires_at"], &changed["sensitivity"]),
        (&json!(null), &json!(null), &json!(null))
    );
    assert_eq!(
        (&changed["tags"], &changed["key"], &changed["pinned"]),
        (&json!(["market", "eu"]), &json!("market/size"), &json!(true))
    );
    assert_eq!(changed["updated_at"], "2026-11-21T08:01:00.000000Z");
    let stale = ada.seen(&json!(1)).patch(&at(&made), json!({ "pinned": false })).await;
    assert_eq!(stale.refused(409, "version_conflict")["current_version"], 2);
    // A patch without changes creates no version.
    assert_eq!(ada.seen(&json!(2)).patch(&at(&made), json!({ "pinned": true })).await.is(200), changed);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_was_before_and_what_became_of_it_is_kept() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let more = json!({
        "value": { "billions": 4.2 }, "memory_type": "semantic", "tags": ["market", "eu"], "ttl": "P7D", "pinned": true,
        "priority": "high", "sensitivity": "internal",
    });
    let made = keep(&ada, "market/size", more).await;
    world.clock.advance(60);
    ada.seen(&json!(1)).patch(&at(&made), json!({ "value": { "billions": 5 }, "ttl": null })).await.is(200);
    // Previous versions.
    let versions = ada.get(&format!("{}/versions", at(&made))).await.is(200);
    assert_eq!((&versions[0]["version"], &versions[0]["value"]), (&json!(2), &json!({ "billions": 5 })));
    assert_eq!(
        versions[1],
        json!({
            "version": 1, "value": { "billions": 4.2 }, "tags": ["market", "eu"], "pinned": true, "priority": "high",
            "sensitivity": "internal", "ttl": "P7D", "expires_at": "2026-11-28T08:00:00.000000Z",
            "changed_by": "agent.ada", "changed_at": "2026-11-21T08:00:00.000000Z",
        })
    );
    // Deletion.
    ada.seen(&json!(1)).delete(&at(&made)).await.refused(409, "version_conflict");
    assert_eq!(ada.delete(&at(&made)).await.is(200), json!({ "status": "deleted", "entry_id": made["id"] }));
    ada.delete(&at(&made)).await.refused(404, "not_found");
    ada.get(&at(&made)).await.refused(404, "not_found");
    ada.get("/memory/mem_x").await.refused(404, "not_found");
    let path = "market/size".to_owned();
    let what = ["created", "updated", "deleted"].map(|what| (what.to_owned(), path.clone()));
    assert_eq!(changes(&ada, "agent.ada").await, what);
    let after = ada.get("/agents/agent.ada/memory/changes?after=1&limit=1").await.is(200);
    assert_eq!(
        after,
        json!([{
            "number": 2, "what": "updated", "entry_id": made["id"], "namespace": "findings", "key": "market/size",
            "memory_type": "semantic", "version": 2, "changed_by": "agent.ada", "changed_at": "2026-11-21T08:01:00.000000Z",
        }])
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_earlier_versions_are_kept() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let made = keep(&ada, "k", json!({})).await;
    for n in 1..=15 {
        ada.seen(&json!(n)).patch(&at(&made), json!({ "value": { "n": n + 1 } })).await.is(200);
    }
    let versions = ada.get(&format!("{}/versions", at(&made))).await.is(200);
    let numbers: Vec<i64> =
        versions.as_array().unwrap().iter().map(|v| v["version"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (6..=16).rev().collect::<Vec<_>>());
    assert!(versions.as_array().unwrap().iter().all(|v| v["value"]["n"] == v["version"]));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_taken_once_on_whichever_server() {
    let world = World::start().await;
    let other = World::on(Setup::default(), world.database.clone()).await;
    let ada = world.agent("agent.ada").await;
    let there = other.client("key-of-agent.ada");
    let asks = (0..12).map(|n| {
        let client = if n % 2 == 0 { &ada } else { &there };
        client.post("/memory", ask("release-notes", json!({ "value": { "n": n } })))
    });
    let replies = futures_util::future::join_all(asks).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 1);
    for reply in replies.iter().filter(|reply| reply.status != 200) {
        let refused = reply.refused(409, "already_exists");
        assert_eq!(refused["current_version"], 1);
        assert!(!reply.text.contains("lease"), "{}", reply.text);
    }
    // Another namespace, or another agent, has its own keys.
    keep(&ada, "release-notes", json!({ "namespace": "other" })).await;
    keep(&world.agent("agent.bob").await, "release-notes", json!({})).await;
    // Only one change of a version succeeds.
    let entry = ada.get("/agents/agent.ada/memory?namespace=findings").await.is(200)[0].clone();
    let changes = (0..8).map(|n| {
        let client = if n % 2 == 0 { &ada } else { &there };
        let client = client.seen(&json!(1));
        let path = at(&entry);
        async move { client.patch(&path, json!({ "value": { "by": n } })).await.status }
    });
    let statuses = futures_util::future::join_all(changes).await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    other.end().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_done_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let first = ada.once("k1").post("/memory", ask("a", json!({}))).await.is(200);
    assert_eq!(ada.once("k1").post("/memory", ask("a", json!({}))).await.is(200), first);
    ada.once("k1").post("/memory", ask("b", json!({}))).await.refused(409, "idempotency_mismatch");
    ada.delete(&at(&first)).await.is(200);
    // Also after the entry was deleted.
    assert_eq!(ada.once("k1").post("/memory", ask("a", json!({}))).await.is(200), first);
    ada.get(&at(&first)).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_its_agents_own() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let home = intent(&ada, Some(closed_but_for("agent.carl", "read"))).await;
    let scope = json!({ "scope": { "intent_id": home } });
    let own = keep(&ada, "own", json!({})).await;
    let shared = keep(&ada, "shared", scope.clone()).await;
    let secret =
        keep(&ada, "secret", json!({ "scope": { "intent_id": home }, "sensitivity": "restricted" })).await;
    assert_eq!(shared["scope"], json!({ "intent_id": home, "task_id": null }));
    // A stranger finds nothing, not even that an entry exists.
    for entry in [&own, &shared, &secret] {
        bob.get(&at(entry)).await.refused(404, "not_found");
        bob.get(&format!("{}/versions", at(entry))).await.refused(404, "not_found");
        bob.seen(&json!(1)).patch(&at(entry), json!({ "pinned": true })).await.refused(404, "not_found");
        bob.delete(&at(entry)).await.refused(404, "not_found");
    }
    assert_eq!(bob.get("/agents/agent.ada/memory").await.is(200), json!([]));
    assert_eq!(bob.get("/agents/agent.ada/memory?q=secret").await.is(200), json!([]));
    bob.get(&format!("/intents/{home}/memory")).await.refused(403, "access_closed");
    bob.get("/agents/agent.ada/memory/changes").await.refused(403, "may_not_act_as");
    bob.post("/memory", ask("x", json!({ "agent_id": "agent.ada" }))).await.refused(403, "may_not_act_as");
    bob.post("/memory", ask("x", scope.clone())).await.refused(403, "access_closed");
    // An agent that can read the intent sees the entries shared on it, but cannot change them.
    let carl = world.agent("agent.carl").await;
    let seen = carl.get(&at(&shared)).await.is(200);
    assert_eq!(seen["value"], json!({ "n": 1 }));
    for path in [
        "/agents/agent.ada/memory".to_owned(),
        "/agents/agent.ada/memory?q=shared".to_owned(),
        format!("/intents/{home}/memory"),
    ] {
        assert_eq!(carl.get(&path).await.is(200), json!([seen]), "{path}");
    }
    for entry in [&own, &secret] {
        carl.get(&at(entry)).await.refused(404, "not_found");
    }
    carl.get(&format!("{}/versions", at(&shared))).await.refused(403, "forbidden");
    carl.seen(&json!(1)).patch(&at(&shared), json!({ "pinned": true })).await.refused(403, "forbidden");
    carl.delete(&at(&shared)).await.refused(403, "forbidden");
    carl.post("/memory", ask("x", scope)).await.refused(403, "forbidden");
    assert_eq!(ids(&ada.get(&format!("/intents/{home}/memory")).await.is(200)).len(), 2);
    // The intent's log has the shared entries without values; the agent's own list has all changes.
    let log = told(&ada, &home).await;
    assert_eq!(
        log,
        [(
            "memory.created".to_owned(),
            json!({
                "entry_id": shared["id"], "agent_id": "agent.ada", "namespace": "findings", "key": "shared",
                "memory_type": "episodic", "task_id": null, "version": 1,
            })
        )]
    );
    assert_eq!(changes(&ada, "agent.ada").await.len(), 3);
    // The change that hides an entry is still logged, because it was visible until then.
    ada.seen(&json!(1)).patch(&at(&shared), json!({ "sensitivity": "restricted" })).await.is(200);
    carl.get(&at(&shared)).await.refused(404, "not_found");
    assert_eq!(told(&ada, &home).await.last().unwrap().0, "memory.updated");
    // A caller that may act as the agent has its rights.
    let any = world.any().acting_as("agent.ada");
    assert_eq!(ids(&any.get("/agents/agent.ada/memory").await.is(200)).len(), 3);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_is_set_right_by_whoever_may_write_there() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada, Some(closed_but_for("agent.carl", "write"))).await;
    let scope = json!({ "scope": { "intent_id": home }, "memory_type": "semantic" });
    let known = keep(&ada, "capital", scope).await;
    let carl = world.agent("agent.carl").await;
    let righted = carl.seen(&json!(1)).patch(&at(&known), json!({ "value": { "is": "Rome" } })).await.is(200);
    assert_eq!(
        (&righted["curated_by"], &righted["updated_by"]),
        (&json!("agent.carl"), &json!("agent.carl"))
    );
    assert_eq!(righted["agent_id"], "agent.ada");
    assert_eq!(told(&ada, &home).await.last().unwrap().1["version"], 2);
    assert_eq!(changes(&ada, "agent.ada").await.len(), 2, "it is in the owner's list of changes");
    carl.delete(&at(&known)).await.refused(403, "forbidden");
    // Expiry and visibility are reserved to its agent; otherwise others could end or hide the entry.
    for more in [
        json!({ "ttl": "1" }),
        json!({ "expires_at": "2026-11-21T08:00:01Z" }),
        json!({ "expires_at": null }),
        json!({ "sensitivity": "restricted" }),
        json!({ "pinned": true }),
        json!({ "priority": "low", "value": { "is": "Paris" } }),
    ] {
        carl.seen(&json!(2)).patch(&at(&known), more).await.refused(403, "forbidden");
    }
    // With the access this right is lost too.
    let acl = closed_but_for("agent.carl", "read");
    ada.put(&format!("/intents/{home}/acl"), acl).await.ok();
    carl.seen(&json!(2)).patch(&at(&known), json!({ "pinned": true })).await.refused(403, "forbidden");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_entry_is_refused() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let wrong = |more: Value| ada.post("/memory", ask("k", more));
    for more in [
        json!({ "value": 1 }),
        json!({ "value": null }),
        json!({ "memory_type": "iconic" }),
        json!({ "key": "" }),
        json!({ "key": "k".repeat(501) }),
        json!({ "namespace": "" }),
        json!({ "priority": "urgent" }),
        json!({ "sensitivity": "none" }),
        json!({ "tags": ["a,b"] }),
        json!({ "tags": "a" }),
    ] {
        wrong(more).await.refused(422, "invalid_request");
    }
    for more in [
        json!({ "ttl": "soon" }),
        json!({ "ttl": 0 }),
        json!({ "ttl": "P1Y" }),
        json!({ "ttl": 5, "expires_at": "2026-11-22T08:00:00Z" }),
    ] {
        wrong(more).await.refused(422, "unprocessable");
    }
    wrong(json!({ "expires_at": "2026-11-21T08:00:00Z" })).await.refused(422, "already_expired");
    wrong(json!({ "value": { "v": "x".repeat(65_536) } })).await.refused(413, "too_large");
    wrong(json!({ "tags": (0..51).map(|n| n.to_string()).collect::<Vec<_>>() }))
        .await
        .refused(413, "too_large");
    wrong(json!({ "value": { "v": "a\u{0}b" } })).await.refused(422, "nul_character");
    let deep = (0..70).fold(json!(1), |inner, _| json!([inner]));
    wrong(json!({ "value": { "v": deep } })).await.refused(422, "too_deep");
    wrong(json!({ "scope": { "intent_id": "intent_x" } })).await.refused(404, "not_found");
    wrong(json!({ "scope": { "task_id": "task_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" } }))
        .await
        .refused(404, "not_found");
    ada.get("/agents/agent.ada/memory?memory_type=iconic").await.refused(422, "invalid_parameter");
    ada.get("/agents/agent.ada/memory?limit=0").await.refused(422, "invalid_parameter");
    ada.get(&format!("/agents/agent.ada/memory?q={}", "x".repeat(501)))
        .await
        .refused(422, "invalid_parameter");
    // Extreme numbers and special characters are returned unchanged.
    let odd =
        json!({ "small": 5e-324, "large": 1.7e308, "whole": u64::MAX, "text": "\u{1F600} \" \\ \u{7f}" });
    let made = keep(&ada, "odd", json!({ "value": odd, "ttl": 3600 })).await;
    assert_eq!((&made["value"], &made["ttl"]), (&odd, &json!("3600")));
    assert_eq!(ada.get(&at(&made)).await.is(200)["value"], odd);
    world.end().await;
}
