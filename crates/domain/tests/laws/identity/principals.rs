//! Principals and names: a valid name can be addressed, and no other form of address is a valid name.

use entente_domain::identity::principals::{PrincipalKind, check_name};
use entente_domain::limits::NAME_BYTES;
use entente_domain::openintent::messages::Address;
use entente_domain::refusal::Code;
use proptest::prelude::*;

use crate::any;

#[test]
fn what_is_no_name_is_refused() {
    let longest = "x".repeat(NAME_BYTES);
    assert_eq!(check_name("id", &longest), Ok(()));
    let two_bytes_each = "ä".repeat(NAME_BYTES / 2 + 1);
    for none in [
        "",
        " ",
        "a ",
        "\ta",
        "a\nb",
        "a\0",
        "\u{7f}",
        "\u{85}x",
        "\u{a0}x",
        "*",
        "role:",
        "role:billing",
        &format!("{longest}x"),
        &two_bytes_each,
    ] {
        let refusal = check_name("id", none).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidRequest, "{none:?}");
        assert_eq!(refusal.errors[0].loc, ["body", "id"]);
        assert!(!refusal.message.contains("200") || refusal.message.contains(&NAME_BYTES.to_string()));
    }
    let too_long = check_name("id", &format!("{longest}x")).unwrap_err().message;
    assert!(too_long.contains(&NAME_BYTES.to_string()), "the message names the limit");
}

#[test]
fn kinds_are_read_as_they_are_written() {
    for kind in [PrincipalKind::Human, PrincipalKind::Agent, PrincipalKind::Service] {
        assert_eq!(PrincipalKind::parse(kind.as_str()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
    assert_eq!(PrincipalKind::parse("Human"), None);
}

proptest! {
    #[test]
    fn every_name_can_be_addressed(name in any::name()) {
        prop_assert_eq!(check_name("id", &name), Ok(()));
        prop_assert_eq!(Address::parse(&name), Ok(Address::Agent(name.clone())));
        prop_assert_eq!(Address::parse(&format!("role:{name}")), Ok(Address::Role(name)));
    }

    #[test]
    fn what_is_addressed_is_a_name_or_everybody(to in prop_oneof![any::<String>(), "(role:)?[a* ]{0,3}"]) {
        match Address::parse(&to) {
            Ok(Address::Everybody) => prop_assert_eq!(to, "*"),
            Ok(Address::Agent(name)) => {
                prop_assert_eq!(check_name("to", &name), Ok(()));
                prop_assert_eq!(name, to);
            }
            Ok(Address::Role(name)) => {
                prop_assert_eq!(check_name("to", &name), Ok(()));
                prop_assert_eq!(format!("role:{name}"), to);
            }
            Err(refusal) => prop_assert!(check_name("to", &to).is_err(), "{refusal}"),
        }
    }

    /// Stored recipients are joined with unit separators, and names appear in headers and logs.
    #[test]
    fn a_name_has_no_character_that_ends_a_line_or_a_list(text in any::text()) {
        if check_name("id", &text).is_ok() {
            prop_assert!(!text.contains(|c: char| c < ' ' || c as u32 == 0x7f));
            prop_assert!((1..=NAME_BYTES).contains(&text.len()));
        }
    }
}
