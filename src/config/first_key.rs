//! Settings of the first key of a new database, the operator's.

use std::path::PathBuf;

use entente_domain::identity::keys::Presented;

use super::Reader;

/// Where the first key of a new database comes from.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum FirstKey {
    /// It is new, and printed once.
    #[default]
    Printed,
    /// It is this one.
    Given(String),
    /// It is in this file, which is created with a new key if it is missing.
    File(PathBuf),
}

impl std::fmt::Debug for FirstKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Printed => "Printed",
            Self::Given(_) => "Given",
            Self::File(_) => "File",
        })
    }
}

impl Reader<'_> {
    /// Reads `ENTENTE_BOOTSTRAP_KEY` and `ENTENTE_BOOTSTRAP_KEY_FILE`. The key is a secret, so no message contains it.
    pub(super) fn first_key(&mut self) -> FirstKey {
        let (name, file) = ("ENTENTE_BOOTSTRAP_KEY", "ENTENTE_BOOTSTRAP_KEY_FILE");
        match (self.text(name), self.text(file)) {
            (None, None) => FirstKey::Printed,
            (None, Some(path)) => FirstKey::File(path.into()),
            (Some(_), Some(_)) => {
                self.faults.push(format!("{name}: set this or {file}, not both"));
                FirstKey::Printed
            }
            (Some(key), None) => {
                if Presented::parse(&key).is_none() {
                    self.faults.push(format!("{name}: is no key; `entente bootstrap-key` prints one"));
                }
                FirstKey::Given(key)
            }
        }
    }
}
