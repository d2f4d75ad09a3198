//! Principals: creation, lookup and valid names.

use entente_harness::keys::key;
use entente_harness::{Value, World, json};

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|principal| principal["id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_principal_is_created_once() {
    let world = World::start().await;
    let admin = world.admin().await;
    // A 409 must not repeat a name: this one contains a word that clients take for a lease conflict (OI-3.5.3).
    let ask = json!({ "id": "service.release", "kind": "service", "display_name": "The gate" });
    let made = admin.once("k").post("/principals", ask.clone()).await.is(201);
    let expected = json!({
        "id": "service.release", "kind": "service", "display_name": "The gate", "created_by": "service.bootstrap",
        "created_at": "2026-11-21T08:00:00.000000Z"
    });
    assert_eq!(made, expected);
    assert_eq!(admin.get("/principals/service.release").await.ok(), expected);
    assert_eq!(admin.once("k").post("/principals", ask.clone()).await.is(201), expected);
    admin.post("/principals", ask.clone()).await.refused(409, "already_exists");
    admin
        .post("/principals", json!({ "id": "service.release", "kind": "human" }))
        .await
        .refused(409, "already_exists");
    let other = json!({ "id": "service.other", "kind": "service" });
    admin.once("k").post("/principals", other).await.refused(409, "idempotency_mismatch");
    admin.get("/principals/service.other").await.refused(404, "not_found");
    let events = admin.get("/audit?event_type=principal.created").await.ok();
    assert_eq!(events.as_array().unwrap().len(), 1);
    assert_eq!(events[0]["payload"], json!({ "principal_id": "service.release", "kind": "service" }));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_kinds_that_are_none_are_refused() {
    let world = World::start().await;
    let admin = world.admin().await;
    for bad in [
        json!({}),
        json!({ "id": "agent.x" }),
        json!({ "kind": "agent" }),
        json!({ "id": "agent.x", "kind": "robot" }),
        json!({ "id": "", "kind": "agent" }),
        json!({ "id": "*", "kind": "agent" }),
        json!({ "id": "role:x", "kind": "agent" }),
        json!({ "id": " agent.x", "kind": "agent" }),
        json!({ "id": "agent\n.x", "kind": "agent" }),
        json!({ "id": "x".repeat(201), "kind": "agent" }),
        json!({ "id": 7, "kind": "agent" }),
        json!({ "id": "agent.x", "kind": "agent", "display_name": "x".repeat(201) }),
    ] {
        admin.post("/principals", bad).await.refused(422, "invalid_request");
    }
    for name in ["me and you", "agent.ä", "a/b"] {
        admin.post("/principals", json!({ "id": name, "kind": "human" })).await.is(201);
    }
    let escaped = admin.get("/principals/a%2Fb").await;
    assert_eq!(escaped.ok()["id"], "a/b");
    assert_eq!(admin.get("/principals/me%20and%20you").await.ok()["kind"], "human");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_go_on_page_by_page() {
    let world = World::start().await;
    let admin = world.admin().await;
    for n in [3, 1, 4, 0, 2] {
        admin.post("/principals", json!({ "id": format!("human.{n}"), "kind": "human" })).await.is(201);
    }
    let all = admin.get("/principals").await.ok();
    assert_eq!(
        ids(&all),
        ["human.0", "human.1", "human.2", "human.3", "human.4", "service.any", "service.bootstrap"]
    );
    let page = admin.get("/principals?after=human.1&limit=2").await.ok();
    assert_eq!(ids(&page), ["human.2", "human.3"]);
    assert_eq!(
        ids(&admin.get("/principals?after=human.35&limit=1").await.ok()),
        ["human.4"],
        "nobody's place"
    );
    assert_eq!(admin.get("/principals?after=zzz").await.ok(), json!([]));
    for limit in ["0", "1001", "-1", "x"] {
        admin.get(&format!("/principals?limit={limit}")).await.refused(422, "invalid_parameter");
    }
    // Keys too, oldest first.
    let mut made = Vec::new();
    for n in 0..5 {
        world.clock.advance(1);
        let key = key(&world, &admin, "human.1", json!({ "label": format!("k{n}") })).await;
        made.push(key.record["id"].as_str().unwrap().to_owned());
    }
    let path = "/principals/human.1/keys";
    assert_eq!(ids(&admin.get(path).await.ok()), made);
    assert_eq!(ids(&admin.get(&format!("{path}?limit=2")).await.ok()), made[..2]);
    assert_eq!(ids(&admin.get(&format!("{path}?limit=2&after={}", made[1])).await.ok()), made[2..4]);
    assert_eq!(ids(&admin.get(&format!("{path}?after={}", made[4])).await.ok()), [""; 0]);
    admin.get(&format!("{path}?limit=0")).await.refused(422, "invalid_parameter");
    admin.get(&format!("{path}?after=nonsense")).await.refused(422, "invalid_parameter");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_can_ask_who_it_is() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = key(&world, &admin, "human.ada", json!({ "scopes": ["agents:read"] })).await;
    let me = ada.client.get("/principals/me").await.ok();
    assert_eq!(me["principal_id"], "human.ada");
    assert_eq!(me["kind"], "human");
    assert_eq!(me["agent_id"], "human.ada");
    assert_eq!(me["key"]["id"], ada.record["id"]);
    assert_eq!(me["key"]["scopes"], json!(["agents:read"]));
    let acting = world.any().acting_as("agent.x").get("/principals/me").await.ok();
    assert_eq!((&acting["agent_id"], &acting["kind"]), (&json!("agent.x"), &json!("service")));
    assert_eq!(acting["key"]["prefix"], "(seeded)", "of a seeded key there is no part to show");
    world.anon().get("/principals/me").await.refused(401, "unauthenticated");
    world.end().await;
}
