//! Jobs (ARCP §7, §8.4, §12): terminal states are final, a version resolves to one agent version, and chunks arrive
//! in order.

mod ask;
mod ends;
mod labels;
mod limits;
mod reruns;
mod retries;

use entente_domain::arcp::chunks::{CHUNK_BYTES, Chunk, ChunkFault, Encoding, Streamed, end, take};
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::events::{self, Kind, encoded_as};
use entente_domain::arcp::jobs::{JobStatus, Transition, transition};
use entente_domain::arcp::versions::{AgentRef, Versions, resolve};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

fn change() -> impl Strategy<Value = Transition> {
    let fault = select(Fault::ALL).prop_map(Transition::Failed);
    prop_oneof![Just(Transition::Claimed), Just(Transition::Returned), Just(Transition::Finished), fault]
}

fn chunk(result_id: &str, chunk_seq: u32, more: bool) -> Chunk<'_> {
    Chunk { result_id, chunk_seq, encoding: Encoding::Utf8, written: 10, decoded: 10, empty: false, more }
}

fn encoding() -> impl Strategy<Value = Encoding> {
    select(vec![Encoding::Utf8, Encoding::Base64])
}

proptest! {
    #[test]
    fn an_end_is_an_end(changes in vec(change(), 0..20)) {
        let (mut status, mut ends) = (JobStatus::Pending, 0);
        for change in changes {
            let Some(next) = transition(status, change) else { continue };
            prop_assert!(!status.is_terminal(), "{status:?} went on with {change:?}");
            ends += usize::from(next.is_terminal());
            status = next;
        }
        prop_assert!(ends <= 1);
    }

    #[test]
    fn a_whole_stream_is_taken_and_ends(count in 1_u32..50) {
        let mut streamed: Option<Streamed> = None;
        for seq in 0..count {
            prop_assert_eq!(end(streamed.as_ref(), Some("res_1"), None).is_ok(), false, "before its last chunk");
            streamed = Some(take(streamed.as_ref(), chunk("res_1", seq, seq + 1 < count)).unwrap());
        }
        let streamed = streamed.as_ref();
        prop_assert_eq!(end(streamed, Some("res_1"), Some(u64::from(count) * 10)), Ok(()));
        prop_assert_eq!(end(streamed, None, None), Err(ChunkFault::Mixed));
        let other = Err(ChunkFault::OtherSize { said: 1, got: u64::from(count) * 10 });
        prop_assert_eq!(end(streamed, Some("res_1"), Some(1)), other);
        prop_assert_eq!(take(streamed, chunk("res_1", count, false)), Err(ChunkFault::Complete));
    }

    #[test]
    fn only_the_next_chunk_is_taken(next in 0_u32..100, got in 0_u32..100) {
        let so_far = Streamed { result_id: "r".into(), encoding: Encoding::Utf8, next, bytes: 0, complete: false };
        prop_assert_eq!(take(Some(&so_far), chunk("r", got, true)).is_ok(), next == got);
    }

    #[test]
    fn an_empty_last_chunk_ends_a_stream_in_whichever_encoding(
        of_stream in encoding(), says in encoding(), empty in any::<bool>(), more in any::<bool>(), count in 1_u32..20,
    ) {
        let mut streamed: Option<Streamed> = None;
        for seq in 0..count {
            let part = Chunk { encoding: of_stream, ..chunk("r", seq, true) };
            streamed = Some(take(streamed.as_ref(), part).unwrap());
        }
        let decoded = if empty { 0 } else { 10 };
        let closing = Chunk { encoding: says, decoded, empty, ..chunk("r", count, more) };
        let taken = take(streamed.as_ref(), closing);
        if says == of_stream || (empty && !more) {
            let taken = taken.unwrap();
            prop_assert_eq!((taken.encoding, taken.complete), (of_stream, !more), "the stream keeps its encoding");
            prop_assert_eq!(taken.bytes, u64::from(count) * 10 + decoded as u64);
        } else {
            prop_assert_eq!(taken, Err(ChunkFault::OtherEncoding));
        }
    }

    #[test]
    fn a_body_changes_its_encoding_and_nothing_else(data in any::<String>(), says in encoding(), becomes in encoding()) {
        let mut body = json!({ "result_id": "r", "chunk_seq": 3, "data": data, "encoding": says.as_str(), "more": false, "x": [1] });
        let changed = encoded_as(&body.to_string(), becomes).unwrap();
        body["encoding"] = json!(becomes.as_str());
        prop_assert_eq!(serde_json::from_str::<Value>(&changed).unwrap(), body);
    }

    #[test]
    fn a_name_comes_back(name in "[a-z0-9][a-z0-9._-]{0,20}", version in proptest::option::of("[a-zA-Z0-9.+_-]{1,20}")) {
        let text = version.as_ref().map_or(name.clone(), |version| format!("{name}@{version}"));
        prop_assert_eq!(AgentRef::parse(&text).unwrap().to_string(), text);
    }
}

#[test]
fn a_chunk_is_taken_for_what_it_is() {
    let so_far = take(None, chunk("r", 0, true)).unwrap();
    assert_eq!(take(Some(&so_far), chunk("s", 1, true)), Err(ChunkFault::OtherResult("r".into())));
    let base64 = Chunk { encoding: Encoding::Base64, ..chunk("r", 1, true) };
    assert_eq!(take(Some(&so_far), base64), Err(ChunkFault::OtherEncoding));
    let large = Chunk { written: CHUNK_BYTES + 1, ..chunk("r", 1, true) };
    assert_eq!(take(Some(&so_far), large), Err(ChunkFault::TooLarge));
    assert_eq!(end(None, Some("r"), None), Err(ChunkFault::Mixed));
    assert_eq!(end(None, None, None), Ok(()));
}

#[test]
fn a_chunk_may_be_as_large_as_the_limit_says() {
    let taken = |bytes: usize| {
        let body = json!({
            "result_id": "r".repeat(200), "chunk_seq": 0, "data": "x".repeat(bytes), "encoding": "utf8", "more": true,
        });
        let body = serde_json::value::to_raw_value(&body).unwrap();
        let meaning = events::check(0, Kind::ResultChunk, &body).unwrap();
        take(None, meaning.chunk().unwrap())
    };
    assert!(taken(CHUNK_BYTES).is_ok(), "what is beside the data does not count");
    assert_eq!(taken(CHUNK_BYTES + 1), Err(ChunkFault::TooLarge));
}

#[test]
fn a_job_gets_one_version() {
    let known = |registered: &[&str], default: Option<&str>| Versions {
        registered: registered.iter().map(|version| (*version).to_owned()).collect(),
        default: default.map(str::to_owned),
    };
    let asked = |text: &str| AgentRef::parse(text).unwrap();
    let two = known(&["1.0.0", "2.0.0"], Some("1.0.0"));
    assert_eq!(resolve(&asked("echo"), Some(&two)), Ok("1.0.0".to_owned()));
    assert_eq!(resolve(&asked("echo@2.0.0"), Some(&two)), Ok("2.0.0".to_owned()));
    assert_eq!(resolve(&asked("echo@3"), Some(&two)), Err(Fault::AgentVersionNotAvailable));
    assert_eq!(resolve(&asked("echo"), Some(&known(&["1", "2"], None))), Ok("2".to_owned()));
    assert_eq!(resolve(&asked("echo"), Some(&known(&[], None))), Err(Fault::AgentNotAvailable));
    assert_eq!(resolve(&asked("echo@1"), None), Err(Fault::AgentNotAvailable));
    assert!(
        asked("echo").names("echo@1") && asked("echo@1").names("echo@1") && !asked("echo@2").names("echo@1")
    );
    for text in ["", "Echo", "-echo", "echo@", "echo@1@2", "e cho", "echo@1/2", "é"] {
        assert_eq!(AgentRef::parse(text), None, "{text}");
    }
    assert!(AgentRef::parse("7zip").is_some() && AgentRef::parse("v@1.0.0+b1").is_some());
}

#[test]
fn faults_end_jobs_as_the_taxonomy_says() {
    let ended = |fault| transition(JobStatus::Running, Transition::Failed(fault)).unwrap();
    assert_eq!(ended(Fault::Cancelled), JobStatus::Cancelled);
    assert_eq!(ended(Fault::Timeout), JobStatus::TimedOut);
    assert_eq!(
        (ended(Fault::LeaseExpired), ended(Fault::BudgetExhausted)),
        (JobStatus::Error, JobStatus::Error)
    );
    assert!(
        Fault::InternalError.retryable()
            && !Fault::LeaseExpired.retryable()
            && !Fault::BudgetExhausted.retryable()
    );
    assert_eq!(Fault::ALL.len(), 15);
    assert!(Fault::ALL.iter().all(|fault| Fault::parse(fault.wire()) == Some(*fault)));
    assert!(JobStatus::ALL.iter().all(|status| JobStatus::parse(status.as_str()) == Some(*status)));
}
