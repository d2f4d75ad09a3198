//! The page of the search: the results of `GET /search`, with marked words, links and pages.

use entente_harness::jobs::{Hand, id};
use entente_harness::people::logged_in;
use entente_harness::search::index;
use entente_harness::{World, json, send, talk};

#[tokio::test]
async fn words_are_marked_and_results_lead_on() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let said =
        json!({ "sender": "agent.ada", "payload": { "note": "The Deploy <i>failed</i>: deploy again" } });
    let message = send(&ada, &channel, said).await;
    Hand::of(&ada, "echo@1.0.0").await;
    let job = json!({ "agent": "echo", "labels": { "why": "deploy" } });
    let job = id(&ada.post("/jobs", job).await.is(201)).to_owned();
    index(&world).await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/search?q=deploy+%22failed%22").await;
    assert_eq!(page.status, 200, "{}", page.text);
    for part in [
        "value=\"deploy &#34;failed&#34;\"",
        "The <mark>Deploy</mark> &#60;i&#62;<mark>failed</mark>&#60;/i&#62;: <mark>deploy</mark> again",
        message["id"].as_str().unwrap(),
        &format!("<a href=\"/dashboard?intent={intent}\""),
    ] {
        assert!(page.text.contains(part), "no `{part}` in {}", page.text);
    }
    assert!(!page.text.contains("may be missing"), "the index is not behind: {}", page.text);
    let page = eve.get("/search?q=deploy").await.text;
    assert!(page.contains(&format!("<a href=\"/jobs/{job}\"")) && page.contains("<mark>Deploy"), "{page}");
    // Kinds.
    let page = eve.get("/search?q=deploy&job=1").await.text;
    assert!(page.contains(&job) && !page.contains("<mark>Deploy"), "{page}");
    assert!(page.contains("name=\"job\" value=\"1\" checked"), "{page}");
    let page = eve.get(&format!("/search?q=deploy&intent_id={intent}")).await.text;
    assert!(!page.contains(&job) && page.contains("<mark>Deploy"), "{page}");
    // What means nothing is said so, and nothing is markup.
    for (query, shown) in [
        ("q=-x", "must have a word"),
        ("q=%3Cscript%3Ealert(1)%3C%2Fscript%3E&cursor=cur_1", "is none of this search"),
        ("q=x&intent_id=%3Cb%3E", "no id of an intent"),
    ] {
        let page = eve.get(&format!("/search?{query}")).await;
        assert_eq!(page.status, 422, "{query}");
        assert!(page.text.contains(shown) && page.text.matches("<script").count() == 1, "{}", page.text);
    }
    let none = eve.get("/search?q=nowhere").await.text;
    assert!(none.contains("Nothing has these words."), "{none}");
    assert!(!eve.get("/search").await.text.contains("What was found"));
    world.end().await;
}

#[tokio::test]
async fn one_finds_on_the_page_what_one_may_read() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) =
        talk(&ada, json!({ "member_policy": "explicit", "members": ["agent.ada"] })).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "note": "the sentinel sleeps" } }))
        .await;
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    index(&world).await;
    let mut ben = logged_in(&world, "human.ben", false).await;
    let page = ben.get("/search?q=sentinel").await;
    assert!(page.status == 200 && page.text.contains("Nothing has these words."), "{}", page.text);
    let refused = ben.get(&format!("/search?q=sentinel&intent_id={intent}")).await;
    assert!(!refused.text.contains("sleeps"), "{}", refused.text);
    world.end().await;
}

#[tokio::test]
async fn older_results_are_on_the_next_page_and_what_is_not_indexed_is_said() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    for n in 1..=25 {
        world.clock.advance(1);
        send(
            &ada,
            &channel,
            json!({ "sender": "agent.ada", "payload": { "note": format!("beacon b{n}e") } }),
        )
        .await;
    }
    index(&world).await;
    let first = eve.get("/search?q=beacon&message=1").await;
    let cursor = first.between("name=\"cursor\" value=\"", "\"");
    let next = eve.get(&format!("/search?q=beacon&message=1&cursor={cursor}")).await;
    for n in 1..=25 {
        let pages = [&first, &next].map(|page| page.text.contains(&format!("b{n}e")));
        assert_eq!(pages, [n > 5, n <= 5], "{n}");
    }
    assert!(!next.text.contains("Older results"));
    // The follower has not come for a while.
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "note": "beacon" } })).await;
    world.clock.advance(3_600);
    let page = eve.get("/search?q=beacon").await;
    assert!(page.text.contains("messages and events than 1 h ago may be missing"), "{}", page.text);
    world.end().await;
}
