//! Cursors: parsing and formatting a position in a channel.

use entente_domain::clock::rfc3339;
use entente_domain::cursors::{Since, after};
use entente_domain::ids::MessageId;
use entente_domain::refusal::Code;
use proptest::prelude::*;

use crate::any::{Dice, moment};

#[test]
fn what_is_no_place_is_refused() {
    for none in [
        "",
        "cur_",
        "cur_-1",
        "cur_+5",
        "cur_05",
        "cur_4294967296",
        "cur_1 ",
        "7",
        "msg_",
        "msg_1",
        "chan_00000000000000000000000000",
        "MSG_00000000000000000000000000",
        "2026-11-21",
        "yesterday",
    ] {
        assert_eq!(Since::parse(none).unwrap_err().code, Code::InvalidParameter, "{none}");
    }
}

proptest! {
    #[test]
    fn a_cursor_is_read_as_it_was_written(number: u32) {
        prop_assert_eq!(Since::parse(&after(number)), Ok(Since::Number(number)));
    }

    #[test]
    fn a_message_is_a_place_even_when_it_is_gone(now in moment(), number: u32, chance: u128) {
        let id = MessageId::mint(now, number, &Dice(chance)).to_string();
        prop_assert_eq!(Since::parse(&id), Since::parse(&after(number)));
    }

    #[test]
    fn a_time_is_a_place(now in moment()) {
        prop_assert_eq!(Since::parse(&rfc3339(now)), Ok(Since::Moment(now)));
    }

    #[test]
    fn there_is_one_cursor_for_a_place(text in "cur_[ +0-9-]{1,11}") {
        if let Ok(Since::Number(number)) = Since::parse(&text) {
            prop_assert_eq!(after(number), text);
        }
    }

    #[test]
    fn garbage_is_refused_and_harms_nothing(text: String) {
        if let Err(refusal) = Since::parse(&text) {
            prop_assert_eq!(refusal.code, Code::InvalidParameter);
        }
    }
}
