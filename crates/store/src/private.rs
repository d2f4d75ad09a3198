//! Private PostgreSQL: found, initialised, started on a Unix socket, and stopped with the server.
//!
//! It outlives a `kill -9` of the server; the next server on the same data directory adopts it. When it is
//! killed itself, the server restarts it (`private/running.rs`). It never listens on TCP. Its socket lies in
//! a directory that only its own user and root can enter, so connections need no password.

mod looking;
mod owner;
mod running;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;

use sqlx::postgres::PgConnectOptions;
use tracing::{info, warn};

use self::owner::{Owner, exclusive_dir, own_dir};
use super::binaries::{Binaries, BinariesError};

pub use self::looking::Found;

/// Superuser and database name inside a private cluster.
const NAME: &str = "entente";
/// Suffix of a cluster that is being created; the id of the creating process follows.
const UNFINISHED: &str = "new-";
/// Length in bytes of a Unix socket's path that every system accepts.
const SOCKET_PATH_BYTES: usize = 100;

/// Reason that a private PostgreSQL is not available.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// PostgreSQL's programs were not found.
    #[error(transparent)]
    Binaries(#[from] BinariesError),
    /// A file or directory could not be used.
    #[error("{what}: {source}")]
    File {
        /// The attempted operation.
        what: String,
        /// The error.
        source: io::Error,
    },
    /// Another server uses the directory.
    #[error(
        "the data directory {0} is in use by another Entente. Stop it, choose another directory with --data-dir or \
         ENTENTE_DATA_DIR, or let both share one PostgreSQL with DATABASE_URL"
    )]
    InUse(PathBuf),
    /// The socket's directory exists and is not exclusively this user's.
    #[error(
        "PostgreSQL's socket would lie in {0}, which is not only ours: somebody else made it, or a link, or let others in. \
         Remove it, or choose a data directory with a shorter path with --data-dir or ENTENTE_DATA_DIR"
    )]
    Taken(PathBuf),
    /// The user that PostgreSQL runs as cannot enter the directory.
    #[error(
        "PostgreSQL does not run as root, and the user {user} cannot enter {dir}. Choose a data directory that it can \
         reach with --data-dir or ENTENTE_DATA_DIR"
    )]
    Unreachable {
        /// The user.
        user: String,
        /// The directory that it cannot enter.
        dir: PathBuf,
    },
    /// The cluster belongs to another major version.
    #[error(
        "the data in {dir} is of PostgreSQL {found}, but the programs found are of {installed}. Point ENTENTE_PG_BIN at \
         PostgreSQL {found}, or move the data with pg_upgrade"
    )]
    Version {
        /// The cluster's directory.
        dir: PathBuf,
        /// The cluster's version.
        found: String,
        /// The programs' version.
        installed: u32,
    },
    /// A PostgreSQL program failed.
    #[error("{program} failed:\n{output}")]
    Program {
        /// Name of the program.
        program: &'static str,
        /// Its output.
        output: String,
    },
    /// PostgreSQL started but cannot be used.
    #[error("the private PostgreSQL does not answer: {0}")]
    Silent(sqlx::Error),
}

fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> PrivateError {
    let what = what.into();
    move |source| PrivateError::File { what, source }
}

/// A running private PostgreSQL.
#[derive(Debug)]
pub struct Private {
    binaries: Binaries,
    owner: Option<Owner>,
    dir: PathBuf,
    data: PathBuf,
    socket_dir: PathBuf,
    settings: Vec<(String, String)>,
    /// PostgreSQL's main process, if this server started it.
    child: Mutex<Option<Child>>,
    /// Held until PostgreSQL was stopped: the system releases it even after `kill -9`.
    lock: File,
}

impl Private {
    /// Returns the user's default data directory.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "HOME and XDG_DATA_HOME are the system's, not Entente's, settings"
    )]
    pub fn default_dir() -> PathBuf {
        if rustix::process::geteuid().is_root() {
            return PathBuf::from("/var/lib/entente");
        }
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".local/share");
        std::env::var_os("XDG_DATA_HOME").map_or_else(home, PathBuf::from).join("entente")
    }

    /// Starts PostgreSQL in `dir`, or adopts the one that is running there.
    ///
    /// `settings` are added to its command line.
    ///
    /// # Errors
    /// See [`PrivateError`]; each message says how to fix the problem.
    pub async fn start(
        dir: &Path,
        pg_bin: Option<&Path>,
        settings: &[(&str, &str)],
    ) -> Result<Self, PrivateError> {
        let binaries = Binaries::find(pg_bin)?;
        let owner = Owner::find()?;
        fs::create_dir_all(dir).map_err(file(format!("creating {}", dir.display())))?;
        let dir = dir.canonicalize().map_err(file(format!("resolving {}", dir.display())))?;
        if let Some(owner) = &owner {
            owner.check_reachable(&dir)?;
        }
        let lock = lock(&dir)?;
        let private = Self {
            binaries,
            owner,
            data: dir.join("postgres"),
            socket_dir: socket_dir(&dir),
            dir,
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            child: Mutex::new(None),
            lock,
        };
        if private.socket_dir.starts_with(&private.dir) {
            own_dir(private.owner.as_ref(), &private.socket_dir)?;
        } else {
            exclusive_dir(private.owner.as_ref(), &private.socket_dir)?;
        }
        private.initialise().await?;
        if private.is_running() {
            info!("adopting the private PostgreSQL that is running already");
        }
        private.run().await?;
        Ok(private)
    }

    /// Returns the connection options.
    #[must_use]
    pub fn options(&self) -> PgConnectOptions {
        self.options_for(NAME)
    }

    /// Returns the connection options for another database of the cluster; each test has its own.
    #[must_use]
    pub fn options_for(&self, database: &str) -> PgConnectOptions {
        options(&self.socket_dir, database)
    }

    /// Returns the same as a URL, for another server or `psql`.
    #[must_use]
    pub fn url(&self) -> String {
        let host = self.socket_dir.display().to_string().replace('%', "%25").replace('/', "%2F");
        format!("postgres://{NAME}@{host}:5432/{NAME}")
    }

    /// Stops PostgreSQL: open transactions are rolled back, and everything committed is kept. Afterwards the directory is
    /// free for another server, though somebody still holds this.
    ///
    /// # Errors
    /// `pg_ctl` could not stop it.
    pub async fn stop(&self) -> Result<(), PrivateError> {
        if self.is_running() {
            let data = self.data.display().to_string();
            self.program("pg_ctl", &["stop", "-D", &data, "-m", "fast", "-w", "-t", "60"]).await?;
            info!("the private PostgreSQL has stopped");
        } else {
            warn!("the private PostgreSQL was not running any more");
        }
        self.lock.unlock().map_err(file(format!("unlocking {}", self.dir.display())))
    }

    /// Creates the cluster if there is none.
    ///
    /// It is created beside its final path and renamed as a whole: a crash on the way leaves nothing that
    /// looks like a cluster. Each attempt has its own directory, because the programs of a killed server go
    /// on for a while.
    async fn initialise(&self) -> Result<(), PrivateError> {
        self.tidy();
        if let Ok(found) = fs::read_to_string(self.data.join("PG_VERSION")) {
            let found = found.trim().to_owned();
            if found != self.binaries.major.to_string() {
                return Err(PrivateError::Version {
                    dir: self.data.clone(),
                    found,
                    installed: self.binaries.major,
                });
            }
            return Ok(());
        }
        info!(data.dir = %self.data.display(), "creating a private PostgreSQL {}", self.binaries.major);
        let fresh = self.data.with_extension(format!("{UNFINISHED}{}", std::process::id()));
        own_dir(self.owner.as_ref(), &fresh)?;
        let path = fresh.display().to_string();
        let arguments =
            ["-D", &path, "-U", NAME, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"];
        self.program("initdb", &arguments).await?;
        fs::rename(&fresh, &self.data).map_err(file(format!("moving {} into place", fresh.display())))
    }

    /// Removes unfinished clusters, as far as no process writes to them any more; leftovers go the next time.
    fn tidy(&self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().filter_map(Result::ok) {
            let name = entry.file_name();
            if Path::new(&name)
                .extension()
                .is_some_and(|end| end.as_encoded_bytes().starts_with(UNFINISHED.as_bytes()))
            {
                let _left = fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn lock(dir: &Path) -> Result<File, PrivateError> {
    let path = dir.join("entente.lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(file(format!("opening {}", path.display())))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(PrivateError::InUse(dir.to_path_buf())),
        Err(fs::TryLockError::Error(e)) => Err(file(format!("locking {}", path.display()))(e)),
    }
}

/// Returns the connection options of a cluster's database.
fn options(socket_dir: &Path, database: &str) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .socket(socket_dir)
        .port(5432)
        .username(NAME)
        .database(database)
        .ssl_mode(sqlx::postgres::PgSslMode::Disable)
}

/// Returns the socket's directory: in the data directory or, where that path is too long for a socket, in
/// `/tmp` under a name derived from it.
fn socket_dir(dir: &Path) -> PathBuf {
    let inside = dir.join("run");
    if inside.join(".s.PGSQL.5432.lock").as_os_str().len() <= SOCKET_PATH_BYTES {
        return inside;
    }
    let digest = entente_domain::canonical::sha256(dir.as_os_str().as_encoded_bytes());
    let name = entente_domain::canonical::hex(&digest[..8]);
    PathBuf::from("/tmp").join(format!("entente-{name}"))
}
