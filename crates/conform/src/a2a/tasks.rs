//! Tasks: reading, listing, cancelling, subscribing, and push configurations (A2A §3.1.3 to §3.1.10).

use serde_json::{Value, json};

use super::{Agent, PUSH_NOT_SUPPORTED, TASK_NOT_CANCELABLE, TASK_NOT_FOUND, UNSUPPORTED};
use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, list, same, skipped, text};
use crate::site::Site;

checks! {
    "A2A §3.1.3", Must, task_is_read, "`GetTask` returns the task.";
    "A2A §3.1.3", Must, unknown_task_is_not_found, "A task that is not there is the error -32001.";
    "A2A §3.2.4", Must, history_has_a_length, "With `historyLength` 0 a task has no history.";
    "A2A §3.1.4", Must, tasks_are_listed, "`ListTasks` lists tasks of a context, with the size of all and of the page.";
    "A2A §3.1.4", Must, lists_have_pages, "`pageSize` bounds a list, and `nextPageToken` continues it.";
    "A2A §3.1.4", Must, artifacts_are_left_out, "A list has no artifacts unless they are asked for.";
    "A2A §3.1.5", Must, unknown_task_is_not_cancelled, "The cancellation of a task that is not there is the error -32001.";
    "A2A §3.1.5", Must, ended_task_is_not_cancelled, "The cancellation of a task that is over is the error -32002.";
    "A2A §3.1.6", Must, ended_task_has_no_stream, "A subscription to a task that is over is the error -32004.";
    "A2A §3.1.7", Must, missing_push_is_told, "Without the capability a push configuration is the error -32003.";
    "A2A §3.1.7", Must, push_configuration_is_kept, "A push configuration is created, read, listed and deleted.";
}

async fn task_is_read(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let task = agent.task("echo conform").await?;
    let read = agent.call("GetTask", &json!({ "id": task["id"] })).await?;
    same(&read, "/id", task["id"].clone())?;
    same(&read, "/contextId", task["contextId"].clone())
}

async fn unknown_task_is_not_found(site: &Site) -> Outcome {
    Agent::find(site).await?.fails("GetTask", &json!({ "id": site.uuid() }), &[TASK_NOT_FOUND]).await
}

async fn history_has_a_length(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let task = agent.task("echo conform").await?;
    let read = agent.call("GetTask", &json!({ "id": task["id"], "historyLength": 0 })).await?;
    let is_empty = read.get("history").and_then(Value::as_array).is_none_or(Vec::is_empty);
    ensure(is_empty, "no history", &read)
}

/// Sends two messages in one context, and returns the agent and the context.
async fn two(site: &Site) -> Result<(Agent<'_>, Value), Finding> {
    let agent = Agent::find(site).await?;
    let first = agent.ended().await?;
    let mut params = super::message(site, "echo again");
    params["message"]["contextId"] = first["contextId"].clone();
    agent.call("SendMessage", &params).await?;
    Ok((agent, first["contextId"].clone()))
}

async fn tasks_are_listed(site: &Site) -> Outcome {
    let (agent, context) = two(site).await?;
    let page = agent.call("ListTasks", &json!({ "contextId": context })).await?;
    ensure(list(&page["tasks"])?.len() == 2, "two tasks", &page)?;
    ensure(page["totalSize"] == json!(2), "a `totalSize` of 2", &page)?;
    ensure(page["pageSize"].is_u64(), "a `pageSize`", &page)
}

async fn lists_have_pages(site: &Site) -> Outcome {
    let (agent, context) = two(site).await?;
    let first = agent.call("ListTasks", &json!({ "contextId": context, "pageSize": 1 })).await?;
    ensure(list(&first["tasks"])?.len() == 1, "one task", &first)?;
    let token = text(&first, "/nextPageToken")?;
    let params = json!({ "contextId": context, "pageSize": 1, "pageToken": token });
    let second = agent.call("ListTasks", &params).await?;
    let is_other = list(&second["tasks"])?.len() == 1 && second["tasks"][0]["id"] != first["tasks"][0]["id"];
    ensure(is_other, "the other task", &second)
}

async fn artifacts_are_left_out(site: &Site) -> Outcome {
    let (agent, context) = two(site).await?;
    let page = agent.call("ListTasks", &json!({ "contextId": context })).await?;
    let none = |task: &Value| task.get("artifacts").and_then(Value::as_array).is_none_or(Vec::is_empty);
    ensure(list(&page["tasks"])?.iter().all(none), "no artifacts", &page)
}

async fn unknown_task_is_not_cancelled(site: &Site) -> Outcome {
    Agent::find(site).await?.fails("CancelTask", &json!({ "id": site.uuid() }), &[TASK_NOT_FOUND]).await
}

async fn ended_task_is_not_cancelled(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let task = agent.ended().await?;
    agent.fails("CancelTask", &json!({ "id": task["id"] }), &[TASK_NOT_CANCELABLE]).await
}

async fn ended_task_has_no_stream(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    if !agent.can("streaming") {
        return Err(skipped("the agent does not stream"));
    }
    let task = agent.ended().await?;
    let answer = agent.calling("SubscribeToTask", &json!({ "id": task["id"] })).send().await?;
    let events = crate::sse::parsed_events(&answer.text);
    // The error may be the only event of the stream that was asked for.
    let response = events.into_iter().next().unwrap_or(answer.body);
    super::failure(&response, &[UNSUPPORTED])
}

/// Returns a push configuration.
fn configuration(task: &Value) -> Value {
    json!({ "taskId": task["id"], "id": "conform", "url": "https://example.com/conform" })
}

async fn missing_push_is_told(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    if agent.can("pushNotifications") {
        return Err(skipped("the agent has push notifications"));
    }
    let task = agent.task("echo conform").await?;
    agent.fails("CreateTaskPushNotificationConfig", &configuration(&task), &[PUSH_NOT_SUPPORTED]).await
}

async fn push_configuration_is_kept(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    if !agent.can("pushNotifications") {
        return Err(skipped("the agent has no push notifications"));
    }
    let task = agent.task("echo conform").await?;
    let made = agent.call("CreateTaskPushNotificationConfig", &configuration(&task)).await?;
    let named = json!({ "taskId": task["id"], "id": made["id"] });
    let read = agent.call("GetTaskPushNotificationConfig", &named).await?;
    same(&read, "/url", "https://example.com/conform")?;
    let all = agent.call("ListTaskPushNotificationConfigs", &json!({ "taskId": task["id"] })).await?;
    ensure(list(&all["configs"])?.len() == 1, "one configuration", &all)?;
    agent.call("DeleteTaskPushNotificationConfig", &named).await.map(drop)
}
