//! Vaults (RFC-0014): contain the credentials that agents use and never see.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::VaultId;
use crate::limits::TITLE_BYTES;
use crate::refusal::{Code, Refusal};

/// A vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vault {
    /// Identifier.
    pub id: VaultId,
    /// Principal that adds credentials and grants their use.
    pub owner_id: String,
    /// Name.
    pub name: String,
    /// Creation time.
    pub created_at: Timestamp,
}

/// Creates a vault.
///
/// # Errors
/// An invalid owner name, or an empty or too long vault name.
pub fn create(owner_id: &str, name: &str, id: VaultId, now: Timestamp) -> Result<Vault, Refusal> {
    check_name("owner_id", owner_id)?;
    check_label("name", name)?;
    Ok(Vault { id, owner_id: owner_id.to_owned(), name: name.to_owned(), created_at: now })
}

/// Checks the name of a vault or the label of a credential.
///
/// # Errors
/// It is empty or longer than [`TITLE_BYTES`].
pub fn check_label(member: &str, label: &str) -> Result<(), Refusal> {
    if label.trim().is_empty() {
        let message = format!("`{member}` is empty. Say what it is called.");
        return Err(Refusal::field(Code::InvalidRequest, member, "missing", message));
    }
    if label.len() > TITLE_BYTES {
        let message = format!("`{member}` has {} bytes, at most {TITLE_BYTES} are allowed.", label.len());
        return Err(Refusal::field(Code::TooLarge, member, "too_long", message));
    }
    Ok(())
}
