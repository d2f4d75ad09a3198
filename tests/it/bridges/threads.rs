//! One line of time: a task, its job, the decision about it and its result stand in the log of one intent, and a mirror
//! shows both envelopes with their senders.

use super::{bridged, change, count};
use entente_harness::envelopes::core_signed;
use entente_harness::envelopes::{answer, mail, task_envelope, two, with};
use entente_harness::identities::key;
use entente_harness::jobs::id;
use entente_harness::moments::{ask, option, resolve, told as events_of};
use entente_harness::{Client, Setup, Value, World, json, talk};

async fn messages(client: &Client, channel: &str) -> Vec<Value> {
    client.get(&format!("/channels/{channel}/messages")).await.ok().as_array().unwrap().clone()
}

/// Returns the records of all intents' logs in their order: the types of events, and `message`.
async fn line_of_time(world: &World) -> Vec<String> {
    let text = "SELECT what FROM (SELECT intent_id, seq, event_type AS what FROM events
                    UNION ALL SELECT intent_id, seq, 'message' FROM messages) l
                WHERE intent_id <> '00000000-0000-0000-0000-000000000000' ORDER BY intent_id, seq";
    sqlx::query_scalar(text).fetch_all(&world.ctx().pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_its_job_a_decision_and_the_result_stand_in_one_log() {
    let (world, [ada, _bob, admin], hand) = bridged().await;
    let person = world.human("human.ada").await;
    let (intent, channel) = talk(&admin, json!({})).await;
    let mirror = json!({ "kind": "mirror", "entity": "agent.bob", "channel_id": channel });
    admin.put("/aee/bridges/bob", mirror).await.ok();
    let jobs = json!({ "kind": "jobs", "entity": "agent.bob", "intents": ["ops.**"], "agent": "x@1.0.0" });
    let set = admin.put("/aee/bridges/ops", with(jobs, json!({ "intent_id": intent }))).await.ok();
    assert_eq!(set["bridge"]["intent_id"], json!(intent));

    let task = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    world.carry().await;
    let job = hand.one().await;
    assert_eq!(admin.get(&format!("/jobs/{}", id(&job))).await.ok()["intent_id"], json!(intent));
    let moment = ask(&hand.client, json!({ "job_id": job["job_id"] })).await;
    resolve(&person, &moment, option(0)).await.is(200);
    hand.tell(&job, "result", json!({ "result": { "backups": 3 } })).await.ok();
    world.carry().await;

    let steps = ["message", "job.accepted", "moment.opened", "moment.resolved", "job.ended"];
    let line: Vec<String> =
        line_of_time(&world).await.into_iter().filter(|one| steps.contains(&one.as_str())).collect();
    assert_eq!(
        line,
        ["message", "job.accepted", "moment.opened", "moment.resolved", "job.ended", "message"],
        "the task, its job, the decision and the result"
    );
    let shown = messages(&admin, &channel).await;
    let told: Vec<&Value> = shown.iter().map(|one| &one["metadata"]["envelope"]).collect();
    let asked = json!({
        "id": "envelope-1", "from": "agent.ada", "to": "agent.bob", "intent": "ops.backup.check", "type": "task",
        "corr": "thread-00000001", "reply_to": null, "verified": { "by": "token" },
    });
    assert_eq!(told[0], &asked);
    let result = &shown[1]["payload"]["envelope"];
    assert_eq!((&result["payload"], &result["reply_to"]), (&json!({ "backups": 3 }), &task["id"]));
    let answered = json!({
        "id": result["id"], "from": "agent.bob", "to": "agent.ada", "type": "result", "reply_to": "envelope-1",
        "job_id": job["job_id"],
    });
    assert_eq!(told[1], &with(asked, answered));
    // One trace and one job join them.
    let trace = &job["trace_id"];
    for one in &shown {
        assert_eq!((&one["metadata"]["trace_id"], &one["sender"]), (trace, &json!("service.bootstrap")));
    }
    let traced =
        admin.get(&format!("/intents/{intent}/events?trace_id={}", trace.as_str().unwrap())).await.ok();
    let kinds: Vec<&Value> = traced.as_array().unwrap().iter().map(|one| &one["event_type"]).collect();
    assert!(kinds.contains(&&json!("job.accepted")) && kinds.contains(&&json!("job.ended")), "{kinds:?}");
    assert_eq!(events_of(&world, "moment.resolved").await[0]["job_id"], job["job_id"]);
    assert_eq!(world.server.bridging.step().await.unwrap(), 0, "there is nothing left to carry");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_names_an_intent_that_the_bridge_may_write_to_and_no_other() {
    let (world, [ada, _bob, admin], hand) = bridged().await;
    let (own, _) = talk(&admin, json!({})).await;
    let (theirs, _) = talk(&ada, json!({})).await;
    ada.put(&format!("/intents/{theirs}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let (closed, _) = talk(&admin, json!({})).await;
    admin.put(&format!("/intents/{closed}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let send = async |n: u32, named: Value| {
        let task = task_envelope(&world, &format!("envelope-{n}"), ("agent.ada", "agent.bob"));
        ada.post("/aee/envelopes", with(task, json!({ "entente": named }))).await.is(202);
        world.carry().await;
    };
    send(1, json!({ "intent_id": own })).await;
    let job = hand.one().await;
    assert_eq!(admin.get(&format!("/jobs/{}", id(&job))).await.ok()["intent_id"], json!(own));
    let accepted = events_of(&world, "job.accepted").await;
    assert_eq!((accepted.len(), &accepted[0]["job_id"]), (1, &job["job_id"]));
    // Ada may write to her own intent, but the job is submitted by the bridge's agent, which may not. That agent may write
    // to the closed one, but Ada, who names it, may not.
    let refused =
        [json!(theirs), json!(closed), json!("intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"), json!("no id"), json!(7)];
    for (n, named) in (2..).zip(refused) {
        send(n, json!({ "intent_id": named })).await;
        assert!(hand.claim(1).await.is_empty(), "{named} became a job");
        let (_, last) = mail(&ada, "agent.ada").await.pop().unwrap();
        assert_eq!((&last["type"], &last["reply_to"]), (&json!("error"), &json!(format!("envelope-{n}"))));
    }
    // Members of others' making mean nothing here.
    for (n, named) in (10..).zip([json!("x"), json!({ "bridge": "y" }), json!({ "intent_id": null })]) {
        send(n, named).await;
        let job = hand.one().await;
        assert_eq!(admin.get(&format!("/jobs/{}", id(&job))).await.ok()["intent_id"], json!(null));
    }
    assert_eq!(events_of(&world, "job.accepted").await.len(), 1);
    // A bridge cannot be set up for an intent that its caller may not write to, and pauses when it no longer may.
    let jobs = json!({ "kind": "jobs", "entity": "agent.bob", "intents": ["ops.**"], "agent": "x@1.0.0" });
    let with_intent = |intent: &str| with(jobs.clone(), json!({ "intent_id": intent }));
    assert!([403, 404].contains(&admin.put("/aee/bridges/ops", with_intent(&theirs)).await.status));
    let (shared, _) = talk(&ada, json!({})).await;
    admin.put("/aee/bridges/ops", with_intent(&shared)).await.ok();
    ada.put(&format!("/intents/{shared}/acl"), json!({ "default_policy": "closed" })).await.ok();
    send(20, json!({})).await;
    assert!(hand.claim(1).await.is_empty());
    assert!(admin.get("/aee/bridges").await.ok()[0]["problem"].is_string());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_which_something_is_withheld_is_not_shown_whole() {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    let (_, channel) = talk(&admin, json!({})).await;
    let mirror = json!({ "kind": "mirror", "entity": "agent.bob", "channel_id": channel });
    admin.put("/aee/bridges/bob", mirror).await.ok();
    admin.put("/aee/rules/private", json!({ "from": "agent.bob", "redact": ["/pin"] })).await.ok();
    let task = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    let said = answer(&world, "envelope-2", &task, "result");
    let said = with(said, json!({ "payload": { "pin": "4711", "n": 1 } }));
    assert_eq!(bob.post("/aee/envelopes", said).await.is(202)["status"], "redacted");
    world.carry().await;
    let shown = messages(&admin, &channel).await;
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert_eq!(shown[1]["payload"], json!({ "envelope_id": "envelope-2", "omitted": "withheld" }));
    let about = &shown[1]["metadata"]["envelope"];
    assert_eq!((&about["from"], &about["type"]), (&json!("agent.bob"), &json!("result")));
    assert!(!json!(shown).to_string().contains("4711"), "{shown:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_mirrors_of_one_channel_show_an_answer_once() {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    let (_, channel) = talk(&admin, json!({})).await;
    for entity in ["ada", "bob"] {
        let mirror = json!({ "kind": "mirror", "entity": format!("agent.{entity}"), "channel_id": channel });
        admin.put(&format!("/aee/bridges/{entity}"), mirror).await.ok();
    }
    let export = json!({ "kind": "export", "channel_id": channel, "to": "agent.bob", "intent": "talk.said" });
    admin.put("/aee/bridges/out", export).await.ok();
    let task = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    world.carry().await;
    bob.post("/aee/envelopes", answer(&world, "envelope-2", &task, "result")).await.is(202);
    world.carry().await;
    let shown = messages(&admin, &channel).await;
    let ids: Vec<&Value> = shown.iter().map(|one| &one["metadata"]["envelope_id"]).collect();
    assert_eq!(ids, ["envelope-1", "envelope-2"], "each once, and nothing of it went out again");
    assert_eq!(mail(&bob, "agent.bob").await.len(), 1);
    // A server that died before it recorded the answer shows it no second time.
    sqlx::query("UPDATE aee_bridged SET open = true WHERE what = 'letter' AND source = 'envelope-1'")
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    world.carry().await;
    assert_eq!(messages(&admin, &channel).await, shown);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_has_verified_is_marked_where_it_is_mirrored() {
    let settings = vec![("ENTENTE_AEE_OPAQUE_SIGNATURES", "pass")];
    let world = World::with(Setup { settings, live: false }).await;
    let (ada, _bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let admin = world.admin().await;
    let (_, channel) = talk(&admin, json!({})).await;
    let mirror = json!({ "kind": "mirror", "entity": "agent.bob", "channel_id": channel });
    admin.put("/aee/bridges/bob", mirror).await.ok();
    let sig = json!({ "sig": { "alg": "ed25519", "kid": "k", "value": "c2ln" } });
    let task = with(task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob")), sig);
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    world.carry().await;
    let shown = messages(&admin, &channel).await;
    assert_eq!(shown[0]["payload"]["envelope"], task);
    let verified = &shown[0]["metadata"]["envelope"]["verified"];
    assert_eq!(verified, &json!({ "by": "token", "sig": "unverified" }));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_core_signed_task_works_for_no_intent_that_nobody_signed() {
    let (world, [ada, _bob, admin], hand) = bridged().await;
    let (intent, _) = talk(&admin, json!({})).await;
    let pair = key(1).public_key();
    ada.post("/aee/keys", json!({ "kid": "one", "algorithm": "ed25519", "public_key": pair })).await.is(201);
    let task = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    let task = with(core_signed(task, 1), json!({ "entente": { "intent_id": intent } }));
    ada.post("/aee/envelopes", task).await.is(202);
    world.carry().await;
    let job = hand.one().await;
    assert_eq!(admin.get(&format!("/jobs/{}", id(&job))).await.ok()["intent_id"], json!(null));
    world.end().await;
}

#[tokio::test]
async fn a_mirror_waits_for_the_answers_to_its_latest_tasks() {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    let (_, channel) = talk(&admin, json!({})).await;
    let mirror = json!({ "kind": "mirror", "entity": "agent.bob", "channel_id": channel });
    admin.put("/aee/bridges/bob", mirror).await.ok();
    change(
        &world,
        "INSERT INTO aee_pairs (task_id, respondent, asker, corr, status, created_at)
         SELECT 'old-' || n, 'agent.bob', 'agent.ada', 'thread-00000001', 'open', '2020-01-01' FROM generate_series(1, 1000) n",
    )
    .await;
    change(
        &world,
        "INSERT INTO aee_bridged (bridge, what, source, target, at, open)
         SELECT 'bob', 'letter', 'old-' || n, 'msg_' || n, timestamptz '2020-01-01' + n * interval '1 second', true
         FROM generate_series(1, 1000) n",
    )
    .await;
    let task = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    world.carry().await;
    let open = "SELECT count(*) FROM aee_bridged WHERE open";
    assert_eq!(count(&world, open).await, 1_000);
    assert_eq!(count(&world, "SELECT count(*) FROM aee_bridged WHERE open AND source = 'old-1'").await, 0);
    bob.post("/aee/envelopes", answer(&world, "envelope-2", &task, "result")).await.is(202);
    world.carry().await;
    assert_eq!(messages(&admin, &channel).await.len(), 2);
    assert_eq!(count(&world, open).await, 999, "the newest was answered");
    world.end().await;
}

#[tokio::test]
async fn a_bridge_that_becomes_one_of_another_kind_waits_for_nothing() {
    let (world, [ada, _bob, admin], hand) = bridged().await;
    let (_, channel) = talk(&admin, json!({})).await;
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    world.carry().await;
    let job = hand.one().await;
    let open = "SELECT count(*) FROM aee_bridged WHERE open";
    assert_eq!(count(&world, open).await, 1);
    let mirror = json!({ "kind": "mirror", "entity": "agent.bob", "channel_id": channel });
    admin.put("/aee/bridges/ops", mirror).await.ok();
    assert_eq!(count(&world, open).await, 0);
    hand.tell(&job, "result", json!({ "result": {} })).await.ok();
    world.carry().await;
    assert_eq!(mail(&ada, "agent.ada").await.len(), 0, "nothing reports on the job any more");
    world.end().await;
}
