//! Lists with filters and pages in the URL, the page of one thing with its line of time, and the buttons on it.

use entente_harness::jobs::{Hand, id};
use entente_harness::people::logged_in;
use entente_harness::{World, json, send, subscribe, talk};

/// A text that nobody should put into a page: markup, a change of direction, and far too long.
fn hostile() -> String {
    format!("<script>alert(1)</script>\u{202e}\"'& {}", "x".repeat(400))
}

#[tokio::test]
async fn intents_are_found_page_by_page() {
    let world = World::start().await;
    let ann = world.agent("agent.ann").await;
    for n in 0..60 {
        world.clock.advance(1);
        ann.post("/intents", json!({ "title": format!("Matter {n} of many") })).await.ok();
    }
    world.clock.advance(2 * 86_400);
    let odd = hostile();
    let odd = odd.get(..200).unwrap();
    let made = ann.post("/intents", json!({ "title": odd, "status": "active" })).await.ok();
    let mut ada = logged_in(&world, "human.ada", false).await;
    let first = ada.get("/intents?title=MATTER&status=draft&created_by=agent.ann").await;
    assert_eq!(first.text.matches("of many</bdi>").count(), 50, "{}", first.text);
    let next = first.between("<a href=\"/intents?", "\">More</a>").replace("&#38;", "&");
    assert!(next.starts_with("title=MATTER&status=draft&created_by=agent.ann&before=intent_"), "{next}");
    let second = ada.get(&format!("/intents?{next}")).await.text;
    assert_eq!(second.matches("of many</bdi>").count(), 10);
    assert!(second.contains("Matter 0 of many") && !second.contains(">More</a>"));
    // The range of time: the day on which the last one was made has no other.
    let day = world.ctx().now().format("%Y-%m-%d").to_string();
    let page = ada.get(&format!("/intents?from={day}&until={day}")).await.text;
    assert!(page.contains(made["id"].as_str().unwrap()) && !page.contains("of many"), "{page}");
    assert!(!page.contains("<script>alert") && page.matches("<script").count() == 1, "{page}");
    assert!(ada.get("/intents?until=2000-01-01").await.text.contains("No such intents."));
    for (query, why) in [
        ("status=gone", "no status of an intent"),
        ("from=soon", "written like"),
        ("before=1", "id of an intent"),
    ] {
        let page = ada.get(&format!("/intents?{query}")).await;
        assert!(page.status == 422 && page.text.contains(why), "{query}: {}", page.text);
    }
    // A closed intent is nobody's business.
    ann.put(&format!("/intents/{}/acl", made["id"].as_str().unwrap()), json!({ "default_policy": "closed" }))
        .await
        .ok();
    assert!(!ada.get("/intents").await.text.contains(made["id"].as_str().unwrap()));
    assert_eq!(ada.get(&format!("/intents/{}", made["id"].as_str().unwrap())).await.status, 404);
    let mut eve = logged_in(&world, "human.eve", true).await;
    assert!(eve.get("/intents").await.text.contains(made["id"].as_str().unwrap()));
    assert_eq!(eve.get(&format!("/intents/{}", made["id"].as_str().unwrap())).await.status, 200);
    for path in [
        "/intents/x",
        "/intents/intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F",
        "/channels/x",
        "/webhooks/x",
        "/budgets/x",
    ] {
        assert_eq!(eve.get(path).await.status, 404, "{path}");
    }
    world.end().await;
}

#[tokio::test]
async fn an_intent_leads_to_all_that_concerns_it_and_its_status_is_changed_there() {
    let world = World::start().await;
    let ann = world.agent("agent.ann").await;
    let (intent, channel) = talk(&ann, json!({})).await;
    let said = json!({ "sender": "agent.ann", "payload": { "note": hostile() } });
    for _ in 0..70 {
        send(&ann, &channel, said.clone()).await;
    }
    let mut ada = logged_in(&world, "human.ada", false).await;
    let question = entente_harness::moments::ask(&ann, json!({ "intent_id": intent })).await;
    let task = json!({ "name": "count <i>rows</i>" });
    ann.post(&format!("/intents/{intent}/tasks"), task).await.ok();
    ann.put("/arcp/agents/count/versions/1", json!({})).await.ok();
    let job = ann.post("/jobs", json!({ "agent": "count", "input": {}, "intent_id": intent })).await.is(201);
    let job = format!("href=\"/jobs/{}\"", job["job_id"].as_str().unwrap());
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get(&format!("/intents/{intent}")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    // The line of time names the job, as the log does; the job itself is its submitter's.
    let others = ada.get(&format!("/intents/{intent}")).await;
    assert!(others.text.contains("It has no jobs that you may see"), "{} {}", others.status, others.text);
    for part in [
        &job,
        &format!("href=\"/channels/{channel}\""),
        &format!("href=\"/inbox/{}\"", question["id"].as_str().unwrap()),
        "count &#60;i&#62;rows",
        "href=\"/agent?id=agent.ann\"",
        "to everybody in",
    ] {
        assert!(page.text.contains(part), "no `{part}` in {}", page.text);
    }
    let before = page.between(&format!("<a href=\"/intents/{intent}?before="), "\">Earlier");
    let earlier = eve.get(&format!("/intents/{intent}?before={before}")).await;
    assert!(earlier.text.contains("intent created"), "{}", earlier.text);
    // The messages, for members alone.
    let messages = eve.get(&format!("/channels/{channel}")).await;
    assert!(messages.status == 200 && !messages.text.contains("<script>alert"), "{}", messages.text);
    assert_eq!(messages.text.matches("alert(1)").count(), 50);
    let path = messages.between("<p><a href=\"", "\">From the first").replace("&#38;", "&");
    let later = eve.get(&path).await.between("<p><a href=\"", "\">Later").replace("&#38;", "&");
    assert_eq!(eve.get(&later).await.text.matches("alert(1)").count(), 20);
    // The status, by whoever may change it; a stale page changes nothing.
    let at = format!("/intents/{intent}");
    ann.post(
        &format!("/intents/{intent}/acl/entries"),
        json!({ "principal_id": "human.eve", "permission": "admin" }),
    )
    .await
    .ok();
    let version = page.between("name=\"version\" value=\"", "\"");
    let change = [("status", "abandoned"), ("version", version.as_str()), ("reason", "no money")];
    let refused = ada.act(&format!("{at}/status"), "/dashboard", &change).await;
    assert!(refused.status == 403 && refused.text.contains("role=\"alert\""), "{}", refused.text);
    let stale = eve.act(&format!("{at}/status"), &at, &[("status", "abandoned"), ("version", "0")]).await;
    assert_eq!(stale.status, 409, "{}", stale.text);
    assert_eq!(eve.from("cross-site").post(&format!("{at}/status"), &change).await.status, 403);
    let done = eve.from("same-origin").act(&format!("{at}/status"), &at, &change).await;
    assert_eq!((done.status, &done.location), (303, &at), "{}", done.text);
    let events = ann.get(&format!("/intents/{intent}/events")).await.ok();
    assert!(events.to_string().contains("human.eve") && events.to_string().contains("no money"), "{events}");
    assert!(!eve.get(&at).await.text.contains("Give it up"));
    world.end().await;
}

#[tokio::test]
async fn an_agent_is_found_and_drained_by_its_keeper() {
    let world = World::start().await;
    let any = world.any();
    for n in 0..60 {
        let name = format!("agent.n{n:02}");
        any.acting_as(&name).post("/agents/register", json!({ "agent_id": name })).await.ok();
    }
    let client = world.agent("agent.client").await;
    Hand::of(&any, "agent.n07@1").await;
    let job = client.post("/jobs", json!({ "agent": "agent.n07" })).await.is(201);
    let mut eve = logged_in(&world, "human.eve", true).await;
    let first = eve.get("/agents?status=active").await;
    let first = if first.text.contains("agent.n00") { first } else { eve.get("/agents").await };
    assert!(first.text.contains("agent.n49") && !first.text.contains("agent.n50"), "{}", first.text);
    let next = first.between("<p><a href=\"", "\">More").replace("&#38;", "&");
    assert!(eve.get(&next).await.text.contains("agent.n50"));
    let one = eve.get("/agents?name=n59").await.text;
    assert!(one.contains("agent.n59") && !one.contains("agent.n58"), "{one}");
    let at = "/agent?id=agent.n07";
    let page = eve.get(at).await;
    assert!(page.text.contains(&format!("/jobs/{}", id(&job))), "{}", page.text);
    assert!(page.text.contains("agent registered"), "{}", page.text);
    any.acting_as("agent.n07").post("/agents/agent.n07/heartbeat", json!({ "status": "active" })).await.ok();
    let drain = [("id", "agent.n07"), ("status", "draining")];
    let mut ada = logged_in(&world, "human.ada", false).await;
    let foreign = ada.get(at).await.text;
    assert!(!foreign.contains("Drain it") && !foreign.contains("agent registered"), "{foreign}");
    assert_eq!(ada.act("/agent/status", "/dashboard", &drain).await.status, 403);
    let wrong = eve.act("/agent/status", at, &[("id", "agent.n07"), ("status", "deregistered")]).await;
    assert!(wrong.status >= 400 && wrong.text.contains("role=\"alert\""), "{}", wrong.text);
    let done = eve.act("/agent/status", at, &drain).await;
    assert_eq!((done.status, done.location.as_str()), (303, at), "{}", done.text);
    let page = eve.get(at).await.text;
    assert!(page.contains("Let it work again") && page.contains("human.eve"), "{page}");
    // Whoever is not registered, whatever the name, has a page.
    let odd = eve.get("/agent?id=%3Cb%3E%E2%80%AE%22x").await;
    assert!(
        odd.status == 200 && odd.text.contains("Not registered") && !odd.text.contains("<b>"),
        "{}",
        odd.text
    );
    world.end().await;
}

#[tokio::test]
async fn keys_are_revoked_on_the_page_of_their_principal() {
    let world = World::start().await;
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.bob", "kind": "agent" })).await.is(201);
    let key = admin.post("/principals/agent.bob/keys", json!({ "label": "<i>old</i>" })).await.is(201);
    let secret = key.to_string();
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/person?id=agent.bob").await;
    assert!(page.text.contains("&#60;i&#62;old"), "{}", page.text);
    let id = page.between("name=\"key\" value=\"", "\"");
    assert!(secret.contains(&id), "{secret}");
    let mut ada = logged_in(&world, "human.ada", false).await;
    assert_eq!(ada.get("/person?id=agent.bob").await.status, 403);
    let own = ada.get("/person?id=human.ada").await;
    assert!(own.status == 200 && !own.text.contains("Quotas"), "{}", own.text);
    let limits = json!({ "open_requests": 50, "storage_bytes": 9_000 });
    admin.put("/principals/human.ada/quotas", limits).await.ok();
    let own = ada.get("/person?id=human.ada").await.text;
    assert!(own.contains("1 of 50 requests under way · not counted yet of 9000 bytes stored"), "{own}");
    assert!(ada.get("/people").await.text.contains("human.ada"));
    let form = [("id", "agent.bob"), ("key", id.as_str())];
    assert!(ada.act("/person/revoke", "/dashboard", &form).await.status >= 400);
    let done = eve.act("/person/revoke", "/person?id=agent.bob", &form).await;
    assert_eq!(done.status, 303, "{}", done.text);
    let after = eve.get("/person?id=agent.bob").await.text;
    assert!(after.contains("revoked") && !after.contains("name=\"key\""), "{after}");
    assert!(eve.get("/people").await.text.contains("agent.bob"));
    world.end().await;
}

#[tokio::test]
async fn a_webhook_and_a_budget_have_pages() {
    let world = World::start().await;
    let ada_key = world.agent("agent.ann").await;
    let hook = subscribe(&ada_key, "http://127.0.0.1:9999/secret-path", json!({})).await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let mut ada = logged_in(&world, "human.ada", false).await;
    let board = eve.get("/dashboard").await.text;
    assert!(board.contains("127.0.0.1:9999") && !board.contains("href=\"/webhooks/"), "it is not hers");
    let path = format!("/webhooks/{}", hook["id"].as_str().unwrap());
    let seen = eve.get(&path).await;
    assert!(!seen.text.contains("secret-path"), "{}", seen.text);
    assert_eq!(ada.get(&path).await.status, 404);
    assert_eq!(ada.get("/webhooks").await.status, 200);
    let admin = world.admin().await;
    let ask = json!({ "name": "<u>team</u>", "scope": "system", "unit": "USD", "limit": 10 });
    let made = admin.post("/budgets", ask).await.is(201);
    let path = format!("/budgets/{}", made["id"].as_str().unwrap());
    assert!(eve.get("/budgets").await.text.contains(&format!("href=\"{path}\"")));
    let page = eve.get(&path).await;
    assert!(page.status == 200 && page.text.contains("&#60;u&#62;team"), "{}", page.text);
    assert_eq!(ada.get("/budgets/x").await.status, 404);
    world.end().await;
}
