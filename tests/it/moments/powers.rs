//! Answers to a moment: only the person who is asked can give one, with a key of their own, and with no other
//! credential (binding moment §11.4). Of fifty concurrent answers one wins.

use futures_util::future::join_all;

use super::{ask, at, dialogue, free_text, option, resolve, told};
use entente_harness::{Client, World, json};

const ON_BEHALF: &str = "the person's key on behalf of the agent";

/// Returns clients of everyone but the person who is asked, with every kind of credential.
async fn everybody_else(world: &World) -> Vec<(&'static str, Client)> {
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.mighty", "kind": "agent" })).await.is(201);
    let all = json!({ "act_as": ["*"], "scopes": null });
    let made = admin.post("/principals/agent.mighty/keys", all).await;
    let mighty = made.is(201)["key"].as_str().unwrap().to_owned();
    world.human("human.ada").await;
    let both = json!({ "act_as": ["agent.a"], "scopes": null });
    let made = admin.post("/principals/human.ada/keys", both).await;
    let ada_as_agent = world.client(made.is(201)["key"].as_str().unwrap()).acting_as("agent.a");
    vec![
        ("the agent's own key", world.agent("agent.a").await),
        ("a service that acts as the person", world.any().acting_as("human.ada")),
        ("a service", world.any()),
        ("an admin", admin.clone()),
        ("an admin that acts as the person", admin.acting_as("human.ada")),
        ("another person", world.human("human.ben").await),
        ("an agent whose key acts as anybody", world.client(&mighty).acting_as("human.ada")),
        (ON_BEHALF, ada_as_agent),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_answers_in_anothers_place() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({})).await;
    for (who, client) in everybody_else(&world).await {
        for resolution in [option(0), free_text("mine"), dialogue("mine")] {
            let reply = resolve(&client, &moment, resolution).await;
            if who == ON_BEHALF {
                reply.refused(403, "not_the_principal");
                continue;
            }
            assert!([403, 404].contains(&reply.status), "{who}: {} {}", reply.status, reply.text);
            if reply.status == 403 && client.headers().iter().any(|(name, _)| name == "x-agent-id") {
                let code = reply.json()["code"].clone();
                assert!(["not_the_principal", "may_not_act_as"].contains(&code.as_str().unwrap()), "{who}");
            }
        }
        let close = client.post(&format!("{}/close", at(&moment)), json!({})).await;
        assert!([403, 404].contains(&close.status), "{who} closes: {} {}", close.status, close.text);
        // Some of them may read the moment, but only the person's read counts as the first view.
        client.post(&format!("{}/view", at(&moment)), json!({})).await;
    }
    let found = ada.get(&at(&moment)).await.ok();
    assert_eq!((&found["state"], &found["first_viewed_at"]), (&json!("open"), &json!(null)));
    assert_eq!(told(&world, "moment.resolved").await.len() + told(&world, "moment.vetoed").await.len(), 0);
    let seen = ada.post(&format!("{}/view", at(&moment)), json!({})).await.is(200);
    assert_eq!(seen["first_viewed_at"], "2026-11-21T08:00:00.000000Z");
    world.clock.advance(5);
    let again = ada.post(&format!("{}/view", at(&moment)), json!({})).await.is(200);
    assert_eq!((&again["first_viewed_at"], &again["version"]), (&seen["first_viewed_at"], &seen["version"]));
    // Recording the view does not wait for a writer that holds the lock of the system log.
    let mut tx = world.hold().await;
    sqlx::query("SELECT pg_advisory_xact_lock(0)").execute(&mut *tx).await.unwrap();
    let (path, looks) = (format!("{}/view", at(&moment)), std::time::Duration::from_secs(5));
    tokio::time::timeout(looks, ada.post(&path, json!({}))).await.expect("it waits").is(200);
    tx.rollback().await.unwrap();
    resolve(&ada, &moment, option(0)).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_deliberates_for_the_person_is_the_person() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({})).await;
    resolve(&ada, &moment, dialogue("Why now?")).await.is(200);
    for (who, client) in everybody_else(&world).await {
        let reply = client.post(&format!("{}/words", at(&moment)), json!({ "text": "I am ada." })).await;
        // Text posted on behalf of the agent is the agent's.
        if reply.status == 200 {
            let words = reply.json()["words"].clone();
            let last = words.as_array().unwrap().last().unwrap().clone();
            assert_eq!(
                (&last["author"], &last["kind"]),
                (&json!("agent.a"), &json!("deliberation")),
                "{who}"
            );
        } else {
            assert!([403, 404].contains(&reply.status), "{who}: {} {}", reply.status, reply.text);
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_answers_at_once_one_counts() {
    let (a, b) = World::two().await;
    let (agent, ada) = (a.agent("agent.a").await, a.human("human.ada").await);
    let ada_on_b = b.client("key-of-human.ada");
    let moment = ask(&agent, json!({})).await;
    // Each answer is different, because an equal one would be a retry.
    let races = (0..50).map(|n| {
        let (client, moment) = (if n % 2 == 0 { ada.clone() } else { ada_on_b.clone() }, moment.clone());
        async move {
            loop {
                let reply = resolve(&client, &moment, free_text(&format!("answer {n}"))).await;
                // Retries on 503; a repeated answer counts once.
                if reply.status != 503 {
                    return reply;
                }
            }
        }
    });
    let replies = join_all(races).await;
    let (won, lost): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
    assert_eq!((won.len(), lost.len()), (1, 49));
    let answer = won[0].json()["resolution"].clone();
    let day = answer["resolved_at"].as_str().unwrap()[..16].to_owned();
    for late in lost {
        let refused = late.refused(409, "moment_not_open");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("human.ada") && message.contains(&day), "who, and when: {message}");
    }
    assert_eq!(agent.get(&at(&moment)).await.ok()["resolution"], answer);
    assert_eq!(told(&a, "moment.resolved").await.len(), 1);
    b.server.stop().await;
    a.end().await;
}
