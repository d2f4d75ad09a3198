//! Streams of tasks (A2A §3.1.2, §3.1.6, §3.5.2).

use std::time::Duration;

use tokio::time::timeout;

use super::{ECHO, brief, done, echo, failed, further, message, refused, state, visitor};
use entente_harness::{Client, Setup, Value, World, http, json};

/// A stream of frames without names.
struct Frames {
    response: reqwest::Response,
    buffer: String,
    last_id: Option<String>,
}

impl Frames {
    async fn open(client: &Client, path: &str, body: Option<Value>, last: Option<&str>) -> Self {
        let url = format!("{}/{}", client.base.trim_end_matches("/api/v1"), path.trim_start_matches('/'));
        let mut request = http().post(url);
        for (name, value) in client.headers() {
            request = request.header(name, value);
        }
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        Self { response, buffer: String::new(), last_id: None }
    }

    /// Returns the next object; `None` when the stream has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some(end) = self.buffer.find("\n\n") {
                let frame: String = self.buffer.drain(..end + 2).collect();
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
                if let Some(id) = field("id: ") {
                    self.last_id = Some(id.to_owned());
                }
                if let Some(data) = field("data: ") {
                    return Some(serde_json::from_str(data).unwrap());
                }
            }
            let chunk = timeout(Duration::from_secs(10), self.response.chunk()).await.expect("nothing came");
            self.buffer.push_str(std::str::from_utf8(&chunk.ok()??).unwrap());
        }
    }

    async fn rest(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(one) = self.next().await {
            all.push(one);
        }
        all
    }
}

/// Returns what an object is, in a word.
fn word(object: &Value) -> String {
    let state =
        |status: &Value| status["state"].as_str().unwrap().trim_start_matches("TASK_STATE_").to_owned();
    if let Some(task) = object.get("task") {
        return format!("task {}", state(&task["status"]));
    }
    if let Some(update) = object.get("statusUpdate") {
        return state(&update["status"]);
    }
    let update = &object["artifactUpdate"];
    let part = &update["artifact"]["parts"][0];
    let flag = |name: &str, short: &'static str| if update[name] == true { short } else { "" };
    let text = part["text"].as_str().unwrap_or_else(|| part["raw"].as_str().unwrap_or("data"));
    format!("{text}{}{}", flag("append", "+"), flag("lastChunk", "."))
}

fn words(objects: &[Value]) -> Vec<String> {
    objects.iter().map(word).collect()
}

fn say(phase: &str, text: &str) -> Value {
    json!({ "kind": "status", "body": { "phase": phase, "message": text } })
}

fn chunk(n: u32, data: &str, more: bool) -> Value {
    json!({ "kind": "result_chunk", "body": {
        "result_id": "res_1", "chunk_seq": n, "data": data, "encoding": "utf8", "more": more,
    } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_the_task_and_each_step_to_its_end() {
    let world = World::with(Setup::live()).await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": message("m-1", "go") });
    let mut stream = Frames::open(&client, ECHO, Some(body), None).await;
    let first = stream.next().await.unwrap();
    assert_eq!(
        (&first["jsonrpc"], &first["id"], word(&first["result"])),
        (&json!("2.0"), &json!(7), "task SUBMITTED".to_owned())
    );
    let task = first["result"]["task"].clone();
    let job = hand.one().await;
    let log = json!({ "kind": "log", "body": { "level": "info", "message": "not for clients" } });
    hand.events(&job, json!([log, say("running", "half\nway"), chunk(0, "Hel", true)])).await.ok();
    // A second stream begins with what there is, and both have the same from then on.
    let id = task["id"].as_str().unwrap();
    let mut other = Frames::open(&client, &format!("{ECHO}/tasks/{id}:subscribe"), None, None).await;
    let begun = other.next().await.unwrap();
    assert_eq!(begun["task"]["artifacts"][0]["parts"][0]["text"], "Hel", "{begun}");
    hand.events(&job, json!([chunk(1, "lo", false)])).await.ok();
    hand.tell(&job, "result", json!({ "result_id": "res_1", "summary": "done" })).await.ok();
    let rest: Vec<Value> = stream.rest().await.into_iter().map(|one| one["result"].clone()).collect();
    assert_eq!(words(&rest), ["WORKING", "WORKING", "Hel", "lo+.", "COMPLETED"]);
    assert_eq!(rest[1]["statusUpdate"]["status"]["message"]["parts"][0]["text"], "half\nway");
    for one in &rest {
        let update = one.get("statusUpdate").unwrap_or(&one["artifactUpdate"]);
        assert_eq!((&update["taskId"], &update["contextId"]), (&task["id"], &task["contextId"]));
    }
    assert_eq!(words(&other.rest().await), ["lo+.", "COMPLETED"]);
    let over = done(&client, "GetTask", json!({ "id": id })).await;
    assert_eq!(
        (state(&over), over["artifacts"][0]["parts"][0]["text"].as_str()),
        ("COMPLETED", Some("Hello"))
    );
    // There is nothing to follow any more.
    assert_eq!(
        failed(&client, "SubscribeToTask", json!({ "id": id })).await,
        (-32_004, "UNSUPPORTED_OPERATION".to_owned())
    );
    refused(&client.get(&format!("{ECHO}/tasks/{id}:subscribe")).await, 400, "UNSUPPORTED_OPERATION");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_cut_goes_on_at_another_server() {
    let one = World::with(Setup::live()).await;
    let other = World::on(Setup::live(), one.database.clone()).await;
    let (client, hand) = (visitor(&one, "agent.client").await, echo(&one).await);
    let elsewhere = other.client("key-of-agent.client").with("a2a-version", "1.0");
    let mut stream =
        Frames::open(&client, &format!("{ECHO}/message:stream"), Some(message("m-1", "go")), None).await;
    let task = stream.next().await.unwrap()["task"].clone();
    let job = hand.one().await;
    hand.events(&job, json!([say("a", "1"), say("b", "2"), say("c", "3")])).await.ok();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(stream.next().await.unwrap());
    }
    assert_eq!(words(&seen), ["WORKING", "WORKING", "WORKING"], "begun, and two steps");
    let last = stream.last_id.clone().unwrap();
    drop(stream);
    hand.events(&job, json!([say("d", "4")])).await.ok();
    let path = format!("{ECHO}/tasks/{}:subscribe", task["id"].as_str().unwrap());
    let mut resumed = Frames::open(&elsewhere, &path, None, Some(&last)).await;
    assert_eq!(word(&resumed.next().await.unwrap()), "task WORKING");
    let text = |update: &Value| {
        update["statusUpdate"]["status"]["message"]["parts"][0]["text"].as_str().map(str::to_owned)
    };
    let mut told = Vec::new();
    while told.len() < 2 {
        told.push(text(&resumed.next().await.unwrap()).unwrap());
    }
    assert_eq!(told, ["3", "4"], "nothing is lost or repeated");
    hand.tell(&job, "result", json!({ "result": "end" })).await.ok();
    assert_eq!(words(&resumed.rest().await), ["end.", "COMPLETED"]);
    // Cut off before the end, a client gets it although the task is over.
    let mut late = Frames::open(&client, &path, None, Some(&last)).await;
    assert_eq!(words(&late.rest().await), ["task COMPLETED", "WORKING", "WORKING", "end.", "COMPLETED"]);
    refused(&client.with("last-event-id", "x").post(&path, json!({})).await, 400, "INVALID_PARAMS");
    other.server.stop().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_a_message_ends_when_the_agent_asks_back() {
    let world = World::with(Setup::live()).await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let path = format!("{ECHO}/message:stream");
    let mut stream = Frames::open(&client, &path, Some(message("m-1", "go")), None).await;
    let task = stream.next().await.unwrap()["task"].clone();
    let job = hand.one().await;
    hand.events(&job, json!([say("input_required", "Which?")])).await.ok();
    assert_eq!(words(&stream.rest().await), ["WORKING", "INPUT_REQUIRED"]);
    // The stream of the answer begins with the answered question, and goes on to the next.
    let mut params = message("m-2", "this");
    params["message"]["taskId"] = task["id"].clone();
    let mut answer = Frames::open(&client, &path, Some(params), None).await;
    assert_eq!(word(&answer.next().await.unwrap()), "task WORKING");
    // A stream of the task stays open while it waits for its client.
    let subscribe = format!("{ECHO}/tasks/{}:subscribe", task["id"].as_str().unwrap());
    let mut follower = Frames::open(&client, &subscribe, None, None).await;
    assert_eq!(word(&follower.next().await.unwrap()), "task WORKING");
    hand.events(&job, json!([say("input_required", "Sure?")])).await.ok();
    assert_eq!(words(&answer.rest().await), ["INPUT_REQUIRED"]);
    hand.tell(&job, "result", json!({ "result": { "n": 1 } })).await.ok();
    assert_eq!(words(&follower.rest().await), ["INPUT_REQUIRED", "data.", "COMPLETED"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_a_task_that_nobody_began() {
    let world = World::with(Setup::live()).await;
    let (client, _hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let task = done(&client, "SendMessage", brief("m-1", "go")).await["task"].clone();
    let path = format!("{ECHO}/tasks/{}:subscribe", task["id"].as_str().unwrap());
    let mut stream = Frames::open(&client, &path, None, None).await;
    assert_eq!(word(&stream.next().await.unwrap()), "task SUBMITTED");
    done(&client, "CancelTask", json!({ "id": task["id"] })).await;
    assert_eq!(words(&stream.rest().await), ["CANCELED"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_again_in_no_words_says_so() {
    let world = World::with(Setup::live()).await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let task = done(&client, "SendMessage", brief("m-1", "go")).await["task"].clone();
    let job = hand.one().await;
    let path = format!("{ECHO}/tasks/{}:subscribe", task["id"].as_str().unwrap());
    let mut stream = Frames::open(&client, &path, None, None).await;
    assert_eq!(word(&stream.next().await.unwrap()), "task WORKING");
    for round in 0..2 {
        hand.events(&job, json!([{ "kind": "status", "body": { "phase": "input_required" } }])).await.ok();
        assert_eq!(word(&stream.next().await.unwrap()), "INPUT_REQUIRED", "round {round}");
        done(&client, "SendMessage", further(&task, &format!("m-{}", round + 2), "this")).await;
    }
    hand.tell(&job, "result", json!({})).await.ok();
    assert_eq!(words(&stream.rest().await), ["COMPLETED"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_place_for_a_stream_has_begun_nothing() {
    let settings = vec![("ENTENTE_MAX_STREAMS_PER_KEY", "1")];
    let world = World::with(Setup { settings, live: true }).await;
    let (client, _hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let path = format!("{ECHO}/message:stream");
    let mut stream = Frames::open(&client, &path, Some(message("m-1", "go")), None).await;
    assert_eq!(word(&stream.next().await.unwrap()), "task SUBMITTED");
    refused(&client.post(&path, message("m-2", "again")).await, 429, "TOO_MANY_STREAMS");
    assert_eq!(done(&client, "ListTasks", json!({})).await["totalSize"], 1);
    world.end().await;
}
