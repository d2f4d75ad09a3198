//! Who sees lineages, over REST, MCP and the command line; closed channels stay closed.

use super::{circle, follow, hasty, line, lineages, room, told};
use entente_harness::cli;
use entente_harness::inbox;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Value, World, json, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_model_and_a_terminal_see_the_same() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    hasty(&ada, &intent, json!({})).await;
    circle(&world, &clients, &channel).await;
    let shown = lineages(&clients[0], &intent, "").await;
    let seen = Mcp::new(&clients[0], Era::Stateless).ok("loops", json!({ "intent": intent })).await;
    assert_eq!(
        (seen["lineages"][0]["id"].clone(), seen["lineages"][0]["state"].clone()),
        (shown[0]["id"].clone(), json!("stopped"))
    );
    let pair = &shown[0]["pairs"][0];
    assert_eq!(pair.as_object().unwrap().keys().collect::<Vec<_>>(), ["from", "messages", "to"]);
    let id = shown[0]["id"].as_str().unwrap();
    let run = async |arguments: &[&str]| cli::told(&world, "key-of-agent.ada", arguments).await;
    let listed = run(&["loops", "list", &intent, "--state", "stopped"]).await;
    assert_eq!(listed["lineages"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(run(&["loops", "show", &intent, id]).await["messages"], shown[0]["messages"]);
    assert_eq!(run(&["loops", "release", &intent, id]).await["state"], "running");
    let set = run(&["loops", "policy", &intent, r#"{"hops": 9}"#]).await;
    assert_eq!((&set["policy"], &run(&["loops", "policy", &intent]).await), (&json!({ "hops": 9 }), &set));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_channel_stays_closed() {
    let world = World::start().await;
    let (ada, clients, intent, _) = room(&world).await;
    hasty(&ada, &intent, json!({})).await;
    let ask = json!({ "name": "closed", "members": ["agent.a", "agent.b", "agent.c"], "member_policy": "explicit" });
    let closed = clients[0].post(&format!("/intents/{intent}/channels"), ask).await.is(201);
    let closed = closed["id"].as_str().unwrap();
    circle(&world, &clients, closed).await;
    let eve = world.agent("agent.eve").await;
    assert_eq!(lineages(&eve, &intent, "").await, Vec::<Value>::new());
    let found = lineages(&clients[2], &intent, "").await;
    assert_eq!(found.len(), 1);
    let path = format!("/intents/{intent}/lineages/{}", found[0]["id"].as_str().unwrap());
    eve.get(&path).await.refused(404, "not_found");
    // Whoever manages the intent may let it go on, and so may see it.
    ada.get(&path).await.ok();
    // The log says that there is one, and not whose.
    let events = eve.get(&format!("/intents/{intent}/events?limit=1000")).await.ok();
    let events = events.to_string();
    assert!(events.contains("loop.found"));
    for word in ["\"agent.b\"", closed, "Thank you"] {
        let of_loops: Vec<&str> = events.split("loop.found").skip(1).collect();
        assert!(
            of_loops.iter().all(|rest| !rest.split("event_type").next().unwrap().contains(word)),
            "{word}"
        );
    }
    assert_eq!(told(&eve, &intent).await.len(), 3);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_agents_find_it_in_their_inboxes() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    hasty(&ada, &intent, json!({ "loop_steps": ["tell", "stop"] })).await;
    inbox::open(&clients[1], "agent.b", json!({})).await;
    inbox::open(&ada, "agent.ada", json!({})).await;
    circle(&world, &clients, &channel).await;
    inbox::follow(&world).await;
    let page = inbox::read(&clients[1], "agent.b", "?limit=200").await;
    let is_loop = |entry: &&Value| entry["what"].as_str().unwrap().starts_with("loop_");
    let found: Vec<&Value> = page["entries"].as_array().unwrap().iter().filter(is_loop).collect();
    let what: Vec<&Value> = found.iter().map(|entry| &entry["what"]).collect();
    assert_eq!(what, ["loop_told", "loop_stopped"]);
    let id = &lineages(&ada, &intent, "").await[0]["id"];
    assert_eq!(
        (&found[0]["reference"], &found[0]["intent_id"], &found[0]["kind"]),
        (id, &json!(intent), &json!("task"))
    );
    // It is no business of others.
    assert_eq!(inbox::read(&ada, "agent.ada", "").await["newest"], 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_pages_and_states() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    // Each message of the person begins a lineage, and each is answered.
    let person = world.human("human.eve").await;
    for n in 0..5 {
        send(&person, &channel, line("human.eve", "agent.a", &format!("question {n}"))).await;
        follow(&world).await;
        send(&clients[0], &channel, line("agent.a", "human.eve", "an answer")).await;
        world.clock.advance(1);
    }
    follow(&world).await;
    let all = lineages(&ada, &intent, "").await;
    assert_eq!(all.len(), 5);
    let mut pages = Vec::new();
    let mut before = String::new();
    loop {
        let page = lineages(&ada, &intent, &format!("?limit=2{before}")).await;
        let Some(last) = page.last() else { break };
        before = format!("&before={}", last["id"].as_str().unwrap());
        pages.extend(page);
    }
    assert_eq!(pages, all);
    assert_eq!(lineages(&ada, &intent, "?state=running").await.len(), 5);
    assert_eq!(lineages(&ada, &intent, "?state=stopped").await.len(), 0);
    for query in ["?state=odd", "?limit=0", "?before=x"] {
        let reply = ada.get(&format!("/intents/{intent}/lineages{query}")).await;
        assert!([404, 422].contains(&reply.status), "{query}: {}", reply.text);
    }
    world.end().await;
}
