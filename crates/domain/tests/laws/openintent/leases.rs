//! Leases (RFC-0003): the coverage of a scope, acquisition, and protection of the state.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, LeaseId};
use entente_domain::limits::{LEASE_SECONDS, LEASES, PATH_SEGMENTS, SCOPE_BYTES};
use entente_domain::openintent::leases::queue::{LeaseWait, awaited, in_turn};
use entente_domain::openintent::leases::{
    Claimant, EndReason, Lease, LeaseAsk, LeaseScope, LeaseStatus, NewLease, acquire, guard, hand_over, renew,
};
use entente_domain::openintent::patch::{Change, Op, Patch, apply};
use entente_domain::refusal::held_lease::HeldLease;
use entente_domain::refusal::{Code, Refusal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::any::at;

const AGENTS: [&str; 3] = ["ada", "bob", "eve"];

fn names(fencing_token: i64) -> NewLease {
    NewLease { id: LeaseId::from(Uuid::nil()), intent_id: IntentId::from(Uuid::nil()), fencing_token }
}

fn ask(scope: &str, duration_seconds: i64) -> LeaseAsk {
    LeaseAsk { scope: scope.to_owned(), duration_seconds }
}

fn by(agent: &str) -> Claimant<'_> {
    Claimant { agent, until: None }
}

fn lease(agent: &str, scope: &str, token: i64) -> Lease {
    acquire(&ask(scope, 60), by(agent), &[], names(token), at(0)).unwrap()
}

fn set(path: &str) -> Patch {
    Patch { op: Op::Set, path: path.to_owned(), value: json!(1) }
}

fn patches(paths: &[&str]) -> Change {
    Change::Patches { patches: paths.iter().map(|path| set(path)).collect() }
}

/// Generates paths of a few parts that often coincide.
fn path() -> impl Strategy<Value = String> {
    vec(select(&["a", "b", "state"][..]), 1..4).prop_map(|parts| parts.join("/"))
}

/// Generates scopes in the notations that clients use.
fn scope() -> impl Strategy<Value = String> {
    let written = (path(), select(&["", "/", "state/"][..]), select(&["", "/", "/*"][..]));
    prop_oneof![Just("*".to_owned()), written.prop_map(|(path, front, end)| format!("{front}{path}{end}"))]
}

fn change() -> impl Strategy<Value = Change> {
    let op = select(&[Op::Set, Op::Append, Op::Remove][..]);
    let patch = (op, path()).prop_map(|(op, path)| Patch { op, path, value: json!([1]) });
    let member = select(&["a", "b", "state", "a/b"][..]);
    prop_oneof![
        vec(patch, 0..3).prop_map(|patches| Change::Patches { patches }),
        vec(member, 0..2).prop_map(|names| {
            let members = names.into_iter().map(|name| (name.to_owned(), json!(2)));
            Change::Merge { state: members.collect() }
        })
    ]
}

/// Returns the value at a path of a state; reference implementation for the coverage of a scope.
fn part<'a>(state: &'a Map<String, Value>, path: &LeaseScope) -> Option<&'a Value> {
    let text = path.to_string();
    let mut parts = text.split('/').filter(|part| !part.is_empty());
    let first = state.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// Requests leases one after the other and returns the granted ones.
fn granted(asked: &[(&str, String)]) -> Vec<Lease> {
    let mut held = Vec::new();
    for (token, (agent, scope)) in (1..).zip(asked) {
        held.extend(acquire(&ask(scope, 60), by(agent), &held, names(token), at(0)));
    }
    held
}

fn requests() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    vec((select(&AGENTS[..]), scope()), 0..6)
}

fn is_about_one(refusal: &Refusal) {
    assert!(refusal.message.to_lowercase().contains("lease"), "OI-3.5.4: {refusal:?}");
}

#[test]
fn a_scope_has_many_texts_and_one_meaning() {
    for (text, path) in [
        ("research", "research"),
        ("/research/", "research"),
        ("research/*", "research"),
        ("state/research", "research"),
        ("a//b", "a/b"),
        ("state", "state"),
        ("state/state", "state"),
        ("the Q1 report", "the Q1 report"),
        ("*", ""),
        ("state/*", ""),
        ("*/a", "*/a"),
    ] {
        let scope = LeaseScope::parse(text).unwrap();
        assert_eq!(scope.to_string(), path, "{text}");
        assert_eq!(LeaseScope::stored(path), scope, "{text}");
    }
}

#[test]
fn a_scope_that_is_none_is_refused() {
    let long = "a".repeat(SCOPE_BYTES + 1);
    let deep = "a/".repeat(PATH_SEGMENTS + 1);
    for text in ["", "/", "//", " ", " / ", "a\nb", &long, &deep] {
        let refusal = LeaseScope::parse(text).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.errors[0].loc[1].as_str()),
            (Code::InvalidRequest, "scope"),
            "{text:?}"
        );
    }
}

#[test]
fn a_lease_lasts_between_a_second_and_a_week() {
    let longest = i64::from(LEASE_SECONDS);
    for (seconds, lawful) in [
        (1, true),
        (longest, true),
        (0, false),
        (-1, false),
        (longest + 1, false),
        (i64::MIN, false),
        (i64::MAX, false),
    ] {
        let made = acquire(&ask("a", seconds), by("ada"), &[], names(1), at(0));
        assert_eq!(made.is_ok(), lawful, "{seconds}");
        let renewed = renew(&lease("ada", "a", 1), seconds, by("ada"), at(1));
        assert_eq!(renewed.is_ok(), lawful, "{seconds}");
        if let Ok(lease) = made {
            assert_eq!((lease.expires_at - lease.acquired_at).num_seconds(), seconds);
        }
    }
}

#[test]
fn an_intent_has_so_many_leases_and_no_more() {
    let mut held: Vec<Lease> = (0..LEASES).map(|n| lease("ada", &format!("s{n}"), 1)).collect();
    let refusal = acquire(&ask("one", 60), by("ada"), &held, names(1), at(0)).unwrap_err();
    assert_eq!(refusal.code, Code::TooLarge);
    held.pop();
    acquire(&ask("one", 60), by("ada"), &held, names(1), at(0)).unwrap();
}

#[test]
fn a_merge_names_members_and_no_paths() {
    let held = [lease("ada", "a/b", 1)];
    let merge = |name: &str| Change::Merge { state: Map::from_iter([(name.to_owned(), json!(1))]) };
    guard(&held, "bob", &merge("a/b"), None).unwrap();
    let refusal = guard(&held, "bob", &merge("a"), None).unwrap_err();
    assert_eq!(refusal.code, Code::LeaseHeld, "it would replace what is at `a/b`");
}

#[test]
fn a_fencing_token_is_good_as_long_as_its_lease() {
    let held = [lease("ada", "a", 7)];
    for change in [patches(&[]), patches(&["b"]), patches(&["a"])] {
        guard(&held, "ada", &change, Some(7)).unwrap();
        for (agent, token) in [("ada", 6), ("ada", 8), ("bob", 7)] {
            let refusal = guard(&held, agent, &change, Some(token)).unwrap_err();
            assert_eq!(refusal.code, Code::LeaseEnded);
            is_about_one(&refusal);
        }
    }
}

/// Whether a refusal names this lease, with all that it says of it.
fn same(lease: &Lease, named: &HeldLease) -> bool {
    let said = HeldLease {
        id: lease.id,
        intent_id: lease.intent_id,
        agent_id: lease.agent_id.clone(),
        scope: lease.scope.clone(),
        fencing_token: lease.fencing_token,
        acquired_at: lease.acquired_at,
        expires_at: lease.expires_at,
    };
    said == *named
}

proptest! {
    #[test]
    fn what_is_stored_is_what_was_read(text in scope()) {
        let scope = LeaseScope::parse(&text).unwrap();
        prop_assert_eq!(LeaseScope::stored(&scope.to_string()), scope);
    }

    #[test]
    fn any_text_is_a_scope_or_refused(text: String) {
        if let Ok(scope) = LeaseScope::parse(&text) {
            prop_assert_eq!(LeaseScope::stored(&scope.to_string()), scope);
        }
    }

    /// The guarantee: no two holders at one place of the state.
    #[test]
    fn scopes_of_different_holders_never_meet(asked in requests(), path in path()) {
        let held = granted(&asked);
        let parts: Vec<&str> = path.split('/').collect();
        let prefixes = |lease: &Lease| {
            let covers: Vec<String> = lease.path.split('/').filter(|p| !p.is_empty()).map(str::to_owned).collect();
            parts.len() >= covers.len() && covers.iter().zip(&parts).all(|(a, b)| a == b)
        };
        let mut holders: Vec<&str> =
            held.iter().filter(|lease| prefixes(lease)).map(|lease| lease.agent_id.as_str()).collect();
        holders.dedup();
        prop_assert!(holders.len() <= 1, "{holders:?} at {path}");
    }

    #[test]
    fn one_scope_is_held_once(asked in requests(), agent in select(&AGENTS[..]), scope in scope()) {
        let held = granted(&asked);
        let covers = LeaseScope::parse(&scope).unwrap();
        match acquire(&ask(&scope, 60), by(agent), &held, names(99), at(0)) {
            Ok(lease) => {
                prop_assert!(held.iter().all(|other| other.path != lease.path));
                prop_assert_eq!((&lease.agent_id, &lease.scope), (&agent.to_owned(), &scope));
            }
            Err(refusal) => {
                prop_assert_eq!(refusal.code, Code::LeaseHeld);
                is_about_one(&refusal);
                let existing = refusal.existing_lease.unwrap();
                let existing = held.iter().find(|lease| same(lease, &existing)).unwrap();
                prop_assert!(existing.agent_id != agent || existing.covers() == covers);
            }
        }
    }

    /// Every accepted change leaves the other holders' parts of the state unchanged, by a comparison that does not
    /// use the patches' paths; and no change is refused without a conflicting lease.
    #[test]
    fn a_change_that_passes_leaves_what_others_hold(
        asked in requests(), agent in select(&AGENTS[..]), change in change(),
    ) {
        let held = granted(&asked);
        let state = json!({ "a": { "a": { "b": 0 }, "b": 0 }, "state": { "b": 0 } });
        let Value::Object(state) = state else { unreachable!() };
        match guard(&held, agent, &change, None) {
            Ok(()) => {
                let Ok(next) = apply(&state, &change) else { return Ok(()) };
                for other in held.iter().filter(|lease| lease.agent_id != agent) {
                    let covers = other.covers();
                    if other.path.is_empty() {
                        prop_assert_eq!(&state, &next);
                    } else {
                        prop_assert_eq!(part(&state, &covers), part(&next, &covers), "{}", other.scope);
                    }
                }
            }
            Err(refusal) => {
                is_about_one(&refusal);
                let existing = refusal.existing_lease.unwrap();
                prop_assert!(existing.agent_id != agent && held.iter().any(|lease| same(lease, &existing)));
            }
        }
        let own: Vec<Lease> = held.into_iter().filter(|lease| lease.agent_id == agent).collect();
        prop_assert_eq!(guard(&own, agent, &change, None), Ok(()));
    }

    #[test]
    fn free_texts_disturb_only_their_own_name(scope in "[a-z][a-z ]{0,8}[a-z]", path in path()) {
        prop_assume!(path.split('/').next() != Some(scope.as_str()));
        let held = [lease("ada", &scope, 1)];
        prop_assert_eq!(guard(&held, "bob", &patches(&[&path]), None), Ok(()));
    }

    #[test]
    fn a_lease_ends_the_instant_it_is_due_and_stays_so(seconds in 1_i64..100, micros in 0_i64..200_000_000) {
        let made = acquire(&ask("a", seconds), by("ada"), &[], names(1), at(0)).unwrap();
        let now = at(micros);
        let due = micros >= seconds * 1_000_000;
        prop_assert_eq!(made.in_force(now), !due);
        prop_assert_eq!(made.status_at(now) == LeaseStatus::Expired, due);
        match renew(&made, 60, by("ada"), now) {
            Ok(renewed) => {
                prop_assert!(!due);
                prop_assert_eq!(Lease { expires_at: made.expires_at, ..renewed.clone() }, made);
                prop_assert_eq!(renewed.expires_at, at(micros + 60_000_000));
            }
            Err(refusal) => {
                prop_assert!(due);
                prop_assert_eq!(refusal.code, Code::LeaseEnded);
                is_about_one(&refusal);
            }
        }
    }

    #[test]
    fn what_has_ended_is_never_renewed(reason in select(vec![
        EndReason::Released, EndReason::Expired, EndReason::Revoked, EndReason::AccessLost,
        EndReason::AgentDeparted, EndReason::IntentResolved,
    ])) {
        let ended = lease("ada", "a", 1).ended(reason, at(5));
        prop_assert_eq!((ended.status, ended.ended_at), (reason.status(), Some(at(5))));
        prop_assert!(!ended.in_force(at(5)) && ended.status != LeaseStatus::Active);
        prop_assert_eq!(renew(&ended, 60, by("ada"), at(6)).unwrap_err().code, Code::LeaseEnded);
    }

    #[test]
    fn no_lease_outlives_its_holders_access(seconds in 1_i64..100, end in 1_i64..100) {
        let until: Option<Timestamp> = Some(at(end * 1_000_000));
        let claimant = Claimant { agent: "ada", until };
        let made = acquire(&ask("a", seconds), claimant, &[], names(1), at(0)).unwrap();
        prop_assert_eq!(made.expires_at, at(seconds.min(end) * 1_000_000));
        let renewed = renew(&made, seconds, claimant, at(0)).unwrap();
        prop_assert_eq!(renewed.expires_at, made.expires_at);
    }
}

fn waits() -> impl Strategy<Value = Vec<LeaseWait>> {
    let one = (select(&AGENTS[..]), select(&["a", "a/b", "a/c", "d", "*"][..]));
    vec(one, 0..8).prop_map(|waits| {
        let mut found: Vec<LeaseWait> = Vec::new();
        for (number, (agent, scope)) in waits.into_iter().enumerate() {
            let path = LeaseScope::parse(scope).unwrap().to_string();
            if !found.iter().any(|wait| wait.agent_id == agent && wait.path == path) {
                let (agent_id, scope) = (agent.to_owned(), scope.to_owned());
                let number = i64::try_from(number).unwrap();
                found.push(LeaseWait { agent_id, scope, path, number, since: at(number), until: at(100) });
            }
        }
        found
    })
}

proptest! {
    /// Among those who wait, the lease of one never comes after a later one's, and somebody can always go on.
    #[test]
    fn who_waits_has_its_turn_and_somebody_always_has_one(
        waits in waits(), holder in select(&AGENTS[..]), scope in select(&["a", "a/b", "d", "*"][..]), is_held: bool,
    ) {
        let held: Vec<Lease> = is_held.then(|| lease(holder, scope, 1)).into_iter().collect();
        let turn = |wait: &LeaseWait| in_turn(&ask(&wait.scope, 60), by(&wait.agent_id), &held, &waits).is_ok();
        for wait in waits.iter().filter(|wait| turn(wait)) {
            let touches = |other: &&LeaseWait| other.covers().touches(&split(&wait.path));
            let before = waits.iter().filter(|other| other.number < wait.number && other.agent_id != wait.agent_id);
            for other in before.filter(touches) {
                // It waits for this one's own lease.
                let yields = held.iter().any(|lease| lease.agent_id == wait.agent_id);
                prop_assert!(yields, "{wait:?} overtakes {other:?}");
            }
        }
        if let Some(first) = waits.first().filter(|_| held.is_empty()) {
            prop_assert!(turn(first));
        }
        // Who never waited comes last, and who holds all of it waits for nobody.
        let late = in_turn(&ask("a", 60), by("late"), &[], &waits);
        prop_assert_eq!(late.is_ok(), !waits.iter().any(|wait| wait.covers().touches(&["a"])));
        prop_assert!(in_turn(&ask("a/b", 60), by("late"), &[lease("late", "*", 1)], &waits).is_ok());
    }

    /// Whoever has its turn waits for nobody, and anybody else for another agent; only what it holds itself is its own affair.
    #[test]
    fn a_wait_is_for_those_in_the_way_and_those_before(
        waits in waits(), holder in select(&AGENTS[..]), scope in select(&["a", "a/b", "d", "*"][..]), is_held: bool,
    ) {
        let held: Vec<Lease> = is_held.then(|| lease(holder, scope, 1)).into_iter().collect();
        for wait in &waits {
            let agents = awaited(wait, &held, &waits);
            prop_assert!(!agents.contains(wait.agent_id.as_str()));
            let has_turn = in_turn(&ask(&wait.scope, 60), by(&wait.agent_id), &held, &waits).is_ok();
            let own = held.iter().any(|lease| lease.agent_id == wait.agent_id && lease.path == wait.path);
            prop_assert_eq!(agents.is_empty(), has_turn || own, "{:?} for {:?}", wait, agents);
        }
    }
}

fn split(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

proptest! {
    /// A lease that is handed over protects the same scope, for its new holder only, and lasts no longer than before.
    #[test]
    fn a_hold_that_is_handed_over_goes_on(scope in scope(), seconds in 1_i64..600, until in proptest::option::of(1_u32..900)) {
        let old = acquire(&ask(&scope, seconds), by("ada"), &[], names(1), at(0)).unwrap();
        let to = Claimant { agent: "bob", until: until.map(|seconds| at(i64::from(seconds) * 1_000_000)) };
        let new = hand_over(&old, to, names(2), at(0));
        prop_assert_eq!((&new.scope, &new.path, new.fencing_token), (&old.scope, &old.path, 2));
        prop_assert!(new.expires_at <= old.expires_at && to.until.is_none_or(|until| new.expires_at <= until));
        let held = [new];
        let all = Change::Merge { state: old.covers().to_string().split('/').take(1).map(|name| (name.to_owned(), json!(1))).collect() };
        prop_assert!(guard(&held, "bob", &all, Some(2)).is_ok());
        prop_assert_eq!(guard(&held, "ada", &all, Some(1)).unwrap_err().code, Code::LeaseEnded);
        prop_assert_eq!(guard(&held, "bob", &all, Some(1)).unwrap_err().code, Code::LeaseEnded);
        prop_assert!(acquire(&ask(&scope, 1), by("ada"), &held, names(3), at(0)).is_err());
    }
}
