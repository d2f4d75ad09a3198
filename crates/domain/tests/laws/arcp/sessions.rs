//! Sessions (ARCP §5 to §8): on any input, each request is answered once and by its id, nothing follows the end, no
//! event precedes its job, and the numbers have no gaps.

mod cases;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{TimeZone as _, Utc};
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::JobStatus;
use entente_domain::arcp::jobs::wire::{Accepted, Described};
use entente_domain::arcp::sessions::dialects::Dialect;
use entente_domain::arcp::sessions::dialogue::{Answer, Ask, Closing, Do, Opened, Request, Terms};
use entente_domain::arcp::sessions::envelope::read;
use entente_domain::arcp::sessions::features::Features;
use entente_domain::arcp::sessions::lines::Numbering;
use entente_domain::arcp::sessions::machine::Machine;
use entente_domain::arcp::sessions::{Delivery, LINE_BYTES, Moment, What};
use entente_domain::ids::{Chance, JobId, SessionId};
use entente_domain::refusal::{Code, Refusal};
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
        child: None,
    }
}

fn frame(word: &str, id: &str, payload: &Value) -> String {
    json!({ "arcp": "1.1", "id": id, "type": word, "payload": payload }).to_string()
}

fn hello(features: &[&str]) -> Value {
    json!({ "auth": { "scheme": "bearer", "token": "t" }, "client": { "name": "x" },
            "capabilities": { "encodings": ["json"], "features": features } })
}

/// Returns an open session with these features.
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

/// Returns the frames among the actions, after checking the rules for all frames.
fn sent(doing: &[Do]) -> Vec<Value> {
    let frames = doing.iter().filter_map(|what| match what {
        Do::Send(frame) => Some(frame),
        Do::Ask(_) | Do::Leave | Do::Close(_) => None,
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
    /// Answers the nth open question.
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
        let mut leaving = false;
        let first = Step::Say("session.hello", hello(&["heartbeat", "ack", "subscribe", "list_jobs"]));
        for step in std::iter::once(first).chain([Step::Reply(0, false)]).chain(steps) {
            let moment = moment(&chance, at);
            let mut doing = match step {
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
            prop_assert!(!leaving || !doing.iter().any(|what| matches!(what, Do::Ask(_))), "it goes, and asks {:?}", doing);
            leaving |= doing.iter().any(|what| matches!(what, Do::Leave));
            if leaving && open.is_empty() {
                doing.extend(machine.leave(moment));
                prop_assert!(over || matches!(doing.last(), Some(Do::Close(Closing::Done))));
            }
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
            chunks.iter().flat_map(|chunk| numbers.number(chunk.clone(), Dialect::Strict)).collect::<Vec<_>>()
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
        let mut numbers = Numbering::lines(0);
        for chunk in &chunks {
            let last = numbers.number(chunk.clone(), Dialect::Strict).last().unwrap().0;
            prop_assert_eq!(numbers.delivered(chunk.event_seq), last);
        }
        for chunk in &chunks {
            prop_assert_eq!(numbers.stored(numbers.delivered(chunk.event_seq)), chunk.event_seq, "also once more were cut");
        }
    }
}
