//! The powers of a key: its scopes, the agents that it may act as, and that it cannot create a key with
//! more power than its own.

mod opened;

use self::opened::OPENED;
use entente_harness::keys::{Made, key};
use entente_harness::{Client, Value, World, json, talk};

/// Creates a key with every scope but one.
async fn without(world: &World, admin: &Client, scope: &str) -> Made {
    let scopes = [
        "intents:read",
        "intents:write",
        "channels:read",
        "channels:write",
        "agents:read",
        "agents:write",
        "moments:read",
        "moments:write",
        "tools:use",
        "tools:manage",
        "admin",
    ];
    let rest: Vec<&str> = scopes.into_iter().filter(|known| *known != scope).collect();
    assert_eq!(rest.len(), 10);
    key(world, admin, "agent.ada", json!({ "scopes": rest })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scope_opens_what_it_is_for() {
    let world = World::start().await;
    let admin = world.admin().await;
    key(&world, &admin, "agent.bob", json!({})).await;
    let whole = key(&world, &admin, "agent.ada", json!({})).await.client;
    let (intent, channel) = talk(&whole, json!({})).await;
    let sent = json!({ "sender": "agent.ada", "payload": {} });
    let message = whole.post(&format!("/channels/{channel}/messages"), sent).await.is(201);
    let message = message["id"].as_str().unwrap().to_owned();
    whole.post("/agents/register", json!({ "agent_id": "agent.ada" })).await.ok();
    for (scope, requests) in OPENED {
        let lacking = without(&world, &admin, scope).await.client.seen(&json!(1));
        for request in *requests {
            let (method, rest) = request.split_once(' ').unwrap();
            let (path, body) =
                rest.split_once(' ').map_or((rest, None), |(path, body)| (path, Some(body.to_owned())));
            let path = path.replace("{i}", &intent).replace("{c}", &channel).replace("{m}", &message);
            let refused = lacking.send(method, &path, body).await.refused(403, "scope_missing");
            let word = refused["message"].as_str().unwrap();
            assert!(word.contains(&format!("`{scope}`")), "{request}: {word}");
        }
    }
    // A scope opens only its own operations; all others are refused.
    let reader = key(&world, &admin, "agent.ada", json!({ "scopes": ["intents:read"] })).await.client;
    reader.get(&format!("/intents/{intent}")).await.ok();
    for (scope, requests) in OPENED.iter().filter(|(scope, _)| *scope != "intents:read") {
        let Some(path) = requests.iter().find_map(|request| request.strip_prefix("GET ")) else { continue };
        let path = path.replace("{i}", &intent).replace("{c}", &channel).replace("{m}", &message);
        let refused = reader.get(&path).await.refused(403, "scope_missing");
        assert!(refused["message"].as_str().unwrap().contains(scope));
    }
    // None of these requests had an effect.
    assert_eq!(whole.get(&format!("/intents/{intent}")).await.ok()["version"], 1);
    assert_eq!(whole.get(&format!("/channels/{channel}")).await.ok()["message_count"], 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_a_word_may_do_all_but_manage() {
    let world = World::start().await;
    let admin = world.admin().await;
    let made = key(&world, &admin, "agent.ada", json!({})).await;
    let ordinary = json!([
        "intents:read",
        "intents:write",
        "channels:read",
        "channels:write",
        "agents:read",
        "agents:write",
        "jobs:read",
        "jobs:write",
        "jobs:work",
        "mail:read",
        "mail:write",
        "moments:read",
        "moments:write",
        "tools:use",
        "tools:manage"
    ]);
    assert_eq!(made.record["scopes"], ordinary);
    assert_eq!(made.record["act_as"], json!([]));
    // The key sees its own principal and keys, and no others.
    assert_eq!(made.client.get("/principals/agent.ada").await.ok()["id"], "agent.ada");
    assert_eq!(made.client.get("/principals/agent.ada/keys").await.ok().as_array().unwrap().len(), 1);
    made.client.get("/principals/service.bootstrap/keys").await.refused(403, "scope_missing");
    made.client.get("/principals/agent.nobody").await.refused(403, "scope_missing");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn globs_say_whom_a_key_may_act_as() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ask = json!({ "act_as": ["agent.billing.*", "agent.*.eu", "agent.one"] });
    let made = key(&world, &admin, "service.gateway", ask).await.client;
    for allowed in [
        "service.gateway",
        "agent.billing.7",
        "agent.billing.",
        "agent.billing.a.b",
        "agent.x.eu",
        "agent.one",
    ] {
        let me = made.acting_as(allowed).get("/principals/me").await.ok();
        assert_eq!((&me["agent_id"], &me["principal_id"]), (&json!(allowed), &json!("service.gateway")));
        let intent = made.acting_as(allowed).post("/intents", json!({ "title": "t" })).await.ok();
        assert_eq!(intent["created_by"], allowed);
    }
    for denied in [
        "agent.billing",
        "xagent.billing.7",
        "agent.eu",
        "agent.x.eux",
        "agent.one.more",
        "agent.two",
        "service.gateway2",
        "human.ada",
        "Agent.one",
    ] {
        let refused = made.acting_as(denied).get("/principals/me").await.refused(403, "may_not_act_as");
        assert!(refused["message"].as_str().unwrap().contains("service.gateway"));
    }
    for no_name in ["*", "role:x", " agent.one"] {
        let status = made.acting_as(no_name).get("/principals/me").await.status;
        // The client library trims leading blanks before it sends them.
        assert!(status == 422 || no_name.starts_with(' '), "{no_name}: {status}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_taken_from_a_body_unchecked() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = key(&world, &admin, "agent.ada", json!({})).await.client;
    let some = key(&world, &admin, "service.some", json!({ "act_as": ["agent.a*"] })).await.client;
    let (intent, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let sent = ada.post(&messages, json!({ "sender": "agent.ada", "payload": {} })).await.is(201);
    let reply = format!("{messages}/{}/reply", sent["id"].as_str().unwrap());
    let posts = |name: &str| -> Vec<(String, Value)> {
        vec![
            (messages.clone(), json!({ "sender": name, "payload": {} })),
            (reply.clone(), json!({ "sender": name, "payload": {} })),
            (format!("/intents/{intent}/channels/talk/messages"), json!({ "sender": name, "payload": {} })),
            (format!("/channels/{channel}/ask"), json!({ "sender": name, "timeout": 1 })),
            ("/intents".to_owned(), json!({ "title": "t", "created_by": name })),
            (format!("/intents/{intent}/events"), json!({ "event_type": "note", "actor": name })),
            ("/agents/register".to_owned(), json!({ "agent_id": name })),
            ("/agents".to_owned(), json!({ "agent_id": name })),
            (format!("/agents/{name}/heartbeat"), json!({})),
        ]
    };
    for (path, body) in posts("agent.bob") {
        ada.post(&path, body.clone()).await.refused(403, "may_not_act_as");
        some.post(&path, body.clone()).await.refused(403, "may_not_act_as");
        // A request that names its agent is bound to it, even where the key could act as the other one.
        some.acting_as("agent.ada").post(&path, body).await.refused(403, "may_not_act_as");
    }
    for (path, body) in posts("agent.abel") {
        some.acting_as("agent.ada").post(&path, body).await.refused(403, "may_not_act_as");
    }
    let batch = json!({ "messages": [{ "sender": "agent.bob" }] });
    let reply = ada.post(&format!("{messages}/batch"), batch).await.is(207);
    assert_eq!(reply["results"][0]["error"]["code"], "may_not_act_as");
    for path in ["/agents/agent.bob/status", "/agents/agent.bob/drain", "/agents/agent.bob"] {
        let (method, body) = match path.rsplit('/').next().unwrap() {
            "status" => ("PATCH", Some(r#"{"status":"draining"}"#.to_owned())),
            "drain" => ("POST", None),
            _ => ("DELETE", None),
        };
        ada.send(method, path, body).await.refused(403, "may_not_act_as");
    }
    // Within the globs, the body may name the sender.
    let sent = some.post(&messages, json!({ "sender": "agent.abel", "payload": {} })).await.is(201);
    assert_eq!(sent["sender"], "agent.abel");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_makes_a_stronger_one() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ask = json!({ "scopes": ["admin", "channels:read"], "act_as": ["agent.a*"] });
    let clerk = key(&world, &admin, "service.clerk", ask).await.client;
    for id in ["agent.abel", "agent.bob", "human.eve"] {
        key(&world, &admin, id, json!({})).await;
    }
    let make =
        async |principal: &str, ask: Value| clerk.post(&format!("/principals/{principal}/keys"), ask).await;
    let weak = |act_as: Value| json!({ "scopes": ["channels:read"], "act_as": act_as });
    // It cannot give a scope that it lacks; omitted scopes default to all but `admin`.
    let refused = make("agent.abel", json!({ "scopes": ["channels:read", "channels:write"] })).await;
    assert!(refused.refused(403, "scope_missing")["message"].as_str().unwrap().contains("`channels:write`"));
    make("agent.abel", json!({})).await.refused(403, "scope_missing");
    // It cannot give the right to act as agents outside its own globs, neither by a glob nor as a key of that
    // principal.
    for wide in ["*", "agent.*", "agent.b", "a*", "service.bootstrap", "human.eve"] {
        make("agent.abel", weak(json!([wide]))).await.refused(403, "may_not_act_as");
    }
    for stranger in ["agent.bob", "human.eve", "service.bootstrap"] {
        make(stranger, weak(json!([]))).await.refused(403, "may_not_act_as");
    }
    // A rotation cannot hand over such a key either.
    let me = admin.get("/principals/me").await.ok();
    let rotate = format!("/keys/{}/rotate", me["key"]["id"].as_str().unwrap());
    clerk.post(&rotate, json!({})).await.refused(403, "scope_missing");
    let bobs = admin.get("/principals/agent.bob/keys").await.ok();
    let rotate = format!("/keys/{}/rotate", bobs[0]["id"].as_str().unwrap());
    clerk.post(&rotate, json!({})).await.refused(403, "scope_missing");
    admin.post(&rotate, json!({})).await.is(201);
    // It may give the rights that it has itself.
    let given = weak(json!(["agent.a*", "agent.abc*", "agent.a*c", "agent.ann", "service.clerk"]));
    make("agent.abel", given).await.is(201);
    make("service.clerk", json!({ "scopes": ["admin"] })).await.is(201);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weak_key_does_not_become_its_principals_strong_one() {
    let world = World::start().await;
    let admin = world.admin().await;
    let strong = key(&world, &admin, "service.ci", json!({ "scopes": ["admin"], "act_as": ["*"] })).await;
    let weak = key(&world, &admin, "service.ci", json!({ "scopes": ["intents:read"] })).await;
    // It sees the other key's record, but rotating that key would give it the other's powers.
    let seen = weak.client.get("/principals/service.ci/keys").await.ok();
    assert!(seen.as_array().unwrap().contains(&strong.record));
    let refused = weak.client.post(&format!("{}/rotate", strong.path()), json!({})).await;
    refused.refused(403, "scope_missing");
    assert_eq!(admin.get("/principals/service.ci/keys").await.ok().as_array().unwrap().len(), 2);
    // It may rotate itself, which gives it nothing new.
    let made = weak.client.post(&format!("{}/rotate", weak.path()), json!({})).await.is(201);
    assert_eq!(made["record"]["scopes"], json!(["intents:read"]));
    // Any key of the principal can revoke another: a leaked key must be revocable even when only the weak one is at
    // hand.
    weak.client.delete(&strong.path()).await.is(200);
    strong.client.get("/intents").await.refused(401, "unauthenticated");
    world.end().await;
}
