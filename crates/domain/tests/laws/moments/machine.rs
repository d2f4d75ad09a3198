//! The state machine as a whole: no sequence of attempts leaves a final state, and the first answer is final.

use entente_domain::moments::{Answered, Circumstances, Moment, MomentState, Resolution, Speaker};
use entente_domain::refusal::Refusal;
use proptest::prelude::*;

use super::{ADA, AGENT, BOB, asked, id, later, option, own_words, person, refusal_of};

/// An attempted operation.
#[derive(Debug, Clone)]
enum Try {
    Resolve(bool, Resolution),
    Word(bool),
    View,
    Withdraw,
    LoseCause,
    Expire,
    Escalate,
    Supersede,
    Close,
    SettleVeto(bool),
    RestoreVeto,
    Acknowledge,
    Scrub,
}

fn tries() -> impl Strategy<Value = Try> {
    let resolution = prop_oneof![
        (0_usize..3).prop_map(option),
        "[ab]{0,1}".prop_map(|text| own_words(&text)),
        "[ab]{0,1}".prop_map(|text| refusal_of(&text)),
    ];
    prop_oneof![
        4 => (any::<bool>(), resolution).prop_map(|(first, resolution)| Try::Resolve(first, resolution)),
        2 => any::<bool>().prop_map(Try::Word),
        1 => Just(Try::View),
        1 => Just(Try::Withdraw),
        1 => Just(Try::LoseCause),
        1 => Just(Try::Expire),
        1 => Just(Try::Escalate),
        1 => Just(Try::Supersede),
        1 => Just(Try::Close),
        1 => any::<bool>().prop_map(Try::SettleVeto),
        1 => Just(Try::RestoreVeto),
        1 => Just(Try::Acknowledge),
        1 => Just(Try::Scrub),
    ]
}

/// Applies an attempt; `None` if it has no effect.
fn attempt(moment: &Moment, attempt: &Try, second: i64) -> Result<Option<Moment>, Refusal> {
    let now = later(second);
    let ada = person(ADA);
    match attempt {
        Try::Resolve(first, resolution) => {
            let by = if *first { person(ADA) } else { person(BOB) };
            let digest = moment.digest.clone().unwrap_or_default();
            match moment.resolve(&by, &digest, resolution.clone(), Circumstances::default(), now)? {
                Answered::First(next) => Ok(Some(next)),
                Answered::Again(same) => {
                    assert_eq!(same, *moment, "a retry changes nothing");
                    Ok(None)
                }
            }
        }
        Try::Word(agent) => {
            let by = if *agent { Speaker::Agent(AGENT) } else { Speaker::Principal(&ada) };
            moment.word(by, "A word.", now).map(|(next, _)| Some(next))
        }
        Try::View => Ok(moment.view(&ada, now)),
        Try::Withdraw => moment.withdraw(AGENT, None, now).map(Some),
        Try::LoseCause => Ok(moment.lose_cause("It has ended.", now)),
        Try::Expire => Ok(moment.expire(now)),
        Try::Escalate => Ok(moment.escalate(now)),
        Try::Supersede => {
            let next = Moment { id: id(2), supersedes: Some(moment.id), ..asked() };
            moment.supersede(&next, now).map(Some)
        }
        Try::Close => moment.close(&ada, None, now).map(Some),
        Try::SettleVeto(first) => Ok(moment.settle_veto(if *first { ADA } else { BOB }, now)),
        Try::RestoreVeto => Ok(moment.restore_veto(now)),
        Try::Acknowledge => moment.acknowledge(AGENT, now),
        Try::Scrub => Ok(moment.scrub(now)),
    }
}

/// Whether ARCHITECTURE.md's machine has this transition.
fn is_a_way(from: MomentState, to: MomentState) -> bool {
    use MomentState::{Closed, Deliberating, Expired, Open, Resolved, Superseded, Withdrawn};
    from == to
        || matches!((from, to), (Open, Resolved | Deliberating | Withdrawn | Expired))
        || matches!((from, to), (Deliberating, Superseded | Closed))
        || matches!((from, to), (Superseded, Deliberating))
}

fn begun(escalates: bool) -> Moment {
    let escalation = entente_domain::moments::Escalation { to: BOB.to_owned(), at: later(50), told_at: None };
    let escalation = escalates.then_some(escalation);
    Moment { escalation, expires_at: Some(later(100)), ..asked() }
}

proptest! {
    #[test]
    fn no_verb_leaves_an_end_and_one_answer_sticks(
        escalates: bool,
        course in proptest::collection::vec((tries(), 0_i64..30), 1..25),
    ) {
        let mut moment = begun(escalates);
        let mut second = 0;
        let mut answer = None;
        for (what, wait) in course {
            second += wait;
            let (before, seen) = (moment.clone(), moment.state_at(later(second)));
            let Ok(Some(next)) = attempt(&moment, &what, second) else { continue };
            moment = next;
            prop_assert_eq!(moment.version, before.version + 1, "{:?}", what);
            prop_assert!(is_a_way(before.state, moment.state), "{:?}: {:?} to {:?}", what, before.state, moment.state);
            // A due change has happened, whichever operation comes first.
            prop_assert!(is_a_way(seen, moment.state_at(later(second))), "{:?}: {:?}", what, seen);
            let restored = matches!(what, Try::RestoreVeto);
            if seen.is_terminal() && !restored {
                prop_assert_eq!(moment.state_at(later(second)), seen);
            }
            // An objection is settled once, only by its own people, and stands until then.
            prop_assert!(before.veto_settled_at.is_none() || moment.veto_settled_at == before.veto_settled_at);
            if before.is_unsettled_veto() && !moment.is_unsettled_veto() {
                let by_bob = matches!(what, Try::SettleVeto(false));
                prop_assert!(matches!(what, Try::Close | Try::SettleVeto(_)), "{:?}", what);
                prop_assert!(!by_bob || before.may_settle(BOB));
            }
            let ended = moment.state.is_terminal();
            prop_assert_eq!(moment.ended_at.is_some(), ended);
            prop_assert!(restored || before.ended_at.is_none() || moment.ended_at == before.ended_at);
            prop_assert!(!restored || before.is_unsettled_veto());
            let kind = moment.resolution.as_ref().map(|settled| (settled.kind, settled.option_idx, settled.by.clone(), settled.at));
            if answer.is_some() {
                prop_assert_eq!(&kind, &answer, "the first answer is the answer");
            }
            answer = kind;
            // Only a person who is asked gives the answer; a timeout answers nothing.
            if before.resolution.is_none() && moment.resolution.is_some() {
                prop_assert!(matches!(what, Try::Resolve(..)));
                prop_assert!(second < 100, "it had lapsed");
            }
            prop_assert_eq!(
                moment.state == MomentState::Resolved,
                moment.resolution.as_ref().is_some_and(|s| s.objection.is_none() && s.kind.as_str() != "dialogue")
            );
        }
    }

    /// Of concurrent answers, each judged on the result of the one before, one is the first; an equal one is a
    /// retry, and all others get its author and time.
    #[test]
    fn of_many_answers_one_wins(order in proptest::collection::vec((any::<bool>(), 0_usize..2), 2..12)) {
        let mut moment = begun(true);
        let mut winners = 0;
        for (first, index) in order {
            let by = if first { person(ADA) } else { person(BOB) };
            let digest = moment.digest.clone().unwrap();
            match moment.resolve(&by, &digest, option(index), Circumstances::default(), later(60)) {
                Ok(Answered::First(next)) => {
                    winners += 1;
                    moment = next;
                }
                Ok(Answered::Again(same)) => {
                    let settled = same.resolution.unwrap();
                    prop_assert_eq!((settled.by.as_str(), settled.option_idx), (by.principal_id, Some(index)));
                }
                Err(refusal) => {
                    let winner = moment.resolution.as_ref().unwrap();
                    prop_assert!(refusal.message.contains(&winner.by), "{}", refusal.message);
                }
            }
        }
        prop_assert_eq!(winners, 1);
    }
}
