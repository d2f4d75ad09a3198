//! Rotating a credential while its job runs (ARCP §9.8.2): the new value works, the previous one is revoked, and
//! only those who were given the first value learn the new one.

use entente_arcp::credentials;
use entente_domain::ids::{CredentialId, JobId};

use super::stage::{broker, litellm, places_of, states, take_back, world};
use super::upstream::{ProvisionerError, Upstream};
use entente_harness::jobs::{Hand, events, id, status};
use entente_harness::{Client, Reply, Value, World, json};

/// A running job with one credential.
struct Running {
    world: World,
    upstream: Upstream,
    client: Client,
    hand: Hand,
    job: Value,
    /// Its first value.
    first: String,
}

impl Running {
    async fn with(of: impl Fn(&Upstream) -> Value) -> Self {
        let (world, upstream) = world(of).await;
        let (client, hand) =
            (world.agent("agent.client").await, Hand::of(&world.any(), "research@1.0.0").await);
        let lease = json!({ "cost.budget": ["USD:5.00"], "model.use": ["gpt-9"] });
        client.post("/jobs", json!({ "agent": "research", "lease_request": lease })).await.is(201);
        let job = hand.one().await;
        let first = job["credentials"][0]["value"].as_str().unwrap().to_owned();
        Self { world, upstream, client, hand, job, first }
    }

    fn credential(&self) -> &str {
        self.job["credentials"][0]["id"].as_str().unwrap()
    }

    async fn rotate(&self, body: Value) -> Reply {
        self.hand.tell(&self.job, &format!("credentials/{}/rotate", self.credential()), body).await
    }

    /// Returns the value that the submitter's session would get.
    async fn revealed(&self) -> Option<String> {
        let (job, id): (JobId, CredentialId) =
            (id(&self.job).parse().unwrap(), self.credential().parse().unwrap());
        let mut conn = self.world.ctx().pool.acquire().await.unwrap();
        credentials::reveal(&mut conn, job, id).await.unwrap()
    }
}

#[tokio::test]
async fn a_provisioner_makes_another_value_within_what_is_left() {
    for of in [|upstream: &_| litellm(upstream, &json!({})), broker] {
        let running = Running::with(of).await;
        let Running { world, upstream, client, hand, job, first } = &running;
        let cost =
            json!([{ "kind": "metric", "body": { "name": "cost.model", "value": 1.5, "unit": "USD" } }]);
        hand.events(job, cost).await.ok();
        let rotated = running.rotate(json!({})).await.ok();
        let now = &rotated["credential"];
        assert_eq!(now["id"], job["credentials"][0]["id"], "it keeps its id");
        let value = now["value"].as_str().unwrap();
        assert!(value != first && upstream.out().contains(&value.to_owned()));
        let asked = upstream.asked().pop().unwrap().body;
        assert_eq!(asked.get("max_budget").or(asked.get("cap")), Some(&json!(3.5)));
        assert_eq!(now["constraints"]["cost.budget"], json!(["USD:3.5"]));
        // The event names the credential, but not its value.
        let told = events(client, id(job)).await;
        let (kind, body) = told.last().unwrap();
        assert_eq!(
            (kind.as_str(), body),
            ("status", &json!({ "phase": "credential_rotated", "id": running.credential() }))
        );
        assert_eq!(rotated["last_event_seq"], json!(told.len()));
        assert_eq!(running.revealed().await.as_deref(), Some(value));
        // The previous value, not the id that both share.
        assert_eq!((take_back(world).await, upstream.out()), (1, vec![value.to_owned()]));
        assert_eq!(states(world).await, ["live", "revoked"]);
        assert!(places_of(world, first).await.is_empty());
        let again = running.rotate(json!({})).await.ok();
        assert_ne!(again["credential"]["value"], *value);
        hand.tell(job, "result", json!({ "result": 1 })).await.ok();
        assert_eq!((take_back(world).await, upstream.out().len()), (2, 0));
        assert_eq!(running.revealed().await, None, "when it is over there is nothing to tell");
        running.world.end().await;
    }
}

#[tokio::test]
async fn a_worker_brings_a_value_of_its_own() {
    let running = Running::with(|upstream| litellm(upstream, &json!({}))).await;
    let own = running.upstream.make("renewed by its worker");
    let rotated = running.rotate(json!({ "value": own })).await.ok();
    assert_eq!(
        (&rotated["credential"]["value"], rotated["credential"].get("constraints")),
        (&json!(own), None)
    );
    take_back(&running.world).await;
    assert_eq!(running.upstream.out(), std::slice::from_ref(&own));
    for (value, kind) in
        [(own.as_str(), "used"), (running.first.as_str(), "used"), ("", "value"), ("two words", "value")]
    {
        let refused = running.rotate(json!({ "value": value })).await.is(422);
        assert_eq!(refused["errors"][0]["type"], kind, "{refused}");
    }
    running.hand.tell(&running.job, "result", json!({ "result": 1 })).await.ok();
    take_back(&running.world).await;
    assert!(
        running.upstream.out().is_empty(),
        "taken back by itself: its upstream does not know it by our name"
    );
    running.world.end().await;
}

#[tokio::test]
async fn a_value_that_could_not_be_taken_back_is_not_taken() {
    let running = Running::with(broker).await;
    let refused = running.rotate(json!({ "value": "tok-of-the-worker" })).await.is(422);
    assert_eq!(refused["errors"][0]["type"], "given");
    assert_eq!(states(&running.world).await, ["live"]);
    running.world.end().await;
}

#[tokio::test]
async fn only_the_jobs_worker_rotates_and_only_what_is_its() {
    let running = Running::with(|upstream| litellm(upstream, &json!({}))).await;
    let path = format!("/jobs/{}/credentials/{}/rotate", id(&running.job), running.credential());
    let wrong = json!({ "claim_token": "ct_0" });
    running.world.any().post(&path, wrong.clone()).await.is(409);
    running.world.agent("agent.stranger").await.post(&path, wrong).await.is(404);
    let other = "credentials/cred_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/rotate";
    running.hand.tell(&running.job, other, json!({})).await.is(404);
    running.hand.tell(&running.job, "result", json!({ "result": 1 })).await.ok();
    running.rotate(json!({})).await.is(409);
    assert_eq!(running.upstream.asked_on("/key/generate").len(), 1, "nobody was asked in vain");
    take_back(&running.world).await;
    running.world.end().await;
}

#[tokio::test]
async fn a_failed_rotation_leaves_the_value_before() {
    let running = Running::with(|upstream| litellm(upstream, &json!({ "timeout_sec": 1 }))).await;
    for trouble in [ProvisionerError::Says(500, ""), ProvisionerError::Repeats, ProvisionerError::Dies] {
        running.upstream.minting(Some(trouble));
        running.rotate(json!({})).await.is(503);
    }
    running.upstream.minting(None);
    assert_eq!(running.revealed().await.as_ref(), Some(&running.first));
    running.rotate(json!({})).await.ok();
    running.world.clock.advance(120);
    take_back(&running.world).await;
    assert_eq!(running.upstream.out().len(), 1);
    running.world.server.stop().await;
}

#[tokio::test]
async fn a_job_that_ends_meanwhile_keeps_no_new_value() {
    let running = Running::with(|upstream| litellm(upstream, &json!({ "timeout_sec": 3 }))).await;
    running.upstream.minting(Some(ProvisionerError::Says(429, "")));
    let (rotated, ()) = tokio::join!(running.rotate(json!({})), async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        running.hand.tell(&running.job, "result", json!({ "result": 1 })).await.ok();
        running.upstream.minting(None);
    });
    rotated.is(409);
    assert_eq!(status(&running.client, id(&running.job)).await, "success");
    running.world.clock.advance(120);
    take_back(&running.world).await;
    assert!(running.upstream.out().is_empty());
    running.world.server.stop().await;
}

#[tokio::test]
async fn a_value_that_a_worker_tells_of_itself_is_not_written_down() {
    let running = Running::with(|upstream| litellm(upstream, &json!({}))).await;
    let body = json!({ "phase": "credential_rotated", "id": running.credential(), "value": running.first });
    running.hand.events(&running.job, json!([{ "kind": "status", "body": body }])).await.ok();
    let told = events(&running.client, id(&running.job)).await;
    assert_eq!(told[0].1, json!({ "phase": "credential_rotated", "id": running.credential() }));
    assert_eq!(places_of(&running.world, &running.first).await, ["credentials.value"]);
    running.world.end().await;
}
