//! Coordination with the other servers of this database: detects them, says which wake-ups this server wants, wakes
//! them, and is woken by them (`peers/bus.rs`), and hands commands to those that own the intents (`peers/affinity.rs`).

mod affinity;
mod bus;
mod frames;
mod taking;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use entente_bridges::Ctx;
use entente_domain::ids::{IntentId, NodeId};
use entente_kernel::identity::keys;
use entente_kernel::nodes::{self, Peer, Sign, leave, notifications, read, sign};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::wakeups::interest::Shards;
use entente_kernel::{AppError, Outcome};
use entente_openintent::messages::writer::MessageWriter;
use entente_openintent::messages::writer::forwarding::Forwarder;
use entente_runtime::tasks::Tasks;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::affinity::Affinity;
use self::bus::{Bus, Ear, Heard};
use self::frames::Secret;
use super::{FEED_TURN, every, keep, note, timely};
use crate::config::bus::BusConfig;
use crate::config::peers::PeerConfig;

/// Interval at which a server signals its presence.
const SIGN: Duration = Duration::from_secs(2);

/// Time over which commits are collected into one notification: sending one takes a lock that all commits
/// share.
const COALESCE: Duration = Duration::from_millis(5);

/// Pause before listening again after a lost connection.
const RELISTEN: Duration = Duration::from_millis(500);

/// Interval at which shards that nobody waits for any more are given up.
const TIDY: Duration = Duration::from_secs(1);

/// Silence after which the listening connection is tested.
const SILENCE: Duration = Duration::from_secs(10);

/// Number of signs between two counts of the shards that this server wants.
const RECOUNT: u32 = 3;

/// This server among the others.
pub struct PeerSetup {
    /// The server.
    pub node: NodeId,
    /// The bus by which they wake each other.
    pub bus: BusConfig,
    /// How commands are handed over, if this server takes part in that.
    pub port: Option<PeerPort>,
}

/// A server's part in handing commands to the servers that own their intents.
#[derive(Clone)]
pub struct PeerPort {
    affinity: Arc<Affinity>,
    secret: Secret,
    listener: Arc<std::sync::Mutex<Option<TcpListener>>>,
    url: String,
}

impl PeerPort {
    /// Listens for commands of other servers.
    ///
    /// # Errors
    /// The address is not available.
    pub fn open(ctx: &Ctx, node: NodeId, config: &PeerConfig, tasks: &Tasks) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind(config.listen)?;
        listener.set_nonblocking(true)?;
        let url =
            config.url.clone().map_or_else(|| listener.local_addr().map(|at| format!("tcp://{at}")), Ok)?;
        let secret = Secret::of(&ctx.server_keys.signer, &ctx.chance);
        let affinity = Arc::new(Affinity::new(node, secret.clone(), &ctx.metrics, tasks));
        let listener = Arc::new(std::sync::Mutex::new(Some(TcpListener::from_std(listener)?)));
        Ok(Self { affinity, secret, listener, url })
    }

    /// Returns the forwarder of commands.
    #[must_use]
    pub fn forwarder(&self) -> Arc<dyn Forwarder> {
        Arc::clone(&self.affinity) as Arc<dyn Forwarder>
    }

    /// Starts to take commands of other servers.
    pub fn take(&self, writer: &Arc<MessageWriter>, tasks: &Tasks) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listener) = listener {
            taking::start(listener, self.secret.clone(), Arc::clone(writer), tasks);
        }
    }
}

/// State that the tasks of this file share.
#[derive(Clone)]
struct Shared {
    bus: Bus,
    sign: Sign,
    /// The shards that this server listens to.
    attended: Arc<watch::Sender<Shards>>,
    affinity: Option<Arc<Affinity>>,
    /// Whether a server of an earlier release is present, which is woken for everything on the common channel.
    old_peers: Arc<watch::Sender<bool>>,
}

/// Starts the tasks for coordination with other servers.
///
/// # Errors
/// The bus cannot be used as it is configured.
pub(super) async fn start(ctx: &Ctx, setup: PeerSetup, tasks: &Tasks) -> Outcome<()> {
    let peer_url = setup.port.as_ref().map(|port| port.url.clone());
    let shared = Shared {
        bus: Bus::open(&setup.bus, ctx).await?,
        sign: Sign { node: setup.node, started_at: ctx.now(), interest: Shards::LEAST, peer_url },
        affinity: setup.port.map(|port| port.affinity),
        attended: Arc::new(watch::Sender::new(Shards::NONE)),
        old_peers: Arc::new(watch::Sender::new(false)),
    };
    let (of_signs, of_wakes) = (shared.clone(), shared.clone());
    keep(ctx, tasks, "peers sign", move |ctx, stopping| signing(ctx, of_signs.clone(), stopping));
    keep(ctx, tasks, "peers wake", move |ctx, stopping| waking(ctx, of_wakes.clone(), stopping));
    keep(ctx, tasks, "peers listen", move |ctx, stopping| listening(ctx, shared.clone(), stopping));
    Ok(())
}

/// Signs regularly, and at once when this server listens to more than before.
async fn signing(ctx: Ctx, shared: Shared, stopping: CancellationToken) {
    let mut ticks = every(SIGN);
    let (mut attended, mut announced, mut signs) = (shared.attended.subscribe(), Shards::NONE, 0_u32);
    let next = async |ticks: &mut tokio::time::Interval, attended: &mut watch::Receiver<Shards>| {
        tokio::select! {
            _ = ticks.tick() => true,
            _ = attended.changed() => false,
        }
    };
    while let Some(is_tick) = stopping.run_until_cancelled(next(&mut ticks, &mut attended)).await {
        if is_tick {
            signs = signs.wrapping_add(1);
            if signs.is_multiple_of(RECOUNT) {
                ctx.feed.recount_interest();
            }
        }
        // The shards that it listens to, not those that it wants: nothing is lost between the two.
        let interest = *attended.borrow_and_update();
        match timely(FEED_TURN, see(&ctx, &shared, interest, announced)).await {
            Ok(()) => announced = interest,
            Err(failure) => note("peers sign", &failure),
        }
    }
    if let Err(failure) = leave(&ctx, shared.sign.node).await {
        note("peers leave", &failure);
    }
}

/// Signs, takes in the other servers, and tells them if this server is new or wants more than before.
async fn see(ctx: &Ctx, shared: &Shared, interest: Shards, announced: Shards) -> Outcome<()> {
    let signed = sign(ctx, &Sign { interest, ..shared.sign.clone() }).await?;
    take_in(ctx, shared, &signed.peers);
    let is_more = interest.without(announced) != Shards::NONE;
    if (signed.is_new || is_more) && !signed.peers.is_empty() {
        shared.bus.announce(ctx, format!("{} {interest}", shared.sign.node)).await?;
        // The others did not know yet which shards this server wanted.
        look_at_all(ctx);
    }
    Ok(())
}

fn take_in(ctx: &Ctx, shared: &Shared, peers: &[Peer]) {
    ctx.feed.set_peers(!peers.is_empty());
    if let Some(affinity) = &shared.affinity {
        affinity.set_peers(peers);
    }
    shared.old_peers.send_replace(peers.iter().any(|peer| peer.interest.is_none()));
    let wants = peers.iter().map(|peer| (peer.node, peer.interest.unwrap_or(Shards::ALL)));
    ctx.feed.wakeups().interest().set_peers(wants);
}

async fn waking(ctx: Ctx, shared: Shared, stopping: CancellationToken) {
    while let Some(mut touched) = stopping.run_until_cancelled(ctx.feed.touched()).await {
        sleep(COALESCE).await;
        touched.extend(ctx.feed.take_touched());
        let told = notifications(shared.sign.node, touched);
        if let Err(failure) = timely(FEED_TURN, wake(&ctx, &shared, &told)).await {
            note("peers wake", &failure);
        }
    }
}

async fn wake(ctx: &Ctx, shared: &Shared, told: &[(u8, String)]) -> Outcome<()> {
    shared.bus.wake(ctx, told).await?;
    if *shared.old_peers.borrow() {
        let (channels, texts): (Vec<String>, Vec<String>) =
            told.iter().map(|(_, text)| (nodes::TOPIC.to_owned(), text.clone())).unzip();
        nodes::notify(ctx, &channels, &texts).await?;
    }
    Ok(())
}

async fn listening(ctx: Ctx, shared: Shared, stopping: CancellationToken) {
    while !stopping.is_cancelled() {
        if let Some(Err(failure)) = stopping.run_until_cancelled(listen(&ctx, &shared)).await {
            ctx.feed.set_bus_away(true);
            note("peers listen", &failure);
            stopping.run_until_cancelled(sleep(RELISTEN)).await;
        }
    }
}

/// Listens for notifications until the connection fails.
async fn listen(ctx: &Ctx, shared: &Shared) -> Result<(), AppError> {
    let mut ear = shared.bus.listen(ctx).await?;
    // A new connection listens to no shard.
    let mut attended = Shards::NONE;
    attend(ctx, shared, &mut ear, &mut attended).await?;
    everything(ctx).await?;
    let (mut ticks, mut heard_at) = (every(TIDY), Instant::now());
    loop {
        ctx.feed.set_bus_away(!ear.is_up());
        let heard = tokio::select! {
            heard = ear.hear() => heard?,
            () = ctx.feed.wakeups().interest().widened() => {
                attend(ctx, shared, &mut ear, &mut attended).await?;
                continue;
            }
            _ = ticks.tick() => {
                attend(ctx, shared, &mut ear, &mut attended).await?;
                if heard_at.elapsed() > SILENCE {
                    ear.test().await?;
                    heard_at = Instant::now();
                }
                continue;
            }
        };
        heard_at = Instant::now();
        match heard {
            Heard::Gap => everything(ctx).await?,
            Heard::Text(text) => take(ctx, shared, &text).await?,
        }
    }
}

/// Listens to the shards that this server wants by now.
async fn attend(ctx: &Ctx, shared: &Shared, ear: &mut Ear, attended: &mut Shards) -> Outcome<()> {
    let wanted = ctx.feed.wakeups().interest().wanted();
    if wanted != *attended {
        ear.attend(wanted.without(*attended), attended.without(wanted)).await?;
        *attended = wanted;
        shared.attended.send_replace(wanted);
    }
    Ok(())
}

/// Acts on a notification.
async fn take(ctx: &Ctx, shared: &Shared, text: &str) -> Outcome<()> {
    let Some(notification) = read(text) else {
        tracing::debug!("a notification that is none of ours");
        return Ok(());
    };
    if notification.sender == shared.sign.node {
        return Ok(());
    }
    ctx.feed.set_peers(true);
    if let Some(interest) = notification.interest {
        ctx.feed.wakeups().interest().heard(notification.sender, interest);
    }
    hear(ctx, &notification.touched).await
}

async fn hear(ctx: &Ctx, touched: &[WakeKey]) -> Outcome<()> {
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

async fn everything(ctx: &Ctx) -> Outcome<()> {
    keys::refresh(ctx).await?;
    look_at_all(ctx);
    Ok(())
}

fn look_at_all(ctx: &Ctx) {
    ctx.feed.followed().into_iter().for_each(|intent| ctx.feed.look_at(intent));
    let wakeups = ctx.feed.wakeups();
    let work = wakeups.awaited().into_iter().map(WakeKey::Work);
    wakeups.listened().into_iter().chain(work).for_each(|touch| wakeups.ring(&touch));
}
