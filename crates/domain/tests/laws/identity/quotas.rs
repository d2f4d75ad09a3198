//! Quotas: never more bytes than the limit and one body, a wait that is exact, the use of a team as the sum of its members'.

use std::collections::{BTreeMap, HashMap};

use entente_domain::identity::quotas::{
    Defaults, Full, Intake, MOST, Quota, QuotaOverride, QuotaSet, busy, bytes_in_use, charge_bytes,
    difference, judge_bytes, rescaled, spent,
};
use entente_domain::refusal::Code;
use entente_domain::subjects::{Subject, SubjectKind};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

const MINUTE: u64 = 60 * 1_000_000_000;

/// A limit: small, usual, or the largest.
fn limit() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..50, 1_000_u64..10_000_000, Just(MOST)]
}

/// Bodies, and the pauses before them.
fn bodies() -> impl Strategy<Value = Vec<(u64, u64)>> {
    vec((prop_oneof![Just(0), 0..MINUTE / 50, 0..3 * MINUTE], 0_u64..5_000_000), 1..80)
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("ada"), Just("bob"), Just("cy"), Just("dee")].prop_map(str::to_owned)
}

fn quota() -> impl Strategy<Value = QuotaOverride> {
    let one = || prop_oneof![Just(None), Just(Some(0)), (1_u64..300).prop_map(Some)];
    (one(), one(), one()).prop_map(|(open_requests, bytes_per_minute, storage_bytes)| QuotaOverride {
        open_requests,
        bytes_per_minute,
        storage_bytes,
    })
}

proptest! {
    #[test]
    fn no_window_takes_more_than_the_limit_and_one_body(limit in limit(), start in 0..MINUTE, bodies in bodies()) {
        let (mut now, mut free_at) = (start, 0);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for (pause, bytes) in bodies {
            now += pause;
            if let Intake::Pass { free_at: next } = judge_bytes(limit, bytes, free_at, now) {
                free_at = next;
                taken.push((now, bytes));
            }
        }
        for (i, (from, _)) in taken.iter().enumerate() {
            let mut sum = 0_u128;
            for (to, bytes) in &taken[i..] {
                // The last body may be larger than what was left.
                let earned = u128::from(to - from) * u128::from(limit) / u128::from(MINUTE);
                prop_assert!(sum <= u128::from(limit) + earned, "{sum} before the last in {} ns", to - from);
                sum += u128::from(*bytes);
            }
        }
    }

    #[test]
    fn a_wait_is_exact(limit in limit(), bytes in 1_u64..5_000_000, now in 0..MINUTE, ahead in 0..10 * MINUTE) {
        let free_at = now + ahead;
        match judge_bytes(limit, bytes, free_at, now) {
            Intake::Pass { free_at: next } => {
                prop_assert!(ahead < MINUTE && next > free_at.max(now), "a body is never free");
                prop_assert_eq!(next, charge_bytes(limit, bytes, free_at, now));
                prop_assert!(bytes_in_use(limit, next, now) >= bytes.min(limit) || ahead > 0);
            }
            Intake::Wait { nanos } => {
                prop_assert!(ahead >= MINUTE && nanos > 0);
                let passes = |at| matches!(judge_bytes(limit, bytes, free_at, at), Intake::Pass { .. });
                prop_assert!(passes(now + nanos) && !passes(now + nanos - 1));
                prop_assert!(bytes_in_use(limit, free_at, now) >= limit);
            }
        }
    }

    #[test]
    fn another_limit_changes_what_is_left_and_not_what_is_used(
        before in 1_u64..10_000_000, after in 1_u64..10_000_000, now in 0..MINUTE, ahead in 0..3 * MINUTE,
    ) {
        let used = bytes_in_use(before, now + ahead, now);
        let changed = rescaled(before, after, now + ahead, now);
        let used_after = bytes_in_use(after, changed, now);
        prop_assert!((used..=used + 1).contains(&used_after), "{used} became {used_after}");
    }

    #[test]
    fn an_override_replaces_only_what_it_names(own in quota(), defaults in quota()) {
        let defaults = defaults.over(Quota::default());
        let quota = own.over(defaults);
        prop_assert_eq!(quota.open_requests, own.open_requests.unwrap_or(defaults.open_requests));
        prop_assert_eq!(quota.bytes_per_minute, own.bytes_per_minute.unwrap_or(defaults.bytes_per_minute));
        prop_assert_eq!(quota.storage_bytes, own.storage_bytes.unwrap_or(defaults.storage_bytes));
        prop_assert_eq!(QuotaOverride::default().over(defaults), defaults);
    }

    #[test]
    fn a_team_has_what_its_members_store_and_bars_only_them(
        stored in btree_map(name(), 0_u64..200, 0..4), members in vec(name(), 0..4), own in quota(), team in quota(),
        default in 0_u64..200,
    ) {
        let stored: HashMap<String, u64> = stored.into_iter().collect();
        let mut members = members;
        members.sort_unstable();
        members.dedup();
        let pairs = members.iter().map(|member| ("red".to_owned(), member.clone())).collect();
        let (ada, red) = (Subject::of(SubjectKind::Principal, "ada"), Subject::of(SubjectKind::Team, "red"));
        let defaults = Defaults {
            principal: Quota { storage_bytes: default, ..Quota::default() },
            team: Quota::default(),
        };
        let overrides = HashMap::from([(ada.clone(), own), (red.clone(), team)]);
        let set = QuotaSet::new(defaults, overrides, pairs, &stored);
        let sum: u64 = members.iter().filter_map(|member| stored.get(member)).sum();
        let team_limit = team.storage_bytes.unwrap_or(0);
        let team_is_full = team_limit > 0 && sum >= team_limit;
        for name in ["ada", "bob", "cy", "dee"] {
            let used = stored.get(name).copied();
            let limit = if name == "ada" { own.storage_bytes.unwrap_or(default) } else { default };
            let expected = match used.filter(|used| limit > 0 && *used >= limit) {
                Some(used) => Some(Full { subject: Subject::of(SubjectKind::Principal, name), limit, used }),
                None if team_is_full && members.iter().any(|member| member == name) => {
                    Some(Full { subject: red.clone(), limit: team_limit, used: sum })
                }
                None => None,
            };
            prop_assert_eq!(set.full(name), expected.as_ref());
            prop_assert_eq!(set.teams(name).is_empty(), !members.iter().any(|member| member == name));
        }
        let nobody = ["ada", "bob", "cy", "dee"].iter().all(|name| set.full(name).is_none());
        prop_assert_eq!(set.has_room(), nobody);
        let any = default > 0 || own.storage_bytes.unwrap_or(0) > 0 || team_limit > 0;
        prop_assert_eq!(set.limits(|quota| quota.storage_bytes), any);
        prop_assert_eq!(set.of(&red), team.over(Quota::default()));
    }

    #[test]
    fn counting_a_part_again_changes_the_sums_by_the_difference(
        before in btree_map(name(), 0_i64..100, 0..4), after in btree_map(name(), 0_i64..100, 0..4),
    ) {
        let changes = difference(&before, &after);
        let mut sums: BTreeMap<String, i64> = before.clone();
        for (principal, change) in &changes {
            prop_assert_ne!(*change, 0);
            *sums.entry(principal.clone()).or_default() += change;
        }
        for name in ["ada", "bob", "cy", "dee"] {
            prop_assert_eq!(sums.get(name).copied().unwrap_or(0), after.get(name).copied().unwrap_or(0));
        }
        prop_assert!(difference(&after, &after).is_empty());
    }
}

#[test]
fn a_refusal_says_whose_quota_it_is_and_what_to_do() {
    let (ada, red) = (Subject::of(SubjectKind::Principal, "ada"), Subject::of(SubjectKind::Team, "red"));
    let refusal = busy(&red, 7);
    assert_eq!((refusal.code, refusal.retry_after_seconds), (Code::RateLimited, Some(1)));
    assert!(
        refusal.message.contains("team:red is 7 requests") && refusal.message.contains("/teams/red/quotas")
    );
    let refusal = spent(&ada, 1_000, 2_500_000_000);
    assert_eq!((refusal.code, refusal.retry_after_seconds), (Code::RateLimited, Some(3)));
    assert_eq!(spent(&ada, 1_000, 1).retry_after_seconds, Some(1));
    let refusal = Full { subject: ada, limit: 10, used: 12 }.refusal();
    assert_eq!(refusal.code, Code::StorageFull);
    assert!(refusal.message.contains("principal:ada stores 12 bytes, and its quota is 10"));
    assert!(refusal.message.contains("PUT /api/v1/principals/ada/quotas"));
}

#[test]
fn a_value_has_a_maximum() {
    let quota = QuotaOverride { storage_bytes: Some(MOST), ..QuotaOverride::default() };
    assert!(quota.check().is_ok() && QuotaOverride::default().check().is_ok());
    let refusal = QuotaOverride { bytes_per_minute: Some(MOST + 1), ..quota }.check().unwrap_err();
    assert_eq!((refusal.code, refusal.errors[0].loc[1].as_str()), (Code::InvalidRequest, "bytes_per_minute"));
}
