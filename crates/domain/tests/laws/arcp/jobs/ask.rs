//! Jobs: submissions, the effects of time and workers, and authority (ARCP §7 to §9).

use chrono::TimeDelta;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ask::{JobAsk, Submit};
use entente_domain::arcp::jobs::delegations;
use entente_domain::arcp::jobs::events::{Kind, Meaning, check};
use entente_domain::arcp::jobs::order::Priority;
use entente_domain::arcp::jobs::{Cancel, Claim, Due, Ending, Job, JobStatus, OnLost, may};
use entente_domain::clock::rfc3339;
use entente_domain::ids::{JobId, WorkerId};
use entente_domain::refusal::Code;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::any::{Dice, at, json as any_json};

fn submit(body: &Value) -> Submit {
    serde_json::from_str(&body.to_string()).unwrap()
}

pub(super) fn asked(body: &Value) -> JobAsk {
    JobAsk::check(submit(body)).unwrap()
}

/// Returns a job for a submission, at second 0.
pub(super) fn job(ask: &JobAsk) -> Job {
    let now = at(0);
    Job {
        id: JobId::mint(now, &Dice(1)),
        agent: "echo@1".into(),
        principal: "agent.a".into(),
        session_id: uuid::Uuid::nil().into(),
        counted: false,
        lease: ask.lease.clone(),
        expires_at: ask.expires_at,
        deadline: ask.deadline(now, None),
        idempotency_key: None,
        fingerprint: ask.fingerprint,
        parent_id: None,
        delegate_id: None,
        generation: 0,
        payers: Vec::new(),
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        intent_id: None,
        needs_model: false,
        on_lost: OnLost::Requeue,
        max_attempts: 3,
        priority: Priority::default(),
        retry: None,
        queue_timeout: None,
        concurrency: None,
        slotted: false,
        created_at: now,
        key_id: None,
        owner: None,
        reserves: false,
        status: JobStatus::Pending,
        last_seq: 0,
        origin_seq: 0,
        attempt: 0,
        failures: 0,
        retried: Vec::new(),
        not_before: None,
        queue_due_at: None,
        claim: None,
        cancel: None,
        streamed: None,
        abandoned: Vec::new(),
        ended_at: None,
        ended_by: None,
    }
}

fn held(mut job: Job, until: i64) -> Job {
    let worker_id = WorkerId::mint(at(0), &Dice(2));
    job.status = JobStatus::Running;
    job.attempt = 1;
    job.claim = Some(Claim { worker_id, token: [7; 32], since: at(0), expires_at: at(until * 1_000_000) });
    job
}

/// Generates patterns, some of which cover others.
fn patterns() -> impl Strategy<Value = Vec<&'static str>> {
    let all = vec!["/a/**", "/a/*", "/a/b", "/a/b/c", "/**", "/x/*/y", "/x/**", "/x/z/y"];
    subsequence(all, 0..5)
}

proptest! {
    #[test]
    fn a_child_within_its_parent_can_do_nothing_else(
        mine in patterns(), theirs in patterns(), spend in 0_u32..20, left in 0_u32..20,
        ends in proptest::option::of(1_i64..20), parent_ends in proptest::option::of(1_i64..20), target in "/[abxyz](/[abcyz]){0,2}",
    ) {
        let lease = |patterns: &[&str], money: u32| json!({ "fs.read": patterns, "cost.budget": [format!("USD:{money}")] });
        let constraints = |end: Option<i64>| json!({ "expires_at": end.map(|end| rfc3339(at(end * 1_000_000))) });
        let parent = job(&asked(&json!({ "agent": "a", "lease_request": lease(&theirs, 20), "lease_constraints": constraints(parent_ends) })));
        let mut child = asked(&json!({ "agent": "b", "lease_request": lease(&mine, spend), "lease_constraints": constraints(ends) }));
        let remaining = Budget([("USD".to_owned(), left.to_string().parse().unwrap())].into());
        let narrowed = child.narrow(&parent, &remaining);
        if narrowed.is_ok() {
            prop_assert!(!child.lease.covers("fs.read", &target) || parent.lease.covers("fs.read", &target));
            prop_assert!(spend <= left);
            prop_assert!(parent.expires_at.is_none_or(|end| child.expires_at.is_some_and(|mine| mine <= end)));
        } else {
            prop_assert_eq!(narrowed.unwrap_err().code, Code::LeaseSubsetViolation);
            let whole = theirs.contains(&"/**") && spend <= left && ends.is_none();
            prop_assert!(!whole, "a child that asks for nothing more is refused");
        }
    }

    #[test]
    fn the_same_ask_has_the_same_fingerprint(input in any_json(), other in any_json(), key in "[a-z]{1,4}") {
        let body = json!({ "agent": "echo", "input": input, "lease_request": {}, "idempotency_key": key });
        // Another order, another key, an omitted empty member.
        let mut again: Submit = submit(&json!({ "idempotency_key": "k", "input": input, "agent": "echo" }));
        prop_assert_eq!(JobAsk::check(again.clone()).unwrap().fingerprint, asked(&body).fingerprint);
        again.input = Some(RawValue::from_string(other.to_string()).unwrap());
        prop_assert_eq!(JobAsk::check(again).unwrap().fingerprint == asked(&body).fingerprint, input == other);
    }

    #[test]
    fn what_is_due_stays_due_until_something_is_done(
        deadline in proptest::option::of(1_i64..40), expiry in proptest::option::of(1_i64..40), claim in 1_i64..40,
        cancel in proptest::option::of(1_i64..40), when in 0_i64..50, later in 0_i64..50, fail in any::<bool>(),
    ) {
        let body = json!({
            "agent": "a", "max_runtime_sec": deadline,
            "lease_constraints": { "expires_at": expiry.map(|end| rfc3339(at(end * 1_000_000))) },
        });
        let mut job = held(job(&asked(&body)), claim);
        job.on_lost = if fail { OnLost::Fail } else { OnLost::Requeue };
        job.cancel = cancel.map(|due| Cancel { reason: "r".into(), due_at: at(due * 1_000_000) });
        let now = at(when * 1_000_000);
        let due = job.due(now);
        // It is due exactly from the time that is stored for the sweep.
        prop_assert_eq!(due.is_some(), job.due_at().is_some_and(|at| at <= now));
        prop_assert!(due.is_none() || job.due(now + TimeDelta::seconds(later)).is_some());
        match due {
            Some(Due::Requeue) => prop_assert!(!fail && cancel.is_none() && claim <= when),
            Some(Due::End(Fault::Timeout)) => prop_assert!(deadline.unwrap() <= when),
            // One second of grace.
            Some(Due::End(Fault::LeaseExpired)) => prop_assert!(expiry.unwrap() < when),
            Some(Due::End(Fault::Cancelled)) => prop_assert!(cancel.unwrap() <= when || claim <= when),
            Some(Due::End(fault)) => prop_assert!(fail && fault == Fault::InternalError && claim <= when),
            None => {}
        }
        job.status = JobStatus::Success;
        prop_assert_eq!(job.due(now), None);
    }

    #[test]
    fn only_the_token_of_the_claim_in_force_opens_a_job(token in any::<[u8; 32]>(), until in 1_i64..20, when in 0_i64..20) {
        let job = held(job(&asked(&json!({ "agent": "a" }))), until);
        prop_assert_eq!(job.hold(&[7; 32], at(when * 1_000_000)).is_ok(), when < until);
        prop_assert_eq!(job.hold(&token, at(0)).is_ok(), token == [7; 32]);
        let mut back = job;
        back.give_back();
        prop_assert_eq!(back.hold(&[7; 32], at(0)).unwrap_err().code, Code::ClaimLost);
    }

    #[test]
    fn a_job_takes_one_end_of_the_worker_that_held_it(
        ended in select(JobStatus::ALL.to_vec()), outcome in select(JobStatus::ALL.to_vec()), by in 0_u8..3, says in 1_u8..3,
        token in 6_u8..8,
    ) {
        let mut job = held(job(&asked(&json!({ "agent": "a" }))), 10);
        job.status = ended;
        // `0` stands for an end by the runtime.
        job.ended_by = (ended.is_terminal() && by > 0).then_some([by; 32]);
        let said = job.end(&[token; 32], &[says; 32], outcome, at(0)).map_err(|refusal| refusal.code);
        let expected = match (token == 7, ended, job.ended_by) {
            (true, JobStatus::Running, _) => Ok(Ending::First),
            (true, _, Some([before, ..])) if before == says => Ok(Ending::Again),
            (true, JobStatus::Error | JobStatus::Cancelled | JobStatus::TimedOut, None) if outcome == ended => Ok(Ending::Again),
            _ => Err(Code::ClaimLost),
        };
        prop_assert_eq!(said, expected);
    }

    #[test]
    fn an_operation_is_refused_for_the_first_reason(
        cancelled in any::<bool>(), expired in any::<bool>(), covered in any::<bool>(), spent in any::<bool>(),
    ) {
        let body = json!({
            "agent": "a", "lease_request": { "tool.call": ["search"] }, "lease_constraints": { "expires_at": "1970-01-01T00:00:10Z" },
        });
        let mut job = held(job(&asked(&body)), 100);
        job.cancel = cancelled.then(|| Cancel { reason: "r".into(), due_at: at(0) });
        let left = Budget([("USD".to_owned(), if spent { "0" } else { "0.000000000001" }.parse().unwrap())].into());
        let now = at(if expired { 10_000_000 } else { 9_999_999 });
        let target = if covered { "search" } else { "shell" };
        let said = may::operate(&job, &[&Budget::default(), &left], "tool.call", target, now).map_err(|refusal| refusal.code);
        let expected = match (cancelled, expired, covered, spent) {
            (true, ..) => Err(Code::Cancelled),
            (_, true, ..) => Err(Code::LeaseExpired),
            (_, _, false, _) => Err(Code::PermissionDenied),
            (.., true) => Err(Code::BudgetExhausted),
            _ => Ok(()),
        };
        prop_assert_eq!(said, expected);
    }

    #[test]
    fn whatever_stands_in_an_event_is_understood_or_refused(body in any_json(), members in proptest::collection::btree_map(
        select(vec!["name", "value", "unit", "tool", "args", "agent", "current", "total", "data", "encoding", "more", "chunk_seq",
            "result_id"]), any_json(), 0..6),
    ) {
        let words = ["log", "thought", "tool_call", "tool_result", "status", "metric", "artifact_ref", "delegate", "progress",
            "result_chunk", "x-vendor.a.b"];
        let object = Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        for body in [&body, &object] {
            let raw = RawValue::from_string(body.to_string()).unwrap();
            for word in words {
                match check(0, Kind::parse(word).unwrap(), &raw) {
                    Ok(Meaning::Cost { amount, .. }) => prop_assert!(!amount.is_negative()),
                    Ok(_) => prop_assert!(body.is_object()),
                    Err(refusal) => prop_assert_eq!(refusal.code, Code::InvalidRequest),
                }
            }
        }
    }

    #[test]
    fn a_delegate_event_asks_for_a_child_by_a_name_and_tells_of_one_by_its_id(
        named in any::<bool>(), told in any::<bool>(), members in proptest::collection::btree_map(
            select(vec!["input", "lease_request", "lease_constraints", "max_runtime_sec", "parent_job_id", "idempotency_key"]),
            any_json(), 0..6),
    ) {
        let mut body: serde_json::Map<_, _> = members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        body.insert("agent".to_owned(), json!("a"));
        if named {
            body.insert("delegate_id".to_owned(), json!("d"));
        }
        if told {
            body.insert("child_job_id".to_owned(), json!("job_x"));
        }
        let raw = RawValue::from_string(Value::Object(body).to_string()).unwrap();
        match delegations::asked(3, &raw) {
            Ok(None) => prop_assert!(told || !named),
            Ok(Some(child)) => {
                prop_assert!(named && !told);
                prop_assert_eq!((child.agent.as_str(), child.delegate_id.as_deref()), ("a", Some("d")));
                // The event's job is the parent, and its claim the authority: the body names neither.
                prop_assert_eq!((child.parent_job_id, child.idempotency_key, child.intent_id), (None, None, None));
            }
            Err(refusal) => {
                prop_assert!(named && !told);
                prop_assert_eq!(refusal.code, Code::InvalidRequest);
                prop_assert!(refusal.message.contains("at place 3"), "{}", refusal.message);
            }
        }
    }

    #[test]
    fn whatever_is_asked_is_taken_or_refused(body in any_json(), members in proptest::collection::btree_map(
        select(vec!["agent", "input", "lease_request", "lease_constraints", "idempotency_key", "max_runtime_sec", "parent_job_id"]),
        any_json(), 0..7),
    ) {
        let object = Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        for body in [body, object] {
            if let Ok(said) = serde_json::from_str::<Submit>(&body.to_string())
                && let Err(refusal) = JobAsk::check(said)
            {
                let known = [Code::InvalidRequest, Code::JobNotFound];
                prop_assert!(known.contains(&refusal.code), "{refusal:?}");
            }
        }
    }
}

#[test]
fn kinds_are_those_of_the_specification() {
    for word in ["Log", "", "x-vendor.", "x-vendor.acme", "x-vendor..a", "x-vendor.acme.", "session.ping"] {
        assert_eq!(Kind::parse(word), None, "{word}");
    }
    assert_eq!(Kind::parse("x-vendor.acme.a.b"), Some(Kind::Vendor));
    assert_eq!((Kind::Progress.feature(), Kind::Log.feature()), (Some("progress"), None));
}

#[test]
fn a_chunk_in_base64_counts_its_bytes() {
    let body = |data: &str| {
        let body =
            json!({ "result_id": "r", "chunk_seq": 0, "data": data, "encoding": "base64", "more": false });
        RawValue::from_string(body.to_string()).unwrap()
    };
    for (data, bytes) in [("", 0), ("AA==", 1), ("AAA=", 2), ("AAAA", 3)] {
        let meaning = check(0, Kind::ResultChunk, &body(data)).unwrap();
        assert_eq!(meaning.chunk().unwrap().decoded, bytes, "{data}");
    }
    for wrong in ["A", "AA", "AAA", "A===", "AA=A", "ä", "AB==", "A A="] {
        assert_eq!(
            check(0, Kind::ResultChunk, &body(wrong)).unwrap_err().code,
            Code::InvalidRequest,
            "{wrong}"
        );
    }
}
