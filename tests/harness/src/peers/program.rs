//! A program of somebody else's that a test starts: at a place of its own, as a user that PostgreSQL accepts.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use entente_store::binaries::Binaries;
use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::peers::process::Place;

/// Places of programs that are not on the path of every user.
const PLACES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The repository.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns the path of Entente's program. Cargo names it only to the tests of its own package; it compiles both into one
/// directory, the tests one deeper.
pub fn entente() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).unwrap().join("entente")
}

/// Returns a program's path, if it is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    places.find_map(|dir| Some(dir.join(program)).filter(|program| program.exists()))
}

/// Returns the directory of PostgreSQL's programs.
pub fn postgres_programs() -> PathBuf {
    Binaries::find(None).unwrap().dir
}

/// Returns the user and group that programs run as if the tests run as root, because PostgreSQL refuses root.
fn user() -> Option<(u32, u32)> {
    if !geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let of = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(|id| id.parse().ok());
        Some((ids.next()??, ids.next()??))
    };
    Some(of("postgres").or_else(|| of("nobody")).expect("neither a user `postgres` nor `nobody`"))
}

/// A running program. It is killed with this value, and when the tests end.
pub struct Program {
    child: Child,
}

impl Program {
    /// Starts a program with these arguments; it writes to the log of its place.
    pub fn start(program: &Path, arguments: &[&str], place: &Place) -> Self {
        let log = fs::File::options().create(true).append(true).open(place.0.join("server.log")).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&place.0).env_clear();
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env("PATH", path).env("HOME", &place.0).env("LC_ALL", "C.UTF-8");
        if let Some((user, group)) = user() {
            chown(&place.0, Some(user), Some(group)).unwrap();
            command.uid(user).gid(group);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        fs::write(place.0.join("server.pid"), child.id().to_string()).unwrap();
        Self { child }
    }

    /// Asserts that it has not ended.
    pub fn check(&mut self, place: &Place) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}:\n{}", place.log());
    }

    /// Interrupts it, and waits until it has ended.
    pub fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}
