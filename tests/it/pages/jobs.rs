//! The pages of jobs: the search, one job, the forms that signal, cancel, rerun and resolve it, and running all of a search again.

use entente_harness::jobs::{Hand, id, status};
use entente_harness::people::logged_in;
use entente_harness::{Client, World, json};

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
    let signal = [("token", token.as_str()), ("key", "k"), ("name", "input")];
    assert_eq!(ada.post(&format!("{page}/signal"), &signal).await.status, 404);
    assert_eq!(client.get(&format!("{page}/signals")).await.ok()["signals"], json!([]));
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

#[tokio::test]
async fn a_signal_is_sent_and_its_way_is_shown() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let retry = json!({ "agent": "echo", "retry": { "max_attempts": 3 }, "priority": 7, "concurrency": { "key": "deploy/shop" } });
    let job = client.post("/jobs", retry).await.is(201);
    let page = format!("/jobs/{}", id(&job));
    let mut eve = logged_in(&world, "human.eve", true).await;
    let claimed = hand.one().await;
    let checkpoint = json!({ "claim_token": claimed["claim_token"], "checkpoint": { "row": 41 } });
    hand.client.put(&format!("{page}/checkpoint"), checkpoint).await;
    let said = [("key", "one press"), ("name", "input"), ("payload", "{ \"answer\": \"<b>yes</b>\" }")];
    for _twice in 0..2 {
        let sent = eve.act(&format!("{page}/signal"), &page, &said).await;
        assert_eq!((sent.status, &sent.location), (303, &page), "{}", sent.text);
    }
    let signals = client.get(&format!("{page}/signals")).await.ok()["signals"].clone();
    assert_eq!(signals.as_array().unwrap().len(), 1, "pressed twice, it is one signal: {signals}");
    assert_eq!(
        (&signals[0]["sender"], &signals[0]["payload"]["answer"]),
        (&json!("human.eve"), &json!("<b>yes</b>"))
    );
    let shown = eve.get(&page).await.text;
    for text in [
        "waits for its worker",
        "from human.eve",
        "answer",
        "of attempt 1, ",
        "0 of 3 that may happen",
        "deploy/shop: at most 1 at once",
    ] {
        assert!(shown.contains(text), "no {text} in {shown}");
    }
    assert!(!shown.contains("<b>yes"), "a payload is text");
    let ack = json!({ "claim_token": claimed["claim_token"], "seq": 1 });
    hand.client.post(&format!("{page}/signals/ack"), ack).await.ok();
    let shown = eve.get(&page).await.text;
    assert!(shown.contains(">acknowledged</span> <span class=\"soft\">in attempt 1, "), "{shown}");

    for (payload, name, why) in [("yes", "input", "no JSON"), ("", "", "`name` must have")] {
        let said = [("key", "k"), ("name", name), ("payload", payload)];
        let wrong = eve.act(&format!("{page}/signal"), &page, &said).await;
        assert!(wrong.status == 422 && wrong.text.contains(why), "{} {}", wrong.status, wrong.text);
        assert!(wrong.text.contains(&format!("spellcheck=\"false\">{payload}</textarea>")), "{}", wrong.text);
    }
    hand.tell(&claimed, "result", json!({ "result": {} })).await.ok();
    assert!(!eve.get(&page).await.text.contains("Send the signal"), "it is over");
    let late = eve.act(&format!("{page}/signal"), &page, &[("key", "late"), ("name", "input")]).await;
    assert!(late.status >= 400 && late.text.contains("role=\"alert\""), "{}", late.text);
    world.end().await;
}

/// Makes jobs that fail, one a second.
async fn failed(world: &World, client: &Client, hand: &Hand, count: usize) {
    for _ in 0..count {
        client.post("/jobs", json!({ "agent": "echo", "labels": { "team": "red" } })).await.is(201);
        let claimed = hand.one().await;
        hand.tell(&claimed, "error", json!({ "code": "INTERNAL_ERROR", "message": "no" })).await.ok();
        world.clock.advance(1);
    }
}

#[tokio::test]
async fn all_jobs_of_a_search_run_again_after_a_question() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    failed(&world, &client, &hand, 3).await;
    let open = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let mut eve = logged_in(&world, "human.eve", true).await;
    let list = eve.get("/jobs?error_code=INTERNAL_ERROR&label=team%3Dred").await.text;
    assert!(list.contains("action=\"/jobs/again\"") && list.contains("Run all of these again"), "{list}");
    let ask = "/jobs/again?error_code=INTERNAL_ERROR&label=team%3Dred";
    let asked = eve.get(ask).await;
    for text in [
        "The search finds 3 jobs",
        "Run 3 again<",
        "label team=red",
        "error code INTERNAL_ERROR",
        "name=\"label\" value=\"team=red\"",
    ] {
        assert!(asked.text.contains(text), "no {text} in {}", asked.text);
    }
    assert_eq!(
        client.get("/jobs?status=pending").await.ok()["jobs"].as_array().unwrap().len(),
        1,
        "asking runs nothing"
    );
    let key = asked.between("name=\"key\" value=\"", "\"");
    let fields =
        [("key", key.as_str()), ("error_code", "INTERNAL_ERROR"), ("label", "team=red"), ("cursor", "")];
    for _twice in 0..2 {
        let done = eve.act("/jobs/again", ask, &fields).await;
        assert!(done.status == 200 && done.text.contains("3 jobs are run again"), "{}", done.text);
        assert_eq!(done.text.matches("runs again as").count(), 3, "{}", done.text);
    }
    assert_eq!(
        client.get("/jobs?status=pending").await.ok()["jobs"].as_array().unwrap().len(),
        4,
        "once each"
    );
    // Another press, which is another request, leaves out what runs again already.
    let asked = eve.get(ask).await.text;
    assert!(
        asked.contains("None of these can be run again")
            && asked.contains("3 are left out")
            && !asked.contains("again</button>"),
        "{asked}"
    );
    for (path, why) in
        [("/jobs/again?status=pending", "Only jobs that are over"), ("/jobs/again?label=x", "key=value")]
    {
        let wrong = eve.get(path).await;
        assert!(
            wrong.status == 422 && wrong.text.contains(why) && !wrong.text.contains("Run 1"),
            "{}",
            wrong.text
        );
    }
    let wrong = eve.act("/jobs/again", ask, &[("key", "k"), ("status", "running")]).await;
    assert!(wrong.status == 422 && wrong.text.contains("role=\"alert\""), "{}", wrong.text);
    assert_eq!(status(&client, id(&open)).await, "pending");
    world.end().await;
}

#[tokio::test]
async fn nobody_runs_others_jobs_again_but_an_operator() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    failed(&world, &client, &hand, 2).await;
    let mut ada = logged_in(&world, "human.ada", false).await;
    // Her own failed job is the only one that she runs again.
    failed(&world, &world.any().acting_as("human.ada"), &hand, 1).await;
    let asked = ada.get("/jobs/again").await;
    assert!(
        asked.text.contains("The search finds 1 job") && asked.text.contains("Run 1 again<"),
        "{}",
        asked.text
    );
    let done = ada.act("/jobs/again", "/jobs/again", &[("key", "k"), ("principal", "agent.client")]).await;
    assert!(!done.text.contains("3 jobs"), "{}", done.text);
    let pending = client.get("/jobs?status=pending").await.ok();
    assert_eq!(pending["jobs"], json!([]), "none of the others' jobs runs again");
    let foreign = ada.from("cross-site").act("/jobs/again", "/jobs/again", &[("key", "f")]).await;
    assert_eq!(foreign.status, 403, "{}", foreign.text);
    world.end().await;
}

#[tokio::test]
async fn more_jobs_than_a_request_runs_again_go_on_by_a_button() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    failed(&world, &client, &hand, 203).await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let asked = eve.get("/jobs/again?status=error").await;
    assert!(
        asked.text.contains("finds 203 jobs in all") && asked.text.contains("Run 200 again<"),
        "{}",
        asked.text
    );
    assert!(asked.text.contains("150 more are not listed here"), "{}", asked.text);
    let done = eve.act("/jobs/again", "/jobs/again", &[("key", "first"), ("status", "error")]).await;
    assert!(
        done.text.contains("200 jobs are run again") && done.text.contains("150 more are run again"),
        "{}",
        done.text
    );
    assert!(done.text.contains("Run 3 again<"), "{}", done.text);
    let cursor = done.between("name=\"cursor\" value=\"", "\"");
    let rest = [("key", "second"), ("status", "error"), ("cursor", cursor.as_str())];
    let done = eve.act("/jobs/again", "/jobs/again", &rest).await;
    assert!(
        done.text.contains("3 jobs are run again") && !done.text.contains("again</button>"),
        "{}",
        done.text
    );
    world.end().await;
}
