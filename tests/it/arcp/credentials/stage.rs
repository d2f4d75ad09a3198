//! Fixtures for credential tests: a server with configured provisioners, and jobs in its database.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use entente::background::revoke;
use entente_arcp::credentials;
use entente_arcp::credentials::Made;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::capabilities::Authority;
use entente_domain::arcp::jobs::order::Priority;
use entente_domain::arcp::jobs::wire::Credential;
use entente_domain::arcp::jobs::{Job, JobStatus, OnLost};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, SessionId};
use entente_domain::refusal::Refusal;

use super::upstream::{ADMIN_KEY, Upstream};
use entente_harness::{Cluster, Setup, Value, World, json};

/// Writes a file with the operator's provisioners; returns its path.
pub fn file(provisioners: &Value) -> &'static str {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = Cluster::get().file(&format!("provisioners-{n}.json"));
    std::fs::write(&path, json!({ "provisioners": provisioners }).to_string()).unwrap();
    Box::leak(path.to_str().unwrap().to_owned().into_boxed_str())
}

/// Returns a `LiteLLM` provisioner with these members added.
pub fn litellm(upstream: &Upstream, more: &Value) -> Value {
    let mut entry =
        json!({ "name": "llm", "kind": "litellm", "url": upstream.url(), "key": "${TEST_ADMIN_KEY}" });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

/// Returns a provisioner for another broker, which assigns its own ids.
pub fn broker(upstream: &Upstream) -> Value {
    let headers = json!({ "authorization": "Bearer ${TEST_ADMIN_KEY}" });
    json!({
        "name": "search", "kind": "http", "agents": ["research*"], "profile": "generic",
        "mint": { "url": format!("{}/tokens", upstream.url()), "headers": headers,
                  "body": { "name": "{alias}", "cap": "{budget.USD}", "euros": "{budget.EUR}", "for": "job {job_id} of {principal}",
                            "seconds": "{ttl_sec}", "tags": ["{agent_name}", "{models}"], "fixed": 7 } },
        "answer": { "value": "/data/secret", "upstream_id": "/data/id", "endpoint": "/data/url" },
        "find": { "method": "GET", "url": format!("{}/tokens?name={{alias}}", upstream.url()), "headers": headers },
        "revoke": { "method": "DELETE", "url": format!("{}/tokens/{{upstream_id}}", upstream.url()), "headers": headers },
    })
}

/// Returns the settings for these provisioners.
pub fn setup(provisioners: &Value) -> Setup {
    let settings = vec![("ENTENTE_CREDENTIALS_FILE", file(provisioners)), ("TEST_ADMIN_KEY", ADMIN_KEY)];
    Setup { settings, live: false }
}

/// Starts a server with its upstream.
pub async fn world(of: impl Fn(&Upstream) -> Value) -> (World, Upstream) {
    let upstream = Upstream::start().await;
    let setup = setup(&json!([of(&upstream)]));
    (World::on(setup, Cluster::get().fresh_database().await).await, upstream)
}

/// Returns a submitted job of an agent with a lease.
pub fn job(world: &World, agent: &str, lease: &Value) -> Job {
    let (ctx, now) = (world.ctx(), world.ctx().now());
    let lease = Authority::check(serde_json::from_value(lease.clone()).unwrap()).unwrap();
    let id = JobId::mint(now, &*ctx.chance);
    let payers = if Budget::of(&lease).unwrap().is_unlimited() { Vec::new() } else { vec![id] };
    Job {
        id,
        agent: agent.to_owned(),
        principal: "agent.ada".to_owned(),
        session_id: SessionId::mint(now, &*ctx.chance),
        counted: false,
        lease,
        expires_at: None,
        deadline: None,
        idempotency_key: None,
        fingerprint: [0; 32],
        parent_id: None,
        delegate_id: None,
        generation: 0,
        payers,
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        intent_id: None,
        needs_model: false,
        on_lost: OnLost::Requeue,
        max_attempts: 1,
        priority: Priority::default(),
        retry: None,
        queue_timeout: None,
        concurrency: None,
        slotted: false,
        created_at: now,
        key_id: None,
        owner: None,
        reserves: false,
        status: JobStatus::Pending,
        last_seq: 0,
        origin_seq: 0,
        attempt: 0,
        failures: 0,
        retried: Vec::new(),
        not_before: None,
        queue_due_at: None,
        claim: None,
        cancel: None,
        streamed: None,
        abandoned: Vec::new(),
        ended_at: None,
        ended_by: None,
    }
}

/// Stores a job with this status.
pub async fn write(world: &World, job: &Job, status: &str) {
    let pool = &world.ctx().pool;
    sqlx::query(
        "INSERT INTO jobs (id, agent, principal, session_id, counted, lease, fingerprint, parent_id, generation, payers,
                           trace_id, needs_model, on_lost, max_attempts, created_at, idempotency_key)
         VALUES ($1, $2, $3, $4, false, $5, $6, $7, 0, $8, $9, false, 'requeue', 1, $10, $11)",
    )
    .bind(job.id.uuid())
    .bind(&job.agent)
    .bind(&job.principal)
    .bind(job.session_id.uuid())
    .bind(serde_json::to_string(&job.lease).unwrap())
    .bind(job.fingerprint.as_slice())
    .bind(job.parent_id.map(JobId::uuid))
    .bind(job.payers.iter().map(|id| id.uuid()).collect::<Vec<_>>())
    .bind(&job.trace_id)
    .bind(job.created_at)
    .bind(&job.idempotency_key)
    .execute(pool)
    .await
    .unwrap();
    sqlx::query(
        "INSERT INTO job_clock (job_id, agent, status, last_seq, origin_seq, attempt, abandoned) VALUES ($1, $2, $3, 0, 0, 0, '{}')",
    )
    .bind(job.id.uuid())
    .bind(&job.agent)
    .bind(status)
    .execute(pool)
    .await
    .unwrap();
    for (currency, amount) in Budget::of(&job.lease).unwrap().0 {
        sqlx::query("INSERT INTO job_budgets (job_id, currency, remaining) VALUES ($1, $2, $3::numeric)")
            .bind(job.id.uuid())
            .bind(currency)
            .bind(amount.to_string())
            .execute(pool)
            .await
            .unwrap();
    }
}

/// Stores the job and its prepared credentials, and mints them.
pub async fn asked(world: &World, job: &Job) -> Result<Vec<Made>, Refusal> {
    let ctx = world.ctx();
    write(world, job, "preparing").await;
    let mut tx = ctx.begin(&[]).await.unwrap();
    let prepared = credentials::prepare(&ctx.arcp, &mut tx, job).await.unwrap();
    tx.commit().await.unwrap();
    match credentials::mint(&ctx.arcp, job, prepared).await {
        Ok(made) => Ok(made),
        Err(failed) => {
            let mut tx = ctx.begin(&[]).await.unwrap();
            credentials::lose(&mut tx, &failed.lost, ctx.now()).await.unwrap();
            tx.commit().await.unwrap();
            Err(failed.refusal)
        }
    }
}

/// Mints the job's credentials and accepts it, in the order of the server.
pub async fn accepted(world: &World, job: &Job) -> Result<Vec<Credential>, Refusal> {
    let made = asked(world, job).await?;
    let mut tx = world.ctx().begin(&[]).await.unwrap();
    let shown = credentials::store(&mut tx, &made).await.unwrap().unwrap();
    stand(world, job, "pending").await;
    tx.commit().await.unwrap();
    Ok(shown)
}

/// Sets a job's status.
pub async fn stand(world: &World, job: &Job, status: &str) {
    sqlx::query("UPDATE job_clock SET status = $2 WHERE job_id = $1")
        .bind(job.id.uuid())
        .bind(status)
        .execute(&world.ctx().pool)
        .await
        .unwrap();
}

/// Ends the credentials of jobs, as the operations that end jobs do.
pub async fn end(world: &World, jobs: &[JobId]) -> u64 {
    let mut tx = world.ctx().begin(&[]).await.unwrap();
    let ended = credentials::end_of_jobs(&mut tx, jobs, world.ctx().now()).await.unwrap();
    tx.commit().await.unwrap();
    ended
}

/// Revokes all due credentials; returns the number of attempts.
pub async fn take_back(world: &World) -> usize {
    revoke::step(world.ctx()).await.unwrap()
}

/// Returns the states of all credentials.
pub async fn states(world: &World) -> Vec<String> {
    sqlx::query_scalar("SELECT state FROM credentials ORDER BY state")
        .fetch_all(&world.ctx().pool)
        .await
        .unwrap()
}

/// Formats a time as clients see it.
pub fn shown(at: Timestamp) -> String {
    entente_domain::clock::rfc3339(at)
}

/// Returns every place of the database that contains a text, as `table.column`.
pub async fn places_of(world: &World, text: &str) -> Vec<String> {
    let pool = &world.ctx().pool;
    let columns: Vec<(String, String)> = sqlx::query_as(
        "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'public'",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    assert!(columns.len() > 100, "only {} columns were found", columns.len());
    let mut found = Vec::new();
    for (table, column) in columns {
        let sql = format!("SELECT count(*) FROM \"{table}\" WHERE position($1 in \"{column}\"::text) > 0");
        let hits: i64 =
            sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(text).fetch_one(pool).await.unwrap();
        if hits > 0 {
            found.push(format!("{table}.{column}"));
        }
    }
    found
}

/// Returns the working credentials of a job.
pub async fn live(world: &World, job: &Job) -> Vec<Credential> {
    let mut conn = world.ctx().pool.acquire().await.unwrap();
    let mut found: HashMap<JobId, Vec<Credential>> =
        credentials::of_jobs(&mut conn, &[job.id]).await.unwrap();
    found.remove(&job.id).unwrap_or_default()
}
