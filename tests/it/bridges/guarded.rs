//! Tasks that reach a bridge through policy rules: redacted ones, and ones that waited for approval.

use entente_domain::identity::principals::PrincipalKind;
use entente_kernel::identity::seeds;

use super::bridged;
use entente_harness::envelopes::signed;
use entente_harness::envelopes::{mail, task_envelope, with};
use entente_harness::identities::key;
use entente_harness::{Value, json};

#[tokio::test]
async fn a_task_with_something_left_out_is_done_and_who_asked_hears_of_it() {
    let (world, [ada, bob, admin], hand) = bridged().await;
    let rule = json!({ "from": "agent.ada", "redact": ["/customer/email"] });
    admin.put("/aee/rules/private", rule).await.ok();
    let payload = json!({ "customer": { "email": "dan@secret.example", "n": 1 } });
    let more = json!({ "payload": payload, "requires": { "timeout_ms": 90_000 } });
    let task = with(task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob")), more);
    assert_eq!(ada.post("/aee/envelopes", task.clone()).await.is(202)["status"], "redacted");
    world.carry().await;
    assert_eq!(mail(&bob, "agent.bob").await, [], "it became a job");
    let job = hand.one().await;
    assert!(!job.to_string().contains("dan@secret.example"), "{job}");
    assert_eq!(job["input"]["customer"], json!({ "n": 1 }), "{job}");
    let events = json!([{ "kind": "progress", "body": { "current": 1, "total": 2 } }]);
    hand.events(&job, events).await.ok();
    world.carry().await;
    let progress: Vec<Value> = mail(&ada, "agent.ada")
        .await
        .into_iter()
        .map(|(_, one)| one)
        .filter(|one| one["payload"]["kind"] == "progress")
        .collect();
    assert_eq!(progress.len(), 1, "{progress:?}");
    assert_eq!((&progress[0]["type"], &progress[0]["from"]), (&json!("stream"), &json!("service.entente")));
    hand.tell(&job, "result", json!({ "result": { "backups": 3 } })).await.ok();
    world.carry().await;
    let told = mail(&ada, "agent.ada").await;
    let (_, result) = told.last().unwrap();
    assert_eq!((&result["type"], &result["payload"]["backups"]), (&json!("result"), &json!(3)));
    for (_, one) in &told {
        assert_eq!((&one["reply_to"], &one["corr"]), (&task["id"], &task["corr"]));
    }
    assert_eq!(told.iter().filter(|(_, one)| one["type"] == "result").count(), 1);
    let thread = ada.get("/aee/threads/thread-00000001").await.ok();
    let leaf = thread["envelopes"].as_array().unwrap().iter();
    let leaf = leaf.into_iter().find(|leaf| leaf["envelope"]["id"] == "envelope-1").unwrap();
    assert_eq!(leaf["pairs"], json!([{ "respondent": "agent.bob", "status": "closed" }]));
    assert_eq!(world.server.bridging.step().await.unwrap(), 0, "there is nothing left to carry");
    world.pass(90).await;
    assert_eq!(mail(&ada, "agent.ada").await.len(), told.len(), "its time does not run out any more");
    world.end().await;
}

#[tokio::test]
async fn what_was_signed_with_a_key_that_is_revoked_while_it_waits_becomes_no_job() {
    let (world, [ada, bob, _admin], hand) = bridged().await;
    seeds::seed(world.ctx(), PrincipalKind::Human, "human.eve", "key-of-eve").await.unwrap();
    let eve = world.client("key-of-eve");
    let pair = json!({ "kid": "one", "algorithm": "ed25519", "public_key": key(1).public_key() });
    ada.post("/aee/keys", pair).await.is(201);
    let asked = json!({ "requires": { "human_approval": true } });
    for id in ["envelope-1", "envelope-2"] {
        let task = signed(with(task_envelope(&world, id, ("agent.ada", "agent.bob")), asked.clone()), 1);
        assert_eq!(ada.post("/aee/envelopes", task).await.is(202)["status"], "held");
    }
    world.carry().await;
    assert!(hand.claim(1).await.is_empty(), "nothing is done that waits");
    let decide = async |id: &str, decision: &str| {
        eve.post(&format!("/aee/approvals/{id}"), json!({ "decision": decision })).await
    };
    decide("envelope-1", "approve").await.ok();
    world.carry().await;
    hand.one().await;
    ada.delete("/aee/keys/one").await.ok();
    decide("envelope-2", "approve").await.refused(403, "bad_signature");
    world.carry().await;
    assert!(hand.claim(1).await.is_empty() && mail(&bob, "agent.bob").await.is_empty());
    // No decision was recorded, so the task can still be declined.
    assert_eq!(eve.get("/aee/approvals").await.ok()[0]["id"], "envelope-2");
    decide("envelope-2", "decline").await.ok();
    let told = mail(&ada, "agent.ada").await;
    assert!(told.iter().any(|(_, one)| one["payload"]["code"] == "E_DECLINED"), "{told:?}");
    world.end().await;
}
