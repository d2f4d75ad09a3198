//! Each field of an envelope separately (AEE §3, §6): its valid values, its limits and its faults.

use entente_domain::aee::envelopes::{EnvelopeType, Priority, Warning, is_bus};
use entente_domain::clock::rfc3339;
use entente_domain::refusal::Code;
use serde_json::{Value, json};

use super::{accepted, at_fault, refused, remarked, sample, with};

const TASK: EnvelopeType = EnvelopeType::Task;

#[test]
fn the_version_is_the_text_1() {
    for other in [json!("2"), json!(1), json!("1.0"), json!(""), json!(null), json!(["1"])] {
        at_fault(with(TASK, "v", other), Code::UnsupportedVersion, "v unsupported_version");
    }
    at_fault(super::without(TASK, "v"), Code::UnsupportedVersion, "v missing");
}

#[test]
fn an_id_has_8_to_128_printable_characters() {
    at_fault(with(TASK, "id", json!("1234567")), Code::InvalidEnvelope, "id too_short");
    at_fault(with(TASK, "id", json!("x".repeat(129))), Code::InvalidEnvelope, "id too_long");
    at_fault(with(TASK, "id", json!("ids with blanks")), Code::InvalidEnvelope, "id characters");
    at_fault(with(TASK, "id", json!("äääääääää")), Code::InvalidEnvelope, "id characters");
    at_fault(with(TASK, "id", json!("line\nfeed-and-more")), Code::InvalidEnvelope, "id control");
    remarked(with(TASK, "id", json!("12345678")), &[Warning::IdNotUlidOrUuid]);
    remarked(with(TASK, "id", json!("x".repeat(128))), &[Warning::IdNotUlidOrUuid]);
    for good in ["01JFB2R1JZKQ9V3K8W8Y9W1F2A", "0192f0c1-7a3e-7cc3-98c4-dc0c0c07398f"] {
        remarked(with(TASK, "id", json!(good)), &[]);
    }
}

#[test]
fn a_time_is_read_with_offsets_and_fractions() {
    let times = [
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00.000000Z"),
        ("2026-11-21T12:00:00+02:00", "2026-11-21T10:00:00.000000Z"),
        ("2026-11-21T10:00:00.123456Z", "2026-11-21T10:00:00.123456Z"),
        ("2026-11-21T10:00:00.123456789Z", "2026-11-21T10:00:00.123456Z"),
        ("2026-11-21T10:00:00", "2026-11-21T10:00:00.000000Z"),
    ];
    for (written, meant) in times {
        let envelope = accepted(with(TASK, "ts", json!(written)));
        assert_eq!((rfc3339(envelope.sent_at.unwrap()).as_str(), envelope.ts.as_str()), (meant, written));
        assert_eq!(envelope.warnings, []);
    }
    for odd in ["2026-11-21", "not a date", "2026-13-21T10:00:00Z", "yesterday at noon"] {
        assert_eq!(accepted(with(TASK, "ts", json!(odd))).sent_at, None);
        remarked(with(TASK, "ts", json!(odd)), &[Warning::TsUnparseable]);
    }
    at_fault(with(TASK, "ts", json!("2026-11-2")), Code::InvalidEnvelope, "ts too_short");
    at_fault(with(TASK, "ts", json!(1_763_719_200)), Code::InvalidEnvelope, "ts string_type");
}

#[test]
fn there_are_five_types_and_four_priorities() {
    for kind in EnvelopeType::ALL {
        assert_eq!(accepted(sample(kind)).kind, kind);
        assert_eq!(EnvelopeType::parse(kind.as_str()), Some(kind));
        assert_eq!(json!(kind), kind.as_str());
    }
    for priority in Priority::ALL {
        assert_eq!(accepted(with(TASK, "priority", json!(priority))).priority, priority);
        assert_eq!(Priority::parse(priority.as_str()), Some(priority));
    }
    for wrong in [json!("Task"), json!("critical"), json!(""), json!(null), json!(1), json!("HIGH")] {
        at_fault(with(TASK, "type", wrong.clone()), Code::InvalidEnvelope, "type enum");
        at_fault(with(TASK, "priority", wrong), Code::InvalidEnvelope, "priority enum");
    }
}

#[test]
fn names_have_a_length_and_no_control_characters() {
    for (name, least, most) in
        [("from", 1, 200), ("to", 1, 200), ("intent", 3, 200), ("corr", 8, 128), ("ts", 10, 200)]
    {
        let text = |length: usize| with(TASK, name, json!("n".repeat(length)));
        at_fault(text(least - 1), Code::InvalidEnvelope, &format!("{name} too_short"));
        at_fault(text(most + 1), Code::InvalidEnvelope, &format!("{name} too_long"));
        accepted(text(least));
        accepted(text(most));
        let control = with(TASK, name, json!("log\u{1b}[31m injection"));
        at_fault(control, Code::InvalidEnvelope, &format!("{name} control"));
        at_fault(with(TASK, name, Value::Null), Code::InvalidEnvelope, &format!("{name} string_type"));
    }
    // Characters, not bytes, as the schema counts.
    accepted(with(TASK, "corr", json!("ääääääää")));
    at_fault(with(TASK, "corr", json!("äääääää")), Code::InvalidEnvelope, "corr too_short");
}

#[test]
fn any_text_names_an_entity_and_bus_names_are_channels() {
    for name in ["urn:x", "human.ada", "agent.a", "x", "Größe/2", "partner.eu.billing"] {
        assert!(!accepted(with(TASK, "to", json!(name))).is_broadcast());
        assert_eq!(accepted(with(TASK, "from", json!(name))).sender, name);
    }
    assert!(accepted(with(TASK, "to", json!("bus.alerts"))).is_broadcast());
    assert!(is_bus("bus.a.b") && !is_bus("bus.") && !is_bus("bus") && !is_bus("omnibus.a"));
}

#[test]
fn a_result_or_error_names_its_task() {
    for kind in EnvelopeType::ALL {
        for (value, fault) in [
            (json!(null), "reply_to missing"),
            (json!("1234567"), "reply_to too_short"),
            (json!(7), "reply_to string_type"),
        ] {
            if kind.is_terminal() || value == json!(7) {
                at_fault(with(kind, "reply_to", value), Code::InvalidEnvelope, fault);
            } else {
                accepted(with(kind, "reply_to", value));
            }
        }
        let set = with(kind, "reply_to", json!("12345678"));
        remarked(set, if kind.is_terminal() { &[] } else { &[Warning::ReplyToShouldBeNull] });
    }
}

#[test]
fn a_trace_has_texts_of_any_form_and_needs_none() {
    // §3.1 requires no member of it.
    for good in [
        json!(null),
        json!({}),
        json!({ "trace_id": "a" }),
        json!({ "span_id": "b", "flags": 1 }),
        json!({ "trace_id": "", "span_id": "x", "flags": 1 }),
    ] {
        remarked(with(TASK, "trace", good), &[]);
    }
    for bad in [
        json!({ "trace_id": 1, "span_id": "b" }),
        json!({ "trace_id": null }),
        json!({ "trace_id": "a", "span_id": {} }),
        json!([]),
        json!("9f3c"),
    ] {
        at_fault(with(TASK, "trace", bad), Code::InvalidEnvelope, "trace object_type");
    }
}

#[test]
fn the_payload_is_an_object_and_a_signature_of_three_kinds() {
    for bad in [json!([]), json!("text"), json!(null), json!(3), json!(true)] {
        at_fault(with(TASK, "payload", bad), Code::InvalidEnvelope, "payload object_type");
    }
    for bad in [json!([]), json!(3), json!(false)] {
        at_fault(with(TASK, "sig", bad.clone()), Code::InvalidEnvelope, "sig type");
        at_fault(with(TASK, "requires", bad), Code::InvalidEnvelope, "requires object_type");
    }
    for good in [json!({}), json!("opaque"), json!(null)] {
        accepted(with(TASK, "sig", good));
    }
    at_fault(with(TASK, "requires", json!("soon")), Code::InvalidEnvelope, "requires object_type");
}

/// AEE §6.7, §3.1: unknown fields are kept and have no effect, whatever their names are.
#[test]
fn unknown_fields_are_kept_and_mean_nothing() {
    let plain = accepted(sample(TASK));
    for (name, value) in
        [("ttl", json!(0)), ("To", json!("agent.evil")), ("", json!([{}])), ("x", json!(null))]
    {
        let mut odd = accepted(with(TASK, name, value.clone()));
        assert_eq!(odd.members.remove(name), Some(value));
        assert_eq!(odd, plain);
    }
}

#[test]
fn references_to_envelopes_have_an_id() {
    let task = |reference: Value| with(TASK, "payload", json!({ "references": [{}, reference] }));
    let good = json!({
        "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "type": "aee.envelope", "corr": null, "hash": "sha256:a1b2", "more": 1,
    });
    let envelope = accepted(task(good.clone()));
    assert_eq!(envelope.references.len(), 1);
    assert_eq!(envelope.references[0].hash.as_deref(), Some("sha256:a1b2"));
    for (name, value, fault) in [
        ("id", json!(null), "id missing"),
        ("id", json!("short"), "id missing"),
        ("hash", json!(7), "hash string_type"),
        ("locator", json!({}), "locator string_type"),
        ("corr", json!([]), "corr string_type"),
    ] {
        let mut bad = good.clone();
        bad[name] = value;
        at_fault(task(bad), Code::InvalidEnvelope, &format!("payload/references/1/{fault}"));
    }
    // References to other systems are ignored.
    for other in [json!({ "type": "doi", "id": 7 }), json!("see above"), json!({ "id": 1 })] {
        assert_eq!(accepted(task(other)).references, []);
    }
    for other in [json!("none"), json!({ "type": "aee.envelope" }), json!(null)] {
        assert_eq!(accepted(with(TASK, "payload", json!({ "references": other }))).references, []);
    }
}

#[test]
fn a_refusal_says_how_many_faults_there_are() {
    assert!(refused(with(TASK, "corr", json!("1234567"))).message.contains("`corr` must have at least 8"));
    let mut two = with(TASK, "corr", json!("1234567"));
    two.insert("to".to_owned(), json!(""));
    assert!(refused(two).message.contains("in 2 places"));
}
