//! Asking and waiting (RFC-0021 §3): one response, several, all, none in time, and other ends of a wait. The wait
//! uses the machine's clock; the expiry of its request uses the test's clock.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use entente_harness::agents::registered;
use entente_harness::{ANY, Client, Reply, Setup, Value, World, json, talk};

/// Starts an ask in the background.
fn asking(client: &Client, channel: &str, body: Value) -> JoinHandle<Reply> {
    let (client, path) = (client.clone(), format!("/channels/{channel}/ask"));
    tokio::spawn(async move { client.post(&path, body).await })
}

/// Returns the id of the first request to an agent after a cursor.
async fn question(client: &Client, channel: &str, since: &str) -> String {
    let path = format!("/channels/{channel}/messages?since={since}&wait=10");
    let list = client.get(&path).await.ok();
    let request = list.as_array().unwrap().iter().find(|m| m["message_type"] == "request");
    request.expect("nothing was asked")["id"].as_str().unwrap().to_owned()
}

async fn answer(client: &Client, channel: &str, question: &str, sender: &str, n: i32) -> Reply {
    let path = format!("/channels/{channel}/messages/{question}/reply");
    client.post(&path, json!({ "sender": sender, "payload": { "n": n } })).await
}

/// Returns the result of an ask, which must end soon.
async fn end(asked: JoinHandle<Reply>) -> Value {
    tokio::time::timeout(Duration::from_secs(20), asked).await.expect("the ask goes on").unwrap().is(200)
}

fn numbers(end: &Value) -> Vec<i64> {
    end["responses"].as_array().unwrap().iter().map(|m| m["payload"]["n"].as_i64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_ends_with_the_first_answer() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let body = json!({
        "sender": "agent.ada", "to": "agent.bob", "payload": { "q": 1 }, "metadata": { "m": 1 }, "timeout": 60
    });
    let asked = asking(&ada, &channel, body);
    let id = question(&bob, &channel, "cur_0").await;
    // Other messages do not end the ask: neither another request nor a response to that.
    let other = json!({ "sender": "agent.bob", "to": "agent.ada", "message_type": "request", "payload": {} });
    let other = bob.post(&format!("/channels/{channel}/messages"), other).await.is(201);
    answer(&ada, &channel, other["id"].as_str().unwrap(), "agent.ada", 0).await.is(201);
    bob.patch(&format!("/channels/{channel}/messages/{id}"), json!({ "status": "read" })).await.ok();
    assert!(!asked.is_finished());
    let response = answer(&bob, &channel, &id, "agent.bob", 7).await.is(201);
    let end = end(asked).await;
    assert_eq!(end["outcome"], "complete");
    assert_eq!((&end["response"], &end["responses"]), (&response, &json!([response])));
    let request = json!({
        "id": id, "channel_id": channel, "sender": "agent.ada", "to": "agent.bob", "message_type": "request",
        "correlation_id": null, "payload": { "q": 1 }, "metadata": { "m": 1 }, "status": "delivered",
        "created_at": "2026-11-21T08:00:00.000000Z", "expires_at": "2026-11-21T08:01:00.000000Z", "read_at": null
    });
    assert_eq!(end["request"], request);
    // An answered request no longer expires.
    world.pass(61).await;
    let kept = ada.get(&format!("/channels/{channel}/messages/{id}")).await.ok();
    assert_eq!(kept["status"], "read");
    world.end().await;
}

/// Creates three agents with one role and a channel to ask them on.
async fn crew(world: &World) -> (Client, [(&'static str, Client); 3], String) {
    let ada = world.agent("agent.ada").await;
    let role = || json!({ "role_id": "crew" });
    let crew = [
        ("agent.b1", registered(world, "agent.b1", role()).await),
        ("agent.b2", registered(world, "agent.b2", role()).await),
        ("agent.b3", registered(world, "agent.b3", role()).await),
    ];
    let channel = talk(&ada, json!({})).await.1;
    (ada, crew, channel)
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_answers_as_were_wanted_end_the_wait() {
    let world = World::start().await;
    let (ada, crew, channel) = crew(&world).await;
    let asked = asking(&ada, &channel, json!({ "to": "role:crew", "expect": 2, "timeout_seconds": 60 }));
    let id = question(&crew[0].1, &channel, "cur_0").await;
    answer(&crew[0].1, &channel, &id, "agent.b1", 1).await.is(201);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!asked.is_finished(), "one of two");
    answer(&crew[2].1, &channel, &id, "agent.b3", 3).await.is(201);
    let end = end(asked).await;
    assert_eq!((&end["outcome"], numbers(&end)), (&json!("complete"), vec![1, 3]));
    assert_eq!(end["response"]["payload"]["n"], 1, "the first one");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_whom_it_is_for_are_waited_for() {
    let world = World::start().await;
    let (ada, crew, channel) = crew(&world).await;
    let asked = asking(&ada, &channel, json!({ "to": "role:crew", "expect": "all", "timeout": 60 }));
    let id = question(&crew[0].1, &channel, "cur_0").await;
    // Two responses of one agent count as one (§3.2).
    for (n, (name, client)) in [(1, &crew[0]), (2, &crew[1]), (3, &crew[1])] {
        answer(client, &channel, &id, name, n).await.is(201);
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!asked.is_finished(), "the third has not answered");
    answer(&crew[2].1, &channel, &id, "agent.b3", 4).await.is(201);
    let end = end(asked).await;
    assert_eq!((&end["outcome"], numbers(&end)), (&json!("complete"), vec![1, 2, 3, 4]));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_time_is_up_there_is_what_there_is() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (_, channel) = talk(&ada, json!({})).await;
    // A request to everyone has no known recipients, so "all" means everyone that responds in time.
    for expect in [json!("all"), json!(2), json!(4_000_000_000_u32)] {
        let since = ada.get(&format!("/channels/{channel}")).await.ok()["message_count"].clone();
        let began = Instant::now();
        let asked = asking(&ada, &channel, json!({ "expect": expect, "timeout": 2 }));
        let id = question(&bob, &channel, &format!("cur_{since}")).await;
        answer(&bob, &channel, &id, "agent.bob", 5).await.is(201);
        let end = end(asked).await;
        assert_eq!((&end["outcome"], numbers(&end)), (&json!("timeout"), vec![5]), "{expect}");
        assert_eq!(end["request"]["to"], "*");
        let waited = began.elapsed();
        assert!(waited >= Duration::from_millis(1_990) && waited < Duration::from_secs(15), "{waited:?}");
    }
    world.pass(2).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_late_is_refused() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let nothing = end(asking(&ada, &channel, json!({ "to": "agent.bob", "timeout": 1 }))).await;
    assert_eq!((&nothing["outcome"], &nothing["response"]), (&json!("timeout"), &json!(null)));
    assert_eq!(nothing["responses"], json!([]));
    // The asker no longer waits (§3.1).
    world.clock.advance(1);
    let id = nothing["request"]["id"].as_str().unwrap();
    for _ in 0..2 {
        answer(&bob, &channel, id, "agent.bob", 1).await.refused(409, "message_expired");
        let request = ada.get(&format!("/channels/{channel}/messages/{id}")).await.ok();
        assert_eq!(request["status"], "expired");
        world.sweep().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_came_before_is_found_by_a_retry() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let body = json!({ "to": "agent.bob", "payload": { "q": 1 }, "timeout": 60 });
    let asked = asking(&ada.once("k"), &channel, body.clone());
    let id = question(&bob, &channel, "cur_0").await;
    // The connection breaks, and the response arrives while nobody waits.
    asked.abort();
    answer(&bob, &channel, &id, "agent.bob", 7).await.is(201);
    for _ in 0..2 {
        let again = end(asking(&ada.once("k"), &channel, body.clone())).await;
        assert_eq!((&again["outcome"], numbers(&again)), (&json!("complete"), vec![7]));
        assert_eq!(again["request"]["id"], id.as_str(), "it was asked once");
    }
    assert_eq!(ada.get(&format!("/channels/{channel}")).await.ok()["message_count"], 2);
    let other = json!({ "to": "agent.bob", "payload": { "q": 2 }, "timeout": 60 });
    let path = format!("/channels/{channel}/ask");
    ada.once("k").post(&path, other).await.refused(409, "idempotency_mismatch");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_nobody_can_answer_any_more() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = registered(&world, "agent.bob", json!({})).await;
    for (what, expect) in [
        ("its channel closes", 1),
        ("its channel closes", 2),
        ("its intent ends", 2),
        ("the one asked leaves", 1),
        ("its time comes", 1),
    ] {
        let (intent, channel) = talk(&ada, json!({})).await;
        let asked = asking(&ada, &channel, json!({ "to": "agent.bob", "expect": expect, "timeout": 100 }));
        let id = question(&bob, &channel, "cur_0").await;
        let mut had = Vec::new();
        if expect == 2 {
            // One response has arrived, the other cannot any more.
            answer(&bob, &channel, &id, "agent.bob", 1).await.is(201);
            had.push(1);
        }
        assert!(!asked.is_finished());
        match what {
            "its channel closes" => {
                ada.patch(&format!("/channels/{channel}"), json!({ "status": "closed" })).await.ok();
            }
            "its intent ends" => {
                let end = json!({ "status": "completed" });
                ada.seen(&json!(1)).post(&format!("/intents/{intent}/status"), end).await.ok();
            }
            "the one asked leaves" => drop(bob.delete("/agents/agent.bob").await.ok()),
            _ => world.pass(100).await,
        }
        world.feed().await;
        let end = end(asked).await;
        assert_eq!((&end["outcome"], numbers(&end)), (&json!("expired"), had), "{what}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_closes_elsewhere_ends_no_wait() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let other = ada.post(&format!("/intents/{intent}/channels"), json!({ "name": "other" })).await.is(201);
    let asked = asking(&ada, &channel, json!({ "to": "agent.bob", "expect": 2, "timeout": 100 }));
    let id = question(&bob, &channel, "cur_0").await;
    answer(&bob, &channel, &id, "agent.bob", 1).await.is(201);
    ada.delete(&format!("/channels/{}", other["id"].as_str().unwrap())).await.ok();
    // Nor does a client's event that only claims it.
    let forged = json!({ "event_type": "channel.closed", "payload": { "channel_id": channel } });
    bob.post(&format!("/intents/{intent}/events"), forged).await.ok();
    world.feed().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!asked.is_finished());
    answer(&bob, &channel, &id, "agent.bob", 2).await.is(201);
    assert_eq!(numbers(&end(asked).await), [1, 2]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_lets_its_askers_go() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let asked = asking(&ada, &channel, json!({ "to": "agent.bob", "timeout": 100 }));
    question(&world.agent("agent.bob").await, &channel, "cur_0").await;
    world.server.stop().await;
    let end = end(asked).await;
    assert_eq!((&end["outcome"], &end["request"]["status"]), (&json!("interrupted"), &json!("delivered")));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_leaves_nothing_behind() {
    let settings = vec![("ENTENTE_MAX_STREAMS_PER_KEY", "1")];
    let world = World::with(Setup { settings, live: false }).await;
    let any = world.any();
    let bob = world.agent("agent.bob").await;
    let (_, channel) = talk(&any, json!({})).await;
    let path = format!("/channels/{channel}/ask");
    let body = json!({ "sender": "agent.ada", "to": "agent.bob", "timeout": 6 }).to_string();
    let mut line = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "POST /api/v1{path} HTTP/1.1\r\nhost: x\r\nx-api-key: {ANY}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    line.write_all(head.as_bytes()).await.unwrap();
    let id = question(&bob, &channel, "cur_0").await;
    let brief = json!({ "sender": "agent.ada", "timeout": 1 });
    any.post(&path, brief.clone()).await.refused(429, "too_many_streams");
    assert_eq!(world.ctx().feed.followed().len(), 1);
    drop(line);
    // The key's only slot is free again after the requested timeout.
    let deadline = Instant::now() + Duration::from_secs(20);
    while any.post(&path, brief.clone()).await.status != 200 {
        assert!(Instant::now() < deadline, "a wait that nobody waits for goes on");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(world.ctx().feed.followed().len(), 0, "nobody follows any more");
    // The request was sent, and expires with its timeout.
    let status = async || any.get(&format!("/channels/{channel}/messages/{id}")).await.ok()["status"].clone();
    assert_eq!(status().await, "delivered");
    world.pass(6).await;
    assert_eq!(status().await, "expired");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_speak_may_not_ask() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let eve = world.agent("agent.eve").await;
    let wall = json!({ "member_policy": "explicit", "members": ["agent.ada", "agent.bob"] });
    let (intent, channel) = talk(&ada, wall).await;
    let path = format!("/channels/{channel}/ask");
    let brief = |to: &str| json!({ "to": to, "timeout": 1 });
    eve.post(&path, brief("agent.ada")).await.refused(403, "not_a_member");
    ada.post(&path, brief("agent.eve")).await.refused(403, "not_a_member");
    ada.post(&path, brief("role:nobody")).await.refused(422, "no_recipient");
    ada.post(&path, json!({ "sender": "agent.bob", "timeout": 1 })).await.refused(403, "may_not_act_as");
    let missing = "/channels/chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/ask";
    ada.post(missing, brief("agent.bob")).await.refused(404, "not_found");
    ada.post("/channels/nonsense/ask", brief("agent.bob")).await.refused(404, "not_found");
    let acl = json!({ "default_policy": "closed", "entries": [{ "principal_id": "agent.bob", "permission": "read" }] });
    ada.put(&format!("/intents/{intent}/acl"), acl).await.ok();
    // Read access is enough to take part (RFC-0021 §5.2).
    world.agent("agent.bob").await.post(&path, brief("agent.ada")).await.is(200);
    eve.post(&path, brief("agent.ada")).await.refused(404, "not_found");
    ada.patch(&format!("/channels/{channel}"), json!({ "status": "closed" })).await.ok();
    ada.post(&path, brief("agent.bob")).await.refused(409, "channel_closed");
    assert_eq!(ada.get(&format!("/channels/{channel}")).await.ok()["message_count"], 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_questions_are_refused() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let path = format!("/channels/{channel}/ask");
    let with = |member: &str, value: Value| {
        let mut body = json!({ "to": "agent.bob", "timeout": 1 });
        body[member] = value;
        body
    };
    for bad in [
        with("timeout", json!(0)),
        with("timeout", json!(121)),
        with("timeout", json!(-1)),
        with("timeout", json!(1.5)),
        with("timeout", json!("1")),
        with("expect", json!(0)),
        with("expect", json!(-1)),
        with("expect", json!("some")),
        with("expect", json!([1])),
        with("payload", json!([])),
        with("payload", json!("x")),
        with("metadata", json!(7)),
        with("to", json!("role:")),
        with("to", json!("a\tb")),
        with("to", json!(5)),
        with("sender", json!("")),
    ] {
        ada.post(&path, bad).await.refused(422, "invalid_request");
    }
    ada.post(&path, with("payload", json!({ "x": "y".repeat(300_000) }))).await.refused(413, "too_large");
    ada.post(&path, with("metadata", json!({ "x": "y".repeat(20_000) }))).await.refused(413, "too_large");
    ada.send("POST", &path, Some("{".to_owned())).await.refused(400, "invalid_json");
    ada.send("POST", &path, None).await.refused(400, "invalid_json");
    assert_eq!(ada.get(&format!("/channels/{channel}")).await.ok()["message_count"], 0, "nothing was asked");
    world.end().await;
    let strict = World::with(Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live: false }).await;
    let ada = strict.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    // In strict mode a request must have a recipient (§2.3).
    let nobody = json!({ "payload": {}, "timeout": 1 });
    ada.post(&format!("/channels/{channel}/ask"), nobody).await.refused(422, "unprocessable");
    strict.end().await;
}
