//! The application: one actix app with the routes of every interface, in the order in which the router tries them.

use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::middleware::from_fn;
use actix_web::{App, web};

use crate::arcp::socket;
use crate::http::routes::Routes;
use crate::http::{ApiState, api_routes, middleware, openapi, root};
use crate::mcp;

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
        .app_data(api)
        .app_data(web::PayloadConfig::new(limit))
        .configure(|config| root(&mut Routes::Served(config)))
        .configure(|config| socket::routes(&mut Routes::Served(config)))
        .service(web::scope("/api/v1").configure(|config| api_routes(&mut Routes::Served(config))))
        .service(web::scope("/v1").configure(|config| api_routes(&mut Routes::Served(config))))
        .route("/arcp/", web::get().to(socket::slashed))
        .configure(openapi::routes)
        .configure(mcp::routes)
        .configure(crate::web::routes)
        .default_service(web::to(openapi::unknown))
        .wrap(from_fn(middleware::pass))
}
