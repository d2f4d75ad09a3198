//! An index over the routes of the API. actix tries routes in order, and matches each path with parameters by a regular
//! expression, with an allocation for its captures, whether it matches or not (docs/adr/0024-routes-by-segments.md). The
//! index compares segments, and lets actix try the one route that fits.
//!
//! A scope without a prefix costs actix a comparison of strings. Each noun (the first segment) has such a scope with a guard, and
//! within it each route has one.

use actix_web::dev::{HttpServiceFactory, Url};
use actix_web::guard::{GuardContext, fn_guard};
use actix_web::http::{Method, Uri};
use actix_web::web::{self, ServiceConfig};
use utoipa::openapi::HttpMethod;

/// Registers one route with a scope.
type Registration = Box<dyn FnOnce(&mut ServiceConfig)>;

/// Routes under a prefix, by noun.
pub struct Index {
    prefix: &'static str,
    /// Nouns in the order in which their first routes were added, so the frequent ones come first.
    nouns: Vec<Noun>,
}

struct Noun {
    name: String,
    routes: Vec<(Shape, Registration)>,
    /// Routes that the index does not know the shape of; tried last.
    others: Vec<Registration>,
}

/// Methods and path of the requests that match a route.
struct Shape {
    methods: Vec<Method>,
    /// Segments of the path below the prefix; `None` for a parameter.
    segments: Vec<Option<String>>,
}

impl Index {
    /// Creates an index of routes under a prefix, such as `/api/v1`.
    #[must_use]
    pub const fn new(prefix: &'static str) -> Self {
        Self { prefix, nouns: Vec::new() }
    }

    /// Adds a handler with one path and documented methods.
    pub(super) fn add<F: HttpServiceFactory + utoipa::Path + 'static>(&mut self, handler: F) {
        let path = F::path();
        let shape = Shape {
            methods: F::methods().iter().map(method).collect(),
            segments: segments(&path)
                .map(|segment| (!segment.contains('{')).then(|| segment.to_owned()))
                .collect(),
        };
        self.noun(&path).routes.push((shape, registration(handler)));
    }

    /// Adds a handler whose last parameter is the rest of the path, or that answers more methods than documented.
    pub(super) fn add_other<F: HttpServiceFactory + utoipa::Path + 'static>(&mut self, handler: F) {
        self.noun(&F::path()).others.push(registration(handler));
    }

    fn noun(&mut self, path: &str) -> &mut Noun {
        let name = segments(path).next().unwrap_or_default();
        let index = self.nouns.iter().position(|noun| noun.name == name).unwrap_or_else(|| {
            self.nouns.push(Noun { name: name.to_owned(), routes: Vec::new(), others: Vec::new() });
            self.nouns.len() - 1
        });
        &mut self.nouns[index]
    }

    /// Registers all routes with the scope of the prefix.
    pub fn serve(self, config: &mut ServiceConfig) {
        let prefix = self.prefix;
        for Noun { name, routes, others } in self.nouns {
            let of_noun = fn_guard(move |context| {
                below(context, prefix, |path| segments(path).next() == Some(name.as_str()))
            });
            config.service(web::scope("").guard(of_noun).configure(|config| {
                for (shape, register) in routes {
                    let fits = fn_guard(move |context| shape.fits(context, prefix));
                    config.service(web::scope("").guard(fits).configure(register));
                }
                others.into_iter().for_each(|register| register(config));
            }));
        }
    }
}

impl Shape {
    fn fits(&self, context: &GuardContext<'_>, prefix: &str) -> bool {
        self.methods.contains(&context.head().method) && below(context, prefix, |path| self.covers(path))
    }

    fn covers(&self, path: &str) -> bool {
        let mut given = segments(path);
        let all = self.segments.iter().all(|expected| {
            given.next().is_some_and(|given| expected.as_ref().is_none_or(|expected| expected == given))
        });
        all && given.next().is_none()
    }
}

/// Segments of a path that begins with a slash.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}

/// Judges the path below a prefix, as the router reads it.
fn below(context: &GuardContext<'_>, prefix: &str, judge: impl FnOnce(&str) -> bool) -> bool {
    let uri: &Uri = &context.head().uri;
    let judge = |path: &str| path.strip_prefix(prefix).is_some_and(judge);
    // The router decodes percent signs where it may; a path without them is as it reads it.
    if uri.path().contains('%') { judge(Url::new(uri.clone()).path()) } else { judge(uri.path()) }
}

fn registration<F: HttpServiceFactory + 'static>(handler: F) -> Registration {
    Box::new(move |config| {
        config.service(handler);
    })
}

fn method(method: &HttpMethod) -> Method {
    match method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Delete => Method::DELETE,
        HttpMethod::Options => Method::OPTIONS,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Trace => Method::TRACE,
    }
}
