//! Notifications of moments: long polls, streams and webhooks, on every server; and that the server's log contains
//! none of their text.

use std::time::{Duration, Instant};

use futures_util::future::join;

use super::{ask, at, dialogue, free_text, option, question, resolve};
use entente_harness::process::{Launch, Place, key_of};
use entente_harness::{Receiver, Setup, Sse, Value, World, json, subscribe};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_on_one_server_is_heard_on_the_other_at_once() {
    let (a, b) = World::two().await;
    let (agent, ada) = (a.agent("agent.a").await, a.human("human.ada").await);
    let agent_on_b = b.client("key-of-agent.a");
    let mut inbox = Sse::open(&b.client("key-of-human.ada"), "/moments/stream").await;
    let mut mine = Sse::open(&agent_on_b, "/moments/stream").await;
    let moment = ask(&agent, json!({})).await;
    assert_eq!(inbox.next_named("moment").await.data["id"], moment["id"]);
    assert_eq!(mine.next().await.data["state"], "open");
    let waiting = async {
        let began = Instant::now();
        let found = agent_on_b.get(&format!("{}?wait=20", at(&moment))).await.ok();
        (found, began.elapsed())
    };
    let answering = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        resolve(&ada, &moment, option(0)).await.is(200)
    };
    let ((found, took), _) = join(waiting, answering).await;
    assert_eq!(found["state"], "resolved");
    assert!(took > Duration::from_millis(150) && took < Duration::from_secs(5), "{took:?}");
    assert_eq!(inbox.next().await.data["state"], "resolved");
    assert_eq!(mine.next().await.data["resolution"]["option_idx"], 0);
    // A client that reconnects misses nothing and receives nothing twice.
    let last = mine.last_id.clone();
    drop(mine);
    let next = ask(&agent, json!({})).await;
    let mut mine = Sse::resume(&agent_on_b, "/moments/stream", last.as_deref()).await;
    assert_eq!(mine.next().await.data["id"], next["id"]);
    mine.silent(Duration::from_millis(300)).await;
    Sse::refused(&agent_on_b.with("last-event-id", "nonsense"), "/moments/stream").await.is(422);
    b.server.stop().await;
    a.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_nobody_elses() {
    let world = World::with(Setup::live()).await;
    let (agent, _ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let other = world.agent("agent.b").await;
    let ben = world.human("human.ben").await;
    let mut theirs = Sse::open(&ben, "/moments/stream").await;
    let mut others = Sse::open(&other, "/moments/stream").await;
    ask(&agent, json!({})).await;
    theirs.silent(Duration::from_millis(200)).await;
    others.silent(Duration::from_millis(100)).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_with_news_and_with_time() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({ "expires_in": 60 })).await;
    let began = Instant::now();
    let found = agent.get(&format!("{}?wait=1", at(&moment))).await.ok();
    assert_eq!(found["state"], "open");
    assert!(began.elapsed() >= Duration::from_millis(900));
    agent.get(&format!("{}?wait=26", at(&moment))).await.refused(422, "invalid_parameter");
    // A request for detail wakes the wait too, and so does a reply to it.
    let words = format!("{}/words", at(&moment));
    let say = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ada.post(&words, json!({ "text": "Who?" })).await.is(200)
    };
    let path = format!("{}?wait=20", at(&moment));
    let (found, _) = join(agent.get(&path), say).await;
    assert_eq!(found.ok()["words"][0]["text"], "Who?");
    let veto = resolve(&ada, &moment, dialogue("Why?")).await.is(200);
    let began = Instant::now();
    assert_eq!(agent.get(&path).await.ok()["state"], "deliberating");
    assert!(began.elapsed() < Duration::from_secs(2));
    let say = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ada.post(&words, json!({ "text": "I mean it." })).await.is(200)
    };
    let path = format!("{path}&seen={}", veto["version"]);
    let (found, _) = join(agent.get(&path), say).await;
    assert_eq!(found.ok()["words"][1]["text"], "I mean it.");
    // The expiry of a question wakes the wait as well.
    let other = world.agent("agent.b").await;
    let moment = ask(&other, json!({ "expires_in": 60 })).await;
    let pass = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.pass(60).await;
    };
    let path = format!("{}?wait=20", at(&moment));
    let (found, ()) = join(other.get(&path), pass).await;
    assert_eq!(found.ok()["state"], "expired");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_are_told_by_webhook_and_no_word_goes_along() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let (of_agent, of_ada, of_ben) =
        (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    let wanted = json!({ "event_types": ["moment.*"] });
    subscribe(&agent, &of_agent.url(), wanted.clone()).await;
    subscribe(&ada, &of_ada.url(), wanted.clone()).await;
    subscribe(&world.human("human.ben").await, &of_ben.url(), wanted).await;
    // On an intent that the person may not read, and without an intent.
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok()["id"].clone();
    let closed = json!({ "default_policy": "closed", "entries": [] });
    agent.put(&format!("/intents/{}/acl", intent.as_str().unwrap()), closed).await.ok();
    for about in [json!({ "intent_id": intent }), json!({})] {
        let moment = ask(&agent, about).await;
        resolve(&ada, &moment, free_text("On Monday.")).await.is(200);
    }
    let lapses = ask(&agent, json!({ "expires_in": 60 })).await;
    world.pass(60).await;
    world.hooks().await;
    for receiver in [&of_agent, &of_ada] {
        let got = receiver.got();
        let types: Vec<Value> = got.iter().map(|one| one.body()["type"].clone()).collect();
        let twice = ["moment.opened", "moment.resolved", "moment.opened", "moment.resolved"];
        assert_eq!(types[..4], twice);
        assert_eq!(types[4..], ["moment.opened", "moment.expired"]);
        assert_eq!(got[5].body()["data"]["payload"]["moment_id"], lapses["id"]);
        assert!(got.iter().all(|one| !one.text.contains("Monday") && !one.text.contains("1.4")));
    }
    assert_eq!(of_ben.count(), 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_server_has_none_of_its_words() {
    let place = Place::new("moments");
    let mut launch = Launch::private(&place).with("ENTENTE_LOG", "debug,entente=trace");
    launch.arguments.push("--seed=human:human.ada=key-of-human.ada".to_owned());
    let (mut server, _) = launch.start().await;
    let (agent, ada) = (server.client(&key_of("agent.ada")), server.client("key-of-human.ada"));
    let mut asked = question("human.ada");
    asked["binding_moment"]["synopsis"] = json!("The xylophone ships now.");
    let moment = agent.once("x1").post("/moments", asked).await.is(201);
    ada.post(&format!("{}/words", at(&moment)), json!({ "text": "Which xylophone?" })).await.is(200);
    resolve(&ada, &moment, option(9)).await.is(422);
    resolve(&ada, &moment, free_text("No xylophone")).await.is(200);
    resolve(&ada, &moment, free_text("Another xylophone")).await.is(409);
    agent.post(&format!("{}/ack", at(&moment)), json!({})).await.is(200);
    server.terminate();
    server.ended().await;
    let log = place.log();
    assert!(log.lines().count() > 10, "{log}");
    assert!(!log.contains("xylophone"), "a word is in the log");
}
