//! The queue for a lease: who waits gets it in its turn, on any server, and nobody waits for who has gone.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{acquire, ask, goal, one};
use entente_harness::cli::told;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{ANY, Client, Reply, Value, World, json};

/// Returns the agents that wait for leases on an intent, in their order.
async fn queue(client: &Client, intent: &str) -> Vec<String> {
    let queue = client.get(&format!("/intents/{intent}/leases/waiting")).await.ok();
    let agent = |wait: &Value| wait["agent_id"].as_str().unwrap().to_owned();
    queue["waiting"].as_array().unwrap().iter().map(agent).collect()
}

/// Waits until these agents wait, in this order.
async fn until_queued(client: &Client, intent: &str, agents: &[&str]) {
    let began = Instant::now();
    loop {
        let found = queue(client, intent).await;
        if found == agents {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{found:?} wait, and not {agents:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Requests a lease, and waits for it for so many seconds.
fn wait(client: Client, intent: &str, scope: &str, seconds: u32) -> tokio::task::JoinHandle<Reply> {
    let (path, body) = (format!("/intents/{intent}/leases?wait={seconds}"), json!({ "scope": scope }));
    tokio::spawn(async move { client.post(&path, body).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn who_came_first_has_the_first_turn_on_two_servers() {
    let (here, there) = World::two().await;
    let ada = here.agent("agent.ada").await;
    let intent = goal(&ada).await;
    let held = acquire(&ada, &intent, "one/part").await;
    let names: Vec<String> = (0..8).map(|n| format!("agent.w{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut waiters = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let client = [&here, &there][place % 2].any().acting_as(name);
        waiters.push((client.clone(), wait(client, &intent, "one", 25)));
        until_queued(&ada, &intent, &names[..=place]).await;
    }
    // Nobody overtakes them, not in a part of it either; what they do not wait for is free.
    let late = there.any().acting_as("agent.late");
    ada.delete(&one(&held)).await.ok();
    let mut token = 0;
    for (place, (client, waiter)) in waiters.into_iter().enumerate() {
        let refused = ask(&late, &intent, "one/other").await.refused(409, "lease_held");
        assert!(refused["message"].as_str().unwrap().contains("lease"), "{refused}");
        let lease = waiter.await.unwrap().is(200);
        assert_eq!(lease["agent_id"], names[place]);
        assert!(lease["fencing_token"].as_i64().unwrap() > token);
        token = lease["fencing_token"].as_i64().unwrap();
        assert_eq!(queue(&ada, &intent).await, &names[place + 1..]);
        client.delete(&one(&lease)).await.ok();
    }
    acquire(&late, &intent, "one/other").await;
    there.server.stop().await;
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_goes_with_its_request_and_stays_for_a_moment_after_its_time() {
    let world = World::start().await;
    let [ada, bob, eve] = ["agent.ada", "agent.bob", "agent.eve"].map(|name| world.any().acting_as(name));
    let intent = goal(&ada).await;
    let held = acquire(&ada, &intent, "*").await;
    // The time of the first is up, and its place is kept: it goes on waiting before the second.
    wait(bob.clone(), &intent, "a", 1).await.unwrap().refused(409, "lease_held");
    let second = wait(eve.clone(), &intent, "a", 25);
    until_queued(&ada, &intent, &["agent.bob", "agent.eve"]).await;
    let first = wait(bob.clone(), &intent, "a", 25);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(queue(&ada, &intent).await, ["agent.bob", "agent.eve"]);
    ada.delete(&one(&held)).await.ok();
    let lease = first.await.unwrap().is(200);
    until_queued(&ada, &intent, &["agent.eve"]).await;
    // One that hangs up leaves no place, and no lease.
    second.abort();
    until_queued(&ada, &intent, &[]).await;
    bob.delete(&one(&lease)).await.ok();
    let lease = acquire(&ada, &intent, "a").await;
    // One whose time is up and who does not come back stands in nobody's way for long.
    wait(bob.clone(), &intent, "a", 1).await.unwrap().refused(409, "lease_held");
    let second = wait(eve.clone(), &intent, "a", 25);
    until_queued(&ada, &intent, &["agent.bob", "agent.eve"]).await;
    ada.delete(&one(&lease)).await.ok();
    sleep(Duration::from_millis(200)).await;
    assert!(!second.is_finished());
    world.clock.advance(11);
    assert_eq!(second.await.unwrap().is(200)["agent_id"], "agent.eve");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_itself_or_for_what_never_comes() {
    let world = World::start().await;
    let [ada, bob] = ["agent.ada", "agent.bob"].map(|name| world.any().acting_as(name));
    let intent = goal(&ada).await;
    let held = acquire(&ada, &intent, "a").await;
    let began = Instant::now();
    let own = wait(ada.clone(), &intent, "a", 20).await.unwrap().refused(409, "lease_held");
    assert_eq!(own["existing_lease"]["id"], held["id"]);
    ada.post(&format!("/intents/{intent}/leases?wait=20"), json!({ "scope": "" }))
        .await
        .refused(422, "invalid_request");
    ada.post(&format!("/intents/{intent}/leases?wait=26"), json!({ "scope": "b" }))
        .await
        .refused(422, "invalid_parameter");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // The holder may have a part of what it holds, although another waits for all of it: else both would wait.
    let waiter = wait(bob.clone(), &intent, "*", 25);
    until_queued(&ada, &intent, &["agent.bob"]).await;
    let part = acquire(&ada, &intent, "a/b").await;
    // With the time of the last lease the wait is over, without anybody's doing.
    ada.delete(&one(&part)).await.ok();
    world.clock.advance(301);
    let lease = waiter.await.unwrap().is(200);
    assert_eq!(lease["agent_id"], "agent.bob");
    // Under one idempotency key there is one lease, however often one waits for it.
    bob.delete(&one(&lease)).await.ok();
    let held = acquire(&ada, &intent, "k").await;
    let waiter = wait(bob.once("key"), &intent, "k", 25);
    until_queued(&ada, &intent, &["agent.bob"]).await;
    ada.delete(&one(&held)).await.ok();
    let lease = waiter.await.unwrap().is(200);
    assert_eq!(wait(bob.once("key"), &intent, "k", 25).await.unwrap().ok()["id"], lease["id"]);
    // An intent that ends ends all waits on it.
    let waiter = wait(ada.clone(), &intent, "k", 25);
    until_queued(&ada, &intent, &["agent.ada"]).await;
    let path = format!("/intents/{intent}/status");
    let version = ada.get(&format!("/intents/{intent}")).await.ok()["version"].clone();
    ada.seen(&version).post(&path, json!({ "status": "completed" })).await.ok();
    waiter.await.unwrap().refused(409, "intent_resolved");
    assert_eq!(queue(&ada, &intent).await, [""; 0]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_places_of_a_killed_server_end_by_themselves() {
    let (here, there) = World::two().await;
    let ada = here.agent("agent.ada").await;
    let intent = goal(&ada).await;
    let held = acquire(&ada, &intent, "a").await;
    let lost = wait(there.any().acting_as("agent.lost"), &intent, "a", 25);
    until_queued(&ada, &intent, &["agent.lost"]).await;
    let next = wait(here.any().acting_as("agent.next"), &intent, "a", 25);
    until_queued(&ada, &intent, &["agent.lost", "agent.next"]).await;
    // As a kill leaves it: the request is gone, and nothing was tidied up.
    let rows = "CREATE TABLE kept AS SELECT * FROM lease_waits WHERE agent_id = 'agent.lost'";
    sqlx::raw_sql(rows).execute(&here.ctx().pool).await.unwrap();
    lost.abort();
    until_queued(&ada, &intent, &["agent.next"]).await;
    sqlx::raw_sql("INSERT INTO lease_waits SELECT * FROM kept").execute(&here.ctx().pool).await.unwrap();
    let began = Instant::now();
    ada.delete(&one(&held)).await.ok();
    assert_eq!(next.await.unwrap().is(200)["agent_id"], "agent.next");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    there.server.stop().await;
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_and_a_model_wait_in_the_same_queue() {
    let world = World::start().await;
    let [ada, bob] = ["agent.ada", "agent.bob"].map(|name| world.any().acting_as(name));
    let intent = goal(&ada).await;
    let held = acquire(&ada, &intent, "a").await;
    let model = tokio::spawn({
        let (mcp, intent) = (Mcp::new(&bob, Era::Stateless), intent.clone());
        let ask = json!({ "action": "acquire", "intent_id": intent, "scope": "a", "wait_s": 20 });
        async move { mcp.ok("leases", ask).await }
    });
    until_queued(&ada, &intent, &["agent.bob"]).await;
    let release = async {
        until_queued(&ada, &intent, &["agent.bob", "service.any"]).await;
        let queue = told(&world, ANY, &["lease", "queue", &intent]).await;
        assert_eq!(queue["waiting"][1]["scope"], "*", "{queue}");
        ada.delete(&one(&held)).await.ok();
        let lease = model.await.unwrap()["leases"][0].clone();
        assert_eq!(lease["agent_id"], "agent.bob");
        bob.delete(&one(&lease)).await.ok();
    };
    // More seconds than one request waits.
    let arguments = ["lease", "acquire", &intent, "*", "--wait", "60"];
    let (lease, ()) = tokio::join!(told(&world, ANY, &arguments), release);
    assert_eq!((&lease["agent_id"], &lease["scope"]), (&json!("service.any"), &json!("*")));
    world.end().await;
}
