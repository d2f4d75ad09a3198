//! Bridges: AEE tasks that become jobs, the envelopes that report on them, and who may configure a bridge.
//! `bridges/talking.rs` covers messages, `bridges/cron_jobs.rs` jobs of triggers, `bridges/threads.rs` all of them on one intent.

mod bundles;
mod cron_jobs;
mod guarded;
mod imports;
mod talking;
mod threads;
mod turns;

use entente_harness::envelopes::{mail, task_envelope, two, with};
use entente_harness::jobs::{Hand, id, status};
use entente_harness::{Client, Setup, Value, World, json};

/// Starts a server with two agents, a bridge for the second one's tasks and a worker for their jobs.
async fn bridged() -> (World, [Client; 3], Hand) {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    let hand = Hand::of(&world.any(), "x@1.0.0").await;
    let bridge = json!({ "kind": "jobs", "entity": "agent.bob", "intents": ["ops.**"], "agent": "x@1.0.0" });
    let set = admin.put("/aee/bridges/ops", bridge).await.ok();
    assert_eq!((&set["problem"], &set["acts_as"]), (&Value::Null, &json!("service.bootstrap")));
    (world, [ada, bob, admin], hand)
}

/// Returns the type and payload of each envelope in a mailbox.
async fn told(client: &Client, entity: &str) -> Vec<(String, Value)> {
    let all = mail(client, entity).await.into_iter();
    all.map(|(_, envelope)| (envelope["type"].as_str().unwrap().to_owned(), envelope["payload"].clone()))
        .collect()
}

async fn count(world: &World, text: &'static str) -> i64 {
    sqlx::query_scalar(text).fetch_one(&world.ctx().pool).await.unwrap()
}

async fn change(world: &World, text: &'static str) {
    sqlx::query(text).execute(&world.ctx().pool).await.unwrap();
}

#[tokio::test]
async fn a_task_becomes_a_job_and_its_events_come_back() {
    let (world, [ada, bob, admin], hand) = bridged().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let more = json!({
        "requires": { "timeout_ms": 90_500 }, "trace": { "trace_id": trace, "span_id": "b7ad6b7169203331" },
    });
    let task = with(task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob")), more);
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    let others =
        [json!({ "id": "envelope-2", "type": "event" }), json!({ "id": "envelope-3", "intent": "shop.buy" })];
    for more in others {
        ada.post("/aee/envelopes", with(task.clone(), more)).await.is(202);
    }
    world.carry().await;
    let left: Vec<Value> =
        mail(&bob, "agent.bob").await.into_iter().map(|(_, envelope)| envelope["id"].clone()).collect();
    assert_eq!(left, ["envelope-2", "envelope-3"], "what became a job was taken out, and nothing else");
    let job = hand.one().await;
    assert_eq!((&job["input"], &job["principal"]), (&json!({ "n": 1 }), &json!("service.bootstrap")));
    assert_eq!(job["trace_id"], trace);
    let asked: i64 =
        count(&world, "SELECT extract(epoch FROM deadline - created_at)::bigint FROM jobs").await;
    assert_eq!(asked, 91, "as long as somebody waits");

    let events = json!([
        { "kind": "thought", "body": { "text": "nobody's affair" } },
        { "kind": "progress", "body": { "current": 1, "total": 2 } },
        { "kind": "log", "body": { "level": "info", "message": "half-way" } },
    ]);
    world.clock.advance(1);
    hand.events(&job, events).await.ok();
    world.carry().await;
    hand.tell(&job, "result", json!({ "result": { "backups": 3 } })).await.ok();
    world.carry().await;
    let came = mail(&ada, "agent.ada").await;
    let kinds: Vec<(&str, &str)> = came
        .iter()
        .map(|(_, one)| (one["type"].as_str().unwrap(), one["payload"]["kind"].as_str().unwrap_or("-")))
        .filter(|(_, kind)| *kind != "status")
        .collect();
    assert_eq!(kinds, [("stream", "progress"), ("stream", "log"), ("result", "-")]);
    for (_, one) in &came {
        assert_eq!(
            (&one["from"], &one["corr"], &one["intent"]),
            (&task["to"], &task["corr"], &task["intent"])
        );
        assert_eq!(one["trace"]["trace_id"], trace);
    }
    let (_, result) = came.last().unwrap();
    assert_eq!(result["entente"], json!({ "bridge": "ops", "job_id": job["job_id"] }));
    assert_eq!((&result["reply_to"], &result["payload"]), (&task["id"], &json!({ "backups": 3 })));
    let kept = ada.get(&format!("/aee/envelopes/{}", result["id"].as_str().unwrap())).await.ok();
    assert_eq!((&kept["verified"], &kept["warnings"]), (&json!({ "by": "token" }), &json!([])));
    let thread = ada.get("/aee/threads/thread-00000001").await.ok();
    assert_eq!(thread["envelopes"][0]["pairs"], json!([{ "respondent": "agent.bob", "status": "closed" }]));
    assert_eq!(world.server.bridging.step().await.unwrap(), 0, "there is nothing left to carry");
    let shown = &admin.get("/aee/bridges").await.ok()[0];
    assert_eq!(
        (&shown["name"], &shown["place"], &shown["bridge"]["input"]),
        (&json!("ops"), &json!(3), &json!("payload"))
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_dies_between_two_lines_is_carried_once() {
    let (world, [ada, _bob, admin], hand) = bridged().await;
    let second = World::on(Setup::default(), world.database.clone()).await;
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    // Simulates a server that died after it created the job and before it recorded that.
    let asked = json!({ "agent": "x@1.0.0", "input": { "n": 1 }, "idempotency_key": "aee:ops:envelope-1" });
    let before = admin.post("/jobs", asked).await.is(201);
    let (one, other) = tokio::join!(world.server.bridging.step(), second.server.bridging.step());
    assert!(one.unwrap() + other.unwrap() > 0);
    let job = hand.one().await;
    assert_eq!(id(&job), id(&before));
    hand.events(&job, json!([{ "kind": "log", "body": { "message": "one" } }])).await.ok();
    hand.tell(&job, "result", json!({ "result": 7 })).await.ok();
    for _ in 0..3 {
        let (one, other) = tokio::join!(world.server.bridging.step(), second.server.bridging.step());
        one.unwrap();
        other.unwrap();
    }
    let came = told(&ada, "agent.ada").await;
    let logs = came.iter().filter(|(_, payload)| payload["kind"] == "log").count();
    let results: Vec<&Value> =
        came.iter().filter(|(kind, _)| kind == "result").map(|(_, payload)| &payload["value"]).collect();
    assert_eq!((logs, results), (1, vec![&json!(7)]));
    // With its records lost, the bridge sends everything again; the result is the same.
    let made = count(&world, "SELECT count(*) FROM aee_envelopes").await;
    change(&world, "DELETE FROM aee_bridged WHERE source LIKE 'job_%'").await;
    change(&world, "UPDATE aee_bridged SET told = 0, open = true").await;
    change(&world, "UPDATE aee_bridges SET place = 0").await;
    change(&world, "UPDATE aee_items SET acked_at = NULL").await;
    world.carry().await;
    assert_eq!(count(&world, "SELECT count(*) FROM aee_envelopes").await, made);
    assert_eq!(count(&world, "SELECT count(*) FROM jobs").await, 1);
    assert_eq!(told(&ada, "agent.ada").await, came);
    second.end().await;
    world.end().await;
}

#[tokio::test]
async fn what_fails_comes_back_as_an_error() {
    let (world, [ada, _bob, admin], hand) = bridged().await;
    let send = async |id: &str, more: Value| {
        let task = with(task_envelope(&world, id, ("agent.ada", "agent.bob")), more);
        ada.post("/aee/envelopes", task).await.is(202);
        world.carry().await;
    };
    let last = async || told(&ada, "agent.ada").await.pop().unwrap();
    send("envelope-1", json!({})).await;
    let job = hand.one().await;
    let why = json!({ "code": "PERMISSION_DENIED", "message": "the door is locked" });
    hand.tell(&job, "error", why).await.ok();
    world.carry().await;
    let (kind, payload) = last().await;
    let said =
        json!({ "code": payload["code"], "message": payload["message"], "retryable": payload["retryable"] });
    let expected =
        json!({ "code": "PERMISSION_DENIED", "message": "the door is locked", "retryable": false });
    assert_eq!((kind.as_str(), said), ("error", expected));
    // The result is too large for an envelope; the task is still reported as done.
    send("envelope-2", json!({})).await;
    let job = hand.one().await;
    hand.tell(&job, "result", json!({ "result": { "large": "x".repeat(300_000) } })).await.ok();
    world.carry().await;
    assert_eq!(
        last().await,
        ("result".to_owned(), json!({ "job_id": job["job_id"], "omitted": "too_large" }))
    );
    // An unknown agent: the bridge creates no job and reports an error at once.
    let bridge = json!({ "kind": "jobs", "entity": "agent.bob", "intents": ["ops.**"], "agent": "nobody" });
    admin.put("/aee/bridges/ops", bridge).await.ok();
    send("envelope-3", json!({})).await;
    let (kind, payload) = last().await;
    assert_eq!((kind.as_str(), &payload["code"]), ("error", &json!("AGENT_NOT_AVAILABLE")));
    let before = told(&ada, "agent.ada").await.len();
    change(&world, "UPDATE aee_bridges SET place = 0").await;
    world.carry().await;
    assert_eq!(told(&ada, "agent.ada").await.len(), before);
    world.end().await;
}

#[tokio::test]
async fn a_job_that_nobody_waits_for_is_called_off() {
    let (world, [ada, bob, admin], hand) = bridged().await;
    let hasty = json!({ "requires": { "timeout_ms": 30_000 } });
    let task = |id: &str| with(task_envelope(&world, id, ("agent.ada", "agent.bob")), hasty.clone());
    for id in ["envelope-1", "envelope-2"] {
        ada.post("/aee/envelopes", task(id)).await.is(202);
    }
    world.carry().await;
    let jobs = hand.claim(1).await;
    let waiting =
        admin.get("/jobs?status=pending").await.ok()["jobs"][0]["job_id"].as_str().unwrap().to_owned();
    // The running job's task is answered by hand, the other one's is not answered at all.
    let running = id(&jobs[0]).to_owned();
    let of_running = count(
        &world,
        "SELECT right(b.source, 1)::bigint FROM aee_bridged b JOIN job_clock c USING (job_id) WHERE c.status = 'running'",
    )
    .await;
    let answered = json!({
        "type": "result", "reply_to": format!("envelope-{of_running}"), "id": "envelope-by-hand", "from": "agent.bob",
        "to": "agent.ada", "requires": null,
    });
    bob.post("/aee/envelopes", with(task("-"), answered)).await.is(202);
    world.carry().await;
    let beat = hand.beat(&[&jobs[0]]).await;
    assert!(beat.to_string().contains("cancel") || beat.to_string().contains("stop"), "{beat}");
    assert_eq!(status(&admin, &waiting).await, "pending");
    world.clock.advance(30);
    world.carry().await;
    assert!(["cancelled", "timed_out"].contains(&status(&admin, &waiting).await.as_str()));
    world.pass(60).await;
    world.carry().await;
    assert_ne!(status(&admin, &running).await, "running");
    let kinds: Vec<String> = told(&ada, "agent.ada").await.into_iter().map(|(kind, _)| kind).collect();
    let ends: Vec<&String> = kinds.iter().filter(|kind| *kind != "stream").collect();
    assert_eq!(ends, ["result", "error"], "each task has one end");
    world.end().await;
}

#[tokio::test]
async fn a_bridge_is_set_up_by_an_admin_and_has_no_more_powers_than_its_key() {
    let (world, [ada, _bob, admin], hand) = bridged().await;
    let good = json!({ "kind": "jobs", "entity": "agent.bob", "intents": ["ops.**"], "agent": "x@1.0.0" });
    ada.put("/aee/bridges/ops", good.clone()).await.refused(403, "scope_missing");
    ada.get("/aee/bridges").await.refused(403, "scope_missing");
    ada.delete("/aee/bridges/ops").await.refused(403, "scope_missing");
    admin.put("/aee/bridges/Odd%20name", good.clone()).await.refused(422, "invalid_parameter");
    let wrong = [
        json!({ "entity": "bus.ops" }),
        json!({ "agent": "No Agent" }),
        json!({ "intents": [] }),
        json!({ "intents": ["a.***"] }),
        json!({ "lease": { "nonsense": ["x"] } }),
        json!({ "kind": "other" }),
        json!({ "more": 1 }),
    ];
    for more in wrong {
        let refused = admin.put("/aee/bridges/odd", with(good.clone(), more.clone())).await;
        assert_eq!(refused.status, 422, "{more}: {}", refused.text);
    }
    // An admin key that may act as nobody else cannot set up a bridge for another agent.
    admin.post("/principals", json!({ "id": "service.narrow", "kind": "service" })).await.is(201);
    let scopes = json!(["admin", "mail:read", "mail:write", "jobs:read", "jobs:write"]);
    let key = async |act_as: Value| {
        let ask = json!({ "scopes": scopes, "act_as": act_as });
        admin.post("/principals/service.narrow/keys", ask).await.is(201)
    };
    let narrow = key(json!([])).await;
    let narrow = world.client(narrow["key"].as_str().unwrap());
    narrow.put("/aee/bridges/theirs", good.clone()).await.refused(404, "not_found");
    // A bridge stops working when the key that set it up is revoked.
    let wide = key(json!(["agent.bob"])).await;
    let client = world.client(wide["key"].as_str().unwrap());
    client.put("/aee/bridges/ops", good).await.ok();
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    admin.delete(&format!("/keys/{}", wide["record"]["id"].as_str().unwrap())).await.ok();
    world.carry().await;
    assert!(hand.claim(1).await.is_empty(), "a revoked key does nothing any more");
    let shown = admin.get("/aee/bridges").await.ok();
    assert!(shown[0]["problem"].as_str().unwrap().contains("no longer in force"), "{shown}");
    admin.delete("/aee/bridges/ops").await.is(204);
    admin.delete("/aee/bridges/ops").await.refused(404, "not_found");
    let log = admin.get("/audit").await.ok().to_string();
    assert!(log.contains("bridge.set") && log.contains("bridge.removed"));
    world.carry().await;
    world.end().await;
}

#[tokio::test]
async fn a_tasks_id_may_look_like_an_event_of_a_job() {
    let (world, [ada, _bob, _admin], hand) = bridged().await;
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    world.carry().await;
    let job = hand.one().await;
    let before = told(&ada, "agent.ada").await.len();
    // An agent that knows the job id can guess the ids of the next event envelopes.
    for n in 1..=9 {
        let id = format!("{}/{n}", job["job_id"].as_str().unwrap());
        ada.post("/aee/envelopes", task_envelope(&world, &id, ("agent.ada", "agent.bob"))).await.is(202);
    }
    world.carry().await;
    hand.tell(&job, "result", json!({ "result": { "backups": 3 } })).await.ok();
    world.carry().await;
    let came = told(&ada, "agent.ada").await.split_off(before);
    assert!(came.contains(&("result".to_owned(), json!({ "backups": 3 }))), "{came:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_locks_both_mailboxes_in_the_order_of_everybody() {
    let (world, _ada, _bob) = two().await;
    let zoe = world.agent("agent.zoe").await;
    let bridge =
        json!({ "kind": "jobs", "entity": "agent.bob", "intents": ["ops.**"], "agent": "nobody@1.0.0" });
    world.admin().await.put("/aee/bridges/ops", bridge).await.ok();
    zoe.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.zoe", "agent.bob"))).await.is(202);
    world.any().put("/aee/mailboxes/agent.zoe", json!({})).await.ok();
    let lock = |entity: &'static str| {
        sqlx::query("SELECT 1 FROM aee_mailboxes WHERE entity = $1 FOR UPDATE").bind(entity)
    };
    let mut other = world.hold().await;
    lock("agent.bob").execute(&mut *other).await.unwrap();
    let step = world.server.bridging.step();
    let then = async {
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        for _ in 0..200 {
            if count(&world, waits).await > 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        // Locks in the order of a batch with envelopes to both.
        lock("agent.zoe").execute(&mut *other).await.unwrap();
        other.rollback().await.unwrap();
    };
    let (done, ()) = tokio::join!(step, then);
    assert_eq!(done.unwrap(), 1);
    let came = told(&zoe, "agent.zoe").await;
    assert_eq!(came.len(), 1, "{came:?}");
    world.end().await;
}
