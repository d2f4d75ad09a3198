//! A job with all that it delegated, directly and through its children, and the cost of each.

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::JobStatus;
use entente_domain::clock::Timestamp;
use entente_domain::ids::JobId;
use entente_kernel::{Caller, Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Ctx;
use crate::jobs::reading::visible;
use crate::jobs::records::costs;

/// Jobs of a tree that are read at most, for its sums.
const READ: i64 = 10_000;

/// Stored status of a job that waits for its credentials: it is not accepted yet.
const PREPARING: &str = "preparing";

/// A job in a tree.
#[derive(Debug, Clone)]
pub struct Node {
    /// The job.
    pub job_id: JobId,
    /// The job that delegated it; `None` for the root.
    pub parent_id: Option<JobId>,
    /// Number of its ancestors in the tree.
    pub depth: i32,
    /// Agent that runs it.
    pub agent: String,
    /// Its status.
    pub status: JobStatus,
    /// Name of the delegation.
    pub delegate_id: Option<String>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its own cost, by currency.
    pub cost: Budget,
    /// Cost of this job and all jobs below it, by currency.
    pub total: Budget,
}

/// A job with everything below it: parents before their children.
#[derive(Debug)]
pub struct Tree {
    /// The jobs, up to the limit of the request.
    pub nodes: Vec<Node>,
    /// Number of jobs in the tree.
    pub count: usize,
    /// Number of jobs by status.
    pub by_status: BTreeMap<JobStatus, usize>,
    /// Whether the whole tree was read; otherwise the numbers and sums are lower bounds.
    pub is_complete: bool,
}

struct Row {
    id: Uuid,
    parent_id: Option<Uuid>,
    depth: i32,
    agent: String,
    status: String,
    delegate_id: Option<String>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
}

/// Returns the tree below a job, of which at most `limit` jobs are returned.
///
/// # Errors
/// There is no such job, or the caller may not see it.
pub async fn tree(ctx: &Ctx, caller: &Caller, id: JobId, limit: u32) -> Outcome<Tree> {
    let mut conn = ctx.pool.acquire().await?;
    // A child belongs to the principal of its parent: who sees the root sees the tree.
    visible(ctx, &mut conn, caller, id).await?;
    let rows = read(&mut conn, id).await?;
    let is_complete = i64::try_from(rows.len()).is_ok_and(|count| count < READ);
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.status != PREPARING).collect();
    let ids: Vec<JobId> = rows.iter().map(|row| row.id.into()).collect();
    let mut costs = costs::load(&mut conn, &ids).await?;
    let mut nodes = Vec::with_capacity(rows.len());
    for row in rows {
        let cost = costs.remove(&row.id.into()).unwrap_or_default();
        nodes.push(Node {
            job_id: row.id.into(),
            parent_id: row.parent_id.map(JobId::from),
            depth: row.depth,
            agent: row.agent,
            status: JobStatus::parse(&row.status).ok_or_else(|| unknown("job status", &row.status))?,
            delegate_id: row.delegate_id,
            created_at: row.created_at,
            ended_at: row.ended_at,
            total: cost.clone(),
            cost,
        });
    }
    sum(&mut nodes);
    let count = nodes.len();
    let mut by_status: BTreeMap<JobStatus, usize> = BTreeMap::new();
    nodes.iter().for_each(|node| *by_status.entry(node.status).or_default() += 1);
    nodes.truncate(limit as usize);
    Ok(Tree { nodes, count, by_status, is_complete })
}

/// Reads the tree level by level.
async fn read(conn: &mut PgConnection, id: JobId) -> Outcome<Vec<Row>> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- jobs::tree
         WITH RECURSIVE tree (id, parent_id, depth) AS (
             SELECT $1::uuid, NULL::uuid, 0
             UNION ALL SELECT j.id, j.parent_id, t.depth + 1 FROM tree t JOIN jobs j ON j.parent_id = t.id)
         SELECT j.id, t.parent_id, t.depth AS "depth!", j.agent, c.status, j.delegate_id, j.created_at, c.ended_at
         FROM (SELECT * FROM tree LIMIT $2) t JOIN jobs j ON j.id = t.id JOIN job_clock c ON c.job_id = t.id
         ORDER BY t.depth, j.id"#,
        id.uuid(),
        READ
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Adds the total of each job to its parent's; children come after their parents.
fn sum(nodes: &mut [Node]) {
    let places: BTreeMap<JobId, usize> =
        nodes.iter().enumerate().map(|(at, node)| (node.job_id, at)).collect();
    for at in (0..nodes.len()).rev() {
        let Some(parent) = nodes[at].parent_id.and_then(|parent| places.get(&parent).copied()) else {
            continue;
        };
        for (currency, amount) in nodes[at].total.0.clone() {
            let sum = nodes[parent].total.0.entry(currency).or_insert(Amount::ZERO);
            *sum = *sum + amount;
        }
    }
}
