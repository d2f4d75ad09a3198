//! Arbitration and decisions (RFC-0003, OI-6.7, OI-6.8): requested and recorded under every set of names in use.

use entente_harness::{Client, Value, World, json, talk};

async fn asked(client: &Client, intent: &str) -> Value {
    client.post(&format!("/intents/{intent}/arbitrate"), json!({ "reason": "we disagree" })).await.is(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn arbitration_is_asked_for_and_answered() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = talk(&ada, json!({})).await.0;
    let ask = json!({
        "reason": "we disagree", "context": { "scope": "hotel" }, "options": [{ "label": "Ritz", "rationale": "near" }],
    });
    let made = bob.post(&format!("/intents/{intent}/arbitrate"), ask).await.is(200);
    let expected = json!({
        "id": made["id"], "intent_id": intent, "requester_id": "agent.bob", "requestor": "agent.bob",
        "reason": "we disagree", "context": { "scope": "hotel" },
        "options": [{ "label": "Ritz", "rationale": "near" }], "status": "pending", "resolution": null,
        "decision_id": null, "message": "Arbitration requested", "created_at": "2026-11-21T08:00:00.000000Z",
        "resolved_at": null,
    });
    assert_eq!(made, expected);
    let all = format!("/intents/{intent}/arbitrations");
    assert_eq!(ada.get(&all).await.is(200), json!({ "arbitrations": [made] }));
    let decision = json!({
        "decision_type": "arbitration", "outcome": "Ritz", "reasoning": "it is near",
        "evidence": [{ "source": "map", "summary": "200 m" }], "arbitration_id": made["id"],
    });
    let decisions = format!("/intents/{intent}/decisions");
    let decided = ada.post(&decisions, decision.clone()).await.is(200);
    let expected = json!({
        "id": decided["id"], "intent_id": intent, "decision_maker_id": "agent.ada", "decided_by": "agent.ada",
        "decision_type": "arbitration", "outcome": "Ritz", "decision": "Ritz", "reasoning": "it is near",
        "rationale": "it is near", "evidence": [{ "source": "map", "summary": "200 m" }],
        "arbitration_id": made["id"], "created_at": "2026-11-21T08:00:00.000000Z",
    });
    assert_eq!(decided, expected);
    assert_eq!(bob.get(&decisions).await.is(200), json!({ "decisions": [decided] }));
    let answered = &ada.get(&format!("{all}?status=resolved")).await.is(200)["arbitrations"][0];
    assert_eq!((&answered["id"], &answered["status"]), (&made["id"], &json!("resolved")));
    assert_eq!((&answered["resolution"], &answered["decision_id"]), (&json!("Ritz"), &decided["id"]));
    assert_eq!(ada.get(&format!("{all}?status=pending")).await.is(200), json!({ "arbitrations": [] }));
    // An answered request counts as not found, and nothing is recorded.
    ada.post(&decisions, decision).await.refused(404, "not_found");
    assert_eq!(ada.get(&decisions).await.ok()["decisions"].as_array().unwrap().len(), 1);
    let log = ada.get(&format!("/intents/{intent}/events?limit=2")).await.ok();
    assert_eq!(log[0]["event_type"], "decision_recorded");
    assert_eq!(log[0]["payload"]["arbitration_id"], made["id"]);
    assert_eq!(
        (&log[1]["event_type"], &log[1]["actor"]),
        (&json!("arbitration_requested"), &json!("agent.bob"))
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_set_of_names_is_read() {
    let world = World::start().await;
    let any = world.any();
    let intent = talk(&any, json!({})).await.0;
    let decisions = format!("/intents/{intent}/decisions");
    for body in [
        json!({ "decided_by": "human.ada", "decision_type": "escalation", "outcome": "go", "rationale": "why not" }),
        json!({ "decided_by": "human.ada", "decision": "go", "rationale": "why not" }),
        json!({ "decision_maker_id": "human.ada", "outcome": "go", "reasoning": "why not" }),
    ] {
        let made = any.post(&decisions, body.clone()).await.is(200);
        assert_eq!(made["decision_maker_id"], "human.ada", "{body}");
        assert_eq!((&made["outcome"], &made["reasoning"]), (&json!("go"), &json!("why not")), "{body}");
        assert_eq!(made["decision_type"], body.get("decision_type").unwrap_or(&json!("arbitration")).clone());
    }
    for name in ["requested_by", "requester_id", "requestor"] {
        let body = json!({ "reason": "r", name: "agent.bob" });
        let made = any.post(&format!("/intents/{intent}/arbitrate"), body).await.is(200);
        assert_eq!(made["requester_id"], "agent.bob", "{name}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_asks_and_who_is_admin_decides() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    for (who, level) in [("agent.r", "read"), ("agent.w", "write"), ("agent.a", "admin")] {
        let entry = json!({ "principal_id": who, "permission": level });
        ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok();
    }
    let (reader, writer, admin) =
        (world.agent("agent.r").await, world.agent("agent.w").await, world.agent("agent.a").await);
    let (arbitrate, decisions) =
        (format!("/intents/{intent}/arbitrate"), format!("/intents/{intent}/decisions"));
    reader.post(&arbitrate, json!({ "reason": "r" })).await.refused(403, "forbidden");
    let made = asked(&writer, &intent).await;
    let decision = json!({ "outcome": "go", "arbitration_id": made["id"] });
    writer.post(&decisions, decision.clone()).await.refused(403, "forbidden");
    writer
        .post(&decisions, json!({ "outcome": "go", "decided_by": "agent.a" }))
        .await
        .refused(403, "may_not_act_as");
    admin.post(&decisions, decision).await.is(200);
    assert_eq!(reader.get(&decisions).await.ok()["decisions"].as_array().unwrap().len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_asks_are_refused_and_leave_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    let (arbitrate, decisions) =
        (format!("/intents/{intent}/arbitrate"), format!("/intents/{intent}/decisions"));
    for bad in [json!({}), json!({ "reason": " " }), json!({ "reason": "r", "context": [1] })] {
        ada.post(&arbitrate, bad).await.refused(422, "invalid_request");
    }
    for bad in
        [json!({ "reasoning": "r" }), json!({ "outcome": "" }), json!({ "outcome": "o", "evidence": {} })]
    {
        ada.post(&decisions, bad).await.refused(422, "invalid_request");
    }
    let foreign = asked(&ada, &talk(&ada, json!({})).await.0).await["id"].clone();
    for id in [foreign, json!("nonsense"), json!("arb_01J9ZK4T6Q8R2V5X7Y9B1C3D5F")] {
        ada.post(&decisions, json!({ "outcome": "go", "arbitration_id": id }))
            .await
            .refused(404, "not_found");
    }
    ada.get(&format!("/intents/{intent}/arbitrations?status=open")).await.refused(422, "invalid_parameter");
    assert_eq!(ada.get(&decisions).await.ok(), json!({ "decisions": [] }));
    assert_eq!(ada.get(&format!("/intents/{intent}/arbitrations")).await.ok(), json!({ "arbitrations": [] }));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_done_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    let made = asked(&ada.once("k1"), &intent).await;
    assert_eq!(asked(&ada.once("k1"), &intent).await, made);
    let decision = json!({ "outcome": "go", "arbitration_id": made["id"] });
    let decisions = format!("/intents/{intent}/decisions");
    let decided = ada.once("k2").post(&decisions, decision.clone()).await.is(200);
    assert_eq!(ada.once("k2").post(&decisions, decision).await.is(200), decided);
    assert_eq!(ada.get(&decisions).await.ok(), json!({ "decisions": [decided] }));
    world.end().await;
}
