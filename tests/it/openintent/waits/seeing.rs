//! Who sees which waits, over REST, MCP and the command line.

use std::time::Duration;

use tokio::time::sleep;

use super::{acquire, ask, deadlocks, queue, until, waits};
use entente_harness::cli::told;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Setup, Value, World, json, talk};

/// Returns the deadlocks' events of the system log.
async fn system(admin: &Client) -> Vec<Value> {
    let events = admin.get("/audit?event_type=deadlock.found").await.ok();
    events.as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sees_the_waits_on_what_one_may_read_and_ones_own() {
    let world = World::start().await;
    let [ada, bob, eve] =
        [world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await];
    let admin = world.admin().await;
    let fay = world.agent("agent.fay").await;
    let (open, _) = talk(&ada, json!({})).await;
    let (closed, _) = talk(&ada, json!({})).await;
    ada.put(&format!("/intents/{closed}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let entry = json!({ "principal_id": "agent.bob", "permission": "write" });
    ada.post(&format!("/intents/{closed}/acl/entries"), entry).await.ok();
    acquire(&ada, &open, "x").await;
    acquire(&bob, &closed, "y").await;
    acquire(&eve, &open, "z").await;
    let waiting = [queue(&eve, &open, "x"), queue(&ada, &closed, "y"), queue(&bob, &open, "z")];
    let all = [json!(["agent.ada", "agent.bob", "agent.eve"])];
    for client in [&admin, &ada, &bob] {
        until(client, &all).await;
    }
    // Who may not read the closed intent sees the part on the open one, and no deadlock; who is in it learns that much.
    let part = ["agent.bob lease agent.eve", "agent.eve lease agent.ada"];
    for (client, deadlocked) in [(&eve, json!(["agent.eve"])), (&fay, json!([]))] {
        assert_eq!(waits(client).await, part);
        let seen = client.get("/waits").await.ok();
        assert_eq!((&seen["deadlocks"], &seen["deadlocked"]), (&json!([]), &deadlocked));
    }
    world.sweep().await;
    let found = format!("/intents/{open}/events?event_type=deadlock.found");
    let told = fay.get(&found).await.ok()[0]["payload"].clone();
    assert_eq!((&told["elsewhere"], told["waits"].as_array().unwrap().len()), (&json!(1), 2), "{told}");
    assert!(!told.to_string().contains("\"y\""), "{told}");
    assert_eq!(system(&admin).await.len(), 0);
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    until(&admin, &[]).await;
    world.sweep().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_channel_stays_private() {
    let world = World::start().await;
    let [ada, bob, eve] =
        [world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await];
    let admin = world.admin().await;
    let members = json!({ "member_policy": "explicit", "members": ["agent.ada", "agent.bob"] });
    let (intent, channel) = talk(&ada, members).await;
    let first = ask(&ada, &channel, json!({ "to": "agent.bob", "timeout": 30 }));
    let second = ask(&bob, &channel, json!({ "to": "agent.ada", "timeout": 30 }));
    until(&ada, &[json!(["agent.ada", "agent.bob"])]).await;
    assert!(waits(&eve).await.is_empty() && deadlocks(&eve).await.is_empty());
    world.sweep().await;
    let path = format!("/intents/{intent}/events?event_type=deadlock.found");
    assert_eq!(eve.get(&path).await.ok(), json!([]));
    let told = system(&admin).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["payload"]["waits"][0]["intent_id"], intent.as_str(), "{told:?}");
    first.abort();
    second.abort();
    until(&ada, &[]).await;
    world.sweep().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_to_a_person_is_a_wait_that_ends_every_path() {
    let world = World::start().await;
    let (ada, eve) = (world.agent("agent.ada").await, world.agent("agent.eve").await);
    let person = world.human("human.ada").await;
    entente_harness::moments::ask(&ada, json!({})).await;
    for client in [&ada, &person, &world.admin().await] {
        assert_eq!(waits(client).await, ["agent.ada decision human.ada"]);
    }
    assert!(waits(&eve).await.is_empty());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_and_a_terminal_see_the_same() {
    let world = World::with(Setup::live()).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({ "member_policy": "intent" })).await;
    acquire(&bob, &intent, "*").await;
    let lease = queue(&ada, &intent, "a");
    // A model that waits in a tool waits as well.
    let model = tokio::spawn({
        let mcp = Mcp::new(&bob, Era::Stateless);
        let ask = json!({ "channel": channel, "to": "agent.ada", "payload": {}, "timeout_s": 30 });
        async move { mcp.ok("ask_agent", ask).await }
    });
    until(&ada, &[json!(["agent.ada", "agent.bob"])]).await;
    let seen = Mcp::new(&ada, Era::Stateless).ok("waits", json!({})).await;
    assert_eq!(seen["deadlocked"], json!(["agent.ada"]), "{seen}");
    assert_eq!(seen["deadlocks"][0]["waits"].as_array().unwrap().len(), 2);
    let listed = told(&world, "key-of-agent.ada", &["waits"]).await;
    assert_eq!(listed["waits"].as_array().unwrap().len(), 2, "{listed}");
    let listed = told(&world, "key-of-agent.ada", &["waits", "--deadlocks"]).await;
    assert_eq!(listed[0]["agents"], json!(["agent.ada", "agent.bob"]), "{listed}");
    // An answer in time leaves no trace; one that waits for an instant costs no row.
    lease.abort();
    model.abort();
    until(&ada, &[]).await;
    sleep(Duration::from_millis(300)).await;
    let sql = "SELECT (SELECT count(*) FROM request_waits) + (SELECT count(*) FROM lease_waits)";
    let left: i64 = sqlx::query_scalar(sql).fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(left, 0);
    world.server.stop().await;
}
