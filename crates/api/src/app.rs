//! The application: one actix app with the routes of every interface.

use std::sync::{Arc, LazyLock};

use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::middleware::from_fn;
use actix_web::{App, web};
use entente_arcp_api::transport::socket;
use entente_http::middleware;
use entente_http::routes::{Description, Index, Routes};
use entente_http::unknown::QueryNames;

use crate::openapi::{Collected, Document};
use crate::routes::{api_routes, root};
use crate::server::oauth;
use crate::{ApiState, mcp, openapi};

static DOCUMENT: LazyLock<Document> =
    LazyLock::new(|| Document::collect([Description::of("", root), Description::of("/api/v1", api_routes)]));

/// Returns the OpenAPI document, which is the same for all servers of this program.
#[must_use]
pub fn document() -> &'static Document {
    &DOCUMENT
}

/// Returns the index of the API's routes under a prefix.
fn indexed(prefix: &'static str) -> Index {
    let mut index = Index::new(prefix);
    api_routes(&mut Routes::Indexed(&mut index));
    index
}

/// Builds the application, for the server and for tests.
pub fn application(
    api: web::Data<ApiState>,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse,
        Error = actix_web::Error,
        InitError = (),
    >,
> {
    let limit = api.limits.max_body_bytes;
    App::new()
        .app_data(web::Data::from(Arc::clone(&api.http)))
        .app_data(web::Data::from(Arc::clone(&api.a2a)))
        .app_data(web::Data::from(Arc::clone(&api.openintent)))
        .app_data(web::Data::from(Arc::clone(&api.arcp)))
        .app_data(web::Data::from(Arc::clone(&api.aee)))
        .app_data(web::Data::from(Arc::clone(&api.moments)))
        .app_data(api)
        .app_data(web::Data::<Collected>::new(&DOCUMENT))
        .app_data(QueryNames(|method, path| document().query_names(method, path)))
        .app_data(web::PayloadConfig::new(limit))
        .configure(|config| root(&mut Routes::Served(config)))
        .configure(|config| socket::routes(&mut Routes::Served(config)))
        .service(
            web::scope("/api/v1")
                .configure(|config| indexed("/api/v1").serve(config))
                .configure(openapi::routes),
        )
        .service(
            web::scope("/v1").configure(|config| indexed("/v1").serve(config)).configure(openapi::routes),
        )
        .configure(socket::slashed_route)
        .configure(openapi::routes)
        .configure(mcp::routes)
        .configure(entente_a2a_api::routes)
        .configure(oauth::routes)
        .configure(crate::web::routes)
        .default_service(web::to(openapi::unknown))
        .wrap(from_fn(middleware::pass))
}
