//! The objects that the paths refer to, owned by an agent other than the caller.

use entente_harness::envelopes::{task_envelope, with};
use entente_harness::identities::{key, register};
use entente_harness::moments;
use entente_harness::{Client, Value, World, json};

/// Path parameters and the ids of the owner's objects.
pub struct Places(Vec<(&'static str, String)>);

/// Creates the objects of envelopes and of a person; returns the question to that person.
async fn post(world: &World, owner: &Client) -> Value {
    let own = json!({ "kid": "private", "algorithm": "ed25519", "public_key": key(1).public_key() });
    owner.post("/aee/keys", own).await.is(201);
    owner.put("/aee/buses/bus.private/subscriptions/agent.owner", json!({})).await.ok();
    let envelope = task_envelope(world, "envelope-private", ("agent.owner", "agent.owner"));
    owner.post("/aee/envelopes", with(envelope, json!({ "corr": "thread-private" }))).await.is(202);
    owner.put("/aee/schemas/intents/ops.owned.task.schema.json", json!({ "title": "private" })).await.ok();
    world.human("human.ada").await;
    owner.post("/moments", moments::question("human.ada")).await.is(201)
}

impl Places {
    pub async fn make(world: &World) -> Self {
        let owner = world.agent("agent.owner").await;
        let mut places = Self::older(world, &owner).await;
        let intent = places.iter().find(|(name, _)| *name == "intent_id").map(|(_, id)| id.clone()).unwrap();
        // Resources with many objects have their own modules.
        places.extend(super::ledgers::make(world, &owner, &intent).await);
        places.extend(super::graphs::make(world, &owner, &intent).await);
        places.extend(super::triggers::make(world, &owner, &intent).await);
        places.extend(super::vaults::make(&owner).await);
        places.extend(super::memory::make(world, &owner, &intent).await);
        places.extend(super::governance::make(world, &owner, &intent).await);
        places.extend(super::coord::make(world, &owner, &intent).await);
        places.extend(super::spending::make(world).await);
        places.push(("contact_point_id", super::people::contact_point(world).await));
        Self(places)
    }

    async fn older(world: &World, owner: &Client) -> Vec<(&'static str, String)> {
        let id = |made: Value| made["id"].as_str().unwrap().to_owned();
        let intent = id(owner.post("/intents", json!({ "title": "private" })).await.ok());
        let channels = format!("/intents/{intent}/channels");
        let channel = id(owner.post(&channels, json!({ "name": "talk" })).await.ok());
        let said = json!({ "sender": "agent.owner", "message_type": "request", "to": "agent.friend", "payload": {} });
        let message = owner.post(&format!("/channels/{channel}/messages"), said).await.ok();
        let task = json!({ "intent_id": intent, "name": "private" });
        let task = owner.post("/tasks", task).await.ok()["id"].as_str().unwrap().to_owned();
        let plan = json!({ "intent_id": intent, "checkpoints": [{ "id": "gate", "after_task": task }] });
        let plan = owner.post("/plans", plan).await.ok()["id"].as_str().unwrap().to_owned();
        let registration = json!({ "agent_id": "agent.owner", "endpoint": "https://owner.example/private" });
        owner.post("/agents/register", registration).await.ok();
        let hook = json!({ "webhook_url": "https://hooks.example/private", "intent_id": intent });
        let hook = owner.post("/subscriptions", hook).await.is(201);
        let acl = json!({
            "default_policy": "closed",
            "entries": [{ "principal_id": "agent.friend", "principal_type": "agent", "permission": "read" }],
        });
        let acl = owner.put(&format!("/intents/{intent}/acl"), acl).await.ok();
        let entry = acl["entries"][0]["id"].as_str().unwrap().to_owned();
        let outsider = world.agent("agent.outsider").await;
        let ask = json!({ "principal_id": "agent.outsider", "principal_type": "agent", "requested_permission": "read" });
        let request = outsider.post(&format!("/intents/{intent}/access-requests"), ask).await.ok();
        let leases = format!("/intents/{intent}/leases");
        let lease = owner.post(&leases, json!({ "scope": "research" })).await.ok();
        let me = owner.get("/principals/me").await.ok();
        register(owner, "agent.owner", &key(1)).await;
        let checkpoint = json!({ "intent_id": intent });
        let checkpoint = world.admin().await.post("/admin/checkpoints", checkpoint).await.is(201);
        let events = owner.get(&format!("/intents/{intent}/events")).await.ok();
        // By the names of the path parameters.
        owner.put("/arcp/agents/talk/versions/1", json!({})).await.ok();
        let worker = owner.post("/workers", json!({ "name": "private", "agents": ["talk"] })).await.is(201);
        let job = owner.post("/jobs", json!({ "agent": "talk", "input": "private" })).await.is(201);
        let moment = post(world, owner).await;
        vec![
            ("file", "ops.owned.task.schema.json".to_owned()),
            ("job_id", job["job_id"].as_str().unwrap().to_owned()),
            ("worker_id", worker["worker_id"].as_str().unwrap().to_owned()),
            ("reservation_id", "rsv_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".to_owned()),
            ("version", "1".to_owned()),
            ("scope", "agents".to_owned()),
            ("intent_id", intent),
            ("channel_id", channel),
            ("checkpoint_id", checkpoint["checkpoint_id"].as_str().unwrap().to_owned()),
            ("event_id", events[0]["id"].as_str().unwrap().to_owned()),
            ("message_id", message["id"].as_str().unwrap().to_owned()),
            ("task_id", task),
            ("plan_id", plan),
            ("name", "talk".to_owned()),
            ("agent_id", "agent.owner".to_owned()),
            ("principal_id", "agent.owner".to_owned()),
            ("key_id", me["key"]["id"].as_str().unwrap().to_owned()),
            ("kid", "private".to_owned()),
            ("entry_id", entry),
            ("request_id", request["id"].as_str().unwrap().to_owned()),
            ("lease_id", lease["id"].as_str().unwrap().to_owned()),
            ("subscription_id", hook["id"].as_str().unwrap().to_owned()),
            ("entity", "agent.owner".to_owned()),
            ("bus", "bus.private".to_owned()),
            ("corr", "thread-private".to_owned()),
            ("envelope_id", "envelope-private".to_owned()),
            ("moment_id", moment["id"].as_str().unwrap().to_owned()),
            ("dispatch_id", super::federation::DISPATCH.to_owned()),
            // Only an admin learns whether it exists.
            ("bundle_id", "bdl_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".to_owned()),
            ("credential_id", "cred_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".to_owned()),
        ]
    }

    pub fn fill(&self, path: &str) -> String {
        // Required query parameters.
        let id =
            |name: &str| self.0.iter().find(|(known, _)| *known == name).map(|(_, id)| id.clone()).unwrap();
        let path = &match path {
            "/api/v1/verify/consistency" => {
                let one = id("checkpoint_id");
                format!("{path}?from_checkpoint={one}&to_checkpoint={one}")
            }
            "/api/v1/decisions" => format!("{path}?intent_id={}", id("intent_id")),
            "/api/v1/aee/keys/{kid}" => format!("{path}?entity=agent.owner"),
            _ => path.to_owned(),
        };
        let filled = self
            .0
            .iter()
            .fold(path.to_owned(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value));
        assert!(!filled.contains('{'), "{path} names what this sweep does not know; add it to `Places`");
        filled
    }
}
