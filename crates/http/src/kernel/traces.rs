//! Trace routes (RFC-0020).

use actix_web::{get, web};
use entente_kernel::audit::traces;

use crate::body::{Limit100, Query};
use crate::caller::Asker;
use crate::error::Reply;
use crate::event::EventBody;
use crate::routes::Routes;
use crate::{HttpState, paged};

pub fn routes(config: &mut Routes<'_>) {
    config.service(list);
}

/// List a trace's events
///
/// Returns the trace's events on every intent that the caller can read, oldest first. An event belongs to the
/// trace of the request that recorded it (header `traceparent`), or to the trace that it was posted with. Events that
/// retention has deleted are not listed; if it deletes some between two pages, `offset` counts without them.
#[utoipa::path(operation_id = "list_trace", tag = "intents",
    params(("trace_id" = String, Query, description = "Trace id: 32 hexadecimal digits"), Limit100,
           ("offset" = Option<u32>, Query, description = "Number of oldest events to skip; defaults to 0")),
    responses((status = 200, description = "The events", body = [EventBody],
               headers(("Entente-Has-More" = Option<String>, description = "`true` if the page was cut short because of its size")))))]
#[get("/events")]
async fn list(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let trace_id = query.text("trace_id");
    let found = traces::list(&api.ctx, &asker.caller, trace_id, query.limit(100)?, query.offset()?).await?;
    let bodies: Vec<_> = found.items.iter().map(|event| EventBody::new(event, asker.dialect)).collect();
    paged(&bodies, found.cut, found.large)
}
