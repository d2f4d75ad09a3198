//! Notifications: nothing is told in quiet hours or too early, a digest follows the clock on the wall, and the words of agents are
//! plain text on one line, whatever they are.

use chrono::{TimeDelta, Timelike as _};
use entente_domain::clock::Timestamp;
use entente_domain::egress::Allowed;
use entente_domain::inbox::quiet::QuietHours;
use entente_domain::notifications::forms::{Content, Message, WaitingItem, line};
use entente_domain::notifications::times::Occasion;
use entente_domain::notifications::{Address, ContactKind, ContactSettings, Digest, Topic, ntfy_topic};
use proptest::prelude::*;
use serde_json::Value;

use crate::any::moment;

const ZONES: [&str; 5] = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"];

fn time() -> impl Strategy<Value = String> {
    (0..24_u32, 0..60_u32).prop_map(|(hour, minute)| format!("{hour:02}:{minute:02}"))
}

fn zone() -> impl Strategy<Value = String> {
    prop::sample::select(ZONES.to_vec()).prop_map(str::to_owned)
}

fn hours() -> impl Strategy<Value = QuietHours> {
    (time(), time(), zone()).prop_filter("they last a while", |(from, to, _)| from != to).prop_map(
        |(from, to, time_zone)| QuietHours { from, to, time_zone, except: vec!["agent.fire".to_owned()] },
    )
}

fn digest() -> impl Strategy<Value = Digest> {
    (prop::collection::vec(time(), 1..5), zone()).prop_map(|(at, time_zone)| Digest {
        topics: vec![Topic::Decision],
        at,
        time_zone,
    })
}

fn settings() -> impl Strategy<Value = ContactSettings> {
    let remind = prop::option::of(60..90_000_u32);
    (prop::option::of(digest()), prop::option::of(hours()), 0..90_000_u32, remind).prop_map(
        |(digest, quiet_hours, after_seconds, remind_seconds)| ContactSettings {
            topics: if digest.is_some() { vec![Topic::Inbox] } else { vec![Topic::Decision] },
            digest,
            quiet_hours,
            after_seconds,
            remind_seconds,
            quotes: None,
        },
    )
}

fn occasion(agent: &str, deadline: Option<Timestamp>) -> Occasion<'_> {
    Occasion { topic: Topic::Decision, agent: Some(agent), deadline }
}

fn items() -> impl Strategy<Value = Vec<WaitingItem>> {
    let topic = prop::sample::select(Topic::ALL.to_vec());
    let item = (
        topic,
        prop::option::of(any::<String>()),
        prop::option::of(any::<String>()),
        prop::option::of(moment()),
    );
    let item = item.prop_map(|(topic, quote, agent, deadline)| WaitingItem {
        topic,
        quote,
        agent,
        deadline,
        path: "/inbox/bm_1".to_owned(),
    });
    prop::collection::vec(item, 1..60)
}

/// Whether a text is on one line, and shows nothing else than it says.
fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| {
        c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c)
    })
}

/// Returns the texts of a JSON value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(members) => members.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

proptest! {
    #[test]
    fn nothing_is_told_in_quiet_hours_or_too_early(settings in settings(), now in moment(), deadline in prop::option::of(moment())) {
        prop_assert!(settings.check().is_ok());
        let earliest = now + TimeDelta::seconds(i64::from(settings.after_seconds));
        let is_quiet = |at| settings.quiet_hours.as_ref().is_some_and(|hours| hours.contain(at));
        for agent in ["agent.a", "agent.fire"] {
            let due = settings.due(occasion(agent, deadline), now).unwrap();
            prop_assert!(due >= earliest && (agent == "agent.fire" || !is_quiet(due)));
            if let Some(again) = settings.reminded(occasion(agent, deadline), due) {
                prop_assert!(again > due && (agent == "agent.fire" || !is_quiet(again)));
            }
        }
        let other = Occasion { topic: Topic::Approval, ..occasion("agent.a", None) };
        prop_assert_eq!(settings.due(other, now), None, "nobody asked for it");
    }

    #[test]
    fn what_would_lapse_before_the_digest_is_told_at_once(digest in digest(), now in moment(), seconds in 1..200_000_i64) {
        let settings = ContactSettings { topics: Vec::new(), digest: Some(digest.clone()), ..ContactSettings::default() };
        let deadline = now + TimeDelta::seconds(seconds);
        let due = settings.due(occasion("agent.a", Some(deadline)), now).unwrap();
        prop_assert!(due == now || due < deadline);
        prop_assert_eq!(due == now, deadline <= digest.next_after(now));
    }

    #[test]
    fn a_digest_follows_the_clock_on_the_wall(digest in digest(), at in moment()) {
        let next = digest.next_after(at);
        let zone: chrono_tz::Tz = digest.time_zone.parse().unwrap();
        let wall = |at: Timestamp| {
            let local = at.with_timezone(&zone);
            (local.date_naive(), format!("{:02}:{:02}", local.hour(), local.minute()))
        };
        prop_assert!(next > at && next - at <= TimeDelta::hours(49));
        let ((before_day, before), (day, now)) = (wall(next - TimeDelta::minutes(1)), wall(next));
        // Exactly at one of its times, or at the first minute after one that the change of clocks left out.
        let is_left_out = day == before_day && digest.at.iter().any(|time| before < *time && *time < now);
        prop_assert!(digest.at.contains(&now) || is_left_out || day != before_day, "{} {}", before, now);
    }

    #[test]
    fn a_line_is_plain_and_short(text in any::<String>(), most in 1..400_usize) {
        let short = line(&text, most);
        prop_assert!(is_plain(&short) && short.chars().count() <= most);
        prop_assert_eq!(line(&short, most), short.clone());
        if text.is_ascii() && !text.bytes().any(|byte| byte.is_ascii_control()) {
            let words: Vec<&str> = text.split_whitespace().collect();
            prop_assert!(words.join(" ").chars().count() > most || short == words.join(" "));
        }
    }

    #[test]
    fn words_of_agents_are_never_markup(items in items(), is_reminder in any::<bool>(), quotes in any::<bool>(), now in moment()) {
        let content = Content::Waiting { items: &items, is_reminder };
        let message = Message { content, base: "https://entente.test", quotes, zone: chrono_tz::Tz::UTC, now };
        prop_assert!(is_plain(&message.subject()));
        prop_assert!(message.text().lines().all(is_plain));
        let slack = message.slack();
        prop_assert!(!slack["text"].as_str().unwrap().contains(['<', '>']));
        for block in slack["blocks"].as_array().unwrap() {
            // Markup is the server's own link alone.
            let own = "<https://entente.test/inbox/bm_1|Open>";
            let is_plain_text = block["text"]["type"] == "plain_text";
            prop_assert!(is_plain_text || block["elements"][0]["text"] == own, "{}", block);
            prop_assert!(block["text"]["text"].as_str().unwrap_or_default().chars().count() <= 3_000);
        }
        prop_assert!(slack["blocks"].as_array().unwrap().len() <= 50);
        let card = message.teams()["attachments"][0]["content"].clone();
        prop_assert!(card["body"].as_array().unwrap().iter().all(|block| block["type"] == "RichTextBlock"));
        prop_assert!(message.push().to_string().len() <= 3_900);
        if !quotes {
            let all = [message.slack(), message.teams(), message.ntfy("t"), message.push()];
            let said: Vec<&str> = all.iter().flat_map(texts).collect();
            let marked: Vec<String> = items.iter().filter_map(|item| item.quote.as_deref())
                .map(|quote| line(quote, 300)).filter(|quote| quote.chars().count() > 60).collect();
            prop_assert!(!marked.iter().any(|quote| said.iter().any(|text| text.contains(quote.as_str()))));
        }
    }

    #[test]
    fn mail_addresses_have_one_form(local in "[a-z0-9.+_-]{1,12}", domain in "[a-z0-9-]{1,8}(\\.[a-z]{2,5}){1,2}", junk in "[ \\r\\n,;<>()\"\u{e9}]") {
        let ok = |text: String| {
            Address { kind: ContactKind::Mail, text, push_keys: None }.check(&Allowed::default(), true).is_ok()
        };
        let is_dotted = local.starts_with('.') || local.ends_with('.') || local.contains("..");
        prop_assert_eq!(ok(format!("{local}@{domain}")), !is_dotted);
        let bad = [
            format!("{local}{junk}@{domain}"), format!("{local}@{domain}{junk}"), local.clone(), format!("@{domain}"),
            format!("{local}@"),
        ];
        prop_assert_eq!(bad.into_iter().find(|text| ok(text.clone())), None);
    }

    #[test]
    fn a_topic_is_the_end_of_its_url(topic in "[A-Za-z0-9_-]{1,64}") {
        let found = ntfy_topic(&format!("https://ntfy.example:8443/{topic}"));
        prop_assert_eq!(found, Some(("https://ntfy.example:8443".to_owned(), topic.clone())));
        prop_assert_eq!(ntfy_topic(&format!("https://ntfy.example/a/{topic}")), None);
        prop_assert_eq!(ntfy_topic(&format!("https://ntfy.example/{topic}?auth=x")), None);
    }
}
