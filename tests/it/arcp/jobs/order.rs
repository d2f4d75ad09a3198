//! The order of claims (beyond ARCP): priorities, and turns over principals.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;

use super::{Hand, id};
use entente_harness::socket::Socket;
use entente_harness::{Client, Value, World, json};

/// Submits a job and returns its id.
async fn submit(client: &Client, more: Value) -> String {
    let mut job = json!({ "agent": "echo" });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    id(&client.post("/jobs", job).await.is(201)).to_owned()
}

/// Submits this many jobs.
async fn flood(client: &Client, count: usize) {
    let mut sent = stream::iter(0..count).map(|_| submit(client, json!({}))).buffer_unordered(32);
    while sent.next().await.is_some() {}
}

fn ids(jobs: &[Value]) -> Vec<&str> {
    jobs.iter().map(id).collect()
}

/// Jain's fairness index: 1 if all have the same, 1/n if one has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (f64::from(u32::try_from(shares.len()).unwrap()) * shares.iter().map(|x| x * x).sum::<f64>())
}

#[tokio::test]
async fn more_principals_than_a_claim_has_places_are_served_one_after_the_other() {
    let world = World::start().await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    for number in 0..30 {
        let client = world.agent(&format!("agent.client-{number:02}")).await;
        flood(&client, 3).await;
    }
    for round in 0..3 {
        let mut served = Vec::new();
        for _ in 0..3 {
            let jobs = hand.claim(10).await;
            served.extend(jobs.iter().map(|job| job["principal"].as_str().unwrap().to_owned()));
        }
        served.sort_unstable();
        served.dedup();
        assert_eq!(served.len(), 30, "round {round}: {served:?}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_higher_priority_goes_first_then_the_oldest() {
    let world = World::start().await;
    let (client, hand) = (world.agent("agent.client").await, Hand::of(&world.any(), "echo@1").await);
    let intent = client.post("/intents", json!({ "title": "work" })).await.ok()["id"].clone();
    let mut jobs = Vec::new();
    for more in [
        json!({}),
        json!({ "priority": 5 }),
        json!({ "priority": -100 }),
        json!({ "priority": 5, "intent_id": intent }),
        json!({ "priority": 0 }),
        json!({ "priority": 100, "intent_id": intent }),
        json!({ "x-entente": { "priority": 6 } }),
        json!({ "priority": 7, "x-entente": { "priority": 99 } }),
        json!({}),
    ] {
        world.clock.advance(1);
        jobs.push(submit(&client, more).await);
    }
    let shown = async |job: &str| client.get(&format!("/jobs/{job}")).await.ok()["priority"].clone();
    assert_eq!(
        (shown(&jobs[1]).await, shown(&jobs[4]).await, shown(&jobs[7]).await),
        (json!(5), json!(0), json!(7))
    );
    assert_eq!(client.get("/jobs?limit=3").await.ok()["jobs"][2]["priority"], 6);
    let mut order = Vec::new();
    for max in [1, 1, 1, 2, 1, 10] {
        let claimed = hand.claim(max).await;
        order.extend(ids(&claimed).into_iter().map(str::to_owned));
    }
    // Jobs of an intent are claimed under its lock: within one claim they come last.
    let expected = [5, 7, 6, 1, 3, 0, 4, 8, 2].map(|n| jobs[n].as_str());
    assert_eq!(order, expected);
    world.end().await;
}

#[tokio::test]
async fn a_priority_that_is_none_is_refused_and_a_child_has_its_parents() {
    let world = World::start().await;
    let (client, any) = (world.agent("agent.client").await, world.any());
    let (hand, helper) = (Hand::of(&any, "echo@1").await, Hand::of(&any, "helper@1").await);
    for wrong in
        [json!(101), json!(-101), json!(i64::MAX), json!(i64::MIN), json!(1.5), json!("high"), json!([])]
    {
        for body in [
            json!({ "agent": "echo", "priority": wrong }),
            json!({ "agent": "echo", "x-entente": { "priority": wrong } }),
        ] {
            client.post("/jobs", body).await.refused(422, "INVALID_REQUEST");
        }
    }
    client
        .post("/jobs", json!({ "agent": "echo", "x-entente": { "urgent": 1 } }))
        .await
        .refused(422, "INVALID_REQUEST");
    // Another priority is another job; the same one is the same, wherever it stands.
    let asked = async |more: Value| {
        let mut body = json!({ "agent": "echo", "idempotency_key": "k" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.post("/jobs", body).await
    };
    let lease = json!({ "agent.delegate": ["helper"] });
    asked(json!({ "priority": 9, "lease_request": lease })).await.is(201);
    asked(json!({ "x-entente": { "priority": 9 }, "lease_request": lease })).await.is(200);
    asked(json!({ "priority": 8, "lease_request": lease })).await.refused(409, "DUPLICATE_KEY");
    asked(json!({ "lease_request": lease })).await.refused(409, "DUPLICATE_KEY");

    let parent = hand.one().await;
    let ask = json!({ "delegate_id": "d1", "agent": "helper" });
    hand.tell(&parent, "delegate", ask).await.is(201);
    let event =
        json!([{ "kind": "delegate", "body": { "delegate_id": "d2", "agent": "helper", "priority": 20 } }]);
    hand.events(&parent, event).await.ok();
    let children = helper.claim(2).await;
    let mut priorities = Vec::new();
    for child in &children {
        priorities.push(client.get(&format!("/jobs/{}", id(child))).await.ok()["priority"].clone());
    }
    assert_eq!(priorities, [20, 9]);
    world.end().await;
}

#[tokio::test]
async fn a_session_sends_a_priority_in_a_member_of_its_own() {
    let world = World::start().await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let client = world.agent("agent.client").await;
    let late = submit(&client, json!({})).await;
    let mut socket = Socket::open(&world, entente_harness::ANY).await;
    let said = json!({ "agent": "echo", "lease_request": {}, "x-entente": { "priority": 1 } });
    let accepted = socket.submit(said).await;
    socket
        .refused(
            "job.submit",
            json!({ "agent": "echo", "x-entente": { "priority": 1000 } }),
            "INVALID_REQUEST",
        )
        .await;
    let claimed = hand.claim(2).await;
    assert_eq!(ids(&claimed), [id(&accepted), late.as_str()]);
    drop(socket);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_floods_a_queue_delays_nobody_by_more_than_its_share() {
    const WAITING: usize = 120;
    let (a, b) = World::two().await;
    let first = Hand::of(&a.any(), "echo@1").await;
    let second = Hand { client: b.any(), id: Hand::again(&a.any(), "echo@1").await.id };
    let names = ["agent.flood", "agent.b", "agent.c", "agent.d"];
    // The flood is older than all others, and ten times as large.
    flood(&a.agent(names[0]).await, 10 * WAITING).await;
    join_all(names[1..].iter().map(|name| async { flood(&b.agent(name).await, WAITING).await })).await;
    let mut served: BTreeMap<String, u32> = BTreeMap::new();
    let mut count = 0;
    // Claims of all sizes, on two servers at once, as long as everybody has jobs waiting.
    for max in [1, 1, 1, 1, 3, 1, 10, 1, 7, 2, 16, 5, 1, 30, 4, 1, 1, 25, 9, 10, 11, 6, 20].iter().cycle() {
        let (one, other) = tokio::join!(first.claim(*max), second.claim(*max));
        for job in one.iter().chain(&other) {
            *served.entry(job["principal"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        assert_eq!(
            one.len() + other.len(),
            2 * usize::try_from(*max).unwrap(),
            "a full queue fills every claim"
        );
        count += one.len() + other.len();
        if count >= 3 * WAITING {
            break;
        }
    }
    let shares: Vec<f64> =
        names.iter().map(|name| f64::from(served.get(*name).copied().unwrap_or_default())).collect();
    let index = jain(&shares);
    println!("Jain's index of {shares:?}: {index:.4}");
    assert!(index >= 0.95, "{served:?}");
    // One that comes now is served after at most one job of each other.
    let late = submit(&a.agent("agent.late").await, json!({})).await;
    let mut before = 0;
    while first.claim(1).await.first().map(id) != Some(late.as_str()) {
        before += 1;
    }
    assert!(before <= 4, "{before} jobs of 4 others went before");
    b.server.stop().await;
    a.server.stop().await;
}

#[tokio::test]
async fn a_worker_of_several_agents_serves_principals_in_turns_too() {
    let world = World::start().await;
    let any = world.any();
    Hand::of(&any, "one@1").await;
    Hand::of(&any, "two@1").await;
    let body = json!({ "name": "both", "agents": ["one", "two"], "slots": 100 });
    let hand = Hand {
        id: any.post("/workers", body).await.is(201)["worker_id"].as_str().unwrap().to_owned(),
        client: any,
    };
    let (flooder, other) = (world.agent("agent.flood").await, world.agent("agent.other").await);
    for n in 0..20 {
        world.clock.advance(1);
        let agent = if n % 2 == 0 { "one" } else { "two" };
        submit(&flooder, json!({ "agent": agent })).await;
    }
    for _ in 0..6 {
        submit(&other, json!({ "agent": "two" })).await;
    }
    let mut served = Vec::new();
    for max in [4, 4, 4] {
        served.push(hand.claim(max).await.iter().filter(|job| job["principal"] == "agent.other").count());
    }
    assert_eq!(served, [2, 2, 2]);
    // With one principal left the oldest job goes first again, of whichever agent; the first claim finds that out.
    assert_eq!(hand.claim(1).await.len(), 1);
    let rest = hand.claim(50).await;
    assert_eq!(rest.len(), 13);
    assert!(rest.is_sorted_by_key(|job| id(job).to_owned()), "{:?}", ids(&rest));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_start_in_the_order_of_their_priorities() {
    const JOBS: u32 = 1_000;
    let (a, b) = World::two().await;
    let first = Hand::of(&a.any(), "echo@1").await;
    let second = Hand { client: b.any(), id: Hand::again(&a.any(), "echo@1").await.id };
    let clients = join_all((0..4).map(|n| {
        let a = &a;
        async move { a.agent(&format!("agent.p{n}")).await }
    }))
    .await;
    let one = async |n: u32| {
        let priority = i64::from(n * 7_919 % 41) - 20;
        submit(&clients[usize::try_from(n % 4).unwrap()], json!({ "priority": priority, "input": priority }))
            .await;
    };
    let mut sent = stream::iter(0..JOBS).map(one).buffer_unordered(32);
    while sent.next().await.is_some() {}
    let mut started: Vec<i64> = Vec::new();
    for turn in 0.. {
        let hand = if turn % 2 == 0 { &first } else { &second };
        let mut claimed = hand.claim(1 + turn % 23).await;
        if claimed.is_empty() {
            break;
        }
        started.extend(claimed.drain(..).map(|job| job["input"].as_i64().unwrap()));
    }
    assert_eq!(started.len(), usize::try_from(JOBS).unwrap());
    assert!(started.is_sorted_by(|one, next| one >= next), "{started:?}");
    b.server.stop().await;
    a.server.stop().await;
}
