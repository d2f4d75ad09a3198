//! The choice of a stream's event types (OI-11.7): known names select their records and no others, unknown ones are
//! refused.

use entente_domain::log::event_types::{EventTypes, NotEventTypes};
use entente_domain::log::events::Kind;
use entente_domain::log::receipts::ReceiptKind;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn parsed(names: &[&str]) -> EventTypes {
    EventTypes::parse(names.iter().copied(), &[]).unwrap().unwrap()
}

proptest! {
    #[test]
    fn a_name_selects_its_records_and_no_others(
        chosen in vec(select(Kind::ALL), 1..6), kind in select(Kind::ALL), posted: bool,
    ) {
        let names: Vec<&str> = chosen.iter().map(|kind| kind.wire()).collect();
        let types = parsed(&names);
        prop_assert_eq!(types.has_event(kind.wire(), posted), chosen.contains(&kind));
        prop_assert_eq!(types.has_messages(), chosen.contains(&Kind::ChannelMessage));
        prop_assert!(!types.has_receipts(ReceiptKind::Read) && !types.has_receipts(ReceiptKind::Expired));
        prop_assert!(parsed(&[&names[..], &["*"]].concat()).has_event("a.type.of.a.client", posted));
    }

    #[test]
    fn agents_get_the_servers_own_events_of_four_kinds(kind in select(Kind::ALL), posted: bool) {
        let four = [Kind::AgentAssigned, Kind::StatePatched, Kind::StatusChanged, Kind::LeaseReleased];
        let types = EventTypes::of_agents();
        prop_assert_eq!(types.has_event(kind.wire(), posted), !posted && four.contains(&kind));
        prop_assert!(!types.has_messages() && !types.has_receipts(ReceiptKind::Read));
        let named = parsed(&["AGENT_ASSIGNED", "STATE_CHANGED", "STATUS_CHANGED", "LEASE_RELEASED"]);
        prop_assert_eq!(named.has_event(kind.wire(), posted), types.has_event(kind.wire(), posted));
    }

    #[test]
    fn events_of_clients_are_selected_by_their_posting(name in "[a-z]{1,12}", posted: bool) {
        let (all, one) = (parsed(&["posted"]), format!("posted:{name}"));
        prop_assert_eq!(all.has_event(&name, posted), posted);
        prop_assert_eq!(parsed(&[one.as_str()]).has_event(&name, posted), posted);
        let longer = format!("{name}.more");
        prop_assert!(!parsed(&[one.as_str()]).has_event(&longer, true));
    }

    #[test]
    fn an_unknown_name_is_refused_by_name(name in "x[a-z]{1,8}_[a-z]{1,8}", known in select(Kind::ALL)) {
        let refused = EventTypes::parse([known.wire(), name.as_str()], &[]).unwrap_err();
        prop_assert!(refused.to_string().contains(&format!("`{name}`")), "{refused}");
        prop_assert!(refused.to_string().contains("state_patched"), "{refused}");
        // Unless clients are known to post it.
        prop_assert!(EventTypes::parse([name.as_str()], &[name.as_str()]).unwrap().is_some());
    }
}

#[test]
fn no_names_are_no_choice() {
    assert_eq!(EventTypes::parse([], &[]), Ok(None));
    let many: Vec<String> = (0..201).map(|n| format!("posted:{n}")).collect();
    let refused = EventTypes::parse(many.iter().map(String::as_str), &[]);
    assert_eq!(refused, Err(NotEventTypes::TooMany(201)));
}
