//! Sessions, case by case: responses before events, fences, lag, features, and the shapes of each dialect.

use std::time::Duration;

use chrono::{TimeZone as _, Utc};
use entente_domain::arcp::sessions::dialects::Dialect;
use entente_domain::arcp::sessions::dialogue::{Ask, Closing, Do, Terms};
use entente_domain::arcp::sessions::envelope::read;
use entente_domain::arcp::sessions::features::{Feature, Features};
use entente_domain::arcp::sessions::lines::Numbering;
use entente_domain::arcp::sessions::machine::Machine;
use entente_domain::arcp::sessions::{Delivery, LAG, SENT_BYTES, What, tokens};
use entente_domain::ids::JobId;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    accepted, chance, event, frame, hello, job, moment, open, opened, reply, request_of, sent, session, terms,
};

#[test]
fn events_wait_for_every_answer_that_was_asked_for_before_they_were_read() {
    let chance = chance();
    let mut machine = open(&chance, &[]);
    let before = machine.mark();
    let doing = machine.hear(moment(&chance, 1), &frame("job.submit", "s1", &json!({ "agent": "echo" })));
    let Do::Ask(first) = &doing[0] else { panic!() };
    assert!(
        machine.may_deliver(before),
        "what was read before cannot be of a job that was not asked for yet"
    );
    let mark = machine.mark();
    let doing = machine.hear(moment(&chance, 1), &frame("job.submit", "s2", &json!({ "agent": "echo" })));
    let Do::Ask(second) = &doing[0] else { panic!() };
    assert!(!machine.may_deliver(mark));
    machine.answer(moment(&chance, 1), &request_of(first).unwrap(), reply(first, false));
    assert!(machine.may_deliver(mark));
    assert!(!machine.may_deliver(machine.mark()));
    machine.answer(moment(&chance, 1), &request_of(second).unwrap(), reply(second, true));
    assert!(machine.may_deliver(machine.mark()));
}

#[test]
fn what_follows_a_subscription_waits_for_the_pong_and_not_for_ever() {
    let chance = chance();
    for (features, frames) in [(["subscribe", "heartbeat"], 2), (["subscribe", "ack"], 1)] {
        let mut machine = open(&chance, &features);
        let said = frame("job.subscribe", "s", &json!({ "job_id": job() }));
        let subscribe = |machine: &mut Machine| {
            let doing = machine.hear(moment(&chance, 0), &said);
            let Do::Ask(ask) = &doing[0] else { panic!() };
            sent(&machine.answer(moment(&chance, 0), &request_of(ask).unwrap(), reply(ask, false)))
        };
        let told = subscribe(&mut machine);
        assert_eq!(told.len(), frames);
        assert_eq!(told[0]["type"], "job.subscribed");
        assert!(!machine.may_deliver(0));
        if frames == 2 {
            let pong = json!({ "ping_nonce": told[1]["payload"]["nonce"], "received_at": 7 });
            machine.hear(moment(&chance, 3), &frame("session.pong", "p", &pong));
            assert!(machine.may_deliver(machine.mark()));
            subscribe(&mut machine);
        }
        let due = machine.next_tick().unwrap();
        assert!(due <= Duration::from_millis(250));
        machine.tick(moment(&chance, u64::try_from(due.as_millis()).unwrap()));
        assert!(machine.may_deliver(machine.mark()));
    }
}

#[test]
fn a_client_that_lags_is_told_once_and_again_after_it_caught_up() {
    let chance = chance();
    let mut machine = open(&chance, &["ack"]);
    let mut pressed = Vec::new();
    for seq in 1..=LAG * 3 {
        for what in machine.deliver(moment(&chance, 0), event(seq, "log", "{}".to_owned())) {
            if let Do::Ask(Ask::Press { lag, .. }) = what {
                pressed.push((seq, lag));
            }
        }
        if seq == LAG + 10 {
            machine.hear(moment(&chance, 0), &frame("session.ack", "a", &json!({ "last_processed_seq": 5 })));
        }
        if seq == LAG + 30 {
            let all = json!({ "last_processed_seq": 10_000 });
            machine.hear(moment(&chance, 0), &frame("session.ack", "a", &all));
        }
    }
    assert_eq!(pressed, [(LAG, LAG), (2 * LAG + 30, LAG)]);
    let mut deaf = open(&chance, &[]);
    let told = (1..200).flat_map(|seq| deaf.deliver(moment(&chance, 0), event(seq, "log", "{}".to_owned())));
    assert!(told.into_iter().all(|what| matches!(what, Do::Send(_))), "acks were not agreed on");
}

#[test]
fn a_feature_that_was_not_agreed_on_is_refused_and_the_session_lives_on() {
    let chance = chance();
    let mut machine = open(&chance, &[]);
    for (word, payload) in [("session.list_jobs", json!({})), ("job.subscribe", json!({ "job_id": job() }))] {
        let told = sent(&machine.hear(moment(&chance, 0), &frame(word, "r", &payload)));
        assert_eq!(told[0]["payload"]["code"], "INVALID_REQUEST");
        assert_eq!(told[0]["payload"]["request_id"], "r");
    }
    assert!(machine.is_open());
    assert!(Features::default().admit("log") && !Features::default().admit("progress"));
    assert!(
        Features::all().admit("result_chunk")
            && !Features::all().without(Feature::ResultChunk).admit("result_chunk")
    );
}

#[test]
fn each_dialect_gets_its_own_shapes() {
    let chance = chance();
    let ends = json!({ "final_status": "cancelled", "code": "CANCELLED", "message": "m", "retryable": false, "completed_at": "t" });
    let result = r#"{"final_status":"success","result":{"n":12345678901234567890123},"completed_at":"t"}"#;
    let cases = [
        (Dialect::Strict, json!(5.0), "cancelled", false),
        (Dialect::Ts, json!(5.0), "cancelled", false),
        (Dialect::Go, json!(5.0), "cancelled", true),
        (Dialect::Python, json!("USD:5.0"), "error", false),
    ];
    for (dialect, budget, status, output) in cases {
        let terms = Terms { dialect: Some(dialect), ..terms() };
        let mut machine = Machine::new(terms, session(), Duration::ZERO);
        let doing = machine.hear(moment(&chance, 0), &frame("session.hello", "h", &hello(&[])));
        let Do::Ask(ask) = &doing[0] else { panic!() };
        machine.answer(moment(&chance, 0), &request_of(ask).unwrap(), reply(ask, false));
        let doing = machine.hear(moment(&chance, 0), &frame("job.submit", "s", &json!({ "agent": "echo" })));
        let Do::Ask(ask) = &doing[0] else { panic!() };
        let told = sent(&machine.answer(moment(&chance, 0), &request_of(ask).unwrap(), reply(ask, false)));
        assert_eq!(told[0]["payload"]["budget"]["USD"], budget, "{dialect:?}");
        assert!(told[0]["payload"].get("session_id").is_none());
        let failed = Delivery { what: What::Error, ..event(1, "log", ends.to_string()) };
        let told = sent(&machine.deliver(moment(&chance, 0), failed));
        assert_eq!(told[0]["payload"]["final_status"], status, "{dialect:?}");
        let done = Delivery { what: What::Result, ..event(2, "log", result.to_owned()) };
        let doing = machine.deliver(moment(&chance, 0), done);
        let Do::Send(text) = &doing[0] else { panic!() };
        assert_eq!(text.contains(r#""output":{"n":12345678901234567890123}"#), output, "{dialect:?}: {text}");
        assert!(text.contains(r#""result":{"n":12345678901234567890123}"#), "letter by letter");
    }
}

#[test]
fn a_result_that_is_given_twice_is_measured_twice() {
    let chance = chance();
    for (dialect, bytes, whole) in [
        (Dialect::Strict, 900_000, true),
        (Dialect::Go, 450_000, true),
        (Dialect::Go, 600_000, false),
        (Dialect::Strict, 1_000_000, false),
    ] {
        let mut machine =
            Machine::new(Terms { dialect: Some(dialect), ..terms() }, session(), Duration::ZERO);
        let doing = machine.hear(moment(&chance, 0), &frame("session.hello", "h", &hello(&[])));
        let Do::Ask(ask) = &doing[0] else { panic!() };
        machine.answer(moment(&chance, 0), &request_of(ask).unwrap(), reply(ask, false));
        let body = json!({ "final_status": "success", "result": "r".repeat(bytes), "completed_at": "t" });
        let done = Delivery { what: What::Result, ..event(1, "log", body.to_string()) };
        let doing = machine.deliver(moment(&chance, 0), done);
        let Do::Send(text) = &doing[0] else { panic!() };
        assert!(text.len() <= SENT_BYTES, "{dialect:?}: {} bytes", text.len());
        let told = sent(&doing).remove(0);
        assert_eq!(told["payload"].get("result").is_some(), whole, "{dialect:?} {bytes}");
        assert_eq!(told["payload"].get("result_id").is_some(), !whole, "{dialect:?} {bytes}");
    }
}

#[test]
fn chunks_are_cut_alike_in_what_is_new_and_in_a_history_between() {
    let other: JobId = "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5G".parse().unwrap();
    let mut numbers = Numbering::lines(0);
    let mut stored = 0;
    // Returns the positions of a chunk's pieces; a long chunk is cut into three.
    let mut places = |job_id, chunk: u32, long: bool| -> Vec<u64> {
        stored += 1;
        let data = "x".repeat(if long { 150_000 } else { 10 });
        let body = json!({ "result_id": "res_1", "chunk_seq": chunk, "data": data, "encoding": "utf8", "more": chunk < 3 });
        let event = Delivery { job_id, ..event(stored, "result_chunk", body.to_string()) };
        let pieces = numbers.number(event, Dialect::Strict);
        pieces
            .iter()
            .map(|(_, p)| serde_json::from_str::<Value>(&p.body).unwrap()["chunk_seq"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(places(job(), 0, true), [0, 1, 2]);
    assert_eq!(places(job(), 1, true), [3, 4, 5]);
    // Another job's result with the same name starts at its own first position.
    assert_eq!(places(other, 0, false), [0]);
    assert_eq!(places(other, 1, false), [1]);
    // The history of the first job, interleaved with its new chunks.
    assert_eq!(places(job(), 0, true), [0, 1, 2]);
    assert_eq!(places(job(), 2, false), [6]);
    assert_eq!(places(job(), 1, true), [3, 4, 5]);
    assert_eq!(places(job(), 3, true), [7, 8, 9]);
    assert_eq!(places(job(), 2, false), [6]);
}

#[test]
fn what_is_quoted_in_an_answer_is_short() {
    let chance = chance();
    let mut machine = open(&chance, &["heartbeat"]);
    let long = "ä".repeat(200_000);
    for (word, payload) in [
        ("job.submit", json!({ "agent": "echo", "lease_request": long })),
        ("session.ack", json!({ "last_processed_seq": long })),
        ("session.ping", json!({ "nonce": long })),
        ("session.pong", json!({ "ping_nonce": [long] })),
    ] {
        let doing = machine.hear(moment(&chance, 0), &frame(word, "r", &payload));
        let told = sent(&doing).remove(0);
        assert_eq!(told["payload"]["code"], "INVALID_REQUEST", "{word}");
        assert!(told.to_string().len() < 2_000, "{word}: {} bytes", told.to_string().len());
    }
    let told = sent(
        &machine.hear(moment(&chance, 0), &frame("session.ping", "r", &json!({ "nonce": "n".repeat(256) }))),
    );
    assert_eq!(told[0]["payload"]["ping_nonce"], "n".repeat(256));
}

#[test]
fn who_closes_is_first_answered_what_it_has_asked() {
    let chance = chance();
    for (word, last) in [("session.close", Some("session.closed")), ("session.bye", None)] {
        let mut machine = open(&chance, &[]);
        let doing = machine.hear(moment(&chance, 0), &frame("job.submit", "s", &json!({ "agent": "echo" })));
        let Do::Ask(ask) = &doing[0] else { panic!() };
        let doing = machine.hear(moment(&chance, 0), &frame(word, "c", &json!({})));
        assert!(matches!(doing.as_slice(), [Do::Leave]), "{doing:?}");
        assert!(!machine.listens() && !machine.may_deliver(machine.mark()));
        assert!(
            machine
                .hear(moment(&chance, 0), &frame("job.submit", "s", &json!({ "agent": "echo" })))
                .is_empty()
        );
        let told = sent(&machine.answer(moment(&chance, 0), &request_of(ask).unwrap(), reply(ask, false)));
        assert_eq!(told[0]["type"], "job.accepted");
        let doing = machine.leave(moment(&chance, 0));
        assert_eq!(sent(&doing).first().map(|frame| frame["type"].as_str().unwrap()), last);
        assert!(matches!(doing.last(), Some(Do::Close(Closing::Done))) && machine.is_over());
    }
}

#[test]
fn clients_are_told_by_their_first_frame() {
    let python = json!({ "auth": { "token": "t" }, "capabilities": { "features": [], "agents": [] } });
    let uuid = "01932c07-5b3a-7c3e-8f5d-1b2a3c4d5e6f";
    let cases = [
        (frame("session.hello", "01M7YDNZV40ZF2RZXFVRE9ZEAC", &python), Dialect::Python),
        (frame("session.hello", uuid, &hello(&[])), Dialect::Go),
        (frame("session.hello", "msg_01M7YDNZV40ZF2RZXFVRE9ZEAC", &hello(&[])), Dialect::Strict),
        (frame("session.open", "msg_x", &json!({})), Dialect::Legacy),
    ];
    for (text, dialect) in cases {
        assert_eq!(Dialect::recognise(&read(&text).unwrap()), dialect, "{text}");
    }
}

/// ARCP §10: after the event of the delegation, without a sequence number and without a request id. The Python SDK
/// does not get it, because it would take it for the response to its own submit.
#[test]
fn a_childs_acceptance_follows_its_delegation() {
    for (dialect, told) in
        [(Dialect::Strict, true), (Dialect::Ts, true), (Dialect::Go, true), (Dialect::Python, false)]
    {
        let chance = chance();
        let mut machine =
            Machine::new(Terms { dialect: Some(dialect), ..terms() }, session(), Duration::ZERO);
        let doing = machine.hear(moment(&chance, 0), &frame("session.hello", "h", &hello(&[])));
        let Do::Ask(ask) = &doing[0] else { panic!() };
        machine.answer(moment(&chance, 0), &request_of(ask).unwrap(), opened(Features::all(), dialect));
        let delegate = event(1, "delegate", r#"{"child_job_id":"x"}"#.to_owned());
        let doing =
            machine.deliver(moment(&chance, 0), Delivery { child: Some(Box::new(accepted())), ..delegate });
        let frames = sent(&doing);
        let words: Vec<&Value> = frames.iter().map(|frame| &frame["type"]).collect();
        let both = [json!("job.event"), json!("job.accepted")];
        assert_eq!(words, both[..if told { 2 } else { 1 }].iter().collect::<Vec<_>>(), "{dialect:?}");
        if told {
            let said = &frames[1]["payload"];
            assert_eq!(
                (&said["job_id"], said.get("request_id"), frames[1].get("event_seq")),
                (&json!(job()), None, None)
            );
            assert!(said.get("session_id").is_none() && said.get("credentials").is_none());
        }
    }
}

#[test]
fn the_older_protocol_is_spoken_as_far_as_it_goes() {
    let chance = chance();
    let mut machine = Machine::new(terms(), session(), Duration::ZERO);
    let opening = json!({ "auth": { "scheme": "bearer", "token": "t" }, "client": { "kind": "rsprobe" } });
    let doing = machine.hear(moment(&chance, 0), &frame("session.open", "msg_1", &opening));
    let Do::Ask(ask) = &doing[0] else { panic!() };
    let told = sent(&machine.answer(moment(&chance, 0), &request_of(ask).unwrap(), reply(ask, false)));
    assert_eq!(told[0]["type"], "session.accepted");
    assert_eq!(told[0]["correlation_id"], "msg_1");
    assert!(told[0]["timestamp"].is_string());
    let invoke = json!({ "tool": "echo", "arguments": { "a": 1 } });
    let doing = machine.hear(moment(&chance, 0), &frame("tool.invoke", "msg_2", &invoke));
    let Do::Ask(ask) = &doing[0] else { panic!() };
    machine.answer(moment(&chance, 0), &request_of(ask).unwrap(), reply(ask, false));
    assert!(sent(&machine.deliver(moment(&chance, 0), event(1, "log", "{}".to_owned()))).is_empty());
    let body = r#"{"final_status":"success","result":{"a":1}}"#.to_owned();
    let doing = machine.deliver(moment(&chance, 0), Delivery { what: What::Result, ..event(2, "log", body) });
    let Do::Send(text) = &doing[0] else { panic!() };
    let told: Value = serde_json::from_str(text).unwrap();
    assert_eq!((&told["type"], &told["correlation_id"]), (&json!("job.completed"), &json!("msg_2")));
    assert_eq!(told["payload"]["value"], json!({ "a": 1 }));
}

proptest! {
    #[test]
    fn only_the_secret_makes_a_token(principal in "[a-z]{1,10}", other in "[a-z]{1,10}", byte in any::<prop::sample::Index>()) {
        use hmac::{Hmac, KeyInit as _, Mac as _};
        let now = Utc.with_ymd_and_hms(2026, 11, 21, 8, 0, 0).unwrap();
        let sign = |secret: &str, exp: i64| {
            let signed = format!("{principal}.{exp}");
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
            mac.update(signed.as_bytes());
            format!("{signed}.{}", entente_domain::canonical::hex(&mac.finalize().into_bytes()))
        };
        let good = sign("secret", now.timestamp() + 1);
        prop_assert_eq!(tokens::vouched(&good, "secret", now).unwrap().principal, principal.clone());
        prop_assert_eq!(tokens::vouched(&sign("secret", now.timestamp()), "secret", now), None);
        prop_assert_eq!(tokens::vouched(&sign(&other, now.timestamp() + 9), "secret", now).is_some(), other == "secret");
        prop_assert_eq!(tokens::vouched(&sign("", now.timestamp() + 9), "", now), None);
        let mut forged = good.clone().into_bytes();
        let at = byte.index(forged.len());
        forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
        prop_assert_eq!(tokens::vouched(std::str::from_utf8(&forged).unwrap(), "secret", now), None);
    }
}
