//! Races with an end: channels that close, messages that are read, and keys and access that are revoked while
//! others send.

use std::time::Duration;

use futures_util::future::join_all;

use super::{clients, id, list, live, number};
use entente_harness::{Sse, json, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_is_closed_once_and_nothing_is_sent_after() {
    let world = live().await;
    let any = world.any();
    for delete in [false, true] {
        let (intent, channel) = talk(&any, json!({})).await;
        let mut stream = Sse::open(&any, &format!("/subscribe/intents/{intent}")).await;
        let clients = clients(&world, 16);
        let (path, messages) = (format!("/channels/{channel}"), format!("/channels/{channel}/messages"));
        // Only the channel's creators may close it.
        let makers: Vec<_> = clients.iter().map(|client| client.acting_as("service.any")).collect();
        let closers = join_all(makers.iter().map(async |client| {
            tokio::time::sleep(Duration::from_millis(40)).await;
            if delete {
                client.delete(&path).await
            } else {
                client.patch(&path, json!({ "status": "closed" })).await
            }
        }));
        let senders = join_all(clients.iter().enumerate().map(async |(who, client)| {
            let mut sent = Vec::new();
            loop {
                let reply =
                    client.post(&messages, json!({ "sender": format!("agent.{who}"), "payload": {} })).await;
                match reply.status {
                    201 => sent.push(id(&reply.json()).to_owned()),
                    404 if delete => return sent,
                    _ => {
                        reply.refused(409, "channel_closed");
                        return sent;
                    }
                }
            }
        }));
        let (closed, sent) = tokio::join!(closers, senders);
        let done: Vec<_> = closed.iter().filter(|reply| reply.status == 200).collect();
        assert!(!done.is_empty() && (!delete || done.len() == 1), "{} deletions", done.len());
        let mut acknowledged: Vec<String> = sent.into_iter().flatten().collect();
        acknowledged.sort();
        let mut said = Vec::new();
        loop {
            let event = stream.next().await;
            if event.name == "channel.closed" {
                break;
            }
            said.push(id(&event.data).to_owned());
        }
        stream.silent(Duration::from_millis(150)).await;
        said.sort();
        assert_eq!(said, acknowledged, "what was acknowledged was said before the end, and nothing else");
        if !delete {
            assert_eq!(list(&any, &channel).await.len(), acknowledged.len());
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_read_once_by_each_reader() {
    let world = live().await;
    let any = world.any();
    let (intent, channel) = talk(&any, json!({})).await;
    let message = any
        .post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.x", "payload": {} }))
        .await
        .is(201);
    let path = format!("/channels/{channel}/messages/{}", id(&message));
    let mut stream = Sse::open(&any, &format!("/subscribe/intents/{intent}")).await;
    let clients = clients(&world, 8);
    // Eight agents, each with four concurrent requests.
    let marks = (0..32).map(|n| clients[n % 8].patch(&path, json!({ "status": "read" })));
    let marked: Vec<_> = join_all(marks).await.iter().map(|reply| reply.is(200)).collect();
    assert!(marked.iter().all(|message| message["status"] == "read"));
    let first = any.get(&path).await.ok()["read_at"].clone();
    assert!(marked.iter().all(|message| message["read_at"] == first), "it was read for the first time once");
    let mut readers: Vec<String> = stream
        .next_few(8)
        .await
        .iter()
        .map(|event| event.data["agent_id"].as_str().unwrap().to_owned())
        .collect();
    stream.silent(Duration::from_millis(100)).await;
    readers.sort();
    assert_eq!(readers, (0..8).map(|n| format!("agent.{n}")).collect::<Vec<_>>());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_after_access_was_taken_away() {
    let world = live().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let acl = format!("/intents/{intent}/acl");
    let open = json!({ "default_policy": "closed", "entries": [{ "principal_id": "agent.bob", "permission": "write" }] });
    for round in 0..5 {
        ada.put(&acl, open.clone()).await.ok();
        let before = list(&ada, &channel).await.len();
        let sending = async {
            let mut sent = 0;
            loop {
                let reply = bob
                    .post(
                        &format!("/channels/{channel}/messages"),
                        json!({ "sender": "agent.bob", "payload": {} }),
                    )
                    .await;
                if reply.status != 201 {
                    reply.refused(404, "not_found");
                    return sent;
                }
                sent += 1;
            }
        };
        let taking = async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            ada.put(&acl, json!({ "default_policy": "closed" })).await.ok();
            list(&ada, &channel).await.len()
        };
        let (sent, at_the_end) = tokio::join!(sending, taking);
        let after = list(&ada, &channel).await.len();
        assert_eq!(
            after, at_the_end,
            "round {round}: something was sent after the answer that access is closed"
        );
        assert_eq!(after, before + sent);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_revoked_while_it_is_verified_for_the_first_time_is_revoked() {
    let world = live().await;
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.brief", "kind": "agent" })).await.is(201);
    for round in 0..12 {
        let made = admin.post("/principals/agent.brief/keys", json!({})).await.is(201);
        let (key, record) =
            (world.client(made["key"].as_str().unwrap()), format!("/keys/{}", id(&made["record"])));
        // The first use takes a slow hash; the key is revoked meanwhile.
        let (_first, ()) = tokio::join!(key.get("/intents"), async {
            tokio::time::sleep(Duration::from_millis(round)).await;
            admin.delete(&record).await.ok();
        });
        assert_eq!(key.get("/intents").await.status, 401, "round {round}: a revoked key opens the door");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_who_waits_on_a_channel_is_woken() {
    let world = live().await;
    let any = world.any();
    let (intent, channel) = talk(&any, json!({})).await;
    let other = any.post(&format!("/intents/{intent}/channels"), json!({ "name": "other" })).await.is(201);
    let path = format!("/channels/{channel}/messages?since=cur_0&wait=60");
    let waiting: Vec<_> = (0..60)
        .map(|_| {
            let (client, path) = (world.any(), path.clone());
            tokio::spawn(async move { client.get(&path).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    // Other news of the intent does not end their wait.
    any.post(&format!("/channels/{}/messages", id(&other)), json!({ "sender": "agent.x", "payload": {} }))
        .await
        .is(201);
    any.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await.ok();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(waiting.iter().all(|task| !task.is_finished()), "woken by what is not for them");
    let sent = any
        .post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.x", "payload": {} }))
        .await
        .is(201);
    let began = std::time::Instant::now();
    for reply in join_all(waiting).await {
        assert_eq!(reply.unwrap().ok(), json!([sent]));
    }
    assert!(began.elapsed() < Duration::from_secs(5), "the last one heard after {:?}", began.elapsed());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_hears_nothing_once_access_is_taken_away() {
    let world = live().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let (poller, asker) = (bob.clone(), bob.clone());
    let (poll, ask) =
        (format!("/channels/{channel}/messages?since=cur_1&wait=60"), format!("/channels/{channel}/ask"));
    let asked =
        tokio::spawn(async move { asker.post(&ask, json!({ "to": "agent.ada", "timeout": 60 })).await });
    let polled = tokio::spawn(async move { poller.get(&poll).await });
    let request = loop {
        if let Some(request) = list(&ada, &channel).await.pop() {
            break request;
        }
    };
    assert_eq!(number(&request), 1);
    tokio::time::sleep(Duration::from_millis(100)).await;
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let reply = format!("/channels/{channel}/messages/{}/reply", id(&request));
    ada.post(&reply, json!({ "sender": "agent.ada", "payload": { "secret": 1 } })).await.is(201);
    for task in [polled, asked] {
        let answer = tokio::time::timeout(Duration::from_secs(10), task).await.unwrap().unwrap();
        assert!(!answer.text.contains("secret"), "heard after the end: {}", answer.text);
        answer.refused(404, "not_found");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ask_and_each_gets_its_own_answer() {
    let world = live().await;
    let (_, channel) = talk(&world.any(), json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let answering = async {
        let (client, mut cursor, mut answered) = (world.any(), "cur_0".to_owned(), 0);
        while answered < 40 {
            let page = client.get(&format!("{messages}?since={cursor}&wait=10")).await;
            page.header("entente-next-cursor").clone_into(&mut cursor);
            let page = page.ok();
            let requests: Vec<_> =
                page.as_array().unwrap().iter().filter(|m| m["message_type"] == "request").collect();
            answered += requests.len();
            join_all(requests.into_iter().map(async |request| {
                let body =
                    json!({ "sender": "agent.oracle", "payload": { "echo": request["payload"]["n"] } });
                client.post(&format!("{messages}/{}/reply", id(request)), body).await.is(201)
            }))
            .await;
        }
    };
    let clients = clients(&world, 40);
    let asking = join_all(clients.iter().enumerate().map(async |(n, client)| {
        let ask = json!({ "to": "agent.oracle", "payload": { "n": n }, "timeout": 30 });
        let answer = client.post(&format!("/channels/{channel}/ask"), ask).await.is(200);
        assert_eq!(
            (&answer["outcome"], &answer["response"]["payload"]["echo"]),
            (&json!("complete"), &json!(n))
        );
    }));
    let both = async { tokio::join!(answering, asking) };
    tokio::time::timeout(Duration::from_mins(1), both).await.expect("an answer never came");
    world.end().await;
}
