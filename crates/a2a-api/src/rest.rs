//! The binding of HTTP+JSON (A2A §11): one path for each operation, below the agent's URL.

use actix_web::web::ServiceConfig;
use actix_web::{HttpRequest, HttpResponse, web};
use entente_domain::a2a::errors::{Failure, Fault};
use entente_domain::a2a::pushes::{PushConfig, PushQuery};
use entente_domain::a2a::requests::{ListQuery, SendRequest, TaskQuery, params};
use entente_domain::payload::scan;
use entente_http::body::{Query, Raw};
use entente_http::caller::Asker;
use entente_http::error::Problem;
use entente_http::presence::Presence;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::following::Form;
use crate::replies::{Failed, MEDIA_TYPE, TaskBody};
use crate::visits::{Visit, require_version, written};
use crate::{ApiState, cards, listing, operations, pushes};

/// Path of the receivers of a task's push notifications (§11.3).
const RECEIVERS: &str = "/tasks/{task}/pushNotificationConfigs";
/// Path of one of them.
const RECEIVER: &str = "/tasks/{task}/pushNotificationConfigs/{receiver}";

/// Registers the paths below an agent's.
pub(crate) fn routes(config: &mut ServiceConfig) {
    config
        .route("/message:send", web::post().to(send))
        .route("/message:stream", web::post().to(stream))
        .route("/tasks", web::get().to(list))
        .route("/tasks/{task}", web::get().to(get))
        .route("/tasks/{task}", web::post().to(act))
        .route("/extendedAgentCard", web::get().to(extended))
        .route(RECEIVERS, web::post().to(add_receiver))
        .route(RECEIVERS, web::get().to(receivers))
        .route(RECEIVER, web::get().to(receiver))
        .route(RECEIVER, web::delete().to(remove_receiver));
}

/// Parts of a request besides its path.
type Parts = (web::Data<ApiState>, Result<Asker, Problem>, Presence);

fn visit(request: &HttpRequest, parts: Parts) -> Result<Visit, Failed> {
    let (api, asker, presence) = parts;
    let visit = Visit::of(request, api, asker, presence)?;
    require_version(request)?;
    Ok(visit)
}

fn done(result: Result<Box<RawValue>, Failed>) -> HttpResponse {
    match result {
        Ok(body) => HttpResponse::Ok().content_type(MEDIA_TYPE).body(Box::<str>::from(body).into_string()),
        Err(failed) => failed.http(),
    }
}

fn read<T: DeserializeOwned>(body: Result<Raw, Problem>) -> Result<T, Failed> {
    let Raw(body) = body?;
    scan(&body)?;
    let raw: Box<RawValue> = serde_json::from_slice(&body)
        .map_err(|e| Failure::new(Fault::Parse, format!("The body is no JSON: {e}.")))?;
    Ok(params(Some(&raw))?)
}

/// Returns the parameters of a query, and the task that the path names.
fn queried(request: &HttpRequest, task: Option<&str>) -> Result<Box<RawValue>, Failed> {
    let mut all = Query::of(request)?.all();
    if let Some(task) = task {
        all.insert("id".to_owned(), Value::from(task));
    }
    to_raw_value(&all).map_err(|e| Problem::internal(&e.to_string()).into())
}

async fn send(request: HttpRequest, parts: Parts, body: Result<Raw, Problem>) -> HttpResponse {
    let sent = async {
        let visit = visit(&request, parts)?;
        written(&TaskBody { task: operations::send(&visit, &read::<SendRequest>(body)?).await? })
    };
    done(sent.await)
}

async fn stream(request: HttpRequest, parts: Parts, body: Result<Raw, Problem>) -> HttpResponse {
    let streamed = async {
        let visit = visit(&request, parts)?;
        operations::stream(&visit, &read::<SendRequest>(body)?, Form::Http).await
    };
    streamed.await.unwrap_or_else(|failed: Failed| failed.http())
}

async fn list(request: HttpRequest, parts: Parts) -> HttpResponse {
    let listed = async {
        let visit = visit(&request, parts)?;
        let query = params::<ListQuery>(Some(&queried(&request, None)?))?;
        listing::list(&visit, &query.check()?).await
    };
    done(listed.await)
}

/// Returns a task; `:subscribe` after its id follows it.
async fn get(request: HttpRequest, parts: Parts, path: web::Path<(String, String)>) -> HttpResponse {
    let (_, named) = path.into_inner();
    let got = async {
        let visit = visit(&request, parts)?;
        if let Some(task) = named.strip_suffix(":subscribe") {
            return operations::subscribe(&visit, &request, task, Form::Http).await;
        }
        let query = params::<TaskQuery>(Some(&queried(&request, Some(&named))?))?;
        Ok(done(Ok(written(&operations::get(&visit, &query).await?)?)))
    };
    got.await.unwrap_or_else(|failed: Failed| failed.http())
}

/// Cancels or follows a task.
async fn act(request: HttpRequest, parts: Parts, path: web::Path<(String, String)>) -> HttpResponse {
    let (_, named) = path.into_inner();
    let acted = async {
        let visit = visit(&request, parts)?;
        match named.rsplit_once(':') {
            Some((task, "cancel")) => Ok(done(Ok(written(&operations::cancel(&visit, task).await?)?))),
            Some((task, "subscribe")) => operations::subscribe(&visit, &request, task, Form::Http).await,
            _ => Err(nothing()),
        }
    };
    acted.await.unwrap_or_else(|failed: Failed| failed.http())
}

async fn extended(request: HttpRequest, parts: Parts) -> HttpResponse {
    let shown = async { cards::extended(&visit(&request, parts)?).await };
    done(shown.await)
}

async fn add_receiver(
    request: HttpRequest,
    parts: Parts,
    path: web::Path<(String, String)>,
    body: Result<Raw, Problem>,
) -> HttpResponse {
    let (_, task) = path.into_inner();
    let added = async {
        let visit = visit(&request, parts)?;
        let config = PushConfig { task_id: task, ..read(body)? };
        written(&pushes::create(&visit, config).await?)
    };
    done(added.await)
}

async fn receivers(request: HttpRequest, parts: Parts, path: web::Path<(String, String)>) -> HttpResponse {
    let (_, task) = path.into_inner();
    let listed = async { written(&pushes::list(&visit(&request, parts)?, &task).await?) };
    done(listed.await)
}

async fn receiver(
    request: HttpRequest,
    parts: Parts,
    path: web::Path<(String, String, String)>,
) -> HttpResponse {
    let got = async { written(&pushes::get(&visit(&request, parts)?, &named(path)).await?) };
    done(got.await)
}

async fn remove_receiver(
    request: HttpRequest,
    parts: Parts,
    path: web::Path<(String, String, String)>,
) -> HttpResponse {
    let removed = async {
        pushes::delete(&visit(&request, parts)?, &named(path)).await?;
        written(&json!({}))
    };
    done(removed.await)
}

/// Returns the receiver that a path names.
fn named(path: web::Path<(String, String, String)>) -> PushQuery {
    let (_, task_id, id) = path.into_inner();
    PushQuery { task_id, id }
}

fn nothing() -> Failed {
    let message =
        "A2A 1.0 has no such operation. The paths are those of its section 11.3, below the agent's URL.";
    Failure::new(Fault::MethodNotFound, message).into()
}

/// Answers a request for no operation.
pub(crate) async fn unknown(asker: Result<Asker, Problem>) -> HttpResponse {
    asker.err().map_or_else(nothing, Failed::from).http()
}
