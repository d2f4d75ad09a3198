//! Loops on two servers: one that runs over both ends, on both, and a follower that is killed loses and repeats nothing.

use std::time::{Duration, Instant};

use super::{TRIO, line, lineages, say, told};
use entente_harness::process::{Launch, Place, key_of};
use entente_harness::{Client, Cluster, World, json, send, talk};

/// Sends in a circle over these clients, each on its server, at the pace of a fast model; returns the number of messages
/// after which all of them are refused.
async fn circle(clients: &[Client], channel: &str) -> usize {
    let (mut sent, began) = (0, Instant::now());
    let mut refused = 0;
    while refused < clients.len() {
        assert!(began.elapsed() < Duration::from_mins(1), "the circle did not end after {sent} messages");
        let (from, to) = ((sent + refused) % clients.len(), (sent + refused + 1) % clients.len());
        let text = format!("Thank you very much, message {sent} is most welcome!");
        match say(&clients[from], channel, line(TRIO[from], TRIO[to], &text)).await {
            (201, _) => (sent, refused) = (sent + 1, 0),
            (429, _) => {}
            (409, body) => {
                assert_eq!(body["code"], "loop_stopped");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_over_two_servers_ends_on_both() {
    let (a, b) = World::two().await;
    let ada = a.agent("agent.ada").await;
    let clients = [a.agent(TRIO[0]).await, b.agent(TRIO[1]).await, a.agent(TRIO[2]).await];
    let (intent, channel) = talk(&ada, json!({ "options": { "max_messages": 100_000 } })).await;
    let policy = json!({ "hops": 6, "repeats": 4, "patience": 2, "slow_seconds": 1 });
    ada.put(&format!("/intents/{intent}/loop-policy"), policy).await.ok();
    let sent = circle(&clients, &channel).await;
    // Ten messages a second, and less than two seconds from one to its consequence.
    assert!(sent < 60, "{sent} messages");
    // Each agent on the other server.
    for (client, name) in [(b.client("key-of-agent.a"), TRIO[0]), (a.client("key-of-agent.b"), TRIO[1])] {
        let (status, body) = say(&client, &channel, line(name, "agent.ada", "x")).await;
        assert_eq!((status, &body["code"]), (409, &json!("loop_stopped")));
    }
    let found = lineages(&ada, &intent, "?state=stopped").await;
    assert_eq!((found.len(), &found[0]["messages"]), (1, &json!(sent)));
    let states: Vec<_> = told(&ada, &intent).await.into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["told", "slowed", "stopped"]);
    // Let go on over one server, it goes on over the other within a second.
    let id = found[0]["id"].as_str().unwrap();
    b.client("key-of-agent.ada")
        .post(&format!("/intents/{intent}/lineages/{id}/release"), json!({}))
        .await
        .ok();
    let began = Instant::now();
    while say(&clients[0], &channel, line(TRIO[0], "agent.ada", "x")).await.0 != 201 {
        assert!(began.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("it went on after {:?}", began.elapsed());
    a.server.stop().await;
    b.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_killed_loses_and_repeats_nothing() {
    let database = Cluster::get().fresh_database().await;
    let url = Cluster::get().url(&database);
    let places = [Place::new("loops"), Place::new("loops")];
    let launch = Launch::shared(&places[0], &url);
    let (mut a, _) = launch.start().await;
    let (b, _) = Launch::shared(&places[1], &url).start().await;
    let (ada, bob) = (b.client(&key_of("agent.ada")), b.client(&key_of("agent.bob")));
    let (intent, channel) = talk(&ada, json!({ "options": { "max_messages": 100_000 } })).await;
    let path = format!("/channels/{channel}/messages");
    // Told again and again, and never refused: each step is an event.
    let policy = json!({ "hops": 2, "repeats": 2, "loop_steps": ["tell"] });
    ada.put(&format!("/intents/{intent}/loop-policy"), policy).await.ok();
    // Before this one the follower has begun.
    let began = Instant::now();
    while lineages(&ada, &intent, "").await.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30));
        send(&ada, &channel, line("agent.ada", "agent.bob", "hello")).await;
        send(&bob, &channel, line("agent.bob", "agent.ada", "hello")).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let pool = sqlx::PgPool::connect_with(Cluster::get().options(&database)).await.unwrap();
    let count = async || -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM messages").fetch_one(&pool).await.unwrap()
    };
    let settled = async || -> i64 {
        let (mut last, mut since) = (-1, Instant::now());
        while since.elapsed() < Duration::from_secs(2) {
            let sum =
                lineages(&ada, &intent, "").await.iter().map(|one| one["messages"].as_i64().unwrap()).sum();
            if sum != last {
                (last, since) = (sum, Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        last
    };
    // The counts of the charts come from the same steps.
    let charted = async || -> i64 {
        let sum = "SELECT coalesce(sum(messages), 0)::bigint FROM message_days";
        sqlx::query_scalar(sum).fetch_one(&pool).await.unwrap()
    };
    let unread = count().await - settled().await;
    let uncharted = count().await - charted().await;
    for _ in 0..4 {
        let dying = a.client(&key_of("agent.ada"));
        let on_dying = async {
            let body = line("agent.ada", "agent.bob", "Thank you very much, dear friend!").to_string();
            while dying.try_send("POST", &path, Some(body.clone())).await.is_some() {}
        };
        let on_other = async {
            for n in 0..60 {
                send(&bob, &channel, line("agent.bob", "agent.ada", &format!("you are welcome, friend {n}")))
                    .await;
            }
        };
        let killing = async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            a.kill();
        };
        tokio::join!(on_dying, on_other, killing);
        (a, _) = launch.start().await;
    }
    assert_eq!(count().await - settled().await, unread, "each message counts once");
    assert_eq!(count().await - charted().await, uncharted, "each message is counted once for the charts");
    let steps = told(&ada, &intent).await;
    assert_eq!(steps.iter().filter(|(kind, _)| kind == "loop.found").count(), 1, "{steps:?}");
    a.terminate();
    b.terminate();
}
