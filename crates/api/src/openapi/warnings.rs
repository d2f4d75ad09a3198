//! Documents the header that names the unknown members and parameters of a request (`crates/http/src/unknown.rs`).

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, OpenApi, RefOr};

use super::failures::operations;

/// The header's name, as it is documented.
const HEADER: &str = "Entente-Warning";

/// Adds the header to the successful responses of every operation with a JSON body.
pub(super) fn announce(document: &mut OpenApi) {
    let header = HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .description(Some(
            "Present if the request has names that the operation does not know: a list of structured fields (RFC 9651), such as \
             `unknown;body=\"expires_att\";near=\"expires_at\"`",
        ))
        .build();
    for item in document.paths.paths.values_mut() {
        for (_, operation) in operations(item) {
            let Some(RefOr::T(body)) = &operation.request_body else { continue };
            if !body.content.contains_key("application/json") {
                continue;
            }
            for (status, response) in &mut operation.responses.responses {
                if let RefOr::T(response) = response
                    && status.starts_with('2')
                {
                    response.headers.insert(HEADER.to_owned(), header.clone().into());
                }
            }
        }
    }
}
