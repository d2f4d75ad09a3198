//! Composition root: assembles a server from its parts, and stops it in order. Both the program and the tests
//! use it; a test passes a manual clock and port 0.

mod database;
mod limits;
mod listening;
mod pools;
pub(crate) mod provider;
pub(crate) mod routes;
mod senders;
mod sockets;
mod tools;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use actix_web::web;
use entente_aee::envelope_keys::KeyCache;
use entente_aee::ingest::Ingest;
use entente_aee::policy::snapshot::PolicyCache;
use entente_aee::quotas::Quotas;
use entente_api::ApiState;
use entente_api::server::health::Checkup;
use entente_arcp::jobs::JobWriter;
use entente_bridges::{ArcpJobs, Ctx, States};
use entente_domain::clock::Clock;
use entente_domain::ids::{Chance, NodeId};
use entente_http::login_throttle::LoginThrottle;
use entente_http::middleware::RequestIds;
use entente_http::{Connections, HttpState, Pace};
use entente_kernel::feed::Feed;
use entente_kernel::identity::seeds;
use entente_kernel::identity::seeds::Seed;
use entente_kernel::identity::{keys, server_keys};
use entente_kernel::{
    AppError, ChannelIntentCache, Grants, Notifications, ServerKeys, Settings, StateChanges, WebhookSettings,
    Webhooks, notifications,
};
use entente_oidc::Provider;
use entente_openintent::messages::writer::MessageWriter;
use entente_openintent::tools::invocations::CallQueue;
use entente_runtime::environment::{self, OsChance, SharedClock};
use entente_runtime::metrics::Metrics;
use entente_runtime::push::PushKey;
use entente_runtime::spans::{Spans, SpansError};
use entente_runtime::tasks::Tasks;
use entente_runtime::tls::listener::Certificate;
use entente_store::Pool;
use entente_store::engine::Reliance;
use entente_store::migrate::SchemaError;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::Semaphore;
use tracing::{info, warn};

pub(crate) use self::database::patiently;
use self::pools::Pools;
use self::routes::Routes;
use crate::background;
use crate::background::Senders;
use crate::background::bridging::Bridging;
use crate::background::confirming;
use crate::background::egress::{Names, SystemNames, Trust};
use crate::background::lookout::Lookout;
use crate::background::provision;
use crate::background::{PeerPort, PeerSetup};
use crate::config::Config;

/// Concurrently held refused subscriptions (OI-11.4.2).
const HELD: usize = 1_024;

/// Time that tasks may take to end after the last request.
const TASKS_END: Duration = Duration::from_secs(10);

/// Number of clock readings from PostgreSQL before the first request; the fastest one counts.
const CLOCK_READINGS: u32 = environment::FIRST;

/// Reason that a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not available.
    #[error("cannot listen on {address}: {source}. Choose another address with ENTENTE_BIND or --bind")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The address for other servers is not available.
    #[error(
        "cannot listen for other servers on {address}: {source}. Choose another address with ENTENTE_PEER_LISTEN"
    )]
    PeerBind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The certificate of the listener cannot be used.
    #[error("TLS cannot be served: {0}. Check ENTENTE_TLS_CERTIFICATE_FILE and ENTENTE_TLS_KEY_FILE")]
    Certificate(String),
    /// The database cannot be reached.
    #[error("the database cannot be reached ({0}): {1}. Check DATABASE_URL and whether PostgreSQL runs")]
    Database(String, sqlx::Error),
    /// This setting is not a valid PostgreSQL URL.
    #[error("{0} is no PostgreSQL URL such as postgres://user:password@host:5432/database")]
    Url(&'static str),
    /// A pooler refuses an option of the URL.
    #[error(
        "the pooler in front of the database ({0}) refuses what its URL asks for: {1}. Remove `options` from the URL, and set \
         them for the role instead (ALTER ROLE … SET …)"
    )]
    Options(String, sqlx::Error),
    /// A pooler gives every transaction, or every statement, another connection, and nothing leads around it.
    #[error(
        "DATABASE_URL leads to a pooler in {mode} mode ({database}). There a session keeps nothing from one {mode} to the next: \
         no lock for migrations, no LISTEN for notifications between servers, no time limits of the writers. Set \
         ENTENTE_DIRECT_DATABASE_URL to a URL that leads to PostgreSQL itself, or set the pooler to session mode (PgBouncer: \
         pool_mode = session)"
    )]
    Pooled {
        /// The pooler's mode.
        mode: &'static str,
        /// The database, without its password.
        database: String,
    },
    /// The direct URL is not direct.
    #[error(
        "ENTENTE_DIRECT_DATABASE_URL leads to a pooler, too ({0}), and not in session mode. It is for work that needs a \
         connection to itself: set it to PostgreSQL's own address"
    )]
    Indirect(String),
    /// The two URLs lead to different databases.
    #[error(
        "ENTENTE_DIRECT_DATABASE_URL ({direct}) leads to another database than DATABASE_URL ({database}). Both must lead to the \
         same, one of them through a pooler"
    )]
    Elsewhere {
        /// The direct database, without its password.
        direct: String,
        /// The pooled database, without its password.
        database: String,
    },
    /// The version of PostgreSQL is too old.
    #[error("PostgreSQL {0} is too old; Entente needs 15 or newer")]
    Version(i32),
    /// The engine ignores something that the server relies on.
    #[error("the database's engine cannot be used, see docs/engine.md:{}", faults(.0))]
    Engine(Vec<Reliance>),
    /// The schema cannot be brought up to date.
    #[error("the schema cannot be brought up to date: {0}")]
    Schema(#[from] SchemaError),
    /// The span exporter cannot be set up.
    #[error(transparent)]
    Spans(#[from] SpansError),
    /// The HTTP client for outgoing requests cannot be set up.
    #[error("the client that sends webhooks and asks for credentials cannot be set up: {0}")]
    Egress(String),
    /// An operation during the start failed.
    #[error(transparent)]
    App(#[from] AppError),
}

fn faults(missing: &[Reliance]) -> String {
    missing.iter().flat_map(|one| ["\n  ", one.fault()]).collect()
}

/// Parts that a server is assembled from.
pub struct Parts {
    /// Configuration.
    pub config: Config,
    /// Connection options of the database.
    pub database: PgConnectOptions,
    /// Connection options that lead around the pooler in front of the database, if there is one.
    pub direct: Option<PgConnectOptions>,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// Source of randomness.
    pub chance: Arc<dyn Chance>,
    /// Whether literal keys are accepted (`entente dev --seed`).
    pub seeded_keys: bool,
    /// Principals with literal keys, created before the first request is answered.
    pub seeds: Vec<Seed>,
    /// Name resolution for outgoing requests.
    pub names: Arc<dyn Names>,
    /// Whether background tasks run; tests step them instead.
    pub background: bool,
}

impl Parts {
    /// Creates the parts of a production server.
    #[must_use]
    pub fn real(config: Config, database: PgConnectOptions) -> Self {
        Self {
            config,
            database,
            direct: None,
            clock: Arc::new(SharedClock::default()),
            chance: Arc::new(OsChance::default()),
            seeded_keys: false,
            seeds: Vec::new(),
            names: Arc::new(SystemNames),
            background: true,
        }
    }
}

/// A running server.
pub struct Server {
    /// Address that it listens on.
    pub address: SocketAddr,
    /// Certificate of the listener, if it speaks TLS; public for tests, which step it.
    pub certificate: Option<Arc<Certificate>>,
    /// Context for operations; for seeding, and for tests.
    pub ctx: Ctx,
    /// Senders of outgoing requests; public for tests, which step them.
    pub senders: Senders,
    /// Runner of the bridges; public for tests, which step it.
    pub bridging: Arc<Bridging>,
    /// State shared by all request handlers; for a session over stdio.
    pub api: web::Data<ApiState>,
    tasks: Tasks,
    http: ServerHandle,
    /// The listening socket, which is closed first on shutdown.
    gate: TcpListener,
    connections: Arc<Connections>,
    spans: Option<Arc<Spans>>,
    pools: [Pool; 7],
}

impl Server {
    /// Resolves with the name of the failed task when the server cannot go on without it.
    pub async fn failed(&self) -> &'static str {
        self.tasks.failed().await
    }

    /// Assembles and starts a server: on return the schema is up to date and requests are answered.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        let Parts { config, database, direct, clock, chance, seeded_keys, seeds, names, background } = parts;
        let unbound = |source| StartError::Bind { address: config.bind, source };
        let certificate = listening::certificate(&config).await?;
        let listener = TcpListener::bind(config.bind).map_err(unbound)?;
        // The first request with a query reads the parameters from the OpenAPI document, which takes a while to build.
        let _building = tokio::task::spawn_blocking(entente_api::app::document);
        let metrics = Metrics::of_build(env!("ENTENTE_COMMIT"));
        let tasks = Tasks::new(&metrics);
        let routes = Routes::find(database, direct).await?;
        let pools = Pools::open(&config, &routes, &tasks).await?;
        pools.watch(&metrics);
        let Pools { main, webhooks, sweeping, messages, api, watch } = pools;
        entente_store::migrate::run(&main).await?;
        database::examine_engine(&routes, background.then_some(&config.bus)).await?;
        let key = config.signing_key.as_ref();
        let server_keys = patiently(async || server_keys::open(&main, &clock, &chance, key).await).await?;
        let push_key = patiently(async || notifications::open(&main, &clock).await).await?;
        let base = Base { pool: main.clone(), clock, chance, server_keys, push_key, metrics };
        let ctx = context(&config, base, seeded_keys)?;
        furnish(&ctx, &seeds).await?;
        let node = NodeId::mint(ctx.now(), &*ctx.chance);
        let trust = Trust { names, authorities: config.tls.authorities.clone() };
        let (tools, calls) = tools::start(&ctx, routes.transactions, &trust, &tasks)?;
        let own = listener.local_addr().map_err(unbound)?;
        let senders = senders::senders(&config, &ctx, &webhooks, &trust, node, own, &tasks)?;
        let (lookout, port) = (Arc::default(), peer_port(&config, &ctx, node, &tasks)?);
        crate::telemetry::start(&tasks);
        if background {
            let peers = PeerSetup { node, bus: config.bus.clone(), port: port.clone() };
            background::start(&ctx, &sweeping, peers, &senders, &lookout, &tasks).await?;
            listening::watch(certificate.as_ref(), &ctx.metrics, &tasks);
            confirming::start(&ctx.with_pool(watch.clone()), node, &routes.confirmations, &tasks);
        }
        let spans = spans(&config, &ctx)?;
        let writers = write(&config, &ctx, node, &messages, port.as_ref(), &tasks);
        let bridging = bridge(&ctx, &writers, background.then_some(&lookout), &tasks);
        let api_ctx = ctx.with_pool(api.clone());
        let http = http_state(&config, (*api_ctx).clone(), spans.clone(), &tasks);
        let provider = provider::provider(&config, &trust)?;
        let agent = config.a2a_agent.clone();
        let shared = web::Data::new(api_state(Arc::new(http), api_ctx, writers, tools, provider, agent));
        let gate = listener.try_clone().map_err(unbound)?;
        sockets::take_files(config.max_connections);
        let (address, http) =
            listening::listen(&config, listener, certificate.as_deref(), shared.clone(), &tasks)
                .map_err(unbound)?;
        Ok(Self {
            address,
            certificate,
            ctx,
            senders,
            bridging,
            connections: Arc::clone(&shared.connections),
            api: shared,
            tasks,
            http,
            gate,
            spans,
            pools: [api, webhooks, calls, messages, sweeping, watch, main],
        })
    }

    /// Returns the scheme of the server's URLs.
    #[must_use]
    pub const fn scheme(&self) -> &'static str {
        if self.certificate.is_some() { "https" } else { "http" }
    }

    /// Stops the server in order: new connections are refused; streams tell their clients to reconnect, and
    /// each response closes its connection; requests in flight finish; writers and background tasks end; the
    /// database connections close.
    pub async fn stop(self) {
        info!("stopping: streams are told to reconnect, requests in flight finish");
        // A client can safely retry a refused connection, but not one that drops after it sent a request. So
        // new connections are refused before existing ones are closed.
        sockets::close(&self.gate, &self.http).await;
        self.tasks.draining().cancel();
        self.connections.quiet().await;
        // The threads of the HTTP server end one by one, and with each the connections that it opened, which another one may be using.
        self.tasks.leaving().cancel();
        let [requests, _, _, messages, _, _, main] = &self.pools;
        database::settle([requests, messages, main]).await;
        self.http.stop(true).await;
        if let Err(failure) = background::sweeps::Sweep::KeyUses.run(&self.ctx).await {
            warn!(error = %failure, "the last uses of keys were not written down");
        }
        if let Err(failure) = background::sweeps::Sweep::Heartbeats.run(&self.ctx).await {
            warn!(error = %failure, "the last heartbeats were not written down");
        }
        self.tasks.stop(TASKS_END).await;
        if let Some(spans) = self.spans {
            // Blocks while it waits for its own thread.
            let _panicked = tokio::task::spawn_blocking(move || spans.stop()).await;
        }
        database::leave(self.pools).await;
        info!("stopped");
    }
}

/// Parts of a context, besides the configuration.
struct Base {
    pool: Pool,
    clock: Arc<dyn Clock>,
    chance: Arc<dyn Chance>,
    server_keys: ServerKeys,
    push_key: PushKey,
    metrics: Metrics,
}

/// Creates the context of the operations.
fn context(config: &Config, base: Base, seeded_keys: bool) -> Result<Ctx, StartError> {
    let Base { pool, clock, chance, server_keys, push_key, metrics } = base;
    let states = states(config, &chance, &metrics)?;
    let ctx = entente_kernel::Ctx {
        pool,
        clock,
        chance,
        feed: Arc::new(Feed::new()),
        hooks: Arc::new(states.hooks()),
        settings: Arc::new(settings(config, seeded_keys)),
        grants: Arc::new(Grants::new(&metrics)),
        channel_intents: Arc::new(ChannelIntentCache::new(&metrics)),
        beats: Arc::default(),
        strict_agents: Arc::default(),
        stops: Arc::default(),
        quotas: Arc::new(entente_kernel::Quotas::new(config.http.quotas, &metrics)),
        loops: Arc::default(),
        operations: Arc::default(),
        server_keys: Arc::new(server_keys),
        state_changes: Arc::new(StateChanges::new(&metrics)),
        webhooks: Arc::new(Webhooks::new(entente_http::webhooks::encode)),
        notifications: Arc::new(Notifications::new(config.smtp.is_some(), push_key)),
        metrics,
    };
    Ok(Ctx::new(&ctx, states))
}

/// Creates a context over a database, for a command that works on it without serving: its clock follows the database's.
///
/// # Errors
/// The database fails; the configuration names provisioners that cannot be set up.
pub(crate) async fn offline(config: &Config, pool: Pool) -> Result<Ctx, StartError> {
    let (clock, chance): (Arc<dyn Clock>, Arc<dyn Chance>) =
        (Arc::new(SharedClock::default()), Arc::new(OsChance::default()));
    let server_keys = server_keys::open(&pool, &clock, &chance, config.signing_key.as_ref()).await?;
    let push_key = notifications::open(&pool, &clock).await?;
    let base = Base { pool, clock, chance, server_keys, push_key, metrics: Metrics::new() };
    let ctx = context(config, base, false)?;
    for _ in 0..CLOCK_READINGS {
        ctx.ping().await?;
    }
    Ok(ctx)
}

/// Starts the span recorder, if a collector is configured.
fn spans(config: &Config, ctx: &Ctx) -> Result<Option<Arc<Spans>>, SpansError> {
    let spans = config.collector.as_ref().map(|to| Spans::start(to, Arc::clone(&ctx.chance)));
    Ok(spans.transpose()?.map(Arc::new))
}

/// Prepares the server before the first request: synchronises the clock, loads key changes, and creates
/// seeded keys.
async fn furnish(ctx: &Ctx, given: &[Seed]) -> Result<(), StartError> {
    for _ in 0..CLOCK_READINGS {
        patiently(async || ctx.ping().await).await?;
    }
    patiently(async || keys::refresh(ctx).await).await?;
    patiently(async || ctx.stops.refresh(ctx).await).await?;
    patiently(async || ctx.quotas.refresh(ctx).await).await?;
    patiently(async || ctx.strict_agents.refresh(ctx).await).await?;
    patiently(async || ctx.loops.refresh(ctx).await).await?;
    for seed in given {
        patiently(async || seeds::seed(ctx, seed.kind, &seed.id, &seed.secret).await).await?;
    }
    Ok(())
}

fn settings(config: &Config, seeded_keys: bool) -> Settings {
    Settings {
        strict: config.strict,
        default_access: config.http.default_access,
        audit_event_type: config.audit_event_type.clone(),
        message_retention: config.message_retention,
        event_retention: config.event_retention,
        spend_retention: config.spend_retention,
        search: config.search,
        loops: config.loops.clone(),
        idempotency_window: config.idempotency_window,
        checkpoint_every: config.checkpoint_every,
        seeded_keys,
        webhooks: WebhookSettings {
            allowed: config.webhooks.allow.clone(),
            https_only: config.webhooks.https_only,
            timeout: config.webhooks.timeout,
            retention: config.webhooks.retention,
            per_principal: config.webhooks.per_principal,
            sinks: config.webhooks.sinks.iter().map(|sink| (sink.name.clone(), sink.rule())).collect(),
        },
        token_secret: config.token_secret.clone(),
    }
}

/// Creates the states of the protocols.
fn states(config: &Config, chance: &Arc<dyn Chance>, metrics: &Metrics) -> Result<States, StartError> {
    let arcp = Arc::new(entente_arcp::State {
        jobs: config.jobs.clone(),
        turns: entente_arcp::jobs::Turns::new(metrics),
        sessions: config.sessions.clone(),
        provisioners: provision::provisioners(config, chance).map_err(StartError::Egress)?,
    });
    Ok(States {
        openintent: Arc::new(entente_openintent::State::new(
            config.federation.clone(),
            config.vaults.clone(),
            metrics,
        )),
        aee: Arc::new(entente_aee::State {
            settings: config.ingest.clone(),
            quotas: Quotas::new(config.ingest.quotas),
            policies: PolicyCache::default(),
            keys: KeyCache::new(metrics),
            encode_item: entente_aee_api::webhooks::encode_item,
        }),
        moments: Arc::new(entente_moments::State {
            settings: config.moments.clone(),
            jobs: Arc::new(ArcpJobs(Arc::clone(&arcp))),
        }),
        arcp,
    })
}

/// Creates the runner of the bridges, which submits through the shared writers.
fn bridge(ctx: &Ctx, writers: &Writers, lookout: Option<&Arc<Lookout>>, tasks: &Tasks) -> Arc<Bridging> {
    let bridging = Arc::new(Bridging::new(ctx, &writers.messages, &writers.jobs));
    if let Some(lookout) = lookout {
        let (carrying, look, stopping) =
            (Arc::clone(&bridging), Arc::clone(lookout), tasks.stopping().clone());
        tasks.keep("bridges", move || Arc::clone(&carrying).drive(Arc::clone(&look), stopping.clone()));
    }
    bridging
}

/// Listens for commands of other servers, if that is configured.
fn peer_port(
    config: &Config,
    ctx: &Ctx,
    node: NodeId,
    tasks: &Tasks,
) -> Result<Option<PeerPort>, StartError> {
    let Some(peers) = &config.peers else { return Ok(None) };
    let unbound = |source| StartError::PeerBind { address: peers.listen, source };
    PeerPort::open(ctx, node, peers, tasks).map(Some).map_err(unbound)
}

/// The writers, which commit in groups.
struct Writers {
    messages: Arc<MessageWriter>,
    jobs: Arc<JobWriter>,
    envelopes: Ingest,
}

/// Starts the writers: of messages with their own pool, of jobs, and of envelopes.
fn write(
    config: &Config,
    ctx: &Ctx,
    node: NodeId,
    messages: &Pool,
    port: Option<&PeerPort>,
    tasks: &Tasks,
) -> Writers {
    let each = config.commit_writers;
    ctx.operations.start(ctx, node, each, tasks);
    let sending = ctx.with_pool(messages.clone()).openintent;
    let mut message_writer = MessageWriter::start(&sending, node, each, tasks);
    if let Some(port) = port {
        message_writer = message_writer.with_forwarder(port.forwarder());
    }
    let message_writer = Arc::new(message_writer);
    if let Some(port) = port {
        port.take(&message_writer, tasks);
    }
    Writers {
        messages: message_writer,
        jobs: Arc::new(JobWriter::start(&ctx.arcp, node, each, tasks)),
        envelopes: Ingest::start(&ctx.aee, node, each, tasks),
    }
}

/// Assembles the state of the HTTP layer.
fn http_state(
    config: &Config,
    ctx: entente_kernel::Ctx,
    spans: Option<Arc<Spans>>,
    tasks: &Tasks,
) -> HttpState {
    let bits = ctx.chance.bits().to_le_bytes();
    let start = bits.first_chunk().map_or(0, |half| u64::from_le_bytes(*half));
    let logins = LoginThrottle::new(&ctx.metrics);
    HttpState {
        ctx,
        limits: limits::limits(config),
        started: Instant::now(),
        pace: Pace::default(),
        spans,
        draining: tasks.draining().clone(),
        tasks: tasks.clone(),
        request_ids: RequestIds::new(start),
        connections: Arc::default(),
        held: Semaphore::new(HELD),
        logins,
        site: config.site.clone(),
    }
}

/// Assembles the states of the protocols' handlers.
fn api_state(
    http: Arc<HttpState>,
    ctx: Ctx,
    writers: Writers,
    tools: CallQueue,
    provider: Option<Arc<Provider>>,
    agent: Option<String>,
) -> ApiState {
    ApiState {
        a2a: Arc::new(entente_a2a_api::ApiState {
            http: Arc::clone(&http),
            ctx: ctx.arcp.clone(),
            job_writer: Arc::clone(&writers.jobs),
            agent,
        }),
        openintent: Arc::new(entente_openintent_api::ApiState {
            http: Arc::clone(&http),
            ctx: ctx.openintent.clone(),
            message_writer: writers.messages,
            tools,
        }),
        arcp: Arc::new(entente_arcp_api::ApiState {
            http: Arc::clone(&http),
            ctx: ctx.arcp.clone(),
            moments: ctx.moments.clone(),
            job_writer: writers.jobs,
        }),
        aee: Arc::new(entente_aee_api::ApiState {
            http: Arc::clone(&http),
            ctx: ctx.aee.clone(),
            ingest: writers.envelopes,
        }),
        moments: Arc::new(entente_moments_api::ApiState {
            http: Arc::clone(&http),
            ctx: ctx.moments.clone(),
        }),
        http,
        ctx,
        provider,
        checkup: Checkup::default(),
    }
}
