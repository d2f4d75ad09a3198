//! Settings of vaults and of the tools that are called with their credentials (RFC-0014).

use std::time::Duration;

use entente_domain::openintent::tools::vault_keys::{Keyring, VaultKey};
use entente_openintent::tools::vaults::VaultSettings;

use super::{Reader, VAULT_KEY};

impl Reader<'_> {
    pub(super) fn vaults(&mut self) -> VaultSettings {
        let current = self.vault_keys(VAULT_KEY, 1).pop();
        let old = self.vault_keys("ENTENTE_VAULT_OLD_KEYS", 100);
        let days =
            self.parsed("ENTENTE_TOOL_RETENTION_DAYS", 30_u64, "a number of days from 1 to 3650", |n| {
                (1..=3_650).contains(n)
            });
        VaultSettings {
            keys: Keyring::new(current, old),
            allowed: self.allowed("ENTENTE_TOOL_ALLOW"),
            retention: Duration::from_secs(days * 24 * 3_600),
        }
    }

    /// Reads keys in base64, separated by commas. They are secrets, so no message contains them.
    fn vault_keys(&mut self, name: &str, most: usize) -> Vec<VaultKey> {
        let Some(text) = self.text(name) else { return Vec::new() };
        let keys: Option<Vec<VaultKey>> = text.split(',').map(|key| VaultKey::parse(key.trim())).collect();
        match keys {
            Some(keys) if keys.len() <= most => keys,
            _ => {
                let what = if most == 1 {
                    "32 bytes in base64"
                } else {
                    "keys of 32 bytes in base64, with commas between"
                };
                self.faults.push(format!("{name}: must be {what} (`openssl rand -base64 32` makes them)"));
                Vec::new()
            }
        }
    }
}
