//! Files of a backup: the dump, the keys, and the description.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use entente_domain::canonical::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::cli::Failure;

/// Name of the dump.
const DUMP: &str = "database.dump";
/// Name of the file of keys, in the form of `.env`.
const KEYS: &str = "keys.env";
/// Name of the description.
const DESCRIPTION: &str = "backup.json";
/// Version of this form.
const FORM: u32 = 1;

/// Description of a backup.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Description {
    /// Version of the form.
    pub form: u32,
    /// Time at which it was begun: every write until then is in it.
    pub begun_at: DateTime<Utc>,
    /// Release of the program that made it.
    pub release: String,
    /// Version of the database's schema: its newest migration.
    pub schema: i64,
    /// PostgreSQL's version, such as `150018`.
    pub postgres: i32,
    /// Bytes of the dump.
    pub bytes: u64,
    /// SHA-256 of the dump in hexadecimal digits.
    pub sha256: String,
    /// Ids of the keys that seal secrets in the dump.
    pub sealing_keys: Vec<String>,
    /// Ids of those among them that are not in the backup, because nobody told them.
    pub missing_keys: Vec<String>,
}

/// A backup's directory.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
}

impl Files {
    /// Opens the directory of a backup.
    pub fn of(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf() }
    }

    /// Creates the directory of a new backup, next to its final place and for this user only.
    ///
    /// # Errors
    /// There is something at its place already, or the directory cannot be created.
    pub fn draft(place: &Path) -> Result<Self, Failure> {
        if fs::read_dir(place).map_or_else(|_| place.exists(), |mut found| found.next().is_some()) {
            let message =
                format!("{} is there already; name a directory that is not there yet", place.display());
            return Err(message.into());
        }
        let mut name = place.file_name().unwrap_or_default().to_owned();
        name.push(format!(".unfinished-{}", std::process::id()));
        let dir = place.with_file_name(name);
        let failed = |e: io::Error| format!("the backup cannot be written to {}: {e}", dir.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
        Ok(Self { dir })
    }

    /// Moves a finished draft to its place, when all of it is on the disk.
    ///
    /// # Errors
    /// The disk fails, or something is at the place.
    pub fn finish(self, place: &Path) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            File::open(entry?.path())?.sync_all()?;
        }
        File::open(&self.dir)?.sync_all()?;
        fs::rename(&self.dir, place)?;
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Removes a draft that failed.
    pub fn discard(self) {
        if let Err(e) = fs::remove_dir_all(&self.dir) {
            tracing::warn!(error = %e, dir = %self.dir.display(), "an unfinished backup is left");
        }
    }

    /// Returns the path of the dump.
    pub fn dump(&self) -> PathBuf {
        self.dir.join(DUMP)
    }

    /// Returns the path of the keys.
    pub fn keys(&self) -> PathBuf {
        self.dir.join(KEYS)
    }

    /// Returns the size of the dump in bytes and its SHA-256.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn digest(&self) -> io::Result<(u64, String)> {
        let mut file = File::open(self.dump())?;
        let (mut digest, mut bytes, mut buffer) = (Sha256::new(), 0_u64, vec![0; 1 << 20]);
        loop {
            let read = file.read(&mut buffer)?;
            let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { break };
            digest.update(part);
            bytes += part.len() as u64;
        }
        Ok((bytes, hex(&digest.finalize())))
    }

    /// Writes the description.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn describe(&self, description: &Description) -> io::Result<()> {
        let text = serde_json::to_string_pretty(description)? + "\n";
        self.write(DESCRIPTION, text.as_bytes())
    }

    /// Reads the description.
    ///
    /// # Errors
    /// The directory is no backup, or one of another form.
    pub fn description(&self) -> Result<Description, Failure> {
        let path = self.dir.join(DESCRIPTION);
        let text = fs::read_to_string(&path)
            .map_err(|e| format!("{}: {e}. Name the directory that `entente backup` made", path.display()))?;
        let read: Description =
            serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if read.form == FORM {
            return Ok(read);
        }
        Err(format!(
            "{}: the backup has form {}, which release {} made; this release reads form {FORM}",
            path.display(),
            read.form,
            read.release
        )
        .into())
    }

    /// Writes the keys, as lines of a `.env` file.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_keys(&self, keys: &[(&str, Zeroizing<String>)]) -> io::Result<()> {
        let mut text = Zeroizing::new(
            "# Keys that are not in the database. Whoever has them and the dump can read all secrets: keep them apart from it.\n"
                .to_owned(),
        );
        for (name, value) in keys {
            text.push_str(name);
            text.push('=');
            text.push_str(value);
            text.push('\n');
        }
        self.write(KEYS, text.as_bytes())
    }

    /// Returns a key of the file of keys; `None` without it.
    ///
    /// # Errors
    /// The file is not readable.
    pub fn key(&self, name: &str) -> Result<Option<Zeroizing<String>>, Failure> {
        let lines = match dotenvy::from_path_iter(self.keys()) {
            Ok(lines) => lines,
            Err(e) if e.not_found() => return Ok(None),
            Err(e) => return Err(format!("{}: {e}", self.keys().display()).into()),
        };
        for line in lines {
            let (key, value) = line?;
            if key == name {
                return Ok(Some(Zeroizing::new(value)));
            }
        }
        Ok(None)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.dir.join(name))?
            .write_all(bytes)
    }
}

impl Description {
    /// The form that this release writes.
    pub const FORM: u32 = FORM;
}
