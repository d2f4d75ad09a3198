//! Other ends of questions than an answer, and the default person.

use super::{goal, now, question, respond, suspend, types, waiting};
use entente_harness::moments::{answer, at, option};
use entente_harness::{Setup, World, json};

#[tokio::test(flavor = "multi_thread")]
async fn time_is_over_for_who_reads_it_and_is_written_once() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = goal(&agent).await;
    let more = json!({
        "timeout_seconds": 30, "fallback_policy": "complete_with_fallback", "fallback_value": "deny",
    });
    let asked = suspend(&agent, &intent, more).await;
    world.clock.advance(30);
    // No sweep has recorded it yet.
    let read = agent.get(&format!("/intents/{intent}")).await.ok();
    assert_eq!(
        (&read["status"], &read["state"]["_suspension"]["resolution"]),
        (&json!("active"), &json!("expired"))
    );
    assert_eq!(read["state"]["_suspension"]["response"], "deny");
    let listed = agent.get("/intents?status=suspended_awaiting_input").await.ok();
    assert_eq!(listed["intents"], json!([]));
    respond(&ada, &intent, &asked, json!("approve")).await.refused(409, "invalid_transition");
    let moment = agent.get(&format!("/moments/{}", asked["moment_id"].as_str().unwrap())).await.ok();
    assert_eq!(moment["state"], "expired");
    // The version that was read is the one that a write needs.
    let patch = json!({ "patches": [{ "op": "set", "path": "done", "value": true }] });
    let next = agent.seen(&read["version"]).post(&format!("/intents/{intent}/state"), patch).await.is(200);
    assert_eq!(next["status"], "active");
    let other = World::on(Setup::default(), world.database.clone()).await;
    other.clock.advance(30);
    tokio::join!(world.sweep_beside(), other.sweep_beside());
    assert_eq!(types(&agent, &intent, "intent.").await, ["intent.suspended", "intent.suspension_expired"]);
    other.end().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_question_leaves_the_intent_suspended() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    world.human("human.ada").await;
    let intent = goal(&agent).await;
    suspend(&agent, &intent, json!({ "timeout_seconds": 3600 })).await;
    let other = World::on(Setup::default(), world.database.clone()).await;
    world.clock.advance(3600);
    other.clock.advance(3600);
    tokio::join!(world.sweep_beside(), other.sweep_beside());
    let (status, record) = now(&agent, &intent).await;
    assert_eq!((status.as_str(), &record["resolution"]), ("suspended_awaiting_input", &json!("expired")));
    assert!(record.get("response").is_none());
    assert_eq!(types(&agent, &intent, "suspension_expired").await.len(), 1);
    // The agent may ask again.
    suspend(&agent, &intent, json!({ "question": "And now?" })).await;
    other.end().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_and_the_end_of_time_are_one_or_the_other() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = goal(&agent).await;
    let asked = suspend(&agent, &intent, json!({})).await;
    let moment = waiting(&ada).await;
    let path = format!("{}/resolution", at(&moment));
    let (page, intents) = tokio::join!(
        ada.post(&path, answer(&moment, option(0))),
        respond(&ada, &intent, &asked, json!("deny"))
    );
    let mut statuses = [page.status, intents.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", page.text, intents.text);
    let came = if page.status == 200 { "approve" } else { "deny" };
    assert_eq!(now(&agent, &intent).await.1["response"], came);
    assert_eq!(types(&agent, &intent, "intent.resumed").await.len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_status_calls_it_off() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    for status in ["active", "completed"] {
        let intent = goal(&agent).await;
        let asked = suspend(&agent, &intent, json!({ "question": format!("For {status}?") })).await;
        let read = agent.get(&format!("/intents/{intent}")).await.ok();
        let path = format!("/intents/{intent}/status");
        let now = agent.seen(&read["version"]).post(&path, json!({ "status": status })).await.is(200);
        assert_eq!(now["status"], status);
        assert_eq!(now["state"]["_suspension"]["resolution"], "cancelled");
        let moment = agent.get(&format!("/moments/{}", asked["moment_id"].as_str().unwrap())).await.ok();
        assert_eq!(moment["state"], "withdrawn");
        assert_eq!(ada.get("/moments/inbox").await.ok()["moments"], json!([]));
        respond(&ada, &intent, &asked, json!("approve")).await.refused(409, "invalid_transition");
    }
    // The asker may also withdraw the moment.
    let intent = goal(&agent).await;
    let asked = suspend(&agent, &intent, json!({})).await;
    let path = format!("/moments/{}/withdraw", asked["moment_id"].as_str().unwrap());
    agent.post(&path, json!({})).await.is(200);
    let (status, record) = now(&agent, &intent).await;
    assert_eq!((status.as_str(), &record["cancelled_because"]), ("active", &json!("withdrawn")));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_person_who_has_the_intent_in_hand_is_asked() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let eve = world.human("human.eve").await;
    let intent = goal(&agent).await;
    let entry = json!({ "principal_id": "human.eve", "principal_type": "human", "permission": "admin" });
    agent.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok();
    let asked = suspend(&agent, &intent, json!({ "principal_id": null })).await;
    assert_eq!(waiting(&eve).await["id"], asked["moment_id"]);
    // The intent's creator comes first.
    let intent = goal(&ada).await;
    let asked = suspend(&agent, &intent, json!({ "principal_id": null, "question": "Yours?" })).await;
    assert_eq!(waiting(&ada).await["id"], asked["moment_id"]);
    // A second person is asked if the first does not answer.
    let intent = goal(&agent).await;
    let more = json!({ "question": "Both?", "escalate_to": "human.eve", "escalate_after": 60, "timeout_seconds": 600 });
    let asked = agent.post(&format!("/intents/{intent}/suspend"), question(more)).await.is(201);
    world.pass(61).await;
    respond(&eve, &intent, &asked, json!("approve")).await.is(200);
    assert_eq!(now(&agent, &intent).await.1["responded_by"], "human.eve");
    world.end().await;
}
