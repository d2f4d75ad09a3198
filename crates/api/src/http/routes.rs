//! Where the nouns put their routes: into a server, or into the document that describes them. Describing costs far more than
//! serving, and a server has as many applications as it has threads.

use actix_web::dev::HttpServiceFactory;
use actix_web::web::ServiceConfig;
use utoipa::openapi::path::Paths;
use utoipa::openapi::{RefOr, Schema};
use utoipa_actix_web::OpenApiFactory;

/// What takes routes.
pub enum Routes<'a> {
    /// A server, which answers them.
    Served(&'a mut ServiceConfig),
    /// What the OpenAPI document says of them.
    Described(&'a mut Description),
}

/// Paths and schemas of routes.
#[derive(Default)]
pub struct Description {
    /// Their paths, each with its operations.
    pub paths: Paths,
    /// The schemas that these name.
    pub schemas: Vec<(String, RefOr<Schema>)>,
}

impl Routes<'_> {
    /// Takes a handler's routes.
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
    /// What routes say of themselves, whose paths begin with `prefix`.
    pub fn of(prefix: &str, routes: impl FnOnce(&mut Routes<'_>)) -> Self {
        let mut description = Self::default();
        routes(&mut Routes::Described(&mut description));
        let paths = std::mem::take(&mut description.paths.paths);
        description.paths.paths =
            paths.into_iter().map(|(path, item)| (format!("{prefix}{path}"), item)).collect();
        description
    }
}
