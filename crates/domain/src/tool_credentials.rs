//! Credentials in vaults (RFC-0014): what the server knows of them besides the secret, which is
//! [`crate::tool_secrets`] and stands nowhere here. Those that are provisioned for jobs are [`crate::credentials`].

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::check_list;
use crate::clock::Timestamp;
use crate::ids::{ToolCredentialId, VaultId};
use crate::limits::TOOL_METADATA_BYTES;
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};
use crate::tool_calls::Connection;
use crate::tool_secrets::{ToolSecret, check_plain};
use crate::vaults::check_label;

/// How a credential is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// A key in a header or in the query.
    ApiKey,
    /// An access token that can be refreshed.
    Oauth2Token,
    /// A client that gets its tokens by itself.
    Oauth2ClientCredentials,
    /// `Authorization: Bearer`.
    BearerToken,
    /// A user and a password.
    BasicAuth,
    /// For what is no HTTP; only kept.
    ConnectionString,
    /// As `auth` in the metadata says.
    Custom,
}

impl AuthType {
    /// Every type.
    pub const ALL: [Self; 7] = [
        Self::ApiKey,
        Self::Oauth2Token,
        Self::Oauth2ClientCredentials,
        Self::BearerToken,
        Self::BasicAuth,
        Self::ConnectionString,
        Self::Custom,
    ];

    /// The type as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => "api_key",
            Self::Oauth2Token => "oauth2_token",
            Self::Oauth2ClientCredentials => "oauth2_client_credentials",
            Self::BearerToken => "bearer_token",
            Self::BasicAuth => "basic_auth",
            Self::ConnectionString => "connection_string",
            Self::Custom => "custom",
        }
    }

    /// Reads a type; `None` when there is no such type.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Whether a credential can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CredentialStatus {
    /// It can.
    Active,
    /// Its time has run out; another value, or another end, brings it back.
    Expired,
    /// It was revoked; its secret is gone.
    Revoked,
}

impl CredentialStatus {
    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Active, Self::Expired, Self::Revoked].into_iter().find(|status| status.as_str() == text)
    }
}

/// A credential, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCredential {
    /// Its id.
    pub id: ToolCredentialId,
    /// The vault that it is in.
    pub vault_id: VaultId,
    /// The service that it opens.
    pub service: String,
    /// What it is called.
    pub label: String,
    /// How it is used.
    pub auth_type: AuthType,
    /// What can be granted of it; anything when empty.
    pub scopes_available: Vec<String>,
    /// Where the service is, and whatever its owner wants to keep beside it.
    pub metadata: Map<String, Value>,
    /// The names of the parts of its secret.
    pub sealed: Vec<String>,
    /// Which of its values, from 1; 0 while it has none.
    pub version: i32,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was put in.
    pub created_at: Timestamp,
    /// When it got its present value, if that is not the first.
    pub rotated_at: Option<Timestamp>,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
}

impl ToolCredential {
    /// Its status at a moment.
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

/// What is to be put in.
#[derive(Debug)]
pub struct CredentialAsk {
    /// The service.
    pub service: String,
    /// What it is called.
    pub label: String,
    /// How it is used.
    pub auth_type: AuthType,
    /// What can be granted of it.
    pub scopes_available: Vec<String>,
    /// Without secrets.
    pub metadata: Map<String, Value>,
    /// The secret, as far as there is one already.
    pub secret: ToolSecret,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
}

/// Makes the record of a credential.
///
/// # Errors
/// Names that are none, metadata that is too large, describes no connection or has a secret in it, a secret that does not fit
/// how it is to be used, an end in the past.
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

/// What of a credential is to be otherwise; what is `None` stays.
#[derive(Debug, Default)]
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
pub struct CredentialChange {
    /// What it is called.
    pub label: Option<String>,
    /// What can be granted of it from now on.
    pub scopes_available: Option<Vec<String>>,
    /// In place of all of it.
    pub metadata: Option<Map<String, Value>>,
    /// When it ends; `Some(None)`: never.
    pub expires_at: Option<Option<Timestamp>>,
    /// Another value.
    pub secret: Option<ToolSecret>,
}

/// The record after a change.
///
/// # Errors
/// As [`deposit`]; it was revoked.
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

/// A credential that was revoked takes nothing any more.
#[must_use]
pub fn revoked() -> Refusal {
    Refusal::new(
        Code::InvalidTransition,
        "This credential was revoked, for good, and its secret is gone. Put a new one into the vault.",
    )
}

/// Requires that an end lies ahead.
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

/// Requires that a secret fits the connection that it is for: better now than when an agent needs it.
fn check_secret(credential: &ToolCredential, secret: &ToolSecret) -> Result<(), Refusal> {
    match Connection::read(&credential.metadata)? {
        Some(connection) => connection.check_secret(credential.auth_type, secret),
        None => Ok(()),
    }
}

/// Requires that an object is not too large.
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
