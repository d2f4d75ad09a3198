//! Permitted messages (RFC-0021 §2.3, §4, §5): a table of every type with every address and every correlation, and
//! properties of all drafts.

use entente_domain::access::{AccessLevel, Level};
use entente_domain::clock::plus_seconds;
use entente_domain::ids::MessageId;
use entente_domain::limits::DURATION_SECONDS;
use entente_domain::openintent::channels::{Channel, ChannelStatus, MemberPolicy, Options};
use entente_domain::openintent::messages::{Case, Draft, Message, MessageStatus, MessageType, Ruling, judge};
use entente_domain::payload::Payload;
use entente_domain::refusal::{Code, Refusal};
use proptest::prelude::*;
use proptest::sample::select;

use crate::any::{Dice, at};
use crate::openintent::channels::{ADMIN, channel};

use MessageType::{Broadcast, Notify, Request, Response};

const TYPES: [MessageType; 4] = [Request, Response, Notify, Broadcast];

/// Returns a draft by `ada`, who is a member.
fn draft(message_type: MessageType, to: Option<&str>) -> Draft {
    Draft {
        sender: "ada".to_owned(),
        to: to.map(str::to_owned),
        message_type,
        correlation_id: None,
        payload: Payload::empty(),
        metadata: None,
        expires_at: None,
    }
}

/// Returns a message that `ada` may want to answer.
fn original(
    sender: &str,
    message_type: MessageType,
    recipients: Option<&[&str]>,
    status: MessageStatus,
) -> Message {
    let channel = channel(MemberPolicy::Explicit);
    Message {
        id: MessageId::mint(at(0), 1, &Dice(0)),
        number: 1,
        seq: 1,
        channel_id: channel.id,
        intent_id: channel.intent_id,
        sender: sender.to_owned(),
        to: recipients.map(|list| list.join(",")),
        recipients: recipients.map(|list| list.iter().map(|agent| (*agent).to_owned()).collect()),
        message_type,
        correlation_id: None,
        payload: Payload::empty(),
        metadata: None,
        created_at: at(0),
        expires_at: None,
        status,
        read_at: None,
    }
}

/// Returns the holders of a role: `bob` and `eve` hold `helpers`, no other role has holders.
fn holders(to: Option<&str>) -> Vec<String> {
    if to == Some("role:helpers") { vec!["bob".to_owned(), "eve".to_owned()] } else { Vec::new() }
}

fn ruled(
    draft: &Draft,
    policy: MemberPolicy,
    original: Option<&Message>,
    strict: bool,
) -> Result<Ruling, Refusal> {
    let channel = channel(policy);
    let holders = holders(draft.to.as_deref());
    judge(draft, Case { channel: &channel, access: ADMIN, holders: &holders, original, strict }, at(0))
}

/// The expected outcome of a draft: its recipients, or the code of its refusal.
#[derive(Debug, PartialEq)]
enum End {
    /// To these, stored under this `to`.
    To(Option<&'static str>, &'static [&'static str]),
    /// To all, stored under this `to`.
    All(Option<&'static str>),
    No(Code),
}

use End::{All, No, To};

fn check(what: &str, ruling: Result<Ruling, Refusal>, end: &End) {
    match (ruling, end) {
        (Ok(ruling), To(to, agents)) => {
            assert_eq!(ruling.to.as_deref(), *to, "{what}");
            assert_eq!(ruling.recipients.unwrap(), *agents, "{what}");
        }
        (Ok(ruling), All(to)) => {
            assert_eq!((ruling.to.as_deref(), ruling.recipients), (*to, None), "{what}");
        }
        (Err(refusal), No(code)) => assert_eq!(refusal.code, *code, "{what}: {refusal}"),
        (ruling, end) => panic!("{what}: {ruling:?} instead of {end:?}"),
    }
}

/// Type and address: by default, and in strict mode where it differs (OI-2), on a members-only channel and on an
/// open one.
#[test]
fn each_type_with_each_address() {
    const BOB: End = To(Some("bob"), &["bob"]);
    const WALL: End = No(Code::NotAMember);
    const BAD: End = No(Code::InvalidRequest);
    const NEVER: End = No(Code::Unprocessable);
    let helpers = |explicit| To(Some("role:helpers"), if explicit { &["bob"] } else { &["bob", "eve"] });
    let eve = |explicit| if explicit { WALL } else { To(Some("eve"), &["eve"]) };
    for (explicit, strict) in [(true, false), (true, true), (false, false), (false, true)] {
        let all_unless_strict = || if strict { NEVER } else { All(Some("*")) };
        let table = [
            (Request, None, all_unless_strict()),
            (Request, Some("*"), all_unless_strict()),
            (Request, Some("bob"), BOB),
            (Request, Some("ada"), To(Some("ada"), &["ada"])),
            (Request, Some("eve"), eve(explicit)),
            (Request, Some("role:helpers"), helpers(explicit)),
            (Request, Some("role:nobody"), No(Code::NoRecipient)),
            (Request, Some("role:"), BAD),
            (Request, Some(""), BAD),
            (Notify, None, All(None)),
            (Notify, Some("*"), All(Some("*"))),
            (Notify, Some("bob"), BOB),
            (Notify, Some("eve"), eve(explicit)),
            (Notify, Some("role:helpers"), helpers(explicit)),
            (Notify, Some("role:nobody"), No(Code::NoRecipient)),
            (Notify, Some(" bob"), BAD),
            (Broadcast, None, All(Some("*"))),
            (Broadcast, Some("*"), All(Some("*"))),
            (Broadcast, Some("bob"), NEVER),
            (Broadcast, Some("eve"), NEVER),
            (Broadcast, Some("role:helpers"), NEVER),
            (Broadcast, Some(""), BAD),
            (Response, None, No(Code::NotARequest)),
            (Response, Some("*"), No(Code::NotARequest)),
            (Response, Some("bob"), No(Code::NotARequest)),
            (Response, Some("role:helpers"), No(Code::NotARequest)),
        ];
        let policy = if explicit { MemberPolicy::Explicit } else { MemberPolicy::Intent };
        for (message_type, to, end) in table {
            let what = format!("{message_type:?} to {to:?} explicit={explicit} strict={strict}");
            check(&what, ruled(&draft(message_type, to), policy, None, strict), &end);
        }
    }
}

/// Type and correlation: only a response has one, and it goes to the requester, whatever its `to` says.
#[test]
fn each_type_with_each_correlation() {
    use MessageStatus::{Delivered, Expired, Read};
    const BOB: End = To(Some("bob"), &["bob"]);
    let only = |agent: &'static [&'static str]| Some(agent);
    // The answered message; then the outcome for the response by default, and in strict mode.
    let table = [
        (original("bob", Request, None, Delivered), BOB, BOB),
        (original("bob", Request, only(&["ada"]), Delivered), BOB, BOB),
        (original("bob", Request, only(&["eve", "ada"]), Read), BOB, BOB),
        (original("bob", Request, only(&["eve"]), Delivered), No(Code::Forbidden), No(Code::Forbidden)),
        (
            original("bob", Request, only(&["ada"]), Expired),
            No(Code::MessageExpired),
            No(Code::MessageExpired),
        ),
        (original("ada", Request, None, Delivered), To(Some("ada"), &["ada"]), To(Some("ada"), &["ada"])),
        (original("ada", Request, only(&["bob"]), Delivered), No(Code::Forbidden), No(Code::Forbidden)),
        (original("bob", Notify, None, Delivered), BOB, No(Code::NotARequest)),
        (original("bob", Notify, only(&["eve"]), Delivered), No(Code::Forbidden), No(Code::NotARequest)),
        (original("bob", Response, only(&["ada"]), Delivered), BOB, No(Code::NotARequest)),
        (original("bob", Broadcast, None, Delivered), BOB, No(Code::NotARequest)),
        (original("bob", Broadcast, None, Expired), No(Code::MessageExpired), No(Code::NotARequest)),
    ];
    for (original, by_default, strictly) in &table {
        for to in [None, Some("*"), Some("ada"), Some("eve"), Some("role:nobody")] {
            for message_type in TYPES {
                let correlated = Draft { correlation_id: Some(original.id), ..draft(message_type, to) };
                for (strict, end) in [(false, by_default), (true, strictly)] {
                    let what = format!("{message_type:?} to {to:?} answering {original:?} strict={strict}");
                    let never = No(Code::Unprocessable);
                    let end = if message_type == Response { end } else { &never };
                    check(&what, ruled(&correlated, MemberPolicy::Explicit, Some(original), strict), end);
                }
            }
        }
    }
    let unknown =
        Draft { correlation_id: Some(MessageId::mint(at(0), 9, &Dice(0))), ..draft(Response, None) };
    check("unknown", ruled(&unknown, MemberPolicy::Intent, None, false), &No(Code::NotARequest));
}

#[test]
fn who_may_not_speak_is_not_heard() {
    let speak = |access: AccessLevel, channel: &Channel, sender: &str| {
        let draft = Draft { sender: sender.to_owned(), ..draft(Notify, None) };
        let case = Case { channel, access, holders: &[], original: None, strict: false };
        judge(&draft, case, at(0)).map_err(|refusal| refusal.code)
    };
    let said = Ok(Ruling { to: None, recipients: None });
    let open = channel(MemberPolicy::Explicit);
    for (level, expected) in [
        (None, Err(Code::AccessClosed)),
        (Some(Level::Read), said.clone()),
        (Some(Level::Write), said.clone()),
    ] {
        for granted in [true, false] {
            let access = AccessLevel { level, granted, until: None };
            assert_eq!(speak(access, &open, "ada"), expected, "whoever may read takes part (§5.1)");
        }
    }
    let reader = AccessLevel { level: Some(Level::Read), granted: false, until: None };
    assert_eq!(speak(reader, &open, "eve"), Err(Code::NotAMember));
    assert_eq!(speak(reader, &channel(MemberPolicy::Intent), "eve"), said);
    assert_eq!(
        speak(ADMIN, &open, "eve"),
        Err(Code::NotAMember),
        "an admin who is not listed is no member (§5.2)"
    );
    assert_eq!(speak(ADMIN, &channel(MemberPolicy::Intent), "eve"), said);
    let closed = Channel { status: ChannelStatus::Closed, closed_at: Some(at(0)), ..open.clone() };
    assert_eq!(speak(ADMIN, &closed, "ada"), Err(Code::ChannelClosed));
    let full = Channel { message_count: u32::MAX.into(), ..open.clone() };
    assert_eq!(speak(ADMIN, &full, "ada"), Err(Code::ChannelClosed), "a number must fit into a message's id");
    let last = Channel { message_count: i64::from(u32::MAX) - 1, ..open.clone() };
    assert_eq!(speak(ADMIN, &last, "ada"), said);
    let options = Options { ttl_seconds: Some(1), ..open.options };
    let over = Channel { options, created_at: at(-1_000_000), ..open.clone() };
    assert_eq!(speak(ADMIN, &over, "ada"), Err(Code::ChannelClosed), "the instant its time has run out");
    let nearly = Channel { options, created_at: at(-999_999), ..open };
    assert_eq!(speak(ADMIN, &nearly, "ada"), said);
}

/// Binding moment §7.4: a question to one person cannot be sent as a message of any type, to any address, at any
/// place in it.
#[test]
fn a_question_to_a_person_is_no_message() {
    let part = |text: &str| Payload::stored(text.to_owned()).unwrap();
    let judged = |draft: &Draft| {
        let ruling = ruled(draft, MemberPolicy::Intent, None, false);
        ruling.err().map(|refusal| (refusal.code, refusal.errors[0].loc.clone()))
    };
    for deep in [r#"{"binding_moment":{}}"#, r#"{"a":[{"binding\u005fmoment":{}}]}"#] {
        for (kind, to) in [(Notify, Some("eve")), (Notify, None), (Broadcast, None), (Request, Some("eve"))] {
            let said = Draft { payload: part(deep), ..draft(kind, to) };
            let place = vec!["body".to_owned(), "payload".to_owned()];
            assert_eq!(judged(&said), Some((Code::InvalidMoment, place)), "{deep}");
        }
        let hinted = Draft { metadata: Some(part(deep)), ..draft(Notify, None) };
        let place = vec!["body".to_owned(), "metadata".to_owned()];
        assert_eq!(judged(&hinted), Some((Code::InvalidMoment, place)));
    }
    let named = Draft { metadata: Some(part(r#"{"binding_moment_id":"bm_1"}"#)), ..draft(Notify, None) };
    assert_eq!(judged(&named), None, "a message may name one");
}

#[test]
fn an_expiry_lies_ahead_and_not_too_far() {
    let end = |micros: i64| {
        let expires = Draft { expires_at: Some(at(micros)), ..draft(Notify, None) };
        ruled(&expires, MemberPolicy::Intent, None, false).err().map(|refusal| refusal.code)
    };
    let farthest = plus_seconds(at(0), DURATION_SECONDS).timestamp_micros();
    assert_eq!(end(-1), Some(Code::AlreadyExpired));
    assert_eq!(end(0), Some(Code::AlreadyExpired), "what ends now is never delivered");
    assert_eq!(end(1), None);
    assert_eq!(end(farthest), None);
    assert_eq!(end(farthest + 1), Some(Code::Unprocessable));
}

proptest! {
    #[test]
    fn the_strict_setting_only_refuses_more(
        message_type in select(&TYPES[..]),
        to in select(vec![None, Some("*"), Some("bob"), Some("eve"), Some("role:helpers"), Some("role:x"), Some("")]),
        answers in proptest::option::of((select(&TYPES[..]), select(vec![None, Some(&["ada"][..]), Some(&["eve"][..])]))),
        correlated: bool, explicit: bool,
    ) {
        let original = answers.map(|(kind, recipients)| original("bob", kind, recipients, MessageStatus::Delivered));
        let correlation_id = correlated.then(|| MessageId::mint(at(0), 1, &Dice(0)));
        let draft = Draft { correlation_id, ..draft(message_type, to) };
        let policy = if explicit { MemberPolicy::Explicit } else { MemberPolicy::Intent };
        let lenient = ruled(&draft, policy, original.as_ref(), false);
        if let Ok(strict) = ruled(&draft, policy, original.as_ref(), true) {
            prop_assert_eq!(lenient.unwrap(), strict);
        }
    }

    #[test]
    fn what_goes_to_nobody_in_particular_goes_to_all(
        message_type in select(&TYPES[..]), to in proptest::option::of("(role:)?(ada|bob|eve|helpers|\\*)|\\*"), explicit: bool,
    ) {
        let policy = if explicit { MemberPolicy::Explicit } else { MemberPolicy::Intent };
        if let Ok(ruling) = ruled(&draft(message_type, to.as_deref()), policy, None, false) {
            prop_assert_eq!(ruling.recipients.is_none(), matches!(ruling.to.as_deref(), None | Some("*")));
            let channel = channel(policy);
            for agent in ruling.recipients.unwrap_or_default() {
                prop_assert!(channel.admits(&agent), "nobody behind the wall is sent anything (§4.1)");
            }
        }
    }
}
