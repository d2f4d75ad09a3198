//! Push notifications of tasks (A2A §4.3): receivers over both bindings, and what they are sent.

use super::{ECHO, brief, done, echo, failed, further, get, refused, state, visitor};
mod places;
mod shares;

use entente_harness::jobs::Hand;
use entente_harness::{Act, Client, Got, Receiver, Setup, Value, World, json};

/// Returns the parameters of a message with a receiver, after which the call does not wait.
fn with_receiver(id: &str, receiver: &Receiver) -> Value {
    let mut params = brief(id, "hello");
    params["configuration"]["taskPushNotificationConfig"] = config(receiver);
    params
}

fn config(receiver: &Receiver) -> Value {
    json!({
        "url": receiver.url(), "token": "token-of-the-client",
        "authentication": { "scheme": "Bearer", "credentials": "the-receivers-secret" },
    })
}

async fn push(world: &World) {
    world.server.senders.pusher.step().await.unwrap();
}

/// Returns what the updates say: the state of a status, or the text of an artifact.
fn told(got: &[Got]) -> Vec<String> {
    let said = |got: &Got| {
        let body = got.body();
        let state = body["statusUpdate"]["status"]["state"].as_str();
        let text = body["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str();
        state.map(|state| state.trim_start_matches("TASK_STATE_")).or(text).expect("an update").to_owned()
    };
    got.iter().map(said).collect()
}

fn status(phase: &str, words: &str) -> Value {
    json!([{ "kind": "status", "body": { "phase": phase, "message": words } }])
}

/// Begins a task and returns it with its job.
async fn begun(client: &Client, hand: &Hand, params: Value) -> (Value, Value) {
    let task = done(client, "SendMessage", params).await["task"].clone();
    (task, hand.one().await)
}

#[tokio::test]
async fn a_receiver_is_sent_what_happens_in_its_order() {
    let world = World::start().await;
    let (client, hand, receiver) =
        (visitor(&world, "agent.client").await, echo(&world).await, Receiver::start().await);
    let (task, job) = begun(&client, &hand, with_receiver("m-1", &receiver)).await;
    push(&world).await;
    assert_eq!(receiver.count(), 0, "nothing has happened");
    hand.events(&job, status("input_required", "Where to?")).await.ok();
    push(&world).await;
    done(&client, "SendMessage", further(&task, "m-2", "Oslo")).await;
    hand.events(&job, status("working", "on it")).await.ok();
    hand.tell(&job, "result", json!({ "result": "Done: Oslo" })).await.ok();
    push(&world).await;
    let got = receiver.take();
    assert_eq!(told(&got), ["WORKING", "INPUT_REQUIRED", "WORKING", "Done: Oslo", "COMPLETED"]);
    for one in &got {
        assert_eq!(one.headers["content-type"], "application/a2a+json");
        assert_eq!(one.headers["x-a2a-notification-token"], "token-of-the-client");
        assert_eq!(one.headers["a2a-notification-token"], "token-of-the-client");
        assert_eq!(one.headers["authorization"], "Bearer the-receivers-secret");
        let body = one.body();
        let (_, update) = body.as_object().unwrap().iter().next().unwrap();
        assert_eq!((&update["taskId"], &update["contextId"]), (&task["id"], &task["contextId"]), "{body}");
        assert_eq!(body.as_object().unwrap().len(), 1, "one update at a time: {body}");
    }
    world.clock.advance(3_600);
    push(&world).await;
    assert_eq!(receiver.count(), 0, "it was sent everything");
    world.end().await;
}

#[tokio::test]
async fn receivers_are_kept_over_both_bindings() {
    let world = World::start().await;
    let (client, hand, receiver) =
        (visitor(&world, "agent.client").await, echo(&world).await, Receiver::start().await);
    let (task, job) = begun(&client, &hand, with_receiver("m-1", &receiver)).await;
    let id = task["id"].as_str().unwrap();
    let shown = json!({
        "id": id, "taskId": id, "url": receiver.url(), "authentication": { "scheme": "Bearer" },
    });
    let list = |task: &Value| json!({ "taskId": task["id"] });
    assert_eq!(
        done(&client, "ListTaskPushNotificationConfigs", list(&task)).await,
        json!({ "configs": [shown] }),
        "its secrets are not shown again"
    );
    // The repeated message of a client that got no response makes no second receiver.
    done(&client, "SendMessage", with_receiver("m-1", &receiver)).await;
    let one = json!({ "taskId": id, "id": id });
    assert_eq!(done(&client, "GetTaskPushNotificationConfig", one.clone()).await, shown);
    let path = format!("{ECHO}/tasks/{id}/pushNotificationConfigs");
    let second = json!({ "id": "second", "url": receiver.url() });
    let made = client.post(&path, second.clone()).await;
    assert_eq!(made.header("content-type"), "application/a2a+json");
    assert_eq!(made.is(200), json!({ "id": "second", "taskId": id, "url": receiver.url() }));
    let mut moved = second;
    moved["url"] = json!(format!("{}/moved", receiver.url()));
    client.post(&path, moved.clone()).await.is(200);
    assert_eq!(client.get(&format!("{path}/second")).await.is(200)["url"], moved["url"]);
    assert_eq!(client.get(&path).await.is(200)["configs"].as_array().unwrap().len(), 2);
    // Somebody else's are neither shown nor replaced.
    let admin = world.admin().await.with("a2a-version", "1.0");
    assert_eq!(
        admin.get(&path).await.is(200)["configs"].as_array().unwrap().len(),
        2,
        "an operator sees all"
    );
    let other = json!({ "taskId": id, "id": "second", "url": receiver.url() });
    assert_eq!(failed(&admin, "CreateTaskPushNotificationConfig", other).await.0, -32_000);
    let stranger = visitor(&world, "agent.stranger").await;
    refused(&stranger.get(&path).await, 404, "TASK_NOT_FOUND");
    refused(&stranger.delete(&format!("{path}/second")).await, 404, "TASK_NOT_FOUND");
    // Deleting is idempotent; what is deleted is sent nothing.
    for _ in 0..2 {
        assert_eq!(client.delete(&format!("{path}/second")).await.is(200), json!({}));
        assert_eq!(done(&client, "DeleteTaskPushNotificationConfig", one.clone()).await, json!({}));
    }
    refused(&client.get(&format!("{path}/second")).await, 404, "TASK_NOT_FOUND");
    hand.tell(&job, "result", json!({ "result": "x" })).await.ok();
    push(&world).await;
    assert_eq!(receiver.count(), 0);
    // A task that is over takes one, and there is nothing to send.
    client.post(&path, json!({ "url": receiver.url() })).await.is(200);
    push(&world).await;
    assert_eq!(receiver.count(), 0);
    world.end().await;
}

#[tokio::test]
async fn a_receiver_that_cannot_be_sent_to_is_refused_before_anything_is_done() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let long = "x".repeat(5_000);
    let cases = [
        json!({}),
        json!({ "url": "no url" }),
        json!({ "url": "http://10.0.0.1/inside" }),
        json!({ "url": "ftp://a.example/" }),
        json!({ "url": format!("https://a.example/{long}") }),
        json!({ "url": "http://a.example/", "authentication": { "scheme": "Bearer", "credentials": "in the clear" } }),
        json!({ "url": "http://a.example/", "token": "in the clear" }),
        json!({ "url": "https://a.example/", "token": "two\r\nlines" }),
        json!({ "url": "https://a.example/", "token": long }),
        json!({ "url": "https://a.example/", "authentication": { "scheme": "Bea rer", "credentials": "x" } }),
        json!({ "url": "https://a.example/", "authentication": { "scheme": "Bearer", "credentials": "x\n" } }),
        json!({ "url": "https://a.example/", "id": "a/b" }),
        json!({ "url": "https://a.example/", "id": "a b" }),
        json!({ "url": 7 }),
    ];
    for (n, case) in cases.into_iter().enumerate() {
        let mut params = brief(&format!("m-{n}"), "hello");
        params["configuration"]["taskPushNotificationConfig"] = case.clone();
        assert_eq!(failed(&client, "SendMessage", params).await.0, -32_602, "{case}");
    }
    assert!(hand.claim(10).await.is_empty(), "none of them is a job");
    let unknown = json!({ "taskId": "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "url": "https://a.example/" });
    assert_eq!(failed(&client, "CreateTaskPushNotificationConfig", unknown).await.0, -32_001);
    // As many as the limit, and no more.
    let (task, job) = begun(&client, &hand, brief("m", "hello")).await;
    let path = format!("{ECHO}/tasks/{}/pushNotificationConfigs", task["id"].as_str().unwrap());
    let one = |n: usize| json!({ "id": format!("r-{n}"), "url": "https://a.example/" });
    for n in 0..10 {
        client.post(&path, one(n)).await.is(200);
    }
    client.post(&path, one(3)).await.is(200);
    client.post(&path, one(10)).await.is(400);
    // A key that only reads makes none.
    let admin = world.admin().await;
    let weak = json!({ "scopes": ["jobs:read"], "act_as": ["agent.client"] });
    let weak = admin.post("/principals/agent.client/keys", weak).await.is(201);
    let weak = world.client(weak["key"].as_str().unwrap()).with("a2a-version", "1.0");
    weak.post(&path, one(3)).await.is(403);
    weak.delete(&format!("{path}/r-3")).await.is(403);
    for n in 0..10 {
        client.delete(&format!("{path}/r-{n}")).await.is(200);
    }
    hand.tell(&job, "result", json!({})).await.ok();
    world.end().await;
}

#[tokio::test]
async fn an_update_that_fails_comes_again_before_the_later_ones() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let (away, other) = (Receiver::start().await, Receiver::start().await);
    away.does([Act::Say(503, ""), Act::Close, Act::Say(200, "")]);
    let (task, job) = begun(&client, &hand, with_receiver("m-1", &away)).await;
    let second = json!({ "taskId": task["id"], "id": "other", "url": other.url() });
    done(&client, "CreateTaskPushNotificationConfig", second).await;
    hand.events(&job, status("working", "one")).await.ok();
    hand.tell(&job, "result", json!({ "result": "two" })).await.ok();
    push(&world).await;
    // It was added while the task was in progress.
    assert_eq!(
        told(&other.take()),
        ["WORKING", "two", "COMPLETED"],
        "nobody waits for somebody else's receiver"
    );
    assert_eq!(told(&away.take()), ["WORKING"]);
    push(&world).await;
    assert_eq!(away.count(), 0, "it is paused");
    world.clock.advance(2);
    push(&world).await;
    assert_eq!(told(&away.take()), ["WORKING"], "and fails again");
    world.clock.advance(300);
    push(&world).await;
    assert_eq!(told(&away.take()), ["WORKING", "WORKING", "two", "COMPLETED"]);
    world.end().await;
}

#[tokio::test]
async fn a_receiver_ends_when_it_says_so_or_its_key_ends() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let (gone, left) = (Receiver::start().await, Receiver::start().await);
    gone.does([Act::Say(410, "")]);
    let (task, job) = begun(&client, &hand, with_receiver("m-1", &gone)).await;
    hand.events(&job, status("working", "one")).await.ok();
    push(&world).await;
    let list = json!({ "taskId": task["id"] });
    assert_eq!(
        done(&client, "ListTaskPushNotificationConfigs", list.clone()).await,
        json!({ "configs": [] })
    );
    // The powers of a key that was revoked send nothing.
    let kept = json!({ "taskId": task["id"], "url": left.url() });
    done(&client, "CreateTaskPushNotificationConfig", kept).await;
    let admin = world.admin().await;
    let keys = admin.get("/principals/agent.client/keys").await.ok();
    for key in keys.as_array().unwrap() {
        admin.delete(&format!("/keys/{}", key["id"].as_str().unwrap())).await.ok();
    }
    hand.tell(&job, "result", json!({ "result": "secret" })).await.ok();
    push(&world).await;
    assert_eq!(left.count(), 0);
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM task_pushes").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(rows, 0);
    world.end().await;
}

#[tokio::test]
async fn a_receiver_goes_with_its_task() {
    let settings = vec![("ENTENTE_JOB_RETENTION_DAYS", "1"), ("ENTENTE_IDEMPOTENCY_HOURS", "25")];
    let world = World::with(Setup { settings, live: false }).await;
    let (client, hand, receiver) =
        (visitor(&world, "agent.client").await, echo(&world).await, Receiver::start().await);
    let (_, job) = begun(&client, &hand, with_receiver("m-1", &receiver)).await;
    hand.tell(&job, "result", json!({})).await.ok();
    push(&world).await;
    // The last event's number stays, so another job follows.
    done(&client, "SendMessage", brief("m-2", "later")).await;
    let job = hand.one().await;
    hand.tell(&job, "result", json!({})).await.ok();
    world.pass(26 * 3_600).await;
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM task_pushes").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(rows, 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_update_is_sent_once_whichever_server_sends_it() {
    let (here, there) = World::two().await;
    let (client, hand) = (visitor(&here, "agent.client").await, echo(&there).await);
    let receivers = [Receiver::start().await, Receiver::start().await, Receiver::start().await];
    let (task, job) = begun(&client, &hand, brief("m-1", "hello")).await;
    for (n, receiver) in receivers.iter().enumerate() {
        let config = json!({ "taskId": task["id"], "id": format!("r-{n}"), "url": receiver.url() });
        done(&client, "CreateTaskPushNotificationConfig", config).await;
    }
    for n in 0..20 {
        hand.events(&job, status("working", &format!("step {n}"))).await.ok();
    }
    hand.tell(&job, "result", json!({ "result": "done" })).await.ok();
    assert_eq!(state(&get(&client, &task).await), "COMPLETED");
    for receiver in &receivers {
        let got = receiver.until(22).await;
        let bodies = got.iter().map(Got::body);
        let words = |body: Value| {
            Some(body["statusUpdate"]["status"]["message"]["parts"][0]["text"].as_str()?.to_owned())
        };
        let steps: Vec<String> = bodies.filter_map(words).collect();
        assert_eq!(
            steps,
            (0..20).map(|n| format!("step {n}")).collect::<Vec<_>>(),
            "in order, and none twice"
        );
        assert_eq!(told(&got)[20..], ["done", "COMPLETED"]);
    }
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    assert_eq!(receivers.map(|receiver| receiver.count()), [22; 3], "and nothing after the end");
    there.server.stop().await;
    here.end().await;
}

#[tokio::test]
async fn clients_of_0_3_are_told_that_there_are_none() {
    let world = World::start().await;
    let (client, hand) = (world.agent("agent.older").await, echo(&world).await);
    let mut params = json!({ "message": {
        "messageId": "m-1", "role": "user", "kind": "message", "parts": [{ "kind": "text", "text": "x" }],
    }, "configuration": { "blocking": false } });
    params["configuration"]["pushNotificationConfig"] = json!({ "url": "https://a.example/" });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params });
    assert_eq!(client.post(ECHO, body).await.is(200)["error"]["code"], -32_003);
    assert!(hand.claim(10).await.is_empty());
    world.end().await;
}
