//! Governance (RFC-0013): valid policies, and the operations that they refuse.

use entente_domain::amounts::Amount;
use entente_domain::limits::{LIST_ITEMS, POLICY_BYTES};
use entente_domain::openintent::governance::{GovernancePolicy, QUORUM, WriteScope};
use entente_domain::refusal::violation::{CompletionMode, Rule};
use entente_domain::refusal::{Code, Refusal};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::any::{json as any_json, name};

fn given(policy: &Value) -> Map<String, Value> {
    policy.as_object().unwrap().clone()
}

fn read(policy: &Value) -> GovernancePolicy {
    GovernancePolicy::read(&given(policy)).unwrap()
}

fn rule(refusal: &Refusal) -> Rule {
    assert_eq!(refusal.code, Code::GovernanceViolation);
    refusal.violation.as_deref().unwrap().rule
}

fn amount(text: &str) -> Amount {
    text.parse().unwrap()
}

#[test]
fn what_is_not_said_is_permissive() {
    let policy = read(&json!({ "completion_mode": null, "max_cost": null, "something": { "of": "my own" } }));
    assert_eq!(policy, GovernancePolicy::default());
    assert_eq!((policy.completion_mode, policy.write_scope), (CompletionMode::Auto, WriteScope::Any));
    assert!((policy.quorum_threshold - QUORUM).abs() < f64::EPSILON);
}

#[test]
fn a_member_that_is_read_must_be_what_it_is() {
    for (member, value) in [
        ("completion_mode", json!("never")),
        ("completion_mode", json!(1)),
        ("write_scope", json!("some")),
        ("quorum_threshold", json!(0)),
        ("quorum_threshold", json!(1.01)),
        ("quorum_threshold", json!("half")),
        ("allowed_agents", json!("agent.a")),
        ("allowed_agents", json!([1])),
        ("allowed_agents", json!([""])),
        ("approvers", json!(["*"])),
        ("max_cost", json!(-0.01)),
        ("max_cost", json!("much")),
        ("max_cost", json!(true)),
        ("require_status_reason", json!("yes")),
        ("allow_self_approval", json!(1)),
        ("escalate_to", json!(7)),
        ("escalate_to", json!(" ")),
    ] {
        let policy = given(&json!({ member: value }));
        let refusal = GovernancePolicy::read(&policy).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidRequest, "{member}: {value}");
        assert_eq!(refusal.errors[0].loc, ["body", member]);
    }
    let many: Vec<String> = (0..=LIST_ITEMS).map(|n| format!("agent.{n}")).collect();
    let long = given(&json!({ "allowed_agents": many }));
    assert_eq!(GovernancePolicy::read(&long).unwrap_err().code, Code::TooLarge);
    let large = given(&json!({ "note": "x".repeat(POLICY_BYTES) }));
    assert_eq!(GovernancePolicy::read(&large).unwrap_err().code, Code::TooLarge);
    let beyond = given(&json!({ "note": u64::MAX }));
    assert_eq!(GovernancePolicy::read(&beyond).unwrap_err().code, Code::Unprocessable);
}

#[test]
fn a_kept_policy_says_nothing_where_it_is_not_lawful() {
    let kept =
        given(&json!({ "completion_mode": "never", "write_scope": "assigned_only", "max_cost": "much" }));
    let expected = GovernancePolicy { write_scope: WriteScope::AssignedOnly, ..GovernancePolicy::default() };
    assert_eq!(GovernancePolicy::kept(&kept), expected);
}

#[test]
fn work_is_for_those_who_are_assigned_and_named() {
    let assigned = read(&json!({ "write_scope": "assigned_only" }));
    assigned.judge_write("a", true).unwrap();
    assert_eq!(rule(&assigned.judge_write("a", false).unwrap_err()), Rule::WriteScope);
    let named = read(&json!({ "allowed_agents": ["a"] }));
    named.judge_write("a", false).unwrap();
    assert_eq!(rule(&named.judge_write("b", true).unwrap_err()), Rule::AllowedAgents);
    let both = read(&json!({ "write_scope": "assigned_only", "allowed_agents": ["a"] }));
    both.judge_write("a", true).unwrap();
    assert_eq!(rule(&both.judge_write("a", false).unwrap_err()), Rule::WriteScope);
    assert_eq!(rule(&both.judge_write("b", true).unwrap_err()), Rule::AllowedAgents);
}

#[test]
fn nobody_gets_power_by_an_assignment_of_its_own() {
    let free = GovernancePolicy::default();
    free.judge_assignment("a", false, "a").unwrap();
    for (policy, expected) in [
        (json!({ "write_scope": "assigned_only" }), Rule::WriteScope),
        (json!({ "completion_mode": "quorum" }), Rule::CompletionMode),
    ] {
        let policy = read(&policy);
        assert_eq!(rule(&policy.judge_assignment("a", false, "a").unwrap_err()), expected);
        policy.judge_assignment("a", true, "b").unwrap();
        // Nor by removing others; every agent may leave.
        assert_eq!(rule(&policy.judge_removal("a", false, "b").unwrap_err()), expected);
        policy.judge_removal("a", true, "b").unwrap();
        policy.judge_removal("a", false, "a").unwrap();
    }
    // With named approvers, assignments do not affect the vote.
    read(&json!({ "completion_mode": "quorum", "approvers": ["c"] }))
        .judge_assignment("a", false, "a")
        .unwrap();
    // The policy's author has admitted the agents that it names; no one else can be assigned, not even by a
    // manager.
    let named = read(&json!({ "write_scope": "assigned_only", "allowed_agents": ["a"] }));
    named.judge_assignment("a", false, "a").unwrap();
    assert_eq!(rule(&named.judge_assignment("m", true, "b").unwrap_err()), Rule::AllowedAgents);
}

#[test]
fn a_reason_is_a_reason_only_with_words_in_it() {
    let policy = read(&json!({ "require_status_reason": true }));
    for reason in [None, Some(""), Some(" \n")] {
        assert_eq!(rule(&policy.judge_reason(reason).unwrap_err()), Rule::RequireStatusReason);
    }
    policy.judge_reason(Some("done")).unwrap();
    GovernancePolicy::default().judge_reason(None).unwrap();
}

#[test]
fn a_ceiling_is_exact() {
    let policy = read(&json!({ "max_cost": 0.3 }));
    policy.judge_cost(amount("0.1"), amount("0.2")).unwrap();
    let refusal = policy.judge_cost(amount("0.1"), amount("0.200000000001")).unwrap_err();
    assert_eq!(rule(&refusal), Rule::MaxCost);
    GovernancePolicy::default().judge_cost(amount("1000000"), amount("1")).unwrap();
    assert_eq!(
        rule(&read(&json!({ "max_cost": 0 })).judge_cost(Amount::ZERO, amount("1")).unwrap_err()),
        Rule::MaxCost
    );
}

proptest! {
    #[test]
    fn reading_never_fails_in_another_way(policy in any_json(), agent in name(), assigned: bool) {
        let Value::Object(policy) = json!({ "write_scope": policy, "other": 1 }) else { unreachable!() };
        // If a policy can be read, the stored form equals it.
        if let Ok(read) = GovernancePolicy::read(&policy) {
            prop_assert_eq!(&read, &GovernancePolicy::kept(&policy));
        }
        let kept = GovernancePolicy::kept(&policy);
        let refused = kept.judge_write(&agent, assigned).is_err();
        prop_assert_eq!(refused, kept.write_scope == WriteScope::AssignedOnly && !assigned);
    }

    #[test]
    fn a_policy_only_ever_takes(allowed in proptest::collection::vec(name(), 0..4), agent in name(), assigned: bool) {
        let policy = GovernancePolicy { allowed_agents: allowed.clone(), ..GovernancePolicy::default() };
        let may = policy.judge_write(&agent, assigned).is_ok();
        prop_assert_eq!(may, allowed.is_empty() || allowed.contains(&agent));
    }
}
