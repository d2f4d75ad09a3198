//! `entente migrate` and `entente doctor`: preparing and checking the database.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use entente_domain::clock::Clock as _;
use entente_kernel::diagnosis::{Facts, facts};
use entente_runtime::environment;
use entente_runtime::tls::listener::Certificate;
use entente_store::Pool;
use entente_store::binaries::Binaries;
use entente_store::engine;
use entente_store::migrate::{self, MIGRATIONS, SchemaError};
use entente_store::pooling;
use entente_store::pooling::{Pooling, Route};
use entente_store::private::{Found, Private};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::run::{Database, named_database};
use super::{Done, Failure};
use crate::background::deliver::broker::Sinks;
use crate::background::egress::{SystemNames, Trust};
use crate::config::Config;
use crate::config::bus::BusConfig;
use crate::startup::StartError;
use crate::startup::provider::provider;
use crate::startup::routes::{Routes, no_session, unfit};
use crate::telemetry;

/// Tolerated difference in milliseconds between the clocks of the database's machine and this one.
const CLOCK_MILLIS: i64 = 500;

/// Brings the schema up to date, and prints the applied migrations.
pub(super) async fn migrate() -> Done {
    let config = Config::from_environment()?;
    telemetry::init(&config);
    let Database { options, direct, private } = named_database(&config).await?;
    let done = async {
        let routes = Routes::find(options, direct).await?;
        let pool = entente_store::pool(routes.session, 2, &CancellationToken::new());
        let done = bring_up(&pool).await;
        pool.close().await;
        done
    };
    let done: Done = done.await;
    if let Some(private) = private {
        private.stop().await?;
    }
    done
}

async fn bring_up(pool: &Pool) -> Done {
    let before = migrate::applied(pool).await?;
    migrate::run(pool).await?;
    let mut out = io::stdout().lock();
    let applied: Vec<_> =
        MIGRATIONS.iter().filter(|migration| !before.contains(&migration.version)).collect();
    for migration in &applied {
        writeln!(out, "applied {} {}", migration.version, migration.description)?;
    }
    writeln!(
        out,
        "the schema is up to date: {} migrations, {} of them new",
        MIGRATIONS.iter().count(),
        applied.len()
    )?;
    let newer = before.iter().filter(|version| !MIGRATIONS.version_exists(**version)).count();
    if newer > 0 {
        writeln!(out, "{newer} more are there, of a newer release; this one runs beside it")?;
    }
    Ok(())
}

/// Findings of an examination, printed line by line.
struct Findings {
    faults: usize,
}

impl Findings {
    fn say(&mut self, well: bool, what: &str) -> io::Result<()> {
        self.faults += usize::from(!well);
        writeln!(io::stdout().lock(), "{} {what}", if well { "ok   " } else { "FAULT" })
    }

    fn note(&mut self, what: &str) -> io::Result<()> {
        self.say(true, what)
    }
}

/// Examines the configuration and the database, and prints faults with their remedies.
pub(super) async fn doctor() -> Done {
    let mut findings = Findings { faults: 0 };
    let config = match Config::from_environment() {
        Ok(config) => config,
        Err(faults) => {
            findings.say(false, &faults.to_string())?;
            return Err("the configuration has faults; .env.example documents every variable".into());
        }
    };
    match config.check_token_secret() {
        Ok(()) => findings.note("every setting can be used")?,
        Err(short) => findings.say(false, &short.to_string())?,
    }
    for told in &config.unknown {
        findings.say(false, told)?;
    }
    if let Some(files) = config.tls.certificate.clone() {
        match Certificate::read(files).await {
            Ok(certificate) => {
                findings
                    .note(&format!("the listener's certificate is valid until {}", certificate.until()))?;
            }
            Err(why) => findings.say(false, &why)?,
        }
    }
    ask_provider(&mut findings, &config).await?;
    ask_sinks(&mut findings, &config).await?;
    match config.database_url.as_deref().map(entente_store::options) {
        Some(Some(options)) => {
            findings.note(&format!(
                "the database is the one of DATABASE_URL: {}",
                entente_store::named(&options)
            ))?;
            match config.direct_database_url.as_deref().map(entente_store::options) {
                Some(None) => {
                    findings.say(false, &StartError::Url("ENTENTE_DIRECT_DATABASE_URL").to_string())?;
                }
                direct => {
                    if let Some(route) = way(&mut findings, options, direct.flatten()).await? {
                        examine(&mut findings, &route, &config).await?;
                    }
                }
            }
        }
        Some(None) => findings.say(false, &StartError::Url("DATABASE_URL").to_string())?,
        None => look(&mut findings, &config)?,
    }
    match findings.faults {
        0 => Ok(()),
        n => Err(format!("{n} of the above needs attention").into()),
    }
}

/// Asks the provider with whose accounts people log in for its addresses and keys.
async fn ask_provider(findings: &mut Findings, config: &Config) -> Done {
    let trust = Trust { names: Arc::new(SystemNames), authorities: config.tls.authorities.clone() };
    let Some(provider) = provider(config, &trust)? else { return Ok(()) };
    match provider.check().await {
        Ok(()) => {
            findings.note("the OpenID Connect provider answers, and its addresses and keys can be used")?;
        }
        Err(fault) => findings.say(false, &format!("ENTENTE_OIDC_ISSUER: nobody can log in: {fault}"))?,
    }
    Ok(())
}

/// Asks each sink whether events can be published to it.
async fn ask_sinks(findings: &mut Findings, config: &Config) -> Done {
    let sinks = Sinks::new(&config.webhooks.sinks, config.webhooks.timeout, &config.tls.authorities);
    for (name, checked) in sinks.check().await {
        match checked {
            Ok(()) => findings.note(&format!("the sink {name} answers, and takes events"))?,
            Err(why) => findings
                .say(false, &format!("ENTENTE_SINKS_FILE: nothing can be published to {name}: {why}"))?,
        }
    }
    Ok(())
}

/// Inspects a private PostgreSQL.
///
/// A stopped one is not started for this, because a start would write to its files.
fn look(findings: &mut Findings, config: &Config) -> Done {
    let binaries = match Binaries::find(config.pg_bin.as_deref()) {
        Ok(binaries) => binaries,
        Err(fault) => return Ok(findings.say(false, &fault.to_string())?),
    };
    findings.note(&format!("a private PostgreSQL {} from {}", binaries.major, binaries.dir.display()))?;
    let dir = config.data_dir.clone().unwrap_or_else(Private::default_dir);
    let shown = dir.display();
    match Private::look(&dir, &binaries) {
        Ok(Found::Nothing) => findings.note(&format!(
            "there is no data directory yet; the first server that starts makes it at {shown}"
        ))?,
        Ok(Found::AtWork) => {
            findings.note(&format!("an Entente runs on the data directory {shown}; ask it at /readyz"))?;
        }
        Ok(Found::AtRest(version)) => findings.note(&format!(
            "the data directory {shown} is of PostgreSQL {version} and at rest; a server that starts examines it"
        ))?,
        Err(fault) => findings.say(false, &fault.to_string())?,
    }
    Ok(())
}

/// Time until an unresponsive database counts as unreachable.
const REACH: Duration = Duration::from_secs(10);

/// Finds out which pooler is between this machine and a database, if any; `None` if the database cannot be reached.
async fn reach(findings: &mut Findings, database: &PgConnectOptions) -> Result<Option<Pooling>, Failure> {
    let late = |_late| Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into()));
    match timeout(REACH, pooling::examine(database)).await.unwrap_or_else(late) {
        Ok(pooling) => Ok(Some(pooling)),
        Err(e) if pooling::refuses_option(&e) => {
            findings.say(false, &StartError::Options(entente_store::named(database), e).to_string())?;
            Ok(None)
        }
        Err(e) => {
            findings.say(false, &StartError::Database(entente_store::named(database), e).to_string())?;
            Ok(None)
        }
    }
}

/// Examines the ways to the database, and returns the one for work that needs a connection to itself.
async fn way(
    findings: &mut Findings,
    database: PgConnectOptions,
    direct: Option<PgConnectOptions>,
) -> Result<Option<Route>, Failure> {
    let Some(pooling) = reach(findings, &database).await? else { return Ok(None) };
    match unfit(pooling) {
        Some(reason) => {
            findings.say(false, &format!("nothing can go through the pooler of DATABASE_URL: {reason}"))?;
        }
        None if pooling == Pooling::Session => findings.note("a pooler in session mode is in front of it")?,
        None if pooling != Pooling::Direct => {
            findings.note("a pooler in transaction mode is in front of it")?;
        }
        None => {}
    }
    let Some(direct) = direct else {
        let refused = no_session(pooling, &database);
        if let Some(refused) = &refused {
            findings.say(false, &refused.to_string())?;
        }
        return Ok(refused.is_none().then(|| Route::through(database, pooling)));
    };
    let Some(beside) = reach(findings, &direct).await? else { return Ok(None) };
    if no_session(beside, &direct).is_some() {
        findings.say(false, &StartError::Indirect(entente_store::named(&direct)).to_string())?;
        return Ok(None);
    }
    let names = (entente_store::named(&direct), entente_store::named(&database));
    let (session, pooled) = (Route::through(direct, beside), Route::through(database, pooling));
    let late = |_late| Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into()));
    if timeout(REACH, pooling::meet(&session, &pooled)).await.unwrap_or_else(late)? {
        findings.note(&format!("ENTENTE_DIRECT_DATABASE_URL leads to the same database: {}", names.0))?;
    } else {
        let elsewhere = StartError::Elsewhere { direct: names.0, database: names.1 };
        findings.say(false, &elsewhere.to_string())?;
    }
    Ok(Some(session))
}

async fn examine(findings: &mut Findings, route: &Route, config: &Config) -> Done {
    let connections = config.database_connections;
    let mut connection = route.options().connect().await?;
    // Guarantees that the examination changes nothing.
    connection.execute("SET default_transaction_read_only = on").await?;
    let Facts {
        version,
        max_connections,
        used_connections,
        fsync,
        full_page_writes,
        synchronous_commit,
        now,
    } = facts(&mut connection).await?;
    let skew = (now - environment::SystemClock.now()).num_milliseconds().abs();
    let applied = migrate::applied_on(&mut connection).await?;
    let floor = migrate::floor(&mut connection).await?;
    connection.close().await?;
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
    let missing = MIGRATIONS.iter().filter(|migration| !applied.contains(&migration.version)).count();
    let unknown = applied.iter().filter(|version| !MIGRATIONS.version_exists(**version)).count();
    let free = max_connections - used_connections;

    findings.say(version >= 150_000, &format!("PostgreSQL {} (15 or newer is needed)", version / 10_000))?;
    findings.say(
        synchronous_commit != "off" && fsync && full_page_writes,
        &format!(
            "what is answered is on disk: synchronous_commit={synchronous_commit} fsync={fsync} \
             full_page_writes={full_page_writes}"
        ),
    )?;
    findings.say(
        i64::from(free) >= i64::from(connections),
        &format!(
            "{free} of {max_connections} connections are free; ENTENTE_DATABASE_CONNECTIONS is {connections}"
        ),
    )?;
    findings.say(skew <= CLOCK_MILLIS, &format!("its clock and this machine's differ by {skew} ms"))?;
    if floor > newest {
        findings.say(false, &SchemaError::Contracted { floor, newest }.to_string())?;
    } else if unknown > 0 {
        findings
            .note(&format!("{unknown} migrations there are of a newer release; this one runs beside it"))?;
    }
    findings.note(&match missing {
        0 => "the schema is up to date".to_owned(),
        n => format!(
            "{n} migrations are missing; `entente serve` applies them at start, `entente migrate` now"
        ),
    })?;
    // The locks of rows are tried on a row that the first migration makes.
    if applied.is_empty() { Ok(()) } else { try_engine(findings, route, config).await }
}

/// Tries the guarantees of the engine that the server relies on. It leaves nothing behind.
async fn try_engine(findings: &mut Findings, route: &Route, config: &Config) -> Done {
    let examined = engine::examine(route, config.bus == BusConfig::Postgres).await?;
    for fault in &examined.missing {
        findings.say(false, fault.fault())?;
    }
    if examined.missing.is_empty() {
        findings.note("its engine does what the server relies on (docs/engine.md)")?;
    }
    Ok(())
}
