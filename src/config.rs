//! Configuration: environment variables, parsed once at start into a typed [`Config`].
//!
//! Only `startup` and the command line read it. `.env.example` documents every variable, and a test compares
//! it with this file. An invalid value stops the start with the variable's name; nothing is guessed.

pub mod bus;
mod collector;
pub mod credentials;
pub mod federation;
pub mod first_key;
pub mod http;
mod ingest;
mod jobs;
mod loops;
mod moments;
mod names;
pub mod peers;
pub mod provider;
mod quotas;
mod sessions;
pub mod sinks;
mod site;
pub mod smtp;
pub mod templates;
pub mod tls;
mod vaults;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use entente_aee::ingest::IngestSettings;
use entente_arcp::jobs::JobSettings;
use entente_arcp::sessions::SessionSettings;
use entente_domain::egress::Allowed;
use entente_domain::identity::signatures::{Signer, parse_seed};
use entente_domain::log::kinds::MESSAGE_EVENTS;
use entente_domain::loops::policy::LoopPolicy;
use entente_domain::openintent::federation::Federation;
use entente_http::site::Site;
use entente_kernel::TokenSecret;
use entente_moments::MomentSettings;
use entente_openintent::tools::vaults::VaultSettings;
use entente_runtime::spans::Collector;
use zeroize::Zeroizing;

use self::bus::BusConfig;
use self::credentials::CredentialConfig;
use self::first_key::FirstKey;
use self::http::HttpConfig;
use self::names::Judged;
use self::peers::PeerConfig;
use self::provider::ProviderConfig;
use self::sinks::SinkConfig;
use self::smtp::SmtpConfig;
use self::tls::TlsConfig;

/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text lines for people.
    Human,
    /// One JSON object per line.
    Json,
}

/// Configuration of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen on.
    pub bind: SocketAddr,
    /// HTTP worker threads.
    pub workers: usize,
    /// URL of the PostgreSQL to use; `None` for a private one.
    pub database_url: Option<String>,
    /// URL that leads around a pooler in transaction mode; `None` if `database_url` leads to PostgreSQL itself.
    pub direct_database_url: Option<String>,
    /// Bus by which servers wake each other.
    pub bus: BusConfig,
    /// Where this server takes commands that others hand over; `None` for nowhere.
    pub peers: Option<PeerConfig>,
    /// Connections for requests at most.
    pub database_connections: u32,
    /// Data directory of a private PostgreSQL; `None` for the user's default.
    pub data_dir: Option<PathBuf>,
    /// Directory of PostgreSQL's programs; `None` to search for them.
    pub pg_bin: Option<PathBuf>,
    /// Log filter, in the notation of `tracing`.
    pub log: String,
    /// Log format.
    pub log_format: LogFormat,
    /// Whether to follow RFC-0021 to the letter where clients rely on deviations (OI-2).
    pub strict: bool,
    /// Event type of audited messages (OI-10.7.1); the RFC's in strict mode.
    pub audit_event_type: String,
    /// Requests per second and key; 0 for no limit.
    pub rate_per_second: u32,
    /// Bytes of a request's body at most.
    pub max_body_bytes: usize,
    /// Open connections at most.
    pub max_connections: usize,
    /// Open streams and waiting requests per key at most.
    pub max_streams_per_key: usize,
    /// Limits and defaults of the API.
    pub http: HttpConfig,
    /// Time for requests in flight to finish when the server stops.
    pub drain: Duration,
    /// Time that messages are kept after their channel closed; `None` for ever.
    pub message_retention: Option<Duration>,
    /// As [`entente_kernel::Settings::event_retention`].
    pub event_retention: Option<Duration>,
    /// As [`entente_kernel::Settings::spend_retention`].
    pub spend_retention: Option<Duration>,
    /// As [`entente_kernel::Settings::search`].
    pub search: bool,
    /// As [`entente_kernel::Settings::loops`].
    pub loops: LoopPolicy,
    /// Time that an idempotency key is remembered.
    pub idempotency_window: Duration,
    /// Where the first key of a new database comes from.
    pub first_key: FirstKey,
    /// The server's signing key; `None` for the one stored in the database.
    pub signing_key: Option<Signer>,
    /// Number of events after which a log gets a checkpoint; `None` for never.
    pub checkpoint_every: Option<i64>,
    /// Writers of the group commit: number of concurrent transactions.
    pub commit_writers: usize,
    /// Interval of comments on idle streams.
    pub ping: Duration,
    /// Time that a refused subscription is held before its answer (OI-11.4.2).
    pub refused_subscribe_hold: Duration,
    /// Collector of spans; `None` for none.
    pub collector: Option<Collector>,
    /// Webhooks.
    pub webhooks: WebhookConfig,
    /// Credentials for jobs.
    pub credentials: CredentialConfig,
    /// Jobs.
    pub jobs: JobSettings,
    /// Sessions.
    pub sessions: SessionSettings,
    /// Secret that signs tokens of the form `principal.exp.sig`; `None` refuses such tokens.
    pub token_secret: Option<TokenSecret>,
    /// Envelopes.
    pub ingest: IngestSettings,
    /// Public addresses of this server.
    pub site: Site,
    /// The agent whose A2A card is the server's; `None` for no such card.
    pub a2a_agent: Option<String>,
    /// Mail server for notifications of people; `None` sends no mail.
    pub smtp: Option<SmtpConfig>,
    /// Binding moments.
    pub moments: MomentSettings,
    /// Federation with other servers; `None` for none.
    pub federation: Option<Federation>,
    /// Provider with whose accounts people log in; `None` for none.
    pub provider: Option<ProviderConfig>,
    /// Vaults and tools.
    pub vaults: VaultSettings,
    /// TLS of clients' and of outgoing connections.
    pub tls: TlsConfig,
    /// Warnings about variables that look like settings but are not.
    pub unknown: Vec<String>,
}

/// Configuration of webhooks.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// Destinations that are allowed besides the public internet.
    pub allow: Allowed,
    /// Whether only https URLs are allowed.
    pub https_only: bool,
    /// Time that a receiver may take to answer.
    pub timeout: Duration,
    /// Concurrent deliveries.
    pub concurrency: usize,
    /// Time that finished deliveries are kept.
    pub retention: Duration,
    /// Subscriptions per principal at most.
    pub per_principal: u32,
    /// Brokers that subscriptions may publish to.
    pub sinks: Vec<SinkConfig>,
}

/// Errors in the configuration, each with the name of its variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used:")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for ConfigError {}

/// Reads variables and collects all errors, so that one start reports all of them.
struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    faults: Vec<String>,
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn parsed<T: FromStr>(&mut self, name: &str, default: T, what: &str, lawful: impl Fn(&T) -> bool) -> T {
        let Some(text) = self.text(name) else { return default };
        match text.parse() {
            Ok(value) if lawful(&value) => value,
            _ => {
                self.faults.push(format!("{name}={text}: must be {what}"));
                default
            }
        }
    }

    /// Reads a number within bounds.
    fn number<T>(&mut self, name: &str, default: T, bounds: RangeInclusive<T>) -> T
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        let what = format!("a number from {} to {}", bounds.start(), bounds.end());
        self.parsed(name, default, &what, |number| bounds.contains(number))
    }

    /// Reads a seed in base64. The value is a secret, so no message contains it.
    fn signing_key(&mut self, name: &str) -> Option<Signer> {
        let seed = parse_seed(&self.text(name)?);
        if seed.is_none() {
            self.faults
                .push(format!("{name}: must be 32 bytes in base64 (`openssl rand -base64 32` makes them)"));
        }
        seed.map(|seed| Signer::from_seed(&seed))
    }

    /// Reads the URL that leads around a pooler. It may contain a password, so no message contains it.
    fn direct_database_url(&mut self) -> Option<String> {
        let direct = self.text("ENTENTE_DIRECT_DATABASE_URL");
        if direct.is_some() && self.text("DATABASE_URL").is_none() {
            let fault = "ENTENTE_DIRECT_DATABASE_URL: leads around the pooler of DATABASE_URL, which is not set. Set both, or \
                         only DATABASE_URL";
            self.faults.push(fault.to_owned());
        }
        direct
    }

    fn webhooks(&mut self) -> WebhookConfig {
        WebhookConfig {
            allow: self.allowed("ENTENTE_WEBHOOK_ALLOW"),
            https_only: self.parsed("ENTENTE_WEBHOOK_HTTPS_ONLY", false, "`true` or `false`", |_| true),
            timeout: self.seconds("ENTENTE_WEBHOOK_TIMEOUT_SECONDS", 15, 60).max(Duration::from_secs(1)),
            concurrency: self.parsed("ENTENTE_WEBHOOK_CONCURRENCY", 256, "a number from 1 to 10000", |n| {
                (1..=10_000).contains(n)
            }),
            retention: Duration::from_secs(
                24 * 3_600
                    * self.parsed(
                        "ENTENTE_WEBHOOK_RETENTION_DAYS",
                        7,
                        "a number of days from 1 to 3650",
                        |n| (1..=3_650).contains(n),
                    ),
            ),
            per_principal: self.number("ENTENTE_WEBHOOKS_PER_PRINCIPAL", 1_000, 1..=1_000_000),
            sinks: self.sinks(),
        }
    }

    fn allowed(&mut self, name: &str) -> Allowed {
        let Some(text) = self.text(name) else { return Allowed::default() };
        text.parse().unwrap_or_else(|()| {
            let what = "a list such as `10.1.0.0/16, fd00::/8, hooks.internal`";
            self.faults.push(format!("{name}={text}: must be {what}"));
            Allowed::default()
        })
    }

    /// Reads a retention in days; 0 means for ever.
    fn retention(&mut self, name: &str) -> Option<Duration> {
        let days = self.parsed(name, 0_u64, "a number of days up to 36500", |n| *n <= 36_500);
        (days > 0).then(|| Duration::from_secs(days * 24 * 3_600))
    }

    /// Reads the event type of audited messages; strict mode has the RFC's name (RFC-0021 §6).
    fn audit_event_type(&mut self, strict: bool) -> String {
        let [rfc, sdk] = MESSAGE_EVENTS;
        let lawful = |name: &String| MESSAGE_EVENTS.contains(&name.as_str());
        let set = self.parsed(
            "ENTENTE_AUDIT_EVENT_TYPE",
            sdk.to_owned(),
            "`channel.message` or `channel_message`",
            lawful,
        );
        if strict { rfc.to_owned() } else { set }
    }

    fn seconds(&mut self, name: &str, default: u64, most: u64) -> Duration {
        let what = format!("a number of seconds from 0 to {most}");
        Duration::from_secs(self.parsed(name, default, &what, |seconds| *seconds <= most))
    }
}

impl Config {
    /// Reads the configuration through `get`, which returns a variable's value.
    ///
    /// # Errors
    /// All variables with invalid values.
    pub fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut from = Reader { get, faults: Vec::new() };
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let tls = from.tls();
        let strict = from.parsed("ENTENTE_STRICT_RFC0021", false, "`true` or `false`", |_| true);
        let config = Self {
            bind: from.parsed(
                "ENTENTE_BIND",
                SocketAddr::from(([127, 0, 0, 1], 8080)),
                "ADDRESS:PORT",
                |_| true,
            ),
            workers: from.number("ENTENTE_WORKERS", cores, 1..=512),
            database_url: from.text("DATABASE_URL"),
            direct_database_url: from.direct_database_url(),
            bus: from.bus(),
            peers: from.peers(),
            database_connections: from.number("ENTENTE_DATABASE_CONNECTIONS", 20, 5..=1000),
            data_dir: from.text("ENTENTE_DATA_DIR").map(PathBuf::from),
            pg_bin: from.text("ENTENTE_PG_BIN").map(PathBuf::from),
            log: from.parsed(
                "ENTENTE_LOG",
                "info".to_owned(),
                "a log filter such as `info` or `entente=debug`",
                |text| text.parse::<tracing_subscriber::filter::Targets>().is_ok(),
            ),
            log_format: match from.text("ENTENTE_LOG_FORMAT").as_deref() {
                None | Some("human") => LogFormat::Human,
                Some("json") => LogFormat::Json,
                Some(other) => {
                    from.faults.push(format!("ENTENTE_LOG_FORMAT={other}: must be `human` or `json`"));
                    LogFormat::Human
                }
            },
            strict,
            audit_event_type: from.audit_event_type(strict),
            rate_per_second: from.parsed(
                "ENTENTE_RATE_PER_SECOND",
                1_000,
                "a number from 0 (no limit) to 1000000",
                |n| *n <= 1_000_000,
            ),
            max_body_bytes: from.parsed(
                "ENTENTE_MAX_BODY_BYTES",
                2 * 1024 * 1024,
                "a number of bytes from 1024 to 67108864",
                |n| (1024..=64 * 1024 * 1024).contains(n),
            ),
            max_connections: from.number("ENTENTE_MAX_CONNECTIONS", 25_000, 10..=1_000_000),
            max_streams_per_key: from.number("ENTENTE_MAX_STREAMS_PER_KEY", 1_000, 1..=1_000_000),
            http: from.http(),
            drain: from.seconds("ENTENTE_DRAIN_SECONDS", 20, 3_600),
            message_retention: from.retention("ENTENTE_MESSAGE_RETENTION_DAYS"),
            event_retention: from.retention("ENTENTE_EVENT_RETENTION_DAYS"),
            spend_retention: from.retention("ENTENTE_SPEND_RETENTION_DAYS"),
            search: from.parsed("ENTENTE_SEARCH", true, "`true` or `false`", |_| true),
            loops: from.loops(),
            idempotency_window: Duration::from_secs(
                3_600
                    * from.parsed("ENTENTE_IDEMPOTENCY_HOURS", 24, "a number of hours from 1 to 8760", |n| {
                        (1..=8_760).contains(n)
                    }),
            ),
            first_key: from.first_key(),
            signing_key: from.signing_key("ENTENTE_SIGNING_KEY"),
            checkpoint_every: Some(from.parsed(
                "ENTENTE_CHECKPOINT_EVERY",
                0,
                "0 (never) or a number of events from 10 to 1000000000",
                |n| *n == 0 || (10..=1_000_000_000).contains(n),
            ))
            .filter(|every| *every > 0),
            // Half the cores: PostgreSQL needs the others, and fewer writers make larger batches.
            commit_writers: from.number("ENTENTE_COMMIT_WRITERS", (cores / 2).max(1), 1..=64),
            ping: from.seconds("ENTENTE_PING_SECONDS", 15, 300).max(Duration::from_secs(1)),
            refused_subscribe_hold: from.seconds("ENTENTE_REFUSED_SUBSCRIBE_SECONDS", 2, 5),
            collector: from.collector(&tls.authorities),
            webhooks: from.webhooks(),
            credentials: CredentialConfig::read(&mut from),
            jobs: from.jobs(),
            sessions: from.sessions(),
            token_secret: from.token_secret(),
            ingest: from.ingest(),
            site: from.site(),
            a2a_agent: from.a2a_agent(),
            smtp: from.smtp(),
            moments: from.moments(),
            federation: from.federation(),
            provider: from.provider(),
            vaults: from.vaults(),
            tls,
            unknown: Vec::new(),
        };
        if from.faults.is_empty() { Ok(config) } else { Err(ConfigError(from.faults)) }
    }

    /// Reads the configuration from the process's environment, and from a `.env` file in the working
    /// directory for variables that the environment lacks.
    ///
    /// # Errors
    /// As [`Self::read`]; an unreadable `.env` file; a misspelt setting.
    pub fn from_environment() -> Result<Self, ConfigError> {
        let environment = Environment::read()?;
        // The settings' names, and the names in a credentials file.
        let known = RefCell::new(BTreeSet::new());
        let note = |name: &str| {
            known.borrow_mut().insert(name.to_owned());
        };
        let _defaults = Self::read(&|name| {
            note(name);
            None
        });
        let read = Self::read(&|name| {
            note(name);
            environment.get(name)
        });
        let given = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let given = given.chain(environment.file.iter().map(|(name, _)| name.clone()));
        let Judged { misspelt, unknown } = names::judge(given, &known.borrow());
        let faults = match read {
            Ok(config) if misspelt.is_empty() => return Ok(Self { unknown, ..config }),
            Ok(_) => Vec::new(),
            Err(ConfigError(faults)) => faults,
        };
        Err(ConfigError(faults.into_iter().chain(misspelt).chain(unknown).collect()))
    }

    /// Returns the settings whose values are keys, as they are written, for a backup: without them, data that they
    /// sealed or signed is lost.
    ///
    /// # Errors
    /// An unreadable `.env` file.
    pub fn keys() -> Result<Vec<(&'static str, Zeroizing<String>)>, ConfigError> {
        let environment = Environment::read()?;
        let key = |name| Some((name, Zeroizing::new(environment.get(name).filter(|key| !key.is_empty())?)));
        Ok([VAULT_KEY, "ENTENTE_VAULT_OLD_KEYS", "ENTENTE_SIGNING_KEY"].into_iter().filter_map(key).collect())
    }
}

/// Setting with the key that seals secrets in vaults.
pub const VAULT_KEY: &str = "ENTENTE_VAULT_KEY";

/// The variables of the environment, and below them those of the file `.env`.
struct Environment {
    file: Vec<(String, String)>,
}

impl Environment {
    fn read() -> Result<Self, ConfigError> {
        let unreadable = |e: dotenvy::Error| ConfigError(vec![format!(".env: {e}")]);
        let file = match dotenvy::from_path_iter(".env") {
            Ok(lines) => lines.collect::<Result<_, _>>().map_err(unreadable)?,
            Err(e) if e.not_found() => Vec::new(),
            Err(e) => return Err(unreadable(e)),
        };
        Ok(Self { file })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    fn get(&self, name: &str) -> Option<String> {
        let below = || self.file.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        std::env::var(name).ok().or_else(below)
    }
}
