//! Who sets where a person is told: the person, with a login of their own.

use super::{contact, later, notify};
use entente_harness::moments::{ask, told};
use entente_harness::{Receiver, World, json};

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_sets_where_a_person_is_told() {
    let world = World::start().await;
    let (ada, ben, admin) =
        (world.human("human.ada").await, world.human("human.ben").await, world.admin().await);
    let receiver = Receiver::start().await;
    let made = contact(&ada, "human.ada", &receiver, json!({})).await;
    let path = format!("/contact-points/{}", made["id"].as_str().unwrap());
    let new = json!({ "kind": "slack", "address": receiver.url() });
    let given = admin.post("/principals/human.ada/keys", json!({ "scopes": null })).await.is(201);
    let given = world.client(given["key"].as_str().unwrap());
    let (agent, any) = (world.agent("agent.a").await, world.any().acting_as("human.ada"));
    for (who, client, status) in [
        ("another person", &ben, 404),
        ("an agent", &agent, 404),
        ("a service that acts as anybody", &any, 404),
        ("an admin", &admin, 403),
        ("a key that an admin made", &given, 403),
    ] {
        let created = client.post("/people/human.ada/contact-points", new.clone()).await;
        assert_eq!(created.status, status, "{who} creates: {}", created.text);
        let changed = client.patch(&path, json!({ "active": false })).await;
        assert_eq!(changed.status, status, "{who} changes: {}", changed.text);
        for verb in ["test", "confirm"] {
            let tried = client.post(&format!("{path}/{verb}"), json!({ "code": "1" })).await;
            assert_eq!(tried.status, status, "{who} {verb}s: {}", tried.text);
        }
    }
    let acting = ada.acting_as("agent.a").post("/people/human.ada/contact-points", new).await;
    assert!([403, 404].contains(&acting.status), "{}", acting.text);
    // An admin sees that there is one, but no secret, and may remove it.
    let seen = admin.get("/people/human.ada/contact-points").await.ok();
    assert_eq!(seen["contact_points"][0]["address"], "127.0.0.1/…");
    ben.get("/people/human.ada/contact-points").await.refused(404, "not_found");
    ben.get(&path).await.refused(404, "not_found");
    ben.delete(&path).await.refused(404, "not_found");
    admin.delete(&path).await.is(204);
    assert_eq!(ada.get("/people/human.ada/contact-points").await.ok()["contact_points"], json!([]));
    let events = told(&world, "contact_point.removed").await;
    assert!(events.len() == 1 && !events[0].to_string().contains("hook"), "{events:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_has_ten_and_a_removed_one_counts_for_a_day() {
    let world = World::start().await;
    let ada = world.human("human.ada").await;
    let receiver = Receiver::start().await;
    let mut last = json!(null);
    for _ in 0..10 {
        last = contact(&ada, "human.ada", &receiver, json!({})).await;
    }
    let new = json!({ "kind": "slack", "address": receiver.url() });
    let again = async || ada.post("/people/human.ada/contact-points", new.clone()).await;
    again().await.refused(422, "unprocessable");
    ada.delete(&format!("/contact-points/{}", last["id"].as_str().unwrap())).await.is(204);
    again().await.refused(422, "unprocessable");
    world.pass(24 * 3_600 + 1).await;
    again().await.is(201);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_creates_one() {
    let world = World::start().await;
    let ada = world.human("human.ada").await;
    let receiver = Receiver::start().await;
    let new = json!({ "kind": "slack", "address": receiver.url(), "label": "phone" });
    let client = ada.with("idempotency-key", "once");
    let first = client.post("/people/human.ada/contact-points", new.clone()).await.is(201);
    let again = client.post("/people/human.ada/contact-points", new).await.is(201);
    assert_eq!(first, again);
    let found = ada.get("/people/human.ada/contact-points").await.ok();
    assert_eq!(found["contact_points"].as_array().unwrap().len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_try_is_sent_whatever_is_set() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    let quiet = json!({ "quiet_hours": { "from": "00:00", "to": "23:59" } });
    let made = contact(&ada, "human.ada", &receiver, quiet).await;
    let path = format!("/contact-points/{}/test", made["id"].as_str().unwrap());
    ask(&agent, json!({})).await;
    for _ in 0..3 {
        ada.post(&path, json!({})).await.is(202);
    }
    notify(&world).await;
    let got = receiver.take();
    assert_eq!((got.len(), &got[0].body()["text"]), (1, &json!("This is where you are told")));
    later(&world, 60).await;
    assert_eq!(receiver.count(), 0);
    world.end().await;
}
