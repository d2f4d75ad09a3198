//! Tasks and the envelopes that end them (AEE §4), threads, deadlines, channels.

use entente_domain::identity::principals::PrincipalKind;
use entente_kernel::identity::seeds;

use super::{answer, mail, task_envelope, two, with};
use entente_harness::{Client, Value, World, json};

/// Returns a client with its own key for a principal of this kind.
async fn client(world: &World, kind: PrincipalKind, id: &str) -> Client {
    let secret = format!("key-of-{id}");
    seeds::seed(world.ctx(), kind, id, &secret).await.unwrap();
    world.client(&secret)
}

#[tokio::test]
async fn a_task_is_over_with_its_first_result_or_error() {
    let (world, ada, bob) = two().await;
    let task = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    let reply = |id: &str, kind: &str, more: Value| with(answer(&world, id, &task, kind), more);
    let wrong = [
        (reply("envelope-w1", "result", json!({ "corr": "thread-other" })), 422, "reply_mismatch"),
        (reply("envelope-w2", "result", json!({ "to": "agent.bob" })), 422, "reply_mismatch"),
        (reply("envelope-w3", "result", json!({ "reply_to": null })), 422, "invalid_envelope"),
    ];
    for (envelope, status, code) in wrong {
        bob.post("/aee/envelopes", envelope).await.refused(status, code);
    }
    let eve = world.agent("agent.eve").await;
    let forged = with(reply("envelope-w4", "result", json!({})), json!({ "from": "agent.eve" }));
    eve.post("/aee/envelopes", forged).await.refused(422, "reply_mismatch");
    for n in 0..3 {
        bob.post("/aee/envelopes", reply(&format!("envelope-s{n}"), "stream", json!({}))).await.is(202);
    }
    bob.post("/aee/envelopes", reply("envelope-r1", "result", json!({}))).await.is(202);
    bob.post("/aee/envelopes", reply("envelope-r2", "error", json!({}))).await.refused(409, "task_closed");
    let late = bob.post("/aee/envelopes", reply("envelope-s3", "stream", json!({}))).await.is(202);
    assert!(late["warnings"].as_array().unwrap().contains(&json!("stream_after_terminal")));
    let ids: Vec<Value> =
        mail(&ada, "agent.ada").await.into_iter().map(|(_, envelope)| envelope["id"].clone()).collect();
    assert_eq!(ids, ["envelope-s0", "envelope-s1", "envelope-s2", "envelope-r1", "envelope-s3"]);
    let event =
        with(task_envelope(&world, "envelope-e1", ("agent.ada", "agent.bob")), json!({ "type": "event" }));
    ada.post("/aee/envelopes", event.clone()).await.is(202);
    let to_event = answer(&world, "envelope-r3", &event, "result");
    bob.post("/aee/envelopes", to_event).await.refused(422, "reply_mismatch");
    let unknown = with(reply("envelope-r4", "result", json!({})), json!({ "reply_to": "envelope-unknown" }));
    let unmatched = bob.post("/aee/envelopes", unknown).await.is(202);
    assert!(unmatched["warnings"].as_array().unwrap().contains(&json!("unmatched_reply")));
    world.end().await;
}

#[tokio::test]
async fn a_thread_is_a_tree_of_what_answers_what() {
    let (world, ada, bob) = two().await;
    let task = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    let hop = with(
        task_envelope(&world, "envelope-2", ("agent.bob", "agent.eve")),
        json!({ "reply_to": "envelope-1" }),
    );
    let eve = world.agent("agent.eve").await;
    bob.post("/aee/envelopes", hop.clone()).await.is(202);
    eve.post("/aee/envelopes", answer(&world, "envelope-3", &hop, "result")).await.is(202);
    bob.post("/aee/envelopes", answer(&world, "envelope-4", &task, "result")).await.is(202);
    let shape = |thread: &Value| -> Vec<(String, u64)> {
        let all = thread["envelopes"].as_array().unwrap().iter();
        all.map(|leaf| (leaf["envelope"]["id"].as_str().unwrap().to_owned(), leaf["depth"].as_u64().unwrap()))
            .collect()
    };
    let seen = bob.get("/aee/threads/thread-00000001").await.ok();
    let expected = [("envelope-1", 0), ("envelope-2", 1), ("envelope-3", 2), ("envelope-4", 1)];
    assert_eq!(shape(&seen), expected.map(|(id, depth)| (id.to_owned(), depth)));
    assert_eq!(seen["envelopes"][0]["pairs"], json!([{ "respondent": "agent.bob", "status": "closed" }]));
    // An outsider sees nothing of the thread; a party to a part of it sees that part.
    assert_eq!(shape(&eve.get("/aee/threads/thread-00000001").await.ok()).len(), 2);
    world.agent("agent.mallory").await.get("/aee/threads/thread-00000001").await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test]
async fn from_a_person_over_agents_to_a_service_and_back() {
    let world = World::start().await;
    let (adam, any) = (client(&world, PrincipalKind::Human, "human.adam").await, world.any());
    let (router, reviewer) = (world.agent("agent.router").await, world.agent("agent.reviewer").await);
    let linter = client(&world, PrincipalKind::Service, "service.linter").await;
    any.put("/aee/mailboxes/urn:archive:7", json!({})).await.ok();
    let hops = [
        ("human.adam", &adam, "agent.router"),
        ("agent.router", &router, "agent.reviewer"),
        ("agent.reviewer", &reviewer, "service.linter"),
        ("service.linter", &linter, "urn:archive:7"),
    ];
    let mut tasks = Vec::new();
    for (n, (from, client, to)) in hops.into_iter().enumerate() {
        let above = n.checked_sub(1).map(|n| format!("envelope-{n}"));
        let task =
            with(task_envelope(&world, &format!("envelope-{n}"), (from, to)), json!({ "reply_to": above }));
        client.post("/aee/envelopes", task.clone()).await.is(202);
        tasks.push(task);
    }
    let back = [&router, &reviewer, &linter, &any];
    for (n, (task, client)) in tasks.iter().zip(back).enumerate().rev() {
        client.post("/aee/envelopes", answer(&world, &format!("result-{n}"), task, "result")).await.is(202);
    }
    let told = mail(&adam, "human.adam").await;
    assert_eq!((told.len(), &told[0].1["reply_to"]), (1, &json!("envelope-0")));
    let thread = world.admin().await.get("/aee/threads/thread-00000001").await.ok();
    let shape: Vec<(&str, u64)> = thread["envelopes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|leaf| (leaf["envelope"]["id"].as_str().unwrap(), leaf["depth"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("envelope-0", 0),
        ("envelope-1", 1),
        ("envelope-2", 2),
        ("envelope-3", 3),
        ("result-3", 4),
        ("result-2", 3),
        ("result-1", 2),
        ("result-0", 1),
    ];
    assert_eq!(shape, expected);
    world.end().await;
}

#[tokio::test]
async fn a_task_whose_time_runs_out_is_ended_by_the_gateway() {
    let (world, ada, bob) = two().await;
    let hasty = json!({ "requires": { "timeout_ms": 30_000 } });
    let task = with(task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob")), hasty);
    let receipt = ada.post("/aee/envelopes", task.clone()).await.is(202);
    assert_eq!(receipt["deadline"], "2026-11-21T08:00:30.000000Z");
    world.pass(29).await;
    assert_eq!(mail(&ada, "agent.ada").await, []);
    world.clock.advance(1);
    // The timeout applies at once, before the sweep records it.
    bob.post("/aee/envelopes", answer(&world, "envelope-2", &task, "result"))
        .await
        .refused(409, "task_closed");
    world.sweep().await;
    let told = mail(&ada, "agent.ada").await;
    assert_eq!(told.len(), 1);
    let error = &told[0].1;
    assert_eq!((error["type"].as_str(), error["from"].as_str()), (Some("error"), Some("service.entente")));
    assert_eq!(
        (error["reply_to"].as_str(), error["corr"].as_str()),
        (Some("envelope-1"), Some("thread-00000001"))
    );
    assert_eq!(
        (error["payload"]["code"].as_str(), error["payload"]["retryable"].as_bool()),
        (Some("E_TIMEOUT"), Some(true))
    );
    let year = with(
        task_envelope(&world, "envelope-3", ("agent.ada", "agent.bob")),
        json!({ "requires": { "timeout_ms": 4e11 } }),
    );
    let capped = ada.post("/aee/envelopes", year).await.is(202);
    assert_eq!(capped["warnings"], json!(["id_not_ulid_or_uuid", "timeout_capped"]));
    world.pass(86_400).await;
    assert_eq!(mail(&ada, "agent.ada").await.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_channel_reaches_all_who_listen_but_the_sender() {
    let (world, ada, bob) = two().await;
    let eve = world.agent("agent.eve").await;
    for (client, who) in [(&ada, "agent.ada"), (&bob, "agent.bob"), (&eve, "agent.eve")] {
        client.put(&format!("/aee/buses/bus.ops/subscriptions/{who}"), json!({})).await.ok();
    }
    ada.put("/aee/buses/bus.ops/subscriptions/agent.bob", json!({})).await.refused(404, "not_found");
    ada.put("/aee/buses/nobus/subscriptions/agent.ada", json!({})).await.refused(422, "invalid_parameter");
    let event =
        with(task_envelope(&world, "envelope-1", ("agent.ada", "bus.ops")), json!({ "type": "event" }));
    let receipt = ada.post("/aee/envelopes", event).await.is(202);
    assert_eq!((receipt["delivered"].as_i64(), &receipt["seq"]), (Some(2), &Value::Null));
    assert_eq!(mail(&ada, "agent.ada").await, []);
    assert_eq!(mail(&eve, "agent.eve").await[0].1["id"], "envelope-1");
    eve.get("/aee/envelopes/envelope-1").await.ok();
    // A task to a channel has one exchange with each subscriber, and each ends separately.
    let task = task_envelope(&world, "envelope-2", ("agent.ada", "bus.ops"));
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    let from = |who: &str, id: &str| with(answer(&world, id, &task, "result"), json!({ "from": who }));
    bob.post("/aee/envelopes", from("agent.bob", "envelope-3")).await.is(202);
    eve.post("/aee/envelopes", from("agent.eve", "envelope-4")).await.is(202);
    eve.post("/aee/envelopes", from("agent.eve", "envelope-5")).await.refused(409, "task_closed");
    assert_eq!(mail(&ada, "agent.ada").await.len(), 2);
    eve.delete("/aee/buses/bus.ops/subscriptions/agent.eve").await.is(204);
    assert_eq!(eve.get("/aee/subscriptions").await.ok(), json!([]));
    let event =
        with(task_envelope(&world, "envelope-6", ("agent.bob", "bus.quiet")), json!({ "type": "event" }));
    let quiet = bob.post("/aee/envelopes", event).await.is(202);
    assert!(quiet["warnings"].as_array().unwrap().contains(&json!("no_subscribers")));
    world.end().await;
}

#[tokio::test]
async fn one_principal_fills_no_channel() {
    let (world, ada, bob) = two().await;
    ada.put("/aee/buses/bus.ops/subscriptions/agent.ada", json!({})).await.ok();
    let fill = "INSERT INTO aee_subscriptions (bus, entity, created_by, created_at)
                SELECT 'bus.ops', 'agent.' || n, 'agent.ada', now() FROM generate_series(1, 249) n";
    sqlx::query(fill).execute(&world.ctx().pool).await.unwrap();
    // Repeating a subscription succeeds, even when the limit is reached.
    ada.put("/aee/buses/bus.ops/subscriptions/agent.ada", json!({})).await.ok();
    bob.put("/aee/buses/bus.ops/subscriptions/agent.bob", json!({})).await.ok();
    ada.delete("/aee/buses/bus.ops/subscriptions/agent.ada").await.is(204);
    ada.put("/aee/buses/bus.ops/subscriptions/agent.ada", json!({})).await.ok();
    let more = "INSERT INTO aee_subscriptions (bus, entity, created_by, created_at)
                VALUES ('bus.ops', 'agent.250', 'agent.bob', now()), ('bus.full', 'agent.bob', 'agent.ada', now())";
    sqlx::query(more).execute(&world.ctx().pool).await.unwrap();
    let full = "INSERT INTO aee_subscriptions (bus, entity, created_by, created_at)
                SELECT 'bus.full', 'agent.' || n, 'agent.ada', now() FROM generate_series(1, 249) n";
    sqlx::query(full).execute(&world.ctx().pool).await.unwrap();
    ada.put("/aee/buses/bus.full/subscriptions/agent.ada", json!({})).await.refused(422, "unprocessable");
    bob.put("/aee/buses/bus.full/subscriptions/agent.bob", json!({})).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_to_many_is_taken_in_as_several() {
    let (world, ada, bob) = two().await;
    bob.put("/aee/buses/bus.ops/subscriptions/agent.bob", json!({})).await.ok();
    let many = "WITH m AS (INSERT INTO aee_mailboxes (entity, created_at)
                    SELECT 'agent.' || n, now() FROM generate_series(1, 700) n RETURNING entity)
                INSERT INTO aee_subscriptions (bus, entity, created_by, created_at)
                SELECT 'bus.ops', entity, 'service.any', now() FROM m";
    sqlx::query(many).execute(&world.ctx().pool).await.unwrap();
    let task = |n: u32| {
        let more = json!({ "requires": { "timeout_ms": 1_000 } });
        with(task_envelope(&world, &format!("envelope-{n}"), ("agent.ada", "bus.ops")), more)
    };
    let batch: Vec<Value> = (0..6).map(task).collect();
    let taken = ada.post("/aee/envelopes/batch", json!(batch)).await.is(202);
    assert_eq!(taken["results"][5]["accepted"]["delivered"], 701);
    let (most, all): (i64, i64) = sqlx::query_as(
        "SELECT max(n), sum(n)::bigint FROM (SELECT count(*) AS n FROM aee_items GROUP BY xmin::text) AS by_transaction",
    )
    .fetch_one(&world.ctx().pool)
    .await
    .unwrap();
    assert_eq!((most, all), (1_402, 4_206), "two envelopes to 701 make a transaction");
    world.pass(2).await;
    while world.sweep().await > 0 {}
    let told = ada.get("/aee/mailboxes/agent.ada?limit=1").await.ok();
    assert_eq!(
        (&told["last_seq"], &told["items"][0]["envelope"]["intent"]),
        (&json!(4_206), &json!("ops.backup.check"))
    );
    world.end().await;
}
