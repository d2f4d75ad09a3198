//! Coordinators (RFC-0013): silence ends an appointment and heartbeats keep it, for any interval; and their
//! guardrails.

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{CoordinatorId, IntentId};
use entente_domain::log::events::Kind;
use entente_domain::openintent::coordinators::{
    Bound, Coordinator, CoordinatorAsk, CoordinatorChange, CoordinatorStatus, Decided, DecisionType, appoint,
};
use entente_domain::refusal::Code;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::any::at;

fn made(interval: u32, until: Option<i64>, rails: Option<Value>) -> Coordinator {
    let ask = CoordinatorAsk {
        agent_id: "agent.lead".to_owned(),
        heartbeat_seconds: Some(interval),
        until: until.map(seconds),
        guardrails: rails.map(|rails| rails.as_object().unwrap().clone()),
        ..CoordinatorAsk::default()
    };
    let (intent, id) = (IntentId::from(Uuid::nil()), CoordinatorId::from(Uuid::nil()));
    appoint(ask, intent, "agent.ada", id, at(0)).unwrap()
}

fn seconds(count: i64) -> Timestamp {
    at(0) + TimeDelta::seconds(count)
}

/// Applies the changes due at this time; returns the result and the events.
fn passed(mut one: Coordinator, now: Timestamp) -> (Coordinator, Vec<Kind>) {
    let mut kinds = Vec::new();
    while let Some((next, kind)) = one.pass(now) {
        assert!(kinds.len() < 10, "time never stops doing things: {kinds:?}");
        kinds.push(kind);
        one = next;
    }
    (one, kinds)
}

proptest! {
    /// The status that a reader sees always equals the stored one after the due changes, and afterwards nothing is
    /// due until `due_at`.
    #[test]
    fn reading_is_what_writing_comes_to(interval in 1_u32..1_000, until in prop::option::of(1_i64..9_000), after in 0_i64..9_000) {
        let (one, now) = (made(interval, until, None), seconds(after));
        let seen = one.status_at(now);
        let (written, kinds) = passed(one.clone(), now);
        prop_assert_eq!(written.status, seen);
        prop_assert_eq!(written.status_at(now), seen);
        prop_assert!(written.due_at().is_none_or(|due| due > now));
        prop_assert_eq!(kinds.is_empty(), one.due_at().is_none_or(|due| due > now));
        prop_assert_eq!(written.status.is_over(), written.ended_at.is_some());
        // The events are in chronological order.
        let failed = kinds.iter().position(|kind| *kind == Kind::CoordinatorFailedOver);
        prop_assert!(failed.is_none_or(|idx| kinds[..idx].contains(&Kind::CoordinatorUnresponsive)));
    }

    /// A coordinator that sends a heartbeat within every two intervals stays active forever; few heartbeats are
    /// logged.
    #[test]
    fn who_beats_stays(interval in 1_u32..600, pauses in prop::collection::vec(0_i64..1_990, 1..40)) {
        let mut one = made(interval, None, None);
        let mut now = at(0);
        let mut told = Vec::new();
        for pause in pauses {
            // In thousandths of an interval.
            now += TimeDelta::milliseconds(pause * i64::from(interval));
            prop_assert_eq!(one.status_at(now), CoordinatorStatus::Active);
            let (next, kind) = one.beat(now).unwrap();
            told.extend(kind);
            one = next;
        }
        let hours = (now - at(0)).num_hours();
        prop_assert!(i64::try_from(told.len()).unwrap() <= hours + 1, "{} told in {hours} hours", told.len());
    }

    /// A silent coordinator can recover until it is given up, but not afterwards.
    #[test]
    fn a_silent_one_comes_back_in_time(interval in 1_u32..600, silence in 0_i64..4_000) {
        let (one, now) = (made(interval, None, None), seconds(silence));
        let given_up = silence >= i64::from(interval) * 5;
        match one.beat(now) {
            Ok((next, _)) => {
                prop_assert!(!given_up);
                prop_assert_eq!(next.status_at(now), CoordinatorStatus::Active);
            }
            Err(refusal) => {
                prop_assert!(given_up);
                prop_assert_eq!(refusal.code, Code::InvalidTransition);
            }
        }
        // It can be replaced without being named only while it is silent.
        let free = one.replaced(false, now).is_ok();
        prop_assert_eq!(free, one.status_at(now) == CoordinatorStatus::Unresponsive);
        prop_assert!(one.replaced(true, now).is_ok());
    }

    /// A paused coordinator is not given up, however long the pause is.
    #[test]
    fn rest_is_no_silence(interval in 1_u32..600, rest in 0_i64..1_000_000) {
        let change = |status| CoordinatorChange { status: Some(status), ..CoordinatorChange::default() };
        let one = made(interval, None, None);
        let (one, kinds) = one.changed(&change(CoordinatorStatus::Paused), true, at(0)).unwrap();
        prop_assert_eq!(kinds, [Kind::CoordinatorPaused]);
        let now = seconds(rest);
        prop_assert_eq!(one.status_at(now), CoordinatorStatus::Paused);
        prop_assert!(one.decides(DecisionType::TaskAssigned, 0, now).is_err());
        let (on, _) = one.changed(&change(CoordinatorStatus::Active), true, now).unwrap();
        prop_assert_eq!(on.status_at(now), CoordinatorStatus::Active);
    }

    /// The guardrail allows exactly this many plans.
    #[test]
    fn plans_are_counted(most in 1_u64..20, before in 0_u64..40) {
        let one = made(60, None, Some(json!({ "max_plan_versions": most, "on_exceed": "fail" })));
        let decided = one.decides(DecisionType::PlanModified, before, at(0)).unwrap();
        prop_assert_eq!(matches!(decided, Decided::Lawful(_)), before < most);
        if let Decided::Exceeds(next) = decided {
            prop_assert_eq!(next.unwrap().0.status, CoordinatorStatus::FailedOver);
        }
        prop_assert!(matches!(one.decides(DecisionType::TaskAssigned, before, at(0)).unwrap(), Decided::Lawful(_)));
    }
}

#[test]
fn the_agent_itself_may_only_finish() {
    let one = made(60, None, None);
    for status in CoordinatorStatus::ALL {
        let change = CoordinatorChange { status: Some(status), ..CoordinatorChange::default() };
        let may = one.changed(&change, false, at(0)).is_ok();
        let finishes = matches!(status, CoordinatorStatus::Completing | CoordinatorStatus::Completed);
        // Setting the current status is no change.
        assert_eq!(may, finishes || status == CoordinatorStatus::Active, "{status:?}");
    }
    let bind = CoordinatorChange { guardrails: Bound::Free, ..CoordinatorChange::default() };
    assert_eq!(one.changed(&bind, false, at(0)).unwrap_err().code, Code::Forbidden);
}
