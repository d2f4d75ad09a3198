//! Answers to a question: who may give which, and only once.

use entente_domain::identity::authority::{Authority, Basis};
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::KeyId;
use entente_domain::limits::MOMENT_WORD_BYTES;
use entente_domain::moments::{
    Answered, Brief, Circumstances, Decider, Hatches, Moment, MomentState, Resolution, ResolutionKind,
    ValidWhile, Via,
};
use entente_domain::refusal::Code;
use serde_json::{Value, json};

use super::{
    ADA, AGENT, BOB, answer, answered, ask, asked, brief, id, is_refused, later, option, own_words, person,
    refusal_of, vetoed, with,
};
use crate::any::Dice;

#[test]
fn the_three_answers_are_told_apart_on_the_wire() {
    let answers = [
        (option(1), json!({ "kind": "option", "option_idx": 1 }), ResolutionKind::Option),
        (own_words("Later."), json!({ "kind": "free_text", "answer": "Later." }), ResolutionKind::FreeText),
        (
            refusal_of("Why now?"),
            json!({ "kind": "dialogue", "objection": "Why now?" }),
            ResolutionKind::Dialogue,
        ),
    ];
    for (resolution, wire, kind) in answers {
        assert_eq!(serde_json::to_value(&resolution).unwrap(), wire);
        assert_eq!(serde_json::from_value::<Resolution>(wire).unwrap(), resolution);
        assert_eq!(resolution.kind(), kind);
        assert_eq!(ResolutionKind::parse(kind.as_str()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
    let others: [Value; 9] = [
        json!({ "kind": "option" }),
        json!({ "kind": "option", "option_idx": -1 }),
        json!({ "kind": "option", "option_idx": "0" }),
        json!({ "kind": "option", "option_idx": 0, "answer": "and more" }),
        json!({ "kind": "free_text", "objection": "x" }),
        json!({ "kind": "dialogue", "objection": "x", "option_idx": 0 }),
        json!({ "kind": "approve" }),
        json!({ "option_idx": 0 }),
        json!("option"),
    ];
    for other in others {
        assert!(serde_json::from_value::<Resolution>(other.clone()).is_err(), "{other}");
    }
}

#[test]
fn an_answer_fits_its_question() {
    let moment = asked();
    for index in [2, 3, usize::MAX] {
        is_refused(answer(&moment, option(index), 1), Code::InvalidRequest);
    }
    for (text, code) in [
        (String::new(), Code::InvalidRequest),
        (" \u{200b}\n".to_owned(), Code::InvalidRequest),
        ("a\0".to_owned(), Code::NulCharacter),
        ("x".repeat(MOMENT_WORD_BYTES + 1), Code::TooLarge),
    ] {
        is_refused(answer(&moment, own_words(&text), 1), code);
        is_refused(answer(&moment, refusal_of(&text), 1), code);
    }
    let long = "x".repeat(MOMENT_WORD_BYTES);
    assert_eq!(answered(&moment, own_words(&long), 1).resolution.unwrap().answer, Some(long));
}

#[test]
fn a_closed_hatch_takes_no_answer_of_its_kind() {
    let closed = |free_text: bool, dialogue: bool| {
        let hatches = json!({ "free_text": free_text, "dialogue": dialogue });
        let brief = Brief::emitted(&with("/question/hatches", hatches)).unwrap();
        let ask = entente_domain::moments::MomentAsk {
            hatch_justification: Some("The law says so.".to_owned()),
            ..ask()
        };
        Moment::ask(ask, brief, PrincipalKind::Human, None, id(1), later(0)).unwrap()
    };
    is_refused(answer(&closed(false, true), own_words("No."), 1), Code::HatchClosed);
    is_refused(answer(&closed(true, false), refusal_of("No."), 1), Code::HatchClosed);
    answered(&closed(false, true), refusal_of("No."), 1);
    answered(&closed(true, false), own_words("No."), 1);
    answered(&closed(false, false), option(1), 1);
    assert_eq!(closed(false, true).hatches, Hatches { free_text: false, dialogue: true });
}

#[test]
fn only_the_person_who_is_asked_decides() {
    let moment = asked();
    let digest = moment.digest.clone().unwrap();
    let given = [Basis::GivenKey, Basis::GivenPassword]
        .map(|basis| Authority { basis, let_in_by: Some("service.ops".to_owned()) });
    let nobody = [
        Decider { kind: PrincipalKind::Agent, ..person(ADA) },
        Decider { kind: PrincipalKind::Service, ..person(ADA) },
        Decider { as_itself: false, ..person(ADA) },
        // Nor with a key that somebody else created for the person, or one of unknown origin.
        Decider { authority: Some(&given[0]), ..person(ADA) },
        Decider { authority: Some(&given[1]), ..person(ADA) },
        Decider { authority: None, ..person(ADA) },
        person(BOB),
        person(AGENT),
        Decider { kind: PrincipalKind::Agent, ..person(AGENT) },
    ];
    for by in nobody {
        for resolution in [option(0), own_words("Yes."), refusal_of("No.")] {
            let outcome = moment.resolve(&by, &digest, resolution, Circumstances::default(), later(1));
            is_refused(outcome, Code::NotThePrincipal);
        }
        is_refused(vetoed().close(&by, None, later(20)), Code::NotThePrincipal);
        let word =
            |moment: &Moment| moment.word(entente_domain::moments::Speaker::Principal(&by), "Hm.", later(20));
        is_refused(word(&moment), Code::NotThePrincipal);
        is_refused(word(&vetoed()), Code::NotThePrincipal);
        assert_eq!(moment.view(&by, later(1)), None);
    }
    for via in Via::ALL {
        assert_eq!(Via::parse(via.as_str()), Some(via));
        let by = Decider { via, ..person(ADA) };
        assert!(moment.may_decide(&by, later(1)).is_ok());
    }
}

#[test]
fn what_is_answered_is_what_was_shown() {
    let moment = asked();
    for digest in ["", "sha256:", "sha256:00", &vetoed().digest.unwrap().to_uppercase()] {
        let outcome = moment.resolve(&person(ADA), digest, option(0), Circumstances::default(), later(1));
        is_refused(outcome, Code::DigestMismatch);
    }
}

#[test]
fn the_answer_is_kept_with_who_gave_it() {
    let key_id = KeyId::mint(later(0), &Dice(9));
    let by = Decider { via: Via::Cli, key_id, ..person(ADA) };
    let moment = asked();
    let digest = moment.digest.clone().unwrap();
    let outcome = moment.resolve(&by, &digest, own_words("Tomorrow."), Circumstances::default(), later(5));
    let Answered::First(resolved) = outcome.unwrap() else { panic!("it is the first") };
    let settled = resolved.resolution.clone().unwrap();
    assert_eq!((settled.kind, settled.option_idx), (ResolutionKind::FreeText, None));
    assert_eq!((settled.answer.as_deref(), settled.objection), (Some("Tomorrow."), None));
    assert_eq!(settled.authority.as_ref(), by.authority);
    assert_eq!(
        (settled.by.as_str(), settled.key_id, settled.via, settled.at),
        (ADA, key_id, Via::Cli, later(5))
    );
    assert_eq!(
        (resolved.state, resolved.ended_at, resolved.version),
        (MomentState::Resolved, Some(later(5)), 2)
    );

    let refused = vetoed();
    assert_eq!((refused.state, refused.ended_at), (MomentState::Deliberating, None));
    let settled = refused.resolution.unwrap();
    assert_eq!((settled.answer, settled.objection.as_deref()), (None, Some("Not a matter of when.")));
}

#[test]
fn a_retry_gets_the_first_answer_and_another_does_not() {
    for first in [option(0), own_words("Later."), refusal_of("Why?")] {
        let moment = answered(&asked(), first.clone(), 1);
        assert!(moment.is_retry(&person(ADA), &first));
        assert_eq!(answer(&moment, first.clone(), 99).unwrap(), Answered::Again(moment.clone()));
        for other in [option(1), own_words("Now."), refusal_of("When?")] {
            let message = is_refused(answer(&moment, other, 99), Code::MomentNotOpen);
            assert!(message.contains(ADA) && message.contains("2026-"), "who and when: {message}");
        }
        let digest = moment.digest.clone().unwrap();
        let by_key = Decider { via: Via::Api, key_id: KeyId::mint(later(9), &Dice(3)), ..person(ADA) };
        assert!(moment.is_retry(&by_key, &first), "another key of the same person");
        assert!(!moment.is_retry(&person(BOB), &first));
        let wrong = moment.resolve(&person(ADA), "sha256:x", first, Circumstances::default(), later(99));
        is_refused(wrong, Code::DigestMismatch);
        assert_ne!(digest, "sha256:x");
    }
}

#[test]
fn a_scrubbed_answer_in_words_is_no_retry() {
    let words = own_words("Later.");
    let bare = answered(&asked(), words.clone(), 1).scrub(later(2)).unwrap();
    is_refused(answer(&bare, words, 3), Code::MomentNotOpen);
    let bare = answered(&asked(), option(1), 1).scrub(later(2)).unwrap();
    assert!(matches!(answer(&bare, option(1), 3).unwrap(), Answered::Again(_)));
}

#[test]
fn a_lapsed_question_takes_no_answer_from_the_instant_on() {
    let moment = asked();
    let day = 24 * 3600;
    assert!(answer(&moment, option(0), day - 1).is_ok());
    let message = is_refused(answer(&moment, option(0), day), Code::MomentNotOpen);
    assert!(message.contains("approves nothing"), "{message}");
    assert_eq!(moment.state, MomentState::Open, "it was not written down");
}

#[test]
fn a_conflict_does_not_repeat_names_that_clients_misread() {
    let mut moment = asked();
    moment.principal_id = "human.Release".to_owned();
    let digest = moment.digest.clone().unwrap();
    let by = person("human.Release");
    let circumstances = Circumstances::default();
    let Answered::First(done) = moment.resolve(&by, &digest, option(0), circumstances, later(1)).unwrap()
    else {
        panic!("it is the first")
    };
    let message =
        is_refused(done.resolve(&by, &digest, option(1), circumstances, later(2)), Code::MomentNotOpen);
    assert!(message.contains("Its principal answered"), "{message}");
}

#[test]
fn an_answer_counts_while_things_are_as_they_were() {
    let mut moment = asked();
    let valid = |job: Option<&str>, intent: Option<&str>| ValidWhile {
        job_status: job.map(str::to_owned),
        intent_status: intent.map(str::to_owned),
    };
    let digest = moment.digest.clone().unwrap();
    let cases = [
        (valid(None, None), None, Some("completed"), true),
        (valid(Some("running"), None), Some("running"), None, true),
        (valid(Some("running"), None), Some("success"), None, false),
        (valid(Some("running"), None), None, None, false),
        (valid(None, Some("active")), Some("error"), Some("active"), true),
        (valid(None, Some("active")), None, Some("blocked"), false),
        (valid(Some("running"), Some("active")), Some("running"), Some("abandoned"), false),
    ];
    for (valid_while, job_status, intent_status, fresh) in cases {
        moment.valid_while = valid_while;
        let found = Circumstances { job_status, intent_status };
        let given = |resolution| moment.resolve(&person(ADA), &digest, resolution, found, later(1));
        if fresh {
            given(option(0)).unwrap();
        } else {
            is_refused(given(option(0)), Code::CircumstancesChanged);
            is_refused(given(own_words("Yes.")), Code::CircumstancesChanged);
        }
        given(refusal_of("Not any more.")).unwrap();
    }
    assert_eq!(brief().recommended().unwrap().label, "Ship today");
}
