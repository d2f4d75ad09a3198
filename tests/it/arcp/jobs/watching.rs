//! Waiting and watching: long polls of workers, event streams, and jobs that work for an intent.

use std::time::{Duration, Instant};

use super::{Hand, id, status};
use entente_harness::{Setup, Sse, Value, World, json, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_waits_is_woken_by_a_job() {
    let world = World::with(Setup::live()).await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let waiting = (0..3).map(|_| {
        let (client, id) = (hand.client.clone(), hand.id.clone());
        tokio::spawn(async move {
            let got = client.post("/jobs/claim", json!({ "worker_id": id, "wait_sec": 20 })).await.ok();
            (Instant::now(), got["jobs"].as_array().unwrap().len())
        })
    });
    let waiting: Vec<_> = waiting.collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    for _ in 0..3 {
        client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    }
    for one in waiting {
        let (at, count) = one.await.unwrap();
        assert_eq!(count, 1, "each of them gets one");
        assert!(at.duration_since(begun) < Duration::from_secs(5), "it was not woken");
    }
    let none = hand.client.post("/jobs/claim", json!({ "worker_id": hand.id, "wait_sec": 0.2 })).await.ok();
    assert_eq!(none["jobs"], json!([]));
    for wrong in [json!(-1), json!(1000), json!("x")] {
        let body = json!({ "worker_id": hand.id, "wait_sec": wrong });
        hand.client.post("/jobs/claim", body).await.refused(422, "INVALID_REQUEST");
    }
    hand.client
        .post("/jobs/claim", json!({ "worker_id": hand.id, "max": 0 }))
        .await
        .refused(422, "INVALID_REQUEST");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_that_waits_hears_of_a_cancellation_at_once() {
    let world = World::with(Setup::live()).await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let claimed = hand.one().await;
    let (beating, path) = (hand.client.clone(), format!("/workers/{}/heartbeat", hand.id));
    let held = json!([{ "job_id": claimed["job_id"], "claim_token": claimed["claim_token"] }]);
    let beat =
        tokio::spawn(async move { beating.post(&path, json!({ "jobs": held, "wait_sec": 20 })).await.ok() });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    let cancel = json!({ "session_id": job["session_id"] });
    client.post(&format!("/jobs/{}/cancel", id(&job)), cancel).await.is(202);
    assert_eq!(beat.await.unwrap()["cancel"], json!([job["job_id"]]));
    assert!(begun.elapsed() < Duration::from_secs(5));
    hand.tell(&claimed, "error", json!({ "code": "CANCELLED" })).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_a_job_resumes_and_ends_with_it() {
    let world = World::with(Setup::live()).await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let path = format!("/jobs/{}/events", id(&job));
    let sse = client.with("accept", "text/event-stream");
    let mut stream = Sse::open(&sse, &path).await;
    let claimed = hand.one().await;
    let log = |n: u32| json!([{ "kind": "log", "body": { "n": n, "text": "a\nb" } }]);
    hand.events(&claimed, log(1)).await.ok();
    let first = stream.next().await;
    assert_eq!((first.name.as_str(), first.id.as_str()), ("job.event", "1"));
    let envelope = &first.data;
    assert_eq!((&envelope["arcp"], &envelope["event_seq"]), (&json!("1.1"), &json!(1)));
    assert_eq!((&envelope["job_id"], &envelope["trace_id"]), (&job["job_id"], &job["trace_id"]));
    assert_eq!(envelope["payload"]["body"]["text"], "a\nb");
    drop(stream);
    hand.events(&claimed, log(2)).await.ok();
    let mut resumed = Sse::resume(&sse, &path, Some("1")).await;
    assert_eq!(resumed.next().await.id, "2");
    hand.tell(&claimed, "result", json!({ "result": "end" })).await.ok();
    let last = resumed.next().await;
    assert_eq!((last.name.as_str(), &last.data["payload"]["result"]), ("job.result", &json!("end")));
    assert!(resumed.try_next().await.is_none() && resumed.ended_cleanly(), "nothing comes after the end");
    let mut whole = Sse::open(&sse, &format!("{path}?from_event_seq=0")).await;
    for n in 1..=3 {
        assert_eq!(whole.next().await.id, n.to_string());
    }
    let mut after = Sse::resume(&sse, &path, Some("3")).await;
    assert!(after.try_next().await.is_none() && after.ended_cleanly(), "who has heard the end is told so");
    sse.with("last-event-id", "x").get(&path).await.refused(422, "INVALID_REQUEST");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stream_follows_all_of_ones_jobs() {
    let world = World::with(Setup::live()).await;
    let (client, other) = (world.agent("agent.client").await, world.agent("agent.other").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let sse = client.with("accept", "text/event-stream");
    let mut stream = Sse::open(&sse, "/jobs/events").await;
    for asker in [&client, &other, &client] {
        asker.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    }
    let jobs = hand.claim(3).await;
    for job in &jobs {
        hand.events(job, json!([{ "kind": "log", "body": { "of": job["job_id"] } }])).await.ok();
    }
    let mine: Vec<&Value> = jobs.iter().filter(|job| job["principal"] == "agent.client").collect();
    let first = stream.next().await;
    assert_eq!(first.data["job_id"], mine[0]["job_id"]);
    assert_eq!(stream.next().await.data["job_id"], mine[1]["job_id"], "others' jobs are not in it");
    drop(stream);
    hand.tell(mine[0], "result", json!({ "result": 1 })).await.ok();
    let mut resumed = Sse::resume(&sse, "/jobs/events", Some(&first.id)).await;
    let rest = [resumed.next().await, resumed.next().await];
    assert_eq!(rest[0].data["job_id"], mine[1]["job_id"]);
    assert_eq!(rest[1].name, "job.result");
    world.end().await;
}

#[tokio::test]
async fn a_job_that_works_for_an_intent_shows_there() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let intent = client.post("/intents", json!({ "title": "plan" })).await.ok();
    let intent = intent["id"].as_str().unwrap().to_owned();
    let job = client.post("/jobs", json!({ "agent": "echo", "intent_id": intent })).await.is(201);
    let channels = client.get(&format!("/intents/{intent}/channels")).await.ok();
    let channel = &channels.as_array().unwrap()[0];
    assert_eq!((&channel["task_id"], &channel["status"]), (&job["job_id"], &json!("open")));
    let channel = channel["id"].as_str().unwrap().to_owned();
    let question =
        json!({ "sender": "agent.client", "to": "agent.worker", "message_type": "request", "payload": {} });
    let asked = send(&client, &channel, question).await;
    let claimed = hand.one().await;
    assert_eq!(claimed["intent_id"], json!(intent));
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    let log = client.get(&format!("/intents/{intent}/events")).await.ok();
    let told: Vec<&str> = log
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|event| event["event_type"].as_str().unwrap())
        .filter(|kind| kind.starts_with("job.") || kind.starts_with("channel."))
        .collect();
    assert_eq!(told, ["channel.created", "job.accepted", "job.running", "job.ended", "channel.closed"]);
    let ended = log.as_array().unwrap().iter().find(|event| event["event_type"] == "job.ended").unwrap();
    assert_eq!((&ended["payload"]["status"], &ended["trace_id"]), (&json!("success"), &job["trace_id"]));
    // The job's end withdraws its pending messages.
    let path = format!("/channels/{channel}/messages/{}", asked["id"].as_str().unwrap());
    assert_eq!(client.get(&path).await.ok()["status"], "expired");
    // An agent without write access cannot submit a job on the intent.
    let closed = json!({ "default_policy": "closed", "entries": [] });
    client.put(&format!("/intents/{intent}/acl"), closed).await.ok();
    let stranger = world.agent("agent.stranger").await;
    let reply = stranger.post("/jobs", json!({ "agent": "echo", "intent_id": intent })).await;
    assert!([403, 404].contains(&reply.status), "{}", reply.text);
    client.post(&format!("/intents/{intent}/status"), json!({})).await;
    world.end().await;
}

#[tokio::test]
async fn jobs_of_intents_end_by_time_and_by_cancellation_there_too() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let intent = client.post("/intents", json!({ "title": "plan" })).await.ok();
    let intent = intent["id"].as_str().unwrap().to_owned();
    let ask = json!({ "agent": "echo", "intent_id": intent, "max_runtime_sec": 5 });
    let late = client.post("/jobs", ask).await.is(201);
    world.clock.advance(1);
    let called_off = client.post("/jobs", json!({ "agent": "echo", "intent_id": intent })).await.is(201);
    assert_eq!(hand.claim(1).await.len(), 1);
    let cancel = json!({ "session_id": called_off["session_id"] });
    client.post(&format!("/jobs/{}/cancel", id(&called_off)), cancel).await.is(202);
    world.pass(4).await;
    assert_eq!(status(&client, id(&late)).await, "timed_out");
    let log = client.get(&format!("/intents/{intent}/events")).await.ok();
    let ends: Vec<&Value> = log
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .filter(|event| event["event_type"] == "job.ended")
        .map(|event| &event["payload"]["status"])
        .collect();
    assert_eq!(ends, [&json!("cancelled"), &json!("timed_out")]);
    let channels = client.get(&format!("/intents/{intent}/channels")).await.ok();
    assert!(channels.as_array().unwrap().iter().all(|channel| channel["status"] == "closed"));
    world.end().await;
}
