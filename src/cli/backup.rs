//! `entente backup` and `entente restore`: a whole database and the keys outside of it, in a directory.

mod files;
mod restore;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use entente_domain::clock::Clock as _;
use entente_kernel::diagnosis::facts;
use entente_openintent::tools::tool_credentials::sealing_keys;
use entente_runtime::environment::SystemClock;
use entente_store::binaries::Binaries;
use entente_store::dumps::Dumper;
use entente_store::migrate;
use entente_store::private::{Found, Private};
use serde_json::json;
use sqlx::{ConnectOptions as _, Connection as _};

use self::files::{Description, Files};
use super::run::{Database, database, named_database};
use super::{Done, Failure, vault_key};
use crate::config::Config;
use crate::startup::routes::Routes;
use crate::telemetry;

pub(super) use self::restore::Restore;

/// Interval at which a terminal is shown how far the dump is.
const PROGRESS: Duration = Duration::from_secs(2);

/// Arguments of `entente backup`.
#[derive(Debug, Args)]
pub struct Backup {
    /// The directory to make, with the dump, its description, and the keys
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The data directory of a private PostgreSQL [default: `ENTENTE_DATA_DIR`, without `DATABASE_URL`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Leave out the keys: keep them yourself
    #[arg(long)]
    without_keys: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Backup {
    /// Backs up the database, while servers may run, and the keys.
    ///
    /// # Errors
    /// The configuration or the database cannot be used, `pg_dump` fails, or the directory cannot be written. Nothing is
    /// left behind then.
    pub(super) async fn run(self) -> Done {
        let config = Config::from_environment()?;
        telemetry::init(&config);
        let config = Config { data_dir: self.data_dir.clone().or(config.data_dir.clone()), ..config };
        let draft = Files::draft(&self.dir)?;
        let description = match self.fill(&config, &draft).await {
            Ok(description) => description,
            Err(failure) => {
                draft.discard();
                return Err(failure);
            }
        };
        draft.finish(&self.dir)?;
        Ok(self.show(&description)?)
    }

    /// Writes the files of the backup.
    async fn fill(&self, config: &Config, files: &Files) -> Result<Description, Failure> {
        let Database { options, direct, private } = running(config).await?;
        let done: Result<_, Failure> = async {
            let session = Routes::find(options, direct).await?.session;
            let mut connection = session.options().connect().await?;
            let facts = facts(&mut connection).await?;
            let schema = migrate::applied_on(&mut connection).await?.last().copied();
            let schema = schema.ok_or("the database is empty: no release of Entente has used it")?;
            let begun_at = SystemClock.now();
            let major = u32::try_from(facts.version / 10_000)?;
            let dumper = Dumper { programs: config.pg_bin.as_deref(), major };
            watched(&files.dump(), dumper.write(session.options(), &files.dump())).await?;
            // After the dump, so that it names the keys of all that the dump has.
            let sealing_keys = sealing_keys(&mut connection).await?;
            connection.close().await?;
            Ok((facts.version, schema, begun_at, sealing_keys))
        }
        .await;
        if let Some(private) = private {
            private.stop().await?;
        }
        let (postgres, schema, begun_at, sealing_keys) = done?;
        let keys = if self.without_keys { Vec::new() } else { vault_key::all(config)? };
        if !keys.is_empty() {
            files.write_keys(&keys)?;
        }
        let told = vault_key::ids(&keys);
        let missing_keys = sealing_keys.iter().filter(|id| !told.contains(*id)).cloned().collect();
        let (bytes, sha256) = files.digest()?;
        let release = env!("CARGO_PKG_VERSION").to_owned();
        let form = Description::FORM;
        let description = Description {
            form,
            begun_at,
            release,
            schema,
            postgres,
            bytes,
            sha256,
            sealing_keys,
            missing_keys,
        };
        files.describe(&description)?;
        Ok(description)
    }

    fn show(&self, made: &Description) -> io::Result<()> {
        let (files, mut out) = (Files::of(&self.dir), io::stdout().lock());
        let keys = files.keys().exists();
        if self.json {
            return writeln!(out, "{}", json!({ "dir": self.dir, "keys": keys, "backup": made }));
        }
        writeln!(out, "backed up to {}: {} of {}", self.dir.display(), size(made.bytes), made.begun_at)?;
        if keys {
            let keys = files.keys();
            writeln!(out, "{} opens the secrets in it: keep that file apart from the dump", keys.display())?;
        }
        for key in &made.missing_keys {
            writeln!(
                out,
                "secrets of vaults are sealed by the key {key}, which is not in the backup: keep it, because without it nobody \
                 opens them (ENTENTE_VAULT_KEY or ENTENTE_VAULT_OLD_KEYS)"
            )?;
        }
        Ok(())
    }
}

/// Returns the configured database. A private PostgreSQL that a server is using is used beside it.
async fn running(config: &Config) -> Result<Database, Failure> {
    if config.database_url.is_none() {
        let dir = config.data_dir.clone().unwrap_or_else(Private::default_dir);
        match Private::look(&dir, &Binaries::find(config.pg_bin.as_deref())?)? {
            Found::AtWork => {
                return Ok(Database { options: Private::beside(&dir)?, direct: None, private: None });
            }
            Found::AtRest(_version) => {}
            Found::Nothing => {
                return Err(format!(
                    "there is no database in {}. Name its directory with --data-dir, or set DATABASE_URL",
                    dir.display()
                )
                .into());
            }
        }
    }
    database(config).await
}

/// Runs work that writes a file, and shows a terminal its growing size meanwhile.
async fn watched<T, E>(file: &Path, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let mut work = std::pin::pin!(work);
    loop {
        if let Ok(done) = tokio::time::timeout(PROGRESS, work.as_mut()).await {
            return done;
        }
        if io::stderr().is_terminal() {
            let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
            // Whether anybody sees this does not matter to the backup.
            let _shown = writeln!(io::stderr().lock(), "… {}", size(bytes));
        }
    }
}

/// Returns a number of bytes in words.
fn size(bytes: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", tenths(1_000)),
        1_000_000..1_000_000_000 => format!("{} MB", tenths(1_000_000)),
        _ => format!("{} GB", tenths(1_000_000_000)),
    }
}
