//! Chooses the directory for the tests' files: in memory if there is enough room. A test's database is about
//! 800 files, and creating them on a disk would take most of a test's time.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Linux's in-memory file system.
const MEMORY: &str = "/dev/shm";

/// Bytes that must be free there: several times the peak of a run.
const ROOM: u64 = 2 << 30;

/// Returns the directory for a run's files: `TMPDIR` if it is set, else memory, else the system's temporary
/// directory.
pub fn scratch() -> &'static Path {
    static SCRATCH: LazyLock<PathBuf> = LazyLock::new(|| {
        let free = rustix::fs::statvfs(MEMORY).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize));
        if std::env::var_os("TMPDIR").is_none() && free >= ROOM {
            PathBuf::from(MEMORY)
        } else {
            std::env::temp_dir()
        }
    });
    &SCRATCH
}
