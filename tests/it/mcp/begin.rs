//! A fresh agent begins with nothing but its key and these tools: from a goal to a job, a task and a decision.

use entente_domain::canonical::{hex, sha256};
use entente_domain::clock::rfc3339;

use super::tools::fits;
use super::{ERAS, Era, Mcp};
use entente_harness::socket::Socket;
use entente_harness::{Setup, Value, World, json, talk};

fn question() -> Value {
    json!({
        "principal": "human.grace", "synopsis": "Keep the backup.",
        "findings": ["It is complete.", "It is encrypted.", "It is small."],
        "recommendations": ["Keep it.", "Check it monthly."], "offer": "Ask for detail.",
        "question": {
            "stem": "Do we keep the backup?", "recommended_idx": 0,
            "options": [{ "label": "Keep it", "reasoning": "It is complete." },
                        { "label": "Delete it", "reasoning": "It costs space." }],
        },
    })
}

#[tokio::test]
async fn an_agent_begins_with_nothing_but_its_key() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let grace = world.human("human.grace").await;
    let (a, b) = (Mcp::new(&ada, Era::Stateless), Mcp::new(&bob, Era::Handshake));
    let me = fits(&a, "whoami", json!({})).await;
    assert_eq!(me["time"], rfc3339(world.ctx().now()));
    // A goal.
    let ask = json!({ "title": "Check the backup", "state": { "host": "db1" }, "idempotency_key": "i1" });
    let intent = fits(&a, "create_intent", ask.clone()).await;
    assert_eq!((&intent["status"], &intent["created_by"]), (&json!("active"), &json!("agent.ada")));
    assert_eq!(fits(&a, "create_intent", ask).await["id"], intent["id"], "a retry is done once");
    let found = fits(&a, "list_intents", json!({ "status": "active" })).await;
    assert_eq!((found["intents"].as_array().unwrap().len(), &found["next"]), (1, &Value::Null));
    let one = fits(&a, "list_intents", json!({ "intent_id": intent["id"] })).await;
    assert_eq!(one["intents"][0]["state"], json!({ "host": "db1" }));
    // A worker.
    let claim = json!({ "agents": ["checker"] });
    let text = b.refused("claim_job", claim.clone(), "AGENT_NOT_AVAILABLE").await;
    assert!(text.contains("`register`"), "{text}");
    let none = fits(&b, "claim_job", json!({ "agents": ["checker"], "register": true })).await;
    assert_eq!(none["job"], Value::Null);
    let known = fits(&a, "list_agents", json!({})).await;
    assert_eq!(known["job_agents"][0]["name"], "checker");
    let job = fits(&a, "submit_job", json!({ "agent": "checker", "input": { "host": "db1" } })).await;
    let held = fits(&b, "claim_job", claim.clone()).await["job"].clone();
    assert_eq!((&held["job_id"], &held["input"]["host"]), (&job["job_id"], &json!("db1")));
    // Reports extend the claim, which lasts a minute.
    let report = |n: u32| json!({ "job_id": held["job_id"], "claim_token": held["claim_token"], "kind": "progress", "body": { "current": n } });
    for n in 1..=3 {
        world.clock.advance(50);
        fits(&b, "report_job", report(n)).await;
    }
    world.clock.advance(50);
    let end =
        json!({ "job_id": held["job_id"], "claim_token": held["claim_token"], "result": { "ok": true } });
    fits(&b, "finish_job", end).await;
    let done = fits(&a, "get_job", json!({ "job_id": job["job_id"] })).await;
    assert_eq!((&done["status"], &done["terminal"]["result"]["ok"]), (&json!("success"), &json!(true)));
    // The same worker again.
    fits(&b, "claim_job", claim).await;
    assert_eq!(bob.get("/workers").await.ok()["workers"].as_array().unwrap().len(), 1);
    // A decision.
    let people = fits(&a, "list_people", json!({})).await;
    assert_eq!(people["people"], json!([{ "id": "human.grace", "display_name": null }]));
    let asked = fits(&a, "ask_principal", question()).await;
    let open = fits(&a, "list_decisions", json!({ "state": "open" })).await;
    assert_eq!(open["decisions"][0]["stem"], "Do we keep the backup?");
    let answer =
        json!({ "envelope_digest": asked["digest"], "resolution": { "kind": "option", "option_idx": 0 } });
    let path = format!("/moments/{}/resolution", asked["moment_id"].as_str().unwrap());
    grace.post(&path, answer).await.ok();
    let all = fits(&a, "list_decisions", json!({})).await;
    assert_eq!(all["decisions"][0]["resolution"]["label"], "Keep it");
    assert_eq!(fits(&b, "list_decisions", json!({})).await["decisions"], json!([]));
    world.end().await;
}

#[tokio::test]
async fn a_job_of_a_list_can_be_cancelled() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (a, b) = (Mcp::new(&ada, Era::Stateless), Mcp::new(&bob, Era::Stateless));
    fits(&b, "claim_job", json!({ "agents": ["echo@2"], "register": true })).await;
    fits(&a, "submit_job", json!({ "agent": "echo" })).await;
    let listed = fits(&a, "list_jobs", json!({})).await["jobs"][0].clone();
    assert_eq!(listed["agent"], "echo@2");
    let end = json!({ "job_id": listed["job_id"], "session_id": listed["session_id"] });
    assert_eq!(fits(&a, "cancel_job", end).await["status"], "cancelled");
    // A socket's job is cancelled at its socket (ARCP §7.6), as the description of the tool says.
    let mut socket = Socket::open(&world, "key-of-agent.ada").await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    let listed = fits(&a, "list_jobs", json!({})).await["jobs"][0].clone();
    assert_eq!((&listed["job_id"], listed.get("session_id")), (&job["job_id"], None), "{listed}");
    let listed = a.request("tools/list", json!({})).await.is(200)["result"]["tools"].clone();
    let list_jobs = listed.as_array().unwrap().iter().find(|tool| tool["name"] == "list_jobs").unwrap();
    let about = list_jobs["description"].as_str().unwrap();
    assert!(about.contains("A job without it was submitted over a socket"), "{about}");
    // The name belongs to its first worker.
    a.refused("claim_job", json!({ "agents": ["echo"] }), "PERMISSION_DENIED").await;
    world.end().await;
}

#[tokio::test]
async fn tasks_are_made_claimed_and_completed() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mcp = Mcp::new(&ada, Era::Stateless);
    let intent = talk(&ada, json!({})).await.0;
    let create = json!({ "action": "create", "intent_id": intent, "name": "read", "idempotency_key": "k" });
    let task = fits(&mcp, "tasks", create.clone()).await["tasks"][0]["id"].clone();
    assert_eq!(fits(&mcp, "tasks", create).await["tasks"][0]["id"], task, "a retry is done once");
    let next = json!({ "action": "create", "intent_id": intent, "name": "write", "depends_on": [task] });
    let next = fits(&mcp, "tasks", next).await["tasks"][0]["id"].clone();
    let ready = json!({ "action": "list", "intent_id": intent, "status": "ready" });
    assert_eq!(fits(&mcp, "tasks", ready.clone()).await["tasks"][0]["id"], task);
    let act = |action: &str, more: Value| {
        let mut arguments = json!({ "action": action, "task_id": task });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let claimed = fits(&mcp, "tasks", act("claim", json!({}))).await["tasks"][0].clone();
    let token = claimed["claim_token"].clone();
    assert_eq!((&claimed["status"], &claimed["assigned_agent"]), (&json!("claimed"), &json!("agent.ada")));
    fits(&mcp, "tasks", act("start", json!({ "claim_token": token }))).await;
    fits(&mcp, "tasks", act("progress", json!({ "claim_token": token, "details": { "page": 3 } }))).await;
    mcp.refused("tasks", act("complete", json!({ "claim_token": 99 })), "claim_conflict").await;
    mcp.refused("tasks", act("complete", json!({ "version": 99 })), "version_conflict").await;
    let output = json!({ "claim_token": token, "output": { "pages": 12 } });
    let done = fits(&mcp, "tasks", act("complete", output)).await["tasks"][0].clone();
    assert_eq!((&done["status"], &done["output"]["pages"]), (&json!("completed"), &json!(12)));
    assert_eq!(fits(&mcp, "tasks", ready).await["tasks"][0]["id"], next, "what waited for it is ready");
    let got = fits(&mcp, "tasks", json!({ "action": "get", "task_id": next })).await;
    assert_eq!(got["tasks"][0]["depends_on"], json!([task]));
    mcp.refused("tasks", json!({ "action": "delegate", "task_id": next }), "invalid_request").await;
    mcp.refused("tasks", json!({ "action": "get", "task_id": "task_nobody" }), "not_found").await;
    let stranger = Mcp::new(&world.client("wrong"), Era::Stateless);
    stranger
        .request("tools/call", json!({ "name": "tasks", "arguments": {} }))
        .await
        .refused(401, "unauthenticated");
    world.end().await;
}

#[tokio::test]
async fn leases_and_costs_belong_to_an_intent() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    for (n, era) in ERAS.into_iter().enumerate() {
        let mcp = Mcp::new(&ada, era);
        let lease = |action: &str, more: Value| {
            let mut arguments = json!({ "action": action, "intent_id": intent });
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            arguments
        };
        let scope = json!({ "scope": format!("part{n}"), "duration_seconds": 60 });
        let held = fits(&mcp, "leases", lease("acquire", scope)).await["leases"][0].clone();
        assert_eq!((&held["agent_id"], &held["status"]), (&json!("agent.ada"), &json!("active")));
        assert_eq!(
            fits(&mcp, "leases", lease("list", json!({}))).await["leases"].as_array().unwrap().len(),
            1
        );
        let renew = lease("renew", json!({ "lease_id": held["id"], "duration_seconds": 600 }));
        assert!(
            fits(&mcp, "leases", renew).await["leases"][0]["expires_at"].as_str()
                > held["expires_at"].as_str()
        );
        let release = lease("release", json!({ "lease_id": held["id"] }));
        assert_eq!(fits(&mcp, "leases", release).await["leases"][0]["status"], "released");
        mcp.refused("leases", lease("acquire", json!({})), "invalid_request").await;
        let cost = |amount: Value, key: &str| {
            json!({
                "action": "record", "intent_id": intent, "cost_type": "tokens", "amount": amount, "unit": format!("U{n}"),
                "idempotency_key": format!("{key}{n}"),
            })
        };
        fits(&mcp, "costs", cost(json!("0.10"), "a")).await;
        let made = fits(&mcp, "costs", cost(json!(0.2), "b")).await["costs"][0].clone();
        assert_eq!(fits(&mcp, "costs", cost(json!(0.2), "b")).await["costs"][0]["id"], made["id"]);
        let all = fits(&mcp, "costs", json!({ "action": "list", "intent_id": intent })).await;
        assert_eq!(all["totals"][format!("U{n}")], json!(0.3), "{all}");
        mcp.refused("costs", cost(json!(-1), "c"), "invalid_request").await;
    }
    world.end().await;
}

#[tokio::test]
async fn memory_is_set_found_and_deleted() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (mcp, other) = (Mcp::new(&ada, Era::Stateless), Mcp::new(&bob, Era::Stateless));
    let set =
        |value: u32| json!({ "action": "set", "key": "size", "value": { "n": value }, "tags": ["market"] });
    let first = fits(&mcp, "memory", set(1)).await["entries"][0].clone();
    let second = fits(&mcp, "memory", set(2)).await["entries"][0].clone();
    assert_eq!((&second["id"], &second["value"]["n"]), (&first["id"], &json!(2)));
    let mut stale = set(3);
    stale["version"] = first["version"].clone();
    mcp.refused("memory", stale, "version_conflict").await;
    let get = json!({ "action": "get", "key": "size" });
    assert_eq!(fits(&mcp, "memory", get.clone()).await["entries"][0]["value"]["n"], 2);
    let found = fits(&mcp, "memory", json!({ "action": "list", "tags": ["market"] })).await;
    assert_eq!(found["entries"].as_array().unwrap().len(), 1);
    // A retry acts once, whatever was stored in between.
    let keyed = |key: &str, value: u32| {
        let mut set = set(value);
        set["key"] = json!("retried");
        set["idempotency_key"] = json!(key);
        set
    };
    let of = json!({ "action": "get", "key": "retried" });
    let made = fits(&mcp, "memory", keyed("m1", 1)).await["entries"][0].clone();
    let again = fits(&mcp, "memory", keyed("m1", 1)).await["entries"][0].clone();
    assert_eq!((&again["id"], &again["version"]), (&made["id"], &made["version"]));
    fits(&mcp, "memory", keyed("m2", 2)).await;
    fits(&mcp, "memory", keyed("m3", 3)).await;
    for (key, value) in [("m1", 1), ("m2", 2), ("m3", 3)] {
        let done = fits(&mcp, "memory", keyed(key, value)).await["entries"][0].clone();
        assert_eq!((&done["id"], &done["value"]["n"]), (&made["id"], &json!(value)));
    }
    assert_eq!(fits(&mcp, "memory", of).await["entries"][0]["value"]["n"], 3, "nothing was stored again");
    mcp.refused("memory", keyed("m1", 4), "idempotency_mismatch").await;
    // It is the agent's own.
    other.refused("memory", get.clone(), "not_found").await;
    let theirs = json!({ "action": "list", "agent_id": "agent.ada" });
    assert_eq!(fits(&other, "memory", theirs).await["entries"], json!([]));
    fits(&mcp, "memory", json!({ "action": "delete", "memory_id": first["id"] })).await;
    mcp.refused("memory", get, "not_found").await;
    mcp.refused("memory", json!({ "action": "set", "key": "size" }), "invalid_request").await;
    world.end().await;
}

/// Returns a task for agent.ada instead.
fn back_again(task: &Value) -> Value {
    let mut task = task.clone();
    task["to"] = json!("agent.ada");
    task
}

#[tokio::test]
async fn an_envelope_is_completed() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (a, b) = (Mcp::new(&ada, Era::Stateless), Mcp::new(&bob, Era::Handshake));
    let task = json!({ "type": "task", "to": "agent.bob", "intent": "ops.backup.check", "payload": { "host": "db1" } });
    let ask = json!({ "envelope": task, "idempotency_key": "k1" });
    let sent = fits(&a, "send_envelope", ask.clone()).await;
    // The key makes the id, so that a retry is refused like any other.
    a.refused("send_envelope", ask.clone(), "duplicate_id").await;
    let got = fits(&b, "read_mailbox", json!({})).await["items"][0]["envelope"].clone();
    assert_eq!((&got["v"], &got["from"], &got["id"]), (&json!("1"), &json!("agent.ada"), &sent["id"]));
    assert_eq!((&got["ts"], &got["corr"]), (&json!(rfc3339(world.ctx().now())), &sent["id"]));
    // A reply stays in its thread.
    let reply = json!({ "type": "result", "to": "agent.ada", "intent": "ops.backup.check", "reply_to": got["id"], "payload": {} });
    let replied = fits(&b, "send_envelope", json!({ "envelope": reply })).await;
    let back = fits(&a, "read_mailbox", json!({})).await["items"][0]["envelope"].clone();
    assert_eq!((&back["id"], &back["corr"]), (&replied["id"], &got["corr"]));
    // Nobody else can compute the id from the key, and so take it first; every server makes the same.
    let guessed = hex(&sha256("agent.ada\0k1"));
    assert!(!sent["id"].as_str().unwrap().contains(&guessed), "{sent}");
    let theirs = json!({ "envelope": back_again(&task), "idempotency_key": "k1" });
    assert_ne!(fits(&b, "send_envelope", theirs).await["id"], sent["id"], "a key is its agent's own");
    let other = World::on(Setup::default(), world.database.clone()).await;
    let elsewhere = Mcp::new(&other.client("key-of-agent.ada"), Era::Handshake);
    elsewhere.refused("send_envelope", ask, "duplicate_id").await;
    other.server.stop().await;
    // Two without a key are two envelopes.
    let plain = json!({ "envelope": task });
    assert_ne!(
        fits(&a, "send_envelope", plain.clone()).await["id"],
        fits(&a, "send_envelope", plain.clone()).await["id"]
    );
    // A service that acts for many names the sender.
    let any = Mcp::new(&world.any(), Era::Stateless);
    any.refused("send_envelope", plain.clone(), "invalid_envelope").await;
    let acting = Mcp::new(&world.any().acting_as("agent.ada"), Era::Stateless);
    fits(&acting, "send_envelope", plain).await;
    world.end().await;
}
