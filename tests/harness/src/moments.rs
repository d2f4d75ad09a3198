//! Binding moments: questions, answers, and their path.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Client, Reply, Value, World, json};

/// Returns a well-formed question to a person.
pub fn question(principal: &str) -> Value {
    json!({
        "principal_id": principal,
        "binding_moment": {
            "synopsis": "Ship release 1.4 now, in private.",
            "findings": ["CI is green.", "Two of three reviewers approved.", "No blocker is open."],
            "recommendations": ["Tag v1.4.", "Publish to the registry."],
            "offer": "Ask for detail on any item.",
            "question": {
                "stem": "When should release 1.4 ship?",
                "options": [
                    { "label": "Ship now", "reasoning": "All checks pass." },
                    { "label": "Wait a day", "reasoning": "The third reviewer is back tomorrow." },
                ],
                "recommended_idx": 0,
            },
            "meta": { "decision_class": "release" },
        },
    })
}

/// Returns the question with these members added.
pub fn with(mut question: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more} is no object") };
    question.as_object_mut().unwrap().extend(more);
    question
}

/// Asks and returns the moment. If the same question is already open it asks a different one, because a question
/// cannot be open twice.
pub async fn ask(agent: &Client, more: Value) -> Value {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let mut asked = with(question("human.ada"), more);
    let first = agent.post("/moments", asked.clone()).await;
    if first.status != 409 {
        return first.is(201);
    }
    let refused = first.refused(409, "same_question");
    assert!(refused["message"].as_str().unwrap().contains("waits for an answer already"), "{refused}");
    let n = ASKED.fetch_add(1, Ordering::Relaxed);
    asked["binding_moment"]["question"]["stem"] = json!(format!("When should release 1.4 ship to ring {n}?"));
    agent.post("/moments", asked).await.is(201)
}

/// Returns the path of a moment.
pub fn at(moment: &Value) -> String {
    format!("/moments/{}", moment["id"].as_str().unwrap())
}

/// Applies the due effects to the moments and returns the number of changes.
pub async fn expire_due(world: &World) -> u64 {
    entente_moments::expire_due(&world.ctx().moments, 500).await.unwrap()
}

/// Asks `count` questions and advances the clock to their expiry.
pub async fn lapsed(world: &World, count: u64) {
    let agent = world.agent("agent.a").await;
    world.human("human.ada").await;
    for _ in 0..count {
        ask(&agent, json!({ "expires_in": 60 })).await;
    }
    world.clock.advance(60);
}

/// Returns the body that answers a moment.
pub fn answer(moment: &Value, resolution: Value) -> Value {
    let mut answer = json!({ "envelope_digest": moment["envelope_digest"] });
    answer["resolution"] = resolution;
    answer
}

/// Answers a moment and returns the response.
pub async fn resolve(human: &Client, moment: &Value, resolution: Value) -> Reply {
    human.post(&format!("{}/resolution", at(moment)), answer(moment, resolution)).await
}

pub fn option(idx: usize) -> Value {
    json!({ "kind": "option", "option_idx": idx })
}

pub fn free_text(text: &str) -> Value {
    json!({ "kind": "free_text", "answer": text })
}

pub fn dialogue(text: &str) -> Value {
    json!({ "kind": "dialogue", "objection": text })
}

/// Returns the payloads of all events of this type, oldest first.
pub async fn told(world: &World, kind: &str) -> Vec<Value> {
    let text = "SELECT payload FROM events WHERE event_type = $1 ORDER BY xid, seq";
    let rows: Vec<String> = sqlx::query_scalar(text).bind(kind).fetch_all(&world.ctx().pool).await.unwrap();
    rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect()
}
