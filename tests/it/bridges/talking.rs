//! Bridges between envelopes and intents' channels: envelopes shown as messages, messages sent on as envelopes, and
//! no loops between the two.

use std::time::{Duration, Instant};

use super::{change, count};
use entente_harness::envelopes::{mail, task_envelope, two, with};
use entente_harness::{Client, Value, World, json, send, talk};

/// Lists the messages of a channel.
async fn said(client: &Client, channel: &str) -> Vec<Value> {
    client.get(&format!("/channels/{channel}/messages")).await.ok().as_array().unwrap().clone()
}

fn says(sender: &str, more: Value) -> Value {
    with(json!({ "sender": sender, "payload": { "n": 1 } }), more)
}

/// Runs the bridges until a channel has `count` messages.
async fn until(world: &World, client: &Client, channel: &str, count: usize) -> Vec<Value> {
    let began = Instant::now();
    loop {
        world.carry().await;
        let all = said(client, channel).await;
        if all.len() >= count {
            return all;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "not {count}: {all:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn envelopes_are_shown_on_a_channel_once() {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    let (_, channel) = talk(&admin, json!({})).await;
    let early = task_envelope(&world, "envelope-0", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", early).await.is(202);
    let one = json!({ "kind": "mirror", "entity": "agent.bob", "channel_id": channel });
    let all = json!({ "kind": "mirror", "bus": "bus.ops", "channel_id": channel });
    admin.put("/aee/bridges/bob", one.clone()).await.ok();
    admin.put("/aee/bridges/bus", all.clone()).await.ok();
    for wrong in [json!({ "bus": "bus.ops" }), json!({ "entity": "bus.ops" }), json!({ "entity": null })] {
        admin.put("/aee/bridges/odd", with(one.clone(), wrong)).await.refused(422, "unprocessable");
    }
    let unknown = json!({ "channel_id": "chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" });
    admin.put("/aee/bridges/odd", with(one, unknown)).await.refused(404, "not_found");
    let task = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    let shown = until(&world, &admin, &channel, 1).await;
    assert_eq!((&shown[0]["payload"]["envelope"], &shown[0]["sender"]), (&task, &json!("service.bootstrap")));
    let about = &shown[0]["metadata"];
    assert_eq!((&about["bridge"], &about["envelope_id"]), (&json!("bob"), &json!("envelope-1")));
    assert_eq!(
        (&about["envelope"]["from"], &about["envelope"]["type"]),
        (&json!("agent.ada"), &json!("task"))
    );
    assert_eq!(mail(&bob, "agent.bob").await.len(), 2, "it lies in the mailbox as before");
    // The bridge is the only subscriber of the bus.
    let event =
        with(task_envelope(&world, "envelope-2", ("agent.ada", "bus.ops")), json!({ "type": "event" }));
    ada.post("/aee/envelopes", event.clone()).await.is(202);
    let shown = until(&world, &admin, &channel, 2).await;
    assert_eq!(shown[1]["payload"]["envelope"], event);
    // Simulates a server that died before it recorded its progress.
    change(&world, "DELETE FROM aee_bridged").await;
    change(&world, "UPDATE aee_bridges SET place = place - 1, bus_place = bus_place - 1").await;
    world.carry().await;
    assert_eq!(said(&admin, &channel).await, shown);
    // A too large envelope is shown by its id only.
    let large = |size: usize| {
        let payload = json!({ "payload": { "large": "x".repeat(size) } });
        with(task_envelope(&world, "envelope-3", ("agent.ada", "agent.bob")), payload)
    };
    let most = 256 * 1024 - large(0).to_string().len();
    let large = large(most);
    ada.post("/aee/envelopes", large).await.is(202);
    let shown = until(&world, &admin, &channel, 3).await;
    assert_eq!(shown[2]["payload"], json!({ "envelope_id": "envelope-3", "omitted": "too_large" }));
    // The channel is closed: the bridge pauses and reports the reason.
    admin.patch(&format!("/channels/{channel}"), json!({ "status": "closed" })).await.ok();
    ada.post("/aee/envelopes", with(task, json!({ "id": "envelope-4" }))).await.is(202);
    world.carry().await;
    let bridges = admin.get("/aee/bridges").await.ok();
    assert!(bridges[0]["problem"].is_string() && bridges[1]["problem"].is_null(), "{bridges}");
    world.end().await;
}

#[tokio::test]
async fn messages_are_sent_on_as_envelopes_once() {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    let (_, channel) = talk(&admin, json!({})).await;
    send(&ada, &channel, says("agent.ada", json!({ "message_type": "notify" }))).await;
    let export = json!({ "kind": "export", "channel_id": channel, "to": "agent.eve", "intent": "talk.said" });
    admin.put("/aee/bridges/out", export.clone()).await.ok();
    let wrong = [json!({ "intent": "aee.foo" }), json!({ "intent": "x" }), json!({ "to": "" })];
    for wrong in wrong {
        assert_eq!(admin.put("/aee/bridges/odd", with(export.clone(), wrong)).await.status, 422);
    }
    let to_bob = json!({ "message_type": "request", "to": "agent.bob" });
    let request = send(&ada, &channel, says("agent.ada", to_bob)).await;
    // The recipient does not exist yet: the bridge pauses until it does.
    world.carry().await;
    assert!(admin.get("/aee/bridges").await.ok()[0]["problem"].as_str().unwrap().contains("agent.eve"));
    let eve = world.agent("agent.eve").await;
    world.carry().await;
    assert!(admin.get("/aee/bridges").await.ok()[0]["problem"].is_null());
    let came = mail(&eve, "agent.eve").await;
    assert_eq!(came.len(), 1, "what was said before the bridge was there is not carried");
    let task = &came[0].1;
    assert_eq!(
        (&task["type"], &task["from"], &task["intent"]),
        (&json!("task"), &json!("agent.ada"), &json!("talk.said"))
    );
    assert_eq!((&task["corr"], &task["payload"]), (&request["id"], &json!({ "n": 1 })));
    let kept = eve.get(&format!("/aee/envelopes/{}", task["id"].as_str().unwrap())).await.ok();
    assert_eq!(
        (&kept["verified"], &task["entente"]["message_id"]),
        (&json!({ "by": "gateway" }), &request["id"])
    );
    let reply = format!("/channels/{channel}/messages/{}/reply", request["id"].as_str().unwrap());
    bob.post(&reply, json!({ "sender": "agent.bob", "payload": { "n": 2 } })).await.is(201);
    send(&bob, &channel, says("agent.bob", json!({ "message_type": "broadcast" }))).await;
    world.carry().await;
    let came = mail(&eve, "agent.eve").await;
    let (result, event) = (&came[1].1, &came[2].1);
    assert_eq!((&result["type"], &result["reply_to"]), (&json!("result"), &task["id"]));
    assert_eq!((&result["from"], &result["corr"]), (&json!("agent.bob"), &task["corr"]));
    assert_eq!((&event["type"], &event["reply_to"]), (&json!("event"), &Value::Null));
    let thread = eve.get(&format!("/aee/threads/{}", task["corr"].as_str().unwrap())).await.ok();
    assert_eq!(thread["envelopes"][0]["pairs"], json!([{ "respondent": "agent.eve", "status": "closed" }]));
    // The bridge has lost its position: the ids are the same, so the envelopes are not ingested twice.
    let before = count(&world, "SELECT count(*) FROM aee_envelopes").await;
    change(&world, "DELETE FROM aee_bridged").await;
    change(&world, "UPDATE aee_bridges SET place = 1").await;
    world.carry().await;
    assert_eq!(count(&world, "SELECT count(*) FROM aee_envelopes").await, before);
    world.end().await;
}

#[tokio::test]
async fn what_a_bridge_has_made_is_carried_by_no_other() {
    let (world, ada, _bob) = two().await;
    let admin = world.admin().await;
    let (_, channel) = talk(&admin, json!({})).await;
    let export = json!({ "kind": "export", "channel_id": channel, "to": "agent.bob", "intent": "talk.said" });
    let mirror = json!({ "kind": "mirror", "entity": "agent.bob", "channel_id": channel });
    admin.put("/aee/bridges/in", mirror).await.ok();
    admin.put("/aee/bridges/out", export).await.ok();
    send(&ada, &channel, says("agent.ada", json!({ "message_type": "notify" }))).await;
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    world.carry().await;
    assert_eq!(said(&admin, &channel).await.len(), 2, "what was said, and the envelope");
    assert_eq!(
        count(&world, "SELECT count(*) FROM aee_envelopes").await,
        2,
        "the envelope, and what was said"
    );
    // Forged bridge metadata has no effect: the message is carried to everyone.
    let lie = json!({ "message_type": "notify", "metadata": { "bridge": "in" } });
    send(&ada, &channel, says("agent.ada", lie)).await;
    world.carry().await;
    assert_eq!(count(&world, "SELECT count(*) FROM aee_envelopes").await, 3);
    // A mirror that died before it recorded the messages that it had posted.
    change(&world, "DELETE FROM aee_bridged WHERE bridge = 'in'").await;
    change(&world, "UPDATE aee_bridges SET place = 0 WHERE name = 'out'").await;
    change(&world, "DELETE FROM aee_bridged WHERE bridge = 'out'").await;
    world.carry().await;
    assert_eq!(count(&world, "SELECT count(*) FROM aee_envelopes").await, 3);
    world.end().await;
}

#[tokio::test]
async fn a_task_to_a_bus_is_shown_once_a_person_has_agreed() {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    let (_, channel) = talk(&admin, json!({})).await;
    let mirror = json!({ "kind": "mirror", "bus": "bus.ops", "channel_id": channel });
    admin.put("/aee/bridges/bus", mirror).await.ok();
    bob.put("/aee/buses/bus.ops/subscriptions/agent.bob", json!({})).await.ok();
    let asked = json!({ "requires": { "human_approval": true } });
    let task = with(task_envelope(&world, "envelope-1", ("agent.ada", "bus.ops")), asked);
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    let event =
        with(task_envelope(&world, "envelope-2", ("agent.ada", "bus.ops")), json!({ "type": "event" }));
    ada.post("/aee/envelopes", event.clone()).await.is(202);
    let shown = until(&world, &admin, &channel, 1).await;
    assert_eq!(shown[0]["payload"]["envelope"], event, "what waits was sent to nobody");
    let kind = entente_domain::identity::principals::PrincipalKind::Human;
    entente_kernel::identity::seeds::seed(world.ctx(), kind, "human.eve", "key-of-eve").await.unwrap();
    let agreed = json!({ "decision": "approve" });
    world.client("key-of-eve").post("/aee/approvals/envelope-1", agreed).await.ok();
    let shown = until(&world, &admin, &channel, 2).await;
    assert_eq!(shown[1]["payload"]["envelope"], task);
    world.end().await;
}

#[tokio::test]
async fn a_bridge_of_a_bus_goes_on_after_all_its_envelopes_were_deleted() {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    let (_, channel) = talk(&admin, json!({})).await;
    bob.put("/aee/buses/bus.ops/subscriptions/agent.bob", json!({})).await.ok();
    admin
        .put("/aee/bridges/bus", json!({ "kind": "mirror", "bus": "bus.ops", "channel_id": channel }))
        .await
        .ok();
    let event = |world: &World, id: &str| {
        with(task_envelope(world, id, ("agent.ada", "bus.ops")), json!({ "type": "event" }))
    };
    for id in ["envelope-1", "envelope-2"] {
        ada.post("/aee/envelopes", event(&world, id)).await.is(202);
    }
    until(&world, &admin, &channel, 2).await;
    world.pass(31 * 24 * 3_600).await;
    assert_eq!(count(&world, "SELECT count(*) FROM aee_envelopes").await, 0, "they are deleted");
    // The id of the last one may be used again by now.
    for (id, shown) in [("envelope-2", 3), ("envelope-3", 4)] {
        ada.post("/aee/envelopes", event(&world, id)).await.is(202);
        until(&world, &admin, &channel, shown).await;
    }
    world.pass(31 * 24 * 3_600).await;
    assert_eq!(count(&world, "SELECT count(*) FROM aee_bus_order").await, 1, "only the last number is left");
    world.end().await;
}
