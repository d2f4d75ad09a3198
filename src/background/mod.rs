//! What happens without being asked: sweeps, the feed's look into the database, webhooks, credentials, calls of tools, the other servers, and whether
//! the database is there. Everything here goes through the same deeds as people use, and is safe to run twice and on several
//! servers at once.

pub mod bridging;
pub mod calling;
pub mod deliver;
pub mod egress;
pub mod federate;
mod feeding;
pub mod handing;
mod peers;
pub mod provision;
pub mod revoke;
pub mod standstill;
pub mod sweeps;

use std::sync::Arc;
use std::time::Duration;

use entente_domain::ids::NodeId;
use entente_kernel::{AppError, Ctx, Outcome};
use entente_runtime::deadlines::within;
use entente_runtime::tasks::Tasks;
use sqlx::PgPool;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use self::deliver::Courier;
use self::federate::Carrier;

/// How often the database is asked whether it is there.
const PULSE: Duration = Duration::from_millis(500);

/// How long an answer may take until the database counts as gone.
const PULSE_LIMIT: Duration = Duration::from_secs(2);

/// Starts everything that runs in the background. Sweeps have a pool of their own.
pub fn start(
    ctx: &Ctx,
    sweeping: &PgPool,
    node: NodeId,
    (courier, carrier): (&Arc<Courier>, &Arc<Carrier>),
    tasks: &Tasks,
) {
    feeding::start(ctx, tasks);
    handing::start(&courier.ctx, tasks);
    standstill::start(&courier.standstill, tasks);
    let (courier, all) = (Arc::clone(courier), tasks.clone());
    tasks.keep("webhook deliveries", move || Arc::clone(&courier).drive(all.clone()));
    // Where nothing is federated there is nothing to carry.
    if ctx.settings.federation.is_some() {
        let (carrier, all) = (Arc::clone(carrier), tasks.clone());
        tasks.keep("federation", move || Arc::clone(&carrier).drive(all.clone()));
    }
    let (task, all) = (ctx.clone(), tasks.clone());
    tasks.keep("revocations", move || revoke::drive(task.clone(), all.clone()));
    peers::start(ctx, node, tasks);
    sweeps::turns::start(&Ctx { pool: sweeping.clone(), ..ctx.clone() }, tasks);
    keep(ctx, tasks, "pulse", pulse);
}

/// Keeps a task going that needs what deeds are handed, and to hear when the server stops.
fn keep<T: Future<Output = ()> + Send + 'static>(
    ctx: &Ctx,
    tasks: &Tasks,
    name: &'static str,
    task: impl Fn(Ctx, CancellationToken) -> T + Send + 'static,
) {
    let (ctx, stopping) = (ctx.clone(), tasks.stopping().clone());
    tasks.keep(name, move || task(ctx.clone(), stopping.clone()));
}

/// Ticks until the server stops; `None` then.
async fn tick(ticks: &mut tokio::time::Interval, stopping: &CancellationToken) -> Option<()> {
    stopping.run_until_cancelled(ticks.tick()).await.map(|_at| ())
}

/// Ticks of a period, without a rush after a pause.
fn every(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// How long something may take that is read or written in the background. It is longer than PostgreSQL lets a statement take, so that it
/// ends what PostgreSQL does not answer, and nothing else.
const TURN: Duration = Duration::from_secs(90);

/// The same of what streams wait for.
const FEED_TURN: Duration = Duration::from_secs(20);

/// Does something with the database, for so long at the most.
async fn timely<T>(limit: Duration, work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    // Boxed: whoever waits is then no larger than before.
    within(limit, Box::pin(work)).await?
}

/// A failure in the background: expected while the database is away (the pulse says so), else a defect.
fn note(what: &str, failure: &AppError) {
    if failure.is_passing() {
        tracing::debug!(task = what, error = %failure, "waiting for the database");
    } else {
        tracing::error!(task = what, error = %failure, "a background task failed");
    }
}

/// Watches whether the database is there, for the log, and what time it is there.
async fn pulse(ctx: Ctx, stopping: CancellationToken) {
    let mut ticks = every(PULSE);
    let mut up = true;
    while tick(&mut ticks, &stopping).await.is_some() {
        let alive = within(PULSE_LIMIT, ctx.ping()).await.unwrap_or_else(|late| Err(late.into()));
        let was = std::mem::replace(&mut up, alive.is_ok());
        ctx.metrics.database_up.set(i64::from(alive.is_ok()));
        match (was, alive) {
            (true, Err(failure)) => {
                tracing::error!(error = %failure, "the database is gone; requests get 503 until it is back");
            }
            (false, Ok(())) => tracing::info!("the database is there"),
            (true, Ok(())) | (false, Err(_)) => {}
        }
    }
}
