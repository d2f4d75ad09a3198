//! Sums by day: ended jobs by status, and how long answers took.

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::floor;

use crate::{Caller, Ctx, Outcome};

/// Number of jobs that ended on a day in one status.
#[derive(Debug, Clone)]
pub struct EndedJobs {
    /// The day, as a date in UTC.
    pub day: String,
    /// The status.
    pub status: String,
    /// Their number.
    pub count: i64,
}

/// The answered questions that were asked on a day.
#[derive(Debug, Clone)]
pub struct AnsweredQuestions {
    /// The day, as a date in UTC.
    pub day: String,
    /// Their number.
    pub count: i64,
    /// Median time to the answer, in seconds.
    pub median: f64,
    /// Longest time to the answer, in seconds.
    pub longest: f64,
}

/// Counts the jobs that have ended since a time and that the caller may see, by day and status.
///
/// # Errors
/// The caller lacks the scope.
pub async fn ended_jobs(ctx: &Ctx, caller: &Caller, from: Timestamp) -> Outcome<Vec<EndedJobs>> {
    caller.require(Scope::JobsRead)?;
    let found = sqlx::query_as!(
        EndedJobs,
        r#"-- overview::ended_jobs
         SELECT to_char(c.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS "day!", c.status, count(*) AS "count!"
         FROM job_clock c JOIN jobs j ON j.id = c.job_id
         WHERE c.ended_at >= $1 AND ($2 OR j.principal = $3) GROUP BY 1, 2 ORDER BY 1, 2"#,
        from,
        caller.has(Scope::Admin),
        caller.agent
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(found)
}

/// Sums up the answered questions asked since a time that the caller asked or is asked, or all for an admin, by day.
///
/// # Errors
/// The caller lacks the scope.
pub async fn answered_questions(
    ctx: &Ctx,
    caller: &Caller,
    from: Timestamp,
) -> Outcome<Vec<AnsweredQuestions>> {
    caller.require(Scope::MomentsRead)?;
    let found = sqlx::query_as!(
        AnsweredQuestions,
        r#"-- overview::answered_questions
         SELECT to_char(m.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS "day!", count(*) AS "count!",
                percentile_cont(0.5) WITHIN GROUP (
                    ORDER BY extract(epoch FROM m.resolved_at - m.created_at)::float8) AS "median!",
                max(extract(epoch FROM m.resolved_at - m.created_at))::float8 AS "longest!"
         FROM moments m
         WHERE m.id >= $1 AND m.resolved_at IS NOT NULL
           AND ($2 OR m.agent_id = $3 OR m.principal_id = $3) GROUP BY 1 ORDER BY 1"#,
        floor(from),
        caller.has(Scope::Admin),
        caller.agent
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(found)
}
