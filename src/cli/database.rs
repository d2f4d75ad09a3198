//! `entente migrate` and `entente doctor`: preparing and checking the database.

use std::io::{self, Write as _};
use std::time::Duration;

use entente_domain::clock::Clock as _;
use entente_kernel::diagnosis::{Facts, facts};
use entente_runtime::environment;
use entente_store::binaries::Binaries;
use entente_store::migrate::{self, MIGRATIONS, SchemaError};
use entente_store::private::{Found, Private};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Done;
use super::run::{Database, database};
use crate::config::Config;
use crate::startup::StartError;
use crate::telemetry;

/// Tolerated difference in milliseconds between the clocks of the database's machine and this one.
const CLOCK_MILLIS: i64 = 500;

/// Brings the schema up to date, and prints the applied migrations.
pub(super) async fn migrate() -> Done {
    let config = Config::from_environment()?;
    telemetry::init(&config);
    let Database { options, private } = database(&config).await?;
    let pool = entente_store::pool(options, 2, &CancellationToken::new());
    let done = async {
        let before = migrate::applied(&pool).await?;
        migrate::run(&pool).await?;
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
    };
    let done: Done = done.await;
    pool.close().await;
    if let Some(private) = private {
        private.stop().await?;
    }
    done
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
    match config.database_url.as_deref().map(entente_store::options) {
        Some(Some(options)) => {
            findings.note(&format!(
                "the database is the one of DATABASE_URL: {}",
                entente_store::named(&options)
            ))?;
            examine(&mut findings, options, config.database_connections).await?;
        }
        Some(None) => findings.say(false, &StartError::Url.to_string())?,
        None => look(&mut findings, &config)?,
    }
    match findings.faults {
        0 => Ok(()),
        n => Err(format!("{n} of the above needs attention").into()),
    }
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

async fn examine(findings: &mut Findings, options: PgConnectOptions, connections: u32) -> Done {
    // Guarantees that the examination changes nothing.
    let options = options.options([("default_transaction_read_only", "on")]);
    let named = entente_store::named(&options);
    let late = |_late| Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into()));
    let connected = timeout(REACH, options.connect()).await.unwrap_or_else(late);
    let mut connection = match connected {
        Ok(connection) => connection,
        Err(e) => {
            let what = format!(
                "the database cannot be reached ({named}): {e}. Check DATABASE_URL and whether PostgreSQL runs"
            );
            findings.say(false, &what)?;
            return Ok(());
        }
    };
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
    Ok(())
}
