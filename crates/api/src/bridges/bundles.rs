//! Endpoint that exports an intent as a bundle, over all protocols.

use actix_web::{HttpResponse, get, web};
use bytes::Bytes;
use entente_bridges::bundles;
use entente_domain::ids::IntentId;
use entente_http::body::id;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::routes::Routes;
use futures_util::stream;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(export);
}

/// Export an intent
///
/// As a bundle: lines of canonical JSON with its log, messages, jobs, money, decisions and children, as far as the caller may
/// read them; the last line is the server's attestation of all of them (DSSE, in-toto). `entente verify` checks it without a
/// server. A response that ends without that line is not whole.
#[utoipa::path(operation_id = "export_intent", tag = "intents",
    responses((status = 200, description = "The bundle", content((String = "application/x-ndjson")))))]
#[get("/intents/{intent_id}/export")]
async fn export(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let intent: IntentId = id("intent", &path)?;
    let bundle = bundles::begin(&api.ctx, &asker.caller, intent).await?;
    let body = stream::unfold(Some(bundle), move |bundle| async move {
        let mut bundle = bundle?;
        match bundle.next().await {
            Ok(lines) => lines.map(|lines| (Ok(Bytes::from(lines)), Some(bundle))),
            Err(failure) => {
                tracing::error!(error = %failure, %intent, "a bundle was not written to its end");
                Some((Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)), None))
            }
        }
    });
    Ok(HttpResponse::Ok().content_type("application/x-ndjson").streaming(body))
}
