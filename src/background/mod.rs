//! Background tasks: sweeps, feed catch-up, webhook and federation delivery, credentials, tool calls, the
//! other servers, and the database's health. They call the same operations as the API, and are safe to run
//! repeatedly and on several servers at once.

pub mod bridging;
pub mod calling;
pub mod confirming;
pub mod deliver;
pub mod egress;
pub mod federate;
mod feeding;
pub mod handing;
pub mod inboxes;
mod indexing;
pub mod lookout;
pub mod looping;
mod nats;
pub mod notify;
mod pace;
mod peers;
mod permits;
pub mod provision;
pub mod pushing;
pub mod revoke;
pub mod standstill;
pub mod sweeps;

use std::sync::Arc;
use std::time::Duration;

use entente_bridges::Ctx;
use entente_kernel::{AppError, Outcome};
use entente_runtime::deadlines::within;
use entente_runtime::tasks::Tasks;
use entente_store::Pool;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use self::deliver::WebhookSender;
use self::federate::FederationSender;
use self::lookout::Lookout;
use self::notify::Notifier;
pub use self::peers::{PeerPort, PeerSetup};
use self::pushing::Pusher;

/// Interval of the database's health probe.
const PULSE: Duration = Duration::from_millis(500);

/// Time limit of the probe until the database counts as unavailable.
const PULSE_LIMIT: Duration = Duration::from_secs(2);

/// The senders of outgoing requests.
pub struct Senders {
    /// Webhooks to their receivers.
    pub webhooks: Arc<WebhookSender>,
    /// Messages to peers.
    pub federation: Arc<FederationSender>,
    /// Notifications to people.
    pub notifier: Arc<Notifier>,
    /// Push notifications of A2A tasks.
    pub pusher: Arc<Pusher>,
}

/// Starts all background tasks; sweeps use their own pool.
///
/// # Errors
/// The bus cannot be used as it is configured.
pub async fn start(
    ctx: &Ctx,
    sweeping: &Pool,
    peers: PeerSetup,
    senders: &Senders,
    lookout: &Arc<Lookout>,
    tasks: &Tasks,
) -> Outcome<()> {
    let Senders { webhooks: webhook_sender, federation: federation_sender, notifier, pusher } = senders;
    lookout::start(ctx, lookout, tasks);
    feeding::start(ctx, lookout, tasks);
    handing::start(&webhook_sender.ctx, lookout, tasks);
    if ctx.settings.search {
        indexing::start(ctx, lookout, tasks);
    }
    inboxes::start(ctx, lookout, tasks);
    looping::start(ctx, lookout, tasks);
    standstill::start(&webhook_sender.standstill, tasks);
    let (webhook_sender, look, all) = (Arc::clone(webhook_sender), Arc::clone(lookout), tasks.clone());
    tasks.keep("webhook deliveries", move || {
        Arc::clone(&webhook_sender).drive(Arc::clone(&look), all.clone())
    });
    let (notifier, look, all) = (Arc::clone(notifier), Arc::clone(lookout), tasks.clone());
    tasks.keep("notifications", move || Arc::clone(&notifier).drive(Arc::clone(&look), all.clone()));
    let (pusher, look, all) = (Arc::clone(pusher), Arc::clone(lookout), tasks.clone());
    tasks.keep("task pushes", move || Arc::clone(&pusher).drive(Arc::clone(&look), all.clone()));
    // Without federation there is nothing to send.
    if ctx.openintent.state.federation.is_some() {
        let (federation_sender, look, all) =
            (Arc::clone(federation_sender), Arc::clone(lookout), tasks.clone());
        tasks
            .keep("federation", move || Arc::clone(&federation_sender).drive(Arc::clone(&look), all.clone()));
    }
    let (task, look, all) = (ctx.clone(), Arc::clone(lookout), tasks.clone());
    tasks.keep("revocations", move || revoke::drive(task.clone(), Arc::clone(&look), all.clone()));
    peers::start(ctx, peers, tasks).await?;
    sweeps::turns::start(&ctx.with_pool(sweeping.clone()), lookout, tasks);
    keep(ctx, tasks, "probe_health", probe_health);
    Ok(())
}

/// Keeps a task running that needs the context and the stop signal.
fn keep<T: Future<Output = ()> + Send + 'static>(
    ctx: &Ctx,
    tasks: &Tasks,
    name: &'static str,
    task: impl Fn(Ctx, CancellationToken) -> T + Send + 'static,
) {
    let (ctx, stopping) = (ctx.clone(), tasks.stopping().clone());
    tasks.keep(name, move || task(ctx.clone(), stopping.clone()));
}

/// Waits for the next tick; `None` once the server stops.
async fn tick(ticks: &mut tokio::time::Interval, stopping: &CancellationToken) -> Option<()> {
    stopping.run_until_cancelled(ticks.tick()).await.map(|_at| ())
}

/// Returns an interval that does not catch up on missed ticks.
fn every(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Time limit of background work on the database.
///
/// It exceeds PostgreSQL's own statement limit, so it only ends work that PostgreSQL never answers.
const TURN: Duration = Duration::from_secs(90);

/// Time limit of work that streams wait for.
const FEED_TURN: Duration = Duration::from_secs(20);

/// Runs work on the database with a time limit.
async fn timely<T>(limit: Duration, work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    // Boxed, so that the caller's future does not grow.
    within(limit, Box::pin(work)).await?
}

/// Logs a background failure: expected while the database is unavailable (the probe reports that), otherwise
/// a defect.
fn note(what: &str, failure: &AppError) {
    if failure.is_passing() {
        tracing::debug!(task = what, error = %failure, "waiting for the database");
    } else {
        tracing::error!(task = what, error = %failure, "a background task failed");
    }
}

/// Probes the database, logs its availability, and synchronises with its clock.
async fn probe_health(ctx: Ctx, stopping: CancellationToken) {
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
