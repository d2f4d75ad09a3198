use crate::harness::{Client, Value, World, ids, json};

/// A question to somebody, well put.
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

/// A question with these members besides.
pub fn with(mut question: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more} is no object") };
    question.as_object_mut().unwrap().extend(more);
    question
}

/// Asks; the moment.
pub async fn ask(agent: &Client, more: Value) -> Value {
    agent.post("/moments", with(question("human.ada"), more)).await.is(201)
}

/// The path of a moment.
pub fn at(moment: &Value) -> String {
    format!("/moments/{}", moment["id"].as_str().unwrap())
}

/// Has what time has done to moments written down; how much that was.
pub async fn pass_time(world: &World) -> u64 {
    entente::app::moments::pass_time(world.ctx(), 500).await.unwrap()
}

/// Asks so many questions, and lets their time pass.
pub async fn lapsed(world: &World, count: u64) {
    let agent = world.agent("agent.a").await;
    world.human("human.ada").await;
    for _ in 0..count {
        ask(&agent, json!({ "expires_in": 60 })).await;
    }
    world.clock.advance(60);
}

/// An answer to it.
pub fn answer(moment: &Value, resolution: Value) -> Value {
    let mut answer = json!({ "envelope_digest": moment["envelope_digest"] });
    answer["resolution"] = resolution;
    answer
}

/// Answers; the reply.
pub async fn resolve(human: &Client, moment: &Value, resolution: Value) -> crate::harness::Reply {
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

/// The events of the house's log of this kind, the earliest first.
pub async fn told(world: &World, kind: &str) -> Vec<Value> {
    let text = "SELECT payload FROM events WHERE event_type = $1 ORDER BY xid, seq";
    let rows: Vec<String> = sqlx::query_scalar(text).bind(kind).fetch_all(&world.ctx().pool).await.unwrap();
    rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect()
}
