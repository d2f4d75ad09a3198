//! The creation of a moment: for one person, with a time limit and the required members.

use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::limits::{MOMENT_LEAST_SECONDS, MOMENT_MOST_SECONDS, MOMENTS_WAITING};
use entente_domain::moments::{
    Brief, Circumstances, Hatches, Moment, MomentAsk, MomentState, ValidWhile, check_room,
};
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;
use uuid::Uuid;

use super::{ADA, AGENT, BOB, ask, asked, brief, id, later, person, with};

fn begun(ask: MomentAsk) -> Result<Moment, Refusal> {
    Moment::ask(ask, brief(), PrincipalKind::Human, Some(PrincipalKind::Human), id(1), later(0))
}

fn at_fault(outcome: Result<Moment, Refusal>, member: &str, kind: &str) {
    let refusal = outcome.unwrap_err();
    assert_eq!(refusal.errors.len(), 1, "{}", refusal.message);
    assert_eq!((refusal.errors[0].loc[1].as_str(), refusal.errors[0].kind.as_str()), (member, kind));
}

#[test]
fn a_question_begins_open_and_lapses_after_a_day() {
    let moment = asked();
    assert_eq!((moment.state, moment.version), (MomentState::Open, 1));
    assert_eq!(moment.expires_at, Some(later(24 * 3600)));
    assert_eq!(moment.digest, Some(brief().digest()));
    assert_eq!((moment.hatches, moment.has_calibration_note), (Hatches::OPEN, false));
    let meta = json!({ "decision_class": "release", "calibration_note": "I was wrong." });
    let noted = Brief::emitted(&with("/meta", meta)).unwrap();
    let moment = Moment::ask(ask(), noted, PrincipalKind::Human, None, id(1), later(0)).unwrap();
    assert_eq!((moment.decision_class.as_deref(), moment.has_calibration_note), (Some("release"), true));
}

#[test]
fn one_person_is_asked() {
    for kind in [PrincipalKind::Agent, PrincipalKind::Service] {
        at_fault(Moment::ask(ask(), brief(), kind, None, id(1), later(0)), "principal_id", "not_a_person");
        at_fault(Moment::deliberate(ask(), kind, id(1), later(0)), "principal_id", "not_a_person");
    }
    for many in ["*", "role:approvers", "", " human.ada", "entente"] {
        let ask = MomentAsk { principal_id: many.to_owned(), ..ask() };
        at_fault(begun(ask), "principal_id", "invalid_name");
    }
    let oneself = MomentAsk { principal_id: AGENT.to_owned(), ..ask() };
    at_fault(begun(oneself), "principal_id", "same_as_agent");
}

#[test]
fn it_stands_from_a_minute_to_thirty_days() {
    for seconds in [MOMENT_LEAST_SECONDS, 3600, MOMENT_MOST_SECONDS] {
        let moment = begun(MomentAsk { expires_in: Some(seconds), ..ask() }).unwrap();
        assert_eq!(moment.expires_at, Some(later(i64::from(seconds))));
    }
    for seconds in [0, MOMENT_LEAST_SECONDS - 1, MOMENT_MOST_SECONDS + 1, u32::MAX] {
        at_fault(begun(MomentAsk { expires_in: Some(seconds), ..ask() }), "expires_in", "out_of_range");
    }
    assert_eq!((MOMENT_LEAST_SECONDS, MOMENT_MOST_SECONDS), (60, 30 * 24 * 3600));
}

#[test]
fn a_closed_hatch_needs_its_reason() {
    let hatches = json!({ "free_text": false, "dialogue": true });
    let closed = || Brief::emitted(&with("/question/hatches", hatches.clone())).unwrap();
    let begun = |ask| Moment::ask(ask, closed(), PrincipalKind::Human, None, id(1), later(0));
    at_fault(begun(ask()), "hatch_justification", "missing");
    let blank = MomentAsk { hatch_justification: Some(" ".to_owned()), ..ask() };
    at_fault(begun(blank), "hatch_justification", "blank");
    let reason = MomentAsk { hatch_justification: Some("A date is needed.".to_owned()), ..ask() };
    assert_eq!(begun(reason.clone()).unwrap().hatch_justification.as_deref(), Some("A date is needed."));
    assert_eq!(super::asking::begun(reason).unwrap().hatch_justification, None, "nothing is closed");
}

#[test]
fn it_escalates_to_a_second_person_before_it_lapses() {
    let to = |to: &str, after: u32| MomentAsk {
        escalate_to: Some(to.to_owned()),
        escalate_after: Some(after),
        expires_in: Some(3600),
        ..ask()
    };
    let moment = begun(to(BOB, 600)).unwrap();
    assert_eq!(moment.escalation.as_ref().unwrap().at, later(600));
    assert!(!moment.is_addressed_to(BOB, later(599)) && moment.is_addressed_to(BOB, later(600)));
    assert!(moment.is_addressed_to(ADA, later(0)));
    for after in [59, 3600, 9999] {
        at_fault(begun(to(BOB, after)), "escalate_after", "out_of_range");
    }
    for same in [ADA, AGENT] {
        at_fault(begun(to(same, 600)), "escalate_to", "not_another");
    }
    at_fault(begun(to("role:x", 600)), "escalate_to", "invalid_name");
    at_fault(begun(MomentAsk { escalate_after: None, ..to(BOB, 600) }), "escalate_after", "missing");
    at_fault(begun(MomentAsk { escalate_to: None, ..to(BOB, 600) }), "escalate_to", "missing");
    for second in [None, Some(PrincipalKind::Agent), Some(PrincipalKind::Service)] {
        let outcome = Moment::ask(to(BOB, 600), brief(), PrincipalKind::Human, second, id(1), later(0));
        at_fault(outcome, "escalate_to", "not_a_person");
    }
}

#[test]
fn what_an_answer_is_tied_to_is_there() {
    let valid = |job: &str, intent: &str| ValidWhile {
        job_status: (!job.is_empty()).then(|| job.to_owned()),
        intent_status: (!intent.is_empty()).then(|| intent.to_owned()),
    };
    let about = |valid_while| MomentAsk {
        job_id: Some(JobId::from(Uuid::nil())),
        intent_id: Some(IntentId::SYSTEM),
        valid_while,
        ..ask()
    };
    assert!(begun(about(valid("running", "active"))).is_ok());
    at_fault(begun(about(valid("sleeping", ""))), "valid_while", "invalid");
    at_fault(begun(about(valid("", "sleeping"))), "valid_while", "invalid");
    at_fault(begun(MomentAsk { valid_while: valid("running", ""), ..ask() }), "valid_while", "invalid");
    at_fault(begun(MomentAsk { valid_while: valid("", "active"), ..ask() }), "valid_while", "invalid");
}

#[test]
fn other_texts_are_texts() {
    let nul = || Some("a\0".to_owned());
    let supersedes = Some(id(9));
    at_fault(begun(MomentAsk { fallback_text: nul(), ..ask() }), "fallback_text", "nul_character");
    let response = MomentAsk { objection_response: nul(), supersedes, ..ask() };
    at_fault(begun(response), "objection_response", "nul_character");
    let alone = MomentAsk { objection_response: Some("As you said.".to_owned()), ..ask() };
    at_fault(begun(alone), "objection_response", "unexpected");
    for corr in ["", "a\nb"] {
        at_fault(begun(MomentAsk { corr: Some(corr.to_owned()), ..ask() }), "corr", "invalid");
    }
}

#[test]
fn a_deliberation_has_no_question_and_no_end() {
    let moment = Moment::deliberate(ask(), PrincipalKind::Human, id(1), later(0)).unwrap();
    assert_eq!((moment.state, moment.expires_at), (MomentState::Deliberating, None));
    assert_eq!((&moment.brief, &moment.digest), (&None, &None));
    assert!(!moment.is_unsettled_veto(), "nobody refused anything");
    assert_eq!(moment.state_at(later(400 * 24 * 3600)), MomentState::Deliberating);
    let only: [(&str, MomentAsk); 4] = [
        ("expires_in", MomentAsk { expires_in: Some(60), ..ask() }),
        ("escalate_to", MomentAsk { escalate_to: Some(BOB.to_owned()), ..ask() }),
        ("supersedes", MomentAsk { supersedes: Some(id(3)), ..ask() }),
        ("hatch_justification", MomentAsk { hatch_justification: Some("x".to_owned()), ..ask() }),
    ];
    for (member, ask) in only {
        at_fault(Moment::deliberate(ask, PrincipalKind::Human, id(1), later(0)), member, "unexpected");
    }
    let digest = brief().digest();
    let answer = moment.resolve(&person(ADA), &digest, super::option(0), Circumstances::default(), later(1));
    let message = super::is_refused(answer, Code::MomentNotOpen);
    assert!(message.contains("without a question"), "{message}");
}

#[test]
fn only_so_many_wait_for_one_person() {
    assert_eq!(check_room(MOMENTS_WAITING - 1, "principal_id", ADA), Ok(()));
    let refusal = check_room(MOMENTS_WAITING, "principal_id", ADA).unwrap_err();
    assert_eq!((refusal.code, refusal.errors[0].kind.as_str()), (Code::TooLarge, "too_many"));
    assert!(refusal.message.contains(ADA) && refusal.message.contains("withdraw"), "{}", refusal.message);
}
