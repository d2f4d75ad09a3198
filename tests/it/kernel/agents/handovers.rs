//! Hand-overs: an agent's part of an intent passes to another agent at once, and what the former still sends is refused.

use entente_harness::cli::told;
use entente_harness::inbox::{each, follow, open, read};
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Value, World, json, talk};

/// Ada works on an intent: a claimed task, one that is kept for her, and a lease; Bob may read and write.
struct Work {
    owner: Client,
    ada: Client,
    bob: Client,
    intent: String,
    claimed: String,
    kept: String,
    lease: Value,
}

impl Work {
    async fn begin(world: &World) -> Self {
        let (owner, ada) = (world.agent("agent.owner").await, world.agent("agent.ada").await);
        let bob = world.agent("agent.bob").await;
        let (intent, _) = talk(&owner, json!({})).await;
        let assigned = json!({ "agent_id": "agent.ada", "role": "researcher" });
        owner.post(&format!("/intents/{intent}/agents"), assigned).await.ok();
        let made = |name: &'static str| {
            let (ada, intent) = (&ada, &intent);
            async move {
                let task = ada.post("/tasks", json!({ "intent_id": intent, "name": name })).await.ok();
                task["id"].as_str().unwrap().to_owned()
            }
        };
        let (claimed, kept) = (made("claimed").await, made("kept").await);
        ada.post(&format!("/tasks/{claimed}/claim"), json!({})).await.ok();
        ada.post(&format!("/tasks/{claimed}/start"), json!({})).await.ok();
        ada.post(&format!("/tasks/{kept}/delegate"), json!({ "to": "agent.ada" })).await.ok();
        let ask = json!({ "scope": "draft", "duration_seconds": 600 });
        let lease = ada.post(&format!("/intents/{intent}/leases"), ask).await.ok();
        Self { owner, ada, bob, intent, claimed, kept, lease }
    }

    fn path(&self) -> String {
        format!("/intents/{}/handover", self.intent)
    }

    /// Changes the leased part of the state under a fencing token.
    async fn patch(&self, client: &Client, token: &Value) -> u16 {
        let intent = client.get(&format!("/intents/{}", self.intent)).await.ok();
        let change = json!({ "state": { "draft": 1 }, "fencing_token": token });
        let path = format!("/intents/{}/state", self.intent);
        client.seen(&intent["version"]).post(&path, change).await.status
    }

    async fn task(&self, id: &str) -> Value {
        self.ada.get(&format!("/tasks/{id}")).await.ok()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_passes_at_once_and_the_old_tokens_hold_no_longer() {
    let (world, other) = World::two().await;
    let work = Work::begin(&world).await;
    let there = other.agent("agent.ada").await;
    let elsewhere = work.bob.post("/tasks", json!({ "intent_id": work.intent, "name": "of bob" })).await.ok();
    open(&work.bob, "agent.bob", json!({})).await;
    let ask = json!({
        "to": "agent.bob", "note": "Two sources are left.", "state": { "sources": 2 }, "references": ["https://example.com/d"],
    });
    let made = there.post(&work.path(), ask).await.ok();
    assert_eq!((&made["from"], &made["role"]), (&json!("agent.ada"), &json!("researcher")));
    let tasks: Vec<(&str, &Value)> = made["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| (task["task_id"].as_str().unwrap(), &task["claim_token"]))
        .collect();
    assert_eq!(tasks, [(work.claimed.as_str(), &json!(2)), (work.kept.as_str(), &Value::Null)]);
    let lease = &made["leases"][0];
    assert_eq!((&lease["agent_id"], &lease["scope"]), (&json!("agent.bob"), &json!("draft")));
    assert_eq!(lease["expires_at"], work.lease["expires_at"], "the hold goes on, and lasts no longer");
    let (old, new) = (&work.lease["fencing_token"], &lease["fencing_token"]);
    assert!(new.as_i64() > old.as_i64());
    // The former agent.
    let progress = format!("/tasks/{}/progress", work.claimed);
    there
        .post(&progress, json!({ "progress": { "n": 1 }, "claim_token": 1 }))
        .await
        .refused(409, "claim_conflict");
    there.post(&format!("/tasks/{}/complete", work.claimed), json!({})).await.refused(403, "forbidden");
    assert_eq!(work.patch(&there, old).await, 409);
    let (intent, id) = (&work.intent, work.lease["id"].as_str().unwrap());
    let renewed =
        there.patch(&format!("/intents/{intent}/leases/{id}"), json!({ "duration_seconds": 60 })).await;
    assert!(renewed.status >= 400, "{}", renewed.text);
    // The one that took over.
    work.bob.post(&format!("/tasks/{}/start", work.claimed), json!({ "claim_token": 2 })).await.ok();
    assert_eq!(work.patch(&work.bob, new).await, 200);
    work.bob.post(&format!("/tasks/{}/claim", work.kept), json!({})).await.ok();
    let agents = work.ada.get(&format!("/intents/{intent}/agents")).await.ok();
    let agents: Vec<&Value> = agents.as_array().unwrap().iter().map(|one| &one["agent_id"]).collect();
    assert_eq!(agents, [&json!("agent.bob")]);
    assert_eq!(work.task(elsewhere["id"].as_str().unwrap()).await["assigned_agent"], Value::Null);
    // The event has all that is needed to go on, and the inbox shows it.
    let events = work.bob.get(&format!("/intents/{intent}/events?event_type=handover.made")).await.ok();
    let payload = &events[0]["payload"];
    assert_eq!(
        (&payload["note"], &payload["state"]),
        (&json!("Two sources are left."), &json!({ "sources": 2 }))
    );
    assert_eq!(payload["references"], json!(["https://example.com/d"]));
    assert_eq!(payload["leases"][0]["fencing_token"], *new);
    follow(&world).await;
    let entries = each(&read(&work.bob, "agent.bob", "").await, "what");
    assert!(entries.contains(&json!("intent_handed_over")), "{entries:?}");
    other.end().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_is_refused_whole() {
    let world = World::start().await;
    let work = Work::begin(&world).await;
    let (path, eve) = (work.path(), world.agent("agent.eve").await);
    let before = (work.task(&work.claimed).await, work.task(&work.kept).await);
    let to_bob = |more: Value| {
        let mut ask = json!({ "to": "agent.bob" });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    let foreign =
        work.bob.post(&format!("/intents/{}/leases", work.intent), json!({ "scope": "other" })).await.ok();
    for (ask, status) in [
        (json!({ "to": "agent.ada" }), 422),
        (json!({ "to": "" }), 422),
        (json!({}), 422),
        (to_bob(json!({ "tasks": ["task_none"] })), 422),
        (to_bob(json!({ "tasks": [work.claimed, "task_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"] })), 422),
        (to_bob(json!({ "leases": [foreign["id"]] })), 404),
        (to_bob(json!({ "state": [1] })), 422),
        (to_bob(json!({ "note": "x".repeat(16 * 1024 + 1) })), 422),
        (to_bob(json!({ "references": vec!["x"; 101] })), 422),
    ] {
        let reply = work.ada.post(&path, ask.clone()).await;
        assert_eq!(reply.status, status, "{ask}: {}", reply.text);
    }
    // Somebody else's work is passed on by those who manage the intent only.
    work.bob.post(&path, json!({ "to": "agent.bob", "from": "agent.ada" })).await.refused(403, "forbidden");
    eve.post(&path, json!({ "to": "agent.eve", "from": "agent.ada" })).await.refused(403, "forbidden");
    let scoped = world
        .admin()
        .await
        .post("/principals/agent.ada/keys", json!({ "scopes": ["intents:read"] }))
        .await
        .is(201);
    let reader = world.client(scoped["key"].as_str().unwrap());
    reader.post(&path, to_bob(json!({}))).await.refused(403, "scope_missing");
    // A task that the other agent may not claim keeps everything where it is.
    let needs = json!({ "intent_id": work.intent, "name": "needs", "capabilities_required": ["welding"] });
    let needs = work.ada.post("/tasks", needs).await.ok();
    let needs = needs["id"].as_str().unwrap();
    work.ada.post(&format!("/tasks/{needs}/claim"), json!({})).await.ok();
    world
        .agent("agent.bob")
        .await
        .post("/agents", json!({ "agent_id": "agent.bob", "capabilities": ["cooking"] }))
        .await;
    work.ada.post(&path, to_bob(json!({}))).await.refused(403, "forbidden");
    assert_eq!((work.task(&work.claimed).await, work.task(&work.kept).await), before);
    let held = work.ada.get(&format!("/intents/{}/leases", work.intent)).await.ok();
    assert_eq!(held["leases"][0]["agent_id"], "agent.ada");
    // A part of the work can pass alone.
    let part = to_bob(json!({ "tasks": [work.kept], "leases": [] }));
    let made = work.ada.post(&path, part).await.ok();
    assert_eq!((made["tasks"].as_array().unwrap().len(), &made["leases"]), (1, &json!([])));
    assert_eq!(work.task(&work.claimed).await["assigned_agent"], "agent.ada");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_passes_on_the_work_of_others_once() {
    let world = World::start().await;
    let work = Work::begin(&world).await;
    // The owner of the intent manages it; bob's work goes back to ada.
    work.ada.post(&work.path(), json!({ "to": "agent.bob" })).await.ok();
    let back = json!({ "to": "agent.ada", "from": "agent.bob" });
    let first = work.owner.once("back").post(&work.path(), back.clone()).await.ok();
    let again = work.owner.once("back").post(&work.path(), back.clone()).await.ok();
    assert_eq!(again, first);
    assert_eq!(first["tasks"].as_array().unwrap().len(), 2);
    // Of two at once, one passes the work, and the other finds none.
    let (one, two) = (work.ada.once("x"), work.ada.once("y"));
    let ask = json!({ "to": "agent.bob" });
    let path = work.path();
    let (a, b) = tokio::join!(one.post(&path, ask.clone()), two.post(&path, ask.clone()));
    let mut counts = [a.ok(), b.ok()].map(|made| made["tasks"].as_array().unwrap().len());
    counts.sort_unstable();
    assert_eq!(counts, [0, 2]);
    let intent = work.ada.get(&format!("/intents/{}", work.intent)).await.ok();
    work.owner
        .seen(&intent["version"])
        .post(&format!("/intents/{}/status", work.intent), json!({ "status": "completed" }))
        .await
        .ok();
    work.ada.post(&work.path(), ask).await.refused(409, "intent_resolved");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_and_a_terminal_hand_over() {
    let world = World::start().await;
    let work = Work::begin(&world).await;
    let ask =
        json!({ "intent_id": work.intent, "to": "agent.bob", "note": "yours", "idempotency_key": "h1" });
    let mcp = Mcp::new(&work.ada, Era::Stateless);
    let made = mcp.ok("hand_over", ask.clone()).await;
    assert_eq!((made["tasks"].as_array().unwrap().len(), made["leases"].as_array().unwrap().len()), (2, 1));
    assert_eq!(mcp.ok("hand_over", ask).await, made);
    let arguments =
        ["handover", &work.intent, "agent.ada", "--note", "back", "--state", "{\"n\":1}", "--once", "h2"];
    let back = told(&world, "key-of-agent.bob", &arguments).await;
    assert_eq!((&back["from"], &back["to"]), (&json!("agent.bob"), &json!("agent.ada")));
    assert_eq!(back["leases"][0]["agent_id"], "agent.ada");
    world.end().await;
}
