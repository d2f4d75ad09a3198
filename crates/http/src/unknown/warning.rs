//! Writes the warning of unknown names: the header of a response, and the member of its JSON object.
//!
//! The header is a list of structured fields (RFC 9651) of at most about 2 KiB:
//! `unknown;body="expires_att";near="expires_at", unknown;query="limt";near="limit", unknown;more=3`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use actix_web::HttpMessage as _;
use actix_web::body::{BoxBody, MessageBody as _};
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use bytes::Bytes;
use entente_domain::refusal::FieldError;
use serde::de::IgnoredAny;

use super::{Unknown, note_parameters};

/// The header with the unknown names of the request.
const ENTENTE_WARNING: HeaderName = HeaderName::from_static("entente-warning");
/// The member with the unknown members of the request.
const WARNINGS: &str = "warnings";
/// The member of a signed object, which is not extended: a verifier may require exactly its members.
const SIGNATURE: &str = "signature";
/// Bytes after which a name is cut in the header.
const NAME_BYTES: usize = 80;

/// Names the unknown members and query parameters of the request in its response.
///
/// Lists, errors, signed objects and objects that have `warnings` of their own get the header only.
pub fn announce(mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    note_parameters(response.request());
    let unknown = response.request().extensions_mut().remove::<Unknown>();
    let Some(unknown) = unknown else { return response };
    if let Ok(value) = HeaderValue::try_from(header(&unknown)) {
        response.headers_mut().insert(ENTENTE_WARNING, value);
    }
    let media = response.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let faults = faults(&unknown);
    if faults.is_empty() || !response.status().is_success() || !media.starts_with(b"application/json") {
        return response;
    }
    response.map_body(|_head, body| match body.try_into_bytes() {
        Ok(bytes) => BoxBody::new(extended(bytes, &faults)),
        Err(body) => body,
    })
}

/// Returns the unknown members of the body as they are listed in `warnings`.
fn faults(unknown: &Unknown) -> Vec<FieldError> {
    let in_body = unknown.names.iter().filter(|name| name.loc.first().is_some_and(|part| part == "body"));
    let mut faults: Vec<FieldError> = in_body.map(|name| name.fault(" and was ignored")).collect();
    if unknown.more > 0 && !faults.is_empty() {
        let msg = format!("{} more names are unknown and were ignored.", unknown.more);
        faults.push(FieldError { kind: "unknown".to_owned(), loc: vec!["body".to_owned()], msg });
    }
    faults
}

/// Returns a JSON object with `warnings` as its last member, or the bytes as they are.
#[expect(
    clippy::zero_sized_map_values,
    reason = "only the names count, and serde reads no set from an object"
)]
fn extended(bytes: Bytes, faults: &[FieldError]) -> Bytes {
    let Ok(members) = serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(&bytes) else { return bytes };
    if members.contains_key(WARNINGS) || members.contains_key(SIGNATURE) {
        return bytes;
    }
    let (Some(end), Ok(warnings)) =
        (bytes.iter().rposition(|byte| *byte == b'}'), serde_json::to_vec(faults))
    else {
        return bytes;
    };
    let mut text = bytes[..end].to_vec();
    if !members.is_empty() {
        text.push(b',');
    }
    text.extend_from_slice(b"\"warnings\":");
    text.extend_from_slice(&warnings);
    text.push(b'}');
    text.into()
}

fn header(unknown: &Unknown) -> String {
    let mut items: Vec<String> = Vec::with_capacity(unknown.names.len() + 1);
    for name in &unknown.names {
        let part = name.loc.first().map_or("body", String::as_str);
        let mut item = format!("unknown;{part}={}", quoted(&name.path()));
        if let Some(near) = &name.near {
            let _never_fails = write!(item, ";near={}", quoted(near));
        }
        items.push(item);
    }
    if unknown.more > 0 {
        items.push(format!("unknown;more={}", unknown.more));
    }
    items.join(", ")
}

/// Returns a string of RFC 9651; characters that it cannot have are percent-encoded.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        if quoted.len() > NAME_BYTES {
            quoted.push_str("...");
            break;
        }
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            _ => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
                let _never_fails = write!(quoted, "%{byte:02X}");
            }),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::super::{LISTED, parse};
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Inner {
        #[serde(default, rename = "depth_limit", alias = "limit_of_depth")]
        _depth: Option<u8>,
    }

    #[derive(Debug, Deserialize)]
    struct Outer {
        #[serde(rename = "expires_at")]
        _expires_at: Option<String>,
        #[serde(default, rename = "items")]
        _items: Vec<Option<Inner>>,
        #[serde(rename = "raw")]
        _raw: Option<Box<serde_json::value::RawValue>>,
        #[serde(default, rename = "free")]
        _free: serde_json::Map<String, Value>,
    }

    fn unknown(body: &Value) -> Unknown {
        let mut value: Option<Outer> = None;
        parse(body.to_string().as_bytes(), &mut value).unwrap()
    }

    #[test]
    fn members_are_named_by_their_paths_with_the_nearest_known_name() {
        let body = json!({
            "expires_att": "x", "items": [{ "depth_limit": 1 }, null, { "depht_limit": 2, "zzzzz": {} }],
            "raw": { "anything": [] }, "free": { "items": { "anything": 1 } },
        });
        let expected = "unknown;body=\"expires_att\";near=\"expires_at\", \
                        unknown;body=\"items.2.depht_limit\";near=\"depth_limit\", unknown;body=\"items.2.zzzzz\"";
        assert_eq!(header(&unknown(&body)), expected);
        assert!(unknown(&json!({ "items": [{ "limit_of_depth": 1 }], "free": { "a": 1 } })).is_empty());
        let below = unknown(&json!({ "expires_att": 1 })).below(&["messages", "3"]);
        assert_eq!(header(&below), "unknown;body=\"messages.3.expires_att\";near=\"expires_at\"");
        let refusal = below.refusal();
        assert!(
            refusal.message.contains("`messages.3.expires_att` (did you mean `expires_at`?)"),
            "{refusal}"
        );
        assert_eq!(refusal.errors[0].loc, ["body", "messages", "3", "expires_att"]);
    }

    #[test]
    fn the_header_is_bounded_ascii() {
        let mut body = serde_json::Map::new();
        for n in 0..100 {
            body.insert(format!("{n}\"\\\r\n\u{7f}é{}", "💥".repeat(1_000)), Value::Null);
        }
        let found = unknown(&Value::Object(body));
        assert_eq!((found.names.len(), found.more), (LISTED, 100 - LISTED));
        let text = header(&found);
        assert!(text.len() < 2_048, "{} bytes", text.len());
        assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text}");
        assert!(text.ends_with(&format!("unknown;more={}", 100 - LISTED)), "{text}");
        assert_eq!(faults(&found).len(), LISTED + 1);
    }

    #[test]
    fn only_objects_of_ours_get_the_member() {
        let faults = faults(&unknown(&json!({ "expires_att": "x" })));
        for same in ["[1]", "7", "\"}\"", r#"{"a":1,"warnings":[]}"#, r#"{"signature":"x"}"#] {
            assert_eq!(extended(Bytes::from(same), &faults), same);
        }
        for (before, count) in [("{}", 1), (r#"{"a":{"warnings":1}}"#, 2), ("{\"a\": 1}\n", 2)] {
            let after: Value = serde_json::from_slice(&extended(Bytes::from(before), &faults)).unwrap();
            assert_eq!(after.as_object().unwrap().len(), count, "{after}");
            assert_eq!(after["warnings"][0]["pointer"], "/expires_att");
            assert!(after["warnings"][0]["msg"].as_str().unwrap().contains("`expires_at`"), "{after}");
        }
    }
}
