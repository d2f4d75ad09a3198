//! Messages and streams (A2A §3.1.1, §3.1.2 and §3.3).

use serde_json::{Value, json};

use super::{Agent, TASK_NOT_FOUND, UNSUPPORTED, is_over, message};
use crate::check::checks;
use crate::finding::{Outcome, ensure, list, same, skipped, text};
use crate::site::Site;
use crate::sse::Stream;

checks! {
    "A2A §3.1.1", Must, message_is_answered, "`SendMessage` is answered with a task or a message.";
    "A2A §4.1.1", Must, task_has_its_members, "A task has an id, a context and a state.";
    "A2A §4.1.1", Must, ids_are_the_servers, "Each message begins a task of its own.";
    "A2A §3.4.1", Must, context_is_kept, "A message with a `contextId` begins a task in that context.";
    "A2A §3.4.3", Must, unknown_task_is_told, "A message to a task that is not there is the error -32001.";
    "A2A §3.1.1", Must, ended_task_takes_nothing, "A message to a task that is over is the error -32004.";
    "A2A §3.2.2", Must, immediate_answer_has_a_task, "With `returnImmediately` the answer is a task at once.";
    "A2A §3.1.2", Must, stream_begins_with_a_task, "A stream begins with a task or a message.";
    "A2A §3.1.2", Must, stream_ends_with_the_task, "A stream ends with the task.";
    "A2A §3.3.4", Must, missing_streams_are_told, "Without the capability a stream is the error -32004.";
}

async fn message_is_answered(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let result = agent.call("SendMessage", &message(site, "echo conform")).await?;
    let is_one = result["task"].is_object() != result["message"].is_object();
    ensure(is_one, "a `task` or a `message`", &result)
}

async fn task_has_its_members(site: &Site) -> Outcome {
    let task = Agent::find(site).await?.task("echo conform").await?;
    text(&task, "/id")?;
    text(&task, "/contextId")?;
    ensure(text(&task, "/status/state")?.starts_with("TASK_STATE_"), "a state of A2A 1.0", &task)
}

async fn ids_are_the_servers(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let (one, other) = (agent.task("echo one").await?, agent.task("echo other").await?);
    ensure(one["id"] != other["id"], "two tasks", &one["id"])
}

async fn context_is_kept(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let first = agent.task("echo conform").await?;
    let mut params = message(site, "echo again");
    params["message"]["contextId"] = first["contextId"].clone();
    let second = agent.call("SendMessage", &params).await?;
    same(&second, "/task/contextId", first["contextId"].clone())
}

async fn unknown_task_is_told(site: &Site) -> Outcome {
    let mut params = message(site, "echo conform");
    params["message"]["taskId"] = json!(site.uuid());
    Agent::find(site).await?.fails("SendMessage", &params, &[TASK_NOT_FOUND]).await
}

async fn ended_task_takes_nothing(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let task = agent.ended().await?;
    let mut params = message(site, "echo more");
    params["message"]["taskId"] = task["id"].clone();
    agent.fails("SendMessage", &params, &[UNSUPPORTED]).await
}

async fn immediate_answer_has_a_task(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let mut params = message(site, "echo conform");
    params["configuration"] = json!({ "returnImmediately": true });
    let result = agent.call("SendMessage", &params).await?;
    if result["message"].is_object() {
        return Err(skipped("the agent answers with a message, not with a task"));
    }
    text(&result, "/task/id").map(drop)
}

/// Opens a stream of a message, and returns the results until the task is over.
async fn streamed(site: &Site) -> Result<Vec<Value>, crate::finding::Finding> {
    let agent = Agent::find(site).await?;
    if !agent.can("streaming") {
        return Err(skipped("the agent does not stream"));
    }
    let mut stream =
        Stream::open(site, agent.calling("SendStreamingMessage", &message(site, "echo conform"))).await?;
    ensure(
        stream.media.starts_with("text/event-stream"),
        "`text/event-stream`",
        format!("{} {}", stream.status, stream.media),
    )?;
    let mut results = Vec::new();
    let is_last = |event: &crate::sse::Event| {
        let result = event.data["result"].clone();
        let ends =
            is_over(&result["task"]) || is_over(&result["statusUpdate"]) || result["message"].is_object();
        results.push(result);
        ends
    };
    stream.until(site.limit * 2, "a stream that ends with the task", is_last).await?;
    Ok(results)
}

async fn stream_begins_with_a_task(site: &Site) -> Outcome {
    let results = streamed(site).await?;
    let first = results.first().unwrap_or(&Value::Null);
    ensure(first["task"].is_object() || first["message"].is_object(), "a `task` or a `message`", first)
}

async fn stream_ends_with_the_task(site: &Site) -> Outcome {
    let results = streamed(site).await?;
    list(&json!(results)).map(drop)
}

async fn missing_streams_are_told(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    if agent.can("streaming") {
        return Err(skipped("the agent streams"));
    }
    agent.fails("SendStreamingMessage", &message(site, "echo conform"), &[UNSUPPORTED]).await
}
