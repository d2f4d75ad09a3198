//! Moments of jobs and intents: who may ask for a job, the phases that followers see, and that the end of the work
//! withdraws its questions; and that a moment is not broadcast.

use super::{ask, at, expire_due, option, question, resolve, told, with};
use entente_harness::envelopes::task_envelope;
use entente_harness::jobs::{Hand, events, id};
use entente_harness::{Client, Setup, Value, World, ids, json};

/// Submits a job that the agent has claimed.
pub async fn job(agent: &Client, more: Value) -> (Hand, Value) {
    let hand = Hand::of(agent, "shipper@1").await;
    agent.post("/jobs", with(json!({ "agent": "shipper", "input": 1 }), more)).await.is(201);
    let job = hand.one().await;
    (hand, job)
}

async fn phases(client: &Client, job: &Value) -> Vec<Value> {
    let said = events(client, id(job)).await.into_iter();
    said.filter(|(kind, _)| kind == "status").map(|(_, body)| body["phase"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_shows_that_it_waits_for_a_person() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let (hand, job) = job(&agent, json!({})).await;
    let moment = ask(&agent, json!({ "job_id": job["job_id"] })).await;
    assert_eq!(moment["job"]["status"], "running");
    let path = format!("/jobs/{}", id(&job));
    assert_eq!(agent.get(&path).await.ok()["awaiting_decision"], json!([moment["id"]]));
    assert_eq!(phases(&agent, &job).await, ["awaiting_decision"]);
    resolve(&ada, &moment, option(0)).await.is(200);
    assert_eq!(agent.get(&path).await.ok()["awaiting_decision"], json!([]));
    assert_eq!(phases(&agent, &job).await, ["awaiting_decision", "resumed"]);
    // Only the agent that works on a job may ask for it.
    let other = world.agent("agent.b").await;
    let theirs = with(question("human.ada"), json!({ "job_id": job["job_id"] }));
    other.post("/moments", theirs.clone()).await.refused(422, "unprocessable");
    hand.tell(&job, "result", json!({ "result": 1 })).await.is(200);
    agent.post("/moments", theirs).await.refused(422, "unprocessable");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_on_when_nobody_is_asked_any_more() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok();
    let about = json!({ "intent_id": intent["id"] });
    let (_hand, first) = job(&agent, about.clone()).await;
    let (_other, second) = job(&agent, about).await;
    let for_first = json!({ "job_id": first["job_id"] });
    // A deliberation does not make the job wait.
    let talk =
        with(json!({ "principal_id": "human.ada", "text": "Two findings differ." }), for_first.clone());
    let talk = agent.post("/moments/deliberations", talk).await.is(201);
    agent.post(&format!("{}/withdraw", at(&talk)), json!({})).await.is(200);
    assert!(phases(&agent, &first).await.is_empty());
    let (one, two) = (ask(&agent, for_first.clone()).await, ask(&agent, for_first.clone()).await);
    resolve(&ada, &one, option(0)).await.is(200);
    assert_eq!(phases(&agent, &first).await, ["awaiting_decision", "awaiting_decision"]);
    agent.post(&format!("{}/withdraw", at(&two)), json!({})).await.is(200);
    assert_eq!(phases(&agent, &first).await, ["awaiting_decision", "awaiting_decision", "resumed"]);
    // However many questions the end of the intent withdraws, each job reports it once.
    for work in [&first, &second, &first] {
        ask(&agent, json!({ "job_id": work["job_id"] })).await;
    }
    let path = format!("/intents/{}/status", intent["id"].as_str().unwrap());
    agent.seen(&intent["version"]).post(&path, json!({ "status": "abandoned" })).await.ok();
    assert_eq!(phases(&agent, &first).await[3..], ["awaiting_decision", "awaiting_decision", "resumed"]);
    assert_eq!(phases(&agent, &second).await, ["awaiting_decision", "resumed"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_waits_for_the_end_of_its_job_that_is_under_way() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let (_hand, job) = job(&agent, json!({})).await;
    let more = json!({ "job_id": job["job_id"], "valid_while": { "job_status": "running" } });
    let moment = ask(&agent, more.clone()).await;
    // Another transaction ends the job and has not committed yet.
    let mut tx = world.hold().await;
    let end = "UPDATE job_clock SET status = 'success', ended_at = $1, worker_id = NULL, claim_token = NULL,
                   claim_expires_at = NULL";
    sqlx::query(end).bind(world.ctx().now()).execute(&mut *tx).await.unwrap();
    let late = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        tx.commit().await.unwrap();
    };
    let next = agent.post("/moments", with(question("human.ada"), more));
    let (answer, next, ()) = futures_util::join!(resolve(&ada, &moment, option(0)), next, late);
    answer.refused(409, "moment_not_open");
    next.refused(409, "circumstances_changed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_while_a_question_waits_for_its_locks_is_no_ground_to_ask() {
    let world = World::start().await;
    let (agent, other) = (world.agent("agent.a").await, world.agent("agent.b").await);
    world.human("human.ada").await;
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok()["id"].clone();
    let (_hand, job) = job(&agent, json!({})).await;
    let work = json!({ "job_id": job["job_id"] });
    // In an open transaction, another worker claims the job and the intent is closed to all but its agents.
    let mut tx = world.hold().await;
    for text in [
        "LOCK TABLE moments IN ACCESS EXCLUSIVE MODE",
        "UPDATE job_clock SET claim_token = sha256('another')",
        "INSERT INTO acls (intent_id, default_policy) SELECT id, 'closed' FROM intents WHERE title = 'release'",
    ] {
        sqlx::query(text).execute(&mut *tx).await.unwrap();
    }
    let late = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        tx.commit().await.unwrap();
    };
    let about = with(question("human.ada"), json!({ "intent_id": intent }));
    let talk = with(json!({ "principal_id": "human.ada", "text": "Two findings differ." }), work.clone());
    let (question, talk, about, ()) = futures_util::join!(
        agent.post("/moments", with(question("human.ada"), work)),
        agent.post("/moments/deliberations", talk),
        other.post("/moments", about),
        late
    );
    for reply in [question, talk] {
        let refused = reply.refused(409, "circumstances_changed");
        assert!(refused["message"].as_str().unwrap().contains("claim"), "{refused}");
    }
    about.refused(403, "access_closed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_job_withdraws_its_questions() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok()["id"].clone();
    for about in [json!({}), json!({ "intent_id": intent })] {
        let (hand, job) = job(&agent, about).await;
        let moment = ask(&agent, json!({ "job_id": job["job_id"] })).await;
        let kept = ask(&agent, json!({})).await;
        hand.tell(&job, "result", json!({ "result": 1 })).await.is(200);
        // In effect for reads and answers before a sweep has run.
        assert_eq!(agent.get(&at(&moment)).await.ok()["state"], "withdrawn");
        assert_eq!(ids(&ada.get("/moments/inbox").await.ok()["moments"]), [kept["id"].as_str().unwrap()]);
        assert_eq!(ids(&ada.get("/moments?state=withdrawn").await.ok()["moments"])[0], moment["id"]);
        resolve(&ada, &moment, option(0)).await.refused(409, "moment_not_open");
        assert_eq!(expire_due(&world).await, 1);
        let told = told(&world, "moment.withdrawn").await;
        let last = told.last().unwrap();
        assert_eq!((&last["moment_id"], &last["reason"]), (&moment["id"], &json!("job_ended")));
        resolve(&ada, &kept, option(0)).await.is(200);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_an_intent_withdraws_its_questions_with_it() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok();
    let path = format!("/intents/{}", intent["id"].as_str().unwrap());
    let moment = ask(&agent, json!({ "intent_id": intent["id"] })).await;
    let other = world.agent("agent.b").await;
    let veto =
        other.post("/moments", with(question("human.ada"), json!({ "intent_id": intent["id"] }))).await;
    let veto = veto.is(201);
    resolve(&ada, &veto, super::dialogue("Not here.")).await.is(200);
    let seen = agent.seen(&intent["version"]);
    seen.post(&format!("{path}/status"), json!({ "status": "abandoned" })).await.ok();
    let found = agent.get(&at(&moment)).await.ok();
    assert_eq!((&found["state"], &found["end_reason"]), (&json!("withdrawn"), &json!("intent_ended")));
    let log = agent.get(&format!("{path}/events?limit=100")).await.ok();
    let types: Vec<&Value> = log.as_array().unwrap().iter().map(|event| &event["event_type"]).collect();
    for kind in ["moment.opened", "moment.vetoed", "moment.withdrawn"] {
        assert!(types.contains(&&json!(kind)), "{types:?}");
    }
    // An objection outlives the work that it was about.
    assert_eq!(other.get(&at(&veto)).await.ok()["state"], "deliberating");
    other.post("/moments", question("human.ada")).await.refused(409, "same_question");
    let late = with(question("human.ada"), json!({ "intent_id": intent["id"] }));
    agent.post("/moments", late).await.refused(409, "intent_resolved");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_counts_only_while_things_are_so() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok();
    let valid =
        |status: &str| json!({ "intent_id": intent["id"], "valid_while": { "intent_status": status } });
    let status = intent["status"].as_str().unwrap();
    let moment = ask(&agent, valid(status)).await;
    let stale = with(question("human.ada"), valid("blocked"));
    agent.post("/moments", stale).await.refused(409, "circumstances_changed");
    agent
        .seen(&intent["version"])
        .post(&format!("/intents/{}/status", intent["id"].as_str().unwrap()), json!({ "status": "blocked" }))
        .await
        .ok();
    resolve(&ada, &moment, option(0)).await.refused(409, "circumstances_changed");
    assert_eq!(agent.get(&at(&moment)).await.ok()["state"], "open");
    // A refusal of the question is always accepted.
    resolve(&ada, &moment, super::dialogue("It is blocked.")).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_before_the_question_is_said() {
    let world = World::start().await;
    let (agent, _ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let more = json!({
        "max_runtime_sec": 600, "lease_constraints": { "expires_at": "2026-11-21T08:05:00Z" },
    });
    let (_hand, job) = job(&agent, more).await;
    let late = ask(&agent, json!({ "job_id": job["job_id"], "expires_in": 3600 })).await;
    let codes: Vec<&Value> = late["warnings"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, ["expires_after_lease", "expires_after_runtime"]);
    assert_eq!(late["job"]["lease_expires_at"], "2026-11-21T08:05:00.000000Z");
    let early = ask(&agent, json!({ "job_id": job["job_id"], "expires_in": 60 })).await;
    assert_eq!(early["warnings"], json!([]));
    world.pass(700).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_broadcast_carries_a_question() {
    let world = World::with(Setup::default()).await;
    let agent = world.agent("agent.a").await;
    agent.put("/aee/buses/bus.ops/subscriptions/agent.a", json!({})).await.ok();
    let carries = json!({ "binding_moment": question("human.ada")["binding_moment"] });
    let to = |to: &str, payload: &Value, n: u32| {
        with(
            task_envelope(&world, &format!("envelope-{n}"), ("agent.a", to)),
            json!({ "payload": payload, "type": if to.starts_with("bus.") { "event" } else { "task" } }),
        )
    };
    agent.post("/aee/envelopes", to("bus.ops", &carries, 1)).await.refused(422, "invalid_moment");
    agent.post("/aee/envelopes", to("bus.ops", &json!({ "note": 1 }), 2)).await.is(202);
    agent.post("/aee/envelopes", to("agent.a", &carries, 3)).await.is(202);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn how_well_agents_ask_is_seen_by_those_they_ask() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let ben = world.human("human.ben").await;
    for n in 0..12 {
        let mut asked = question("human.ada");
        asked["binding_moment"]["question"]["stem"] = json!(format!("When should release 1.{n} ship?"));
        if n < 4 {
            asked["binding_moment"]["meta"]["calibration_note"] = json!("I was too sure before.");
        }
        agent.post("/moments", asked).await.is(201);
    }
    let rated = ada.get("/moments/rates?agent=agent.a").await.ok();
    assert_eq!((&rated[0]["agent_id"], &rated[0]["decision_class"]), (&json!("agent.a"), &Value::Null));
    assert_eq!(rated[1]["decision_class"], "release");
    let notes = &rated[0]["calibration_notes"];
    assert_eq!((&notes["count"], &notes["of"], &notes["flagged"]), (&json!(4), &json!(12), &json!(true)));
    assert_eq!(ben.get("/moments/rates").await.ok(), json!([]));
    let metrics = ada.get("//metrics").await.text;
    assert!(metrics.contains("entente_moments_total{event=\"moment.opened\"} 12"), "{metrics}");
    assert!(metrics.contains("entente_moment_calibration_notes_total 4"));
    world.end().await;
}
