//! Valid and malformed questions, the two readers, and the digest.

use entente_domain::canonical;
use entente_domain::limits::{MOMENT_BYTES, MOMENT_LIST_ITEMS, MOMENT_TEXT_BYTES};
use entente_domain::moments::{Brief, Hatches};
use entente_domain::refusal::Code;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{brief, sample, with, without};

/// A changed sample, the place and kind of its fault, and whether a surface refuses it too.
type Case = (Value, &'static str, &'static str, bool);

/// Returns questions that every reader refuses.
fn malformed() -> Vec<Case> {
    let mut cases = Vec::new();
    for name in ["/synopsis", "/findings", "/recommendations", "/offer", "/question"] {
        cases.push((without(name), name, "missing", true));
    }
    for name in ["/question/stem", "/question/options", "/question/recommended_idx"] {
        cases.push((without(name), name, "missing", true));
    }
    for index in [json!("0"), json!(true), json!(null), json!(1.0), json!(0.5), json!([0]), json!(1e300)] {
        cases.push((with("/question/recommended_idx", index), "/question/recommended_idx", "int_type", true));
    }
    for index in [json!(-1), json!(2), json!(4), json!(i64::MIN), json!(u64::MAX)] {
        let place = "/question/recommended_idx";
        cases.push((with(place, index), place, "out_of_range", true));
    }
    for text in ["/synopsis", "/offer", "/question/stem", "/findings/1", "/recommendations/0"] {
        for other in [json!(null), json!(1), json!(["x"]), json!({})] {
            cases.push((with(text, other), text, "string_type", true));
        }
    }
    for list in ["/findings", "/recommendations", "/question/options"] {
        for other in [json!(null), json!("x"), json!({ "0": "x" })] {
            cases.push((with(list, other), list, "list_type", true));
        }
    }
    cases
}

/// Returns such questions with faults below `question`.
fn malformed_below() -> Vec<Case> {
    let mut cases = Vec::new();
    let choice = json!({ "label": "Go", "reasoning": "Why." });
    let place = "/question/options";
    cases.push((with(place, json!([])), place, "too_few", true));
    cases.push((with(place, json!([choice])), place, "too_few", true));
    cases.push((with(place, json!(vec![choice.clone(); 5])), place, "too_many", true));
    for (member, kind) in [("label", "missing"), ("reasoning", "missing")] {
        let mut one = choice.clone();
        one.as_object_mut().unwrap().remove(member);
        let place =
            if member == "label" { "/question/options/1/label" } else { "/question/options/1/reasoning" };
        cases.push((with("/question/options/1", one), place, kind, true));
    }
    cases.push((
        with("/question/options/0/label", json!(3)),
        "/question/options/0/label",
        "string_type",
        true,
    ));
    cases.push((with("/question/options/0", json!("Go")), "/question/options/0", "object_type", true));
    for flag in ["/question/hatches/free_text", "/question/hatches/dialogue"] {
        for other in [json!(null), json!(1), json!("true")] {
            cases.push((with(flag, other), flag, "bool_type", true));
        }
    }
    for (object, name) in [("/question", "object_type"), ("/question/hatches", "object_type")] {
        cases.push((with(object, json!(null)), object, name, true));
        cases.push((with(object, json!([])), object, name, true));
    }
    cases.push((with("/meta", json!(null)), "/meta", "object_type", true));
    cases.push((
        with("/meta", json!({ "decision_class": null })),
        "/meta/decision_class",
        "string_type",
        true,
    ));
    cases.push((
        with("/meta", json!({ "calibration_note": 1 })),
        "/meta/calibration_note",
        "string_type",
        true,
    ));
    for place in [
        "/extra",
        "/question/recommended",
        "/question/options/0/action_digest",
        "/question/hatches/other",
        "/Synopsis",
    ] {
        cases.push((with(place, json!("x")), place, "unknown", true));
    }
    cases.push((with("/meta", json!({ "class": "x" })), "/meta/class", "unknown", true));
    cases
}

/// Returns questions that an agent may not send but a surface still shows.
fn not_emitted() -> Vec<Case> {
    let mut cases = Vec::new();
    let texts = [
        "/synopsis",
        "/offer",
        "/question/stem",
        "/findings/0",
        "/recommendations/1",
        "/question/options/0/label",
        "/question/options/1/reasoning",
    ];
    for text in texts {
        for blank in ["", "  \n\t", "\u{a0}\u{3000}", "\u{200b}\u{feff}\u{2060}", "\u{ad}", "\u{3164}"] {
            cases.push((with(text, json!(blank)), text, "blank", false));
        }
        cases.push((with(text, json!("x".repeat(MOMENT_TEXT_BYTES + 1))), text, "too_long", false));
        cases.push((with(text, json!("a\0b")), text, "nul_character", false));
    }
    let many = vec!["One more."; MOMENT_LIST_ITEMS + 1];
    cases.push((with("/findings", json!(many)), "/findings", "too_many", false));
    cases.push((with("/recommendations", json!(many)), "/recommendations", "too_many", false));
    let much = vec!["x".repeat(MOMENT_TEXT_BYTES); MOMENT_BYTES / MOMENT_TEXT_BYTES];
    cases.push((with("/findings", json!(much)), "", "too_large", false));
    cases.push((with("/meta", json!({ "decision_class": " " })), "/meta/decision_class", "blank", false));
    let class = json!({ "decision_class": "x".repeat(201) });
    cases.push((with("/meta", class), "/meta/decision_class", "too_long", false));
    cases.push((
        with("/meta", json!({ "decision_class": "a\nb" })),
        "/meta/decision_class",
        "control",
        false,
    ));
    cases.push((with("/meta", json!({ "calibration_note": "" })), "/meta/calibration_note", "blank", false));
    cases
}

#[test]
fn a_malformed_question_is_refused_at_its_place() {
    for (value, place, kind, surface_minds) in
        malformed().into_iter().chain(malformed_below()).chain(not_emitted())
    {
        let refusal = Brief::emitted(&value).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidMoment);
        let faults: Vec<_> =
            refusal.errors.iter().map(|fault| (fault.loc[2..].join("/"), fault.kind.clone())).collect();
        assert_eq!(faults, [(place.trim_start_matches('/').to_owned(), kind.to_owned())], "{value}");
        assert_eq!(refusal.errors[0].loc[..2], ["body", "binding_moment"]);
        assert_eq!(Brief::received(&value).is_err(), surface_minds, "{place} {kind}");
        assert_eq!(serde_json::from_value::<Brief>(value).is_err(), surface_minds, "nobody gets around it");
    }
}

#[test]
fn what_is_no_object_is_no_question() {
    for value in [json!(null), json!([]), json!("x"), json!(1), json!([sample()])] {
        assert_eq!(Brief::emitted(&value).unwrap_err().errors[0].kind, "object_type");
        assert_eq!(Brief::received(&value).unwrap_err().to_string(), "the question must be an object");
    }
}

#[test]
fn every_fault_is_named_at_once() {
    let mut value = without("/offer");
    value["synopsis"] = json!("");
    value["question"]["recommended_idx"] = json!(9);
    value["more/of~it"] = json!(1);
    let refusal = Brief::emitted(&value).unwrap_err();
    let shown = serde_json::to_value(&refusal.errors).unwrap();
    let mut pointers: Vec<&str> =
        shown.as_array().unwrap().iter().map(|fault| fault["pointer"].as_str().unwrap()).collect();
    pointers.sort_unstable();
    let expected = [
        "/binding_moment/more~1of~0it",
        "/binding_moment/offer",
        "/binding_moment/question/recommended_idx",
        "/binding_moment/synopsis",
    ];
    assert_eq!(pointers, expected);
    assert!(refusal.message.contains("4 places"), "{}", refusal.message);
    let Err(malformed) = Brief::received(&value) else { panic!("it is malformed") };
    for part in ["/offer is missing", "/question/recommended_idx is no option's index", "; "] {
        assert!(malformed.0.contains(part), "{malformed}");
    }
}

#[test]
fn faults_without_end_are_not_all_named() {
    let mut value = sample();
    for number in 0..5_000 {
        value[format!("extra{number}")] = json!(1);
    }
    assert_eq!(Brief::emitted(&value).unwrap_err().errors.len(), 100);
}

#[test]
fn a_diagnostic_cannot_move_a_cursor() {
    let mut value = sample();
    value["\u{1b}[2J\u{202e}"] = json!(1);
    let said = Brief::received(&value).unwrap_err().to_string();
    assert_eq!(said, "/\\u{1b}[2J\\u{202e} is no member of a question (§4)");
}

#[test]
fn a_member_that_is_there_twice_is_a_fault() {
    let text = sample().to_string();
    assert_eq!(Brief::emitted_text(&text).unwrap(), brief());
    assert_eq!(Brief::received_text(&text).unwrap(), brief());
    let twice = [
        text.replacen("\"synopsis\":", "\"synopsis\":\"Wait.\",\"synopsis\":", 1),
        text.replacen("\"recommended_idx\":0", "\"recommended_idx\":0,\"recommended_idx\":1", 1),
        text.replacen("\"label\":", "\"label\":\"x\",\"label\":", 1),
        text.replacen("\"dialogue\":true", "\"dialogue\":true,\"dialogue\":true", 1),
    ];
    for twice in twice {
        assert_ne!(twice, text);
        assert_eq!(Brief::emitted_text(&twice).unwrap_err().code, Code::InvalidMoment);
        assert!(Brief::received_text(&twice).unwrap_err().0.contains("twice"));
    }
    for none in ["", "{", "nul", "{\"synopsis\":1"] {
        assert_eq!(Brief::emitted_text(none).unwrap_err().errors[0].kind, "json");
        assert!(Brief::received_text(none).is_err());
    }
}

#[test]
fn an_index_with_a_fraction_is_none_in_text_either() {
    let text = sample().to_string();
    for index in ["1.0", "1e0", "0.0", "-0", "99999999999999999999"] {
        let text = text.replace("\"recommended_idx\":0", &format!("\"recommended_idx\":{index}"));
        assert!(Brief::received_text(&text).is_err(), "{index}");
    }
}

#[test]
fn hatches_that_are_left_out_are_open() {
    let whole = brief();
    let value = without("/question/hatches");
    let filled = Brief::emitted(&value).unwrap();
    assert_eq!(filled, whole);
    assert_eq!(filled.digest(), whole.digest(), "they are filled in before the digest");
    assert!(Brief::received(&value).is_err(), "on the wire they are there");
    let one = json!({ "free_text": true, "dialogue": false });
    let closed = Brief::emitted(&with("/question/hatches", one)).unwrap();
    assert_eq!(closed.question.hatches, Hatches { free_text: true, dialogue: false });
}

/// §5.8: both members are REQUIRED. §11.5: nothing is repaired.
#[test]
fn half_of_the_hatches_is_no_slot() {
    let empty = with("/question/hatches", json!({}));
    let halves = [
        (without("/question/hatches/dialogue"), vec!["/question/hatches/dialogue"]),
        (without("/question/hatches/free_text"), vec!["/question/hatches/free_text"]),
        (empty, vec!["/question/hatches/free_text", "/question/hatches/dialogue"]),
    ];
    for (value, places) in halves {
        let refusal = Brief::emitted(&value).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidMoment);
        let found: Vec<(String, &str)> = refusal
            .errors
            .iter()
            .map(|error| (format!("/{}", error.loc[2..].join("/")), error.kind.as_str()))
            .collect();
        let wanted: Vec<(String, &str)> =
            places.into_iter().map(|place| (place.to_owned(), "missing")).collect();
        assert_eq!(found, wanted);
        assert!(Brief::received(&value).is_err());
    }
}

#[test]
fn what_may_be_absent_may_be() {
    assert!(brief().meta.is_none());
    let meta = Brief::emitted(&with("/meta", json!({}))).unwrap();
    assert_eq!((meta.decision_class(), meta.calibration_note()), (None, None));
    assert_eq!(meta.value()["meta"], json!({}), "an empty one stays");
    for list in ["/findings", "/recommendations"] {
        assert!(Brief::emitted(&with(list, json!([]))).is_ok(), "how many is recommended, not required");
    }
    assert!(Brief::emitted(&with("/findings", json!(vec!["One of forty."; 40]))).is_ok());
    let longest = with("/synopsis", json!("x".repeat(MOMENT_TEXT_BYTES)));
    assert!(Brief::emitted(&longest).is_ok());
    for count in 2..=4 {
        let options = vec![json!({ "label": "Go", "reasoning": "Why." }); count];
        assert!(Brief::received(&with("/question/options", json!(options))).is_ok());
    }
}

/// Computed by another program (Python's `json` with sorted keys and no blanks, and `hashlib`).
#[test]
fn digests_are_known() {
    let known = |value: &Value| Brief::received(value).unwrap().digest();
    assert_eq!(known(&sample()), "sha256:9449efb734c7ed2d9df9a9460c68bef967896eb773283498fb43b898b5ff24bb");
    let meta = json!({
        "decision_class": "rélease",
        "calibration_note": "I said “soon” — “now” is right. \u{1}\n😀"
    });
    assert_eq!(
        known(&with("/meta", meta)),
        "sha256:0caa948d0a9b898f01ca524c6c5d3980fc0adb78916eb88fbab8de5cc0f38dc9"
    );
    assert_eq!(
        known(&with("/meta", json!({}))),
        "sha256:0bde1e4b10599f2d1244c345880c1c64494a63a98d5db6fd3b45b32e292bc0c2"
    );
}

proptest! {
    /// A question is read and written unchanged, so its digest is the same for everyone.
    #[test]
    fn a_question_is_read_and_written_the_same(
        texts in proptest::collection::vec(any::<String>(), 6),
        findings in proptest::collection::vec(any::<String>(), 0..5),
        count in 2_usize..=4,
        pick in 0_usize..4,
        hatches: (bool, bool),
        meta in proptest::option::of((proptest::option::of(any::<String>()), proptest::option::of(any::<String>()))),
    ) {
        let mut value = sample();
        value["synopsis"] = json!(texts[0]);
        value["findings"] = json!(findings);
        value["offer"] = json!(texts[1]);
        value["question"]["stem"] = json!(texts[2]);
        value["question"]["options"] = json!(vec![json!({ "label": texts[3], "reasoning": texts[4] }); count]);
        value["question"]["recommended_idx"] = json!(pick % count);
        value["question"]["hatches"] = json!({ "free_text": hatches.0, "dialogue": hatches.1 });
        if let Some((class, note)) = meta {
            value["meta"] = json!({});
            if let Some(class) = class { value["meta"]["decision_class"] = json!(class); }
            if let Some(note) = note { value["meta"]["calibration_note"] = json!(note); }
        }
        let read = Brief::received(&value).unwrap();
        prop_assert_eq!(read.value(), value.clone());
        let second = serde_jcs::to_string(&value).unwrap();
        prop_assert_eq!(read.digest(), format!("sha256:{}", canonical::hex(&canonical::sha256(&second))));
        prop_assert_eq!(Brief::received_text(&second).unwrap(), read.clone());
        // A question that an agent may ask can be shown, and both readers get the same.
        if let Ok(emitted) = Brief::emitted(&value) {
            prop_assert_eq!(emitted, read);
        }
    }

    /// No JSON makes the readers panic, and every emitted question can be received.
    #[test]
    fn any_json_is_read_or_refused(value in crate::any::json(), place in 0_usize..8) {
        let places =
            ["/synopsis", "/findings", "/question", "/question/options", "/question/options/0", "/question/hatches", "/meta", "/question/recommended_idx"];
        for value in [value.clone(), with(places[place], value)] {
            if let Ok(brief) = Brief::emitted(&value) {
                prop_assert_eq!(Brief::received(&brief.value()).unwrap(), brief);
            }
            let _ = Brief::received(&value);
        }
    }
}
