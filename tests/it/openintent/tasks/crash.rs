//! Crashes: the server and its PostgreSQL are killed while agents work through dependent tasks. Finally every task
//! is done once, and its log shows that.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{intent, task};
use entente_harness::process::{KEY, Launch, Place};
use entente_harness::{Client, Value, json};

/// Upper bound for the agents' work, including the crashes.
const PATIENCE: Duration = Duration::from_mins(2);
/// Number of task chains, and the length of each.
const CHAINS: usize = 20;
const LENGTH: usize = 6;

/// Sends a request; returns `None` when its outcome is unknown.
async fn tried(client: &Client, method: &str, path: &str) -> Option<Value> {
    let reply = client.try_send(method, path, (method == "POST").then(|| "{}".to_owned())).await?;
    match reply.status {
        200 => Some(reply.json()),
        // Another agent was faster, or the response to an earlier attempt was lost.
        409 | 503 => None,
        _ => panic!("{} answered {}", reply.asked, reply.text),
    }
}

/// Claims and completes tasks until all are completed; returns those whose completion was acknowledged.
async fn worker(client: Client, name: String, intent: String) -> Vec<String> {
    let began = Instant::now();
    let mut done = Vec::new();
    loop {
        assert!(began.elapsed() < PATIENCE, "the tasks are never done");
        let Some(all) = tried(&client, "GET", &format!("/intents/{intent}/tasks?limit=1000")).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let all = all.as_array().unwrap().clone();
        if all.iter().all(|task| task["status"] == "completed") {
            return done;
        }
        for task in all {
            let id = task["id"].as_str().unwrap();
            let own = task["assigned_agent"] == name.as_str();
            if task["status"] == "ready"
                && tried(&client, "POST", &format!("/tasks/{id}/claim")).await.is_none()
            {
                continue;
            }
            // A task that it already has was claimed by a request whose response was lost.
            let has = task["status"] == "ready" || own && task["status"] == "claimed";
            if has && tried(&client, "POST", &format!("/tasks/{id}/complete")).await.is_some() {
                done.push(id.to_owned());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_dies_every_task_is_done_once() {
    let place = Place::new("tasks");
    let launch = Launch::private(&place);
    let (mut server, _) = launch.start().await;
    let any = server.client(KEY).acting_as("agent.ada");
    let home = intent(&any).await;
    let mut ids = Vec::new();
    for _ in 0..CHAINS {
        let mut before = Vec::new();
        for _ in 0..LENGTH {
            let id = task(&any, &home, json!({ "depends_on": before })).await;
            before = vec![id.clone()];
            ids.push(id);
        }
    }
    let workers: Vec<_> = (0..6)
        .map(|n| {
            let name = format!("agent.{n}");
            tokio::spawn(worker(server.client(KEY).acting_as(&name), name, home.clone()))
        })
        .collect();
    for kill in 0..6 {
        tokio::time::sleep(Duration::from_millis(120 + 60 * kill)).await;
        if kill % 3 == 1 {
            // The server restarts it.
            assert!(place.kill_postgres());
        } else {
            server.kill();
            (server, _) = launch.start().await;
        }
    }
    let told: Vec<String> = join_all(workers).await.into_iter().flat_map(Result::unwrap).collect();
    let events = any.get(&format!("/intents/{home}/events?event_type=task.completed&limit=1000")).await.ok();
    let mut completed: Vec<&str> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["payload"]["task_id"].as_str().unwrap())
        .collect();
    completed.sort_unstable();
    ids.sort_unstable();
    assert_eq!(completed, ids, "each task is done once");
    assert!(told.iter().all(|id| completed.contains(&id.as_str())), "acknowledged and not done");
    let verified = any.get(&format!("/intents/{home}/events/verify")).await.ok();
    // Created, ready, claimed, started, completed; plus the intent's creation.
    assert_eq!(verified["event_count"], 5 * ids.len() + 1);
    assert_eq!((&verified["chain_valid"], &verified["breaks"]), (&json!(true), &json!([])));
}
