//! Jobs with credentials from submission to end, over REST: who sees them, and that every end of a job revokes
//! them.

use std::time::Duration;

use super::stage::{broker, litellm, places_of, setup, states, take_back, world};
use super::upstream::{ADMIN_KEY, ProvisionerError, Upstream};
use entente_harness::jobs::{Hand, events, id, kinds, status};
use entente_harness::process::{KEY, Launch, Place, key_of};
use entente_harness::{Client, Cluster, Value, World, json, talk};

/// Returns the submission of a job.
fn ask() -> Value {
    json!({ "agent": "echo", "lease_request": { "model.use": ["gpt-9"], "agent.delegate": ["echo"] } })
}

fn plain(upstream: &Upstream) -> Value {
    litellm(upstream, &json!({}))
}

/// Starts a server with an upstream, a client and a worker.
async fn working() -> (World, Upstream, Client, Hand) {
    let (world, upstream) = world(plain).await;
    let (client, hand) = (world.agent("agent.client").await, Hand::of(&world.any(), "echo@1.0.0").await);
    (world, upstream, client, hand)
}

fn value(accepted: &Value) -> &str {
    accepted["credentials"][0]["value"].as_str().unwrap()
}

#[tokio::test]
async fn a_job_is_accepted_with_its_credentials_and_nobody_else_sees_them() {
    let (world, upstream, client, hand) = working().await;
    let accepted = client.post("/jobs", ask()).await.is(201);
    assert_eq!(upstream.out(), [value(&accepted)], "made before it was accepted");
    let job = id(&accepted);
    let claimed = hand.one().await;
    assert_eq!(claimed["credentials"], accepted["credentials"]);
    hand.events(&claimed, json!([{ "kind": "log", "body": { "level": "info", "message": "hello" } }]))
        .await
        .ok();
    let secret = value(&accepted);
    let admin = world.admin().await;
    for path in ["/jobs", &format!("/jobs/{job}"), &format!("/jobs/{job}/events"), "/workers", "/arcp/agents"]
    {
        for who in [&client, &admin] {
            let text = who.get(path).await.text;
            assert!(!text.contains(secret) && !text.contains("credentials"), "{path}: {text}");
        }
    }
    for path in ["/credentials", "/audit"] {
        assert!(!admin.get(path).await.text.contains(secret), "{path}");
    }
    assert_eq!(places_of(&world, secret).await, ["credentials.value"]);
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    take_back(&world).await;
    assert!(places_of(&world, secret).await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn every_end_of_a_job_ends_its_credentials() {
    let (world, upstream, client, hand) = working().await;
    let session = |accepted: &Value| json!({ "session_id": accepted["session_id"] });
    // Cancelled while it waits for a worker.
    let waiting = client.post("/jobs", ask()).await.is(201);
    client.post(&format!("/jobs/{}/cancel", id(&waiting)), session(&waiting)).await.is(202);
    assert_eq!((status(&client, id(&waiting)).await.as_str(), take_back(&world).await), ("cancelled", 1));
    assert!(upstream.out().is_empty());

    for (how, end) in [
        ("result", "success"),
        ("error", "error"),
        ("cancel", "cancelled"),
        ("deadline", "timed_out"),
        ("expiry", "error"),
        ("loss", "error"),
    ] {
        let mut asked = ask();
        match how {
            "deadline" => asked["max_runtime_sec"] = json!(30),
            "expiry" => {
                let at = world.ctx().now() + chrono::TimeDelta::seconds(29);
                asked["lease_constraints"] = json!({ "expires_at": entente_domain::clock::rfc3339(at) });
            }
            _ => {}
        }
        let accepted = client.post("/jobs", asked).await.is(201);
        let job = hand.one().await;
        assert_eq!(upstream.out(), [value(&accepted)]);
        match how {
            "result" => drop(hand.tell(&job, "result", json!({ "result": 1 })).await.ok()),
            "error" => drop(
                hand.tell(&job, "error", json!({ "code": "INTERNAL_ERROR", "message": "no" })).await.ok(),
            ),
            "cancel" => {
                client.post(&format!("/jobs/{}/cancel", id(&job)), session(&accepted)).await.is(202);
                assert_eq!(take_back(&world).await, 0, "its worker still stops");
                world.pass(30).await;
            }
            "loss" => {
                // Its worker is lost as often as allowed; each next one gets the same value.
                let mut lost = 0;
                world.pass(60).await;
                while let [again] = hand.claim(10).await.as_slice() {
                    assert_eq!(again["credentials"], accepted["credentials"]);
                    lost += 1;
                    world.pass(60).await;
                }
                assert!(lost > 0, "nobody was given it again");
            }
            _ => world.pass(30).await,
        }
        assert_eq!(status(&client, id(&job)).await, end, "{how}");
        assert_eq!((take_back(&world).await, upstream.out().len()), (1, 0), "{how}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_child_has_its_own_and_its_parents_end_ends_them() {
    let (world, upstream, client, hand) = working().await;
    client.post("/jobs", ask()).await.is(201);
    let parent = hand.one().await;
    let lease = json!({ "model.use": ["gpt-9"], "agent.delegate": ["echo"] });
    let child = json!({ "delegate_id": "d-1", "agent": "echo", "lease_request": lease });
    let accepted = hand.tell(&parent, "delegate", child.clone()).await.is(201);
    assert!(accepted.get("credentials").is_none(), "they are the child's worker's");
    let again = hand.tell(&parent, "delegate", child).await.ok();
    assert_eq!((&again["job_id"], upstream.out().len()), (&accepted["job_id"], 2), "made once");
    let claimed = hand.one().await;
    assert_ne!(claimed["credentials"][0]["value"], parent["credentials"][0]["value"]);
    let told = events(&client, id(&parent)).await;
    assert_eq!(
        (told[0].0.as_str(), &told[0].1["child_job_id"], told.len()),
        ("delegate", &accepted["job_id"], 1)
    );
    hand.tell(&parent, "result", json!({ "result": 1 })).await.ok();
    assert_eq!((take_back(&world).await, upstream.out().len()), (2, 0));
    // The child goes on; below a job that is over nothing gets credentials any more.
    let below = json!({ "delegate_id": "d-2", "agent": "echo", "lease_request": { "model.use": ["gpt-9"] } });
    hand.tell(&claimed, "delegate", below.clone()).await.refused(422, "INVALID_REQUEST");
    // Asked for by an event, it is refused like any other child, once, and the events after it are kept.
    let batch = json!([
        { "kind": "delegate", "event_key": "d", "body": below },
        { "kind": "log", "event_key": "l", "body": { "level": "info", "message": "on" } },
    ]);
    for denials in [json!([["d-2", "INVALID_REQUEST"]]), json!([])] {
        let told = hand.events(&claimed, batch.clone()).await.ok();
        let denied = told["denied"].as_array().unwrap().iter();
        let denied: Vec<Value> = denied.map(|one| json!([one["call_id"], one["code"]])).collect();
        assert_eq!((json!(denied), &told["children"]), (denials, &json!([])), "{told}");
        assert_eq!(kinds(&client, id(&claimed)).await, ["delegate", "tool_result", "log"]);
    }
    for over in [&parent, &claimed] {
        let mut late = ask();
        late["parent_job_id"] = over["job_id"].clone();
        client.post("/jobs", late).await.refused(422, "INVALID_REQUEST");
    }
    take_back(&world).await;
    assert!(upstream.out().is_empty(), "they were taken back");
    world.end().await;
}

/// The parent's end and the child's acceptance are transactions of the same instant: either the child is refused, or the
/// end of the parent ends its credentials.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_comes_as_its_parent_ends_leaves_no_credential_behind() {
    let (world, upstream, client, hand) = working().await;
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..24_u64 {
        client.post("/jobs", ask()).await.is(201);
        let parent = hand.one().await;
        let mut child = json!({ "agent": "echo", "lease_request": { "model.use": ["gpt-9"] } });
        // Half of them are submitted by the client, half delegated by the worker.
        let of_client = round % 2 == 0;
        child[if of_client { "parent_job_id" } else { "delegate_id" }] =
            if of_client { parent["job_id"].clone() } else { json!("d") };
        let asked = async {
            if of_client {
                client.post("/jobs", child).await
            } else {
                hand.tell(&parent, "delegate", child).await
            }
        };
        let ended = async {
            tokio::time::sleep(Duration::from_millis(round)).await;
            hand.tell(&parent, "result", json!({ "result": 1 })).await
        };
        let (asked, ended) = tokio::join!(asked, ended);
        ended.ok();
        match asked.status {
            201 => accepted += 1,
            409 | 422 | 503 => refused += 1,
            other => panic!("{other}: {}", asked.text),
        }
        assert!(
            !states(&world).await.iter().any(|state| state == "live" || state == "minting"),
            "round {round}"
        );
        take_back(&world).await;
        assert!(upstream.out().is_empty(), "round {round}: a credential lives on");
        for job in hand.claim(10).await {
            assert_eq!(job["credentials"], json!([]));
            hand.tell(&job, "result", json!({ "result": 1 })).await.ok();
        }
    }
    assert_eq!(accepted + refused, 24);
    world.end().await;
}

#[tokio::test]
async fn a_child_that_gets_none_was_never_there() {
    let (world, upstream, client, hand) = working().await;
    client.post("/jobs", ask()).await.is(201);
    let parent = hand.one().await;
    upstream.minting(Some(ProvisionerError::Says(500, "")));
    let child = json!({ "delegate_id": "d-1", "agent": "echo", "lease_request": { "model.use": ["gpt-9"] } });
    hand.tell(&parent, "delegate", child.clone()).await.is(503);
    assert!(events(&client, id(&parent)).await.is_empty(), "nobody is told of a child that is none");
    upstream.minting(None);
    hand.tell(&parent, "delegate", child).await.is(201);
    hand.tell(&parent, "result", json!({ "result": 1 })).await.ok();
    world.clock.advance(120);
    take_back(&world).await;
    assert!(upstream.out().is_empty());
    world.server.stop().await;
}

#[tokio::test]
async fn without_its_credentials_a_job_is_not_accepted() {
    let (world, upstream, client, hand) = working().await;
    let mut keyed = ask();
    keyed["idempotency_key"] = json!("k-1");
    upstream.minting(Some(ProvisionerError::Says(500, "")));
    let refused = client.post("/jobs", keyed.clone()).await.is(503);
    assert_eq!((&refused["code"], &refused["retryable"]), (&json!("UNAVAILABLE"), &json!(true)));
    assert_eq!(client.get("/jobs").await.ok()["jobs"], json!([]));
    assert!(hand.claim(10).await.is_empty());
    upstream.minting(None);
    let accepted = client.post("/jobs", keyed).await.is(201);
    assert_eq!(value(&accepted), upstream.out()[0], "the key was not used up");
    for table in ["jobs", "job_clock"] {
        let count: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}")))
            .fetch_one(&world.ctx().pool)
            .await
            .unwrap();
        assert_eq!(count, 1, "{table}");
    }
    world.server.stop().await;
}

#[tokio::test]
async fn the_same_key_is_the_same_job_with_the_same_credentials() {
    let (world, upstream, client, hand) = working().await;
    let mut keyed = ask();
    keyed["idempotency_key"] = json!("k-1");
    let all = futures_util::future::join_all((0..20).map(|_| client.post("/jobs", keyed.clone()))).await;
    let first = all[0].ok();
    assert!(all.iter().all(|reply| reply.ok() == first), "one of them got something else");
    assert_eq!(all.iter().filter(|reply| reply.status == 201).count(), 1);
    assert_eq!(upstream.out(), [value(&first)]);
    // Also after its end: the response is the same, but the value is no longer valid.
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    take_back(&world).await;
    let database = world.database.clone();
    world.server.stop().await;
    let world = World::on(setup(&json!([plain(&upstream)])), database).await;
    assert_eq!(world.client("key-of-agent.client").post("/jobs", keyed).await.is(200), first);
    world.end().await;
}

#[tokio::test]
async fn who_hangs_up_leaves_no_job_behind() {
    let (world, upstream, client, hand) = working().await;
    upstream.minting(Some(ProvisionerError::Hangs));
    let mut keyed = ask();
    keyed["idempotency_key"] = json!("k-1");
    let asked = tokio::time::timeout(Duration::from_millis(300), client.post("/jobs", keyed.clone())).await;
    assert!(asked.is_err(), "it was not to be answered");
    upstream.minting(None);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(hand.claim(10).await.is_empty());
    world.pass(60).await;
    take_back(&world).await;
    assert_eq!(client.get("/jobs").await.ok()["jobs"], json!([]));
    client.post("/jobs", keyed).await.is(201);
    world.server.stop().await;
}

#[tokio::test]
async fn a_job_takes_its_place_on_its_intent_when_it_is_accepted() {
    let (world, upstream, client, hand) = working().await;
    let (intent, _) = talk(&client, json!({})).await;
    let mut asked = ask();
    asked["intent_id"] = json!(intent);
    let log = |kind: &'static str| {
        let path = format!("/intents/{intent}/events?event_type={kind}");
        let client = &client;
        async move { client.get(&path).await.ok().as_array().unwrap().len() }
    };
    upstream.minting(Some(ProvisionerError::Says(500, "")));
    client.post("/jobs", asked.clone()).await.is(503);
    assert_eq!(log("job.accepted").await, 0);
    upstream.minting(None);
    client.post("/jobs", asked).await.is(201);
    assert_eq!(log("job.accepted").await, 1);
    let claimed = hand.one().await;
    assert_eq!(claimed["credentials"].as_array().unwrap().len(), 1);
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    assert_eq!(log("job.ended").await, 1);
    world.clock.advance(120);
    take_back(&world).await;
    world.end().await;
}

#[tokio::test]
async fn two_provisioners_give_two_credentials_or_none() {
    let upstream = Upstream::start().await;
    let other = Upstream::start().await;
    let mut second = broker(&other);
    second["agents"] = json!([]);
    let setup = setup(&json!([plain(&upstream), second]));
    let world = World::on(setup, Cluster::get().fresh_database().await).await;
    let (client, hand) = (world.agent("agent.client").await, Hand::of(&world.any(), "echo@1.0.0").await);
    let accepted = client.post("/jobs", ask()).await.is(201);
    assert_eq!(accepted["credentials"].as_array().unwrap().len(), 2);
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    assert_eq!(take_back(&world).await, 2);
    other.minting(Some(ProvisionerError::Says(422, "")));
    client.post("/jobs", ask()).await.is(503);
    take_back(&world).await;
    assert_eq!((upstream.out().len(), other.out().len()), (0, 0), "what the one had made is taken back");
    assert!(states(&world).await.iter().all(|state| state == "revoked"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_takes_back_when_it_is_there_again() {
    let upstream = Upstream::start().await;
    let url = Cluster::get().url(&Cluster::get().fresh_database().await);
    let place = Place::new("credentials");
    let file = super::stage::file(&json!([plain(&upstream)]));
    let launch = Launch::shared(&place, &url)
        .with("ENTENTE_CREDENTIALS_FILE", file)
        .with("TEST_ADMIN_KEY", ADMIN_KEY)
        // No log level may reveal a value.
        .with("ENTENTE_LOG", "trace");
    let (mut server, _) = launch.start().await;
    let client = server.client(&key_of("agent.ada"));
    let hand = Hand::of(&server.client(KEY), "echo@1.0.0").await;
    upstream.revoking(Some(ProvisionerError::Says(500, "cannot")));
    let accepted = client.post("/jobs", ask()).await.is(201);
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    // Until one attempt has failed: an attempt during which the server dies is repeated only after its timeout.
    while upstream.asked_on("/key/delete").is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.kill();
    upstream.revoking(None);
    let (server, _) = launch.start().await;
    let began = std::time::Instant::now();
    while !upstream.out().is_empty() {
        assert!(began.elapsed() < Duration::from_mins(1), "it was never taken back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(server);
    let log = place.log();
    assert!(log.len() > 10_000, "{log}");
    for secret in [value(&accepted), ADMIN_KEY] {
        let at = log.lines().find(|line| line.contains(secret));
        assert_eq!(at, None, "a secret is in the log");
    }
}

#[tokio::test]
async fn a_stop_revokes_the_credentials_of_every_open_job() {
    let (world, upstream, client, hand) = working().await;
    let (admin, session) =
        (world.admin().await, |accepted: &Value| json!({ "session_id": accepted["session_id"] }));
    let cancelled = client.post("/jobs", ask()).await.is(201);
    hand.one().await;
    client.post(&format!("/jobs/{}/cancel", id(&cancelled)), session(&cancelled)).await.is(202);
    let running = client.post("/jobs", ask()).await.is(201);
    hand.one().await;
    let waiting = client.post("/jobs", ask()).await.is(201);
    let plain = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    assert_eq!(upstream.out().len(), 3);
    admin.post("/stops", json!({ "scope": "principal:agent.client", "reason": "enough" })).await.is(201);
    world.sweep().await;
    take_back(&world).await;
    assert!(upstream.out().is_empty(), "{:?}", upstream.out());
    let told = [&cancelled, &running, &waiting, &plain].map(|one| id(one).to_owned());
    let mut found = Vec::new();
    for one in &told {
        found.push(status(&admin, one).await);
    }
    // Without its credentials the job that waits could not run later.
    assert_eq!(found, ["running", "running", "cancelled", "pending"]);
    world.pass(60).await;
    world.end().await;
}

#[tokio::test]
async fn a_dead_letter_stays_open_if_its_rerun_gets_no_credentials() {
    let (world, upstream, client, hand) = working().await;
    let accepted = client.post("/jobs", ask()).await.is(201);
    let claimed = hand.one().await;
    hand.tell(&claimed, "error", json!({ "code": "INTERNAL_ERROR", "message": "no" })).await.ok();
    let open = async || {
        let found = client.get("/jobs?dead_letter=open").await.ok()["jobs"].as_array().unwrap().clone();
        found.iter().map(|job| job["job_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(open().await, [accepted["job_id"].clone()]);
    upstream.minting(Some(ProvisionerError::Says(400, "out of budget")));
    let path = format!("/jobs/{}/rerun", id(&accepted));
    assert_eq!(client.post(&path, json!({ "idempotency_key": "again" })).await.status, 503);
    assert_eq!(open().await, [accepted["job_id"].clone()], "nothing runs again");
    let all = json!({ "dead_letter": "open", "idempotency_key": "all" });
    assert_eq!(client.post("/jobs/rerun", all.clone()).await.status, 503);
    assert_eq!(open().await, [accepted["job_id"].clone()]);
    upstream.minting(None);
    let made = client.post("/jobs/rerun", all).await.ok();
    assert_eq!(made["reruns"][0]["rerun_of"], accepted["job_id"], "{made}");
    assert_eq!(open().await, [Value::Null; 0]);
    world.end().await;
}
