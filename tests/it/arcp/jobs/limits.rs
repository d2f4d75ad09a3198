//! Limits of running jobs (beyond ARCP): of agents, of principals and of concurrency keys, on all servers together.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::sleep;

use super::{Hand, id, status};
use entente_harness::socket::Socket;
use entente_harness::{ANY, Client, Setup, Value, World, json};

/// Submits a job of `echo` and returns its id.
async fn submit(client: &Client, more: Value) -> String {
    let mut job = json!({ "agent": "echo" });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    id(&client.post("/jobs", job).await.is(201)).to_owned()
}

fn key(key: &str, max_running: i64) -> Value {
    json!({ "concurrency": { "key": key, "max_running": max_running } })
}

async fn done(hand: &Hand, job: &Value) {
    hand.tell(job, "result", json!({ "result": null })).await.ok();
}

async fn limit(world: &World, scope: &str, name: &str, body: Value) {
    world.admin().await.put(&format!("/arcp/limits/{scope}/{name}"), body).await.ok();
}

/// Has workers on two servers do all jobs of `echo`, and requires that no more than `most` run at once.
async fn work_off(worlds: [&World; 2], hands: &[Hand], jobs: usize, most: i64) {
    let (running, peak, ended) = (AtomicI64::new(0), AtomicI64::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    let one = async |number: usize, hand: &Hand| {
        let client = worlds[number % 2].any();
        let hand = Hand { client, id: hand.id.clone() };
        while ended.load(Ordering::SeqCst) < jobs {
            assert!(began.elapsed() < Duration::from_mins(1), "{ended:?} of {jobs} in a minute");
            let body = json!({ "worker_id": hand.id, "max": 1 + number % 3, "wait_sec": 0.5 });
            let claimed =
                hand.client.post("/jobs/claim", body).await.ok()["jobs"].as_array().unwrap().clone();
            let count = i64::try_from(claimed.len()).unwrap();
            let now = running.fetch_add(count, Ordering::SeqCst) + count;
            peak.fetch_max(now, Ordering::SeqCst);
            assert!(now <= most, "{now} run at once");
            for (place, job) in claimed.iter().enumerate() {
                sleep(Duration::from_millis(5)).await;
                // No longer counted here before it ends there, so that the count is never too high.
                running.fetch_sub(1, Ordering::SeqCst);
                if place == 1 {
                    hand.tell(job, "release", json!({})).await.ok();
                } else {
                    done(&hand, job).await;
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    };
    join_all(hands.iter().enumerate().map(|(number, hand)| one(number, hand))).await;
    assert_eq!(ended.load(Ordering::SeqCst), jobs);
    println!("{jobs} jobs in {:?}, at most {peak:?} of {most} at once", began.elapsed());
}

async fn hands(world: &World, count: usize) -> Vec<Hand> {
    let mut hands = vec![Hand::of(&world.any(), "echo@1").await];
    while hands.len() < count {
        hands.push(Hand::again(&world.any(), "echo@1").await);
    }
    hands
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_never_runs_more_than_its_limit_on_two_servers() {
    let (a, b) = World::two().await;
    let hands = hands(&a, 8).await;
    limit(&a, "agents", "echo", json!({ "max_running": 3 })).await;
    let client = a.agent("agent.client").await;
    let intent = client.post("/intents", json!({ "title": "work" })).await.ok()["id"].clone();
    for n in 0..60 {
        submit(
            &client,
            if n % 5 == 0 { json!({ "intent_id": intent }) } else { json!({ "priority": n % 3 }) },
        )
        .await;
    }
    work_off([&a, &b], &hands, 60, 3).await;
    b.server.stop().await;
    a.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_never_runs_more_than_its_limit_on_two_servers() {
    let (a, b) = World::two().await;
    let hands = hands(&a, 8).await;
    let client = a.agent("agent.client").await;
    for _ in 0..60 {
        submit(&client, key("deploy/shop", 2)).await;
    }
    work_off([&a, &b], &hands, 60, 2).await;
    b.server.stop().await;
    a.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_principal_never_runs_more_than_its_limit_and_holds_up_nobody() {
    let (a, b) = World::two().await;
    let hands = hands(&a, 6).await;
    limit(&a, "principals", "agent.client", json!({ "max_running": 1 })).await;
    let (client, other) = (a.agent("agent.client").await, b.agent("agent.other").await);
    for _ in 0..20 {
        submit(&client, json!({ "priority": 50 })).await;
    }
    let free = submit(&other, json!({})).await;
    let claimed = hands[0].claim(10).await;
    let served: Vec<&str> = claimed.iter().map(|job| job["principal"].as_str().unwrap()).collect();
    assert_eq!(served, ["agent.client", "agent.other"], "the others' turn comes in the same claim");
    assert_eq!(id(&claimed[1]), free);
    for job in &claimed {
        done(&hands[0], job).await;
    }
    work_off([&a, &b], &hands, 19, 1).await;
    b.server.stop().await;
    a.server.stop().await;
}

/// Claims one job, by itself or with a turn.
async fn one_of(hand: &Hand, in_a_turn: bool) -> Vec<Value> {
    if !in_a_turn {
        return hand.claim(1).await;
    }
    let body = json!({ "claim": { "worker_id": hand.id, "max": 1 } });
    hand.client.post("/turn", body).await.ok()["jobs"].as_array().unwrap().clone()
}

#[tokio::test]
async fn full_principals_hide_nobody_however_many_and_urgent_their_jobs_are() {
    let world = World::start().await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let other = world.agent("agent.other").await;
    for number in 0..10 {
        let name = format!("agent.full-{number}");
        let full = world.agent(&name).await;
        limit(&world, "principals", &name, json!({ "max_running": 1 })).await;
        for priority in 1..8 {
            submit(&full, json!({ "priority": priority })).await;
        }
    }
    assert_eq!(hand.claim(10).await.len(), 10, "one of each");
    for in_a_turn in [false, true] {
        let free = submit(&other, json!({})).await;
        let claimed = one_of(&hand, in_a_turn).await;
        assert_eq!(claimed.iter().map(id).collect::<Vec<_>>(), [free], "in a turn: {in_a_turn}");
        assert!(one_of(&hand, in_a_turn).await.is_empty());
    }
    world.end().await;
}

#[tokio::test]
async fn a_turn_takes_no_job_before_one_of_its_key_that_has_waited() {
    let world = World::start().await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let client = world.agent("agent.client").await;
    submit(&client, key("k", 1)).await;
    let running = hand.one().await;
    let urgent =
        submit(&client, json!({ "priority": 9, "concurrency": { "key": "k", "max_running": 1 } })).await;
    assert!(hand.claim(1).await.is_empty(), "it waits for the key");
    let later = submit(&client, key("k", 1)).await;
    // The end of the first and the claim of the next are one request.
    let body = json!({
        "finish": [{ "job_id": id(&running), "claim_token": running["claim_token"], "result": null }],
        "claim": { "worker_id": hand.id, "max": 1 },
    });
    let reply = hand.client.post("/turn", body).await.ok();
    let mut next = reply["jobs"].as_array().unwrap().clone();
    if next.is_empty() {
        next = hand.claim(1).await;
    }
    assert_eq!(next.iter().map(id).collect::<Vec<_>>(), [&urgent], "{reply}");
    done(&hand, &next[0]).await;
    assert_eq!(id(&hand.one().await), later);
    world.end().await;
}

#[tokio::test]
async fn a_full_key_holds_up_neither_others_nor_the_urgent() {
    let world = World::start().await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let (client, other) = (world.agent("agent.client").await, world.agent("agent.other").await);
    let mut jobs = Vec::new();
    for _ in 0..30 {
        world.clock.advance(1);
        jobs.push(submit(&client, key("k", 1)).await);
    }
    let free = submit(&client, json!({})).await;
    let theirs = submit(&other, key("k", 1)).await;
    let claimed = hand.claim(10).await;
    let mut taken: Vec<&str> = claimed.iter().map(id).collect();
    taken.sort_unstable();
    let mut expected = [jobs[0].as_str(), &free, &theirs];
    expected.sort_unstable();
    assert_eq!(taken, expected, "of its principal one, and all the others");
    assert!(hand.claim(10).await.is_empty());
    // When one ends, the most urgent goes on, then the oldest.
    let urgent =
        submit(&client, json!({ "priority": 9, "concurrency": { "key": "k", "max_running": 1 } })).await;
    let mut running = claimed.into_iter().find(|job| id(job) == jobs[0]).unwrap();
    assert!(hand.claim(10).await.is_empty(), "urgent as it is, it waits");
    for expected in [&urgent, &jobs[1], &jobs[2]] {
        done(&hand, &running).await;
        running = hand.one().await;
        assert_eq!(id(&running), expected);
    }
    // A job that is given back makes room too; so does one whose worker is lost, once that is noticed, and one that is
    // cancelled.
    hand.tell(&running, "release", json!({})).await.ok();
    running = hand.one().await;
    assert_eq!((id(&running), &running["attempt"]), (jobs[2].as_str(), &json!(1)));
    world.clock.advance(61);
    assert!(hand.claim(10).await.is_empty(), "until the sweep notices, it counts");
    world.sweep().await;
    let mut claimed = hand.claim(10).await;
    claimed.retain(|job| job["principal"] == "agent.client" && id(job) != free);
    assert_eq!(claimed.iter().map(id).collect::<Vec<_>>(), [jobs[2].as_str()]);
    let admin = world.admin().await;
    admin.post(&format!("/jobs/{}/cancel", jobs[2]), json!({})).await.is(202);
    admin.post(&format!("/jobs/{}/cancel", jobs[3]), json!({})).await.is(202);
    assert_eq!(status(&admin, &jobs[3]).await, "cancelled", "one that waits is cancelled at once");
    world.pass(60).await;
    let mut claimed = hand.claim(10).await;
    claimed.retain(|job| job["principal"] == "agent.client" && id(job) != free);
    assert_eq!(claimed.iter().map(id).collect::<Vec<_>>(), [jobs[4].as_str()]);
    world.end().await;
}

#[tokio::test]
async fn each_job_is_judged_by_the_limit_that_it_names() {
    let world = World::start().await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let client = world.agent("agent.client").await;
    for most in [1, 3, 3, 3] {
        world.clock.advance(1);
        submit(&client, key("k", most)).await;
    }
    let claimed = hand.claim(10).await;
    assert_eq!(claimed.len(), 3);
    for job in &claimed[..2] {
        done(&hand, job).await;
    }
    world.sweep().await;
    assert_eq!(hand.claim(10).await.len(), 1);
    // Without a limit it is one; a key is an exact text of its principal's, whatever it contains.
    for odd in ["*", "k\u{301}", "ḱ", "'; DROP TABLE job_slots; --", "K", " ", "🗝"] {
        for _ in 0..2 {
            submit(&client, json!({ "concurrency": { "key": odd } })).await;
        }
    }
    assert_eq!(hand.claim(100).await.len(), 7);
    world.end().await;
}

#[tokio::test]
async fn only_so_many_jobs_start_within_a_time() {
    let world = World::start().await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let client = world.agent("agent.client").await;
    limit(&world, "agents", "echo", json!({ "max_starts": 3, "per_sec": 10 })).await;
    for _ in 0..8 {
        submit(&client, json!({})).await;
    }
    let first = hand.claim(2).await;
    assert_eq!(first.len(), 2);
    world.clock.advance(4);
    // An end makes no room for a start, and starting again counts again.
    done(&hand, &first[0]).await;
    hand.tell(&first[1], "release", json!({})).await.ok();
    let mut later = hand.claim(5).await;
    assert_eq!(later.len(), 1);
    assert!(hand.claim(5).await.is_empty());
    world.clock.advance(5);
    assert!(hand.claim(5).await.is_empty(), "nine seconds after the first two");
    world.clock.advance(1);
    later.extend(hand.claim(5).await);
    assert_eq!(later.len(), 3);
    world.clock.advance(4);
    later.extend(hand.claim(5).await);
    assert_eq!(later.len(), 4);
    // So for keys; the sweep lets them on when the time has passed.
    world.admin().await.delete("/arcp/limits/agents/echo").await.ok();
    for job in first.iter().chain(&later).chain(&hand.claim(10).await) {
        hand.tell(job, "result", json!({ "result": null })).await;
    }
    let rate = json!({ "concurrency": { "key": "k", "max_starts": 1, "per_sec": 30 } });
    for _ in 0..3 {
        submit(&client, rate.clone()).await;
    }
    for _ in 0..2 {
        let job = hand.one().await;
        done(&hand, &job).await;
        world.pass(29).await;
        assert!(hand.claim(5).await.is_empty());
        world.pass(1).await;
    }
    // Starts that nothing counts are forgotten.
    let job = hand.one().await;
    done(&hand, &job).await;
    world.pass(3_600).await;
    let kept: i64 =
        sqlx::query_scalar("SELECT count(*) FROM job_slots").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(kept, 0);
    world.end().await;
}

#[tokio::test]
async fn jobs_that_run_count_when_a_limit_is_set() {
    let world = World::start().await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let client = world.agent("agent.client").await;
    for _ in 0..6 {
        submit(&client, json!({})).await;
    }
    let running = hand.claim(3).await;
    limit(&world, "agents", "echo", json!({ "max_running": 3 })).await;
    limit(&world, "principals", "agent.client", json!({ "max_running": 4 })).await;
    assert!(hand.claim(3).await.is_empty());
    let listed = world.admin().await.get("/arcp/limits").await.ok();
    assert_eq!((&listed["limits"][0]["name"], &listed["limits"][0]["running"]), (&json!("echo"), &json!(3)));
    assert_eq!(
        (&listed["limits"][1]["name"], &listed["limits"][1]["running"]),
        (&json!("agent.client"), &json!(3))
    );
    done(&hand, &running[0]).await;
    assert_eq!(hand.claim(3).await.len(), 1);
    limit(&world, "agents", "echo", json!({ "max_running": 5 })).await;
    assert_eq!(hand.claim(3).await.len(), 1, "the principal's limit is 4");
    world.end().await;
}

#[tokio::test]
async fn whose_jobs_they_are_sets_their_limits() {
    let world = World::start().await;
    let (any, admin) = (world.any(), world.admin().await);
    Hand::of(&any, "echo@1").await;
    let stranger = world.agent("agent.other").await;
    let body = json!({ "max_running": 3 });
    stranger.put("/arcp/limits/agents/echo", body.clone()).await.refused(403, "PERMISSION_DENIED");
    stranger.put("/arcp/limits/principals/agent.other", body.clone()).await.refused(403, "PERMISSION_DENIED");
    stranger.delete("/arcp/limits/agents/echo").await.refused(403, "PERMISSION_DENIED");
    any.put("/arcp/limits/agents/none", body.clone()).await.refused(404, "NOT_FOUND");
    any.put("/arcp/limits/teams/echo", body.clone()).await.refused(404, "NOT_FOUND");
    for wrong in [
        json!({}),
        json!({ "max_running": 0 }),
        json!({ "max_running": -1 }),
        json!({ "max_running": 10_001 }),
        json!({ "max_starts": 3 }),
        json!({ "per_sec": 3 }),
        json!({ "max_starts": 3, "per_sec": 86_401 }),
        json!({ "max_running": 1.5 }),
        json!({ "max_running": i64::MAX }),
    ] {
        any.put("/arcp/limits/agents/echo", wrong).await.refused(422, "INVALID_REQUEST");
    }
    assert_eq!(any.put("/arcp/limits/agents/echo", body.clone()).await.ok(), body);
    admin.put("/arcp/limits/principals/agent.other", body.clone()).await.ok();
    let names = async |client: &Client| {
        let listed = client.get("/arcp/limits").await.ok();
        let names =
            listed["limits"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&admin).await, ["echo", "agent.other"]);
    assert_eq!(names(&stranger).await, ["agent.other"]);
    any.delete("/arcp/limits/agents/echo").await.ok();
    any.delete("/arcp/limits/agents/echo").await.refused(404, "NOT_FOUND");
    assert_eq!(names(&admin).await, ["agent.other"]);
    let log = admin.get("/admin/log?limit=100").await;
    assert!(log.status == 404 || log.text.contains("job.limits_set"), "{}", log.text);
    for wrong in [
        json!({ "key": "" }),
        json!({ "key": "a\nb" }),
        json!({ "key": "k".repeat(201) }),
        json!({ "key": "k", "max_running": 0 }),
        json!({ "key": "k", "max_starts": 1 }),
        json!({ "key": "k", "limit": 1 }),
        json!({ "max_running": 1 }),
        json!("k"),
    ] {
        let said = json!({ "agent": "echo", "concurrency": wrong });
        any.post("/jobs", said).await.refused(422, "INVALID_REQUEST");
        let said = json!({ "agent": "echo", "x-entente": { "concurrency": wrong } });
        any.post("/jobs", said).await.refused(422, "INVALID_REQUEST");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_waits_hears_of_room_and_sessions_and_children_have_keys() {
    let world = World::with(Setup::live()).await;
    let any = world.any();
    let hand = Hand::of(&any, "echo@1").await;
    let helper = Hand::of(&any, "helper@1").await;
    let mut socket = Socket::open(&world, ANY).await;
    let said = json!({
        "agent": "echo", "lease_request": { "agent.delegate": ["helper"] },
        "x-entente": { "concurrency": { "key": "k" }, "priority": 1 },
    });
    socket.submit(said.clone()).await;
    socket.submit(said).await;
    let first = hand.one().await;
    let shown = any.get(&format!("/jobs/{}", id(&first))).await.ok();
    assert_eq!(shown["concurrency"], json!({ "key": "k", "max_running": 1 }));
    // A child has a key of its own, if any.
    let child =
        json!({ "delegate_id": "d1", "agent": "helper", "concurrency": { "key": "k", "max_running": 2 } });
    hand.tell(&first, "delegate", child).await.is(201);
    let part = helper.one().await;
    done(&helper, &part).await;
    let (client, worker) = (any.clone(), hand.id.clone());
    let waits = tokio::spawn(async move {
        let body = json!({ "worker_id": worker, "max": 1, "wait_sec": 20 });
        let began = Instant::now();
        let got = client.post("/jobs/claim", body).await.ok();
        (got["jobs"].as_array().unwrap().len(), began.elapsed())
    });
    sleep(Duration::from_secs(1)).await;
    done(&hand, &first).await;
    let (count, waited) = waits.await.unwrap();
    assert!(count == 1 && waited < Duration::from_secs(4), "{count} after {waited:?}");
    drop(socket);
    world.server.stop().await;
}

#[tokio::test]
async fn jobs_behind_a_full_key_are_counted_as_waiting() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let pending = async || world.any().get("/arcp/agents/echo/queue").await.ok()["pending"].clone();
    for _ in 0..4 {
        submit(&client, key("k", 1)).await;
    }
    assert_eq!(pending().await, 4);
    // The first claim takes one job, and keeps the others out of the queue.
    let running = hand.claim(10).await;
    assert_eq!((running.len(), pending().await), (1, json!(3)));
    done(&hand, &running[0]).await;
    let running = hand.one().await;
    assert_eq!(pending().await, 2);
    done(&hand, &running).await;
    world.end().await;
}

#[tokio::test]
async fn a_principal_asks_for_no_higher_priority_than_it_may() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let high = json!({ "agent": "echo", "priority": 50, "idempotency_key": "before" });
    let before = id(&ada.post("/jobs", high.clone()).await.is(201)).to_owned();
    let path = "/arcp/limits/principals/agent.ada";
    for wrong in [101, -1] {
        let refused = admin.put(path, json!({ "max_priority": wrong })).await.refused(422, "INVALID_REQUEST");
        assert!(refused["message"].as_str().unwrap().contains("from 0 to 100"), "{refused}");
    }
    ada.put(path, json!({ "max_priority": 100 })).await.refused(403, "PERMISSION_DENIED");
    let of_agent = admin.put("/arcp/limits/agents/echo", json!({ "max_priority": 1 })).await;
    of_agent.refused(422, "INVALID_REQUEST");
    limit(&world, "principals", "agent.ada", json!({ "max_priority": 10 })).await;
    assert_eq!(admin.get("/arcp/limits").await.ok()["limits"][0]["max_priority"], 10);
    // The request that was accepted before is answered as before; another one is refused.
    assert_eq!(id(&ada.post("/jobs", high).await.is(200)), before);
    let refused = ada.post("/jobs", json!({ "agent": "echo", "priority": 11 })).await;
    let refused = refused.refused(403, "PERMISSION_DENIED");
    assert!(refused["message"].as_str().unwrap().contains("`priority` 11 is above 10"), "{refused}");
    for priority in [10, 0, -100] {
        submit(&ada, json!({ "priority": priority })).await;
    }
    submit(&world.agent("agent.bob").await, json!({ "priority": 100 })).await;
    // Nor does a job of the principal delegate one, or run again as one.
    let claim = async || {
        let claimed = world.any().post("/jobs/claim", json!({ "worker_id": hand.id, "max": 1 })).await.ok();
        claimed["jobs"][0].clone()
    };
    assert_eq!(claim().await["principal"], "agent.bob");
    let mine = claim().await;
    assert_eq!(id(&mine), before);
    let child = json!({ "agent": "echo", "delegate_id": "d", "priority": 11 });
    hand.tell(&mine, "delegate", child).await.refused(403, "PERMISSION_DENIED");
    hand.tell(&mine, "error", json!({ "code": "INTERNAL_ERROR", "message": "no" })).await.ok();
    let again = ada.post(&format!("/jobs/{before}/rerun"), json!({})).await.is(201);
    assert_eq!(ada.get(&format!("/jobs/{}", id(&again))).await.ok()["priority"], 10, "lowered");
    // Without a limit of running jobs its jobs are claimed like those of others.
    assert_eq!(claim().await["job_id"], again["job_id"]);
    admin.delete(path).await.ok();
    submit(&ada, json!({ "priority": 11 })).await;
    world.end().await;
}

#[tokio::test]
async fn a_key_that_acts_as_others_asks_for_no_more_than_its_principal_may() {
    let world = World::start().await;
    let admin = world.admin().await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let ask = json!({ "scopes": ["jobs:write", "jobs:read"], "act_as": ["agent.*"] });
    let crew = entente_harness::keys::key(&world, &admin, "service.crew", ask).await.client;
    let lease = json!({ "agent.delegate": ["echo"] });
    let high = json!({ "agent": "echo", "priority": 100, "lease_request": lease });
    crew.acting_as("agent.a").post("/jobs", high.clone()).await.is(201);
    limit(&world, "principals", "service.crew", json!({ "max_priority": 1 })).await;
    let refused = crew.acting_as("agent.b").post("/jobs", high).await;
    refused.refused(403, "PERMISSION_DENIED");
    // What a job from before the limit delegates is no more urgent than what may be asked for now.
    let parent = hand.one().await;
    let child = hand.tell(&parent, "delegate", json!({ "agent": "echo", "delegate_id": "d" })).await.is(201);
    let job = child["job_id"].as_str().unwrap();
    assert_eq!(admin.get(&format!("/jobs/{job}")).await.ok()["priority"], 1, "{child}");
    world.end().await;
}
