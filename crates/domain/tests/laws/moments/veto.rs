//! The effects of a refusal on an agent: the table, and that only the principal's word ends them.

use entente_domain::ids::MomentId;
use entente_domain::moments::{
    Brief, Moment, MomentState, Speaker, Vetoed, after_end, is_same, judge, require_new,
};
use entente_domain::refusal::{Code, Refusal};
use proptest::prelude::*;
use serde_json::json;

use super::{
    ADA, AGENT, BOB, answered, asked, asking, brief, id, is_refused, later, option, person, refusal_of, says,
    vetoed, with,
};

const RESPONSE: Option<&str> = Some("The budget is in now.");

/// A refused question.
struct Refused {
    id: MomentId,
    brief: Brief,
    digest: String,
}

fn refused(number: u128, brief: Brief) -> Refused {
    Refused { id: id(number), digest: brief.digest(), brief }
}

impl Refused {
    fn veto(&self, deliberated: bool) -> Vetoed<'_> {
        Vetoed { id: self.id, brief: Some(&self.brief), digest: &self.digest, deliberated, superseded: false }
    }
}

fn codes(outcome: Result<Vec<entente_domain::moments::Lint>, Refusal>) -> Vec<(&'static str, String)> {
    outcome.unwrap().into_iter().map(|lint| (lint.code, lint.at)).collect()
}

fn other() -> Brief {
    asking("Who pays for the fair in Lisbon?", &["The team", "The sponsor"])
}

#[test]
fn without_a_refused_question_anything_may_be_asked() {
    for supersedes in [None, Some(id(5))] {
        for response in [None, RESPONSE] {
            assert_eq!(judge(&brief(), supersedes, response, &[]).unwrap(), []);
        }
    }
}

#[test]
fn an_objection_is_answered_first() {
    let refused = refused(1, brief());
    let (own, another) = (Some(refused.id), Some(id(99)));
    // supersedes, response, deliberated, passes
    let table = [
        (None, None, false, false),
        (None, RESPONSE, true, false),
        (another, RESPONSE, true, false),
        (own, None, true, false),
        (own, Some(" \u{200b}\n"), true, false),
        (own, Some(""), true, false),
        (own, RESPONSE, false, false),
        (own, RESPONSE, true, true),
    ];
    for (supersedes, response, deliberated, passes) in table {
        let outcome = judge(&other(), supersedes, response, &[refused.veto(deliberated)]);
        if passes {
            assert_eq!(codes(outcome), []);
        } else {
            is_refused(outcome, Code::DeliberationRequired);
        }
    }
}

#[test]
fn the_same_question_does_not_come_back() {
    let refused = refused(1, brief());
    let stem = "When should release 1.4 go out?";
    let labels = ["Ship today", "Wait a day"];
    let mut with_other_words = with("/synopsis", json!("Ship today, I say."));
    with_other_words["question"]["recommended_idx"] = json!(1);
    with_other_words["findings"] = json!(["Another finding."]);
    let same = [
        brief(),
        Brief::emitted(&with_other_words).unwrap(),
        asking("WHEN SHOULD RELEASE 1.4 GO OUT", &labels),
        asking("when should release 1.4 go out?!", &labels),
        asking("When, should — release “1.4” go-out?", &labels),
        asking("Ｗｈｅｎ should release 1.4 go out？", &labels),
        asking("When should\u{a0}release  1.4\ngo out?", &labels),
        asking("Wh\u{200b}en sho\u{ad}uld release 1.4 go out?", &labels),
        asking(stem, &["Wait a day", "Ship today"]),
        asking(stem, &["WAIT A DAY!", "ship, today", "Ship today."]),
    ];
    for asked in same {
        for superseded in [false, true] {
            for (supersedes, response) in
                [(None, None), (Some(refused.id), RESPONSE), (Some(id(9)), RESPONSE)]
            {
                let veto = Vetoed { superseded, ..refused.veto(true) };
                let outcome = judge(&asked, supersedes, response, &[veto]);
                is_refused(outcome, Code::SameQuestion);
            }
        }
    }
}

#[test]
fn case_folds_in_every_script() {
    let pairs = [
        ("Straße sperren?", "STRASSE SPERREN?"),
        ("Ὀδυσσεύς?", "ὈΔΥΣΣΕΎΣ?"),
        ("Запуск?", "ЗАПУСК"),
        ("ﬁx it?", "FIX IT?"),
        ("e\u{301}clair?", "\u{c9}CLAIR?"),
    ];
    for (one, two) in pairs {
        let refused = refused(1, asking(one, &["A", "B"]));
        is_refused(judge(&asking(two, &["b", "a"]), None, None, &[refused.veto(true)]), Code::SameQuestion);
    }
}

#[test]
fn symbols_and_marks_tell_questions_apart() {
    for (one, two) in [("👍?", "👎?"), ("Pay 5€?", "Pay 5$?"), ("+?", "=?"), ("!", "?"), ("はか", "ばか")]
    {
        let refused = refused(1, asking(one, &["Yes", "No"]));
        let outcome = judge(&asking(two, &["Yes", "No"]), Some(refused.id), RESPONSE, &[refused.veto(true)]);
        assert!(outcome.is_ok(), "{one} {two}: {outcome:?}");
    }
}

#[test]
fn dropping_supersedes_or_naming_another_does_not_evade_it() {
    let (first, second) = (refused(1, brief()), refused(2, other()));
    let vetoes = [first.veto(true), second.veto(true)];
    // Superseding one refused question with the other.
    is_refused(judge(&brief(), Some(second.id), RESPONSE, &vetoes), Code::SameQuestion);
    is_refused(judge(&other(), Some(first.id), RESPONSE, &vetoes), Code::SameQuestion);
    is_refused(judge(&brief(), None, None, &vetoes), Code::SameQuestion);
    // A new question answers the objection it names; the other one's stands.
    let new = asking("May the mirror be switched off?", &["Switch it off", "Keep it for a year"]);
    assert_eq!(codes(judge(&new, Some(second.id), RESPONSE, &vetoes)), []);
    is_refused(judge(&new, None, None, &vetoes), Code::DeliberationRequired);
    let unheard = [first.veto(true), second.veto(false)];
    is_refused(judge(&new, Some(second.id), RESPONSE, &unheard), Code::DeliberationRequired);
}

#[test]
fn after_a_question_took_its_place_it_still_does_not_come_back() {
    let refused = refused(1, brief());
    let past = [Vetoed { superseded: true, ..refused.veto(true) }];
    is_refused(judge(&brief(), None, None, &past), Code::SameQuestion);
    assert_eq!(codes(judge(&other(), None, None, &past)), [], "the objection was answered");
}

#[test]
fn what_cannot_be_read_any_more_is_held_against_the_agent_all_the_same() {
    let refused = refused(1, brief());
    let veto = Vetoed { brief: None, ..refused.veto(true) };
    is_refused(judge(&brief(), Some(refused.id), RESPONSE, &[veto]), Code::SameQuestion);
    is_refused(judge(&other(), None, RESPONSE, &[veto]), Code::DeliberationRequired);
    assert_eq!(codes(judge(&other(), Some(refused.id), RESPONSE, &[veto])), []);
}

/// Returns a chain of refused questions, each the successor of the previous one and refused by the given person,
/// and the question asked now.
fn chain(refused_by: &[&str]) -> (Vec<Moment>, Moment) {
    let mut before = Vec::new();
    for (n, by) in (1_u128..).zip(refused_by) {
        let mut one = Moment { id: id(n), supersedes: (n > 1).then(|| id(n - 1)), ..vetoed() };
        (*by).clone_into(&mut one.resolution.as_mut().unwrap().by);
        let next = Moment { id: id(n + 1), supersedes: Some(one.id), ..asked() };
        before.insert(0, says(&one, Speaker::Agent(AGENT), 11).supersede(&next, later(12)).unwrap());
    }
    let last = u128::try_from(refused_by.len()).unwrap();
    (before, Moment { id: id(last + 1), supersedes: Some(id(last)), ..asked() })
}

/// The outcome for one: its state, and whether its objection is settled.
type Became = Option<(MomentState, bool)>;

fn states(after: &[Option<Moment>]) -> Vec<Became> {
    after.iter().map(|one| one.as_ref().map(|one| (one.state, one.veto_settled_at.is_some()))).collect()
}

#[test]
fn an_objection_stands_again_when_what_took_its_place_is_not_answered() {
    let (before, next) = chain(&[ADA, ADA]);
    let again = Some((MomentState::Deliberating, false));
    let ends = [
        next.withdraw(AGENT, None, later(20)).unwrap(),
        next.expire(later(48 * 3600)).unwrap(),
        next.lose_cause("job_ended", later(20)).unwrap(),
    ];
    for ended in ends {
        let after = after_end(&ended, &before, None, later(30));
        assert_eq!(states(&after), [again, None], "the one before waits for it");
        let back = after[0].as_ref().unwrap();
        assert_eq!((back.superseded_by, back.ended_at, back.quiet_since), (None, None, Some(later(30))));
        // It is deliberated, closed and superseded like any other, and a second end has no effect.
        assert!(back.close(&person(ADA), None, later(31)).is_ok());
        let other = Moment { id: id(9), supersedes: Some(back.id), ..asked() };
        let followed = back.supersede(&other, later(31)).unwrap();
        for one in [back.clone(), followed.clone()] {
            let before = [one, before[1].clone()];
            assert_eq!(states(&after_end(&ended, &before, Some(ADA), later(32))), [None, None]);
        }
        let answer = answered(&other, option(0), 33);
        let settled = Some((MomentState::Superseded, true));
        let before = [followed, before[1].clone()];
        assert_eq!(states(&after_end(&answer, &before, Some(ADA), later(33))), [settled, settled]);
    }
    // While the successor is open or refused, nothing changes.
    let refused = answered(&next, refusal_of("No."), 20);
    for alive in [next, refused] {
        assert_eq!(states(&after_end(&alive, &before, Some(ADA), later(30))), [None, None]);
    }
}

#[test]
fn an_answer_settles_the_objections_of_its_own_person() {
    let (again, settled) = (Some((MomentState::Deliberating, false)), Some((MomentState::Superseded, true)));
    // Newest first: who refused, who answers, the outcome. All were asked of Ada.
    let table: [(&[&str], &str, &[Became]); 4] = [
        (&[ADA, ADA], ADA, &[settled, settled]),
        (&[ADA, ADA], BOB, &[again, None]),
        (&[ADA, BOB], BOB, &[settled, again]),
        (&[BOB, ADA], BOB, &[again, settled]),
    ];
    for (refused_by, by, expected) in table {
        let (before, next) = chain(refused_by);
        let ended = answered(&next, option(0), 20);
        assert_eq!(states(&after_end(&ended, &before, Some(by), later(20))), expected, "{refused_by:?} {by}");
    }
}

#[test]
fn the_same_is_known_by_digest_or_by_what_is_read() {
    let asked =
        |brief: Option<Brief>, digest: &str| Moment { brief, digest: Some(digest.to_owned()), ..asked() };
    let louder = asking("WHEN SHOULD RELEASE 1.4 GO OUT", &["Ship today", "Wait a day"]);
    assert!(is_same(&asked(Some(brief()), "a"), &asked(Some(louder), "b")));
    assert!(is_same(&asked(None, "a"), &asked(Some(brief()), "a")));
    assert!(!is_same(&asked(Some(other()), "a"), &asked(Some(brief()), "b")));
    let none = Moment { brief: None, digest: None, ..asked(None, "a") };
    assert!(!is_same(&none, &none), "neither is a question");
}

#[test]
fn what_waits_for_an_answer_is_not_asked_again() {
    let waits =
        |brief: Option<Brief>, digest: &str| Moment { brief, digest: Some(digest.to_owned()), ..asked() };
    let louder = asking("WHEN SHOULD RELEASE 1.4 GO OUT", &["Wait a day", "Ship today"]);
    for open in [waits(Some(louder), "a"), waits(None, &brief().digest())] {
        let refusal = require_new(&brief(), &[waits(Some(other()), "b"), open]).unwrap_err();
        assert_eq!(refusal.code, Code::SameQuestion);
        require_new(&other(), &[waits(Some(brief()), "a")]).unwrap();
    }
    require_new(&brief(), &[]).unwrap();
}

#[test]
fn what_is_nearly_the_same_passes_with_a_warning() {
    let near = |asked: &Brief, refused: &Refused| {
        let vetoes = [refused.veto(true)];
        let lints = codes(judge(asked, Some(refused.id), RESPONSE, &vetoes));
        assert!(lints.iter().all(|(code, _)| *code == "near_duplicate_after_veto"));
        lints.into_iter().map(|(_, at)| at).collect::<Vec<_>>()
    };
    let labels = ["North", "South", "East", "West"];
    // Nine words; the new stem shares n of them.
    let refused_stem = refused(1, asking("one two three four five six seven eight nine?", &labels));
    let others = ["Up", "Down"];
    let stems = [
        ("one two three four five six seven eight ten?", true), // 8 of 10: 0.8
        ("one two three four five six seven eight?", true),     // 8 of 9
        ("nine eight seven six five four three two one ten?", true), // 9 of 10
        ("one two three four five six seven ten eleven?", false), // 7 of 11
        ("one two three four five six seven eight ten eleven?", false), // 8 of 11: 0.727
    ];
    for (stem, is_near) in stems {
        let expected: &[&str] = if is_near { &["/question/stem"] } else { &[] };
        assert_eq!(near(&asking(stem, &others), &refused_stem), expected, "{stem}");
    }
    let sets: [(&[&str], bool); 5] = [
        (&["North", "South", "East"], true),          // 3 of 4: 0.75
        (&["west", "EAST", "South!", "north"], true), // the same
        (&["North", "South", "East", "Up"], false),   // 3 of 5: 0.6
        (&["North", "South"], false),                 // 2 of 4
        (&["Up", "Down"], false),
    ];
    for (labels, is_near) in sets {
        let expected: &[&str] = if is_near { &["/question/options"] } else { &[] };
        assert_eq!(near(&asking("Whither then?", labels), &refused_stem), expected, "{labels:?}");
    }
    let both = asking("one two three four five six seven eight ten?", &["North", "South", "East"]);
    assert_eq!(near(&both, &refused_stem), ["/question/stem", "/question/options"]);
}

proptest! {
    /// No change of case, punctuation, spacing or order lets a refused question through.
    #[test]
    fn no_way_of_writing_it_evades_the_guard(
        words in proptest::collection::vec("[a-zäöé]{1,8}", 1..8),
        marks in proptest::collection::vec(prop_oneof![Just(" "), Just(", "), Just(" – "), Just("\u{a0}"), Just("\u{200b} "), Just("!? ")], 8),
        upper in proptest::collection::vec(any::<bool>(), 8),
        swap: bool,
        supersedes in proptest::option::of(1_u128..4),
        deliberated: bool,
        superseded: bool,
    ) {
        let refused = refused(1, asking(&words.join(" "), &["Go on", "Stop here"]));
        let cased = words.iter().zip(&upper).map(|(word, up)| if *up { word.to_uppercase() } else { word.clone() });
        let written: String = cased.zip(&marks).flat_map(|(word, mark)| [word, (*mark).to_owned()]).collect();
        let labels = if swap { ["STOP, here", "go on…"] } else { ["Go on", "Stop here"] };
        let veto = Vetoed { superseded, ..refused.veto(deliberated) };
        let outcome = judge(&asking(&written, &labels), supersedes.map(id), RESPONSE, &[veto]);
        prop_assert_eq!(outcome.unwrap_err().code, Code::SameQuestion);
    }

    /// Any question is judged, and none passes while an objection is unanswered.
    #[test]
    fn nothing_passes_an_unanswered_objection(
        stem in crate::any::text(), one in crate::any::text(), two in crate::any::text(), deliberated: bool,
    ) {
        let mut value = super::sample();
        value["question"]["stem"] = json!(stem);
        value["question"]["options"][0]["label"] = json!(one);
        value["question"]["options"][1]["label"] = json!(two);
        let asked = Brief::received(&value).unwrap();
        let refused = refused(1, brief());
        prop_assert!(judge(&asked, None, RESPONSE, &[refused.veto(deliberated)]).is_err());
        prop_assert!(judge(&asked, Some(refused.id), None, &[refused.veto(deliberated)]).is_err());
        prop_assert!(judge(&asked, Some(refused.id), RESPONSE, &[refused.veto(false)]).is_err());
    }
}
