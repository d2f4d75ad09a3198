//! Access tokens that services issue for credentials (OAuth 2). Client tokens stay in memory; tokens that
//! replace a stored one are sealed. Only one call at a time requests a credential's token: a service with
//! rotating refresh tokens treats a second use of the same refresh token as theft.

use std::time::{Duration, Instant};

use entente_domain::ids::ToolCredentialId;
use entente_domain::limits::TOOL_RESULT_BYTES;
use entente_domain::openintent::tools::invocations::CallFailure;
use entente_domain::openintent::tools::tool_credentials::ToolCredential;
use entente_domain::openintent::tools::tool_secrets::{Scrubber, ToolSecret};
use entente_kernel::Outcome;
use entente_openintent::tools::invocations::Started;
use entente_openintent::tools::tool_credentials;
use entente_openintent::tools::tool_credentials::SecretState;
use entente_runtime::cache::Cache;
use entente_runtime::keyed::Turns;
use entente_runtime::metrics::Metrics;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{Calling, Failed, failed};

/// Most tokens in memory; the least recently used one is dropped.
const TOKENS: usize = 1_000;

/// Longest use of a token, and the margin before its expiry at which it is replaced.
const TOKEN_TIME: Duration = Duration::from_hours(1);
const TOKEN_EARLY: Duration = Duration::from_secs(30);

/// Names of an access token in a secret.
pub(super) const NAMES: [&str; 2] = ["access_token", "token"];

/// A token issued for a credential.
struct Token {
    text: Zeroizing<String>,
    until: Instant,
    /// Version of the secret and metadata of the service; a change of either invalidates the token.
    version: i32,
    metadata: Map<String, Value>,
}

/// Tokens in memory, and the turns for requesting one.
pub(super) struct Tokens {
    known: Cache<ToolCredentialId, Token>,
    turns: Turns<ToolCredentialId>,
}

impl Tokens {
    pub fn new(metrics: &Metrics) -> Self {
        Self { known: Cache::new("tool_tokens", TOKENS, metrics), turns: Turns::default() }
    }

    /// Returns a valid token, unless it is the one that was refused.
    fn known(&self, of: &ToolCredential, refused: Option<&str>) -> Option<Zeroizing<String>> {
        self.known.find(&of.id, |token| {
            let same = token.version == of.version && token.metadata == of.metadata;
            let good = token.until > Instant::now() && refused != Some(token.text.as_str());
            (same && good).then(|| token.text.clone())
        })
    }

    fn remember(&self, of: &ToolCredential, text: &Zeroizing<String>, answer: &Map<String, Value>) {
        let lasts = answer.get("expires_in").and_then(Value::as_u64).map(Duration::from_secs);
        let lasts = lasts.map(|lasts| lasts.min(TOKEN_TIME).saturating_sub(TOKEN_EARLY));
        let Some(lasts) = lasts.filter(|lasts| !lasts.is_zero()) else { return };
        let now = Instant::now();
        self.known.retain(|_, token| token.until > now);
        let metadata = of.metadata.clone();
        let token = Token { text: text.clone(), until: now + lasts, version: of.version, metadata };
        self.known.put(of.id, token);
    }
}

fn none(why: &str) -> Failed {
    Failed::new(CallFailure::NoToken, format!("The service gave no token: {why}."))
}

impl Calling {
    /// Returns a token for a credential, from memory or newly requested, but never the refused one.
    pub(super) async fn token(
        &self,
        started: &Started,
        scrubber: &mut Scrubber,
        refused: Option<&str>,
    ) -> Result<Zeroizing<String>, Failed> {
        let patience = Duration::from_millis(started.connection.timeout_millis().into());
        let _turn = tokio::time::timeout(patience, self.tokens.turns.take(started.credential.id))
            .await
            .map_err(|_late| none("other calls have been waiting for one for too long"))?;
        if let Some(token) = self.tokens.known(&started.credential, refused) {
            scrubber.add(&token);
            return Ok(token);
        }
        let renewed = tool_credentials::renewed(&self.ctx.openintent, &started.credential).await;
        let renewed = renewed.map_err(|failure| {
            tracing::error!(credential.id = %started.credential.id, error = %failure,
                "a credential could not be read again");
            none("the credential could not be read again")
        })?;
        let (credential, secret) =
            renewed.unwrap_or_else(|| (started.credential.clone(), started.secret.clone()));
        scrubber.adopt(secret.scrubber());
        let kept = secret.first(&NAMES).filter(|token| refused != Some(*token));
        if let Some(token) = kept.filter(|_| credential.version != started.credential.version) {
            return Ok(Zeroizing::new(token.to_owned()));
        }
        let (token, answer) = self.ask(started, &secret).await?;
        scrubber.add(&token);
        self.keep(&credential, &secret, &token, answer, scrubber).await;
        Ok(token)
    }

    async fn ask(
        &self,
        started: &Started,
        secret: &ToolSecret,
    ) -> Result<(Zeroizing<String>, Map<String, Value>), Failed> {
        let request = started.connection.token_request(secret).map_err(|refusal| none(&refusal.message))?;
        let request = request.ok_or_else(|| none("the credential has not what it takes to ask for one"))?;
        let heard = self.egress.call(request, TOOL_RESULT_BYTES).await;
        let heard = heard.map_err(|unheard| none(&failed(unheard, "it").message))?;
        if !(200..300).contains(&heard.status) {
            return Err(none(&format!("it answered {}", heard.status)));
        }
        let Ok(Value::Object(mut answer)) = serde_json::from_str::<Value>(&heard.body) else {
            return Err(none("it answered something else"));
        };
        let Some(Value::String(token)) = answer.remove("access_token") else {
            return Err(none("there is no `access_token` in its answer"));
        };
        Ok((Zeroizing::new(token), answer))
    }

    /// Stores a new token.
    ///
    /// It is sealed if the credential had a stored token or the service replaced the refresh token; otherwise
    /// it stays in memory.
    async fn keep(
        &self,
        credential: &ToolCredential,
        secret: &ToolSecret,
        token: &Zeroizing<String>,
        mut answer: Map<String, Value>,
        scrubber: &mut Scrubber,
    ) {
        let refresh = match answer.remove("refresh_token") {
            Some(Value::String(refresh)) if !refresh.is_empty() => Some(refresh),
            _ => None,
        };
        if let Some(refresh) = &refresh {
            scrubber.add(refresh);
        }
        let refresh = refresh.filter(|_| secret.get("refresh_token").is_some());
        if secret.first(&NAMES).is_none() && refresh.is_none() {
            self.tokens.remember(credential, token, &answer);
            return;
        }
        match self.seal(credential, secret, token, refresh).await {
            Ok(SecretState::Sealed) => {}
            Ok(SecretState::Replaced) => tracing::warn!(credential.id = %credential.id,
                "a token that a service has replaced is not kept: its credential was changed meanwhile"),
            Err(failure) => tracing::error!(credential.id = %credential.id, error = %failure,
                "a token that a service has replaced could not be kept"),
        }
    }

    async fn seal(
        &self,
        credential: &ToolCredential,
        secret: &ToolSecret,
        token: &Zeroizing<String>,
        refresh: Option<String>,
    ) -> Outcome<SecretState> {
        let mut next = ToolSecret::default();
        next.put("access_token", token.to_string())?;
        if let Some(refresh) = refresh {
            next.put("refresh_token", refresh)?;
        }
        tool_credentials::refreshed(&self.ctx.openintent, credential, &secret.clone().with(next)).await
    }
}
