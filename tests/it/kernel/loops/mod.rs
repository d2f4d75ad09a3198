//! Loops and storms among agents: what is one, what follows, who is free again, and who sees it.

mod doors;
mod seeing;
mod servers;

use entente_harness::jobs::Hand;
use entente_harness::loops::follow;
use entente_harness::{Client, Setup, Value, World, json, send, talk};

/// Names of the agents.
pub const TRIO: [&str; 3] = ["agent.a", "agent.b", "agent.c"];

/// A message of one agent to another.
pub fn line(from: &str, to: &str, text: &str) -> Value {
    json!({ "sender": from, "to": to, "payload": { "text": text } })
}

/// Sends a message; returns its status and the body.
pub async fn say(client: &Client, channel: &str, body: Value) -> (u16, Value) {
    let reply = client.post(&format!("/channels/{channel}/messages"), body).await;
    (reply.status, reply.json())
}

/// Returns the lineages of an intent.
pub async fn lineages(client: &Client, intent: &str, query: &str) -> Vec<Value> {
    let found = client.get(&format!("/intents/{intent}/lineages{query}")).await.ok();
    found["lineages"].as_array().unwrap().clone()
}

/// Returns states and reasons of an intent's events about loops.
pub async fn told(client: &Client, intent: &str) -> Vec<(String, Value)> {
    let events = client.get(&format!("/intents/{intent}/events?limit=1000")).await.ok();
    let events = events.as_array().unwrap().clone();
    let is_loop =
        |event: &&Value| ["loop.found", "loop.cleared"].contains(&event["event_type"].as_str().unwrap());
    let what = |event: &Value| {
        let payload = &event["payload"];
        let word = if event["event_type"] == "loop.found" { &payload["state"] } else { &payload["reason"] };
        (event["event_type"].as_str().unwrap().to_owned(), word.clone())
    };
    // The newest comes first.
    events.iter().rev().filter(is_loop).map(what).collect()
}

/// Sets a policy that finds a loop soon.
pub async fn hasty(client: &Client, intent: &str, more: Value) {
    let mut policy = json!({ "hops": 6, "repeats": 4, "patience": 2, "slow_seconds": 5 });
    policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.put(&format!("/intents/{intent}/loop-policy"), policy).await.ok();
}

/// Lets agents thank each other in a circle, and follows each message, until one is refused as stopped; returns how many
/// were sent.
pub async fn circle(world: &World, clients: &[Client], channel: &str) -> usize {
    let mut sent = 0;
    while sent < 200 {
        let (from, to) = (sent % clients.len(), (sent + 1) % clients.len());
        let text = format!("Thank you very much, message {sent} is most welcome!");
        let (status, body) = say(&clients[from], channel, line(TRIO[from], TRIO[to], &text)).await;
        match (status, body["code"].as_str()) {
            (201, _) => sent += 1,
            (429, Some("loop_slowed")) => world.clock.advance(5),
            (409, Some("loop_stopped")) => return sent,
            other => panic!("{other:?}: {body}"),
        }
        follow(world).await;
    }
    panic!("the circle did not end");
}

/// Returns clients of the agents, an intent of somebody else, and its channel.
pub async fn room(world: &World) -> (Client, Vec<Client>, String, String) {
    let ada = world.agent("agent.ada").await;
    let mut clients = Vec::new();
    for name in TRIO {
        clients.push(world.agent(name).await);
    }
    let (intent, channel) = talk(&ada, json!({ "options": { "max_messages": 100_000 } })).await;
    follow(world).await;
    (ada, clients, intent, channel)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_of_three_is_told_slowed_and_stopped() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    hasty(&ada, &intent, json!({})).await;
    let sent = circle(&world, &clients, &channel).await;
    assert!((7..=12).contains(&sent), "{sent}");
    let found = lineages(&ada, &intent, "").await;
    assert_eq!(found.len(), 1);
    let one = &found[0];
    assert_eq!((&one["state"], &one["cause"]), (&json!("stopped"), &json!("loop")));
    assert_eq!((&one["messages"], &one["hops"]), (&json!(sent), &json!(sent - 1)));
    assert_eq!((&one["agents"], &one["root"]["sender"]), (&json!(TRIO), &json!("agent.a")));
    assert_eq!(one["pairs"].as_array().unwrap().len(), 3);
    let steps = [("loop.found", "told"), ("loop.found", "slowed"), ("loop.found", "stopped")];
    let steps: Vec<(String, Value)> = steps.map(|(kind, word)| (kind.to_owned(), json!(word))).into();
    assert_eq!(told(&ada, &intent).await, steps);
    // All of them, but nobody else, and not on another intent.
    for (client, name) in clients.iter().zip(TRIO) {
        let refused =
            client.post(&format!("/channels/{channel}/messages"), line(name, "agent.ada", "x")).await;
        let refused = refused.refused(409, "loop_stopped");
        assert!(refused["message"].as_str().unwrap().contains(one["id"].as_str().unwrap()));
    }
    let (_, elsewhere) = talk(&ada, json!({})).await;
    send(&clients[0], &elsewhere, line("agent.a", "agent.b", "Thank you very much")).await;
    // Following again tells nothing again.
    follow(&world).await;
    assert_eq!(told(&ada, &intent).await.len(), 3);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loops_on_many_intents_are_found_at_once() {
    let world = World::start().await;
    let (ada, clients, first, channel) = room(&world).await;
    let mut rooms = vec![(first, channel)];
    // All of them are followed after the last message: none is refused before.
    while rooms.len() < 19 {
        rooms.push(talk(&ada, json!({ "options": { "max_messages": 100_000 } })).await);
    }
    for (intent, channel) in &rooms {
        hasty(&ada, intent, json!({})).await;
        for n in 0..12 {
            let (from, to) = (n % TRIO.len(), (n + 1) % TRIO.len());
            send(
                &clients[from],
                channel,
                line(TRIO[from], TRIO[to], "Thank you very much, you are welcome!"),
            )
            .await;
        }
    }
    follow(&world).await;
    for (intent, channel) in &rooms {
        let found = lineages(&ada, intent, "").await;
        assert_eq!(
            (found.len(), &found[0]["messages"], &found[0]["state"]),
            (1, &json!(12), &json!("stopped"))
        );
        let words: Vec<String> = told(&ada, intent).await.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(words, ["loop.found"; 3]);
        let (status, body) = say(&clients[0], channel, line(TRIO[0], TRIO[1], "Thank you")).await;
        assert_eq!((status, &body["code"]), (409, &json!("loop_stopped")));
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_dialogue_of_300_hops_goes_on() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    hasty(&ada, &intent, json!({ "hops": 2, "repeats": 2, "patience": 1 })).await;
    let word = |n: u64| {
        format!(
            "w{}",
            n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_string().bytes().fold(String::new(), |text, digit| text
                + char::from(b'a' + digit - b'0').encode_utf8(&mut [0; 4]),)
        )
    };
    for sent in 0..300_u64 {
        let (from, to) = (usize::try_from(sent % 2).unwrap(), usize::try_from(1 - sent % 2).unwrap());
        let text: Vec<String> = (0..6).map(|n| word(sent * 7 + n)).collect();
        send(&clients[from], &channel, line(TRIO[from], TRIO[to], &text.join(" "))).await;
        if sent % 40 == 0 {
            follow(&world).await;
        }
    }
    // Numbers are something to say as well.
    for n in 0..100 {
        send(
            &clients[0],
            &channel,
            json!({ "sender": "agent.a", "to": "agent.b", "payload": { "square": n } }),
        )
        .await;
        send(
            &clients[1],
            &channel,
            json!({ "sender": "agent.b", "to": "agent.a", "payload": { "is": n * n } }),
        )
        .await;
    }
    follow(&world).await;
    let found = lineages(&ada, &intent, "").await;
    assert_eq!((&found[0]["hops"], &found[0]["state"]), (&json!(499), &json!("running")));
    assert_eq!(told(&ada, &intent).await, []);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_policy_the_servers_is_in_force() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    let body = |from: usize| line(TRIO[from], TRIO[1 - from], "You are so very welcome, my dear!");
    let (mut sent, mut slowed) = (0, 0);
    loop {
        match say(&clients[sent % 2], &channel, body(sent % 2)).await {
            (201, _) => sent += 1,
            (429, _) => {
                slowed += 1;
                world.clock.advance(5);
            }
            (409, _) => break,
            other => panic!("{other:?}"),
        }
        assert!(sent < 100 && slowed < 100, "{sent} {slowed} {:?}", lineages(&ada, &intent, "").await);
        follow(&world).await;
    }
    // 24 hops, and two steps of 8 messages each.
    assert_eq!(sent, 41);
    // Who was not part of it is free, and what it says is something new for the others.
    send(&clients[2], &channel, line("agent.c", "agent.a", "a word with you")).await;
    follow(&world).await;
    send(&clients[0], &channel, line("agent.a", "agent.c", "oh")).await;
    follow(&world).await;
    assert_eq!(lineages(&ada, &intent, "").await.len(), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn announcements_and_questions_are_no_loop_unless_the_policy_says_so() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    let announce = async |count: usize| {
        for n in 0..count {
            let body = json!({ "sender": TRIO[n % 2], "message_type": "broadcast", "payload": { "text": "I am alive and well" } });
            assert_eq!(say(&clients[n % 2], &channel, body).await.0, 201, "{n}");
        }
        follow(&world).await;
    };
    announce(60).await;
    for _ in 0..40 {
        let ask = json!({ "sender": "agent.a", "to": "agent.b", "message_type": "request", "payload": { "ready": "?" } });
        let asked = send(&clients[0], &channel, ask).await;
        let path = format!("/channels/{channel}/messages/{}/reply", asked["id"].as_str().unwrap());
        clients[1].post(&path, json!({ "sender": "agent.b", "payload": { "ready": "no" } })).await.is(201);
    }
    follow(&world).await;
    assert_eq!(told(&ada, &intent).await, []);
    hasty(&ada, &intent, json!({ "broadcasts": true, "loop_steps": ["tell"] })).await;
    announce(60).await;
    assert_ne!(told(&ada, &intent).await, []);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_look_for_nothing_and_an_intent_for_loops_nevertheless() {
    let off = Setup { settings: vec![("ENTENTE_LOOPS", "false")], ..Setup::default() };
    let world = World::with(off).await;
    let (ada, clients, intent, channel) = room(&world).await;
    let thank = async |count: usize| {
        for n in 0..count {
            let (from, to) = (n % 2, 1 - n % 2);
            let body = line(TRIO[from], TRIO[to], "Thank you very much, dear friend");
            assert_eq!(say(&clients[from], &channel, body).await.0, 201, "{n}");
        }
        follow(&world).await;
    };
    thank(60).await;
    let position = async || -> Option<i64> {
        sqlx::query_scalar("SELECT global FROM loop_cursor").fetch_one(&world.ctx().pool).await.unwrap()
    };
    assert_eq!((position().await, lineages(&ada, &intent, "").await.len()), (None, 0));
    hasty(&ada, &intent, json!({ "enabled": true, "loop_steps": ["stop"] })).await;
    // It begins with what is said from then on.
    follow(&world).await;
    assert!(position().await.is_some());
    thank(20).await;
    assert_eq!(lineages(&ada, &intent, "").await[0]["state"], "stopped");
    // Off again, nothing is left that costs anything.
    ada.put(&format!("/intents/{intent}/loop-policy"), json!({})).await.ok();
    follow(&world).await;
    assert_eq!(position().await, None);
    thank(40).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_a_pair_is_slowed() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    hasty(&ada, &intent, json!({ "pair_per_minute": 10, "storm_steps": ["slow"] })).await;
    for n in 0..12 {
        let body = json!({ "sender": "agent.a", "to": "agent.b", "payload": { "n": n } });
        send(&clients[0], &channel, body).await;
    }
    follow(&world).await;
    let refused =
        clients[0].post(&format!("/channels/{channel}/messages"), line("agent.a", "agent.b", "x")).await;
    refused.refused(429, "loop_slowed");
    let wait: i64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=6).contains(&wait), "{wait}");
    // Whom it is sent to is free, and after the time one message passes at a time, before the follower has seen it.
    send(&clients[1], &channel, line("agent.b", "agent.c", "somebody talks a lot")).await;
    world.clock.advance(wait);
    send(&clients[0], &channel, line("agent.a", "agent.b", "now")).await;
    let (status, _) = say(&clients[0], &channel, line("agent.a", "agent.b", "and now")).await;
    assert_eq!(status, 429);
    follow(&world).await;
    assert_eq!(lineages(&ada, &intent, "?state=slowed").await[0]["cause"], "pair_rate");
    // It is over with its window.
    world.clock.advance(700);
    follow(&world).await;
    send(&clients[0], &channel, line("agent.a", "agent.b", "later")).await;
    let events = told(&ada, &intent).await;
    assert_eq!(events.last().unwrap(), &("loop.cleared".to_owned(), json!("calm")));
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM loop_holds").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(left, 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn something_new_frees_whom_it_is_sent_to() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    hasty(&ada, &intent, json!({})).await;
    circle(&world, &clients, &channel).await;
    // A person writes to one of them, and an agent that was not in it to another.
    let person = world.human("human.eve").await;
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "open" })).await.ok();
    send(&person, &channel, line("human.eve", "agent.a", "stop thanking, please")).await;
    send(&ada, &channel, line("agent.ada", "agent.b", "there is a new goal")).await;
    follow(&world).await;
    send(&clients[0], &channel, line("agent.a", "human.eve", "very well")).await;
    send(&clients[1], &channel, line("agent.b", "agent.ada", "which one?")).await;
    let (status, body) = say(&clients[2], &channel, line("agent.c", "agent.ada", "hello?")).await;
    assert_eq!((status, &body["code"]), (409, &json!("loop_stopped")));
    // The last one is written to by one of those that are free.
    send(&clients[1], &channel, line("agent.b", "agent.c", "do you know of a goal?")).await;
    follow(&world).await;
    send(&clients[2], &channel, line("agent.c", "agent.b", "yes")).await;
    assert_eq!(told(&ada, &intent).await.last().unwrap(), &("loop.cleared".to_owned(), json!("left")));
    assert_eq!(lineages(&ada, &intent, "?state=ended").await.len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_from_outside_frees_whom_it_is_given_to() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    hasty(&ada, &intent, json!({})).await;
    circle(&world, &clients, &channel).await;
    let path = format!("/channels/{channel}/messages");
    let is_stopped = async |agent: usize| {
        follow(&world).await;
        let (status, _) = say(&clients[agent], &channel, line(TRIO[agent], "agent.ada", "what now?")).await;
        assert!([201, 409].contains(&status), "{status}");
        status == 409
    };
    let task = async |by: &Client| {
        let made = by.post("/tasks", json!({ "intent_id": intent, "name": "a goal" })).await.ok();
        made["id"].as_str().unwrap().to_owned()
    };
    // What they give each other is more of the same, and what one takes for itself is no gift.
    let inside = task(&clients[0]).await;
    clients[0].post(&format!("/tasks/{inside}/delegate"), json!({ "to": TRIO[1] })).await.ok();
    clients[2].post(&format!("/tasks/{}/claim", task(&ada).await), json!({})).await.ok();
    for (agent, name) in TRIO.iter().enumerate() {
        assert!(is_stopped(agent).await, "{name}");
    }
    // A task of somebody else.
    let outside = task(&ada).await;
    ada.post(&format!("/tasks/{outside}/delegate"), json!({ "to": TRIO[0] })).await.ok();
    assert!(!is_stopped(0).await && is_stopped(1).await && is_stopped(2).await);
    // A job, when the agent's worker takes it.
    let hand = Hand::of(&clients[1], "echo@1").await;
    ada.post("/jobs", json!({ "agent": "echo", "intent_id": intent })).await.is(201);
    assert!(is_stopped(1).await);
    hand.one().await;
    assert!(!is_stopped(1).await && is_stopped(2).await);
    // Another agent's part of the intent.
    let assigned = json!({ "agent_id": "agent.ada", "role": "writer" });
    ada.post(&format!("/intents/{intent}/agents"), assigned).await.ok();
    ada.post(&format!("/intents/{intent}/handover"), json!({ "to": TRIO[2] })).await.ok();
    assert!(!is_stopped(2).await);
    follow(&world).await;
    assert_eq!(told(&ada, &intent).await.last().unwrap(), &("loop.cleared".to_owned(), json!("left")));
    assert!(clients[0].get(&path).await.ok().as_array().unwrap().len() > 3);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_manages_the_intent_lets_it_go_on() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    hasty(&ada, &intent, json!({})).await;
    let sent = circle(&world, &clients, &channel).await;
    let id = lineages(&ada, &intent, "").await[0]["id"].as_str().unwrap().to_owned();
    let path = format!("/intents/{intent}/lineages/{id}");
    clients[0].post(&format!("{path}/release"), json!({})).await.refused(403, "forbidden");
    ada.post(&format!("/intents/{intent}/lineages/lin_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/release"), json!({}))
        .await
        .refused(404, "not_found");
    let one = ada.post(&format!("{path}/release"), json!({})).await.ok();
    assert_eq!(one["state"], "running");
    // At once, on this server; and it takes as long as before until it is one again.
    let again = circle(&world, &clients, &channel).await;
    assert!(again >= sent - 2, "{sent} {again}");
    assert_eq!(clients[0].get(&path).await.ok()["state"], "stopped");
    ada.post(&format!("{path}/release"), json!({})).await.ok();
    // One that nothing is done about is as it is.
    assert_eq!(ada.post(&format!("{path}/release"), json!({})).await.ok()["state"], "running");
    let cleared = told(&ada, &intent).await;
    assert_eq!(cleared.iter().filter(|(_, word)| *word == "released").count(), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_has_bounds_and_defaults_and_can_be_off() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    let path = format!("/intents/{intent}/loop-policy");
    let usual = clients[0].get(&path).await.ok();
    assert_eq!((&usual["policy"], &usual["effective_policy"]["hops"]), (&json!({}), &json!(24)));
    clients[0].put(&path, json!({ "hops": 3 })).await.refused(403, "forbidden");
    for wrong in [
        json!({ "hops": 1 }),
        json!({ "repeats": 17 }),
        json!({ "slow_seconds": 0 }),
        json!({ "loop_steps": [] }),
        json!({ "loop_steps": ["stop", "tell"] }),
        json!({ "storm_steps": ["slow", "slow"] }),
        json!({ "hop": 3 }),
        json!({ "hops": -1 }),
        json!({ "loop_steps": ["kill"] }),
    ] {
        let reply = ada.put(&path, wrong.clone()).await;
        assert_eq!(reply.status, 422, "{wrong}: {}", reply.text);
    }
    hasty(&ada, &intent, json!({ "loop_steps": ["tell", "stop"] })).await;
    circle(&world, &clients, &channel).await;
    let set = ada.put(&path, json!({ "enabled": false })).await.ok();
    assert_eq!(
        (&set["policy"], &set["effective_policy"]["enabled"]),
        (&json!({ "enabled": false }), &json!(false))
    );
    // What was stopped goes on, and nothing is looked for any more.
    for n in 0..40 {
        let (from, to) = (n % 2, 1 - n % 2);
        send(&clients[from], &channel, line(TRIO[from], TRIO[to], "Thank you very much, dear friend")).await;
    }
    follow(&world).await;
    let events = told(&ada, &intent).await;
    assert_eq!(events.last().unwrap(), &("loop.cleared".to_owned(), json!("released")));
    assert_eq!(lineages(&ada, &intent, "").await.len(), 1);
    let talks: i64 =
        sqlx::query_scalar("SELECT count(*) FROM talks").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(talks, 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lineages_and_talks_are_forgotten() {
    let world = World::start().await;
    let (ada, clients, intent, channel) = room(&world).await;
    for n in 0..4 {
        let (from, to) = (n % 2, 1 - n % 2);
        send(&clients[from], &channel, line(TRIO[from], TRIO[to], "hello there, my friend")).await;
    }
    follow(&world).await;
    let count = async |table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&world.ctx().pool).await.unwrap()
    };
    assert_eq!((count("talks").await, count("lineages").await), (1, 1));
    world.clock.advance(3_600);
    follow(&world).await;
    assert_eq!((count("talks").await, count("lineages").await), (0, 1));
    assert_eq!(lineages(&ada, &intent, "").await[0]["hops"], 3);
    world.pass(31 * 24 * 3_600).await;
    assert_eq!(count("lineages").await, 0);
    world.end().await;
}
