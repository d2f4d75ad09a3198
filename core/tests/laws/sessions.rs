//! Sessions (ARCP §5 to §8): whatever a client sends, each request is answered once and by its name, nothing follows the
//! end, no event comes before its job, and numbers have no gap.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{TimeZone as _, Utc};
use entente_core::faults::Fault;
use entente_core::ids::{Chance, JobId, SessionId};
use entente_core::jobs::JobStatus;
use entente_core::jobs::wire::{Accepted, Described};
use entente_core::refusal::{Code, Refusal};
use entente_core::sessions::dialects::Dialect;
use entente_core::sessions::dialogue::{Answer, Ask, Closing, Do, Opened, Request, Terms};
use entente_core::sessions::envelope::read;
use entente_core::sessions::features::{Feature, Features};
use entente_core::sessions::lines::Numbering;
use entente_core::sessions::machine::Machine;
use entente_core::sessions::{Delivery, LAG, LINE_BYTES, Moment, What, tokens};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

struct Count(std::sync::atomic::AtomicU64);

impl Chance for Count {
    fn bits(&self) -> u128 {
        u128::from(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) * 0x9E37_79B9_7F4A_7C15
    }
}

fn chance() -> Count {
    Count(std::sync::atomic::AtomicU64::new(1))
}

fn moment(chance: &dyn Chance, millis: u64) -> Moment<'_> {
    let now = Utc.with_ymd_and_hms(2026, 11, 21, 8, 0, 0).unwrap();
    Moment { at: Duration::from_millis(millis), now, chance }
}

fn terms() -> Terms {
    Terms {
        version: "1",
        heartbeat: Duration::from_secs(30),
        resume_window: Duration::from_mins(10),
        offered: Features::all(),
        dialect: None,
        lines: false,
    }
}

fn session() -> SessionId {
    "sess_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".parse().unwrap()
}

fn job() -> JobId {
    "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".parse().unwrap()
}

fn opened(features: Features, dialect: Dialect) -> Answer {
    Answer::Opened(Box::new(Opened {
        session_id: session(),
        dialect,
        features,
        resume_token: "rt_1".to_owned(),
        agents: vec![json!({ "name": "echo", "versions": ["1"], "default": "1" })],
        last_seq: 0,
        acked: 0,
        lines: false,
    }))
}

fn accepted() -> Accepted {
    Accepted {
        job_id: job(),
        agent: "echo@1".to_owned(),
        lease: serde_json::from_value(json!({ "cost.budget": ["USD:5.00"] })).unwrap(),
        lease_constraints: None,
        budget: json!({ "USD": 5.0 }).as_object().cloned(),
        credentials: Vec::new(),
        accepted_at: "2026-11-21T08:00:00.000000Z".to_owned(),
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        parent_job_id: None,
        delegate_id: None,
        intent_id: None,
        session_id: Some(session()),
    }
}

fn described() -> Described {
    Described {
        job_id: job(),
        current_status: JobStatus::Running,
        agent: "echo@1".to_owned(),
        lease: serde_json::from_value(json!({})).unwrap(),
        lease_constraints: None,
        budget: None,
        parent_job_id: None,
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
    }
}

fn event(seq: i64, kind: &str, body: String) -> Delivery {
    let (job_id, ts) = (job(), Utc.with_ymd_and_hms(2026, 11, 21, 8, 0, 0).unwrap());
    Delivery {
        event_seq: seq,
        job_id,
        trace_id: "a".repeat(32),
        what: What::Event(kind.to_owned()),
        ts,
        body,
    }
}

fn frame(word: &str, id: &str, payload: &Value) -> String {
    json!({ "arcp": "1.1", "id": id, "type": word, "payload": payload }).to_string()
}

fn hello(features: &[&str]) -> Value {
    json!({ "auth": { "scheme": "bearer", "token": "t" }, "client": { "name": "x" },
            "capabilities": { "encodings": ["json"], "features": features } })
}

/// A machine that is open, with these features.
fn open(chance: &Count, features: &[&str]) -> Machine {
    let mut machine = Machine::new(terms(), session(), Duration::ZERO);
    let doing = machine.hear(moment(chance, 0), &frame("session.hello", "h", &hello(features)));
    let [Do::Ask(Ask::Open { request, features, dialect, .. })] = doing.as_slice() else {
        panic!("{doing:?}")
    };
    let answer = opened(*features, *dialect);
    let doing = machine.answer(moment(chance, 0), request, answer);
    assert_eq!(sent(&doing)[0]["type"], "session.welcome");
    machine
}

/// The frames among what is to be done, each looked at by the rules that all frames keep.
fn sent(doing: &[Do]) -> Vec<Value> {
    let frames = doing.iter().filter_map(|what| match what {
        Do::Send(frame) => Some(frame),
        Do::Ask(_) | Do::Close(_) => None,
    });
    frames
        .map(|frame| {
            let frame: Value = serde_json::from_str(frame).unwrap();
            assert_eq!(frame["arcp"], "1.1");
            let id = frame["id"].as_str().unwrap();
            assert!(id.starts_with("msg_") && id.len() == 30, "{id}");
            assert!(frame["session_id"].as_str().unwrap().starts_with("sess_"));
            assert!(frame["payload"].is_object());
            let numbered =
                ["job.event", "job.result", "job.error"].contains(&frame["type"].as_str().unwrap());
            assert_eq!(frame.get("event_seq").is_some(), numbered, "{frame}");
            if frame["type"] == "session.error" {
                let fault = Fault::parse(frame["payload"]["code"].as_str().unwrap()).unwrap();
                assert_eq!(frame["payload"]["retryable"], fault.retryable());
                assert!(!frame["payload"]["message"].as_str().unwrap().is_empty());
            }
            frame
        })
        .collect()
}

fn request_of(ask: &Ask) -> Option<Request> {
    match ask {
        Ask::Open { request, .. }
        | Ask::Submit { request, .. }
        | Ask::Cancel { request, .. }
        | Ask::List { request, .. }
        | Ask::Subscribe { request, .. } => Some(request.clone()),
        Ask::Unsubscribe { .. } | Ask::Acked(_) | Ask::Press { .. } => None,
    }
}

fn reply(ask: &Ask, refused: bool) -> Answer {
    if refused {
        return Answer::Refused(Refusal::new(Code::JobNotFound, "no"), None);
    }
    match ask {
        Ask::Open { features, dialect, .. } => opened(*features, *dialect),
        Ask::Submit { .. } => Answer::Accepted(Box::new(accepted())),
        Ask::Cancel { job_id, .. } => {
            Answer::Cancelled { job_id: *job_id, trace_id: "a".repeat(32), reason: None }
        }
        Ask::Subscribe { .. } => Answer::Subscribed { job: Box::new(described()), from: 0, replayed: false },
        _ => Answer::Jobs(Vec::new(), None),
    }
}

/// One step of a conversation.
#[derive(Debug, Clone)]
enum Step {
    Say(&'static str, Value),
    Raw(String),
    Tick(u64),
    /// Answers the nth question that is open.
    Reply(usize, bool),
    Event,
}

fn payloads() -> impl Strategy<Value = (&'static str, Value)> {
    let id = job().to_string();
    select(vec![
        ("session.hello", hello(&["heartbeat", "ack", "subscribe", "list_jobs", "made_up"])),
        ("session.hello", hello(&[])),
        ("session.hello", json!({})),
        ("session.resume", json!({ "session_id": "sess_x", "resume_token": "rt_x", "last_event_seq": 3 })),
        ("session.ping", json!({ "nonce": "n" })),
        ("session.pong", json!({ "ping_nonce": "n" })),
        ("session.ack", json!({ "last_processed_seq": 7 })),
        ("session.ack", json!({ "last_processed_seq": -7 })),
        ("session.list_jobs", json!({ "filter": { "status": ["running"] }, "limit": 10, "cursor": null })),
        ("session.list_jobs", json!({ "limit": 0 })),
        ("session.close", json!({})),
        ("session.bye", json!({ "reason": "x" })),
        ("job.submit", json!({ "agent": "echo", "lease_request": {} })),
        ("job.submit", json!({ "agent": 7 })),
        ("job.cancel", json!({ "job_id": id })),
        ("job.cancel", json!({ "job_id": "nonsense" })),
        ("job.subscribe", json!({ "job_id": id, "history": true, "from_event_seq": 0 })),
        ("job.subscribe", json!({})),
        ("job.unsubscribe", json!({ "job_id": id })),
        ("session.open", json!({ "auth": { "token": "t" } })),
        ("tool.invoke", json!({ "tool": "echo", "arguments": {} })),
        ("made.up", json!({ "anything": [1] })),
    ])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => payloads().prop_map(|(word, payload)| Step::Say(word, payload)),
        1 => any::<String>().prop_map(Step::Raw),
        2 => (0_u64..70_000).prop_map(Step::Tick),
        5 => (0_usize..3, prop::bool::weighted(0.2)).prop_map(|(nth, refused)| Step::Reply(nth, refused)),
        2 => Just(Step::Event),
    ]
}

proptest! {
    #[test]
    fn every_request_is_answered_once_and_nothing_follows_the_end(steps in vec(step(), 0..60)) {
        let chance = chance();
        let mut machine = Machine::new(terms(), session(), Duration::ZERO);
        let (mut open, mut answered, mut over) = (Vec::<Ask>::new(), BTreeMap::<String, usize>::new(), false);
        let (mut at, mut seq) = (0, 0);
        let asked = Cell::new(0);
        let first = Step::Say("session.hello", hello(&["heartbeat", "ack", "subscribe", "list_jobs"]));
        for step in std::iter::once(first).chain([Step::Reply(0, false)]).chain(steps) {
            let moment = moment(&chance, at);
            let doing = match step {
                Step::Say(word, payload) => {
                    asked.set(asked.get() + 1);
                    machine.hear(moment, &frame(word, &format!("r{}", asked.get()), &payload))
                }
                Step::Raw(text) => machine.hear(moment, &text),
                Step::Tick(millis) => {
                    at += millis;
                    machine.tick(moment)
                }
                Step::Reply(nth, refused) if nth < open.len() => {
                    let ask = open.remove(nth);
                    let request = request_of(&ask).unwrap();
                    let doing = machine.answer(moment, &request, reply(&ask, refused));
                    if !over && !matches!(ask, Ask::Open { .. }) {
                        let named = sent(&doing).iter().filter(|f| f["payload"]["request_id"] == request.id.as_str()).count();
                        prop_assert_eq!(named, 1, "{} got {:?}", request.id, doing);
                    }
                    doing
                }
                Step::Reply(..) => continue,
                Step::Event => {
                    seq += 1;
                    machine.deliver(moment, event(seq, "log", "{}".to_owned()))
                }
            };
            prop_assert!(!over || doing.is_empty(), "after the end came {:?}", doing);
            for frame in sent(&doing) {
                if let Some(request) = frame["payload"]["request_id"].as_str() {
                    *answered.entry(request.to_owned()).or_default() += 1;
                }
            }
            let closes = doing.iter().position(|what| matches!(what, Do::Close(_)));
            prop_assert!(closes.is_none_or(|place| place + 1 == doing.len()), "{:?}", doing);
            over = over || closes.is_some();
            prop_assert_eq!(over, machine.is_over());
            open.extend(doing.into_iter().filter_map(|what| match what {
                Do::Ask(ask) if request_of(&ask).is_some() => Some(ask),
                _ => None,
            }));
        }
        prop_assert!(answered.values().all(|times| *times == 1), "{:?}", answered);
    }

    #[test]
    fn no_text_harms_the_reader(text in any::<String>()) {
        let _either = read(&text);
    }

    #[test]
    fn no_change_of_a_lawful_frame_harms_the_reader(
        (word, payload) in payloads(),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = frame(word, "r", &payload).into_bytes();
        let place = at.index(bytes.len());
        bytes[place] = with;
        bytes.truncate(cut.index(bytes.len()) + 1);
        let chance = chance();
        if let Ok(text) = String::from_utf8(bytes) {
            let _either = read(&text);
            let mut machine = open(&chance, &["subscribe", "list_jobs", "ack", "heartbeat"]);
            sent(&machine.hear(moment(&chance, 1), &text));
        }
    }

    #[test]
    fn a_client_hears_something_every_interval_and_a_silent_one_is_left(
        interval in 1_u64..60, says in vec(0_u64..200_000, 0..8), step in 1_u64..400,
    ) {
        let chance = chance();
        let interval = interval * 1_000;
        let mut machine = Machine::new(
            Terms { heartbeat: Duration::from_millis(interval), ..terms() }, session(), Duration::ZERO);
        let doing = machine.hear(moment(&chance, 0), &frame("session.hello", "h", &hello(&["heartbeat"])));
        let Do::Ask(ask) = &doing[0] else { panic!() };
        machine.answer(moment(&chance, 0), &request_of(ask).unwrap(), reply(ask, false));
        let (mut heard, mut told) = (0, 0);
        let mut at = 0;
        while at < 300_000 {
            at += step.min(interval / 10);
            if says.iter().any(|say| (at - step.min(interval / 10)..at).contains(say)) {
                heard = at;
                machine.hear(moment(&chance, at), &frame("session.pong", "p", &json!({})));
            }
            let doing = machine.tick(moment(&chance, at));
            if doing.iter().any(|what| matches!(what, Do::Close(Closing::Silent))) {
                prop_assert!(at - heard >= 2 * interval, "left after {}", at - heard);
                break;
            }
            if !sent(&doing).is_empty() {
                told = at;
            }
            prop_assert!(at - told <= interval, "silent for {}", at - told);
            prop_assert!(at - heard < 2 * interval, "a silent client was kept for {}", at - heard);
        }
    }

    #[test]
    fn a_result_that_is_cut_is_whole_again_and_its_numbers_have_no_gap(
        lengths in vec(0_usize..150_000, 1..6), base64 in any::<bool>(), skip in 0_i64..12,
        letter in select(vec!['a', '"', 'ä', '\u{1}', '😀']),
    ) {
        let data: Vec<String> = lengths.iter().map(|length| {
            if base64 { "QUJD".repeat(length / 4) } else { letter.to_string().repeat(length / letter.len_utf8()) }
        }).collect();
        let chunks: Vec<Delivery> = data.iter().enumerate().map(|(index, data)| {
            let body = json!({ "result_id": "res_1", "chunk_seq": index, "data": data,
                "encoding": if base64 { "base64" } else { "utf8" }, "more": index + 1 < lengths.len() });
            event(i64::try_from(index).unwrap() + 1, "result_chunk", body.to_string())
        }).collect();
        let run = |skip| {
            let mut numbers = Numbering::lines(skip);
            chunks.iter().flat_map(|chunk| numbers.number(chunk.clone())).collect::<Vec<_>>()
        };
        let whole = run(0);
        let bodies: Vec<Value> = whole.iter().map(|(_, piece)| serde_json::from_str(&piece.body).unwrap()).collect();
        for (index, ((seq, piece), body)) in whole.iter().zip(&bodies).enumerate() {
            prop_assert_eq!(*seq, i64::try_from(index).unwrap() + 1);
            prop_assert_eq!(body["chunk_seq"].as_u64().unwrap(), index as u64);
            prop_assert!(piece.body.len() < LINE_BYTES - 500, "{} bytes", piece.body.len());
            prop_assert_eq!(body["more"].as_bool().unwrap(), index + 1 < whole.len());
        }
        let joined: String = bodies.iter().map(|body| body["data"].as_str().unwrap()).collect();
        prop_assert_eq!(joined, data.concat());
        let rest: Vec<(i64, String)> = run(skip).into_iter().map(|(seq, piece)| (seq, piece.body)).collect();
        let tail: Vec<(i64, String)> =
            whole.into_iter().filter(|(seq, _)| *seq > skip).map(|(seq, piece)| (seq, piece.body)).collect();
        prop_assert_eq!(rest, tail);
    }

    #[test]
    fn only_the_secret_makes_a_token(principal in "[a-z]{1,10}", other in "[a-z]{1,10}", byte in any::<prop::sample::Index>()) {
        use hmac::{Hmac, KeyInit as _, Mac as _};
        let now = Utc.with_ymd_and_hms(2026, 11, 21, 8, 0, 0).unwrap();
        let sign = |secret: &str, exp: i64| {
            let signed = format!("{principal}.{exp}");
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
            mac.update(signed.as_bytes());
            format!("{signed}.{}", entente_core::canonical::hex(&mac.finalize().into_bytes()))
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
