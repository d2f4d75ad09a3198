//! Jobs that may not be claimed yet: a start at a time, and the pause before another attempt. Such a job is `pending`
//! without an agent in `job_clock`, so that no claim finds it, and claims need not look for its time.

use std::collections::BTreeMap;

use entente_domain::arcp::jobs::Job;
use entente_kernel::Outcome;
use entente_kernel::wakeups::WakeKey;
use sqlx::PgConnection;

use crate::Ctx;
use crate::jobs::writes;

/// Jobs released at once: those due at one second start in the order of the queue, not in that of the batches.
const TOGETHER: i64 = 10_000;

/// Workers woken for jobs of one agent; each that takes a job of many wakes the next one.
const WOKEN: usize = 32;

/// Stores the terms on which new jobs start, for those that have some.
pub(in crate::jobs) async fn plan(conn: &mut PgConnection, jobs: &[&Job]) -> Outcome<()> {
    for job in jobs {
        if job.retry.is_some() || job.queue_timeout.is_some() || job.not_before.is_some() {
            writes::plan(conn, job).await?;
            writes::put_off(conn, job).await?;
        }
    }
    Ok(())
}

/// Releases the jobs that may be claimed from now on, and wakes their workers; returns their number.
pub(in crate::jobs) async fn release_due(ctx: &Ctx) -> Outcome<u64> {
    let released = writes::release(&mut *ctx.pool.acquire().await?, ctx.now(), TOGETHER).await?;
    let count = released.len() as u64;
    let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
    for agent in released {
        *waiting.entry(agent).or_default() += 1;
    }
    for (agent, jobs) in waiting {
        for _ in 0..jobs.min(WOKEN) {
            ctx.feed.wake(WakeKey::Work(agent.clone()));
        }
    }
    Ok(count)
}
