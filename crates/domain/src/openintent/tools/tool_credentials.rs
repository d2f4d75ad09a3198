//! Credentials in vaults (RFC-0014): their public records. Secrets are in [`crate::openintent::tools::tool_secrets`] and never part of a
//! record. Credentials provisioned for jobs are in [`crate::arcp::credentials`].

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::check_list;
use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::{ToolCredentialId, VaultId};
use crate::limits::TOOL_METADATA_BYTES;
use crate::openintent::tools::auth_types::AuthType;
use crate::openintent::tools::tool_calls::Connection;
use crate::openintent::tools::tool_secrets::{ToolSecret, check_plain};
use crate::openintent::tools::vaults::check_label;
use crate::refusal::{Code, Refusal};

/// Status of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CredentialStatus {
    /// Usable.
    Active,
    /// Expired; a new value or a new expiry time reactivates it.
    Expired,
    /// Revoked; its secret is deleted.
    Revoked,
}

impl CredentialStatus {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Active, Self::Expired, Self::Revoked].into_iter().find(|status| status.as_str() == text)
    }
}

/// A credential, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCredential {
    /// Identifier.
    pub id: ToolCredentialId,
    /// Vault of the credential.
    pub vault_id: VaultId,
    /// Service that it gives access to.
    pub service: String,
    /// Label.
    pub label: String,
    /// Authentication method.
    pub auth_type: AuthType,
    /// Scopes that can be granted; any if empty.
    pub scopes_available: Vec<String>,
    /// Description of the service, and any further data of the owner.
    pub metadata: Map<String, Value>,
    /// Names of the parts of its secret.
    pub sealed: Vec<String>,
    /// Version of its value, starting at 1; 0 without a value.
    pub version: i32,
    /// Time of revocation.
    pub revoked_at: Option<Timestamp>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time when its current value was set, if it is not the first.
    pub rotated_at: Option<Timestamp>,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
}

impl ToolCredential {
    /// Returns its status at a time.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> CredentialStatus {
        if self.revoked_at.is_some() {
            CredentialStatus::Revoked
        } else if self.expires_at.is_some_and(|end| end <= now) {
            CredentialStatus::Expired
        } else {
            CredentialStatus::Active
        }
    }
}

/// Request to create a credential.
#[derive(Debug)]
pub struct CredentialAsk {
    /// Service.
    pub service: String,
    /// Label.
    pub label: String,
    /// Authentication method.
    pub auth_type: AuthType,
    /// Scopes that can be granted.
    pub scopes_available: Vec<String>,
    /// Metadata, without secrets.
    pub metadata: Map<String, Value>,
    /// Secret; may be empty.
    pub secret: ToolSecret,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
}

/// Creates the record of a credential.
///
/// # Errors
/// Invalid names; metadata that is too large, contains a secret or describes an invalid connection; a secret that
/// does not fit its method; an expiry time in the past.
pub fn deposit(
    ask: &CredentialAsk,
    vault_id: VaultId,
    id: ToolCredentialId,
    now: Timestamp,
) -> Result<ToolCredential, Refusal> {
    check_name("service", &ask.service)?;
    let credential = ToolCredential {
        id,
        vault_id,
        service: ask.service.clone(),
        label: ask.label.clone(),
        auth_type: ask.auth_type,
        scopes_available: ask.scopes_available.clone(),
        metadata: ask.metadata.clone(),
        sealed: ask.secret.names(),
        version: i32::from(!ask.secret.is_empty()),
        revoked_at: None,
        created_at: now,
        rotated_at: None,
        expires_at: ask.expires_at,
    };
    check(&credential)?;
    check_end(credential.expires_at, now)?;
    if !ask.secret.is_empty() {
        check_secret(&credential, &ask.secret)?;
    }
    Ok(credential)
}

/// A change of a credential; members that are `None` stay as they are.
#[derive(Debug, Default)]
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
pub struct CredentialChange {
    /// Label.
    pub label: Option<String>,
    /// New scopes that can be granted.
    pub scopes_available: Option<Vec<String>>,
    /// Replacement of all metadata.
    pub metadata: Option<Map<String, Value>>,
    /// Expiry time; `Some(None)` removes it.
    pub expires_at: Option<Option<Timestamp>>,
    /// New value.
    pub secret: Option<ToolSecret>,
}

/// Returns the record after a change.
///
/// # Errors
/// As [`deposit`], or the credential is revoked.
pub fn changed(
    before: &ToolCredential,
    ask: &CredentialChange,
    now: Timestamp,
) -> Result<ToolCredential, Refusal> {
    if before.revoked_at.is_some() {
        return Err(revoked());
    }
    let mut after = before.clone();
    if let Some(label) = &ask.label {
        after.label.clone_from(label);
    }
    if let Some(scopes) = &ask.scopes_available {
        after.scopes_available.clone_from(scopes);
    }
    if let Some(metadata) = &ask.metadata {
        after.metadata.clone_from(metadata);
    }
    if let Some(end) = ask.expires_at {
        check_end(end, now)?;
        after.expires_at = end;
    }
    if let Some(secret) = &ask.secret {
        after.sealed = secret.names();
        after.version = before.version.saturating_add(1);
        after.rotated_at = (before.version > 0).then_some(now);
    }
    check(&after)?;
    if let Some(secret) = &ask.secret {
        check_secret(&after, secret)?;
    }
    Ok(after)
}

/// Returns the refusal of a change to a revoked credential.
#[must_use]
pub fn revoked() -> Refusal {
    Refusal::new(
        Code::InvalidTransition,
        "This credential was revoked, for good, and its secret is gone. Put a new one into the vault.",
    )
}

/// Requires that an expiry time is in the future.
///
/// # Errors
/// [`Code::AlreadyExpired`].
pub fn check_end(end: Option<Timestamp>, now: Timestamp) -> Result<(), Refusal> {
    if end.is_some_and(|end| end <= now) {
        let message = "`expires_at` lies in the past.";
        return Err(Refusal::field(Code::AlreadyExpired, "expires_at", "past", message));
    }
    Ok(())
}

fn check(credential: &ToolCredential) -> Result<(), Refusal> {
    check_label("label", &credential.label)?;
    check_list("scopes_available", &credential.scopes_available)?;
    check_object("metadata", &credential.metadata, TOOL_METADATA_BYTES)?;
    check_plain("metadata", &credential.metadata)?;
    Connection::read(&credential.metadata).map(|_connection| ())
}

/// Requires that a secret fits its connection, so that errors show before an agent needs it.
fn check_secret(credential: &ToolCredential, secret: &ToolSecret) -> Result<(), Refusal> {
    match Connection::read(&credential.metadata)? {
        Some(connection) => connection.check_secret(credential.auth_type, secret),
        None => Ok(()),
    }
}

/// Requires that an object is within its size limit.
///
/// # Errors
/// [`Code::TooLarge`].
pub fn check_object(member: &str, object: &Map<String, Value>, most: usize) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(object).map_or(0, |text| text.len());
    if bytes <= most {
        return Ok(());
    }
    let message = format!("`{member}` has {bytes} bytes, at most {most} are allowed.");
    Err(Refusal::field(Code::TooLarge, member, "too_large", message))
}
