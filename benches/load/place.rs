//! Directory of a server or a PostgreSQL of the benchmark. Whatever runs there ends with it.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Time limit for PostgreSQL's immediate shutdown.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);

static PLACES: AtomicU32 = AtomicU32::new(0);

/// A directory. When it is dropped, a PostgreSQL that still runs there is stopped, and the files are removed; when
/// the benchmark is killed, a shell does the same, and kills the servers as well.
pub struct Place {
    pub dir: PathBuf,
}

impl Place {
    /// Creates an empty directory.
    pub fn new() -> Self {
        let count = PLACES.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("entente-bench-{}-{count}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let dir = dir.canonicalize().unwrap();
        watch(&dir);
        Self { dir }
    }

    /// Returns the process of the PostgreSQL that runs here. Another process with the id of a stale file does not
    /// count.
    fn postmaster(&self) -> Option<Pid> {
        let data = self.dir.join("postgres");
        let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let pid: i32 = text.lines().next()?.trim().parse().ok()?;
        let here = fs::read_link(format!("/proc/{pid}/cwd")).map(|works_in| works_in == data);
        Pid::from_raw(pid).filter(|_| here.unwrap_or_else(|_untold| !Path::new("/proc/self").exists()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let begun = Instant::now();
        let mut signal = Signal::QUIT;
        while let Some(pid) = self.postmaster() {
            let _gone = kill_process(pid, signal);
            std::thread::sleep(Duration::from_millis(50));
            if begun.elapsed() > 2 * SHUTDOWN_LIMIT {
                eprintln!("PostgreSQL goes on in {}", self.dir.display());
                break;
            }
            if begun.elapsed() > SHUTDOWN_LIMIT {
                signal = Signal::KILL;
            }
        }
        let _left = fs::remove_dir_all(&self.dir);
    }
}

/// Records a server that works in `dir`, for [`watch`].
pub fn record(dir: &Path, server: u32) {
    fs::write(dir.join(format!("{server}.pid")), server.to_string()).unwrap();
}

/// Cleans up when this process ends, even if it is killed: a shell waits for the end of a pipe that only this process
/// holds open. It ends a process only if that works in the expected directory, because the system reuses ids.
fn watch(dir: &Path) {
    let script = format!(
        "cat >/dev/null
         end() {{
           pid=$(head -n 1 \"$2\" 2>/dev/null) && [ -n \"$pid\" ] || return
           [ ! -d /proc/self ] || [ \"$(readlink /proc/$pid/cwd)\" = \"$3\" ] || return
           kill -$1 $pid
         }}
         [ -d '{0}' ] || exit
         for mark in '{0}'/*.pid; do end KILL \"$mark\" '{0}'; done
         end QUIT '{0}/postgres/postmaster.pid' '{0}/postgres'
         sleep 0.3
         rm -rf '{0}'",
        dir.display()
    );
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // In a separate process group, so that a signal to the benchmark's group does not end the clean-up. The pipe stays
    // open until this process ends.
    std::mem::forget(shell.process_group(0).spawn().unwrap());
}
