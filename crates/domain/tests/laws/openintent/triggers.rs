//! Triggers: when they are due, on any clock; their event filters; their intents; and the outcomes of firings.

mod cron;
mod hooks;
mod making;
mod schedule;

use entente_domain::clock::plus_seconds;
use entente_domain::identity::principals::Author;
use entente_domain::ids::TriggerId;
use entente_domain::openintent::triggers::{
    Cause, Circumstances, Condition, Deduplication, DisabledReason, Lineage, SkipReason, Trigger, TriggerAsk,
    TriggerKind, Verdict, filter,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::any::{Dice, at};

/// Returns a trigger of this kind with this condition, created at time 0.
pub fn trigger(kind: TriggerKind, condition: Condition) -> Trigger {
    let ask = TriggerAsk {
        name: Some("review".to_owned()),
        condition: Some(Some(condition)),
        ..TriggerAsk::default()
    };
    let owner = Author { agent: "agent.ada", principal: "agent.ada" };
    Trigger::create(kind, ask, TriggerId::mint(at(0), &Dice(1)), owner, at(0)).unwrap()
}

fn idle() -> Circumstances {
    Circumstances { now: at(1_000_000), open: false, waiting: false, depth: 1 }
}

#[test]
fn an_open_intent_is_another_three_ways() {
    let mut one = trigger(TriggerKind::Webhook, Condition::default());
    let open = Circumstances { open: true, ..idle() };
    assert_eq!(one.judge(Cause::Webhook, open), Verdict::Fire);
    one.deduplication = Deduplication::Skip;
    assert_eq!(one.judge(Cause::Hand, open), Verdict::Skip(SkipReason::Deduplicated));
    assert_eq!(one.judge(Cause::Hand, idle()), Verdict::Fire);
    one.deduplication = Deduplication::Queue;
    assert_eq!(one.judge(Cause::Due, open), Verdict::Wait);
    let full = Circumstances { waiting: true, ..open };
    assert_eq!(one.judge(Cause::Due, full), Verdict::Skip(SkipReason::QueueFull));
}

#[test]
fn a_cascade_ends_and_a_rest_is_kept() {
    let mut one = trigger(TriggerKind::Event, Condition::default());
    let deep = |depth| Circumstances { depth, ..idle() };
    assert_eq!(one.judge(Cause::Event, deep(10)), Verdict::Fire);
    assert_eq!(one.judge(Cause::Event, deep(11)), Verdict::Skip(SkipReason::CascadeLimit));
    one.cooldown_seconds = Some(60);
    one.last_fired_at = Some(at(0));
    let now = |now| Circumstances { now, ..idle() };
    assert_eq!(one.judge(Cause::Event, now(at(59_999_999))), Verdict::Skip(SkipReason::Cooldown));
    assert_eq!(one.judge(Cause::Event, now(at(60_000_000))), Verdict::Fire);
    // A manual firing ignores the cooldown (RFC-0017 §8.3).
    assert_eq!(one.judge(Cause::Hand, now(at(1))), Verdict::Fire);
}

#[test]
fn ten_failures_in_a_row_are_enough() {
    let mut one = trigger(TriggerKind::Event, Condition::default());
    for _ in 0..9 {
        one = one.failed(Cause::Event, at(1));
    }
    assert!(one.enabled);
    assert_eq!(one.failed(Cause::Hand, at(1)), one, "what is tried by hand does not count");
    assert_eq!(
        one.fired(at(1)).failed(Cause::Event, at(2)).failures,
        1,
        "one that made something is forgiven"
    );
    let off = one.failed(Cause::Event, at(2));
    assert_eq!((off.enabled, off.disabled_reason), (false, Some(DisabledReason::Failing)));
    let ask = TriggerAsk { enabled: Some(true), ..TriggerAsk::default() };
    let on = off.changed(ask, at(3)).unwrap();
    assert_eq!((on.enabled, on.failures, on.disabled_reason), (true, 0, None));
}

#[test]
fn so_many_and_no_more() {
    let mut one = trigger(TriggerKind::Webhook, Condition::default());
    one.max_fires = Some(2);
    one = one.fired(at(1));
    assert!(one.enabled);
    one = one.fired(at(2));
    assert_eq!((one.enabled, one.disabled_reason), (false, Some(DisabledReason::MaxFires)));
}

#[test]
fn what_is_none_is_refused() {
    let ask = |change: fn(&mut TriggerAsk)| {
        let mut ask = TriggerAsk { name: Some("n".to_owned()), ..TriggerAsk::default() };
        change(&mut ask);
        let id = TriggerId::mint(at(0), &Dice(1));
        Trigger::create(TriggerKind::Schedule, ask, id, Author { agent: "a", principal: "a" }, at(0))
    };
    assert!(ask(|_| ()).is_ok());
    let wrong: [fn(&mut TriggerAsk); 9] = [
        |ask| ask.name = Some(" ".to_owned()),
        |ask| ask.name = Some("two\nlines".to_owned()),
        |ask| ask.cooldown_seconds = Some(Some(0)),
        |ask| ask.max_fires = Some(Some(0)),
        |ask| ask.max_depth = Some(Some(11)),
        |ask| ask.namespace = Some(Some("*".to_owned())),
        |ask| ask.condition = Some(Some(Condition { at: Some(at(0)), ..Condition::default() })),
        |ask| {
            ask.condition = Some(Some(Condition { method: Some("GET".to_owned()), ..Condition::default() }));
        },
        |ask| ask.condition = Some(Some(Condition { every_seconds: Some(9), ..Condition::default() })),
    ];
    for (place, wrong) in wrong.into_iter().enumerate() {
        assert!(ask(wrong).is_err(), "number {place}");
    }
}

fn event(kind: &str, payload: Value) -> Map<String, Value> {
    let mut members = payload.as_object().unwrap().clone();
    members.insert("event_type".to_owned(), json!(kind));
    members.insert("payload".to_owned(), payload);
    members
}

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn filtered(filter: Value) -> Map<String, Value> {
    filter.as_object().unwrap().clone()
}

#[test]
fn the_rfcs_names_are_heard_by() {
    let done = event("status_changed", json!({ "status": "completed" }));
    let begun = event("status_changed", json!({ "status": "active" }));
    for (name, done_is, begun_is) in [
        ("intent.resolved", true, false),
        ("intent_completed", true, false),
        ("intent.failed", false, false),
        ("intent.state_changed", true, true),
        ("status_changed", true, true),
        ("status_*", true, true),
        ("*", true, true),
        ("status", false, false),
    ] {
        assert_eq!(filter::hears(name, None, &done), done_is, "{name}");
        assert_eq!(filter::hears(name, None, &begun), begun_is, "{name}");
    }
    // The RFC's names match only the server's own events.
    let mut posted = done;
    posted.insert("posted".to_owned(), json!(true));
    assert!(
        !filter::hears("intent.resolved", None, &posted) && filter::hears("status_changed", None, &posted)
    );
}

#[test]
fn filters_look_into_members() {
    let heard =
        event("note", json!({ "type": "billing.eu", "amount": 5, "deep": { "er": ["a"] }, "gone": null }));
    for (filter, fits) in [
        (json!({}), true),
        (json!({ "type": "billing.*" }), true),
        (json!({ "type": "billing" }), false),
        (json!({ "payload.amount": 5, "amount": 5.0 }), true),
        (json!({ "amount": "5" }), false),
        (json!({ "amount": [4, 5] }), true),
        (json!({ "deep.er": ["a"] }), true),
        (json!({ "deep": { "er": ["a"] } }), true),
        (json!({ "deep": { "er": ["b"] } }), false),
        (json!({ "missing": "*" }), false),
        (json!({ "missing": null, "gone": null }), true),
        (json!({ "type": "billing.*", "amount": 6 }), false),
    ] {
        assert_eq!(filter::hears("note", Some(&filtered(filter.clone())), &heard), fits, "{filter}");
    }
    assert!(filter::check(Some("a**"), None).is_err());
    let many: Map<String, Value> = (0..51).map(|n| (n.to_string(), json!(n))).collect();
    assert!(filter::check(None, Some(&many)).is_err());
}

proptest! {
    #[test]
    fn a_lineage_grows_by_one(depth in 0_u32..12) {
        let one = trigger(TriggerKind::Event, Condition::default());
        let mut lineage = Lineage::default();
        for _ in 0..depth {
            lineage = lineage.with(one.id);
        }
        prop_assert_eq!(lineage.depth(), depth);
        let shown = lineage.with(one.id).shown(&one);
        prop_assert_eq!(&shown["trigger_depth"], &json!(depth + 1));
        prop_assert_eq!(shown["trigger_chain"].as_array().unwrap().len(), depth as usize + 1);
        prop_assert_eq!(&shown["created_by"], &json!("trigger"));
    }

    #[test]
    fn a_rest_is_as_long_as_it_is(cooldown in 1_u32..100_000, waited in 0_u32..200_000) {
        let mut one = trigger(TriggerKind::Event, Condition::default());
        one.cooldown_seconds = Some(cooldown);
        one.last_fired_at = Some(at(0));
        let now = plus_seconds(at(0), waited);
        let fires = one.judge(Cause::Due, Circumstances { now, ..idle() }) == Verdict::Fire;
        prop_assert_eq!(fires, waited >= cooldown);
    }
}
