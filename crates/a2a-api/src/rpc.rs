//! The binding of JSON-RPC 2.0 (A2A §9): every operation is a POST to the agent's URL. Clients of 0.3 call it too.

use actix_web::{HttpRequest, HttpResponse, web};
use entente_domain::a2a::errors::{Failure, Fault};
use entente_domain::a2a::pushes::PushListQuery;
use entente_domain::a2a::requests::{ListQuery, SendRequest, TaskQuery, params};
use entente_domain::a2a::tasks::Task;
use entente_domain::payload::scan;
use entente_http::body::Raw;
use entente_http::caller::Asker;
use entente_http::error::Problem;
use entente_http::presence::Presence;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::following::Form;
use crate::legacy::{self, LegacySend};
use crate::replies::{Failed, TaskBody};
use crate::visits::{Visit, require_version, version, written};
use crate::{ApiState, cards, listing, operations, pushes};

/// A call as it arrives; its required members are checked one by one.
#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    jsonrpc: Value,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    method: Value,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

/// A response with a result.
#[derive(Serialize)]
struct Success<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    result: Box<RawValue>,
}

/// Handles a call.
pub(crate) async fn speak(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Result<Asker, Problem>,
    presence: Presence,
    body: Result<Raw, Problem>,
) -> HttpResponse {
    let visit = match Visit::of(&request, api, asker, presence) {
        Ok(visit) => visit,
        Err(failed) => return failed.rpc(&Value::Null),
    };
    let call = match body.map_err(Failed::from).and_then(|body| read(&body.0)) {
        Ok(call) => call,
        Err(failed) => return failed.rpc(&Value::Null),
    };
    // Only a text or a number can be told from another call's.
    let id =
        if matches!(call.id, Value::String(_) | Value::Number(_)) { call.id.clone() } else { Value::Null };
    let answered = answer(&visit, &request, call, &id).await;
    answered.unwrap_or_else(|failed| failed.rpc(&id))
}

fn read(body: &[u8]) -> Result<Call, Failed> {
    let parse = |e: &dyn std::fmt::Display| Failure::new(Fault::Parse, format!("The body is no JSON: {e}."));
    scan(body)?;
    let raw: Box<RawValue> = serde_json::from_slice(body).map_err(|e| parse(&e))?;
    if !raw.get().starts_with('{') {
        let message = "Send one request, an object; there are no batches.";
        return Err(Failure::new(Fault::InvalidRequest, message).into());
    }
    serde_json::from_str(raw.get()).map_err(|e| {
        Failure::new(Fault::InvalidRequest, format!("This is no request of JSON-RPC: {e}.")).into()
    })
}

async fn answer(
    visit: &Visit,
    request: &HttpRequest,
    call: Call,
    id: &Value,
) -> Result<HttpResponse, Failed> {
    let wrong = |told: &str| Failed::from(Failure::new(Fault::InvalidRequest, told));
    if call.jsonrpc != "2.0" {
        return Err(wrong("`jsonrpc` has to be \"2.0\"."));
    }
    if !matches!(call.id, Value::String(_) | Value::Number(_) | Value::Null) {
        return Err(wrong("`id` has to be a text or a number."));
    }
    let Some(method) = call.method.as_str().filter(|method| !method.is_empty()) else {
        return Err(wrong("`method` is missing: the name of an operation, such as `SendMessage`."));
    };
    let given = call.params.as_deref();
    let result = if speaks_legacy(version(request).as_deref()) {
        match earlier(visit, request, method, given, id).await? {
            Some(Answer::Result(result)) => result,
            Some(Answer::Stream(stream)) => return Ok(stream),
            None => return Err(unknown(method)),
        }
    } else {
        require_version(request)?;
        match current(visit, request, method, given, id).await? {
            Answer::Result(result) => result,
            Answer::Stream(stream) => return Ok(stream),
        }
    };
    let text = serde_json::to_string(&Success { jsonrpc: "2.0", id, result });
    let text = text.map_err(|e| Failed::internal(&e))?;
    Ok(HttpResponse::Ok().content_type("application/json").body(text))
}

/// Answers a call of 1.0.
async fn current(
    visit: &Visit,
    request: &HttpRequest,
    method: &str,
    given: Option<&RawValue>,
    id: &Value,
) -> Result<Answer, Failed> {
    let form = || Form::Rpc(id.clone());
    let result = match method {
        "SendMessage" => {
            let task = operations::send(visit, &params::<SendRequest>(given)?).await?;
            written(&TaskBody { task })?
        }
        "SendStreamingMessage" => {
            let stream = operations::stream(visit, &params::<SendRequest>(given)?, form()).await?;
            return Ok(Answer::Stream(stream));
        }
        "GetTask" => written(&operations::get(visit, &params::<TaskQuery>(given)?).await?)?,
        "ListTasks" => listing::list(visit, &params::<ListQuery>(given)?.check()?).await?,
        "CancelTask" => written(&operations::cancel(visit, &params::<TaskQuery>(given)?.id).await?)?,
        "SubscribeToTask" => {
            let task = params::<TaskQuery>(given)?.id;
            return Ok(Answer::Stream(operations::subscribe(visit, request, &task, form()).await?));
        }
        "GetExtendedAgentCard" => cards::extended(visit).await?,
        "CreateTaskPushNotificationConfig" => written(&pushes::create(visit, params(given)?).await?)?,
        "GetTaskPushNotificationConfig" => written(&pushes::get(visit, &params(given)?).await?)?,
        "ListTaskPushNotificationConfigs" => {
            written(&pushes::list(visit, &params::<PushListQuery>(given)?.task_id).await?)?
        }
        "DeleteTaskPushNotificationConfig" => {
            pushes::delete(visit, &params(given)?).await?;
            written(&json!({}))?
        }
        other => {
            let shown: String = other.chars().take(60).collect();
            let message = format!(
                "There is no method `{shown}` in A2A 1.0; it has `SendMessage`, `GetTask` and so on."
            );
            return Err(Failure::new(Fault::MethodNotFound, message).into());
        }
    };
    Ok(Answer::Result(result))
}

/// Returns whether a client speaks 0.3, which is meant where none is named (A2A §3.6.2).
fn speaks_legacy(version: Option<&str>) -> bool {
    let version = version.unwrap_or_default().trim();
    version.is_empty() || version == "0.3" || version.starts_with("0.3.")
}

/// The outcome of a call.
enum Answer {
    /// A result.
    Result(Box<RawValue>),
    /// A stream.
    Stream(HttpResponse),
}

/// Answers a call of 0.3; `None` if it has no such method.
async fn earlier(
    visit: &Visit,
    request: &HttpRequest,
    method: &str,
    given: Option<&RawValue>,
    id: &Value,
) -> Result<Option<Answer>, Failed> {
    let shown = |task: Task| legacy::task(task).map_err(|e| Failed::internal(&e));
    let form = || Form::Legacy(id.clone());
    Ok(Some(match method {
        "message/send" => {
            let sent = operations::send(visit, &params::<LegacySend>(given)?.current()?).await?;
            Answer::Result(shown(sent)?)
        }
        "message/stream" => {
            let request = params::<LegacySend>(given)?.current()?;
            Answer::Stream(operations::stream(visit, &request, form()).await?)
        }
        "tasks/get" => {
            let query = legacy::queried(params::<TaskQuery>(given)?);
            Answer::Result(shown(operations::get(visit, &query).await?)?)
        }
        "tasks/cancel" => {
            Answer::Result(shown(operations::cancel(visit, &params::<TaskQuery>(given)?.id).await?)?)
        }
        "tasks/resubscribe" => {
            let task = params::<TaskQuery>(given)?.id;
            Answer::Stream(operations::subscribe(visit, request, &task, form()).await?)
        }
        "agent/getAuthenticatedExtendedCard" => Answer::Result(written(&cards::legacy(visit).await?)?),
        push if push.starts_with("tasks/pushNotificationConfig/") => {
            return Err(pushes::no_legacy().into());
        }
        _ => return Ok(None),
    }))
}

/// Failure of a method of 1.0 that a client calls in 0.3.
fn unknown(method: &str) -> Failed {
    let shown: String = method.chars().take(60).collect();
    let message = format!(
        "There is no method `{shown}` in A2A 0.3, which is meant without the header `A2A-Version: 1.0`."
    );
    Failure::new(Fault::VersionNotSupported, message).into()
}
