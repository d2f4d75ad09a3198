//! The page of charts, and the figure of waits with many agents.

use crate::arcp::jobs::Hand;
use crate::harness::{World, json, send, talk};
use crate::kernel::people::logged_in;

#[tokio::test]
async fn charts_show_what_was_done_and_only_what_one_may_see() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    for code in [None, Some("INTERNAL_ERROR")] {
        client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
        let claimed = hand.one().await;
        match code {
            None => hand.tell(&claimed, "result", json!({ "result": {} })).await,
            Some(code) => hand.tell(&claimed, "error", json!({ "code": code, "message": "no" })).await,
        };
    }
    let mut ada = logged_in(&world, "human.ada", false).await;
    let moment = crate::moments::ask(&client, json!({})).await;
    world.clock.advance(120);
    let path = format!("/inbox/{}", moment["id"].as_str().unwrap());
    let digest = moment["envelope_digest"].as_str().unwrap();
    let answer = [("kind", "option"), ("option", "0"), ("digest", digest)];
    assert_eq!(ada.act(&format!("{path}/answer"), &path, &answer).await.status, 303);
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/charts?days=30").await;
    assert_eq!(page.status, 200, "{}", page.text);
    let day = world.ctx().now().format("%Y-%m-%d").to_string();
    for part in [
        &format!("<title>{day} error: 1</title>") as &str,
        &format!("<title>{day} success: 1</title>"),
        &format!("<title>{day} median, minutes: 2</title>"),
        "Nothing was spent.",
        "href=\"/charts?days=30\" aria-current=\"true\"",
    ] {
        assert!(page.text.contains(part), "no `{part}` in {}", page.text);
    }
    let own = ada.get("/charts").await.text;
    assert!(own.contains("No jobs have ended.") && own.contains("median, minutes"), "{own}");
    let mut ben = logged_in(&world, "human.ben", false).await;
    assert!(ben.get("/charts?days=x").await.text.contains("No question was answered."));
    world.end().await;
}

#[tokio::test]
async fn fifty_agents_that_wait_are_all_drawn() {
    let world = World::start().await;
    let ann = world.agent("agent.ann").await;
    let (_, channel) = talk(&ann, json!({})).await;
    let any = world.any();
    for n in 0..50 {
        let name = format!("agent.w{n:02}");
        let ask = json!({ "sender": name, "to": format!("agent.w{:02}", (n * 7 + 3) % 50), "message_type": "request", "payload": {} });
        send(&any.acting_as(&name), &channel, ask).await;
    }
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/dashboard").await.text;
    let figure = page.split_once("<svg class=\"web\"").unwrap().1.split_once("</svg>").unwrap().0;
    for n in 0..50 {
        let name = format!(">agent.w{n:02}</text>");
        assert_eq!(figure.matches(&name).count(), 2, "it waits and is awaited: {name}");
    }
    assert_eq!(figure.matches("<title>").count(), 50);
    assert!(figure.contains("viewBox=\"0 0 640 1000\""), "{figure}");
    // No two names share a place.
    let mut places: Vec<&str> = figure
        .split("<text class=\"name\" ")
        .skip(1)
        .map(|text| text.split_once(" text-anchor").unwrap().0)
        .collect();
    places.sort_unstable();
    let all = places.len();
    places.dedup();
    assert_eq!(places.len(), all);
    world.end().await;
}
