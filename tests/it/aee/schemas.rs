//! Payload schemas (AEE §6.4, §9.3): publishing, reading, removing and validation.

use entente_aee::policy::snapshot;
use entente_domain::aee::envelopes::Warning;
use entente_domain::refusal::Code;
use entente_kernel::AppError;

use crate::aee::rules::envelope;
use entente_harness::{Client, Value, World, json};

const TASK: &str = "/aee/schemas/intents/ops.backup.check.task.schema.json";

fn schema() -> Value {
    json!({ "type": "object", "required": ["cluster"], "properties": { "cluster": { "type": "string" } } })
}

async fn publish(client: &Client, policy: &str) {
    let done = client.put(&format!("{TASK}?policy={policy}"), schema()).await.ok();
    assert_eq!(done["policy"], policy);
}

#[tokio::test]
async fn a_schema_is_published_and_read_back_letter_by_letter() {
    let world = World::start().await;
    let (owner, reader) = (world.agent("agent.owner").await, world.agent("agent.reader").await);
    let text = "{ \"title\" : \"a check\",\n  \"maximum\": 1e2 }";
    let done = owner.send("PUT", TASK, Some(text.to_owned())).await.ok();
    assert_eq!(done["path"], "intents/ops.backup.check.task.schema.json");
    assert_eq!(
        (&done["type"], &done["policy"], &done["updated_by"]),
        (&json!("task"), &json!("warn"), &json!("agent.owner"))
    );
    let read = reader.get(TASK).await;
    assert_eq!((read.status, read.text.as_str()), (200, text));
    assert_eq!(read.header("content-type"), "application/schema+json");
    let listed = reader.get("/aee/schemas").await.ok();
    let intents: Vec<&Value> =
        listed["schemas"].as_array().unwrap().iter().map(|one| &one["intent"]).collect();
    assert!(
        intents.contains(&&json!("ops.backup.check")) && intents.contains(&&json!("aee.status.ping")),
        "{listed}"
    );
    owner.delete(TASK).await.is(204);
    reader.get(TASK).await.refused(404, "not_found");
    let told = world.admin().await.get("/audit?event_type=envelope.schema_withdrawn").await.ok();
    assert_eq!(told[0]["payload"], json!({ "intent": "ops.backup.check", "type": "task", "policy": "warn" }));
    world.end().await;
}

#[tokio::test]
async fn the_envelopes_own_schema_is_served() {
    let world = World::start().await;
    let reader = world.agent("agent.reader").await;
    let served = reader.get("/aee/schemas/envelope/aee-v1.schema.json").await.ok();
    assert_eq!(served["properties"]["v"]["const"], "1");
    let ping = reader.get("/aee/schemas/intents/aee.status.ping.task.schema.json").await.ok();
    assert_eq!(ping["additionalProperties"], false);
    world.end().await;
}

#[tokio::test]
async fn bad_schemas_are_refused_with_the_place() {
    let world = World::start().await;
    let owner = world.agent("agent.owner").await;
    for (bad, loc) in [
        (json!({ "type": "text" }), json!(["body", "type"])),
        (
            json!({ "properties": { "a": { "$ref": "https://x.example/s.json" } } }),
            json!(["body", "properties", "a", "$ref"]),
        ),
        (json!({ "allOf": [{ "$ref": "#" }] }), json!(["body"])),
        (json!({ "pattern": "(?=x)" }), json!(["body", "pattern"])),
    ] {
        let body = owner.put(TASK, bad).await.refused(422, "unprocessable");
        assert_eq!(body["errors"][0]["loc"], loc, "{body}");
    }
    owner.put(TASK, json!({ "title": "x".repeat(70_000) })).await.refused(413, "too_large");
    owner.put(&format!("{TASK}?policy=maybe"), schema()).await.refused(422, "invalid_parameter");
    owner.put("/aee/schemas/intents/ops.event.schema.json", schema()).await.refused(404, "not_found");
    owner.put("/aee/schemas/intents/ops%2Fx.task.schema.json", schema()).await.refused(404, "not_found");
    owner.get(TASK).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test]
async fn a_schema_is_its_publishers_and_enforced_by_admins_only() {
    let world = World::start().await;
    let (owner, other, admin) =
        (world.agent("agent.owner").await, world.agent("agent.other").await, world.admin().await);
    owner.put(&format!("{TASK}?policy=enforce"), schema()).await.refused(403, "forbidden");
    publish(&owner, "warn").await;
    other.put(TASK, json!({})).await.refused(403, "forbidden");
    other.delete(TASK).await.refused(403, "forbidden");
    publish(&owner, "off").await;
    publish(&admin, "enforce").await;
    // Without a `policy` the old one stays; from then on the schema belongs to the admin.
    assert_eq!(admin.put(TASK, json!({})).await.ok()["policy"], "enforce");
    owner.put(TASK, schema()).await.refused(403, "forbidden");
    let own = "/aee/schemas/intents/aee.status.ping.task.schema.json";
    owner.put(own, json!({})).await.refused(403, "forbidden");
    owner
        .put("/aee/schemas/intents/aee.mine.task.schema.json", json!({}))
        .await
        .refused(422, "reserved_namespace");
    admin.put(own, json!({})).await.ok();
    world.end().await;
}

#[tokio::test]
async fn a_payload_is_judged_by_the_schema_of_its_type() {
    let world = World::start().await;
    let admin = world.admin().await;
    let bad = envelope("task", "ops.backup.check", json!({ "cluster": 1 }));
    let good = envelope("task", "ops.backup.check", json!({ "cluster": "x" }));
    let result = envelope("result", "ops.backup.check", json!({ "cluster": 1 }));
    let fits = async |envelope| {
        let book = snapshot::latest(&world.ctx().aee).await.unwrap();
        book.fits(&world.ctx().aee, envelope).await.map_err(|failure| match failure {
            AppError::Refused(refusal) => refusal,
            failure => panic!("{failure}"),
        })
    };
    assert_eq!(fits(&bad).await, Ok(None));
    publish(&admin, "off").await;
    assert_eq!(fits(&bad).await, Ok(None));
    publish(&admin, "warn").await;
    assert_eq!(fits(&bad).await, Ok(Some(Warning::PayloadInvalid)));
    assert_eq!(fits(&good).await, Ok(None));
    publish(&admin, "enforce").await;
    let refusal = fits(&bad).await.unwrap_err();
    assert_eq!(refusal.code, Code::PayloadInvalid);
    assert_eq!(refusal.errors[0].loc, ["body", "payload", "cluster"]);
    assert_eq!(fits(&result).await, Ok(None));
    assert_eq!(fits(&good).await, Ok(None));
    admin.delete(TASK).await.is(204);
    assert_eq!(fits(&bad).await, Ok(None));
    world.end().await;
}

#[tokio::test]
async fn what_an_admin_enforces_is_changed_by_admins_only() {
    let world = World::start().await;
    let (owner, admin) = (world.agent("agent.owner").await, world.admin().await);
    publish(&owner, "warn").await;
    publish(&admin, "enforce").await;
    // This includes a weaker key of the same principal, because the schema decides on everybody's envelopes.
    let weak = json!({ "scopes": ["mail:read", "mail:write"] });
    let weak = entente_harness::keys::key(&world, &admin, "service.bootstrap", weak).await.client;
    for client in [&owner, &weak] {
        client.put(TASK, json!({ "type": "object" })).await.refused(403, "forbidden");
        client.delete(TASK).await.refused(403, "forbidden");
    }
    admin.delete(TASK).await.is(204);
    world.end().await;
}

#[tokio::test]
async fn a_change_has_only_what_was_changed_read_again() {
    let world = World::start().await;
    let owner = world.agent("agent.owner").await;
    publish(&owner, "warn").await;
    let bad = json!({ "cluster": 7 });
    let faults = async || {
        let book = snapshot::latest(&world.ctx().aee).await.unwrap();
        let kind = entente_domain::aee::envelopes::EnvelopeType::Task;
        book.faults(&world.ctx().aee, "ops.backup.check", kind, &bad).await.unwrap().unwrap().len()
    };
    assert_eq!(faults().await, 1);
    // Changed directly in the database, so that only a reload would notice it.
    let changed = "UPDATE aee_schemas SET schema = '{}'";
    sqlx::query(changed).execute(&world.ctx().pool).await.unwrap();
    owner.put("/aee/schemas/intents/ops.other.task.schema.json", schema()).await.ok();
    assert_eq!(faults().await, 1);
    publish(&owner, "off").await;
    owner.put(&format!("{TASK}?policy=warn"), json!({ "type": "object" })).await.ok();
    assert_eq!(faults().await, 0);
    world.end().await;
}
