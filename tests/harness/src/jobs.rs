//! ARCP jobs: a worker in a test, and what a job's stream holds.

use crate::{Client, Reply, Value, json};

/// A worker in a test.
pub struct Hand {
    pub client: Client,
    pub id: String,
}

impl Hand {
    /// Registers an agent's version and a worker for it.
    pub async fn of(client: &Client, agent: &str) -> Self {
        let (name, version) = agent.split_once('@').unwrap();
        client.put(&format!("/arcp/agents/{name}/versions/{version}"), json!({})).await.ok();
        Self::again(client, agent).await
    }

    /// Registers another worker for a known agent.
    pub async fn again(client: &Client, agent: &str) -> Self {
        let worker =
            client.post("/workers", json!({ "name": "hand", "agents": [agent], "slots": 4 })).await.is(201);
        Self { client: client.clone(), id: worker["worker_id"].as_str().unwrap().to_owned() }
    }

    /// Claims up to `max` pending jobs.
    pub async fn claim(&self, max: u32) -> Vec<Value> {
        let got = self.client.post("/jobs/claim", json!({ "worker_id": self.id, "max": max })).await.ok();
        got["jobs"].as_array().unwrap().clone()
    }

    /// Claims the only pending job.
    #[track_caller]
    pub fn one(&self) -> impl Future<Output = Value> {
        let place = std::panic::Location::caller();
        async move {
            let mut jobs = self.claim(10).await;
            assert_eq!(jobs.len(), 1, "not one job waits at {place}");
            jobs.remove(0)
        }
    }

    /// Posts to a sub-resource of a claimed job, with its claim token.
    pub async fn tell(&self, job: &Value, what: &str, mut body: Value) -> Reply {
        body["claim_token"] = job["claim_token"].clone();
        self.client.post(&format!("/jobs/{}/{what}", job["job_id"].as_str().unwrap()), body).await
    }

    /// Reports events.
    pub async fn events(&self, job: &Value, events: Value) -> Reply {
        self.tell(job, "events", json!({ "events": events })).await
    }

    /// Sends a heartbeat that names these jobs.
    pub async fn beat(&self, jobs: &[&Value]) -> Value {
        let held: Vec<Value> = jobs
            .iter()
            .map(|job| json!({ "job_id": job["job_id"], "claim_token": job["claim_token"] }))
            .collect();
        self.client.post(&format!("/workers/{}/heartbeat", self.id), json!({ "jobs": held })).await.ok()
    }
}

/// Returns the id of a job.
pub fn id(job: &Value) -> &str {
    job["job_id"].as_str().unwrap()
}

/// Returns the events of a job as `(type or kind, body or payload)`.
pub async fn events(client: &Client, job: &str) -> Vec<(String, Value)> {
    let page = client.get(&format!("/jobs/{job}/events?limit=1000")).await.ok();
    let mut next = 1;
    let read = page["events"].as_array().unwrap().iter().map(|envelope| {
        assert_eq!(envelope["event_seq"], next, "{envelope}");
        next += 1;
        let payload = &envelope["payload"];
        match envelope["type"].as_str().unwrap() {
            "job.event" => (payload["kind"].as_str().unwrap().to_owned(), payload["body"].clone()),
            end => (end.to_owned(), payload.clone()),
        }
    });
    read.collect()
}

/// Returns the kinds of a job's events.
pub async fn kinds(client: &Client, job: &str) -> Vec<String> {
    events(client, job).await.into_iter().map(|(kind, _)| kind).collect()
}

/// Returns a job's status.
pub async fn status(client: &Client, job: &str) -> String {
    client.get(&format!("/jobs/{job}")).await.ok()["status"].as_str().unwrap().to_owned()
}
