//! Permits (RFC-0013, approvals): requests, approvals, denials, quorums, and that an approval is used once.

use futures_util::future::join_all;

use crate::openintent::governance::{become_, violates};
use entente_harness::governance::{governed, told};
use entente_harness::{Client, Reply, Setup, Value, World, ids, json, talk};

/// Requests approval and returns the path of the request.
async fn ask(client: &Client, intent: &str, action: &str) -> String {
    let body = json!({ "action": action, "reason": "it is time", "context": { "n": 1 } });
    let made = client.post(&format!("/intents/{intent}/approvals"), body).await.is(200);
    assert_eq!(
        (&made["status"], &made["action"], &made["approved_by"]),
        (&json!("pending"), &json!(action), &json!([]))
    );
    format!("/intents/{intent}/approvals/{}", made["id"].as_str().unwrap())
}

/// Decides without a body, as the SDK does.
async fn decide(client: &Client, path: &str, verb: &str) -> Reply {
    client.send("POST", &format!("{path}/{verb}"), None).await
}

async fn complete(client: &Client, intent: &str) -> Reply {
    become_(client, intent, "completed", None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_is_approved_first() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = governed(&ada, json!({ "completion_mode": "require_approval" })).await;
    let detail = violates(&complete(&ada, &intent).await, "completion_mode");
    assert_eq!(
        (&detail["mode"], &detail["required"], &detail["granted"]),
        (&json!("require_approval"), &json!(1), &json!(0))
    );
    // Other status changes and other actions are unaffected.
    become_(&ada, &intent, "active", None).await.ok();
    let deploy = ask(&ada, &intent, "deploy").await;
    decide(&bob, &deploy, "approve").await.is(200);
    let path = ask(&ada, &intent, "complete").await;
    assert_eq!(ada.get(&path).await.is(200)["status"], "pending");
    violates(&complete(&ada, &intent).await, "completion_mode");
    decide(&ada, &path, "approve").await.refused(403, "forbidden");
    let body = json!({ "notes": "checked" });
    let approved = bob.post(&format!("{path}/approve"), body).await.is(200);
    assert_eq!((&approved["status"], &approved["decided_by"]), (&json!("approved"), &json!("agent.bob")));
    assert_eq!((&approved["decision_notes"], &approved["used_at"]), (&json!("checked"), &Value::Null));
    for verb in ["approve", "deny"] {
        decide(&bob, &path, verb).await.refused(409, "already_decided");
    }
    complete(&ada, &intent).await.is(200);
    let used = ada.get(&path).await.is(200);
    assert_eq!((&used["status"], &used["used_by"]), (&json!("approved"), &json!("agent.ada")));
    // An unused approval ends with the intent.
    assert_eq!(ada.get(&deploy).await.is(200)["status"], "expired");
    let granted = told(&ada, &intent, "governance.approval_granted").await;
    assert_eq!(granted.len(), 2);
    assert_eq!(granted[1]["payload"]["requested_by"], "agent.ada");
    let enforced = told(&ada, &intent, "governance.approval_enforced").await;
    assert_eq!(enforced[0]["payload"]["approval_ids"], json!([used["id"]]));
    assert_eq!(enforced[0]["payload"]["approved_by"], json!(["agent.bob"]));
    // Reopened (this server is lenient), it needs another approval, because this one is used.
    become_(&ada, &intent, "active", None).await.ok();
    violates(&complete(&ada, &intent).await, "completion_mode");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_request_permits_nothing() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = governed(&ada, json!({ "completion_mode": "require_approval" })).await;
    let path = ask(&ada, &intent, "complete").await;
    assert_eq!(decide(&bob, &path, "deny").await.is(200)["status"], "denied");
    decide(&bob, &path, "approve").await.refused(409, "already_decided");
    violates(&complete(&ada, &intent).await, "completion_mode");
    assert_eq!(told(&ada, &intent, "governance.approval_denied").await.len(), 1);
    // The requester may withdraw by a denial.
    let path = ask(&ada, &intent, "complete").await;
    assert_eq!(decide(&ada, &path, "deny").await.is(200)["decided_by"], "agent.ada");
    let listed = ada.get(&format!("/intents/{intent}/approvals?status=denied")).await.is(200);
    let denied = ids(&listed["approvals"]);
    assert_eq!(denied.len(), 2);
    let page = format!("/intents/{intent}/approvals?limit=1&before={}", denied[0]);
    assert_eq!(ids(&ada.get(&page).await.is(200)["approvals"]), denied[1..]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_approve_is_said_by_list_and_policy() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let named = json!({ "completion_mode": "require_approval", "approvers": ["agent.bob"] });
    let intent = governed(&ada, named).await;
    let acl = json!({ "default_policy": "closed", "entries": [
        { "principal_id": "agent.bob", "permission": "read" }, { "principal_id": "agent.eve", "permission": "admin" },
    ] });
    ada.put(&format!("/intents/{intent}/acl"), acl).await.ok();
    let path = ask(&ada, &intent, "complete").await;
    decide(&eve, &path, "approve").await.refused(403, "forbidden");
    // Approvers named in the policy need only read access.
    decide(&bob, &path, "approve").await.is(200);
    // Without named approvers, an admin must approve.
    let plain = governed(&ada, json!({ "completion_mode": "require_approval" })).await;
    let acl = json!({ "default_policy": "open", "entries": [
        { "principal_id": "agent.bob", "permission": "write" }, { "principal_id": "agent.eve", "permission": "admin" },
    ] });
    ada.put(&format!("/intents/{plain}/acl"), acl).await.ok();
    let other = ask(&ada, &plain, "complete").await;
    decide(&bob, &other, "approve").await.refused(403, "forbidden");
    decide(&eve, &other, "approve").await.is(200);
    // After a change of the policy, an approval by an agent that it does not name no longer counts.
    let intent_path = format!("/intents/{plain}");
    let set = json!({ "completion_mode": "require_approval", "approvers": ["agent.bob"] });
    ada.seen(&json!(1)).put(&format!("{intent_path}/governance"), set).await.is(200);
    violates(&complete(&ada, &plain).await, "completion_mode");
    // A policy may allow self-approval.
    let own = json!({ "completion_mode": "require_approval", "allow_self_approval": true });
    let lax = governed(&ada, own).await;
    let path = ask(&ada, &lax, "complete").await;
    decide(&ada, &path, "approve").await.is(200);
    complete(&ada, &lax).await.is(200);
    // A request of one intent is not found under another.
    let id = path.rsplit('/').next().unwrap();
    for reply in [
        ada.get(&format!("{intent_path}/approvals/{id}")).await,
        decide(&ada, &format!("{intent_path}/approvals/{id}"), "approve").await,
    ] {
        reply.refused(404, "not_found");
    }
    let stranger = world.agent("agent.stranger").await;
    decide(&stranger, &format!("/intents/{intent}/approvals/{id}"), "approve")
        .await
        .refused(403, "access_closed");
    world.end().await;
}

/// Creates an intent of Ada's with this many assigned agents that decide by quorum.
async fn by_quorum(ada: &Client, agents: usize, threshold: f64) -> String {
    let policy = json!({ "completion_mode": "quorum", "quorum_threshold": threshold });
    let intent = governed(ada, policy).await;
    for n in 0..agents {
        let body = json!({ "agent_id": format!("agent.{n}") });
        ada.post(&format!("/intents/{intent}/agents"), body).await.ok();
    }
    intent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_counts_agents_and_not_approvals() {
    let world = World::start().await;
    let (ada, any) = (world.agent("agent.ada").await, world.any());
    let intent = by_quorum(&ada, 3, 0.6).await;
    let path = ask(&ada, &intent, "complete").await;
    let (a, b) = (any.acting_as("agent.0"), any.acting_as("agent.1"));
    let stranger = world.agent("agent.sock").await;
    // Only assigned agents vote, and an agent cannot assign itself.
    decide(&stranger, &path, "approve").await.refused(403, "forbidden");
    let puppet = json!({ "agent_id": "agent.sock" });
    violates(&stranger.post(&format!("/intents/{intent}/agents"), puppet).await, "completion_mode");
    let once = decide(&a, &path, "approve").await.is(200);
    assert_eq!((&once["status"], &once["approved_by"]), (&json!("pending"), &json!(["agent.0"])));
    let again = decide(&a, &path, "approve").await.is(200);
    assert_eq!(again, once, "a second approval of the same agent is none");
    assert_eq!(told(&ada, &intent, "governance.approval_granted").await.len(), 1);
    // An approval of another request does not count either.
    let other = ask(&b, &intent, "complete").await;
    assert_eq!(decide(&a, &other, "approve").await.is(200)["status"], "pending");
    let detail = violates(&complete(&ada, &intent).await, "completion_mode");
    assert_eq!(
        (&detail["mode"], &detail["required"], &detail["granted"]),
        (&json!("quorum"), &json!(2), &json!(1))
    );
    assert_eq!(decide(&b, &path, "approve").await.is(200)["status"], "approved");
    complete(&ada, &intent).await.is(200);
    let enforced = told(&ada, &intent, "governance.approval_enforced").await;
    assert_eq!(enforced[0]["payload"]["approved_by"], json!(["agent.0", "agent.1"]));
    // Without voters nothing can be completed.
    let empty = by_quorum(&ada, 0, 0.5).await;
    violates(&complete(&ada, &empty).await, "completion_mode");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_approvals_on_two_servers_each_agent_has_one_seat() {
    let (world, other) = World::two().await;
    let ada = world.agent("agent.ada").await;
    let intent = by_quorum(&ada, 6, 1.0).await;
    let path = ask(&ada, &intent, "complete").await;
    // Five of six agents, each on both servers and several times.
    let approvals = (0..40).map(|n| {
        let server = if n % 2 == 0 { &world } else { &other };
        let (client, path) = (server.any().acting_as(&format!("agent.{}", (n / 2) % 5)), path.clone());
        async move { decide(&client, &path, "approve").await }
    });
    for reply in join_all(approvals).await {
        assert_eq!(reply.is(200)["status"], "pending");
    }
    let approval = ada.get(&path).await.is(200);
    assert_eq!(approval["approved_by"].as_array().unwrap().len(), 5);
    assert_eq!(told(&ada, &intent, "governance.approval_granted").await.len(), 5);
    violates(&complete(&ada, &intent).await, "completion_mode");
    decide(&other.any().acting_as("agent.5"), &path, "approve").await.is(200);
    // Concurrent completions: one succeeds and uses the approval once.
    let version = crate::openintent::governance::version(&ada, &intent).await;
    let ends =
        (0..12).map(|n| {
            let client = if n % 2 == 0 { world.any() } else { other.any() };
            let (client, intent) = (client.seen(&version), intent.clone());
            async move {
                client.post(&format!("/intents/{intent}/status"), json!({ "status": "completed" })).await
            }
        });
    let ends = join_all(ends).await;
    assert_eq!(ends.iter().filter(|reply| reply.status == 200).count(), 1);
    assert_eq!(told(&ada, &intent, "governance.approval_enforced").await.len(), 1);
    other.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_one_approval_for_two_on_two_servers_one_is_used() {
    let (world, other) = World::two().await;
    let (ada, bob) = (world.agent("agent.ada").await, other.agent("agent.bob").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let path = ask(&ada, &intent, "complete").await;
    // Concurrent approvals and denials of one request: one decides, the others get a conflict.
    let answers = join_all((0..16).map(async |n| {
        let (client, verb) = if n % 2 == 0 { (world.any(), "approve") } else { (bob.clone(), "deny") };
        decide(&client, &path, verb).await
    }))
    .await;
    let decided = answers.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(decided, 1);
    answers.iter().filter(|reply| reply.status != 200).for_each(|reply| {
        reply.refused(409, "already_decided");
    });
    other.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mode_is_as_strict_about_approvals() {
    let strict = vec![("ENTENTE_STRICT_RFC0021", "true")];
    let world = World::with(Setup { settings: strict, live: false }).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = governed(&ada, json!({ "completion_mode": "require_approval" })).await;
    let path = ask(&ada, &intent, "complete").await;
    decide(&bob, &path, "approve").await.is(200);
    // A refused transition does not use the approval.
    complete(&ada, &intent).await.refused(409, "invalid_transition");
    assert_eq!(ada.get(&path).await.is(200)["used_at"], Value::Null);
    become_(&ada, &intent, "active", None).await.ok();
    complete(&ada, &intent).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_done_once() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = governed(&ada, json!({ "completion_mode": "require_approval" })).await;
    let path = format!("/intents/{intent}/approvals");
    let body = json!({ "action": "complete" });
    let first = ada.once("a").post(&path, body.clone()).await.is(200);
    assert_eq!(ada.once("a").post(&path, body.clone()).await.is(200), first);
    assert_eq!(ids(&ada.get(&path).await.ok()["approvals"]).len(), 1);
    let one = format!("{path}/{}", first["id"].as_str().unwrap());
    let approved = decide(&bob.once("b"), &one, "approve").await.is(200);
    assert_eq!(decide(&bob.once("b"), &one, "approve").await.is(200), approved);
    // Invalid requests.
    for (body, status, code) in [
        (json!({ "action": " " }), 422, "invalid_request"),
        (json!({}), 422, "invalid_request"),
        (json!({ "action": "x", "context": { "a": "x".repeat(20_000) } }), 413, "too_large"),
        (json!({ "action": "x", "requested_by": "agent.bob" }), 403, "may_not_act_as"),
    ] {
        ada.post(&path, body).await.refused(status, code);
    }
    complete(&ada, &intent).await.is(200);
    ada.post(&path, body).await.refused(409, "intent_resolved");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_before_a_person_that_person_approves() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let eva = world.human("human.eva").await;
    let admin = world.admin().await;
    let policy = json!({ "completion_mode": "require_approval", "approvers": ["human.eva"] });
    let intent = governed(&ada, policy).await;
    let path = ask(&ada, &intent, "complete").await;
    let key = admin.post("/principals/human.eva/keys", json!({ "act_as": ["agent.eva"] })).await.is(201);
    let given = world.client(key["key"].as_str().unwrap());
    for verb in ["approve", "deny"] {
        for client in [world.any().acting_as("human.eva"), admin.acting_as("human.eva"), given.clone()] {
            decide(&client, &path, verb).await.refused(403, "not_the_principal");
        }
        decide(&given.acting_as("agent.eva"), &path, verb).await.refused(403, "forbidden");
    }
    // She may not approve a request that her own agent made with a key of hers.
    let own = ask(&given.acting_as("agent.eva"), &intent, "complete").await;
    decide(&eva, &own, "approve").await.refused(403, "forbidden");
    violates(&complete(&ada, &intent).await, "completion_mode");
    decide(&eva, &path, "approve").await.is(200);
    let granted = told(&ada, &intent, "governance.approval_granted").await;
    assert_eq!(granted[0]["payload"]["authority"]["basis"], "seeded_key");
    complete(&ada, &intent).await.is(200);
    world.end().await;
}
