//! The bus: carries wake-ups between the servers of one database. Two implementations with the same promise: PostgreSQL's
//! NOTIFY, and core NATS. The bus is never the truth. A lost wake-up is found by the poll, and while the bus is away the
//! servers go on with the poll alone.

use std::collections::HashMap;
use std::task::Poll;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Event, ServerAddr, Subscriber};
use entente_bridges::Ctx;
use entente_domain::canonical::{hex, sha256};
use entente_kernel::nodes::{self, TOPIC, channel};
use entente_kernel::wakeups::interest::Shards;
use entente_kernel::{AppError, Outcome};
use entente_runtime::deadlines::within;
use entente_store::pool::PooledListener;
use futures_util::Stream as _;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::background::nats::options;
use crate::config::bus::BusConfig;
use crate::config::sinks::BUS_SUBJECTS;

/// Time limit of an answer of the bus.
const ANSWER: Duration = Duration::from_secs(2);

/// Interval at which NATS and this server test their connection.
const PING: Duration = Duration::from_secs(2);

/// Longest pause between two attempts to reach NATS.
const REDIAL: Duration = Duration::from_millis(500);

/// Time limit of handing a wake-up to the client of NATS.
const HANDOVER: Duration = Duration::from_millis(100);

/// Delivery of a bus.
#[derive(Debug)]
pub(super) enum Heard {
    /// A notification.
    Text(String),
    /// Notifications may have been lost.
    Gap,
}

/// The bus of a server.
#[derive(Clone)]
pub(super) enum Bus {
    /// PostgreSQL's NOTIFY.
    Postgres,
    /// Core NATS.
    Nats(Nats),
}

/// A connection to NATS, which re-establishes itself.
#[derive(Clone)]
pub(super) struct Nats {
    client: Client,
    /// Common beginning of the subjects: several databases may share one NATS.
    prefix: String,
    /// Number of times that the connection was established.
    connections: watch::Receiver<u64>,
}

impl Bus {
    /// Opens the configured bus; a NATS that is away is no failure.
    pub(super) async fn open(config: &BusConfig, ctx: &Ctx) -> Outcome<Self> {
        match config {
            BusConfig::Postgres => Ok(Self::Postgres),
            BusConfig::Nats(url) => Ok(Self::Nats(Nats::open(url, ctx).await?)),
        }
    }

    /// Tells the other servers of changes, by shard.
    pub(super) async fn wake(&self, ctx: &Ctx, notifications: &[(u8, String)]) -> Outcome<()> {
        match self {
            Self::Postgres => {
                let (channels, texts): (Vec<String>, Vec<String>) =
                    notifications.iter().map(|(shard, text)| (channel(*shard), text.clone())).unzip();
                nodes::notify(ctx, &channels, &texts).await
            }
            Self::Nats(nats) => {
                for (shard, text) in notifications {
                    nats.publish(&nats.subject(*shard), text).await;
                }
                Ok(())
            }
        }
    }

    /// Tells all other servers something.
    pub(super) async fn announce(&self, ctx: &Ctx, text: String) -> Outcome<()> {
        match self {
            Self::Postgres => nodes::notify(ctx, &[TOPIC.to_owned()], &[text]).await,
            Self::Nats(nats) => {
                nats.publish(&nats.common(), &text).await;
                Ok(())
            }
        }
    }

    /// Begins to listen to the notifications for all servers.
    pub(super) async fn listen(&self, ctx: &Ctx) -> Outcome<Ear> {
        match self {
            Self::Postgres => {
                let mut listener = ctx.pool.listener().await?;
                listener.listen(TOPIC).await?;
                Ok(Ear::Postgres(Box::new(listener)))
            }
            Self::Nats(nats) => {
                let common = nats.subscribe(nats.common()).await?;
                Ok(Ear::Nats {
                    nats: Box::new(nats.clone()),
                    common: Box::new(common),
                    shards: HashMap::new(),
                })
            }
        }
    }
}

impl Nats {
    async fn open(url: &str, ctx: &Ctx) -> Outcome<Self> {
        let failed = |why: String| AppError::Unavailable(format!("the bus: {why}"));
        let address: ServerAddr = url.parse().map_err(|e: std::io::Error| failed(e.to_string()))?;
        let (established, connections) = watch::channel(0_u64);
        let options = options(&address)
            .ping_interval(PING)
            .connection_timeout(ANSWER)
            .reconnect_delay_callback(|attempts| REDIAL.min(Duration::from_millis(20 << attempts.min(8))))
            .event_callback(move |event| {
                match event {
                    Event::Connected => established.send_modify(|times| *times += 1),
                    Event::Disconnected => {
                        tracing::warn!(
                            "the bus is gone; until it is back, servers find each other's changes by polling"
                        );
                    }
                    event => tracing::debug!(%event, "the bus"),
                }
                std::future::ready(())
            });
        let client = options.connect(address).await.map_err(|e| failed(e.to_string()))?;
        // The servers' first key tells databases apart: all servers of one know it.
        let first = ctx.server_keys.known.first().map(|key| key.public_key.did()).unwrap_or_default();
        let digest: String = hex(&sha256(&first)).chars().take(16).collect();
        Ok(Self { client, prefix: format!("{BUS_SUBJECTS}.{digest}"), connections })
    }

    fn subject(&self, shard: u8) -> String {
        format!("{}.{shard}", self.prefix)
    }

    fn common(&self) -> String {
        format!("{}.all", self.prefix)
    }

    /// Publishes, unless the connection is away: a wake-up kept until it is back would be old then.
    async fn publish(&self, subject: &str, text: &str) {
        if self.client.connection_state() != State::Connected {
            return;
        }
        let text = text.to_owned().into();
        match timeout(HANDOVER, self.client.publish(subject.to_owned(), text)).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => tracing::debug!(error = %failure, "a wake-up was not sent"),
            Err(_late) => tracing::debug!("a wake-up was not sent in time"),
        }
    }

    async fn subscribe(&self, subject: String) -> Outcome<Subscriber> {
        let subscribed = timeout(ANSWER, self.client.subscribe(subject)).await;
        match subscribed {
            Ok(Ok(subscriber)) => Ok(subscriber),
            Ok(Err(failure)) => Err(AppError::Unavailable(format!("the bus: {failure}"))),
            Err(_late) => Err(AppError::Unavailable("the bus does not answer".to_owned())),
        }
    }
}

/// A listening end of the bus.
pub(super) enum Ear {
    /// A connection that listens to PostgreSQL.
    Postgres(Box<PooledListener>),
    /// Subscriptions at NATS.
    Nats {
        /// The connection.
        nats: Box<Nats>,
        /// The notifications for all servers.
        common: Box<Subscriber>,
        /// The shards.
        shards: HashMap<u8, Subscriber>,
    },
}

impl Ear {
    /// Listens to some more shards, and no longer to others.
    pub(super) async fn attend(&mut self, more: Shards, less: Shards) -> Outcome<()> {
        match self {
            Self::Postgres(listener) => {
                let names: Vec<String> = more.numbers().map(channel).collect();
                listener.listen_all(names.iter().map(String::as_str)).await?;
                for shard in less.numbers() {
                    listener.unlisten(&channel(shard)).await?;
                }
            }
            Self::Nats { nats, shards, .. } => {
                for shard in more.numbers() {
                    shards.insert(shard, nats.subscribe(nats.subject(shard)).await?);
                }
                for shard in less.numbers() {
                    // Dropping the subscriber would end it as well, but only with its next message.
                    if let Some(mut ended) = shards.remove(&shard) {
                        let _away = ended.unsubscribe().await;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits for the next delivery of the bus; dropping the future loses nothing.
    pub(super) async fn hear(&mut self) -> Outcome<Heard> {
        match self {
            Self::Postgres(listener) => {
                // Without a notification, the connection was re-established.
                let heard = listener.try_recv().await?;
                Ok(heard.map_or(Heard::Gap, |one| Heard::Text(one.payload().to_owned())))
            }
            Self::Nats { nats, common, shards } => {
                let message = std::future::poll_fn(|context| {
                    for one in std::iter::once(&mut **common).chain(shards.values_mut()) {
                        if let Poll::Ready(message) = std::pin::Pin::new(one).poll_next(context) {
                            return Poll::Ready(message);
                        }
                    }
                    Poll::Pending
                });
                tokio::select! {
                    changed = nats.connections.changed() => match changed {
                        Ok(()) => Ok(Heard::Gap),
                        Err(_gone) => Err(AppError::Unavailable("the bus ended".to_owned())),
                    },
                    message = message => match message {
                        Some(message) => Ok(Heard::Text(String::from_utf8_lossy(&message.payload).into_owned())),
                        None => Err(AppError::Unavailable("the bus ended a subscription".to_owned())),
                    },
                }
            }
        }
    }

    /// Tests the connection after a silence: either the others were quiet, or it is dead.
    pub(super) async fn test(&mut self) -> Outcome<()> {
        if let Self::Postgres(listener) = self {
            within(ANSWER, sqlx::raw_sql("SELECT 1").execute(&mut ***listener)).await??;
        }
        // The client of NATS tests its connection itself.
        Ok(())
    }

    /// Returns whether the bus carries wake-ups at the moment, as far as this server can tell.
    pub(super) fn is_up(&self) -> bool {
        match self {
            Self::Postgres(_) => true,
            Self::Nats { nats, .. } => nats.client.connection_state() == State::Connected,
        }
    }
}
