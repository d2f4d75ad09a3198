//! Routes of agents' sessions: epochs, which refuse the writes of an agent's earlier processes.

use actix_web::{HttpRequest, get, post, web};
use entente_domain::identity::epochs::AgentSession;
use entente_domain::identity::keys::Dialect;
use entente_kernel::identity::epochs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{IdempotencyKey, OptionalBody};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::WireTime;
use crate::{HttpState, created, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(open).service(get);
}

/// The latest session of an agent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentSession)]
struct SessionBody {
    /// The agent.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// Its epoch, from 1: the value of `Entente-Epoch` in the writes of this session.
    #[schema(example = 7)]
    epoch: i64,
    /// Principal that opened it.
    opened_by: String,
    /// When it was opened.
    opened_at: WireTime,
    /// Whether every write of the agent has to name its epoch.
    strict: bool,
}

impl SessionBody {
    fn new(session: AgentSession, dialect: Dialect) -> Self {
        let opened_at = WireTime::new(session.opened_at, dialect);
        let AgentSession { agent_id, epoch, opened_by, strict, .. } = session;
        Self { agent_id, epoch, opened_by, opened_at, strict }
    }
}

/// A session to open.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewAgentSession, example = json!({ "strict": true }))]
struct OpenBody {
    /// Whether every write of the agent has to name its epoch from now on; absent leaves that as it is, at first no.
    strict: Option<bool>,
}

/// Open a session of an agent
///
/// For a process that begins to act as the agent. The response has the session's epoch, one higher than before. Writes with
/// `Entente-Epoch` take effect only while it is the agent's latest: from this response on, an earlier process of the agent
/// that was paused, cut off or forgotten is refused with `stale_epoch`, on all servers. Other requests are not concerned,
/// unless the agent is `strict`. With `Entente-Epoch`, the session is opened only if that one is the latest.
#[utoipa::path(operation_id = "open_agent_session", tag = "agents", request_body = Option<OpenBody>,
    params(("agent_id" = String, Path, description = "The agent"), IdempotencyKey),
    responses((status = 201, description = "The session", body = SessionBody)))]
#[post("/agents/{agent_id}/sessions")]
async fn open(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<OpenBody>,
) -> Reply {
    let once = body.0.once(&request)?;
    let strict = body.0.value.strict;
    let session = epochs::open(&api.ctx, &asker.caller, &path, strict, once.as_ref()).await?;
    created(&SessionBody::new(session, asker.dialect))
}

/// Get the latest session of an agent
#[utoipa::path(operation_id = "get_agent_session", tag = "agents",
    params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The session", body = SessionBody)))]
#[get("/agents/{agent_id}/sessions")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&SessionBody::new(epochs::get(&api.ctx, &asker.caller, &path).await?, asker.dialect))
}
