//! Endpoints for graphs of intents (RFC-0002). Every list is wrapped in an object under its name (OI-3.8.1).
//! Writing a graph is in `graphs/drawing.rs`.

mod drawing;

use actix_web::{HttpRequest, delete, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::IntentId;
use entente_domain::limits::WHOLE_INTENTS;
use entente_domain::openintent::intents::Intent;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, IfMatch, Limit100, Query, id, if_match};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::intent::IntentBody;
use entente_http::routes::Routes;
use entente_http::{ok, with_next};
use entente_openintent::graphs::{Cut, GraphPage, Relation};
use entente_openintent::{graphs, intents};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;
use crate::graphs::drawing::GraphBody;
use crate::intents::{CreateBody, response};

pub fn routes(config: &mut Routes<'_>) {
    config
        .service(create_child)
        .service(children)
        .service(descendants)
        .service(ancestors)
        .service(dependencies)
        .service(dependents)
        .service(depend)
        .service(let_go)
        .service(ready)
        .service(blocked)
        .service(graph);
}

/// Sets the path's intent as the parent; refuses a body that names another one.
fn under(mut body: CreateBody, parent: IntentId) -> Result<CreateBody, Refusal> {
    let text = parent.to_string();
    for said in [body.parent_intent_id.take(), body.parent_id.take()].into_iter().flatten() {
        if !said.is_empty() && said != text {
            let message = "`parent_intent_id` names another intent than the path. Leave it out.";
            return Err(Refusal::field(Code::Unprocessable, "parent_intent_id", "path", message));
        }
    }
    body.parent_intent_id = Some(text);
    Ok(body)
}

/// Create a part of an intent
///
/// As `POST /intents`, with the intent of the path as the parent. Requires admin access to the parent (RFC-0011).
#[utoipa::path(operation_id = "create_child_intent", tag = "graphs", request_body = CreateBody,
    params(("intent_id" = String, Path, description = "The parent"), IdempotencyKey),
    responses((status = 200, description = "The new intent", body = IntentBody)))]
#[post("/intents/{intent_id}/children")]
async fn create_child(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<CreateBody>,
) -> Reply {
    let parent: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = under(body.value, parent)?;
    let strict = api.ctx.settings.strict;
    let created_by = asker.caller.speaker("created_by", said.created_by.as_deref(), strict)?;
    let made = intents::create(&api.ctx, &asker.caller, &created_by, said.ask()?, once.as_ref()).await;
    // The path names the parent here, so an unknown one is reported as not found.
    let unknown = |problem: Problem| -> Problem {
        if problem.is_about("parent_intent_id", "unknown") {
            Refusal::not_found("intent").into()
        } else {
            problem
        }
    };
    response(&made.map_err(|e| unknown(e.into()))?, &asker)
}

fn cut(query: &Query) -> Result<Cut, Problem> {
    Ok(Cut {
        after: query.parsed("after", "an intent's id", |text| text.parse().ok())?,
        limit: query.limit(WHOLE_INTENTS)?,
    })
}

async fn related(
    api: &ApiState,
    asker: &Asker,
    path: &str,
    query: &Query,
    relation: Relation,
) -> Result<GraphPage<Intent>, Problem> {
    let found = graphs::list(&api.ctx, &asker.caller, id("intent", path)?, relation, cut(query)?).await?;
    Ok(found)
}

fn written(intents: &[Intent], dialect: Dialect) -> Vec<IntentBody<'_>> {
    intents.iter().map(|intent| IntentBody::new(intent, dialect)).collect()
}

/// The parts of an intent.
#[derive(Debug, Serialize, ToSchema)]
struct ChildList<'a> {
    /// The parts that the caller can read, oldest first.
    children: Vec<IntentBody<'a>>,
}

/// List the parts of an intent
#[utoipa::path(operation_id = "list_children", tag = "graphs",
    params(("after" = Option<String>, Query, description = "Only intents after this one: `Entente-Next-Cursor` of the previous page"), Limit100),
    responses((status = 200, description = "The parts", body = ChildList,
               headers(("Entente-Next-Cursor" = String, description = "The `after` of the next page; absent on the last page")))))]
#[get("/intents/{intent_id}/children")]
async fn children(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let found = related(&api, &asker, &path, &query, Relation::Children).await?;
    with_next(&ChildList { children: written(&found.intents, asker.dialect) }, found.next)
}

/// All descendants of an intent.
#[derive(Debug, Serialize, ToSchema)]
struct DescendantList<'a> {
    /// The intents that the caller can read and reach, oldest first.
    descendants: Vec<IntentBody<'a>>,
}

/// List the descendants of an intent
///
/// Its parts, their parts, and so on. Intents below one that the caller cannot read are not included.
#[utoipa::path(operation_id = "list_descendants", tag = "graphs",
    params(("after" = Option<String>, Query, description = "Only intents after this one: `Entente-Next-Cursor` of the previous page"), Limit100),
    responses((status = 200, description = "The descendants, oldest first", body = DescendantList,
               headers(("Entente-Next-Cursor" = String, description = "The `after` of the next page; absent on the last page"))),
              (status = 422, description = "`unprocessable`: too many intents for one traversal; request the parts separately", body = ProblemBody)))]
#[get("/intents/{intent_id}/descendants")]
async fn descendants(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let found = related(&api, &asker, &path, &query, Relation::Descendants).await?;
    with_next(&DescendantList { descendants: written(&found.intents, asker.dialect) }, found.next)
}

/// All ancestors of an intent.
#[derive(Debug, Serialize, ToSchema)]
struct AncestorList<'a> {
    /// The intents, nearest first, up to the first that the caller cannot read.
    ancestors: Vec<IntentBody<'a>>,
}

/// List the ancestors of an intent
#[utoipa::path(operation_id = "list_ancestors", tag = "graphs",
    params(("after" = Option<String>, Query, description = "Only ancestors above this one: `Entente-Next-Cursor` of the previous page"), Limit100),
    responses((status = 200, description = "The ancestors, nearest first", body = AncestorList,
               headers(("Entente-Next-Cursor" = String, description = "The `after` of the next page; absent on the last page")))))]
#[get("/intents/{intent_id}/ancestors")]
async fn ancestors(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let found = related(&api, &asker, &path, &query, Relation::Ancestors).await?;
    with_next(&AncestorList { ancestors: written(&found.intents, asker.dialect) }, found.next)
}

/// The intents that an intent waits for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = IntentDependencyList)]
struct DependencyList<'a> {
    /// The intents that the caller can read, oldest first.
    dependencies: Vec<IntentBody<'a>>,
}

/// List the dependencies of an intent
#[utoipa::path(operation_id = "list_dependencies", tag = "graphs",
    params(("after" = Option<String>, Query, description = "Only intents after this one: `Entente-Next-Cursor` of the previous page"), Limit100),
    responses((status = 200, description = "The dependencies", body = DependencyList,
               headers(("Entente-Next-Cursor" = String, description = "The `after` of the next page; absent on the last page")))))]
#[get("/intents/{intent_id}/dependencies")]
async fn dependencies(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    query: Query,
) -> Reply {
    let found = related(&api, &asker, &path, &query, Relation::Dependencies).await?;
    with_next(&DependencyList { dependencies: written(&found.intents, asker.dialect) }, found.next)
}

/// The intents that wait for an intent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = IntentDependentList)]
struct DependentList<'a> {
    /// The intents that the caller can read, oldest first.
    dependents: Vec<IntentBody<'a>>,
}

/// List the dependents of an intent
#[utoipa::path(operation_id = "list_dependents", tag = "graphs",
    params(("after" = Option<String>, Query, description = "Only intents after this one: `Entente-Next-Cursor` of the previous page"), Limit100),
    responses((status = 200, description = "The dependents", body = DependentList,
               headers(("Entente-Next-Cursor" = String, description = "The `after` of the next page; absent on the last page")))))]
#[get("/intents/{intent_id}/dependents")]
async fn dependents(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let found = related(&api, &asker, &path, &query, Relation::Dependents).await?;
    with_next(&DependentList { dependents: written(&found.intents, asker.dialect) }, found.next)
}

/// A dependency to add.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewIntentDependency)]
#[schema(example = json!({ "dependency_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" }))]
struct DependBody {
    /// The intent to wait for.
    dependency_id: String,
}

/// Add a dependency to an intent
///
/// Under its version. Refused with 400 if the intent would wait for itself, directly or through others.
#[utoipa::path(operation_id = "add_dependency", tag = "graphs", request_body = DependBody,
    params(("intent_id" = String, Path, description = "The dependent intent"), IfMatch, IdempotencyKey),
    responses((status = 200, description = "The intent", body = IntentBody),
              (status = 400, description = "`dependency_circle`, `if_match_required`", body = ProblemBody),
              (status = 409, description = "`version_conflict`, with `current_version`; `already_exists`; `intent_resolved`", body = ProblemBody)))]
#[post("/intents/{intent_id}/dependencies")]
async fn depend(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<DependBody>,
) -> Reply {
    let waiting: IntentId = id("intent", &path)?;
    let seen = if_match(&request)?;
    let once = body.once(&request)?;
    // A malformed id names nothing, but only callers that may change the intent may learn that.
    let dependency = body.value.dependency_id.parse().unwrap_or(IntentId::SYSTEM);
    let intent = graphs::depend(&api.ctx, &asker.caller, waiting, seen, dependency, once.as_ref()).await?;
    response(&intent, &asker)
}

/// Remove a dependency of an intent
#[utoipa::path(operation_id = "remove_dependency", tag = "graphs",
    params(("intent_id" = String, Path, description = "The dependent intent"),
           ("dependency_id" = String, Path, description = "The dependency to remove"), IfMatch),
    responses((status = 200, description = "The intent", body = IntentBody),
              (status = 400, description = "`if_match_required`", body = ProblemBody),
              (status = 409, description = "`version_conflict`, with `current_version`", body = ProblemBody)))]
#[delete("/intents/{intent_id}/dependencies/{dependency_id}")]
async fn let_go(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
) -> Reply {
    let waiting: IntentId = id("intent", &path.0)?;
    let seen = if_match(&request)?;
    let dependency = path.1.parse().unwrap_or(IntentId::SYSTEM);
    response(&graphs::let_go(&api.ctx, &asker.caller, waiting, seen, dependency).await?, &asker)
}

/// The parts that can be worked on.
#[derive(Debug, Serialize, ToSchema)]
struct ReadyList<'a> {
    /// The parts that are not finished and wait for nothing, oldest first.
    ready: Vec<IntentBody<'a>>,
}

/// List the ready parts of an intent
///
/// Those that are neither completed nor abandoned, and whose dependencies are all completed.
#[utoipa::path(operation_id = "list_ready_intents", tag = "graphs",
    params(("after" = Option<String>, Query, description = "Only intents after this one: `Entente-Next-Cursor` of the previous page"), Limit100),
    responses((status = 200, description = "The parts", body = ReadyList,
               headers(("Entente-Next-Cursor" = String, description = "The `after` of the next page; absent on the last page")))))]
#[get("/intents/{intent_id}/ready")]
async fn ready(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let found = related(&api, &asker, &path, &query, Relation::Ready).await?;
    with_next(&ReadyList { ready: written(&found.intents, asker.dialect) }, found.next)
}

/// A part that waits.
#[derive(Debug, Serialize, ToSchema)]
struct BlockedIntent<'a> {
    #[serde(flatten)]
    intent: IntentBody<'a>,
    /// Its unfinished dependencies.
    waits_for: &'a [IntentId],
    /// Its abandoned dependencies. The part cannot become ready until they are resumed or removed.
    lost: &'a [IntentId],
}

/// The parts that wait.
#[derive(Debug, Serialize, ToSchema)]
struct BlockedList<'a> {
    /// The parts that are not finished and wait for something, oldest first.
    blocked: Vec<BlockedIntent<'a>>,
}

/// List the blocked parts of an intent
///
/// With their unfinished dependencies. A part with an abandoned dependency is blocked too.
#[utoipa::path(operation_id = "list_blocked_intents", tag = "graphs",
    params(("after" = Option<String>, Query, description = "Only intents after this one: `Entente-Next-Cursor` of the previous page"), Limit100),
    responses((status = 200, description = "The parts", body = BlockedList,
               headers(("Entente-Next-Cursor" = String, description = "The `after` of the next page; absent on the last page")))))]
#[get("/intents/{intent_id}/blocked")]
async fn blocked(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let found = graphs::blocked(&api.ctx, &asker.caller, id("intent", &path)?, cut(&query)?).await?;
    let blocked = found.intents.iter().map(|one| BlockedIntent {
        intent: IntentBody::new(&one.intent, asker.dialect),
        waits_for: &one.wait.open,
        lost: &one.wait.lost,
    });
    with_next(&BlockedList { blocked: blocked.collect() }, found.next)
}

/// Get the graph of an intent
///
/// The intent, its descendants, the dependencies of any of these, and so on, as far as the caller can read them.
#[utoipa::path(operation_id = "get_intent_graph", tag = "graphs",
    responses((status = 200, description = "The graph", body = GraphBody),
              (status = 422, description = "`unprocessable`: too many intents for one traversal; request the parts separately", body = ProblemBody)))]
#[get("/intents/{intent_id}/graph")]
async fn graph(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let root: IntentId = id("intent", &path)?;
    let graph = graphs::graph(&api.ctx, &asker.caller, root).await?;
    ok(&GraphBody::new(root, &graph))
}
