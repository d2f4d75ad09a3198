//! What people are told of: decisions, approvals, their own inboxes.

use super::{contact, later, notify, shown, things};
use entente_harness::envelopes::{task_envelope, with};
use entente_harness::inbox::{follow, open, seen};
use entente_harness::moments::{ask, at, dialogue, option, resolve};
use entente_harness::{Receiver, World, json, send, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_told_once_with_its_page() {
    let world = World::start().await;
    let (agent, ada, ben) =
        (world.agent("agent.a").await, world.human("human.ada").await, world.human("human.ben").await);
    let (receiver, other) = (Receiver::start().await, Receiver::start().await);
    // What was asked before is in the inbox, and is not told.
    ask(&agent, json!({})).await;
    contact(&ada, "human.ada", &receiver, json!({})).await;
    contact(&ben, "human.ben", &other, json!({})).await;
    notify(&world).await;
    assert_eq!(receiver.count(), 0);
    let moment = ask(&agent, json!({ "expires_in": 3600 })).await;
    notify(&world).await;
    let got = receiver.take();
    let text = shown(&got[0]);
    assert_eq!((got.len(), things(&got[0])), (1, 1));
    let stem = moment["binding_moment"]["question"]["stem"].as_str().unwrap();
    assert!(text.contains(stem) && text.contains("agent.a asks you to decide"), "{text}");
    assert!(text.contains("it lapses on 21 November 2026 at 09:00 UTC"), "{text}");
    let link = format!("http://{}/inbox/{}|Open>", world.server.address, moment["id"].as_str().unwrap());
    assert!(text.contains(&link), "{text}");
    // Nothing about the findings, the options or the offer: those are on the page.
    assert!(!got[0].text.contains("Ship now") && !got[0].text.contains("CI is green"));
    later(&world, 3_000).await;
    assert_eq!((receiver.count(), other.count()), (0, 0), "once, and to nobody else");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_no_more_is_not_told() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    let after = contact(&ada, "human.ada", &receiver, json!({ "after_seconds": 600 })).await;
    let answered = ask(&agent, json!({})).await;
    let withdrawn = ask(&agent, json!({})).await;
    ask(&agent, json!({ "expires_in": 300 })).await;
    let waiting = ask(&agent, json!({})).await;
    resolve(&ada, &answered, option(0)).await.is(200);
    agent.post(&format!("{}/withdraw", at(&withdrawn)), json!({})).await.is(200);
    notify(&world).await;
    assert_eq!(receiver.count(), 0, "not before it has waited");
    later(&world, 600).await;
    let got = receiver.take();
    assert_eq!((got.len(), things(&got[0])), (1, 1));
    assert!(shown(&got[0]).contains(waiting["id"].as_str().unwrap()));
    // What waits to be told is gone with the contact point.
    ask(&agent, json!({})).await;
    ada.delete(&format!("/contact-points/{}", after["id"].as_str().unwrap())).await.is(204);
    later(&world, 600).await;
    assert_eq!(receiver.count(), 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_person_is_told_when_a_question_is_passed_on() {
    let world = World::start().await;
    let (agent, ada, ben) =
        (world.agent("agent.a").await, world.human("human.ada").await, world.human("human.ben").await);
    let (first, second) = (Receiver::start().await, Receiver::start().await);
    contact(&ada, "human.ada", &first, json!({})).await;
    contact(&ben, "human.ben", &second, json!({})).await;
    let passed_on = json!({ "escalate_to": "human.ben", "escalate_after": 600, "expires_in": 3600 });
    ask(&agent, passed_on.clone()).await;
    let answered = ask(&agent, passed_on).await;
    notify(&world).await;
    assert_eq!((first.take().len(), second.count()), (1, 0));
    resolve(&ada, &answered, option(0)).await.is(200);
    later(&world, 600).await;
    let got = second.take();
    assert_eq!((first.count(), got.len(), things(&got[0])), (0, 1, 1));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_word_in_a_deliberation_is_told() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    contact(&ada, "human.ada", &receiver, json!({})).await;
    let moment = ask(&agent, json!({})).await;
    resolve(&ada, &moment, dialogue("Not before the audit.")).await.is(200);
    notify(&world).await;
    assert_eq!(receiver.count(), 0, "the agent is to answer");
    let say = |text: &'static str| json!({ "text": text });
    ada.post(&format!("{}/words", at(&moment)), say("The audit is on Monday.")).await.is(200);
    later(&world, 60).await;
    assert_eq!(receiver.count(), 0, "one's own words are no news");
    agent.post(&format!("{}/words", at(&moment)), say("Then I wait for it.")).await.is(200);
    later(&world, 60).await;
    let got = receiver.take();
    assert_eq!((got.len(), things(&got[0])), (1, 1));
    assert!(!got[0].text.contains("Then I wait"), "words stay on the page");
    // Words that were answered by closing are not told.
    agent.post(&format!("{}/words", at(&moment)), say("Anything else?")).await.is(200);
    ada.post(&format!("{}/close", at(&moment)), json!({})).await.is(200);
    later(&world, 60).await;
    assert_eq!(receiver.count(), 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_approval_is_told_to_all_who_may_decide() {
    let world = World::start().await;
    let (agent, _bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (ada, ben) = (world.human("human.ada").await, world.human("human.ben").await);
    let (first, second) = (Receiver::start().await, Receiver::start().await);
    contact(&ada, "human.ada", &first, json!({})).await;
    contact(&ben, "human.ben", &second, json!({ "topics": ["decision"] })).await;
    let held = |id: &str, from: &str| {
        let requires = json!({ "requires": { "human_approval": true, "timeout_ms": 600_000 } });
        with(task_envelope(&world, id, (from, "agent.bob")), requires)
    };
    agent.post("/aee/envelopes", held("envelope-1", "agent.ada")).await.is(202);
    ada.post("/aee/envelopes", held("envelope-2", "human.ada")).await.is(202);
    notify(&world).await;
    let got = first.take();
    assert_eq!((got.len(), things(&got[0]), second.count()), (1, 1, 0), "not one's own, nor unasked");
    let text = shown(&got[0]);
    assert!(text.contains("Approve: ops.backup.check") && text.contains("agent.ada"), "{text}");
    // One that was decided is not told.
    agent.post("/aee/envelopes", held("envelope-3", "agent.ada")).await.is(202);
    ben.post("/aee/approvals/envelope-3", json!({ "decision": "decline" })).await.ok();
    later(&world, 60).await;
    assert_eq!(first.count(), 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_wakes_is_told_until_it_is_seen() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.ada").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    contact(&ada, "human.ada", &receiver, json!({ "topics": ["inbox"] })).await;
    let (_, channel) = talk(&agent, json!({ "members": ["human.ada"] })).await;
    open(&ada, "human.ada", json!({ "rearm_seconds": 60 })).await;
    let say =
        |kind: &str| json!({ "sender": "agent.ada", "to": "human.ada", "message_type": kind, "payload": {} });
    send(&agent, &channel, say("notify")).await;
    send(&agent, &channel, say("request")).await;
    follow(&world).await;
    notify(&world).await;
    let got = receiver.take();
    assert_eq!((got.len(), things(&got[0])), (1, 1), "the level `next` calls nobody");
    assert!(!got[0].text.contains("agent.ada"), "who says what is for the page");
    later(&world, 60).await;
    assert_eq!(receiver.count(), 0, "a ring is told once; reminders are the contact point's own");
    send(&agent, &channel, say("request")).await;
    follow(&world).await;
    seen(&ada, "human.ada", "default", &json!(3)).await;
    later(&world, 60).await;
    assert_eq!(receiver.count(), 0);
    world.end().await;
}
