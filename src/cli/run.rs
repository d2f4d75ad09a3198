//! `entente serve` and `entente dev`: run a server until a stop signal.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use entente_domain::egress::Allowed;
use entente_domain::identity::principals::PrincipalKind;
use entente_kernel::identity::keys::NewKey;
use entente_kernel::identity::people;
use entente_kernel::identity::seeds::Seed;
use entente_runtime::signals::Signals;
use entente_store::private::Private;
use sqlx::postgres::PgConnectOptions;

use super::dev_keys::For;
use super::{Done, Failure, dev_keys, first_key, vault_key, welcome};
use crate::config::Config;
use crate::startup::{Parts, Server, StartError, patiently};
use crate::telemetry;

/// Arguments of `entente dev`.
#[derive(Debug, Args)]
pub struct Dev {
    /// The address to listen on [default: `ENTENTE_BIND` or 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) bind: Option<SocketAddr>,
    /// The data directory of the private PostgreSQL
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Create a principal with this literal key, for local use; repeatable
    #[arg(long, value_name = "KIND:ID=SECRET", value_parser = parse_seed)]
    seed: Vec<Seed>,
}

impl Dev {
    /// Returns the configuration for development, and the seeded keys.
    ///
    /// # Errors
    /// The environment's configuration is invalid, or seeded keys would be usable from other machines.
    pub(super) fn settle(self) -> Result<(Config, Vec<Seed>), Failure> {
        let mut config = Config::from_environment()?;
        config.bind = self.bind.unwrap_or(config.bind);
        config.data_dir = self.data_dir.or(config.data_dir);
        // During development webhook receivers and tools run on the same machine.
        config.webhooks.allow = config.webhooks.allow.and(Allowed::loopback());
        config.vaults.allowed = config.vaults.allowed.and(Allowed::loopback());
        vault_key::keep(&mut config)?;
        // The developer answers questions without an explicit addressee.
        config.moments.person.get_or_insert_with(|| people::DEVELOPER.to_owned());
        if !config.bind.ip().is_loopback() && !self.seed.is_empty() {
            return Err(format!(
                "seeded keys are for local use, and {} can be reached from elsewhere. Bind to {} or leave --seed out",
                config.bind,
                IpAddr::from([127, 0, 0, 1])
            )
            .into());
        }
        if !config.bind.ip().is_loopback() {
            config.check_token_secret()?;
        }
        Ok((config, self.seed))
    }
}

/// Parses KIND:ID=SECRET.
fn parse_seed(text: &str) -> Result<Seed, String> {
    let wrong = || "must be KIND:ID=SECRET with the kind human, agent or service".to_owned();
    let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (id, secret) = rest.split_once('=').ok_or_else(wrong)?;
    let kind = PrincipalKind::parse(kind).ok_or_else(wrong)?;
    if id.is_empty() || secret.is_empty() {
        return Err(wrong());
    }
    Ok(Seed { kind, id: id.to_owned(), secret: secret.to_owned() })
}

/// Runs a server in production.
pub async fn serve() -> Done {
    let config = Config::from_environment()?;
    config.check_token_secret()?;
    if config.database_url.is_none() && config.data_dir.is_none() {
        return Err("`entente serve` guesses nothing: set DATABASE_URL to use a PostgreSQL, or ENTENTE_DATA_DIR for a \
                    private one. For a first look run `entente dev`"
            .into());
    }
    if config.credentials.development {
        return Err("ENTENTE_CREDENTIALS=development is for `entente dev`: such credentials are good nowhere. Name real \
                    provisioners in ENTENTE_CREDENTIALS_FILE"
            .into());
    }
    telemetry::init(&config);
    let mut signals = Signals::listen()?;
    let wanted = config.first_key.clone();
    let (server, private) = start(config, Vec::new(), &mut signals).await?;
    let lines = first_key::create(&server.ctx, &wanted).await.map(|first| {
        let listens = format!("Entente listens on {}://{}", server.scheme(), server.address);
        first.into_iter().chain([listens]).collect()
    });
    run_announced(server, private, signals, lines).await
}

/// Returns the server's address for a browser on this machine: an unspecified address cannot be opened, and
/// logins from other machines need TLS.
fn near(address: SocketAddr) -> SocketAddr {
    let loopback: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(loopback, address.port())
}

/// Runs a server for development.
pub async fn dev(arguments: Dev) -> Done {
    let (config, seeds) = arguments.settle()?;
    telemetry::init(&config);
    let mut signals = Signals::listen()?;
    let keys = dev_keys::directory(&config);
    let (server, private) = start(config, seeds, &mut signals).await?;
    let lines = Box::pin(introduction(&server, keys.as_deref())).await;
    run_announced(server, private, signals, lines).await
}

/// Makes a developer's keys, login and first question, and returns the lines that say so.
async fn introduction(server: &Server, keys: Option<&Path>) -> Result<Vec<String>, Failure> {
    let operator = dev_keys::keep(&server.ctx, keys, For::Operator).await?;
    let agents = dev_keys::keep(&server.ctx, keys, For::Agents).await?;
    let login = patiently(async || people::development(&server.ctx).await).await?;
    let url = format!("{}://{}", server.scheme(), near(server.address));
    let mut lines = vec![
        "For agents: a key that acts as any `agent.…`, and administers nothing\n".to_owned(),
        format!("  export ENTENTE_API_KEY={agents}"),
        format!("  export ENTENTE_URL={url}"),
        "\nFor you as the operator: the key that makes principals, keys and links. Give it to no agent, and export it nowhere:"
            .to_owned(),
        format!("\n  ENTENTE_OPERATOR_KEY={operator}"),
    ];
    lines.push(match keys {
        Some(dir) => format!(
            "\nBoth stay the same after a restart: they are kept in {}, for you alone.",
            dir.display()
        ),
        None => "\nBoth are of this run: the next one on this database ends them.".to_owned(),
    });
    if let Err(failure) = welcome::ask(&server.ctx, &agents).await {
        tracing::warn!(error = %failure, "the first question could not be asked");
    }
    if let Some(path) = login.path {
        let link = format!("{url}{}", path.0);
        lines.push(format!("\nDecide and watch as human.dev; this link logs you in, once:\n\n  {link}"));
    }
    lines.push(format!("\nThe API is documented at {url}/docs. Ctrl-C stops the server."));
    Ok(lines)
}

/// Returns the text that shows the operator's key, under another name than agents' keys, and without `export`:
/// programs started afterwards do not inherit it.
pub(super) fn operator_key(what: &str, new: &NewKey) -> Option<String> {
    new.secret.as_ref().map(|secret| format!("{what}\n\n  ENTENTE_OPERATOR_KEY={}", secret.0))
}

/// Prints lines for the operator, then runs the server; if there are none, or nobody reads them, stops it in order.
async fn run_announced(
    server: Server,
    private: Option<Arc<Private>>,
    signals: Signals,
    lines: Result<Vec<String>, Failure>,
) -> Done {
    match lines.and_then(|lines| print(&lines)) {
        Ok(()) => run(server, private, signals).await,
        Err(failure) => {
            run_until(server, private, signals, std::future::ready(())).await?;
            Err(failure)
        }
    }
}

fn print(lines: &[String]) -> Done {
    let mut out = io::stdout().lock();
    out.write_all((lines.join("\n") + "\n").as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Connection options of the database, and the private PostgreSQL behind them, if any.
pub(super) struct Database {
    pub(super) options: PgConnectOptions,
    /// Those that lead around the pooler in front of it.
    pub(super) direct: Option<PgConnectOptions>,
    pub(super) private: Option<Private>,
}

/// Returns the database that the operator has named, or the private one that is there, for a command that changes it: a
/// forgotten `DATABASE_URL` must not lead to a new database.
pub(super) async fn named_database(config: &Config) -> Result<Database, Failure> {
    let dir = Private::default_dir();
    if config.database_url.is_none() && config.data_dir.is_none() && !dir.join("postgres").exists() {
        return Err(format!(
            "no database is named, and there is none in {}: set DATABASE_URL, or ENTENTE_DATA_DIR for a private one",
            dir.display()
        )
        .into());
    }
    database(config).await
}

/// Returns the configured database; without one, starts a private PostgreSQL.
pub(super) async fn database(config: &Config) -> Result<Database, Failure> {
    let read = |url: &str, name: &'static str| entente_store::options(url).ok_or(StartError::Url(name));
    if let Some(url) = &config.database_url {
        let direct = config.direct_database_url.as_deref();
        let direct = direct.map(|url| read(url, "ENTENTE_DIRECT_DATABASE_URL")).transpose()?;
        return Ok(Database { options: read(url, "DATABASE_URL")?, direct, private: None });
    }
    let dir = config.data_dir.clone().unwrap_or_else(Private::default_dir);
    let private = Private::start(&dir, config.pg_bin.as_deref(), &[]).await?;
    Ok(Database { options: private.options(), direct: None, private: Some(private) })
}

/// Starts a server, and a private PostgreSQL if no database is configured. The server keeps it alive until it stops.
pub(super) async fn start(
    config: Config,
    seeds: Vec<Seed>,
    signals: &mut Signals,
) -> Result<(Server, Option<Arc<Private>>), Failure> {
    let Database { options: database, direct, private } = database(&config).await?;
    let private = private.map(Arc::new);
    let parts = Parts { direct, seeded_keys: !seeds.is_empty(), seeds, ..Parts::real(config, database) };
    let starting = Box::pin(Server::start(parts));
    let started = tokio::select! {
        started = starting => started.map_err(Into::into),
        never = keep(private.as_deref()) => match never {},
        () = signals.told() => Err("told to stop before it was ready".into()),
    };
    match (started, private) {
        (Ok(server), private) => {
            if let Some(private) = &private {
                server.keep(Arc::clone(private));
            }
            Ok((server, private))
        }
        (Err(failure), private) => {
            if let Some(private) = private {
                private.stop().await?;
            }
            Err(failure)
        }
    }
}

/// Keeps the private PostgreSQL alive, if there is one, while a server starts that does so afterwards.
async fn keep(private: Option<&Private>) -> Infallible {
    match private {
        Some(private) => private.keep().await,
        None => std::future::pending().await,
    }
}

/// Waits for SIGTERM or Ctrl-C, then stops everything in order; a second signal ends the process at once.
async fn run(server: Server, private: Option<Arc<Private>>, signals: Signals) -> Done {
    run_until(server, private, signals, std::future::pending()).await
}

/// As [`run`], but also stops when `done` resolves.
pub(super) async fn run_until(
    server: Server,
    private: Option<Arc<Private>>,
    mut signals: Signals,
    done: impl Future<Output = ()>,
) -> Done {
    let failed = tokio::select! {
        () = signals.told() => None,
        () = done => None,
        task = server.failed() => Some(task),
    };
    let stopped = async {
        server.stop().await;
        match private {
            Some(private) => private.stop().await,
            None => Ok(()),
        }
    };
    tokio::select! {
        stopped = stopped => stopped?,
        () = signals.told() => return Err("told to stop a second time: ending at once".into()),
    }
    match failed {
        None => Ok(()),
        Some(task) => Err(format!(
            "the task `{task}` failed again and again, and the server cannot do without it. The log says why; start it anew"
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_everywhere_is_near_too() {
        for (given, shown) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("192.0.2.7:80", "192.0.2.7:80"),
        ] {
            assert_eq!(near(given.parse().unwrap()).to_string(), shown);
        }
    }
}
