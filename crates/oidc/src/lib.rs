//! OpenID Connect: sends people to the operator's provider, and verifies the provider's claims about them
//! (authorization code flow with PKCE). The crate `openidconnect` speaks the protocol and checks signatures; requests
//! go through a [`Transport`]. Who an account is here is decided in `entente_domain::identity::provider`.

mod metadata;

use std::sync::Arc;
use std::time::Duration;

use entente_domain::clock::Timestamp;
use entente_domain::identity::provider::{Claims, ProviderPolicy};
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreClientAuthMethod, CoreErrorResponseType, CoreGenderClaim,
    CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm, CoreResponseType,
    CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AdditionalClaims, AuthType, AuthenticationFlow, AuthorizationCode, ClaimsVerificationError, Client,
    ClientId, CsrfToken, EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdToken,
    IdTokenFields, IssuerUrl, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier,
    RedirectUrl, RequestTokenError, Scope, SignatureVerificationError, StandardErrorResponse,
    StandardTokenResponse, SubjectIdentifier, TokenResponse as _, UserInfoClaims,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use self::metadata::{Known, Metadata};
pub use self::metadata::{Request, Response, Sending, Transport, Unreachable};
pub use openidconnect::ClientSecret;

/// Time for everything that the end of a login asks the provider; each request also has a limit of its own.
const TIME: Duration = Duration::from_secs(15);

/// Signatures that an ID token may have. Those with the client's secret are left out: the secret would also make tokens.
const SIGNATURES: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// This server as a client of the provider.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The provider's issuer URL.
    pub issuer: String,
    /// Id of this server at the provider.
    pub client_id: String,
    /// Secret of this server at the provider; `None` for a public client.
    pub client_secret: Option<ClientSecret>,
    /// Scopes to ask for, besides `openid`.
    pub scopes: Vec<String>,
    /// URL of this server to which the provider sends the browser back.
    pub redirect: String,
    /// The provider's name, for people.
    pub label: String,
}

/// Parameters of one login at the provider.
#[derive(Debug, Clone)]
pub struct Begun {
    /// The state that comes back.
    pub state: String,
    /// The nonce in the ID token.
    pub nonce: String,
    /// The verifier of PKCE.
    pub verifier: String,
}

/// Reason that the provider said nothing about a person. No text has a token or a secret in it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// It cannot be reached, or takes too long.
    #[error("it cannot be reached: {0}")]
    Away(String),
    /// It does not take the code: the login took too long, or the code was used before.
    #[error("it does not take the code: {0}")]
    Refused(String),
    /// Its answer violates the specification, or is not signed by it for this login.
    #[error("what it says cannot be verified: {0}")]
    Distrusted(String),
}

/// Claims beside the standard ones, of which a setting may name any.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Extra {
    #[serde(flatten)]
    all: Claims,
}

impl AdditionalClaims for Extra {}

type Token = IdToken<Extra, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm>;

type TokenFields = IdTokenFields<
    Extra,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;

type Tokens = StandardTokenResponse<TokenFields, CoreTokenType>;

type OidcClient = Client<
    Extra,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The operator's provider.
pub struct Provider {
    /// The operator's settings for its accounts.
    pub policy: ProviderPolicy,
    settings: Settings,
    redirect: RedirectUrl,
    known: Known,
    transport: Arc<dyn Transport>,
}

impl Provider {
    /// Creates a provider; nothing is asked of it until somebody logs in.
    ///
    /// # Errors
    /// The issuer or the redirect is no URL.
    pub fn new(
        settings: Settings,
        policy: ProviderPolicy,
        transport: Arc<dyn Transport>,
    ) -> Result<Self, String> {
        let issuer = IssuerUrl::new(settings.issuer.clone()).map_err(|e| e.to_string())?;
        let redirect = RedirectUrl::new(settings.redirect.clone()).map_err(|e| e.to_string())?;
        Ok(Self { policy, settings, redirect, known: Known::new(issuer), transport })
    }

    /// Returns the provider's name, for people.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.settings.label
    }

    /// Checks that the provider answers, and that its addresses and keys can be used.
    ///
    /// # Errors
    /// [`Fault::Away`], [`Fault::Distrusted`].
    pub async fn check(&self) -> Result<(), Fault> {
        self.known.current(&*self.transport, None).await.map(|_found| ())
    }

    /// Returns the URL at the provider that the browser is sent to.
    ///
    /// # Errors
    /// [`Fault::Away`], [`Fault::Distrusted`].
    pub async fn begin(&self, begun: Begun) -> Result<String, Fault> {
        let (_, metadata) = self.known.current(&*self.transport, None).await?;
        let client = self.client(&metadata);
        let Begun { state, nonce, verifier } = begun;
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(verifier));
        let flow = AuthenticationFlow::<CoreResponseType>::AuthorizationCode;
        let scopes = self.settings.scopes.iter().map(|scope| Scope::new(scope.clone()));
        let (url, _state, _nonce) = client
            .authorize_url(flow, move || CsrfToken::new(state), move || Nonce::new(nonce))
            .add_scopes(scopes)
            .set_pkce_challenge(challenge)
            .url();
        Ok(url.into())
    }

    /// Exchanges the code that the browser brought back, and returns the verified claims about the person.
    ///
    /// # Errors
    /// See [`Fault`].
    pub async fn finish(&self, code: String, begun: Begun, now: Timestamp) -> Result<Claims, Fault> {
        let late = |_late| Fault::Away("it did not answer in time".to_owned());
        timeout(TIME, self.exchange(code, begun, now)).await.map_err(late)?
    }

    async fn exchange(&self, code: String, begun: Begun, now: Timestamp) -> Result<Claims, Fault> {
        let (at, metadata) = self.known.current(&*self.transport, None).await?;
        let client = self.client(&metadata);
        let send = |request| self.transport.send(request);
        let tokens = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|_no_endpoint| Fault::Distrusted("it names no address for tokens".to_owned()))?
            .set_pkce_verifier(PkceCodeVerifier::new(begun.verifier))
            .request_async(&send)
            .await
            .map_err(token_fault)?;
        let token = tokens.id_token().ok_or_else(|| Fault::Distrusted("it sent no ID token".to_owned()))?;
        let nonce = Nonce::new(begun.nonce);
        let mut claims = match verified(&client, token, &nonce, now) {
            Ok(claims) => claims,
            Err(fault) if is_unknown_key(&fault) => {
                // It may have replaced its keys.
                let (_, metadata) = self.known.current(&*self.transport, Some(at)).await?;
                verified(&self.client(&metadata), token, &nonce, now).map_err(|e| distrusted(&e))?
            }
            Err(fault) => return Err(distrusted(&fault)),
        };
        if self.policy.lacks(&claims) && metadata.userinfo_endpoint().is_some() {
            for (name, value) in self.more(&client, &tokens, &claims).await? {
                claims.entry(name).or_insert(value);
            }
        }
        Ok(claims)
    }

    /// Asks for claims that the ID token lacks.
    async fn more(&self, client: &OidcClient, tokens: &Tokens, claims: &Claims) -> Result<Claims, Fault> {
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        let subject = SubjectIdentifier::new(subject.to_owned());
        let send = |request| self.transport.send(request);
        let asked = client
            .user_info(tokens.access_token().clone(), Some(subject))
            .map_err(|_no_endpoint| Fault::Distrusted("it names no address for claims".to_owned()))?;
        let found: Result<UserInfoClaims<Extra, CoreGenderClaim>, _> = asked.request_async(&send).await;
        let found = found.map_err(|fault| match fault {
            openidconnect::UserInfoError::Request(Unreachable(why)) => Fault::Away(why),
            openidconnect::UserInfoError::ClaimsVerification(fault) => distrusted(&fault),
            other => Fault::Distrusted(short(&other)),
        })?;
        as_claims(&found)
    }

    fn client(&self, metadata: &Metadata) -> OidcClient {
        let secret = self.settings.client_secret.clone();
        let id = ClientId::new(self.settings.client_id.clone());
        let client = OidcClient::from_provider_metadata(metadata.clone(), id, secret)
            .set_redirect_uri(self.redirect.clone());
        let methods = metadata.token_endpoint_auth_methods_supported().map_or(&[][..], Vec::as_slice);
        let only_in_body = methods.contains(&CoreClientAuthMethod::ClientSecretPost)
            && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic);
        // By default the secret is in a header.
        client.set_auth_type(if only_in_body { AuthType::RequestBody } else { AuthType::BasicAuth })
    }
}

/// Verifies an ID token: its signature, issuer, audience, expiry and nonce.
fn verified(
    client: &OidcClient,
    token: &Token,
    nonce: &Nonce,
    now: Timestamp,
) -> Result<Claims, ClaimsVerificationError> {
    let verifier = client.id_token_verifier().set_allowed_algs(SIGNATURES).set_time_fn(move || now);
    let claims = token.claims(&verifier, nonce)?;
    as_claims(claims).map_err(|fault| ClaimsVerificationError::Other(fault.to_string()))
}

fn is_unknown_key(fault: &ClaimsVerificationError) -> bool {
    use SignatureVerificationError::{CryptoError, NoMatchingKey};
    matches!(fault, ClaimsVerificationError::SignatureVerification(NoMatchingKey | CryptoError(_)))
}

fn distrusted(fault: &ClaimsVerificationError) -> Fault {
    Fault::Distrusted(match fault {
        ClaimsVerificationError::SignatureVerification(fault) => short(fault),
        other => short(other),
    })
}

fn token_fault(fault: RequestTokenError<Unreachable, StandardErrorResponse<CoreErrorResponseType>>) -> Fault {
    match fault {
        RequestTokenError::Request(Unreachable(why)) => Fault::Away(why),
        // The code of the error, and not its description, in which a provider may repeat the request.
        RequestTokenError::ServerResponse(answer) => match answer.error() {
            CoreErrorResponseType::InvalidGrant => Fault::Refused("invalid_grant".to_owned()),
            other => Fault::Distrusted(format!("it refused this server with {}", short(other))),
        },
        // The body, which may have tokens, is left out.
        RequestTokenError::Parse(fault, _) => Fault::Distrusted(short(fault.inner())),
        RequestTokenError::Other(_) => Fault::Distrusted("its answer about tokens is empty".to_owned()),
    }
}

fn as_claims(claims: &impl Serialize) -> Result<Claims, Fault> {
    match serde_json::to_value(claims) {
        Ok(Value::Object(claims)) => Ok(claims),
        _ => Err(Fault::Distrusted("its claims cannot be read".to_owned())),
    }
}

/// Returns the beginning of a text that the provider may have influenced, on one line.
fn short(text: &impl ToString) -> String {
    text.to_string().chars().filter(|letter| !letter.is_control()).take(200).collect()
}
