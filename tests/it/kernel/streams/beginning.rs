//! The beginning of an agent's stream (OI-11.8): its open assignments, once, wherever the stream is cut off.

use std::collections::HashSet;
use std::time::Duration;

use super::{live, names};
use entente_harness::{Client, Event, Setup, Sse, World, json, talk};

/// How long a stream must be silent to show that it has nothing more.
const QUIET: Duration = Duration::from_millis(300);

async fn assign(client: &Client, intent: &str, agent: &str) {
    client.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": agent })).await.is(200);
}

fn intents(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.data["intent_id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_comes_late_is_told_its_open_assignments() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let mut made = Vec::new();
    for _ in 0..6 {
        made.push(talk(&ada, json!({})).await.0);
    }
    let [first, over, left, shut, second, others] = &made[..] else { unreachable!() };
    for intent in [first, over, left, shut, second] {
        assign(&ada, intent, "agent.bob").await;
    }
    assign(&ada, others, "agent.cy").await;
    ada.seen(&json!(1)).post(&format!("/intents/{over}/status"), json!({ "status": "completed" })).await.ok();
    ada.delete(&format!("/intents/{left}/agents/agent.bob")).await.ok();
    ada.put(&format!("/intents/{shut}/acl"), json!({ "default_policy": "closed" })).await.ok();
    // The last assignment of an agent counts, with its role.
    let again = json!({ "agent_id": "agent.bob", "role": "reviewer" });
    ada.post(&format!("/intents/{first}/agents"), again).await.is(200);
    for (path, name) in
        [("/subscribe/agents/agent.bob", "agent_assigned"), ("/agents/agent.bob/subscribe", "AGENT_ASSIGNED")]
    {
        let mut stream = Sse::open(&bob, path).await;
        let greeting = stream.last_id.clone();
        let told = stream.next_few(2).await;
        assert_eq!(names(&told), [name, name]);
        assert_eq!(intents(&told), [second.as_str(), first.as_str()], "in the order of the log");
        assert_eq!((&told[0].data["role"], &told[1].data["role"]), (&json!("worker"), &json!("reviewer")));
        assert_eq!(
            (&told[1].data["agent_id"], &told[1].data["actor"]),
            (&json!("agent.bob"), &json!("agent.ada"))
        );
        stream.silent(QUIET).await;
        // A stream that resumes gets the rest, and no assignment again.
        let mut from_greeting = Sse::resume(&bob, path, greeting.as_deref()).await;
        assert_eq!(from_greeting.next_few(2).await, told);
        let mut from_first = Sse::resume(&bob, path, Some(&told[0].id)).await;
        assert_eq!(from_first.next().await, told[1]);
        from_first.silent(QUIET).await;
        let mut from_second = Sse::resume(&bob, path, Some(&told[1].id)).await;
        from_second.silent(QUIET).await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_assigned_later_comes_once() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(talk(&ada, json!({})).await.0);
    }
    assign(&ada, &made[0], "agent.bob").await;
    assign(&ada, &made[1], "agent.bob").await;
    let path = "/agents/agent.bob/subscribe";
    let mut stream = Sse::open(&bob, path).await;
    let told = stream.next_few(2).await;
    // Assigned anew and assigned for the first time, after the beginning: the log shows both.
    assign(&ada, &made[1], "agent.bob").await;
    assign(&ada, &made[2], "agent.bob").await;
    let later = stream.next_few(2).await;
    assert_eq!(intents(&later), [made[1].as_str(), made[2].as_str()]);
    let mut resumed = Sse::resume(&bob, path, Some(&told[0].id)).await;
    assert_eq!(resumed.next_few(2).await, later, "the assignment that was replaced is not shown any more");
    resumed.silent(QUIET).await;
    // Another server shows the same.
    let database = world.database.clone();
    drop((stream, resumed));
    world.end().await;
    let restarted = World::on(Setup::live(), database).await;
    let bob = restarted.agent("agent.bob").await;
    let mut resumed = Sse::resume(&bob, path, Some(&later[0].id)).await;
    assert_eq!(resumed.next().await, later[1]);
    resumed.silent(QUIET).await;
    let mut fresh = Sse::open(&bob, path).await;
    assert_eq!(intents(&fresh.next_few(3).await), made);
    restarted.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_assignments_are_told_page_by_page() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    // Two full pages and a part of a third.
    let mut made = Vec::new();
    for n in 0..205 {
        let intent = ada.post("/intents", json!({ "title": format!("intent {n}") })).await.ok();
        made.push(intent["id"].as_str().unwrap().to_owned());
        assign(&ada, &made[n], "agent.bob").await;
    }
    let mut stream = Sse::open(&bob, "/subscribe/agents/agent.bob").await;
    let told = stream.next_few(made.len()).await;
    assert_eq!(intents(&told), made);
    let ids: HashSet<&str> = told.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids.len(), told.len(), "every assignment has a place of its own");
    stream.silent(QUIET).await;
    let mut resumed = Sse::resume(&bob, "/subscribe/agents/agent.bob", Some(&told[149].id)).await;
    assert_eq!(resumed.next_few(55).await, told[150..]);
    resumed.silent(QUIET).await;
    // A whole page of ended intents, and more than one step of them, ends no beginning.
    let ended = "UPDATE intents SET status = 'completed' WHERE title NOT IN ('intent 203', 'intent 204')";
    sqlx::query(ended).execute(&world.ctx().pool).await.unwrap();
    let mut fresh = Sse::open(&bob, "/subscribe/agents/agent.bob").await;
    assert_eq!(intents(&fresh.next_few(2).await), made[203..]);
    fresh.silent(QUIET).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_takes_long_neither_delays_nor_repeats_an_assignment() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (old, new) = (talk(&ada, json!({})).await.0, talk(&ada, json!({})).await.0);
    assign(&ada, &old, "agent.bob").await;
    let mut long = world.hold().await;
    sqlx::query("SELECT pg_current_xact_id()").execute(&mut *long).await.unwrap();
    assign(&ada, &new, "agent.bob").await;
    let path = "/agents/agent.bob/subscribe";
    let mut stream = Sse::open(&bob, path).await;
    let told = stream.next_few(2).await;
    assert_eq!(intents(&told), [old.as_str(), new.as_str()]);
    stream.silent(QUIET).await;
    let mut cut_off = Sse::resume(&bob, path, Some(&told[0].id)).await;
    assert_eq!(cut_off.next().await, told[1]);
    long.rollback().await.unwrap();
    cut_off.silent(QUIET).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_and_a_delegation_are_told_with_what_handlers_need() {
    let world = live(&[]).await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let (intent, _) = talk(&ada, json!({})).await;
    assign(&ada, &intent, "agent.bob").await;
    let policy = json!({ "strategy": "none", "fallback_agent_id": "agent.eve" });
    ada.put(&format!("/intents/{intent}/retry-policy"), policy).await.is(200);
    bob.post(&format!("/intents/{intent}/failures"), json!({ "error_message": "no answer" })).await.is(200);
    let mut stream = Sse::open(&eve, "/agents/agent.eve/subscribe").await;
    let beginning = stream.last_id.clone().unwrap();
    let told = stream.next().await;
    assert_eq!(told.name, "AGENT_ASSIGNED");
    assert_eq!((&told.data["intent_id"], &told.data["delegated_by"]), (&json!(intent), &json!("agent.bob")));
    assert_eq!((&told.data["retry_attempt"], &told.data["last_error"]), (&json!(1), &json!("no answer")));
    // The place of a beginning means nothing to other streams.
    for path in ["/subscribe".to_owned(), format!("/subscribe/intents/{intent}")] {
        let odd = eve.with("last-event-id", &beginning);
        Sse::refused(&odd, &path).await.refused(422, "invalid_parameter");
    }
    let mut other = Sse::open(&eve, "/agents/agent.eve/subscribe?event_types=task.*").await;
    other.silent(QUIET).await;
    world.end().await;
}
