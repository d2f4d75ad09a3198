//! Escalations (RFC-0013): an agent puts an intent before people; visibility and resolution.

use crate::openintent::governance::become_;
use entente_harness::governance::{governed, told};
use entente_harness::people::given_key;
use entente_harness::{Client, Value, World, ids, json, talk};

async fn escalate(client: &Client, intent: &str, body: Value) -> Value {
    client.post(&format!("/intents/{intent}/escalations"), body).await.is(200)
}

fn at(escalation: &Value) -> String {
    format!("/escalations/{}/resolve", escalation["id"].as_str().unwrap())
}

fn go() -> Value {
    json!({ "resolution": "go on", "notes": "as before" })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_escalation_is_resolved_once() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.human("human.bob").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let body = json!({ "reason": "two sources", "priority": "high", "context": { "sources": 2 } });
    let made = escalate(&ada, &intent, body.clone()).await;
    assert_eq!(made["escalated_by"], "agent.ada");
    assert_eq!((&made["priority"], &made["urgency"]), (&json!("high"), &json!("medium")));
    assert_eq!((&made["status"], &made["context"]), (&json!("pending"), &json!({ "sources": 2 })));
    let asked = told(&ada, &intent, "arbitration_requested").await;
    assert_eq!(asked[0]["payload"]["escalation_id"], made["id"]);
    let done = bob.post(&at(&made), go()).await.is(200);
    assert_eq!((&done["status"], &done["resolved_by"]), (&json!("resolved"), &json!("human.bob")));
    assert_eq!((&done["resolution"], &done["resolution_notes"]), (&json!("go on"), &json!("as before")));
    assert_eq!(bob.post(&at(&made), go()).await.is(200), done, "the same once more");
    bob.post(&at(&made), json!({ "resolution": "stop" })).await.refused(409, "already_decided");
    let events = told(&ada, &intent, "coordinator.escalation_resolved").await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["payload"]["resolution"], "go on");
    assert_eq!(events[0]["payload"]["authority"]["basis"], "seeded_key");
    // A retry has no further effect.
    let first = ada.once("e").post(&format!("/intents/{intent}/escalations"), body.clone()).await.is(200);
    assert_eq!(ada.once("e").post(&format!("/intents/{intent}/escalations"), body).await.is(200), first);
    for (body, code) in [
        (json!({ "reason": "" }), "invalid_request"),
        (json!({ "reason": "x", "priority": "most" }), "invalid_request"),
        (json!({ "reason": "x", "assigned_to": "agent.ada" }), "unprocessable"),
        (json!({ "reason": "x", "assigned_to": "human.nobody" }), "unprocessable"),
    ] {
        ada.post(&format!("/intents/{intent}/escalations"), body).await.refused(422, code);
    }
    bob.post("/escalations/esc_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/resolve", go()).await.refused(404, "not_found");
    // A pending escalation ends with the intent.
    become_(&ada, &intent, "abandoned", None).await.ok();
    bob.post(&at(&first), go()).await.refused(409, "already_decided");
    let listed = ada.get(&format!("/intents/{intent}/escalations?status=expired")).await.ok();
    assert_eq!(ids(&listed["escalations"]), [first["id"].as_str().unwrap()]);
    ada.post(&format!("/intents/{intent}/escalations"), json!({ "reason": "x" }))
        .await
        .refused(409, "intent_resolved");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_before_a_person_only_that_person_resolves() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (eva, max) = (world.human("human.eva").await, world.human("human.max").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let made = escalate(&ada, &intent, json!({ "reason": "sign here", "assigned_to": "human.eva" })).await;
    assert_eq!(made["assigned_to"], "human.eva");
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    // Neither its agent nor a service that acts as the person.
    ada.post(&at(&made), go()).await.refused(403, "not_the_principal");
    let acl = json!({ "principal_id": "human.max", "permission": "admin" });
    ada.post(&format!("/intents/{intent}/acl/entries"), acl).await.ok();
    max.post(&at(&made), go()).await.refused(403, "not_the_principal");
    let any = world.any().acting_as("human.eva");
    any.post(&at(&made), go()).await.refused(404, "not_found");
    assert_eq!(any.get("/escalations").await.ok()["escalations"], json!([]));
    // She has no access to the intent, but sees the escalation.
    eva.get(&format!("/intents/{intent}")).await.refused(403, "access_closed");
    assert_eq!(
        ids(&eva.get("/escalations?status=pending").await.ok()["escalations"]),
        [made["id"].as_str().unwrap()]
    );
    let done = eva.post(&at(&made), go()).await.is(200);
    assert_eq!(done["resolved_by"], "human.eva");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_says_whose_escalations_are() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (eva, max) = (world.human("human.eva").await, world.human("human.max").await);
    let intent = governed(&ada, json!({ "escalate_to": "human.eva", "write_scope": "assigned_only" })).await;
    // An agent that may not work on the intent may still escalate.
    let made = escalate(&bob, &intent, json!({ "reason": "let me in" })).await;
    assert_eq!(made["assigned_to"], "human.eva");
    ada.post(&at(&made), go()).await.refused(403, "not_the_principal");
    let other = escalate(&bob, &intent, json!({ "reason": "or you", "assigned_to": "human.max" })).await;
    eva.post(&at(&other), go()).await.refused(403, "not_the_principal");
    max.post(&at(&other), go()).await.is(200);
    eva.post(&at(&made), go()).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_what_may_be_seen() {
    let world = World::start().await;
    let (ada, eve) = (world.agent("agent.ada").await, world.agent("agent.eve").await);
    let (open, _) = talk(&ada, json!({})).await;
    let (closed, _) = talk(&ada, json!({})).await;
    let first = escalate(&ada, &open, json!({ "reason": "one" })).await;
    // Ids from the same microsecond have a random order.
    world.clock.advance(1);
    let hidden = escalate(&ada, &closed, json!({ "reason": "two" })).await;
    world.clock.advance(1);
    let last = escalate(&ada, &open, json!({ "reason": "three" })).await;
    ada.put(&format!("/intents/{closed}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let id = |escalation: &Value| escalation["id"].as_str().unwrap().to_owned();
    let list = async |client: &Client, query: &str| {
        ids(&client.get(&format!("/escalations{query}")).await.ok()["escalations"])
    };
    assert_eq!(list(&ada, "").await, [id(&last), id(&hidden), id(&first)]);
    assert_eq!(list(&eve, "").await, [id(&last), id(&first)]);
    assert_eq!(list(&ada, "?limit=1").await, [id(&last)]);
    assert_eq!(list(&ada, &format!("?limit=1&before={}", id(&last))).await, [id(&hidden)]);
    assert_eq!(list(&ada, &format!("?intent_id={closed}")).await, [id(&hidden)]);
    eve.get(&format!("/escalations?intent_id={closed}")).await.refused(403, "access_closed");
    eve.get(&format!("/intents/{closed}/escalations")).await.refused(403, "access_closed");
    eve.post(&at(&hidden), go()).await.refused(404, "not_found");
    let writer = json!({ "principal_id": "agent.eve", "permission": "write" });
    ada.post(&format!("/intents/{closed}/acl/entries"), writer).await.ok();
    // Only people resolve escalations.
    eve.post(&at(&hidden), go()).await.refused(403, "not_the_principal");
    eve.post(&at(&first), go()).await.refused(403, "not_the_principal");
    let max = world.human("human.max").await;
    max.post(&at(&hidden), go()).await.refused(404, "not_found");
    max.post(&at(&first), go()).await.is(200);
    assert_eq!(list(&ada, "?status=resolved").await, [id(&first)]);
    assert_eq!(list(&ada, "?status=acknowledged").await, [""; 0]);
    ada.get("/escalations?status=banana").await.refused(422, "invalid_parameter");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_who_raised_it_nor_any_agent_resolves_it() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let admin = world.admin().await;
    let given = world.client(&given_key(&admin, "human.max").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let made = escalate(&ada, &intent, json!({ "reason": "whose is it?" })).await;
    for (who, client) in [
        ("who raised it", ada.clone()),
        ("another agent", bob),
        ("a service", world.any()),
        ("a service in another agent's name", world.any().acting_as("agent.eve")),
        ("a service in a person's name", world.any().acting_as("human.max")),
        ("an admin of the server", admin.clone()),
        ("who holds a key that an admin made for a person", given.clone()),
    ] {
        let reply = client.post(&at(&made), go()).await;
        assert_eq!((reply.status, &reply.json()["code"]), (403, &json!("not_the_principal")), "{who}");
        // As the SDK does it, with a name in the body.
        let mut named = go();
        named["resolved_by"] = json!("human.eva");
        assert!([403, 404].contains(&client.post(&at(&made), named).await.status), "{who}");
    }
    // A key that somebody else created cannot resolve an escalation, even if it names that person.
    let hers = escalate(&ada, &intent, json!({ "reason": "yours", "assigned_to": "human.max" })).await;
    given.post(&at(&hers), go()).await.refused(403, "not_the_principal");
    // People cannot resolve their own escalations, neither by name nor through an agent that their key may act as.
    let eva = world.human("human.eva").await;
    let own = escalate(&eva, &intent, json!({ "reason": "mine" })).await;
    eva.post(&at(&own), go()).await.refused(403, "not_the_principal");
    let key = admin.post("/principals/human.eva/keys", json!({ "act_as": ["agent.eva"] })).await.is(201);
    let hers = world.client(key["key"].as_str().unwrap()).acting_as("agent.eva");
    let own = escalate(&hers, &intent, json!({ "reason": "mine, by another name" })).await;
    eva.post(&at(&own), go()).await.refused(403, "not_the_principal");
    eva.post(&at(&made), go()).await.is(200);
    world.end().await;
}
