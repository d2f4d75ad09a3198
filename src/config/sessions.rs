//! Settings of sessions (ARCP §6).

use std::time::Duration;

use entente_arcp::sessions::SessionSettings;
use entente_domain::arcp::sessions::features::Features;
use entente_kernel::TokenSecret;

use super::{Config, ConfigError, Reader};

/// Shortest secret in bytes: shorter ones can be guessed.
const SECRET: usize = 16;

impl Config {
    /// Requires that nobody can guess the secret of signed tokens.
    ///
    /// A server for development that only this machine reaches may have a shorter one: examples of client libraries
    /// do.
    ///
    /// # Errors
    /// The secret is too short.
    pub fn check_token_secret(&self) -> Result<(), ConfigError> {
        if self.token_secret.as_ref().is_none_or(|secret| secret.0.len() >= SECRET) {
            return Ok(());
        }
        // The value is a secret, so the message does not contain it.
        let message = format!(
            "ENTENTE_ARCP_TOKEN_SECRET: must have at least {SECRET} characters; shorter ones are for `entente dev` on a \
             loopback address"
        );
        Err(ConfigError(vec![message]))
    }
}

impl Reader<'_> {
    pub(super) fn sessions(&mut self) -> SessionSettings {
        let hours = self.parsed("ENTENTE_ARCP_IDLE_HOURS", 24_u64, "a number of hours from 1 to 8760", |n| {
            (1..=8_760).contains(n)
        });
        SessionSettings {
            heartbeat: self.seconds("ENTENTE_ARCP_HEARTBEAT_SECONDS", 30, 3_600).max(Duration::from_secs(1)),
            resume_window: self
                .seconds("ENTENTE_ARCP_RESUME_SECONDS", 600, 86_400)
                .max(Duration::from_secs(1)),
            per_principal: self.number("ENTENTE_ARCP_SESSIONS_PER_PRINCIPAL", 1_000, 1..=1_000_000),
            idle: Duration::from_secs(hours * 3_600),
            offered: Features::all(),
        }
    }

    /// Reads the secret that signs tokens ([`Config::check_token_secret`] judges its length).
    pub(super) fn token_secret(&self) -> Option<TokenSecret> {
        self.text("ENTENTE_ARCP_TOKEN_SECRET").map(TokenSecret)
    }
}
