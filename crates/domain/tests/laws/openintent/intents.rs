//! Intents (RFC-0001): the status machine, versions, and that replaying the log yields the intent.

mod export;

use std::collections::HashSet;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{EventId, IntentId};
use entente_domain::limits::{DEPENDENCIES, STATE_BYTES, TEXT_BYTES, TITLE_BYTES};
use entente_domain::log::events::{Draft, Event, Kind, Tail, seal};
use entente_domain::openintent::graphs::{depend, dependency_payload, let_go};
use entente_domain::openintent::intents::{
    CHANGES, Intent, IntentAsk, IntentStatus, create, created_payload, governed_payload, moved_payload,
    patched_payload, replay,
};
use entente_domain::openintent::patch::{Change, Op, Patch};
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::any::{self, Dice, EXACT, at};

fn ask() -> IntentAsk {
    IntentAsk {
        title: "Research Q1".to_owned(),
        description: String::new(),
        parent_id: None,
        depends_on: Vec::new(),
        constraints: Map::new(),
        state: Map::new(),
        status: IntentStatus::Draft,
        governance_policy: None,
    }
}

fn id() -> IntentId {
    IntentId::from(Uuid::from_u128(7))
}

fn made(ask: IntentAsk) -> Result<Intent, Code> {
    create(ask, "ada", id(), at(0)).map_err(|refusal| refusal.code)
}

/// One step in an intent's life.
#[derive(Debug, Clone)]
pub enum Step {
    Change(Change),
    Status(IntentStatus),
    /// Add a dependency on one of a few others, or remove it.
    Wait(bool, u8),
    /// Set another governance policy, or remove it.
    Governed(Option<Map<String, Value>>),
    /// A client's event, possibly with one of the server's own types.
    Posted(String, Map<String, Value>),
    /// An event of the server that does not change the intent.
    Other(Kind),
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let patch = (select(vec![Op::Set, Op::Append, Op::Remove]), "[ab](/[ab]){0,2}", any::json())
        .prop_map(|(op, path, value)| Patch { op, path, value });
    let own = select(Kind::ALL).prop_map(|kind| kind.wire().to_owned());
    let step = prop_oneof![
        3 => vec(patch, 0..3).prop_map(|patches| Step::Change(Change::Patches { patches })),
        1 => any::object().prop_map(|state| Step::Change(Change::Merge { state })),
        2 => select(&IntentStatus::ALL[..]).prop_map(Step::Status),
        2 => (any::<bool>(), 1_u8..4).prop_map(|(more, which)| Step::Wait(more, which)),
        1 => proptest::option::of(any::object()).prop_map(Step::Governed),
        1 => (prop_oneof![own, any::name()], any::object()).prop_map(|(kind, payload)| Step::Posted(kind, payload)),
        1 => select(vec![Kind::AgentAssigned, Kind::ChannelMessage, Kind::AccessGranted]).prop_map(Step::Other),
    ];
    vec(step, 0..12)
}

/// Applies the steps to an intent and skips refused ones. Returns the intent and its log.
pub fn live(state: Map<String, Value>, steps: &[Step]) -> (Intent, Vec<Event>) {
    let mut tail = Tail::empty(at(0));
    let mut events = Vec::new();
    let mut record = |draft: Draft, now: Timestamp| {
        let event_id = EventId::mint(now, &Dice(tail.sequence.unsigned_abs().into()));
        events.push(seal(draft, &mut tail, id(), event_id, now));
    };
    let mut intent =
        made(IntentAsk { state, constraints: Map::from_iter([("a".to_owned(), json!(1))]), ..ask() })
            .unwrap();
    record(Draft::of(Kind::IntentCreated, "ada", created_payload(&intent)), at(0));
    for (second, step) in (1_i64..).zip(steps) {
        let now = at(second * 1_000_000);
        match step {
            Step::Change(change) => {
                let Ok(next) = intent.patched(change, now) else { continue };
                record(Draft::of(Kind::StatePatched, "bob", patched_payload(change, &next)), now);
                intent = next;
            }
            Step::Status(status) => {
                let Ok(next) = intent.moved(*status, false, now) else { continue };
                record(
                    Draft::of(Kind::StatusChanged, "ada", moved_payload(&intent, &next, Some("why"))),
                    now,
                );
                intent = next;
            }
            Step::Wait(more, which) => {
                let other = IntentId::from(Uuid::from_u128(100 + u128::from(*which)));
                let next = if *more { depend(&intent, other, &[], now) } else { let_go(&intent, other, now) };
                let Ok(next) = next else { continue };
                let kind = if *more { Kind::DependencyAdded } else { Kind::DependencyRemoved };
                record(Draft::of(kind, "bob", dependency_payload(other, &next)), now);
                intent = next;
            }
            Step::Governed(policy) => {
                let kind =
                    if policy.is_some() { Kind::GovernancePolicySet } else { Kind::GovernancePolicyRemoved };
                intent = intent.governed(policy.clone(), now);
                record(Draft::of(kind, "ada", governed_payload(&intent)), now);
            }
            Step::Posted(event_type, payload) => {
                let posted = Draft {
                    posted: true,
                    event_type: event_type.clone(),
                    ..Draft::of(Kind::StatePatched, "eve", payload.clone().into())
                };
                record(posted, now);
            }
            Step::Other(kind) => record(Draft::of(*kind, "ada", json!({ "version": 1 })), now),
        }
    }
    (intent, events)
}

/// Whether an event changes its intent.
fn changes(event: &Event) -> bool {
    !event.posted && CHANGES.iter().any(|kind| kind.wire() == event.event_type)
}

fn replayed(events: &[Event]) -> Result<Option<Intent>, String> {
    events.iter().try_fold(None, replay)
}

#[test]
fn words_are_read_as_they_are_written() {
    for status in IntentStatus::ALL {
        assert_eq!(IntentStatus::parse(status.as_str()), Some(status));
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
    }
    assert_eq!(IntentStatus::parse("banana"), None);
}

/// OI-5.4.2, strict: the whole machine.
#[test]
fn the_machine_has_these_transitions_and_no_other() {
    use IntentStatus::{Abandoned, Active, Blocked, Completed, Draft, SuspendedAwaitingInput as Suspended};
    let known = HashSet::from([
        (Draft, Active),
        (Draft, Abandoned),
        (Active, Blocked),
        (Active, Suspended),
        (Active, Completed),
        (Active, Abandoned),
        (Blocked, Active),
        (Blocked, Abandoned),
        (Suspended, Active),
        (Suspended, Abandoned),
    ]);
    for from in IntentStatus::ALL {
        for to in IntentStatus::ALL {
            let intent = Intent { status: from, ..made(ask()).unwrap() };
            assert_eq!(from.may_become(to), known.contains(&(from, to)), "{from:?} to {to:?}");
            let strict = intent.moved(to, true, at(1)).map_err(|refusal| refusal.code);
            assert_eq!(strict.is_ok(), from.may_become(to));
            assert!(strict.is_ok() || strict == Err(Code::InvalidTransition));
            assert!(!(from.is_terminal() && from.may_become(to)), "there is no way out of a terminal status");
            // OI-2.6: by default any status may follow any other.
            let moved = intent.moved(to, false, at(1)).unwrap();
            assert_eq!((moved.status, moved.version, moved.updated_at), (to, intent.version + 1, at(1)));
        }
        assert!(from.is_terminal() || from.may_become(Abandoned), "what is not over can be given up");
    }
}

#[test]
fn an_intent_has_its_limits() {
    let long = |bytes: usize| "x".repeat(bytes);
    let object = |bytes: usize| Map::from_iter([("a".to_owned(), json!(long(bytes - 8)))]);
    let beyond = || Map::from_iter([("a".to_owned(), json!([{ "b": EXACT + 2 }]))]);
    let relation = |count: usize| vec![id(); count];
    assert!(
        made(IntentAsk {
            title: long(TITLE_BYTES),
            description: long(TEXT_BYTES),
            depends_on: relation(DEPENDENCIES),
            ..ask()
        })
        .is_ok()
    );
    assert!(made(IntentAsk { state: object(STATE_BYTES), ..ask() }).is_ok());
    let wrong = [
        (IntentAsk { title: " \t".to_owned(), ..ask() }, Code::InvalidRequest),
        (IntentAsk { title: long(TITLE_BYTES + 1), ..ask() }, Code::InvalidRequest),
        (IntentAsk { description: long(TEXT_BYTES + 1), ..ask() }, Code::InvalidRequest),
        (IntentAsk { depends_on: relation(DEPENDENCIES + 1), ..ask() }, Code::InvalidRequest),
        (IntentAsk { status: IntentStatus::Completed, ..ask() }, Code::InvalidRequest),
        (IntentAsk { status: IntentStatus::Abandoned, ..ask() }, Code::InvalidRequest),
        (IntentAsk { state: object(STATE_BYTES + 1), ..ask() }, Code::TooLarge),
        (IntentAsk { constraints: object(STATE_BYTES + 1), ..ask() }, Code::TooLarge),
        (IntentAsk { governance_policy: Some(object(STATE_BYTES + 1)), ..ask() }, Code::TooLarge),
        (IntentAsk { state: beyond(), ..ask() }, Code::Unprocessable),
        (IntentAsk { constraints: beyond(), ..ask() }, Code::Unprocessable),
        (IntentAsk { governance_policy: Some(beyond()), ..ask() }, Code::Unprocessable),
    ];
    for (wrong, code) in wrong {
        assert_eq!(made(wrong).err(), Some(code));
    }
}

proptest! {
    #[test]
    fn an_intent_is_what_its_log_says(state in any::object(), steps in steps()) {
        let (intent, events) = live(state, &steps);
        prop_assert_eq!(replayed(&events), Ok(Some(intent)));
    }

    #[test]
    fn the_log_is_also_read_back_from_its_text(state in any::object(), steps in steps()) {
        let (intent, events) = live(state, &steps);
        let stored: Vec<Event> = events.iter().map(|event| {
            let payload = serde_json::from_str(&entente_domain::canonical::text(&event.payload).unwrap()).unwrap();
            Event { payload, ..event.clone() }
        }).collect();
        let again = replayed(&stored).unwrap().unwrap();
        let text = |intent: &Intent| entente_domain::canonical::text(intent).unwrap();
        prop_assert_eq!(text(&again), text(&intent));
    }

    #[test]
    fn a_version_rises_by_one_with_each_change(state in any::object(), steps in steps()) {
        let (intent, events) = live(state, &steps);
        let count = events.iter().filter(|event| changes(event)).count();
        prop_assert_eq!(intent.version, 1 + i64::try_from(count).unwrap());
        prop_assert_eq!(intent.require_version(intent.version), Ok(()));
        for seen in [0, intent.version - 1, intent.version + 1, i64::MAX] {
            let refusal = intent.require_version(seen).unwrap_err();
            prop_assert_eq!((refusal.code, refusal.current_version), (Code::VersionConflict, Some(intent.version)));
        }
    }

    #[test]
    fn a_log_that_lost_a_change_is_no_log(state in any::object(), steps in steps(), place: Index) {
        let (intent, mut events) = live(state, &steps);
        let kept: Vec<usize> = (0..events.len())
            .filter(|i| !events[*i].posted && (events[*i].event_type == "intent_created" || changes(&events[*i])))
            .collect();
        let lost = kept[place.index(kept.len())];
        events.remove(lost);
        let made = replayed(&events);
        // Without its first event there is no intent, without its last one it is an older version, and otherwise
        // the versions have a gap.
        if lost == 0 {
            prop_assert_eq!(made, Ok(None));
        } else if lost == kept[kept.len() - 1] {
            prop_assert_eq!(made.unwrap().unwrap().version, intent.version - 1);
        } else {
            prop_assert!(made.is_err());
        }
    }

    #[test]
    fn an_intent_is_created_once_and_its_log_is_its_own(state in any::object(), steps in steps(), place: Index) {
        let (_, mut events) = live(state, &steps);
        let at = place.index(events.len());
        let mut foreign = events.clone();
        foreign[at].intent_id = IntentId::from(Uuid::from_u128(8));
        prop_assert!(!changes(&foreign[at]) || replayed(&foreign).is_err(), "another intent's change");
        events.insert(at + 1, events[0].clone());
        prop_assert!(replayed(&events).is_err(), "created twice");
    }

    /// A refused change leaves the intent unchanged.
    #[test]
    fn a_number_that_does_not_survive_hashing_never_gets_in(path in "[ab]", n in (EXACT + 2..i64::MAX).prop_map(|n| n | 1)) {
        let intent = made(ask()).unwrap();
        let patches = vec![Patch { op: Op::Set, path: path.clone(), value: json!({ "n": [n] }) }];
        let merge = Map::from_iter([(path, json!(n))]);
        for change in [Change::Patches { patches }, Change::Merge { state: merge }] {
            prop_assert_eq!(intent.patched(&change, at(1)).unwrap_err().code, Code::Unprocessable);
        }
    }
}
