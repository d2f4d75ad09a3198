//! Requests that are none, too large, or not for this caller.

use super::{ECHO, brief, call, done, echo, failed, refused, visitor};
use entente_harness::{Value, World, json};

#[tokio::test]
async fn what_is_no_request_is_told_so() {
    let world = World::start().await;
    let (client, _hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    for (body, code) in [
        ("{", -32_700),
        ("", -32_700),
        ("[]", -32_600),
        ("7", -32_600),
        ("{}", -32_600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"GetTask"}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"GetTask"}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"Nothing"}"#, -32_601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[1]}"#, -32_602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask"}"#, -32_602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{}}}"#, -32_602),
    ] {
        let answer = client.send("POST", ECHO, Some(body.to_owned())).await.is(200);
        assert_eq!((&answer["error"]["code"], &answer["jsonrpc"]), (&json!(code), &json!("2.0")), "{body}");
        assert!(answer.get("id").is_some());
    }
    for body in ["{", "[]", r#"{"message":{"parts":[]}}"#] {
        let reply = client.send("POST", &format!("{ECHO}/message:send"), Some(body.to_owned())).await;
        let reason = reply.json()["error"]["details"][0]["reason"].as_str().unwrap().to_owned();
        refused(&reply, 400, &reason);
    }
    for (method, path) in [
        ("GET", ECHO.to_owned()),
        ("POST", format!("{ECHO}/message:nothing")),
        ("POST", format!("{ECHO}/tasks/job_1:nothing")),
        ("PUT", format!("{ECHO}/tasks")),
        ("GET", format!("{ECHO}/v1/tasks")),
    ] {
        refused(&client.send(method, &path, None).await, 404, "METHOD_NOT_FOUND");
    }
    world.end().await;
}

#[tokio::test]
async fn a_message_has_its_form() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut params = brief("m-1", "hello");
        change(&mut params);
        params
    };
    let cases: Vec<(Value, i64)> = vec![
        (with(&|p| p["message"]["parts"] = json!([])), -32_602),
        (with(&|p| p["message"]["parts"] = json!([{}])), -32_602),
        (with(&|p| p["message"]["parts"] = json!([["hello"]])), -32_602),
        (with(&|p| p["message"] = json!(["m", null, null, "ROLE_USER", [{ "text": "hello" }]])), -32_602),
        (with(&|p| p["message"]["parts"] = json!([{ "text": "a", "data": 1 }])), -32_602),
        (with(&|p| p["message"]["parts"] = json!([{ "raw": "§" }])), -32_602),
        (with(&|p| p["message"]["parts"] = json!(vec![json!({ "text": "a" }); 201])), -32_602),
        (with(&|p| p["message"]["parts"][0]["mediaType"] = json!("nonsense")), -32_005),
        (with(&|p| p["message"]["parts"][0]["metadata"] = json!("x")), -32_602),
        (with(&|p| p["message"]["role"] = json!("ROLE_AGENT")), -32_602),
        (with(&|p| p["message"]["role"] = json!("user")), -32_602),
        (with(&|p| p["message"]["messageId"] = json!("")), -32_602),
        (with(&|p| p["message"]["messageId"] = json!("x".repeat(201))), -32_602),
        (with(&|p| p["message"]["contextId"] = json!("a\nb")), -32_602),
        (with(&|p| p["message"]["contextId"] = json!("x".repeat(201))), -32_602),
        (with(&|p| p["message"]["taskId"] = json!("no-such-task")), -32_001),
        (with(&|p| p["message"]["taskId"] = json!("job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F")), -32_001),
        (with(&|p| p["metadata"] = json!(7)), -32_602),
        (with(&|p| p["configuration"]["historyLength"] = json!(-1)), -32_602),
    ];
    for (params, code) in cases {
        let shown: String = params.to_string().chars().take(200).collect();
        assert_eq!(failed(&client, "SendMessage", params).await.0, code, "{shown}");
    }
    assert!(hand.claim(10).await.is_empty(), "nothing of it is a job");
    // Names with underscores, null for what is unset, and members that later versions have.
    let said = json!({ "message": {
        "message_id": "m-2", "context_id": null, "role": "ROLE_USER", "parts": [{ "text": "x", "media_type": "text/plain" }],
        "later": { "than": "1.0" },
    }, "configuration": { "return_immediately": true, "history_length": "1" } });
    done(&client, "SendMessage", said).await;
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({})).await.ok();
    world.end().await;
}

#[tokio::test]
async fn large_and_deep_messages_are_refused_and_numbers_kept() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let large = failed(&client, "SendMessage", brief("m-1", &"x".repeat(800 * 1024))).await;
    assert_eq!(large, (-32_000, "TOO_LARGE".to_owned()));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"data":{deep}}}]}}}}}}"#
    );
    assert_eq!(client.send("POST", ECHO, Some(body)).await.json()["error"]["code"], -32_602);
    let nul = failed(&client, "SendMessage", brief("m-1", "a\u{0}b")).await;
    assert_eq!(nul.0, -32_602);
    // A number that no double holds stays as it was written.
    let body = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"n":12345678901234567890123}}]},"configuration":{"returnImmediately":true}}"#;
    let sent = client.send("POST", &format!("{ECHO}/message:send"), Some(body.to_owned())).await;
    assert!(sent.text.contains("12345678901234567890123"), "{}", sent.text);
    let job = hand.one().await;
    hand.tell(&job, "result", json!({})).await.ok();
    // A signal is smaller than an input.
    let task = done(&client, "SendMessage", brief("m-2", "x")).await["task"].clone();
    let mut more = brief("m-3", &"x".repeat(70 * 1024));
    more["message"]["taskId"] = task["id"].clone();
    assert_eq!(failed(&client, "SendMessage", more).await, (-32_000, "TOO_LARGE".to_owned()));
    done(&client, "CancelTask", json!({ "id": task["id"] })).await;
    world.end().await;
}

#[tokio::test]
async fn nobody_without_a_key_gets_in() {
    let world = World::start().await;
    echo(&world).await;
    for client in [world.anon(), world.client("wrong")] {
        let client = client.with("a2a-version", "1.0");
        let reply = call(&client, "GetTask", json!({ "id": "job_1" })).await;
        assert_eq!(reply.is(401)["error"]["data"][0]["reason"], "UNAUTHENTICATED");
        assert!(reply.header("www-authenticate").starts_with("Bearer"));
        for (method, path) in [
            ("POST", "message:send"),
            ("POST", "message:stream"),
            ("GET", "tasks"),
            ("GET", "tasks/job_1"),
            ("GET", "tasks/job_1:subscribe"),
            ("POST", "tasks/job_1:cancel"),
            ("POST", "tasks/job_1/pushNotificationConfigs"),
            ("GET", "tasks/job_1/pushNotificationConfigs"),
            ("GET", "tasks/job_1/pushNotificationConfigs/a"),
            ("DELETE", "tasks/job_1/pushNotificationConfigs/a"),
            ("GET", "extendedAgentCard"),
            ("GET", "nothing"),
        ] {
            let body = (method == "POST").then(|| "{}".to_owned());
            refused(&client.send(method, &format!("{ECHO}/{path}"), body).await, 401, "UNAUTHENTICATED");
        }
    }
    world.end().await;
}
