//! Coordination with the other servers of this database: detects them, wakes them, and is woken by them.

use std::time::Duration;

use entente_bridges::Ctx;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, NodeId};
use entente_kernel::AppError;
use entente_kernel::identity::keys;
use entente_kernel::nodes;
use entente_kernel::nodes::{TOPIC, leave, read, sign};
use entente_kernel::wakeups::WakeKey;
use entente_runtime::deadlines::within;
use entente_runtime::tasks::Tasks;
use sqlx::postgres::PgListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{FEED_TURN, every, keep, note, tick, timely};

/// Interval at which a server signals its presence.
const SIGN: Duration = Duration::from_secs(2);

/// Time over which commits are collected into one notification: sending one takes a lock that all commits
/// share.
const COALESCE: Duration = Duration::from_millis(5);

/// Pause before listening again after a lost connection.
const RELISTEN: Duration = Duration::from_millis(500);

/// Silence after which the listening connection is tested.
const SILENCE: Duration = Duration::from_secs(10);

/// Time limit of that test.
const ANSWER: Duration = Duration::from_secs(2);

/// Starts the tasks for coordination with other servers.
pub fn start(ctx: &Ctx, node: NodeId, tasks: &Tasks) {
    let started_at = ctx.now();
    keep(ctx, tasks, "peers sign", move |ctx, stopping| signing(ctx, node, started_at, stopping));
    keep(ctx, tasks, "peers wake", move |ctx, stopping| waking(ctx, node, stopping));
    keep(ctx, tasks, "peers listen", move |ctx, stopping| listening(ctx, node, stopping));
}

async fn signing(ctx: Ctx, node: NodeId, started_at: Timestamp, stopping: CancellationToken) {
    let mut ticks = every(SIGN);
    while tick(&mut ticks, &stopping).await.is_some() {
        see(&ctx, node, started_at).await;
    }
    if let Err(failure) = leave(&ctx, node).await {
        note("peers leave", &failure);
    }
}

async fn waking(ctx: Ctx, node: NodeId, stopping: CancellationToken) {
    while let Some(mut touched) = stopping.run_until_cancelled(ctx.feed.touched()).await {
        sleep(COALESCE).await;
        touched.extend(ctx.feed.take_touched());
        if let Err(failure) = timely(FEED_TURN, nodes::wake(&ctx, node, touched)).await {
            note("peers wake", &failure);
        }
    }
}

async fn listening(ctx: Ctx, node: NodeId, stopping: CancellationToken) {
    while !stopping.is_cancelled() {
        if let Some(Err(failure)) = stopping.run_until_cancelled(listen(&ctx, node, &stopping)).await {
            note("peers listen", &failure);
            stopping.run_until_cancelled(sleep(RELISTEN)).await;
        }
    }
}

async fn see(ctx: &Ctx, node: NodeId, started_at: Timestamp) {
    match timely(FEED_TURN, sign(ctx, node, started_at)).await {
        Ok(peers) => ctx.feed.set_peers(peers),
        Err(failure) => note("peers sign", &failure),
    }
}

/// Listens for notifications until the connection fails.
async fn listen(ctx: &Ctx, node: NodeId, stopping: &CancellationToken) -> Result<(), AppError> {
    let mut listener = PgListener::connect_with(&ctx.pool).await?;
    listener.listen(TOPIC).await?;
    everything(ctx).await?;
    while !stopping.is_cancelled() {
        let Ok(heard) = timeout(SILENCE, listener.try_recv()).await else {
            // Either the others were quiet, or the connection is dead.
            within(ANSWER, sqlx::raw_sql("SELECT 1").execute(&mut listener)).await??;
            continue;
        };
        match heard? {
            // The connection was re-established: notifications may have been lost.
            None => everything(ctx).await?,
            Some(notification) => match read(notification.payload()) {
                Some((sender, _)) if sender == node => {}
                Some((_, touched)) => {
                    ctx.feed.set_peers(true);
                    hear(ctx, &touched).await?;
                }
                None => tracing::debug!("a notification that is none of ours"),
            },
        }
    }
    Ok(())
}

async fn hear(ctx: &Ctx, touched: &[WakeKey]) -> Result<(), AppError> {
    if touched.contains(&WakeKey::Intent(IntentId::SYSTEM)) {
        keys::refresh(ctx).await?;
    }
    for touch in touched {
        match touch {
            WakeKey::Intent(intent) => ctx.feed.look_at(*intent),
            touch => ctx.feed.wakeups().ring(touch),
        }
    }
    Ok(())
}

async fn everything(ctx: &Ctx) -> Result<(), AppError> {
    keys::refresh(ctx).await?;
    ctx.feed.followed().into_iter().for_each(|intent| ctx.feed.look_at(intent));
    let wakeups = ctx.feed.wakeups();
    let work = wakeups.awaited().into_iter().map(WakeKey::Work);
    wakeups.listened().into_iter().chain(work).for_each(|touch| wakeups.ring(&touch));
    Ok(())
}
