//! Vault key of `entente dev`: created once, and stored in the data directory with access for this user only.
//! In production the operator provides one (`ENTENTE_VAULT_KEY`). Also the keys that a backup takes along.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entente_domain::ids::Chance as _;
use entente_domain::openintent::tools::vault_keys::VaultKey;
use entente_runtime::environment::OsChance;
use entente_store::private::Private;
use zeroize::Zeroizing;

use super::{Failure, private_file};
use crate::config::{Config, VAULT_KEY};

/// Name of the key's file.
const FILE: &str = "vault.key";

/// Adds the data directory's vault key to a configuration without one.
///
/// # Errors
/// The file cannot be read or written, or contains something else.
pub(super) fn keep(config: &mut Config) -> Result<(), Failure> {
    if config.vaults.keys.seals() {
        return Ok(());
    }
    let dir = config.data_dir.clone().unwrap_or_else(Private::default_dir);
    let failed = |what: &str| format!("the key of vaults cannot be kept in {}: {what}", dir.display());
    let key = kept(&dir).map_err(|e| failed(&e.to_string()))?;
    let key =
        key.ok_or_else(|| failed("vault.key is not 32 bytes in base64. Remove it to have another made"))?;
    config.vaults.keys = config.vaults.keys.clone().or(|| Some(key));
    Ok(())
}

/// Reads the key, or creates it if there is none; `None` when the file contains something else.
fn kept(dir: &Path) -> std::io::Result<Option<VaultKey>> {
    let path = dir.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => return Ok(VaultKey::parse(Zeroizing::new(text).trim())),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let chance = OsChance::default();
    let bytes = Zeroizing::new([chance.bits().to_be_bytes(), chance.bits().to_be_bytes()].concat());
    private_file::create(&path, &Zeroizing::new(STANDARD.encode(&bytes)))?;
    Ok(VaultKey::parse(Zeroizing::new(fs::read_to_string(&path)?).trim()))
}

/// Stores a restored key in a data directory, unless it has one; returns whether it was stored.
///
/// # Errors
/// The file cannot be written.
pub(super) fn store(dir: &Path, key: &str) -> Result<bool, Failure> {
    let written = private_file::create(&dir.join(FILE), key);
    written.map_err(|e| format!("the key of vaults cannot be kept in {}: {e}", dir.display()).into())
}

/// Returns the settings whose values are keys, and without a vault key the one in the data directory of a private
/// PostgreSQL.
///
/// # Errors
/// The configuration or the key's file cannot be read.
pub(super) fn all(config: &Config) -> Result<Vec<(&'static str, Zeroizing<String>)>, Failure> {
    let mut keys = Config::keys()?;
    if config.database_url.is_none() && !keys.iter().any(|(name, _)| *name == VAULT_KEY) {
        let path = config.data_dir.clone().unwrap_or_else(Private::default_dir).join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => keys.push((VAULT_KEY, Zeroizing::new(Zeroizing::new(text).trim().to_owned()))),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(format!("{}: {e}", path.display()).into()),
        }
    }
    Ok(keys)
}

/// Returns the ids of the vault keys among settings.
pub(super) fn ids(keys: &[(&str, Zeroizing<String>)]) -> Vec<String> {
    let parse = |text: &str| VaultKey::parse(text.trim()).map(|key| key.id().to_owned());
    keys.iter().flat_map(|(_, value)| value.split(',').filter_map(parse)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_for_this_user_alone() {
        let dir = std::env::temp_dir().join(format!("entente-vault-key-{}", std::process::id()));
        let made = kept(&dir).unwrap().unwrap();
        assert_eq!(kept(&dir).unwrap().unwrap().id(), made.id());
        let mode = fs::metadata(dir.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing else is left");
        fs::write(dir.join(FILE), "something else").unwrap();
        assert!(kept(&dir).unwrap().is_none());
        fs::remove_dir_all(&dir).unwrap();
    }
}
