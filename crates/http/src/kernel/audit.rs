//! Endpoints for the system log (`IntentId::SYSTEM`).

use actix_web::{get, web};
use entente_kernel::audit::{chains, system_log};

use crate::body::{Limit100, Query};
use crate::caller::Asker;
use crate::error::Reply;
use crate::event::EventBody;
use crate::kernel::events::{VerificationBody, filter};
use crate::routes::Routes;
use crate::{HttpState, ok, paged_log};

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(verify);
}

/// List the events of the system log
///
/// Covers principals, keys and agents, newest first. Requires the scope `admin`.
#[utoipa::path(operation_id = "list_audit", tag = "server",
    params(("event_type" = Option<String>, Query, description = "Only events of this type"),
           ("since" = Option<String>, Query, description = "Only events after this time"), Limit100,
           ("offset" = Option<u32>, Query, description = "Number of newest events to skip; defaults to 0")),
    responses((status = 200, description = "The events", body = [EventBody],
               headers(("Entente-Has-More" = Option<String>, description = "`true` if the page was cut short because of its size"),
                       ("Entente-Deleted-Events" = Option<i64>, description = "Number of older events that retention has deleted, on the last page")))))]
#[get("/audit")]
async fn list(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let found = system_log::list(&api.ctx, &asker.caller, &filter(&query)?).await?;
    let bodies: Vec<_> = found.items.iter().map(|event| EventBody::new(event, asker.dialect)).collect();
    paged_log(&bodies, found.cut, found.large, found.deleted)
}

/// Verify the hash chain of the system log
///
/// Requires the scope `admin`.
#[utoipa::path(operation_id = "verify_audit",
    tag = "server", responses((status = 200, description = "Result of the verification", body = VerificationBody)))]
#[get("/audit/verify")]
async fn verify(api: web::Data<HttpState>, asker: Asker) -> Reply {
    ok(&VerificationBody::new(None, chains::of_system(&api.ctx, &asker.caller).await?))
}
