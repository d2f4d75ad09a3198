//! `entente migrate` and `entente doctor`: the database before a server runs on it.

use std::io::{self, Write as _};

use entente_core::clock::Clock as _;
use sqlx::postgres::PgConnectOptions;
use tokio_util::sync::CancellationToken;

use super::Done;
use super::run::{Database, database};
use crate::app::diagnosis::{Facts, facts};
use crate::config::Config;
use crate::db::binaries::Binaries;
use crate::db::migrate::{self, MIGRATIONS};
use crate::db::private::PrivateError;
use crate::{db, environment, telemetry};

/// Milliseconds by which the clocks of the database's machine and of this one may differ unremarked.
const CLOCK_MILLIS: i64 = 500;

/// Brings the schema up to date and says what was applied.
pub(super) async fn migrate() -> Done {
    let config = Config::from_environment()?;
    telemetry::init(&config);
    let Database { options, private } = database(&config).await?;
    let pool = db::pool(options, 2, &CancellationToken::new());
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
        Ok(())
    };
    let done: Done = done.await;
    pool.close().await;
    if let Some(private) = private {
        private.stop().await?;
    }
    done
}

/// What an examination found, line by line.
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

/// Examines the configuration and the database, and says what is wrong and what to do.
pub(super) async fn doctor() -> Done {
    let mut findings = Findings { faults: 0 };
    let config = match Config::from_environment() {
        Ok(config) => config,
        Err(faults) => {
            findings.say(false, &faults.to_string())?;
            return Err("the configuration has faults; .env.example documents every variable".into());
        }
    };
    findings.note("every setting can be used")?;
    if config.database_url.is_some() {
        findings.note("the database is the one of DATABASE_URL")?;
    } else {
        match Binaries::find(config.pg_bin.as_deref()) {
            Ok(found) => findings.note(&format!(
                "a private PostgreSQL {} from {}",
                found.major,
                found.dir.display()
            ))?,
            Err(fault) => findings.say(false, &fault.to_string())?,
        }
    }
    match database(&config).await {
        Ok(Database { options, private }) => {
            examine(&mut findings, options, config.database_connections).await?;
            if let Some(private) = private {
                private.stop().await?;
            }
        }
        Err(fault) if matches!(fault.downcast_ref(), Some(PrivateError::InUse(_))) => {
            findings.note("an Entente runs on the data directory; ask it at /readyz")?;
        }
        Err(fault) => findings.say(false, &fault.to_string())?,
    }
    match findings.faults {
        0 => Ok(()),
        n => Err(format!("{n} of the above needs attention").into()),
    }
}

async fn examine(findings: &mut Findings, options: PgConnectOptions, connections: u32) -> Done {
    let pool = db::pool(options, 1, &CancellationToken::new());
    let mut connection = match pool.acquire().await {
        Ok(connection) => connection,
        Err(e) => {
            let what = format!(
                "the database cannot be reached: {e}. Check DATABASE_URL and whether PostgreSQL runs"
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
    drop(connection);
    let applied = migrate::applied(&pool).await?;
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
    findings.say(unknown == 0, &format!("{unknown} migrations there are unknown to this binary"))?;
    findings.note(&match missing {
        0 => "the schema is up to date".to_owned(),
        n => format!(
            "{n} migrations are missing; `entente serve` applies them at start, `entente migrate` now"
        ),
    })?;
    pool.close().await;
    Ok(())
}
