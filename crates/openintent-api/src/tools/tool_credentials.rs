//! Routes of credentials in vaults (RFC-0014). A secret is accepted here but never returned: no response,
//! list or error contains one. The credentials that are provisioned to jobs are in
//! `crates/arcp-api/src/credentials.rs`.

use actix_web::{HttpRequest, get, patch, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{ToolCredentialId, VaultId};
use entente_domain::openintent::tools::auth_types::AuthType;
use entente_domain::openintent::tools::tool_credentials::{
    CredentialAsk, CredentialChange, CredentialStatus, ToolCredential,
};
use entente_domain::openintent::tools::tool_secrets::{MEMBERS, ToolSecret};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, IfMatchMaybe, id, if_match_maybe, once_about};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::{GivenTime, WireTime};
use entente_openintent::tools::tool_credentials;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(deposit).service(get_one).service(change);
}

/// A credential in a vault, without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolCredential)]
struct CredentialBody {
    /// Credential id.
    id: ToolCredentialId,
    /// The vault that contains the credential.
    vault_id: VaultId,
    /// The service that the credential is for.
    #[schema(example = "search")]
    service: String,
    /// Label of the credential.
    label: String,
    /// How the credential is used to authenticate.
    auth_type: AuthType,
    /// Scopes that can be granted; anything if empty.
    scopes_available: Vec<String>,
    /// Status of the credential.
    status: CredentialStatus,
    /// Address of the service, and any further data of the owner's; never a secret.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// Same as `metadata`, under the reference server's name.
    #[schema(value_type = Object)]
    credential_metadata: Map<String, Value>,
    /// Names of the parts of the secret.
    #[schema(example = json!(["api_key"]))]
    secret_members: Vec<String>,
    /// Version of the secret, from 1; 0 if it has none yet.
    version: i32,
    /// When the credential was stored.
    created_at: WireTime,
    /// When the current secret was set, if it is not the first.
    rotated_at: Option<WireTime>,
    /// When the credential expires.
    expires_at: Option<WireTime>,
    /// When the credential was revoked.
    revoked_at: Option<WireTime>,
}

impl CredentialBody {
    fn new(api: &ApiState, credential: ToolCredential, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            status: credential.status(api.ctx.now()),
            id: credential.id,
            vault_id: credential.vault_id,
            service: credential.service,
            label: credential.label,
            auth_type: credential.auth_type,
            scopes_available: credential.scopes_available,
            credential_metadata: credential.metadata.clone(),
            metadata: credential.metadata,
            secret_members: credential.sealed,
            version: credential.version,
            created_at: time(credential.created_at),
            rotated_at: credential.rotated_at.map(time),
            expires_at: credential.expires_at.map(time),
            revoked_at: credential.revoked_at.map(time),
        }
    }
}

/// Extracts the secret of a body: from `secret` (one text, or its parts by name) and from the metadata.
///
/// Both are parsed by hand, because a deserialisation error would repeat the secret.
fn secret(
    auth_type: AuthType,
    said: Value,
    metadata: Option<&mut Map<String, Value>>,
) -> Result<ToolSecret, Refusal> {
    let beside = metadata.map(ToolSecret::take).transpose()?.unwrap_or_default();
    let given = match said {
        Value::Null => ToolSecret::default(),
        Value::String(text) => ToolSecret::given(auth_type, text)?,
        Value::Object(mut parts) => {
            let secret = ToolSecret::take(&mut parts)?;
            if parts.is_empty() {
                secret
            } else {
                return Err(shapeless("secret", &format!("an object with some of {}", MEMBERS.join(", "))));
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err(shapeless("secret", "a text or an object"));
        }
    };
    Ok(beside.with(given))
}

fn shapeless(member: &str, what: &str) -> Refusal {
    Refusal::field(Code::InvalidRequest, member, "type", format!("`{member}` must be {what}."))
}

/// Returns the metadata of a body, if present.
fn object(said: Value) -> Result<Option<Map<String, Value>>, Refusal> {
    match said {
        Value::Null => Ok(None),
        Value::Object(members) => Ok(Some(members)),
        _ => Err(shapeless("metadata", "an object")),
    }
}

/// A credential to store.
#[derive(Deserialize, ToSchema)]
#[schema(as = NewToolCredential, example = json!({
    "vault_id": "vault_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "service": "search", "label": "the team's key", "auth_type": "api_key",
    "secret": "sk-…", "metadata": { "base_url": "https://api.example.com",
        "endpoints": { "web_search": { "path": "/v1/search", "method": "GET" } }, "auth": { "header_name": "X-API-Key" } }
}))]
struct NewCredentialBody {
    /// The vault that receives the credential.
    vault_id: String,
    /// The service that the credential is for.
    service: String,
    /// Label of the credential.
    label: String,
    /// How the credential is used to authenticate; defaults to `api_key`.
    auth_type: Option<AuthType>,
    /// Scopes that can be granted.
    #[serde(default)]
    scopes_available: Vec<String>,
    /// Address of the service and how to call it; secrets in it (`api_key`, `token`, `password` …) are
    /// removed and sealed.
    #[serde(default, alias = "credential_metadata")]
    #[schema(value_type = Object)]
    metadata: Value,
    /// The secret: one text (for `basic_auth`, `user:password`), or its parts by name; it is sealed and never
    /// shown again.
    #[serde(default, alias = "value")]
    secret: Value,
    /// When the credential expires.
    expires_at: Option<GivenTime>,
}

/// Store a credential in a vault
///
/// The secret is sealed and never shown again: only the server uses it, when an agent with a grant calls a
/// tool. A retry with the same idempotency key returns the first response, even if its secret differs.
#[utoipa::path(operation_id = "create_credential", tag = "tools", request_body = NewCredentialBody, params(IdempotencyKey),
    responses((status = 200, description = "The credential, without its secret", body = CredentialBody),
              (status = 422, description = "The credential is invalid, the vault is full, or the server has no key to seal it with", body = ProblemBody)))]
#[post("/credentials")]
async fn deposit(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<NewCredentialBody>,
) -> Reply {
    let said = body.value;
    // The idempotency hash leaves out the secret, which could be guessed from it.
    let about = format!("{}\0{}\0{}", said.vault_id, said.service, said.label);
    let once = once_about(&request, &about)?;
    let auth_type = said.auth_type.unwrap_or(AuthType::ApiKey);
    let mut metadata = object(said.metadata)?.unwrap_or_default();
    let ask = CredentialAsk {
        secret: secret(auth_type, said.secret, Some(&mut metadata))?,
        service: said.service,
        label: said.label,
        auth_type,
        scopes_available: said.scopes_available,
        metadata,
        expires_at: said.expires_at.map(|end| end.0),
    };
    let vault: VaultId = id("vault", &said.vault_id)?;
    let made = tool_credentials::deposit(&api.ctx, &asker.caller, vault, ask, once.as_ref()).await?;
    ok(&CredentialBody::new(&api, made, asker.dialect))
}

/// Get a credential
///
/// Returns the credential without its secret. Allowed for the vault's owner and for admins.
#[utoipa::path(operation_id = "get_credential", tag = "tools",
    responses((status = 200, description = "The credential", body = CredentialBody)))]
#[get("/credentials/{tool_credential_id}")]
async fn get_one(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = tool_credentials::get(&api.ctx, &asker.caller, id("credential", &path)?).await?;
    ok(&CredentialBody::new(&api, found, asker.dialect))
}

/// A change of a credential; omitted fields stay unchanged.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = ToolCredentialChange, example = json!({ "secret": "sk-…" }))]
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
struct ChangeBody {
    /// Label of the credential.
    label: Option<String>,
    /// Scopes that can be granted from now on; existing grants are unaffected.
    scopes_available: Option<Vec<String>>,
    /// The complete new metadata; secrets in it are removed and sealed.
    #[serde(default, alias = "credential_metadata")]
    #[schema(value_type = Option<Object>)]
    metadata: Value,
    /// New secret; the previous one is discarded immediately.
    #[serde(default, alias = "value")]
    secret: Value,
    /// When the credential expires; null for never.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<String>)]
    expires_at: Option<Option<GivenTime>>,
    /// Only `revoked`, which is final: the secret is discarded and all grants are withdrawn.
    status: Option<CredentialStatus>,
}

/// Distinguishes null from a missing field.
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
fn said<'de, D: Deserializer<'de>>(member: D) -> Result<Option<Option<GivenTime>>, D::Error> {
    Option::deserialize(member).map(Some)
}

/// Change, rotate or revoke a credential
///
/// A new `secret` replaces the old one immediately, for every call that begins afterwards. `If-Match` with
/// the `version` is optional; with it, only one of two concurrent rotations succeeds.
#[utoipa::path(operation_id = "change_credential", tag = "tools", request_body = ChangeBody, params(IfMatchMaybe),
    responses((status = 200, description = "The credential, without its secret", body = CredentialBody),
              (status = 409, description = "The credential was revoked, or has another version", body = ProblemBody)))]
#[patch("/credentials/{tool_credential_id}")]
async fn change(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let credential: ToolCredentialId = id("credential", &path)?;
    let ask = body.value;
    let expected = if_match_maybe("credential", &request)?;
    let known = tool_credentials::get(&api.ctx, &asker.caller, credential).await?;
    if let Some(status) = ask.status {
        return set_status(&api, &asker, &known, status, &ask).await;
    }
    let mut metadata = object(ask.metadata)?;
    let secret = secret(known.auth_type, ask.secret, metadata.as_mut())?;
    let ask = CredentialChange {
        label: ask.label,
        scopes_available: ask.scopes_available,
        metadata,
        expires_at: ask.expires_at.map(|end| end.map(|end| end.0)),
        secret: Some(secret).filter(|secret| !secret.is_empty()),
    };
    let after = tool_credentials::change(&api.ctx, &asker.caller, credential, expected, ask).await?;
    ok(&CredentialBody::new(&api, after, asker.dialect))
}

async fn set_status(
    api: &ApiState,
    asker: &Asker,
    known: &ToolCredential,
    status: CredentialStatus,
    ask: &ChangeBody,
) -> Reply {
    let alone = ask.label.is_none() && ask.scopes_available.is_none() && ask.metadata.is_null();
    let alone = alone && ask.secret.is_null() && ask.expires_at.is_none();
    if status != CredentialStatus::Revoked || !alone {
        let message = "`status` can be set to `revoked`, with nothing else; the other statuses follow from `expires_at`.";
        return Err(Problem::from(Refusal::field(Code::InvalidRequest, "status", "enum", message)));
    }
    let after = tool_credentials::revoke(&api.ctx, &asker.caller, known.id).await?;
    ok(&CredentialBody::new(api, after, asker.dialect))
}
