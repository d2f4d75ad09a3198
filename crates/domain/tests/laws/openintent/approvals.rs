//! Approvals (RFC-0013): who may approve, quorums, and that nothing is used twice.

use std::collections::BTreeSet;

use entente_domain::identity::principals::Author;
use entente_domain::ids::{ApprovalId, IntentId};
use entente_domain::limits::{METADATA_BYTES, PERMITS_WAITING, TEXT_BYTES, TITLE_BYTES};
use entente_domain::openintent::approvals::{
    Approval, ApprovalAsk, ApprovalStatus, Ballot, COMPLETE, Judge, judge_completion, request,
};
use entente_domain::openintent::governance::GovernancePolicy;
use entente_domain::refusal::Code;
use entente_domain::refusal::violation::{CompletionMode, Rule};
use proptest::prelude::*;
use serde_json::{Map, json};
use uuid::Uuid;

use crate::any::at;

fn ask(action: &str) -> ApprovalAsk {
    ApprovalAsk { action: action.to_owned(), ..ApprovalAsk::default() }
}

fn asked(by: &str, n: u128) -> Approval {
    let (intent, id) = (IntentId::from(Uuid::nil()), ApprovalId::from(Uuid::from_u128(n)));
    request(ask(COMPLETE), intent, Author { agent: by, principal: "service.s" }, id, 0, at(0)).unwrap()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn quorum(threshold: f64) -> GovernancePolicy {
    GovernancePolicy {
        completion_mode: CompletionMode::Quorum,
        quorum_threshold: threshold,
        ..GovernancePolicy::default()
    }
}

fn single() -> GovernancePolicy {
    GovernancePolicy { completion_mode: CompletionMode::RequireApproval, ..GovernancePolicy::default() }
}

fn judge<'a>(agent: &'a str, admin: bool, policy: &'a GovernancePolicy, assigned: &'a [String]) -> Judge<'a> {
    Judge { agent, admin, policy, assigned }
}

#[test]
fn limits_are_kept() {
    let of = |ask: ApprovalAsk, waiting| {
        let intent = IntentId::from(Uuid::nil());
        let by = Author { agent: "a", principal: "a" };
        request(ask, intent, by, ApprovalId::from(Uuid::nil()), waiting, at(0)).unwrap_err().code
    };
    assert_eq!(of(ask(" "), 0), Code::InvalidRequest);
    assert_eq!(of(ask(&"x".repeat(TITLE_BYTES + 1)), 0), Code::InvalidRequest);
    assert_eq!(of(ApprovalAsk { reason: "x".repeat(TEXT_BYTES + 1), ..ask("a") }, 0), Code::TooLarge);
    let large = Map::from_iter([("a".to_owned(), json!("x".repeat(METADATA_BYTES)))]);
    assert_eq!(of(ApprovalAsk { context: large, ..ask("a") }, 0), Code::TooLarge);
    let beyond = Map::from_iter([("a".to_owned(), json!(u64::MAX))]);
    assert_eq!(of(ApprovalAsk { context: beyond, ..ask("a") }, 0), Code::Unprocessable);
    assert_eq!(of(ask("a"), PERMITS_WAITING), Code::TooLarge);
}

#[test]
fn an_admin_approves_and_nobody_its_own() {
    let (policy, nobody) = (single(), Vec::new());
    let approval = asked("a", 1);
    // Neither under its own name, nor under the name of the key's principal.
    for (agent, admin) in [("b", false), ("a", true), ("service.s", true)] {
        let refused = approval.clone().approve(judge(agent, admin, &policy, &nobody), &[], None, at(1));
        assert_eq!(refused.unwrap_err().code, Code::Forbidden, "{agent}");
    }
    let approved = approval.clone().approve(judge("b", true, &policy, &nobody), &[], None, at(1)).unwrap();
    assert_eq!((approved.status, approved.approved_by.clone()), (ApprovalStatus::Approved, names(&["b"])));
    assert_eq!((approved.decided_by.as_deref(), approved.decided_at), (Some("b"), Some(at(1))));
    // A decision is final.
    for twice in [
        approved.clone().approve(judge("c", true, &policy, &nobody), &[], None, at(2)),
        approved.deny(judge("c", true, &policy, &nobody), None, at(2)),
    ] {
        assert_eq!(twice.unwrap_err().code, Code::AlreadyDecided);
    }
    // A policy may allow self-approval, and every requester may withdraw.
    let lax = GovernancePolicy { allow_self_approval: true, ..single() };
    approval.clone().approve(judge("a", true, &lax, &nobody), &[], None, at(1)).unwrap();
    let back = approval.deny(judge("a", false, &policy, &nobody), None, at(1)).unwrap();
    assert_eq!(back.status, ApprovalStatus::Denied);
}

#[test]
fn named_approvers_are_the_only_ones() {
    let policy = GovernancePolicy { approvers: names(&["x", "y"]), ..single() };
    let approval = asked("a", 1);
    let refused = approval.clone().approve(judge("b", true, &policy, &[]), &[], None, at(1));
    assert_eq!(refused.unwrap_err().code, Code::Forbidden);
    let approved = approval.approve(judge("x", false, &policy, &[]), &[], None, at(1)).unwrap();
    assert_eq!(judge_completion(&policy, std::slice::from_ref(&approved), &[]).unwrap(), [approved.id]);
    // The approval of an agent that is no longer named does not count.
    let later = GovernancePolicy { approvers: names(&["y"]), ..policy };
    let refusal = judge_completion(&later, &[approved], &[]).unwrap_err();
    assert_eq!(refusal.violation.unwrap().rule, Rule::CompletionMode);
}

#[test]
fn a_completion_takes_what_was_approved_for_it_and_not_used() {
    let policy = single();
    assert!(judge_completion(&GovernancePolicy::default(), &[], &[]).unwrap().is_empty());
    let approved = |n| asked("a", n).approve(judge("b", true, &policy, &[]), &[], None, at(1)).unwrap();
    let used = Approval { used_at: Some(at(2)), ..approved(1) };
    let other = Approval { action: "deploy".to_owned(), ..approved(2) };
    let expired = Approval { status: ApprovalStatus::Expired, ..approved(3) };
    let pending = asked("a", 4);
    let none = [used, other, expired, pending];
    let refusal = judge_completion(&policy, &none, &[]).unwrap_err();
    let violation = refusal.violation.unwrap();
    assert_eq!(
        (violation.rule, violation.required, violation.granted),
        (Rule::CompletionMode, Some(1), Some(0))
    );
    let all = [&none[..], &[approved(5), approved(6)]].concat();
    assert_eq!(judge_completion(&policy, &all, &[]).unwrap(), [all[4].id], "one, and the oldest");
}

#[test]
fn a_quorum_is_rounded_up() {
    for (voters, part, required) in [
        (1, 0.6, 1),
        (2, 0.6, 2),
        (3, 0.6, 2),
        (5, 0.6, 3),
        (10, 0.7, 7),
        (20, 0.55, 11),
        (3, 1.0, 3),
        (3, 0.01, 1),
        (0, 0.5, 1),
    ] {
        let assigned: Vec<String> = (0..voters).map(|n| format!("v{n}")).collect();
        assert_eq!(Ballot::of(&[], &quorum(part), &assigned).required, required, "{voters} times {part}");
    }
}

#[test]
fn each_votes_once_however_many_requests_there_are() {
    let (policy, assigned) = (quorum(1.0), names(&["a", "b", "c"]));
    let vote = |approval: Approval, agent: &str, others: &[Approval]| {
        approval.approve(judge(agent, false, &policy, &assigned), others, None, at(1))
    };
    let first = vote(asked("a", 1), "b", &[]).unwrap();
    assert_eq!(first.status, ApprovalStatus::Pending);
    assert_eq!(vote(first.clone(), "b", &[]).unwrap(), first, "who has approved changes nothing by it");
    assert_eq!(vote(first.clone(), "x", &[]).unwrap_err().code, Code::Forbidden);
    // Admins that are not assigned have no vote, but may deny.
    let admin = judge("m", true, &policy, &assigned);
    assert_eq!(first.clone().approve(admin, &[], None, at(1)).unwrap_err().code, Code::Forbidden);
    first.clone().deny(admin, None, at(1)).unwrap();
    let first = vote(first, "c", &[]).unwrap();
    assert_eq!(first.status, ApprovalStatus::Pending, "who asks does not vote on that");
    // But they may vote on another agent's request.
    let second = vote(asked("b", 2), "a", std::slice::from_ref(&first)).unwrap();
    assert_eq!(second.status, ApprovalStatus::Approved);
    let used = judge_completion(&policy, &[first.clone(), second], &assigned).unwrap();
    assert_eq!(used.len(), 2);
    // An agent that is no longer assigned is not counted.
    let fewer = names(&["b", "x"]);
    let refusal = judge_completion(&policy, &[first], &fewer).unwrap_err();
    let violation = refusal.violation.unwrap();
    assert_eq!((violation.required, violation.granted), (Some(2), Some(1)));
}

proptest! {
    /// In any order of votes, a ballot counts agents and not votes, and only those entitled to vote.
    #[test]
    fn a_ballot_counts_agents(
        votes in proptest::collection::vec((0..4_u128, 0..6_usize), 0..24),
        voters in 0..6_usize,
    ) {
        let (policy, all) = (quorum(0.5), ["a", "b", "c", "d", "e", "f"]);
        let assigned = names(&all[..voters]);
        let mut approvals: Vec<Approval> = (0..4).map(|n| asked(all[usize::try_from(n).unwrap()], n + 1)).collect();
        let mut counted = BTreeSet::new();
        for (approval, voter) in votes {
            let at_permit = usize::try_from(approval).unwrap();
            let before = approvals.clone();
            let judge = judge(all[voter], false, &policy, &assigned);
            if let Ok(after) = approvals[at_permit].clone().approve(judge, &before, None, at(1)) {
                prop_assert!(voter < voters && voter != at_permit);
                counted.insert(voter);
                approvals[at_permit] = after;
            }
        }
        let ballot = Ballot::of(&approvals, &policy, &assigned);
        prop_assert_eq!(ballot.granted, counted.len());
        prop_assert_eq!(judge_completion(&policy, &approvals, &assigned).is_ok(), ballot.granted >= ballot.required);
    }
}
