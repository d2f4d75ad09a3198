//! A private PostgreSQL (design §5): found, initialised, started on a Unix socket, stopped with the server.
//!
//! It outlives a `kill -9` of the server; the next server on the same data directory adopts it. It never listens on
//! TCP. Its socket lies in a directory that only its own user and root can enter, so connections need no password.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::binaries::{Binaries, BinariesError};

/// The database's superuser and name inside a private cluster.
const NAME: &str = "entente";
/// How long PostgreSQL may take to accept connections; recovery after a crash is part of it.
const START_LIMIT: Duration = Duration::from_mins(2);
/// Bytes of a Unix socket's path that every system takes.
const SOCKET_PATH_BYTES: usize = 100;
/// Bytes of PostgreSQL's log at which a start begins a new one.
const LOG_BYTES: u64 = 10 * 1024 * 1024;

/// Why a private PostgreSQL could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// PostgreSQL's programs were not found.
    #[error(transparent)]
    Binaries(#[from] BinariesError),
    /// A file or directory.
    #[error("{what}: {source}")]
    File {
        /// What was tried.
        what: String,
        /// What went wrong.
        source: io::Error,
    },
    /// Another server has the directory.
    #[error(
        "the data directory {0} is in use by another Entente. Stop it, choose another directory with --data-dir or \
         ENTENTE_DATA_DIR, or let both share one PostgreSQL with DATABASE_URL"
    )]
    InUse(PathBuf),
    /// The user that PostgreSQL runs as cannot get there.
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
    /// The cluster is another major version's.
    #[error(
        "the data in {dir} is of PostgreSQL {found}, but the programs found are of {installed}. Point ENTENTE_PG_BIN at \
         PostgreSQL {found}, or move the data with pg_upgrade"
    )]
    Version {
        /// The cluster.
        dir: PathBuf,
        /// Its version.
        found: String,
        /// The programs' version.
        installed: u32,
    },
    /// A program of PostgreSQL failed.
    #[error("{program} failed:\n{output}")]
    Program {
        /// Which.
        program: &'static str,
        /// What it said.
        output: String,
    },
    /// It started and cannot be used.
    #[error("the private PostgreSQL does not answer: {0}")]
    Silent(sqlx::Error),
}

fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> PrivateError {
    let what = what.into();
    move |source| PrivateError::File { what, source }
}

/// Whose processes and files PostgreSQL's are, when Entente runs as root: PostgreSQL refuses to.
#[derive(Debug, Clone)]
struct Owner {
    name: String,
    uid: u32,
    gid: u32,
}

impl Owner {
    /// `postgres` if the system has it, else `nobody`; `None` when not root.
    fn find() -> Result<Option<Self>, PrivateError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").map_err(file("reading /etc/passwd"))?;
        let find = |name: &str| {
            users.lines().find_map(|line| {
                let mut fields = line.split(':');
                (fields.next() == Some(name)).then_some(())?;
                Some(Self {
                    name: name.to_owned(),
                    uid: fields.nth(1)?.parse().ok()?,
                    gid: fields.next()?.parse().ok()?,
                })
            })
        };
        let owner = find("postgres").or_else(|| find("nobody"));
        owner.map(Some).ok_or_else(|| {
            file("finding a user `postgres` or `nobody` for PostgreSQL")(io::Error::from(
                io::ErrorKind::NotFound,
            ))
        })
    }
}

/// A private PostgreSQL that is running.
#[derive(Debug)]
pub struct Private {
    binaries: Binaries,
    owner: Option<Owner>,
    data: PathBuf,
    socket_dir: PathBuf,
    /// Held as long as this server lives: the system lets go of it even after `kill -9`.
    _lock: File,
}

impl Private {
    /// The user's usual place for a data directory.
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

    /// Starts PostgreSQL in `dir`, or adopts the one that is running there. `settings` are added to its command line.
    ///
    /// # Errors
    /// See [`PrivateError`]; each says what to do.
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
            check_reachable(&dir, owner)?;
        }
        let lock = lock(&dir)?;
        let socket_dir = socket_dir(&dir);
        let data = dir.join("postgres");
        let private = Self { binaries, owner, data, socket_dir, _lock: lock };
        private.own_dir(&private.socket_dir)?;
        private.initialise().await?;
        private.run(&dir, settings).await?;
        Ok(private)
    }

    /// How to connect.
    #[must_use]
    pub fn options(&self) -> PgConnectOptions {
        self.options_for(NAME)
    }

    /// How to connect to another database of the cluster; tests have one each.
    #[must_use]
    pub fn options_for(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(&self.socket_dir)
            .port(5432)
            .username(NAME)
            .database(database)
            .ssl_mode(sqlx::postgres::PgSslMode::Disable)
    }

    /// The same as a URL, for another server or `psql`.
    #[must_use]
    pub fn url(&self) -> String {
        let host = self.socket_dir.display().to_string().replace('%', "%25").replace('/', "%2F");
        format!("postgres://{NAME}@{host}:5432/{NAME}")
    }

    /// Stops PostgreSQL: open transactions are rolled back, everything committed is kept.
    ///
    /// # Errors
    /// `pg_ctl` could not stop it.
    pub async fn stop(self) -> Result<(), PrivateError> {
        let data = self.data.display().to_string();
        self.program("pg_ctl", &["stop", "-D", &data, "-m", "fast", "-w", "-t", "60"]).await?;
        info!("the private PostgreSQL has stopped");
        Ok(())
    }

    /// Makes a directory that only PostgreSQL's user can enter.
    fn own_dir(&self, dir: &Path) -> Result<(), PrivateError> {
        let failed = || file(format!("preparing {}", dir.display()));
        fs::create_dir_all(dir).map_err(failed())?;
        let (uid, gid) = self.owner.as_ref().map_or_else(
            || (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
            |owner| (owner.uid, owner.gid),
        );
        let meta = fs::metadata(dir).map_err(failed())?;
        if meta.uid() != uid {
            chown(dir, Some(uid), Some(gid)).map_err(failed())?;
        }
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(failed())
    }

    /// Makes the cluster if there is none. It is made beside its place and moved there whole: a crash on the way
    /// leaves nothing that looks like a cluster.
    async fn initialise(&self) -> Result<(), PrivateError> {
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
        let fresh = self.data.with_extension("new");
        if fresh.exists() {
            fs::remove_dir_all(&fresh).map_err(file(format!("removing {}", fresh.display())))?;
        }
        self.own_dir(&fresh)?;
        let path = fresh.display().to_string();
        let arguments =
            ["-D", &path, "-U", NAME, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"];
        self.program("initdb", &arguments).await?;
        fs::rename(&fresh, &self.data).map_err(file(format!("moving {} into place", fresh.display())))
    }

    async fn run(&self, dir: &Path, settings: &[(&str, &str)]) -> Result<(), PrivateError> {
        if self.connect("postgres").await.is_ok() {
            info!("adopting the private PostgreSQL that is running already");
        } else {
            self.launch(dir, settings).await?;
        }
        let mut connection = self.connect("postgres").await.map_err(PrivateError::Silent)?;
        let created = sqlx::raw_sql("CREATE DATABASE entente").execute(&mut connection).await;
        if let Err(e) = created {
            let exists =
                e.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() == Some("42P04");
            if !exists {
                return Err(PrivateError::Silent(e));
            }
        }
        connection.close().await.map_err(PrivateError::Silent)
    }

    async fn launch(&self, dir: &Path, settings: &[(&str, &str)]) -> Result<(), PrivateError> {
        let log_path = dir.join("postgres.log");
        if fs::metadata(&log_path).is_ok_and(|meta| meta.len() > LOG_BYTES) {
            fs::rename(&log_path, log_path.with_extension("log.1"))
                .map_err(file("rotating PostgreSQL's log"))?;
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log_path)
            .map_err(file("opening PostgreSQL's log"))?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(&self.data);
        let socket_dir = self.socket_dir.display().to_string();
        let own = [
            ("listen_addresses", ""),
            ("unix_socket_directories", &socket_dir),
            ("unix_socket_permissions", "0700"),
            ("port", "5432"),
            ("max_connections", "200"),
            ("shared_buffers", "256MB"),
            ("max_wal_size", "4GB"),
            ("wal_compression", "on"),
            ("checkpoint_timeout", "15min"),
            ("log_min_messages", "warning"),
            // A private cluster has no replicas.
            ("wal_level", "minimal"),
            ("max_wal_senders", "0"),
        ];
        for (name, value) in own.iter().chain(settings) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        // A group of its own: Ctrl-C at the terminal stops the server, which then stops PostgreSQL in order.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut child = command.spawn().map_err(file("starting postgres"))?;
        debug!(process.id = child.id(), "started PostgreSQL");
        let waited = tokio::time::timeout(START_LIMIT, async {
            loop {
                if self.connect("postgres").await.is_ok() {
                    return Ok(());
                }
                if let Ok(Some(_)) = child.try_wait() {
                    let log = fs::read_to_string(&log_path).unwrap_or_default();
                    let mut tail: Vec<&str> = log.lines().rev().take(12).collect();
                    tail.reverse();
                    return Err(PrivateError::Program { program: "postgres", output: tail.join("\n") });
                }
                sleep(Duration::from_millis(15)).await;
            }
        });
        waited.await.unwrap_or_else(|_late| {
            warn!("PostgreSQL did not accept connections within {START_LIMIT:?}");
            Err(PrivateError::Program {
                program: "postgres",
                output: "it did not accept connections in time".to_owned(),
            })
        })
    }

    async fn connect(&self, database: &str) -> Result<PgConnection, sqlx::Error> {
        self.options_for(database).connect().await
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.dir.join(program));
        if let Some(owner) = &self.owner {
            command.uid(owner.uid).gid(owner.gid);
        }
        // PostgreSQL changes into its directory; the caller's may be one that its user cannot enter.
        command.current_dir("/").env_remove("PGDATA").env("LC_ALL", "C");
        command
    }

    async fn program(&self, name: &'static str, arguments: &[&str]) -> Result<(), PrivateError> {
        let mut command = self.command(name);
        command.args(arguments).stdin(Stdio::null());
        let output =
            tokio::process::Command::from(command).output().await.map_err(file(format!("running {name}")))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(PrivateError::Program { program: name, output: String::from_utf8_lossy(&said).trim().to_owned() })
    }
}

/// Requires that the owner can get to `dir`: every directory on the way must let others pass.
fn check_reachable(dir: &Path, owner: &Owner) -> Result<(), PrivateError> {
    for step in dir.ancestors() {
        let meta = fs::metadata(step).map_err(file(format!("looking at {}", step.display())))?;
        let passes = meta.mode() & 0o001 != 0 || meta.uid() == owner.uid;
        if !passes {
            return Err(PrivateError::Unreachable { user: owner.name.clone(), dir: step.to_path_buf() });
        }
    }
    Ok(())
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

/// Where the socket lies: in the data directory, or, where that path is too long for a socket, in the temporary
/// directory under a name made from it.
fn socket_dir(dir: &Path) -> PathBuf {
    let inside = dir.join("run");
    if inside.join(".s.PGSQL.5432.lock").as_os_str().len() <= SOCKET_PATH_BYTES {
        return inside;
    }
    let digest = entente_core::canonical::sha256(dir.as_os_str().as_encoded_bytes());
    let name = entente_core::canonical::hex(&digest[..8]);
    PathBuf::from("/tmp").join(format!("entente-{name}"))
}
