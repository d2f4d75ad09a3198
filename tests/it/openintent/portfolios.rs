//! Portfolios (RFC-0004): ownership, contents and aggregates. `portfolios/following.rs` covers streams and
//! webhooks, `portfolios/paging.rs` pages.

mod following;
mod paging;

use crate::openintent::graphs::{intent, moved, shut};
use entente_harness::{Client, Value, World, ids, json};

/// Creates a portfolio and returns its id.
pub async fn portfolio(client: &Client, name: &str) -> String {
    client.post("/portfolios", json!({ "name": name })).await.is(200)["id"].as_str().unwrap().to_owned()
}

/// Adds an intent to a portfolio.
pub async fn put(client: &Client, portfolio: &str, intent: &str) -> Value {
    client.post(&format!("/portfolios/{portfolio}/intents"), json!({ "intent_id": intent })).await.is(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portfolio_is_its_creators() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let admin = world.admin().await;
    // As the SDK does, without a description (OI-16.1).
    let ask = json!({
        "name": "Q1", "description": null, "created_by": "agent.ada", "governance_policy": { "quorum": 2 },
        "metadata": { "team": "finance" }
    });
    let made = ada.once("k").post("/portfolios", ask.clone()).await.is(200);
    assert_eq!(ada.once("k").post("/portfolios", ask.clone()).await.is(200), made, "done once");
    ada.once("k").post("/portfolios", json!({ "name": "Q2" })).await.refused(409, "idempotency_mismatch");
    let at = "2026-11-21T08:00:00.000000Z";
    let expected = json!({
        "id": made["id"], "name": "Q1", "description": null, "created_by": "agent.ada", "createdBy": "agent.ada",
        "status": "active", "governance_policy": { "quorum": 2 }, "governancePolicy": { "quorum": 2 },
        "metadata": { "team": "finance" }, "created_at": at, "createdAt": at, "updated_at": at, "updatedAt": at,
        "aggregate_status": { "total": 0, "by_status": {}, "completion_percentage": 0 }
    });
    assert_eq!(made, expected);
    let path = format!("/portfolios/{}", made["id"].as_str().unwrap());
    let mut whole = expected.clone();
    whole["intents"] = json!([]);
    whole["memberships"] = json!([]);
    assert_eq!(ada.get(&path).await.ok(), whole);
    assert_eq!(ada.get("/portfolios").await.ok(), json!([expected]));
    world.clock.advance(1);
    let moved = ada.patch(&format!("{path}/status"), json!({ "status": "completed" })).await.is(200);
    assert_eq!(
        (&moved["status"], &moved["updatedAt"]),
        (&json!("completed"), &json!("2026-11-21T08:00:01.000000Z"))
    );
    ada.patch(&format!("{path}/status"), json!({ "status": "banana" })).await.refused(422, "invalid_request");
    // For others it does not exist, on any operation.
    let intent = intent(&bob, "bob's", json!({})).await;
    bob.get(&path).await.refused(404, "not_found");
    bob.get(&format!("{path}/intents")).await.refused(404, "not_found");
    bob.patch(&format!("{path}/status"), json!({ "status": "active" })).await.refused(404, "not_found");
    bob.post(&format!("{path}/intents"), json!({ "intent_id": intent })).await.refused(404, "not_found");
    bob.delete(&format!("{path}/intents/{intent}")).await.refused(404, "not_found");
    assert_eq!(bob.get("/portfolios").await.ok(), json!([]));
    assert_eq!(bob.get("/portfolios?created_by=agent.ada").await.ok(), json!([]));
    // Admins see it.
    assert_eq!(admin.get(&path).await.ok()["status"], "completed");
    assert_eq!(
        ids(&admin.get("/portfolios?created_by=agent.ada").await.ok()),
        [made["id"].as_str().unwrap()]
    );
    assert_eq!(admin.get("/portfolios?created_by=agent.bob").await.ok(), json!([]));
    bob.post("/portfolios", ask).await.refused(403, "may_not_act_as");
    for wrong in [json!({}), json!({ "name": "" }), json!({ "name": "x".repeat(501) })] {
        ada.post("/portfolios", wrong).await.refused(422, "invalid_request");
    }
    ada.get("/portfolios/what").await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn intents_are_put_in_and_taken_out() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let folio = portfolio(&ada, "Q1").await;
    let intents = format!("/portfolios/{folio}/intents");
    let first = intent(&ada, "first", json!({ "status": "active" })).await;
    let second = intent(&ada, "second", json!({})).await;
    let place = put(&ada, &folio, &first).await;
    let expected = json!({
        "id": place["id"], "membership_id": place["id"], "portfolio_id": folio, "intent_id": first, "role": "member",
        "priority": 0, "added_at": "2026-11-21T08:00:00.000000Z"
    });
    assert_eq!(place, expected);
    let ask = json!({ "intent_id": second, "role": "primary", "priority": 5 });
    let other = ada.once("k").post(&intents, ask.clone()).await.is(200);
    assert_eq!(ada.once("k").post(&intents, ask).await.is(200), other);
    let found = ada.get(&intents).await.is(200);
    assert_eq!(ids(&found["intents"]), [&*second, &first], "the highest priority first");
    assert_eq!(found["intents"][1], ada.get(&format!("/intents/{first}")).await.ok());
    assert_eq!(found["memberships"], json!([other, place]));
    let sums = json!({ "total": 2, "by_status": { "active": 1, "draft": 1 }, "completion_percentage": 0 });
    assert_eq!(found["aggregate_status"], sums);
    // Adding it again keeps the membership's id.
    let again =
        ada.post(&intents, json!({ "intent_id": first, "role": "dependency", "priority": 9 })).await.is(200);
    assert_eq!(
        (&again["id"], &again["role"], &again["priority"]),
        (&place["id"], &json!("dependency"), &json!(9))
    );
    assert_eq!(ids(&ada.get(&intents).await.ok()["intents"]), [&*first, &second]);
    moved(&ada, &first, "completed").await;
    let whole = ada.get(&format!("/portfolios/{folio}")).await.ok();
    assert_eq!(whole["aggregate_status"]["completion_percentage"], 50);
    assert_eq!(ids(&whole["intents"]), [&*first, &second]);
    assert_eq!(ada.get("/portfolios").await.ok()[0]["aggregate_status"], whole["aggregate_status"]);
    for (wrong, status, code) in [
        (json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" }), 404, "not_found"),
        (json!({ "intent_id": "what" }), 404, "not_found"),
        (json!({}), 422, "invalid_request"),
        (json!({ "intent_id": first, "role": "boss" }), 422, "invalid_request"),
        (json!({ "intent_id": first, "priority": 3_000_000_000_i64 }), 422, "invalid_request"),
    ] {
        ada.post(&intents, wrong).await.refused(status, code);
    }
    ada.delete(&format!("{intents}/{first}")).await.is(200);
    ada.delete(&format!("{intents}/{first}")).await.refused(404, "not_found");
    assert_eq!(ids(&ada.get(&intents).await.ok()["intents"]), [&*second]);
    // The system log records all of it.
    let log = world.admin().await.get("/audit?limit=100").await.ok();
    let kinds: Vec<&str> =
        log.as_array().unwrap().iter().map(|e| e["event_type"].as_str().unwrap()).collect();
    let count = |kind: &str| kinds.iter().filter(|one| **one == kind).count();
    assert_eq!(
        (count("portfolio_created"), count("added_to_portfolio"), count("removed_from_portfolio")),
        (1, 3, 1)
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portfolio_opens_no_intent() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let folio = portfolio(&bob, "Q1").await;
    let intents = format!("/portfolios/{folio}/intents");
    let secret = intent(&ada, "secret", json!({})).await;
    let open = intent(&ada, "open", json!({})).await;
    put(&bob, &folio, &secret).await;
    put(&bob, &folio, &open).await;
    moved(&ada, &open, "completed").await;
    shut(&ada, &secret).await;
    let found = bob.get(&intents).await.ok();
    assert_eq!(ids(&found["intents"]), [&*open]);
    assert_eq!(found["memberships"].as_array().unwrap().len(), 1);
    let sums = json!({ "total": 1, "by_status": { "completed": 1 }, "completion_percentage": 100 });
    assert_eq!(found["aggregate_status"], sums);
    assert_eq!(bob.get("/portfolios").await.ok()[0]["aggregate_status"], sums);
    bob.post(&intents, json!({ "intent_id": secret })).await.refused(403, "access_closed");
    // It can be removed all the same.
    bob.delete(&format!("{intents}/{secret}")).await.is(200);
    // An intent's portfolios are visible to their owners, not to the intent's creator.
    let path = format!("/intents/{open}/portfolios");
    assert_eq!(ids(&bob.get(&path).await.ok()), [&*folio]);
    assert_eq!(ada.get(&path).await.ok(), json!([]));
    assert_eq!(ids(&world.admin().await.get(&path).await.ok()), [&*folio]);
    bob.get(&format!("/intents/{secret}/portfolios")).await.refused(403, "access_closed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_its_rule_a_portfolio_is_completed_when_all_is() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let ask = json!({ "name": "Q1", "governance_policy": { "require_all_completed": true } });
    let folio = ada.post("/portfolios", ask).await.is(200)["id"].as_str().unwrap().to_owned();
    let status = format!("/portfolios/{folio}/status");
    let one = intent(&ada, "one", json!({})).await;
    put(&ada, &folio, &one).await;
    let refused =
        ada.patch(&status, json!({ "status": "completed" })).await.refused(409, "invalid_transition");
    assert!(refused["message"].as_str().unwrap().contains("0 of 1"));
    ada.patch(&status, json!({ "status": "abandoned" })).await.is(200);
    moved(&ada, &one, "completed").await;
    let done = ada.patch(&status, json!({ "status": "completed" })).await.is(200);
    assert_eq!(
        (&done["status"], &done["aggregate_status"]["completion_percentage"]),
        (&json!("completed"), &json!(100))
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn portfolios_are_listed_page_by_page() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let one = intent(&ada, "one", json!({})).await;
    let mut made = Vec::new();
    for n in 0..5 {
        world.clock.advance(1);
        made.insert(0, portfolio(&ada, &format!("p{n}")).await);
        put(&ada, &made[0], &one).await;
    }
    for list in ["/portfolios?".to_owned(), format!("/intents/{one}/portfolios?")] {
        let (mut before, mut seen) = (String::new(), Vec::new());
        loop {
            let page = ada.get(&format!("{list}limit=2{before}")).await;
            seen.extend(ids(&page.is(200)));
            let Some(next) = page.headers.get("entente-next-cursor") else { break };
            before = format!("&before={}", next.to_str().unwrap());
        }
        assert_eq!(seen, made, "the newest first");
    }
    ada.get("/portfolios?limit=101").await.refused(422, "invalid_parameter");
    ada.get("/portfolios?before=what").await.refused(422, "invalid_parameter");
    world.end().await;
}
