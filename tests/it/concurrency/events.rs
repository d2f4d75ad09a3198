//! Events that clients post, through the same group commit as messages.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use super::mixed::check_line;
use super::{clients, id, live, talker};
use entente_harness::{Client, Sse, Value, World, json, talk};

/// Posts `count` events one after the other and asserts that their places in the chain rise.
async fn poster(client: &Client, who: usize, intent: &str, count: u64) -> Vec<Value> {
    let mut posted: Vec<Value> = Vec::new();
    for n in 0..count {
        // Canonical JSON writes 1.0 as 1: the stream shows what a list shows.
        let body = json!({ "event_type": "note", "payload": { "who": who, "n": n, "part": 1.0 } });
        posted.push(client.post(&format!("/intents/{intent}/events"), body).await.is(200));
    }
    assert!(posted.is_sorted_by_key(|event| event["sequence"].as_i64().unwrap()), "own events out of order");
    posted
}

async fn verify(client: &Client, intent: &str) -> Value {
    let verified = client.get(&format!("/intents/{intent}/events/verify")).await.ok();
    assert_eq!((&verified["chain_valid"], &verified["breaks"]), (&json!(true), &json!([])));
    verified
}

/// Posts and sends on all of these servers at once; returns the posted events.
async fn both(servers: [&World; 2], intent: &str, channel: &str) -> Vec<Value> {
    let all: Vec<Vec<Client>> = servers.iter().map(|world| clients(world, 12)).collect();
    let posters = all.iter().flat_map(|clients| &clients[..6]).enumerate();
    let talkers = all.iter().flat_map(|clients| clients[6..].iter().enumerate());
    let (posted, _sent) = tokio::join!(
        join_all(posters.map(|(who, client)| poster(client, who, intent, 10))),
        join_all(talkers.map(|(who, client)| talker(client, who + 6, channel, 10)))
    );
    posted.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_messages_of_two_servers_share_one_dense_line_and_one_chain() {
    let (one, other) = World::two().await;
    let any = one.any();
    let (intent, channel) = talk(&any, json!({ "options": { "audit": true } })).await;
    let mut stream = Sse::open(&any, &format!("/subscribe/intents/{intent}")).await;
    let posted = both([&one, &other], &intent, &channel).await;
    assert_eq!(posted.iter().map(id).collect::<BTreeSet<_>>().len(), 120, "an event was acknowledged twice");
    // Creating the intent and its channel, the notes, and an event of each audited message.
    assert_eq!(verify(&any, &intent).await["event_count"], 2 + 120 + 120);
    let line = check_line(&one, &intent).await;
    assert_eq!(line.len(), 2 + 120 + 2 * 120);
    one.feed().await;
    let framed: Vec<i64> =
        line.into_iter().filter(|(_, what)| what != "channel.message").map(|(seq, _)| seq).skip(2).collect();
    let said = stream.next_few(framed.len()).await;
    assert_eq!(said.iter().map(|event| event.id.parse::<i64>().unwrap()).collect::<Vec<_>>(), framed);
    let mut listed = Vec::new();
    for offset in [0, 100] {
        let path = format!("/intents/{intent}/events?event_type=note&limit=100&offset={offset}");
        listed.extend(any.get(&path).await.ok().as_array().unwrap().clone());
    }
    listed.reverse();
    let streamed: Vec<&Value> =
        said.iter().map(|event| &event.data).filter(|data| data["event_type"] == "note").collect();
    assert_eq!(streamed, listed.iter().collect::<Vec<_>>(), "a stream shows an event as a list does");
    one.end().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_with_one_key_is_appended_once() {
    let world = live().await;
    let any = world.any();
    let (intent, channel) = talk(&any, json!({})).await;
    let path = format!("/intents/{intent}/events");
    let clients = clients(&world, 8);
    for round in 0..5 {
        let body = json!({ "event_type": "note", "payload": { "round": round } });
        let key = format!("k-{round}");
        let tries = clients.iter().map(|client| client.acting_as("agent.0").once(&key));
        let tries: Vec<Client> = tries.collect();
        let answers = join_all(tries.iter().map(|client| client.post(&path, body.clone()))).await;
        let answers: Vec<Value> = answers.iter().map(|reply| reply.is(200)).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        // A key belongs to one request, also across the two kinds of commands.
        let message = json!({ "sender": "agent.0", "payload": {} });
        let reply = tries[0].post(&format!("/channels/{channel}/messages"), message).await;
        reply.refused(409, "idempotency_mismatch");
    }
    assert_eq!(verify(&any, &intent).await["event_count"], 2 + 5);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_posted_after_access_was_taken_away() {
    let (one, other) = World::two().await;
    let ada = one.agent("agent.ada").await;
    let bob = one.agent("agent.bob").await;
    let (intent, _) = talk(&ada, json!({})).await;
    let (acl, path) = (format!("/intents/{intent}/acl"), format!("/intents/{intent}/events"));
    let note = || json!({ "event_type": "note" });
    let entries = json!([{ "principal_id": "agent.bob", "permission": "write" }]);
    // The second server has its own cache of bob's access.
    let elsewhere = other.any();
    for (round, level) in ["read", "closed", "read", "closed"].into_iter().enumerate() {
        ada.put(&acl, json!({ "default_policy": "closed", "entries": entries })).await.ok();
        bob.post(&path, note()).await.is(200);
        elsewhere.acting_as("agent.bob").post(&path, note()).await.is(200);
        let less = if level == "read" {
            json!([{ "principal_id": "agent.bob", "permission": "read" }])
        } else {
            json!([])
        };
        ada.put(&acl, json!({ "default_policy": "closed", "entries": less })).await.ok();
        let code = if level == "read" { "forbidden" } else { "access_closed" };
        bob.post(&path, note()).await.refused(403, code);
        elsewhere
            .acting_as("agent.bob")
            .once(&format!("r{round}"))
            .post(&path, note())
            .await
            .refused(403, code);
        let last = ada.get(&format!("{path}?limit=1")).await.ok();
        assert_eq!(last[0]["event_type"], "access_granted", "nothing was appended after the change");
    }
    ada.post(&format!("/intents/{}/events", entente_domain::ids::IntentId::SYSTEM), note())
        .await
        .refused(404, "not_found");
    verify(&ada, &intent).await;
    one.end().await;
    other.end().await;
}
