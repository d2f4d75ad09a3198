//! The waiting tool: it reports everything that concerns its agent, with one cursor, and loses nothing between two
//! calls.

use std::time::{Duration, Instant};

use super::{Era, Mcp};
use entente_harness::envelopes::task_envelope;
use entente_harness::{Setup, Value, World, json, talk};

async fn live() -> World {
    World::with(Setup::live()).await
}

fn kinds(answer: &Value) -> Vec<&str> {
    answer["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn one_wait_hears_of_messages_jobs_and_mail() {
    let world = live().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "members": ["agent.ada", "agent.bob"] })).await;
    bob.put("/arcp/agents/echo/versions/1", json!({})).await.ok();
    let mcp = Mcp::new(&ada, Era::Stateless);
    let begun = mcp.ok("wait_for_events", json!({ "timeout_s": 0 })).await;
    assert_eq!(begun["events"], json!([]));
    // All of this happens between two calls.
    let say = json!({ "sender": "agent.bob", "to": "agent.ada", "payload": { "n": 1 } });
    bob.post(&format!("/channels/{channel}/messages"), say).await.is(201);
    bob.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.bob", "agent.ada"))).await.is(202);
    let job = mcp.ok("submit_job", json!({ "agent": "echo" })).await;
    let end = json!({ "job_id": job["job_id"], "session_id": job["session_id"] });
    mcp.ok("cancel_job", end).await;
    let (mut heard, mut after) = (Vec::new(), begun["next"].clone());
    let until = Instant::now() + Duration::from_secs(20);
    while heard.len() < 3 && Instant::now() < until {
        let more = mcp.ok("wait_for_events", json!({ "after": after, "timeout_s": 5 })).await;
        heard.extend(more["events"].as_array().unwrap().clone());
        after = more["next"].clone();
    }
    let mut found: Vec<&str> = heard.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, ["job", "mail", "message"], "{heard:?}");
    let message = heard.iter().find(|event| event["kind"] == "message").unwrap();
    assert_eq!(message["message"]["payload"]["n"], 1);
    let job_event = heard.iter().find(|event| event["kind"] == "job").unwrap();
    assert_eq!((&job_event["job_id"], &job_event["type"]), (&job["job_id"], &json!("job.error")));
    let rest = mcp.ok("wait_for_events", json!({ "after": after, "timeout_s": 0 })).await;
    assert_eq!(rest["events"], json!([]), "nothing comes twice");
    world.end().await;
}

#[tokio::test]
async fn who_begins_to_wait_is_told_its_open_assignments() {
    let world = live().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let mut made = Vec::new();
    for _ in 0..3 {
        let (intent, _) = talk(&bob, json!({})).await;
        bob.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": "agent.ada" })).await.is(200);
        made.push(json!(intent));
    }
    let mcp = Mcp::new(&ada, Era::Stateless);
    let first = mcp.ok("wait_for_events", json!({ "timeout_s": 10, "limit": 2 })).await;
    let rest = mcp.ok("wait_for_events", json!({ "timeout_s": 10, "after": first["next"] })).await;
    let told: Vec<Value> =
        [&first, &rest].into_iter().flat_map(|page| page["events"].as_array().unwrap().clone()).collect();
    let intents: Vec<&Value> = told.iter().map(|event| &event["intent_id"]).collect();
    assert_eq!(intents, made.iter().collect::<Vec<_>>());
    assert!(told.iter().all(|event| event["type"] == "agent_assigned"), "{told:?}");
    assert_eq!(told[0]["payload"]["delegated_by"], json!(null));
    let none = mcp.ok("wait_for_events", json!({ "timeout_s": 0, "after": rest["next"] })).await;
    assert_eq!(none["events"], json!([]), "nothing comes twice");
    world.end().await;
}

/// A call that asks for some kinds takes nothing from a later one that asks for others, however the position is kept.
#[tokio::test]
async fn kinds_that_were_not_asked_for_stay_for_a_later_call() {
    let world = live().await;
    let bob = world.agent("agent.bob").await;
    bob.put("/arcp/agents/echo/versions/1", json!({})).await.ok();
    for by in ["cursor", "after"] {
        let name = format!("agent.{by}");
        let mcp = Mcp::new(&world.agent(&name).await, Era::Stateless);
        let (intent, channel) = talk(&bob, json!({ "members": ["agent.bob", name] })).await;
        bob.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": name })).await.is(200);
        let say = json!({ "sender": "agent.bob", "to": name, "payload": { "n": 1 } });
        let mut place = if by == "cursor" { json!("c1") } else { Value::Null };
        // Messages alone, while the assignment is open; a job ends meanwhile.
        let mut messages = Vec::new();
        for seconds in [0, 10] {
            let mut ask = json!({ "kinds": ["messages"], "timeout_s": seconds });
            if !place.is_null() {
                ask[by] = place.clone();
            }
            let answer = mcp.ok("wait_for_events", ask).await;
            messages.extend(kinds(&answer).into_iter().map(str::to_owned));
            if by == "after" {
                place = answer["next"].clone();
            }
            if seconds == 0 {
                bob.post(&format!("/channels/{channel}/messages"), say.clone()).await.is(201);
                let job = mcp.ok("submit_job", json!({ "agent": "echo" })).await;
                let end = json!({ "job_id": job["job_id"], "session_id": job["session_id"] });
                mcp.ok("cancel_job", end).await;
            }
        }
        assert_eq!(messages, ["message"]);
        // Then assignments alone, while a second message waits, and then everything.
        bob.post(&format!("/channels/{channel}/messages"), say).await.is(201);
        let mut heard: Vec<String> = Vec::new();
        let until = Instant::now() + Duration::from_secs(20);
        while heard.len() < 3 && Instant::now() < until {
            let mut ask = json!({ "timeout_s": 10 });
            ask[by] = place.clone();
            if heard.is_empty() {
                ask["kinds"] = json!(["assignments"]);
            }
            let answer = mcp.ok("wait_for_events", ask).await;
            if heard.is_empty() {
                assert_eq!(kinds(&answer), ["assignment"], "{answer}");
                assert_eq!(answer["events"][0]["intent_id"], intent);
            }
            heard.extend(kinds(&answer).into_iter().map(str::to_owned));
            if by == "after" {
                place = answer["next"].clone();
            }
        }
        heard.sort_unstable();
        assert_eq!(heard, ["assignment", "job", "message"], "by {by}");
        let mut ask = json!({ "timeout_s": 0 });
        ask[by] = place;
        assert_eq!(mcp.ok("wait_for_events", ask).await["events"], json!([]), "nothing comes twice");
    }
    world.end().await;
}

#[tokio::test]
async fn a_waiting_call_is_woken_at_once() {
    let world = live().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "members": ["agent.ada", "agent.bob"] })).await;
    let mcp = Mcp::new(&ada, Era::Handshake);
    let waiting = tokio::spawn({
        let mcp = mcp.clone();
        async move {
            let began = Instant::now();
            let heard = mcp.ok("wait_for_events", json!({ "kinds": ["messages"], "timeout_s": 20 })).await;
            (heard, began.elapsed())
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let say = json!({ "sender": "agent.bob", "to": "agent.ada", "payload": { "n": 1 } });
    bob.post(&format!("/channels/{channel}/messages"), say).await.is(201);
    let (heard, took) = waiting.await.unwrap();
    assert_eq!(kinds(&heard), ["message"]);
    assert!(took < Duration::from_secs(5), "{took:?}");
    world.end().await;
}

#[tokio::test]
async fn pages_follow_each_other_without_a_gap() {
    let world = live().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "members": ["agent.ada", "agent.bob"] })).await;
    let mcp = Mcp::new(&ada, Era::Stateless);
    let mut after = mcp.ok("wait_for_events", json!({ "timeout_s": 0 })).await["next"].clone();
    for n in 0..7 {
        let say = json!({ "sender": "agent.bob", "to": "agent.ada", "payload": { "n": n } });
        bob.post(&format!("/channels/{channel}/messages"), say).await.is(201);
    }
    let mut heard = Vec::new();
    for _ in 0..7 {
        let page = mcp.ok("wait_for_events", json!({ "after": after, "timeout_s": 5, "limit": 2 })).await;
        assert!(page["events"].as_array().unwrap().len() <= 2);
        heard.extend(
            page["events"].as_array().unwrap().iter().map(|event| event["message"]["payload"]["n"].clone()),
        );
        after = page["next"].clone();
        if heard.len() >= 7 {
            break;
        }
    }
    assert_eq!(heard, (0..7).map(|n| json!(n)).collect::<Vec<_>>());
    let text = mcp.refused("wait_for_events", json!({ "after": "yesterday" }), "invalid_request").await;
    assert!(text.contains("next"), "{text}");
    world.end().await;
}

#[tokio::test]
async fn a_full_answer_comes_at_once_and_the_rest_with_the_next() {
    let world = live().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    for n in 1..=3 {
        let mail = task_envelope(&world, &format!("envelope-{n}"), ("agent.bob", "agent.ada"));
        bob.post("/aee/envelopes", mail).await.is(202);
    }
    let mcp = Mcp::new(&ada, Era::Stateless);
    let begun = Instant::now();
    let first = mcp.ok("wait_for_events", json!({ "limit": 2, "timeout_s": 20 })).await;
    let rest =
        mcp.ok("wait_for_events", json!({ "limit": 2, "timeout_s": 20, "after": first["next"] })).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "it waited although there was something");
    let ids = |answer: &Value| -> Vec<String> {
        let events = answer["events"].as_array().unwrap().iter();
        events.map(|event| event["envelope"]["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (ids(&first), ids(&rest)),
        (vec!["envelope-1".into(), "envelope-2".into()], vec!["envelope-3".into()])
    );
    // An envelope that was acknowledged meanwhile is not reported as new.
    let mail = task_envelope(&world, "envelope-4", ("agent.bob", "agent.ada"));
    bob.post("/aee/envelopes", mail).await.is(202);
    mcp.ok("read_mailbox", json!({ "ack": true })).await;
    let none = mcp.ok("wait_for_events", json!({ "timeout_s": 0, "after": rest["next"] })).await;
    assert_eq!(none["events"], json!([]));
    world.end().await;
}

#[tokio::test]
async fn who_has_no_place_to_wait_asks_nobody() {
    let settings = vec![("ENTENTE_MAX_STREAMS_PER_KEY", "1")];
    // Without background tasks the server does not reload its keys, which would reset the count of open streams.
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let mcp = Mcp::new(&agent, Era::Stateless);
    let waiting = tokio::spawn({
        let mcp = mcp.clone();
        // The call below may hold the only slot at that moment.
        async move { while mcp.call("wait_for_events", json!({ "timeout_s": 25 })).await["isError"] == true {} }
    });
    let ask = json!({
        "principal": "human.ada", "synopsis": "Ship it today.", "findings": ["CI is green."],
        "recommendations": ["Tag it."], "offer": "Ask for detail.", "wait_s": 5,
        "question": {
            "stem": "When should it ship?", "recommended_idx": 0,
            "options": [{ "label": "Ship today", "reasoning": "It is ready." },
                        { "label": "Ship tomorrow", "reasoning": "There is no hurry." }],
        },
    });
    let until = Instant::now() + Duration::from_secs(15);
    while mcp.call("wait_for_events", json!({ "timeout_s": 0 })).await["isError"] != true {
        assert!(Instant::now() < until, "the place was never taken");
        // Gives the other call time to take the slot: in lockstep each would find the other's call.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    mcp.refused("ask_principal", ask, "too_many_streams").await;
    assert_eq!(ada.get("/moments/inbox").await.ok()["moments"], json!([]));
    waiting.abort();
    world.end().await;
}
