//! The composition root: puts a server together out of its parts, and takes it apart again in order. The program and the
//! tests both begin here; a test passes a clock that it turns by hand and port 0.

mod database;
mod limits;
mod listening;
mod pools;
mod senders;
mod sockets;
mod tools;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use actix_web::web;
use entente_api::http::frontdoor::RequestIds;
use entente_api::http::hooks;
use entente_api::http::{Checkup, Connections, Doors, Pace};
use entente_api::web::pace::Pace as Logins;
use entente_domain::clock::Clock;
use entente_domain::ids::{Chance, NodeId};
use entente_kernel::feed::Feed;
use entente_kernel::invocations::Desk;
use entente_kernel::jobs::Works;
use entente_kernel::post::Post;
use entente_kernel::seeds::{self, Seed};
use entente_kernel::sends::Sends;
use entente_kernel::{AppError, Ctx, Grants, Quotas, Settings, WebhookSettings, Webhooks, keys, server_keys};
use entente_runtime::environment::{self, OsChance, SharedClock};
use entente_runtime::metrics::Metrics;
use entente_runtime::spans::{Spans, SpansError};
use entente_runtime::tasks::Tasks;
use entente_store::migrate::SchemaError;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::Semaphore;
use tracing::{info, warn};

pub(crate) use self::database::patiently;
use self::pools::Pools;
use crate::background;
use crate::background::bridging::Bridging;
use crate::background::deliver::Courier;
use crate::background::egress::{Names, SystemNames};
use crate::background::federate::Carrier;
use crate::background::provision;
use crate::config::Config;

/// Refused subscriptions held at once (contract 11.4).
const HELD: usize = 1_024;

/// How long tasks may take to end once nothing more is asked of them.
const TASKS_END: Duration = Duration::from_secs(10);

/// How often PostgreSQL is asked for the time before the first request; the promptest answer counts.
const CLOCK_READINGS: u32 = environment::FIRST;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}. Choose another address with ENTENTE_BIND or --bind")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The database is not there.
    #[error("the database cannot be reached ({0}): {1}. Check DATABASE_URL and whether PostgreSQL runs")]
    Database(String, sqlx::Error),
    /// The database's URL is none.
    #[error("DATABASE_URL is no PostgreSQL URL such as postgres://user:password@host:5432/database")]
    Url,
    /// The database is too old.
    #[error("PostgreSQL {0} is too old; Entente needs 15 or newer")]
    Version(i32),
    /// The schema cannot be brought up to date.
    #[error("the schema cannot be brought up to date: {0}")]
    Schema(#[from] SchemaError),
    /// The collector of spans cannot be used.
    #[error(transparent)]
    Spans(#[from] SpansError),
    /// A client for what the server itself sends cannot be set up.
    #[error("the client that sends webhooks and asks for credentials cannot be set up: {0}")]
    Egress(String),
    /// A deed at the start failed.
    #[error(transparent)]
    App(#[from] AppError),
}

/// What a server is put together from.
pub struct Parts {
    /// Its configuration.
    pub config: Config,
    /// How to reach the database.
    pub database: PgConnectOptions,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where chance comes from.
    pub chance: Arc<dyn Chance>,
    /// Whether literal keys are accepted (`entente dev --seed`).
    pub seeded_keys: bool,
    /// Principals with literal keys that are there before the first request is answered.
    pub seeds: Vec<Seed>,
    /// Who knows which addresses a name stands for, when webhooks are sent.
    pub names: Arc<dyn Names>,
    /// Whether background tasks run; a test steps them itself.
    pub background: bool,
}

impl Parts {
    /// A server of the real world.
    #[must_use]
    pub fn real(config: Config, database: PgConnectOptions) -> Self {
        Self {
            config,
            database,
            clock: Arc::new(SharedClock::default()),
            chance: Arc::new(OsChance::default()),
            seeded_keys: false,
            seeds: Vec::new(),
            names: Arc::new(SystemNames),
            background: true,
        }
    }
}

/// A server that is running.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// What its deeds are handed; for seeding, and for tests.
    pub ctx: Ctx,
    /// Who delivers webhooks; for tests, which step it.
    pub courier: Arc<Courier>,
    /// Who carries letters to peers; for tests, which step it.
    pub carrier: Arc<Carrier>,
    /// Who carries over bridges; for tests, which step it.
    pub bridging: Arc<Bridging>,
    /// What the doors share; for a session over stdio.
    pub doors: web::Data<Doors>,
    tasks: Tasks,
    http: ServerHandle,
    /// The listening socket, to close it before anything else.
    gate: TcpListener,
    connections: Arc<Connections>,
    spans: Option<Arc<Spans>>,
    pools: [PgPool; 6],
}

impl Server {
    /// Resolves when the server cannot go on, with the name of the task that it cannot go on without.
    pub async fn failed(&self) -> &'static str {
        self.tasks.failed().await
    }

    /// Puts a server together and starts it: the schema is up to date and requests are answered when this returns.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        let Parts { config, database, clock, chance, seeded_keys, seeds, names, background } = parts;
        let unbound = |source| StartError::Bind { address: config.bind, source };
        let listener = TcpListener::bind(config.bind).map_err(unbound)?;
        let metrics = Metrics::new();
        let tasks = Tasks::new(&metrics);
        let Pools { house, webhooks, sweeping, messages, doors } =
            Pools::open(&config, &database, &tasks).await?;
        entente_store::migrate::run(&house).await?;
        let key = config.signing_key.as_ref();
        let server_keys = patiently(async || server_keys::open(&house, &clock, &chance, key).await).await?;
        let ctx = Ctx {
            provisioners: Arc::new(provision::provisioners(&config, &chance).map_err(StartError::Egress)?),
            pool: house.clone(),
            clock,
            chance,
            feed: Arc::new(Feed::new()),
            metrics,
            settings: Arc::new(settings(&config, seeded_keys)),
            grants: Arc::new(Grants::default()),
            homes: Arc::default(),
            beats: Arc::default(),
            server_keys: Arc::new(server_keys),
            turns: Arc::default(),
            quotas: Arc::new(Quotas::new(config.post.quotas)),
            webhooks: Arc::new(Webhooks::new(hooks::encode, hooks::encode_item)),
            rulebook: Arc::default(),
            envelope_keys: Arc::default(),
        };
        furnish(&ctx, &seeds).await?;
        let node = NodeId::mint(ctx.now(), &*ctx.chance);
        let (tools, calls) = tools::start(&ctx, database, &names, &tasks)?;
        let (courier, carrier) =
            senders::senders(&ctx, &webhooks, &names, node, config.webhooks.concurrency, &tasks)?;
        if background {
            background::start(&ctx, &sweeping, node, (&courier, &carrier), &tasks);
        }
        let spans = spans(&config, &ctx)?;
        let writers = write(&config, (&ctx, node), &messages, &tasks);
        let bridging = bridge(&ctx, &writers, background, &tasks);
        let doors_ctx = Ctx { pool: doors.clone(), ..ctx.clone() };
        let doors_of = share(&config, doors_ctx, (writers, tools), &tasks);
        let shared = web::Data::new(Doors { spans: spans.clone(), ..doors_of });
        let connections = Arc::clone(&shared.connections);
        let gate = listener.try_clone().map_err(unbound)?;
        sockets::take_files(config.max_connections);
        let (address, http) =
            listening::listen(&config, listener, shared.clone(), &tasks).map_err(unbound)?;
        Ok(Self {
            address,
            ctx,
            courier,
            carrier,
            bridging,
            doors: shared,
            tasks,
            http,
            gate,
            connections,
            spans,
            pools: [doors, webhooks, calls, messages, sweeping, house],
        })
    }

    /// Stops the server in order: new connections are refused; streams are told to reconnect, and each response is the
    /// last of its connection; requests in flight finish; writers and background tasks end; the database is left.
    pub async fn stop(self) {
        info!("stopping: streams are told to reconnect, requests in flight finish");
        // A connection that is refused is tried again without harm, one that is dropped after a request was sent is not.
        // So nobody gets in any more before anybody is sent away.
        sockets::close(&self.gate, &self.http).await;
        self.tasks.draining().cancel();
        self.connections.quiet().await;
        self.http.stop(true).await;
        if let Err(failure) = background::sweeps::Sweep::KeyUses.run(&self.ctx).await {
            warn!(error = %failure, "the last uses of keys were not written down");
        }
        if let Err(failure) = background::sweeps::Sweep::Heartbeats.run(&self.ctx).await {
            warn!(error = %failure, "the last heartbeats were not written down");
        }
        self.tasks.stop(TASKS_END).await;
        if let Some(spans) = self.spans {
            // It waits in place for its own thread.
            let _panicked = tokio::task::spawn_blocking(move || spans.stop()).await;
        }
        database::leave(self.pools).await;
        info!("stopped");
    }
}

/// Where requests are measured, if a collector is to hear of them.
fn spans(config: &Config, ctx: &Ctx) -> Result<Option<Arc<Spans>>, SpansError> {
    let spans = config.collector.as_ref().map(|to| Spans::start(to, Arc::clone(&ctx.chance)));
    Ok(spans.transpose()?.map(Arc::new))
}

/// What is there before the first request: the right time, the keys that changed, those that were given along.
async fn furnish(ctx: &Ctx, given: &[Seed]) -> Result<(), StartError> {
    for _ in 0..CLOCK_READINGS {
        patiently(async || ctx.ping().await).await?;
    }
    patiently(async || keys::refresh(ctx).await).await?;
    for seed in given {
        patiently(async || seeds::seed(ctx, seed.kind, &seed.id, &seed.secret).await).await?;
    }
    Ok(())
}

fn settings(config: &Config, seeded_keys: bool) -> Settings {
    Settings {
        strict: config.strict,
        default_access: config.door.default_access,
        audit_event_type: config.audit_event_type.clone(),
        message_retention: config.message_retention,
        idempotency_window: config.idempotency_window,
        checkpoint_every: config.checkpoint_every,
        seeded_keys,
        webhooks: WebhookSettings {
            allowed: config.webhooks.allow.clone(),
            https_only: config.webhooks.https_only,
            timeout: config.webhooks.timeout,
            retention: config.webhooks.retention,
            per_principal: config.webhooks.per_principal,
        },
        jobs: config.jobs.clone(),
        sessions: config.sessions.clone(),
        post: config.post.clone(),
        moments: config.moments.clone(),
        federation: config.federation.clone(),
        vaults: config.vaults.clone(),
    }
}

/// Who carries over bridges, handing in where everybody does.
fn bridge(ctx: &Ctx, writers: &Writers, background: bool, tasks: &Tasks) -> Arc<Bridging> {
    let bridging = Arc::new(Bridging::new(ctx, &writers.0, &writers.1));
    if background {
        let (carrying, stopping) = (Arc::clone(&bridging), tasks.stopping().clone());
        tasks.keep("bridges", move || Arc::clone(&carrying).drive(stopping.clone()));
    }
    bridging
}

/// Those who commit what is handed in.
type Writers = (Arc<Sends>, Arc<Works>, Post);

/// Starts those who commit what is handed in: messages with a pool of their own, jobs and envelopes.
fn write(config: &Config, (ctx, node): (&Ctx, NodeId), messages: &PgPool, tasks: &Tasks) -> Writers {
    let each = config.commit_writers;
    let sending = Ctx { pool: messages.clone(), ..ctx.clone() };
    let (sends, works) = (Sends::start(&sending, node, each, tasks), Works::start(ctx, node, each, tasks));
    (Arc::new(sends), Arc::new(works), Post::start(ctx, node, each, tasks))
}

fn share(config: &Config, ctx: Ctx, ((sends, works, post), tools): (Writers, Desk), tasks: &Tasks) -> Doors {
    let bits = ctx.chance.bits().to_le_bytes();
    let start = bits.first_chunk().map_or(0, |half| u64::from_le_bytes(*half));
    Doors {
        ctx,
        sends,
        works,
        post,
        tools,
        limits: limits::limits(config),
        started: Instant::now(),
        pace: Pace::default(),
        spans: None,
        draining: tasks.draining().clone(),
        tasks: tasks.clone(),
        checkup: Checkup::default(),
        request_ids: RequestIds::new(start),
        connections: Arc::default(),
        held: Semaphore::new(HELD),
        logins: Logins::default(),
        site: config.site.clone(),
    }
}
