//! Which worker runs which job (ARCP-W-11.2.3): since when, and until when unless it sends a heartbeat.

use super::{Hand, id, status};
use entente_harness::{Client, Setup, Value, World, json};

/// Returns the claim of a job as its record and its list item have it; null if there is none.
async fn claim(client: &Client, job: &Value) -> Value {
    let record = client.get(&format!("/jobs/{}", id(job))).await.ok();
    let listed = client.get("/jobs").await.ok();
    let item =
        listed["jobs"].as_array().unwrap().iter().find(|item| item["job_id"] == job["job_id"]).unwrap();
    assert_eq!(record["claim"], item["claim"]);
    record["claim"].clone()
}

/// Returns the jobs of a worker in the caller's list of workers.
async fn held(client: &Client, hand: &Hand) -> Value {
    let listed = client.get("/workers").await.ok();
    let all = listed["workers"].as_array().unwrap();
    all.iter()
        .find(|worker| worker["worker_id"] == hand.id)
        .map_or(Value::Null, |worker| worker["jobs"].clone())
}

#[tokio::test]
async fn a_job_and_its_worker_name_each_other() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    assert_eq!((claim(&client, &job).await, held(&hand.client, &hand).await), (Value::Null, json!([])));
    let claimed = hand.one().await;
    let shown = claim(&client, &job).await;
    assert_eq!((&shown["worker_id"], &shown["worker"]), (&json!(hand.id), &json!("hand")));
    assert_eq!(shown["agent"], "service.any");
    assert_eq!(
        (&shown["since"], &shown["expires_at"]),
        (&json!("2026-11-21T08:00:00.000000Z"), &claimed["claim_expires_at"])
    );
    let expected = json!([{ "job_id": job["job_id"], "agent": "echo@1", "attempt": 1, "since": shown["since"],
        "expires_at": shown["expires_at"] }]);
    assert_eq!(held(&hand.client, &hand).await, expected);
    // A heartbeat moves the end, and not the beginning.
    world.pass(10).await;
    hand.beat(&[&claimed]).await;
    let later = claim(&client, &job).await;
    assert_eq!(later["since"], shown["since"]);
    assert!(later["expires_at"].as_str().unwrap() > shown["expires_at"].as_str().unwrap(), "{later}");
    assert_eq!(held(&hand.client, &hand).await[0]["expires_at"], later["expires_at"]);
    // Given back and claimed by another worker.
    hand.tell(&claimed, "release", json!({})).await.ok();
    assert_eq!((claim(&client, &job).await, held(&hand.client, &hand).await), (Value::Null, json!([])));
    let other = Hand::again(&world.any(), "echo").await;
    let again = other.one().await;
    let shown = claim(&client, &job).await;
    assert_eq!(
        (&shown["worker_id"], &shown["since"]),
        (&json!(other.id), &json!("2026-11-21T08:00:10.000000Z"))
    );
    // The claim stays stored after the end, for retries, and is shown no more.
    other.tell(&again, "result", json!({ "result": 1 })).await.ok();
    assert_eq!(status(&client, id(&job)).await, "success");
    assert_eq!((claim(&client, &job).await, held(&other.client, &other).await), (Value::Null, json!([])));
    world.end().await;
}

#[tokio::test]
async fn a_claim_is_shown_to_whom_its_job_is_shown_and_its_token_to_nobody() {
    for policy in ["none", "list", "subscribe"] {
        let settings = vec![("ENTENTE_ARCP_OPEN_POLICY", policy)];
        let world = World::with(Setup { settings, ..Setup::default() }).await;
        let (client, stranger) = (world.agent("agent.client").await, world.agent("agent.stranger").await);
        let hand = Hand::of(&world.any(), "echo@1").await;
        let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
        let claimed = hand.one().await;
        let admin = world.admin().await;
        let (path, token) = (format!("/jobs/{}", id(&job)), claimed["claim_token"].as_str().unwrap());
        for who in [&client, &stranger, &admin, &hand.client] {
            for path in ["/jobs", "/workers", &path] {
                let text = who.get(path).await.text;
                assert!(!text.contains(token) && !text.contains("token"), "{path}: {text}");
            }
        }
        assert_eq!(claim(&client, &job).await["worker_id"], hand.id);
        assert_eq!(admin.get(&path).await.ok()["claim"]["worker_id"], hand.id);
        assert_eq!(held(&admin, &hand).await[0]["job_id"], job["job_id"]);
        // A stranger sees no worker, and of the job what the policy allows.
        assert_eq!(held(&stranger, &hand).await, Value::Null);
        let listed = stranger.get("/jobs").await.ok()["jobs"].clone();
        match policy {
            "none" => assert_eq!(listed, json!([])),
            "list" => assert_eq!((&listed[0]["job_id"], listed[0].get("claim")), (&job["job_id"], None)),
            _ => assert_eq!(claim(&stranger, &job).await["worker_id"], hand.id),
        }
        hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
        world.end().await;
    }
}
