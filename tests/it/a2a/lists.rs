//! Lists of tasks (A2A §3.1.4).

use super::{ECHO, brief, done, echo, failed, further, get, refused, state, texts, visitor};
use entente_harness::{Setup, Value, World, json};

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

#[tokio::test]
async fn a_state_is_as_new_as_the_last_word_of_either_side() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let task = done(&client, "SendMessage", brief("m-1", "go")).await["task"].clone();
    let job = hand.one().await;
    let say = |phase: &str| json!([{ "kind": "status", "body": { "phase": phase, "message": phase } }]);
    let mut times = Vec::new();
    for step in 0..3 {
        world.clock.advance(15);
        match step {
            0 => drop(hand.events(&job, say("input_required")).await.ok()),
            1 => drop(done(&client, "SendMessage", further(&task, "m-2", "this")).await),
            _ => drop(hand.events(&job, say("running")).await.ok()),
        }
        let shown = get(&client, &task).await;
        times.push((state(&shown).to_owned(), shown["status"]["timestamp"].as_str().unwrap().to_owned()));
        let since = json!({ "statusTimestampAfter": format!("2026-11-21T08:00:{}Z", 15 * step + 10) });
        assert_eq!(done(&client, "ListTasks", since).await["totalSize"], 1, "{times:?}");
    }
    let expected = [("INPUT_REQUIRED", 15), ("WORKING", 30), ("WORKING", 45)]
        .map(|(state, second)| (state.to_owned(), format!("2026-11-21T08:00:{second}.000Z")));
    assert_eq!(times, expected);
    hand.tell(&job, "result", json!({})).await.ok();
    world.end().await;
}

#[tokio::test]
async fn a_page_of_large_tasks_ends_early_and_the_next_one_goes_on() {
    let world = World::start().await;
    let (client, _hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let mut made = Vec::new();
    for n in 0..16 {
        let large = brief(&format!("m-{n}"), &"x".repeat(350_000));
        let task = done(&client, "SendMessage", large).await["task"].clone();
        made.push(task["id"].as_str().unwrap().to_owned());
        world.clock.advance(1);
    }
    made.reverse();
    let (mut found, mut pages, mut token) = (Vec::new(), 0, String::new());
    while pages == 0 || !token.is_empty() {
        let ask = json!({ "pageSize": 100, "historyLength": 100, "pageToken": token });
        let page = done(&client, "ListTasks", ask).await;
        assert!(page.to_string().len() < 5_000_000 && page["totalSize"] == 16, "{pages}");
        found.extend(ids(&page));
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        pages += 1;
    }
    assert_eq!((found, pages), (made, 2));
    world.end().await;
}

#[tokio::test]
async fn a_list_has_the_tasks_that_may_be_read_also_where_all_are_listed() {
    let settings = vec![("ENTENTE_ARCP_OPEN_POLICY", "list")];
    let world = World::with(Setup { settings, live: false }).await;
    let (client, stranger) = (visitor(&world, "agent.client").await, visitor(&world, "agent.stranger").await);
    let _hand = echo(&world).await;
    let own = done(&client, "SendMessage", brief("m-1", "mine")).await["task"].clone();
    done(&stranger, "SendMessage", brief("m-2", "theirs")).await;
    let all = done(&client, "ListTasks", json!({ "historyLength": 1 })).await;
    assert_eq!((ids(&all), &all["totalSize"]), (vec![own["id"].as_str().unwrap().to_owned()], &json!(1)));
    assert_eq!(texts(&all["tasks"][0]["history"]), ["mine"]);
    world.end().await;
}
