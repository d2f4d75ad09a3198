//! The dashboard: its figures count everything that the user may see, not only the listed intents, and `?intent=`
//! selects an intent.

use entente_harness::browser::{Browser, Page};
use entente_harness::people::logged_in;
use entente_harness::{Client, World, json, send, subscribe, talk};

/// Returns the figure of a tile.
fn tile(page: &Page, what: &str) -> u32 {
    let (before, _) =
        page.text.split_once(&format!("</strong> {what}</li>")).unwrap_or_else(|| panic!("no {what}"));
    before.rsplit("<strong>").next().unwrap().parse().unwrap()
}

fn tiles(page: &Page) -> [u32; 4] {
    ["open intents", "waiting requests", "jobs at work", "failing receivers"].map(|what| tile(page, what))
}

async fn intent(client: &Client, title: &str) -> String {
    client.post("/intents", json!({ "title": title })).await.ok()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_counts_all_that_one_may_see() {
    let world = World::start().await;
    let ann = world.agent("agent.ann").await;
    // The pending request is on the oldest intent.
    let (oldest, channel) = talk(&ann, json!({})).await;
    // Ids that were created at the same instant have no defined order.
    world.clock.advance(1);
    let asked = json!({ "sender": "agent.ann", "message_type": "request", "payload": {} });
    send(&ann, &channel, asked).await;
    let closed = intent(&ann, "a secret matter").await;
    ann.put(&format!("/intents/{closed}/acl"), json!({ "default_policy": "closed" })).await.ok();
    for n in 0..58 {
        let made = ann.post("/intents", json!({ "title": format!("matter {n}") })).await.ok();
        if n < 3 {
            let one = ann.seen(&made["version"]);
            let path = format!("/intents/{}/status", made["id"].as_str().unwrap());
            one.post(&path, json!({ "status": "abandoned" })).await.ok();
        }
    }
    ann.put("/arcp/agents/sums/versions/1", json!({})).await.ok();
    let mut jobs = Vec::new();
    for _ in 0..30 {
        let job = ann.post("/jobs", json!({ "agent": "sums" })).await.is(201);
        jobs.push(job);
    }
    for job in &jobs[..2] {
        let path = format!("/jobs/{}/cancel", job["job_id"].as_str().unwrap());
        ann.post(&path, json!({ "session_id": job["session_id"] })).await.ok();
    }

    let mut admin = logged_in(&world, "human.eve", true).await;
    let page = admin.get("/dashboard").await;
    assert_eq!(tiles(&page), [57, 1, 28, 0], "an admin sees all: 60 intents less 3, 30 jobs less 2");
    // A person without access sees neither the closed intent nor the jobs of others.
    let mut person = logged_in(&world, "human.ada", false).await;
    let page = person.get("/dashboard").await;
    assert_eq!(tiles(&page), [56, 1, 0, 0]);
    assert!(page.text.contains("waits for <strong>anybody"), "nor is what waits on old intents left out");
    // An intent that is closed later is no longer counted.
    ann.put(&format!("/intents/{oldest}/acl"), json!({ "default_policy": "closed" })).await.ok();
    assert_eq!(tiles(&person.get("/dashboard").await), [55, 0, 0, 0]);
    ann.post(
        &format!("/intents/{oldest}/acl/entries"),
        json!({ "principal_id": "human.ada", "permission": "read" }),
    )
    .await
    .ok();
    assert_eq!(tiles(&person.get("/dashboard").await), [56, 1, 0, 0]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_counts_receivers_and_agents_that_are_not_listed_too() {
    let world = World::start().await;
    let (ann, any) = (world.agent("agent.ann").await, world.any());
    for n in 0..55 {
        subscribe(&ann, &format!("http://127.0.0.1:9999/{n}"), json!({})).await;
    }
    for n in 0..205 {
        let agent = json!({ "agent_id": format!("agent.n{n}") });
        any.acting_as(&format!("agent.n{n}")).post("/agents/register", agent).await.ok();
    }
    let mut admin = logged_in(&world, "human.eve", true).await;
    let page = admin.get("/dashboard").await;
    assert_eq!((tile(&page, "failing receivers"), tile(&page, "healthy agents")), (0, 205));
    sqlx::query(
        "INSERT INTO webhook_shifts (endpoint_id, failures)
         SELECT id, 3 FROM webhook_endpoints WHERE url IS NOT NULL ORDER BY id LIMIT 53
         ON CONFLICT (endpoint_id) DO UPDATE SET failures = 3",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    sqlx::query(
        "UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'gone'
         WHERE id = (SELECT id FROM webhook_endpoints WHERE url IS NOT NULL ORDER BY id DESC LIMIT 1)",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    sqlx::query("UPDATE agents SET status = 'dead' WHERE agent_id = 'agent.n204'")
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    let page = admin.get("/dashboard").await;
    assert_eq!(tile(&page, "failing receivers"), 54);
    assert_eq!((tile(&page, "healthy agents"), tile(&page, "silent agents")), (204, 1));
    // Failing receivers count only for their owner.
    let mut person = logged_in(&world, "human.ada", false).await;
    assert_eq!(tile(&person.get("/dashboard").await, "failing receivers"), 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_opens_the_intent_that_is_asked_for_and_no_other() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    let mut person = logged_in(&world, "human.ada", false).await;
    let first = intent(&agent, "the first matter").await;
    let hidden = intent(&agent, "a secret matter").await;
    agent.put(&format!("/intents/{hidden}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let question = entente_harness::moments::ask(&agent, json!({ "intent_id": first })).await;
    for n in 0..45 {
        world.clock.advance(1);
        intent(&agent, &format!("matter {n}")).await;
    }
    let heading =
        |page: &Page| page.text.contains("<div class=\"line\">").then(|| page.between("<h3>", "</h3>"));
    // A question links to its intent, even if that is old.
    let card = person.get(&format!("/inbox/{}", question["id"].as_str().unwrap())).await;
    let link = format!("/dashboard?intent={first}");
    assert!(card.text.contains(&format!("<a href=\"{link}\">its intent</a>")), "{}", card.text);
    assert_eq!(heading(&person.get(&link).await).as_deref(), Some("the first matter"));
    assert_eq!(heading(&person.get("/dashboard").await).as_deref(), Some("matter 44"), "the liveliest");
    // An unknown or hidden intent is not replaced by another one, and the two cases look the same.
    let nowhere = "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F";
    for other in [hidden.as_str(), nowhere, "x", ""] {
        let page = open(&mut person, other).await;
        assert_eq!(heading(&page), None, "`{other}`");
        assert!(page.text.contains("There is no such intent, or you may not see it."), "{}", page.text);
        assert!(!page.text.contains("secret"));
    }
    let mut admin = logged_in(&world, "human.eve", true).await;
    assert_eq!(heading(&open(&mut admin, &hidden).await).as_deref(), Some("a secret matter"));
    assert_eq!(heading(&open(&mut admin, nowhere).await), None);
    world.end().await;
}

async fn open(browser: &mut Browser, intent: &str) -> Page {
    let page = browser.get(&format!("/dashboard?intent={intent}")).await;
    assert_eq!(page.status, 200);
    page
}
