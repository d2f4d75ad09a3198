//! Normalises schemas for generated clients: one object in place of `allOf`, and optional request bodies.
//!
//! An object without declared members accepts any (`additionalProperties: true`), because some generators
//! treat it as empty. An `allOf` with a closed part (`additionalProperties: false`) accepts nothing, because
//! each part refuses the members of the others. And an optional body is not a body that may be `null`.

use utoipa::openapi::schema::{AdditionalProperties, AllOf, ArrayItems, Object, Schema, SchemaType, Type};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr};

use super::failures::operations;

/// The schemas of the document, by name.
type Known = std::collections::BTreeMap<String, RefOr<Schema>>;

/// Normalises all schemas of the document.
pub(super) fn straighten(document: &mut OpenApi) {
    let schemas = &mut document.components.get_or_insert_default().schemas;
    name_variants(schemas);
    let known = schemas.clone();
    schemas.values_mut().for_each(|schema| straight(schema, &known));
    for item in document.paths.paths.values_mut() {
        for (_, operation) in operations(item) {
            if let Some(RefOr::T(body)) = &mut operation.request_body {
                body.content.values_mut().for_each(|content| {
                    of_content(content, |schema| {
                        present(schema);
                        straight(schema, &known);
                    });
                });
            }
            for response in operation.responses.responses.values_mut() {
                let RefOr::T(response) = response else { continue };
                response.content.values_mut().for_each(|content| {
                    of_content(content, |schema| straight(schema, &known));
                });
            }
        }
    }
}

/// Turns each variant of a tagged union into a named schema that includes the tag.
///
/// Generators find no good names for nested schemas. A variant's schema must have no other use.
fn name_variants(schemas: &mut Known) {
    let known = schemas.clone();
    let mut named = Vec::new();
    for schema in schemas.values_mut() {
        let RefOr::T(Schema::OneOf(either)) = schema else { continue };
        for item in &mut either.items {
            let RefOr::T(Schema::AllOf(parts)) = item else { continue };
            let [RefOr::Ref(variant), _tag] = parts.items.as_slice() else { continue };
            let variant = variant.clone();
            let (Some(name), Some(whole)) = (name(&variant), joined(parts, &known)) else { continue };
            named.push((name.to_owned(), RefOr::T(Schema::Object(whole))));
            *item = RefOr::Ref(variant);
        }
    }
    schemas.extend(named);
}

/// Returns the name of the referenced schema.
fn name(reference: &Ref) -> Option<&str> {
    reference.ref_location.strip_prefix("#/components/schemas/")
}

fn of_content(content: &mut RefOr<Content>, straighten: impl Fn(&mut RefOr<Schema>)) {
    if let RefOr::T(content) = content {
        content.schema.iter_mut().for_each(straighten);
    }
}

/// Removes the `null` alternative from a request body's schema: `Option<T>` means that the body may be
/// omitted, not that it may be `null`.
fn present(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::OneOf(either)) = schema else { return };
    either.items.retain(|item| {
        !matches!(item, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null))
    });
    if let [_only] = either.items.as_slice()
        && let Some(only) = either.items.pop()
    {
        *schema = only;
    }
}

fn straight(schema: &mut RefOr<Schema>, known: &Known) {
    let RefOr::T(schema) = schema else { return };
    if let Schema::AllOf(parts) = schema
        && let Some(whole) = joined(parts, known)
    {
        *schema = Schema::Object(whole);
    }
    match schema {
        Schema::Object(object) => {
            if is_free(object) {
                object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(true)));
            }
            object.properties.values_mut().for_each(|property| straight(property, known));
            if let Some(AdditionalProperties::RefOr(more)) = object.additional_properties.as_deref_mut() {
                straight(more, known);
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                straight(items, known);
            }
        }
        Schema::OneOf(either) => either.items.iter_mut().for_each(|item| straight(item, known)),
        Schema::AnyOf(any) => any.items.iter_mut().for_each(|item| straight(item, known)),
        Schema::AllOf(all) => all.items.iter_mut().for_each(|item| straight(item, known)),
        _ => {}
    }
}

/// Returns whether the schema is an object without any declared members.
fn is_free(object: &Object) -> bool {
    let is_object = match &object.schema_type {
        SchemaType::Type(kind) => *kind == Type::Object,
        SchemaType::Array(kinds) => kinds.contains(&Type::Object),
        SchemaType::AnyValue => false,
    };
    is_object && object.properties.is_empty() && object.additional_properties.is_none()
}

/// Returns one object with the members of all parts; `None` if a part is not an object.
fn joined(parts: &AllOf, known: &Known) -> Option<Object> {
    let mut whole = Object::default();
    for part in &parts.items {
        let part = object(part, known)?;
        whole.properties.extend(part.properties);
        whole.required.extend(part.required);
        whole.additional_properties = whole.additional_properties.or(part.additional_properties);
        whole.description = whole.description.or(part.description);
    }
    whole.required.sort_unstable();
    whole.required.dedup();
    whole.schema_type = SchemaType::Type(Type::Object);
    whole.title.clone_from(&parts.title);
    whole.description = parts.description.clone().or(whole.description);
    whole.example.clone_from(&parts.example);
    Some(whole)
}

fn object(part: &RefOr<Schema>, known: &Known) -> Option<Object> {
    match part {
        RefOr::Ref(reference) => object(known.get(name(reference)?)?, known),
        RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Object) => {
            Some(object.clone())
        }
        RefOr::T(Schema::AllOf(parts)) => joined(parts, known),
        RefOr::T(_) => None,
    }
}
