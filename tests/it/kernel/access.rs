//! Access control (RFC-0011): permissions on every kind of route, access requests, and the ends of grants.

mod talking;

use entente_harness::{Client, Setup, Value, World, json, talk};

async fn grant(client: &Client, intent: &str, who: &str, level: &str) -> Value {
    client
        .post(&format!("/intents/{intent}/acl/entries"), json!({ "principal_id": who, "permission": level }))
        .await
        .is(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_without_a_list_is_fully_open() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let acl = bob.get(&format!("/intents/{intent}/acl")).await.is(200);
    assert_eq!(acl, json!({ "intent_id": intent, "default_policy": "open", "entries": [] }));
    bob.seen(&json!(1)).post(&format!("/intents/{intent}/state"), json!({ "state": { "a": 1 } })).await.ok();
    bob.seen(&json!(2)).post(&format!("/intents/{intent}/status"), json!({ "status": "active" })).await.ok();
    bob.post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.bob" })).await.is(201);
    // But nobody can lock out the intent's creators.
    let shut = json!({ "default_policy": "closed", "entries": [] });
    bob.put(&format!("/intents/{intent}/acl"), shut).await.refused(403, "forbidden");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_intent_is_closed_where_the_operator_has_them_closed() {
    let settings = vec![("ENTENTE_DEFAULT_ACCESS", "closed")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let acl = ada.get(&format!("/intents/{intent}/acl")).await.ok();
    assert_eq!(acl, json!({ "intent_id": intent, "default_policy": "closed", "entries": [] }));
    bob.get(&format!("/intents/{intent}")).await.refused(403, "access_closed");
    bob.post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.bob" })).await.is(404);
    assert_eq!(bob.get("/intents").await.ok()["intents"], json!([]));
    // The log records it, and the creator has full access.
    let events = ada.get(&format!("/intents/{intent}/events?event_type=access_granted")).await.ok();
    assert_eq!(events[0]["payload"], json!({ "replaced": true, "default_policy": "closed", "entries": [] }));
    ada.post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.ada" })).await.is(201);
    // Its children are closed too.
    let part = json!({ "title": "part" });
    let part = ada.post(&format!("/intents/{intent}/children"), part).await.ok();
    let part = part["id"].as_str().unwrap().to_owned();
    bob.get(&format!("/intents/{part}")).await.refused(403, "access_closed");
    grant(&ada, &intent, "agent.bob", "read").await;
    bob.get(&format!("/intents/{intent}")).await.ok();
    bob.get(&format!("/intents/{part}")).await.refused(403, "access_closed");
    // An intent created by a trigger is open to its assignees.
    let template = json!({ "title": "made", "assignee": "agent.bob" });
    let trigger = json!({ "name": "t", "type": "schedule", "intent_template": template });
    let trigger = ada.post("/triggers", trigger).await.ok();
    let fired = ada
        .post(&format!("/triggers/{}/fire", trigger["trigger_id"].as_str().unwrap()), json!({}))
        .await
        .ok();
    let made = fired["intent_id"].as_str().unwrap();
    bob.get(&format!("/intents/{made}")).await.ok();
    world.agent("agent.cy").await.get(&format!("/intents/{made}")).await.refused(403, "access_closed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_intent_is_closed_on_every_route() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let eve = world.agent("agent.eve").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let message =
        ada.post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.ada" })).await.is(201);
    let message = message["id"].as_str().unwrap();
    let entry = grant(&ada, &intent, "agent.bob", "read").await["id"].as_str().unwrap().to_owned();
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let body = json!({ "sender": "agent.eve", "payload": {} });
    let e = eve.seen(&json!(1));
    // The intent's own routes answer 403, because access can be requested.
    for reply in [
        e.get(&format!("/intents/{intent}")).await,
        e.get(&format!("/intents/{intent}/events")).await,
        e.get(&format!("/intents/{intent}/events/verify")).await,
        e.get(&format!("/intents/{intent}/export")).await,
        e.get(&format!("/intents/{intent}/agents")).await,
        e.get(&format!("/intents/{intent}/acl")).await,
        e.get(&format!("/intents/{intent}/channels")).await,
        e.get(&format!("/intents/{intent}/leases")).await,
        e.get(&format!("/intents/{intent}/arbitrations")).await,
        e.get(&format!("/intents/{intent}/decisions")).await,
        e.post(&format!("/intents/{intent}/leases"), json!({ "scope": "a" })).await,
        e.patch(&format!("/intents/{intent}/leases/lease_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"), json!({})).await,
        e.delete(&format!("/intents/{intent}/leases/lease_01J9ZK4T6Q8R2V5X7Y9B1C3D5F")).await,
        e.post(&format!("/intents/{intent}/arbitrate"), json!({ "reason": "r" })).await,
        e.post(&format!("/intents/{intent}/decisions"), json!({ "outcome": "o" })).await,
        e.get(&format!("/subscribe/intents/{intent}")).await,
        e.get(&format!("/intents/{intent}/subscribe")).await,
        e.post(&format!("/intents/{intent}/state"), json!({ "state": {} })).await,
        e.post(&format!("/intents/{intent}/status"), json!({ "status": "active" })).await,
        e.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await,
        e.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": "agent.eve" })).await,
        e.post(&format!("/intents/{intent}/channels"), json!({ "name": "x" })).await,
        e.post(&format!("/intents/{intent}/channels/talk/messages"), body.clone()).await,
        e.post(&format!("/intents/{intent}/acl/entries"), json!({ "principal_id": "agent.eve" })).await,
        e.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "open" })).await,
        e.delete(&format!("/intents/{intent}/acl/entries/{entry}")).await,
        e.delete(&format!("/intents/{intent}/agents/agent.x")).await,
    ] {
        reply.refused(403, "access_closed");
    }
    // Its sub-resources answer 404, with the same text as for an unknown id.
    let nowhere = e.get("/channels/chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F").await.refused(404, "not_found");
    for reply in [
        e.get(&format!("/channels/{channel}")).await,
        e.patch(&format!("/channels/{channel}"), json!({ "members": [] })).await,
        e.delete(&format!("/channels/{channel}")).await,
        e.get(&format!("/channels/{channel}/messages")).await,
        e.get(&format!("/channels/{channel}/messages/{message}")).await,
        e.post(&format!("/channels/{channel}/messages"), body.clone()).await,
        e.post(&format!("/channels/{channel}/messages/{message}/reply"), body.clone()).await,
        e.post(&format!("/channels/{channel}/messages/batch"), json!({ "messages": [body] })).await,
        e.patch(&format!("/channels/{channel}/messages/{message}"), json!({ "status": "read" })).await,
        e.post(&format!("/channels/{channel}/ask"), json!({ "to": "agent.ada" })).await,
        e.post(&format!("/channels/{channel}/messages/batch"), json!({ "messages": [body.clone()] })).await,
        e.get(&format!("/subscribe/channels/{channel}")).await,
        e.get(&format!("/channels/{channel}/subscribe")).await,
    ] {
        assert_eq!(reply.refused(404, "not_found")["message"], nowhere["message"]);
    }
    assert_eq!(e.get("/intents").await.ok()["intents"], json!([]));
    // Nor does addressing help: a role that she holds does not reach her.
    eve.post("/agents", json!({ "agent_id": "agent.eve", "role_id": "spy" })).await.is(201);
    let to_spy = json!({ "sender": "agent.ada", "to": "role:spy", "payload": {} });
    ada.post(&format!("/channels/{channel}/messages"), to_spy).await.refused(422, "no_recipient");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_include_each_other() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let send = |who: &str| json!({ "sender": who, "payload": {} });
    let messages = format!("/channels/{channel}/messages");
    let status = format!("/intents/{intent}/status");
    let mut readers = Vec::new();
    for (who, level) in [("agent.r", "read"), ("agent.w", "write"), ("agent.a", "admin")] {
        grant(&ada, &intent, who, level).await;
        readers.push(world.agent(who).await);
    }
    let [r, w, a] = &readers[..] else { unreachable!() };
    for reader in &readers {
        reader.get(&messages).await.ok();
    }
    // Read access is enough to take part in channels (RFC-0021 §5.1).
    r.post(&messages, send("agent.r")).await.is(201);
    r.post(&format!("/intents/{intent}/channels"), json!({ "name": "x" })).await.refused(403, "forbidden");
    w.post(&messages, send("agent.w")).await.is(201);
    w.seen(&json!(1)).post(&status, json!({ "status": "active" })).await.refused(403, "forbidden");
    w.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "open" }))
        .await
        .refused(403, "forbidden");
    w.post("/intents", json!({ "title": "child", "parent_id": intent })).await.refused(403, "forbidden");
    a.seen(&json!(1)).post(&status, json!({ "status": "active" })).await.ok();
    a.post("/intents", json!({ "title": "child", "parent_id": intent })).await.ok();
    a.put(
        &format!("/intents/{intent}/acl"),
        json!({ "default_policy": "closed", "entries": [
        { "principal_id": "agent.w", "permission": "read", "principal_type": "agent", "reason": "less" }] }),
    )
    .await
    .ok();
    w.post(&messages, send("agent.w")).await.is(201);
    w.post(&format!("/intents/{intent}/channels"), json!({ "name": "y" })).await.refused(403, "forbidden");
    a.get(&messages).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_list_with_entries_lets_others_read() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let entry = grant(&ada, &intent, "agent.cy", "write").await;
    bob.get(&format!("/channels/{channel}/messages")).await.ok();
    let open = |name: &str| json!({ "name": name });
    bob.post(&format!("/intents/{intent}/channels"), open("one")).await.refused(403, "forbidden");
    ada.delete(&format!("/intents/{intent}/acl/entries/{}", entry["id"].as_str().unwrap())).await.is(204);
    bob.post(&format!("/intents/{intent}/channels"), open("two")).await.is(201);
    ada.delete(&format!("/intents/{intent}/acl/entries/{}", entry["id"].as_str().unwrap()))
        .await
        .refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_ends_the_instant_it_is_due() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let entries =
        json!([{ "principal_id": "agent.bob", "permission": "write", "expires_at": "2026-11-21T08:01:00" }]);
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed", "entries": entries }))
        .await
        .ok();
    let messages = format!("/channels/{channel}/messages");
    bob.post(&messages, json!({ "sender": "agent.bob" })).await.is(201);
    world.clock.advance(60);
    bob.post(&messages, json!({ "sender": "agent.bob" })).await.refused(404, "not_found");
    bob.get(&format!("/intents/{intent}")).await.refused(403, "access_closed");
    assert_eq!(ada.get(&format!("/intents/{intent}/acl")).await.ok()["entries"], json!([]));
    world.sweep().await;
    let events = ada.get(&format!("/intents/{intent}/events?event_type=access_expired")).await.ok();
    assert_eq!(events[0]["payload"]["principal_id"], "agent.bob");
    let late = json!({ "principal_id": "agent.bob", "expires_at": "2026-11-21T08:00:30Z" });
    ada.post(&format!("/intents/{intent}/acl/entries"), late).await.refused(422, "already_expired");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_last_grant_opens_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let eve = world.agent("agent.eve").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let events = format!("/intents/{intent}/events");
    let note = json!({ "event_type": "note" });
    // Open to everyone until the first grant; then the others may only read.
    eve.post(&events, note.clone()).await.ok();
    let grant =
        json!({ "principal_id": "agent.bob", "permission": "write", "expires_at": "2026-11-21T08:01:00Z" });
    ada.post(&format!("/intents/{intent}/acl/entries"), grant).await.ok();
    eve.post(&events, note.clone()).await.refused(403, "forbidden");
    // The end of that grant gives eve nothing back, neither at once nor after the sweep.
    world.clock.advance(60);
    eve.post(&events, note.clone()).await.refused(403, "forbidden");
    world.sweep().await;
    eve.post(&events, note.clone()).await.refused(403, "forbidden");
    eve.get(&messages).await.ok();
    // Only a manager can open it again explicitly.
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "open", "entries": [] })).await.ok();
    eve.post(&events, note).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn access_is_asked_for_and_decided() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let requests = format!("/intents/{intent}/access-requests");
    let ask = json!({ "principal_id": "agent.bob", "requested_permission": "write", "reason": "figures", "capabilities": ["sum"] });
    let made = bob.post(&requests, ask).await.is(200);
    let expected = json!({
        "id": made["id"], "intent_id": intent, "principal_id": "agent.bob", "principal_type": "agent",
        "requested_permission": "write", "reason": "figures", "status": "pending", "capabilities": ["sum"],
        "decided_by": null, "decided_at": null, "decision_reason": null, "created_at": "2026-11-21T08:00:00.000000Z"
    });
    assert_eq!(made, expected);
    bob.post(&requests, json!({ "principal_id": "agent.cy" })).await.refused(403, "may_not_act_as");
    let rfc = bob.post(&requests, json!({ "permission": "admin" })).await.is(200);
    assert_eq!(rfc["requested_permission"], "admin");
    let one = format!("{requests}/{}", made["id"].as_str().unwrap());
    bob.post(&format!("{one}/approve"), json!({})).await.refused(403, "access_closed");
    assert_eq!(ada.get(&requests).await.ok()["access_requests"].as_array().unwrap().len(), 2);
    assert_eq!(bob.get(&requests).await.ok()["access_requests"].as_array().unwrap().len(), 2);
    let eve = world.agent("agent.eve").await;
    assert_eq!(eve.get(&requests).await.ok(), json!({ "access_requests": [] }));
    let decided = ada
        .post(&format!("{one}/approve"), json!({ "decided_by": "agent.ada", "reason": "welcome" }))
        .await
        .is(200);
    assert_eq!(decided["status"], "approved");
    assert_eq!(decided["decided_by"], "agent.ada");
    assert_eq!(decided["decision_reason"], "welcome");
    bob.post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.bob" })).await.is(201);
    ada.post(&format!("{one}/approve"), json!({})).await.refused(404, "not_found");
    // A decision through another intent's path is refused (OI-17.2.4).
    let (foreign, _) = talk(&ada, json!({})).await;
    let two = rfc["id"].as_str().unwrap();
    ada.post(&format!("/intents/{foreign}/access-requests/{two}/deny"), json!({}))
        .await
        .refused(404, "not_found");
    // The body is optional.
    let denied = ada.send("POST", &format!("{requests}/{two}/deny"), None).await.is(200);
    assert_eq!(denied["status"], "denied");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_gets_back_in_and_leaves_a_trace() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let admin = world.admin().await;
    let (intent, _) = talk(&ada, json!({})).await;
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    admin.get(&format!("/intents/{intent}")).await.refused(403, "access_closed");
    grant(&admin, &intent, "service.bootstrap", "admin").await;
    admin.get(&format!("/intents/{intent}")).await.ok();
    let events = admin.get(&format!("/intents/{intent}/events?event_type=access_granted&limit=1")).await.ok();
    assert_eq!(events[0]["actor"], "service.bootstrap");
    world.end().await;
}

/// `decided_by` is the id of a principal wherever it is shown, also where a scope of the key permits the decision.
#[tokio::test(flavor = "multi_thread")]
async fn decided_by_names_a_principal_and_no_permission() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (admin, any) = (world.admin().await, world.any());
    let (shut, _) = talk(&ada, json!({})).await;
    let (intent, _) = talk(&ada, json!({})).await;
    let under = |path: &str| format!("/intents/{intent}/{path}");
    // Requests for access, decided by the scope `admin`, with a level in the body and with no body at all.
    let requests = format!("/intents/{shut}/access-requests");
    ada.put(&format!("/intents/{shut}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let mut names = Vec::new();
    for (verb, body) in [("approve", Some(json!({ "permission": "write" }).to_string())), ("deny", None)] {
        let asked = bob.post(&requests, json!({ "requested_permission": "admin" })).await.is(200);
        let path = format!("{requests}/{}/{verb}", asked["id"].as_str().unwrap());
        let decided = admin.send("POST", &path, body).await.is(200);
        assert_eq!(decided["decided_by"], "service.bootstrap");
        names.push(decided["decided_by"].clone());
        let listed = ada.get(&requests).await.is(200);
        let listed =
            listed["access_requests"].as_array().unwrap().iter().find(|one| one["id"] == asked["id"]);
        assert_eq!(listed.unwrap()["decided_by"], "service.bootstrap");
    }
    // A decision that names nobody is its key's, and one that names an agent is that agent's.
    for (client, said, expected) in [
        (&any, json!({ "outcome": "go" }), "service.any"),
        (&any, json!({ "outcome": "go", "decided_by": "agent.bob" }), "agent.bob"),
        (&bob, json!({ "outcome": "go" }), "agent.bob"),
    ] {
        let made = client.post(&under("decisions"), said).await.is(200);
        assert_eq!((&made["decided_by"], &made["decision_maker_id"]), (&json!(expected), &json!(expected)));
        names.push(made["decided_by"].clone());
    }
    // Approvals, in the response and in the log.
    let asked = bob.post(&under("approvals"), json!({ "action": "deploy", "reason": "now" })).await.is(200);
    let path = under(&format!("approvals/{}/approve", asked["id"].as_str().unwrap()));
    let approved = ada.send("POST", &path, None).await.is(200);
    let log = ada.get(&under("events?event_type=governance.approval_granted")).await.ok();
    for name in [&approved["decided_by"], &log[0]["payload"]["decided_by"]] {
        assert_eq!(name, "agent.ada");
        names.push(name.clone());
    }
    // Checkpoints of plans, in the log.
    let task = ada.post(&under("tasks"), json!({ "name": "t" })).await.ok()["id"].clone();
    let gate = json!({ "id": "review", "name": "Review", "after_task": task, "approvers": ["agent.bob"] });
    let plan = json!({ "intent_id": intent, "tasks": [task], "state": "active", "checkpoints": [gate] });
    let plan = ada.post("/plans", plan).await.is(200);
    let task = format!("/tasks/{}", task.as_str().unwrap());
    let version = ada.get(&task).await.ok()["version"].clone();
    ada.seen(&version).patch(&task, json!({ "status": "completed" })).await.is(200);
    bob.post(&format!("/plans/{}/checkpoints/review/approve", plan["id"].as_str().unwrap()), json!({}))
        .await
        .is(200);
    let log = ada.get(&under("events?event_type=plan.checkpoint_approved")).await.ok();
    assert_eq!(log[0]["payload"]["decided_by"], "agent.bob");
    // Each name has a record: a principal with this id.
    for name in &names {
        let found = admin.get(&format!("/principals/{}", name.as_str().unwrap())).await.is(200);
        assert_eq!(&found["id"], name);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_keeps_its_order() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, _) = talk(&ada, json!({})).await;
    let path = format!("/intents/{intent}/acl");
    let entries: Vec<Value> = (0..20).map(|n| json!({ "principal_id": format!("agent.{n}") })).collect();
    let set = ada.put(&path, json!({ "default_policy": "open", "entries": entries })).await.ok();
    let names: Vec<&Value> = set["entries"].as_array().unwrap().iter().map(|e| &e["principal_id"]).collect();
    assert_eq!(names, entries.iter().map(|e| &e["principal_id"]).collect::<Vec<_>>());
    assert_eq!(ada.get(&path).await.ok(), set);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_not_lawful_changes_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, _) = talk(&ada, json!({})).await;
    let path = format!("/intents/{intent}/acl");
    for bad in [
        json!({ "default_policy": "restricted", "entries": [] }),
        json!({ "default_policy": "closed", "entries": [{ "permission": "read" }] }),
        json!({ "default_policy": "closed", "entries": [{ "principal_id": "x", "permission": "own" }] }),
        json!({ "default_policy": "closed", "entries": [{ "principal_id": "" }] }),
        json!({ "entries": [] }),
    ] {
        ada.put(&path, bad).await.refused(422, "invalid_request");
    }
    let many: Vec<Value> = (0..1001).map(|n| json!({ "principal_id": format!("agent.{n}") })).collect();
    ada.put(&path, json!({ "default_policy": "closed", "entries": many })).await.refused(413, "too_large");
    assert_eq!(ada.get(&path).await.ok()["default_policy"], "open");
    world.end().await;
}
