//! Endpoint for a job with all that it delegated, and the cost of each (beyond ARCP).

use std::collections::BTreeMap;

use actix_web::{get, web};
use entente_arcp::jobs::Node;
use entente_arcp::{Ctx, jobs};
use entente_domain::arcp::jobs::JobStatus;
use entente_domain::arcp::jobs::wire::numbers;
use entente_domain::clock::rfc3339;
use entente_domain::ids::JobId;
use entente_domain::limits::PAGE;
use entente_http::body::Query;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_kernel::{Caller, Outcome};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;
use crate::jobs::job_id;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(tree);
}

/// A job in a tree.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobTreeNode)]
struct NodeBody {
    /// The job.
    job_id: JobId,
    /// The job that delegated it; null for the root.
    parent_job_id: Option<JobId>,
    /// Number of its ancestors in the tree.
    depth: i32,
    /// Agent that runs it.
    agent: String,
    /// Its status.
    status: JobStatus,
    /// Name of the delegation.
    #[serde(skip_serializing_if = "Option::is_none")]
    delegate_id: Option<String>,
    /// When it was accepted.
    created_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Its own cost, by currency.
    #[schema(value_type = Object)]
    cost: Map<String, Value>,
    /// Cost of this job and all jobs below it, by currency.
    #[schema(value_type = Object)]
    total_cost: Map<String, Value>,
}

impl From<Node> for NodeBody {
    fn from(node: Node) -> Self {
        Self {
            job_id: node.job_id,
            parent_job_id: node.parent_id,
            depth: node.depth,
            agent: node.agent,
            status: node.status,
            delegate_id: node.delegate_id,
            created_at: rfc3339(node.created_at),
            ended_at: node.ended_at.map(rfc3339),
            cost: numbers(&node.cost),
            total_cost: numbers(&node.total),
        }
    }
}

/// A job with all that it delegated, directly and through its children.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobTree)]
pub struct TreeBody {
    /// The jobs, parents before their children; the first is the root.
    jobs: Vec<NodeBody>,
    /// Number of jobs in the tree.
    count: usize,
    /// Number of jobs by status.
    by_status: BTreeMap<&'static str, usize>,
    /// Cost of all jobs of the tree, by currency.
    #[schema(value_type = Object)]
    total_cost: Map<String, Value>,
    /// Whether the whole tree was read: of one with 10,000 jobs or more, numbers and sums are lower bounds.
    complete: bool,
}

impl TreeBody {
    /// Loads the tree below a job: up to `limit` jobs, and the sums of all.
    ///
    /// # Errors
    /// As [`jobs::tree`].
    pub async fn load(ctx: &Ctx, caller: &Caller, id: JobId, limit: u32) -> Outcome<Self> {
        let found = jobs::tree(ctx, caller, id, limit).await?;
        let total_cost = found.nodes.first().map(|root| numbers(&root.total)).unwrap_or_default();
        Ok(Self {
            jobs: found.nodes.into_iter().map(NodeBody::from).collect(),
            count: found.count,
            by_status: found.by_status.into_iter().map(|(status, count)| (status.as_str(), count)).collect(),
            total_cost,
            complete: found.is_complete,
        })
    }

    /// Number of jobs in the tree.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

/// Get a job with its children
///
/// Costs are counted by job since this server's release that introduced trees.
#[utoipa::path(operation_id = "get_job_tree", tag = "jobs",
    params(("limit" = Option<u32>, Query, description = "Maximum number of jobs returned, 1 to 1,000; defaults to 200. The sums are of all")),
    responses((status = 200, description = "The tree", body = TreeBody)))]
#[get("/jobs/{job_id}/tree")]
async fn tree(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let limit = query.number("limit", 200, 1, PAGE)?;
    ok(&TreeBody::load(&api.ctx, &asker.caller, job_id(&path)?, limit).await?)
}
