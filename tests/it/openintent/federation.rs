//! Federation (RFC-0022, RFC-0023): two servers that are peers, and an intent that goes from one to the other and
//! reports back its end. `federation/rough.rs` covers lost and repeated requests, `federation/hostile.rs` forged
//! ones, and `federation/knowing.rs` discovery.

mod bounds;
mod hostile;
mod knowing;
mod rough;

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entente_domain::identity::signatures::Signer;
use entente_domain::openintent::federation::signing::{show_key, sign};

use entente_harness::{Client, Cluster, Setup, Value, World, json};

/// Leaks a text, because settings need a static lifetime.
fn kept(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Returns a port that nothing listens on.
///
/// It is outside the range from which the system takes the ports of connections: between this choice and the start
/// of the server, a connection of another test could get one of those.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 10_000).unwrap();
    loop {
        let port = 20_000 + first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

pub fn did(port: u16) -> String {
    format!("did:web:127.0.0.1%3A{port}")
}

pub fn signer(seed: u8) -> Signer {
    Signer::from_seed(&[seed; 32])
}

/// Returns a peer with all permissions and the key of this seed.
pub fn peer(port: u16, seed: u8) -> Value {
    json!({
        "url": url(port), "public_keys": [show_key(&signer(seed).public_key())], "receive_from": true, "dispatch_to": true,
        "share": ["description", "state", "constraints"],
    })
}

/// Returns the settings of a server on a port, with the key of this seed and these peers. It exports
/// `agent.public.*`.
pub fn setup(port: u16, seed: u8, peers: &Value) -> Setup {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("federation-{}.json", FILES.fetch_add(1, Ordering::Relaxed));
    let path = Cluster::get().file(&name);
    std::fs::write(&path, json!({ "peers": peers, "export": ["agent.public.*"] }).to_string()).unwrap();
    Setup {
        settings: vec![
            ("ENTENTE_BIND", kept(format!("127.0.0.1:{port}"))),
            ("ENTENTE_PUBLIC_URL", kept(url(port))),
            ("ENTENTE_SIGNING_KEY", kept(STANDARD.encode([seed; 32]))),
            ("ENTENTE_FEDERATION_FILE", kept(path.to_str().unwrap().to_owned())),
        ],
        live: false,
    }
}

/// Two servers that are peers: `a` has work, `b` has agents.
pub struct Two {
    pub a: World,
    pub b: World,
    pub ports: (u16, u16),
    pub setups: (Setup, Setup),
    pub ada: Client,
    pub bob: Client,
}

impl Two {
    pub async fn start() -> Self {
        Self::with(Vec::new()).await
    }

    /// Like [`Self::start`], with more settings for `b`.
    pub async fn with(more: Vec<(&'static str, &'static str)>) -> Self {
        let ports = (free_port(), free_port());
        let mut setups =
            (setup(ports.0, 1, &json!([peer(ports.1, 2)])), setup(ports.1, 2, &json!([peer(ports.0, 1)])));
        setups.1.settings.extend(more);
        let (a, b) = (World::with(setups.0.clone()).await, World::with(setups.1.clone()).await);
        let (ada, bob) = (a.agent("agent.ada").await, b.agent("agent.public.bob").await);
        bob.post(
            "/agents/register",
            json!({ "agent_id": "agent.public.bob", "capabilities": ["translate"] }),
        )
        .await
        .ok();
        Self { a, b, ports, setups, ada, bob }
    }

    /// Creates an intent as Ada.
    pub async fn intent(&self) -> Value {
        let ask = json!({
            "title": "Translate", "description": "all of it", "state": { "half": 0.5, "one": 1.0, "ß": "€😀" },
            "constraints": { "by": "noon" }, "status": "active",
        });
        self.ada.post("/intents", ask).await.ok()
    }

    /// Dispatches an intent to `b` and returns the dispatch.
    pub async fn dispatch(&self, intent: &Value, more: Value) -> Value {
        let mut ask = json!({ "intent_id": intent["id"], "target_server": url(self.ports.1) });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ada.post("/federation/dispatch", ask).await.is(200)
    }

    /// Sends all due federation messages, in both directions.
    pub async fn carry(&self) {
        for world in [&self.a, &self.b, &self.a] {
            world.sweep().await;
            world.server.senders.federation.step().await.unwrap();
        }
    }

    pub async fn end(self) {
        self.a.end().await;
        self.b.end().await;
    }
}

/// Returns the types of an intent's events, oldest first.
pub async fn types(client: &Client, intent: &Value) -> Vec<String> {
    let events = events(client, intent).await;
    events.iter().map(|event| event["event_type"].as_str().unwrap().to_owned()).collect()
}

/// Returns an intent's events, oldest first.
pub async fn events(client: &Client, intent: &Value) -> Vec<Value> {
    let path = format!("/intents/{}/events", intent.as_str().unwrap());
    let mut events = client.get(&path).await.ok().as_array().unwrap().clone();
    events.reverse();
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_goes_to_a_peer_and_its_end_comes_back() {
    let two = Two::start().await;
    let intent = two.intent().await;
    let sent = two.dispatch(&intent, json!({ "agent_id": "agent.public.bob" })).await;
    assert_eq!((&sent["status"], &sent["target_server"]), (&json!("pending"), &json!(url(two.ports.1))));
    assert_eq!(two.b.any().get("/intents").await.ok()["intents"], json!([]), "it is sent afterwards");
    two.carry().await;
    let path = format!("/federation/dispatches/{}", sent["dispatch_id"].as_str().unwrap());
    let accepted = two.ada.get(&path).await.ok();
    assert_eq!((&accepted["status"], &accepted["state"]), (&json!("accepted"), &json!("accepted")));
    // The copy has the shared members, belongs to the peer, and Bob is assigned to it.
    let remote = accepted["remote_intent_id"].as_str().unwrap();
    let copy = two.bob.get(&format!("/intents/{remote}")).await.ok();
    assert_eq!((&copy["created_by"], &copy["status"]), (&json!(did(two.ports.0)), &json!("active")));
    for member in ["title", "description", "state", "constraints"] {
        assert_eq!(copy[member], intent[member], "{member}");
    }
    assert_eq!(
        types(&two.bob, &copy["id"]).await,
        ["intent_created", "federation.received", "agent_assigned"]
    );
    // Bob works on it, and his changes are reported.
    let patch = json!({ "patches": [{ "op": "set", "path": "pages/done", "value": 3 }] });
    two.bob.seen(&json!(1)).post(&format!("/intents/{remote}/state"), patch).await.ok();
    let blocked = json!({ "status": "blocked" });
    two.bob.seen(&json!(2)).post(&format!("/intents/{remote}/status"), blocked).await.ok();
    two.carry().await;
    let completed = json!({ "status": "completed" });
    two.bob.seen(&json!(3)).post(&format!("/intents/{remote}/status"), completed).await.ok();
    two.carry().await;
    // Changes after the end are not reported.
    two.bob
        .seen(&json!(4))
        .post(&format!("/intents/{remote}/status"), json!({ "status": "active" }))
        .await
        .ok();
    two.carry().await;
    let log = events(&two.ada, &intent["id"]).await;
    let seen: Vec<(&str, &Value)> = log
        .iter()
        .map(|event| (event["event_type"].as_str().unwrap(), &event["payload"]["state_delta"]))
        .filter(|(kind, _)| kind.starts_with("federation."))
        .collect();
    assert_eq!(
        seen,
        [
            ("federation.dispatched", &Value::Null),
            ("federation.callback", &Value::Null),
            ("federation.callback", &json!({ "pages": { "done": 3 } })),
            ("federation.callback", &json!({ "status": "blocked" })),
            ("federation.completed", &json!({ "status": "completed" })),
        ]
    );
    let last = log.last().unwrap();
    assert_eq!(
        (&last["actor"], &last["payload"]["remote_intent_id"]),
        (&json!(did(two.ports.1)), &json!(remote))
    );
    let over = two.ada.get(&path).await.ok();
    assert_eq!((&over["status"], &over["state"]), (&json!("accepted"), &json!("completed")));
    // Ada's own intent is unchanged, because she decides on the result herself.
    assert_eq!(two.ada.get(&format!("/intents/{}", intent["id"].as_str().unwrap())).await.ok()["version"], 1);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_there_has_failed_here() {
    let two = Two::start().await;
    let intent = two.intent().await;
    let sent = two
        .dispatch(&intent, json!({ "trace_context": { "trace_id": "0af7651916cd43dd8448eb211c80319c" } }))
        .await;
    two.carry().await;
    let found = two.bob.get("/intents").await.ok();
    let remote = found["intents"][0]["id"].as_str().unwrap().to_owned();
    two.bob
        .seen(&json!(1))
        .post(&format!("/intents/{remote}/status"), json!({ "status": "abandoned" }))
        .await
        .ok();
    two.carry().await;
    let log = events(&two.ada, &intent["id"]).await;
    let last = log.last().unwrap();
    assert_eq!(
        (&last["event_type"], &last["payload"]["event_type"]),
        (&json!("federation.failed"), &json!("failed"))
    );
    assert_eq!(last["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    let over =
        two.ada.get(&format!("/federation/dispatches/{}", sent["dispatch_id"].as_str().unwrap())).await.ok();
    assert_eq!(over["state"], "failed");
    assert!(over["ended_at"].is_string());
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_from_a_peer_is_closed_where_the_operator_has_new_intents_closed() {
    let two = Two::with(vec![("ENTENTE_DEFAULT_ACCESS", "closed")]).await;
    let sent = two.dispatch(&two.intent().await, json!({ "agent_id": "agent.public.bob" })).await;
    two.carry().await;
    let path = format!("/federation/dispatches/{}", sent["dispatch_id"].as_str().unwrap());
    let copy = two.ada.get(&path).await.ok()["remote_intent_id"].clone();
    let copy = format!("/intents/{}", copy.as_str().unwrap());
    // The assigned agent has access, others do not, and the end is still reported.
    two.b.agent("agent.eve").await.get(&copy).await.refused(403, "access_closed");
    two.bob.get(&copy).await.ok();
    let completed = json!({ "status": "completed" });
    two.bob.seen(&json!(1)).post(&format!("{copy}/status"), completed).await.ok();
    two.carry().await;
    assert_eq!(two.ada.get(&path).await.ok()["state"], "completed");
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_may_say_no() {
    let two = Two::start().await;
    let intent = two.intent().await;
    two.bob
        .post(
            "/agents/register",
            json!({ "agent_id": "agent.public.bob", "metadata": { "federation_visibility": "private" } }),
        )
        .await
        .ok();
    let cases = [
        (json!({ "agent_id": "agent.public.bob" }), "no such agent"),
        (json!({ "agent_id": "agent.public.nobody" }), "no such agent"),
        (json!({ "federation_policy": { "budget": { "cost_ceiling_usd": 0 } } }), "budget"),
        (json!({ "delegation_scope": { "expires_at": "2026-11-21T07:00:00Z" } }), "expired"),
    ];
    for (more, why) in cases {
        let sent = two.dispatch(&intent, more).await;
        two.carry().await;
        let path = format!("/federation/dispatches/{}", sent["dispatch_id"].as_str().unwrap());
        let over = two.ada.get(&path).await.ok();
        assert_eq!((&over["status"], &over["state"]), (&json!("rejected"), &json!("rejected")));
        assert!(over["message"].as_str().unwrap().contains(why), "{over}");
    }
    assert_eq!(two.b.any().get("/intents").await.ok()["intents"], json!([]));
    let log = types(&two.ada, &intent["id"]).await;
    assert_eq!(log.iter().filter(|kind| *kind == "federation.failed").count(), 4);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_do_everything_with_an_intent_gives_it_away() {
    let two = Two::start().await;
    let intent = two.intent().await;
    let path = format!("/intents/{}/acl", intent["id"].as_str().unwrap());
    let eve = two.a.agent("agent.eve").await;
    let ask = json!({ "intent_id": intent["id"], "target_server": url(two.ports.1) });
    let entry = json!({ "default_policy": "open", "entries": [{ "principal_id": "agent.eve", "permission": "write" }] });
    two.ada.put(&path, entry).await.ok();
    eve.post("/federation/dispatch", ask.clone()).await.refused(403, "forbidden");
    two.ada.put(&path, json!({ "default_policy": "closed", "entries": [] })).await.ok();
    eve.post("/federation/dispatch", ask.clone()).await.refused(403, "access_closed");
    let nowhere =
        json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "target_server": url(two.ports.1) });
    eve.post("/federation/dispatch", nowhere).await.refused(404, "not_found");
    // Only to peers, and with callbacks to this server only.
    for target in ["https://elsewhere.example", "http://127.0.0.1", "", "http://169.254.169.254"] {
        let ask = json!({ "intent_id": intent["id"], "target_server": target });
        two.ada.post("/federation/dispatch", ask).await.refused(403, "forbidden");
    }
    let mut elsewhere = ask.clone();
    elsewhere["callback_url"] = json!("https://elsewhere.example/");
    two.ada.post("/federation/dispatch", elsewhere).await.refused(422, "unprocessable");
    // A repeated dispatch is done once; a DID is as good as a URL.
    let by_did =
        json!({ "intent_id": intent["id"], "target_server": format!("did:web:127.0.0.1:{}", two.ports.1) });
    let first = two.ada.once("k").post("/federation/dispatch", by_did.clone()).await.ok();
    assert_eq!(two.ada.once("k").post("/federation/dispatch", by_did).await.ok(), first);
    two.ada.once("k").post("/federation/dispatch", ask.clone()).await.refused(409, "idempotency_mismatch");
    let path = format!("/federation/dispatches/{}", first["dispatch_id"].as_str().unwrap());
    eve.get(&path).await.refused(404, "not_found");
    two.carry().await;
    assert_eq!(two.b.any().get("/intents").await.ok()["intents"].as_array().unwrap().len(), 1);
    // A completed intent cannot be dispatched.
    let path = format!("/intents/{}/status", intent["id"].as_str().unwrap());
    two.ada.seen(&json!(1)).post(&path, json!({ "status": "completed" })).await.ok();
    two.ada.post("/federation/dispatch", ask).await.refused(409, "intent_resolved");
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_from_a_peer_is_passed_on_only_as_far_as_it_allows() {
    let two = Two::start().await;
    let intent = two.intent().await;
    let scope = json!({ "max_delegation_depth": 0, "permissions": ["events.log"] });
    two.dispatch(&intent, json!({ "delegation_scope": scope })).await;
    two.carry().await;
    let remote = two.bob.get("/intents").await.ok()["intents"][0]["id"].clone();
    let ask = json!({ "intent_id": remote, "target_server": url(two.ports.0) });
    let refused = two.bob.post("/federation/dispatch", ask).await.refused(403, "forbidden");
    assert!(refused["message"].as_str().unwrap().contains("passed on"));
    // Without `state.patch` in the permissions, no state is sent back either.
    let patch = json!({ "patches": [{ "op": "set", "path": "pages", "value": 3 }] });
    two.bob.seen(&json!(1)).post(&format!("/intents/{}/state", remote.as_str().unwrap()), patch).await.ok();
    two.carry().await;
    assert_eq!(
        types(&two.ada, &intent["id"]).await,
        ["intent_created", "federation.dispatched", "federation.callback"]
    );
    two.end().await;
}

/// Signs a body as the peer with the key of this seed.
pub fn signed(body: &Value, stamp: &str, seed: u8, world: &World) -> String {
    sign(body.as_object().unwrap().clone(), stamp, &signer(seed), world.ctx().now())
}

/// Starts a server on the database of a previous one.
pub async fn again(setup: &Setup, database: &str) -> World {
    let _cluster = Cluster::get();
    World::on(setup.clone(), database.to_owned()).await
}
