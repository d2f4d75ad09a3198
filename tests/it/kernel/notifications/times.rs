//! When people are told: together, not in quiet hours, at the digest, again, and later as an escalation.

use super::{contact, later, notify, shown, things};
use entente_harness::moments::{ask, option, resolve};
use entente_harness::{Receiver, World, json};

/// Berlin's clock is an hour ahead of UTC in November; the test's begins on the 21st at 08:00 UTC.
const ZONE: &str = "Europe/Berlin";

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_together_is_one_message() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    contact(&ada, "human.ada", &receiver, json!({})).await;
    for _ in 0..13 {
        ask(&agent, json!({})).await;
    }
    notify(&world).await;
    let got = receiver.take();
    assert_eq!((got.len(), things(&got[0])), (1, 10));
    let text = shown(&got[0]);
    assert!(text.starts_with("13 decisions wait for you") && text.contains("3 more wait on http"), "{text}");
    // The next ones wait a few seconds, for those that come after them.
    ask(&agent, json!({})).await;
    notify(&world).await;
    assert_eq!(receiver.count(), 0);
    ask(&agent, json!({})).await;
    later(&world, 15).await;
    assert_eq!(things(&receiver.take()[0]), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_hours_are_quiet_and_end() {
    let world = World::start().await;
    let (agent, urgent, ada) =
        (world.agent("agent.a").await, world.agent("agent.fire").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    let quiet = json!({ "from": "08:30", "to": "12:00", "time_zone": ZONE, "except": ["agent.fire"] });
    contact(&ada, "human.ada", &receiver, json!({ "quiet_hours": quiet })).await;
    ask(&agent, json!({})).await;
    notify(&world).await;
    assert_eq!(receiver.count(), 0, "it is 09:00 in Berlin");
    ask(&urgent, json!({})).await;
    notify(&world).await;
    let got = receiver.take();
    assert_eq!((got.len(), things(&got[0])), (1, 1));
    assert!(shown(&got[0]).contains("agent.fire"));
    later(&world, 3 * 3_600 - 1).await;
    assert_eq!(receiver.count(), 0);
    later(&world, 1).await;
    assert_eq!(things(&receiver.take()[0]), 1);
    // The hours may begin after it was queued.
    later(&world, 20 * 3_600).await;
    let waiting = contact(&ada, "human.ada", &receiver, json!({ "after_seconds": 1_800 })).await;
    ask(&agent, json!({})).await;
    let quiet = json!({ "from": "08:30", "to": "12:00", "time_zone": ZONE });
    let settings = json!({ "settings": { "after_seconds": 1_800, "quiet_hours": quiet } });
    ada.patch(&format!("/contact-points/{}", waiting["id"].as_str().unwrap()), settings).await.ok();
    receiver.take();
    later(&world, 1_800).await;
    assert_eq!(receiver.count(), 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_has_what_does_not_lapse_before_it() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    let digest = json!({ "topics": ["decision"], "at": ["07:00", "12:00"], "time_zone": ZONE });
    contact(&ada, "human.ada", &receiver, json!({ "topics": [], "digest": digest })).await;
    let day = json!({ "expires_in": 86_400 });
    ask(&agent, day.clone()).await;
    ask(&agent, day.clone()).await;
    notify(&world).await;
    assert_eq!(receiver.count(), 0);
    ask(&agent, json!({ "expires_in": 3_600 })).await;
    notify(&world).await;
    assert_eq!(things(&receiver.take()[0]), 1, "it would have lapsed at noon");
    later(&world, 3 * 3_600).await;
    assert_eq!(things(&receiver.take()[0]), 2);
    ask(&agent, day).await;
    later(&world, 18 * 3_600).await;
    assert_eq!(receiver.count(), 0);
    later(&world, 3_600).await;
    assert_eq!(things(&receiver.take()[0]), 1, "at seven in the morning");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reminders_come_until_it_is_decided() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    contact(&ada, "human.ada", &receiver, json!({ "remind_seconds": 300 })).await;
    let day = json!({ "expires_in": 86_400 });
    let moment = ask(&agent, day.clone()).await;
    notify(&world).await;
    assert!(!shown(&receiver.take()[0]).contains("Still waiting"));
    for _ in 0..2 {
        later(&world, 300).await;
        let got = receiver.take();
        assert_eq!((got.len(), things(&got[0])), (1, 1));
        assert!(shown(&got[0]).starts_with("Still waiting: Decide:"), "{}", shown(&got[0]));
    }
    resolve(&ada, &moment, option(0)).await.is(200);
    later(&world, 300).await;
    assert_eq!(receiver.count(), 0);
    // Somebody who has not come after ten does not come for the eleventh.
    ask(&agent, day).await;
    notify(&world).await;
    for _ in 0..20 {
        later(&world, 300).await;
    }
    assert_eq!(receiver.count(), 11);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_contact_point_is_an_escalation() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let (first, second) = (Receiver::start().await, Receiver::start().await);
    contact(&ada, "human.ada", &first, json!({})).await;
    contact(&ada, "human.ada", &second, json!({ "after_seconds": 900 })).await;
    let quick = ask(&agent, json!({})).await;
    ask(&agent, json!({})).await;
    notify(&world).await;
    assert_eq!((things(&first.take()[0]), second.count()), (2, 0));
    resolve(&ada, &quick, option(0)).await.is(200);
    later(&world, 900).await;
    assert_eq!((first.count(), things(&second.take()[0])), (0, 1));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_make_no_sense_are_refused() {
    let world = World::start().await;
    let ada = world.human("human.ada").await;
    let receiver = Receiver::start().await;
    let digest = |at: &str, zone: &str| json!({ "topics": [], "digest": { "topics": ["inbox"], "at": [at], "time_zone": zone } });
    for (settings, member) in [
        (json!({ "topics": [] }), "topics"),
        (json!({ "topics": ["inbox"], "digest": { "topics": ["inbox"], "at": ["08:00"] } }), "digest.topics"),
        (digest("8", "UTC"), "digest.at"),
        (digest("08:00", "Mars"), "digest.time_zone"),
        (json!({ "after_seconds": 604_801 }), "after_seconds"),
        (json!({ "remind_seconds": 59 }), "remind_seconds"),
        (json!({ "quiet_hours": { "from": "22:00", "to": "22:00" } }), "quiet_hours"),
    ] {
        let ask = json!({ "kind": "slack", "address": receiver.url(), "settings": settings });
        let refused = ada.post("/people/human.ada/contact-points", ask).await.refused(422, "invalid_request");
        assert!(refused.to_string().contains(member), "{refused}");
    }
    for (kind, address) in [
        ("slack", "ftp://x"),
        ("slack", "http://10.0.0.1/hook"),
        ("ntfy", "https://ntfy.example/"),
        ("web_push", "https://push.example/1"),
    ] {
        let ask = json!({ "kind": kind, "address": address });
        ada.post("/people/human.ada/contact-points", ask).await.refused(422, "invalid_request");
    }
    let mail = json!({ "kind": "mail", "address": "ada@example.com" });
    let refused = ada.post("/people/human.ada/contact-points", mail).await.refused(422, "unprocessable");
    assert!(refused.to_string().contains("ENTENTE_SMTP_URL"), "{refused}");
    world.end().await;
}
