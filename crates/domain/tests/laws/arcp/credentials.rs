//! Credentials: which jobs get one, that none exceeds its job's lease, that each is revoked or escalated to a
//! person, and that no value is shown to anyone else.

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::capabilities::Authority;
use entente_domain::arcp::credentials::{
    Bounds, ROTATED, Rule, SCHEDULE, SETTLE_SECONDS, State, Transition, again_after, alias, redact, reveal,
    rotated, rotation_of, scrub, transition, unsettled_until,
};
use entente_domain::arcp::jobs::order::Priority;
use entente_domain::arcp::jobs::{Job, JobStatus, OnLost};
use entente_domain::globs::Glob;
use entente_domain::ids::{CredentialId, JobId, SessionId};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::any::{Dice, at, moment, text};

const TURNS: [Transition; 6] = [
    Transition::Made,
    Transition::NotMade,
    Transition::Unneeded,
    Transition::TakenBack,
    Transition::GivenUp,
    Transition::Retried,
];

fn lease(asked: Value) -> Authority {
    Authority::check(serde_json::from_value(asked).unwrap()).unwrap()
}

/// Returns a job with a lease.
fn with(asked: Value) -> Job {
    Job {
        id: JobId::mint(at(0), &Dice(1)),
        agent: "code-refactor@2.0.0".to_owned(),
        principal: "agent.ada".to_owned(),
        session_id: SessionId::mint(at(0), &Dice(2)),
        counted: false,
        lease: lease(asked),
        expires_at: None,
        deadline: None,
        idempotency_key: None,
        fingerprint: [0; 32],
        parent_id: None,
        delegate_id: None,
        generation: 0,
        payers: Vec::new(),
        trace_id: "0".repeat(32),
        intent_id: None,
        needs_model: false,
        on_lost: OnLost::Requeue,
        max_attempts: 1,
        priority: Priority::default(),
        retry: None,
        queue_timeout: None,
        concurrency: None,
        slotted: false,
        created_at: at(0),
        key_id: None,
        owner: None,
        reserves: false,
        status: JobStatus::Pending,
        last_seq: 0,
        origin_seq: 0,
        attempt: 0,
        failures: 0,
        retried: Vec::new(),
        not_before: None,
        queue_due_at: None,
        claim: None,
        cancel: None,
        streamed: None,
        abandoned: Vec::new(),
        ended_at: None,
        ended_by: None,
    }
}

fn rule(agents: &[&str], all: &[&str], any: &[&str], models: bool) -> Rule {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Rule {
        agents: agents.iter().map(|text| Glob::parse(text).unwrap()).collect(),
        all: words(all),
        any: words(any),
        models,
    }
}

#[test]
fn every_value_comes_to_an_end_or_before_a_person() {
    let mut ends = Vec::new();
    for from in State::ALL {
        assert_eq!(State::parse(from.as_str()), Some(from));
        if !TURNS.iter().any(|change| transition(from, *change).is_some()) {
            ends.push(from);
        }
    }
    assert_eq!(ends, [State::Revoked]);
    // A value that may exist becomes `revoked` only when its upstream confirms that.
    for (from, change) in State::ALL.into_iter().flat_map(|from| TURNS.map(|change| (from, change))) {
        if transition(from, change) == Some(State::Revoked) {
            assert!(
                change == Transition::TakenBack || change == Transition::NotMade && from == State::Minting
            );
        }
    }
    assert_eq!(transition(State::Live, Transition::NotMade), None);
    assert_eq!(transition(State::Stuck, Transition::Retried), Some(State::Revoking));
}

#[test]
fn the_rule_says_which_jobs() {
    let job = with(json!({ "model.use": ["tier-fast/*"], "cost.budget": ["USD:5.00"] }));
    let yes = [
        rule(&[], &[], &[], true),
        rule(&["code-*"], &["model.use"], &[], true),
        rule(&["nobody", "*@2.*"], &["model.use", "cost.budget"], &["fs.read", "model.use"], true),
    ];
    assert!(yes.iter().all(|rule| rule.wants(&job)));
    let no = [
        rule(&["code"], &[], &[], true),
        rule(&["*@1.*"], &[], &[], true),
        rule(&[], &["fs.read"], &[], true),
        rule(&[], &[], &["fs.read", "fs.write"], true),
    ];
    assert!(!no.iter().any(|rule| rule.wants(&job)));
}

#[test]
fn a_job_that_may_do_nothing_gets_no_credential() {
    let models = rule(&[], &[], &[], true);
    let search = rule(&[], &[], &[], false);
    let none = with(json!({ "model.use": [] }));
    assert!(!models.wants(&none) && search.wants(&none));
    let silent = with(json!({}));
    assert!(models.wants(&silent));
    assert!(!models.wants(&Job { needs_model: true, ..silent }));
    let spent = with(json!({ "model.use": ["*"], "cost.budget": ["USD:0", "EUR:1"] }));
    assert!(!models.wants(&spent) && !search.wants(&spent));
}

#[test]
fn bounds_are_the_leases() {
    let mut job = with(json!({ "model.use": ["tier-fast/*", "a/**"], "cost.budget": ["USD:5.00"] }));
    let left = Budget::of(&lease(json!({ "cost.budget": ["USD:1.25"] }))).unwrap();
    (job.expires_at, job.deadline) = (Some(at(9_000_000)), Some(at(7_000_000)));
    let bounds = Bounds::of(&job, left);
    assert_eq!(
        bounds.echo().unwrap(),
        json!({ "cost.budget": ["USD:1.25"], "model.use": ["tier-fast/*", "a/**"], "expires_at": "1970-01-01T00:00:07.000000Z" })
    );
    let offered = ["tier-fast/x", "tier-fast/x/y", "a", "a/b/c", "ab", "b"].map(str::to_owned);
    assert_eq!(bounds.models_among(&offered).unwrap(), ["tier-fast/x", "a", "a/b/c"]);
    assert_eq!(Bounds::default().echo(), None);
    assert_eq!(Bounds::default().models_among(&offered), None);
}

#[test]
fn the_schedule_is_long_and_ends() {
    let waits: Vec<u64> = (1..=12).map(|made| again_after(made, None, 200).unwrap() / 1_000).collect();
    assert_eq!(waits, SCHEDULE.map(u64::from));
    assert!(waits.iter().sum::<u64>() > 2 * 24 * 3_600);
    assert_eq!((again_after(0, None, 0), again_after(13, None, 0)), (None, None));
    assert_eq!(again_after(1, Some(90), 0), Some(90_000));
    assert_eq!(again_after(1, Some(u32::MAX), 0), Some(3_600_000));
}

#[test]
fn what_was_asked_for_may_still_come() {
    let asked = at(0);
    let last = at(i64::from(SETTLE_SECONDS) * 1_000_000 - 1);
    let settled = at(i64::from(SETTLE_SECONDS) * 1_000_000);
    assert_eq!(unsettled_until(asked, false, last), Some(settled));
    assert_eq!(unsettled_until(asked, false, settled), None);
    assert_eq!(unsettled_until(asked, true, asked), None, "what was heard of is no rumour");
}

#[test]
fn secrets_are_scrubbed_out_of_what_is_said() {
    let said = scrub("no key sk-1 for sk-admin\0", ["sk-1", "", "sk-admin"]);
    assert_eq!(said, "no key … for …\u{fffd}");
    assert_eq!(scrub(&"x".repeat(1_000), []).len(), 300);
}

proptest! {
    #[test]
    fn a_rotation_is_told_without_its_value(value in text(), born in moment(), dice in any::<u128>()) {
        let id = CredentialId::mint(born, &Dice(dice));
        let told = rotated(id).to_string();
        prop_assert_eq!(rotation_of("status", &told), Some(id));
        prop_assert_eq!(redact("status", &told), None, "there is nothing to take out");
        let shown = reveal("status", &told, &value).unwrap();
        let body: Value = serde_json::from_str(&shown).unwrap();
        prop_assert_eq!(&body["value"], &json!(value));
        prop_assert_eq!(redact("status", &shown), Some(told));
        prop_assert_eq!(redact("log", &shown), None);
    }

    #[test]
    fn no_spelling_gets_a_value_past(escaped in 0..ROTATED.len(), member in 0..5_usize) {
        let spell = |word: &str, at: usize| {
            let letters = word.char_indices();
            letters.map(|(i, c)| if i == at { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }).collect::<String>()
        };
        let body = format!(r#"{{"phase":"{}","{}":"sk-1","id":"x"}}"#, spell(ROTATED, escaped), spell("value", member));
        let kept = redact("status", &body).unwrap();
        prop_assert!(!kept.contains("sk-1"), "{}", kept);
    }

    #[test]
    fn other_events_are_left_as_they_are(body in text(), phase in "[a-z_]{1,20}") {
        prop_assume!(phase != ROTATED);
        let status = json!({ "phase": phase, "value": body, "message": ROTATED }).to_string();
        prop_assert_eq!(redact("status", &status), None);
        prop_assert_eq!(redact("status", &body), None);
    }

    #[test]
    fn a_wait_varies_by_a_fifth(made in 1_u32..13, chance in any::<u64>()) {
        let base = u64::from(SCHEDULE[made as usize - 1]) * 1_000;
        let wait = again_after(made, None, chance).unwrap();
        prop_assert!((base * 4 / 5..=base * 6 / 5).contains(&wait));
    }

    #[test]
    fn aliases_are_one_per_value(born in moment(), dice in any::<u128>(), one in 1_u32..100, other in 1_u32..100) {
        let id = CredentialId::mint(born, &Dice(dice));
        prop_assert_eq!(alias(id, one) == alias(id, other), one == other);
        prop_assert!(alias(id, one).bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')));
    }
}
