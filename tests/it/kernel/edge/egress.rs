//! Egress: the server must not send into its own network, whichever addresses a name resolves to and whenever.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use entente::background::egress::{Found, Names};

use entente_harness::{Cluster, Receiver, Setup, Value, World, json, subscribe};

/// A resolver that returns other addresses on each lookup; the last answer repeats.
struct Fickle {
    answers: Mutex<Vec<Vec<&'static str>>>,
    asked: AtomicUsize,
}

impl Fickle {
    fn new(answers: &[&[&'static str]]) -> Arc<Self> {
        let answers = answers.iter().rev().map(|answer| answer.to_vec()).collect();
        Arc::new(Self { answers: Mutex::new(answers), asked: AtomicUsize::new(0) })
    }
}

impl Names for Fickle {
    fn look_up(&self, _name: &str) -> Found {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop() } else { answers.last().cloned() };
        let answer = answer.unwrap();
        if answer == ["unknown"] {
            return Box::pin(async {
                Err(io::Error::other("failed to lookup address information: Name or service not known"))
            });
        }
        let found: Vec<IpAddr> = answer.iter().map(|text| text.parse().unwrap()).collect();
        Box::pin(async move { io::Result::Ok(found) })
    }
}

/// Starts a server that may send to 127.0.0.2, which stands for the public internet, but not to 127.0.0.1.
async fn world(allow: &'static str, names: Arc<Fickle>) -> World {
    let setup = Setup { settings: vec![("ENTENTE_WEBHOOK_ALLOW", allow)], live: false };
    World::naming(setup, Cluster::get().fresh_database().await, names).await
}

/// Sends a ping and returns the delivery attempt.
async fn ping(world: &World, id: &str) -> Value {
    let ada = world.client("key-of-agent.ada");
    let queued = ada.post(&format!("/subscriptions/{id}/ping"), json!({})).await.is(202);
    world.deliver().await;
    let log = ada.get(&format!("/subscriptions/{id}/deliveries")).await.ok();
    assert_eq!(log[0]["webhook_id"], queued["webhook_id"]);
    log[0]["attempts"][0].clone()
}

#[tokio::test]
async fn a_name_that_changes_what_it_stands_for_gains_nothing() {
    let names = Fickle::new(&[&["127.0.0.2"], &["127.0.0.1"], &["127.0.0.1", "127.0.0.2"]]);
    let world = world("127.0.0.2", Arc::clone(&names)).await;
    let ada = world.agent("agent.ada").await;
    // The same port on the public and the private address.
    let outside = Receiver::on("127.0.0.2:0").await;
    let inside = Receiver::on(&format!("127.0.0.1:{}", outside.address.port())).await;
    // Closes the connection, so that each attempt looks the name up again.
    outside.does([entente_harness::Act::Header(200, "connection", "close".to_owned())]);
    let url = format!("http://hooks.example:{}/", outside.address.port());
    let made = subscribe(&ada, &url, json!({})).await;
    let id = made["id"].as_str().unwrap();
    assert_eq!(ping(&world, id).await["status"], 200);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let refused = ping(&world, id).await;
    assert_eq!(
        (&refused["status"], &refused["error"]),
        (&Value::Null, &json!("its name stands for no public address"))
    );
    world.clock.advance(60);
    assert_eq!(ping(&world, id).await["status"], 200, "of several addresses the open ones are used");
    assert!(names.asked.load(Ordering::Relaxed) >= 3);
    assert_eq!(inside.connections(), 0, "nothing reached the machine itself");
    world.server.stop().await;
}

#[tokio::test]
async fn addresses_in_urls_are_judged_at_every_attempt() {
    let world = world("127.0.0.2", Fickle::new(&[&["127.0.0.1"]])).await;
    let ada = world.agent("agent.ada").await;
    let inside = Receiver::start().await;
    let port = inside.address.port();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0.0.0.0", "127.1"] {
        let url = json!({ "webhook_url": format!("http://{host}:{port}/") });
        ada.post("/subscriptions", url).await.refused(422, "invalid_request");
    }
    // An endpoint that was allowed when it was created is checked again on each delivery.
    let outside = Receiver::on("127.0.0.2:0").await;
    let made = subscribe(&ada, &outside.url(), json!({})).await;
    let id = made["id"].as_str().unwrap();
    assert_eq!(ping(&world, id).await["status"], 200);
    sqlx::query("UPDATE webhook_endpoints SET url = $1 WHERE url = $2")
        .bind(inside.url())
        .bind(outside.url())
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    let refused = ping(&world, id).await;
    assert!(refused["error"].as_str().unwrap().contains("not public (loopback)"), "{refused}");
    assert_eq!(inside.connections(), 0);
    world.server.stop().await;
}

#[tokio::test]
async fn an_agent_registers_with_an_address_that_others_may_open() {
    let world = world("127.0.0.2", Fickle::new(&[&["127.0.0.1"]])).await;
    let ada = world.agent("agent.ada").await;
    let register = |endpoint: &str| json!({ "agent_id": "agent.ada", "endpoint": endpoint });
    for bad in [
        "javascript:1",
        "javascript://ada.example/%0aalert(1)",
        " javascript:1",
        "java\tscript:1",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript://x",
        "ada.example",
        "//ada.example/",
        "http://127.0.0.1:8080/",
        "http://localhost/inbox",
        "https://[::1]:9000/",
        "http://2130706433/",
        "http://169.254.169.254/latest",
        "http://168.63.129.16/machine",
        "https://ada:secret@ada.example/",
        "ws://127.0.0.1:8080/",
        "mcp://10.0.0.1/",
    ] {
        for path in ["/agents/register", "/agents"] {
            let refused = ada.post(path, register(bad)).await.refused(422, "invalid_request");
            assert_eq!(refused["errors"][0]["loc"], json!(["body", "endpoint"]), "{bad}");
        }
    }
    ada.get("/agents/agent.ada").await.refused(404, "not_found");
    for good in [
        "https://ada.example/inbox",
        "http://127.0.0.2:1/agent",
        "wss://ada.example/",
        "mcp://ada",
        "HTTPS://ada.example",
    ] {
        ada.post("/agents/register", register(good)).await.ok();
    }
    world.server.stop().await;
}

#[tokio::test]
async fn names_that_are_not_there_and_inner_ones_sound_the_same() {
    let mut told = Vec::new();
    for answer in [&["127.0.0.1"][..], &["10.0.0.7"], &["168.63.129.16"], &[], &["unknown"]] {
        let world = world("127.0.0.2", Fickle::new(&[answer])).await;
        let ada = world.agent("agent.ada").await;
        let made = subscribe(&ada, "http://intranet.example:8080/", json!({})).await;
        let refused = ping(&world, made["id"].as_str().unwrap()).await;
        assert_eq!(refused["status"], Value::Null);
        told.push(refused["error"].clone());
        world.server.stop().await;
    }
    assert!(told.iter().all(|why| *why == "its name stands for no public address"), "{told:?}");
}

#[tokio::test]
async fn the_operator_allows_names_and_demands_https() {
    let world = world("hooks.internal", Fickle::new(&[&["127.0.0.1"]])).await;
    let ada = world.agent("agent.ada").await;
    let inside = Receiver::start().await;
    let url = |name: &str| format!("http://{name}:{}/", inside.address.port());
    let made = subscribe(&ada, &url("hooks.internal"), json!({})).await;
    assert_eq!(ping(&world, made["id"].as_str().unwrap()).await["status"], 200);
    let other = subscribe(&ada, &url("other.internal"), json!({})).await;
    assert_eq!(ping(&world, other["id"].as_str().unwrap()).await["status"], Value::Null);
    let setup = Setup { settings: vec![("ENTENTE_WEBHOOK_HTTPS_ONLY", "true")], live: false };
    let strict = World::on(setup, world.database.clone()).await;
    let ada = strict.client("key-of-agent.ada");
    ada.post("/subscriptions", json!({ "webhook_url": "http://hooks.example/" }))
        .await
        .refused(422, "invalid_request");
    ada.post("/subscriptions", json!({ "webhook_url": "https://hooks.example/" })).await.is(201);
    strict.server.stop().await;
    world.server.stop().await;
}
