//! The page of an agent's inbox: what it shows, to whom, and that looking changes nothing.

use entente_harness::inbox::{each, follow, open, read, seen, to_bob};
use entente_harness::people::logged_in;
use entente_harness::{Value, World, json, send, talk};

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_looks_into_an_inbox_and_changes_nothing() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    bob.post("/agents/register", json!({ "agent_id": "agent.bob" })).await.ok();
    let mut eve = logged_in(&world, "human.eve", true).await;
    let path = eve.get("/dashboard").await.between("href=\"/inboxes?", "\"");
    assert_eq!(path, "agent=agent.bob");
    let page = eve.get("/inboxes?agent=agent.bob").await;
    assert!(page.status == 200 && page.text.contains("is not open"), "{}", page.text);
    assert_eq!(bob.get("/agents/agent.bob/inbox/settings").await.status, 404, "looking opens nothing");

    let (intent, channel) = talk(&ada, json!({ "name": "by <b>night</b>", "members": ["agent.bob"] })).await;
    let hours =
        json!({ "from": "22:00", "to": "07:00", "time_zone": "Europe/Berlin", "except": ["role:on-call"] });
    open(&bob, "agent.bob", json!({ "quiet_hours": hours, "may_wake": ["agent.ada"], "rearm_seconds": 60 }))
        .await;
    for kind in ["request", "notify", "request"] {
        send(&ada, &channel, to_bob(kind, 1)).await;
    }
    send(&ada, &channel, json!({ "sender": "agent.ada", "message_type": "broadcast", "payload": {} })).await;
    bob.put("/arcp/agents/echo/versions/1", json!({})).await.ok();
    follow(&world).await;
    read(&bob, "agent.bob", "?reader=one").await;
    seen(&bob, "agent.bob", "one", &json!(1)).await;
    world.pass(60).await;
    let settings = bob.get("/agents/agent.bob/inbox/settings").await.ok();
    let before = read(&bob, "agent.bob", "?since=0&expand=true&reader=one").await;
    let page = eve.get("/inboxes?agent=agent.bob").await;
    for part in [
        "4 entries, the newest at place 4",
        "Quiet hours: 22:00 to 07:00 in Europe/Berlin, except for role:on-call.",
        "has seen up to place 1, 3 behind the newest",
        "<dt>May wake</dt><dd>agent.ada</dd>",
        "rang 1 time again",
        "unless it is seen",
        "by &#60;b&#62;night&#60;/b&#62;",
        &format!("<a href=\"/dashboard?intent={intent}\">"),
    ] {
        assert!(page.text.contains(part), "no `{part}` in {}", page.text);
    }
    assert!(!page.text.contains("<b>night"), "names are text");
    // Only one rings: the other was seen.
    let armed = page.between("<h2 id=\"armed-h\">", "</section>");
    assert_eq!(armed.matches("<strong>3</strong>").count(), 1, "{armed}");
    assert!(!armed.contains("<strong>1</strong>"), "{armed}");
    let level = |name: &str| page.between(&format!("<h2 id=\"level-{name}\">"), "</section>");
    assert_eq!(level("wake").matches("<li>").count(), 2);
    assert!(level("next").contains("<strong>2</strong>") && level("digest").contains("<strong>4</strong>"));
    // Nothing moved, nothing was taken up, and nobody became a reader.
    assert_eq!(bob.get("/agents/agent.bob/inbox/settings").await.ok(), settings);
    assert_eq!(read(&bob, "agent.bob", "?since=0&expand=true&reader=one").await, before);
    world.pass(60).await;
    assert_eq!(each(&read(&bob, "agent.bob", "?reader=one").await, "rings"), [json!(0), json!(2)]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_owner_and_admins_look_into_an_inbox() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
    open(&bob, "agent.bob", json!({})).await;
    let message = send(&ada, &channel, to_bob("request", 1)).await;
    follow(&world).await;
    let mut ben = logged_in(&world, "human.ben", false).await;
    let page = ben.get("/inboxes?agent=agent.bob").await;
    assert_eq!(page.status, 404, "{}", page.text);
    assert_eq!(ben.get("/inboxes?agent=nobody").await.text, page.text, "any other inbox counts as missing");
    assert!(!ben.get("/dashboard").await.text.contains("/inboxes?"));
    assert_eq!(ben.get("/inboxes").await.status, 200);
    // Whoever has registered the agent is its owner.
    let registering = "INSERT INTO agents (agent_id, principal_id, status, capabilities, metadata, registered_at, current_load, \
                       tasks_in_progress, version) VALUES ('agent.bob', 'human.ben', 'active', '{}', '{}', now(), 0, '{}', 1)";
    sqlx::query(registering).execute(&world.ctx().pool).await.unwrap();
    let shown = ben.get("/inboxes?agent=agent.bob").await;
    assert!(shown.text.contains(message["id"].as_str().unwrap()), "{}", shown.text);
    assert!(ben.get("/dashboard").await.text.contains("/inboxes?agent=agent.bob"));
    // What the agent may not read any more is not shown to its owner either.
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let shown = ben.get("/inboxes?agent=agent.bob").await.text;
    assert!(shown.contains("the agent may not read it any more"), "{shown}");
    for hidden in [message["id"].as_str().unwrap(), &intent, "agent.ada"] {
        assert!(!shown.contains(hidden), "{hidden} in {shown}");
    }
    // An admin sees agents' inboxes, and no other person's.
    let person = world.human("human.zoe").await;
    open(&person, "human.zoe", json!({})).await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    assert_eq!(eve.get("/inboxes?agent=agent.bob").await.status, 200);
    assert_eq!(eve.get("/inboxes?agent=human.zoe").await.status, 404);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_inbox_has_pages() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let options = json!({ "members": ["agent.bob"], "options": { "max_messages": 1_000 } });
    let (_, channel) = talk(&ada, options).await;
    open(&bob, "agent.bob", json!({})).await;
    let batch: Vec<Value> = (1..=60).map(|n| to_bob(if n == 1 { "request" } else { "notify" }, n)).collect();
    for _ in 0..2 {
        for body in &batch {
            send(&ada, &channel, body.clone()).await;
        }
    }
    follow(&world).await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/inboxes?agent=agent.bob").await;
    let count = |text: &str| text.matches("<span class=\"pill\">message</span>").count();
    // Two that ring, and a hundred entries.
    assert_eq!(count(&page.text), 102, "{}", page.text);
    assert_eq!(page.between("name=\"before\" value=\"", "\""), "21");
    let rest = eve.get("/inboxes?agent=agent.bob&before=21").await;
    assert_eq!(count(&rest.text), 22);
    assert!(!rest.text.contains("Older entries"));
    for wrong in ["before=x", "before=-99999999999999999999"] {
        assert_eq!(eve.get(&format!("/inboxes?agent=agent.bob&{wrong}")).await.status, 422, "{wrong}");
    }
    assert_eq!(eve.get("/inboxes?agent=agent.bob&before=-1").await.status, 200);
    world.end().await;
}
