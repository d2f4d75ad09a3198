//! Routes of agents' memory (RFC-0015). The request and response bodies are in `memory/bodies.rs`.

mod bodies;

use actix_web::{HttpRequest, delete, get, patch, post, web};
use entente_domain::ids::{IntentId, MemoryId};
use entente_domain::limits::{MEMORY_QUERY_BYTES, MEMORY_TAGS};
use entente_domain::openintent::memory::{MemoryEntry, MemoryType};
use entente_http::body::{
    Body, IdempotencyKey, IfMatch, IfMatchMaybe, Limit100, Query, id, if_match_maybe, if_match_of,
};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::routes::Routes;
use entente_http::{listed, ok, with_version};
use entente_openintent::memory;
use entente_openintent::memory::{MemoryFilter, MemoryPage};

use crate::ApiState;
use crate::memory::bodies::{
    AskBody, ChangeBody, ChangeShown, DeletedBody, EntryBody, MadeBody, VersionBody,
};

pub fn routes(config: &mut Routes<'_>) {
    config.service(create).service(get).service(change).service(remove).service(versions);
    config.service(list).service(changes).service(of_intent);
}

/// Default page size, which is the one that the SDK requests.
const LIST: u32 = 100;

fn entry_of(path: &str) -> Result<MemoryId, Problem> {
    id("memory entry", path)
}

fn archived(query: &Query) -> Result<bool, Problem> {
    Ok(query.parsed("archived", "true or false", |text| text.parse().ok())?.unwrap_or_default())
}

fn filter(query: &Query) -> Result<MemoryFilter, Problem> {
    let text = |name: &str| query.text(name).map(str::to_owned);
    let types = "one of working, episodic, semantic";
    let tags = |text: &str| {
        let tags: Vec<String> = text.split(',').filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
        (tags.len() <= MEMORY_TAGS).then_some(tags)
    };
    let phrase = |text: &str| (text.len() <= MEMORY_QUERY_BYTES).then(|| text.to_owned());
    let phrases = format!("a phrase of at most {MEMORY_QUERY_BYTES} bytes");
    let words = query.parsed("q", &phrases, phrase)?;
    Ok(MemoryFilter {
        namespace: text("namespace"),
        key: text("key"),
        key_prefix: text("key_prefix"),
        memory_type: query.parsed("memory_type", types, MemoryType::parse)?,
        tags: query
            .parsed("tags", &format!("a list of at most {MEMORY_TAGS} tags"), tags)?
            .unwrap_or_default(),
        query: words.map_or_else(|| query.parsed("query", &phrases, phrase), |words| Ok(Some(words)))?,
        task_id: query.parsed("task_id", "the id of a task", |text| text.parse().ok())?,
        archived: archived(query)?,
        limit: query.limit(LIST)?,
        offset: query.offset()?,
    })
}

fn all(found: Vec<MemoryEntry>, asker: &Asker) -> Reply {
    listed(found.into_iter().map(|entry| EntryBody::new(entry, asker.dialect)))
}

/// Create a memory entry
///
/// The key must be free in its namespace. An entry with a scope belongs to a task or an intent: agents that
/// can read the intent see it too, unless it is `restricted`, and `working` memory is archived when the task
/// or intent is over. A namespace holds up to 1,000 active entries. Beyond that, a new entry evicts the least
/// recently used entry that is neither pinned nor `semantic`, lower priorities first; `evicted` lists it.
#[utoipa::path(operation_id = "create_memory", tag = "memory", request_body = AskBody, params(IdempotencyKey),
    responses((status = 200, description = "The entry; its version is the ETag", body = MadeBody),
              (status = 409, description = "`already_exists` with `current_version`, `intent_resolved`, `invalid_transition`", body = entente_http::error::ProblemBody),
              (status = 413, description = "`too_large`: the value, or the total of the agent's memory", body = entente_http::error::ProblemBody)))]
#[post("/memory")]
async fn create(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, body: Body<AskBody>) -> Reply {
    let once = body.once(&request)?;
    let (agent, ask, home) = body.value.ask(&asker.caller.agent)?;
    let made = memory::create(&api.ctx, &asker.caller, &agent, ask, home, once.as_ref()).await?;
    with_version(made.entry.version, &MadeBody::new(made, asker.dialect))
}

/// Get a memory entry
///
/// Allowed for the agent's own entries, and for entries that others share on an intent that the caller can
/// read.
#[utoipa::path(operation_id = "get_memory", tag = "memory",
    responses((status = 200, description = "The entry; its version is the ETag", body = EntryBody)))]
#[get("/memory/{memory_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let entry = memory::get(&api.ctx, &asker.caller, entry_of(&path)?).await?;
    with_version(entry.version, &EntryBody::new(entry, asker.dialect))
}

/// Change a memory entry
///
/// Requires the version last read in `If-Match`. Agents change their own entries; any agent that can write to
/// an intent may correct its `semantic` entries. Missing and null fields stay unchanged, except that null
/// clears `ttl`, `expires_at` and `sensitivity`. Agent, namespace, key, type and scope never change.
#[utoipa::path(operation_id = "update_memory", tag = "memory", request_body = ChangeBody, params(IfMatch),
    responses((status = 200, description = "The entry", body = EntryBody),
              (status = 409, description = "`version_conflict` with `current_version`, `invalid_transition`", body = entente_http::error::ProblemBody),
              (status = 428, description = "`precondition_required`", body = entente_http::error::ProblemBody)))]
#[patch("/memory/{memory_id}")]
async fn change(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let id = entry_of(&path)?;
    let seen = if_match_of("memory entry", &request)?;
    let entry = memory::change(&api.ctx, &asker.caller, id, seen, body.value.change(), None).await?;
    with_version(entry.version, &EntryBody::new(entry, asker.dialect))
}

/// Delete a memory entry
///
/// Deletes the entry and its earlier versions. Allowed for the agent's own entries only.
#[utoipa::path(operation_id = "delete_memory", tag = "memory", params(IfMatchMaybe),
    responses((status = 200, description = "The entry was deleted", body = DeletedBody)))]
#[delete("/memory/{memory_id}")]
async fn remove(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
) -> Reply {
    let id = entry_of(&path)?;
    let seen = if_match_maybe("memory entry", &request)?;
    memory::remove(&api.ctx, &asker.caller, id, seen).await?;
    ok(&DeletedBody::new(id))
}

/// List the versions of a memory entry
///
/// Returns the current version and up to ten earlier ones, newest first, each with its author and time.
/// Allowed for the agent's own entries only.
#[utoipa::path(operation_id = "list_memory_versions", tag = "memory",
    responses((status = 200, description = "The versions", body = Vec<VersionBody>)))]
#[get("/memory/{memory_id}/versions")]
async fn versions(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = memory::versions(&api.ctx, &asker.caller, entry_of(&path)?).await?;
    ok(&found.into_iter().map(|one| VersionBody::new(one, asker.dialect)).collect::<Vec<_>>())
}

/// List and search an agent's memory
///
/// Sorted by last change, newest first; with `q`, by relevance. Of another agent's memory, returns only the
/// entries that it shares on intents that the caller can read.
#[utoipa::path(operation_id = "list_memory", tag = "memory",
    params(("namespace" = Option<String>, Query, description = "Only entries in this namespace"),
           ("key" = Option<String>, Query, description = "Only entries with this key"),
           ("key_prefix" = Option<String>, Query, description = "Only entries with keys that have this prefix"),
           ("memory_type" = Option<MemoryType>, Query, description = "Only entries of this type"),
           ("tags" = Option<String>, Query, description = "Only entries with all of these tags, separated by commas"),
           ("q" = Option<String>, Query, description = "Only entries with these words in the key or value; also accepted as `query`"),
           ("task_id" = Option<String>, Query, description = "Only entries that belong to this task"),
           ("archived" = Option<bool>, Query, description = "Whether to list archived entries instead of active ones; defaults to false"), Limit100,
           ("offset" = Option<u32>, Query, description = "Number of entries to skip; defaults to 0")),
    responses((status = 200, description = "The entries", body = Vec<EntryBody>)))]
#[get("/agents/{agent_id}/memory")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    all(memory::list(&api.ctx, &asker.caller, &path, &filter(&query)?).await?, &asker)
}

/// List the changes to an agent's memory
///
/// Returns the last 1,000 changes, oldest first, including those of evicted and expired entries. Allowed for
/// the agent's own memory only.
#[utoipa::path(operation_id = "list_memory_changes", tag = "memory",
    params(("after" = Option<u32>, Query, description = "Only changes after this number"), Limit100),
    responses((status = 200, description = "The changes", body = Vec<ChangeShown>)))]
#[get("/agents/{agent_id}/memory/changes")]
async fn changes(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let least = |text: &str| text.parse::<i64>().ok().filter(|number| *number >= 0);
    let after = query.parsed("after", "a number", least)?.unwrap_or_default();
    let found = memory::changes(&api.ctx, &asker.caller, &path, after, query.limit(LIST)?).await?;
    listed(found.into_iter().map(|one| ChangeShown::new(one, asker.dialect)))
}

/// List the memory shared on an intent
///
/// Sorted by last change, newest first.
#[utoipa::path(operation_id = "list_intent_memory", tag = "memory",
    params(("archived" = Option<bool>, Query, description = "Whether to list archived entries instead of active ones; defaults to false"), Limit100,
           ("offset" = Option<u32>, Query, description = "Number of entries to skip; defaults to 0")),
    responses((status = 200, description = "The entries", body = Vec<EntryBody>)))]
#[get("/intents/{intent_id}/memory")]
async fn of_intent(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let intent: IntentId = id("intent", &path)?;
    let page = MemoryPage { archived: archived(&query)?, limit: query.limit(LIST)?, offset: query.offset()? };
    all(memory::of_intent(&api.ctx, &asker.caller, intent, page).await?, &asker)
}
