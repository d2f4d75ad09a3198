//! Operating-system user that owns a private PostgreSQL's processes and files.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use super::{PrivateError, file};

/// User that PostgreSQL runs as when Entente runs as root, because PostgreSQL refuses to run as root.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Owner {
    /// Returns `postgres` if that user exists, else `nobody`; `None` when not root.
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

    /// Checks that the owner can reach `dir`: every directory on the way must be searchable by others.
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

/// Creates a socket's directory in a world-writable place, where another user may have been faster.
///
/// The directory gets its final mode at creation, so no one can interfere in between; an existing directory
/// is used only if this user created it in the same way. A directory of another user, a symbolic link, or a
/// directory with wider permissions is refused.
pub(super) fn exclusive_dir(owner: Option<&Owner>, dir: &Path) -> Result<(), PrivateError> {
    let failed = || file(format!("preparing {}", dir.display()));
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => return own_dir(owner, dir),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(failed()(e)),
    }
    // Does not follow a link.
    let meta = fs::symlink_metadata(dir).map_err(failed())?;
    let uid = owner.map_or_else(|| rustix::process::geteuid().as_raw(), |owner| owner.uid);
    // As root, the directory may stem from an earlier start that ended before the change of owner.
    let ours = meta.uid() == uid || meta.uid() == rustix::process::geteuid().as_raw();
    if meta.is_dir() && ours && meta.mode() & 0o777 == 0o700 {
        return own_dir(owner, dir);
    }
    Err(PrivateError::Taken(dir.to_path_buf()))
}

/// Creates a directory that only the owner can enter; without an owner, only this process's user.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(dir: &Path) -> u32 {
        fs::symlink_metadata(dir).unwrap().mode() & 0o777
    }

    #[test]
    fn a_directory_that_somebody_else_prepared_is_never_taken() {
        let place = std::env::temp_dir().join(format!("entente-owner-{}", std::process::id()));
        let _before = fs::remove_dir_all(&place);
        fs::create_dir(&place).unwrap();
        let dir = place.join("run");
        exclusive_dir(None, &dir).unwrap();
        assert_eq!(mode(&dir), 0o700);
        exclusive_dir(None, &dir).unwrap();
        // Permissions widened to other users.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(exclusive_dir(None, &dir), Err(PrivateError::Taken(taken)) if taken == dir));
        assert_eq!(mode(&dir), 0o755, "nothing of it was changed");
        // A link to a directory of this user, and a dangling link.
        for (name, aim) in [("link", dir.as_path()), ("loose", Path::new("/nowhere"))] {
            let link = place.join(name);
            symlink(aim, &link).unwrap();
            assert!(matches!(exclusive_dir(None, &link), Err(PrivateError::Taken(taken)) if taken == link));
        }
        // Another user's directory, which only root can create.
        if rustix::process::geteuid().is_root() {
            let theirs = place.join("theirs");
            fs::DirBuilder::new().mode(0o700).create(&theirs).unwrap();
            chown(&theirs, Some(65_534), Some(65_534)).unwrap();
            assert!(matches!(exclusive_dir(None, &theirs), Err(PrivateError::Taken(_))));
            assert_eq!(fs::metadata(&theirs).unwrap().uid(), 65_534);
        }
        fs::remove_dir_all(&place).unwrap();
    }
}
