//! A2A 1.0 (Agent2Agent): agent cards, and tasks over JSON-RPC and HTTP+JSON.

mod cards;
mod hostile;
mod lists;
mod messages;
mod older;
mod pushes;
mod streams;

use entente_harness::jobs::Hand;
use entente_harness::{Client, Reply, Value, World, json};

/// URL of the agent that the tests talk to.
const ECHO: &str = "//a2a/echo";

/// Returns a client that speaks A2A 1.0.
async fn visitor(world: &World, id: &str) -> Client {
    world.agent(id).await.with("a2a-version", "1.0")
}

/// Registers the agent with a worker.
async fn echo(world: &World) -> Hand {
    Hand::of(&world.any(), "echo@1.0.0").await
}

/// Returns the parameters of a message.
fn message(id: &str, text: &str) -> Value {
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] } })
}

/// Returns the parameters of a message after which the call does not wait.
fn brief(id: &str, text: &str) -> Value {
    let mut params = message(id, text);
    params["configuration"] = json!({ "returnImmediately": true });
    params
}

/// Returns the parameters of a message to a task, after which the call does not wait.
fn further(task: &Value, id: &str, text: &str) -> Value {
    let mut params = brief(id, text);
    params["message"]["taskId"] = task["id"].clone();
    params
}

/// Calls a method.
async fn call(client: &Client, method: &str, params: Value) -> Reply {
    let body = json!({ "jsonrpc": "2.0", "id": "call-1", "method": method, "params": params });
    client.post(ECHO, body).await
}

/// Calls a method and returns its result.
async fn done(client: &Client, method: &str, params: Value) -> Value {
    let answer = call(client, method, params).await.is(200);
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("call-1")), "{answer}");
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

/// Calls a method that must fail and returns the error's code and reason.
async fn failed(client: &Client, method: &str, params: Value) -> (i64, String) {
    let answer = call(client, method, params).await.json();
    let error = &answer["error"];
    assert!(error["message"].as_str().is_some_and(|told| told.len() > 10), "{method}: {answer}");
    let info = &error["data"][0];
    assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo", "{answer}");
    (error["code"].as_i64().unwrap(), info["reason"].as_str().unwrap().to_owned())
}

/// Asserts an error of HTTP+JSON (A2A §11.6) and returns it.
#[track_caller]
fn refused(reply: &Reply, status: u16, reason: &str) -> Value {
    let body = reply.is(status);
    let error = &body["error"];
    assert_eq!(error["code"], status, "{body}");
    assert!(error["status"].is_string() && error["message"].is_string(), "{body}");
    assert_eq!(error["details"][0]["reason"], reason, "{body}");
    error.clone()
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap().trim_start_matches("TASK_STATE_")
}

async fn get(client: &Client, task: &Value) -> Value {
    done(client, "GetTask", json!({ "id": task["id"] })).await
}

/// Returns the texts of messages.
fn texts(messages: &Value) -> Vec<&str> {
    let all = messages.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|message| message["parts"][0]["text"].as_str().unwrap()).collect()
}
