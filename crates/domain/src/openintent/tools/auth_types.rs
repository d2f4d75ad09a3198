//! Authentication methods of a credential (RFC-0014).

use serde::{Deserialize, Serialize};

/// Authentication method of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// A key in a header or in the query.
    ApiKey,
    /// An access token that can be refreshed.
    Oauth2Token,
    /// OAuth 2 client credentials, which fetch tokens.
    Oauth2ClientCredentials,
    /// `Authorization: Bearer`.
    BearerToken,
    /// User name and password.
    BasicAuth,
    /// For protocols other than HTTP; only stored.
    ConnectionString,
    /// As `auth` in the metadata specifies.
    Custom,
}

impl AuthType {
    /// All types.
    pub const ALL: [Self; 7] = [
        Self::ApiKey,
        Self::Oauth2Token,
        Self::Oauth2ClientCredentials,
        Self::BearerToken,
        Self::BasicAuth,
        Self::ConnectionString,
        Self::Custom,
    ];

    /// Returns the wire name.
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

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}
