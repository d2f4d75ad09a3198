//! Endpoint that lists who waits for whom, over all protocols, with the deadlocks among them.

use actix_web::{get, web};
use entente_bridges::waits;
use entente_bridges::waits::{ShownDeadlock, Waits};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{DeadlockId, IntentId};
use entente_domain::openintent::waits::{Wait, WaitKind};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list);
}

/// A wait of one agent for another.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Wait)]
struct WaitBody<'a> {
    /// The agent that waits.
    #[schema(example = "agent.writer")]
    from: &'a str,
    /// The awaited agent or person; null if any of several may end the wait.
    #[schema(example = "agent.researcher")]
    to: Option<&'a str>,
    /// Kind of the object that it waits for.
    kind: WaitKind,
    /// The request, the lease's scope, the task, the job or the moment.
    #[serde(rename = "ref")]
    #[schema(example = "research")]
    reference: &'a str,
    /// The intent that it happens on, if there is one.
    intent_id: Option<IntentId>,
    /// Since when.
    since: WireTime,
    /// Whether the agent can do nothing else until then, as far as the server knows: only such waits make deadlocks.
    blocks: bool,
}

/// A deadlock: agents that wait for one another, so that none of them goes on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Deadlock)]
struct DeadlockBody<'a> {
    /// Its id; null until it is recorded, within a second. A cycle of tasks and jobs alone is not recorded.
    id: Option<DeadlockId>,
    /// When it was found.
    found_at: Option<WireTime>,
    /// The agents.
    agents: &'a [String],
    /// Its waits.
    waits: Vec<WaitBody<'a>>,
}

/// Who waits for whom.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Waits)]
pub(crate) struct WaitsBody<'a> {
    /// The waits, oldest first.
    waits: Vec<WaitBody<'a>>,
    /// The deadlocks of which the caller may see every wait.
    deadlocks: Vec<DeadlockBody<'a>>,
    /// Agents that the caller may act as and that are in a deadlock, also in one that it may not see.
    deadlocked: &'a [String],
    /// Whether there are more waits than one answer has.
    truncated: bool,
}

impl<'a> WaitBody<'a> {
    fn new(wait: &'a Wait, dialect: Dialect) -> Self {
        Self {
            from: &wait.from,
            to: wait.to.as_deref(),
            kind: wait.kind,
            reference: &wait.reference,
            intent_id: wait.intent_id,
            since: WireTime::new(wait.since, dialect),
            blocks: wait.blocks,
        }
    }

    fn all(waits: &'a [Wait], dialect: Dialect) -> Vec<Self> {
        waits.iter().map(|wait| Self::new(wait, dialect)).collect()
    }
}

impl<'a> WaitsBody<'a> {
    pub(crate) fn new(found: &'a Waits, dialect: Dialect) -> Self {
        let deadlock = |one: &'a ShownDeadlock| DeadlockBody {
            id: one.recorded.map(|(id, _)| id),
            found_at: one.recorded.map(|(_, at)| WireTime::new(at, dialect)),
            agents: &one.agents,
            waits: WaitBody::all(&one.waits, dialect),
        };
        Self {
            waits: WaitBody::all(&found.waits, dialect),
            deadlocks: found.deadlocks.iter().map(deadlock).collect(),
            deadlocked: &found.deadlocked,
            truncated: found.truncated,
        }
    }
}

/// List who waits for whom
///
/// Requests whose sender waits in a call (`/ask`), leases with a queue, tasks for those that they depend on, jobs for those
/// that they delegated, and questions to people; and the deadlocks among them. A plain request that nobody waits for is no
/// wait. An admin sees all; anybody else the waits on intents that it may read, and those of its own agents. A deadlock
/// is recorded as `deadlock.found` in the log of each intent that it concerns, and its end as `deadlock.cleared`.
#[utoipa::path(operation_id = "list_waits", tag = "agents",
    responses((status = 200, description = "The waits", body = WaitsBody)))]
#[get("/waits")]
async fn list(api: web::Data<ApiState>, asker: Asker) -> Reply {
    let found = waits::list(&api.ctx, &asker.caller).await?;
    ok(&WaitsBody::new(&found, asker.dialect))
}
