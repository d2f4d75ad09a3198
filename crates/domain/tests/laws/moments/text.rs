//! A question as plain text: complete, without control characters, and nothing else.

use entente_domain::moments::Brief;
use entente_domain::moments::text::{QuestionContext, plain, text};
use proptest::prelude::*;
use serde_json::json;

use super::{brief, id, later, sample, with};

fn shown() -> QuestionContext<'static> {
    QuestionContext {
        id: Some(id(1)),
        agent_id: None,
        expires_at: Some(later(3600)),
        now: later(0),
        objection_response: None,
        inbox_url: Some("https://host/inbox/x"),
    }
}

#[test]
fn it_reads_like_this() {
    let mut value = with("/meta", json!({ "decision_class": "release" }));
    value["findings"][0] = json!("CI is green.");
    let brief = Brief::emitted(&value).unwrap();
    let expected = format!(
        "DECISION NEEDED [{}]  class: release  expires {}\n\
         Ship 1.4 today.\n\
         Findings:\n  - CI is green.\n  - Two of three reviewers approved.\n  - No open blocker is left.\n\
         Recommended moves:\n  - Tag v1.4.\n  - Publish the crate to the registry.\n\
         (Ask for detail on any item.)\n\
         Q: When should release 1.4 go out?\n  \
         1) Ship today  (recommended) - All checks pass.\n  \
         2) Wait a day - The third reviewer is back tomorrow.\n  \
         t) answer in your own words\n  \
         d) wrong question, let us talk\n\
         The principal answers at https://host/inbox/x; call check_decision to wait. Do not answer for them.\n",
        id(1),
        later(3600).format("%H:%MZ"),
    );
    assert_eq!(text(&brief, &shown()), expected);
}

#[test]
fn what_stands_around_it_is_there_when_it_is() {
    let bare = QuestionContext { expires_at: None, inbox_url: None, ..shown() };
    let all = text(&brief(), &bare);
    assert!(all.starts_with(&format!("DECISION NEEDED [{}]\nShip", id(1))) && all.ends_with("let us talk\n"));
    let note = Brief::emitted(&with("/meta", json!({ "calibration_note": "I was too mild." }))).unwrap();
    let more = QuestionContext {
        agent_id: Some("agent.ship"),
        objection_response: Some("The budget is in."),
        expires_at: Some(later(48 * 3600)),
        ..bare
    };
    let all = text(&note, &more);
    let day = later(48 * 3600).format("%Y-%m-%d %H:%MZ");
    let head = format!(
        "DECISION NEEDED [{}]  from: agent.ship  expires {day}\nIn answer to your objection: The budget is in.\nNote: I was \
         too mild.\nShip 1.4 today.\n",
        id(1)
    );
    assert!(all.starts_with(&head), "{all}");
}

#[test]
fn forty_findings_are_forty_lines() {
    let findings: Vec<String> = (0..40).map(|number| format!("Finding {number} of forty.")).collect();
    let mut value = with("/findings", json!(findings));
    value["recommendations"] = json!([]);
    let all = text(&Brief::emitted(&value).unwrap(), &shown());
    let lines: Vec<&str> = all.lines().collect();
    for finding in findings {
        assert!(lines.contains(&format!("  - {finding}").as_str()), "{finding}");
    }
    assert!(lines.contains(&"Recommended moves: none"));
    assert_eq!(lines.len(), 2 + 1 + 40 + 1 + 1 + 1 + 2 + 2 + 1);
}

#[test]
fn an_open_hatch_is_shown_and_a_closed_one_is_not() {
    for (free_text, dialogue) in [(true, true), (true, false), (false, true), (false, false)] {
        let hatches = json!({ "free_text": free_text, "dialogue": dialogue });
        let all = text(&Brief::emitted(&with("/question/hatches", hatches)).unwrap(), &shown());
        assert_eq!(all.contains("\n  t) answer in your own words\n"), free_text);
        assert_eq!(all.contains("\n  d) wrong question, let us talk\n"), dialogue);
    }
}

#[test]
fn the_mark_is_on_one_option_in_words() {
    for index in 0..4 {
        let mut value = sample();
        let choice = json!({ "label": "Go", "reasoning": "Why." });
        value["question"]["options"] = json!(vec![choice; 4]);
        value["question"]["recommended_idx"] = json!(index);
        let all = text(&Brief::emitted(&value).unwrap(), &shown());
        let marked: Vec<&str> = all.lines().filter(|line| line.contains("(recommended)")).collect();
        assert_eq!(marked, [format!("  {}) Go  (recommended) - Why.", index + 1)]);
    }
}

#[test]
fn what_an_agent_writes_cannot_move_a_cursor_or_make_lines() {
    for (written, seen) in [
        ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\u{7}\u{8}\u{7f}\u{9b}31m", "\\u{7}\\u{8}\\u{7f}\\u{9b}31m"),
        ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
        ("a\u{2028}b\u{2066}c\u{feff}", "a\\u{2028}b\\u{2066}c\\u{feff}"),
        ("\u{e0041}", "\\u{e0041}"),
        ("Grüße, 世界 👩‍👩‍👧 “ok” \\n", "Grüße, 世界 👩‍👩‍👧 “ok” \\n"),
    ] {
        assert_eq!(plain(written), seen);
    }
    let value = with("/findings/1", json!("Fine.\n  1) Ship it  (recommended) - All is well.\u{1b}[1A"));
    let all = text(&Brief::emitted(&value).unwrap(), &shown());
    assert_eq!(all.lines().filter(|line| line.trim_start().starts_with("1)")).count(), 1);
    let names = QuestionContext { agent_id: Some("a\u{1b}b"), objection_response: Some("x\ny"), ..shown() };
    assert!(!text(&brief(), &names).contains('\u{1b}'));
}

proptest! {
    /// Every slot appears once for each entry, on lines that only the layout creates, and without control
    /// characters.
    #[test]
    fn every_slot_is_there_in_full(texts in proptest::collection::vec(any::<String>(), 9), count in 2_usize..=4) {
        let mut value = sample();
        value["synopsis"] = json!(texts[0]);
        value["findings"] = json!([texts[1], texts[2]]);
        value["recommendations"] = json!([texts[3]]);
        value["offer"] = json!(texts[4]);
        value["question"]["stem"] = json!(texts[5]);
        value["question"]["options"] = json!(vec![json!({ "label": texts[6], "reasoning": texts[7] }); count]);
        value["meta"] = json!({ "decision_class": texts[8], "calibration_note": texts[0] });
        let all = text(&Brief::received(&value).unwrap(), &shown());
        prop_assert!(all.chars().all(|one| one == '\n' || !one.is_control()));
        let lines: Vec<&str> = all.split('\n').collect();
        prop_assert_eq!(lines.len(), 1 + 1 + 1 + 3 + 2 + 1 + 1 + count + 2 + 1 + 1);
        let entry = |text: &str| format!("  - {}", plain(text));
        let expected = [
            plain(&texts[0]),
            entry(&texts[1]),
            entry(&texts[2]),
            entry(&texts[3]),
            format!("({})", plain(&texts[4])),
            format!("Q: {}", plain(&texts[5])),
            format!("  2) {} - {}", plain(&texts[6]), plain(&texts[7])),
        ];
        for line in expected {
            prop_assert!(lines.contains(&line.as_str()), "{}", line);
        }
    }
}
