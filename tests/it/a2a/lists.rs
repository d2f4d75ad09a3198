//! Lists of tasks (A2A §3.1.4).

use super::{ECHO, brief, done, echo, failed, refused, state, visitor};
use crate::harness::{Value, World, json};

fn ids(page: &Value) -> Vec<String> {
    page["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn tasks_are_listed_by_their_last_change_in_pages() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let mut made = Vec::new();
    for n in 0..5 {
        let mut params = brief(&format!("m-{n}"), "go");
        params["message"]["contextId"] = json!(if n < 3 { "first" } else { "second" });
        made.push(done(&client, "SendMessage", params).await["task"]["id"].as_str().unwrap().to_owned());
        world.clock.advance(1);
    }
    let stranger = visitor(&world, "agent.stranger").await;
    done(&stranger, "SendMessage", brief("m-0", "go")).await;
    // The eldest is finished last.
    let job = hand.claim(1).await.remove(0);
    assert_eq!(job["job_id"], made[0]);
    world.clock.advance(1);
    let since = "2026-11-21T08:00:06Z";
    hand.tell(&job, "result", json!({ "result": "done" })).await.ok();
    let all = done(&client, "ListTasks", json!({})).await;
    let order = [&made[0], &made[4], &made[3], &made[2], &made[1]].map(Clone::clone);
    assert_eq!(
        (ids(&all), &all["totalSize"], &all["nextPageToken"]),
        (order.to_vec(), &json!(5), &json!(""))
    );
    assert_eq!(all["pageSize"], 50);
    for task in all["tasks"].as_array().unwrap() {
        assert!(task.get("artifacts").is_none() && task.get("history").is_none(), "{task}");
    }
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let page =
            client.get(&format!("{ECHO}/tasks?pageSize=2&pageToken={token}&historyLength=1")).await.is(200);
        found.extend(ids(&page));
        assert_eq!(page["tasks"][0]["history"].as_array().unwrap().len(), 1);
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(found, order);
    let of_context = done(&client, "ListTasks", json!({ "contextId": "second" })).await;
    assert_eq!(ids(&of_context), [made[4].clone(), made[3].clone()]);
    let over = client
        .get(&format!(
            "{ECHO}/tasks?status=TASK_STATE_COMPLETED&includeArtifacts=true&statusTimestampAfter={since}"
        ))
        .await
        .is(200);
    assert_eq!((ids(&over), state(&over["tasks"][0])), (vec![made[0].clone()], "COMPLETED"));
    assert_eq!(over["tasks"][0]["artifacts"][0]["parts"][0]["text"], "done");
    for job in hand.claim(10).await {
        hand.tell(&job, "result", json!({})).await.ok();
    }
    world.end().await;
}

#[tokio::test]
async fn conditions_that_nothing_fits_find_nothing_and_others_are_refused() {
    let world = World::start().await;
    let (client, _hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let task = done(&client, "SendMessage", brief("m-1", "go")).await["task"].clone();
    for none in [
        json!({ "contextId": "third" }),
        json!({ "contextId": "x".repeat(500) }),
        json!({ "status": "TASK_STATE_REJECTED" }),
        json!({ "statusTimestampAfter": "2027-01-01T00:00:00Z" }),
    ] {
        let page = done(&client, "ListTasks", none).await;
        assert_eq!((&page["tasks"], &page["totalSize"]), (&json!([]), &json!(0)));
    }
    for wrong in [
        json!({ "pageSize": 101 }),
        json!({ "pageSize": -1 }),
        json!({ "pageToken": "x" }),
        json!({ "status": "working" }),
        json!({ "historyLength": -1 }),
        json!({ "statusTimestampAfter": "today" }),
        json!([]),
    ] {
        assert_eq!(failed(&client, "ListTasks", wrong.clone()).await.0, -32_602, "{wrong}");
    }
    refused(&client.get(&format!("{ECHO}/tasks?pageSize=many")).await, 400, "INVALID_PARAMS");
    done(&client, "CancelTask", json!({ "id": task["id"] })).await;
    world.end().await;
}

#[tokio::test]
async fn a_list_knows_who_waits_for_input() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    for n in 0..2 {
        done(&client, "SendMessage", brief(&format!("m-{n}"), "go")).await;
    }
    let jobs = hand.claim(2).await;
    let ask = json!([{ "kind": "status", "body": { "phase": "input_required" } }]);
    hand.events(&jobs[0], ask).await.ok();
    let waiting = json!({ "status": "TASK_STATE_INPUT_REQUIRED" });
    let found = done(&client, "ListTasks", waiting.clone()).await;
    assert_eq!(ids(&found), [jobs[0]["job_id"].as_str().unwrap()]);
    let mut answer = brief("m-9", "this");
    answer["message"]["taskId"] = jobs[0]["job_id"].clone();
    done(&client, "SendMessage", answer).await;
    assert_eq!(done(&client, "ListTasks", waiting).await["totalSize"], 0);
    assert_eq!(done(&client, "ListTasks", json!({ "status": "TASK_STATE_WORKING" })).await["totalSize"], 2);
    for job in jobs {
        hand.tell(&job, "result", json!({})).await.ok();
    }
    world.end().await;
}
