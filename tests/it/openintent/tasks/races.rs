//! Races over tasks: concurrent claims have one winner, on one server and on several, and no task is lost with its
//! agent.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;

use super::{intent, now, task};
use entente_harness::{Client, Setup, Value, World, ids, json};

/// Claims ready tasks until none are left; returns those it got.
async fn claimer(client: Client, intent: String) -> Vec<(String, i64)> {
    let mut got = Vec::new();
    loop {
        let ready = client.get(&format!("/intents/{intent}/tasks?status=ready&limit=20")).await.ok();
        if ready == json!([]) {
            return got;
        }
        for id in ids(&ready) {
            let answer = client.send("POST", &format!("/tasks/{id}/claim"), None).await;
            if answer.status == 200 {
                got.push((id, answer.json()["claim_token"].as_i64().unwrap()));
            } else {
                answer.refused(409, "claim_conflict");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_claim_one_has_the_task_on_whichever_server() {
    let (a, b) = World::two().await;
    let any = a.any().patient();
    let intent = intent(&any).await;
    let asked: BTreeSet<String> =
        join_all((0..200).map(|_| task(&any, &intent, json!({})))).await.into_iter().collect();
    let worlds = [&a, &b];
    let agents = (0..32).map(|n| {
        let client = worlds[n % 2].any().patient().acting_as(&format!("agent.{n}"));
        tokio::spawn(claimer(client, intent.clone()))
    });
    let mut owners: BTreeMap<String, usize> = BTreeMap::new();
    for (who, got) in join_all(agents).await.into_iter().enumerate() {
        for (id, token) in got.unwrap() {
            assert_eq!(token, 1);
            assert_eq!(owners.insert(id, who), None, "two agents have one task");
        }
    }
    assert_eq!(owners.keys().cloned().collect::<BTreeSet<_>>(), asked, "a task that nobody got");
    let all = any.get(&format!("/intents/{intent}/tasks?limit=1000")).await.ok();
    for task in all.as_array().unwrap() {
        let owner = format!("agent.{}", owners[task["id"].as_str().unwrap()]);
        assert_eq!((&task["status"], &task["assigned_agent"]), (&json!("claimed"), &Value::from(owner)));
    }
    let events = any.get(&format!("/intents/{intent}/events?event_type=task.claimed&limit=1000")).await.ok();
    assert_eq!(events.as_array().unwrap().len(), 200);
    b.server.stop().await;
    a.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_task_is_lost_when_its_agent_leaves_while_it_claims() {
    let world = World::with(Setup::live()).await;
    let any = world.any();
    let home = intent(&any).await;
    for round in 0..20 {
        let name = format!("agent.{round}");
        let agent = any.acting_as(&name);
        agent.post("/agents", json!({ "agent_id": name })).await.is(201);
        let id = task(&any, &home, json!({})).await;
        let (path, record) = (format!("/tasks/{id}/claim"), format!("/agents/{name}"));
        let (claimed, gone) = tokio::join!(agent.send("POST", &path, None), agent.delete(&record));
        gone.ok();
        let after = now(&any, &id).await;
        // It was claimed and released again, or never claimed because the agent had left.
        assert!([200, 403].contains(&claimed.status), "{}", claimed.text);
        assert_eq!(
            (&after["status"], &after["assigned_agent"]),
            (&json!("ready"), &json!(null)),
            "{}",
            claimed.status
        );
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_ends_of_one_dependency_move_what_waits_once() {
    let world = World::with(Setup::live()).await;
    let any = world.any();
    let home = intent(&any).await;
    for _ in 0..10 {
        let (a, b) = (task(&any, &home, json!({})).await, task(&any, &home, json!({})).await);
        let waiting = task(&any, &home, json!({ "depends_on": [a, b] })).await;
        let done = json!({ "status": "completed" });
        let seen = any.seen(&json!(1));
        let (path_a, path_b) = (format!("/tasks/{a}"), format!("/tasks/{b}"));
        let (first, second) = tokio::join!(seen.patch(&path_a, done.clone()), seen.patch(&path_b, done));
        first.is(200);
        second.is(200);
        let types = super::told(&any, &home, &waiting).await;
        assert_eq!(types, ["task.created", "task.ready"]);
    }
    world.end().await;
}
