//! What becomes of a message: refused, hanging and gone receivers, dead servers, hostile words, and each kind's form.

use std::time::Duration;

use super::{contact, later, notify, shown, things};
use entente_harness::moments::{ask, question, told, with};
use entente_harness::{Act, Receiver, Setup, World, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_refused_comes_again() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    let made = contact(&ada, "human.ada", &receiver, json!({})).await;
    let path = format!("/contact-points/{}", made["id"].as_str().unwrap());
    receiver.does([Act::Say(500, "broken"), Act::Close, Act::Say(200, "ok")]);
    ask(&agent, json!({ "expires_in": 86_400 })).await;
    notify(&world).await;
    let found = ada.get(&path).await.ok();
    assert_eq!((&found["last_error"], &found["last_sent_at"]), (&json!("it answered 500"), &json!(null)));
    // Meanwhile one more comes, and goes along.
    ask(&agent, json!({ "expires_in": 86_400 })).await;
    later(&world, 10).await;
    later(&world, 600).await;
    let got = receiver.take();
    assert_eq!(got.len(), 3);
    assert_eq!((things(&got[0]), things(&got[2])), (1, 2));
    let found = ada.get(&path).await.ok();
    assert!(found["last_error"].is_null() && !found["last_sent_at"].is_null(), "{found}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_gone_is_told_nothing_until_it_is_switched_on() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    let made = contact(&ada, "human.ada", &receiver, json!({})).await;
    let path = format!("/contact-points/{}", made["id"].as_str().unwrap());
    receiver.does([Act::Say(410, "gone"), Act::Say(200, "")]);
    ask(&agent, json!({ "expires_in": 86_400 })).await;
    notify(&world).await;
    let found = ada.get(&path).await.ok();
    assert_eq!((&found["active"], &found["disabled_reason"]), (&json!(false), &json!("gone")));
    assert_eq!(told(&world, "contact_point.disabled").await[0]["disabled"], "gone");
    ask(&agent, json!({})).await;
    later(&world, 3_000).await;
    assert_eq!(receiver.take().len(), 1);
    ada.post(&format!("{path}/test"), json!({})).await.refused(422, "unprocessable");
    ada.patch(&path, json!({ "active": true })).await.ok();
    notify(&world).await;
    assert_eq!(things(&receiver.take()[0]), 1, "what still waits of what was not told");
    // What was queued before its person switched it off waits, and what comes meanwhile is not for it.
    ask(&agent, json!({ "expires_in": 86_400 })).await;
    ada.patch(&path, json!({ "active": false })).await.ok();
    ask(&agent, json!({ "expires_in": 86_400 })).await;
    later(&world, 60).await;
    assert_eq!(receiver.count(), 0);
    ada.patch(&path, json!({ "active": true })).await.ok();
    notify(&world).await;
    assert_eq!(things(&receiver.take()[0]), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_hangs_keeps_nobody_else_waiting() {
    let world = World::with(Setup::live()).await;
    let agent = world.agent("agent.a").await;
    let hanging = Receiver::start().await;
    hanging.does([Act::Hang]);
    let receiver = Receiver::start().await;
    for n in 0..10 {
        let name = format!("human.h{n}");
        contact(&world.human(&name).await, &name, &hanging, json!({})).await;
        agent.post("/moments", question(&name)).await.is(201);
    }
    hanging.until(10).await;
    let ada = world.human("human.ada").await;
    contact(&ada, "human.ada", &receiver, json!({})).await;
    ask(&agent, json!({})).await;
    tokio::time::timeout(Duration::from_secs(5), receiver.until(1)).await.expect("it waits for the others");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_tell_once_and_a_dead_one_is_replaced() {
    let one = World::start().await;
    let two = World::on(Setup::default(), one.database.clone()).await;
    let (agent, ada) = (one.agent("agent.a").await, one.human("human.ada").await);
    let receiver = Receiver::start().await;
    contact(&ada, "human.ada", &receiver, json!({})).await;
    for round in 0..5 {
        ask(&agent, json!({})).await;
        let (a, b) = (&one.server.senders.notifier, &two.server.senders.notifier);
        let (a, b) = tokio::join!(a.step(), b.step());
        assert_eq!(a.unwrap() + b.unwrap(), 1, "in round {round}");
        one.clock.advance(15);
        two.clock.advance(15);
    }
    assert_eq!(receiver.take().len(), 5);
    // A server that dies after its claim holds the contact point for half a minute.
    ask(&agent, json!({})).await;
    let ctx = one.ctx();
    let node = entente_domain::ids::NodeId::mint(ctx.now(), &*ctx.chance);
    let kinds = [entente_domain::notifications::ContactKind::Slack];
    let claimed = entente_kernel::notifications::sending::claim(ctx, node, &kinds, 5).await.unwrap();
    assert_eq!(claimed.len(), 1);
    notify(&two).await;
    assert_eq!(receiver.count(), 0);
    one.clock.advance(30);
    two.clock.advance(30);
    notify(&two).await;
    assert_eq!(receiver.take().len(), 1);
    two.end().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_agents_are_plain_text() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let receiver = Receiver::start().await;
    contact(&ada, "human.ada", &receiver, json!({})).await;
    let mut hostile = question("human.ada");
    hostile["binding_moment"]["question"]["stem"] =
        json!("Ship <!channel> & <https://evil.example|the page> *now* \u{202e}gnorw?");
    agent.post("/moments", hostile).await.is(201);
    notify(&world).await;
    let body = receiver.take()[0].body();
    assert_eq!(
        body["text"],
        "Decide: Ship &lt;!channel&gt; &amp; &lt;https://evil.example|the page&gt; *now* gnorw?",
        "{body}"
    );
    assert_eq!(body["blocks"][0]["text"]["type"], "plain_text");
    assert!(!body.to_string().contains('\u{202e}'));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_has_its_form() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let (teams, ntfy) = (Receiver::start().await, Receiver::start().await);
    let create = async |ask| ada.post("/people/human.ada/contact-points", ask).await.is(201);
    create(json!({ "kind": "teams", "address": teams.url() })).await;
    create(json!({ "kind": "ntfy", "address": format!("http://{}/a-topic", ntfy.address) })).await;
    let first = ask(&agent, json!({ "expires_in": 600 })).await;
    let link = format!("http://{}/inbox/{}", world.server.address, first["id"].as_str().unwrap());
    notify(&world).await;
    let card = teams.take()[0].body()["attachments"][0]["content"].clone();
    assert_eq!((&card["type"], &card["actions"][0]["url"]), (&json!("AdaptiveCard"), &json!(link)));
    assert!(card["body"].to_string().contains("When should release 1.4 ship?"), "{card}");
    let got = ntfy.take();
    let body = got[0].body();
    assert_eq!((got[0].path.as_str(), &body["topic"]), ("/", &json!("a-topic")));
    assert_eq!((&body["click"], &body["priority"]), (&json!(link), &json!(4)), "it lapses within the hour");
    assert_eq!(body["title"], "A decision waits for you", "a topic is no secret");
    // Unless the person says so, here and there.
    let quiet = json!({ "kind": "slack", "address": teams.url(), "settings": { "quotes": false } });
    create(quiet).await;
    agent.post("/moments", with(question("human.ada"), json!({ "expires_in": 900, "corr": "x" }))).await;
    ask(&agent, json!({})).await;
    later(&world, 60).await;
    let all = teams.take();
    let slack = all.iter().find(|got| !got.body()["blocks"].is_null()).unwrap();
    assert!(!shown(slack).contains("release 1.4"), "{}", shown(slack));
    world.end().await;
}
