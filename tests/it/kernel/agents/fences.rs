//! Leases and claims that a request names: it takes effect only while they hold, by whichever way it comes and on
//! whichever server.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::sessions::{Write, channel, writes};
use entente_harness::cli::{refused_with, told};
use entente_harness::jobs::Hand;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Value, World, json};

/// Returns the client whose requests name this lease.
fn under(client: &Client, lease: &Value) -> Client {
    client.with("entente-lease", &named(&lease["id"], &lease["fencing_token"]))
}

/// Returns the client whose requests name this claim of a task or a job.
fn by(client: &Client, id: &Value, token: &Value) -> Client {
    client.with("entente-claim", &named(id, token))
}

fn named(id: &Value, token: &Value) -> String {
    let token = token.as_str().map_or_else(|| token.to_string(), str::to_owned);
    format!("{}; token={token}", id.as_str().unwrap())
}

/// Acquires a lease for these seconds.
async fn lease(client: &Client, intent: &str, scope: &str, seconds: u32) -> Value {
    let ask = json!({ "scope": scope, "duration_seconds": seconds });
    client.post(&format!("/intents/{intent}/leases"), ask).await.is(200)
}

/// Requires that no write passes by a client of `stale`, and then each by `valid`.
async fn only_by(valid: &Client, stale: &[Client], code: &str, writes: Vec<Write>) {
    for (method, path, body) in writes {
        for client in stale {
            client.send(method, &path, Some(body.to_string())).await.refused(409, code);
        }
        let done = valid.send(method, &path, Some(body.to_string())).await;
        assert!((200..300).contains(&done.status), "{path}: {} {}", done.status, done.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_of_writing_is_open_under_a_lease_that_is_over() {
    let (one, other) = World::two().await;
    let (ada, there) = (one.agent("agent.ada").await, other.agent("agent.ada").await);
    let writes = writes(&ada).await;
    let messages = writes[0].1.clone();
    let (intent, _) = channel(&ada).await;
    let over = lease(&ada, &intent, "released", 60).await;
    let path = format!("/intents/{intent}/leases/{}", over["id"].as_str().unwrap());
    // The lease that a request names may be the one that it ends.
    under(&there, &over).delete(&path).await.ok();
    let held = lease(&ada, &intent, "held", 600).await;
    let mut wrong = held.clone();
    wrong["fencing_token"] = json!(held["fencing_token"].as_i64().unwrap() + 1);
    let stale = [under(&ada, &over), under(&there, &over), under(&ada, &wrong)];
    only_by(&under(&there, &held), &stale, "lease_ended", writes).await;
    let one_message = json!({ "sender": "agent.ada", "payload": {} });
    let batch = json!({ "messages": [one_message, one_message] });
    let refused = stale[1].post(&format!("{messages}/batch"), batch).await.is(207);
    assert!(refused["results"].as_array().unwrap().iter().all(|one| one["error"]["code"] == "lease_ended"));
    // It is its holder's; reading is free.
    let bob = one.agent("agent.bob").await;
    under(&bob, &held).post("/intents", json!({ "title": "x" })).await.refused(409, "lease_ended");
    stale[0].get(&messages).await.ok();
    other.end().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_over_by_the_databases_clock_and_when_it_is_handed_over() {
    let (one, other) = World::two().await;
    let (ada, there) = (one.agent("agent.ada").await, other.agent("agent.ada").await);
    let (intent, messages) = channel(&ada).await;
    let say = json!({ "sender": "agent.ada", "payload": {} });
    let (short, long) = (lease(&ada, &intent, "s", 1).await, lease(&ada, &intent, "l", 60).await);
    under(&there, &short).post(&messages, say.clone()).await.is(201);
    sleep(Duration::from_millis(1100)).await;
    under(&ada, &short).post(&messages, say.clone()).await.refused(409, "lease_ended");
    under(&there, &short).post("/intents", json!({ "title": "x" })).await.refused(409, "lease_ended");
    let renewed = json!({ "duration_seconds": 60 });
    let renewal = format!("/intents/{intent}/leases/{}", long["id"].as_str().unwrap());
    under(&there, &short).patch(&renewal, renewed.clone()).await.refused(409, "lease_ended");
    under(&there, &long).patch(&renewal, renewed).await.ok();
    one.agent("agent.bob").await;
    let handed = json!({ "to": "agent.bob", "leases": [long["id"]] });
    under(&ada, &long).post(&format!("/intents/{intent}/handover"), handed).await.ok();
    under(&there, &long).post(&messages, say).await.refused(409, "lease_ended");
    other.end().await;
    one.end().await;
}

/// The next holder is told that it holds the lease only after the writes under the one before are committed.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_holder_waits_for_a_write_under_way() {
    let (one, other) = World::two().await;
    let ada = one.agent("agent.ada").await;
    let (intent, _) = channel(&ada).await;
    let short = lease(&ada, &intent, "s", 1).await;
    let mut write = one.hold().await;
    let id: entente_domain::ids::LeaseId = short["id"].as_str().unwrap().parse().unwrap();
    let require = sqlx::query("SELECT require_lease($1, 'agent.ada', $2)").bind(id.uuid());
    require.bind(short["fencing_token"].as_i64().unwrap()).execute(&mut *write).await.unwrap();
    sleep(Duration::from_millis(1100)).await;
    let there = other.agent("agent.ada").await.patient();
    let next = async { lease(&there, &intent, "s", 60).await };
    let mut next = Box::pin(next);
    assert!(timeout(Duration::from_millis(700), &mut next).await.is_err(), "it did not wait");
    write.commit().await.unwrap();
    let began = Instant::now();
    assert!(next.await["fencing_token"].as_i64() > short["fencing_token"].as_i64());
    assert!(began.elapsed() < Duration::from_secs(5));
    other.end().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_of_writing_is_open_by_a_claim_of_a_task_that_is_over() {
    let (one, other) = World::two().await;
    let (ada, there) = (one.agent("agent.ada").await, other.agent("agent.ada").await);
    let writes = writes(&ada).await;
    let (intent, messages) = channel(&ada).await;
    let task = ada.post(&format!("/intents/{intent}/tasks"), json!({ "name": "t" })).await.ok();
    let id = task["id"].clone();
    let path = format!("/tasks/{}", id.as_str().unwrap());
    let first = ada.post(&format!("{path}/claim"), json!({})).await.ok()["claim_token"].clone();
    by(&there, &id, &first).post(&format!("{path}/release"), json!({})).await.ok();
    let stale = [by(&ada, &id, &first), by(&there, &id, &first)];
    stale[0].post("/intents", json!({ "title": "x" })).await.refused(409, "claim_conflict");
    let second = there.post(&format!("{path}/claim"), json!({})).await.ok()["claim_token"].clone();
    only_by(&by(&there, &id, &second), &stale, "claim_conflict", writes).await;
    // Completing ends the claim that it is made by.
    by(&ada, &id, &second).post(&format!("{path}/complete"), json!({})).await.ok();
    let say = json!({ "sender": "agent.ada", "payload": {} });
    by(&ada, &id, &second).post(&messages, say).await.refused(409, "claim_conflict");
    other.end().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_of_writing_is_open_by_a_claim_of_a_job_that_is_over() {
    let (one, other) = World::two().await;
    let (ada, there) = (one.agent("agent.ada").await, other.agent("agent.ada").await);
    let writes = writes(&ada).await;
    let hand = Hand::of(&ada, "sum@1").await;
    let mut jobs = Vec::new();
    for _ in 0..2 {
        ada.post("/jobs", json!({ "agent": "sum" })).await.is(201);
        jobs.push(hand.one().await);
    }
    let claim = |client: &Client, job: &Value| by(client, &job["job_id"], &job["claim_token"]);
    let end = json!({ "claim_token": jobs[0]["claim_token"], "result": 1 });
    let path = format!("/jobs/{}/result", jobs[0]["job_id"].as_str().unwrap());
    // The report may be made under the claim that it ends.
    claim(&there, &jobs[0]).post(&path, end).await.ok();
    let mut wrong = jobs[1].clone();
    wrong["claim_token"] = jobs[0]["claim_token"].clone();
    let stale = [claim(&ada, &jobs[0]), claim(&there, &jobs[0]), claim(&ada, &wrong)];
    only_by(&claim(&there, &jobs[1]), &stale, "CLAIM_LOST", writes).await;
    // Many at once, on two servers, with reports on the job itself: none waits for another for ever.
    let path = format!("/jobs/{}/events", jobs[1]["job_id"].as_str().unwrap());
    let events = json!([{ "kind": "log", "body": { "level": "info", "message": "m" } }]);
    let body = json!({ "claim_token": jobs[1]["claim_token"], "events": events });
    let began = Instant::now();
    let sends = (0..40).map(|n| {
        let (client, body, path) = (claim(if n % 2 == 0 { &ada } else { &there }, &jobs[1]), &body, &path);
        async move { client.post(path, body.clone()).await.ok() }
    });
    futures_util::future::join_all(sends).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    other.end().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_lease_and_no_claim_is_refused_with_its_form() {
    let world = World::with(entente_harness::Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let (intent, _) = channel(&ada).await;
    let held = lease(&ada, &intent, "a", 60).await;
    let (id, token) = (held["id"].as_str().unwrap(), held["fencing_token"].as_i64().unwrap());
    let job = "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F";
    for (name, value) in [
        ("entente-lease", String::new()),
        ("entente-lease", id.to_owned()),
        ("entente-lease", format!("{id}; token=")),
        ("entente-lease", format!("{id}; token=+{token}")),
        ("entente-lease", format!("{id}; token=0{token}")),
        ("entente-lease", format!("{id}; token={token}; token={token}")),
        ("entente-lease", format!("{id}, {id}; token={token}")),
        ("entente-lease", format!("{id}; token=99999999999999999999")),
        ("entente-lease", format!("{job}; token={token}")),
        ("entente-claim", format!("{id}; token={token}")),
        ("entente-claim", format!("{job}; token=ct'); DROP TABLE leases; --")),
        ("entente-claim", format!("{job}; token={}", "a".repeat(201))),
        ("entente-claim", "task_01J9ZK4T6Q8R2V5X7Y9B1C3D5F; token=ct_1".to_owned()),
    ] {
        let fault = ada.with(name, &value).post("/intents", json!({ "title": "x" })).await;
        let fault = fault.refused(422, "invalid_parameter");
        assert!(fault["detail"].as_str().unwrap().to_lowercase().contains(name), "{value}: {fault}");
    }
    let twice = under(&ada, &held).with("Entente-Lease", &named(&held["id"], &held["fencing_token"]));
    let twice = twice.post("/intents", json!({ "title": "x" })).await;
    twice.refused(422, "invalid_parameter");
    for (name, value, code) in [
        ("entente-lease", "lease_01J9ZK4T6Q8R2V5X7Y9B1C3D5F; token=1".to_owned(), "lease_ended"),
        ("entente-claim", "task_01J9ZK4T6Q8R2V5X7Y9B1C3D5F; token=1".to_owned(), "claim_conflict"),
        ("entente-claim", format!("{job}; token=ct_1"), "CLAIM_LOST"),
    ] {
        ada.with(name, &value).post("/intents", json!({ "title": "x" })).await.refused(409, code);
    }
    // Without spaces it is the same; and all of them together.
    let tight = ada.with("entente-lease", &format!("{id};token={token}"));
    tight.post("/intents", json!({ "title": "x" })).await.ok();
    let epoch = ada.post("/agents/agent.ada/sessions", json!({})).await.is(201)["epoch"].to_string();
    tight.with("entente-epoch", &epoch).post("/intents", json!({ "title": "x" })).await.ok();
    // Opening a session judges the lease too.
    let over = ada.with("entente-lease", &format!("{id}; token={}", token + 1));
    let both = over.with("entente-epoch", &epoch);
    both.post("/agents/agent.ada/sessions", json!({})).await.refused(409, "lease_ended");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_and_commands_write_under_a_lease() {
    let world = World::with(entente_harness::Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let (intent, messages) = channel(&ada).await;
    let channel = messages.split('/').nth(2).unwrap();
    let (over, held) = (lease(&ada, &intent, "a", 60).await, lease(&ada, &intent, "b", 60).await);
    ada.delete(&format!("/intents/{intent}/leases/{}", over["id"].as_str().unwrap())).await.ok();
    for era in [Era::Handshake, Era::Stateless] {
        let say = json!({ "channel": channel, "payload": { "n": 1 } });
        Mcp::new(&under(&ada, &over), era).refused("send_message", say.clone(), "lease_ended").await;
        Mcp::new(&under(&ada, &held), era).ok("send_message", say).await;
    }
    let key = "key-of-agent.ada";
    let of = |lease: &Value| named(&lease["id"], &lease["fencing_token"]);
    told(&world, key, &["agent", "register", "agent.ada", "--under-lease", &of(&held)]).await;
    let stale = ["agent", "register", "agent.ada", "--under-lease", &of(&over)];
    assert!(refused_with(&world, key, &stale).await.contains("lease_ended"));
    world.end().await;
}
