//! Threads with strangers' envelopes, paging, and visibility of exchanges (AEE §5.3).

use super::{answer, task_envelope, two, with};
use entente_harness::browser::Browser;
use entente_harness::people::logged_in;
use entente_harness::{Value, json};

fn ids(thread: &Value) -> Vec<String> {
    let all = thread["envelopes"].as_array().unwrap().iter();
    all.map(|leaf| leaf["envelope"]["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_a_stranger_writes_under_a_threads_name_hides_nothing() {
    let (world, ada, bob) = two().await;
    let eve = world.agent("agent.eve").await;
    let event = json!({ "type": "event", "priority": "low" });
    for round in 0..11 {
        let own = |n: usize| {
            let id = format!("envelope-eve-{round}-{n}");
            with(task_envelope(&world, &id, ("agent.eve", "agent.eve")), event.clone())
        };
        let batch: Vec<Value> = (0..100).map(own).collect();
        eve.post("/aee/envelopes/batch", Value::from(batch)).await.is(202);
    }
    world.clock.advance(1);
    for n in 1..=3 {
        let id = format!("envelope-{n}");
        ada.post("/aee/envelopes", task_envelope(&world, &id, ("agent.ada", "agent.bob"))).await.is(202);
    }
    let all = bob.get("/aee/threads/thread-00000001").await.ok();
    assert_eq!(
        (ids(&all), &all["next_cursor"]),
        (["1", "2", "3"].map(|n| format!("envelope-{n}")).to_vec(), &Value::Null)
    );
    // Paging gives the same result.
    let first = ada.get("/aee/threads/thread-00000001?limit=2").await.ok();
    assert_eq!(ids(&first), ["envelope-1", "envelope-2"]);
    let next = first["next_cursor"].as_str().unwrap();
    let rest = ada.get(&format!("/aee/threads/thread-00000001?limit=2&cursor={next}")).await.ok();
    assert_eq!((ids(&rest), &rest["next_cursor"]), (vec!["envelope-3".to_owned()], &Value::Null));
    ada.get("/aee/threads/thread-00000001?cursor=x").await.refused(422, "invalid_parameter");
    let service = world.any().get("/aee/threads/thread-00000001").await.ok();
    assert_eq!(ids(&service).len(), 1_000, "who may act as anybody sees everybody's");
    world.end().await;
}

#[tokio::test]
async fn who_is_asked_over_a_channel_sees_its_own_pair_only() {
    let (world, ada, bob) = two().await;
    let eve = world.agent("agent.eve").await;
    for (client, who) in [(&ada, "agent.ada"), (&bob, "agent.bob")] {
        client.put(&format!("/aee/buses/bus.ops/subscriptions/{who}"), json!({})).await.ok();
    }
    eve.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.eve", "bus.ops"))).await.is(202);
    let pair = |who: &str| json!({ "respondent": who, "status": "open" });
    let asker = eve.get("/aee/threads/thread-00000001").await.ok();
    assert_eq!(asker["envelopes"][0]["pairs"], json!([pair("agent.ada"), pair("agent.bob")]));
    for (client, who) in [(&ada, "agent.ada"), (&bob, "agent.bob")] {
        let seen = client.get("/aee/threads/thread-00000001").await.ok();
        assert_eq!(seen["envelopes"][0]["pairs"], json!([pair(who)]));
    }
    // A similar name gives no access either.
    let alike = world.agent("agent_bob").await;
    alike.get("/aee/threads/thread-00000001").await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test]
async fn a_person_sees_a_thread_of_their_own_as_a_page() {
    let (world, ada, bob) = two().await;
    let adam = world.human("human.adam").await;
    let mut browser = logged_in(&world, "human.adam", false).await;
    let task = with(
        task_envelope(&world, "envelope-1", ("human.adam", "agent.bob")),
        json!({ "payload": { "text": "<b>hello</b>" } }),
    );
    adam.post("/aee/envelopes", task.clone()).await.is(202);
    bob.post("/aee/envelopes", answer(&world, "result-1", &task, "result")).await.is(202);
    let page = browser.get("/threads?corr=thread-00000001").await;
    assert_eq!(page.status, 200, "{}", page.text);
    let tree = page.between("class=\"rows tree\">", "</ol>");
    let (asked, answered) = (tree.find("deep-0").unwrap(), tree.find("deep-1").unwrap());
    assert!(asked < answered && tree.contains("pill closed") && tree.contains("agent.bob"), "{tree}");
    assert!(!tree.contains("<b>") && tree.contains("hello"), "what others wrote is shown, not run: {tree}");
    // Another agent's thread looks like an unknown one.
    let theirs = json!({ "corr": "thread-of-others" });
    let envelope = with(task_envelope(&world, "envelope-2", ("agent.ada", "agent.bob")), theirs);
    ada.post("/aee/envelopes", envelope).await.is(202);
    assert_eq!(browser.get("/threads?corr=thread-of-others").await.status, 404);
    assert_eq!(browser.get("/threads?corr=thread-00000001&cursor=x").await.status, 422);
    // The list has threads with envelopes to the person, once each.
    let list = browser.get("/threads").await;
    assert!(list.status == 200 && !list.text.contains("rows tree"), "{}", list.text);
    assert_eq!(list.text.matches("href=\"/threads?corr=thread-00000001\"").count(), 1, "{}", list.text);
    assert!(
        !list.text.contains("thread-of-others") && list.text.contains("from <bdi>agent.bob"),
        "{}",
        list.text
    );
    let stranger = Browser::new(world.address).get("/threads?corr=thread-00000001").await;
    assert_eq!(
        (stranger.status, stranger.location.as_str()),
        (303, "/login?next=/threads%3Fcorr%3Dthread-00000001")
    );
    world.end().await;
}
