//! Bridges: the ids of their products are derived from the source, and the products satisfy the rules of the other
//! side.

use entente_domain::aee::envelopes::{EnvelopeType, ID_BYTES};
use entente_domain::arcp::jobs::ask::RUNTIME_SECONDS;
use entente_domain::bridges::{
    Bridge, Export, Input, answer, check_name, envelope_id, input, key, made_by, mirrored, named_intent,
    runtime, trace_id,
};
use entente_domain::limits::IDEMPOTENCY_KEY_BYTES;
use entente_domain::openintent::messages::MessageType;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::any::{at, json, moment};

proptest! {
    #[test]
    fn an_id_is_made_of_what_it_stands_for(salt in any::<[u8; 16]>(), one in ".{1,40}", other in ".{1,40}", when in moment()) {
        let id = envelope_id(&salt, &one, when);
        prop_assert_eq!(id.len(), 26);
        prop_assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        prop_assert_eq!(&id, &envelope_id(&salt, &one, when));
        prop_assert_eq!(id == envelope_id(&salt, &other, when), one == other);
        let mut salted = salt;
        salted[0] ^= 1;
        prop_assert_ne!(&id, &envelope_id(&salted, &one, when));
        prop_assert!(id < envelope_id(&salt, &other, when + chrono::TimeDelta::milliseconds(1)), "they sort by age");
    }

    #[test]
    fn a_job_has_as_long_as_somebody_waits(came in 0..i64::from(u32::MAX), micros in 0..200_000_000_000_000_i64) {
        let came = at(came * 1_000_000);
        let end = came + chrono::TimeDelta::microseconds(micros);
        let seconds = runtime(came, Some(end)).unwrap();
        prop_assert!((1..=i64::from(RUNTIME_SECONDS)).contains(&seconds));
        if seconds < i64::from(RUNTIME_SECONDS) {
            prop_assert!(seconds * 1_000_000 + 1_000 >= micros && (seconds - 1) * 1_000_000 <= micros);
        }
        prop_assert_eq!(runtime(came, None), None);
    }

    #[test]
    fn a_result_is_a_payload(result in json()) {
        let body = json!({ "final_status": "success", "result": result, "completed_at": "2026-11-21T08:00:00Z" });
        let (kind, payload) = answer("job_1", "job.result", None, &body.to_string()).unwrap().unwrap();
        prop_assert_eq!(kind, EnvelopeType::Result);
        prop_assert!(payload.is_object());
        let said = if result.is_object() { &payload } else { &payload["value"] };
        prop_assert_eq!(said, &result);
    }

    #[test]
    fn what_is_carried_is_not_changed(payload in json().prop_filter("an object", Value::is_object), n in any::<u32>()) {
        let body = format!("{{ \"id\" : \"x{n}\",  \"payload\" :{payload} , \"x\":1e2}}");
        let (part, whole) = (input(Input::Payload, &body).unwrap(), input(Input::Envelope, &body).unwrap());
        prop_assert_eq!(part.get(), payload.to_string());
        prop_assert_eq!(whole.get(), &body);
        let message = mirrored(&body).unwrap();
        prop_assert!(message.as_str().contains(&body));
    }

    #[test]
    fn a_key_is_one_that_jobs_and_messages_can_be_kept_under(name in "[a-z0-9][a-z0-9._-]{0,63}", id in "[!-~]{8,128}") {
        prop_assert!(check_name(&name).is_ok());
        prop_assert!(key(&name, &id).len() <= IDEMPOTENCY_KEY_BYTES && id.len() <= ID_BYTES);
    }

    #[test]
    fn a_thread_has_one_trace(corr in ".{8,40}", other in ".{8,40}", stated in "[0-9a-fA-F]{32}", odd in ".{0,31}") {
        let own = trace_id(None, &corr);
        prop_assert!(entente_domain::log::events::check_trace_id(&own).is_ok());
        prop_assert_eq!(&own, &trace_id(Some(&odd), &corr), "a trace that is none does not count");
        prop_assert_eq!(&own, &trace_id(Some("00000000000000000000000000000000"), &corr));
        prop_assert_eq!(own == trace_id(None, &other), corr == other);
        prop_assume!(stated.bytes().any(|digit| digit != b'0'));
        prop_assert_eq!(trace_id(Some(&stated), &corr), stated.to_ascii_lowercase());
    }

    #[test]
    fn a_task_names_an_intent_in_one_place_only(value in json(), text in "[a-z_0-9]{0,12}") {
        let named = |entente: Value| named_intent(&json!({ "entente": entente, "intent_id": "x" }).to_string());
        prop_assert_eq!(named(json!({ "intent_id": text })), Some(text));
        let none = value.get("intent_id").is_none_or(Value::is_null);
        prop_assert_eq!(named(value.clone()).is_none(), none, "{}", value);
        prop_assert_eq!(named_intent(&value.to_string()).is_none(), value.pointer("/entente/intent_id").is_none());
    }

    #[test]
    fn no_metadata_is_too_odd(metadata in json()) {
        let named = metadata.get("bridge").and_then(Value::as_str).map(str::to_owned);
        prop_assert_eq!(made_by(&metadata.to_string()), named);
    }
}

#[test]
fn what_is_the_agents_own_affair_stays_there() {
    let told = |kind: &str| answer("job_1", "job.event", Some(kind), "{}").unwrap().map(|(kind, _)| kind);
    for kind in ["status", "progress", "log"] {
        assert_eq!(told(kind), Some(EnvelopeType::Stream), "{kind}");
    }
    for kind in ["thought", "tool_call", "tool_result", "metric", "delegate", "result_chunk", "x-vendor.a.b"]
    {
        assert_eq!(told(kind), None, "{kind}");
    }
    let error = json!({
        "final_status": "timed_out", "code": "TIMEOUT", "message": "too long", "retryable": false,
        "completed_at": "2026-11-21T08:00:00Z",
    });
    let (kind, payload) = answer("job_1", "job.error", None, &error.to_string()).unwrap().unwrap();
    assert_eq!(
        (kind, &payload["code"], &payload["retryable"]),
        (EnvelopeType::Error, &json!("TIMEOUT"), &json!(false))
    );
    let streamed = json!({
        "final_status": "success", "result_id": "res_1", "result_size": 9, "completed_at": "2026-11-21T08:00:00Z",
    });
    let (_, payload) = answer("job_1", "job.result", None, &streamed.to_string()).unwrap().unwrap();
    assert_eq!((&payload["result_id"], &payload["result_size"]), (&json!("res_1"), &json!(9)));
}

#[test]
fn a_message_becomes_what_it_is_for() {
    use EnvelopeType::{Event, Result, Task};
    assert_eq!(Export::kind(MessageType::Request, false), Task);
    assert_eq!(Export::kind(MessageType::Response, true), Result);
    for kind in [MessageType::Response, MessageType::Notify, MessageType::Broadcast] {
        assert_eq!(Export::kind(kind, false), Event, "{kind:?}");
    }
}

#[test]
fn a_bridge_is_read_strictly() {
    let channel = "chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F";
    let lawful = [
        json!({ "kind": "jobs", "entity": "agent.x", "intents": ["ops.**"], "agent": "x@1.0.0" }),
        json!({ "kind": "jobs", "entity": "urn:x", "intents": ["**"], "agent": "x", "lease": {}, "input": "envelope" }),
        json!({
            "kind": "jobs", "entity": "agent.x", "intents": ["**"], "agent": "x", "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F",
        }),
        json!({ "kind": "mirror", "entity": "agent.x", "channel_id": channel }),
        json!({ "kind": "mirror", "bus": "bus.x", "channel_id": channel }),
        json!({ "kind": "export", "to": "bus.x", "intent": "talk.said", "channel_id": channel }),
    ];
    for one in lawful {
        let read: Bridge = serde_json::from_value(one.clone()).unwrap();
        assert_eq!(read.check(), Ok(()), "{one}");
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(serde_json::from_value::<Bridge>(written).unwrap(), read);
        let mut more: Map<String, Value> = one.as_object().unwrap().clone();
        more.insert("nonsense".to_owned(), json!(1));
        assert!(
            serde_json::from_value::<Bridge>(Value::Object(more)).is_err(),
            "{one} with a member of nobody's"
        );
    }
    for name in ["", "-a", "A", "a b", &"a".repeat(65), "ä"] {
        assert!(check_name(name).is_err(), "{name}");
    }
}
