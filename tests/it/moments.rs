//! Binding moments over the API: an agent asks, its person answers, and nobody else can. `moments/vetoes.rs` covers
//! the consequences of a veto, `moments/again.rs` how long they last, `moments/time.rs` time limits,
//! `moments/work.rs` jobs and intents, `moments/powers.rs` keys that cannot answer, `moments/hearing.rs`
//! notifications, and `moments/carried.rs` questions that are not asked at all.

mod again;
mod carried;
mod hearing;
mod lists;
mod powers;
mod time;
mod vetoes;
mod work;

use entente_harness::moments::{
    answer, ask, at, dialogue, expire_due, free_text, option, question, resolve, told, with,
};
use entente_harness::{Value, World, ids, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_and_answered() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({ "corr": "thread-1", "expires_in": 3600 })).await;
    assert_eq!(moment["state"], "open");
    assert_eq!(moment["agent_id"], "agent.a");
    assert_eq!(moment["expires_at"], "2026-11-21T09:00:00.000000Z");
    assert_eq!(moment["warnings"], json!([]));
    // Omitted hatches default to open, and the reader of the question sees them.
    let open = json!({ "free_text": true, "dialogue": true });
    assert_eq!(moment["binding_moment"]["question"]["hatches"], open);
    assert!(moment["envelope_digest"].as_str().unwrap().starts_with("sha256:"));
    let inbox = ada.get("/moments/inbox").await.ok();
    assert_eq!(ids(&inbox["moments"]), [moment["id"].as_str().unwrap()]);
    assert_eq!(inbox["moments"][0]["binding_moment"], moment["binding_moment"]);
    assert_eq!(agent.get("/moments/inbox").await.ok()["moments"], json!([]));
    let done = resolve(&ada, &moment, option(1)).await.is(200);
    assert_eq!(done["state"], "resolved");
    let found = agent.get(&at(&moment)).await.ok();
    assert_eq!(found["resolution"]["kind"], "option");
    assert_eq!(found["resolution"]["option_idx"], 1);
    assert_eq!(found["resolution"]["resolved_by"], "human.ada");
    assert_eq!(found["resolution"]["resolved_via"], "api");
    assert_eq!(found["resolution"].get("answer"), None);
    assert_eq!(ada.get("/moments/inbox").await.ok()["moments"], json!([]));
    let opened = told(&world, "moment.opened").await;
    assert_eq!(opened[0]["moment_id"], moment["id"]);
    let resolved = told(&world, "moment.resolved").await;
    assert_eq!((&resolved[0]["kind"], &resolved[0]["option_idx"]), (&json!("option"), &json!(1)));
    assert_eq!(resolved[0]["resolved_by"], "human.ada");
    assert!(resolved[0]["key_id"].as_str().unwrap().starts_with("key_"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_three_answers_are_told_apart() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    for (resolution, state, member) in [
        (option(0), "resolved", "option_idx"),
        (free_text("Ship on Monday, after lunch."), "resolved", "answer"),
        (dialogue("Nobody asked whether to ship at all."), "deliberating", "objection"),
    ] {
        let moment = ask(&agent, json!({})).await;
        resolve(&ada, &moment, resolution.clone()).await.is(200);
        let found = agent.get(&at(&moment)).await.ok();
        assert_eq!(found["state"], state);
        assert_eq!(found["resolution"]["kind"], resolution["kind"]);
        assert_eq!(found["resolution"][member], resolution[member]);
        let others = ["option_idx", "answer", "objection"].into_iter().filter(|other| *other != member);
        others.for_each(|other| assert_eq!(found["resolution"].get(other), None, "{other}"));
    }
    // The log contains nothing of the answers.
    let log: Vec<String> =
        sqlx::query_scalar("SELECT payload FROM events").fetch_all(&world.ctx().pool).await.unwrap();
    assert!(log.iter().all(|payload| !payload.contains("Monday") && !payload.contains("Nobody asked")));
    assert!(log.iter().all(|payload| !payload.contains("release 1.4")));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_malformed_is_not_asked() {
    let world = World::start().await;
    let (agent, _ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let broken = |pointer: &str, value: Value| {
        let mut asked = question("human.ada");
        *asked.pointer_mut(&format!("/binding_moment{pointer}")).unwrap() = value;
        asked
    };
    for bad in [
        broken("/synopsis", json!(" ")),
        broken("/question/recommended_idx", json!(2)),
        broken("/question/recommended_idx", json!(-1)),
        broken("/question/recommended_idx", json!("0")),
        broken("/question/options", json!([{ "label": "Only one", "reasoning": "There is no other." }])),
        broken("/meta", json!({ "colour": "red" })),
        broken("", json!({})),
    ] {
        let refused = agent.post("/moments", bad.clone()).await.refused(422, "invalid_moment");
        assert!(!refused["errors"].as_array().unwrap().is_empty(), "{bad}");
    }
    // Neither a non-person nor an address that stands for several people (binding moment §7.4).
    for nobody in ["human.nobody", "bus.ops", "*", "role:reviewer", "agent.a"] {
        let refused = agent.post("/moments", question(nobody)).await;
        assert_eq!(refused.status, 422, "{nobody}: {}", refused.text);
    }
    assert_eq!(agent.get("/moments").await.ok()["moments"], json!([]));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_done_once() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let first = agent.once("k1").post("/moments", question("human.ada")).await.is(201);
    let again = agent.once("k1").post("/moments", question("human.ada")).await.is(200);
    assert_eq!(first, again);
    let other = with(question("human.ada"), json!({ "corr": "other" }));
    agent.once("k1").post("/moments", other).await.refused(409, "idempotency_mismatch");
    let path = format!("{}/resolution", at(&first));
    let said = answer(&first, free_text("On Monday."));
    let done = ada.once("k2").post(&path, said.clone()).await.is(200);
    // With the idempotency key and without it, the first answer is returned.
    assert_eq!(ada.once("k2").post(&path, said.clone()).await.is(200), done);
    assert_eq!(ada.post(&path, said).await.is(200), done);
    let otherwise = answer(&first, free_text("On Tuesday."));
    ada.once("k2").post(&path, otherwise.clone()).await.refused(409, "idempotency_mismatch");
    let refused = ada.post(&path, otherwise).await.refused(409, "moment_not_open");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("human.ada") && message.contains("2026-11-21"), "{message}");
    assert!(!message.contains("Monday"));
    assert_eq!(told(&world, "moment.resolved").await.len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_to_the_question_that_was_seen() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({})).await;
    let path = format!("{}/resolution", at(&moment));
    let other = json!({ "envelope_digest": format!("sha256:{}", "0".repeat(64)), "resolution": option(0) });
    ada.post(&path, other).await.refused(409, "digest_mismatch");
    for bad in [option(2), free_text(" "), dialogue("")] {
        let refused = resolve(&ada, &moment, bad.clone()).await;
        assert_eq!(refused.status, 422, "{bad}: {}", refused.text);
    }
    let both = json!({ "kind": "option", "option_idx": 0, "answer": "and this" });
    assert_eq!(resolve(&ada, &moment, both).await.status, 422);
    // A closed hatch cannot be used. Closing one requires a justification, which is logged.
    let mut narrow = question("human.ada");
    narrow["binding_moment"]["question"]["stem"] = json!("Which channel does release 1.4 take?");
    narrow["binding_moment"]["question"]["hatches"] = json!({ "free_text": false, "dialogue": true });
    agent.post("/moments", narrow.clone()).await.is(422);
    let narrow = with(narrow, json!({ "hatch_justification": "The registry takes one of two channels." }));
    let narrow = agent.post("/moments", narrow).await.is(201);
    resolve(&ada, &narrow, free_text("Neither.")).await.refused(422, "hatch_closed");
    resolve(&ada, &narrow, dialogue("Why only two?")).await.is(200);
    let suppressed = told(&world, "moment.hatch_suppressed").await;
    assert_eq!(suppressed[0]["moment_id"], narrow["id"]);
    assert_eq!(suppressed[0]["justification"], "The registry takes one of two channels.");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_what_is_ones_own() {
    let world = World::start().await;
    let (a, b) = (world.agent("agent.a").await, world.agent("agent.b").await);
    let (ada, ben) = (world.human("human.ada").await, world.human("human.ben").await);
    let mut asked = Vec::new();
    for agent in [&a, &a, &b] {
        asked.push(ask(agent, json!({})).await);
    }
    b.post("/moments", question("human.ben")).await.is(201);
    let of = |list: &Value| ids(&list["moments"]).len();
    assert_eq!(of(&a.get("/moments").await.ok()), 2);
    assert_eq!(of(&ada.get("/moments").await.ok()), 3);
    assert_eq!(of(&ada.get("/moments?agent=agent.b").await.ok()), 1);
    assert_eq!(of(&ben.get("/moments").await.ok()), 1);
    resolve(&ada, &asked[0], free_text("Not now.")).await.is(200);
    let resolved = ada.get("/moments?state=resolved&class=release").await.ok();
    assert_eq!(ids(&resolved["moments"]), [asked[0]["id"].as_str().unwrap()]);
    let page = ada.get("/moments?limit=2").await.ok();
    let rest =
        ada.get(&format!("/moments?limit=2&cursor={}", page["next_cursor"].as_str().unwrap())).await.ok();
    assert_eq!((of(&page), of(&rest), &rest["next_cursor"]), (2, 1, &Value::Null));
    ada.get("/moments?state=approved").await.refused(422, "invalid_parameter");
    // An admin sees that the question was answered, but not the answer.
    let admin = world.admin().await;
    let seen = admin.get(&at(&asked[0])).await.ok();
    assert_eq!((&seen["state"], &seen["resolution"]["kind"]), (&json!("resolved"), &json!("free_text")));
    assert_eq!(seen["resolution"].get("answer"), None);
    ben.get(&at(&asked[0])).await.refused(404, "not_found");
    b.get(&at(&asked[0])).await.refused(404, "not_found");
    world.end().await;
}
