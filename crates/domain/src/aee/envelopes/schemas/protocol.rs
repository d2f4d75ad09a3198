//! The schemas of the protocol's own intents (AEE §9.2), derived from its text.

use crate::aee::envelopes::EnvelopeType;
use crate::aee::envelopes::EnvelopeType::{Result, Task};

const PING: &str = r#"{"type":"object","additionalProperties":false}"#;
const PONG: &str = r#"{"type":"object","required":["pong"],"properties":{"pong":{"const":true}}}"#;
const HEALTH: &str = r#"{"type":"object","required":["status"],
"properties":{"status":{"enum":["healthy","degraded","unhealthy"]}}}"#;
const SPEC: &str = r#"{"type":"object","required":["aee_version"],
"properties":{"aee_version":{"type":"string"},"extensions":{"type":"array","items":{"type":"string"}}}}"#;
const LIST: &str = r#"{"type":"object","properties":{"namespace_filter":{"type":"string"}}}"#;
const LISTED: &str = r#"{"type":"object","required":["intents"],
"properties":{"intents":{"type":"array","items":{"type":"string"}}}}"#;
const FETCH: &str = r#"{"type":"object","required":["id"],"properties":{"id":{"type":"string","minLength":1},
"corr":{"type":"string"},"locator":{"type":"string"},"hash":{"type":"string"}}}"#;
const FETCHED: &str = r#"{"type":"object","required":["found"],"properties":{"found":{"type":"boolean"}}}"#;
const REFUTE: &str = r#"{"type":"object","required":["id","reason"],
"properties":{"id":{"type":"string","minLength":1},"reason":{"type":"string","minLength":1}}}"#;
const REFUTED: &str =
    r#"{"type":"object","required":["acknowledged"],"properties":{"acknowledged":{"type":"boolean"}}}"#;
const VALIDATE: &str = r#"{"type":"object","required":["intent","payload_to_validate"],
"properties":{"intent":{"type":"string","minLength":3},"payload_to_validate":{},
"type_hint":{"enum":["task","result","error"]}}}"#;
const VALIDATED: &str = r#"{"type":"object","required":["valid"],
"properties":{"valid":{"type":"boolean"},"errors":{"type":"array"}}}"#;

/// The protocol's schemas, each with its intent and type.
pub const PROTOCOL: [(&str, EnvelopeType, &str); 14] = [
    ("aee.status.ping", Task, PING),
    ("aee.status.ping", Result, PONG),
    ("aee.status.health", Task, PING),
    ("aee.status.health", Result, HEALTH),
    ("aee.spec.query", Task, PING),
    ("aee.spec.query", Result, SPEC),
    ("aee.capability.list", Task, LIST),
    ("aee.capability.list", Result, LISTED),
    ("aee.context.fetch", Task, FETCH),
    ("aee.context.fetch", Result, FETCHED),
    ("aee.context.refute", Task, REFUTE),
    ("aee.context.refute", Result, REFUTED),
    ("aee.validate.payload", Task, VALIDATE),
    ("aee.validate.payload", Result, VALIDATED),
];
