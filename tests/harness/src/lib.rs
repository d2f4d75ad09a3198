//! Test harness: one private PostgreSQL per run, one database per test, an in-process server with a manual
//! clock and background tasks that the test steps, and clients that speak raw JSON.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a test owns its tasks, and some follow the true clock")]
#![expect(
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    reason = "whatever goes wrong in a test panics"
)]
#![expect(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "a test that drops a result checks another"
)]
#![expect(missing_docs, reason = "names of what a test sets and reads say what they are")]

/// The program's allocator: servers that start and stop mostly allocate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub mod agents;
pub mod browser;
mod bundles;
pub mod cli;
mod client;
pub mod conformity;
pub mod envelopes;
pub mod governance;
mod hooks;
pub mod identities;
pub mod inbox;
pub mod jobs;
pub mod keys;
pub mod loops;
pub mod mcp;
pub mod moments;
mod peers;
pub mod people;
pub mod search;
pub mod socket;
pub mod spending;
mod stream;
pub mod tasks;
pub mod triggers;
pub mod vaults;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use chrono::{TimeDelta, TimeZone as _, Utc};
use entente::background::egress::{Names, SystemNames};
use entente::background::sweeps::run_all;
use entente::config::Config;
use entente::startup::{Parts, Server};
use entente_bridges::Ctx;
use entente_domain::clock::{Clock, Timestamp};
use entente_domain::identity::keys::Presented;
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::{Chance, IntentId};
use entente_domain::log::chains::verify;
use entente_domain::log::events::Sealed;
use entente_kernel::identity::seeds;
use sqlx::postgres::PgConnectOptions;

pub use bundles::BundleFile;
pub use client::{Client, Reply, http};
pub use hooks::subscribe;
pub use peers::cable::Cable;
pub use peers::cluster::Cluster;
pub use peers::kafka::{KafkaBroker, Recorded};
pub use peers::nats::{MAX_PAYLOAD, Nats, Stream, Streamed, TestBus};
pub use peers::pgbouncer::PgBouncer;
pub use peers::proxy::Proxy;
pub use peers::receiver::{Act, Got, Receiver};
pub use peers::scratch::scratch;
pub use peers::{desk, patroni, process, program, terminal};
pub use serde_json::{Value, json};
pub use stream::{Event, Sse};

/// A clock that moves only when the test advances it.
pub struct HandClock(Mutex<Timestamp>);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

impl HandClock {
    /// Advances the clock.
    pub fn advance(&self, seconds: i64) {
        *self.0.lock().unwrap() += TimeDelta::seconds(seconds);
    }
}

/// Deterministic random bits.
pub struct SeededChance(AtomicU64);

impl Chance for SeededChance {
    fn bits(&self) -> u128 {
        // Two outputs of SplitMix64.
        let next = || {
            let mut z = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            u128::from(z ^ (z >> 31))
        };
        next() << 64 | next()
    }
}

/// Options of a test server.
#[derive(Clone, Default)]
pub struct Setup {
    /// Settings, by the names of their environment variables.
    pub settings: Vec<(&'static str, &'static str)>,
    /// Run the background tasks, on the system clock.
    pub live: bool,
}

impl Setup {
    /// Returns the default settings with the background tasks running.
    pub fn live() -> Self {
        Self { live: true, ..Self::default() }
    }
}

/// Returns the seed of a server's random bits: the number of servers that its database has had. Two servers
/// with the same seed would create equal ids at the same instant.
fn seed(database: &str) -> u64 {
    static SERVERS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
    let mut servers = SERVERS.lock().unwrap();
    let count = servers.entry(database.to_owned()).or_default();
    *count += 1;
    *count
}

/// A server with its database and clock.
pub struct World {
    pub server: Server,
    pub clock: Arc<HandClock>,
    pub database: String,
    pub address: SocketAddr,
    /// Whether the test delivered webhooks.
    hooked: AtomicBool,
}

/// Vault encryption key: 32 bytes, each of them 7.
pub const VAULT_KEY: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// API key of the service principal that may act as any agent.
pub const ANY: &str = "any-agent-key";

impl World {
    /// Starts a server with the default settings.
    pub async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    /// Starts a server with these settings.
    pub async fn with(setup: Setup) -> Self {
        let database = Cluster::get().fresh_database().await;
        Self::on(setup, database).await
    }

    /// Starts another server on an existing database.
    pub async fn on(setup: Setup, database: String) -> Self {
        Self::naming(setup, database, Arc::new(SystemNames)).await
    }

    /// Starts two servers on one database, each with background tasks.
    pub async fn two() -> (Self, Self) {
        Self::two_on(&TestBus::Postgres).await
    }

    /// Like [`Self::two`], with the servers on this bus.
    pub async fn two_on(bus: &TestBus) -> (Self, Self) {
        let one = Self::with(bus.setup()).await;
        let other = Self::on(bus.setup(), one.database.clone()).await;
        (one, other)
    }

    /// Like [`Self::on`], with `names` as the name resolver.
    pub async fn naming(setup: Setup, database: String, names: Arc<dyn Names>) -> Self {
        let options = Cluster::get().options(&database);
        Self::reaching(setup, database, options, None, names).await
    }

    /// Like [`Self::on`], on another PostgreSQL; the name only tells databases apart.
    pub async fn elsewhere(setup: Setup, name: &str, options: PgConnectOptions) -> Self {
        Self::reaching(setup, name.to_owned(), options, None, Arc::new(SystemNames)).await
    }

    /// Like [`Self::on`], with the database behind a proxy.
    pub async fn through(setup: Setup, database: String, proxy: &Proxy) -> Self {
        let options = proxy.options(&database);
        Self::reaching(setup, database, options, None, Arc::new(SystemNames)).await
    }

    /// Like [`Self::on`], with the database behind a pooler, and a way around it.
    pub async fn pooled(
        setup: Setup,
        database: String,
        pooler: &PgBouncer,
        direct: Option<PgConnectOptions>,
    ) -> Self {
        let options = pooler.options(&database);
        Self::reaching(setup, database, options, direct, Arc::new(SystemNames)).await
    }

    async fn reaching(
        setup: Setup,
        database: String,
        options: PgConnectOptions,
        direct: Option<PgConnectOptions>,
        names: Arc<dyn Names>,
    ) -> Self {
        let start = Utc.with_ymd_and_hms(2026, 11, 21, 8, 0, 0).unwrap();
        let clock = Arc::new(HandClock(Mutex::new(start)));
        let settings = setup.settings.clone();
        let config = Config::read(&|name| match name {
            "ENTENTE_BIND" if !settings.iter().any(|(key, _)| *key == name) => Some("127.0.0.1:0".to_owned()),
            "ENTENTE_WORKERS" | "ENTENTE_WEBHOOK_TIMEOUT_SECONDS"
                if !settings.iter().any(|(key, _)| *key == name) =>
            {
                Some("1".to_owned())
            }
            "ENTENTE_REFUSED_SUBSCRIBE_SECONDS" | "ENTENTE_RATE_PER_SECOND"
                if !settings.iter().any(|(key, _)| *key == name) =>
            {
                Some("0".to_owned())
            }
            // Webhook receivers run on this machine, and the timeouts are the shortest that can be set.
            "ENTENTE_WEBHOOK_ALLOW" | "ENTENTE_TOOL_ALLOW"
                if !settings.iter().any(|(key, _)| *key == name) =>
            {
                Some("127.0.0.1".to_owned())
            }
            "ENTENTE_VAULT_KEY" if !settings.iter().any(|(key, _)| *key == name) => {
                Some(VAULT_KEY.to_owned())
            }
            _ => settings.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()),
        });
        let mut parts = Parts::real(config.unwrap(), options);
        if !setup.live {
            parts.clock = clock.clone();
            parts.chance = Arc::new(SeededChance(AtomicU64::new(seed(&database))));
            parts.background = false;
        }
        parts.direct = direct;
        parts.names = names;
        parts.seeded_keys = true;
        let server = Box::pin(Server::start(parts)).await.unwrap();
        let address = server.address;
        let world = Self { server, clock, database, address, hooked: AtomicBool::new(false) };
        seeds::seed(&world.server.ctx, PrincipalKind::Service, "service.any", ANY).await.unwrap();
        world
    }

    /// Returns the context of the server's operations.
    pub fn ctx(&self) -> &Ctx {
        &self.server.ctx
    }

    /// Begins a transaction of the test that may stay open as long as the test needs; the server's own
    /// transactions have time limits.
    pub async fn hold(&self) -> entente_kernel::Tx {
        let mut held = self.ctx().pool.begin().await.unwrap();
        let unlimited = "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '20s'";
        sqlx::raw_sql(unlimited).execute(&mut *held).await.unwrap();
        held
    }

    /// Returns a client with this API key.
    pub fn client(&self, key: &str) -> Client {
        Client::new(self.address, Some(key))
    }

    /// Returns a client without an API key.
    pub fn anon(&self) -> Client {
        Client::new(self.address, None)
    }

    /// Returns a client with the key of the service that may act as any agent.
    pub fn any(&self) -> Client {
        self.client(ANY)
    }

    /// Returns a client with its own key for this agent.
    pub async fn agent(&self, id: &str) -> Client {
        let key = format!("key-of-{id}");
        seeds::seed(&self.server.ctx, PrincipalKind::Agent, id, &key).await.unwrap();
        self.client(&key)
    }

    /// Returns a client with its own key for this person.
    pub async fn human(&self, id: &str) -> Client {
        let key = format!("key-of-{id}");
        seeds::seed(&self.server.ctx, PrincipalKind::Human, id, &key).await.unwrap();
        self.client(&key)
    }

    /// Returns a client with an admin key. A server process of `entente dev` on the same database does not end it.
    pub async fn admin(&self) -> Client {
        let made = seeds::bootstrap(&self.server.ctx, &self.presented()).await.unwrap().unwrap();
        self.client(&made.secret.unwrap().0)
    }

    /// Returns a client with the operator's key of a run of `entente dev`, which ends that of the run before.
    pub async fn operator(&self) -> Client {
        let made = seeds::development(&self.server.ctx, &self.presented()).await.unwrap().unwrap();
        self.client(&made.secret.unwrap().0)
    }

    fn presented(&self) -> Presented {
        Presented::mint(&*self.server.ctx.chance)
    }

    /// Advances the clock and runs the sweeps.
    pub async fn pass(&self, seconds: i64) {
        self.clock.advance(seconds);
        self.sweep().await;
    }

    /// Runs all sweeps until nothing is due and returns the number of items they processed.
    pub async fn sweep(&self) -> u64 {
        run_all(self.ctx(), true).await.unwrap()
    }

    /// As [`Self::sweep`], while another server of the same database does the same.
    pub async fn sweep_beside(&self) -> u64 {
        run_all(self.ctx(), false).await.unwrap()
    }

    /// Publishes committed entries that were not published yet to the followers, as the background's feed
    /// fill does.
    pub async fn feed(&self) {
        for intent in self.ctx().feed.followed() {
            entente_kernel::feed::streams::fill(self.ctx(), intent).await.unwrap();
        }
    }

    /// Runs the bridges until nothing is left to carry.
    pub async fn carry(&self) {
        while self.server.bridging.step().await.unwrap() > 0 {}
    }

    /// Ends the test server and checks the invariants of every test: what is due comes to an end, and every log is
    /// intact.
    pub async fn end(self) {
        self.end_hooks().await;
        // Returns only after every sweep has found nothing.
        self.sweep().await;
        let logs: Vec<uuid::Uuid> = sqlx::query_scalar("SELECT DISTINCT intent_id FROM events")
            .fetch_all(&self.ctx().pool)
            .await
            .unwrap();
        for intent in logs {
            self.check_log(intent.into()).await;
        }
        self.server.stop().await;
    }

    async fn check_log(&self, intent: IntentId) {
        let events = entente_kernel::audit::events::whole_log(self.ctx(), intent).await.unwrap();
        let sealed: Vec<Sealed> = events.iter().map(Sealed::from).collect();
        // Retention may have deleted the first events.
        let sql = "SELECT coalesce(max(sequence), 0) FROM log_floors WHERE intent_id = $1";
        let deleted: i64 =
            sqlx::query_scalar(sql).bind(intent.uuid()).fetch_one(&self.ctx().pool).await.unwrap();
        let previous = sealed.first().filter(|_| deleted > 0).and_then(|one| one.previous_event_hash.clone());
        let faults = verify(&sealed, deleted + 1, previous.as_deref());
        assert_eq!(faults, [], "the log of {intent} is not whole");
    }
}

/// Creates an intent with a channel as `client`; returns both ids.
pub async fn talk(client: &Client, options: Value) -> (String, String) {
    let intent = client.post("/intents", json!({ "title": "talk" })).await.ok();
    let intent = intent["id"].as_str().unwrap().to_owned();
    let mut ask = json!({ "name": "talk" });
    ask.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let channel = client.post(&format!("/intents/{intent}/channels"), ask).await.is(201);
    (intent, channel["id"].as_str().unwrap().to_owned())
}

/// Returns the ids of a list.
pub fn ids(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

/// Sends a message to a channel and returns it.
pub async fn send(client: &Client, channel: &str, body: Value) -> Value {
    client.post(&format!("/channels/{channel}/messages"), body).await.is(201)
}

/// Sends a message of agent.ada to a channel, with a number as its payload's `n`, and returns it.
pub async fn send_number(client: &Client, channel: &str, n: u64) -> Value {
    send(client, channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await
}
