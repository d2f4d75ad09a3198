//! Suspensions (RFC-0025): an intent waits for a person, as a decision in the inbox. `suspensions/sdk.rs` covers
//! the SDK's way, `suspensions/ends.rs` timeouts and other changes, `suspensions/people.rs` permission to answer.

mod ends;
mod people;
mod sdk;

use entente_harness::moments::{answer, at, dialogue, free_text, option};
use entente_harness::{Client, Value, World, json};

/// Creates an intent of `client` and returns its id.
async fn goal(client: &Client) -> String {
    let made = client.post("/intents", json!({ "title": "Refund order 7", "status": "active" })).await.ok();
    made["id"].as_str().unwrap().to_owned()
}

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn question(more: Value) -> Value {
    let mut body = json!({
        "question": "Refund order 7?", "response_type": "choice", "principal_id": "human.ada",
        "choices": [
            { "value": "approve", "label": "Approve", "description": "All of it.", "style": "primary" },
            { "value": "deny", "label": "Deny" },
            { "value": "ask", "label": "Ask the customer" },
        ],
        "context": { "amount": "499.99 USD" }, "confidence": 0.55,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn suspend(client: &Client, intent: &str, more: Value) -> Value {
    client.post(&format!("/intents/{intent}/suspend"), question(more)).await.is(201)
}

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn said(asked: &Value, value: Value) -> Value {
    json!({ "suspension_id": asked["id"], "value": value })
}

async fn respond(client: &Client, intent: &str, asked: &Value, value: Value) -> entente_harness::Reply {
    client.post(&format!("/intents/{intent}/suspend/respond"), said(asked, value)).await
}

/// Returns the intent's status and the suspension in its state.
async fn now(client: &Client, intent: &str) -> (String, Value) {
    let found = client.get(&format!("/intents/{intent}")).await.ok();
    (found["status"].as_str().unwrap().to_owned(), found["state"]["_suspension"].clone())
}

/// Returns the question's moment from the person's inbox.
async fn waiting(person: &Client) -> Value {
    let inbox = person.get("/moments/inbox").await.ok();
    let moments = inbox["moments"].as_array().unwrap();
    assert_eq!(moments.len(), 1, "{inbox}");
    moments[0].clone()
}

async fn types(client: &Client, intent: &str, like: &str) -> Vec<String> {
    let events = client.get(&format!("/intents/{intent}/events")).await.ok();
    let all =
        events.as_array().unwrap().iter().rev().map(|one| one["event_type"].as_str().unwrap().to_owned());
    all.filter(|one| one.contains(like)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_answers_in_the_inbox_and_the_intent_goes_on() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = goal(&agent).await;
    let asked = suspend(&agent, &intent, json!({ "timeout_seconds": 3600 })).await;
    assert_eq!((&asked["state"], &asked["unasked"]), (&json!("open"), &json!(null)));
    assert_eq!(asked["expires_at"], "2026-11-21T09:00:00.000000Z");
    let (status, record) = now(&agent, &intent).await;
    assert_eq!((status.as_str(), &record["id"]), ("suspended_awaiting_input", &asked["id"]));
    assert_eq!(record["question"], "Refund order 7?");
    // An ordinary decision: eight slots, the choices as options, the marked one recommended.
    let moment = waiting(&ada).await;
    assert_eq!(moment["id"], asked["moment_id"]);
    assert_eq!(moment["expires_at"], asked["expires_at"]);
    let slots = &moment["binding_moment"];
    assert_eq!(slots["question"]["stem"], "Refund order 7?");
    let labels: Vec<&Value> =
        slots["question"]["options"].as_array().unwrap().iter().map(|one| &one["label"]).collect();
    assert_eq!(labels, ["Approve", "Deny", "Ask the customer"]);
    assert_eq!(slots["question"]["recommended_idx"], 0);
    assert_eq!(slots["question"]["hatches"], json!({ "free_text": false, "dialogue": true }));
    assert_eq!(slots["findings"][0], "amount: 499.99 USD");
    let told = slots["findings"].as_array().unwrap().last().unwrap().as_str().unwrap();
    assert!(told.contains("state and log"), "{told}");
    let path = format!("{}/resolution", at(&moment));
    ada.post(&path, answer(&moment, option(1))).await.is(200);
    let (status, record) = now(&agent, &intent).await;
    assert_eq!(status, "active");
    let came = [&record["resolution"], &record["response"], &record["responded_by"]];
    assert_eq!(came, [&json!("responded"), &json!("deny"), &json!("human.ada")]);
    assert_eq!(record["responded_at"], "2026-11-21T08:00:00.000000");
    assert_eq!(types(&agent, &intent, "intent.").await, ["intent.suspended", "intent.resumed"]);
    let list = agent.get(&format!("/intents/{intent}/suspensions")).await.ok();
    assert_eq!(list["suspensions"][0]["state"], "responded");
    assert_eq!(list["suspensions"][0]["record"], record);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_person_responds_at_the_intent_and_closes_the_moment() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let eve = world.human("human.eve").await;
    let intent = goal(&agent).await;
    let asked = suspend(&agent, &intent, json!({})).await;
    // No one can answer for the person: neither the asker, nor another person, nor a service that acts as the
    // person.
    respond(&agent, &intent, &asked, json!("approve")).await.refused(403, "not_the_principal");
    respond(&eve, &intent, &asked, json!("approve")).await.refused(403, "not_the_principal");
    let as_ada = world.any().acting_as("human.ada");
    respond(&as_ada, &intent, &asked, json!("approve")).await.refused(403, "not_the_principal");
    let refused = respond(&ada, &intent, &asked, json!("banana")).await.refused(422, "invalid_request");
    assert!(refused["message"].as_str().unwrap().contains("`approve`"), "{refused}");
    // The body has the values to choose from (RFC-0025 §8), and `detail` the choices as the reference server has them.
    assert_eq!(refused["valid_choices"], json!(["approve", "deny", "ask"]));
    assert_eq!(refused["errors"][0]["type"], "invalid_choice");
    let detail = &refused["detail"];
    assert_eq!((&detail["error"], &detail["message"]), (&json!("invalid_choice"), &refused["message"]));
    let first = json!({ "value": "approve", "label": "Approve", "description": "All of it." });
    assert_eq!(detail["valid_choices"][0], first);
    assert_eq!(detail["valid_choices"][1], json!({ "value": "deny", "label": "Deny" }));
    let none = json!({ "suspension_id": "another", "value": "approve" });
    let path = format!("/intents/{intent}/suspend/respond");
    ada.post(&path, none).await.refused(409, "invalid_transition");
    ada.post(&path, json!({ "value": "approve" })).await.refused(422, "invalid_request");
    let done = respond(&ada, &intent, &asked, json!("approve")).await.is(200);
    let expected = json!({
        "intent_id": intent, "suspension_id": asked["id"], "resolution": "responded", "value": "approve",
        "choice_label": "Approve", "choice_description": "All of it.", "responded_by": "human.ada",
        "responded_at": "2026-11-21T08:00:00.000000Z",
    });
    assert_eq!(done, expected);
    assert_eq!(respond(&ada, &intent, &asked, json!("approve")).await.is(200), expected);
    respond(&ada, &intent, &asked, json!("deny")).await.refused(409, "invalid_transition");
    let moment = agent.get(&format!("/moments/{}", asked["moment_id"].as_str().unwrap())).await.ok();
    assert_eq!((&moment["state"], &moment["resolution"]["option_idx"]), (&json!("resolved"), &json!(0)));
    assert_eq!(now(&agent, &intent).await.0, "active");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_forms_and_many_choices_are_written() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let many: Vec<Value> =
        (0..6).map(|n| json!({ "value": format!("v{n}"), "label": format!("Way {n}") })).collect();
    for (more, written, bad, came) in [
        (
            json!({ "response_type": "text", "choices": [] }),
            "Call them first.",
            None,
            json!("Call them first."),
        ),
        (
            json!({ "response_type": "form", "choices": [], "context": { "city": "?" } }),
            "city: Bern\nfloor: 3",
            Some("just words"),
            json!({ "city": "Bern", "floor": "3" }),
        ),
        (json!({ "choices": many }), "way 5", Some("way 9"), json!("v5")),
    ] {
        let intent = goal(&agent).await;
        suspend(&agent, &intent, more).await;
        let moment = waiting(&ada).await;
        let path = format!("{}/resolution", at(&moment));
        if let Some(bad) = bad {
            let refused =
                ada.post(&path, answer(&moment, free_text(bad))).await.refused(422, "invalid_request");
            let values = json!(["v0", "v1", "v2", "v3", "v4", "v5"]);
            let expected = if bad == "way 9" { values } else { Value::Null };
            assert_eq!(refused["valid_choices"], expected, "only where there are choices");
            assert_eq!(now(&agent, &intent).await.0, "suspended_awaiting_input");
        }
        ada.post(&path, answer(&moment, free_text(written))).await.is(200);
        assert_eq!(now(&agent, &intent).await.1["response"], came);
    }
    // Answered at the intent, a form is stored as the object itself.
    let intent = goal(&agent).await;
    let asked = suspend(&agent, &intent, json!({ "response_type": "form", "choices": [] })).await;
    let form = json!({ "floors": [1, 2], "city": "Bern" });
    respond(&ada, &intent, &asked, form.clone()).await.is(200);
    assert_eq!(now(&agent, &intent).await.1["response"], form);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_question_is_called_off_and_does_not_come_back() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = goal(&agent).await;
    let asked = suspend(&agent, &intent, json!({})).await;
    let moment = waiting(&ada).await;
    ada.post(
        &format!("{}/resolution", at(&moment)),
        answer(&moment, dialogue("Ask the owner of the order.")),
    )
    .await
    .is(200);
    let (status, record) = now(&agent, &intent).await;
    assert_eq!((status.as_str(), &record["resolution"]), ("active", &json!("cancelled")));
    assert_eq!(record["cancelled_because"], "refused");
    // The asker reads the objection from the moment.
    let read = agent.get(&format!("/moments/{}", asked["moment_id"].as_str().unwrap())).await.ok();
    assert_eq!(read["state"], "deliberating");
    let path = format!("/intents/{intent}/suspend");
    agent.post(&path, question(json!({}))).await.refused(409, "same_question");
    let other = json!({ "question": "Who owns order 7?", "response_type": "text", "choices": [] });
    agent.post(&path, question(other.clone())).await.refused(409, "deliberation_required");
    assert_eq!(now(&agent, &intent).await.0, "active");
    let word = json!({ "text": "I did not know that it has an owner." });
    agent.post(&format!("{}/words", at(&moment)), word).await.ok();
    let mut next = question(other);
    next["supersedes"] = moment["id"].clone();
    next["objection_response"] = json!("This asks for the owner.");
    let second = agent.post(&path, next).await.is(201);
    respond(&ada, &intent, &second, json!("human.eve")).await.is(200);
    assert_eq!(now(&agent, &intent).await.1["response"], "human.eve");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_questions_are_refused_and_leave_nothing() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    world.human("human.ada").await;
    let stranger = world.agent("agent.s").await;
    let intent = goal(&agent).await;
    let path = format!("/intents/{intent}/suspend");
    let twice = json!([{ "value": "a" }, { "value": "a" }]);
    for (more, status, code) in [
        (json!({ "question": " " }), 422, "invalid_request"),
        (json!({ "choices": twice }), 422, "invalid_request"),
        (json!({ "choices": [{ "value": "" }] }), 422, "invalid_request"),
        (json!({ "timeout_seconds": 0 }), 422, "invalid_request"),
        (json!({ "timeout_seconds": -4 }), 422, "invalid_request"),
        (json!({ "fallback_policy": "explode" }), 422, "invalid_request"),
        (json!({ "confidence": 3 }), 422, "invalid_request"),
        (json!({ "principal_id": "agent.s" }), 422, "unprocessable"),
        (json!({ "principal_id": "human.nobody" }), 422, "unprocessable"),
        (json!({ "escalate_to": "human.ada" }), 422, "invalid_request"),
        (json!({ "question": "x".repeat(3_000) }), 422, "invalid_moment"),
    ] {
        agent.post(&path, question(more)).await.refused(status, code);
    }
    assert_eq!(agent.get(&format!("/intents/{intent}")).await.ok()["version"], 1);
    let once = agent.once("q").post(&path, question(json!({}))).await.is(201);
    assert_eq!(agent.once("q").post(&path, question(json!({}))).await.is(201), once);
    agent.post(&path, question(json!({ "question": "Another?" }))).await.refused(409, "invalid_transition");
    agent
        .put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed", "entries": [] }))
        .await
        .ok();
    stranger.post(&path, question(json!({}))).await.refused(403, "access_closed");
    respond(&stranger, &intent, &once, json!("approve")).await.refused(403, "access_closed");
    stranger.get(&format!("/intents/{intent}/suspensions")).await.refused(403, "access_closed");
    world.end().await;
}
