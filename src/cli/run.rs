//! `entente serve` and `entente dev`: run a server until it is told to stop.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use entente_core::principals::Kind;
use sqlx::postgres::PgConnectOptions;
use tokio::signal::unix::{SignalKind, signal};

use super::{Done, Failure};
use crate::app::keys::NewKey;
use crate::app::seeds;
use crate::config::Config;
use crate::db::{self, private::Private};
use crate::startup::{Parts, Server, StartError};
use crate::telemetry;

/// The arguments of `entente dev`.
#[derive(Debug, Args)]
pub struct Dev {
    /// Where to listen [default: `ENTENTE_BIND` or 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    bind: Option<SocketAddr>,
    /// Where the private PostgreSQL keeps its data
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Make a principal with this literal key, for local use; may be repeated
    #[arg(long, value_name = "KIND:ID=SECRET", value_parser = Seed::parse)]
    seed: Vec<Seed>,
}

/// A principal with a literal key.
#[derive(Debug, Clone)]
struct Seed {
    kind: Kind,
    id: String,
    secret: String,
}

impl Seed {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "must be KIND:ID=SECRET with the kind human, agent or service".to_owned();
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (id, secret) = rest.split_once('=').ok_or_else(wrong)?;
        let kind = Kind::parse(kind).ok_or_else(wrong)?;
        if id.is_empty() || secret.is_empty() {
            return Err(wrong());
        }
        Ok(Self { kind, id: id.to_owned(), secret: secret.to_owned() })
    }
}

/// Runs a server in production.
pub async fn serve() -> Done {
    let config = Config::from_environment()?;
    if config.database_url.is_none() && config.data_dir.is_none() {
        return Err("`entente serve` guesses nothing: set DATABASE_URL to use a PostgreSQL, or ENTENTE_DATA_DIR for a \
                    private one. For a first look run `entente dev`"
            .into());
    }
    telemetry::init(&config);
    let (server, private) = start(config, false).await?;
    if let Some(new) = seeds::bootstrap(&server.ctx).await? {
        announce("This is the first start. The bootstrap key, shown only now, may do everything:", &new);
    }
    println!("Entente listens on http://{}", server.address);
    run(server, private).await
}

/// Runs a server for development.
pub async fn dev(arguments: Dev) -> Done {
    let mut config = Config::from_environment()?;
    config.bind = arguments.bind.unwrap_or(config.bind);
    config.data_dir = arguments.data_dir.or(config.data_dir);
    if !config.bind.ip().is_loopback() && !arguments.seed.is_empty() {
        return Err(format!(
            "seeded keys are for local use, and {} can be reached from elsewhere. Bind to {} or leave --seed out",
            config.bind,
            IpAddr::from([127, 0, 0, 1])
        )
        .into());
    }
    telemetry::init(&config);
    let (server, private) = start(config, !arguments.seed.is_empty()).await?;
    for seed in &arguments.seed {
        seeds::seed(&server.ctx, seed.kind, &seed.id, &seed.secret).await?;
    }
    if let Some(new) = seeds::development(&server.ctx).await? {
        announce("A key for this run, which may do everything and act as anybody:", &new);
    }
    println!("  export ENTENTE_URL=http://{}", server.address);
    println!("\nThe API is documented at http://{}/docs. Ctrl-C stops the server.", server.address);
    run(server, private).await
}

fn announce(what: &str, new: &NewKey) {
    if let Some(secret) = &new.secret {
        println!("{what}\n\n  export ENTENTE_API_KEY={}", secret.0);
    }
}

/// How to reach the database, and the private PostgreSQL that it is, if it is one.
pub(super) struct Database {
    pub(super) options: PgConnectOptions,
    pub(super) private: Option<Private>,
}

/// The database that the configuration names, else a private one, started.
pub(super) async fn database(config: &Config) -> Result<Database, Failure> {
    if let Some(url) = &config.database_url {
        let options = db::options(url).map_err(|_may_hold_a_password| StartError::Url)?;
        return Ok(Database { options, private: None });
    }
    let dir = config.data_dir.clone().unwrap_or_else(Private::default_dir);
    let private = Private::start(&dir, config.pg_bin.as_deref(), &[]).await?;
    Ok(Database { options: private.options(), private: Some(private) })
}

/// Starts a server, and a private PostgreSQL for it if it has no other.
pub(super) async fn start(config: Config, seeded_keys: bool) -> Result<(Server, Option<Private>), Failure> {
    let Database { options: database, private } = database(&config).await?;
    let starting = Server::start(Parts { seeded_keys, ..Parts::real(config, database) });
    match Box::pin(keeping(private.as_ref(), starting)).await {
        Ok(server) => Ok((server, private)),
        Err(failure) => {
            if let Some(private) = private {
                private.stop().await?;
            }
            Err(failure.into())
        }
    }
}

/// Does something while the private `PostgreSQL`, if there is one, is kept running.
async fn keeping<T>(private: Option<&Private>, something: impl Future<Output = T>) -> T {
    let Some(private) = private else { return something.await };
    tokio::select! {
        done = something => done,
        never = private.keep() => match never {},
    }
}

/// Waits for SIGTERM or Ctrl-C, then stops everything in order. A second signal ends the process at once.
async fn run(server: Server, private: Option<Private>) -> Done {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut told = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    keeping(private.as_ref(), told()).await;
    let stopped = async {
        server.stop().await;
        match private {
            Some(private) => private.stop().await,
            None => Ok(()),
        }
    };
    tokio::select! {
        stopped = stopped => Ok(stopped?),
        () = told() => Err("told to stop a second time: ending at once".into()),
    }
}
