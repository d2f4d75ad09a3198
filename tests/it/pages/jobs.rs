//! The pages of jobs: the search, one job, and the buttons that cancel it, run it again and resolve it.

use crate::arcp::jobs::{Hand, id, status};
use crate::harness::{World, json};
use crate::kernel::people::logged_in;

#[tokio::test]
async fn an_operator_finds_a_job_and_acts_on_it() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let labels = json!({ "team": "<b>red</b>" });
    let job = client.post("/jobs", json!({ "agent": "echo", "labels": labels })).await.is(201);
    let (id, page) = (id(&job), format!("/jobs/{}", id(&job)));
    client.post(&format!("/jobs/{id}/signals"), json!({ "name": "input" })).await.is(201);
    let mut eve = logged_in(&world, "human.eve", true).await;
    let list = eve.get("/jobs?status=pending&label=team%3D%3Cb%3Ered%3C%2Fb%3E").await;
    assert!(list.text.contains(&page) && list.text.contains("1 pending"), "{}", list.text);
    assert!(!list.text.contains("<b>red"), "what agents write is text");
    assert!(!eve.get("/jobs?status=success").await.text.contains(&page));
    let wrong = eve.get("/jobs?label=x").await;
    assert!(wrong.status == 422 && wrong.text.contains("key=value"), "{}", wrong.text);

    let claimed = hand.one().await;
    world.clock.advance(3);
    let shown = eve.get(&page).await;
    for text in ["hand, since 3 s", "3 s ago", "waits for its worker", "Cancel the job"] {
        assert!(shown.text.contains(text), "no {text} in {}", shown.text);
    }
    assert!(
        !shown.text.contains("Run it again")
            && !shown.text.contains(claimed["claim_token"].as_str().unwrap())
    );
    let refused = eve.act(&format!("{page}/cancel"), &page, &[("grace_sec", "soon")]).await;
    assert!(refused.status >= 400 && refused.text.contains("number of seconds"), "{}", refused.text);
    let done = eve.act(&format!("{page}/cancel"), &page, &[("grace_sec", "600")]).await;
    assert_eq!((done.status, &done.location), (303, &page));
    assert!(eve.get(&page).await.text.contains("in 10 min"));
    assert_eq!(hand.beat(&[&claimed]).await["cancel"], json!([id]));
    hand.tell(&claimed, "error", json!({ "code": "CANCELLED", "message": "stopped" })).await.ok();

    // Run again: pressed twice, it is one job.
    let shown = eve.get(&page).await;
    let (token, key) =
        (shown.between("name=\"token\" value=\"", "\""), shown.between("name=\"key\" value=\"", "\""));
    let mut made = Vec::new();
    for _ in 0..2 {
        made.push(eve.post(&format!("{page}/rerun"), &[("token", &token), ("key", &key)]).await.location);
    }
    assert!(made[0] == made[1] && made[0] != page, "{made:?}");
    assert!(eve.get(&page).await.text.contains(&made[0]), "they name each other");
    let claimed = hand.one().await;
    hand.tell(&claimed, "error", json!({ "code": "INTERNAL_ERROR", "message": "<i>no</i>" })).await.ok();
    let again = eve.get(&made[0]).await;
    for text in ["dead letter", "1 failed", "INTERNAL_ERROR: &#60;i&#62;no"] {
        assert!(again.text.contains(text), "no {text} in {}", again.text);
    }
    assert!(!again.text.contains("<i>no"));
    assert!(eve.get("/jobs?dead_letter=open").await.text.contains(&made[0]));
    let resolved = eve.act(&format!("{}/resolve", made[0]), &made[0], &[("note", "told them")]).await;
    assert_eq!(resolved.status, 303, "{}", resolved.text);
    assert!(eve.get(&made[0]).await.text.contains("by human.eve: told them"));
    assert!(!eve.get("/jobs?dead_letter=open").await.text.contains(&made[0]));
    world.end().await;
}

#[tokio::test]
async fn a_stranger_and_another_site_get_nothing_done() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let page = format!("/jobs/{}", id(&job));
    let mut ada = logged_in(&world, "human.ada", false).await;
    assert!(!ada.get("/jobs").await.text.contains(&page));
    assert_eq!(ada.get(&page).await.status, 404);
    let token = ada.get("/dashboard").await.between("name=\"token\" value=\"", "\"");
    for (verb, field) in [("cancel", "grace_sec"), ("rerun", "key"), ("resolve", "note")] {
        let path = format!("{page}/{verb}");
        assert_eq!(ada.post(&path, &[("token", &token), (field, "1")]).await.status, 404, "{verb}");
    }
    let mut eve = logged_in(&world, "human.eve", true).await;
    let token = eve.get("/dashboard").await.between("name=\"token\" value=\"", "\"");
    assert_eq!(eve.post(&format!("{page}/cancel"), &[("token", "wrong")]).await.status, 403);
    let foreign = eve.from("cross-site").post(&format!("{page}/cancel"), &[("token", &token)]).await;
    assert_eq!(foreign.status, 403, "{}", foreign.text);
    assert_eq!(status(&client, id(&job)).await, "pending");
    world.end().await;
}

#[tokio::test]
async fn the_events_of_a_job_go_back_to_the_first() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let claimed = hand.one().await;
    for n in 0..70 {
        let event =
            json!({ "kind": "log", "body": { "level": "info", "message": format!("step {n} of it") } });
        hand.events(&claimed, json!([event])).await.ok();
    }
    let mut eve = logged_in(&world, "human.eve", true).await;
    let mut path = format!("/jobs/{}", id(&job));
    let mut seen = 0;
    for round in 0.. {
        let page = eve.get(&path).await;
        seen += page.text.matches(" of it").count();
        if !page.text.contains("Earlier events") {
            assert_eq!(round, 2, "of thirty events each");
            break;
        }
        let before = page.between(&format!("<a href=\"/jobs/{}?before=", id(&job)), "\"");
        path = format!("/jobs/{}?before={before}", id(&job));
    }
    assert_eq!(seen, 70, "each once");
    for odd in ["0", "-5", "9223372036854775807", "-9223372036854775808"] {
        assert_eq!(eve.get(&format!("/jobs/{}?before={odd}", id(&job))).await.status, 200, "{odd}");
    }
    let day = world.ctx().now().format("%Y-%m-%d").to_string();
    let all = eve.get(&format!("/jobs?from={day}&until={day}")).await.text;
    assert!(all.contains(id(&job)) && all.contains(&format!("name=\"from\" type=\"date\" value=\"{day}\"")));
    assert!(!eve.get("/jobs?until=2020-01-01").await.text.contains(id(&job)));
    world.end().await;
}
