//! Where tests keep their files: in memory, where the system has room for that. A test's database is some eight hundred files, and
//! most of a test's time would go into making them on a disk.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The file system that Linux keeps in memory.
const MEMORY: &str = "/dev/shm";

/// Bytes that have to be free there: several times what a run has had at once.
const ROOM: u64 = 2 << 30;

/// The directory for a run's files: `TMPDIR` where it is set, else memory, else where the system keeps temporary files.
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
