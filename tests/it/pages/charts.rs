//! The page of charts, and the figure of waits with many agents.

use entente_harness::jobs::Hand;
use entente_harness::loops::follow;
use entente_harness::people::logged_in;
use entente_harness::{World, json, send, talk};

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
    let moment = entente_harness::moments::ask(&client, json!({})).await;
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
        "href=\"/charts?days=30&amp;by=agent\" aria-current=\"true\"",
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
async fn spending_is_divided_by_what_one_chooses() {
    let world = World::start().await;
    let (any, admin) = (world.any(), world.admin().await);
    let intent = admin.post("/intents", json!({ "title": "Paid work" })).await.ok();
    let intent = intent["id"].as_str().unwrap();
    for (agent, model, cost) in [("agent.ann", "large", "1.5"), ("agent.bea", "small", "0.25")] {
        let ask = json!({ "reserve": { "USD": 2 }, "model": model, "agent_id": agent, "intent_id": intent });
        let made = any.acting_as(agent).post("/spend/reservations", ask).await.is(201);
        let settled = json!({ "cost": { "USD": cost } });
        let path = format!("/spend/reservations/{}/settle", made["reservation_id"].as_str().unwrap());
        any.acting_as(agent).post(&path, settled).await.ok();
    }
    let mut eve = logged_in(&world, "human.eve", true).await;
    let day = world.ctx().now().format("%Y-%m-%d").to_string();
    for (by, name) in
        [("agent", "agent.ann"), ("model", "large"), ("intent", intent), ("nonsense", "agent.ann")]
    {
        let page = eve.get(&format!("/charts?by={by}")).await.text;
        let title = format!("<title>{day} {name}: 1.5</title>");
        assert!(name == intent || page.contains(&title), "no {title} in {page}");
        assert!(name != intent || page.contains(&format!("<title>{day} {name}: 1.75</title>")), "{page}");
    }
    // The report is by agent and model, unless one chooses otherwise.
    let page = eve.get("/spend").await;
    assert_eq!(page.status, 200, "{}", page.text);
    for text in
        ["<bdi>large</bdi></td><td>1.5</td><td>USD</td><td>1</td>", "1.75 USD in 2 costs", "agent.bea"]
    {
        assert!(page.text.contains(text), "no {text} in {}", page.text);
    }
    assert!(!page.text.contains(intent) && !page.text.contains("not complete"));
    let page = eve.get(&format!("/spend?asked=1&intent=1&from={day}&until={day}")).await.text;
    assert!(page.contains(&format!("/intents/{intent}")) && !page.contains("agent.bea"), "{page}");
    let page = eve.get("/spend?asked=1&scope=agent%3Aagent.bea").await.text;
    assert!(page.contains("<td>0.25</td>") && !page.contains("<td>1.5</td>"), "{page}");
    assert!(eve.get("/spend?asked=1&until=2020-01-01").await.text.contains("Nothing was spent."));
    for wrong in ["scope=everything", "from=soon"] {
        let page = eve.get(&format!("/spend?asked=1&{wrong}")).await;
        assert!(page.status == 422 && page.text.contains("role=\"alert\""), "{wrong}: {}", page.text);
    }
    // Others than admins see what they spent themselves: here nothing.
    let mut bob = logged_in(&world, "human.bob", false).await;
    let page = bob.get("/spend").await.text;
    assert!(page.contains("Nothing was spent.") && !page.contains("large"), "{page}");
    world.end().await;
}

#[tokio::test]
async fn a_report_that_is_not_complete_says_so() {
    let world = World::start().await;
    let spent = "INSERT INTO spend (id, at, principal_id, agent, model, unit, amount)
         SELECT gen_random_uuid(), $1, 'agent.a', 'agent.a', 'model-' || n, 'USD', 1 FROM generate_series(1, 10000) n";
    sqlx::query(spent).bind(world.ctx().now()).execute(&world.ctx().pool).await.unwrap();
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/spend").await.text;
    assert!(page.contains("This report is not complete") && page.contains("9500 more lines"), "{page}");
    let page = eve.get("/charts?by=model").await.text;
    assert!(page.contains("The charts of spending are not complete"), "{page}");
    let page = eve.get("/charts?by=agent").await.text;
    assert!(!page.contains("not complete") && page.contains("agent.a: 10000"), "{page}");
    world.end().await;
}

#[tokio::test]
async fn messages_are_counted_by_day_and_sender_once() {
    let world = World::start().await;
    let ann = world.agent("agent.ann").await;
    let (_, channel) = talk(&ann, json!({})).await;
    send(&ann, &channel, json!({ "sender": "agent.ann", "payload": {} })).await;
    // What was sent before the follower began is not counted.
    follow(&world).await;
    let bea = world.agent("agent.bea").await;
    let mut ada = logged_in(&world, "human.ada", false).await;
    let by_ada = world.human("human.ada").await;
    for (client, name, count) in [(&ann, "agent.ann", 3), (&bea, "agent.bea", 2), (&by_ada, "human.ada", 1)] {
        for _ in 0..count {
            send(client, &channel, json!({ "sender": name, "payload": {} })).await;
        }
    }
    follow(&world).await;
    follow(&world).await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let first = world.ctx().now().format("%Y-%m-%d").to_string();
    let page = eve.get("/charts").await.text;
    for part in ["agent.ann: 3", "agent.bea: 2", "human.ada: 1"] {
        assert!(page.contains(&format!("<title>{first} {part}</title>")), "no `{part}` in {page}");
    }
    let own = ada.get("/charts").await.text;
    assert!(own.contains(&format!("<title>{first} human.ada: 1</title>")), "{own}");
    assert!(!own.contains("agent.ann: ") && !own.contains("agent.bea: "), "{own}");

    // A day later a count of its own begins, and a step that is long after both deletes them.
    world.clock.advance(24 * 3_600);
    send(&bea, &channel, json!({ "sender": "agent.bea", "payload": {} })).await;
    follow(&world).await;
    let second = world.ctx().now().format("%Y-%m-%d").to_string();
    let mut eve = logged_in(&world, "human.eva", true).await;
    let page = eve.get("/charts").await.text;
    for part in [format!("{first} agent.bea: 2"), format!("{second} agent.bea: 1")] {
        assert!(page.contains(&format!("<title>{part}</title>")), "no `{part}` in {page}");
    }
    world.clock.advance(101 * 24 * 3_600);
    send(&world.any().acting_as("agent.cid"), &channel, json!({ "sender": "agent.cid", "payload": {} }))
        .await;
    follow(&world).await;
    let left: Vec<String> =
        sqlx::query_scalar("SELECT sender FROM message_days").fetch_all(&world.ctx().pool).await.unwrap();
    assert_eq!(left, ["agent.cid"]);
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
