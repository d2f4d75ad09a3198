//! Whose processes and files a private PostgreSQL's are.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use super::{PrivateError, file};

/// Whose processes and files PostgreSQL's are, when Entente runs as root: PostgreSQL refuses to.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Owner {
    /// `postgres` if the system has it, else `nobody`; `None` when not root.
    pub(super) fn find() -> Result<Option<Self>, PrivateError> {
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

    /// Requires that the owner can get to `dir`: every directory on the way must let others pass.
    pub(super) fn check_reachable(&self, dir: &Path) -> Result<(), PrivateError> {
        for step in dir.ancestors() {
            let meta = fs::metadata(step).map_err(file(format!("looking at {}", step.display())))?;
            let passes = meta.mode() & 0o001 != 0 || meta.uid() == self.uid;
            if !passes {
                return Err(PrivateError::Unreachable { user: self.name.clone(), dir: step.to_path_buf() });
            }
        }
        Ok(())
    }
}

/// Makes a directory that only the owner can enter; without one, only this process's user.
pub(super) fn own_dir(owner: Option<&Owner>, dir: &Path) -> Result<(), PrivateError> {
    let failed = || file(format!("preparing {}", dir.display()));
    fs::create_dir_all(dir).map_err(failed())?;
    let (uid, gid) = owner.map_or_else(
        || (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        |owner| (owner.uid, owner.gid),
    );
    let meta = fs::metadata(dir).map_err(failed())?;
    if meta.uid() != uid {
        chown(dir, Some(uid), Some(gid)).map_err(failed())?;
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(failed())
}
