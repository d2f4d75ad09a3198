//! Registers routes with a server or with the OpenAPI document. The two are separate because describing costs
//! far more than serving, and a server builds one application per thread.

mod index;

use actix_web::dev::HttpServiceFactory;
use actix_web::web::ServiceConfig;
use utoipa::openapi::path::Paths;
use utoipa::openapi::{RefOr, Schema};
use utoipa_actix_web::OpenApiFactory;

pub use index::Index;

/// Destination of registered routes.
pub enum Routes<'a> {
    /// A server, which serves them.
    Served(&'a mut ServiceConfig),
    /// An index, which a server serves.
    Indexed(&'a mut Index),
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
    pub fn service<F>(&mut self, handler: F) -> &mut Self
    where
        F: HttpServiceFactory + utoipa::Path + OpenApiFactory + 'static,
    {
        match self {
            Self::Served(config) => {
                config.service(handler);
            }
            Self::Indexed(index) => index.add(handler),
            Self::Described(description) => description.add(&handler),
        }
        self
    }

    /// Registers a handler whose last parameter is the rest of the path, or that answers more methods than documented.
    pub fn service_below<F>(&mut self, handler: F) -> &mut Self
    where
        F: HttpServiceFactory + utoipa::Path + OpenApiFactory + 'static,
    {
        match self {
            Self::Indexed(index) => index.add_other(handler),
            Self::Served(_) | Self::Described(_) => {
                self.service(handler);
            }
        }
        self
    }
}

impl Description {
    fn add(&mut self, handler: &impl OpenApiFactory) {
        self.paths.merge(handler.paths());
        handler.schemas(&mut self.schemas);
    }

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
