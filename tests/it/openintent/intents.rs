//! Intents (RFC-0001): creation, lookup, versioned patches, statuses.

use entente_domain::access::Level;
use entente_domain::ids::{ChannelId, IntentId};
use entente_harness::{Setup, Value, World, json, send_number, talk};
use entente_kernel::channels::access::visits;
use entente_kernel::intents;

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_is_created_and_found() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let ask = json!({
        "title": "Research", "description": "Q1", "constraints": { "budget": 5 }, "state": { "phase": "start" },
        "created_by": "agent.ada"
    });
    let made = ada.post("/intents", ask).await;
    assert_eq!(made.header("etag"), "\"1\"");
    let intent = made.is(200);
    let expected = json!({
        "title": "Research", "description": "Q1", "created_by": "agent.ada", "parent_id": null,
        "parent_intent_id": null, "depends_on": [], "constraints": { "budget": 5 }, "state": { "phase": "start" },
        "status": "draft", "confidence": 0.0, "version": 1, "governance_policy": null,
        "created_at": "2026-11-21T08:00:00.000000Z", "updated_at": "2026-11-21T08:00:00.000000Z"
    });
    let mut shown = intent.clone();
    let id = shown.as_object_mut().unwrap().remove("id").unwrap();
    assert_eq!(shown, expected);
    let id = id.as_str().unwrap();
    assert_eq!(ada.get(&format!("/intents/{id}")).await.ok(), intent);
    assert_eq!(ada.send("GET", &format!("//v1/intents/{id}"), None).await.ok(), intent, "the same under /v1");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parents_and_dependencies_are_kept_and_must_exist() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let first = ada.post("/intents", json!({ "title": "first" })).await.ok()["id"].clone();
    let second = json!({ "title": "second", "parent_intent_id": first, "depends_on": [first] });
    let second = ada.post("/intents", second).await.ok();
    assert_eq!(second["parent_id"], first);
    assert_eq!(second["parent_intent_id"], first);
    assert_eq!(second["depends_on"], json!([first]));
    let third = ada.post("/intents", json!({ "title": "third", "parent_id": first })).await.ok();
    assert_eq!(third["parent_intent_id"], first);
    for (member, value) in [
        ("parent_id", json!("nonsense")),
        ("parent_id", json!("intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F")),
        ("depends_on", json!(["intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"])),
    ] {
        ada.post("/intents", json!({ "title": "x", member: value })).await.refused(422, "unprocessable");
    }
    let children = ada.get(&format!("/intents?parent_id={}", first.as_str().unwrap())).await.ok();
    assert_eq!(children["intents"].as_array().unwrap().len(), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_paged_and_only_show_what_is_readable() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let mut ids = Vec::new();
    for n in 0..5 {
        world.clock.advance(1);
        ids.push(ada.post("/intents", json!({ "title": format!("t{n}") })).await.ok()["id"].clone());
    }
    let shut = ids[4].as_str().unwrap();
    ada.put(&format!("/intents/{shut}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let titles = |list: &Value| -> Vec<String> {
        list["intents"].as_array().unwrap().iter().map(|i| i["title"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(titles(&ada.get("/intents").await.ok()), ["t4", "t3", "t2", "t1", "t0"]);
    assert_eq!(titles(&bob.get("/intents").await.ok()), ["t3", "t2", "t1", "t0"]);
    assert_eq!(titles(&bob.get("/intents?limit=2&offset=1").await.ok()), ["t2", "t1"]);
    let before = ids[2].as_str().unwrap();
    assert_eq!(titles(&bob.get(&format!("/intents?before={before}")).await.ok()), ["t1", "t0"]);
    ada.seen(&json!(1)).post(&format!("/intents/{before}/status"), json!({ "status": "active" })).await.ok();
    assert_eq!(titles(&bob.get("/intents?status=active").await.ok()), ["t2"]);
    ada.post(&format!("/intents/{before}/agents"), json!({ "agent_id": "agent.bob" })).await.ok();
    assert_eq!(titles(&bob.get("/intents?agent_id=agent.bob").await.ok()), ["t2"]);
    assert_eq!(titles(&bob.get("/intents?created_by=agent.bob").await.ok()), [""; 0]);
    bob.get("/intents?status=banana").await.refused(422, "invalid_parameter");
    bob.get("/intents?limit=0").await.refused(422, "invalid_parameter");
    bob.get("/intents?limit=1001").await.refused(422, "invalid_parameter");
    world.end().await;
}

/// Reads that arrive together share queries; a large state is read by a query of its own.
#[tokio::test(flavor = "multi_thread")]
async fn reads_that_arrive_together_are_answered_each_for_its_reader() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let mut paths = vec![
        "/intents/intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".to_owned(),
        "/channels/chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/messages".to_owned(),
    ];
    for (n, letters) in (0..).zip([0, 300_000, 3_000, 6_000, 9_000, 20_000]) {
        let (intent, channel) = talk(&ada, json!({})).await;
        let state = json!({ "n": n, "text": "ü".repeat(letters) });
        let path = format!("/intents/{intent}");
        ada.seen(&json!(1)).post(&format!("{path}/state"), json!({ "state": state })).await.ok();
        let first = send_number(&ada, &channel, 0).await;
        send_number(&ada, &channel, n).await;
        if n % 2 == 1 {
            ada.put(&format!("{path}/acl"), json!({ "default_policy": "closed" })).await.ok();
        }
        paths.extend([path, format!("/channels/{channel}/messages?since={}", first["id"].as_str().unwrap())]);
    }
    let mut expected = Vec::new();
    for path in &paths {
        for reader in [&ada, &bob] {
            let reply = reader.get(path).await;
            expected.push((reader, path, reply.status, reply.json()));
        }
    }
    let statuses: Vec<u16> = expected.iter().map(|(_, _, status, _)| *status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 18, "{statuses:?}");
    for _ in 0..20 {
        let replies = expected.iter().map(async |(reader, path, status, body)| {
            let reply = reader.get(path).await;
            let found = reply.json();
            assert_eq!((reply.status, &found["code"]), (*status, &body["code"]), "{path}");
            assert!(*status != 200 || found == *body, "{path}: another answer");
        });
        futures_util::future::join_all(replies).await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_for_several_readers_has_each_value_at_its_place() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    world.agent("agent.bob").await;
    let (open, open_channel) = talk(&ada, json!({})).await;
    let (shut, shut_channel) = talk(&ada, json!({})).await;
    ada.put(&format!("/intents/{shut}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let large = json!({ "title": "large", "constraints": { "text": "ü".repeat(20_000) } });
    let large = ada.post("/intents", large).await.ok()["id"].as_str().unwrap().to_owned();
    let now = world.ctx().now();
    let mut connection = world.ctx().pool.acquire().await.unwrap();

    let asked = [
        ("intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "agent.ada"),
        (&*shut, "agent.bob"),
        (&*open, "agent.bob"),
        (&*large, "agent.ada"),
        (&*shut, "agent.ada"),
        (&*open, "agent.bob"),
    ]
    .map(|(id, agent)| (id.parse::<IntentId>().unwrap(), agent.to_owned()));
    let mut found = intents::load_as(&mut connection, &asked, now).await.unwrap();
    found.sort_by_key(|(place, _)| *place);
    let found: Vec<_> = found
        .into_iter()
        .map(|(place, found)| {
            let (intent, access) = found.unwrap();
            assert_eq!(intent.id, asked[place].0);
            (place, access.level, access.granted)
        })
        .collect();
    let admin = Some(Level::Admin);
    let expected = [(1, None, false), (2, admin, false), (4, admin, true), (5, admin, false)];
    assert_eq!(found, expected, "a large one is left out");
    let alone = intents::load_as(&mut connection, &asked[3..4], now).await.unwrap();
    assert_eq!(alone.len(), 1);

    let asked = [
        ("chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "agent.ada"),
        (&*shut_channel, "agent.bob"),
        (&*open_channel, "agent.bob"),
        (&*shut_channel, "agent.ada"),
        (&*open_channel, "agent.ada"),
    ]
    .map(|(id, agent)| (id.parse::<ChannelId>().unwrap(), agent.to_owned()));
    let found = visits(&mut connection, &asked, now).await.unwrap();
    let found: Vec<_> = found
        .into_iter()
        .map(|(place, access)| {
            assert_eq!(access.channel.id, asked[place].0);
            (place, access.manages)
        })
        .collect();
    assert_eq!(found, [(2, false), (3, true), (4, true)]);
    drop(connection);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn state_is_patched_under_its_version() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "t", "state": { "n": 1 } })).await.ok();
    let state = format!("/intents/{}/state", intent["id"].as_str().unwrap());
    let set = json!({ "patches": [{ "op": "set", "path": "a/b", "value": 1 }, { "op": "append", "path": "list", "value": "x" }] });
    ada.post(&state, set.clone()).await.refused(400, "if_match_required");
    ada.with("if-match", "*").post(&state, set.clone()).await.refused(400, "if_match_required");
    let patched = ada.seen(&json!(1)).post(&state, set.clone()).await;
    assert_eq!(patched.header("etag"), "\"2\"");
    let patched = patched.ok();
    assert_eq!(patched["state"], json!({ "n": 1, "a": { "b": 1 }, "list": ["x"] }));
    assert_eq!(patched["version"], 2);
    let stale = ada.seen(&json!(1)).post(&state, set).await.refused(409, "version_conflict");
    assert_eq!(stale["current_version"], 2);
    // Quoted versions, leading slashes, removal of missing members, the merge form, and an empty patch.
    let remove =
        json!({ "patches": [{ "op": "remove", "path": "/a/b" }, { "op": "remove", "path": "no/such" }] });
    assert_eq!(
        ada.with("if-match", "\"2\"").post(&state, remove).await.ok()["state"],
        json!({ "n": 1, "a": {}, "list": ["x"] })
    );
    let merged = ada.with("if-match", "W/\"3\"").post(&state, json!({ "state": { "a/b": 2 } })).await.ok();
    assert_eq!(merged["state"]["a/b"], 2);
    assert_eq!(ada.seen(&json!(4)).post(&state, json!({ "patches": [] })).await.ok()["version"], 5);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_that_cannot_be_done_changes_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "t", "state": { "n": 1 } })).await.ok();
    let path = format!("/intents/{}", intent["id"].as_str().unwrap());
    let state = format!("{path}/state");
    let good = json!({ "op": "set", "path": "good", "value": true });
    for bad in [
        json!({ "op": "set", "path": "", "value": 1 }),
        json!({ "op": "set", "path": "///", "value": 1 }),
        json!({ "op": "set", "path": "n/inside", "value": 1 }),
        json!({ "op": "append", "path": "n", "value": 1 }),
        json!({ "op": "set", "path": "a/".repeat(40), "value": 1 }),
        json!({ "op": "set", "path": "big", "value": 9_007_199_254_740_993_u64 }),
    ] {
        let refused = ada.seen(&json!(1)).post(&state, json!({ "patches": [good, bad] })).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
    }
    for malformed in [
        json!({}),
        json!({ "patches": [{ "op": "banana", "path": "x" }] }),
        json!({ "patches": "x" }),
        json!({ "patches": [], "state": {} }),
    ] {
        ada.seen(&json!(1)).post(&state, malformed).await.refused(422, "invalid_request");
    }
    let huge = "x".repeat(1_100_000);
    ada.seen(&json!(1)).post(&state, json!({ "state": { "x": huge } })).await.refused(413, "too_large");
    assert_eq!(ada.get(&path).await.ok(), intent);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_change_freely_unless_strict() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let id = ada.post("/intents", json!({ "title": "t" })).await.ok()["id"].as_str().unwrap().to_owned();
    let status = format!("/intents/{id}/status");
    for (version, word) in
        ["completed", "draft", "suspended_awaiting_input", "abandoned", "active"].iter().enumerate()
    {
        let moved = ada
            .seen(&json!(version + 1))
            .post(&status, json!({ "status": word, "reason": "why" }))
            .await
            .ok();
        assert_eq!(moved["status"], **word);
    }
    ada.seen(&json!(6)).post(&status, json!({ "status": "banana" })).await.refused(422, "invalid_request");
    ada.post(&status, json!({ "status": "blocked" })).await.refused(400, "if_match_required");
    let events = ada.get(&format!("/intents/{id}/events?event_type=status_changed&limit=1")).await.ok();
    let payload = json!({
        "status": "active", "old_status": "abandoned", "new_status": "active", "version": 6, "reason": "why"
    });
    assert_eq!(events[0]["payload"], payload);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mode_keeps_the_machine_of_rfc_0001() {
    let world = World::with(Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live: false }).await;
    let ada = world.agent("agent.ada").await;
    let id = ada.post("/intents", json!({ "title": "t" })).await.ok()["id"].as_str().unwrap().to_owned();
    let status = format!("/intents/{id}/status");
    ada.seen(&json!(1))
        .post(&status, json!({ "status": "completed" }))
        .await
        .refused(409, "invalid_transition");
    ada.seen(&json!(1)).post(&status, json!({ "status": "active" })).await.ok();
    ada.seen(&json!(2)).post(&status, json!({ "status": "completed" })).await.ok();
    ada.seen(&json!(3)).post(&status, json!({ "status": "active" })).await.refused(409, "invalid_transition");
    // A service must name the acting agent.
    world.any().post("/intents", json!({ "title": "t" })).await.refused(422, "invalid_request");
    world.any().acting_as("agent.x").post("/intents", json!({ "title": "t" })).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_assigned_and_taken_off() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let id = ada.post("/intents", json!({ "title": "t" })).await.ok()["id"].as_str().unwrap().to_owned();
    let agents = format!("/intents/{id}/agents");
    let made = ada.post(&agents, json!({ "agent_id": "agent.bob" })).await.is(200);
    assert_eq!(made["role"], "worker");
    assert_eq!(made["intent_id"], id.as_str());
    let again = ada.post(&agents, json!({ "agent_id": "agent.bob", "role": "reviewer" })).await.ok();
    assert_eq!(again["id"], made["id"], "assigned once");
    assert_eq!(ada.get(&agents).await.ok()[0]["role"], "reviewer");
    ada.delete(&format!("{agents}/agent.bob")).await.is(200);
    ada.delete(&format!("{agents}/agent.bob")).await.refused(404, "not_found");
    assert_eq!(ada.get(&agents).await.ok(), json!([]));
    // Even on an open intent only its managers may assign a coordinator, who would see every direct message.
    let bob = world.agent("agent.bob").await;
    bob.post(&agents, json!({ "agent_id": "agent.bob", "role": "coordinator" }))
        .await
        .refused(403, "forbidden");
    ada.post(&agents, json!({ "agent_id": "agent.bob", "role": "coordinator" })).await.ok();
    world.end().await;
}
