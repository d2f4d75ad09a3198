//! Mailboxes (AEE §5): cursors, long polls, acknowledgements, picking, streams.

use std::time::Duration;

use sqlx::{ConnectOptions as _, Executor as _};

use entente_harness::envelopes::{mail, task_envelope, two, with};
use entente_harness::{Cluster, Sse, Value, json};

#[tokio::test]
async fn a_mailbox_is_read_with_a_cursor_and_taken_out() {
    let (world, ada, bob) = two().await;
    for n in 1..=5 {
        ada.post(
            "/aee/envelopes",
            task_envelope(&world, &format!("envelope-{n}"), ("agent.ada", "agent.bob")),
        )
        .await
        .is(202);
    }
    let page = bob.get("/aee/mailboxes/agent.bob?limit=2").await.ok();
    assert_eq!((page["next_after"].as_i64(), page["last_seq"].as_i64()), (Some(2), Some(5)));
    let page = bob.get("/aee/mailboxes/agent.bob?after=2&limit=2").await.ok();
    assert_eq!(page["next_after"], 4);
    bob.post("/aee/mailboxes/agent.bob/ack", json!({ "up_to": 6 })).await.refused(422, "unprocessable");
    bob.post("/aee/mailboxes/agent.bob/ack", json!({})).await.refused(422, "invalid_request");
    let field = |refused: Value| refused["errors"][0]["loc"][1].clone();
    let ack = bob.post("/aee/mailboxes/agent.bob/ack", json!({ "seqs": [6] })).await;
    assert_eq!(field(ack.refused(422, "unprocessable")), "seqs");
    let pick = bob.post("/aee/mailboxes/agent.bob/pick", json!({ "hold_sec": 3_601 })).await;
    assert_eq!(field(pick.refused(422, "invalid_request")), "hold_sec");
    ada.post("/aee/mailboxes/agent.bob/ack", json!({ "up_to": 2 })).await.refused(404, "not_found");
    assert_eq!(bob.post("/aee/mailboxes/agent.bob/ack", json!({ "up_to": 2 })).await.ok()["acked_seq"], 2);
    assert_eq!(bob.post("/aee/mailboxes/agent.bob/ack", json!({ "seqs": [4] })).await.ok()["acked_seq"], 2);
    assert_eq!(bob.post("/aee/mailboxes/agent.bob/ack", json!({ "seqs": [3] })).await.ok()["acked_seq"], 4);
    assert_eq!(bob.post("/aee/mailboxes/agent.bob/ack", json!({ "up_to": 1 })).await.ok()["acked_seq"], 4);
    let left: Vec<i64> = mail(&bob, "agent.bob").await.into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(left, [5]);
    let again = bob.get("/aee/mailboxes/agent.bob?after=0").await.ok();
    assert_eq!(again["items"].as_array().unwrap().len(), 5, "who asks by number has all");
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-6", ("agent.ada", "agent.bob"))).await.is(202);
    bob.post("/aee/mailboxes/agent.bob/ack", json!({ "seqs": [6] })).await.ok();
    let left: Vec<i64> = mail(&bob, "agent.bob").await.into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(left, [5], "what was taken out is not handed out again");
    bob.get("/aee/mailboxes/agent.bob?after=x").await.refused(422, "invalid_parameter");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_at_a_mailbox_has_what_comes_at_once() {
    let (world, ada, bob) = two().await;
    let waiting = tokio::spawn(async move { bob.get("/aee/mailboxes/agent.bob?wait=60").await.ok() });
    tokio::time::sleep(Duration::from_millis(300)).await;
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    let got = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap();
    assert_eq!(got["items"][0]["envelope"]["id"], "envelope-1");
    world.end().await;
}

#[tokio::test]
async fn the_most_pressing_is_picked_first_and_nothing_starves() {
    let (world, ada, bob) = two().await;
    let send = async |id: &str, priority: &str| {
        let envelope =
            with(task_envelope(&world, id, ("agent.ada", "agent.bob")), json!({ "priority": priority }));
        ada.post("/aee/envelopes", envelope).await.is(202);
    };
    let pick = async |max: u32, hold: u32| -> Vec<String> {
        let body = json!({ "max": max, "hold_sec": hold });
        let got = bob.post("/aee/mailboxes/agent.bob/pick", body).await.ok();
        let got = got.as_array().unwrap().iter();
        got.map(|item| item["envelope"]["id"].as_str().unwrap().to_owned()).collect()
    };
    for (id, priority) in [
        ("envelope-low", "low"),
        ("envelope-normal", "normal"),
        ("envelope-urgent", "urgent"),
        ("envelope-high", "high"),
    ] {
        send(id, priority).await;
    }
    assert_eq!(pick(4, 0).await, ["envelope-urgent", "envelope-high", "envelope-normal", "envelope-low"]);
    // A held item is not handed out until the hold ends.
    assert_eq!(pick(1, 60).await, ["envelope-urgent"]);
    assert_eq!(pick(1, 60).await, ["envelope-high"]);
    world.clock.advance(60);
    assert_eq!(pick(1, 0).await, ["envelope-urgent"]);
    bob.post("/aee/mailboxes/agent.bob/ack", json!({ "up_to": 4 })).await.ok();
    // A flood of urgent envelopes: a low one that has waited ten minutes comes before all later ones.
    send("envelope-patient", "low").await;
    world.clock.advance(601);
    for n in 0..20 {
        send(&format!("envelope-flood-{n}"), "urgent").await;
    }
    assert_eq!(pick(1, 60).await, ["envelope-patient"]);
    bob.post("/aee/mailboxes/agent.bob/pick", json!({ "max": 1000 })).await.refused(422, "invalid_request");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_hangs_up_while_it_picks_holds_nothing() {
    let (world, ada, bob) = two().await;
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    let pick = "/aee/mailboxes/agent.bob/pick";
    // The mailbox is locked for a while, and the client disconnects meanwhile.
    let mut beside = Cluster::get().options(&world.database).connect().await.unwrap();
    beside.execute("BEGIN; LOCK TABLE aee_items IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let dying = bob.clone();
    let dying = tokio::spawn(async move { dying.post(pick, json!({ "max": 5, "hold_sec": 3_600 })).await });
    tokio::time::sleep(Duration::from_millis(400)).await;
    dying.abort();
    tokio::time::sleep(Duration::from_millis(400)).await;
    beside.execute("ROLLBACK").await.unwrap();
    // The test clock does not move here, so an item that was held for an hour would stay held.
    for _ in 0..100 {
        let got = bob.post(pick, json!({ "max": 5, "hold_sec": 0 })).await.ok();
        if got[0]["envelope"]["id"] == "envelope-1" {
            return world.end().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("what was picked by somebody who hung up did not come back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_is_followed_and_resumed_without_gap_or_repetition() {
    let (world, ada, bob) = two().await;
    let task = |n: u32| task_envelope(&world, &format!("envelope-{n}"), ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", task(1)).await.is(202);
    let mut stream = Sse::open(&bob, "/aee/stream").await;
    assert_eq!(stream.next().await.data["envelope"]["id"], "envelope-1");
    ada.post("/aee/envelopes", task(2)).await.is(202);
    let second = stream.next().await;
    assert_eq!((second.id.as_str(), &second.data["envelope"]["id"]), ("2", &json!("envelope-2")));
    drop(stream);
    for n in 3..=150 {
        ada.post("/aee/envelopes", task(n)).await.is(202);
    }
    let mut resumed = Sse::resume(&bob, "/aee/stream?entity=agent.bob", Some("2")).await;
    for n in 3..=150 {
        assert_eq!(resumed.next().await.data["seq"], n);
    }
    // A revoked key receives nothing more, even with a backlog.
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.bob", "kind": "agent" })).await;
    let made = admin.post("/principals/agent.bob/keys", json!({})).await.is(201);
    let lent = world.client(made["key"].as_str().unwrap());
    let mut stream = Sse::resume(&lent, "/aee/stream?entity=agent.bob", Some("150")).await;
    ada.post("/aee/envelopes", task(151)).await.is(202);
    assert_eq!(stream.next().await.data["seq"], 151);
    admin.delete(&format!("/keys/{}", made["record"]["id"].as_str().unwrap())).await.ok();
    ada.post("/aee/envelopes", task(152)).await.is(202);
    assert_eq!(stream.try_next().await, None, "heard after the end");
    let refused = Sse::refused(&ada, "/aee/stream?entity=agent.bob").await;
    refused.refused(404, "not_found");
    world.end().await;
}

#[tokio::test]
async fn an_embedded_envelope_is_delivered_to_nobody() {
    let (world, ada, bob) = two().await;
    let eve = world.agent("agent.eve").await;
    let inner = task_envelope(&world, "envelope-inner", ("agent.ada", "agent.eve"));
    let outer = with(
        task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob")),
        json!({ "payload": { "snapshot": inner } }),
    );
    let receipt = ada.post("/aee/envelopes", outer).await.is(202);
    assert!(receipt["warnings"].as_array().unwrap().contains(&json!("looks_like_nested_envelope")));
    assert_eq!(mail(&eve, "agent.eve").await, []);
    assert_eq!(mail(&bob, "agent.bob").await.len(), 1);
    let found: Value = eve.get("/aee/envelopes/envelope-inner").await.refused(404, "not_found");
    assert!(found["receipt"].is_null());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_begins_leaves_out_what_was_taken_out_of_order() {
    let (world, ada, bob) = two().await;
    let send = async |n: u32| {
        let event = task_envelope(&world, &format!("envelope-{n}"), ("agent.ada", "agent.bob"));
        ada.post("/aee/envelopes", event).await.is(202);
    };
    for n in 1..=4 {
        send(n).await;
    }
    bob.post("/aee/mailboxes/agent.bob/ack", json!({ "seqs": [2, 4] })).await.ok();
    let mut stream = Sse::open(&bob, "/aee/stream").await;
    let mut seen = Vec::new();
    for next in [None, None, Some(5)] {
        if let Some(n) = next {
            send(n).await;
        }
        seen.push(stream.next().await.data["seq"].as_i64().unwrap());
    }
    assert_eq!(seen, [1, 3, 5]);
    drop(stream);
    let mut resumed = Sse::resume(&bob, "/aee/stream", Some("1")).await;
    assert_eq!(resumed.next().await.data["seq"], 2, "who resumes has all that came after");
    drop(resumed);
    world.end().await;
}
