//! Registers routes with a server or with the OpenAPI document. The two are separate because describing costs
//! far more than serving, and a server builds one application per thread.

use actix_web::dev::HttpServiceFactory;
use actix_web::web::ServiceConfig;
use utoipa::openapi::path::Paths;
use utoipa::openapi::{RefOr, Schema};
use utoipa_actix_web::OpenApiFactory;

/// Destination of registered routes.
pub enum Routes<'a> {
    /// A server, which serves them.
    Served(&'a mut ServiceConfig),
    /// The OpenAPI document, which describes them.
    Described(&'a mut Description),
}

/// The OpenAPI description of routes.
#[derive(Default)]
pub struct Description {
    /// Paths, each with its operations.
    pub paths: Paths,
    /// Schemas that the operations refer to.
    pub schemas: Vec<(String, RefOr<Schema>)>,
}

impl Routes<'_> {
    /// Registers a handler's routes.
    pub fn service<F: HttpServiceFactory + OpenApiFactory + 'static>(&mut self, handler: F) -> &mut Self {
        match self {
            Self::Served(config) => {
                config.service(handler);
            }
            Self::Described(description) => {
                description.paths.merge(handler.paths());
                handler.schemas(&mut description.schemas);
            }
        }
        self
    }
}

impl Description {
    /// Returns the description of the registered routes, with `prefix` before each path.
    pub fn of(prefix: &str, routes: impl FnOnce(&mut Routes<'_>)) -> Self {
        let mut description = Self::default();
        routes(&mut Routes::Described(&mut description));
        let paths = std::mem::take(&mut description.paths.paths);
        description.paths.paths =
            paths.into_iter().map(|(path, item)| (format!("{prefix}{path}"), item)).collect();
        description
    }
}
