//! Files with secrets: for this user alone, whole or not there, and made once.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a file unless there is one; returns whether it was written. Creates the directory.
///
/// # Errors
/// The directory or the file cannot be written.
pub(super) fn create(path: &Path, text: &str) -> io::Result<bool> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    // Written under another name first: a process that starts concurrently finds the whole file or none.
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        linked => linked.map(|()| true),
    }
}
