//! An objection lasts until it is settled by those involved (binding moment §6.2): it returns when its successor
//! ends without an answer, another person's answer does not settle it, and the same question asked before it does
//! not bypass it.

use std::time::{Duration, Instant};

use futures_util::future::join;

use super::vetoes::{instead, other, refused};
use super::work::job;
use super::{ask, at, dialogue, expire_due, option, question, resolve, told, with};
use entente_harness::{Client, Setup, Value, World, ids, json};

/// Creates a refused question and its successor, with these members added.
async fn followed(agent: &Client, ada: &Client, more: Value) -> (Value, Value) {
    let veto = refused(agent, ada).await;
    agent.post(&format!("{}/words", at(&veto)), json!({ "text": "The board did." })).await.is(200);
    let next = instead(&veto, with(other("Should the registry have the tag?"), more));
    let next = agent.post("/moments", next).await.is(201);
    (veto, next)
}

/// Asserts that a refused question is deliberated again for everyone who reads it, and closes it.
async fn stands_again(agent: &Client, ada: &Client, veto: &Value) {
    let found = agent.get(&at(veto)).await.ok();
    let seen = (&found["state"], &found["superseded_by"], &found["ended_at"]);
    assert_eq!(seen, (&json!("deliberating"), &Value::Null, &Value::Null));
    let own = [veto["id"].as_str().unwrap()];
    assert_eq!(ids(&ada.get("/moments/inbox").await.ok()["moments"]), own);
    assert_eq!(ids(&agent.get("/moments?state=deliberating").await.ok()["moments"]), own);
    agent.post("/moments", other("May I?")).await.refused(409, "deliberation_required");
    agent.post("/moments", question("human.ada")).await.refused(409, "same_question");
    ada.post(&format!("{}/close", at(veto)), json!({})).await.is(200);
    assert_eq!(ada.get("/moments/inbox").await.ok()["moments"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_objection_comes_back_when_what_took_its_place_is_taken_back_or_lapses() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let (veto, next) = followed(&agent, &ada, json!({})).await;
    assert_eq!(ids(&ada.get("/moments/inbox").await.ok()["moments"]), [next["id"].as_str().unwrap()]);
    agent.post(&format!("{}/withdraw", at(&next)), json!({})).await.is(200);
    let back = told(&world, "moment.veto_restored").await;
    assert_eq!((&back[0]["moment_id"], &back[0]["ended"]), (&veto["id"], &next["id"]));
    stands_again(&agent, &ada, &veto).await;
    // It has expired and no sweep has run: reads see that at once, and the next write records it.
    let (veto, next) = followed(&agent, &ada, json!({ "expires_in": 60 })).await;
    world.clock.advance(60);
    stands_again(&agent, &ada, &veto).await;
    assert_eq!(told(&world, "moment.expired").await[0]["moment_id"], next["id"]);
    assert_eq!(told(&world, "moment.veto_restored").await.len(), 2);
    assert_eq!(expire_due(&world).await, 0);
    // The sweep does the same, and a new question becomes the successor.
    let (veto, _) = followed(&agent, &ada, json!({ "expires_in": 60 })).await;
    world.clock.advance(60);
    assert_eq!(expire_due(&world).await, 1);
    assert_eq!(told(&world, "moment.veto_restored").await.len(), 3);
    let third = agent.post("/moments", instead(&veto, other("Who may?"))).await.is(201);
    resolve(&ada, &third, option(0)).await.is(200);
    let settled = told(&world, "moment.veto_settled").await;
    assert_eq!((&settled[0]["moment_id"], &settled[0]["settled_by"]), (&veto["id"], &third["id"]));
    ask(&agent, json!({})).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_refused_question_hears_that_it_comes_back() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let seen = async |veto: &Value| {
        let found = agent.get(&at(veto)).await.ok();
        assert_eq!(found["state"], "superseded");
        format!("{}?wait=20&seen={}", at(veto), found["version"])
    };
    let pause = || tokio::time::sleep(Duration::from_millis(300));
    // The successor is withdrawn; then, without a sweep, another one expires.
    let (veto, next) = followed(&agent, &ada, json!({})).await;
    let path = seen(&veto).await;
    let back = async {
        pause().await;
        agent.post(&format!("{}/withdraw", at(&next)), json!({})).await.is(200);
    };
    let began = Instant::now();
    let (found, ()) = join(agent.get(&path), back).await;
    assert_eq!(
        (&found.ok()["state"], began.elapsed() > Duration::from_millis(250)),
        (&json!("deliberating"), true)
    );
    agent
        .post("/moments", with(instead(&veto, other("Who may?")), json!({ "expires_in": 60 })))
        .await
        .is(201);
    let path = seen(&veto).await;
    world.clock.advance(59);
    let lapse = async {
        pause().await;
        world.clock.advance(1);
    };
    let (found, ()) = join(agent.get(&path), lapse).await;
    assert_eq!(found.ok()["state"], "deliberating");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    // A long poll on a closed question returns at once.
    let closed = ada.post(&format!("{}/close", at(&veto)), json!({})).await.is(200);
    let began = Instant::now();
    agent.get(&format!("{}?wait=20&seen={}", at(&veto), closed["version"])).await.ok();
    assert!(began.elapsed() < Duration::from_secs(10));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_objection_comes_back_when_the_work_ends_that_its_successor_was_for() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let (hand, work) = job(&agent, json!({})).await;
    let (veto, next) = followed(&agent, &ada, json!({ "job_id": work["job_id"] })).await;
    hand.tell(&work, "result", json!({ "result": 1 })).await.is(200);
    assert_eq!(agent.get(&at(&next)).await.ok()["state"], "withdrawn");
    stands_again(&agent, &ada, &veto).await;
    // The refused question is in the system log, its successor in the log of the intent that ends.
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok();
    let (veto, _) = followed(&agent, &ada, json!({ "intent_id": intent["id"] })).await;
    let path = format!("/intents/{}/status", intent["id"].as_str().unwrap());
    agent.seen(&intent["version"]).post(&path, json!({ "status": "abandoned" })).await.ok();
    assert_eq!(expire_due(&world).await, 1);
    assert_eq!(expire_due(&world).await, 0);
    assert_eq!(told(&world, "moment.veto_restored").await.len(), 2);
    stands_again(&agent, &ada, &veto).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_persons_answer_settles_nothing() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let ben = world.human("human.ben").await;
    let second = json!({ "escalate_to": "human.ben", "escalate_after": 60 });
    let (veto, next) = followed(&agent, &ada, second).await;
    world.clock.advance(60);
    resolve(&ben, &next, option(0)).await.is(200);
    assert_eq!(told(&world, "moment.veto_settled").await.len(), 0);
    stands_again(&agent, &ada, &veto).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_twice_is_refused_twice() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let _ben = world.human("human.ben").await;
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok()["id"].clone();
    let first = ask(&agent, json!({})).await;
    let mut louder = with(question("human.ada"), json!({ "intent_id": intent }));
    louder["binding_moment"]["question"]["stem"] = json!("WHEN should release 1.4 ship");
    let louder = agent.post("/moments", louder).await.is(201);
    let another = agent.post("/moments", other("Who may?")).await.is(201);
    let elsewhere = agent.post("/moments", question("human.ben")).await.is(201);
    resolve(&ada, &first, dialogue("Not this way.")).await.is(200);
    let found = agent.get(&at(&louder)).await.ok();
    assert_eq!(
        (&found["state"], &found["end_reason"]),
        (&json!("withdrawn"), &json!("same_question_refused"))
    );
    let told = told(&world, "moment.withdrawn").await;
    assert_eq!((told.len(), &told[0]["refused"]), (1, &first["id"]));
    for stays in [&another, &elsewhere] {
        assert_eq!(agent.get(&at(stays)).await.ok()["state"], "open");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_and_the_same_question_at_once_leave_none_open() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    // The two are in different logs; the only lock they share is that of the agent and the person.
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok()["id"].clone();
    for _ in 0..8 {
        let veto = ask(&agent, json!({})).await;
        let asked = with(question("human.ada"), json!({ "intent_id": intent }));
        let (refusal, reply) =
            join(resolve(&ada, &veto, dialogue("Not this way.")), agent.post("/moments", asked)).await;
        refusal.is(200);
        if reply.status != 201 {
            reply.refused(409, "same_question");
        }
        assert_eq!(agent.get("/moments?state=open").await.ok()["moments"], json!([]));
        ada.post(&format!("{}/close", at(&veto)), json!({})).await.is(200);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_cannot_be_read_is_kept_and_stays_refused() {
    let settings = vec![("ENTENTE_MOMENT_UNREAD_DAYS", "2")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let veto = refused(&agent, &ada).await;
    let pool = &world.ctx().pool;
    sqlx::query("UPDATE moments SET brief = '{\"synopsis\":1}'").execute(pool).await.unwrap();
    let stored = async || -> Option<String> {
        sqlx::query_scalar("SELECT brief FROM moments").fetch_one(pool).await.unwrap()
    };
    agent.post("/moments", other("May I?")).await.refused(409, "deliberation_required");
    agent.post("/moments", question("human.ada")).await.refused(409, "same_question");
    agent.post(&format!("{}/words", at(&veto)), json!({ "text": "The board did." })).await.is(200);
    ada.post(&format!("{}/view", at(&veto)), json!({})).await.is(200);
    assert_eq!(told(&world, "moment.seen").await[0]["moment_id"], veto["id"]);
    assert_eq!(stored().await.as_deref(), Some("{\"synopsis\":1}"));
    ada.post(&format!("{}/close", at(&veto)), json!({})).await.is(200);
    assert!(stored().await.is_some());
    world.pass(2 * 24 * 3600).await;
    assert_eq!(stored().await, None, "it is scrubbed like any other");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_alone_loses_its_words_and_stays_refused() {
    let settings = vec![("ENTENTE_MOMENT_UNREAD_DAYS", "2")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let veto = refused(&agent, &ada).await;
    let day = 24 * 3600;
    world.pass(day).await;
    agent.post(&format!("{}/words", at(&veto)), json!({ "text": "The board did." })).await.is(200);
    world.pass(2 * day - 1).await;
    let found = agent.get(&at(&veto)).await.ok();
    assert_eq!(found["words"][0]["text"], "The board did.");
    assert!(found["resolution"]["objection"].is_string());
    world.pass(1).await;
    let found = agent.get(&at(&veto)).await.ok();
    assert_eq!((&found["state"], &found["words"][0]["text"]), (&json!("deliberating"), &Value::Null));
    assert!(found["resolution"]["objection"].is_null());
    assert_eq!(told(&world, "moment.scrubbed").await.len(), 1);
    agent.post("/moments", question("human.ada")).await.refused(409, "same_question");
    // Later words have their own retention, and closing the question removes its text too.
    ada.post(&format!("{}/words", at(&veto)), json!({ "text": "Still no." })).await.is(200);
    world.pass(2 * day).await;
    assert_eq!(agent.get(&at(&veto)).await.ok()["words"][1]["text"], Value::Null);
    ada.post(&format!("{}/close", at(&veto)), json!({ "reason": "Enough." })).await.is(200);
    world.pass(2 * day).await;
    let found = agent.get(&at(&veto)).await.ok();
    assert_eq!((&found["end_reason"], &found["binding_moment"]), (&Value::Null, &Value::Null));
    world.end().await;
}
