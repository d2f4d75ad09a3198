//! Messages and tasks (A2A §3.1, §3.4): a message is a job, a further one a signal, and what the worker says is the task.

use super::{ECHO, brief, call, done, echo, failed, further, get, message, refused, state, texts, visitor};
use entente_harness::jobs::status;
use entente_harness::{Setup, World, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_becomes_a_job_and_its_result_an_artifact() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let asking = {
        let client = client.clone();
        tokio::spawn(async move { done(&client, "SendMessage", message("m-1", "hello")).await })
    };
    let claimed = loop {
        if let Some(job) = hand.claim(1).await.pop() {
            break job;
        }
    };
    // The input is readable for a worker that knows nothing of A2A.
    let input = &claimed["input"];
    assert_eq!((&input["text"], &input["message"]["messageId"]), (&json!("hello"), &json!("m-1")));
    assert_eq!(claimed["principal"], "agent.client");
    hand.tell(&claimed, "result", json!({ "result": { "x": 1e2 }, "summary": "echoed" })).await.ok();
    let task = &asking.await.unwrap()["task"];
    assert_eq!((state(task), &task["id"]), ("COMPLETED", &claimed["job_id"]), "{task}");
    assert_eq!(task["contextId"], input["message"]["contextId"]);
    assert_eq!(task["artifacts"][0]["parts"][0]["data"], json!({ "x": 100.0 }));
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "echoed");
    assert_eq!((texts(&task["history"]), &task["history"][0]["taskId"]), (vec!["hello"], &task["id"]));
    assert_eq!(task["status"]["timestamp"].as_str().unwrap().len(), 24, "milliseconds: {task}");
    // Both bindings show the same, and a history has the asked length.
    let reply = client.get(&format!("{ECHO}/tasks/{}", task["id"].as_str().unwrap())).await;
    assert_eq!(reply.header("content-type"), "application/a2a+json");
    assert_eq!(&reply.is(200), &get(&client, task).await);
    let short = done(&client, "GetTask", json!({ "id": task["id"], "historyLength": 0 })).await;
    assert!(short.get("history").is_none(), "{short}");
    world.end().await;
}

#[tokio::test]
async fn a_repeated_message_is_the_same_task() {
    let (here, there) = World::two().await;
    let (client, hand) = (visitor(&here, "agent.client").await, echo(&here).await);
    let other_server = there.client("key-of-agent.client").with("a2a-version", "1.0");
    let first = done(&client, "SendMessage", brief("m-1", "hello")).await["task"].clone();
    assert_eq!(state(&first), "SUBMITTED");
    let again = done(&other_server, "SendMessage", brief("m-1", "hello")).await["task"].clone();
    assert_eq!((&again["id"], &again["contextId"]), (&first["id"], &first["contextId"]));
    let sent = client.post(&format!("{ECHO}/message:send"), brief("m-1", "hello")).await.is(200);
    assert_eq!(sent["task"]["id"], first["id"], "the other binding");
    // The same id for another message, and another key with the same message, are others.
    let second = done(&client, "SendMessage", brief("m-1", "something else")).await["task"].clone();
    assert_ne!(second["id"], first["id"]);
    let stranger = visitor(&here, "agent.stranger").await;
    let third = done(&stranger, "SendMessage", brief("m-1", "hello")).await["task"].clone();
    assert_ne!(third["id"], first["id"]);
    let jobs = hand.claim(10).await;
    assert_eq!(jobs.len(), 3);

    // A further message that is repeated reaches the worker once.
    let job = jobs.iter().find(|job| job["job_id"] == first["id"]).unwrap();
    for door in [&client, &other_server, &client] {
        done(door, "SendMessage", further(&first, "m-2", "more")).await;
    }
    let waited = hand.tell(job, "signals/wait", json!({})).await.ok();
    assert_eq!(waited["signals"].as_array().unwrap().len(), 1, "{waited}");
    assert_eq!(waited["signals"][0]["payload"]["text"], "more");
    // Even when the task is over.
    hand.tell(job, "result", json!({ "result": "done" })).await.ok();
    let late = done(&client, "SendMessage", further(&first, "m-2", "more")).await;
    assert_eq!((state(&late["task"]), texts(&late["task"]["history"])), ("COMPLETED", vec!["hello", "more"]));
    for job in jobs.iter().filter(|job| job["job_id"] != first["id"]) {
        hand.tell(job, "result", json!({})).await.ok();
    }
    there.server.stop().await;
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_asks_back_and_goes_on() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let task = done(&client, "SendMessage", brief("m-1", "book a flight")).await["task"].clone();
    let job = hand.one().await;
    assert_eq!(state(&get(&client, &task).await), "WORKING");
    let asks = json!([{ "kind": "status", "body": { "phase": "input_required", "message": "Where to?" } }]);
    hand.events(&job, asks).await.ok();
    let asked = get(&client, &task).await;
    assert_eq!(
        (state(&asked), asked["status"]["message"]["parts"][0]["text"].as_str()),
        ("INPUT_REQUIRED", Some("Where to?"))
    );
    assert_eq!(asked["status"]["message"]["role"], "ROLE_AGENT");
    // The question is answered as soon as the client has sent a message, and the call waits for what comes then.
    let answering = {
        let (client, mut params) = (client.clone(), further(&task, "m-2", "Oslo"));
        params["configuration"] = json!({});
        tokio::spawn(async move { done(&client, "SendMessage", params).await })
    };
    let signals = hand.tell(&job, "signals/wait", json!({ "wait_sec": 10 })).await.ok();
    let given = &signals["signals"][0];
    assert_eq!((&given["name"], &given["payload"]["text"]), (&json!("message"), &json!("Oslo")));
    assert_eq!(given["payload"]["message"]["contextId"], task["contextId"], "it is the task's");
    assert_eq!(state(&get(&client, &task).await), "WORKING");
    let signs =
        json!([{ "kind": "status", "body": { "phase": "auth-required", "parts": [{ "text": "Log in" }] } }]);
    hand.events(&job, signs).await.ok();
    let again = answering.await.unwrap()["task"].clone();
    assert_eq!(state(&again), "AUTH_REQUIRED", "{again}");
    assert_eq!(texts(&again["history"]), ["book a flight", "Where to?", "Oslo"]);
    let last = done(&client, "GetTask", json!({ "id": task["id"], "historyLength": 2 })).await;
    assert_eq!(texts(&last["history"]), ["Where to?", "Oslo"]);
    let parts =
        json!([{ "text": "Booked" }, { "url": "https://example.com/t.pdf", "mediaType": "application/pdf" }]);
    hand.tell(&job, "result", json!({ "result": { "parts": parts } })).await.ok();
    let over = get(&client, &task).await;
    assert_eq!(
        (state(&over), over["artifacts"][0]["parts"][1]["url"].as_str()),
        ("COMPLETED", Some("https://example.com/t.pdf"))
    );
    let told = failed(&client, "SendMessage", further(&task, "m-3", "thanks")).await;
    assert_eq!(told, (-32_004, "UNSUPPORTED_OPERATION".to_owned()));
    world.end().await;
}

#[tokio::test]
async fn contexts_are_kept_and_must_fit_their_tasks() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let mut params = brief("m-1", "one");
    params["message"]["contextId"] = json!("trip to Ōslo = 7");
    let task = done(&client, "SendMessage", params).await["task"].clone();
    assert_eq!(task["contextId"], "trip to Ōslo = 7");
    let mut wrong = further(&task, "m-2", "two");
    wrong["message"]["contextId"] = json!("another");
    assert_eq!(failed(&client, "SendMessage", wrong).await.0, -32_602);
    let alone = done(&client, "SendMessage", brief("m-3", "three")).await["task"].clone();
    assert!(alone["contextId"].as_str().is_some_and(|context| context.len() == 36), "{alone}");
    for job in hand.claim(5).await {
        hand.tell(&job, "result", json!({})).await.ok();
    }
    world.end().await;
}

#[tokio::test]
async fn failures_and_refusals_are_told_apart() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let cases = [
        (json!({ "code": "INTERNAL_ERROR", "message": "no luck" }), "FAILED"),
        (json!({ "code": "TIMEOUT", "message": "too late" }), "FAILED"),
        (json!({ "code": "CANCELLED", "message": "stopped" }), "CANCELED"),
        (
            json!({ "code": "PERMISSION_DENIED", "message": "not my work", "details": { "rejected": true } }),
            "REJECTED",
        ),
    ];
    for (n, (error, expected)) in cases.into_iter().enumerate() {
        let task = done(&client, "SendMessage", brief(&format!("m-{n}"), "try")).await["task"].clone();
        let job = hand.one().await;
        hand.tell(&job, "error", error.clone()).await.ok();
        let ended = get(&client, &task).await;
        assert_eq!(state(&ended), expected, "{ended}");
        assert_eq!(ended["status"]["message"]["parts"][0]["text"], error["message"]);
        assert_eq!(failed(&client, "CancelTask", json!({ "id": task["id"] })).await.0, -32_002);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_cancelled_by_whom_its_job_may_be() {
    let world = World::with(Setup::live()).await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let stranger = visitor(&world, "agent.stranger").await;
    let waiting = done(&client, "SendMessage", brief("m-1", "wait")).await["task"].clone();
    let id = json!({ "id": waiting["id"] });
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        let told = failed(&stranger, method, id.clone()).await;
        assert_eq!(told, (-32_001, "TASK_NOT_FOUND".to_owned()), "{method}");
    }
    assert_eq!(failed(&stranger, "SendMessage", further(&waiting, "m", "hi")).await.0, -32_001);
    let cancelled = done(&client, "CancelTask", id.clone()).await;
    assert_eq!(state(&cancelled), "CANCELED");
    assert_eq!(failed(&client, "CancelTask", id).await.0, -32_002);

    // Of a task at work the worker is told, and the call waits a moment for it.
    let working = done(&client, "SendMessage", brief("m-2", "work")).await["task"].clone();
    let job = hand.one().await;
    let path = format!("{ECHO}/tasks/{}:cancel", working["id"].as_str().unwrap());
    let (racing, stopping) = tokio::join!(
        async { futures_util::future::join_all((0..3).map(|_| client.post(&path, json!({})))).await },
        async {
            hand.tell(&job, "signals/wait", json!({ "wait_sec": 10 })).await.ok();
            hand.tell(&job, "error", json!({ "code": "CANCELLED", "message": "stopped" })).await
        }
    );
    stopping.ok();
    for reply in &racing {
        if reply.status == 200 {
            assert_eq!(state(&reply.json()), "CANCELED");
        } else {
            refused(reply, 400, "TASK_NOT_CANCELABLE");
        }
    }
    assert!(racing.iter().any(|reply| reply.status == 200));
    // An operator may too.
    let last = done(&client, "SendMessage", brief("m-3", "wait")).await["task"].clone();
    let admin = world.admin().await.with("a2a-version", "1.0");
    assert_eq!(state(&done(&admin, "CancelTask", json!({ "id": last["id"] })).await), "CANCELED");
    world.end().await;
}

#[tokio::test]
async fn what_holds_for_jobs_holds_for_tasks() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    // Members of the job in the request's metadata: authority, a budget, labels.
    let mut params = brief("m-1", "spend");
    params["metadata"] = json!({ "entente": {
        "lease_request": { "cost.budget": ["USD:1.00"], "tool.call": ["search"] }, "labels": { "team": "x" },
        "max_runtime_sec": 60,
    }, "other": 1 });
    let task = done(&client, "SendMessage", params.clone()).await["task"].clone();
    let job = hand.one().await;
    assert_eq!(job["budget"], json!({ "USD": 1 }));
    assert_eq!(job["input"]["metadata"]["other"], 1);
    let found = client.get("/jobs?label=team=x").await.ok();
    assert_eq!(found["jobs"][0]["job_id"], task["id"]);
    params["metadata"]["entente"]["no_such"] = json!(1);
    assert_eq!(failed(&client, "SendMessage", params).await.0, -32_602);
    // A job of another interface is a task, for whom may see it.
    let plain = client.post("/jobs", json!({ "agent": "echo", "input": "by REST" })).await.is(201);
    let shown = done(&client, "GetTask", json!({ "id": plain["job_id"] })).await;
    assert_eq!((state(&shown), texts(&shown["history"])), ("SUBMITTED", vec!["by REST"]));
    hand.client.put("/arcp/agents/other/versions/1", json!({})).await.ok();
    let foreign = client.post("/jobs", json!({ "agent": "other" })).await.is(201);
    assert_eq!(failed(&client, "GetTask", json!({ "id": foreign["job_id"] })).await.0, -32_001);
    // A stop stops messages too; what runs may end.
    let admin = world.admin().await;
    admin.post("/stops", json!({ "scope": "agent:agent.client", "reason": "enough" })).await.is(201);
    let told = call(&client, "SendMessage", brief("m-9", "more")).await.is(200);
    assert_eq!(told["error"]["data"][0]["reason"], "STOPPED", "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("enough"));
    let stopped = client.post(&format!("{ECHO}/message:send"), brief("m-9", "more")).await;
    assert_eq!(refused(&stopped, 403, "STOPPED")["status"], "PERMISSION_DENIED");
    hand.tell(&job, "result", json!({})).await.ok();
    world.end().await;
}

#[tokio::test]
async fn scopes_are_those_of_jobs() {
    let world = World::start().await;
    echo(&world).await;
    let admin = world.admin().await;
    let _principal = world.agent("agent.client").await;
    for (scopes, method, params) in [
        (json!(["jobs:write"]), "SendMessage", brief("m", "x")),
        (json!(["jobs:read"]), "SendMessage", brief("m", "x")),
        (json!(["jobs:write"]), "ListTasks", json!({})),
        (json!(["channels:read"]), "GetExtendedAgentCard", json!({})),
    ] {
        let made = admin.post("/principals/agent.client/keys", json!({ "scopes": scopes })).await.is(201);
        let client = world.client(made["key"].as_str().unwrap()).with("a2a-version", "1.0");
        assert_eq!(failed(&client, method, params).await, (-32_000, "SCOPE_MISSING".to_owned()), "{scopes}");
    }
    let jobs = world.client("key-of-agent.client").get("/jobs").await.ok();
    assert_eq!(jobs["jobs"], json!([]), "nothing was begun by a key that may not read it");
    world.end().await;
}

#[tokio::test]
async fn a_finished_tasks_status_is_the_jobs() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let task = done(&client, "SendMessage", brief("m-1", "x")).await["task"].clone();
    let job = hand.one().await;
    let artifacts = json!([
        { "artifactId": "a", "name": "first", "parts": [{ "text": "one" }] },
        { "artifactId": "b", "parts": [{ "data": null }] },
    ]);
    hand.events(&job, json!([{ "kind": "artifact_ref", "body": { "artifact_id": "r", "uri": "https://x.example/r", "media_type": "text/csv" } }])).await.ok();
    hand.tell(&job, "result", json!({ "result": { "artifacts": artifacts } })).await.ok();
    let over = get(&client, &task).await;
    let ids: Vec<&str> =
        over["artifacts"].as_array().unwrap().iter().map(|one| one["artifactId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["r", "a", "b"]);
    assert_eq!(over["artifacts"][0]["parts"][0]["mediaType"], "text/csv");
    assert_eq!(status(&client, task["id"].as_str().unwrap()).await, "success");
    world.end().await;
}

#[tokio::test]
async fn the_last_of_many_messages_count_and_no_word_displaces_an_artifact() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let task = done(&client, "SendMessage", brief("m-1", "go")).await["task"].clone();
    let job = hand.one().await;
    let made = json!({ "artifact_id": "r", "uri": "https://x.example/r", "media_type": "text/csv" });
    hand.events(&job, json!([{ "kind": "artifact_ref", "body": made }])).await.ok();
    let say = |n: u32| json!({ "kind": "status", "body": { "phase": "running", "message": n.to_string() } });
    for n in 0..3 {
        let some: Vec<_> = (n * 80..n * 80 + 80).map(say).collect();
        hand.events(&job, json!(some)).await.ok();
    }
    // More than are read of a task.
    for n in 0..90 {
        let text = format!("{n} {}", "x".repeat(30_000));
        done(&client, "SendMessage", further(&task, &format!("more-{n}"), &text)).await;
    }
    hand.events(&job, json!([{ "kind": "status", "body": { "phase": "input_required" } }])).await.ok();
    assert_eq!(state(&get(&client, &task).await), "INPUT_REQUIRED");
    done(&client, "SendMessage", further(&task, "last", "the last")).await;
    let shown = done(&client, "GetTask", json!({ "id": task["id"], "historyLength": 1 })).await;
    assert_eq!((state(&shown), texts(&shown["history"])), ("WORKING", vec!["the last"]));
    assert_eq!(shown["artifacts"][0]["artifactId"], "r", "{}", shown["artifacts"]);
    hand.tell(&job, "result", json!({})).await.ok();
    // The last message, sent again after the end, is the one that was delivered.
    let again = done(&client, "SendMessage", further(&task, "last", "the last")).await;
    assert_eq!(state(&again["task"]), "COMPLETED");
    world.end().await;
}
