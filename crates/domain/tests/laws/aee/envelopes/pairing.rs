//! How a reply finds its task (AEE §4, §6.3).

use entente_domain::aee::envelopes::pairing::{Known, Pair, PairStatus, Verdict, judge};
use entente_domain::aee::envelopes::{Envelope, EnvelopeType, Warning};
use entente_domain::clock::{Timestamp, parse};
use entente_domain::refusal::Code;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{accepted, sample, with};
use crate::any;

const STATUSES: [PairStatus; 4] =
    [PairStatus::Held, PairStatus::Open, PairStatus::Closed, PairStatus::TimedOut];

fn now() -> Timestamp {
    parse("2026-11-21T10:00:00Z").unwrap()
}

/// Returns the exchange that the sample result answers.
fn pair(status: PairStatus) -> Pair {
    let answer = accepted(sample(EnvelopeType::Result));
    Pair {
        task_id: answer.reply_to.unwrap(),
        respondent: answer.sender,
        asker: answer.recipient,
        corr: answer.corr,
        status,
        deadline: None,
    }
}

fn reply(kind: EnvelopeType) -> Envelope {
    accepted(with(kind, "reply_to", json!("01JFB2R1JZKQ9V3K8W8Y9W1F2A")))
}

fn verdict(kind: EnvelopeType, known: &Known) -> Result<Verdict, Code> {
    judge(&reply(kind), known, false, now()).map_err(|refusal| refusal.code)
}

fn ends() -> [EnvelopeType; 2] {
    [EnvelopeType::Result, EnvelopeType::Error]
}

#[test]
fn the_first_result_or_error_ends_a_task() {
    for kind in ends() {
        assert_eq!(verdict(kind, &Known::Task(Some(pair(PairStatus::Open)))), Ok(Verdict::Closes));
        for over in [PairStatus::Closed, PairStatus::TimedOut] {
            assert_eq!(verdict(kind, &Known::Task(Some(pair(over)))), Err(Code::TaskClosed));
        }
    }
}

#[test]
fn a_reply_that_does_not_fit_its_task_is_refused() {
    let mismatch = Err(Code::ReplyMismatch);
    for kind in ends() {
        // An event, or another entity's task.
        assert_eq!(verdict(kind, &Known::Other), mismatch);
        assert_eq!(verdict(kind, &Known::Task(None)), mismatch);
        for status in STATUSES {
            let corr = Pair { corr: "another-thread".to_owned(), ..pair(status) };
            assert_eq!(verdict(kind, &Known::Task(Some(corr))), mismatch);
            let asker = Pair { asker: "agent.third".to_owned(), ..pair(status) };
            assert_eq!(verdict(kind, &Known::Task(Some(asker))), mismatch);
        }
        assert_eq!(verdict(kind, &Known::Task(Some(pair(PairStatus::Held)))), mismatch);
    }
}

#[test]
fn a_reply_to_what_nobody_knows_is_odd_or_refused() {
    for kind in ends() {
        let envelope = reply(kind);
        let lax = judge(&envelope, &Known::Nothing, false, now());
        assert_eq!(lax, Ok(Verdict::Odd(Warning::UnmatchedReply)));
        let strict = judge(&envelope, &Known::Nothing, true, now()).unwrap_err();
        assert_eq!((strict.code, strict.errors[0].loc[1].as_str()), (Code::ReplyMismatch, "reply_to"));
    }
}

#[test]
fn tasks_and_events_end_nothing_whatever_they_say() {
    for kind in [EnvelopeType::Task, EnvelopeType::Event] {
        for known in [Known::Nothing, Known::Other, Known::Task(None)] {
            assert_eq!(verdict(kind, &known), Ok(Verdict::Plain));
        }
        for status in STATUSES {
            assert_eq!(verdict(kind, &Known::Task(Some(pair(status)))), Ok(Verdict::Plain));
        }
    }
}

#[test]
fn streams_are_delivered_also_when_it_is_over() {
    let stream = |known| verdict(EnvelopeType::Stream, &known);
    for known in [Known::Nothing, Known::Other, Known::Task(None)] {
        assert_eq!(stream(known), Ok(Verdict::Plain));
    }
    for status in STATUSES {
        let over = matches!(status, PairStatus::Closed | PairStatus::TimedOut);
        let expected = if over { Verdict::Odd(Warning::StreamAfterTerminal) } else { Verdict::Plain };
        assert_eq!(stream(Known::Task(Some(pair(status)))), Ok(expected));
    }
}

/// An exchange ends as soon as its deadline is due, before a sweep has run.
#[test]
fn a_deadline_counts_to_the_microsecond() {
    let micro = chrono::TimeDelta::microseconds(1);
    for (deadline, expected) in [
        (now() + micro, Ok(Verdict::Closes)),
        (now(), Err(Code::TaskClosed)),
        (now() - micro, Err(Code::TaskClosed)),
    ] {
        let pair = Pair { deadline: Some(deadline), ..pair(PairStatus::Open) };
        for kind in ends() {
            assert_eq!(verdict(kind, &Known::Task(Some(pair.clone()))), expected);
        }
    }
}

#[test]
fn statuses_are_written_as_they_are_read() {
    for status in STATUSES {
        assert_eq!(PairStatus::parse(status.as_str()), Some(status));
        assert_eq!(json!(status), status.as_str());
    }
    assert_eq!(PairStatus::parse("over"), None);
}

/// Messages of conflicts must not contain the word by which clients recognise a lease conflict (OI-3.5.3).
#[test]
fn no_conflict_is_taken_for_another() {
    for status in [PairStatus::Closed, PairStatus::TimedOut] {
        let known = Known::Task(Some(pair(status)));
        let refusal = judge(&reply(EnvelopeType::Result), &known, false, now()).unwrap_err();
        assert!(!refusal.message.to_lowercase().contains("lease"), "{}", refusal.message);
    }
}

proptest! {
    /// An ended exchange stays ended, and only an open one can be closed.
    #[test]
    fn time_goes_one_way(
        status in select(&STATUSES[..]), deadline in proptest::option::of(any::moment()), now in any::moment(),
        later in 0_i64..1_000_000_000_000,
    ) {
        let pair = Pair { deadline, ..pair(status) };
        let (first, second) = (pair.status_at(now), pair.status_at(now + chrono::TimeDelta::microseconds(later)));
        let waits = |status| matches!(status, PairStatus::Open | PairStatus::Held);
        prop_assert!(first == second || (waits(first) && second == PairStatus::TimedOut));
        prop_assert_eq!(waits(first), waits(status) && deadline.is_none_or(|deadline| deadline > now));
        let verdict = judge(&reply(EnvelopeType::Error), &Known::Task(Some(pair)), true, now);
        prop_assert_eq!(verdict == Ok(Verdict::Closes), first == PairStatus::Open);
    }
}
