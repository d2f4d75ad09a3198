//! The tool for agents' memory (RFC-0015): storing, finding and deleting entries.

use entente_domain::clock::rfc3339;
use entente_domain::ids::{IntentId, TaskId};
use entente_domain::limits::{DURATION_SECONDS, MEMORY_QUERY_BYTES, MEMORY_TAGS, PAGE};
use entente_domain::openintent::memory::{
    Given, MemoryAsk, MemoryChange, MemoryEntry, MemoryPriority, MemoryType,
};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::id;
use entente_http::error::Problem;
use entente_openintent::memory;
use entente_openintent::memory::{Home, MemoryFilter};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::shapes::{Member, flag, free, gives, list, may, must, retry_key, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, needed, within};

/// Default page size.
const STEP: u32 = 50;

/// Namespace of entries that name none.
const NAMESPACE: &str = "default";

/// Returns the tools of this file.
pub fn tools() -> [Tool; 1] {
    let entry = gives(vec![
        must("id", text("The entry.")),
        must("namespace", text("Its namespace.")),
        must("key", text("Its key.")),
        must("value", free("Its value.")),
        must("version", json!({ "type": "integer" })),
    ]);
    [Tool {
        name: "memory",
        title: "Your memory",
        about: "Your memory, which outlives your context. `set` stores `value` under `key` and replaces the value that is \
                there; `get` and `delete` take `key` or `memory_id`; `list` finds entries. An entry for an intent or a task is \
                visible to the agents that can read the intent.",
        takes: takes(members()),
        example: json!({ "action": "set", "key": "market/size", "value": { "billions": 4.2 } }),
        gives: gives(vec![must("entries", list(entry, "The entries."))]),
        hints: Hints::changes(),
        names: &[("q", "query")],
        run: |call| Box::pin(run(call)),
    }]
}

fn members() -> Vec<Member> {
    let types = ["working", "episodic", "semantic"];
    vec![
        must("action", word("The action.", &["set", "get", "list", "delete"])),
        may("key", text("Key, unique in the namespace.")),
        may("namespace", text("Defaults to `default`, in `list` to all.")),
        may("memory_id", text("`get`, `delete`: the entry, instead of `key`.")),
        may("value", free("`set`: the value.")),
        may(
            "memory_type",
            word("`set`: `working` (default) ends with its task or intent. `list`: only this type.", &types),
        ),
        may(
            "tags",
            list(json!({ "type": "string" }), "`set`: the tags. `list`: only entries with all of these."),
        ),
        may("ttl", whole("`set`: seconds until the entry expires.", 1, i64::from(DURATION_SECONDS))),
        may("pinned", flag("`set`: never evict the entry.")),
        may("intent_id", text("`set`: the intent of a new entry.")),
        may("task_id", text("`set`, `list`: the task of entries.")),
        may("version", whole("`set`, `delete`: only this version.", 0, i64::MAX)),
        may("query", text("`list`: only entries with these words.")),
        may("key_prefix", text("`list`: only keys with this prefix.")),
        may("agent_id", text("`get`, `list`: whose; defaults to yours.")),
        may("limit", whole("`list`: defaults to 50.", 1, i64::from(PAGE))),
        may("offset", whole("`list`: entries to skip.", 0, 1_000_000)),
        may("idempotency_key", retry_key("`set`: ")),
    ]
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Set,
    Get,
    List,
    Delete,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    action: Action,
    key: Option<String>,
    namespace: Option<String>,
    memory_id: Option<String>,
    value: Option<Map<String, Value>>,
    memory_type: Option<MemoryType>,
    tags: Option<Vec<String>>,
    ttl: Option<i64>,
    pinned: Option<bool>,
    intent_id: Option<String>,
    task_id: Option<String>,
    version: Option<i64>,
    query: Option<String>,
    key_prefix: Option<String>,
    agent_id: Option<String>,
    limit: Option<u32>,
    offset: Option<u32>,
    idempotency_key: Option<String>,
}

impl Args {
    fn task(&self) -> Result<Option<TaskId>, Problem> {
        self.task_id.as_deref().map(|text| id("task", text)).transpose()
    }

    fn intent(&self) -> Result<Option<IntentId>, Problem> {
        self.intent_id.as_deref().map(|text| id("intent", text)).transpose()
    }

    fn filter(&self) -> Result<MemoryFilter, Problem> {
        let tags = self.tags.clone().unwrap_or_default();
        if tags.len() > MEMORY_TAGS {
            let message = format!("`tags` has more than {MEMORY_TAGS} items.");
            return Err(Refusal::field(Code::InvalidRequest, "tags", "too_long", message).into());
        }
        Ok(MemoryFilter {
            namespace: self.namespace.clone(),
            key: self.key.clone(),
            key_prefix: self.key_prefix.clone(),
            memory_type: self.memory_type,
            tags,
            query: self.query.clone(),
            task_id: self.task()?,
            archived: false,
            limit: within("limit", self.limit, STEP, 1, PAGE)?,
            offset: within("offset", self.offset, 0, 0, 1_000_000)?,
        })
    }
}

async fn run(call: Call) -> ToolResult {
    let said: Args = call.read()?;
    let (ctx, caller) = (&call.ctx().openintent, &call.caller);
    match said.action {
        Action::Set => set(&call, said).await,
        Action::Get => answer("Found", &[existing(&call, &said).await?]),
        Action::List => {
            let owner = said.agent_id.as_deref().unwrap_or(&caller.agent);
            let filter = said.filter()?;
            check_query(said.query.as_deref())?;
            answer("Found", &memory::list(ctx, caller, owner, &filter).await?)
        }
        Action::Delete => {
            let entry = existing(&call, &said).await?;
            memory::remove(ctx, caller, entry.id, said.version).await?;
            answer("Deleted", &[entry])
        }
    }
}

fn check_query(query: Option<&str>) -> Result<(), Refusal> {
    if query.is_none_or(|query| query.len() <= MEMORY_QUERY_BYTES) {
        return Ok(());
    }
    let message = format!("`query` must be a phrase of at most {MEMORY_QUERY_BYTES} bytes.");
    Err(Refusal::field(Code::InvalidRequest, "query", "too_long", message))
}

/// Returns the entry under a key of an agent, if there is one.
async fn under_key(call: &Call, owner: &str, said: &Args) -> Result<Option<MemoryEntry>, Problem> {
    let filter = MemoryFilter {
        namespace: Some(said.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned())),
        key: Some(needed("key", said.key.clone())?),
        limit: 1,
        ..MemoryFilter::default()
    };
    Ok(memory::list(&call.ctx().openintent, &call.caller, owner, &filter).await?.pop())
}

/// Returns the entry that a call names, by its id or its key.
async fn existing(call: &Call, said: &Args) -> Result<MemoryEntry, Problem> {
    let (ctx, caller) = (&call.ctx().openintent, &call.caller);
    if let Some(memory_id) = &said.memory_id {
        return Ok(memory::get(ctx, caller, id("memory entry", memory_id)?).await?);
    }
    let owner = said.agent_id.as_deref().unwrap_or(&caller.agent);
    let found = under_key(call, owner, said).await?.ok_or_else(|| Refusal::not_found("memory entry"))?;
    // Getting it, unlike listing, counts as a use.
    Ok(memory::get(ctx, caller, found.id).await?)
}

/// Stores a value under a key: changes the entry that is there, or creates one.
async fn set(call: &Call, said: Args) -> ToolResult {
    let (ctx, caller) = (&call.ctx().openintent, &call.caller);
    let value = needed("value", said.value.clone())?;
    let ttl = said.ttl.map(|seconds| seconds.to_string());
    // Of the entry that it creates, or of the one that it changes: a retry finds the entry that it has created.
    let once = call.once(said.idempotency_key.as_deref(), "memory")?;
    if let Some(entry) = under_key(call, &caller.agent, &said).await? {
        let change = MemoryChange {
            value: Some(value),
            tags: said.tags,
            pinned: said.pinned,
            ttl: ttl.map_or(Given::Nothing, Given::Value),
            ..MemoryChange::default()
        };
        let seen = said.version.unwrap_or(entry.version);
        let changed = memory::change(ctx, caller, entry.id, seen, change, once.as_ref()).await?;
        return answer("Replaced", &[changed]);
    }
    if said.version.is_some() {
        return Err(Refusal::not_found("memory entry").into());
    }
    let home = Home { intent_id: said.intent()?, task_id: said.task()? };
    let ask = MemoryAsk {
        namespace: said.namespace.unwrap_or_else(|| NAMESPACE.to_owned()),
        key: needed("key", said.key)?,
        value,
        memory_type: said.memory_type.unwrap_or(MemoryType::Working),
        tags: said.tags.unwrap_or_default(),
        ttl,
        expires_at: None,
        pinned: said.pinned.unwrap_or_default(),
        priority: MemoryPriority::Normal,
        sensitivity: None,
    };
    let made = memory::create(ctx, caller, &caller.agent, ask, home, once.as_ref()).await?;
    answer("Stored", &[made.entry])
}

fn answer(done: &str, found: &[MemoryEntry]) -> ToolResult {
    let entries: Vec<Value> = found.iter().map(shown).collect();
    Answer::new(format!("{done} {} entries.", entries.len()), &json!({ "entries": entries }))
}

fn shown(entry: &MemoryEntry) -> Value {
    json!({
        "id": entry.id, "agent_id": entry.agent_id, "namespace": entry.namespace, "key": entry.key, "value": entry.value,
        "memory_type": entry.memory_type, "tags": entry.tags, "pinned": entry.pinned, "version": entry.version,
        "intent_id": entry.intent_id, "task_id": entry.task_id, "updated_at": rfc3339(entry.updated_at),
        "updated_by": entry.updated_by, "expires_at": entry.expires_at.map(rfc3339),
    })
}
