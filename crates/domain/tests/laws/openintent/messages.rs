//! Visibility of messages and read marks (RFC-0021 §2.2, §2.5, §4), with random viewers.

mod judge;

use entente_domain::ids::MessageId;
use entente_domain::log::receipts::ReceiptKind;
use entente_domain::openintent::channels::MemberPolicy;
use entente_domain::openintent::messages::{Message, MessageStatus, MessageType, Viewer};
use entente_domain::payload::Payload;
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::any::{Dice, at};
use crate::openintent::channels::channel;

const AGENTS: [&str; 4] = ["ada", "bob", "eve", "kim"];
const STATUSES: [MessageStatus; 3] = [MessageStatus::Delivered, MessageStatus::Read, MessageStatus::Expired];

prop_compose! {
    /// Generates a message from `ada` to some of the agents, or to all.
    fn message()(
        recipients in proptest::option::of(vec(select(&AGENTS[..]), 1..4)),
        status in select(&STATUSES[..]),
        message_type in select(vec![MessageType::Request, MessageType::Notify]),
    ) -> Message {
        let channel = channel(MemberPolicy::Intent);
        Message {
            id: MessageId::mint(at(0), 1, &Dice(0)), number: 1, seq: 1,
            channel_id: channel.id, intent_id: channel.intent_id, sender: "ada".to_owned(), to: None,
            recipients: recipients.map(|list| list.into_iter().map(str::to_owned).collect()),
            message_type, correlation_id: None, payload: Payload::empty(), metadata: None,
            created_at: at(0), expires_at: None, status, read_at: None,
        }
    }
}

/// Generates a viewer inside or outside of a channel, without further rights.
fn viewer() -> impl Strategy<Value = Viewer<'static>> {
    (select(&AGENTS[..]), any::<bool>(), any::<bool>()).prop_map(|(agent, admitted, manages)| Viewer {
        agent,
        admitted,
        manages,
        sees_all: false,
    })
}

#[test]
fn words_are_read_as_they_are_written() {
    for message_type in
        [MessageType::Request, MessageType::Response, MessageType::Notify, MessageType::Broadcast]
    {
        assert_eq!(MessageType::parse(message_type.as_str()), Some(message_type));
        assert_eq!(serde_json::to_value(message_type).unwrap(), message_type.as_str());
    }
    assert_eq!(MessageType::parse("message"), None, "OI-2.5: the route takes it for a notify, if it may");
    for status in STATUSES.into_iter().chain([MessageStatus::Pending]) {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
    }
    for kind in [ReceiptKind::Read, ReceiptKind::Expired] {
        assert_eq!(ReceiptKind::parse(kind.as_str()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
}

proptest! {
    /// OI-1.6: only the sender, the target, the role's members (its recipients) and the channel's managers.
    #[test]
    fn a_directed_message_is_seen_by_few(message in message(), viewer in viewer()) {
        let Some(recipients) = &message.recipients else { return Ok(()) };
        let is_party = viewer.agent == "ada" || recipients.iter().any(|agent| agent == viewer.agent);
        if !is_party && !viewer.manages {
            prop_assert!(!message.visible_to(&viewer), "a stranger sees directed mail");
        }
        if viewer.manages || viewer.agent == "ada" || (is_party && viewer.admitted) {
            prop_assert!(message.visible_to(&viewer));
        }
        if !viewer.admitted && !viewer.manages && viewer.agent != "ada" {
            prop_assert!(!message.visible_to(&viewer), "a recipient who was shut out sees no more (§5)");
        }
    }

    #[test]
    fn an_undirected_message_is_seen_by_all_who_are_let_in(message in message(), viewer in viewer()) {
        let message = Message { recipients: None, ..message };
        prop_assert_eq!(message.visible_to(&viewer), viewer.admitted || viewer.manages || viewer.agent == "ada");
    }

    #[test]
    fn more_rights_never_show_less(message in message(), viewer in viewer()) {
        for more in [
            Viewer { admitted: true, ..viewer }, Viewer { manages: true, ..viewer }, Viewer { sees_all: true, ..viewer },
        ] {
            prop_assert!(message.visible_to(&more) || !message.visible_to(&viewer));
            prop_assert!(message.delivered_to(&more) || !message.delivered_to(&viewer));
        }
        prop_assert!(message.visible_to(&Viewer { sees_all: true, ..viewer }), "OI-1.6: any-agent keys see all");
    }

    /// RFC-0021 §2.2: expired messages are not delivered; the sender and the channel's managers still find them.
    #[test]
    fn what_has_expired_is_delivered_no_more(message in message(), viewer in viewer(), sees_all: bool) {
        let viewer = Viewer { sees_all, ..viewer };
        prop_assert!(message.visible_to(&viewer) || !message.delivered_to(&viewer), "what is hidden is not delivered");
        if message.status == MessageStatus::Expired {
            prop_assert_eq!(message.delivered_to(&viewer), viewer.manages || viewer.agent == "ada");
        } else {
            prop_assert_eq!(message.delivered_to(&viewer), message.visible_to(&viewer));
        }
    }

    /// RFC-0021 §2.5: the target acknowledges. Visibility is not enough: managers and any-agent keys see messages
    /// of others too.
    #[test]
    fn only_those_it_is_for_mark_it_read(message in message(), viewer in viewer(), sees_all: bool) {
        let viewer = Viewer { sees_all, ..viewer };
        let theirs = match &message.recipients {
            Some(recipients) => recipients.iter().any(|agent| agent == viewer.agent),
            None => viewer.agent != "ada",
        };
        let expected = if !theirs || !viewer.admitted {
            Err(Code::Forbidden)
        } else if message.status == MessageStatus::Expired {
            Err(Code::MessageExpired)
        } else {
            Ok(())
        };
        prop_assert_eq!(message.may_be_marked_read(&viewer).map_err(|refusal| refusal.code), expected);
        prop_assert!(expected.is_err() || message.delivered_to(&viewer), "what is read was delivered");
    }

    #[test]
    fn who_is_neither_let_in_nor_in_charge_looks_at_nothing(viewer in viewer(), sees_all: bool) {
        let viewer = Viewer { sees_all, ..viewer };
        let expected = (!viewer.admitted && !viewer.manages && !sees_all).then_some(Code::NotAMember);
        let channel = channel(MemberPolicy::Explicit);
        prop_assert_eq!(viewer.require(&channel).err().map(|refusal| refusal.code), expected);
    }
}
