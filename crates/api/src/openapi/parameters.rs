//! Describes path parameters, and lists query parameters for the check of requests. The generator takes their names and types from the routes and the handlers, and lists
//! them after the parameters that an operation declares itself.

use std::collections::HashMap;

use actix_web::http::Method;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};

use super::failures::operations;

/// The paths of webhooks, whose senders may send any query: the triggers' templates can use it.
const HOOKS: &str = "/api/v1/hooks/";

/// Describes the path parameters that have no description of their own, and lists all of them first, in the order of
/// the path.
pub(super) fn describe(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        for (_, operation) in operations(item) {
            let Some(parameters) = &mut operation.parameters else { continue };
            for parameter in &mut *parameters {
                if let RefOr::T(parameter) = parameter
                    && parameter.parameter_in == ParameterIn::Path
                    && parameter.description.is_none()
                {
                    parameter.description = meaning(&parameter.name);
                }
            }
            parameters.sort_by_key(|parameter| {
                let RefOr::T(parameter) = parameter else { return usize::MAX };
                if parameter.parameter_in != ParameterIn::Path {
                    return usize::MAX;
                }
                path.find(&format!("{{{}}}", parameter.name)).unwrap_or(usize::MAX)
            });
        }
    }
}

/// Returns the description of a path parameter: an id names its noun, unless the API calls that noun otherwise.
fn meaning(name: &str) -> Option<String> {
    let text = match name {
        "approval_id" => "The request",
        "coordinator_id" => "The appointment",
        "entity" => "Entity that owns the mailbox",
        "file" => "File name: `{intent}.{task|result|error}.schema.json`",
        "key_id" => "Id of the key's record",
        "memory_id" => "The entry",
        "tool_credential_id" => "The credential",
        _ => return name.strip_suffix("_id").map(|noun| format!("The {noun}")),
    };
    Some(text.to_owned())
}

/// Returns the query parameters of each operation, by path and method.
pub(super) fn of_queries(document: &mut OpenApi) -> HashMap<String, Vec<(Method, Vec<String>)>> {
    let paths = document.paths.paths.iter_mut().filter(|(path, _)| !path.starts_with(HOOKS));
    let each = paths.map(|(path, item)| {
        let names = operations(item).map(|(method, operation)| (method, query_names(operation)));
        (path.clone(), names.collect())
    });
    each.collect()
}

fn query_names(operation: &Operation) -> Vec<String> {
    let parameters = operation.parameters.iter().flatten();
    let in_query = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => Some(parameter.name.clone()),
        _ => None,
    });
    in_query.collect()
}
