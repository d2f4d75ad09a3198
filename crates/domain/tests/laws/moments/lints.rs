//! A corpus of questions: for each lint some that trip it, and similar ones that do not. It shows what the lints
//! look for, not how often they are right.

use std::collections::BTreeSet;

use entente_domain::moments::lints::LINTS;
use entente_domain::moments::{Brief, Level, lint};
use serde_json::{Value, json};

use super::{brief, sample, with};

/// Returns the lints of a question as code and place.
fn tripped(value: &Value) -> Vec<(&'static str, String)> {
    let brief = Brief::emitted(value).unwrap();
    lint(&brief).into_iter().map(|lint| (lint.code, lint.at)).collect()
}

fn trips(value: &Value, code: &str, at: &str) {
    let tripped = tripped(value);
    assert!(
        tripped.iter().any(|(one, place)| *one == code && place == at),
        "{code} {at}: {tripped:?}\n{value}"
    );
}

fn passes(value: &Value, code: &str) {
    let tripped = tripped(value);
    assert!(tripped.iter().all(|(one, _)| *one != code), "{code}: {tripped:?}\n{value}");
}

/// Asserts that the `bad` values of a place trip a lint and the `good` ones do not.
fn corpus(code: &str, place: &str, bad: &[&str], good: &[&str]) {
    for text in bad {
        trips(&with(place, json!(text)), code, place);
    }
    for text in good {
        passes(&with(place, json!(text)), code);
    }
}

fn options(labels: &[&str]) -> Value {
    let options: Vec<Value> =
        labels.iter().map(|label| json!({ "label": label, "reasoning": "So it is." })).collect();
    with("/question/options", json!(options))
}

#[test]
fn a_good_question_trips_nothing() {
    assert_eq!(tripped(&sample()), []);
}

#[test]
fn every_lint_is_a_word_with_a_note() {
    let codes: BTreeSet<&str> = LINTS.iter().map(|(code, ..)| *code).collect();
    assert_eq!(codes.len(), LINTS.len());
    for (code, _, note) in LINTS {
        assert!(code.bytes().all(|byte| byte.is_ascii_lowercase() || b"._".contains(&byte)), "{code}");
        assert!(note.contains('§'), "{code}");
    }
    let lint = &lint(&Brief::emitted(&with("/synopsis", json!("It depends."))).unwrap())[0];
    assert_eq!((lint.code, lint.level), ("synopsis.hedge_phrase", Level::Warn));
    let wire = json!({ "code": lint.code, "level": "warn", "at": "/synopsis", "note": lint.note });
    assert_eq!(serde_json::to_value(lint).unwrap(), wire);
}

#[test]
fn a_synopsis_is_one_sentence() {
    corpus(
        "synopsis.not_one_sentence",
        "/synopsis",
        &[
            "Ship 1.4 today. The reviewers agree.",
            "Ship today! We are late.",
            "Ship it today (all agree.) Then rest.",
            "Ship 1.4. Then tag it today.",
        ],
        &[
            "Ship 1.4 today",
            "Ship 1.4 today, e.g. Before noon.",
            "Ship it to the U.S. Market today.",
            "Ship no. 5 today, as Dr. Who says.",
            "Ship v1.4.2 today, within 3.5 hours.",
            "Ship today ... and rest.",
            "Liefern wir heute… Änderungen übermorgen übernächste Überprüfung. Öffnen wir später für ältere Gerätetreiber.",
        ],
    );
}

#[test]
fn a_synopsis_is_no_question() {
    corpus(
        "synopsis.is_question",
        "/synopsis",
        &["Ship 1.4 today?", "Should we ship? I think so.", "今日出荷しますか？"],
        &["Ship 1.4 today.", "The question is settled: ship today."],
    );
}

#[test]
fn a_synopsis_commits() {
    corpus(
        "synopsis.hedge_phrase",
        "/synopsis",
        &[
            "It depends on what you want to ship.",
            "Shipping today could go either way.",
            "Ship today or not: it is your call.",
            "I need more information before we ship.",
            "We may want to ship today.",
            "I'm not sure that we can ship today.",
            "IT’S HARD TO SAY whether to ship.",
        ],
        &[
            // Statements of facts may contain modals, and things may depend on things.
            "Ship today, because the vendor may close the window.",
            "Ship today; it could rain tomorrow.",
            "Ship today, although the build depends on a mirror.",
            "Ship today: the call with your vendor went well.",
            "Ship the surety bond today.",
        ],
    );
}

#[test]
fn words_and_mark_agree() {
    let code = "synopsis.favours_other_option";
    corpus(
        code,
        "/synopsis",
        &["Waiting a day is right.", "We should wait until the third reviewer is back."],
        &["Ship 1.4 today.", "Shipping today is right.", "Postpone it.", "Ship today and do not wait."],
    );
    let mut other = sample();
    other["question"]["recommended_idx"] = json!(1);
    trips(&other, code, "/synopsis");
    other["synopsis"] = json!("Wait a day.");
    passes(&other, code);
}

#[test]
fn a_synopsis_has_words_of_the_mark() {
    corpus(
        "synopsis.no_overlap_with_recommended",
        "/synopsis",
        &["Release 1.4 goes out now.", "Do it."],
        &["Ship 1.4 today.", "1.4 is shipped today.", "Waiting a day is right."],
    );
}

#[test]
fn findings_are_few_short_and_new() {
    for (count, trips_it) in [(0, true), (2, true), (3, false), (6, false), (7, true), (40, true)] {
        let findings: Vec<String> = (0..count).map(|number| format!("Suite {number} is green.")).collect();
        let value = with("/findings", json!(findings));
        if trips_it {
            trips(&value, "findings.count", "/findings");
        } else {
            passes(&value, "findings.count");
        }
        passes(&value, "findings.duplicate");
    }
    corpus("findings.long", "/findings/1", &[&"so ".repeat(101)], &[&"x".repeat(300)]);
    corpus(
        "findings.restates_synopsis",
        "/findings/0",
        &["1.4 should be shipped today.", "We ship 1.4 today.", "Today, 1.4 ships!"],
        &["CI is green today.", "Ship 1.5 today.", "The registry was down today.", "Today."],
    );
    corpus(
        "findings.duplicate",
        "/findings/2",
        &["On every platform, CI is green.", "ci is green on every platform", "CI is green!"],
        &[
            "CI was red on one platform yesterday.",
            "CI is slow.",
            "Three of three reviewers approved in 2 days.",
        ],
    );
    let numbered =
        json!(["Suite 1 passed on Linux.", "Suite 2 passed on Linux.", "Suite 3 passed on Linux."]);
    passes(&with("/findings", numbered), "findings.duplicate");
    let same = json!(["すべて成功。", "レビュー済み。", "すべて成功"]);
    trips(&with("/findings", same), "findings.duplicate", "/findings/2");
}

#[test]
fn recommendations_are_moves() {
    for (count, trips_it) in [(0, true), (1, true), (2, false), (4, false), (5, true)] {
        let value = with("/recommendations", json!(vec!["Tag v1.4."; count]));
        if trips_it {
            trips(&value, "recommendations.count", "/recommendations");
        } else {
            passes(&value, "recommendations.count");
        }
    }
    corpus(
        "recommendations.consideration",
        "/recommendations/0",
        &[
            "Consider the trade-offs.",
            "Weigh cost against speed.",
            "Evaluate a rollback.",
            "Exploring other registries.",
            "Think about the reviewers.",
            "Keep in mind that it is Friday.",
        ],
        &[
            "Tag v1.4.",
            "Send the considered plan to Ada.",
            "Keep the old registry.",
            "Reflect the change in the docs.",
            "Überlegen wir es uns größer für später.",
        ],
    );
}

#[test]
fn a_stem_does_not_lean() {
    corpus(
        "stem.leading_phrase",
        "/question/stem",
        &[
            "Shouldn't we ship today?",
            "Shouldn’t we ship today?",
            "Surely 1.4 goes out today?",
            "Is it obviously time?",
            "Shall 1.4 go out, as recommended?",
            "1.4 goes out today, right?",
        ],
        &[
            "When should release 1.4 go out?",
            "Should the button be on the left or on the right?",
            "Should the staged disbursement be made?",
            "Which course should we take?",
        ],
    );
    corpus(
        "stem.names_only_recommended",
        "/question/stem",
        &["Should 1.4 ship?", "May we ship it today?"],
        &["When should it go out?", "Should we ship today or wait?", "Should it wait?", "出荷しますか。"],
    );
}

#[test]
fn hatches_and_names_are_no_options() {
    for label in [
        "Other",
        "other…",
        "Something else",
        "None of the above",
        "Let’s discuss",
        "Let us talk first",
        "Other (please say)",
    ] {
        trips(&options(&["Ship today", label]), "options.duplicates_hatch", "/question/options/1/label");
    }
    for label in
        ["Use the other registry", "Other vendor", "Discuss it with legal on Monday", "Talk to the vendor"]
    {
        passes(&options(&["Ship today", label]), "options.duplicates_hatch");
    }
    for label in ["SHIP TODAY", "Ship today.", "Ｓｈｉｐ today", "ship\u{200b} today", "Ѕhір tоdаy"]
    {
        trips(&options(&["Ship today", label]), "options.duplicate_labels", "/question/options/1/label");
    }
    for label in ["Ship tonight", "Ship today, tag tomorrow", "👍"] {
        passes(&options(&["Ship today", label]), "options.duplicate_labels");
    }
    passes(&options(&["👍", "👎"]), "options.duplicate_labels");
    passes(&options(&["+1", "−1"]), "options.duplicate_labels");
}

#[test]
fn an_option_does_not_mark_itself() {
    for (member, text) in [("label", "Wait a day (Recommended)"), ("reasoning", "The recommended option.")] {
        let place = format!("/question/options/1/{member}");
        trips(&with(&place, json!(text)), "options.marks_itself", &place);
        passes(&with(&place, json!("The vendor recommended a day.")), "options.marks_itself");
    }
    let place = "/question/options/0/reasoning";
    trips(&with(place, json!("One.\nTwo.")), "options.reasoning_lines", place);
    passes(&with(place, json!("One; two.\n")), "options.reasoning_lines");
}

#[test]
fn a_closed_hatch_is_said() {
    for hatches in
        [json!({ "free_text": false, "dialogue": true }), json!({ "free_text": true, "dialogue": false })]
    {
        trips(&with("/question/hatches", hatches), "hatches.closed", "/question/hatches");
    }
    passes(&sample(), "hatches.closed");
}

#[test]
fn other_languages_are_not_judged_by_english_words() {
    let mut value = sample();
    value["synopsis"] = json!("Мы выпускаем 1.4 сегодня. Surely it depends.");
    value["recommendations"] = json!(["Подумать: consider.", "Выпустить."]);
    value["question"]["stem"] = json!("Когда выпускаем, surely?");
    assert_eq!(tripped(&value), []);
}

/// Lints are kept when a question is scrubbed.
#[test]
fn a_lint_repeats_nothing_of_the_question() {
    let mut value = sample();
    value["synopsis"] = json!("It depends on xyzzy?");
    value["findings"] = json!(["Xyzzy.", "xyzzy"]);
    value["question"]["options"][1]["label"] = json!("Xyzzy (recommended)");
    let lints = lint(&Brief::emitted(&value).unwrap());
    assert!(lints.len() > 4, "{lints:?}");
    assert!(!format!("{lints:?}").to_lowercase().contains("xyzzy"));
    assert_eq!(lint(&brief()), []);
}

/// A question of the maximum size does not keep a server busy.
#[test]
fn the_largest_question_is_judged_at_once() {
    let word =
        |number: usize, word: usize| ["w", &((number * 31 + word * 7) % 997).to_string(), " "].concat();
    let finding = |number: usize| (0..115).map(|at| word(number, at)).collect::<String>();
    let findings: Vec<String> = (0..100).map(finding).collect();
    let brief = Brief::emitted(&with("/findings", json!(findings))).unwrap();
    let began = std::time::Instant::now();
    let lints = lint(&brief);
    assert!(lints.iter().filter(|lint| lint.code == "findings.long").count() == 100);
    assert!(began.elapsed().as_secs() < 5, "{:?}, of an unoptimised build", began.elapsed());
}
