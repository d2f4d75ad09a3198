//! Channels (RFC-0021 §1, §5): options, members, managers, and the single transition from open to closed.

use std::collections::HashSet;

use entente_domain::access::{AccessLevel, Level};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::limits::{DURATION_SECONDS, MAX_MESSAGES, MEMBERS, METADATA_BYTES};
use entente_domain::openintent::channels::{
    Channel, ChannelAsk, ChannelChange, ChannelStatus, CloseReason, MemberPolicy, Options, change, create,
};
use entente_domain::refusal::{Code, Refusal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::any::{self, at};

/// Standing with every right on the intent.
pub const ADMIN: AccessLevel = AccessLevel { level: Some(Level::Admin), granted: true, until: None };

fn ask() -> ChannelAsk {
    ChannelAsk { members: vec!["ada".to_owned(), "bob".to_owned()], ..ChannelAsk::implicit("talk") }
}

fn made(ask: ChannelAsk) -> Result<Channel, Refusal> {
    let (intent, id) = (IntentId::from(Uuid::from_u128(1)), ChannelId::from(Uuid::from_u128(2)));
    create(ask, intent, "ada", ADMIN, id, at(0))
}

/// Returns an open channel with the members `ada`, its creator, and `bob`.
pub fn channel(member_policy: MemberPolicy) -> Channel {
    Channel { member_policy, ..made(ask()).unwrap() }
}

fn code<T>(result: Result<T, Refusal>) -> Option<Code> {
    result.err().map(|refusal| refusal.code)
}

fn read(options: &Value) -> Result<Options, Refusal> {
    Options::read(options.as_object().unwrap())
}

prop_compose! {
    /// Generates a channel in any state, some seconds old.
    fn channels()(
        policy in select(vec![MemberPolicy::Explicit, MemberPolicy::Intent]),
        members in vec(select(vec!["ada", "bob", "eve"]), 0..4),
        ttl_seconds in proptest::option::of(1_u32..10), last in proptest::option::of(0_i64..10),
        closed in proptest::option::of(0_i64..10), message_count in 0_i64..30, max_messages in 1_u32..20,
    ) -> Channel {
        let members = members.into_iter().map(str::to_owned).collect();
        let mut channel = made(ChannelAsk { members, member_policy: Some(policy), ..ask() }).unwrap();
        channel.options = Options { ttl_seconds, max_messages, ..channel.options };
        channel.last_message_at = last.map(second);
        channel.closed_at = closed.map(second);
        channel.status = if closed.is_some() { ChannelStatus::Closed } else { ChannelStatus::Open };
        channel.message_count = message_count;
        channel
    }
}

fn second(n: i64) -> Timestamp {
    at(n * 1_000_000)
}

#[test]
fn words_are_read_as_they_are_written() {
    for policy in [MemberPolicy::Explicit, MemberPolicy::Intent] {
        assert_eq!(MemberPolicy::parse(policy.as_str()), Some(policy));
        assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
    }
    assert_eq!(MemberPolicy::parse("open"), None);
    for reason in
        [CloseReason::Requested, CloseReason::IntentResolved, CloseReason::TtlExpired, CloseReason::TaskEnded]
    {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
    }
}

/// RFC-0021 §1.4.
#[test]
fn a_first_message_opens_a_channel_for_all() {
    let channel = made(ChannelAsk::implicit("progress")).unwrap();
    assert_eq!((channel.member_policy, channel.members.len()), (MemberPolicy::Intent, 0));
    assert_eq!((channel.options, channel.given_options), (Options::default(), None));
    assert_eq!(
        (channel.status, channel.message_count, channel.last_message_at),
        (ChannelStatus::Open, 0, None)
    );
}

#[test]
fn options_are_what_rfc_0021_says() {
    assert_eq!(
        read(&json!({})).unwrap().filled(),
        *json!({ "audit": false, "ttl_seconds": null, "max_messages": 1000 }).as_object().unwrap()
    );
    assert_eq!(
        read(&json!({ "audit": null, "ttl_seconds": null, "max_messages": null })).unwrap(),
        Options::default()
    );
    // OI-10.1.1: clients send unknown keys and expect them back.
    assert_eq!(read(&json!({ "ttl": 3600, "priority": { "a": [1] } })).unwrap(), Options::default());
    let wrong = [
        json!({ "audit": 1 }),
        json!({ "audit": "true" }),
        json!({ "ttl_seconds": 0 }),
        json!({ "ttl_seconds": -1 }),
        json!({ "ttl_seconds": 1.5 }),
        json!({ "ttl_seconds": "60" }),
        json!({ "ttl_seconds": DURATION_SECONDS + 1 }),
        json!({ "max_messages": 0 }),
        json!({ "max_messages": MAX_MESSAGES + 1 }),
        json!({ "max_messages": true }),
        json!({ "max_messages": 1e3 }),
        json!({ "x": "x".repeat(METADATA_BYTES) }),
    ];
    for options in wrong {
        assert_eq!(code(read(&options)), Some(Code::InvalidRequest), "{options}");
    }
}

#[test]
fn who_may_only_read_opens_no_channel() {
    let (intent, id) = (IntentId::from(Uuid::from_u128(1)), ChannelId::from(Uuid::from_u128(2)));
    for (level, expected) in [
        (None, Some(Code::AccessClosed)),
        (Some(Level::Read), Some(Code::Forbidden)),
        (Some(Level::Write), None),
    ] {
        let access = AccessLevel { level, granted: true, until: None };
        assert_eq!(code(create(ask(), intent, "ada", access, id, at(0))), expected);
    }
}

#[test]
fn a_list_of_members_has_an_end() {
    let many = |count: usize| (0..count).map(|n| format!("agent.{n}")).collect::<Vec<_>>();
    assert_eq!(made(ChannelAsk { members: many(MEMBERS), ..ask() }).unwrap().members.len(), MEMBERS);
    assert_eq!(code(made(ChannelAsk { members: many(MEMBERS + 1), ..ask() })), Some(Code::TooLarge));
    for name in ["", "*", "role:x", "a\n"] {
        assert_eq!(
            code(made(ChannelAsk { members: vec![name.to_owned()], ..ask() })),
            Some(Code::InvalidRequest)
        );
        assert_eq!(code(made(ChannelAsk { name: name.to_owned(), ..ask() })), Some(Code::InvalidRequest));
        assert_eq!(
            code(made(ChannelAsk { task_id: Some(name.to_owned()), ..ask() })),
            Some(Code::InvalidRequest)
        );
    }
}

proptest! {
    #[test]
    fn lawful_options_are_read_and_filled_in(
        audit in proptest::option::of(any::<bool>()), ttl in proptest::option::of(1..=DURATION_SECONDS),
        max in proptest::option::of(1..=MAX_MESSAGES), more in any::object(),
    ) {
        let mut given = more;
        for (key, value) in [("audit", audit.map(Value::from)), ("ttl_seconds", ttl.map(Value::from)), ("max_messages", max.map(Value::from))] {
            given.insert(key.to_owned(), value.unwrap_or(Value::Null));
        }
        let options = Options::read(&given).unwrap();
        prop_assert_eq!(options.audit, audit.unwrap_or(false));
        prop_assert_eq!((options.ttl_seconds, options.max_messages), (ttl, max.unwrap_or(1_000)));
        prop_assert_eq!(Options::read(&options.filled()).unwrap(), options, "what is filled in means the same");
        let channel = made(ChannelAsk { options: Some(given.clone()), ..ask() }).unwrap();
        prop_assert_eq!((channel.options, channel.given_options), (options, Some(given)), "and comes back as given");
    }

    #[test]
    fn no_options_break_the_reader(given in any::object(), key in select(vec!["audit", "ttl_seconds", "max_messages"]), value in any::json()) {
        let mut given: Map<String, Value> = given;
        given.insert(key.to_owned(), value);
        if let Err(refusal) = Options::read(&given) {
            prop_assert_eq!(refusal.code, Code::InvalidRequest);
        }
    }

    #[test]
    fn each_member_is_listed_once_in_the_order_given(members in vec("[ab]{1,2}", 0..8)) {
        let listed = made(ChannelAsk { members: members.clone(), ..ask() }).unwrap().members;
        let mut seen = HashSet::new();
        let expected: Vec<String> = members.into_iter().filter(|member| seen.insert(member.clone())).collect();
        prop_assert_eq!(listed, expected);
    }

    #[test]
    fn a_list_is_a_wall_only_if_it_says_so(channel in channels(), who in select(vec!["ada", "bob", "eve", "mallory"])) {
        let listed = channel.members.iter().any(|member| member == who);
        let expected = match channel.member_policy {
            MemberPolicy::Explicit => listed,
            MemberPolicy::Intent => true,
        };
        prop_assert_eq!(channel.admits(who), expected, "who opened it, too");
    }

    /// RFC-0021 §5.1 and §5.3: without access to the intent, no agent manages anything.
    #[test]
    fn a_channel_is_managed_by_few(
        channel in channels(), who in select(vec!["ada", "bob"]), coordinates: bool, granted: bool,
        level in proptest::option::of(select(vec![Level::Read, Level::Write, Level::Admin])),
    ) {
        let access = AccessLevel { level, granted, until: None };
        let manages = channel.managed_by(who, access, coordinates);
        prop_assert!(!manages || level.is_some());
        let by_right = who == channel.created_by || coordinates || (granted && level == Some(Level::Admin));
        prop_assert_eq!(manages, by_right && level.is_some());
    }

    #[test]
    fn a_channel_closes_once_and_for_all(channel in channels(), now in 0_i64..20, later in 0_i64..20) {
        let closed = |at| channel.status_at(at) == ChannelStatus::Closed;
        prop_assert!(!closed(second(now)) || closed(second(now + later)));
        if let Some(end) = channel.ttl_ends_at() {
            prop_assert!(closed(end));
            prop_assert_eq!(closed(at(end.timestamp_micros() - 1)), channel.status == ChannelStatus::Closed);
            let start = channel.last_message_at.unwrap_or(channel.created_at);
            let ttl = i64::from(channel.options.ttl_seconds.unwrap());
            prop_assert_eq!((end - start).num_seconds(), ttl, "counted from the last message (RFC-0021 §1.2)");
        } else {
            prop_assert_eq!(closed(second(now)), channel.status == ChannelStatus::Closed);
        }
    }

    #[test]
    fn only_who_manages_it_changes_it(channel in channels(), now in 0_i64..20, policy: bool) {
        let asked = ChannelChange { member_policy: policy.then_some(MemberPolicy::Intent), ..ChannelChange::default() };
        prop_assert_eq!(code(change(&channel, asked, false, second(now))), Some(Code::Forbidden));
    }

    #[test]
    fn a_change_changes_what_it_names(
        channel in channels(), now in 0_i64..20, members in proptest::option::of(vec("[a-d]{1,2}", 0..4)),
        policy in proptest::option::of(select(vec![MemberPolicy::Explicit, MemberPolicy::Intent])),
        max in proptest::option::of(1_u32..100), status in proptest::option::of(select(vec![ChannelStatus::Open, ChannelStatus::Closed])),
    ) {
        let options = max.map(|max| Map::from_iter([("max_messages".to_owned(), json!(max))]));
        let asked = ChannelChange { members: members.clone(), member_policy: policy, options: options.clone(), status };
        let open = channel.status_at(second(now)) == ChannelStatus::Open;
        let more = members.is_some() || policy.is_some() || options.is_some();
        let result = change(&channel, asked, true, second(now));
        if !open && (more || status == Some(ChannelStatus::Open)) {
            prop_assert_eq!(code(result), Some(Code::ChannelClosed), "a closed channel stays as it is");
            return Ok(());
        }
        let (next, changed) = result.unwrap();
        let closes = open && status == Some(ChannelStatus::Closed);
        let expected: Vec<&str> = [
            ("members", members.is_some()), ("member_policy", policy.is_some()), ("options", options.is_some()), ("status", closes),
        ].into_iter().filter_map(|(name, is)| is.then_some(name)).collect();
        prop_assert_eq!(changed, expected);
        prop_assert_eq!(next.closed_at, if closes { Some(second(now)) } else { channel.closed_at });
        prop_assert_eq!(next.member_policy, policy.unwrap_or(channel.member_policy));
        prop_assert!(max.is_none_or(|max| next.options.max_messages == max && next.options.ttl_seconds.is_none()), "options are replaced whole");
        prop_assert!(max.is_some() || next.options == channel.options);
        let fixed = |c: &Channel| (c.id, c.intent_id, c.name.clone(), c.created_by.clone(), c.created_at, c.message_count);
        prop_assert_eq!(fixed(&next), fixed(&channel));
    }

    /// RFC-0021 §1.2: the oldest messages are evicted, the newest `max_messages` stay.
    #[test]
    fn a_channel_keeps_its_newest(channel in channels()) {
        let kept = channel.message_count - channel.floor();
        prop_assert_eq!(kept, channel.message_count.min(channel.options.max_messages.into()));
        prop_assert!(channel.floor() >= 0);
    }
}
