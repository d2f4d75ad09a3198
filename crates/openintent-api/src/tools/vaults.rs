//! Vault routes (RFC-0014).

use actix_web::{HttpRequest, HttpResponse, delete, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{ToolCredentialId, VaultId};
use entente_http::body::{Body, IdempotencyKey, id};
use entente_http::caller::Asker;
use entente_http::error::{ProblemBody, Reply};
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_openintent::tools::vaults;
use entente_openintent::tools::vaults::VaultView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(create).service(list).service(get_one).service(remove);
}

/// A vault.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Vault)]
struct VaultBody {
    /// Vault id.
    id: VaultId,
    /// Agent that owns the vault: it stores credentials and grants their use.
    #[schema(example = "agent.researcher")]
    owner_id: String,
    /// Name of the vault.
    #[schema(example = "research services")]
    name: String,
    /// The credentials that are not revoked, oldest first; omitted in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<Vec<ToolCredentialId>>,
    /// When the vault was created.
    created_at: WireTime,
}

impl VaultBody {
    fn new(shown: VaultView, dialect: Dialect) -> Self {
        let VaultView { vault, credentials } = shown;
        Self {
            id: vault.id,
            owner_id: vault.owner_id,
            name: vault.name,
            credentials: Some(credentials),
            created_at: WireTime::new(vault.created_at, dialect),
        }
    }
}

/// A vault to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewVault, example = json!({ "owner_id": "agent.researcher", "name": "research services" }))]
struct NewVaultBody {
    /// Agent that owns the vault; defaults to the acting agent.
    owner_id: Option<String>,
    /// Name of the vault.
    name: String,
}

/// Create a vault
///
/// A vault holds credentials of services that agents use but never see. Refused while the server has no key
/// to seal them with.
#[utoipa::path(operation_id = "create_vault", tag = "tools", request_body = NewVaultBody, params(IdempotencyKey),
    responses((status = 200, description = "The vault", body = VaultBody),
              (status = 422, description = "The server has no key to seal with, or the owner has the maximum number of vaults", body = ProblemBody)))]
#[post("/vaults")]
async fn create(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<NewVaultBody>,
) -> Reply {
    let once = body.once(&request)?;
    let NewVaultBody { owner_id, name } = body.value;
    let made = vaults::create(&api.ctx, &asker.caller, owner_id.as_deref(), &name, once.as_ref()).await?;
    ok(&VaultBody::new(made, asker.dialect))
}

/// List the caller's vaults
///
/// Returns all vaults of the acting agent, oldest first; an owner has at most a hundred.
#[utoipa::path(operation_id = "list_vaults", tag = "tools",
    responses((status = 200, description = "The vaults, without their contents", body = [VaultBody])))]
#[get("/vaults")]
async fn list(api: web::Data<ApiState>, asker: Asker) -> Reply {
    let found = vaults::list(&api.ctx, &asker.caller).await?;
    let body = |vault| VaultBody {
        credentials: None,
        ..VaultBody::new(VaultView { vault, credentials: Vec::new() }, asker.dialect)
    };
    ok(&found.into_iter().map(body).collect::<Vec<_>>())
}

/// Get a vault
///
/// Allowed for the vault's owner and for admins.
#[utoipa::path(operation_id = "get_vault", tag = "tools",
    responses((status = 200, description = "The vault", body = VaultBody)))]
#[get("/vaults/{vault_id}")]
async fn get_one(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = vaults::get(&api.ctx, &asker.caller, id("vault", &path)?).await?;
    ok(&VaultBody::new(found, asker.dialect))
}

/// Remove a vault
///
/// Immediately revokes its credentials, discards their secrets and withdraws all grants of them.
#[utoipa::path(operation_id = "remove_vault", tag = "tools",
    responses((status = 204, description = "Removed")))]
#[delete("/vaults/{vault_id}")]
async fn remove(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    vaults::remove(&api.ctx, &asker.caller, id("vault", &path)?).await?;
    Ok(HttpResponse::NoContent().finish())
}
