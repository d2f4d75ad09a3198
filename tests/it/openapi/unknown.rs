//! Unknown members of bodies and unknown query parameters, on every operation of the OpenAPI document: named in the
//! response, and members refused in strict mode.

use entente_api::app;

use super::operations;
use crate::unauthorized::bodies;
use entente_harness::{Client, Reply, Setup, Value, World, json, talk};

const HEADER: &str = "entente-warning";
/// The unknown member.
const MEMBER: &str = "unknwon_member";

/// Operations whose bodies may have any member, and the reasons.
const OPEN: &[&str] = &[
    // Unknown members of envelopes and their logs are legal and signed.
    "POST /api/v1/aee/envelopes",
    "POST /api/v1/aee/envelopes/batch",
    "POST /api/v1/aee/logs",
    // The file of another server.
    "POST /api/v1/bundles",
    // A JSON Schema is stored as it came.
    "PUT /api/v1/aee/schemas/intents/{file}",
    // Signed as a whole.
    "POST /api/v1/agents/{agent_id}/identity/rotate",
    "POST /api/v1/federation/callbacks",
    "POST /api/v1/federation/receive",
    // Written by other services.
    "POST /api/v1/hooks/{trigger_id}",
    "POST /api/v1/hooks/{trigger_id}/{token}",
    // A report has any members.
    "POST /api/v1/tasks/{task_id}/progress",
    // A policy is stored as it came; its members are checked when it is set (`governance.rs`).
    "PUT /api/v1/intents/{intent_id}/governance",
];

/// Sends each operation a valid body with one more member, about objects that do not exist, because a body is read first.
async fn each(client: &Client) -> Vec<(String, Reply)> {
    let document: Value = serde_json::from_str(&app::document().json).unwrap();
    let mut replies = Vec::new();
    for (path, method, operation) in operations(&document) {
        if operation.get("requestBody").is_none() {
            continue;
        }
        let mut body = bodies::body(&path);
        if let Some(members) = body.as_object_mut() {
            if path.ends_with("/federation/dispatch") {
                members.insert("intent_id".to_owned(), json!("nowhere"));
            }
            members.insert(MEMBER.to_owned(), json!("x"));
        }
        let nowhere: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "nowhere" } else { part }).collect();
        let url = format!("/{}", nowhere.join("/"));
        replies.push((format!("{method} {path}"), client.send(&method, &url, Some(body.to_string())).await));
    }
    replies
}

fn warned(reply: &Reply) -> &str {
    reply.headers.get(HEADER).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_names_a_member_that_it_does_not_know() {
    let world = World::start().await;
    let (mut faults, mut named, mut refused) = (Vec::new(), 0, 0);
    for (operation, reply) in each(&world.admin().await.with("if-match", "1")).await {
        if OPEN.contains(&operation.as_str()) {
            if !warned(&reply).is_empty() {
                faults.push(format!("{operation} warns of a legal member: {}", warned(&reply)));
            }
        } else if warned(&reply).contains(&format!("unknown;body=\"{MEMBER}\"")) {
            named += 1;
        } else if reply.status == 422 && reply.text.contains(&format!("`{MEMBER}`")) {
            // Closed in every mode: questions to people, and rules of envelopes.
            refused += 1;
        } else {
            faults.push(format!("{operation} answered {} {}", reply.status, reply.text));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(named > 80 && refused > 5, "{named} named it, {refused} refused it");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_strict_mode_every_operation_refuses_it() {
    let world = World::with(Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live: false }).await;
    let mut faults = Vec::new();
    for (operation, reply) in each(&world.admin().await.with("if-match", "1")).await {
        let refused = reply.status == 422 && reply.text.contains(&format!("`{MEMBER}`"));
        if refused == OPEN.contains(&operation.as_str()) {
            faults.push(format!("{operation} answered {} {}", reply.status, reply.text));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_member_is_named_with_the_one_that_it_means() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let leases = format!("/intents/{intent}/leases");
    let ask = json!({ "scope": "research", "duratoin_seconds": 60, "colour": "red" });
    let first = ada.once("k").post(&leases, ask.clone()).await;
    let expected = "unknown;body=\"colour\", unknown;body=\"duratoin_seconds\";near=\"duration_seconds\"";
    let mut told: Vec<&str> = warned(&first).split(", ").collect();
    told.sort_unstable();
    assert_eq!(told.join(", "), expected);
    let lease = first.ok();
    let warnings = lease["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2);
    for warning in warnings {
        assert_eq!(warning["type"], "unknown");
        assert_eq!(warning["loc"][0], "body");
        assert_eq!(warning["pointer"], format!("/{}", warning["loc"][1].as_str().unwrap()));
    }
    assert!(lease.to_string().contains("Did you mean `duration_seconds`?"), "{lease}");
    // A retry is answered alike, a correct request and a read without a word.
    let again = ada.once("k").post(&leases, ask).await;
    assert_eq!((warned(&again), again.text.as_str()), (warned(&first), first.text.as_str()));
    let right = ada.post(&leases, json!({ "scope": "writing", "duration_seconds": 60 })).await;
    assert_eq!((warned(&right), right.ok().get("warnings")), ("", None));
    let read = ada.get(&leases).await;
    assert_eq!((warned(&read), read.text.contains("duratoin")), ("", false));
    // Nested members, items of lists, and messages of a batch, which are parsed one at a time.
    let trigger = json!({ "name": "n", "type": "schedule", "condition": { "cronn": "0 9 * * *" } });
    let nested = ada.post("/triggers", trigger).await;
    assert_eq!(warned(&nested), "unknown;body=\"condition.cronn\";near=\"cron\"");
    let acl = json!({ "default_policy": "open", "entries": [
        { "principal_id": "agent.b" }, { "principal_id": "agent.c", "expires_att": "2036-11-21T08:00:00Z" },
    ] });
    let listed = ada.put(&format!("/intents/{intent}/acl"), acl).await;
    assert_eq!(warned(&listed), "unknown;body=\"entries.1.expires_att\";near=\"expires_at\"");
    let batch = json!({ "messages": [
        { "sender": "agent.ada", "payload": { "anything": 1 } }, { "sender": "agent.ada", "payload": {}, "metdata": {} },
    ] });
    let sent = ada.post(&format!("/channels/{channel}/messages/batch"), batch).await;
    assert_eq!(warned(&sent), "unknown;body=\"messages.1.metdata\";near=\"metadata\"");
    assert_eq!(
        (&sent.ok()["sent"], &sent.ok()["warnings"][0]["pointer"]),
        (&json!(2), &json!("/messages/1/metdata"))
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_warning_is_bounded_and_breaks_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mut many = json!({ "title": "t" });
    for n in 0..50 {
        many[format!("{n} \"\\\r\n é{}", "x".repeat(500))] = json!(n);
    }
    let reply = ada.post("/intents", many).await;
    let told = warned(&reply).to_owned();
    assert!(told.len() < 2_048 && told.ends_with("unknown;more=42"), "{told}");
    assert_eq!(reply.ok()["warnings"].as_array().unwrap().len(), 9);
    // A refusal for another reason has the header too, and stays as it is.
    let refused = ada.post("/tasks", json!({ "name": "t", "intent_id": "nothing", "intentid": "x" })).await;
    assert_eq!(refused.refused(404, "not_found").get("warnings"), None);
    assert_eq!(warned(&refused), "unknown;body=\"intentid\";near=\"intent_id\"");
    // Nobody adds a member to a signed object.
    let admin = world.admin().await;
    let intent = reply.ok()["id"].clone();
    let signed = admin.post("/admin/checkpoints", json!({ "intent_id": intent, "scoep": "server" })).await;
    assert_eq!(warned(&signed), "unknown;body=\"scoep\";near=\"scope\"");
    let signed = signed.is(201);
    assert!(signed["signature"].is_string() && signed.get("warnings").is_none(), "{signed}");
    world.end().await;
}

/// Progress reports take any member; the other actions on tasks do not.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_report_on_a_task_has_members_of_its_own() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok()["id"].as_str().unwrap().to_owned();
    let task = ada.post("/tasks", json!({ "intent_id": intent, "name": "t" })).await.ok();
    let path = format!("/tasks/{}", task["id"].as_str().unwrap());
    let claimed = ada.post(&format!("{path}/claim"), json!({ "percent": 1 })).await;
    assert_eq!(warned(&claimed), "unknown;body=\"percent\"");
    let token = claimed.ok()["claim_token"].clone();
    ada.post(&format!("{path}/start"), json!({ "claim_token": token })).await.ok();
    let report =
        json!({ "claim_token": token, "percent": 40, "reason": "half of it", "output": { "pages": 3 } });
    let reported = ada.post(&format!("{path}/progress"), report).await;
    assert_eq!((reported.status, warned(&reported)), (200, ""));
    let events = ada.get(&format!("/intents/{intent}/events?event_type=task.progress")).await.ok();
    let told = &events[0]["payload"];
    assert_eq!((&told["percent"], &told["reason"]), (&json!(40), &json!("half of it")), "{told}");
    assert_eq!(told["output"], json!({ "pages": 3 }), "{told}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mode_refuses_before_anything_is_done() {
    let world = World::with(Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live: false }).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let ask = json!({ "scope": "research", "duratoin_seconds": 60 });
    let problem = ada.post(&format!("/intents/{intent}/leases"), ask).await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["loc"], json!(["body", "duratoin_seconds"]));
    assert_eq!(problem["errors"][0]["type"], "unknown");
    let message = problem["message"].as_str().unwrap();
    assert!(message.contains("`duratoin_seconds` (did you mean `duration_seconds`?)"), "{message}");
    let held = ada.get(&format!("/intents/{intent}/leases")).await;
    assert!(held.status == 200 && !held.text.contains("research"), "{}", held.text);
    // In a batch only the message at fault is refused.
    let batch = json!({ "messages": [
        { "sender": "agent.ada", "payload": {}, "too": "agent.bob" }, { "sender": "agent.ada", "payload": {} },
    ] });
    let sent = ada.post(&format!("/channels/{channel}/messages/batch"), batch).await.is(207);
    assert_eq!((&sent["sent"], &sent["refused"]), (&json!(1), &json!(1)));
    assert_eq!(sent["results"][0]["error"]["errors"][0]["pointer"], "/messages/0/too");
    // An object that was read may be sent as it is (OI-3.2.6).
    let acl = format!("/intents/{intent}/acl");
    let entries = json!([{ "principal_id": "agent.bob", "permission": "read" }]);
    let kept = ada.put(&acl, json!({ "default_policy": "closed", "entries": entries })).await.ok();
    let again = ada.put(&acl, kept.clone()).await;
    assert_eq!((again.status, warned(&again)), (200, ""), "{}", again.text);
    let task = ada.post("/tasks", json!({ "intent_id": intent, "name": "t" })).await.ok()["id"].clone();
    let gate = json!({
        "id": "gate", "name": "Review", "after_task": task, "status": "pending", "approved_by": null, "approved_at": null,
    });
    let plan = ada.post("/plans", json!({ "intent_id": intent, "checkpoints": [gate] })).await;
    assert_eq!(warned(&plan), "");
    assert_eq!(plan.ok()["checkpoints"][0]["status"], "pending");
    // Unknown parameters are named only: proxies and browsers add some.
    let read = ada.get("/intents?limt=1").await;
    assert_eq!((read.status, warned(&read)), (200, "unknown;query=\"limt\";near=\"limit\""));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_query_parameters_are_named() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for prefix in ["/", "//v1/", "//api/v1/"] {
        let reply = ada.get(&format!("{prefix}intents?limt=1&limit=2&%22%0a=3")).await;
        assert_eq!(warned(&reply), "unknown;query=\"limt\";near=\"limit\", unknown;query=\"\\\"%0A\"");
        assert!(reply.ok().get("warnings").is_none(), "only members of the body are listed there");
    }
    assert_eq!(warned(&ada.get("/intents?limit=2").await), "");
    let many: Vec<String> = (0..40).map(|n| format!("limt{n}=1")).collect();
    let reply = ada.get(&format!("/intents?{}", many.join("&"))).await;
    assert!(warned(&reply).ends_with("unknown;more=32"), "{}", warned(&reply));
    // Also of operations that take none.
    assert_eq!(warned(&ada.get("/principals/me?x=1").await), "unknown;query=\"x\"");
    // A webhook's query belongs to its sender, and only API paths are compared.
    let hook = ada.send("POST", "/hooks/trg_01J9ZK4T6Q8R2V5X7Y9B1C3D5F?x=1", Some("{}".to_owned())).await;
    assert_eq!(warned(&hook), "");
    assert_eq!(warned(&world.anon().get("//docs/?x=1").await), "");
    world.end().await;
}
