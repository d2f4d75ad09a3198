//! Dumps of a whole database in one file, by PostgreSQL's own programs: `pg_dump` writes it from one snapshot while servers
//! run, `pg_restore` reads it in one transaction.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use percent_encoding::percent_decode_str;
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tokio::process::Command;

use crate::binaries::{Binaries, BinariesError};

/// Time that `pg_dump` waits for the lock of a table: a migration may hold it.
const LOCK_WAIT: &str = "--lock-wait-timeout=60s";

/// Reason that a dump was not written or read.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The program is not installed, or older than the database.
    #[error(transparent)]
    Binaries(#[from] BinariesError),
    /// The program could not be started.
    #[error("{program}: {source}")]
    Start {
        /// Name of the program.
        program: &'static str,
        /// The error.
        source: std::io::Error,
    },
    /// The program failed.
    #[error("{program} failed:\n{output}")]
    Program {
        /// Name of the program.
        program: &'static str,
        /// Its output.
        output: String,
    },
}

/// Programs that dump and restore databases of one major version of PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub struct Dumper<'a> {
    /// Configured directory of the programs; without one they are searched.
    pub programs: Option<&'a Path>,
    /// Major version of the database's server: programs that are older cannot read it.
    pub major: u32,
}

impl Dumper<'_> {
    /// Writes a dump of the database into a file.
    ///
    /// # Errors
    /// See [`DumpError`].
    pub async fn write(self, database: &PgConnectOptions, file: &Path) -> Result<(), DumpError> {
        let mut command = self.command("pg_dump", database)?;
        command.args(["--format=custom", "--no-owner", "--no-privileges", LOCK_WAIT, "--file"]).arg(file);
        run("pg_dump", command).await
    }

    /// Restores a dump into an empty database: everything, or nothing.
    ///
    /// # Errors
    /// See [`DumpError`].
    pub async fn restore(self, database: &PgConnectOptions, file: &Path) -> Result<(), DumpError> {
        let mut command = self.command("pg_restore", database)?;
        command.args(["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]);
        // A name that looks like a connection string would be taken for one.
        let quoted = name(database).replace('\\', "\\\\").replace('\'', "\\'");
        command.args(["--dbname", &format!("dbname='{quoted}'")]).arg(file);
        run("pg_restore", command).await
    }

    /// Returns the command of a program, connected to the database by environment variables: other users of the machine
    /// can read a command line, but not these.
    fn command(self, program: &'static str, database: &PgConnectOptions) -> Result<Command, DumpError> {
        let mut command = Command::new(Binaries::client(self.programs, program, self.major)?);
        let url = database.to_url_lossy();
        command.env("PGHOST", database.get_socket().map_or(Path::new(database.get_host()), PathBuf::as_path));
        command.env("PGPORT", database.get_port().to_string()).env("PGUSER", database.get_username());
        command.env("PGDATABASE", name(database));
        for (name, value) in url.query_pairs() {
            let variable = match name.as_ref() {
                "sslmode" => "PGSSLMODE",
                "sslrootcert" => "PGSSLROOTCERT",
                "sslcert" => "PGSSLCERT",
                "sslkey" => "PGSSLKEY",
                _ => continue,
            };
            command.env(variable, value.as_ref());
        }
        if let Some(password) = url.password() {
            command.env("PGPASSWORD", percent_decode_str(password).decode_utf8_lossy().as_ref());
        }
        Ok(command)
    }
}

/// Returns the name of the database.
fn name(database: &PgConnectOptions) -> &str {
    database.get_database().unwrap_or(database.get_username())
}

/// Runs a program to its end; it ends with the caller.
async fn run(program: &'static str, mut command: Command) -> Result<(), DumpError> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|source| DumpError::Start { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    Err(DumpError::Program { program, output: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}
