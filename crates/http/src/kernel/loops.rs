//! Routes of loops and storms among agents: the policy of an intent, and lineages of messages.

use actix_web::{get, post, put, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{ChannelId, IntentId, LineageId, MessageId};
use entente_domain::limits::PAGE;
use entente_domain::loops::lineages::{LineageState, LoopCause, Pair};
use entente_domain::loops::policy::{LoopPolicy, LoopPolicyAsk};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::loops;
use entente_kernel::loops::{IntentLoopPolicy, ShownLineage};
use serde::Serialize;
use utoipa::ToSchema;

use crate::body::{Body, Limit1000, Query, id};
use crate::caller::Asker;
use crate::error::{Problem, ProblemBody, Reply};
use crate::routes::Routes;
use crate::wire::WireTime;
use crate::{HttpState, ok};

pub(super) fn routes(config: &mut Routes<'_>) {
    config.service(get_policy).service(set_policy).service(list).service(get).service(release);
}

/// An intent's policy for loops and storms.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = IntentLoopPolicy)]
struct PolicyBody {
    /// The intent.
    intent_id: IntentId,
    /// The members that were set.
    policy: LoopPolicyAsk,
    /// The policy in force, with the server's members.
    effective_policy: LoopPolicy,
}

impl PolicyBody {
    fn new(intent_id: IntentId, policy: IntentLoopPolicy) -> Self {
        Self { intent_id, policy: policy.given, effective_policy: policy.effective }
    }
}

/// The first message of a lineage.
#[derive(Debug, Serialize, ToSchema)]
struct LineageRoot {
    /// Its id.
    message_id: MessageId,
    /// Its channel.
    channel_id: ChannelId,
    /// Who sent it.
    #[schema(example = "agent.ada")]
    sender: String,
}

/// Messages of one agent to another, or to everybody (`*`).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LineagePair)]
struct PairBody {
    /// The sender.
    #[schema(example = "agent.ada")]
    from: String,
    /// The recipient.
    #[schema(example = "agent.bob")]
    to: String,
    /// Number of messages.
    messages: u64,
}

/// A message and all that followed from it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lineage)]
pub struct LineageBody {
    /// Its id.
    id: LineageId,
    /// The intent.
    intent_id: IntentId,
    /// Its first message.
    root: LineageRoot,
    /// `running`, `told`, `slowed`, `stopped`; or `ended`: it was stopped, and its agents have something else to do.
    state: LineageState,
    /// The fault that was found in it; null if there never was one.
    cause: Option<LoopCause>,
    /// The most hops from the first message to any other.
    #[schema(example = 25)]
    hops: i64,
    /// Number of messages.
    #[schema(example = 26)]
    messages: i64,
    /// Of the last 16 messages, those that repeat an earlier one.
    #[schema(example = 13)]
    repeats: i64,
    /// Agents that sent some, up to 64; people are not counted in.
    agents: Vec<String>,
    /// The last 64 pairs that talked, the latest at the end.
    pairs: Vec<PairBody>,
    /// When the first message was sent.
    first_at: WireTime,
    /// When the last message was sent.
    last_at: WireTime,
}

impl LineageBody {
    /// Shapes a lineage in the client's dialect.
    #[must_use]
    pub fn new(intent_id: IntentId, one: ShownLineage, dialect: Dialect) -> Self {
        let pair = |pair: Pair| PairBody { from: pair.from, to: pair.to, messages: pair.messages };
        let root = LineageRoot {
            message_id: one.id.uuid().into(),
            channel_id: one.root_channel,
            sender: one.root_sender,
        };
        Self {
            id: one.id,
            intent_id,
            root,
            state: one.state,
            cause: one.cause,
            hops: one.hops,
            messages: one.messages,
            repeats: one.repeats,
            agents: one.agents,
            pairs: one.pairs.into_iter().map(pair).collect(),
            first_at: WireTime::new(one.first_at, dialect),
            last_at: WireTime::new(one.last_at, dialect),
        }
    }
}

/// A page of lineages.
#[derive(Debug, Serialize, ToSchema)]
pub struct LineageList {
    /// The lineages, newest first.
    pub lineages: Vec<LineageBody>,
}

/// Returns the state with this name.
///
/// # Errors
/// There is none.
pub fn state(word: &str) -> Result<LineageState, Refusal> {
    LineageState::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| {
        let message = format!("`{word}` is no state: use running, told, slowed, stopped or ended.");
        Refusal::new(Code::InvalidParameter, message)
    })
}

/// Get an intent's policy for loops
///
/// The members that were set for this intent, and the policy in force: missing members are the server's.
#[utoipa::path(operation_id = "get_loop_policy", tag = "agents",
    params(("intent_id" = IntentId, Path, description = "Id of the intent")),
    responses((status = 200, description = "The policy", body = PolicyBody)))]
#[get("/intents/{intent_id}/loop-policy")]
async fn get_policy(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let intent: IntentId = id("intent", &path)?;
    ok(&PolicyBody::new(intent, loops::policy(&api.ctx, &asker.caller, intent).await?))
}

/// Set an intent's policy for loops
///
/// Replaces the members that were set before; `{}` is the server's policy. For the intent's creator, those with an admin entry
/// on its access list, and operators. The server counts hops itself: the parent of a message is the request that it answers,
/// else the last message that its sender was sent on the intent within `window_seconds`; a person's message is always
/// new. An answer returns to who asked, and an agent's message to everybody is sent to nobody, unless `broadcasts` is
/// set. A loop is a lineage of at least `hops` hops, of whose last 16 messages at least `repeats` repeat an earlier
/// one; so a long dialogue with something to say is none. A storm is over one of the other limits. Then the steps
/// follow, each after `patience` more messages: `tell` records `loop.found`; `slow` lets the lineage's agents send a
/// message each `slow_seconds` (429, `loop_slowed`); `stop` refuses their messages on this intent (409, `loop_stopped`)
/// until somebody outside of the lineage sends them something.
#[utoipa::path(operation_id = "set_loop_policy", tag = "agents", request_body = LoopPolicyAsk,
    params(("intent_id" = IntentId, Path, description = "Id of the intent")),
    responses((status = 200, description = "The policy", body = PolicyBody),
              (status = 403, description = "`forbidden`: the caller does not manage the intent", body = ProblemBody)))]
#[put("/intents/{intent_id}/loop-policy")]
async fn set_policy(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<LoopPolicyAsk>,
) -> Reply {
    let intent: IntentId = id("intent", &path)?;
    let policy = loops::set_policy(&api.ctx, &asker.caller, intent, body.value).await?;
    ok(&PolicyBody::new(intent, policy))
}

/// List an intent's lineages
///
/// A lineage is a message and all that followed from it. The list has those in which somebody answered somebody, newest
/// first, for 30 days after their last message. A lineage with messages on closed channels is for those who are members
/// of all of them, and for whoever manages the intent.
#[utoipa::path(operation_id = "list_lineages", tag = "agents",
    params(("intent_id" = IntentId, Path, description = "Id of the intent"),
           ("state" = Option<String>, Query, description = "Only those in this state"),
           ("before" = Option<String>, Query, description = "Id of the last lineage of the previous page"), Limit1000),
    responses((status = 200, description = "The lineages", body = LineageList)))]
#[get("/intents/{intent_id}/lineages")]
async fn list(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let intent: IntentId = id("intent", &path)?;
    let before = query.text("before").map(|text| id::<LineageId>("lineage", text)).transpose()?;
    let state = query.text("state").map(state).transpose()?;
    let found = loops::list(&api.ctx, &asker.caller, intent, before, state, query.limit(PAGE)?).await?;
    let lineages = found.into_iter().map(|one| LineageBody::new(intent, one, asker.dialect)).collect();
    ok(&LineageList { lineages })
}

/// Get a lineage
#[utoipa::path(operation_id = "get_lineage", tag = "agents",
    params(("intent_id" = IntentId, Path, description = "Id of the intent"),
           ("lineage_id" = LineageId, Path, description = "Id of the lineage")),
    responses((status = 200, description = "The lineage", body = LineageBody)))]
#[get("/intents/{intent_id}/lineages/{lineage_id}")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let (intent, lineage) = ids(&path)?;
    let one = loops::get(&api.ctx, &asker.caller, intent, lineage).await?;
    ok(&LineageBody::new(intent, one, asker.dialect))
}

/// Let a lineage go on
///
/// For whoever manages the intent. Its agents may send again, on all servers within a second, and their messages until
/// now are no evidence any more. One that nothing is done about is returned as it is.
#[utoipa::path(operation_id = "release_lineage", tag = "agents",
    params(("intent_id" = IntentId, Path, description = "Id of the intent"),
           ("lineage_id" = LineageId, Path, description = "Id of the lineage")),
    responses((status = 200, description = "The lineage", body = LineageBody),
              (status = 403, description = "`forbidden`: the caller does not manage the intent", body = ProblemBody)))]
#[post("/intents/{intent_id}/lineages/{lineage_id}/release")]
async fn release(api: web::Data<HttpState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let (intent, lineage) = ids(&path)?;
    let one = loops::release(&api.ctx, &asker.caller, intent, lineage).await?;
    ok(&LineageBody::new(intent, one, asker.dialect))
}

fn ids(path: &(String, String)) -> Result<(IntentId, LineageId), Problem> {
    Ok((id("intent", &path.0)?, id("lineage", &path.1)?))
}
