//! Work on the dashboard: jobs with progress and budget, agents' spending, webhook receivers.

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::capabilities::Authority;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{EndpointId, IntentId, JobId};
use serde::Deserialize;
use uuid::Uuid;

use crate::{Caller, Ctx, Outcome};

/// Number of latest jobs with summed spending.
const COUNTED: i64 = 500;
/// Maximum number of jobs shown.
const SHOWN: usize = 20;
/// Maximum number of receivers shown.
const RECEIVERS: i64 = 50;
/// Number of a job's latest events searched for its progress.
const RECENT: i64 = 200;
/// Number of a receiver's latest deliveries counted.
const DELIVERIES: i64 = 100;

/// A counter of a budget.
#[derive(Debug, Clone)]
pub struct Gauge {
    /// Currency.
    pub currency: String,
    /// Allowed amount.
    pub allowed: Amount,
    /// Remaining amount.
    pub left: Amount,
}

impl Gauge {
    /// Spent amount.
    fn spent(&self) -> Amount {
        self.allowed - self.left
    }
}

/// Summary of a job.
#[derive(Debug, Clone)]
pub struct Work {
    /// Its id.
    pub id: JobId,
    /// Agent that runs it, with version.
    pub agent: String,
    /// Principal that submitted it.
    pub principal: String,
    /// Its intent.
    pub intent_id: Option<IntentId>,
    /// Its status.
    pub status: String,
    /// Time of submission.
    pub created_at: Timestamp,
    /// Expiry of its authority.
    pub expires_at: Option<Timestamp>,
    /// End of the job.
    pub ended_at: Option<Timestamp>,
    /// Progress as reported: current value and total.
    pub progress: Option<(f64, Option<f64>)>,
    /// Message of the progress report.
    pub note: Option<String>,
    /// Its budget counters.
    pub gauges: Vec<Gauge>,
}

/// A job in a list of an intent's.
#[derive(Debug, Clone)]
pub struct JobOfIntent {
    /// Its id.
    pub id: JobId,
    /// Agent that runs it, with version.
    pub agent: String,
    /// Principal that submitted it.
    pub principal: String,
    /// Its status.
    pub status: String,
    /// Its end, or else its submission.
    pub last_at: Timestamp,
}

/// Amounts spent or reserved by an agent's jobs.
#[derive(Debug, Clone)]
pub struct Spend {
    /// The agent.
    pub agent: String,
    /// Currency.
    pub currency: String,
    /// Amount, without spending by child jobs of others.
    pub amount: Amount,
}

/// A webhook receiver.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// Its id.
    pub id: EndpointId,
    /// Whether the caller's principal owns it, so that it may read the endpoint itself.
    pub is_own: bool,
    /// Agent that owns it.
    pub agent: String,
    /// Host of its URL; the path may contain secrets.
    pub host: String,
    /// Why deliveries are disabled.
    pub disabled: Option<String>,
    /// Consecutive failures.
    pub failures: i32,
    /// End of the pause in deliveries.
    pub paused_until: Option<Timestamp>,
    /// Last error.
    pub last_error: Option<String>,
    /// Last successful delivery.
    pub last_success_at: Option<Timestamp>,
    /// Latest deliveries: waiting, delivered and failed.
    pub counts: [i64; 3],
}

/// Body of a progress event.
#[derive(Deserialize)]
struct Progress {
    current: Option<f64>,
    total: Option<f64>,
    message: Option<String>,
}

/// Lists the latest jobs of an intent that the caller may see, newest first.
///
/// # Errors
/// The caller lacks the scope.
pub async fn jobs_of_intent(
    ctx: &Ctx,
    caller: &Caller,
    intent: IntentId,
    limit: u32,
) -> Outcome<Vec<JobOfIntent>> {
    caller.require(Scope::JobsRead)?;
    let found = sqlx::query_as!(
        JobOfIntent,
        r#"-- overview::jobs_of_intent
         SELECT j.id, j.agent, j.principal, c.status, coalesce(c.ended_at, j.created_at) AS "last_at!"
         FROM jobs j JOIN job_clock c ON c.job_id = j.id
         WHERE j.intent_id = $1 AND ($2 OR j.principal = $3) ORDER BY j.id DESC LIMIT $4"#,
        intent.uuid(),
        caller.has(Scope::Admin),
        caller.agent,
        i64::from(limit)
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(found)
}

/// Lists the latest jobs that the caller may see, newest first, and the spending of the latest jobs' agents.
///
/// # Errors
/// The caller lacks the scope.
pub async fn works(ctx: &Ctx, caller: &Caller) -> Outcome<(Vec<Work>, Vec<Spend>)> {
    caller.require(Scope::JobsRead)?;
    let ids = newest(ctx, caller).await?;
    let gauges = gauges(ctx, &ids).await?;
    let spend = spend(&gauges);
    let shown = &ids[..ids.len().min(SHOWN)];
    let rows = sqlx::query!(
        r#"-- overview::works
         SELECT j.id, j.agent, j.principal, j.intent_id, j.created_at, j.expires_at, c.status, c.ended_at,
                p.body AS "progress?"
         FROM jobs j JOIN job_clock c ON c.job_id = j.id
         LEFT JOIN LATERAL (
             SELECT e.body FROM (SELECT kind, body, job_seq FROM job_events WHERE job_id = j.id
                                 ORDER BY job_seq DESC LIMIT $2) e
             WHERE e.kind = 'progress' ORDER BY e.job_seq DESC LIMIT 1) p ON true
         WHERE j.id = ANY($1) ORDER BY j.id DESC"#,
        shown,
        RECENT
    )
    .fetch_all(&ctx.pool)
    .await?;
    let works = rows.into_iter().map(|row| {
        let progress: Option<Progress> = row.progress.and_then(|body| serde_json::from_str(&body).ok());
        Work {
            id: row.id.into(),
            agent: row.agent,
            principal: row.principal,
            intent_id: row.intent_id.map(IntentId::from),
            status: row.status,
            created_at: row.created_at,
            expires_at: row.expires_at,
            ended_at: row.ended_at,
            progress: progress.as_ref().and_then(|progress| Some((progress.current?, progress.total))),
            note: progress.and_then(|progress| progress.message),
            gauges: gauges.get(&row.id).map(|job| job.gauges.clone()).unwrap_or_default(),
        }
    });
    Ok((works.collect(), spend))
}

/// Ids of the latest jobs that the caller may see.
async fn newest(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<Uuid>> {
    let ids = if caller.has(Scope::Admin) {
        sqlx::query_scalar!(
            "-- overview::all_jobs\n SELECT job_id AS id FROM job_clock WHERE status <> 'preparing' ORDER BY job_id DESC LIMIT $1",
            COUNTED
        )
        .fetch_all(&ctx.pool)
        .await?
    } else {
        sqlx::query_scalar!(
            "-- overview::own_jobs
             SELECT j.id FROM jobs j JOIN job_clock c ON c.job_id = j.id
             WHERE j.principal = $1 AND c.status <> 'preparing' ORDER BY j.id DESC LIMIT $2",
            caller.agent,
            COUNTED
        )
        .fetch_all(&ctx.pool)
        .await?
    };
    Ok(ids)
}

/// A job that has a budget.
struct Budgeted {
    agent: String,
    parent: Option<Uuid>,
    gauges: Vec<Gauge>,
}

/// Budget counters of those of these jobs that have any.
async fn gauges(ctx: &Ctx, ids: &[Uuid]) -> Outcome<BTreeMap<Uuid, Budgeted>> {
    let rows = sqlx::query!(
        r#"-- overview::gauges
         SELECT j.id, j.agent, j.parent_id, j.lease, b.currency, b.remaining::text AS "left!"
         FROM job_budgets b JOIN jobs j ON j.id = b.job_id WHERE b.job_id = ANY($1) ORDER BY b.job_id, b.currency"#,
        ids
    )
    .fetch_all(&ctx.pool)
    .await?;
    let mut found: BTreeMap<Uuid, Budgeted> = BTreeMap::new();
    for row in rows {
        let authority: Authority = serde_json::from_str(&row.lease)?;
        let allowed = Budget::of(&authority)?.0.get(&row.currency).copied().unwrap_or_default();
        let left = Amount::written(&row.left).unwrap_or_default();
        let job = found.entry(row.id).or_insert_with(|| Budgeted {
            agent: row.agent.split('@').next().unwrap_or_default().to_owned(),
            parent: row.parent_id,
            gauges: Vec::new(),
        });
        job.gauges.push(Gauge { currency: row.currency, allowed, left });
    }
    Ok(found)
}

/// Spending of each agent's own jobs.
///
/// A child's cost is charged to every counter above it, so it is subtracted from its parent's sum here.
fn spend(jobs: &BTreeMap<Uuid, Budgeted>) -> Vec<Spend> {
    let mut sums: BTreeMap<(String, String), Amount> = BTreeMap::new();
    let mut add = |agent: &str, currency: &str, amount: Amount| {
        let sum = sums.entry((agent.to_owned(), currency.to_owned())).or_default();
        *sum = *sum + amount;
    };
    for job in jobs.values() {
        let parent = job.parent.and_then(|parent| jobs.get(&parent));
        for gauge in &job.gauges {
            add(&job.agent, &gauge.currency, gauge.spent());
            let counts = |above: &&Budgeted| above.gauges.iter().any(|one| one.currency == gauge.currency);
            if let Some(above) = parent.filter(counts) {
                add(&above.agent, &gauge.currency, Amount::ZERO - gauge.spent());
            }
        }
    }
    let spent = sums.into_iter().filter(|(_, amount)| !amount.is_spent());
    let mut spend: Vec<Spend> =
        spent.map(|((agent, currency), amount)| Spend { agent, currency, amount }).collect();
    spend.sort_by(|a, b| (&a.currency, b.amount).cmp(&(&b.currency, a.amount)));
    spend
}

/// Returns the host of a URL, which alone is shown: other parts may contain secrets.
#[must_use]
pub fn url_host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // Text before an `@` may be a password.
    authority.rsplit('@').next().unwrap_or_default().to_owned()
}

/// Lists the caller's webhook receivers, or all for an admin, failing ones first.
///
/// # Errors
/// The caller lacks the scope.
pub async fn receivers(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<Receiver>> {
    caller.require(Scope::IntentsRead)?;
    let rows = sqlx::query!(
        r#"-- overview::receivers
         SELECT e.id, e.agent_id, e.url, e.disabled_reason, e.principal_id = $1 AS "is_own!", coalesce(s.failures, 0) AS "failures!",
                s.paused_until AS "paused_until?", s.last_error AS "last_error?",
                s.last_success_at AS "last_success_at?", d.waiting AS "waiting!", d.delivered AS "delivered!",
                d.failed AS "failed!"
         FROM webhook_endpoints e LEFT JOIN webhook_shifts s ON s.endpoint_id = e.id
         CROSS JOIN LATERAL (
             SELECT count(*) FILTER (WHERE status = 'waiting') AS waiting,
                    count(*) FILTER (WHERE status = 'delivered') AS delivered,
                    count(*) FILTER (WHERE status = 'failed') AS failed
             FROM (SELECT status FROM webhook_deliveries WHERE endpoint_id = e.id ORDER BY id DESC LIMIT $4) l) d
         WHERE e.removed_at IS NULL AND e.url IS NOT NULL AND ($2 OR e.principal_id = $1)
         ORDER BY coalesce(s.failures, 0) DESC, e.id DESC LIMIT $3"#,
        caller.principal(),
        caller.has(Scope::Admin),
        RECEIVERS,
        DELIVERIES
    )
    .fetch_all(&ctx.pool)
    .await?;
    let receivers = rows.into_iter().map(|row| Receiver {
        id: row.id.into(),
        is_own: row.is_own,
        agent: row.agent_id,
        host: url_host(&row.url.unwrap_or_default()),
        disabled: row.disabled_reason,
        failures: row.failures,
        paused_until: row.paused_until,
        last_error: row.last_error,
        last_success_at: row.last_success_at,
        counts: [row.waiting, row.delivered, row.failed],
    });
    Ok(receivers.collect())
}
