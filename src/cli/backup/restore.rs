//! `entente restore`: a backup's database into an empty one.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use entente_kernel::diagnosis::{facts, is_empty};
use entente_store::dumps::Dumper;
use entente_store::migrate::{self, MIGRATIONS};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

use super::files::{Description, Files};
use super::{Config, Database, Done, Failure, Private, Routes, named_database, telemetry, vault_key};
use crate::config;

/// Arguments of `entente restore`.
#[derive(Debug, Args)]
pub struct Restore {
    /// The directory that `entente backup` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The data directory of a private PostgreSQL [default: `ENTENTE_DATA_DIR`, without `DATABASE_URL`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Restore {
    /// Restores a backup into an empty database.
    ///
    /// # Errors
    /// The backup is damaged or of a newer release, the database has tables, or `pg_restore` fails. The database is as
    /// before then.
    pub(crate) async fn run(self) -> Done {
        let config = Config::from_environment()?;
        telemetry::init(&config);
        let config = Config { data_dir: self.data_dir.or(config.data_dir.clone()), ..config };
        let files = Files::of(&self.dir);
        let made = files.description()?;
        judge(&made, &files)?;
        let Database { options, direct, private } = named_database(&config).await?;
        let place = entente_store::named(&options);
        let done: Done = async {
            let session = Routes::find(options, direct).await?.session;
            fill(&config, &made, &files, session.options()).await
        }
        .await;
        let kept = private.is_some();
        if let Some(private) = private {
            private.stop().await?;
        }
        done?;
        let kept = kept && keep_key(&config, &files)?;
        show(&config, &made, &place, kept)?;
        Ok(())
    }
}

/// Refuses a damaged backup, and one that this release cannot know.
fn judge(made: &Description, files: &Files) -> Done {
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
    if made.schema > newest {
        return Err(format!(
            "the backup is of release {} with the schema {}; this release knows it up to {newest}. Restore it with that release",
            made.release, made.schema
        )
        .into());
    }
    let (bytes, sha256) = files.digest().map_err(|e| format!("{}: {e}", files.dump().display()))?;
    if (bytes, &sha256) == (made.bytes, &made.sha256) {
        return Ok(());
    }
    Err(format!(
        "{} is damaged: it has {bytes} bytes with the SHA-256 {sha256}, instead of {} with {}. Nothing was restored",
        files.dump().display(),
        made.bytes,
        made.sha256
    )
    .into())
}

/// Fills an empty database.
async fn fill(config: &Config, made: &Description, files: &Files, database: &PgConnectOptions) -> Done {
    let mut connection = database.connect().await?;
    if !is_empty(&mut connection).await? {
        return Err(format!(
            "{} has tables already, and nothing was restored. Name an empty database, or a data directory that is not there \
             yet",
            entente_store::named(database)
        )
        .into());
    }
    let major = u32::try_from(facts(&mut connection).await?.version / 10_000)?;
    Dumper { programs: config.pg_bin.as_deref(), major }.restore(database, &files.dump()).await?;
    // A restored database has no statistics, and without them PostgreSQL reads whole tables.
    connection.execute("SET statement_timeout = 0").await?;
    connection.execute("ANALYZE").await?;
    let schema = migrate::applied_on(&mut connection).await?.last().copied();
    connection.close().await?;
    if schema == Some(made.schema) {
        return Ok(());
    }
    Err(Failure::from(format!("the restored schema is {schema:?} instead of {}", made.schema)))
}

/// Stores the vault key of a server for development with its data; returns whether that was done.
fn keep_key(config: &Config, files: &Files) -> Result<bool, Failure> {
    let Some(key) = files.key(config::VAULT_KEY)?.filter(|_| !config.vaults.keys.seals()) else {
        return Ok(false);
    };
    let dir = config.data_dir.clone().unwrap_or_else(Private::default_dir);
    vault_key::store(&dir, &key)
}

fn show(config: &Config, made: &Description, place: &str, kept: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "restored everything that was written until {} into {place}", made.begun_at)?;
    let told = config.vaults.keys.ids();
    for key in made.sealing_keys.iter().filter(|id| !kept && !told.contains(*id)) {
        writeln!(
            out,
            "set ENTENTE_VAULT_KEY before you start a server: secrets of vaults are sealed by the key {key} (keys.env has it, \
             unless it was left out)"
        )?;
    }
    writeln!(out, "the servers of the database that was backed up must not go on beside the ones of this")
}
