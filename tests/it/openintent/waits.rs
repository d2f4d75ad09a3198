//! Who waits for whom: deadlocks over requests, leases, tasks and jobs, found and cleared once over all servers.

mod seeing;

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::sleep;

use entente_harness::jobs::Hand;
use entente_harness::process::{KEY, Launch, Place};
use entente_harness::{Client, Cluster, Receiver, Reply, Sse, Value, World, json, send, subscribe, talk};

/// Time within which a deadlock is found, and its end.
const SOON: Duration = Duration::from_secs(1);

/// Acquires a lease and returns its path.
async fn acquire(client: &Client, intent: &str, scope: &str) -> String {
    let lease = client.post(&format!("/intents/{intent}/leases"), json!({ "scope": scope })).await.is(200);
    format!("/intents/{intent}/leases/{}", lease["id"].as_str().unwrap())
}

/// Requests a lease, and waits for it.
fn queue(client: &Client, intent: &str, scope: &str) -> JoinHandle<Reply> {
    let (client, path, body) =
        (client.clone(), format!("/intents/{intent}/leases?wait=25"), json!({ "scope": scope }));
    tokio::spawn(async move { client.post(&path, body).await })
}

/// Asks, and waits for the answer.
fn ask(client: &Client, channel: &str, body: Value) -> JoinHandle<Reply> {
    let (client, path) = (client.clone(), format!("/channels/{channel}/ask"));
    tokio::spawn(async move { client.post(&path, body).await })
}

/// Returns the waits that the caller sees, as `from kind to`, sorted.
async fn waits(client: &Client) -> Vec<String> {
    let found = client.get("/waits").await.ok();
    let word = |wait: &Value, member: &str| wait[member].as_str().unwrap_or("anybody").to_owned();
    let line = |wait: &Value| format!("{} {} {}", word(wait, "from"), word(wait, "kind"), word(wait, "to"));
    let mut lines: Vec<String> = found["waits"].as_array().unwrap().iter().map(line).collect();
    lines.sort();
    lines
}

/// Returns the agents of each deadlock that the caller sees.
async fn deadlocks(client: &Client) -> Vec<Value> {
    let found = client.get("/waits").await.ok();
    found["deadlocks"].as_array().unwrap().iter().map(|one| one["agents"].clone()).collect()
}

/// Waits until the caller sees exactly these deadlocks.
async fn until(client: &Client, wanted: &[Value]) {
    let began = Instant::now();
    loop {
        let found = deadlocks(client).await;
        if found == wanted {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{found:?} are found, and not {wanted:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the types of the deadlocks' events in a log, oldest first.
async fn events(client: &Client, intent: &str) -> Vec<String> {
    let mut told = Vec::new();
    for event_type in ["deadlock.found", "deadlock.cleared"] {
        let events = client.get(&format!("/intents/{intent}/events?event_type={event_type}")).await.ok();
        let events = events.as_array().unwrap().clone();
        told.extend(events.iter().map(|event| (event["sequence"].as_i64().unwrap(), event_type.to_owned())));
    }
    told.sort();
    told.into_iter().map(|(_, event_type)| event_type).collect()
}

/// The stream of the deadlocks' events on an intent.
async fn stream(client: &Client, intent: &str) -> Sse {
    Sse::open(client, &format!("/subscribe/intents/{intent}?event_types=deadlock.*")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_hold_what_the_other_waits_for_are_found_on_two_servers() {
    let (here, there) = World::two().await;
    let (ada, bob) = (here.agent("agent.ada").await, there.agent("agent.bob").await);
    let intent = talk(&ada, json!({ "member_policy": "intent" })).await.0;
    let receiver = Receiver::start().await;
    let types = json!(["deadlock.found", "deadlock.cleared"]);
    subscribe(&ada, &receiver.url(), json!({ "intent_id": intent, "event_types": types })).await;
    acquire(&ada, &intent, "x").await;
    acquire(&bob, &intent, "y").await;
    let mut stream = stream(&bob, &intent).await;
    let patient = queue(&ada, &intent, "y");
    sleep(Duration::from_millis(700)).await;
    assert_eq!(waits(&bob).await, ["agent.ada lease agent.bob"]);
    assert!(deadlocks(&bob).await.is_empty());
    let began = Instant::now();
    let other = queue(&bob, &intent, "x");
    let found = stream.next_named("deadlock.found").await.data;
    println!("found after {:?}", began.elapsed());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let payload = &found["payload"];
    assert_eq!((&payload["agents"], &payload["elsewhere"]), (&json!(["agent.ada", "agent.bob"]), &json!(0)));
    assert_eq!(payload["waits"].as_array().unwrap().len(), 2);
    let wait = &payload["waits"][0];
    let told = ["from", "to", "kind", "ref"].map(|member| wait[member].as_str().unwrap());
    assert_eq!(told, ["agent.ada", "agent.bob", "lease", "y"], "{payload}");
    let shown = ada.get("/waits").await.ok();
    assert_eq!(shown["deadlocks"][0]["id"], payload["deadlock_id"]);
    assert_eq!(shown["deadlocks"][0]["waits"].as_array().unwrap().len(), 2);
    assert_eq!(shown["deadlocked"], json!(["agent.ada"]));
    // One gives up: it hangs up, and the deadlock is over.
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    patient.abort();
    let cleared = stream.next_named("deadlock.cleared").await.data;
    println!("cleared after {:?}", began.elapsed());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(cleared["payload"]["deadlock_id"], payload["deadlock_id"]);
    assert!(deadlocks(&ada).await.is_empty());
    other.abort();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(events(&ada, &intent).await, ["deadlock.found", "deadlock.cleared"], "once over both servers");
    let got = receiver.until(2).await;
    let told: Vec<Value> = got.iter().map(|one| one.body()["data"]["event_type"].clone()).collect();
    assert_eq!(told, ["deadlock.found", "deadlock.cleared"]);
    there.server.stop().await;
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_requests_are_no_deadlock_and_calls_that_wait_are() {
    let (here, there) = World::two().await;
    let (ada, bob) = (here.agent("agent.ada").await, there.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({ "member_policy": "intent" })).await;
    let request =
        |from: &str, to: &str| json!({ "sender": from, "to": to, "message_type": "request", "payload": {} });
    send(&ada, &channel, request("agent.ada", "agent.bob")).await;
    send(&bob, &channel, request("agent.bob", "agent.ada")).await;
    // One that listens for anything waits for nobody, and what any of several may answer is nobody's alone.
    let path = format!("/channels/{channel}/messages?since=cur_2&wait=30");
    let listening = tokio::spawn({
        let (bob, path) = (bob.clone(), path.clone());
        async move { bob.get(&path).await }
    });
    let first = ask(&ada, &channel, json!({ "to": "agent.bob", "timeout": 60 }));
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(waits(&ada).await, ["agent.ada request agent.bob"]);
    assert!(deadlocks(&ada).await.is_empty());
    let anybody = ask(&bob, &channel, json!({ "to": "*", "timeout": 60 }));
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(waits(&ada).await, ["agent.ada request agent.bob", "agent.bob request anybody"]);
    assert!(events(&ada, &intent).await.is_empty());
    anybody.abort();
    listening.abort();
    // Two calls that wait for each other.
    let mut stream = stream(&ada, &intent).await;
    let began = Instant::now();
    let second = ask(&bob, &channel, json!({ "to": "agent.ada", "timeout": 60 }));
    let found = stream.next_named("deadlock.found").await.data;
    println!("found after {:?}", began.elapsed());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // The other way out: one of them is answered after all, by another instance of the same agent.
    let asked = found["payload"]["waits"].as_array().unwrap().iter();
    let mut asked = asked.filter(|wait| wait["to"] == "agent.ada").map(|wait| wait["ref"].as_str().unwrap());
    let asked = asked.next_back().unwrap().to_owned();
    let began = Instant::now();
    let reply = json!({ "sender": "agent.ada", "payload": { "answer": 42 } });
    ada.post(&format!("/channels/{channel}/messages/{asked}/reply"), reply).await.is(201);
    assert_eq!(second.await.unwrap().ok()["response"]["payload"]["answer"], 42);
    stream.next_named("deadlock.cleared").await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    first.abort();
    there.server.stop().await;
    here.end().await;
}

/// A request, a lease and a job; the job's agents are those of the workers' keys.
#[tokio::test(flavor = "multi_thread")]
async fn three_that_wait_for_different_things_are_found() {
    let (here, there) = World::two().await;
    let [ada, bob] = [here.agent("agent.ada").await, here.agent("agent.bob").await];
    let cyd = there.agent("agent.cyd").await;
    let (intent, channel) = talk(&ada, json!({ "member_policy": "intent" })).await;
    let (boss, helper) = (Hand::of(&cyd, "boss@1").await, Hand::of(&ada, "helper@1").await);
    acquire(&cyd, &intent, "table").await;
    let job =
        json!({ "agent": "boss", "lease_request": { "agent.delegate": ["helper"] }, "intent_id": intent });
    cyd.post("/jobs", job).await.is(201);
    let parent = boss.one().await;
    let part = json!({ "delegate_id": "d", "agent": "helper", "input": {} });
    boss.tell(&parent, "delegate", part).await.is(201);
    let mut stream = stream(&ada, &intent).await;
    let lease = queue(&bob, &intent, "table");
    sleep(Duration::from_millis(800)).await;
    assert_eq!(waits(&ada).await, ["agent.bob lease agent.cyd", "agent.cyd job agent.ada"]);
    assert!(deadlocks(&ada).await.is_empty());
    let began = Instant::now();
    let asked = ask(&ada, &channel, json!({ "to": "agent.bob", "timeout": 60 }));
    let found = stream.next_named("deadlock.found").await.data;
    println!("found after {:?}", began.elapsed());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(found["payload"]["agents"], json!(["agent.ada", "agent.bob", "agent.cyd"]));
    // A question of the helper to its boss would be none: whoever waits for a job still answers. This one ends with the job.
    let child = helper.one().await;
    helper.tell(&child, "result", json!({ "result": 1 })).await.ok();
    stream.next_named("deadlock.cleared").await;
    assert_eq!(waits(&ada).await, ["agent.ada request agent.bob", "agent.bob lease agent.cyd"]);
    asked.abort();
    lease.abort();
    there.server.stop().await;
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_close_a_circle_unless_there_is_other_work() {
    let (here, there) = World::two().await;
    let (ada, bob) = (here.agent("agent.ada").await, there.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({ "member_policy": "intent" })).await;
    let task = async |agent: &str, on: &[&str]| {
        let body = json!({ "intent_id": intent, "name": "t", "depends_on": on });
        let made = ada.post("/tasks", body).await.ok();
        let id = made["id"].as_str().unwrap().to_owned();
        let reserved = ada.seen(&made["version"]);
        reserved.patch(&format!("/tasks/{id}"), json!({ "assigned_agent": agent })).await.ok();
        id
    };
    let first = task("agent.ada", &[]).await;
    let second = task("agent.bob", &[&first]).await;
    let held = acquire(&bob, &intent, "notes").await;
    assert_eq!(waits(&ada).await, ["agent.bob task agent.ada"]);
    let mut stream = stream(&ada, &intent).await;
    // The one with the lease waits for the other's task; the other waits for the lease, for its task.
    let lease = queue(&ada, &intent, "notes");
    let found = stream.next_named("deadlock.found").await.data;
    assert_eq!(found["payload"]["agents"], json!(["agent.ada", "agent.bob"]));
    // Another task that it can do, after which it may release the lease, ends the deadlock.
    let other = task("agent.bob", &[]).await;
    stream.next_named("deadlock.cleared").await;
    bob.delete(&held).await.ok();
    assert_eq!(lease.await.unwrap().is(200)["agent_id"], "agent.ada");
    // Whoever waits for a task answers questions.
    let asked = ask(&ada, &channel, json!({ "to": "agent.bob", "timeout": 60 }));
    bob.post(&format!("/tasks/{other}/cancel"), json!({})).await.ok();
    sleep(Duration::from_millis(1200)).await;
    assert_eq!(waits(&ada).await, ["agent.ada request agent.bob", "agent.bob task agent.ada"]);
    assert!(deadlocks(&ada).await.is_empty(), "{second}");
    asked.abort();
    there.server.stop().await;
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_waits_of_a_killed_server_end() {
    let database = Cluster::get().fresh_database().await;
    let url = Cluster::get().url(&database);
    let places = [Place::new("waits"), Place::new("waits")];
    let (mut lost, _) = Launch::shared(&places[0], &url).start().await;
    let (kept, _) = Launch::shared(&places[1], &url).start().await;
    let any = kept.client(KEY);
    let (ada, bob) = (any.acting_as("agent.ada"), lost.client(KEY).acting_as("agent.bob"));
    let (intent, channel) = talk(&ada, json!({ "member_policy": "intent" })).await;
    let mut stream = stream(&any, &intent).await;
    let first = ask(&ada, &channel, json!({ "to": "agent.bob", "timeout": 90 }));
    let path = format!("/channels/{channel}/ask");
    let second = tokio::spawn(async move {
        let body = json!({ "to": "agent.ada", "timeout": 90 }).to_string();
        bob.try_send("POST", &path, Some(body)).await.is_none()
    });
    stream.next_named("deadlock.found").await;
    lost.kill();
    let began = Instant::now();
    assert!(second.await.unwrap(), "the call is gone");
    until(&any, &[]).await;
    println!("over {:?} after the kill", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    stream.next_named("deadlock.cleared").await;
    let left = waits(&any).await;
    assert!(left.contains(&"agent.ada request agent.bob".to_owned()), "the other one still waits: {left:?}");
    assert_eq!(events(&any, &intent).await, ["deadlock.found", "deadlock.cleared"]);
    first.abort();
}
