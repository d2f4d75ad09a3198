//! Routes of vaults (RFC-0014).

use actix_web::{HttpRequest, HttpResponse, delete, get, post, web};
use entente_domain::ids::{ToolCredentialId, VaultId};
use entente_domain::keys::Dialect;
use entente_kernel::vaults::{self, Shown};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{Body, id};
use super::caller::Asker;
use super::error::{ProblemBody, Reply};
use super::wire::WireTime;
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(create).service(list).service(get_one).service(remove);
}

/// A vault.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Vault)]
struct VaultBody {
    /// Its id.
    id: VaultId,
    /// Who puts credentials in and grants their use.
    #[schema(example = "agent.researcher")]
    owner_id: String,
    /// What it is called.
    #[schema(example = "research services")]
    name: String,
    /// The credentials in it that were not revoked, the oldest first; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<Vec<ToolCredentialId>>,
    /// When it was made.
    created_at: WireTime,
}

impl VaultBody {
    fn new(shown: Shown, dialect: Dialect) -> Self {
        let Shown { vault, credentials } = shown;
        Self {
            id: vault.id,
            owner_id: vault.owner_id,
            name: vault.name,
            credentials: Some(credentials),
            created_at: WireTime::new(vault.created_at, dialect),
        }
    }
}

/// What a vault is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewVault, example = json!({ "owner_id": "agent.researcher", "name": "research services" }))]
struct NewVaultBody {
    /// Whose; the acting agent's when nothing is said.
    owner_id: Option<String>,
    /// What it is called.
    name: String,
}

/// Make a vault
///
/// Where credentials of services are kept that agents use and never see. Refused while the server has no key to seal them
/// with.
#[utoipa::path(operation_id = "create_vault", tag = "tools", request_body = NewVaultBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The vault", body = VaultBody),
              (status = 422, description = "The server has no key, or there are too many vaults", body = ProblemBody)))]
#[post("/vaults")]
async fn create(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    body: Body<NewVaultBody>,
) -> Reply {
    let once = body.once(&request)?;
    let NewVaultBody { owner_id, name } = body.value;
    let made = vaults::create(&doors.ctx, &asker.caller, owner_id.as_deref(), &name, once.as_ref()).await?;
    ok(&VaultBody::new(made, asker.dialect))
}

/// List one's vaults
///
/// Those of the acting agent, the oldest first: all of them, an owner has a hundred at the most.
#[utoipa::path(operation_id = "list_vaults", tag = "tools",
    responses((status = 200, description = "The vaults, without what is in them", body = [VaultBody])))]
#[get("/vaults")]
async fn list(doors: web::Data<Doors>, asker: Asker) -> Reply {
    let found = vaults::list(&doors.ctx, &asker.caller).await?;
    let body = |vault| VaultBody {
        credentials: None,
        ..VaultBody::new(Shown { vault, credentials: Vec::new() }, asker.dialect)
    };
    ok(&found.into_iter().map(body).collect::<Vec<_>>())
}

/// Get a vault
///
/// For its owner, and for admins.
#[utoipa::path(operation_id = "get_vault", tag = "tools", params(("vault_id" = String, Path, description = "The vault")),
    responses((status = 200, description = "The vault", body = VaultBody)))]
#[get("/vaults/{vault_id}")]
async fn get_one(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = vaults::get(&doors.ctx, &asker.caller, id("vault", &path)?).await?;
    ok(&VaultBody::new(found, asker.dialect))
}

/// Remove a vault
///
/// Its credentials are revoked, their secrets are gone, and all that was granted of them is taken back, at once.
#[utoipa::path(operation_id = "remove_vault", tag = "tools", params(("vault_id" = String, Path, description = "The vault")),
    responses((status = 204, description = "It is gone")))]
#[delete("/vaults/{vault_id}")]
async fn remove(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    vaults::remove(&doors.ctx, &asker.caller, id("vault", &path)?).await?;
    Ok(HttpResponse::NoContent().finish())
}
