//! Starts a private PostgreSQL, detects whether it runs, and restarts it when it has died.

use std::convert::Infallible;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::time::sleep;
use tracing::{debug, error, info, warn};

use super::{Private, PrivateError, file};

/// Time that PostgreSQL may take to accept connections, including crash recovery.
const START_LIMIT: Duration = Duration::from_mins(2);
/// Time during which a server that exits right after its start is started again: the last processes of a
/// killed server may need a moment to notice, and PostgreSQL does not start beside them.
const RETRY_LIMIT: Duration = Duration::from_secs(5);
/// Interval between checks for accepted connections.
const LOOK: Duration = Duration::from_millis(15);
/// Interval between checks for a live process.
const WATCH: Duration = Duration::from_millis(250);
/// Pause between failing attempts to start.
const REST: Duration = Duration::from_secs(2);
/// Size in bytes at which a start rotates PostgreSQL's log.
const LOG_BYTES: u64 = 10 * 1024 * 1024;

impl Private {
    /// Restarts PostgreSQL whenever it has died, as long as this future is polled.
    pub async fn keep(&self) -> Infallible {
        loop {
            sleep(WATCH).await;
            if self.is_running() {
                continue;
            }
            warn!("the private PostgreSQL has died; starting it again");
            match self.run().await {
                Ok(()) => info!("the private PostgreSQL runs again"),
                Err(e) => {
                    error!(error = %e, "the private PostgreSQL cannot be started; trying again");
                    sleep(REST).await;
                }
            }
        }
    }

    /// Ensures that PostgreSQL runs and the database exists: adopts a running server or starts one.
    pub(super) async fn run(&self) -> Result<(), PrivateError> {
        let began = Instant::now();
        let mut failing_since = None;
        let mut connection = loop {
            match self.connect("postgres").await {
                Ok(connection) => break connection,
                Err(e) if began.elapsed() > START_LIMIT => return Err(PrivateError::Silent(e)),
                // It is starting or stopping.
                Err(_not_yet) if self.is_running() => sleep(LOOK).await,
                Err(_) => {
                    self.clear_away()?;
                    let Err(e) = self.launch().await else { continue };
                    if failing_since.get_or_insert_with(Instant::now).elapsed() > RETRY_LIMIT {
                        return Err(e);
                    }
                    sleep(WATCH).await;
                }
            }
        };
        make_database(&mut connection).await.map_err(PrivateError::Silent)?;
        connection.close().await.map_err(PrivateError::Silent)
    }

    /// Returns whether PostgreSQL's main process is alive, whether or not it accepts connections.
    pub(super) fn is_running(&self) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = child.as_mut().map(Child::try_wait) {
            if matches!(ended, Ok(None)) {
                return true;
            }
            *child = None;
        }
        self.postmaster().is_some_and(|pid| lives(pid, &self.data))
    }

    /// Returns the process that `postmaster.pid` names.
    fn postmaster(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.data.join("postmaster.pid")).ok()?;
        Pid::from_raw(text.lines().next()?.trim().parse().ok()?)
    }

    /// Removes the locks of a PostgreSQL that is known to be dead.
    ///
    /// PostgreSQL respects them as long as any process has the id in them: another process that got the id
    /// since, or the dead one until its exit status is collected, which in a container may be never.
    /// Surviving children do not matter for these locks: PostgreSQL finds them by the shared memory that they
    /// still use, and does not start beside them.
    fn clear_away(&self) -> Result<(), PrivateError> {
        let locks = [self.data.join("postmaster.pid"), self.socket_dir.join(".s.PGSQL.5432.lock")];
        for lock in locks.iter().filter(|lock| lock.exists()) {
            info!(lock.path = %lock.display(), "removing the lock of a PostgreSQL that is dead");
            fs::remove_file(lock).map_err(file(format!("removing {}", lock.display())))?;
        }
        Ok(())
    }

    async fn launch(&self) -> Result<(), PrivateError> {
        let log_path = self.dir.join("postgres.log");
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
            // Reusing a segment costs a commit nothing; a new one is written in full and synced first.
            ("min_wal_size", "1GB"),
            ("wal_compression", "on"),
            ("checkpoint_timeout", "15min"),
            ("log_min_messages", "warning"),
            // A private cluster has no replicas.
            ("wal_level", "minimal"),
            ("max_wal_senders", "0"),
        ];
        let settings = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.into_iter().chain(settings) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        // A separate process group: Ctrl-C at the terminal stops the server, which then stops PostgreSQL in
        // order.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(file("starting postgres"))?;
        debug!(process.id = child.id(), "started PostgreSQL");
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        let began = Instant::now();
        while self.connect("postgres").await.is_err() {
            if !self.is_running() {
                let log = fs::read_to_string(&log_path).unwrap_or_default();
                let mut tail: Vec<&str> = log.lines().rev().take(12).collect();
                tail.reverse();
                return Err(PrivateError::Program { program: "postgres", output: tail.join("\n") });
            }
            if began.elapsed() > START_LIMIT {
                warn!("PostgreSQL did not accept connections within {START_LIMIT:?}");
                let output = "it did not accept connections in time".to_owned();
                return Err(PrivateError::Program { program: "postgres", output });
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    async fn connect(&self, database: &str) -> Result<PgConnection, sqlx::Error> {
        self.options_for(database).connect().await
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.dir.join(program));
        if let Some(owner) = &self.owner {
            command.uid(owner.uid).gid(owner.gid);
        }
        // PostgreSQL changes into its directory; its user may not be able to enter the caller's.
        command.current_dir("/").env_remove("PGDATA").env("LC_ALL", "C");
        command
    }

    pub(super) async fn program(&self, name: &'static str, arguments: &[&str]) -> Result<(), PrivateError> {
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

/// Creates the database if it does not exist. A creation begun by a killed server may still be in progress.
async fn make_database(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let began = Instant::now();
    loop {
        let Err(e) = sqlx::raw_sql("CREATE DATABASE entente").execute(&mut *connection).await else {
            return Ok(());
        };
        match e.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() {
            // It exists, or was created meanwhile.
            Some("42P04" | "23505") => return Ok(()),
            // Another database is being created from the same template.
            Some("55006") if began.elapsed() < RETRY_LIMIT => sleep(WATCH).await,
            _ => return Err(e),
        }
    }
}

/// Returns whether a process is a PostgreSQL that runs in `data`, judged by its working directory.
///
/// A zombie has none. Where the system does not reveal it, any process with the id counts as PostgreSQL.
fn lives(pid: Pid, data: &Path) -> bool {
    if test_kill_process(pid).is_err_and(|e| e == rustix::io::Errno::SRCH) {
        return false;
    }
    match fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero())) {
        Ok(works_in) => works_in == data,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => !Path::new("/proc/self/cwd").exists(),
        Err(_may_not_look) => true,
    }
}
