//! Inboxes: levels never exceed what the owner allows, quiet hours follow the clock on the wall, and a digest counts everything.

use std::collections::BTreeMap;

use chrono::{TimeDelta, Timelike as _};
use entente_domain::aee::envelopes::Priority;
use entente_domain::inbox::digest::{Counted, Digest, SOURCES};
use entente_domain::inbox::quiet::QuietHours;
use entente_domain::inbox::{Attention, EntryKind, InboxCursor, Settings, Source, asked_in};
use entente_domain::openintent::messages::MessageType;
use proptest::prelude::*;
use serde_json::json;

use crate::any::moment;

const ZONES: [&str; 6] =
    ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"];

fn level() -> impl Strategy<Value = Attention> {
    prop::sample::select(Attention::ALL.to_vec())
}

fn kind() -> impl Strategy<Value = EntryKind> {
    prop::sample::select(EntryKind::ALL.to_vec())
}

fn message_type() -> impl Strategy<Value = MessageType> {
    let all = [MessageType::Request, MessageType::Response, MessageType::Notify, MessageType::Broadcast];
    prop::sample::select(all.to_vec())
}

fn hours() -> impl Strategy<Value = QuietHours> {
    let time = || (0..24_u32, 0..60_u32).prop_map(|(hour, minute)| format!("{hour:02}:{minute:02}"));
    let zone = prop::sample::select(ZONES.to_vec());
    (time(), time(), zone)
        .prop_filter("they last", |(from, to, _)| from != to)
        .prop_map(|(from, to, zone)| QuietHours { from, to, time_zone: zone.to_owned(), except: Vec::new() })
}

proptest! {
    #[test]
    fn nobody_wakes_who_may_not(
        asked in prop::option::of(level()), set in level(), message_type in message_type(), is_directed in any::<bool>(),
        role in prop::option::of("[ab]"), names in prop::collection::vec("(role:)?[abc]", 0..4),
    ) {
        let attention: BTreeMap<String, Attention> =
            ["request", "response", "notify", "broadcast"].map(|word| (word.to_owned(), set)).into();
        let settings = Settings { attention, may_wake: Some(names.clone()), ..Settings::default() };
        prop_assert!(settings.check().is_ok());
        let source = Source::Message { sender: "a", role: role.as_deref(), message_type, is_directed, asked };
        let named = names.iter().any(|name| name == "a" || role.as_ref().is_some_and(|role| *name == format!("role:{role}")));
        let level = settings.level(source);
        let wanted = asked.unwrap_or(set);
        prop_assert_eq!(level.attention, if named { wanted } else { wanted.min(Attention::Next) });
        prop_assert!(!level.breaks_through, "nobody is excepted from quiet hours that are not set");
        // Without a list everybody gets what they ask for.
        let open = Settings { may_wake: None, ..settings };
        prop_assert_eq!(open.level(source).attention, wanted);
    }

    #[test]
    fn the_owner_of_a_job_is_not_asked_who_may_wake(set in prop::option::of(level())) {
        let attention = set.map(|level| ("job".to_owned(), level)).into_iter().collect();
        let settings = Settings { attention, may_wake: Some(Vec::new()), ..Settings::default() };
        prop_assert_eq!(settings.level(Source::Job).attention, set.unwrap_or(Attention::Next));
        prop_assert_eq!(settings.level(Source::Decision).attention, Attention::Wake);
    }

    #[test]
    fn a_higher_priority_never_has_a_lower_level(one in 0..4_usize, other in 0..4_usize) {
        let level = |index: usize| {
            let priority = Priority::ALL[index];
            Settings::default().level(Source::Mail { sender: "a", role: None, priority }).attention
        };
        prop_assert!(one > other || level(one) <= level(other));
        prop_assert_eq!((level(0), level(3)), (Attention::Digest, Attention::Wake));
    }

    #[test]
    fn quiet_hours_follow_the_clock_on_the_wall(hours in hours(), at in moment()) {
        prop_assert!(hours.check().is_ok());
        let zone: chrono_tz::Tz = hours.time_zone.parse().unwrap();
        let local = at.with_timezone(&zone);
        let wall = format!("{:02}:{:02}", local.hour(), local.minute());
        // The oracle compares the times as texts.
        let inside = if hours.from < hours.to {
            hours.from <= wall && wall < hours.to
        } else {
            hours.from <= wall || wall < hours.to
        };
        prop_assert_eq!(hours.contain(at), inside);
        let end = hours.end_after(at);
        prop_assert!(end > at && !hours.contain(end));
        if inside {
            prop_assert!(hours.contain(end - TimeDelta::minutes(1)), "it is the first minute after them");
            prop_assert!(end - at <= TimeDelta::hours(50));
        }
    }

    #[test]
    fn what_should_wake_never_rings_in_quiet_hours(
        hours in hours(), at in moment(), seconds in 10..86_400_u32, through in any::<bool>(),
    ) {
        let quiet = hours.contain(at);
        let settings = Settings { quiet_hours: Some(hours.clone()), rearm_seconds: Some(seconds), ..Settings::default() };
        prop_assert!(settings.check().is_ok());
        let ring = settings.rings_at(at, through);
        prop_assert!(ring > at);
        prop_assert!(through || !hours.contain(ring));
        if through || !quiet {
            prop_assert!(ring >= at + TimeDelta::seconds(i64::from(seconds)));
        }
        prop_assert_eq!(Attention::Wake.at(quiet, through) == Attention::Wake, !quiet || through);
        prop_assert_eq!(Attention::Digest.at(quiet, through), Attention::Digest);
    }

    #[test]
    fn a_digest_counts_every_entry_once(
        entries in prop::collection::vec((kind(), 0..80_u8), 0..400),
    ) {
        let counted: Vec<Counted> = (1_i64..)
            .zip(entries)
            .map(|(place, (kind, source))| Counted { place, kind, source: source.to_string() })
            .collect();
        let digest = Digest::of(counted.clone());
        let listed: u64 = digest.sources.iter().map(|one| one.count).sum();
        prop_assert_eq!(digest.count, counted.len() as u64);
        prop_assert_eq!(listed + digest.others, digest.count);
        prop_assert!(digest.sources.len() <= SOURCES);
        prop_assert!(digest.sources.is_sorted_by(|one, other| one.newest > other.newest));
        for source in &digest.sources {
            let of: Vec<&Counted> =
                counted.iter().filter(|one| (one.kind, &one.source) == (source.kind, &source.source)).collect();
            prop_assert_eq!(of.len() as u64, source.count);
            prop_assert_eq!(of.last().unwrap().place, source.newest);
        }
        if let (Some(last), Some(first)) = (counted.last(), digest.sources.first()) {
            prop_assert_eq!(first.newest, last.place);
        }
    }

    #[test]
    fn a_position_is_read_as_it_was_written(place in 0..i64::MAX, ring in 0..i64::MAX) {
        let cursor = InboxCursor { place, ring };
        prop_assert_eq!(InboxCursor::parse(&cursor.to_string()), Some(cursor));
        prop_assert_eq!(InboxCursor::parse(&place.to_string()), Some(InboxCursor { place, ring: 0 }));
    }

    #[test]
    fn no_text_is_a_position_by_accident(text in "[0-9.+ -]{0,6}|.{0,8}") {
        if let Some(cursor) = InboxCursor::parse(&text) {
            prop_assert!(cursor.place >= 0 && cursor.ring >= 0);
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
        }
    }

    #[test]
    fn metadata_asks_for_a_level_by_its_own_member_only(asked in prop::option::of(level()), other in ".{0,20}") {
        let mut metadata = json!({ "note": other, "nested": { "attention": "wake" } });
        if let Some(asked) = asked {
            metadata["attention"] = json!(asked);
        }
        prop_assert_eq!(asked_in(&metadata.to_string()), asked);
        prop_assert_eq!(asked_in(&json!({ "attention": [other] }).to_string()), None);
    }
}

#[test]
fn settings_say_what_is_wrong() {
    let hours = |from: &str, to: &str, zone: &str| QuietHours {
        from: from.to_owned(),
        to: to.to_owned(),
        time_zone: zone.to_owned(),
        except: Vec::new(),
    };
    for (hours, word) in [
        (hours("22:00", "22:00", "UTC"), "same time"),
        (hours("7:00", "22:00", "UTC"), "`7:00`"),
        (hours("24:00", "22:00", "UTC"), "`24:00`"),
        (hours("22:00", "07:60", "UTC"), "`07:60`"),
        (hours("22:00", "07:00", "Berlin"), "`Berlin`"),
    ] {
        let fault = Settings { quiet_hours: Some(hours), ..Settings::default() }.check().unwrap_err();
        assert!(fault.message.contains(word), "{}", fault.message);
    }
    let attention = BTreeMap::from([("mails".to_owned(), Attention::Wake)]);
    assert!(Settings { attention, ..Settings::default() }.check().unwrap_err().message.contains("mails"));
    assert!(Settings { rearm_seconds: Some(9), ..Settings::default() }.check().is_err());
    assert!(Settings { may_wake: Some(vec!["*".to_owned()]), ..Settings::default() }.check().is_err());
}
