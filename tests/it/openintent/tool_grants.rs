//! Grants (RFC-0014): creation, visibility, delegation, ends.

use sqlx::AssertSqlSafe;

use crate::openintent::vaults::{id, logged};
use entente_harness::vaults::grant;
use entente_harness::vaults::{SECRET, credential, vault};
use entente_harness::{Client, Value, World, json};

async fn status(client: &Client, grant: &Value) -> String {
    let found = client.get(&format!("/grants/{}", id(grant))).await.is(200);
    found["status"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_gives_and_the_grantee_sees_its_own() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let put = credential(
        &ada,
        &vault(&ada).await,
        json!({ "secret": SECRET, "scopes_available": ["read", "write"] }),
    )
    .await;
    let ask = json!({
        "credential_id": put["id"], "agent_id": "agent.bob", "granted_by": "agent.ada", "scopes": ["read"],
        "constraints": { "max_invocations_per_hour": 5 }, "context": { "why": "research" },
        "expires_at": "2026-11-21T09:00:00Z",
    });
    let made = ada.once("k").post("/grants", ask.clone()).await.is(200);
    let expected = json!({
        "id": made["id"], "credential_id": put["id"], "vault_id": put["vault_id"], "agent_id": "agent.bob",
        "granted_by": "agent.ada", "scopes": ["read"], "constraints": { "max_invocations_per_hour": 5 },
        "source": "direct", "delegatable": false, "delegation_depth": 0, "delegated_from": null,
        "context": { "why": "research" }, "status": "active", "expires_at": "2026-11-21T09:00:00.000000Z",
        "created_at": "2026-11-21T08:00:00.000000Z", "revoked_at": null,
    });
    assert_eq!(made, expected);
    assert_eq!(ada.once("k").post("/grants", ask.clone()).await.is(200), made);
    let path = format!("/grants/{}", id(&made));
    for client in [&ada, &bob] {
        assert_eq!(client.get(&path).await.is(200), made);
        assert_eq!(client.get("/agents/agent.bob/grants").await.is(200), json!([made]));
    }
    eve.get(&path).await.refused(404, "not_found");
    eve.delete(&path).await.refused(404, "not_found");
    eve.get(&format!("{path}/invocations")).await.refused(404, "not_found");
    assert_eq!(eve.get("/agents/agent.bob/grants").await.is(200), json!([]));
    // The grantee sees nothing of the credential and may not grant it.
    bob.get(&format!("/credentials/{}", id(&put))).await.refused(404, "not_found");
    for giver in [&bob, &eve] {
        let ask = json!({ "credential_id": put["id"], "agent_id": "agent.eve" });
        giver.post("/grants", ask).await.refused(404, "not_found");
    }
    let list = format!("/credentials/{}/grants", id(&put));
    assert_eq!(ada.get(&list).await.is(200), json!([made]));
    bob.get(&list).await.refused(404, "not_found");
    // It has expired as soon as it is due.
    world.clock.advance(3_600);
    assert_eq!(status(&bob, &made).await, "expired");
    world.sweep().await;
    world.sweep().await;
    assert_eq!(status(&bob, &made).await, "expired");
    ada.patch(&path, json!({ "status": "suspended" })).await.refused(409, "invalid_transition");
    let kinds = logged(&world).await;
    assert_eq!(kinds[2..], ["grant.created", "grant.expired"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_given_is_refused() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let more = json!({ "secret": SECRET, "scopes_available": ["read", "write"] });
    let put = credential(&ada, &vault(&ada).await, more).await;
    // An admin cannot grant others' credentials, and no one can grant in another's name.
    let ask = json!({ "credential_id": put["id"], "agent_id": "agent.eve" });
    world.admin().await.acting_as("agent.root").post("/grants", ask.clone()).await.refused(403, "forbidden");
    let mut ask = ask;
    ask["granted_by"] = json!("agent.bob");
    ada.post("/grants", ask).await.refused(403, "may_not_act_as");
    // Unsupported constraints and unavailable scopes are refused.
    for wrong in [
        json!({ "scopes": ["delete"] }),
        json!({ "constraints": { "max_calls_per_day": 1 } }),
        json!({ "constraints": { "max_invocations_per_hour": -1 } }),
        json!({ "constraints": { "ip_allowlist": ["somewhere"] } }),
        json!({ "expires_at": "2026-11-21T07:00:00Z" }),
        json!({ "agent_id": "" }),
    ] {
        let mut ask = json!({ "credential_id": put["id"], "agent_id": "agent.bob" });
        ask.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        assert_eq!(ada.post("/grants", ask).await.status, 422, "{wrong}");
    }
    assert_eq!(ada.get(&format!("/credentials/{}/grants", id(&put))).await.is(200), json!([]));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_is_not_passed_on() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let put = credential(&ada, &vault(&ada).await, json!({})).await;
    let more = json!({ "delegatable": true, "expires_at": "2026-11-21T09:00:00Z" });
    let (first, second) =
        (grant(&ada, &put, "agent.bob", more.clone()).await, grant(&ada, &put, "agent.bob", more).await);
    let on = |parent: &Value| json!({ "credential_id": put["id"], "agent_id": "agent.eve", "delegated_from": parent["id"] });
    let child = bob.once("k").post("/grants", on(&first)).await.is(200);
    let path = format!("/grants/{}", id(&first));
    ada.patch(&path, json!({ "status": "suspended" })).await.is(200);
    bob.post("/grants", on(&first)).await.refused(403, "forbidden");
    ada.delete(&path).await.is(200);
    bob.post("/grants", on(&first)).await.refused(403, "forbidden");
    // A retry returns the grant that was created.
    let again = bob.once("k").post("/grants", on(&first)).await.is(200);
    assert_eq!((&again["id"], &again["status"]), (&child["id"], &json!("revoked")));
    world.clock.advance(3_600);
    bob.post("/grants", on(&second)).await.refused(403, "forbidden");
    let listed = world.agent("agent.eve").await.get("/agents/agent.eve/grants").await.is(200);
    assert_eq!(listed, json!([again]));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_long_ago_is_forgotten() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let home = vault(&ada).await;
    let (one, two) = (credential(&ada, &home, json!({})).await, credential(&ada, &home, json!({})).await);
    let stays = grant(&ada, &one, "agent.bob", json!({})).await;
    let more = json!({ "delegatable": true, "expires_at": "2026-11-21T09:00:00Z" });
    let ends = grant(&ada, &one, "agent.bob", more).await;
    let on = json!({ "delegated_from": ends["id"] });
    let below = grant(&bob, &one, "agent.bob", on).await;
    let taken = grant(&ada, &one, "agent.bob", json!({})).await;
    ada.delete(&format!("/grants/{}", id(&taken))).await.is(200);
    let gone = grant(&ada, &two, "agent.bob", json!({})).await;
    ada.patch(&format!("/credentials/{}", id(&two)), json!({ "status": "revoked" })).await.is(200);
    let other = vault(&ada).await;
    credential(&ada, &other, json!({})).await;
    ada.delete(&format!("/vaults/{other}")).await.is(204);
    let day = 86_400;
    world.clock.advance(29 * day);
    world.sweep().await;
    let listed = bob.get("/agents/agent.bob/grants").await.is(200);
    assert_eq!(listed.as_array().unwrap().len(), 5, "for a month they are there to be looked at");
    assert_eq!(status(&bob, &ends).await, "expired");
    world.clock.advance(2 * day);
    world.sweep().await;
    assert_eq!(bob.get("/agents/agent.bob/grants").await.is(200), json!([stays]));
    for over in [&ends, &below, &taken, &gone] {
        bob.get(&format!("/grants/{}", id(over))).await.refused(404, "not_found");
    }
    for (table, left) in [("tool_grants", 1), ("tool_credentials", 1), ("vaults", 1)] {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let count: i64 = sqlx::query_scalar(count).fetch_one(&world.ctx().pool).await.unwrap();
        assert_eq!(count, left, "{table}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_grants_have_pages() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let put = credential(&ada, &vault(&ada).await, json!({})).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(grant(&ada, &put, "agent.bob", json!({})).await);
        world.clock.advance(1);
    }
    // Newest first, so that the first page has the grants in force.
    made.reverse();
    for list in ["/agents/agent.bob/grants".to_owned(), format!("/credentials/{}/grants", id(&put))] {
        assert_eq!(ada.get(&format!("{list}?limit=2")).await.is(200), json!(made[..2]));
        let rest = ada.get(&format!("{list}?limit=2&after={}", id(&made[1]))).await.is(200);
        assert_eq!(rest, json!(made[2..]));
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_passed_on_is_never_more() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let put = credential(&ada, &vault(&ada).await, json!({})).await;
    let more =
        json!({ "scopes": ["read", "write"], "delegatable": true, "expires_at": "2026-11-21T10:00:00Z" });
    let first = grant(&ada, &put, "agent.bob", more).await;
    let fixed = grant(&ada, &put, "agent.bob", json!({ "scopes": ["read"] })).await;
    let on = |parent: &Value, more: Value| {
        let mut ask = json!({
            "credential_id": put["id"], "agent_id": "agent.eve", "delegated_from": parent["id"], "scopes": ["read"],
        });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    let child = bob.post("/grants", on(&first, json!({ "delegatable": true }))).await.is(200);
    assert_eq!((&child["source"], &child["delegation_depth"]), (&json!("delegated"), &json!(1)));
    assert_eq!((&child["delegated_from"], &child["granted_by"]), (&first["id"], &json!("agent.bob")));
    assert_eq!(child["expires_at"], first["expires_at"], "it lasts as long as what it comes from");
    for wrong in [
        on(&first, json!({ "scopes": ["read", "delete"] })),
        on(&first, json!({ "context": { "tools": ["delete"] } })),
        on(&first, json!({ "expires_at": "2026-11-21T11:00:00Z" })),
        on(&fixed, json!({})),
    ] {
        bob.post("/grants", wrong).await.refused(403, "forbidden");
    }
    // Only its holder may delegate a grant, and only for the same credential.
    eve.post("/grants", on(&first, json!({}))).await.refused(404, "not_found");
    ada.post("/grants", on(&first, json!({}))).await.refused(404, "not_found");
    let other = credential(&ada, &vault(&ada).await, json!({})).await;
    bob.post("/grants", on(&first, json!({ "credential_id": other["id"] }))).await.refused(404, "not_found");
    // Those above in the chain see the grants below, but not the reverse.
    eve.get(&format!("/grants/{}", id(&first))).await.refused(404, "not_found");
    for client in [&ada, &bob, &eve] {
        client.get(&format!("/grants/{}", id(&child))).await.is(200);
    }
    // It can be delegated at most five times.
    let mut last = child.clone();
    for depth in 2..=5 {
        let ask = json!({ "delegatable": true, "agent_id": "agent.eve" });
        last = eve.post("/grants", on(&last, ask)).await.is(200);
        assert_eq!(last["delegation_depth"], depth);
    }
    eve.post("/grants", on(&last, json!({}))).await.refused(403, "forbidden");
    // A suspension or revocation takes effect at once on all delegated grants.
    let path = format!("/grants/{}", id(&first));
    bob.patch(&path, json!({ "status": "suspended" })).await.refused(403, "forbidden");
    assert_eq!(ada.patch(&path, json!({ "status": "suspended" })).await.is(200)["status"], "suspended");
    assert_eq!(status(&eve, &last).await, "suspended");
    let listed = eve.get("/agents/agent.eve/grants").await.is(200);
    assert!(listed.as_array().unwrap().iter().all(|grant| grant["status"] == "suspended"), "{listed}");
    ada.patch(&path, json!({ "status": "active" })).await.is(200);
    assert_eq!(status(&eve, &last).await, "active");
    // The delegating agent may revoke the delegated grant, and a holder may give up its own.
    let gone = bob.delete(&format!("/grants/{}", id(&child))).await.is(200);
    assert_eq!((&gone["status"], &gone["grant_id"]), (&json!("revoked"), &child["id"]));
    assert_eq!(status(&eve, &last).await, "revoked");
    assert_eq!(status(&bob, &first).await, "active");
    let again = bob.delete(&format!("/grants/{}", id(&child))).await.is(200);
    assert_eq!(again, gone, "once more changes nothing");
    bob.delete(&path).await.is(200);
    ada.patch(&path, json!({ "status": "active" })).await.refused(409, "invalid_transition");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_ends_takes_its_grants_along() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let home = vault(&ada).await;
    let one =
        credential(&ada, &home, json!({ "secret": SECRET, "expires_at": "2026-11-21T09:00:00Z" })).await;
    let two = credential(&ada, &home, json!({ "secret": SECRET })).await;
    let three = credential(&ada, &home, json!({ "secret": SECRET })).await;
    let (a, b, c) = (
        grant(&ada, &one, "agent.bob", json!({})).await,
        grant(&ada, &two, "agent.bob", json!({})).await,
        grant(&ada, &three, "agent.bob", json!({})).await,
    );
    world.clock.advance(3_600);
    assert_eq!(status(&bob, &a).await, "expired");
    let ask = json!({ "credential_id": one["id"], "agent_id": "agent.bob" });
    ada.post("/grants", ask).await.refused(422, "unprocessable");
    // If its credential's expiry is lifted, the grant is active again.
    ada.patch(&format!("/credentials/{}", id(&one)), json!({ "expires_at": null })).await.is(200);
    assert_eq!(status(&bob, &a).await, "active");
    ada.patch(&format!("/credentials/{}", id(&two)), json!({ "status": "revoked" })).await.is(200);
    assert_eq!((status(&bob, &b).await, status(&bob, &c).await), ("revoked".to_owned(), "active".to_owned()));
    ada.delete(&format!("/vaults/{home}")).await.is(204);
    assert_eq!(status(&bob, &c).await, "revoked");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scope_of_tools_opens_its_own() {
    let world = World::start().await;
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.ada", "kind": "agent" })).await.is(201);
    let key = |scopes: Value| {
        let (admin, world) = (admin.clone(), &world);
        async move {
            let made = admin.post("/principals/agent.ada/keys", json!({ "scopes": scopes })).await.is(201);
            world.client(made["key"].as_str().unwrap())
        }
    };
    let (uses, manages, other) = (
        key(json!(["tools:use"])).await,
        key(json!(["tools:manage"])).await,
        key(json!(["intents:read"])).await,
    );
    let home = vault(&manages).await;
    let put = credential(&manages, &home, json!({})).await;
    let made = grant(&manages, &put, "agent.ada", json!({})).await;
    for path in [format!("/vaults/{home}"), "/vaults".to_owned(), format!("/credentials/{}", id(&put))] {
        manages.get(&path).await.is(200);
        for lacking in [&uses, &other] {
            lacking.get(&path).await.refused(403, "scope_missing");
        }
    }
    for path in [format!("/grants/{}", id(&made)), format!("/grants/{}/invocations", id(&made))] {
        manages.get(&path).await.is(200);
        uses.get(&path).await.is(200);
        other.get(&path).await.refused(403, "scope_missing");
    }
    for lacking in [&manages, &other] {
        lacking.post("/tools/invoke", json!({ "tool_name": "search" })).await.refused(403, "scope_missing");
    }
    for (path, body) in [
        ("/vaults", json!({ "name": "n" })),
        ("/credentials", json!({ "vault_id": home, "service": "s", "label": "l" })),
        ("/grants", json!({ "credential_id": put["id"], "agent_id": "agent.x" })),
    ] {
        uses.post(path, body).await.refused(403, "scope_missing");
    }
    world.end().await;
}
