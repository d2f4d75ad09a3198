//! Consequences of tasks: for dependent tasks, for their channels (RFC-0021 §7.3), and for the tasks when their
//! agent leaves or their intent is resolved.

use entente_domain::clock::{Clock as _, plus_seconds, rfc3339};

use super::{act, complete, intent, now, status, task, told};
use entente_harness::agents::registered;
use entente_harness::{World, json, talk};

#[tokio::test(flavor = "multi_thread")]
async fn what_depends_on_a_task_becomes_ready_with_the_last_one() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = intent(&ada).await;
    let (a, b) = (task(&ada, &intent, json!({})).await, task(&ada, &intent, json!({})).await);
    let c = task(&ada, &intent, json!({ "depends_on": [a, b] })).await;
    ada.post(&format!("/tasks/{c}/claim"), json!({})).await.refused(409, "invalid_transition");
    complete(&ada, &a).await;
    assert_eq!(status(&ada, &c).await, "pending");
    complete(&ada, &b).await;
    let ready = now(&ada, &c).await;
    assert_eq!((&ready["status"], &ready["version"]), (&json!("ready"), &json!(1)));
    assert_eq!(told(&ada, &intent, &c).await, ["task.created", "task.ready"]);
    complete(&ada, &c).await;
    // A task created afterwards is ready at once.
    let d = task(&ada, &intent, json!({ "depends_on": [c] })).await;
    assert_eq!(status(&ada, &d).await, "ready");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_depends_on_one_that_is_lost_is_blocked_until_it_is_let_go_on() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = intent(&ada).await;
    for verb in ["cancel", "skip", "fail"] {
        let lost = task(&ada, &intent, json!({ "max_attempts": 1 })).await;
        let open = task(&ada, &intent, json!({})).await;
        let waiting = task(&ada, &intent, json!({ "depends_on": [lost, open] })).await;
        let behind = task(&ada, &intent, json!({ "depends_on": [waiting] })).await;
        if verb == "fail" {
            act(&ada, &lost, "claim", json!({})).await;
        }
        act(&ada, &lost, verb, json!({})).await;
        let blocked = now(&ada, &waiting).await;
        assert_eq!(blocked["status"], "blocked", "{verb}");
        assert!(blocked["blocked_reason"].as_str().unwrap().contains(&lost), "{blocked}");
        assert_eq!(status(&ada, &behind).await, "pending", "it is not lost, only late");
        let late = task(&ada, &intent, json!({ "depends_on": [lost] })).await;
        assert_eq!(status(&ada, &late).await, "blocked", "what is made afterwards is blocked too");
        act(&ada, &late, "cancel", json!({})).await;
        // It drops the lost dependency and still waits for the other one.
        let freed = act(&ada, &waiting, "unblock", json!({})).await;
        assert_eq!((&freed["status"], &freed["depends_on"]), (&json!("pending"), &json!([open])));
        assert_eq!(freed["blocked_reason"], json!(null));
        complete(&ada, &open).await;
        complete(&ada, &waiting).await;
        assert_eq!(status(&ada, &behind).await, "ready");
        let types = told(&ada, &intent, &waiting).await;
        assert_eq!(types[..4], ["task.created", "task.blocked", "task.unblocked", "task.ready"]);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_task_closes_its_channels_and_expires_what_waits() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for (verb, claims) in [("complete", true), ("fail", true), ("cancel", false), ("skip", false)] {
        let (intent, other) = talk(&ada, json!({})).await;
        let id = task(&ada, &intent, json!({ "max_attempts": 1 })).await;
        let ask = json!({ "name": "about it", "task_id": id });
        let channel = ada.post(&format!("/intents/{intent}/channels"), ask).await.is(201);
        let channel = channel["id"].as_str().unwrap();
        let request =
            json!({ "sender": "agent.ada", "to": "agent.bob", "message_type": "request", "payload": {} });
        let messages = format!("/channels/{channel}/messages");
        let asked = ada.post(&messages, request).await.is(201)["id"].as_str().unwrap().to_owned();
        if claims {
            act(&ada, &id, "claim", json!({})).await;
        }
        act(&ada, &id, verb, json!({})).await;
        assert_eq!(ada.get(&format!("/channels/{channel}")).await.ok()["status"], "closed", "{verb}");
        assert_eq!(ada.get(&format!("{messages}/{asked}")).await.ok()["status"], "expired", "{verb}");
        assert_eq!(ada.get(&format!("/channels/{other}")).await.ok()["status"], "open");
        let events = ada.get(&format!("/intents/{intent}/events?event_type=channel.closed")).await.ok();
        assert_eq!(events[0]["payload"]["reason"], "task_ended");
        ada.post(&messages, json!({ "sender": "agent.ada", "payload": {} }))
            .await
            .refused(409, "channel_closed");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resolved_intent_calls_off_what_is_open() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = intent(&ada).await;
    let (done, open) = (task(&ada, &intent, json!({})).await, task(&ada, &intent, json!({})).await);
    let plan = json!({ "intent_id": intent, "tasks": [open] });
    let plan = ada.post("/plans", plan).await.ok()["id"].as_str().unwrap().to_owned();
    complete(&ada, &done).await;
    let had = act(&ada, &open, "claim", json!({})).await;
    ada.seen(&json!(1))
        .post(&format!("/intents/{intent}/status"), json!({ "status": "abandoned" }))
        .await
        .ok();
    assert_eq!(status(&ada, &done).await, "completed");
    let off = now(&ada, &open).await;
    assert_eq!((&off["status"], &off["claim_token"]), (&json!("cancelled"), &json!(null)));
    assert_eq!(off["version"], had["version"].as_i64().unwrap() + 1);
    assert_eq!(ada.get(&format!("/plans/{plan}")).await.ok()["state"], "cancelled");
    ada.post(&format!("/tasks/{open}/complete"), json!({})).await.refused(409, "invalid_transition");
    assert_eq!(told(&ada, &intent, &open).await.last().unwrap(), "task.cancelled");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_leaves_or_dies_leaves_its_tasks() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (first, second) = (intent(&ada).await, intent(&ada).await);
    let beat = json!({ "interval_seconds": 10, "unhealthy_after_seconds": 30, "dead_after_seconds": 60 });
    for (name, how) in [("agent.bob", "leaves"), ("agent.cy", "falls silent"), ("agent.dee", "is given up")] {
        let agent = registered(&world, name, json!({ "heartbeat_config": beat })).await;
        let claimed = task(&ada, &first, json!({ "timeout_seconds": 3600 })).await;
        let running = task(&ada, &second, json!({ "max_attempts": 1 })).await;
        let kept = task(&ada, &second, json!({})).await;
        let done = task(&ada, &second, json!({})).await;
        act(&agent, &claimed, "claim", json!({})).await;
        let token = act(&agent, &running, "claim", json!({})).await["claim_token"].clone();
        act(&agent, &running, "start", json!({})).await;
        act(&ada, &kept, "delegate", json!({ "to": name })).await;
        complete(&agent, &done).await;
        match how {
            "leaves" => drop(agent.delete(&format!("/agents/{name}")).await.ok()),
            "falls silent" => world.pass(60).await,
            _ => drop(agent.patch(&format!("/agents/{name}/status"), json!({ "status": "dead" })).await.ok()),
        }
        for id in [&claimed, &running, &kept] {
            let free = now(&ada, id).await;
            assert_eq!((&free["status"], &free["assigned_agent"]), (&json!("ready"), &json!(null)), "{how}");
            assert_eq!(free["attempt"], 1, "that costs no attempt");
        }
        assert_eq!(told(&ada, &second, &running).await[4..], ["task.retrying", "task.ready"], "{how}");
        assert_eq!(now(&ada, &done).await["assigned_agent"], name);
        let late = json!({ "claim_token": token });
        agent.post(&format!("/tasks/{running}/complete"), late).await.refused(409, "claim_conflict");
        complete(&ada, &running).await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_loses_access_loses_its_tasks() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    for how in ["revoked", "replaced", "narrowed", "expired"] {
        let home = intent(&ada).await;
        let acl = format!("/intents/{home}/acl");
        let soon = rfc3339(plus_seconds(world.clock.now(), 60));
        let ends = if how == "expired" { json!(soon) } else { json!(null) };
        let entries = json!([
            { "principal_id": "agent.bob", "permission": "write", "expires_at": ends },
            { "principal_id": "agent.eve", "permission": "write" },
        ]);
        // Before the first entry everyone may write; that entry takes more access than it gives.
        let narrowed = how == "narrowed";
        let entries = if narrowed { json!([]) } else { entries };
        let list = ada.put(&acl, json!({ "default_policy": "open", "entries": entries })).await.ok();
        let (had, kept, other) = (
            task(&ada, &home, json!({})).await,
            task(&ada, &home, json!({})).await,
            task(&ada, &home, json!({})).await,
        );
        let token = act(&bob, &had, "claim", json!({})).await["claim_token"].clone();
        act(&ada, &kept, "delegate", json!({ "to": "agent.bob" })).await;
        act(&eve, &other, "claim", json!({})).await;
        match how {
            "revoked" => {
                let entry = list["entries"][0]["id"].as_str().unwrap();
                ada.delete(&format!("{acl}/entries/{entry}")).await.is(204);
            }
            "narrowed" => {
                let entry = json!({ "principal_id": "agent.eve", "permission": "write" });
                ada.post(&format!("{acl}/entries"), entry).await.ok();
            }
            "replaced" => {
                let eve = json!([{ "principal_id": "agent.eve", "permission": "write" }]);
                ada.put(&acl, json!({ "default_policy": "closed", "entries": eve })).await.ok();
            }
            _ => world.pass(60).await,
        }
        for id in [&had, &kept] {
            let free = now(&ada, id).await;
            assert_eq!((&free["status"], &free["assigned_agent"]), (&json!("ready"), &json!(null)), "{how}");
            assert_eq!(free["attempt"], 1, "that costs no attempt");
        }
        assert_eq!(told(&ada, &home, &had).await[3..], ["task.retrying", "task.ready"], "{how}");
        assert_eq!(now(&ada, &other).await["assigned_agent"], "agent.eve", "{how}");
        let late = json!({ "claim_token": token });
        let refused = bob.post(&format!("/tasks/{had}/complete"), late).await.status;
        assert!([403, 404].contains(&refused), "{how}: {refused}");
        complete(&eve, &had).await;
    }
    world.end().await;
}
