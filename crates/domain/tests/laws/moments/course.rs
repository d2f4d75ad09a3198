//! Operations on a moment other than answering, and their results.

use entente_domain::identity::principals::PrincipalKind;
use entente_domain::moments::{
    Decider, Escalation, Moment, MomentAsk, MomentState, ResolutionKind, Speaker, WordKind,
};
use entente_domain::refusal::Code;

use super::{
    ADA, AGENT, BOB, answered, ask, asked, brief, id, is_refused, later, option, own_words, person, says,
    vetoed,
};

const DAY: i64 = 24 * 3600;

fn deliberation() -> Moment {
    Moment::deliberate(ask(), PrincipalKind::Human, id(2), later(0)).unwrap()
}

/// Returns one moment of each state.
fn each() -> Vec<Moment> {
    let next = Moment { id: id(8), supersedes: Some(id(1)), ..asked() };
    vec![
        asked(),
        vetoed(),
        answered(&asked(), option(0), 10),
        asked().withdraw(AGENT, None, later(10)).unwrap(),
        asked().expire(later(DAY)).unwrap(),
        says(&vetoed(), Speaker::Agent(AGENT), 11).supersede(&next, later(12)).unwrap(),
        vetoed().close(&person(ADA), None, later(12)).unwrap(),
    ]
}

#[test]
fn states_are_words() {
    assert_eq!(each().iter().map(|moment| moment.state).collect::<Vec<_>>(), MomentState::ALL);
    for state in MomentState::ALL {
        assert_eq!(MomentState::parse(state.as_str()), Some(state));
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        let lives = matches!(state, MomentState::Open | MomentState::Deliberating);
        assert_eq!(state.is_terminal(), !lives);
    }
    for kind in WordKind::ALL {
        assert_eq!(WordKind::parse(kind.as_str()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
}

#[test]
fn asking_for_detail_does_not_resolve() {
    let ada = person(ADA);
    let moment = asked();
    is_refused(moment.word(Speaker::Agent(AGENT), "By the way.", later(1)), Code::InvalidTransition);
    let (wondered, kind) = moment.word(Speaker::Principal(&ada), "Which platforms?", later(2)).unwrap();
    assert_eq!((wondered.state, kind), (MomentState::Open, WordKind::DetailAsked));
    assert_eq!((wondered.detail_asked_at, wondered.version), (Some(later(2)), 2));
    let (told, kind) = wondered.word(Speaker::Agent(AGENT), "All three.", later(3)).unwrap();
    assert_eq!((told.state, kind), (MomentState::Open, WordKind::Detail));
    assert_eq!(told.deliberated_at, None, "that is no deliberation on an objection");
    let again = says(&told, Speaker::Principal(&ada), 4);
    assert_eq!((again.detail_asked_at, again.resolution.is_none()), (Some(later(2)), true));
    answered(&again, option(0), 5);
}

#[test]
fn both_speak_while_they_deliberate() {
    let ada = person(ADA);
    let (heard, kind) = vetoed().word(Speaker::Principal(&ada), "See the budget.", later(11)).unwrap();
    assert_eq!(
        (kind, heard.deliberated_at),
        (WordKind::Reply, None),
        "the principal's word is not the agent's"
    );
    let (thought, kind) = heard.word(Speaker::Agent(AGENT), "It is spent.", later(12)).unwrap();
    assert_eq!((thought.state, kind), (MomentState::Deliberating, WordKind::Deliberation));
    assert_eq!(says(&thought, Speaker::Agent(AGENT), 13).deliberated_at, Some(later(12)));
    is_refused(thought.word(Speaker::Agent(AGENT), "  ", later(13)), Code::InvalidRequest);
}

#[test]
fn nobody_else_speaks_withdraws_or_acknowledges() {
    for moment in each() {
        for other in ["agent.other", ADA, ""] {
            is_refused(moment.word(Speaker::Agent(other), "Hm.", later(20)), Code::Forbidden);
            is_refused(moment.withdraw(other, None, later(20)), Code::Forbidden);
            is_refused(moment.acknowledge(other, later(20)), Code::Forbidden);
        }
    }
}

#[test]
fn what_is_over_is_over() {
    let ada = person(ADA);
    for moment in each().into_iter().filter(|moment| moment.state.is_terminal()) {
        let now = later(2 * DAY);
        let next = Moment { id: id(9), supersedes: Some(moment.id), ..asked() };
        let refusals = [
            is_refused(moment.word(Speaker::Agent(AGENT), "Hm.", now), Code::MomentNotOpen),
            is_refused(moment.word(Speaker::Principal(&ada), "Hm.", now), Code::MomentNotOpen),
            is_refused(moment.withdraw(AGENT, None, now), Code::MomentNotOpen),
            is_refused(moment.close(&ada, None, now), Code::MomentNotOpen),
            is_refused(moment.supersede(&next, now), Code::MomentNotOpen),
        ];
        assert!(refusals.iter().all(|message| message == &refusals[0]), "{refusals:?}");
        assert_eq!(moment.expire(now), None);
        assert_eq!(moment.escalate(now), None);
        assert_eq!(moment.lose_cause("The job has ended.", now), None);
    }
}

#[test]
fn a_question_can_be_taken_back_and_a_refused_one_cannot() {
    let back = asked().withdraw(AGENT, Some("Settled elsewhere.".to_owned()), later(5)).unwrap();
    assert_eq!((back.state, back.ended_at, back.version), (MomentState::Withdrawn, Some(later(5)), 2));
    assert_eq!(back.end_reason.as_deref(), Some("Settled elsewhere."));
    let own = deliberation().withdraw(AGENT, None, later(5)).unwrap();
    assert_eq!(own.state, MomentState::Withdrawn, "nobody objected to that");
    is_refused(vetoed().withdraw(AGENT, None, later(20)), Code::InvalidTransition);
    is_refused(asked().withdraw(AGENT, Some(String::new()), later(5)), Code::InvalidRequest);
    is_refused(asked().withdraw(AGENT, None, later(DAY)), Code::MomentNotOpen);
}

#[test]
fn what_it_was_about_ends_and_an_objection_stays() {
    let lost = asked().lose_cause("The job has ended.", later(5)).unwrap();
    assert_eq!(
        (lost.state, lost.end_reason.as_deref()),
        (MomentState::Withdrawn, Some("The job has ended."))
    );
    assert_eq!(deliberation().lose_cause("x", later(5)).unwrap().state, MomentState::Withdrawn);
    assert_eq!(vetoed().lose_cause("x", later(20)), None, "ending a job is no way around an objection");
    assert_eq!(asked().lose_cause("x", later(DAY)), None, "it had lapsed");
}

#[test]
fn it_lapses_when_it_is_due_and_never_approves() {
    let moment = asked();
    assert_eq!(moment.state_at(later(DAY - 1)), MomentState::Open);
    assert_eq!(moment.state_at(later(DAY)), MomentState::Expired);
    assert_eq!(moment.expire(later(DAY - 1)), None);
    let lapsed = moment.expire(later(DAY + 99)).unwrap();
    assert_eq!(
        (lapsed.state, lapsed.ended_at),
        (MomentState::Expired, Some(later(DAY))),
        "as of when it did"
    );
    assert_eq!(lapsed.resolution, None);
    assert_eq!(vetoed().expire(later(9 * DAY)), None, "an objection does not lapse");
    is_refused(moment.word(Speaker::Principal(&person(ADA)), "Hm.", later(DAY)), Code::MomentNotOpen);
}

#[test]
fn the_second_person_is_asked_from_the_instant_on() {
    let escalation = Escalation { to: BOB.to_owned(), at: later(600), told_at: None };
    let moment = Moment { escalation: Some(escalation), ..asked() };
    assert_eq!(moment.escalate(later(599)), None);
    let told = moment.escalate(later(700)).unwrap();
    assert_eq!(told.escalation.as_ref().unwrap().told_at, Some(later(700)));
    assert_eq!(told.escalate(later(800)), None, "once");
    assert_eq!(moment.escalate(later(DAY)), None, "too late");
    let bob = person(BOB);
    is_refused(moment.may_decide(&bob, later(599)), Code::NotThePrincipal);
    assert!(moment.may_decide(&bob, later(600)).is_ok(), "swept or not");
    assert!(moment.may_decide(&person(ADA), later(600)).is_ok(), "the first is still asked");
    let early = answered(&moment, option(0), 10);
    assert!(!early.is_addressed_to(BOB, later(DAY)), "it was answered before");
    let late = answered(&moment, option(0), 601);
    assert!(late.is_addressed_to(BOB, later(DAY)));
}

#[test]
fn a_question_of_the_same_pair_takes_the_place() {
    let thought = says(&vetoed(), Speaker::Agent(AGENT), 11);
    let next = Moment { id: id(8), supersedes: Some(id(1)), ..asked() };
    let past = thought.supersede(&next, later(12)).unwrap();
    assert_eq!((past.state, past.superseded_by), (MomentState::Superseded, Some(id(8))));
    assert_eq!(past.ended_at, Some(later(12)));
    let others = [
        Moment { agent_id: "agent.other".to_owned(), ..next.clone() },
        Moment { principal_id: BOB.to_owned(), ..next.clone() },
        Moment { supersedes: None, ..next.clone() },
        Moment { supersedes: Some(id(7)), ..next.clone() },
        Moment { id: id(1), ..next.clone() },
    ];
    for other in others {
        is_refused(thought.supersede(&other, later(12)), Code::Unprocessable);
    }
    is_refused(asked().supersede(&next, later(12)), Code::InvalidTransition);
    let own = deliberation();
    let next = Moment { supersedes: Some(own.id), ..next };
    assert_eq!(own.supersede(&next, later(12)).unwrap().state, MomentState::Superseded);
    // A person who refused it after an escalation counts as its person too.
    let mut escalated = thought;
    escalated.resolution.as_mut().unwrap().by = BOB.to_owned();
    let to_bob = Moment { principal_id: BOB.to_owned(), supersedes: Some(id(1)), ..next };
    assert!(escalated.supersede(&to_bob, later(12)).is_ok());
}

#[test]
fn an_objection_is_settled_by_its_principal_alone() {
    let refused = vetoed();
    assert!(refused.is_unsettled_veto());
    assert_eq!(refused.settle_veto(ADA, later(12)), None, "it is still deliberated");
    let closed = refused.close(&person(ADA), Some("Never mind.".to_owned()), later(12)).unwrap();
    assert_eq!((closed.state, closed.veto_settled_at), (MomentState::Closed, Some(later(12))));
    let past = each().remove(5);
    assert!(past.is_unsettled_veto(), "another question is only asked, not answered");
    assert_eq!(past.settle_veto(BOB, later(13)), None, "somebody else has not heard it");
    let settled = past.settle_veto(ADA, later(13)).unwrap();
    assert!(!settled.is_unsettled_veto() && settled.state == MomentState::Superseded);
    assert_eq!(settled.settle_veto(ADA, later(14)), None);
    assert_eq!(answered(&asked(), option(0), 1).settle_veto(ADA, later(2)), None);
    is_refused(asked().close(&person(ADA), None, later(1)), Code::InvalidTransition);
    let own = deliberation().close(&person(ADA), None, later(1)).unwrap();
    assert_eq!((own.state, own.veto_settled_at), (MomentState::Closed, None));
}

#[test]
fn it_is_seen_once() {
    let seen = asked().view(&person(ADA), later(3)).unwrap();
    assert_eq!(seen.first_viewed_at, Some(later(3)));
    assert_eq!(seen.view(&person(ADA), later(4)), None);
    assert_eq!(asked().view(&Decider { as_itself: false, ..person(ADA) }, later(3)), None);
}

#[test]
fn an_end_is_acknowledged_once() {
    is_refused(asked().acknowledge(AGENT, later(1)), Code::InvalidTransition);
    assert_eq!(vetoed().acknowledge(AGENT, later(11)).unwrap(), None, "there is more to come");
    for moment in each().into_iter().filter(|moment| moment.state.is_terminal()) {
        let heard = moment.acknowledge(AGENT, later(2 * DAY)).unwrap().unwrap();
        assert_eq!((heard.acknowledged_at, heard.state), (Some(later(2 * DAY)), moment.state));
        assert_eq!(heard.acknowledge(AGENT, later(3 * DAY)).unwrap(), None);
    }
    let unswept = asked().acknowledge(AGENT, later(DAY)).unwrap().unwrap();
    assert_eq!((unswept.state, unswept.ended_at), (MomentState::Expired, Some(later(DAY))));
}

#[test]
fn what_is_scrubbed_keeps_what_counts_and_no_words() {
    const SECRET: &str = "sevenhundredandtwo";
    let ask = MomentAsk {
        fallback_text: Some(SECRET.to_owned()),
        supersedes: Some(id(4)),
        objection_response: Some(SECRET.to_owned()),
        ..ask()
    };
    let moment = Moment::ask(ask, brief(), PrincipalKind::Human, None, id(1), later(0)).unwrap();
    assert_eq!(moment.scrub(later(5)), None, "it is open");
    let resolved = answered(&moment, own_words(SECRET), 10);
    let bare = resolved.scrub(later(DAY)).unwrap();
    assert!(!format!("{bare:?}").contains(SECRET) && bare.brief.is_none());
    assert_eq!(bare.scrub(later(2 * DAY)), None, "once");
    let settled = bare.resolution.as_ref().unwrap();
    assert_eq!((settled.kind, settled.by.as_str(), settled.at), (ResolutionKind::FreeText, ADA, later(10)));
    let kept = (bare.id, &bare.digest, bare.hatches, bare.scrubbed_at, bare.state);
    assert_eq!(kept, (moment.id, &moment.digest, moment.hatches, Some(later(DAY)), MomentState::Resolved));
    let chosen = answered(&moment, option(1), 10).scrub(later(DAY)).unwrap();
    assert_eq!(chosen.resolution.unwrap().option_idx, Some(1));
    let closed = vetoed().close(&person(ADA), Some(SECRET.to_owned()), later(12)).unwrap();
    let bare = closed.scrub(later(13)).unwrap();
    assert!(!format!("{bare:?}").contains(SECRET) && !format!("{bare:?}").contains("Not a matter"));
}

#[test]
fn what_is_left_alone_loses_its_words_and_stays_refused() {
    let refused = vetoed();
    assert_eq!(refused.quiet_since, Some(later(10)));
    let bare = refused.scrub(later(9 * DAY)).unwrap();
    assert_eq!((bare.state, bare.ended_at), (MomentState::Deliberating, None));
    assert!(
        bare.is_unsettled_veto() && bare.brief.is_some() && !format!("{bare:?}").contains("Not a matter")
    );
    assert_eq!(bare.scrub(later(10 * DAY)), None, "there is nothing more to take");
    // Later words have their own retention.
    let said = says(&bare, Speaker::Agent(AGENT), 10 * DAY);
    assert_eq!((said.scrubbed_at, said.quiet_since), (None, Some(later(10 * DAY))));
    let closed = bare.close(&person(ADA), Some("Enough.".to_owned()), later(11 * DAY)).unwrap();
    let bare = closed.scrub(later(12 * DAY)).unwrap();
    assert_eq!((bare.end_reason, bare.brief), (None, None), "the guard goes with the objection");
    assert_eq!(deliberation().quiet_since, Some(later(0)));
}

#[test]
fn who_was_only_asked_too_does_not_close_what_another_refused() {
    let escalation = Escalation { to: BOB.to_owned(), at: later(5), told_at: None };
    let moment = Moment { escalation: Some(escalation), ..asked() };
    let refused = answered(&moment, super::refusal_of("No."), 10);
    is_refused(refused.close(&person(BOB), None, later(12)), Code::NotThePrincipal);
    assert!(refused.close(&person(ADA), None, later(12)).is_ok());
    let mut by_bob = refused;
    by_bob.resolution.as_mut().unwrap().by = BOB.to_owned();
    for closes in [ADA, BOB] {
        assert!(by_bob.close(&person(closes), None, later(12)).is_ok(), "{closes}");
    }
}

#[test]
fn a_refused_question_is_kept_until_its_objection_is_settled() {
    let past = each().remove(5).scrub(later(13)).unwrap();
    assert!(past.brief.is_some(), "it is compared with what comes");
    assert_eq!(past.resolution.as_ref().unwrap().objection, None, "what the person wrote is not");
    assert!(past.settle_veto(ADA, later(14)).unwrap().brief.is_none());
    let unscrubbed = each().remove(5).settle_veto(ADA, later(14)).unwrap();
    assert!(unscrubbed.brief.is_some(), "that is the scrub's to take");
    assert!(unscrubbed.scrub(later(15)).unwrap().brief.is_none());
}
