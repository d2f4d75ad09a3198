//! The three examples of the draft (AEE §3, §4), verbatim, and the five values that its schema accepts although
//! they are wrong.

use entente_domain::aee::envelopes::{EnvelopeType, Priority, Warning, read};
use entente_domain::refusal::Code;
use serde_json::{Value, json};

use super::{at_fault, faults, refused, remarked, with};

const TASK: &str = r#"{
  "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "ts": "2025-12-14T03:45:12Z", "type": "task",
  "from": "agent.manager", "to": "agent.backup_auditor", "intent": "ops.backup.status.check",
  "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW", "reply_to": null,
  "trace": {"trace_id": "9f3c", "span_id": "a12b"}, "priority": "high",
  "requires": {"timeout_ms": 30000, "evidence": true, "human_approval": false},
  "payload": {"cluster": "node.lan", "window": "24h"}, "sig": null
}"#;

const RESULT: &str = r#"{
  "v": "1", "id": "01JFB2S7T8N4J8B7QH1GJ8Z1Y2", "ts": "2025-12-14T03:45:20Z", "type": "result",
  "from": "agent.backup_auditor", "to": "agent.manager", "intent": "ops.backup.status.check",
  "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW", "reply_to": "01JFB2R1JZKQ9V3K8W8Y9W1F2A",
  "trace": {"trace_id": "9f3c", "span_id": "b77c"}, "priority": "high", "requires": {"evidence": true},
  "payload": {
    "status": "PARTIAL_FAILURE", "failed": [{"node": "pve02", "reason": "connection_refused:8007"}],
    "confidence": 0.96, "evidence_refs": ["log:pbs01:job/2025-12-14T02:00Z"]
  },
  "sig": null
}"#;

const ERROR: &str = r#"{
  "v": "1", "id": "01JFB2T3W9H0J1FQWQ7B2M3D5E", "ts": "2025-12-14T03:45:21Z", "type": "error",
  "from": "agent.backup_auditor", "to": "agent.manager", "intent": "ops.backup.status.check",
  "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW", "reply_to": "01JFB2R1JZKQ9V3K8W8Y9W1F2A",
  "trace": {"trace_id": "9f3c", "span_id": "c01d"}, "priority": "high", "requires": {"evidence": true},
  "payload": {
    "code": "E_TIMEOUT", "message": "PBS API did not respond within 30s", "retryable": true, "backoff_ms": 60000,
    "evidence_refs": ["tcp:pve02->pbs01:8007"]
  },
  "sig": null
}"#;

#[test]
fn the_examples_of_the_draft_are_accepted_without_a_remark() {
    for (text, kind) in
        [(TASK, EnvelopeType::Task), (RESULT, EnvelopeType::Result), (ERROR, EnvelopeType::Error)]
    {
        let envelope = read(text.as_bytes()).unwrap();
        assert_eq!((envelope.kind, &envelope.warnings[..]), (kind, &[][..]));
        assert_eq!(Value::from(envelope.members), serde_json::from_str::<Value>(text).unwrap());
    }
}

#[test]
fn an_envelope_is_understood_as_the_draft_means_it() {
    let task = read(TASK.as_bytes()).unwrap();
    assert_eq!((task.sender.as_str(), task.recipient.as_str()), ("agent.manager", "agent.backup_auditor"));
    assert_eq!((task.purpose.as_str(), task.priority), ("ops.backup.status.check", Priority::High));
    assert_eq!((task.requires.timeout_ms, task.requires.human_approval), (Some(30_000), false));
    assert_eq!(
        (task.reply_to.as_deref(), task.trace.as_ref().unwrap().trace_id.as_deref()),
        (None, Some("9f3c"))
    );
    assert_eq!(task.payload(), &json!({ "cluster": "node.lan", "window": "24h" }));
    assert!(task.sig().is_none() && !task.is_broadcast());
    let result = read(RESULT.as_bytes()).unwrap();
    assert_eq!((result.reply_to.as_deref(), &result.corr), (Some(task.id.as_str()), &task.corr));
    assert!(result.sent_at > task.sent_at);
}

/// The placeholders of the draft's examples: ids that are no ULIDs are valid.
#[test]
fn an_id_of_any_form_is_an_id() {
    remarked(
        with(EnvelopeType::Task, "id", json!("01EXAMPLE_TASK_0000000000001")),
        &[Warning::IdNotUlidOrUuid],
    );
}

/// The gateway judges the values that the schema accepts (AEE-W-2).
#[test]
fn what_the_schema_lets_through_is_remarked_upon() {
    remarked(with(EnvelopeType::Task, "ts", json!("not a date")), &[Warning::TsUnparseable]);
    remarked(with(EnvelopeType::Task, "reply_to", json!("x")), &[Warning::ReplyToShouldBeNull]);
    remarked(with(EnvelopeType::Task, "requires", json!({ "timeout_ms": "soon" })), &[Warning::RequiresType]);
    remarked(with(EnvelopeType::Task, "requires", json!({ "min_confidence": 7 })), &[Warning::RequiresType]);
    remarked(
        with(EnvelopeType::Event, "reply_to", json!("01JFB2R1JZKQ9V3K8W8Y9W1F2A")),
        &[Warning::ReplyToShouldBeNull],
    );
}

/// All faults at once (AEE §6.1), so that a sender needs only one attempt to see them.
#[test]
fn every_fault_is_named_at_once() {
    let refusal = refused(super::object(json!({})));
    let all: Vec<String> = super::FIELDS
        .iter()
        .filter(|name| !OPTIONAL.contains(*name))
        .map(|n| format!("{n} missing"))
        .collect();
    assert_eq!((refusal.code, faults(&refusal)), (Code::UnsupportedVersion, all));
    let wrong = json!({
        "v": "1", "id": "short", "ts": "2026", "type": "Task", "from": "", "to": 7, "intent": "a", "corr": null,
        "reply_to": [], "trace": "x", "priority": "critical", "requires": 1, "payload": [], "sig": 0,
    });
    let refusal = refused(super::object(wrong));
    let named: std::collections::BTreeSet<&str> =
        refusal.errors.iter().map(|error| error.loc[1].as_str()).collect();
    assert_eq!(named.len(), 13, "{refusal:?}");
    assert_eq!(refusal.code, Code::InvalidEnvelope);
}

const OPTIONAL: [&str; 4] = ["reply_to", "trace", "requires", "sig"];

#[test]
fn each_of_the_ten_is_needed_and_none_of_the_four() {
    for kind in EnvelopeType::ALL {
        for name in super::FIELDS {
            let members = super::without(kind, name);
            if name == "v" {
                at_fault(members, Code::UnsupportedVersion, "v missing");
            } else if OPTIONAL.contains(&name) && !(name == "reply_to" && kind.is_terminal()) {
                remarked(members, &[]);
            } else {
                at_fault(members, Code::InvalidEnvelope, &format!("{name} missing"));
            }
        }
    }
}
